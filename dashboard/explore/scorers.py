"""The scorers of a decoder: which one says how relevant a document is, and which scores the pool again."""

from __future__ import annotations

import streamlit as st

from dashboard.controls import counting, parameters, stage_of
from dashboard.explore.setting import POOL_KEY, RERANK, RETRIEVE, absent, agree, first_scorer, offered, role_key
from engine.errors import FrontierError
from engine.params import UNSET
from engine.stages import Spec

LABELS = {RETRIEVE: "Relevance by", RERANK: "Rerank the pool by"}
HELP = {
    RETRIEVE: "What scores the corpus, and makes the pool. How alike two documents are always comes from the dense "
    "vectors. Scores of another kind than cosines weigh differently against similarity: λ means something else then.",
    RERANK: "Scores the pool again, and that is the relevance that counts. It needs a pool: set one in the sidebar.",
}


def picker(spec: Spec) -> None:
    """The two choices, and the parameters of what is chosen."""
    for role, label in LABELS.items():
        known, key = offered(role), role_key(spec.name, role)
        names = [*([UNSET] if role == RERANK else []), *known]
        picked = st.selectbox(
            label,
            names,
            key=key,
            persist_state="session",
            format_func=lambda n, known=known: known[n].title if n in known else n,
            help="\n\n".join([HELP[role], *(f"**{s.title}** {s.summary}" for s in known.values())]),
        )
        if picked in known:
            parameters(known[picked], key)
            _download(known[picked], key)
            if role == RERANK and st.session_state.get(POOL_KEY) is None:
                st.caption("There is no pool yet: set one in the sidebar.")
    if not spec.cls.by_scores:
        st.caption("This decoder works on the dense vectors alone: the scorer only makes its pool.")


def _download(spec: Spec, key: str) -> None:
    """Ask before a model is fetched."""
    try:
        model = absent(stage_of(spec, key))
    except FrontierError as error:
        st.text(str(error))
        return
    if model is not None:
        st.caption("The model is not on this machine. It comes from the Hugging Face hub, once.")
        st.button("Download it", key=f"{key}.download", icon=":material/download:", on_click=agree, args=(model,))


def changed(spec: Spec) -> int:
    """How much of it is not as it is for the baseline."""
    first, count = first_scorer().spec.name, 0
    for role in LABELS:
        known, key = offered(role), role_key(spec.name, role)
        picked = st.session_state.get(key)
        if picked in known:
            count += (role == RERANK or picked != first) + counting(known[picked], key)
    return count
