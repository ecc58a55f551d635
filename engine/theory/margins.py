"""Margins of best and of relevant documents, by document length (sparse-dense paper, §2.1, Fig. 3a)."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from engine.candidates import without_autocast
from engine.display import OneLine
from engine.errors import DataError, ParamError
from engine.params import Whole
from engine.progress import Progress, Stop, with_cancellation
from engine.space import Space
from engine.theory.text_vectors import (
    LENGTH_BINS,
    QUERY_BLOCK,
    VECTORS,
    compute_margins_over,
    compute_squared_norms,
    inner_products,
    iterate_best_margins,
    make_length_bins,
    text_vectors,
)
from engine.values import Corpus, Embeddings, Qrels, Queries

MARGIN_RANK = Whole(1, "ranks", 1, name="ranks", help="1 is the smallest margin, 10 the tenth smallest.")
MARGIN_RANKS = (1, 10, 100, 1000)
QUANTILES = {"low": 0.05, "lower": 0.25, "median": 0.5, "upper": 0.75, "high": 0.95}


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class MarginSpread(OneLine):
    """Margins over documents of like length."""

    least: int  # least, most: range of the documents' lengths in words
    most: int
    documents: int  # their number in the corpus
    values: np.ndarray  # the margins, ascending
    low: float | None  # low, lower, median, upper, high: their 5, 25, 50, 75 and 95% quantiles, None without any
    lower: float | None
    median: float | None
    upper: float | None
    high: float | None


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class LengthMargins(MarginSpread):
    """The rank-th smallest margins of queries' best documents, over documents of like length.

    rank: 1 is the smallest; queries: the number with `rank` margins
    """

    rank: int
    queries: int


@dataclass(frozen=True, eq=False, kw_only=True)
class Margins(OneLine):
    """Margins of each query's best document over the others."""

    vectors: str  # "bm25", "boolean" or "dense"
    rows: tuple[LengthMargins, ...]  # bin by bin, rank by rank
    smallest: float | None  # the smallest margin above 0, None without any
    pairs: int  # number of pairs of a best document with another
    tied: int  # pairs of equal scores
    repeated: int  # pairs of equal vectors, which have no margin
    unanswered: int  # number of (query, bin) cases where all documents score 0


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class RelevantMargins(MarginSpread):
    """The smallest margin of each relevant document over the irrelevant ones, by document length.

    It is below 0 where an irrelevant document outscores the relevant one.
    """

    first: float | None  # the share above 0, None without any


def margin(query: Any, first: Any, second: Any) -> float:
    """Compute the margin ⟨q, d₁ − d₂⟩ / (|q||d₁ − d₂|) of two documents (sparse-dense paper, Definition 2.1).

    Parameters
    ----------
    query : array of shape (d,)
        The vector of the query.
    first : array of shape (d,)
        The vector of the first document.
    second : array of shape (d,)
        The vector of the second document.

    Returns
    -------
    float
        The margin, in [−1, 1]; NaN if q is zero or the documents have one vector.

    Raises
    ------
    DataError
        If the vectors have different lengths.

    Examples
    --------
    >>> import engine
    >>> engine.margin([1.0, 0.0], [1.0, 0.0], [0.0, 0.0])
    1.0
    """
    q, a, b = (np.asarray(v, dtype=np.float64) for v in (query, first, second))
    if q.ndim != 1 or not q.shape == a.shape == b.shape:
        raise DataError(f"query, first and second must be vectors of one length; got {q.shape}, {a.shape}, {b.shape}")
    lengths = np.linalg.norm(q) * np.linalg.norm(a - b)
    return float(np.clip(q @ (a - b) / lengths, -1, 1)) if lengths > 0 else float("nan")


@without_autocast
def margins(
    space: Space | Corpus,
    queries: Any,
    vectors: str = VECTORS.default,
    *,
    ranks: Sequence[int] = MARGIN_RANKS,
    bins: int = LENGTH_BINS.default,
    progress: Progress | None = None,
    stop: Stop | None = None,
) -> Margins:
    """Compute the margins of each query's best document over the others, by document length.

    A margin is the lead in score of one document over another, as a share of the lengths: ⟨q, d₁ − d₂⟩ / (|q||d₁ −
    d₂|). The best document is the best within each bin. Pairs of equal scores have no order: they are counted and left
    out, like documents that are repeated word for word.

    Parameters
    ----------
    space : Space or Corpus
        A corpus, or a Space for vectors="dense".
    queries : object
        Queries or plain text, or Embeddings with their texts.
    vectors : str
        "bm25", "boolean" or "dense".
    ranks : sequence of int
        Ranks of the margins to return; 1 is the smallest.
    bins : int
        The number of bins of documents of similar length, equally large.
    progress : callable or None
        Called repeatedly as progress(done, total, label).
    stop : callable or None
        The work is cancelled once it returns true.

    Returns
    -------
    Margins
        The margins in each bin.

    Raises
    ------
    ParamError, DataError
        If an argument is invalid or inputs do not belong together.
    Cancelled
        If it is stopped.

    Examples
    --------
    >>> import engine, torch
    >>> corpus = engine.Corpus(("a", "b", "c"), ("red apple", "green apple", "blue sky"))
    >>> space = engine.Space(corpus, engine.Embeddings(("a", "b", "c"), torch.eye(3)))
    >>> queries, qrels = engine.Embeddings(("q",), torch.tensor([[1.0, 0.5, 0.1]])), engine.Qrels({"q": {"a": 1}})
    >>> result = engine.margins(corpus, ["red apple"], bins=1, ranks=[1])
    """
    if isinstance(ranks, int) or not len(ranks):
        raise ParamError(f"ranks must be a list of whole numbers in [1, ∞); got {ranks!r}")
    ranks, bins = list(map(MARGIN_RANK.check, ranks)), LENGTH_BINS.check(bins)
    data = text_vectors(space, queries, vectors)
    results: list[LengthMargins] = []
    # Pairs of a best document with another: all, of equal scores, of equal vectors; and queries without a best one.
    smallest, pair_counts = np.inf, dict.fromkeys(("pairs", "tied", "repeated", "unanswered"), 0)
    bin_rows = make_length_bins(data.lengths, bins)
    blocks, n_done = len(bin_rows) * math.ceil(data.queries.shape[0] / QUERY_BLOCK), 0
    report = with_cancellation(progress, stop)
    # A bin is treated as a corpus of its own, with its own best document: margins compare documents of like length.
    for bin_part in bin_rows:
        by_rank: list[np.ndarray] = []
        for _slice, best_rows, _scores, margin_block in iterate_best_margins(data.documents[bin_part], data.queries):
            answered = best_rows >= 0
            pair_counts["unanswered"] += int((~answered).sum())
            pair_counts["pairs"] += int(answered.sum()) * (len(bin_part) - 1)
            pair_counts["tied"] += int((margin_block[answered] <= 0).sum())
            # The best document against itself is no pair.
            pair_counts["repeated"] += int(np.isnan(margin_block[answered]).sum() - answered.sum())
            # NaN sorts last, so that the rank-th column is the rank-th smallest margin above 0, or NaN without one.
            ordered = np.sort(np.where(margin_block > 0, margin_block, np.nan), axis=1)
            smallest = float(np.fmin(smallest, np.nanmin(ordered, initial=np.inf)))
            by_rank.append(ordered[:, np.minimum(ranks, len(bin_part)) - 1])
            n_done += 1
            report(n_done, blocks, "margins")
        for rank, column in zip(ranks, np.concatenate(by_rank).T, strict=True):
            values = column[~np.isnan(column)] if rank <= len(bin_part) else np.empty(0)
            spread = _summarize_spread(data.lengths[bin_part], values)
            results.append(LengthMargins(rank=rank, queries=len(values), **spread))
    min_margin = smallest if math.isfinite(smallest) else None
    return Margins(vectors=vectors, rows=tuple(results), smallest=min_margin, **pair_counts)


@without_autocast
def relevant_margins(
    space: Space | Corpus,
    queries: Queries | Embeddings,
    qrels: Qrels,
    vectors: str = VECTORS.default,
    *,
    bins: int = LENGTH_BINS.default,
    progress: Progress | None = None,
    stop: Stop | None = None,
) -> tuple[RelevantMargins, ...]:
    """Compute each relevant document's smallest margin over the irrelevant ones, in bins by its length.

    A margin is the lead in score ⟨q, d₁ − d₂⟩ of a relevant document d₁ over an irrelevant d₂, divided by |q||d₁ − d₂|.
    It is below 0 if the irrelevant one is ahead. `margins` takes the best-scoring document for the right one; here the
    judgements decide. space, vectors, bins: as in `margins`; queries: with texts, and ids that name the judgements.
    Irrelevant documents with the relevant one's vector are left out, as are queries without a vector (none of their
    words in the corpus). Raises ParamError, DataError and Cancelled.
    """
    if not isinstance(queries, Queries | Embeddings) or not isinstance(qrels, Qrels):
        raise DataError("relevant margins need engine.Queries or Embeddings, whose ids name judgements, and Qrels")
    data = text_vectors(space, queries, vectors)
    corpus = space.corpus if isinstance(space, Space) else space
    norms, lengths = compute_squared_norms(data.documents), np.sqrt(compute_squared_norms(data.queries))
    relevant_rows: list[int] = []
    smallest: list[float] = []
    report = with_cancellation(progress, stop)
    for query_index, query in enumerate(queries.ids):
        available = corpus.position.keys() & qrels.relevant(query)
        relevant = np.array(sorted(map(corpus.position.__getitem__, available)), np.int64)
        if len(relevant) and lengths[query_index] > 0:
            scores = inner_products(data.queries[[query_index]], data.documents)[0]
            length = lengths[query_index]
            # Of each relevant document over each document, (relevant, n); NaN where their vectors are equal.
            margins_over = compute_margins_over(relevant, scores, scores[relevant], length, data.documents, norms)
            # Two relevant documents have no right order: only irrelevant ones are rivals.
            margins_over[:, relevant] = np.nan
            has_rivals = ~np.isnan(margins_over).all(axis=1)
            relevant_rows += relevant[has_rivals].tolist()
            smallest += np.nanmin(margins_over[has_rivals], axis=1).clip(-1).tolist()
        report(query_index + 1, len(queries.ids), "margins")
    margin_rows, values = np.array(relevant_rows, dtype=np.int64), np.array(smallest)
    results = []
    for bin_rows in make_length_bins(data.lengths, bins):
        bin_values = values[np.isin(margin_rows, bin_rows)]
        first_share = float((bin_values > 0).mean()) if len(bin_values) else None
        results.append(RelevantMargins(first=first_share, **_summarize_spread(data.lengths[bin_rows], bin_values)))
    return tuple(results)


def _summarize_spread(lengths: np.ndarray, values: np.ndarray) -> dict[str, Any]:
    """Return the fields of a MarginSpread: range of lengths, number of documents, margins and quantiles.

    lengths: of the documents of one bin, in words; values: their margins
    """
    quantiles = np.quantile(values, list(QUANTILES.values())).tolist() if len(values) else [None] * len(QUANTILES)
    length_range = {"least": int(lengths.min()), "most": int(lengths.max()), "documents": len(lengths)}
    return length_range | {"values": np.sort(values)} | dict(zip(QUANTILES, quantiles, strict=True))
