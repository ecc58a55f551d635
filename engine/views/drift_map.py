"""Drift on a map that stays as it is: arrows from where documents began, and two encoders before and after on one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from engine.errors import Cancelled, DataError
from engine.maps import Layout, layout, place, positions
from engine.progress import Progress, Stop
from engine.space import Space
from engine.values import Corpus, Embeddings

NEAR = 3
"""On a map of neighbours a document is pulled most by those as near as its so-manieth nearest was at the start."""


@dataclass(frozen=True, eq=False)
class Trajectories:
    """Where documents went on a map of the start. rows: (m,) those that moved most, farthest first; steps: (s,) rising;
    points: (s, m, 2), at the first step where the map has them; distance: (m,) how far each moved beyond the common
    shift, at the last step."""

    rows: np.ndarray
    steps: tuple[int, ...]
    points: np.ndarray
    distance: np.ndarray

    def arrows(self, at: int = -1) -> dict[str, list[float]]:
        """Columns x0, y0, x1, y1 and row of the arrows from the start to one of the steps; unmoved ones left out."""
        begin, end = self.points[0], self.points[at]
        there = (begin != end).any(1)
        return {
            "row": self.rows[there].tolist(),
            "x0": begin[there, 0].tolist(),
            "y0": begin[there, 1].tolist(),
            "x1": end[there, 0].tolist(),
            "y1": end[there, 1].tolist(),
        }

    def lengthened(self, span: float, share: float = 0.1) -> tuple[Trajectories, float]:
        """The same with all arrows longer by one round factor, at least 1, and that factor: the longest at the last
        step then takes up to a share of the map. span: of the map."""
        far = np.linalg.norm(self.points[-1] - self.points[0], axis=1)
        room = share * span / far.max() if len(far) and far.max() > 0 else 1.0
        whole = 10.0 ** np.floor(np.log10(max(1.0, room)))
        factor = max(times * whole for times in (1, 2, 5) if times * whole <= max(1.0, room))
        points = self.points[:1] + factor * (self.points - self.points[:1])
        return replace(self, points=points.astype(np.float32)), float(factor)


def trajectories(
    found: Layout,
    start: Space,
    states: Sequence[tuple[int, np.ndarray]],
    most: int = 100,
    *,
    progress: Progress | None = None,
    stop: Stop | None = None,
) -> Trajectories:
    """The documents that moved most, on the map of the start, at several steps.

    found: of `start`; states: (step, (n, d) Θ_t), rising, each looked at twice at most and not kept; most: so many
    documents. What all moved together is taken off first, as it changes no ranking. On a map by PCA a document is
    projected. On a map of neighbours it moves as a mean of the mapped documents does, in which the near ones weigh most
    (a Gaussian, its width the start's distance to the third nearest): a small move is a small arrow, and none where
    nothing moved. Raises DataError, Cancelled.
    """
    origin = start.matrix.host.numpy()
    if not states:
        raise DataError(f"states must hold at least one (step, vectors), the vectors of shape {origin.shape}")
    moved, gone = _moved(origin, states[-1][1])
    # What is bit by bit where it was has no arrow, though the others left it behind.
    distance = np.zeros(len(origin))
    distance[moved] = np.linalg.norm(gone - gone.sum(0) / len(origin), axis=1)
    order = np.lexsort((np.arange(len(distance)), -distance))
    rows = order[: min(most, int((distance > 0).sum()))]
    first = origin[rows].astype(np.float64)
    begin = positions(found, start, rows.tolist())
    paths, seen = [], []
    for step, vectors in states:  # one at a time: they may be made as they are asked for
        if stop is not None and stop.is_set():
            raise Cancelled(f"stopped after {len(seen)} of {len(states)} steps of the arrows")
        common = _moved(origin, vectors)[1].sum(0) / len(origin)
        now = vectors[rows].astype(np.float64)
        still = (now == first).all(1)
        paths.append(np.where(still[:, None], first, now - common))
        seen.append(int(step))
        if progress is not None:
            progress(len(seen), len(states), "following documents")
    steps = tuple(seen)
    if not len(rows):
        points = np.empty((len(steps) + 1, 0, 2), np.float32)
    else:
        points = np.stack([begin, *_placed(found, start, rows, first, paths, begin)])
    if steps[0] == 0:
        return Trajectories(rows, steps, points[1:], distance[rows])
    return Trajectories(rows, (0, *steps), points, distance[rows])


def _moved(origin: np.ndarray, vectors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(m,) the rows that are not bit by bit where they were, and (m, d) by how much, in float64."""
    if vectors.shape != origin.shape:
        raise DataError(f"states must hold (step, vectors), the vectors of shape {origin.shape}; got {vectors.shape}")
    rows = np.flatnonzero((vectors != origin).any(1))
    return rows, vectors[rows].astype(np.float64) - origin[rows].astype(np.float64)


def _placed(
    found: Layout, start: Space, rows: np.ndarray, first: np.ndarray, paths: Sequence[np.ndarray], begin: np.ndarray
) -> list[np.ndarray]:
    if found.method == "pca":
        still = [(path == first).all(1) for path in paths]
        return [np.where(s[:, None], begin, place(found, start, path)) for s, path in zip(still, paths, strict=True)]
    ground = _directions(start.matrix.host.double().numpy()[found.rows])
    own = found.points.astype(np.float64)
    then = _directions(first)
    away = _squares(then, ground)
    away[rows[:, None] == found.rows[None, :]] = np.inf
    count = min(NEAR, len(ground) - 1)
    width = np.partition(away, count - 1, axis=1)[:, count - 1] if count else np.ones(len(rows))
    width = np.maximum(width, 1e-12)

    def mean(points: np.ndarray) -> np.ndarray:
        exponent = -_squares(points, ground) / (2 * width[:, None])
        weight = np.exp(exponent - exponent.max(1, keepdims=True))
        return weight @ own / weight.sum(1, keepdims=True)

    base = mean(then)
    return [(begin + mean(_directions(path)) - base).astype(np.float32) for path in paths]


def _squares(points: np.ndarray, ground: np.ndarray) -> np.ndarray:
    """(m, n) squared distances of unit rows."""
    return np.maximum(2 - 2 * (points @ ground.T), 0.0)


def _directions(rows: np.ndarray) -> np.ndarray:
    length = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows / np.where(length == 0, 1, length)


@dataclass(frozen=True, eq=False)
class Encoded:
    """One corpus as one encoder has it, before and after learning: space; after: (n, d) Θ_t; queries: by the same
    encoder."""

    space: Space
    after: np.ndarray
    queries: Embeddings


@dataclass(frozen=True, eq=False)
class OneMap:
    """Documents by two encoders, before and after, on one map.

    encoders: their names; rows: (m,) documents; points: (2, 2, m, 2): encoder, before and after, document; agreement:
    the mean cosine of what both encoders make of a document, before and after.
    """

    encoders: tuple[str, str]
    rows: np.ndarray
    points: np.ndarray
    agreement: tuple[float, float]


def one_map(
    encoded: Mapping[str, Encoded],
    documents: int = 100,
    *,
    perplexity: float = 30.0,
    seed: int = 0,
    progress: Progress | None = None,
    stop: Stop | None = None,
) -> OneMap:
    """Two encoders on one map, as in Fig. 1b of Online-Optimized RAG, where the corpus and the queries are the same.

    Vectors of two encoders cannot be compared. So each document is what the queries make of it: its scores for them,
    less the mean over all documents, in units of their spread. documents: a seeded sample of so many. Raises DataError,
    ParamError, Cancelled.
    """
    if len(encoded) != 2:
        raise DataError(f"one map is of two encoders; got {', '.join(encoded) or 'none'}")
    (one, a), (two, b) = encoded.items()
    if a.space.corpus != b.space.corpus or a.queries.ids != b.queries.ids:
        raise DataError(f"{one} and {two} must be of one corpus, with the same queries in the same order")
    count = len(a.space)
    rows = np.arange(count)
    if count > documents:
        rows = np.sort(np.random.default_rng(seed).choice(count, documents, replace=False))
    profiles = [
        _profiles(vectors, own.queries)[rows]
        for own in (a, b)
        for vectors in (own.space.matrix.host.numpy(), own.after)
    ]
    ids = tuple(f"{at} {row}" for at in range(4) for row in rows.tolist())
    corpus = Corpus(ids, ("",) * len(ids), name=f"{one} and {two}")
    whole = Space(corpus, Embeddings(np.concatenate(profiles).astype(np.float32), ids), "cpu")
    found = layout(whole, perplexity=perplexity, seed=seed, cache=False, progress=progress, stop=stop)
    agreement = tuple(
        float((_directions(profiles[at]) * _directions(profiles[at + 2])).sum(1).mean()) for at in range(2)
    )
    return OneMap((one, two), rows, found.points.reshape(2, 2, len(rows), 2), agreement)


def _profiles(vectors: np.ndarray, queries: Embeddings) -> np.ndarray:
    """(n, q) scores of the documents for the queries, centred for each query, of mean square 1."""
    rows = vectors.astype(np.float64)
    scores = (rows - rows.mean(0)) @ queries.vectors.cpu().double().numpy().T
    return scores / max(1e-300, float(np.sqrt((scores**2).mean())))
