"""Theorem 1 on many queries of a corpus, in words."""

import numpy as np

from engine.theory.segments import Segments
from engine.wording import decimal


def segments_said(segments: Segments, queries: int, words: int) -> tuple[str, ...]:
    """What the pairs of so many queries show, sentence by sentence. words: of a passage."""
    pairs = len(segments)
    if not pairs:
        return (f"{queries:,} queries, and none has two documents that can be compared by words.",)
    promised, apart = int(segments.promised.sum()), int(segments.apart.sum())
    verdict = "holds for all of these" if not segments.broken else f"fails for {segments.broken:,} of these"
    sentences = [
        f"{queries:,} queries, {pairs:,} pairs of a best document and a rival. The theorem speaks of {promised:,} "
        f"({promised / pairs:.0%}), whose best document has the query's words in one passage of {words:,} words only"
        + (f", and {verdict}." if promised else ".")
    ]
    passages = segments.passages[~np.isnan(segments.passages)]
    whole = float(np.median(segments.documents))
    if len(passages):
        middle = float(np.median(passages))
        sentences.append(
            f"Of real passages, {segments.passages_gain:.0%} of the pairs have at least the documents' margin; the "
            f"median is {decimal(middle)}, the documents' {decimal(whole)}."
        )
    shared = pairs - apart
    sentences.append(
        "The theorem assumes segments without words in common. "
        + (
            f"For {shared / pairs:.0%} of the pairs the best passages share words with the rest of their documents: of "
            "those nothing is proved."
            if shared
            else "Here all are so: no word of a best passage occurs in the rest of its document; a short document is "
            "one passage."
        )
    )
    return tuple(sentences)
