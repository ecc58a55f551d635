"""The Figures view: every metric of every decoder, for this query."""

import pandas as pd
import streamlit as st

from dashboard.services.source import Loaded
from dashboard.session.answers import Answer
from dashboard.session.query import Question
from dashboard.widgets.tables import draw_table, number_column
from engine.evaluation.metrics import METRICS, title_of


def show(loaded: Loaded, question: Question, answers: dict[str, Answer], baseline: str) -> None:
    """Draw a row for each decoder, a column for each metric."""
    rows = []
    for answer in answers.values():
        values = answer.figures
        recall = {} if values.recall is None else {title_of("recall"): values.recall}
        metrics = {**recall, title_of("ilad"): values.ilad, **values.others}
        at_k = {f"{title}@{question.k}": value for title, value in metrics.items()}
        times = {"Returned": values.returned, "ms": None if answer.seconds is None else 1000 * answer.seconds}
        rows.append({"Decoder": answer.title, **at_k, "Overlap": values.overlap, **times})
    frame = pd.DataFrame(rows)
    shown = frame.columns.difference(["Decoder", "Returned", "ms"])
    draw_table(frame, dict.fromkeys(shown, number_column("%.4f")) | {"ms": number_column("%.2f")})
    with st.expander("What these are"):
        for metric in METRICS.values():
            st.text(f"{metric.title}@k: {metric.formula}")
