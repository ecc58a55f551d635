"""Spaces, queries and rankings made of plain rows."""

import torch

import engine


def space_of(vectors, texts=None, titles=(), encoder=None):
    """A space of documents d0, d1, …, without texts unless they are given."""
    ids = tuple(f"d{i}" for i in range(len(vectors)))
    corpus = engine.Corpus(ids, ("",) * len(ids) if texts is None else tuple(texts), tuple(titles))
    return engine.Space(corpus, engine.Embeddings(ids, torch.as_tensor(vectors), encoder), "cpu")


def queries_of(points, encoder=None):
    """Queries q0, q1, … of these vectors."""
    return engine.Embeddings(tuple(f"q{i}" for i in range(len(points))), points, encoder)


def ranking_of(rows):
    """The ranking of these rows, −1 pads."""
    index = torch.tensor(rows)
    return engine.Ranking(index, torch.zeros(index.shape), ({},) * len(index))
