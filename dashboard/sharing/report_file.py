"""The dialog Report: what Trade-off has measured as one HTML file to download."""

from functools import partial

import streamlit as st

from dashboard.report import build_page
from dashboard.services.source import Loaded
from dashboard.session.decoders import TRADEOFF_SCREEN
from dashboard.session.measured import MeasuredSweep, find_measured
from dashboard.widgets.basics import download_button
from engine.progress import counted
from engine.wording import visible


def draw_report(loaded: Loaded) -> None:
    """Draw the download of the report; where nothing is measured, what is lacking and the way to it."""
    measured = find_measured(loaded)
    if measured is None:
        st.info("Nothing of this corpus is measured in this session yet.", icon=":material/analytics:")
        st.text("Trade-off measures the settings on labelled queries, or opens what was measured before.")
        if st.button("Open Trade-off", type="primary", key="report.measure"):
            st.switch_page(TRADEOFF_SCREEN)
        return
    first_cell = measured.cells[0]
    split_text = f" of {first_cell.split}" if first_cell.split else ""
    n_settings = counted(sum(cell.label != measured.baseline for cell in measured.cells), "setting")
    n_queries = counted(len(first_cell.queries), "query", "queries")
    st.text(
        visible(
            f"One HTML file of Trade-off as it stood last: {n_settings} on {n_queries}{split_text} at k = "
            f"{measured.k}, with the verdict, the frontier, a table of all settings and how they were measured."
        )
    )
    st.caption("It needs no server and no network. No text of a document or a query is in it.")
    download_button(
        "Download",
        partial(_build_report, measured),
        "frontier-report.html",
        "text/html",
        "report.download",
        icon=":material/download:",
        type="primary",
    )


def _build_report(measured: MeasuredSweep) -> str:
    """Build the page; called on the click alone, as its intervals take a second."""
    return build_page(
        list(measured.cells),
        measured.x,
        measured.y,
        measured.k,
        measured.baseline,
        curves=measured.curves,
        decided=measured.decided,
    )
