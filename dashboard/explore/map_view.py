"""The Map view: the corpus in two dimensions, the retrieved sets on it, and a document's neighbours."""

from functools import partial
from itertools import chain
from typing import Any

import numpy as np
import pandas as pd
import streamlit as st

from dashboard.charts.map import Marks, build_map, build_set_traces, extent_around, full_extent
from dashboard.charts.palette import method_style
from dashboard.components.live_plot import Overlay, Picked, get_picked, is_dark, plot
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

WAY_KEY, HOVER_KEY, COLOUR_KEY, WHOLE_KEY = "map.way", "map.hover", "map.colour", "map.whole"
MAX_LASSO_ROWS = 200
"""Listed documents of a lasso; the download has all."""


def draw_options(answers: dict[str, Answer], baseline: str) -> None:
    """Draw the options of the Map view: its projection to two dimensions, and reading on hover.

    The arguments, which all views' options take, are not used.
    """
    choose("Projection", MAP_WAYS, WAY_KEY)
    st.toggle("Read on hover", key=HOVER_KEY, persist_state="session", help="Otherwise a click opens a document.")


def draw_map_view(loaded: Loaded, question: Question, answers: dict[str, Answer], baseline: str) -> None:
    """Draw the map with every decoder's documents, and beside it the clicked document or the lasso's."""
    map_column, side_column = st.columns([5, 2], gap="medium")
    with side_column, st.container(horizontal=True, vertical_alignment="bottom"):
        colour = select("Colour by", [NO_COLOUR, CLUSTER_COLOUR, *loaded.space.corpus.metadata], COLOUR_KEY)
        st.toggle("Whole corpus", key=WHOLE_KEY, persist_state="session", help="Otherwise zoomed to the result sets.")
    with map_column:
        corpus_map = get_map(loaded, MAP_WAYS[st.session_state.get(WAY_KEY) or next(iter(MAP_WAYS))])
        if corpus_map is None:
            return
        selection = _draw_map(loaded, question, answers, corpus_map, colour)
        st.caption(_describe_view(corpus_map))
    with side_column:
        _draw_selection(loaded, selection)


def _draw_map(loaded: Loaded, question: Question, answers: dict[str, Answer], chart: CorpusMap, colour: str) -> Picked:
    """Draw the map with the query, every decoder's documents and the relevant ones; return the clicks.

    chart: the corpus in two dimensions; colour: the column by which documents are coloured. The overlay is
    drawn by the browser, with a fallback for browsers that cannot.
    """
    key = f"map.{loaded.space.embeddings.digest[:12]}"  # clicks on one corpus are meaningless on another
    corpus, layout, dark = loaded.space.corpus, chart.layout, is_dark()
    judged = question.qrels.relevant(question.id) if question.qrels is not None else ()
    relevant = sorted(corpus.position[doc_id] for doc_id in judged if doc_id in corpus.position)
    sets = {name: answer.ranking.rows() for name, answer in answers.items()}
    row_sets = set(chain.from_iterable(sets.values()))
    clicked = _parse_row(loaded, get_picked(key).clicked)
    # The clicked document first, then its nearest neighbours.
    near = [] if clicked is None else [clicked, *(row for row, _ in _find_neighbours(loaded, clicked))]
    places = _locate_rows(loaded, layout, sorted({*relevant, *near, *row_sets}))
    query = place_query(loaded.space, question, layout)

    def marks(rows: list[int]) -> Marks:
        """Return the documents of these rows with their places and titles, to be highlighted."""
        xy = np.array(list(map(places.__getitem__, rows)), dtype=float).reshape(-1, 2)
        return Marks(xy, list(map(str, rows)), [name_document(loaded, row_index) for row_index in rows])

    all_marks = bool(st.session_state.get(WHOLE_KEY))
    marked = [query, *map(places.__getitem__, row_sets)]
    extent = full_extent(layout.points) if all_marks else _get_extent(question, layout, marked)
    grouped = colour in corpus.metadata and isinstance(colouring(corpus.metadata[colour]), Groups)
    figure = build_map(None if clicked is None else (places[clicked], marks(near[1:])), extent, grouped, dark)
    figure["layout"]["uirevision"] = f"{layout.digest} {all_marks} {query_digest(question)}"
    traces, overlay_sets = [], []
    for name, answer in answers.items():
        traces.append((answer.name, answer.title, marks(sets[name])))
        overlay_sets.append(_mark_set(name, answer, sets[name]))
    clustering = chart.clusters
    clusters = zip(clustering.centres.tolist(), clustering.sizes.tolist(), clustering.names, strict=True)
    # A sampled map lacks some documents of the sets: the overlay adds them.
    unmapped = sorted({*relevant, *row_sets}.difference(layout.rows.tolist())) if layout.sampled else []
    return plot(
        figure,
        key,
        backdrop=build_backdrop(loaded, chart, dark, colour),
        overlay=Overlay(
            {
                "query": query_key(loaded, question),
                "place": query.tolist(),
                "sets": overlay_sets,
                "relevant": relevant,
                "places": {str(row): [*places[row].tolist(), name_document(loaded, row)] for row in unmapped},
                "clusters": [[*centre, size_text, shorten(name, 28)] for centre, size_text, name in clusters if name],
                "prefix": chart.prefix,
            },
            build_set_traces(traces, query, marks(relevant) if relevant else None, dark),
        ),
        select=True,
        hover=bool(st.session_state.get(HOVER_KEY)),
        scroll=True,
        file="map",
        label="Map of the corpus",
    )


def _get_extent(question: Question, layout: maps.Layout, marked: list[np.ndarray]) -> np.ndarray:
    """Return the corners of a map that shows everything marked for this query so far, (2, 2).

    marked: positions of the query and the retrieved documents. The extent only grows, so that the map stays
    still while a slider moves.
    """
    key = (layout.digest, query_digest(question))
    frames, extent = session_memo("map.frames", MAX_PLACES), np.stack(marked)
    frames[key] = np.concatenate([extent, frames[key]]) if key in frames else extent
    # Two corners are enough to grow the extent later.
    frames[key] = np.stack([frames[key].min(0), frames[key].max(0)])
    return extent_around(layout.points, frames[key])


def _mark_set(name: str, answer: Answer, rows: list[int]) -> dict[str, Any]:
    """Return a decoder's documents with its colour and symbol as a dict, for the browser's overlay.

    rows: of the documents in the corpus
    """
    style = method_style(answer.name)
    mark_style = {"sign": style.sign, "symbol": style.symbol, "light": style.light, "dark": style.dark}
    return {"key": name, "title": answer.title, "rows": rows, **mark_style}


def _locate_rows(loaded: Loaded, layout: maps.Layout, rows: list[int]) -> dict[int, np.ndarray]:
    """Return each document's position on the map, row → (2,).

    A sampled map lacks some documents: they are placed now, and remembered.
    """
    # The cached dict itself is extended below.
    places: dict[int, np.ndarray] = get_or_compute("map.places", layout.digest, dict, max_entries=1)
    if missing := [row_index for row_index in rows if row_index not in places]:
        with jobs.page_turn():
            places |= dict(zip(missing, maps.find_positions(layout, loaded.space, missing), strict=True))
    return places


def _parse_row(loaded: Loaded, point_id: str | None) -> int | None:
    """Return the corpus row of a clicked point from its id; None for no point, or one of another corpus."""
    row_index = None if point_id is None else int(point_id)
    return row_index if row_index is not None and row_index < len(loaded.space) else None


def _find_neighbours(loaded: Loaded, row_index: int) -> list[tuple[int, float]]:
    """Return the documents nearest to one, as (row, similarity); the last result is cached."""
    key = (loaded.space.embeddings.digest, row_index)
    return get_or_compute("near", key, lambda: maps.find_neighbours(loaded.space, row_index, N_NEAREST), max_entries=1)


def _describe_view(chart: CorpusMap) -> str:
    """Describe the map in a line: its projection, its size, and how faithful it is."""
    layout, size_text = chart.layout, f"{chart.layout.of:,} documents"
    # A large corpus is mapped by a sample, which the caption must say.
    if layout.sampled:
        size_text = f"a random {len(layout):,} of {size_text}; result sets are always shown"
    return (
        f"{describe_map(layout)}: {size_text}. The map keeps {chart.fidelity:.0%} of each document's {N_NEAREST} "
        "nearest neighbours. Distances between clusters are not meaningful."
    )


def _draw_selection(loaded: Loaded, selection: Picked) -> None:
    """Draw, beside the map, the documents inside the lasso, or the clicked or hovered one and neighbours.

    selection: what the map's browser component reports
    """
    if selection.selected:
        _list_documents(loaded, [int(row) for row in selection.selected if int(row) < len(loaded.space)])
        return
    hovering = st.session_state.get(HOVER_KEY) and selection.hovered is not None
    row = _parse_row(loaded, selection.hovered if hovering else selection.clicked)
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
    neighbours = _find_neighbours(loaded, row)
    st.caption(f"The {len(neighbours)} nearest in the embedding space")
    names, similarities = [], []
    for neighbour, similarity in neighbours:
        names.append(name_document(loaded, neighbour))
        similarities.append(similarity)
    columns = {"Document": (names, None), "Similarity": (similarities, number_column("%.3f", 80))}
    draw_columns(columns, height=330)


def _list_documents(loaded: Loaded, rows: list[int]) -> None:
    """Draw a list of the documents inside the lasso (rows of the corpus), and their downloads."""
    corpus = loaded.space.corpus
    st.text(f"{len(rows):,} documents inside")
    st.caption("Double-click to clear the selection.")
    # Texts of files may have lone surrogates, which a download cannot encode.
    doc_ids, names, texts = [], [], []
    for row_index in rows:
        doc_ids.append(replace_surrogates(corpus.ids[row_index]))
        names.append(name_document(loaded, row_index))
        texts.append(replace_surrogates(corpus.passages[row_index]))
    table = pd.DataFrame({"id": doc_ids, "Document": names})
    draw_table(table.head(MAX_LASSO_ROWS), height=min(400, 38 + 35 * len(table)))
    if len(rows) > MAX_LASSO_ROWS:
        st.caption(f"The first {MAX_LASSO_ROWS} are listed.")
    with st.container(horizontal=True):
        lines = "".join(f"{doc_id}\n" for doc_id in doc_ids)
        st.download_button("Ids (.txt)", lines, "documents.ids.txt", "text/plain", key="map.ids")
        build_csv = partial(format_csv, pd.DataFrame({"id": doc_ids, "text": texts}))
        st.download_button("Ids and texts (.csv)", build_csv, "documents.csv", "text/csv", key="map.csv")
