"""A matrix of vectors and what every query over it shares, each made when first asked for."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from engine.errors import DataError

CHUNK_NUMBERS = 1 << 22
"""How many numbers a float64 pass holds at a time (32 MiB)."""
CACHED_NUMBERS = 1 << 20
"""A matrix of more numbers comes from memory at every pass."""
LAST = 8
"""So many queries' scores a kept matrix remembers: a person at a slider asks the same again and again."""
STEADY_NUMBERS = 1 << 17
"""How many numbers `steady_products` has in float64 at a time on a CPU: 1 MiB, which stays in its cache."""
ONE_THREAD = 400_000
"""Up to so many numbers NumPy's matrix–vector product runs on one thread, whatever it may use."""
GRAM_ROWS = 2048
"""Up to so many rows all inner products are worth keeping (32 MiB)."""


class Matrix:
    """(n, d) finite vectors whose inner products do not overflow.

    kept: whether many queries will come, so that what only they repay is worth making. Raises DataError, naming `name`,
    where the vectors are not such.
    """

    def __init__(self, vectors: Tensor, name: str = "vectors", kept: bool = False) -> None:
        if vectors.ndim != 2 or 0 in vectors.shape:
            raise DataError(
                f"{name} must be a matrix with at least one row and one column; got shape {tuple(vectors.shape)}"
            )
        self.vectors, self.kept = vectors, kept
        self.lengths = torch.linalg.vector_norm(vectors, dim=1)
        self.norm = float(self.lengths.max())
        # A finite length proves every entry of its row finite; only a failure looks closer.
        if not math.isfinite(self.norm):
            _finite(vectors, name)
        if self.norm < math.sqrt(torch.finfo(vectors.dtype).tiny) / torch.finfo(vectors.dtype).eps:
            # Squares this small lose digits, or all: the largest entry bounds the length instead.
            self.norm = math.sqrt(vectors.shape[1]) * float(vectors.abs().max())
        most = math.sqrt(torch.finfo(vectors.dtype).max) / 4
        if not self.norm <= most:
            raise DataError(
                f"{name} must have rows of length at most {most:.3g} in {vectors.dtype}; the longest has "
                f"{self.norm:.3g}; scale them down, or pass float64"
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
        step = max(1, CHUNK_NUMBERS // self.vectors.shape[1])
        return torch.stack([block.double().sum(0) for block in self.vectors.split(step)]).sum(0) / len(self)

    @cached_property
    def centrality(self) -> Tensor:
        """(n,) inner product of every row with the mean row."""
        return products(self.vectors, self.mean.to(self.vectors.dtype).unsqueeze(0))[0]

    def remembered(self, query: Tensor, make: Callable[[], Tensor]) -> Tensor:
        """What `make` gives for a query, (d,); a kept matrix remembers it for the last few."""
        if not self.kept:
            return make()
        key = query.numpy().tobytes()
        found = self._scores.get(key)
        if found is None:
            found = self._scores[key] = make()
            for old in list(self._scores)[:-LAST]:
                self._scores.pop(old, None)
        return found

    @cached_property
    def _scores(self) -> dict[bytes, Tensor]:
        return {}

    @cached_property
    def gram(self) -> Tensor:
        """(n, n) float64 inner products of all rows: for up to GRAM_ROWS of them."""
        return gram(self.doubled)

    @cached_property
    def doubled(self) -> Tensor:
        """The vectors in float64: for up to GRAM_ROWS of them."""
        return self.vectors.double()

    @cached_property
    def host(self) -> Tensor:
        """The vectors in the memory of the CPU."""
        return self.vectors.cpu()

    @cached_property
    def codes(self) -> tuple[Tensor, Tensor, Tensor]:
        """(n, d) int8, (n,) float64, (n,) float64: row j is step[j] · codes[j] up to a vector of length slack[j]."""
        codes = torch.empty(self.vectors.shape, dtype=torch.int8, device=self.vectors.device)
        step, slack = self.lengths.new_empty(2, len(self), dtype=torch.float64)
        size = max(1, CHUNK_NUMBERS // self.vectors.shape[1])
        for at in range(0, len(self), size):
            block = self.vectors[at : at + size].double()
            unit = block.abs().amax(1).div_(127).clamp_min_(torch.finfo(torch.float32).tiny)
            whole = (block / unit.unsqueeze(1)).round_()
            codes[at : at + size], step[at : at + size] = whole.to(torch.int8), unit
            # One part in a million more than the rounding of these few operations.
            slack[at : at + size] = torch.linalg.vector_norm(block - whole * unit.unsqueeze(1), dim=1) * (1 + 1e-6)
        return codes, step, slack

    @cached_property
    def spectrum(self) -> float:
        """The largest eigenvalue of the Gram matrix, which is the squared largest singular value of the vectors."""
        return largest_eigenvalue(self.vectors)

    @cached_property
    def twins(self) -> Tensor:
        """(n,) for each row the lowest row with the same bytes: itself where there is no other."""
        return lowest_twin(self.vectors)


def products(rows: Tensor, points: Tensor) -> Tensor:
    """(p, n) inner products of rows, (n, d), with points, (p, d)."""
    if len(points) == 1:
        if not rows.is_cpu:
            return torch.mv(rows, points[0]).unsqueeze(0)
        if rows.numel() > CACHED_NUMBERS:
            # A matrix-vector product reads memory at half the pace of a matrix-matrix product: one column more is free.
            return (rows @ points.repeat(2, 1).T)[:, 0].clone().unsqueeze(0)
        return torch.from_numpy(times(rows, points[0])).unsqueeze(0)
    return points @ rows.T


def times(rows: Tensor, point: Tensor) -> np.ndarray:
    """(n,) inner products of cached rows on the CPU, (n, d), with one point."""
    if rows.numel() > ONE_THREAD:
        return torch.mv(rows, point).numpy()
    # While NumPy keeps to one thread, its product is the faster one; with more it is at the mercy of other processes.
    return rows.numpy() @ point.numpy()


def steady_products(rows: Tensor, points: Tensor, index: Tensor | None = None) -> Tensor:
    """(B, n) float32 inner products of rows, (n, d), with points, (B, d); or (B, m) with each one's own, index (B, m).

    Summed in float64 and then rounded, so that they do not show the batch or the block they were made in: for scores
    that are no inner product of a space's vectors, which nothing settles later.
    """
    held = STEADY_NUMBERS if rows.is_cpu else CHUNK_NUMBERS
    points = points.double()
    if index is not None:
        step = max(1, held // (rows.shape[1] * max(1, index.shape[1])))
        parts = zip(index.split(step), points.split(step), strict=True)
        return torch.cat([torch.bmm(rows[i].double(), p.unsqueeze(2)).squeeze(2).float() for i, p in parts])
    found = torch.empty(len(points), len(rows), device=rows.device)
    step = max(1, held // rows.shape[1])
    double = torch.empty(min(step, len(rows)), rows.shape[1], dtype=torch.float64, device=rows.device)
    for at in range(0, len(rows), step):
        block = double[: len(rows) - at].copy_(rows[at : at + step])
        found[:, at : at + step] = points @ block.T
    return found


def _finite(vectors: Tensor, name: str) -> None:
    """Raise a DataError that names the first rows with a NaN or an infinity, if there is one."""
    bad = (~vectors.isfinite().all(1)).nonzero().flatten()
    if len(bad):
        rows = ", ".join(map(str, bad[:5].tolist()))
        raise DataError(f"{name} must be finite; {len(bad)} rows hold NaN or infinity (first rows: {rows})")


def largest_eigenvalue(rows: Tensor) -> float:
    """The largest eigenvalue of rows · rowsᵀ, (n, d), from the smaller of the two Gram matrices, in float64."""
    if len(rows) <= rows.shape[1]:
        return float(torch.linalg.eigvalsh(gram(rows.double()))[-1].clamp_min(0))
    small = rows.new_zeros(rows.shape[1], rows.shape[1], dtype=torch.float64)
    for block in rows.split(max(1, CHUNK_NUMBERS // rows.shape[1])):
        block = block.double()
        small.addmm_(block.T, block)
    return float(torch.linalg.eigvalsh(small)[-1].clamp_min(0))


def gram(rows: Tensor) -> Tensor:
    """(n, n) inner products of (n, d) rows: one triangle computed, the other copied."""
    n = len(rows)
    products = rows.new_empty(n, n)
    step = max(64, n // 8)
    for at in range(0, n, step):
        strip = products[at : at + step, at:]
        torch.mm(rows[at : at + step], rows[at:].T, out=strip)
        products[at + step :, at : at + step] = strip[:, step:].T
    return products


def lowest_twin(rows: Tensor) -> Tensor:
    """(n,) for each row of (n, d) the lowest row with the same bytes: itself where there is no other."""
    words = rows.contiguous().view(torch.int32)
    here = torch.arange(len(rows), device=rows.device)
    mixer = torch.randint(-(2**62), 2**62, (words.shape[1],), generator=torch.Generator().manual_seed(0)).to(
        rows.device
    )
    step = max(1, CHUNK_NUMBERS // words.shape[1])
    # A hash finds the pairs (64-bit products wrap, alike everywhere) and a comparison proves them.
    mixed = torch.cat([(block.long() * mixer).sum(1) for block in words.split(step)])
    kind = torch.unique(mixed, return_inverse=True)[1]
    lowest = torch.zeros_like(here).scatter_reduce(0, kind, here, "amin", include_self=False)[kind]
    same = [(words[block] == words[lowest[block]]).all(1) for block in here.split(step)]
    return torch.where(torch.cat(same), lowest, here)
