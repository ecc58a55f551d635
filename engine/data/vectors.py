"""Vectors that a person brings along: .npy and .npz files, checked row by row. Nothing is ever unpickled."""

import zipfile
import zlib
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from engine.data.tables import as_id
from engine.data.textfiles import SILENT, STOPPED, lines
from engine.errors import DataError
from engine.progress import Progress, Stop, stoppable
from engine.values import Embeddings, Notice

SUFFIXES = (".npy", ".npz")

_BLOCK = 1 << 22  # numbers converted at a time: 16 MB of float32
_UNREADABLE = (
    *(OSError, ValueError, TypeError, EOFError, LookupError, ArithmeticError, MemoryError, NotImplementedError),
    *(zipfile.BadZipFile, zlib.error),
)
_REFUSED = (
    "holds Python objects, which only unpickling could read, and unpickling a file runs whatever code is in it; "
    "save plain numbers: np.save(path, np.stack(list(vectors)).astype('float32')), ids as np.array(ids, dtype=str)"
)


def load_vectors(
    path: str | Path,
    ids: Sequence[str] | str | Path | None = None,
    normalize: bool = False,
    progress: Progress | None = None,
    stop: Stop | None = None,
) -> Embeddings:
    """The (n, d) numeric matrix of a .npy or .npz file as float32, one id a row.

    .npz: the array `vectors`, or the only 2-D array, and optionally a 1-D string array `ids`. ids: a sequence, or a
    text file with one id a line; None takes the `ids` of the .npz, else `<stem>.ids.txt` or `ids.txt` beside the file,
    else row numbers from 0. normalize: scale rows to length 1. Raises DataError for anything that is not (n, d)
    finite numbers within float32, or ids that do not fit; Cancelled.
    """
    return read_vectors(path, ids, normalize, stoppable(progress, stop, STOPPED))[0]


def read_vectors(
    path: str | Path,
    ids: Sequence[str] | str | Path | None = None,
    normalize: bool = False,
    watch: Progress = SILENT,
) -> tuple[Embeddings, tuple[Notice, ...]]:
    """The same, with a notice where no ids came with the vectors."""
    path = Path(path)
    array, inside = _arrays(path)
    if array.ndim != 2 or 0 in array.shape:
        raise DataError(
            f"{path.name}: expected a matrix with a row for each document, (n, d); found shape {array.shape}"
        )
    if array.dtype.kind not in "fiu":
        raise DataError(f"{path.name}: expected numbers, for example float32; found dtype {array.dtype}")
    if ids is None:
        ids = inside if inside is not None else _beside(path)
    notices: tuple[Notice, ...] = ()
    if ids is None:
        names = tuple(map(str, range(len(array))))
        notices = (Notice("vectors without ids: their ids are row numbers, counted from 0", len(names)),)
    elif isinstance(ids, (str, Path)):
        names = tuple(text.removesuffix("\n").removesuffix("\r") for _, text in lines(Path(ids)))
    else:
        names = tuple(as_id(value, f"{path.name} row {row}") for row, value in enumerate(ids))
    _check_ids(path, names, len(array))
    rows = _float32(path, array, names, normalize, watch)
    file = path if rows is array and isinstance(array, np.memmap) else None
    return Embeddings(names, torch.from_numpy(rows)).lying_in(file), notices


def aligned(embeddings: Embeddings, ids: tuple[str, ...], path: Path) -> Embeddings:
    """The rows re-ordered to `ids`. Raises DataError when the two do not name the same documents."""
    if embeddings.ids == ids:
        return embeddings
    position = {doc: row for row, doc in enumerate(embeddings.ids)}
    missing = [doc for doc in ids if doc not in position]
    extra = sorted(position.keys() - set(ids), key=position.__getitem__)
    if missing or extra:
        raise DataError(
            f"{path.name} and the corpus name different documents: {_listed('without a vector', missing)}, "
            f"{_listed('not in the corpus', extra)}"
        )
    return Embeddings(ids, embeddings.vectors[[position[doc] for doc in ids]], embeddings.encoder)


def _beside(path: Path) -> Path | None:
    return next((p for p in (path.with_name(f"{path.stem}.ids.txt"), path.with_name("ids.txt")) if p.is_file()), None)


def _arrays(path: Path) -> tuple[np.ndarray, list[Any] | None]:
    """The matrix (mapped from disk where it can be) and the ids of the file."""
    if not path.is_file():
        raise DataError(f"{path} does not exist; expected a .npy or .npz file of vectors")
    try:
        # Mapped, so that a matrix which must be converted is in memory once, and any other only as pages of the file.
        # "c" is writeable, as torch wants it; what would be written stayed in memory, and never reaches the file.
        loaded = np.load(path, mmap_mode="c", allow_pickle=False)
        if isinstance(loaded, np.ndarray):
            return loaded, None
        with loaded:
            return _matrix(path, loaded), _ids_inside(path, loaded)
    except DataError:
        raise
    except _UNREADABLE as error:
        if "pickle" in str(error) or "Python objects" in str(error):
            raise DataError(f"{path.name} {_REFUSED}") from None
        raise DataError(f"{path.name} is not a readable NumPy file: {error}") from None


def _matrix(path: Path, stored: Any) -> np.ndarray:
    if "vectors" in stored.files:
        array: np.ndarray = stored["vectors"]
        return array
    arrays = {name: value for name in stored.files if name != "ids" and isinstance(value := stored[name], np.ndarray)}
    matrices = [value for value in arrays.values() if value.ndim == 2]
    if len(matrices) != 1:
        shapes = ", ".join(f"{name} {value.shape}" for name, value in arrays.items()) or "no arrays"
        raise DataError(f"{path.name}: expected an array called 'vectors' or a single 2-D array; found {shapes}")
    return matrices[0]


def _ids_inside(path: Path, stored: Any) -> list[Any] | None:
    if "ids" not in stored.files:
        return None
    ids = stored["ids"]
    if ids.ndim != 1 or ids.dtype.kind not in "USiu":
        raise DataError(
            f"{path.name}: 'ids' must be a 1-D array of strings; found shape {ids.shape}, dtype {ids.dtype}"
        )
    # Bytes that are not UTF-8 raise a ValueError, which the caller reports.
    return [raw.decode() for raw in ids.tolist()] if ids.dtype.kind == "S" else ids.tolist()


def _check_ids(path: Path, ids: tuple[str, ...], rows: int) -> None:
    if len(ids) != rows:
        raise DataError(f"{path.name} has {rows} rows but {len(ids)} ids; one id is needed for each row")
    if len(set(ids)) < rows:
        twice = [doc for doc, count in Counter(ids).items() if count > 1]
        raise DataError(f"{path.name}: {_listed('occur more than once', twice)}")


def _float32(path: Path, array: np.ndarray, ids: tuple[str, ...], normalize: bool, watch: Progress) -> np.ndarray:
    """(n, d) float32, contiguous, checked and converted in blocks; a mapped file as it is where nothing changes."""
    total = len(array)
    # Whole pages of a map that are written are memory as good as a copy's: scaled rows get one of their own.
    usable = array.dtype == np.float32 and array.flags.c_contiguous and array.flags.writeable and not normalize
    out = array if usable else np.empty(array.shape, dtype=np.float32)
    not_finite: list[int] = []
    too_large: list[int] = []
    no_length: list[int] = []
    step = max(1, _BLOCK // array.shape[1])
    for start in range(0, total, step):
        watch(start, total, f"reading {path.name}")
        block, into = array[start : start + step], out[start : start + step]
        if not usable:
            with np.errstate(over="ignore"):
                into[:] = block
        # A sum shows that a block is finite without an array of its size; one that overflows is looked at closer.
        with np.errstate(over="ignore", invalid="ignore"):
            finite = np.isfinite(into.sum())
        if not finite and (bad := ~np.isfinite(into).all(1)).any():
            given = np.isfinite(block).all(1)
            not_finite += (start + np.flatnonzero(~given)).tolist()
            too_large += (start + np.flatnonzero(bad & given)).tolist()
        elif normalize:
            # In double: the squares of large float32 numbers overflow.
            length = np.linalg.norm(into.astype(np.float64), axis=1, keepdims=True)
            no_length += (start + np.flatnonzero(length == 0)).tolist()
            np.divide(into, length, out=into, where=length > 0, casting="same_kind")
    watch(total, total, f"reading {path.name}")
    for rows, what in (
        (not_finite, "hold NaN or infinity"),
        (too_large, "hold values beyond float32 (3.4e38)"),
        (no_length, "are all zero and cannot be scaled to length 1"),
    ):
        if rows:
            named = ", ".join(f"row {row} (id {ids[row]!r})" for row in rows[:5])
            raise DataError(f"{path.name}: {len(rows)} rows {what}; counted from 0, the first are {named}")
    return out


def _listed(what: str, ids: Sequence[str]) -> str:
    first = f" (first: {', '.join(map(repr, ids[:5]))})" if ids else ""
    return f"{len(ids)} ids {what}{first}"
