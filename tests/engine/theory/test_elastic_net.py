"""What the NNN paper proves, checked by solving: Theorem 1's witness, Proposition 1, and FISTA's bound."""

import numpy as np
import pytest
import torch

import engine
from engine.theory.elastic_net import Outlook
from support.instances import few_or_all, problem, unit
from support.random_texts import corpus_of, space_of


@few_or_all(range(40), range(200), quick=16)
def test_the_witness_makes_the_support_exactly_the_top_k(seeds):
    """Theorem 1; the weights are tiny, so this needs float64 and an exact zero."""
    proven = 0
    for seed in seeds:
        rows, queries = problem("random" if seed % 2 else "clustered", seed, n=30, d=8, batch=1, dtype=np.float64)
        k = 1 + seed % 6
        try:
            found = engine.witness(rows, queries[0], k)
        except engine.ParamError:
            continue
        top = engine.select("top_k", rows, queries[0], k=k).index[0].sort().values.tolist()
        answer = engine.select("nnn", rows, queries[0], k=30, l1=found.l1, l2=found.l2)
        support = sorted(i for i in answer.index[0].tolist() if i >= 0)
        assert support == top == list(found.rows) and answer.info[0]["certified"]
        assert found.l2 >= 3 * k - 1
        proven += 1
    assert proven > 0.75 * len(seeds)


def test_the_witness_needs_a_gap_above_zero_and_unit_vectors():
    rows = np.array([[1.0, 0], [1, 0], [0, 1]])
    for vectors, query, k, error, message in (
        (rows, [1.0, 0], 1, engine.ParamError, "k must split the scores"),
        (rows, [1.0, 0], 3, engine.ParamError, "choose another k"),
        (2 * rows, [1.0, 0], 2, engine.DataError, "vectors must be of unit length; one is 2"),
        (rows, [2.0, 0], 2, engine.DataError, "query must be of unit length"),
    ):
        with pytest.raises(error, match=message):
            engine.witness(vectors, query, k=k)
    assert engine.witness(rows, [1.0, 0], k=2).rows == (0, 1)


@pytest.mark.parametrize("l1", [1e-6, 0.01, 0.1, 0.2, 0.3, 1 / 3 - 1e-6])
def test_a_ranking_by_score_cannot_find_what_the_elastic_net_finds(l1):
    """Proposition 1: the support is {2, 3} with the weights of the proof, though row 1 scores above row 3."""
    example = engine.counterexample(l1)
    answer = engine.select("nnn", example.vectors, example.query, k=3, l1=l1, l2=0)
    assert answer.index[0].tolist() == [1, 2, -1] == [*example.support, -1]
    assert answer.gain[0, :2].tolist() == pytest.approx(example.weights, abs=1e-12)
    assert example.scores[0] > example.scores[2]
    top = engine.select("top_k", example.vectors, example.query, k=2).index[0].tolist()
    assert sorted(top) != list(example.support)


@pytest.mark.parametrize("l1", [0, 1 / 3, -1, float("nan"), "much", True])
def test_the_counterexample_names_its_range(l1):
    with pytest.raises(engine.ParamError, match=r"l1 \(λ₁\) must be a number in \(0, 1/3\)"):
        engine.counterexample(l1)


def test_the_outlook_bounds_what_steps_reach():
    rows = unit(np.random.default_rng(0).standard_normal((60, 12)) + 1.5)
    query = unit(rows[:1] + 0.3 * rows[1:2])[0]
    view = engine.outlook(rows, 0.1)
    assert view.spectrum == pytest.approx(np.linalg.eigvalsh(rows @ rows.T)[-1])
    assert view.common == pytest.approx(np.square(rows.mean(0)).sum()) and view.spectrum >= 60 * view.common
    assert view.step == pytest.approx(1 / (view.spectrum + 0.1))

    def objective(answer):
        weights = np.zeros(60)
        kept = answer.index[0] >= 0
        weights[answer.index[0][kept].numpy()] = answer.gain[0][kept].numpy()
        left = query - rows.T @ weights
        return left @ left / 2 + 0.01 * weights.sum() + 0.05 * weights @ weights, np.linalg.norm(weights)

    least, length = objective(engine.select("nnn", rows, query, k=60, l1=0.01, l2=0.1))
    for steps in (1, 3, 10, 40):
        rough = engine.select("nnn", rows, query, k=60, l1=0.01, l2=0.1, solver="fista", iterations=steps)
        assert 0 <= objective(rough)[0] - least + 1e-12 <= view.gap(length, steps)
        assert view.gap(length, view.steps(length, 1e-3)) <= 1e-3


def test_the_outlook_of_a_space_is_that_of_its_vectors():
    rows = torch.tensor(problem("clustered", 3, n=40, d=9)[0])
    space = space_of(corpus_of("a" * 40), rows)
    assert engine.outlook(space, 0.2) == engine.outlook(rows, 0.2)
    assert isinstance(engine.outlook(space), Outlook)
