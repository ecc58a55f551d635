"""Scorers of a decoder: one for relevance, and one that reranks the pool."""

import streamlit as st

from dashboard.session import decoders
from dashboard.session.decoders import RERANK, RETRIEVE, agree, find_due, first_scorer, list_scorers, role_key
from dashboard.session.parameters import read_stage
from dashboard.widgets.parameters import count_changed, draw_stage
from engine.errors import FrontierError
from engine.params import UNSET
from engine.space import Space
from engine.stages import ScorerSpec, SelectorSpec

ROLE_LABELS = {RETRIEVE: "Relevance by", RERANK: "Rerank the pool by"}
ROLE_HELP = {
    RETRIEVE: "What scores the corpus, and makes the pool. How alike two documents are always comes from the dense "
    "vectors. Scores of another kind than cosines are brought to that scale: 0 for the least relevant candidate, 1 for "
    "the most relevant one. Documents that share no word with the query are not retrieved by words.",
    RERANK: "Scores the pool again, and that is the relevance that counts. It needs a pool: set one beside k.",
}


def draw_scorers(spec: SelectorSpec, space: Space) -> None:
    """Draw the choice of the scorers of a selector's decoder, and their parameters.

    One scorer scores the corpus, and so chooses the pool of candidates; another one may score the pool again.
    """
    for role, label in ROLE_LABELS.items():
        scorers, key = list_scorers(role), role_key(spec.name, role)
        # A retriever is required; a reranker is optional.
        names = [*([UNSET] if role == RERANK else []), *scorers]
        get_title = {UNSET: UNSET, **{name: scorer.title for name, scorer in scorers.items()}}.__getitem__
        why = "\n\n".join([ROLE_HELP[role], *(f"**{s.title}** {s.summary}" for s in scorers.values())])
        picked_name = st.selectbox(label, names, key=key, persist_state="session", format_func=get_title, help=why)
        # A scorer's widgets are drawn only while it is chosen; their values stay in the session.
        if picked_name in scorers:
            draw_stage(scorers[picked_name], key)
            _draw_consent(scorers[picked_name], key, space)
            if role == RERANK and st.session_state.get(decoders.POOL_KEY) is None:
                st.caption("There is no pool yet: set one beside k.")
    if spec.cls.first_by_scores:
        st.caption(
            "This decoder takes its pool and the first document by the scorer, and the others by the dense vectors."
        )
    if not spec.cls.by_scores:
        st.caption(
            "This decoder works on the dense vectors alone. Another scorer can only make its pool (set one beside k); "
            "without a pool, and as a reranker, it is left out."
        )


def _draw_consent(spec: ScorerSpec, key: str, space: Space) -> None:
    """Draw the request for consent to long work or a download that a scorer needs before its first use."""
    try:
        consent = find_due(read_stage(spec, key), space)
    except FrontierError as error:
        st.text(error.finding)
        return
    if consent is not None:
        st.text(f"This needs {consent}, once.")
        st.button("Go ahead", key=f"{key}.agree", icon=":material/check:", on_click=agree, args=(consent,))


def count_changed_scorers(spec: SelectorSpec) -> int:
    """Count how many settings of the scorers of a selector's decoder differ from the defaults."""
    first_name, n_changed = first_scorer().spec.name, 0
    for role in ROLE_LABELS:
        scorers, key = list_scorers(role), role_key(spec.name, role)
        picked_name = st.session_state.get(key)
        # A scorer other than the default counts as one change, and so does each of its changed parameters.
        if picked_name in scorers:
            is_changed = role == RERANK or picked_name != first_name
            n_changed += int(is_changed) + count_changed(scorers[picked_name], key)
    return n_changed
