"""The decoders that Explore shows, for other screens: what they are set to, and how to set them."""

from __future__ import annotations

import streamlit as st

from dashboard.controls import put, stage_of
from engine.decoder import POOL, Decoder
from engine.errors import FrontierError, ParamError
from engine.params import UNSET
from engine.space import Space
from engine.stages import Scorer, Selector, Spec, methods

PREFIX = "explore"
"""Before the keys of the parameters' widgets."""
DECODERS, POOL_KEY, K_KEY, VIEW = "decoders", "pool", "k", "view"
SCREEN = "screens/explore.py"
RETRIEVE, RERANK = "retrieve", "rerank"
AGREED = "agreed to"
FIRST_VIEW = "Ranked diff"
"""What is shown of the sets before a person chooses."""


def chosen() -> list[str]:
    """The names of the decoders chosen, in the registry's order; before a person chose, the first two."""
    names = list(methods("selector"))
    picked = st.session_state.get(DECODERS, names[:2])
    return [name for name in names if name in picked]


def decoders() -> dict[str, Decoder]:
    """The chosen decoders as they are set, with the sidebar's pool."""
    return {name: decoder_of(name) for name in chosen()}


def decoder_of(name: str) -> Decoder:
    """A decoder as it is set: its selector's parameters, its scorers with theirs, the sidebar's pool."""
    depth = st.session_state.get(POOL_KEY, POOL.default)
    return with_scorers(stage_of(methods("selector")[name], PREFIX), name, depth)


def with_scorers(stage: Selector, name: str, depth: int | None) -> Decoder:
    """A selector behind the scorers that are set for the one called `name`."""
    return Decoder(stage, _scorer(name, RETRIEVE), _scorer(name, RERANK), depth)


def offered(role: str) -> dict[str, Spec]:
    """The scorers for a place in a decoder: what is made for pools does not score whole corpora."""
    return {n: spec for n, spec in methods("scorer").items() if role == RERANK or not spec.cls.for_pools}


def first_scorer() -> Scorer:
    """What scores where nothing else is chosen, the baseline's documents always."""
    return next(iter(methods("scorer").values())).cls()


def role_key(name: str, role: str) -> str:
    """What the session calls the choice of a decoder's scorer; its parameters' keys begin so."""
    return f"{PREFIX}.{name}.{role}"


def _scorer(name: str, role: str) -> Scorer | None:
    known, key = offered(role), role_key(name, role)
    picked = st.session_state.get(key)
    if picked in known:
        return stage_of(known[picked], key)
    return first_scorer() if role == RETRIEVE else None


def usable(decoder: Decoder, space: Space) -> Decoder:
    """The decoder, or a ParamError with the fix where its scorers need what is not set."""
    if decoder.rerank is not None and decoder.depth is None:
        raise ParamError(
            f"{decoder.rerank.spec.title} scores a pool again, and there is none: set one in the sidebar (pool, n)"
        )
    for scorer in (decoder.retrieve, decoder.rerank):
        if scorer is not None and (due := unagreed(scorer, space)) is not None:
            raise ParamError(f"{scorer.spec.title} needs {due} first: agree to it under the decoder's scorer")
    return decoder


def hindered(decoder: Decoder, space: Space) -> str | None:
    """What its scorers lack, None where nothing."""
    try:
        usable(decoder, space)
    except FrontierError as error:
        return str(error)
    return None


def unagreed(scorer: Scorer, space: Space) -> str | None:
    """What a scorer needs that is long or from elsewhere, and nobody here agreed to: a link alone must not start it."""
    due = scorer.missing(space)
    return None if due in st.session_state.get(AGREED, ()) else due


def agree(due: str) -> None:
    """Let scorers do this from now on, in this session."""
    st.session_state[AGREED] = {*st.session_state.get(AGREED, ()), due}


def effective(decoder: Decoder) -> Decoder:
    """The decoder with the baseline's scorers where its own cannot count: on vectors alone, without a pool."""
    if decoder.select.by_scores or decoder.depth is not None:
        return decoder
    return Decoder(decoder.select, first_scorer())


def plain(decoder: Decoder) -> bool:
    """Whether the scorers are the baseline's."""
    return decoder.rerank is None and decoder.retrieve == first_scorer()


def scorer_of(decoder: Decoder) -> Scorer:
    """The scorer that has the last word on relevance."""
    return decoder.rerank or decoder.retrieve


def title(decoder: Decoder) -> str:
    """The decoder's name for people: its selector's, behind the scorers' where those are not the baseline's."""
    stages = [decoder.select] if plain(decoder) else [decoder.retrieve, decoder.rerank, decoder.select]
    return " → ".join(stage.spec.title for stage in stages if stage is not None)


def said(decoder: Decoder) -> str:
    """Where relevance and similarity come from, for people; "" where both come from the baseline's scorer."""
    if plain(decoder):
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
    """Set Explore to a decoder, beside those chosen already, and to k.

    Called from an on_click: a widget that is drawn cannot be set.
    """
    put_decoder(decoder)
    name = decoder.select.spec.name
    st.session_state[DECODERS] = list(dict.fromkeys([*chosen(), name]))
    st.session_state[POOL_KEY] = decoder.depth
    if k is not None:
        st.session_state[K_KEY] = k


def put_decoder(decoder: Decoder) -> None:
    """Set the widgets of a decoder's stages, before they are drawn."""
    put(decoder.select, PREFIX)
    for role, stage in ((RETRIEVE, decoder.retrieve), (RERANK, decoder.rerank)):
        key = role_key(decoder.select.spec.name, role)
        st.session_state[key] = UNSET if stage is None else stage.spec.name
        if stage is not None:
            put(stage, key)


def show() -> None:
    """Go to Explore."""
    st.switch_page(SCREEN)
