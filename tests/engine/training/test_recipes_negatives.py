"""What projections are trained with: the loss, its gradient and its negatives, against plain loops."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import engine
from engine.progress import report_to
from engine.training.adapters import Adapters
from engine.training.dataset import gather_samples
from engine.training.loop import generator_of
from engine.training.projections import Heads, Projection
from engine.training.recipes import make_recipe
from engine.training.recipes.projection import Negatives, Projected, SampledSoftmax, find_hardest
from support.bm25_oracle import bm25
from support.instances import random_rows, unit
from support.random_texts import corpus_of, space_of
from support.training import PROJECTED, StopAfter, restrict, samples_of

RELEVANT = ((0, 1), (1, 2), (3,), (0, 4, 5))


def random_model(vectors, n=9, d=5, k=3):
    rng = np.random.default_rng(0)
    rows, queries = (torch.from_numpy(random_rows(rng, count, d)) for count in (n, len(RELEVANT)))
    shapes = (k, d), (k, d) if vectors is None else (vectors, k, d)
    sides = [Projection(*(torch.from_numpy(rng.standard_normal(s)) for s in (shape, shape[:-1]))) for shape in shapes]
    heads = Heads(*sides)
    samples = samples_of(queries, RELEVANT)
    return samples, Projected(Adapters(heads=heads), heads, queries, rows)


# The loss


@pytest.mark.parametrize("in_batch", [True, False])
@pytest.mark.parametrize("vectors", [None, 1, 3])
def test_the_loss_is_that_of_the_formula(vectors, in_batch):
    samples, model = random_model(vectors)
    recipe = make_recipe("dual_encoder", tau=0.3, in_batch=in_batch)
    objective = SampledSoftmax(model, recipe, Negatives(RELEVANT, 9, None, 3, 0))
    objective.begin(generator_of(0, 0))
    positives = [0, 3, 1]
    result = objective(samples.batch(torch.tensor(positives))).values.detach().numpy()

    w, b = (p.detach().numpy() for p in model.heads.corpus.parameters())
    a, c = (p.detach().numpy() for p in model.heads.query.parameters())
    rows, queries = model.rows.numpy(), model.queries.numpy()
    w, b = w.reshape(-1, *w.shape[-2:]), b.reshape(-1, b.shape[-1])

    def score(i, j):
        return max(unit(a @ queries[i] + c) @ unit(w_j @ rows[j] + b_j) for w_j, b_j in zip(w, b, strict=True))

    negatives = objective.drawn.tolist()
    everything = {j for i in positives for j in (*RELEVANT[i], *negatives[i])}
    for i, value in zip(positives, result, strict=True):
        wrong = (everything if in_batch else set(negatives[i])) - set(RELEVANT[i])
        against = sum(np.exp(score(i, j) / 0.3) for j in wrong)
        right = [np.exp(score(i, j) / 0.3) for j in RELEVANT[i]]
        assert value == pytest.approx(-np.mean([np.log(s / (s + against)) for s in right]), rel=1e-10)


@pytest.mark.parametrize("vectors", [None, 3])
def test_the_loss_differentiates(vectors):
    samples, model = random_model(vectors)
    objective = SampledSoftmax(model, make_recipe("dual_encoder", in_batch=False), Negatives(RELEVANT, 9, None, 3, 0))
    objective.begin(generator_of(0, 0))
    batch, parameters = samples.batch(torch.arange(4)), tuple(model.parameters())
    # It moves the parameters themselves.
    assert len(parameters) == 4 and torch.autograd.gradcheck(lambda *_: objective(batch).values, parameters)
    objective(batch).values.sum().backward()
    assert all(float(p.grad.norm()) > 1e-6 for p in parameters)


# Negatives


@pytest.fixture(scope="module")
def words():
    """Texts of a few words of twelve, some shared by nearly all."""
    rng = np.random.default_rng(3)
    texts = [" ".join(f"w{int(w * w / 12)}" for w in rng.integers(12, size=rng.integers(1, 9))) for _ in range(30)]
    texts_asked = [" ".join(f"w{w}" for w in rng.integers(11, size=3)) for _ in range(12)] + ["nothing known"]
    space = space_of(corpus_of(texts), torch.from_numpy(random_rows(rng, 30, 4)).float())
    ids = tuple(f"q{i}" for i in range(13))
    queries = engine.Embeddings(ids, torch.from_numpy(random_rows(rng, 13, 4)).float(), None, tuple(texts_asked))
    grades = {q: {f"d{int(j)}": 1 for j in rng.permutation(30)[:4]} for q in ids}
    splits = {
        "train": restrict(engine.Qrels(grades), ids[1:]),
        "dev": restrict(engine.Qrels(grades), ids[:1]),
    }
    return space, queries, splits, gather_samples(space, queries, splits, "train", "dev")


def test_hard_negatives_are_the_best_that_are_irrelevant(words, monkeypatch):
    space, _, _, samples = words
    scores = np.asarray(bm25(space.corpus.texts, samples.train.texts))
    result = find_hardest(samples, 7)
    assert result.shape == (12, 7)
    for row, score, relevant in zip(result.tolist(), scores, samples.relevant, strict=True):
        wrong = [j for j in range(30) if j not in relevant and score[j] > 0]
        best = sorted(wrong, key=lambda j: (-round(float(score[j]), 5), j))[:7]
        assert row == best + [-1] * (7 - len(best))
    best_of_all = scores.argmax(1)
    assert any(j in relevant for j, relevant in zip(best_of_all, samples.relevant, strict=True)), (
        "some best one is relevant"
    )
    assert result[-1].tolist() == [-1] * 7 and (result[0] >= 0).all()
    calls = []
    monkeypatch.setattr("engine.training.recipes.projection.BLOCK_NUMBERS", 100)
    with report_to(lambda *args: calls.append(args)):
        assert find_hardest(samples, 7).equal(result)
    assert [done for done, *_ in calls] == [0, 3, 6, 9, 12]
    assert find_hardest(samples, 99).shape == (12, 30)
    with report_to(stop=StopAfter(0)), pytest.raises(engine.Cancelled):
        find_hardest(samples, 7)


def test_negatives_are_irrelevant_and_drawn_anew(words):
    samples = words[-1]
    pool = find_hardest(samples, 5)
    negatives = Negatives(samples.relevant, 30, pool, 40, 3)
    epochs = [negatives.draw(generator_of(0, epoch)) for epoch in range(30)]
    assert epochs[0].equal(negatives.draw(generator_of(0, 0))) and not epochs[0].equal(epochs[1])
    for query, relevant in enumerate(samples.relevant):
        uniform = torch.cat([e[query, :40] for e in epochs])
        assert set(uniform.tolist()) == set(range(30)) - set(relevant)
        # 1200 draws from 26 documents: 46 each, give or take 7.
        assert 20 < int(uniform.bincount(minlength=30)[uniform].min()) <= int(uniform.bincount().max()) < 80
        hard = [[j for j in e[query, 40:].tolist() if j >= 0] for e in epochs]
        pooled = {j for j in pool[query].tolist() if j >= 0}
        assert set().union(*hard) == pooled and all(len(set(h)) == len(h) == min(3, len(pooled)) for h in hard)
    assert Negatives(((0, 1),), 2, None, 3, 0).draw(generator_of(0, 0)).tolist() == [[-1, -1, -1]]
    assert Negatives(((0,), (1,)), 2, None, 1, 0).draw(generator_of(0, 0)).tolist() == [[1], [0]]


def test_words_that_are_not_known_are_refused_and_other_words_are_another_run(data, tmp_path):
    space, queries, qrels = data
    bare = replace(queries, texts=None)
    with pytest.raises(engine.DataError, match=r"hard .*reads the queries' words.*hard=0"):
        engine.train("dual_encoder", space, bare, qrels, **PROJECTED)
    path = tmp_path / "run.safetensors"
    options = {**PROJECTED, "epochs": 1}
    engine.train("dual_encoder", space, queries, qrels, checkpoint=path, **options)
    retexted = replace(queries, texts=[f"{text} !" for text in queries.texts])
    with pytest.raises(engine.DataError, match="does not fit: texts of the queries"):
        engine.train("dual_encoder", space, retexted, qrels, checkpoint=path, **options)
    none = {**options, "hard": 0}
    first, second = (engine.train("dual_encoder", space, q, qrels, **none) for q in (bare, queries))
    assert first.digest == second.digest
