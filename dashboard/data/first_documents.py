"""The first documents of the open corpus, as they were read."""

from itertools import islice

import streamlit as st

from dashboard.services import corpora
from dashboard.services.source import Loaded
from dashboard.widgets.common import as_label
from dashboard.widgets.tables import draw_columns, text_column
from engine.data.columns import Columns
from engine.progress import counted, shorten
from engine.wording import visible

MAX_DOCUMENTS, MAX_CHARACTERS = 8, 200
"""Documents that are listed, and characters of a text that are displayed."""


def draw_first_documents(loaded: Loaded) -> None:
    """Draw a line of facts about the open corpus, and its first documents: id, title, text and kept columns."""
    corpus, source = loaded.origin.dataset.corpus, loaded.source
    n_listed = min(MAX_DOCUMENTS, len(corpus))
    facts = f"{corpus.name}: the first {n_listed} of {counted(len(corpus), 'document')}. {_describe_use(loaded)}"
    st.text(visible(facts))
    # Texts of a large corpus lie on disk, so only those that are displayed are read.
    titles = [visible(title) for title in islice(corpus.titles, n_listed)]
    texts = [visible(shorten(text, MAX_CHARACTERS)) for text in islice(corpus.texts, n_listed)]
    columns = {"Id": ([visible(doc_id) for doc_id in corpus.ids[:n_listed]], text_column(140))}
    if any(titles):
        columns["Title"] = (titles, text_column(200))
    columns["Text"] = (texts, text_column("large"))
    for name, values in corpus.metadata.items():
        # A corpus may have a column of the same name; ids, titles and texts are the first.
        if name not in columns:
            columns[name] = ([visible(value) for value in values[:n_listed]], None)
    draw_columns(columns, max_rows=MAX_DOCUMENTS)
    if (read_columns := corpora.find_columns(source)) is not None:
        st.caption(as_label(describe_columns(read_columns)))


def _describe_use(loaded: Loaded) -> str:
    """Return what the vectors of the documents are made from."""
    if loaded.origin.space.encoder is None:
        return "Their vectors came with them."
    has_titles = any(islice(loaded.dataset.corpus.titles, MAX_DOCUMENTS))
    return "Title and text are embedded as one." if has_titles else "Their texts are embedded."


def describe_columns(columns: Columns) -> str:
    """Return the column of each part of a document: "id: Doc Ref · title: none · text: Body Text"."""
    parts = {"id": columns.id, "title": columns.title, "text": columns.text}
    # Own vectors are an exception, so that their absence needs no word.
    if columns.vectors:
        parts["vectors"] = columns.vectors
    return " · ".join(f"{role}: {visible(name or 'none').strip()}" for role, name in parts.items())
