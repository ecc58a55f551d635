"""How long one query takes, by k and by the weight of relevance (CCBQP paper, Fig. 1): one at a time, one thread."""

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
from engine.evaluation.statistics import RESAMPLES, SEED, percentile_ends
from engine.evaluation.sweep.compute import embed_for_space, prepare_decoder
from engine.evaluation.sweep.sweep import check_list
from engine.params import Whole, values_of
from engine.progress import Progress, Stop, with_cancellation
from engine.space import Space
from engine.stages import RELEVANCE_WEIGHT, Selector, make_selector
from engine.values import Embeddings, Queries

SIZES = (10, 20, 50, 100, 200)
WEIGHTS = (0.5, 0.7, 0.9)
CALLS = Whole(9, "calls", 1, 100_000, name="calls", help="How many queries are timed.")
WEIGHT = RELEVANCE_WEIGHT.name
LEAST_SIZES = 4
"""A slope over fewer k says little."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Latency:
    """One selector at one k, asked one query at a time on one thread; the dense scores are part of it."""

    label: str  # the selector as text
    method: str
    plain: bool  # as its paper prints it, one pass a pick, in place of the engine's certified picks
    weight: float | None  # of relevance, None for a selector without
    k: int
    documents: int
    seconds: np.ndarray = field(repr=False)  # (calls,) of each query

    @property
    def milliseconds(self) -> float:
        """The median."""
        return float(1000 * np.median(self.seconds))

    @property
    def name(self) -> str:
        """Its label, and whether it is the plain one."""
        return f"{self.label}, plain" if self.plain else self.label

    def as_json(self) -> dict[str, Any]:
        """Plain values."""
        names = ("label", "method", "plain", "weight", "k", "documents", "milliseconds")
        return {name: getattr(self, name) for name in names} | {"seconds": self.seconds.tolist()}


@dataclass(frozen=True)
class Slope:
    """How the logarithm of the median time grows with that of k: 1 is linear, less is sub-linear."""

    value: float
    low: float  # its 95% interval, over the queries
    high: float


def latencies(
    selectors: Sequence[Selector],
    space: Space,
    queries: Queries | Embeddings,
    sizes: Sequence[int] = SIZES,
    weights: Sequence[float] = WEIGHTS,
    *,
    calls: int = CALLS.default,
    plain: bool = True,
    progress: Progress | None = None,
    stop: Stop | None = None,
) -> Iterator[Latency]:
    """Every selector at every weight of relevance and every k; a sweep's milliseconds are of few queries instead.

    selectors: stages, their own weight passed over; without one they are timed once a k; sizes: of k, at most the
    corpus; weights: of relevance; calls: queries from all over the list, as many as there are at most; plain: those
    that have one also as their paper prints them, which for max_sum is without swaps. What a first call makes ready is
    no part of the time; nine queries and more are not answered from what a small corpus remembers of the last eight.
    Raises ParamError, DataError and Cancelled.
    """
    chosen = check_list(selectors, "selectors", 'a list of engine.make("…")', Selector)
    ks = sorted({min(SET_SIZE.check(k), len(space)) for k in check_list(sizes, "sizes", "a list of whole numbers")})
    shares = [RELEVANCE_WEIGHT.check(weight) for weight in check_list(weights, "weights", "a list of numbers")]
    asked, watch = embed_for_space(space, queries), with_cancellation(progress, stop, "stopped while timing")
    rows = np.linspace(0, len(asked) - 1, min(CALLS.check(calls), len(asked)), dtype=int).tolist()
    contestants = list(dict.fromkeys(_contestants(chosen, shares, plain)))
    return _timed(contestants, space, [asked.take([row]) for row in rows], ks, watch)


def slope(rows: Sequence[Latency], resamples: int = 2_000, seed: int = 0) -> Slope:
    """How the time of one selector at one weight grows with k: least squares on logarithms of medians.

    rows: its latencies at four k or more, of the same queries, which are drawn again for the interval. Raises
    ParamError.
    """
    resamples, seed = RESAMPLES.check(resamples), SEED.check(seed)
    if len({row.k for row in rows}) < LEAST_SIZES or len({(row.name, len(row.seconds)) for row in rows}) > 1:
        raise ParamError(f"rows must be of one selector at {LEAST_SIZES} k or more, over the same queries")
    seconds = np.array([row.seconds for row in rows])
    steps = np.log([row.k for row in rows])
    steps -= steps.mean()

    def of(medians: np.ndarray) -> np.ndarray:
        slopes: np.ndarray = np.log(medians) @ steps / (steps @ steps)
        return slopes

    count = seconds.shape[1]
    drawn = np.random.default_rng(seed).integers(count, size=(resamples, count))
    again = of(np.median(seconds[:, drawn], axis=2).T)
    low, high = percentile_ends(again)
    return Slope(float(of(np.median(seconds, axis=1))), low, high)


def _contestants(
    selectors: Sequence[Selector], weights: Sequence[float], plain: bool
) -> Iterator[tuple[Selector, float | None, bool]]:
    """(selector, its weight, whether it is the plain one)."""
    for stage in selectors:
        if WEIGHT not in values_of(stage):
            yield stage, None, False
            continue
        for weight in weights:
            at = make_selector(stage.spec.name, **{**values_of(stage), WEIGHT: weight})
            yield at, weight, False
            # What the papers print has no window and makes no swaps.
            if (
                plain
                and stage.spec.name in PLAIN
                and not values_of(stage).get("window", values_of(stage).get("polish"))
            ):
                yield at, weight, True


def _timed(
    contestants: Sequence[tuple[Selector, float | None, bool]],
    space: Space,
    queries: Sequence[Embeddings],
    sizes: Sequence[int],
    watch: Progress,
) -> Iterator[Latency]:
    """Contestant by contestant, each at every k."""
    for done, (stage, weight, plain) in enumerate(contestants):
        prepare_decoder(Decoder(stage), space)
        for at, k in enumerate(sizes):
            watch(done * len(sizes) + at, len(contestants) * len(sizes), "timing")
            yield Latency(
                label=stage.label, method=stage.spec.name, plain=plain, weight=weight, k=k, documents=len(space),
                seconds=_seconds(_answered(stage, space, k, plain), queries),
            )  # fmt: skip


def _answered(stage: Selector, space: Space, k: int, plain: bool) -> Callable[[Embeddings], Tensor]:
    """What answers one query with rows."""
    if not plain:
        return lambda query: decode(Decoder(stage), space, query, k).index
    greedy, weight = PLAIN[stage.spec.name], values_of(stage)[WEIGHT]
    rows = space.vectors
    return without_autocast(lambda query: greedy(rows, query.vectors[0].to(rows.device, rows.dtype), k, weight))


def _seconds(answer: Callable[[Embeddings], Tensor], queries: Sequence[Embeddings]) -> np.ndarray:
    """(calls,) of each query, one thread for all; the first is asked once more before, for what it makes ready."""
    threads, seconds = torch.get_num_threads(), []
    torch.set_num_threads(1)
    try:
        with threadpool_limits(1):
            for query in (queries[0], *queries):
                started = time.perf_counter()
                answer(query).cpu()  # where it was computed elsewhere, that is waited for
                seconds.append(time.perf_counter() - started)
    finally:
        torch.set_num_threads(threads)
    return np.array(seconds[1:])


def greedy_mmr(rows: Tensor, query: Tensor, k: int, weight: float) -> Tensor:
    """Carbonell & Goldstein 1998 with a running maximum: k·n, where the VRSD paper counts k·n² (§3.3)."""
    relevance = rows @ query
    picks = torch.empty(k, dtype=torch.int64, device=rows.device)
    picks[0] = relevance.argmax()
    weighted = weight * relevance
    nearest = torch.full_like(relevance, -torch.inf)
    for step in range(1, k):
        last = picks[step - 1]
        torch.maximum(nearest, rows @ rows[last], out=nearest)
        weighted[last] = -torch.inf
        picks[step] = torch.sub(weighted, nearest, alpha=1 - weight).argmax()
    return picks


def greedy_dpp(rows: Tensor, query: Tensor, k: int, weight: float) -> Tensor:
    """Chen et al. 2018, Algorithm 1: incremental Cholesky rows, k × n of them; at weight 1 the most relevant.

    Quality is divided by its largest value, which changes no pick and keeps it from overflowing near weight 1.
    """
    relevance = rows @ query
    if weight == 1:
        return relevance.topk(k).indices
    quality = torch.exp((relevance - relevance.max()) * (weight / (2 * (1 - weight))))
    left = quality * quality * rows.square().sum(1)
    factor = torch.empty(k, len(rows), device=rows.device, dtype=rows.dtype)
    picks = torch.empty(k, dtype=torch.int64, device=rows.device)
    for step in range(k):
        picks[step] = last = left.argmax()
        if step == k - 1:
            break
        entry = quality * (rows @ rows[last]) * quality[last]
        if step:
            entry -= factor[:step].T @ factor[:step, last]
        entry /= left[last].clamp_min(1e-12).sqrt()
        factor[step] = entry
        left -= entry * entry
        left[picks[: step + 1]] = -torch.inf
    return picks


def greedy_max_sum(rows: Tensor, query: Tensor, k: int, weight: float) -> Tensor:
    """Gollapudi & Sharma 2009 on the objective of the CCBQP paper, eq. 2, without swaps."""
    linear = weight * max(k - 1, 1) * (rows @ query)
    picks = torch.empty(k, dtype=torch.int64, device=rows.device)
    picks[0] = linear.argmax() if weight else (rows @ query).argmax()
    for step in range(1, k):
        last = picks[step - 1]
        linear.sub_(rows @ rows[last], alpha=2 * (1 - weight))
        linear[last] = -torch.inf
        picks[step] = linear.argmax()
    return picks


PLAIN: dict[str, Callable[[Tensor, Tensor, int, float], Tensor]] = {
    "mmr": greedy_mmr,
    "dpp": greedy_dpp,
    "max_sum": greedy_max_sum,
}
"""Selectors that have one."""
