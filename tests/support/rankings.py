"""Spaces and rankings made of plain rows, for tests of metrics."""

import torch

import engine


def space_of(vectors):
    """A space of documents d0, d1, … without texts."""
    ids = tuple(f"d{i}" for i in range(len(vectors)))
    return engine.Space(engine.Corpus(ids, ("",) * len(ids)), engine.Embeddings(torch.tensor(vectors), ids), "cpu")


def ranking_of(rows):
    """The ranking of these rows, −1 pads."""
    index = torch.tensor(rows)
    return engine.Ranking(index, torch.zeros(index.shape), ({},) * len(index))
