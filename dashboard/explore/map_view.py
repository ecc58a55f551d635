"""The Map view: the corpus in two dimensions, the retrieved sets on it, and a document's neighbours."""

import numpy as np
import pandas as pd
import streamlit as st

from dashboard.charts.map import Marks, map_figure
from dashboard.components.live_plot import Picked, is_dark, picked, plot
from dashboard.services import jobs
from dashboard.services.memo import remembered
from dashboard.services.source import Loaded
from dashboard.session.answers import Answer
from dashboard.session.query import Question
from dashboard.widgets.choices import choose
from dashboard.widgets.map import NEAREST, WAYS, backdrop, describe, document_name, layout_of, query_place
from dashboard.widgets.tables import draw_columns, draw_table, number_column
from engine.evaluation.tables import as_csv
from engine.maps import layout as maps
from engine.values import replace_surrogates

WAY, HOVER = "map.way", "map.hover"
MOST_LISTED = 200
"""Documents inside a lasso that are listed; the download holds all."""


def options(answers: dict[str, Answer], baseline: str) -> None:
    """Draw the choice of projection, and whether the mouse opens documents."""
    choose("Projection", WAYS, WAY)
    why = "Shows the document under the mouse; otherwise the one clicked."
    st.toggle("Read under the mouse", key=HOVER, persist_state="session", help=why)


def show(loaded: Loaded, question: Question, answers: dict[str, Answer], baseline: str) -> None:
    """Draw the map with every decoder's set, and beside it the document or lasso that was pointed at."""
    left, right = st.columns([5, 2], gap="medium")
    with left:
        result = layout_of(loaded, WAYS[st.session_state.get(WAY) or next(iter(WAYS))])
        if result is None:
            return
        selection = _draw(loaded, question, answers, result[0], bool(st.session_state.get(HOVER)))
        st.caption(_description(*result))
    with right:
        _show_selection(loaded, selection)


def _draw(loaded: Loaded, question: Question, answers: dict[str, Answer], layout: maps.Layout, hover: bool) -> Picked:
    key = f"map.{loaded.space.embeddings.digest[:12]}"  # what was clicked on one corpus means nothing on another
    corpus = loaded.space.corpus
    judged = question.qrels.relevant(question.id) if question.qrels is not None else ()
    relevant = sorted(corpus.position[doc] for doc in judged if doc in corpus.position)
    sets = [answer.ranking.rows() for answer in answers.values()]
    clicked = _row(loaded, picked(key).clicked)
    near = [] if clicked is None else [clicked, *(row for row, _ in _neighbours(loaded, clicked))]
    places = _places(loaded, layout, sorted({*relevant, *near, *(row for rows in sets for row in rows)}))

    def marks(rows: list[int]) -> Marks:
        xy = np.array([places[row] for row in rows], dtype=float).reshape(-1, 2)
        return Marks(xy, [str(row) for row in rows], [document_name(loaded, row) for row in rows])

    figure = map_figure(
        [(answer.name, answer.title, marks(rows)) for answer, rows in zip(answers.values(), sets, strict=True)],
        layout.points,
        query_place(loaded.space, question, layout),
        marks(relevant) if relevant else None,
        None if clicked is None else (places[clicked], marks(near[1:])),
        is_dark(),
    )
    figure["layout"]["uirevision"] = layout.digest
    return plot(
        figure,
        key,
        backdrop=backdrop(loaded, layout, is_dark()),
        select=True,
        hover=hover,
        scroll=True,
        file="map",
        label="Map of the corpus",
    )


def _places(loaded: Loaded, layout: maps.Layout, rows: list[int]) -> dict[int, np.ndarray]:
    """Places of documents; those that a sampled map lacks are computed once."""
    places: dict[int, np.ndarray] = remembered("map.places", layout.digest, dict, entries=1)
    if missing := [row for row in rows if row not in places]:
        with jobs.turn():
            places |= dict(zip(missing, maps.positions(layout, loaded.space, missing), strict=True))
    return places


def _row(loaded: Loaded, ident: str | None) -> int | None:
    """The document of a point; None for no point, or one of another corpus."""
    row = None if ident is None else int(ident)
    return row if row is not None and row < len(loaded.space) else None


def _neighbours(loaded: Loaded, row: int) -> list[tuple[int, float]]:
    """(row, similarity) of the nearest documents; the last result is kept."""
    key = (loaded.space.embeddings.digest, row)
    return remembered("near", key, lambda: maps.neighbours(loaded.space, row, NEAREST), entries=1)


def _description(layout: maps.Layout, fidelity: float) -> str:
    """The caption of the map: its projection, its size, and how far it can be trusted."""
    size = f"{layout.of:,} documents"
    if layout.sampled:
        size = f"{len(layout):,} of {size}, drawn at random; retrieved ones are always shown"
    return (
        f"{describe(layout)}: {size}. Of a document's up to {NEAREST} nearest in the embedding space "
        f"{fidelity:.0%} are among as many here; distances between clusters mean little. Symbols of later "
        "decoders are larger."
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
            "Click a document to read it and to see what is nearest to it in the embedding space; draw a lasso to list "
            "and export what lies inside. The wheel zooms."
        )
        return
    corpus = loaded.space.corpus
    with st.container(border=True, height=170, gap="xxsmall"):
        st.text(replace_surrogates(corpus.ids[row]))
        st.text(replace_surrogates(corpus.passages[row]) or "(no text)")
    neighbours = _neighbours(loaded, row)
    st.caption(f"The {len(neighbours)} nearest in the embedding space")
    names = [document_name(loaded, other) for other, _ in neighbours]
    similarities = [similarity for _, similarity in neighbours], number_column("%.3f", 80)
    draw_columns({"Document": (names, None), "Similarity": similarities}, height=330)


def _list_documents(loaded: Loaded, rows: list[int]) -> None:
    """Draw the documents inside the lasso, and their downloads."""
    corpus = loaded.space.corpus
    st.text(f"{len(rows):,} documents inside")
    st.caption("A double click on the map leaves the selection.")
    ids = [replace_surrogates(corpus.ids[row]) for row in rows]
    table = pd.DataFrame({"id": ids, "Document": [document_name(loaded, row) for row in rows]})
    draw_table(table.head(MOST_LISTED), height=min(400, 38 + 35 * len(table)))
    if len(rows) > MOST_LISTED:
        st.caption(f"The first {MOST_LISTED} are listed.")
    with st.container(horizontal=True):
        lines = "".join(f"{ident}\n" for ident in ids)
        st.download_button("Ids (.txt)", lines, "documents.ids.txt", "text/plain", key="map.ids")
        texts = pd.DataFrame({"id": ids, "text": [replace_surrogates(corpus.passages[row]) for row in rows]})
        st.download_button("Ids and texts (.csv)", lambda: as_csv(texts), "documents.csv", "text/csv", key="map.csv")
