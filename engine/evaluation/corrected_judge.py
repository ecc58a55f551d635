"""Means over queries that a model judged, corrected by a person's judgements of some of them.

Prediction-powered inference (Angelopoulos, Duchi & Zrnic 2023): the person's n queries tell how far off the model is,
and the model's other queries narrow the interval. It holds however bad the model is, if the person's queries are a
random sample of all that the model judged.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import compress
from typing import Any

import numpy as np
from scipy.special import ndtri, stdtrit

from engine.display import OneLine
from engine.errors import DataError
from engine.evaluation.judge_agreement import UNNAMED_JUDGE, UPPER_TAIL, JudgeAgreement
from engine.evaluation.metrics import METRICS, map_values
from engine.evaluation.paired import TIE_TOLERANCE, AlignedCells, align_on_common_queries
from engine.progress import counted
from engine.wording import decimal

JUDGE_ENTRY = "judge"
"""Entry of a cell's provenance with the name of the model whose judgements it was measured by."""
MIN_PERSON_QUERIES = 5
"""Queries that a person must have judged, so that the weight of the model can be estimated at all."""
VARIANCE_TOLERANCE = 1e-18
MAX_LEVERAGE = 0.999


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeUse(OneLine):
    """The use that was made of a model's judgements beside a person's."""

    judge: str  # the model's name
    model_queries: int  # number that the model judged
    person_queries: int  # number of them that the person judged too
    weight: float  # of the model's mean, 0 where it does not narrow anything
    correlation: float | None  # of the model's differences with the person's, query by query; None without any
    narrowing: float  # standard error beside the person's alone, in the mean of the settings; 1 is no gain
    agreement: JudgeAgreement | None = None  # on the grades, where these were compared

    @property
    def origin(self) -> str:
        """Phrase on who judged what, "judged by MODEL on 300 queries, corrected by 40 of yours"."""
        return (
            f"judged by {self.judge} on {self.model_queries:,} queries, corrected by {self.person_queries:,} of yours"
        )


@dataclass(frozen=True, eq=False, kw_only=True)
class CorrectedMeans:
    """Means of m columns over all queries, with standard errors and the weights of the model."""

    mean: np.ndarray  # (m,)
    std_error: np.ndarray  # (m,)
    person_error: np.ndarray  # (m,) standard errors of the person's means alone
    weights: np.ndarray  # (m,) in [0, 1]
    degrees: int  # of freedom, of Student's t

    def find_ends(self, confidence: float) -> tuple[np.ndarray, np.ndarray]:
        """Return the (m,) lower and upper ends of the two-sided intervals."""
        margin = stdtrit(self.degrees, (1 + confidence) / 2) * self.std_error
        return self.mean - margin, self.mean + margin


def correct_means(person: np.ndarray, judged_model: np.ndarray, other_model: np.ndarray) -> CorrectedMeans:
    """Return the person's means of m columns, corrected by the model's; each column has its own weight.

    The mean is mean(y) + ω·(mean(f over the N − n others) − mean(f over the n)) with ω = cov(y, f)/var(f)/(1 +
    n/(N − n)), in [0, 1]. As ω is estimated from the same n queries, plain residuals are too small; each is divided by
    one minus its query's leverage, which is what the query is off if ω is estimated without it (the jackknife; HC3 of
    MacKinnon & White 1985). Where the result is no narrower than the person's own interval, that stands. person,
    judged_model: (n, m) of the queries that both judged; other_model: (N − n, m) of those that only the model judged
    """
    n_judged, n_other = len(person), len(other_model)
    deviations, model_deviations = person - person.mean(0), judged_model - judged_model.mean(0)
    model_squares = (model_deviations**2).sum(0)
    has_spread = (model_squares > VARIANCE_TOLERANCE) & (n_other > 1)
    slopes = np.where(has_spread, (deviations * model_deviations).sum(0), 0.0) / np.where(has_spread, model_squares, 1)
    weights = np.clip(slopes * n_other / (n_judged + n_other), 0, 1)
    leverages = 1 / n_judged + model_deviations**2 / np.where(has_spread, model_squares, np.inf)
    off_by = (deviations - weights * model_deviations) / (1 - np.minimum(leverages, MAX_LEVERAGE))
    variances = (off_by**2).sum(0) * (n_judged - 1) / n_judged**3
    person_variances = person.var(0, ddof=1) / n_judged
    # The model's mean over the others has an error of its own, small where they are many.
    if n_other > 1:
        variances = variances + weights**2 * other_model.var(0, ddof=1) / n_other
    # A weight that does not narrow is noise.
    is_used = has_spread & (weights > 0) & (variances < person_variances)
    weights = np.where(is_used, weights, 0.0)
    shifts = other_model.mean(0) - judged_model.mean(0) if n_other else 0.0
    return CorrectedMeans(
        mean=person.mean(0) + weights * shifts, std_error=np.sqrt(np.where(is_used, variances, person_variances)),
        person_error=np.sqrt(person_variances), weights=weights, degrees=n_judged - 1,
    )  # fmt: skip


@dataclass(frozen=True, eq=False, kw_only=True)
class ResidualSample:
    """Two samples whose means add up to corrected means: residuals of the n judged queries, and terms of the others."""

    residuals: np.ndarray  # (n, m) of the person's values without what the model explains
    terms: np.ndarray  # (N − n, m) of the model's values, weighted
    n_changed: np.ndarray  # (m,) judged queries with a difference to the baseline, by either judge
    use: JudgeUse


@dataclass(frozen=True, eq=False, kw_only=True)
class ModelValues:
    """A model's values of settings on all queries that it judged, and which of these the person judged too."""

    judge: str
    judged_queries: tuple[str, ...]  # ids of the n that both judged
    judged_values: (
        np.ndarray
    )  # (n, 1 + m) of the metric, the baseline's first; NaN where the model found nothing relevant
    other_values: np.ndarray  # (N − n, 1 + m) of the queries that only the model judged
    objectives: np.ndarray | None  # (N, 1 + m) of an objective without judgements, the n first; None for another one

    def find_rows(self, queries: Sequence[str]) -> np.ndarray:
        """Return the positions of a person's queries among the n; each must be one of them."""
        row_of = dict(zip(self.judged_queries, range(len(self.judged_queries)), strict=True))
        return np.array([row_of[query] for query in queries], dtype=int)

    def spread_person_values(self, values: np.ndarray, queries: Sequence[str]) -> np.ndarray:
        """Return (n, m) values whose means and variances are those of a person's values on some of the n queries.

        On the other ones the person found nothing relevant, so the metric has no value there. A mean over the rest is
        a ratio of two means, whose linear form has the mean itself where there is no value. values: (d, m) of `queries`
        """
        means, n_judged = values.mean(0), len(self.judged_queries)
        spread = np.broadcast_to(means, (n_judged, values.shape[1])).copy()
        spread[self.find_rows(queries)] += (values - means) * (n_judged / len(values))
        return spread

    def find_changes(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the model's (n, m) and (N − n, m) differences to the baseline; 0 where it has no value."""
        # Without a relevant document by the model there is no difference that it could show.
        tables = (self.judged_values, self.other_values)
        judged, unjudged = (np.nan_to_num(table[:, 1:] - table[:, :1]) for table in tables)
        return judged, unjudged

    def correct(self, differences: np.ndarray, queries: Sequence[str]) -> ResidualSample:
        """Correct a person's differences of m settings to the baseline by the model's.

        All settings share one weight, for it is one judge: so no noise of a weight can favour a setting. The residuals
        are stretched by their queries' leverage, as `correct_means` does it. differences: (d, m) on `queries`, those of
        the n for which the person's metric has a value
        """
        # Rows of queries on which the person found nothing relevant are filled, so that both tables have n.
        person, (judged, unjudged) = self.spread_person_values(differences, queries), self.find_changes()
        n_judged, n_other = len(person), len(unjudged)
        deviations, model_deviations = person - person.mean(0), judged - judged.mean(0)
        products, squares = float((deviations * model_deviations).sum()), float((model_deviations**2).sum())
        scale = math.sqrt(float((deviations**2).sum()) * squares)
        correlation = products / scale if scale > VARIANCE_TOLERANCE else None
        n_changed, person_error = _count_changed(differences), _sum_errors(person)
        use = JudgeUse(
            judge=self.judge, model_queries=n_judged + n_other, person_queries=n_judged, weight=0.0,
            correlation=correlation, narrowing=1.0,
        )  # fmt: skip
        if correlation is not None and correlation > 0 and n_other > 1:
            weight = min(products / squares * n_other / (n_judged + n_other), 1.0)
            # A setting's share of a query's leverage is not its own, as the weight comes from all of them.
            leverages = (model_deviations**2).sum(1, keepdims=True) / squares * n_judged / (n_judged - 1)
            off_by = (deviations - weight * model_deviations) / (1 - np.minimum(leverages, MAX_LEVERAGE))
            residuals, terms = off_by - off_by.mean(0) + person.mean(0) - weight * judged.mean(0), weight * unjudged
            # Of all settings together, as they share the weight.
            narrowing = math.hypot(_sum_errors(residuals), _sum_errors(terms)) / max(person_error, VARIANCE_TOLERANCE)
            if narrowing < 1:
                n_changed = np.maximum(n_changed, _count_changed(judged))
                use = replace(use, weight=weight, narrowing=narrowing)
                return ResidualSample(residuals=residuals, terms=terms, n_changed=n_changed, use=use)
        return ResidualSample(residuals=person, terms=np.zeros_like(unjudged), n_changed=n_changed, use=use)

    @property
    def objective_means(self) -> np.ndarray | None:
        """The (1 + m,) means of the objective over all queries that the model judged; None for one of judgements."""
        return None if self.objectives is None else self.objectives[self.has_objective].mean(0)

    @property
    def has_objective(self) -> np.ndarray:
        """The (N,) queries on which every setting has the objective."""
        objectives = np.empty((0, 1)) if self.objectives is None else self.objectives
        has_all: np.ndarray = np.logical_and.reduce(np.isfinite(objectives), axis=1)
        return has_all

    def draw_objectives(
        self, weights: np.ndarray, other_weights: np.ndarray, own_values: np.ndarray, queries: Sequence[str]
    ) -> np.ndarray:
        """Return (samples, 1 + m) means of the objective in bootstrap samples of both kinds of queries.

        weights, other_weights: (samples, n) and (samples, N − n), each of sum 1; own_values: (d, 1 + m) of the
        objective on the person's `queries`, for one that needs judgements
        """
        if self.objectives is None:
            weights, values = weights[:, self.find_rows(queries)], own_values
        else:
            sizes = len(self.judged_values), len(self.other_values)
            weights = np.hstack([weights * sizes[0], other_weights * sizes[1]])[:, self.has_objective]
            values = self.objectives[self.has_objective]
        means: np.ndarray = weights @ values / np.maximum(weights.sum(1, keepdims=True), VARIANCE_TOLERANCE)
        return means


def _sum_errors(values: np.ndarray) -> float:
    """Return the root of the summed squared standard errors of the means of (n, m) values."""
    return math.sqrt(float(values.var(0, ddof=1).sum()) / len(values))


def _count_changed(differences: np.ndarray) -> np.ndarray:
    """Count the rows of (n, m) differences in which each setting differs from the baseline."""
    n_changed: np.ndarray = (np.abs(differences) > TIE_TOLERANCE).sum(0)
    return n_changed


def check_correlation(use: JudgeUse) -> None:
    """Raise a DataError if a model's differences surely go against the person's.

    The end of the correlation's interval is Fisher's.
    """
    correlation, n_queries, judge = use.correlation, use.person_queries, use.judge
    if correlation is None or n_queries < MIN_PERSON_QUERIES or correlation > 0:
        return
    spread = float(ndtri(UPPER_TAIL)) / math.sqrt(n_queries - 3)
    if math.atanh(max(correlation, -1 + 1e-12)) + spread < 0:
        raise DataError(
            f"{judge} must judge better than chance; on {counted(n_queries, 'query', 'queries')} its differences "
            "between the settings go "
            f"against yours (correlation {decimal(correlation, 2)}). Judge by another model, or leave it out"
        )


def pair_with_model(
    aligned: AlignedCells, model_cells: Sequence[Any], metric: str, objective: str | None
) -> tuple[AlignedCells, ModelValues]:
    """Pair a person's aligned cells with those that a model's judgements gave for the same settings.

    Returns the person's cells on the queries that the model judged too, and the model's values. A query counts as
    judged if the metric has a value there, or if some returned document was graded. model_cells: any order, more of
    them do no harm; objective: a metric, None for a time. Raises DataError for a setting without a model's cell, other
    vectors, or fewer than MIN_PERSON_QUERIES queries that both judged.
    """
    counterparts = _match_cells(aligned.cells, model_cells)
    # The checks of one set of judgements, one split and equal repetitions.
    align_on_common_queries(counterparts, (metric,), counterparts[0].k)
    model_judged, person_judged = find_judged_queries(counterparts, metric), find_judged_queries(aligned.cells, metric)
    judged = tuple(sorted(model_judged & (person_judged | set(aligned.queries))))
    # The others say nothing of the model, and their weight beside it would be unknown.
    paired_rows = [row for row, query in enumerate(aligned.queries) if query in model_judged]
    if len(paired_rows) < MIN_PERSON_QUERIES:
        raise DataError(
            f"model_judged must share {MIN_PERSON_QUERIES} queries with points that have {metric}, or more; got "
            f"{len(paired_rows)}: judge more of the model's queries yourself"
        )
    other_queries = tuple(sorted(model_judged - set(judged)))
    # What the person does not decide is the same whoever judges.
    is_known = objective is not None and METRICS[objective].needs != "qrels"
    has_objective = is_known and all(objective in cell.values for cell in counterparts)
    facts = (getattr(cell, "provenance", {}).get(JUDGE_ENTRY) for cell in counterparts)
    model = ModelValues(
        judge=next(filter(None, facts), UNNAMED_JUDGE), judged_queries=judged,
        judged_values=tabulate_values(counterparts, metric, judged),
        other_values=tabulate_values(counterparts, metric, other_queries),
        objectives=tabulate_values(counterparts, str(objective), judged + other_queries) if has_objective else None,
    )  # fmt: skip
    values = map_values(lambda table: table[paired_rows], aligned.values)
    restricted = replace(aligned, queries=tuple(aligned.queries[row] for row in paired_rows), values=values)
    return restricted, model


def _match_cells(person_cells: Sequence[Any], model_cells: Iterable[Any]) -> list[Any]:
    """Return the model's cell of each of a person's cells, in their order; raise DataError for a missing one."""
    # More settings than the person's do no harm.
    by_label = {cell.label: cell for cell in model_cells}
    if missing := [cell.label for cell in person_cells if cell.label not in by_label]:
        raise DataError(
            f"model_judged must have every setting of points; {len(missing)} of {len(person_cells)} are missing, first "
            f"{missing[0]}: measure the same settings by both judgements"
        )
    counterparts = [by_label[cell.label] for cell in person_cells]
    # A label says nothing of the vectors by which its decoder ranked.
    for person_cell, model_cell in zip(person_cells, counterparts, strict=True):
        facts, model_facts = (getattr(cell, "provenance", {}) for cell in (person_cell, model_cell))
        for name in ("corpus", "embeddings"):
            if facts.get(name) != model_facts.get(name):
                raise DataError(f"model_judged must be of the same {name} as points; {person_cell.label} differs")
    return counterparts


def find_judged_queries(cells: Sequence[Any], metric: str) -> set[str]:
    """Return the queries of all cells of which somebody judged something: a metric has a value, or a grade was seen."""
    judged: set[str] = set()
    for cell in cells:
        has_grade = np.isfinite(cell.values[metric])
        counts = getattr(cell, "counts", {})
        if "judged" in counts:
            has_grade = has_grade | (counts["judged"] > 0)
        judged.update(compress(cell.queries, has_grade))
    return judged.intersection(*(cell.queries for cell in cells))


def tabulate_values(cells: Sequence[Any], metric: str, queries: Sequence[str]) -> np.ndarray:
    """Return the (queries, cells) values of a metric."""
    columns = []
    rows_of = dict[tuple[str, ...], list[int]]()
    for cell in cells:
        # Cells of one sweep share a tuple of queries, so its row numbers are computed once.
        if cell.queries not in rows_of:
            row_of = dict(zip(cell.queries, range(len(cell.queries)), strict=True))
            rows_of[cell.queries] = [row_of[query] for query in queries]
        columns.append(np.asarray(cell.values[metric], dtype=np.float64)[rows_of[cell.queries]])
    return np.stack(columns, axis=1)


def name_judge(cells: Iterable[Any], judge: str) -> list[Any]:
    """Return cells with the name of the model whose judgements they were measured by, for sentences."""
    return [replace(cell, provenance={**cell.provenance, JUDGE_ENTRY: judge}) for cell in cells]
