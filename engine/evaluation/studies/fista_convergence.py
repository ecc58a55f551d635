"""Convergence of the paper's FISTA to the minimiser by steps, over labelled queries (NNN paper, Fig. 3)."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np
import torch

from engine.candidates import Candidates, without_autocast
from engine.decoder import SET_SIZE, QueryLike, resolve_search_inputs
from engine.display import OneLine
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

FISTA_STEPS = (1, 2, 5, 10, 20, 50, 100, 200, 500)
"""Numbers of steps after which the weights are examined."""


@dataclass(frozen=True)
class ConvergenceRow(OneLine):
    """State of FISTA after `steps` steps, or (steps None) the minimiser."""

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
    steps: Sequence[int] = FISTA_STEPS,
) -> Iterator[ConvergenceRow]:
    """Measure FISTA after given numbers of steps beside the exact minimiser.

    The selector "nnn" weights the documents by minimising an objective: FISTA, the paper's solver, comes nearer with
    every step, and an exact solver reaches the minimiser. The minimiser comes first, then FISTA after each of `steps`
    steps, over all queries at once.

    Parameters
    ----------
    space : Space
        The corpus to search.
    queries : Queries or QueryLike
        Queries or Embeddings if there are judgements; otherwise as `decode` takes them.
    qrels : Qrels or None
        Their judgements.
    k : int
        The size of the retrieved sets.
    l1 : float
        The penalty λ₁: the larger, the fewer documents have a weight.
    l2 : float
        The penalty λ₂: the larger, the more similar documents share weight.
    steps : sequence of int
        Numbers of steps, ascending.

    Returns
    -------
    iterator of ConvergenceRow
        The results after each number of steps; stop iterating to end early.

    Raises
    ------
    ParamError, DataError
        If an argument is invalid or inputs do not belong together.

    Examples
    --------
    >>> import engine, torch
    >>> corpus = engine.Corpus(("a", "b", "c"), ("red apple", "green apple", "blue sky"))
    >>> space = engine.Space(corpus, engine.Embeddings(("a", "b", "c"), torch.eye(3)))
    >>> queries, qrels = engine.Embeddings(("q",), torch.tensor([[1.0, 0.5, 0.1]])), engine.Qrels({"q": {"a": 1}})
    >>> [reached.steps for reached in engine.convergence(space, queries, k=1, steps=[1, 2])]
    [None, 1, 2]
    """
    k = SET_SIZE.check(k)
    params = check_values(spec_of("nnn").params, {"l1": l1, "l2": l2}, "nnn")
    counts = sorted(set(steps))
    if not counts or any(isinstance(step, bool) or not isinstance(step, int) or step < 1 for step in counts):
        raise ParamError(f"steps must be whole numbers in [1, ∞), at least one; got {steps!r}")
    matrix, query_points = resolve_search_inputs(space, queries)
    c = Candidates(matrix.vectors, products(matrix.vectors, query_points), query_points, matrix)
    ids = queries.ids if isinstance(queries, Queries | Embeddings) and qrels is not None else None
    return _iterate_rows(space, c, params["l1"], params["l2"], min(k, c.count), counts, ids, qrels)


def _iterate_rows(
    space: Space, c: Candidates, l1: float, l2: float, k: int, steps: list[int],
    ids: Sequence[str] | None, qrels: Qrels | None,
) -> Iterator[ConvergenceRow]:  # fmt: skip
    """Yield the row of the exact minimiser, then FISTA's after each number of steps.

    FISTA is the paper's iterative solver of document weights; c: all documents with their scores; l1, l2: penalties of
    the objective; steps: ascending; ids: of the queries, None without judgements.
    """
    # Residuals are given in units of the best score, the λ₁ from which on no document has a weight; 1e-12 keeps a query
    # that no document scores for from dividing by 0.
    best_scores = np.maximum(c.relevance.amax(1).double().cpu().numpy(), 1e-12)

    def make_row(n_steps: int | None, ranking: Ranking, residual: np.ndarray, supports: np.ndarray) -> ConvergenceRow:
        """Compare a ranking with the exact minimiser's in a row of results; n_steps: None for the exact.

        residual: (B,) largest violation of the optimality conditions; supports: documents with a weight, by query
        """
        comp = None
        if ids is not None:
            comp = measure(ranking, space, ids, qrels, k, ("comp",)).mean["comp"]
            comp = None if math.isnan(comp) else comp
        same_order = (ranking.index == exact.index).all(1)
        same_set = (ranking.index.sort(1).values == exact.index.sort(1).values).all(1)
        shares = (float(same_set.double().mean()), float(same_order.double().mean()))
        return ConvergenceRow(n_steps, float(np.median(residual / best_scores)), *shares, float(supports.mean()), comp)

    exact = without_autocast(reconstruct)([make("nnn", l1=l1, l2=l2)], c, k)[0]
    info = exact.info
    residuals, supports = (np.array([facts[name] for facts in info]) for name in ("residual", "support"))
    yield make_row(None, exact, residuals, supports)
    l1_values = torch.full((c.batch,), l1, dtype=torch.float64, device=c.queries.device)
    # One run of FISTA serves all rows: the iterator goes on from the last row's step.
    weights, n_done = iterate_fista(c, l1_values, l2), 0
    for n_steps in steps:
        solutions = _take_steps(c, weights, n_steps - n_done, l1_values, l2)
        n_done = n_steps
        # Nothing here reads a ranking's facts, so the exact one's stand in.
        ranking = Ranking(*take_largest_weights(solutions, k, c), info)
        yield make_row(n_steps, ranking, solutions.residual, solutions.counts)


@without_autocast
def _take_steps(c: Candidates, weights: Iterator[torch.Tensor], n_steps: int, l1: torch.Tensor, l2: float) -> Solutions:
    """Take n_steps further FISTA steps, and certify the weights: how far they are from the minimiser.

    weights: iterator that takes one step whenever it is advanced
    """
    # islice skips all but the last of these steps.
    last_weights = next(islice(weights, n_steps - 1, None))
    return certify_iterate(c, last_weights, l1.cpu().numpy(), l2, 0)
