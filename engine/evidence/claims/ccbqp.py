"""Claims of "Cardinality-constrained binary quadratic programs"."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise, product
from operator import attrgetter, itemgetter
from typing import Any

import numpy as np

from engine.evaluation.statistics import bootstrap_intervals
from engine.evaluation.studies.brute_force import iterate_pools, optimum_gap
from engine.evidence import frontiers, latencies, rules
from engine.evidence.cells import map_values, rename_cells, round_significant
from engine.evidence.claim import Measurement, PaperClaims, define_measure
from engine.evidence.frontiers import DPP, FW, GREEDY, MMR, POLISHED, measure_frontiers, read_effect, read_pairs
from engine.evidence.judged_sets import JudgedSet, compute_by_set
from engine.evidence.latencies import PLAIN_DPP, PLAIN_MMR, compute_ratios, fit_slopes, measure_latencies
from engine.evidence.measures import scale_rows
from engine.evidence.rules import Effect, EffectCurve, Ruling, Scope
from engine.matrix import largest_eigenvalue
from engine.theory.relaxation import measure_cone, measure_ends, relaxation

claim = PaperClaims("ccbqp")
frontier_claim = partial(claim, measure=measure_frontiers, sets=frontiers.FRONTIER_SETS, cost=330)
latency_claim = partial(claim, measure=measure_latencies, sets=latencies.LATENCY_SETS, cost=150)
SIX_SETS = ("perspectrum", "multihop-rag-summ500", "toolbank-numpy", "toollens", "ultratool-en", "cranfield")
N_RELAXATIONS = 500
LOADINGS = (0.0, 0.5, 1.0)
"""Ascending; at the last, the paper's, the relaxation is said to be tight."""
Instance = tuple[np.ndarray, np.ndarray, int, float]
"""Unit rows, a unit query, k and θ."""


def draw_instances(n_cases: int, seed: int) -> Iterator[Instance]:
    """Yield random problems (unit documents, unit query, k, weight θ of relevance).

    In every second one all vectors share a direction, so that they lie in a narrow cone, as embeddings do.
    """
    rng = np.random.default_rng(seed)
    for case in range(n_cases):
        n_documents, dimensions = int(rng.integers(4, 9)), int(rng.integers(2, 6))
        raw_vectors = rng.standard_normal((n_documents + 1, dimensions)) + (case % 2) * rng.standard_normal(dimensions)
        *doc_vectors, query = scale_rows(raw_vectors)
        yield np.array(doc_vectors), query, int(rng.integers(2, min(n_documents, 5))), float(rng.uniform(0, 0.95))


@define_measure("small relaxations")
def measure_relaxations(_: Sequence[JudgedSet], seed: int) -> Measurement:
    """Measure C1 and C2: compare the relaxed problem with the problem over sets, by random case.

    The problem is to choose k documents: weights of 0 or 1. Its relaxation allows weights between; stationary points
    are those from which no direction ascends, and the loading δ is added to the diagonal to bend the objective upwards
    between sets. above: by how much the relaxation's maximum exceeds the best set's value at δ = 1; between: the
    stationary points there that are no set; stuck: those of them from which no shift of weight between two documents
    ascends; lost: local maxima that a larger loading loses; gained: those that δ = 1 has beyond δ = 0
    """
    columns: dict[str, list[float]] = {column: [] for column in ("above", "between", "stuck", "lost", "gained")}
    for vectors, query, k, weight in draw_instances(N_RELAXATIONS, seed):
        relaxations = [relaxation(vectors, query, k, relevance_weight=weight, loading=loading) for loading in LOADINGS]
        local_maxima, full_loading = [relaxed.local_maxima for relaxed in relaxations], relaxations[-1]
        columns["above"].append(full_loading.value - full_loading.integral)
        columns["between"].append(full_loading.fractional)
        # A saddle has an ascending step between two documents; a point without one that is no set would contradict the
        # theorem.
        columns["stuck"].append(full_loading.fractional - full_loading.saddles)
        columns["lost"].append(sum(len(smaller - larger) for smaller, larger in pairwise(local_maxima)))
        columns["gained"].append(len(local_maxima[-1] - local_maxima[0]))
    return columns


claim(
    "C1",
    "Theorem 2.1",
    "With the diagonal loading δ = 1 the relaxation is tight: its largest value is that of the best set.",
    scope=Scope.EXACT,
    measure=measure_relaxations,
    rule=lambda measured: rules.theorem(measured["above"], N_RELAXATIONS),
    effect="δ ≥ 1",
    differs="The theorem is for every δ from 1 on; checked at 1, on 500 drawn cases of four to eight documents, all "
    "faces enumerated.",
    cost=30,
)


def judge_c2(measured: Measurement) -> Ruling:
    """Judge C2: all stationary points between sets can be left upwards, a larger δ loses no maximum."""
    # Only informative cases count: points that are no set, and maxima that the loading changes.
    n_stuck, n_between, n_lost, n_gained = map(np.array, itemgetter("stuck", "between", "lost", "gained")(measured))
    counts = n_lost[(n_lost > 0) | (n_gained > 0)]
    return rules.combine([rules.theorem(n_stuck[n_between > 0].tolist(), 200), rules.theorem(counts.tolist(), 200)])


claim(
    "C2",
    "Corollary 2.3, Theorems 2.4 and 2.5",
    "Every stationary point that is not a set is a strict saddle, and a larger loading δ keeps every local maximum.",
    scope=Scope.EXACT,
    measure=measure_relaxations,
    rule=judge_c2,
    differs="Checked on 500 drawn cases of four to eight documents, all faces enumerated, at δ = 0, ½ and 1. That sets "
    "which are no local maximum are saddles too is not checked.",
    cost=30,
)


@claim(
    "C3",
    "Theorem 3.1",
    "From near enough to a local maximum, one step of Algorithm 1 ends exactly at it.",
    scope=Scope.EXACT,
    rule=lambda measured: rules.theorem(measured["apart"], 200),
    differs="Checked on 100 drawn cases of four to eight documents, from points as near as the proof asks.",
    cost=10,
)
def measure_c3(_: Sequence[JudgedSet], seed: int) -> Measurement:
    """Measure C3: how far one Frank–Wolfe step from near a local maximum ends from it, case by case.

    The distance is the largest difference of a coordinate, 0 as claimed; the start is as near as the proof asks.
    """
    rng = np.random.default_rng(seed)
    distances: list[float] = []
    for doc_vectors, query, k, weight in draw_instances(100, seed):
        linear = weight * (k - 1) * (doc_vectors @ query)
        hessian = 2 * (1 - weight) * (2 * np.eye(len(doc_vectors)) - doc_vectors @ doc_vectors.T)
        for maximum_rows in sorted(relaxation(doc_vectors, query, k, relevance_weight=weight).local_maxima):
            # The indicator vector of the set; the gap between its least member and the best outsider bounds how far a
            # start may be.
            end = np.zeros(len(doc_vectors))
            end[list(maximum_rows)] = 1
            derivatives = linear + hessian @ end
            derivative_gap = derivatives[end == 1].min() - derivatives[end == 0].max()
            direction = rng.dirichlet(np.ones(len(doc_vectors))) * k
            # Weights must be in [0, 1]: a draw that is not is replaced by equal weights.
            direction = (direction if direction.max() <= 1 else np.full(len(doc_vectors), k / len(doc_vectors))) - end
            max_step = derivative_gap / (2 * np.linalg.norm(hessian, 2) * np.linalg.norm(direction))
            start_point = end + min(1.0, rng.uniform(0.5, 0.99) * max_step) * direction
            distances.append(float(np.abs(take_step(linear, hessian, start_point, k) - end).max()))
    return {"apart": distances}


def take_step(linear: np.ndarray, hessian: np.ndarray, x: np.ndarray, k: int) -> np.ndarray:
    """Take one step of Algorithm 1, Frank–Wolfe: from weights x towards the best set, exact line search.

    The best set are the k documents with the largest derivatives; the step's length is the best one along the way (eq.
    6).
    """
    derivatives = linear + hessian @ x
    corner = np.zeros(len(x))
    corner[np.argsort(-derivatives, kind="stable")[:k]] = 1
    direction = corner - x
    # The objective along the way is a parabola: a convex one is maximal at the corner, a concave one at its apex.
    curvature = direction @ hessian @ direction
    next_point: np.ndarray = x + (1.0 if curvature >= 0 else min(1.0, derivatives @ direction / -curvature)) * direction
    return next_point


def judge_c4(measured: Measurement) -> Ruling:
    """Judge C4: at most one Frank–Wolfe run in a hundred must be rounded or reaches the step limit."""
    counts = {f"{set_name}, rounded or capped": set_counts[:2] for set_name, set_counts in measured.items()}
    return rules.thresholds(rules.compute_shares(counts), holds=0.01, limit=0.1)


@claim(
    "C4",
    "§2, after Theorem 2.4; §3, after Theorem 3.1",
    "Frank–Wolfe almost never stalls at a saddle: it ends at a set, and nothing needs rounding.",
    rule=judge_c4,
    sets=("perspectrum", "multihop-rag-summ500", "toolbank-numpy"),
    differs="MiniLM as it is shipped; 40 queries of a set, θ from 0 to 1, k 5, 10 and 50. Counted are runs that had to "
    "be rounded or were stopped by the limit on steps.",
    cost=60,
)
def measure_c4(judged_sets: Sequence[JudgedSet], _: int) -> Measurement:
    """Measure C4: set → runs that ended at no set or at the step limit, all runs, and the most steps."""
    return compute_by_set(_count_ends, judged_sets)


def _count_ends(judged_set: JudgedSet) -> list[int]:
    """Count the Frank–Wolfe runs that ended at no set or at the step limit, all runs, and the most steps."""
    columns = attrgetter("fractional", "capped", "runs", "most")
    n_fractional, n_capped, n_runs, max_steps = np.transpose(
        list(map(columns, measure_ends(judged_set.space, judged_set.queries("test", 40))))
    )
    return [int(n_fractional.sum() + n_capped.sum()), int(n_runs.sum()), int(max_steps.max())]


def judge_c5(measured: Measurement) -> Ruling:
    """Judge C5: no documents are opposite, and the Gram matrix's largest eigenvalue grows linearly.

    The Gram matrix holds the documents' inner products; the exponent in their number must be in [.9, 1.1].
    """
    least_cosines = map_values(itemgetter("least"), rename_cells(measured, suffix=", least cosine"))
    growths = map_values(itemgetter("sizes", "largest"), measured)
    cosine_ruling = rules.judge_range(rules.build_effects(least_cosines), low=-0.99)
    exponents = rules.fit_exponents(growths, ("documents", "largest eigenvalue"))
    return rules.combine([cosine_ruling, rules.judge_range(exponents, low=0.9, high=1.1)])


@claim(
    "C5",
    "Assumption 2.2, §3",
    "No two documents point in opposite directions, and the Gram matrix's largest eigenvalue grows almost "
    "linearly with the number of documents.",
    rule=judge_c5,
    sets=SIX_SETS,
    differs="MiniLM as it is shipped; random parts of each set, from a sixteenth to all. Opposite: a cosine below "
    "−.99; almost linear: an exponent from .9 to 1.1.",
    cost=30,
)
def measure_c5(judged_sets: Sequence[JudgedSet], seed: int) -> Measurement:
    """Measure C5: set → the least cosine of two documents, and the Gram matrix's largest eigenvalues.

    "sizes": documents of random parts of the set; "largest": 20 repetitions by size
    """
    rng = np.random.default_rng(seed)
    set_numbers = {}
    for judged_set in judged_sets:
        rows = judged_set.space.vectors
        part = [len(rows) // divisor for divisor in (16, 8, 4, 2, 1)]
        largest = []
        for _repetition in range(20):
            largest.append([largest_eigenvalue(rows[rng.permutation(len(rows))[:size]]) for size in part])
        least_cosine = measure_cone(judged_set.space).least
        set_numbers[judged_set.name] = {"least": least_cosine, "sizes": part, "largest": largest}
    return set_numbers


def judge_c6(measured: Measurement) -> Ruling:
    """Judge C6 by the areas below Frank–Wolfe's frontier and those below MMR's and DPP's; attach curves."""
    ruling = rules.combine([rules.judge_areas(read_pairs(measured, FW, method)) for method in (MMR, DPP)])
    curves = {f"{cell}, to {MMR}: area": draw_frontiers(measured, cell) for cell in measured["means"]}
    return rules.add_curves(ruling, curves)


frontier_claim(
    "C6",
    "§4.2, Figure 1 (left)",
    "Frank–Wolfe's frontier of Recall over diversity lies above MMR's and above DPP's, at every k.",
    rule=judge_c6,
    differs="MiniLM as it is shipped, not BGE-M3; 436 to 11,112 documents, of which k = 100 is a large part; at most "
    "300 queries of a set; k 10, 50 and 100.",
)


def draw_frontiers(measured: Measurement, cell_name: str) -> list[EffectCurve]:
    """Build the curves of Recall over diversity (ILAD) of three methods; none but at the least k.

    cell_name: "set, k size"; a curve has a point for each weight θ of relevance
    """
    set_name, _, k = cell_name.rpartition(", k ")
    if k != str(frontiers.FRONTIER_SIZES[0]):
        return []
    axes, curves = (f"ILAD@{k}", f"Recall@{k}, {set_name}"), []
    for method in (FW, MMR, DPP):
        ilad_means, recall_means, *_ = np.transpose(measured["means"][cell_name][method])
        curves.append(rules.curve_of(method, axes, ilad_means, recall_means))
    return curves


def judge_c7(measured: Measurement) -> Ruling:
    """Judge C7: Frank–Wolfe's frontier lies above that of greedy choices for the same objective.

    The sentence also says how Frank–Wolfe with swaps after it does, whose objective is never lower.
    """
    ruling = rules.judge_areas(read_pairs(measured, FW, GREEDY))
    swapped = rules.judge_areas(read_pairs(measured, POLISHED, FW))
    why = f"{ruling.why} With swaps after it: {swapped.why}"
    return replace(ruling, why=why, effects=ruling.effects + swapped.effects)


frontier_claim(
    "C7",
    "§4.2",
    "Greedy choices sacrifice Recall: Frank–Wolfe's frontier lies above greed's, for the same objective too.",
    rule=judge_c7,
    differs="The paper compares with the greed of MMR and DPP alone; here it is greed for Frank–Wolfe's own objective. "
    "MiniLM as it is shipped; at most 300 queries of a set; k 10, 50 and 100.",
)


def judge_c8(measured: Measurement) -> Ruling:
    """Judge C8: MMR leads in Recall at weights up to .2, and hardly from .5 on: by a point at most."""
    small_weight_leads = rename_cells(measured["small"], suffix=", MMR's lead to θ .2")
    lead_ruling = rules.difference(rename_cells(measured["practical"], suffix=", its own lead from θ .5"), 1.0)
    small_weight_ruling = rules.difference(small_weight_leads, 1.0)
    return rules.combine([small_weight_ruling, rules.judge_range(lead_ruling.effects, low=-1.0)])


frontier_claim(
    "C8",
    "§4.2",
    "At small θ Frank–Wolfe, which need not hold the most relevant document, has less Recall than MMR; at "
    "larger θ it has not.",
    rule=judge_c8,
    differs="Small: up to .2; larger: from .5 on, to within a point. “At larger θ not” is our reading. The paper says "
    "the same of DPP, which is not compared. MiniLM as it is shipped; at most 300 queries of a set.",
)


def judge_c9(measured: Measurement) -> Ruling:
    """Judge C9: over small weights DPP's diversity moves at most half as far as Frank–Wolfe's and MMR's."""
    effects = []
    for cell_name, cell_ratios in measured["steps"].items():
        for method, stored_effect in cell_ratios.items():
            effects.append(read_effect(f"{cell_name}, share of {method}'s way", stored_effect))
    return rules.judge_range(effects, high=0.5)


frontier_claim(
    "C9",
    "§4.2",
    "At small θ the points of DPP's frontier lie close together.",
    rule=judge_c9,
    differs="The paper has no number. Close together: up to θ = .2 DPP's ILAD moves at most half as far as "
    "Frank–Wolfe's and MMR's. MiniLM as it is shipped; at most 300 queries of a set.",
)

latency_claim(
    "C10",
    "§3, §4.2, Figure 1 (right)",
    "Frank–Wolfe's time grows more slowly than k.",
    rule=lambda measured: rules.judge_range(fit_slopes(measured, latencies.FW), high=1.0),
    differs="One thread of a CPU, 384 dimensions, 11,112 documents and 30,000 drawn ones, θ ½ and .9; the paper has a "
    "GPU and 1,024 dimensions.",
)


def judge_c11(measured: Measurement) -> Ruling:
    """Judge C11 on MMR and DPP as their papers print them, not as the faster engine computes them."""
    mmr_ruling = rules.judge_range(fit_slopes(measured, PLAIN_MMR), low=0.85, high=1.15)
    return rules.combine([mmr_ruling, rules.judge_range(fit_slopes(measured, PLAIN_DPP), low=1.0)])


latency_claim(
    "C11",
    "§1, §4.2, Figure 1 (right)",
    "MMR's time grows linearly in k, and DPP's slightly faster than linearly.",
    rule=judge_c11,
    differs="Both as their papers print them, not the engine's. One thread of a CPU, 384 dimensions, 11,112 documents "
    "and 30,000 drawn ones; the paper has a GPU and 1,024 dimensions.",
)


def judge_c12(measured: Measurement) -> Ruling:
    """Judge C12: Frank–Wolfe is faster than MMR at k ≥ 100, and the more so the larger k and θ are.

    Effects: logarithms of MMR's time as a multiple of Frank–Wolfe's, the exponent of that multiple in k, and its change
    from the least weight θ to the largest.
    """
    faster, growing, weight_log_ratios, margin = {}, [], {}, math.log(1.1)
    first, largest_weight = latencies.LATENCY_WEIGHTS
    for method in (PLAIN_MMR, latencies.MMR):
        method_ratios = compute_ratios(measured, method)
        for (set_name, weight), (set_sizes, ratio) in method_ratios.items():
            cell_name, n_small = f"{set_name}, θ {weight:g}, {method}", np.searchsorted(set_sizes, 100)
            faster[cell_name] = np.log(ratio[:, n_small:]).mean(1).tolist()
            # A ratio that grows with k has a positive exponent.
            growing.append(rules.slope(set_sizes, ratio, cell_name, ("k", "times as long as Frank–Wolfe")))
            if weight == largest_weight:
                smallest_ratio = method_ratios[set_name, first][1]
                name = f"{set_name}, {method}, θ {first:g} to {weight:g}"
                weight_log_ratios[name] = np.log(ratio / smallest_ratio).mean(1).tolist()
    ratio_rulings = rules.difference(faster, margin), rules.judge_range(growing, low=0.0)
    return rules.combine([*ratio_rulings, rules.difference(weight_log_ratios, margin)])


latency_claim(
    "C12",
    "§1, §4.2, Figure 1 (right)",
    "Frank–Wolfe is faster than MMR, and the more so the larger k and θ are.",
    rule=judge_c12,
    differs="MMR twice: as printed, and the engine's, which picks the same documents. Faster: at k from 100 on, θ ½ "
    "and .9. One thread of a CPU, 384 dimensions, 11,112 documents and 30,000 drawn ones; the paper has a GPU.",
)


def judge_c13(measured: Measurement) -> Ruling:
    """Judge C13: the share of cases in which Frank–Wolfe's set is the best of all, up to rounding."""
    counts = {name: (int((np.array(gaps) <= 1e-9).sum()), len(gaps)) for name, gaps in measured.items()}
    return rules.thresholds(rules.compute_shares(counts), holds=0.95, limit=0.9)


@claim(
    "C13",
    "§4.2, eq. 2",
    "Frank–Wolfe “globally optimizes” the trade-off: to the letter, its set is the best of all sets.",
    rule=judge_c13,
    sets=("perspectrum", "multihop-rag-summ500"),
    differs="The paper's theorems promise a local maximum alone; the reading to the letter is ours. Five of 22 drawn "
    "documents, and of a query's 18 most relevant, all sets enumerated; θ ½, .7 and .9.",
    cost=60,
)
def measure_c13(judged_sets: Sequence[JudgedSet], seed: int) -> Measurement:
    """Measure C13: source and θ → what Frank–Wolfe's set lacks of the best one, as a share of the range."""
    rng, count = np.random.default_rng(seed), 150
    cases: dict[str, list[tuple[Any, Any]]] = {}
    for name, clusters in (("random", 0), ("clustered", 4)):
        cases[name] = [_draw_pool(rng, clusters) for _ in range(count)]
    for judged in judged_sets:
        queries = judged.queries("test")
        rows = np.sort(rng.choice(len(queries), min(count, len(queries)), replace=False)).tolist()
        cases[f"{judged.name}'s most relevant"] = [pool[1:] for pool in iterate_pools(judged.space, queries.take(rows))]
    gaps = {}
    for (name, pools), weight in product(cases.items(), (0.5, 0.7, 0.9)):
        gaps[f"{name}, θ {weight}"] = round_significant(_compute_gap(rows, query, weight) for rows, query in pools)
    return gaps


def _draw_pool(rng: np.random.Generator, n_clusters: int) -> tuple[np.ndarray, np.ndarray]:
    """Draw 22 unit documents, clustered or not, and a unit query near one of them.

    n_clusters: 0 for documents without clusters
    """
    n_documents, n_dimensions = 22, 16
    doc_vectors = rng.standard_normal((n_documents, n_dimensions))
    if n_clusters:
        centres = rng.standard_normal((n_clusters, n_dimensions)) + 0.5 * rng.standard_normal(n_dimensions)
        doc_vectors = scale_rows(centres)[rng.integers(n_clusters, size=n_documents)] + 0.15 * doc_vectors
    doc_vectors = scale_rows(doc_vectors)
    query = doc_vectors[rng.integers(n_documents)] + 0.7 * rng.standard_normal(n_dimensions) / n_dimensions**0.5
    return doc_vectors, scale_rows(query[None])[0]


def _compute_gap(rows: Any, query: Any, weight: float) -> float:
    """Return how far Frank–Wolfe's set is below the best of all, as a share of the objective's range."""
    return optimum_gap("frank_wolfe", rows, query, k=5, relevance_weight=weight, polish=False).share


def judge_c14(measured: Measurement) -> Ruling:
    """Judge C14: diversity at one weight differs more over k for MMR and DPP than for Frank–Wolfe.

    Effects: by how many percent more; 5 count as none.
    """
    cells: dict[str, Any] = {}
    for name, spreads in measured["spreads"].items():
        cells |= rename_cells(spreads, prefix=f"{name}, to ")
    return rules.difference(cells, margin=5.0)


frontier_claim(
    "C14",
    "§1; §2, after eq. 2",
    "Frank–Wolfe's θ means the same at every k, more so than the weights of MMR and DPP.",
    rule=judge_c14,
    differs="The paper says so of its own θ and doubts DPP's, without a number. Measured: how much ILAD at one θ "
    "differs over k 10, 50 and 100. MiniLM as it is shipped; at most 300 queries of a set.",
)

claim(
    "C15",
    "§4.3, appendix E, Tables 1, 2",
    "A language model answers somewhat better from Frank–Wolfe's sets than from the most relevant documents.",
    missing="Llama-3.1-8B-Instruct, and QAMPARI and ASQA with 21 million passages of Wikipedia",
    effect="F1 .1906 against .1824 on QAMPARI, at the best θ",
)


def judge_c16(measured: Measurement) -> Ruling:
    """Judge C16: steps by the Lipschitz constant are at least 1.1 times as many as exact line search's.

    Effects: the geometric mean of the ratio by set, θ and k, the least first.
    """
    effects = []
    for name, (exact_steps, lipschitz_steps) in measured.items():
        ratios = np.log(np.array(lipschitz_steps) / np.array(exact_steps))
        ends = np.array(bootstrap_intervals(ratios[:, None], rules.N_RESAMPLES, 0), dtype=float)
        low, high = np.exp(ends)[0].tolist()
        effects.append(Effect(name=f"{name}: times the steps", value=float(np.exp(ratios.mean())), low=low, high=high))
    return rules.judge_range(sorted(effects, key=lambda effect: effect.value), low=1.1)


@claim(
    "C16",
    "§3, “Exact Line Search”",
    "Exact line search needs significantly fewer steps than steps by the Lipschitz constant.",
    rule=judge_c16,
    sets=SIX_SETS,
    differs="Said without a number. Steps of gap/(L‖d‖²), at most 1, where L is the Hessian's norm; counted until the "
    "objective has 99.9% of the rise that both ways reach. The first 1,000 documents of a set, 30 queries, k 5, 20 and "
    "50; significantly: a tenth at least. MiniLM as it is shipped.",
    cost=45,
)
def measure_c16(judged_sets: Sequence[JudgedSet], _: int) -> Measurement:
    """Measure C16: set, θ and k → steps of both ways until the objective is as high, query by query.

    Each value is [exact line search's, those of steps by the Lipschitz constant].
    """
    steps = {}
    for judged in judged_sets:
        doc_vectors = judged.space.vectors[:1000].double().numpy()
        relevances = doc_vectors @ judged.queries("test", 30).vectors.double().numpy().T
        for weight in (0.1, 0.5, 0.9):
            hessian = 2 * (1 - weight) * (2 * np.eye(len(doc_vectors)) - doc_vectors @ doc_vectors.T)
            lipschitz = float(np.linalg.norm(hessian, 2))
            # Only the k that are less than the number of documents.
            for k in filter(len(doc_vectors).__gt__, (5, 20, 50)):
                linear = weight * (k - 1) * relevances
                exact = trace_objective(linear, hessian, k)
                by_constant = trace_objective(linear, hessian, k, lipschitz)
                # The goal is set by the lower of both ends, so that both paths reach it.
                goal = exact[0] + 0.999 * (np.minimum(exact[-1], by_constant[-1]) - exact[0])
                n_steps = [(values >= goal).argmax(0).tolist() for values in (exact, by_constant)]
                steps[f"{judged.name}, θ {weight:g}, k {k}"] = n_steps
    return steps


def trace_objective(linear: np.ndarray, hessian: np.ndarray, k: int, constant: float | None = None) -> np.ndarray:
    """Return (steps + 1, q) values of the relaxed objective (eq. 4) along Frank–Wolfe, for q queries.

    It starts at equal weights k/n. linear: (n, q), the relevance term of each query; hessian: (n, n); constant: the
    Lipschitz constant that bounds the length of steps, None for exact line search (eq. 6)
    """
    tolerance, weights = 1e-12, np.full(linear.shape, k / len(linear))
    objective_values: list[np.ndarray] = []
    while True:
        derivatives = linear + hessian @ weights
        objective_values.append(((linear + derivatives) * weights).sum(0) / 2)
        corner = np.zeros(weights.shape)
        np.put_along_axis(corner, np.argsort(-derivatives, 0, "stable")[:k], 1.0, 0)
        direction = corner - weights
        gap = (derivatives * direction).sum(0)
        # The duality gap bounds what any further step can gain; the cap guards against cycling by rounding.
        if len(objective_values) > 1000 or gap.max() <= tolerance:
            return np.array(objective_values)
        if constant is None:
            curvature = -(direction * (hessian @ direction)).sum(0)
        else:
            curvature = constant * (direction * direction).sum(0)
        # The step is gap over curvature, at most 1; queries that have converged stand still.
        weights += np.where(gap > tolerance, gap / np.maximum(curvature, np.maximum(gap, tolerance)), 0) * direction
