"""Frames of results of any kind: `engine.to_frame`."""

from collections.abc import Iterable
from typing import Any

from engine.display import DataFrame, Tabular
from engine.errors import DataError
from engine.evaluation.path import Path
from engine.evaluation.sweep.cell import Cell
from engine.evaluation.tables import build_frame, build_per_query_frame
from engine.values import Ranking

NUMBER_COLUMNS: dict[type[Tabular], str] = {Path: "query", Ranking: "setting"}
"""Results that do not say what they belong to: the column with their place in the list."""


def to_frame(results: Any, *, per_query: bool = False) -> DataFrame:
    """Return results as one pandas DataFrame: cells of a sweep, or what has a `to_frame` of its own.

    Parameters
    ----------
    results : Cell, result or iterable of them
        Cells of `sweep`; or a Ranking, Measures, Path, Curve, Frontier, Comparison, Decision, Identification, or the
        moments of a drift's history; several must be of one kind.
    per_query : bool, default False
        Of cells, one row for each query and metric in place of one for each cell.

    Returns
    -------
    DataFrame
        Of cells: method, name (short and distinct), label (the decoder in full), k, split, queries (their number), one
        column with the mean for each metric, select.<parameter>, retrieve, retrieve.<parameter>, rerank, depth,
        left_out, returned, milliseconds, key, digest and provenance.<fact>. Of cells per query: method, name, label, k,
        split, query, metric, value and key. Of others the columns of their `to_frame`, with the place in the list
        before them for paths (query) and rankings (setting).

    Raises
    ------
    DataError
        If results are of several kinds, or of one that has no table.

    Examples
    --------
    >>> import engine, numpy
    >>> settings = [{"relevance_weight": 1.0}, {"relevance_weight": 0.5}]
    >>> rankings = engine.select_grid("mmr", numpy.eye(3), numpy.ones(3), k=2, grid=settings)
    >>> engine.to_frame(rankings).columns.tolist()
    ['setting', 'query', 'rank', 'row', 'gain']
    """
    # A ranking is iterable itself, query by query.
    single = isinstance(results, Cell | Tabular) or not isinstance(results, Iterable)
    values = [results] if single else list(results)
    kinds = {type(value) for value in values}
    if kinds <= {Cell}:
        return build_per_query_frame(values) if per_query else build_frame(values)
    if per_query:
        raise DataError(f"per_query=True is for cells of a sweep; got {_name_kinds(kinds)}. Leave it out")
    if len(kinds) > 1 or not isinstance(values[0], Tabular):
        raise DataError(
            f"results must be cells, or results of one kind with a to_frame(); got {_name_kinds(kinds)}. Call to_frame "
            "on each kind by itself"
        )
    frames: list[DataFrame] = [value.to_frame() for value in values]
    if single:
        return frames[0]
    number_column = NUMBER_COLUMNS.get(type(values[0]))
    for number, frame in enumerate(frames):
        if number_column is not None:
            frame.insert(0, number_column, number)
    import pandas as pd

    joined: DataFrame = pd.concat(frames, ignore_index=True)
    return joined


def _name_kinds(kinds: set[type]) -> str:
    """Return the names of classes as text."""
    return " and ".join(sorted(kind.__name__ for kind in kinds))
