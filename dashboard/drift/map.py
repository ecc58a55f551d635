"""The map with the measures beside it: where documents were and are at a step, played; and two encoders on one map."""

from functools import partial
from typing import Any

import numpy as np
import streamlit as st

from dashboard.charts.map import build_arrows
from dashboard.components.live_plot import Picked, is_dark, plot
from dashboard.drift import timeline
from dashboard.drift.history import MEMORY, DriftHistory, States, step_key, step_of, worked_out
from dashboard.drift.request import SimulationOutcome, SimulationRequest, run
from dashboard.services import corpora, jobs
from dashboard.services.memo import get_or_compute, session_memo
from dashboard.services.source import Loaded
from dashboard.session.query import Question
from dashboard.widgets.basics import step_button
from dashboard.widgets.choices import choose, select
from dashboard.widgets.job_panel import JobPanel
from dashboard.widgets.map import MAP_WAYS, CorpusMap, build_backdrop, describe_map, get_map, name_document, place_query
from engine.drift.round_metrics import HELD_OUT, STREAM, RoundMetrics
from engine.maps import layout as maps
from engine.values import replace_surrogates
from engine.views.drift_map import Beside, Trajectories, beside, trajectories
from engine.wording import decimal, visible

WAY, LONGER = "drift.map.way", "drift.map.longer"
PLAYING, TURNED, FRESH = "drift.map.playing", "drift.map.turned", "drift.map.fresh"
"""Where a session keeps what it plays, that Play or Stop was just pressed, and that nothing is played yet."""
PACE = "1s"
"""Between two steps while it plays."""
MOST = 100
PATHS, MOST_PATHS = "drift.paths", 6
"""Where a session keeps arrows, and how many."""
PURPOSE, OUTCOMES, MOST_OUTCOMES = "drift.encoders", "drift.encoders.outcomes", 3


def show(history: DriftHistory, question: Question | None) -> None:
    """The map with its controls; while it plays, drawn anew every second."""
    playing = st.session_state.get(PLAYING) == history.key
    st.fragment(_drawn, run_every=PACE if playing else None)(history, question)


def _drawn(history: DriftHistory, question: Question | None) -> None:
    if st.session_state.pop(TURNED, False):
        st.rerun()  # whether it is drawn every second is decided outside of this fragment
    _next(history)
    left, right = st.columns([3, 2], gap="medium")
    way, step = _controls(history)
    picked = None
    with left:
        found = get_map(history.loaded, way)
        paths = None if found is None else _paths(history, found.layout, bool(st.session_state.get(LONGER, True)))
        if found is not None and paths is not None:
            picked = _chart(history, question, found, paths[0], step)
            st.caption(_caption(found.layout, *paths))
    with right:
        timeline.sparklines(history.drifts, history.unit, step, history.unexplored)
        if history.price:
            st.caption(" ".join(history.price))
    if picked is not None and paths is not None:
        _read(history.loaded, paths[0], picked)


def _controls(history: DriftHistory) -> tuple[str, int]:
    """Play, the step, the projection and the arrows' length; returns projection and step."""
    playing = st.session_state.get(PLAYING) == history.key
    with st.container(horizontal=True, vertical_alignment="bottom", key="drift-scrubber"):
        if len(history.steps) > 1:
            label, icon = ("Stop", ":material/stop:") if playing else ("Play", ":material/play_arrow:")
            step_button(label, "drift.map.play", _turn, history, icon=icon, type="primary")
        step = step_of(history)
        with st.popover("Options"):
            way = choose("Projection", MAP_WAYS, WAY, show_label=True)
            why = "Votes move documents by little: at their true length most arrows are too short to see."
            st.toggle("Exaggerate the arrows", True, key=LONGER, persist_state="session", help=why)
    return MAP_WAYS[way], step


def _turn(history: DriftHistory) -> None:
    """Begin to play, from the start where the end was shown; or stop."""
    st.session_state[TURNED] = True
    if st.session_state.get(PLAYING) == history.key:
        st.session_state[PLAYING] = None
        return
    st.session_state[PLAYING] = history.key
    if st.session_state.get(step_key(history), history.last) == history.last:
        st.session_state[step_key(history)] = history.steps[0]
    st.session_state[FRESH] = True


def _next(history: DriftHistory) -> None:
    """Go one step on while it plays; the first picture is of the step that it begins with."""
    if st.session_state.get(PLAYING) != history.key or st.session_state.pop(FRESH, False):
        return
    key = step_key(history)
    later = [step for step in history.steps if step > st.session_state.get(key, history.steps[0])]
    if not later:
        st.session_state[PLAYING] = None
        st.rerun()
    st.session_state[key] = later[0]


def _paths(history: DriftHistory, layout: maps.Layout, longer: bool) -> tuple[Trajectories, float] | None:
    """The arrows, and how many times as long they are; None while a job finds them."""
    key, states = ("arrows", history.key, layout.digest), States(history)
    # About how many numbers they take: all are compared, which is quick; those that moved are summed.
    first = history.space.matrix.on_cpu.numpy()
    count, width = (int(size) for size in first.shape)
    moved = int((history.vectors(history.last) != first).any(1).sum())
    effort = len(history.steps) * width * (count // 16 + moved)
    title, work = "Following documents on the map", partial(trajectories, layout, history.space, states, MOST)
    paths = worked_out(key, "drift.arrows", title, work, effort, PATHS, MOST_PATHS)
    if paths is None:
        return None
    return paths.lengthened(float(np.ptp(layout.points, axis=0).max())) if longer else (paths, 1.0)


def _chart(
    history: DriftHistory, question: Question | None, below: CorpusMap, paths: Trajectories, step: int
) -> Picked:
    loaded, layout = history.loaded, below.layout
    arrows = paths.arrows(paths.steps.index(step))
    names = [name_document(loaded, int(row)) for row in arrows["row"]]
    query = None if question is None else place_query(history.space, question, layout)
    figure = build_arrows(arrows, names, layout.points, query, is_dark())
    figure["layout"]["uirevision"] = layout.digest
    key, behind = f"drift.map.{loaded.space.embeddings.digest[:12]}", build_backdrop(loaded, below, is_dark())
    return plot(figure, key, backdrop=behind, scroll=True, file="drift-map", label="Where documents went")


def _caption(layout: maps.Layout, paths: Trajectories, times: float) -> str:
    if not len(paths.rows):
        return f"{describe_map(layout)} · Nothing has moved."
    longer = f", ×{times:g}" if times > 1 else ""
    arrows = f"arrows: the {len(paths.rows):,} documents that moved most{longer}"
    return f"{describe_map(layout)}, of the start · {arrows} · distances between clusters mean little · click to read"


def _read(loaded: Loaded, paths: Trajectories, selection: Picked) -> None:
    """The document that was clicked, and how far it moved."""
    row = -1 if selection.clicked is None else int(selection.clicked)
    if not 0 <= row < len(loaded.space):
        return
    corpus = loaded.space.corpus
    with jobs.page_turn(), st.container(border=True, height=200, gap="xxsmall"):
        st.text(visible(corpus.ids[row]))
        if row in paths.rows:
            st.text(f"moved by {paths.distance[paths.rows == row][0]:.3f} at the last step")
        st.text(replace_surrogates(corpus.passages[row]) or "(no text)")


def others(history: DriftHistory) -> dict[str, Loaded]:
    """The corpus by its other encoders, by name; none for people's feedback, which only one of them got."""
    request = history.request
    if request is None or request.words is not None:
        return {}
    every = corpora.list_variants(history.loaded)
    names = corpora.format_variant_names(every)
    return {name: other.origin for name, other in list(zip(names, every, strict=True))[1:]}


def show_both(history: DriftHistory) -> None:
    """The map with both encoders' arrows, once the simulation has run on the other."""
    variants = others(history)
    name: str = select("Beside", list(variants), "drift.encoders.other")
    other, request = variants[name], history.request
    if request is None:
        return
    outcome = _outcome(request, other, name)
    if outcome is None:
        return
    found = get_map(history.loaded, next(iter(MAP_WAYS.values())))
    if found is None:
        return
    simulated, layout = outcome.simulated, found.layout

    def work() -> Beside:
        start = simulated.begun.origin
        now = history.vectors(history.last).astype(np.float64)
        return beside(layout, history.space, now, start.astype(np.float64), simulated.final)

    both = get_or_compute(MEMORY, ("two encoders", history.key, outcome.key, layout.digest), work)
    mine = corpora.format_variant_names([history.loaded, other])[0]
    names = [name_document(history.loaded, int(row)) for row in both.rows]
    dark = is_dark()
    figure = build_arrows(both.arrows(0), names, layout.points, None, dark, 0, mine)
    second: dict[str, Any] = build_arrows(both.arrows(1), names, layout.points, None, dark, 1, name)
    figure["data"] += second["data"]
    figure["layout"] |= {"showlegend": True, "legend": {"orientation": "h", "y": 1, "yanchor": "bottom", "x": 0}}
    figure["layout"]["margin"] = figure["layout"]["margin"] | {"t": 34}
    behind = build_backdrop(history.loaded, found, dark)
    plot(figure, "drift.encoders", backdrop=behind, scroll=True, file="two-encoders", label="Drift of two encoders")
    before, after = map(decimal, both.agreement)
    reached = (_reached(*pair) for pair in ((mine, history.checkpoints), (name, simulated.checkpoints)))
    agreement = f"A document's two vectors agree to {before} (mean cosine) before feedback and {after} after."
    st.text(" ".join((agreement, *reached)))
    st.caption(
        f"{describe_map(layout)}, of {mine} · the vectors of {name} are turned onto it by the best-fitting rotation "
        "before feedback, which leaves all of their inner products · the documents that moved most in either"
    )


def _outcome(request: SimulationRequest, other: Loaded, name: str) -> SimulationOutcome | None:
    """The same simulation on the other encoder; None until it has run."""
    memo = session_memo(OUTCOMES, MOST_OUTCOMES)
    return JobPanel(
        purpose=PURPOSE,
        key=request.digest(other),
        title=f"Simulating on {name}",
        work=partial(run, request, other),
        start_label="Run",
        offer_text=f"Run the same simulation on {name}.",
        autostart=False,
        failed_text="The simulation failed.",
        memo=memo,
    ).result()


def _reached(name: str, checkpoints: tuple[RoundMetrics, ...]) -> str:
    """What an encoder's first decoder reaches before and after, in words."""
    part = HELD_OUT if checkpoints[0].cell(part=HELD_OUT) is not None else STREAM
    first, last = (checkpoints[place].cell(part=part) for place in (0, -1))
    if first is None or last is None:
        return ""
    return f"nDCG of {name}: {decimal(first.mean['ndcg'])} → {decimal(last.mean['ndcg'])}."
