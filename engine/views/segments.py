"""Theorem 1 on many queries of a corpus, in words."""

import numpy as np

from engine.progress import counted
from engine.theory.segments import Segments
from engine.wording import decimal, percent


def segments_said(segments: Segments, queries: int, words: int) -> tuple[str, ...]:
    """What the pairs of so many queries show, sentence by sentence, the verdict first. words: of a passage."""
    pairs, asked = len(segments), counted(queries, "query", "queries")
    if not pairs:
        return (f"No pairs: none of {asked} shares words with two documents.",)
    promised, apart = int(segments.promised.sum()), int(segments.apart.sum())
    verdict = " and holds for all of them" if not segments.broken else f", violated for {segments.broken:,}"
    sentences = [
        f"The theorem covers {promised:,} of {counted(pairs, 'pair')} ({percent(promised / pairs)}) from {asked}"
        + (f"{verdict}." if promised else "."),
        *(["This should be impossible: please report it."] if segments.broken else []),
        f"It covers pairs whose best document has all query words in one passage of {counted(words, 'word')}.",
    ]
    passages = segments.passages[~np.isnan(segments.passages)]
    if len(passages):
        medians = (decimal(float(np.median(values))) for values in (passages, segments.documents))
        sentences.append(
            f"Real passages, for which nothing is proved: {percent(segments.passages_gain)} of the pairs keep at least "
            "the documents' margin (median {}, documents {}).".format(*medians)
        )
    sentences.append(
        "The theorem assumes segments without common words. "
        + (
            f"In {percent((pairs - apart) / pairs)} of the pairs the best passages share words with the rest of their "
            "documents."
            if pairs > apart
            else "Here no best passage shares a word with the rest of its document; a short document is one passage."
        )
    )
    return tuple(sentences)
