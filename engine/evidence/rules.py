"""Rules that judge claims: what numbers allow to say, and the only module that says it.

A rule takes measurements and gives a `Ruling`. It holds a claim to its own words: what was claimed of every set must be
seen on every set that can tell, and a set that cannot tell is never counted for or against.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import chain
from operator import attrgetter
from typing import Any, Self

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
from engine.evidence.cells import round_significant
from engine.progress import counted
from engine.wording import decimal, percent

N_RESAMPLES = 10_000
END_DIGITS = 12
MAX_NAMED = 6
"""Effects that a sentence names."""
TOLERANCE = 1e-9
"""What rounding may put between the two sides of a theorem."""


class Finding(StrEnum):
    """A verdict on a claim."""

    HOLDS = "holds"
    PARTLY = "partly"
    REFUTED = "refuted"
    UNDECIDED = "not decided"
    UNTESTABLE = "not testable"
    NEEDS_ENDPOINT = "needs an endpoint"

    @classmethod
    def _missing_(cls, value: object) -> Self | None:
        """Return the verdict that an older report's words mean."""
        return cls.UNTESTABLE if value == "not testable here" else None


FAILS_HERE = "not reproduced"
"""What measurements on some sets can say against a claim."""
HOLDS_WHERE_DECIDED = "holds where decided"
"""A claim that holds in every cell that can tell, while others cannot."""
SHORT_VERDICTS = (
    Finding.HOLDS, HOLDS_WHERE_DECIDED, Finding.PARTLY, FAILS_HERE, Finding.REFUTED, Finding.UNDECIDED,
    Finding.UNTESTABLE, Finding.NEEDS_ENDPOINT,
)  # fmt: skip
"""Every verdict in short, from the best to none."""


class Scope(StrEnum):
    """The evidence that a measurement can give at best: exact, on the paper's data, or on other data."""

    EXACT = "exact"  # proof or enumeration: of the claim itself
    SAME_DATA = "same data"  # the paper's data, another encoder
    STAND_IN = "stand-in"  # other data, another encoder


@dataclass(frozen=True, kw_only=True)
class EffectCurve:
    """A line of (x, y) points for a figure beside an effect, with the names of its axes."""

    name: str
    x: str  # what the axes have, with units; curves of the same axes are drawn together
    y: str
    points: tuple[tuple[float, float], ...]
    log: bool = False  # both axes


@dataclass(frozen=True, kw_only=True)
class Effect:
    """One number that a claim is about, with its 95% interval: of a set, a cell or a size.

    The interval is of this number alone; the sign of one among several allows for their number where queries are
    compared.
    """

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
        """The curves of all effects that have points, each once."""
        all_curves = chain.from_iterable(effect.curves for effect in self.effects)
        return tuple(dict.fromkeys(filter(attrgetter("points"), all_curves)))


def word_verdict(ruling: Ruling, scope: Scope, where: str) -> str:
    """Return a ruling's verdict in words, with the data it holds for, or the queries that would decide it.

    Only exact evidence refutes a claim altogether; any other shows that it fails on the data measured. where: the sets
    and the encoder that it was measured with
    """
    if ruling.verdict is Finding.REFUTED and scope is not Scope.EXACT:
        return f"{FAILS_HERE} on {where}"
    if ruling.verdict is Finding.HOLDS and ruling.open:
        return f"{ruling.verdict} where that is decided ({counted(ruling.open, 'cell')} open)"
    if ruling.verdict is Finding.UNDECIDED and ruling.needed:
        return f"{ruling.verdict} (about {ruling.needed:,} queries would)"
    return str(ruling.verdict)


def shorten_verdict(ruling: Ruling, scope: Scope) -> str:
    """Return a ruling's verdict in up to four words, for lists that name the sets beside it."""
    if ruling.verdict is Finding.REFUTED and scope is not Scope.EXACT:
        return FAILS_HERE
    # A claim of which cells are open must not be counted with those that hold throughout.
    return HOLDS_WHERE_DECIDED if ruling.verdict is Finding.HOLDS and ruling.open else str(ruling.verdict)


def rule_untestable(missing: str) -> Ruling:
    """Return the ruling of a claim that cannot be measured here; missing: what it would take."""
    return Ruling(verdict=Finding.UNTESTABLE, why=f"Missing: {missing}.")


def rule_unread() -> Ruling:
    """Return the ruling of a claim on what a language model makes of sets, where none is named."""
    why = "A chat model named in endpoints.toml is needed, which answers from the sets and grades the answers."
    return Ruling(verdict=Finding.NEEDS_ENDPOINT, why=why)


def theorem(excess: Sequence[float], min_cases: int) -> Ruling:
    """Judge a statement about every case: a single case that breaks it by more than rounding refutes it.

    excess: for each informative case, by how much the claimed bound was passed, ≤ 0 where it holds; min_cases: the
    claim holds only if at least so many cases were tested and none breaks it; with fewer it is untestable
    """
    values = np.asarray(excess, dtype=np.float64)
    # Written as a negation, so that NaN counts as a violation.
    n_broken = int((~(values <= TOLERANCE)).sum())
    cases, effects = counted(len(values), "case"), (share("cases that break it", n_broken, len(values)),)
    if n_broken:
        worst = f"by {decimal(float(np.nanmax(values)))} at most" if np.isfinite(values).any() else "without a number"
        return Ruling(verdict=Finding.REFUTED, why=f"{n_broken:,} of {cases} break it, {worst}.", effects=effects)
    # Too few informative cases prove nothing even if none breaks the statement.
    if len(values) < min_cases:
        return rule_untestable(f"{min_cases - len(values):,} more informative cases than the {len(values):,} found")
    return Ruling(verdict=Finding.HOLDS, why=f"None of {cases} breaks it.", effects=effects)


def difference(cell_values: Mapping[str, Sequence[float]], margin: float, seed: int = 0) -> Ruling:
    """Judge a claim that one thing is better than another in every cell, such as a data set at one k.

    cell_values: paired differences query by query, as claimed minus other; margin: the largest difference that counts
    as none. Interval: paired bootstrap; test: random sign flips, corrected for the number of cells by Holm's method.
    """
    effects = _sign_effects(cell_values, margin, seed)
    # For undecided cells the ruling says how many queries would decide: enough to tell this distance from 0.
    return _rule_cells(cell_values, effects, lambda size: max(size, margin))


def equivalence(cell_values: Mapping[str, Sequence[float]], margin: float, seed: int = 0) -> Ruling:
    """Judge a claim that two things are equal to within a margin, in every cell, from values by query.

    An interval within the margin is for the claim, one entirely beyond it against; one that crosses the margin is open.
    """
    effects = []
    for effect in _sign_effects(cell_values, margin, seed):
        # In `effect.sign` 0 means an interval within the margin: that is for the claim, so here it becomes 1. An
        # interval entirely beyond the margin is against it, −1; None is undecided. It is beyond if even its end nearer
        # to 0 lies farther from 0 than the margin.
        is_beyond = effect.sign and max(effect.low or 0, -(effect.high or 0)) > margin
        sign_unless_within = -1 if is_beyond else None
        effects.append(replace(effect, sign=1 if effect.sign == 0 else sign_unless_within))
    # Here the value to be told apart from is the margin, not 0.
    return _rule_cells(cell_values, effects, lambda size: abs(margin - size))


def judge_range(effects: Sequence[Effect], low: float = -math.inf, high: float = math.inf) -> Ruling:
    """Judge a claim that numbers lie in a range: an interval inside is for it, one outside against it."""
    marked = [replace(effect, sign=_compare_to_range(effect, low, high)) for effect in effects]
    limits = f"≥ {low:g}" if low > -math.inf else "", f"≤ {high:g}" if high < math.inf else ""
    return _rule_effects(marked, f" Claimed: {' and '.join(filter(None, limits))}.")


def slope(sizes: Sequence[float], values: np.ndarray, curve_name: str, axes: tuple[str, str], seed: int = 0) -> Effect:
    """Fit the exponent of a cost's growth with size: log-log least squares, bootstrap over repetitions.

    sizes: (s,), at least four; values: (n, s) positive, one row for each query or run; axes: titles of sizes and
    values, with units. The effect's curve has the geometric mean of the values at each size. Raises ValueError for
    fewer sizes.
    """
    if len(sizes) < 4:
        raise ValueError(f"sizes must be at least 4, got {len(sizes)}")
    log_sizes = np.log(np.asarray(sizes, dtype=np.float64))
    # With centred logarithms the least-squares slope of every row is one product: no intercept is needed.
    log_sizes = log_sizes - log_sizes.mean()
    log_values = np.log(np.asarray(values, dtype=np.float64))
    exponents = log_values @ log_sizes / (log_sizes @ log_sizes)
    ((low, high),) = bootstrap_intervals(exponents[:, None], N_RESAMPLES, seed)
    curve = curve_of(curve_name, axes, sizes, np.exp(log_values.mean(0)), log=True)
    title = f"{curve_name}: exponent of {axes[1]}"
    return Effect(name=title, value=float(exponents.mean()), low=low, high=high, curves=(curve,))


def fit_exponents(cells: Mapping[str, tuple[Sequence[float], Any]], axes: tuple[str, str]) -> list[Effect]:
    """Fit the growth exponent of every cell by `slope`; cells: name → (sizes, values)."""
    return [slope(sizes, np.array(values), cell_name, axes) for cell_name, (sizes, values) in cells.items()]


def curve_of(
    curve_name: str, axes: tuple[str, str], x: Sequence[float], y: Sequence[float] | np.ndarray, *, log: bool = False
) -> EffectCurve:
    """Build a curve of numbers to six digits, without the points that its axes cannot show.

    Left out are NaN and infinite coordinates, and on logarithmic axes those of 0 or less.
    """
    all_points = zip(round_significant(x), round_significant(y), strict=True)
    # A sum is finite only if both coordinates are.
    visible_points = tuple(point for point in all_points if math.isfinite(sum(point)) and (min(point) > 0 or not log))
    return EffectCurve(name=curve_name, x=axes[0], y=axes[1], points=visible_points, log=log)


def build_curves(axes: tuple[str, str], x: Sequence[float], lines: Mapping[str, Sequence[float]]) -> list[EffectCurve]:
    """Build a curve for each named line of y values over the same x."""
    return [curve_of(curve_name, axes, x, y) for curve_name, y in lines.items()]


def add_curves(ruling: Ruling, curves_by_name: Mapping[str, Sequence[EffectCurve]]) -> Ruling:
    """Return the ruling with curves attached to its effects by name. Raises ValueError for unknown names."""
    if unknown_names := curves_by_name.keys() - {effect.name for effect in ruling.effects}:
        raise ValueError(f"curves must be of effects; got {', '.join(sorted(unknown_names))}")
    effects = tuple(replace(each, curves=tuple(curves_by_name.get(each.name, each.curves))) for each in ruling.effects)
    return replace(ruling, effects=effects)


def correlate_ranks(
    a: np.ndarray, b: np.ndarray, name: str, held_values: np.ndarray | None = None, resamples: int = 1000, seed: int = 0
) -> Effect:
    """Return Spearman's correlation of two metrics over settings, with a bootstrap interval over queries.

    a, b: (n, m), a row for each query, a column for each setting; held_values: a third metric to hold fixed (partial
    correlation). It is needed where two metrics exclude one another, as relevance and diversity do: no metric
    correlates with both unless one of them is held fixed
    """
    table = np.concatenate([a, b] if held_values is None else [a, b, held_values], axis=1)
    means = bootstrap_means(table, resamples, seed)
    # The first value is of all queries, the others of resamples; a row splits back into the metrics that it joins.
    values = [_partial_correlation(*np.split(row, table.shape[1] // a.shape[1])) for row in (table.mean(0), *means)]
    # Ranks of a constant are undefined, and so is their correlation.
    if np.isnan(values).all():
        return Effect(name=name, value=math.nan)
    low, high = np.nanpercentile(values, [50 * (1 - CONFIDENCE_LEVEL), 50 * (1 + CONFIDENCE_LEVEL)])
    return Effect(name=name, value=values[0], low=float(low), high=float(high))


def compare_frontiers(
    claimed_axes: tuple[np.ndarray, np.ndarray],
    other_axes: tuple[np.ndarray, np.ndarray],
    effect_name: str,
    n_resamples: int = 1000,
    seed: int = 0,
) -> tuple[Effect, Effect]:
    """Compare two methods' frontiers of two metrics: difference of hyper-volumes, and the share dominated.

    A frontier joins the settings that no other setting of the method beats on both metrics; its hyper-volume is the
    area between it and the corner of the worst means of all settings. claimed_axes, other_axes: the two metrics x and
    y, each (n, m) by query and setting. The second effect is the share of the other's frontier points that are
    dominated: some point of the claimed method is at least as good on both axes and better on one.
    """
    n_claimed = claimed_axes[0].shape[1]
    all_values = np.concatenate([claimed_axes[0], other_axes[0], claimed_axes[1], other_axes[1]], axis=1)
    mean_values = all_values.mean(0)
    min_x, min_y = mean_values.reshape(2, -1).min(1).tolist()

    def compute_difference(setting_means: np.ndarray) -> float:
        """Return the difference of the two hyper-volumes for means by setting."""
        claimed_points, other_points = np.split(setting_means.reshape(2, -1).T, [n_claimed])
        return compute_hypervolume(claimed_points, (min_x, min_y)) - compute_hypervolume(other_points, (min_x, min_y))

    low, high = percentile_ends(list(map(compute_difference, bootstrap_means(all_values, n_resamples, seed))))
    claimed_means, other_means = np.split(mean_values.reshape(2, -1), [n_claimed], axis=1)
    dominated_share = _dominated_share(*other_means, *claimed_means)
    return (
        Effect(name=f"{effect_name}: hyper-volume", value=compute_difference(mean_values), low=low, high=high),
        Effect(name=f"{effect_name}: share of the other's frontier dominated", value=dominated_share),
    )


def judge_areas(effect_pairs: Sequence[tuple[Effect, Effect]]) -> Ruling:
    """Judge a claim that one frontier dominates another: more area below it, half of the other's points.

    On every data set the area must be larger, and at least half of the points of the other's frontier must be
    dominated. effect_pairs: for each data set the two effects of `compare_frontiers`
    """
    marked, share_texts = [], []
    for area, beaten_share in effect_pairs:
        range_sign = _compare_to_range(area, 0.0, math.inf)
        # More area alone is no dominance: half of the other's frontier must be dominated too.
        # 1 is for the claim, 0 neither, −1 against it, None undecided.
        sign = 0 if range_sign == 1 and beaten_share.value < 0.5 else range_sign
        marked.append(replace(area, sign=sign))
        share_texts.append(percent(beaten_share.value))
    return _rule_effects(marked, f" Points of the other's frontier that are dominated: {', '.join(share_texts)}.")


def share(effect_name: str, n_hits: int, n_total: int) -> Effect:
    """Return the share of hits in all cases as an effect, with its exact binomial interval."""
    if not n_total:
        # Without a case nothing is known: the interval is the whole range.
        return Effect(name=effect_name, value=math.nan, low=0.0, high=1.0)
    low, high = binomtest(n_hits, n_total).proportion_ci(CONFIDENCE_LEVEL)
    return Effect(name=effect_name, value=n_hits / n_total, low=float(low), high=float(high))


def compute_shares(cells: Mapping[str, Sequence[int]]) -> list[Effect]:
    """Compute every cell's share with its interval; cells: name → (hits, total)."""
    return [share(cell_name, n_hits, n_total) for cell_name, (n_hits, n_total) in cells.items()]


def build_effects(values: Mapping[str, float]) -> list[Effect]:
    """Build effects of numbers without intervals."""
    return [Effect(name=effect_name, value=value) for effect_name, value in values.items()]


def proportion(part_values: np.ndarray, whole_values: np.ndarray, effect: str, seed: int = 0) -> Effect:
    """Return a part's mean as a share of its whole's mean, with a bootstrap interval over queries.

    part_values, whole_values: (n,) paired; the interval is wide where the whole's mean may be 0
    """
    drawn_means = bootstrap_means(np.stack([part_values, whole_values], axis=1), N_RESAMPLES, seed)
    # A resample whose whole is 0 gives an infinite ratio, which widens the interval as it should.
    with np.errstate(divide="ignore"):
        low, high = percentile_ends(drawn_means[:, 0] / drawn_means[:, 1])
    return Effect(name=effect, value=float(part_values.mean() / whole_values.mean()), low=low, high=high)


def thresholds(effects: Sequence[Effect], holds: float, limit: float) -> Ruling:
    """Judge by two thresholds how often something happens: the claim holds, is refuted, or is partly true.

    The effects are shares of cases. If holds ≥ limit, the claim is that something happens often: it holds from `holds`
    on and is refuted below `limit`. Else it is that something happens rarely: it holds up to `holds` and is refuted
    above `limit`. Effects that are all surely between the two make it partly true.
    """
    is_rising = holds >= limit

    def sign(effect: Effect) -> int | None:
        """Return 1 for the claim, −1 against it, 0 between the two, None where the interval crosses one."""
        low, high = effect.low or 0.0, 1.0 if effect.high is None else effect.high
        if low >= holds if is_rising else high <= holds:
            return 1
        if high < limit if is_rising else low > limit:
            return -1
        is_between = limit <= low and high < holds if is_rising else holds < low and high <= limit
        return 0 if is_between else None

    signed_effects = [replace(effect, sign=sign(effect)) for effect in effects]
    limits_text = f"Holds {'from' if is_rising else 'to'} {percent(holds)}, refuted {'below' if is_rising else 'above'}"
    ruling = _rule_effects(signed_effects, f" {limits_text} {percent(limit)}.")
    # If every decided share lies between the thresholds the claim holds partly; a mixture is decided by the signs.
    is_between = {effect.sign for effect in signed_effects} - {None} == {0}
    return replace(ruling, verdict=Finding.PARTLY) if is_between else ruling


def combine(rulings: Sequence[Ruling]) -> Ruling:
    """Combine the rulings of parts of a claim into one: it holds only if every decided part does.

    Parts of different decided verdicts make it partly true; parts that cannot be tested or are open do not count.
    """
    columns = attrgetter("verdict", "why", "effects", "needed", "open")
    verdicts, reasons, effects, needed_queries, open_counts = zip(*map(columns, rulings), strict=True)
    testable_verdicts = {*verdicts} - {Finding.UNTESTABLE}
    decided_verdicts = testable_verdicts - {Finding.UNDECIDED}
    if not testable_verdicts:
        verdict = Finding.UNTESTABLE
    elif not decided_verdicts:
        verdict = Finding.UNDECIDED
    else:
        verdict = decided_verdicts.pop() if len(decided_verdicts) == 1 else Finding.PARTLY
    return Ruling(
        verdict=verdict,
        why=" ".join(dict.fromkeys(reasons)),
        effects=tuple(chain.from_iterable(effects)),
        needed=max(filter(None, needed_queries), default=None) if verdict is Finding.UNDECIDED else None,
        open=sum(open_counts),
    )


def _sign_effects(cell_values: Mapping[str, Sequence[float]], margin: float, seed: int) -> tuple[Effect, ...]:
    """Return each cell's mean difference with its interval, and a sign: is it above, below or about 0.

    sign: 1 if it is significantly above 0 and −1 if below, after Holm's correction for the number of cells; 0 if its
    interval lies within ± margin; else None, undecided. cell_values: paired differences query by query.
    """
    cell_columns = [np.asarray(column_values, dtype=np.float64)[:, None] for column_values in cell_values.values()]
    # More cells need more sign patterns: Holm's smallest threshold must be above the smallest possible p-value.
    n_patterns = max(N_RESAMPLES, MIN_SIGN_PATTERNS * len(cell_columns))
    p_values = correct_holm([float(compute_sign_flip_p_values(column, n_patterns, seed)[0]) for column in cell_columns])
    effects = []
    for cell_name, column, p_value in zip(cell_values, cell_columns, p_values, strict=True):
        ((low, high),) = bootstrap_intervals(column, N_RESAMPLES, seed)
        sign: int | None = None
        if low is not None and high is not None:
            # Sums that cancel leave rounding, and maybe −0.0.
            low, high = round(low, END_DIGITS) + 0.0, round(high, END_DIGITS) + 0.0
            is_significant = p_value < SIGNIFICANCE_LEVEL
            # A difference within the margin is none, however significant it may be.
            if -margin <= low and high <= margin:
                sign = 0
            elif is_significant and (low > 0 or high < 0):
                sign = 1 if low > 0 else -1
        effects.append(Effect(name=cell_name, value=float(column.mean()), low=low, high=high, sign=sign))
    return tuple(effects)


def _rule_effects(effects: Sequence[Effect], claimed: str = "") -> Ruling:
    """Build the ruling that the effects' signs decide; its reason is a sentence that lists the effects.

    claimed: text that ends the sentence
    """
    signs = [effect.sign for effect in effects]
    why = f"{_describe(effects, signs)}{claimed}"
    return Ruling(verdict=_decide(signs), why=why, effects=tuple(effects), open=signs.count(None))


def _rule_cells(
    cells: Mapping[str, Sequence[float]], effects: Sequence[Effect], get_distance: Callable[[float], float]
) -> Ruling:
    """Build the ruling of effects; if it is undecided, estimate the queries that would decide every cell.

    cells: paired differences query by query, in the order of effects; get_distance: from an effect's size to its
    distance from the value that it must be told apart from, such as 0 or a margin
    """
    ruling, needed_queries = _rule_effects(effects), []
    if ruling.verdict is not Finding.UNDECIDED:
        return ruling
    for cell_values, effect in zip(cells.values(), effects, strict=True):
        distance = get_distance(abs(effect.value))
        if effect.sign is None and distance > 0:
            needed_queries.append(estimate_queries_needed(np.asarray(cell_values, dtype=np.float64), distance))
    return replace(ruling, needed=max(filter(None, needed_queries), default=None))


def _decide(effect_signs: Sequence[int | None]) -> Finding:
    """Return the verdict on a claim from the signs of its cells, such as one for each data set.

    A sign is 1 for a cell as claimed, −1 for one against the claim, 0 if shown to make no difference, None if
    undecided.
    """
    decided_signs = {*effect_signs} - {None}
    if not decided_signs:
        return Finding.UNDECIDED
    # One cell as claimed is enough against refutation; the others make the verdict partial.
    if 1 in decided_signs:
        return Finding.HOLDS if decided_signs == {1} else Finding.PARTLY
    # Level cells refute only once none is undecided.
    return Finding.REFUTED if -1 in decided_signs or None not in effect_signs else Finding.UNDECIDED


def _compare_to_range(effect: Effect, low: float, high: float) -> int | None:
    """Return 1 if the effect's interval is inside low to high, −1 if outside, None if it crosses an end."""
    interval_low = effect.value if effect.low is None else effect.low
    interval_high = effect.value if effect.high is None else effect.high
    if low <= interval_low and interval_high <= high:
        return 1
    return -1 if interval_high < low or interval_low > high else None


def _describe(effects: Sequence[Effect], signs: Sequence[int | None]) -> str:
    """List effects with their intervals in one sentence: the first six, and if more, counts by sign."""
    named = []
    for effect in effects[:MAX_NAMED]:
        named.append(f"{effect.name} {decimal(effect.value)}")
        if effect.low is not None and effect.high is not None:
            named[-1] += f" [{decimal(effect.low)}, {decimal(effect.high)}]"
    if len(effects) <= MAX_NAMED:
        return "; ".join(named) + "."
    sign_titles = {1: "as claimed", -1: "against it", 0: "neither", None: "open"}
    counts = [f"{signs.count(sign)} {title}" for sign, title in sign_titles.items() if sign in signs]
    return f"{'; '.join(named)}; and {len(effects) - MAX_NAMED} more: of all {len(effects)}, {', '.join(counts)}."


def _partial_correlation(a: np.ndarray, values: np.ndarray, held_values: np.ndarray | None = None) -> float:
    """Return Spearman's correlation of a and values, at fixed `held_values` if given; NaN if undefined."""
    if held_values is None:
        return _spearman(a, values)
    r_ab, r_ac, r_bc = _spearman(a, values), _spearman(a, held_values), _spearman(values, held_values)
    # Partial correlation of a and b given c: (r_ab − r_ac r_bc) / √((1 − r_ac²)(1 − r_bc²)).
    denominator = math.sqrt(max(0.0, (1 - r_ac**2) * (1 - r_bc**2)))
    return (r_ab - r_ac * r_bc) / denominator if denominator > TOLERANCE else math.nan


def _spearman(first_values: np.ndarray, second_values: np.ndarray) -> float:
    """Return Spearman's correlation of two columns; NaN if one is constant."""
    # Rounding errors must not order values that are equal.
    first, second = np.round((first_values, second_values), 12)
    # scipy warns of a constant, which has no correlation.
    return float(spearmanr(first, second).statistic) if np.ptp(first) and np.ptp(second) else math.nan


def _dominated_share(x: np.ndarray, y: np.ndarray, other_x: np.ndarray, other_y: np.ndarray) -> float:
    """Return the share of a frontier's undominated points (x, y) that another method's points dominate."""
    undominated = ~_find_dominated(x, y, x, y)
    return float(_find_dominated(x[undominated], y[undominated], other_x, other_y).mean())


def _find_dominated(x: np.ndarray, y: np.ndarray, other_x: np.ndarray, other_y: np.ndarray) -> np.ndarray:
    """Mark as an (n,) mask the points that another is as good as on both axes, and better than on one."""
    x, y = x[:, None], y[:, None]
    is_dominated = (other_x >= x) & (other_y >= y) & ((other_x > x) | (other_y > y))
    return np.asarray(is_dominated.any(1))
