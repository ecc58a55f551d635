"""Vectors from .npy and .npz files, checked row by row; nothing is ever unpickled."""

import io
import os
import tokenize
import zipfile
import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import filterfalse, islice
from pathlib import Path
from typing import IO, Any

import numpy as np
import torch

from engine.data.files import check_growth, is_present, open_regular, translate_read_errors
from engine.data.tables import parse_id
from engine.data.textfiles import MAX_SHORT_LINE_BYTES, SILENT_PROGRESS, STOPPED_MESSAGE, read_lines
from engine.errors import DataError
from engine.progress import Progress, Stop, counted, with_cancellation
from engine.values import Embeddings, Notice

VECTOR_SUFFIXES = (".npy", ".npz")

# Numbers converted at a time: 16 MB of float32.
_BLOCK_NUMBERS = 1 << 22
_MAX_READ_BYTES = 1 << 20
# Headers of plain numbers have 118 bytes.
_MAX_HEADER_BYTES = 10_000
_MAX_ARRAYS = 1000
_ZIP_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_READ_ERRORS = (
    *(OSError, ValueError, TypeError, EOFError, LookupError, ArithmeticError, MemoryError, RuntimeError, SyntaxError),
    *(zipfile.BadZipFile, zlib.error, tokenize.TokenError),
)
# A pickle's second byte is the version of its protocol.
_PICKLE_PROTOCOLS = (b"\x02", b"\x03", b"\x04", b"\x05")
_PICKLE_REFUSAL = (
    "holds Python objects, which only unpickling could read, and unpickling a file runs whatever code is in it; "
    "save plain numbers: np.save(path, np.stack(list(vectors)).astype('float32')), ids as np.array(ids, dtype=str)"
)


_BFLOAT16_REFUSAL = (
    "and its bits are those of bfloat16; save float32: tensor.float().numpy(), or "
    "(array.view('uint16').astype('uint32') << 16).view('float32')"
)
# Magnitudes of coordinates; of whole numbers hardly any has bits that are one of these in bfloat16.
_BFLOAT16_RANGE = (1e-8, 64.0)
_BFLOAT16_SHARE = 0.99
_BFLOAT16_ROWS = 64


def load_vectors(
    path: str | Path,
    ids: Sequence[str] | str | Path | None = None,
    normalize: bool = False,
    progress: Progress | None = None,
    stop: Stop | None = None,
) -> Embeddings:
    """Load the (n, d) matrix of a .npy or .npz file as float32, with one id for each row.

    Parameters
    ----------
    path : str or Path
        A .npy file, or a .npz file with the array `vectors` or a single 2-D array, and optionally 1-D strings `ids`.
    ids : sequence of str, str or Path, optional
        Ids of the rows, or a text file with one id on each line. None takes the `ids` of the .npz, else
        `<stem>.ids.txt` or `ids.txt` in the file's folder, else row numbers from 0.
    normalize : bool, default False
        Scale rows to length 1.
    progress : callable, optional
        Called repeatedly as progress(done, total, label).
    stop : Stop, optional
        Loading is cancelled once it is set.

    Returns
    -------
    Embeddings
        Vectors of shape (n, d) on the CPU.

    Raises
    ------
    DataError
        For anything but (n, d) finite numbers in the range of float32, and for ids that do not fit the rows.
    Cancelled
        If `stop` was set.

    Examples
    --------
    >>> import engine, numpy, tempfile
    >>> path = tempfile.gettempdir() + "/vectors.npy"
    >>> numpy.save(path, numpy.eye(3, dtype="float32"))
    >>> engine.load_vectors(path, ["a", "b", "c"]).ids
    ('a', 'b', 'c')
    """
    return read_vectors(path, ids, normalize, with_cancellation(progress, stop, STOPPED_MESSAGE))[0]


def read_vectors(
    path: str | Path,
    ids: Sequence[str] | str | Path | None = None,
    normalize: bool = False,
    progress: Progress = SILENT_PROGRESS,
) -> tuple[Embeddings, tuple[Notice, ...]]:
    """Load the matrix of a .npy or .npz file; return embeddings, and a notice if they have no ids.

    ids: of the rows, or a text file with one on each line; None takes those in the archive or in a file beside it, else
    row numbers. normalize: scale rows to length 1. Raises DataError for an unreadable file, and for ids that are
    repeated or not as many as the rows.
    """
    path = Path(path)
    raw_matrix, archived_ids = _open_arrays(path)
    _refuse_bfloat16(path, raw_matrix)
    # The caller's ids come first, then those inside the archive, then those of a text file beside it.
    if ids is None:
        ids_candidates = (path.with_name(f"{path.stem}.ids.txt"), path.with_name("ids.txt"))
        ids = archived_ids if archived_ids is not None else next(filter(is_present, ids_candidates), None)
    notices: tuple[Notice, ...] = ()
    if ids is None:
        doc_ids = tuple(map(str, range(len(raw_matrix))))
        notices = (
            Notice(
                "vectors without ids: their ids are row numbers, counted from 0", len(doc_ids),
                singular="vector without an id: its id is its row number, counted from 0",
            ),
        )  # fmt: skip
    elif isinstance(ids, (str, Path)):
        doc_ids = _read_ids_file(Path(ids), path, len(raw_matrix))
    else:
        doc_ids = tuple(parse_id(id_value, f"{path.name} row {row_index}") for row_index, id_value in enumerate(ids))
    if len(doc_ids) != len(raw_matrix):
        raise DataError(_describe_mismatch(path, len(raw_matrix), counted(len(doc_ids), "id")))
    if len(set(doc_ids)) < len(doc_ids):
        repeated_ids = [doc_id for doc_id, n_occurrences in Counter(doc_ids).items() if n_occurrences > 1]
        raise DataError(f"{path.name}: {_format_ids('more than once', repeated_ids)}")
    matrix_rows = _convert_to_float32(path, raw_matrix, doc_ids, normalize, progress)
    # The embeddings remember their file only if they are its pages, not a converted copy.
    mapped_path = path if matrix_rows is raw_matrix and isinstance(raw_matrix, np.memmap) else None
    return Embeddings(doc_ids, torch.from_numpy(matrix_rows)).with_file(mapped_path), notices


def _refuse_bfloat16(path: Path, raw_matrix: np.ndarray) -> None:
    """Raise DataError for whole numbers that are most likely the bits of bfloat16, which NumPy does not have."""
    if raw_matrix.dtype != np.uint16:
        return
    numbers = np.ascontiguousarray(raw_matrix[:_BFLOAT16_ROWS])
    decoded = np.abs((numbers.astype(np.uint32) << 16).view(np.float32))
    min_magnitude, max_magnitude = _BFLOAT16_RANGE
    is_coordinate = (decoded == 0) | ((decoded >= min_magnitude) & (decoded <= max_magnitude))
    if numbers.any() and is_coordinate.mean() >= _BFLOAT16_SHARE:
        example = int(numbers.max())
        raise DataError(f"{path.name}: uint16 numbers such as {example:,} are no coordinates, {_BFLOAT16_REFUSAL}")


def _read_ids_file(ids_file: Path, vectors_path: Path, n_rows: int) -> tuple[str, ...]:
    """Read the ids of a matrix's rows from a text file with one on each line.

    vectors_path: the matrix's file, for errors. Raises DataError for more than `n_rows` lines; fewer are not checked.
    """
    numbered_lines = read_lines(ids_file, max_bytes=MAX_SHORT_LINE_BYTES)
    doc_ids = tuple(
        parse_id(line_text.removesuffix("\n").removesuffix("\r"), f"{ids_file.name} line {line_number}")
        for line_number, line_text in islice(numbered_lines, n_rows)
    )
    # Only as many lines were read as there are rows, so that a further one means too many ids.
    if next(numbered_lines, None):
        raise DataError(_describe_mismatch(vectors_path, n_rows, f"more than {counted(n_rows, 'id')}"))
    return doc_ids


def align_vectors(embeddings: Embeddings, ids: tuple[str, ...], path: Path) -> Embeddings:
    """Reorder the rows of embeddings to the order of `ids`; path: their file, for errors.

    Raises DataError if embeddings and ids do not name the same documents.
    """
    if embeddings.ids == ids:
        return embeddings
    position = embeddings.position
    missing_ids = list(filterfalse(position.__contains__, ids))
    extra_ids = sorted(position.keys() - set(ids), key=position.__getitem__)
    if missing_ids or extra_ids:
        raise DataError(
            f"{path.name} and the corpus name different documents: "
            f"{_format_ids('without a vector', missing_ids)}, {_format_ids('not in the corpus', extra_ids)}"
        )
    return Embeddings(ids, embeddings.vectors[list(map(position.__getitem__, ids))], embeddings.encoder)


@dataclass(frozen=True)
class _ArrayHeader:
    """Header of a NumPy array: what is known of it before its numbers are read."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    is_column_major: bool  # True if columns, not rows, are contiguous
    data_offset: int  # bytes before the numbers

    @property
    def n_numbers(self) -> int:
        """Number of entries of the array, the product of its dimensions."""
        # As objects these are integers of Python, which a forged shape cannot make overflow.
        return int(np.prod(np.array((1, *self.shape), dtype=object)))

    @property
    def n_bytes(self) -> int:
        return self.n_numbers * self.dtype.itemsize

    def reshape_numbers(self, numbers: np.ndarray) -> np.ndarray:
        """Return a flat array in the shape and the memory order that the header declares."""
        return numbers.reshape(self.shape[::-1]).T if self.is_column_major else numbers.reshape(self.shape)


def _open_arrays(path: Path) -> tuple[np.ndarray, Sequence[Any] | None]:
    """Open a file of vectors; return the matrix, and the ids in the file.

    The matrix is mapped from the disk if possible. The ids are None for a .npy file, or an archive without them.
    """
    if not is_present(path):
        raise DataError(f"{path} does not exist; expected a .npy or .npz file of vectors")
    try:
        with open_regular(path) as vectors_file, translate_read_errors(path):
            on_disk = os.fstat(vectors_file.fileno()).st_size
            magic_bytes = vectors_file.read(4)
            vectors_file.seek(0)
            if magic_bytes.startswith(b"PK"):
                with zipfile.ZipFile(_BoundedFile(vectors_file)) as archive:
                    return _unpack_archive(path, archive, on_disk)
            header = _check_matrix_header(path, _read_header(path, vectors_file, path.name), on_disk)
            # A mapped matrix is in memory once if it must be converted, else only as pages of the file. Mode "c" is
            # writeable, which torch requires, but changes stay in memory and never reach the file.
            memory_order = "F" if header.is_column_major else "C"
            return np.memmap(vectors_file, header.dtype, "c", header.data_offset, header.shape, memory_order), None  # type: ignore[call-overload]
    except DataError:
        raise
    except _READ_ERRORS as error:
        raise _unreadable_error(path, str(error) or type(error).__name__) from None


class _BoundedFile(io.RawIOBase):
    """File that refuses large reads: zipfile reads a directory whole, whatever size it claims."""

    def __init__(self, wrapped_file: IO[bytes]) -> None:
        self._file = wrapped_file

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = 0) -> int:
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        return self._file.tell()

    def read(self, n_bytes: int = -1) -> bytes:
        """Read up to `n_bytes`, all for −1, for a reader of zip files.

        Raises ValueError for more bytes than the archive's directory, its list of files, can need.
        """
        # One byte more than the limit tells a longer directory from one that just fits.
        is_limited = 0 <= n_bytes <= _MAX_READ_BYTES
        read_part = self._file.read(n_bytes if is_limited else _MAX_READ_BYTES + 1)
        if len(read_part) > _MAX_READ_BYTES:
            raise ValueError(f"its directory has more than {_MAX_READ_BYTES:,} bytes")
        return read_part


def _read_header(path: Path, array_file: IO[bytes], description: str) -> _ArrayHeader:
    """Read the header of an array at the file's position.

    path, description: name the file and the array in errors. Raises DataError for pickled objects and unreadable
    headers, and the errors in `_READ_ERRORS`.
    """
    magic_bytes = array_file.read(8)
    # A bare pickle begins with this byte and the version of its protocol.
    if magic_bytes[:1] == b"\x80" and magic_bytes[1:2] in _PICKLE_PROTOCOLS:
        raise DataError(f"{path.name} {_PICKLE_REFUSAL}")
    if magic_bytes[:6] != b"\x93NUMPY":
        cause = f"begins with {magic_bytes!r} and not with b'\\x93NUMPY'; np.save and np.savez write such files"
        raise _unreadable_error(path, f"{description} {cause}")
    # Version 2 of the format has a longer field for the length of its header.
    is_version_2 = magic_bytes[6:7] == b"\x02"
    length_field = array_file.read(4 if is_version_2 else 2)
    header_bytes = int.from_bytes(length_field, "little")
    if magic_bytes[6:] not in (b"\x01\x00", b"\x02\x00") or header_bytes > _MAX_HEADER_BYTES:
        raise _unreadable_error(path, f"a header {magic_bytes[6:]!r} of {header_bytes:,} bytes in {description}")
    parse_header = np.lib.format.read_array_header_2_0 if is_version_2 else np.lib.format.read_array_header_1_0
    # RecursionError is a RuntimeError: a header is parsed as a literal of Python.
    header_stream = io.BytesIO(length_field + array_file.read(header_bytes))
    array_shape, is_column_major, dtype = parse_header(header_stream, max_header_size=_MAX_HEADER_BYTES)
    if dtype.hasobject:
        raise DataError(f"{path.name} {_PICKLE_REFUSAL}")
    if min(array_shape, default=0) < 0:
        raise _unreadable_error(path, f"{description} has the shape {array_shape}")
    return _ArrayHeader(array_shape, dtype, is_column_major, len(magic_bytes) + len(length_field) + header_bytes)


def _check_matrix_header(path: Path, header: _ArrayHeader, available_bytes: int) -> _ArrayHeader:
    """Return the header if it declares a numeric matrix that fills the file. Raises DataError.

    available_bytes: size of the file.
    """
    if len(header.shape) != 2 or 0 in header.shape:
        raise DataError(
            f"{path.name}: expected a matrix with a row for each document, (n, d); found shape {header.shape}"
        )
    if header.dtype.kind == "V" and header.dtype.itemsize == 2:
        raise DataError(f"{path.name}: NumPy has no type for {header.dtype}, {_BFLOAT16_REFUSAL}")
    if header.dtype.kind not in "fiu":
        raise DataError(f"{path.name}: expected numbers, for example float32; found dtype {header.dtype}")
    return _check_size(path, header, available_bytes)


def _check_size(path: Path, header: _ArrayHeader, available_bytes: int) -> _ArrayHeader:
    """Return the header if the file has exactly the bytes that it declares. Raises DataError."""
    if difference := available_bytes - header.data_offset - header.n_bytes:
        description = f"{difference:,} bytes behind" if difference > 0 else f"{-difference:,} bytes less than"
        raise DataError(
            f"{path.name} has {description} the {header.dtype} numbers of shape {header.shape} that it names; "
            "save it anew"
        )
    return header


def _unpack_archive(path: Path, archive: zipfile.ZipFile, on_disk: int) -> tuple[np.ndarray, Sequence[Any] | None]:
    """Unpack matrix and ids of a .npz file; ids are None if it has none.

    on_disk: bytes of the archive, to which the unpacked size is compared before anything is unpacked. Raises DataError.
    """
    members: dict[str, zipfile.ZipInfo] = {}
    for member_info in archive.infolist():
        file_name = member_info.filename
        if file_name in members or len(members) == _MAX_ARRAYS:
            raise DataError(f"{path.name} has {file_name!r} twice, or more than {_MAX_ARRAYS} arrays; save it anew")
        members[file_name] = member_info
    array_members = {name.removesuffix(".npy"): member for name, member in members.items() if name.endswith(".npy")}
    array_headers = {name: _read_member_header(path, archive, member) for name, member in array_members.items()}
    array_name = _find_matrix_name(path, array_headers)
    matrix_header = _check_matrix_header(path, array_headers[array_name], array_members[array_name].file_size)
    # Other numbers are converted to float32, and ids become strings of Python beside their array.
    needed_bytes = matrix_header.n_bytes + (0 if matrix_header.dtype == np.float32 else 4 * matrix_header.n_numbers)
    if (ids_header := array_headers.get("ids")) is not None:
        if len(ids_header.shape) != 1 or ids_header.dtype.kind not in "USiu":
            raise DataError(
                f"{path.name}: 'ids' must be a 1-D array of strings; found shape {ids_header.shape}, dtype "
                f"{ids_header.dtype}"
            )
        _check_size(path, ids_header, array_members["ids"].file_size)
        needed_bytes += 2 * ids_header.n_bytes + 64 * ids_header.n_numbers
    check_growth(path, on_disk, needed_bytes, "save it unpacked, with np.save or np.savez")
    numbers = _read_array(archive, array_members[array_name], matrix_header)
    if ids_header is None:
        return numbers, None
    raw_ids = _read_array(archive, array_members["ids"], ids_header).tolist()
    # Bytes that are not UTF-8 raise a ValueError, which the caller translates.
    return numbers, [raw_id.decode() for raw_id in raw_ids] if ids_header.dtype.kind == "S" else raw_ids


def _read_member_header(path: Path, archive: zipfile.ZipFile, member_info: zipfile.ZipInfo) -> _ArrayHeader:
    """Read the header of one array in a .npz file. Raises DataError for an unusual compression."""
    if member_info.compress_type not in _ZIP_METHODS:
        raise DataError(f"{path.name}: {member_info.filename} is packed as np.savez does not; save it with np.savez")
    with archive.open(member_info) as member_file:
        return _read_header(path, member_file, member_info.filename)


def _find_matrix_name(path: Path, headers: Mapping[str, _ArrayHeader]) -> str:
    """Return the name of the matrix in an archive: "vectors", else its only 2-D array. Raises DataError."""
    if "vectors" in headers:
        return "vectors"
    shapes = {array_name: header.shape for array_name, header in headers.items() if array_name != "ids"}
    matrix_names = [array_name for array_name, shape in shapes.items() if len(shape) == 2]
    if len(matrix_names) != 1:
        listed_arrays = ", ".join(f"{array_name} {shape}" for array_name, shape in shapes.items()) or "no arrays"
        raise DataError(f"{path.name}: expected an array called 'vectors' or a single 2-D array; found {listed_arrays}")
    return matrix_names[0]


def _read_array(archive: zipfile.ZipFile, member_info: zipfile.ZipInfo, header: _ArrayHeader) -> np.ndarray:
    """Read an array of a .npz file in the size that its header declares.

    Raises EOFError if the data end earlier.
    """
    numbers = np.empty(header.n_numbers, header.dtype)
    target_bytes = numbers.view(np.uint8)
    with archive.open(member_info) as member_file:
        member_file.read(header.data_offset)  # skips the header
        for start_byte in range(0, header.n_bytes, _MAX_READ_BYTES):
            part_bytes = min(_MAX_READ_BYTES, header.n_bytes - start_byte)
            read_part = member_file.read(part_bytes)
            end_byte = start_byte + len(read_part)
            target_bytes[start_byte:end_byte] = np.frombuffer(read_part, np.uint8)
            if len(read_part) < part_bytes:
                raise EOFError(f"{member_info.filename} ends after {end_byte:,} of {header.n_bytes:,} bytes")
        member_file.read(1)  # the end, where its checksum is compared
    return header.reshape_numbers(numbers)


def _convert_to_float32(
    path: Path, raw_matrix: np.ndarray, ids: tuple[str, ...], normalize: bool, progress: Progress
) -> np.ndarray:
    """Return the matrix as (n, d) contiguous float32 rows, after a check of every block.

    A mapped file that is float32 already is returned as it is, without a copy. Raises DataError that names the first
    rows with numbers that are not finite, too large, or without a length to scale.
    """
    n_rows = len(raw_matrix)
    # Scaling a mapped file in place would copy its pages into memory anyway, so scaled rows get a matrix.
    flags = raw_matrix.flags
    is_usable = raw_matrix.dtype == np.float32 and flags.c_contiguous and flags.writeable and not normalize
    converted = raw_matrix if is_usable else np.empty(raw_matrix.shape, dtype=np.float32)
    not_finite, too_large, no_length = [], [], []
    block_rows = max(1, _BLOCK_NUMBERS // raw_matrix.shape[1])
    for start_row in range(0, n_rows, block_rows):
        progress(start_row, n_rows, f"reading {path.name}")
        block_slice = slice(start_row, start_row + block_rows)
        block, target_block = raw_matrix[block_slice], converted[block_slice]
        if not is_usable:
            with np.errstate(over="ignore"):
                target_block[:] = block
        # A finite sum shows that a block is finite without an array of its size; other blocks are checked by row.
        with np.errstate(over="ignore", invalid="ignore"):
            has_finite_sum = np.isfinite(target_block.sum())
        if not has_finite_sum and (bad_rows := ~np.isfinite(target_block).all(1)).any():
            # Finite numbers that are not so in float32 are too large for it.
            was_finite_row = np.isfinite(block).all(1)
            not_finite += (start_row + np.flatnonzero(~was_finite_row)).tolist()
            too_large += (start_row + np.flatnonzero(bad_rows & was_finite_row)).tolist()
        elif normalize:
            # Norms are computed in float64, because the squares of large float32 numbers overflow.
            row_lengths = np.linalg.norm(target_block.astype(np.float64), axis=1, keepdims=True)
            no_length += (start_row + np.flatnonzero(row_lengths == 0)).tolist()
            np.divide(target_block, row_lengths, out=target_block, where=row_lengths > 0, casting="same_kind")
    progress(n_rows, n_rows, f"reading {path.name}")
    for row_indices, description in (
        (not_finite, "with NaN or infinity"),
        (too_large, "with values beyond float32 (3.4e38)"),
        (no_length, "of zeros alone, which cannot be scaled to length 1"),
    ):
        if row_indices:
            listed_rows = ", ".join(f"row {row_index} (id {ids[row_index]!r})" for row_index in row_indices[:5])
            raise DataError(
                f"{path.name}: {counted(len(row_indices), 'row')} {description}; counted from 0, the first are "
                f"{listed_rows}"
            )
    return converted


def _unreadable_error(path: Path, cause: str) -> DataError:
    """Return the error for a file that is no readable NumPy file."""
    return DataError(f"{path.name} is not a readable NumPy file: {cause}")


def _describe_mismatch(path: Path, n_rows: int, ids_text: str) -> str:
    """Describe different numbers of rows and ids in an error message; ids_text: their count with its noun."""
    return f"{path.name} has {counted(n_rows, 'row')} but {ids_text}; one id is needed for each row"


def _format_ids(description: str, ids: Sequence[str]) -> str:
    """Describe some ids in an error message: their number and the first of them."""
    first = f" (first: {', '.join(map(repr, ids[:5]))})" if ids else ""
    return f"{counted(len(ids), 'id')} {description}{first}"
