"""8-bit codes of vectors; those of files are computed in one pass and cached as mapped pages.

An entry is in the cache and not in the vectors' folder, which may be read-only, shared or versioned, and where a second
.npy would be read as somebody's vectors. It is named by the path, and identified by the file's size and time, the
shape, the length of every row, which is known anyway, and the bytes of some rows, so that neither a file that was
touched nor one that changed without a new time is mistaken for the other. A checksum over all of it, at the pace of
memory, finds damage. An entry that does not match is computed again. The bounds of nnn rest on the codes.
"""

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import numpy as np
import torch
from torch import Tensor

from engine.data import cache, inventory
from engine.errors import FrontierError
from engine.paths import home
from engine.values import digest_of

CODES_SECTION = "codes"
CODE_BLOCK_NUMBERS = 1 << 17
"""Numbers converted at a time: 1 MiB of float64, which fits the cache of the CPU."""
CHECKSUM_BLOCK_WORDS = 1 << 16
"""64-bit words summed at a time: half a MiB."""
N_SAMPLED_ROWS = 64
"""Number of rows whose bytes are part of the identity."""
_WORD_BYTES = 8

Codes = tuple[Tensor, Tensor, Tensor]
"""(n, d) int8, (n,) float64, (n,) float64: row j is step[j] · codes[j] up to a vector of length slack[j]."""


def compute_codes(vectors: Tensor) -> Codes:
    """Round (n, d) vectors on the CPU to 8-bit codes, a step size and a slack per row, in memory.

    A row is its step size times its code, up to an error whose length is its slack.
    """
    codes = np.empty(vectors.shape, np.int8)
    step_sizes, slack_lengths = np.empty(len(vectors)), np.empty(len(vectors))
    for row_slice, block_codes, block_steps, block_slacks in _quantize_blocks(vectors):
        codes[row_slice], step_sizes[row_slice], slack_lengths[row_slice] = block_codes, block_steps, block_slacks
    return torch.from_numpy(codes), torch.from_numpy(step_sizes), torch.from_numpy(slack_lengths)


def load_cached_codes(vectors_path: Path, vectors: Tensor, row_lengths: Tensor) -> Codes:
    """Load the 8-bit codes of a file's (n, d) vectors from the cache, mapped; compute them if absent.

    A row is its code times its step size, up to an error whose length is its slack; returned are codes, step sizes and
    slacks. row_lengths: (n,) lengths of the vectors, which help to identify them. The codes are in memory if the cache
    cannot be written.
    """
    try:
        identity = _compute_identity(vectors_path, vectors, row_lengths)
        entry_path = home() / CODES_SECTION / digest_of([str(vectors_path.resolve())])
        stored_codes = _map_codes(entry_path, identity, vectors.shape)
        if stored_codes is None:
            if not cache.try_write(CODES_SECTION, entry_path.name, lambda file: _write_codes(file, identity, vectors)):
                return compute_codes(vectors)
            n, d = vectors.shape
            entry_facts: inventory.Facts = {"file": str(vectors_path), "rows": n, "dimension": d}
            inventory.label_entries(CODES_SECTION, entry_path.name, [entry_path.name], entry_facts)
            stored_codes = _map_codes(entry_path, identity, vectors.shape)
    except (FrontierError, OSError):
        stored_codes = None
    return compute_codes(vectors) if stored_codes is None else stored_codes


def _quantize_blocks(vectors: Tensor) -> Iterator[tuple[slice, np.ndarray, np.ndarray, np.ndarray]]:
    """Yield blocks of rows as 8-bit codes, each with its rows, step sizes and slacks.

    A row is its code times its step size, up to an error whose length is its slack. The arrays of codes are overwritten
    by the next block.
    """
    all_rows, (n, d) = vectors.numpy(), vectors.shape
    block_rows = min(n, max(1, CODE_BLOCK_NUMBERS // d))
    exact_buffer, rounded_buffer = np.empty((2, block_rows, d))
    code_buffer = np.empty((block_rows, d), np.int8)
    # NumPy uses one thread: for pieces as small as these, threads would wait longer than they compute.
    for start_row in range(0, n, block_rows):
        n_rows = min(block_rows, n - start_row)
        exact_block, rounded_block, block_codes = exact_buffer[:n_rows], rounded_buffer[:n_rows], code_buffer[:n_rows]
        exact_block[:] = all_rows[start_row : start_row + n_rows]
        # A row's largest number becomes 127 or −127; the minimum keeps the step of a row of zeros above 0.
        block_steps = np.maximum(np.maximum(exact_block.max(1), -exact_block.min(1)) / 127, np.finfo(np.float32).tiny)
        np.rint(np.divide(exact_block, block_steps[:, None], out=rounded_block), out=rounded_block)
        block_codes[:] = rounded_block
        # The block now receives the error of rounding: exact rows minus steps times codes.
        np.subtract(exact_block, np.multiply(rounded_block, block_steps[:, None], out=rounded_block), out=exact_block)
        # The factor, one part in a million, exceeds the rounding errors of these few operations.
        slack_lengths = np.sqrt(np.einsum("ij,ij->i", exact_block, exact_block)) * (1 + 1e-6)
        yield slice(start_row, start_row + n_rows), block_codes, block_steps, slack_lengths


def _compute_identity(vectors_path: Path, vectors: Tensor, row_lengths: Tensor) -> bytes:
    """Return 32 bytes that identify a file's vectors: a digest of file facts, row lengths and some rows.

    Cached codes of other vectors, as after a change of the file, have other bytes. Raises OSError if the file was
    deleted.
    """
    stat, shape = vectors_path.stat(), tuple(vectors.shape)
    sampled_rows = vectors[torch.linspace(0, len(vectors) - 1, N_SAMPLED_ROWS).long()]
    # The 1 is the version of this format.
    identity_text = f"1\0{stat.st_size}\0{stat.st_mtime_ns}\0{shape}\0{vectors.dtype}\n".encode()
    return hashlib.sha256(identity_text + row_lengths.numpy().tobytes() + sampled_rows.numpy().tobytes()).digest()


class _WordChecksum:
    """Checksum of 64-bit words: linear with odd factors modulo 2⁶⁴, so one changed word changes it."""

    def __init__(self) -> None:
        factors = np.random.default_rng(0).integers(0, 2**63, CHECKSUM_BLOCK_WORDS, dtype=np.uint64)
        self.factors, self.checksum = factors * np.uint64(2) + np.uint64(1), 0

    def add_words(self, whole_words: np.ndarray) -> None:
        """Add (W,) uint64 words to the checksum.

        All calls but the last must add a multiple of CHECKSUM_BLOCK_WORDS: words divided otherwise have another one.
        """
        for start_word in range(0, len(whole_words), CHECKSUM_BLOCK_WORDS):
            word_block = whole_words[start_word : start_word + CHECKSUM_BLOCK_WORDS]
            partial_sum = int(np.dot(word_block, self.factors[: len(word_block)]))
            # An odd constant, 2⁶⁴ divided by the golden ratio: the order of the pieces changes the checksum.
            self.checksum = (self.checksum * 0x9E3779B97F4A7C15 + partial_sum) % 2**64

    def to_bytes(self) -> bytes:
        """Return the checksum as one word."""
        return self.checksum.to_bytes(_WORD_BYTES, "little")


def _write_codes(codes_file: BinaryIO, identity: bytes, vectors: Tensor) -> None:
    """Write (n, d) vectors as 8-bit codes into a file, from which `_map_codes` maps them.

    A row is its code times its step size, up to an error whose length is its slack. In order: codes, padded to 64-bit
    words; step sizes; slacks; identity, 32 bytes that tell these vectors from others; a checksum of all that.
    """
    n, d = vectors.shape
    step_sizes, slack_lengths, checksum, pending_bytes = np.empty(n), np.empty(n), _WordChecksum(), b""
    for row_slice, block_codes, block_steps, block_slacks in _quantize_blocks(vectors):
        step_sizes[row_slice], slack_lengths[row_slice] = block_steps, block_slacks
        codes_file.write(block_codes.data)
        pending_bytes += block_codes.tobytes()
        # The checksum takes whole blocks of words; what is left over waits for the bytes of the next rows.
        checksum_block_bytes = _WORD_BYTES * CHECKSUM_BLOCK_WORDS
        n_whole_bytes = len(pending_bytes) // checksum_block_bytes * checksum_block_bytes
        checksum.add_words(np.frombuffer(pending_bytes, np.uint64, n_whole_bytes // _WORD_BYTES))
        pending_bytes = pending_bytes[n_whole_bytes:]
    padding = bytes(-n * d % _WORD_BYTES)
    codes_file.write(padding)
    trailer = step_sizes.tobytes() + slack_lengths.tobytes() + identity
    codes_file.write(trailer)
    checksum.add_words(np.frombuffer(pending_bytes + padding + trailer, np.uint64))
    codes_file.write(checksum.to_bytes())


def _map_codes(entry_path: Path, identity: bytes, matrix_shape: torch.Size) -> Codes | None:
    """Map the 8-bit codes of vectors from a file of the cache; None if absent, damaged or of others.

    Returns codes, step sizes and slacks: a row is its code times its step size, up to an error whose length is its
    slack. identity: 32 bytes that tell the wanted vectors from others; matrix_shape: (n, d).
    """
    n, d = matrix_shape
    # The codes are padded to whole words, and the floats follow.
    floats_offset = n * d + -n * d % _WORD_BYTES
    entry_bytes = floats_offset + 2 * n * _WORD_BYTES + len(identity) + _WORD_BYTES
    if not entry_path.is_file() or entry_path.stat().st_size != entry_bytes:
        return None
    # Mode "c" is writeable, which torch requires, and changes never reach the file.
    mapped_bytes = np.memmap(entry_path, np.uint8, mode="c")
    if bytes(mapped_bytes[-len(identity) - _WORD_BYTES : -_WORD_BYTES]) != identity:
        return None
    checksum = _WordChecksum()
    checksum.add_words(mapped_bytes[:-_WORD_BYTES].view(np.uint64))
    if bytes(mapped_bytes[-_WORD_BYTES:]) != checksum.to_bytes():
        return None
    float_bytes = np.asarray(mapped_bytes[floats_offset:][: 2 * n * _WORD_BYTES])
    step_sizes, slack_lengths = float_bytes.view(np.float64).reshape(2, n)
    mapped_codes = np.asarray(mapped_bytes[: n * d]).view(np.int8).reshape(n, d)
    return torch.from_numpy(mapped_codes), torch.from_numpy(step_sizes), torch.from_numpy(slack_lengths)
