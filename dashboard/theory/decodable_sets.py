"""Sets that the elastic net can decode: every top-k set (Theorem 1), and more (Proposition 1)."""

import streamlit as st

from dashboard.charts.theory import plane_figure
from dashboard.components.live_plot import is_dark, plot
from dashboard.services.source import Loaded
from dashboard.session.query import Question
from dashboard.theory.jobs import remembered
from dashboard.widgets.parameters import control
from dashboard.widgets.tables import draw_columns, number_column
from engine.errors import FrontierError
from engine.params import Real, Whole
from engine.progress import shorten
from engine.stages import methods
from engine.views.theory import ANGLE, Proof, proof, turned

MOST = 50
L1 = Real(
    default=0.1,
    low=0.05,
    high=0.3,
    symbol="λ₁",
    name="l1",
    help="What a document must add to get a weight; λ₂ is 0. Proposition 1 holds below 1/3.",
)


def show(loaded: Loaded, question: Question | None) -> None:
    """The theorem on the question, the proposition beside it."""
    left, right = st.columns(2, gap="large")
    with left:
        _theorem(loaded, question)
    with right:
        _proposition()


def _theorem(loaded: Loaded, question: Question | None) -> None:
    st.subheader("Every top-k set (Theorem 1)")
    st.caption(
        "For the k best documents by score there are λ₁ and λ₂ at which exactly they get a weight: whatever a ranking "
        "by score returns, the elastic net can return too. It assumes unit vectors, and that document k scores above "
        "document k + 1 and above 0."
    )
    if question is None:
        st.info("Ask something in the sidebar: its k best documents are what is decoded here.")
        return
    st.text(shorten(question.text, 200))
    most = min(MOST, len(loaded.space))
    k = min(question.k, most)
    if most > 1:
        size = Whole(k, "k", 1, most, name="k", help="Size of the set that is to be decoded.")
        k = min(control(size, f"theory.k.{most}"), most)
    key = ("proof", loaded.space.embeddings.digest, question.vector.numpy().tobytes(), k)
    try:
        result = remembered(key, lambda: proof(loaded.space, question.vector, k))
    except FrontierError as error:
        st.info("The theorem says nothing here.", icon=":material/info:")
        st.text(str(error))
        return
    _shown(result, k)


def _shown(result: Proof, k: int) -> None:
    title = methods("selector")[result.method].title
    w = result.witness
    with st.container(horizontal=True):
        st.metric("λ₁", f"{w.l1:.4g}", width=110)
        st.metric("λ₂", f"{w.l2:,.4g}", width=110)
        st.metric("Documents with a weight", f"{result.support:,}", width=190)
    here = f"{title} at this λ₁ and λ₂"
    if result.same and result.certified:
        proven = f"Proven: every optimality condition holds to {max(result.residual, 1e-17):.0e}."
        st.success(f"{here}: the support is exactly the top {k}. {proven}", icon=":material/verified:")
    else:
        narrow = f"conditions hold to {result.residual:.0e}. The gap at k is too narrow for the arithmetic."
        st.warning(f"{here} gave {result.support:,} documents a weight; {narrow}", icon=":material/warning:")
    after = "there is no next one" if w.beta == float("-inf") else f"the next one {w.beta:.4f}"
    st.caption(
        f"Document {k} scores {w.alpha:.4f}, {after}; λ₁ lies halfway. The narrower the gap, the larger λ₂ and the "
        "smaller the weights: this shows that the set can be reached, not that these are values to use."
    )
    draw_columns(
        {
            "#": ([row.place for row in result.rows], None),
            "Document": ([row.title or row.id for row in result.rows], None),
            "Score": ([row.score for row in result.rows], number_column("%.4f")),
            "Weight": ([row.weight for row in result.rows], number_column("%.2e")),
            "In the set": (["✓" if row.inside else "" for row in result.rows], None),
        },
        height=300,
    )


def _proposition() -> None:
    st.subheader("Sets beyond rankings (Proposition 1)")
    st.caption(
        "Three documents and a query v. Document 1 resembles document 2 and scores above document 3, but what it says "
        "document 2 has said: the elastic net takes 2 and 3 together, which no top-k is. Turn v and watch. The plane is"
        " that of v and documents 2 and 3; document 1 is seen as its shadow there, whose score is its own. λ₂ is 0."
    )
    one, two = st.columns(2)
    plane = turned(control(ANGLE, "theory.angle", one), control(L1, "theory.l1", two))
    figure = plane_figure(plane, is_dark())
    plot(figure, "theory.plane", file="proposition-1", label="Query and documents in their plane")
    support, best = _documents(plane.support), _documents(plane.best)
    if plane.ranked:
        st.info(f"Support: {support}. A ranking by score finds the same set here.")
    else:
        st.success(f"Support: {support}. The best by score: {best}. No top-k is this set.")
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


def _documents(rows: tuple[int, ...]) -> str:
    return ("document " if len(rows) == 1 else "documents ") + " and ".join(str(row + 1) for row in rows)
