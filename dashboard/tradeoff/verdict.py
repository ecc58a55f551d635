"""The verdict: the recommended setting and its exports, and each decoder's best setting in a table."""

from collections.abc import Callable
from functools import partial
from typing import Any

import streamlit as st

from dashboard.charts.figure import read_column
from dashboard.charts.frontier import format_method
from dashboard.charts.palette import method_style
from dashboard.charts.verdict_card import CARD_HEIGHT, CARD_WIDTH, build_verdict_svg
from dashboard.components.picture import draw_svg
from dashboard.services import trained
from dashboard.services.source import Loaded
from dashboard.session import decoders
from dashboard.session.tradeoff import SHARE_KEY
from dashboard.tradeoff import selection
from dashboard.widgets.tables import draw_columns, number_column, text_column
from engine.decoder import Decoder
from engine.evaluation.export_decoder import export, write_short_code
from engine.evaluation.frontier import (
    KEPT_SHARE,
    TIME_AXIS,
    Frontier,
    FrontierPoint,
    compute_floor,
    format_axis_title,
    select_best_per_method,
)
from engine.evaluation.metrics import title_of
from engine.evaluation.statistics import Comparison
from engine.evaluation.verdict import ComparisonsByMetric, Verdict
from engine.values import digest_of
from engine.views.verdict_card import CardCurve, VerdictCard
from engine.wording import percent, signed, visible

KEY = "tradeoff-verdict"
VERDICT_CSS = f"""<style>.st-key-{KEY} [data-testid=stText] {{font-size: 1.15rem; font-weight: 600; white-space: normal;
overflow-wrap: anywhere}}
.st-key-{KEY} > [data-testid=stElementContainer]:first-child {{flex: 1 1 20rem; width: auto}}</style>"""


def draw_verdict(loaded: Loaded, curves: Frontier, verdict: Verdict, decoder: Decoder | None) -> None:
    """Draw the verdict, a sentence that names the best setting, and buttons to use, export or share it.

    decoder: of the best setting; without it (no setting, or a run of another system) there are no buttons
    """
    st.html(VERDICT_CSS)
    with st.container(key=KEY, border=True, horizontal=True, vertical_alignment="center", gap="small"):
        sign = f"{method_style(verdict.best.point.method).sign} " if verdict.best is not None else ""
        st.text(f"{sign}{visible(verdict.text)}", width="stretch")
        if decoder is None or verdict.best is None:
            return
        st.button("Use in Explore", type="primary", key="tradeoff.use", on_click=use_in_explore, args=(decoder,))
        context = trained.export_context(loaded, curves.k)
        # The popover has the full script, the card only the short code.
        snippet = export(decoder, "python", context)
        with st.popover("Code"):
            st.code(snippet.text, language=snippet.language)
        short_code = write_short_code(decoder, context)
        draw_card_button(lambda: _build_card(loaded, curves, verdict, short_code), "tradeoff.card")


def use_in_explore(decoder: Decoder) -> None:
    """Set Explore to a decoder and go to that page; for a callback."""
    decoders.apply_decoder(decoder)
    # The page switches in the next full run, as a callback cannot.
    st.session_state[selection.LEAVE_KEY] = st.session_state[selection.REDRAW_KEY] = True


def draw_card_button(build_card: Callable[[], VerdictCard], key: str) -> None:
    """Draw a button that shows the verdict as one picture in a dialog.

    build_card: makes the picture's content, called on the click only; key: of the button
    """

    def draw_preview(card: VerdictCard) -> None:
        svg = build_verdict_svg(card)
        draw_svg(svg, (CARD_WIDTH, CARD_HEIGHT), f"{key}.picture", file="frontier-card", label=visible(card.sentence))

    if st.button("Card", key=key, icon=":material/image:", help="One picture to paste into a chat or a report"):
        st.dialog("Card", width="large")(draw_preview)(build_card())


def _build_card(loaded: Loaded, curves: Frontier, verdict: Verdict, short_code: tuple[str, ...]) -> VerdictCard:
    """Build the content of the picture that sums up the verdict: sentence, curves, best setting, code."""
    best_point, gain = verdict.best, verdict.gain
    interval = ""
    if gain is not None and gain.low is not None and gain.high is not None:
        interval = f"95% CI {signed(gain.low)} to {signed(gain.high)} {format_axis_title(curves.x)}"
    card_curves = []
    for points in curves.curves.values():
        x, y = tuple(read_column(points, "x")), tuple(read_column(points, "y"))
        card_curves.append(CardCurve(method=points[0].point.method, label=format_method(points[0]), x=x, y=y))
    return VerdictCard(
        sentence=verdict.text,
        curves=tuple(card_curves),
        titles=(f"{format_axis_title(curves.x)}@{curves.k}", f"{format_axis_title(curves.y)}@{curves.k}"),
        chosen=None if best_point is None else (best_point.x, best_point.y),
        chosen_label="" if best_point is None else best_point.name,
        queries=curves.queries,
        interval=interval,
        corpus=loaded.space.corpus.name,
        fingerprint=loaded.space.embeddings.digest[:8],
        code=short_code,
    )


MAX_BEST_ROWS = 10


def draw_budget(curves: Frontier, baseline: FrontierPoint) -> None:
    """Draw the slider of the budget, the share of the baseline's y that a setting must keep.

    The line in the chart, which can be dragged, sets it too.
    """
    # The chart sets it too, which a default would contradict.
    st.session_state.setdefault(SHARE_KEY, KEPT_SHARE.default)
    st.slider(
        f"Keep at least this share of {baseline.name}'s {title_of(curves.y)}",
        *KEPT_SHARE.comfortable_range,
        step=0.01,
        key=SHARE_KEY,
        persist_state="session",
        format="percent",
    )


def draw_best(curves: Frontier, verdict: Verdict, rows: ComparisonsByMetric) -> None:
    """Draw a row per decoder at its best setting, those within the budget first; a click opens a setting.

    rows: comparisons with the baseline, by metric and label
    """
    best_points = select_best_per_method(curves, verdict.base.point.label, verdict.share)
    # Decoders that miss the budget are listed last, by their diversity.
    floor = compute_floor(verdict.base, verdict.share)
    points = sorted(best_points, key=lambda point: (point.y < floor, -curves.direction * point.x))
    columns = _columns(curves, points, floor, verdict.share, rows)
    draw_point_table("best", columns, read_column(points, "point.label"), MAX_BEST_ROWS)


def draw_point_table(name: str, columns: dict[str, tuple[list[Any], Any]], labels: list[str], max_rows: int) -> None:
    """Draw a table of settings; a click on a row opens that setting beside the chart.

    columns: title → (values, settings of the column); labels: of the rows' decoders
    """
    # Another list is another widget: a selection is a position, and must not outlive its list.
    widget_key = f"tradeoff.{name}.{digest_of(labels)[:12]}"
    on_select = partial(open_row, widget_key, labels)
    selection_options = {"selection_mode": "single-cell", "placeholder": ""}
    draw_columns(columns, key=widget_key, max_rows=max_rows, on_select=on_select, **selection_options)


def _columns(
    curves: Frontier, points: list[FrontierPoint], floor: float, share: float, rows: ComparisonsByMetric
) -> dict[str, tuple[list[Any], Any]]:
    """Return the columns of the table of best settings, title → (values, settings of the column).

    floor: the smallest acceptable y, which is `share` of the baseline's; a decoder below it has its name only
    """
    settings, diversities, changes, wins, y_title = [], [], [], [], title_of(curves.y)
    for point in points:
        comparison, is_feasible = rows.get(curves.y, {}).get(point.point.label), point.y >= floor
        name = point.name if is_feasible else format_method(point)
        settings.append(f"{method_style(point.point.method).sign} {name}")
        diversities.append(point.x if is_feasible else None)
        changes.append(format_interval(comparison) if is_feasible else f"no setting keeps {percent(share)}")
        counts = None if comparison is None or comparison.queries < 2 else comparison.wins
        wins.append("" if counts is None else f"{counts.win:,} better, {counts.loss:,} worse")
    columns: dict[str, tuple[list[Any], Any]] = {"Best setting": (settings, text_column(150))}
    # Times have no natural maximum for a bar.
    if curves.x == TIME_AXIS:
        columns["ms"] = read_column(points, "x"), number_column("%.2f", 70, "Median of single calls, a query each")
    else:
        max_value = max(*read_column(curves.points, "x"), 1e-9)
        x_column = st.column_config.ProgressColumn(format="%.3f", min_value=0.0, max_value=max_value, width=84)
        columns[title_of(curves.x)] = diversities, x_column
    columns[f"Δ {y_title} (95% CI)"] = changes, text_column(152)
    wins_column = text_column(
        128, f"Queries with more and with less {y_title} than the baseline; the others have as much"
    )
    return columns | {"Queries": (wins, wins_column)}


def format_interval(comparison: Comparison | None) -> str:
    """Format a difference to the baseline with its interval; "" for the baseline itself."""
    if comparison is None:
        return ""
    if comparison.low is None or comparison.high is None or comparison.low == comparison.high:
        return signed(comparison.difference)
    return f"{signed(comparison.difference)} ({signed(comparison.low)} to {signed(comparison.high)})"


def open_row(widget_key: str, labels: list[str]) -> None:
    """Open the setting of the clicked row; for a callback of a table's selection.

    labels: of the rows' decoders; without a selected row nothing changes
    """
    cells = st.session_state[widget_key].selection.cells
    selection.open_point(labels[cells[0][0]] if cells else None)
