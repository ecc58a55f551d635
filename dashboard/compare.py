"""The comparison: decoders and their parameters, a card each, and their sets against the baseline's."""

from __future__ import annotations

import time

import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from dashboard.charts import style_of
from dashboard.controls import stage_controls
from dashboard.question import Asked
from dashboard.state import Loaded
from engine.decoder import Decoder, decode
from engine.stages import Selector, Spec, methods
from engine.values import Embeddings, Ranking
from engine.views import DROPPED, Card, Row, card, diff

MOST_SHOWN = 3
"""So many decoders fit beside each other and stay readable at 1440 pixels."""
MOST_ROWS, ROW_HEIGHT = 24, 32
REPEATS = 3
"""A decoder is timed so often (less if it is slow): a busy machine only ever adds to a time."""


def show(loaded: Loaded, asked: Asked) -> None:
    """The main area of Explore."""
    st.text(asked.text if len(asked.text) < 400 else asked.text[:399] + "…")
    _compare(loaded, asked)


@st.fragment
def _compare(loaded: Loaded, asked: Asked) -> None:
    known = methods("selector")
    names = list(known)
    chosen = st.pills(
        "Decoders",
        names,
        selection_mode="multi",
        default=names[:2],
        key="decoders",
        persist_state="session",
        format_func=lambda n: f"{style_of(n).sign} {known[n].title}",
        help=f"Up to {MOST_SHOWN} beside each other. Changes are marked against {known[names[0]].title}.",
    )
    if not chosen:
        st.info("Choose a decoder to see what it retrieves.")
        return
    shown = [n for n in names if n in chosen][:MOST_SHOWN]
    if len(chosen) > MOST_SHOWN:
        st.caption(f"The first {MOST_SHOWN} are shown.")
    baseline, _ = _decode(loaded, asked, known[names[0]].cls())
    # Three rows of columns rather than one column a decoder: cards and tables then begin at one height.
    controls, cards = (st.columns(len(shown), gap="medium") for _ in range(2))
    reading = st.container()
    tables = st.columns(len(shown), gap="medium")
    opened: list[Row] = []
    for at, name in enumerate(shown):
        against = None if name == names[0] else known[names[0]].title
        with controls[at]:
            _heading(known[name])
            stage = stage_controls(known[name], "explore")
        ranking, seconds = _decode(loaded, asked, stage)
        with cards[at]:
            _card(card(loaded.space, asked.id, ranking, baseline, asked.qrels, asked.k), asked.k, seconds, against)
        with tables[at]:
            kept, dropped = diff(loaded.space, asked.vector, asked.id, ranking, baseline, asked.qrels)
            if row := _table(kept, dropped if against else [], f"set.{name}", compared=against is not None):
                opened.append(row)
    with reading:
        for row in opened:
            _document(row)
    hints = [] if opened else ["Click a row to read the document."]
    if not asked.judged:
        hints.append("Without judgements there is no Recall.")
    hints.append(f"Times: this query on {loaded.space.device.type}, the best of up to {REPEATS} runs.")
    st.caption(" ".join(hints))


def _heading(spec: Spec) -> None:
    style = style_of(spec.name)
    st.html(
        f'<span style="color: light-dark({style.light}, {style.dark}); font-size: 1.2rem">{style.sign}</span> '
        f'<strong>{spec.title}</strong> <span style="opacity: 0.65; font-size: 0.9rem">{spec.summary}</span>'
    )


def _decode(loaded: Loaded, asked: Asked, stage: Selector) -> tuple[Ranking, float]:
    """What a selector retrieves, and the seconds it took: the best of a few, as a busy machine only adds."""
    query = Embeddings(asked.vector.unsqueeze(0), (asked.id,), loaded.space.embeddings.encoder)
    decoder = Decoder(select=stage, depth=asked.depth)
    best = float("inf")
    for _ in range(REPEATS):
        started = time.perf_counter()
        ranking = decode(decoder, loaded.space, query, k=asked.k)
        if loaded.space.device.type == "cuda":
            ranking.index.cpu()  # waits for the device
        best = min(best, time.perf_counter() - started)
        if best > 0.1:
            break
    return ranking, best


def _card(figures: Card, k: int, seconds: float, against: str | None) -> None:
    with st.container(border=True):
        cells = st.columns(4 if figures.recall is not None else 3)
        if figures.recall is not None:
            _metric(cells[0], f"Recall@{k}", figures.recall, figures.recall_delta, against)
        _metric(cells[-3], f"ILAD@{k}", figures.ilad, figures.ilad_delta, against)
        cells[-2].metric(
            "Overlap",
            f"{figures.overlap:.0%}",
            "baseline" if against is None else f"with {against}",
            delta_color="off",
            delta_arrow="off",
        )
        cells[-1].metric(
            "Time", f"{1000 * seconds:.1f} ms", f"{figures.returned} returned", delta_color="off", delta_arrow="off"
        )


def _metric(cell: DeltaGenerator, label: str, value: float | None, delta: float | None, against: str | None) -> None:
    shown = "–" if delta is None or against is None else f"{delta:+.3f}" if abs(delta) >= 5e-4 else "±0"
    still = shown in ("–", "±0")
    cell.metric(
        label,
        "–" if value is None else f"{value:.3f}",
        shown,
        delta_color="off" if still else "normal",
        delta_arrow="off" if still else "auto",
        help="Intra-list average distance: mean of 1 − cosine over the pairs returned." if "ILAD" in label else None,
    )


def _table(kept: list[Row], dropped: list[Row], key: str, compared: bool) -> Row | None:
    """The set as a table, what it dropped of the baseline below; returns the row that was clicked."""
    rows = [*kept, *dropped]
    blank = [None] * len(dropped)
    columns = {
        "#": [*(r.rank for r in kept), *blank],
        **({"Change": [*(r.mark for r in kept), *(DROPPED for _ in dropped)]} if compared else {}),
        **({"✓": ["✓" if r.relevant else "" for r in rows]} if any(r.relevant is not None for r in rows) else {}),
        "Document": [r.title or r.text[:200] or r.id for r in rows],
        "Relevance": [r.relevance for r in rows],
        "Nearest": [*(r.similarity for r in kept), *blank],
    }
    event = st.dataframe(
        pd.DataFrame(columns),
        key=key,
        hide_index=True,
        on_select="rerun",
        selection_mode="single-cell",
        height=ROW_HEIGHT * (min(len(rows), MOST_ROWS) + 1) + 2,
        row_height=ROW_HEIGHT,
        placeholder="",
        column_config={
            "#": st.column_config.NumberColumn(width=36),
            "Change": st.column_config.TextColumn(width=84, help="Places gained or lost; NEW and DROPPED documents"),
            "✓": st.column_config.TextColumn(width=32, help="Judged relevant"),
            "Document": st.column_config.TextColumn(width=165 if compared else 245),
            "Relevance": st.column_config.NumberColumn(format="%.3f", width=82, help="Inner product with the query"),
            "Nearest": st.column_config.NumberColumn(
                format="%.3f", width=72, help="Cosine to the most similar document ranked above it"
            ),
        },
    )
    picked = [row for row, _ in event.selection.cells]
    return rows[picked[0]] if picked and picked[0] < len(rows) else None


def _document(row: Row) -> None:
    # Of one height, so that the tables below do not jump from click to click.
    with st.container(border=True, height=170):
        st.text(row.title or row.id)
        st.text(row.text or "(no text)")
        near = "" if row.nearest is None else f", nearest above {row.nearest} at cosine {row.similarity:.3f}"
        st.text(f"id {row.id}, relevance {row.relevance:.4f}, score when picked {row.gain:.4f}{near}")
