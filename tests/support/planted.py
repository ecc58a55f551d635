"""A small deployment with a known truth: documents badly described, questions that name them well."""

import numpy as np

import engine
from support.instances import unit


def planted(seed=0, n=40, d=16, each=10, noise=1.2, right=1):
    """(space, queries, judgements of all of them): documents lie `noise` off what people mean by them.

    right: how many documents answer a question, the first of which it is about.
    """
    rng = np.random.default_rng(seed)
    meant = unit(rng.standard_normal((n, d)))
    described = unit(meant + noise * rng.standard_normal((n, d)) / np.sqrt(d))
    about = np.repeat(np.arange(n), each)
    asked = unit(meant[about] + 0.4 * rng.standard_normal((n * each, d)) / np.sqrt(d))
    ids = tuple(f"d{i}" for i in range(n))
    texts = tuple(f"document {i}" for i in range(n))
    vectors = engine.Embeddings(ids, described.astype(np.float32))
    space = engine.Space(engine.Corpus(ids, texts), vectors, "cpu")
    queries = engine.Embeddings(tuple(f"q{i}" for i in range(n * each)), asked.astype(np.float32))
    grades = {f"q{i}": {f"d{(item + j) % n}": 1 for j in range(right)} for i, item in enumerate(about.tolist())}
    return space, queries, engine.Qrels(grades)
