"""The scorers of a decoder: one for relevance, and one that reranks the pool."""

import streamlit as st

from dashboard.session.decoders import POOL_KEY, RERANK, RETRIEVE, agree, first_scorer, offered, role_key, unagreed
from dashboard.session.parameters import stage_of
from dashboard.widgets.parameters import counting, parameters
from engine.errors import FrontierError
from engine.params import UNSET
from engine.space import Space
from engine.stages import ScorerSpec, SelectorSpec

LABELS = {RETRIEVE: "Relevance by", RERANK: "Rerank the pool by"}
HELP = {
    RETRIEVE: "What scores the corpus, and makes the pool. How alike two documents are always comes from the dense "
    "vectors. Scores of another kind than cosines weigh differently against similarity: λ means something else then.",
    RERANK: "Scores the pool again, and that is the relevance that counts. It needs a pool: set one beside k.",
}


def picker(spec: SelectorSpec, space: Space) -> None:
    """The two choices, and the parameters of what is chosen."""
    for role, label in LABELS.items():
        known, key = offered(role), role_key(spec.name, role)
        names = [*([UNSET] if role == RERANK else []), *known]
        picked = st.selectbox(
            label,
            names,
            key=key,
            persist_state="session",
            format_func={UNSET: UNSET, **{name: scorer.title for name, scorer in known.items()}}.__getitem__,
            help="\n\n".join([HELP[role], *(f"**{s.title}** {s.summary}" for s in known.values())]),
        )
        if picked in known:
            parameters(known[picked], key)
            _ask(known[picked], key, space)
            if role == RERANK and st.session_state.get(POOL_KEY) is None:
                st.caption("There is no pool yet: set one beside k.")
    if spec.cls.first_by_scores:
        st.caption("This decoder takes the first document by the scorer, and the others by the dense vectors.")
    if not spec.cls.by_scores:
        st.caption("This decoder works on the dense vectors alone: the scorer only makes its pool.")


def _ask(spec: ScorerSpec, key: str, space: Space) -> None:
    """Ask before what is long, or comes from elsewhere."""
    try:
        due = unagreed(stage_of(spec, key), space)
    except FrontierError as error:
        st.text(str(error))
        return
    if due is not None:
        st.text(f"This needs {due}, once.")
        st.button("Go ahead", key=f"{key}.agree", icon=":material/check:", on_click=agree, args=(due,))


def changed(spec: SelectorSpec) -> int:
    """The number of settings that differ from the baseline's."""
    first, count = first_scorer().spec.name, 0
    for role in LABELS:
        known, key = offered(role), role_key(spec.name, role)
        picked = st.session_state.get(key)
        if picked in known:
            count += (role == RERANK or picked != first) + counting(known[picked], key)
    return count
