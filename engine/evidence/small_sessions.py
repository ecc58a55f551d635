"""Sessions so small that every draw is enumerated: what their steps are on average, and all ways a stream can go."""

from collections.abc import Iterator, Sequence
from itertools import combinations, permutations
from typing import Any

import numpy as np
import torch

import engine
from engine import orag
from engine.evidence.measures import unit_rows
from engine.feedback import Draw, Event, Query, Session

PLAIN = {"temperature": 1.0, "cap": None, "trust": None, "ball": False, "optimizer": "sgd", "batch": 1}
"""Algorithm 1 as printed, but for its rate."""


def small_session(rng: np.random.Generator, least: int = 2, most: int = 9, **preset: Any) -> tuple[Session, Query, int]:
    """A session over random unit vectors, a query, and the row that is right for it."""
    count, dimensions = int(rng.integers(least, most + 1)), int(rng.integers(2, 6))
    rows = unit_rows(rng.standard_normal((count + 1, dimensions))).astype(np.float32)
    ids = tuple(map(str, range(count)))
    space = engine.Space(engine.Corpus(ids, ids), engine.Embeddings(ids, torch.from_numpy(rows[:count]), None), "cpu")
    session = orag.session(space, "default", **{**PLAIN, **preset})
    # Longer than 1 too, so that some are sure of an answer at τ = 1.
    return session, Query(rows[count] * np.float32(rng.uniform(0.5, 3.0))), int(rng.integers(count))


def draws(session: Session, query: Query, right: int, k: int) -> Iterator[tuple[float, Draw]]:
    """All that can be drawn, with the chance of each; of several the right one is shown where it is among them."""
    p = orag.probabilities(session, query)
    for items in combinations(range(len(p)), k):
        chance = sum(_in_order(p, order) for order in permutations(items))
        shown = right if right in items else items[0]
        yield chance, Draw(query, 1, items, p, tuple(float(p[row]) for row in items), shown)


def events(session: Session, query: Query, right: int, k: int = 1) -> Iterator[tuple[float, Event]]:
    """The feedback on each, with its chance."""
    for chance, draw in draws(session, query, right, k):
        yield chance, orag.outcome(session, draw, draw.item == right)


def gradient(session: Session, event: Event) -> np.ndarray:
    """(n, d) by which an event moves the documents, less the rate."""
    moved = np.zeros((len(session), session.start.dimension))
    moved[list(event.items)] = np.outer(event.coefficients, event.query.exact)
    return moved


def unlike(session: Session, query: Query, right: int, k: int = 1) -> float:
    """The largest difference of the mean step over all draws to the gradient of the cross-entropy."""
    mean = sum(chance * gradient(session, event) for chance, event in events(session, query, right, k))
    vectors = torch.tensor(session.exact, requires_grad=True)
    loss = -torch.log_softmax(vectors @ torch.from_numpy(query.exact), 0)[right]
    (true,) = torch.autograd.grad(loss, vectors)
    return float(np.abs(mean - true.numpy()).max())


def paths(
    session: Session, stream: Sequence[tuple[Query, int]], chance: float = 1.0, before: tuple[float, ...] = ()
) -> Iterator[tuple[float, tuple[float, ...]]]:
    """All ways in which a stream can go: how likely each is, and what chance the right document had in each round."""
    if not stream:
        yield chance, before
        return
    (query, right), *rest = stream
    now = (*before, float(orag.probabilities(session, query)[right]))
    for likely, event in events(session, query, right):
        yield from paths(orag.feed(session, event), rest, chance * likely, now)


def _in_order(p: np.ndarray, order: Sequence[int]) -> float:
    """The chance to draw rows in an order, without replacement."""
    chance, left = 1.0, 1.0
    for row in order:
        chance *= p[row] / left
        left -= p[row]
    return float(chance)
