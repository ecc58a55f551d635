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
from engine.errors import Cancelled, DataError, ParamError
from engine.evaluation.metrics import available_metrics, check_metrics, measure
from engine.evaluation.statistics import SEED
from engine.evaluation.studies.ann_indexes import INDEXES, STOPPED, Exact, Index, faiss_module, one_thread, usual
from engine.evaluation.sweep.cell import compute_means, read_versions
from engine.evaluation.sweep.compute import collect_digests, embed_for_space
from engine.multi_vector import Parts
from engine.params import Real, Whole
from engine.progress import Progress, Stop, report_to
from engine.space import Space
from engine.stages import Scorer, methods
from engine.values import Embeddings, Qrels, Queries, Ranking

JUDGED = ("mrr", "ndcg")
"""What is measured against judgements where nobody says."""
CLOSE = 1e-6
"""Scores that differ by no more, relative to the vectors' lengths, count as equal: float32 sums in another order do."""
REPEATS = Whole(1, "repeats", 1, 1000, name="repeats", help="How often a query is timed.")
WORTH = 1.05
"""Times nearer than this cannot be told apart."""
Indexes = Sequence[Index] | Callable[[int], Sequence[Index]]
"""Settings, or what makes them for a number of vectors."""
ENOUGH = Real(
    default=0.99,
    low=0.0,
    high=1.0,
    comfortable=(0.5, 1.0),
    symbol="least_exact_share",
    name="least_exact_share",
    help="How much of the exact answer an approximate one must have.",
)


@dataclass(frozen=True, eq=False, kw_only=True)
class Searched:
    """One index, searched in one way."""

    scorer: str  # whose vectors are searched, as label
    title: str  # the same for people
    index: Mapping[str, Any]  # kind and parameters as plain values
    label: str  # the same as text
    exact: bool  # whether every vector was compared
    k: int
    queries: tuple[str, ...]
    agreement: np.ndarray = field(repr=False)  # (B,) share of the exact k best found; what scores as the last counts
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
        """What it shares with the searches of the same index, as text."""
        kind = Exact if self.exact else INDEXES[self.index["kind"]]
        fixed = ", ".join(f"{n} {v}" for n, v in self.index.items() if n not in ("kind", kind.effort))
        return f"{kind.title}, {fixed}" if fixed else kind.title

    @property
    def share(self) -> float:
        """Mean of `agreement`: recall against the exact answer."""
        return float(self.agreement.mean())

    def as_json(self) -> dict[str, Any]:
        """Plain values, without those of every query."""
        names = ("scorer", "label", "exact", "k", "returned", "milliseconds", "build", "megabytes", "entries")
        mean = {name: value if value == value else None for name, value in self.mean.items()}
        rest = {"index": dict(self.index), "recall_of_exact": self.share, "mean": mean, "queries": len(self.queries)}
        more = {"per_document": self.per_document, "seed": self.seed, "provenance": dict(self.provenance)}
        return {name: getattr(self, name) for name in names} | rest | more


def approximate(
    scorers: Sequence[Scorer] | Scorer,
    space: Space,
    queries: Queries | Embeddings,
    qrels: Qrels | None = None,
    *,
    indexes: Indexes = usual,
    k: int = 10,
    metrics: Sequence[str] | None = None,
    seed: int = 0,
    repeats: int = 1,
    progress: Progress | None = None,
    stop: Stop | None = None,
) -> Iterator[Searched]:
    """Every scorer's vectors in every index, as Searched; of each scorer the exact search first.

    scorers: whose scores are largest inner products (`Scorer.document_vectors`); indexes: settings of Hnsw and Ivf, or
    a function that makes them for a number of vectors; metrics: that need no aspects, by default MRR and nDCG where
    there are judgements; seed: of the graph's layers and of k-means; repeats: how often each query is timed, its
    quickest counts. Hits are vectors: a document counts once, at its best, and more are fetched until there are k
    documents. Raises FrontierError without faiss, ParamError or DataError before the first (an index that so many
    vectors do not fit when its scorer's turn comes), and Cancelled when stopped.
    """
    faiss_module()
    chosen = [scorers] if isinstance(scorers, Scorer) else list(scorers)
    for scorer in chosen:
        if not isinstance(scorer, Scorer):
            raise ParamError(f"scorers must be made by engine.make; got {scorer!r} among them")
        if type(scorer).document_vectors is Scorer.document_vectors:
            able = ", ".join(searchable())
            raise ParamError(f"scorers must be found by nearest vectors, as {able} are; {scorer.label} is not")
    if not chosen:
        raise ParamError("scorers must hold at least one; got none")
    for index in () if callable(indexes) else indexes:
        if not isinstance(index, tuple(INDEXES.values())):
            raise ParamError(
                f"indexes must be of engine.evaluation.studies.ann_indexes, {', '.join(INDEXES)}; got {index!r}"
            )
    k, seed = min(SET_SIZE.check(k), len(space)), SEED.check(seed)
    names = tuple(metrics) if metrics is not None else (JUDGED if qrels is not None else ())
    check_metrics(names)
    vectors = embed_for_space(space, queries)
    if lacking := [m for m in names if m not in available_metrics(qrels, None, vectors)]:
        raise DataError(f"{', '.join(lacking)}: there are no judgements or aspects to measure this with")
    task = _Task(
        space=space,
        vectors=vectors,
        qrels=qrels,
        metrics=names,
        k=k,
        seed=seed,
        repeats=REPEATS.check(repeats),
        report=progress or (lambda *_: None),
        stop=stop,
    )
    return _rows(task, chosen, indexes)


def searchable() -> dict[str, Any]:
    """The registered scorers whose scores are inner products with nearest vectors, by name."""
    return {
        name: spec
        for name, spec in methods("scorer").items()
        if spec.cls.document_vectors is not Scorer.document_vectors
    }


def quickest(rows: Iterable[Searched], share: float = ENOUGH.default) -> dict[str, Searched]:
    """Scorer's label → the quickest approximate search that finds that share of the exact answer; without those
    that have none. Raises ParamError."""
    share = ENOUGH.check(share)
    enough = [row for row in rows if not row.exact and row.share >= share]
    scorers = dict.fromkeys(row.scorer for row in enough)
    return {s: min((row for row in enough if row.scorer == s), key=lambda row: row.milliseconds) for s in scorers}


def conclusions(rows: Sequence[Searched], share: float = ENOUGH.default) -> tuple[str, ...]:
    """For each scorer, in words: which search finds that share of the exact answer soonest, and whether it is worth
    it. Raises ParamError."""
    fast, sentences = quickest(rows, share), []
    for exact in (row for row in rows if row.exact):
        best = fast.get(exact.scorer)
        if best is None:
            sentences.append(f"{exact.title}: no index tried finds {share:.1%} of the exact answer.")
            continue
        times = exact.milliseconds / best.milliseconds
        worth = f"{times:.1f} times as fast as exact search" if times >= WORTH else "no faster than exact search"
        where = f"{best.milliseconds:.3f} ms per query"
        sentences.append(f"{exact.title}: {best.label} finds {best.share:.1%} of the exact answer in {where}, {worth}.")
    return tuple(sentences)


@dataclass(frozen=True, eq=False, kw_only=True)
class _Task:
    space: Space
    vectors: Embeddings
    qrels: Qrels | None
    metrics: tuple[str, ...]
    k: int
    seed: int
    repeats: int
    report: Progress
    stop: Stop | None

    def measured(self, rows: np.ndarray) -> dict[str, np.ndarray]:
        """Metrics of the documents returned, (B, k), −1 pads."""
        index = torch.from_numpy(rows)
        ranking = Ranking(index, torch.zeros(index.shape, dtype=torch.float64), ())
        return dict(measure(ranking, self.space, self.vectors, self.qrels, self.k, self.metrics).values)

    def check_stop(self) -> None:
        """Raise Cancelled when stopped."""
        if self.stop is not None and self.stop.is_set():
            raise Cancelled(STOPPED)


@dataclass(frozen=True, eq=False, kw_only=True)
class _Scored:
    """The vectors of a scorer, and the exact answers over them."""

    scorer: Scorer
    parts: Parts
    title: str
    rows: np.ndarray  # (B, k)
    least: np.ndarray  # (B,) score that is as good as the last one's
    scores: Callable[[np.ndarray], np.ndarray]  # those of other rows, (B, k)

    def agreement(self, rows: np.ndarray) -> np.ndarray:
        """(B,) the share of k that scores as well as the exact answer's last document."""
        scores = np.where(rows >= 0, self.scores(np.maximum(rows, 0)), -np.inf)
        shares: np.ndarray = (scores >= self.least[:, None]).sum(1) / rows.shape[1]
        return shares

    def enough(self, k: int) -> int:
        """A number of hits that hold k documents for sure."""
        counts = self.parts.counts.sort(descending=True).values
        return int(counts[: k - 1].sum()) + 1


def _rows(task: _Task, scorers: Sequence[Scorer], indexes: Indexes) -> Iterator[Searched]:
    for scorer in scorers:
        task.check_stop()
        with report_to(task.report, task.stop):
            # Never None: those without were refused.
            parts = cast(Parts, scorer.document_vectors(task.space))
        chosen = tuple(dict.fromkeys(indexes(len(parts)) if callable(indexes) else indexes))
        for index in chosen:
            index.check(len(parts))
        exact = _scored(task, scorer, parts)
        vectors = np.ascontiguousarray(parts.vectors.cpu().numpy(), dtype=np.float32)
        groups: dict[tuple[Any, ...], list[Index]] = {}
        for index in (Exact(), *chosen):
            groups.setdefault(tuple(index.built.items()), []).append(index)
        done, total = 0, (1 + len(chosen)) * len(task.vectors)
        for members in groups.values():
            task.report(done, total, f"{exact.title}: building {members[0].title}")
            started = time.perf_counter()
            with one_thread() as faiss:
                built = members[0].build(faiss, vectors, task.seed, task.stop)
            seconds = time.perf_counter() - started
            with one_thread() as faiss:
                size = faiss.serialize_index(built).nbytes / 1e6
            for index in members:
                index.aim(built)
                rows, times = _search(task, built, exact, done, total)
                done += len(task.vectors)
                cost = {"milliseconds": 1000 * float(np.median(times)), "build": seconds, "megabytes": size}
                yield _searched(task, exact, index, rows, **cost)


@without_autocast
def _scored(task: _Task, scorer: Scorer, parts: Parts) -> _Scored:
    """The k best documents by the project's own exact search, and their scores."""
    first = next(iter(methods("selector").values())).cls()
    blocks = []
    for start in range(0, len(task.vectors), 64):
        task.check_stop()
        task.report(start, len(task.vectors), f"{scorer.spec.title}: the exact answer")
        block = task.vectors.take(range(start, min(start + 64, len(task.vectors))))
        blocks.append(decode(Decoder(first, scorer), task.space, block, task.k).index.cpu())
    rows = torch.cat(blocks).numpy()
    points = task.vectors.vectors.to(parts.vectors)

    def scores(rows: np.ndarray) -> np.ndarray:
        return parts.best(points, torch.from_numpy(rows).to(parts.documents)).double().cpu().numpy()

    lengths = torch.linalg.vector_norm(points, dim=1) * torch.linalg.vector_norm(parts.vectors, dim=1).max()
    least = scores(rows)[:, -1] - CLOSE * lengths.double().cpu().numpy()
    title = scorer.spec.title if len(parts) == len(task.space) else f"{scorer.spec.title}, {len(parts):,} vectors"
    return _Scored(scorer=scorer, parts=parts, title=title, rows=rows, least=least, scores=scores)


@without_autocast
def _search(task: _Task, built: Any, exact: _Scored, done: int, total: int) -> tuple[np.ndarray, np.ndarray]:
    """The documents found, (B, k), −1 pads, and the seconds that each query took; done, total: for the report."""
    points = np.ascontiguousarray(task.vectors.vectors.numpy(), dtype=np.float32)
    documents = exact.parts.documents.cpu().numpy()
    enough = exact.enough(task.k)
    first = min(enough, math.ceil(task.k * exact.parts.per_document))
    rows = np.full((len(points), task.k), -1, dtype=np.int64)
    times = np.full(len(points), np.inf)
    with one_thread():
        built.search(points[:1], first)  # a process's first search waits for memory
        for query in range(len(points)):
            task.check_stop()
            for _ in range(task.repeats):
                started = time.perf_counter()
                answer = _documents(built, points[query : query + 1], documents, task.k, first, enough)
                times[query] = min(times[query], time.perf_counter() - started)
            rows[query, : len(answer)] = answer
            if query % 64 == 63:
                task.report(done + query + 1, total, exact.title)
    return rows, times


def _documents(built: Any, point: np.ndarray, documents: np.ndarray, k: int, first: int, enough: int) -> np.ndarray:
    """The at most k documents that one query finds; `first` hits are fetched, and twice as many until they suffice."""
    fetched = first
    while True:
        scores, hits = built.search(point, fetched)
        answer = merged(hits[0], scores[0], documents, k)
        # An index that ran out of vectors it would look at has no more, however many are asked for.
        if len(answer) == k or fetched == enough or hits[0, -1] < 0:
            return answer
        fetched = min(2 * fetched, enough)


def merged(hits: np.ndarray, scores: np.ndarray, documents: np.ndarray, k: int) -> np.ndarray:
    """The at most k documents that hits are of, each once, the best scored first, the lower row first among equals.

    hits: (f,) rows of vectors, −1 pads; scores: (f,); documents: (r,) the document of each vector.
    """
    present = hits >= 0
    owners: np.ndarray = documents[hits[present]]
    owners = owners[np.lexsort((owners, -scores[present]))]
    first = np.sort(np.unique(owners, return_index=True)[1])
    return owners[first[:k]]


def _searched(task: _Task, exact: _Scored, index: Index, rows: np.ndarray, **cost: float) -> Searched:
    """cost: milliseconds, build and megabytes."""
    every = isinstance(index, Exact)
    # Time is of faiss's own exact search, the answer the engine's, whose close calls are settled in float64.
    rows = exact.rows if every else rows
    values = task.measured(rows) if task.metrics else {}
    data = collect_digests(task.space, task.vectors, task.qrels)
    return Searched(
        scorer=exact.scorer.label,
        title=exact.title,
        index=index.as_json(),
        label=index.label,
        exact=every,
        k=task.k,
        queries=task.vectors.ids,
        agreement=exact.agreement(rows),
        values=values,
        mean=compute_means(values),
        returned=float((rows >= 0).sum(1).mean()),
        entries=len(exact.parts),
        per_document=exact.parts.per_document,
        seed=task.seed,
        provenance={**data, **read_versions(), "faiss": faiss_module().__version__},
        **cost,
    )
