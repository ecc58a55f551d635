"""Statements of the VRSD paper as numbers that can be checked: Definition 2, §3.1, Lemma 1, Theorem 1."""

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from engine.decoder import QueryLike
from engine.errors import ParamError
from engine.evaluation.studies import brute_force
from engine.params import Whole
from engine.progress import counted
from engine.space import Space
from engine.values import real_tensor

SAME_COSINE = 1e-12
"""Cosines closer than this are equal."""
VRSD_SIZE = Whole(5, "k", 2, 1_000, name="k", help="How many documents the set has, the most relevant one among them.")


@dataclass(frozen=True)
class Equivalence:
    """The two problems that VRSD's §3.1 calls equivalent, solved by trying all sets, on one query."""

    first: int  # row of d₀, the most relevant
    by_sum: tuple[int, ...]  # the k−1 rows that, with it, maximise cos(sum, q), ascending: Definition 2
    by_rest: tuple[int, ...]  # the k−1 rows that maximise cos(their sum, q − d₀), ascending
    cosine: float  # cos(sum, q) of the first set
    lost: float  # cosine(first set) − cosine(second set), at least 0

    @property
    def same(self) -> bool:
        """True if the best set of the second problem is, together with d₀, also the best of the first.

        The first problem maximises the cosine of the set's sum, with d₀, and the query q; the second that of the sum
        without d₀ and q − d₀. Ties count as the same: the second's set then has the best cosine with q up to rounding.
        """
        return self.by_sum == self.by_rest or self.lost <= SAME_COSINE


@dataclass(frozen=True)
class Reduction:
    """A k-subset sum problem as a problem of retrieval (VRSD paper, eq. 4), each decided by itself."""

    vectors: tuple[tuple[int, int], ...]  # [t_i, 1]
    query: tuple[int, int]  # [t, k]
    retrieved: tuple[int, ...] | None  # k rows whose sum has cosine 1 to the query, None where there are none
    summed: bool  # True if k of the numbers sum to t

    @property
    def agrees(self) -> bool:
        """True if retrieval and direct search answer alike, as the VRSD paper's Theorem 1 states."""
        return (self.retrieved is not None) == self.summed


@dataclass(frozen=True)
class OnPool:
    """Both problems of §3.1 on one query's most relevant documents, and what Algorithm 1 lacks."""

    query: str
    equivalence: Equivalence
    gap: brute_force.OptimumGap


def equivalence(vectors: Any, query: Any, k: int = 5) -> Equivalence:
    """Find the best sets of two problems that the VRSD paper takes to be one, by trying all sets.

    The problems (§3.1) maximise cos(d₀ + Σ, q) and cos(Σ, q − d₀), where d₀ is the most relevant document and Σ the sum
    of the k − 1 others. Their best sets may differ: the length of q does not change cos(·, q), but does change the
    direction of q − d₀. vectors: (n, d); query: (d,); k ≥ 2. Where the query is d₀ itself nothing is left to point at:
    the second set is then the first in row order. Raises ParamError or DataError.
    """
    k = VRSD_SIZE.check(k)
    rows, point = real_tensor(vectors, "vectors").double(), real_tensor(query, "query").double()
    # Definition 2 fixes the most relevant document d₀ in every set; only k − 1 documents are free.
    best_set = brute_force.optimum("vrsd", rows, point, k, fix_first=True)
    first_row = int((rows @ point).argmax())
    other_rows = [row for row in range(len(rows)) if row != first_row]
    if len(best_set.index) < 2:
        raise ParamError(f"vectors must have at least 2 rows, the most relevant and another; got {len(rows)}")
    # The second problem of §3.1: d₀ moves from the sum into the query, and the remaining rows are all free.
    free_set = brute_force.optimum("vrsd", rows[other_rows], point - rows[first_row], len(best_set.index) - 1)
    by_rest = tuple(other_rows[row] for row in free_set.index)
    # Its set is judged by the objective of the first problem, or the two cosines could not be compared.
    vector_sum = rows[[first_row, *by_rest]].sum(0)
    norm_product = float(vector_sum.norm() * point.norm())
    cosine = float(vector_sum @ point) / norm_product if norm_product > 0 else 0.0
    by_sum = tuple(row for row in best_set.index if row != first_row)
    return Equivalence(first_row, by_sum, by_rest, best_set.value, max(0.0, best_set.value - cosine))


def reduction(numbers: Sequence[int], target: int, k: int) -> Reduction:
    """Decide if k of the numbers sum to the target, directly and as a problem of retrieval.

    The problem of retrieval is: have k of the vectors [number, 1] a sum of cosine 1 to [target, k]? It is decided by
    enumeration, the direct problem by the sums that k numbers can have, both in whole numbers. The VRSD paper's Theorem
    1 says that the answers agree. It is on Definition 3, which has no d₀, and says nothing of Definition 2, whose first
    document is fixed. Raises ParamError for numbers that are not whole, and for more sets than can be enumerated.
    """
    integers = [*numbers, target, k]
    if not numbers or any(isinstance(n, bool) or not isinstance(n, int) for n in integers):
        raise ParamError(f"numbers, target and k must be whole numbers, at least one number; got {integers!r}")
    if not 1 <= k <= len(numbers) or (n_sets := math.comb(len(numbers), k)) > brute_force.MAX_SETS:
        raise ParamError(
            f"k must be a whole number in [1, {len(numbers)}], how many numbers there are, and make at most "
            f"{brute_force.MAX_SETS:,} sets; got {k}"
            + (f", {counted(n_sets, 'set')}" if 1 <= k <= len(numbers) else "")
        )
    # The second coordinate counts the numbers: a sum of k vectors [t_i, 1] is parallel to [t, k] only if Σt_i = t.
    vectors, query = tuple((n, 1) for n in numbers), (target, k)
    subsets = combinations(range(len(numbers)), k)
    aligned = (rows for rows in subsets if _is_aligned([vectors[row] for row in rows], query))
    # Subset sum by dynamic programming, as a check by other means: size of a subset → the sums that it can have.
    # Sizes descend, so that a number enters each subset once.
    sums: defaultdict[int, set[int]] = defaultdict(set, {0: {0}})
    for position, number in enumerate(numbers):
        for size in range(position, -1, -1):
            sums[size + 1] |= {total + number for total in sums[size]}
    return Reduction(vectors, query, next(aligned, None), target in sums[k])


def subset_by_retrieval(numbers: Sequence[int], target: int) -> tuple[int, ...] | None:
    """Solve subset sum by retrieval: return positions in `numbers` that sum to the target, or None.

    One retrieval problem is solved for every size of the subset (VRSD paper, Lemma 1). This is a Turing reduction,
    which may ask several times; NP-completeness is usually shown by a Karp reduction, which asks once. None means that
    no subset sums to the target. Raises ParamError.
    """
    for k in range(1, len(numbers) + 1):
        if positions := reduction(numbers, target, k).retrieved:
            return positions
    return None


def compare_on_pools(
    space: Space, queries: QueryLike, k: int = 5, pool: int = brute_force.ENUMERATED_POOL_SIZE
) -> Iterator[OnPool]:
    """Compare, query by query, VRSD's two problem statements, and its greedy set with the best set.

    The VRSD paper (§3.1) takes two problems to be one. The set contains the most relevant document d₀. The first
    problem maximises the cosine of its sum and the query q; the second that of the sum without d₀ and q − d₀. pool: how
    many of the most relevant documents to choose from; all sets of these are tried. Raises ParamError or DataError.
    """
    k = VRSD_SIZE.check(k)
    for query_id, rows, point in brute_force.iterate_pools(space, queries, pool):
        greedy_gap = brute_force.optimum_gap("vrsd", rows, point, k, fix_first=True)
        yield OnPool(query_id, equivalence(rows, point, k), greedy_gap)


def _is_aligned(vectors: Sequence[tuple[int, int]], query: tuple[int, int]) -> bool:
    """Return True if whole-number vectors have a sum of cosine exactly 1 to the query."""
    (sum_x, sum_y), (query_x, query_y) = map(sum, zip(*vectors, strict=True)), query
    # Whole numbers have no rounding: parallel vectors have a cross product of 0, of which the dot product is positive
    # for equal directions.
    return sum_x * query_x + sum_y * query_y > 0 and sum_x * query_y == sum_y * query_x
