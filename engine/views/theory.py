"""What the Theory page shows: a theorem's witness with its certificate, a query turned in a plane, bounds measured."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from engine.candidates import exactly
from engine.decoder import select
from engine.errors import ParamError
from engine.params import Whole
from engine.space import Space
from engine.stages import Selector, methods
from engine.theory import Witness, counterexample, kept_from, simple_dimension, sufficient_dimension, witness
from engine.theory.by_length import Margins
from engine.theory.projections import PairErrors
from engine.values import Ranking, showable

ANGLE = Whole(
    default=20,
    low=0,
    high=90,
    symbol="φ",
    name="angle",
    help="Of v, in degrees: at 0 it is document 2, at 90 document 3.",
)
NEXT = 5
"""So many documents below the set are shown with it."""
SHARES = (0.5, 0.75, 0.95)


def weighing() -> str:
    """The name of the first selector whose answers are made of weights."""
    return next(name for name, spec in methods("selector").items() if spec.cls.path is not Selector.path)


@dataclass(frozen=True)
class Weighed:
    """A document in a proof. place: by score; weight: 0 outside the support; inside: whether the set has it."""

    row: int
    id: str
    title: str
    place: int
    score: float
    weight: float
    inside: bool


@dataclass(frozen=True)
class Proof:
    """Theorem 1 on a query. rows: the set's documents and the next ones, by score; support: how many documents have a
    weight at the witness; same: whether they are the set; residual, certified: of the optimality conditions."""

    method: str
    witness: Witness
    rows: tuple[Weighed, ...]
    support: int
    same: bool
    residual: float
    certified: bool


@exactly
def proof(space: Space, query: Tensor, k: int) -> Proof:
    """The witness of the k best documents, and the elastic net solved there. Raises as `witness` does."""
    vectors = space.vectors.double()
    query = query.to(vectors)
    found = witness(vectors, query, k)
    # One more than the set: a support that is too large would show.
    size = min(len(found.rows) + 1, len(space))
    answer = select(weighing(), vectors, query, k=size, l1=found.l1, l2=found.l2)
    weights = {
        row: weight
        for row, weight in zip(answer.index[0].tolist(), answer.gain[0].tolist(), strict=True)
        if row >= 0 and weight > 0
    }
    scores = vectors @ query
    order = torch.sort(scores, descending=True, stable=True).indices[: len(found.rows) + NEXT].tolist()
    corpus, inside = space.corpus, set(found.rows)
    rows = tuple(
        Weighed(
            row,
            showable(corpus.ids[row]),
            showable(corpus.titles[row]),
            place,
            float(scores[row]),
            weights.get(row, 0.0),
            row in inside,
        )
        for place, row in enumerate(order, start=1)
    )
    info = answer.info[0]
    return Proof(
        weighing(), found, rows, info["support"], set(weights) == inside, info["residual"], bool(info["certified"])
    )


@dataclass(frozen=True)
class Turned:
    """Proposition 1's documents with a query turned in the plane of documents 2 and 3.

    points: where the documents are there, document 1 as its shadow, whose score is its own; query: where v is; scores,
    weights: of the documents; support: those with a weight, rising; best: as many by score, rising.
    """

    angle: int
    l1: float
    points: tuple[tuple[float, float], ...]
    query: tuple[float, float]
    scores: tuple[float, ...]
    weights: tuple[float, ...]
    support: tuple[int, ...]
    best: tuple[int, ...]

    @property
    def ranked(self) -> bool:
        """Whether a ranking by score finds the support."""
        return self.support == self.best


def turned(angle: int = ANGLE.default, l1: float = 0.1) -> Turned:
    """The elastic net at λ₁ = l1, λ₂ = 0 of Proposition 1's documents for a query at `angle`, in degrees.

    angle: whole, in [0, 90]; l1: in (0, 1/3). Raises ParamError.
    """
    angle = ANGLE.check(angle)
    example = counterexample(l1)
    vectors, at = example.vectors, math.radians(angle)
    axes = vectors[1:]
    query = math.cos(at) * axes[0] + math.sin(at) * axes[1]
    scores = tuple((vectors @ query).tolist())
    answer = select(weighing(), vectors, query, k=len(vectors), l1=l1, l2=0.0)
    weights = _spread(answer, len(vectors))
    support = tuple(row for row, weight in enumerate(weights) if weight > 0)
    order = sorted(range(len(scores)), key=lambda row: (-scores[row], row))
    points = tuple(tuple(point) for point in (vectors @ axes.T).tolist())
    best = tuple(sorted(order[: len(support)]))
    return Turned(angle, l1, points, (math.cos(at), math.sin(at)), scores, weights, support, best)


def _spread(answer: Ranking, count: int) -> tuple[float, ...]:
    """A weight for every row."""
    weights = [0.0] * count
    for row, weight in zip(answer.index[0].tolist(), answer.gain[0].tolist(), strict=True):
        if row >= 0:
            weights[row] = weight
    return tuple(weights)


@dataclass(frozen=True)
class Bounded:
    """Pairs of like margin at one error: the k that was enough (None: no k that was tried), the bound's, how many times
    that is, and whether the first k that was tried was enough already; simple: what Corollary 1 asks."""

    least: float
    most: float
    pairs: int
    measured: int | None
    guaranteed: int
    times: float | None
    at_once: bool
    simple: int


def against_bound(found: PairErrors, error: float) -> tuple[Bounded, ...]:
    """What was measured against what Lemma 1 asks, bin by bin; error: β, in (0, 1). Raises ParamError."""
    first = min(cell.k for cell in found.cells)
    rows = []
    for own, k in zip(found.bins, kept_from(found, error), strict=True):
        bound = sufficient_dimension(own.least, error)
        times = None if k is None else bound / k
        rows.append(
            Bounded(own.least, own.most, own.pairs, k, bound, times, k == first, simple_dimension(own.least, error))
        )
    return tuple(rows)


@dataclass(frozen=True)
class Needed:
    """share: of the queries; margin: what their best documents have over the nearest rival, the one
    of the smallest margin, at least; dimension: what the bound asks to keep that order; simple: what Corollary 1
    asks."""

    share: float
    margin: float
    dimension: int
    simple: int


def needed(found: Margins, error: float) -> tuple[Needed, ...]:
    """The dimension that the bound asks for so that shares of the queries keep their best document first against its
    nearest rival, at an error of β for each.

    found: of one bin, with rank 1 among the ranks; error: in (0, 1). Raises ParamError.
    """
    rows = [row for row in found.rows if row.rank == 1]
    if len(rows) != 1:
        raise ParamError(f"found must be margins of one bin with rank 1 among the ranks; got {len(rows)} such rows")
    values = rows[0].values
    if not len(values):
        return ()
    margins = [float(np.quantile(values, 1 - share, method="lower")) for share in SHARES]
    return tuple(
        Needed(s, m, sufficient_dimension(m, error), simple_dimension(m, error))
        for s, m in zip(SHARES, margins, strict=True)
    )
