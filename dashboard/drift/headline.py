"""Headline of a history at one step: the health of the documents, and how far they moved."""

import streamlit as st

from dashboard.drift.history import DriftHistory
from engine.drift.measures import Drift
from engine.views.drift import conclusions, describe_shift

HEALTH_LIGHTS = {
    "green": ("green", ":material/favorite:"),
    "amber": ("orange", ":material/warning:"),
    "red": ("red", ":material/emergency:"),
}
HEALTH_HELP = (
    "Health, by the longest document vector: amber above 1 where no ball holds it, red above 2. Hub alarm: a few "
    "documents crowd the results, the Gini of how often each appears is up by 0.03."
)


def draw_state(history: DriftHistory, step: int) -> None:
    """Draw the health of the documents at a step, and what has changed by then, in sentences.

    A step that is not measured is told by the last measured one before it.
    """
    measured = [drift for drift in history.drifts if drift.step <= step]
    badges = [] if history.is_live else [":violet-badge[:material/science: Simulated]"]
    shift_text = None
    # A job may still measure, the newest steps first.
    if measured:
        drift = max(measured, key=lambda candidate: candidate.step)
        badges += _format_lights(drift)
        n_probes = None if history.queries is None else len(history.queries)
        badges += [f"{history.describe(drift.step).capitalize()}.", *conclusions(drift, n_probes)]
        shift_text = describe_shift(drift)
    # The price that a simulation's users pay for the votes is part of the verdict, not of a chart.
    st.markdown(
        " ".join([*badges, *history.exploration_cost]),
        help=" ".join(filter(None, [history.note, shift_text, HEALTH_HELP])),
    )


def _format_lights(drift: Drift) -> list[str]:
    """Format two warnings as badges: vectors that votes made long, and hubs.

    Hubs are documents that too many queries find. The light is green, amber or red.
    """
    colour, icon = HEALTH_LIGHTS[drift.light]
    alarm = [":red-badge[:material/hub: Hub alarm]"] if drift.alarm else []
    if drift.light == "green":
        return alarm or [f":green-badge[{icon} Healthy: no alarm]"]
    return [f":{colour}-badge[{icon} Health: {drift.light}]", *alarm]
