"""The check-up against plain loops in float64, and the orders of queries."""

import math

import networkx
import numpy as np
import pytest
import torch

import engine
import engine.evaluation.studies.check_up as module
from engine.evaluation.studies.check_up import check_up, rank_by_gain
from support.instances import problem, unit
from support.rankings import queries_of, space_of

TOP_K = engine.Decoder(engine.make("top_k"))


def by_loops(vectors, rows, threshold):
    """(pairs, groups, ILAD) of one set, pair by pair."""
    cosine = {
        (i, j): float(np.dot(vectors[a], vectors[b])) for i, a in enumerate(rows) for j, b in enumerate(rows) if i < j
    }
    graph = networkx.Graph([pair for pair, value in cosine.items() if value >= threshold])
    spread = sum(1 - value for value in cosine.values()) / len(cosine) if cosine else math.nan
    return graph.number_of_edges(), networkx.number_connected_components(graph), spread


@pytest.mark.parametrize("family", ["random", "clustered", "duplicated", "degenerate"])
@pytest.mark.parametrize(("n", "k"), [(60, 10), (5, 10), (1, 3)])
def test_pairs_groups_and_ilad_are_those_of_a_loop(family, n, k):
    rows, points = problem(family, 3, n=n, d=8, batch=30)
    space, queries = space_of(rows), queries_of(points)
    checked = check_up(TOP_K, space, queries, k, threshold=0.8)
    vectors, sets = unit(rows.astype(np.float64)), engine.decode(TOP_K, space, queries, k)
    expected = [by_loops(vectors, sets.rows(query), 0.8) for query in range(len(queries))]
    assert [(p, g) for p, g in zip(checked.pairs, checked.groups, strict=True)] == [e[:2] for e in expected]
    np.testing.assert_allclose(checked.ilad, [e[2] for e in expected], atol=1e-12)
    assert checked.n_redundant == sum(pairs > 0 for pairs, _, _ in expected)


def test_similarities_are_of_the_rows_and_pads_have_none():
    rows, points = problem("clustered", 1, n=40, d=8, batch=12)
    checked = check_up(TOP_K, space_of(rows), queries_of(points), 6)
    vectors = unit(rows.astype(np.float64))
    for set_rows, similarity in zip(checked.rows, checked.similarity, strict=True):
        np.testing.assert_allclose(similarity, vectors[set_rows] @ vectors[set_rows].T, atol=1e-6)
    fewer = engine.Decoder(engine.make("nnn", l1=0.5, fill="strict"))
    short = check_up(fewer, space_of(rows), queries_of(points), 6)
    assert (short.rows < 0).any() and (np.isnan(short.similarity).all(2) == (short.rows < 0)).all()
    assert short.pairs[(short.rows >= 0).sum(1) < 2].sum() == 0


def test_the_most_redundant_query_comes_first():
    vectors = unit(np.array([[1, 0, 0], [1, 0.01, 0], [1, 0.02, 0], [0, 1, 0], [0, 1, 0.02], [0, 0, 1.0]]))
    points = torch.tensor([[0, 0, 1.0], [1.0, 0, 0], [0, 1.0, 0]])
    checked = check_up(TOP_K, space_of(vectors), queries_of(points), 3)
    assert checked.pairs.tolist() == [0, 3, 1] and checked.groups.tolist() == [0, 1, 1]
    assert checked.order == (1, 2, 0)
    assert checked.n_redundant == 2 and len(checked) == 3


@pytest.mark.parametrize("threshold", [-0.1, 1.1, math.nan])
def test_a_threshold_is_a_cosine(threshold):
    rows, points = problem("random", 0, n=10, d=4)
    with pytest.raises(engine.ParamError, match="threshold"):
        check_up(TOP_K, space_of(rows), queries_of(points), threshold=threshold)


def test_gains_are_differences_query_by_query_ties_by_ilad():
    rows, points = problem("clustered", 2, n=80, d=8, batch=25)
    space, queries, mmr = space_of(rows), queries_of(points), engine.Decoder(engine.make("mmr", relevance_weight=0.5))
    picks = [engine.decode(d, space, queries, 5).index.tolist() for d in (mmr, TOP_K)]
    relevant = {
        f"q{b}": {f"d{i}": 1 for i in rows_of[::2]} for b, rows_of in enumerate(picks[b % 2][b] for b in range(20))
    }
    qrels = engine.Qrels(relevant)
    order = rank_by_gain(mmr, TOP_K, space, queries, qrels, 5)
    vectors = unit(rows.astype(np.float64))

    def recall(set_rows, b):
        right = relevant.get(f"q{b}")
        return math.nan if right is None else len({f"d{i}" for i in set_rows} & right.keys()) / len(right)

    gains = [recall(picks[0][b], b) - recall(picks[1][b], b) for b in range(25)]
    spread = [by_loops(vectors, picks[0][b], 2)[2] - by_loops(vectors, picks[1][b], 2)[2] for b in range(25)]
    np.testing.assert_allclose(order.values, gains, atol=1e-12)
    keys = [(math.isnan(gains[b]), -np.nan_to_num(gains[b]), -round(spread[b], 9)) for b in order.positions]
    assert order.metric == "Recall" and keys == sorted(keys) and sorted(order.positions) == list(range(25))
    assert len({gain for gain in gains if gain == gain}) > 2
    unjudged = rank_by_gain(mmr, TOP_K, space, queries, None, 5)
    np.testing.assert_allclose(unjudged.values, spread, atol=1e-9)
    assert unjudged.metric == "ILAD" and unjudged.positions[0] == int(np.argmax(spread))


def test_check_up_decodes_all_queries_in_one_call(monkeypatch):
    calls = []

    def counted(decoder, space, queries, k):
        calls.append(len(queries))
        return engine.decode(decoder, space, queries, k)

    monkeypatch.setattr(module, "decode", counted)
    rows, points = problem("clustered", 5, n=60, d=16, batch=157)
    assert len(check_up(TOP_K, space_of(rows), queries_of(points))) == 157 and calls == [157]
