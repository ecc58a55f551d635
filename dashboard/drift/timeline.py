"""Views over time: drift measures, quality of decoders, along the log by a job, and regret."""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any

import streamlit as st

from dashboard.charts.drift_time import build_sparklines, plot_quality, plot_regret
from dashboard.charts.figure import read_column
from dashboard.components.live_plot import is_dark, plot
from dashboard.drift.history import DRIFT_MEMO, ROUNDS_UNIT, DriftHistory, name_decoders
from dashboard.drift.request import SimulationRequest, find_probes, run_simulation
from dashboard.drift.user_feedback import MAX_MOMENTS, find_split, identify_probes
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

DEFAULT_MEASURES = ("median", "churn", "confidence", "success", "hubs", "neighbourhood")
"""Measures displayed by default."""
GROUP_TITLES = {"all": "All queries", "head": "Head", "tail": "Tail"}
PARTS = {"held-out": "Held out", "stream": "Learned from", "judged": "Labelled queries"}
DIRECTION_TEXTS = {"up": "up is good", "down": "down is good"}
QUALITY_PURPOSE, QUALITY_TABLE = "drift.quality", "drift.reached"


def draw_sparklines(
    drifts: Sequence[Drift],
    step_unit: str,
    step: int | None = None,
    unexplored: Mapping[str, Sequence[float | None]] = MappingProxyType({}),
) -> None:
    """Draw small line charts of the chosen drift measures over all steps, with the values at one step.

    drifts: measurements, one per step; step_unit: "rounds" or "records"; step: None for the last; unexplored:
    measure → its values if the best document were always shown, one per step.
    """
    if not drifts:
        return
    # A log is measured from its newest records back, so the measurements do not come in the order of the steps.
    drifts = sorted(drifts, key=lambda drift: drift.step)
    lines = views.sparklines(drifts, unexplored)
    steps = read_column(drifts, "step")
    # Show the last measurement that is not after `step`, or the first one if all are after it.
    step_index = len(steps) - 1 if step is None else max(bisect_right(steps, step) - 1, 0)
    figure_area = st.container()
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        with st.popover("Measures"):
            titles = {name: measure.title for name, measure in MEASURES.items()}
            chosen = choose_several(
                "Shown", titles, "drift.measures", default=DEFAULT_MEASURES, format_func=titles.__getitem__
            )
            for measure in MEASURES.values():
                direction = f" ({DIRECTION_TEXTS[measure.better]})" if measure.better else ""
                st.markdown(f"**{measure.title}**: {measure.meaning}{direction}")
        dotted_note = " · dotted: without exploring" if any(line.unexplored for line in lines) else ""
        st.caption(f"Grey: change below {views.NOISE_CHANGE:g} · dashed: warning level{dotted_note}")
    if chosen_lines := [line for line in lines if line.measure.name in chosen]:
        picture = build_sparklines(
            views.share_axes(chosen_lines), steps, step_index, step_unit.removesuffix("s"), is_dark()
        )
        # The chart stands above the controls that decide on it.
        with figure_area:
            plot(picture, "drift.sparklines", file="drift", label="Drift over time")


def draw_quality(checkpoints: Sequence[RoundMetrics], labels: Mapping[str, tuple[str, str]], k: int, unit: str) -> None:
    """Draw a metric of every decoder over time: for all queries, and for rare and frequent answers.

    checkpoints: measurements over time; labels: decoder's label → (selector, title); unit: of a step
    """
    if not checkpoints:
        return
    # All checkpoints have the same parts.
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
    for group, title in GROUP_TITLES.items():
        if lines := views.quality(checkpoints, [metric], part, group):
            groups[f"{title}, {lines[0].queries:,}"] = lines
    figure = plot_quality(groups, labels, unit, is_dark())
    plot(figure, "drift.quality", file="quality", label=f"{MEASURED[metric]} over time")
    st.caption(
        "Tail: queries whose answers are rarely asked for; they may gain less, or lose (Evidence, O9). Head: the "
        "others. Diversity (ILAD) in the current vectors rises by itself as documents move apart: compare it in the "
        "original ones."
    )


def draw_regret(history: DriftHistory) -> None:
    """Draw the regret of a simulation: its loss beyond that of a learner who knew more, and the bounds."""
    simulated = history.simulated
    if simulated is None:
        return
    lines = get_or_compute(DRIFT_MEMO, ("regret", history.key), lambda: views.regret(simulated))
    if not lines.lines:
        st.info("Regret was not computed. Set Regret to “oracle” or “hindsight” and run the simulation again.")
        return
    plot(plot_regret(lines, is_dark()), "drift.regret", file="regret", label="Regret over the rounds")
    st.caption(
        "Regret: the summed loss −log p of the right documents, beyond that of a learner who knew more. The oracle "
        "takes the same steps with full information; the best in hindsight is one set of embeddings chosen at the end."
    )
    # A bound of the ORAG paper, which holds at the learning rate η that it sets for this number of rounds.
    if lines.rate is not None:
        st.text(
            f"Corollary 5.2: with η = {lines.rate:.4g} the regret against the best in hindsight stays under "
            f"{lines.corollary:,.0f} nats."
        )
    if lines.notes:
        st.text("Notes: " + "; ".join(lines.notes) + ".")


def panel_arguments(request: SimulationRequest, loaded: Loaded) -> dict[str, Any]:
    """Return arguments that every JobPanel of a simulation has: its work, partial results and wording.

    The worked example and a person's own simulation share them.
    """
    decoder_names, k = name_decoders(request.decoders), request.k

    def draw(checkpoints: Sequence[RoundMetrics]) -> None:
        """Draw the results so far: measures of drift, or the decoders' quality."""
        if choose("So far", ("Measures", "Decoders"), "drift.so_far", persist=False) == "Decoders":
            draw_quality(checkpoints, decoder_names, k, ROUNDS_UNIT)
        else:
            draw_sparklines([checkpoint.drift for checkpoint in checkpoints], ROUNDS_UNIT)

    return {
        "work": partial(run_simulation, request, loaded),
        "on_partial": draw,
        "failed_text": "The simulation failed.",
        "stopped_text": "Stopped. Progress is saved.",
    }


def draw_log_quality(history: DriftHistory) -> None:
    """Draw the decoders' quality as people's votes add up, at several steps of the log of votes.

    A step is a number of records of the log. Steps that are not measured yet are measured by a job, which starts on a
    click.
    """
    split = find_split(history.loaded)
    if not split:
        st.info("Decoder quality needs labelled queries, and this corpus has none.")
        return
    measured = session_memo(QUALITY_TABLE, MAX_MOMENTS)
    # Measurements are cached by the log up to a step, and by what other judgements, another decoder or k would change.
    decoder_labels = tuple(decoder.label for decoder in history.decoders)
    setting = (identify_probes(history.loaded, split), decoder_labels, history.k)
    keys = {step: (history.log_digests[step], *setting) for step in history.steps}
    key = (history.feedback.digest, *setting)
    job = jobs.find_job(QUALITY_PURPOSE, key, stop_other=True)

    def list_measured() -> list[RoundMetrics]:
        """Return the measurements that exist by now, those of a running job too, in order of the steps.

        The job's are stored in the browser session, so that they outlast the job.
        """
        # Finished measurements of a running job count as soon as they come.
        partial_results = None if job is None else job.partial
        measured.update({keys[checkpoint.step]: checkpoint for checkpoint in partial_results or ()})
        return [measured[keys[step]] for step in history.steps if keys[step] in measured]

    # Called to store what a running job has finished, before counting what is missing.
    list_measured()
    missing = [step for step in history.steps if keys[step] not in measured]

    def draw(_: object = None) -> None:
        """Draw the measurements that exist; the argument that a job panel passes is not used."""
        if rows := list_measured():
            done = f"{len(rows)} of {len(history.steps)} moments"
            st.text(f"{done}, on the labelled queries of {visible(split)}.")
            draw_quality(rows, name_decoders(history.decoders), history.k, history.unit)

    if missing and _can_measure(history):
        is_active = job is not None and job.is_active
        titles = ", ".join(title for _, title in name_decoders(history.decoders).values())
        JobPanel(
            purpose=QUALITY_PURPOSE,
            key=key,
            title="Measuring decoders",
            work=partial(_measure_log, history, split, missing),
            start_label="Run",
            offer_text=f"Measure {titles} as set in Explore, at {len(missing)} moments of the log.",
            autostart=False,
            on_partial=draw if is_active else None,
            failed_text="The decoders cannot be measured.",
        ).draw_until_result()
        # The panel has drawn the partial results.
        if is_active:
            return
    draw()


def _can_measure(history: DriftHistory) -> bool:
    """Return True if the decoders can run on this corpus; draw the reason if they cannot."""
    try:
        for decoder in history.decoders:
            decoders.check_decoder(decoder, history.space)
    except FrontierError as error:
        show_failure("These decoders cannot be measured.", error)
        return False
    return True


def _measure_log(history: DriftHistory, split: str, steps: list[int], job: Job) -> bool:
    """Measure the decoders' quality at several steps of the log of votes, in a job.

    steps: numbers of records of the log. Each result goes to job.partial. Returns True, as a panel takes None for no
    result.
    """
    queries, qrels = find_probes(history.loaded, split, job)
    session = history.feedback
    start = history.known_origin or beginning(session, queries, qrels)
    report: dict[str, Any] = {"progress": job.report, "stop": job.stop, "seen": job.collect}
    measured(session, start, queries, qrels, history.decoders, steps, history.k, **report)
    return True
