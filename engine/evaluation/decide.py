"""The decision over a sweep: the setting that is sure to keep a budget, and the best bet with its chance.

The estimates are those of `loss_model`, so a chance is right for the setting that was chosen for it too.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import stdtrit

from engine.decoder import Decoder
from engine.errors import DataError, ParamError
from engine.evaluation.curve import Curve
from engine.evaluation.decision import BET_CHANCE, MIN_JUDGED_SHARE, SURE_CHANCE, Decision, Option
from engine.evaluation.frontier import KEPT_SHARE
from engine.evaluation.loss_model import LossEstimate, estimate_losses
from engine.evaluation.metrics import LESS_IS_BETTER, check_metrics, title_of
from engine.evaluation.paired import (
    TIE_TOLERANCE,
    AlignedCells,
    align_on_common_queries,
    scorer_chain,
    select_cells,
)
from engine.evaluation.statistics import CONFIDENCE_LEVEL, resolve_baseline
from engine.evaluation.sweep.cell import decoder_from_json, decoder_to_json
from engine.evaluation.tables import find_default_baseline
from engine.progress import counted
from engine.stages import methods

COARSE_POSITIONS = 33
"""Values of a curve's parameter at which it is estimated first."""
REFINED_POSITIONS = 9
"""Values added between two neighbours where a curve leaves what is sure, or what is a bet."""
REFINEMENTS = 3
POSITION_STEPS = 1000
"""Parts of a curve's interval: finer values give nobody another answer."""
MIN_QUERIES = 2
HOLES = "holes"
"""The metric that gives the share of returned documents without a judgement."""


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
    provenance: Mapping[str, str]


def decide(
    points: Iterable[Any],
    *,
    baseline: Any = None,
    keep: float = 0.95,
    metric: str = "recall",
    objective: str = "ilad",
    k: int = 10,
    confirm: Iterable[Any] | None = None,
    seed: int = 0,
) -> Decision:
    """Find the setting that gains most and is sure to keep a share of the baseline's metric, and the best bet.

    Settings are estimated together from the queries at hand, as a sample of all queries of their kind. A setting is
    sure if it keeps the budget with a chance of 95%; the bet is the largest gain with a chance of at least half.

    Parameters
    ----------
    points : iterable of Cell or Curve
        Cells of one split, and exact curves of its queries, which are solved for their parameter.
    baseline : Cell, str or None
        One of the cells, or its label, name or method; by default the first registered selector.
    keep : float
        The share of the baseline's metric to keep, in [0, 1].
    metric : str
        The metric to keep, of which more is better.
    objective : str
        The metric to gain.
    k : int
        The size of the retrieved sets.
    confirm : iterable of Cell or Curve, or None
        Those of another split, for the settings that are chosen.
    seed : int
        Kept for callers; the estimates draw nothing.

    Returns
    -------
    Decision
        The sure setting, the bet and all options, with sentences.

    Raises
    ------
    ParamError
        If an argument is invalid, a metric was not measured, or a curve has no values of single queries.
    DataError
        If the points have no query in common or are of several splits.

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
    keep = KEPT_SHARE.check(keep)
    check_metrics((metric, objective))
    if metric in LESS_IS_BETTER:
        raise ParamError(f"metric must be one of which more is better; got {metric!r}; name it as objective instead")
    all_points = list(points)
    cells, curves = _divide(all_points, k)
    base_cell = resolve_baseline(cells, find_default_baseline(cells) if baseline is None else baseline, k)
    problem = _Problem(
        base_cell=base_cell, cells=cells, curves=curves, metric=metric, objective=objective, k=k, keep=keep
    )
    aligned, estimate = problem.solve()
    gains = _compute_gains(aligned.values[objective], objective)
    options = _build_options(aligned, estimate, gains, metric, keep)
    # Pooled judgements cover only what some systems returned, so unjudged documents may be relevant.
    is_pooled = _read_provenance(base_cell, "judgements") == "pooled"
    left_out = [option for option in options if is_pooled and (option.judged or 0.0) < MIN_JUDGED_SHARE]
    candidates = [option for option in options if option.gain > TIE_TOLERANCE and option not in left_out]
    sure = max((option for option in candidates if option.chance >= SURE_CHANCE), key=_by_gain, default=None)
    bet = max((option for option in candidates if option.chance >= BET_CHANCE), key=_by_gain, default=None)
    # A bet that gains no more than the sure setting is not worth its risk.
    if bet is not None and sure is not None and bet.gain <= sure.gain + TIE_TOLERANCE:
        bet = None
    confirm_points = [] if confirm is None else list(confirm)
    chosen = [_confirm(option, confirm_points, base_cell, metric, k, keep) for option in (sure, bet)]
    chosen_judged = [option.judged for option in chosen if option is not None and option.judged is not None]
    judged_shares = chosen_judged or [option.judged for option in options if option.judged is not None]
    confirm_cells = select_cells(confirm_points, k) if confirm_points else []
    return Decision(
        baseline=aligned.names[0],
        keep=keep,
        metric=metric,
        objective=objective,
        k=k,
        split=base_cell.split,
        queries=len(aligned.queries),
        sure=chosen[0],
        bet=chosen[1],
        options=options,
        left_out=tuple(left_out),
        judged=min(judged_shares, default=None),
        relevant_from=int(_read_provenance(base_cell, "relevant_from") or 1),
        confirm_split=confirm_cells[0].split if confirm_cells else None,
        confirm_queries=len(confirm_cells[0].queries) if confirm_cells else 0,
    )


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class _Problem:
    """The checked arguments of `decide`, and the estimate of what every setting loses to the baseline.

    The settings are the measured cells, and values of each curve's parameter. A curve's interval is divided into
    POSITION_STEPS steps; a position is the number of steps from its lower end.
    """

    base_cell: Any  # the baseline's
    cells: Sequence[Any]  # all measured ones
    curves: Sequence[Curve]  # exact ones, each with one free parameter
    metric: str  # of which a share is to be kept
    objective: str  # the metric to gain
    k: int
    keep: float  # share of the baseline's mean to keep

    def solve(self) -> tuple[AlignedCells, LossEstimate]:
        """Evaluate cells and curves on common queries; return them, baseline first, and the others' losses.

        Curves are evaluated coarsely first, then more finely around their best settings.
        """
        positions = [np.linspace(0, POSITION_STEPS, COARSE_POSITIONS).round() for _ in self.curves]
        aligned, estimate = self._estimate(positions)
        for _ in range(REFINEMENTS if self.curves else 0):
            positions = self._refine(positions, aligned, estimate)
            aligned, estimate = self._estimate(positions)
        return aligned, estimate

    def _estimate(self, positions: Sequence[np.ndarray]) -> tuple[AlignedCells, LossEstimate]:
        """Estimate the losses of the cells, and of each curve's settings at these positions.

        Raises DataError if the settings have fewer than two queries in common, or the baseline has nothing to keep.
        """
        settings = [self.base_cell, *self.cells]
        for curve, curve_positions in zip(self.curves, positions, strict=True):
            settings += _evaluate_curve(curve, curve_positions, (self.metric, self.objective))
        aligned = align_on_common_queries(settings, (self.metric, self.objective), self.k)
        if self.base_cell in aligned.left_out:
            raise DataError(f"the baseline, {self.base_cell.label}, has {self.metric} on no query")
        values = aligned.values[self.metric]
        base_mean = values[:, 0].mean()
        if len(values) < MIN_QUERIES:
            raise DataError("points must have 2 queries in common or more; got 1, which says nothing of others")
        if base_mean <= 0:
            raise DataError(
                f"{title_of(self.metric)}@{self.k} of the baseline, {self.base_cell.label}, is 0 on "
                f"{counted(len(values), 'query', 'queries')}: there is no share of it to keep"
            )
        changes = (values[:, 1:] - values[:, :1]) / base_mean
        families = _number_families(aligned.cells[1:])
        gains = _compute_gains(aligned.values[self.objective], self.objective)
        return aligned, estimate_losses(changes, gains, families)

    def _refine(
        self, positions: Sequence[np.ndarray], aligned: AlignedCells, estimate: LossEstimate
    ) -> list[np.ndarray]:
        """Add positions to each curve around its largest gain that is sure, and its largest that is a bet.

        Sure and bet are settings that keep the budget with a chance of SURE_CHANCE and BET_CHANCE or more.
        """
        chances = estimate.find_chances(self.keep)
        gains = _compute_gains(aligned.values[self.objective], self.objective)
        index_of = {cell.label: index for index, cell in enumerate(aligned.cells[1:])}
        refined = []
        for curve, curve_positions in zip(self.curves, positions, strict=True):
            # A value that was given as a cell too, or has no metric on any query, is not among the settings twice.
            labels = [Decoder(curve.make_stage(value)).label for value in _to_values(curve, curve_positions)]
            setting_index = np.array([index_of.get(label, -1) for label in labels])
            curve_gains = np.where(setting_index >= 0, gains[setting_index], -np.inf)
            curve_chances = np.where(setting_index >= 0, chances[setting_index], 0.0)
            extra_positions = [curve_positions]
            for threshold in (SURE_CHANCE, BET_CHANCE):
                # A setting below the threshold must not be the best, so its gain counts as −∞.
                passing_gains = np.where(curve_chances >= threshold, curve_gains, -np.inf)
                best = int(passing_gains.argmax())
                if np.isfinite(passing_gains[best]):
                    low = curve_positions[max(best - 1, 0)]
                    high = curve_positions[min(best + 1, len(curve_positions) - 1)]
                    extra_positions.append(np.linspace(low, high, 2 * REFINED_POSITIONS + 1).round())
            refined.append(np.unique(np.concatenate(extra_positions)))
        return refined


def _read_provenance(cell: Any, fact: str) -> str | None:
    """Return a fact of a cell's provenance; None for stand-ins for cells, which have no provenance."""
    return getattr(cell, "provenance", {}).get(fact)


def _divide(points: Sequence[Any], k: int) -> tuple[list[Any], list[Curve]]:
    """Separate the points at k into measured cells and exact curves.

    Raises ParamError for a curve without the values of single queries, or of another split than the cells.
    """
    cells = select_cells([point for point in points if not isinstance(point, Curve)], k)
    curves = [point for point in points if isinstance(point, Curve) and point.k == k]
    for curve in curves:
        if curve.steps is None:
            raise ParamError(
                f"the curve of {curve.label} has no values of single queries; compute it with engine.exact_frontier"
            )
        if curve.split != cells[0].split:
            raise ParamError(f"points must be of one split; got {cells[0].split}, {curve.split}")
    return cells, curves


def _to_values(curve: Curve, positions: np.ndarray) -> list[float]:
    """Convert positions on a curve to values of its parameter, rounded to six digits for short labels.

    positions: numbers of steps from the interval's lower end, of POSITION_STEPS in all.
    """
    low, high = curve.interval
    return [float(f"{low + (high - low) * step / POSITION_STEPS:.6g}") for step in positions.tolist()]


def _evaluate_curve(curve: Curve, positions: np.ndarray, metrics: Sequence[str]) -> Iterator[_CurvePoint]:
    """Yield the setting of a curve, with its metrics, at each of the positions that `_to_values` takes."""
    parameter_values = _to_values(curve, positions)
    # `_divide` has refused curves without steps, so the values are never empty; the types do not know it.
    values = curve.steps.evaluate_at(np.array(parameter_values)) if curve.steps is not None else {}
    for column, value in enumerate(parameter_values):
        decoder = Decoder(curve.make_stage(value))
        yield _CurvePoint(
            decoder=decoder_to_json(decoder),
            label=decoder.label,
            method=curve.method,
            k=curve.k,
            split=curve.split,
            queries=curve.queries,
            values={name: values[name][:, column] for name in metrics},
            provenance=curve.provenance,
        )


def _number_families(cells: Sequence[Any]) -> np.ndarray:
    """Number the families of (m,) settings from 0; a family is one selector behind the same scorers."""
    family_keys = [(cell.method, scorer_chain(cell.decoder)) for cell in cells]
    # dict.fromkeys keeps the first of equal keys, in order.
    numbers = {key: number for number, key in enumerate(dict.fromkeys(family_keys))}
    return np.array([numbers[key] for key in family_keys], dtype=int)


def _compute_gains(values: np.ndarray, objective: str) -> np.ndarray:
    """Return the (m,) mean gains of settings over the baseline; positive is better whatever the metric.

    values: (queries, 1 + m) of the objective, the baseline in column 0. Gains are shares of the baseline's mean, or
    plain differences if that is 0.
    """
    means = values.mean(axis=0)
    differences = (means[1:] - means[0]) * (-1 if objective in LESS_IS_BETTER else 1)
    gains: np.ndarray = differences / abs(means[0]) if abs(means[0]) > TIE_TOLERANCE else differences
    return gains


def _by_gain(option: Option) -> tuple[float, float]:
    return round(option.gain, 9), option.chance


def _build_options(
    aligned: AlignedCells, estimate: LossEstimate, gains: np.ndarray, metric: str, keep: float
) -> tuple[Option, ...]:
    """Build the report of each setting but the baseline: gain, kept share, chance; ordered by rising gain."""
    values = aligned.values[metric]
    # The baseline is column 0 of the values.
    shares = values[:, 1:].mean(axis=0) / values[:, 0].mean()
    chances, (lows, highs) = estimate.find_chances(keep), estimate.find_ends(CONFIDENCE_LEVEL)
    options = []
    for index, cell in enumerate(aligned.cells[1:]):
        # Runs of other systems are compared too, but name no stage that could be built again.
        is_own = "name" in cell.decoder["select"] and cell.decoder["select"]["name"] in methods("selector")
        holes = cell.values.get(HOLES)
        option = Option(
            name=aligned.names[index + 1],
            label=cell.label,
            decoder=decoder_from_json(cell.decoder) if is_own else None,
            gain=float(gains[index]),
            share_kept=float(shares[index]),
            expected_share=1 + float(estimate.mean[index]),
            std_error=float(estimate.std_error[index]),
            low=float(lows[index]),
            high=float(highs[index]),
            chance=float(chances[index]),
            judged=None if holes is None else 1 - float(np.nanmean(holes)),
        )
        options.append(option)
    return tuple(sorted(options, key=_by_gain))


def _confirm(
    option: Option | None, points: Sequence[Any], base_cell: Any, metric: str, k: int, keep: float
) -> Option | None:
    """Add to a chosen setting its kept share on another split; return it as it is if not measured there.

    On the split where it was chosen, the best of many looks better than it is. Here nothing is chosen, so a one-sided
    Student interval is right: its lower end must keep the budget for the setting to be confirmed.
    """
    if option is None or not points:
        return option
    cells, curves = _divide(points, k)
    candidates = [cell for cell in cells if cell.label == option.label]
    if not candidates and option.decoder is not None:
        select = option.decoder.select
        for curve in curves:
            if curve.method == select.spec.name and curve.make_stage(getattr(select, curve.parameter)) == select:
                candidates.append(_evaluate_at_setting(curve, option.decoder, metric))
    if not candidates:
        return option
    other_base = resolve_baseline(cells, base_cell.label, k)
    values = align_on_common_queries([other_base, candidates[0]], (metric,), k).values[metric]
    base_mean, n_queries = values[:, 0].mean(), len(values)
    if n_queries < MIN_QUERIES or base_mean <= 0:
        return option
    changes = (values[:, 1] - values[:, 0]) / base_mean
    # The margin is how far below the measured mean the true one may lie.
    margin = float(stdtrit(n_queries - 1, SURE_CHANCE)) * changes.std(ddof=1) / np.sqrt(n_queries)
    share = 1 + float(changes.mean())
    is_confirmed = bool(share - margin >= keep - TIE_TOLERANCE)
    return replace(option, confirmed=is_confirmed, confirmed_share=share, confirmed_low=share - float(margin))


def _evaluate_at_setting(curve: Curve, decoder: Decoder, metric: str) -> _CurvePoint:
    """Return the setting of a curve that has a decoder's value of the curve's parameter."""
    low, high = curve.interval
    step = (getattr(decoder.select, curve.parameter) - low) / (high - low) * POSITION_STEPS
    return next(_evaluate_curve(curve, np.array([step]), (metric,)))
