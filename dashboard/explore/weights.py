"""The Weights view: a query's documents along λ₁, with a way to the accuracy of the paper's number of steps."""

from collections.abc import Mapping

import streamlit as st

from dashboard.charts.ghosts import draw_weights_ghost
from dashboard.charts.weights import plot_weights
from dashboard.components.live_plot import is_dark, plot
from dashboard.services.source import Loaded
from dashboard.session import view_names
from dashboard.session.answers import Answer
from dashboard.session.decoders import add_selector
from dashboard.session.query import Question
from dashboard.widgets import skeleton
from dashboard.widgets.choices import choose
from dashboard.widgets.weights import L1_AXIS_RANGE, NO_WEIGHT_TEXT, compute_path
from engine.progress import counted
from engine.solvers.elastic_net.path import WeightPath
from engine.stages import methods
from engine.views.names import name_document
from engine.views.sets import weight_lines
from engine.wording import power

THEORY_SCREEN = "screens/theory.py"
OFFER_HEIGHT_PX = 430
"""Height of the outline in place of the chart."""


def draw_weights(loaded: Loaded, question: Question, answers: Mapping[str, Answer], baseline: str) -> None:
    """Draw the documents' weights at every λ₁, and a button that opens how accurate the NNN paper's solver is.

    λ₁ is the penalty of selectors that weigh documents: the larger, the fewer have a weight. baseline: unused, as every
    view of the answers is called alike
    """
    names = [name for name in answers if answers[name].stage.has_weights()]
    if not names:
        _draw_offer()
        return
    # The choice is drawn only if there is one.
    name = choose("Of", names, "weights.of", show_label=True, persist=False) if len(names) > 1 else names[0]
    answer = answers[name]
    if "l1" not in answer.ranking.info[0]:
        st.info(NO_WEIGHT_TEXT)
        return
    l1 = answer.ranking.info[0]["l1"]
    # The path must reach the current λ₁, also below the usual range.
    min_l1 = min(L1_AXIS_RANGE[0], l1) if l1 > 0 else L1_AXIS_RANGE[0]
    # (1, n) rows that the selector received, if another scorer than the first retrieved them.
    pool = None if answer.relevance is None else answer.relevance.scored.candidates.pool
    row_indices = None if pool is None else pool[0]
    with st.spinner("Following the path"):
        path = compute_path(loaded, question, answer.stage, min_l1, row_indices)
    _draw_path(loaded, question, answer, path, min_l1)
    why = "Theory: how far the paper's solver, FISTA, is from these weights after 50 steps."
    # A callback cannot change the page: it chooses the view, and the change comes in the run after.
    if st.button("Exact weights vs 50 steps of FISTA", key="steps.start", help=why, on_click=_choose_steps_view):
        st.switch_page(THEORY_SCREEN)


def _draw_offer() -> None:
    """Draw buttons that add a decoder that weighs its documents, over the outline of the chart that it brings."""
    with skeleton.open_ghost("weights-offer", draw_weights_ghost(is_dark()), OFFER_HEIGHT_PX):
        for name, spec in methods("selector").items():
            if spec.cls.has_weights():
                st.text(
                    f"{spec.title} gives each document a weight, and fewer of them as λ₁ grows. Here stands each "
                    "document's weight at every λ₁."
                )
                key = f"weights.add.{name}"
                st.button(f"Add {spec.title}", key=key, type="primary", on_click=add_selector, args=(name,))


def _choose_steps_view() -> None:
    """Have Theory open the view of the paper's number of steps; for a callback."""
    st.session_state[view_names.THEORY_GROUP_KEY] = view_names.SEARCH_GROUP
    st.session_state[view_names.THEORY_VIEW_KEY] = view_names.EXACT_STEPS


def _draw_path(loaded: Loaded, question: Question, answer: Answer, path: WeightPath, min_l1: float) -> None:
    """Draw the documents' weights over λ₁, down to min_l1, with the current λ₁ marked.

    λ₁ is the penalty of selectors that weigh documents. path: the exact weights at every λ₁, which are linear between
    kinks; the selector's own solver may have come only near them
    """
    ranking, info = answer.ranking, answer.ranking.info[0]
    if not len(path):
        st.info("No document scores above the lowest λ₁: there is no weight to show.")
        return
    l1 = max(info["l1"], min_l1)
    lines = weight_lines(loaded.space, question.id, path, l1, question.qrels)
    corpus = loaded.space.corpus
    weighed = zip(ranking.rows(), ranking.gain[0].tolist(), strict=False)
    # (weight, name) of each document by the selector. If they are proved exact ("certified"), they lie on the path's
    # lines and need no marks of their own.
    answer_weights = [(weight, name_document(corpus, row)) for row, weight in weighed if weight > 0]
    solver_weights = [] if info["certified"] else answer_weights
    span = (min_l1, max(L1_AXIS_RANGE[1], l1, path.levels[0]))
    figure = plot_weights(lines, l1, span, answer.stage.spec.name, solver_weights, is_dark())
    plot(figure, "weights", file="weights", label="Weights of documents along λ₁")
    proof = f"{counted(len(path), 'linear segment')} below λ₁ = {path.levels[0]:.2f}, residual {power(path.residual)}"
    sentences = [
        f"Every λ₁ exact, at λ₂ = {path.l2:g} ({proof}).",
        f"Thick and in {answer.stage.spec.title}'s colour: relevant." if question.is_judged else "",
        "Open symbols: what the solver made of it." if solver_weights else "",
    ]
    st.caption(" ".join(filter(None, sentences)))
