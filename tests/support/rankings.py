"""Spaces, queries and rankings made of plain rows."""

import torch

import engine


def space_of(vectors, texts=None):
    """A space of documents d0, d1, …, without texts where none are given."""
    ids = tuple(f"d{i}" for i in range(len(vectors)))
    return engine.Space(engine.Corpus(ids, texts or ("",) * len(ids)), engine.Embeddings(vectors, ids), "cpu")


def asked_of(vectors):
    """Queries q0, q1, … with these vectors."""
    return engine.Embeddings(vectors, tuple(f"q{b}" for b in range(len(vectors))))


def ranking_of(rows):
    """The ranking of these rows, −1 pads."""
    index = torch.tensor(rows)
    return engine.Ranking(index, torch.zeros(index.shape), ({},) * len(index))
