"""Views of sets: decodable by the elastic net, and best by enumeration."""

from functools import partial

import streamlit as st

from dashboard.charts.figure import read_column
from dashboard.charts.theory import plot_plane
from dashboard.components.live_plot import is_dark, plot
from dashboard.services.source import Loaded
from dashboard.session.query import Question
from dashboard.theory.study import StudyView, draw_cached
from dashboard.widgets.parameters import draw_parameter
from dashboard.widgets.tables import draw_columns, number_column
from engine.errors import FrontierError
from engine.evaluation.studies.brute_force import OBJECTIVE_WEIGHT
from engine.params import Real
from engine.progress import counted, shorten
from engine.stages import methods
from engine.views.best_sets import (
    BEST_SET_POOL,
    BEST_SET_SIZE,
    FACE_POOL_SIZE,
    RELAXED_SET_SIZE,
    BestSets,
    best_sets,
    describe_equivalence,
    describe_relaxation,
)
from engine.views.theory import QUERY_ANGLE, Proof, find_weighing_selector, proof, turn_query
from engine.wording import decimal, power

MAX_PROVED_DOCUMENTS = 50
"""Size of the largest proved set: nobody reads a longer table."""
L1_PARAM = Real(
    default=0.1,
    low=0.05,
    high=0.3,
    symbol="λ₁",
    name="l1",
    title="sparsity",
    help="What a document must add to get a weight. λ₂ is 0. Proposition 1 holds below 1/3.",
)
PROOF_ROWS = (3, 70), (1, 56), (1, 40), (1, 300)
"""Boxes in place of a proof: its figures, its sentence, and the table of the documents."""
BEST_ROWS = (1, 330), (2, 130)
"""Boxes in place of the best sets: the table of selectors, and two checks below."""
SHARE_COLUMN = st.column_config.ProgressColumn(format="percent", min_value=0.0, max_value=1.0, width=160)
MAX_WITNESS_ROWS = 10


def _draw_decodable(loaded: Loaded, question: Question | None) -> None:
    """Draw which sets of documents the elastic net can return: a theorem and a proposition side by side.

    The elastic net is the selector that gives documents weights; those with a weight are its set.
    """
    theorem_column, proposition_column = st.columns(2, gap="large")
    with theorem_column:
        _draw_theorem()
    # The proposition needs no corpus and comes at once, while the theorem's proof may wait for the compiler.
    with proposition_column:
        _draw_proposition()
    with theorem_column:
        _prove_theorem(loaded, question)


def _draw_theorem() -> None:
    """Draw Theorem 1 of the NNN paper.

    It says that the elastic net (NNN) can return the k best documents for any k, at some penalties λ₁ and λ₂.
    """
    st.header("Every top-k set (Theorem 1)")
    st.caption(
        "For any k there are λ₁ and λ₂ at which exactly the k best documents get a weight: the elastic net can return "
        "whatever a ranking by score returns. Assumes unit vectors and no tie at k."
    )


def _prove_theorem(loaded: Loaded, question: Question | None) -> None:
    """Draw the numerical proof of Theorem 1 for the current query, and grey boxes until it is there."""
    if question is None:
        st.info("Pick a query to prove this for its k best documents.")
        return
    st.text(shorten(question.text, 200))
    k = min(question.k, MAX_PROVED_DOCUMENTS, len(loaded.space))
    proof_key = ("proof", loaded.space.embeddings.digest, question.vector.numpy().tobytes(), k)
    find_proof = partial(proof, loaded.space, question.vector, k)
    try:
        text = "Looking for a query that returns these documents …"
        draw_cached(proof_key, find_proof, PROOF_ROWS, partial(_draw_proof, k=k), text)
    except FrontierError as error:
        st.info("The theorem does not apply to this query.", icon=":material/info:")
        st.text(error.finding)


def _draw_proof(result: Proof, k: int) -> None:
    """Draw the penalties λ₁, λ₂ at which exactly the k best documents get a weight, and if that is proved.

    result: the penalties, the documents and the residual of the optimality conditions
    """
    title = methods("selector")[result.method].title
    # The witness has λ₁ and λ₂, and the scores alpha and beta between which the threshold lies.
    witness = result.witness
    with st.container(horizontal=True):
        st.metric("λ₁", f"{witness.l1:.4g}", width=110)
        st.metric("λ₂", f"{witness.l2:,.4g}", width=110)
        st.metric("Documents with a weight", f"{result.support:,}", width=190)
    # A residual of 0 has no logarithm.
    residual = power(max(result.residual, 1e-17))
    # Equal sets alone prove nothing: the optimality conditions must hold too.
    if result.same and result.certified:
        proof_text = f"Proved: the optimality conditions hold to {residual}."
        st.success(f"{title} returns exactly the top {k} here. {proof_text}", icon=":material/verified:")
    else:
        gap_text = f"the conditions hold only to {residual}, because the gap at k is too narrow for float64."
        support_text = f"{title} gave {counted(result.support, 'document')} a weight"
        st.warning(f"Not proved: {support_text}, and {gap_text}", icon=":material/warning:")
    after = "there is no next one" if witness.beta == float("-inf") else f"the next one {decimal(witness.beta, 4)}"
    st.caption(
        f"Document {k} scores {decimal(witness.alpha, 4)}, {after}. λ₁ lies halfway. A narrow gap needs a large λ₂ and "
        "gives small weights: the set can be reached, but this is not a setting for production."
    )
    draw_columns(
        {
            "#": (read_column(result.rows, "place"), None),
            "Document": (read_column(result.rows, "name"), None),
            "Score": (read_column(result.rows, "score"), number_column("%.4f")),
            "Weight": (read_column(result.rows, "weight"), number_column("%.2e")),
            "In the set": (["✓" if row.inside else "" for row in result.rows], None),
        },
        max_rows=MAX_WITNESS_ROWS,
    )


def _draw_proposition() -> None:
    """Draw Proposition 1 of the NNN paper: the elastic net (NNN) can return a set that no ranking does.

    The example has three documents, of which the net returns two that are not the best two by score.
    Two sliders turn the query and set λ₁.
    """
    st.header("Sets beyond rankings (Proposition 1)")
    st.caption(
        "Document 1 scores above document 3 but repeats document 2, so the elastic net returns 2 and 3: no top-k does. "
        "Turn the query v and watch. Document 1 is drawn as its shadow in the plane of 2 and 3. λ₂ is 0."
    )
    first, second = st.columns(2)
    angle = draw_parameter(QUERY_ANGLE, "theory.angle", first)
    plane = turn_query(angle, draw_parameter(L1_PARAM, "theory.l1", second))
    figure = plot_plane(plane, is_dark())
    plot(figure, "theory.plane", file="proposition-1", label="Query and documents in their plane")
    support, best_names = _format_documents(plane.support), _format_documents(plane.best)
    if plane.is_ranked:
        st.info(f"Support: {support}. A ranking by score returns the same set here.")
    else:
        st.success(f"Support: {support}. Best by score: {best_names}. No top-k returns this set.")
    rows = range(len(plane.scores))
    draw_columns(
        {
            "Document": ([row + 1 for row in rows], None),
            "Score": (plane.scores, number_column("%.3f")),
            "Weight": (plane.weights, number_column("%.3f")),
            "By score": (["✓" if row in plane.best else "" for row in rows], None),
            "Support": (["✓" if row in plane.support else "" for row in rows], None),
        }
    )


def _format_documents(rows: tuple[int, ...]) -> str:
    """Format rows, counted from 0, as the names of documents, counted from 1: "documents 2 and 3"."""
    return ("document " if len(rows) == 1 else "documents ") + " and ".join(str(row + 1) for row in rows)


def _draw_best(loaded: Loaded, question: Question | None) -> None:
    """Draw how close each selector comes to the best possible set of k documents for the query.

    Every set of the query's most relevant documents is tried. Below are two checks of the papers' claims on
    the same query.
    """
    if question is None or len(loaded.space) <= BEST_SET_POOL.low:
        st.info(f"Pick a query of a corpus with more than {BEST_SET_POOL.low} documents.")
        return
    st.text(shorten(question.text, 200))
    control_columns = st.columns(3)
    k = draw_parameter(BEST_SET_SIZE, "theory.best.k", control_columns[0])
    pool = min(draw_parameter(BEST_SET_POOL, "theory.best.pool", control_columns[1]), len(loaded.space))
    weight = draw_parameter(OBJECTIVE_WEIGHT, "theory.best.weight", control_columns[2])
    key = ("best", loaded.space.embeddings.digest, question.vector.numpy().tobytes(), k, pool, weight)
    find_sets = partial(best_sets, loaded.space, question.vector, k, pool, weight)
    text = f"Trying every set of {k} of the {pool} most relevant documents …"
    draw_cached(key, find_sets, BEST_ROWS, _draw_best_sets, text)


def _draw_best_sets(result: BestSets) -> None:
    """Draw each selector's set beside the best of all, and two checks of the papers' claims.

    result: the sets that were found by trying all, and the relaxation of the problem
    """
    # For each selector its title, and how its set compares with the best and the worst of all sets.
    titles, gaps = zip(*result.gaps, strict=True)
    draw_columns(
        {
            "Decoder": (titles, None),
            "Its set": (read_column(gaps, "value"), number_column("%.4f")),
            "Best set": (read_column(gaps, "best.value"), number_column("%.4f")),
            "Worst set": (read_column(gaps, "best.worst"), number_column("%.4f")),
            "From worst to best": ([1 - gap.share for gap in gaps], SHARE_COLUMN),
            "Sets": (read_column(gaps, "best.sets"), number_column("%d")),
        }
    )
    text_column, relaxation_column = st.columns(2, gap="large")
    with text_column:
        st.markdown("**cos(sum, q) against cos(rest, q − d₀)** (VRSD, §3.1)")
        st.text(describe_equivalence(result.equivalence))
        st.caption("The paper takes the two problems for one. The first document d₀ is the most relevant, as there.")
    with relaxation_column:
        st.markdown("**The relaxation** (CCBQP, Theorems 2.1 and 2.4)")
        for sentence in describe_relaxation(result.relaxation, result.ends):
            st.text(sentence)
        scope = f"On the {FACE_POOL_SIZE} most relevant documents, sets of {RELAXED_SET_SIZE}"
        st.caption(f"{scope}: all faces of the relaxation are looked at.")


DECODABLE_TITLE = f"What {methods('selector')[find_weighing_selector()].title} can return"
DECODABLE = StudyView(title=DECODABLE_TITLE, caption="", draw=_draw_decodable)
BEST = StudyView(
    title="Best sets",
    caption="How close to optimal is what decoders pick? Every set of the query's most relevant documents is tried.",
    draw=_draw_best,
)
