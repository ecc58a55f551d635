"""Answers of decoders to the session's query, timed, and cached by setting and query."""

import hashlib
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

import streamlit as st
from torch import Tensor

from dashboard.services import jobs
from dashboard.services.memo import Memo, session_memo
from dashboard.services.source import Loaded
from dashboard.session import decoders
from dashboard.session.query import Question, has_large_sets
from engine.decoder import Decoder, ScoredCandidates, decode, decoder_family, score_candidates, select_from
from engine.params import Real, Whole, values_of
from engine.progress import report_to
from engine.reach import Reach
from engine.stages import Selector
from engine.values import Embeddings, Ranking, digest_of
from engine.views.decision import Relevance, relevance
from engine.views.slider import SliderRequest, requests
from engine.views.topic import find_topic_floor

T = TypeVar("T")
N_TIMED_CALLS, MIN_TIMED_SECONDS, MAX_REPEATED_SECONDS = 3, 0.02, 0.5
"""Timed calls of a decoder; the total seconds that suffice; the seconds of a first call that is not repeated."""
MAX_CACHED_ANSWERS, MAX_CACHED_CORPORA = 64, 2
MAX_SCORES = 12
"""Scored queries that are cached, so that a slider moves without scoring again."""
PROOFS_TABLE = "proofs"
"""Session table of answers that a vector engine proved."""
PROGRESS_DELAY_SECONDS = 0.5
"""Seconds after which scoring shows its progress."""


@dataclass(frozen=True)
class Answer:
    """Answer of one decoder (a way to choose k documents) to the session's query."""

    name: str  # of its selector
    decoder: Decoder  # as it was set
    ranking: Ranking  # of this query alone
    seconds: float | None  # median of a few calls, None if only a first call was made
    relevance: Relevance | None = None  # as the selector saw it, None for the inner product with the query

    @property
    def stage(self) -> Selector:
        """Selector of the decoder, which chooses the k documents of the answer among its candidates."""
        return self.decoder.select

    @property
    def title(self) -> str:
        """Display name of the decoder."""
        return decoders.format_title(self.decoder)


def as_embeddings(loaded: Loaded, question: Question) -> Embeddings:
    """Return the question as functions of the engine package take it: as the vectors of one query."""
    query_id = question.id if question.document is None else question.document
    return Embeddings((query_id,), question.vector.unsqueeze(0), loaded.space.embeddings.encoder, (question.text,))


def leave_out_document(question: Question, decoder: Decoder) -> Decoder:
    """Return the decoder, without the document itself among the answers if the question is to find others like it."""
    return replace(decoder, without_self=True) if question.document is not None else decoder


def compute_answer(loaded: Loaded, question: Question, selector_name: str, decoder: Decoder) -> Answer:
    """Return the documents that a decoder chooses for the question, timed; cached for the session.

    selector_name: of the decoder's selector in the registry. Raises ParamError if the decoder cannot run now.
    """
    decoders.check_decoder(decoder, loaded.space)
    decoders.check_source_limit(decoder)
    answers: Memo[tuple[Any, ...], Answer] = _memo(loaded, "answers", MAX_CACHED_ANSWERS)
    cache_key = answer_key(loaded, question, decoder)
    if cache_key not in answers:
        # Inner products, the default scores, are part of a call of the decoder; a vector engine computes its own.
        needs_no_scores = decoders.has_default_scorers(decoder) or loaded.reach is not None
        candidates, scoring_seconds = (None, 0.0) if needs_no_scores else compute_scores(loaded, question, decoder)
        is_long = has_large_sets(question.k) or decoders.has_costly_stages(decoder)
        with jobs.limit_page_computations(is_long=is_long):
            ranking, select_seconds = _time_ranking(loaded, question, decoder, candidates)
            selector_relevance = None if candidates is None else relevance(decoder.select, candidates)
        # None stands for a part that was not timed.
        seconds = None if scoring_seconds is None or select_seconds is None else scoring_seconds + select_seconds
        answers[cache_key] = Answer(selector_name, decoder, ranking, seconds, selector_relevance)
    return answers[cache_key]


def find_floor(loaded: Loaded, question: Question) -> float | None:
    """Return the relevance below which documents are off the question's topic; None where nobody knows it.

    Of a corpus in a vector engine only some documents are here.
    """
    if loaded.reach is not None:
        return None
    # Every run of the page asks for it, and all documents are read for it.
    floors: Memo[tuple[Any, ...], float | None] = _memo(loaded, "floors", MAX_CACHED_ANSWERS)
    cache_key = (*_question_key(loaded, question), question.k)
    if cache_key not in floors:
        floors[cache_key] = find_topic_floor(loaded.space, question.vector, question.k)
    return floors[cache_key]


def answer_key(loaded: Loaded, question: Question, decoder: Decoder) -> tuple[Any, ...]:
    """Return a key of all that an answer and its drawing depend on."""
    qrels_digest = question.qrels.digest if question.qrels is not None else None
    scorer_parts = find_scorer_dependencies(loaded, decoder)
    return (*_question_key(loaded, question), qrels_digest, decoder.label, *scorer_parts, question.k)


def build_slider_requests(
    loaded: Loaded,
    question: Question,
    decoder: Decoder,
    param: Real | Whole,
    seconds: float | None = None,
    **details: Any,
) -> dict[str, SliderRequest]:
    """Build the requests, by digest, whose answers let a browser move a slider without the server.

    The slider sets `param` of the decoder's selector. The answer to a request has the documents that are chosen at many
    values of it; the browser fetches it at an address with the digest. The last request has all values; where that
    takes long, one with a part of them comes first. seconds: of one answer, None if unknown; details: options of the
    `requests` function of the engine package, of what an answer shows beside the documents
    """
    selector, candidates = decoder.select, None
    # The parameter at its default: digests must not depend on where the slider stands now.
    default_selector = type(selector)(**values_of(selector) | {param.name: param.default})
    default_decoder = replace(decoder, select=default_selector)
    # `loaded.reach` is the space of a corpus in a vector engine, None for one in memory. Documents in memory are scored
    # once for all values; inner products, the default scores, take no time.
    if loaded.reach is None and not decoders.has_default_scorers(decoder):
        candidates, _ = compute_scores(loaded, question, decoder)
    query = as_embeddings(loaded, question)
    key_parts = [*map(str, answer_key(loaded, question, default_decoder)), param.name]
    key_parts.append(str(details.get("duplicate_threshold")))
    decoder = leave_out_document(question, decoder)
    source, k = loaded.reach or loaded.space, question.k
    slider_requests = requests(source, decoder, param, query, k, candidates, seconds, **details)
    # `stops` are the values of the slider's positions, `start` the smallest one that the answer covers: requests for
    # the same slider differ in these.
    return {digest_of([*key_parts, repr((request.stops, request.start))]): request for request in slider_requests}


def _memo(loaded: Loaded, table_name: str, max_entries: int) -> Memo[tuple[Any, ...], Any]:
    """Return this browser session's cache of one kind of values for a corpus as embedded now.

    table_name: the kind, such as "answers"; max_entries: of the cache. The corpora used last have one each,
    MAX_CACHED_CORPORA at most.
    """
    tables: Memo[str, Memo[tuple[Any, ...], Any]] = session_memo(table_name, MAX_CACHED_CORPORA)
    digest = loaded.space.embeddings.digest
    # Tables of older corpora go first, with their vectors, which are large.
    if digest not in tables:
        tables[digest] = Memo(max_entries)
    return tables[digest]


def find_scorer_dependencies(loaded: Loaded, decoder: Decoder) -> tuple[Any, ...]:
    """Return what a decoder's scores depend on besides query and parameters, for the keys of caches."""
    scorers = filter(None, (decoder.retrieve, decoder.rerank))
    return tuple(tuple(sorted(scorer.cache_dependencies(loaded.space).items())) for scorer in scorers)


def _question_key(loaded: Loaded, question: Question) -> tuple[str, ...]:
    """Return a key of a query on the documents as they are now: moved by feedback, or fetched so far."""
    vector = hashlib.sha256(question.vector.numpy().tobytes()).hexdigest()
    digests = loaded.space.embeddings.digest, loaded.space.corpus.digest, loaded.state
    return *digests, vector, question.id, question.text, question.document or ""


def compute_scores(loaded: Loaded, question: Question, decoder: Decoder) -> tuple[ScoredCandidates, float | None]:
    """Score documents for the question by a decoder's retriever and reranker.

    Scores are cached for the browser session. Return the candidates with their scores and the median seconds, None if
    that takes too long to be timed. The page shows a spinner, and progress if it goes on.
    """
    cached_scores: Memo[tuple[Any, ...], tuple[ScoredCandidates, float | None]] = _memo(loaded, "scored", MAX_SCORES)
    scorers = decoder.retrieve.label, decoder.rerank.label if decoder.rerank else None
    limits = decoder.depth, decoder.per_source, decoder.source, decoder.without_self
    cache_key = (*_question_key(loaded, question), *scorers, *find_scorer_dependencies(loaded, decoder), *limits)
    if cache_key not in cached_scores:
        progress_slot, start_time = st.empty(), time.monotonic()

        def report(n_done: int, n_total: int, label: str) -> None:
            if n_total and time.monotonic() - start_time > PROGRESS_DELAY_SECONDS:
                progress_slot.progress(min(1.0, n_done / n_total))  # a click elsewhere ends the run here

        titles = " and ".join(s.spec.title for s in (decoder.retrieve, decoder.rerank) if s is not None)
        words = f"Scoring by {titles}; the first time an index is made or a model is loaded"
        query = as_embeddings(loaded, question)
        is_long = decoders.has_costly_stages(decoder)
        with st.spinner(words), report_to(report), jobs.limit_page_computations(is_long=is_long):
            # What is computed once for a corpus, such as an index of words, is not part of a query's time.
            for scorer in filter(None, (decoder.retrieve, decoder.rerank)):
                scorer.prepare(loaded.space)
            compute = partial(score_candidates, leave_out_document(question, decoder), loaded.space, query)
            cached_scores[cache_key] = _time_calls(loaded, scorers, compute, lambda result: result.candidates.relevance)
        progress_slot.empty()
    return cached_scores[cache_key]


def _time_calls(
    loaded: Loaded, call_kind: tuple[Any, ...], compute: Callable[[], T], get_tensor: Callable[[T], Tensor]
) -> tuple[T, float | None]:
    """Call a function a few times; return its result and the median seconds of a call.

    The median is None if the first call of its kind, which is not timed, took too long to be repeated. call_kind: equal
    for calls that need the same compiled code; get_tensor: returns a tensor of the result, to wait for its device.
    """
    timed_kinds = _memo(loaded, "timed", MAX_CACHED_ANSWERS)
    # The first call of a kind compiles and allocates: it is not timed.
    n_untimed, seconds = 0 if call_kind in timed_kinds else 1, list[float]()
    timed_kinds[call_kind] = True
    for _ in range(N_TIMED_CALLS + n_untimed):
        start_time = time.perf_counter()
        result = compute()
        # A GPU computes after the call has returned: the copy, which is dropped, waits until it is done.
        if get_tensor(result).is_cuda:
            get_tensor(result).cpu()
        seconds.append(time.perf_counter() - start_time)
        # Enough is measured; or the untimed first call alone was too slow for another one.
        if sum(seconds) > MIN_TIMED_SECONDS and (len(seconds) > n_untimed or seconds[0] > MAX_REPEATED_SECONDS):
            break
    timed_seconds = seconds[n_untimed:]
    return result, statistics.median(timed_seconds) if timed_seconds else None


def _time_ranking(
    loaded: Loaded, question: Question, decoder: Decoder, candidates: ScoredCandidates | None
) -> tuple[Ranking, float | None]:
    """Compute the documents that a decoder chooses; return them and its seconds, None if unknown.

    candidates: documents scored already, None to score and select in one call
    """
    query, stage, key = as_embeddings(loaded, question), decoder.select, answer_key(loaded, question, decoder)
    decoder = leave_out_document(question, decoder)
    if loaded.reach is not None:
        return _ask_store(loaded.reach, key, decoder, query, question.k)
    compute = partial(decode, decoder, loaded.space, query, k=question.k)
    if candidates is not None:
        compute = partial(select_from, stage, candidates, question.k)
    if not stage.is_warm():
        return compute(), None
    stage.warm()  # a first call's compilation is not part of a query's time
    # Compiled code depends on the scorers and the selector, but not on the number of candidates, the pool's depth.
    *call_kind, _ = decoder_family(decoder)
    return _time_calls(loaded, tuple(call_kind), compute, lambda ranking: ranking.index)


def _ask_store(
    reach: Reach, proof_key: tuple[Any, ...], decoder: Decoder, query: Embeddings, k: int
) -> tuple[Ranking, float | None]:
    """Return a decoder's choice among a vector engine's (a database's) documents, and the seconds it took.

    Such an engine searches approximately. If this query's answer has been proven exact before, that answer is returned
    instead, with None for the seconds.
    """
    proofs: Memo[tuple[Any, ...], Ranking] = session_memo(PROOFS_TABLE, MAX_CACHED_ANSWERS)
    # A proven answer replaces the engine's own for the rest of the session.
    if proof_key in proofs:
        return proofs[proof_key], None
    start_time = time.perf_counter()
    with st.spinner(f"Asking {reach.name}"):
        ranking = decode(decoder, reach, query, k)
    return ranking, time.perf_counter() - start_time


def store_proof(loaded: Loaded, question: Question, decoder: Decoder, ranking: Ranking) -> None:
    """Use an answer that was proven exact in place of a vector engine's own, from the next run on."""
    proofs: Memo[tuple[Any, ...], Ranking] = session_memo(PROOFS_TABLE, MAX_CACHED_ANSWERS)
    proof_key = answer_key(loaded, question, decoder)
    proofs[proof_key] = ranking
    # The cached answer is the vector engine's own: without it, the next run looks among the proofs.
    _memo(loaded, "answers", MAX_CACHED_ANSWERS).forget(proof_key)
