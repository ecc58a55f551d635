"""How far the paper's FISTA is from the minimiser after so many steps, over labelled queries (NNN paper, Fig. 3)."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np
import torch

from engine.candidates import Candidates, without_autocast
from engine.decoder import SET_SIZE, QueryLike, resolve_search_inputs
from engine.errors import ParamError
from engine.evaluation.metrics import measure
from engine.matrix import products
from engine.params import check_values
from engine.solvers.elastic_net.decode import reconstruct, take_largest_weights
from engine.solvers.elastic_net.fista import certify_iterate, iterate_fista
from engine.solvers.elastic_net.solve import Solutions
from engine.space import Space
from engine.stages import make, spec_of
from engine.values import Embeddings, Qrels, Queries, Ranking

STEPS = (1, 2, 5, 10, 20, 50, 100, 200, 500)
"""After so many steps the weights are looked at."""


@dataclass(frozen=True)
class Reached:
    """FISTA after `steps` steps, or (steps None) the minimiser."""

    steps: int | None
    residual: float  # median over the queries of the largest violation of the optimality conditions, of the best score
    same_set: float  # share of queries whose k best are the minimiser's, as a set
    same_order: float  # and in order
    support: float  # mean number of documents with a weight
    comp: float | None  # mean Comp@k, None without judgements


def convergence(
    space: Space,
    queries: Queries | QueryLike,
    qrels: Qrels | None = None,
    k: int = 5,
    *,
    l1: float = 0.1,
    l2: float = 0.1,
    steps: Sequence[int] = STEPS,
) -> Iterator[Reached]:
    """The minimiser first, then FISTA after each of `steps` steps, over all queries at once.

    queries: Queries, or Embeddings of them, where there are qrels (their ids name the judgements), else whatever decode
    takes. Raises ParamError or DataError. To end early, stop asking for more.
    """
    k = SET_SIZE.check(k)
    params = check_values(spec_of("nnn").params, {"l1": l1, "l2": l2}, "nnn")
    counts = sorted(set(steps))
    if not counts or any(isinstance(s, bool) or not isinstance(s, int) or s < 1 for s in counts):
        raise ParamError(f"steps must be whole numbers in [1, ∞), at least one; got {steps!r}")
    matrix, points = resolve_search_inputs(space, queries)
    c = Candidates(matrix.vectors, products(matrix.vectors, points), points, matrix)
    ids = queries.ids if isinstance(queries, Queries | Embeddings) and qrels is not None else None
    return _reached(space, c, params["l1"], params["l2"], min(k, c.count), counts, ids, qrels)


def _reached(
    space: Space,
    c: Candidates,
    l1: float,
    l2: float,
    k: int,
    steps: list[int],
    ids: Sequence[str] | None,
    qrels: Qrels | None,
) -> Iterator[Reached]:
    best = np.maximum(c.relevance.amax(1).double().cpu().numpy(), 1e-12)

    def row(done: int | None, ranking: Ranking, residual: np.ndarray, counts: np.ndarray) -> Reached:
        comp = None
        if ids is not None:
            comp = measure(ranking, space, ids, qrels, k, ("comp",)).mean["comp"]
            comp = None if math.isnan(comp) else comp
        order = (ranking.index == exact.index).all(1)
        same = (ranking.index.sort(1).values == exact.index.sort(1).values).all(1)
        shares = (float(same.double().mean()), float(order.double().mean()))
        return Reached(done, float(np.median(residual / best)), *shares, float(counts.mean()), comp)

    exact = without_autocast(reconstruct)([make("nnn", l1=l1, l2=l2)], c, k)[0]
    info = exact.info
    yield row(None, exact, np.array([i["residual"] for i in info]), np.array([i["support"] for i in info]))
    first = torch.full((c.batch,), l1, dtype=torch.float64, device=c.queries.device)
    weights, done = iterate_fista(c, first, l2), 0
    for step in steps:
        solutions = _after(c, weights, step - done, first, l2)
        done = step
        yield row(step, Ranking(*take_largest_weights(solutions, k, c), info), solutions.residual, solutions.counts)


@without_autocast
def _after(c: Candidates, weights: Iterator[torch.Tensor], steps: int, l1: torch.Tensor, l2: float) -> Solutions:
    weight = next(islice(weights, steps - 1, None))
    return certify_iterate(c, weight, l1.cpu().numpy(), l2, 0)
