"""The open setting, and the budget."""

from dataclasses import dataclass
from typing import Any

import streamlit as st

from dashboard.services.memo import get_or_compute
from dashboard.services.sweeps import Sweep
from dashboard.session.choices import TUNE
from dashboard.session.judging import JUDGE, JudgingRequest, set_request
from dashboard.session.tradeoff import OPEN_POINT_KEY, PICKED_KEY, SCRUBBED_KEY, SHARE_KEY
from engine.decoder import Decoder
from engine.evaluation.decide import OptionEstimates
from engine.evaluation.decision import Decision
from engine.evaluation.frontier import KEPT_SHARE, Frontier, FrontierPoint
from engine.evaluation.runs import RankedRun
from engine.evaluation.sweep.cell import Cell
from engine.stages import methods

REDRAW_KEY, LEAVE_KEY = "tradeoff.anew", "tradeoff.leave"
"""Session keys: draw the full page again; then go to another page, Explore unless it is named."""
START_KEY = "tradeoff.started"
"""Session key: True while a click has asked for decoders to be measured that are still to be listed."""
CONFIRM_KEY = "tradeoff.confirmed"
"""Session key of the choices that are to be confirmed on another split."""
PINNED_KEY = "tradeoff.pinned"
"""Session key of the PinnedSetting."""
LAST_KEY = "tradeoff.estimates.last"
"""Session key of the last estimates, which stand while further settings are measured.

They come as (key of the data, labels of the settings, the estimates or None)."""
LAST_CHART_KEY = "tradeoff.chart.last"
"""Session key of the chart that was drawn last, as (digest of the vectors, figure)."""
MEMORY_KEY = "tradeoff.memory"
"""Name of the session's cache of the page's results."""
Ends = tuple[float | None, float | None]


@dataclass(frozen=True, eq=False, kw_only=True)
class OpenSetting:
    """Setting whose documents are displayed: a point, a position between points, or another system's run."""

    system: Decoder | RankedRun
    name: str  # as the page writes it
    cell: Any  # its metrics by query; between points those of the exact curve
    point: FrontierPoint | None  # None between points
    x: float  # mean of the metric on the horizontal axis
    y: float  # mean of the metric on the vertical axis
    x_ends: Ends  # of the means' 95 % intervals
    y_ends: Ends

    @property
    def decoder(self) -> Decoder | None:
        """Decoder of the open setting; None if the setting is a run of another system."""
        return self.system if isinstance(self.system, Decoder) else None

    @property
    def style_name(self) -> tuple[str, str]:
        """Name under which charts find its colour and symbol, and its title."""
        spec = self.system.select.spec if isinstance(self.system, Decoder) else None
        return (spec.name, spec.title) if spec is not None else (self.system.label, self.name)


@dataclass(frozen=True, eq=False, kw_only=True)
class PinnedSetting:
    """Setting that stays the sure one at a lower budget, which another split confirms that it keeps."""

    label: str
    share: float  # that budget
    chosen_share: float  # the budget that it was chosen for, which that split denies
    estimated: tuple[Any, ...]  # on what data and among which settings it was chosen, as `LAST_KEY` has them


def open_point(label: str | None) -> None:
    """Open a setting beside the chart by its label, in place of a dragged position; None changes nothing."""
    if label is not None:
        st.session_state[OPEN_POINT_KEY] = label
        # A point replaces the dragged position.
        st.session_state.pop(SCRUBBED_KEY, None)


def open_judge(request: JudgingRequest | None = None) -> None:
    """Go to the view where people judge documents; for a callback.

    It offers the documents of a request, or without one the results of every decoder.
    """
    set_request(request)
    # The page switches in the next full run, as a callback cannot.
    st.session_state[LEAVE_KEY], st.session_state[REDRAW_KEY] = JUDGE, True


def open_tune() -> None:
    """Go to Tune, which can confirm on half of a split; for a callback."""
    st.session_state[LEAVE_KEY], st.session_state[REDRAW_KEY] = TUNE, True


def compare_all_decoders() -> None:
    """Select every decoder and measure what is missing, without a further click; for a callback."""
    st.session_state[PICKED_KEY] = list(methods("selector"))
    # The choice lies outside the part of the page that a click draws anew.
    st.session_state[START_KEY] = st.session_state[REDRAW_KEY] = True


def ask_to_confirm(decision: Decision) -> None:
    """Ask for the choices of a decision to be confirmed on another split; for a callback."""
    st.session_state[CONFIRM_KEY] = _list_choices(decision)


def is_asked_to_confirm(decision: Decision) -> bool:
    """Return True if the choices of a decision are to be confirmed; another choice must be asked for anew."""
    return bool(st.session_state.get(CONFIRM_KEY) == _list_choices(decision))


def keep_lower_share(estimates: OptionEstimates, decision: Decision, share: float) -> None:
    """Ask the sure setting for a lower share, which another split confirms that it keeps; for a callback.

    decision: on a higher share, which that split denies
    """
    assert decision.sure is not None
    set_budget(share)
    st.session_state[PINNED_KEY] = PinnedSetting(
        label=decision.sure.label,
        share=get_budget(),
        chosen_share=decision.keep,
        estimated=st.session_state[LAST_KEY][:2],
    )
    # The same setting was measured there already, so that nothing is chosen by what that split says.
    ask_to_confirm(estimates.decide(share, with_options=False, pinned=decision.sure.label))


def find_pin() -> PinnedSetting | None:
    """Return the setting that stays the sure one at the budget that is set; None for the one that is.

    It was chosen among the settings that were compared: among others, or on other data, another one may be.
    """
    pin: PinnedSetting | None = st.session_state.get(PINNED_KEY)
    if pin is None or pin.share != get_budget() or pin.estimated != st.session_state[LAST_KEY][:2]:
        return None
    return pin


def get_pinned() -> str | None:
    """Return the label of the setting that stays the sure one at the budget that is set; None for the one that is."""
    pin = find_pin()
    return None if pin is None else pin.label


def _list_choices(decision: Decision) -> tuple[str, ...]:
    """Return what a confirmation is about: the split and the labels of both choices."""
    return (decision.split, *(option.label for option in (decision.sure, decision.bet) if option is not None))


def find_point(curves: Frontier, label: str | None) -> FrontierPoint | None:
    """Return a decoder's point on the chart by its label; None if it has none."""
    return next((point for point in curves.points if point.point.label == label), None)


def get_budget() -> float:
    """Return the budget: the share of the baseline's value on the y axis that a setting has to keep."""
    share: float = st.session_state.get(SHARE_KEY, KEPT_SHARE.default)
    return share


def set_budget(share: float) -> None:
    """Set the budget, the share of the baseline's value on the y axis that a setting has to keep."""
    # Three decimals are half percents; without rounding 94.5 / 100 would be another budget than 0.945.
    st.session_state[SHARE_KEY] = round(share, 3)


def measure_run(run: RankedRun, sweep: Sweep) -> Cell | None:
    """Measure a run of another system in the metrics of a sweep, once; None before its queries have vectors."""
    loaded, vectors = sweep.loaded, sweep.vectors
    # The metrics compare documents with the query, and wait for its vector.
    if vectors is None:
        return None
    cell_arguments = loaded.space, vectors, sweep.qrels, sweep.k, sweep.metrics
    rules: dict[str, Any] = {"source": sweep.source, "without_self": sweep.baseline.without_self}
    rules["duplicate_threshold"] = sweep.duplicate_threshold
    return get_or_compute(
        MEMORY_KEY,
        ("run", run.name, run.digest, sweep.key),
        lambda: run.build_cell(*cell_arguments, split=sweep.split, aspects=loaded.dataset.aspects, **rules),
    )
