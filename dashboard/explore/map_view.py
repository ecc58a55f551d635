"""The Map view: the corpus in two dimensions, the retrieved sets on it, and a document's neighbours."""

from typing import Any

import numpy as np
import pandas as pd
import streamlit as st

from dashboard.charts.map import Marks, around, map_figure, set_traces, whole
from dashboard.charts.palette import style_of
from dashboard.components.live_plot import Overlay, Picked, is_dark, picked, plot
from dashboard.services import jobs
from dashboard.services.memo import get_or_compute, session_memo
from dashboard.services.source import Loaded
from dashboard.session.answers import Answer
from dashboard.session.query import Question, query_key
from dashboard.widgets.choices import choose, select
from dashboard.widgets.map import (
    CLUSTER_COLOUR,
    MAP_WAYS,
    MAX_PLACES,
    N_NEAREST,
    NO_COLOUR,
    CorpusMap,
    build_backdrop,
    describe_map,
    get_map,
    name_document,
    place_query,
    query_digest,
)
from dashboard.widgets.tables import draw_columns, draw_table, number_column
from engine.evaluation.tables import format_csv
from engine.maps import layout as maps
from engine.progress import shorten
from engine.values import replace_surrogates
from engine.views.colouring import Groups, colouring
from engine.wording import visible

WAY, HOVER, COLOUR, WHOLE = "map.way", "map.hover", "map.colour", "map.whole"
MOST_LISTED = 200
"""Documents inside a lasso that are listed; the download holds all."""


def options(answers: dict[str, Answer], baseline: str) -> None:
    """Draw the choice of projection, and whether the mouse opens documents."""
    choose("Projection", MAP_WAYS, WAY)
    st.toggle("Read on hover", key=HOVER, persist_state="session", help="Otherwise a click opens a document.")


def show(loaded: Loaded, question: Question, answers: dict[str, Answer], baseline: str) -> None:
    """Draw the map with every decoder's set, and beside it the document or lasso that was pointed at."""
    left, right = st.columns([5, 2], gap="medium")
    with right, st.container(horizontal=True, vertical_alignment="bottom"):
        colour = select("Colour by", [NO_COLOUR, CLUSTER_COLOUR, *loaded.space.corpus.metadata], COLOUR)
        st.toggle("Whole corpus", key=WHOLE, persist_state="session", help="Otherwise zoomed to the result sets.")
    with left:
        drawn = get_map(loaded, MAP_WAYS[st.session_state.get(WAY) or next(iter(MAP_WAYS))])
        if drawn is None:
            return
        selection = _draw(loaded, question, answers, drawn, colour)
        st.caption(_description(drawn))
    with right:
        _show_selection(loaded, selection)


def _draw(loaded: Loaded, question: Question, answers: dict[str, Answer], drawn: CorpusMap, colour: str) -> Picked:
    key = f"map.{loaded.space.embeddings.digest[:12]}"  # what was clicked on one corpus means nothing on another
    corpus, layout, dark = loaded.space.corpus, drawn.layout, is_dark()
    judged = question.qrels.relevant(question.id) if question.qrels is not None else ()
    relevant = sorted(corpus.position[doc] for doc in judged if doc in corpus.position)
    sets = {name: answer.ranking.rows() for name, answer in answers.items()}
    retrieved = {row for rows in sets.values() for row in rows}
    clicked = _row(loaded, picked(key).clicked)
    near = [] if clicked is None else [clicked, *(row for row, _ in _neighbours(loaded, clicked))]
    places = _places(loaded, layout, sorted({*relevant, *near, *retrieved}))
    query = place_query(loaded.space, question, layout)

    def marks(rows: list[int]) -> Marks:
        xy = np.array([places[row] for row in rows], dtype=float).reshape(-1, 2)
        return Marks(xy, [str(row) for row in rows], [name_document(loaded, row) for row in rows])

    everything = bool(st.session_state.get(WHOLE))
    marked = [query, *(places[row] for row in retrieved)]
    shown = whole(layout.points) if everything else _shown(question, layout, marked)
    grouped = colour in corpus.metadata and isinstance(colouring(corpus.metadata[colour]), Groups)
    figure = map_figure(None if clicked is None else (places[clicked], marks(near[1:])), shown, grouped, dark)
    figure["layout"]["uirevision"] = f"{layout.digest} {everything} {query_digest(question)}"
    traces = [(answer.name, answer.title, marks(sets[name])) for name, answer in answers.items()]
    found = drawn.clusters
    clusters = zip(found.centres.tolist(), found.sizes.tolist(), found.names, strict=True)
    unmapped = sorted({*relevant, *retrieved}.difference(layout.rows.tolist())) if layout.sampled else []
    return plot(
        figure,
        key,
        backdrop=build_backdrop(loaded, drawn, dark, colour),
        overlay=Overlay(
            {
                "query": query_key(loaded, question),
                "place": query.tolist(),
                "sets": [_set(name, answer, sets[name]) for name, answer in answers.items()],
                "relevant": relevant,
                "places": {str(row): [*places[row].tolist(), name_document(loaded, row)] for row in unmapped},
                "clusters": [[*centre, size, shorten(name, 28)] for centre, size, name in clusters if name],
                "prefix": drawn.prefix,
            },
            set_traces(traces, query, marks(relevant) if relevant else None, dark),
        ),
        select=True,
        hover=bool(st.session_state.get(HOVER)),
        scroll=True,
        file="map",
        label="Map of the corpus",
    )


def _shown(question: Question, layout: maps.Layout, marked: list[np.ndarray]) -> np.ndarray:
    """(2, 2) the corners of the map that hold everything marked for a query so far: a slider moves no ground."""
    key = (layout.digest, query_digest(question))
    frames, now = session_memo("map.frames", MAX_PLACES), np.stack(marked)
    frames[key] = np.concatenate([now, frames[key]]) if key in frames else now
    frames[key] = np.stack([frames[key].min(0), frames[key].max(0)])
    return around(layout.points, frames[key])


def _set(name: str, answer: Answer, rows: list[int]) -> dict[str, Any]:
    """A decoder's set, as the overlay takes it."""
    style = style_of(answer.name)
    look = {"sign": style.sign, "symbol": style.symbol, "light": style.light, "dark": style.dark}
    return {"key": name, "title": answer.title, "rows": rows, **look}


def _places(loaded: Loaded, layout: maps.Layout, rows: list[int]) -> dict[int, np.ndarray]:
    """Places of documents; those that a sampled map lacks are computed once."""
    places: dict[int, np.ndarray] = get_or_compute("map.places", layout.digest, dict, max_entries=1)
    if missing := [row for row in rows if row not in places]:
        with jobs.page_turn():
            places |= dict(zip(missing, maps.positions(layout, loaded.space, missing), strict=True))
    return places


def _row(loaded: Loaded, ident: str | None) -> int | None:
    """The document of a point; None for no point, or one of another corpus."""
    row = None if ident is None else int(ident)
    return row if row is not None and row < len(loaded.space) else None


def _neighbours(loaded: Loaded, row: int) -> list[tuple[int, float]]:
    """(row, similarity) of the nearest documents; the last result is kept."""
    key = (loaded.space.embeddings.digest, row)
    return get_or_compute("near", key, lambda: maps.neighbours(loaded.space, row, N_NEAREST), max_entries=1)


def _description(drawn: CorpusMap) -> str:
    """The caption of the map: its projection, its size, and how far it can be trusted."""
    layout, size = drawn.layout, f"{drawn.layout.of:,} documents"
    if layout.sampled:
        size = f"a random {len(layout):,} of {size}; result sets are always shown"
    return (
        f"{describe_map(layout)}: {size}. The map keeps {drawn.fidelity:.0%} of each document's {N_NEAREST} nearest "
        "neighbours. Distances between clusters are not meaningful."
    )


def _show_selection(loaded: Loaded, selection: Picked) -> None:
    """Draw the lasso's documents, or the document clicked (or under the mouse) with its true neighbours."""
    if selection.selected:
        _list_documents(loaded, [int(row) for row in selection.selected if int(row) < len(loaded.space)])
        return
    hovering = st.session_state.get(HOVER) and selection.hovered is not None
    row = _row(loaded, selection.hovered if hovering else selection.clicked)
    if row is None:
        st.caption(
            "Click a document to read it and to see its nearest neighbours. Draw a lasso to list and export documents. "
            "Scroll to zoom."
        )
        return
    corpus = loaded.space.corpus
    with st.container(border=True, height=170, gap="xxsmall"):
        st.text(visible(corpus.ids[row]))
        st.text(replace_surrogates(corpus.passages[row]) or "(no text)")
    neighbours = _neighbours(loaded, row)
    st.caption(f"The {len(neighbours)} nearest in the embedding space")
    names = [name_document(loaded, other) for other, _ in neighbours]
    similarities = [similarity for _, similarity in neighbours], number_column("%.3f", 80)
    draw_columns({"Document": (names, None), "Similarity": similarities}, height=330)


def _list_documents(loaded: Loaded, rows: list[int]) -> None:
    """Draw the documents inside the lasso, and their downloads."""
    corpus = loaded.space.corpus
    st.text(f"{len(rows):,} documents inside")
    st.caption("Double-click to clear the selection.")
    ids = [replace_surrogates(corpus.ids[row]) for row in rows]
    table = pd.DataFrame({"id": ids, "Document": [name_document(loaded, row) for row in rows]})
    draw_table(table.head(MOST_LISTED), height=min(400, 38 + 35 * len(table)))
    if len(rows) > MOST_LISTED:
        st.caption(f"The first {MOST_LISTED} are listed.")
    with st.container(horizontal=True):
        lines = "".join(f"{ident}\n" for ident in ids)
        st.download_button("Ids (.txt)", lines, "documents.ids.txt", "text/plain", key="map.ids")
        texts = pd.DataFrame({"id": ids, "text": [replace_surrogates(corpus.passages[row]) for row in rows]})
        st.download_button(
            "Ids and texts (.csv)", lambda: format_csv(texts), "documents.csv", "text/csv", key="map.csv"
        )
