"""The verdict on a frontier: the best setting within a budget, its gain over the baseline and its cost."""

from collections.abc import Mapping
from dataclasses import dataclass

from engine.evaluation.frontier import (
    KEPT_SHARE,
    TIME_AXIS,
    Frontier,
    FrontierPoint,
    compute_floor,
    select_best_per_method,
)
from engine.evaluation.metrics import title_of
from engine.evaluation.paired import TIE_TOLERANCE
from engine.evaluation.statistics import Comparison
from engine.wording import percent, signed

GAIN_WORDINGS = {"ilad": ("more diverse", "diversity")}
"""Metric → the phrase for more of it, if not "more" and its title, and its name beside a figure."""
ComparisonsByMetric = Mapping[str, Mapping[str, Comparison]]
"""Metric → label → that decoder against the baseline."""


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """The recommended setting of a frontier, with its gain and cost."""

    base: FrontierPoint
    best: FrontierPoint | None  # the best x among all that keep the budget, None where none has more than the baseline
    share: float  # of the baseline's y that is to be kept
    gain: Comparison | None  # of the best in x; None without a best, and of a time
    cost: Comparison | None  # of the best in y
    text: str


def find_verdict(frontier: Frontier, baseline: str, share: float, comparisons: ComparisonsByMetric) -> Verdict:
    """Choose the setting with most x that keeps a share of the baseline's y, and describe it.

    baseline: the label of one of the points; share: of its y that must be kept; comparisons: as `compare` gives them
    for both metrics. Raises ParamError.
    """
    base, *candidates = select_best_per_method(frontier, baseline, KEPT_SHARE.check(share))
    y_title = title_of(frontier.y)
    budget = f"{percent(share)} of {base.name}'s {y_title}"
    feasible = [point for point in candidates if point.y >= compute_floor(base, share)]
    if not feasible:
        # Without a feasible setting the advice names the one that comes nearest.
        nearest_point = max(candidates, key=lambda point: point.y, default=None)
        sentence = f"No setting keeps {budget}."
        if nearest_point is None:
            sentence = f"There is nothing to compare {base.name} with."
        elif base.y > 0:
            sentence += f" The nearest, {nearest_point.name}, keeps {_format_share(nearest_point.y / base.y)}."
        return Verdict(base=base, best=None, share=share, gain=None, cost=None, text=sentence)
    # Rounding allowed for, the best must gain something, or keeping the baseline is the advice.
    best = max(feasible, key=lambda point: (frontier.direction * point.x, point.y))
    gain, cost = (comparisons.get(metric, {}).get(best.point.label) for metric in (frontier.x, frontier.y))
    if frontier.x != TIME_AXIS and best.x <= base.x + TIE_TOLERANCE:
        # One letter of "No setting …" is part of the subject, as its case depends on it.
        subject = "On this query n" if frontier.queries == 1 else "N"
        sentence = f"{subject}o setting that keeps {budget} {_verb_of(frontier.x)} {_more_of(frontier.x)}."
        return Verdict(base=base, best=None, share=share, gain=None, cost=None, text=sentence)
    if frontier.x == TIME_AXIS:
        times_text = f"{best.x:.2g} ms a query, {base.name} {base.x:.2g} ms"
        sentence = f"Of the settings that keep {budget}, {best.name} is the fastest: {times_text}."
    else:
        sentence = _describe_gain(best, base, gain, cost, budget)
    return Verdict(base=base, best=best, share=share, gain=gain, cost=cost, text=sentence)


def _more_of(metric: str) -> str:
    """Return the words for more of a metric, such as "more Recall"."""
    return GAIN_WORDINGS.get(metric, (f"more {title_of(metric)}", ""))[0]


def _verb_of(metric: str) -> str:
    """Return the verb that goes with the words of `_more_of`: "is" or "has"."""
    return "is" if metric in GAIN_WORDINGS else "has"


def _describe_gain(
    best: FrontierPoint, base: FrontierPoint, gain: Comparison | None, cost: Comparison | None, budget: str
) -> str:
    """Describe in a sentence what the best setting gains over the baseline, and at what cost.

    gain, cost: the comparison in the metric to gain and in that of the budget; n.s. marks what is not significant
    """
    if gain is None:
        return f"{best.name} has the most among the settings that keep {budget}."
    is_single, size_text = gain.queries == 1, _format_difference_size(gain)
    verb_text, more_text = _verb_of(gain.metric), _more_of(gain.metric)
    if not (is_single or gain.significant):
        nearest_text = f"The nearest: {best.name}, +{size_text} (n.s.)."
        return f"No setting that keeps {budget} {verb_text} measurably {more_text}. {nearest_text}"
    sentence = f"{best.name} {verb_text} {size_text} {more_text} than {base.name}{_describe_cost(gain, cost)}."
    if is_single:
        return f"On this query {sentence} One query only."
    return f"{sentence} {more_text[:1].upper()}{more_text[1:]} on {gain.wins.win:,} of {gain.queries:,} queries."


def _describe_cost(gain: Comparison, cost: Comparison | None) -> str:
    """Return the end of a sentence on what a gain costs in the other metric; "" if no other was compared."""
    if cost is None or cost.metric == gain.metric:
        return ""
    title = title_of(cost.metric)
    if cost.wins.win == cost.wins.loss == 0:
        return f" and has the same {title}"
    if not (cost.measurable or cost.queries == 1):
        return f" and loses no measurable {title} ({signed(cost.difference)}, n.s.)"
    if cost.difference > 0:
        return f" and has {_format_difference_size(cost)} more {title} ({signed(cost.difference)})"
    share_text = f"{_format_difference_size(cost)} of its " if cost.baseline_mean > 0 else ""
    return f" and loses {share_text}{title} ({signed(cost.difference)})"


def change(comparison: Comparison) -> str:
    """Format a difference to the baseline, such as "−4% Recall (n.s.)"."""
    sign = "−" if comparison.difference < 0 else "+"
    # The second wording is the name beside a figure.
    title = GAIN_WORDINGS.get(comparison.metric, ("", title_of(comparison.metric)))[1]
    note = "" if comparison.measurable or comparison.queries == 1 else " (n.s.)"
    return f"{sign}{_format_difference_size(comparison)} {title}{note}"


def _format_difference_size(comparison: Comparison) -> str:
    """Format a difference without its sign: as a share of the baseline's mean if that is above 0."""
    if comparison.baseline_mean > 0:
        return _format_share(abs(comparison.difference) / comparison.baseline_mean)
    return signed(abs(comparison.difference)).lstrip("+")


def _format_share(value: float) -> str:
    """Format a share in percent, with a decimal if it is below 1 %."""
    return percent(value, 0 if value >= 0.01 else 1)
