"""The chosen decoders and their parameters in session state; read and written by every page."""

from collections.abc import Mapping

import streamlit as st

from dashboard.services import roots
from dashboard.session.parameters import put, stage_of
from engine.decoder import POOL, Decoder
from engine.errors import FrontierError, ParamError
from engine.params import UNSET
from engine.space import Space
from engine.stages import Scorer, ScorerSpec, Selector, methods

PREFIX = "explore"
"""Of the keys of the parameters' widgets."""
DECODERS, POOL_KEY, K_KEY, VIEW = "decoders", "pool", "k", "view"
SCREEN = "screens/explore.py"
RETRIEVE, RERANK = "retrieve", "rerank"
AGREED = "agreed to"


def chosen() -> list[str]:
    """The names of the chosen decoders, in the registry's order; the first two before a person chooses."""
    names = list(methods("selector"))
    picked = st.session_state.get(DECODERS, names[:2])
    return [name for name in names if name in picked]


def decoders() -> dict[str, Decoder]:
    """The chosen decoders by name, with the header's pool."""
    return {name: decoder_of(name) for name in chosen()}


def decoder_of(name: str) -> Decoder:
    """A decoder as it is set: selector and scorers with their parameters, and the header's pool."""
    return with_scorers(stage_of(methods("selector")[name], PREFIX), name, pool_depth())


def pool_depth() -> int | None:
    """The size of the pool that decoders choose from, None for the whole corpus."""
    depth: int | None = st.session_state.get(POOL_KEY, POOL.default)
    return depth


def with_scorers(stage: Selector, name: str, depth: int | None) -> Decoder:
    """A selector behind the scorers that are set for the one called `name`."""
    return Decoder(stage, _scorer(name, RETRIEVE) or first_scorer(), _scorer(name, RERANK), depth)


def offered(role: str) -> dict[str, ScorerSpec]:
    """The scorers for a role in a decoder: one that only reranks cannot retrieve."""
    return {n: spec for n, spec in methods("scorer").items() if role == RERANK or not spec.cls.rerank_only}


def first_scorer() -> Scorer:
    """The default scorer, which is always the baseline's."""
    return next(iter(methods("scorer").values())).cls()


def baseline(depth: int | None) -> Decoder:
    """Return the baseline of all comparisons: the first selector and the first scorer at their defaults."""
    return Decoder(next(iter(methods("selector").values())).cls(), first_scorer(), depth=depth)


def role_key(name: str, role: str) -> str:
    """The session key of the choice of a decoder's scorer; those of its parameters begin with it."""
    return f"{PREFIX}.{name}.{role}"


def _scorer(name: str, role: str) -> Scorer | None:
    scorers, key = offered(role), role_key(name, role)
    picked = st.session_state.get(key)
    return stage_of(scorers[picked], key) if picked in scorers else None


def checked(decoder: Decoder, space: Space) -> Decoder:
    """The decoder, or a ParamError with the fix where its scorers lack something."""
    if decoder.rerank is not None and decoder.depth is None:
        raise ParamError(
            f"{decoder.rerank.spec.title} scores a pool again, and there is none: set one beside k (pool, n)"
        )
    for scorer in filter(None, (decoder.retrieve, decoder.rerank)):
        if (due := unagreed(scorer, space)) is not None:
            raise ParamError(f"{scorer.spec.title} needs {due} first: agree to it under the decoder's scorer")
    return decoder


def lacks(decoder: Decoder, space: Space) -> str | None:
    """The error of `checked`, None for a decoder that lacks nothing."""
    try:
        checked(decoder, space)
    except FrontierError as error:
        return str(error)
    return None


def unagreed(scorer: Scorer, space: Space) -> str | None:
    """Long work or a download that a scorer needs, until this session agrees: a link alone must not start it.

    Raises FrontierError where its model is a folder that this server does not read.
    """
    if isinstance(model := getattr(scorer, "model", None), str):
        roots.check_model(model)
    due = scorer.consent_needed(space)
    return None if due in st.session_state.get(AGREED, ()) else due


def agree(due: str) -> None:
    """Agree to what scorers need, for this session."""
    st.session_state[AGREED] = {*st.session_state.get(AGREED, ()), due}


def effective(decoder: Decoder) -> Decoder:
    """The decoder with the default scorers where its own have no effect: a selector on vectors, without a pool."""
    if decoder.select.by_scores or decoder.depth is not None:
        return decoder
    return Decoder(decoder.select, first_scorer())


def has_default_scorers(decoder: Decoder) -> bool:
    """Whether the scorers are the baseline's."""
    return decoder.rerank is None and decoder.retrieve == first_scorer()


def scorer_of(decoder: Decoder) -> Scorer:
    """The scorer that has the last word on relevance."""
    return decoder.rerank or decoder.retrieve


def title(decoder: Decoder) -> str:
    """The decoder's name for people: its selector's, behind the scorers' where those are not the baseline's."""
    stages = [decoder.select] if has_default_scorers(decoder) else [decoder.retrieve, decoder.rerank, decoder.select]
    return " → ".join(stage.spec.title for stage in stages if stage is not None)


def describe_scorers(decoder: Decoder) -> str:
    """Where relevance and similarity come from, in words; "" where both come from the default scorer."""
    if has_default_scorers(decoder):
        return ""
    by = decoder.retrieve.spec.title + (f", then {decoder.rerank.spec.title}" if decoder.rerank else "")
    if decoder.select.first_by_scores:
        return f"the first document by {by}, the others by the dense vectors"
    if decoder.select.by_scores:
        return f"relevance by {by}; similarity by the dense vectors"
    if decoder.depth is None:
        return f"{by} changes nothing here: without a pool only the dense vectors count"
    return f"pool by {decoder.retrieve.spec.title}; the set by the dense vectors alone"


def apply(decoder: Decoder, k: int | None = None) -> None:
    """Set Explore to a decoder, beside those chosen already, and to k; from a callback, before widgets are drawn."""
    put_decoder(decoder)
    name = decoder.select.spec.name
    st.session_state[DECODERS] = list(dict.fromkeys([*chosen(), name]))
    st.session_state[POOL_KEY] = decoder.depth
    if k is not None:
        st.session_state[K_KEY] = k


def put_decoder(decoder: Decoder) -> None:
    """Set the widgets of a decoder's stages, before they are drawn."""
    put(decoder.select, PREFIX)
    put_scorers(decoder.select.spec.name, {RETRIEVE: decoder.retrieve, RERANK: decoder.rerank})


def put_scorers(name: str, scorers: Mapping[str, Scorer | None]) -> None:
    """Set the widgets of the scorers, by role, of the decoder called `name`, before they are drawn."""
    for role, stage in scorers.items():
        key = role_key(name, role)
        st.session_state[key] = UNSET if stage is None else stage.spec.name
        if stage is not None:
            put(stage, key)


def show() -> None:
    """Go to Explore."""
    st.switch_page(SCREEN)
