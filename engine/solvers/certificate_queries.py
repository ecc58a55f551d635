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

TANGENT_STEPS = 40
"""Steps of the search for the tangent that is lowest over the candidates."""
MAX_TANGENT_SEARCHES = 100
"""Picks for which it is sought: further ones are asked by the tangent at the pick."""
TANGENT_DEPTHS = (30, 100, 300)
"""Sizes of the means of candidates along which a good tangent is sought."""
SPAN_TOLERANCE = 1e-9
"""A squared residual under this share of a row's squared length adds no direction to a span."""
GAIN_TOLERANCE = 1e-10
"""Gains closer than this, relative to what they are sums of, may have been ordered otherwise by other rounding."""
NORM_SLACK = 1e-6
"""Relative excess of a row's squared length over its stated one: the rounding of unit rows."""


@dataclass(frozen=True, eq=False)
class LinearQuestion:
    """A certificate query: does any document u outside the candidates have u·point > limit.

    A ranking made from some candidates is that of the full corpus if the answer to all of its queries is no. Unpacks as
    (point, limit). point: (d,) float64, all zero where no such query would decide; picks: the ranks of the answer that
    depend on it; value: the pick's gain, where value − limit + u·point bounds that of every document while the
    `required_picks` (rows of the candidates) are among those made; None where the bound is of this answer only;
    alternative: a query that decides the same, or None
    """

    point: np.ndarray
    limit: float
    picks: frozenset[int]
    value: float | None = None
    required_picks: frozenset[int] = frozenset()
    alternative: "LinearQuestion | None" = None

    def __iter__(self) -> Iterator[np.ndarray | float]:
        yield self.point
        yield self.limit


def leave_undecided(c: Candidates, picks: Sequence[int]) -> LinearQuestion:
    """Return a question that no inner product can answer, which marks ranks of an answer as undecided."""
    # A zero point bounds nothing, and nothing is below a limit of −∞.
    return LinearQuestion(np.zeros(c.vectors.shape[-1]), -np.inf, frozenset(picks))


def query_vector(c: Candidates) -> np.ndarray:
    """Return the vector, (d,) float64, of the one query that the candidates belong to."""
    return c.queries[0].double().cpu().numpy()


def ask_relevance_order(c: Candidates, ranking: Ranking, n_documents: int | None = None) -> list[LinearQuestion]:
    """Build the questions that certify a ranking by relevance: does an unseen document score higher.

    One question for each document, in order: an unseen document that scores higher would take its rank, and move it and
    all later ones down. n_documents: certify only this many first documents, None for all
    """
    query, row_ids = query_vector(c), ranking.rows()[:n_documents]
    scores = _gather_vectors(c, row_ids) @ query
    n_picks = len(ranking.rows())
    return [LinearQuestion(query, float(score), frozenset(range(rank, n_picks))) for rank, score in enumerate(scores)]


def ask_most_relevant(c: Candidates, ranking: Ranking, n_documents: int) -> list[LinearQuestion]:
    """Build the certificate query that tells if the corpus's `n_documents` most relevant are all candidates.

    It looks for an unseen document that is more relevant than the last of these candidates; if there is one, no pick is
    certified. With fewer candidates than `n_documents` nothing can be certified, so every document is above the limit,
    −∞.
    """
    all_picks = frozenset(range(max(1, len(ranking.rows()))))
    if n_documents > c.count:
        return [LinearQuestion(query_vector(c), -np.inf, all_picks)]
    row_ids, query = c.relevance[0].topk(n_documents).indices.tolist(), query_vector(c)
    return [LinearQuestion(query, float((_gather_vectors(c, row_ids) @ query).min()), all_picks)]


def ask_greedy_picks(
    kind: int, c: Candidates, ranking: Ranking, weight: float, window: int | None = None
) -> list[LinearQuestion]:
    """Build the certificate queries for greedy picks: would an unseen document have been picked instead.

    Each asks a vector engine if a document that it has not returned has an inner product with some point above a limit.
    If all are answered with no, the picks are those of the full corpus. The point and the limit come from a tangent, a
    linear function of a document's vector that is at least its gain: the tangent at the pick, or else the one that is
    lowest over the candidates. kind: mmr, dpp or ssd, see `greedy.steps`; weight: λ of relevance; window: number of
    last picks that count, None for all.
    """
    row_ids, gains = ranking.rows(), ranking.gain[0].tolist()
    first_questions = ask_relevance_order(c, ranking, 1)
    if weight == 1:
        return ask_relevance_order(c, ranking)
    n_decided = ranking.info[0].get("past_rank")
    n_decided = len(row_ids) if n_decided is None else n_decided
    max_square = c.max_norm**2 * (1 + NORM_SLACK)
    if max_square == 0:
        return [leave_undecided(c, range(len(row_ids)))]
    marginal = _Marginal(kind, weight, max_square)
    # Bounds of dpp and ssd are higher, as `max_square` has NORM_SLACK; those of mmr equal its gains up to rounding.
    gain_scale = weight * float(np.linalg.norm(query_vector(c))) * max_square**0.5 + (1 - weight) * max_square
    gain_slack = GAIN_TOLERANCE * gain_scale if kind == NEAREST else 0.0
    if kind != NEAREST and not c.matrix.unit:
        # An unseen document may be as long as the longest, so its diversity gain as the first pick is bounded by that.
        spread = float(np.log(max_square) if kind == LOG_RESIDUAL else np.sqrt(max_square))
        limit = gains[0] - (1 - weight) * spread
        first_questions = [LinearQuestion(weight * query_vector(c), limit, frozenset(range(len(row_ids))), gains[0])]
    all_vectors = c.vectors.double().cpu().numpy()
    along = all_vectors @ query_vector(c)
    questions = first_questions
    # Each pick has its own certificate query: u·slope over the corpus must not exceed the gain of the pick less the
    # constant of its tangent.
    for rank in range(1, n_decided):
        previous_rows = row_ids[max(0, rank - (window or rank)) : rank]
        span_axes = all_vectors[previous_rows] if kind == NEAREST else _orthonormalise_rows(all_vectors[previous_rows])
        coordinates = np.column_stack([along, all_vectors @ span_axes.T])
        is_remaining = np.ones(len(all_vectors), bool)
        is_remaining[row_ids[:rank]] = False
        basis = np.vstack([query_vector(c), span_axes])
        tangents = [marginal.tangent(coordinates[row_ids[rank]])]
        if is_remaining.any() and rank <= MAX_TANGENT_SEARCHES:
            tangents.append(_find_best_tangent(marginal, coordinates[is_remaining], gains[rank]))
        question = None
        open_picks, required = frozenset(range(rank, len(row_ids))), frozenset(previous_rows)
        safe_gain = gains[rank] - gain_slack
        for slope, constant in tangents:
            question = LinearQuestion(slope @ basis, safe_gain - constant, open_picks, safe_gain, required, question)
        if question is not None:
            questions.append(question)
    if n_decided < len(row_ids):
        questions.append(leave_undecided(c, range(n_decided, len(row_ids))))
    return questions


def ask_set_objective(c: Candidates, ranking: Ranking, weight: float, swaps: bool) -> list[LinearQuestion]:
    """Build the certificate queries for a set of documents: would an unseen one improve its objective.

    Each asks a vector engine if a document u that it has not returned has u·field above a limit. If all are answered
    with no, the set is the one that the full corpus gives. A document with relevance r adds θ(k−1) r − 2(1−θ) Σ s to
    the objective, with s its similarities to the members. swaps: ask for each member if a document could replace it;
    else ask, for each greedy pick, if a document would have been picked in its place. The order of the greedy picks is
    found again here, as the ranking has another one.
    """
    row_ids, query = ranking.rows(), query_vector(c)
    k = len(row_ids)
    if k == 1:
        return ask_relevance_order(c, ranking)
    vectors = _gather_vectors(c, row_ids)
    relevance_field = weight * (k - 1) * query
    if swaps:
        return _ask_replacements(vectors, relevance_field, weight)
    questions: list[LinearQuestion] = []
    all_vectors = c.vectors.double().cpu().numpy()
    # The first pick is the most relevant: without any document in the set a gain is the relevance.
    picked_sum, remaining, is_picked = np.zeros_like(query), list(range(k)), np.zeros(len(all_vectors), bool)
    field = query
    for _ in range(k):
        gains = np.where(is_picked, -np.inf, all_vectors @ field)
        pick = max(remaining, key=lambda rank: (gains[row_ids[rank]], -row_ids[rank]))
        best_gain, gains[row_ids[pick]] = float(gains[row_ids[pick]]), -np.inf
        margin = GAIN_TOLERANCE * (abs(best_gain) + float(np.linalg.norm(field)))
        if not best_gain > float(gains.max(initial=-np.inf)) + margin:
            # Too close to say which of them the selector took here: its further steps are not known.
            return [*questions, leave_undecided(c, remaining)]
        # What is open here leaves open all that was picked from here on.
        questions.append(LinearQuestion(field, best_gain, frozenset(remaining)))
        is_picked[row_ids[pick]] = True
        remaining.remove(pick)
        picked_sum = picked_sum + vectors[pick]
        field = relevance_field - 2 * (1 - weight) * picked_sum
    gains = ranking.gain[0, :k].double().cpu().numpy()
    groups = c.matrix.duplicate_of.cpu().numpy()[row_ids]
    n_distinct = _count_distinct(gains, groups, k, GAIN_TOLERANCE * float(np.abs(gains).max()))
    return questions + ([leave_undecided(c, range(n_distinct, k))] if n_distinct < k else [])


def _ask_replacements(vectors: np.ndarray, relevance_field: np.ndarray, weight: float) -> list[LinearQuestion]:
    """Build one certificate query for each member of a set: is an unseen document better in its place.

    vectors: (k, d) of the members; relevance_field: (d,) the query's vector times θ(k−1); weight: θ
    """
    questions: list[LinearQuestion] = []
    vector_sum = vectors.sum(0)
    for rank, member_vector in enumerate(vectors):
        field = relevance_field - 2 * (1 - weight) * (vector_sum - member_vector)
        questions.append(LinearQuestion(field, float(field @ member_vector), frozenset([rank])))
    return questions


def ask_elastic_net(c: Candidates, weights: Ranking, answer: Ranking, filled: bool) -> list[LinearQuestion]:
    """Build the certificate queries for elastic-net weights: would an unseen document get a weight.

    A document u would if its product with the residual, u·(v − Uᵀw), exceeds λ₁. A vector engine can tell if an unseen
    one's does; if none does, the weights are those of the full corpus. weights: all members, the documents with a
    weight, and their weights; answer: what was returned; filled: documents without a weight were added to it, the
    largest u·(v − Uᵀw) first. What rounding may have settled stays undecided: weights too close to say which is larger,
    documents too close to λ₁ to say that they have none, and all where there may be several minimisers.
    """
    info, n_picks = weights.info[0], len(answer.rows())
    rows = [row for row, gain in zip(weights.rows(), weights.gain[0].tolist(), strict=False) if gain > 0]
    weight_values = weights.gain[0, : len(rows)].double().cpu().numpy()
    all_vectors = c.vectors.double().cpu().numpy()
    residual = query_vector(c) - weight_values @ all_vectors[rows]
    weight_gap, dual_gap = _bound_uncertainty(c, all_vectors[rows], info)
    groups, duals = c.matrix.duplicate_of.cpu().numpy(), all_vectors @ residual
    # Copies of a document with a weight count as members: a tie among identical vectors is none.
    is_member = np.isin(groups, groups[rows])
    if not math.isfinite(dual_gap) or (np.abs(duals[~is_member] - info["l1"]) <= dual_gap).any():
        return [leave_undecided(c, range(max(1, n_picks)))]
    # The last weight is compared with 0, which all other documents have.
    values_to_zero, member_groups = np.append(weight_values, 0.0), np.append(groups[rows], -1)
    n_decided = _count_distinct(values_to_zero, member_groups, min(len(rows), n_picks), weight_gap)
    limit = info["l1"]
    if filled and n_decided == len(rows) < n_picks:
        unweighted_rows = np.setdiff1d(np.arange(len(all_vectors)), rows)
        fill_order = unweighted_rows[np.argsort(-duals[unweighted_rows], kind="stable")]
        n_decided += _count_distinct(duals[fill_order], groups[fill_order], n_picks - len(rows), dual_gap)
        # A filled document gains u·(v − Uᵀw) − λ₁, at most 0: an unseen one must not gain more than the last.
        limit = min(limit, limit + float(answer.gain[0, n_picks - 1]))
    elif filled and n_picks < answer.index.shape[1]:
        # Fewer than k documents in all: any unseen one would be filled in.
        limit = -np.inf
    open_questions = [leave_undecided(c, range(n_decided, n_picks))] if n_decided < n_picks else []
    return [LinearQuestion(residual, limit - dual_gap, frozenset(range(max(1, n_picks)))), *open_questions]


def _count_distinct(values: np.ndarray, groups: np.ndarray, n_values: int, min_gap: float) -> int:
    """Count the leading values whose order is certain: each exceeds all later ones by more than `min_gap`.

    values: falling; groups: (n,) documents with equal vectors share a group, so that a tie among them is none
    """
    group_ends = np.append(np.flatnonzero(groups[1:] != groups[:-1]) + 1, len(groups))
    # For each value, the next one of another group; −∞ after the last.
    next_group_starts = group_ends[np.searchsorted(group_ends, np.arange(n_values), side="right")]
    next_values = np.append(values, -np.inf)[next_group_starts]
    close_positions = np.flatnonzero(~(values[:n_values] - next_values > min_gap))
    return int(close_positions[0]) if len(close_positions) else n_values


def _bound_uncertainty(c: Candidates, members: np.ndarray, info: Mapping[str, Any]) -> tuple[float, float]:
    """Bound how far two solver runs may differ, as (gap between weights, gap between dual and λ₁).

    One run is on the candidates, the other one would be on the full corpus; both round. Weights further apart than the
    first are in the same order in both runs, and a dual u·(v − Uᵀw) further from λ₁ than the second is on the same
    side. λ₂ > 0: from the duality gap. λ₂ = 0: where no other document is near λ₁, both solve G w = c − λ₁ for the
    members' Gram matrix G up to the residual; infinite where G is singular.
    """
    max_norm, scale = c.max_norm, c.max_norm * float(np.linalg.norm(query_vector(c)))
    if not len(members):
        return 0.0, GAIN_TOLERANCE * scale
    if info["l2"] > 0:
        if info["gap"] is None:
            return math.inf, math.inf
        # Strong concavity of the dual: |ρ − ρ*|² ≤ 2 gap, hence the factor √(2 gap) for duals and 1/√λ₂ more for
        # weights.
        residual_error = math.sqrt(2 * info["gap"])
        return 4 * residual_error / math.sqrt(info["l2"]), max(GAIN_TOLERANCE * scale, 4 * max_norm * residual_error)
    gram = members @ members.T
    # The computed eigenvalue less its rounding, so that a singular Gram matrix is never taken for a regular one.
    min_eigenvalue = float(np.linalg.eigvalsh(gram)[0]) - len(gram) * float(np.finfo(float).eps) * float(np.trace(gram))
    if min_eigenvalue <= 0:
        return math.inf, math.inf
    dual_error = max(info["residual"], 1e-12 * scale) * math.sqrt(len(gram))
    dual_gap = max(GAIN_TOLERANCE * scale, 4 * max_norm * dual_error / math.sqrt(min_eigenvalue))
    return 4 * dual_error / min_eigenvalue, dual_gap


@dataclass(frozen=True)
class _Marginal:
    """The gain of one more document for mmr, dpp or ssd: a concave function of few coordinates.

    A tangent lies above a concave function, so it bounds the gain of every document by a linear function. A document u
    has coordinates z = (u·query, u·axis₁ …), with an axis for each direction of the picks so far; `square` is the
    largest squared length of any document.
    """

    kind: int
    weight: float
    square: float

    def values(self, coords: np.ndarray) -> np.ndarray:
        """Return (m,) gains of documents with coordinates `coords`, (m, t + 1).

        These are a document's inner products with the query and with t vectors: the picks so far for mmr, an
        orthonormal basis of their span for dpp and ssd.
        """
        relevance = self.weight * coords[:, 0]
        if self.kind == NEAREST:
            values: np.ndarray = relevance - (1 - self.weight) * coords[:, 1:].max(1)
            return values
        # A distance to the span of the picks, for a document as long as the longest: an upper bound for shorter ones.
        residual_squares = np.maximum(self.square - (coords[:, 1:] ** 2).sum(1), SPAN_TOLERANCE * self.square)
        diversity = np.log(residual_squares) if self.kind == LOG_RESIDUAL else np.sqrt(residual_squares)
        gains: np.ndarray = relevance + (1 - self.weight) * diversity
        return gains

    def tangent(self, coords: np.ndarray) -> tuple[np.ndarray, float]:
        """Return (slope, constant), a linear bound on gains: gain ≤ constant + slope·z for all coordinates z.

        It is exact at the coordinates `coords`, (t + 1,), which are those of `values`.
        """
        slope = np.zeros(len(coords))
        slope[0] = self.weight
        if self.kind == NEAREST:
            slope[1 + coords[1:].argmax()] = self.weight - 1
            return slope, 0.0
        norm_sq = float((coords[1:] ** 2).sum())
        square_left = max(self.square - norm_sq, SPAN_TOLERANCE * self.square)
        derivative = 1 / square_left if self.kind == LOG_RESIDUAL else 0.5 / np.sqrt(square_left)
        diversity = np.log(square_left) if self.kind == LOG_RESIDUAL else np.sqrt(square_left)
        slope[1:] = -2 * (1 - self.weight) * derivative * coords[1:]
        # Concave in the squared length s within the span: its tangent there, and s ≥ 2 z·p − |z|² for any other p.
        constant = (1 - self.weight) * (diversity + derivative * (norm_sq + self.square - square_left))
        return slope, float(constant)


def _find_best_tangent(marginal: _Marginal, coords: np.ndarray, value: float) -> tuple[np.ndarray, float]:
    """Find a linear bound on gains that is above a pick's gain for as few candidates as possible.

    The bound, a tangent of the concave gain, becomes a query to a vector engine for unseen documents above it: the
    fewer candidates the bound leaves above the pick's gain, the fewer documents come back. marginal: the gain as a
    function of coordinates; coords: (m, t + 1) coordinates of the candidates; value: gain of the pick. Returns (slope,
    constant): gain ≤ constant + slope·z. By duality, the maximum of the gain over means of n candidates has the tangent
    whose n best candidates are lowest on average. Frank–Wolfe looks for it (Jaggi 2013, §2); averages of tangents are
    bounds too.
    """
    min_above, best_tangent = math.inf, marginal.tangent(coords[int(marginal.values(coords).argmax())])
    for depth in TANGENT_DEPTHS:
        # Each step takes the tangent at a mean point, and moves that toward the mean of the `depth` best by it.
        cut_rank = len(coords) - min(depth, len(coords))
        mean_point = coords[np.argpartition(marginal.values(coords), cut_rank)[cut_rank:]].mean(0)
        slope_sum, constant_sum, total_weight = np.zeros(coords.shape[1]), 0.0, 0.0
        for step in range(TANGENT_STEPS):
            slope, constant = marginal.tangent(mean_point)
            slope_sum, constant_sum = slope_sum + (step + 1) * slope, constant_sum + (step + 1) * constant
            total_weight += step + 1
            # Tried are the step's own tangent and the average of all so far, later ones weighing more.
            slope_heights, mean_slope = coords @ slope, slope_sum / total_weight
            trials = (slope, constant, slope_heights), (mean_slope, constant_sum / total_weight, coords @ mean_slope)
            for trial_slope, trial_constant, trial_heights in trials:
                n_above = float((trial_heights > value - trial_constant).sum())
                if n_above < min_above:
                    min_above, best_tangent = n_above, (trial_slope, trial_constant)
            top_mean = coords[np.argpartition(slope_heights, cut_rank)[cut_rank:]].mean(0)
            mean_point = mean_point + 2 / (step + 3) * (top_mean - mean_point)
        # Where so few candidates exceed the bound, means of more of them would find no better one.
        if min_above < depth / 2:
            break
    return best_tangent


def _orthonormalise_rows(rows: np.ndarray) -> np.ndarray:
    """Return (t, d) orthonormal rows with the span of (s, d) rows, skipping those that add nothing."""
    span_axes = np.zeros((0, rows.shape[1]))
    for vector in rows:
        residual = vector - span_axes.T @ (span_axes @ vector)
        # Again: the first pass leaves rounding along the axes, which a short residual would magnify.
        residual = residual - span_axes.T @ (span_axes @ residual)
        norm_sq = float(residual @ residual)
        if norm_sq > SPAN_TOLERANCE * float(vector @ vector):
            span_axes = np.vstack([span_axes, residual / np.sqrt(norm_sq)])
    return span_axes


def _gather_vectors(c: Candidates, row_ids: Sequence[int]) -> np.ndarray:
    """Return (len(row_ids), d) float64 vectors of some candidates."""
    return c.vectors[list(row_ids)].double().cpu().numpy()
