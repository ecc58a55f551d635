"""The Figures view: every metric of every decoder shown, for this query."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from dashboard.explore.answers import Answer
from dashboard.explore.question import Asked
from dashboard.state import Loaded
from engine.evaluation.metrics import METRICS


def show(loaded: Loaded, asked: Asked, answers: dict[str, Answer], baseline: str) -> None:
    """A row a decoder, a column a metric."""
    rows = []
    for own in answers.values():
        shown = own.figures
        fixed = {f"{METRICS['recall'].title}@{asked.k}": shown.recall} if shown.recall is not None else {}
        rows.append(
            {
                "Decoder": own.title,
                **fixed,
                f"{METRICS['ilad'].title}@{asked.k}": shown.ilad,
                **{f"{title}@{asked.k}": value for title, value in shown.others.items()},
                "Overlap": shown.overlap,
                "Returned": shown.returned,
                "ms": 1000 * own.seconds,
            }
        )
    frame = pd.DataFrame(rows)
    kept = {"Decoder", "Returned", "ms"}
    st.dataframe(
        frame,
        hide_index=True,
        column_config={c: st.column_config.NumberColumn(format="%.4f") for c in frame.columns if c not in kept}
        | {"ms": st.column_config.NumberColumn(format="%.2f")},
    )
    with st.expander("What these are"):
        for metric in METRICS.values():
            st.text(f"{metric.title}@k: {metric.formula}")
