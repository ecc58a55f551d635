"""View of the elastic net's exact weights beside FISTA's after 50 steps, on one query and on labelled ones."""

import math
from collections.abc import Sequence
from functools import partial
from itertools import islice
from typing import Any

import numpy as np
import streamlit as st

import engine
from dashboard.charts.weights import plot_convergence
from dashboard.components.live_plot import is_dark, plot
from dashboard.services.jobs import Job
from dashboard.services.source import Loaded
from dashboard.session import decoders, view_names
from dashboard.session.answers import answer_key, compute_answer
from dashboard.session.parameters import read_stage
from dashboard.session.query import Question, find_first_split
from dashboard.theory.study import StudyView, draw_cached
from dashboard.widgets import weights
from dashboard.widgets.job_panel import JobPanel
from dashboard.widgets.skeleton import draw_boxes
from engine.decoder import Decoder
from engine.errors import Cancelled
from engine.evaluation.studies.fista_convergence import FISTA_STEPS
from engine.progress import counted
from engine.solvers.elastic_net.path import WeightPath
from engine.stages import Selector, methods
from engine.theory.elastic_net import Outlook, outlook
from engine.values import Embeddings, Qrels
from engine.views.theory import find_weighing_selector
from engine.wording import decimal

MAX_SOLVER_QUERIES, SOLVER_K = 100, 5
"""Number of labelled queries, and the paper's k, for the comparison of solvers."""
N_PAPER_STEPS = 50
STEPS_PURPOSE = "steps"
GUARANTEE_ROWS, STEPS_ROWS = ((1, 24), (1, 28), (1, 44)), ((1, 330),)
"""Boxes in place of the guarantee's sentences, and of the chart of steps."""


def _draw_steps(loaded: Loaded, question: Question | None) -> None:
    """Draw how far FISTA, the NNN paper's solver, is after 50 steps from the exact answer to the query.

    question: the current query, never None here
    """
    # A view with `needs_query` is drawn with a query only.
    assert question is not None
    spec = methods("selector")[find_weighing_selector()]
    decoder = Decoder(read_stage(spec, decoders.PARAM_PREFIX), depth=question.depth)
    stage, result = decoder.select, compute_answer(loaded, question, spec.name, decoder)
    if "l1" not in result.ranking.info[0]:
        st.info(weights.NO_WEIGHT_TEXT)
        return
    l1 = result.ranking.info[0]["l1"]
    # The path must reach the current λ₁, also below the usual range.
    min_l1 = min(weights.L1_AXIS_RANGE[0], l1) if l1 > 0 else weights.L1_AXIS_RANGE[0]
    find_guarantee = partial(_find_guarantee, loaded, question, stage, min_l1)
    draw = partial(_draw_guarantee, loaded, stage.spec.name, max(l1, min_l1))
    key = "steps", *answer_key(loaded, question, decoder)
    draw_cached(key, find_guarantee, GUARANTEE_ROWS, draw, "Solving exactly at every λ₁ …")


def _find_guarantee(loaded: Loaded, question: Question, stage: Selector, min_l1: float) -> tuple[WeightPath, Outlook]:
    """Compute the exact weights at every λ₁ from min_l1 on, and what bounds FISTA's steps on this corpus."""
    path = weights.compute_path(loaded, question, stage, min_l1)
    return path, outlook(loaded.space, path.l2)


def _draw_guarantee(loaded: Loaded, name: str, l1: float, guarantee: tuple[WeightPath, Outlook]) -> None:
    """Draw how close FISTA surely comes to the exact weights of documents, and how close on labelled queries.

    FISTA is an iterative method; Frontier computes the weights exactly. name: of the selector; l1: λ₁, the penalty on
    the weights' sum; guarantee: the exact weights for this query, and what bounds the steps
    """
    path, view = guarantee
    st.text(f"λ₁ = {l1:.3g}, λ₂ = {path.l2:g}")
    # The bound holds for a start at 0, from where the distance to the optimum is the length of the optimal weights.
    _, optimal_weights = path.at(l1)
    distance = math.sqrt(float(np.square(optimal_weights).sum()))
    st.markdown(
        f"**{N_PAPER_STEPS} steps guarantee the optimum within {decimal(view.gap(distance, N_PAPER_STEPS))}; "
        f"{view.steps(distance, 1e-3):,} steps, within 0.001.**"
    )
    st.caption(
        f"FISTA's step is 1/L, and L grows with how alike documents are: these {view.length:,} have a mean cosine "
        f"of {decimal(view.common, 2)}, so L = {view.spectrum:,.0f}. The guarantee is for the worst problem with this "
        "L; labelled queries show what happens here."
    )
    _draw_measured(loaded, l1, path.l2)


def _draw_measured(loaded: Loaded, l1: float, l2: float) -> None:
    """Draw the error of FISTA, the NNN paper's solver, by its number of steps on labelled queries.

    A job measures it, for at most MAX_SOLVER_QUERIES queries.
    """
    dataset, split = loaded.dataset, find_first_split(loaded.dataset)
    all_queries = dataset.judged(split) if split else dataset.queries
    queries = all_queries.only(all_queries.ids[:MAX_SOLVER_QUERIES])
    vectors = loaded.vectors_of(queries) if split else None
    if split is None or vectors is None:
        st.caption("With labelled queries, the steps would be measured against the exact answer here.")
        return

    queries_text = counted(len(queries), "labelled query", "labelled queries")

    def draw_steps(measured: Sequence[Any]) -> None:
        """Draw the solver's error over its steps, once the exact answer and one number of steps are measured."""
        # The exact answer is the first one.
        if len(measured) < 2:
            draw_boxes(STEPS_ROWS)
            return
        figure = plot_convergence(measured, SOLVER_K, is_dark())
        plot(figure, "steps.chart", file="steps", label="Steps of FISTA against the minimiser")
        st.caption(
            f"{queries_text} · λ₁ = {l1:.3g}, λ₂ = {l2:g} · the exact answer has "
            f"{measured[0].support:.1f} documents on average · residual: median, as a share of the best score"
        )

    run_label = f"Run on {queries_text}"
    title = f"λ₁ = {l1:.3g}, λ₂ = {l2:g} of {loaded.space.embeddings.digest[:8]}"
    measured = JobPanel(
        purpose=STEPS_PURPOSE,
        key=(title, dataset.qrels[split].digest),
        title=title,
        work=lambda job: _measure_steps(job, loaded, vectors, dataset.qrels[split], l1, l2),
        start_label=run_label,
        resume_label=run_label,
        autostart=False,
        on_partial=draw_steps,
        draw_waiting=partial(draw_boxes, STEPS_ROWS),
        failed_text="The steps could not be measured.",
    ).draw_until_result()
    if measured is not None:
        draw_steps(measured)


def _measure_steps(job: Job, loaded: Loaded, vectors: Embeddings, qrels: Qrels, l1: float, l2: float) -> list[Any]:
    """Measure the error of FISTA, the NNN paper's iterative solver, at rising numbers of steps.

    Return a result for each number, after one for the exact answer. It runs in a job; pages read the results so far in
    its `partial`.
    """
    steps = engine.convergence(loaded.space, vectors, qrels, SOLVER_K, l1=l1, l2=l2)
    for measurement in islice(steps, len(FISTA_STEPS) + 1):
        # Each measured step is kept, so a stop loses little.
        if job.stop.is_set():
            raise Cancelled("stopped")
        job.collect(measurement)
        job.report(measurement.steps or 0, FISTA_STEPS[-1], "steps of FISTA")
    return list(job.partial or ())


STEPS = StudyView(
    title=view_names.EXACT_STEPS,
    caption="The paper stops FISTA after 50 steps. Frontier solves exactly, with a certificate. How far apart are the "
    "two on this corpus, at Explore's λ₁ and λ₂?",
    needs_query="Pick a query: the guarantee is about its weights.",
    draw=_draw_steps,
)
