"""Settings of Trade-off in session state: their keys, which links use too, and their domains."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import streamlit as st

from dashboard.session import decoders
from engine.evaluation.frontier import KEPT_SHARE, TIME_AXIS
from engine.evaluation.metrics import METRICS
from engine.params import Choice, Flag, Param, Real, Text, Whole
from engine.stages import Spec, methods

SAMPLE_KEY, FIRST_SAMPLE_KEY = "tradeoff.sample", "tradeoff.sample.first"
"""Number of sampled queries, and the number that the page chooses by itself."""
PICKED_KEY, SCORERS_KEY = "tradeoff.decoders", "tradeoff.scorers"
VALUES_KEY, WHOLE_KEY, PANELS_KEY = "tradeoff.values", "tradeoff.whole", "tradeoff.panels"
X_METRIC, Y_METRIC = "ilad", "recall"
"""Default axes."""
X_AXIS_KEY, Y_AXIS_KEY = "tradeoff.x.judged", "tradeoff.y.judged"
SHARE_KEY = "tradeoff.share"
JUDGES_KEY = "tradeoff.judges"
"""The name of the model whose grades count beside people's, "" for none."""
OPEN_POINT_KEY, SCRUBBED_KEY = "tradeoff.open", "tradeoff.scrubbed"
"""The label of the open point, and the value of a parameter to which its curve was dragged, where no point has it."""
PART_KEY, SYSTEM_KEY = "tradeoff.part", "tradeoff.system"
"""The part of the page that is drawn, and the name of the run that is identified."""
FRONTIER_PART, SYSTEM_PART = PARTS = "Frontier", "Your system"
TRADEOFF_VIEW_KEY = "tradeoff.view"
WINS_VIEW, KINDS_VIEW, SETTINGS_VIEW = TRADEOFF_VIEWS = "Wins and losses", "By query type", "All settings"
N_VALUES = Whole(
    default=11,
    low=2,
    high=41,
    comfortable=(2, 21),
    symbol="steps_per_parameter",
    name="steps_per_parameter",
    help="How many values of a parameter are measured, from end to end of its usual range; some name their own.",
)
_GAIN_METRICS = tuple(name for name, metric in METRICS.items() if not metric.lower_is_better)


_DECLARATIONS: dict[str, Param] = {
    # The part and the run come first in a link: they say what is looked at.
    PART_KEY: Choice(FRONTIER_PART, "", PARTS),
    SYSTEM_KEY: Text("", "", max_length=1000),
    SAMPLE_KEY: Whole(None, "", 1, unset="as many as are drawn at first"),
    VALUES_KEY: N_VALUES,
    JUDGES_KEY: Text("", "", max_length=1000),
    X_AXIS_KEY: Choice(X_METRIC, "", (*_GAIN_METRICS, TIME_AXIS)),
    Y_AXIS_KEY: Choice(Y_METRIC, "", _GAIN_METRICS),
    SHARE_KEY: Real(KEPT_SHARE.default, "", *KEPT_SHARE.comfortable_range),
    WHOLE_KEY: Flag(False, ""),
    PANELS_KEY: Flag(True, ""),
    TRADEOFF_VIEW_KEY: Choice(WINS_VIEW, "", TRADEOFF_VIEWS),
    OPEN_POINT_KEY: Text("", "", max_length=1000),
    SCRUBBED_KEY: Real(None, "", 0, unset="a point"),
}
SETTINGS: Mapping[str, Param] = {key: replace(param, name=key, symbol=key) for key, param in _DECLARATIONS.items()}
"""Key → its domain. The default stands for the page's own choice."""
_NO_WIDGETS = PICKED_KEY, SYSTEM_KEY, OPEN_POINT_KEY, SCRUBBED_KEY


def list_choices() -> dict[str, Mapping[str, Spec]]:
    """Return Trade-off's settings that are lists of names: session key → selectors or scorers, by name."""
    return {PICKED_KEY: methods("selector"), SCORERS_KEY: decoders.list_scorers(decoders.RETRIEVE)}


def get_default(key: str) -> Any:
    """Return the default of a setting on the Trade-off page, by its session key."""
    # The baseline's selector, the first of the registry, and those chosen on Explore.
    if key == PICKED_KEY:
        return list(dict.fromkeys([next(iter(methods("selector"))), *decoders.list_chosen()]))
    if key == SCORERS_KEY:
        return [decoders.first_scorer().spec.name]
    # The default number of queries depends on the corpus, so the page stores it when it draws the choice.
    return st.session_state.get(FIRST_SAMPLE_KEY) if key == SAMPLE_KEY else SETTINGS[key].default


def list_changed() -> dict[str, Any]:
    """Return the settings of the Trade-off page that differ from their defaults, by session key."""
    changed_settings, multi_choices = {}, list_choices()
    # Only changed settings go to links, so that new defaults reach old links.
    for key in (*multi_choices, *SETTINGS):
        value = st.session_state.get(key, get_default(key))
        # The order of the names means nothing: the same choice has to be equal to the default.
        if key in multi_choices:
            value = [name for name in multi_choices[key] if name in value]
        if value != get_default(key):
            changed_settings[key] = value
    return changed_settings


def set_settings(settings: Mapping[str, Any]) -> None:
    """Set the Trade-off page to these settings and the others to their defaults, before it is drawn."""
    for key in (*list_choices(), *SETTINGS):
        if key in settings:
            st.session_state[key] = settings[key]
        # What has no widget, such as the open point, is unset by a missing value.
        elif key in _NO_WIDGETS:
            st.session_state.pop(key, None)
        elif key in st.session_state:  # without a value the browser would send the former one again
            st.session_state[key] = get_default(key)
