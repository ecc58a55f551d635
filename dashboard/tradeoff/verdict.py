"""The verdict: what is surely kept and what is a bet, its exports, and each decoder's best setting in a table."""

import re
from collections.abc import Callable
from functools import partial
from math import isclose
from typing import Any, Literal

import streamlit as st

from dashboard.charts.frontier import BUDGET_STEP, FrontierChart, list_budgets
from dashboard.charts.palette import method_look
from dashboard.charts.verdict_card import CARD_HEIGHT, CARD_WIDTH, VerdictCard, build_verdict_svg
from dashboard.charts.verdict_data import (
    count_compared,
    describe_scope,
    find_method,
    format_certainty,
    format_sure_share,
    format_two_sided,
    list_headlines,
)
from dashboard.components import vendor
from dashboard.components.live_plot import is_available, is_dark
from dashboard.components.picture import draw_svg
from dashboard.services import trained
from dashboard.services.source import Loaded
from dashboard.session import decoders
from dashboard.session.choices import SCOPE_HELP
from dashboard.session.judging import JudgingRequest
from dashboard.session.tradeoff import PICKED_KEY, SHARE_KEY
from dashboard.tradeoff import selection
from dashboard.widgets.open_dialog import draw_dialog, find_open_dialog
from dashboard.widgets.tables import draw_columns, name_metric, text_column
from engine.decoder import Decoder
from engine.evaluation.decide import MIN_QUERIES, OptionEstimates, estimate_provable_share, find_lower_share
from engine.evaluation.decision import (
    PASSAGES_PREFIX,
    Decision,
    Option,
    describe_off_topic,
    describe_outcome,
    lacks_confirmed_gain,
)
from engine.evaluation.export_decoder import export, write_short_code
from engine.evaluation.frontier import KEPT_SHARE, TIME_AXIS, Frontier, FrontierPoint
from engine.evaluation.metrics import METRICS, title_of
from engine.evaluation.paired import TIE_TOLERANCE
from engine.evaluation.statistics import Comparison
from engine.evaluation.sweep.compute import DATE_ENTRY
from engine.progress import counted, rough_duration
from engine.stages import methods
from engine.values import digest_of
from engine.wording import percent, signed, visible

KEY, ACTIONS = "tradeoff-verdict", "tradeoff-actions"
TURNED_CSS = f"<style>.st-key-{KEY}[data-turned] > :not(:first-child) {{visibility: hidden}}</style>"
"""Buttons and facts of the budget that the server knows step aside while the browser draws another one."""
MAX_BEST_ROWS, NAME_COLUMN = 10, "Best setting"
NO_BREAK_SPACE = "\u00a0"
CERTAINTY_COLUMN = 3
"""Column of the table of best settings that tells how sure it is that each keeps the budget."""


def draw_verdict(
    loaded: Loaded,
    chart: FrontierChart,
    decision: Decision,
    data: dict[str, Any],
    other_split: str | None,
    remark: str,
    request: JudgingRequest | None = None,
    is_complete: bool = True,
    estimate_all: Callable[[], float] = float,
    has_one_split: bool = False,
) -> None:
    """Draw the verdict in two sentences, and buttons to use, export, share and confirm it.

    They name the settings that keep the budget, the required share of the baseline's metric. While it is dragged on the
    chart, the sentences follow in the browser. chart: the frontier on the card, one picture of the verdict; data: of
    `build_verdict_data`; other_split: whose queries can confirm the choice, None for none; remark: on what is missing;
    request: documents whose judgements would give another candidate, None for none; is_complete: all of the grid is
    measured, so that using the choice is the next step; estimate_all: as `draw_compare_all` takes it; has_one_split: no
    other split is judged, so that Trade-off, which measures on all queries of its own, cannot confirm
    """
    scope = "" if chart.estimates is None else describe_scope(chart.estimates)
    with st.container(key=KEY, gap="xsmall"):
        if is_available():
            _draw_view("headline", data)
        else:
            for sentence in list_headlines(decision, scope):
                st.text(visible(sentence))
        if decision.warning:
            st.warning(visible(decision.warning), icon=":material/warning:")
        # The sure setting keeps the required share of the baseline's metric almost certainly. Without one it is the
        # bet, which keeps it with a moderate chance.
        option = decision.sure or decision.bet
        row_options: dict[str, Any] = {"horizontal": True, "vertical_alignment": "center", "gap": "small"}
        row = st.container(**row_options)
        with row.container(**row_options, width="content", key=ACTIONS):
            if not is_complete:
                st.badge("so far", icon=":material/hourglass_empty:", color="gray")
            _draw_badge(decision.sure)
            if option is not None and option.decoder is not None:
                _draw_actions(loaded, chart, decision, option.decoder, is_complete)
                _draw_confirm_step(loaded, chart.estimates, decision, other_split, has_one_split)
            if chart.estimates is not None and (share := find_lower_share(chart.estimates, decision)) is not None:
                _draw_lower_share(chart.estimates, decision, share, is_complete)
            if request is not None:
                # Without any candidate that is the next step.
                st.button(
                    f"Judge {counted(request.n_missing, 'more document')}",
                    type="primary" if is_complete and decision.awaits_judgements else "secondary",
                    key="tradeoff.judge",
                    on_click=selection.open_judge,
                    args=(request,),
                    help="Too many of the documents that the most promising setting returns have no judgement.",
                )
            if decision.missing_queries and not decision.is_on_passages and METRICS[decision.metric].needs == "qrels":
                # On passages this button stands among the controls.
                is_next = is_complete and not decision.awaits_judgements
                draw_judge_button("primary" if is_next else "secondary")
            draw_compare_all(estimate_all)
        # The sentences after the headlines say on which queries it was chosen.
        origin_sentences = decision.sentences[len(list_headlines(decision)) :]
        if is_available():
            # Both choices have what another split says of them in their boxes.
            origin_sentences = tuple(text for text in origin_sentences if text not in decision.confirmations)
        scope_text = "" if chart.estimates is None else _describe_compared(chart.estimates)
        row.caption(visible(" ".join(filter(None, [scope_text, *origin_sentences, remark]))), help=SCOPE_HELP)


def _draw_confirm_step(
    loaded: Loaded, estimates: OptionEstimates | None, decision: Decision, other_split: str | None, has_one_split: bool
) -> None:
    """Draw the button that confirms the choice on other queries: on another split, or by Tune where there is none.

    other_split, has_one_split: as `draw_verdict` takes them
    """
    if has_one_split:
        why = "Tune chooses on one half of the queries and confirms on the other. Trade-off needs another split."
        label = "One split only: Tune confirms on half of it"
        st.button(label, type="tertiary", key="tradeoff.halve", on_click=selection.open_tune, help=why)
    if other_split is not None and decision.confirm_split is None:
        st.button(
            f"Confirm on {visible(other_split)}",
            key="tradeoff.confirm",
            on_click=selection.ask_to_confirm,
            args=(decision,),
            help=_describe_proof(loaded, estimates, decision, other_split),
        )


def _draw_badge(sure: Option | None) -> None:
    """Draw in a word what another split says of the sure setting, if it was asked."""
    # A badge is Markdown, so that the split's name is not in it; the sentences have it.
    if sure is None or sure.confirmed is None:
        return
    if sure.confirmed and sure.has_notable_gain:
        st.badge("Confirmed", icon=":material/check:", color="green")
    elif sure.agrees:
        st.badge("Agrees, not proven", icon=":material/drag_handle:", color="gray")
    elif sure.is_denied:
        st.badge("Not kept" if not lacks_confirmed_gain(sure) else "No gain", icon=":material/close:", color="red")


def _describe_proof(loaded: Loaded, estimates: OptionEstimates | None, decision: Decision, split: str) -> str:
    """Describe what another split is asked, and how much its number of queries can prove."""
    question = "The choice was made on these queries. Is the budget surely kept on others too?"
    option, n_queries = decision.sure or decision.bet, len(loaded.dataset.judged(split))
    if estimates is None or option is None or n_queries < MIN_QUERIES:
        return question
    proven = estimate_provable_share(estimates, option, n_queries)
    loss = max(0.0, option.share_kept - proven)
    return (
        f"{question} So many queries, {n_queries:,}, can prove a share {percent(loss, 1)} below what they show: if "
        f"{option.name} keeps {percent(option.share_kept, 1)} there as here, they prove {percent(proven, 1)}."
    )


def _draw_lower_share(estimates: OptionEstimates, decision: Decision, share: float, is_complete: bool) -> None:
    """Draw the button that asks an unconfirmed choice for the share that the other split is sure it keeps.

    is_complete: all of the grid is measured
    """
    # The slider and the line on the chart end at the lowest budget.
    if share < KEPT_SHARE.comfortable_range[0]:
        return
    why = "The other split confirms that the same setting keeps that much."
    # A choice with which the other split agrees may be used as it is, and what is to be measured comes first.
    is_advised = is_complete and decision.sure is not None and decision.sure.is_denied
    st.button(
        f"Keep {percent(share)} instead",
        type="primary" if is_advised else "secondary",
        key="tradeoff.lower",
        on_click=selection.keep_lower_share,
        args=(estimates, decision, share),
        help=why,
    )


def _describe_compared(estimates: OptionEstimates) -> str:
    """Describe how many decoders the verdict compares, those that are measured; "" if they are all."""
    # The headline says "no setting" or "you can be": a person must see of how many decoders that is said. The baseline,
    # the first of the registry, is always among them and cannot be recommended.
    n_decoders, n_compared = len(methods("selector")) - 1, count_compared(estimates)
    return "" if n_compared >= n_decoders else f"Compared: {n_compared:,} of {counted(n_decoders, 'decoder')}."


def draw_compare_all(
    estimate_all: Callable[[], float], button_kind: Literal["primary", "secondary"] = "secondary"
) -> None:
    """Draw the button that chooses all decoders and measures what is missing, unless all are chosen.

    It stands below the verdict, or in its place, once on the page. estimate_all: returns the seconds that it takes, 0
    if all is measured; button_kind: "primary" where there is no verdict yet
    """
    if len(st.session_state.get(PICKED_KEY, ())) >= len(methods("selector")):
        return
    # Estimating takes long with many queries, so it is left to where it is shown.
    seconds = estimate_all()
    time_text = f" · about {rough_duration(seconds)}" if seconds else ""
    why = "Chooses all decoders above and measures what is missing: the verdict looks at those that are measured."
    options: dict[str, Any] = {"type": button_kind, "on_click": selection.compare_all_decoders, "help": why}
    st.button(f"Compare all{time_text}", key="tradeoff.all", **options)


def draw_judge_button(button_kind: Literal["primary", "secondary"] = "secondary") -> None:
    """Draw the button that goes to Judge, where people grade what the decoders return for their own searches."""
    st.button("Judge queries", type=button_kind, key="tradeoff.judge.own", on_click=selection.open_judge)


def draw_choices(data: dict[str, Any]) -> None:
    """Draw the sure setting and the bet; a hundred squares show the chance that each keeps the budget.

    The budget is the share of the baseline's metric that a setting must keep: the sure setting does almost certainly,
    the bet, which gains more, with a moderate chance. A click opens the setting beside the chart. data: of
    `build_verdict_data`
    """
    # Without live charts no script can draw them; the verdict's sentences then name both settings.
    if is_available():
        _draw_view("choices", data)


def _draw_view(part: str, data: dict[str, Any]) -> None:
    """Draw a part of the verdict by the browser's script: "headline" for its sentences, or "choices"."""
    vendor.draw_view("verdict", f"tradeoff.{part}", data | {"part": part}, {"opened": selection.open_point})


def _draw_actions(
    loaded: Loaded, chart: FrontierChart, decision: Decision, decoder: Decoder, is_complete: bool
) -> None:
    """Draw buttons to use the first choice in Explore, and to see it as code or as a card.

    chart: what the card draws; decoder: of the sure setting, or of the bet without one; is_complete: all of the grid
    is measured
    """
    kind = choose_button_kind(decision, is_complete)
    st.button("Use in Explore", type=kind, key="tradeoff.use", on_click=use_in_explore, args=(decoder,))
    context = trained.export_context(loaded, chart.frontier.k)
    # The popover has the full script, the card only the short code.
    snippet = export(decoder, "python", context)
    with st.popover("Code"):
        st.code(snippet.text, language=snippet.language, wrap_lines=True)
    short_code = write_short_code(decoder, context)
    draw_card_button(lambda: _build_card(loaded, chart, decision, short_code), "tradeoff.card", is_complete)


def choose_button_kind(decision: Decision, is_complete: bool) -> Literal["primary", "secondary"]:
    """Return the kind of the button that uses the verdict's choice: the sure setting, or the bet without one.

    is_complete: all of the grid is measured
    """
    sure = decision.sure
    # While something is to be measured, the button that measures it is the page's one primary button. Neither a bet nor
    # a choice that the other split denies is what the page advises, and passages cannot tell if lists stay on topic.
    is_advised = is_complete and not decision.is_on_passages and sure is not None and not sure.is_denied
    # Nor is a choice whose lists leave the topic.
    is_advised = is_advised and sure is not None and not describe_off_topic(decision, sure)
    return "primary" if is_advised else "secondary"


def use_in_explore(decoder: Decoder) -> None:
    """Set Explore to a decoder and go to that page; for a callback."""
    decoders.apply_decoder(decoder)
    # The page switches in the next full run, as a callback cannot. Any value but JUDGE leads to Explore.
    st.session_state[selection.LEAVE_KEY] = st.session_state[selection.REDRAW_KEY] = True


def draw_card_button(build_card: Callable[[], VerdictCard], key: str, is_complete: bool = True) -> None:
    """Draw a button that shows the verdict as one picture in a dialog.

    build_card: makes the picture's content, called on the click only; key: of the button; is_complete: all of the
    grid is measured
    """

    def draw_preview(card: VerdictCard) -> None:
        """Draw the picture inside the dialog."""
        svg = build_verdict_svg(card)
        label = visible(" ".join(card.headline))
        draw_svg(svg, (CARD_WIDTH, CARD_HEIGHT), f"{key}.picture", file="frontier-card", label=label)

    # A picture outlives the page, which says that a verdict is one so far.
    help_text = "One picture to paste into a chat or a report" + (
        "" if is_complete else ", when all settings are measured"
    )
    is_clicked = st.button("Card", key=key, icon=":material/image:", help=help_text, disabled=not is_complete)
    if is_complete and (is_clicked or find_open_dialog() == key):
        draw_dialog(key, "Card", draw_preview, build_card(), width="large")


def _build_card(loaded: Loaded, chart: FrontierChart, decision: Decision, short_code: tuple[str, ...]) -> VerdictCard:
    """Build the content of the picture that sums up the verdict: headline, frontier, choices, code."""
    baseline = None if chart.estimates is None else chart.estimates.baseline
    return VerdictCard(
        headline=shorten_headlines(decision, "" if chart.estimates is None else describe_scope(chart.estimates)),
        chart=chart,
        decision=decision,
        corpus=loaded.space.corpus.name,
        date=getattr(baseline, "provenance", {}).get(DATE_ENTRY, ""),
        code=short_code,
    )


def shorten_headlines(decision: Decision, scope: str = "") -> tuple[str, ...]:
    """Return the verdict's first sentences without what a card has beside them: names, and what another split says.

    scope: of `describe_scope`, which the first one then begins with
    """
    sentences = []
    for sentence in list_headlines(decision):
        for option in (decision.sure, decision.bet):
            if option is not None:
                lead, name, _ = sentence.partition(f": {option.name}")
                if name:
                    off_topic = describe_off_topic(decision, option)
                    sentence = f"{lead}; {off_topic}." if off_topic else f"{lead}."
                sentence = sentence.replace(f", {option.name},", "")
        sentence = sentence.removeprefix(PASSAGES_PREFIX)
        sentences.append(re.sub("^[Yy]ou can be ", "", sentence).replace(" and be sure to", " and sure to"))
    sure = decision.sure
    if sure is not None and sure.is_denied:
        # The card's second line says what the other split says.
        where, _, rest = list_headlines(decision)[0].partition(f" {sure.name} ")
        sentences[0] = f"{where}: {rest.removeprefix('is ').partition('; on ')[0]}."
    elif scope:
        sentences[0] = f"{scope}: {sentences[0][:1].lower()}{sentences[0][1:]}"
    if decision.is_on_passages and not (sure is not None and sure.is_denied):
        sentences[0] = f"{PASSAGES_PREFIX}{sentences[0][:1].lower()}{sentences[0][1:]}"
    return tuple(sentences)


def draw_budget(curves: Frontier, baseline: FrontierPoint) -> None:
    """Draw the slider of the budget, the share of the baseline's y that a setting must keep.

    A person can set the budget here, or by dragging its line in the chart: either follows the other in the browser.
    """
    # A drag in the chart writes the same key of the browser session. The first value is written there too: Streamlit
    # warns of a widget with both a default and a value in its session.
    st.session_state.setdefault(SHARE_KEY, KEPT_SHARE.default)
    title = f"Keep at least this share of {baseline.name}'s {title_of(curves.y)}"
    if is_available():
        low, high = KEPT_SHARE.comfortable_range
        ends = {"low": 100 * low, "high": 100 * high, "step": 100 * BUDGET_STEP}
        data = {"part": "budget", "title": visible(title), "budget": 100 * st.session_state[SHARE_KEY], **ends}
        vendor.draw_view("verdict", "tradeoff.budget", data, {"budget": _take_budget})
        return
    st.slider(
        title,
        *KEPT_SHARE.comfortable_range,
        step=BUDGET_STEP,
        key=SHARE_KEY,
        persist_state="session",
        format="percent",
    )


def _take_budget(percentage: float) -> None:
    """Store the budget that was set by the slider; for a callback."""
    selection.set_budget(percentage / 100)


def draw_best(
    curves: Frontier, decision: Decision, estimates: OptionEstimates | None, pinned: str | None = None
) -> None:
    """Draw a row per decoder at its best setting; a click on a row opens the setting beside the chart.

    The verdict's sure setting comes first, then others that surely keep the budget, by falling gain, then the rest, by
    falling chance, and last those of which too few documents are judged. In the browser the rows follow a drag of the
    budget. estimates: of the settings that the decision is on; pinned: label of a setting that stays the sure one
    """
    if estimates is None:
        return
    if is_available():
        data = build_table_data(curves, decision, estimates, pinned)
        vendor.draw_view("verdict", "tradeoff.table", data, {"opened": selection.open_point})
        return
    positions = estimates.find_best_positions(decision.keep, pinned)
    options = [estimates.build_option(position, decision.keep) for position in positions]
    looks = [method_look(find_method(option), "") for option in options]
    names = [f"{look['sign']} {option.name}" for look, option in zip(looks, options, strict=True)]
    rows = [_list_cells(option, estimates, decision) for option in options]
    certainties = [_format_certainty(option, decision) for option in options]
    texts = [names, *map(list, zip(*(row[1:] for row in rows), strict=True))]
    texts.insert(CERTAINTY_COLUMN, certainties)
    titles = _list_titles(curves, decision)
    table_columns = {
        title: (column, text_column(None, help_text))
        for (title, help_text), column in zip(titles.items(), texts, strict=True)
    }
    draw_point_table("best", table_columns, [option.label for option in options], MAX_BEST_ROWS)


def build_table_data(
    curves: Frontier, decision: Decision, estimates: OptionEstimates, pinned: str | None
) -> dict[str, Any]:
    """Build what the browser draws of the table of best settings, at every budget that can be dragged to.

    Each budget has its rows, as (number of the option, how sure it is, True for a choice of the verdict).
    """
    option_numbers, options, budgets = dict[int, int](), list[dict[str, Any]](), []
    for share in list_budgets():
        # What another split says, and what is pinned, holds for the budget that is set.
        is_set = isclose(share, decision.keep)
        own_pinned = pinned if is_set else None
        chosen = estimates.find_choices(share, own_pinned)
        rows = []
        for position in estimates.find_best_positions(share, own_pinned):
            option = estimates.build_option(position, share)
            if position not in option_numbers:
                # An option is sent once, whatever budgets it is the best setting at.
                option_numbers[position] = len(options)
                name, *figures = map(visible, _list_cells(option, estimates, decision))
                # A narrow column breaks a name between its parameters, and not before their values.
                cells = [re.sub(r" (?=[\d.])", NO_BREAK_SPACE, name), *figures]
                look = method_look(find_method(option), "")
                options.append(
                    {"label": option.label, "look": look, "cells": cells, "interval": format_two_sided(option)}
                )
            certainty = _format_certainty(option, decision if is_set else None)
            rows.append([option_numbers[position], visible(certainty), position in chosen])
        budgets.append(rows)
    titles = []
    for title, help_text in _list_titles(curves, decision).items():
        titles.append({"title": title, "help": help_text})
    ends = {"low": 100 * KEPT_SHARE.comfortable_range[0], "step": 100 * BUDGET_STEP}
    data = {"part": "table", "columns": titles, "options": options, "budgets": budgets, "dark": is_dark()}
    return data | {"budget": 100 * decision.keep, "certainty": CERTAINTY_COLUMN} | ends


def _list_titles(curves: Frontier, decision: Decision) -> dict[str, str]:
    """Return the titles of the columns of the table of best settings, with their help."""
    y_title = name_metric(curves.y)
    gain_title = "Faster" if curves.x == TIME_AXIS else name_metric(curves.x)
    # Ends such as 46% and 206% are those of documents that nobody judged, and need a word.
    kept_help = f"Share of {decision.baseline}'s mean, and the least that is sure (chance 95%), by which it is chosen"
    if decision.is_pooled:
        kept_help += (
            ". Too few judged: its 95% interval, whose ends count documents without a judgement for and against it"
        )
    return {
        NAME_COLUMN: "",
        gain_title: f"Compared with {decision.baseline}",
        f"{y_title} kept": kept_help,
        f"Keeps {decision.budget_text}": "Chance on other queries of the same kind",
        **({} if decision.judged is None else {"Judged": "Share of its documents"}),
        "Queries": f"Queries with more and with less {y_title} than {decision.baseline}; others: the same",
    }


def _list_cells(option: Option, estimates: OptionEstimates, decision: Decision) -> list[str]:
    """Return the cells of an option's row but the one that tells how sure it is, which depends on the budget."""
    # Of a setting that is no candidate nothing is sure: its documents that nobody judged may cost it anything.
    bound = f"{percent(option.low)} to {percent(option.high)}" if option.is_left_out else format_sure_share(option)
    # Of too few queries nothing but the mean is worth a word.
    bound = "" if option.chance is None else f"\n{bound}"
    cells = [option.name, f"{signed(100 * option.gain, 0)}%", f"{percent(option.share_kept, 1)}{bound}"]
    cells += [] if decision.judged is None else [_format_judged(option)]
    return [*cells, _format_wins(estimates, option)]


def _format_certainty(option: Option, decision: Decision | None) -> str:
    """Format how sure it is that an option keeps the budget, the share of the baseline's metric that it must keep.

    decision: at this budget, with what another split says of its choices; None for another budget
    """
    text = format_certainty(option)
    for choice in () if decision is None else (decision.sure, decision.bet):
        # The estimates do not know what another split says of a choice.
        if choice is not None and choice.label == option.label and decision is not None:
            if choice.is_sure and choice.is_denied:
                text = "sure" if lacks_confirmed_gain(choice) else "looked sure"
                text += f" on {decision.split}" if decision.split else ""
            if outcome := describe_outcome(choice, decision.confirm_split or "", is_brief=True):
                text = f"{text}, {outcome}"
    # In lines, so that the column stays narrow.
    return text.replace(", ", ",\n")


def _format_wins(estimates: OptionEstimates, option: Option) -> str:
    """Format on how many queries an option has more of the metric than the baseline, and on how many less."""
    # The baseline is column 0. A setting between the points of an exact curve has values by query as well.
    values = estimates.aligned.values[estimates.metric]
    differences = values[:, estimates.position_of[option.label] + 1] - values[:, 0]
    n_better, n_worse = int((differences > TIE_TOLERANCE).sum()), int((differences < -TIE_TOLERANCE).sum())
    return f"{n_better:,} better\n{n_worse:,} worse"


def _format_judged(option: Option) -> str:
    """Format the share of an option's documents that have a judgement; "" if it is unknown."""
    return "" if option.judged is None else percent(option.judged)


def draw_point_table(name: str, columns: dict[str, tuple[list[Any], Any]], labels: list[str], max_rows: int) -> None:
    """Draw a table of settings; a click on a row opens that setting beside the chart.

    columns: title → (values, settings of the column); labels: of the rows' decoders
    """
    # Another list is another widget: a selection is a position, and must not outlive its list.
    widget_key = f"tradeoff.{name}.{digest_of(labels)[:12]}"
    on_select = partial(open_row, widget_key, labels)
    selection_options = {"selection_mode": "single-cell", "placeholder": ""}
    draw_columns(columns, key=widget_key, max_rows=max_rows, on_select=on_select, **selection_options)


def format_interval(comparison: Comparison | None) -> str:
    """Format a difference to the baseline with its interval; "" for the baseline itself."""
    if comparison is None:
        return ""
    if comparison.low is None or comparison.high is None or comparison.low == comparison.high:
        return signed(comparison.difference)
    return f"{signed(comparison.difference)} ({signed(comparison.low)} to {signed(comparison.high)})"


def open_row(widget_key: str, labels: list[str]) -> None:
    """Open the setting of the clicked row; for a callback of a table's selection.

    labels: of the rows' decoders; without a selected row nothing changes
    """
    cells = st.session_state[widget_key].selection.cells
    selection.open_point(labels[cells[0][0]] if cells else None)
