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

    Only the query's `pool` most relevant documents are tried, and only selectors that maximise an objective of sets.
    relevance_weight: the weight θ of relevance against diversity, for selectors that have one. On the same query it
    tests two papers' claims: that two problems of VRSD have one answer, and that no fractional weights of documents
    beat the best set (CCBQP). Raises ParamError or DataError.
    """
    ((_query_id, rows, point),) = iterate_pools(space, query, pool)
    gaps = []
    for name in SET_OBJECTIVE.options:
        spec = make_selector(name).spec
        param_names = {param.name for param in spec.params}
        has_weight = "relevance_weight" in param_names
        weight_params = {"relevance_weight": relevance_weight} if has_weight else {}
        # The option "polish" improves a set by swaps of two documents; such selectors are measured with and without.
        swap_options = ({"polish": True}, {"polish": False}) if "polish" in param_names else ({},)
        for swap_params in swap_options:
            title = f"{spec.title}, without swaps" if swap_params == {"polish": False} else spec.title
            # VRSD alone has no θ. The VRSD paper's Definition 2 puts the most relevant document into every set.
            gap = optimum_gap(name, rows, point, k, fix_first=not has_weight, **swap_params, **weight_params)
            gaps.append((title, gap))
    # The theorems on the relaxation are on unit vectors, the query's included.
    face_rows, unit_point = rows[:FACE_POOL_SIZE], point / torch.linalg.vector_norm(point)
    both_sets = equivalence(rows, point, k)
    relaxed = relaxation(face_rows, unit_point, RELAXED_SET_SIZE, relevance_weight=relevance_weight)
    return BestSets(tuple(gaps), both_sets, relaxed, tuple(measure_ends(space, query, sizes=(k,))))


def describe_equivalence(equivalence: Equivalence) -> str:
    """State in words if two problems that the VRSD paper's §3.1 equates have one answer on this query.

    The first seeks the set that, with the most relevant document d₀, has the largest cosine of its sum with the query.
    The second seeks the set whose sum has the largest cosine with the query minus d₀.
    """
    if equivalence.same:
        return "Both problems have the same best set here."
    return f"The two best sets differ here: the second has {decimal(equivalence.lost, 4)} less of the first's cosine."


def describe_relaxation(relaxation: Relaxation, stops: tuple[Ends, ...]) -> list[str]:
    """Say in sentences if a relaxed problem beats the best set of documents, and where its solver ends.

    The CCBQP paper replaces the choice of a set, weights 0 or 1 of the documents, by weights in [0, 1]. Weights that
    are not all 0 or 1 are points between sets. relaxation: the best set and the best weights for one query's few
    documents; stops: end points of the solver's runs on the full corpus, one entry for each weight θ of relevance.
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
