"""Greedy selection by compiled steps: on all inner products where candidates are few, else on certified pools.

A pass over the vectors bounds every gain from above. The best by bound become a pool in float64, where picks are made
for as long as the best beats every bound outside. As the gains of mmr, dpp and ssd only fall, a bound stays true;
those of max_sum move by no more than `bound_outside_gain` says. Then the bounds are renewed with all picks and a new
pool is drawn.
"""

import math
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import cache, cached_property

import numpy as np
import torch
from torch import Tensor

from engine.candidates import Candidates
from engine.matrix import Matrix, first_duplicate, products, rounding, underflow
from engine.solvers.gram import Gram, build_ranking, compute_relevance, corpus_gram
from engine.solvers.greedy.steps import (
    LOG_RESIDUAL,
    NEAREST,
    SUM,
    choose_for_queries,
    choose_picks,
    compute_upper_bounds,
    fold_state_bound,
    init_state,
    orthonormalise_picks,
)
from engine.solvers.jit import compiling, interpreting, is_compiled, is_interpreted
from engine.solvers.tie_breaking import rank_exactly
from engine.values import Ranking

SINGLE_POOL_SIZE = 256
"""Up to so many candidates all are one pool."""
GRAM_MIN_PROBLEMS = 8
"""Number of problems over a small corpus from which caching its inner products pays."""
SMALL_GRAM_PRODUCTS = 35_000
"""Up to so many products with the picks, all computed, one problem takes less time than the passes of a pool would."""
TRANSPOSE_COST = 15
"""Products with so many picks take as long as turning the vectors into columns."""
POOL_SIZE_RANGE = (128, 256)
"""The first pool has eight rows a pick within these limits; it doubles after fewer than FRUITFUL picks."""
SUM_POOL_SIZE = 1024
"""Rows in a pool of max_sum, beside two per pick."""
MAX_POOL_SIZE = 1024
"""No pool is larger."""
MAX_PARTIAL_REFRESH = 4096
"""Candidates whose bounds are renewed alone, without a pass over all, where they are less than a tenth of all."""
MIN_POOL_PICKS = 16
POINT_BLOCK_SIZE = 16
"""Points with which one pass over the vectors computes products at a time."""
N_GUESSED_PICKS = 8
"""Number of further picks of a pool that are guessed and share a pass."""


@dataclass(frozen=True, kw_only=True)
class Method:
    """The gain by which documents are picked one at a time, and its settings.

    kind: the formula (see `steps`); k: number of picks; window: number of last picks that count, 0 for all; floor:
    share of its squared length at which a squared distance counts as noise; by_relevance: the first pick is the most
    relevant
    """

    kind: int
    k: int
    window: int
    floor: float
    by_relevance: bool

    @property
    def residual(self) -> bool:
        """True for dpp and ssd, whose gains come from a document's distance to the span of the picks."""
        return self.kind not in (NEAREST, SUM)

    @property
    def horizon(self) -> int:
        """Number of further picks for which bounds on the candidates' gains stay true.

        All k, as gains only fall. With a window, half its length: a pick that has left the window counts no longer, and
        gains rise again.
        """
        return (self.window + 1) // 2 if self.window else self.k


@dataclass(eq=False, kw_only=True)
class Problem:
    """One query at one weight λ of relevance: the documents picked so far and the state of the search.

    weight: λ; chosen, scores: (k,) picks and their gains, the first `n_done` of them valid; past_rank: first pick
    without a diversity gain, −1 for none; largest_pool, n_passes, close_calls: figures that the ranking reports
    """

    weight: float
    chosen: np.ndarray
    scores: np.ndarray
    pool_size: int
    """Number of rows of its next pool."""
    n_known: int
    """Number of picks known before any pool: the first, or none."""
    n_done: int = 0
    past_rank: int = -1
    largest_pool: int = 0
    n_passes: int = 0
    close_calls: int = 0
    state: np.ndarray = field(default_factory=lambda: np.empty(0))
    """Upper bounds on the states of all candidates after the first `n_folded` picks."""
    n_folded: int = 0
    refresh_all: bool = True
    """True if the next renewal is one of all bounds."""

    @property
    def picks(self) -> np.ndarray:
        """The picks made so far, or known before any pool."""
        return self.chosen[: max(self.n_done, self.n_known)]


def select_greedily(
    c: Candidates, k: int, kind: int, weights: Sequence[float], window: int | None = None, floor: float = 0.0
) -> list[Ranking]:
    """Pick k documents greedily for every query at every weight λ; return one Ranking for each weight.

    All picks are exact: none outside the candidates looked at could have been better. A small corpus is solved on its
    inner products, a large one by pools of its best candidates. kind, floor: the method and its noise threshold, see
    `steps`; window: only the last so many picks count, None for all. gain: the score at the moment of the pick; info:
    candidates; pool, the largest there was; passes over the candidates after that for relevance; close_calls, number of
    picks that no pool decided, so that all candidates whose bounds reach the best gain were compared; certified, always
    True; past_rank, the rank of the first pick that is a combination of earlier ones (dpp and ssd), else None.
    """
    method = Method(
        kind=kind, k=k, window=0 if window is None or window >= k else window, floor=floor,
        by_relevance=k == 1 or kind in (NEAREST, SUM) or c.matrix.unit,
    )  # fmt: skip
    is_small_batch = c.batch * len(weights) < GRAM_MIN_PROBLEMS
    # Few problems on small pools take less time in plain Python than compilation would.
    runs_interpreted = is_small_batch and is_interpreted(choose_picks)
    n_products = c.count * (k + TRANSPOSE_COST)
    is_gram_cheap = c.matrix.cached or not is_small_batch or n_products <= SMALL_GRAM_PRODUCTS
    gram = corpus_gram(c) if is_gram_cheap and not runs_interpreted else None
    if gram is not None:
        results = choose_for_queries(
            kind, gram, compute_relevance(c, gram), k, np.array(weights), method.window, floor, method.by_relevance
        )
        pool_figures = [c.count] * c.batch, [0] * c.batch, [0] * c.batch
        by_weight = zip(*(array.swapaxes(0, 1) for array in results), strict=True)
        return [_build_ranking(c, picks, scores, *pool_figures, ranks.tolist()) for picks, scores, ranks in by_weight]
    with interpreting() if runs_interpreted else nullcontext():
        problems = [PoolSearch(SingleQuery(c, query_id), method).solve(weights) for query_id in range(c.batch)]
    rankings = []
    for tasks in zip(*problems, strict=True):
        picks, scores = np.stack([task.chosen for task in tasks]), np.stack([task.scores for task in tasks])
        figures = [(task.largest_pool, task.n_passes, task.close_calls, task.past_rank) for task in tasks]
        rankings.append(_build_ranking(c, picks, scores, *zip(*figures, strict=True)))
    return rankings


def _build_ranking(
    c: Candidates, picks: np.ndarray, scores: np.ndarray, pool_sizes: Sequence[int], n_passes: Sequence[int],
    close_calls: Sequence[int], past_ranks: Sequence[int],
) -> Ranking:  # fmt: skip
    """Build the Ranking of B queries at one weight from picks and scores, (B, k), and search figures.

    These figures are one number a query: pool_sizes, rows in the largest pool; n_passes, passes over all candidates;
    close_calls, picks that no pool decided; past_ranks, rank of the first pick without a diversity gain, −1 for none
    """
    columns: dict[str, Sequence[int | None]] = {"candidates": [c.count] * c.batch, "pool": pool_sizes}
    columns |= {"passes": n_passes, "close_calls": close_calls, "certified": [True] * c.batch}
    columns["past_rank"] = [None if past_rank < 0 else past_rank for past_rank in past_ranks]
    return build_ranking(c, picks, scores, columns)


@dataclass(frozen=True, eq=False)
class Pool:
    """Some candidates of one query, ascending, with their inner products and relevance in float64.

    Picks are made among them for as long as bounds prove that no other candidate gains as much.
    """

    ids: np.ndarray
    gram: Gram
    relevance: np.ndarray


class SingleQuery:
    """One query of a batch: its candidates' vectors, relevance and error bounds."""

    def __init__(self, c: Candidates, query_id: int) -> None:
        """Take query number `query_id` out of a batch; its relevance becomes float64 on the CPU."""
        self.c, self.query_id = c, query_id
        self.vectors = c.vectors if c.vectors.ndim == 2 else c.vectors[query_id]
        self.relevance = c.relevance[query_id].double().cpu().numpy()
        self.relevance_error = float(c.relevance_error[query_id])
        self.point = c.queries[query_id : query_id + 1] if c.inner_product else None

    @cached_property
    def squares(self) -> np.ndarray:
        """(n,) float64 upper bounds on the squared lengths of all candidates, rounding included."""
        c = self.c
        squares = c.squares if c.squares.ndim == 1 else c.squares[self.query_id]
        return squares.double().cpu().numpy() * (1 + 4 * rounding(c.vectors)) + underflow(c.vectors)

    @cached_property
    def most_relevant(self) -> int:
        """The most relevant candidate, decided in float64 among all within the error of the best."""
        # Near-ties are compared in pools of limited size, as there may be very many.
        near_ids = np.flatnonzero(self.relevance >= self.relevance.max() - 2 * self.relevance_error)
        id_blocks = np.array_split(near_ids, math.ceil(len(near_ids) / MAX_POOL_SIZE))
        exact_relevance = np.concatenate([self.pool(id_block).relevance for id_block in id_blocks])
        return int(near_ids[exact_relevance.argmax()])

    def rows(self, index: np.ndarray) -> Tensor:
        """Return (m, d) vectors of some candidates."""
        return self.vectors.index_select(0, torch.from_numpy(index).to(self.vectors.device))

    def pool(self, ids: np.ndarray) -> Pool:
        """Gather candidates, `ids` ascending, as a pool: their inner products and relevance in float64.

        Relevance is computed anew from the vectors, unless another scorer gave it.
        """
        gram = Gram(self.rows(ids))
        return Pool(ids, gram, self.relevance[ids] if self.point is None else gram.score_queries(self.point)[0])

    def drop_duplicates(self, ids: np.ndarray) -> np.ndarray:
        """Return `ids` with only the lowest of candidates that have identical vectors, ascending.

        All are kept where relevance is no inner product, as theirs may differ.
        """
        if self.point is None:
            return ids
        duplicate_of = self.c.matrix.duplicate_of if self.c.shared else first_duplicate(self.vectors)
        _, first_positions = np.unique(duplicate_of.cpu().numpy()[ids], return_index=True)
        return ids[np.sort(first_positions)]

    def fill_by_relevance(self, task: Problem) -> None:
        """Complete the picks of a problem by the most relevant of the remaining candidates, in place.

        For when none of those has a diversity gain, so that relevance alone decides.
        """
        c, remaining = self.c, self.c.relevance[self.query_id].clone()
        remaining[torch.from_numpy(task.chosen[: task.n_done]).to(remaining.device)] = -torch.inf

        def score_exactly(_: Tensor, doc_ids: Tensor) -> Tensor:
            # Float64 relevance of single candidates, −∞ for those chosen, as `rank_exactly` asks for it.
            relevance = c.exact_relevance(torch.full_like(doc_ids, self.query_id), doc_ids)
            return relevance.masked_fill(remaining[doc_ids] == -torch.inf, -torch.inf)

        error = c.relevance_error[self.query_id : self.query_id + 1]
        index, gain = rank_exactly(remaining.unsqueeze(0), len(task.chosen) - task.n_done, error, score_exactly)
        task.chosen[task.n_done :], task.scores[task.n_done :] = index[0].cpu().numpy(), gain[0].cpu().numpy()
        task.n_done = len(task.chosen)


class Bounds:
    """Upper bounds on the gains of all candidates of one query, renewed by passes over the vectors.

    A gain λ·relevance + (1−λ)·diversity is bounded through each candidate's state, what diversity follows from; a pick
    is folded into the state by its products with all candidates. guess: returns the picks a problem would make next,
    for which a pass that has to be made takes products along
    """

    def __init__(self, query: SingleQuery, method: Method, guess: Callable[[Problem], list[int]]) -> None:
        self.query, self.method, self.guess = query, method, guess
        self.guessed_products: dict[int, Tensor] = {}

    def compute(self, task: Problem) -> tuple[np.ndarray, float]:
        """Return (n,) upper bounds on a problem's gains, and one number that bounds those left at −∞.

        The bounds hold after all picks so far. They come from `task.state`, bounds on what diversity adds; picks that
        it does not contain yet are folded in, which lowers it by their products with the candidates. A candidate at −∞
        is chosen already, or so far from the best that its bound was not renewed: then the number bounds its gain.
        """
        n, method, n_picks = self.query.c.count, self.method, len(task.picks)
        # With a window, picks leave again, so the bounds start anew.
        if not len(task.state) or method.window:
            task.state, task.n_folded = np.empty(n), 0
            init_state(method.kind, self.query.squares, task.state)
        # With a window, only picks that stay in it until the next bounds may lower these.
        if method.window:
            task.n_folded = max(0, n_picks + method.horizon - 1 - method.window)
        is_partial = n > 10 * MAX_PARTIAL_REFRESH and not (task.refresh_all or method.window or method.kind == SUM)
        # Most candidates are far from the best: only the largest bounds are renewed, and `stale` bounds all others.
        if task.n_folded < n_picks and is_partial:
            upper = self._upper(task, task.state)
            top_ids = _find_largest(upper, MAX_PARTIAL_REFRESH + 1)
            # The least of these largest bounds holds for every candidate at or below it.
            stale = float(upper[top_ids].min())
            top_ids = np.sort(top_ids[upper[top_ids] > stale])
            top_state, upper = task.state[top_ids], np.full(n, -np.inf)
            self._fold(task, top_state, self.query.rows(top_ids), self.query.squares[top_ids])
            upper[top_ids] = self._upper(task, top_state, top_ids)
            return upper, stale
        if task.n_folded < n_picks:
            self._fold(task, task.state, self.query.vectors, self.query.squares)
            # Other methods count their passes where they make them, in `_fold_ahead`.
            task.n_passes, task.refresh_all = task.n_passes + method.residual, False
            task.n_folded = task.n_folded if method.window else n_picks
        return self._upper(task, task.state), -np.inf

    def _fold(self, task: Problem, state: np.ndarray, vectors: Tensor, squares: np.ndarray) -> None:
        """Lower the bounds in `state` by those picks of a problem that are not folded into it yet.

        Each pick lowers a candidate's bound by their inner product; for dpp and ssd (residual methods) by its squared
        product with the direction that the pick adds to the span of all picks. state: (m,) bounds on what diversity
        adds, of `vectors`, (m, d), which have squared lengths `squares`, (m,)
        """
        method, picks = self.method, task.picks
        if not method.residual and vectors is self.query.vectors:
            self._fold_ahead(task, picks[task.n_folded :].tolist(), state)
            return
        # Distances to the span of the picks need an orthonormal basis of all of them, so all picks are read.
        first_rank = task.n_folded if method.window or not method.residual else 0
        points, is_distinct = self.query.rows(picks[first_rank:]).double(), True
        if method.residual:
            columns, basis = points.T.contiguous().cpu().numpy(), np.zeros(tuple(reversed(points.shape)))
            is_distinct = orthonormalise_picks(columns, np.arange(len(points)), len(points), method.floor, basis)
            if is_distinct and not method.window:
                points = torch.from_numpy(basis.T[task.n_folded :].copy()).to(vectors.device)
        if method.residual and (method.window or not is_distinct):
            self._fold_singly(points, state, vectors, squares)
            return
        for point_block in points.to(vectors.dtype).split(POINT_BLOCK_SIZE):
            fold_state_bound(method.kind, products(vectors, point_block).cpu().numpy(), self._error(point_block), state)

    def _fold_singly(self, points: Tensor, state: np.ndarray, vectors: Tensor, squares: np.ndarray) -> None:
        """Lower bounds on squared distances to the picks' span by each pick alone, where the span is no use.

        Two cases: a moving window changes the span, so a distance to the present one is no bound later; and a pick may
        be so close to the span of the others that rounding decides if it adds a direction. It is then within √floor of
        its length from their span, which enters the error. state: (m,) bounds, lowered in place; points: (p, d) picks
        """
        point_norms = torch.linalg.vector_norm(points, dim=1, keepdim=True)
        directions = (points / point_norms.masked_fill(point_norms == 0, 1)).to(vectors.dtype)
        for point_block in directions.split(POINT_BLOCK_SIZE):
            absolute_products = np.abs(products(vectors, point_block).cpu().numpy().astype(np.float64))
            error = self._error(point_block) + math.sqrt(self.method.floor) * self.query.c.max_norm
            np.minimum(state, squares - np.maximum(absolute_products - error, 0).max(0) ** 2, out=state)

    def _fold_ahead(self, task: Problem, picks: list[int], state: np.ndarray) -> None:
        """Lower the bounds of all candidates by some picks, in place.

        A pass over the vectors computes the picks' products with all candidates. It does so for the picks that are
        guessed to come next too, which then need no pass of their own. picks: rows to fold in; state: (n,) bounds
        """
        query, missing_picks = self.query, [pick_id for pick_id in picks if pick_id not in self.guessed_products]
        if missing_picks:
            task.n_passes += 1
            product_rows = list(dict.fromkeys([*missing_picks, *self.guess(task)]))
            row_products = products(query.vectors, query.rows(np.array(product_rows))).cpu()
            cached = {pick_id: self.guessed_products[pick_id] for pick_id in set(picks) - set(missing_picks)}
            self.guessed_products = cached | dict(zip(product_rows, row_products, strict=True))
        for pick_id in picks:
            error = self._error(query.vectors[pick_id : pick_id + 1])
            fold_state_bound(self.method.kind, self.guessed_products[pick_id].unsqueeze(0).numpy(), error, state)

    def _error(self, points: Tensor) -> float:
        """Return a bound on the rounding error of products between the vectors and `points`, (p, d)."""
        vectors, max_length = self.query.vectors, float(torch.linalg.vector_norm(points.double(), dim=1).max())
        # Orthonormal points are orthogonal only up to the rounding of float64, which 1e-11 covers.
        return (rounding(vectors) + 1e-11) * self.query.c.max_norm * max_length * (1 + 1e-5) + underflow(vectors)

    def _upper(self, task: Problem, state: np.ndarray, ids: np.ndarray | None = None) -> np.ndarray:
        """Return upper bounds on a problem's gains, of all candidates or of `ids`; −∞ for those chosen.

        state: bounds on what diversity adds, of the same candidates
        """
        query, method, selection = self.query, self.method, slice(None) if ids is None else ids
        upper: np.ndarray = compute_upper_bounds(
            method.kind, query.relevance[selection], query.relevance_error, state, query.squares[selection], method.k,
            task.weight, method.floor,
        )  # fmt: skip
        upper[task.picks if ids is None else np.isin(ids, task.picks)] = -np.inf
        return upper


class PoolSearch:
    """The greedy search of one query at several weights λ, whose problems share a pool of candidates.

    A pool holds the candidates with the largest bounds on their gains, with exact inner products.
    """

    def __init__(self, query: SingleQuery, method: Method) -> None:
        """Take one query and the gain by which its documents are picked; there is no pool yet."""
        self.query, self.method = query, method
        self.bounds = Bounds(query, method, self._guess)
        self.pool: Pool | None = None

    def solve(self, weights: Sequence[float]) -> list[Problem]:
        """Make the k picks of the query at each weight λ; return one Problem a weight, which holds them.

        Few candidates are one pool, from which all picks are made at once; else rounds of pools, until all are made.
        """
        k, kind, n_known = self.method.k, self.method.kind, int(self.method.by_relevance)
        full_pool = self.query.pool(np.arange(self.query.c.count)) if self.query.c.count <= SINGLE_POOL_SIZE else None
        # Where the most relevant is known to be the first pick, it stands in every problem from the start.
        first_picks = np.full(k, self.query.most_relevant if n_known and full_pool is None else 0)
        pool_size = SUM_POOL_SIZE + 2 * k if kind == SUM else min(max(8 * k, POOL_SIZE_RANGE[0]), POOL_SIZE_RANGE[1])
        problems = []
        for weight in weights:
            chosen, scores = first_picks.copy(), np.empty(k)
            task = Problem(weight=weight, chosen=chosen, scores=scores, pool_size=pool_size, n_known=n_known)
            if full_pool is not None:
                self._advance(task, full_pool, -np.inf, k)
            problems.append(task)
        while active := [task for task in problems if task.n_done < k]:
            self._run_round(active)
        return problems

    def _run_round(self, unfinished: list[Problem]) -> None:
        """Make picks for all unfinished problems from the present pool, or from a new one where it gives none.

        A pool holds the candidates with the largest upper bounds on their gains; it makes picks while these beat the
        bounds of all candidates outside.
        """
        problem_bounds = [self.bounds.compute(task) for task in unfinished]
        if self.method.kind != SUM:
            # Every pick moves the best by bound; those of max_sum stay much the same, and its pools are large.
            self.pool = None
        bounded = zip(unfinished, problem_bounds, strict=True)
        stuck_tasks = [(task, *bounds) for task, bounds in bounded if not self._pick_from_pool(task, *bounds)]
        if not stuck_tasks:
            return
        pool_ids = [_find_largest(upper, min(task.pool_size, len(upper))) for task, upper, _ in stuck_tasks]
        self.pool = self.query.pool(np.unique(np.concatenate([*pool_ids, *(task.picks for task, _, _ in stuck_tasks)])))
        # A pool that gave few picks was too small: the next one doubles.
        for task, upper, stale in stuck_tasks:
            done_before, pool_size = task.n_done, task.pool_size
            has_picked = self._pick_from_pool(task, upper, stale)
            if task.n_done - done_before < MIN_POOL_PICKS:
                task.pool_size, task.refresh_all = min(2 * pool_size, max(pool_size, MAX_POOL_SIZE)), True
            if not has_picked and pool_size >= MAX_POOL_SIZE and stale == -np.inf:
                self._compare_contenders(task, self.pool, upper)

    def _pick_from_pool(self, task: Problem, upper: np.ndarray, stale: float) -> bool:
        """Make a problem's picks from the present pool while they beat all others; return True if it made any.

        True as well if all k picks are made.

        upper: (n,) upper bounds on the gains of all candidates; where it is −∞, `stale` bounds them instead
        """
        if self.pool is None or not np.isin(task.picks, self.pool.ids).all():
            return False
        n_before, outside = len(task.picks), upper.copy()
        outside[self.pool.ids] = -np.inf
        stop_rank = min(self.method.k, n_before + self.method.horizon)
        self._advance(task, self.pool, max(float(outside.max()), stale), stop_rank)
        return task.n_done > n_before or task.n_done == self.method.k

    def _advance(self, task: Problem, pool: Pool, outside_bound: float, stop_rank: int) -> None:
        """Make a problem's picks from a pool, up to `stop_rank`, while the best beats the bound outside.

        outside_bound: upper bound on the gain of every candidate outside the pool; −∞ if there is no such candidate
        """
        method, query, gram = self.method, self.query, pool.gram
        # Largest gain outside the pool, and for max_sum β, the longest row and |z|; products of the pool with z.
        outside_geometry, point_products = np.array([outside_bound, 0.0, 0.0, 0.0]), np.zeros(len(pool.ids))
        # A candidate's gain by max_sum is its product with a point z, which each pick moves: `bound_outside_gain` tells
        # how much a candidate outside may gain then.
        if method.kind == SUM and outside_bound > -np.inf:
            beta = 2 * (1 - task.weight)
            outside_geometry[1:3] = beta, query.c.max_norm * (1 + 1e-5)
            if query.point is not None:
                set_sum = query.rows(task.picks).double().sum(0)
                point = (method.k - 1) * task.weight * query.point.double() - beta * set_sum
                outside_geometry[3], point_products = float(point.norm()), gram.score_queries(point)[0]
        pool_positions = np.zeros(method.k, np.int64)
        pool_positions[: task.n_done] = np.searchsorted(pool.ids, task.chosen[: task.n_done])
        n_done, past_rank = choose_picks(
            method.kind, gram.columns, gram.rows, gram.filled, gram.squares, pool.relevance, method.k, task.weight,
            method.window, method.floor, method.by_relevance, outside_geometry, point_products, pool_positions,
            task.scores, task.n_done, stop_rank,
        )  # fmt: skip
        task.chosen[task.n_done : n_done], task.n_done = pool.ids[pool_positions[task.n_done : n_done]], n_done
        task.past_rank = past_rank if task.past_rank < 0 else task.past_rank
        task.largest_pool = max(task.largest_pool, len(pool.ids))

    def _guess(self, task: Problem) -> list[int]:
        """Return the next few picks that a problem would make if the candidates of its pool were all.

        These guesses need not be right: the next pass over all vectors computes products with them too, which saves a
        later pass if they are. Empty where there is no pool, or where a pick is not in it.
        """
        if self.pool is None or not np.isin(task.picks, self.pool.ids).all():
            return []
        trial, n_picks = replace(task, chosen=task.chosen.copy(), scores=task.scores.copy()), len(task.picks)
        self._advance(trial, self.pool, -np.inf, min(self.method.k, n_picks + N_GUESSED_PICKS))
        return [int(pick_id) for pick_id in trial.chosen[n_picks : trial.n_done]]

    def _compare_contenders(self, task: Problem, pool: Pool, upper: np.ndarray) -> None:
        """Make a problem's next pick by comparing every candidate whose bound reaches the best gain.

        For near-ties that no pool decides: contenders are scored exactly, pool by pool. upper: (n,) bounds on the gains
        """
        n_done, past_rank, best_choice = task.n_done, task.past_rank, (False, -np.inf, 0)

        def contest(pool: Pool) -> None:
            """Make the next pick from one pool as a trial, and remember it if it is the best so far."""
            nonlocal best_choice
            task.n_done, task.past_rank = n_done, -1
            self._advance(task, pool, -np.inf, n_done + 1)
            # Compared in turn: a pick with a diversity gain comes first, then the higher score, then the lower row.
            best_choice = max(best_choice, (task.past_rank < 0, float(task.scores[n_done]), -int(task.chosen[n_done])))

        # The pool's best sets the mark; every candidate whose bound reaches it competes, in pools of limited size.
        contest(pool)
        has_diversity_gain, best_score, _ = best_choice
        is_contender = (upper >= best_score) | (not has_diversity_gain) & (upper > -np.inf)
        contender_ids = self.query.drop_duplicates(np.flatnonzero(is_contender))
        for start in range(0, len(contender_ids), MAX_POOL_SIZE):
            contest(self.query.pool(np.union1d(contender_ids[start : start + MAX_POOL_SIZE], task.chosen[:n_done])))
        has_diversity_gain, best_score, negative_id = best_choice
        task.chosen[n_done], task.scores[n_done], task.n_done = -negative_id, best_score, n_done + 1
        task.past_rank = n_done if past_rank < 0 and not has_diversity_gain else past_rank
        task.close_calls += 1
        if not has_diversity_gain and not self.method.window:
            # Every other candidate lies in the span of the chosen too.
            self.query.fill_by_relevance(task)


def _find_largest(values: np.ndarray, n_largest: int) -> np.ndarray:
    """Return positions of the `n_largest` largest values, in any order."""
    return torch.from_numpy(values).topk(n_largest, sorted=False).indices.numpy()


@cache
def warm() -> None:
    """Compile the Numba loops, or load them from disk, by solving tiny problems whose answers are dropped.

    So that a user's first query need not wait for the compiler.
    """
    # Both sizes and both kinds of matrix, as each runs other loops in `select_greedily`.
    for n in (8, SINGLE_POOL_SIZE + 8):
        identity = torch.eye(n)
        for is_cached in (True, False):
            candidates = Candidates(identity, identity[:1], identity[:1], Matrix(identity, cached=is_cached))
            with compiling():
                select_greedily(candidates, 2, LOG_RESIDUAL, [0.5])


def is_warm() -> bool:
    """Return True if the loops are compiled."""
    return is_compiled(choose_picks)
