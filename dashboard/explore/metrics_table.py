"""The Figures view: every metric of every decoder, for this query."""

import pandas as pd
import streamlit as st

from dashboard.services.source import Loaded
from dashboard.session.answers import Answer
from dashboard.session.query import Question
from dashboard.widgets.tables import draw_table, number_column
from engine.evaluation.metrics import METRICS


def show(loaded: Loaded, question: Question, answers: dict[str, Answer], baseline: str) -> None:
    """Draw a row for each decoder, a column for each metric."""
    rows = []
    for answer in answers.values():
        values = answer.figures
        recall = {f"{METRICS['recall'].title}@{question.k}": values.recall} if values.recall is not None else {}
        rows.append(
            {
                "Decoder": answer.title,
                **recall,
                f"{METRICS['ilad'].title}@{question.k}": values.ilad,
                **{f"{title}@{question.k}": value for title, value in values.others.items()},
                "Overlap": values.overlap,
                "Returned": values.returned,
                "ms": 1000 * answer.seconds,
            }
        )
    frame = pd.DataFrame(rows)
    metrics = frame.columns.difference(["Decoder", "Returned", "ms"])
    draw_table(frame, dict.fromkeys(metrics, number_column("%.4f")) | {"ms": number_column("%.2f")})
    with st.expander("What these are"):
        for metric in METRICS.values():
            st.text(f"{metric.title}@k: {metric.formula}")
