"""The Drift page: whose feedback, the health of the documents, and the views of their drift."""

from collections.abc import Callable
from typing import Any

import streamlit as st

from dashboard.drift import (
    feedback_log,
    map,
    movers,
    simulation,
    timeline,
    user_feedback,
)
from dashboard.drift.history import DriftHistory, names
from dashboard.services import feedback
from dashboard.services.source import Loaded
from dashboard.session.query import Question
from dashboard.widgets import confirm
from dashboard.widgets.choices import choose, select
from engine.drift.measures import Drift
from engine.errors import FrontierError
from engine.views.drift import conclusions

YOURS, SIMULATED, EXAMPLE = "Your feedback", "A simulation", "Worked example"
SOURCES: dict[str, Callable[[Loaded], DriftHistory | None]] = {
    YOURS: user_feedback.history_of,
    SIMULATED: simulation.history_of,
    EXAMPLE: simulation.example_of,
}
LIGHTS = {
    "green": ("green", ":material/favorite:"),
    "amber": ("orange", ":material/warning:"),
    "red": ("red", ":material/emergency:"),
}
HEALTH = (
    "Health, by the longest document vector: amber above 1 where no ball holds it, red above 2. Hub alarm: a few "
    "documents crowd the results, the Gini of how often each appears is up by 0.03."
)
SOURCE, VIEW = "drift.source", "drift.view"


def show(loaded: Loaded, question: Question | None) -> None:
    """The main area of Drift."""
    # Drift is from the corpus as it was embedded, whether the other pages show it so or as feedback has made it.
    loaded = loaded.origin
    try:
        has_feedback = bool(feedback.session(loaded).history)
    except FrontierError:  # a log that cannot be read counts
        has_feedback = True
    left, right = st.columns([4, 1], vertical_alignment="center")
    # Where the first feedback has come since, it is what people look for.
    first = YOURS if has_feedback else EXAMPLE
    key = f"{SOURCE}.{has_feedback}"
    source = select("Feedback from", SOURCES, key, default=first, container=right, label_visibility="collapsed")
    if (history := SOURCES[source](loaded)) is None:
        return
    views = _views(history, question, loaded)
    with left:
        view = choose("View", views, f"{VIEW}.{history.live}")
    drift = history.drift_at(history.last)
    badges = [] if history.live else [":violet-badge[:material/science: Simulated]"]
    if drift is not None:
        badges += _lights(drift)
        badges += [f"{history.describe(drift.step).capitalize()}.", *conclusions(drift)]
    st.markdown(" ".join(badges), help=" ".join(filter(None, [history.note, HEALTH])))
    confirm.show_error()

    @st.fragment
    def draw() -> None:
        confirm.rerun_if_stale()
        views[view]()

    draw()


def _lights(drift: Drift) -> list[str]:
    """Badges of the health by the longest vector, and of the alarm of hubs, where it sounds."""
    colour, icon = LIGHTS[drift.light]
    alarm = [":red-badge[:material/hub: Hub alarm]"] if drift.alarm else []
    if drift.light == "green":
        return alarm or [f":green-badge[{icon} Healthy]"]
    return [f":{colour}-badge[{icon} Health: {drift.light}]", *alarm]


def _views(history: DriftHistory, question: Question | None, loaded: Loaded) -> dict[str, Callable[[], Any]]:
    def quality() -> None:
        if history.live:
            timeline.log_quality(history)
        else:
            timeline.quality(history.checkpoints, names(history.decoders), history.k, history.unit)

    def votes() -> None:
        feedback_log.show(history)
        # Documents that were cut for a simulation are another corpus.
        if history.session is not None and not history.live and history.space.corpus == loaded.space.corpus:
            feedback_log.offer(history.loaded, history.session, "use", to_yours)

    def to_yours() -> None:
        # From the next run on, and at the documents as they are now.
        st.session_state[f"{SOURCE}.True"] = YOURS
        feedback.turn_on()

    more: dict[str, Callable[[], Any]] = {"Regret": lambda: timeline.regret(history)}
    if history.live:
        more = {"Snapshots": lambda: feedback_log.show_snapshots(history)}
    if map.others(history):
        more["Two encoders"] = lambda: map.show_both(history)
    return {
        "Map": lambda: map.show(history, question),
        "Then and now": lambda: movers.show_results(history, question),
        "Movers": lambda: movers.show(history),
        "Decoders": quality,
        "Votes": votes,
        **more,
    }
