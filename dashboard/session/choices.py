"""Choices that Trade-off and Tune made for one question in this session, so that each page can name the other's."""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain
from typing import Any

import streamlit as st

from dashboard.services.model_grades import digest_model_grades
from dashboard.services.source import Loaded
from engine.evaluation.aspects import digest_of_aspects
from engine.progress import counted
from engine.values import digest_of

CHOICES_KEY = "choices"
"""Session key of the last choice of each page for each question."""
TRADEOFF, TUNE = "Trade-off", "Tune"
SCOPE_HELP = (
    "Trade-off chooses on the labelled queries of the split beside the query, or on a sample of them, among the "
    "decoders that are chosen there. Tune chooses on a split of its own and confirms on another one. So the two can "
    "choose different settings: they look at other queries, or at other decoders. The more settings are compared, the "
    "more a setting must keep to be called sure, as the best of many looks better than it is."
)


@dataclass(frozen=True, kw_only=True)
class PageChoice:
    """One page's answer to "most diverse setting that keeps this share"."""

    name: str  # of the setting, "no setting" where none is sure
    n_queries: int  # that it was chosen on
    queries_digest: str  # of their ids, by `digest_query_ids`
    split: str
    status: str = ""  # what other queries say of it, "" if they were not asked


def digest_query_ids(query_ids: Iterable[str]) -> str:
    """Return a digest of queries' ids, whatever their order."""
    return digest_of(sorted(query_ids))


def identify_data(loaded: Loaded) -> str:
    """Return a digest of the data that a choice depends on: vectors, judgements and a model's grades."""
    qrels_parts = list(chain.from_iterable((split, qrels.digest) for split, qrels in loaded.dataset.qrels.items()))
    data = [loaded.space.embeddings.digest, digest_of_aspects(loaded.dataset.aspects), *qrels_parts]
    return digest_of([*data, digest_model_grades(loaded)])


def remember_choice(loaded: Loaded, page: str, k: int, share: float, choice: PageChoice) -> None:
    """Store what a page chose for sets of k documents that keep a share of the baseline's Recall.

    page: TRADEOFF or TUNE; a later choice of the same page for the same question replaces it
    """
    st.session_state.setdefault(CHOICES_KEY, {})[_build_key(loaded, page, k, share)] = choice


def describe_other_choice(loaded: Loaded, page: str, k: int, share: float, choice: PageChoice) -> str:
    """Describe what the other page chose for the same question, beside this page's own choice; "" if it did not.

    page: the other page, TRADEOFF or TUNE; choice: this page's
    """
    other: PageChoice | None = st.session_state.get(CHOICES_KEY, {}).get(_build_key(loaded, page, k, share))
    if other is None:
        return ""
    status = f", {other.status}" if other.status else ""
    other_text, own_text = map(_describe_queries, (other, choice))
    scope = own_text
    if choice.queries_digest == other.queries_digest and own_text == other_text:
        # Of the same queries only the decoders that are compared can make a difference.
        scope = "the same ones, among its own decoders"
    elif own_text == other_text:
        # Two samples of one split are equally large.
        scope = f"{own_text}, not the same ones"
    return f"{page}, on {other_text}: {other.name}{status}; this page chooses on {scope}."


def _describe_queries(choice: PageChoice) -> str:
    split = f" of {choice.split}" if choice.split else ""
    return f"{counted(choice.n_queries, 'query', 'queries')}{split}"


def _build_key(loaded: Loaded, page: str, k: int, share: float) -> tuple[Any, ...]:
    """Build the key of a question: one page, one corpus with its judgements, one k and one share to keep."""
    # Shares come from sliders and lists, whose last bits differ.
    return page, identify_data(loaded), k, round(share, 6)
