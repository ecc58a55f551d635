"""The Weights view: how a query's documents gain and lose weight along λ₁, and how near the paper's steps come."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from itertools import islice

import numpy as np
import streamlit as st
from torch import Tensor

import engine
from dashboard import jobs
from dashboard.charts import convergence_figure, weights_figure
from dashboard.components.live_plot import plot
from dashboard.explore.answers import Answer, query_of
from dashboard.explore.question import Asked, first_split
from dashboard.jobs import Job
from dashboard.parts import watch
from dashboard.state import Loaded
from engine.errors import Cancelled
from engine.evaluation.convergence import STEPS
from engine.evaluation.weight_path import path_of
from engine.solvers.regularization_path import WeightPath
from engine.stages import Selector, methods
from engine.theory import outlook
from engine.values import Embeddings, Queries, Ranking
from engine.views import weight_lines

SHOWN = (0.001, 1.0)
"""The λ₁ axis ends here, or at the current λ₁ where that lies outside."""
SAMPLE, TOP = 100, 5
"""So many labelled queries, and the paper's k, for the comparison of solvers."""
REMEMBERED = 8
PURPOSE = "steps"


def show(loaded: Loaded, asked: Asked, answers: Mapping[str, Answer], baseline: str) -> None:
    """The path with the current λ₁, and beside it what the paper's solver makes of this corpus."""
    own = [name for name in answers if answers[name].stage.weighs()]
    if not own:
        known = methods("selector")
        able = [spec.title for spec in known.values() if spec.cls.weighs()]
        st.info(f"None of these decoders weighs its documents. Choose {' or '.join(able)} above.")
        return
    name = own[0]
    if len(own) > 1:
        name = st.segmented_control("Of", own, default=own[0], required=True, key="weights.of") or own[0]
    stage, ranking = answers[name].stage, answers[name].ranking
    info = ranking.info[0]
    left, right = st.columns([3, 2], gap="medium")
    with left:
        lowest = min(SHOWN[0], info["l1"]) if info["l1"] > 0 else SHOWN[0]
        with st.spinner("Following the path"):
            path = path_at(loaded, asked, stage, lowest, _pool(answers[name]))
        _path_chart(loaded, asked, stage, ranking, path, lowest)
    with right:
        solver(loaded, asked, stage, info["l1"], path)


def _pool(answer: Answer) -> Tensor | None:
    """The rows that a decoder chose from, where another scorer than the first picked them."""
    return None if answer.relevance is None else answer.relevance.found.candidates.pool[0]


def path_at(loaded: Loaded, asked: Asked, stage: Selector, lowest: float, rows: Tensor | None = None) -> WeightPath:
    """The path of the question, remembered by its content; rows: of the corpus, all by default."""
    space = loaded.space
    query = asked.vector.numpy().tobytes()
    pool = None if rows is None else tuple(rows.tolist())
    key = (space.embeddings.digest, query, replace(stage, l1=0.0).label, lowest, asked.depth, pool)
    memory = st.session_state.setdefault("paths", {})
    if key not in memory:
        with jobs.turn():
            memory[key] = path_of(stage, space, query_of(loaded, asked), lowest, asked.depth, rows)
        while len(memory) > REMEMBERED:
            memory.pop(next(iter(memory)))
    return memory[key]


def _path_chart(
    loaded: Loaded, asked: Asked, stage: Selector, ranking: Ranking, path: WeightPath, lowest: float
) -> None:
    info = ranking.info[0]
    if not len(path):
        st.info("No document scores above the lowest λ₁: there is no weight to show.")
        return
    l1 = max(info["l1"], lowest)
    lines = weight_lines(loaded.space, asked.id, path, l1, asked.qrels)
    corpus = loaded.space.corpus
    rough = [
        (weight, corpus.titles[row] or corpus.ids[row])
        for row, weight in zip(ranking.index[0].tolist(), ranking.gain[0].tolist(), strict=True)
        if row >= 0 and weight > 0 and not info["certified"]
    ]
    span = (lowest, max(SHOWN[1], l1, path.levels[0]))
    dark = st.context.theme.type == "dark"
    plot(
        weights_figure(lines, l1, span, stage.spec.name, rough, dark),
        "weights",
        file="weights",
        label="Weights of documents along λ₁",
    )
    said = [
        f"Exact weights at every λ₁, λ₂ = {path.l2:g}: {len(path):,} straight pieces, from λ₁ = {path.levels[0]:.3f} "
        f"down. All optimality conditions hold to {max(path.residual, 1e-17):.0e} everywhere.",
        "Thick: relevant." if asked.judged else "",
        "Open symbols: what the solver made of it." if rough else "",
    ]
    st.caption(" ".join(filter(None, said)))


def solver(loaded: Loaded, asked: Asked, stage: Selector, l1: float, path: WeightPath) -> None:
    """How near the paper's steps come at this λ₁: what theory promises, and what labelled queries show."""
    with st.spinner("Measuring what the documents have in common"):
        view, steps = outlook(loaded.space, path.l2), 50
    weights = math.sqrt(float(np.square(path.at(l1)[1]).sum()))
    st.markdown("**How near do the paper's 50 steps come?**")
    st.caption(
        f"A step goes 1/L far, and L grows with what documents have in common: here {view.spectrum:,.0f}, with "
        f"{view.length:,} documents whose cosine is {view.common:.2f} on average. For this query theory promises the "
        f"objective to within {view.gap(weights, steps):.2g} after {steps} steps; within .001 takes "
        f"{view.steps(weights, 1e-3):,}."
    )
    _measured(loaded, stage.spec.name, l1, path.l2)


def _measured(loaded: Loaded, name: str, l1: float, l2: float) -> None:
    """Over labelled queries: a job, its progress, and what it found so far or in the end."""
    queries, vectors = _labelled(loaded)
    if vectors is None:
        st.caption("Labelled queries would show here how the steps rank against the minimiser.")
        return
    title = f"λ₁ = {l1:.3g}, λ₂ = {l2:g} of {loaded.space.embeddings.digest[:8]}"
    job = jobs.mine().get(PURPOSE)
    if job is None or job.title != title or job.cancelled:
        other = jobs.busy(PURPOSE)
        if st.button(f"Measure on {len(queries)} labelled queries", key="steps.start", disabled=other is not None):
            jobs.start(PURPOSE, title, lambda j: _steps(j, loaded, queries, vectors, l1, l2))
            st.rerun(scope="fragment")
        if other:
            st.caption(f"Possible when this has ended: {other.title}")
        return
    rows = job.result or job.partial
    if job.error:
        st.error("The steps could not be measured.", icon=":material/error:")
        st.text(job.error)
    if rows and len(rows) > 1:
        dark = st.context.theme.type == "dark"
        plot(
            convergence_figure(rows, name, TOP, dark),
            "steps.chart",
            file="steps",
            label="Steps of FISTA against the minimiser",
        )
        exact = rows[0]
        st.caption(
            f"{len(queries)} labelled queries, λ₁ = {l1:.3g}, λ₂ = {l2:g}; the minimiser gives "
            f"{exact.support:.1f} documents a weight on average. Residual: median, of the best score."
        )
    if job.running:
        watch(job, "steps.cancel")


def _labelled(loaded: Loaded) -> tuple[Queries | None, Embeddings | None]:
    """The first labelled queries whose vectors are there."""
    dataset = loaded.dataset
    if loaded.queries is None or not dataset.qrels:
        return None, None
    judged = dataset.judged(_split(loaded))
    queries = judged.only(judged.ids[:SAMPLE])
    return queries, loaded.vectors_of(queries)


def _split(loaded: Loaded) -> str:
    return first_split(loaded.dataset)


def _steps(job: Job, loaded: Loaded, queries: Queries, vectors: Embeddings, l1: float, l2: float) -> list:
    qrels = loaded.dataset.qrels[_split(loaded)]
    found: list = []
    rows = engine.convergence(loaded.space, vectors, qrels, TOP, l1=l1, l2=l2)
    for row in islice(rows, len(STEPS) + 1):
        if job.stop.is_set():
            raise Cancelled("stopped")
        found.append(row)
        job.partial = list(found)
        job.report(row.steps or 0, STEPS[-1], "steps of FISTA")
    return found
