"""The elastic net's weights along λ₁, and FISTA's distance from them."""

import math
from collections.abc import Sequence
from itertools import islice
from typing import Any

import numpy as np
import streamlit as st
from torch import Tensor

import engine
from dashboard.charts.weights import convergence_figure
from dashboard.components.live_plot import is_dark, plot
from dashboard.services.jobs import Job
from dashboard.services.memo import remembered
from dashboard.services.source import Loaded
from dashboard.session.answers import query_of
from dashboard.session.query import Question, first_split
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

SHOWN = (0.001, 1.0)
"""The λ₁ axis ends here, or at the current λ₁ where that lies outside."""
SAMPLE, TOP = 100, 5
"""The number of test queries, and the paper's k, of the comparison of solvers."""
REMEMBERED = 8
PURPOSE = "steps"


def path_at(
    loaded: Loaded, question: Question, stage: Selector, lowest: float, rows: Tensor | None = None
) -> WeightPath:
    """The path of the question, remembered by its content; rows: of the corpus, all by default."""
    space = loaded.space
    query = question.vector.numpy().tobytes()
    pool = None if rows is None else tuple(rows.tolist())
    label = type(stage)(**values_of(stage) | {"l1": 0.0}).label
    key = (space.embeddings.digest, query, label, lowest, question.depth, pool)

    def make() -> WeightPath:
        path = compute_weight_path(stage, space, query_of(loaded, question), lowest, question.depth, rows)
        assert path is not None, "only selectors with weights are asked for their path"
        return path

    return remembered("paths", key, make, REMEMBERED)


def solver(loaded: Loaded, question: Question, stage: Selector, l1: float, path: WeightPath) -> None:
    """FISTA's distance at this λ₁: the bound of theory, and labelled queries."""
    with st.spinner("Measuring what the documents have in common"):
        view, steps = outlook(loaded.space, path.l2), 50
    weights = math.sqrt(float(np.square(path.at(l1)[1]).sum()))
    st.markdown(
        f"**{steps} steps guarantee the optimum within {decimal(view.gap(weights, steps))}; "
        f"{view.steps(weights, 1e-3):,} steps, within 0.001.**"
    )
    st.caption(
        f"FISTA's step is 1/L, and L grows with how alike documents are: these {view.length:,} have a mean cosine "
        f"of {decimal(view.common, 2)}, so L = {view.spectrum:,.0f}. The guarantee is for the worst problem with this "
        "L; test queries show what happens here."
    )
    _measured(loaded, stage.spec.name, l1, path.l2)


def _measured(loaded: Loaded, name: str, l1: float, l2: float) -> None:
    """Over labelled queries: a job, its progress, and what it found so far or in the end."""
    dataset, split = loaded.dataset, first_split(loaded.dataset)
    judged = dataset.judged(split) if split else dataset.queries
    queries = judged.only(judged.ids[:SAMPLE])
    vectors = loaded.vectors_of(queries) if split else None
    if split is None or vectors is None:
        st.caption("With test queries, the steps would be measured against the exact answer here.")
        return

    def draw(rows: Sequence[Any]) -> None:
        if len(rows) < 2:
            return
        figure = convergence_figure(rows, name, TOP, is_dark())
        plot(figure, "steps.chart", file="steps", label="Steps of FISTA against the minimiser")
        st.caption(
            f"{counted(len(queries), 'test query', 'test queries')} · λ₁ = {l1:.3g}, λ₂ = {l2:g} · the exact answer "
            f"has {rows[0].support:.1f} documents on average · residual: median, as a share of the best score"
        )

    run = f"Run on {counted(len(queries), 'test query', 'test queries')}"
    title = f"λ₁ = {l1:.3g}, λ₂ = {l2:g} of {loaded.space.embeddings.digest[:8]}"
    rows = JobPanel(
        purpose=PURPOSE,
        key=title,
        title=title,
        work=lambda job: _steps(job, loaded, vectors, dataset.qrels[split], l1, l2),
        start=run,
        again=run,
        by_itself=False,
        on_partial=draw,
        failed="The steps could not be measured.",
    ).result()
    if rows is not None:
        draw(rows)


def _steps(job: Job, loaded: Loaded, vectors: Embeddings, qrels: Qrels, l1: float, l2: float) -> list[Any]:
    steps = engine.convergence(loaded.space, vectors, qrels, TOP, l1=l1, l2=l2)
    for row in islice(steps, len(FISTA_STEPS) + 1):
        if job.stop.is_set():
            raise Cancelled("stopped")
        job.collect(row)
        job.report(row.steps or 0, FISTA_STEPS[-1], "steps of FISTA")
    return list(job.partial or ())
