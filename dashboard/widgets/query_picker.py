"""The header's question: which query, how many documents, from how large a pool."""

from collections.abc import Sequence
from typing import Any

import streamlit as st
from torch import Tensor

import engine
from dashboard.services.memo import Memo, remembered, session_memo
from dashboard.services.query_vectors import known_vectors
from dashboard.services.source import Loaded
from dashboard.session import decoders as setting
from dashboard.session.query import (
    LABELLED,
    SIMILAR,
    TYPED,
    Question,
    corpus_key,
    first_split,
    keep_order,
    largest_k,
    order_of,
    selected,
    step,
    ways_of,
)
from dashboard.widgets.basics import show_failure
from dashboard.widgets.choices import choose
from dashboard.widgets.common import as_label
from dashboard.widgets.parameters import control
from engine.decoder import POOL, SET_SIZE
from engine.errors import FrontierError
from engine.evaluation.studies.check_up import check_up, rank_by_gain
from engine.values import Qrels, replace_surrogates
from engine.wording import visible

TITLES = {LABELLED: "Test query", TYPED: "Your own", SIMILAR: "Like a document"}
OWN, REDUNDANT, GAIN = "As in the file", "Most redundant", "Largest gain"
MOST_ORDERED = 2000
"""Queries that are put in an order by their results: that takes a moment."""
REMEMBERED = 200
"""Typed queries whose vectors a session keeps."""


def ask(loaded: Loaded) -> Question | None:
    """Draw the controls, in a row; None until there is a query."""
    ways, key = ways_of(loaded), corpus_key(loaded)
    way, split, _ = selected(loaded)
    way = way if way in ways else ways[0]
    # What a popover holds is drawn while it is open: the browser sends a hidden widget's last value again with
    # whatever happens next, and would so undo what a link, a saved view or a key has set since.
    name = " · ".join(filter(None, [TITLES[way], as_label(split or "")]))
    kind = st.popover(_steady(name, "header.kind"), key="header.kind", width="content", on_change="rerun")
    if kind.open:
        with kind:
            way, split = _kind(loaded, ways, key)
    try:
        chosen = {LABELLED: _labelled, TYPED: _typed, SIMILAR: _similar}[way](loaded, key, split)
    except FrontierError as error:
        show_failure("The query cannot be embedded.", error)
        chosen = None
    size, depth = st.session_state.get("k", SET_SIZE.default), setting.pool_depth()
    sizes = st.popover(_steady(f"k {size}", "header.k"), key="header.k", width="content", on_change="rerun")
    if sizes.open:
        with sizes:
            size, depth = control(SET_SIZE, "k"), control(POOL, "pool")
    if chosen is None:
        return None
    query, text, vector, qrels = chosen
    return Question(query, replace_surrogates(text), vector, qrels, min(size, largest_k(loaded)), depth)


def _steady(label: str, key: str) -> str:
    """A popover's label; while it is open the one before, as with another it would be another popover, and closed."""
    said = f"{key}.said"
    if not st.session_state.get(key):
        st.session_state[said] = label
    before: str = st.session_state.get(said, label)
    return before


def _kind(loaded: Loaded, ways: Sequence[str], key: str) -> tuple[str, str | None]:
    """Draw the choice of what kind of query is asked; returns it, and the split of test queries."""
    way = choose(
        "Query",
        ways,
        f"way.{key}",
        named=True,
        format_func=TITLES.__getitem__,
        help="Test queries have relevance judgements, so Recall can be computed. “Like a document” searches with a "
        "document's vector; it ranks itself first.",
    )
    if way != LABELLED:
        return way, None
    split, splits = first_split(loaded.dataset), list(loaded.dataset.qrels)
    if split is not None:
        split = st.selectbox("Split", splits, splits.index(split), key=f"split.{key}", persist_state="session")
    _order(loaded, split)
    return way, split


def _order(loaded: Loaded, split: str | None) -> None:
    """Draw the choice of the queries' order, where what it goes by is known at once."""
    queries = loaded.dataset.judged(split) if split else loaded.dataset.queries
    if not len(queries) or len(queries) > MOST_ORDERED or (vectors := known_vectors(loaded, queries)) is None:
        return
    others = list(setting.decoders().values())
    baseline = setting.baseline(setting.pool_depth())
    against = next((d for d in reversed(others) if d != baseline and setting.lacks(d, loaded.space) is None), None)
    gain = [] if against is None else [GAIN]
    why = "" if against is None else f" {GAIN}: {setting.title(against)} against {setting.title(baseline)}, as set now."
    chosen = choose("Order", [OWN, REDUNDANT, *gain], "header.order", named=True, help=f"Of the queries.{why}")
    if chosen == OWN:
        return keep_order(loaded, split, None)
    k = min(st.session_state.get("k", SET_SIZE.default), largest_k(loaded))

    def make() -> tuple[int, ...]:
        if chosen == REDUNDANT or against is None:
            return check_up(baseline, loaded.space, vectors, max(k, 2)).order
        qrels = loaded.dataset.qrels[split] if split else None
        return rank_by_gain(against, baseline, loaded.space, vectors, qrels, k).positions

    about = () if chosen == REDUNDANT or against is None else (against.label,)
    with st.spinner("Ordering the queries"):
        keep_order(loaded, split, remembered("orders", (loaded.key, split, chosen, k, baseline.label, *about), make))


def _labelled(loaded: Loaded, key: str, split: str | None) -> tuple[str, str, Tensor, Qrels | None] | None:
    dataset = loaded.dataset
    queries = dataset.judged(split) if split else dataset.queries
    if not len(queries):
        st.info("This split judges no query of the corpus.")
        return None

    def label(i: int) -> str:
        # With its id where another query has the same text: a picker knows its entries by what they show.
        text = queries.texts[i]
        return visible(text if queries.counted[text] == 1 else f"{text} ({queries.ids[i]})")

    row = st.selectbox(
        f"{len(queries):,} queries",
        order_of(loaded, split, len(queries)),
        key=f"query.{key}.{split}",
        format_func=label,
        persist_state="session",
        label_visibility="collapsed",
    )
    with st.container(horizontal=True, gap=None, width="content"):
        for way, icon, name in ((-1, "chevron_left", "Previous query (k)"), (1, "chevron_right", "Next query (j)")):
            button_key = f"header.step.{way}"
            st.button("", key=button_key, icon=f":material/{icon}:", help=name, on_click=step, args=(loaded, way))
    query, text = queries.ids[row], queries.texts[row]
    known = loaded.queries
    vector = _embedded(loaded, text) if known is None else known[dataset.queries.position[query]]
    return query, text, vector, dataset.qrels[split] if split else None


def _typed(loaded: Loaded, key: str, _: str | None) -> tuple[str, str, Tensor, Qrels | None] | None:
    text = st.text_input(
        "Your query",
        key=f"own.{key}",
        persist_state="session",
        placeholder="What are you looking for? Enter to search",
        label_visibility="collapsed",
    ).strip()
    if not text:
        return None
    return "", text, _embedded(loaded, text), None


def _similar(loaded: Loaded, key: str, _: str | None) -> tuple[str, str, Tensor, Qrels | None] | None:
    corpus = loaded.dataset.corpus
    named = st.text_input(
        "Document id",
        value=replace_surrogates(corpus.ids[0]),
        key=f"document.{key}",
        persist_state="session",
        help="The id as it stands in the corpus.",
        label_visibility="collapsed",
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
