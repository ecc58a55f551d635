"""The Check-up view: on which queries the first results repeat each other."""

from dataclasses import dataclass
from functools import partial
from html import escape

import numpy as np
import streamlit as st

from dashboard.components.thumbnails import wall
from dashboard.services import memo
from dashboard.services.jobs import Job
from dashboard.services.memo import session_memo
from dashboard.services.query_vectors import embed_missing, find_query_vectors
from dashboard.services.source import Loaded
from dashboard.session import decoders, query
from dashboard.session.query import LABELLED, MAX_LISTED_QUERIES, SIMILAR, Question, find_first_split
from dashboard.widgets import confirm
from dashboard.widgets.job_panel import JobPanel
from engine.evaluation.studies.check_up import CheckUp, check_up
from engine.evaluation.studies.compare_encoders import of_documents
from engine.progress import counted
from engine.values import Embeddings, Queries
from engine.views.check_up import headline
from engine.wording import visible

MOST, MOST_DOCUMENTS, LARGEST_K = 500, 200, 50
"""Queries and documents that are asked at most, a random sample of more; and documents of a set that are compared."""
TABLE, ENTRIES = "checkup", 4


@dataclass(frozen=True)
class Checked:
    """A corpus's check-up with what it was asked."""

    found: CheckUp
    texts: tuple[str, ...]  # of the queries
    asked: int  # number of queries there are
    split: str | None  # of the queries, None where there is none to count
    documents: bool  # whether documents of the corpus were asked

    @property
    def headline(self) -> str:
        """The result in a sentence or two."""
        return headline(self.found, self.texts, self.asked, self.documents)


def at_once(loaded: Loaded, k: int, depth: int | None) -> Checked | None:
    """The check-up, computed once a session; None where queries would have to be embedded first."""
    key, known = _key(loaded, k, depth), session_memo(TABLE, ENTRIES)
    if key in known:
        checked: Checked = known[key]
        return checked
    queries, *_ = _asked(loaded)
    vectors = None if queries is None else find_query_vectors(loaded, queries)
    if queries is not None and vectors is None:
        return None
    return memo.get_or_compute(TABLE, key, partial(_check, loaded, vectors, k, depth), ENTRIES)


def show(loaded: Loaded, question: Question) -> None:
    """Draw the headline, and every query's set as a small heat map, the most redundant first."""
    confirm.rerun_if_stale()
    with st.spinner("Checking queries"):
        checked = at_once(loaded, question.k, question.depth)
    if checked is None:
        checked = _panel(loaded, question).result()
    if checked is None:
        return
    found = checked.found
    st.html(f'<p style="font-size: 1.1rem; margin: 0"><strong>{escape(checked.headline)}</strong></p>')
    st.caption(
        "Each square shows the cosines within one query's results, dark 0 to yellow 1. The number counts the pairs of "
        f"{found.threshold:g} or more. Click a square to open its query."
    )
    positions = list(found.order)
    similarity = found.similarity[positions]
    similarity[:, np.eye(similarity.shape[1], dtype=bool)] = np.nan
    titles = [f"{checked.texts[p]} · {_figures(found, p)}" for p in positions]

    def open_query(place: int) -> None:
        """Ask the query of a square, and show Explore's first view."""
        way = SIMILAR if checked.documents else LABELLED
        confirm.take_step(lambda: query.select(loaded, way, checked.split, found.queries[positions[place]]))
        st.session_state.pop(decoders.VIEW_KEY, None)

    wall(
        similarity,
        titles,
        [str(found.pairs[p]) for p in positions],
        "checkup.wall",
        open_query,
        label="Similarities within each query's results, the most redundant first",
    )


def _figures(found: CheckUp, position: int) -> str:
    """A query's figures in words."""
    pairs = counted(int(found.pairs[position]), "near-duplicate pair")
    groups = f" in {counted(int(found.groups[position]), 'group')}" if found.groups[position] else ""
    spread = found.ilad[position]
    return f"{pairs}{groups}" + (f" · ILAD {spread:.3f}" if spread == spread else "")


def _panel(loaded: Loaded, question: Question) -> JobPanel[Checked]:
    """The job that embeds the queries first."""

    def work(job: Job) -> Checked:
        queries = _asked(loaded)[0]
        vectors = None if queries is None else embed_missing(loaded, queries, job)
        return _check(loaded, vectors, question.k, question.depth)

    key, known = _key(loaded, question.k, question.depth), session_memo(TABLE, ENTRIES)
    return JobPanel(purpose=TABLE, key=key, title="Checking queries", work=work, wait_seconds=1, memo=known)


def _key(loaded: Loaded, k: int, depth: int | None) -> tuple[object, ...]:
    return loaded.key, loaded.space.embeddings.encoder, _split(loaded), _size(k), depth


def _split(loaded: Loaded) -> str | None:
    """The split that is shown, or else shown at first."""
    way, split, _ = query.get_selection(loaded)
    return split if way == LABELLED else find_first_split(loaded.dataset)


def _size(k: int) -> int:
    return min(max(k, 2), LARGEST_K)


def _asked(loaded: Loaded) -> tuple[Queries | None, str | None, int]:
    """The queries, all of which can be opened, their split, and how many there are; None for documents as queries."""
    dataset, split = loaded.dataset, _split(loaded)
    queries = dataset.judged(split) if split else dataset.queries
    queries = queries.only(queries.ids[:MAX_LISTED_QUERIES])
    if not len(queries) or loaded.space.encoder is None:
        return None, None, len(loaded.space)
    return queries.sample(MOST), split, len(queries)


def _check(loaded: Loaded, vectors: Embeddings | None, k: int, depth: int | None) -> Checked:
    queries, split, asked = _asked(loaded)
    if queries is None or vectors is None:
        vectors = of_documents([loaded.space], MOST_DOCUMENTS)[0].queries
        corpus = loaded.dataset.corpus
        texts = tuple(corpus.titles[row] or corpus.ids[row] for row in map(corpus.position.__getitem__, vectors.ids))
    else:
        texts = queries.texts
    found = check_up(decoders.make_baseline(depth), loaded.space, vectors, _size(k))
    return Checked(found, tuple(map(visible, texts)), asked, split, queries is None)
