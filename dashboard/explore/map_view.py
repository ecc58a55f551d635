"""The Map view: the corpus in two dimensions, the retrieved sets on it, and what lies near what is pointed at."""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import streamlit as st

from dashboard import jobs
from dashboard.charts.map import Marks, map_backdrop, map_figure
from dashboard.components.live_plot import Backdrop, Picked, picked, plot
from dashboard.explore.answers import Answer
from dashboard.explore.question import Asked
from dashboard.jobs import Job
from dashboard.parts import watch
from dashboard.state import Loaded
from engine import maps
from engine.evaluation.tables import as_csv
from engine.values import showable

WAYS = {"t-SNE": "tsne", "PCA": "pca"}
WAY, HOVER = "map.way", "map.hover"
QUICK = "pca"
"""What stands in until a slower map is there."""
NEAREST = 10
SHOWN = 200
"""So many documents inside a lasso are listed; the download holds all."""
REMEMBERED = 64
MOST_MAPS = 6

_MAPS: OrderedDict[tuple[str, str], Job] = OrderedDict()
_LOCK = threading.Lock()


def options(answers: dict[str, Answer], baseline: str) -> None:
    """Which projection, and whether the mouse reads."""
    st.segmented_control(
        "Projection",
        list(WAYS),
        default=next(iter(WAYS)),
        required=True,
        key=WAY,
        persist_state="session",
        label_visibility="collapsed",
    )
    st.toggle(
        "Read under the mouse",
        key=HOVER,
        persist_state="session",
        help="Shows the document under the mouse; otherwise the one clicked.",
    )


def show(loaded: Loaded, asked: Asked, answers: dict[str, Answer], baseline: str) -> None:
    """The map with every decoder's set, and beside it what was pointed at."""
    left, right = st.columns([5, 2], gap="medium")
    with left:
        made = layout_of(loaded, WAYS[st.session_state.get(WAY) or next(iter(WAYS))])
        if made is None:
            return
        drawn = _draw(loaded, asked, answers, made[0], bool(st.session_state.get(HOVER)))
        st.caption(_said(*made))
    with right:
        _pointed_at(loaded, drawn)


def layout_of(loaded: Loaded, way: str) -> tuple[maps.Layout, float] | None:
    """The map and how much of the neighbourhoods it keeps; until it is there how far it is, and a quick one."""
    made = _layout(loaded, way)
    if made is None:
        job = _job(loaded, QUICK)
        job.join(2)
        made = job.result
    return made


def _layout(loaded: Loaded, way: str) -> tuple[maps.Layout, float] | None:
    """The map and how much of the neighbourhoods it keeps; until it is there, how far it is."""
    job = _job(loaded, way)
    if job.running:
        job.join(0.15)  # PCA, and what lies on the disk, are there at once
    if job.result is not None:
        return job.result
    if job.running:
        watch(job, "map.cancel", "A map is made once for a corpus, and kept.")
        return None
    if job.error:
        st.error("The map cannot be made.", icon=":material/error:")
        st.text(job.error)
    else:
        st.info("Stopped.", icon=":material/pause:")
    if st.button("Try again" if job.error else "Make the map"):
        with _LOCK:
            _MAPS.pop((loaded.space.embeddings.digest, way), None)
        st.rerun(scope="fragment")
    return None


def _job(loaded: Loaded, way: str) -> Job:
    """One for all sessions that look at this corpus."""
    key = (loaded.space.embeddings.digest, way)
    with _LOCK:
        if key not in _MAPS:
            _MAPS[key] = Job(f"map of {loaded.source.path}", partial(_make, loaded.space, way))
            ended = [k for k, job in _MAPS.items() if not job.running and k != key]
            for old in ended[: max(0, len(_MAPS) - MOST_MAPS)]:
                del _MAPS[old]
        _MAPS.move_to_end(key)
        return _MAPS[key]


def _make(space: Any, way: str, job: Job) -> tuple[maps.Layout, float]:
    layout = maps.layout(space, way, progress=job.report, stop=job.stop)
    return layout, maps.fidelity(layout, space, NEAREST)


def _draw(loaded: Loaded, asked: Asked, answers: dict[str, Answer], layout: maps.Layout, hover: bool) -> Picked:
    dark = st.context.theme.type == "dark"
    corpus = loaded.space.corpus
    relevant = asked.qrels.relevant(asked.id) if asked.qrels is not None else ()
    judged = sorted(corpus.position[doc] for doc in relevant if doc in corpus.position)
    sets = {name: [row for row in own.ranking.index[0].tolist() if row >= 0] for name, own in answers.items()}
    clicked = _row(loaded, picked(_chart(loaded)).clicked)
    near = [] if clicked is None else [row for row, _ in _near(loaded, clicked)]
    wanted = sorted({*judged, *(row for own in sets.values() for row in own), *near} | {clicked} - {None})
    place = _places(loaded, layout, wanted)

    def marks(rows: list[int]) -> Marks:
        xy = np.array([place[row] for row in rows], dtype=float).reshape(-1, 2)
        return Marks(xy, [str(row) for row in rows], [name_of(loaded, row) for row in rows])

    figure = map_figure(
        [(answers[key].name, answers[key].title, marks(rows)) for key, rows in sets.items()],
        layout.points,
        _query_place(loaded, asked, layout),
        marks(judged) if judged else None,
        None if clicked is None else (place[clicked], marks(near)),
        dark,
    )
    under = Backdrop(
        hashlib.sha256(f"{layout.digest} {corpus.digest} {dark}".encode()).hexdigest()[:32],
        lambda: map_backdrop(layout.points, layout.rows, [name_of(loaded, row) for row in layout.rows.tolist()], dark),
    )
    figure["layout"]["uirevision"] = layout.digest
    return plot(
        figure,
        _chart(loaded),
        backdrop=under,
        select=True,
        hover=hover,
        scroll=True,
        file="map",
        label="Map of the corpus",
    )


def _places(loaded: Loaded, layout: maps.Layout, wanted: list[int]) -> dict[int, np.ndarray]:
    """Where documents lie; those that a sampled map lacks are placed once."""
    last = st.session_state.get("map.places")
    if last is None or last[0] != layout.digest:
        last = st.session_state["map.places"] = (layout.digest, {})
    known: dict[int, np.ndarray] = last[1]
    if missing := [row for row in wanted if row not in known]:
        with jobs.turn():
            known |= dict(zip(missing, maps.positions(layout, loaded.space, missing), strict=True))
    return known


def _query_place(loaded: Loaded, asked: Asked, layout: maps.Layout) -> np.ndarray:
    """Where the query lies; nothing else moves for it."""
    memory: OrderedDict[tuple[str, str], np.ndarray] = st.session_state.setdefault("placed", OrderedDict())
    key = (layout.digest, hashlib.sha256(asked.vector.numpy().tobytes()).hexdigest())
    if key not in memory:
        with jobs.turn():
            memory[key] = maps.place(layout, loaded.space, asked.vector.unsqueeze(0))[0]
        while len(memory) > REMEMBERED:
            memory.popitem(last=False)
    return memory[key]


def _chart(loaded: Loaded) -> str:
    """The chart's key: what was clicked on one corpus means nothing on another."""
    return f"map.{loaded.space.embeddings.digest[:12]}"


def _row(loaded: Loaded, told: str | None) -> int | None:
    """The document that a chart told of; None for none, or one of another corpus."""
    row = None if told is None else int(told)
    return row if row is not None and row < len(loaded.space) else None


def _near(loaded: Loaded, row: int) -> list[tuple[int, float]]:
    """The nearest documents, of which only the last asked for are remembered."""
    key = (loaded.space.embeddings.digest, row)
    last = st.session_state.get("near")
    if last is None or last[0] != key:
        with jobs.turn():
            last = st.session_state["near"] = (key, maps.neighbours(loaded.space, row, NEAREST))
    return last[1]


def name_of(loaded: Loaded, row: int) -> str:
    corpus = loaded.space.corpus
    return showable(corpus.titles[row] or corpus.texts[row][:80] or corpus.ids[row])


def _said(layout: maps.Layout, kept: float) -> str:
    size = (
        f"{len(layout):,} of {layout.of:,} documents, drawn at random" if layout.sampled else f"{layout.of:,} documents"
    )
    more = "; retrieved ones are always shown" if layout.sampled else ""
    how = "PCA" if layout.perplexity is None else f"t-SNE, perplexity {layout.perplexity:g}, seed {layout.seed}"
    return (
        f"{how}: {size}{more}. Of a document's up to {NEAREST} nearest in the embedding space {kept:.0%} are among "
        f"as many here; distances between clusters mean little. Symbols of later decoders are larger."
    )


def _pointed_at(loaded: Loaded, drawn: Picked) -> None:
    """The lasso's documents, or the document clicked (or under the mouse) with its true neighbours."""
    if drawn.selected:
        _inside(loaded, [int(row) for row in drawn.selected if int(row) < len(loaded.space)])
        return
    hovering = st.session_state.get(HOVER) and drawn.hovered is not None
    row = _row(loaded, drawn.hovered if hovering else drawn.clicked)
    if row is None:
        st.caption(
            "Click a document to read it and to see what is nearest to it in the embedding space; draw a lasso to list "
            "and export what lies inside. The wheel zooms."
        )
        return
    corpus = loaded.space.corpus
    with st.container(border=True, height=170, gap="xxsmall"):
        st.text(showable(corpus.ids[row]))
        st.text(showable(corpus.passages[row]) or "(no text)")
    found = _near(loaded, row)
    st.caption(f"The {len(found)} nearest in the embedding space")
    st.dataframe(
        pd.DataFrame(
            {"Document": [name_of(loaded, other) for other, _ in found], "Similarity": [near for _, near in found]}
        ),
        hide_index=True,
        height=330,
        column_config={"Similarity": st.column_config.NumberColumn(format="%.3f", width=80)},
    )


def _inside(loaded: Loaded, rows: list[int]) -> None:
    corpus = loaded.space.corpus
    st.text(f"{len(rows):,} documents inside")
    st.caption("A double click on the map leaves the selection.")
    ids = [showable(corpus.ids[row]) for row in rows]
    table = pd.DataFrame({"id": ids, "Document": [name_of(loaded, row) for row in rows]})
    st.dataframe(table.head(SHOWN), hide_index=True, height=min(400, 38 + 35 * len(table)))
    if len(rows) > SHOWN:
        st.caption(f"The first {SHOWN} are listed.")
    with st.container(horizontal=True):
        st.download_button(
            "Ids (.txt)", "".join(f"{ident}\n" for ident in ids), "documents.ids.txt", "text/plain", key="map.ids"
        )
        whole = pd.DataFrame({"id": table["id"], "text": [showable(corpus.passages[row]) for row in rows]})
        st.download_button("Ids and texts (.csv)", lambda: as_csv(whole), "documents.csv", "text/csv", key="map.csv")
