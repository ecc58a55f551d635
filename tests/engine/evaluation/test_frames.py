"""Frames of several results: cells, comparisons, paths, rankings, the moments of a history."""

import numpy as np
import pytest

import engine
from support.instances import random_rows


@pytest.fixture(scope="module")
def points():
    """Cells of two settings on three queries."""
    rows = random_rows(np.random.default_rng(0), 15, 4)
    space = engine.Space.of([f"text {row}" for row in range(12)], rows[:12])
    qrels = engine.Qrels({str(query): {str(3 * query): 1, str(query + 5): 1} for query in range(3)})
    queries = engine.Embeddings(("0", "1", "2"), rows[12:])
    return list(engine.sweep(engine.grid("mmr", 2), space, queries, qrels, 3, ("recall", "ilad"), split="dev"))


def test_cells_have_a_row_each_and_per_query_one_for_every_query(points):
    frame = engine.to_frame(points)
    assert frame["label"].tolist() == [point.label for point in points]
    assert frame["recall"].tolist() == [point.mean["recall"] for point in points]
    by_query = engine.to_frame(points, per_query=True)
    values = by_query[by_query["metric"] == "recall"].groupby("label", observed=True)["value"].mean()
    assert values[points[1].label] == pytest.approx(points[1].mean["recall"])


def test_several_results_are_joined_with_their_place(points):
    vectors, queries = np.eye(4), np.array([[0.9, 0.4, 0.1, 0.0], [0.0, 0.1, 0.4, 0.9]])
    paths = engine.path("mmr", vectors, queries, k=2)
    frame = engine.to_frame(paths)
    assert frame["query"].unique().tolist() == [0, 1]
    for query, path in enumerate(paths):
        middle = (path.to_frame()["low"] + path.to_frame()["high"]).iloc[0] / 2
        rows = frame[(frame["query"] == query) & (frame["low"] <= middle) & (frame["high"] > middle)]
        assert rows["row"].tolist() == path.at(middle).rows()
    grid = [{"relevance_weight": 1.0}, {"relevance_weight": 0.0}]
    rankings = engine.select_grid("mmr", vectors, queries, k=2, grid=grid)
    assert engine.to_frame(rankings)["setting"].tolist() == [0] * 4 + [1] * 4
    comparisons = engine.compare(points, "recall", points[0].label, 3)
    assert engine.to_frame(comparisons)["p_holm"].tolist() == [row.p_holm for row in comparisons]


def test_kinds_that_differ_or_have_no_table_are_refused(points):
    ranking = engine.select("mmr", np.eye(3), np.ones(3), k=2)
    with pytest.raises(engine.DataError, match=r"results of one kind with a to_frame\(\); got Cell and Ranking"):
        engine.to_frame([points[0], ranking])
    with pytest.raises(engine.DataError, match="; got int"):
        engine.to_frame(3)
    with pytest.raises(engine.DataError, match="per_query=True is for cells"):
        engine.to_frame(ranking, per_query=True)
    assert engine.to_frame([]).empty
