"""A retrieved set as a table: ranks, changes against the baseline, judgements, relevance."""

from collections.abc import Mapping, Sequence
from typing import Any

import streamlit as st

from dashboard.widgets.tables import CLICKABLE, draw_table, number_column, text_column
from engine.views.sets import DROPPED, Merged, Row

MOST_ROWS, CHANGE_WIDTH = 24, 78
RELEVANCE = "Inner product with the query"


def set_table(
    key: str,
    retrieved: Sequence[Row],
    dropped: Sequence[Row] | None,
    width: int,
    by: str,
    instead: tuple[Mapping[str, Sequence[Any]], Mapping[str, Any]] | None = None,
) -> Any:
    """Draw a set as a table; returns Streamlit's event, None for no table.

    dropped: the baseline's documents that the set lacks, drawn below it; None for a set that is not compared; width: of
    the documents' column beside changes; by: what made the relevance; instead: columns in place
    of the closest document's cosine, and how they are shown.
    """
    compared, rows = dropped is not None, [*retrieved, *(dropped or ())]
    if not rows:
        st.caption("Nothing was retrieved.")
        return None
    lost = len(rows) - len(retrieved)
    table = {
        "#": [*(r.rank for r in retrieved), *[None] * lost],
        **({"Change": [*(r.mark for r in retrieved), *[DROPPED] * lost]} if compared else {}),
        **judged_column(rows),
        "Document": [document_name(r) for r in rows],
        "Relevance": [r.relevance for r in rows],
        **({"Nearest": [*(r.similarity for r in retrieved), *[None] * lost]} if instead is None else instead[0]),
    }
    return draw_table(
        table,
        {
            "#": number_column(width=32),
            "Change": text_column(CHANGE_WIDTH, "Places gained or lost; NEW and DROPPED documents"),
            "✓": text_column(28, "Judged relevant"),
            "Document": text_column(width if compared else width + CHANGE_WIDTH),
            "Relevance": number_column("%.3f", 76, by),
            "Nearest": number_column("%.3f", 68, "Similarity to the most similar document ranked above it"),
            **(instead[1] if instead else {}),
        },
        key=key,
        most=MOST_ROWS,
        **CLICKABLE,
        placeholder="",
    )


def document_name(row: Row | Merged) -> str:
    return row.title or row.text[:200] or row.id


def judged_column(rows: Sequence[Row | Merged]) -> dict[str, list[str]]:
    """The column of ticks, where there are judgements."""
    if all(r.relevant is None for r in rows):
        return {}
    return {"✓": ["✓" if r.relevant else "" for r in rows]}
