"""Search for learning rate and batch size (Online-Optimized RAG, appendix C.2), chosen on one half and told of another.

The stream is cut in two. Every setting learns the first half's queries and is measured on queries of that half that it
never saw; the best one starts anew on the second half, and what it reaches there is what is reported.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from engine.decoder import QueryLike, query_batch
from engine.drift.round_metrics import HELD_OUT, STREAM, RoundMetrics
from engine.errors import Cancelled, ParamError
from engine.feedback import Preset
from engine.feedback.presets import resolve_preset
from engine.params import check_values, params_of
from engine.progress import Progress, Stop
from engine.simulation.feedback_model import Stream, arrivals, divided
from engine.simulation.simulate import Plan, Simulated, forecast, simulate
from engine.simulation.variants import Deployment
from engine.space import Space
from engine.values import Qrels

RATES = (1e-8, 2e-8, 5e-8, 1e-7, 2e-7, 5e-7, 1e-6, 2e-6, 5e-6, 1e-5)
BATCHES = (5, 10, 20, 30, 40, 50)
"""The paper's grids of η₀ and batch size."""
METRIC = "ndcg"
LEAST = 4
"""Questions without which there are no two halves to learn from and to measure on."""
SEARCHING = "searching rate and batch"


@dataclass(frozen=True)
class TriedRate:
    """A rate and a batch size on the first half: its updates, and nDCG before and after them."""

    rate: float
    batch: int
    updates: int
    before: float
    after: float

    @property
    def gain(self) -> float:
        return self.after - self.before


@dataclass(frozen=True, eq=False, kw_only=True)
class RateSearch:
    """Results of a search.

    settings: in the order tried.
    part: the queries that the choice is by, "held-out" or "stream", of the first half.
    confirmed: the best setting on the second half.
    """

    settings: tuple[TriedRate, ...]
    part: str
    confirmed: Simulated

    @property
    def best(self) -> TriedRate:
        """The setting with the highest nDCG; of equals that which moves least."""
        return best_of(self.settings)

    @property
    def at_the_end(self) -> bool:
        """Whether the best rate is the largest or the smallest tried, so that a better one may lie beyond."""
        rates = {setting.rate for setting in self.settings}
        return len(rates) > 1 and self.best.rate in (min(rates), max(rates))

    def reached(self, part: str) -> tuple[float, float] | None:
        """nDCG on the second half before and after; None where no query is of that part."""
        first, last = (_ndcg(self.confirmed.checkpoints[at], part) for at in (0, -1))
        return None if first is None or last is None else (first, last)


def best_of(settings: Sequence[TriedRate]) -> TriedRate:
    """The setting with the highest nDCG; of equals that with the smallest rate, then the largest batch."""
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
    rates: Sequence[float] = RATES,
    batches: Sequence[int] = BATCHES,
    hops: Mapping[str, Sequence[str]] | None = None,
    updates: int | None = None,
    k: int = 10,
    progress: Progress | None = None,
    stop: Stop | None = None,
    seen: Callable[[TriedRate], None] | None = None,
    **how: Any,
) -> RateSearch:
    """The best of all rates and batch sizes by nDCG@k.

    how: what else `simulate` takes, parameters of the preset among it; held_out: judgements of queries that only the
    report is on. progress(done, total, label): in rounds; stop: every round; seen: called with every setting. Raises
    ParamError, DataError, Cancelled.
    """
    names = {param.name for param in params_of(Preset)}
    preset = resolve_preset(preset, {name: how.pop(name) for name in names & set(how)})
    grid = _grid(preset, rates, batches)
    batch = query_batch(space, queries)
    first, second = halves(space, batch.ids, qrels, stream, preset.seed, hops)
    quiet = replace(plan, checkpoints=1, regret="none")
    given = {"stream": stream, "plan": quiet, "hops": hops, "updates": updates, "k": k, "stop": stop, **how}
    asked: dict[str, Any] = {"stream": stream, "plan": quiet, "hops": hops, "updates": updates}
    position = space.corpus.position
    lengths = [forecast(batch.ids, position, first, preset=one, **asked).rounds for one in grid]
    longest = max(forecast(batch.ids, position, second, preset=one, held_out=held_out, **asked).rounds for one in grid)
    total, done = sum(lengths) + longest, 0

    def tell(now: int, _total: int, _label: str) -> None:
        if progress is not None:
            progress(done + now, total, SEARCHING)

    part = HELD_OUT if quiet.held_out > 0 else STREAM
    settings: list[TriedRate] = []
    try:
        for one, rounds in zip(grid, lengths, strict=True):
            found = simulate(space, queries, first, preset=one, progress=tell, **given)
            settings.append(_setting(one, found, part))
            done += rounds
            if seen is not None:
                seen(settings[-1])
        best = best_of(settings)
        chosen = replace(preset, rate=best.rate, batch=best.batch)
        confirmed = simulate(space, queries, second, preset=chosen, held_out=held_out, progress=tell, **given)
    except Cancelled:
        so_far = f"; the best so far: {named(best_of(settings))}" if settings else ""
        raise Cancelled(f"the search was stopped after {len(settings)} of {len(grid)} settings{so_far}") from None
    return RateSearch(settings=tuple(settings), part=part, confirmed=confirmed)


def named(setting: TriedRate) -> str:
    """A setting in words."""
    return f"η₀ {setting.rate:g}, batch {setting.batch}"


def halves(
    space: Space,
    ids: Sequence[str],
    qrels: Qrels,
    stream: Stream,
    seed: int,
    hops: Mapping[str, Sequence[str]] | None = None,
) -> tuple[Qrels, Qrels]:
    """The judgements of both halves of a stream, no question in both. Raises ParamError, DataError."""
    variant = Deployment.of(hops=hops)
    learned, _, _ = divided(ids, space.corpus.position, qrels, share=0.0, seed=seed, owner=variant.owner)
    names = tuple(learned)
    groups = variant.groups(names)
    order = arrivals(replace(stream, rounds=None), tuple(learned.values()), len(space), seed, 1, groups).queries
    owner = {int(row): place for place, group in enumerate(groups) for row in group}
    came = list(dict.fromkeys(owner[row] for row in order.tolist()))
    if len(came) < LEAST:
        raise ParamError(f"a search needs at least {LEAST} questions that come in the stream; there are {len(came)}")
    half = len(came) // 2
    parts = ([names[row] for place in places for row in groups[place]] for places in (came[:half], came[half:]))
    first, second = (Qrels({query: qrels.grades[query] for query in part}) for part in parts)
    return first, second


def _grid(preset: Preset, rates: Sequence[float], batches: Sequence[int]) -> list[Preset]:
    """The presets to try. Raises ParamError."""
    if not rates or not batches:
        raise ParamError(f"rates and batches must each hold a value; got {tuple(rates)}, {tuple(batches)}")
    known = params_of(Preset)
    pairs = product(dict.fromkeys(rates), dict.fromkeys(batches))
    return [replace(preset, **check_values(known, {"rate": rate, "batch": batch}, "a search")) for rate, batch in pairs]


def _setting(preset: Preset, found: Simulated, part: str) -> TriedRate:
    before, after = (_ndcg(found.checkpoints[at], part) for at in (0, -1))
    if before is None or after is None:
        raise ParamError(f"held_out leaves no {part} query of the first half to choose by; take another share")
    return TriedRate(preset.rate, preset.batch, -(-len(found.trail) // preset.batch), before, after)


def _ndcg(checkpoint: RoundMetrics, part: str) -> float | None:
    cell = checkpoint.cell(part=part)
    return None if cell is None else float(cell.mean[METRIC])
