"""Drift: what feedback did to the documents, over time, and how to take it back."""

from dashboard import frame

loaded, question = frame.draw_header()
if loaded is not None:
    from dashboard.drift import page

    page.draw_drift(loaded, question)
