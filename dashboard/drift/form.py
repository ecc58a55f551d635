"""The form of a simulation, made from the declarations: who asks, how honest feedback is, how documents learn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import streamlit as st

from dashboard.controls import control
from dashboard.drift.request import Request
from dashboard.explore import setting
from dashboard.explore.question import first_split, most_asked
from dashboard.state import Loaded
from engine.data.degrade import WORDS
from engine.decoder import SET_SIZE, Decoder
from engine.learning.orag.presets import NOTES, PRESETS, Preset
from engine.learning.simulation import Plan
from engine.learning.streams import Stream
from engine.params import Param, params_of
from engine.stages import methods

PREFIX = "drift.simulate"
OWN = ""
"""In place of a split: documents ask for themselves."""
PLAIN = ("rate", "exposure", "seed")
"""What stands beside the preset; its other parameters are behind a button."""
A_ROW = 4


def ask(loaded: Loaded) -> Request:
    """Draw the form; what it asks for may still be impossible, and says so when it is looked at."""
    dataset, key = loaded.dataset, loaded.space.corpus.digest[:12]
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
    return Request(
        learn=learn,
        report=report,
        stream=Stream(order=order, rounds=rounds, **liars),
        plan=Plan(**more),
        preset=preset,
        decoders=decoders(),
        k=min(st.session_state.get(setting.K_KEY, SET_SIZE.default), most_asked(loaded)),
        words=words,
    )


def splits_of(loaded: Loaded) -> list[str]:
    """The splits with judged queries, where those have vectors or can be given some."""
    dataset = loaded.dataset
    if loaded.space.encoder is None:
        return []
    return [split for split in dataset.qrels if len(dataset.judged(split))]


def decoders() -> tuple[Decoder, ...]:
    """Those that Explore shows; the first of all where none is chosen there."""
    first = next(iter(methods("selector").values())).cls
    return tuple(setting.decoders().values()) or (Decoder(first()),)


def _preset() -> Preset:
    """How documents learn: a named setting, and what is set otherwise."""
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
    for place, own in zip(places[1:], PLAIN, strict=True):
        with place:
            values[own] = control(params[own], f"{PREFIX}.{own}")
    with st.expander("How documents learn"):
        rest = [param for param in params.values() if param.name not in PLAIN]
        values |= _several(rest)
    found = Preset(**values)
    changed = "" if found.name == name else f" Set otherwise than the preset {name!r} has it."
    st.caption(NOTES[name] + changed)
    return found


def _put() -> None:
    """Set the widgets to the preset, before they are drawn."""
    chosen = PRESETS[st.session_state.get(f"{PREFIX}.preset", next(iter(PRESETS)))]
    for name, value in chosen.as_json().items():
        if name not in ("seed", "exposure"):
            st.session_state[f"{PREFIX}.{name}"] = value


def _one(params: Sequence[Param], name: str) -> Any:
    return control(next(param for param in params if param.name == name), f"{PREFIX}.{name}")


def _several(params: Sequence[Param]) -> Mapping[str, Any]:
    """Widgets in rows; those that do not count are left out, and keep their default."""
    values: dict[str, Any] = {}
    shown = [p for p in params if p.needs is None or st.session_state.get(_key(p.needs[0]), p.needs[1]) == p.needs[1]]
    for at in range(0, len(shown), A_ROW):
        for place, param in zip(st.columns(A_ROW, vertical_alignment="bottom"), shown[at : at + A_ROW], strict=False):
            with place:
                values[param.name] = control(param, _key(param.name))
    return values


def _key(name: str) -> str:
    return f"{PREFIX}.{name}"
