"""The comparison: decoders and their parameters, a card each, and their sets against the baseline's."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from html import escape

import pandas as pd
import streamlit as st

from dashboard.charts import style_of
from dashboard.controls import stage_controls
from dashboard.explore import weights
from dashboard.explore.question import Asked
from dashboard.state import Loaded
from engine.decoder import Decoder, decode
from engine.stages import Selector, Spec, methods
from engine.values import Embeddings, Ranking
from engine.views import DROPPED, Card, Row, card, diff, missed, trust

MOST_SHOWN = 3
"""So many decoders fit beside each other and stay readable at 1440 pixels."""
MOST_ROWS, ROW_HEIGHT = 24, 32
MOST_NAMED = 6
"""A class of a hundred relevant documents is counted, not listed."""
READING_HEIGHT = 92
"""The reading panel is always there, so that the tables below do not jump at a click."""
METRIC_WIDTHS = {1: 120, 2: 120, MOST_SHOWN: 86}
"""By the number of cards: three figures fit side by side, so that the sets below are on the first screen."""
REPEATS = 3
"""A decoder is timed so often (less if it is slow): a busy machine only ever adds to a time."""


@dataclass(frozen=True)
class Opened:
    """The document being read: for which query, from which method's set, and what was known of it there."""

    query: str
    method: str
    row: Row


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
        help="\n\n".join(
            [f"Up to {MOST_SHOWN} beside each other; changes are marked against {known[names[0]].title}."]
            + [f"**{spec.title}** {spec.summary}" for spec in known.values()]
        ),
    )
    if not chosen:
        st.info("Choose a decoder to see what it retrieves.")
        return
    shown = [n for n in names if n in chosen][:MOST_SHOWN]
    if len(chosen) > MOST_SHOWN:
        st.caption(f"The first {MOST_SHOWN} are shown.")
    first = known[names[0]].cls()
    baseline, baseline_seconds = _decode(loaded, asked, first)
    # Three rows of columns rather than one column a decoder: cards and tables then begin at one height.
    controls, cards = (st.columns(len(shown), gap="medium") for _ in range(2))
    below = st.container()
    sets: dict[str, list[Row]] = {}
    answers: dict[str, tuple[Selector, Ranking]] = {}
    for at, name in enumerate(shown):
        against = None if name == names[0] else known[names[0]].title
        with controls[at]:
            stage = stage_controls(known[name], "explore", partial(_heading, known[name]))
        ranking, seconds = (baseline, baseline_seconds) if stage == first else _decode(loaded, asked, stage)
        with cards[at]:
            figures = card(loaded.space, asked.id, ranking, baseline, asked.qrels, asked.k)
            _card(
                figures,
                asked.k,
                seconds,
                loaded.space.device.type,
                against,
                trust(ranking.info[0]),
                METRIC_WIDTHS[len(shown)],
            )
        answers[name] = (stage, ranking)
    weighted = [name for name in shown if weights.has_path(answers[name][0])]
    with below:
        view = _view(known[name].title for name in weighted)
        if view is not None:
            weights.show(loaded, asked, *answers[weighted[view]])
            return
        reading = st.container(border=True, height=READING_HEIGHT, gap="xxsmall")
        tables = st.columns(len(shown), gap="medium")
    for at, name in enumerate(shown):
        ranking, against = answers[name][1], None if name == names[0] else known[names[0]].title
        with tables[at]:
            kept, dropped = diff(loaded.space, asked.vector, asked.id, ranking, baseline, asked.qrels)
            sets[name] = [*kept, *(dropped if against else [])]
            _table(name, sets[name], len(kept), asked, compared=against is not None)
            _lacking(missed(loaded.space, asked.vector, asked.id, ranking, asked.qrels))
    with reading:
        _document(sets, known, asked)
    hints = [] if asked.judged else ["Without judgements there is no Recall."]
    if asked.depth is not None and asked.depth < asked.k:
        hints.append(f"The pool of {asked.depth} is smaller than k, {asked.k}: no decoder can return more.")
    hints.append(f"Times are of this query alone, the best of up to {REPEATS} runs.")
    st.caption(" ".join(hints))


def _view(weighted: Iterable[str]) -> int | None:
    """Which of the decoders that weigh documents is looked at more closely; None for the sets."""
    views = ["Sets", *(f"Weights of {title}" for title in weighted)]
    if len(views) == 1:
        return None
    chosen = st.segmented_control(
        "View",
        views,
        default=views[0],
        required=True,
        key="view",
        persist_state="session",
        label_visibility="collapsed",
    )
    return views.index(chosen) - 1 if chosen in views[1:] else None


def _lacking(documents: list[tuple[str, int | None]]) -> None:
    """Name the relevant documents that a set lacks, the most relevant first."""
    if documents:
        named = [f"{doc} ({_place(rank)})" for doc, rank in documents[:MOST_NAMED]]
        more = [f"and {len(documents) - MOST_NAMED:,} more"] if len(documents) > MOST_NAMED else []
        st.text("Relevant, not returned: " + ", ".join([*named, *more]))


def _place(rank: int | None) -> str:
    return "not in the corpus" if rank is None else f"{rank:,} by relevance"


def _heading(spec: Spec) -> None:
    style = style_of(spec.name)
    st.html(
        f'<span style="color: light-dark({style.light}, {style.dark}); font-size: 1.2rem">{style.sign}</span> '
        f"<strong>{escape(spec.title)}</strong>"
    )


def _decode(loaded: Loaded, asked: Asked, stage: Selector) -> tuple[Ranking, float]:
    """What a selector retrieves, and the seconds it took: the best of a few, as a busy machine only adds."""
    query = Embeddings(asked.vector.unsqueeze(0), (asked.id,), loaded.space.embeddings.encoder)
    decoder = Decoder(select=stage, depth=asked.depth)
    best = float("inf")
    for run in range(REPEATS):
        started = time.perf_counter()
        ranking = decode(decoder, loaded.space, query, k=asked.k)
        if loaded.space.device.type == "cuda":
            ranking.index.cpu()  # waits for the device
        best = min(best, time.perf_counter() - started)
        # The first run of all may have had something to make ready.
        if best > 1 or (run and best > 0.1):
            break
    return ranking, best


def _card(figures: Card, k: int, seconds: float, device: str, against: str | None, said: str, width: int) -> None:
    milliseconds = 1000 * seconds
    took = f"{milliseconds:.1f} ms" if milliseconds < 10 else f"{milliseconds:,.0f} ms"
    with st.container(border=True, gap="small"):
        with st.container(horizontal=True, gap="xxsmall"):
            if figures.recall is not None:
                _metric(f"Recall@{k}", figures.recall, figures.recall_delta, against, width)
            _metric(f"ILAD@{k}", figures.ilad, figures.ilad_delta, against, width)
            st.metric(
                "Overlap",
                f"{figures.overlap:.0%}",
                "baseline" if against is None else f"with {against}",
                delta_color="off",
                delta_arrow="off",
                width=width,
            )
        others = "".join(f" · {title} {value:.3f}" for title, value in figures.others.items())
        short = f"only {figures.returned} returned · " if figures.returned < k else ""
        st.caption(" · ".join(filter(None, [f"{short}{took} on {device}{others}", said])))


def _metric(label: str, value: float | None, delta: float | None, against: str | None, width: int) -> None:
    shown = "–" if delta is None or against is None else f"{delta:+.3f}" if abs(delta) >= 5e-4 else "±0"
    still = shown in ("–", "±0")
    st.metric(
        label,
        "–" if value is None else f"{value:.3f}",
        shown,
        delta_color="off" if still else "normal",
        delta_arrow="off" if still else "auto",
        width=width,
        help="Intra-list average distance: mean of 1 − cosine over the pairs returned." if "ILAD" in label else None,
    )


def _table(name: str, rows: list[Row], kept: int, asked: Asked, compared: bool) -> None:
    """The set as a table, what it dropped of the baseline below; a click opens the document."""
    lost = len(rows) - kept
    columns = {
        "#": [*(r.rank for r in rows[:kept]), *[None] * lost],
        **({"Change": [*(r.mark for r in rows[:kept]), *[DROPPED] * lost]} if compared else {}),
        **({"✓": ["✓" if r.relevant else "" for r in rows]} if any(r.relevant is not None for r in rows) else {}),
        "Document": [r.title or r.text[:200] or r.id for r in rows],
        "Relevance": [r.relevance for r in rows],
        "Nearest": [*(r.similarity for r in rows[:kept]), *[None] * lost],
    }
    event = st.dataframe(
        pd.DataFrame(columns),
        key=f"set.{name}",
        hide_index=True,
        on_select="rerun",
        selection_mode="single-cell",
        height=ROW_HEIGHT * (min(len(rows), MOST_ROWS) + 1) + 2,
        row_height=ROW_HEIGHT,
        placeholder="",
        column_config={
            "#": st.column_config.NumberColumn(width=32),
            "Change": st.column_config.TextColumn(width=78, help="Places gained or lost; NEW and DROPPED documents"),
            "✓": st.column_config.TextColumn(width=28, help="Judged relevant"),
            "Document": st.column_config.TextColumn(width=190 if compared else 268),
            "Relevance": st.column_config.NumberColumn(format="%.3f", width=76, help="Inner product with the query"),
            "Nearest": st.column_config.NumberColumn(
                format="%.3f", width=68, help="Similarity to the most similar document ranked above it"
            ),
        },
    )
    # The grid remembers a place, not a document: only a change of place is a click.
    cells = event.selection.cells
    place = cells[0][0] if cells and cells[0][0] < len(rows) else None
    places = st.session_state.setdefault("places", {})
    if place != places.get(name):
        places[name] = place
        st.session_state["reading"] = None if place is None else Opened(asked.text, name, rows[place])


def _document(sets: dict[str, list[Row]], known: dict[str, Spec], asked: Asked) -> None:
    """The document that was clicked last, for as long as the query stays."""
    opened: Opened | None = st.session_state.get("reading")
    if opened is None or opened.query != asked.text or opened.method not in sets:
        st.caption("Click a row to read the document here.")
        return
    now = next((row for row in sets[opened.method] if row.row == opened.row.row), None)
    row = now or opened.row
    near = "" if row.nearest is None else f" · nearest above: {row.nearest}, similarity {row.similarity:.3f}"
    gone = "" if now else " · no longer in this set"
    scores = f"{known[opened.method].title}, {row.gain:.4f} when picked · relevance {row.relevance:.4f}"
    st.text(f"{row.id} · {scores}{near}{gone}")
    st.text(" ".join(filter(None, [row.title if row.title != row.id else "", row.text])) or "(no text)")
