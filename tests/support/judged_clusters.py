"""A small judged set to tune on: clusters of near-duplicates, a relevant document in several."""

import numpy as np

import engine
from support.instances import clustered_rows, unit
from support.rankings import asked_of, space_of

N, D, ASKED = 120, 12, 60


def judged_clusters():
    """(space, queries, judgements by split): clusters of near-duplicates, a relevant document in several."""
    rng = np.random.default_rng(3)
    rows = clustered_rows(rng, N, D).astype(np.float32)
    asked = unit(rows[rng.integers(N, size=ASKED)] + rows[rng.integers(N, size=ASKED)]).astype(np.float32)
    near = np.argsort(-(asked @ rows.T), axis=1)
    grades = {f"q{b}": {f"d{i}": 1 for i in near[b, rng.permutation(30)[:4]]} for b in range(ASKED)}
    half = {"dev": range(0, ASKED, 2), "test": range(1, ASKED, 2)}
    return (
        space_of(rows),
        asked_of(asked),
        {s: engine.Qrels({f"q{b}": grades[f"q{b}"] for b in own}) for s, own in half.items()},
    )


def only(queries, ids):
    rows = [queries.ids.index(i) for i in ids]
    return engine.Embeddings(queries.vectors[rows], tuple(ids))
