"""L5: the longer documents are, the smaller are the margins between them."""

from collections.abc import Sequence

import numpy as np

from engine.evidence.claim import Claim, Measurement
from engine.evidence.judged_sets import JudgedSet
from engine.evidence.rules import Ruling, Scope, bounded, slope
from engine.theory.text_vectors import against_best, length_bins, text_vectors

BINS, RANKS = 4, (10, 100)


def measure(sets: Sequence[JudgedSet], _: int) -> Measurement:
    """Set → mean words of bins of as many documents each, and rank → query by query and bin by bin the so many smallest
    margin of the bin's best document over its others, of queries that have one in every bin."""
    return {judged.name: _margins(judged) for judged in sets}


def _margins(judged: JudgedSet) -> Measurement:
    rows = text_vectors(judged.dataset.corpus, judged.queries("test"), "bm25")
    parts = length_bins(rows.lengths, BINS)
    columns = []
    for part in parts:
        margins = np.concatenate([block for *_, block in against_best(rows.documents[part], rows.queries)])
        columns.append(np.sort(np.where(margins > 0, margins, np.nan), axis=1)[:, [rank - 1 for rank in RANKS]])
    by_rank = np.stack(columns, axis=1)
    complete = by_rank[~np.isnan(by_rank).any(axis=(1, 2))]
    ranked = {str(rank): complete[:, :, at].round(6).tolist() for at, rank in enumerate(RANKS)}
    return {"words": [float(rows.lengths[part].mean()) for part in parts], "ranks": ranked}


def judge(measured: Measurement) -> Ruling:
    exponents = [
        slope(of["words"], np.array(values), f"{name}, smallest margin but {int(rank) - 1}", ("mean words", "margin"))
        for name, of in measured.items()
        for rank, values in of["ranks"].items()
    ]
    return bounded(exponents, high=0.0)


CLAIM = Claim(
    id="L5",
    paper="sparse-dense",
    place="§2.1.3, Fig. 3a",
    sentence="BM25's margins between the best document and others shrink as documents get longer.",
    scope=Scope.STAND_IN,
    measure=measure,
    rule=judge,
    sets=("cranfield", "perspectrum"),
    differs="Cranfield and Perspectrum for TREC-CAR; four bins of equal size; the 10th and 100th smallest margins, not "
    "the 1,000th.",
    cost=3,
)
