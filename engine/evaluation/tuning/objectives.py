"""Objectives of tuning as data, and the choice of the best measured setting for those without a budget."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from engine.display import OneLine
from engine.errors import ParamError
from engine.evaluation.frontier import Frontier, FrontierPoint, find_dominated
from engine.evaluation.metrics import LESS_IS_BETTER, METRICS
from engine.evaluation.paired import TIE_TOLERANCE
from engine.params import Choice, Declared, Param, Real, declare, drop_ineffective, params_of
from engine.wording import decimal, percent, signed

RELEVANT, DIVERSE = "recall", "ilad"
"""The two metrics that are traded for one another."""
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

    def __post_init__(self) -> None:
        """Check the values; raise ParamError for one that has no effect on the aim, unless it is the default."""
        super().__post_init__()
        params = params_of(self)
        # The default is what an objective has that was not given one, so it stands for none.
        effective = drop_ineffective(params, {param.name: getattr(self, param.name) for param in params})
        for param in params:
            value = getattr(self, param.name)
            if param.name not in effective and value != param.default:
                raise ParamError(explain_ineffective(param, param.name, "aim", self.aim, value))

    @property
    def metrics(self) -> tuple[str, ...]:
        """The metrics that must be measured to judge settings by the objective."""
        return (self.metric,) if self.aim == "maximise" else (RELEVANT, DIVERSE)

    @property
    def text(self) -> str:
        """The objective in words."""
        return describe_objective(self, "the baseline")

    @property
    def constrained(self) -> bool:
        """True if a share of the baseline's Recall must be kept, as `engine.decide` decides."""
        return self.aim == "diverse"

    def kept(self, means: Mapping[str, float], baseline: Mapping[str, float]) -> bool:
        """Return True if a setting's means satisfy the constraint, or there is none."""
        return not self.constrained or means[RELEVANT] >= self.share * baseline[RELEVANT] - TIE_TOLERANCE

    def describe_outcome(self, means: Mapping[str, float], baseline: Mapping[str, float], rival: str) -> str:
        """Describe what a setting reaches beside the baseline; a metric that must be kept comes first.

        means, baseline: metric → mean of the setting and of the baseline; rival: the baseline's name
        """
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

    def guide(self, means: Mapping[str, float], baseline: Mapping[str, float]) -> tuple[float, ...]:
        """Return the numbers that a search should maximise: two if the aim is a point of a frontier.

        For the aim "diverse" it is the diversity (ILAD), which is never below 0. If too little of the baseline's Recall
        is kept, it is the setting's Recall less the required one instead: below 0, and less the further it falls short.
        """
        match self.aim:
            case "maximise":
                return (means[self.metric],)
            case "diverse" if self.kept(means, baseline):
                return (means[DIVERSE],)
            case "diverse":
                return (means[RELEVANT] - self.share * baseline[RELEVANT],)
        return means[RELEVANT], means[DIVERSE]

    def choose(
        self, means: Mapping[str, np.ndarray], baseline: Mapping[str, float], order: Sequence[Any], k: int, rival: str
    ) -> "TunedChoice":
        """Choose the best of m settings by their means, and return it with the reason.

        For the aims "maximise" and "knee"; an objective with a budget, a share of the baseline's Recall to keep, is
        decided elsewhere, by the chances of keeping it. means: metric → (m,) over the queries that all of them and the
        baseline share; baseline: its means over those; order: (m,) keys that break ties, the smallest first; k, rival:
        the metrics' k and the baseline's name, for the words of the reason.
        """
        choose_best = _choose_maximum if self.aim == "maximise" else _choose_knee
        return choose_best(self, means, baseline, order, k, rival)


def describe_objective(objective: Objective, baseline: str) -> str:
    """Describe an objective in words; baseline: the name of what a share is kept of."""
    relevant, diverse = METRICS[RELEVANT].title, METRICS[DIVERSE].title
    match objective.aim:
        case "maximise":
            return f"maximum {METRICS[objective.metric].title}"
        case "diverse":
            return f"most diversity ({diverse}), sure to keep {100 * objective.share:g}% of {baseline}'s {relevant}"
    return f"the knee of the {relevant}–{diverse} frontier"


def explain_ineffective(param: Param, name: str, aim_name: str, aim: str, value: Any) -> str:
    """Return the message for a value that an aim does not take.

    name, aim_name: of the parameter and of the aim, as the person wrote them
    """
    assert param.requires is not None
    # What each aim takes, so that the message says what to do with it.
    relevant, diverse = METRICS[RELEVANT].title, METRICS[DIVERSE].title
    tunes = {
        "maximise": "takes one metric to maximise",
        "diverse": f"gains {diverse} and takes the share of {relevant} to keep",
        "knee": f"trades {relevant} for {diverse}",
    }
    return (
        f"{name} must be left out with {aim_name} {aim!r}, which {tunes[aim]}; got {value!r}. "
        f"{aim_name} {param.requires[1]!r} takes it"
    )


@dataclass(frozen=True)
class TunedChoice(OneLine):
    """Setting that an objective chose, and its reason."""

    best: int  # its position
    satisfied: bool  # False if it is only the nearest to what was asked for
    reason: str  # why it was chosen, in words


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


def _choose_maximum(goal: Objective, means: Any, baseline: Any, order: Any, k: int, rival: str) -> TunedChoice:
    """Choose the setting with the largest mean of the goal's metric; of equal ones the first in `order`."""
    goal_values = means[goal.metric]
    best = _pick_best([goal_values], order, np.ones(len(goal_values), dtype=bool))
    n_equal = int((goal_values >= goal_values[best] - TIE_TOLERANCE).sum())
    tie_text = f"; {n_equal} settings tie, and this one is closest to the default" if n_equal > 1 else ""
    summary = f"Highest {METRICS[goal.metric].title}@{k}: {decimal(goal_values[best])}"
    return TunedChoice(best, True, f"{summary} ({rival}: {decimal(baseline[goal.metric])}){tie_text}.")


def compute_chord_distances(x_values: np.ndarray, y_values: np.ndarray) -> np.ndarray:
    """Return how far each of m points lies beyond the straight line between a frontier's two ends.

    A frontier's knee, its best compromise, is the point furthest beyond this chord. The ends are the non-dominated
    points with most x and with most y. Axes are scaled to [0, 1], so that the chord goes from (0, 1) to (1, 0). The
    distance is negative below the chord, and −∞ for dominated points. If the frontier is one point, it is 0 for it.
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


def _choose_knee(goal: Objective, means: Any, baseline: Any, order: Any, k: int, _: str) -> TunedChoice:
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
