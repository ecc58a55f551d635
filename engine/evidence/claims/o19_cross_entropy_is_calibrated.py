"""O19: who minimises the cross-entropy puts the right document first as often as can be."""

from collections.abc import Sequence

import numpy as np
from scipy.optimize import minimize
from scipy.special import log_softmax, rel_entr, softmax

from engine.evidence.claim import Claim, Measurement
from engine.evidence.judged_sets import JudgedSet
from engine.evidence.rules import Ruling, Scope, theorem

CASES = 200


def measure(_: Sequence[JudgedSet], seed: int) -> Measurement:
    """By how much laws of queries and right documents break Proposition B.1, on the way to the least cross-entropy."""
    rng = np.random.default_rng(seed)
    return {"excess": [_excess(rng) for _case in range(CASES)]}


def _excess(rng: np.random.Generator) -> float:
    queries, documents = int(rng.integers(2, 6)), int(rng.integers(2, 7))
    points = rng.standard_normal((queries, queries + int(rng.integers(3))))
    often, law = rng.dirichlet(np.full(queries, 3.0)), rng.dirichlet(np.full(documents, 1.0), queries)
    law = 0.95 * law + 0.05 / documents
    first, second = np.sort(law)[:, -1], np.sort(law)[:, -2]
    least = -float(often @ (law * np.log(law)).sum(1))
    # By Pinsker's inequality, so near to the least that no query with a first document has another one on top.
    near, right = float((often * (first - second) ** 2).min()) / 2, float(often @ first)
    worst = [0.0]

    def risk(flat: np.ndarray) -> tuple[float, np.ndarray]:
        scores = points @ flat.reshape(documents, -1).T
        value = -float(often @ (law * log_softmax(scores, axis=1)).sum(1))
        apart = float(often @ rel_entr(law, softmax(scores, axis=1)).sum(1))
        top1 = float(often @ law[np.arange(queries), scores.argmax(1)])
        worst.extend((abs(value - least - apart), least - value))
        if value - least < near:
            worst.append(right - top1)
        slope = (often[:, None] * (softmax(scores, axis=1) - law)).T @ points
        return value, slope.ravel()

    start = rng.standard_normal(documents * points.shape[1])
    reached = minimize(risk, start, jac=True, method="L-BFGS-B", options={"maxiter": 5000, "ftol": 1e-15, "gtol": 1e-9})
    return max(*worst, float(reached.fun) - least - near)


def judge(measured: Measurement) -> Ruling:
    return theorem(measured["excess"], CASES)


CLAIM = Claim(
    id="O19",
    paper="orag",
    place="Proposition B.1",
    sentence="Cross-entropy is least where the chances are the true ones, and near its least value the likeliest "
    "document stands first.",
    scope=Scope.EXACT,
    measure=measure,
    rule=judge,
    differs="200 drawn laws of two to five queries and two to six documents.",
    cost=5,
)
