"""A small judged set to tune on: clusters of near-duplicates, a relevant document in several."""

import numpy as np
import torch

import engine
from support.instances import clustered_rows, unit

N, D, ASKED = 120, 12, 60


def judged_clusters():
    """(space, queries, judgements by split): clusters of near-duplicates, a relevant document in several."""
    rng = np.random.default_rng(3)
    rows = clustered_rows(rng, N, D).astype(np.float32)
    ids = tuple(f"d{i}" for i in range(N))
    space = engine.Space(engine.Corpus(ids, ("",) * N), engine.Embeddings(torch.tensor(rows), ids), "cpu")
    asked = unit(rows[rng.integers(N, size=ASKED)] + rows[rng.integers(N, size=ASKED)]).astype(np.float32)
    queries = engine.Embeddings(torch.tensor(asked), tuple(f"q{i}" for i in range(ASKED)))
    near = np.argsort(-(asked @ rows.T), axis=1)
    grades = {f"q{b}": {ids[i]: 1 for i in near[b, rng.permutation(30)[:4]]} for b in range(ASKED)}
    half = {"dev": range(0, ASKED, 2), "test": range(1, ASKED, 2)}
    return space, queries, {s: engine.Qrels({f"q{b}": grades[f"q{b}"] for b in own}) for s, own in half.items()}


def only(queries, ids):
    rows = [queries.ids.index(i) for i in ids]
    return engine.Embeddings(queries.vectors[rows], tuple(ids))
