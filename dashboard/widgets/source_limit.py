"""The control of how many documents of one source an answer may have."""

from collections.abc import Sequence
from typing import Any

import streamlit as st

from dashboard.services.source import Loaded
from dashboard.session import decoders
from dashboard.widgets.choices import select
from dashboard.widgets.parameters import draw_parameter
from engine.decoder import PER_SOURCE
from engine.wording import visible


def draw_source_limit(loaded: Loaded, containers: Sequence[Any] = (st, st)) -> None:
    """Draw the limit per source and the column of the sources, where the corpus has columns; all pages share them.

    containers: for the number and for the column
    """
    columns = list(loaded.space.corpus.metadata)
    if columns and loaded.reach is None:
        number_container, column_container = containers
        draw_parameter(PER_SOURCE, decoders.PER_SOURCE_KEY, number_container)
        help_text = "The column whose values are the sources."
        select("Source", columns, decoders.SOURCE_COLUMN_KEY, container=column_container, help=help_text)


def describe_source_limit(columns: Sequence[str]) -> list[str]:
    """Return this session's limit per source in words; none if there is none, or for a corpus without the column."""
    per_source, column = decoders.get_source_limit()
    if per_source is None:
        return []
    if column not in columns:
        # The limit is of another corpus.
        st.session_state[decoders.PER_SOURCE_KEY] = None
        st.session_state.pop(decoders.SOURCE_COLUMN_KEY, None)
        return []
    return [f"{per_source} per {visible(str(column))}"]
