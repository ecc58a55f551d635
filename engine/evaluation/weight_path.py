"""The weights of a query's documents at every λ₁: the whole regularisation path of the non-negative elastic net."""

from __future__ import annotations

from typing import Any

from engine.candidates import Candidates, exactly
from engine.decoder import QueryLike, searched
from engine.errors import DataError, ParamError
from engine.matrix import products
from engine.params import Real
from engine.solvers.regularization_path import WeightPath, regularization_path
from engine.space import Space
from engine.stages import spec_of

LOWEST = Real(default=0.001, low=1e-9, symbol="λ₁", name="lowest", help="Where the path ends.")


@exactly
def weight_path(space: Space | Any, query: QueryLike | Any, l2: float = 0.1, lowest: float = 0.001) -> WeightPath:
    """The minimiser of nnn's objective at every λ₁ from the best score down to `lowest`, for one query.

    space: a Space, or (n, d) vectors; query: one query, as decode (with a Space) or select (with vectors) takes it; l2:
    λ₂. The path is made of straight lines between kinks; `path.at(l1)` reads it, `path.residual` certifies all of it.
    Raises ParamError or DataError. NNN paper, eq. 1.
    """
    l2 = next(p for p in spec_of("nnn").params if p.name == "l2").check(l2)
    lowest = LOWEST.check(lowest)
    matrix, points = searched(space, query)
    if len(points) != 1:
        raise ParamError(f"query must be one query; got {len(points)}")
    if points.shape[1] != matrix.vectors.shape[1]:
        raise DataError(f"query must have the vectors' dimension, {matrix.vectors.shape[1]}; got {points.shape[1]}")
    c = Candidates(matrix.vectors, products(matrix.vectors, points), points, matrix)
    return regularization_path(c, l2, lowest)
