"""Metrics along each parameter of a selector."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dashboard.charts.palette import GREY, PALETTE, escaped, plain, style_of

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

    from engine.evaluation.slices import Slice, Slices

ROW_HEIGHT, MARGIN = 190, 70


def slices_figure(found: Slices, dark: bool) -> Figure:
    """A column a parameter, a row a metric: every setting a point, those that differ from the chosen one in this
    parameter alone joined; the chosen setting on a dashed line, the baseline dotted."""
    from plotly.subplots import make_subplots

    rows, columns = len(found.titles), max(1, len(found.slices))
    gaps = {"horizontal_spacing": 0.08 / columns, "vertical_spacing": 0.06}
    figure = make_subplots(rows=rows, cols=columns, shared_xaxes=True, shared_yaxes=True, **gaps)
    ink = PALETTE[0].colour(dark)
    for column, line in enumerate(found.slices, 1):
        for row, (metric, title) in enumerate(found.titles.items(), 1):
            place = {"row": row, "col": column}
            _draw(figure, line, metric, title, found, place, dark)
            base = found.base[metric]
            if base == base:
                figure.add_hline(y=base, line={"color": ink, "width": 1, "dash": "dot"}, **place)
            if line.chosen is not None:
                at = line.values[line.chosen] if _numeric(line) else line.texts[line.chosen]
                figure.add_vline(x=at, line={"color": ink, "width": 1, "dash": "dash"}, **place)
            if column == 1:
                figure.update_yaxes(title=f"{title}@{found.k}", **place)
            axis = _axis(line)
            figure.update_xaxes(**axis, **({"title": _titled(line)} if row == rows else {}), **place)
    return plain(figure).update_layout(height=ROW_HEIGHT * rows + MARGIN)


def _draw(figure: Figure, line: Slice, metric: str, title: str, found: Slices, place: dict, dark: bool) -> None:
    style, means = style_of(found.method), line.means[metric]
    colour = style.colour(dark)
    x = line.values if _numeric(line) else line.texts
    hover = [f"{escaped(n, 90)}<br>{title}@{found.k} {v:.4f}" for n, v in zip(line.names, means, strict=True)]
    for on in (False, True):
        some = [i for i, there in enumerate(line.on) if there is on]
        if some:
            figure.add_scatter(
                x=[x[i] for i in some],
                y=[means[i] for i in some],
                mode="lines+markers" if on else "markers",
                line={"color": colour, "width": 2},
                marker={"symbol": style.symbol, "size": 8 if on else 6, "color": colour if on else GREY[dark]},
                customdata=[line.keys[i] for i in some],
                hovertext=[hover[i] for i in some],
                hovertemplate="%{hovertext}<extra></extra>",
                **place,
            )
    if line.chosen is not None:
        figure.add_scatter(
            x=[x[line.chosen]],
            y=[means[line.chosen]],
            mode="markers",
            marker={
                "symbol": f"{style.symbol}-open",
                "size": 16,
                "color": PALETTE[0].colour(dark),
                "line": {"width": 2},
            },
            customdata=[line.keys[line.chosen]],
            hovertext=[f"{hover[line.chosen]}<br>chosen"],
            hovertemplate="%{hovertext}<extra></extra>",
            **place,
        )


def _numeric(line: Slice) -> bool:
    """Whether the values have a place on a scale: a logarithmic one has none for 0."""
    numbers = all(isinstance(v, int | float) and not isinstance(v, bool) for v in line.values)
    return numbers and not (line.log and min(line.values, default=1) <= 0)


def _axis(line: Slice) -> dict:
    if _numeric(line):
        return {"type": "log" if line.log else "linear"}
    return {"type": "category", "categoryorder": "array", "categoryarray": list(dict.fromkeys(line.texts))}


def _titled(line: Slice) -> str:
    return line.symbol if line.symbol == line.name else f"{line.symbol} · {line.label}"
