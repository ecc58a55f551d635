"""Several vectors a document, those of its passages, against one: what is found, and in what time."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

import engine
from engine.decoder import Decoder
from engine.evaluation.studies.ann import Searched
from engine.evidence.claim import Measurement
from engine.evidence.judged_sets import JudgedSet
from engine.evidence.measures import DENSE, POINTS, cells
from engine.scoring.max_sim import MaxSim

LENGTHS = (50, 100, 200)
"""Words of a passage."""
METRICS, K, REPEATS = ("recall", "mrr"), 10, 5
MANY = {length: MaxSim(length=length, overlap=0.0) for length in LENGTHS}
EACH = 1.1
"""Passages a document, below which a length says nothing of several vectors."""


def passage_search(sets: Sequence[JudgedSet], seed: int) -> Measurement:
    """found: set, words of a passage and metric → passages less one vector, of all judged queries; timed: set and words
    → milliseconds of the exact search among passages, and of the best search among documents in that time (the quickest
    where none is so quick), chosen for either half of the queries on the other, and what MRR the former has less the
    latter."""
    found: dict[str, list[float]] = {}
    timed: dict[str, dict[str, list[float]]] = {}
    for judged in sets:
        many = {n: scorer for n, scorer in MANY.items() if scorer.index(judged.space).per_document >= EACH}
        for length, metric, gaps in _found(judged, many):
            found[f"{judged.name}, {length} words, {metric}@{K}"] = gaps
        for length, comparison in _timed(judged, many, seed):
            timed[f"{judged.name}, {length} words"] = comparison
    return {"found": found, "timed": timed}


def _found(judged: JudgedSet, many: Mapping[int, MaxSim]) -> Iterator[tuple[int, str, list[float]]]:
    decoders = [DENSE, *(Decoder(DENSE.select, scorer) for scorer in many.values())]
    splits = [cells(judged, decoders, split, METRICS, K) for split in ("dev", "test")]
    for at, length in enumerate(many, 1):
        for metric in METRICS:
            gaps = [POINTS * (row[at].values[metric] - row[0].values[metric]) for row in splits]
            yield length, metric, np.concatenate(gaps).round(4).tolist()


def _timed(judged: JudgedSet, many: Mapping[int, MaxSim], seed: int) -> Iterator[tuple[int, dict[str, list[float]]]]:
    scorers = [engine.make("dense"), *many.values()]
    options = {"k": K, "metrics": ("mrr",), "seed": seed, "repeats": REPEATS}

    def searched(split: str) -> list[Searched]:
        return list(engine.approximate(scorers, judged.space, judged.queries(split), judged.splits[split], **options))

    halves = [searched(split) for split in ("dev", "test")]
    single = [at for at, row in enumerate(halves[0]) if row.scorer == scorers[0].label]
    for length, scorer in many.items():
        times, gaps = [], []
        for other, own in (halves, halves[::-1]):
            (all_of_them,) = (row for row in own if row.scorer == scorer.label and row.exact)
            one = own[best_in_time(single, own, other, all_of_them.milliseconds)]
            times.append([all_of_them.milliseconds, one.milliseconds])
            gaps.append(POINTS * (all_of_them.values["mrr"] - one.values["mrr"]))
        both = {"milliseconds": np.mean(times, axis=0), "gap": np.concatenate(gaps)}
        yield length, {name: values.round(6).tolist() for name, values in both.items()}


def best_in_time(places: Sequence[int], own: Sequence[Searched], other: Sequence[Searched], milliseconds: float) -> int:
    """Of some places that which is best on other queries among those quick enough, else the quickest."""
    quick = [at for at in places if own[at].milliseconds <= milliseconds]
    if not quick:
        return min(places, key=lambda at: own[at].milliseconds)
    return max(quick, key=lambda at: (other[at].mean["mrr"], -own[at].milliseconds))
