"""FISTA's steps against the minimiser, over queries: the figures of the chart, from ones that are easy to check."""

import numpy as np
import pytest

import engine
from support.instances import problem
from support.rankings import queries_of, space_of


@pytest.fixture
def data():
    rows, queries = problem("clustered", 4, n=120, d=12, batch=20)
    top = engine.select("nnn", rows, queries, k=2).index.tolist()
    qrels = engine.Qrels({f"q{b}": {f"d{i}": 1 for i in doc_rows if i >= 0} for b, doc_rows in enumerate(top)})
    return space_of(rows), queries_of(queries), qrels


def test_the_minimiser_comes_first_and_steps_approach_it(data):
    space, queries, qrels = data
    exact, *rows = engine.convergence(space, queries, qrels, 5, steps=(1, 10, 5000))
    assert exact.steps is None and exact.residual < 1e-12
    assert (exact.same_set, exact.same_order, exact.comp) == (1, 1, 1)
    assert [row.steps for row in rows] == [1, 10, 5000]
    assert rows[0].residual > rows[1].residual > rows[2].residual
    assert rows[2].same_set == 1 and rows[0].same_set < 1 and rows[2].comp == 1


def test_each_row_is_what_the_decoder_returns(data):
    space, queries, qrels = data
    rows = list(engine.convergence(space, queries, qrels, 3, l1=0.05, l2=0.3, steps=(7, 20)))
    exact = engine.decode(engine.Decoder(engine.make("nnn", l1=0.05, l2=0.3)), space, queries, k=3)
    for row in rows[1:]:
        stage = engine.make("nnn", l1=0.05, l2=0.3, solver="fista", iterations=row.steps)
        answer = engine.decode(engine.Decoder(stage), space, queries, k=3)
        pairs = list(zip(answer.index.tolist(), exact.index.tolist(), strict=True))
        assert row.same_set == pytest.approx(np.mean([set(a) == set(b) for a, b in pairs]))
        assert row.same_order == pytest.approx(np.mean([a == b for a, b in pairs]))
        assert row.support == pytest.approx(np.mean([i["support"] for i in answer.info]))
        assert row.comp == pytest.approx(engine.measure(answer, space, queries, qrels, 3, ("comp",)).mean["comp"])


def test_without_judgements_there_is_no_comp(data):
    space, queries, _ = data
    assert all(row.comp is None for row in engine.convergence(space, queries, steps=(2,)))


@pytest.mark.parametrize("steps", [(), (0,), (1.5,), (True,)])
def test_steps_are_whole_numbers(data, steps):
    with pytest.raises(engine.ParamError, match="steps must be whole numbers"):
        engine.convergence(data[0], data[1], steps=steps)
