"""The form of a simulation: who asks, how honest feedback is, how documents learn."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import streamlit as st

from dashboard.drift.request import SimulationRequest
from dashboard.services.source import Loaded
from dashboard.session import decoders
from dashboard.session.query import corpus_key, count_judged, find_first_split, find_max_k
from dashboard.widgets.choices import select
from dashboard.widgets.parameters import draw_parameter
from engine.data.degrade import SHORTENED_WORDS
from engine.data.plans import has_plans
from engine.decoder import SET_SIZE, Decoder
from engine.feedback.presets import NOTES, PRESETS, Preset
from engine.params import Param, params_of
from engine.simulation.feedback_model import Stream
from engine.simulation.simulate import Plan
from engine.simulation.variants import AFTER as AFTER_ROUND
from engine.simulation.variants import CANDIDATES, NEWCOMERS, RERANKERS, SHARE, UPDATES
from engine.stages import methods

PREFIX = "drift.simulate"
OWN = ""
"""In place of a split, for documents that ask for themselves."""
PLAIN = ("rate", "exposure", "seed")
"""Parameters beside the preset; its others are behind a button."""
A_ROW = 4
NOBODY = "none"
ARRIVING = replace(
    SHARE, default=0.0, high=0.9, name="arriving", symbol="arriving",
    help="A share of them is neither shown, moved nor found before they come (Algorithm 3).",
)  # fmt: skip
AFTER = replace(AFTER_ROUND, default=100, comfortable=(1, 5000))
LABELS = {
    "order": "Order of queries",
    "rounds": "Rounds",
    "flips": "Wrong votes",
    "adversary": "Attackers",
    "popularity": "Popularity skew",
    "words": "Document length",
    "exposure": "Passes over the queries",
    "candidates": "Documents drawn",
    "arriving": "Documents that come later",
    "round": "They come after round",
    "newcomers": "They start",
    "updates": "Updates",
}
"""What parameters of a simulation are called, where the paper's symbol says little."""


def ask(loaded: Loaded) -> SimulationRequest:
    """Draw the form. The request may be impossible: `forecast` raises then."""
    key, splits = corpus_key(loaded), splits_of(loaded)
    places = st.columns(A_ROW, vertical_alignment="bottom")
    learn: str = select(
        "Learn from",
        [*splits, OWN],
        f"{PREFIX}.learn.{key}",
        default=find_first_split(loaded.dataset),
        container=places[0],
        format_func=lambda split: split or "documents as their own queries",
        help="A split's judgements vote instead of people. Documents as their own queries are easier.",
    )
    others = [None, *(split for split in splits if split != learn)] if learn else [None]
    report: str | None = select(
        "Hold out",
        others,
        f"{PREFIX}.report.{key}.{learn}",
        container=places[1],
        format_func=lambda split: split or "a share of them",
        help="Queries that are never learned from: a gain there holds for new queries.",
    )
    below = st.columns(A_ROW)
    stream = {param.name: param for param in params_of(Stream)}
    asked = dict(zip(("order", "rounds", "flips", "adversary", "popularity"), (*places[2:], *below), strict=False))
    streamed = {name: _control(stream[name], place) for name, place in asked.items()}
    words = _control(SHORTENED_WORDS, below[3]) if splits else None
    preset = _preset()
    with st.expander("Reranker, new documents, hops"):
        variant = _variant(loaded, bool(learn))
    with st.expander("What is measured"):
        more = _several([param for param in params_of(Plan) if not (report and param.name == "held_out")])
    return SimulationRequest(
        learn=learn,
        report=report,
        stream=Stream(**streamed),
        plan=Plan(**more),
        preset=preset,
        decoders=chosen_decoders(),
        k=min(st.session_state.get(decoders.K_KEY, SET_SIZE.default), find_max_k(loaded)),
        words=words,
        **variant,
    )


def splits_of(loaded: Loaded) -> list[str]:
    """The splits with judged queries, where an encoder can embed these."""
    return list(count_judged(loaded.dataset)) if loaded.space.encoder is not None else []


def chosen_decoders() -> tuple[Decoder, ...]:
    """The decoders that Explore shows; the baseline where none is chosen there."""
    first = next(iter(methods("selector").values())).cls
    return tuple(decoders.get_decoders().values()) or (Decoder(first()),)


def _variant(loaded: Loaded, judged: bool) -> dict[str, Any]:
    """Draw what is shown, and when documents come; returns fields of a request."""
    places = st.columns(A_ROW, vertical_alignment="bottom")
    values: dict[str, Any] = {}
    rerankers = [NOBODY, *RERANKERS, *(methods("scorer") if judged else ())]
    described = "; ".join(f"{name}: {what}" for name, what in RERANKERS.items())
    picked = select(
        "Reranker", rerankers, _key("reranker"), container=places[0],
        help=f"Picks what is shown among several drawn (Algorithm 2). {described}; or any scorer.",
    )  # fmt: skip
    if picked != NOBODY:
        values |= {"reranker": picked, "candidates": _control(CANDIDATES, places[1])}
    share = _control(ARRIVING, places[2])
    values["updates"] = _control(UPDATES, places[3])
    if share:
        below = st.columns(A_ROW, vertical_alignment="bottom")
        values["arrivals"] = ((share, _control(AFTER, below[0])),)
        values["newcomers"] = _control(NEWCOMERS, below[1])
    if judged and has_plans(loaded.source.path):
        why = "Every step of a question's plan is a query of its own, one after the other (Algorithm 4)."
        values["by_hops"] = st.toggle("Questions by hops", key=_key("hops"), help=why, persist_state="session")
    return values


def _preset() -> Preset:
    """Draw how documents learn: a named preset, and its parameters."""
    params = {param.name: param for param in params_of(Preset)}
    places = st.columns(A_ROW, vertical_alignment="bottom")
    why = "\n\n".join(f"**{name}**: {note}" for name, note in NOTES.items())
    name = select("Preset", PRESETS, _key("preset"), container=places[0], on_change=_put, help=why)
    values = {param: _control(params[param], place) for place, param in zip(places[1:], PLAIN, strict=True)}
    with st.expander("How documents learn"):
        values |= _several([param for param in params.values() if param.name not in PLAIN])
    preset = Preset(**values)
    changed = "" if preset.name == name else f" Changed from the preset “{name}”."
    st.caption(NOTES[name] + changed)
    return preset


def _put() -> None:
    """Set the widgets to the preset, before they are drawn."""
    chosen = PRESETS[st.session_state.get(_key("preset"), next(iter(PRESETS)))]
    for name, value in chosen.as_json().items():
        if name not in ("seed", "exposure"):
            st.session_state[_key(name)] = value


def _several(params: Sequence[Param]) -> Mapping[str, Any]:
    """Draw parameters in rows; those that do not count are left out, and keep their default."""
    state = st.session_state
    shown = [p for p in params if p.requires is None or state.get(_key(p.requires[0]), p.requires[1]) == p.requires[1]]
    values: dict[str, Any] = {}
    for number, param in enumerate(shown):
        if number % A_ROW == 0:
            places = st.columns(A_ROW, vertical_alignment="bottom")
        values[param.name] = _control(param, places[number % A_ROW])
    return values


def _control(param: Param, place: Any) -> Any:
    """Draw the widget of a parameter under the name that people read; returns its value."""
    label = LABELS.get(param.name)
    named = param if label is None else replace(param, symbol=label, name=label)
    return draw_parameter(named, _key(param.name), place)


def _key(name: str) -> str:
    return f"{PREFIX}.{name}"
