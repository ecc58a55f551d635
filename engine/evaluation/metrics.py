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
from engine.evaluation.aspects import Aspects, Coverage, Judgements, coverage, judgements
from engine.matrix import CHUNK_NUMBERS, GRAM_ROWS
from engine.space import Elsewhere, Space, resolve_local_space
from engine.values import Embeddings, Qrels, Queries, Ranking

REDUNDANT = 0.9
"""From this cosine on, a document repeats another."""
BUDGET = 400
"""How many words a reader takes, best document first."""
CACHED_NUMBERS = 1 << 19
"""How many numbers of float64 a pass may hold that reads them more than once (4 MiB)."""


@dataclass(frozen=True, eq=False, kw_only=True)
class RetrievedSets:
    """The sets of B queries with all that metrics need, made on first use."""

    rows: Tensor  # (B, k) int64, −1 pads
    space: Space
    ids: tuple[str, ...]
    qrels: Qrels | None
    aspects: Aspects | None
    points: Tensor  # (B, d) the queries' vectors, empty without them
    query: np.ndarray | None = None  # (B,) whose each set is, where `ids` are fewer and have several
    answers: Aspects | None = None

    @cached_property
    def index(self) -> np.ndarray:
        """(B, k) the rows, in the memory of the CPU."""
        return self.rows.cpu().numpy()

    @cached_property
    def known(self) -> Judgements:
        known = judgements(self.space, self.ids, self.qrels or Qrels({}))
        return known if self.query is None else known.repeated(self.query)

    @cached_property
    def grades(self) -> np.ndarray:
        """(B, k) grade of each returned document, 0 where unjudged or nothing was returned."""
        return self.known.of(self.index)

    @property
    def hits(self) -> np.ndarray:
        """(B, k) whether each returned document is relevant."""
        return self.grades > 0

    @cached_property
    def relevant(self) -> np.ndarray:
        """(B,) how many documents are relevant; NaN where none is."""
        return np.where(self.known.counts > 0, self.known.counts, np.nan)

    @cached_property
    def coverage(self) -> Coverage:
        known = coverage(self.space, self.ids, {} if self.aspects is None else self.aspects, self.rows.shape[1])
        return known if self.query is None else known.repeated(self.query)

    def of_each(self) -> Iterator[tuple[str, np.ndarray]]:
        """The query's id and the rows of each set, without pads."""
        names = self.ids if self.query is None else [self.ids[place] for place in self.query.tolist()]
        for name, rows in zip(names, self.index, strict=True):
            yield name, rows[rows >= 0]


Need = Literal["qrels", "aspects", "vectors", "answers"]
NEEDS: dict[Need, str] = {
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

    def values(self, sets: RetrievedSets) -> np.ndarray:
        """(B,) float64, NaN where undefined: what needs judgements is so without a relevant document."""
        values = self.compute(sets)
        return np.where(np.isnan(sets.relevant), np.nan, values) if self.needs == "qrels" else values


@dataclass(frozen=True)
class Measures:
    """Metrics at k of B queries."""

    k: int
    per_query: Mapping[str, Mapping[str, float]]  # metric → query id → value, without the queries that lack it
    mean: Mapping[str, float]  # metric → mean over those, NaN if there are none
    left_out: int  # number of queries without a document judged relevant, and so without recall
    undefined: Mapping[str, int]  # metric → number of queries for which it does not exist
    values: Mapping[str, np.ndarray] = field(compare=False, repr=False)  # metric → (B,), NaN where undefined


def _ndcg(sets: RetrievedSets) -> np.ndarray:
    ideal = _discounted(sets.known.ideal(sets.rows.shape[1]))
    return _discounted(sets.grades) / np.where(ideal > 0, ideal, np.nan)


def read_within(sets: RetrievedSets, budget: int) -> np.ndarray:
    """(B, k) whether each returned document is read by who takes so many words, best document first.

    What does not fit ends the reading, but for the first: no budget is too small for one document.
    """
    texts = sets.space.corpus.passages
    words = sets.space.derived("words a document", lambda: np.array([len(text.split()) for text in texts]))
    returned: np.ndarray = sets.index >= 0
    read = returned & (np.where(returned, words[sets.index], 0).cumsum(1) <= budget)
    read[:, 0] = returned[:, 0]
    return read


def budget_recall(sets: RetrievedSets, budget: int = BUDGET) -> np.ndarray:
    """(B,) the share of the relevant documents that are read within a budget of words."""
    share: np.ndarray = (sets.hits & read_within(sets, budget)).sum(1) / sets.relevant
    return share


def answer_coverage(sets: RetrievedSets, budget: int = BUDGET) -> np.ndarray:
    """(B,) the share of a query's answers that stand in a document that is read within a budget; NaN without any."""
    read, shares = read_within(sets, budget).sum(1), []
    ids = sets.space.corpus.ids
    for (query, rows), count in zip(sets.of_each(), read.tolist(), strict=True):
        answers = (sets.answers or {}).get(query, {})
        seen = {ids[row] for row in rows[:count].tolist()}
        found = sum(not seen.isdisjoint(documents) for documents in answers.values())
        shares.append(found / len(answers) if answers else np.nan)
    return np.array(shares)


def _holes(sets: RetrievedSets) -> np.ndarray:
    grades, ids = (sets.qrels or Qrels({})).grades, sets.space.corpus.ids
    judged = [
        np.mean([ids[row] in grades.get(query, ()) for row in rows.tolist()]) if len(rows) else np.nan
        for query, rows in sets.of_each()
    ]
    return 1 - np.array(judged)


METRICS: dict[str, Metric] = {
    m.name: m
    for m in (
        Metric("recall", "Recall", "|top-k ∩ rel| / |rel|", "qrels", lambda f: f.hits.sum(1) / f.relevant),
        Metric("comp", "Comp", "1 if all of rel is in the top-k", "qrels", lambda f: f.hits.sum(1) == f.relevant),
        Metric("ndcg", "nDCG", "Σ grade/log2(rank+1) over the ideal", "qrels", _ndcg),
        Metric(
            "mrr",
            "MRR",
            "1 / rank of the first relevant, 0 if none in the top-k",
            "qrels",
            lambda f: np.where(f.hits.any(1), 1 / (f.hits.argmax(1) + 1), 0.0),
        ),
        Metric(
            "budget_recall",
            f"Recall in {BUDGET} words",
            f"|rel among the first of the top-k that have {BUDGET} words together| / |rel|; the first always counts",
            "qrels",
            budget_recall,
        ),
        Metric("precision", "Precision", "|top-k ∩ rel| / k", "qrels", lambda f: f.hits.mean(1)),
        Metric(
            "holes",
            "Holes",
            "share of the documents returned that nobody has judged; what recall may miss; measured on request",
            "qrels",
            _holes,
            lower_is_better=True,
            on_request=True,
        ),
        Metric(
            "ilad",
            "ILAD",
            "mean of 1 − cos over the pairs returned; undefined under two documents",
            None,
            lambda f: ilad(f.space.vectors, f.rows).cpu().numpy(),
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
            f"Answers in {BUDGET} words",
            f"share of the query's answer strings in the first of the top-k that have {BUDGET} words together; the "
            "first always counts; measured on request",
            "answers",
            answer_coverage,
            on_request=True,
        ),
        Metric(
            "cos_sum",
            "cos(sum, query)",
            "cosine of the returned vectors' sum and the query's, 0 where either is zero",
            "vectors",
            lambda f: cos_sum(f.space.vectors, f.rows, f.points).cpu().numpy(),
        ),
        Metric(
            "redundancy",
            "Redundancy",
            f"share of the documents returned that have a cosine of {REDUNDANT:g} or more with one above them",
            None,
            lambda f: redundancy(f.space.vectors, f.rows).cpu().numpy(),
            lower_is_better=True,
        ),
    )
}
LESS_IS_BETTER = frozenset(m.name for m in METRICS.values() if m.lower_is_better)


def title_of(metric: str) -> str:
    """A metric as charts write it; the name of one that is not registered."""
    return METRICS[metric].title if metric in METRICS else metric


def defined_mean(values: np.ndarray) -> float:
    """The mean of (n,) values without the NaN among them; NaN where there is no other."""
    defined = values[~np.isnan(values)]
    return float(defined.mean()) if len(defined) else float("nan")


def available(
    qrels: Qrels | None = None, aspects: Aspects | None = None, vectors: Queries | Embeddings | None = None
) -> tuple[str, ...]:
    """The metrics measured by default with what is given; vectors: the queries, of use only as Embeddings."""
    given = {"qrels": bool(qrels), "aspects": bool(aspects), "vectors": isinstance(vectors, Embeddings)}
    return tuple(m.name for m in METRICS.values() if not m.on_request and (m.needs is None or given[m.needs]))


def check_metrics(names: Iterable[str]) -> None:
    """Raise a ParamError that names those that are no metrics."""
    if unknown := [m for m in names if m not in METRICS]:
        raise ParamError(f"metrics must be among {', '.join(METRICS)}; got {', '.join(map(repr, unknown))}")


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
    k, space = SET_SIZE.check(k), resolve_local_space(space, ranking)
    names = (metrics,) if isinstance(metrics, str) else tuple(metrics)
    check_metrics(names)
    ids = tuple(queries.ids) if isinstance(queries, (Queries, Embeddings)) else tuple(queries)
    if isinstance(queries, str) or not all(isinstance(name, str) for name in ids) or len(set(ids)) != len(ids):
        raise DataError("queries must be engine.Queries, engine.Embeddings, or a list of distinct query ids")
    if qrels is not None and not isinstance(qrels, Qrels):
        raise DataError(f"qrels must be engine.Qrels, for example data.qrels['test']; got {type(qrels).__name__}")
    largest = int(ranking.index.max()) if ranking.index.numel() else -1
    if largest >= len(space):
        raise DataError(f"the ranking is not of this corpus: it holds row {largest}, the corpus has {len(space)}")
    if len(ids) != len(ranking):
        raise DataError(f"queries must be those of the ranking: {len(ids)} queries, {len(ranking)} rankings")
    if ranking.index.shape[1] < k:
        raise ParamError(f"k ({k}) must be at most the ranking's depth, {ranking.index.shape[1]}; decode with k={k}")
    points = space.fitted(queries).vectors if isinstance(queries, Embeddings) else torch.empty(0, 0)
    vectors = queries if isinstance(queries, Embeddings) else None
    _refuse_needy(names, {"qrels": qrels, "aspects": aspects, "vectors": vectors, "answers": answers})
    if "cos_sum" in names and points.shape[1] != space.vectors.shape[1]:
        raise DataError(f"the queries have {points.shape[1]} dimensions, the corpus has {space.vectors.shape[1]}")

    sets = RetrievedSets(
        rows=ranking.index[:, :k], space=space, ids=ids, qrels=qrels, aspects=aspects, points=points, answers=answers
    )
    values = {name: METRICS[name].values(sets) for name in names}
    per_query = {name: _by_query(ids, column) for name, column in values.items()}
    mean = {name: defined_mean(column) for name, column in values.items()}
    left_out = 0 if qrels is None else int(np.isnan(sets.relevant).sum())
    undefined = {name: int(np.isnan(column).sum()) for name, column in values.items()}
    return Measures(k, per_query, mean, left_out, undefined, values)


def _by_query(ids: Sequence[str], column: np.ndarray) -> dict[str, float]:
    """Query id → value, without NaN."""
    defined = ~np.isnan(column)
    return dict(zip(ids if defined.all() else compress(ids, defined), column[defined].tolist(), strict=True))


def _refuse_needy(names: Sequence[str], given: Mapping[Need, object]) -> None:
    """Raise a DataError that names the metrics whose needs are not met."""
    lacking = {need: [m for m in names if METRICS[m].needs == need] for need, value in given.items() if value is None}
    problems = [
        f"{', '.join(needy)} {'need' if len(needy) > 1 else 'needs'} {NEEDS[need]}"
        for need, needy in lacking.items()
        if needy
    ]
    if problems:
        rest = ", ".join(m.name for m in METRICS.values() if m.needs is None or given[m.needs] is not None)
        raise DataError(f"{'; '.join(problems)}; without, only {rest} can be measured")


def ilad(vectors: Tensor, rows: Tensor) -> Tensor:
    """(B,) mean of 1 − cos over the pairs of each set, float64; NaN for fewer than two documents (nnn §4.1).

    vectors: (n, d); rows: (B, k) int64, −1 pads. A zero row has cosine 0 to everything.
    """
    rows = rows.to(vectors.device)
    parts = []
    if len(vectors) ** 2 <= rows.numel():
        # Very many sets over few documents: every pair once, and looked up.
        padded = torch.nn.functional.pad(_unit(vectors.double()), (0, 0, 0, 1))
        cosines = padded @ padded.T
        for block in rows.split(max(1, CHUNK_NUMBERS // rows.shape[1] ** 2)):
            pairs = cosines[block.unsqueeze(2), block.unsqueeze(1)]
            parts.append(pairs.sum((1, 2)) - pairs.diagonal(dim1=1, dim2=2).sum(1))
    else:
        for listed, positions in _listed(vectors, rows):
            unit = _unit(listed)
            ones = unit.square().sum(1)
            # The sum of all pairs is (|Σû|² − Σ|û|²)/2: one pass over k·d numbers instead of k²·d.
            parts += [_sums(unit, block).square().sum(1) - ones[block].sum(1) for block in positions]
    count = (rows >= 0).sum(1).double()
    spread = 1 - torch.cat(parts) / (count * (count - 1))
    return spread.clamp_min(0).masked_fill(count < 2, torch.nan)


def cos_sum(vectors: Tensor, rows: Tensor, points: Tensor) -> Tensor:
    """(B,) cosine of the sum of each set's vectors, as they are, with the query's, float64 (vrsd Alg. 1).

    vectors: (n, d); rows: (B, k) int64, −1 pads; points: (B, d). NaN for no document, 0 where the sum or the query is
    zero.
    """
    points = points.to(vectors.device)
    parts: list[Tensor] = []
    done = 0
    for listed, positions in _listed(vectors, rows):
        for block in positions:
            query = _unit(points[done : done + len(block)].double())
            parts.append((_unit(_sums(listed, block)) * query).sum(1))
            done += len(block)
    return torch.cat(parts).masked_fill((rows < 0).all(1).to(vectors.device), torch.nan)


def redundancy(vectors: Tensor, rows: Tensor) -> Tensor:
    """(B,) share of each set's documents that have a cosine of REDUNDANT or more with one listed before, float64.

    vectors: (n, d); rows: (B, k) int64, −1 pads. NaN for no document, 0 for one. A zero row has cosine 0 to everything.
    """
    n, k = len(vectors), rows.shape[1]
    rows = rows.to(vectors.device)
    # Many queries over few documents: every pair once, at several times the pace of many small products.
    whole = None
    if n <= GRAM_ROWS and n * n <= 4 * k * rows.numel():
        unit = _unit(vectors.double())
        whole = unit @ unit.T
    before = torch.ones(k, k, dtype=torch.bool, device=vectors.device).tril_(-1)
    parts = []
    for block in rows.split(max(1, CACHED_NUMBERS // (k * max(k, vectors.shape[1])))):
        returned, chosen = block >= 0, block.clamp_min(0)
        if whole is not None:
            cosines = whole[chosen.unsqueeze(2), chosen.unsqueeze(1)]
        else:
            unit = _unit(vectors[chosen].double())
            cosines = torch.bmm(unit, unit.transpose(1, 2))
        alike = (cosines >= REDUNDANT) & before & returned.unsqueeze(1)
        parts.append((alike.any(2) & returned).sum(1) / returned.sum(1).double())
    return torch.cat(parts)


def _listed(vectors: Tensor, rows: Tensor) -> Iterator[tuple[Tensor, Sequence[Tensor]]]:
    """Block by block: the vectors that rows, (B, k), list, each once, in float64, zero for pads; and where each of
    them is, in parts (b, k) of so few queries that their sums stay in the cache."""
    rows = rows.to(vectors.device)
    width = vectors.shape[1]
    for block in rows.split(max(1, CHUNK_NUMBERS // (rows.shape[1] * width))):
        used, positions = block.unique(return_inverse=True)
        listed = vectors[used.clamp_min(0)].double().masked_fill_((used < 0).unsqueeze(1), 0)
        yield listed, positions.split(max(1, CACHED_NUMBERS // (4 * width)))


def _sums(listed: Tensor, index: Tensor) -> Tensor:
    """(b, d) sums of the rows of listed at (b, k)."""
    return embedding_bag(index, listed, mode="sum")


def _unit(rows: Tensor) -> Tensor:
    """Rows of length 1; zero rows stay."""
    length: Tensor = torch.linalg.vector_norm(rows, dim=-1, keepdim=True)
    return rows / length.masked_fill(length == 0, 1)


def _discounted(grades: np.ndarray) -> np.ndarray:
    sums: np.ndarray = (grades / np.log2(np.arange(2, grades.shape[1] + 2))).sum(1)
    return sums
