"""The result of a tuning: the setting, or the best of all decoders, its report on other queries, and its export."""

import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from html import escape
from typing import Any, Literal

import streamlit as st

from dashboard.charts.differences import ForestRow, plot_forest
from dashboard.charts.parameters import plot_heat_map, plot_slices
from dashboard.charts.verdict_data import format_sure_share
from dashboard.components.live_plot import Picked, is_dark, plot
from dashboard.services import trained
from dashboard.services.off_topic import find_counts
from dashboard.services.query_vectors import find_query_vectors
from dashboard.services.request import select_judged_queries
from dashboard.services.source import Loaded
from dashboard.session import decoders
from dashboard.session.choices import (
    SCOPE_HELP,
    TRADEOFF,
    TUNE,
    PageChoice,
    describe_other_choice,
    digest_query_ids,
    remember_choice,
)
from dashboard.session.judging import build_request, set_request
from dashboard.tuning import budget_views
from dashboard.tuning.request import TuningOutcome
from dashboard.widgets.basics import download_button
from dashboard.widgets.choices import choose, select
from dashboard.widgets.off_topic import list_choices, take_or_await
from dashboard.widgets.tables import draw_columns, draw_table, name_metric, number_column, pair, text_column
from engine.errors import DataError, ParamError
from engine.evaluation.decision import Decision, Option, describe_confirmed_share
from engine.evaluation.export_decoder import export_all
from engine.evaluation.heat_map import build_slices, compute_importance, heat_map
from engine.evaluation.metrics import METRICS, mean_of_defined
from engine.evaluation.off_topic import OffTopicCounts
from engine.evaluation.paired import declared_parameters, format_decoder
from engine.evaluation.statistics import Comparison, describe_comparison, format_p_value
from engine.evaluation.sweep.cell import Cell, decoder_from_json
from engine.evaluation.tables import SIGNIFICANCE_ARROWS, build_frame, format_csv
from engine.evaluation.tuning.objectives import DIVERSE, RELEVANT, Objective
from engine.evaluation.tuning.tune import REPORTED_METRICS
from engine.evaluation.tuning.tuned import (
    Tuned,
    compare_on_dev,
    find_share_to_ask,
    has_notable_gain,
    is_choice_denied,
    suggest_next_step,
)
from engine.progress import counted
from engine.stages import methods
from engine.wording import percent, signed, visible

HEADING_STYLE = "font-size: 1.5rem; font-weight: 700; line-height: 1.2"
STATUS_COLOURS = {True: "light-dark(#15803D, #4ADE80)", False: "light-dark(#B91C1C, #F87171)", None: "inherit"}
"""Colour of a verdict, by whether the choice is confirmed; None if nothing is claimed, or little is gained."""
DIFFERENCE_CAPTION = (
    "From, to: 95% paired bootstrap CI of the difference, with Holm's correction. ↑ ↓ significant (test and interval "
    "agree)."
)
CHOICES_STYLE = """<style>.tune-choices { overflow-x: auto }
.tune-choices table { border-collapse: collapse; font-variant-numeric: tabular-nums }
.tune-choices :is(th, td) { text-align: left; padding: 3px 20px 3px 0; white-space: nowrap }
.tune-choices th { font-weight: 400; opacity: .72 }
.tune-choices td:nth-child(2) { font-weight: 600 }
@media (max-width: 640px) { .tune-choices :is(table, tbody, tr, td) { display: block; white-space: normal; padding: 0 }
.tune-choices thead { display: none } .tune-choices tr { padding-bottom: 10px }
.tune-choices td:not([data-title=""])::before { content: attr(data-title) ": "; font-weight: 400; opacity: .72 }
.tune-choices td:empty { display: none } }</style>"""
"""On a narrow screen each row is a list of its cells with their titles."""
SLICES, HEAT_MAP, TABLE = "Slices", "Heat-map", "All settings"
DELTA_COLUMN = number_column("%+.3f")
PICKED, REPORTED = "tune.picked", "tune.reported"
"""Session keys: the setting that was opened last, and the one that the table reported last."""


def draw_result(loaded: Loaded, outcome: TuningOutcome, stale: bool, ask_lower_share: Callable[[], None]) -> None:
    """Draw the result of a tuning: the chosen setting, its gain over the baseline, and all settings.

    stale: True if the form has changed since; ask_lower_share: asks the choice for the share that both splits are sure
    it keeps
    """
    counts = _find_off_topic(loaded, outcome)
    if (decision := outcome.tuned.decision) is not None:
        outcome = replace(outcome, tuned=replace(outcome.tuned, decision=replace(decision, off_topic=counts)))
    tuned = outcome.tuned
    _draw_verdict(loaded, outcome, stale, ask_lower_share, counts)
    _draw_unmeasured_bet(tuned)
    if tuned.decision is not None:
        budget_views.draw_after(tuned)
    if tuned.several:
        _draw_decoder_forests(tuned)
    else:
        chart_column, side_column = pair("tune-charts")
        with chart_column:
            _draw_chosen_forest(tuned)
        with side_column:
            draw_points(tuned.points, tuned.base, tuned.k, tuned.objective, tuned.chosen)
    with st.expander("Table and details"):
        if tuned.several:
            _draw_decoder_table(tuned)
        else:
            _draw_report(tuned)
        st.text("\n".join(map(visible, tuned.sentences)))
    with st.expander("Code and files"):
        _draw_export(loaded, outcome)


def _find_off_topic(loaded: Loaded, outcome: TuningOutcome) -> OffTopicCounts | None:
    """Return how many documents of the choices' lists are off-topic, on the queries that chose them; None unknown."""
    tuned = outcome.tuned
    choices = [tuned.decoder, *list_choices(tuned.decision)]
    try:
        qrels = outcome.request.splits(loaded.dataset).qrels
    except DataError:
        # The split has been renamed or taken away since.
        return None
    vectors = find_query_vectors(loaded, select_judged_queries(loaded.dataset, qrels))
    chosen_on = set(tuned.base.queries)
    if vectors is None or tuned.dev not in qrels or not chosen_on.issubset(vectors.ids):
        return None
    rows = [row for row, query_id in enumerate(vectors.ids) if query_id in chosen_on]
    baseline = format_decoder(tuned.base.decoder, with_scorers=False), tuned.baseline
    return take_or_await(find_counts(loaded, baseline, choices, vectors.take(rows), qrels[tuned.dev], tuned.k))


def _draw_verdict(
    loaded: Loaded,
    outcome: TuningOutcome,
    stale: bool,
    ask_lower_share: Callable[[], None],
    counts: OffTopicCounts | None,
) -> None:
    """Draw the chosen setting, if its gain was confirmed on other queries, and what to do next.

    counts: of off-topic documents in the choices' lists, None where they are unknown
    """
    tuned = outcome.tuned
    name = tuned.winner.name if tuned.several else format_decoder(tuned.chosen.decoder, with_scorers=False)
    gain_text = describe_comparison(tuned.winner_gain) if tuned.several and tuned.winner_gain is not None else ""
    with st.container(border=True, key="tune-verdict"):
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            # A confirmed gain that hardly matters is no success to be seen in green.
            is_success = None
            if is_choice_denied(tuned) or (tuned.is_confirmed and has_notable_gain(tuned)):
                is_success = tuned.is_confirmed
            colour = STATUS_COLOURS[is_success]
            status = f'<span style="color: {colour}">{escape(visible(tuned.status))}</span>'
            # The heading is HTML, so the name and the status are escaped.
            heading = f"{escape(name)}{'' if tuned.stays else ':'} {status}"
            st.html(f'<div role="heading" aria-level="2" style="{HEADING_STYLE}">{heading}</div>', width="content")
            if stale:
                st.badge("from earlier settings", icon=":material/history:", color="gray")
        if tuned.decision is not None:
            if tuned.decision.warning:
                st.warning(visible(tuned.decision.warning), icon=":material/warning:")
            st.html(_build_choices_table(tuned, tuned.decision))
        else:
            for line in filter(None, [tuned.outcome, gain_text]):
                st.text(visible(line))
        # A place of their own, so that what follows stays as it is, an opened part too, when they come.
        with st.container(gap=None):
            for line in _list_off_topic(tuned, name, counts):
                st.text(visible(line))
        is_off_topic = counts is not None and counts.adds_documents(tuned.decoder.label)
        _draw_next(loaded, outcome, name, ask_lower_share, is_off_topic)


def _list_off_topic(tuned: Tuned, name: str, counts: OffTopicCounts | None) -> list[str]:
    """Say how many documents of each choice's lists are off-topic, where that differs from the baseline's.

    name: of the choice
    """
    if counts is None:
        return []
    names = {tuned.decoder.label: name}
    for option in (tuned.decision.sure, tuned.decision.bet) if tuned.decision is not None else ():
        if option is not None:
            names[option.label] = option.name
    texts = {choice_name: counts.describe(label) for label, choice_name in names.items()}
    return [f"{choice_name}: {text}." for choice_name, text in texts.items() if text]


def _build_choices_table(tuned: Tuned, decision: Decision) -> str:
    """Build the table of the sure setting and the bet as HTML: what each keeps and gains on both splits.

    Without both it has the setting that most likely keeps the required share.
    """
    dev, test = tuned.dev, tuned.test
    # Without a second split nothing is confirmed, and its columns would be empty.
    test_heads = [] if test is None else [f"Keeps on {test}", f"Diversity on {test}", ""]
    # On a phone each figure stands beside its heading, so that one names the split as well.
    heads = ["", "Setting", f"Keeps on {dev}", "Diversity" if test is None else f"Diversity on {dev}", *test_heads]
    titles = list(map(escape, map(visible, heads)))
    choices = [("Sure", decision.sure), ("Bet", decision.bet)]
    if decision.sure is None and decision.bet is None:
        choices.append(("Nearest", decision.nearest))
    rows = []
    for role, option in choices:
        if option is None:
            continue
        dev_text, chance = percent(option.share_kept, 1), ""
        if option.chance is not None:
            dev_text += f", {format_sure_share(option)}"
            chance = "" if option.is_sure else f" ({option.times_in_hundred} in 100 for {decision.budget_text})"
        cells = [role, option.name, f"{dev_text}{chance}", f"{signed(100 * option.gain, 0)}%"]
        if test is not None:
            cells += _list_test_cells(option, test)
        colour = STATUS_COLOURS[option.confirmed if option.confirmed or option.is_denied else None]
        # The verdict is the last column where there is one.
        looks = [""] * (len(cells) - 1) + ["" if test is None else f' style="color: {colour}"']
        row = ""
        for title, text, look in zip(titles, map(escape, map(visible, cells)), looks, strict=True):
            row += f'<td data-title="{title}"{look}>{text}</td>'
        rows.append(f"<tr>{row}</tr>")
    head = '</th><th scope="col">'.join(titles)
    body = f'<thead><tr><th scope="col">{head}</th></tr></thead><tbody>{"".join(rows)}</tbody>'
    return f'{CHOICES_STYLE}<div class="tune-choices"><table>{body}</table></div>'


def _list_test_cells(option: Option, test: str) -> list[str]:
    """Return what the other split says of a choice: the share that it keeps, its gain, and the verdict; "" unknown."""
    if option.confirmed_share is None:
        return ["", "", f"not measured on {test}"]
    gain = "" if option.confirmed_gain is None else f"{signed(100 * option.confirmed_gain, 0)}%"
    return [describe_confirmed_share(option), gain, option.confirmation]


def _draw_unmeasured_bet(tuned: Tuned) -> None:
    """Draw that the other split has never measured the bet.

    After a lower share was asked for, the bet may be another setting than those that were measured there.
    """
    bet = None if tuned.decision is None else tuned.decision.bet
    if tuned.test is None or bet is None or bet.confirmed_share is not None:
        return
    # It is not run from here: the run would choose anew, and might lose the choice that is confirmed.
    again = f"a run at {percent(tuned.objective.share)} would choose anew, and measure its bet there"
    st.text(visible(f"The bet, {bet.name}, was never measured on {tuned.test}; {again}."))


def _draw_next(
    loaded: Loaded, outcome: TuningOutcome, name: str, ask_lower_share: Callable[[], None], is_off_topic: bool
) -> None:
    """Draw what to do next, as buttons and in words, and all sentences on the choice behind one more button.

    name: of the choice; ask_lower_share: as in `draw_result`; is_off_topic: the choice puts off-topic documents in its
    lists
    """
    tuned, decision = outcome.tuned, outcome.tuned.decision
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        if (share := find_share_to_ask(tuned)) is not None:
            st.button(
                f"Keep {percent(share)} instead",
                # A choice with which the other split agrees may be used as it is.
                type="primary" if is_choice_denied(tuned) else "secondary",
                key="tune.lower",
                on_click=ask_lower_share,
                help="The other split confirms that the same setting keeps that much.",
            )
        _draw_judge_button(loaded, tuned)
        # A choice that the other split denies is not what the page advises, nor one by passages or few queries, nor one
        # off the topic.
        is_weak = decision is not None and (decision.is_on_passages or decision.missing_queries > 0)
        is_advised = not is_choice_denied(tuned) and not is_weak and not is_off_topic
        kind: Literal["primary", "secondary"] = "primary" if is_advised else "secondary"
        draw_apply_button(tuned.chosen, tuned.k, "tune.apply", kind)
        # There is a decision if the objective requires a share of the baseline's Recall. It says all that the other
        # sentences say, in the words of the Trade-off page.
        with st.popover("How it was chosen"):
            lines = [] if decision is None else list(decision.sentences)
            if decision is not None and decision.differs_at_next_level:
                level = decision.relevant_from
                lines.append(f"What counts is the level that is set, grade {level} (Data, Relevant from).")
            for line in filter(None, [*lines, decoders.describe_scorers(tuned.decoder)]):
                st.text(visible(line))
            if tuned.objective.constrained:
                _draw_other_choice(loaded, tuned, name)
        # A sample of the queries limits what the verdict is worth, so that is said beside it.
        for line in filter(None, [suggest_next_step(tuned), outcome.remarks]):
            st.text(visible(line))


def _draw_other_choice(loaded: Loaded, tuned: Tuned, name: str) -> None:
    """Draw what Trade-off chose for the same question in this session, and why both may differ; name: of the choice."""
    choice = PageChoice(
        name="no other setting" if tuned.stays else name,
        n_queries=tuned.queries if tuned.decision is None else tuned.decision.queries,
        queries_digest=digest_query_ids(
            tuned.base.queries if tuned.estimates is None else tuned.estimates.aligned.queries
        ),
        split=tuned.dev,
        status=tuned.status if tuned.is_confirmed is not None else "",
    )
    question = tuned.k, tuned.objective.share
    remember_choice(loaded, TUNE, *question, choice)
    other_text = describe_other_choice(loaded, TRADEOFF, *question, choice)
    own_text = f"Chosen on {tuned.dev}; Trade-off chooses on the queries that it shows."
    # Names of splits are not ours: a text is never read as Markdown.
    st.text(visible(other_text or own_text), help=SCOPE_HELP)


def _draw_judge_button(loaded: Loaded, tuned: Tuned) -> None:
    """Draw the button that goes to the documents whose judgements would give another candidate, if there are any."""
    has_budget = tuned.decision is not None
    request = build_request(loaded, tuned.estimates, tuned.objective.share, {}) if has_budget else None
    if request is None:
        return
    why = "Too many of the documents that the most promising setting returns have no judgement."
    if st.button(f"Judge {counted(request.n_missing, 'more document')}", key="tune.judge", help=why):
        set_request(request)
        st.switch_page(decoders.DATA_SCREEN)


def _draw_chosen_forest(tuned: Tuned) -> None:
    """Draw the chosen setting's differences to the baseline as intervals, on both splits of queries.

    The rows are of the metric that was to gain and, if a share of Recall was to be kept, of that too.
    """
    # (name, True for queries that confirm, comparisons); without confirming queries the first is empty.
    splits = [(tuned.test or "", True, tuned.comparisons), (tuned.dev, False, compare_on_dev(tuned))]
    rows = []
    # The gain comes first, then its price.
    for metric in tuned.objective.metrics[::-1]:
        for split_name, is_confirming, comparisons in splits:
            label = f"{name_metric(metric)} on {split_name}"
            matches = [comparison for comparison in comparisons if comparison.metric == metric]
            bound = _find_sure_share(tuned, metric, is_confirming)
            rows += [ForestRow(label, tuned.chosen.method, is_confirming, comparison, bound) for comparison in matches]
    _draw_forest(tuned, rows, "tune.forest", "Filled: queries it was not chosen on." if tuned.comparisons else "")


def _draw_decoder_forests(tuned: Tuned) -> None:
    """Draw each decoder's best setting against the baseline, a chart of intervals per metric."""
    # The metric that was to gain comes first. A goal with one metric leaves the second column empty.
    metrics = tuned.objective.metrics[::-1]
    split_name, comparisons = _get_report_comparisons(tuned)
    by_label, is_confirming = _index_candidates(tuned), tuned.test is not None
    for column, metric in zip(pair("tune-charts"), metrics, strict=False):
        rows = []
        for row in comparisons:
            if row.metric == metric:
                is_chosen = row.label == tuned.chosen.label
                bound = _find_sure_share(tuned, metric, is_confirming) if is_chosen else None
                rows.append(ForestRow(row.name, by_label[row.label].dev.method, is_chosen, row, bound))
        with column:
            scope = f"{name_metric(metric, tuned.k)} on {visible(split_name)}"
            has_choice = any(row.difference.label == tuned.chosen.label for row in rows)
            caption = "Filled: the choice." if has_choice else budget_views.NO_CHOICE
            _draw_forest(tuned, rows, f"tune.forest.{metric}", caption, scope)


def _find_sure_share(tuned: Tuned, metric: str, is_confirming: bool) -> float | None:
    """Return the share of the baseline's metric that the choice surely keeps, by the verdict's one-sided bound.

    None for a metric of which no share is asked, or without a bound. is_confirming: on the queries that confirm, else
    on those it was chosen on
    """
    decision = tuned.decision
    if decision is None or not tuned.objective.constrained or metric != tuned.objective.metrics[0]:
        return None
    choices = [option for option in (decision.sure, decision.bet, decision.nearest) if option is not None]
    option = next((option for option in choices if option.label == tuned.chosen.label), None)
    if option is None or option.is_left_out or option.chance is None:
        return None
    return option.confirmed_low if is_confirming else option.sure_share


def _index_candidates(tuned: Tuned) -> dict[str, Any]:
    """Return label → decoder at its best setting, of all decoders that a tuning compared."""
    return {candidate.dev.label: candidate for candidate in tuned.candidates}


def _get_report_comparisons(tuned: Tuned) -> tuple[str, Sequence[Comparison]]:
    """Return a split and the differences to the baseline on it: the confirming one, else the choosing one."""
    return (tuned.dev, compare_on_dev(tuned)) if tuned.test is None else (tuned.test, tuned.comparisons)


def _draw_forest(tuned: Tuned, rows: Sequence[ForestRow], key: str, caption: str, scope: str = "") -> None:
    """Draw a chart of differences to the baseline with intervals, and the share that must be kept.

    rows: one for each interval; key: of the chart; caption: what marks mean; scope: metric and split, if the rows do
    not name them
    """
    if not rows:
        return
    # The first metric of a goal with a bound is the one of which a share is kept.
    min_shares = {tuned.objective.metrics[0]: tuned.objective.share} if tuned.objective.constrained else {}
    st.markdown(f"**{f'{scope}: d' if scope else 'D'}ifference to {rows[0].difference.baseline}**")
    plot(plot_forest(rows, min_shares, is_dark()), key, file="forest", label=f"{tuned.status}: {tuned.outcome}")
    st.caption(" ".join(filter(None, [caption, _describe_bars(tuned, rows)])))


def _describe_bars(tuned: Tuned, rows: Sequence[ForestRow]) -> str:
    """Describe the intervals of a chart of differences, and the bound on one side that a choice has."""
    # The chart's intervals allow for all of its rows, the verdict for one setting and one direction.
    n_compared = max(row.difference.comparisons for row in rows)
    bars_text = "Bars: 95% bootstrap intervals"
    if n_compared > 1:
        bars_text += f", widened as {n_compared:,} differences are looked at (Holm)"
    if all(row.sure_share is None for row in rows):
        return f"{bars_text}."
    return f"{bars_text}. Tick on one side: what the choice surely keeps (95%), by which the verdict is given."


def _draw_report(tuned: Tuned) -> None:
    """Draw the table of the chosen setting beside the baseline, by metric, on both splits of queries."""
    rows = {comparison.metric: comparison for comparison in tuned.comparisons}
    base_name = methods("selector")[tuned.base.method].title
    dev_name, test_name = visible(tuned.dev), visible(tuned.test or "")
    table = []
    reported = {*REPORTED_METRICS, *tuned.objective.metrics}
    for metric in filter(reported.__contains__, list_metrics(tuned.chosen)):
        table_row = {
            "Metric": name_metric(metric, tuned.k),
            f"{dev_name}: {base_name}": tuned.base.mean[metric],
            f"{dev_name}: chosen": tuned.chosen.mean[metric],
        }
        if comparison := rows.get(metric):
            table_row |= {
                f"{test_name}: {base_name}": comparison.baseline_mean,
                f"{test_name}: chosen": comparison.mean,
                **_format_difference_values(comparison),
                **dict(zip(("Better", "Same", "Worse"), comparison.wins, strict=True)),
            }
        table.append(table_row)
    # Only the columns of means have a split and a colon in their names.
    means = [name for name in table[0] if ": " in name]
    draw_table(table, {**dict.fromkeys(means, number_column("%.3f")), **_build_difference_columns("")}, placeholder="")
    if tuned.reported:
        st.caption(DIFFERENCE_CAPTION)


def _build_difference_columns(prefix: str) -> dict[str, Any]:
    """Return column name → settings of the column, for a difference with its arrow, interval and p-value.

    The columns are those of `_format_difference_values`. prefix: of the columns' names
    """
    signed = number_column("%+.3f")
    return {
        f"{prefix}difference": number_column("%+.3f", help="Chosen − baseline"),
        prefix.strip(): text_column(30, "↑ ↓ significant"),
        f"{prefix}from": signed,
        f"{prefix}to": signed,
        f"{prefix}p": text_column(help="Paired randomisation test, uncorrected"),
        f"{prefix}p (Holm)": text_column(help="With Holm's correction over the rows, as the interval"),
    }


def _format_difference_values(row: Comparison, prefix: str = "") -> dict[str, Any]:
    """Return column name → cell, for a difference with its arrow, interval and p-value.

    prefix: of the columns' names; without one the arrow's column has the empty name
    """
    direction = 1 if row.difference > 0 else -1
    arrow = SIGNIFICANCE_ARROWS[direction if row.significant else 0]
    return {
        f"{prefix}difference": row.difference,
        prefix.strip(): arrow.strip(),
        f"{prefix}from": row.low,
        f"{prefix}to": row.high,
        f"{prefix}p": _format_short_p(row.p),
        f"{prefix}p (Holm)": _format_short_p(row.p_holm),
    }


def _format_short_p(p_value: float) -> str:
    """Format a p-value for a column that is called p."""
    return format_p_value(p_value).removeprefix("p = ").removeprefix("p ")


def _draw_decoder_table(tuned: Tuned) -> None:
    """Draw the table of each decoder's best setting, with its differences to the baseline by metric."""
    split, comparisons = _get_report_comparisons(tuned)
    by_label = _index_candidates(tuned)
    # The metric that was to gain comes first, then the one of which a share was to be kept.
    metrics = tuned.objective.metrics[::-1]
    rows: dict[str, dict[str, Any]] = {}
    for row in sorted(comparisons, key=lambda row: metrics.index(row.metric)):
        table_row = rows.setdefault(row.label, {"Decoder": row.name, "Settings": by_label[row.label].settings})
        table_row |= _format_difference_values(row, f"{name_metric(row.metric)} ")
    columns: dict[str, Any] = {}
    for metric in metrics:
        columns |= _build_difference_columns(f"{name_metric(metric)} ")
    draw_table(list(rows.values()), columns, placeholder="")
    scope_text = f"Each at its best on {tuned.dev}, measured on {split}."
    st.caption(f"{visible(scope_text)} {DIFFERENCE_CAPTION}")


def _draw_export(loaded: Loaded, outcome: TuningOutcome) -> None:
    """Draw the chosen decoder as code, and the downloads of the result."""
    tuned = outcome.tuned
    export_context = trained.export_context(loaded, tuned.k, documents=outcome.documents)
    snippets = {s.title: s for s in export_all(tuned.decoder, export_context)}
    chart_column, side_column = st.columns([3, 1], vertical_alignment="bottom")
    with chart_column:
        snippet = snippets[choose("For", snippets, "tune.target")]
    with side_column.popover("Download", icon=":material/download:", width="stretch"):
        file_stem = f"tuned-{tuned.decoder.select.spec.name}"
        content = json.dumps(tuned.as_json(), ensure_ascii=False, indent=2, allow_nan=False)
        cells = format_csv(build_frame([tuned.base, *tuned.points]))
        download_button("Result, JSON", content, f"{file_stem}.json", "application/json", "tune.json", width="stretch")
        download_button("All settings, CSV", cells, f"{file_stem}.csv", "text/csv", "tune.csv", width="stretch")
    st.code(snippet.text, language=snippet.language, wrap_lines=True)


def draw_points(points: Sequence[Cell], base: Cell, k: int, objective: Objective, chosen: Cell | None = None) -> None:
    """Draw all measured settings of one selector, as slices along each parameter, heat map or table.

    points: the settings; base: the baseline; chosen: the best one, None before the end. Below are the
    parameters that matter most, and the setting that was clicked.
    """
    metrics = tuple(dict.fromkeys((RELEVANT, DIVERSE, *objective.metrics)))
    view_names = [SLICES, TABLE]
    # A heat map needs exactly two varying parameters.
    with suppress(ParamError, DataError):
        # Computed for its error only: without one the heat map is offered.
        heat_map(points, objective.metrics[-1], k)
        view_names = [SLICES, HEAT_MAP, TABLE]
    view = choose("View", view_names, f"tune.view.{len(view_names)}")
    if view == HEAT_MAP:
        _draw_heat_map(points, objective, k, chosen)
    elif view == TABLE:
        _draw_table(points, base, chosen)
    else:
        _draw_slices(points, base, metrics, k, chosen)
    for metric in metrics:
        if importance := compute_importance(points, metric, k):
            parts = [f"{symbol} {percent(share)}" for symbol, share in importance.items()]
            parts.append(f"together {percent(1 - sum(importance.values()))}")
            st.caption(f"What moves {name_metric(metric)} (share of its variance): {' · '.join(parts)}")
    _draw_opened(points, base, k, chosen)


def list_metrics(point: Cell) -> list[str]:
    """Return the metrics of a setting in the order of their declaration; a store sorts them by name."""
    return [metric for metric in METRICS if metric in point.values]


def _draw_slices(points: Sequence[Cell], baseline: Cell, metrics: tuple[str, ...], k: int, chosen: Cell | None) -> None:
    """Draw each metric over each parameter, a point for each measured setting; a click opens one."""
    grid = build_slices(points, baseline, metrics, k, chosen_cell=chosen)
    if not grid.slices:
        st.caption("One setting so far.")
        return
    _open_clicked("slices", plot(plot_slices(grid, is_dark()), "tune.slices", file="slices"))
    notes = ["dashed = chosen"] if chosen else []
    if chosen and len(grid.slices) > 1:
        notes.append("joined = differs from it in this parameter alone")
    st.caption(" · ".join(["Tuning queries", *notes, f"dotted = {_format_name(baseline)}", "click a point to open it"]))


def _draw_heat_map(points: Sequence[Cell], objective: Objective, set_size: int, chosen: Cell | None) -> None:
    """Draw a metric over the two parameters that vary as a heat map; a click on a cell opens its setting."""
    metric_names = list_metrics(points[0])
    last = objective.metrics[-1]
    metric = select(
        "Metric of the map", metric_names, "tune.map.metric", default=last, format_func=name_metric, width=220
    )
    grid = heat_map(points, metric, set_size)
    figure = plot_heat_map(grid, is_dark(), None if chosen is None else chosen.key, clickable=True)
    _open_clicked("map", plot(figure, "tune.map", file="heat-map"))
    query_counts = grid.queries[grid.keys != ""]
    notes = ["Tuning queries", *(["framed = chosen"] if chosen else []), "click a cell to open it"]
    if query_counts.min() < query_counts.max():
        notes.append("cells with fewer queries are not comparable")
    st.caption(" · ".join(notes))


def _draw_table(points: Sequence[Cell], baseline: Cell, chosen: Cell | None) -> None:
    """Draw the measured settings as a table of differences to the baseline; selecting a row opens it."""
    rows = [baseline, *points]
    frame = build_frame(rows)
    marks = [_format_name(baseline), *("chosen" if chosen and cell.key == chosen.key else "" for cell in points)]
    columns: dict[str, tuple[Any, Any]] = {"": (marks, text_column(80))}
    for name, param in declared_parameters(points[0].method).items():
        # Parameters with one value everywhere get no column.
        if len({cell.decoder["select"][name] for cell in points}) > 1:
            values = frame[f"select.{name}"].astype(object)
            # NaN stands for an unset parameter, which the table shows as an empty cell.
            columns[param.symbol] = values.where(values.notna(), None), None
    for metric in list_metrics(points[0]):
        columns[name_metric(metric)] = [_mean_difference(cell, baseline, metric) for cell in rows], DELTA_COLUMN
    columns["Returned"] = frame["returned"], number_column("%.1f", help="Documents per query, on average")
    columns["ms per query"] = frame["milliseconds"], number_column("%.2f", help="Median of single calls")
    event = draw_columns(
        columns,
        key=f"tune.table.{len(rows)}",
        on_select="rerun",
        selection_mode="single-row",
        placeholder="",
        height=min(36 * (len(rows) + 1) + 2, 420),
    )
    row_index = next(iter(event.selection.rows), None)
    key = None if row_index is None or row_index >= len(rows) else rows[row_index].key
    # Open a setting when the table reports another one than before. If none is selected, the open one stays.
    if key != st.session_state.get(REPORTED):
        st.session_state[REPORTED] = key
        st.session_state[PICKED] = key or st.session_state.get(PICKED)
    st.caption(f"Differences to {_format_name(baseline)} on the tuning queries. Select a row to open its setting.")


def _mean_difference(point: Cell, baseline: Cell, metric: str) -> float:
    """Return a setting's mean difference to the baseline, over queries for which both have the metric."""
    return mean_of_defined(point.values[metric] - baseline.values[metric])


def _format_name(point: Cell) -> str:
    """Return the decoder's name with its parameters, without the scorers."""
    return format_decoder(point.decoder, with_scorers=False)


def _open_clicked(view: str, picked: Picked) -> None:
    """Open the setting whose point was clicked since the last run of the page.

    view: name of the chart it was clicked in; picked: the chart's report, which repeats its last click
    """
    clicks = st.session_state.setdefault("tune.clicks", {})
    if picked.clicks != clicks.get(view, 0):
        clicks[view] = picked.clicks
        st.session_state[PICKED] = picked.clicked


def _draw_opened(points: Sequence[Cell], baseline: Cell, set_size: int, chosen: Cell | None) -> None:
    """Draw the setting that was clicked last, its differences to the baseline, and the button to Explore.

    Nothing is drawn if none was clicked. set_size: k for Explore; chosen: the best setting, for comparison
    """
    point = next((p for p in points if p.key == st.session_state.get(PICKED)), None)
    if point is None:
        return
    with st.container(border=True):
        text_column, button = st.columns([5, 2], vertical_alignment="center")
        chosen_text = " (chosen)" if chosen is not None and point.key == chosen.key else ""
        text_column.text(f"{_format_name(point)}{chosen_text}, on {point.split}")
        with button:
            draw_apply_button(point, set_size, "tune.apply.opened")
        settings = {"This setting": point, **({"Chosen": chosen} if chosen else {})}
        metrics, rows = list_metrics(point), []
        for name, cell in settings.items():
            rows.append(
                {"": name} | {name_metric(metric): _mean_difference(cell, baseline, metric) for metric in metrics}
            )
        draw_table(rows, dict.fromkeys(map(name_metric, metrics), DELTA_COLUMN))
        st.caption(f"Differences to {_format_name(baseline)}.")


def draw_apply_button(point: Cell, k: int, key: str, kind: Literal["primary", "secondary"] = "secondary") -> None:
    """Draw the button that sets Explore to a measured setting and goes there.

    key, kind: of the button
    """
    look: dict[str, Any] = {"key": key, "type": kind, "icon": ":material/compare_arrows:"}
    arguments = decoder_from_json(point.decoder), k
    if st.button("Use in Explore", on_click=decoders.apply_decoder, args=arguments, **look):
        decoders.open_explore()
