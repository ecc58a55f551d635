"""The cosine from which on two documents of a corpus are near-duplicates, and the random pairs that it comes from."""

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from engine.matrix import GRAM_ROWS, Matrix
from engine.params import Real
from engine.space import Elsewhere, Space

MIN_DUPLICATE_COSINE = 0.9
"""No corpus has a lower threshold by default."""
MAX_RANDOM_PAIRS = 100_000
"""Pairs that are drawn; a corpus with fewer pairs is looked at whole."""
MIN_TAIL_SHARE = 0.001
"""The share of random pairs above the threshold, at least: the tail of a corpus without near-duplicates."""
MAX_EXPECTED_NEIGHBOURS = 10
"""Near-duplicates of a document that the threshold leaves room for: in n documents they make 10 / n of the pairs."""
MIN_RANDOM_PAIRS = 1000
"""Fewer pairs have no 99.9th percentile, nor is 10 in so few documents a small share."""
MAX_TAIL_RATIO = 3.0
"""Distance of the threshold from the median, at most, in distances of the 95th percentile; 1.9 in a normal spread."""
THRESHOLD_DIGITS = 4
"""Decimals of a threshold from random pairs, so that what is displayed is what is used, on every machine."""
MAX_CACHED_NUMBERS = 1 << 16
"""Numbers of a block of pairs, so that it stays in the processor's cache."""
COSINE_TOLERANCE = 1e-14
"""A cosine in float64 reaches a threshold that it misses by no more: far above its rounding, far below any digit."""
DUPLICATE_THRESHOLD = Real(
    None,
    "τ",
    0,
    1,
    name="threshold",
    unset="the larger of 0.9 and a high percentile of random pairs",
    help="The cosine from which on two documents are near-duplicates.",
)


@dataclass(frozen=True, eq=False)
class RandomPairs:
    """The cosines of random pairs of documents with different vectors: the noise above which likeness says something.

    cosines: (p,) float64, ascending; is_sample: False if they are all pairs of the corpus; n_documents: in the corpus
    """

    cosines: np.ndarray
    is_sample: bool
    n_documents: int

    def __len__(self) -> int:
        return len(self.cosines)

    @property
    def ilad(self) -> float:
        """The mean of 1 − cos: the ILAD of documents that have nothing to do with each other; NaN without a pair."""
        return 1 - float(self.cosines.mean()) if len(self) else math.nan

    @cached_property
    def threshold(self) -> float:
        """The larger of 0.9 and a high percentile of the pairs, rounded up to four decimals.

        The percentile is the 99.9th from 10,000 documents on. Of n < 10,000 documents 10 / n of the pairs lie above it:
        groups of near-duplicates are a larger share of fewer pairs, and the 99.9th would be one of them. It counts no
        further than three times as far above the median as the 95th does, for a corpus full of near-duplicates. Fewer
        than 1,000 pairs have no such percentile: 0.9.
        """
        if len(self) < MIN_RANDOM_PAIRS:
            return MIN_DUPLICATE_COSINE
        # The 95th percentile is of documents that have nothing to do with each other in any corpus worth searching.
        tail_share = max(MIN_TAIL_SHARE, MAX_EXPECTED_NEIGHBOURS / self.n_documents)
        median, bulk, tail = np.quantile(self.cosines, (0.5, 0.95, 1 - tail_share)).tolist()
        cosine = min(tail, median + MAX_TAIL_RATIO * (bulk - median))
        scale = 10**THRESHOLD_DIGITS
        # The last bits of a sum, which machines may disagree on, must not move the threshold to the next decimal.
        rounded: float = math.ceil((cosine - 1e-9) * scale) / scale
        return min(1.0, max(MIN_DUPLICATE_COSINE, rounded))


def sample_random_pairs(space: Space) -> RandomPairs:
    """Return the cosines of 100,000 random pairs of documents, the same at every call, or of all where they are fewer.

    Pairs of equal vectors do not count: a corpus full of copies would call nothing but copies near-duplicates.
    """
    return space.matrix.derive("random pairs", lambda: _sample_pairs(space.matrix))


def check_duplicate_threshold(threshold: float | None, name: str = "duplicate_threshold") -> float | None:
    """Return the threshold as a number, or None for that of the corpus; raise a ParamError that names the argument."""
    return replace(DUPLICATE_THRESHOLD, name=name).check(threshold)


def resolve_duplicate_threshold(space: Space | Elsewhere, threshold: float | None = None) -> float:
    """Return the cosine from which on two documents of a corpus are near-duplicates.

    threshold: a number, which is checked, or None for the larger of 0.9 and a high percentile of random pairs.
    Documents of a vector engine are fetched query by query and no random sample, so that their threshold is 0.9. Raises
    ParamError.
    """
    # What was asked for needs no sample.
    checked = DUPLICATE_THRESHOLD.check(threshold)
    if checked is not None:
        return checked
    if isinstance(space, Elsewhere) or not space.is_complete:
        return MIN_DUPLICATE_COSINE
    return sample_random_pairs(space).threshold


def normalize_rows(vectors: Tensor) -> Tensor:
    """Scale rows to length 1 in float64; rows of zeros stay zero, so that their cosines are 0."""
    rows = vectors.double()
    lengths: Tensor = torch.linalg.vector_norm(rows, dim=-1, keepdim=True)
    return rows / lengths.masked_fill(lengths == 0, 1)


def compute_pair_cosines(vectors: Tensor, first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Return (p,) float64 cosines of pairs of rows, each summed by itself, so that no block size changes a bit.

    vectors: (n, d); first, second: (p,) rows. A row of zeros has cosine 0 to all.
    """
    cosines = np.zeros(len(first))
    block_size = max(1, MAX_CACHED_NUMBERS // vectors.shape[1])
    for start in range(0, len(first), block_size):
        sides = []
        for row_index in (first, second):
            block_rows = torch.from_numpy(row_index[start : start + block_size]).to(vectors.device)
            sides.append(vectors[block_rows].cpu().double().numpy())
        # NumPy sums each row of a contiguous matrix by itself, whatever the number of rows.
        products = (sides[0] * sides[1]).sum(1)
        lengths = np.sqrt((sides[0] ** 2).sum(1)) * np.sqrt((sides[1] ** 2).sum(1))
        cosines[start : start + block_size] = products / np.where(lengths > 0, lengths, 1)
    return cosines


def _sample_pairs(matrix: Matrix) -> RandomPairs:
    """Draw pairs of different rows and compute their cosines; take all pairs of a small matrix."""
    n_rows = len(matrix)
    is_sample = n_rows * (n_rows - 1) // 2 > MAX_RANDOM_PAIRS
    if is_sample:
        generator = np.random.default_rng(0)
        first = generator.integers(0, n_rows, MAX_RANDOM_PAIRS)
        # A row is never paired with itself: the second is drawn among the others.
        second = generator.integers(0, n_rows - 1, MAX_RANDOM_PAIRS)
        second += second >= first
    else:
        first, second = np.triu_indices(n_rows, 1)
    if n_rows <= GRAM_ROWS:
        # For few documents it is faster to compute every pair once and look it up.
        unit_rows = normalize_rows(matrix.vectors)
        cosines = (unit_rows @ unit_rows.T).cpu().numpy()[first, second]
    else:
        cosines = compute_pair_cosines(matrix.vectors, first, second)
    # Copies say nothing about documents that have nothing to do with each other.
    is_equal = np.zeros(len(cosines), dtype=bool)
    # Only pairs with a cosine of 1 can have equal vectors, and rows of zeros, whose cosines are 0, may.
    candidates = np.flatnonzero((cosines > 1 - 1e-9) | (cosines == 0))
    duplicate_of = matrix.duplicate_of.cpu().numpy()
    is_equal[candidates] = duplicate_of[first[candidates]] == duplicate_of[second[candidates]]
    return RandomPairs(np.sort(cosines[~is_equal]), is_sample, n_rows)
