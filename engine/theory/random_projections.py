"""Pair errors of random projections, measured, beside Lemma 1's bound (sparse-dense paper, Fig. 2)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from scipy.special import ndtri, stdtrit

from engine.candidates import without_autocast
from engine.display import OneLine
from engine.errors import DataError, ParamError
from engine.params import Choice, Real, Whole
from engine.progress import Progress, Stop, counted, with_cancellation
from engine.space import Space
from engine.theory import projection_bounds
from engine.theory.projection_bounds import compute_rate, find_stable_dimension
from engine.theory.text_vectors import SEED, WEIGHTING, TextVectors, iterate_best_margins, text_vectors
from engine.values import Corpus

PROJECTION = Choice(
    default="rademacher", options=("rademacher", "gaussian"), symbol="A", name="projection",
    help="rademacher: entries ±1/√k; gaussian: normal entries of variance 1/k.",
)  # fmt: skip
MARGIN_BINS = Whole(12, "bins", 1, 100, name="bins", help="How many groups of pairs by margin.")
N_PAIRS = Whole(200, "pairs", 1, name="pairs", help="How many pairs of documents a bin has at most.")
N_DRAWS = Whole(40, "draws", 2, name="draws", help="How many projections are drawn.")
ACCURACY = Real(0.95, "1 − β", 0.5, 0.9999, name="accuracy", help="Share of pairs to keep in order.")
# As in the paper, 40 values evenly spaced on a logarithmic axis; 4096 in place of 9472.
DIMENSIONS: tuple[int, ...] = tuple(np.unique(np.geomspace(32, 4096, 40).round().astype(int)).tolist())


@dataclass(frozen=True, slots=True)
class PairError(OneLine):
    """One bin of pairs at one dimension."""

    bin: int  # its position among the bins
    k: int  # the dimension
    error: float  # share of (pair, projection) cases whose order is reversed
    low: float  # low, high: its 95% interval over projections
    high: float
    bound: float  # mean over the pairs of Lemma 1's bound; vacuous from 1 on


@dataclass(frozen=True, slots=True)
class MarginBin(OneLine):
    """Pairs of like margin."""

    least: float  # least, most: range of the margins ε
    most: float
    inverse: float  # mean of (ε²/2 − ε³/3)⁻¹
    pairs: int  # their number
    dimension: int | None  # the smallest k from which on `accuracy` of the pairs keep their order, None if no k does
    guaranteed: int  # the dimension that the bound requires at the smallest margin


@dataclass(frozen=True, slots=True)
class ErrorLine(OneLine):
    """dimension ≈ slope · (ε²/2 − ε³/3)⁻¹ + intercept: least squares over the bins."""

    slope: float
    intercept: float
    r2: float  # coefficient of determination R²
    bins: int  # number of bins


@dataclass(frozen=True)
class PairErrors(OneLine):
    """Measured pair errors."""

    cells: tuple[PairError, ...]  # bin by bin, k by k
    bins: tuple[MarginBin, ...]  # the largest margins first
    line: ErrorLine | None  # through bins whose dimension is between the smallest and largest k; None for fewer than 3
    slope: float  # of the bound, 2 ln(4/β)
    draws: int  # number of projections


@without_autocast
def pair_errors(
    space: Space | Corpus,
    queries: Any,
    vectors: str = WEIGHTING.default,
    *,
    projection: str = PROJECTION.default,
    dimensions: Sequence[int] = DIMENSIONS,
    bins: int = MARGIN_BINS.default,
    pairs: int = N_PAIRS.default,
    draws: int = N_DRAWS.default,
    accuracy: float = ACCURACY.default,
    seed: int = SEED.default,
    progress: Progress | None = None,
    stop: Stop | None = None,
) -> PairErrors:
    """Measure the share of pairs that random projections reverse, by margin and dimension.

    A pair is reversed if ⟨Aq, Ad₁⟩ ≤ ⟨Aq, Ad₂⟩, where d₁ is the query's best document and d₂ another.

    Parameters
    ----------
    space : Space or Corpus
        As in `margins`.
    queries : object
        As in `margins`.
    vectors : str
        As in `margins`.
    projection : str
        "rademacher" or "gaussian".
    dimensions : sequence of int
        The dimensions k to try.
    bins : int
        The number of bins by margin: the first has the pairs that every k keeps in order, the others are even in
        the logarithm of (ε²/2 − ε³/3)⁻¹ up to the reach of the largest k.
    pairs : int
        The number of pairs drawn per bin.
    draws : int
        The number of projections A, whose first k rows serve every k.
    accuracy : float
        The share of pairs in order that `dimension` is for.
    seed : int
        The seed of the random numbers.
    progress : callable or None
        Called repeatedly as progress(done, total, label).
    stop : callable or None
        The work is cancelled once it returns true.

    Returns
    -------
    PairErrors
        The shares by bin and dimension.

    Raises
    ------
    ParamError
        If an argument is invalid.
    DataError
        If no pair has an order that the largest k could keep.
    Cancelled
        If it is stopped.

    Examples
    --------
    >>> errors = engine.pair_errors(corpus, ["red apple"])  # doctest: +SKIP
    """
    projection, accuracy, seed = PROJECTION.check(projection), ACCURACY.check(accuracy), SEED.check(seed)
    bins, pairs, draws = MARGIN_BINS.check(bins), N_PAIRS.check(pairs), N_DRAWS.check(draws)
    if isinstance(dimensions, int) or len({*dimensions}) < 2:
        raise ParamError(f"dimensions must be a list of two or more whole numbers in [1, ∞); got {dimensions!r}")
    ks = sorted(set(map(projection_bounds.PROJECTION_DIMENSION.check, dimensions)))
    data = text_vectors(space, queries, vectors)
    rng = np.random.default_rng(seed)
    # A Gaussian product is reversed with probability Φ(−ε√k/√(1 + ε²)): with z = Φ⁻¹(accuracy), that share of pairs is
    # kept from about k = z²/2 · (ε²/2 − ε³/3)⁻¹ on.
    factor = max(float(ndtri(accuracy)) ** 2 / 2, 0.1)
    # The inverse is 6 at margin 1, its least value; a bin at nine tenths of the reach can still be measured.
    bin_edges = np.array([0, *np.geomspace(max(6.001, ks[0] / factor), max(7, 0.9 * ks[-1] / factor), bins)])
    triples = _sample_pairs(data, bin_edges, pairs, rng)
    if not len(triples.margin):
        raise DataError(
            "no query tells two documents apart by a margin that the dimensions can keep; give other queries, or more "
            f"than {counted(ks[-1], 'dimension')}"
        )
    bin_labels = np.unique(triples.bin)
    n_wrong, report = np.zeros((draws, len(bin_labels), len(ks))), with_cancellation(progress, stop)
    for draw, is_reversed in enumerate(_count_reversed(data, triples, ks, projection, draws, rng)):
        n_wrong[draw] = [is_reversed[triples.bin == bin_label].mean(axis=0) for bin_label in bin_labels]
        report(draw + 1, draws, "projecting")
    cells, margin_bins = [], []
    for index, bin_label in enumerate(bin_labels):
        bin_cells, margin_bin = _bin_errors(
            index, triples.margin[triples.bin == bin_label], n_wrong[:, index], ks, accuracy
        )
        cells += bin_cells
        margin_bins.append(margin_bin)
    # Eq. 2 is linear in (ε²/2 − ε³/3)⁻¹, with this slope and no intercept: the line to compare the fitted one with.
    slope = float(2 * np.log(4 / (1 - accuracy)))
    return PairErrors(tuple(cells), tuple(margin_bins), _fit_line(margin_bins, ks[0]), slope, draws)


def _bin_errors(
    index: int, margins: np.ndarray, n_wrong: np.ndarray, ks: list[int], accuracy: float
) -> tuple[list[PairError], MarginBin]:
    """Return the errors of one bin of pairs, one for each dimension, and the bin's summary.

    A bin holds pairs of documents with similar margins ⟨q, d₁ − d₂⟩ / (|q||d₁ − d₂|). The error is the share of pairs
    whose order a random projection reverses. index: of the bin; margins: of its pairs; ks: dimensions projected to;
    n_wrong: share of the pairs that each projection reverses, (draws, len(ks)); accuracy: the share of pairs whose
    order must be kept at the dimension that the summary names
    """
    draws, error = len(n_wrong), n_wrong.mean(axis=0)
    # All pairs of a bin share a projection, so the projections are the independent trials: Student's t over draws.
    half_width = stdtrit(draws - 1, 0.975) * n_wrong.std(axis=0, ddof=1) / np.sqrt(draws)
    # No error in the sample: the upper limit, at 95 %, of as many independent trials without one.
    limit_without_error = 1 - 0.05 ** (1 / (draws * len(margins)))
    high_error = np.where(error > 0, np.minimum(1, error + half_width), limit_without_error)
    # The bound on the error of a pair by Lemma 1 of the sparse-dense paper, averaged over the pairs.
    bound = 4 * np.exp(-np.array(ks)[:, None] / 2 * compute_rate(margins)).mean(axis=1)
    columns = (column.tolist() for column in (error, np.maximum(0, error - half_width), high_error, bound))
    cells = [PairError(index, *cell) for cell in zip(ks, *columns, strict=True)]
    min_margin, max_margin = float(margins.min()), float(margins.max())
    return cells, MarginBin(
        least=min_margin, most=max_margin, inverse=float((1 / compute_rate(margins)).mean()), pairs=len(margins),
        dimension=find_stable_dimension(ks, 1 - error >= accuracy),
        guaranteed=projection_bounds.sufficient_dimension(min_margin, 1 - accuracy),
    )  # fmt: skip


def find_kept_dimensions(errors: PairErrors, error: float) -> tuple[int | None, ...]:
    """Find the smallest dimension of each bin from which on at most a share of its pairs is reversed.

    error: β, that share, in (0, 1). None for a bin where no dimension is enough. Raises ParamError.
    """
    error, dimensions = projection_bounds.check_open_unit("error (β)", error), []
    for index in range(len(errors.bins)):
        is_kept = {cell.k: cell.error <= error for cell in errors.cells if cell.bin == index}
        ks = sorted(is_kept)
        dimensions.append(find_stable_dimension(ks, list(map(is_kept.__getitem__, ks))))
    return tuple(dimensions)


@dataclass(frozen=True, eq=False)
class _Triples:
    """Pairs of documents to test, as columns: query, its best document, another, their margin and bin."""

    query: np.ndarray
    first: np.ndarray
    second: np.ndarray
    margin: np.ndarray
    bin: np.ndarray


def _sample_pairs(data: TextVectors, bin_edges: np.ndarray, pairs: int, rng: np.random.Generator) -> _Triples:
    """Draw at most `pairs` triples (query, best document, other) for each bin of margins ε, uniformly.

    A margin is the lead in score of the best document over the other, ⟨q, d₁ − d₂⟩ / (|q||d₁ − d₂|). bin_edges:
    ascending values of 1/(ε²/2 − ε³/3), to which the dimension that keeps the two in order is proportional
    """
    # Rows: random key, bin, query, best document, other document, margin; a column for each triple.
    table = np.empty((6, 0))
    for block_slice, best_rows, _scores, margin_block in iterate_best_margins(data.documents, data.queries):
        # A query at a time, and only its possible samples: a block of 64 queries has 64 pairs for each document.
        for query, (best, margins) in enumerate(zip(best_rows.tolist(), margin_block, strict=True), block_slice.start):
            # Documents that the best one leads: without a lead there is no order to keep.
            rivals = np.flatnonzero(margins > 0)
            # The pairs with the lowest random keys of a bin are a uniform sample, and samples of samples stay one.
            pair_key = rng.random(len(rivals))
            bin_label = np.digitize(1 / compute_rate(margins[rivals]), bin_edges) - 1
            # Beyond the last edge are margins too small for the dimensions tried.
            is_fitting = bin_label < len(bin_edges) - 1
            rivals = rivals[is_fitting]
            columns = (pair_key[is_fitting], bin_label[is_fitting].clip(0), query, best, rivals, margins[rivals])
            table = _take_lowest(np.concatenate([table, np.stack(np.broadcast_arrays(*columns))], axis=1), pairs)
    query_rows, first_rows, second_rows = table[2:5].astype(np.int64)
    return _Triples(query_rows, first_rows, second_rows, margin=table[5], bin=table[1].astype(np.int64))


def _take_lowest(table: np.ndarray, pairs: int) -> np.ndarray:
    """Keep in each bin the `pairs` columns with the lowest random keys, which are a uniform sample.

    table: (6, m) with the random key in row 0 and the bin in row 1
    """
    pair_order = np.lexsort((table[0], table[1]))
    table = table[:, pair_order]
    _bins, bin_start, n_bin = np.unique(table[1], return_index=True, return_counts=True)
    positions = np.arange(table.shape[1]) - np.repeat(bin_start, n_bin)
    return table[:, positions < pairs]


def _count_reversed(
    data: TextVectors, triples: _Triples, ks: list[int], projection: str, draws: int, rng: np.random.Generator
) -> Iterator[np.ndarray]:
    """Yield for each random projection an (m, len(ks)) mask: True if its first k rows reverse a triple.

    Reversed: the query's best document no longer scores above the other one. triples: (query, best document, other
    document) and more; draws: number of projections
    """
    # Each query and document is projected once, however many triples it is in; positions lead from triples to them.
    query_rows, query = np.unique(triples.query, return_inverse=True)
    document_rows, positions = np.unique(np.concatenate([triples.first, triples.second]), return_inverse=True)
    first, second = np.split(positions, 2)
    matrices = map(sparse.csr_array, (data.queries[query_rows], data.documents[document_rows]))
    used_rows = sparse.vstack(list(matrices), format="csr").astype(np.float32)
    # A column without an entry in these rows adds nothing to a product, and needs no random numbers.
    used_rows = used_rows[:, np.unique(used_rows.indices)]
    for _draw in range(draws):
        # Scores lack the factor 1/k, which changes no sign; ±1 and 0/1 then stay exact integers.
        score_gaps = np.zeros(len(query))
        is_reversed = np.empty((len(query), len(ks)), dtype=bool)
        # From one dimension to the next only the further rows of the projection are drawn and multiplied.
        for column, width in enumerate(np.diff([0, *ks])):
            projected = used_rows @ random_entries(rng, (used_rows.shape[1], int(width)), projection)
            documents = projected[len(query_rows) :]
            score_gaps += np.einsum("ij,ij->i", projected[query], documents[first] - documents[second])
            # A tie counts as reversed: after the projection the best document is no longer first by its score.
            is_reversed[:, column] = score_gaps <= 0
        yield is_reversed


def random_entries(rng: np.random.Generator, shape: tuple[int, int], projection: str) -> np.ndarray:
    """Draw the float32 entries of a random projection, without its factor 1/√k: normal, or ±1 evenly."""
    if projection == "gaussian":
        return rng.standard_normal(shape, dtype=np.float32)
    return rng.integers(0, 2, shape, dtype=np.int8).astype(np.float32) * 2 - 1


def _fit_line(margin_bins: list[MarginBin], min_dimension: int) -> ErrorLine | None:
    """Fit a line to the dimensions that bins of document pairs need, over x = (ε²/2 − ε³/3)⁻¹.

    A bin needs the dimension at which a random projection keeps the order of its pairs. ε is the margin of a pair, ⟨q,
    d₁ − d₂⟩ / (|q||d₁ − d₂|). Bins whose dimension is the smallest one tried, or is not known, are left out. Without
    three bins, or if all need the same dimension, None is returned.
    """
    # A bin at the smallest k, or that no k keeps, bounds its dimension from one side only.
    points = [(row.inverse, row.dimension) for row in margin_bins if (row.dimension or 0) > min_dimension]
    if len(points) < 3:
        return None
    x, y = np.array(points, dtype=float).T
    slope, intercept = np.polyfit(x, y, 1)
    residual, spread = y - slope * x - intercept, y - y.mean()
    if not spread @ spread > 0:
        return None
    r2 = 1 - residual @ residual / (spread @ spread)
    return ErrorLine(float(slope), float(intercept), float(r2), len(points))
