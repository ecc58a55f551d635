"""FISTA's steps against the minimiser, over queries: the figures of the chart, from ones that are easy to check."""

import numpy as np
import pytest
import torch

import engine
from support.instances import problem


@pytest.fixture
def asked():
    rows, queries = problem("clustered", 4, n=120, d=12, batch=20)
    ids = tuple(f"d{i}" for i in range(120))
    space = engine.Space(engine.Corpus(ids, ids), engine.Embeddings(torch.tensor(rows), ids), "cpu")
    names = tuple(f"q{i}" for i in range(20))
    top = engine.select("nnn", rows, queries, k=2).index.tolist()
    qrels = engine.Qrels({q: {ids[i]: 1 for i in found if i >= 0} for q, found in zip(names, top, strict=True)})
    return space, engine.Embeddings(torch.tensor(queries), names), qrels


def test_the_minimiser_comes_first_and_steps_approach_it(asked):
    space, queries, qrels = asked
    exact, *rows = engine.convergence(space, queries, qrels, 5, steps=(1, 10, 5000))
    assert exact.steps is None and exact.residual < 1e-12
    assert (exact.same_set, exact.same_order, exact.comp) == (1, 1, 1)
    assert [row.steps for row in rows] == [1, 10, 5000]
    assert rows[0].residual > rows[1].residual > rows[2].residual
    assert rows[2].same_set == 1 and rows[0].same_set < 1 and rows[2].comp == 1


def test_each_row_is_what_the_decoder_returns(asked):
    space, queries, qrels = asked
    rows = list(engine.convergence(space, queries, qrels, 3, l1=0.05, l2=0.3, steps=(7, 20)))
    exact = engine.decode(engine.Decoder(engine.make("nnn", l1=0.05, l2=0.3)), space, queries, k=3)
    for row in rows[1:]:
        stage = engine.make("nnn", l1=0.05, l2=0.3, solver="fista", iterations=row.steps)
        answer = engine.decode(engine.Decoder(stage), space, queries, k=3)
        same = [set(a.tolist()) == set(b.tolist()) for a, b in zip(answer.index, exact.index, strict=True)]
        order = [a.tolist() == b.tolist() for a, b in zip(answer.index, exact.index, strict=True)]
        assert (row.same_set, row.same_order) == pytest.approx((np.mean(same), np.mean(order)))
        assert row.support == pytest.approx(np.mean([i["support"] for i in answer.info]))
        assert row.comp == pytest.approx(engine.measure(answer, space, queries, qrels, 3, ("comp",)).mean["comp"])


def test_without_judgements_there_is_no_comp(asked):
    space, queries, _ = asked
    assert all(row.comp is None for row in engine.convergence(space, queries, steps=(2,)))


@pytest.mark.parametrize("steps", [(), (0,), (1.5,), (True,)])
def test_steps_are_whole_numbers(asked, steps):
    with pytest.raises(engine.ParamError, match="steps must be whole numbers"):
        engine.convergence(asked[0], asked[1], steps=steps)
