"""Latency of single queries on one thread, by k and by the weight of relevance (CCBQP paper, Fig. 1)."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from threadpoolctl import threadpool_limits
from torch import Tensor

from engine.candidates import without_autocast
from engine.decoder import SET_SIZE, Decoder, decode
from engine.errors import ParamError
from engine.evaluation.paired import format_decoder_call
from engine.evaluation.statistics import RESAMPLES, SEED, percentile_ends
from engine.evaluation.sweep.compute import embed_for_space, prepare_decoder
from engine.evaluation.sweep.sweep import check_list
from engine.params import Whole, values_of
from engine.progress import Progress, Stop, with_cancellation
from engine.space import Space
from engine.stages import RELEVANCE_WEIGHT, Selector, make_selector
from engine.values import Embeddings, Queries

LATENCY_SIZES = (10, 20, 50, 100, 200)
LATENCY_WEIGHTS = (0.5, 0.7, 0.9)
LATENCY_CALLS = Whole(9, "calls", 1, 100_000, name="calls", help="How many queries are timed.")
WEIGHT_NAME = RELEVANCE_WEIGHT.name
MIN_SLOPE_SIZES = 4
"""Number of k below which a slope is not fitted."""

Contender = tuple[Selector, float | None, bool]
"""A selector, its weight of relevance, and True for the algorithm as its paper prints it."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Latency:
    """Latency of one selector at one k, by single queries on one thread; the dense scores are included."""

    label: str  # the selector as text
    method: str
    plain: bool  # as its paper prints it, one pass a pick, in place of the engine's certified picks
    weight: float | None  # of relevance, None for a selector without
    k: int
    documents: int
    seconds: np.ndarray = field(repr=False)  # (calls,) of each query

    @property
    def milliseconds(self) -> float:
        """The median time of a call in milliseconds."""
        return float(1000 * np.median(self.seconds))

    @property
    def name(self) -> str:
        """The selector's label, with ", plain" for the algorithm as its paper prints it."""
        return f"{self.label}, plain" if self.plain else self.label

    def as_json(self) -> dict[str, Any]:
        """Return the latency as plain JSON values, with the seconds of every call."""
        names = ("label", "method", "plain", "weight", "k", "documents", "milliseconds")
        return {name: getattr(self, name) for name in names} | {"seconds": self.seconds.tolist()}


@dataclass(frozen=True)
class Slope:
    """Growth of the logarithm of the median time with that of k: 1 is linear, less is sub-linear."""

    value: float
    low: float  # its 95% interval, over the queries
    high: float


def measure_latencies(
    selectors: Sequence[Selector],
    space: Space,
    queries: Queries | Embeddings,
    sizes: Sequence[int] = LATENCY_SIZES,
    weights: Sequence[float] = LATENCY_WEIGHTS,
    *,
    calls: int = LATENCY_CALLS.default,
    plain: bool = True,
    progress: Progress | None = None,
    stop: Stop | None = None,
) -> Iterator[Latency]:
    """Time every selector at every weight and k, one query at a time on one thread.

    selectors: their own weight of relevance is ignored; one without a weight is timed once for each k; sizes: values of
    k, cut to the size of the corpus; weights: of relevance; calls: number of queries, taken from all over the list;
    plain: time also the algorithms that papers print, for mmr, dpp and max_sum (there without its swaps). What a first
    call prepares is not timed. A small corpus caches its last eight queries, so take nine or more. Raises ParamError,
    DataError and Cancelled.
    """
    selector_list = check_list(selectors, "selectors", 'a list of engine.make("…")', Selector)
    size_list = check_list(sizes, "sizes", "a list of whole numbers")
    set_sizes = sorted({min(SET_SIZE.check(k), len(space)) for k in size_list})
    weight_values = list(map(RELEVANCE_WEIGHT.check, check_list(weights, "weights", "a list of numbers")))
    vectors, report = embed_for_space(space, queries), with_cancellation(progress, stop, "stopped while timing")
    rows = np.linspace(0, len(vectors) - 1, min(LATENCY_CALLS.check(calls), len(vectors)), dtype=int).tolist()
    contenders = list(dict.fromkeys(_list_contenders(selector_list, weight_values, plain)))
    return _time_contenders(contenders, space, [vectors.take([row]) for row in rows], set_sizes, report)


def fit_slope(rows: Sequence[Latency], resamples: int = 2_000, seed: int = 0) -> Slope:
    """Fit the power of k with which one selector's median time grows, with an interval over queries.

    rows: its latencies at four k or more, of the same queries, which are resampled for the interval. Raises ParamError.
    """
    resamples, seed = RESAMPLES.check(resamples), SEED.check(seed)
    if len({row.k for row in rows}) < MIN_SLOPE_SIZES or len({(row.name, len(row.seconds)) for row in rows}) > 1:
        raise ParamError(f"rows must be of one selector at {MIN_SLOPE_SIZES} k or more, over the same queries")
    seconds = np.array([row.seconds for row in rows])
    log_sizes = np.log([row.k for row in rows])
    # Centred, so that the least-squares slope needs no intercept.
    log_sizes -= log_sizes.mean()

    def fit_slopes(medians: np.ndarray) -> np.ndarray:
        """Return the least-squares slopes of log time over log k; medians: (…, sizes)."""
        slopes: np.ndarray = np.log(medians) @ log_sizes / (log_sizes @ log_sizes)
        return slopes

    # Every k answered the same queries, so a resample takes the same ones at each.
    n_queries = seconds.shape[1]
    resampled = np.random.default_rng(seed).integers(n_queries, size=(resamples, n_queries))
    drawn_slopes = fit_slopes(np.median(seconds[:, resampled], axis=2).T)
    low_slope, high_slope = percentile_ends(drawn_slopes)
    return Slope(float(fit_slopes(np.median(seconds, axis=1))), low_slope, high_slope)


def _list_contenders(selectors: Sequence[Selector], weights: Sequence[float], plain: bool) -> Iterator[Contender]:
    """Yield what is to be timed: each selector and its paper's algorithm, at each weight of relevance.

    Yields (selector, weight or None, is_plain); is_plain: time the algorithm as the paper prints it, not this
    package's. A selector without a weight comes once. plain: include the papers' algorithms.
    """
    for selector in selectors:
        params = values_of(selector)
        if WEIGHT_NAME not in params:
            yield selector, None, False
            continue
        # The papers' algorithms have no window of recent picks and do not improve their set by swaps ("polish").
        extra_step = params.get("window", params.get("polish"))
        has_plain = selector.spec.name in PLAIN_SELECTORS and not extra_step
        for weight in weights:
            weighted = make_selector(selector.spec.name, **{**params, WEIGHT_NAME: weight})
            yield weighted, weight, False
            if plain and has_plain:
                yield weighted, weight, True


def _time_contenders(
    contenders: Sequence[Contender], space: Space, queries: Sequence[Embeddings], sizes: Sequence[int], report: Progress
) -> Iterator[Latency]:
    """Time each contender, a selector at a weight, at each k; yield its latencies one by one."""
    for n_done, (selector, weight, is_plain) in enumerate(contenders):
        prepare_decoder(Decoder(selector), space)
        for size_index, k in enumerate(sizes):
            report(n_done * len(sizes) + size_index, len(contenders) * len(sizes), "timing")
            yield Latency(
                label=format_decoder_call({"select": selector.as_json()}), method=selector.spec.name, plain=is_plain,
                weight=weight, k=k,
                documents=len(space), seconds=_time_queries(_make_answerer(selector, space, k, is_plain), queries),
            )  # fmt: skip


def _make_answerer(selector: Selector, space: Space, k: int, is_plain: bool) -> Callable[[Embeddings], Tensor]:
    """Return the function to time: from one query to its selected rows.

    is_plain: select by the algorithm as its paper prints it, instead of by this package's
    """
    if not is_plain:
        return lambda query: decode(Decoder(selector), space, query, k).index
    select_greedily, weight = PLAIN_SELECTORS[selector.spec.name], values_of(selector)[WEIGHT_NAME]
    return without_autocast(lambda query: select_greedily(space.vectors, query.vectors[0].to(space.vectors), k, weight))


def _time_queries(answer_query: Callable[[Embeddings], Tensor], queries: Sequence[Embeddings]) -> np.ndarray:
    """Time a function on each query, on one thread, after a warm-up call; return the (calls,) seconds."""
    n_threads, call_seconds = torch.get_num_threads(), []
    torch.set_num_threads(1)
    try:
        with threadpool_limits(1):
            for query in (queries[0], *queries):
                start_time = time.perf_counter()
                # A GPU works on after the call returns; copying the rows waits for it.
                answer_query(query).cpu()
                call_seconds.append(time.perf_counter() - start_time)
    finally:
        torch.set_num_threads(n_threads)
    return np.array(call_seconds[1:])


def greedy_mmr(rows: Tensor, query: Tensor, k: int, weight: float) -> Tensor:
    """Select k rows by MMR, in order: each pick is relevant and unlike its nearest earlier pick.

    weight: λ of relevance. A running maximum needs time k·n, where the VRSD paper counts k·n² (§3.3). Carbonell &
    Goldstein 1998.
    """
    relevance = rows @ query
    picks = torch.empty(k, dtype=torch.int64, device=rows.device)
    picks[0] = relevance.argmax()
    # Each document's largest similarity to a pick so far; picks themselves are ruled out by −∞.
    weighted = weight * relevance
    nearest = torch.full_like(relevance, -torch.inf)
    for step in range(1, k):
        last_pick = picks[step - 1]
        torch.maximum(nearest, rows @ rows[last_pick], out=nearest)
        weighted[last_pick] = -torch.inf
        picks[step] = torch.sub(weighted, nearest, alpha=1 - weight).argmax()
    return picks


def greedy_dpp(rows: Tensor, query: Tensor, k: int, weight: float) -> Tensor:
    """Select k rows by greedy DPP: each pick adds most to the determinant of the picks' kernel, in order.

    The kernel of two documents is their inner product times the quality of both, which grows with relevance; its
    determinant is large for relevant documents that are unlike. Incremental Cholesky rows give what each document would
    add to it (Chen et al. 2018, Algorithm 1). weight: of relevance. Quality is divided by its largest value, which
    changes no pick and keeps it from overflowing near weight 1.
    """
    relevance = rows @ query
    # At weight 1 only relevance counts, and the exponent of the quality would divide by 0.
    if weight == 1:
        return relevance.topk(k).indices
    quality = torch.exp((relevance - relevance.max()) * (weight / (2 * (1 - weight))))
    # What each document would add to the determinant, as a factor; picks themselves are ruled out by −∞.
    residual = quality * quality * rows.square().sum(1)
    factor = torch.empty(k, len(rows), device=rows.device, dtype=rows.dtype)
    picks = torch.empty(k, dtype=torch.int64, device=rows.device)
    for step in range(k):
        picks[step] = last_pick = residual.argmax()
        if step == k - 1:
            break
        new_row = quality * (rows @ rows[last_pick]) * quality[last_pick]
        if step:
            new_row -= factor[:step].T @ factor[:step, last_pick]
        # Rounding may leave a residual of 0 or less for documents that are combinations of the picks.
        new_row /= residual[last_pick].clamp_min(1e-12).sqrt()
        factor[step] = new_row
        residual -= new_row * new_row
        residual[picks[: step + 1]] = -torch.inf
    return picks


def greedy_max_sum(rows: Tensor, query: Tensor, k: int, weight: float) -> Tensor:
    """Select k rows greedily so that they are relevant and, over all pairs, unlike; return them in order.

    Max-sum dispersion without swaps (Gollapudi & Sharma 2009; CCBQP paper, eq. 2); weight: θ of relevance.
    """
    # k(k − 1) times eq. 2: a document adds θ(k − 1)r, less 2(1 − θ) times its product with each pick.
    linear = weight * max(k - 1, 1) * (rows @ query)
    picks = torch.empty(k, dtype=torch.int64, device=rows.device)
    picks[0] = linear.argmax() if weight else (rows @ query).argmax()
    for step in range(1, k):
        last_pick = picks[step - 1]
        linear.sub_(rows @ rows[last_pick], alpha=2 * (1 - weight))
        linear[last_pick] = -torch.inf
        picks[step] = linear.argmax()
    return picks


PLAIN_SELECTORS: dict[str, Callable[[Tensor, Tensor, int, float], Tensor]] = {
    "mmr": greedy_mmr, "dpp": greedy_dpp, "max_sum": greedy_max_sum
}  # fmt: skip
"""The algorithms as their papers print them, by selector."""
