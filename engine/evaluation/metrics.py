"""Metrics of a retrieved set, per query: whether it is right, and whether it says one thing or many.

Recall, Comp, nDCG, MRR and Precision need judgements; ILAD needs vectors only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from engine.candidates import exactly
from engine.decoder import SET_SIZE
from engine.errors import DataError, ParamError
from engine.space import Space
from engine.values import Embeddings, Qrels, Queries, Ranking


@dataclass(frozen=True, slots=True)
class Judged:
    """Judged queries and what they got, as arrays.

    grades: (B, k) grade of each returned document, 0 where unjudged or nothing was returned; relevant: (B,) how
    many documents are relevant; ideal: (B,) the best possible discounted gain at k.
    """

    grades: np.ndarray
    relevant: np.ndarray
    ideal: np.ndarray

    @property
    def hits(self) -> np.ndarray:
        """(B, k) whether each returned document is relevant."""
        return self.grades > 0


@dataclass(frozen=True, slots=True)
class Metric:
    """name; title: as charts write it; formula: its definition; of: judged queries to (B,) values."""

    name: str
    title: str
    formula: str
    of: Callable[[Judged], np.ndarray] | None


@dataclass(frozen=True)
class Measures:
    """What `measure` found.

    per_query: metric → query id → value, without the queries for which it is undefined; mean: metric → mean over
    those, NaN if there are none; left_out: how many queries have no relevant document judged, and so no recall;
    undefined: metric → for how many queries it does not exist.
    """

    k: int
    per_query: Mapping[str, Mapping[str, float]]
    mean: Mapping[str, float]
    left_out: int
    undefined: Mapping[str, int]


def _reciprocal_rank(judged: Judged) -> np.ndarray:
    hits = judged.hits
    return np.where(hits.any(1), 1 / (hits.argmax(1) + 1), 0.0)


METRICS: dict[str, Metric] = {
    m.name: m
    for m in (
        Metric("recall", "Recall", "|top-k ∩ rel| / |rel|", lambda j: j.hits.sum(1) / j.relevant),
        Metric("comp", "Comp", "1 if all of rel is in the top-k", lambda j: (j.hits.sum(1) == j.relevant) * 1.0),
        Metric("ndcg", "nDCG", "Σ grade/log2(rank+1) over the ideal", lambda j: _discounted(j.grades) / j.ideal),
        Metric("mrr", "MRR", "1 / rank of the first relevant, 0 if none in the top-k", _reciprocal_rank),
        Metric("precision", "Precision", "|top-k ∩ rel| / k", lambda j: j.hits.mean(1)),
        Metric("ilad", "ILAD", "mean of 1 − cos over the pairs returned; undefined under two documents", None),
    )
}


@exactly
def measure(
    ranking: Ranking,
    space: Space,
    queries: Queries | Embeddings | Sequence[str],
    qrels: Qrels | None = None,
    k: int = 10,
    metrics: Sequence[str] = ("recall", "comp", "ndcg", "ilad"),
) -> Measures:
    """Metrics at k of what each query got.

    queries: those that were decoded, in the same order (or their ids); qrels: their judgements, or None for ILAD
    alone. A query without a relevant document is left out of recall and its kin and counted, never scored 0; a
    relevant document that is not in the corpus counts as not found. Raises ParamError or DataError.
    """
    k = SET_SIZE.check(k)
    wanted = (metrics,) if isinstance(metrics, str) else tuple(metrics)
    if unknown := [m for m in wanted if m not in METRICS]:
        raise ParamError(f"metrics must be among {', '.join(METRICS)}; got {', '.join(map(repr, unknown))}")
    ids = tuple(queries.ids) if isinstance(queries, (Queries, Embeddings)) else tuple(queries)
    if isinstance(queries, str) or len(set(ids)) != len(ids):
        raise DataError("queries must be Queries, Embeddings, or a list of distinct query ids")
    if qrels is not None and not isinstance(qrels, Qrels):
        raise DataError(f"qrels must be engine.Qrels, for example data.qrels['test']; got {type(qrels).__name__}")
    if int(ranking.index.max()) >= len(space):
        raise DataError(
            f"the ranking is not of this corpus: it holds row {int(ranking.index.max())}, the corpus has {len(space)}"
        )
    if len(ids) != len(ranking):
        raise DataError(f"queries must be those of the ranking: {len(ids)} queries, {len(ranking)} rankings")
    if ranking.index.shape[1] < k:
        raise ParamError(f"k ({k}) must be at most the ranking's depth, {ranking.index.shape[1]}; decode with k={k}")
    if qrels is None and (needy := [m for m in wanted if METRICS[m].of]):
        raise DataError(f"{', '.join(needy)} need judgements (qrels); without them only ilad can be measured")

    rows = ranking.index[:, :k]
    found: dict[str, dict[str, float]] = {}
    judged_ids: list[str] = []
    if qrels is not None:
        judged_ids, judged = _judge(rows.cpu().numpy(), space, ids, qrels, k)
        for name in wanted:
            if of := METRICS[name].of:
                found[name] = dict(zip(judged_ids, of(judged).tolist(), strict=True))
    if "ilad" in wanted:
        spread = ilad(space.vectors, rows).cpu().numpy()
        found["ilad"] = {q: v for q, v in zip(ids, spread.tolist(), strict=True) if not np.isnan(v)}
    per_query = {name: found[name] for name in wanted}
    mean = {
        name: float(np.mean(list(values.values()))) if values else float("nan") for name, values in per_query.items()
    }
    left_out = 0 if qrels is None else len(ids) - len(judged_ids)
    return Measures(k, per_query, mean, left_out, {name: len(ids) - len(values) for name, values in per_query.items()})


def ilad(vectors: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    """(B,) mean of 1 − cos over the pairs of each set, float64; NaN for fewer than two documents (nnn §4.1).

    vectors: (n, d); rows: (B, k) int64, −1 pads. A zero row has cosine 0 to everything.
    """
    parts = []
    rows = rows.to(vectors.device)
    # The sum of all pairs is (|Σû|² − Σ|û|²)/2: one pass over k·d numbers instead of k²·d.
    for block in rows.split(max(1, (1 << 22) // (rows.shape[1] * vectors.shape[1]))):
        kept = (block >= 0).unsqueeze(2)
        chosen = vectors[block.clamp_min(0)].double() * kept
        length = torch.linalg.vector_norm(chosen, dim=2, keepdim=True)
        unit = chosen / length.masked_fill(length == 0, 1)
        count = kept.sum(dim=(1, 2)).double()
        twice = unit.sum(1).square().sum(1) - unit.square().sum(dim=(1, 2))
        spread = 1 - twice / (count * (count - 1))
        parts.append(spread.clamp_min(0).masked_fill(count < 2, torch.nan))
    return torch.cat(parts)


def _judge(rows: np.ndarray, space: Space, ids: Sequence[str], qrels: Qrels, k: int) -> tuple[list[str], Judged]:
    kept = [i for i, query in enumerate(ids) if qrels.relevant(query)]
    grades = np.zeros((len(kept), k))
    relevant = np.zeros(len(kept))
    ideal = np.zeros((len(kept), k))
    for at, i in enumerate(kept):
        of_query = qrels.grades[ids[i]]
        grades[at] = [max(0, of_query.get(space.corpus.ids[row], 0)) if row >= 0 else 0 for row in rows[i]]
        best = sorted((grade for grade in of_query.values() if grade > 0), reverse=True)
        relevant[at] = len(best)
        ideal[at, : min(k, len(best))] = best[:k]
    return [ids[i] for i in kept], Judged(grades, relevant, _discounted(ideal))


def _discounted(grades: np.ndarray) -> np.ndarray:
    return (grades / np.log2(np.arange(2, grades.shape[1] + 2))).sum(1)
