"""A matrix of vectors and the values that all queries over it share, each computed on first use."""

import math
import threading
from collections.abc import Callable, Iterator
from functools import cache, cached_property
from pathlib import Path
from typing import Any, TypeVar, cast

import torch
from torch import Tensor

from engine.data.codes import Codes, compute_codes, load_cached_codes
from engine.errors import DataError
from engine.progress import counted

DerivedValue = TypeVar("DerivedValue")

CHUNK_NUMBERS = 1 << 22
"""Numbers that a float64 pass holds at a time (32 MiB)."""
CACHED_NUMBERS = 1 << 20
"""A matrix with more numbers is read from main memory on every pass."""
MAX_CACHED_QUERIES = 8
"""Queries whose scores a cached matrix keeps, as moving a slider repeats the same query."""
STEADY_BLOCK_NUMBERS = 1 << 17
"""Float64 numbers that `steady_products` holds at a time on a CPU: 1 MiB, which fits its cache."""
MAX_SINGLE_THREAD_NUMBERS = 400_000
"""Up to this size NumPy's matrix–vector product always runs on one thread."""
GRAM_ROWS = 2048
"""Up to this number of rows, all inner products are cached (32 MiB)."""


class Matrix:
    """Vectors, (n, d), checked to be finite and not too long, with the values derived from them.

    name: what a DataError calls vectors that fail the check; cached: True if enough queries will follow to repay
    precomputation; file: the one that the vectors are mapped from
    """

    def __init__(self, vectors: Tensor, name: str = "vectors", cached: bool = False, file: Path | None = None) -> None:
        """Check the vectors, (n, d), and compute their lengths.

        name: what error messages call the vectors; cached: True if enough queries will follow to repay precomputation;
        file: the one that the vectors are mapped from. Raises DataError if they are empty, not finite, or so long that
        products could overflow.
        """
        if vectors.ndim != 2 or 0 in vectors.shape:
            raise DataError(
                f"{name} must be a matrix with at least one row and one column; got shape {tuple(vectors.shape)}"
            )
        self.vectors, self.cached, self.file = vectors, cached, file
        self._scores: dict[bytes, Tensor] = {}
        self._derived: dict[str, Any] = {}
        self._derived_lock = threading.RLock()
        self.lengths = torch.linalg.vector_norm(vectors, dim=1)
        self.max_norm = float(self.lengths.max() if vectors.shape[0] > 1 else self.lengths)
        min_length, max_length = length_limits(vectors.dtype)
        # A finite length proves every entry of its row finite; only a failure looks closer.
        if not math.isfinite(self.max_norm):
            invalid_rows = (~vectors.isfinite().all(1)).nonzero().flatten()
            if len(invalid_rows):
                examples = ", ".join(map(str, invalid_rows[:5].tolist()))
                raise DataError(
                    f"{name} must be finite; {counted(len(invalid_rows), 'row')} with NaN or infinity (first rows: "
                    f"{examples})"
                )
        if self.max_norm < min_length:
            # Squares this small lose digits, or all: the largest entry bounds the length instead.
            self.max_norm = math.sqrt(vectors.shape[1]) * float(vectors.abs().max())
        if not self.max_norm <= max_length:
            raise DataError(
                f"{name} must have rows of length at most {max_length:.3g} in {vectors.dtype}; the longest has "
                f"{self.max_norm:.3g}; scale them down, or pass float64"
            )

    def __len__(self) -> int:
        # The shape answers sooner than a tensor's own len().
        return self.vectors.shape[0]

    @cached_property
    def unit(self) -> bool:
        """True if every row has length 1, up to the rounding of stored unit rows."""
        return float((self.lengths - 1).abs().max()) <= 8 * torch.finfo(torch.float32).eps

    @cached_property
    def mean(self) -> Tensor:
        """(d,) float64 mean row."""
        block_sums = [block.double().sum(0) for (block,) in blocks(self.vectors.shape[1], self.vectors)]
        return torch.stack(block_sums).sum(0) / len(self)

    def derive(self, name: str, compute: Callable[[], DerivedValue]) -> DerivedValue:
        """Return the value cached under a name, such as "gram"; the first time compute() makes it."""
        # One lock for all names: values may derive others, and a reentrant lock permits that.
        with self._derived_lock:
            if name not in self._derived:
                self._derived[name] = compute()
            return cast(DerivedValue, self._derived[name])

    def cache_scores(self, query: Tensor, compute: Callable[[], Tensor]) -> Tensor:
        """Return the scores that compute() gives for a query, (d,), cached for the most recent queries.

        A matrix that is not `cached` computes them each time.
        """
        if not self.cached:
            return compute()
        query_key = query.numpy().tobytes()
        scores = self._scores.get(query_key)
        if scores is None:
            scores = self._scores[query_key] = compute()
            # A dictionary keeps the order of insertion: all but the last entries are the oldest.
            for expired_key in list(self._scores)[:-MAX_CACHED_QUERIES]:
                self._scores.pop(expired_key, None)
        return scores

    @cached_property
    def gram(self) -> Tensor:
        """(n, n) float64 inner products of all rows, for at most GRAM_ROWS rows."""
        return gram(self.float64)

    @cached_property
    def float64(self) -> Tensor:
        """The vectors in float64, for at most GRAM_ROWS rows."""
        return self.vectors.double()

    @cached_property
    def on_cpu(self) -> Tensor:
        """The vectors in the CPU's memory."""
        return self.vectors.cpu()

    @cached_property
    def codes(self) -> Codes:
        """The rows as 8-bit numbers, for fast bounds: codes (n, d), steps and slacks (n,), on the CPU.

        Row j differs from step[j] · codes[j] by a vector no longer than slack[j]. If the rows are mapped from a file,
        the codes are cached in a file too.
        """
        if self.file is None or not self.vectors.is_cpu:
            return compute_codes(self.on_cpu)
        return load_cached_codes(self.file, self.vectors, self.lengths)

    @cached_property
    def spectral_norm_squared(self) -> float:
        """The largest eigenvalue of the Gram matrix, which sets the step size of FISTA.

        It is the square of the largest singular value of the vectors.
        """
        return largest_eigenvalue(self.vectors)

    @cached_property
    def duplicate_of(self) -> Tensor:
        """(n,) for each row the lowest row with the same bytes, which may be itself."""
        return first_duplicate(self.vectors)


@cache
def length_limits(dtype: torch.dtype) -> tuple[float, float]:
    """Return the lengths below which squares lose digits, and above which products of vectors could overflow."""
    limits = torch.finfo(dtype)
    return math.sqrt(limits.tiny) / limits.eps, math.sqrt(limits.max) / 4


def blocks(numbers_per_row: int, *tensors: Tensor) -> Iterator[tuple[Tensor, ...]]:
    """Yield rows of all tensors, block by block, in blocks so small that a float64 pass fits memory.

    Each block is a tuple with the same rows of every tensor. numbers_per_row: how many numbers the pass
    computes for each row; for a block they are at most CHUNK_NUMBERS.
    """
    block_size = max(1, CHUNK_NUMBERS // max(1, numbers_per_row))
    return zip(*(tensor.split(block_size) for tensor in tensors), strict=True)


def slices(n_rows: int, numbers_per_row: int) -> Iterator[slice]:
    """Return slices that cut rows 0 … n_rows − 1 into blocks so small that a float64 pass fits memory.

    numbers_per_row: how many numbers the pass computes for each row; the blocks are those of `blocks`
    """
    block_size = max(1, CHUNK_NUMBERS // max(1, numbers_per_row))
    return (slice(block_start, min(block_start + block_size, n_rows)) for block_start in range(0, n_rows, block_size))


def rounding(vectors: Tensor) -> float:
    """Return γ, a bound on the relative rounding of inner products in the format of `vectors`, (…, d).

    A computed product of a and b is within γ·|a||b| + underflow of its exact value.
    """
    # |fl(a·b) − a·b| ≤ γ_d |a||b| with γ_d = d·u/(1 − d·u), in any order of summation (Higham 2002, §3.1).
    unit_roundoff = torch.finfo(vectors.dtype).eps / 2
    if vectors.dtype == torch.float32:
        backends: Any = torch.backends.cuda if vectors.is_cuda else torch.backends.mkldnn
        # Both factors are rounded to the shorter format first: twice its unit.
        unit_roundoff = {"tf32": 2.0**-10, "bf16": 2.0**-7}.get(backends.matmul.fp32_precision, unit_roundoff)
    # Four terms to spare, for the rounding of a point to this format and the like.
    accumulated_error = (vectors.shape[-1] + 4) * unit_roundoff
    return accumulated_error / (1 - accumulated_error) if accumulated_error < 0.5 else 1.0


def underflow(vectors: Tensor) -> float:
    """Return a bound on what inner products in the format of `vectors`, (…, d), lose to underflow.

    It is absolute, and comes on top of `rounding`, which is relative.
    """
    # Each of d products may lose up to the smallest normal number.
    return vectors.shape[-1] * torch.finfo(vectors.dtype).tiny


def products(rows: Tensor, points: Tensor) -> Tensor:
    """Return the inner products of rows, (n, d), with points, (p, d), as (p, n), on the rows' device."""
    if points.shape[0] == 1 and not rows.is_cpu:
        return torch.mv(rows, points[0]).unsqueeze(0)
    # While NumPy keeps to one thread, its product is the faster one; with more it is at the mercy of other processes.
    if points.shape[0] == 1 and rows.numel() <= MAX_SINGLE_THREAD_NUMBERS:
        return torch.from_numpy(points.numpy() @ rows.numpy().T)
    return points @ rows.T


def steady_products(rows: Tensor, points: Tensor, index: Tensor | None = None) -> Tensor:
    """Return float32 inner products of rows, (n, d), with points, (B, d), equal to the bit in any batch.

    They are summed in float64 and then rounded. Returns (B, n); with an index of rows, (B, m), only each point's
    products with its own m rows, (B, m).
    """
    # In float64 the order of a sum, which a block may change, moves only digits that rounding to float32 drops.
    limit = STEADY_BLOCK_NUMBERS if rows.is_cpu else CHUNK_NUMBERS
    points = points.double()
    if index is not None:
        block_size = max(1, limit // (rows.shape[1] * max(1, index.shape[1])))
        index_blocks = zip(index.split(block_size), points.split(block_size), strict=True)
        scores_of_blocks = []
        for rows_block, point_block in index_blocks:
            block = rows[rows_block].double()
            scores_of_blocks.append(torch.bmm(block, point_block.unsqueeze(2)).squeeze(2).float())
        return torch.cat(scores_of_blocks)
    scores = torch.empty(len(points), len(rows), device=rows.device)
    block_size = max(1, limit // rows.shape[1])
    float64_buffer = torch.empty(min(block_size, len(rows)), rows.shape[1], dtype=torch.float64, device=rows.device)
    for start in range(0, len(rows), block_size):
        block = float64_buffer[: len(rows) - start].copy_(rows[start : start + block_size])
        scores[:, start : start + block_size] = points @ block.T
    return scores


def largest_eigenvalue(rows: Tensor) -> float:
    """Return the largest eigenvalue of rows · rowsᵀ, rows (n, d), from the smaller Gram matrix in float64."""
    smaller_gram = gram(rows.double()) if len(rows) <= rows.shape[1] else scatter(rows, 0.0)
    return float(torch.linalg.eigvalsh(smaller_gram)[-1].clamp_min(0))


def scatter(rows: Tensor, centre: Tensor | float) -> Tensor:
    """Return the (d, d) float64 scatter matrix Σ (u − centre)(u − centre)ᵀ of rows u, (n, d).

    centre: (d,), or 0 for the plain sum of products
    """
    scatter_sum = rows.new_zeros(rows.shape[1], rows.shape[1], dtype=torch.float64)
    for (block,) in blocks(rows.shape[1], rows):
        centred_block = block.double() - centre
        scatter_sum.addmm_(centred_block.T, centred_block)
    return scatter_sum


def gram(rows: Tensor) -> Tensor:
    """Return the (n, n) inner products of rows, (n, d): one triangle is computed, the other copied."""
    n_rows = len(rows)
    result = rows.new_empty(n_rows, n_rows)
    # Strips of rows are computed from the diagonal to the right; mirrored, they fill the columns below it.
    height = max(64, n_rows // 8)
    for start in range(0, n_rows, height):
        strip = result[start : start + height, start:]
        torch.mm(rows[start : start + height], rows[start:].T, out=strip)
        result[start + height :, start : start + height] = strip[:, height:].T
    return result


def first_duplicate(rows: Tensor) -> Tensor:
    """Return (n,) for each row of (n, d) the lowest row with the same bytes, which may be itself."""
    # Rows are compared by their bytes, as 32-bit words.
    row_words = rows.contiguous().view(torch.int32)
    row_index = torch.arange(len(rows), device=rows.device)
    generator = torch.Generator().manual_seed(0)
    hash_factors = torch.randint(-(2**62), 2**62, (row_words.shape[1],), generator=generator).to(rows.device)
    # A hash finds the pairs (64-bit products wrap, alike everywhere) and a comparison proves them.
    hashes = [(block.long() * hash_factors).sum(1) for (block,) in blocks(row_words.shape[1], row_words)]
    _, group = torch.unique(torch.cat(hashes), return_inverse=True)
    lowest_row = torch.zeros_like(row_index).scatter_reduce(0, group, row_index, "amin", include_self=False)[group]
    row_blocks = blocks(row_words.shape[1], row_index)
    is_duplicate = [(row_words[block] == row_words[lowest_row[block]]).all(1) for (block,) in row_blocks]
    # Rows with equal hashes and different bytes are no duplicates: each stands for itself.
    return torch.where(torch.cat(is_duplicate), lowest_row, row_index)
