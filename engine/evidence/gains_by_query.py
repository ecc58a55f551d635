"""What NNN gains over dense retrieval, query by query, beside what is known of each query's relevant documents."""

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from engine.evaluation.stratification import relevant_correlations
from engine.evidence.claim import Measurement
from engine.evidence.judged_sets import JudgedSet
from engine.evidence.measures import DENSE, ELASTIC_GRID, tuned
from engine.values import Qrels

SETS = ("toolbank-numpy", "toollens", "multihop-rag-summ500")


class Exchanged(JudgedSet):
    """A set whose queries to choose on and to report on have changed places."""

    @cached_property
    def splits(self) -> dict[str, Qrels]:
        own = super().splits
        return {"dev": own["test"], "test": own["dev"]}


def measure(sets: Sequence[JudgedSet], _: int) -> Measurement:
    """Set → how many documents are relevant to each query, the largest cosine of one to one that is not, in hundredths,
    and what NNN gains in points of Comp@5.

    Of all judged queries, each half with the λ that is best on the other: few have one or two relevant documents.
    """
    measured: dict[str, dict[str, list[float | None]]] = {}
    for judged in sets:
        of_set = measured.setdefault(judged.name, {"relevant": [], "correlations": [], "gains": []})
        for half in (judged, Exchanged(judged.name, judged.dataset, judged.encoder)):
            ids, qrels = half.queries("test").ids, half.splits["test"]
            correlations = relevant_correlations(judged.space, qrels)
            gains = tuned(half, ELASTIC_GRID, "comp", 5) - tuned(half, [DENSE], "comp", 5)
            of_set["relevant"] += [len(qrels.relevant(query)) for query in ids]
            of_set["correlations"] += map(correlations.get, ids)
            of_set["gains"] += gains.tolist()
    return measured


def trend(numbers: np.ndarray, gains: np.ndarray) -> np.ndarray:
    """(n,) what each query adds to the slope of least squares, whose mean it is."""
    apart = numbers - numbers.mean()
    slope = apart @ gains / (apart @ apart)
    left = gains - gains.mean() - slope * apart
    parts: np.ndarray = slope + len(apart) * apart * left / (apart @ apart)
    return parts
