"""Rows to points of a plane: principal axes, and t-SNE from exact neighbours (van der Maaten & Hinton, JMLR 2008)."""

import itertools
import math
from contextlib import suppress
from typing import Any

import numpy as np
import torch
from torch import Tensor

from engine.candidates import Candidates
from engine.matrix import Matrix, blocks, products
from engine.progress import Progress
from engine.solvers.tie_breaking import rank_exactly

SEARCHING, ARRANGING = "finding neighbours", "arranging the map"
BLOCK = 256
"""So many rows' neighbours are looked for at a time."""

# The neighbourhoods that a map keeps get little better after that (demo, and 10,000 rows in clusters).
SEARCH_STEPS = 6
"""Steps of the arrangement in the time in which one block finds its neighbours; both grow with the corpus."""
_EARLY, _LATE = 125, 375
_EXAGGERATION = 12
_MOMENTUM = 0.8
# From here on interpolation is faster than a tree.
_INTERPOLATE = 3_000
# From here on two eigenvectors come faster by iteration than by a factorisation.
_DENSE = 1_024
_CHUNK = 2_048
_START, _SHAKEN = 1e-4, 1e-6


def principal(rows: Tensor, weight: Tensor) -> tuple[np.ndarray, np.ndarray]:
    """The mean (d,) and the two directions of largest variance (d, 2), float64; a direction that is not there is 0.

    rows: (n, d); weight: (n,) how often each counts.
    """
    weight = weight.unsqueeze(1)
    pairs = list(zip(rows.split(_CHUNK), weight.split(_CHUNK), strict=True))
    mean = torch.stack([(block.double() * w).sum(0) for block, w in pairs]).sum(0) / weight.sum()
    # The smaller of the two Gram matrices has the same eigenvalues.
    wide = rows.shape[1] > rows.shape[0]
    centred = ((block.double() - mean) * w.sqrt() for block, w in pairs)
    if wide:
        whole = torch.cat(list(centred))
        gram = whole @ whole.T
    else:
        gram = mean.new_zeros(len(mean), len(mean))
        for block in centred:
            gram.addmm_(block.T, block)
    value, found = _largest_two(gram.numpy())
    axes = np.zeros((rows.shape[1], 2))
    for to, at in enumerate(reversed(range(len(value)))):
        if value[at] > max(1e-12 * value[-1], torch.finfo(torch.float32).tiny):
            axis = whole.T.numpy() @ found[:, at] if wide else found[:, at]
            # An axis points where its largest entry is positive.
            axes[:, to] = axis / math.copysign(np.linalg.norm(axis), axis[np.abs(axis).argmax()])
    return mean.numpy(), axes


def _largest_two(gram: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The one or two largest eigenvalues of a symmetric matrix, rising, and their vectors as columns."""
    from scipy.linalg import eigh
    from scipy.sparse.linalg import ArpackError, eigsh

    if len(gram) > _DENSE:
        with suppress(ArpackError):
            value, found = eigsh(gram, k=2, v0=np.random.default_rng(0).standard_normal(len(gram)))
            order = value.argsort()
            return value[order], found[:, order]
    return eigh(gram, subset_by_index=[max(0, len(gram) - 2), len(gram) - 1])


def projected(rows: Tensor, mean: np.ndarray, axes: np.ndarray) -> np.ndarray:
    """(n, 2) float32 points of rows (n, d), one by one: the same in every batch."""
    across, middle = torch.tensor(axes.T), torch.tensor(mean)
    centred = (block.double() - middle for (block,) in blocks(rows.shape[1], rows))
    points = torch.cat([torch.stack([(b * axis).sum(1) for axis in across], 1) for b in centred])
    return points.float().numpy()


def nearest(matrix: Matrix, points: Tensor, k: int) -> tuple[np.ndarray, np.ndarray]:
    """(B, k) rows with the largest float64 inner products with points (B, d), equals by row, and these products."""
    found = Candidates(matrix.vectors, products(matrix.vectors, points), points, matrix)
    index, product = rank_exactly(found.relevance, k, found.relevance_error, found.exact_relevance)
    return index.numpy(), product.numpy()


def others(index: np.ndarray, own: np.ndarray) -> np.ndarray:
    """(B, k + 1) which k of k + 1 neighbours are not the row itself; without the last where it is not listed."""
    other: np.ndarray = index != own[:, None]
    other[other.all(1), -1] = False
    return other


def arranged(matrix: Matrix, flat: np.ndarray, perplexity: float, seed: int, tell: Progress) -> np.ndarray:
    """(n, 2) float32 points of different unit rows by t-SNE (openTSNE, one thread), from exact neighbours.

    flat: (n, 2) where it starts, at another scale. tell: after every step; what it raises ends the work.
    """
    n = len(matrix)
    if n == 1:
        return np.zeros((1, 2), np.float32)
    from openTSNE import TSNEEmbedding, tsne
    from openTSNE.affinity import PerplexityBasedNN
    from openTSNE.nearest_neighbors import PrecomputedNeighbors

    searches = math.ceil(n / BLOCK)
    total = searches * SEARCH_STEPS + _EARLY + _LATE
    k = min(n - 1, math.ceil(3 * perplexity))
    index, distance = np.empty((n, k), np.int64), np.empty((n, k))
    for done in range(searches):
        tell(done * SEARCH_STEPS, total, SEARCHING)
        own = np.arange(done * BLOCK, min((done + 1) * BLOCK, n))
        found, cosine = nearest(matrix, matrix.vectors[done * BLOCK : (done + 1) * BLOCK], k + 1)
        kept = others(found, own)
        index[own] = found[kept].reshape(len(own), k)
        distance[own] = np.sqrt(2 * (1 - cosine[kept]).clip(0)).reshape(len(own), k)
    tell(searches * SEARCH_STEPS, total, ARRANGING)

    slope = tsne.kl_divergence_bh if n < _INTERPOLATE else tsne.kl_divergence_fft
    steps = itertools.count(searches * SEARCH_STEPS)

    def step(*args: Any, **settings: Any) -> tuple[float, np.ndarray]:
        tell(min(next(steps), total), total, ARRANGING)
        # The divergence itself, which openTSNE's callbacks would have it work out, costs a quarter more.
        result: tuple[float, np.ndarray] = slope(*args, **{**settings, "should_eval_error": False})
        return result

    affinities = PerplexityBasedNN(knn_index=PrecomputedNeighbors(index, distance), perplexity=perplexity, n_jobs=1)
    # Tiny, as t-SNE likes it, and shaken a little: points on one line would never leave it.
    spread = float(flat[:, 0].std(dtype=np.float64))
    noise = np.random.default_rng(seed).standard_normal(flat.shape) * (_SHAKEN if spread > 0 else _START)
    start = flat * (_START / spread if spread > 0 else 0) + noise
    points = TSNEEmbedding(start, affinities, negative_gradient_method=step, n_jobs=1)
    for iterations, exaggeration in ((_EARLY, _EXAGGERATION), (_LATE, 1)):
        points.optimize(iterations, exaggeration=exaggeration, momentum=_MOMENTUM, inplace=True)
    return np.asarray(points, dtype=np.float32)
