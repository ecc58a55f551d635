"""2-D maps of a corpus, by t-SNE (van der Maaten & Hinton, JMLR 2008) or PCA, and where a query falls on one.

Vectors count by direction; a zero row is at a right angle to all others. Neighbours are exact, so the same embeddings
and seed give the same map.
"""

import io
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import Tensor

from engine.candidates import without_autocast
from engine.data import cache as store
from engine.decoder import SET_SIZE, check_dimension
from engine.errors import DataError
from engine.evaluation.statistics import SEED
from engine.maps.tsne import ARRANGING, BLOCK, arranged, nearest, others, principal, projected
from engine.matrix import Matrix, blocks, slices
from engine.params import Choice, Real, Whole
from engine.progress import Progress, Stop, with_cancellation
from engine.space import Space
from engine.values import ByDigest, digest_of, real_tensor

METHOD = Choice(
    default="tsne",
    options=("tsne", "pca"),
    symbol="method",
    name="method",
    help="t-SNE keeps neighbours together; PCA keeps the two directions in which the corpus varies most.",
    source="van der Maaten & Hinton 2008",
)
PERPLEXITY = Real(
    default=30.0,
    low=1.0,
    high=300.0,
    comfortable=(5.0, 100.0),
    scale="log",
    symbol="perplexity",
    name="perplexity",
    help="About how many neighbours a document is kept close to.",
    source="van der Maaten & Hinton 2008, §2",
    requires=("method", "tsne"),
)
MOST = Whole(
    default=20_000,
    low=1,
    comfortable=(1_000, 50_000),
    symbol="most",
    name="most",
    help="Of a larger corpus a seeded sample of so many documents is laid out; the others can still be placed.",
)
COUNT = replace(SET_SIZE, name="count", symbol="count", help="How many neighbours.")
NEIGHBOURS = replace(SET_SIZE, help="How many neighbours of a document are looked at.")

SECTION = "maps"
_FORMAT = "1"  # a new one whenever the same embeddings and settings would give another map
READING = "reading the cache"

_PLACED_BY = 7
# A text embedded in another batch comes back this close to itself.
_SAME = 1e-6
_JUDGED = 1_000


@dataclass(frozen=True, eq=False)
class Layout(ByDigest):
    """A map: points (m, 2) float32 of the documents at `rows` (m,) int64, ascending; equal vectors share one point.

    of: how many documents the corpus has; embeddings: the digest of theirs; asked, perplexity: the one asked for and
    the one used, which a small corpus lowers, None for PCA; mean (d,), axes (d, 2): PCA's, None for t-SNE.
    """

    points: np.ndarray
    rows: np.ndarray
    of: int
    embeddings: str
    method: str
    seed: int
    asked: float | None = None
    perplexity: float | None = None
    mean: np.ndarray | None = None
    axes: np.ndarray | None = None

    def __post_init__(self) -> None:
        for array in (self.points, self.rows, self.mean, self.axes):
            if array is not None:
                array.setflags(write=False)

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def sampled(self) -> bool:
        """Whether the map was made from a sample of the corpus."""
        return len(self.rows) < self.of

    @cached_property
    def digest(self) -> str:
        words = (self.embeddings, self.method, repr(self.perplexity), str(self.seed), str(self.of))
        arrays = [a for a in (self.points, self.rows, self.mean, self.axes) if a is not None]
        return digest_of([*words, *(a.tobytes() for a in arrays)])


@without_autocast
def layout(
    space: Space,
    method: str = "tsne",
    *,
    perplexity: float = 30.0,
    seed: int = 0,
    most: int = 20_000,
    cache: bool = True,
    progress: Progress | None = None,
    stop: Stop | None = None,
) -> Layout:
    """A map of a corpus: similar documents lie close together.

    method: "tsne" or "pca"; perplexity: at most a third of the other vectors is used; most: a larger corpus is sampled.
    cache: False neither reads nor writes the disk. progress(done, total, label) and stop: in steps well under a second.
    Raises ParamError, Cancelled when stopped, FrontierError where the cache cannot be written.
    """
    asked = _Asked.of(space, method, perplexity, seed, most)
    tell = with_cancellation(progress, stop, "the map was stopped at {done} of {total} steps")
    if cache and (found := asked.stored()):
        tell(1, 1, READING)
        return found
    rows = asked.rows()
    make = _pca if asked.method == "pca" else _tsne
    made = asked.layout(rows, **make(_ground(space, rows), asked, tell))
    if cache:
        stream, names = io.BytesIO(), ("points", "rows", "perplexity", "mean", "axes")
        np.savez(stream, **{name: value for name in names if (value := getattr(made, name)) is not None})
        store.put(SECTION, asked.key, stream.getvalue())
    return made


@without_autocast
def place(layout: Layout, space: Space, vectors: Any) -> np.ndarray:
    """(B, 2) float32 points of new vectors, (B, d) or (d,), on a map. Raises DataError.

    PCA projects. t-SNE takes the median of the 7 nearest mapped vectors' points, as openTSNE's `transform` would shift
    the map. A vector that is on the map already gets its point.
    """
    _check_of(layout, space)
    given = real_tensor(vectors, "vectors").cpu()
    given = Matrix(given.unsqueeze(0) if given.ndim == 1 else given).vectors
    check_dimension("vectors", given, space.vectors, "the corpus")
    if layout.mean is not None and layout.axes is not None:
        return projected(_directions(given)[:, :-1], layout.mean, layout.axes)
    ground = _ground(space, layout.rows)
    own = layout.points[ground.first]
    parts = []
    for block in _directions(given).split(BLOCK):
        index, cosine = nearest(ground.matrix, block, min(_PLACED_BY, len(ground)))
        parts.append(np.where(cosine[:, :1] >= 1 - _SAME, own[index[:, 0]], np.median(own[index], axis=1)))
    return np.concatenate(parts).astype(np.float32)


def positions(layout: Layout, space: Space, rows: Sequence[int]) -> np.ndarray:
    """(len(rows), 2) float32 points of documents: their own, or as of `place`. Raises DataError for no row."""
    _check_of(layout, space)
    wanted = np.asarray(rows)
    if not wanted.size:
        return np.empty((0, 2), np.float32)
    if wanted.ndim != 1 or wanted.dtype.kind not in "iu" or wanted.min() < 0 or wanted.max() >= layout.of:
        raise DataError(f"rows must be whole numbers in [0, {layout.of - 1}]; got {rows!r:.80}")
    at = np.searchsorted(layout.rows, wanted).clip(max=len(layout) - 1)
    points: np.ndarray = layout.points[at]
    if len(absent := np.flatnonzero(layout.rows[at] != wanted)):
        points[absent] = place(layout, space, space.matrix.on_cpu[torch.from_numpy(wanted[absent].astype(np.int64))])
    return points


@without_autocast
def neighbours(space: Space, row: int, count: int = 10) -> list[tuple[int, float]]:
    """The documents most similar to one, best first, equals by row: (row, float64 cosine). Raises ParamError."""
    row = Whole(0, "row", 0, len(space) - 1, name="row", help="A document.").check(row)
    count = min(COUNT.check(count), len(space) - 1)
    point, rows = _unit(space.vectors[row : row + 1]), blocks(space.vectors.shape[1], space.vectors)
    # Sums, not a matrix product, whose last bits depend on a row's place: equal documents must tie.
    cosine = torch.cat([(_unit(block) * point).sum(1) for (block,) in rows]).clamp_(-1, 1)
    order = cosine.sort(descending=True, stable=True).indices
    order = order[order != row][:count]
    return list(zip(order.tolist(), cosine[order].tolist(), strict=True))


@without_autocast
def fidelity(layout: Layout, space: Space, k: int = 10) -> float:
    """The share of the k nearest that are among the k nearest on the map too; 1 for a corpus of one vector.

    Over up to 1,000 mapped documents; equal vectors, which share a point, count once. Raises ParamError or DataError.
    """
    from scipy.spatial import KDTree

    _check_of(layout, space)
    k = NEIGHBOURS.check(k)
    ground = _ground(space, layout.rows)
    k = min(k, len(ground) - 1)
    if not k:
        return 1.0
    judged = np.sort(np.random.default_rng(0).choice(len(ground), min(len(ground), _JUDGED), replace=False))
    points = layout.points[ground.first]
    shown = np.asarray(KDTree(points).query(points[judged], k=k + 1)[1])
    shown = shown[others(shown, judged)].reshape(-1, k)
    kept = 0
    for at in range(0, len(judged), BLOCK):
        own = judged[at : at + BLOCK]
        true = nearest(ground.matrix, ground.matrix.vectors[torch.from_numpy(own)], k + 1)[0]
        true = true[others(true, own)].reshape(-1, k)
        kept += sum(len(np.intersect1d(*pair)) for pair in zip(true, shown[at : at + BLOCK], strict=True))
    return kept / (len(judged) * k)


@dataclass(frozen=True)
class _Asked:
    """The settings of a map, checked; `most` no larger than the corpus."""

    method: str
    perplexity: float
    seed: int
    most: int
    n: int
    embeddings: str

    @classmethod
    def of(cls, space: Space, method: str, perplexity: float, seed: int, most: int) -> "_Asked":
        checked = METHOD.check(method), PERPLEXITY.check(perplexity), SEED.check(seed), MOST.check(most)
        return cls(*checked[:3], min(checked[3], len(space)), len(space), space.embeddings.digest)

    @property
    def key(self) -> str:
        perplexity = repr(self.perplexity) if self.method == "tsne" else ""
        return digest_of([_FORMAT, self.embeddings, self.method, perplexity, str(self.seed), str(self.most)])

    def rows(self) -> np.ndarray:
        if self.most == self.n:
            return np.arange(self.n)
        return np.sort(np.random.default_rng(self.seed).choice(self.n, self.most, replace=False)).astype(np.int64)

    def layout(self, rows: np.ndarray, points: np.ndarray, **more: Any) -> Layout:
        asked = self.perplexity if self.method == "tsne" else None
        return Layout(points, rows, self.n, self.embeddings, self.method, self.seed, asked, **more)

    def stored(self) -> Layout | None:
        payload = store.get(SECTION, self.key)
        if payload is None:
            return None
        with np.load(io.BytesIO(payload), allow_pickle=False) as found:
            more = {name: found[name] for name in found}
        if "perplexity" in more:
            more["perplexity"] = float(more["perplexity"])
        return self.layout(**more)


def _check_of(layout: Layout, space: Space) -> None:
    if layout.embeddings != space.embeddings.digest:
        raise DataError("layout is a map of other embeddings than the space's; make one with engine.layout(space)")


@dataclass(frozen=True, eq=False)
class _Ground:
    """The different directions of mapped documents.

    mapped: (m,) rows of the corpus; matrix: (u, d + 1) their directions, as `_directions` makes them; first: (u,) which
    mapped document is the first of each; kind: (m,) which one a document has.
    """

    mapped: np.ndarray
    matrix: Matrix
    first: np.ndarray
    kind: np.ndarray

    def __len__(self) -> int:
        return len(self.first)

    @property
    def rows(self) -> Tensor:
        """(u, d) the directions, zero where a vector is."""
        return self.matrix.vectors[:, :-1]

    @property
    def weight(self) -> Tensor:
        """(u,) how many documents have each."""
        return torch.from_numpy(np.bincount(self.kind)).double()


_GROUNDS: WeakKeyDictionary[Space, _Ground] = WeakKeyDictionary()


def _ground(space: Space, rows: np.ndarray) -> _Ground:
    """The ground of a map; a space keeps its last one, as a page places query after query."""
    found = _GROUNDS.get(space)
    if found is None or not np.array_equal(found.mapped, rows):
        host = space.matrix.on_cpu
        unit = _directions(host if len(rows) == len(host) else host[torch.from_numpy(rows)])
        first, kind = np.unique(Matrix(unit).duplicate_of.numpy(), return_inverse=True)
        found = _Ground(rows, Matrix(unit[torch.from_numpy(first)]), first, kind)
        _GROUNDS[space] = found
    return found


def _unit(rows: Tensor) -> Tensor:
    """(n, d) float64 rows of length 1; zero rows stay. The largest entry goes first, as squares may underflow."""
    rows = rows.double()
    rows = rows / rows.abs().amax(1, keepdim=True).clamp_min(torch.finfo(torch.float64).tiny)
    return torch.div(rows, torch.linalg.vector_norm(rows, dim=1, keepdim=True).clamp_min(0.5))


def _directions(rows: Tensor) -> Tensor:
    """(n, d + 1) float32 unit rows; a zero row is 1 in the last column, where all others are 0."""
    unit = rows.new_zeros(len(rows), rows.shape[1] + 1, dtype=torch.float32)
    for block in slices(len(rows), rows.shape[1]):
        unit[block, :-1] = _unit(rows[block]) + 0.0  # no negative zeros: equal rows have equal bytes
    unit[:, -1] = (rows == 0).all(1)
    return unit


def _pca(ground: _Ground, asked: _Asked, tell: Progress) -> dict[str, Any]:
    tell(0, 1, ARRANGING)
    mean, axes = principal(ground.rows, ground.weight)
    tell(1, 1, ARRANGING)
    return {"points": projected(ground.rows, mean, axes)[ground.kind], "mean": mean, "axes": axes}


def _tsne(ground: _Ground, asked: _Asked, tell: Progress) -> dict[str, Any]:
    perplexity = min(asked.perplexity, max(1.0, (len(ground) - 1) / 3))
    flat = projected(ground.rows, *principal(ground.rows, ground.weight))
    points = arranged(ground.matrix, flat, perplexity, asked.seed, tell)
    return {"points": points[ground.kind], "perplexity": perplexity}
