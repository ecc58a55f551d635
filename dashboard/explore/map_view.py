"""The Map view: the corpus in two dimensions, the retrieved sets on it, and a document's neighbours."""

from functools import partial
from itertools import chain
from typing import Any

import numpy as np
import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from dashboard.charts.map import Marks, build_map, build_set_traces, extent_around, full_extent
from dashboard.charts.palette import method_style
from dashboard.components.live_plot import Overlay, Picked, get_picked, is_dark, plot
from dashboard.services import jobs
from dashboard.services.memo import get_or_compute, session_memo
from dashboard.services.source import Loaded
from dashboard.session.answers import Answer
from dashboard.session.query import SIMILAR, Question, query_key, select_query
from dashboard.widgets.basics import step_button
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
    find_moved,
    get_map,
    move_documents,
    name_clusters,
    place_query,
    query_digest,
)
from dashboard.widgets.tables import draw_columns, draw_table, number_column
from engine.evaluation.tables import format_csv
from engine.maps import layout as maps
from engine.progress import counted
from engine.values import replace_surrogates
from engine.views.colouring import Groups, colouring
from engine.views.names import format_heading, name_document

WAY_KEY, HOVER_KEY, COLOUR_KEY, WHOLE_KEY = "map.way", "map.hover", "map.colour", "map.whole"
CORPUS_COLOUR_KEY = "map.corpus.colour"
"""Session key of the colours of a map without a query, on which clusters help most."""
HELP_TEXT = "Click a document to read it and to see its nearest neighbours. Draw a lasso to list and export documents."
# The map has the whole width until something is picked: its controls lie over its corner, below the tool bar. While it
# is computed a progress with its Cancel button is there, which they must not cover.
MAP_CSS = """<style>
@media (min-width: 1024px) {
  .st-key-map-view:not(:has([data-testid=stProgress],
    .st-key-map-side :is([data-testid=stDataFrame], [data-testid=stText]))) {
    [data-testid=stHorizontalBlock]:has(> .stColumn) {position: relative}
    .stColumn:first-child {flex: 1 1 100%; width: 100%}
    .stColumn:has(.st-key-map-side) {position: absolute; z-index: 5; right: 0; top: 2rem; width: 23rem;
      padding: .25rem .75rem .5rem; border-radius: .5rem; background: light-dark(#ffffffe6, #191916e6)}
  }
}
</style>"""
MAX_LASSO_ROWS = 200
"""Listed documents of a lasso; the download has all."""


def draw_options(answers: dict[str, Answer], baseline: str) -> None:
    """Draw the options of the Map view: its projection to two dimensions, and reading on hover.

    The arguments, which all views' options take, are not used.
    """
    choose("Projection", MAP_WAYS, WAY_KEY)
    st.toggle("Read on hover", key=HOVER_KEY, persist_state="session", help="Otherwise a click opens a document.")


def draw_map_view(loaded: Loaded, question: Question, answers: dict[str, Answer], baseline: str) -> None:
    """Draw the map with every decoder's documents, and beside it the clicked document or the lasso's.

    baseline: unused, as every view of the answers is called alike
    """
    map_column, side_column = _split_page()
    with side_column, st.container(horizontal=True, vertical_alignment="bottom"):
        colour = select("Colour by", [NO_COLOUR, CLUSTER_COLOUR, *loaded.space.corpus.metadata], COLOUR_KEY)
        st.toggle("Whole corpus", key=WHOLE_KEY, persist_state="session", help="Otherwise zoomed to the result sets.")
    with map_column:
        # A vote moves documents on the map of the corpus as embedded: another map would have another shape and names.
        corpus_map = get_map(loaded.origin, MAP_WAYS[st.session_state.get(WAY_KEY) or next(iter(MAP_WAYS))])
        if corpus_map is None:
            return
        selection = _draw_map(loaded, question, answers, corpus_map, colour)
        st.caption(f"{_describe_view(corpus_map, loaded.embedded is not None)} {HELP_TEXT}")
    with side_column:
        _draw_selection(loaded, selection)


def _split_page() -> tuple[DeltaGenerator, DeltaGenerator]:
    """Return the places of a map, and of its controls, which lie over it on a wide screen until something is picked."""
    st.html(MAP_CSS)
    with st.container(key="map.view"):
        map_column, side_column = st.columns([5, 2], gap="medium")
    return map_column, side_column.container(key="map.side")


def draw_corpus_map(loaded: Loaded) -> None:
    """Draw the map of all documents before any query, coloured by cluster, and the clicked document beside it."""
    map_column, side_column = _split_page()
    with side_column:
        colour = select("Colour by", [CLUSTER_COLOUR, NO_COLOUR, *loaded.space.corpus.metadata], CORPUS_COLOUR_KEY)
    with map_column:
        chart = get_map(loaded.origin, next(iter(MAP_WAYS.values())))
        if chart is None:
            return
        key, dark = f"map.corpus.{loaded.origin.space.embeddings.digest[:12]}", is_dark()
        values = loaded.space.corpus.metadata.get(colour)
        # Clusters have their names on the map, and need no legend.
        is_grouped = values is not None and isinstance(colouring(values), Groups)
        figure = build_map(None, full_extent(chart.layout.points), is_grouped, dark)
        figure["layout"]["uirevision"] = chart.layout.digest
        # Names of clusters lie in the same overlay as sets, of which there are none yet.
        data = {"query": key, "place": None, "sets": [], "relevant": [], "places": {}, **name_clusters(chart)}
        moved_chart = move_documents(chart, find_moved(loaded, chart.layout))
        backdrop, overlay = build_backdrop(loaded, moved_chart, dark, colour), Overlay(data, ())
        options: dict[str, Any] = {"select": True, "scroll": True, "file": "map", "label": "Map of the corpus"}
        selection = plot(figure, key, backdrop=backdrop, overlay=overlay, **options)
        st.caption(f"{_describe_view(chart, loaded.embedded is not None)} {HELP_TEXT}")
    with side_column:
        row = None if selection.selected else _parse_row(loaded, selection.clicked)
        if row is not None:
            # As a query by its id: that needs no encoder, and the document is left out of its answers.
            arguments = (loaded, SIMILAR, None, replace_surrogates(loaded.space.corpus.ids[row]))
            step_button("Search like this", "map.similar", select_query, *arguments, icon=":material/search:")
        _draw_selection(loaded, selection)


def _draw_map(loaded: Loaded, question: Question, answers: dict[str, Answer], chart: CorpusMap, colour: str) -> Picked:
    """Draw the map with the query, every decoder's documents and the relevant ones; return the clicks.

    chart: the corpus in two dimensions; colour: the column by which documents are coloured. The decoders' documents are
    an overlay, which the browser draws over the corpus and changes while a slider moves; traces stand in for it in
    browsers that cannot.
    """
    key = f"map.{loaded.origin.space.embeddings.digest[:12]}"  # clicks on one corpus are meaningless on another
    corpus, layout, dark = loaded.space.corpus, chart.layout, is_dark()
    relevant_ids = question.qrels.relevant(question.id) if question.qrels is not None else ()
    relevant = sorted(corpus.position[doc_id] for doc_id in relevant_ids if doc_id in corpus.position)
    sets = {name: answer.ranking.rows() for name, answer in answers.items()}
    row_sets = set(chain.from_iterable(sets.values()))
    clicked_row = _parse_row(loaded, get_picked(key).clicked)
    near_rows = [] if clicked_row is None else [row for row, _ in _find_neighbours(loaded, clicked_row)]
    drawn_rows = {*relevant, *near_rows, *row_sets, *([] if clicked_row is None else [clicked_row])}
    # Row of the corpus → position on the map.
    moved = find_moved(loaded, layout)
    places = _locate_rows(loaded, layout, sorted(drawn_rows)) | moved
    query = place_query(loaded.origin.space, question, layout)

    def marks(rows: list[int]) -> Marks:
        """Return the documents of these rows with their places and titles, to be highlighted."""
        xy = np.array(list(map(places.__getitem__, rows)), dtype=float).reshape(-1, 2)
        return Marks(xy, list(map(str, rows)), [name_document(corpus, row_index) for row_index in rows])

    # Either the full corpus is visible, or the map is zoomed to what was retrieved.
    shows_corpus = bool(st.session_state.get(WHOLE_KEY))
    marked = [query, *map(places.__getitem__, row_sets)]
    extent = full_extent(layout.points) if shows_corpus else _get_extent(question, layout, marked)
    is_grouped = colour in corpus.metadata and isinstance(colouring(corpus.metadata[colour]), Groups)
    near = None if clicked_row is None else (places[clicked_row], marks(near_rows))
    figure = build_map(near, extent, is_grouped, dark)
    figure["layout"]["uirevision"] = f"{layout.digest} {shows_corpus} {query_digest(question)}"
    traces, overlay_sets = [], []
    for name, answer in answers.items():
        traces.append((answer.name, answer.title, marks(sets[name])))
        overlay_sets.append(_mark_set(name, answer, sets[name]))
    # A sampled map lacks some documents of the sets: the overlay adds them.
    unmapped = sorted({*relevant, *row_sets}.difference(layout.rows.tolist())) if layout.sampled else []
    return plot(
        figure,
        key,
        backdrop=build_backdrop(loaded, move_documents(chart, moved), dark, colour),
        overlay=Overlay(
            {
                "query": query_key(loaded, question),
                "place": query.tolist(),
                "sets": overlay_sets,
                "relevant": relevant,
                "places": {str(row): [*places[row].tolist(), name_document(corpus, row)] for row in unmapped},
                **name_clusters(chart),
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
    cached_corners, positions = session_memo("map.frames", MAX_PLACES), np.stack(marked)
    if key in cached_corners:
        positions = np.concatenate([positions, cached_corners[key]])
    # Two corners are enough to grow the extent later.
    cached_corners[key] = corners = np.stack([positions.min(0), positions.max(0)])
    return extent_around(layout.points, corners)


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
        with jobs.limit_page_computations():
            places |= dict(zip(missing, maps.find_positions(layout, loaded.origin.space, missing), strict=True))
    return places


def _parse_row(loaded: Loaded, point_id: str | None) -> int | None:
    """Return the corpus row of a clicked point from its id; None for no point, or one of another corpus."""
    row_index = None if point_id is None else int(point_id)
    return row_index if row_index is not None and row_index < len(loaded.space) else None


def _find_neighbours(loaded: Loaded, row_index: int) -> list[tuple[int, float]]:
    """Return the documents nearest to one, as (row, similarity); the last result is cached."""
    key = (loaded.space.embeddings.digest, row_index)
    return get_or_compute("near", key, lambda: maps.find_neighbours(loaded.space, row_index, N_NEAREST), max_entries=1)


def _describe_view(chart: CorpusMap, is_moved: bool) -> str:
    """Describe the map in a line: its projection, its size, and how faithful it is; is_moved: by feedback."""
    moved_text = "; laid out as embedded, with the documents where votes have moved them" if is_moved else ""
    layout, size_text = chart.layout, f"{counted(chart.layout.of, 'document')}"
    # A large corpus is mapped by a sample, which the caption must say.
    if layout.sampled:
        size_text = f"a random {len(layout):,} of {size_text}; result sets are always shown"
    return (
        f"{describe_map(layout)}: {size_text}{moved_text}. The map keeps {chart.fidelity:.0%} of each document's "
        f"{N_NEAREST} nearest neighbours. Distances between clusters are not meaningful."
    )


def _draw_selection(loaded: Loaded, selection: Picked) -> None:
    """Draw, beside the map, the documents inside the lasso, or the clicked or hovered one and neighbours.

    selection: what the map's browser component reports
    """
    if selection.selected:
        _list_documents(loaded, [int(row) for row in selection.selected if int(row) < len(loaded.space)])
        return
    # With "Read on hover" the document under the mouse comes before the clicked one.
    hovering = st.session_state.get(HOVER_KEY) and selection.hovered is not None
    row = _parse_row(loaded, selection.hovered if hovering else selection.clicked)
    if row is None:
        return
    corpus = loaded.space.corpus
    with st.container(border=True, height=170, gap="xxsmall"):
        st.text(format_heading(corpus, row))
        st.text(replace_surrogates(corpus.passages[row]) or "(no text)")
    neighbours = _find_neighbours(loaded, row)
    st.caption(f"The {len(neighbours)} nearest in the embedding space")
    names, similarities = [], []
    for neighbour, similarity in neighbours:
        names.append(name_document(loaded.space.corpus, neighbour))
        similarities.append(similarity)
    columns = {"Document": (names, None), "Cosine": (similarities, number_column("%.3f", 80))}
    draw_columns(columns, height=330)


def _list_documents(loaded: Loaded, rows: list[int]) -> None:
    """Draw a list of the documents inside the lasso (rows of the corpus), and their downloads."""
    corpus = loaded.space.corpus
    st.text(f"{counted(len(rows), 'document')} inside")
    st.caption("Double-click to clear the selection.")
    # Texts of files may have lone surrogates, which a download cannot encode.
    doc_ids, names, texts = [], [], []
    for row_index in rows:
        doc_ids.append(replace_surrogates(corpus.ids[row_index]))
        names.append(name_document(loaded.space.corpus, row_index))
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
