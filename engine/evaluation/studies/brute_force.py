"""Exact optimum of a set objective by enumeration, the reference of the heuristics."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import chain, combinations, islice
from typing import Any

import numpy as np
import torch
from torch import Tensor

from engine.candidates import without_autocast
from engine.decoder import POOL, QueryLike, query_batch, select
from engine.display import OneLine
from engine.errors import DataError, ParamError
from engine.matrix import CHUNK_NUMBERS, Matrix
from engine.params import Choice, Flag, Whole, check_values, values_of
from engine.progress import counted
from engine.space import Space
from engine.stages import RELEVANCE_WEIGHT, make_selector
from engine.values import real_tensor

OBJECTIVE_WEIGHT = replace(RELEVANCE_WEIGHT, symbol="θ")
MAX_SETS = 5_000_000
"""Largest number of sets that are enumerated, which takes minutes."""
ENUMERATED_POOL_SIZE = 18
"""Documents of a pool whose sets are enumerated: 8,568 sets of five."""
ROUNDING_TOLERANCE = 1e-9
"""Objectives closer than this share of the larger one are equal."""
SET_OBJECTIVE = Choice(
    default="frank_wolfe", options=("vrsd", "frank_wolfe", "max_sum", "dpp"), symbol="objective", name="objective",
    help="What the set maximises.",
)  # fmt: skip
ENUMERATED_SET_SIZE = Whole(5, "k", 1, 1_000_000, name="k", help="How many documents the set has.")
FIX_FIRST = Flag(
    default=False, symbol="d₀", name="fix_first",
    help="Only sets that hold the most relevant document count, as the paper's Definition 2 has it.",
)  # fmt: skip

SetValue = Callable[[Tensor, Tensor], Tensor]
"""((m, k) relevances, (m, k, k) inner products) of m sets to their (m,) values."""


@dataclass(frozen=True)
class Optimum(OneLine):
    """The best of all sets of k documents by an objective, found by enumeration."""

    index: tuple[int, ...]  # its rows, ascending
    value: float  # its objective
    worst: float  # the lowest objective of any set
    sets: int  # number of sets


@dataclass(frozen=True)
class OptimumGap(OneLine):
    """A selector's set beside the best one by the same objective."""

    index: tuple[int, ...]  # its rows, ascending
    value: float  # its objective
    best: Optimum

    @property
    def share(self) -> float:
        """The gap as a share of the objective's range: 0 is the best set, 1 the worst; NaN if infinite.

        Two sums of the same numbers in another order differ by their rounding, which is no gap.
        """
        best_value, worst_value = self.best.value, self.best.worst
        # First, as two infinite values have no difference.
        if self.value == best_value:
            return 0.0
        shortfall, extent = best_value - self.value, best_value - worst_value
        magnitude = max(abs(end) for end in (best_value, worst_value) if math.isfinite(end))
        if shortfall <= ROUNDING_TOLERANCE * magnitude:
            return 0.0
        return shortfall / extent if math.isfinite(extent) else math.nan


@without_autocast
def optimum(objective: str, vectors: Any, query: Any, k: int = 5, **params: Any) -> Optimum:
    """Find the best set of k rows for one query by enumeration in float64.

    Of equally good sets the first in row order is returned.

    The objectives are: "vrsd", cos(Σ u_i, query), 0 if the sum is zero; "frank_wolfe" or "max_sum", θ/k Σ r_i −
    (1−θ)/(k(k−1)) Σ_{i≠j} u_i·u_j, at k = 1 the relevance (these two report this objective); "dpp", θ Σ r_i + (1−θ) log
    det of the Gram matrix, −inf if that is singular.

    Parameters
    ----------
    objective : str
        The name of the objective.
    vectors : array
        (n, d) vectors of the documents.
    query : array
        (d,) vector of the query.
    k : int
        The size of the retrieved sets.
    **params
        relevance_weight: θ, for all objectives but vrsd. fix_first: for vrsd only; sets must contain the row with
        the largest inner product, as the paper's Definition 2 and Algorithm 1 do. Without it every set counts,
        which is a wider problem.

    Returns
    -------
    Optimum
        The best set and its value.

    Raises
    ------
    ParamError
        If there are more than MAX_SETS sets, or an argument is invalid.
    DataError
        If the vectors are invalid.

    Examples
    --------
    >>> import engine, torch
    >>> engine.optimum("vrsd", torch.eye(3), torch.tensor([1.0, 1.0, 0.0]), k=2).index
    (0, 1)
    """
    objective = SET_OBJECTIVE.check(objective)
    params = check_values((FIX_FIRST,) if objective == "vrsd" else (OBJECTIVE_WEIGHT,), params, objective)
    matrix = Matrix(real_tensor(vectors, "vectors")).vectors.double()
    point = real_tensor(query, "query").double().to(matrix.device)
    if point.ndim != 1 or point.shape[0] != matrix.shape[1]:
        raise DataError(
            f"query must be one vector of the vectors' {counted(matrix.shape[1], 'number')}; got {tuple(point.shape)}"
        )
    point = Matrix(point.unsqueeze(0), "query").vectors[0]
    k = min(ENUMERATED_SET_SIZE.check(k), len(matrix))
    relevance = matrix @ point
    fixed_rows = [int(relevance.argmax())] if params.get("fix_first", FIX_FIRST.default) else []
    free_rows = [row_index for row_index in range(len(matrix)) if row_index not in fixed_rows]
    if (n_sets := math.comb(len(free_rows), k - len(fixed_rows))) > MAX_SETS:
        raise ParamError(
            f"k and the rows of vectors must make at most {MAX_SETS:,} sets to be enumerated; got k = {k} of "
            f"{counted(len(matrix), 'row')}, {counted(n_sets, 'set')}; take fewer rows (the most relevant, say) or a "
            "smaller k"
        )
    evaluate = _make_set_value(objective, params.get("relevance_weight", OBJECTIVE_WEIGHT.default), k, point)
    return _enumerate_sets(relevance, matrix @ matrix.T, (fixed_rows, free_rows), k, evaluate)


def optimum_gap(
    name: str, vectors: Any, query: Any, k: int = 5, *, fix_first: bool = False, **params: Any
) -> OptimumGap:
    """Compare a selector's set with the best one by the selector's own objective, found by enumeration.

    name, params: the selector and its parameters; vectors, query, fix_first: as `optimum` takes them. Raises ParamError
    or DataError.
    """
    selector = make_selector(SET_OBJECTIVE.check(name), **params)
    # Only the weight of relevance enters the objective; the selector's other parameters steer its search.
    settings = {param: value for param, value in values_of(selector).items() if param == OBJECTIVE_WEIGHT.name}
    if name == "vrsd" or fix_first:
        settings["fix_first"] = fix_first
    best_set = optimum(name, vectors, query, k, **settings)
    set_rows = sorted(select(selector, vectors, query, len(best_set.index)).index[0].tolist())
    matrix, point = (real_tensor(argument, "vectors").double().cpu() for argument in (vectors, query))
    chosen = matrix[set_rows]
    weight = settings.get(OBJECTIVE_WEIGHT.name, OBJECTIVE_WEIGHT.default)
    evaluate = _make_set_value(name, weight, len(set_rows), point)
    # The objective takes a batch of sets, here of one.
    set_value = float(evaluate((chosen @ point)[None], (chosen @ chosen.T)[None]))
    return OptimumGap(tuple(set_rows), set_value, best_set)


def iterate_pools(
    space: Space, queries: QueryLike, pool_size: int = ENUMERATED_POOL_SIZE
) -> Iterator[tuple[str, Tensor, Tensor]]:
    """Yield each query's id, its most relevant documents' vectors, and its own vector, for `optimum`.

    The documents' vectors are (pool_size, d) float64: so few that all sets of them can be tried.
    """
    batch = query_batch(space, queries)
    depth = min(POOL.check(pool_size) or ENUMERATED_POOL_SIZE, len(space))
    pool_rows = select("top_k", space.matrix.vectors, batch.vectors, depth).index
    for query_id, document_rows, point in zip(batch.ids, pool_rows, batch.vectors, strict=True):
        yield query_id, space.vectors[document_rows].double(), point.double()


def _enumerate_sets(
    relevance: Tensor, gram: Tensor, row_groups: tuple[list[int], list[int]], k: int, evaluate: SetValue
) -> Optimum:
    """Find the best set of k documents by trying all, block by block.

    relevance: (n,); gram: (n, n) inner products; row_groups: rows that are in every set, and rows to choose from;
    evaluate: the objective, as `_make_set_value` returns it.
    """
    fixed_rows, free_rows = row_groups
    n_free = k - len(fixed_rows)
    free_sets, n_sets = combinations(free_rows, n_free), math.comb(len(free_rows), n_free)
    best_rows, best_value, worst_value = (), -math.inf, math.inf
    # A set of a block takes k² inner products, and the objectives some copies, for which the factor 4 leaves room.
    block_size = max(1, CHUNK_NUMBERS // (4 * k * k))
    fixed_part = torch.tensor(fixed_rows, dtype=torch.int64)
    for n_done in range(0, n_sets, block_size):
        count = min(block_size, n_sets - n_done)
        flat_rows = np.fromiter(chain.from_iterable(islice(free_sets, count)), np.int64, count * n_free)
        free_part = torch.from_numpy(flat_rows).view(count, n_free)
        block = torch.cat([fixed_part.expand(count, -1), free_part], 1).to(relevance.device)
        block_values = evaluate(relevance[block], gram[block.unsqueeze(2), block.unsqueeze(1)])
        # Only a larger value replaces the best one: of equally good sets the first in row order stays.
        top_row = int(block_values.argmax())
        if not best_rows or float(block_values[top_row]) > best_value:
            best_rows, best_value = tuple(sorted(block[top_row].tolist())), float(block_values[top_row])
        worst_value = min(worst_value, float(block_values.min()))
    return Optimum(best_rows, best_value, worst_value, n_sets)


def _make_set_value(objective: str, weight: float, k: int, query: Tensor) -> SetValue:
    """Return the objective as a function from m sets' relevances and inner products to their (m,) values.

    weight: θ, the weight of relevance beside diversity; k: documents in a set; query: its vector, whose length counts
    for cosines
    """
    query_norm = float(query.norm())

    def compute_cosine(relevance: Tensor, gram: Tensor) -> Tensor:
        """Return VRSD's objective: the cosine of each set's sum to the query."""
        # |Σ u|² is the sum of all inner products, which rounding may make negative.
        lengths = gram.sum((1, 2)).clamp_min(0).sqrt() * query_norm
        return torch.where(lengths > 0, relevance.sum(1) / lengths, 0.0)

    def compute_mean(relevance: Tensor, gram: Tensor) -> Tensor:
        """Return (m,) values: θ times the mean relevance less 1 − θ times the mean product of pairs."""
        # One document has no pairs: the second term would divide by 0.
        if k == 1:
            return relevance[:, 0]
        pair_sums = gram.sum((1, 2)) - gram.diagonal(dim1=1, dim2=2).sum(1)
        return weight / k * relevance.sum(1) - (1 - weight) / (k * (k - 1)) * pair_sums

    def compute_volume(relevance: Tensor, gram: Tensor) -> Tensor:
        """Return DPP's objective: θ times the relevance plus 1 − θ times the Gram matrix's log-determinant."""
        # At θ = 1 a singular Gram matrix would make the second term 0 · (−∞).
        if weight == 1:
            return relevance.sum(1)
        det_sign, log_det = torch.linalg.slogdet(gram)
        return weight * relevance.sum(1) + (1 - weight) * torch.where(det_sign > 0, log_det, -math.inf)

    return {"vrsd": compute_cosine, "dpp": compute_volume}.get(objective, compute_mean)
