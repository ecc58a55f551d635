"""Which sets the elastic net can decode: all that a ranking by score finds (Theorem 1), and more (Proposition 1)."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from dashboard.charts.theory import plane_figure
from dashboard.components.live_plot import plot
from dashboard.controls import control
from dashboard.explore.question import Asked
from dashboard.state import Loaded
from dashboard.theory.measured import remembered
from engine.errors import FrontierError
from engine.params import Real, Whole
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


def show(loaded: Loaded, asked: Asked | None) -> None:
    """The theorem on the question, the proposition beside it."""
    left, right = st.columns(2, gap="large")
    with left:
        _theorem(loaded, asked)
    with right:
        _proposition()


def _theorem(loaded: Loaded, asked: Asked | None) -> None:
    st.subheader("Every top-k set (Theorem 1)")
    st.caption(
        "For the k best documents by score there are λ₁ and λ₂ at which exactly they get a weight: whatever a ranking "
        "by score returns, the elastic net can return too. It assumes unit vectors, and that document k scores above "
        "document k + 1 and above 0."
    )
    if asked is None:
        st.info("Ask something in the sidebar: its k best documents are what is decoded here.")
        return
    st.text(asked.text if len(asked.text) < 200 else asked.text[:199] + "…")
    most = min(MOST, len(loaded.space))
    k = min(asked.k, most)
    if most > 1:
        size = Whole(default=k, low=1, high=most, symbol="k", name="k", help="Size of the set that is to be decoded.")
        k = min(control(size, f"theory.k.{most}"), most)
    key = ("proof", loaded.space.embeddings.digest, asked.vector.numpy().tobytes(), k)
    try:
        found = remembered(key, lambda: proof(loaded.space, asked.vector, k))
    except FrontierError as error:
        st.info("The theorem says nothing here.", icon=":material/info:")
        st.text(str(error))
        return
    _shown(found, k)


def _shown(found: Proof, k: int) -> None:
    title = methods("selector")[found.method].title
    w = found.witness
    with st.container(horizontal=True):
        st.metric("λ₁", f"{w.l1:.4g}", width=110)
        st.metric("λ₂", f"{w.l2:,.4g}", width=110)
        st.metric("Documents with a weight", f"{found.support:,}", width=190)
    if found.same and found.certified:
        st.success(
            f"{title} at this λ₁ and λ₂: the support is exactly the top {k}. Proven: every optimality condition holds "
            f"to {max(found.residual, 1e-17):.0e}.",
            icon=":material/verified:",
        )
    else:
        st.warning(
            f"{title} at this λ₁ and λ₂ gave {found.support:,} documents a weight; conditions hold to "
            f"{found.residual:.0e}. The gap at k is too narrow for the arithmetic.",
            icon=":material/warning:",
        )
    after = "there is no next one" if w.beta == float("-inf") else f"the next one {w.beta:.4f}"
    st.caption(
        f"Document {k} scores {w.alpha:.4f}, {after}; λ₁ lies halfway. The narrower the gap, the larger λ₂ and the "
        "smaller the weights: this shows that the set can be reached, not that these are values to use."
    )
    st.dataframe(
        pd.DataFrame(
            {
                "#": [row.place for row in found.rows],
                "Document": [row.title or row.id for row in found.rows],
                "Score": [row.score for row in found.rows],
                "Weight": [row.weight for row in found.rows],
                "In the set": ["✓" if row.inside else "" for row in found.rows],
            }
        ),
        hide_index=True,
        height=300,
        column_config={
            "Score": st.column_config.NumberColumn(format="%.4f"),
            "Weight": st.column_config.NumberColumn(format="%.2e"),
        },
    )


def _proposition() -> None:
    st.subheader("Sets beyond rankings (Proposition 1)")
    st.caption(
        "Three documents and a query v. Document 1 resembles document 2 and scores above document 3, but what it says "
        "document 2 has said: the elastic net takes 2 and 3 together, which no top-k is. Turn v and watch. The plane is"
        " that of v and documents 2 and 3; document 1 is seen as its shadow there, whose score is its own. λ₂ is 0."
    )
    one, two = st.columns(2)
    with one:
        angle = control(ANGLE, "theory.angle")
    with two:
        l1 = control(L1, "theory.l1")
    found = turned(angle, l1)
    dark = st.context.theme.type == "dark"
    plot(plane_figure(found, dark), "theory.plane", file="proposition-1", label="Query and documents in their plane")
    said, best = _documents(found.support), _documents(found.best)
    if found.ranked:
        st.info(f"Support: {said}. A ranking by score finds the same set here.")
    else:
        st.success(f"Support: {said}. The best by score: {best}. No top-k is this set.")
    st.dataframe(
        pd.DataFrame(
            {
                "Document": range(1, len(found.scores) + 1),
                "Score": found.scores,
                "Weight": found.weights,
                "By score": ["✓" if row in found.best else "" for row in range(len(found.scores))],
                "Support": ["✓" if row in found.support else "" for row in range(len(found.scores))],
            }
        ),
        hide_index=True,
        column_config={name: st.column_config.NumberColumn(format="%.3f") for name in ("Score", "Weight")},
    )


def _documents(rows: tuple[int, ...]) -> str:
    return ("document " if len(rows) == 1 else "documents ") + " and ".join(str(row + 1) for row in rows)
