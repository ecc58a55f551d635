"""V5: by its measure VRSD comes before cosine similarity, and that before BM25."""

from collections.abc import Sequence
from functools import partial
from itertools import pairwise

import engine
from engine.decoder import Decoder
from engine.evidence.claim import Claim, Measurement
from engine.evidence.judged_sets import JudgedSet
from engine.evidence.measures import DENSE, POINTS, cells
from engine.evidence.rules import Scope, difference

ORDER = {
    "VRSD": Decoder(engine.make("vrsd")),
    "cosine": DENSE,
    "BM25": Decoder(engine.make("top_k"), engine.make("bm25")),
}
SIZES = (5, 10)


def measure(sets: Sequence[JudgedSet], _: int) -> Measurement:
    """Set, k and two neighbours of the order → differences of cos(sum, query) in points, query by query."""
    apart = {}
    for judged in sets:
        for k in SIZES:
            worth = cells(judged, list(ORDER.values()), "test", ("cos_sum",), k)
            by_name = {name: POINTS * cell.values["cos_sum"] for name, cell in zip(ORDER, worth, strict=True)}
            for one, other in pairwise(ORDER):
                apart[f"{judged.name}, k {k}, {one} to {other}"] = (by_name[one] - by_name[other]).round(5).tolist()
    return apart


CLAIM = Claim(
    id="V5",
    paper="vrsd",
    place="§4.3, Table 3",
    sentence="In the mean cosine of the set's sum to the query, VRSD comes before cosine similarity, and that before "
    "BM25.",
    scope=Scope.STAND_IN,
    measure=measure,
    rule=partial(difference, margin=1.0),
    sets=("perspectrum", "multihop-rag-summ500", "ultratool-en"),
    effect=".740, .710 and .550 on ARC-DA",
    differs="Other data and encoder (MiniLM), no wordpieces in BM25; the paper does not give k: here 5 and 10.",
    cost=20,
)
