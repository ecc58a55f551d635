"""The views over time: drift measures with their meaning, what decoders reach, and regret."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import streamlit as st

from dashboard.charts.drift_time import measure_figure, quality_figure, regret_figure
from dashboard.components.live_plot import is_dark, plot
from dashboard.drift.history import MEMORY, ROUNDS, DriftHistory, names
from dashboard.drift.request import SimulationRequest, run
from dashboard.services.memo import remembered
from dashboard.services.source import Loaded
from dashboard.widgets.choices import choose, choose_several
from engine.drift.measures import MEASURES, Drift
from engine.drift.round_metrics import MEASURED, RoundMetrics
from engine.views import drift as views

SHOWN = ("median", "churn", "confidence", "success", "hubs", "neighbourhood")
"""The measures that are there before a person chooses."""
A_ROW = 3
CAPTION = "What is measured appears here as it is finished."
GROUPS = {"all": "All queries", "head": "Head", "tail": "Tail"}
PARTS = {"held-out": "Held out", "stream": "Learned from", "judged": "Judged queries"}
MEANT = {
    "all": "every query",
    "head": "the other queries",
    "tail": "queries whose right documents are all among the half that is right least often",
}
GOOD = {"up": "up is good", "down": "down is good"}


def measures(drifts: Sequence[Drift], counted: str) -> None:
    """Small charts of the measures that were chosen, each with what it means."""
    if not drifts:
        st.caption(CAPTION)
        return
    over_time = views.timeline(drifts)
    titles = {name: measure.title for name, measure in MEASURES.items()}
    chosen = choose_several(
        "Measures", titles, "drift.measures", default=SHOWN, named=False, format_func=titles.__getitem__
    )
    shown = [measure for measure in over_time.measures if measure.name in chosen]
    if not shown:
        lacking = chosen and "These cannot be measured here: they need labelled queries, or feedback."
        st.info(lacking or "Choose a measure.")
    for number, measure in enumerate(shown):
        if number % A_ROW == 0:
            places = st.columns(A_ROW, gap="medium")
        values = over_time.columns[measure.name]
        with places[number % A_ROW], st.container(gap="xxsmall"):
            last = next((value for value in reversed(values) if value is not None), None)
            st.markdown(f"**{measure.title}** {'–' if last is None else f'{last:.3f}'}")
            alarms = over_time.alarms if measure.name == "hubs" else [False] * len(values)
            figure = measure_figure(over_time.steps, values, alarms, counted, is_dark())
            key = f"drift.measure.{measure.name}"
            plot(figure, key, file=measure.name, label=f"{measure.title} over time")
            good = f" ({GOOD[measure.better]})" if measure.better in GOOD else ""
            st.caption(measure.meaning + good)
    st.caption(f"Along the bottom: {counted}. How large drift is says nothing about how good it is.")


def quality(checkpoints: Sequence[RoundMetrics], named: Mapping[str, tuple[str, str]], k: int, counted: str) -> None:
    """Quality of every decoder over time, on all, frequent and rare queries side by side."""
    if not checkpoints:
        st.caption(CAPTION)
        return
    parts = list(dict.fromkeys(cell.part for cell in checkpoints[0].cells))
    with st.container(horizontal=True, gap="medium"):
        metric = choose(
            "Metric",
            MEASURED,
            "drift.metric",
            default="ndcg",
            format_func=lambda name: MEASURED[name] + (f"@{k}" if name in ("recall", "ndcg") else ""),
        )
        part = choose("Queries", parts, f"drift.part.{len(parts)}.{parts[0]}", format_func=lambda name: PARTS[name])
    groups = {}
    for group, title in GROUPS.items():
        if lines := views.quality(checkpoints, [metric], part, group):
            groups[f"{title}, {lines[0].queries:,}"] = lines
    figure = quality_figure(groups, named, counted, is_dark())
    plot(figure, "drift.quality", file="quality", label=f"{MEASURED[metric]} over time")
    st.caption(
        f"Head: {MEANT['head']}. Tail: {MEANT['tail']}; under most settings these pay. ILAD in the space of the start "
        "is the honest one: as documents move apart, ILAD in the space as it is now rises by itself."
    )


def regret(history: DriftHistory) -> None:
    """Regret against the oracle and the best in hindsight, and its bound."""
    simulated = history.simulated
    if simulated is None:
        return
    lines = remembered(MEMORY, ("regret", history.key), lambda: views.regret(simulated))
    if not lines.lines:
        st.info("This simulation was not asked for regret: choose 'oracle' or 'hindsight' in its form.")
        return
    plot(regret_figure(lines, is_dark()), "drift.regret", file="regret", label="Regret over the rounds")
    st.caption(
        "Regret is the loss −log p of the right documents, added up, beyond that of someone who knew: the oracle takes "
        "the same steps and is told the whole truth each time; the best in hindsight is one set of embeddings chosen "
        "after the whole stream."
    )
    if lines.rate is not None:
        st.text(
            f"Corollary 5.2: with η = {lines.rate:.4g} the regret against the best in hindsight would stay under "
            f"{lines.corollary:,.0f} nats."
        )
    if lines.notes:
        st.text("What to know: " + "; ".join(lines.notes) + ".")


def panel_arguments(request: SimulationRequest, loaded: Loaded) -> dict[str, Any]:
    """A simulation panel's work, partial results and wording."""
    named, k = names(request.decoders), request.k

    def draw(checkpoints: Sequence[RoundMetrics]) -> None:
        if choose("So far", ("Measures", "Decoders"), "drift.so_far", persist=False) == "Decoders":
            quality(checkpoints, named, k, ROUNDS)
        else:
            measures([checkpoint.drift for checkpoint in checkpoints], ROUNDS)

    return {
        "work": partial(run, request, loaded),
        "on_partial": draw,
        "caption": CAPTION,
        "failed": "The simulation ended early.",
        "stopped": "Stopped. What was simulated is kept: going on starts from there.",
    }
