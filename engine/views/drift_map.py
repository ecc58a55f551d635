"""Drift on the map of the start: an arrow from each document's first place to where it is."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from engine.errors import Cancelled, DataError
from engine.maps.layout import Layout, find_positions, place
from engine.progress import Progress, Stop
from engine.space import Space

KERNEL_NEIGHBOUR = 3
"""Rank of the mapped document whose distance at the start is a document's kernel width, on a map of neighbours."""


@dataclass(frozen=True, eq=False)
class Trajectories:
    """Paths of the documents that moved most, on the map of the start."""

    rows: np.ndarray  # (m,) those that moved most, farthest first
    steps: tuple[int, ...]  # (s,) rising
    points: np.ndarray  # (s, m, 2), at the first step where the map has them
    distance: np.ndarray  # (m,) distance that each moved beyond the common shift, at the last step

    def arrows(self, index: int = -1) -> dict[str, list[float]]:
        """Return columns row, x0, y0, x1, y1 of the arrows from the start to a step.

        index: of the step, by default the last; documents that have not moved are left out
        """
        begin_points, end_points = self.points[0], self.points[index]
        has_moved = (begin_points != end_points).any(1)
        columns = np.column_stack([begin_points[has_moved], end_points[has_moved]]).T.tolist()
        return {"row": self.rows[has_moved].tolist(), **dict(zip(("x0", "y0", "x1", "y1"), columns, strict=True))}

    def lengthen(self, span: float, share: float = 0.1) -> "tuple[Trajectories, float]":
        """Lengthen all arrows by one round factor, at least 1, so that small moves are seen; return it too.

        The longest arrow at the last step then takes up to `share` of the map's width, `span`.
        """
        lengths = np.linalg.norm(self.points[-1] - self.points[0], axis=1)
        max_factor = share * span / lengths.max() if len(lengths) and lengths.max() > 0 else 1.0
        # Round factors are 1, 2 or 5 times a power of ten: "arrows 20 times as long" is read at once.
        factors = np.array([1, 2, 5]) * 10.0 ** np.floor(np.log10(max(1.0, max_factor)))
        factor = factors[factors <= max(1.0, max_factor)].max()
        points = self.points[:1] + factor * (self.points - self.points[:1])
        return replace(self, points=points.astype(np.float32)), float(factor)


def trajectories(
    layout: Layout,
    start: Space,
    states: Sequence[tuple[int, np.ndarray]],
    max_documents: int = 100,
    *,
    progress: Progress | None = None,
    stop: Stop | None = None,
) -> Trajectories:
    """Trace the documents that feedback moved most, as points on a map of the corpus at several steps.

    layout: map of `start`, the corpus before feedback; states: pairs of a step and the (n, d) vectors then, in rising
    order, each read twice at most and not kept; max_documents: number of documents to trace. A shift common to all is
    subtracted first, as it changes no ranking. On a map by PCA a document is projected. On a map of neighbours it moves
    by as much as a weighted mean of the mapped documents' points: the weight is a Gaussian of their distance to the
    document's vector. So a small move is a small arrow, and no move is none. Raises DataError, Cancelled.
    """
    start_vectors = start.matrix.on_cpu.numpy()
    if not states:
        raise DataError(f"states must hold at least one (step, vectors), the vectors of shape {start_vectors.shape}")
    moved_rows, moves = _find_moves(start_vectors, states[-1][1])
    # A document whose vector has not changed has distance 0 and no arrow, although the others' mean move is not 0.
    mean_move = moves.sum(0) / len(start_vectors)
    distance = np.zeros(len(start_vectors))
    distance[moved_rows] = np.linalg.norm(moves - mean_move, axis=1)
    row_order = np.lexsort((np.arange(len(distance)), -distance))
    moved_most = row_order[: min(max_documents, int((distance > 0).sum()))]
    origins = start_vectors[moved_most].astype(np.float64)
    begin_points = find_positions(layout, start, moved_most.tolist())
    paths: list[np.ndarray] = []
    steps = [0]
    # States are read one at a time: a sequence may make each when it is asked for, and a corpus is large.
    for step, vectors in states:
        if stop is not None and stop.is_set():
            raise Cancelled(f"stopped after {len(paths)} of {len(states)} steps of the arrows")
        _rows, step_moves = _find_moves(start_vectors, vectors)
        common_shift = step_moves.sum(0) / len(start_vectors)
        vectors_now = vectors[moved_most].astype(np.float64)
        is_still = (vectors_now == origins).all(1)
        paths.append(np.where(is_still[:, None], origins, vectors_now - common_shift))
        steps.append(int(step))
        if progress is not None:
            progress(len(paths), len(states), "following documents")
    points = np.empty((len(steps), 0, 2), np.float32)
    if len(moved_most):
        points = np.stack([begin_points, *_place_paths(layout, start, moved_most, origins, paths, begin_points)])
    # The start is always the first step; states that begin with it would have it twice.
    first_step = int(steps[1] == 0)
    return Trajectories(moved_most, tuple(steps[first_step:]), points[first_step:], distance[moved_most])


def _find_moves(origin: np.ndarray, vectors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows of the documents that moved at all, (m,), and their displacements, (m, d).

    In float64. Raises DataError if the shapes differ.
    """
    if vectors.shape != origin.shape:
        raise DataError(f"states must hold (step, vectors), the vectors of shape {origin.shape}; got {vectors.shape}")
    rows = np.flatnonzero((vectors != origin).any(1))
    return rows, vectors[rows].astype(np.float64) - origin[rows].astype(np.float64)


def _place_paths(
    layout: Layout, start: Space, rows: np.ndarray, origins: np.ndarray, paths: Sequence[np.ndarray], begin: np.ndarray
) -> list[np.ndarray]:
    """Return the (m, 2) points of moving documents on a map of the corpus, one array for each step.

    A map by PCA projects any vector. Other maps cannot. On them a weighted mean of all mapped documents' points, which
    weighs a document by its similarity to the moving one's vector, follows that vector; the document moves by as much
    as this mean does. rows: (m,) the documents; origins: (m, d) their first vectors; paths: (m, d) their vectors at
    each step; begin: (m, 2) their first points.
    """
    # PCA is linear: a vector has a place of its own. Documents that stay keep their first one, to the bit.
    if layout.method == "pca":
        return [np.where((path == origins).all(1, keepdims=True), begin, place(layout, start, path)) for path in paths]
    mapped_units = _directions(start.matrix.on_cpu.double().numpy()[layout.rows])
    map_points = layout.points.astype(np.float64)
    start_units = _directions(origins)
    distances = _squared_distances(start_units, mapped_units)
    # The kernel width of a document is its squared distance to the n-th nearest other document on the map.
    distances[rows[:, None] == layout.rows[None, :]] = np.inf
    n_nearest = min(KERNEL_NEIGHBOUR, len(mapped_units) - 1)
    kernel_width = np.partition(distances, n_nearest - 1, axis=1)[:, n_nearest - 1] if n_nearest else np.ones(len(rows))
    kernel_width = np.maximum(kernel_width, 1e-12)

    def find_mean_point(points: np.ndarray) -> np.ndarray:
        """Return (m, 2) means of the mapped documents' points, near ones weighing most; points: unit rows."""
        exponent = -_squared_distances(points, mapped_units) / (2 * kernel_width[:, None])
        # Far from all neighbours every weight would be 0: relative to the largest one, the mean is the same.
        kernel_weight = np.exp(exponent - exponent.max(1, keepdims=True))
        mean_point: np.ndarray = kernel_weight @ map_points / kernel_weight.sum(1, keepdims=True)
        return mean_point

    # The mean of a document's neighbours is not its own place: only the difference of two means moves it.
    base_points = find_mean_point(start_units)
    return [(begin + find_mean_point(_directions(path)) - base_points).astype(np.float32) for path in paths]


def _squared_distances(points: np.ndarray, ground: np.ndarray) -> np.ndarray:
    """Compute the squared distances between unit rows, (m, d), and others, (n, d), as (m, n)."""
    # |a − b|² = 2 − 2⟨a, b⟩ for unit vectors; rounding may make it negative.
    squares: np.ndarray = np.maximum(2 - 2 * (points @ ground.T), 0.0)
    return squares


def _directions(rows: np.ndarray) -> np.ndarray:
    """Return rows scaled to unit length; zero rows stay zero."""
    length = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows / np.where(length == 0, 1, length)


@dataclass(frozen=True, eq=False)
class DriftComparison:
    """Documents in two encoders, before and after feedback, on the map of the first."""

    rows: np.ndarray  # (m,) those that moved most in either, farthest first
    points: np.ndarray  # (2, 2, m, 2) by encoder, by before and after: places on the map
    agreement: tuple[float, float]  # mean cosine of a document's two vectors, before and after, once they are turned

    def arrows(self, encoder: int) -> dict[str, list[float]]:
        """Return an arrow for each document, from before feedback to after, as columns row, x0, y0, x1, y1.

        encoder: 0 for the first encoder's vectors, 1 for the second one's
        """
        columns = np.column_stack([self.points[encoder, 0], self.points[encoder, 1]]).T.tolist()
        return {"row": self.rows.tolist(), **dict(zip(("x0", "y0", "x1", "y1"), columns, strict=True))}


def find_rotation(target: np.ndarray, source: np.ndarray) -> np.ndarray:
    """Find the rotation, (d₂, d₁), that turns an encoder's documents best onto another's (Procrustes).

    target: (n, d₁) the other's vectors; source: (n, d₂) those to turn. Two encoders share no axes, so one map of both
    needs common ones. A rotation leaves every inner product of an encoder as it is (Schönemann 1966). If d₂ > d₁, the
    result is a projection: it keeps the d₁ directions of `source` that agree best with `target`.
    """
    left_vectors, _values, right_vectors = np.linalg.svd(source.T @ target, full_matrices=False)
    rotation: np.ndarray = left_vectors @ right_vectors
    return rotation


def compare_encoders_drift(
    layout: Layout,
    start: Space,
    now: np.ndarray,
    other_start: np.ndarray,
    other_now: np.ndarray,
    max_documents: int = 60,
) -> DriftComparison:
    """Draw how feedback moved documents, once for each of two encoders, on one map.

    As in Fig. 1b of the ORAG paper, the two show if both encoders' documents move alike. layout: map of `start`, the
    corpus as the first encoder embeds it; now: (n, d₁) its vectors after feedback;
    other_start, other_now: (n, d₂) vectors of the same documents by the second encoder, which are rotated onto the
    first ones. The rotation is fitted to the vectors before feedback alone, so that it hides nothing of the drift. A
    shift common to all documents is subtracted. Returns the documents that moved most. Raises DataError.
    """
    if len(other_start) != len(start) or other_now.shape != other_start.shape:
        raise DataError(
            f"both encoders must have the same {len(start)} documents; got {other_start.shape} and {other_now.shape}"
        )
    origin = start.matrix.on_cpu.numpy()
    origins = [origin.astype(np.float64), other_start.astype(np.float64)]
    moves = [_subtract_mean(now - origins[0]), _subtract_mean(other_now.astype(np.float64) - other_start)]
    distances = np.maximum(np.linalg.norm(moves[0], axis=1), np.linalg.norm(moves[1], axis=1))
    # The farthest first, ties by row.
    farthest_first = np.lexsort((np.arange(len(distances)), -distances))
    rows = farthest_first[: min(max_documents, int((distances > 0).sum()))]
    # The second encoder's vectors and moves are turned into the first one's axes, whose map is drawn.
    rotation = find_rotation(_directions(origins[0]), _directions(origins[1]))
    origins[1], moves[1] = origins[1] @ rotation, moves[1] @ rotation
    # Axes: encoder, start or end, document, x or y.
    points = np.empty((2, 2, len(rows), 2), np.float32)
    for encoder, (vectors, drift) in enumerate(zip(origins, moves, strict=True)):
        if len(rows):
            first_vectors = vectors[rows]
            # The documents of the first encoder, 0, are on the map already.
            begin = place(layout, start, first_vectors) if encoder else find_positions(layout, start, rows.tolist())
            (end,) = _place_paths(layout, start, rows, first_vectors, [first_vectors + drift[rows]], begin)
            points[encoder] = begin, end
    new_agreement = _compute_mean_cosine(origins[0] + moves[0], origins[1] + moves[1])
    return DriftComparison(rows, points, (_compute_mean_cosine(*origins), new_agreement))


def _subtract_mean(moves: np.ndarray) -> np.ndarray:
    """Subtract the mean displacement from all, (n, d): a shift of all documents changes no ranking."""
    centred: np.ndarray = moves - moves.mean(0)
    return centred


def _compute_mean_cosine(first: np.ndarray, second: np.ndarray) -> float:
    """Compute the mean cosine of corresponding rows of two matrices."""
    return float((_directions(first) * _directions(second)).sum(1).mean())
