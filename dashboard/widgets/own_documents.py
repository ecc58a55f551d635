"""Queries that are documents of the corpus: the control of how they are treated, and the notice of their number."""

from typing import Any

import streamlit as st

from dashboard.services.memo import get_or_compute
from dashboard.services.source import Loaded
from dashboard.session import decoders
from dashboard.widgets.choices import select
from engine.space import describe_own_documents
from engine.values import Queries

RULE_TEXTS = {
    decoders.SAME_TEXT: "Leave out: same id and text",
    decoders.SAME_ID: "Leave out: same id",
    decoders.KEEP_OWN: "Keep",
}


def draw_self_rule(loaded: Loaded, container: Any = st) -> None:
    """Draw the choice of which document counts as a query itself, if the corpus has documents with queries' ids.

    All pages share it.
    """
    check_self_rule(loaded)
    if not has_own_ids(loaded):
        return
    help_text = (
        "In data such as duplicate questions the queries are documents, and each would find itself first. "
        f"{decoders.OWN_DOCUMENTS.help}"
    )
    options, key = decoders.OWN_DOCUMENTS.options, decoders.OWN_DOCUMENTS_KEY
    select(
        "The query's own document", options, key, default=decoders.SAME_TEXT, format_func=RULE_TEXTS.__getitem__,
        container=container, help=help_text,
    )  # fmt: skip


def check_self_rule(loaded: Loaded) -> None:
    """Set the rule to its default on a corpus without such documents, where one of another corpus says nothing."""
    if decoders.get_self_rule() is not None and not has_own_ids(loaded):
        decoders.set_self_rule(None)


def has_own_ids(loaded: Loaded) -> bool:
    """Return True if some query of the corpus has the id of a document; False for a corpus in a vector engine."""
    if loaded.reach is not None:
        return False
    query_ids, position = loaded.dataset.queries.ids, loaded.space.corpus.position
    key = (loaded.space.corpus.digest, loaded.dataset.queries.digest)
    return get_or_compute("own documents", key, lambda: any(query_id in position for query_id in query_ids))


def draw_own_documents(loaded: Loaded, queries: Queries) -> None:
    """Draw how many of the queries to be measured count as documents themselves; nothing if none does."""
    rule = decoders.get_self_rule()
    if (sentence := describe_own_documents(loaded.reach or loaded.space, queries, rule)) is not None:
        st.caption(f"{sentence}.")
