"""Spaces, queries and rankings made of plain rows."""

from dataclasses import dataclass

import numpy as np
import torch

import engine
from engine import stages


def space_of(vectors, texts=None, titles=(), encoder=None):
    """Make a space of documents d0, d1, …, by default without texts; every third has the same "source"."""
    ids = tuple(f"d{i}" for i in range(len(vectors)))
    metadata = {"source": tuple(str(i % 3) for i in range(len(ids)))}
    corpus = engine.Corpus(ids, ("",) * len(ids) if texts is None else tuple(texts), tuple(titles), metadata=metadata)
    return engine.Space(corpus, engine.Embeddings(ids, torch.as_tensor(vectors), encoder), "cpu")


def queries_of(points, encoder=None):
    """Make queries q0, q1, … of these vectors."""
    return engine.Embeddings(tuple(f"q{i}" for i in range(len(points))), points, encoder)


def backwards(patch):
    """Register a scorer that prefers high rows, while `patch`, a MonkeyPatch, holds; no inner products."""
    patch.setattr(stages, "_SPECS", dict(stages.methods()))

    @stages.register("backwards", title="Backwards", paper="nobody", equation="i", cost="n")
    @dataclass(frozen=True)
    class Backwards(stages.Scorer):
        """The row's number."""

        def score(self, space, queries, rows=None):
            every = torch.arange(len(space)).expand(len(queries), -1) if rows is None else rows
            return every.double()

    return engine.make("backwards")


def ranking_of(rows):
    """Make the ranking of these rows, −1 pads."""
    index = torch.tensor(rows)
    return engine.Ranking(index, torch.zeros(index.shape), ({},) * len(index))


def random_rows(rng, batch, n, k):
    """Draw (batch, k) rows without repetition; some queries got fewer, one a single document and one none."""
    rows = np.stack([rng.permutation(n)[:k] for _ in range(batch)])
    for b in range(0, batch, 3):
        rows[b, rng.integers(1, k) :] = -1
    rows[1, 1:] = -1
    rows[2] = -1
    return rows


def random_aspects(rng, ids, n):
    """Draw up to six overlapping aspects a query, of the corpus and of ten documents it lacks; one query has none."""
    return {
        q: {str(a): frozenset(f"d{i}" for i in rng.permutation(n + 10)[: rng.integers(1, 9)]) for a in range(n_aspects)}
        for q in ids[1:]
        if (n_aspects := int(rng.integers(1, 7)))
    }
