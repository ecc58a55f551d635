"""Texts of random words, and queries for them."""

import numpy as np
import torch

import engine

WORDS = [f"w{i}" for i in range(60)]


def make_texts(seed=0, n=40, queries=12):
    """Make a corpus of random words, some texts twice, one empty; and queries."""
    rng = np.random.default_rng(seed)
    chance = 1 / np.arange(1, len(WORDS) + 1)
    texts = [" ".join(rng.choice(WORDS, rng.integers(3, 40), p=chance / chance.sum())) for _ in range(n)]
    texts[3], texts[5] = texts[4], ""
    query_texts = [" ".join(rng.choice(WORDS, rng.integers(2, 7), replace=False)) for _ in range(queries)]
    return corpus_of(texts), engine.Queries.of([*query_texts, "nothing known here"])


def corpus_of(texts, titles=()):
    return engine.Corpus(tuple(f"d{i}" for i in range(len(texts))), tuple(texts), tuple(titles))


def space_of(corpus, rows):
    """Make a Space of a corpus and its precomputed vectors."""
    return engine.Space(corpus, engine.Embeddings(corpus.ids, torch.as_tensor(rows)), "cpu")
