"""The best of all sets of one query's most relevant documents, beside what selectors and relaxations end at."""

from dataclasses import dataclass

import torch
from torch import Tensor

from engine.evaluation.studies.brute_force import SET_OBJECTIVE, OptimumGap, iterate_pools, optimum_gap
from engine.params import Whole
from engine.space import Space
from engine.stages import make_selector
from engine.theory.relaxation import Ends, Relaxation, ends, relaxation
from engine.theory.vrsd import Equivalence, equivalence
from engine.wording import decimal, percent

SIZE = Whole(5, "k", 2, 6, name="k", help="How many documents a set has.")
POOL = Whole(18, "pool", 8, 20, name="pool", help="How many of the most relevant documents; all their sets are tried.")
FACES = 8
"""Documents whose faces are enumerated."""
RELAXED = 3
"""Documents of a set among them."""


@dataclass(frozen=True)
class BestSets:
    """What is best, and what is returned, on one query."""

    gaps: tuple[tuple[str, OptimumGap], ...]  # a selector's title with its parameters → its set beside the best
    equivalence: Equivalence
    relaxation: Relaxation
    ends: tuple[Ends, ...]  # of the algorithm on the whole corpus, by θ


def best_sets(space: Space, query: Tensor, k: int, pool: int, relevance_weight: float) -> BestSets:
    """Selectors that have an objective of sets, with and without swaps, beside the enumerated best.

    relevance_weight: θ, of those that have one. Raises ParamError or DataError.
    """
    ((_, rows, point),) = iterate_pools(space, query, pool)
    gaps = []
    for name in SET_OBJECTIVE.options:
        names = {param.name for param in make_selector(name).spec.params}
        swaps = ({"polish": True}, {"polish": False}) if "polish" in names else ({},)
        for own in swaps:
            params = own | ({"relevance_weight": relevance_weight} if "relevance_weight" in names else {})
            title = make_selector(name).spec.title + ("" if own.get("polish", True) else ", without swaps")
            gaps.append((title, optimum_gap(name, rows, point, k, fix_first="relevance_weight" not in names, **params)))
    few = rows[:FACES]
    return BestSets(
        tuple(gaps),
        equivalence(rows, point, k),
        relaxation(few, point / torch.linalg.vector_norm(point), RELAXED, relevance_weight=relevance_weight),
        tuple(ends(space, query, sizes=(k,))),
    )


def equivalence_said(found: Equivalence) -> str:
    """Whether the two problems of VRSD's §3.1 have one answer on this query."""
    if found.same:
        return "Both problems have the same best set here."
    return f"The two best sets differ here: the second has {decimal(found.lost, 4)} less of the first's cosine."


def relaxation_said(found: Relaxation, stops: tuple[Ends, ...]) -> list[str]:
    """Whether the relaxation is tight, and where the algorithm ended."""
    tight = "No point between sets beats the best set" if found.tight else "A point between sets beats the best set"
    between = f"of {found.fractional:,} stationary points between sets {found.saddles:,} are saddles"
    runs = sum(stop.runs for stop in stops)
    whole = runs - sum(stop.fractional for stop in stops)
    most = max(stop.most for stop in stops)
    return [
        f"{tight}: {decimal(found.value, 4)} against {decimal(found.integral, 4)}; {between}.",
        f"On the whole corpus {percent(whole / runs)} of its runs, one at each of {len(stops)} values of θ, ended at a "
        f"set; the longest took {most:,} steps.",
    ]
