"""Answers of decoders to the session's query, timed, and cached by setting and query."""

import hashlib
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import streamlit as st
from torch import Tensor

from dashboard.services import jobs
from dashboard.services.memo import Memo, session_memo
from dashboard.services.source import Loaded
from dashboard.session import decoders
from dashboard.session.query import Question
from engine.decoder import Decoder, ScoredCandidates, decode, decoder_family, score_candidates, select_from
from engine.params import Real, Whole, values_of
from engine.progress import report_to
from engine.reach import Reach
from engine.stages import Selector
from engine.values import Embeddings, Ranking, digest_of
from engine.views.decision import Relevance, relevance
from engine.views.slider import SliderRequest, requests

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
        """Selector."""
        return self.decoder.select

    @property
    def title(self) -> str:
        """Display name of the decoder."""
        return decoders.format_title(self.decoder)


def as_embeddings(loaded: Loaded, question: Question) -> Embeddings:
    """Return the question in the form that the engine takes: the vectors of one query."""
    return Embeddings((question.id,), question.vector.unsqueeze(0), loaded.space.embeddings.encoder, (question.text,))


def compute_answer(loaded: Loaded, question: Question, selector_name: str, decoder: Decoder) -> Answer:
    """Return the documents that a decoder chooses for the question, timed; cached for the session.

    selector_name: of the decoder's selector in the registry. Raises ParamError if the decoder cannot run now.
    """
    decoders.check_decoder(decoder, loaded.space)
    answers: Memo[tuple[Any, ...], Answer] = _memo(loaded, "answers", MAX_CACHED_ANSWERS)
    cache_key = answer_key(loaded, question, decoder)
    if cache_key not in answers:
        # Inner products, the default scores, are part of a call of the decoder; a vector engine computes its own.
        needs_no_scores = decoders.has_default_scorers(decoder) or loaded.reach is not None
        candidates, scoring_seconds = (None, 0.0) if needs_no_scores else compute_scores(loaded, question, decoder)
        with jobs.page_turn():
            ranking, select_seconds = _time_ranking(loaded, question, decoder, candidates)
            selector_relevance = None if candidates is None else relevance(decoder.select, candidates)
        seconds = None if scoring_seconds is None or select_seconds is None else scoring_seconds + select_seconds
        answers[cache_key] = Answer(selector_name, decoder, ranking, seconds, selector_relevance)
    return answers[cache_key]


def answer_key(loaded: Loaded, question: Question, decoder: Decoder) -> tuple[Any, ...]:
    """Return a key of all that an answer and its drawing depend on."""
    judged = question.qrels.digest if question.qrels is not None else None
    return (*_question_key(loaded, question), judged, decoder.label, *_scorer_dependencies(loaded, decoder), question.k)


def build_slider_requests(
    loaded: Loaded, question: Question, decoder: Decoder, param: Real | Whole, **details: Any
) -> dict[str, SliderRequest]:
    """Build what the browser may ask for while a slider moves: digest → request, the last one complete.

    The slider sets `param` of the decoder's selector. A request is answered by the sets at many positions of the
    slider; a partial one comes first where that takes long.
    details: options of the engine's `requests`
    """
    stage, candidates = decoder.select, None
    # The parameter at its default: digests must not depend on where the slider stands now.
    default_stage = type(stage)(**values_of(stage) | {param.name: param.default})
    family = Decoder(default_stage, decoder.retrieve, decoder.rerank, decoder.depth)
    if loaded.reach is None and not decoders.has_default_scorers(decoder):
        candidates = compute_scores(loaded, question, decoder)[0]
    query, parts = (as_embeddings(loaded, question), [*map(str, answer_key(loaded, question, family)), param.name])
    slider_stops = requests(loaded.reach or loaded.space, decoder, param, query, question.k, candidates, **details)
    return {digest_of([*parts, repr((request.stops, request.start))]): request for request in slider_stops}


def _memo(loaded: Loaded, table_name: str, max_entries: int) -> Memo[tuple[Any, ...], Any]:
    """Return this session's cache of one kind of values for a corpus; the last two corpora have one each."""
    tables: Memo[str, Memo[tuple[Any, ...], Any]] = session_memo(table_name, MAX_CACHED_CORPORA)
    digest = loaded.space.embeddings.digest
    # Tables of older corpora go first, with their vectors, which are large.
    if digest not in tables:
        tables[digest] = Memo(max_entries)
    return tables[digest]


def _scorer_dependencies(loaded: Loaded, decoder: Decoder) -> tuple[Any, ...]:
    """Return what a decoder's scores depend on besides query and parameters, for the keys of caches."""
    scorers = filter(None, (decoder.retrieve, decoder.rerank))
    return tuple(tuple(sorted(scorer.cache_dependencies(loaded.space).items())) for scorer in scorers)


def _question_key(loaded: Loaded, question: Question) -> tuple[str, ...]:
    """Return a key of a query on the documents as they are now: moved by feedback, or fetched so far."""
    vector = hashlib.sha256(question.vector.numpy().tobytes()).hexdigest()
    digests = loaded.space.embeddings.digest, loaded.space.corpus.digest, loaded.state
    return *digests, vector, question.id, question.text


def compute_scores(loaded: Loaded, question: Question, decoder: Decoder) -> tuple[ScoredCandidates, float | None]:
    """Score documents for the question by a decoder's retriever and reranker; cached for the session.

    Return the candidates with their scores and the median seconds, None if that takes too long to be timed. The page
    shows a spinner, and progress if it goes on.
    """
    cached_scores: Memo[tuple[Any, ...], tuple[ScoredCandidates, float | None]] = _memo(loaded, "scored", MAX_SCORES)
    scorers = decoder.retrieve.label, decoder.rerank.label if decoder.rerank else None
    cache_key = (*_question_key(loaded, question), *scorers, *_scorer_dependencies(loaded, decoder), decoder.depth)
    if cache_key not in cached_scores:
        progress_slot, start_time = st.empty(), time.monotonic()

        def report(n_done: int, n_total: int, label: str) -> None:
            if n_total and time.monotonic() - start_time > PROGRESS_DELAY_SECONDS:
                progress_slot.progress(min(1.0, n_done / n_total))  # a click elsewhere ends the run here

        titles = " and ".join(s.spec.title for s in (decoder.retrieve, decoder.rerank) if s is not None)
        words = f"Scoring by {titles}; the first time an index is made or a model is loaded"
        query = as_embeddings(loaded, question)
        with st.spinner(words), jobs.page_turn(), report_to(report):
            # What is computed once for a corpus, such as an index of words, is not part of a query's time.
            for scorer in filter(None, (decoder.retrieve, decoder.rerank)):
                scorer.prepare(loaded.space)
            compute = partial(score_candidates, decoder, loaded.space, query)
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
    is_first, seconds = call_kind not in timed_kinds, list[float]()
    # The first call of a kind compiles and allocates: it is not timed.
    timed_kinds[call_kind] = True
    for _ in range(N_TIMED_CALLS + is_first):
        start_time = time.perf_counter()
        result = compute()
        # A GPU computes after the call has returned: the copy, which is dropped, waits until it is done.
        if get_tensor(result).is_cuda:
            get_tensor(result).cpu()
        seconds.append(time.perf_counter() - start_time)
        # Enough is measured; or the untimed first call alone was too slow for another one.
        if sum(seconds) > MIN_TIMED_SECONDS and (len(seconds) > is_first or seconds[0] > MAX_REPEATED_SECONDS):
            break
    timed_seconds = seconds[is_first:]  # without the first one of a kind, as True counts as 1
    return result, statistics.median(timed_seconds) if timed_seconds else None


def _time_ranking(
    loaded: Loaded, question: Question, decoder: Decoder, candidates: ScoredCandidates | None
) -> tuple[Ranking, float | None]:
    """Compute the documents that a decoder chooses; return them and its seconds, None if unknown.

    candidates: documents scored already, None to score and select in one call
    """
    query, stage = as_embeddings(loaded, question), decoder.select
    if loaded.reach is not None:
        return _ask_store(loaded.reach, answer_key(loaded, question, decoder), decoder, query, question.k)
    compute = partial(decode, decoder, loaded.space, query, k=question.k)
    if candidates is not None:
        compute = partial(select_from, stage, candidates, question.k)
    if not stage.is_warm():
        return compute(), None
    stage.warm()  # a first call's compilation is not part of a query's time
    # Compiled code depends on the stages but not on the pool's depth, the last part of the key.
    return _time_calls(loaded, decoder_family(decoder)[:-1], compute, lambda ranking: ranking.index)


def _ask_store(
    reach: Reach, proof_key: tuple[Any, ...], decoder: Decoder, query: Embeddings, k: int
) -> tuple[Ranking, float | None]:
    """Return the documents that a decoder chooses from a vector engine, a database, and the seconds.

    Such an engine searches approximately: an answer that was proven exact before is used instead, without a time.
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
    _memo(loaded, "answers", MAX_CACHED_ANSWERS).forget(proof_key)
