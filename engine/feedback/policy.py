"""Sampling policy: documents drawn by the softmax of scores, with propensities (Algorithms 1, 2).

Random numbers are counter-based: the same seed and round give the same numbers on every machine.
"""

import threading
from dataclasses import dataclass
from typing import Any

import numpy as np

from engine.errors import ParamError
from engine.feedback.events import Query, is_whole
from engine.feedback.rerankers import Reranker, picked
from engine.feedback.session import Session
from engine.feedback.temperature import softmax
from engine.params import Whole

FLOOR = 1e-12
"""Least propensity."""
DRAWN = Whole(1, "K", 1, comfortable=(1, 20), name="k", help="So many documents are drawn.")


@dataclass(frozen=True, eq=False)
class Draw:
    """Documents drawn for a query.

    round: whose random numbers were used.
    items: the rows drawn.
    probabilities: (n,) of all documents at that moment.
    weights: one an item, the probability to be among the items, which feedback is divided by (the preset decides how).
    item: the one shown, as the reranker picked it.
    sure: the probability with which the reranker picks that one of the items.
    """

    query: Query
    round: int
    items: tuple[int, ...]
    probabilities: np.ndarray
    weights: tuple[float, ...]
    item: int
    sure: float = 1.0

    @property
    def p(self) -> float:
        """Probability of the item shown under the softmax."""
        return float(self.probabilities[self.item])

    @property
    def propensity(self) -> float:
        """The number that the outcome is divided by."""
        return max(self.weights[self.items.index(self.item)] * self.sure, FLOOR)


def probabilities(session: Session, query: Any) -> np.ndarray:
    """(n,) float64 softmax of the scores over τ; 0 for documents that are not available."""
    z = session.scores(query)
    z /= session.temperature
    if session.available is not None:
        z[~session.available] = -np.inf
    return softmax(z)


def ask(session: Session, query: Any, k: int = 1, reranker: Reranker | None = None, round: int | None = None) -> Draw:
    """Draw k documents without replacement, and one of them to show.

    query: as `Session.resolve_query` takes it; reranker: picks among several, by default the best score; round: whose
    random numbers to use, by default the next round's. Raises ParamError or DataError.
    """
    query, k = session.resolve_query(query), DRAWN.check(k)
    round = session.round + 1 if round is None else round
    p = probabilities(session, query)
    if k == 1:
        item = drawn(p, uniform(session.preset.seed, round))
        return Draw(query, round, (item,), p, (float(p[item]),), item)
    items, weights = drawn_set(p, gumbel(session.preset.seed, round, len(p)), k)
    if session.preset.weights != "inclusion":
        weights = tuple(float(p[row]) for row in items)
    item, sure = max(items, key=lambda row: p[row]), 1.0
    if reranker is not None:
        item, sure = picked(reranker, session, query, items)
    return Draw(query, round, items, p, weights, item, sure)


def drawn(p: np.ndarray, u: float) -> int:
    """One row with the probabilities p; u: uniform in [0, 1)."""
    totals = np.cumsum(p)
    # The first total beyond u: a document of probability 0 is never drawn, and as u < 1 there is such a total.
    return int(np.searchsorted(totals, u * totals[-1], side="right"))


def drawn_set(p: np.ndarray, noise: np.ndarray, k: int) -> tuple[tuple[int, ...], tuple[float, ...]]:
    """The k rows with the largest keys log p + noise, and weights whose inverses are unbiased.

    noise: (n,) Gumbel. With κ the next largest key, π_i = 1 − exp(−exp(log p_i − κ)): given the others' keys, the
    chance that i's exceeds κ. So E[1{i drawn}/π_i] = 1 for every i (Vieira 2017; Kool et al. 2019). 1 where everyone is
    drawn; p itself for k = 1.
    """
    with np.errstate(divide="ignore"):
        logs = np.log(p)
    possible = int(np.count_nonzero(p))
    keys = logs + noise
    order = np.argsort(-keys, kind="stable")[: min(k, possible)]
    items = tuple(order.tolist())
    if k >= possible:
        return items, (1.0,) * len(items)
    if k == 1:
        return items, (float(p[items[0]]),)
    threshold = np.partition(keys, len(keys) - k - 1)[len(keys) - k - 1]
    return items, tuple((-np.expm1(-np.exp(logs[order] - threshold))).tolist())


def uniform(seed: int, round: int) -> float:
    """The round's number in [0, 1)."""
    return _generator(seed, round).random()


def gumbel(seed: int, round: int, count: int) -> np.ndarray:
    """(count,) Gumbel numbers of the round."""
    return _generator(seed, round).gumbel(size=count)


_local = threading.local()


def _generator(seed: int, round: int) -> np.random.Generator:
    """Philox: a function of key and counter, so a round needs no state of the rounds before it."""
    if not is_whole(round) or not 0 <= round < 2**63:
        raise ParamError(f"round must be a whole number in [0, 2⁶³); got {round!r}")
    if not hasattr(_local, "generator"):
        _local.bits = np.random.Philox(key=0)
        _local.generator, _local.state = np.random.Generator(_local.bits), _local.bits.state
    state = _local.state
    state["state"]["counter"][:] = (0, round, 0, 0)
    state["state"]["key"][:] = (seed, 0)
    _local.bits.state = state
    generator: np.random.Generator = _local.generator
    return generator
