"""The dimension that keeps the order of a word-based score: the bound, and measured projections."""

from functools import partial

import streamlit as st

import engine
from dashboard.charts.theory import dimension_figure
from dashboard.components.live_plot import is_dark, plot
from dashboard.services.jobs import Job
from dashboard.services.source import Loaded
from dashboard.session.query import Question
from dashboard.theory import query_source, recall_dimension
from dashboard.theory.jobs import measure
from dashboard.widgets.choices import choose
from dashboard.widgets.parameters import control
from dashboard.widgets.tables import draw_columns, draw_table, number_column
from engine.params import Real
from engine.progress import counted
from engine.theory.margins import Margins
from engine.theory.measured_dimensions import TARGET
from engine.theory.random_projections import PROJECTION, PairErrors
from engine.theory.text_vectors import WEIGHTING
from engine.views.theory import against_bound, needed

ERROR = Real(0.05, "β", 0.01, 0.51, name="error", help="How often a projection may reverse a pair of documents.")
DIMENSIONS = (32, 64, 128, 256, 512, 1024, 2048)
BINS, DRAWS = 5, 20
PAIRS = "Order of pairs, by margin"


def show(loaded: Loaded, question: Question | None) -> None:
    """Measured error and bound over k, and the dimensions that both ask for at one error."""
    st.caption(
        "How many dimensions k keep a pair of documents in order, if word scores are projected at random? Lemma 1: "
        "k ≥ 2 (ε²/2 − ε³/3)⁻¹ ln(4/β), where ε is their margin. Corollary 1, simpler and larger: k > 12 ε⁻² ln(4/β). "
        "Both hold for any corpus, so they are pessimistic. A trained encoder may need fewer."
    )
    if len(loaded.space) < 2:
        st.info("A pair needs two documents. Load a larger corpus on the Data page.")
        return
    measurement = choose("What is measured", (PAIRS, recall_dimension.TITLE), "theory.dimension.what")
    with st.container(horizontal=True, vertical_alignment="bottom", gap="medium"):
        with st.container(width=360):
            choice = query_source.choose_queries(loaded)
        weighting = control(WEIGHTING, "theory.weighting", st.container(width=150))
        projection = control(PROJECTION, "theory.projection", st.container(width=170))
        param, key = (ERROR, "theory.error") if measurement == PAIRS else (TARGET, "theory.target")
        error = control(param, key, st.container(width=240))
    if measurement != PAIRS:
        recall_dimension.show(choice, weighting, projection, error)
        return
    measure(
        ("dimension", choice.key, weighting, projection),
        "Measuring random projections",
        partial(_work, choice, weighting, projection),
        lambda result: _shown(*result, weighting, error),
        by_itself=choice.small,
    )


def _work(
    choice: query_source.QueryChoice, weighting: str, projection: str, job: Job
) -> tuple[int, Margins, PairErrors]:
    queries, _ = choice.task()
    space, given = choice.loaded.space, {"progress": job.report, "stop": job.stop}
    every = engine.margins(space, queries, weighting, ranks=(1,), bins=1, **given)
    grid = {"projection": projection, "dimensions": DIMENSIONS, "bins": BINS, "draws": DRAWS}
    errors = engine.pair_errors(space, queries, weighting, **grid, **given)
    return len(queries), every, errors


def _shown(count: int, every: Margins, errors: PairErrors, weighting: str, error: float) -> None:
    rows, needs = against_bound(errors, error), needed(every, error)
    left, right = st.columns(2, gap="medium")
    with left:
        figure = dimension_figure(errors, error, is_dark())
        plot(figure, "theory.dimension", file="dimension", label="Error of pairs over the dimension")
        st.caption(
            f"{counted(count, 'query', 'queries')}, {errors.draws} projections · solid: measured, 95% CI · dashed: the "
            "bound (says nothing above 100%) · colour: pairs of similar margin · no point: no pair was reversed"
        )
    with right:
        st.markdown(f"**To reverse at most {error:.0%} of pairs**")
        draw_table(
            {
                "Margin ε": [f"{r.least:.3f} to {r.most:.3f}" for r in rows],
                "Pairs": [r.pairs for r in rows],
                "Measured k": [
                    f"> {DIMENSIONS[-1]:,}" if r.measured is None else f"{'≤ ' if r.at_once else ''}{r.measured:,}"
                    for r in rows
                ],
                "Bound's k": [f"{r.guaranteed:,}" for r in rows],
                "Corollary 1": [f"{r.simple:,}" for r in rows],
                "Times": ["–" if r.times is None else f"{'≥ ' if r.at_once else ''}{r.times:.1f}" for r in rows],
            }
        )
        if times := [r.times for r in rows if r.times is not None]:
            st.caption(
                f"The bound is loose: it asks for {min(times):.0f} to {max(times):.0f} times the dimension that was "
                "enough."
            )
        if needs:
            st.markdown(f"**To keep {weighting}'s best document above its nearest rival**")
            draw_columns(
                {
                    "Queries": ([row.share for row in needs], number_column("percent")),
                    "Margin ε": ([row.margin for row in needs], number_column("%.4f")),
                    "Bound's k": ([row.dimension for row in needs], number_column("localized")),
                    "Corollary 1": ([row.simple for row in needs], number_column("localized")),
                }
            )
            st.caption("Each of these queries with an error of at most β. Ties are left out.")
