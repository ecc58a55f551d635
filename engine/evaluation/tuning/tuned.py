"""Result of tuning: the choice on dev, its candidates, and its report on test."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from operator import attrgetter
from typing import Any

import numpy as np

from engine.decoder import Decoder
from engine.display import OneLine, describe_means
from engine.evaluation import statistics
from engine.evaluation.curve import Curve
from engine.evaluation.decide import OptionEstimates, find_lower_share
from engine.evaluation.decision import Decision, Option, describe_confirmation, is_notable
from engine.evaluation.metrics import METRICS, map_values
from engine.evaluation.paired import find_complete_queries, format_stage_call, short_names
from engine.evaluation.statistics import RESAMPLES, SEED, Comparison, compare, correct_comparisons
from engine.evaluation.sweep.cell import Cell, decoder_to_json
from engine.evaluation.tuning.objectives import RELEVANT, Objective, TunedChoice, describe_objective
from engine.progress import counted
from engine.wording import decimal, percent, signed

N_DRAWS = 200
"""Bootstrap samples of queries that measure how stable a choice is."""
NEAR_SHARE = 0.05
"""Values within this share of the range of each other count as the same choice."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap(OneLine):
    """Difference between dev and test in a metric."""

    metric: str
    k: int
    dev: float  # the chosen setting's means
    test: float
    gained_dev: float  # these minus the baseline's
    gained_test: float
    low: float | None  # 95% interval of gained_dev − gained_test, the two splits' queries drawn apart
    high: float | None  # None where a split has one query

    @property
    def lost(self) -> float:
        """The part of the gain on dev that test does not show."""
        return self.gained_dev - self.gained_test

    @property
    def text(self) -> str:
        """The gain on dev beside the gain on test, and if they differ significantly, in one sentence."""
        metric_title = f"{METRICS[self.metric].title}@{self.k}"
        gains_text = f"{metric_title}: {signed(self.gained_dev)} vs the baseline on dev"
        gains_text += f", {signed(self.gained_test)} on test"
        if self.low is None or self.high is None:
            return f"{gains_text}."
        significance = "no significant difference" if self.low <= 0 <= self.high else "a significant difference"
        return f"{gains_text}; {significance} between the two (95% CI {signed(self.low)} to {signed(self.high)})."


@dataclass(frozen=True, eq=False, kw_only=True)
class Candidate(OneLine):
    """A decoder at its best setting on dev, and how that was chosen; the baseline has only one setting."""

    name: str  # as charts write it
    decoder: Decoder
    settings: int  # number that were measured on dev
    dev: Cell
    test: Cell | None
    stability: float | None = 1.0  # share of N_DRAWS resampled sets of dev's queries with the same choice
    queries: int = 0  # number of dev's that the settings were compared on
    left_out: tuple[str, ...] = ()  # names of settings that were no candidates
    searched: str = ""  # what was chosen from, in words
    interval: tuple[float, float] | None = None  # where the parameter is as good on dev, None for a grid
    curve: Curve | None = None  # the exact frontier on dev that it was chosen from, None for a grid


def _describe_choice(tuned: "Tuned") -> str:
    """Return what the representation of a choice says: the means on dev, the verdict of test, and the decoder."""
    outcome = "" if tuned.is_confirmed is None else f", {_describe_confirmation(tuned)}"
    return f"{describe_means(tuned.chosen.mean)} at k={tuned.k} on {tuned.dev}{outcome}, {tuned.decoder.label}"


@dataclass(frozen=True, eq=False, kw_only=True)
class Tuned(OneLine):
    """Choice among the settings of one stage, or among decoders each at its best, and its report."""

    objective: Objective
    k: int
    dev: str
    test: str | None
    several: bool  # whether decoders were chosen from, each at its best, and not the settings of one
    candidates: tuple[Candidate, ...]  # each decoder's best, the best of them first
    reference: Candidate  # the baseline
    choosing: TunedChoice  # why the first is the best, and if it satisfies the objective or is only the nearest
    decision: Decision | None  # on dev, confirmed on test; None for an objective without a share to keep
    estimates: OptionEstimates | None  # on dev, from which the decision was made
    points: tuple[Cell, ...]  # on dev: every setting tried, or each decoder's best
    comparisons: tuple[Comparison, ...]  # with the baseline on test; Holm over the metrics, or over the decoders
    gaps: tuple[Gap, ...]  # dev beside test, of one decoder

    _describe = _describe_choice

    base = property(attrgetter("reference.dev"), doc="The baseline's cell on dev.")
    base_test = property(attrgetter("reference.test"), doc="The baseline's cell on test, None without one.")
    baseline = property(attrgetter("reference.decoder"), doc="The first of its kind in its place.")
    decoder = property(attrgetter("winner.decoder"), doc="The decoder that dev chose.")
    chosen = property(attrgetter("winner.dev"), doc="Its cell on dev.")
    chosen_test = property(attrgetter("winner.test"), doc="Its cell on test, None without one.")
    stability = property(attrgetter("winner.stability"), doc="Share of resampled query sets with the same choice.")
    queries = property(attrgetter("winner.queries"), doc="Number of dev's that the settings were compared on.")
    left_out = property(attrgetter("winner.left_out"), doc="Names of settings that were no candidates.")
    searched = property(attrgetter("winner.searched"), doc="The candidates of the choice, in words.")
    interval = property(attrgetter("winner.interval"), doc="Interval of equally good values on dev, None for a grid.")
    curve = property(attrgetter("winner.curve"), doc="The exact frontier that it was chosen from, None for a grid.")
    satisfied = property(attrgetter("choosing.satisfied"), doc="True if the choice satisfies the objective.")

    @property
    def winner(self) -> Candidate:
        """The candidate that was chosen on dev; the baseline if no other is sure enough to replace it."""
        return self.reference if self.stays else self.candidates[0]

    @property
    def stays(self) -> bool:
        """True if the baseline stays, as no decoder keeps the required share on dev with confidence."""
        return self.several and self.objective.constrained and not self.choosing.satisfied

    @property
    def constraint_holds_on_test(self) -> bool | None:
        """True if test confirms that the required share of the baseline's Recall is kept.

        None if the objective requires no share, or if nothing was measured on test. It is also None if the baseline
        stays, as then nothing is claimed.
        """
        return self.is_confirmed if self.objective.constrained else None

    @property
    def is_confirmed(self) -> bool | None:
        """True if test confirms the objective; None without test, and for a choice that claims nothing.

        If the objective requires a share of the baseline's Recall, the setting must be sure to keep it on test too;
        else its gain must be significant there.
        """
        if self.test is None or self.stays or self.objective.aim == "knee":
            return None
        if self.decision is not None:
            option = _find_chosen_option(self)
            return None if option is None else option.confirmed
        row = self.winner_gain
        return row is not None and row.significant and row.difference > 0

    @property
    def status(self) -> str:
        """The verdict of the test split on the choice, in a few words, such as "confirmed on test"."""
        if self.stays:
            return f"stays, as no other is sure to keep {100 * self.objective.share:g}% on {self.dev}"
        if self.test is None or self.is_confirmed is None:
            return f"measured on {self.dev} only" if self.test is None else f"measured on {self.test}"
        return _describe_confirmation(self, self.test)

    @property
    def outcome(self) -> str:
        """The winner's means beside the baseline's, on test if there is one, in words."""
        return self.objective.describe_outcome(*average_outcome(self), self.reference.name)

    @property
    def winner_gain(self) -> Comparison | None:
        """The winner's comparison with the baseline on test, in the metric that the objective is to improve.

        None if they were not compared.
        """
        return next((row for row in _select_winner_rows(self) if row.metric == self.objective.metrics[-1]), None)

    @property
    def sentences(self) -> tuple[str, ...]:
        """The sentences of the report, in order."""
        return (*self.chosen_because, *self.reported)

    @property
    def chosen_because(self) -> tuple[str, ...]:
        """The sentences on what was chosen, from what and why, how stable that is, and if test confirms it."""
        status_text = f"{self.status[0].upper()}{self.status[1:]}"
        budget_sentences = [] if self.decision is None else self.decision.sentences
        goal = f"for {describe_objective(self.objective, self.reference.name)}, on {self.dev}"
        if self.several:
            extent = f"{counted(len(self.candidates), 'decoder')} in {_count_settings(self.candidates)}"
            headline = f"{self.winner.name}: chosen from {extent} {goal}."
            if self.stays:
                headline = f"{self.winner.name} stays: none of {extent} is chosen {goal}."
            reasons = budget_sentences or [self.choosing.reason]
            return (headline, *reasons, *([] if self.stays else [f"{status_text}."]))
        sentences = [
            f"{self.winner.name}: chosen from {self.searched} {goal} ({counted(self.queries, 'query', 'queries')}).",
            *(budget_sentences or [self.choosing.reason]),
        ]
        same_choice = "this setting"
        if self.interval is not None and self.curve is not None:
            low_edge, high_edge = self.interval
            symbol = self.curve.symbol
            extent = f"{low_edge:.6g} to {high_edge:.6g} is as good ({high_edge - low_edge:.2g} wide)"
            sentences.append(f"Every {symbol} from {extent}.")
            same_choice = f"a {symbol} within {percent(NEAR_SHARE)} of its range of this one"
        if self.stability is not None:
            sentences.append(
                f"Stability: {percent(self.stability)} of {N_DRAWS} bootstrap samples choose {same_choice}."
            )
        if self.left_out:
            sentences.append(f"Left out, as they lack a metric on some queries: {', '.join(self.left_out)}.")
        return (*sentences, f"{status_text}: {self.outcome}")

    @property
    def reported(self) -> tuple[str, ...]:
        """The sentences on test, on the gap between dev and test, and on what to do next."""
        test_rows = [f"On {self.test}: {statistics.describe_comparison(row)}" for row in _select_winner_rows(self)]
        return (*test_rows, *map(attrgetter("text"), self.gaps), *filter(None, [suggest_next_step(self)]))

    @property
    def table(self) -> list[list[str]]:
        """The means as rows of texts: a header, each candidate, and the baseline, on dev and on test."""
        columns = [(self.dev, "dev", metric) for metric in self.objective.metrics]
        if self.test is not None:
            columns += [(self.test, "test", metric) for metric in self.objective.metrics]
        head = [f"{METRICS[metric].title}@{self.k} on {split}" for split, _, metric in columns]
        table_rows = [["Decoder", *head]]
        for candidate in (*self.candidates, self.reference):
            means = [getattr(candidate, role).mean[metric] for _, role, metric in columns]
            table_rows.append([candidate.name, *map(decimal, means)])
        return table_rows

    def as_json(self) -> dict[str, Any]:
        """Return plain JSON values, NaN as null; `decoder_from_json` reads the decoders."""
        facts = {"k": self.k, "dev": self.dev, "test": self.test, "satisfied": self.satisfied}
        facts |= {"sentences": self.sentences, "objective": asdict(self.objective)}
        facts["decoder"] = decoder_to_json(self.decoder)
        facts |= {} if self.decision is None else {"decision": self.decision.as_json()}
        facts |= _decoders_as_json(self) if self.several else _settings_as_json(self)
        json_values: dict[str, Any] = _to_plain_values(facts)
        return json_values


def _count_settings(candidates: Sequence[Candidate]) -> str:
    """Count what was compared, "116 settings and every λ of 4 decoders": the measured settings and the exact curves."""
    text = counted(sum(candidate.settings for candidate in candidates), "setting")
    curves = [candidate.curve for candidate in candidates if candidate.curve is not None]
    if not curves:
        return text
    # Curves of several selectors may be over different parameters.
    symbols = " or ".join(dict.fromkeys(curve.symbol for curve in curves))
    return f"{text} and every {symbols} of {counted(len(curves), 'decoder')}"


def average_outcome(tuned: Tuned) -> tuple[dict[str, float], dict[str, float]]:
    """Return metric → mean of the choice, and of the baseline, over common queries: on test, else on dev."""
    return _average_on_common(tuned.chosen_test or tuned.chosen, tuned.base_test or tuned.base, tuned.objective)


def has_notable_gain(tuned: Tuned) -> bool:
    """Return True unless the choice's gain on test is small, below 1% of the baseline's mean, or not certain."""
    return is_notable(*_find_gain_on_test(tuned))


def _find_chosen_option(tuned: Tuned) -> Option | None:
    """Return what the decision says of the choice; None without a decision, and where the baseline stays."""
    decision = tuned.decision
    options = () if decision is None else (decision.sure, decision.bet)
    return next((option for option in options if option and option.label == tuned.chosen.label), None)


def is_choice_denied(tuned: Tuned) -> bool:
    """Return True if test does not confirm the choice, unless that is a bet, which claims no more than its estimate."""
    option = _find_chosen_option(tuned)
    return tuned.is_confirmed is False if option is None else option.is_denied


def _describe_confirmation(tuned: Tuned, split: str = "") -> str:
    """Say what test says of the choice: "confirmed on test", or of a bet "held on test"; split: "" to leave it out."""
    if (option := _find_chosen_option(tuned)) is not None:
        return option.describe_confirmation(split)
    return describe_confirmation(bool(tuned.is_confirmed), *_find_gain_on_test(tuned), split)


def _find_gain_on_test(tuned: Tuned) -> tuple[float | None, float | None]:
    """Return the choice's gain on test as a share of the baseline's mean, and the lower end of its 95% interval."""
    if tuned.decision is not None:
        option = _find_chosen_option(tuned)
        return (None, None) if option is None else (option.confirmed_gain, option.confirmed_gain_low)
    row = tuned.winner_gain
    # Of a baseline without any of the metric there is no share.
    if row is None or row.baseline_mean <= 0:
        return None, None
    return row.difference / row.baseline_mean, None if row.low is None else row.low / row.baseline_mean


def _select_winner_rows(tuned: Tuned) -> list[Comparison]:
    """Return the chosen decoder's comparisons with the baseline on test, one for each metric."""
    winner_label = tuned.chosen.label
    return [row for row in tuned.comparisons if row.label == winner_label]


def _decoders_as_json(tuned: Tuned) -> dict[str, Any]:
    """Return the JSON fields of a choice among decoders.

    A choice among the settings of one selector or scorer has other fields: see `_settings_as_json`.
    """
    candidates = []
    for candidate in (*tuned.candidates, tuned.reference):
        facts = {"decoder": decoder_to_json(candidate.decoder), "settings": candidate.settings}
        test_mean = None if candidate.test is None else candidate.test.mean
        candidates.append({**facts, "dev": candidate.dev.mean, "test": test_mean})
    comparisons = list(map(_comparison_as_json, tuned.comparisons))
    return {"confirmed": tuned.is_confirmed, "candidates": candidates, "comparisons": comparisons}


def _comparison_as_json(row: Comparison) -> dict[str, Any]:
    return {**asdict(row), "wins": row.wins._asdict()}


def _settings_as_json(tuned: Tuned) -> dict[str, Any]:
    """Return the JSON fields of a choice among the settings of one selector or scorer.

    A choice among decoders has other fields: see `_decoders_as_json`.
    """
    means = {tuned.dev: {"chosen": tuned.chosen.mean, "baseline": tuned.base.mean}}
    names = {}
    if tuned.test is not None and tuned.chosen_test is not None and tuned.base_test is not None:
        means[tuned.test] = {"chosen": tuned.chosen_test.mean, "baseline": tuned.base_test.mean}
        test_names = short_names((tuned.chosen_test, tuned.base_test), format_stage_call)
        names = {"name": test_names[0], "baseline": test_names[1]}
    facts = {"searched": tuned.searched, "queries": tuned.queries, "left_out": tuned.left_out}
    facts |= {"interval": tuned.interval} if tuned.interval else {}
    return {
        **facts,
        "held": tuned.constraint_holds_on_test,
        "firm": tuned.stability,
        "baseline": decoder_to_json(tuned.baseline),
        "means": means,
        "comparisons": [{**_comparison_as_json(row), **names, "told": row.significant} for row in tuned.comparisons],
        "gaps": [{**asdict(gap), "lost": gap.lost} for gap in tuned.gaps],
        "settings": [{"decoder": cell.decoder, "mean": cell.mean} for cell in tuned.points],
    }


def _to_plain_values(value: Any) -> Any:
    """Convert tuples to lists, and NaN and infinities to None, throughout nested values, as JSON has none."""
    match value:
        case Mapping():
            return map_values(_to_plain_values, value)
        case list() | tuple():
            return list(map(_to_plain_values, value))
        case float() if not np.isfinite(value):
            return None
    return value


def compare_cells(
    cells: Sequence[Cell], base: Cell, metrics: Sequence[str], is_choice: bool, resamples: int, seed: int
) -> tuple[Comparison, ...]:
    """Compare cells with the baseline in each metric, on the queries that have it.

    A cell is one decoder's metrics, query by query, at one k. is_choice: the cells are candidates to choose from, and
    Holm's correction is over them, metric by metric; else there is one cell, and the correction is over its metrics.
    """
    if is_choice:
        options: dict[str, Any] = {"resamples": resamples, "seed": seed}
        return tuple(row for metric in metrics for row in compare([base, *cells], metric, base, base.k, **options))
    (cell,) = cells
    # A metric that no common query has cannot be compared, and must not count in Holm's correction.
    comparisons: list[Comparison] = []
    for metric in metrics:
        if (np.isfinite(cell.values[metric]) & np.isfinite(base.values[metric])).any():
            comparisons += compare([base, cell], metric, base, base.k, resamples=resamples, seed=seed)
    return correct_comparisons(comparisons)


def compare_on_dev(tuned: Tuned) -> tuple[Comparison, ...]:
    """Compare the candidates with the baseline on dev, for display beside or instead of test.

    They were chosen on dev, so these differences look better than they are.
    """
    cells = [candidate.dev for candidate in tuned.candidates]
    return compare_cells(cells, tuned.base, tuned.objective.metrics, tuned.several, RESAMPLES.default, SEED.default)


def find_share_to_ask(tuned: Tuned) -> float | None:
    """Return the share of the baseline's Recall that both splits are sure the choice keeps, if test denies more."""
    if tuned.decision is None or tuned.estimates is None or tuned.is_confirmed is not False:
        return None
    sure = tuned.decision.sure
    is_chosen = sure is not None and sure.label == tuned.chosen.label
    return find_lower_share(tuned.estimates, tuned.decision) if is_chosen else None


def ask_lower_share(tuned: Tuned) -> Tuned:
    """Return the result for the share that both splits are sure of: the same choice, of which less is asked.

    Nothing is chosen anew, so what test has measured of the choice holds. Without such a share it stays as it is.
    """
    share = find_share_to_ask(tuned)
    if share is None or tuned.estimates is None:
        return tuned
    test_cells = [tuned.base_test]
    for candidate in tuned.candidates:
        test_cells += [] if candidate.test is None else [candidate.test]
    decision = tuned.estimates.decide(share, confirm=test_cells, pinned=tuned.chosen.label)
    return replace(tuned, objective=replace(tuned.objective, share=share), decision=decision)


def suggest_next_step(tuned: Tuned) -> str:
    """Suggest what to do where no decoder is certain on dev, or test does not confirm it; "" otherwise."""
    if not tuned.several:
        return ""
    suggestions = _suggest_for_certainty(tuned) if tuned.stays else []
    option = _find_chosen_option(tuned)
    is_unproven = option is not None and option.is_sure and option.agrees
    if not tuned.stays and (is_choice_denied(tuned) or is_unproven):
        suggestions = _suggest_for_confirmation(tuned)
    return f"Next: {'; or '.join(suggestions)}." if suggestions else ""


def _suggest_for_certainty(tuned: Tuned) -> list[str]:
    """Suggest steps where no decoder surely keeps the required Recall: judgements, a lower share, more dev queries.

    The number of queries needed is that which would show that the nearest candidate keeps the share.
    """
    nearest, suggestions = tuned.candidates[0], _suggest_judging(tuned)
    assert tuned.decision is not None
    option = next(option for option in tuned.decision.options if option.label == nearest.dev.label)
    # What is unknown of its documents is settled neither by a lower share nor by other queries.
    if option.is_left_out:
        return suggestions
    if n_missing := tuned.decision.missing_queries:
        return [*suggestions, f"judge {counted(n_missing, 'more query', 'more queries')} for {tuned.dev}"]
    # Rounded down, as a larger share is not sure; the 1e-9 saves a whole percent that lies a rounding below.
    sure_share = np.floor(100 * option.sure_share + 1e-9) / 100
    if 0.01 <= sure_share < tuned.objective.share:
        suggestions.append(f"ask for a share of {percent(sure_share)}, which {nearest.name} is sure to keep")
    # A query's slack is its Recall less the required share of the baseline's.
    slack = nearest.dev.values[RELEVANT] - tuned.objective.share * tuned.base.values[RELEVANT]
    slack = slack[np.isfinite(slack)]
    n_needed = statistics.estimate_queries_needed(slack, slack.mean()) if len(slack) and slack.mean() > 0 else None
    if n_needed is not None and n_needed > len(slack):
        suggestions.append(f"judge {counted(n_needed - len(slack), 'more query', 'more queries')} for {tuned.dev}")
    return suggestions


def _suggest_judging(tuned: Tuned) -> list[str]:
    """Suggest to judge the documents for lack of which settings are no candidates."""
    estimates, share = tuned.estimates, tuned.objective.share
    cell_index = None if estimates is None else estimates.find_cell_to_judge(share)
    if estimates is None or cell_index is None or not (n_missing := estimates.count_missing(share)):
        return []
    documents = counted(n_missing, "document")
    return [f"judge the {documents} without a grade that {estimates.aligned.names[cell_index]} returns on {tuned.dev}"]


def _suggest_for_confirmation(tuned: Tuned) -> list[str]:
    """Suggest what to do where test does not confirm the choice: a lower share, more test queries."""
    test_cell, base, suggestions = tuned.chosen_test, tuned.base_test, []
    _, base_means = average_outcome(tuned)
    sure = None if tuned.decision is None else tuned.decision.sure
    if (share := find_share_to_ask(tuned)) is not None:
        suggestions.append(f"ask for a share of {percent(share, 0)}, which it is sure to keep on {tuned.test}")
    if sure is not None and sure.agrees:
        # Without a number so many queries would be needed that nobody judges them.
        if sure.confirmed_needed is not None and sure.confirmed_queries is not None:
            n_more = sure.confirmed_needed - sure.confirmed_queries
            suggestions.append(f"judge about {counted(n_more, 'more query', 'more queries')} for {tuned.test}")
        return suggestions
    metric = RELEVANT if sure is not None else tuned.objective.metrics[-1]
    paired_values = np.stack([test_cell.values[metric], base.values[metric]])
    paired_values = paired_values[:, np.isfinite(paired_values).all(0)]
    # The difference to detect: the loss that is allowed, or the gain that dev showed.
    if sure is not None:
        difference = (1 - tuned.objective.share) * base_means[RELEVANT]
    else:
        dev_means, dev_base = _average_on_common(tuned.chosen, tuned.base, tuned.objective)
        difference = dev_means[metric] - dev_base[metric]
    gains, n_pairs = paired_values[0] - paired_values[1], paired_values.shape[1]
    n_needed = statistics.estimate_queries_needed(gains, difference) if difference else None
    if n_needed is not None and n_needed > n_pairs:
        more_text = counted(n_needed - n_pairs, "more query", "more queries")
        effect_text = f"a difference of {decimal(abs(difference))} {METRICS[metric].title}"
        suggestions.append(f"judge {more_text} for {tuned.test}: {effect_text} takes {n_needed:,} to be seen")
    return suggestions or [f"more queries for {tuned.test}: on {n_pairs:,} what it gains is not told from chance"]


def _average_on_common(cell: Cell, base: Cell, objective: Objective) -> tuple[dict[str, float], dict[str, float]]:
    """Return both cells' means over the queries that have the objective's metrics in both.

    A cell is one decoder's metrics, query by query, at one k.
    """
    metrics = objective.metrics
    is_common = find_complete_queries(cell, metrics) & find_complete_queries(base, metrics)
    return average_over(cell, metrics, is_common), average_over(base, metrics, is_common)


def average_over(cell: Cell, metrics: Sequence[str], is_selected: np.ndarray) -> dict[str, float]:
    """Average metrics of a cell over some of its queries; is_selected: (queries,) mask.

    A cell is one decoder's metrics, query by query, at one k.
    """
    return {metric: float(cell.values[metric][is_selected].mean()) for metric in metrics}
