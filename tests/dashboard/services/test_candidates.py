"""How many candidates keep the answers, on the corpus that the page has."""

from dataclasses import replace

import engine
from dashboard.services.candidates import MAX_DEPTH_QUERIES, measure_pool_depth
from dashboard.services.source import Source
from engine.evaluation.export_decoder import ExportContext, export
from support.pages import load

MMR = engine.Decoder(engine.make("mmr", relevance_weight=0.8))


def test_it_is_measured_on_the_queries_of_the_corpus_and_said_in_the_code():
    loaded = load(Source("numpy-api"))
    found = measure_pool_depth(loaded, MMR, 10)
    assert found.queries == MAX_DEPTH_QUERIES and 10 < found.depth < len(loaded.space) and found.share >= 0.99
    queries = loaded.vectors_of(loaded.dataset.queries.sample(MAX_DEPTH_QUERIES))
    whole, kept = (engine.decode(replace(MMR, depth=n), loaded.space, queries, 10).index for n in (None, found.depth))
    assert float((whole == kept).all(1).double().mean()) == found.share
    code = export(MMR, "langchain", ExportContext(pool=found)).text
    assert f'"fetch_k": {found.depth}' in code and f"measured on {MAX_DEPTH_QUERIES} queries" in code


def test_without_queries_or_with_words_of_the_whole_corpus_there_is_none():
    loaded = load(Source("numpy-api"))
    assert measure_pool_depth(loaded, replace(MMR, retrieve=engine.make("bm25")), 10) is None
    unasked = replace(loaded, dataset=replace(loaded.dataset, queries=engine.Queries((), ())))
    assert measure_pool_depth(unasked, MMR, 10) is None
