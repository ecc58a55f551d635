"""Tables: drawn with rows of one height, side by side, the clicks on their rows, and a retrieved set as one."""

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
import streamlit as st

from engine.views.sets import DROPPED_MARK, Merged, Row

NARROW = 1200
"""Pixels of a screen on which three tables with names are too narrow to be read."""
ROW_HEIGHT, BORDER = 32, 2
"""Of a table, in pixels."""
CLICKABLE = {"on_select": "rerun", "selection_mode": "single-cell"}
"""Options of a table whose rows are clicked: see `clicked`."""
MOST_ROWS, CHANGE_WIDTH = 24, 78
RELEVANCE = "Inner product with the query"


def number_column(format: str | None = None, width: Any = None, help: str | None = None) -> Any:
    """A column of numbers; format: as printf has it, or one of Streamlit's; width: in pixels."""
    return st.column_config.NumberColumn(format=format, width=width, help=help)


def text_column(width: Any = None, help: str | None = None) -> Any:
    """A column of texts; width: in pixels."""
    return st.column_config.TextColumn(width=width, help=help)


def draw_table(
    columns: Any, config: Mapping[str, Any] | None = None, *, most: int | None = None, **options: Any
) -> Any:
    """Draw a table without its index; returns Streamlit's event.

    columns: name → values, or a data frame; config: name → how the column is shown; most: at most this many rows at
    once, each ROW_HEIGHT high, None for heights of Streamlit's own; options: of `st.dataframe`.
    """
    frame = columns if isinstance(columns, pd.DataFrame) else pd.DataFrame(columns)
    if most is not None:
        height = ROW_HEIGHT * (min(len(frame), most) + 1) + BORDER
        options = {"row_height": ROW_HEIGHT, "height": height, **options}
    return st.dataframe(frame, hide_index=True, column_config=config, **options)


def draw_columns(columns: Mapping[str, tuple[Any, Any]], **options: Any) -> Any:
    """As `draw_table`, of columns that are given as their values and how these are shown, None for Streamlit's way."""
    shown = {name: look for name, (_, look) in columns.items() if look is not None}
    return draw_table({name: values for name, (values, _) in columns.items()}, shown, **options)


def columns(count: int, key: str) -> list[Any]:
    """Columns for tables; on a narrow screen two of them beside each other, the third below."""
    return _columns(count, key, "calc(50% - 1rem)", "small")


def pair(key: str) -> list[Any]:
    """Two columns, one below the other on a narrow screen; key: of the container, for its style."""
    return _columns(2, key, "calc(100% - 1rem)", "medium")


def _columns(count: int, key: str, narrow: str, gap: Any) -> list[Any]:
    st.html(f"<style>@media (max-width: {NARROW}px) {{.st-key-{key} .stColumn {{min-width: {narrow}}}}}</style>")
    with st.container(key=key):
        return list(st.columns(count, gap=gap))


def clicked(key: str, event: Any, count: int) -> int | None:
    """The row clicked just now, None for none, of a table of `count` rows that was CLICKABLE and returned `event`."""
    # The grid remembers a place, not a document: only a change of place is a click.
    cells = event.selection.cells
    place = cells[0][0] if cells and cells[0][0] < count else None
    places = st.session_state.setdefault("places", {})
    before = places.get(key)
    if place == before:
        return None
    places[key] = place
    last, st.session_state["places.last"] = st.session_state.get("places.last"), key
    # A cell that was still marked when another table was clicked: the click that unmarks it means it.
    return before if place is None and last != key and before is not None and before < count else place


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
        **({"Change": [*(r.mark for r in retrieved), *[DROPPED_MARK] * lost]} if compared else {}),
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
