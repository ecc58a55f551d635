"""Metrics over the parameters of one method: over two of them as a table (NNN paper, Fig. 2), and along each."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from engine.errors import DataError, ParamError
from engine.evaluation.metrics import mean_of_defined, title_of
from engine.evaluation.paired import (
    EQUALITY_TOLERANCE,
    common_form,
    declared_parameters,
    format_decoder,
    none_last_key,
    select_cells,
    varying_parameters,
)
from engine.params import UNSET


@dataclass(frozen=True)
class HeatMapAxis:
    """A parameter of a heat-map."""

    name: str
    symbol: str
    values: tuple[Any, ...]  # those that were tried, rising, None last

    @property
    def texts(self) -> tuple[str, ...]:
        """The values as people read them."""
        return tuple(
            UNSET if value is None else f"{value:g}" if isinstance(value, float) else str(value)
            for value in self.values
        )


@dataclass(frozen=True, eq=False, kw_only=True)
class HeatMap:
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
    """The means of a metric over the two parameters that a sweep varies.

    points: `Point`s of one split, of any k and any methods; method: which one, needed where there are several with two
    parameters that vary. Raises ParamError or DataError: not two parameters vary, or something besides them does.
    """
    cells = [cell for cell in select_cells(points, k) if method in (None, cell.method)]
    varying_by_method = {
        param_name: varying_parameters([cell for cell in cells if cell.method == param_name])
        for param_name in {cell.method for cell in cells}
    }
    methods_with_two = [param_name for param_name, params in varying_by_method.items() if len(params) == 2]
    if len(methods_with_two) != 1:
        varying_texts = [
            f"{param_name} varies {', '.join(params) or 'nothing'}"
            for param_name, params in sorted(varying_by_method.items())
        ]
        method_text = f"of {method} " if method else ""
        raise ParamError(
            f"a heat-map {method_text}needs points of one method in which exactly two parameters vary"
            + (f": {'; '.join(varying_texts)}" if varying_texts else "; there are none")
            + ("; say which method" if len(methods_with_two) > 1 else "")
        )
    method_cells, axis_names = (
        [cell for cell in cells if cell.method == methods_with_two[0]],
        varying_by_method[methods_with_two[0]],
    )
    if (
        len(
            {
                str([cell.decoder.get(param_name) for param_name in ("retrieve", "rerank", "depth")])
                for cell in method_cells
            }
        )
        > 1
    ):
        raise ParamError(
            f"the points of {methods_with_two[0]} differ in scorers or pool besides: take those of one chain"
        )
    if unmeasured := [cell.label for cell in method_cells if metric not in cell.values]:
        raise ParamError(f"{metric} was not measured for {unmeasured[0]}")
    row_axis, column_axis = (_build_axis(param_name, method_cells) for param_name in axis_names)
    table_shape = len(row_axis.values), len(column_axis.values)
    mean_table, query_counts = np.full(table_shape, np.nan), np.zeros(table_shape, dtype=np.int64)
    cell_keys: np.ndarray = np.full(table_shape, "", dtype=object)
    for method_cell in method_cells:
        grid_position = tuple(
            axis.values.index(method_cell.decoder["select"][axis.name]) for axis in (row_axis, column_axis)
        )
        is_measured = np.isfinite(method_cell.values[metric])
        cell_mean = mean_of_defined(np.where(is_measured, method_cell.values[metric], np.nan))
        if cell_keys[grid_position] and not np.isclose(
            mean_table[grid_position], cell_mean, rtol=0, atol=EQUALITY_TOLERANCE, equal_nan=True
        ):
            raise DataError(f"two points are called {method_cell.label} and differ: take those of one data set")
        mean_table[grid_position], query_counts[grid_position], cell_keys[grid_position] = (
            cell_mean,
            int(is_measured.sum()),
            method_cell.key,
        )
    return HeatMap(
        method=method_cells[0].method,
        metric=metric,
        title=title_of(metric),
        k=method_cells[0].k,
        split=str(method_cells[0].split),
        rows=row_axis,
        columns=column_axis,
        values=mean_table,
        queries=query_counts,
        keys=cell_keys,
    )


def _build_axis(param_name: str, cells: list[Any]) -> HeatMapAxis:
    """A parameter's values among the cells, with the symbol of the form in which all of them mean it."""
    declared_param = declared_parameters(cells[0].method).get(param_name)
    sorted_values = tuple(sorted({cell.decoder["select"][param_name] for cell in cells}, key=none_last_key))
    return HeatMapAxis(
        param_name, param_name if declared_param is None else common_form(declared_param, cells).symbol, sorted_values
    )


def compute_importance(points: Iterable[Any], metric: str, k: int = 10) -> dict[str, float]:
    """Which share of a metric's variance over a full grid each parameter explains alone; what lacks to 1 they share.

    points: of one split and selector. The main effects of a functional ANOVA, a value of a parameter being as likely as
    another (Hutter, Hoos & Leyton-Brown 2014). None where fewer than two parameters vary, where settings are missing,
    as after a search, or where nothing differs.
    """
    cells = list({p.label: p for p in select_cells(points, k)}.values())
    grid_axes = {param_name: _build_axis(param_name, cells) for param_name in varying_parameters(cells)}
    grid_shape = tuple(len(grid_axis.values) for grid_axis in grid_axes.values())
    mean_grid = np.full(grid_shape, np.nan)
    for cell in cells:
        cell_params = cell.decoder["select"]
        mean_grid[
            tuple(grid_axis.values.index(cell_params[param_name]) for param_name, grid_axis in grid_axes.items())
        ] = cell.mean[metric]
    if len(grid_shape) < 2 or not np.isfinite(mean_grid).all() or mean_grid.std() <= EQUALITY_TOLERANCE:
        return {}
    axis_indices = range(len(grid_shape))
    main_effects = [
        mean_grid.mean(tuple(other_index for other_index in axis_indices if other_index != axis_index)).var()
        / mean_grid.var()
        for axis_index in axis_indices
    ]
    return {grid_axis.symbol: float(share) for grid_axis, share in zip(grid_axes.values(), main_effects, strict=True)}


@dataclass(frozen=True, kw_only=True)
class Slice:
    """The m settings of one selector along one of its parameters, rising, what is no number last."""

    name: str  # of the parameter
    symbol: str
    label: str
    is_log: bool  # whether its scale is one of ratios
    values: tuple[Any, ...]  # m of them, None where it is unset
    texts: tuple[str, ...]  # the same to read
    names: tuple[str, ...]  # of the settings
    keys: tuple[str, ...]
    means: Mapping[str, tuple[float, ...]]  # metric → m means
    is_on_slice: tuple[bool, ...]  # which settings differ from the chosen one in this parameter alone
    chosen: int | None  # its position, None without one


@dataclass(frozen=True)
class Slices:
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
    """The settings of one selector along each parameter that varies among them.

    points: of one split and selector; baseline_cell: the baseline's point; chosen_cell: the chosen one of them. Without it a setting
    lies on a slice where no other parameter varies. Raises ParamError or DataError.
    """
    cells = list({cell.label: cell for cell in select_cells(points, k)}.values())
    if len(selector_names := sorted({cell.method for cell in cells})) > 1:
        raise ParamError(f"slices need points of one selector; got {', '.join(selector_names)}")
    if unmeasured := [
        cell.label for cell in (*cells, baseline_cell) if any(metric not in cell.values for metric in metrics)
    ]:
        raise ParamError(f"{', '.join(metrics)}: not all were measured for {unmeasured[0]}")
    chosen_params = next(
        (cell.decoder["select"] for cell in cells if chosen_cell is not None and cell.label == chosen_cell.label), None
    )
    param_slices = tuple(
        _build_slice(param_name, cells, chosen_params, metrics) for param_name in varying_parameters(cells)
    )
    metric_titles = {metric: title_of(metric) for metric in metrics}
    return Slices(
        selector_names[0],
        cells[0].k,
        str(cells[0].split),
        metric_titles,
        {metric: baseline_cell.mean[metric] for metric in metrics},
        param_slices,
    )


def _build_slice(
    param_name: str, cells: Sequence[Any], chosen_params: Mapping[str, Any] | None, metrics: Sequence[str]
) -> Slice:
    """One parameter's slice; chosen_params: the parameters of the chosen setting."""
    param_form = common_form(declared_parameters(cells[0].method)[param_name], cells)
    ordered_cells = sorted(cells, key=lambda cell: none_last_key(cell.decoder["select"][param_name]))
    cell_params = [cell.decoder["select"] for cell in ordered_cells]
    param_values = tuple(setting_params[param_name] for setting_params in cell_params)
    other_names = [other_name for other_name in varying_parameters(cells) if other_name != param_name]
    return Slice(
        name=param_name,
        symbol=param_form.symbol,
        label=param_form.label,
        is_log=getattr(param_form, "scale", "linear") == "log",
        values=param_values,
        texts=tuple(
            f"{param_value:g}" if isinstance(param_value, float) else param_form.text(param_value)
            for param_value in param_values
        ),
        names=tuple(format_decoder(cell.decoder, with_scorers=False) for cell in ordered_cells),
        keys=tuple(cell.key for cell in ordered_cells),
        means={metric: tuple(cell.mean[metric] for cell in ordered_cells) for metric in metrics},
        is_on_slice=tuple(
            not other_names
            if chosen_params is None
            else all(setting_params[other_name] == chosen_params[other_name] for other_name in other_names)
            for setting_params in cell_params
        ),
        chosen=None if chosen_params is None else cell_params.index(chosen_params),
    )
