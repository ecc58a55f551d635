"""Quality against rerank depth, and against the length of what is relevant."""

from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
import pytest
import torch

import engine
from engine import stages
from engine.evaluation.depths import DEPTHS
from engine.evaluation.strata import relevant_lengths, stratify

N = 40


@pytest.fixture
def backwards(monkeypatch):
    """A scorer, known to this test only, that prefers high rows."""
    monkeypatch.setattr(stages, "_SPECS", dict(stages.methods()))

    @stages.register("backwards", title="Backwards", paper="nobody", equation="i", cost="n")
    @dataclass(frozen=True)
    class Backwards(stages.Scorer):
        """The row's number."""

        def score(self, space, queries, rows=None):
            every = torch.arange(len(space)).expand(len(queries), -1) if rows is None else rows
            return every.double()

    return engine.make("backwards")


@pytest.fixture
def data():
    """Row i scores 1 − i/N; query b finds row 3b relevant, which has 3b + 1 words."""
    ids = tuple(f"d{i}" for i in range(N))
    corpus = engine.Corpus(ids, tuple("w " * (i + 1) for i in range(N)))
    line = torch.linspace(1, 0, N + 1, dtype=torch.float64)[:N]
    space = engine.Space(corpus, engine.Embeddings(torch.stack([line, 1 - line], 1), ids), "cpu")
    queries = engine.Embeddings(torch.tensor([[1.0, 0.0]] * 5), tuple(f"q{b}" for b in range(5)))
    return space, queries, engine.Qrels({f"q{b}": {f"d{3 * b}": 1} for b in range(5)})


def test_points_are_the_reranked_pools(backwards, data):
    decoder = engine.Decoder(engine.make("top_k"), rerank=backwards, depth=7)
    points = list(engine.rerank_depths([decoder], *data, depths=(10, 12, 500, 1000), split="toy"))
    assert [p.decoder["depth"] for p in points] == [10, 12, N] and {p.split for p in points} == {"toy"}
    for point in points:
        depth = point.decoder["depth"]
        # Reranked backwards, the pool's last is first.
        ranks = np.array([depth - 3 * b for b in range(5)])
        expected = np.where((ranks >= 1) & (ranks <= 10), 1 / np.maximum(ranks, 1), 0)
        assert point.values["mrr"] == pytest.approx(expected)
    same = engine.Decoder(engine.make("top_k"), rerank=engine.make("dense"))
    assert len({p.mean["mrr"] for p in engine.rerank_depths(same, *data)}) == 1
    assert DEPTHS[0] == 10 and DEPTHS[-1] == 1000


def test_depth_needs_a_reranker_and_room_for_k(backwards, data):
    top = engine.make("top_k")
    with pytest.raises(engine.ParamError, match=r"must have a rerank stage.* dense → top_k has none"):
        engine.rerank_depths([engine.Decoder(top)], *data)
    decoder = engine.Decoder(top, rerank=backwards)
    with pytest.raises(engine.ParamError, match=r"depths must be whole numbers in \[10, ∞\), k being 10; got 5"):
        engine.rerank_depths([decoder], *data, depths=(5, 20))
    with pytest.raises(engine.ParamError, match="depths must be a list"):
        engine.rerank_depths([decoder], *data, depths=20)
    with pytest.raises(engine.ParamError, match=r"depth .* got 0"):
        engine.rerank_depths([decoder], *data, depths=(0,))
    with pytest.raises(engine.ParamError, match=r"must be a list of engine\.Decoder"):
        engine.rerank_depths([backwards], *data)


def test_quality_by_the_length_of_the_relevant_documents(data):
    space, queries, qrels = data
    lengths = relevant_lengths(space.corpus, qrels)
    assert lengths == {f"q{b}": 3 * b + 1 for b in range(5)}
    points = list(engine.sweep([engine.Decoder(engine.make("top_k"))], space, queries, qrels, 10, "mrr"))
    rows = stratify(points, "mrr", lengths, groups=2)
    assert [(r.least, r.most, r.queries) for r in rows] == [(1, 4, 2), (7, 13, 3)]
    assert rows[0].mean > rows[-1].mean
    odd = engine.Qrels(
        MappingProxyType({"q": {"d0": 1, "d3": 1, "gone": 1, "d9": 0}, "r": {"gone": 1}, "s": {"d1": 0}})
    )
    assert relevant_lengths(space.corpus, odd) == {"q": 2}
