"""L13: m vectors of k dimensions find more than one of mk."""

from collections.abc import Sequence

import numpy as np

import engine
from engine.evidence.claim import Claim, Measurement
from engine.evidence.judged_sets import JudgedSet
from engine.evidence.measures import POINTS
from engine.evidence.rules import Ruling, Scope, difference

DIMENSION, COUNTS, SEEDS = 64, (2, 4), 3
METRICS, K = ("recall", "ndcg"), 10


def measure(sets: Sequence[JudgedSet], seed: int) -> Measurement:
    """Set, m and metric → what m projections to 64 dimensions find more than one to 64 m, query by query, the mean over
    some trainings."""
    return {name: gaps for judged in sets for m in COUNTS for name, gaps in _gaps(judged, m, seed)}


def _gaps(judged: JudgedSet, count: int, seed: int) -> list[tuple[str, list[float]]]:
    seeds = range(SEEDS * seed, SEEDS * (seed + 1))
    several = [_values(judged, "multi_vector", one, dimension=DIMENSION, vectors=count) for one in seeds]
    single = [_values(judged, "dual_encoder", one, dimension=DIMENSION * count) for one in seeds]
    gaps = POINTS * (np.mean(several, axis=0) - np.mean(single, axis=0))
    label = f"{judged.name}, {count} × {DIMENSION} less 1 × {count * DIMENSION}"
    return [(f"{label}, {metric}@{K}", row.round(4).tolist()) for metric, row in zip(METRICS, gaps, strict=True)]


def _values(judged: JudgedSet, method: str, seed: int, **params: int) -> np.ndarray:
    queries = engine.embed(judged.dataset.queries, encoder=judged.encoder)
    trained = engine.train(method, judged.space, queries, judged.dataset.qrels, seed=seed, **params)
    asked = judged.queries("test")
    ranking = engine.decode(trained.decoder, trained.space, asked, K)
    values = engine.measure(ranking, trained.space, asked, judged.splits["test"], K, METRICS).values
    return np.stack([values[metric] for metric in METRICS])


def judge(measured: Measurement) -> Ruling:
    return difference(measured, margin=1.0)


CLAIM = Claim(
    id="L13",
    paper="sparse-dense",
    place="§5, §6, Fig. 4, 5",
    sentence="Several small vectors per document find more than one vector that is as large as all of them together.",
    scope=Scope.STAND_IN,
    measure=measure,
    rule=judge,
    sets=("toolbank-numpy",),
    differs="Two or four learnt projections to 64 dimensions of MiniLM's one vector, which stays as it is, against one "
    "of as many dimensions in all; the paper trains BERT to have eight of 64 against one of 512.",
    cost=30,
)
