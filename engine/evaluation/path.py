"""What a query gets at every value of a weight: its rankings over λ, and its documents' weights over λ₁."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from engine.candidates import Candidates, select_problem, without_autocast
from engine.decoder import (
    DEPTH,
    POOL,
    SET_SIZE,
    QueryLike,
    ScoredCandidates,
    check_dimension,
    resolve_search_inputs,
    select_from,
    select_pool,
)
from engine.errors import DataError, ParamError
from engine.matrix import Matrix, products
from engine.params import Real, values_of
from engine.solvers.elastic_net.path import WeightPath
from engine.solvers.lines import LambdaPath
from engine.solvers.tie_breaking import ranked
from engine.space import Space
from engine.stages import Selector, make, make_selector, spec_of
from engine.values import Ranking

LOWEST = Real(0.001, "λ₁", 1e-9, name="lowest", help="Where the path ends.")


@dataclass(frozen=True, eq=False, kw_only=True)
class Path:
    """One query's rankings at every value of a selector's parameter in an interval.

    selector: with its other parameters; k: how many documents; parameter: λ, its range the interval; candidates: what
    is chosen from; lines: the pieces as they were found
    """

    selector: Selector
    k: int
    parameter: Real
    candidates: Candidates
    lines: LambdaPath

    def __len__(self) -> int:
        return len(self.lines.last)

    @cached_property
    def breakpoints(self) -> np.ndarray:
        """(m − 1,) where the ranking changes, ascending, within the rounding of its gains.

        That is about 1e-14 of the gains' size over the difference of their slopes: nearer than that, `at` asks the
        selector. Where two documents' lines agree to rounding all along, only `at` tells which of them comes first.
        """
        ends: np.ndarray = self.lines.ends[self.lines.last[:-1]]
        return ends

    @cached_property
    def rankings(self) -> np.ndarray:
        """(m, k) the rows between neighbouring breakpoints, best first, −1 pads."""
        return self._rows(self.lines.picks[self.lines.last])

    @cached_property
    def gains(self) -> np.ndarray:
        """(m, 2, k) a and b of each pick: its gain at λ is λ·a + (1 − λ)·b."""
        gains: np.ndarray = self.lines.gains[self.lines.last]
        return np.pad(gains, ((0, 0), (0, 0), (0, self.k - gains.shape[2])))

    def at(self, value: float) -> Ranking:
        """The ranking at one value, rows and gains those that engine.select and engine.decode give.

        Read from the lines where no rounding decides, else computed by the selector. Raises ParamError outside the
        interval.
        """
        value = self.parameter.check(value)
        piece = self.lines.piece(value)
        if piece is None:
            settings = {**values_of(self.selector), self.parameter.name: value}
            selector = make_selector(self.selector.spec.name, **settings)
            return select_from(selector, ScoredCandidates(self.candidates, self.candidates.relevance[0], False), self.k)
        device = self.candidates.relevance.device
        gain = self.lines.gain(piece, value)
        gain = np.pad(np.where(self.lines.picks[piece] < 0, 0.0, gain), (0, self.k - len(gain)))
        index = self._rows(self.lines.picks[piece][None])
        info = {"candidates": self.candidates.count}
        return Ranking(torch.from_numpy(index).to(device), torch.from_numpy(gain[None]).to(device), (info,))

    def _rows(self, picks: np.ndarray) -> np.ndarray:
        pool = self.candidates.pool
        rows = picks if pool is None else np.where(picks < 0, -1, pool[0].cpu().numpy()[picks])
        return np.pad(rows, ((0, 0), (0, self.k - picks.shape[1])), constant_values=-1)


@without_autocast
def path(
    selector: str | Selector,
    space: Space | Any,
    queries: QueryLike | Any,
    k: int = 10,
    interval: Sequence[float] = (0.0, 1.0),
    depth: int | None = None,
    **fixed: Any,
) -> list[Path]:
    """Each query's rankings at every λ of an interval, exactly: a list, one Path a query.

    selector: its name (`fixed`: the other parameters) or a stage, whose own λ does not count; space: a Space with what
    decode takes as queries, or (n, d) vectors with what select takes; interval: lowest and highest λ, for nnn λ₁;
    depth: choose from the most relevant only. There is a path where all gains are lines in λ. Raises ParamError or
    DataError.
    """
    stage = stage_with_path(selector, fixed)
    k, depth = SET_SIZE.check(k), DEPTH.check(depth)
    parameter = _over(stage, interval)
    matrix, points = resolve_search_inputs(space, queries)
    rows = matrix.vectors
    check_dimension("queries", points, rows, "the vectors", "have")
    whole = Candidates(rows, products(rows, points), points, matrix)
    c = select_pool(whole, min(depth or len(rows), len(rows)))
    found = stage.lambda_path(c, min(k, c.count), (parameter.low, parameter.high))
    return [
        Path(selector=stage, k=k, parameter=parameter, candidates=select_problem(c, b), lines=lines)
        for b, lines in enumerate(found)
    ]


def stage_with_path(selector: str | Selector, fixed: Mapping[str, Any]) -> Selector:
    """A selector that has a path, from its name and other parameters. Raises ParamError."""
    stage = selector if isinstance(selector, Selector) else None
    cls = type(stage) if stage else spec_of(cast(str, selector), "selector").cls
    if cls.path_parameter in fixed:
        raise ParamError(f"{cls.path_parameter} is what the path runs over; pass interval=(lowest, highest) instead")
    if stage and fixed:
        raise ParamError(f"{stage.label} has its parameters already; do not pass {', '.join(fixed)} as well")
    stage = stage or make_selector(cast(str, selector), **fixed)
    if stage.no_path is not None:
        raise ParamError(stage.no_path)
    return stage


def path_interval(stage: Selector, interval: Sequence[float]) -> tuple[float, float]:
    """The ends of an interval of a path, checked."""
    over = _over(stage, interval)
    return over.low, over.high


def _over(stage: Selector, interval: Sequence[float]) -> Real:
    """The parameter that the path runs over, its range cut to the interval."""
    declared = next((p for p in stage.spec.params if p.name == stage.path_parameter), None)
    over = declared if isinstance(declared, Real) else Real(0.5, "λ", 0.0, 1.0, name=stage.path_parameter)
    ends = list(interval) if isinstance(interval, Sequence | np.ndarray) and not isinstance(interval, str) else []
    if len(ends) != 2:
        raise ParamError(f"interval must be two numbers, the lowest and the highest {over.symbol}; got {interval!r}")
    low, high = (over.check(end) for end in ends)
    if low > high:
        raise ParamError(f"interval must begin with the lowest {over.symbol}; got {interval!r}")
    return replace(over, low=low, high=high, variants=())


def weight_path(
    space: Space | Any, query: QueryLike | Any, l2: float = 0.1, lowest: float = 0.001, pool: int | None = None
) -> WeightPath:
    """The minimiser of nnn's objective at every λ₁ from the best score down to `lowest`, for one query.

    space: a Space, or (n, d) vectors; query: one query, as decode (with a Space) or select (with vectors) takes it; l2:
    λ₂; pool: of the most relevant only. The path is made of straight lines between kinks; `path.at(l1)` reads it, and
    `path.residual` certifies all of it. Raises ParamError or DataError. NNN paper, eq. 1.
    """
    path = path_of(make("nnn", l2=l2), space, query, lowest, pool)
    assert path is not None, "nnn's answer is made of weights"
    return path


@without_autocast
def path_of(
    selector: Selector,
    space: Space | Any,
    query: QueryLike | Any,
    lowest: float = 0.001,
    pool: int | None = None,
    rows: Tensor | None = None,
) -> WeightPath | None:
    """The same for any selector: None for those whose answer is not made of weights.

    rows: the pool itself, ascending, where another scorer than the inner product chose it.
    """
    lowest, pool = LOWEST.check(lowest), POOL.check(pool)
    matrix, points = resolve_search_inputs(space, query)
    if len(points) != 1:
        raise ParamError(f"query must be one query; got {len(points)}")
    if points.shape[1] != matrix.vectors.shape[1]:
        raise DataError(f"query must have the vectors' dimension, {matrix.vectors.shape[1]}; got {points.shape[1]}")
    c = Candidates(matrix.vectors, products(matrix.vectors, points), points, matrix)
    if rows is None:
        if pool is None or pool >= c.count:
            return selector.weights_path(c, lowest)
        rows = ranked(c.relevance, pool, c.relevance_error, c.exact_relevance, all_=False)[0][0].sort().values
    part = Matrix(matrix.vectors[rows])
    path = selector.weights_path(Candidates(part.vectors, c.relevance[:, rows], points, part), lowest)
    if path is None:
        return None
    return replace(path, members=rows.cpu().numpy()[path.members])
