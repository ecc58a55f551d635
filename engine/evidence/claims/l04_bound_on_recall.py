"""L4: Lemma 2 bounds how often a random projection loses the best document."""

from collections.abc import Sequence

import numpy as np

import engine
from engine.evidence.claim import Claim, Measurement
from engine.evidence.judged_sets import JudgedSet
from engine.evidence.measures import unit_rows
from engine.evidence.rules import Ruling, Scope, theorem
from engine.theory.projection_bounds import recall_dimension
from engine.theory.recall_losses import RecallLoss, recall_losses

SPACES, DRAWS, LEAST = 300, 200, 200
RANKS, DIMENSIONS, WIDTH = (10, 100), (1024, 4096), 32


def measure(sets: Sequence[JudgedSet], seed: int) -> Measurement:
    """By how much the lower end of the share of projections that lose it passes the bound, where that is below 1.

    generated: documents at margins like one another from the best one, at k where the bound is a drawn one; judged:
    BM25's vectors
    """
    rng = np.random.default_rng(seed)
    generated = [row for case in range(SPACES) for row in _generated(rng, case)]
    judged: list[RecallLoss] = []
    for one in sets:
        for rank in RANKS:
            corpus, queries = one.dataset.corpus, one.queries("test")
            judged += recall_losses(corpus, queries, dimensions=DIMENSIONS, rank=rank, draws=DRAWS // 10, seed=seed)
    return {"generated": _passed(generated), "judged": _passed(judged)}


def _generated(rng: np.random.Generator, case: int) -> Sequence[RecallLoss]:
    count = int(rng.integers(1, 60))
    rank = int(rng.integers(1, min(5, count) + 1))
    query, margins = np.eye(WIDTH)[:1], rng.uniform(0.15, 0.75) * rng.uniform(1.0, 1.3, (count, 1))
    across = unit_rows(rng.standard_normal((count, WIDTH)) * (1 - query))
    others = -rng.uniform(0.2, 5.0, (count, 1)) * (margins * query + np.sqrt(1 - margins**2) * across)
    names = tuple(map(str, range(count + 1)))
    space = engine.Space(engine.Corpus(names, names), engine.Embeddings(names, np.vstack([0 * query, others])))
    k = recall_dimension(float(np.sort(margins.ravel())[rank - 1]), float(rng.uniform(0.02, 0.5)), count, rank)
    asked = engine.Embeddings(("q",), query, texts=("q",))
    return recall_losses(space, asked, "dense", dimensions=(k,), rank=rank, draws=DRAWS, seed=case)


def _passed(rows: Sequence[RecallLoss]) -> list[float]:
    return [float(f"{row.low - row.bound:.6g}") for row in rows if row.bound < 1]


def judge(measured: Measurement) -> Ruling:
    return theorem([*measured["generated"], *measured["judged"]], LEAST)


CLAIM = Claim(
    id="L4",
    paper="sparse-dense",
    place="Lemma 2",
    sentence="A random projection to k dimensions ranks the best of |D| + 1 documents behind r₀ or more others with a "
    "probability of at most 4 (|D| − r₀ + 1) exp(−k/2 (ε²/2 − ε³/3)), where ε is its r₀-th smallest margin.",
    scope=Scope.STAND_IN,
    measure=measure,
    rule=judge,
    sets=("cranfield",),
    effect="4 (|D| − r₀ + 1) exp(−k/2 (ε²/2 − ε³/3))",
    differs="Counted over drawn projections, on drawn documents and Cranfield. A case is a query at one k, where the "
    "bound is below 1; the lower end of its share of losses is compared.",
    cost=20,
)
