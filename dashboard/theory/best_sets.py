"""What selectors return beside the best of all sets, by enumeration of the query's most relevant documents."""

import streamlit as st

from dashboard.services.source import Loaded
from dashboard.session.query import Question
from dashboard.theory.jobs import remembered
from dashboard.widgets.parameters import control
from dashboard.widgets.tables import draw_columns, number_column
from engine.evaluation.studies.brute_force import WEIGHT
from engine.progress import shorten
from engine.views.best_sets import FACES, POOL, RELAXED, SIZE, best_sets, equivalence_said, relaxation_said

SHARE = st.column_config.ProgressColumn(format="percent", min_value=0.0, max_value=1.0, width=160)


def show(loaded: Loaded, question: Question | None) -> None:
    """The sets of one query."""
    st.caption(
        "Selectors pick greedily or climb; which set is best by their own measure? Every set of the query's most "
        "relevant documents is tried."
    )
    if question is None or len(loaded.space) <= POOL.low:
        st.info(f"Pick a query of a corpus with more than {POOL.low} documents.")
        return
    st.text(shorten(question.text, 200))
    places = st.columns(3)
    k = control(SIZE, "theory.best.k", places[0])
    pool = min(control(POOL, "theory.best.pool", places[1]), len(loaded.space))
    weight = control(WEIGHT, "theory.best.weight", places[2])
    key = ("best", loaded.space.embeddings.digest, question.vector.numpy().tobytes(), k, pool, weight)
    with st.spinner("Trying every set"):
        result = remembered(key, lambda: best_sets(loaded.space, question.vector, k, pool, weight))
    titles, gaps = zip(*result.gaps, strict=True)
    draw_columns(
        {
            "Selector": (titles, None),
            "Its set": ([gap.value for gap in gaps], number_column("%.4f")),
            "Best set": ([gap.best.value for gap in gaps], number_column("%.4f")),
            "Worst set": ([gap.best.worst for gap in gaps], number_column("%.4f")),
            "From worst to best": ([1 - gap.share for gap in gaps], SHARE),
            "Sets": ([gap.best.sets for gap in gaps], number_column("%d")),
        }
    )
    left, right = st.columns(2, gap="large")
    with left:
        st.markdown("**cos(sum, q) against cos(rest, q − d₀)** (VRSD, §3.1)")
        st.text(equivalence_said(result.equivalence))
        st.caption("The paper takes the two problems for one. The first document d₀ is the most relevant, as there.")
    with right:
        st.markdown("**The relaxation** (CCBQP, Theorems 2.1 and 2.4)")
        for sentence in relaxation_said(result.relaxation, result.ends):
            st.text(sentence)
        st.caption(
            f"On the {FACES} most relevant documents, sets of {RELAXED}: all faces of the relaxation are looked at."
        )
