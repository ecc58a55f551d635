"""How clearly queries tell their relevant documents from the rest, by the documents' length (sparse-dense paper, §2.1).

Beside `margins`, which takes the document that scores best for the right one: here the judgements say which is.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from engine.candidates import exactly
from engine.errors import Cancelled, DataError
from engine.progress import Progress, Stop
from engine.space import Space
from engine.theory.by_length import QUANTILES
from engine.theory.represented import BINS, SAME, VECTORS, inner, represented, squares
from engine.theory.words import length_bins
from engine.values import Corpus, Embeddings, Qrels, Queries


@dataclass(frozen=True, slots=True, eq=False)
class RelevantMargins:
    """Relevant documents of like length against the nearest of the rest.

    least, most: words of the documents, from and to; documents: of the corpus, how many; values: for each relevant
    document of a query its smallest margin over documents that are not relevant, rising, below 0 where one scores
    higher; first: the share above 0; low, lower, median, upper, high: the 5, 25, 50, 75 and 95 % quantiles. None
    without any.
    """

    least: int
    most: int
    documents: int
    values: np.ndarray
    first: float | None
    low: float | None
    lower: float | None
    median: float | None
    upper: float | None
    high: float | None


@exactly
def relevant_margins(
    space: Space | Corpus,
    queries: Queries | Embeddings,
    qrels: Qrels,
    vectors: str = VECTORS.default,
    *,
    bins: int = BINS.default,
    progress: Progress | None = None,
    stop: Stop | None = None,
) -> tuple[RelevantMargins, ...]:
    """The smallest margin of each relevant document over the documents that are not relevant, by its length.

    space, vectors, bins: as `margins` takes them; queries: with ids, which name the judgements, and texts. Documents
    that are the relevant one's vector again have no margin and are left out, and queries without a vector (none of
    their words in the corpus). Raises ParamError, DataError and Cancelled.
    """
    if not isinstance(queries, Queries | Embeddings) or not isinstance(qrels, Qrels):
        raise DataError("relevant margins need engine.Queries or Embeddings, whose ids name judgements, and Qrels")
    data = represented(space, queries, vectors)
    corpus = space.corpus if isinstance(space, Space) else space
    own, lengths = squares(data.documents), np.sqrt(squares(data.queries))
    rows: list[int] = []
    values: list[float] = []
    for at, query in enumerate(queries.ids):
        if stop is not None and stop.is_set():
            raise Cancelled("the measurement was stopped")
        relevant = [corpus.position[d] for d in qrels.relevant(query) if d in corpus.position]
        if relevant and lengths[at] > 0:
            scores = inner(data.queries[[at]], data.documents)[0]
            mixed = inner(data.documents[relevant], data.documents)
            for row, products in zip(relevant, mixed, strict=True):
                apart = own[row] + own - 2 * products
                rivals = apart > SAME * (own[row] + own)
                rivals[relevant] = False
                if rivals.any():
                    found = (scores[row] - scores[rivals]) / (lengths[at] * np.sqrt(apart[rivals]))
                    rows.append(row)
                    values.append(float(np.clip(found.min(), -1, 1)))
        if progress:
            progress(at + 1, len(queries.ids), "margins")
    places, margins = np.array(rows, dtype=np.int64), np.array(values)
    parts = []
    for part in length_bins(data.lengths, bins):
        mine = np.sort(margins[np.isin(places, part)])
        marks = np.quantile(mine, QUANTILES).tolist() if len(mine) else [None] * len(QUANTILES)
        first = float((mine > 0).mean()) if len(mine) else None
        ends = int(data.lengths[part].min()), int(data.lengths[part].max())
        parts.append(RelevantMargins(*ends, len(part), mine, first, *marks))
    return tuple(parts)
