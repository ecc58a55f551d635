"""Two encoders' drift on one map: the same simulation on another encoder of the corpus (Fig. 1b of the paper)."""

from functools import partial
from typing import Any

import numpy as np
import streamlit as st

from dashboard.charts.map import arrows_figure
from dashboard.components.live_plot import is_dark, plot
from dashboard.drift.history import MEMORY, DriftHistory
from dashboard.drift.request import SimulationOutcome, SimulationRequest, run
from dashboard.services import corpora
from dashboard.services.memo import remembered, session_memo
from dashboard.services.source import Loaded
from dashboard.widgets.choices import select
from dashboard.widgets.job_panel import JobPanel
from dashboard.widgets.map import WAYS, backdrop, describe, document_name, map_of
from engine.drift.round_metrics import HELD_OUT, STREAM, RoundMetrics
from engine.views.drift_map import Beside, beside
from engine.wording import decimal

PURPOSE, OUTCOMES, MOST = "drift.encoders", "drift.encoders.outcomes", 3


def others(history: DriftHistory) -> dict[str, Loaded]:
    """The corpus by its other encoders, by name; none for people's feedback, which only one of them got."""
    request = history.request
    if request is None or request.words is not None:
        return {}
    every = corpora.variants(history.loaded)
    names = corpora.variant_names(every)
    return {name: other.origin for name, other in list(zip(names, every, strict=True))[1:]}


def show(history: DriftHistory) -> None:
    """The map with both encoders' arrows, once the simulation has run on the other."""
    variants = others(history)
    name: str = select("Beside", list(variants), "drift.encoders.other")
    other, request = variants[name], history.request
    if request is None:
        return
    outcome = _outcome(request, other, name)
    if outcome is None:
        return
    found = map_of(history.loaded, next(iter(WAYS.values())))
    if found is None:
        return
    simulated, layout = outcome.simulated, found.layout

    def work() -> Beside:
        start = simulated.begun.origin
        now = history.vectors(history.last).astype(np.float64)
        return beside(layout, history.space, now, start.astype(np.float64), simulated.final)

    both = remembered(MEMORY, ("two encoders", history.key, outcome.key, layout.digest), work)
    mine = corpora.variant_names([history.loaded, other])[0]
    names = [document_name(history.loaded, int(row)) for row in both.rows]
    dark = is_dark()
    figure = arrows_figure(both.arrows(0), names, layout.points, None, dark, 0, mine)
    second: dict[str, Any] = arrows_figure(both.arrows(1), names, layout.points, None, dark, 1, name)
    figure["data"] += second["data"]
    figure["layout"] |= {"showlegend": True, "legend": {"orientation": "h", "y": 1, "yanchor": "bottom", "x": 0}}
    figure["layout"]["margin"] = figure["layout"]["margin"] | {"t": 34}
    behind = backdrop(history.loaded, found, dark)
    plot(figure, "drift.encoders", backdrop=behind, scroll=True, file="two-encoders", label="Drift of two encoders")
    before, after = map(decimal, both.agreement)
    reached = (_reached(*pair) for pair in ((mine, history.checkpoints), (name, simulated.checkpoints)))
    agreement = f"A document's two vectors agree to {before} (mean cosine) before feedback and {after} after."
    st.text(" ".join((agreement, *reached)))
    st.caption(
        f"{describe(layout)}, of {mine} · the vectors of {name} are turned onto it by the rotation that fits them best "
        "before feedback, which leaves all of their inner products · the documents that moved most in either"
    )


def _outcome(request: SimulationRequest, other: Loaded, name: str) -> SimulationOutcome | None:
    """The same simulation on the other encoder; None until it has run."""
    memo = session_memo(OUTCOMES, MOST)
    return JobPanel(
        purpose=PURPOSE,
        key=request.digest(other),
        title=f"Simulating on {name}",
        work=partial(run, request, other),
        start="Run",
        offer=f"Run the same simulation on {name}.",
        by_itself=False,
        failed="The simulation failed.",
        memo=memo,
    ).result()


def _reached(name: str, checkpoints: tuple[RoundMetrics, ...]) -> str:
    """What an encoder's first decoder reaches before and after, in words."""
    part = HELD_OUT if checkpoints[0].cell(part=HELD_OUT) is not None else STREAM
    first, last = (checkpoints[place].cell(part=part) for place in (0, -1))
    if first is None or last is None:
        return ""
    return f"nDCG of {name}: {decimal(first.mean['ndcg'])} → {decimal(last.mean['ndcg'])}."
