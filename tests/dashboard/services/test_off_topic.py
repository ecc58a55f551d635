"""Off-topic documents of chosen settings: counted once for all sessions, in a job, on a sample of many queries."""

from dataclasses import replace

import pytest

import engine
from dashboard.services import memo, off_topic
from dashboard.services.jobs import Job
from dashboard.services.source import Source
from engine.views.topic import count_off_topic
from support.pages import load

K = 10
BASELINE = "Top-k", engine.Decoder(engine.make("top_k"))
VRSD = engine.Decoder(engine.make("vrsd"))


@pytest.fixture
def loaded(monkeypatch):
    memo._SHARED_TABLES.clear()
    monkeypatch.setattr(off_topic, "MAX_COUNTED_QUERIES", 40)
    return load(Source("numpy-api"))


def find_counts(loaded, choices=(VRSD,)):
    split = next(iter(loaded.dataset.qrels))
    vectors = loaded.vectors_of(loaded.dataset.judged(split))
    return off_topic.find_counts(loaded, BASELINE, choices, vectors, loaded.dataset.qrels[split], K)


def test_job_counts_what_is_not_counted_and_later_calls_have_it_at_once(loaded):
    job = find_counts(loaded)
    assert isinstance(job, Job)
    job.join(60)
    assert job.error is None
    counts = find_counts(loaded)
    split = next(iter(loaded.dataset.qrels))
    vectors = loaded.vectors_of(loaded.dataset.judged(split))
    sample = off_topic._sample(vectors, len(loaded.space))
    expected = [
        count_off_topic(loaded.space, decoder, sample, K, qrels=loaded.dataset.qrels[split])
        for decoder in (BASELINE[1], VRSD)
    ]
    assert [counts.baseline_count, counts.counts[VRSD.label]] == expected and expected[1] > expected[0]
    assert (counts.n_queries, counts.n_all_queries) == (40, len(vectors))
    assert counts.describe(VRSD.label).endswith(f"(on 40 of {len(vectors)} queries)")


def test_nothing_is_counted_where_no_query_has_a_floor_or_a_model_reranks(loaded):
    reranked = replace(VRSD, rerank=engine.make("cross_encoder"), depth=50)
    assert find_counts(loaded, [reranked]) is None
    assert find_counts(loaded, []) is None
    split = next(iter(loaded.dataset.qrels))
    few_documents = len(loaded.space) // 6 + 1
    qrels, vectors = loaded.dataset.qrels[split], loaded.vectors_of(loaded.dataset.judged(split))
    assert off_topic.find_counts(loaded, BASELINE, [VRSD], vectors, qrels, few_documents) is None
    assert off_topic.find_counts(loaded, BASELINE, [VRSD], None, qrels, K) is None


def test_sample_that_would_be_too_small_is_none(loaded, monkeypatch):
    monkeypatch.setattr(off_topic, "MAX_COUNTED_SCORES", 29 * len(loaded.space))
    assert find_counts(loaded) is None


def test_failed_job_is_not_started_again(loaded, monkeypatch):
    calls = []

    def fail(*_args, **_kwargs):
        calls.append(1)
        raise engine.DataError("no lists")

    monkeypatch.setattr(off_topic, "count_off_topic", fail)
    choices = [engine.Decoder(engine.make("mmr", relevance_weight=0.31))]
    # A job may have failed before it is returned.
    if job := find_counts(loaded, choices):
        job.join(60)
    assert find_counts(loaded, choices) is None and len(calls) == 1
