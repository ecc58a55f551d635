"""The sidebar's question: which query, how many documents, from how large a pool."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import streamlit as st
from torch import Tensor

import engine
from dashboard.controls import control
from dashboard.state import Loaded
from engine.decoder import POOL, SET_SIZE
from engine.errors import FrontierError
from engine.values import Qrels, showable

LABELLED, TYPED, SIMILAR = "Labelled", "Typed", "Similar"
MOST_LISTED = 20_000
"""A picker holds at most so many entries; beyond, a browser struggles."""


@dataclass(frozen=True)
class Asked:
    """One question. id: the labelled query's, or "" ; vector: (d,); qrels: its judgements, None if it has none."""

    id: str
    text: str
    vector: Tensor
    qrels: Qrels | None
    k: int
    depth: int | None

    @property
    def judged(self) -> bool:
        """Whether Recall exists for it."""
        return self.qrels is not None and bool(self.qrels.relevant(self.id))


def ask(loaded: Loaded) -> Asked | None:
    """Draw the controls; None until there is a query."""
    dataset, encoder = loaded.dataset, loaded.space.embeddings.encoder
    ways = [
        *([LABELLED] if len(dataset.queries) and encoder is not None else []),
        *([TYPED] if encoder is not None else []),
        SIMILAR,
    ]
    key = loaded.space.corpus.digest[:12]
    way = st.segmented_control(
        "Query",
        ways,
        default=ways[0],
        required=True,
        key=f"way.{key}",
        persist_state="session",
        help="A labelled query has judgements, so Recall can be measured. Similar: a document as query, itself first.",
    )
    try:
        found = {LABELLED: _labelled, TYPED: _typed, SIMILAR: _similar}[way or ways[0]](loaded, key)
    except FrontierError as error:
        st.error("The query cannot be embedded.", icon=":material/error:")
        st.text(str(error))
        found = None
    k = control(SET_SIZE, "k")
    depth = control(POOL, "pool")
    if found is None:
        return None
    query, text, vector, qrels = found
    return Asked(query, showable(text), vector, qrels, k, depth)


def _labelled(loaded: Loaded, key: str) -> tuple[str, str, Tensor, Qrels | None] | None:
    dataset = loaded.dataset
    splits = list(dataset.qrels)
    split = st.selectbox("Split", splits, key=f"split.{key}", persist_state="session") if splits else None
    queries = dataset.judged(split) if split else dataset.queries
    if not len(queries):
        st.info("This split judges no query of the corpus.")
        return None
    at = st.selectbox(
        f"{len(queries):,} queries",
        range(min(len(queries), MOST_LISTED)),
        key=f"query.{key}.{split}",
        format_func=lambda i: showable(queries.texts[i]),
        persist_state="session",
    )
    qrels = dataset.qrels[split] if split else None
    query = queries.ids[at]
    if loaded.queries is not None:
        vector = loaded.queries[dataset.queries.position[query]]
    else:
        vector = _embedded(loaded, queries.texts[at])
    return query, queries.texts[at], vector, qrels


def _typed(loaded: Loaded, key: str) -> tuple[str, str, Tensor, Qrels | None] | None:
    text = st.text_area(
        "Your query",
        key=f"own.{key}",
        persist_state="session",
        height=100,
        placeholder="What are you looking for?",
    ).strip()
    if not text:
        st.info("Type a query and press Ctrl+Enter, or click elsewhere.")
        return None
    return "", text, _embedded(loaded, text), None


def _similar(loaded: Loaded, key: str) -> tuple[str, str, Tensor, Qrels | None] | None:
    corpus = loaded.dataset.corpus
    named = st.text_input(
        "Document id",
        value=showable(corpus.ids[0]),
        key=f"document.{key}",
        persist_state="session",
        help="The id as it stands in the corpus.",
    )
    row = corpus.position.get(named)
    if row is None:
        near = [showable(i) for i in corpus.ids if named.strip().lower() in i.lower()][:5] if named.strip() else []
        st.warning("No document has this id.")
        if near:
            st.text("Did you mean: " + ", ".join(near))
        return None
    return "", corpus.passages[row] or named, loaded.space.embeddings.vectors[row], None


def _embedded(loaded: Loaded, text: str) -> Tensor:
    """The vector of a text by the corpus's own encoder; the last ones are remembered by content."""
    ref = loaded.space.embeddings.encoder
    memory: dict[Any, Tensor] = st.session_state.setdefault("embedded", {})
    key = (ref, text)
    if key not in memory:
        with st.spinner("Embedding the query (the first one loads the encoder)"):
            memory[key] = engine.embed([text], encoder=ref.name, dtype=ref.dtype).vectors[0]
        while len(memory) > 200:
            memory.pop(next(iter(memory)))
    return memory[key]
