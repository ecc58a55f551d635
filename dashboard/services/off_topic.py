"""Off-topic documents in the lists of chosen settings, counted in the background once for all sessions."""

from collections.abc import Hashable, Sequence
from functools import partial
from random import Random
from typing import Any

from dashboard.services import jobs
from dashboard.services.jobs import Job, SharedJobs
from dashboard.services.memo import Memo, shared_memo
from dashboard.services.source import Loaded
from engine.decoder import Decoder
from engine.evaluation.off_topic import OffTopicCounts
from engine.values import Embeddings, Qrels
from engine.views.topic import MIN_CORPUS_SETS, count_off_topic, find_topic_floors

MAX_COUNTED_QUERIES, MIN_COUNTED_QUERIES = 500, 30
"""Queries whose lists are looked at, at most and, of a sample, at least."""
MAX_COUNTED_SCORES = 20_000_000
"""Queries × documents, a second or two, beyond which a sample of the queries is looked at."""
COUNTS_TABLE, FLOORS_TABLE, MAX_COUNTS, MAX_FLOORS = "off-topic.counts", "off-topic.floors", 128, 8
"""Tables, shared by all sessions, of a decoder's count and of the queries' floors; how many entries each holds."""
COUNTING_TITLE = "counting off-topic documents"
"""Title of the jobs that count."""
_COUNTING_JOBS: SharedJobs[Hashable] = SharedJobs(8)


def find_counts(
    loaded: Loaded,
    baseline: tuple[str, Decoder],
    choices: Sequence[Decoder],
    vectors: Embeddings | None,
    qrels: Qrels,
    k: int,
) -> OffTopicCounts | Job | None:
    """Return the counts of some settings and of the baseline; the job that counts them until they are there.

    None where they are unknown: on a vector engine, on a corpus of at most 6·k documents, where no query has a floor,
    and behind a reranking model, which reads too long. baseline: its name and decoder; vectors: of the queries that
    the settings were measured on, None without any; qrels: their judgements
    """
    decoders = tuple(dict.fromkeys([baseline[1], *choices]))
    if vectors is None or not choices or loaded.reach is not None or len(loaded.space) <= MIN_CORPUS_SETS * k:
        return None
    if any(decoder.rerank is not None and decoder.rerank.rerank_only for decoder in decoders):
        return None
    sample = _sample(vectors, len(loaded.space))
    if sample is None:
        return None
    data_key = loaded.space.embeddings.digest, loaded.space.corpus.digest, sample.digest, qrels.digest, k
    memo: Memo[Any, float | None] = shared_memo(COUNTS_TABLE, MAX_COUNTS)
    try:
        counts = {decoder: memo[data_key, decoder] for decoder in decoders}
    except KeyError:
        return _join_job(partial(_count, loaded, decoders, sample, qrels, k, data_key), (data_key, decoders))
    baseline_count = counts[baseline[1]]
    known_counts = {decoder.label: count for decoder, count in counts.items() if count is not None}
    return None if baseline_count is None else OffTopicCounts(
        baseline=baseline[0], k=k, baseline_count=baseline_count, counts=known_counts, n_queries=len(sample),
        n_all_queries=len(vectors),
    )  # fmt: skip


def _sample(vectors: Embeddings, n_documents: int) -> Embeddings | None:
    """Return the queries whose lists are looked at; None if a sample would be too small."""
    n_queries = min(len(vectors), MAX_COUNTED_QUERIES, MAX_COUNTED_SCORES // n_documents)
    if n_queries == len(vectors):
        return vectors
    if n_queries < MIN_COUNTED_QUERIES:
        return None
    return vectors.take(sorted(Random(0).sample(range(len(vectors)), n_queries)))


def _join_job(work: Any, key: Hashable) -> Job | None:
    """Return the job that counts, for all sessions, started if there is none; None if it has failed."""
    job = _COUNTING_JOBS.get(key)
    # One that all sessions left has no result, nor one whose result has been dropped from memory.
    if job is not None and not job.is_active and not job.error:
        _COUNTING_JOBS.drop_job(key, job)
    job = _COUNTING_JOBS.get_or_start(key, COUNTING_TITLE, work)
    jobs.subscribe(job)
    return None if job.error else job


def _count(
    loaded: Loaded,
    decoders: Sequence[Decoder],
    queries: Embeddings,
    qrels: Qrels,
    k: int,
    data_key: Hashable,
    job: Job,
) -> bool:
    """Count the off-topic documents of the decoders that are not counted yet, in a job."""
    counts: Memo[Any, float | None] = shared_memo(COUNTS_TABLE, MAX_COUNTS)
    floors_memo: Memo[Any, tuple[float | None, ...]] = shared_memo(FLOORS_TABLE, MAX_FLOORS)
    if (floors := floors_memo.get(data_key)) is None:
        floors = floors_memo[data_key] = find_topic_floors(loaded.space, queries, k)
    for number, decoder in enumerate(decoders):
        job.report(number, len(decoders), "settings")
        if (data_key, decoder) not in counts:
            counts[data_key, decoder] = count_off_topic(loaded.space, decoder, queries, k, floors, qrels)
    return True
