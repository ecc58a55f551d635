"""The sidebar's question: which query, how many documents, from how large a pool."""

from typing import Any

import streamlit as st
from torch import Tensor

import engine
from dashboard.services.memo import Memo, session_memo
from dashboard.services.source import Loaded
from dashboard.session.query import (
    LABELLED,
    MOST_LISTED,
    SIMILAR,
    TYPED,
    Question,
    corpus_key,
    first_split,
    largest_k,
    ways_of,
)
from dashboard.widgets.choices import choose
from dashboard.widgets.failure import show_failure
from dashboard.widgets.parameters import control
from engine.decoder import POOL, SET_SIZE
from engine.errors import FrontierError
from engine.values import Qrels, Queries, replace_surrogates

REMEMBERED = 200
"""Typed queries whose vectors a session keeps."""


def ask(loaded: Loaded) -> Question | None:
    """Draw the controls; None until there is a query."""
    ways = ways_of(loaded)
    key = corpus_key(loaded)
    way = choose(
        "Query",
        ways,
        f"way.{key}",
        named=True,
        help="A labelled query has judgements, so Recall can be measured. Similar: a document as query, itself first.",
    )
    try:
        chosen = {LABELLED: _labelled, TYPED: _typed, SIMILAR: _similar}[way](loaded, key)
    except FrontierError as error:
        show_failure("The query cannot be embedded.", error)
        chosen = None
    k = min(control(SET_SIZE, "k"), largest_k(loaded))
    depth = control(POOL, "pool")
    if chosen is None:
        return None
    query, text, vector, qrels = chosen
    return Question(query, replace_surrogates(text), vector, qrels, k, depth)


def _labelled(loaded: Loaded, key: str) -> tuple[str, str, Tensor, Qrels | None] | None:
    dataset, split = loaded.dataset, first_split(loaded.dataset)
    if split is not None:
        splits = list(dataset.qrels)
        split = st.selectbox("Split", splits, splits.index(split), key=f"split.{key}", persist_state="session")
    queries = dataset.judged(split) if split else dataset.queries
    if not len(queries):
        st.info("This split judges no query of the corpus.")
        return None
    row = st.selectbox(
        f"{len(queries):,} queries",
        range(min(len(queries), MOST_LISTED)),
        key=f"query.{key}.{split}",
        format_func=lambda i: _told_apart(queries, i),
        persist_state="session",
    )
    query, text = queries.ids[row], queries.texts[row]
    known = loaded.queries
    vector = _embedded(loaded, text) if known is None else known[dataset.queries.position[query]]
    return query, text, vector, dataset.qrels[split] if split else None


def _told_apart(queries: Queries, row: int) -> str:
    """A query's text; with its id where another has the same: a picker knows its entries by what they show."""
    text = queries.texts[row]
    return replace_surrogates(text if queries.counted[text] == 1 else f"{text} ({queries.ids[row]})")


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
        value=replace_surrogates(corpus.ids[0]),
        key=f"document.{key}",
        persist_state="session",
        help="The id as it stands in the corpus.",
    )
    row = corpus.position.get(named)
    if row is None:
        part = named.strip().lower()
        near = [replace_surrogates(ident) for ident in corpus.ids if part and part in ident.lower()]
        st.warning("No document has this id.")
        if near:
            st.text("Did you mean: " + ", ".join(near[:5]))
        return None
    return "", corpus.passages[row] or named, loaded.space.embeddings.vectors[row], None


def _embedded(loaded: Loaded, text: str) -> Tensor:
    """The vector of a text by the corpus's own encoder; the last ones are remembered by content."""
    ref = loaded.space.embeddings.encoder
    memory: Memo[Any, Tensor] = session_memo("embedded", REMEMBERED)
    key = (ref, text)
    if key not in memory:
        with st.spinner("Embedding the query (the first one loads the encoder)"):
            memory[key] = engine.embed_queries(loaded.space, [text]).vectors[0]
    return memory[key]
