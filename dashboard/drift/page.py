"""The Drift screen: whose feedback, how the documents stand, and the views of what happened to them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import streamlit as st

from dashboard.drift import (
    arrows,
    example,
    files,
    moments,
    movers,
    people,
    reached,
    simulation,
    then_now,
    timeline,
    told,
)
from dashboard.drift.story import Story
from dashboard.explore.question import Asked
from dashboard.feedback import live
from dashboard.state import Loaded
from engine.errors import FrontierError
from engine.learning.drift import Drift
from engine.views.drift import conclusions

YOURS, SIMULATED, EXAMPLE = "Your feedback", "A simulation", "Worked example"
SOURCES: dict[str, Callable[[Loaded], Story | None]] = {
    YOURS: people.story,
    SIMULATED: simulation.story,
    EXAMPLE: example.story,
}
LIGHTS = {
    "green": ("green", ":material/favorite:"),
    "amber": ("orange", ":material/warning:"),
    "red": ("red", ":material/emergency:"),
}
SOURCE, VIEW = "drift.source", "drift.view"


def show(loaded: Loaded, asked: Asked | None) -> None:
    """The main area of Drift."""
    # Drift is from the corpus as it was embedded, whether the other pages show it so or as feedback has made it.
    loaded = loaded.origin
    there = _said(loaded)
    head, choose = st.columns([1, 3], vertical_alignment="center")
    head.title("Drift")
    first = YOURS if there else EXAMPLE
    with choose:
        source = st.segmented_control(
            "Whose feedback",
            list(SOURCES),
            default=first,
            required=True,
            # Where the first feedback has come since, it is what people look for.
            key=f"{SOURCE}.{there}",
            persist_state="session",
            label_visibility="collapsed",
        )
    story = SOURCES[source or first](loaded)
    if story is None:
        return
    _standing(story, loaded)
    _looked_at(story, asked)


def _said(loaded: Loaded) -> bool:
    """Whether anybody has said anything about this corpus; what cannot be read is something."""
    try:
        return bool(live.session(loaded).history)
    except FrontierError:
        return True


def _standing(story: Story, loaded: Loaded) -> None:
    """The health light, the hub alarm, what drift amounts to, and the way from a simulation to Explore."""
    drift = story.drift(story.last)
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        if not story.live:
            st.badge("Simulated", icon=":material/science:", color="violet")
        if drift is not None:
            _lights(drift)
            st.text(story.said(drift.step))
        # Documents that were cut for a simulation are another corpus.
        if story.session is not None and not story.live and story.space.corpus == loaded.space.corpus:
            files.replace(story.loaded, story.session, "use", told.ask, _to_yours)
    told.wrong()
    if drift is not None:
        st.text(" ".join(filter(None, [story.note, *conclusions(drift)])))


def _lights(drift: Drift) -> None:
    colour, icon = LIGHTS[drift.light]
    st.badge(
        f"Health: {drift.light}",
        icon=icon,
        color=colour,
        help="By the longest document vector: amber above 1 where no ball holds it, red above 2.",
    )
    st.badge(
        "Hub alarm" if drift.alarm else "No hub alarm",
        icon=":material/hub:",
        color="red" if drift.alarm else "gray",
        help="Whether some documents crowd the answers: the Gini of how often each is there is up by 0.03.",
    )


def _to_yours() -> None:
    """Look at this corpus's feedback from the next run on, and at its documents as they are now."""
    st.session_state[f"{SOURCE}.True"] = YOURS
    live.turn()


def _views(story: Story, asked: Asked | None) -> dict[str, Callable[[], Any]]:
    if story.live:
        quality, more = reached.show, {"Named moments": lambda: moments.show(story)}
    else:
        quality, more = timeline.quality_view, {"Regret": lambda: timeline.regret(story)}
    return {
        "Timeline": lambda: timeline.show(story),
        "Decoders": lambda: quality(story),
        "Then and now": lambda: then_now.show(story, asked),
        "Movers": lambda: movers.show(story),
        "Map": lambda: arrows.show(story, asked),
        "Feedback": lambda: told.show(story),
        **more,
    }


@st.fragment
def _looked_at(story: Story, asked: Asked | None) -> None:
    told.follow()
    views = _views(story, asked)
    first = next(iter(views))
    view = st.segmented_control(
        "View",
        list(views),
        default=first,
        required=True,
        key=f"{VIEW}.{story.live}",
        persist_state="session",
        label_visibility="collapsed",
    )
    views[view or first]()
