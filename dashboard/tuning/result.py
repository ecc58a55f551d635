"""The result of a tuning: the setting, its report on other queries, and its export."""

import json
from html import escape

import streamlit as st

from dashboard.services import trained
from dashboard.services.source import Loaded
from dashboard.session import decoders
from dashboard.tuning import views
from dashboard.tuning.request import TuningOutcome
from dashboard.widgets.buttons import download_button
from dashboard.widgets.choices import choose
from dashboard.widgets.tables import draw_table, number_column, text_column
from engine.evaluation.export import ExportContext, exports
from engine.evaluation.metrics import METRICS
from engine.evaluation.paired import name_of
from engine.evaluation.tables import ARROWS, as_csv, frame
from engine.evaluation.tuning.tune import Tuned
from engine.values import replace_surrogates

LEAST_P = 0.001
"""A smaller p is not told apart."""


def show(loaded: Loaded, outcome: TuningOutcome, stale: bool) -> None:
    """stale: the form asks for something else by now."""
    tuned, request = outcome.tuned, outcome.request
    head, button = st.columns([5, 2], vertical_alignment="center")
    with head:
        st.html(f"<h3>{escape(name_of(tuned.chosen.decoder, scorers=False))}</h3>")
        if stale:
            st.badge("of an earlier form", icon=":material/history:", color="gray")
        if by := decoders.describe_scorers(tuned.decoder):
            st.caption(by)
    with button:
        views.apply(tuned.chosen, tuned.k, "tune.apply", "primary")
    if tuned.constraint_holds_on_test is False:
        missed = "Not confirmed: on the queries to report on it misses what was asked for."
        st.warning(missed, icon=":material/warning:")
    if outcome.remarks:
        st.text(outcome.remarks)
    st.text("\n".join(map(replace_surrogates, tuned.chosen_because)))
    _report(tuned)
    views.show(tuned.points, tuned.base, tuned.k, request.objective, tuned.chosen)
    _use(loaded, outcome)


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
                "p": f"{row.p_holm:.3f}" if row.p_holm >= LEAST_P else f"< {LEAST_P:g}",
                **dict(zip(("Wins", "Ties", "Losses"), row.wins, strict=True)),
            }
        table.append(line)
    signed = number_column("%+.4f")
    tested = {
        "Difference": number_column("%+.4f", help="Chosen − baseline, on the split to report on"),
        "": text_column(30, "↑ ↓: a difference can be told"),
        "from": signed,
        "to": signed,
        "p": text_column(help="Paired randomisation test, after Holm over the metrics"),
    }
    means = [name for name in table[0] if ": " in name]
    draw_table(table, {**dict.fromkeys(means, number_column("%.4f")), **tested}, placeholder="")
    if tuned.reported:
        st.caption(
            "From, to: 95 % paired bootstrap interval of the difference. ↑ ↓: the test and the interval tell it."
        )
        with st.expander("In words"):
            st.text("\n".join(map(replace_surrogates, tuned.reported)))


def _use(loaded: Loaded, outcome: TuningOutcome) -> None:
    """The chosen decoder for elsewhere, and the numbers as files."""
    tuned, encoder = outcome.tuned, loaded.space.encoder
    st.subheader("Use it", anchor=False)
    use = ExportContext(
        k=tuned.k,
        corpus=loaded.source.path,
        encoder=None if encoder is None else encoder.name,
        documents=outcome.documents,
        **trained.export_fields(loaded),
    )
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
