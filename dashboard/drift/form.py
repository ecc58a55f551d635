"""The form of a simulation: who asks, how honest feedback is, how documents learn."""

from collections.abc import Mapping, Sequence
from typing import Any

import streamlit as st

from dashboard.drift.request import SimulationRequest
from dashboard.services.source import Loaded
from dashboard.session import decoders
from dashboard.session.query import corpus_key, first_split, largest_k
from dashboard.widgets.parameters import control
from engine.data.degrade import WORDS
from engine.decoder import SET_SIZE, Decoder
from engine.feedback.presets import NOTES, PRESETS, Preset
from engine.params import Param, params_of
from engine.simulation.feedback_model import Stream
from engine.simulation.simulate import Plan
from engine.stages import methods

PREFIX = "drift.simulate"
OWN = ""
"""In place of a split, for documents that ask for themselves."""
PLAIN = ("rate", "exposure", "seed")
"""Parameters beside the preset; its others are behind a button."""
A_ROW = 4


def ask(loaded: Loaded) -> SimulationRequest:
    """Draw the form. The request may be impossible: `forecast` raises then."""
    dataset, key = loaded.dataset, corpus_key(loaded)
    splits = splits_of(loaded)
    places = st.columns(A_ROW, vertical_alignment="bottom")
    learn = places[0].selectbox(
        "Learn from",
        [*splits, OWN],
        splits.index(usual) if (usual := first_split(dataset)) in splits else 0,
        key=f"{PREFIX}.learn.{key}",
        persist_state="session",
        format_func=lambda split: split or "documents as their own queries",
        help="A split's judgements answer instead of people. Documents that ask for themselves are easier to please.",
    )
    others = [None, *(split for split in splits if split != learn)] if learn else [None]
    report = places[1].selectbox(
        "Hold out",
        others,
        key=f"{PREFIX}.report.{key}.{learn}",
        persist_state="session",
        format_func=lambda split: split or "a share of them",
        help="Queries that are never learned from: what is gained there is gained for questions yet to come.",
    )
    plan, stream = params_of(Plan), params_of(Stream)
    with places[2]:
        order = _one(stream, "order")
    with places[3]:
        rounds = _one(stream, "rounds")
    places = st.columns(A_ROW)
    liars = {}
    for place, name in zip(places, ("flips", "adversary", "popularity"), strict=False):
        with place:
            liars[name] = _one(stream, name)
    words = None
    if splits:
        with places[3]:
            words = control(WORDS, f"{PREFIX}.words")
    preset = _preset()
    with st.expander("What is measured"):
        more = _several([param for param in plan if not (report and param.name == "held_out")])
    return SimulationRequest(
        learn=learn,
        report=report,
        stream=Stream(order=order, rounds=rounds, **liars),
        plan=Plan(**more),
        preset=preset,
        decoders=chosen_decoders(),
        k=min(st.session_state.get(decoders.K_KEY, SET_SIZE.default), largest_k(loaded)),
        words=words,
    )


def splits_of(loaded: Loaded) -> list[str]:
    """The splits with judged queries, where an encoder can embed these."""
    dataset = loaded.dataset
    if loaded.space.encoder is None:
        return []
    return [split for split in dataset.qrels if len(dataset.judged(split))]


def chosen_decoders() -> tuple[Decoder, ...]:
    """The decoders that Explore shows; the baseline where none is chosen there."""
    first = next(iter(methods("selector").values())).cls
    return tuple(decoders.decoders().values()) or (Decoder(first()),)


def _preset() -> Preset:
    """Draw how documents learn: a named preset, and its parameters."""
    params = {param.name: param for param in params_of(Preset)}
    places = st.columns(A_ROW, vertical_alignment="bottom")
    names = list(PRESETS)
    name = places[0].selectbox(
        "Preset",
        names,
        key=f"{PREFIX}.preset",
        persist_state="session",
        on_change=_put,
        help="\n\n".join(f"**{name}**: {note}" for name, note in NOTES.items()),
    )
    values: dict[str, Any] = {}
    for place, param in zip(places[1:], PLAIN, strict=True):
        with place:
            values[param] = control(params[param], f"{PREFIX}.{param}")
    with st.expander("How documents learn"):
        rest = [param for param in params.values() if param.name not in PLAIN]
        values |= _several(rest)
    preset = Preset(**values)
    changed = "" if preset.name == name else f" Set otherwise than the preset {name!r} has it."
    st.caption(NOTES[name] + changed)
    return preset


def _put() -> None:
    """Set the widgets to the preset, before they are drawn."""
    chosen = PRESETS[st.session_state.get(f"{PREFIX}.preset", next(iter(PRESETS)))]
    for name, value in chosen.as_json().items():
        if name not in ("seed", "exposure"):
            st.session_state[f"{PREFIX}.{name}"] = value


def _one(params: Sequence[Param], name: str) -> Any:
    return control(next(param for param in params if param.name == name), f"{PREFIX}.{name}")


def _several(params: Sequence[Param]) -> Mapping[str, Any]:
    """Draw parameters in rows; those that do not count are left out, and keep their default."""
    values: dict[str, Any] = {}
    shown = [
        p
        for p in params
        if p.requires is None or st.session_state.get(_key(p.requires[0]), p.requires[1]) == p.requires[1]
    ]
    for start in range(0, len(shown), A_ROW):
        for place, param in zip(
            st.columns(A_ROW, vertical_alignment="bottom"), shown[start : start + A_ROW], strict=False
        ):
            with place:
                values[param.name] = control(param, _key(param.name))
    return values


def _key(name: str) -> str:
    return f"{PREFIX}.{name}"
