"""What the selectors are measured on: clustered unit vectors from a seed, and the embeddings of the demo python-api."""

from __future__ import annotations

import threading
from dataclasses import dataclass

import torch
from torch import Tensor

import engine
from engine.data.encoders import EMBEDDING
from engine.evidence import latencies

QUERIES = 64
QUESTIONS = (
    "sort an array along an axis",
    "solve a linear system of equations",
    "read a table from a csv file",
    "fit a logistic regression with cross-validation",
    "multiply two sparse matrices",
    "sample from a multivariate normal distribution",
    "convolution of two signals in the frequency domain",
    "move a tensor to the GPU and back",
)
HOW = (
    "clustered: rows are √.2·b + √.5·t + √.3·e, normalised; b one random unit vector, t one for each cluster of about "
    f"{latencies.CLUSTER_SIZE} rows, e one for each row (seed 0); queries: {QUERIES} random rows, each plus noise of "
    f"length {latencies.QUERY_NOISE}, normalised. python-api: the documentation of the installed NumPy, pandas, SciPy, "
    f"scikit-learn and PyTorch, embedded by the bundled encoder; queries: {len(QUESTIONS)} questions in plain text."
)


@dataclass(frozen=True)
class Data:
    """(n, d) float32 unit rows and (64, d) queries on the CPU; apart, together: mean cosine of two random rows, and of
    a row and its nearest (real) or a random one of its cluster (clustered)."""

    name: str
    vectors: Tensor
    queries: Tensor
    apart: float
    together: float


def clustered(n: int, d: int, seed: int = 0) -> Data:
    """n rows in about n / 100 clusters."""
    rows, queries, member = latencies.draw_clusters(n, d, QUERIES, seed)
    source = torch.Generator().manual_seed(seed + 1)
    first, second = torch.randint(n, (2, 4096), generator=source)
    cosine = (rows[first] * rows[second]).sum(1)
    order = member.argsort(stable=True)
    # Neighbours in this order share a cluster, but for one pair in a hundred.
    side = torch.randint(n - 1, (4096,), generator=source)
    start, stop = order[side], order[side + 1]
    inside = (rows[start] * rows[stop]).sum(1)[member[start] == member[stop]]
    return Data("clustered", rows, queries, float(cosine[member[first] != member[second]].mean()), float(inside.mean()))


def real() -> Data | str:
    """The demo python-api from Frontier's cache; where it is not there, what to do about it."""
    stop = threading.Event()
    corpus = engine.load_dataset("python-api").corpus

    def report(done: int, total: int, label: str) -> None:
        # Embedding 15,000 documents takes minutes, which no benchmark should spend unasked.
        if label == EMBEDDING:
            stop.set()

    try:
        rows = engine.embed(corpus, device="cpu", progress=report, stop=stop).vectors
    except engine.Cancelled as error:
        return (
            f"python-api is left out: its vectors are not in the cache ({error}); "
            "`python -m engine.cli embed --corpus python-api --device cpu` puts them there"
        )
    question_vectors = engine.embed(list(QUESTIONS), device="cpu").vectors
    source = torch.Generator().manual_seed(0)
    first, second = torch.randint(len(rows), (2, 4096), generator=source)
    near = (rows[first[:256]] @ rows.T).scatter_(1, first[:256, None], -1.0).amax(1)
    queries = question_vectors.repeat(QUERIES // len(question_vectors), 1)
    return Data("python-api", rows, queries, float((rows[first] * rows[second]).sum(1).mean()), float(near.mean()))
