"""Measured settings: slices along each parameter, a heat map of two, a table; each opens a setting."""

from collections.abc import Sequence
from contextlib import suppress
from typing import Literal

import streamlit as st

from dashboard.charts.parameters import heat_map_figure, slices_figure
from dashboard.components.live_plot import Picked, is_dark, plot
from dashboard.session import decoders
from dashboard.widgets.choices import choose, select
from dashboard.widgets.tables import draw_columns, draw_table, number_column, text_column
from engine.errors import DataError, ParamError
from engine.evaluation.heat_map import heat_map, importance, slices
from engine.evaluation.metrics import METRICS, defined_mean, title_of
from engine.evaluation.paired import declared_by, name_of
from engine.evaluation.sweep.cell import Cell, from_json
from engine.evaluation.tables import frame
from engine.evaluation.tuning.objectives import DIVERSE, RELEVANT, Objective
from engine.wording import percent

SLICES, HEAT_MAP, TABLE = "Slices", "Heat-map", "All settings"
DIFFERENCE = number_column("%+.3f")
PICKED, REPORTED = "tune.picked", "tune.reported"
"""Session keys: the setting that was opened last, and the one that the table reported last."""


def show(points: Sequence[Cell], base: Cell, k: int, objective: Objective, chosen: Cell | None = None) -> None:
    """Points of one selector on the split to choose on, with the baseline's, by a view of the person's choice."""
    metrics = tuple(dict.fromkeys((RELEVANT, DIVERSE, *objective.metrics)))
    ways = [SLICES, TABLE]
    with suppress(ParamError, DataError):  # where not just two parameters vary
        heat_map(points, objective.metrics[-1], k)
        ways = [SLICES, HEAT_MAP, TABLE]
    way = choose("View", ways, f"tune.view.{len(ways)}")
    if way == HEAT_MAP:
        _heat_map(points, objective, k, chosen)
    elif way == TABLE:
        _table(points, base, chosen)
    else:
        _slices(points, base, metrics, k, chosen)
    for metric in metrics:
        if found := importance(points, metric, k):
            parts = [f"{symbol} {percent(share)}" for symbol, share in found.items()]
            parts.append(f"together {percent(1 - sum(found.values()))}")
            st.caption(f"What moves {title_of(metric)} (share of its variance): {' · '.join(parts)}")
    _opened(points, base, k, chosen)


def measured(point: Cell) -> list[str]:
    """The metrics of a point, as they are declared: a store has them by name."""
    return [m for m in METRICS if m in point.values]


def _slices(points: Sequence[Cell], base: Cell, metrics: tuple[str, ...], k: int, chosen: Cell | None) -> None:
    grid = slices(points, base, metrics, k, through=chosen)
    if not grid.slices:
        st.caption("One setting so far.")
        return
    _clicked("slices", plot(slices_figure(grid, is_dark()), "tune.slices", file="slices"))
    notes = ["dashed = chosen"] if chosen else []
    if chosen and len(grid.slices) > 1:
        notes.append("joined = differs from it in this parameter alone")
    st.caption(" · ".join(["Tuning queries", *notes, f"dotted = {_name(base)}", "click a point to open it"]))


def _heat_map(points: Sequence[Cell], objective: Objective, k: int, chosen: Cell | None) -> None:
    names = measured(points[0])
    last = objective.metrics[-1]
    metric = select("Metric of the map", names, "tune.map.metric", default=last, format_func=title_of, width=220)
    grid = heat_map(points, metric, k)
    figure = heat_map_figure(grid, is_dark(), None if chosen is None else chosen.key, clickable=True)
    _clicked("map", plot(figure, "tune.map", file="heat-map"))
    fewer = grid.queries[grid.keys != ""]
    notes = ["Tuning queries", *(["framed = chosen"] if chosen else []), "click a cell to open it"]
    if fewer.min() < fewer.max():
        notes.append("cells with fewer queries are not comparable")
    st.caption(" · ".join(notes))


def _table(points: Sequence[Cell], base: Cell, chosen: Cell | None) -> None:
    rows = [base, *points]
    whole = frame(rows)
    declared = declared_by(points[0].method)
    params = [n for n in declared if len({p.decoder["select"][n] for p in points}) > 1]
    marks = [_name(base), *("chosen" if chosen and p.key == chosen.key else "" for p in points)]
    settings = {n: whole[f"select.{n}"].astype(object) for n in params}
    event = draw_columns(
        {
            "": (marks, text_column(80)),
            **{declared[n].symbol: (values.where(values.notna(), None), None) for n, values in settings.items()},
            **{title_of(m): ([_beyond(p, base, m) for p in rows], DIFFERENCE) for m in measured(points[0])},
            "Returned": (whole["returned"], number_column("%.1f", help="Documents per query, on average")),
            "ms per query": (whole["milliseconds"], number_column("%.2f", help="Median of single calls")),
        },
        key=f"tune.table.{len(rows)}",
        on_select="rerun",
        selection_mode="single-row",
        placeholder="",
        height=min(36 * (len(rows) + 1) + 2, 420),
    )
    place = next(iter(event.selection.rows), None)
    key = None if place is None or place >= len(rows) else rows[place].key
    # Open a setting when the table reports another one than before.
    if key != st.session_state.get(REPORTED):
        st.session_state[REPORTED] = key
        st.session_state[PICKED] = key or st.session_state.get(PICKED)
    st.caption(f"Differences to {_name(base)} on the tuning queries. Select a row to open its setting.")


def _beyond(point: Cell, base: Cell, metric: str) -> float:
    """By how much a setting has more than the baseline, over the queries on which both have the metric."""
    return defined_mean(point.values[metric] - base.values[metric])


def _name(point: Cell) -> str:
    return name_of(point.decoder, scorers=False)


def _clicked(where: str, picked: Picked) -> None:
    """Open the setting of a point that was clicked just now."""
    before = st.session_state.setdefault("tune.clicks", {})
    if picked.clicks != before.get(where, 0):
        before[where] = picked.clicks
        st.session_state[PICKED] = picked.clicked


def _opened(points: Sequence[Cell], base: Cell, k: int, chosen: Cell | None) -> None:
    """The figures of the setting that was opened last, and the way to Explore."""
    point = next((p for p in points if p.key == st.session_state.get(PICKED)), None)
    if point is None:
        return
    with st.container(border=True):
        words, button = st.columns([5, 2], vertical_alignment="center")
        which = " (chosen)" if chosen is not None and point.key == chosen.key else ""
        words.text(f"{_name(point)}{which}, on {point.split}")
        with button:
            apply(point, k, "tune.apply.opened")
        beside = {"This setting": point, **({"Chosen": chosen} if chosen else {})}
        draw_table(
            [{"": name, **{title_of(m): _beyond(p, base, m) for m in measured(point)}} for name, p in beside.items()],
            {title_of(m): DIFFERENCE for m in measured(point)},
        )
        st.caption(f"Differences to {_name(base)}.")


def apply(point: Cell, k: int, key: str, kind: Literal["primary", "secondary"] = "secondary") -> None:
    """The button that shows a setting in Explore."""
    if st.button(
        "Use in Explore",
        key=key,
        type=kind,
        icon=":material/compare_arrows:",
        on_click=decoders.apply,
        args=(from_json(point.decoder), k),
    ):
        decoders.show()
