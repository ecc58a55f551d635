"""The Evidence page: a wall of the claims by paper and verdict, and a line for each; a click opens the numbers."""

from collections import defaultdict
from itertools import cycle

import streamlit as st

from dashboard.charts.evidence import plot_curves, plot_effects
from dashboard.components.live_plot import is_dark, plot
from dashboard.components.squares import Square, draw_squares
from dashboard.widgets.choices import choose, select
from engine.evaluation.metrics import write_metric_titles
from engine.evidence.claim import PAPERS
from engine.evidence.run import JudgedClaim, Report, list_reports
from engine.views.evidence import (
    COLOURS,
    INTERVAL_NOTE,
    OUTLINED_VERDICTS,
    ROUND_VERDICTS,
    advise,
    command,
    describe_marks,
    describe_signs,
    facts,
    figures,
    headline,
    list_squares,
)

ALL_CLAIMS = "all"
CHOSEN_KEY = "evidence.chosen"
"""Session key of the claim that is open below the wall."""
PAPER_TITLES = {ALL_CLAIMS: "All papers", **PAPERS}
LINE_CSS = "<style>[class*=st-key-evidence-] summary {opacity: 1}</style>"
"""Lines that can be opened are the page's main text, and as legible."""


def draw_evidence() -> None:
    """Draw the Evidence page: claims of the papers with the verdicts of our measurements."""
    st.html(LINE_CSS)
    reports = list_reports()
    report = reports[select("Measured on", reports, "evidence.report", label_visibility="collapsed")]
    st.header(headline(report), anchor=False)
    st.markdown("\n".join(f"- {sentence}" for sentence in advise(report)))
    st.caption(
        "A rule computes each verdict from the numbers. Click a claim for the command that measures it again, on your "
        "own judged sets and with any encoder; this page has those numbers then too."
    )
    _draw_wall(report)
    _draw_claims(report)


@st.fragment
def _draw_wall(report: Report) -> None:
    """Draw a square for each claim, by paper and verdict, and below them the claim of the square that was clicked."""
    rows = {row.claim.id: row for row in report.rows}
    # The component knows colours of the theme alone, not verdicts.
    groups = {}
    for paper, squares in list_squares(report).items():
        groups[paper] = [
            Square(
                value=square.claim_id,
                sign=square.sign,
                colour=COLOURS[square.verdict],
                title=square.title,
                outlined=square.verdict in OUTLINED_VERDICTS,
                is_round=square.verdict in ROUND_VERDICTS,
            )
            for square in squares
        ]

    def open_claim(claim_id: str) -> None:
        """Show a claim below the wall, or close it on a second click."""
        st.session_state[CHOSEN_KEY] = None if st.session_state.get(CHOSEN_KEY) == claim_id else claim_id

    # A report measured elsewhere may lack the claim that was open.
    chosen_row = rows.get(st.session_state.get(CHOSEN_KEY) or "")
    chosen = None if chosen_row is None else chosen_row.claim.id
    draw_squares(groups, chosen, "evidence.wall", open_claim, label="Claims by paper, sorted by verdict")
    st.caption(describe_signs(report))
    if chosen_row is not None:
        with st.container(border=True, key="evidence-chosen"):
            st.markdown(f":{COLOURS[chosen_row.short]}-badge[{chosen_row.short}] **{chosen_row.claim.sentence}**")
            _draw_details(chosen_row, "wall")


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
        # A list, as the papers' titles would take several rows side by side.
        options = {"format_func": PAPER_TITLES.__getitem__, "label_visibility": "collapsed", "width": 420}
        paper = select("Paper", papers, "evidence.paper", **options)
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
    claim_text = f":{COLOURS[row.short]}-badge[{row.short}] {row.claim.sentence}"
    claim_line = st.expander(claim_text, key=f"evidence.{row.claim.id}", on_change="rerun", type="compact")
    # Closed claims draw nothing: their charts take the time.
    if claim_line.open:
        with claim_line:
            _draw_details(row, "list")


def _draw_details(row: JudgedClaim, section: str) -> None:
    """Draw what a claim's verdict rests on: charts, facts, the command that measures it.

    section: names the part of the page, as a claim may be open in two.
    """
    name, effects = f"{section}.{row.claim.id}", row.ruling.effects
    chart_column, text_column = st.columns([3, 2], gap="medium")
    with chart_column:
        if effects:
            charts = plot_curves(row.ruling.curves, is_dark())
            # The curves stand in two columns, by turns.
            columns = st.columns(min(2, len(charts))) if charts else []
            for position, (figure, column) in enumerate(zip(charts, cycle(columns), strict=False)):
                with column:
                    file_name = f"{row.claim.id}-{position}"
                    plot(figure, f"evidence.curves.{name}-{position}", file=file_name, label=row.claim.sentence)
            effects_chart = plot_effects(effects, is_dark(), row.claim.find_claimed_values)
            plot(effects_chart, f"evidence.chart.{name}", file=row.claim.id, label=row.claim.sentence)
            if marks_text := describe_marks(row):
                st.caption(marks_text)
        else:
            st.text(write_metric_titles(row.ruling.why))
    with text_column:
        for fact_title, fact_text in facts(row):
            st.text(f"{fact_title}: {fact_text}")
        if repeat_command := command(row):
            st.code(repeat_command, language="sh", wrap_lines=True)
        if effects:
            with st.popover("Figures", key=f"evidence.figures.{name}"):
                st.text(write_metric_titles(row.ruling.why))
                st.dataframe(figures(effects), hide_index=True)
                st.caption(INTERVAL_NOTE)
