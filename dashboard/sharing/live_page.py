"""The dialog Live page: the open query and others × Explore's decoders as one file to download."""

from functools import partial
from typing import Any

import streamlit as st
import torch

from dashboard.live.page import MAX_LIVE_QUERIES, LiveContent, build_live_page
from dashboard.services import jobs
from dashboard.services.confirmations import count_by_page, find_other_split, measure_confirming
from dashboard.services.jobs import Job
from dashboard.services.query_vectors import embed_missing
from dashboard.services.source import Loaded
from dashboard.session import decoders as setting
from dashboard.session.answers import answer_key, as_embeddings
from dashboard.session.query import Question, find_first_split, get_selection
from dashboard.widgets.basics import download_button, show_failure
from dashboard.widgets.job_panel import POLL_INTERVAL, draw_end
from engine.decoder import Decoder
from engine.errors import FrontierError
from engine.progress import counted
from engine.values import Embeddings

LIVE_PURPOSE, LIVE_COUNT_KEY = "live page", "live_page.count"
MAX_SHARED_QUERIES = 100
"""Queries of a page that is made here; a command makes larger ones."""


def draw_live_page(loaded: Loaded, question: Question) -> None:
    """Draw the dialog that makes a live page of the open query, the next ones of its split, and Explore's decoders.

    The page is made by a job, which goes on if the dialog is closed, and is found again when it is opened.
    """
    decoders = setting.get_decoders()
    if not decoders:
        st.info("Choose a decoder on Explore to share what it retrieves.")
        return
    split = get_selection(loaded)[1] or find_first_split(loaded.dataset)
    others = loaded.dataset.judged(split) if split else loaded.dataset.queries
    st.text(
        "One HTML file in which λ and the budget are dragged. It opens in any browser, without this server and without "
        "a network."
    )
    options: dict[str, Any] = {"value": min(MAX_LIVE_QUERIES, max(1, len(others))), "key": LIVE_COUNT_KEY}
    n_queries = int(st.number_input("Queries, the open one first", 1, MAX_SHARED_QUERIES, **options))
    key = make_key(loaded, question, list(decoders.values()), split, n_queries)
    job = jobs.find_job(LIVE_PURPOSE, key)
    if job is None:
        try:
            for decoder in decoders.values():
                setting.check_decoder(decoder, loaded.space)
        except FrontierError as error:
            show_failure("A decoder cannot run.", error)
            return
        work = partial(_make_page, loaded, question, list(decoders.values()), split, n_queries)
        job = jobs.start_job(LIVE_PURPOSE, "making the live page", work, key)
    # A dialog that waited for the job would keep the page behind it from being drawn.
    st.fragment(_draw_outcome, run_every=POLL_INTERVAL if job.is_active else None)(job, n_queries)


def _draw_outcome(job: Job, n_queries: int) -> None:
    """Draw the progress of the job that makes the page, and its download once it has ended."""
    if job.is_active:
        st.progress(job.progress.bar_share, "Queued" if job.queued else "Making the page")
        return
    if job.result is None:
        draw_end(job, "The page could not be made.")
        return
    page: bytes = job.result
    st.caption(
        f"{len(page) / 1e6:.1f} MB. In it are the texts of {counted(n_queries, 'query', 'queries')} at most, names and "
        "similarities of the documents that they retrieve, and means over all labelled queries; no other text."
    )
    download_button(
        "Download", page, "frontier-live.html", "text/html", "live_page.download", icon=":material/download:"
    )


def make_key(
    loaded: Loaded, question: Question, decoders: list[Decoder], split: str | None, n_queries: int
) -> tuple[Any, ...]:
    """Return a key of all that a page depends on."""
    # The frontier's judgements are the split's, also where the open query has none.
    qrels_digest = loaded.dataset.qrels[split].digest if split else None
    answers = [answer_key(loaded, question, decoder) for decoder in decoders]
    # A split that has been asked about one more choice may say something of the page's.
    other_split = find_other_split(loaded, split) if split else None
    n_asked = sum(count_by_page(loaded, other_split).values()) if other_split else 0
    return loaded.key, loaded.dataset.queries.digest, split, qrels_digest, n_queries, n_asked, *answers


def _make_page(
    loaded: Loaded, question: Question, decoders: list[Decoder], split: str | None, n_queries: int, job: Job
) -> bytes:
    """Make the page in a job: queries without vectors are embedded first."""
    dataset = loaded.dataset
    judged = dataset.judged(split) if split else None
    vectors = None if judged is None or not loaded.has_query_vectors else embed_missing(loaded, judged, job)
    document = None if question.document is None else as_embeddings(loaded, question)
    content = LiveContent(
        space=loaded.space,
        queries=_list_queries(loaded, question, vectors, n_queries),
        document=document,
        decoders=decoders,
        qrels=dataset.qrels[split] if split and vectors is not None else question.qrels,
        judged=vectors,
        split=split or "",
        k=question.k,
        find_confirming=partial(measure_confirming, loaded, split) if split else None,
    )
    return build_live_page(content, progress=job.report, stop=job.stop).encode()


def _list_queries(loaded: Loaded, question: Question, vectors: Embeddings | None, n_queries: int) -> Embeddings:
    """Return the open query, unless it is a document, and the first of the others as vectors with their texts."""
    own = as_embeddings(loaded, question)
    # The page opens a document before the queries, of which one may have its id.
    if question.document is not None:
        own = own.take([])
    if vectors is None:
        return own
    rows = [row for row, query_id in enumerate(vectors.ids) if query_id not in own.ids]
    chosen = vectors.take(rows[: n_queries - 1])
    queries = loaded.dataset.queries
    # Vectors on disk come without the texts.
    texts = tuple(queries.texts[queries.position[query_id]] for query_id in chosen.ids)
    joined = torch.cat([own.vectors, chosen.vectors.to(own.vectors)])
    return Embeddings((*own.ids, *chosen.ids), joined, own.encoder, (*(own.texts or ()), *texts))
