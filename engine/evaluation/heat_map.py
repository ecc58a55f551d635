"""Metrics over the parameters of one method: a table over two of them (NNN paper, Fig. 2), and slices."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter, itemgetter
from typing import Any

import numpy as np

from engine.decoder import LIMIT_FIELDS
from engine.display import OneLine
from engine.errors import DataError, ParamError
from engine.evaluation import paired
from engine.evaluation.metrics import map_values, mean_of_defined, title_of
from engine.params import UNSET


@dataclass(frozen=True)
class HeatMapAxis(OneLine):
    """A parameter of a heat-map."""

    name: str
    symbol: str
    values: tuple[Any, ...]  # those that were tried, rising, None last

    @property
    def texts(self) -> tuple[str, ...]:
        """The axis's values as texts for people."""
        return tuple(UNSET if value is None else _format_value(value, str) for value in self.values)


@dataclass(frozen=True, eq=False, kw_only=True)
class HeatMap(OneLine):
    """A metric at k on a split over two parameters, in the order in which they are declared."""

    method: str
    metric: str
    title: str
    k: int
    split: str
    rows: HeatMapAxis
    columns: HeatMapAxis
    values: np.ndarray  # (rows, columns) means, NaN where nothing was measured or the metric exists for no query
    queries: np.ndarray  # (rows, columns) number that each mean is over; means over other queries do not compare
    keys: np.ndarray  # (rows, columns) of the cells, "" where nothing was measured


def heat_map(points: Iterable[Any], metric: str, k: int = 10, method: str | None = None) -> HeatMap:
    """Arrange the means of a metric over the two parameters that a sweep varies.

    Parameters
    ----------
    points : iterable of Cell
        Cells of one split, of any k and any methods.
    metric : str
        The name of a metric.
    k : int
        The size of the retrieved sets.
    method : str or None
        The method to show, needed if several have two parameters that vary.

    Returns
    -------
    HeatMap
        The means over the values of both parameters, NaN where there is no cell.

    Raises
    ------
    ParamError
        If the number of varying parameters is not two, or scorers or pool vary too.
    DataError
        If two cells of one setting differ.

    Examples
    --------
    >>> import engine, torch
    >>> corpus = engine.Corpus(("a", "b"), ("red", "blue"))
    >>> space = engine.Space(corpus, engine.Embeddings(("a", "b"), torch.eye(2)))
    >>> queries, qrels = engine.Embeddings(("q",), torch.tensor([[1.0, 0.5]])), engine.Qrels({"q": {"a": 1}})
    >>> decoders = engine.grid(list(engine.methods("selector"))[1], 2, window=[1, 2])
    >>> cells = list(engine.sweep(decoders, space, queries, qrels, k=1, metrics="recall"))
    >>> engine.heat_map(cells, "recall", k=1).values.shape
    (2, 2)
    """
    by_method: dict[str, list[Any]] = {}
    for cell in paired.select_cells(points, k):
        if method in (None, cell.method):
            by_method.setdefault(cell.method, []).append(cell)
    # A heat-map has two axes, so its method is the one in which exactly two parameters vary.
    varying = map_values(paired.varying_parameters, by_method)
    methods_with_two = [name for name, params in varying.items() if len(params) == 2]
    if len(methods_with_two) != 1:
        varying_texts = [f"{name} varies {', '.join(params) or 'nothing'}" for name, params in sorted(varying.items())]
        method_text = f"of {method} " if method else ""
        raise ParamError(
            f"a heat-map {method_text}needs points of one method in which exactly two parameters vary"
            + (f": {'; '.join(varying_texts)}" if varying_texts else "; there are none")
            + ("; say which method" if len(methods_with_two) > 1 else "")
        )
    selected_method = methods_with_two[0]
    selected = by_method[selected_method]
    # Settings that also differ outside of the selector would share a field of the map.
    chain_names = "retrieve", "rerank", "depth", *LIMIT_FIELDS
    if len({str(list(map(cell.decoder.get, chain_names))) for cell in selected}) > 1:
        raise ParamError(
            f"the points of {selected_method} differ in scorers, pool or limits besides: take those of one chain"
        )
    for cell in selected:
        if metric not in cell.values:
            raise ParamError(f"{metric} was not measured for {cell.label}")
    row_axis, column_axis = axes = _build_axes(selected)
    table_shape = len(row_axis.values), len(column_axis.values)
    mean_table, counts = np.full(table_shape, np.nan), np.zeros(table_shape, dtype=np.int64)
    cell_keys: np.ndarray = np.full(table_shape, "", dtype=object)
    for cell in selected:
        position = _find_position(cell, axes)
        is_measured = np.isfinite(cell.values[metric])
        mean = mean_of_defined(np.where(is_measured, cell.values[metric], np.nan))
        # Two data sets may hold cells with one label; their means must not be mixed.
        is_same = np.isclose(mean_table[position], mean, rtol=0, atol=paired.TIE_TOLERANCE, equal_nan=True)
        if cell_keys[position] and not is_same:
            raise DataError(f"two points are called {cell.label} and differ: take those of one data set")
        mean_table[position], counts[position], cell_keys[position] = mean, int(is_measured.sum()), cell.key
    return HeatMap(
        method=selected_method, metric=metric, title=title_of(metric), k=selected[0].k, split=str(selected[0].split),
        rows=row_axis, columns=column_axis, values=mean_table, queries=counts, keys=cell_keys,
    )  # fmt: skip


def _build_axes(cells: list[Any]) -> list[HeatMapAxis]:
    """Build an axis for each parameter that varies among the cells: name, symbol, and values, None last.

    A cell is one decoder's metrics, query by query, at one k.
    """
    axes, declared = [], paired.declared_parameters(cells[0].method)
    for name in paired.varying_parameters(cells):
        values = sorted({cell.decoder["select"][name] for cell in cells}, key=paired.none_last_key)
        # A parameter may have another symbol beside certain values of others; it is used if all cells agree.
        symbol = paired.common_form(declared[name], cells).symbol if name in declared else name
        axes.append(HeatMapAxis(name, symbol, tuple(values)))
    return axes


def _find_position(cell: Any, axes: Iterable[HeatMapAxis]) -> tuple[int, ...]:
    """Return the position of a cell in the table: the index of its value on each axis.

    A cell is one decoder's metrics, query by query, at one k.
    """
    return tuple(axis.values.index(cell.decoder["select"][axis.name]) for axis in axes)


def _format_value(value: Any, format_exact: Callable[[Any], str]) -> str:
    """Format a parameter's value for people; format_exact: function for values that are no floats."""
    return f"{value:g}" if isinstance(value, float) else format_exact(value)


def compute_importance(points: Iterable[Any], metric: str, k: int = 10) -> dict[str, float]:
    """Return parameter → the share of a metric's variance that it explains alone, over a full grid.

    points: the measured settings of one selector on one split. The main effects of a functional ANOVA with equally
    likely values (Hutter, Hoos & Leyton-Brown 2014); the rest up to 1 is interaction. Empty if fewer than two
    parameters vary, settings are missing, as after a search, or nothing differs.
    """
    cells = paired.select_distinct(points, k)
    axes = _build_axes(cells)
    mean_grid = np.full([len(axis.values) for axis in axes], np.nan)
    for cell in cells:
        mean_grid[_find_position(cell, axes)] = cell.mean[metric]
    if len(axes) < 2 or not np.isfinite(mean_grid).all() or mean_grid.std() <= paired.TIE_TOLERANCE:
        return {}
    shares = {}
    for axis_index, axis in enumerate(axes):
        # The main effect of a parameter is the variance of the mean over all others.
        other_axes = tuple(np.delete(np.arange(len(axes)), axis_index).tolist())
        shares[axis.symbol] = float(mean_grid.mean(other_axes).var() / mean_grid.var())
    return shares


@dataclass(frozen=True, kw_only=True)
class Slice(OneLine):
    """One selector's m settings along one parameter, ascending; values that are no numbers come last."""

    name: str  # of the parameter
    symbol: str
    label: str
    is_log: bool  # True for a logarithmic scale
    values: tuple[Any, ...]  # m of them, None where it is unset
    texts: tuple[str, ...]  # the values as people read them
    names: tuple[str, ...]  # of the settings
    keys: tuple[str, ...]
    means: Mapping[str, tuple[float, ...]]  # metric → m means
    is_on_slice: tuple[bool, ...]  # True for settings that differ from the chosen one in this parameter alone
    chosen: int | None  # its position, None without one


@dataclass(frozen=True)
class Slices(OneLine):
    """The settings of one selector along each parameter that varies, as declared."""

    method: str
    k: int
    split: str
    titles: Mapping[str, str]  # metric → as charts write it
    base: Mapping[str, float]  # metric → the baseline's mean
    slices: tuple[Slice, ...]


def build_slices(
    points: Iterable[Any], baseline_cell: Any, metrics: Sequence[str], k: int = 10, *, chosen_cell: Any | None = None
) -> Slices:
    """Arrange one selector's settings along each parameter that varies, for a chart per parameter.

    A slice through the chosen setting holds the settings that differ from it in one parameter alone.

    points: the measured settings of one selector on one split; chosen_cell: one of them; without it a setting lies on a
    slice if no other parameter varies. Raises ParamError or DataError.
    """
    cells = paired.select_distinct(points, k)
    if len(selector_names := sorted({cell.method for cell in cells})) > 1:
        raise ParamError(f"slices need points of one selector; got {', '.join(selector_names)}")
    for cell in (*cells, baseline_cell):
        if not set(metrics) <= set(cell.values):
            raise ParamError(f"{', '.join(metrics)}: not all were measured for {cell.label}")
    # Without a chosen setting no label matches, and slices need all other parameters fixed.
    chosen_label = None if chosen_cell is None else chosen_cell.label
    chosen = next((cell.decoder["select"] for cell in cells if cell.label == chosen_label), None)
    slices = tuple(_build_slice(name, cells, chosen, metrics) for name in paired.varying_parameters(cells))
    titles = dict(zip(metrics, map(title_of, metrics), strict=True))
    baseline_means = dict(zip(metrics, map(baseline_cell.mean.__getitem__, metrics), strict=True))
    return Slices(cells[0].method, cells[0].k, str(cells[0].split), titles, baseline_means, slices)


def _build_slice(name: str, cells: Sequence[Any], chosen: Mapping[str, Any] | None, metrics: Sequence[str]) -> Slice:
    """Build the slice along one parameter: cells in the order of its values, with a mask of the slice.

    A cell is one decoder's metrics, query by query, at one k. On the slice are those that differ from `chosen` in this
    parameter alone. chosen: the parameters of the setting that the slice runs through; None if there is no such
    setting: all cells are then on the slice if no other parameter varies, and none otherwise
    """
    # The form is the parameter's declaration beside the values of others, which may have its own symbol and scale: λ₁,
    # for example, is a penalty or a number of documents.
    form = paired.common_form(paired.declared_parameters(cells[0].method)[name], cells)
    ordered = sorted(cells, key=lambda cell: paired.none_last_key(cell.decoder["select"][name]))
    params = [cell.decoder["select"] for cell in ordered]
    values = tuple(map(itemgetter(name), params))
    fixed_names = [fixed for fixed in paired.varying_parameters(cells) if fixed != name]
    # Without a chosen setting all cells lie on the slice, or none if another parameter varies too.
    is_on_slice = [not fixed_names] * len(params)
    if chosen is not None:
        is_on_slice = [all(setting[fixed] == chosen[fixed] for fixed in fixed_names) for setting in params]
    return Slice(
        name=name, symbol=form.symbol, label=form.label, is_log=getattr(form, "scale", "linear") == "log",
        values=values, texts=tuple(_format_value(value, form.text) for value in values),
        names=tuple(paired.format_decoder(cell.decoder, with_scorers=False) for cell in ordered),
        keys=tuple(map(attrgetter("key"), ordered)),
        means={metric: tuple(cell.mean[metric] for cell in ordered) for metric in metrics},
        is_on_slice=tuple(is_on_slice), chosen=None if chosen is None else params.index(chosen),
    )  # fmt: skip
