"""Margins of documents, of segments as Theorem 1 has them, and of real passages, of judged sets."""

from collections.abc import Sequence

import numpy as np

import engine
from engine.evidence.claim import Measurement
from engine.evidence.judged_sets import JudgedSet
from engine.text.tokenizer import terms

LENGTHS = (50, 100)
"""Words of a passage."""


def segment_margins(sets: Sequence[JudgedSet], _: int) -> Measurement:
    """lost: of each pair that the theorem speaks of, the documents' margin less the segments'; kept: set and words of a
    passage → query by query the share of pairs whose best passages have at least the documents' margin, of documents
    that both have several passages."""
    lost: list[float] = []
    kept: dict[str, list[float]] = {}
    for judged in sets:
        sizes = np.array([len(terms(text)) for text in judged.dataset.corpus.passages])
        for length in LENGTHS:
            shares = kept.setdefault(f"{judged.name}, {length} words", [])
            for split in judged.splits:
                pairs = engine.segments(judged.dataset.corpus, judged.queries(split), passage_words=length)
                lost += [float(f"{gap:.6g}") for gap in (pairs.documents - pairs.segments)[pairs.promised]]
                cut = (sizes[pairs.first] > length) & (sizes[pairs.second] > length)
                as_much = pairs.passages >= pairs.documents - 1e-9
                of_queries = (as_much[cut & (pairs.query == query)].mean() for query in np.unique(pairs.query[cut]))
                shares += [round(float(share), 6) for share in of_queries]
    return {"lost": lost, "kept": kept}
