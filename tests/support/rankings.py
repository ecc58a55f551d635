"""Spaces, queries and rankings made of plain rows."""

from dataclasses import dataclass

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
