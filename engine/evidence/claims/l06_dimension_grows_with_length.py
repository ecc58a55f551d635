"""L6: the longer documents are, the more dimensions keep the best one among the first ten."""

from collections.abc import Sequence

import numpy as np

import engine
from engine.evidence.claim import Claim, Measurement
from engine.evidence.judged_sets import JudgedSet
from engine.evidence.rules import Ruling, Scope, bounded, slope
from engine.theory.text_vectors import length_bins, text_vectors

BINS, DRAWS, TARGET, GROUPS = 4, 3, 0.95, 8
DIMENSIONS = tuple(int(k) for k in np.geomspace(64, 8192, 40).round())
BEYOND = 2 * DIMENSIONS[-1]
"""Stands for a dimension that none of those reached."""


def measure(sets: Sequence[JudgedSet], seed: int) -> Measurement:
    """Set → mean words of bins of as many documents each, and for each group of queries, with projections of its own,
    the smallest dimension from which on the best of a bin stays among its first ten."""
    return {judged.name: _dimensions(judged, seed) for judged in sets}


def _dimensions(judged: JudgedSet, seed: int) -> Measurement:
    corpus, needed = judged.dataset.corpus, []
    for group in range(GROUPS):
        asked = judged.queries(("dev", "test")[group % 2])
        asked = asked.take(range(group // 2, len(asked), GROUPS // 2))
        options = {"dimensions": DIMENSIONS, "target": TARGET, "bins": BINS}
        rows = engine.recall_dimensions(corpus, asked, "bm25", draws=DRAWS, seed=GROUPS * seed + group, **options)
        needed.append([row.dimension or BEYOND for row in rows])
    lengths = text_vectors(corpus, asked, "bm25").lengths
    return {"words": [float(lengths[part].mean()) for part in length_bins(lengths, BINS)], "needed": needed}


def judge(measured: Measurement) -> Ruling:
    axes = "mean words", f"dimension needed ({BEYOND:,}: more than {DIMENSIONS[-1]:,})"
    exponents = [slope(of["words"], np.array(of["needed"]), name, axes) for name, of in measured.items()]
    return bounded(exponents, low=0.0)


CLAIM = Claim(
    id="L6",
    paper="sparse-dense",
    place="§2.1.3, Fig. 3b",
    sentence="The dimension that keeps BM25's best document among the first ten grows with the length of documents.",
    scope=Scope.STAND_IN,
    measure=measure,
    rule=judge,
    sets=("cranfield", "perspectrum"),
    differs="Cranfield and Perspectrum for TREC-CAR; Recall@10 of .95, as the paper's text names none; eight groups of "
    "queries for an interval.",
    cost=60,
)
