"""The result of a tuning: the setting, its report on other queries, and its export."""

import json
from html import escape

import streamlit as st

from dashboard.charts.forest import forest_figure
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
from engine.evaluation.tables import ARROWS, as_csv, frame
from engine.evaluation.tuning.tune import Tuned
from engine.values import replace_surrogates
from engine.wording import p_value

HEADING = "font-size: 1.5rem; font-weight: 700; line-height: 1.2"
LOOKS = {True: "light-dark(#15803D, #4ADE80)", False: "light-dark(#B45309, #FBBF24)", None: "inherit"}
"""The colour of a verdict, by whether the choice is confirmed."""


def show(loaded: Loaded, outcome: TuningOutcome, stale: bool) -> None:
    """The verdict, its differences, all settings, and what is told of them. stale: the form has changed since."""
    tuned, request = outcome.tuned, outcome.request
    with st.container(border=True, key="tune-verdict"):
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            name = escape(name_of(tuned.chosen.decoder, scorers=False))
            status = f'<span style="color: {LOOKS[tuned.confirmed]}">{escape(replace_surrogates(tuned.status))}</span>'
            st.html(f'<div role="heading" aria-level="2" style="{HEADING}">{name} — {status}</div>', width="content")
            if stale:
                st.badge("from earlier settings", icon=":material/history:", color="gray")
            st.space("stretch")
            views.apply(tuned.chosen, tuned.k, "tune.apply", "primary")
        st.text(replace_surrogates(tuned.reached))
        if notes := " · ".join(filter(None, [decoders.describe_scorers(tuned.decoder), outcome.remarks])):
            st.text(replace_surrogates(notes))
    left, right = pair("tune-charts")
    with left:
        _forest(tuned)
    with right:
        views.show(tuned.points, tuned.base, tuned.k, request.objective, tuned.chosen)
    with st.expander("Table and details"):
        _report(tuned)
        st.text("\n".join(map(replace_surrogates, tuned.sentences)))
    with st.expander("Code and files"):
        _use(loaded, outcome)


def _forest(tuned: Tuned) -> None:
    """The differences to the baseline on both splits, and what they have to keep to."""
    splits = [(tuned.test or "", True, tuned.comparisons), (tuned.dev, False, tuned.comparisons_on_dev)]
    metrics = tuned.objective.metrics[::-1]  # what is gained, then what it costs
    rows = [
        (split, confirms, row)
        for metric in metrics
        for split, confirms, found in splits
        for row in found
        if row.metric == metric
    ]
    if not rows:
        return
    least = {metrics[-1]: tuned.objective.share} if tuned.objective.constrained else {}
    st.markdown(f"**Difference to {rows[0][2].baseline}**")
    figure = forest_figure(rows, least, tuned.chosen.method, is_dark())
    plot(figure, "tune.forest", file="forest", label=f"{tuned.status}: {tuned.reached}")
    st.caption("Filled: queries it was not chosen on. Bars: 95% bootstrap CI.")


def _report(tuned: Tuned) -> None:
    """The chosen setting beside the baseline, on both splits."""
    rows = {row.metric: row for row in tuned.comparisons}
    dev, test = replace_surrogates(tuned.dev), replace_surrogates(tuned.test or "")
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
                "Difference": row.difference,
                "": ARROWS[(1 if row.difference > 0 else -1) if row.significant else 0].strip(),
                "from": row.low,
                "to": row.high,
                "p": p_value(row.p_holm).removeprefix("p = ").removeprefix("p "),
                **dict(zip(("Wins", "Ties", "Losses"), row.wins, strict=True)),
            }
        table.append(line)
    signed = number_column("%+.3f")
    tested = {
        "Difference": number_column("%+.3f", help="Chosen − baseline, on the split that confirms"),
        "": text_column(30, "↑ ↓ significant"),
        "from": signed,
        "to": signed,
        "p": text_column(help="Paired randomisation test, Holm-corrected over the metrics"),
    }
    means = [name for name in table[0] if ": " in name]
    draw_table(table, {**dict.fromkeys(means, number_column("%.3f")), **tested}, placeholder="")
    if tuned.reported:
        st.caption("From, to: 95% paired bootstrap CI of the difference. ↑ ↓ significant (test and interval agree).")


def _use(loaded: Loaded, outcome: TuningOutcome) -> None:
    """The chosen decoder for elsewhere, and the numbers as files."""
    tuned = outcome.tuned
    use = trained.export_context(loaded, tuned.k, documents=outcome.documents)
    snippets = {s.title: s for s in exports(tuned.decoder, use)}
    left, right = st.columns([3, 1], vertical_alignment="bottom")
    with left:
        snippet = snippets[choose("For", snippets, "tune.target")]
    with right.popover("Download", icon=":material/download:", width="stretch"):
        name = f"tuned-{tuned.chosen.method}"
        content = json.dumps(tuned.as_json(), ensure_ascii=False, indent=2, allow_nan=False)
        cells = as_csv(frame([tuned.base, *tuned.points]))
        download_button("Result, JSON", content, f"{name}.json", "application/json", "tune.json", width="stretch")
        download_button("All settings, CSV", cells, f"{name}.csv", "text/csv", "tune.csv", width="stretch")
    st.code(snippet.text, language=snippet.language, wrap_lines=True)
