"""Metrics of a retrieved set, per query: whether it is right, and whether it says one thing or many.

Recall, Comp, nDCG, MRR, Precision and Holes need judgements, α-nDCG and S-recall aspects, answer coverage answers,
cos(sum, query) the queries' vectors; ILAD and redundancy need nothing but the set.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from functools import cached_property
from itertools import compress
from typing import Literal

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import embedding_bag

from engine.candidates import without_autocast
from engine.decoder import SET_SIZE
from engine.errors import DataError, ParamError
from engine.evaluation.aspects import Aspects, Coverage, Judgements, load_coverage, load_judgements
from engine.matrix import CHUNK_NUMBERS, GRAM_ROWS
from engine.space import Elsewhere, Space, here
from engine.values import Embeddings, Qrels, Queries, Ranking

REDUNDANT_COSINE = 0.9
"""From this cosine on, a document repeats another."""
READING_BUDGET_WORDS = 400
"""How many words a reader takes, best document first."""
MAX_CACHED_NUMBERS = 1 << 19
"""How many numbers of float64 a pass may hold that reads them more than once (4 MiB)."""


@dataclass(frozen=True, eq=False, kw_only=True)
class RetrievedSets:
    """The sets of B queries with all that metrics need, made on first use."""

    rows: Tensor  # (B, k) int64, −1 pads
    space: Space
    ids: tuple[str, ...]
    qrels: Qrels | None
    aspects: Aspects | None
    query_vectors: Tensor  # (B, d) the queries' vectors, empty without them
    query_index: np.ndarray | None = None  # (B,) whose each set is, where `ids` are fewer and have several
    answers: Aspects | None = None

    @cached_property
    def index(self) -> np.ndarray:
        """(B, k) the rows, in the memory of the CPU."""
        return self.rows.cpu().numpy()

    @cached_property
    def judgements(self) -> Judgements:
        known = load_judgements(self.space, self.ids, self.qrels or Qrels({}))
        return known if self.query_index is None else known.select_queries(self.query_index)

    @cached_property
    def grades(self) -> np.ndarray:
        """(B, k) grade of each returned document, 0 where unjudged or nothing was returned."""
        return self.judgements.look_up_grades(self.index)

    @property
    def hits(self) -> np.ndarray:
        """(B, k) whether each returned document is relevant."""
        return self.grades > 0

    @cached_property
    def n_relevant(self) -> np.ndarray:
        """(B,) how many documents are relevant; NaN where none is."""
        return np.where(self.judgements.n_relevant > 0, self.judgements.n_relevant, np.nan)

    @cached_property
    def coverage(self) -> Coverage:
        known = load_coverage(self.space, self.ids, {} if self.aspects is None else self.aspects, self.rows.shape[1])
        return known if self.query_index is None else known.select_queries(self.query_index)

    def iterate_sets(self) -> Iterator[tuple[str, np.ndarray]]:
        """The query's id and the rows of each set, without pads."""
        query_ids = (
            self.ids
            if self.query_index is None
            else [self.ids[query_position] for query_position in self.query_index.tolist()]
        )
        for query_id, row_index in zip(query_ids, self.index, strict=True):
            yield query_id, row_index[row_index >= 0]


Need = Literal["qrels", "aspects", "vectors", "answers"]
NEED_TITLES: dict[Need, str] = {
    "qrels": "judgements (qrels)",
    "aspects": "aspects (aspects=data.aspects)",
    "answers": "answers (answers=, as engine.data.answers.containing_documents makes them)",
    "vectors": "the queries' vectors (queries=Embeddings)",
}


@dataclass(frozen=True, slots=True)
class Metric:
    """A number for each query.

    title: as charts write it; needs: what it cannot do without, besides the set; on_request: measured where it is named
    only, never by default
    """

    name: str
    title: str
    formula: str
    needs: Need | None
    compute: Callable[[RetrievedSets], np.ndarray]
    lower_is_better: bool = False
    _: KW_ONLY
    on_request: bool = False

    def evaluate(self, sets: RetrievedSets) -> np.ndarray:
        """(B,) float64, NaN where undefined: what needs judgements is so without a relevant document."""
        metric_values = self.compute(sets)
        return np.where(np.isnan(sets.n_relevant), np.nan, metric_values) if self.needs == "qrels" else metric_values


@dataclass(frozen=True)
class Measures:
    """Metrics at k of B queries."""

    k: int
    per_query: Mapping[str, Mapping[str, float]]  # metric → query id → value, without the queries that lack it
    mean: Mapping[str, float]  # metric → mean over those, NaN if there are none
    left_out: int  # number of queries without a document judged relevant, and so without recall
    undefined: Mapping[str, int]  # metric → number of queries for which it does not exist
    values: Mapping[str, np.ndarray] = field(compare=False, repr=False)  # metric → (B,), NaN where undefined


def _compute_ndcg(sets: RetrievedSets) -> np.ndarray:
    ideal_gain = _discount_grades(sets.judgements.compute_ideal_grades(sets.rows.shape[1]))
    return _discount_grades(sets.grades) / np.where(ideal_gain > 0, ideal_gain, np.nan)


def find_documents_read(sets: RetrievedSets, budget_words: int) -> np.ndarray:
    """(B, k) whether each returned document is read by who takes so many words, best document first.

    What does not fit ends the reading, but for the first: no budget is too small for one document.
    """
    passages = sets.space.corpus.passages
    word_counts = sets.space.derived(
        "words a document", lambda: np.array([len(passage.split()) for passage in passages])
    )
    is_returned: np.ndarray = sets.index >= 0
    is_read = is_returned & (np.where(is_returned, word_counts[sets.index], 0).cumsum(1) <= budget_words)
    is_read[:, 0] = is_returned[:, 0]
    return is_read


def compute_budget_recall(sets: RetrievedSets, budget_words: int = READING_BUDGET_WORDS) -> np.ndarray:
    """(B,) the share of the relevant documents that are read within a budget of words."""
    read_share: np.ndarray = (sets.hits & find_documents_read(sets, budget_words)).sum(1) / sets.n_relevant
    return read_share


def compute_answer_coverage(sets: RetrievedSets, budget_words: int = READING_BUDGET_WORDS) -> np.ndarray:
    """(B,) the share of a query's answers that stand in a document that is read within a budget; NaN without any."""
    n_read, covered_shares = find_documents_read(sets, budget_words).sum(1), []
    document_ids = sets.space.corpus.ids
    for (query_id, row_index), n_documents in zip(sets.iterate_sets(), n_read.tolist(), strict=True):
        answers = (sets.answers or {}).get(query_id, {})
        read_ids = {document_ids[row_number] for row_number in row_index[:n_documents].tolist()}
        n_covered = sum(not read_ids.isdisjoint(documents) for documents in answers.values())
        covered_shares.append(n_covered / len(answers) if answers else np.nan)
    return np.array(covered_shares)


def _compute_holes(sets: RetrievedSets) -> np.ndarray:
    grades, document_ids = (sets.qrels or Qrels({})).grades, sets.space.corpus.ids
    judged_shares = [
        np.mean([document_ids[row_number] in grades.get(query_id, ()) for row_number in row_index.tolist()])
        if len(row_index)
        else np.nan
        for query_id, row_index in sets.iterate_sets()
    ]
    return 1 - np.array(judged_shares)


METRICS: dict[str, Metric] = {
    m.name: m
    for m in (
        Metric("recall", "Recall", "|top-k ∩ rel| / |rel|", "qrels", lambda f: f.hits.sum(1) / f.n_relevant),
        Metric("comp", "Comp", "1 if all of rel is in the top-k", "qrels", lambda f: f.hits.sum(1) == f.n_relevant),
        Metric("ndcg", "nDCG", "Σ grade/log2(rank+1) over the ideal", "qrels", _compute_ndcg),
        Metric(
            "mrr",
            "MRR",
            "1 / rank of the first relevant, 0 if none in the top-k",
            "qrels",
            lambda f: np.where(f.hits.any(1), 1 / (f.hits.argmax(1) + 1), 0.0),
        ),
        Metric(
            "budget_recall",
            f"Recall in {READING_BUDGET_WORDS} words",
            f"|rel among the first of the top-k that have {READING_BUDGET_WORDS} words together| / |rel|; the first always counts",
            "qrels",
            compute_budget_recall,
        ),
        Metric("precision", "Precision", "|top-k ∩ rel| / k", "qrels", lambda f: f.hits.mean(1)),
        Metric(
            "holes",
            "Holes",
            "share of the documents returned that nobody has judged; what recall may miss; measured on request",
            "qrels",
            _compute_holes,
            lower_is_better=True,
            on_request=True,
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
            f"share of the query's answer strings in the first of the top-k that have {READING_BUDGET_WORDS} words together; the "
            "first always counts; measured on request",
            "answers",
            compute_answer_coverage,
            on_request=True,
        ),
        Metric(
            "cos_sum",
            "cos(sum, query)",
            "cosine of the returned vectors' sum and the query's, 0 where either is zero",
            "vectors",
            lambda f: compute_cos_sum(f.space.vectors, f.rows, f.query_vectors).cpu().numpy(),
        ),
        Metric(
            "redundancy",
            "Redundancy",
            f"share of the documents returned that have a cosine of {REDUNDANT_COSINE:g} or more with one above them",
            None,
            lambda f: compute_redundancy(f.space.vectors, f.rows).cpu().numpy(),
            lower_is_better=True,
        ),
    )
}
LESS_IS_BETTER = frozenset(m.name for m in METRICS.values() if m.lower_is_better)


def title_of(metric: str) -> str:
    """A metric as charts write it; the name of one that is not registered."""
    return METRICS[metric].title if metric in METRICS else metric


def mean_of_defined(values: np.ndarray) -> float:
    """The mean of (n,) values without the NaN among them; NaN where there is no other."""
    defined = values[~np.isnan(values)]
    return float(defined.mean()) if len(defined) else float("nan")


def available_metrics(
    qrels: Qrels | None = None, aspects: Aspects | None = None, vectors: Queries | Embeddings | None = None
) -> tuple[str, ...]:
    """The metrics measured by default with what is given; vectors: the queries, of use only as Embeddings."""
    is_given = {"qrels": bool(qrels), "aspects": bool(aspects), "vectors": isinstance(vectors, Embeddings)}
    return tuple(
        metric.name
        for metric in METRICS.values()
        if not metric.on_request and (metric.needs is None or is_given[metric.needs])
    )


def check_metrics(metric_names: Iterable[str]) -> None:
    """Raise a ParamError that names those that are no metrics."""
    if unknown_names := [metric_name for metric_name in metric_names if metric_name not in METRICS]:
        raise ParamError(f"metrics must be among {', '.join(METRICS)}; got {', '.join(map(repr, unknown_names))}")


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
) -> Measures:
    """Metrics at k of what each query got.

    queries: those that were decoded, in the same order (or their ids; cos_sum takes Embeddings only); qrels: their
    judgements; aspects: data.aspects; answers: query → answer → the documents that contain it; `available` says which
    metrics do without. A query without a relevant document is left out of recall and its kin and counted, never scored
    0; a relevant document that is not in the corpus counts as not found. Alike for aspects and answers. Raises
    ParamError or DataError.
    """
    k, space = SET_SIZE.check(k), here(space, ranking)
    metric_names = (metrics,) if isinstance(metrics, str) else tuple(metrics)
    check_metrics(metric_names)
    query_ids = tuple(queries.ids) if isinstance(queries, (Queries, Embeddings)) else tuple(queries)
    if (
        isinstance(queries, str)
        or not all(isinstance(metric_name, str) for metric_name in query_ids)
        or len(set(query_ids)) != len(query_ids)
    ):
        raise DataError("queries must be engine.Queries, engine.Embeddings, or a list of distinct query ids")
    if qrels is not None and not isinstance(qrels, Qrels):
        raise DataError(f"qrels must be engine.Qrels, for example data.qrels['test']; got {type(qrels).__name__}")
    largest_row = int(ranking.index.max()) if ranking.index.numel() else -1
    if largest_row >= len(space):
        raise DataError(f"the ranking is not of this corpus: it holds row {largest_row}, the corpus has {len(space)}")
    if len(query_ids) != len(ranking):
        raise DataError(f"queries must be those of the ranking: {len(query_ids)} queries, {len(ranking)} rankings")
    if ranking.index.shape[1] < k:
        raise ParamError(f"k ({k}) must be at most the ranking's depth, {ranking.index.shape[1]}; decode with k={k}")
    query_vectors = space.fitted(queries).vectors if isinstance(queries, Embeddings) else torch.empty(0, 0)
    query_embeddings = queries if isinstance(queries, Embeddings) else None
    _check_needs(metric_names, {"qrels": qrels, "aspects": aspects, "vectors": query_embeddings, "answers": answers})
    if "cos_sum" in metric_names and query_vectors.shape[1] != space.vectors.shape[1]:
        raise DataError(
            f"the queries have {query_vectors.shape[1]} dimensions, the corpus has {space.vectors.shape[1]}"
        )

    sets = RetrievedSets(
        rows=ranking.index[:, :k],
        space=space,
        ids=query_ids,
        qrels=qrels,
        aspects=aspects,
        query_vectors=query_vectors,
        answers=answers,
    )
    metric_values = {metric_name: METRICS[metric_name].evaluate(sets) for metric_name in metric_names}
    per_query = {
        metric_name: _map_query_values(query_ids, query_values) for metric_name, query_values in metric_values.items()
    }
    metric_means = {metric_name: mean_of_defined(query_values) for metric_name, query_values in metric_values.items()}
    n_left_out = 0 if qrels is None else int(np.isnan(sets.n_relevant).sum())
    n_undefined = {
        metric_name: int(np.isnan(query_values).sum()) for metric_name, query_values in metric_values.items()
    }
    return Measures(k, per_query, metric_means, n_left_out, n_undefined, metric_values)


def _map_query_values(query_ids: Sequence[str], query_values: np.ndarray) -> dict[str, float]:
    """Query id → value, without NaN."""
    is_defined = ~np.isnan(query_values)
    return dict(
        zip(
            query_ids if is_defined.all() else compress(query_ids, is_defined),
            query_values[is_defined].tolist(),
            strict=True,
        )
    )


def _check_needs(metric_names: Sequence[str], inputs: Mapping[Need, object]) -> None:
    """Raise a DataError that names the metrics whose needs are not met."""
    unmet_needs = {
        need: [metric_name for metric_name in metric_names if METRICS[metric_name].needs == need]
        for need, input_value in inputs.items()
        if input_value is None
    }
    problems = [
        f"{', '.join(needy_metrics)} {'need' if len(needy_metrics) > 1 else 'needs'} {NEED_TITLES[need]}"
        for need, needy_metrics in unmet_needs.items()
        if needy_metrics
    ]
    if problems:
        measurable = ", ".join(
            metric_name.name
            for metric_name in METRICS.values()
            if metric_name.needs is None or inputs[metric_name.needs] is not None
        )
        raise DataError(f"{'; '.join(problems)}; without, only {measurable} can be measured")


def compute_ilad(vectors: Tensor, row_index: Tensor) -> Tensor:
    """(B,) mean of 1 − cos over the pairs of each set, float64; NaN for fewer than two documents (nnn §4.1).

    vectors: (n, d); row_index: (B, k) int64, −1 pads. A zero row has cosine 0 to everything.
    """
    row_index = row_index.to(vectors.device)
    block_sums = []
    if len(vectors) ** 2 <= row_index.numel():
        # Very many sets over few documents: every pair once, and looked up.
        padded_vectors = torch.nn.functional.pad(_normalize_rows(vectors.double()), (0, 0, 0, 1))
        cosines = padded_vectors @ padded_vectors.T
        for index_block in row_index.split(max(1, CHUNK_NUMBERS // row_index.shape[1] ** 2)):
            pair_cosines = cosines[index_block.unsqueeze(2), index_block.unsqueeze(1)]
            block_sums.append(pair_cosines.sum((1, 2)) - pair_cosines.diagonal(dim1=1, dim2=2).sum(1))
    else:
        for block_vectors, positions in _iterate_vector_blocks(vectors, row_index):
            unit_vectors = _normalize_rows(block_vectors)
            squared_norms = unit_vectors.square().sum(1)
            # The sum of all pairs is (|Σû|² − Σ|û|²)/2: one pass over k·d numbers instead of k²·d.
            block_sums += [
                _sum_sets(unit_vectors, index_block).square().sum(1) - squared_norms[index_block].sum(1)
                for index_block in positions
            ]
    n_returned = (row_index >= 0).sum(1).double()
    mean_distance = 1 - torch.cat(block_sums) / (n_returned * (n_returned - 1))
    return mean_distance.clamp_min(0).masked_fill(n_returned < 2, torch.nan)


def compute_cos_sum(vectors: Tensor, row_index: Tensor, query_vectors: Tensor) -> Tensor:
    """(B,) cosine of the sum of each set's vectors, as they are, with the query's, float64 (vrsd Alg. 1).

    vectors: (n, d); row_index: (B, k) int64, −1 pads; query_vectors: (B, d). NaN for no document, 0 where the sum or the query is
    zero.
    """
    query_vectors = query_vectors.to(vectors.device)
    block_cosines: list[Tensor] = []
    n_done = 0
    for block_vectors, positions in _iterate_vector_blocks(vectors, row_index):
        for index_block in positions:
            unit_queries = _normalize_rows(query_vectors[n_done : n_done + len(index_block)].double())
            block_cosines.append((_normalize_rows(_sum_sets(block_vectors, index_block)) * unit_queries).sum(1))
            n_done += len(index_block)
    return torch.cat(block_cosines).masked_fill((row_index < 0).all(1).to(vectors.device), torch.nan)


def compute_redundancy(vectors: Tensor, row_index: Tensor) -> Tensor:
    """(B,) share of each set's documents that have a cosine of REDUNDANT or more with one listed before, float64.

    vectors: (n, d); row_index: (B, k) int64, −1 pads. NaN for no document, 0 for one. A zero row has cosine 0 to everything.
    """
    n, k = len(vectors), row_index.shape[1]
    row_index = row_index.to(vectors.device)
    # Many queries over few documents: every pair once, at several times the pace of many small products.
    corpus_cosines = None
    if n <= GRAM_ROWS and n * n <= 4 * k * row_index.numel():
        unit_vectors = _normalize_rows(vectors.double())
        corpus_cosines = unit_vectors @ unit_vectors.T
    is_earlier = torch.ones(k, k, dtype=torch.bool, device=vectors.device).tril_(-1)
    block_shares = []
    for index_block in row_index.split(max(1, MAX_CACHED_NUMBERS // (k * max(k, vectors.shape[1])))):
        is_returned, padded_index = index_block >= 0, index_block.clamp_min(0)
        if corpus_cosines is not None:
            cosines = corpus_cosines[padded_index.unsqueeze(2), padded_index.unsqueeze(1)]
        else:
            unit_vectors = _normalize_rows(vectors[padded_index].double())
            cosines = torch.bmm(unit_vectors, unit_vectors.transpose(1, 2))
        is_alike = (cosines >= REDUNDANT_COSINE) & is_earlier & is_returned.unsqueeze(1)
        block_shares.append((is_alike.any(2) & is_returned).sum(1) / is_returned.sum(1).double())
    return torch.cat(block_shares)


def _iterate_vector_blocks(vectors: Tensor, row_index: Tensor) -> Iterator[tuple[Tensor, Sequence[Tensor]]]:
    """Block by block: the vectors that rows, (B, k), list, each once, in float64, zero for pads; and where each of
    them is, in parts (b, k) of so few queries that their sums stay in the cache."""
    row_index = row_index.to(vectors.device)
    n_dimensions = vectors.shape[1]
    for index_block in row_index.split(max(1, CHUNK_NUMBERS // (row_index.shape[1] * n_dimensions))):
        rows_used, positions = index_block.unique(return_inverse=True)
        block_vectors = vectors[rows_used.clamp_min(0)].double().masked_fill_((rows_used < 0).unsqueeze(1), 0)
        yield block_vectors, positions.split(max(1, MAX_CACHED_NUMBERS // (4 * n_dimensions)))


def _sum_sets(block_vectors: Tensor, position_index: Tensor) -> Tensor:
    """(b, d) sums of the rows of listed at (b, k)."""
    return embedding_bag(position_index, block_vectors, mode="sum")


def _normalize_rows(vectors: Tensor) -> Tensor:
    """Rows of length 1; zero rows stay."""
    row_norms: Tensor = torch.linalg.vector_norm(vectors, dim=-1, keepdim=True)
    return vectors / row_norms.masked_fill(row_norms == 0, 1)


def _discount_grades(grades: np.ndarray) -> np.ndarray:
    discounted_sums: np.ndarray = (grades / np.log2(np.arange(2, grades.shape[1] + 2))).sum(1)
    return discounted_sums
