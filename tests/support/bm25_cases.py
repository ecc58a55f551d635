"""Texts that BM25 must take, hostile ones among them, and the scores it gives them."""

import numpy as np
import torch

import engine
from engine.space import QueryBatch
from support import rankings

HOSTILE = (
    "<script>alert(1)</script> ![x](http://x.invalid/y) $\\LaTeX$",
    "'; DROP TABLE docs; -- \x00\x1b[31m\u202e",
    "\ud83d lone surrogate",
    "ΣΊΣΥΦΟΣ Straße İstanbul naïve naïve e\u0301 ﬁne ２０２６ 中文字 עברית 🙂🙂",
    "a_b _ __ a-b 3.14 ²",
)


def space_of(texts, titles=()):
    return rankings.space_of(torch.eye(2)[torch.arange(len(texts)) % 2], texts, titles)


def batch_of(queries):
    return QueryBatch(tuple(map(str, range(len(queries)))), torch.ones(len(queries), 2), tuple(queries))


def scores(texts, queries, **params):
    return engine.make("bm25", **params).score(space_of(texts), batch_of(queries))


def make_cases(seed, n=40):
    """Make texts of few, repeated words, some empty or hostile; queries with unknown and repeated words."""
    rng = np.random.default_rng(seed)
    words = np.array([f"w{i}" for i in range(30)] + ["Ärger", "Σ", "the", "THE", "中", "a_b"])
    often = rng.dirichlet(np.full(len(words), 0.3))
    texts = [" ".join(rng.choice(words, size=size, p=often)) for size in rng.integers(0, 25, size=n)]
    texts = [*texts, "", " .,! ", *HOSTILE, texts[3], texts[3]]
    queries = [" ".join(rng.choice(words, size=size)) for size in rng.integers(1, 9, size=6)]
    return texts, [*queries, "w1 w1 w1 unknown", "unknown", "", "!?", *HOSTILE]
