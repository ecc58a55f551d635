"""Statistics of per-query values: intervals, a paired test, Holm's correction, wins, and a sentence for each.

Corpus and judgements are taken as fixed, the queries as a sample of those that people ask.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple

import numpy as np
from scipy.special import nctdtr, ndtr, ndtri, stdtr, stdtrit

from engine.display import DataFrame, Tabular, build_rows_table
from engine.errors import DataError, ParamError
from engine.evaluation import paired
from engine.evaluation.corrected_judge import JudgeUse, ModelValues, check_correlation, correct_means, pair_with_model
from engine.evaluation.metrics import METRICS, title_of
from engine.matrix import slices
from engine.params import Whole
from engine.progress import counted
from engine.wording import decimal, gain

CONFIDENCE_LEVEL = 0.95
SIGNIFICANCE_LEVEL = 0.05
DEFAULT_POWER = 0.8
#: A larger number of queries is not reported.
MAX_QUERIES_NEEDED = 1_000_000
RESAMPLES = Whole(10_000, "R", 100, 1_000_000, name="resamples", help="Number of resamples.")
SEED = Whole(0, "seed", 0, name="seed", help="Same seed, same answer.")
MIN_SIGN_PATTERNS = 100
"""Sign patterns per comparison: with fewer, no p stays small enough after Holm's correction."""
MIN_CONSTANT_QUERIES = 30
"""Number of queries from which on equal values have an interval, of no width: fewer say nothing of their spread."""
MAX_TESTED_COLUMNS = 32
"""Comparisons whose sums under all sign patterns are in memory at a time."""
IntervalEnds = tuple[float, float] | tuple[None, None]
"""The lower and the upper end of an interval."""


class WinCounts(NamedTuple):
    """Numbers of queries on which one decoder has more, as much or less than another."""

    win: int
    tie: int
    loss: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison(Tabular):
    """One decoder compared with a baseline in a metric at k, query by query."""

    name: str  # as charts write it
    label: str  # the decoder in full
    baseline: str  # as charts write it
    metric: str
    k: int
    queries: int  # number on which both were compared
    mean: float  # over those
    baseline_mean: float
    difference: float  # of the two means
    low: float | None  # end of its 95% interval after the same correction as p_holm's; None for a single query
    high: float | None
    p: float  # of the paired randomisation test, uncorrected; with a model's judgements of Student's
    p_holm: float  # after Holm's correction over `comparisons`
    comparisons: int
    wins: WinCounts  # query by query
    least: float = math.nan  # the smallest difference that a query has
    most: float = math.nan  # the largest, which the VRSD paper calls Max-diff (§4.1)
    single_low: float | None = None  # end of the 95% interval of this comparison alone, uncorrected
    single_high: float | None = None
    judge: JudgeUse | None = None  # what a model judged beside the person; p is Student's then, and wins the person's

    def __str__(self) -> str:
        """Return the comparison as a sentence."""
        return describe_comparison(self)

    def _describe(self) -> str:
        interval = "" if self.low is None or self.high is None else f" ({self.low:+.3f} to {self.high:+.3f})"
        facts = f"{self.metric}@{self.k} {self.difference:+.3f}{interval}, p {self.p_holm:.3g}"
        n_queries = counted(self.queries, "query", "queries")
        return f"{facts}, {n_queries}, {self.name} against {self.baseline}"

    def to_frame(self) -> DataFrame:
        """Return one row; `engine.to_frame` puts those of several comparisons together.

        Columns: name, label (the decoder in full), baseline, metric, k, queries, mean, baseline_mean, difference, low
        and high (its corrected interval), p, p_holm, comparisons, least, most, single_low, single_high, win, tie, loss
        (numbers of queries) and significant.
        """
        row = {field.name: getattr(self, field.name) for field in fields(self)}
        counts: WinCounts = row.pop("wins")
        row.pop("judge")
        row |= {**counts._asdict(), "significant": self.significant}
        return build_rows_table([row], numbers=("low", "high", "single_low", "single_high"))

    @property
    def significant(self) -> bool:
        """True if the Holm-corrected p is below 0.05 and the corrected 95% interval excludes 0."""
        low, high = self.low, self.high
        return self.p_holm < SIGNIFICANCE_LEVEL and low is not None and high is not None and not low <= 0 <= high


ComparisonsByMetric = Mapping[str, Mapping[str, Comparison]]
"""Metric → label → that decoder against the baseline."""


def bootstrap_means(values: np.ndarray, resamples: int, seed: int) -> np.ndarray:
    """Return (resamples, m) column means of (n, m) values, each over n rows drawn with replacement.

    Every column sees the same draws, so differences of columns are paired. scipy.stats.bootstrap draws for one
    statistic at a time; here a draw is a row of counts, and one product serves every column. Efron 1979.
    """
    n_queries, column_means = len(values), values.mean(0)
    deviations = values - column_means
    rng = np.random.default_rng(seed)
    resampled_sums = np.empty((resamples, values.shape[1]))
    for block_slice in slices(resamples, n_queries):
        block_size = block_slice.stop - block_slice.start
        # Each draw gets its own range of numbers, so that one bincount counts the queries of all draws.
        query_draws = rng.integers(n_queries, size=(block_size, n_queries))
        query_draws = query_draws + np.arange(0, block_size * n_queries, n_queries)[:, None]
        draw_counts = np.bincount(query_draws.ravel(), minlength=block_size * n_queries).reshape(block_size, n_queries)
        resampled_sums[block_slice] = draw_counts.astype(np.float64) @ deviations
    resampled: np.ndarray = column_means + resampled_sums / n_queries
    return resampled


def percentile_ends(resampled_values: Any) -> tuple[float, float]:
    """Return the ends of the 95% percentile interval of resampled values."""
    low, high = np.percentile(resampled_values, [50 * (1 - CONFIDENCE_LEVEL), 50 * (1 + CONFIDENCE_LEVEL)])
    return float(low), float(high)


def bootstrap_intervals(values: np.ndarray, resamples: int, seed: int) -> Sequence[IntervalEnds]:
    """Return bootstrap intervals of the column means of (n, m) values; (None, None) for one row.

    An interval is cut from the resampled means at percentiles a little outside of 2.5 and 97.5, as Hesterberg 2015
    advises (expanded percentile): plain percentiles are too narrow for few queries. From some hundred queries on the
    two are the same.
    """
    if (n_queries := len(values)) < 2:
        return [(None, None)] * values.shape[1]
    # The normal tail at √(n / (n − 1)) times the quantile of Student's t (Hesterberg 2015).
    quantile = math.sqrt(n_queries / (n_queries - 1)) * stdtrit(n_queries - 1, (1 - CONFIDENCE_LEVEL) / 2)
    tail_percent = 100 * ndtr(quantile)
    means = bootstrap_means(values, resamples, seed)
    lower_ends, upper_ends = np.percentile(means, [tail_percent, 100 - tail_percent], axis=0)
    # Rounding may put the ends of a constant column beside its mean.
    column_means = values.mean(0)
    lower_ends, upper_ends = np.minimum(lower_ends, column_means), np.maximum(upper_ends, column_means)
    return list(zip(lower_ends.tolist(), upper_ends.tolist(), strict=True))


def estimate_mean_intervals(values: np.ndarray, resamples: int, seed: int) -> Sequence[IntervalEnds]:
    """Return `bootstrap_intervals`, but (None, None) for equal values of fewer than MIN_CONSTANT_QUERIES queries.

    Draws of equal values are equal too: "1.000 to 1.000" of four queries would claim what they cannot know.
    """
    intervals = bootstrap_intervals(values, resamples, seed)
    if len(values) >= MIN_CONSTANT_QUERIES:
        return intervals
    is_constant = (np.ptp(values, axis=0) <= paired.TIE_TOLERANCE) if len(values) else [True] * values.shape[1]
    return [(None, None) if constant else ends for constant, ends in zip(is_constant, intervals, strict=True)]


def compute_sign_flip_p_values(differences: np.ndarray, resamples: int, seed: int) -> np.ndarray:
    """Return (m,) p-values of the two-sided paired randomisation test on columns of (n, m) differences.

    If it made no difference which decoder answered a query, swapping the two would change the sign of the query's
    difference and nothing else (Smucker, Allan & Carterette 2007). A p-value is the share of sign patterns whose mean
    is at least as far from 0 as the observed one: of all patterns where there are no more than `resamples`, else of so
    many at random, with the observed one among them (Phipson & Smyth 2010: never 0).

    scipy.stats.permutation_test(permutation_type="samples") gives the same for one column (tested against it) but takes
    a second or two for 2,000 queries and 10,000 patterns; as one product a hundred columns take less. Queries that tie
    change nothing and are dropped; with few left the test is exact.
    """
    differences = np.where(np.abs(differences) <= paired.TIE_TOLERANCE, 0.0, differences)
    n_nonzero = (differences != 0).sum(0)
    p_values = np.ones(differences.shape[1])
    # 2ⁿ patterns are enumerated while they are at most the number of resamples.
    is_exact = n_nonzero <= int(math.log2(resamples))
    for column_index in np.flatnonzero(is_exact & (n_nonzero > 0)):
        nonzero = differences[differences[:, column_index] != 0, column_index]
        # The bits of the numbers from 0 to 2ⁿ − 1 are all patterns of signs.
        sign_patterns = np.arange(1 << len(nonzero))[:, None] >> np.arange(len(nonzero)) & 1
        p_values[column_index] = _count_extreme(sign_patterns, nonzero[:, None])[0] / len(sign_patterns)
    if (sampled_columns := np.flatnonzero(~is_exact)).size:
        nonzero = differences[:, sampled_columns]
        nonzero = nonzero[nonzero.any(1)]
        rng = np.random.default_rng(seed)
        n_extreme = np.zeros(len(sampled_columns))
        # The blocks are part of what a seed draws: NumPy drops the rest of a word after each.
        for block_slice in slices(resamples, 2 * len(nonzero)):
            block_shape = (block_slice.stop - block_slice.start, len(nonzero))
            n_extreme += _count_extreme(rng.integers(2, size=block_shape, dtype=np.int8), nonzero)
        p_values[sampled_columns] = (n_extreme + 1) / (resamples + 1)
    return p_values


def correct_holm(p_values: Sequence[float] | np.ndarray) -> np.ndarray:
    """Correct p-values so that the chance of any false claim among them stays below α (Holm 1979).

    The smallest of m is multiplied by m, the next by m − 1 …, none below the one before it and none above 1. Neither
    scipy nor scikit-learn has it, and statsmodels would be a dependency for these lines. Raises DataError.
    """
    p_array = np.asarray(p_values, dtype=np.float64)
    if p_array.ndim != 1 or not ((p_array >= 0) & (p_array <= 1)).all():
        raise DataError(f"pvalues must be a list of numbers in [0, 1]; got {p_values!r}")
    rising_order = np.argsort(p_array, kind="stable")
    corrected_array = np.empty_like(p_array)
    # The running maximum keeps corrected values in the order of the p-values.
    scaled = p_array[rising_order] * np.arange(len(p_array), 0, -1)
    corrected_array[rising_order] = np.minimum(1, np.maximum.accumulate(scaled))
    return corrected_array


def compare(
    points: Iterable[Any], metric: str, baseline: Any, k: int = 10, *, model_judged: Iterable[Any] | None = None,
    resamples: int = RESAMPLES.default, seed: int = 0,
) -> tuple[Comparison, ...]:  # fmt: skip
    """Compare every cell with a baseline in one metric, on the queries for which all of them have it.

    A cell is one decoder's metrics, query by query, at one k. Interval and test are paired, with the same draws for
    every row. Holm's correction is over all rows: of p-values, and of the intervals, which are as much wider.

    Parameters
    ----------
    points : iterable of Cell
        Cells of a sweep; those of another k are ignored.
    metric : str
        The name of a metric.
    baseline : Cell or str
        One of the cells, or its label, its name, or its method if that has one cell.
    k : int
        The size of the retrieved sets.
    model_judged : iterable of Cell or None
        The same settings measured by a model's judgements of more queries. Those that `points` have too correct the
        model; they must be a random sample of them. Intervals and tests are then Student's, for each setting with the
        weight of the model that suits it.
    resamples : int
        Draws of the interval and of the test, which takes more if there are many rows.
    seed : int
        The seed of the draws.

    Returns
    -------
    tuple of Comparison
        In the order of the cells, without the baseline and cells that have the metric on no query.

    Raises
    ------
    ParamError
        If the baseline is not one of the cells, or the metric was not measured.
    DataError
        If the cells have no query in common, or the model judges worse than chance.

    Examples
    --------
    >>> import engine, torch
    >>> corpus = engine.Corpus(("a", "b"), ("red", "blue"))
    >>> space = engine.Space(corpus, engine.Embeddings(("a", "b"), torch.eye(2)))
    >>> queries, qrels = engine.Embeddings(("q", "r"), torch.eye(2)), engine.Qrels({"q": {"a": 1}, "r": {"b": 1}})
    >>> decoders = [engine.Decoder(engine.make(name)) for name in list(engine.methods("selector"))[:2]]
    >>> cells = list(engine.sweep(decoders, space, queries, qrels, k=1, metrics="recall"))
    >>> [row.difference for row in engine.compare(cells, "recall", baseline=cells[0], k=1)]
    [0.0]
    """
    resamples, seed = RESAMPLES.check(resamples), SEED.check(seed)
    points = list(points)
    baseline_cell = resolve_baseline(points, baseline, k)
    aligned = paired.align_on_common_queries([baseline_cell, *points], (metric,), k)
    if baseline_cell in aligned.left_out:
        label = baseline_cell.label
        raise DataError(f"the baseline, {label}, has {metric} on no query: nothing can be compared with it")
    values, (baseline_name, *names) = aligned.values[metric], aligned.names
    # The baseline is the first of the aligned cells.
    row_labels = [(name, cell.label, baseline_name) for name, cell in zip(names, aligned.cells[1:], strict=True)]
    if model_judged is not None:
        aligned, model = pair_with_model(aligned, paired.select_cells(model_judged, k), metric, None)
        return build_corrected(row_labels, metric, baseline_cell.k, aligned.values[metric], model, aligned.queries)
    return build_comparisons(row_labels, metric, baseline_cell.k, values[:, 1:], values[:, :1], resamples, seed)


def build_comparisons(
    row_labels: Sequence[tuple[str, str, str]],
    metric: str,
    k: int,
    values: np.ndarray,
    baselines: np.ndarray,
    resamples: int,
    seed: int,
) -> tuple[Comparison, ...]:
    """Compare m decoders' values with their baselines' on the same queries; return a Comparison for each.

    Holm's correction of p-values and intervals is over all m.

    row_labels: (name, label, baseline) of each row
    values, baselines: (n, m) over the same queries, or (n, 1) for all rows
    resamples: of the intervals and of the test, which draws more where rows are many
    """
    values, baselines = np.broadcast_arrays(values, baselines)
    differences = values - baselines
    p_values = compute_sign_flip_p_values(differences, max(resamples, MIN_SIGN_PATTERNS * len(row_labels)), seed)
    statistics = zip(bootstrap_intervals(differences, resamples, seed), p_values.tolist(), strict=True)
    row_columns = zip(row_labels, values.T, baselines.T, statistics, strict=True)
    comparisons = []
    for (name, label, baseline), column, baseline_column, ((low, high), p_value) in row_columns:
        gains = column - baseline_column
        comparisons.append(Comparison(
            name=name, label=label, baseline=baseline, metric=metric, k=k, queries=len(column),
            mean=float(column.mean()), baseline_mean=float(baseline_column.mean()), difference=float(gains.mean()),
            low=low, high=high, p=p_value, p_holm=p_value, comparisons=1, wins=_count_wins(gains),
            least=float(gains.min()), most=float(gains.max()), single_low=low, single_high=high,
        ))  # fmt: skip
    return correct_comparisons(comparisons)


def build_corrected(
    row_labels: Sequence[tuple[str, str, str]],
    metric: str,
    k: int,
    values: np.ndarray,
    model: ModelValues,
    queries: Sequence[str],
) -> tuple[Comparison, ...]:
    """Compare m settings with the baseline as a model judged them, corrected by the person.

    Sign flips do not apply to a corrected mean, so intervals and p-values are Student's. row_labels: (name, label,
    baseline) of each row; values: (n, 1 + m) as the person judged `queries`, the baseline's first
    """
    gains = values[:, 1:] - values[:, :1]
    use = model.correct(gains, queries).use
    check_correlation(use)
    means = correct_means(model.spread_person_values(gains, queries), *model.find_changes())
    # Without any spread there is no error to test by, and no difference is claimed.
    has_error = means.std_error > 0
    scores = np.where(has_error, means.mean / np.where(has_error, means.std_error, 1), 0)
    narrowings = np.where(means.person_error > 0, means.std_error / np.maximum(means.person_error, 1e-300), 1.0)
    p_values = np.where(has_error, 2 * stdtr(means.degrees, -np.abs(scores)), 1.0).tolist()
    low, high = (ends.tolist() for ends in means.find_ends(CONFIDENCE_LEVEL))
    base_mean, rows = float(values[:, 0].mean()), []
    for column, (name, label, baseline) in enumerate(row_labels):
        difference, own_gains = float(means.mean[column]), gains[:, column]
        rows.append(Comparison(
            name=name, label=label, baseline=baseline, metric=metric, k=k, queries=len(queries),
            mean=base_mean + difference, baseline_mean=base_mean, difference=difference, low=low[column],
            high=high[column], p=p_values[column], p_holm=p_values[column], comparisons=1, wins=_count_wins(own_gains),
            least=float(own_gains.min()), most=float(own_gains.max()), single_low=low[column],
            single_high=high[column],
            judge=replace(use, weight=float(means.weights[column]), narrowing=float(narrowings[column])),
        ))  # fmt: skip
    return correct_comparisons(rows)


def correct_comparisons(rows: Sequence[Comparison]) -> tuple[Comparison, ...]:
    """Correct p-values and intervals for the number of comparisons, by Holm's method over all rows.

    Holm's i-th step tests the i-th smallest p of m against α / (m + 1 − i), and the first that fails ends the test. An
    interval has the level of the step that decides on its row: it is widened as Student's would be, and holds 0 where
    the corrected test finds no difference. rows: with their uncorrected p and single intervals
    """
    p_values = np.array([row.p for row in rows])
    corrected = correct_holm(p_values)
    factors = np.empty(len(rows))
    factors[np.argsort(p_values, kind="stable")] = np.arange(len(rows), 0, -1)
    # Behind the step that fails nothing is tested any more, so that step decides on all that are left.
    is_rejected = corrected < SIGNIFICANCE_LEVEL
    factors[~is_rejected] = len(rows) - is_rejected.sum()
    results = []
    for row, p_holm, factor, has_difference in zip(rows, corrected.tolist(), factors, is_rejected, strict=True):
        low, high = row.single_low, row.single_high
        if low is not None and high is not None:
            quantiles = stdtrit(row.queries - 1, 1 - SIGNIFICANCE_LEVEL / np.array([2, 2 * factor]))
            # Growth is added to the single interval, so that rounding cannot leave it outside the corrected one.
            growth = float(quantiles[1] / quantiles[0]) - 1
            low, high = low - growth * (row.difference - low), high + growth * (high - row.difference)
            if not has_difference:
                low, high = min(low, 0.0), max(high, 0.0)
        single_ends = row.single_low, row.single_high
        ends = [_clip_difference(row.metric, end) for end in (low, high, *single_ends)]
        row = replace(row, low=ends[0], high=ends[1], single_low=ends[2], single_high=ends[3])
        results.append(replace(row, p_holm=p_holm, comparisons=len(rows)))
    return tuple(results)


def _clip_difference(metric: str, end: float | None) -> float | None:
    """Clip the end of an interval of differences to what the metric can differ by: values in [0, 1] by 1 at most."""
    # Widening for a correction, and Student's intervals, know no limits.
    is_bounded = metric in METRICS and METRICS[metric].is_judged_share
    return end if end is None or not is_bounded else min(max(end, -1.0), 1.0)


def _count_wins(differences: np.ndarray) -> WinCounts:
    """Count the differences above, near and below 0."""
    n_wins, n_losses = int((differences > paired.TIE_TOLERANCE).sum()), int((differences < -paired.TIE_TOLERANCE).sum())
    return WinCounts(n_wins, len(differences) - n_wins - n_losses, n_losses)


def format_p_value(p: float) -> str:
    """Format a p-value, "p = 0.009", with enough digits to show on which side of α it lies."""
    if p < 0.001 or p > 0.99:
        return "p < 0.001" if p < 0.5 else "p > 0.99"
    digits = 3
    while p < SIGNIFICANCE_LEVEL <= round(p, digits):
        digits += 1
    return f"p = {p:.{digits}f}"


def describe_comparison(row: Comparison) -> str:
    """Describe a comparison in a sentence that claims no more than the statistics allow."""
    metric_text, name, baseline = f"{title_of(row.metric)}@{row.k}", row.name, row.baseline
    if row.wins.win == row.wins.loss == 0 and row.judge is None:
        query_text = f"all {counted(row.queries, 'query', 'queries')}" if row.queries > 1 else "the one query asked"
        return f"{name} and {baseline} have the same {metric_text} on {query_text}."
    # Differences of float sums end in noise, which would turn an exact 0 into a sign.
    # `interval_end and …` leaves a missing end None.
    low, high = (interval_end and round(interval_end, 9) for interval_end in (row.low, row.high))
    gain_text = f"{gain(round(row.difference, 9))} {metric_text} vs {baseline}"
    if low is None or high is None:
        return f"{name}: {gain_text}; one query says nothing of others."
    test_text = f"95% CI {decimal(low)} to {decimal(high)}, {format_p_value(row.p_holm)}"
    if row.comparisons > 1:
        test_text += f", both corrected by Holm over {row.comparisons}; uncorrected {format_p_value(row.p)}"
    wins_text, losses_text = (counted(n_queries, "query", "queries") for n_queries in (row.wins.win, row.wins.loss))
    outcome_text = f"better on {wins_text}, worse on {losses_text}, the same on {row.wins.tie:,}"
    if row.judge is not None:
        test_text += f", by Student's t; {row.judge.origin}"
        outcome_text += " of yours"
    verdict = "" if row.significant else "No significant difference. "
    return f"{verdict}{name}: {gain_text} ({test_text}); {outcome_text}."


def summarize_comparisons(rows: Sequence[Comparison]) -> str:
    """Summarise comparisons with one baseline in a line: numbers of better, worse and undecided ones."""
    if not rows:
        return "Nothing was compared."
    first_row = rows[0]
    n_better = sum(row.significant and row.difference > 0 for row in rows)
    n_worse = sum(row.significant and row.difference < 0 for row in rows)
    return (
        f"{counted(len(rows), 'setting')} vs {first_row.baseline}, {title_of(first_row.metric)}@{first_row.k}, "
        f"on {counted(first_row.queries, 'common query', 'common queries')}: "
        f"{n_better} better · {len(rows) - n_better - n_worse} no significant difference · {n_worse} worse"
    )


def resolve_baseline(all_cells: Sequence[Any], baseline: Any, k: int) -> Any:
    """Return the cell at k that `baseline` identifies: by label, name or method, or as the cell itself.

    A cell is one decoder's metrics, query by query, at one k. Raises ParamError if it identifies none, or several.
    """
    if not isinstance(baseline, str):
        # A cell of another k would be compared with sets of another size.
        if getattr(baseline, "k", None) != k:
            raise ParamError(f"baseline must be a point at k = {k}, or the label of one; got {baseline!r}")
        return baseline
    cells = paired.select_cells(all_cells, k)
    labels, methods = [cell.label for cell in cells], [cell.method for cell in cells]
    printed_names = [paired.format_decoder_call(cell.decoder) for cell in cells]
    code_names = paired.short_names(cells, paired.format_stage_call)
    # The most specific kind of name first: a method may have many cells.
    for cell_names in (labels, printed_names, paired.short_names(cells), code_names, methods):
        matching = {cell.label: cell for cell, name in zip(cells, cell_names, strict=True) if name == baseline}
        if len(matching) == 1:
            # Exactly one cell has the name.
            return next(iter(matching.values()))
        if matching:
            examples = ", ".join(list(matching)[:3])
            raise ParamError(
                f"baseline {baseline!r} means {counted(len(matching), 'point')}; give the label of one, as {examples}"
            )
    examples = ", ".join(paired.short_names(cells)[:3])
    raise ParamError(f"baseline must be one of the points at k = {k}, as {examples}; none is called {baseline!r}")


def _count_extreme(sign_patterns: np.ndarray, differences: np.ndarray) -> np.ndarray:
    """Count the sign patterns that give a sum at least as far from 0 as the observed one, for each column.

    sign_patterns: (r, n), 1 where a query's difference changes its sign; differences: (n, m). Returns (m,).
    """
    observed_sums, rounding_room = differences.sum(0), 1e-12 * np.abs(differences).sum(0)
    # Changing a sign takes the difference from the sum twice.
    flips, least_sums = 2.0 * sign_patterns, np.abs(observed_sums) - rounding_room
    n_extreme = np.empty(differences.shape[1], np.int64)
    # All columns at once would take as much memory as there are patterns times columns.
    for start in range(0, differences.shape[1], MAX_TESTED_COLUMNS):
        columns = slice(start, start + MAX_TESTED_COLUMNS)
        flipped_sums = observed_sums[columns] - flips @ differences[:, columns]
        n_extreme[columns] = (np.abs(flipped_sums) >= least_sums[columns]).sum(0)
    return n_extreme


def estimate_queries_needed(
    differences: np.ndarray, difference: float, power: float = DEFAULT_POWER, alpha: float = SIGNIFICANCE_LEVEL
) -> int | None:
    """Return the smallest number of queries with which a paired two-sided t-test has the given power.

    differences: (n,) of the queries so far, whose spread stands for that of all; difference: the mean difference to
    detect. None for fewer than two queries, if none differs, and beyond a million. Webber, Moffat & Zobel 2008; Sakai
    2016. Raises ParamError.
    """
    if not (math.isfinite(difference) and difference):
        raise ParamError(f"difference must be a number other than 0; got {difference!r}")
    for level_name, level in (("power", power), ("alpha", alpha)):
        if not 0 < level < 1:
            raise ParamError(f"{level_name} must be a number in (0, 1); got {level!r}")
    standard_deviation = float(np.std(differences, ddof=1)) if len(differences) > 1 else 0.0
    if not standard_deviation:
        return None
    effect_size = abs(difference) / standard_deviation
    # The normal quantiles are a lower bound: they take the spread as known, which the t-test estimates.
    min_queries = ((ndtri(1 - alpha / 2) + ndtri(power)) / effect_size) ** 2
    if min_queries > MAX_QUERIES_NEEDED:
        return None
    # The power rises with the number of queries, so the first number that reaches it is the answer.
    n_queries = max(2, math.ceil(min_queries))
    while _compute_power(n_queries, effect_size, alpha) < power:
        n_queries += 1
    return n_queries


def _compute_power(n_queries: int, effect_size: float, alpha: float) -> float:
    """Return the chance that a paired two-sided t-test finds a true difference with this many queries.

    effect_size: mean difference over the standard deviation of the queries' differences; alpha: significance level
    """
    critical_value, shift = stdtrit(n_queries - 1, 1 - alpha / 2), effect_size * math.sqrt(n_queries)
    return float(1 - nctdtr(n_queries - 1, shift, critical_value) + nctdtr(n_queries - 1, shift, -critical_value))
