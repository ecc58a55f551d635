"""How often random projections turn pairs round, measured, beside Lemma 1's bound (sparse-dense paper, Fig. 2)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from scipy.special import ndtri, stdtrit

from engine.candidates import exactly
from engine.errors import Cancelled, DataError, ParamError
from engine.params import Choice, Real, Whole
from engine.progress import Progress, Stop
from engine.space import Space
from engine.theory.bounds import DIMENSION, inside, rate, sufficient_dimension
from engine.theory.represented import SEED, Represented, against_best, represented
from engine.theory.words import WEIGHTING
from engine.values import Corpus

PROJECTION = Choice(
    default="rademacher",
    options=("rademacher", "gaussian"),
    symbol="A",
    name="projection",
    help="rademacher: entries ±1/√k; gaussian: normal entries of variance 1/k.",
)
BINS = Whole(default=12, low=1, high=100, symbol="bins", name="bins", help="How many groups of pairs by margin.")
PAIRS = Whole(default=200, low=1, symbol="pairs", name="pairs", help="How many pairs of documents a bin has at most.")
DRAWS = Whole(default=40, low=2, symbol="draws", name="draws", help="How many projections are drawn.")
ACCURACY = Real(
    default=0.95, low=0.5, high=0.9999, symbol="1 − β", name="accuracy", help="Share of pairs to keep in order."
)
DIMENSIONS = tuple(int(k) for k in np.unique(np.geomspace(32, 4096, 40).round().astype(int)))
"""As in the paper, 40 values; 4096 in place of 9472."""


@dataclass(frozen=True, slots=True)
class PairError:
    """One bin at one dimension. error: share of (pair, projection) cases turned round; low, high: its 95 % interval
    over projections; bound: the mean of Lemma 1's over the pairs, of no use from 1 on."""

    bin: int
    k: int
    error: float
    low: float
    high: float
    bound: float


@dataclass(frozen=True, slots=True)
class MarginBin:
    """Pairs of like margin.

    least, most: margins ε, from and to; inverse: mean of (ε²/2 − ε³/3)⁻¹; pairs: how many; dimension: the smallest k
    from which on so many keep their order, None where none does; guaranteed: what the bound asks at the smallest.
    """

    least: float
    most: float
    inverse: float
    pairs: int
    dimension: int | None
    guaranteed: int


@dataclass(frozen=True, slots=True)
class Line:
    """dimension ≈ slope · (ε²/2 − ε³/3)⁻¹ + intercept, least squares over the bins; r2: R²."""

    slope: float
    intercept: float
    r2: float
    bins: int


@dataclass(frozen=True)
class PairErrors:
    """cells: bin by bin, k by k; bins: the margins largest first; line: through the bins whose dimension lies between
    the ends of the k that were tried, None for fewer than three; slope: of the bound, 2 ln(4/β)."""

    cells: tuple[PairError, ...]
    bins: tuple[MarginBin, ...]
    line: Line | None
    slope: float
    draws: int


@exactly
def pair_errors(
    space: Space | Corpus,
    queries: Any,
    vectors: str = WEIGHTING.default,
    *,
    projection: str = PROJECTION.default,
    dimensions: Sequence[int] = DIMENSIONS,
    bins: int = BINS.default,
    pairs: int = PAIRS.default,
    draws: int = DRAWS.default,
    accuracy: float = ACCURACY.default,
    seed: int = SEED.default,
    progress: Progress | None = None,
    stop: Stop | None = None,
) -> PairErrors:
    """How often ⟨Aq, Ad₁⟩ ≤ ⟨Aq, Ad₂⟩, though d₁ is the query's best document and d₂ is not, by margin and dimension.

    space, queries, vectors: as `margins` takes them; dimensions: the k to try; bins: by margin, the first those that
    every k keeps, the others even in the logarithm of (ε²/2 − ε³/3)⁻¹ up to what the largest k can keep; pairs: drawn a
    bin; draws: of A, the same for every k: its first k rows; accuracy: the share that `dimension` is for. Raises
    ParamError, DataError where no pair has an order that the largest k could keep, and Cancelled.
    """
    projection, accuracy, seed = PROJECTION.check(projection), ACCURACY.check(accuracy), SEED.check(seed)
    bins, pairs, draws = BINS.check(bins), PAIRS.check(pairs), DRAWS.check(draws)
    if isinstance(dimensions, int) or len({*dimensions}) < 2:
        raise ParamError(f"dimensions must be a list of two or more whole numbers in [1, ∞); got {dimensions!r}")
    ks = sorted({DIMENSION.check(k) for k in dimensions})
    data = represented(space, queries, vectors)
    rng = np.random.default_rng(seed)
    # A Gaussian product turns round with probability Φ(−ε√k/√(1 + ε²)): a share is kept from about z²/2 · inverse on.
    needed = max(float(ndtri(accuracy)) ** 2 / 2, 0.1)
    edges = np.array([0, *np.geomspace(max(6.001, ks[0] / needed), max(7, 0.9 * ks[-1] / needed), bins)])
    triples = _sampled(data, edges, pairs, rng)
    if not len(triples.margin):
        raise DataError(
            "no query tells two documents apart by a margin that the dimensions can keep; give other queries, or more "
            f"than {ks[-1]} dimensions"
        )
    kinds = np.unique(triples.bin)
    wrong = np.zeros((draws, len(kinds), len(ks)))
    for at, turned in enumerate(_turned(data, triples, ks, projection, draws, rng)):
        if stop is not None and stop.is_set():
            raise Cancelled("the measurement was stopped")
        wrong[at] = [turned[triples.bin == kind].mean(axis=0) for kind in kinds]
        if progress:
            progress(at + 1, draws, "projecting")
    cells, rows = [], []
    for at, kind in enumerate(kinds):
        own = triples.margin[triples.bin == kind]
        error = wrong[:, at].mean(axis=0)
        half = stdtrit(draws - 1, 0.975) * wrong[:, at].std(axis=0, ddof=1) / np.sqrt(draws)
        # No error seen: the interval of as many independent trials.
        high = np.where(error > 0, np.minimum(1, error + half), 1 - 0.05 ** (1 / (draws * len(own))))
        bound = 4 * np.exp(-np.array(ks)[:, None] / 2 * rate(own)).mean(axis=1)
        low = np.maximum(0, error - half)
        cells += [
            PairError(at, *cell)
            for cell in zip(ks, error.tolist(), low.tolist(), high.tolist(), bound.tolist(), strict=True)
        ]
        short = np.flatnonzero(1 - error < accuracy)
        first = 0 if not len(short) else short[-1] + 1
        dimension = ks[first] if first < len(ks) else None
        least, most = float(own.min()), float(own.max())
        inverse = float((1 / rate(own)).mean())
        rows.append(MarginBin(least, most, inverse, len(own), dimension, sufficient_dimension(least, 1 - accuracy)))
    slope = float(2 * np.log(4 / (1 - accuracy)))
    return PairErrors(tuple(cells), tuple(rows), _line(rows, ks[0]), slope, draws)


def kept_from(found: PairErrors, error: float) -> tuple[int | None, ...]:
    """For each bin the smallest k from which on no more than `error` of its pairs turn round, None where none is.

    error: β, in (0, 1). Raises ParamError.
    """
    error, rows = inside("error (β)", error), []
    for at in range(len(found.bins)):
        cells = sorted((c for c in found.cells if c.bin == at), key=lambda c: c.k)
        wrong = [place for place, c in enumerate(cells) if c.error > error]
        first = wrong[-1] + 1 if wrong else 0
        rows.append(cells[first].k if first < len(cells) else None)
    return tuple(rows)


@dataclass(frozen=True, eq=False)
class _Triples:
    """Rows of (query, best document, other document), their margin and the bin that it falls in."""

    query: np.ndarray
    first: np.ndarray
    second: np.ndarray
    margin: np.ndarray
    bin: np.ndarray


def _sampled(data: Represented, edges: np.ndarray, pairs: int, rng: np.random.Generator) -> _Triples:
    """At most so many of each bin's triples, any as likely as another."""
    kept: list[np.ndarray] = []
    for which, best, _, block in against_best(data.documents, data.queries):
        # A query at a time, and of it only what may be kept: a block's pairs are as many as 64 corpora.
        for query, first, row in zip(range(which.start, which.stop), best.tolist(), block, strict=True):
            second = np.flatnonzero(row > 0)
            key = rng.random(len(second))
            kind = np.digitize(1 / rate(row[second]), edges) - 1
            fits = kind < len(edges) - 1
            key, kind, second = key[fits], kind[fits].clip(0), second[fits]
            own = np.full((2, len(second)), [[query], [first]])
            table = np.stack([key, kind, *own, second, row[second]])
            kept = [_lowest(np.concatenate([*kept, table], axis=1), pairs)]
    table = kept[0]
    query, first, second = table[2:5].astype(np.int64)
    return _Triples(query, first, second, table[5], table[1].astype(np.int64))


def _lowest(table: np.ndarray, pairs: int) -> np.ndarray:
    """Of each bin, the columns with the lowest keys: a sample that blocks can be merged into."""
    order = np.lexsort((table[0], table[1]))
    table = table[:, order]
    _, start, count = np.unique(table[1], return_index=True, return_counts=True)
    place = np.arange(table.shape[1]) - np.repeat(start, count)
    return table[:, place < pairs]


def _turned(
    data: Represented, triples: _Triples, ks: list[int], projection: str, draws: int, rng: np.random.Generator
) -> Iterator[np.ndarray]:
    """Draw by draw, (m, len(ks)) whether the first k rows of A turn a triple round."""
    asked, query = np.unique(triples.query, return_inverse=True)
    used, place = np.unique(np.concatenate([triples.first, triples.second]), return_inverse=True)
    first, second = np.split(place, 2)
    queries, documents = (sparse.csr_array(rows) for rows in (data.queries[asked], data.documents[used]))
    both = sparse.vstack([queries, documents], format="csr").astype(np.float32)
    columns = np.unique(both.indices)
    both = sparse.csr_array(
        (both.data, np.searchsorted(columns, both.indices), both.indptr), (both.shape[0], len(columns))
    )
    for _ in range(draws):
        # Scores are left without the factor 1/k, which changes no sign; ±1 and 0/1 then stay whole numbers, exactly.
        score = np.zeros(len(query))
        turned = np.empty((len(query), len(ks)), dtype=bool)
        for at, width in enumerate(np.diff([0, *ks])):
            if projection == "gaussian":
                drawn = rng.standard_normal((len(columns), width), dtype=np.float32)
            else:
                drawn = rng.integers(0, 2, (len(columns), width), dtype=np.int8).astype(np.float32) * 2 - 1
            found = both @ drawn
            shift = found[len(asked) :]
            score += np.einsum("ij,ij->i", found[query], shift[first] - shift[second])
            turned[:, at] = score <= 0
        yield turned


def _line(rows: list[MarginBin], smallest: int) -> Line | None:
    """Least squares through the bins whose dimension was found between the ends."""
    found = [(row.inverse, row.dimension) for row in rows if row.dimension is not None and row.dimension > smallest]
    if len(found) < 3:
        return None
    x, y = np.array(found, dtype=float).T
    slope, intercept = np.polyfit(x, y, 1)
    left, spread = y - slope * x - intercept, y - y.mean()
    if not spread @ spread > 0:
        return None
    return Line(float(slope), float(intercept), float(1 - left @ left / (spread @ spread)), len(found))
