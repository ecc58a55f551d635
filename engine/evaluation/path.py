"""Paths over a parameter: a query's rankings over λ, and its documents' weights over λ₁."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from engine import decoder
from engine.candidates import Candidates, select_problem, without_autocast
from engine.decoder import DEPTH, POOL, SET_SIZE, QueryLike, ScoredCandidates
from engine.display import DataFrame, Tabular
from engine.errors import DataError, ParamError
from engine.matrix import Matrix, products
from engine.params import Real, values_of
from engine.progress import counted
from engine.selection.per_source import SourceLimit, follow_path
from engine.solvers.elastic_net.path import WeightPath
from engine.solvers.lines import LambdaPath
from engine.space import Space, find_own_documents
from engine.stages import Selector, make, make_selector, spec_of
from engine.values import Ranking

PATH_END = Real(0.001, "λ₁", 1e-9, name="lowest", help="Where the path ends.")


@dataclass(frozen=True, eq=False, kw_only=True)
class Path(Tabular):
    """One query's rankings at every value of a selector's parameter in an interval.

    selector: with its other parameters; k: the size of the rankings; parameter: λ, with the interval as its range;
    candidates: the documents to choose from; lines: the path in pieces, intervals of λ on which the picks stay the same
    and every pick's gain is a straight line in λ (`last`: the pieces behind which the ranking changes); source_limit:
    how many documents of one source a ranking may have, None for any number
    """

    selector: Selector
    k: int
    parameter: Real
    candidates: Candidates
    lines: LambdaPath
    source_limit: SourceLimit | None = None

    def __len__(self) -> int:
        return len(self.lines.last)

    def _describe(self) -> str:
        span = f"{self.parameter.name} from {self.parameter.low:g} to {self.parameter.high:g}"
        return f"{self.selector.spec.name}, {span}, k={self.k}, {counted(len(self), 'ranking')}"

    def to_frame(self, corpus: Any = None) -> DataFrame:
        """Return one row for each document of each ranking along the path.

        Columns: ranking (its number), low and high (the values of the parameter between which it stands), rank (from
        1), row, document (its id), and gain_at_low and gain_at_high. corpus: a Corpus, Space or Dataset, without which
        there are no ids of documents. Raises DataError if it is another one.
        """
        ends = np.concatenate(([self.parameter.low], self.breakpoints, [self.parameter.high]))
        lows, highs = ends[:-1], ends[1:]
        # Gains are straight lines, given by their values at 0 and at 1.
        gains_at_one, gains_at_zero = self.gains[:, 0], self.gains[:, 1]
        edges = [edge[:, None] * gains_at_one + (1 - edge[:, None]) * gains_at_zero for edge in (lows, highs)]
        ranking = Ranking(torch.from_numpy(self.rankings), torch.from_numpy(edges[0]), ({},) * len(self))
        frame = ranking.to_frame(corpus).rename(columns={"query": "ranking", "gain": "gain_at_low"})
        frame["ranking"] = frame["ranking"].astype(int)
        frame["gain_at_high"] = edges[1][self.rankings >= 0]
        number = frame["ranking"].to_numpy()
        frame.insert(1, "low", lows[number])
        frame.insert(2, "high", highs[number])
        return frame

    @cached_property
    def breakpoints(self) -> np.ndarray:
        """The (m − 1,) values of λ where the ranking changes, ascending, exact but for rounding.

        The gains by which documents are picked are straight lines in λ, and the ranking changes where two cross. The
        error of a crossing is about 1e-14 of the gains' size over the difference of their slopes. For a λ that is this
        close to a breakpoint, `at` lets the selector decide; so it does where two lines agree to rounding all along.
        """
        ends: np.ndarray = self.lines.ends[self.lines.last[:-1]]
        return ends

    @cached_property
    def rankings(self) -> np.ndarray:
        """The (m, k) corpus rows of each piece between breakpoints, best first, −1 pads."""
        return self._pad_rows(self.lines.picks[self.lines.last])

    @cached_property
    def gains(self) -> np.ndarray:
        """The (m, 2, k) numbers a and b of each pick: its gain at λ is λ·a + (1 − λ)·b.

        m: rankings of the path, in the order of λ; the gain is the score by which the selector picked the document.
        """
        # `last` indexes the pieces behind which the ranking changes, one for each ranking.
        return self._pad(self.lines.gains[self.lines.last], 0)

    def at(self, value: float) -> Ranking:
        """Return the ranking at one value of the parameter, equal to engine.select's at that value.

        A breakpoint is a value at which the ranking changes. Between two of them the same documents stay picked, and
        their gains are straight lines in the parameter: the ranking is read from these. Raises ParamError outside the
        interval.
        """
        value = self.parameter.check(value)
        piece_index = self.lines.piece(value)
        # Near a breakpoint rounding decides the order, so the selector itself is asked.
        if piece_index is None:
            settings = {**values_of(self.selector), self.parameter.name: value}
            selector = make_selector(self.selector.spec.name, **settings)
            # False: no second scorer has scored the candidates again.
            scored = ScoredCandidates(self.candidates, self.candidates.relevance[0], False, self.source_limit)
            return decoder.select_from(selector, scored, self.k)
        device, picks = self.candidates.relevance.device, self.lines.picks[[piece_index]]
        gains = np.where(picks < 0, 0.0, self.lines.gain(piece_index, value))
        row_index = torch.from_numpy(self._pad_rows(picks)).to(device)
        pick_gains = torch.from_numpy(self._pad(gains, 0)).to(device)
        return Ranking(row_index, pick_gains, ({"candidates": self.candidates.count},))

    def _pad_rows(self, picks: np.ndarray) -> np.ndarray:
        """Convert (m, ·) picks, positions among the candidates, to (m, k) corpus rows, padded with −1."""
        pool_rows = self.candidates.pool
        corpus_rows = picks if pool_rows is None else np.where(picks < 0, -1, pool_rows[0].cpu().numpy()[picks])
        return self._pad(corpus_rows, -1)

    def _pad(self, columns: np.ndarray, value: int) -> np.ndarray:
        """Fill the last axis of an array, (…, ·), up to k with a value; a copy is made only where some are missing."""
        n_missing = self.k - columns.shape[-1]
        widths = [(0, 0)] * (columns.ndim - 1) + [(0, n_missing)]
        return np.pad(columns, widths, constant_values=value) if n_missing else columns


@without_autocast
def path(
    selector: str | Selector,
    space: Space | Any,
    queries: QueryLike | Any,
    k: int = 10,
    interval: Sequence[float] = (0.0, 1.0),
    depth: int | None = None,
    *,
    per_source: int | None = None,
    source: str | None = None,
    without_self: bool | None = None,
    **fixed: Any,
) -> list[Path]:
    """Compute each query's rankings at every λ of an interval, exactly.

    A selector has a path if all its gains are lines in λ. A document is no answer to a query that has its id and text,
    unless `without_self` says otherwise.

    Parameters
    ----------
    selector : str or Selector
        Its name, or a stage, whose own λ is ignored.
    space : Space, ndarray or Tensor
        A Space, or (n, d) vectors.
    queries : Queries, str, sequence of str, Embeddings, ndarray or Tensor
        As `decode` (with a Space) or `select` (with vectors) takes them.
    k : int
        The size of the rankings.
    interval : sequence of float
        The lowest and the highest λ; λ₁ for a selector with weights.
    depth : int or None
        The number of most relevant documents to choose from, by default all.
    per_source : int or None
        The most documents of one source in a ranking, as a Decoder takes it; None for any number.
    source : str or None
        The metadata column of the corpus that names the sources.
    without_self : bool or None
        The treatment of queries that are documents, as a Decoder takes it.
    **fixed
        The selector's other parameters.

    Returns
    -------
    list of Path
        One for each query.

    Raises
    ------
    ParamError, DataError
        If the selector has no path, or an argument is invalid.

    Examples
    --------
    >>> import engine, torch
    >>> vectors, query = torch.eye(3), torch.tensor([[1.0, 0.5, 0.25]])
    >>> engine.path(list(engine.methods("selector"))[1], vectors, query, k=2)[0].at(0.5).index.tolist()
    [[0, 1]]
    """
    stage = make_path_stage(selector, fixed)
    k, depth = SET_SIZE.check(k), DEPTH.check(depth)
    limited_decoder = decoder.Decoder(stage, per_source=per_source, source=source, without_self=without_self)
    parameter = _restrict_parameter(stage, interval)
    matrix, query_vectors, own_rows = _resolve_queries(space, queries, without_self)
    corpus_vectors = matrix.vectors
    decoder.check_dimension("queries", query_vectors, corpus_vectors, "the vectors", "have")
    full_corpus = Candidates(corpus_vectors, products(corpus_vectors, query_vectors), query_vectors, matrix)
    source_limit = decoder.find_source_limit(limited_decoder, space)
    limits, paths = (parameter.low, parameter.high), []
    for candidates in _list_candidates(full_corpus, min(depth or len(corpus_vectors), len(corpus_vectors)), own_rows):
        query_lines = follow_path(stage, candidates, min(k, candidates.count), limits, source_limit)
        for query_index, lines in enumerate(query_lines):
            paths.append(Path(
                selector=stage, k=k, parameter=parameter, candidates=select_problem(candidates, query_index),
                lines=lines, source_limit=source_limit,
            ))  # fmt: skip
    return paths


def _resolve_queries(
    space: Space | Any, queries: QueryLike | Any, without_self: bool | None = None
) -> tuple[Matrix, Tensor, np.ndarray]:
    """Return the documents, the queries as (B, d) vectors, and the (B,) row of the document that each query is.

    The row is −1 for none. without_self: as of a Decoder
    """
    if not isinstance(space, Space):
        matrix, query_vectors = decoder.resolve_search_inputs(space, queries)
        return matrix, query_vectors, np.full(len(query_vectors), -1)
    batch = decoder.query_batch(space, queries)
    return space.matrix, batch.vectors, find_own_documents(space, batch.ids, batch.texts, without_self)


def _list_candidates(full_corpus: Candidates, depth: int, own_rows: np.ndarray) -> list[Candidates]:
    """Return the candidates of all queries, in order, in one batch unless some queries are documents themselves.

    own_rows: (B,) the row of the document that each query is, which is none of its candidates; −1 for none
    """
    if (own_rows < 0).all():
        return [decoder.select_pool(full_corpus, depth)]
    candidates = []
    for query_index, own_row in enumerate(own_rows.tolist()):
        problem = select_problem(full_corpus, query_index)
        if own_row < 0:
            candidates.append(decoder.select_pool(problem, depth))
            continue
        own_tensor = torch.tensor([own_row], device=problem.relevance.device)
        matches = decoder.exclude_own_documents(problem.relevance, None, own_tensor)
        pool = decoder.select_pool(problem, min(depth, full_corpus.count - 1), matches)
        candidates.append(replace(pool, n_matches=matches.sum(1), own_rows=own_tensor))
    return candidates


def make_path_stage(selector: str | Selector, fixed_params: Mapping[str, Any]) -> Selector:
    """Make a selector for which all values of its path parameter, such as λ, can be solved at once.

    selector: its name, or a stage; fixed_params: its other parameters, for a name only. Raises ParamError if the
    selector has no path, or a parameter does not fit.
    """
    stage = selector if isinstance(selector, Selector) else None
    stage_class = type(stage) if stage else spec_of(cast(str, selector), "selector").cls
    if stage_class.path_parameter in fixed_params:
        parameter = stage_class.path_parameter
        raise ParamError(f"{parameter} is what the path runs over; pass interval=(lowest, highest) instead")
    if stage and fixed_params:
        raise ParamError(f"{stage.label} has its parameters already; do not pass {', '.join(fixed_params)} as well")
    stage = stage or make_selector(cast(str, selector), **fixed_params)
    if stage.no_path is not None:
        raise ParamError(stage.no_path)
    return stage


def check_path_interval(stage: Selector, interval: Sequence[float]) -> tuple[float, float]:
    """Check that an interval lies in the path parameter's range, and return its ends."""
    path_param = _restrict_parameter(stage, interval)
    return path_param.low, path_param.high


def _restrict_parameter(stage: Selector, interval: Sequence[float]) -> Real:
    """Return the parameter that the path varies, its range cut to the interval. Raises ParamError."""
    param = next((param for param in stage.spec.params if param.name == stage.path_parameter), None)
    if not isinstance(param, Real):
        # The selector declares no such number: a weight in [0, 1] stands in for it.
        param = Real(0.5, "λ", 0.0, 1.0, name=stage.path_parameter)
    is_sequence = isinstance(interval, Sequence | np.ndarray) and not isinstance(interval, str)
    if not is_sequence or len(interval) != 2:
        raise ParamError(f"interval must be two numbers, the lowest and the highest {param.symbol}; got {interval!r}")
    low, high = map(param.check, interval)
    if low > high:
        raise ParamError(f"interval must begin with the lowest {param.symbol}; got {interval!r}")
    return replace(param, low=low, high=high, variants=())


def weight_path(
    space: Space | Any, query: QueryLike | Any, l2: float = 0.1, lowest: float = 0.001, pool: int | None = None
) -> WeightPath:
    """Compute the minimiser of the NNN objective (eq. 1) at every λ₁ from the best score down to `lowest`.

    NNN, the selector "nnn", rebuilds the query from a few weighted documents: λ₁ keeps documents out, λ₂ spreads weight
    over similar ones. Between kinks, where documents come and go, every weight is a straight line in λ₁. The path's
    `residual` is the largest violation of the optimality conditions anywhere on it.

    Parameters
    ----------
    space : Space, ndarray or Tensor
        A Space, or (n, d) vectors.
    query : Queries, str, sequence of str, Embeddings, ndarray or Tensor
        One query, as `decode` (with a Space) or `select` (with vectors) takes it.
    l2 : float
        The penalty λ₂: the larger, the more similar documents share weight.
    lowest : float
        The λ₁ where the path ends.
    pool : int or None
        The number of most relevant documents to weigh, by default all.

    Returns
    -------
    WeightPath
        `path.at(l1)` returns the weights at one λ₁.

    Raises
    ------
    ParamError, DataError
        If an argument is invalid or the dimensions differ.

    Examples
    --------
    >>> import engine, torch
    >>> engine.weight_path(torch.eye(2), torch.tensor([[1.0, 0.5]]), lowest=0.25).finished
    True
    """
    path = compute_weight_path(make("nnn", l2=l2), space, query, lowest, pool)
    assert path is not None, "nnn's answer is made of weights"
    return path


@without_autocast
def compute_weight_path(
    selector: Selector,
    space: Space | Any,
    query: QueryLike | Any,
    lowest: float = 0.001,
    pool: int | None = None,
    pool_rows: Tensor | None = None,
    without_self: bool | None = None,
) -> WeightPath | None:
    """Compute a selector's weights of documents at every λ₁; None if its answer has no weights.

    λ₁ is the penalty that keeps documents out: the larger, the fewer have a weight. lowest: the λ₁ where the path ends;
    pool: number of documents to weigh, the most relevant by inner product, None for all; pool_rows: the pool's rows,
    ascending, if another scorer than the inner product chose it; without_self: as of a Decoder.
    """
    lowest, pool = PATH_END.check(lowest), POOL.check(pool)
    matrix, query_vectors, own_rows = _resolve_queries(space, query, without_self)
    if len(query_vectors) != 1:
        raise ParamError(f"query must be one query; got {len(query_vectors)}")
    n_dimensions, query_dimensions = matrix.vectors.shape[1], query_vectors.shape[1]
    if query_dimensions != n_dimensions:
        raise DataError(f"query must have the vectors' dimension, {n_dimensions}; got {query_dimensions}")
    candidates = Candidates(matrix.vectors, products(matrix.vectors, query_vectors), query_vectors, matrix)
    if pool_rows is None:
        # The most relevant documents, with near ties decided exactly, in the order of the corpus.
        (pooled,) = _list_candidates(candidates, min(pool or candidates.count, candidates.count), own_rows)
        if pooled.pool is None:
            return selector.weights_path(candidates, lowest)
        pool_rows = pooled.pool[0]
    # The path over the pool alone is exact for the pool, so its members are mapped back to corpus rows.
    pool_matrix = Matrix(matrix.vectors[pool_rows])
    pool_candidates = Candidates(pool_matrix.vectors, candidates.relevance[:, pool_rows], query_vectors, pool_matrix)
    weights_path = selector.weights_path(pool_candidates, lowest)
    if weights_path is None:
        return None
    return replace(weights_path, members=pool_rows.cpu().numpy()[weights_path.members])
