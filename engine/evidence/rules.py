"""Rules that judge claims: what numbers allow to say, and the only module that says it.

A rule takes measurements and gives a `Ruling`. It holds a claim to its own words: what was claimed of every set must be
seen on every set that can tell, and a set that cannot tell is never counted for or against.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np
from scipy.stats import binomtest, spearmanr

from engine.evaluation.frontier import compute_hypervolume
from engine.evaluation.statistics import (
    CONFIDENCE_LEVEL,
    MIN_SIGN_PATTERNS,
    SIGNIFICANCE_LEVEL,
    bootstrap_intervals,
    bootstrap_means,
    compute_sign_flip_p_values,
    correct_holm,
    estimate_queries_needed,
    percentile_ends,
)
from engine.progress import counted
from engine.wording import decimal, percent

RESAMPLES = 10_000
DIGITS = 12
MOST_NAMED = 6
"""Effects that a sentence names."""
TOLERANCE = 1e-9
"""What rounding may put between the two sides of a theorem."""


class Finding(StrEnum):
    """What is said of a claim."""

    HOLDS = "holds"
    PARTLY = "partly"
    REFUTED = "refuted"
    UNDECIDED = "not decided"
    UNTESTABLE = "not testable here"


HERE = "does not hold here"
"""What measurements on some sets can say against a claim."""
SHORT = (Finding.HOLDS, Finding.PARTLY, HERE, Finding.REFUTED, Finding.UNDECIDED, Finding.UNTESTABLE)
"""Every verdict in short, from the best to none."""


class Scope(StrEnum):
    """What a measurement speaks of."""

    EXACT = "exact"  # proof or enumeration: of the claim itself
    SAME_DATA = "same data"  # the paper's data, another encoder
    STAND_IN = "stand-in"  # other data, another encoder


@dataclass(frozen=True, kw_only=True)
class EffectCurve:
    """What an effect sums up, or what a figure of the paper has, as a line."""

    name: str
    x: str  # what the axes have, with units; curves of the same axes are drawn together
    y: str
    points: tuple[tuple[float, float], ...]
    log: bool = False  # both axes


@dataclass(frozen=True, kw_only=True)
class Effect:
    """One number that a claim is about, with its 95% interval: of a set, a cell or a size."""

    name: str
    value: float
    low: float | None = None
    high: float | None = None
    sign: int | None = None  # 1 as claimed, −1 against it, 0 neither, None where that is undecided
    curves: tuple[EffectCurve, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Ruling:
    """A verdict, the effects that it rests on, and why in one sentence.

    needed: queries that would decide what these could not, None where no number would or none is needed; open: how many
    of the effects that it rests on are not decided
    """

    verdict: Finding
    why: str
    effects: tuple[Effect, ...] = ()
    needed: int | None = None
    open: int = 0

    @property
    def curves(self) -> tuple[EffectCurve, ...]:
        """Those of all effects that have points, each once."""
        return tuple(dict.fromkeys(curve for effect in self.effects for curve in effect.curves if curve.points))


def in_words(ruling: Ruling, scope: Scope, where: str) -> str:
    """The verdict as it may be said; where: names the sets and the encoder. Only exact evidence refutes flatly."""
    if ruling.verdict is Finding.REFUTED and scope is not Scope.EXACT:
        return HERE.replace("here", f"on {where}")
    if ruling.verdict is Finding.HOLDS and ruling.open:
        return f"{ruling.verdict} where that is decided ({counted(ruling.open, 'cell')} open)"
    if ruling.verdict is Finding.UNDECIDED and ruling.needed:
        return f"{ruling.verdict} (about {ruling.needed:,} queries would)"
    return str(ruling.verdict)


def in_short(verdict: Finding, scope: Scope) -> str:
    """The verdict in a word or three, as lists have it beside the sets that it is about."""
    return HERE if verdict is Finding.REFUTED and scope is not Scope.EXACT else str(verdict)


def untestable(missing: str) -> Ruling:
    """What cannot be measured here; missing: what it would take."""
    return Ruling(verdict=Finding.UNTESTABLE, why=f"Missing: {missing}.")


def theorem(excess: Sequence[float], least: int) -> Ruling:
    """A statement about every case: one that breaks it by more than rounding refutes it.

    excess: of each informative case, by how much the claimed bound was passed, ≤ 0 where it holds; least: the number of
    cases from which no violation means that it holds
    """
    values = np.asarray(excess, dtype=np.float64)
    broken = int((~(values <= TOLERANCE)).sum())
    cases, effects = counted(len(values), "case"), (share("cases that break it", broken, len(values)),)
    if broken:
        worst = f"by {decimal(float(np.nanmax(values)))} at most" if np.isfinite(values).any() else "without a number"
        return Ruling(verdict=Finding.REFUTED, why=f"{broken:,} of {cases} break it, {worst}.", effects=effects)
    if len(values) < least:
        return untestable(f"{least - len(values):,} more informative cases than the {len(values):,} found")
    return Ruling(verdict=Finding.HOLDS, why=f"None of {cases} breaks it.", effects=effects)


def difference(cells: Mapping[str, Sequence[float]], margin: float, seed: int = 0) -> Ruling:
    """A claim that one thing is better than another, in every cell.

    cells: paired differences query by query, as claimed minus other; margin: the largest difference that is none.
    Interval: paired bootstrap; test: sign flips, Holm over the cells.
    """
    effects = _signed(cells, margin, seed)
    signs = [effect.sign for effect in effects]
    verdict = _of_signs(signs)
    needed = _needed(verdict, cells, effects, [max(abs(effect.value), margin) for effect in effects])
    return Ruling(verdict=verdict, why=_told(effects), effects=effects, needed=needed, open=_open(effects))


def equivalence(cells: Mapping[str, Sequence[float]], margin: float, seed: int = 0) -> Ruling:
    """A claim that two things are the same to within a margin, in every cell; see `difference`.

    An interval within the margin is for it, one beyond against it; one across it is open, whether it has 0 or not.
    """
    effects = _signed(cells, margin, seed)
    beyond = [e.sign and max(e.low or 0, -(e.high or 0)) > margin for e in effects]
    signs = [1 if e.sign == 0 else -1 if far else None for e, far in zip(effects, beyond, strict=True)]
    effects = tuple(replace(e, sign=sign) for e, sign in zip(effects, signs, strict=True))
    verdict = _of_signs([effect.sign for effect in effects])
    apart = [abs(margin - abs(effect.value)) for effect in effects]
    needed = _needed(verdict, cells, effects, apart)
    return Ruling(verdict=verdict, why=_told(effects), effects=effects, needed=needed, open=_open(effects))


def bounded(effects: Sequence[Effect], low: float = -math.inf, high: float = math.inf) -> Ruling:
    """A claim that numbers lie in a range: an interval inside it is for it, one outside against it."""
    marked = tuple(replace(effect, sign=_placed(effect, low, high)) for effect in effects)
    span = " and ".join(
        filter(None, (f"≥ {low:g}" if low > -math.inf else "", f"≤ {high:g}" if high < math.inf else ""))
    )
    verdict = _of_signs([effect.sign for effect in marked])
    return Ruling(verdict=verdict, why=f"{_told(marked)} Claimed: {span}.", effects=marked, open=_open(marked))


def slope(sizes: Sequence[float], values: np.ndarray, name: str, axes: tuple[str, str], seed: int = 0) -> Effect:
    """The exponent with which a cost grows: log-log least squares, bootstrap over repetitions.

    sizes: (s,), at least four; values: (n, s) positive, one row for each query or run; axes: what sizes and values are,
    with units. Its curve is of geometric means.
    """
    x = np.log(np.asarray(sizes, dtype=np.float64))
    x = x - x.mean()
    logs = np.log(np.asarray(values, dtype=np.float64))
    fits = logs @ x / (x @ x)
    if len(x) < 4:
        raise ValueError(f"sizes must be at least 4, got {len(x)}")
    ((low, high),) = bootstrap_intervals(fits[:, None], RESAMPLES, seed)
    curve = curve_of(name, axes, sizes, np.exp(logs.mean(0)), log=True)
    title = f"{name}: exponent of {axes[1]}"
    return Effect(name=title, value=float(fits.mean()), low=low, high=high, curves=(curve,))


def curve_of(
    name: str, axes: tuple[str, str], x: Sequence[float], y: Sequence[float] | np.ndarray, *, log: bool = False
) -> EffectCurve:
    """A curve of numbers as a report keeps them, to six digits; without those that its axes cannot have."""
    points = ((float(f"{a:.6g}"), float(f"{b:.6g}")) for a, b in zip(x, y, strict=True))
    shown = tuple(point for point in points if math.isfinite(sum(point)) and (min(point) > 0 or not log))
    return EffectCurve(name=name, x=axes[0], y=axes[1], points=shown, log=log)


def illustrated(ruling: Ruling, curves: Mapping[str, Sequence[EffectCurve]]) -> Ruling:
    """A ruling whose effects have the curves that are given by their names. Raises ValueError for other names."""
    if unknown := curves.keys() - {effect.name for effect in ruling.effects}:
        raise ValueError(f"curves must be of effects; got {', '.join(sorted(unknown))}")
    effects = tuple(replace(e, curves=tuple(curves.get(e.name, e.curves))) for e in ruling.effects)
    return replace(ruling, effects=effects)


def rank_correlation(
    a: np.ndarray, b: np.ndarray, name: str, given: np.ndarray | None = None, resamples: int = 1000, seed: int = 0
) -> Effect:
    """Spearman's correlation of two measures over settings, bootstrap over queries.

    a, b: (n, m), a row for each query, a column for each setting; given: a third measure, which is held fixed: where
    two exclude one another, as relevance and diversity do, nothing goes with both but at one value of the other
    """
    table = np.concatenate([a, b] if given is None else [a, b, given], axis=1)
    drawn = bootstrap_means(table, resamples, seed)
    values = [_partial(*np.split(row, table.shape[1] // a.shape[1])) for row in (table.mean(0), *drawn)]
    if np.isnan(values).all():
        return Effect(name=name, value=math.nan)
    low, high = np.nanpercentile(values, [50 * (1 - CONFIDENCE_LEVEL), 50 * (1 + CONFIDENCE_LEVEL)])
    return Effect(name=name, value=values[0], low=float(low), high=float(high))


def dominance(
    claimed: tuple[np.ndarray, np.ndarray],
    other: tuple[np.ndarray, np.ndarray],
    name: str,
    resamples: int = 1000,
    seed: int = 0,
) -> tuple[Effect, Effect]:
    """How far a frontier lies above another: hyper-volumes' difference, and the other's points that it dominates.

    claimed, other: x and y, each (n, m) by query and setting. The corner is the worst mean of all settings.
    """
    widths = [claimed[0].shape[1], other[0].shape[1]]
    table = np.concatenate([claimed[0], other[0], claimed[1], other[1]], axis=1)
    left, below = (part.mean(0).min() for part in np.split(table, 2, axis=1))
    corner = (float(left), float(below))

    def apart(means: np.ndarray) -> float:
        ours, theirs = np.split(means.reshape(2, -1).T, [widths[0]])
        return compute_hypervolume(ours, corner) - compute_hypervolume(theirs, corner)

    means = table.mean(0)
    values = np.array([apart(row) for row in bootstrap_means(table, resamples, seed)])
    low, high = percentile_ends(values)
    x, y = np.split(means, 2)
    beaten = _dominated(x[widths[0] :], y[widths[0] :], x[: widths[0]], y[: widths[0]])
    return (
        Effect(name=f"{name}: hyper-volume", value=apart(means), low=float(low), high=float(high)),
        Effect(name=f"{name}: share of the other's frontier dominated", value=beaten),
    )


def above(pairs: Sequence[tuple[Effect, Effect]]) -> Ruling:
    """A claim that a frontier dominates another on every set: more area, and half of the other's frontier beaten."""
    marked = []
    for area, beaten in pairs:
        inside = _placed(area, 0.0, math.inf)
        sign = 0 if inside == 1 and beaten.value < 0.5 else inside
        marked.append(replace(area, sign=sign))
    beaten_shares = ", ".join(percent(beaten.value) for _, beaten in pairs)
    why = f"{_told(marked)} Points of the other's frontier that are dominated: {beaten_shares}."
    return Ruling(verdict=_of_signs([e.sign for e in marked]), why=why, effects=tuple(marked), open=_open(marked))


def share(name: str, count: int, total: int) -> Effect:
    """A share with its Clopper–Pearson interval."""
    if not total:
        return Effect(name=name, value=math.nan, low=0.0, high=1.0)
    low, high = binomtest(count, total).proportion_ci(CONFIDENCE_LEVEL)
    return Effect(name=name, value=count / total, low=float(low), high=float(high))


def proportion(part: np.ndarray, whole: np.ndarray, name: str, seed: int = 0) -> Effect:
    """One mean as a share of another, bootstrap over queries; whose interval is wide where that may be nothing.

    part, whole: (n,) paired
    """
    drawn = bootstrap_means(np.stack([part, whole], axis=1), RESAMPLES, seed)
    with np.errstate(divide="ignore"):
        low, high = percentile_ends(drawn[:, 0] / drawn[:, 1])
    return Effect(name=name, value=float(part.mean() / whole.mean()), low=float(low), high=float(high))


def thresholds(effects: Sequence[Effect], holds: float, refuted: float) -> Ruling:
    """A claim about how often something happens: for it beyond one threshold, against it beyond the other.

    holds, refuted: the claim holds of a share on the first's side, is refuted on the second's, partly between
    """
    rising = holds >= refuted

    def sign(effect: Effect) -> int | None:
        low, high = effect.low or 0.0, 1.0 if effect.high is None else effect.high
        good, bad = (low >= holds, high < refuted) if rising else (high <= holds, low > refuted)
        between = refuted <= low and high < holds if rising else holds < low and high <= refuted
        return 1 if good else -1 if bad else 0 if between else None

    marked = tuple(replace(effect, sign=sign(effect)) for effect in effects)
    signs = [effect.sign for effect in marked]
    verdict = Finding.PARTLY if {*signs} - {None} == {0} else _of_signs(signs)
    limits = f"Holds {'from' if rising else 'to'} {percent(holds)}, refuted {'below' if rising else 'above'}"
    why = f"{_told(marked)} {limits} {percent(refuted)}."
    return Ruling(verdict=verdict, why=why, effects=marked, open=_open(marked))


def together(rulings: Sequence[Ruling]) -> Ruling:
    """One verdict of several parts of a claim, all of which it needs."""
    verdicts = {ruling.verdict for ruling in rulings} - {Finding.UNTESTABLE}
    decided = verdicts - {Finding.UNDECIDED}
    if not verdicts:
        verdict = Finding.UNTESTABLE
    elif not decided:
        verdict = Finding.UNDECIDED
    else:
        verdict = decided.pop() if len(decided) == 1 else Finding.PARTLY
    needs = [ruling.needed for ruling in rulings if ruling.needed]
    return Ruling(
        verdict=verdict,
        why=" ".join(dict.fromkeys(ruling.why for ruling in rulings)),
        effects=tuple(effect for ruling in rulings for effect in ruling.effects),
        needed=max(needs) if needs and verdict is Finding.UNDECIDED else None,
        open=sum(ruling.open for ruling in rulings),
    )


def _signed(cells: Mapping[str, Sequence[float]], margin: float, seed: int) -> tuple[Effect, ...]:
    columns = [np.asarray(values, dtype=np.float64)[:, None] for values in cells.values()]
    patterns = max(RESAMPLES, MIN_SIGN_PATTERNS * len(columns))
    corrected = correct_holm([float(compute_sign_flip_p_values(column, patterns, seed)[0]) for column in columns])
    effects = []
    for name, column, p in zip(cells, columns, corrected, strict=True):
        ((low, high),) = bootstrap_intervals(column, RESAMPLES, seed)
        sign: int | None = None
        if low is not None and high is not None:
            low, high = (round(end, DIGITS) + 0.0 for end in (low, high))  # sums that cancel leave rounding
            certain = p < SIGNIFICANCE_LEVEL
            sign = 1 if low > 0 and certain else -1 if high < 0 and certain else None
            if -margin <= low and high <= margin:
                sign = 0
        effects.append(Effect(name=name, value=float(column.mean()), low=low, high=high, sign=sign))
    return tuple(effects)


def _open(effects: Sequence[Effect]) -> int:
    return sum(effect.sign is None for effect in effects)


def _of_signs(signs: Sequence[int | None]) -> Finding:
    """Holds: for it wherever that is decided; refuted: nowhere for it, and somewhere against it or everywhere level."""
    decided = [sign for sign in signs if sign is not None]
    if not decided:
        return Finding.UNDECIDED
    if 1 in decided:
        return Finding.HOLDS if set(decided) == {1} else Finding.PARTLY
    return Finding.REFUTED if -1 in decided or len(decided) == len(signs) else Finding.UNDECIDED


def _placed(effect: Effect, low: float, high: float) -> int | None:
    """1 where an interval lies in a range, −1 where outside, None where it crosses an end."""
    least = effect.value if effect.low is None else effect.low
    most = effect.value if effect.high is None else effect.high
    return 1 if low <= least and most <= high else -1 if most < low or least > high else None


def _needed(
    verdict: Finding, cells: Mapping[str, Sequence[float]], effects: Sequence[Effect], apart: Sequence[float]
) -> int | None:
    """Queries with which the undecided cell that needs most would tell the difference that is given of each."""
    if verdict is not Finding.UNDECIDED:
        return None
    wanted = [
        estimate_queries_needed(np.asarray(values, dtype=np.float64), difference)
        for values, effect, difference in zip(cells.values(), effects, apart, strict=True)
        if effect.sign is None and difference > 0
    ]
    return max(filter(None, wanted), default=None)


def _told(effects: Sequence[Effect]) -> str:
    """The effects in one sentence, of many the first ones, and which way all of them point."""
    named = [
        f"{e.name} {decimal(e.value)}"
        + ("" if e.low is None or e.high is None else f" [{decimal(e.low)}, {decimal(e.high)}]")
        for e in effects[:MOST_NAMED]
    ]
    if len(effects) <= MOST_NAMED:
        return "; ".join(named) + "."
    ways = {"as claimed": 1, "against it": -1, "neither": 0, "open": None}
    counts = [f"{n} {way}" for way, sign in ways.items() if (n := sum(e.sign == sign for e in effects))]
    return f"{'; '.join(named)}; and {len(effects) - MOST_NAMED} more: of all {len(effects)}, {', '.join(counts)}."


def _partial(a: np.ndarray, b: np.ndarray, given: np.ndarray | None = None) -> float:
    if given is None:
        return _spearman(a, b)
    across, one, two = _spearman(a, b), _spearman(a, given), _spearman(b, given)
    scale = math.sqrt(max(0.0, (1 - one**2) * (1 - two**2)))
    return (across - one * two) / scale if scale > TOLERANCE else math.nan


def _spearman(a: np.ndarray, b: np.ndarray) -> float:
    x, y = (np.round(values, 12) for values in (a, b))
    # scipy warns of a constant, which has no correlation.
    return float(spearmanr(x, y).statistic) if np.ptp(x) and np.ptp(y) else math.nan


def _dominated(x: np.ndarray, y: np.ndarray, by_x: np.ndarray, by_y: np.ndarray) -> float:
    """The share of a frontier's undominated points that points of another dominate."""
    front = [at for at in range(len(x)) if not _beaten(x[at], y[at], x, y)]
    return sum(_beaten(x[at], y[at], by_x, by_y) for at in front) / len(front)


def _beaten(x: float, y: float, by_x: np.ndarray, by_y: np.ndarray) -> bool:
    return bool(((by_x >= x) & (by_y >= y) & ((by_x > x) | (by_y > y))).any())
