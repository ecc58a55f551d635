"""The Drift page: the source of feedback, the health of the documents, and the views of their drift."""

from collections.abc import Callable
from functools import partial
from typing import Any

import streamlit as st

from dashboard.drift import (
    feedback_log,
    headline,
    map,
    movers,
    simulation,
    timeline,
    user_feedback,
)
from dashboard.drift.history import DriftHistory, name_decoders, step_key
from dashboard.services import feedback
from dashboard.services.source import Loaded
from dashboard.session.query import Question
from dashboard.widgets import confirm
from dashboard.widgets.choices import choose, select
from engine.errors import FrontierError

OWN_FEEDBACK, SIMULATION, EXAMPLE_RUN = "Your votes", "A simulation", "Worked example"
SOURCES: dict[str, Callable[[Loaded], DriftHistory | None]] = {
    OWN_FEEDBACK: user_feedback.load_history,
    SIMULATION: simulation.draw_simulation,
    EXAMPLE_RUN: simulation.draw_example,
}
SOURCE_KEY, VIEW_KEY = "drift.source", "drift.view"
MAP_VIEW = "Map"
STEPPED_VIEWS = ("Then and now", "Movers")


def draw_drift(loaded: Loaded, question: Question | None) -> None:
    """Draw the Drift page: how the documents' vectors have moved by feedback, real or simulated."""
    # Drift starts from the corpus as embedded, with live feedback on or off.
    loaded = loaded.origin
    try:
        has_feedback = bool(feedback.session(loaded).history)
    except FrontierError:  # a log that cannot be read counts
        has_feedback = True
    main, side = st.columns([4, 1], vertical_alignment="center")
    # People's feedback is the default as soon as there is any.
    default = OWN_FEEDBACK if has_feedback else EXAMPLE_RUN
    # Another key makes another widget, so that the new default applies after the first vote.
    key = f"{SOURCE_KEY}.{has_feedback}"
    source = select("Votes from", SOURCES, key, default=default, container=side, label_visibility="collapsed")
    # Without votes the query's results are there to be voted on; the other sources need no query.
    read_source = partial(user_feedback.load_history, question=question) if source == OWN_FEEDBACK else SOURCES[source]
    if (history := read_source(loaded)) is None:
        return
    views = _list_views(history, question, loaded)
    with main:
        view = choose("View", views, f"{VIEW_KEY}.{history.is_live}")
    confirm.show_error()

    @st.fragment
    def draw() -> None:
        """Draw the chosen view in a fragment, so that a click in it draws only the view again."""
        confirm.rerun_if_stale()
        state_area = st.container()
        views[view]()
        # A view with a slider over the steps is described at its step; the map does that itself, as it is played.
        if view != MAP_VIEW:
            step = st.session_state.get(step_key(history)) if view in STEPPED_VIEWS else None
            with state_area:
                headline.draw_state(history, history.last_step if step is None else step)

    draw()


def _list_views(history: DriftHistory, question: Question | None, loaded: Loaded) -> dict[str, Callable[[], Any]]:
    """Return the views of the Drift page, name → function that draws it.

    Some exist for people's feedback only, some for simulations only.
    """

    def draw_quality() -> None:
        """Draw the quality of the decoders over time, from real votes or from a simulation."""
        if history.is_live:
            timeline.draw_log_quality(history)
        else:
            timeline.draw_quality(history.checkpoints, name_decoders(history.decoders), history.k, history.unit)

    def draw_votes() -> None:
        """Draw the votes, and for a simulation of this corpus the button that adopts its embeddings."""
        feedback_log.draw_log(history)
        # Documents that were cut for a simulation are another corpus.
        if history.session is not None and not history.is_live and history.space.corpus == loaded.space.corpus:
            feedback_log.draw_replace(history.loaded, history.session, "use", use_feedback)

    def use_feedback() -> None:
        """Show the real feedback from the next run of the page on, with the documents as it has moved them."""
        # The widget that chooses the source has this key once there is feedback ("True").
        st.session_state[f"{SOURCE_KEY}.True"] = OWN_FEEDBACK
        feedback.turn_on()

    extra_views: dict[str, Callable[[], Any]] = {"Regret": lambda: timeline.draw_regret(history)}
    if history.is_live:
        extra_views = {"Snapshots": lambda: feedback_log.draw_snapshots(history)}
    if map.list_variants(history):
        extra_views["Two encoders"] = lambda: map.draw_both(history)
    return {
        MAP_VIEW: lambda: map.draw_map(history, question),
        "Then and now": lambda: movers.draw_results(history, question),
        "Movers": lambda: movers.draw_movers(history),
        "Decoders": draw_quality,
        "Votes": draw_votes,
        **extra_views,
    }
