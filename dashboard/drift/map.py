"""The map with the measures: movement of documents up to a step, played; and two encoders on one map."""

from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import streamlit as st

from dashboard.charts.map import build_arrows
from dashboard.components.live_plot import Overlay, Picked, is_dark, plot
from dashboard.drift import ballot, headline, timeline
from dashboard.drift.history import (
    DRIFT_MEMO,
    DriftHistory,
    VectorStates,
    cached_or_job,
    draw_step,
    find_step,
    step_key,
)
from dashboard.drift.request import SimulationOutcome, SimulationRequest, run_simulation
from dashboard.services import corpora, jobs
from dashboard.services.memo import get_or_compute, session_memo
from dashboard.services.source import Loaded
from dashboard.session.query import Question
from dashboard.widgets import confirm
from dashboard.widgets.basics import step_button
from dashboard.widgets.choices import choose, select
from dashboard.widgets.job_panel import JobPanel
from dashboard.widgets.map import (
    MAP_WAYS,
    CorpusMap,
    build_backdrop,
    describe_map,
    get_map,
    name_clusters,
    place_query,
)
from engine.drift.round_metrics import HELD_OUT, STREAM, RoundMetrics
from engine.maps import layout as maps
from engine.progress import counted, shorten
from engine.values import replace_surrogates
from engine.views.drift_map import DriftComparison, Trajectories, compare_encoders_drift, trajectories
from engine.views.names import format_heading, name_document
from engine.wording import decimal, visible

WAY_KEY, LONGER_KEY = "drift.map.way", "drift.map.longer"
PLAYING_KEY, TOGGLED_KEY, FIRST_PICTURE_KEY = "drift.map.playing", "drift.map.turned", "drift.map.fresh"
"""Session keys: the history being played, that Play or Stop was just pressed, and that no step was played yet."""
PLAY_INTERVAL = "1s"
"""Between two played steps."""
MAX_ARROWS = 100
MAX_HOVER_QUERIES, MAX_HOVER_LENGTH = 3, 70
UNNAMED_QUERY = "a query without text"
TOWARDS, AWAY = "→", "←"
"""Signs of feedback that moves a document towards a query, and away from it."""
PATHS_TABLE, MAX_PATHS = "drift.paths", 6
"""Session cache of arrows, and its size."""
ENCODERS_PURPOSE, OUTCOMES_TABLE, MAX_OUTCOMES = "drift.encoders", "drift.encoders.outcomes", 3


def draw_map(history: DriftHistory, question: Question | None) -> None:
    """Draw the map with arrows from where documents were at the start to where they are at a step.

    While the history is played, the map is drawn anew every second at the next step.
    """
    playing = st.session_state.get(PLAYING_KEY) == history.key
    st.fragment(_draw_step, run_every=PLAY_INTERVAL if playing else None)(history, question)


def _draw_step(history: DriftHistory, question: Question | None) -> None:
    """Draw the map with its arrows, and the drift measures, at one step; every second while it is played."""
    confirm.rerun_if_stale()
    if st.session_state.pop(TOGGLED_KEY, False):
        st.rerun()  # the interval of redrawing is set by `draw_map`, outside of this fragment
    _advance(history)
    state_area = st.container()
    map_column, measure_column = st.columns([3, 2], gap="medium")
    # The controls stand below both columns.
    control_area = st.container()
    # While a history is played, what is sent first is drawn first: the browser takes longer over the charts than over
    # the slider, and the server takes longest over the map.
    with measure_column:
        if history.is_live and question is not None:
            ballot.draw_ballot(history.loaded, question)
        timeline.draw_sparklines(history.drifts, history.unit, find_step(history), history.unexplored)
    with control_area:
        projection, step = _draw_controls(history)
    with state_area:
        headline.draw_state(history, step)
    picked = None
    with map_column:
        chart = get_map(history.loaded, projection)
        magnifies = bool(st.session_state.get(LONGER_KEY, True))
        # The paths, and the factor by which their arrows are drawn longer; None while a job computes them.
        paths = None if chart is None else _find_paths(history, chart.layout, magnifies)
        if chart is not None and paths is not None:
            picked = _draw_arrows(history, question, chart, paths[0], step)
            st.caption(_format_caption(chart.layout, *paths))
    if picked is not None and paths is not None:
        _draw_document(history.loaded, paths[0], picked)


def _draw_controls(history: DriftHistory) -> tuple[str, int]:
    """Draw Play, the slider of the step, the projection and the arrows' length; return (projection, step)."""
    playing = st.session_state.get(PLAYING_KEY) == history.key
    with st.container(horizontal=True, vertical_alignment="bottom", key="drift-scrubber"):
        if len(history.steps) > 1:
            label, icon = ("Stop", ":material/stop:") if playing else ("Play", ":material/play_arrow:")
            step_button(label, "drift.map.play", _toggle_play, history, icon=icon, type="primary")
        step = draw_step(history)
        with st.popover("Options"):
            projection = choose("Projection", MAP_WAYS, WAY_KEY, show_label=True)
            help_text = "Votes move documents by little: at their true length most arrows are too short to see."
            st.toggle("Exaggerate the arrows", True, key=LONGER_KEY, persist_state="session", help=help_text)
    return MAP_WAYS[projection], step


def _toggle_play(history: DriftHistory) -> None:
    """Start to play the history, from the first step if the last one was shown; or stop playing."""
    # Tells the next run of the fragment that the page must be drawn again with another interval.
    st.session_state[TOGGLED_KEY] = True
    if st.session_state.get(PLAYING_KEY) == history.key:
        st.session_state[PLAYING_KEY] = None
        return
    st.session_state[PLAYING_KEY] = history.key
    if st.session_state.get(step_key(history), history.last_step) == history.last_step:
        st.session_state[step_key(history)] = history.steps[0]
    # The first run after Play must not skip a step.
    st.session_state[FIRST_PICTURE_KEY] = True


def _advance(history: DriftHistory) -> None:
    """Show the next step while the history is played, and stop playing at the last one."""
    # The first run after Play shows the present step. `pop` removes the mark of that run, so that the next one goes on.
    if st.session_state.get(PLAYING_KEY) != history.key or st.session_state.pop(FIRST_PICTURE_KEY, False):
        return
    # The slider of the steps reads this key of the browser session.
    key = step_key(history)
    later_steps = [step for step in history.steps if step > st.session_state.get(key, history.steps[0])]
    # At the end, playing stops by itself.
    if not later_steps:
        st.session_state[PLAYING_KEY] = None
        st.rerun()
    st.session_state[key] = later_steps[0]


def _find_paths(history: DriftHistory, layout: maps.Layout, longer: bool) -> tuple[Trajectories, float] | None:
    """Return the documents' paths on the map, and the factor by which they are drawn longer.

    None while a job computes them. layout: the map; longer: True to magnify the arrows
    """
    key, states = ("arrows", history.key, layout.digest), VectorStates(history)
    # Amount of work: comparing all numbers is quick, summing those of moved documents is not.
    start_vectors = history.space.matrix.on_cpu.numpy()
    n_documents, n_dimensions = (int(size) for size in start_vectors.shape)
    n_moved = int((history.vectors(history.last_step) != start_vectors).any(1).sum())
    # Comparing numbers is counted as a sixteenth of summing them.
    effort = len(history.steps) * n_dimensions * (n_documents // 16 + n_moved)
    title, work = "Following documents on the map", partial(trajectories, layout, history.space, states, MAX_ARROWS)
    paths = cached_or_job(key, "drift.arrows", title, work, effort, PATHS_TABLE, MAX_PATHS)
    if paths is None:
        return None
    # Arrows are lengthened in proportion to the larger side of the map.
    return paths.lengthen(float(np.ptp(layout.points, axis=0).max())) if longer else (paths, 1.0)


def _draw_arrows(
    history: DriftHistory, question: Question | None, corpus_map: CorpusMap, paths: Trajectories, step: int
) -> Picked:
    """Draw the map with the arrows of the documents that moved most, at a step; return what was clicked."""
    loaded, layout = history.loaded, corpus_map.layout
    arrows = paths.arrows(paths.steps.index(step))
    queries_by_row = find_queries(history, step, [int(row) for row in arrows["row"]])
    # A line break stands between the lines, and in none of them.
    hover_texts = [
        "\n".join((name_document(loaded.space.corpus, row), *lines)) for row, lines in queries_by_row.items()
    ]
    query = None if question is None else place_query(history.space, question, layout)
    figure = build_arrows(arrows, hover_texts, layout.points, query, is_dark())
    # Plotly keeps the zoom as long as `uirevision` is equal: from step to step of one map.
    figure["layout"]["uirevision"] = layout.digest
    key, backdrop = f"drift.map.{loaded.space.embeddings.digest[:12]}", build_backdrop(loaded, corpus_map, is_dark())
    # No set is shown, so that the map needs no room for labels beside it.
    names = name_clusters(corpus_map) | {"query": key, "sets": [], "relevant": [], "places": {}}
    place = None if query is None else query.tolist()
    overlay = Overlay(names | {"place": place, "isUnlabelled": True}, ())
    options: dict[str, Any] = {"scroll": True, "file": "drift-map", "label": "Where documents went"}
    return plot(figure, key, backdrop=backdrop, overlay=overlay, **options)


def find_queries(history: DriftHistory, step: int, rows: Sequence[int]) -> dict[int, list[str]]:
    """Return by what queries documents were moved up to a step: row → a line for each query, the newest first.

    A line has the sign of the feedback, and how often it was given. Without a log, as of most simulations, no lines.
    """
    lines: dict[int, Counter[str]] = {row: Counter() for row in rows}
    session = history.session
    if session is not None:
        earlier_ids = {record.id for record in session.records[:step]} if history.is_live else None
        for event in reversed(session.effective_events):
            if earlier_ids is None or event.id in earlier_ids:
                for row, coefficient in zip(event.items, event.coefficients, strict=True):
                    if row in lines:
                        # A document moves against the gradient: towards the query where its coefficient is negative.
                        one_line = " ".join((event.query.text or UNNAMED_QUERY).split())
                        query_text = shorten(visible(one_line), MAX_HOVER_LENGTH)
                        lines[row][f"{TOWARDS if coefficient < 0 else AWAY} {query_text}"] += 1
    return {row: _list_most(counts) for row, counts in lines.items()}


def _list_most(counts: Counter[str]) -> list[str]:
    """Return the first lines with their counts, and how many more there are."""
    first_counts = list(counts.items())[:MAX_HOVER_QUERIES]
    first_lines = [f"{line} ({count}×)" if count > 1 else line for line, count in first_counts]
    n_more = len(counts) - len(first_lines)
    return [*first_lines, f"and by {counted(n_more, 'query', 'queries')} more"] if n_more else first_lines


def _format_caption(layout: maps.Layout, paths: Trajectories, factor: float) -> str:
    """Describe the map and its arrows in a line; factor: by which the arrows are drawn longer."""
    if not len(paths.rows):
        return f"{describe_map(layout)} · Nothing has moved."
    factor_text = f", ×{factor:g}" if factor > 1 else ""
    # One alone has no number, which would be read as a rank.
    documents_text = "the document" if len(paths.rows) == 1 else f"the {len(paths.rows):,} documents"
    text = f"arrows: {documents_text} that moved most{factor_text}"
    return f"{describe_map(layout)}, of the start · {text} · distances between clusters mean little · click to read"


def _draw_document(loaded: Loaded, paths: Trajectories, selection: Picked) -> None:
    """Draw the text of the clicked document, and how far it has moved."""
    row_index = -1 if selection.clicked is None else int(selection.clicked)
    if not 0 <= row_index < len(loaded.space):
        return
    corpus = loaded.space.corpus
    with jobs.limit_page_computations(), st.container(border=True, height=200, gap="xxsmall"):
        st.text(format_heading(corpus, row_index))
        if row_index in paths.rows:
            st.text(f"moved by {paths.distance[paths.rows == row_index][0]:.3f} at the last step")
        st.text(replace_surrogates(corpus.passages[row_index]) or "(no text)")


def list_variants(history: DriftHistory) -> dict[str, Loaded]:
    """Return the same corpus as embedded by other encoders, by encoder name.

    {} for people's feedback, and for a simulation with shortened documents.
    """
    request = history.request
    # A shortened corpus exists for one encoder only.
    if request is None or request.words is not None:
        return {}
    variants = corpora.list_variants(history.loaded)
    # The first variant is the corpus itself.
    _own_name, *other_names = corpora.format_variant_names(variants)
    return {name: variant.origin for name, variant in zip(other_names, variants[1:], strict=True)}


def draw_both(history: DriftHistory) -> None:
    """Draw the same simulation with two encoders on one map, to compare where documents go.

    The second encoder is chosen here; its simulation runs in a job.
    """
    variants = list_variants(history)
    name: str = select("Beside", list(variants), "drift.encoders.other")
    variant, request = variants[name], history.request
    if request is None:
        return
    outcome = _find_outcome(request, variant, name)
    if outcome is None:
        return
    corpus_map = get_map(history.loaded, next(iter(MAP_WAYS.values())))
    if corpus_map is None:
        return
    simulated, layout = outcome.simulated, corpus_map.layout

    def compare() -> DriftComparison:
        """Compare how the documents move with either encoder, on the first one's map.

        Two encoders' vectors have no common axes: the second one's are rotated to fit the first's before
        feedback.
        """
        start_vectors = simulated.begun.origin
        current_vectors = history.vectors(history.last_step).astype(np.float64)
        return compare_encoders_drift(
            layout, history.space, current_vectors, start_vectors.astype(np.float64), simulated.final
        )

    comparison = get_or_compute(DRIFT_MEMO, ("two encoders", history.key, outcome.key, layout.digest), compare)
    first_name, _ = corpora.format_variant_names([history.loaded, variant])
    document_names = [name_document(history.loaded.space.corpus, int(row)) for row in comparison.rows]
    # Numbers of the encoders in the comparison: 0 is the history's own, 1 the one chosen here.
    dark = is_dark()
    figure = build_arrows(comparison.arrows(0), document_names, layout.points, None, dark, 0, first_name)
    second: dict[str, Any] = build_arrows(comparison.arrows(1), document_names, layout.points, None, dark, 1, name)
    # Both encoders share the map of the first one.
    figure["data"] += second["data"]
    figure["layout"] |= {"showlegend": True, "legend": {"orientation": "h", "y": 1, "yanchor": "bottom", "x": 0}}
    figure["layout"]["margin"] = figure["layout"]["margin"] | {"t": 34}
    backdrop = build_backdrop(history.loaded, corpus_map, dark)
    plot(figure, "drift.encoders", backdrop=backdrop, scroll=True, file="two-encoders", label="Drift of two encoders")
    first, final = map(decimal, comparison.agreement)
    agreement = f"A document's two vectors agree to {first} (mean cosine) before any vote and {final} after."
    first_quality = _format_quality(first_name, history.checkpoints)
    st.text(" ".join((agreement, first_quality, _format_quality(name, simulated.checkpoints))))
    st.caption(
        f"{describe_map(layout)}, of {first_name} · the vectors of {name} are turned onto it by the rotation that fits "
        "them best before any vote, which leaves all of their inner products · the documents that moved most in either"
    )


def _find_outcome(request: SimulationRequest, variant: Loaded, name: str) -> SimulationOutcome | None:
    """Return the outcome of a simulation of feedback with another encoder, None until it has run.

    Until then a button is drawn that runs it, or the progress of its job. request: settings of the simulation; variant:
    the corpus as that encoder embeds it; name: of the encoder
    """
    memo = session_memo(OUTCOMES_TABLE, MAX_OUTCOMES)
    return JobPanel(
        purpose=ENCODERS_PURPOSE,
        key=request.digest(variant),
        title=f"Simulating on {name}",
        work=partial(run_simulation, request, variant),
        start_label="Run",
        offer_text=f"Run the same simulation on {name}.",
        autostart=False,
        failed_text="The simulation failed.",
        memo=memo,
    ).draw_until_result()


def _format_quality(name: str, checkpoints: tuple[RoundMetrics, ...]) -> str:
    """Format the nDCG of the first decoder before and after feedback; "" if it was not measured.

    name: of the encoder; checkpoints: measurements from the start to the end
    """
    # Queries that got no votes are the fair measure, if any were held out.
    part = HELD_OUT if checkpoints[0].cell(part=HELD_OUT) is not None else STREAM
    first_cell, last_cell = (checkpoints[index].cell(part=part) for index in (0, -1))
    if first_cell is None or last_cell is None:
        return ""
    return f"nDCG of {name}: {decimal(first_cell.mean['ndcg'])} → {decimal(last_cell.mean['ndcg'])}."
