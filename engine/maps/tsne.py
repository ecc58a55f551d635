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

SEARCHING_LABEL, ARRANGING_LABEL = "finding neighbours", "arranging the map"
NEIGHBOUR_BLOCK = 256
"""So many rows' neighbours are looked for at a time."""

# The neighbourhoods that a map keeps get little better after that (demo, and 10,000 rows in clusters).
SEARCH_STEPS = 6
"""Steps of the arrangement in the time in which one block finds its neighbours; both grow with the corpus."""
_EARLY_STEPS, _LATE_STEPS = 125, 375
_EXAGGERATION = 12
_MOMENTUM = 0.8
# From here on interpolation is faster than a tree.
_MIN_FFT_POINTS = 3_000
# From here on two eigenvectors come faster by iteration than by a factorisation.
_MAX_DENSE_SIZE = 1_024
_CHUNK_ROWS = 2_048
_START_SCALE, _NOISE_SCALE = 1e-4, 1e-6


def find_principal_axes(rows: Tensor, weight: Tensor) -> tuple[np.ndarray, np.ndarray]:
    """Compute the mean (d,) of rows and their two directions of largest variance (d, 2), in float64.

    rows: (n, d); weight: (n,) how often each counts. A direction without variance is 0.
    """
    weight = weight.unsqueeze(1)
    blocks = list(zip(rows.split(_CHUNK_ROWS), weight.split(_CHUNK_ROWS), strict=True))
    mean = torch.stack([(block.double() * block_weight).sum(0) for block, block_weight in blocks]).sum(0) / weight.sum()
    # The smaller of the two Gram matrices has the same eigenvalues.
    is_wide = rows.shape[1] > rows.shape[0]
    centred = ((block.double() - mean) * block_weight.sqrt() for block, block_weight in blocks)
    if is_wide:
        centred_rows = torch.cat(list(centred))
        gram = centred_rows @ centred_rows.T
    else:
        gram = mean.new_zeros(len(mean), len(mean))
        for block in centred:
            gram.addmm_(block.T, block)
    eigenvalues, eigenvectors = _largest_two(gram.numpy())
    axes = np.zeros((rows.shape[1], 2))
    for column, position in enumerate(reversed(range(len(eigenvalues)))):
        if eigenvalues[position] > max(1e-12 * eigenvalues[-1], torch.finfo(torch.float32).tiny):
            axis = centred_rows.T.numpy() @ eigenvectors[:, position] if is_wide else eigenvectors[:, position]
            # An axis points where its largest entry is positive.
            axes[:, column] = axis / math.copysign(np.linalg.norm(axis), axis[np.abs(axis).argmax()])
    return mean.numpy(), axes


def _largest_two(gram: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Compute a symmetric matrix's two largest eigenvalues, rising, and their eigenvectors as columns.

    One of each for a matrix of size 1.
    """
    from scipy.linalg import eigh
    from scipy.sparse.linalg import ArpackError, eigsh

    if len(gram) > _MAX_DENSE_SIZE:
        # If the iteration does not converge, the factorisation below does the work.
        with suppress(ArpackError):
            eigenvalues, eigenvectors = eigsh(gram, k=2, v0=np.random.default_rng(0).standard_normal(len(gram)))
            order = eigenvalues.argsort()
            return eigenvalues[order], eigenvectors[:, order]
    return eigh(gram, subset_by_index=[max(0, len(gram) - 2), len(gram) - 1])


def project_rows(rows: Tensor, mean: np.ndarray, axes: np.ndarray) -> np.ndarray:
    """Project rows (n, d) onto two axes, (n, 2) float32, each row with the same result in any batch."""
    directions, centre = torch.tensor(axes.T), torch.tensor(mean)
    centred = (block.double() - centre for (block,) in blocks(rows.shape[1], rows))
    points = torch.cat([torch.stack([(b * axis).sum(1) for axis in directions], 1) for b in centred])
    return points.float().numpy()


def find_nearest(matrix: Matrix, points: Tensor, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Find the k rows of a matrix with the largest inner products with each of some points, (B, d).

    Return rows and float64 products, (B, k), best first; ties go to the lower row.
    """
    candidates = Candidates(matrix.vectors, products(matrix.vectors, points), points, matrix)
    index, product = rank_exactly(candidates.relevance, k, candidates.relevance_error, candidates.exact_relevance)
    return index.numpy(), product.numpy()


def mask_others(index: np.ndarray, own_rows: np.ndarray) -> np.ndarray:
    """Mark among each row's k + 1 nearest neighbours the k that are not itself, as a (B, k + 1) mask.

    Where the row is not among them (equal rows may take its place), the last neighbour is left out. index: (B, k + 1)
    neighbours; own_rows: (B,)
    """
    is_other: np.ndarray = index != own_rows[:, None]
    is_other[is_other.all(1), -1] = False
    return is_other


def arrange_points(matrix: Matrix, flat: np.ndarray, perplexity: float, seed: int, report: Progress) -> np.ndarray:
    """Arrange distinct unit rows on a plane by t-SNE, neighbours close together; return (n, 2) float32.

    Neighbours are exact, the work is in one thread (openTSNE). flat: (n, 2) points to start from, at any scale; report:
    called after every step; an exception that it raises ends the work.
    """
    n_points = len(matrix)
    if n_points == 1:
        return np.zeros((1, 2), np.float32)
    from openTSNE import TSNEEmbedding, tsne
    from openTSNE.affinity import PerplexityBasedNN
    from openTSNE.nearest_neighbors import PrecomputedNeighbors

    n_searches = math.ceil(n_points / NEIGHBOUR_BLOCK)
    n_total = n_searches * SEARCH_STEPS + _EARLY_STEPS + _LATE_STEPS
    k = min(n_points - 1, math.ceil(3 * perplexity))
    neighbour_rows, distance = np.empty((n_points, k), np.int64), np.empty((n_points, k))
    for block_index in range(n_searches):
        report(block_index * SEARCH_STEPS, n_total, SEARCHING_LABEL)
        own_rows = np.arange(block_index * NEIGHBOUR_BLOCK, min((block_index + 1) * NEIGHBOUR_BLOCK, n_points))
        nearest_rows, cosine = find_nearest(matrix, matrix.vectors[own_rows[0] : own_rows[-1] + 1], k + 1)
        is_other = mask_others(nearest_rows, own_rows)
        neighbour_rows[own_rows] = nearest_rows[is_other].reshape(len(own_rows), k)
        distance[own_rows] = np.sqrt(2 * (1 - cosine[is_other]).clip(0)).reshape(len(own_rows), k)
    report(n_searches * SEARCH_STEPS, n_total, ARRANGING_LABEL)

    compute_gradient = tsne.kl_divergence_bh if n_points < _MIN_FFT_POINTS else tsne.kl_divergence_fft
    step_counter = itertools.count(n_searches * SEARCH_STEPS)

    def count_gradient(*args: Any, **settings: Any) -> tuple[float, np.ndarray]:
        """Compute t-SNE's gradient and report one more step; openTSNE calls it at every step."""
        report(min(next(step_counter), n_total), n_total, ARRANGING_LABEL)
        # The divergence itself, which openTSNE's callbacks would have it work out, costs a quarter more.
        result: tuple[float, np.ndarray] = compute_gradient(*args, **{**settings, "should_eval_error": False})
        return result

    neighbours = PrecomputedNeighbors(neighbour_rows, distance)
    affinities = PerplexityBasedNN(knn_index=neighbours, perplexity=perplexity, n_jobs=1)
    # The start is scaled to be tiny, as t-SNE needs it, and gets some noise: points on one line would never leave it.
    spread = float(flat[:, 0].std(dtype=np.float64))
    noise = np.random.default_rng(seed).standard_normal(flat.shape) * (_NOISE_SCALE if spread > 0 else _START_SCALE)
    start = flat * (_START_SCALE / spread if spread > 0 else 0) + noise
    points = TSNEEmbedding(start, affinities, negative_gradient_method=count_gradient, n_jobs=1)
    for iterations, exaggeration in ((_EARLY_STEPS, _EXAGGERATION), (_LATE_STEPS, 1)):
        points.optimize(iterations, exaggeration=exaggeration, momentum=_MOMENTUM, inplace=True)
    return np.asarray(points, dtype=np.float32)
