"""The Drift page: whose feedback, the health of the documents, and the views of their drift."""

from collections.abc import Callable
from typing import Any, Literal

import streamlit as st

from dashboard.drift import (
    before_after,
    decoder_quality,
    example,
    feedback_log,
    import_export,
    map,
    movers,
    simulation,
    snapshots,
    timeline,
    user_feedback,
)
from dashboard.drift.history import DriftHistory, names
from dashboard.services import feedback
from dashboard.services.source import Loaded
from dashboard.session.query import Question
from dashboard.widgets import confirm
from dashboard.widgets.choices import choose
from engine.drift.measures import Drift
from engine.errors import FrontierError
from engine.views.drift import conclusions

YOURS, SIMULATED, EXAMPLE = "Your feedback", "A simulation", "Worked example"
SOURCES: dict[str, Callable[[Loaded], DriftHistory | None]] = {
    YOURS: user_feedback.history_of,
    SIMULATED: simulation.history_of,
    EXAMPLE: example.history_of,
}
LIGHTS: dict[str, tuple[Literal["green", "orange", "red"], str]] = {
    "green": ("green", ":material/favorite:"),
    "amber": ("orange", ":material/warning:"),
    "red": ("red", ":material/emergency:"),
}
SOURCE, VIEW = "drift.source", "drift.view"


def show(loaded: Loaded, question: Question | None) -> None:
    """The main area of Drift."""
    # Drift is from the corpus as it was embedded, whether the other pages show it so or as feedback has made it.
    loaded = loaded.origin
    has_feedback = _has_feedback(loaded)
    head, right = st.columns([1, 3], vertical_alignment="center")
    head.title("Drift")
    with right:
        # Where the first feedback has come since, it is what people look for.
        first = YOURS if has_feedback else EXAMPLE
        source = choose("Whose feedback", SOURCES, f"{SOURCE}.{has_feedback}", default=first)
    if (history := SOURCES[source](loaded)) is not None:
        _status(history, loaded)
        _view(history, question)


def _has_feedback(loaded: Loaded) -> bool:
    """Whether there is feedback on this corpus; a log that cannot be read counts."""
    try:
        return bool(feedback.session(loaded).history)
    except FrontierError:
        return True


def _status(history: DriftHistory, loaded: Loaded) -> None:
    """Draw the health light, the hub alarm, drift in words, and the way from a simulation to Explore."""
    drift = history.drift_at(history.last)
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        if not history.live:
            st.badge("Simulated", icon=":material/science:", color="violet")
        if drift is not None:
            _lights(drift)
            st.text(history.describe(drift.step))
        # Documents that were cut for a simulation are another corpus.
        if history.session is not None and not history.live and history.space.corpus == loaded.space.corpus:
            import_export.offer(history.loaded, history.session, "use", _to_yours)
    confirm.show_error()
    if drift is not None:
        st.text(" ".join(filter(None, [history.note, *conclusions(drift)])))


def _lights(drift: Drift) -> None:
    colour, icon = LIGHTS[drift.light]
    why = "By the longest document vector: amber above 1 where no ball holds it, red above 2."
    st.badge(f"Health: {drift.light}", icon=icon, color=colour, help=why)
    why = "Whether some documents crowd the answers: the Gini of how often each is there is up by 0.03."
    label = "Hub alarm" if drift.alarm else "No hub alarm"
    st.badge(label, icon=":material/hub:", color="red" if drift.alarm else "gray", help=why)


def _to_yours() -> None:
    """Look at this corpus's feedback from the next run on, and at its documents as they are now."""
    st.session_state[f"{SOURCE}.True"] = YOURS
    feedback.turn_on()


def _views(history: DriftHistory, question: Question | None) -> dict[str, Callable[[], Any]]:
    def quality() -> None:
        if history.live:
            decoder_quality.show(history)
        else:
            timeline.quality(history.checkpoints, names(history.decoders), history.k, history.unit)

    more: dict[str, Callable[[], Any]] = {"Named moments": lambda: snapshots.show(history)}
    return {
        "Timeline": lambda: timeline.measures(history.drifts, history.unit),
        "Decoders": quality,
        "Then and now": lambda: before_after.show(history, question),
        "Movers": lambda: movers.show(history),
        "Map": lambda: map.show(history, question),
        "Feedback": lambda: feedback_log.show(history),
        **(more if history.live else {"Regret": lambda: timeline.regret(history)}),
    }


@st.fragment
def _view(history: DriftHistory, question: Question | None) -> None:
    confirm.rerun_if_stale()
    views = _views(history, question)
    views[choose("View", views, f"{VIEW}.{history.live}")]()
