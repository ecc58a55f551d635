"""The weights of a query's documents at every λ₁: the whole regularisation path of the non-negative elastic net."""

from dataclasses import replace
from typing import Any

from torch import Tensor

from engine.candidates import Candidates, without_autocast
from engine.decoder import POOL, QueryLike, searched
from engine.errors import DataError, ParamError
from engine.matrix import Matrix, products
from engine.params import Real
from engine.solvers.elastic_net.path import WeightPath
from engine.solvers.tie_breaking import ranked
from engine.space import Space
from engine.stages import Selector, make

LOWEST = Real(0.001, "λ₁", 1e-9, name="lowest", help="Where the path ends.")


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
    matrix, points = searched(space, query)
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
