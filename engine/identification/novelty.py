"""Novelty of all candidates before each pick of a list, for each form of gain, given the picks that were made."""

from dataclasses import dataclass

import numpy as np

from engine.solvers.greedy.steps import EXCLUDED, LOG_RESIDUAL, NEAREST, ROOT_RESIDUAL, SUM

Array = np.ndarray

TOP, SWAPS, CONTRIBUTIONS = -1, 10, 11
"""More kinds of gain: relevance alone; that of a set which no swap of two documents improves; and that of max-sum's
greedy picks, listed by what each contributes to the set."""
INNER_PRODUCT, COSINE, DISTANCE = "inner product", "cosine", "distance"
METRICS = (INNER_PRODUCT, COSINE, DISTANCE)
"""Ways to compare vectors, which differ where these are not of length 1."""


@dataclass(frozen=True)
class PickProducts:
    """Inner products of a list's documents with all documents, and what follows from them.

    products: (k, n) float64; squares: (n,) squared lengths of the documents; picks: (k,) their rows
    """

    products: Array
    squares: Array
    picks: Array

    def compare(self, metric: str) -> Array:
        """Return (k, n) similarities by a metric: inner products, cosines or negative distances."""
        if metric == INNER_PRODUCT:
            return self.products
        pick_squares = self.squares[self.picks][:, None]
        if metric == COSINE:
            cosines: Array = self.products / np.sqrt(np.maximum(pick_squares * self.squares, 1e-300))
            return cosines
        distances: Array = np.sqrt(np.maximum(pick_squares + self.squares - 2 * self.products, 0.0))
        return -distances

    def compare_members(self, metric: str, n_members: int) -> Array:
        """Return (m, m) similarities of the first documents of the list with one another."""
        picks = self.picks[:n_members]
        members = PickProducts(self.products[:n_members, picks], self.squares[picks], np.arange(n_members))
        return np.ascontiguousarray(members.compare(metric))


def compute_novelty(kind: int, window: int | None, metric: str, pick_products: PickProducts, floor: float) -> Array:
    """Compute (k, n) the diversity part b of all documents' gains before each pick; 0 where there is none yet.

    kind: the form of gain, as in `engine.solvers.greedy.steps`, or SWAPS; window: only so many last picks count;
    floor: share of a squared length up to which a squared distance to the span of the picks is noise
    """
    # Products are the only thing that is computed from vectors; all forms of novelty follow from them.
    similarities = pick_products.compare(metric)
    if kind == NEAREST:
        return _compute_nearest(similarities, window)
    if kind == SUM:
        # The sum before a pick has the picks before it.
        sums = np.cumsum(similarities, axis=0)
        return -2 * np.concatenate([np.zeros_like(sums[:1]), sums[:-1]])
    if kind == SWAPS:
        return _compute_swaps(similarities, pick_products.picks)
    if kind in (LOG_RESIDUAL, ROOT_RESIDUAL):
        squares = np.ones_like(pick_products.squares) if metric == COSINE else pick_products.squares
        residuals = _compute_residuals(similarities, squares, pick_products.picks, window, floor)
        return _convert_residuals(kind, residuals, squares, floor)
    raise ValueError(f"kind must be one with a novelty; got {kind}")


def _compute_nearest(similarities: Array, window: int | None) -> Array:
    """Return (k, n) minus the largest similarity to the last picks, all of them without a window."""
    novelty = np.zeros_like(similarities)
    for rank in range(1, len(similarities)):
        if window is None and rank > 1:
            novelty[rank] = np.minimum(novelty[rank - 1], -similarities[rank - 1])
        else:
            novelty[rank] = -similarities[max(0, rank - (window or rank)) : rank].max(0)
    return novelty


def _compute_swaps(similarities: Array, picks: Array) -> Array:
    """Return (k, n) minus twice the similarity of each document to the rest of the set, without each pick.

    For a document outside the set the rest is without the pick that it would replace; for a member it is without the
    member itself, as members stand in the order of what they contribute.
    """
    # One row a pick: without pick i the rest of the set is the whole less that pick.
    to_set = similarities.sum(0)
    novelty: Array = -2 * (to_set - similarities)
    own_squares = similarities[np.arange(len(picks)), picks]
    novelty[:, picks] = -2 * (to_set[picks] - own_squares)
    return novelty


def _compute_residuals(similarities: Array, squares: Array, picks: Array, window: int | None, floor: float) -> Array:
    """Return (k, n) squared distances of all documents to the span of the last picks, before each pick."""
    residuals = np.empty_like(similarities)
    residuals[0], directions = squares, list[Array]()
    for rank in range(1, len(picks)):
        first_new = rank - 1
        residuals[rank] = residuals[rank - 1]
        if window is not None and rank > window:
            # The oldest pick leaves the window, so that the span is made anew.
            first_new, directions = rank - window, []
            residuals[rank] = squares
        for joining_rank in range(first_new, rank):
            _fold_direction(similarities, directions, squares, picks, joining_rank, residuals[rank], floor)
    return residuals


def _fold_direction(
    similarities: Array, directions: list[Array], squares: Array, picks: Array, rank: int, residual: Array, floor: float
) -> None:
    """Take the direction that a pick adds to a span off all squared distances, in place, and append it.

    directions: products of all documents with the orthonormal directions so far
    """
    pick = picks[rank]
    # At or under the floor a pick lies in the span already, and adds noise alone.
    if residual[pick] <= floor * squares[pick]:
        return
    # Gram–Schmidt in products: the new direction without its parts along the earlier ones.
    direction = similarities[rank].copy()
    for earlier_direction in directions:
        direction -= earlier_direction[pick] * earlier_direction
    direction /= np.sqrt(residual[pick])
    directions.append(direction)
    residual -= direction * direction


def _convert_residuals(kind: int, residuals: Array, squares: Array, floor: float) -> Array:
    """Return gains of squared distances: their logarithm, EXCLUDED under the floor, or their root, 0 under it."""
    is_noise = residuals <= floor * squares
    if kind == LOG_RESIDUAL:
        gains: Array = np.log(np.maximum(residuals, 1e-300))
        gains[is_noise] = EXCLUDED
        return gains
    return np.where(is_noise, 0.0, np.sqrt(np.maximum(residuals, 0.0)))
