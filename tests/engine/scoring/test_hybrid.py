"""Hybrid: the formula over the union, written down again, document by document; its two ends are its two parts."""

from itertools import product

import numpy as np
import pytest
import torch

import engine
from engine.space import QueryBatch
from support.bm25_cases import make_cases
from support.bm25_oracle import bm25
from support.instances import problem, unit
from support.rankings import space_of


def setting(seed, d=5):
    """(space, batch) with texts and vectors that have nothing to do with each other, twins among both."""
    texts, queries = make_cases(seed)
    vectors, points = problem("duplicated", seed, n=len(texts), d=d, batch=len(queries), dtype=np.float64)
    return space_of(vectors, texts), QueryBatch(
        tuple(map(str, range(len(queries)))), torch.tensor(points), tuple(queries)
    )


def best(scores, count):
    return sorted(range(len(scores)), key=lambda i: (-scores[i], i))[:count]


def scaled(values, how):
    if how == "none":
        return values
    if max(values) == min(values):
        return [0.0] * len(values)
    if how == "min-max":
        return [(v - min(values)) / (max(values) - min(values)) for v in values]
    mean = sum(values) / len(values)
    spread = (sum((v - mean) ** 2 for v in values) / len(values)) ** 0.5
    return [(v - mean) / spread for v in values]


def oracle(dense, sparse, weight, combination, how, constant, union):
    """The score of every row: the union's, and below it those of the others."""
    rows = sorted({*best(dense, union), *(i for i in best(sparse, union) if sparse[i] > 0)})
    inside = mixed(dense, sparse, rows, weight, combination, how, constant)
    low, high = min(inside.values()), max(inside.values())
    gap = high - low if high > low else 1
    if rest := [i for i in range(len(dense)) if i not in inside]:
        below = mixed(dense, sparse, rest, weight, combination, how, constant)
        places = scaled(list(below.values()), "min-max")
        inside |= {i: low - gap * (2 - place) for i, place in zip(below, places, strict=True)}
    return [inside[i] for i in range(len(dense))]


def mixed(dense, sparse, rows, weight, combination, how, constant):
    """Row → its score among these rows."""
    d, s = [dense[i] for i in rows], [sparse[i] for i in rows]
    if combination == "rrf":
        d, s = ([1 / (constant + 1 + sum(other > v for other in part)) for v in part] for part in (d, s))
        s = [value if sparse[i] > 0 else 0 for i, value in zip(rows, s, strict=True)]
    else:
        d, s = scaled(d, how), scaled(s, how)
    return {i: weight * x + (1 - weight) * y for i, x, y in zip(rows, d, s, strict=True)}


@pytest.mark.parametrize(
    "combination,how", [("linear", "min-max"), ("linear", "z-score"), ("linear", "none"), ("rrf", "none")]
)
def test_every_score_is_that_of_the_formula(combination, how):
    for seed in range(2):
        space, batch = setting(seed)
        # The twins of a row tie exactly in one sum over the row, not in a matrix product.
        dense = (space.vectors.unsqueeze(0) * batch.vectors.unsqueeze(1)).sum(2)
        sparse = bm25(space.corpus.passages, batch.texts, k1=1.2, b=0.6)
        sparse = torch.tensor(sparse, dtype=torch.float32).tolist()
        constant = 60 if seed else 1
        kind = {"combination": combination, "normalisation": how, "rrf_constant": constant, "k1": 1.2, "b": 0.6}
        for weight, union in product((0.0, 0.3, 1.0), (1, 7, 500)):
            found = engine.make("hybrid", dense_weight=weight, union=union, **kind).score(space, batch)
            assert torch.isfinite(found).all()
            for b in range(len(batch)):
                expected = oracle(dense[b].tolist(), sparse[b], weight, combination, how, constant, union)
                np.testing.assert_allclose(found[b], expected, rtol=1e-4, atol=1e-5)


def test_its_ends_are_its_parts():
    space, batch = setting(7)
    asked = engine.Embeddings(batch.ids, batch.vectors, texts=batch.texts)

    def found(scorer, **params):
        decoder = engine.Decoder(engine.make("top_k"), engine.make(scorer, **params))
        return engine.decode(decoder, space, asked, k=6)

    for combination in ("linear", "rrf"):
        ends = {"combination": combination, "union": 10}
        assert torch.equal(found("hybrid", dense_weight=1.0, **ends).index, found("dense").index)
        own, words = found("hybrid", dense_weight=0.0, **ends), found("bm25")
        for b in range(len(batch)):
            matched = int((words.gain[b] > 0).sum())
            assert own.index[b, :matched].tolist() == words.index[b, :matched].tolist()


def test_one_query_scores_as_it_does_among_others():
    (space, batch), stage = setting(4), engine.make("hybrid", union=9)
    alone = [stage.score(space, batch.block(b, b + 1)) for b in range(len(batch))]
    assert torch.equal(torch.cat(alone), stage.score(space, batch))


def test_raw_scores_have_a_grid_of_their_own():
    """With raw scores an even grid has nothing between BM25 alone and dense alone."""
    raw = [d.retrieve.dense_weight for d in engine.grid("hybrid", normalisation="none")]
    assert raw[0] == 0 and raw[-1] == 1 and len(raw) == 11 and sum(0.9 <= w < 1 for w in raw) >= 6
    assert [d.retrieve.dense_weight for d in engine.grid("hybrid")] == [round(i / 10, 1) for i in range(11)]
    rng = np.random.default_rng(0)
    texts = [" ".join(f"w{i}" for i in rng.integers(0, 200, 30)) for _ in range(60)]
    space = space_of(unit(rng.standard_normal((60, 24)) + 2), texts)
    points = torch.from_numpy(unit(rng.standard_normal((5, 24)) + 2))
    queries = engine.Embeddings(tuple("abcde"), points, texts=tuple(f"w{i} w{i + 1} w{i + 7}" for i in range(5)))

    def answers(decoders):
        return {tuple(engine.decode(d, space, queries, 5).index.flatten().tolist()) for d in decoders}

    even = [
        engine.Decoder(engine.make("top_k"), engine.make("hybrid", normalisation="none", dense_weight=i / 10))
        for i in range(11)
    ]
    assert len(answers(engine.grid("hybrid", normalisation="none"))) > len(answers(even))
