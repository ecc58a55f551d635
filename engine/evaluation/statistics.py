"""What per-query values allow to say about decoders: intervals, a test, Holm's correction, wins, and the sentence.

All of it takes the corpus and the judgements as given, and the queries as drawn from those that people ask.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.special import nctdtr, ndtr, ndtri, stdtrit

from engine.errors import DataError, ParamError
from engine.evaluation.metrics import title_of
from engine.evaluation.paired import SAME, cells_at, names, shared, written_out
from engine.matrix import slices
from engine.params import Whole
from engine.progress import counted
from engine.wording import decimal, gain

LEVEL = 0.95
SIGNIFICANCE_LEVEL = 0.05
POWER = 0.8
#: A larger number of queries is not reported.
MAX_QUERIES_NEEDED = 1_000_000
RESAMPLES = Whole(10_000, "R", 100, 1_000_000, name="resamples", help="How often to draw.")
SEED = Whole(0, "seed", 0, name="seed", help="Same seed, same answer.")
PATTERNS_EACH = 100
"""So many sign patterns a comparison, at the least: fewer, and Holm's correction leaves no p small enough to tell."""
Ends = tuple[float, float] | tuple[None, None]
"""The lower and the upper end of an interval."""


class Wins(NamedTuple):
    """On how many queries one decoder has more, the same, less than another."""

    win: int
    tie: int
    loss: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """One decoder against a baseline."""

    name: str  # as charts write it
    label: str  # the decoder in full
    baseline: str  # as charts write it
    metric: str
    k: int
    queries: int  # number on which both were compared
    mean: float  # over those
    baseline_mean: float
    difference: float  # of the two means
    low: float | None  # its 95% interval, None for a single query
    high: float | None
    p: float  # of the paired randomisation test
    p_holm: float  # after Holm's correction over `comparisons`
    comparisons: int
    wins: Wins  # query by query
    least: float = math.nan  # the smallest difference that a query has
    most: float = math.nan  # the largest, which the VRSD paper calls Max-diff (§4.1)

    @property
    def significant(self) -> bool:
        """Holm-corrected p < 0.05 and the 95% interval excludes 0."""
        return (
            self.p_holm < SIGNIFICANCE_LEVEL
            and self.low is not None
            and self.high is not None
            and not self.low <= 0 <= self.high
        )

    @property
    def measurable(self) -> bool:
        """Whether to tell of it: of a gain once it is significant, of a loss once its own interval is below 0.

        The correction guards against gains by chance; a loss must not hide behind it.
        """
        return self.significant or (self.high is not None and self.high < 0)


def resampled_means(values: np.ndarray, resamples: int, seed: int) -> np.ndarray:
    """(resamples, m) means of the columns of (n, m) values over n queries drawn with replacement.

    Every column sees the same draws, so differences of columns are paired. scipy.stats.bootstrap draws for one
    statistic at a time; here a draw is a row of counts, and one product serves every column. Efron 1979.
    """
    count, centre = len(values), values.mean(0)
    apart = values - centre
    rng = np.random.default_rng(seed)
    sums = np.empty((resamples, values.shape[1]))
    for rows in slices(resamples, count):
        size = rows.stop - rows.start
        drawn = rng.integers(count, size=(size, count)) + np.arange(0, size * count, count)[:, None]
        counts = np.bincount(drawn.ravel(), minlength=size * count).reshape(size, count)
        sums[rows] = counts.astype(np.float64) @ apart
    means: np.ndarray = centre + sums / count
    return means


def percentile_ends(drawn: Any) -> tuple[float, float]:
    """The ends of the 95% interval of resampled values."""
    low, high = np.percentile(drawn, [50 * (1 - LEVEL), 50 * (1 + LEVEL)])
    return float(low), float(high)


def intervals(values: np.ndarray, resamples: int, seed: int) -> Sequence[Ends]:
    """The percentile bootstrap intervals of the means of the columns of (n, m) values; without ends for one query.

    The tails are those of Hesterberg 2015 (expanded percentile): plain ones are too narrow for few queries, by as much
    as a normal interval without the n − 1 is beside Student's. From some hundred queries on they are the same.
    """
    if (count := len(values)) < 2:
        return [(None, None)] * values.shape[1]
    tail = 100 * ndtr(math.sqrt(count / (count - 1)) * stdtrit(count - 1, (1 - LEVEL) / 2))
    low, high = np.percentile(resampled_means(values, resamples, seed), [tail, 100 - tail], axis=0)
    mean = values.mean(0)  # rounding may put a constant's ends beside it
    return list(zip(np.minimum(low, mean).tolist(), np.maximum(high, mean).tolist(), strict=True))


def sign_flips(differences: np.ndarray, resamples: int, seed: int) -> np.ndarray:
    """(m,) p-values of the two-sided paired randomisation test on the means of the columns of (n, m) differences.

    If it made no difference which decoder answered a query, swapping the two would change the sign of the query's
    difference and nothing else (Smucker, Allan & Carterette 2007). All sign patterns where there are no more than
    `resamples` of them, else so many at random, with the observed one among them (Phipson & Smyth 2010: never 0).

    scipy.stats.permutation_test(permutation_type="samples") gives the same for one column (tested against it) but takes
    a second or two for 2,000 queries and 10,000 patterns; as one product a hundred columns take less. Queries that tie
    change nothing and are dropped; with few left the test is exact.
    """
    differences = np.where(np.abs(differences) <= SAME, 0.0, differences)
    sizes = (differences != 0).sum(0)
    p = np.ones(differences.shape[1])
    exact = sizes <= int(math.log2(resamples))
    for column in np.flatnonzero(exact & (sizes > 0)):
        d = differences[differences[:, column] != 0, column]
        flips = np.arange(1 << len(d))[:, None] >> np.arange(len(d)) & 1
        p[column] = _extreme(flips, d[:, None])[0] / len(flips)
    if (many := np.flatnonzero(~exact)).size:
        d = differences[:, many]
        d = d[d.any(1)]
        rng = np.random.default_rng(seed)
        extreme = np.zeros(len(many))
        # The blocks are part of what a seed draws: NumPy drops the rest of a word after each.
        for rows in slices(resamples, 2 * len(d)):
            extreme += _extreme(rng.integers(2, size=(rows.stop - rows.start, len(d)), dtype=np.int8), d)
        p[many] = (extreme + 1) / (resamples + 1)
    return p


def holm(pvalues: Sequence[float] | np.ndarray) -> np.ndarray:
    """p-values corrected so that the chance of even one false claim among them stays under α: Holm 1979.

    The smallest of m is multiplied by m, the next by m − 1 …, none below the one before it and none above 1. Neither
    scipy nor scikit-learn has it, and statsmodels would be a dependency for these lines. Raises DataError.
    """
    p = np.asarray(pvalues, dtype=np.float64)
    if p.ndim != 1 or not ((p >= 0) & (p <= 1)).all():
        raise DataError(f"pvalues must be a list of numbers in [0, 1]; got {pvalues!r}")
    order = np.argsort(p, kind="stable")
    corrected = np.empty_like(p)
    corrected[order] = np.minimum(1, np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1)))
    return corrected


def compare(
    points: Iterable[Any], metric: str, baseline: Any, k: int = 10, *, resamples: int = RESAMPLES.default, seed: int = 0
) -> tuple[Comparison, ...]:
    """Every point against a baseline in one metric, on the queries for which all of them have it.

    points: of a sweep, those of other k are passed over; baseline: one of them, or its label, its name, or its method
    where that has one point. A row a point, in their order, except for the baseline and for points that have the metric
    on no query. Interval and test are paired, with the same draws for every row; Holm's correction is over all rows, an
    interval is for its row alone. resamples: of both, more for the test where rows are many. Raises ParamError or
    DataError.
    """
    resamples, seed = RESAMPLES.check(resamples), SEED.check(seed)
    points = list(points)
    base = meant(points, baseline, k)
    both = shared([base, *points], (metric,), k)
    if base in both.left_out:
        raise DataError(f"the baseline, {base.label}, has {metric} on no query: nothing can be compared with it")
    values = both.values[metric]
    labels = [(name, p.label, both.names[0]) for name, p in zip(both.names[1:], both.points[1:], strict=True)]
    return comparison_rows(labels, metric, base.k, values[:, 1:], values[:, :1], resamples, seed)


def comparison_rows(
    labels: Sequence[tuple[str, str, str]],
    metric: str,
    k: int,
    values: np.ndarray,
    baselines: np.ndarray,
    resamples: int,
    seed: int,
) -> tuple[Comparison, ...]:
    """A row for each of m columns, with Holm's correction over them.

    labels: (name, label, baseline) of each row
    values, baselines: (n, m) over the same queries, or (n, 1) for all rows
    resamples: of the intervals and of the test, which draws more where rows are many
    """
    values, baselines = np.broadcast_arrays(values, baselines)
    differences = values - baselines
    p = sign_flips(differences, max(resamples, PATTERNS_EACH * len(labels)), seed)
    columns = zip(labels, values.T, baselines.T, intervals(differences, resamples, seed), p, holm(p), strict=True)
    return tuple(
        Comparison(
            name=name,
            label=label,
            baseline=baseline,
            metric=metric,
            k=k,
            queries=len(column),
            mean=float(column.mean()),
            baseline_mean=float(base.mean()),
            difference=float((column - base).mean()),
            low=low,
            high=high,
            p=float(chance),
            p_holm=float(corrected),
            comparisons=len(p),
            wins=_wins(column - base),
            least=float((column - base).min()),
            most=float((column - base).max()),
        )
        for (name, label, baseline), column, base, (low, high), chance, corrected in columns
    )


def _wins(differences: np.ndarray) -> Wins:
    win, loss = int((differences > SAME).sum()), int((differences < -SAME).sum())
    return Wins(win, len(differences) - win - loss, loss)


def p_value(p: float) -> str:
    """A p-value, "p = 0.009"; as many digits as show on which side of α it lies."""
    if p < 0.001 or p > 0.99:
        return "p < 0.001" if p < 0.5 else "p > 0.99"
    digits = 3
    while p < SIGNIFICANCE_LEVEL <= round(p, digits):
        digits += 1
    return f"p = {p:.{digits}f}"


def statement(row: Comparison) -> str:
    """One sentence that says what the statistics allow, and no more."""
    metric, a, b = f"{title_of(row.metric)}@{row.k}", row.name, row.baseline
    if row.wins.win == row.wins.loss == 0:
        on = f"all {counted(row.queries, 'query', 'queries')}" if row.queries > 1 else "the one query asked"
        return f"{a} and {b} have the same {metric} on {on}."
    # Sums of floats end in noise.
    low, high = (end and round(end, 9) for end in (row.low, row.high))
    gained = f"{gain(round(row.difference, 9))} {metric} vs {b}"
    if low is None or high is None:
        return f"{a}: {gained}; one query says nothing of others."
    holm = f", Holm over {row.comparisons}" if row.comparisons > 1 else ""
    tested = f"95% CI {decimal(low)} to {decimal(high)}, {p_value(row.p_holm)}{holm}"
    wins, losses = (counted(n, "query", "queries") for n in (row.wins.win, row.wins.loss))
    outcome = f"better on {wins}, worse on {losses}, the same on {row.wins.tie:,}"
    verdict = "" if row.significant else "No significant difference. "
    return f"{verdict}{a}: {gained} ({tested}); {outcome}."


def summary(rows: Sequence[Comparison]) -> str:
    """One line for many comparisons: how many decoders are significantly better or worse."""
    if not rows:
        return "Nothing was compared."
    first = rows[0]
    more = sum(row.significant and row.difference > 0 for row in rows)
    less = sum(row.significant and row.difference < 0 for row in rows)
    return (
        f"{counted(len(rows), 'setting')} vs {first.baseline}, {title_of(first.metric)}@{first.k}: {more} better · "
        f"{len(rows) - more - less} no significant difference · {less} worse"
    )


def meant(points: Sequence[Any], baseline: Any, k: int) -> Any:
    """The point at k that `baseline` means: itself, or by its label, its name, or its method; raises ParamError."""
    if not isinstance(baseline, str):
        if getattr(baseline, "k", None) != k:
            raise ParamError(f"baseline must be a point at k = {k}, or the label of one; got {baseline!r}")
        return baseline
    cells = cells_at(points, k)
    methods = [p.method for p in cells]
    for called in ([p.label for p in cells], names(cells), names(cells, written_out), methods):
        fitting = {p.label: p for p, name in zip(cells, called, strict=True) if name == baseline}
        if len(fitting) == 1:
            return next(iter(fitting.values()))
        if fitting:
            few = ", ".join(list(fitting)[:3])
            raise ParamError(f"baseline {baseline!r} means {len(fitting)} points; give the label of one, as {few}")
    few = ", ".join(names(cells)[:3])
    raise ParamError(f"baseline must be one of the points at k = {k}, as {few}; none is called {baseline!r}")


def _extreme(flips: np.ndarray, differences: np.ndarray) -> np.ndarray:
    """(m,) how many of the (r, n) patterns of flipped signs give sums at least as far from 0 as the observed."""
    total, room = differences.sum(0), 1e-12 * np.abs(differences).sum(0)
    sums = total - 2 * (flips.astype(np.float64) @ differences)
    counts: np.ndarray = (np.abs(sums) >= np.abs(total) - room).sum(0)
    return counts


def queries_needed(
    differences: np.ndarray, difference: float, power: float = POWER, alpha: float = SIGNIFICANCE_LEVEL
) -> int | None:
    """The least number of queries with which a paired two-sided t-test finds a mean difference with this power.

    differences: (n,) of the queries so far, whose spread is taken to be that of all; None for fewer than two, where
    none differs, and beyond a million. Webber, Moffat & Zobel 2008; Sakai 2016. Raises ParamError.
    """
    if not (math.isfinite(difference) and difference):
        raise ParamError(f"difference must be a number other than 0; got {difference!r}")
    for name, value in (("power", power), ("alpha", alpha)):
        if not 0 < value < 1:
            raise ParamError(f"{name} must be a number in (0, 1); got {value!r}")
    spread = float(np.std(differences, ddof=1)) if len(differences) > 1 else 0.0
    if not spread:
        return None
    effect = abs(difference) / spread
    # With a known spread the normal quantiles give the number; not knowing it takes some queries more.
    least = ((ndtri(1 - alpha / 2) + ndtri(power)) / effect) ** 2
    if least > MAX_QUERIES_NEEDED:
        return None
    count = max(2, math.ceil(least))
    while _power(count, effect, alpha) < power:
        count += 1
    return count


def _power(count: int, effect: float, alpha: float) -> float:
    """The chance that the test rejects; effect: mean over standard deviation."""
    critical, shift = stdtrit(count - 1, 1 - alpha / 2), effect * math.sqrt(count)
    return float(1 - nctdtr(count - 1, shift, critical) + nctdtr(count - 1, shift, -critical))
