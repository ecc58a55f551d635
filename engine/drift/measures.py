"""Drift measures: movement from the start, change of answers and neighbourhoods, warning signs.

Rankings by inner product do not change when every row moves by the same vector, so that movement, answers, hubs and
neighbourhoods are all measured such that a common shift leaves them alone. How large drift is says nothing about how
good it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np
import torch

from engine.decoder import select
from engine.display import DataFrame, Tabular, build_rows_table
from engine.errors import DataError, ParamError
from engine.feedback.temperature import softmax
from engine.params import Real
from engine.progress import counted
from engine.values import Embeddings, real_tensor

DEPTH = 10
"""Answers and neighbourhoods are compared over so many documents."""
MAX_MOVERS = 10
MAX_WATCHED_ROWS = 500
"""Documents whose neighbourhoods are followed; of a larger corpus, a seeded sample."""
HUB_ALARM = 0.03
AMBER_LENGTH, RED_LENGTH = 1.0, 2.0
LENGTH_TOLERANCE = 1e-5
"""Unit rows in float32 are this close to length 1."""
PERSISTENCE = 0.9
SMOOTHING_WEIGHT = 0.99
TEMPERATURE = Real(
    default=1.0, low=1e-6, high=1e6, comfortable=(0.01, 1.0), scale="log", symbol="τ", name="temperature",
    help="Scores are divided by it before the softmax.",
)  # fmt: skip


class Measure(NamedTuple):
    """A drift measure as data.

    title: as charts write it.
    meaning: in plain words.
    better: the direction that is good news, "" for neither.
    kind: measures of one kind are of one unit and have one axis, "" for a measure on its own.
    """

    name: str
    title: str
    meaning: str
    better: Literal["", "up", "down"] = ""
    kind: Literal["", "distance", "changed share", "right share"] = ""


MEASURES: dict[str, Measure] = {
    m.name: m
    for m in (
        Measure(
            "median",
            "Movement, median",
            "Half of the documents moved at least this far, a shift common to all left out.",
            kind="distance",
        ),
        Measure("q99", "Movement, 99%", "One document in a hundred moved at least this far.", kind="distance"),
        Measure(
            "shift", "Common shift", "How far all documents moved together. It changes no ranking.", kind="distance"
        ),
        Measure(
            "churn",
            "Results replaced",
            f"Share of a probe query's first {DEPTH} results that were replaced.",
            kind="changed share",
        ),
        Measure(
            "rbo",
            "Order kept (RBO)",
            f"How alike the rankings then and now are, the first places counting most (p = {PERSISTENCE:g}); "
            "1 = the same order.",
        ),
        Measure(
            "confidence",
            "Confidence",
            "Probability that a document drawn for a probe query is judged relevant.",
            "up",
            kind="right share",
        ),
        Measure(
            "success",
            "Good votes",
            "Share of recent votes that were good; the last hundred count most.",
            "up",
            kind="right share",
        ),
        Measure(
            "hubs",
            "Hubs: uneven results",
            f"Gini coefficient of how often documents are among the first {DEPTH} results: 0 = all alike, 1 = a few in "
            f"every result. A rise of {HUB_ALARM:g} is an alarm.",
            "down",
        ),
        Measure(
            "neighbourhood",
            "Neighbourhood change",
            f"How much of a document's {DEPTH} nearest neighbours changed: 0 = nothing, 1 = everything.",
            kind="changed share",
        ),
        Measure(
            "longest",
            "Longest vector",
            f"Length of the longest document vector. Above {AMBER_LENGTH:g} some documents win by length alone; above "
            f"{RED_LENGTH:g} they dominate.",
            "down",
        ),
    )
}


class Mover(NamedTuple):
    """A document that moved: its row, and how far beyond the common shift."""

    row: int
    distance: float


@dataclass(frozen=True, kw_only=True)
class Drift(Tabular):
    """Drift at a step, against the start; the measures of MEASURES, None where they cannot be computed.

    step: number of events so far.
    start: the hubs at the start.
    movers: the documents that moved most, farthest first.
    ball: whether rows are kept in the unit ball.
    reordered: number of probe queries with the same first results in another order; None without probe queries.
    """

    step: int
    median: float
    q99: float
    shift: float
    churn: float | None
    rbo: float | None
    confidence: float | None
    success: float | None
    hubs: float | None
    neighbourhood: float
    longest: float
    start: float | None
    movers: tuple[Mover, ...]
    ball: bool
    reordered: int | None = None

    def _describe(self) -> str:
        figures = ", ".join(f"{name} {value:.3g}" for name, value in self.figures.items() if value is not None)
        return f"step {self.step}, {figures}"

    def to_frame(self) -> DataFrame:
        """Return one row; `engine.to_frame` puts the moments of a history together.

        Columns: step, one column for each measure of `figures`, longest, alarm and light.
        """
        row = {"step": self.step, **self.figures, "longest": self.longest, "alarm": self.alarm, "light": self.light}
        return build_rows_table([row], numbers=tuple(self.figures))

    @property
    def figures(self) -> dict[str, float | None]:
        """Measure → value, in the order of MEASURES."""
        return {name: getattr(self, name) for name in MEASURES}

    @property
    def alarm(self) -> bool:
        """True if a few documents crowd the answers of many queries more than at the start.

        `hubs` is the Gini coefficient of how often documents are among the first answers; a rise by 0.03 is an alarm.
        """
        return self.hubs is not None and self.start is not None and self.hubs - self.start >= HUB_ALARM

    @property
    def light(self) -> Literal["green", "amber", "red"]:
        """Return a warning colour by the length of the longest document vector: red above 2, amber above 1.

        Documents that win by length alone are the danger. Where a preset keeps vectors in the unit ball, none is amber.
        """
        if self.longest > RED_LENGTH + LENGTH_TOLERANCE:
            return "red"
        return "amber" if not self.ball and self.longest > AMBER_LENGTH + LENGTH_TOLERANCE else "green"

    def as_json(self) -> dict[str, Any]:
        """Return plain JSON values; `from_json` reads them back exactly."""
        return vars(self) | {"movers": list(map(list, self.movers))}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Drift:
        """Return the Drift that `as_json` made values of."""
        movers = tuple(Mover(int(row), float(distance)) for row, distance in values["movers"])
        return cls(**{**values, "movers": movers})


@dataclass(frozen=True, eq=False)
class DriftBaseline:
    """The documents' vectors that drift is measured against, with what depends on them alone."""

    vectors: np.ndarray  # (n, d) float64 Θ₁
    probes: torch.Tensor | None  # (P, d) float64 queries whose answers are followed, or None
    right: tuple[np.ndarray, ...] | None  # per probe the rows judged right, or None
    temperature: float  # τ of the session
    watched: np.ndarray  # rows whose neighbourhoods are followed

    @cached_property
    def answers(self) -> np.ndarray:
        """(P, 10) the first results of each probe query at the start."""
        assert self.probes is not None
        return answers(self.vectors, self.probes)

    @cached_property
    def hubs(self) -> float:
        """Gini coefficient at the start of how often documents are among the first results."""
        return compute_gini(count_answers(self.answers, len(self.vectors)))

    @cached_property
    def near(self) -> np.ndarray:
        """(w, 10) rows of the nearest neighbours of the w watched documents, before feedback.

        Watched documents are a sample whose neighbours are compared with those at later steps.
        """
        return find_nearest_rows(self.vectors, self.watched)


def origin(
    vectors: Any,
    probes: Embeddings | Any = None,
    *,
    right: Sequence[Sequence[int] | np.ndarray] | None = None,
    temperature: float = 1.0,
    seed: int = 0,
) -> DriftBaseline:
    """Build the baseline that drift is measured against, from the embeddings at the start.

    vectors: (n, d) document vectors before feedback; probes: (P, d) queries whose answers are followed; right: for each
    probe the rows judged right, for the measure of confidence; temperature: of the softmax by which documents are
    drawn; seed: of the sample of documents whose neighbours are followed. Raises DataError or ParamError.
    """
    rows = _read_rows(vectors)
    points = None
    if probes is not None:
        points = probes.vectors if isinstance(probes, Embeddings) else real_tensor(probes, "probes")
        points = points.detach().cpu().double()
        if points.ndim != 2 or points.shape[1] != rows.shape[1] or not len(points):
            raise DataError(
                f"probes must be (P, {rows.shape[1]}), at least one; got shape {tuple(points.shape)}, and the vectors "
                f"have {counted(rows.shape[1], 'dimension')}"
            )
    right_rows: tuple[np.ndarray, ...] | None = None
    if right is not None:
        n_probes = 0 if points is None else len(points)
        if not n_probes or len(right) != n_probes:
            raise DataError(f"right must have one list of rows for each probe; got {len(right)} for {n_probes} probes")
        right_rows = tuple(np.unique(np.asarray(probe_rows, dtype=np.int64)) for probe_rows in right)
        if any(len(probe_rows) and (probe_rows[0] < 0 or probe_rows[-1] >= len(rows)) for probe_rows in right_rows):
            raise DataError(f"right must hold rows in [0, {len(rows) - 1}]")
    watched_rows = sampled_rows(len(rows), MAX_WATCHED_ROWS, seed)
    return DriftBaseline(rows, points, right_rows, TEMPERATURE.check(temperature), watched_rows)


def sampled_rows(n_rows: int, max_rows: int | None, seed: int | Sequence[int]) -> np.ndarray:
    """Return all rows below `n_rows`, or a seeded sample of at most `max_rows`, ascending."""
    if max_rows is None or n_rows <= max_rows:
        return np.arange(n_rows)
    return np.sort(np.random.default_rng(seed).choice(n_rows, max_rows, replace=False))


def drift(
    start: DriftBaseline, vectors: Any, step: int = 0, *, success: float | None = None, ball: bool = True
) -> Drift:
    """Measure how far embeddings have drifted from their start, and what that did to answers.

    start: the first embeddings with the answers to some probe queries; vectors: (n, d) current embeddings of the same
    documents; step: how many events led there; success: share of recent feedback that was good; ball: True if vectors
    are kept in the unit ball. Returns distances, changes of neighbours and, with probe queries, of answers. Raises
    ParamError for an invalid step, DataError for vectors of another shape.
    """
    rows = _read_rows(vectors)
    if rows.shape != start.vectors.shape:
        raise DataError(f"vectors must be the rows of the start, {start.vectors.shape}; got {rows.shape}")
    if isinstance(step, bool) or not isinstance(step, int) or step < 0:
        raise ParamError(f"step must be a whole number in [0, ∞); got {step!r}")
    distances, common_shift = measure_movement(start.vectors, rows)
    # Equal distances are listed by row, so that the movers do not depend on the sort.
    mover_rows = np.lexsort((np.arange(len(distances)), -distances))[:MAX_MOVERS]
    probe_measures: dict[str, Any] = dict.fromkeys(("churn", "rbo", "confidence", "hubs", "reordered"))
    # Without probe queries there are no answers, and so none of the measures of them.
    if start.probes is not None:
        current_answers = answers(rows, start.probes)
        probe_measures["churn"] = float(1 - shared(start.answers, current_answers).mean())
        probe_measures["reordered"] = int(mark_reordered(start.answers, current_answers).sum())
        probe_measures["rbo"] = float(compute_rank_overlap(start.answers, current_answers).mean())
        probe_measures["hubs"] = compute_gini(count_answers(current_answers, len(rows)))
        if start.right is not None:
            probe_measures["confidence"] = compute_confidence(rows, start.probes, start.right, start.temperature)
    return Drift(
        step=step,
        median=float(np.median(distances)),
        q99=float(np.quantile(distances, 0.99)),
        shift=common_shift,
        success=success,
        neighbourhood=float(1 - compute_jaccard(start.near, find_nearest_rows(rows, start.watched)).mean()),
        longest=float(np.linalg.norm(rows, axis=1).max()),
        start=start.hubs if start.probes is not None else None,
        movers=tuple(Mover(int(row), float(distances[row])) for row in mover_rows if distances[row] > 0),
        ball=bool(ball),
        **probe_measures,
    )


def measure_movement(start_vectors: np.ndarray, current_vectors: np.ndarray) -> tuple[np.ndarray, float]:
    """Return how far each row moved beyond the shift common to all, (n,), and the length of that shift.

    With displacements D = Θ_t − Θ₁ these are |d_i − mean d| and |mean d|.
    """
    displacements = current_vectors - start_vectors
    # Rankings by inner product do not change if all rows move alike.
    common_shift = displacements.mean(0)
    return np.asarray(np.linalg.norm(displacements - common_shift, axis=1)), float(np.linalg.norm(common_shift))


def answers(vectors: np.ndarray, probes: torch.Tensor) -> np.ndarray:
    """Return the most relevant rows for each probe query, best first, (P, min(10, n)); ties by row."""
    return select("top_k", torch.from_numpy(vectors), probes, k=min(DEPTH, len(vectors))).index.numpy()


def find_nearest_rows(vectors: np.ndarray, watched_rows: np.ndarray) -> np.ndarray:
    """Return the nearest other rows of each watched document by Euclidean distance, (w, min(10, n − 1)).

    A shift common to all rows leaves the distances alone; on unit rows the nearest are those by cosine.
    """
    # Centring changes no distance, and fewer digits are lost in the products.
    centred_vectors = vectors - vectors.mean(0)
    # |a − b|² falls as a·b − |b|²/2 rises: one product finds the nearest.
    extended_vectors = np.column_stack([centred_vectors, -0.5 * (centred_vectors**2).sum(1)])
    watched_points = np.column_stack([centred_vectors[watched_rows], np.ones(len(watched_rows))])
    depth = min(DEPTH, len(vectors) - 1)
    nearest = select("top_k", torch.from_numpy(extended_vectors), torch.from_numpy(watched_points), k=depth + 1)
    neighbour_rows = np.asarray(nearest.index)
    itself = neighbour_rows == watched_rows[:, None]
    # Among equal rows a row may not be listed itself: then the last one goes.
    itself[~itself.any(1), -1] = True
    return np.asarray(neighbour_rows[~itself].reshape(len(watched_rows), depth))


def shared(then: np.ndarray, now: np.ndarray) -> np.ndarray:
    """Return, for each of P queries, the share of rows that its lists then and now have in common.

    then, now: (P, k) distinct rows
    """
    return np.asarray((then[:, :, None] == now[:, None, :]).sum((1, 2)) / max(1, then.shape[1]))


def mark_reordered(then: np.ndarray, now: np.ndarray) -> np.ndarray:
    """Return, for each of P queries, True if its lists then and now have the same rows in another order.

    then, now: (P, k) distinct rows
    """
    has_same_rows = (np.sort(then, axis=1) == np.sort(now, axis=1)).all(1)
    return np.asarray(has_same_rows & (then != now).any(1))


def compute_jaccard(then: np.ndarray, now: np.ndarray) -> np.ndarray:
    """Return, for each of m documents, the Jaccard similarity of two sets of k rows: |common| / |either|.

    then, now: (m, k) distinct rows; 1 for empty sets
    """
    if not then.shape[1]:
        return np.ones(len(then))
    n_common = (then[:, :, None] == now[:, None, :]).sum((1, 2))
    return np.asarray(n_common / (2 * then.shape[1] - n_common))


def compute_rank_overlap(then: np.ndarray, now: np.ndarray, persistence: float = PERSISTENCE) -> np.ndarray:
    """Return, for each of P queries, how alike its rankings then and now are, first ranks counting most.

    The measure is rank-biased overlap, extrapolated beyond k (Webber et al. 2010, eq. 23): 1 for equal rankings. then,
    now: (P, k) distinct rows, best first; persistence: weight of each rank, relative to the one before
    """
    k = then.shape[1]
    # Entry (i, j) of a query's matrix: the i-th row then is the j-th row now.
    equal = then[:, :, None] == now[:, None, :]
    depths = np.arange(1, k + 1)
    agreements = np.stack([equal[:, :size, :size].sum((1, 2)) for size in depths], axis=1) / depths
    weights = (1 - persistence) / persistence * persistence**depths
    overlaps: np.ndarray = agreements @ weights + agreements[:, -1] * persistence**k
    return overlaps


def count_answers(answer_rows: np.ndarray, n_rows: int) -> np.ndarray:
    """Return (n,) in how many answers, (P, k), each row is; −1 pads answers."""
    return np.bincount(answer_rows[answer_rows >= 0].ravel(), minlength=n_rows)


def compute_gini(numbers: np.ndarray) -> float:
    """Return the Gini coefficient of (n,) numbers ≥ 0: 0 if all are equal, near 1 if one has nearly all.

    It is Σ_i Σ_j |x_i − x_j| / (2 n Σ x), computed from the sorted numbers, and 0 where all are 0.
    """
    sorted_numbers = np.sort(np.asarray(numbers, dtype=np.float64))
    count, total = len(sorted_numbers), sorted_numbers.sum()
    return float((2 * np.arange(1, count + 1) - count - 1) @ sorted_numbers / (count * total)) if total else 0.0


def compute_confidence(
    vectors: np.ndarray, probes: torch.Tensor, right: Sequence[np.ndarray], temperature: float
) -> float | None:
    """Return the mean chance that a document drawn for a probe query is right; None without right ones.

    The chances are softmax(Θq/τ). right: rows judged right for each probe; temperature: τ
    """
    judged_probes = [probe for probe, probe_rows in enumerate(right) if len(probe_rows)]
    if not judged_probes:
        return None
    points = probes.numpy()
    # Blocks of at most four million scores bound the memory.
    block_size = max(1, (1 << 22) // len(vectors))
    right_chances: list[float] = []
    for block_start in range(0, len(judged_probes), block_size):
        probe_block = judged_probes[block_start : block_start + block_size]
        probabilities = softmax(points[probe_block] @ vectors.T / temperature)
        right_chances += [float(probabilities[index, right[probe]].sum()) for index, probe in enumerate(probe_block)]
    return float(np.mean(right_chances))


def smoothed(outcomes: Sequence[float] | np.ndarray, weight: float = SMOOTHING_WEIGHT) -> float | None:
    """Return the weighted mean of outcomes, recent ones counting more; None if there is none.

    weight: that of an outcome relative to the next one
    """
    values = np.asarray(outcomes, dtype=np.float64)
    if not len(values):
        return None
    # The last outcome has age 0 and weight 1.
    age_weights = weight ** np.arange(len(values) - 1, -1, -1)
    return float(age_weights @ values / age_weights.sum())


def _read_rows(vectors: Any) -> np.ndarray:
    """Return document vectors as a float64 matrix, (n, d); raise DataError if it is empty or not finite.

    vectors: Embeddings, an array or a tensor
    """
    if isinstance(vectors, np.ndarray) and not vectors.flags.writeable:
        # torch takes no array that must not be written to.
        vectors = vectors.copy()
    tensor = vectors.vectors if isinstance(vectors, Embeddings) else real_tensor(vectors, "vectors")
    rows = tensor.detach().cpu().double().numpy()
    if rows.ndim != 2 or 0 in rows.shape:
        raise DataError(f"vectors must be a matrix with at least one row and one column; got shape {rows.shape}")
    if not np.isfinite(rows).all():
        raise DataError(
            f"vectors must be finite; {counted(int((~np.isfinite(rows)).any(1).sum()), 'row')} with NaN or infinity"
        )
    return np.ascontiguousarray(rows)
