"""Theorem 1 on many queries of a corpus, in words."""

from __future__ import annotations

import numpy as np

from engine.theory.segmented import Segments


def segments_said(found: Segments, queries: int, words: int) -> tuple[str, ...]:
    """What the pairs of so many queries show, sentence by sentence.

    queries: how many were asked; words: of a passage.
    """
    pairs = len(found)
    if not pairs:
        return (f"{queries:,} queries, and none has two documents that can be compared by words.",)
    promised, apart = int(found.promised.sum()), int(found.apart.sum())
    held = "holds for all of these" if not found.broken else f"fails for {found.broken:,} of these"
    said = [
        f"{queries:,} queries, {pairs:,} pairs of a best document and a rival. The theorem speaks of {promised:,} "
        f"({promised / pairs:.0%}), whose best document has the query's words in one passage of {words:,} words only"
        + (f", and {held}." if promised else ".")
    ]
    passages = found.passages[~np.isnan(found.passages)]
    whole = float(np.median(found.documents))
    if len(passages):
        middle = float(np.median(passages))
        said.append(
            f"Of real passages, {found.passages_gain:.0%} of the pairs have at least the documents' margin; the median "
            f"is {middle:.3f}, the documents' {whole:.3f}."
        )
    shared = pairs - apart
    said.append(
        "The theorem assumes segments without words in common. "
        + (
            f"For {shared / pairs:.0%} of the pairs the best passages share words with the rest of their documents: of "
            "those nothing is proved."
            if shared
            else "Here all are so: no word of a best passage occurs in the rest of its document; a short document is "
            "one passage."
        )
    )
    return tuple(said)
