"""The views over time: drift measures, what decoders reach, along the log by a job on request, and regret."""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any

import streamlit as st

from dashboard.charts.drift_time import plot_quality, plot_regret, plot_sparklines
from dashboard.components.live_plot import is_dark, plot
from dashboard.drift.history import MEMORY, ROUNDS, DriftHistory, names
from dashboard.drift.request import SimulationRequest, probes, run
from dashboard.drift.user_feedback import MOST_KNOWN, split_of
from dashboard.services import jobs
from dashboard.services.jobs import Job
from dashboard.services.memo import get_or_compute, session_memo
from dashboard.services.source import Loaded
from dashboard.session import decoders
from dashboard.widgets.basics import show_failure
from dashboard.widgets.choices import choose, choose_several
from dashboard.widgets.job_panel import JobPanel
from engine.drift.history import beginning, measured
from engine.drift.measures import MEASURES, Drift
from engine.drift.round_metrics import MEASURED, RoundMetrics
from engine.errors import FrontierError
from engine.views import drift as views
from engine.wording import visible

SHOWN = ("median", "churn", "confidence", "success", "hubs", "neighbourhood")
"""The measures that are there before a person chooses."""
GROUPS = {"all": "All queries", "head": "Head", "tail": "Tail"}
PARTS = {"held-out": "Held out", "stream": "Learned from", "judged": "Judged queries"}
GOOD = {"up": "up is good", "down": "down is good"}
PURPOSE, KNOWN = "drift.quality", "drift.reached"


def sparklines(
    drifts: Sequence[Drift],
    counted: str,
    step: int | None = None,
    unexplored: Mapping[str, Sequence[float | None]] = MappingProxyType({}),
) -> None:
    """The measures that were chosen, with their values at a step, by default the last one.

    unexplored: measure → what it would be were nothing explored, one value a step.
    """
    if not drifts:
        return
    drifts = sorted(drifts, key=lambda drift: drift.step)
    lines = views.sparklines(drifts, unexplored)
    steps = [drift.step for drift in drifts]
    place = len(steps) - 1 if step is None else max(bisect_right(steps, step) - 1, 0)
    figure = st.container()
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        with st.popover("Measures"):
            titles = {name: measure.title for name, measure in MEASURES.items()}
            chosen = choose_several("Shown", titles, "drift.measures", default=SHOWN, format_func=titles.__getitem__)
            for measure in MEASURES.values():
                good = f" ({GOOD[measure.better]})" if measure.better else ""
                st.markdown(f"**{measure.title}**: {measure.meaning}{good}")
        dotted = " · dotted: without exploring" if any(line.unexplored for line in lines) else ""
        st.caption(f"Grey: change below {views.NOISE:g} · dashed: alarm{dotted}")
    if shown := [line for line in lines if line.measure.name in chosen]:
        drawn = plot_sparklines(shown, steps, place, counted.removesuffix("s"), is_dark())
        with figure:
            plot(drawn, "drift.sparklines", file="drift", label="Drift over time")


def quality(checkpoints: Sequence[RoundMetrics], named: Mapping[str, tuple[str, str]], k: int, counted: str) -> None:
    """Quality of every decoder over time, on all, frequent and rare queries side by side."""
    if not checkpoints:
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
    figure = plot_quality(groups, named, counted, is_dark())
    plot(figure, "drift.quality", file="quality", label=f"{MEASURED[metric]} over time")
    st.caption(
        "Tail: queries whose answers are rarely asked for; they may gain less, or lose (Evidence, O9). Head: the "
        "others. ILAD in the current vectors rises by itself as documents move apart: compare it in the original ones."
    )


def regret(history: DriftHistory) -> None:
    """Regret against the oracle and the best in hindsight, and its bound."""
    simulated = history.simulated
    if simulated is None:
        return
    lines = get_or_compute(MEMORY, ("regret", history.key), lambda: views.regret(simulated))
    if not lines.lines:
        st.info("Regret was not computed. Set Regret to “oracle” or “hindsight” and run the simulation again.")
        return
    plot(plot_regret(lines, is_dark()), "drift.regret", file="regret", label="Regret over the rounds")
    st.caption(
        "Regret: the summed loss −log p of the right documents, beyond that of a learner who knew more. The oracle "
        "takes the same steps with full information; the best in hindsight is one set of embeddings chosen at the end."
    )
    if lines.rate is not None:
        st.text(
            f"Corollary 5.2: with η = {lines.rate:.4g} the regret against the best in hindsight stays under "
            f"{lines.corollary:,.0f} nats."
        )
    if lines.notes:
        st.text("Notes: " + "; ".join(lines.notes) + ".")


def panel_arguments(request: SimulationRequest, loaded: Loaded) -> dict[str, Any]:
    """A simulation panel's work, partial results and wording."""
    named, k = names(request.decoders), request.k

    def draw(checkpoints: Sequence[RoundMetrics]) -> None:
        if choose("So far", ("Measures", "Decoders"), "drift.so_far", persist=False) == "Decoders":
            quality(checkpoints, named, k, ROUNDS)
        else:
            sparklines([checkpoint.drift for checkpoint in checkpoints], ROUNDS)

    return {
        "work": partial(run, request, loaded),
        "on_partial": draw,
        "failed_text": "The simulation failed.",
        "stopped_text": "Stopped. Progress is saved.",
    }


def log_quality(history: DriftHistory) -> None:
    """Quality at the moments of the log, and the way to measure those that are missing."""
    split = split_of(history.loaded)
    if not split:
        st.info("Decoder quality needs judged queries, and this corpus has none.")
        return
    known = session_memo(KNOWN, MOST_KNOWN)
    setting = (split, tuple(decoder.label for decoder in history.decoders), history.k)
    keys = {step: (history.log_digests[step], *setting) for step in history.steps}
    key = (history.feedback.digest, *setting)
    job = jobs.find_job(PURPOSE, key, stop_other=True)

    def reached() -> list[RoundMetrics]:
        known.update({keys[checkpoint.step]: checkpoint for checkpoint in (job and job.partial) or ()})
        return [known[keys[step]] for step in history.steps if keys[step] in known]

    reached()
    missing = [step for step in history.steps if keys[step] not in known]

    def draw(_: object = None) -> None:
        if rows := reached():
            done = f"{len(rows)} of {len(history.steps)} moments"
            st.text(f"{done}, on the judged queries of {visible(split)}.")
            quality(rows, names(history.decoders), history.k, history.unit)

    if missing and _measurable(history):
        going = job is not None and job.is_active
        titles = ", ".join(title for _, title in names(history.decoders).values())
        JobPanel(
            purpose=PURPOSE,
            key=key,
            title="Measuring decoders",
            work=partial(_measure, history, split, missing),
            start_label="Run",
            offer_text=f"Measure {titles} as set in Explore, at {len(missing)} moments of the log.",
            autostart=False,
            on_partial=draw if going else None,
            failed_text="The decoders cannot be measured.",
        ).result()
        if going:
            return
    draw()


def _measurable(history: DriftHistory) -> bool:
    """Whether the decoders have what they need; draws what they lack."""
    try:
        for decoder in history.decoders:
            decoders.check_decoder(decoder, history.space)
    except FrontierError as error:
        show_failure("These decoders cannot be measured.", error)
        return False
    return True


def _measure(history: DriftHistory, split: str, steps: list[int], job: Job) -> bool:
    queries, qrels = probes(history.loaded, split, job)
    session = history.feedback
    start = history.known_origin or beginning(session, queries, qrels)
    report: dict[str, Any] = {"progress": job.report, "stop": job.stop, "seen": job.collect}
    measured(session, start, queries, qrels, history.decoders, steps, history.k, **report)
    return True
