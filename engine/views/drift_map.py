"""Drift on the map of the start: an arrow from each document's first place to where it is."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from engine.errors import Cancelled, DataError
from engine.maps.layout import Layout, place, positions
from engine.progress import Progress, Stop
from engine.space import Space

NEAR = 3
"""On a map of neighbours the distance to the NEAR-th nearest document at the start sets a document's kernel width."""


@dataclass(frozen=True, eq=False)
class Trajectories:
    """Paths of documents on the map of the start."""

    rows: np.ndarray  # (m,) those that moved most, farthest first
    steps: tuple[int, ...]  # (s,) rising
    points: np.ndarray  # (s, m, 2), at the first step where the map has them
    distance: np.ndarray  # (m,) how far each moved beyond the common shift, at the last step

    def arrows(self, index: int = -1) -> dict[str, list[float]]:
        """Columns row, x0, y0, x1, y1 of the arrows from the start to one of the steps; unmoved ones left out."""
        begin, end = self.points[0], self.points[index]
        moved = (begin != end).any(1)
        columns = np.column_stack([begin[moved], end[moved]]).T.tolist()
        return {"row": self.rows[moved].tolist(), **dict(zip(("x0", "y0", "x1", "y1"), columns, strict=True))}

    def lengthened(self, span: float, share: float = 0.1) -> "tuple[Trajectories, float]":
        """The same with all arrows longer by one round factor, at least 1, and that factor: the longest at the last
        step then takes up to a share of the map. span: of the map."""
        far = np.linalg.norm(self.points[-1] - self.points[0], axis=1)
        room = share * span / far.max() if len(far) and far.max() > 0 else 1.0
        whole = 10.0 ** np.floor(np.log10(max(1.0, room)))
        factor = max(times * whole for times in (1, 2, 5) if times * whole <= max(1.0, room))
        points = self.points[:1] + factor * (self.points - self.points[:1])
        return replace(self, points=points.astype(np.float32)), float(factor)


def trajectories(
    layout: Layout,
    start: Space,
    states: Sequence[tuple[int, np.ndarray]],
    most: int = 100,
    *,
    progress: Progress | None = None,
    stop: Stop | None = None,
) -> Trajectories:
    """The documents that moved most, on the map of the start, at several steps.

    layout: of `start`; states: (step, (n, d) Θ_t), rising, each looked at twice at most and not kept; most: so many
    documents. What all moved together is taken off first, as it changes no ranking. On a map by PCA a document is
    projected. On a map of neighbours it moves as a mean of the mapped documents does, in which the near ones weigh most
    (a Gaussian, its width the start's distance to the third nearest): a small move is a small arrow, and none where
    nothing moved. Raises DataError, Cancelled.
    """
    origin = start.matrix.on_cpu.numpy()
    if not states:
        raise DataError(f"states must hold at least one (step, vectors), the vectors of shape {origin.shape}")
    moved, gone = _moved(origin, states[-1][1])
    # What is bit by bit where it was has no arrow, though the others left it behind.
    distance = np.zeros(len(origin))
    distance[moved] = np.linalg.norm(gone - gone.sum(0) / len(origin), axis=1)
    order = np.lexsort((np.arange(len(distance)), -distance))
    rows = order[: min(most, int((distance > 0).sum()))]
    first = origin[rows].astype(np.float64)
    begin = positions(layout, start, rows.tolist())
    paths: list[np.ndarray] = []
    steps = [0]
    for step, vectors in states:  # one at a time: they may be made as they are asked for
        if stop is not None and stop.is_set():
            raise Cancelled(f"stopped after {len(paths)} of {len(states)} steps of the arrows")
        common = _moved(origin, vectors)[1].sum(0) / len(origin)
        now = vectors[rows].astype(np.float64)
        still = (now == first).all(1)
        paths.append(np.where(still[:, None], first, now - common))
        steps.append(int(step))
        if progress is not None:
            progress(len(paths), len(states), "following documents")
    points = np.empty((len(steps), 0, 2), np.float32)
    if len(rows):
        points = np.stack([begin, *_placed(layout, start, rows, first, paths, begin)])
    known = int(steps[1] == 0)  # the states begin with the start
    return Trajectories(rows, tuple(steps[known:]), points[known:], distance[rows])


def _moved(origin: np.ndarray, vectors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(m,) the rows that are not bit by bit where they were, and (m, d) by how much, in float64."""
    if vectors.shape != origin.shape:
        raise DataError(f"states must hold (step, vectors), the vectors of shape {origin.shape}; got {vectors.shape}")
    rows = np.flatnonzero((vectors != origin).any(1))
    return rows, vectors[rows].astype(np.float64) - origin[rows].astype(np.float64)


def _placed(
    layout: Layout, start: Space, rows: np.ndarray, first: np.ndarray, paths: Sequence[np.ndarray], begin: np.ndarray
) -> list[np.ndarray]:
    if layout.method == "pca":
        still = [(path == first).all(1) for path in paths]
        return [np.where(s[:, None], begin, place(layout, start, path)) for s, path in zip(still, paths, strict=True)]
    ground = _directions(start.matrix.on_cpu.double().numpy()[layout.rows])
    places = layout.points.astype(np.float64)
    then = _directions(first)
    away = _squares(then, ground)
    away[rows[:, None] == layout.rows[None, :]] = np.inf
    count = min(NEAR, len(ground) - 1)
    width = np.partition(away, count - 1, axis=1)[:, count - 1] if count else np.ones(len(rows))
    width = np.maximum(width, 1e-12)

    def mean_place(points: np.ndarray) -> np.ndarray:
        exponent = -_squares(points, ground) / (2 * width[:, None])
        weight = np.exp(exponent - exponent.max(1, keepdims=True))
        mean: np.ndarray = weight @ places / weight.sum(1, keepdims=True)
        return mean

    base = mean_place(then)
    return [(begin + mean_place(_directions(path)) - base).astype(np.float32) for path in paths]


def _squares(points: np.ndarray, ground: np.ndarray) -> np.ndarray:
    """(m, n) squared distances of unit rows."""
    squares: np.ndarray = np.maximum(2 - 2 * (points @ ground.T), 0.0)
    return squares


def _directions(rows: np.ndarray) -> np.ndarray:
    length = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows / np.where(length == 0, 1, length)


@dataclass(frozen=True, eq=False)
class Beside:
    """The same documents as two encoders have them, before and after feedback, on the map of the first."""

    rows: np.ndarray  # (m,) those that moved most in either, farthest first
    points: np.ndarray  # (2, 2, m, 2) by encoder, by before and after: places on the map
    agreement: tuple[float, float]  # mean cosine of a document's two vectors, before and after, once they are turned

    def arrows(self, encoder: int) -> dict[str, list[float]]:
        """Columns row, x0, y0, x1, y1 of the arrows of an encoder, 0 or 1."""
        columns = np.column_stack([self.points[encoder, 0], self.points[encoder, 1]]).T.tolist()
        return {"row": self.rows.tolist(), **dict(zip(("x0", "y0", "x1", "y1"), columns, strict=True))}


def turned(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """(d₂, d₁) the rotation that brings (n, d₂) documents nearest to the same ones in (n, d₁): orthogonal Procrustes.

    Two encoders share no axes, so a common map needs a common frame; a rotation is one that leaves every inner product
    of an encoder as it is (Schönemann 1966). Where d₂ > d₁, what it keeps are the d₁ directions that agree best.
    """
    left, _, right = np.linalg.svd(other.T @ one, full_matrices=False)
    rotation: np.ndarray = left @ right
    return rotation


def beside(
    layout: Layout,
    start: Space,
    now: np.ndarray,
    other_start: np.ndarray,
    other_now: np.ndarray,
    most: int = 60,
) -> Beside:
    """Two encoders' drift on one map (Online-Optimized RAG, Fig. 1b).

    layout: of `start`; now: (n, d₁) its documents after feedback; other_start, other_now: (n, d₂) the same documents of
    another encoder. The frame is set by the vectors before feedback alone, so that nothing of the drift is turned
    away. What all moved together is taken off. Raises DataError.
    """
    if len(other_start) != len(start) or other_now.shape != other_start.shape:
        raise DataError(
            f"both encoders must have the same {len(start)} documents; got {other_start.shape} and {other_now.shape}"
        )
    origin = start.matrix.on_cpu.numpy()
    moved = [now - origin.astype(np.float64), other_now.astype(np.float64) - other_start]
    moved = [each - each.mean(0) for each in moved]
    far = np.max([np.linalg.norm(each, axis=1) for each in moved], axis=0)
    rows = np.lexsort((np.arange(len(far)), -far))[: min(most, int((far > 0).sum()))]
    firsts = [origin.astype(np.float64), other_start.astype(np.float64)]
    frame = turned(_directions(firsts[0]), _directions(firsts[1]))
    firsts[1], moved[1] = firsts[1] @ frame, moved[1] @ frame
    points = np.empty((2, 2, len(rows), 2), np.float32)
    for number, (first, drift) in enumerate(zip(firsts, moved, strict=True)):
        if len(rows):
            own = first[rows]
            begin = place(layout, start, own) if number else positions(layout, start, rows.tolist())
            points[number] = begin, _placed(layout, start, rows, own, [own + drift[rows]], begin)[0]
    cosines = [
        float((_directions(a) * _directions(b)).sum(1).mean())
        for a, b in (firsts, [first + drift for first, drift in zip(firsts, moved, strict=True)])
    ]
    return Beside(rows, points, (cosines[0], cosines[1]))
