"""The settings of Trade-off in session state: their keys, by which links name them too, and what each may be."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import streamlit as st

from dashboard.services import passage_queries
from dashboard.session import decoders
from engine.evaluation.frontier import KEPT_SHARE, TIME_AXIS
from engine.evaluation.metrics import METRICS
from engine.params import Choice, Flag, Param, Real, Text, Whole
from engine.stages import Spec, methods

ALL, ONE = "All labelled queries", "This query"
SCOPE, PASSAGES = "tradeoff.scope", "tradeoff.passages"
"""The choice of queries where some are judged, and where passages can stand in for them."""
SAMPLE, AT_FIRST = "tradeoff.sample", "tradeoff.sample.first"
"""How many queries are drawn, and how many the page draws by itself."""
PICKED, SCORERS = "tradeoff.decoders", "tradeoff.scorers"
STEPS, WHOLE, PANELS = "tradeoff.values", "tradeoff.whole", "tradeoff.panels"
X, Y, INSTEAD = "ilad", "recall", "cos_sum"
"""The axes at first, and the upper one where nothing is judged."""
SHARE_KEY = "tradeoff.share"
OPEN, SCRUBBED = "tradeoff.open", "tradeoff.scrubbed"
"""The label of the open point, and the value of a parameter to which its curve was dragged, where no point has it."""
VIEW = "tradeoff.view"
WINS, KINDS, SETTINGS = VIEWS = "Wins and losses", "By query type", "All settings"
VALUES = Whole(
    default=6,
    low=2,
    high=41,
    comfortable=(2, 21),
    symbol="steps_per_parameter",
    name="steps_per_parameter",
    help="How many values of a parameter are measured, from end to end of its usual range; some name their own.",
)
_UP = tuple(name for name, metric in METRICS.items() if not metric.lower_is_better)


def axis_key(axis: str, judged: bool) -> str:
    """The key of the choice of an axis, x or y."""
    return f"tradeoff.{axis}.{'judged' if judged else 'unjudged'}"


_DECLARED: dict[str, Param] = {
    SCOPE: Choice(ALL, "", (ALL, ONE)),
    PASSAGES: Choice(ONE, "", (ONE, passage_queries.NAME)),
    SAMPLE: Whole(None, "", 1, unset="as many as are drawn at first"),
    STEPS: VALUES,
    **{axis_key("x", judged): Choice(X, "", (*_UP, TIME_AXIS)) for judged in (True, False)},
    **{axis_key("y", judged): Choice(Y if judged else INSTEAD, "", _UP) for judged in (True, False)},
    SHARE_KEY: Real(KEPT_SHARE.default, "", *KEPT_SHARE.comfortable_range),
    WHOLE: Flag(False, ""),
    PANELS: Flag(False, ""),
    VIEW: Choice(WINS, "", VIEWS),
    OPEN: Text("", "", max_length=1000),
    SCRUBBED: Real(None, "", 0, unset="a point"),
}
PARAMS: Mapping[str, Param] = {key: replace(param, name=key, symbol=key) for key, param in _DECLARED.items()}
"""Key → what it may be. The default stands for what the page takes by itself."""
_NO_WIDGETS = PICKED, OPEN, SCRUBBED


def several() -> dict[str, Mapping[str, Spec]]:
    """Key → the methods of which it has several names."""
    return {PICKED: methods("selector"), SCORERS: decoders.offered(decoders.RETRIEVE)}


def default_of(key: str) -> Any:
    """What the page takes by itself: of the decoders the baseline and those of Explore."""
    if key == PICKED:
        return list(dict.fromkeys([next(iter(methods("selector"))), *decoders.chosen()]))
    if key == SCORERS:
        return [decoders.first_scorer().spec.name]
    return st.session_state.get(AT_FIRST) if key == SAMPLE else PARAMS[key].default


def changed() -> dict[str, Any]:
    """The settings that are not at their default, by key, as the session has them."""
    found, lists = {}, several()
    for key in (*lists, *PARAMS):
        value = st.session_state.get(key, default_of(key))
        if key in lists:
            value = [name for name in lists[key] if name in value]
        if value != default_of(key):
            found[key] = value
    return found


def put(settings: Mapping[str, Any]) -> None:
    """Set the page to settings, and all others to their default, before it is drawn."""
    for key in (*several(), *PARAMS):
        if key in settings:
            st.session_state[key] = settings[key]
        elif key in _NO_WIDGETS:
            st.session_state.pop(key, None)
        elif key in st.session_state:  # without a value the browser would send the former one again
            st.session_state[key] = default_of(key)
