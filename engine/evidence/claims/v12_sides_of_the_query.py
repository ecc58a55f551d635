"""V12: at λ ½ MMR goes outward on the first document's side of the query, and to the other side first."""

from collections.abc import Sequence

import numpy as np

import engine
from engine.evidence.claim import Claim, Measurement
from engine.evidence.judged_sets import JudgedSet
from engine.evidence.rules import Ruling, Scope, theorem

CASES, MOST = 2000, 6
STEP = 1e-5


def measure(_: Sequence[JudgedSet], seed: int) -> Measurement:
    """In the plane, angles in (0, π/2) to the query, the first document nearest to it.

    rise: the derivative of cos(x + θ) − cos(x), by differences; others: documents on the same side that MMR picks in
    another order than by angle; near: whether it picks one of the same side before a farther one of the other
    """
    rng = np.random.default_rng(seed)
    columns: dict[str, list[float]] = {"rise": [], "others": [], "near": []}
    for _case in range(CASES):
        angles = np.sort(rng.uniform(0, np.pi / 2, int(rng.integers(3, MOST + 1))))
        first, x = angles[0], rng.uniform(STEP, np.pi / 2 - angles[0] - STEP)
        above, below = (np.cos(at + first) - np.cos(at) for at in (x + STEP, x - STEP))
        columns["rise"].append(float(above - below) / (2 * STEP))
        order = picked(rng.permutation(angles))
        columns["others"].append(int((order != angles).sum()))
        across = np.concatenate([angles[:-1], -angles[-1:]])
        columns["near"].append(int(picked(rng.permutation(across))[1] != -angles[-1]))
    return columns


def picked(angles: np.ndarray) -> np.ndarray:
    """Angles to the query in the order in which MMR picks them at λ ½."""
    rows, query = np.stack([np.cos(angles), np.sin(angles)], axis=1), np.array([1.0, 0.0])
    order = engine.select("mmr", rows, query, len(rows), relevance_weight=0.5).rows()
    ordered: np.ndarray = angles[order]
    return ordered


def judge(measured: Measurement) -> Ruling:
    return theorem([*measured["rise"], *measured["others"], *measured["near"]], 3 * CASES)


CLAIM = Claim(
    id="V12",
    paper="vrsd",
    place="§2.1, eq. 2, 3, Figure 1",
    sentence="At λ ½ MMR's value falls with the angle to the query among documents on one side of it, which are so "
    "picked from the nearest on; one on the other side is picked before a nearer one on the first document's.",
    scope=Scope.EXACT,
    measure=measure,
    rule=judge,
    differs="2,000 drawn cases of three to six documents, in the plane as in the paper, whose figure has four; the "
    "derivative by differences. More dimensions, to which the paper extends it, have no sides.",
    cost=3,
)
