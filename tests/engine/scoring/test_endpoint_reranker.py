"""endpoint_reranker: the scores of a server; only the pool's texts are sent, and relevance is on one scale."""

import os
import threading

import pytest
import torch

import engine
from engine.data.endpoints import consent
from engine.data.endpoints.consent import find_allowance
from engine.errors import Cancelled, DataError, FrontierError
from engine.progress import report_to
from support.cli import run
from support.model_server import RERANK, word_overlap
from support.stage_laws import word_space


@pytest.fixture(autouse=True)
def no_earlier_requests(scorer_options, model_server):
    model_server.requests.clear()


def test_scores_are_the_servers_and_only_the_pool_is_sent(model_server):
    space, batch = word_space(31)
    decoder = engine.Decoder(engine.make("top_k"), rerank=engine.make("endpoint_reranker"), depth=6)
    queries = engine.Queries.of(batch.texts)
    ranking = engine.decode(decoder, space, queries, k=3)
    sent = model_server.texts(RERANK)
    assert len(sent) == 18 and all(path == RERANK for path, _ in model_server.requests)
    for query, rows in zip(batch.texts, ranking.index.tolist(), strict=True):
        pool = next(body["documents"] for _, body in model_server.requests if body["query"] == query)
        best = sorted((word_overlap(query, text) for text in pool), reverse=True)[:3]
        assert [word_overlap(query, space.corpus.passages[row]) for row in rows] == pytest.approx(best)
    assert torch.equal(engine.decode(decoder, space, queries, k=3).index, ranking.index)
    assert model_server.texts(RERANK) == sent  # kept by their texts


def test_its_relevance_is_brought_to_the_scale_of_similarities():
    space, batch = word_space(32)
    queries, rerank = engine.Queries.of(batch.texts), engine.make("endpoint_reranker")
    ranked = []
    for scale in ("auto", "minmax", "raw"):
        mmr = engine.make("mmr", relevance_weight=0.5, relevance_scale=scale)
        ranked.append(engine.decode(engine.Decoder(mmr, rerank=rerank, depth=12), space, queries, k=6).gain)
    assert ranked[0].equal(ranked[1]) and not ranked[0].equal(ranked[2])


def test_progress_counts_pairs_and_scoring_can_be_cancelled():
    space, batch = word_space(33)
    stage, seen, stop = engine.make("endpoint_reranker"), [], threading.Event()
    with report_to(lambda *report: seen.append(report)):
        stage.score(space, batch)
    assert seen[-1][:2] == (72, 72) and "scoring pairs by 127.0.0.1" in seen[-1][2]
    stop.set()
    with report_to(None, stop), pytest.raises(Cancelled, match="at 72 of 72 pairs"):
        stage.score(space, batch)


def test_where_no_file_names_a_reranker_it_is_said_and_pages_leave_it_out(model_server, monkeypatch, tmp_path):
    stage = engine.make("endpoint_reranker")
    assert type(stage).is_available()
    assert stage.consent_needed(None).endswith(f"are sent to {model_server.url[7:-3]}")
    monkeypatch.setenv("FRONTIER_HOME", str(tmp_path))
    assert not type(stage).is_available()
    space, batch = word_space(34)
    with pytest.raises(DataError, match=r"(?s)there is no .*endpoints\.toml.*key_env"):
        stage.score(space, batch)


def test_the_command_line_reranks_by_it(tmp_path):
    (tmp_path / "corpus.csv").write_text("id,text\na,sort an array\nb,sum of an axis\nc,array\n")
    flags = ["--rerank", "endpoint_reranker", "--rerank-endpoint", "mine", "--depth", "3", "--query", "sum axis"]
    assert run("decode", "--corpus", str(tmp_path / "corpus.csv"), *flags).index("b  sum of an axis") < 60
    assert os.environ["FRONTIER_HOME"] not in str(tmp_path)


def test_the_limit_without_a_block_is_of_the_call_not_of_its_decoders(model_server, monkeypatch):
    space, batch = word_space(35)
    monkeypatch.setattr(consent, "FREE_TOKENS", 600)
    queries, rerank = engine.Queries.of(batch.texts), engine.make("endpoint_reranker")
    qrels = engine.Qrels({query: {space.corpus.ids[0]: 1} for query in queries.ids})
    decoders = [engine.Decoder(engine.make("top_k"), rerank=rerank, depth=depth) for depth in range(3, 25, 3)]
    with pytest.raises(FrontierError, match="would send") as caught:
        list(engine.sweep(decoders, space, queries, qrels, 3, ["recall"]))
    pairs = [(body["query"], text) for _, body in model_server.requests for text in body["documents"]]
    sent = sum(consent.estimate_tokens(text.encode()) for pair in pairs for text in pair)
    # No single decoder sends as much.
    assert 0 < sent < 600 and caught.value.estimate.n_tokens < 600 and find_allowance() is None


def test_all_that_a_search_of_settings_sends_is_one_call():
    space, batch = word_space(36)
    queries, rerank, allowances = engine.Queries.of(batch.texts), engine.make("endpoint_reranker"), []
    qrels = {"dev": engine.Qrels({query: {space.corpus.ids[0]: 1} for query in queries.ids})}
    options = {"k": 3, "points": 2, "metrics": ["recall"], "test": None}
    options["like"] = engine.Decoder(engine.make("top_k"), rerank=rerank, depth=5)
    engine.tune("mmr", space, queries, qrels, seen=lambda _: allowances.append(find_allowance()), **options)
    assert len(set(map(id, allowances))) == 1 and allowances[0].n_tokens > 0 and find_allowance() is None


@pytest.mark.deep
def test_workers_of_a_sweep_may_send_what_the_caller_allows(demo):
    dataset, space = demo
    queries, decoders = dataset.judged("dev").sample(3), [
        engine.Decoder(engine.make("top_k"), rerank=engine.make("endpoint_reranker"), depth=depth) for depth in (5, 6)
    ]  # fmt: skip
    sweep = {"k": 3, "metrics": ("recall",), "store": None, "workers": 1}
    with engine.allow_tokens(10), pytest.raises(FrontierError, match="would send"):
        list(engine.sweep(decoders, space, queries, dataset.qrels["dev"], **sweep))
    with engine.allow_tokens() as allowance:
        assert len(list(engine.sweep(decoders, space, queries, dataset.qrels["dev"], **sweep))) == 2
    assert 0 < allowance.n_tokens < 20_000
