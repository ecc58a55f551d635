"""The question of a session: query, set size, pool size; read and set in session state."""

from collections.abc import Sequence
from dataclasses import dataclass

import streamlit as st
from torch import Tensor

from dashboard.services.source import Loaded
from engine.decoder import SET_SIZE
from engine.values import Dataset, Qrels, digest_of, explain_missing_split, replace_surrogates

LABELLED, TYPED, SIMILAR = "Labelled", "Typed", "Similar"
MOST_LISTED = 20_000
"""Entries of a picker at most; beyond, a browser struggles."""


@dataclass(frozen=True)
class Question:
    """A question."""

    id: str  # of the labelled query, or ""
    text: str  # its words
    vector: Tensor  # (d,)
    qrels: Qrels | None  # its judgements, None if it has none
    k: int  # size of the set
    depth: int | None  # size of the pool

    @property
    def judged(self) -> bool:
        """Whether Recall exists for it."""
        return bool(self.relevant)

    @property
    def relevant(self) -> frozenset[str]:
        """The ids of the documents that are judged relevant."""
        return frozenset(self.qrels.relevant(self.id)) if self.qrels is not None else frozenset()


def query_key(loaded: Loaded, question: Question) -> str:
    """Names a query on its corpus: views that draw the same query follow each other."""
    return digest_of([loaded.key, question.id, question.text, str(question.k)])[:16]


def first_split(dataset: Dataset) -> str | None:
    """The split that is shown at first: neither learnt from nor reported on, if possible; None without judgements."""
    return next((name for name in ("dev", "test") if name in dataset.qrels), next(iter(dataset.qrels), None))


def judged_splits(dataset: Dataset) -> dict[str, int]:
    """The number of judged queries of every split that has some."""
    return {split: count for split in dataset.qrels if (count := len(dataset.judged(split)))}


def largest_k(loaded: Loaded) -> int:
    """The largest k that makes sense on a corpus: an address may hold any."""
    return max(loaded.size, SET_SIZE.comfortable_range[1])


def ways_of(loaded: Loaded) -> list[str]:
    """The ways to ask a corpus; the first is the default."""
    encoder = loaded.space.encoder
    return [
        *([LABELLED] if len(loaded.dataset.queries) and encoder is not None else []),
        *([TYPED] if encoder is not None else []),
        SIMILAR,
    ]


def selected(loaded: Loaded) -> tuple[str, str | None, str]:
    """The controls' values: way, split (None where there is none to count), and query's id, words or document's id."""
    key, session, dataset = corpus_key(loaded), st.session_state, loaded.dataset
    way = session.get(f"way.{key}") or ways_of(loaded)[0]
    if way == TYPED:
        return way, None, session.get(f"own.{key}", "").strip()
    if way == SIMILAR:
        return way, None, session.get(f"document.{key}", replace_surrogates(dataset.corpus.ids[0]))
    split = session.get(f"split.{key}", first_split(dataset))
    queries = dataset.judged(split) if split else dataset.queries
    row = session.get(f"query.{key}.{split}", 0)
    return way, split, queries.ids[row] if row < len(queries) else ""


def select(loaded: Loaded, way: str, split: str | None, value: str) -> str | None:
    """Set the controls, before they are drawn, to what `selected` returned once; returns why where that fails."""
    key, dataset = corpus_key(loaded), loaded.dataset
    if way not in (ways := ways_of(loaded)):
        return f"this corpus cannot be asked by {way!r}; it can by {', '.join(ways)}"
    if way == LABELLED:
        if split not in dataset.qrels and not (split is None and not dataset.qrels):
            return f"{explain_missing_split(dataset.qrels, split)}: pick a query"
        queries = dataset.judged(split) if split else dataset.queries
        row = queries.position.get(value)
        if row is None or row >= MOST_LISTED:
            return f"the query {value!r} is not among those of {split or 'this corpus'}: pick another"
        st.session_state[f"query.{key}.{split}"] = row
        if split is not None:
            st.session_state[f"split.{key}"] = split
    else:
        st.session_state[f"own.{key}" if way == TYPED else f"document.{key}"] = value
    st.session_state[f"way.{key}"] = way
    return None


def step(loaded: Loaded, way: int) -> None:
    """Go to the next labelled query of the order that is chosen, or the one before (−1), round the end."""
    how, split, _ = selected(loaded)
    queries = loaded.dataset.judged(split) if split else loaded.dataset.queries
    if how == LABELLED and len(queries):
        key, order = f"query.{corpus_key(loaded)}.{split}", order_of(loaded, split, len(queries))
        here = st.session_state.get(key, 0)
        st.session_state[key] = order[(order.index(here) + way) % len(order) if here in order else 0]


def order_of(loaded: Loaded, split: str | None, count: int) -> list[int]:
    """The queries of a split in the order in which they are listed, by their position."""
    kept: list[int] | None = st.session_state.get(f"order.{corpus_key(loaded)}.{split}")
    return kept if kept is not None and len(kept) == count else list(range(min(count, MOST_LISTED)))


def keep_order(loaded: Loaded, split: str | None, order: Sequence[int] | None) -> None:
    """List the queries of a split in this order from now on, None for their own."""
    key = f"order.{corpus_key(loaded)}.{split}"
    st.session_state[key] = None if order is None else list(order)[:MOST_LISTED]


def corpus_key(loaded: Loaded) -> str:
    """Names a corpus in the keys of its controls."""
    return loaded.origin.space.corpus.digest[:12]
