"""The Check-up view: queries whose first results repeat each other."""

from dataclasses import dataclass
from functools import partial
from html import escape

import numpy as np
import streamlit as st

from dashboard.components.thumbnails import draw_wall
from dashboard.services import memo
from dashboard.services.jobs import Job
from dashboard.services.memo import session_memo
from dashboard.services.query_vectors import embed_missing, find_query_vectors
from dashboard.services.source import Loaded
from dashboard.session import decoders, query
from dashboard.session.query import LABELLED, MAX_LISTED_QUERIES, SIMILAR, Question, find_first_split
from dashboard.widgets import confirm
from dashboard.widgets.job_panel import JobPanel
from dashboard.widgets.map import name_document
from engine.evaluation.studies.check_up import CheckUp, check_up
from engine.evaluation.studies.compare_encoders import build_document_variants
from engine.progress import counted
from engine.values import Embeddings, Queries
from engine.views.check_up import describe_scale, headline
from engine.wording import visible

MAX_QUERIES, MAX_DOCUMENTS, MAX_CHECKED_K = 500, 200, 50
"""Largest random samples of queries and of documents; and compared documents of a set."""
CHECKUP_TABLE, MAX_CHECKUPS = "checkup", 4


@dataclass(frozen=True)
class CheckUpResult:
    """Check-up of a corpus: how much the first results of many queries repeat each other."""

    check_up: CheckUp
    query_texts: tuple[str, ...]  # of the queries
    n_queries: int  # before sampling
    split: str | None  # of the queries, None if there is none
    with_documents: bool  # True if documents of the corpus were the queries

    @property
    def headline(self) -> str:
        """Result in a sentence or two."""
        return headline(self.check_up, self.query_texts, self.n_queries, self.with_documents)


def find_check_up(loaded: Loaded, k: int, depth: int | None) -> CheckUpResult | None:
    """Return the check-up: how much many queries' results repeat each other; None if it needs a job.

    k: number of results compared per query; depth: how many candidates they are chosen from, None for all. It
    is computed once a session.
    """
    key, cached = _check_up_key(loaded, k, depth), session_memo(CHECKUP_TABLE, MAX_CHECKUPS)
    if key in cached:
        result: CheckUpResult = cached[key]
        return result
    queries, *_ = _sample_queries(loaded)
    vectors = None if queries is None else find_query_vectors(loaded, queries)
    # Embedding may take minutes, which is for a job.
    if queries is not None and vectors is None:
        return None
    return memo.get_or_compute(CHECKUP_TABLE, key, partial(_run_check_up, loaded, vectors, k, depth), MAX_CHECKUPS)


def draw_check_up(loaded: Loaded, question: Question, *_: object) -> None:
    """Draw how redundant the results of many queries are, a square per query, the worst first.

    The other arguments, which all views of Explore take, are not used.
    """
    draw_queries(loaded, question.k, question.depth)


def draw_queries(loaded: Loaded, k: int, depth: int | None) -> None:
    """Draw the check-up of a corpus; without labelled queries, documents are its queries.

    k: number of results compared per query; depth: how many candidates they are chosen from, None for all
    """
    confirm.rerun_if_stale()
    with st.spinner("Checking queries"):
        result = find_check_up(loaded, k, depth)
    if result is None:
        result = _check_up_panel(loaded, k, depth).draw_until_result()
    if result is None:
        return
    checked = result.check_up
    st.html(f'<p style="font-size: 1.1rem; margin: 0"><strong>{escape(result.headline)}</strong></p>')
    st.caption(
        f"{describe_scale(checked)} Each square shows the cosines within one query's results, dark 0 to yellow 1. The "
        "number counts the near-duplicate pairs. Click a square to open its query."
    )
    positions = list(checked.order)
    similarity = checked.similarity[positions]
    # The diagonal is always 1 and would only dazzle.
    similarity[:, np.eye(similarity.shape[1], dtype=bool)] = np.nan
    titles = [f"{result.query_texts[position]} · {_format_figures(checked, position)}" for position in positions]
    label = "Similarities within each query's results, the most redundant first"

    def open_query(square: int) -> None:
        """Make the query of a square the current one, and show Explore's first view, in which it is read."""
        mode = SIMILAR if result.with_documents else LABELLED
        confirm.take_step(lambda: query.select_query(loaded, mode, result.split, checked.queries[positions[square]]))
        # Without a stored view Explore shows its first one.
        st.session_state.pop(decoders.VIEW_KEY, None)

    n_pairs = [str(checked.pairs[position]) for position in positions]
    draw_wall(similarity, titles, n_pairs, "checkup.wall", open_query, label=label)


def _format_figures(checked: CheckUp, position: int) -> str:
    """Format how redundant one query's results are: near-duplicate pairs, groups of them, diversity."""
    pairs = counted(int(checked.pairs[position]), "near-duplicate pair")
    groups = f" in {counted(int(checked.groups[position]), 'group')}" if checked.groups[position] else ""
    spread = checked.ilad[position]
    # NaN, which differs from itself, stands for a set too small to have a diversity.
    return f"{pairs}{groups}" + (f" · ILAD {spread:.3f}" if spread == spread else "")


def _check_up_panel(loaded: Loaded, k: int, depth: int | None) -> JobPanel[CheckUpResult]:
    """Return the panel of the job that embeds the check-up's queries and then checks their results."""

    def run_job(job: Job) -> CheckUpResult:
        """Embed the sampled queries, if there are any, and check their results."""
        queries, _, _ = _sample_queries(loaded)
        vectors = None if queries is None else embed_missing(loaded, queries, job)
        return _run_check_up(loaded, vectors, k, depth)

    key, cached = _check_up_key(loaded, k, depth), session_memo(CHECKUP_TABLE, MAX_CHECKUPS)
    return JobPanel(purpose=CHECKUP_TABLE, key=key, title="Checking queries", work=run_job, wait_seconds=1, memo=cached)


def _check_up_key(loaded: Loaded, set_size: int, depth: int | None) -> tuple[object, ...]:
    """Return the key of a check-up: all that its result depends on."""
    return loaded.key, loaded.space.embeddings.encoder, _get_split(loaded), _clip_k(set_size), depth


def _get_split(loaded: Loaded) -> str | None:
    """Return the split of the labelled queries chosen in the header; else dev, test or the first.

    A split is a named part of them; None for a data set without splits.
    """
    mode, split, _ = query.get_selection(loaded)
    return split if mode == LABELLED else find_first_split(loaded.dataset)


def _clip_k(set_size: int) -> int:
    """Limit the number of compared results: at least 2, as one alone repeats nothing."""
    return min(max(set_size, 2), MAX_CHECKED_K)


def _sample_queries(loaded: Loaded) -> tuple[Queries | None, str | None, int]:
    """Return a sample of the labelled queries, their split, and their number before sampling.

    A split is a named part of the queries. Without queries, or vectors of them, these are None, None and the number of
    documents, which stand in.
    """
    dataset, split = loaded.dataset, _get_split(loaded)
    queries = dataset.judged(split) if split else dataset.queries
    # A click must be able to open any of them, so pickers' limits apply.
    queries = queries.only(queries.ids[:MAX_LISTED_QUERIES])
    if not len(queries) or not loaded.has_query_vectors:
        return None, None, len(loaded.space)
    return queries.sample(MAX_QUERIES), split, len(queries)


def _run_check_up(loaded: Loaded, vectors: Embeddings | None, set_size: int, depth: int | None) -> CheckUpResult:
    """Measure how much the baseline's results of sampled queries repeat each other.

    Without queries, documents are their own queries. vectors: of the queries, None without; set_size: number
    of results compared; depth: of candidates, None for all
    """
    queries, split, n_queries = _sample_queries(loaded)
    if queries is None or vectors is None:
        (variant,) = build_document_variants([loaded.space], MAX_DOCUMENTS)
        vectors, position = variant.queries, loaded.space.corpus.position
        texts = tuple(name_document(loaded, position[doc_id]) for doc_id in vectors.ids)
    else:
        texts = queries.texts
    checked = check_up(decoders.make_baseline(depth), loaded.space, vectors, _clip_k(set_size))
    return CheckUpResult(checked, tuple(map(visible, texts)), n_queries, split, queries is None)
