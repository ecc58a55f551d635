"""Answers of decoders to the session's question, timed, and cached by setting and question."""

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
REPEATS, LONG, LONGEST = 3, 0.02, 0.5
"""Timed calls of a decoder; the seconds after which they are enough, and those of a first call that none follows."""
REMEMBERED, REMEMBERED_CORPORA = 64, 2
SCORED = 12
"""Scored questions that are cached: a slider then moves without scoring anew."""
PROOFS = "proofs"
"""The session's table of answers that a vector engine proved."""
SHOWN_AFTER = 0.5
"""Seconds after which scoring shows its progress."""


@dataclass(frozen=True)
class Answer:
    """The answer of one decoder."""

    name: str  # of its selector
    decoder: Decoder  # as it was set
    ranking: Ranking  # of this query alone
    seconds: float | None  # median of a few calls, None where there was only the first of its kind
    relevance: Relevance | None = None  # what the selector saw, None where that is the inner product with the query

    @property
    def stage(self) -> Selector:
        """The selector."""
        return self.decoder.select

    @property
    def title(self) -> str:
        """The decoder's name for people."""
        return decoders.title(self.decoder)


def query_of(loaded: Loaded, question: Question) -> Embeddings:
    """The question as Embeddings of one query."""
    return Embeddings((question.id,), question.vector.unsqueeze(0), loaded.space.embeddings.encoder, (question.text,))


def answer(loaded: Loaded, question: Question, name: str, decoder: Decoder) -> Answer:
    """The answer of a decoder."""
    decoders.checked(decoder, loaded.space)
    memory: Memo[tuple[Any, ...], Answer] = _memory(loaded, "answers", REMEMBERED)
    key = answer_key(loaded, question, decoder)
    if key not in memory:
        plain = decoders.has_default_scorers(decoder) or loaded.reach is not None
        candidates, before = (None, 0.0) if plain else scores_of(loaded, question, decoder)
        with jobs.turn():
            ranking, after = _timed(loaded, question, decoder, candidates)
            selector_relevance = None if candidates is None else relevance(decoder.select, candidates)
        seconds = None if before is None or after is None else before + after
        memory[key] = Answer(name, decoder, ranking, seconds, selector_relevance)
    return memory[key]


def answer_key(loaded: Loaded, question: Question, decoder: Decoder) -> tuple[Any, ...]:
    """All that an answer and what is drawn of it depend on."""
    judged = question.qrels.digest if question.qrels is not None else None
    return (*_question(loaded, question), judged, decoder.label, *_dependencies(loaded, decoder), question.k)


def slider_requests(
    loaded: Loaded, question: Question, decoder: Decoder, param: Real | Whole, **details: Any
) -> dict[str, SliderRequest]:
    """The requests for a slider's answers by their digests; param: as its slider shows it; details: of `requests`."""
    stage, candidates = decoder.select, None
    anywhere = type(stage)(**values_of(stage) | {param.name: param.default})
    along = Decoder(anywhere, decoder.retrieve, decoder.rerank, decoder.depth)
    if loaded.reach is None and not decoders.has_default_scorers(decoder):
        candidates = scores_of(loaded, question, decoder)[0]
    query, key = query_of(loaded, question), [*map(str, answer_key(loaded, question, along)), param.name]
    found = requests(loaded.reach or loaded.space, decoder, param, query, question.k, candidates, **details)
    return {digest_of([*key, repr((request.stops, request.start))]): request for request in found}


def _memory(loaded: Loaded, table: str, entries: int) -> Memo[tuple[Any, ...], Any]:
    """This session's table for this corpus; only this and the one before have one, as vectors are large."""
    tables: Memo[str, Memo[tuple[Any, ...], Any]] = session_memo(table, REMEMBERED_CORPORA)
    digest = loaded.space.embeddings.digest
    if digest not in tables:
        tables[digest] = Memo(entries)
    return tables[digest]


def _dependencies(loaded: Loaded, decoder: Decoder) -> tuple[Any, ...]:
    """Cache dependencies of the scorers besides the question and their parameters."""
    scorers = filter(None, (decoder.retrieve, decoder.rerank))
    return tuple(tuple(sorted(scorer.cache_dependencies(loaded.space).items())) for scorer in scorers)


def _question(loaded: Loaded, question: Question) -> tuple[str, ...]:
    vector = hashlib.sha256(question.vector.numpy().tobytes()).hexdigest()
    digests = loaded.space.embeddings.digest, loaded.space.corpus.digest, loaded.state
    return *digests, vector, question.id, question.text


def scores_of(loaded: Loaded, question: Question, decoder: Decoder) -> tuple[ScoredCandidates, float | None]:
    """Candidates after retrieval and reranking, and the seconds that takes, if known; cached for the session."""
    memory: Memo[tuple[Any, ...], tuple[ScoredCandidates, float | None]] = _memory(loaded, "scored", SCORED)
    scorers = decoder.retrieve.label, decoder.rerank.label if decoder.rerank else None
    key = (*_question(loaded, question), *scorers, *_dependencies(loaded, decoder), decoder.depth)
    if key not in memory:
        place, began = st.empty(), time.monotonic()

        def report(done: int, total: int, label: str) -> None:
            if total and time.monotonic() - began > SHOWN_AFTER:
                place.progress(min(1.0, done / total))  # a click elsewhere ends the run here

        titles = " and ".join(s.spec.title for s in (decoder.retrieve, decoder.rerank) if s is not None)
        words = f"Scoring by {titles}; the first time an index is made or a model is loaded"
        query = query_of(loaded, question)
        with st.spinner(words), jobs.turn(), report_to(report):
            # What is computed once for a corpus is no part of a query's time.
            for scorer in filter(None, (decoder.retrieve, decoder.rerank)):
                scorer.prepare(loaded.space)
            compute = partial(score_candidates, decoder, loaded.space, query)
            memory[key] = _median_of(loaded, scorers, compute, lambda result: result.candidates.relevance)
        place.empty()
    return memory[key]


def _median_of(
    loaded: Loaded, kind: tuple[Any, ...], compute: Callable[[], T], tensor: Callable[[T], Tensor]
) -> tuple[T, float | None]:
    """A result and the median seconds of a few calls, among them none that was the first of its kind in the session.

    tensor: of a result, waited for on its device. None where that first one took too long to be repeated.
    """
    known = _memory(loaded, "timed", REMEMBERED)
    first, seconds = kind not in known, list[float]()
    known[kind] = True
    for _ in range(REPEATS + first):
        started = time.perf_counter()
        result = compute()
        if tensor(result).is_cuda:
            tensor(result).cpu()
        seconds.append(time.perf_counter() - started)
        if sum(seconds) > LONG and (len(seconds) > first or seconds[0] > LONGEST):
            break
    timed = seconds[first:]
    return result, statistics.median(timed) if timed else None


def _timed(
    loaded: Loaded, question: Question, decoder: Decoder, candidates: ScoredCandidates | None
) -> tuple[Ranking, float | None]:
    """The ranking, and the seconds it takes, if known; of scored candidates those of the selector alone."""
    query, stage = query_of(loaded, question), decoder.select
    if loaded.reach is not None:
        return _asked(loaded.reach, answer_key(loaded, question, decoder), decoder, query, question.k)
    compute = partial(decode, decoder, loaded.space, query, k=question.k)
    if candidates is not None:
        compute = partial(select_from, stage, candidates, question.k)
    if not stage.is_warm():
        return compute(), None
    stage.warm()  # what a process's first call has to make ready is no part of a query's time
    return _median_of(loaded, decoder_family(decoder)[:-1], compute, lambda ranking: ranking.index)


def _asked(
    reach: Reach, key: tuple[Any, ...], decoder: Decoder, query: Embeddings, k: int
) -> tuple[Ranking, float | None]:
    """The ranking from a vector engine, the proven one where there is one, and the seconds of its one call."""
    proofs: Memo[tuple[Any, ...], Ranking] = session_memo(PROOFS, REMEMBERED)
    if key in proofs:
        return proofs[key], None
    started = time.perf_counter()
    with st.spinner(f"Asking {reach.name}"):
        ranking = decode(decoder, reach, query, k)
    return ranking, time.perf_counter() - started


def keep_proof(loaded: Loaded, question: Question, decoder: Decoder, ranking: Ranking) -> None:
    """Show a proven answer in place of the one before, from the next look on."""
    proofs: Memo[tuple[Any, ...], Ranking] = session_memo(PROOFS, REMEMBERED)
    key = answer_key(loaded, question, decoder)
    proofs[key] = ranking
    _memory(loaded, "answers", REMEMBERED).forget(key)
