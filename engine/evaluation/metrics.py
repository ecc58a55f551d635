"""Metrics of a retrieved set, per query: its relevance and its diversity.

Recall, Comp, nDCG, MRR, Precision and Holes need judgements, α-nDCG and S-recall aspects, answer coverage answers,
cos(sum, query) the queries' vectors; ILAD and redundancy need nothing but the set.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import cached_property, partial
from itertools import compress, filterfalse
from typing import Literal, TypeVar

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import embedding_bag

from engine.candidates import without_autocast
from engine.decoder import SET_SIZE
from engine.display import DataFrame, Tabular, build_rows_table, describe_means
from engine.errors import DataError, ParamError
from engine.evaluation.aspects import Aspects, Coverage, Judgements, load_coverage, load_judgements
from engine.evaluation.duplicate_threshold import (
    COSINE_TOLERANCE,
    MIN_DUPLICATE_COSINE,
    check_duplicate_threshold,
    normalize_rows,
    resolve_duplicate_threshold,
)
from engine.matrix import CHUNK_NUMBERS, GRAM_ROWS
from engine.progress import counted
from engine.selection.per_source import number_sources
from engine.space import Elsewhere, Space, find_own_documents, resolve_local_space
from engine.values import Embeddings, Qrels, Queries, Ranking
from engine.wording import suggest_name

ValueT = TypeVar("ValueT")
ResultT = TypeVar("ResultT")
READING_BUDGET_WORDS = 400
"""Words that a reader of the ranking takes, best document first."""
MAX_CACHED_NUMBERS = 1 << 19
"""Numbers of float64 in a block that is read more than once, so that it stays in the cache (4 MiB)."""
MAX_SERIAL_NUMBERS = (1 << 15) - 1
"""PyTorch cuts passes over more numbers into threads, which wait for each other longer than a small pass takes."""


@dataclass(frozen=True, eq=False, kw_only=True)
class RetrievedSets:
    """The sets of B queries with all that metrics need, computed on first use."""

    rows: Tensor  # (B, k) int64, −1 pads
    space: Space
    ids: tuple[str, ...]
    qrels: Qrels | None
    aspects: Aspects | None
    query_vectors: Tensor  # of the queries, (·, d), empty where they have none
    query_index: np.ndarray | None = None  # (B,) position in `ids` of each set's query, where a query has several sets
    answers: Aspects | None = None
    source: str | None = None  # the metadata column that names the documents' sources
    duplicate_threshold: float | None = None  # cosine of near-duplicates, None for the default of the corpus

    @cached_property
    def index(self) -> np.ndarray:
        """The (B, k) rows as a NumPy array."""
        return self.rows.cpu().numpy()

    @cached_property
    def judgements(self) -> Judgements:
        """The judgements of each set's query, as arrays."""
        judgements = load_judgements(self.space, self.ids, self.qrels or Qrels({}))
        return judgements if self.query_index is None else judgements.select_queries(self.query_index)

    @cached_property
    def grades(self) -> np.ndarray:
        """The (B, k) grades of the returned documents, 0 where unjudged or padded."""
        return self.judgements.look_up_grades(self.index)

    @property
    def hits(self) -> np.ndarray:
        """The (B, k) mask of relevant documents among the returned ones."""
        return self.grades >= self.judgements.relevant_from

    @cached_property
    def n_relevant(self) -> np.ndarray:
        """The (B,) numbers of relevant documents; NaN where there is none."""
        return np.where(self.judgements.n_relevant > 0, self.judgements.n_relevant, np.nan)

    def count_documents(self, metrics: Iterable[str] = ()) -> dict[str, np.ndarray]:
        """Count documents by query: name → (B,) whole numbers.

        "returned", and with judgements "judged" and "relevant" among those, and "total_relevant" in the judgements;
        "relevant_next" and "total_relevant_next" count from the next grade on, if the judgements have one. metrics:
        those that have a count of their own add it, from the next grade on too, as "mrr_next"
        """
        counts = {"returned": (self.index >= 0).sum(1)}
        if self.qrels is None:
            return counts
        judgements = self.judgements
        counts |= {"judged": judgements.find_judged(self.index).sum(1), "relevant": self.hits.sum(1)}
        counts["total_relevant"] = judgements.n_relevant
        if judgements.next_level is not None:
            next_hits = self.grades >= judgements.next_level
            counts["relevant_next"] = next_hits.sum(1)
            counts["total_relevant_next"] = judgements.n_relevant_next
            for name in metrics:
                if (own_count := METRICS[name].own_count) is not None:
                    counts[METRICS[name].next_count_name] = own_count(self, next_hits)
        return counts

    @cached_property
    def coverage(self) -> Coverage:
        """The aspects of each set's query, as arrays, with the documents that cover them."""
        coverage = load_coverage(self.space, self.ids, self.aspects or {}, self.rows.shape[1])
        return coverage if self.query_index is None else coverage.select_queries(self.query_index)

    def select_query_vectors(self) -> Tensor:
        """Return the (B, d) vector of each set's query."""
        return self.query_vectors if self.query_index is None else self.query_vectors[self.query_index]

    def iterate_sets(self) -> Iterator[tuple[str, np.ndarray]]:
        """Yield each set's query id and rows, without pads."""
        # `query_index` is given where several sets belong to one query.
        query_index = range(len(self.ids)) if self.query_index is None else self.query_index.tolist()
        for position, row_index in zip(query_index, self.index, strict=True):
            yield self.ids[position], row_index[row_index >= 0]


Need = Literal["qrels", "aspects", "vectors", "answers", "source"]
NEED_TITLES: dict[Need, str] = {
    "qrels": "judgements (qrels)",
    "aspects": "aspects (aspects=data.aspects)",
    "answers": "answers (answers=, as engine.data.answers.containing_documents makes them)",
    "vectors": "the queries' vectors (queries=Embeddings)",
    "source": "the column that names the documents' sources (source=)",
}


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric of retrieved sets: one number a query.

    title: as charts write it; needs: input required besides the sets; on_request: measured only where it is named;
    own_count: a whole number a query, from the sets and a mask of their relevant documents, None for the number of
    these documents; from_counts: computes the values from (that count, relevant documents in the judgements, k);
    ignores_level: the grade from which documents count as relevant changes no value
    """

    name: str
    title: str
    formula: str
    needs: Need | None
    compute: Callable[[RetrievedSets], np.ndarray]
    lower_is_better: bool = False
    _: KW_ONLY
    on_request: bool = False
    own_count: Callable[[RetrievedSets, np.ndarray], np.ndarray] | None = None
    from_counts: Callable[[np.ndarray, np.ndarray, int], np.ndarray] | None = None
    ignores_level: bool = False

    @property
    def next_count_name(self) -> str:
        """The name of its count from the next grade on, among the counts of documents."""
        return "relevant_next" if self.own_count is None else f"{self.name}_next"

    @property
    def is_judged_share(self) -> bool:
        """True if its values lie in [0, 1], as all do that judgements, aspects or answers give."""
        return self.needs in ("qrels", "aspects", "answers")

    def evaluate(self, sets: RetrievedSets) -> np.ndarray:
        """Return the (B,) values of the metric in float64, NaN for queries where it is undefined.

        A metric that needs judgements is undefined for a query without a relevant document.
        """
        metric_values = self.compute(sets)
        if self.needs != "qrels":
            return metric_values
        return np.where(np.isnan(sets.n_relevant), np.nan, metric_values)

    def evaluate_next_level(self, values: np.ndarray, counts: Mapping[str, np.ndarray], k: int) -> np.ndarray | None:
        """Return the (B,) values if documents counted as relevant from the next grade on; None where that is unknown.

        values: (B,) at the level that was measured; counts: those of `RetrievedSets.count_documents`
        """
        if self.needs != "qrels":
            return values
        if self.next_count_name not in counts or not (self.ignores_level or self.from_counts):
            return None
        total = np.where(counts["total_relevant_next"] > 0, counts["total_relevant_next"], np.nan)
        if self.from_counts is not None:
            values = self.from_counts(counts[self.next_count_name], total, k)
        return np.where(np.isnan(total), np.nan, values)


@dataclass(frozen=True, kw_only=True)
class Measures(Tabular):
    """Metrics at k of B queries."""

    k: int
    per_query: Mapping[str, Mapping[str, float]]  # metric → query id → value, without the queries that lack it
    mean: Mapping[str, float]  # metric → mean over those, NaN if there are none
    left_out: int  # number of queries without a document judged relevant, and so without recall
    undefined: Mapping[str, int]  # metric → number of queries for which it is undefined
    values: Mapping[str, np.ndarray] = field(compare=False, repr=False)  # metric → (B,), NaN where undefined
    counts: Mapping[str, np.ndarray] = field(compare=False, repr=False)  # (B,) documents returned, judged, relevant …

    def _describe(self) -> str:
        n_queries = max((len(values) for values in self.values.values()), default=0)
        return f"{describe_means(self.mean)} at k={self.k}, {counted(n_queries, 'query', 'queries')}"

    def to_frame(self) -> DataFrame:
        """Return one row for each query and metric that it has; columns: query, k, metric, value."""
        columns = ("query", "k", "metric", "value")
        rows = [
            (query_id, self.k, metric, value)
            for metric, query_values in self.per_query.items()
            for query_id, value in query_values.items()
        ]
        return build_rows_table(rows, columns)


def _compute_ndcg(sets: RetrievedSets) -> np.ndarray:
    """Return the (B,) nDCG: discounted gain over that of the best list; NaN without a grade above 0."""
    ideal_gain = _discount_grades(sets.judgements.compute_ideal_grades(sets.rows.shape[1]))
    return _discount_grades(sets.grades) / np.where(ideal_gain > 0, ideal_gain, np.nan)


def _rank_first(sets: RetrievedSets, is_relevant: np.ndarray) -> np.ndarray:
    """Return the (B,) ranks from 1 of the first relevant documents, 0 without one; is_relevant: (B, k) mask."""
    return np.where(is_relevant.any(1), is_relevant.argmax(1) + 1, 0)


def _invert_ranks(ranks: np.ndarray) -> np.ndarray:
    """Return 1 / rank, 0 for a rank of 0."""
    return np.where(ranks > 0, 1 / np.maximum(ranks, 1), 0.0)


def find_documents_read(sets: RetrievedSets, budget: int) -> np.ndarray:
    """Return a (B, k) mask of the first documents that together fit into `budget` words.

    Reading ends at the first document that does not fit; the best one is always read.
    """
    passages = sets.space.corpus.passages
    # Computed once for a space, which keeps the result.
    word_counts = sets.space.derived("words a document", lambda: np.array([len(text.split()) for text in passages]))
    returned: np.ndarray = sets.index >= 0
    is_read = returned & (np.where(returned, word_counts[sets.index], 0).cumsum(1) <= budget)
    # No budget is too small for the best document.
    is_read[:, 0] = returned[:, 0]
    return is_read


def compute_budget_recall(sets: RetrievedSets, budget: int = READING_BUDGET_WORDS) -> np.ndarray:
    """Return the (B,) share of the relevant documents that are read within a budget of words."""
    read_share: np.ndarray = (sets.hits & find_documents_read(sets, budget)).sum(1) / sets.n_relevant
    return read_share


def compute_answer_coverage(sets: RetrievedSets, budget: int = READING_BUDGET_WORDS) -> np.ndarray:
    """Return the (B,) share of answers found in the first documents that fit a budget of words.

    It is NaN for a query without answers.
    """
    n_read, covered_shares, doc_ids = find_documents_read(sets, budget).sum(1), [], sets.space.corpus.ids
    for (query_id, row_index), n_documents in zip(sets.iterate_sets(), n_read.tolist(), strict=True):
        answers = (sets.answers or {}).get(query_id, {})
        read_ids = set(map(doc_ids.__getitem__, row_index[:n_documents].tolist()))
        n_missed = sum(map(read_ids.isdisjoint, answers.values()))
        covered_shares.append((len(answers) - n_missed) / len(answers) if answers else np.nan)
    return np.array(covered_shares)


def _compute_holes(sets: RetrievedSets) -> np.ndarray:
    """Return the (B,) share of retrieved documents that nobody judged; NaN for an empty set."""
    n_returned = (sets.index >= 0).sum(1)
    n_judged = sets.judgements.find_judged(sets.index).sum(1)
    holes: np.ndarray = 1 - n_judged / np.where(n_returned > 0, n_returned, np.nan)
    return holes


def _compute_unique_sources(sets: RetrievedSets) -> np.ndarray:
    """Return the (B,) number of sources over that of documents returned; NaN for an empty set."""
    sources = number_sources(sets.space, sets.source or "")
    shares = []
    for _, row_index in sets.iterate_sets():
        shares.append(len(np.unique(sources[row_index])) / len(row_index) if len(row_index) else np.nan)
    return np.array(shares)


METRICS: dict[str, Metric] = {
    m.name: m
    for m in (
        Metric(
            "recall",
            "Recall",
            "|top-k ∩ rel| / |rel|",
            "qrels",
            lambda f: f.hits.sum(1) / f.n_relevant,
            from_counts=lambda n_hits, n_relevant, k: n_hits / n_relevant,
        ),
        Metric(
            "comp",
            "Comp",
            "1 if all of rel is in the top-k",
            "qrels",
            lambda f: f.hits.sum(1) == f.n_relevant,
            from_counts=lambda n_hits, n_relevant, k: n_hits == n_relevant,
        ),
        Metric("ndcg", "nDCG", "Σ grade/log2(rank+1) over the ideal", "qrels", _compute_ndcg, ignores_level=True),
        Metric(
            "mrr",
            "MRR",
            "1 / rank of the first relevant, 0 if none in the top-k",
            "qrels",
            lambda f: _invert_ranks(_rank_first(f, f.hits)),
            own_count=_rank_first,
            from_counts=lambda ranks, n_relevant, k: _invert_ranks(ranks),
        ),
        Metric(
            "budget_recall",
            f"Recall in {READING_BUDGET_WORDS} words",
            f"|rel among the first of the top-k that have {READING_BUDGET_WORDS} words together| / |rel|; the first "
            "always counts",
            "qrels",
            compute_budget_recall,
            own_count=lambda f, is_relevant: (is_relevant & find_documents_read(f, READING_BUDGET_WORDS)).sum(1),
            from_counts=lambda n_hits, n_relevant, k: n_hits / n_relevant,
        ),
        Metric(
            "precision",
            "Precision",
            "|top-k ∩ rel| / k",
            "qrels",
            lambda f: f.hits.mean(1),
            from_counts=lambda n_hits, n_relevant, k: n_hits / k,
        ),
        Metric(
            "holes",
            "Holes",
            "share of the documents returned that nobody has judged; what recall may miss; measured on request",
            "qrels",
            _compute_holes,
            lower_is_better=True,
            on_request=True,
            ignores_level=True,
        ),
        Metric(
            "ilad",
            "ILAD",
            "mean of 1 − cos over the pairs returned; undefined under two documents",
            None,
            lambda f: compute_ilad(f.space.vectors, f.rows).cpu().numpy(),
        ),
        Metric(
            "alpha_ndcg",
            "α-nDCG",
            "Σ (1−α)^(times its aspects were covered above)/log2(rank+1) over the greedy ideal, α = 0.5",
            "aspects",
            lambda f: f.coverage.alpha_ndcg(f.index),
        ),
        Metric(
            "s_recall",
            "S-recall",
            "share of the query's aspects that the top-k covers",
            "aspects",
            lambda f: f.coverage.s_recall(f.index),
        ),
        Metric(
            "answer_coverage",
            f"Answers in {READING_BUDGET_WORDS} words",
            "share of the query's answer strings in the first of the top-k that have "
            f"{READING_BUDGET_WORDS} words together; the first always counts; measured on request",
            "answers",
            compute_answer_coverage,
            on_request=True,
        ),
        Metric(
            "cos_sum",
            "cos(sum, query)",
            "cosine of the returned vectors' sum and the query's, 0 where either is zero",
            "vectors",
            lambda f: compute_cos_sum(f.space.vectors, f.rows, f.select_query_vectors()).cpu().numpy(),
        ),
        Metric(
            "redundancy",
            "Redundancy",
            "share of the documents returned that are near-duplicates of one above them: a cosine of "
            f"{MIN_DUPLICATE_COSINE:g} or more, or of a high percentile of the corpus's pairs where that is larger",
            None,
            lambda f: (
                compute_redundancy(f.space.vectors, f.rows, resolve_duplicate_threshold(f.space, f.duplicate_threshold))
                .cpu()
                .numpy()
            ),
            lower_is_better=True,
        ),
        Metric(
            "unique_sources",
            "Unique sources",
            "number of sources among the documents returned, over the number of documents; one without a source counts "
            "as a source of its own",
            "source",
            _compute_unique_sources,
        ),
    )
}
LESS_IS_BETTER = frozenset(m.name for m in METRICS.values() if m.lower_is_better)


def title_of(metric: str) -> str:
    """Return a metric's title; the name itself if the metric is not registered."""
    return METRICS[metric].title if metric in METRICS else metric


def write_metric_titles(text: str) -> str:
    """Replace metrics' names before @k in a text by their titles: "held-out nDCG@10" of "held-out ndcg@10"."""
    names = "|".join(sorted(METRICS, key=len, reverse=True))
    return re.sub(rf"\b({names})(?=@\d)", lambda match: title_of(match[1]), text)


def map_values(function: Callable[[ValueT], ResultT], mapping: Mapping[str, ValueT]) -> dict[str, ResultT]:
    """Return the mapping with a function applied to each of its values."""
    return dict(zip(mapping, map(function, mapping.values()), strict=True))


def mean_of_defined(values: np.ndarray) -> float:
    """Return the mean of (n,) values, NaN left out; NaN if all are."""
    defined = values[~np.isnan(values)]
    return float(defined.mean()) if len(defined) else float("nan")


def available_metrics(
    qrels: Qrels | None = None,
    aspects: Aspects | None = None,
    vectors: Queries | Embeddings | None = None,
    source: str | None = None,
) -> tuple[str, ...]:
    """List the names of the metrics that can be measured with these inputs.

    Metrics that are measured only where they are named, `on_request`, are not listed. vectors: the queries; cos(sum,
    query) needs them as Embeddings. source: the column that names the documents' sources
    """
    is_given = {"qrels": bool(qrels), "aspects": bool(aspects), "vectors": isinstance(vectors, Embeddings)}
    is_given["source"] = bool(source)
    names = []
    for metric in METRICS.values():
        if not metric.on_request and (metric.needs is None or is_given[metric.needs]):
            names.append(metric.name)
    return tuple(names)


def check_metrics(names: Iterable[str]) -> None:
    """Raise a ParamError that lists the unknown metrics among `names`."""
    if unknown := list(filterfalse(METRICS.__contains__, names)):
        suggestion = suggest_name(unknown[0], METRICS)
        raise ParamError(f"metrics must be among {', '.join(METRICS)}; got {', '.join(map(repr, unknown))}{suggestion}")


@without_autocast
def measure(
    ranking: Ranking,
    space: Space | Elsewhere,
    queries: Queries | Embeddings | Sequence[str],
    qrels: Qrels | None = None,
    k: int = 10,
    metrics: Sequence[str] = ("recall", "comp", "ndcg", "ilad"),
    aspects: Aspects | None = None,
    answers: Aspects | None = None,
    *,
    source: str | None = None,
    without_self: bool | None = None,
    duplicate_threshold: float | None = None,
) -> Measures:
    """Measure the retrieved set of every query at k.

    A query without a relevant document is left out of recall and the metrics like it and is counted, never scored 0; a
    relevant document outside the corpus counts as missed. The same holds for aspects and answers. A document that is
    the query itself counts neither as returned nor as relevant.

    Parameters
    ----------
    ranking : Ranking
        The decoded ranking of B queries.
    space : Space or Elsewhere
        The space that was searched.
    queries : Queries, Embeddings or sequence of str
        The decoded queries in the same order, or their ids; `cos_sum` needs Embeddings.
    qrels : Qrels or None
        The relevance judgements of the queries.
    k : int
        The number of documents that count.
    metrics : sequence of str
        Names of metrics; `engine.evaluation.metrics.METRICS` lists them with what each needs.
    aspects : mapping or None
        Query id → aspect → ids of the documents that cover it.
    answers : mapping or None
        Query id → answer → ids of the documents that contain it.
    source : str or None
        The metadata column of the corpus that names the sources, for `unique_sources`.
    without_self : bool or None
        Which documents are queries themselves: None those with a query's id and its text, and those that the ranking
        left out as such; True all with its id; False none.
    duplicate_threshold : float or None
        The cosine from which on two documents are near-duplicates, for `redundancy`; None takes the larger of 0.9 and
        a high percentile of random pairs of the corpus, for a corpus in a vector engine 0.9.

    Returns
    -------
    Measures
        The values per query and their means.

    Raises
    ------
    ParamError
        If a metric is unknown or k exceeds the ranking's depth.
    DataError
        If inputs do not belong together or a metric lacks what it needs.

    Examples
    --------
    >>> import engine, torch
    >>> corpus = engine.Corpus(("a", "b"), ("red", "blue"))
    >>> space = engine.Space(corpus, engine.Embeddings(("a", "b"), torch.eye(2)))
    >>> ranking = engine.Ranking(torch.tensor([[0]]), torch.ones(1, 1), ({},))
    >>> engine.measure(ranking, space, ["q"], engine.Qrels({"q": {"a": 1, "b": 1}}), k=1, metrics="recall").mean
    {'recall': 0.5}
    """
    k, space = SET_SIZE.check(k), resolve_local_space(space, ranking)
    threshold = check_duplicate_threshold(duplicate_threshold)
    names = (metrics,) if isinstance(metrics, str) else tuple(metrics)
    check_metrics(names)
    query_ids = tuple(queries.ids) if isinstance(queries, (Queries, Embeddings)) else tuple(queries)
    all_text = all(isinstance(query_id, str) for query_id in query_ids)
    if isinstance(queries, str) or not all_text or len(set(query_ids)) != len(query_ids):
        raise DataError("queries must be engine.Queries, engine.Embeddings, or a list of distinct query ids")
    if qrels is not None and not isinstance(qrels, Qrels):
        raise DataError(f"qrels must be engine.Qrels, as engine.load_qrels returns; got {type(qrels).__name__}")
    # A row beyond the corpus would be looked up as another document.
    largest_row = int(ranking.index.max()) if ranking.index.numel() else -1
    if largest_row >= len(space):
        raise DataError(f"the ranking is not of this corpus: it holds row {largest_row}, the corpus has {len(space)}")
    if len(query_ids) != len(ranking):
        raise DataError(
            f"queries must be those of the ranking: {len(query_ids)} queries, {counted(len(ranking), 'ranking')}"
        )
    if ranking.index.shape[1] < k:
        raise ParamError(f"k ({k}) must be at most the ranking's depth, {ranking.index.shape[1]}; decode with k={k}")
    query_embeddings = queries if isinstance(queries, Embeddings) else None
    vectors = space.fitted(queries).vectors if isinstance(queries, Embeddings) else torch.empty(0, 0)
    inputs: dict[Need, object] = {"qrels": qrels, "aspects": aspects, "vectors": query_embeddings, "answers": answers}
    _check_needs(names, inputs | {"source": source})
    n_dimensions, corpus_dimensions = vectors.shape[1], space.vectors.shape[1]
    if "cos_sum" in names and n_dimensions != corpus_dimensions:
        raise DataError(f"the queries have {counted(n_dimensions, 'dimension')}, the corpus has {corpus_dimensions}")
    query_texts = queries.texts if isinstance(queries, (Queries, Embeddings)) else None
    own_rows = _find_own_rows(ranking, space, query_ids, query_texts, without_self)
    own_ids = map_own_ids(space, query_ids, own_rows)
    sets = RetrievedSets(
        rows=_drop_own_rows(ranking.index, own_rows)[:, :k], space=space, ids=query_ids,
        qrels=drop_own_judgements(qrels, own_ids), aspects=drop_own_coverage(aspects, own_ids), query_vectors=vectors,
        answers=drop_own_coverage(answers, own_ids), source=source,
        duplicate_threshold=threshold,
    )  # fmt: skip
    metric_values = {metric: METRICS[metric].evaluate(sets) for metric in names}
    per_query = map_values(partial(_map_query_values, query_ids), metric_values)
    n_left_out = 0 if qrels is None else _count_undefined(sets.n_relevant)
    n_undefined = map_values(_count_undefined, metric_values)
    means, counts = map_values(mean_of_defined, metric_values), sets.count_documents(names)
    return Measures(
        k=k, per_query=per_query, mean=means, left_out=n_left_out, undefined=n_undefined, values=metric_values,
        counts=counts,
    )  # fmt: skip


def _find_own_rows(
    ranking: Ranking, space: Space, query_ids: Sequence[str], texts: Sequence[str] | None, without_self: bool | None
) -> np.ndarray:
    """Return the (B,) row of the document that each query is, −1 for none; those that the ranking names count too."""
    own_rows = find_own_documents(space, query_ids, texts, without_self)
    if without_self is None:
        for query_index, details in enumerate(ranking.info):
            own_rows[query_index] = details.get("own_document", own_rows[query_index])
    return own_rows


def map_own_ids(space: Space, query_ids: Sequence[str], own_rows: np.ndarray) -> dict[str, str]:
    """Return query id → id of the document that the query is, for those that are one."""
    doc_ids, queries_that_are = space.corpus.ids, np.flatnonzero(own_rows >= 0).tolist()
    return {query_ids[query_index]: doc_ids[own_rows[query_index]] for query_index in queries_that_are}


def _drop_own_rows(row_index: Tensor, own_rows: np.ndarray) -> Tensor:
    """Return (B, k) rows without each query's own document; those behind it move up, and −1 pads."""
    if (own_rows < 0).all():
        return row_index
    own_column = torch.from_numpy(own_rows).to(row_index.device).unsqueeze(1)
    is_own = (row_index == own_column) & (own_column >= 0)
    # A stable sort moves the dropped ones to the end and leaves the order of the others.
    order = is_own.to(torch.int8).argsort(dim=1, stable=True)
    return row_index.masked_fill(is_own, -1).gather(1, order)


def drop_own_judgements(qrels: Qrels | None, own_ids: Mapping[str, str]) -> Qrels | None:
    """Return judgements without those of a query on the document that it is itself. own_ids: query → document."""
    if qrels is None or not any(own_id in qrels.grades.get(query_id, ()) for query_id, own_id in own_ids.items()):
        return qrels
    grades = {}
    for query_id, query_grades in qrels.grades.items():
        own_id = own_ids.get(query_id)
        grades[query_id] = {doc_id: grade for doc_id, grade in query_grades.items() if doc_id != own_id}
    return replace(qrels, grades=grades)


def drop_own_coverage(aspects: Aspects | None, own_ids: Mapping[str, str]) -> Aspects | None:
    """Return aspects or answers without the documents that are the queries themselves; those left empty go."""
    if not aspects or not own_ids:
        return aspects
    remaining = dict(aspects)
    for query_id, own_id in own_ids.items():
        if query_id in aspects:
            named_sets = {name: frozenset(doc_ids) - {own_id} for name, doc_ids in aspects[query_id].items()}
            remaining[query_id] = {name: doc_ids for name, doc_ids in named_sets.items() if doc_ids}
    return remaining


def _count_undefined(values: np.ndarray) -> int:
    return int(np.isnan(values).sum())


def _map_query_values(query_ids: Sequence[str], values: np.ndarray) -> dict[str, float]:
    """Map the ids of the queries that have a metric to its values; NaN is left out."""
    is_defined = ~np.isnan(values)
    defined_ids = query_ids if is_defined.all() else compress(query_ids, is_defined)
    return dict(zip(defined_ids, values[is_defined].tolist(), strict=True))


def _check_needs(names: Sequence[str], inputs: Mapping[Need, object]) -> None:
    """Raise a DataError that names the metrics whose inputs are missing."""
    problems = []
    for need, value in inputs.items():
        needy = [name for name in names if METRICS[name].needs == need]
        if value is None and needy:
            problems.append(f"{', '.join(needy)} {'need' if len(needy) > 1 else 'needs'} {NEED_TITLES[need]}")
    if problems:
        measurable = [m.name for m in METRICS.values() if m.needs is None or inputs[m.needs] is not None]
        raise DataError(f"{'; '.join(problems)}; without, only {', '.join(measurable)} can be measured")


def compute_ilad(vectors: Tensor, row_index: Tensor) -> Tensor:
    """Return the (B,) mean of 1 − cos over the pairs of each set, float64 (NNN paper, §4.1).

    vectors: (n, d); row_index: (B, k) int64, −1 pads. NaN for fewer than two documents. A zero row has cosine 0 to all.
    """
    row_index = row_index.to(vectors.device)
    block_sums = []
    if len(vectors) ** 2 <= row_index.numel():
        # With very many sets over few documents it is cheaper to compute every pair once and look it up.
        # A row of zeros at the end, which the pads, −1, index: its cosines are 0.
        padded_vectors = torch.nn.functional.pad(normalize_rows(vectors), (0, 0, 0, 1))
        cosines = padded_vectors @ padded_vectors.T
        for block in row_index.split(max(1, CHUNK_NUMBERS // row_index.shape[1] ** 2)):
            pair_cosines = cosines[block.unsqueeze(2), block.unsqueeze(1)]
            block_sums.append(pair_cosines.sum((1, 2)) - pair_cosines.diagonal(dim1=1, dim2=2).sum(1))
    else:
        for unique_vectors, positions in _iterate_vector_blocks(vectors, row_index):
            unit_vectors = normalize_rows(unique_vectors)
            squared_norms = unit_vectors.square().sum(1)
            # The sum of all pairs is (|Σû|² − Σ|û|²)/2: one pass over k·d numbers instead of k²·d.
            block_sums.append(_sum_sets(unit_vectors, positions).square().sum(1) - squared_norms[positions].sum(1))
    # Each pair was summed twice, which n·(n − 1) ordered pairs account for.
    n_returned = (row_index >= 0).sum(1).double()
    mean_distance = 1 - torch.cat(block_sums) / (n_returned * (n_returned - 1))
    return mean_distance.clamp_min(0).masked_fill(n_returned < 2, torch.nan)


def compute_cos_sum(vectors: Tensor, row_index: Tensor, query_vectors: Tensor) -> Tensor:
    """Return the (B,) cosine of each set's sum of vectors with the query, float64 (VRSD paper, Alg. 1).

    vectors: (n, d), not normalised; row_index: (B, k) int64, −1 pads; query_vectors: (B, d). NaN for an empty set, 0
    where the sum or the query is zero.
    """
    query_vectors = query_vectors.to(vectors.device)
    block_cosines: list[Tensor] = []
    # The blocks come in the order of the queries.
    n_done = 0
    for unique_vectors, positions in _iterate_vector_blocks(vectors, row_index):
        unit_queries = normalize_rows(query_vectors[n_done : n_done + len(positions)])
        block_cosines.append((normalize_rows(_sum_sets(unique_vectors, positions)) * unit_queries).sum(1))
        n_done += len(positions)
    return torch.cat(block_cosines).masked_fill((row_index < 0).all(1).to(vectors.device), torch.nan)


def compute_redundancy(vectors: Tensor, row_index: Tensor, threshold: float) -> Tensor:
    """Return the (B,) share of each set's documents that are near-duplicates of an earlier one, float64.

    Near-duplicates have a cosine of the threshold or more. vectors: (n, d); row_index: (B, k) int64, −1 pads. NaN for
    an empty set, 0 for one document. A zero row has cosine 0 to all.
    """
    n, k = len(vectors), row_index.shape[1]
    row_index = row_index.to(vectors.device)
    # For many queries over few documents one product of all pairs is several times faster than many small ones.
    corpus_cosines = None
    if n <= GRAM_ROWS and n * n <= 4 * k * row_index.numel():
        unit_vectors = normalize_rows(vectors)
        corpus_cosines = unit_vectors @ unit_vectors.T
    # Only documents above another one can make it redundant.
    is_earlier = torch.ones(k, k, dtype=torch.bool, device=vectors.device).tril_(-1)
    block_shares = []
    for block in row_index.split(max(1, MAX_CACHED_NUMBERS // (k * max(k, vectors.shape[1])))):
        returned, padded_index = block >= 0, block.clamp_min(0)
        if corpus_cosines is not None:
            cosines = corpus_cosines[padded_index.unsqueeze(2), padded_index.unsqueeze(1)]
        else:
            unit_vectors = normalize_rows(vectors[padded_index])
            cosines = torch.bmm(unit_vectors, unit_vectors.transpose(1, 2))
        is_alike = (cosines >= threshold - COSINE_TOLERANCE) & is_earlier & returned.unsqueeze(1)
        block_shares.append((is_alike.any(2) & returned).sum(1) / returned.sum(1).double())
    return torch.cat(block_shares)


def _iterate_vector_blocks(vectors: Tensor, row_index: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield blocks of the queries' sets: a block's distinct vectors, and its sets as positions in them.

    vectors: (n, d); row_index: (B, k) rows of `vectors`, −1 pads, which become a vector of zeros. Yields (u, d) vectors
    in float64, and (b, k) positions.
    """
    row_index = row_index.to(vectors.device)
    max_numbers = min(MAX_SERIAL_NUMBERS, CHUNK_NUMBERS // row_index.shape[1])
    for block in row_index.split(max(1, max_numbers // vectors.shape[1])):
        # Neighbouring sets share documents, so each vector is converted once a block.
        rows_used, positions = block.unique(return_inverse=True)
        # `vectors[rows]` would start threads for a few rows already.
        unique_vectors = vectors.index_select(0, rows_used.clamp_min(0)).double()
        yield unique_vectors.masked_fill_((rows_used < 0).unsqueeze(1), 0), positions


def _sum_sets(unique_vectors: Tensor, position_index: Tensor) -> Tensor:
    """Return the (b, d) sums of the vectors of b sets, given as (b, k) positions in `unique_vectors`."""
    # embedding_bag sums rows without building the (b, k, d) tensor.
    return embedding_bag(position_index, unique_vectors, mode="sum")


def _discount_grades(grades: np.ndarray) -> np.ndarray:
    """Return the (B,) discounted gain of (B, k) grades by rank."""
    # Järvelin & Kekäläinen 2002: the grade at rank r counts 1 / log2(r + 1).
    discounted_sums: np.ndarray = (grades / np.log2(np.arange(2, grades.shape[1] + 2))).sum(1)
    return discounted_sums
