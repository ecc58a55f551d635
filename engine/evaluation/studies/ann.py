"""Quality against time of approximate search, one vector a document and several (sparse-dense paper, Fig. 7)."""

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
import torch

from engine.candidates import without_autocast
from engine.decoder import SET_SIZE, Decoder, decode
from engine.display import OneLine
from engine.errors import Cancelled, DataError, ParamError
from engine.evaluation.metrics import available_metrics, check_metrics, measure
from engine.evaluation.statistics import SEED
from engine.evaluation.studies import ann_indexes
from engine.evaluation.studies.ann_indexes import INDEXES, Exact, Index, import_faiss, limit_to_one_thread
from engine.evaluation.sweep.cell import compute_means, read_versions
from engine.evaluation.sweep.compute import collect_digests, embed_for_space
from engine.multi_vector import Parts
from engine.params import Real, Whole
from engine.progress import Progress, Stop, report_to
from engine.space import Space
from engine.stages import Scorer, methods
from engine.values import Embeddings, Qrels, Queries, Ranking

JUDGED_METRICS = ("mrr", "ndcg")
"""Default metrics where there are judgements."""
SCORE_TOLERANCE = 1e-6
"""Scores closer than this, relative to the vectors' lengths, are equal: float32 sums in another order differ so."""
TIMING_REPEATS = Whole(1, "repeats", 1, 1000, name="repeats", help="How often a query is timed.")
MIN_SPEEDUP = 1.05
"""Ratios of times below this are not significant."""
Indexes = Sequence[Index] | Callable[[int], Sequence[Index]]
"""Settings, or a function that makes them for a number of vectors."""
EXACT_SHARE = Real(
    0.99, "least_exact_share", 0.0, 1.0, comfortable=(0.5, 1.0), name="least_exact_share",
    help="How much of the exact answer an approximate one must have.",
)  # fmt: skip


@dataclass(frozen=True, eq=False, kw_only=True)
class AnnResult(OneLine):
    """Result of an approximate index at one search effort: its share of the exact answer, and its time."""

    scorer: str  # whose vectors are searched, as label
    title: str  # the same for people
    index: Mapping[str, Any]  # kind and parameters as plain values
    label: str  # the same as text
    exact: bool  # True if every vector was compared
    k: int
    queries: tuple[str, ...]
    agreement: np.ndarray = field(repr=False)  # (B,) share of the k that score at least as the exact answer's last one
    values: Mapping[str, np.ndarray] = field(repr=False)  # metric → (B,) float64, NaN where it does not exist
    mean: Mapping[str, float]  # of the others
    returned: float  # mean number of documents
    milliseconds: float  # median of a query, one at a time on one thread, its vector given
    build: float  # seconds
    megabytes: float  # the index in memory
    entries: int  # number of vectors in the index
    per_document: float  # number of vectors of a document
    seed: int
    provenance: Mapping[str, str] = field(repr=False)  # digests of the data, versions

    @property
    def curve(self) -> str:
        """Name of the curve, in a chart of quality by time, that the result lies on.

        One curve joins the settings of an index that differ only in its effort: how much of it a query visits.
        """
        index_class = Exact if self.exact else INDEXES[self.index["kind"]]
        fixed = [f"{name} {value}" for name, value in self.index.items() if name not in ("kind", index_class.effort)]
        return ", ".join([index_class.title, *fixed])

    @property
    def share(self) -> float:
        """Mean share of the exact answer that the search finds."""
        return float(self.agreement.mean())

    def as_json(self) -> dict[str, Any]:
        """Return the result as plain JSON values, without the values of single queries."""
        names = ("scorer", "label", "exact", "k", "returned", "milliseconds", "build", "megabytes", "entries")
        # JSON has no NaN, the only number that differs from itself.
        means = {name: value if value == value else None for name, value in self.mean.items()}
        result = {"index": dict(self.index), "recall_of_exact": self.share, "mean": means, "queries": len(self.queries)}
        context = {"per_document": self.per_document, "seed": self.seed, "provenance": dict(self.provenance)}
        return {name: getattr(self, name) for name in names} | result | context


def approximate(
    scorers: Sequence[Scorer] | Scorer,
    space: Space,
    queries: Queries | Embeddings,
    qrels: Qrels | None = None,
    *,
    indexes: Indexes = ann_indexes.usual_indexes,
    k: int = 10,
    metrics: Sequence[str] | None = None,
    seed: int = 0,
    repeats: int = 1,
    progress: Progress | None = None,
    stop: Stop | None = None,
) -> Iterator[AnnResult]:
    """Search the vectors of scorers with approximate indexes, and measure recall and time.

    The exact search of each scorer comes first. Hits are vectors: a document counts once, at its best, and more vectors
    are fetched until there are k documents.

    Parameters
    ----------
    scorers : sequence of Scorer or Scorer
        Scorers whose scores are largest inner products (`Scorer.document_vectors`).
    space : Space
        The corpus to search.
    queries : Queries or Embeddings
        The queries, whose ids name the judgements.
    qrels : Qrels or None
        Their judgements.
    indexes : Indexes
        Settings of Hnsw and Ivf, or a function that builds them for a number of vectors.
    k : int
        The size of the retrieved sets.
    metrics : sequence of str or None
        Metrics that need no aspects; by default MRR and nDCG if there are judgements.
    seed : int
        The seed of the graph's layers and of k-means.
    repeats : int
        The number of timings of each query, of which the quickest counts.
    progress : callable or None
        Called repeatedly as progress(done, total, label).
    stop : callable or None
        The work is cancelled once it returns true.

    Returns
    -------
    iterator of AnnResult
        One result for each scorer and index.

    Raises
    ------
    FrontierError
        If faiss is not installed.
    ParamError, DataError
        If an argument is invalid or inputs do not belong together.
    Cancelled
        If it is stopped.

    Examples
    --------
    >>> searches = engine.approximate(engine.make("dense"), space, queries, qrels)  # doctest: +SKIP
    """
    import_faiss()
    scorer_list = [scorers] if isinstance(scorers, Scorer) else list(scorers)
    for scorer in scorer_list:
        if not isinstance(scorer, Scorer):
            raise ParamError(f"scorers must be made by engine.make; got {scorer!r} among them")
        if type(scorer).document_vectors is Scorer.document_vectors:
            able = ", ".join(list_searchable())
            raise ParamError(f"scorers must be found by nearest vectors, as {able} are; {scorer.label} is not")
    if not scorer_list:
        raise ParamError("scorers must hold at least one; got none")
    for index in () if callable(indexes) else indexes:
        if not isinstance(index, tuple(INDEXES.values())):
            raise ParamError(
                f"indexes must be of engine.evaluation.studies.ann_indexes, {', '.join(INDEXES)}; got {index!r}"
            )
    k, seed = min(SET_SIZE.check(k), len(space)), SEED.check(seed)
    metric_names = tuple(metrics) if metrics is not None else (JUDGED_METRICS if qrels is not None else ())
    check_metrics(metric_names)
    query_vectors = embed_for_space(space, queries)
    if missing := [metric for metric in metric_names if metric not in available_metrics(qrels, None, query_vectors)]:
        raise DataError(f"{', '.join(missing)}: there are no judgements or aspects to measure this with")
    task = _Task(
        space=space, vectors=query_vectors, qrels=qrels, metrics=metric_names, k=k, seed=seed,
        repeats=TIMING_REPEATS.check(repeats), report=progress or (lambda *_: None), stop=stop,
    )  # fmt: skip
    return _iterate_results(task, scorer_list, indexes)


def list_searchable() -> dict[str, Any]:
    """Return name → registration of the scorers whose best documents can be found by nearest vectors.

    These are the scorers that override `Scorer.document_vectors`.
    """
    specs = methods("scorer").items()
    return {name: spec for name, spec in specs if spec.cls.document_vectors is not Scorer.document_vectors}


def find_quickest(results: Iterable[AnnResult], share: float = EXACT_SHARE.default) -> dict[str, AnnResult]:
    """Find, for each scorer's label, the quickest approximate search that finds enough of the answer.

    share: of the exact search's documents, that the search must find. Scorers without such a search are left out.
    Raises ParamError.
    """
    share = EXACT_SHARE.check(share)
    quickest: dict[str, AnnResult] = {}
    for result in results:
        is_sufficient = not result.exact and result.share >= share
        best = quickest.get(result.scorer)
        if is_sufficient and (best is None or result.milliseconds < best.milliseconds):
            quickest[result.scorer] = result
    return quickest


def write_conclusions(results: Sequence[AnnResult], share: float = EXACT_SHARE.default) -> tuple[str, ...]:
    """Write a sentence for each scorer on its quickest sufficient search and how much that saves.

    share: of the exact search's documents, which a search must find to suffice. Raises ParamError.
    """
    quickest_by_scorer, sentences = find_quickest(results, share), []
    for exact in (result for result in results if result.exact):
        best = quickest_by_scorer.get(exact.scorer)
        if best is None:
            sentences.append(f"{exact.title}: no index tried finds {share:.1%} of the exact answer.")
            continue
        speedup = exact.milliseconds / best.milliseconds
        verdict = f"{speedup:.1f} times as fast as" if speedup >= MIN_SPEEDUP else "no faster than"
        share_text = f"{best.share:.1%} of the exact answer in {best.milliseconds:.3f} ms per query"
        sentences.append(f"{exact.title}: {best.label} finds {share_text}, {verdict} exact search.")
    return tuple(sentences)


@dataclass(frozen=True, eq=False, kw_only=True)
class _Task:
    """The checked arguments of `approximate`, and what every index's measurement needs."""

    space: Space
    vectors: Embeddings  # of the queries
    qrels: Qrels | None
    metrics: tuple[str, ...]
    k: int  # size of the retrieved sets
    seed: int  # of the indexes' random numbers
    repeats: int  # timings of each query
    report: Progress
    stop: Stop | None

    def measure_rows(self, rows: np.ndarray) -> dict[str, np.ndarray]:
        """Return metric → (B,) values of the (B, k) documents found, −1 pads."""
        row_index = torch.from_numpy(rows)
        # Metrics read the rows alone, so the gains are zeros.
        ranking = Ranking(row_index, torch.zeros(row_index.shape, dtype=torch.float64), ())
        return dict(measure(ranking, self.space, self.vectors, self.qrels, self.k, self.metrics).values)

    def check_stop(self) -> None:
        """Raise Cancelled when stopped."""
        if self.stop is not None and self.stop.is_set():
            raise Cancelled(ann_indexes.SEARCH_STOPPED)


@dataclass(frozen=True, eq=False, kw_only=True)
class _ExactAnswers:
    """A scorer's vectors with the exact answers over them, to which indexes are compared.

    A document may have several vectors, its parts; its score is its best part's.
    """

    scorer: Scorer
    parts: Parts  # all vectors, with the document of each
    title: str  # the scorer for people
    rows: np.ndarray  # (B, k) documents
    min_scores: np.ndarray  # (B,) the last one's score, less what rounding may take
    score_rows: Callable[[np.ndarray], np.ndarray]  # function from (B, k) documents to their exact scores

    def measure_agreement(self, rows: np.ndarray) -> np.ndarray:
        """Return the (B,) shares of (B, k) found documents that score as well as the exact answer's last one."""
        row_scores = np.where(rows >= 0, self.score_rows(np.maximum(rows, 0)), -np.inf)
        exact_shares: np.ndarray = (row_scores >= self.min_scores[:, None]).sum(1) / rows.shape[1]
        return exact_shares

    def count_sufficient_hits(self, k: int) -> int:
        """Return a number of nearest vectors that surely holds k different documents, for any query.

        A document may have several vectors, so k vectors may belong to fewer documents.
        """
        # At worst the k − 1 documents with the most vectors come first, with all of them.
        vector_counts = self.parts.counts.sort(descending=True).values
        return int(vector_counts[: k - 1].sum()) + 1


def _iterate_results(task: _Task, scorers: Sequence[Scorer], indexes: Indexes) -> Iterator[AnnResult]:
    """Build, time and measure every index over every scorer's vectors; yield the results one by one.

    The exact search of each scorer comes first. Raises Cancelled when stopped.
    """
    for scorer in scorers:
        task.check_stop()
        with report_to(task.report, task.stop):
            # Scorers without document vectors were refused before, so this is not None.
            parts = cast(Parts, scorer.document_vectors(task.space))
        chosen_indexes = tuple(dict.fromkeys(indexes(len(parts)) if callable(indexes) else indexes))
        for index in chosen_indexes:
            index.check(len(parts))
        exact = _answer_exactly(task, scorer, parts)
        vectors = np.ascontiguousarray(parts.vectors.cpu().numpy(), dtype=np.float32)
        # Settings that differ only in the effort of a search share an index, which is built once.
        index_groups: dict[tuple[Any, ...], list[Index]] = {}
        for index in (Exact(), *chosen_indexes):
            index_groups.setdefault(tuple(index.build_parameters.items()), []).append(index)
        n_done, n_total = 0, (1 + len(chosen_indexes)) * len(task.vectors)
        for group in index_groups.values():
            task.report(n_done, n_total, f"{exact.title}: building {group[0].title}")
            with limit_to_one_thread() as faiss:
                start_time = time.perf_counter()
                built = group[0].build(faiss, vectors, task.seed, task.stop)
                build_seconds = time.perf_counter() - start_time
                # faiss does not say how much memory an index takes: its serialised size stands for it.
                megabytes = faiss.serialize_index(built).nbytes / 1e6
            for index in group:
                index.apply_effort(built)
                rows, query_times = _time_search(task, built, exact, n_done, n_total)
                n_done += len(task.vectors)
                costs = {"build": build_seconds, "megabytes": megabytes}
                yield _make_result(task, exact, index, rows, milliseconds=1000 * float(np.median(query_times)), **costs)


@without_autocast
def _answer_exactly(task: _Task, scorer: Scorer, parts: Parts) -> _ExactAnswers:
    """Find each query's k best documents by exact search, and the score that any of the k must reach.

    parts: the vectors that the scorer compares queries with, one or several for a document
    """
    # Progress and stops are noticed between blocks of queries.
    block_size = 64
    # The first registered selector is plain top-k.
    top_k_stage = next(iter(methods("selector").values())).cls()
    row_blocks = []
    for block_start in range(0, len(task.vectors), block_size):
        task.check_stop()
        task.report(block_start, len(task.vectors), f"{scorer.spec.title}: the exact answer")
        block_queries = task.vectors.take(range(block_start, min(block_start + block_size, len(task.vectors))))
        row_blocks.append(decode(Decoder(top_k_stage, scorer), task.space, block_queries, task.k).index.cpu())
    rows = torch.cat(row_blocks).numpy()
    points = task.vectors.vectors.to(parts.vectors)

    def score_rows(other_rows: np.ndarray) -> np.ndarray:
        """Return the exact scores of (B, k) documents."""
        return parts.best(points, torch.from_numpy(other_rows).to(parts.documents)).double().cpu().numpy()

    # Of documents that tie with the exact answer's last one any is as good, and faiss may return another.
    lengths = torch.linalg.vector_norm(points, dim=1) * torch.linalg.vector_norm(parts.vectors, dim=1).max()
    min_scores = score_rows(rows)[:, -1] - SCORE_TOLERANCE * lengths.double().cpu().numpy()
    title = scorer.spec.title if len(parts) == len(task.space) else f"{scorer.spec.title}, {len(parts):,} vectors"
    answers = {"rows": rows, "min_scores": min_scores, "score_rows": score_rows}
    return _ExactAnswers(scorer=scorer, parts=parts, title=title, **answers)


@without_autocast
def _time_search(
    task: _Task, built: Any, exact: _ExactAnswers, n_done: int, n_total: int
) -> tuple[np.ndarray, np.ndarray]:
    """Search each query on one thread; return (B, k) documents, −1 pads, and each query's seconds.

    built: faiss's index; n_done, n_total: steps of the progress before this search, and of all
    """
    points = np.ascontiguousarray(task.vectors.vectors.numpy(), dtype=np.float32)
    documents = exact.parts.documents.cpu().numpy()
    max_hits = exact.count_sufficient_hits(task.k)
    # As many vectors as k documents have on average are often enough; `_fetch_documents` doubles them where not.
    n_first = min(max_hits, math.ceil(task.k * exact.parts.per_document))
    rows = np.full((len(points), task.k), -1, dtype=np.int64)
    query_times = np.full(len(points), np.inf)
    with limit_to_one_thread():
        # A process's first search waits for memory.
        built.search(points[:1], n_first)
        # One query at a time, as a single user asks; the quickest of its repeats is disturbed least by other processes.
        for query_index in range(len(points)):
            task.check_stop()
            for _repeat in range(task.repeats):
                start_time = time.perf_counter()
                point = points[query_index : query_index + 1]
                found_rows = _fetch_documents(built, point, documents, task.k, n_first, max_hits)
                query_times[query_index] = min(query_times[query_index], time.perf_counter() - start_time)
            rows[query_index, : len(found_rows)] = found_rows
            if query_index % 64 == 63:
                task.report(n_done + query_index + 1, n_total, exact.title)
    return rows, query_times


def _fetch_documents(
    built: Any, point: np.ndarray, vector_documents: np.ndarray, k: int, n_first: int, max_hits: int
) -> np.ndarray:
    """Find up to k documents for one query; more and more vectors are fetched until they belong to k.

    built: faiss's index; vector_documents: the document of each vector; n_first, max_hits: vectors fetched first, and
    at most
    """
    n_fetched = n_first
    while True:
        hit_scores, hit_rows = built.search(point, n_fetched)
        found_rows = merge_hits(hit_rows[0], hit_scores[0], vector_documents, k)
        # Padding among the hits means that the index has visited all that it would: more hits find nothing new.
        if len(found_rows) == k or n_fetched == max_hits or hit_rows[0, -1] < 0:
            return found_rows
        n_fetched = min(2 * n_fetched, max_hits)


def merge_hits(hit_rows: np.ndarray, hit_scores: np.ndarray, vector_documents: np.ndarray, k: int) -> np.ndarray:
    """Merge the vectors that a query found into at most k documents, by best score, then by lower row.

    hit_rows: (f,) rows of vectors, −1 pads; hit_scores: (f,); vector_documents: (r,) the document of each vector.
    """
    is_present = hit_rows >= 0
    documents: np.ndarray = vector_documents[hit_rows[is_present]]
    # The last key of lexsort counts first: score, then row. The first of a document's vectors is then its best.
    documents = documents[np.lexsort((documents, -hit_scores[is_present]))]
    _distinct_documents, first_positions = np.unique(documents, return_index=True)
    return documents[np.sort(first_positions)[:k]]


def _make_result(task: _Task, exact: _ExactAnswers, index: Index, found_rows: np.ndarray, **costs: float) -> AnnResult:
    """Measure what an index found, and build the result.

    found_rows: (B, k) documents, −1 pads; costs: milliseconds of a query, seconds of the build, megabytes.
    """
    is_exact = isinstance(index, Exact)
    # The time is of faiss's exact search, the answer of this package's, which resolves near ties in float64.
    found_rows = exact.rows if is_exact else found_rows
    metric_values = task.measure_rows(found_rows) if task.metrics else {}
    data_digests = collect_digests(task.space, task.vectors, task.qrels)
    return AnnResult(
        scorer=exact.scorer.label, title=exact.title, index=index.as_json(), label=index.label, exact=is_exact,
        k=task.k, queries=task.vectors.ids, agreement=exact.measure_agreement(found_rows), values=metric_values,
        mean=compute_means(metric_values), returned=float((found_rows >= 0).sum(1).mean()), entries=len(exact.parts),
        per_document=exact.parts.per_document, seed=task.seed,
        provenance={**data_digests, **read_versions(), "faiss": import_faiss().__version__}, **costs,
    )  # fmt: skip
