"""The decision over a sweep: the setting that is sure to keep a budget, and the best bet with its chance.

The estimates are those of `loss_model`; `choice_calibration` allows for the choice, as the best of many looks better
than it is.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import compress
from operator import itemgetter
from typing import Any

import numpy as np
from scipy.special import stdtrit

from engine.data.cloze import are_passages
from engine.decoder import Decoder
from engine.errors import DataError, ParamError
from engine.evaluation.choice_calibration import N_SAMPLES, Calibration, Calibrations, SampledSettings, calibrate
from engine.evaluation.corrected_judge import ModelValues, ResidualSample, check_correlation, pair_with_model
from engine.evaluation.curve import Curve
from engine.evaluation.decision import (
    BET_CHANCE,
    COST_METRICS,
    GAIN_DECIMALS,
    MIN_COST_SHARE,
    MIN_JUDGED_SHARE,
    SURE_CHANCE,
    TIED_GAIN,
    Decision,
    Option,
    count_missing_queries,
    find_best,
    find_safest,
    identify_decoder,
    rank_by_gain,
)
from engine.evaluation.frontier import KEPT_SHARE, TIME_AXIS, Frontier
from engine.evaluation.loss_model import LossEstimate, estimate_losses
from engine.evaluation.metrics import LESS_IS_BETTER, METRICS, check_metrics, map_values, title_of
from engine.evaluation.paired import (
    TIE_TOLERANCE,
    AlignedCells,
    align_on_common_queries,
    find_complete_queries,
    is_decoder_cell,
    mark_answered,
    select_cells,
    short_names,
)
from engine.evaluation.rules import Outcome, bound_share, estimate_queries_to_prove, judge_choice
from engine.evaluation.set_relevance import (
    CORPUS_RELEVANCE_ENTRY,
    MIN_SET_RELEVANCE_SHARE,
    SET_RELEVANCE_METRICS,
    compute_set_relevance,
)
from engine.evaluation.statistics import CONFIDENCE_LEVEL, SEED, Comparison, compare, resolve_baseline
from engine.evaluation.sweep.cell import decoder_from_json, decoder_to_json
from engine.evaluation.sweep.compute import DECLARED_PREFIX, JUDGEMENTS_ENTRY, NEXT_LEVEL_ENTRY
from engine.evaluation.tables import find_default_baseline
from engine.progress import counted

MIN_QUERIES = 2
MAX_KNOWN_SHARES = 256
"""Shares of the baseline's metric whose chances are kept in memory."""
MAX_SHARE, N_BISECTIONS = 64.0, 60
"""Share of the baseline's metric beyond all that are asked for, and halvings that find one to the last digits."""


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class _CurvePoint:
    """One setting on an exact curve, with the fields of a sweep's cell so that both compare alike.

    An exact curve has the values of every query at every value of one parameter.
    """

    decoder: Mapping[str, Any]  # its stages as plain values
    label: str
    method: str
    k: int
    split: str
    queries: tuple[str, ...]
    values: Mapping[str, np.ndarray]  # metric → (queries,) values
    counts: Mapping[str, np.ndarray]  # name → (queries,) documents
    provenance: Mapping[str, str]
    curve: Curve
    value: float  # of the curve's parameter


def decide(
    points: Iterable[Any],
    *,
    baseline: Any = None,
    keep: float = 0.95,
    metric: str = "recall",
    objective: str = "ilad",
    k: int = 10,
    confirm: Iterable[Any] | None = None,
    model_judged: Iterable[Any] | None = None,
    seed: int = 0,
) -> Decision:
    """Find the setting that gains most and is sure to keep a share of the baseline's metric, and the best bet.

    Each setting is estimated from its own queries, as a sample of all queries of their kind, and chances allow for the
    choice among all settings. A setting is sure if it keeps the budget with a chance of 95%; the bet is the largest
    gain with a chance of 40% or more.

    Parameters
    ----------
    points : iterable of Cell or Curve
        Cells of one split, and exact curves of its queries, which are solved for their parameter.
    baseline : Cell, str or None
        One of the cells, or its label, name or method; by default the first registered selector.
    keep : float
        The share of the baseline's metric to keep, in [0, 1.05]; above 1, more than the baseline has.
    metric : str
        The metric to keep, of which more is better.
    objective : str
        The metric to gain.
    k : int
        The size of the retrieved sets.
    confirm : iterable of Cell or Curve, or None
        Those of another split, for the settings that are chosen.
    model_judged : iterable of Cell or Curve, or None
        The same settings measured by a model's judgements of more queries. Those that `points` have too correct the
        model; they must be a random sample of them.
    seed : int
        The seed of the samples of queries by which chances are calibrated.

    Returns
    -------
    Decision
        The sure setting, the bet and all options, with sentences.

    Raises
    ------
    ParamError
        If an argument is invalid, or a metric was not measured.
    DataError
        If the points have no query in common or are of several splits, or the model judges worse than chance.

    Examples
    --------
    >>> import engine, torch
    >>> corpus = engine.Corpus(("a", "b", "c"), ("red", "blue", "green"))
    >>> space = engine.Space(corpus, engine.Embeddings(("a", "b", "c"), torch.eye(3)))
    >>> queries = engine.Embeddings(("q", "r"), torch.eye(3)[:2])
    >>> qrels = engine.Qrels({"q": {"a": 1}, "r": {"b": 1}})
    >>> decoders = [engine.Decoder(engine.make(name)) for name in list(engine.methods("selector"))[:2]]
    >>> decision = engine.decide(engine.sweep(decoders, space, queries, qrels, k=2), k=2)
    >>> decision.sure is None, decision.queries
    (True, 2)
    """
    estimates = estimate_options(
        points, baseline=baseline, metric=metric, objective=objective, k=k, model_judged=model_judged, seed=seed
    )
    return estimates.decide(keep, confirm)


@dataclass(frozen=True, eq=False, kw_only=True)
class MeasuredSettings:
    """All settings beside the baseline on common queries: what was measured of each, and where it is."""

    baseline: Any  # its cell
    aligned: AlignedCells  # all settings on common queries, the baseline first
    gains: np.ndarray  # (m,) of the objective over the baseline, without the baseline itself
    metric: str  # of which a share is to be kept
    objective: str  # the metric to gain, or TIME_AXIS
    k: int
    seed: int  # of the samples of queries
    relevant_from: int  # grade from which a document counts as relevant
    decoders: list[Decoder | None]  # of each of the m settings; None for a run of another system
    decoder_of: np.ndarray  # (m,) number of each setting's decoder, the same at any values of its parameters
    model: ModelValues | None = None  # what a model judged of the same settings; None where people alone judge
    is_on_passages: bool = False  # the queries are cut from the corpus's documents, and judge one document each
    corpus_relevance: float | None = None  # mean cosine of passages with all documents; None for other queries

    @cached_property
    def judged_shares(self) -> np.ndarray:
        """The (m,) shares of returned documents that are judged; NaN where that was not measured."""
        return np.array([_measure_judged(cell) for cell in self.aligned.cells[1:]])

    @cached_property
    def is_left_out(self) -> np.ndarray:
        """The (m,) settings that are no candidates: judgements are pooled, and cover too little of what they return.

        Pooled judgements cover only what some systems returned, so unjudged documents may be relevant. If they cover
        too little of what the baseline returns, no setting is a candidate: it would look better than it is. On passages
        settings that stray are none either.
        """
        is_unjudged = self.is_baseline_unjudged | ~(self.judged_shares >= MIN_JUDGED_SHARE)
        return self.is_stray | (self.is_pooled & is_unjudged)

    @cached_property
    def is_stray(self) -> np.ndarray:
        """The (m,) settings of passages that keep too little of the baseline's relevance above the corpus's mean.

        A passage judges the document that it is cut from, so that Recall says nothing of the rest of a set.
        """
        if not self.is_on_passages or self.corpus_relevance is None:
            return np.zeros(len(self.gains), dtype=bool)
        base_relevance, *relevances = map(_measure_relevance, self.aligned.cells)
        floor = self.corpus_relevance + MIN_SET_RELEVANCE_SHARE * (base_relevance - self.corpus_relevance)
        # Unknown relevance, NaN, is below no floor.
        return np.array(relevances, dtype=float) < floor

    @cached_property
    def scarce_settings(self) -> tuple[tuple[str, int, int], ...]:
        """The settings that were not compared as they have the metrics on too few queries: as in `Decision.scarce`."""
        metrics, asked = list(self.aligned.values), find_complete_queries(self.baseline, list(self.aligned.values))
        names = short_names([*self.aligned.cells, *self.aligned.left_out])[len(self.aligned.cells) :]
        return tuple(
            (name, int((mark_answered(cell, self.baseline, metrics) & asked).sum()), int(asked.sum()))
            for name, cell in zip(names, self.aligned.left_out, strict=True)
        )

    @property
    def is_baseline_unjudged(self) -> bool:
        """True if too few of the documents that the baseline returns are judged, or their number is unknown."""
        return not _measure_judged(self.aligned.cells[0]) >= MIN_JUDGED_SHARE

    @property
    def is_pooled(self) -> bool:
        """True if only what some systems returned was judged."""
        kind = _read_provenance(self.baseline, JUDGEMENTS_ENTRY) or ""
        return kind.removeprefix(DECLARED_PREFIX) == "pooled"

    def count_documents(self, name: str) -> np.ndarray | None:
        """Return (n, 1 + m) counts of documents by query and setting, the baseline's first; None if some lack them.

        name: as `RetrievedSets.count_documents` has it
        """
        columns, rows_of = [], dict[tuple[str, ...], list[int]]()
        for cell in self.aligned.cells:
            column = _get_counts(cell).get(name)
            if column is None:
                return None
            if cell.queries not in rows_of:
                row_of = dict(zip(cell.queries, range(len(cell.queries)), strict=True))
                rows_of[cell.queries] = [row_of[query] for query in self.aligned.queries]
            columns.append(column[rows_of[cell.queries]])
        return np.stack(columns, axis=1)

    @property
    def is_next_level(self) -> bool:
        """True if documents count as relevant from the next grade on, above the one that was measured with."""
        return self.relevant_from != int(_read_provenance(self.baseline, "relevant_from") or 1)

    @cached_property
    def position_of(self) -> dict[str, int]:
        """Label → position among the m settings; the baseline has none."""
        return {cell.label: position for position, cell in enumerate(self.aligned.cells[1:])}

    def find_decoder(self, label: str) -> Decoder | None:
        """Return the decoder of a setting by its label; None for an unknown one and for a run of another system."""
        return self.decoders[self.position_of[label]] if label in self.position_of else None

    def find_positions(self, curve: Curve) -> list[int | None]:
        """Find the settings of a curve, one for each of its N_BANDS positions; None for one that is not estimated."""
        if curve.key not in self._curve_positions:
            labels = [curve.make_decoder(value).label for value in _round_positions(curve)]
            self._curve_positions[curve.key] = list(map(self.position_of.get, labels))
        return self._curve_positions[curve.key]

    @cached_property
    def _curve_positions(self) -> dict[str, list[int | None]]:
        """Key of a curve → positions of its settings, of the curves that were asked for so far."""
        return {}


@dataclass(frozen=True, eq=False, kw_only=True)
class EstimatedSettings(MeasuredSettings):
    """Measured settings with their estimated losses of the metric, and the calibration of their chances to keep it."""

    losses: LossEstimate  # of the m settings
    sample: ResidualSample | None = None  # their differences to the baseline, corrected; None where people alone judge
    missing_queries: int = 0  # number that is missing for any choice, 0 if there are enough

    def find_means(self, label: str) -> tuple[float, float]:
        """Return a setting's means of the objective and of the metric, by its label; of a time its median."""
        position = self.position_of[label]
        is_time = self.objective == TIME_AXIS
        objective_means = _find_objective_means(self.aligned, self.objective, self.model)
        x = self.aligned.cells[position + 1].latency if is_time else objective_means[position + 1]
        return float(x), self.find_share(position) * float(self.aligned.means[self.metric][0])

    def find_share(self, position: int) -> float:
        """Return the share of the baseline's metric that a setting keeps; position: of the setting among the m."""
        means = self.aligned.means[self.metric]
        is_corrected = self.sample is not None
        return 1 + float(self.losses.mean[position]) if is_corrected else float(means[position + 1] / means[0])

    @cached_property
    def intervals(self) -> tuple[np.ndarray, np.ndarray]:
        """The (m,) ends of the 95% intervals of the kept shares, each setting's for itself.

        Where judgements are pooled, the lower end is that with the baseline's unjudged documents relevant and the
        setting's not, the upper end that with the setting's relevant and the baseline's not. This holds for metrics
        that the numbers of relevant documents determine: Recall, Comp and Precision.
        """
        low, high = self.losses.find_ends(CONFIDENCE_LEVEL)
        for losses in self._estimate_extremes() if self.is_pooled else ():
            extreme_low, extreme_high = losses.find_ends(CONFIDENCE_LEVEL)
            low, high = np.minimum(low, extreme_low), np.maximum(high, extreme_high)
        # No share of a metric in [0, 1] is below 0, whatever Student's interval says.
        return (np.maximum(low, 0.0) if METRICS[self.metric].is_judged_share else low), high

    def _estimate_extremes(self) -> Iterator[LossEstimate]:
        """Yield the losses if unjudged documents decide against the settings, and if they decide for them."""
        from_counts, suffix = METRICS[self.metric].from_counts, "_next" if self.is_next_level else ""
        names = ("returned", "judged", f"relevant{suffix}", f"total_relevant{suffix}")
        tables = [table for table in map(self.count_documents, names) if table is not None]
        is_bounded = from_counts is not None and METRICS[self.metric].own_count is None
        if from_counts is None or not is_bounded or len(tables) < len(names) or not len(self.gains):
            return
        returned, judged, relevant, total = tables
        n_unjudged = returned - judged
        own, base = slice(1, None), slice(0, 1)
        # The unjudged documents that are relevant: the baseline's, or each setting's own.
        for n_own, n_base in ((0, n_unjudged[:, base]), (n_unjudged[:, own], 0)):
            n_total = total[:, own] + n_own + n_base
            values = np.asarray(from_counts(relevant[:, own] + n_own, n_total, self.k), dtype=float)
            base_values = np.asarray(from_counts(relevant[:, base] + n_base, n_total, self.k), dtype=float)
            base_means = base_values.mean(axis=0)
            # Without anything left to the baseline there is no share of it.
            if (base_means > 0).all():
                differences, n_at_stake = values - base_values, self.losses.n_at_stake
                yield _estimate_losses(
                    self.aligned, self.model, differences, base_means, self.gains, n_at_stake, self.decoder_of
                )[0]

    def calibrate(self, keep: float) -> Calibration:
        """Return the rule by which scores become chances for a budget.

        keep: the budget, the share of the baseline's metric that a setting must keep; a score is what a setting keeps
        beyond it, in standard errors
        """
        return self.calibrations.at(keep)

    @cached_property
    def calibrations(self) -> Calibrations:
        """The rules of all budgets, by samples of the queries in which the choice is made anew."""
        return calibrate(self._samples, self.losses, self.decoder_of)

    @cached_property
    def _samples(self) -> SampledSettings:
        """Mean changes and gains of all settings in bootstrap samples of the queries."""
        values, random = self.aligned.values[self.metric], np.random.default_rng(self.seed)
        base_mean, model, sample = values[:, 0].mean(), self.model, self.sample
        is_time, objective_means = self.objective == TIME_AXIS, None
        if model is None or sample is None:
            weights = _draw_weights(random, len(values))
            means = weights @ ((values[:, 1:] - values[:, :1]) / base_mean)
            objective_means = None if is_time else weights @ self.aligned.values[self.objective]
        else:
            # The person's queries and the others are two samples, each drawn anew.
            weights = _draw_weights(random, len(sample.residuals))
            other_weights = _draw_weights(random, len(sample.terms))
            means = (weights @ sample.residuals + other_weights @ sample.terms) / base_mean
            if not is_time:
                own_values = self.aligned.values[self.objective]
                objective_means = model.draw_objectives(weights, other_weights, own_values, self.aligned.queries)
        gains = np.broadcast_to(self.gains, means.shape)
        if objective_means is not None:
            gains = _compute_gains(objective_means, self.objective in LESS_IS_BETTER)
        return SampledSettings.sort(means, gains, self.is_left_out)

    def find_cost(self, position: int) -> Comparison | None:
        """Find the first of COST_METRICS in which a setting clearly loses; None if it does in none that was measured.

        The loss is clear if the 95% interval of the paired differences lies below −MIN_COST_SHARE of the baseline's
        mean. position: of the setting among the m
        """
        # Counted from another grade, the values of the cells do not hold.
        if self.is_next_level:
            return None
        if position not in self._costs:
            setting = self.aligned.cells[position + 1]
            comparisons = (
                _compare_in(metric, self.baseline, setting) for metric in COST_METRICS if metric != self.metric
            )
            self._costs[position] = next(filter(None, comparisons), None)
        return self._costs[position]

    @cached_property
    def other_changes(self) -> np.ndarray:
        """The (m,) mean changes of the first other metric of COST_METRICS, as shares of the baseline's; NaN if unknown.

        Each setting is compared with the baseline on the queries that both have it on.
        """
        changes = np.full(len(self.gains), np.nan)
        metrics = [name for name in COST_METRICS if name != self.metric and name in self.baseline.values]
        # Counted from another grade, the values of the cells do not hold.
        if not metrics or self.is_next_level:
            return changes
        metric = metrics[0]
        base_value_of = dict(zip(self.baseline.queries, self.baseline.values[metric], strict=True))
        for position, (setting, values) in enumerate(self._read_values(metric)):
            if values is None:
                continue
            if setting.queries == self.baseline.queries:
                base_values = self.baseline.values[metric]
            else:
                base_values = np.array([base_value_of.get(query, np.nan) for query in setting.queries])
            is_defined = np.isfinite(base_values) & np.isfinite(values)
            base_sum = base_values[is_defined].sum()
            if base_sum > 0:
                changes[position] = values[is_defined].sum() / base_sum - 1
        return changes

    def _read_values(self, metric: str) -> Iterator[tuple[Any, np.ndarray | None]]:
        """Yield each setting with its values of a metric by query; None where it was not measured."""
        tables = dict[str, np.ndarray]()
        for setting in self.aligned.cells[1:]:
            # A curve's settings have the metrics of the decision alone, but its steps may have others.
            if not isinstance(setting, _CurvePoint) or metric not in setting.curve.steps.values:
                yield setting, setting.values.get(metric)
                continue
            curve, parameter_values = setting.curve, _round_positions(setting.curve)
            if curve.key not in tables:
                step_index = curve.steps.find_steps(np.array(parameter_values))
                tables[curve.key] = curve.steps.values[metric][step_index]
            yield setting, tables[curve.key][:, parameter_values.index(setting.value)]

    @cached_property
    def decoder_positions(self) -> list[np.ndarray]:
        """The positions of the settings of each decoder, at any values of its parameters."""
        return [np.flatnonzero(self.decoder_of == number) for number in np.unique(self.decoder_of)]

    @cached_property
    def _costs(self) -> dict[int, Comparison | None]:
        """The costs so far, by the position of the setting."""
        return {}


@dataclass(frozen=True, eq=False, kw_only=True)
class OptionEstimates(EstimatedSettings):
    """Gains of every setting over the baseline, and its estimated losses, to decide for any budget.

    A budget is the share of the baseline's metric, such as Recall, that a setting must keep.
    """

    def find_choices(self, keep: float, pinned: str | None = None) -> tuple[int | None, int | None]:
        """Find the sure setting and the bet for a budget, as positions among the m settings; None for neither.

        The budget, `keep`, is the share of the baseline's metric, such as Recall, that a setting must keep. The sure
        setting is the one with the largest gain, or the safest of those with as good a gain (`find_safest`), among
        those that keep it with a chance of SURE_CHANCE or more; the bet has the largest gain of those with BET_CHANCE
        or more. pinned: label of a setting that stays the sure one if it is sure enough, though another may gain more,
        as one that another split has confirmed
        """
        chances = self.find_chances(keep)
        # Of equal gains, up to rounding, the setting with the better chance comes last.
        by_gain = np.lexsort((chances.round(GAIN_DECIMALS), self.gains.round(GAIN_DECIMALS)))
        is_candidate = (self.gains > TIE_TOLERANCE) & ~self.is_left_out
        sure = bet = None
        if len(likely := by_gain[(is_candidate & (chances >= BET_CHANCE))[by_gain]]):
            bet = int(likely[-1])
        position = None if pinned is None else self.position_of.get(pinned)
        sure_positions = np.flatnonzero(is_candidate & (chances >= SURE_CHANCE))
        if position is not None and position in sure_positions:
            sure = position
        elif len(sure_positions):
            # A larger margin than that of find_safest only costs time.
            tied = sure_positions[self.gains[sure_positions] >= self.gains[sure_positions].max() - 2 * TIED_GAIN]
            options = [self.build_option(tied_position, keep) for tied_position in tied.tolist()]
            sure = self.position_of[find_safest(options).label]
        # What is sure is no bet, and a bet that gains no more than the sure setting is not worth its risk.
        if bet is not None and (
            chances[bet] >= SURE_CHANCE or (sure is not None and self.gains[bet] <= self.gains[sure] + TIE_TOLERANCE)
        ):
            bet = None
        return sure, bet

    def find_best_left_out(self, keep: float) -> int | None:
        """Find the setting that most deserves further judgements, among those of which too few are judged.

        That is the one with the largest gain among those that are sure as judged so far, then among bets, else the
        likeliest; None if none is left out. keep: the share of the baseline's metric that a setting must keep
        """
        blocked = np.flatnonzero(self.is_left_out & ~self.is_stray & (self.gains > TIE_TOLERANCE))
        if not len(blocked):
            return None
        chances = self.find_chances(keep)[blocked]
        if self.missing_queries:
            return int(blocked[_rank_likelihoods(self, keep)[blocked].argmax()])
        # 2 where it would be sure, 1 where it would be a bet, else 0.
        level = (chances >= SURE_CHANCE).astype(int) + (chances >= BET_CHANCE)
        best_level = level.max()
        ranks = np.where(level == best_level, self.gains[blocked] if best_level else chances, -np.inf)
        return int(blocked[ranks.argmax()])

    def find_cell_to_judge(self, keep: float) -> int | None:
        """Find whose unjudged documents stand in the way first, as a position among the aligned cells; None for none.

        That is the baseline, at 0, if too few of its documents are judged, else the best setting that is left out.
        """
        position = self.find_best_left_out(keep)
        if position is None:
            return None
        return 0 if self.is_baseline_unjudged else position + 1

    def count_missing(self, keep: float) -> int:
        """Count the unjudged documents of the cell to judge, over all queries; 0 without one.

        Once they are judged, more settings are candidates.
        """
        cell_index = self.find_cell_to_judge(keep)
        counts = {} if cell_index is None else _get_counts(self.aligned.cells[cell_index])
        return int((counts["returned"] - counts["judged"]).sum()) if "judged" in counts else 0

    def find_nearest(self, keep: float) -> int | None:
        """Find the candidate with a gain that most likely keeps a budget; None if none has a gain.

        keep: the budget, the share of the baseline's metric that a setting must keep
        """
        likelihoods = _rank_likelihoods(self, keep)
        candidates = np.flatnonzero((self.gains > TIE_TOLERANCE) & ~self.is_left_out).tolist()
        return max(candidates, key=lambda position: (likelihoods[position], self.gains[position]), default=None)

    def find_best_positions(self, keep: float, pinned: str | None = None) -> list[int]:
        """Find each decoder's best setting for a budget, as `list_best_options` does; the sure choice comes first.

        Of the decoders of the sure choice and of the bet these are the best. Then come those that are surely kept, by
        falling gain, the others, by falling chance, and last those of which too few documents are judged, by falling
        gain. keep: the budget, the share of the baseline's metric to keep; pinned: as `find_choices` takes it
        """
        chances, (sure, bet) = _rank_likelihoods(self, keep), self.find_choices(keep, pinned)
        best = []
        for positions in self.decoder_positions:
            chosen = [choice for choice in (sure, bet) if choice is not None and choice in positions]
            if chosen:
                best.append(chosen[0])
                continue
            is_sure = (chances[positions] >= SURE_CHANCE) & (self.gains[positions] > TIE_TOLERANCE)
            is_sure &= ~self.is_left_out[positions] & (not self.missing_queries)
            # Only the sure ones with nearly the largest gain can be the best, which saves making all options.
            min_gain = self.gains[positions][is_sure].max(initial=-np.inf) - 2 * TIED_GAIN
            nearly_best = positions[is_sure & (self.gains[positions] >= min_gain)] if is_sure.any() else positions
            options = [self.build_option(position, keep) for position in nearly_best.tolist()]
            best.append(self.position_of[find_best(options).label])

        def rank(position: int) -> tuple[Any, ...]:
            """Return the sort key: of what is not sure the likelier setting comes first, whatever it gains."""
            is_left_out = bool(self.is_left_out[position])
            is_unsure = not is_left_out and (bool(self.missing_queries) or chances[position] < SURE_CHANCE)
            chance = chances[position] if is_unsure else 0.0
            return position != sure, is_left_out, is_unsure, -chance, -self.gains[position]

        return sorted(best, key=rank)

    def decide(
        self, keep: float, confirm: Iterable[Any] | None = None, *,
        with_options: bool = True, with_next_level: bool | None = None, pinned: str | None = None,
    ) -> Decision:  # fmt: skip
        """Decide for a budget, a share of the baseline's metric to keep.

        Find the sure setting, the one with the largest gain that almost certainly keeps this share, and the bet, which
        gains more and keeps it with a moderate chance. confirm: as in the function `decide`; with_options: list all
        settings too, which takes longest; False if only those two are of use; with_next_level: decide also as if
        documents counted as relevant from the next grade on, which takes as long again, and find what the sure setting
        costs in another metric; by default as with_options; pinned: as `find_choices` takes it
        """
        # The parameter of pages and of the command line is called share.
        keep = replace(KEPT_SHARE, name="keep", symbol="keep").check(keep)
        confirm_points = [] if confirm is None else list(confirm)
        positions = [*self.find_choices(keep, pinned), self.find_nearest(keep)]
        sure, bet, nearest = (None if position is None else self.build_option(position, keep) for position in positions)
        arguments = confirm_points, self.baseline, (self.metric, self.objective), self.k, keep
        sure, bet = _confirm(sure, *arguments), _confirm(bet, *arguments)
        chosen_judged = [option.judged for option in (sure, bet) if option is not None and option.judged is not None]
        all_judged = np.append(self.judged_shares, _measure_judged(self.baseline))
        judged_shares = chosen_judged or all_judged[~np.isnan(all_judged)].tolist()
        n_options = len(self.gains) if with_options else 0
        options = [self.build_option(position, keep) for position in range(n_options)]
        confirm_cells = select_cells(confirm_points, self.k) if confirm_points else []
        is_next_wanted = with_options if with_next_level is None else with_next_level
        after = self.at_next_level if is_next_wanted else None
        return Decision(
            baseline=self.aligned.names[0],
            keep=keep,
            metric=self.metric,
            objective=self.objective,
            k=self.k,
            split=self.baseline.split,
            queries=len(self.aligned.queries),
            sure=sure,
            bet=bet,
            nearest=nearest,
            options=tuple(sorted(options, key=rank_by_gain)),
            left_out=tuple(self.build_option(position, keep) for position in np.flatnonzero(self.is_left_out).tolist()),
            judged=min(judged_shares, default=None),
            judged_most=max(judged_shares, default=None),
            scarce=self.scarce_settings,
            is_pooled=self.is_pooled,
            is_on_passages=self.is_on_passages,
            is_declared=(_read_provenance(self.baseline, JUDGEMENTS_ENTRY) or "").startswith(DECLARED_PREFIX),
            relevant_from=self.relevant_from,
            cost=None if sure is None or not is_next_wanted else self.find_cost(self.position_of[sure.label]),
            next_level=None if after is None else after.decide(keep, with_options=False),
            confirm_split=confirm_cells[0].split if confirm_cells else None,
            confirm_queries=len(confirm_cells[0].queries) if confirm_cells else 0,
            judge=None if self.sample is None else self.sample.use,
            missing_queries=self.missing_queries,
        )

    @cached_property
    def at_next_level(self) -> "OptionEstimates | None":
        """These estimates as if documents counted as relevant from the next grade on.

        None if the judgements have no such grade, if the metrics do not depend on it, or if nothing can be decided.
        """
        next_level = _read_provenance(self.baseline, NEXT_LEVEL_ENTRY)
        metrics = list(self.aligned.values)
        is_graded = any(METRICS[metric].needs == "qrels" for metric in metrics)
        if next_level is None or self.is_next_level or not is_graded:
            return None
        counts, values = dict[str, np.ndarray](), {}
        for name in ("total_relevant_next", *(METRICS[metric].next_count_name for metric in metrics)):
            table = self.count_documents(name)
            counts |= {} if table is None else {name: table}
        for metric in metrics:
            next_values = METRICS[metric].evaluate_next_level(self.aligned.values[metric], counts, self.k)
            if next_values is None:
                return None
            values[metric] = next_values
        is_defined = np.all([np.isfinite(column).all(1) for column in values.values()], axis=0)
        aligned = replace(
            self.aligned,
            queries=tuple(compress(self.aligned.queries, is_defined)),
            values=map_values(itemgetter(is_defined), values),
        )
        # Too few queries, or a baseline without a relevant document, decide nothing.
        try:
            return _estimate_aligned(
                self.baseline, aligned, self.metric, self.objective, self.k, self.seed, int(next_level), self.model
            )
        except DataError:
            return None

    def find_chances(self, keep: float) -> np.ndarray:
        """Return each setting's chance to keep a share of the baseline's metric, (m,); computed once a share.

        NaN where the queries are too few for any, which is neither sure nor a bet.
        """
        if self.missing_queries:
            return np.full(len(self.gains), np.nan)
        chances = self._chances.get(keep)
        if chances is None:
            scores = self.losses.score(self.losses.mean, keep)
            chances = self.calibrate(keep).to_chances(scores, self.losses.degrees)
            # A page's visitors share the estimates, and links ask for any share.
            if len(self._chances) >= MAX_KNOWN_SHARES:
                self._chances.clear()
            self._chances[keep] = chances
        return chances

    @cached_property
    def _chances(self) -> dict[float, np.ndarray]:
        """The chances so far, by the share of the baseline's metric that is to be kept."""
        return {}

    @cached_property
    def sure_shares(self) -> np.ndarray:
        """The (m,) largest shares of the baseline's metric that settings are sure to keep, whatever the budget."""
        # The threshold rises with the share, so that there is one share which just reaches it.
        low, high = np.full(len(self.gains), -MAX_SHARE), np.full(len(self.gains), MAX_SHARE)
        for _ in range(N_BISECTIONS):
            middle = (low + high) / 2
            is_sure = self.losses.find_sure_shares(self.calibrations.find_thresholds(middle)) >= middle
            low, high = np.where(is_sure, middle, low), np.where(is_sure, high, middle)
        return low

    def build_option(self, position: int, keep: float) -> Option:
        """Build the report of one of the m settings: its gain, the share it keeps, and the chance of that.

        keep: the share of the baseline's metric that it must keep, for the chance
        """
        judged_share = float(self.judged_shares[position])
        low, high, sure_share = (float(limits[position]) for limits in (*self.intervals, self.sure_shares))
        is_left_out = bool(self.is_left_out[position])
        return Option(
            name=self.aligned.names[position + 1],
            label=self.aligned.cells[position + 1].label,
            decoder=self.decoders[position],
            gain=float(self.gains[position]),
            share_kept=self.find_share(position),
            low=low,
            high=high,
            chance=None if self.missing_queries else float(self.find_chances(keep)[position]),
            # The documents that nobody judged, and the queries that nobody asked, may cost it anything.
            sure_share=0.0 if is_left_out or self.missing_queries else sure_share,
            judged=None if np.isnan(judged_share) else judged_share,
            other_change=None if np.isnan(self.other_changes[position]) else float(self.other_changes[position]),
            is_left_out=is_left_out,
            is_stray=bool(self.is_stray[position]),
            is_on_curve=isinstance(self.aligned.cells[position + 1], _CurvePoint),
        )


def _rank_likelihoods(estimates: OptionEstimates, keep: float) -> np.ndarray:
    """Return (m,) numbers by which likelier settings come first, as `Option.likelihood` does."""
    if not estimates.missing_queries:
        return estimates.find_chances(keep)
    return np.array([estimates.find_share(position) for position in range(len(estimates.gains))])


def find_lower_share(estimates: OptionEstimates, decision: Decision) -> float | None:
    """Return the largest whole percentage that a choice keeps for sure, if another split does not prove more.

    Both splits must be sure of it: the one that chose, and the one that confirms. None where the choice is
    confirmed, gains nothing there, or is sure to keep less than 1%. decision: by these estimates, with that split's
    outcome
    """
    sure = decision.sure
    if sure is None or sure.confirmed is not False or sure.confirmed_low is None:
        return None
    # A lower share does not help where it is the gain that is missing.
    if sure.confirmed_gain is not None and sure.confirmed_gain <= TIE_TOLERANCE:
        return None
    # Rounded down, as a larger share is not sure; the 1e-9 saves a whole percent that lies a rounding below.
    share = float(np.floor(100 * sure.confirmed_low + 1e-9) / 100)
    if not 0.01 <= share < decision.keep:
        return None
    return share if estimates.find_choices(share, sure.label)[0] == estimates.position_of[sure.label] else None


def estimate_provable_share(estimates: OptionEstimates, option: Option, n_queries: int) -> float:
    """Estimate the share that so many other queries would prove of an option, if it keeps as much on them.

    option: one of the estimates' settings, whose spread here stands for that of the others
    """
    position, values = estimates.position_of[option.label], estimates.aligned.values[estimates.metric]
    changes = (values[:, position + 1] - values[:, 0]) / values[:, 0].mean()
    return bound_share(changes, int(np.count_nonzero(values[:, 0] > 0)), n_queries, SURE_CHANCE)


def estimate_options(
    points: Iterable[Any], *, baseline: Any = None, metric: str = "recall", objective: str = "ilad", k: int = 10,
    model_judged: Iterable[Any] | None = None, seed: int = 0,
) -> OptionEstimates:  # fmt: skip
    """Estimate what every setting gains in the objective and loses in the metric, beside the baseline.

    The result can decide for any budget, a share of the baseline's metric that must be kept. A measured cell is one
    setting. An exact curve, which has every value of one parameter, is taken at N_BANDS values, a setting each. The
    objective may be TIME_AXIS too; curves and cells without a time are left out then. points, baseline, model_judged:
    as `decide` takes them. Raises ParamError or DataError as it does.
    """
    is_time = objective == TIME_AXIS
    check_metrics((metric,) if is_time else (metric, objective))
    if metric in LESS_IS_BETTER:
        raise ParamError(f"metric must be one of which more is better; got {metric!r}; name it as objective instead")
    cells, curves = _divide(points, k)
    base_cell = resolve_baseline(cells, find_default_baseline(cells) if baseline is None else baseline, k)
    metrics = (metric,) if is_time else (metric, objective)
    settings = [base_cell, *cells]
    if is_time:
        settings = [cell for cell in settings if cell.latency is not None]
    # Where two documents tie, a curve and a measurement may take another one each; what was measured is used.
    measured_labels = {cell.label for cell in settings}
    for curve in () if is_time else curves:
        settings += [point for point in _evaluate_curve(curve, metrics) if point.label not in measured_labels]
    aligned = align_on_common_queries(settings, metrics, k, drops_scarce=True, reference=base_cell)
    if base_cell in aligned.left_out or base_cell not in aligned.cells:
        raise DataError(f"the baseline, {base_cell.label}, has {' and '.join(map(title_of, metrics))} on no query")
    relevant_from = int(_read_provenance(base_cell, "relevant_from") or 1)
    model = None
    if model_judged is not None:
        model_settings = _list_model_settings(model_judged, curves, metrics, k)
        aligned, model = pair_with_model(aligned, model_settings, metric, None if is_time else objective)
    return _estimate_aligned(base_cell, aligned, metric, objective, k, SEED.check(seed), relevant_from, model)


def _list_model_settings(
    model_points: Iterable[Any], curves: Sequence[Curve], metrics: Sequence[str], k: int
) -> list[Any]:
    """List the settings that a model judged: its cells, and its curves at the person's values."""
    model_cells, model_curves = _divide(model_points, k)
    curve_of, settings = {curve.label: curve for curve in model_curves}, list(model_cells)
    for curve in curves:
        # On other queries a curve has other breakpoints, and so other positions.
        if curve.label in curve_of:
            settings += _evaluate_curve(curve_of[curve.label], metrics, _round_positions(curve))
    # What was measured is used, as with the person's.
    return list({cell.label: cell for cell in reversed(settings)}.values())


def _estimate_aligned(
    base_cell: Any, aligned: AlignedCells, metric: str, objective: str, k: int, seed: int, relevant_from: int,
    model: ModelValues | None = None,
) -> OptionEstimates:  # fmt: skip
    """Estimate gains and losses of aligned settings, the baseline first; raises DataError if that is impossible."""
    values, is_time = aligned.values[metric], objective == TIME_AXIS
    if len(values) < MIN_QUERIES:
        raise DataError("points must have 2 queries in common or more; got 1, which says nothing of others")
    base_mean = values[:, 0].mean()
    if base_mean <= 0:
        raise DataError(
            f"{title_of(metric)}@{k} of the baseline, {base_cell.label}, is 0 on "
            f"{counted(len(values), 'query', 'queries')}: there is no share of it to keep"
        )
    objective_means = _find_objective_means(aligned, objective, model)
    gains = _compute_gains(objective_means, is_less_better=is_time or objective in LESS_IS_BETTER)
    decoders = list(map(_make_decoder, aligned.cells[1:]))
    kinds = [identify_decoder(cell.label, decoder) for cell, decoder in zip(aligned.cells[1:], decoders, strict=True)]
    number_of = {kind: number for number, kind in enumerate(dict.fromkeys(kinds))}
    decoder_of = np.array([number_of[kind] for kind in kinds], dtype=int)
    n_at_stake = int(np.count_nonzero(values[:, 0] > 0))
    differences = values[:, 1:] - values[:, :1]
    losses, sample = _estimate_losses(aligned, model, differences, base_mean, gains, n_at_stake, decoder_of)
    if sample is not None:
        check_correlation(sample.use)
    relevance = _read_provenance(base_cell, CORPUS_RELEVANCE_ENTRY)
    return OptionEstimates(
        baseline=base_cell, aligned=aligned, gains=gains, losses=losses, metric=metric, objective=objective, k=k,
        seed=seed, relevant_from=relevant_from, decoders=decoders, decoder_of=decoder_of, model=model, sample=sample,
        is_on_passages=are_passages(base_cell.split, aligned.queries),
        corpus_relevance=None if relevance is None else float(relevance),
        missing_queries=count_missing_queries(len(aligned.queries), None if sample is None else sample.use),
    )  # fmt: skip


def _find_objective_means(aligned: AlignedCells, objective: str, model: ModelValues | None) -> np.ndarray:
    """Return the (1 + m,) means of the objective, the baseline's first: over all queries that somebody judged."""
    if objective == TIME_AXIS:
        return _read_times(aligned.cells)
    model_means = None if model is None else model.objective_means
    return aligned.means[objective] if model_means is None else model_means


def _estimate_losses(
    aligned: AlignedCells, model: ModelValues | None, differences: np.ndarray, base_mean: Any, gains: np.ndarray,
    n_at_stake: int, decoder_of: np.ndarray,
) -> tuple[LossEstimate, ResidualSample | None]:  # fmt: skip
    """Estimate losses from (n, m) differences to the baseline, corrected by what a model judged of other queries.

    base_mean: of the metric, one for all settings or (m,) one for each; n_at_stake: queries on which it is above 0;
    decoder_of: (m,) number of each setting's decoder
    """
    if model is None:
        return estimate_losses(differences / base_mean, gains, n_at_stake=n_at_stake, decoder_of=decoder_of), None
    sample = model.correct(differences, aligned.queries)
    losses = estimate_losses(
        sample.residuals / base_mean, gains, sample.terms / base_mean, sample.n_changed, n_at_stake, decoder_of
    )
    return losses, sample


def _draw_weights(random: np.random.Generator, n_queries: int) -> np.ndarray:
    """Return (N_SAMPLES, n) weights of queries in bootstrap samples of n of them; none for no queries."""
    if not n_queries:
        return np.zeros((N_SAMPLES, 0))
    return random.multinomial(n_queries, np.full(n_queries, 1 / n_queries), size=N_SAMPLES) / n_queries


def estimate_on_axes(
    points: Frontier, curves: Sequence[Curve], baseline: Any, model_judged: Iterable[Any] | None = None
) -> OptionEstimates | None:
    """Estimate gain and loss of a frontier's settings, to choose one that keeps enough of the y axis.

    The gain is in the metric of the x axis, the loss in that of the y axis. None where nothing can be decided: no other
    setting, one query, or no baseline with something to keep. curves: exact curves beside the frontier's settings;
    baseline: the cell of the decoder that the others are compared with; model_judged: as `decide` takes it
    """
    # What has too few values to be drawn has too few to be chosen, and the decision names it.
    cells = [*(point.point for point in points.points), *points.left_out_cells]
    if len(points.points) < 2 or baseline.label not in (cell.label for cell in cells):
        return None
    try:
        return estimate_options(
            [*cells, *curves], baseline=baseline.label, metric=points.y, objective=points.x, k=points.k,
            model_judged=model_judged,
        )  # fmt: skip
    except DataError:
        # A judge that was asked for and cannot be used is an error of its own.
        if model_judged is not None:
            raise
        return None


def decide_for_report(estimates: OptionEstimates | None, confirm: Iterable[Any] | None = None) -> Decision | None:
    """Decide for the default budget, with the next grade's choices; None without estimates.

    confirm: cells of another split that judge the choices, None for none
    """
    if estimates is None:
        return None
    # with_options=False: the list of all settings takes longest, and a report has a table of them.
    return estimates.decide(KEPT_SHARE.default, confirm, with_options=False, with_next_level=True)


def _read_provenance(cell: Any, fact: str) -> str | None:
    """Return a fact of a cell's provenance; None for stand-ins for cells, which have no provenance.

    A cell is one decoder's metrics, query by query, at one k.
    """
    return getattr(cell, "provenance", {}).get(fact)


def _divide(points: Iterable[Any], k: int) -> tuple[list[Any], list[Curve]]:
    """Separate the points at k into measured cells and exact curves.

    Raises ParamError for a curve of another split than the cells.
    """
    all_points = list(points)
    cells = select_cells([point for point in all_points if not isinstance(point, Curve)], k)
    curves = [point for point in all_points if isinstance(point, Curve) and point.k == k]
    for curve in curves:
        if curve.split != cells[0].split:
            raise ParamError(f"points must be of one split; got {cells[0].split}, {curve.split}")
    return cells, curves


def _evaluate_curve(curve: Curve, metrics: Sequence[str], values: Sequence[float] = ()) -> Iterator[_CurvePoint]:
    """Yield the settings of a curve with their metrics, at its N_BANDS positions or at given values."""
    parameter_values = values or _round_positions(curve)
    step_index, steps = curve.steps.find_steps(np.array(parameter_values)), curve.steps
    for column, value in enumerate(parameter_values):
        decoder = curve.make_decoder(value)
        yield _CurvePoint(
            decoder=decoder_to_json(decoder),
            label=decoder.label,
            method=curve.method,
            k=curve.k,
            split=curve.split,
            queries=curve.queries,
            values={name: steps.values[name][step_index[:, column]] for name in metrics},
            counts={name: counts[step_index[:, column]] for name, counts in steps.counts.items()},
            provenance=curve.provenance,
            curve=curve,
            value=value,
        )


def build_curve_cell(curve: Curve, value: float) -> Any:
    """Build the setting of a curve at one value of its parameter, with its metrics by query as a sweep's cell has them.

    Raises ParamError for a value that the parameter cannot have.
    """
    return next(_evaluate_curve(curve, tuple(curve.means), [value]))


def _round_positions(curve: Curve) -> list[float]:
    """Return a curve's N_BANDS positions in six digits, as 0.1 + 0.2 is not 0.3 and would have a long name."""
    return [float(f"{position:.6g}") for position in curve.band_positions.tolist()]


def _compute_gains(means: np.ndarray, is_less_better: bool) -> np.ndarray:
    """Return the (…, m) gains over the baseline as shares of its mean; positive is better whatever the metric.

    means: (…, 1 + m) of the objective, the baseline's first. Where that is 0, gains are plain differences.
    """
    base_means = means[..., :1]
    differences = (means[..., 1:] - base_means) * (-1 if is_less_better else 1)
    has_share = np.abs(base_means) > TIE_TOLERANCE
    gains: np.ndarray = np.where(has_share, differences / np.where(has_share, np.abs(base_means), 1.0), differences)
    return gains


def _read_times(cells: Sequence[Any]) -> np.ndarray:
    """Return each cell's milliseconds a query.

    A cell is one decoder's metrics, query by query, at one k.
    """
    return np.array([cell.latency for cell in cells], dtype=float)


def _measure_judged(cell: Any) -> float:
    """Return the share of a setting's documents that are judged; NaN where it was not measured."""
    counts = _get_counts(cell)
    if "judged" not in counts:
        return np.nan
    n_returned = counts["returned"].sum()
    return float(counts["judged"].sum() / n_returned) if n_returned else np.nan


def _measure_relevance(cell: Any) -> float:
    """Return the mean cosine of a setting's documents with their queries, a set at a time; NaN if it is unknown."""
    # A curve's settings have the metrics of the decision alone, until others are asked for.
    if isinstance(cell, _CurvePoint) and set(SET_RELEVANCE_METRICS) <= set(cell.curve.steps.values):
        cell = next(_evaluate_curve(cell.curve, SET_RELEVANCE_METRICS, [cell.value]))
    counts = _get_counts(cell)
    if "returned" not in counts or not set(SET_RELEVANCE_METRICS) <= set(cell.values):
        return np.nan
    cos_sum, ilad = (cell.values[name] for name in SET_RELEVANCE_METRICS)
    relevance = compute_set_relevance(cos_sum, ilad, counts["returned"])
    is_defined = np.isfinite(relevance)
    return float(relevance[is_defined].mean()) if is_defined.any() else np.nan


def _get_counts(cell: Any) -> Mapping[str, np.ndarray]:
    """Return a cell's counts of documents by query; none for stand-ins for cells."""
    counts: Mapping[str, np.ndarray] = getattr(cell, "counts", {})
    return counts


def _compare_in(metric: str, base_cell: Any, setting: Any) -> Comparison | None:
    """Compare a setting with the baseline in a metric; None if that shows no clear loss, or was not measured."""
    # A curve's settings have the metrics of the decision alone, until another one is asked for.
    if isinstance(setting, _CurvePoint) and metric in setting.curve.steps.values:
        setting = next(_evaluate_curve(setting.curve, [metric], [setting.value]))
    if metric not in setting.values or metric not in base_cell.values:
        return None
    try:
        comparisons = compare([setting], metric, base_cell, base_cell.k)
    # No query has the metric in both.
    except DataError:
        return None
    for comparison in comparisons:
        # There is one comparison, so nothing is to be corrected for.
        high, base_mean = comparison.single_high, comparison.baseline_mean
        if high is not None and high < -MIN_COST_SHARE * base_mean < 0:
            return comparison
    return None


def _make_decoder(cell: Any) -> Decoder | None:
    """Return the decoder of a cell; None for a run of another system, which names no stage that could be built.

    A cell is one decoder's metrics, query by query, at one k.
    """
    return decoder_from_json(cell.decoder) if is_decoder_cell(cell) else None


def _confirm(
    option: Option | None, points: Sequence[Any], base_cell: Any, axes: tuple[str, str], k: int, keep: float
) -> Option | None:
    """Add to a chosen setting its kept share and gain on another split; return it as it is if not measured there.

    On the split where it was chosen, the best of many looks better than it is. Here nothing is chosen, so the one-sided
    bound of one setting is right. `judge_choice` says what that means for `keep`, the share of the baseline's metric
    that it must keep. axes: the metric to keep and the objective
    """
    if option is None or not points:
        return option
    metric = axes[0]
    cells, curves = _divide(points, k)
    candidates = [cell for cell in cells if cell.label == option.label]
    if not candidates and option.decoder is not None:
        for curve in curves:
            if curve.has(option.decoder):
                metrics = [name for name in axes if name in curve.steps.values]
                candidates.append(_evaluate_at_setting(curve, option.decoder, metrics))
    if not candidates:
        return option
    other_base = resolve_baseline(cells, base_cell.label, k)
    values = align_on_common_queries([other_base, candidates[0]], (metric,), k).values[metric]
    base_mean, n_queries = values[:, 0].mean(), len(values)
    if n_queries < MIN_QUERIES or base_mean <= 0:
        return option
    changes = (values[:, 1] - values[:, 0]) / base_mean
    # A query on which the baseline has nothing to lose tells nothing of losses.
    n_at_stake = int(np.count_nonzero(values[:, 0] > 0))
    losses = estimate_losses(changes[:, None], np.ones(1), n_at_stake=n_at_stake)
    share = 1 + float(losses.mean[0])
    low = float(losses.find_sure_shares(float(stdtrit(losses.degrees, SURE_CHANCE)))[0])
    gain, gain_low = _measure_gain([other_base, candidates[0]], axes, k)
    outcome = judge_choice(share, low, gain, keep)
    n_needed = None
    if outcome == Outcome.AGREES:
        n_needed = estimate_queries_to_prove(changes, n_at_stake, keep, SURE_CHANCE)
    return replace(
        option, confirmed=outcome == Outcome.CONFIRMED, has_held=outcome in (Outcome.CONFIRMED, Outcome.AGREES),
        confirmed_share=share, confirmed_low=low, confirmed_gain=gain, confirmed_gain_low=gain_low,
        confirmed_budget=keep, confirmed_queries=n_queries, confirmed_needed=n_needed,
    )  # fmt: skip


def _measure_gain(pair: Sequence[Any], axes: tuple[str, str], k: int) -> tuple[float | None, float | None]:
    """Return what a setting gains over the baseline, and the lower end of the 95% Student interval of that.

    The gain is None if the objective was not measured on both, its end also where times have no queries to resample.
    pair: the cells of the baseline and of the setting; axes: the metric to keep and the objective
    """
    objective, values = axes[1], None
    if objective == TIME_AXIS:
        times = [getattr(cell, "latency", None) for cell in pair]
        if None in times:
            return None, None
        means = np.array(times, dtype=float)
    elif all(objective in cell.values for cell in pair):
        # On the queries with both metrics, as where it was chosen.
        try:
            aligned = align_on_common_queries(pair, axes, k)
        # No query has both metrics for both.
        except DataError:
            return None, None
        if len(aligned.cells) < len(pair):
            return None, None
        means = aligned.means[objective]
        values = aligned.values[objective]
    else:
        return None, None
    is_less_better = objective == TIME_AXIS or objective in LESS_IS_BETTER
    gain = float(_compute_gains(means, is_less_better=is_less_better)[0])
    if not np.isfinite(gain):
        return None, None
    if values is None or len(values) < MIN_QUERIES:
        return gain, None
    # A gain is a share of the baseline's mean, and so is its error.
    base_mean = abs(float(means[0]))
    std_error = float((values[:, 1] - values[:, 0]).std(ddof=1)) / np.sqrt(len(values))
    std_error /= base_mean if base_mean > TIE_TOLERANCE else 1.0
    return gain, gain - float(stdtrit(len(values) - 1, (1 + CONFIDENCE_LEVEL) / 2)) * std_error


def _evaluate_at_setting(curve: Curve, decoder: Decoder, metrics: Sequence[str]) -> _CurvePoint:
    """Return the setting of a curve that has a decoder's value of the curve's parameter."""
    return next(_evaluate_curve(curve, metrics, [getattr(decoder.select, curve.parameter)]))
