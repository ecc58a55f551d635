"""A matrix of vectors and what every query over it shares, each made when first asked for."""

import math
import threading
from collections.abc import Callable, Iterator
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar, cast

import numpy as np
import torch
from torch import Tensor

from engine.data.codes import Codes, compute_codes, load_cached_codes
from engine.errors import DataError

T = TypeVar("T")

CHUNK_NUMBERS = 1 << 22
"""How many numbers a float64 pass holds at a time (32 MiB)."""
CACHED_NUMBERS = 1 << 20
"""A matrix of more numbers comes from memory at every pass."""
ONE_COLUMN = 1 << 23
"""Up to so many numbers a matrix–vector product is the faster for having one column only."""
LAST = 8
"""So many queries' scores a cached matrix remembers: a person at a slider asks the same again and again."""
STEADY_NUMBERS = 1 << 17
"""How many numbers `steady_products` has in float64 at a time on a CPU: 1 MiB, which stays in its cache."""
ONE_THREAD = 400_000
"""Up to so many numbers NumPy's matrix–vector product runs on one thread, whatever it may use."""
GRAM_ROWS = 2048
"""Up to so many rows all inner products are worth keeping (32 MiB)."""


class Matrix:
    """(n, d) finite vectors whose inner products do not overflow, else a DataError that names `name`.

    cached: whether many queries will come, so that what only they repay is worth making; file: the one that the vectors
    are mapped from.
    """

    def __init__(self, vectors: Tensor, name: str = "vectors", cached: bool = False, file: Path | None = None) -> None:
        if vectors.ndim != 2 or 0 in vectors.shape:
            raise DataError(
                f"{name} must be a matrix with at least one row and one column; got shape {tuple(vectors.shape)}"
            )
        self.vectors, self.cached, self.file = vectors, cached, file
        self._scores: dict[bytes, Tensor] = {}
        self._derived: dict[str, Any] = {}
        self._deriving = threading.RLock()
        self.lengths = torch.linalg.vector_norm(vectors, dim=1)
        self.max_norm = float(self.lengths.max())
        # A finite length proves every entry of its row finite; only a failure looks closer.
        if not math.isfinite(self.max_norm):
            bad = (~vectors.isfinite().all(1)).nonzero().flatten()
            if len(bad):
                rows = ", ".join(map(str, bad[:5].tolist()))
                raise DataError(f"{name} must be finite; {len(bad)} rows hold NaN or infinity (first rows: {rows})")
        if self.max_norm < math.sqrt(torch.finfo(vectors.dtype).tiny) / torch.finfo(vectors.dtype).eps:
            # Squares this small lose digits, or all: the largest entry bounds the length instead.
            self.max_norm = math.sqrt(vectors.shape[1]) * float(vectors.abs().max())
        most = math.sqrt(torch.finfo(vectors.dtype).max) / 4
        if not self.max_norm <= most:
            raise DataError(
                f"{name} must have rows of length at most {most:.3g} in {vectors.dtype}; the longest has "
                f"{self.max_norm:.3g}; scale them down, or pass float64"
            )

    def __len__(self) -> int:
        return len(self.vectors)

    @cached_property
    def unit(self) -> bool:
        """Whether every row has length 1, up to the rounding of stored unit rows."""
        return float((self.lengths - 1).abs().max()) <= 8 * torch.finfo(torch.float32).eps

    @cached_property
    def mean(self) -> Tensor:
        """(d,) float64 mean row."""
        sums = [block.double().sum(0) for (block,) in blocks(self.vectors.shape[1], self.vectors)]
        return torch.stack(sums).sum(0) / len(self)

    def derived(self, name: str, make: Callable[[], T]) -> T:
        """What a solver makes of the vectors once, by name."""
        with self._deriving:
            if name not in self._derived:
                self._derived[name] = make()
            return cast(T, self._derived[name])

    def remembered(self, query: Tensor, make: Callable[[], Tensor]) -> Tensor:
        """What `make` gives for a query, (d,); a cached matrix remembers it for the last few."""
        if not self.cached:
            return make()
        key = query.numpy().tobytes()
        scores = self._scores.get(key)
        if scores is None:
            scores = self._scores[key] = make()
            for old in list(self._scores)[:-LAST]:
                self._scores.pop(old, None)
        return scores

    @cached_property
    def gram(self) -> Tensor:
        """(n, n) float64 inner products of all rows: for up to GRAM_ROWS of them."""
        return gram(self.float64)

    @cached_property
    def float64(self) -> Tensor:
        """The vectors in float64: for up to GRAM_ROWS of them."""
        return self.vectors.double()

    @cached_property
    def on_cpu(self) -> Tensor:
        """The vectors in the memory of the CPU."""
        return self.vectors.cpu()

    @cached_property
    def codes(self) -> Codes:
        """(n, d) int8, (n,) float64, (n,) float64: row j is step[j] · codes[j] up to a vector of length slack[j].

        On the CPU; of rows that lie in a file they lie in one too.
        """
        if self.file is None or not self.vectors.is_cpu:
            return compute_codes(self.on_cpu)
        return load_cached_codes(self.file, self.vectors, self.lengths)

    @cached_property
    def spectral_norm_squared(self) -> float:
        """The largest eigenvalue of the Gram matrix, which is the squared largest singular value of the vectors."""
        return largest_eigenvalue(self.vectors)

    @cached_property
    def duplicate_of(self) -> Tensor:
        """(n,) for each row the lowest row with the same bytes: itself where there is no other."""
        return first_duplicate(self.vectors)


def blocks(numbers: int, *tensors: Tensor) -> Iterator[tuple[Tensor, ...]]:
    """The tensors, of one length, cut alike into blocks that make at most CHUNK_NUMBERS at `numbers` a row."""
    size = max(1, CHUNK_NUMBERS // max(1, numbers))
    return zip(*(tensor.split(size) for tensor in tensors), strict=True)


def slices(count: int, numbers: int) -> Iterator[slice]:
    """0 … count − 1 in blocks as those of `blocks`."""
    size = max(1, CHUNK_NUMBERS // max(1, numbers))
    return (slice(start, min(start + size, count)) for start in range(0, count, size))


def rounding(vectors: Tensor) -> float:
    """γ: an inner product of vectors of this format is within γ·|a||b| + underflow of its exact value."""
    # |fl(a·b) − a·b| ≤ γ_d |a||b| with γ_d = d·u/(1 − d·u), in any order of summation (Higham 2002, §3.1).
    unit = torch.finfo(vectors.dtype).eps / 2
    if vectors.dtype == torch.float32:
        backends: Any = torch.backends.cuda if vectors.is_cuda else torch.backends.mkldnn
        # Both factors are rounded to the shorter format first: twice its unit.
        unit = {"tf32": 2.0**-10, "bf16": 2.0**-7}.get(backends.matmul.fp32_precision, unit)
    length = (vectors.shape[-1] + 4) * unit
    return length / (1 - length) if length < 0.5 else 1.0


def underflow(vectors: Tensor) -> float:
    """What products too small for the format may lose: Higham's bound leaves it out."""
    # Each of d products may lose up to the smallest normal number.
    return vectors.shape[-1] * torch.finfo(vectors.dtype).tiny


def products(rows: Tensor, points: Tensor) -> Tensor:
    """(p, n) inner products of rows, (n, d), with points, (p, d)."""
    if len(points) == 1:
        if not rows.is_cpu:
            return torch.mv(rows, points[0]).unsqueeze(0)
        if rows.numel() > ONE_COLUMN:
            # A matrix-vector product reads memory at half the pace of a matrix-matrix product: one column more is free.
            return (rows @ points.repeat(2, 1).T)[:, 0].clone().unsqueeze(0)
        return torch.from_numpy(times(rows, points[0])).unsqueeze(0)
    return points @ rows.T


def times(rows: Tensor, point: Tensor) -> np.ndarray:
    """(n,) inner products of cached rows on the CPU, (n, d), with one point."""
    if rows.numel() > ONE_THREAD:
        return torch.mv(rows, point).numpy()
    # While NumPy keeps to one thread, its product is the faster one; with more it is at the mercy of other processes.
    result: np.ndarray = rows.numpy() @ point.numpy()
    return result


def steady_products(rows: Tensor, points: Tensor, index: Tensor | None = None) -> Tensor:
    """(B, n) float32 inner products of rows, (n, d), with points, (B, d); or (B, m) with each one's own, index (B, m).

    Summed in float64 and then rounded, so that they do not show the batch or the block they were made in.
    """
    most = STEADY_NUMBERS if rows.is_cpu else CHUNK_NUMBERS
    points = points.double()
    if index is not None:
        step = max(1, most // (rows.shape[1] * max(1, index.shape[1])))
        parts = zip(index.split(step), points.split(step), strict=True)
        return torch.cat([torch.bmm(rows[i].double(), p.unsqueeze(2)).squeeze(2).float() for i, p in parts])
    scores = torch.empty(len(points), len(rows), device=rows.device)
    step = max(1, most // rows.shape[1])
    double = torch.empty(min(step, len(rows)), rows.shape[1], dtype=torch.float64, device=rows.device)
    for start in range(0, len(rows), step):
        block = double[: len(rows) - start].copy_(rows[start : start + step])
        scores[:, start : start + step] = points @ block.T
    return scores


def largest_eigenvalue(rows: Tensor) -> float:
    """The largest eigenvalue of rows · rowsᵀ, (n, d), from the smaller of the two Gram matrices, in float64."""
    smaller = gram(rows.double()) if len(rows) <= rows.shape[1] else scatter(rows, 0.0)
    return float(torch.linalg.eigvalsh(smaller)[-1].clamp_min(0))


def scatter(rows: Tensor, centre: Tensor | float) -> Tensor:
    """(d, d) float64 Σ (u − centre)(u − centre)ᵀ over rows, (n, d)."""
    total = rows.new_zeros(rows.shape[1], rows.shape[1], dtype=torch.float64)
    for (block,) in blocks(rows.shape[1], rows):
        centred = block.double() - centre
        total.addmm_(centred.T, centred)
    return total


def gram(rows: Tensor) -> Tensor:
    """(n, n) inner products of (n, d) rows: one triangle computed, the other copied."""
    n = len(rows)
    products = rows.new_empty(n, n)
    step = max(64, n // 8)
    for start in range(0, n, step):
        strip = products[start : start + step, start:]
        torch.mm(rows[start : start + step], rows[start:].T, out=strip)
        products[start + step :, start : start + step] = strip[:, step:].T
    return products


def first_duplicate(rows: Tensor) -> Tensor:
    """(n,) for each row of (n, d) the lowest row with the same bytes: itself where there is no other."""
    words = rows.contiguous().view(torch.int32)
    every = torch.arange(len(rows), device=rows.device)
    seeded = torch.Generator().manual_seed(0)
    mixer = torch.randint(-(2**62), 2**62, (words.shape[1],), generator=seeded).to(rows.device)
    # A hash finds the pairs (64-bit products wrap, alike everywhere) and a comparison proves them.
    mixed = torch.cat([(block.long() * mixer).sum(1) for (block,) in blocks(words.shape[1], words)])
    kind = torch.unique(mixed, return_inverse=True)[1]
    lowest = torch.zeros_like(every).scatter_reduce(0, kind, every, "amin", include_self=False)[kind]
    same = [(words[block] == words[lowest[block]]).all(1) for (block,) in blocks(words.shape[1], every)]
    return torch.where(torch.cat(same), lowest, every)
