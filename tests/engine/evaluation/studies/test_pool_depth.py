"""The smallest pool that keeps the answers, against trying every depth."""

import pytest

import engine
from engine.evaluation.studies.pool_depth import PoolDepth
from support.instances import problem
from support.rankings import queries_of, space_of


@pytest.mark.parametrize(
    "stage", [("mmr", 0.3), pytest.param(("mmr", 0.9), marks=pytest.mark.deep), ("dpp", 0.6)], ids=str
)
def test_pool_depth_is_the_smallest_sufficient_depth(stage):
    rows, points = problem("clustered", 3, n=70, d=8, batch=20)
    space, queries = space_of(rows), queries_of(points)
    select = engine.make(stage[0], relevance_weight=stage[1])
    answers = [engine.decode(engine.Decoder(select, depth=n), space, queries, k=6).index for n in range(6, 71)]
    same = {6 + i: float((index == answers[-1]).all(1).double().mean()) for i, index in enumerate(answers)}
    depths = []
    for share in (1.0, 0.8, 0.5, 0.3):
        depths.append(next(depth for depth, value in same.items() if value >= share))
        pool_depth = engine.pool_depth(engine.Decoder(select), space, queries, k=6, share=share)
        assert pool_depth == PoolDepth(depths[-1], same[depths[-1]], 20)
    assert any(6 < depth < 70 for depth in depths)


def test_pool_depth_is_clamped_to_k_and_corpus_size():
    rows, points = problem("random", 0, n=30, d=5, batch=4)
    space, queries = space_of(rows), queries_of(points)
    top = engine.Decoder(engine.make("top_k"))
    assert engine.pool_depth(top, space, queries, k=7) == PoolDepth(7, 1.0, 4)
    assert engine.pool_depth(top, space, queries, k=50) == PoolDepth(30, 1.0, 4)
    deep = engine.Decoder(engine.make("mmr", relevance_weight=0.0), depth=12)
    assert engine.pool_depth(deep, space, queries, k=7, share=1).depth <= 12
    with pytest.raises(engine.ParamError, match="share must be a number"):
        engine.pool_depth(top, space, queries, share=1.5)
