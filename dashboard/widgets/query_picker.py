"""Query controls of the header: which query, how many documents, from how large a pool."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import streamlit as st
from torch import Tensor

import engine
from dashboard.components import vendor
from dashboard.components.live_plot import is_available
from dashboard.services.memo import Memo, get_or_compute, session_memo
from dashboard.services.query_vectors import find_query_vectors
from dashboard.services.source import Loaded
from dashboard.session import decoders as setting
from dashboard.session.duplicates import get_threshold
from dashboard.session.query import (
    LABELLED,
    SIMILAR,
    TYPED,
    Question,
    agree_to_link_k,
    corpus_key,
    find_first_split,
    find_max_k,
    find_position,
    find_waiting_k,
    get_query_order,
    get_selection,
    list_ways,
    select_position,
    set_query_order,
)
from dashboard.widgets.basics import show_failure
from dashboard.widgets.choices import choose
from dashboard.widgets.common import as_label
from dashboard.widgets.own_documents import check_self_rule
from dashboard.widgets.parameters import draw_parameter
from dashboard.widgets.source_limit import describe_source_limit, draw_source_limit
from engine.decoder import POOL, SET_SIZE
from engine.errors import FrontierError
from engine.evaluation.metrics import drop_own_judgements
from engine.evaluation.studies.check_up import check_up, rank_by_gain
from engine.progress import counted
from engine.space import find_own_documents
from engine.values import Qrels, replace_surrogates
from engine.wording import visible

WAY_TITLES = {LABELLED: "Labelled query", TYPED: "Your own", SIMILAR: "Like a document"}
UNLABELLED_TITLE = "Query of the corpus"
"""Title of a query that came with the corpus, where nothing says which documents are right."""
FILE_ORDER, REDUNDANT_ORDER, GAIN_ORDER = "As in the file", "Most redundant", "Largest gain"
STEPS_KEY = "header.steps"
"""Session key: the script that counts clicks on both arrows."""
MAX_ORDERED_QUERIES = 2000
"""Queries that are ordered by their results, which takes a moment."""
MAX_TYPED_VECTORS = 200
"""Typed queries whose vectors a session caches."""


def ask(loaded: Loaded, on_wait: Callable[[], object] = lambda: None) -> Question | None:
    """Draw the controls of query, set size and pool size; return what is set, None until there is a query.

    A query is a labelled one, typed, or a document to be like; the pool holds the candidates that a set is chosen from.
    on_wait: called before a query is embedded, which may take seconds
    """
    check_self_rule(loaded)
    ways, key = list_ways(loaded), corpus_key(loaded)
    # Kind of query (typed, labelled, like a document) and split, a named part of the labelled queries, last used here.
    query_kind, split, _ = get_selection(loaded)
    query_kind = query_kind if query_kind in ways else ways[0]
    # Content of a popover is drawn only while it is open: the browser sends a hidden widget's last value again with
    # the next event, and would undo what a link, a saved view or a pressed key has set since.
    name = " · ".join(filter(None, [_title_way(loaded, query_kind), as_label(split or "")]))
    way_menu = st.popover(_freeze_label(name, "header.kind"), key="header.kind", width="content", on_change="rerun")
    if way_menu.open:
        with way_menu:
            query_kind, split = _draw_kind(loaded, ways, key)
    draw_query = {LABELLED: _draw_labelled, TYPED: _draw_typed, SIMILAR: _draw_similar}[query_kind]
    try:
        picked = draw_query(loaded, key, split, on_wait)
    except FrontierError as error:
        show_failure("The query cannot be embedded.", error)
        picked = None
    size, depth = st.session_state.get("k", SET_SIZE.default), setting.get_pool_depth()
    limit_texts = describe_source_limit(list(loaded.space.corpus.metadata))
    size_label = _freeze_label(" · ".join([f"k {min(size, find_max_k(loaded))}", *limit_texts]), "header.k")
    size_menu = st.popover(size_label, key="header.k", width="content", on_change="rerun")
    if size_menu.open:
        with size_menu:
            size, depth = draw_parameter(SET_SIZE, "k"), draw_parameter(POOL, "pool")
            draw_source_limit(loaded)
    if picked is None:
        return None
    query_id, text, vector, qrels = picked
    document = get_selection(loaded)[2] if query_kind == SIMILAR else None
    if document is None and _is_document(loaded, query_id, text):
        shared = "id" if setting.get_self_rule() else "id and text"
        st.caption(f"This query is a document of the corpus, with the same {shared}: its answers are without it.")
        qrels = drop_own_judgements(qrels, {query_id: query_id})
    k = min(size, find_max_k(loaded))
    return Question(query_id, replace_surrogates(text), vector, qrels, k, depth, document=document)


def draw_waiting_k(loaded: Loaded) -> None:
    """Draw that a link asks for a larger k than usual, and the button by which the visitor agrees to it."""
    waiting_k = find_waiting_k()
    if waiting_k is None:
        return
    k = min(waiting_k, loaded.size)
    with st.container(horizontal=True, vertical_alignment="center", gap="small", key="header.link-k"):
        st.info(
            f"This link asks for sets of {k:,} documents, which can take minutes. "
            f"Until you agree they have {find_max_k(loaded):,}.",
            icon=":material/hourglass_empty:",
        )
        st.button(f"Use k = {k:,}", key="header.link-k.agree", on_click=agree_to_link_k)


def _is_document(loaded: Loaded, query_id: str, text: str) -> bool:
    """Return True if a query counts as a document of the corpus, by this session's rule; False in a vector engine."""
    if loaded.reach is not None or not query_id:
        return False
    return bool(find_own_documents(loaded.space, (query_id,), (text,), setting.get_self_rule())[0] >= 0)


def _freeze_label(label: str, key: str) -> str:
    """Return a popover's label, unchanged while it is open: Streamlit closes one whose label changes."""
    label_key = f"{key}.said"
    if not st.session_state.get(key):
        st.session_state[label_key] = label
    open_label: str = st.session_state.get(label_key, label)
    return open_label


def _title_way(loaded: Loaded, kind: str) -> str:
    """Return what a kind of query is called on this corpus: without judgements no query is labelled."""
    return UNLABELLED_TITLE if kind == LABELLED and not loaded.dataset.qrels else WAY_TITLES[kind]


def _draw_kind(loaded: Loaded, ways: Sequence[str], key: str) -> tuple[str, str | None]:
    """Draw the choice of the kind of query; return it, and the split of labelled queries, None for others."""
    mode = choose(
        "Query",
        ways,
        f"way.{key}",
        show_label=True,
        format_func=partial(_title_way, loaded),
        help="Labelled queries have relevance judgements, so Recall can be computed. “Like a document” searches with a "
        "document's vector, and leaves the document out.",
    )
    if mode != LABELLED:
        return mode, None
    split, splits = find_first_split(loaded.dataset), list(loaded.dataset.qrels)
    if split is not None:
        split = st.selectbox("Split", splits, splits.index(split), key=f"split.{key}", persist_state="session")
    _draw_order(loaded, split)
    return mode, split


def _draw_order(loaded: Loaded, split: str | None) -> None:
    """Draw the choice of the order in which labelled queries are listed: by file, redundancy or gain.

    Redundancy: near-duplicates in the baseline's results; gain: of a decoder of Explore over the baseline. Nothing is
    drawn if the queries are many or their vectors are not stored.
    """
    queries = loaded.dataset.judged(split) if split else loaded.dataset.queries
    vectors = find_query_vectors(loaded, queries) if 0 < len(queries) <= MAX_ORDERED_QUERIES else None
    if vectors is None:
        return
    # The last decoder that can run here is compared; the first one is usually the baseline itself.
    candidates = reversed(setting.get_decoders().values())
    baseline = setting.follow_self_rule(setting.make_baseline(setting.get_pool_depth()))
    compared = next((d for d in candidates if d != baseline and setting.explain_lack(d, loaded.space) is None), None)
    orders, why = [FILE_ORDER, REDUNDANT_ORDER], "Of the queries."
    if compared is not None:
        orders.append(GAIN_ORDER)
        why += f" {GAIN_ORDER}: {setting.format_title(compared)} against {setting.format_title(baseline)}, as set now."
    order = choose("Order", orders, "header.order", show_label=True, help=why)
    if order == FILE_ORDER:
        return set_query_order(loaded, split, None)
    # Orders depend on k: near-duplicates are counted within the first k documents.
    k = min(st.session_state.get("k", SET_SIZE.default), find_max_k(loaded))

    def compute_order() -> tuple[int, ...]:
        """Return the positions of the queries in the file, the most redundant or most improved first."""
        if order == REDUNDANT_ORDER or compared is None:
            # A set of one has no duplicates.
            return check_up(baseline, loaded.space, vectors, max(k, 2), threshold=threshold).order
        return rank_by_gain(compared, baseline, loaded.space, vectors, qrels, k).positions

    threshold, qrels = get_threshold(loaded), loaded.dataset.qrels[split] if split else None
    qrels_digest = None if qrels is None else qrels.digest
    compared_labels = () if order == REDUNDANT_ORDER or compared is None else (compared.label, qrels_digest)
    order_key = (loaded.key, split, order, k, baseline.label, threshold, *compared_labels)
    with st.spinner("Ordering the queries"):
        set_query_order(loaded, split, get_or_compute("orders", order_key, compute_order))


def _draw_labelled(
    loaded: Loaded, key: str, split: str | None, on_wait: Callable[[], object]
) -> tuple[str, str, Tensor, Qrels | None] | None:
    """Draw the choice of a labelled query; return its id, text, vector and judgements, None without any.

    key: the corpus's part of session keys; split: the part of the queries to choose from, None without judgements;
    on_wait: of `ask`
    """
    dataset = loaded.dataset
    queries = dataset.judged(split) if split else dataset.queries
    if not len(queries):
        st.info("This split judges no query of the corpus.")
        return None

    def format_query(position: int) -> str:
        """Return the text by which the picker lists the query at a position."""
        # With its id if another query has the same text: a picker identifies entries by their labels.
        text = queries.texts[position]
        return visible(text if queries.counted[text] == 1 else f"{text} ({queries.ids[position]})")

    query_index = st.selectbox(
        f"{counted(len(queries), 'query', 'queries')}",
        get_query_order(loaded, split, len(queries)),
        key=f"query.{key}.{split}",
        format_func=format_query,
        persist_state="session",
        label_visibility="collapsed",
    )
    # Each button knows the position it leads to: a click before the page is drawn anew brings along the choice that was
    # there before, and a step from it would be one that was taken already. From outside the list both go to its start.
    position = find_position(loaded)
    with st.container(horizontal=True, gap=None, width="content"):
        for step, icon, why in ((-1, "chevron_left", "Previous query (k)"), (1, "chevron_right", "Next query (j)")):
            button_key = f"header.step.{step}"
            target = 0 if position is None or position < 0 else position + step
            arguments = (loaded, target)
            st.button("", key=button_key, icon=f":material/{icon}:", help=why, on_click=select_position, args=arguments)
        # Of several clicks before the page is drawn anew the server hears one: the browser tells where all lead.
        if is_available():
            handlers = {"position": lambda message: select_position(loaded, int(message[0]))}
            vendor.draw_view("header_steps", STEPS_KEY, {"position": position}, handlers)
    query_id, query_text = queries.ids[query_index], queries.texts[query_index]
    stored = loaded.queries
    vector = _embed_text(loaded, query_text, on_wait) if stored is None else stored[dataset.queries.position[query_id]]
    return query_id, query_text, vector, dataset.qrels[split] if split else None


def _draw_typed(
    loaded: Loaded, key: str, _: str | None, on_wait: Callable[[], object]
) -> tuple[str, str, Tensor, Qrels | None] | None:
    """Draw the field for a typed query; return ("", its text, its vector, None); None while it is empty.

    "" and None stand for the id and the judgements that it does not have. The split is not used: functions for all
    kinds of query are called alike.
    """
    query_text = st.text_input(
        "Your query",
        key=f"own.{key}",
        persist_state="session",
        placeholder="What are you looking for? Enter to search",
        label_visibility="collapsed",
    ).strip()
    if not query_text:
        return None
    return "", query_text, _embed_text(loaded, query_text, on_wait), None


def _draw_similar(
    loaded: Loaded, key: str, _: str | None, on_wait: Callable[[], object]
) -> tuple[str, str, Tensor, Qrels | None] | None:
    """Draw the field for the id of a document to search by; return ("", its text, its vector, None).

    "" and None: the query has no id and no judgements. None if there is no such document; similar ids are then
    proposed. A document's vector is there already, without a wait.
    """
    corpus = loaded.dataset.corpus
    document_id = st.text_input(
        "Document id",
        value=replace_surrogates(corpus.ids[0]),
        key=f"document.{key}",
        persist_state="session",
        help="The id as it stands in the corpus.",
        label_visibility="collapsed",
    )
    row_index = corpus.position.get(document_id)
    if row_index is None:
        typed = document_id.strip().lower()
        similar_ids = [replace_surrogates(doc_id) for doc_id in corpus.ids if typed and typed in doc_id.lower()]
        st.warning("No document has this id.")
        if similar_ids:
            st.text("Did you mean: " + ", ".join(similar_ids[:5]))
        return None
    return "", corpus.passages[row_index] or document_id, loaded.space.embeddings.vectors[row_index], None


def _embed_text(loaded: Loaded, query_text: str, on_wait: Callable[[], object]) -> Tensor:
    """Return the vector of a query's text by the corpus's encoder; the session caches the last ones."""
    encoder = loaded.space.embeddings.encoder
    vectors: Memo[Any, Tensor] = session_memo("embedded", MAX_TYPED_VECTORS)
    vector_key = (encoder, query_text)
    # Typed queries repeat while people change settings.
    if vector_key not in vectors:
        on_wait()
        with st.spinner("Embedding the query (the first one loads the encoder)"):
            vectors[vector_key] = engine.embed_queries(loaded.space, [query_text]).vectors[0]
    return vectors[vector_key]
