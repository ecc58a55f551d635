"""Vectors that a person brings along: .npy and .npz files, checked row by row. Nothing is ever unpickled."""

import io
import os
import tokenize
import zipfile
import zlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import IO, Any

import numpy as np
import torch

from engine.data.files import check_growth, opened, present, readable
from engine.data.tables import as_id
from engine.data.textfiles import SHORT, SILENT, STOPPED, lines
from engine.errors import DataError
from engine.progress import Progress, Stop, with_cancellation
from engine.values import Embeddings, Notice

SUFFIXES = (".npy", ".npz")

_BLOCK = 1 << 22  # numbers converted at a time: 16 MB of float32
_SLICE = 1 << 20  # bytes unpacked at a time
_HEADER = 10_000  # bytes of a header; those of plain numbers have 118
_MEMBERS = 1000  # arrays in a .npz
_PACKED = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_UNREADABLE = (
    *(OSError, ValueError, TypeError, EOFError, LookupError, ArithmeticError, MemoryError, RuntimeError, SyntaxError),
    *(zipfile.BadZipFile, zlib.error, tokenize.TokenError),
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
    return read_vectors(path, ids, normalize, with_cancellation(progress, stop, STOPPED))[0]


def read_vectors(
    path: str | Path,
    ids: Sequence[str] | str | Path | None = None,
    normalize: bool = False,
    watch: Progress = SILENT,
) -> tuple[Embeddings, tuple[Notice, ...]]:
    """The same, with a notice where no ids came with the vectors."""
    path = Path(path)
    array, inside = _arrays(path)
    if ids is None:
        beside = (path.with_name(f"{path.stem}.ids.txt"), path.with_name("ids.txt"))
        ids = inside if inside is not None else next(filter(present, beside), None)
    notices: tuple[Notice, ...] = ()
    if ids is None:
        names = tuple(map(str, range(len(array))))
        notices = (Notice("vectors without ids: their ids are row numbers, counted from 0", len(names)),)
    elif isinstance(ids, (str, Path)):
        ids_file = Path(ids)
        texts = (
            (number, text.removesuffix("\n").removesuffix("\r")) for number, text in lines(ids_file, longest=SHORT)
        )
        names = tuple(as_id(text, f"{ids_file.name} line {number}") for number, text in islice(texts, len(array)))
        if next(texts, None):
            raise DataError(_how_many(path, len(array), f"more than {len(array)}"))
    else:
        names = tuple(as_id(value, f"{path.name} row {row}") for row, value in enumerate(ids))
    if len(names) != len(array):
        raise DataError(_how_many(path, len(array), str(len(names))))
    if len(set(names)) < len(names):
        twice = [doc for doc, count in Counter(names).items() if count > 1]
        raise DataError(f"{path.name}: {_listed('occur more than once', twice)}")
    rows = _float32(path, array, names, normalize, watch)
    file = path if rows is array and isinstance(array, np.memmap) else None
    return Embeddings(names, torch.from_numpy(rows)).with_file(file), notices


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


@dataclass(frozen=True)
class _Header:
    """What an array says of itself, before any of it is read."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    columns_first: bool
    begins: int  # offset of its first number

    @property
    def count(self) -> int:
        return int(np.prod(np.array((1, *self.shape), dtype=object)))

    @property
    def bytes(self) -> int:
        return self.count * self.dtype.itemsize

    def of(self, numbers: np.ndarray) -> np.ndarray:
        return numbers.reshape(self.shape[::-1]).T if self.columns_first else numbers.reshape(self.shape)


def _arrays(path: Path) -> tuple[np.ndarray, Sequence[Any] | None]:
    """The matrix (mapped from disk where it can be) and the ids of the file."""
    if not present(path):
        raise DataError(f"{path} does not exist; expected a .npy or .npz file of vectors")
    try:
        with opened(path) as file, readable(path):
            on_disk = os.fstat(file.fileno()).st_size
            start = file.read(4)
            file.seek(0)
            if start.startswith(b"PK"):
                with zipfile.ZipFile(_Frugal(file)) as archive:
                    return _unpacked(path, archive, on_disk)
            header = _matrix_header(path, _header(path, file, path.name), on_disk)
            # Mapped, so that a matrix which must be converted is in memory once, and any other only as pages of the
            # file. "c" is writeable, as torch wants it; what would be written stayed in memory, never in the file.
            order = "F" if header.columns_first else "C"
            return np.memmap(file, header.dtype, "c", header.begins, header.shape, order), None  # type: ignore[call-overload]
    except DataError:
        raise
    except _UNREADABLE as error:
        raise DataError(f"{path.name} is not a readable NumPy file: {str(error) or type(error).__name__}") from None


class _Frugal(io.RawIOBase):
    """A file of which nobody reads much at once: a zip's directory is read whole, however large it says it is."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = 0) -> int:
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        return self._file.tell()

    def read(self, size: int = -1) -> bytes:
        part = self._file.read(_SLICE + 1) if size < 0 or size > _SLICE else self._file.read(size)
        if len(part) > _SLICE:
            raise ValueError(f"its directory has more than {_SLICE:,} bytes")
        return part


def _header(path: Path, file: IO[bytes], what: str) -> _Header:
    """The header of an array. Raises DataError for what holds no plain values, and what `_UNREADABLE` lists."""
    start = file.read(8)
    if start[:1] == b"\x80" and start[1:2] in b"\x02\x03\x04\x05":
        raise DataError(f"{path.name} {_REFUSED}")
    if start[:6] != b"\x93NUMPY":
        raise DataError(
            f"{path.name} is not a readable NumPy file: {what} begins with {start!r} and not with b'\\x93NUMPY'; "
            "np.save and np.savez write such files"
        )
    long = start[6:7] == b"\x02"
    length = file.read(4 if long else 2)
    size = int.from_bytes(length, "little")
    if start[6:] not in (b"\x01\x00", b"\x02\x00") or size > _HEADER:
        raise DataError(f"{path.name} is not a readable NumPy file: a header {start[6:]!r} of {size:,} bytes in {what}")
    read = np.lib.format.read_array_header_2_0 if long else np.lib.format.read_array_header_1_0
    # RecursionError is a RuntimeError: a header is parsed as a literal of Python.
    shape, columns_first, dtype = read(io.BytesIO(length + file.read(size)), max_header_size=_HEADER)
    if dtype.hasobject:
        raise DataError(f"{path.name} {_REFUSED}")
    if min(shape, default=0) < 0:
        raise DataError(f"{path.name} is not a readable NumPy file: {what} has the shape {shape}")
    return _Header(shape, dtype, columns_first, len(start) + len(length) + size)


def _matrix_header(path: Path, header: _Header, has: int) -> _Header:
    """The header of a matrix that has as many bytes as it says. Raises DataError."""
    if len(header.shape) != 2 or 0 in header.shape:
        raise DataError(
            f"{path.name}: expected a matrix with a row for each document, (n, d); found shape {header.shape}"
        )
    if header.dtype.kind not in "fiu":
        raise DataError(f"{path.name}: expected numbers, for example float32; found dtype {header.dtype}")
    return _sized(path, header, has)


def _sized(path: Path, header: _Header, has: int) -> _Header:
    if difference := has - header.begins - header.bytes:
        what = f"{difference:,} bytes behind" if difference > 0 else f"{-difference:,} bytes less than"
        raise DataError(
            f"{path.name} has {what} the {header.dtype} numbers of shape {header.shape} that it names; save it anew"
        )
    return header


def _unpacked(path: Path, archive: zipfile.ZipFile, on_disk: int) -> tuple[np.ndarray, Sequence[Any] | None]:
    """The matrix and the ids of a .npz: sizes are checked before anything is unpacked."""
    members: dict[str, zipfile.ZipInfo] = {}
    for info in archive.infolist():
        if info.filename in members or len(members) == _MEMBERS:
            raise DataError(f"{path.name} has {info.filename!r} twice, or more than {_MEMBERS} arrays; save it anew")
        members[info.filename] = info
    arrays = {name.removesuffix(".npy"): info for name, info in members.items() if name.endswith(".npy")}
    headers = {name: _member_header(path, archive, info) for name, info in arrays.items()}
    name = _matrix_name(path, {name: header.shape for name, header in headers.items()})
    matrix = _matrix_header(path, headers[name], arrays[name].file_size)
    needed = matrix.bytes + (0 if matrix.dtype == np.float32 else 4 * matrix.count)
    if (ids := headers.get("ids")) is not None:
        if len(ids.shape) != 1 or ids.dtype.kind not in "USiu":
            raise DataError(
                f"{path.name}: 'ids' must be a 1-D array of strings; found shape {ids.shape}, dtype {ids.dtype}"
            )
        _sized(path, ids, arrays["ids"].file_size)
        needed += 2 * ids.bytes + 64 * ids.count
    check_growth(path, on_disk, needed, "save it unpacked, with np.save or np.savez")
    numbers = _values(archive, arrays[name], matrix)
    if ids is None:
        return numbers, None
    names = _values(archive, arrays["ids"], ids).tolist()
    # Bytes that are not UTF-8 raise a ValueError, which the caller reports.
    return numbers, [raw.decode() for raw in names] if ids.dtype.kind == "S" else names


def _member_header(path: Path, archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> _Header:
    if info.compress_type not in _PACKED:
        raise DataError(f"{path.name}: {info.filename} is packed as np.savez does not; save it with np.savez")
    with archive.open(info) as file:
        return _header(path, file, info.filename)


def _matrix_name(path: Path, shapes: dict[str, tuple[int, ...]]) -> str:
    if "vectors" in shapes:
        return "vectors"
    matrices = [name for name, shape in shapes.items() if len(shape) == 2 and name != "ids"]
    if len(matrices) != 1:
        listed = ", ".join(f"{name} {shape}" for name, shape in shapes.items() if name != "ids") or "no arrays"
        raise DataError(f"{path.name}: expected an array called 'vectors' or a single 2-D array; found {listed}")
    return matrices[0]


def _values(archive: zipfile.ZipFile, info: zipfile.ZipInfo, header: _Header) -> np.ndarray:
    """An array of a .npz, as large as it says. Raises EOFError where it ends before."""
    numbers = np.empty(header.count, header.dtype)
    into = numbers.view(np.uint8)
    with archive.open(info) as file:
        file.read(header.begins)
        for start in range(0, header.bytes, _SLICE):
            part = file.read(min(_SLICE, header.bytes - start))
            into[start : start + len(part)] = np.frombuffer(part, np.uint8)
            if len(part) < min(_SLICE, header.bytes - start):
                raise EOFError(f"{info.filename} ends after {start + len(part):,} of {header.bytes:,} bytes")
        file.read(1)  # the end, where its checksum is compared
    return header.of(numbers)


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


def _how_many(path: Path, rows: int, ids: str) -> str:
    return f"{path.name} has {rows} rows but {ids} ids; one id is needed for each row"


def _listed(what: str, ids: Sequence[str]) -> str:
    first = f" (first: {', '.join(map(repr, ids[:5]))})" if ids else ""
    return f"{len(ids)} ids {what}{first}"
