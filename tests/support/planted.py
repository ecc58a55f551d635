"""A small deployment with a known truth: inexact documents, and queries near their true vectors."""

import numpy as np

import engine
from support.instances import unit


def make_deployment(seed=0, n=40, d=16, queries_per_document=10, noise=1.2, n_relevant=1):
    """Make (space, queries, qrels): document vectors lie `noise` off the vectors that people mean.

    n_relevant: number of relevant documents a query, the first of which it is about.
    """
    rng = np.random.default_rng(seed)
    intended = unit(rng.standard_normal((n, d)))
    described = unit(intended + noise * rng.standard_normal((n, d)) / np.sqrt(d))
    about = np.repeat(np.arange(n), queries_per_document)
    points = unit(intended[about] + 0.4 * rng.standard_normal((n * queries_per_document, d)) / np.sqrt(d))
    ids = tuple(f"d{i}" for i in range(n))
    texts = tuple(f"document {i}" for i in range(n))
    vectors = engine.Embeddings(ids, described.astype(np.float32))
    space = engine.Space(engine.Corpus(ids, texts), vectors, "cpu")
    queries = engine.Embeddings(tuple(f"q{i}" for i in range(n * queries_per_document)), points.astype(np.float32))
    grades = {f"q{i}": {f"d{(item + j) % n}": 1 for j in range(n_relevant)} for i, item in enumerate(about.tolist())}
    return space, queries, engine.Qrels(grades)
