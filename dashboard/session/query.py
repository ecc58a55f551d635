"""The query of a session with set size and pool size; read and set in session state."""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass

import streamlit as st
from torch import Tensor

from dashboard.services.source import Loaded
from dashboard.session.decoders import K_KEY
from engine.decoder import SET_SIZE
from engine.values import Dataset, Qrels, Queries, digest_of, explain_missing_split, replace_surrogates

LABELLED, TYPED, SIMILAR = "Labelled", "Typed", "Similar"
LINK_K_KEY = "k.link"
"""Session key: the k that a link set."""
MAX_LISTED_QUERIES = 20_000
"""Entries of a picker; a browser cannot draw many more."""


@dataclass(frozen=True)
class Question:
    """Query that the session asks, with the size of the set to retrieve and of the pool to choose it from."""

    id: str  # of the labelled query, or ""
    text: str  # its words
    vector: Tensor  # (d,)
    qrels: Qrels | None  # its judgements, None if it has none
    k: int  # size of the set
    depth: int | None  # size of the pool
    _: KW_ONLY
    document: str | None = None  # id of the document to be like, which is left out of the answers

    @property
    def is_judged(self) -> bool:
        """True if it has relevant documents, so that Recall is defined."""
        return bool(self.relevant_ids)

    @property
    def relevant_ids(self) -> frozenset[str]:
        """Ids of the documents that are judged relevant."""
        return frozenset(self.qrels.relevant(self.id)) if self.qrels is not None else frozenset()


def query_key(loaded: Loaded, question: Question) -> str:
    """Return a short key of a query, k and the corpus, by which views see that the query has changed."""
    return digest_of([loaded.key, question.id, question.text, str(question.k)])[:16]


def find_first_split(dataset: Dataset) -> str | None:
    """Return the split (part of the queries) displayed first: dev, else test, else the first, else None."""
    return next((name for name in ("dev", "test") if name in dataset.qrels), next(iter(dataset.qrels), None))


def find_split_of(dataset: Dataset, query_id: str) -> str | None:
    """Return the first split with judgements of a query, in the order of `find_first_split`; else the first one."""
    first_split = find_first_split(dataset)
    splits = dict.fromkeys([first_split, *dataset.qrels]) if first_split is not None else {}
    return next((name for name in splits if name and query_id in dataset.qrels[name].grades), first_split)


def count_judged(dataset: Dataset) -> dict[str, int]:
    """Count the judged queries of every split (named part of the queries) that has some."""
    return {split: n_judged for split in dataset.qrels if (n_judged := len(dataset.judged(split)))}


def find_max_k(loaded: Loaded) -> int:
    """Return the largest k that is used on a corpus; a larger one from an address is lowered to it.

    A link alone must not start long work: its k counts only up to the range of the slider until the visitor agrees.
    """
    usual_max = SET_SIZE.comfortable_range[1]
    return usual_max if find_waiting_k() is not None else max(loaded.size, usual_max)


def has_large_sets(k: int) -> bool:
    """Return True if sets of k documents are beyond the range of the slider, and may take minutes."""
    return k > SET_SIZE.comfortable_range[1]


def note_link_k(k: int) -> None:
    """Note the k that a link sets, which waits for the visitor's consent if it is larger than usual."""
    st.session_state[LINK_K_KEY] = k


def find_waiting_k() -> int | None:
    """Return the k of a link that waits for the visitor's consent; None if there is none, or another was set since."""
    k = st.session_state.get(LINK_K_KEY)
    is_waiting = k is not None and has_large_sets(k) and k == st.session_state.get(K_KEY)
    return k if is_waiting else None


def agree_to_link_k() -> None:
    """Agree to the k of a link, from the next run on; for a callback."""
    st.session_state.pop(LINK_K_KEY, None)


def list_ways(loaded: Loaded) -> list[str]:
    """Return the ways in which this corpus can be searched; the first is the default."""
    # Queries in words need an encoder; without one, labelled queries may have vectors, and a document's always can be
    # the query.
    return [
        *([LABELLED] if len(loaded.dataset.queries) and loaded.has_query_vectors else []),
        *([TYPED] if loaded.space.encoder is not None else []),
        SIMILAR,
    ]


def get_selection(loaded: Loaded) -> tuple[str, str | None, str]:
    """Return the session's query: way to search, split of labelled queries or None, and an id or a text.

    The way is "Labelled" (with the query's id, "" if there is none), "Typed" (its text) or "Similar" (the id of a
    document to be like).
    """
    # The parts of a selection stay in the session by corpus, so that switching back finds them again.
    key, session, dataset = corpus_key(loaded), st.session_state, loaded.dataset
    mode = session.get(f"way.{key}") or list_ways(loaded)[0]
    if mode == TYPED:
        return mode, None, session.get(f"own.{key}", "").strip()
    if mode == SIMILAR:
        return mode, None, session.get(f"document.{key}", replace_surrogates(dataset.corpus.ids[0]))
    split, queries, query_index = _find_labelled(loaded)
    return mode, split, queries.ids[query_index] if query_index < len(queries) else ""


def _find_labelled(loaded: Loaded) -> tuple[str | None, Queries, int]:
    """Return the session's split of labelled queries, its queries, and the place of the chosen one among them."""
    key, session, dataset = corpus_key(loaded), st.session_state, loaded.dataset
    split = session.get(f"split.{key}")
    # The same documents may have had other judgements before.
    if split not in dataset.qrels:
        split = find_first_split(dataset)
    queries = dataset.judged(split) if split else dataset.queries
    return split, queries, session.get(f"query.{key}.{split}", 0)


def find_open_text(loaded: Loaded) -> str:
    """Return the text of the query of the corpus that this session has open, or had last; "" without queries."""
    _, queries, query_index = _find_labelled(loaded)
    return queries.texts[query_index] if query_index < len(queries) else ""


def select_query(loaded: Loaded, mode: str, split: str | None, entry: str) -> str | None:
    """Set the widgets of the query, before they are drawn; return why that is impossible, or None.

    mode: "Labelled", "Typed" or "Similar"; split: of a labelled query, None without judgements; entry: its id, the
    typed text, or the id of the document to be like
    """
    key, dataset = corpus_key(loaded), loaded.dataset
    # Links may come from a corpus with an encoder: the reason is returned, not raised.
    if mode not in (ways := list_ways(loaded)):
        return f"this corpus cannot be asked by {mode!r}; it can by {', '.join(ways)}"
    if mode == LABELLED:
        # A link that somebody wrote may have a query alone: it is that of the first split that has it.
        split = split or find_split_of(dataset, entry)
        # Without judgements the queries have no splits, and None means all of them.
        if split not in dataset.qrels and not (split is None and not dataset.qrels):
            return f"{explain_missing_split(dataset.qrels, split)}: pick a query"
        queries = dataset.judged(split) if split else dataset.queries
        query_index = queries.position.get(entry)
        if query_index is None or query_index >= MAX_LISTED_QUERIES:
            return f"the query {entry!r} is not among those of {split or 'this corpus'}: pick another"
        st.session_state[f"query.{key}.{split}"] = query_index
        if split is not None:
            st.session_state[f"split.{key}"] = split
    else:
        st.session_state[f"own.{key}" if mode == TYPED else f"document.{key}"] = entry
    st.session_state[f"way.{key}"] = mode
    return None


def find_position(loaded: Loaded) -> int | None:
    """Return the labelled query's position in the list; −1 for one outside of it, None for another kind of query."""
    if (listed := _list_labelled(loaded)) is None:
        return None
    key, order = listed
    index = st.session_state.get(key, 0)
    return order.index(index) if index in order else -1


def select_position(loaded: Loaded, position: int) -> None:
    """Go to the labelled query at a position of the list, which goes on at its other end; for a callback."""
    if (listed := _list_labelled(loaded)) is not None:
        key, order = listed
        st.session_state[key] = order[position % len(order)]


def _list_labelled(loaded: Loaded) -> tuple[str, list[int]] | None:
    """Return the session key of the labelled query, and the order of the list; None if another kind is asked."""
    ask_way, split, _ = get_selection(loaded)
    queries = loaded.dataset.judged(split) if split else loaded.dataset.queries
    if ask_way != LABELLED or not len(queries):
        return None
    return f"query.{corpus_key(loaded)}.{split}", get_query_order(loaded, split, len(queries))


def get_query_order(loaded: Loaded, split: str | None, count: int) -> list[int]:
    """Return the positions of a split's `count` queries in the order in which they are listed.

    A split is a named part of the labelled queries, None if they have none. Another order is stored if the visitor has
    chosen one, such as by redundancy; one of another length is outdated.
    """
    stored: list[int] | None = st.session_state.get(f"order.{corpus_key(loaded)}.{split}")
    return stored if stored is not None and len(stored) == count else list(range(min(count, MAX_LISTED_QUERIES)))


def set_query_order(loaded: Loaded, split: str | None, query_order: Sequence[int] | None) -> None:
    """Set the order in which a split's queries are listed, as positions in the file; None for its own."""
    session_key = f"order.{corpus_key(loaded)}.{split}"
    st.session_state[session_key] = None if query_order is None else list(query_order)[:MAX_LISTED_QUERIES]


def corpus_key(loaded: Loaded) -> str:
    """Return a short digest of the corpus, for the keys of widgets that depend on it."""
    return loaded.origin.space.corpus.digest[:12]
