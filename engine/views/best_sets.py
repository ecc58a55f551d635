"""Best of all sets of one query's most relevant documents, beside the results of selectors and relaxations."""

from dataclasses import dataclass

import torch
from torch import Tensor

from engine.evaluation.studies.brute_force import SET_OBJECTIVE, OptimumGap, iterate_pools, optimum_gap
from engine.params import Whole
from engine.space import Space
from engine.stages import make_selector
from engine.theory.relaxation import Ends, Relaxation, measure_ends, relaxation
from engine.theory.vrsd import Equivalence, equivalence
from engine.wording import decimal, percent

BEST_SET_SIZE = Whole(5, "k", 2, 6, name="k", help="How many documents a set has.")
BEST_SET_POOL = Whole(
    18, "pool", 8, 20, name="pool", help="How many of the most relevant documents; all their sets are tried."
)
# A polytope over n documents has 3ⁿ faces, and the relaxation solves a system on each: 6,561 here.
FACE_POOL_SIZE, RELAXED_SET_SIZE = 8, 3
"""Documents of the relaxation, and of a set among them."""


@dataclass(frozen=True)
class BestSets:
    """Sets that selectors returned beside the best of all sets, on one query's most relevant documents."""

    gaps: tuple[tuple[str, OptimumGap], ...]  # a selector's title with its parameters → its set beside the best
    equivalence: Equivalence
    relaxation: Relaxation
    ends: tuple[Ends, ...]  # of the algorithm on the whole corpus, by θ


def best_sets(space: Space, query: Tensor, k: int, pool: int, relevance_weight: float) -> BestSets:
    """Compare the sets that selectors return for a query with the best set, found by trying all sets.

    On one query's `pool` most relevant documents; only selectors that maximise an objective of sets. relevance_weight:
    θ, of those that have one. Raises ParamError or DataError.
    """
    ((_query_id, rows, point),) = iterate_pools(space, query, pool)
    gaps = []
    for name in SET_OBJECTIVE.options:
        param_names = {param.name for param in make_selector(name).spec.params}
        swap_options = ({"polish": True}, {"polish": False}) if "polish" in param_names else ({},)
        for swap_params in swap_options:
            params = swap_params | ({"relevance_weight": relevance_weight} if "relevance_weight" in param_names else {})
            # A selector without the option counts as one with swaps: its title needs no remark.
            title = make_selector(name).spec.title + ("" if swap_params.get("polish", True) else ", without swaps")
            # VRSD alone has no θ, and its Definition 2 fixes the most relevant document.
            fix_first = "relevance_weight" not in param_names
            gaps.append((title, optimum_gap(name, rows, point, k, fix_first=fix_first, **params)))
    # The theorems on the relaxation are on unit vectors, the query's included.
    face_rows, unit_point = rows[:FACE_POOL_SIZE], point / torch.linalg.vector_norm(point)
    both_sets = equivalence(rows, point, k)
    relaxed = relaxation(face_rows, unit_point, RELAXED_SET_SIZE, relevance_weight=relevance_weight)
    return BestSets(tuple(gaps), both_sets, relaxed, tuple(measure_ends(space, query, sizes=(k,))))


def describe_equivalence(equivalence: Equivalence) -> str:
    """State in words if the two problems of VRSD's §3.1 have one answer on this query."""
    if equivalence.same:
        return "Both problems have the same best set here."
    return f"The two best sets differ here: the second has {decimal(equivalence.lost, 4)} less of the first's cosine."


def describe_relaxation(relaxation: Relaxation, stops: tuple[Ends, ...]) -> list[str]:
    """Say in sentences if a point between sets beats the best set, and where the algorithm's runs ended.

    relaxation: of the problem of choosing k documents to weights in [0, 1]; stops: end points of the runs, by θ
    """
    tightness = f"{'No' if relaxation.tight else 'A'} point between sets beats the best set"
    between = f"of {relaxation.fractional:,} stationary points between sets {relaxation.saddles:,} are saddles"
    runs = [(run_ends.runs, run_ends.fractional, run_ends.most) for run_ends in stops]
    run_counts, fractional_counts, step_counts = zip(*runs, strict=True)
    n_runs, max_steps = sum(run_counts), max(step_counts)
    n_whole = n_runs - sum(fractional_counts)
    return [
        f"{tightness}: {decimal(relaxation.value, 4)} against {decimal(relaxation.integral, 4)}; {between}.",
        f"On the whole corpus {percent(n_whole / n_runs)} of its runs, one at each of {len(stops)} values of θ, ended "
        f"at a set; the longest took {max_steps:,} steps.",
    ]
