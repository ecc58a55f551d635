"""A planted set to train on: queries are sums of three documents' vectors, turned."""

from functools import cache

import numpy as np
import torch
from scipy.linalg import expm

import engine
from engine.training.dataset import Samples
from engine.values import Corpus, Embeddings, EncoderRef, Qrels
from support.instances import unit

ENCODER = EncoderRef("made-up", "0" * 64, "float32")
SMALL = {"hidden": 48, "batch": 32}
"""Options of adapters small enough for a small set."""

QUICK = {**SMALL, "query_rate": 3e-3, "epochs": 3}
PROJECTED = {"dimension": 6, "batch": 32, "rate": 1e-2, "epochs": 3}
NNN = {**QUICK, "l1": 0.1, "l2": 0.1, "regrid": False}


def plant(n=80, d=16, train=320, dev=100, seed=0, turn=0.5, encoder=ENCODER):
    """Make (space, queries, qrels), splits "train" and "dev"; a query's text names its documents and two others."""
    rng = np.random.default_rng(seed)
    rows = unit(rng.standard_normal((n, d)) + 0.8 * rng.standard_normal(d))
    skew = rng.standard_normal((d, d))
    rotation = expm(turn * (skew - skew.T) / np.sqrt(d))
    ids, sets, qrels = threes(rng, n, train, dev)
    queries = unit((rows[sets].sum(1) + 0.1 * rng.standard_normal((len(ids), d))) @ rotation)
    corpus = Corpus(tuple(f"d{j}" for j in range(n)), tuple(f"document {j}" for j in range(n)), name="planted")
    space = engine.Space(corpus, Embeddings(corpus.ids, torch.from_numpy(rows).float(), encoder))
    mentioned = [[*members.tolist(), 7 * i % n, 11 * i % n] for i, members in enumerate(sets)]
    texts = tuple(
        f"{i}: {', '.join(f'document {j}' for j in members)}" for i, members in zip(ids, mentioned, strict=True)
    )
    return space, Embeddings(ids, torch.from_numpy(queries).float(), encoder, texts), qrels


def threes(rng, n, train, dev):
    """Make (ids, sets, qrels) of queries that need three of n documents each; splits "train" and "dev"."""
    ids = tuple(f"q{i}" for i in range(train + dev))
    sets = np.stack([rng.permutation(n)[:3] for _ in ids])
    judged = Qrels({query: {f"d{j}": 1 for j in members} for query, members in zip(ids, sets, strict=True)})
    return ids, sets, {"train": restrict(judged, ids[:train]), "dev": restrict(judged, ids[train:])}


def restrict(qrels, ids):
    """Restrict judgements to some queries."""
    return Qrels({query: qrels.grades[query] for query in ids})


def split_queries(data, split="dev"):
    """Select the embedded queries that a split judges."""
    _, queries, qrels = data
    return queries.take([row for row, query in enumerate(queries.ids) if query in qrels[split].grades])


def quality(decoder, space, data, split="dev", metrics=("comp",), k=5):
    """Measure the means of metrics on a split."""
    ranking = engine.decode(decoder, space, split_queries(data, split), k)
    return engine.measure(ranking, space, split_queries(data, split), data[2][split], k, metrics).mean


def demo_splits(dataset):
    """Split the demo's first judged queries into 60 for training and 30 as dev."""
    judged = dataset.qrels["test"]
    ids = list(judged.grades)
    return {"train": restrict(judged, ids[:60]), "dev": restrict(judged, ids[60:90])}


@cache
def shared_planted_set():
    """Make the planted set that most tests share, once."""
    return plant()


class StopAfter:
    """A stop that is set after `times` checks."""

    def __init__(self, times):
        self.left = times

    def is_set(self):
        self.left -= 1
        return self.left < 0


def samples_of(vectors, relevant):
    """Make samples of query vectors, (Q, d), that are dev too, for models with documents of their own."""
    ids = tuple(f"q{i}" for i in range(len(relevant)))
    queries = Embeddings(ids, vectors)
    space = engine.Space(Corpus(ids, ids), queries, "cpu")
    return Samples(space=space, train=queries, dev=queries, relevant=relevant, qrels=Qrels({}))


def drop_times(history):
    """Return a history without its times."""
    return [{k: v for k, v in epoch.as_json().items() if k != "seconds"} for epoch in history]
