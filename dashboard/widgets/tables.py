"""Tables: rows of one height, tables side by side, clicks on rows, and a retrieved set as a table."""

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
import streamlit as st

from engine.evaluation.metrics import title_of
from engine.views.sets import DROPPED_MARK, Merged, Row

NARROW_PX = 1200
"""Width of a screen in pixels, below which three tables side by side are illegible."""
ROW_PX, HEADER_PX, TABLE_BORDER = 32, 36, 2
"""In pixels; Streamlit's row of titles has a height of its own."""
CLICKABLE = {"on_select": "rerun", "selection_mode": "single-cell"}
"""Options of a table whose rows are clicked: see `find_clicked_row`."""
MAX_TABLE_ROWS, CHANGE_WIDTH = 24, 78
CHANGE_HELP = "Places gained or lost against the list compared with; NEW: not in that one; DROPPED: only in that one"
RELEVANCE_HELP = "Inner product with the query"


def number_column(format: str | None = None, width: Any = None, help: str | None = None) -> Any:
    """Return the configuration of a column of numbers; format: printf's or Streamlit's; width: in pixels."""
    return st.column_config.NumberColumn(format=format, width=width, help=help)


def text_column(width: Any = None, help: str | None = None) -> Any:
    """Return the configuration of a column of texts; width: in pixels."""
    return st.column_config.TextColumn(width=width, help=help)


def name_metric(metric: str, k: int | None = None) -> str:
    """Return a metric's title as pages write it, with @k unless k is None: plain words before an abbreviation."""
    title = title_of(metric) if k is None else f"{title_of(metric)}@{k}"
    # Files and the command line say ILAD, which is what a reader of both looks for.
    return f"Diversity ({title})" if metric == "ilad" else title


def draw_table(
    columns: Any, config: Mapping[str, Any] | None = None, *, max_rows: int | None = None, **options: Any
) -> Any:
    """Draw a table without its index; return Streamlit's event.

    columns: name → values, or a data frame; config: name → column configuration; max_rows: visible rows, each
    ROW_PX high, None for Streamlit's own heights; options: of `st.dataframe`.
    """
    frame = columns if isinstance(columns, pd.DataFrame) else pd.DataFrame(columns)
    # Heights are multiples of rows, so that no row is cut.
    if max_rows is not None:
        height = HEADER_PX + ROW_PX * min(len(frame), max_rows) + TABLE_BORDER
        options = {"row_height": ROW_PX, "height": height, **options}
    return st.dataframe(frame, hide_index=True, column_config=config, **options)


def draw_columns(columns: Mapping[str, tuple[Any, Any]], **options: Any) -> Any:
    """Draw a table; columns: name → (values, configuration of the column or None)."""
    configs = {name: config for name, (_, config) in columns.items() if config is not None}
    return draw_table({name: values for name, (values, _) in columns.items()}, configs, **options)


def make_grid(n_columns: int, key: str) -> list[Any]:
    """Return columns of the page side by side, on a narrow screen two in a row; key: of their container."""
    return _make_columns(n_columns, key, "calc(50% - 1rem)", "small")


def pair(key: str) -> list[Any]:
    """Return two columns, one below the other on a narrow screen; key: of the container."""
    return _make_columns(2, key, "calc(100% - 1rem)", "medium")


def _make_columns(n_columns: int, key: str, width: str, gap: Any) -> list[Any]:
    """Return columns of the page; on a narrow screen at least `width` wide (CSS), so that some move below."""
    # Streamlit gives a container's key to it as the class st-key-….
    st.html(f"<style>@media (max-width: {NARROW_PX}px) {{.st-key-{key} .stColumn {{min-width: {width}}}}}</style>")
    with st.container(key=key):
        return list(st.columns(n_columns, gap=gap))


def find_click(key: str, event: Any, n_rows: int) -> int | None:
    """Return the row that was clicked since the last run in a CLICKABLE table; None without a click.

    key: of the table; event: Streamlit's, with the marked cell, which stays marked in later runs; n_rows: of the table
    """
    # The grid remembers a position, not a document: only a change of position is a click. So the session stores the
    # marked row of each table, and the table that was clicked last.
    cells = event.selection.cells
    row = cells[0][0] if cells and cells[0][0] < n_rows else None
    marked_rows = st.session_state.setdefault("places", {})
    previous = marked_rows.get(key)
    if row == previous:
        return None
    marked_rows[key] = row
    last_table, st.session_state["places.last"] = st.session_state.get("places.last"), key
    # After a click in another table, a click on the cell that is still marked here unmarks it, and means its row.
    is_clicked_again = row is None and last_table != key and previous is not None and previous < n_rows
    return previous if is_clicked_again else row


def draw_set(
    key: str,
    retrieved: Sequence[Row],
    dropped: Sequence[Row] | None,
    width: int,
    relevance_help: str,
    nearest: tuple[Mapping[str, Sequence[Any]], Mapping[str, Any]] | None = None,
) -> Any:
    """Draw the documents of a retrieved set as a table; return Streamlit's event, None for an empty set.

    dropped: the baseline's documents that the set lacks, drawn below it; None without a comparison; width: of the
    documents' column, in pixels; relevance_help: tooltip of the relevance's column; nearest: values and configurations,
    by name, of columns in place of "Nearest", the similarity to the most similar document above
    """
    is_compared, rows = dropped is not None, [*retrieved, *(dropped or ())]
    if not rows:
        st.caption("Nothing was retrieved.")
        return None
    # Dropped documents have neither a rank nor a nearest one above them.
    blanks = [None] * (len(rows) - len(retrieved))
    similarities = {"Nearest": [*(row.similarity for row in retrieved), *blanks]}
    nearest_values, nearest_configs = nearest or (similarities, {})
    table = {
        "#": [*(row.rank for row in retrieved), *blanks],
        **({"Change": [*(row.mark for row in retrieved), *[DROPPED_MARK] * len(blanks)]} if is_compared else {}),
        **make_relevance_column(rows),
        "Document": [row.name for row in rows],
        "Relevance": [row.relevance for row in rows],
        **nearest_values,
    }
    return draw_table(
        table,
        {
            "#": number_column(width=32),
            "Change": text_column(CHANGE_WIDTH, CHANGE_HELP),
            "✓": text_column(28, "Judged relevant"),
            "Document": text_column(width if is_compared else width + CHANGE_WIDTH),
            "Relevance": number_column("%.3f", 76, relevance_help),
            "Nearest": number_column("%.3f", 68, "Similarity to the most similar document ranked above it"),
            **nearest_configs,
        },
        key=key,
        max_rows=MAX_TABLE_ROWS,
        **CLICKABLE,
        placeholder="",
    )


def make_relevance_column(rows: Sequence[Row | Merged]) -> dict[str, list[str]]:
    """Return the column that marks relevant documents, by its name; {} without judgements."""
    if all(row.relevant is None for row in rows):
        return {}
    return {"✓": ["✓" if row.relevant else "" for row in rows]}
