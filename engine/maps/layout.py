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
from engine.data import shipped
from engine.decoder import SET_SIZE, check_dimension
from engine.errors import DataError
from engine.evaluation.statistics import SEED
from engine.maps.tsne import (
    ARRANGING_LABEL,
    NEIGHBOUR_BLOCK,
    arrange_points,
    find_nearest,
    find_principal_axes,
    mask_others,
    project_rows,
)
from engine.matrix import Matrix, blocks, slices
from engine.params import Choice, Real, Whole
from engine.progress import Progress, Stop, counted, with_cancellation
from engine.space import Space
from engine.values import ByDigest, digest_of, real_tensor

LAYOUT_METHOD = Choice(
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
MAX_MAPPED = Whole(
    default=20_000,
    low=1,
    comfortable=(1_000, 50_000),
    symbol="most",
    name="most",
    help="Of a larger corpus a seeded sample of so many documents is laid out; the others can still be placed.",
)
NEIGHBOUR_COUNT = replace(SET_SIZE, name="count", symbol="count", help="How many neighbours.")
FIDELITY_NEIGHBOURS = replace(SET_SIZE, help="How many neighbours of a document are looked at.")

MAPS_SECTION = "maps"
_FORMAT = "1"  # a new one whenever the same embeddings and settings would give another map
READING_LABEL = "reading the cache"

_N_PLACING = 7
# A text embedded in another batch comes back this close to itself.
_SAME_TOLERANCE = 1e-6
_MAX_JUDGED = 1_000


@dataclass(frozen=True, eq=False)
class Layout(ByDigest):
    """A two-dimensional map of a corpus; equal vectors share a point.

    Parameters
    ----------
    points : ndarray
        (m, 2) float32 positions.
    rows : ndarray
        (m,) int64 rows of the documents, ascending.
    of : int
        The number of documents in the corpus.
    embeddings : str
        The digest of their embeddings.
    method : str
        "tsne" or "pca".
    seed : int
        The seed of t-SNE.
    asked : float or None
        The requested perplexity; None for PCA.
    perplexity : float or None
        The perplexity used, which a small corpus lowers; None for PCA.
    mean : ndarray or None
        (d,) mean vector of PCA; None for t-SNE.
    axes : ndarray or None
        (d, 2) axes of PCA; None for t-SNE.

    Examples
    --------
    >>> import engine, torch
    >>> corpus = engine.Corpus(("a", "b", "c"), ("red apple", "green apple", "blue sky"))
    >>> space = engine.Space(corpus, engine.Embeddings(("a", "b", "c"), torch.eye(3)))
    >>> queries, qrels = engine.Embeddings(("q",), torch.tensor([[1.0, 0.5, 0.1]])), engine.Qrels({"q": {"a": 1}})
    >>> engine.layout(space, "pca").points.shape
    (3, 2)
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

    def _describe(self) -> str:
        return f"{self.method}, {counted(len(self.points), 'point')} of {counted(self.of, 'document')}"

    def __post_init__(self) -> None:
        # The digest is computed once and names the map in caches, so that its arrays must never change.
        for array in self._arrays:
            array.setflags(write=False)

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def sampled(self) -> bool:
        """True if the map was made from a sample of the corpus."""
        return len(self.rows) < self.of

    @cached_property
    def digest(self) -> str:
        """The digest of the map's settings and points, which names it in caches."""
        settings = (self.embeddings, self.method, repr(self.perplexity), str(self.seed), str(self.of))
        return digest_of([*settings, *map(np.ndarray.tobytes, self._arrays)])

    @property
    def _arrays(self) -> list[np.ndarray]:
        return [array for array in (self.points, self.rows, self.mean, self.axes) if array is not None]


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
    """Compute a map of a corpus, in which similar documents are close.

    Parameters
    ----------
    space : Space
        The corpus.
    method : str
        "tsne" or "pca".
    perplexity : float
        The perplexity of t-SNE; at most a third of the other vectors is used.
    seed : int
        The seed of t-SNE and of the sample.
    most : int
        The largest number of documents; a larger corpus is sampled.
    cache : bool
        False neither reads nor writes the disk.
    progress : callable or None
        Called repeatedly as progress(done, total, label).
    stop : callable or None
        The work is cancelled once it returns true.

    Returns
    -------
    Layout
        The positions of the documents.

    Raises
    ------
    ParamError
        If an argument is invalid.
    Cancelled
        If it is stopped.
    FrontierError
        If the cache cannot be written.

    Examples
    --------
    >>> import engine, torch
    >>> corpus = engine.Corpus(("a", "b", "c"), ("red apple", "green apple", "blue sky"))
    >>> space = engine.Space(corpus, engine.Embeddings(("a", "b", "c"), torch.eye(3)))
    >>> queries, qrels = engine.Embeddings(("q",), torch.tensor([[1.0, 0.5, 0.1]])), engine.Qrels({"q": {"a": 1}})
    >>> engine.layout(space, "pca").points.shape
    (3, 2)
    """
    request = LayoutRequest.check(space, method, perplexity, seed, most)
    report = with_cancellation(progress, stop, "the map was stopped at {done} of {total} steps")
    if cache and (stored := request.load_cached() or request.load_shipped()):
        report(1, 1, READING_LABEL)
        return stored
    rows = request.sample_rows()
    arrange = _pca if request.method == "pca" else _tsne
    result = request.make_layout(rows, **arrange(_find_distinct(space, rows), request, report))
    if cache:
        stream, array_names = io.BytesIO(), ("points", "rows", "perplexity", "mean", "axes")
        arrays = {name: getattr(result, name) for name in array_names}
        np.savez(stream, **{name: array for name, array in arrays.items() if array is not None})
        store.put(MAPS_SECTION, request.key, stream.getvalue())
    return result


@without_autocast
def place(layout: Layout, space: Space, vectors: Any) -> np.ndarray:
    """Return the points of new vectors, (B, d) or (d,), on a map, (B, 2) float32. Raises DataError.

    On a map by PCA they are projected. On one by t-SNE they get the median of the points of the 7 nearest mapped
    vectors; openTSNE's own `transform` is not used, as it would shift the map. A vector that is on the map already gets
    its point.
    """
    _check_space(layout, space)
    new_vectors = real_tensor(vectors, "vectors").cpu()
    new_vectors = Matrix(new_vectors.unsqueeze(0) if new_vectors.ndim == 1 else new_vectors).vectors
    check_dimension("vectors", new_vectors, space.vectors, "the corpus")
    if layout.mean is not None and layout.axes is not None:
        return project_rows(_extend_units(new_vectors)[:, :-1], layout.mean, layout.axes)
    distinct = _find_distinct(space, layout.rows)
    mapped = layout.points[distinct.first]
    blocks = []
    for block in _extend_units(new_vectors).split(NEIGHBOUR_BLOCK):
        rows, cosine = find_nearest(distinct.matrix, block, min(_N_PLACING, len(distinct)))
        # A vector of the map itself takes its own point, and does not drift towards its neighbours.
        is_mapped = cosine[:, :1] >= 1 - _SAME_TOLERANCE
        blocks.append(np.where(is_mapped, mapped[rows[:, 0]], np.median(mapped[rows], axis=1)))
    return np.concatenate(blocks).astype(np.float32)


def find_positions(layout: Layout, space: Space, rows: Sequence[int]) -> np.ndarray:
    """Return the (m, 2) points on a map of the documents at `rows`; those outside its sample are placed.

    Raises DataError for rows that the corpus lacks, and for a map of other embeddings.
    """
    _check_space(layout, space)
    row_array = np.asarray(rows)
    if not row_array.size:
        return np.empty((0, 2), np.float32)
    if row_array.ndim != 1 or row_array.dtype.kind not in "iu" or row_array.min() < 0 or row_array.max() >= layout.of:
        raise DataError(f"rows must be whole numbers in [0, {layout.of - 1}]; got {rows!r:.80}")
    map_index = np.searchsorted(layout.rows, row_array).clip(max=len(layout) - 1)
    points: np.ndarray = layout.points[map_index]
    if len(absent_index := np.flatnonzero(layout.rows[map_index] != row_array)):
        absent_rows = torch.from_numpy(row_array[absent_index].astype(np.int64))
        points[absent_index] = place(layout, space, space.matrix.on_cpu[absent_rows])
    return points


@without_autocast
def find_neighbours(space: Space, row: int, count: int = 10) -> list[tuple[int, float]]:
    """Find the documents most similar to the one at `row`, as (row, float64 cosine), best first.

    Ties go to the lower row; the document itself is left out. Raises ParamError.
    """
    row = Whole(0, "row", 0, len(space) - 1, name="row", help="A document.").check(row)
    count = min(NEIGHBOUR_COUNT.check(count), len(space) - 1)
    unit_vector, rows = _normalize(space.vectors[row : row + 1]), blocks(space.vectors.shape[1], space.vectors)
    # Sums, not a matrix product, whose last bits depend on a row's place: equal documents must tie.
    cosine = torch.cat([(_normalize(block) * unit_vector).sum(1) for (block,) in rows]).clamp_(-1, 1)
    order = cosine.sort(descending=True, stable=True).indices
    order = order[order != row][:count]
    return list(zip(order.tolist(), cosine[order].tolist(), strict=True))


@without_autocast
def measure_fidelity(layout: Layout, space: Space, k: int = 10) -> float:
    """Measure how well a map keeps neighbours: the share of the k nearest that are also nearest on it.

    The mean over up to 1,000 mapped documents is returned. Equal vectors, which share a point, count once; with only
    one vector the share is 1. Raises ParamError or DataError.
    """
    from scipy.spatial import KDTree

    _check_space(layout, space)
    k = FIDELITY_NEIGHBOURS.check(k)
    distinct = _find_distinct(space, layout.rows)
    k = min(k, len(distinct) - 1)
    if not k:
        return 1.0
    sample = np.sort(np.random.default_rng(0).choice(len(distinct), min(len(distinct), _MAX_JUDGED), replace=False))
    points = layout.points[distinct.first]
    # One more than k is asked for, as every document is among its own nearest.
    _distances, nearest_on_map = KDTree(points).query(points[sample], k=k + 1)
    map_rows = np.asarray(nearest_on_map)
    map_rows = map_rows[mask_others(map_rows, sample)].reshape(-1, k)
    n_common = 0
    for start in range(0, len(sample), NEIGHBOUR_BLOCK):
        block = sample[start : start + NEIGHBOUR_BLOCK]
        true_rows, _products = find_nearest(distinct.matrix, distinct.matrix.vectors[torch.from_numpy(block)], k + 1)
        true_rows = true_rows[mask_others(true_rows, block)].reshape(-1, k)
        for nearest, shown_nearest in zip(true_rows, map_rows[start : start + NEIGHBOUR_BLOCK], strict=True):
            n_common += len(np.intersect1d(nearest, shown_nearest))
    return n_common / (len(sample) * k)


@dataclass(frozen=True)
class LayoutRequest:
    """The checked settings of a map; n_mapped: the documents to lay out, at most all."""

    method: str
    perplexity: float
    seed: int
    n_mapped: int
    n_documents: int
    embeddings: str

    @classmethod
    def check(cls, space: Space, method: str, perplexity: float, seed: int, max_mapped: int) -> "LayoutRequest":
        """Check the arguments of `layout`, and return them as a request; raise ParamError."""
        method, perplexity, seed = LAYOUT_METHOD.check(method), PERPLEXITY.check(perplexity), SEED.check(seed)
        n_mapped, n_documents = min(MAX_MAPPED.check(max_mapped), len(space)), len(space)
        return cls(method, perplexity, seed, n_mapped, n_documents, space.embeddings.digest)

    @property
    def key(self) -> str:
        """Key of the map in the disk cache."""
        perplexity = repr(self.perplexity) if self.method == "tsne" else ""
        return digest_of([_FORMAT, self.embeddings, self.method, perplexity, str(self.seed), str(self.n_mapped)])

    def sample_rows(self) -> np.ndarray:
        """Return the ascending rows of the documents to map: all, or a random sample of n_mapped."""
        if self.n_mapped == self.n_documents:
            return np.arange(self.n_documents)
        sample = np.random.default_rng(self.seed).choice(self.n_documents, self.n_mapped, replace=False)
        return np.sort(sample).astype(np.int64)

    def make_layout(self, rows: np.ndarray, points: np.ndarray, **extra: Any) -> Layout:
        """Build the map that this request asks for, from the (m,) mapped corpus rows and their (m, 2) points.

        extra: fields of a Layout that only one method has, such as the axes of PCA
        """
        # Perplexity is a parameter of t-SNE alone.
        requested_perplexity = self.perplexity if self.method == "tsne" else None
        settings = self.n_documents, self.embeddings, self.method, self.seed, requested_perplexity
        return Layout(points, rows, *settings, **extra)

    def load_cached(self) -> Layout | None:
        """Return the map from the disk cache, or None if it is not there."""
        payload = store.get(MAPS_SECTION, self.key)
        if payload is None:
            return None
        with np.load(io.BytesIO(payload), allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive}
        if "perplexity" in arrays:
            arrays["perplexity"] = float(arrays["perplexity"])
        return self.make_layout(**arrays)

    def load_shipped(self) -> Layout | None:
        """Return the map that came with Frontier for these embeddings and settings, or None."""
        if self.method != "tsne" or (shipped_map := shipped.find_shipped_map(self.key)) is None:
            return None
        points, perplexity = shipped_map
        return self.make_layout(self.sample_rows(), points, perplexity=perplexity)


def _check_space(layout: Layout, space: Space) -> None:
    """Raise DataError if a layout was made from other embeddings than the space's."""
    if layout.embeddings != space.embeddings.digest:
        raise DataError("layout is a map of other embeddings than the space's; make one with engine.layout(space)")


@dataclass(frozen=True, eq=False)
class _DistinctVectors:
    """The distinct directions of a map's documents: documents with equal vectors share a point.

    mapped_rows: (m,) rows of the corpus; matrix: (u, d + 1) directions as unit rows, by `_extend_units`; first: (u,)
    the first mapped document of each direction; vector_ids: (m,) the direction of each document.
    """

    mapped_rows: np.ndarray
    matrix: Matrix
    first: np.ndarray
    vector_ids: np.ndarray

    def __len__(self) -> int:
        return len(self.first)

    @property
    def rows(self) -> Tensor:
        """The distinct directions as unit rows, (u, d); a row of zeros stands for vectors of zeros."""
        return self.matrix.vectors[:, :-1]

    @property
    def weight(self) -> Tensor:
        """The number of documents of each direction, (u,)."""
        return torch.from_numpy(np.bincount(self.vector_ids)).double()


_GROUNDS: WeakKeyDictionary[Space, _DistinctVectors] = WeakKeyDictionary()


def _find_distinct(space: Space, rows: np.ndarray) -> _DistinctVectors:
    """Find the distinct directions among the vectors at `rows`; the last result of each space is cached.

    The cache lets a page place query after query on one map without finding them again. rows: the mapped documents
    """
    distinct = _GROUNDS.get(space)
    if distinct is None or not np.array_equal(distinct.mapped_rows, rows):
        vectors = space.matrix.on_cpu
        directions = _extend_units(vectors if len(rows) == len(vectors) else vectors[torch.from_numpy(rows)])
        # Each vector is numbered by the first one that equals it. `first_rows` has these numbers once; `vector_ids`
        # gives each vector its index in `first_rows`.
        first_rows, vector_ids = np.unique(Matrix(directions).duplicate_of.numpy(), return_inverse=True)
        distinct = _DistinctVectors(rows, Matrix(directions[torch.from_numpy(first_rows)]), first_rows, vector_ids)
        _GROUNDS[space] = distinct
    return distinct


def _normalize(rows: Tensor) -> Tensor:
    """Scale rows to length 1 in float64; zero rows stay zero.

    Each row is divided by its largest entry first, as squares of tiny entries would underflow.
    """
    rows = rows.double()
    rows = rows / rows.abs().amax(1, keepdim=True).clamp_min(torch.finfo(torch.float64).tiny)
    return torch.div(rows, torch.linalg.vector_norm(rows, dim=1, keepdim=True).clamp_min(0.5))


def _extend_units(rows: Tensor) -> Tensor:
    """Scale rows to unit length with one more column, which is 1 for zero rows and 0 for all others.

    Returns (n, d + 1) float32. By the extra column a zero row becomes a direction of its own, at right angles to all
    others.
    """
    unit = rows.new_zeros(len(rows), rows.shape[1] + 1, dtype=torch.float32)
    for block in slices(len(rows), rows.shape[1]):
        # Adding 0.0 removes negative zeros: equal rows must have equal bytes to be found as duplicates.
        unit[block, :-1] = _normalize(rows[block]) + 0.0
    unit[:, -1] = (rows == 0).all(1)
    return unit


def _pca(distinct: _DistinctVectors, request: LayoutRequest, report: Progress) -> dict[str, Any]:
    """Arrange distinct directions on their two principal axes; return the fields of a Layout."""
    report(0, 1, ARRANGING_LABEL)
    mean, axes = find_principal_axes(distinct.rows, distinct.weight)
    report(1, 1, ARRANGING_LABEL)
    return {"points": project_rows(distinct.rows, mean, axes)[distinct.vector_ids], "mean": mean, "axes": axes}


def _tsne(distinct: _DistinctVectors, request: LayoutRequest, report: Progress) -> dict[str, Any]:
    """Arrange distinct directions by t-SNE, starting from principal axes; return the fields of a Layout."""
    perplexity = min(request.perplexity, max(1.0, (len(distinct) - 1) / 3))
    flat = project_rows(distinct.rows, *find_principal_axes(distinct.rows, distinct.weight))
    points = arrange_points(distinct.matrix, flat, perplexity, request.seed, report)
    return {"points": points[distinct.vector_ids], "perplexity": perplexity}
