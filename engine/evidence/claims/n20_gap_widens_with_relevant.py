"""N20: the more documents a query needs, the more NNN gains over dense retrieval; with one or two they are level."""

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from engine.evidence.claim import Claim, Measurement
from engine.evidence.judged_sets import JudgedSet
from engine.evidence.measures import DENSE, ELASTIC_GRID, tuned
from engine.evidence.rules import Ruling, Scope, difference, equivalence, together
from engine.values import Qrels

FEW = 2


class Exchanged(JudgedSet):
    """A set whose queries to choose on and to report on have changed places."""

    @cached_property
    def splits(self) -> dict[str, Qrels]:
        own = super().splits
        return {"dev": own["test"], "test": own["dev"]}


def measure(sets: Sequence[JudgedSet], _: int) -> Measurement:
    """Set → how many documents are relevant to each query, and what NNN gains in points of Comp@5.

    Of all judged queries, each half with the λ that is best on the other: few have one or two relevant documents.
    """
    measured: dict[str, dict[str, list[float]]] = {}
    for judged in sets:
        of_set = measured.setdefault(judged.name, {"relevant": [], "gains": []})
        for half in (judged, Exchanged(judged.name, judged.dataset, judged.encoder)):
            relevant = [len(half.splits["test"].relevant(query)) for query in half.queries("test").ids]
            gains = tuned(half, ELASTIC_GRID, "comp", 5) - tuned(half, [DENSE], "comp", 5)
            of_set["relevant"] += relevant
            of_set["gains"] += gains.tolist()
    return measured


def judge(measured: Measurement) -> Ruling:
    slopes: dict[str, list[float]] = {}
    few: dict[str, list[float]] = {}
    for name, of_set in measured.items():
        relevant, gains = np.array(of_set["relevant"], dtype=float), np.array(of_set["gains"])
        apart = relevant - relevant.mean()
        trend = apart @ gains / (apart @ apart)
        left = gains - gains.mean() - trend * apart
        # What each query adds to the slope of least squares, whose mean it is.
        slopes[f"{name}: points a document"] = (trend + len(apart) * apart * left / (apart @ apart)).tolist()
        few[f"{name}: points with at most {FEW} documents"] = gains[relevant <= FEW].tolist()
    return together([difference(slopes, margin=0.5), equivalence(few, margin=1.0)])


CLAIM = Claim(
    id="N20",
    paper="nnn",
    place="§4.2, Figure 4",
    sentence="The more documents are relevant to a query, the more NNN gains over dense retrieval; with one or two "
    "they are level.",
    scope=Scope.STAND_IN,
    measure=measure,
    rule=judge,
    sets=("toolbank-numpy", "toollens", "multihop-rag-summ500"),
    differs="MiniLM as it is shipped, NNN without training; of ToolBank NumpyBank alone. λ chosen on either half for "
    "the other. Level: within a point.",
    cost=15,
)
