"""The result of a tuning: the setting, or the best of all decoders, its report on other queries, and its export."""

import json
from collections.abc import Sequence
from html import escape
from typing import Any

import streamlit as st

from dashboard.charts.differences import ForestRow, forest_figure
from dashboard.components.live_plot import is_dark, plot
from dashboard.services import trained
from dashboard.services.source import Loaded
from dashboard.session import decoders
from dashboard.tuning import views
from dashboard.tuning.request import TuningOutcome
from dashboard.widgets.buttons import download_button
from dashboard.widgets.choices import choose
from dashboard.widgets.tables import draw_table, number_column, pair, text_column
from engine.evaluation.export import exports
from engine.evaluation.metrics import METRICS
from engine.evaluation.paired import name_of
from engine.evaluation.statistics import Comparison, p_value, statement
from engine.evaluation.tables import ARROWS, as_csv, frame
from engine.evaluation.tuning.tuned import Tuned, compared_on_dev, next_step
from engine.wording import visible

HEADING = "font-size: 1.5rem; font-weight: 700; line-height: 1.2"
LOOKS = {True: "light-dark(#15803D, #4ADE80)", False: "light-dark(#B45309, #FBBF24)", None: "inherit"}
"""The colour of a verdict, by whether the choice is confirmed."""
CAPTION = "From, to: 95% paired bootstrap CI of the difference. ↑ ↓ significant (test and interval agree)."


def show(loaded: Loaded, outcome: TuningOutcome, stale: bool) -> None:
    """The verdict, its differences, what it was chosen from, and what is told of it. stale: the form has changed."""
    tuned = outcome.tuned
    _verdict(outcome, stale)
    if tuned.several:
        _decoders(tuned)
    else:
        left, right = pair("tune-charts")
        with left:
            _forest(tuned)
        with right:
            views.show(tuned.points, tuned.base, tuned.k, tuned.objective, tuned.chosen)
    with st.expander("Table and details"):
        if tuned.several:
            _decoder_table(tuned)
        else:
            _report(tuned)
        st.text("\n".join(map(visible, tuned.sentences)))
    with st.expander("Code and files"):
        _use(loaded, outcome)


def _verdict(outcome: TuningOutcome, stale: bool) -> None:
    """What was chosen, whether that holds, and the way to Explore."""
    tuned = outcome.tuned
    name = tuned.winner.name if tuned.several else name_of(tuned.chosen.decoder, scorers=False)
    gained = statement(tuned.gained) if tuned.several and tuned.gained is not None else ""
    with st.container(border=True, key="tune-verdict"):
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            status = f'<span style="color: {LOOKS[tuned.confirmed]}">{escape(visible(tuned.status))}</span>'
            told = f"{escape(name)} — {status}"
            st.html(f'<div role="heading" aria-level="2" style="{HEADING}">{told}</div>', width="content")
            if stale:
                st.badge("from earlier settings", icon=":material/history:", color="gray")
            st.space("stretch")
            views.apply(tuned.chosen, tuned.k, "tune.apply", "primary")
        scorers = decoders.describe_scorers(tuned.decoder)
        more = " · ".join(filter(None, [next_step(tuned), scorers, outcome.remarks]))
        for line in filter(None, [tuned.reached, gained, more]):
            st.text(visible(line))


def _forest(tuned: Tuned) -> None:
    """The differences to the baseline on both splits, and what they have to keep to."""
    splits = [(tuned.test or "", True, tuned.comparisons), (tuned.dev, False, compared_on_dev(tuned))]
    metrics = tuned.objective.metrics[::-1]  # what is gained, then what it costs
    rows = [
        ForestRow(f"{METRICS[metric].title} on {split}", tuned.chosen.method, confirms, row)
        for metric in metrics
        for split, confirms, found in splits
        for row in found
        if row.metric == metric
    ]
    _draw_forest(tuned, rows, "tune.forest", "Filled: queries it was not chosen on. Bars: 95% bootstrap CI.")


def _decoders(tuned: Tuned) -> None:
    """Every decoder at its best beside the baseline, in what is gained and in what it costs."""
    metrics = tuned.objective.metrics[::-1]
    split, found = _tested(tuned)
    by_label = {one.dev.label: one for one in tuned.candidates}
    for place, metric in zip(pair("tune-charts"), metrics, strict=False):
        rows = [
            ForestRow(row.name, by_label[row.label].dev.method, row.label == tuned.chosen.label, row)
            for row in found
            if row.metric == metric
        ]
        with place:
            what = f"{METRICS[metric].title}@{tuned.k} on {visible(split)}"
            _draw_forest(tuned, rows, f"tune.forest.{metric}", "Filled: the choice. Bars: 95% bootstrap CI.", what)


def _tested(tuned: Tuned) -> tuple[str, Sequence[Comparison]]:
    """The split that reports, or else the one that chose, and the differences there."""
    return (tuned.dev, compared_on_dev(tuned)) if tuned.test is None else (tuned.test, tuned.comparisons)


def _draw_forest(tuned: Tuned, rows: Sequence[ForestRow], key: str, caption: str, what: str = "") -> None:
    """Differences with what they have to keep to; what: what they are of, where the rows do not say it."""
    if not rows:
        return
    least = {tuned.objective.metrics[0]: tuned.objective.share} if tuned.objective.constrained else {}
    st.markdown(f"**{f'{what}: d' if what else 'D'}ifference to {rows[0].difference.baseline}**")
    plot(forest_figure(rows, least, is_dark()), key, file="forest", label=f"{tuned.status}: {tuned.reached}")
    st.caption(caption)


def _report(tuned: Tuned) -> None:
    """The chosen setting beside the baseline, on both splits."""
    rows = {row.metric: row for row in tuned.comparisons}
    dev, test = visible(tuned.dev), visible(tuned.test or "")
    table = []
    for metric in views.measured(tuned.chosen):
        line = {
            "Metric": f"{METRICS[metric].title}@{tuned.k}",
            f"{dev}: baseline": tuned.base.mean[metric],
            f"{dev}: chosen": tuned.chosen.mean[metric],
        }
        if row := rows.get(metric):
            line |= {
                f"{test}: baseline": row.baseline_mean,
                f"{test}: chosen": row.mean,
                **_tested_values(row),
                **dict(zip(("Wins", "Ties", "Losses"), row.wins, strict=True)),
            }
        table.append(line)
    means = [name for name in table[0] if ": " in name]
    draw_table(table, {**dict.fromkeys(means, number_column("%.3f")), **_tested_columns("")}, placeholder="")
    if tuned.reported:
        st.caption(CAPTION)


def _tested_columns(of: str) -> dict[str, Any]:
    """How the columns of a difference are shown, whose names begin with `of`."""
    signed = number_column("%+.3f")
    return {
        f"{of}difference": number_column("%+.3f", help="Chosen − baseline"),
        of.strip(): text_column(30, "↑ ↓ significant"),
        f"{of}from": signed,
        f"{of}to": signed,
        f"{of}p": text_column(help="Paired randomisation test, Holm-corrected over the rows"),
    }


def _tested_values(row: Comparison, of: str = "") -> dict[str, Any]:
    """The columns of a difference, by names that begin with `of`."""
    return {
        f"{of}difference": row.difference,
        of.strip(): ARROWS[(1 if row.difference > 0 else -1) if row.significant else 0].strip(),
        f"{of}from": row.low,
        f"{of}to": row.high,
        f"{of}p": p_value(row.p_holm).removeprefix("p = ").removeprefix("p "),
    }


def _decoder_table(tuned: Tuned) -> None:
    """Every decoder at its best: its differences to the baseline on the split that reports."""
    split, found = _tested(tuned)
    by_label = {one.dev.label: one for one in tuned.candidates}
    metrics = tuned.objective.metrics[::-1]
    rows: dict[str, dict[str, Any]] = {}
    for row in sorted(found, key=lambda row: metrics.index(row.metric)):
        line = rows.setdefault(row.label, {"Decoder": row.name, "Settings": by_label[row.label].settings})
        line |= _tested_values(row, f"{METRICS[row.metric].title} ")
    looks = {name: look for m in metrics for name, look in _tested_columns(f"{METRICS[m].title} ").items()}
    draw_table(list(rows.values()), looks, placeholder="")
    where = f"Each at its best on {tuned.dev}, measured on {split}."
    st.caption(f"{visible(where)} {CAPTION}")


def _use(loaded: Loaded, outcome: TuningOutcome) -> None:
    """The chosen decoder for elsewhere, and the numbers as files."""
    tuned = outcome.tuned
    use = trained.export_context(loaded, tuned.k, documents=outcome.documents)
    snippets = {s.title: s for s in exports(tuned.decoder, use)}
    left, right = st.columns([3, 1], vertical_alignment="bottom")
    with left:
        snippet = snippets[choose("For", snippets, "tune.target")]
    with right.popover("Download", icon=":material/download:", width="stretch"):
        name = f"tuned-{tuned.decoder.select.spec.name}"
        content = json.dumps(tuned.as_json(), ensure_ascii=False, indent=2, allow_nan=False)
        cells = as_csv(frame([tuned.base, *tuned.points]))
        download_button("Result, JSON", content, f"{name}.json", "application/json", "tune.json", width="stretch")
        download_button("All settings, CSV", cells, f"{name}.csv", "text/csv", "tune.csv", width="stretch")
    st.code(snippet.text, language=snippet.language, wrap_lines=True)
