"""Questions that decide picks over a whole corpus: has a document outside the candidates too large an inner product.

The gain of one more document is a concave function of its vector for mmr, dpp and ssd, and linear for max_sum, so that
a tangent of it bounds the gain of every document: gain(u) ≤ c + g·u. Where no document outside the candidates has
g·u > gain(pick) − c, none of them would have been picked. A bound once true stays true while gains only fall.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from engine.candidates import Candidates
from engine.solvers.greedy.steps import LOG_RESIDUAL, NEAREST
from engine.values import Ranking

STEPS = 40
"""Steps of the search for the tangent that is lowest over the candidates."""
MOST_SOUGHT = 100
"""Picks for which it is sought: further ones are asked by the tangent at the pick."""
DEPTHS = (30, 100, 300)
"""Sizes of the means of candidates along which a good tangent is sought."""
SPENT = 1e-9
"""A squared residual under this share of a row's squared length adds no direction to a span."""
CLOSE = 1e-10
"""Gains closer than this, relative to what they are sums of, may have been ordered otherwise by other rounding."""
SLACK = 1e-6
"""How much longer than they say rows may be, relative to their squared length: the rounding of unit rows."""


@dataclass(frozen=True, eq=False)
class LinearQuestion:
    """Whether any document outside the candidates has u·point > limit; unpacks as (point, limit).

    point: (d,) float64, all zero where no such question would decide; picks: the places of the answer that hang on it;
    value: the pick's gain, where value − limit + u·point bounds that of every document while the picks `given` (rows
    of the candidates) are among those made; None where the bound is of this answer only; other: a question that
    decides the same, or None
    """

    point: np.ndarray
    limit: float
    picks: frozenset[int]
    value: float | None = None
    given: frozenset[int] = frozenset()
    other: "LinearQuestion | None" = None

    def __iter__(self) -> Iterator[np.ndarray | float]:
        yield self.point
        yield self.limit


def undecidable(candidates: Candidates, picks: Sequence[int]) -> LinearQuestion:
    """What no question decides: those picks stay open."""
    return LinearQuestion(np.zeros(candidates.vectors.shape[-1]), -np.inf, frozenset(picks))


def query_of(candidates: Candidates) -> np.ndarray:
    """(d,) float64 the one query of the candidates."""
    return candidates.queries[0].double().cpu().numpy()


def by_relevance(candidates: Candidates, ranking: Ranking, count: int | None = None) -> list[LinearQuestion]:
    """Whether the first `count` documents, all by default, are the most relevant ones: their order needs no other."""
    point, rows = query_of(candidates), ranking.rows()[:count]
    scores = _vectors(candidates, rows) @ point
    total = len(ranking.rows())
    return [LinearQuestion(point, float(score), frozenset(range(t, total))) for t, score in enumerate(scores)]


def of_most_relevant(candidates: Candidates, ranking: Ranking, size: int) -> list[LinearQuestion]:
    """Whether the `size` most relevant documents are all among the candidates."""
    picks = frozenset(range(max(1, len(ranking.rows()))))
    if size > candidates.count:
        return [LinearQuestion(query_of(candidates), -np.inf, picks)]
    rows, point = candidates.relevance[0].topk(size).indices.tolist(), query_of(candidates)
    return [LinearQuestion(point, float((_vectors(candidates, rows) @ point).min()), picks)]


def of_greedy(
    kind: int, candidates: Candidates, ranking: Ranking, weight: float, window: int | None = None
) -> list[LinearQuestion]:
    """Whether each pick of mmr, dpp or ssd (`kind`: see `greedy.steps`) is the best of the whole corpus.

    Asked by the tangent that is lowest over the candidates, or else by that at the pick itself.
    """
    rows, gains = ranking.rows(), ranking.gain[0].tolist()
    first = by_relevance(candidates, ranking, 1)
    if weight == 1:
        return by_relevance(candidates, ranking)
    known = ranking.info[0].get("past_rank")
    known = len(rows) if known is None else known
    square = candidates.max_norm**2 * (1 + SLACK)
    if square == 0:
        return [undecidable(candidates, range(len(rows)))]
    marginal = _Marginal(kind, weight, square)
    # Bounds of dpp and ssd are higher by SLACK; those of mmr are what its gains are, up to rounding.
    terms = weight * float(np.linalg.norm(query_of(candidates))) * square**0.5 + (1 - weight) * square
    loss = CLOSE * terms if kind == NEAREST else 0.0
    if kind != NEAREST and not candidates.matrix.unit:
        # The longest row could be any.
        spread = float(np.log(square) if kind == LOG_RESIDUAL else np.sqrt(square))
        limit = gains[0] - (1 - weight) * spread
        first = [LinearQuestion(weight * query_of(candidates), limit, frozenset(range(len(rows))), gains[0])]
    vectors = candidates.vectors.double().cpu().numpy()
    along = vectors @ query_of(candidates)
    questions = first
    for t in range(1, known):
        given = rows[max(0, t - (window or t)) : t]
        axes = vectors[given] if kind == NEAREST else _span(vectors[given])
        coordinates = np.column_stack([along, vectors @ axes.T])
        left = np.ones(len(vectors), bool)
        left[rows[:t]] = False
        basis = np.vstack([query_of(candidates), axes])
        tangents = [marginal.tangent(coordinates[rows[t]])]
        if left.any() and t <= MOST_SOUGHT:
            tangents.append(_best_tangent(marginal, coordinates[left], gains[t]))
        question = None
        for slope, constant in tangents:
            picks = frozenset(range(t, len(rows)))
            value = gains[t] - loss
            question = LinearQuestion(slope @ basis, value - constant, picks, value, frozenset(given), question)
        questions += [question] if question is not None else []
    if known < len(rows):
        questions.append(undecidable(candidates, range(known, len(rows))))
    return questions


def of_sums(candidates: Candidates, ranking: Ranking, weight: float, swaps: bool) -> list[LinearQuestion]:
    """Whether a document outside would better a set by θ(k−1) r − 2(1−θ) Σ s.

    swaps: in place of a member, for each; else at each step of greed, whose picks are found again within the set
    """
    rows, point = ranking.rows(), query_of(candidates)
    k = len(rows)
    if k == 1:
        return by_relevance(candidates, ranking)
    vectors = _vectors(candidates, rows)
    towards = weight * (k - 1) * point
    if swaps:
        whole = vectors.sum(0)
        fields = [towards - 2 * (1 - weight) * (whole - own) for own in vectors]
        return [
            LinearQuestion(f, float(f @ own), frozenset([i]))
            for i, (f, own) in enumerate(zip(fields, vectors, strict=True))
        ]
    every = candidates.vectors.double().cpu().numpy()
    questions: list[LinearQuestion] = []
    total, left, out = np.zeros_like(point), list(range(k)), np.zeros(len(every), bool)
    field = point
    for _ in range(k):
        gains = np.where(out, -np.inf, every @ field)
        at = max(range(len(left)), key=lambda j: (gains[rows[left[j]]], -rows[left[j]]))
        best = float(gains[rows[left[at]]])
        gains[rows[left[at]]] = -np.inf
        if not best > float(gains.max(initial=-np.inf)) + CLOSE * (abs(best) + float(np.linalg.norm(field))):
            # Too close to say which of them the selector took here: its further steps are not known.
            return [*questions, undecidable(candidates, left)]
        # What is open here leaves open all that was picked from here on.
        questions.append(LinearQuestion(field, best, frozenset(left)))
        out[rows[left[at]]] = True
        total = total + vectors[left.pop(at)]
        field = towards - 2 * (1 - weight) * total
    gains = ranking.gain[0, :k].double().cpu().numpy()
    kind = candidates.matrix.duplicate_of.cpu().numpy()[rows]
    sure = _told_apart(gains, kind, k, CLOSE * float(np.abs(gains).max()))
    return questions + ([undecidable(candidates, range(sure, k))] if sure < k else [])


def of_residual(candidates: Candidates, weights: Ranking, answer: Ranking, filled: bool) -> list[LinearQuestion]:
    """Whether weights that rebuild the query from the candidates do so from the corpus: u·(v − Uᵀw) ≤ λ₁ outside.

    weights: all members with their weights; answer: what was returned, of which documents without a weight are
    `filled` in by u·(v − Uᵀw). What rounding may have settled stays open: weights too close to say which is larger,
    documents too close to λ₁ to say that they have none, and all where there may be several minimisers.
    """
    info, returned = weights.info[0], len(answer.rows())
    rows = [row for row, gain in zip(weights.rows(), weights.gain[0].tolist(), strict=False) if gain > 0]
    own = weights.gain[0, : len(rows)].double().cpu().numpy()
    every = candidates.vectors.double().cpu().numpy()
    residual = query_of(candidates) - own @ every[rows]
    apart, off = _uncertainty(candidates, every[rows], info)
    kind, along = candidates.matrix.duplicate_of.cpu().numpy(), every @ residual
    member = np.isin(kind, kind[rows])
    if not math.isfinite(off) or (np.abs(along[~member] - info["l1"]) <= off).any():
        return [undecidable(candidates, range(max(1, returned)))]
    sure = _told_apart(np.append(own, 0.0), np.append(kind[rows], -1), min(len(rows), returned), apart)
    limit = info["l1"]
    if filled and sure == len(rows) < returned:
        left = np.setdiff1d(np.arange(len(every)), rows)
        rest = left[np.argsort(-along[left], kind="stable")]
        sure += _told_apart(along[rest], kind[rest], returned - len(rows), off)
        limit = min(limit, limit + float(answer.gain[0, returned - 1]))
    elif filled and returned < answer.index.shape[1]:
        limit = -np.inf
    doubtful = [undecidable(candidates, range(sure, returned))] if sure < returned else []
    return [LinearQuestion(residual, limit - off, frozenset(range(max(1, returned)))), *doubtful]


def _told_apart(values: np.ndarray, kind: np.ndarray, count: int, apart: float) -> int:
    """How many of the first `count` values, descending, are larger by `apart` than the next one of another kind."""
    ends = np.append(np.flatnonzero(kind[1:] != kind[:-1]) + 1, len(kind))
    after = np.append(values, -np.inf)[ends[np.searchsorted(ends, np.arange(count), side="right")]]
    close = np.flatnonzero(~(values[:count] - after > apart))
    return int(close[0]) if len(close) else count


def _uncertainty(candidates: Candidates, members: np.ndarray, info: Mapping[str, Any]) -> tuple[float, float]:
    """How far apart weights have to be, and u·(v − Uᵀw) from λ₁, that two minimisers found by the solver agree on them.

    λ₂ > 0: from the duality gap. λ₂ = 0: where no other document is near λ₁, both solve G w = c − λ₁ for the members'
    Gram matrix G up to the residual; not finite where G says nothing.
    """
    longest, scale = candidates.max_norm, candidates.max_norm * float(np.linalg.norm(query_of(candidates)))
    if not len(members):
        return 0.0, CLOSE * scale
    if info["l2"] > 0:
        if info["gap"] is None:
            return math.inf, math.inf
        error = math.sqrt(2 * info["gap"])
        return 4 * error / math.sqrt(info["l2"]), max(CLOSE * scale, 4 * longest * error)
    gram = members @ members.T
    least = float(np.linalg.eigvalsh(gram)[0]) - len(gram) * float(np.finfo(float).eps) * float(np.trace(gram))
    if least <= 0:
        return math.inf, math.inf
    wrong = max(info["residual"], 1e-12 * scale) * math.sqrt(len(gram))
    return 4 * wrong / least, max(CLOSE * scale, 4 * longest * wrong / math.sqrt(least))


@dataclass(frozen=True)
class _Marginal:
    """The gain of a document in coordinates z = (u·v, u·axis₁ …), for rows no longer than √square."""

    kind: int
    weight: float
    square: float

    def values(self, z: np.ndarray) -> np.ndarray:
        """(m,) gains at (m, t + 1)."""
        relevance = self.weight * z[:, 0]
        if self.kind == NEAREST:
            values: np.ndarray = relevance - (1 - self.weight) * z[:, 1:].max(1)
            return values
        rest = np.maximum(self.square - (z[:, 1:] ** 2).sum(1), SPENT * self.square)
        grown: np.ndarray = relevance + (1 - self.weight) * (
            np.log(rest) if self.kind == LOG_RESIDUAL else np.sqrt(rest)
        )
        return grown

    def tangent(self, z: np.ndarray) -> tuple[np.ndarray, float]:
        """(slope, constant): gain ≤ constant + slope·z everywhere, with equality at z, (t + 1,)."""
        slope = np.zeros(len(z))
        slope[0] = self.weight
        if self.kind == NEAREST:
            slope[1 + z[1:].argmax()] = self.weight - 1
            return slope, 0.0
        rest = max(self.square - float((z[1:] ** 2).sum()), SPENT * self.square)
        steep = 1 / rest if self.kind == LOG_RESIDUAL else 0.5 / np.sqrt(rest)
        value = np.log(rest) if self.kind == LOG_RESIDUAL else np.sqrt(rest)
        slope[1:] = -2 * (1 - self.weight) * steep * z[1:]
        # Concave in the squared length s within the span: its tangent there, and s ≥ 2 z·p − |z|² for any other p.
        constant = (1 - self.weight) * (value + steep * (float((z[1:] ** 2).sum()) + self.square - rest))
        return slope, float(constant)


def _best_tangent(marginal: _Marginal, z: np.ndarray, value: float) -> tuple[np.ndarray, float]:
    """The tangent with the fewest candidates above a value, of those met on the way to the highest mean of some rows.

    The gain's maximum over means of n candidates has the tangent whose n best ones are lowest on average, by duality.
    Frank–Wolfe (Jaggi 2013, §2); averages of tangents are bounds too.
    """
    fewest, best = math.inf, marginal.tangent(z[int(marginal.values(z).argmax())])
    for depth in DEPTHS:
        place = len(z) - min(depth, len(z))
        point = z[np.argpartition(marginal.values(z), place)[place:]].mean(0)
        slopes, constants, total = np.zeros(z.shape[1]), 0.0, 0.0
        for step in range(STEPS):
            slope, constant = marginal.tangent(point)
            slopes, constants, total = slopes + (step + 1) * slope, constants + (step + 1) * constant, total + step + 1
            along = z @ slope
            for own, raised, heights in (
                (slope, constant, along),
                (slopes / total, constants / total, z @ (slopes / total)),
            ):
                above = float((heights > value - raised).sum())
                if above < fewest:
                    fewest, best = above, (own, raised)
            point = point + 2 / (step + 3) * (z[np.argpartition(along, place)[place:]].mean(0) - point)
        if fewest < depth / 2:
            break
    return best


def _span(rows: np.ndarray) -> np.ndarray:
    """(t, d) orthonormal rows with the span of (s, d) rows, those left out that add nothing."""
    axes = np.zeros((0, rows.shape[1]))
    for row in rows:
        rest = row - axes.T @ (axes @ row)
        rest = rest - axes.T @ (axes @ rest)
        square = float(rest @ rest)
        if square > SPENT * float(row @ row):
            axes = np.vstack([axes, rest / np.sqrt(square)])
    return axes


def _vectors(candidates: Candidates, rows: Sequence[int]) -> np.ndarray:
    """(len(rows), d) float64 vectors of some candidates."""
    return candidates.vectors[list(rows)].double().cpu().numpy()
