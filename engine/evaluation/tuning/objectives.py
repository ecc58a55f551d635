"""Objectives of tuning as data, and the choice of the best measured setting for each."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import stdtrit

from engine.evaluation.frontier import Frontier, FrontierPoint, find_dominated
from engine.evaluation.metrics import LESS_IS_BETTER, METRICS
from engine.evaluation.paired import TIE_TOLERANCE
from engine.params import Choice, Declared, Real, declare
from engine.wording import decimal, percent, signed

RELEVANT, DIVERSE = "recall", "ilad"
"""The two metrics that are traded for one another."""
CONSTRAINT_CONFIDENCE = 0.95
"""Level of the one-sided interval whose lower end must keep the share. A setting whose mean just keeps it would keep
less on every second set of other queries."""
MIN_KNEE_DISTANCE = 0.02
"""A frontier that is nowhere further than this beyond its chord is nearly straight, and its knee is noise."""


@dataclass(frozen=True)
class Objective(Declared):
    """A quantity to tune for, with its constraint.

    The baseline is the first registered selector at the same k.

    Parameters
    ----------
    aim : str
        "maximise" for one metric, or "diverse" for the most diversity within a budget of Recall.
    metric : str
        The metric that "maximise" maximises.
    share : float
        The share of the baseline's Recall that "diverse" must keep.

    Examples
    --------
    >>> import engine
    >>> engine.Objective("diverse", share=0.9).share
    0.9
    """

    aim: str = declare(
        Choice("maximise", "aim", ("maximise", "diverse", "knee")),
        "maximise: a metric. diverse: most ILAD among settings that keep a share of the baseline's Recall. "
        "knee: where the Recall–ILAD frontier bends most.",
    )
    metric: str = declare(
        Choice("comp", "metric", tuple(m for m in METRICS if m not in LESS_IS_BETTER), requires=("aim", "maximise")),
        "What is maximised.",
    )
    share: float = declare(
        Real(0.95, "share", 0.0, 1.0, comfortable=(0.8, 1.0), requires=("aim", "diverse")),
        "How much of the baseline's Recall must be kept.",
    )

    @property
    def metrics(self) -> tuple[str, ...]:
        """The metrics that must be measured."""
        return (self.metric,) if self.aim == "maximise" else (RELEVANT, DIVERSE)

    @property
    def text(self) -> str:
        """The objective in words."""
        relevant, diverse = METRICS[RELEVANT].title, METRICS[DIVERSE].title
        match self.aim:
            case "maximise":
                return f"maximum {METRICS[self.metric].title}"
            case "diverse":
                return f"maximum {diverse} with {relevant} ≥ {100 * self.share:g}% of the baseline's"
        return f"the knee of the {relevant}–{diverse} frontier"

    @property
    def constrained(self) -> bool:
        """True if settings must satisfy a constraint."""
        return self.aim == "diverse"

    def kept(self, means: Mapping[str, Any], baseline: Mapping[str, float], margin: Any = 0.0) -> Any:
        """Return True where a setting, or each of many, satisfies the constraint, or there is none.

        margin: of `compute_margin`, where the constraint must hold with confidence
        """
        goal_values = np.asarray(means[self.metrics[0]])
        if not self.constrained:
            return np.ones(goal_values.shape, dtype=bool)
        return goal_values - margin >= self.share * baseline[RELEVANT] - TIE_TOLERANCE

    def compute_slack(self, metric_values: Mapping[str, np.ndarray], baseline: np.ndarray) -> np.ndarray:
        """Return each query's Recall less the required share of the baseline's, in the values' shape.

        This is the slack: what a query has to spare. metric_values: metric → values of any shape; baseline: its Recall,
        which broadcasts to it. Without a constraint it is the first metric itself.
        """
        return metric_values[self.metrics[0]] - (self.share if self.constrained else 0.0) * baseline

    def compute_margin(self, mean_slack: Any, mean_square: Any, n_queries: int) -> Any:
        """Return how far the true mean slack may lie below the measured one, with confidence.

        Slack is a query's Recall less the required share of the baseline's. The margin is that of Student's one-sided
        interval, for one setting or an array of them; 0 without a constraint, infinite for a single query. mean_slack,
        mean_square: means of the slack and of its square over `n_queries` queries.
        """
        if not self.constrained:
            return np.zeros(np.shape(mean_slack))
        if n_queries < 2:
            return np.full(np.shape(mean_slack), np.inf)
        # E[x²] − E[x]² rounds to about 1e-16 for equal slacks; what is below the tolerance counts as no spread.
        variance = np.asarray(mean_square) - np.square(mean_slack)
        std_error = np.sqrt(np.where(variance > TIE_TOLERANCE, variance, 0.0) / (n_queries - 1))
        return float(stdtrit(n_queries - 1, CONSTRAINT_CONFIDENCE)) * std_error

    def describe_outcome(self, means: Mapping[str, float], baseline: Mapping[str, float], rival: str) -> str:
        """Describe what a setting reaches beside the baseline, whose name is `rival`; constraint first."""
        if self.aim == "maximise":
            value_text = f"{METRICS[self.metric].title} is {decimal(means[self.metric])}"
            return f"{value_text}; {rival}'s is {decimal(baseline[self.metric])}."
        recall, ilad_change = METRICS[RELEVANT].title, format_change(means[DIVERSE], baseline[DIVERSE])
        ilad_text = f"{METRICS[DIVERSE].title} {ilad_change}."
        if not baseline[RELEVANT]:
            return f"{recall} is {decimal(means[RELEVANT])}; {rival}'s is 0. {ilad_text}"
        kept_share, n_digits = means[RELEVANT] / baseline[RELEVANT], 1
        # Enough digits to show on which side of the required share it lies.
        while kept_share < self.share <= round(kept_share, n_digits + 2) and n_digits < 9:
            n_digits += 1
        request = f"; you asked for {100 * self.share:g}%" if self.constrained else ""
        return f"{recall} is {percent(kept_share, n_digits)} of {rival}'s{request}. {ilad_text}"

    def guide(
        self, means: Mapping[str, float], baseline: Mapping[str, float], margin: float = 0.0
    ) -> tuple[float, ...]:
        """Return the numbers that a search should maximise: two if the aim is a point of a frontier.

        Where the constraint is violated, the violation as a number below 0; margin: as in `kept`.
        """
        match self.aim:
            case "maximise":
                return (means[self.metric],)
            case "diverse" if self.kept(means, baseline, margin):
                return (means[DIVERSE],)
            case "diverse":
                return (means[RELEVANT] - margin - self.share * baseline[RELEVANT],)
        return means[RELEVANT], means[DIVERSE]

    def choose(
        self,
        means: Mapping[str, np.ndarray],
        baseline: Mapping[str, float],
        order: Sequence[Any],
        k: int,
        rival: str,
        margin: Any = 0.0,
    ) -> "TunedChoice":
        """Choose the best of m settings by their means, and return it with the reason.

        means: metric → (m,) over the queries that all of them and the baseline share; baseline: its means over those;
        order: (m,) keys that break ties, the smallest first; k, rival: the metrics' k and the baseline's name, for the
        words; margin: (m,) as in `kept`.
        """
        return _CHOOSERS[self.aim](self, means, baseline, order, k, rival, margin)


@dataclass(frozen=True)
class TunedChoice:
    """Setting that an objective chose, and its reason."""

    best: int  # its position
    satisfied: bool  # False if it is only the nearest to what was asked for
    reason: str  # why it was chosen, one sentence
    surest: float | None = None  # the largest share that a setting keeps with confidence, None without a constraint


def format_change(new_value: float, baseline: float) -> str:
    """Format a change as a percentage of the baseline, "+20%"; as a difference if that is 0."""
    return f"{signed(100 * (new_value / baseline - 1), 0)}%" if baseline else signed(new_value)


def _pick_best(sort_keys: Sequence[np.ndarray], order: Sequence[Any], is_candidate: np.ndarray) -> int:
    """Return the best candidate's position: the largest first key, then the next key, then `order`.

    sort_keys: arrays of (m,) numbers; order: m values, of which the smallest wins the last ties
    """
    remaining = np.flatnonzero(is_candidate)
    # Values within the tolerance tie, so the next key decides among them.
    for sort_key in sort_keys:
        remaining = remaining[sort_key[remaining] >= sort_key[remaining].max() - TIE_TOLERANCE]
    return int(min(remaining.tolist(), key=lambda position: order[position]))


def _choose_maximum(goal: Objective, means: Any, baseline: Any, order: Any, k: int, rival: str, *_: Any) -> TunedChoice:
    """Choose the setting with the largest mean of the goal's metric; of equal ones the first in `order`."""
    goal_values = means[goal.metric]
    best = _pick_best([goal_values], order, np.ones(len(goal_values), dtype=bool))
    n_equal = int((goal_values >= goal_values[best] - TIE_TOLERANCE).sum())
    tie_text = f"; {n_equal} settings tie, and this one is closest to the default" if n_equal > 1 else ""
    summary = f"Highest {METRICS[goal.metric].title}@{k}: {decimal(goal_values[best])}"
    return TunedChoice(best, True, f"{summary} ({rival}: {decimal(baseline[goal.metric])}){tie_text}.")


def _choose_diverse(goal: Objective, means: Any, base: Any, order: Any, k: int, rival: str, gap: Any) -> TunedChoice:
    """Choose the most diverse setting (ILAD) that surely keeps enough Recall, else the nearest to it.

    base: the baseline's means; gap: (m,) margins, how far below its mean a setting's true Recall may lie. The nearest
    is the setting with most Recall less its margin.
    """
    recall, ilad = means[RELEVANT], means[DIVERSE]
    # The mean less its gap is what a setting keeps with confidence.
    is_kept, sure_recall = goal.kept(means, base, gap), recall - gap
    recall_title, ilad_title = f"{METRICS[RELEVANT].title}@{k}", f"{METRICS[DIVERSE].title}@{k}"
    min_recall, base_recall = decimal(goal.share * base[RELEVANT]), decimal(base[RELEVANT])
    constraint = f"{100 * goal.share:g}% of {rival}'s {recall_title} ({min_recall} of {base_recall})"
    constraint += f" with {percent(CONSTRAINT_CONFIDENCE)} confidence" if np.any(gap) else ""
    if is_kept.any():
        best = _pick_best([ilad], order, is_kept)
        reason = f"Highest {ilad_title}: {decimal(ilad[best])} ({rival}: {decimal(base[DIVERSE])}), of the "
        reason += f"{int(is_kept.sum())} of {len(is_kept)} settings that keep {constraint}. "
        reason += f"Its {recall_title}: {decimal(recall[best])}."
    else:
        best = _pick_best([sure_recall, ilad], order, ~is_kept)
        reason = f"No setting keeps {constraint}. The nearest: {recall_title} {decimal(recall[best])}, {ilad_title} "
        reason += f"{decimal(ilad[best])}."
    surest = float(sure_recall.max() / base[RELEVANT]) if base[RELEVANT] else None
    return TunedChoice(best, bool(is_kept.any()), reason, surest)


def compute_chord_distances(x_values: np.ndarray, y_values: np.ndarray) -> np.ndarray:
    """Return how far each of m points lies beyond the straight line between a frontier's two ends.

    A frontier's knee, its best compromise, is the point furthest beyond this chord. Axes are scaled to [0, 1].

    The ends are the non-dominated points with most x and with most y; the chord goes from (0, 1) to (1, 0). Dominated
    points get −∞; below the chord it is negative; 0 for all of a frontier that is one point.
    """
    x_values, y_values = np.asarray(x_values, dtype=np.float64), np.asarray(y_values, dtype=np.float64)
    is_on_front = ~find_dominated(np.stack([x_values, y_values], axis=1))
    scaled_axes = []
    for axis_values in (x_values, y_values):
        # Where the frontier is one point, the middle of both axes puts it on the chord.
        minimum, extent = axis_values[is_on_front].min(), np.ptp(axis_values[is_on_front])
        scaled = (axis_values - minimum) / extent if extent > TIE_TOLERANCE else np.full(len(axis_values), 0.5)
        scaled_axes.append(scaled)
    return np.where(is_on_front, (scaled_axes[0] + scaled_axes[1] - 1) / np.sqrt(2), -np.inf)


def find_knee(frontier: Frontier) -> FrontierPoint | None:
    """Return the point where a frontier bends most; None if it hardly bends or has fewer than 3 points."""
    points = frontier.points
    x_values = np.array([frontier.direction * point.x for point in points])
    distances = compute_chord_distances(x_values, np.array([point.y for point in points]))
    best_index = _pick_best([distances], [point.point.label for point in points], np.isfinite(distances))
    return points[best_index] if len(frontier.front) > 2 and distances[best_index] > MIN_KNEE_DISTANCE else None


def _choose_knee(goal: Objective, means: Any, baseline: Any, order: Any, k: int, *_: Any) -> TunedChoice:
    """Choose the knee: the setting furthest beyond the line between the ends of the Recall–ILAD frontier."""
    distances = compute_chord_distances(means[DIVERSE], means[RELEVANT])
    best = _pick_best([distances], order, np.isfinite(distances))
    n_front = int(np.isfinite(distances).sum())
    position = f"{METRICS[DIVERSE].title}@{k} {decimal(means[DIVERSE][best])}, {METRICS[RELEVANT].title}@{k} "
    position += decimal(means[RELEVANT][best])
    chord_text = f"the line between its ends, with both axes scaled to 0–1 ({position})."
    if distances[best] > MIN_KNEE_DISTANCE:
        bend = decimal(distances[best])
        text = f"Of the {n_front} settings on the frontier it lies furthest, {bend}, beyond {chord_text}"
        return TunedChoice(best, True, text)
    if n_front >= 3 and distances[best] > TIE_TOLERANCE:
        text = f"The frontier is almost straight: this setting lies only {decimal(distances[best])} beyond {chord_text}"
        return TunedChoice(best, False, text)
    shape = {1: "is one point", 2: "is two points"}.get(n_front, "does not bend outwards")
    reason = f"The frontier {shape}, so it has no knee; this end of it is closest to the default ({position})."
    return TunedChoice(best, False, reason)


_CHOOSERS: Mapping[str, Callable[..., TunedChoice]] = {
    "maximise": _choose_maximum, "diverse": _choose_diverse, "knee": _choose_knee,
}  # fmt: skip
