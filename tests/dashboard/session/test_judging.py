"""Requests of documents to judge: for the setting that only missing judgements keep from being a candidate."""

from dataclasses import replace

import engine
from dashboard.session.judging import build_request
from engine.evaluation.decide import estimate_options
from engine.evaluation.runs import decode_runs
from support import pages


def test_request_has_the_documents_of_the_best_setting_left_out():
    loaded = pages.load()
    queries = loaded.dataset.judged("test")
    vectors = engine.embed_queries(loaded.space, queries)
    grades = loaded.dataset.qrels["test"].grades
    # One grade of 0 says that documents without a grade are unknown.
    first = next(iter(grades))
    qrels = engine.Qrels({**grades, first: {**grades[first], loaded.space.corpus.ids[0]: 0}})
    decoders = [engine.Decoder(engine.make("top_k")), engine.Decoder(engine.make("mmr", relevance_weight=0.7))]
    cells = list(engine.sweep(decoders, loaded.space, vectors, qrels, k=5, metrics=("recall", "ilad")))
    estimates = estimate_options(cells, k=5)
    request = build_request(loaded, estimates, 0.9, {})
    assert request.system == decoders[0], "the baseline is judged first, as all are compared with it"
    assert request.query_ids == cells[0].queries and request.k == 5
    (run,) = decode_runs([request.system], loaded.space, vectors, request.k)
    missing = [d for query in request.query_ids for d in run.documents[query] if d not in qrels.grades[query]]
    assert request.n_missing == len(missing) == estimates.count_missing(0.9)
    complete = replace(estimates, baseline=replace(estimates.baseline, provenance={}))
    assert build_request(loaded, complete, 0.9, {}) is None, "complete judgements leave nothing out"
    assert build_request(loaded, None, 0.9, {}) is None
