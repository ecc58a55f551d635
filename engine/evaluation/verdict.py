"""The verdict on a frontier: the best setting within a budget, what it gains over the baseline and what that costs."""

from collections.abc import Mapping
from dataclasses import dataclass

from engine.evaluation.frontier import SHARE, TIME, Frontier, FrontierPoint, best_of_each, floor_of
from engine.evaluation.metrics import title_of
from engine.evaluation.paired import SAME
from engine.evaluation.statistics import Comparison
from engine.wording import percent, signed

GAINS = {"ilad": ("more diverse", "diversity")}
"""Metric → how more of it is said, where that is not "more" and its title; and what it is called beside its figure."""
Rows = Mapping[str, Mapping[str, Comparison]]
"""Metric → label → that decoder against the baseline."""


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What a frontier says."""

    base: FrontierPoint
    best: FrontierPoint | None  # the best x among all that keep the budget, None where none has more than the baseline
    share: float  # of the baseline's y that is to be kept
    gain: Comparison | None  # of the best in x; None without a best, and of a time
    cost: Comparison | None  # of the best in y
    text: str


def verdict(measured: Frontier, baseline: str, share: float, rows: Rows) -> Verdict:
    """Which setting to take, in a sentence that says no more than the statistics allow.

    baseline: the label of one of the points; share: of its y that must be kept; rows: as `compare` gives them for both
    metrics. Raises ParamError.
    """
    base, *others = best_of_each(measured, baseline, SHARE.check(share))
    y = title_of(measured.y)
    budget = f"{percent(share)} of {base.name}'s {y}"
    kept = [p for p in others if p.y >= floor_of(base, share)]
    if not kept:
        nearest = max(others, key=lambda p: p.y, default=None)
        text = f"No setting keeps {budget}."
        if nearest is None:
            text = f"There is nothing to compare {base.name} with."
        elif base.y > 0:
            text += f" The nearest, {nearest.name}, keeps {_share(nearest.y / base.y)}."
        return Verdict(base=base, best=None, share=share, gain=None, cost=None, text=text)
    best = max(kept, key=lambda p: (measured.direction * p.x, p.y))
    gain, cost = (rows.get(metric, {}).get(best.point.label) for metric in (measured.x, measured.y))
    if measured.x != TIME and best.x <= base.x + SAME:
        alone = "On this query n" if measured.queries == 1 else "N"
        text = f"{alone}o setting that keeps {budget} {_verb(measured.x)} {_more(measured.x)}."
        return Verdict(base=base, best=None, share=share, gain=None, cost=None, text=text)
    if measured.x == TIME:
        times = f"{best.x:.2g} ms a query, {base.name} {base.x:.2g} ms"
        text = f"Of the settings that keep {budget}, {best.name} is the fastest: {times}."
    else:
        text = _said(best, base, gain, cost, budget)
    return Verdict(base=base, best=best, share=share, gain=gain, cost=cost, text=text)


def _more(metric: str) -> str:
    return GAINS.get(metric, (f"more {title_of(metric)}", ""))[0]


def _verb(metric: str) -> str:
    return "is" if metric in GAINS else "has"


def _said(
    best: FrontierPoint, base: FrontierPoint, gain: Comparison | None, cost: Comparison | None, budget: str
) -> str:
    if gain is None:
        return f"{best.name} has the most among the settings that keep {budget}."
    alone, more, verb, size = gain.queries == 1, _more(gain.metric), _verb(gain.metric), _size(gain)
    if not (alone or gain.significant):
        nearest = f"The nearest: {best.name}, +{size} (n.s.)."
        return f"No setting that keeps {budget} {verb} measurably {more}. {nearest}"
    text = f"{best.name} {verb} {size} {more} than {base.name}{_cost(gain, cost)}."
    if alone:
        return f"On this query {text} One query says nothing of others."
    return f"{text} {more[:1].upper()}{more[1:]} on {gain.wins.win:,} of {gain.queries:,} queries."


def _cost(gain: Comparison, cost: Comparison | None) -> str:
    """What the gain costs, as the end of its sentence; nothing where both axes are one metric."""
    if cost is None or cost.metric == gain.metric:
        return ""
    title = title_of(cost.metric)
    if cost.wins.win == cost.wins.loss == 0:
        return f" and has the same {title}"
    if not (cost.measurable or cost.queries == 1):
        return f" and loses no measurable {title} ({signed(cost.difference)}, n.s.)"
    if cost.difference > 0:
        return f" and has {_size(cost)} more {title} ({signed(cost.difference)})"
    part = f"{_size(cost)} of its " if cost.baseline_mean > 0 else ""
    return f" and loses {part}{title} ({signed(cost.difference)})"


def change(row: Comparison) -> str:
    """A difference to the baseline in a few words, "−4% Recall (n.s.)"."""
    sign = "−" if row.difference < 0 else "+"
    title = GAINS.get(row.metric, ("", title_of(row.metric)))[1]
    return f"{sign}{_size(row)} {title}{'' if row.measurable or row.queries == 1 else ' (n.s.)'}"


def _size(row: Comparison) -> str:
    """How large a difference is, as a share of the baseline's mean where that is above 0."""
    if row.baseline_mean > 0:
        return _share(abs(row.difference) / row.baseline_mean)
    return signed(abs(row.difference)).lstrip("+")


def _share(value: float) -> str:
    return percent(value, 0 if value >= 0.01 else 1)
