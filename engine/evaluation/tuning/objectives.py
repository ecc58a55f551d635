"""What a setting is tuned for, as data, and which of the measured settings that makes the best."""

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
SURE = 0.95
"""The level of the one-sided interval whose lower end must keep the share: what keeps it just so, in the mean over the
queries that choose, keeps less on every second set of others."""
BENDS = 0.02
"""A frontier that is nowhere further than this beyond its chord is as good as straight: its knee is noise."""


@dataclass(frozen=True)
class Objective(Declared):
    """aim: what for; metric: what "maximise" maximises; share: of the baseline's Recall, what "diverse" has to keep.

    The baseline is the first of the registered selectors, at the same k.
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
        """What has to be measured."""
        return (self.metric,) if self.aim == "maximise" else (RELEVANT, DIVERSE)

    @property
    def text(self) -> str:
        """In words."""
        relevant, diverse = METRICS[RELEVANT].title, METRICS[DIVERSE].title
        match self.aim:
            case "maximise":
                return f"maximum {METRICS[self.metric].title}"
            case "diverse":
                return f"maximum {diverse} with {relevant} ≥ {100 * self.share:g}% of the baseline's"
        return f"the knee of the {relevant}–{diverse} frontier"

    @property
    def constrained(self) -> bool:
        """Whether settings have to keep to something."""
        return self.aim == "diverse"

    def kept(self, means: Mapping[str, Any], baseline: Mapping[str, float], margin: Any = 0.0) -> Any:
        """Whether a setting, or each of many, keeps to the constraint; always where there is none.

        margin: as `margin` has it, where it must be kept for certain
        """
        values = np.asarray(means[self.metrics[0]])
        if not self.constrained:
            return np.ones(values.shape, dtype=bool)
        return values - margin >= self.share * baseline[RELEVANT] - TIE_TOLERANCE

    def slack(self, values: Mapping[str, np.ndarray], baseline: np.ndarray) -> np.ndarray:
        """By how much each query has more than must be kept; baseline: its Recall, in the shape of the values' own."""
        return values[self.metrics[0]] - (self.share if self.constrained else 0.0) * baseline

    def margin(self, mean: Any, square: Any, count: int) -> Any:
        """How far below a mean slack, or each of many, the lower end of its one-sided interval lies: Student's.

        mean, square: of the slack and of its square over `count` queries; 0 where nothing has to be kept
        """
        if not self.constrained:
            return np.zeros(np.shape(mean))
        if count < 2:
            return np.full(np.shape(mean), np.inf)
        spread = np.asarray(square) - np.square(mean)
        error = np.sqrt(np.where(spread > TIE_TOLERANCE, spread, 0.0) / (count - 1))
        return float(stdtrit(count - 1, SURE)) * error

    def reached(self, means: Mapping[str, float], baseline: Mapping[str, float], against: str) -> str:
        """What a setting reaches, in words, first of all of the constraint. against: the baseline's name."""
        if self.aim == "maximise":
            title = METRICS[self.metric].title
            return f"{title} is {decimal(means[self.metric])}; {against}'s is {decimal(baseline[self.metric])}."
        recall, gain = METRICS[RELEVANT].title, relative(means[DIVERSE], baseline[DIVERSE])
        diverse = f"{METRICS[DIVERSE].title} {gain}."
        if not baseline[RELEVANT]:
            return f"{recall} is {decimal(means[RELEVANT])}; {against}'s is 0. {diverse}"
        kept, digits = means[RELEVANT] / baseline[RELEVANT], 1
        # As many digits as show on which side of the share it lies.
        while kept < self.share <= round(kept, digits + 2) and digits < 9:
            digits += 1
        asked = f"; you asked for {100 * self.share:g}%" if self.constrained else ""
        return f"{recall} is {percent(kept, digits)} of {against}'s{asked}. {diverse}"

    def guide(
        self, means: Mapping[str, float], baseline: Mapping[str, float], margin: float = 0.0
    ) -> tuple[float, ...]:
        """What a search has to make large, for one setting: two numbers where the aim is a place on a frontier.

        Where a constraint is not kept, a number below 0, and the lower the more is lacking; margin: as in `kept`.
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
        against: str,
        margin: Any = 0.0,
    ) -> "TunedChoice":
        """The best of m settings.

        means: metric → (m,) over the queries that all of them and the baseline share; baseline: its means over those;
        order: (m,) what settles ties, the least first; k, against: the metrics' k and the baseline's name, for words;
        margin: (m,) as in `kept`.
        """
        return _CHOICES[self.aim](self, means, baseline, order, k, against, margin)


@dataclass(frozen=True)
class TunedChoice:
    """Which setting was chosen."""

    best: int  # its position
    satisfied: bool  # whether it is what was asked for, or only the nearest
    said: str  # why it was chosen, one sentence
    surest: float | None = None  # the largest share that a setting keeps for certain, None without a constraint


def relative(value: float, baseline: float) -> str:
    """A change as a share of the baseline, "+20%"; where that is 0, as a difference."""
    return f"{signed(100 * (value / baseline - 1), 0)}%" if baseline else signed(value)


def _most(keys: Sequence[np.ndarray], order: Sequence[Any], among: np.ndarray) -> int:
    """The position with the largest first key; among equals the largest second …; then the least in order."""
    alive = np.flatnonzero(among)
    for key in keys:
        alive = alive[key[alive] >= key[alive].max() - TIE_TOLERANCE]
    return int(min(alive.tolist(), key=lambda i: order[i]))


def _maximise(o: Objective, means: Any, baseline: Any, order: Any, k: int, against: str, _: Any) -> TunedChoice:
    values = means[o.metric]
    best = _most([values], order, np.ones(len(values), dtype=bool))
    equal = int((values >= values[best] - TIE_TOLERANCE).sum())
    tie = f"; {equal} settings tie, and this one is closest to the default" if equal > 1 else ""
    most = f"Highest {METRICS[o.metric].title}@{k}: {decimal(values[best])}"
    return TunedChoice(best, True, f"{most} ({against}: {decimal(baseline[o.metric])}){tie}.")


def _diverse(o: Objective, means: Any, baseline: Any, order: Any, k: int, against: str, margin: Any) -> TunedChoice:
    recall, ilad = means[RELEVANT], means[DIVERSE]
    keeps, least, sure = o.kept(means, baseline, margin), o.share * baseline[RELEVANT], recall - margin
    what, spread = f"{METRICS[RELEVANT].title}@{k}", f"{METRICS[DIVERSE].title}@{k}"
    bound = f"{100 * o.share:g}% of {against}'s {what} ({decimal(least)} of {decimal(baseline[RELEVANT])})"
    bound += f" with {percent(SURE)} confidence" if np.any(margin) else ""
    if keeps.any():
        best = _most([ilad], order, keeps)
        said = f"Highest {spread}: {decimal(ilad[best])} ({against}: {decimal(baseline[DIVERSE])}), of the "
        said += f"{int(keeps.sum())} of {len(keeps)} settings that keep {bound}. Its {what}: {decimal(recall[best])}."
    else:
        best = _most([sure, ilad], order, ~keeps)
        said = f"No setting keeps {bound}. The nearest: {what} {decimal(recall[best])}, {spread} "
        said += f"{decimal(ilad[best])}."
    surest = float(sure.max() / baseline[RELEVANT]) if baseline[RELEVANT] else None
    return TunedChoice(best, bool(keeps.any()), said, surest)


def chord_distances(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """(m,) how far each of m points lies beyond the chord between the ends of their frontier, both scaled to [0, 1].

    The ends are the non-dominated points with most x and with most y; the chord goes from (0, 1) to (1, 0). Dominated
    points get −∞; below the chord it is negative; 0 for all of a frontier that is one point.
    """
    x, y = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    front = ~find_dominated(np.stack([x, y], axis=1))
    scaled = []
    for axis in (x, y):
        low, high = axis[front].min(), axis[front].max()
        scaled.append((axis - low) / (high - low) if high - low > TIE_TOLERANCE else np.full(len(axis), 0.5))
    return np.where(front, (scaled[0] + scaled[1] - 1) / np.sqrt(2), -np.inf)


def knee_of(measured: Frontier) -> FrontierPoint | None:
    """The point where a frontier bends most; None where it is as good as straight, or two points."""
    points = measured.points
    away = chord_distances(*(np.array(v) for v in ([measured.direction * p.x for p in points], [p.y for p in points])))
    best = _most([away], [p.point.label for p in points], np.isfinite(away))
    return points[best] if len(measured.front) > 2 and away[best] > BENDS else None


def _knee(o: Objective, means: Any, baseline: Any, order: Any, k: int, against: str, _: Any) -> TunedChoice:
    away = chord_distances(means[DIVERSE], means[RELEVANT])
    best = _most([away], order, np.isfinite(away))
    front = int(np.isfinite(away).sum())
    place = f"{METRICS[DIVERSE].title}@{k} {decimal(means[DIVERSE][best])}, {METRICS[RELEVANT].title}@{k} "
    place += decimal(means[RELEVANT][best])
    scaled = f"the line between its ends, with both axes scaled to 0–1 ({place})."
    if away[best] > BENDS:
        said = f"Of the {front} settings on the frontier it lies furthest, {decimal(away[best])}, beyond {scaled}"
        return TunedChoice(best, True, said)
    if front >= 3 and away[best] > TIE_TOLERANCE:
        said = f"The frontier is almost straight: this setting lies only {decimal(away[best])} beyond {scaled}"
        return TunedChoice(best, False, said)
    why = {1: "is one point", 2: "is two points"}.get(front, "does not bend outwards")
    reason = f"The frontier {why}, so it has no knee; this end of it is closest to the default ({place})."
    return TunedChoice(best, False, reason)


_CHOICES: dict[str, Callable[..., TunedChoice]] = {"maximise": _maximise, "diverse": _diverse, "knee": _knee}
