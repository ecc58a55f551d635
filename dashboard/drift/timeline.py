"""The views over time: drift measures with their meaning, what decoders reach, and regret."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import streamlit as st

from dashboard.charts.drift_time import measure_figure, quality_figure, regret_figure
from dashboard.components.live_plot import plot
from dashboard.drift.story import Story, names, remembered
from engine.learning.checkpoints import MEASURED, Checkpoint
from engine.learning.drift import MEASURES, Drift
from engine.views import drift as views

SHOWN = ("median", "churn", "confidence", "success", "hubs", "neighbourhood")
"""The measures that are there before a person chooses."""
A_ROW = 3
GROUPS = {"all": "All queries", "head": "Head", "tail": "Tail"}
PARTS = {"held-out": "Held out", "stream": "Learned from", "judged": "Judged queries"}
MEANT = {
    "all": "every query",
    "head": "the other queries",
    "tail": "queries whose right documents are all among the half that is right least often",
}
GOOD = {"up": "up is good", "down": "down is good"}


def show(story: Story) -> None:
    """The measures over all steps that are known."""
    measures(story.drifts, story.counted)


def measures(drifts: Sequence[Drift], counted: str) -> None:
    """Small charts of the measures that were chosen, each with what it means."""
    if not drifts:
        st.caption("What is measured appears here as it is finished.")
        return
    found = views.timeline(drifts)
    there = {measure.name: measure for measure in found.measures}
    chosen = st.pills(
        "Measures",
        list(MEASURES),
        selection_mode="multi",
        default=SHOWN,
        key="drift.measures",
        persist_state="session",
        label_visibility="collapsed",
        format_func=lambda name: MEASURES[name].title,
    )
    shown = [measure for name, measure in there.items() if name in (chosen or ())]
    if not shown:
        lacking = chosen and "These cannot be measured here: they need labelled queries, or feedback."
        st.info(lacking or "Choose a measure.")
    dark = st.context.theme.type == "dark"
    for at in range(0, len(shown), A_ROW):
        for place, measure in zip(st.columns(A_ROW, gap="medium"), shown[at : at + A_ROW], strict=False):
            values = found.columns[measure.name]
            with place, st.container(gap="xxsmall"):
                now = next((value for value in reversed(values) if value is not None), None)
                st.markdown(f"**{measure.title}** {'–' if now is None else f'{now:.3f}'}")
                alarms = found.alarms if measure.name == "hubs" else [False] * len(values)
                plot(
                    measure_figure(found.steps, values, alarms, counted, dark),
                    f"drift.measure.{measure.name}",
                    file=measure.name,
                    label=f"{measure.title} over time",
                )
                good = f" ({GOOD[measure.better]})" if measure.better in GOOD else ""
                st.caption(measure.meaning + good)
    st.caption(f"Along the bottom: {counted}. How large drift is says nothing about how good it is.")


def quality(checkpoints: Sequence[Checkpoint], named: Mapping[str, tuple[str, str]], k: int, counted: str) -> None:
    """What every decoder reached over time, on all, frequent and rare queries side by side."""
    if not checkpoints:
        st.caption("What is measured appears here as it is finished.")
        return
    parts = list(dict.fromkeys(cell.part for cell in checkpoints[0].cells))
    with st.container(horizontal=True, gap="medium"):
        metric = st.segmented_control(
            "Metric",
            list(MEASURED),
            default="ndcg",
            required=True,
            key="drift.metric",
            persist_state="session",
            label_visibility="collapsed",
            format_func=lambda name: f"{MEASURED[name]}@{k}" if name in ("recall", "ndcg") else MEASURED[name],
        )
        part = st.segmented_control(
            "Queries",
            parts,
            default=parts[0],
            required=True,
            key=f"drift.part.{len(parts)}.{parts[0]}",
            persist_state="session",
            label_visibility="collapsed",
            format_func=lambda name: PARTS[name],
        )
    metric, part = metric or "ndcg", part or parts[0]
    groups = {}
    for group, title in GROUPS.items():
        if lines := views.quality(checkpoints, [metric], part, group):
            groups[f"{title}, {lines[0].queries:,}"] = lines
    dark = st.context.theme.type == "dark"
    plot(
        quality_figure(groups, named, counted, dark),
        "drift.quality",
        file="quality",
        label=f"{MEASURED[metric]} over time",
    )
    st.caption(
        f"Head: {MEANT['head']}. Tail: {MEANT['tail']}; under most settings these pay. ILAD in the space of the start "
        "is the honest one: as documents move apart, ILAD in the space as it is now rises by itself."
    )


def quality_view(story: Story) -> None:
    """Quality of a simulation's checkpoints."""
    quality(story.checkpoints, names(story.decoders), story.k, story.counted)


def regret(story: Story) -> None:
    """What learning cost against those who knew, and what theory allows."""
    found = remembered(("regret", story.key), lambda: views.regret(story.found))
    if not found.lines:
        st.info("This simulation was not asked for regret: choose 'oracle' or 'hindsight' in its form.")
        return
    dark = st.context.theme.type == "dark"
    plot(regret_figure(found, dark), "drift.regret", file="regret", label="Regret over the rounds")
    st.caption(
        "Regret is the loss −log p of the right documents, added up, beyond that of someone who knew: the oracle takes "
        "the same steps and is told the whole truth each time; the best in hindsight is one set of embeddings chosen "
        "after the whole stream."
    )
    if found.rate is not None:
        st.text(
            f"Corollary 5.2: with η = {found.rate:.4g} the regret against the best in hindsight would stay under "
            f"{found.corollary:,.0f} nats."
        )
    if found.notes:
        st.text("What to know: " + "; ".join(found.notes) + ".")
