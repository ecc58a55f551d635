"""The map: where documents began, where they are at a step, and the way there, played."""

from __future__ import annotations

import hashlib

import numpy as np
import streamlit as st

from dashboard import jobs
from dashboard.charts.drift_map import arrows_figure
from dashboard.charts.map import map_backdrop
from dashboard.components.live_plot import Backdrop, Picked, plot
from dashboard.drift.story import DIRECT, States, Story, remembered, step_key, step_of, worked
from dashboard.explore.map_view import WAYS, layout_of, name_of
from dashboard.explore.question import Asked
from dashboard.jobs import Job
from dashboard.state import Loaded
from engine import maps
from engine.values import showable
from engine.views.drift_map import Trajectories, trajectories

WAY, LONGER = "drift.map.way", "drift.map.longer"
PLAYING, TURNED, FRESH = "drift.map.playing", "drift.map.turned", "drift.map.fresh"
"""Where a session keeps what it plays, that Play or Stop was just pressed, and that nothing is played yet."""
PACE = "1s"
"""Between two steps while it plays."""
MOST = 100
PATHS, MOST_PATHS = "drift.paths", 6
"""Where a session keeps arrows, and how many."""
TEXT_HEIGHT = 320


def show(story: Story, asked: Asked | None) -> None:
    """The map with its controls; while it plays, drawn anew every second."""
    playing = st.session_state.get(PLAYING) == story.key
    st.fragment(_drawn, run_every=PACE if playing else None)(story, asked)


def _drawn(story: Story, asked: Asked | None) -> None:
    if st.session_state.pop(TURNED, False):
        st.rerun()  # whether it is drawn every second is decided outside of this fragment
    _next(story)
    way, step = _controls(story)
    left, right = st.columns([5, 2], gap="medium")
    with left:
        made = layout_of(story.loaded, way)
        if made is None:
            return
        ready = _paths(story, made[0], bool(st.session_state.get(LONGER, True)))
        if ready is None:
            return
        found, times = ready
        drawn = _chart(story, asked, made[0], found, step)
        st.caption(_said(made[0], found, times))
    with right:
        _read(story.loaded, found, drawn)


def _controls(story: Story) -> tuple[str, int]:
    """The projection, and the step."""
    playing = st.session_state.get(PLAYING) == story.key
    left, right = st.columns([5, 4], vertical_alignment="bottom", gap="medium")
    with left, st.container(horizontal=True, vertical_alignment="center"):
        way = st.segmented_control(
            "Projection",
            list(WAYS),
            default=next(iter(WAYS)),
            required=True,
            key=WAY,
            persist_state="session",
            label_visibility="collapsed",
        )
        st.toggle(
            "Lengthen the arrows",
            True,
            key=LONGER,
            persist_state="session",
            help="Feedback moves documents by little: drawn as far as they went, most arrows are too short to be seen.",
        )
        if len(story.steps) > 1:
            st.button(
                "Stop" if playing else "Play",
                icon=":material/stop:" if playing else ":material/play_arrow:",
                key="drift.map.play",
                on_click=_turn,
                args=(story,),
            )
    with right:
        return WAYS[way or next(iter(WAYS))], step_of(story)


def _turn(story: Story) -> None:
    """Begin to play, from the start where the end was shown; or stop."""
    st.session_state[TURNED] = True
    if st.session_state.get(PLAYING) == story.key:
        st.session_state[PLAYING] = None
        return
    st.session_state[PLAYING] = story.key
    if st.session_state.get(step_key(story), story.last) == story.last:
        st.session_state[step_key(story)] = story.steps[0]
    st.session_state[FRESH] = True


def _next(story: Story) -> None:
    """Go one step on while it plays; the first picture is of the step that it begins with."""
    if st.session_state.get(PLAYING) != story.key or st.session_state.pop(FRESH, False):
        return
    own = step_key(story)
    later = [step for step in story.steps if step > st.session_state.get(own, story.steps[0])]
    if not later:
        st.session_state[PLAYING] = None
        st.rerun()
    st.session_state[own] = later[0]


def _paths(story: Story, layout: maps.Layout, longer: bool) -> tuple[Trajectories, float] | None:
    """The arrows, and how many times as long they are; None while a job finds them."""
    key, states = ("arrows", story.key, layout.digest), States(story)

    def work(job: Job) -> Trajectories:
        return trajectories(layout, story.space, states, MOST, progress=job.report, stop=job.stop)

    if key in st.session_state.get(PATHS, ()) or _effort(story) <= DIRECT:
        found = remembered(key, lambda: trajectories(layout, story.space, states, MOST), PATHS, MOST_PATHS)
    else:
        found = worked(key, "drift.arrows", "following documents on the map", work, PATHS, MOST_PATHS)
    if found is None:
        return None
    return found.lengthened(float(np.ptp(layout.points, axis=0).max())) if longer else (found, 1.0)


def _effort(story: Story) -> int:
    """About how many numbers the arrows go over: all are compared, which is quick; those that moved are added up."""
    first = story.space.matrix.host.numpy()
    count, width = first.shape
    moved = int((story.vectors(story.last) != first).any(1).sum())
    return len(story.steps) * width * (count // 16 + moved)


def _chart(story: Story, asked: Asked | None, layout: maps.Layout, found: Trajectories, step: int) -> Picked:
    dark, loaded = st.context.theme.type == "dark", story.loaded
    arrows = found.arrows(found.steps.index(step))
    names = [name_of(loaded, row) for row in arrows["row"]]
    query = None if asked is None else _query_place(story, asked, layout)
    figure = arrows_figure(arrows, names, layout.points, query, dark)
    figure["layout"]["uirevision"] = layout.digest
    corpus = loaded.space.corpus
    under = Backdrop(
        hashlib.sha256(f"{layout.digest} {corpus.digest} {dark}".encode()).hexdigest()[:32],
        lambda: map_backdrop(layout.points, layout.rows, [name_of(loaded, row) for row in layout.rows.tolist()], dark),
    )
    key = f"drift.map.{loaded.space.embeddings.digest[:12]}"
    return plot(figure, key, backdrop=under, scroll=True, file="drift-map", label="Where documents went")


def _query_place(story: Story, asked: Asked, layout: maps.Layout) -> np.ndarray:
    key = ("query", layout.digest, hashlib.sha256(asked.vector.numpy().tobytes()).hexdigest())
    return remembered(key, lambda: maps.place(layout, story.space, asked.vector.unsqueeze(0))[0])


def _said(layout: maps.Layout, found: Trajectories, times: float) -> str:
    how = "PCA" if layout.perplexity is None else f"t-SNE, perplexity {layout.perplexity:g}, seed {layout.seed}"
    if not len(found.rows):
        return f"{how}, of the documents at the start. Nothing has moved."
    longer = f" They are drawn {times:g} times as long as they are." if times > 1 else ""
    return (
        f"{how}, of the documents at the start; it stays as it is. Arrows: the {len(found.rows):,} documents that "
        f"moved most, without what all moved together.{longer} Distances between clusters mean little."
    )


def _read(loaded: Loaded, found: Trajectories, drawn: Picked) -> None:
    """The document that was clicked, and how far it moved."""
    row = None if drawn.clicked is None else int(drawn.clicked)
    if row is None or row >= len(loaded.space):
        st.caption("Click an arrow or a document to read it. The wheel zooms, and the zoom stays while it plays.")
        return
    corpus = loaded.space.corpus
    place = found.rows.tolist().index(row) if row in found.rows.tolist() else None
    with jobs.turn(), st.container(border=True, height=TEXT_HEIGHT, gap="xxsmall"):
        st.text(showable(corpus.ids[row]))
        if place is not None:
            st.text(f"moved by {found.distance[place]:.3f} at the last step")
        st.text(showable(corpus.passages[row]) or "(no text)")
