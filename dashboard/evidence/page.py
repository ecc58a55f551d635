"""The Evidence page: every claim by its paper, with the verdict that its numbers allow; a click opens the numbers."""

from collections import defaultdict
from itertools import cycle

import streamlit as st

from dashboard.charts.evidence import plot_curves, plot_effects
from dashboard.components.live_plot import is_dark, plot
from dashboard.widgets.choices import choose, select
from engine.evidence.claim import PAPERS
from engine.evidence.run import JudgedClaim, Report, list_reports
from engine.views.evidence import COLOURS, INTERVAL_NOTE, command, facts, figures, headline

ALL_CLAIMS = "all"
PAPER_TITLES = {ALL_CLAIMS: "All papers"}
LINE_CSS = "<style>[class*=st-key-evidence-] summary {opacity: 1}</style>"
"""Lines that can be opened are the page's main text, and as legible."""


def draw_evidence() -> None:
    """Draw the Evidence page: claims of the papers with the verdicts of our measurements."""
    st.html(LINE_CSS)
    reports = list_reports()
    report = reports[select("Measured on", reports, "evidence.report", label_visibility="collapsed")]
    st.subheader(headline(report), anchor=False)
    st.caption(
        "A rule computes each verdict from the numbers. `frontier reproduce all --data FOLDER` measures them on your "
        "own judged sets, with any encoder, and this page has them then too."
    )
    _draw_claims(report)


@st.fragment
def _draw_claims(report: Report) -> None:
    """Draw the papers' claims with their verdicts, filtered by paper and verdict, a list for each paper."""
    # Verdicts that no claim has are left out.
    verdict_titles = {ALL_CLAIMS: f"All {len(report.rows)}"}
    for short, count in report.counts().items():
        if count:
            verdict_titles[short] = f"{short} {count}"
    papers = [ALL_CLAIMS, *PAPERS]
    with st.container(horizontal=True, gap="medium"):
        paper = choose("Paper", papers, "evidence.paper", format_func=lambda name: PAPER_TITLES.get(name, name))
        verdict = choose("Verdict", verdict_titles, "evidence.verdict", format_func=verdict_titles.__getitem__)
    by_paper = defaultdict(list)
    for claim_row in report.rows:
        if paper in (ALL_CLAIMS, claim_row.claim.paper) and verdict in (ALL_CLAIMS, claim_row.short):
            by_paper[claim_row.claim.paper].append(claim_row)
    if not by_paper:
        st.info("No claim of this paper came out so.")
    for name, paper_title in PAPERS.items():
        if name in by_paper:
            st.markdown(f"**{paper_title}**")
            with st.container(gap=None, key=f"evidence-{name}"):
                for claim_row in by_paper[name]:
                    _draw_claim(claim_row)


def _draw_claim(row: JudgedClaim) -> None:
    """Draw a paper's claim as a line that opens: its charts, its facts, the command that measures it."""
    name, effects = row.claim.id, row.ruling.effects
    claim_text = f":{COLOURS[row.short]}-badge[{row.short}] {row.claim.sentence}"
    claim_line = st.expander(claim_text, key=f"evidence.{name}", on_change="rerun", type="compact")
    # Closed claims draw nothing: their charts take the time.
    if not claim_line.open:
        return
    with claim_line:
        chart_column, text_column = st.columns([3, 2], gap="medium")
        with chart_column:
            if effects:
                charts = plot_curves(row.ruling.curves, is_dark())
                # The curves stand in two columns, by turns.
                columns = st.columns(min(2, len(charts))) if charts else []
                for position, (figure, column) in enumerate(zip(charts, cycle(columns), strict=False)):
                    with column:
                        file_name = f"{row.claim.id}-{position}"
                        plot(figure, f"evidence.curves.{file_name}", file=file_name, label=row.claim.sentence)
                plot(plot_effects(effects, is_dark()), f"evidence.chart.{name}", file=name, label=row.claim.sentence)
            else:
                st.text(row.ruling.why)
        with text_column:
            for fact_title, fact_text in facts(row):
                st.text(f"{fact_title}: {fact_text}")
            if repeat_command := command(row):
                st.code(repeat_command, language="sh", wrap_lines=True)
            if effects:
                with st.popover("Figures"):
                    st.text(row.ruling.why)
                    st.dataframe(figures(effects), hide_index=True)
                    st.caption(INTERVAL_NOTE)
