"""Search for learning rate and batch size (Online-Optimized RAG, appendix C.2) on one half, report on the other.

The stream is cut in two. Every setting learns the first half's queries and is measured on unseen queries of that half;
the best one starts anew on the second half, and its result there is reported.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np

from engine.decoder import QueryLike, query_batch
from engine.drift.round_metrics import HELD_OUT, STREAM
from engine.errors import Cancelled, ParamError
from engine.feedback import Preset
from engine.feedback.presets import resolve_preset
from engine.params import check_values, params_of
from engine.progress import Progress, Stop
from engine.simulation.feedback_model import Stream, divide_queries, draw_arrivals
from engine.simulation.simulate import Plan, Simulated, forecast, simulate
from engine.simulation.variants import Deployment
from engine.space import Space
from engine.values import Qrels

SEARCH_RATES = (1e-8, 2e-8, 5e-8, 1e-7, 2e-7, 5e-7, 1e-6, 2e-6, 5e-6, 1e-5)
SEARCH_BATCHES = (5, 10, 20, 30, 40, 50)
"""The paper's grids of η₀ and batch size."""
SEARCH_METRIC = "ndcg"
MIN_QUESTIONS = 4
"""Number of questions below which a stream cannot be cut in two."""
SEARCH_LABEL = "searching rate and batch"


@dataclass(frozen=True)
class TriedRate:
    """A learning rate and batch size that were tried: the updates, and nDCG before and after them."""

    rate: float
    batch: int
    updates: int
    before: float
    after: float

    @property
    def gain(self) -> float:
        """The nDCG after learning less that before."""
        return self.after - self.before


@dataclass(frozen=True, eq=False, kw_only=True)
class RateSearch:
    """Result of a search for rate and batch size on half of a stream, confirmed on the other half.

    settings: in the order tried. part: the queries that the choice is by, "held-out" or "stream", of the first half.
    confirmed: the best setting's simulation on the second half.
    """

    settings: tuple[TriedRate, ...]
    part: str
    confirmed: Simulated

    @property
    def best(self) -> TriedRate:
        """The setting with the highest nDCG; ties go to the one that moves the documents least."""
        return find_best_setting(self.settings)

    @property
    def is_at_end(self) -> bool:
        """True if the best rate is the largest or the smallest tried, so that a better one may lie beyond."""
        rates = {setting.rate for setting in self.settings}
        return len(rates) > 1 and self.best.rate in (min(rates), max(rates))

    def find_outcome(self, part: str) -> tuple[float, float] | None:
        """Return a part's nDCG before and after, on the second half; None if no query is of it."""
        return _read_ndcg_ends(self.confirmed, part)


def find_best_setting(settings: Sequence[TriedRate]) -> TriedRate:
    """Find the setting with the highest nDCG; ties go to the smallest rate, then the largest batch."""
    return max(settings, key=lambda setting: (setting.after, -setting.rate, setting.batch))


def search(
    space: Space,
    queries: QueryLike,
    qrels: Qrels,
    *,
    preset: str | Preset = "paper",
    stream: Stream = Stream(),  # noqa: B008
    plan: Plan = Plan(),  # noqa: B008
    held_out: Qrels | None = None,
    rates: Sequence[float] = SEARCH_RATES,
    batches: Sequence[int] = SEARCH_BATCHES,
    hops: Mapping[str, Sequence[str]] | None = None,
    updates: int | None = None,
    k: int = 10,
    progress: Progress | None = None,
    stop: Stop | None = None,
    seen: Callable[[TriedRate], None] | None = None,
    **how: Any,
) -> RateSearch:
    """Try every rate and batch size on half of the stream, and confirm the best by nDCG@k on the other.

    how: further arguments of `simulate`, parameters of the preset among them; held_out: judgements of queries on which
    the confirmation is reported, and no setting is chosen. progress(done, total, label): called with numbers of rounds;
    stop: looked at in every round; seen: called with every setting that was tried. Raises ParamError, DataError,
    Cancelled.
    """
    overrides = {param.name: how.pop(param.name) for param in params_of(Preset) if param.name in how}
    preset = resolve_preset(preset, overrides)
    grid = _build_grid(preset, rates, batches)
    embedded = query_batch(space, queries)
    first_half, second_half = split_in_halves(space, embedded.ids, qrels, stream, preset.seed, hops)
    # Settings are compared by the first and the last checkpoint; regret would add an oracle to every round.
    quiet_plan = replace(plan, checkpoints=1, regret="none")
    size_options: dict[str, Any] = {"stream": stream, "plan": quiet_plan, "hops": hops, "updates": updates}
    options = {**size_options, "k": k, "stop": stop, **how}

    def forecast_rounds(half: Qrels, held_out: Qrels | None = None) -> list[int]:
        half_options = {**size_options, "held_out": held_out, "position": space.corpus.position}
        return [forecast(embedded.ids, qrels=half, preset=candidate, **half_options).rounds for candidate in grid]

    lengths = forecast_rounds(first_half)
    # The chosen batch size is not known yet, so the progress counts the longest second half.
    n_total, n_done = sum(lengths) + max(forecast_rounds(second_half, held_out)), 0

    def report_progress(n_now: int, _n_total: int, _label: str) -> None:
        if progress is not None:
            progress(n_done + n_now, n_total, SEARCH_LABEL)

    part = HELD_OUT if quiet_plan.held_out > 0 else STREAM
    settings: list[TriedRate] = []
    try:
        for candidate, setting_rounds in zip(grid, lengths, strict=True):
            simulated = simulate(space, queries, first_half, preset=candidate, progress=report_progress, **options)
            settings.append(_make_setting(candidate, simulated, part))
            n_done += setting_rounds
            if seen is not None:
                seen(settings[-1])
        best_setting = find_best_setting(settings)
        best_preset = replace(preset, rate=best_setting.rate, batch=best_setting.batch)
        options |= {"held_out": held_out, "progress": report_progress}
        confirmed = simulate(space, queries, second_half, preset=best_preset, **options)
    except Cancelled:
        progress_text = f"; the best so far: {format_setting(find_best_setting(settings))}" if settings else ""
        n_tried = f"{len(settings)} of {len(grid)}"
        raise Cancelled(f"the search was stopped after {n_tried} settings{progress_text}") from None
    return RateSearch(settings=tuple(settings), part=part, confirmed=confirmed)


def format_setting(setting: TriedRate) -> str:
    """Format a setting as rate and batch size."""
    return f"η₀ {setting.rate:g}, batch {setting.batch}"


def split_in_halves(
    space: Space,
    ids: Sequence[str],
    qrels: Qrels,
    stream: Stream,
    seed: int,
    hops: Mapping[str, Sequence[str]] | None = None,
) -> tuple[Qrels, Qrels]:
    """Split a stream's judgements by order of arrival into two halves that share no question.

    hops: question → its sub-queries, which stay together. Raises ParamError for fewer than four questions, and
    DataError.
    """
    variant = Deployment.build(hops=hops)
    learned_rows, *_ = divide_queries(ids, space.corpus.position, qrels, share=0.0, seed=seed, owner=variant.owner)
    query_ids = tuple(learned_rows)
    groups = variant.group_hops(query_ids)
    # Without a limit of rounds every question arrives, in the order in which the stream brings it first.
    endless = replace(stream, rounds=None)
    query_order = draw_arrivals(endless, tuple(learned_rows.values()), len(space), seed, 1, groups).queries
    # A question is known by the number of its group of queries.
    question_of = np.empty(len(query_ids), int)
    for question, group in enumerate(groups):
        question_of[group] = question
    arrived = list(dict.fromkeys(question_of[query_order].tolist()))
    if len(arrived) < MIN_QUESTIONS:
        required = f"at least {MIN_QUESTIONS} questions that come in the stream"
        raise ParamError(f"a search needs {required}; there are {len(arrived)}")
    n_half = len(arrived) // 2
    halves = []
    for questions in (arrived[:n_half], arrived[n_half:]):
        half_ids = [query_ids[query_index] for question in questions for query_index in groups[question]]
        halves.append(replace(qrels, grades={query_id: qrels.grades[query_id] for query_id in half_ids}))
    return halves[0], halves[1]


def _build_grid(preset: Preset, rates: Sequence[float], batches: Sequence[int]) -> list[Preset]:
    """Build a copy of the preset for every pair of a rate and a batch size. Raises ParamError."""
    if not rates or not batches:
        raise ParamError(f"rates and batches must each hold a value; got {tuple(rates)}, {tuple(batches)}")
    params = params_of(Preset)
    # A value that is given twice is tried once.
    pairs = product(dict.fromkeys(rates), dict.fromkeys(batches))
    values = [check_values(params, {"rate": rate, "batch": batch}, "a search") for rate, batch in pairs]
    return [replace(preset, **pair_values) for pair_values in values]


def _make_setting(preset: Preset, simulated: Simulated, part: str) -> TriedRate:
    """Build the record of a tried rate and batch size: its updates, and nDCG before and after them.

    part: the queries to measure by, such as those held out. Raises ParamError if the part has no query.
    """
    ndcg_ends = _read_ndcg_ends(simulated, part)
    if ndcg_ends is None:
        raise ParamError(f"held_out leaves no {part} query of the first half to choose by; take another share")
    # Rounded up: an incomplete batch at the end of the stream counts as an update.
    n_updates = -(-len(simulated.trail) // preset.batch)
    return TriedRate(preset.rate, preset.batch, n_updates, *ndcg_ends)


def _read_ndcg_ends(simulated: Simulated, part: str) -> tuple[float, float] | None:
    """Return nDCG at a simulation's first and last checkpoint, on a part of its queries.

    part: "held-out" or "stream". Return None if it has no query.
    """
    first, last = simulated.checkpoints[0].cell(part=part), simulated.checkpoints[-1].cell(part=part)
    if first is None or last is None:
        return None
    return float(first.mean[SEARCH_METRIC]), float(last.mean[SEARCH_METRIC])
