"""The result of tuning: what dev chose, what it was chosen from, and what test says of it."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from operator import attrgetter
from typing import Any

import numpy as np

from engine.decoder import Decoder
from engine.evaluation.curve import Curve
from engine.evaluation.metrics import METRICS
from engine.evaluation.paired import format_stage_call, short_names
from engine.evaluation.statistics import (
    RESAMPLES,
    SEED,
    Comparison,
    compare,
    correct_holm,
    describe_comparison,
    estimate_queries_needed,
)
from engine.evaluation.sweep.cell import Cell, as_json
from engine.evaluation.tuning.objectives import RELEVANT, Objective, TunedChoice
from engine.progress import counted
from engine.wording import decimal, percent, signed

DRAWS = 200
"""So many sets of queries are drawn to see how firm a choice is."""
NEAR = 0.05
"""A value no further than this share of the range from another is much the same."""
VERDICTS = {True: "confirmed", False: "not confirmed", None: "measured"}
"""How test judges a choice, None for one that claims nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """How far dev and test differ in a metric."""

    metric: str
    k: int
    dev: float  # the chosen setting's means
    test: float
    gained_dev: float  # these minus the baseline's
    gained_test: float
    low: float | None  # 95% interval of gained_dev − gained_test, the two splits' queries drawn apart
    high: float | None  # None where a split has one query

    @property
    def lost(self) -> float:
        """How much of what was gained on dev is not there on test."""
        return self.gained_dev - self.gained_test

    @property
    def text(self) -> str:
        """One sentence."""
        what = f"{METRICS[self.metric].title}@{self.k}"
        gains = f"{what}: {signed(self.gained_dev)} vs the baseline on dev, {signed(self.gained_test)} on test"
        if self.low is None or self.high is None:
            return f"{gains}."
        whether = "no significant difference" if self.low <= 0 <= self.high else "a significant difference"
        return f"{gains}; {whether} between the two (95% CI {signed(self.low)} to {signed(self.high)})."


@dataclass(frozen=True, eq=False, kw_only=True)
class Candidate:
    """A decoder at its best setting on dev, and how that was chosen; of the baseline, there is nothing to choose."""

    name: str  # as charts write it
    decoder: Decoder
    settings: int  # number that were measured on dev
    dev: Cell
    test: Cell | None
    stability: float = 1.0  # the share of DRAWS resampled sets of dev's queries that lead to the same choice
    queries: int = 0  # number of dev's that the settings were compared on
    left_out: tuple[str, ...] = ()  # names of settings that were no candidates
    searched: str = ""  # what was chosen from, in words
    interval: tuple[float, float] | None = None  # where the parameter is as good on dev, None for a grid
    curve: Curve | None = None  # the exact frontier on dev that it was chosen from, None for a grid


@dataclass(frozen=True, eq=False, kw_only=True)
class Tuned:
    """What tuning chose, of the settings of one stage or of every decoder at its best, and its report."""

    objective: Objective
    k: int
    dev: str
    test: str | None
    several: bool  # whether decoders were chosen from, each at its best, and not the settings of one
    candidates: tuple[Candidate, ...]  # each decoder's best, the best of them first
    reference: Candidate  # the baseline
    choosing: TunedChoice  # why the first is the best, and whether it is what was asked for or only the nearest
    points: tuple[Cell, ...]  # on dev: every setting tried, or each decoder's best
    comparisons: tuple[Comparison, ...]  # with the baseline on test; Holm over the metrics, or over the decoders
    gaps: tuple[Gap, ...]  # dev beside test, of one decoder

    base = property(attrgetter("reference.dev"), doc="The baseline's cell on dev.")
    base_test = property(attrgetter("reference.test"), doc="The baseline's cell on test, None without one.")
    baseline = property(attrgetter("reference.decoder"), doc="The first of its kind in its place.")
    decoder = property(attrgetter("winner.decoder"), doc="The decoder that dev chose.")
    chosen = property(attrgetter("winner.dev"), doc="Its cell on dev.")
    chosen_test = property(attrgetter("winner.test"), doc="Its cell on test, None without one.")
    stability = property(attrgetter("winner.stability"), doc="How often resampled queries lead to the same choice.")
    queries = property(attrgetter("winner.queries"), doc="Number of dev's that the settings were compared on.")
    left_out = property(attrgetter("winner.left_out"), doc="Names of settings that were no candidates.")
    searched = property(attrgetter("winner.searched"), doc="What was chosen from, in words.")
    interval = property(attrgetter("winner.interval"), doc="Where the parameter is as good on dev, None for a grid.")
    curve = property(attrgetter("winner.curve"), doc="The exact frontier that it was chosen from, None for a grid.")
    satisfied = property(attrgetter("choosing.satisfied"), doc="Whether the choice is what was asked for.")

    @property
    def winner(self) -> Candidate:
        """The candidate that dev chose."""
        return self.reference if self.stays else self.candidates[0]

    @property
    def stays(self) -> bool:
        """Whether the baseline stays, as no decoder is sure on dev to keep what must be kept."""
        return self.several and self.objective.constrained and not self.choosing.satisfied

    @property
    def constraint_holds_on_test(self) -> bool | None:
        """Whether the constraint holds on test, None without either."""
        if self.chosen_test is None or not self.objective.constrained:
            return None
        return bool(self.objective.kept(*reached_means(self)))

    @property
    def confirmed(self) -> bool | None:
        """Whether test shows what was asked for; None without test, and for a choice that claims nothing of it."""
        if self.test is None or self.stays or self.objective.aim == "knee":
            return None
        row = self.gained
        gained = row is not None and row.significant and row.difference > 0
        kept = self.constraint_holds_on_test
        return gained if kept is None else kept and (gained or not self.several)

    @property
    def status(self) -> str:
        """Whether test confirms the choice, in a few words."""
        if self.stays:
            return f"stays: no other is sure to keep {100 * self.objective.share:g}% on {self.dev}"
        return f"measured on {self.dev} only" if self.test is None else f"{VERDICTS[self.confirmed]} on {self.test}"

    @property
    def reached(self) -> str:
        """What it reaches on test, or else on dev, beside the baseline."""
        return self.objective.reached(*reached_means(self), self.reference.name)

    @property
    def gained(self) -> Comparison | None:
        """What it gains on test, None without one and where the baseline stays."""
        return next((row for row in _rows_of_winner(self) if row.metric == self.objective.metrics[-1]), None)

    @property
    def sentences(self) -> tuple[str, ...]:
        """What a person should read, in order."""
        return (*self.chosen_because, *self.reported)

    @property
    def chosen_because(self) -> tuple[str, ...]:
        """How the setting was chosen, and whether that holds on test."""
        status = f"{self.status[0].upper()}{self.status[1:]}"
        if self.several:
            settings = counted(sum(candidate.settings for candidate in self.candidates), "setting")
            chosen = f"{'stays, of' if self.stays else 'chosen from'} {counted(len(self.candidates), 'decoder')}"
            first = f"{self.winner.name}: {chosen} in {settings} for {self.objective.text}, on {self.dev}."
            return (first, self.choosing.said, *([] if self.stays else [f"{status}."]))
        sentences = [
            f"{self.winner.name}: chosen from {self.searched} for {self.objective.text}, on {self.dev} "
            f"({counted(self.queries, 'query', 'queries')}).",
            self.choosing.said,
        ]
        same = "this setting"
        if self.interval is not None and self.curve is not None:
            low, high = self.interval
            symbol = self.curve.symbol
            sentences.append(f"Every {symbol} from {low:.6g} to {high:.6g} is as good ({high - low:.2g} wide).")
            same = f"a {symbol} within {percent(NEAR)} of its range of this one"
        sentences.append(f"Stability: {percent(self.stability)} of {DRAWS} bootstrap samples choose {same}.")
        if self.left_out:
            sentences.append(f"Left out, as they answer too few queries: {', '.join(self.left_out)}.")
        return (*sentences, f"{status}: {self.reached}")

    @property
    def reported(self) -> tuple[str, ...]:
        """How it does on test, how far dev and test differ, and what to do where neither is sure."""
        rows = [f"On {self.test}: {describe_comparison(row)}" for row in _rows_of_winner(self)]
        return (*rows, *(gap.text for gap in self.gaps), *filter(None, [next_step(self)]))

    @property
    def table(self) -> list[list[str]]:
        """A head, then a row a candidate and the baseline's: its means on dev, and on test where there is one."""
        metrics = self.objective.metrics
        splits = [split for split in (self.dev, self.test) if split is not None]
        head = ["Decoder", *(f"{METRICS[m].title}@{self.k} on {split}" for split in splits for m in metrics)]
        rows = [
            [one.name, *(decimal(cell.mean[m]) for cell in (one.dev, one.test) if cell for m in metrics)]
            for one in (*self.candidates, self.reference)
        ]
        return [head, *rows]

    def as_json(self) -> dict[str, Any]:
        """The same as plain JSON values, NaN as null; `cell.from_json` reads the decoders."""
        values: dict[str, Any] = _plain(
            {
                **{name: getattr(self, name) for name in ("k", "dev", "test", "satisfied", "sentences")},
                "objective": asdict(self.objective),
                "decoder": as_json(self.decoder),
                **(_decoders_as_json(self) if self.several else _settings_as_json(self)),
            }
        )
        return values


def reached_means(tuned: Tuned) -> tuple[dict[str, float], dict[str, float]]:
    """The choice's means and the baseline's on test, or else on dev, over the queries on which both have them."""
    return _means(tuned.chosen_test or tuned.chosen, tuned.base_test or tuned.base, tuned.objective)


def _rows_of_winner(tuned: Tuned) -> list[Comparison]:
    label = tuned.chosen.label
    return [row for row in tuned.comparisons if row.label == label]


def _decoders_as_json(tuned: Tuned) -> dict[str, Any]:
    """What the JSON of a choice among decoders has besides."""
    return {
        "confirmed": tuned.confirmed,
        "candidates": [
            {
                "decoder": as_json(one.decoder),
                "settings": one.settings,
                "dev": one.dev.mean,
                "test": None if one.test is None else one.test.mean,
            }
            for one in (*tuned.candidates, tuned.reference)
        ],
        "comparisons": [{**asdict(row), "wins": row.wins._asdict()} for row in tuned.comparisons],
    }


def _settings_as_json(tuned: Tuned) -> dict[str, Any]:
    """What the JSON of a choice among settings has besides."""
    splits = {tuned.dev: (tuned.chosen, tuned.base)}
    written = {}
    if tuned.test is not None and tuned.chosen_test is not None and tuned.base_test is not None:
        splits[tuned.test] = (tuned.chosen_test, tuned.base_test)
        written = dict(zip(("name", "baseline"), short_names(splits[tuned.test], format_stage_call), strict=True))
    plain = ["searched", "queries", "left_out", *(["interval"] if tuned.interval else [])]
    return {
        **{name: getattr(tuned, name) for name in plain},
        "held": tuned.constraint_holds_on_test,
        "firm": tuned.stability,
        "baseline": as_json(tuned.baseline),
        "means": {split: {"chosen": a.mean, "baseline": b.mean} for split, (a, b) in splits.items()},
        "comparisons": [
            {**asdict(row), **written, "wins": row.wins._asdict(), "told": row.significant} for row in tuned.comparisons
        ],
        "gaps": [{**asdict(gap), "lost": gap.lost} for gap in tuned.gaps],
        "settings": [{"decoder": cell.decoder, "mean": cell.mean} for cell in tuned.points],
    }


def _plain(value: Any) -> Any:
    """Lists for tuples, and None for NaN, which JSON does not have."""
    match value:
        case Mapping():
            return {name: _plain(v) for name, v in value.items()}
        case list() | tuple():
            return [_plain(v) for v in value]
        case float() if not np.isfinite(value):
            return None
    return value


def compare_cells(
    cells: Sequence[Cell], base: Cell, metrics: Sequence[str], several: bool, resamples: int, seed: int
) -> tuple[Comparison, ...]:
    """Compare cells with the baseline in each metric; Holm's correction is over the cells, of one over the metrics."""
    if several:
        options = {"resamples": resamples, "seed": seed}
        return tuple(row for m in metrics for row in compare([base, *cells], m, base, base.k, **options))
    (cell,) = cells
    has = [m for m in metrics if (np.isfinite(cell.values[m]) & np.isfinite(base.values[m])).any()]
    rows = [compare([base, cell], m, base, base.k, resamples=resamples, seed=seed)[0] for m in has]
    corrected = correct_holm([row.p for row in rows])
    return tuple(replace(row, p_holm=float(p), comparisons=len(rows)) for row, p in zip(rows, corrected, strict=True))


def compared_on_dev(tuned: Tuned) -> tuple[Comparison, ...]:
    """As `comparisons`, on dev, where each was chosen because it looks good, in the objective's metrics."""
    cells = [one.dev for one in tuned.candidates]
    return compare_cells(cells, tuned.base, tuned.objective.metrics, tuned.several, RESAMPLES.default, SEED.default)


def next_step(tuned: Tuned) -> str:
    """What to do where no decoder is sure on dev, or test does not confirm it; "" where there is nothing to do."""
    if not tuned.several:
        return ""
    steps = _to_be_sure(tuned) if tuned.stays else _to_be_confirmed(tuned) if tuned.confirmed is False else []
    return f"Next: {'; or '.join(steps)}." if steps else ""


def _to_be_sure(tuned: Tuned) -> list[str]:
    nearest, steps, surest = tuned.candidates[0], [], tuned.choosing.surest
    if surest is not None and surest >= 0.01:
        kept = percent(np.floor(100 * surest + 1e-9) / 100)
        steps.append(f"ask for a share of {kept}, which {nearest.name} is sure to keep")
    slack = tuned.objective.slack(nearest.dev.values, tuned.base.values[RELEVANT])
    slack = slack[np.isfinite(slack)]
    needed = estimate_queries_needed(slack, slack.mean()) if len(slack) and slack.mean() > 0 else None
    if needed is not None and needed > len(slack):
        steps.append(f"judge {counted(needed - len(slack), 'more query', 'more queries')} for {tuned.dev}")
    return steps


def _to_be_confirmed(tuned: Tuned) -> list[str]:
    test, base, steps = tuned.chosen_test, tuned.base_test, []
    own, plain = reached_means(tuned)
    short = tuned.constraint_holds_on_test is False
    if short and plain[RELEVANT]:
        kept = np.floor(100 * own[RELEVANT] / plain[RELEVANT] + 1e-9) / 100
        steps.append(f"ask for a share of {percent(kept, 0)}, which it kept on {tuned.test}")
    metric = RELEVANT if short else tuned.objective.metrics[-1]
    pairs = np.stack([test.values[metric], base.values[metric]])
    pairs = pairs[:, np.isfinite(pairs).all(0)]
    if short:
        wanted = (1 - tuned.objective.share) * plain[RELEVANT]
    else:
        own_dev, base_dev = _means(tuned.chosen, tuned.base, tuned.objective)
        wanted = own_dev[metric] - base_dev[metric]
    needed = estimate_queries_needed(pairs[0] - pairs[1], wanted) if wanted else None
    if needed is not None and needed > pairs.shape[1]:
        more = counted(needed - pairs.shape[1], "more query", "more queries")
        what = f"a difference of {decimal(abs(wanted))} {METRICS[metric].title}"
        steps.append(f"judge {more} for {tuned.test}: {what} takes {needed:,} to be seen")
    return steps or [f"more queries for {tuned.test}: on {pairs.shape[1]:,} what it gains is not told from chance"]


def _means(cell: Cell, base: Cell, objective: Objective) -> tuple[dict[str, float], dict[str, float]]:
    """The means of the objective's metrics of both, over the queries on which both have them."""
    both = np.all([np.isfinite(c.values[m]) for c in (cell, base) for m in objective.metrics], axis=0)
    own, others = ({m: float(c.values[m][both].mean()) for m in objective.metrics} for c in (cell, base))
    return own, others
