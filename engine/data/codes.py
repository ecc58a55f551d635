"""8-bit codes of vectors, and how those of a file are kept: made in one pass, read as pages of a file ever after.

An entry lies in the cache and not beside the vectors: their folder may be read-only, shared or versioned, and a second
.npy in it would be read as somebody's vectors. It is named by the path, and says what it is of: the file's size and
time, the shape, the length of every row, which is known anyway, and the bytes of some rows, so that neither a file
that was touched nor one that was changed behind its time is taken for the other. A checksum over all of it, at the pace
of memory, finds damage. What does not fit is made anew. The bounds of nnn rest on the codes.
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

SECTION = "codes"
BLOCK = 1 << 17
"""Numbers converted at a time: 1 MiB of float64, which stays in the cache of the CPU."""
WORDS = 1 << 16
"""64-bit words summed at a time: half a MiB."""
SAMPLED = 64
"""Rows whose bytes are part of the identity."""
_WORD = 8

Codes = tuple[Tensor, Tensor, Tensor]
"""(n, d) int8, (n,) float64, (n,) float64: row j is step[j] · codes[j] up to a vector of length slack[j]."""


def codes_of(vectors: Tensor) -> Codes:
    """The codes of (n, d) rows on the CPU, in memory."""
    codes = np.empty(vectors.shape, np.int8)
    step, slack = np.empty(len(vectors)), np.empty(len(vectors))
    for rows, code, unit, missed in _made(vectors):
        codes[rows], step[rows], slack[rows] = code, unit, missed
    return torch.from_numpy(codes), torch.from_numpy(step), torch.from_numpy(slack)


def cached_codes(path: Path, vectors: Tensor, lengths: Tensor) -> Codes:
    """The codes of (n, d) rows on the CPU that are those of a file, mapped from the cache; made where it has none.

    lengths: (n,) of the rows. In memory where the cache cannot be written.
    """
    try:
        identity, place = _identity(path, vectors, lengths), home() / SECTION / digest_of([str(path.resolve())])
        found = _mapped(place, identity, vectors.shape)
        if found is None:
            if not cache.keep(SECTION, place.name, lambda file: _write(file, identity, vectors)):
                return codes_of(vectors)
            facts: inventory.Facts = {"file": str(path), "rows": vectors.shape[0], "dimension": vectors.shape[1]}
            inventory.describe(SECTION, place.name, [place.name], facts)
            found = _mapped(place, identity, vectors.shape)
    except (FrontierError, OSError):
        found = None
    return codes_of(vectors) if found is None else found


def _made(vectors: Tensor) -> Iterator[tuple[slice, np.ndarray, np.ndarray, np.ndarray]]:
    """Blocks of rows with their codes, steps and slacks; the codes are overwritten by the next block's."""
    rows, (n, d) = vectors.numpy(), vectors.shape
    size = min(n, max(1, BLOCK // d))
    exact, whole = np.empty((2, size, d))
    codes = np.empty((size, d), np.int8)
    # NumPy keeps to one thread: pieces as small as these wait for one another longer than they take.
    for start in range(0, n, size):
        count = min(size, n - start)
        block, rounded, code = exact[:count], whole[:count], codes[:count]
        block[:] = rows[start : start + count]
        step = np.maximum(np.maximum(block.max(1), -block.min(1)) / 127, np.finfo(np.float32).tiny)
        np.rint(np.divide(block, step[:, None], out=rounded), out=rounded)
        code[:] = rounded
        np.subtract(block, np.multiply(rounded, step[:, None], out=rounded), out=block)
        # One part in a million more than the rounding of these few operations.
        yield slice(start, start + count), code, step, np.sqrt(np.einsum("ij,ij->i", block, block)) * (1 + 1e-6)


def _identity(path: Path, vectors: Tensor, lengths: Tensor) -> bytes:
    """32 bytes. Raises OSError where the file is gone."""
    stat = path.stat()
    some = vectors[torch.linspace(0, len(vectors) - 1, SAMPLED).long()]
    said = f"1\0{stat.st_size}\0{stat.st_mtime_ns}\0{tuple(vectors.shape)}\0{vectors.dtype}\n".encode()
    return hashlib.sha256(said + lengths.numpy().tobytes() + some.numpy().tobytes()).digest()


class _Sum:
    """A checksum of 64-bit words: linear with odd factors modulo 2⁶⁴, so any one word that changed changes it."""

    def __init__(self) -> None:
        factors = np.random.default_rng(0).integers(0, 2**63, WORDS, dtype=np.uint64)
        self.factors, self.total = factors * np.uint64(2) + np.uint64(1), 0

    def add(self, words: np.ndarray) -> None:
        """Take in whole words, (W,) uint64, in pieces of WORDS but for the last."""
        for start in range(0, len(words), WORDS):
            piece = words[start : start + WORDS]
            part = int(np.dot(piece, self.factors[: len(piece)]))
            self.total = (self.total * 0x9E3779B97F4A7C15 + part) % 2**64

    def sealed(self) -> bytes:
        """The sum in one word."""
        return self.total.to_bytes(_WORD, "little")


def _write(file: BinaryIO, identity: bytes, vectors: Tensor) -> None:
    """Codes, filled up to whole words, then steps, slacks, the identity and the checksum of all that."""
    n, d = vectors.shape
    step, slack, total, left = np.empty(n), np.empty(n), _Sum(), b""
    for rows, code, unit, missed in _made(vectors):
        step[rows], slack[rows] = unit, missed
        file.write(code.data)
        left += code.tobytes()
        whole = len(left) // (_WORD * WORDS) * _WORD * WORDS
        total.add(np.frombuffer(left, np.uint64, whole // _WORD))
        left = left[whole:]
    pad = bytes(-n * d % _WORD)
    file.write(pad)
    end = step.tobytes() + slack.tobytes() + identity
    file.write(end)
    total.add(np.frombuffer(left + pad + end, np.uint64))
    file.write(total.sealed())


def _mapped(place: Path, identity: bytes, shape: torch.Size) -> Codes | None:
    """What an entry holds, as pages of it; None where it is absent, damaged or of something else."""
    n, d = shape
    first = n * d + -n * d % _WORD
    if not place.is_file() or place.stat().st_size != first + 2 * n * _WORD + len(identity) + _WORD:
        return None
    # "c" is writeable, as torch wants it, and never reaches the file.
    held = np.memmap(place, np.uint8, mode="c")
    if bytes(held[-len(identity) - _WORD : -_WORD]) != identity:
        return None
    total = _Sum()
    total.add(held[:-_WORD].view(np.uint64))
    if bytes(held[-_WORD:]) != total.sealed():
        return None
    step, slack = np.asarray(held[first:][: 2 * n * _WORD]).view(np.float64).reshape(2, n)
    codes = np.asarray(held[: n * d]).view(np.int8).reshape(n, d)
    return torch.from_numpy(codes), torch.from_numpy(step), torch.from_numpy(slack)
