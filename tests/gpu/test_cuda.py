"""What a GPU alone can show beside the laws: measures of its tensors, and memory that does not suffice."""

import logging

import numpy as np
import pytest
import torch

import engine
from engine.errors import FrontierError
from engine.evaluation.metrics import METRICS
from support.instances import problem
from support.rankings import queries_of, random_aspects, random_rows, ranking_of, space_of

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")]


@pytest.fixture
def small_gpu():
    """Leave this process a hundredth of the GPU's memory."""
    torch.cuda.empty_cache()
    torch.cuda.set_per_process_memory_fraction(0.01)
    yield torch.cuda.get_device_properties(0).total_memory // 100
    torch.cuda.set_per_process_memory_fraction(1.0)


def test_a_gpu_measures_the_same():
    rng = np.random.default_rng(5)
    vectors, queries = problem("degenerate", 2, n=300, d=16, batch=30)
    points, space = queries_of(queries), space_of(vectors)
    gpu_space = engine.Space(space.corpus, space.embeddings, "cuda")
    ranking, aspects = ranking_of(random_rows(rng, 30, 300, 10)), random_aspects(rng, points.ids, 300)
    qrels = engine.Qrels({q: {f"d{i}": 1 for i in rng.permutation(300)[:40]} for q in points.ids})
    far = engine.Ranking(ranking.index.cuda(), ranking.gain.cuda(), ranking.info)
    options = (qrels, 10, tuple(METRICS), aspects, aspects)
    expected = engine.measure(ranking, space, points, *options, source="source").values
    for ranking_case in (ranking, far):
        got = engine.measure(ranking_case, gpu_space, points, *options, source="source").values
        for name in METRICS:
            assert np.allclose(got[name], expected[name], rtol=0, atol=1e-12, equal_nan=True), name


def test_a_corpus_too_large_for_the_gpu_is_searched_by_the_cpu(small_gpu, caplog):
    rows = torch.zeros(small_gpu // (4 * 1024) + 1000, 1024)
    rows[:, 0] = 1
    ids = tuple(map(str, range(len(rows))))
    corpus, embeddings = engine.Corpus(ids, ids), engine.Embeddings(ids, rows)
    with caplog.at_level(logging.WARNING, "frontier"):
        space = engine.Space(corpus, embeddings)
    assert space.device.type == "cpu" and "has no room" in caplog.text
    with pytest.raises(FrontierError, match="take device='cpu'"):
        engine.Space(corpus, embeddings, "cuda")


def test_many_queries_are_answered_in_blocks_that_fit(small_gpu):
    rows, queries = problem("random", 0, n=20_000, d=16, batch=4096)
    assert 4 * len(rows) * len(queries) > small_gpu / 8
    space = engine.Space(space_of(rows).corpus, space_of(rows).embeddings, "cuda")
    chosen = engine.decode(engine.Decoder(engine.make("top_k")), space, queries_of(queries), 10)
    few = engine.decode(engine.Decoder(engine.make("top_k")), space_of(rows), queries_of(queries[:20]), 10)
    assert torch.equal(chosen.index[:20].cpu(), few.index)


@pytest.mark.parametrize("autocast", [torch.float16, torch.bfloat16])
def test_autocast_and_tf32_change_no_set(autocast):
    rows, queries = problem("clustered", 3, n=3000, d=64, batch=5)
    previous_precision = torch.backends.cuda.matmul.fp32_precision
    for name in ("top_k", "mmr", "dpp", "nnn"):
        expected = engine.select(name, rows, queries, k=10)
        try:
            torch.backends.cuda.matmul.fp32_precision = "tf32"
            with torch.autocast("cuda", dtype=autocast):
                chosen = engine.select(name, torch.tensor(rows).cuda(), torch.tensor(queries).cuda(), k=10)
        finally:
            torch.backends.cuda.matmul.fp32_precision = previous_precision
        assert torch.equal(chosen.index.cpu(), expected.index), name
