"""The chosen decoders and their parameters in session state; read and written by every page."""

from collections.abc import Mapping

import streamlit as st

from dashboard.services import roots
from dashboard.session.parameters import read_stage, set_stage
from engine.decoder import POOL, Decoder
from engine.errors import FrontierError, ParamError
from engine.params import UNSET
from engine.space import Space
from engine.stages import Scorer, ScorerSpec, Selector, methods

PARAM_PREFIX = "explore"
"""Of the keys of the parameters' widgets."""
DECODERS_KEY, POOL_KEY, K_KEY, VIEW_KEY = "decoders", "pool", "k", "view"
EXPLORE_SCREEN = "screens/explore.py"
RETRIEVE, RERANK = "retrieve", "rerank"
AGREED_KEY = "agreed to"


def list_chosen() -> list[str]:
    """Return the names of the selectors (algorithms that choose a set) of Explore, in registry order."""
    names = list(methods("selector"))
    # Decoders keep the registry's order, in whatever order they were chosen.
    picked_names = st.session_state.get(DECODERS_KEY, names[:2])
    return [name for name in names if name in picked_names]


def get_decoders() -> dict[str, Decoder]:
    """Return the chosen decoders by their selector's name, as they are set."""
    return {name: get_decoder(name) for name in list_chosen()}


def get_decoder(name: str) -> Decoder:
    """Return a selector's decoder as this session has set it: parameters, scorers, and size of the pool."""
    return add_scorers(read_stage(methods("selector")[name], PARAM_PREFIX), name, get_pool_depth())


def get_pool_depth() -> int | None:
    """Return the size of the pool that decoders choose from, None for the full corpus."""
    depth: int | None = st.session_state.get(POOL_KEY, POOL.default)
    return depth


def add_scorers(selector: Selector, name: str, depth: int | None) -> Decoder:
    """Build a decoder from a selector and the scorers that this session has set under its name."""
    return Decoder(selector, _get_scorer(name, RETRIEVE) or first_scorer(), _get_scorer(name, RERANK), depth)


def list_scorers(role: str) -> dict[str, ScorerSpec]:
    """Return the scorers that can take a role, by name: one that only reranks cannot retrieve."""
    return {name: spec for name, spec in methods("scorer").items() if role == RERANK or not spec.cls.rerank_only}


def first_scorer() -> Scorer:
    """Return the default scorer, which is always the baseline's."""
    return next(iter(methods("scorer").values())).cls()


def make_baseline(depth: int | None) -> Decoder:
    """Return the baseline of all comparisons: the first selector and the first scorer at their defaults."""
    return Decoder(next(iter(methods("selector").values())).cls(), first_scorer(), depth=depth)


def role_key(selector_name: str, role: str) -> str:
    """Return the session key of a decoder's retriever or reranker (role)."""
    return f"{PARAM_PREFIX}.{selector_name}.{role}"


def _get_scorer(selector_name: str, role: str) -> Scorer | None:
    """Return the scorer that this session has set for a selector's decoder in a role; None if none is.

    The role is "retrieve" (it scores all documents) or "rerank" (it scores the candidates again).
    """
    scorers, session_key = list_scorers(role), role_key(selector_name, role)
    picked_name = st.session_state.get(session_key)
    return read_stage(scorers[picked_name], session_key) if picked_name in scorers else None


def check_decoder(decoder: Decoder, space: Space) -> Decoder:
    """Return the decoder if it can run now. Raises ParamError, with the fix, if a scorer lacks something.

    A reranker needs a pool of candidates; a scorer may need the visitor's consent to a download or to long work.
    """
    if decoder.rerank is not None and decoder.depth is None:
        title = decoder.rerank.spec.title
        raise ParamError(f"{title} scores a pool again, and there is none: set one beside k (pool, n)")
    for scorer in filter(None, (decoder.retrieve, decoder.rerank)):
        if (consent := find_due(scorer, space)) is not None:
            raise ParamError(f"{scorer.spec.title} needs {consent} first: agree to it under the decoder's scorer")
    return decoder


def explain_lack(decoder: Decoder, space: Space) -> str | None:
    """Return the reason why a decoder cannot run on a corpus now, with the fix; None if it can."""
    try:
        check_decoder(decoder, space)
    except FrontierError as error:
        return str(error)
    return None


def find_due(scorer: Scorer, space: Space) -> str | None:
    """Return long work or a download that a scorer needs and this session has not agreed to; None if none.

    A link alone must not start it. Raises FrontierError if its model is a folder that this server does not read.
    """
    # Only scorers with a model have this parameter.
    if isinstance(model := getattr(scorer, "model", None), str):
        roots.check_model(model)
    consent = scorer.consent_needed(space)
    return None if consent in st.session_state.get(AGREED_KEY, ()) else consent


def agree(consent: str) -> None:
    """Agree, for this session, to work that scorers need."""
    st.session_state[AGREED_KEY] = {*st.session_state.get(AGREED_KEY, ()), consent}


def effective_decoder(decoder: Decoder) -> Decoder:
    """Return the decoder, with default scorers if its own have no effect on what it retrieves."""
    # Without a pool, a selector on vectors never sees the scorers' scores.
    if decoder.select.by_scores or decoder.depth is not None:
        return decoder
    return Decoder(decoder.select, first_scorer())


def has_default_scorers(decoder: Decoder) -> bool:
    """Return True if the decoder has the default retriever and no reranker."""
    return decoder.rerank is None and decoder.retrieve == first_scorer()


def last_scorer(decoder: Decoder) -> Scorer:
    """Return the scorer whose scores count as relevance: the reranker, else the retriever."""
    return decoder.rerank or decoder.retrieve


def format_title(decoder: Decoder) -> str:
    """Return the decoder's display name: its selector's, after its scorers' unless those are the defaults."""
    stages = [decoder.select] if has_default_scorers(decoder) else [decoder.retrieve, decoder.rerank, decoder.select]
    return " → ".join(stage.spec.title for stage in stages if stage is not None)


def describe_scorers(decoder: Decoder) -> str:
    """Describe the scores by which a decoder judges relevance and similarity; "" for the default ones."""
    if has_default_scorers(decoder):
        return ""
    scorer_titles = decoder.retrieve.spec.title + (f", then {decoder.rerank.spec.title}" if decoder.rerank else "")
    # The order matters: selectors that use scores for the first document only also have by_scores.
    if decoder.select.first_by_scores:
        return f"the first document by {scorer_titles}, the others by the dense vectors"
    if decoder.select.by_scores:
        return f"relevance by {scorer_titles}; similarity by the dense vectors"
    if decoder.depth is None:
        return f"{scorer_titles} changes nothing here: without a pool only the dense vectors count"
    return f"pool by {decoder.retrieve.spec.title}; the set by the dense vectors alone"


def apply_decoder(decoder: Decoder, k: int | None = None) -> None:
    """Add a decoder, with its settings and pool, to those compared on Explore, and set k; for a callback."""
    put_decoder(decoder)
    name = decoder.select.spec.name
    st.session_state[DECODERS_KEY] = list(dict.fromkeys([*list_chosen(), name]))
    st.session_state[POOL_KEY] = decoder.depth
    if k is not None:
        st.session_state[K_KEY] = k


def put_decoder(decoder: Decoder) -> None:
    """Set the widgets of Explore to a decoder's selector and scorers, before they are drawn."""
    set_stage(decoder.select, PARAM_PREFIX)
    put_scorers(decoder.select.spec.name, {RETRIEVE: decoder.retrieve, RERANK: decoder.rerank})


def put_scorers(selector_name: str, scorers: Mapping[str, Scorer | None]) -> None:
    """Set the widgets of a decoder's scorers (role → scorer, None for none), before they are drawn."""
    for role, scorer in scorers.items():
        session_key = role_key(selector_name, role)
        st.session_state[session_key] = UNSET if scorer is None else scorer.spec.name
        if scorer is not None:
            set_stage(scorer, session_key)


def open_explore() -> None:
    """Switch to Explore."""
    st.switch_page(EXPLORE_SCREEN)
