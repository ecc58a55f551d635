"""Gain of several vectors per document: the margins of matching segments (sparse-dense paper, §3, Theorem 1)."""

from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from engine.candidates import without_autocast
from engine.display import OneLine
from engine.errors import DataError
from engine.params import Whole
from engine.progress import Progress, Stop, with_cancellation
from engine.space import Space
from engine.text.bag_of_words import count_words
from engine.text.tokenizer import terms
from engine.theory.margins import margin
from engine.theory.text_vectors import iterate_best_margins, require_texts, tf_idf
from engine.values import Corpus

PASSAGE_LENGTH = Whole(
    50, "l", 1, name="passage_words", title="words of a passage", help="Documents are cut after so many."
)
N_RIVALS = Whole(
    10, "rivals", 1, name="rivals", title="next best documents", help="How many of the next best documents a query has."
)
MARGIN_TOLERANCE = 1e-9
"""Rounding error of inner products that count as equal, as a share of the lengths."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentMargins(OneLine):
    """A query, two documents and the segments they are sums of: both margins, and the theorem's premises.

    A margin is by how much the first outscores the second, as a share of the lengths. Segments are parts of a document,
    such as passages, compared at one position of both.
    """

    documents: float  # margin of the documents
    segments: float  # of the two segments at position `at`, NaN where they are one vector
    at: int
    ordered: bool  # the first premise: ⟨q, d₁⟩ > ⟨q, d₂⟩
    orthogonal: bool  # segments of different positions are, within a document and across
    matched: bool  # ⟨q, d₁⟩ = ⟨q, d₁⁽ⁱ⁾⟩
    bounded: bool  # ⟨q, d₂⟩ ≥ ⟨q, d₂⁽ⁱ⁾⟩

    @property
    def promised(self) -> bool:
        """True if all premises of Theorem 1 hold: the segments' margin must then be at least the documents'.

        A margin is the lead in score of the best document over another, ⟨q, d₁ − d₂⟩ / (|q||d₁ − d₂|); segments are the
        parts into which documents are cut. The theorem is that of the sparse-dense paper.
        """
        return self.ordered and self.orthogonal and self.matched and self.bounded

    @property
    def holds(self) -> bool:
        """True if the margin of the two segments is at least that of their documents, as Theorem 1 says.

        A margin is the lead in score of one vector over another, ⟨q, d₁ − d₂⟩ / (|q||d₁ − d₂|); segments are parts of
        the two documents, such as passages. Theorem 1 is the sparse-dense paper's.
        """
        return self.segments >= self.documents - MARGIN_TOLERANCE


def segment_margins(query: Any, first: Any, second: Any, at: int | None = None) -> SegmentMargins:
    """Compute both margins of Theorem 1 for two documents, and which of its premises hold.

    Segments of one position need not be orthogonal to each other: the proof uses those of different positions only.

    Parameters
    ----------
    query : array
        (v,) vector of the query.
    first : array
        (m, v) segments of the first document, whose sum is the document.
    second : array
        (m, v) segments of the second document.
    at : int or None
        The segment that the query refers to; by default the first document's best.

    Returns
    -------
    SegmentMargins
        The margins and the premises.

    Raises
    ------
    DataError
        If the shapes do not fit.

    Examples
    --------
    >>> import engine
    >>> margins = engine.segment_margins([1.0, 0.0], [[1.0, 0.0], [0.0, 1.0]], [[0.5, 0.0], [0.0, 1.0]])
    """
    # One row for each of the m segments of a document.
    q, a, b = (np.asarray(argument, dtype=np.float64) for argument in (query, first, second))
    are_segments = a.ndim == 2 and a.shape == b.shape and len(a) > 0
    if q.ndim != 1 or not are_segments or a.shape[1] != len(q):
        raise DataError(
            f"first and second must be (m, {len(q) if q.ndim == 1 else 'v'}) segments, m alike and 1 or more, and "
            f"query one vector; got {a.shape}, {b.shape} and {q.shape}"
        )
    position = int((a @ q).argmax()) if at is None else at
    if isinstance(position, bool) or not isinstance(position, int) or not 0 <= position < len(a):
        raise DataError(f"at must be a whole number in [0, {len(a) - 1}], a segment's position; got {position!r}")
    # Theorem 1: a document is the sum of its segments, and the query meets only the segment at one position of both.
    d1, d2 = a.sum(axis=0), b.sum(axis=0)
    tolerance = MARGIN_TOLERANCE * np.linalg.norm(q) * max(np.linalg.norm(d1), np.linalg.norm(d2))
    # Orthogonality is wanted of different positions only, hence without the three diagonals.
    products = np.abs(np.concatenate([a @ a.T, a @ b.T, b @ b.T]))
    cross_products = products[np.tile(~np.eye(len(a), dtype=bool), (3, 1))]
    segment_1, segment_2 = a[position], b[position]
    return SegmentMargins(
        documents=margin(q, d1, d2), segments=margin(q, segment_1, segment_2), at=position,
        ordered=bool(q @ d1 > q @ d2),
        orthogonal=bool((cross_products <= MARGIN_TOLERANCE * products.max()).all()),
        matched=bool(abs(q @ d1 - q @ segment_1) <= tolerance), bounded=bool(q @ d2 >= q @ segment_2 - tolerance),
    )  # fmt: skip


@dataclass(frozen=True, eq=False, kw_only=True)
class Segments(OneLine):
    """Pairs of a query's best document and another, with the margins of the documents and their parts.

    Each column is (m,), one entry a pair.
    """

    query: np.ndarray  # row of the query
    first: np.ndarray  # row of its best document
    second: np.ndarray  # row of the other
    documents: np.ndarray  # margins of the whole documents
    segments: np.ndarray  # of the words of the best document's best passage, taken out of both
    promised: np.ndarray  # True for pairs that meet the premises of Theorem 1
    passages: np.ndarray  # margins of the best passage of each, NaN where the two are one vector
    apart: np.ndarray  # True where these passages are orthogonal to the rest of the two documents

    def __len__(self) -> int:
        return len(self.query)

    @property
    def broken(self) -> int:
        """The number of document pairs that contradict Theorem 1: 0 if it is right.

        Such a pair meets the premises of the sparse-dense paper's theorem, but the margin of its segments is below that
        of the whole documents. Segments are parts of the documents. A margin is ⟨q, d₁ − d₂⟩ / (|q||d₁ − d₂|).
        """
        return int((self.segments[self.promised] < self.documents[self.promised] - MARGIN_TOLERANCE).sum())

    @property
    def passages_gain(self) -> float:
        """Share of document pairs whose best passages have at least the documents' margin; NaN without any.

        A margin is the lead in score of the best document over another, ⟨q, d₁ − d₂⟩ / (|q||d₁ − d₂|). The sparse-dense
        paper's theorem on segments, which are orthogonal to each other, proves nothing of passages, which are not.
        """
        return float((self.passages >= self.documents - MARGIN_TOLERANCE).mean()) if len(self) else float("nan")


@without_autocast
def segments(
    space: Space | Corpus,
    queries: Any,
    *,
    passage_words: int = PASSAGE_LENGTH.default,
    rivals: int = N_RIVALS.default,
    progress: Progress | None = None,
    stop: Stop | None = None,
) -> Segments:
    """Check Theorem 1 on a corpus: margins of documents, of segments that meet its premises, and of passages.

    Words count as often as they occur, times their idf in the query, so that a document is the sum of its passages,
    which it is not with BM25's weights. Segments are a part of the vocabulary, the words of the best passage of the
    best document, and so orthogonal to the rest; the theorem is about pairs in which these are all words of the query
    that the document has. Real passages share words: they are not orthogonal, and nothing is proved of them.

    Parameters
    ----------
    space : Space or Corpus
        As in `margins`, for words.
    queries : object
        As in `margins`, for words.
    passage_words : int
        The length of passages in words.
    rivals : int
        The number of documents to compare with: the best of those that score above 0 and below the best.
    progress : callable or None
        Called repeatedly as progress(done, total, label).
    stop : callable or None
        The work is cancelled once it returns true.

    Returns
    -------
    Segments
        The margins by query.

    Raises
    ------
    ParamError, DataError
        If an argument is invalid or inputs do not belong together.
    Cancelled
        If it is stopped.

    Examples
    --------
    >>> result = engine.segments(corpus, ["red apple"])  # doctest: +SKIP
    """
    passage_words, rivals = PASSAGE_LENGTH.check(passage_words), N_RIVALS.check(rivals)
    corpus = space.corpus if isinstance(space, Space) else space
    documents, query_rows, columns = tf_idf(space, require_texts(queries))

    def best_passage(row: int, q: np.ndarray) -> np.ndarray:
        """Return the (v,) word counts of the passage of a document that scores best for a query, q."""
        words = terms(corpus.passages[row])
        starts = range(0, len(words), passage_words)
        passages, _columns = count_words([words[start : start + passage_words] for start in starts], columns)
        passage: np.ndarray = passages[[int((passages @ q).argmax())]].toarray()[0]
        return passage

    # One type for each field of Segments, in order.
    column_types = (np.int64, np.int64, np.int64, float, float, bool, float, bool)
    # A row for each pair: query, best document, rival, and their margins.
    pair_rows: list[tuple[Any, ...]] = []
    report = with_cancellation(progress, stop, "segments were not measured to the end; nothing is kept")
    for block_rows, best_rows, scores, _margins in iterate_best_margins(documents, query_rows):
        for query, (best, query_scores) in enumerate(zip(best_rows.tolist(), scores, strict=True), block_rows.start):
            report(query, query_rows.shape[0], "margins of segments")
            # −1 stands for a query that shares no word with a document.
            if best < 0:
                continue
            rival_rows = np.flatnonzero((query_scores < query_scores[best]) & (query_scores > 0))
            q, best_vector = query_rows[[query]].toarray()[0], documents[[best]].toarray()[0]
            passage = best_passage(best, q)
            # Columns of the vocabulary are orthogonal: splitting both documents by the passage's words makes segments
            # that meet the premises wherever the passage has all of the query's words in the document.
            in_passage = passage > 0
            for rival in rival_rows[np.argsort(-query_scores[rival_rows], kind="stable")[:rivals]].tolist():
                rival_vector = documents[[rival]].toarray()[0]
                best_segments = np.stack([best_vector * in_passage, best_vector * ~in_passage])
                rival_segments = np.stack([rival_vector * in_passage, rival_vector * ~in_passage])
                by_words = segment_margins(q, best_segments, rival_segments, at=0)
                rival_passage = best_passage(rival, q)
                # Real passages share words with the rest of their document: the theorem promises nothing of these.
                best_parts = np.stack([passage, best_vector - passage])
                rival_parts = np.stack([rival_passage, rival_vector - rival_passage])
                by_passages = segment_margins(q, best_parts, rival_parts, at=0)
                word_margins = by_words.documents, by_words.segments, by_words.promised
                pair_rows.append((query, best, rival, *word_margins, by_passages.segments, by_passages.orthogonal))
    column_names = [field.name for field in fields(Segments)]
    table = np.array(pair_rows, dtype=list(zip(column_names, column_types, strict=True)))
    return Segments(**{name: np.ascontiguousarray(table[name]) for name in column_names})
