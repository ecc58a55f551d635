"""The verdict: the recommended setting and its exports, and each decoder's best setting in a table."""

from collections.abc import Callable
from functools import partial
from typing import Any

import streamlit as st

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
from engine.evaluation.export import export, write_short_code
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
    """Draw the verdict's sentence, and the buttons of its setting; decoder: the verdict's best."""
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
        code = write_short_code(decoder, context)
        draw_card_button(lambda: _build_card(loaded, curves, verdict, code), "tradeoff.card")


def use_in_explore(decoder: Decoder) -> None:
    """Set Explore to a decoder and go there; for a callback."""
    decoders.apply_decoder(decoder)
    # The page switches in the next full run, as a callback cannot.
    st.session_state[selection.LEAVE_KEY] = st.session_state[selection.REDRAW_KEY] = True


def draw_card_button(build_card: Callable[[], VerdictCard], key: str) -> None:
    """Draw a button that opens a card in a dialog, as one picture; build_card: called on the click only."""

    def draw_preview(card: VerdictCard) -> None:
        svg = build_verdict_svg(card)
        draw_svg(svg, (CARD_WIDTH, CARD_HEIGHT), f"{key}.picture", file="frontier-card", label=visible(card.sentence))

    if st.button("Card", key=key, icon=":material/image:", help="One picture to paste into a chat or a report"):
        st.dialog("Card", width="large")(draw_preview)(build_card())


def _build_card(loaded: Loaded, curves: Frontier, verdict: Verdict, code: tuple[str, ...]) -> VerdictCard:
    """Build the verdict's card."""
    best, gain = verdict.best, verdict.gain
    interval = ""
    if gain is not None and gain.low is not None and gain.high is not None:
        interval = f"95% CI {signed(gain.low)} to {signed(gain.high)} {format_axis_title(curves.x)}"
    return VerdictCard(
        sentence=verdict.text,
        curves=tuple(
            CardCurve(
                method=points[0].point.method,
                label=format_method(points[0]),
                x=tuple(point.x for point in points),
                y=tuple(point.y for point in points),
            )
            for points in curves.curves.values()
        ),
        titles=(f"{format_axis_title(curves.x)}@{curves.k}", f"{format_axis_title(curves.y)}@{curves.k}"),
        chosen=None if best is None else (best.x, best.y),
        chosen_label="" if best is None else best.name,
        queries=curves.queries,
        interval=interval,
        corpus=loaded.space.corpus.name,
        fingerprint=loaded.space.embeddings.digest[:8],
        code=code,
    )


MAX_BEST_ROWS = 10


def draw_budget(curves: Frontier, baseline: FrontierPoint) -> None:
    """Draw the budget's slider, which the chart's line moves too."""
    st.session_state.setdefault(
        SHARE_KEY, KEPT_SHARE.default
    )  # the chart sets it too, which a default would contradict
    st.slider(
        f"Keep at least this share of {baseline.name}'s {title_of(curves.y)}",
        *KEPT_SHARE.comfortable_range,
        step=0.01,
        key=SHARE_KEY,
        persist_state="session",
        format="percent",
    )


def draw_best(curves: Frontier, verdict: Verdict, rows: ComparisonsByMetric) -> None:
    """Draw a row per decoder, the best first; a click opens its sets."""
    best = select_best_per_method(curves, verdict.base.point.label, verdict.share)
    # Decoders that miss the budget are listed last, by their diversity.
    floor = compute_floor(verdict.base, verdict.share)
    points = sorted(best, key=lambda point: (point.y < floor, -curves.direction * point.x))
    columns = _columns(curves, points, floor, verdict.share, rows)
    labels = [point.point.label for point in points]
    # Another list is another widget: a selection is a position, and must not outlive its list.
    key = f"tradeoff.best.{digest_of(labels)[:12]}"
    draw_columns(
        columns,
        key=key,
        max_rows=MAX_BEST_ROWS,
        on_select=partial(open_row, key, labels),
        selection_mode="single-cell",
        placeholder="",
    )


def _columns(
    curves: Frontier, points: list[FrontierPoint], floor: float, share: float, rows: ComparisonsByMetric
) -> dict[str, tuple[list[Any], Any]]:
    names = [point.name if point.y >= floor else format_method(point) for point in points]
    signs = [f"{method_style(point.point.method).sign} {name}" for point, name in zip(points, names, strict=True)]
    columns: dict[str, tuple[list[Any], Any]] = {"Best setting": (signs, text_column(170))}
    # Times have no natural maximum for a bar.
    if curves.x == TIME_AXIS:
        columns["ms"] = [point.x for point in points], number_column("%.2f", 70, "Median of single calls, a query each")
    else:
        max_x = max(point.x for point in curves.points)
        x_column = st.column_config.ProgressColumn(format="%.3f", min_value=0.0, max_value=max(max_x, 1e-9), width=90)
        columns[title_of(curves.x)] = [point.x if point.y >= floor else None for point in points], x_column
    costs = [rows.get(curves.y, {}).get(point.point.label) for point in points]
    changes = [
        format_interval(row) if point.y >= floor else f"no setting keeps {percent(share)}"
        for point, row in zip(points, costs, strict=True)
    ]
    columns[f"Δ {title_of(curves.y)} (95% CI)"] = changes, text_column(165)
    wins = ["" if row is None or row.queries < 2 else "·".join(map(str, row.wins)) for row in costs]
    columns["W·T·L"] = (
        wins,
        text_column(76, f"Queries with more, the same and less {title_of(curves.y)} than the baseline"),
    )
    return columns


def format_interval(row: Comparison | None) -> str:
    """Format a difference with its interval; "" for the baseline."""
    if row is None:
        return ""
    bounds = (
        ""
        if row.low is None or row.high is None or row.low == row.high
        else f" ({signed(row.low)} to {signed(row.high)})"
    )
    return signed(row.difference) + bounds


def open_row(key: str, labels: list[str]) -> None:
    """Open the setting of the clicked row; for a callback."""
    cells = st.session_state[key].selection.cells
    selection.open_point(labels[cells[0][0]] if cells else None)
