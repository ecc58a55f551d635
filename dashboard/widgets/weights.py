"""Weights of the elastic net along λ₁, and the distance of FISTA from them."""

import math
from collections.abc import Sequence
from itertools import islice
from typing import Any

import numpy as np
import streamlit as st
from torch import Tensor

import engine
from dashboard.charts.weights import plot_convergence
from dashboard.components.live_plot import is_dark, plot
from dashboard.services.jobs import Job
from dashboard.services.memo import get_or_compute
from dashboard.services.source import Loaded
from dashboard.session.answers import as_embeddings
from dashboard.session.decoders import get_self_rule
from dashboard.session.query import Question, find_first_split
from dashboard.widgets.job_panel import JobPanel
from engine.errors import Cancelled
from engine.evaluation.path import compute_weight_path
from engine.evaluation.studies.fista_convergence import FISTA_STEPS
from engine.params import values_of
from engine.progress import counted
from engine.solvers.elastic_net.path import WeightPath
from engine.stages import Selector
from engine.theory.elastic_net import outlook
from engine.values import Embeddings, Qrels
from engine.wording import decimal

NO_WEIGHT_TEXT = "Nothing was retrieved, so there is no weight to show."
L1_AXIS_RANGE = (0.001, 1.0)
"""Ends of the λ₁ axis, unless the current λ₁ is outside."""
MAX_SOLVER_QUERIES, SOLVER_K = 100, 5
"""Number of labelled queries, and the paper's k, for the comparison of solvers."""
MAX_CACHED_PATHS = 8
STEPS_PURPOSE = "steps"


def compute_path(
    loaded: Loaded, question: Question, stage: Selector, min_l1: float, row_indices: Tensor | None = None
) -> WeightPath:
    """Return the weights that the elastic net gives the documents at every λ₁, for the question; cached.

    The selector represents the query by few documents: the larger λ₁, the fewer have a weight. stage: the selector;
    min_l1: where the path ends; row_indices: candidates, all documents by default
    """
    space = loaded.space
    query_bytes = question.vector.numpy().tobytes()
    pool = None if row_indices is None else tuple(row_indices.tolist())
    # The path covers all λ₁, so it is cached under the selector with any one of them, 0.
    label = type(stage)(**values_of(stage) | {"l1": 0.0}).label
    query_parts = query_bytes, question.id, question.text, question.document
    key = (space.embeddings.digest, *query_parts, label, min_l1, question.depth, pool, get_self_rule())

    def compute() -> WeightPath:
        """Compute the weights at every λ₁ from `min_l1` on."""
        # A document to be like is no candidate, whatever its text.
        without_self = True if question.document is not None else get_self_rule()
        query = as_embeddings(loaded, question)
        path = compute_weight_path(stage, space, query, min_l1, question.depth, row_indices, without_self)
        assert path is not None, "only selectors with weights are asked for their path"
        return path

    return get_or_compute("paths", key, compute, MAX_CACHED_PATHS)


def draw_solver(loaded: Loaded, question: Question, stage: Selector, l1: float, path: WeightPath) -> None:
    """Draw how fast FISTA, the NNN paper's solver, comes close to the exact weights of documents.

    FISTA is an iterative method; the page computes the weights exactly. l1: λ₁, the penalty on the weights' sum, at its
    current value; path: the exact weights at every λ₁ for this query
    """
    n_steps = 50
    with st.spinner("Measuring what the documents have in common"):
        # `view` bounds what FISTA's steps can achieve on this corpus.
        view = outlook(loaded.space, path.l2)
    # The bound holds for a start at 0, from where the distance to the optimum is the length of the optimal weights.
    _, optimal_weights = path.at(l1)
    distance = math.sqrt(float(np.square(optimal_weights).sum()))
    st.markdown(
        f"**{n_steps} steps guarantee the optimum within {decimal(view.gap(distance, n_steps))}; "
        f"{view.steps(distance, 1e-3):,} steps, within 0.001.**"
    )
    st.caption(
        f"FISTA's step is 1/L, and L grows with how alike documents are: these {view.length:,} have a mean cosine "
        f"of {decimal(view.common, 2)}, so L = {view.spectrum:,.0f}. The guarantee is for the worst problem with this "
        "L; labelled queries show what happens here."
    )
    _draw_measured(loaded, stage.spec.name, l1, path.l2)


def _draw_measured(loaded: Loaded, name: str, l1: float, l2: float) -> None:
    """Draw the error of FISTA, the NNN paper's solver, by its number of steps on labelled queries.

    A job measures it, for at most MAX_SOLVER_QUERIES queries; name: of the selector whose problem it solves
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
