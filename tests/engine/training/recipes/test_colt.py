"""COLT's graphs, views and losses against dense matrices written out; and what becomes of queries it never saw."""

import numpy as np
import pytest
import torch

import engine
from engine.training.adapters import Adapters
from engine.training.loop import generator_of
from engine.training.recipes.colt import ColtRecipe, Graphs, ListAndContrast
from support.instances import random_rows, unit
from support.training import plant, samples_of

RELEVANT = ((0, 1), (1, 2), (0, 1), (3,), (0, 4, 5))
DOCUMENTS, D = 7, 5


def graphs(depth=2):
    rng = np.random.default_rng(0)
    q, t = random_rows(rng, len(RELEVANT), D), random_rows(rng, DOCUMENTS, D)
    samples = samples_of(torch.from_numpy(q), RELEVANT)
    vectors = (torch.from_numpy(part) for part in (q, q[:2], t))
    return samples, Graphs(samples, *vectors, depth, Adapters()), q, t


def propagate(edges, q, right, depth):
    """H₀ + Σ H_l/|H_l| with H_l = D^−½ A D^−½ H_{l−1}, dense."""
    n = len(q) + len(right)
    adjacency = np.zeros((n, n))
    for a, b in edges:
        adjacency[a, len(q) + b] = adjacency[len(q) + b, a] = 1
    root = np.diag([1 / np.sqrt(d) if d else 0 for d in adjacency.sum(1)])
    layer = total = np.vstack([q, right])
    for _ in range(depth):
        layer = root @ adjacency @ root @ layer
        total = total + unit(layer)
    return total[: len(q)], total[len(q) :]


SCENES = {(0, 1): 0, (1, 2): 1, (3,): 2, (0, 4, 5): 3}
MEANS = np.array([[(j in s) / len(s) for j in range(DOCUMENTS)] for s in SCENES])


@pytest.mark.parametrize("depth", [1, 3])
def test_views_are_those_of_the_formulas(depth):
    _, model, q, t = graphs(depth)
    judged = [(i, j) for i, relevant in enumerate(RELEVANT) for j in relevant]
    staged = [(i, SCENES[relevant]) for i, relevant in enumerate(RELEVANT)]
    q1, t1 = propagate(judged, q, t, depth)
    q2, s2 = propagate(staged, q, MEANS @ t, depth)
    for mine, theirs in zip(model.views(), (q1, t1, MEANS @ t1, q2, s2), strict=True):
        assert np.abs(mine.detach().numpy() - theirs).max() < 1e-12
    assert np.abs(model.encode_corpus().numpy() - unit(t1)).max() < 1e-12
    assert np.abs(t1[6] - t[6]).max() == 0, "a document that no query needs keeps its vector"


def test_the_loss_is_that_of_the_formulas():
    samples, model, *_ = graphs()
    recipe = ColtRecipe(listed=DOCUMENTS, contrast=0.3, dropout=0.0, tau=0.2)
    objective = ListAndContrast(model, recipe)
    objective.begin(generator_of(0, 0))
    batch = samples.batch(torch.tensor([0, 3, 4, 2]))
    result = objective(batch).values.detach().numpy()
    q1, t1, s1, q2, s2 = (unit(view.detach().numpy()) for view in model.views())

    def contrast_of(first, second):
        score = first @ second.T / 0.2
        return -np.log(np.exp(np.diag(score)) / np.exp(score).sum(1))

    relevant = [0, 3, 4, 2]
    scenes = sorted({SCENES[RELEVANT[i]] for i in relevant})
    query_loss, scene_loss = contrast_of(q1[relevant], q2[relevant]), contrast_of(s1[scenes], s2[scenes]).mean()
    for i, value, contrast in zip(relevant, result, query_loss, strict=True):
        score = (q1[i] + q2[i]) @ t1.T
        p = np.exp(score) / np.exp(score).sum()
        y = np.array([(j in RELEVANT[i]) / len(RELEVANT[i]) for j in range(DOCUMENTS)])
        fit = -(y * np.log(p) + (1 - y) * np.log(1 - p)).mean()
        assert value == pytest.approx(fit + 0.3 * (contrast + scene_loss) / 2, rel=1e-9)


def test_lists_hold_the_relevant_documents_first_and_others_once():
    samples, model, *_ = graphs()
    objective = ListAndContrast(model, ColtRecipe(listed=5))
    objective.begin(generator_of(0, 0))
    seen = set()
    for _ in range(20):
        listed, right = objective.draw_lists(samples.batch(torch.arange(5)), DOCUMENTS)
        assert listed.shape == (5, 5)
        for row, hit, relevant in zip(listed.tolist(), right.tolist(), RELEVANT, strict=True):
            assert len(set(row)) == 5 and set(row[: len(relevant)]) == set(relevant)
            assert hit == [1.0] * len(relevant) + [0.0] * (5 - len(relevant))
        seen |= set(listed[3, 1:].tolist())
    assert seen == set(range(DOCUMENTS)) - {3}


def test_other_edges_are_left_out_every_epoch():
    _, model, *_ = graphs()
    full, rows = model.full[0].to_dense(), model.encode_corpus()
    kept_edges = []
    for epoch in range(30):
        model.drop(0.5, generator_of(0, epoch))
        part = model.graphs[0].to_dense()
        assert part.equal(part.T) and ((part > 0) <= (full > 0)).all()
        kept_edges.append(int((part > 0).sum()) / int((full > 0).sum()))
    assert 0.3 < np.mean(kept_edges) < 0.7 and len(set(kept_edges)) > 3
    assert model.full[0].to_dense().equal(full) and model.encode_corpus().equal(rows)


def test_it_yields_a_corpus_matrix_and_leaves_queries_alone():
    space, queries, qrels = plant(n=30, d=8, train=80, dev=20)
    result = engine.train("colt", space, queries, qrels, epochs=2, batch=32, rate=1e-2)
    assert result.queries(queries).vectors.equal(queries.vectors)
    moved = 1 - (result.space.embeddings.vectors * space.embeddings.vectors).sum(1)
    assert float(moved.max()) > 1e-3 and result.decoder == engine.Decoder(engine.make("top_k"))
    assert np.allclose(result.space.embeddings.vectors.norm(dim=1), 1, atol=1e-6)
