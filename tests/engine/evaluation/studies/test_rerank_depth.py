"""Quality against rerank depth, and against the length of what is relevant."""

from dataclasses import replace
from random import Random
from types import MappingProxyType

import numpy as np
import pytest
import torch

import engine
from engine.evaluation.stratification import count_relevant_lengths, stratify
from engine.evaluation.studies.rerank_depth import RERANK_DEPTHS, compare_depths, rerank_mixed
from support.rankings import backwards, queries_of, space_of

N = 40


@pytest.fixture(name="backwards")
def backwards_fixture(monkeypatch):
    return backwards(monkeypatch)


def line_of(relevant, texts=None):
    """(space, queries, judgements): row i scores 1 − i/N for every query; relevant: a row for each of them."""
    line = torch.linspace(1, 0, N + 1, dtype=torch.float64)[:N]
    queries = queries_of(torch.tensor([[1.0, 0.0]] * len(relevant)))
    qrels = engine.Qrels({f"q{b}": {f"d{row}": 1} for b, row in enumerate(relevant)})
    return space_of(torch.stack([line, 1 - line], 1), texts), queries, qrels


@pytest.fixture
def data():
    """Query b finds row 3b relevant, which has 3b + 1 words."""
    return line_of(range(0, 15, 3), tuple("w " * (i + 1) for i in range(N)))


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
    assert RERANK_DEPTHS[0] == 10 and RERANK_DEPTHS[-1] == 1000


def test_rerank_mixed_adds_seeded_random_rows_to_the_best(backwards, data):
    """Reranked backwards the highest row of the pool is first; the draw is of the query and the seed alone."""
    space, queries, qrels = data
    decoder = engine.Decoder(engine.make("top_k"), rerank=backwards)
    unmixed = next(engine.rerank_depths([decoder], *data, depths=(12,)))
    assert rerank_mixed(decoder, *data, best=12, random=0).values["mrr"] == pytest.approx(unmixed.values["mrr"])
    everything = rerank_mixed(decoder, *data, best=10, random=1000, k=10)
    full_depth = next(engine.rerank_depths([decoder], *data, depths=(N,)))
    assert everything.values["mrr"] == pytest.approx(full_depth.values["mrr"])
    mixed = rerank_mixed(decoder, *data, best=10, random=5, metrics=("recall", "mrr"), seed=3)
    for b in range(5):
        random_ranks = Random(f"3 q{b}".encode()).sample(range(10, N), 5)
        order = sorted([*range(10), *random_ranks], reverse=True)[:10]
        assert mixed.per_query["recall"][f"q{b}"] == float(3 * b in order)
        assert mixed.per_query["mrr"][f"q{b}"] == (1 / (order.index(3 * b) + 1) if 3 * b in order else 0)
    alone = rerank_mixed(decoder, space, queries.take([3]), qrels, best=10, random=5, metrics="mrr", seed=3)
    assert alone.per_query["mrr"]["q3"] == mixed.per_query["mrr"]["q3"]
    for change, message in (({"best": 9}, r"best must be a whole number in \[10"), ({"random": -1}, "random must be")):
        with pytest.raises(engine.ParamError, match=message):
            rerank_mixed(decoder, *data, **change)
    with pytest.raises(engine.ParamError, match="decoder must have a rerank stage"):
        rerank_mixed(engine.Decoder(engine.make("top_k")), *data)


def test_depth_needs_a_reranker_and_room_for_k(backwards, data):
    top = engine.make("top_k")
    decoder = engine.Decoder(top, rerank=backwards)
    bad = [
        ({"decoders": [engine.Decoder(top)]}, r"must have a rerank stage.* dense → top_k has none"),
        ({"depths": (5, 20)}, r"depths must be whole numbers in \[10, ∞\), k being 10; got 5"),
        ({"depths": (0,)}, r"depth .* got 0"),
        ({"depths": ()}, "depths must be a list of whole numbers in .*, at least one; got none"),
        *[({"depths": wrong}, "depths must be a list") for wrong in (5.0, None, 20, "12")],
        *[({"decoders": wrong}, r"must be a list of engine\.Decoder") for wrong in ([backwards], 5, backwards)],
        *[({"k": wrong}, r"k must be a whole number in \[1, ") for wrong in ("a", (5, 10), 0, 2.5, None)],
    ]
    for change, message in bad:
        options = {"decoders": [decoder], "k": 10, **change}
        with pytest.raises(engine.ParamError, match=message):
            engine.rerank_depths(options.pop("decoders"), *data, **options)
    assert len(list(engine.rerank_depths(iter([decoder]), *data, depths=iter((10, 20))))) == 2


def test_quality_by_the_length_of_the_relevant_documents(data):
    space, queries, qrels = data
    lengths = count_relevant_lengths(space.corpus, qrels)
    assert lengths == {f"q{b}": 3 * b + 1 for b in range(5)}
    points = list(engine.sweep([engine.Decoder(engine.make("top_k"))], space, queries, qrels, 10, "mrr"))
    rows = stratify(points, "mrr", lengths, groups=2)
    assert [(r.lowest, r.highest, r.queries) for r in rows] == [(1, 4, 2), (7, 13, 3)]
    assert rows[0].mean > rows[-1].mean
    odd = engine.Qrels(
        MappingProxyType({"q": {"d0": 1, "d3": 1, "gone": 1, "d9": 0}, "r": {"gone": 1}, "s": {"d1": 0}})
    )
    assert count_relevant_lengths(space.corpus, odd) == {"q": 2}


def test_compare_depths_rows_and_best_depth(backwards, data):
    space, queries, qrels = data
    top = engine.make("top_k")
    decoder = engine.Decoder(top, rerank=backwards)
    unranked = list(engine.sweep([engine.Decoder(top)], space, queries, qrels, 10, "mrr"))
    points = list(engine.rerank_depths([decoder], space, queries, qrels, depths=(10, 13, 30)))
    result = compare_depths([*points, *unranked], "mrr")
    assert [row.depth for row in result.rows] == [None, 10, 13, 30] and result.queries == 5
    for row, point in zip(result.rows, [*unranked, *points], strict=True):
        assert row.mean == pytest.approx(point.mean["mrr"]) and row.low <= row.mean <= row.high
        assert row.milliseconds == point.latency > 0
    assert result.best.mean == max(row.mean for row in result.rows[1:]) and result.shallowest.depth <= result.best.depth
    old = [replace(p, provenance={n: v for n, v in p.provenance.items() if n != "timed"}) for p in points]
    assert [row.milliseconds for row in compare_depths(old, "mrr").rows] == [None] * 3
    # Five queries are too few to tell anything by a test that only turns signs.
    assert result.gain == 0 and result.shallowest.depth == 10
    assert compare_depths(points, "mrr").gain is None
    with pytest.raises(engine.ParamError, match="different depths"):
        compare_depths([*points, *engine.rerank_depths([replace(decoder, select=engine.make("mmr"))], *data)], "mrr")
    with pytest.raises(engine.ParamError, match="different depths"):
        compare_depths(unranked, "mrr")


def test_insufficient_depth_is_reported(backwards):
    """Thirty queries whose relevant document is 20th of all: only from depth 20 on can it be first."""
    data, top = line_of([19] * 30), engine.make("top_k")
    points = list(engine.rerank_depths([engine.Decoder(top, rerank=backwards)], *data, depths=(10, 20, 25)))
    unranked = list(engine.sweep([engine.Decoder(top)], *data, 10, "mrr"))
    result = compare_depths([*unranked, *points], "mrr")
    assert [row.mean for row in result.rows] == pytest.approx([0, 0, 1, 1 / 6])
    assert result.best.depth == result.shallowest.depth == 20 and result.gain == 1
