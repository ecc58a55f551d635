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
from engine.values import Dataset, Qrels, Queries, showable

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


def first_split(dataset: Dataset) -> str | None:
    """The split that is looked at before a person picks one; None where nothing is judged.

    While choosing it should be neither what an encoder was trained on nor what will be reported on.
    """
    return next((name for name in ("dev", "test") if name in dataset.qrels), next(iter(dataset.qrels), None))


def most_asked(loaded: Loaded) -> int:
    """The largest k that means anything on a corpus: an address may hold any."""
    return max(len(loaded.space), SET_SIZE.span[1])


def ways_of(loaded: Loaded) -> list[str]:
    """How a corpus can be asked; the first is the default."""
    encoder = loaded.space.encoder
    return [
        *([LABELLED] if len(loaded.dataset.queries) and encoder is not None else []),
        *([TYPED] if encoder is not None else []),
        SIMILAR,
    ]


def standing(loaded: Loaded) -> tuple[str, str | None, str]:
    """What the controls are set to, drawn or not: the way, the split, and the query's id, its words or a document's id.

    The split is None where it does not count or there is none.
    """
    key, known, dataset = _key(loaded), st.session_state, loaded.dataset
    way = known.get(f"way.{key}") or ways_of(loaded)[0]
    if way == TYPED:
        return way, None, known.get(f"own.{key}", "").strip()
    if way == SIMILAR:
        return way, None, known.get(f"document.{key}", showable(dataset.corpus.ids[0]))
    split = known.get(f"split.{key}", first_split(dataset))
    queries = dataset.judged(split) if split else dataset.queries
    at = known.get(f"query.{key}.{split}", 0)
    return way, split, queries.ids[at] if at < len(queries) else ""


def pose(loaded: Loaded, way: str, split: str | None, what: str) -> str | None:
    """Set the controls, before they are drawn, to what `standing` returned once; says why where that cannot be."""
    key, dataset = _key(loaded), loaded.dataset
    if way not in (ways := ways_of(loaded)):
        return f"this corpus cannot be asked by {way!r}; it can by {', '.join(ways)}"
    if way == LABELLED:
        if split not in dataset.qrels and not (split is None and not dataset.qrels):
            return (
                f"no split is called {split!r}; there are {', '.join(dataset.qrels) or 'no judgements'}: pick a query"
            )
        queries = dataset.judged(split) if split else dataset.queries
        at = queries.position.get(what)
        if at is None or at >= MOST_LISTED:
            return f"the query {what!r} is not among those of {split or 'this corpus'}: pick another"
        st.session_state[f"query.{key}.{split}"] = at
        if split is not None:
            st.session_state[f"split.{key}"] = split
    else:
        st.session_state[f"own.{key}" if way == TYPED else f"document.{key}"] = what
    st.session_state[f"way.{key}"] = way
    return None


def _key(loaded: Loaded) -> str:
    """What the controls of this corpus have in their keys."""
    return loaded.space.corpus.digest[:12]


def ask(loaded: Loaded) -> Asked | None:
    """Draw the controls; None until there is a query."""
    ways = ways_of(loaded)
    key = _key(loaded)
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
    k = min(control(SET_SIZE, "k"), most_asked(loaded))
    depth = control(POOL, "pool")
    if found is None:
        return None
    query, text, vector, qrels = found
    return Asked(query, showable(text), vector, qrels, k, depth)


def _labelled(loaded: Loaded, key: str) -> tuple[str, str, Tensor, Qrels | None] | None:
    dataset = loaded.dataset
    splits = list(dataset.qrels)
    first = first_split(dataset)
    split = (
        st.selectbox("Split", splits, splits.index(first), key=f"split.{key}", persist_state="session")
        if splits
        else None
    )
    queries = dataset.judged(split) if split else dataset.queries
    if not len(queries):
        st.info("This split judges no query of the corpus.")
        return None
    at = st.selectbox(
        f"{len(queries):,} queries",
        range(min(len(queries), MOST_LISTED)),
        key=f"query.{key}.{split}",
        format_func=lambda i: _told_apart(queries, i),
        persist_state="session",
    )
    qrels = dataset.qrels[split] if split else None
    query = queries.ids[at]
    if loaded.queries is not None:
        vector = loaded.queries[dataset.queries.position[query]]
    else:
        vector = _embedded(loaded, queries.texts[at])
    return query, queries.texts[at], vector, qrels


def _told_apart(queries: Queries, at: int) -> str:
    """A query's text; with its id where another has the same: a picker knows its entries by what they show."""
    text = queries.texts[at]
    return showable(text if queries.counted[text] == 1 else f"{text} ({queries.ids[at]})")


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
            memory[key] = engine.embed_queries(loaded.space, [text]).vectors[0]
        while len(memory) > 200:
            memory.pop(next(iter(memory)))
    return memory[key]
