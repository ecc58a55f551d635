"""What tuning found: why this setting, what it is worth on other queries, and how to use it."""

from __future__ import annotations

import json
from html import escape

import pandas as pd
import streamlit as st

from dashboard.explore import setting
from dashboard.state import Loaded
from dashboard.training import kept
from dashboard.tuning import views
from dashboard.tuning.request import Outcome
from engine.evaluation.export import Use, exports
from engine.evaluation.metrics import METRICS
from engine.evaluation.pairing import name_of
from engine.evaluation.tables import ARROWS, as_csv, frame
from engine.evaluation.tune import Tuned
from engine.values import showable

LEAST_P = 0.001
"""A smaller p is not told apart."""


def show(loaded: Loaded, outcome: Outcome, stale: bool) -> None:
    """stale: the form asks for something else by now."""
    tuned, request = outcome.tuned, outcome.request
    head, button = st.columns([5, 2], vertical_alignment="center")
    with head:
        st.html(f"<h3>{escape(name_of(tuned.chosen.decoder, scorers=False))}</h3>")
        if stale:
            st.badge("of an earlier form", icon=":material/history:", color="gray")
        if by := setting.said(tuned.decoder):
            st.caption(by)
    with button:
        views.apply(tuned.chosen, tuned.k, "tune.apply", "primary")
    if tuned.held is False:
        st.warning(
            "Not confirmed: on the queries to report on it misses what was asked for.", icon=":material/warning:"
        )
    if outcome.said:
        st.text(outcome.said)
    st.text("\n".join(map(showable, tuned.chosen_because)))
    _report(tuned)
    views.show(tuned.points, tuned.base, tuned.k, request.objective, tuned.chosen)
    _use(loaded, outcome)


def _report(tuned: Tuned) -> None:
    """The chosen setting beside the baseline, on both splits."""
    rows = {row.metric: row for row in tuned.comparisons}
    dev, test = showable(tuned.dev), showable(tuned.test or "")
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
                "": ARROWS[(1 if row.difference > 0 else -1) if row.told else 0].strip(),
                "from": row.low,
                "to": row.high,
                "p": f"{row.p_holm:.3f}" if row.p_holm >= LEAST_P else f"< {LEAST_P:g}",
                "Wins": row.wins.win,
                "Ties": row.wins.tie,
                "Losses": row.wins.loss,
            }
        table.append(line)
    signed = st.column_config.NumberColumn(format="%+.4f")
    tested = {
        "Difference": st.column_config.NumberColumn(
            format="%+.4f", help="Chosen − baseline, on the split to report on"
        ),
        "": st.column_config.TextColumn(width=30, help="↑ ↓: a difference can be told"),
        "from": signed,
        "to": signed,
        "p": st.column_config.TextColumn(help="Paired randomisation test, after Holm over the metrics"),
    }
    means = [name for name in table[0] if ": " in name]
    st.dataframe(
        pd.DataFrame(table),
        hide_index=True,
        placeholder="",
        column_config={**{name: st.column_config.NumberColumn(format="%.4f") for name in means}, **tested},
    )
    if tuned.reported:
        st.caption(
            "From, to: 95 % paired bootstrap interval of the difference. ↑ ↓: the test and the interval tell it."
        )
        with st.expander("In words"):
            st.text("\n".join(map(showable, tuned.reported)))


def _use(loaded: Loaded, outcome: Outcome) -> None:
    """The chosen decoder for elsewhere, and the numbers as files."""
    tuned, encoder = outcome.tuned, loaded.space.encoder
    st.subheader("Use it", anchor=False)
    use = Use(
        k=tuned.k,
        corpus=loaded.source.path,
        encoder=encoder and encoder.name,
        documents=outcome.documents,
        **kept.told(loaded),
    )
    snippets = {s.title: s for s in exports(tuned.decoder, use)}
    left, right = st.columns([3, 1], vertical_alignment="bottom")
    title = left.segmented_control(
        "For",
        list(snippets),
        default=next(iter(snippets)),
        required=True,
        key="tune.target",
        persist_state="session",
        label_visibility="collapsed",
    )
    with right.popover("Download", icon=":material/download:", width="stretch"):
        name = f"tuned-{tuned.chosen.method}"
        found = json.dumps(tuned.as_json(), ensure_ascii=False, indent=2, allow_nan=False)
        st.download_button(
            "Result, JSON",
            found,
            f"{name}.json",
            "application/json",
            key="tune.json",
            on_click="ignore",
            width="stretch",
        )
        st.download_button(
            "All settings, CSV",
            as_csv(frame([tuned.base, *tuned.points])),
            f"{name}.csv",
            "text/csv",
            key="tune.csv",
            on_click="ignore",
            width="stretch",
        )
    snippet = snippets[title]
    st.code(snippet.text, language=snippet.language, wrap_lines=True)
