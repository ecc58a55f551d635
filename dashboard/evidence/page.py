"""The Evidence page: every claim by its paper, with the verdict that its numbers allow; a click opens the numbers."""

from itertools import cycle

import streamlit as st

from dashboard.charts.evidence import plot_curves, plot_effects
from dashboard.components.live_plot import is_dark, plot
from dashboard.widgets.choices import choose, select
from engine.evidence.claim import PAPERS
from engine.evidence.run import JudgedClaim, Report, list_reports
from engine.views.evidence import COLOURS, command, facts, figures, headline

ALL = "all"
STYLE = "<style>[class*=st-key-evidence-] summary {opacity: 1}</style>"
"""Lines that can be opened are the page's main text, and as legible."""


def show() -> None:
    """The whole page."""
    st.html(STYLE)
    known = list_reports()
    title = select("Measured on", known, "evidence.report", label_visibility="collapsed")
    report = known[title]
    st.subheader(headline(report), anchor=False)
    st.caption(
        "A rule computes each verdict from the numbers. `frontier reproduce all --data FOLDER` measures them on your "
        "own judged sets, with any encoder, and this page has them then too."
    )
    _claims(report)


@st.fragment
def _claims(report: Report) -> None:
    counts = {short: count for short, count in report.counts().items() if count}
    with st.container(horizontal=True, gap="medium"):
        paper = choose("Paper", [ALL, *PAPERS], "evidence.paper", format_func=lambda p: "All papers" if p == ALL else p)
        verdict = choose(
            "Verdict", [ALL, *counts], "evidence.verdict",
            format_func=lambda v: f"All {len(report.rows)}" if v == ALL else f"{v} {counts[v]}",
        )  # fmt: skip
    rows = [r for r in report.rows if paper in (ALL, r.claim.paper) and verdict in (ALL, r.short)]
    if not rows:
        st.info("No claim of this paper came out so.")
    for name, full in PAPERS.items():
        own = [row for row in rows if row.claim.paper == name]
        if own:
            st.markdown(f"**{full}**")
            with st.container(gap=None, key=f"evidence-{name}"):
                for row in own:
                    _claim(row)


def _claim(row: JudgedClaim) -> None:
    """A line that opens."""
    name, effects = row.claim.id, row.ruling.effects
    line = f":{COLOURS[row.short]}-badge[{row.short}] {row.claim.sentence}"
    opened = st.expander(line, key=f"evidence.{name}", on_change="rerun", type="compact")
    if not opened.open:
        return
    with opened:
        left, right = st.columns([3, 2], gap="medium")
        with left:
            if effects:
                drawn = plot_curves(row.ruling.curves, is_dark())
                places = st.columns(min(2, len(drawn))) if drawn else []
                for at, (figure, place) in enumerate(zip(drawn, cycle(places), strict=False)):
                    with place:
                        file = f"{row.claim.id}-{at}"
                        plot(figure, f"evidence.curves.{file}", file=file, label=row.claim.sentence)
                plot(plot_effects(effects, is_dark()), f"evidence.chart.{name}", file=name, label=row.claim.sentence)
            else:
                st.text(row.ruling.why)
        with right:
            for title, text in facts(row):
                st.text(f"{title}: {text}")
            if again := command(row):
                st.code(again, language="sh", wrap_lines=True)
            if effects:
                with st.popover("Figures"):
                    st.text(row.ruling.why)
                    st.dataframe(figures(effects), hide_index=True)
