"""The form of a simulation: queries, honesty of feedback, learning."""

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
from engine.simulation.variants import ARRIVAL_ROUND as AFTER_ROUND
from engine.simulation.variants import ARRIVAL_SHARE, N_CANDIDATES, N_UPDATES, NEWCOMER_START, RERANKERS
from engine.stages import methods

FORM_PREFIX = "drift.simulate"
OWN_QUERIES = ""
"""In place of a split, for documents as their own queries."""
BASIC_PARAMS = ("rate", "exposure", "seed")
"""Parameters beside the preset; its others are in an expander."""
FIELDS_PER_ROW = 4
NO_RERANKER = "none"
ARRIVING_PARAM = replace(
    ARRIVAL_SHARE, default=0.0, high=0.9, name="arriving", symbol="arriving",
    help="A share of them is neither shown, moved nor found before they come (Algorithm 3).",
)  # fmt: skip
AFTER_PARAM = replace(AFTER_ROUND, default=100, comfortable=(1, 5000))
PARAM_LABELS = {
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
"""Display names of parameters whose symbol says little."""


def ask(loaded: Loaded) -> SimulationRequest:
    """Draw the form of a simulation, in which judgements vote instead of people; return its settings.

    Impossible settings raise only in `forecast`.
    """
    key, splits = corpus_key(loaded), list_splits(loaded)
    columns = st.columns(FIELDS_PER_ROW, vertical_alignment="bottom")
    learn: str = select(
        "Learn from",
        [*splits, OWN_QUERIES],
        f"{FORM_PREFIX}.learn.{key}",
        default=find_first_split(loaded.dataset),
        container=columns[0],
        format_func=lambda split: split or "documents as their own queries",
        help="A split's judgements vote instead of people. Documents as their own queries are easier.",
    )
    report_splits = [None, *(split for split in splits if split != learn)] if learn else [None]
    report: str | None = select(
        "Hold out",
        report_splits,
        f"{FORM_PREFIX}.report.{key}.{learn}",
        container=columns[1],
        format_func=lambda split: split or "a share of them",
        help="Queries that are never learned from: a gain there holds for new queries.",
    )
    lower = st.columns(FIELDS_PER_ROW)
    stream = {param.name: param for param in params_of(Stream)}
    # Parameter → its column: two beside the splits, the others in the row below, whose last column is for `words`.
    slots = dict(zip(("order", "rounds", "flips", "adversary", "popularity"), (*columns[2:], *lower), strict=False))
    stream_values = {name: _draw_param(stream[name], column) for name, column in slots.items()}
    words = _draw_param(SHORTENED_WORDS, lower[3]) if splits else None
    preset = _draw_preset()
    with st.expander("Reranker, new documents, hops"):
        variant = _draw_variant(loaded, bool(learn))
    with st.expander("What is measured"):
        # With a split to hold out, no share of the queries is held out.
        plan_values = _draw_params([param for param in params_of(Plan) if not (report and param.name == "held_out")])
    return SimulationRequest(
        learn=learn,
        report=report,
        stream=Stream(**stream_values),
        plan=Plan(**plan_values),
        preset=preset,
        decoders=list_decoders(),
        k=min(st.session_state.get(decoders.K_KEY, SET_SIZE.default), find_max_k(loaded)),
        words=words,
        **variant,
    )


def list_splits(loaded: Loaded) -> list[str]:
    """Return the splits with judged queries; [] if these have no vectors and no encoder."""
    return list(count_judged(loaded.dataset)) if loaded.has_query_vectors else []


def list_decoders() -> tuple[Decoder, ...]:
    """Return the decoders of Explore; the baseline if none is chosen there."""
    first_selector = next(iter(methods("selector").values())).cls
    return tuple(decoders.get_decoders().values()) or (Decoder(first_selector()),)


def _draw_variant(loaded: Loaded, judged: bool) -> dict[str, Any]:
    """Draw the less usual settings of a simulation; return them as fields of a SimulationRequest.

    These are a reranker of the drawn documents, documents that arrive later, and questions asked in several steps
    (hops). judged: True if a split's judgements vote, False if documents are their own queries
    """
    columns = st.columns(FIELDS_PER_ROW, vertical_alignment="bottom")
    values: dict[str, Any] = {}
    rerankers = [NO_RERANKER, *RERANKERS, *(decoders.list_scorers(decoders.RERANK) if judged else ())]
    descriptions = "; ".join(f"{name}: {description}" for name, description in RERANKERS.items())
    reranker = select(
        "Reranker", rerankers, _field_key("reranker"), container=columns[0],
        help=f"Picks what is shown among several drawn (Algorithm 2). {descriptions}; or any scorer.",
    )  # fmt: skip
    # Without a reranker, one drawn document is shown.
    if reranker != NO_RERANKER:
        values |= {"reranker": reranker, "candidates": _draw_param(N_CANDIDATES, columns[1])}
    share = _draw_param(ARRIVING_PARAM, columns[2])
    values["updates"] = _draw_param(N_UPDATES, columns[3])
    if share:
        lower_columns = st.columns(FIELDS_PER_ROW, vertical_alignment="bottom")
        values["arrivals"] = ((share, _draw_param(AFTER_PARAM, lower_columns[0])),)
        values["newcomers"] = _draw_param(NEWCOMER_START, lower_columns[1])
    if judged and has_plans(loaded.source.path):
        why = "Every step of a question's plan is a query of its own, one after the other (Algorithm 4)."
        values["by_hops"] = st.toggle("Questions by hops", key=_field_key("hops"), help=why, persist_state="session")
    return values


def _draw_preset() -> Preset:
    """Draw the choice of a preset, which says how votes move documents, and its parameters; return it.

    Parameters that were changed differ from the preset of that name.
    """
    params = {param.name: param for param in params_of(Preset)}
    columns = st.columns(FIELDS_PER_ROW, vertical_alignment="bottom")
    why = "\n\n".join(f"**{name}**: {note}" for name, note in NOTES.items())
    name = select("Preset", PRESETS, _field_key("preset"), container=columns[0], on_change=_apply_preset, help=why)
    values = {param: _draw_param(params[param], slot) for slot, param in zip(columns[1:], BASIC_PARAMS, strict=True)}
    with st.expander("How documents learn"):
        values |= _draw_params([param for param in params.values() if param.name not in BASIC_PARAMS])
    preset = Preset(**values)
    change_note = "" if preset.name == name else f" Changed from the preset “{name}”."
    st.caption(NOTES[name] + change_note)
    return preset


def _apply_preset() -> None:
    """Set the form's widgets to the values of the chosen preset, which says how votes move documents.

    For a callback.
    """
    preset = PRESETS[st.session_state.get(_field_key("preset"), next(iter(PRESETS)))]
    for name, value in preset.as_json().items():
        # Presets define learning, not the length of a run.
        if name not in ("seed", "exposure"):
            st.session_state[_field_key(name)] = value


def _draw_params(params: Sequence[Param]) -> Mapping[str, Any]:
    """Draw parameters in rows; return name → value, without those that have no effect at present."""
    state = st.session_state
    # A parameter may require a value of another one, as (name, value): else it has no effect.
    active = [
        p for p in params if p.requires is None or state.get(_field_key(p.requires[0]), p.requires[1]) == p.requires[1]
    ]
    values: dict[str, Any] = {}
    for index, param in enumerate(active):
        # Ineffective parameters leave no holes in the rows.
        if index % FIELDS_PER_ROW == 0:
            columns = st.columns(FIELDS_PER_ROW, vertical_alignment="bottom")
        values[param.name] = _draw_param(param, columns[index % FIELDS_PER_ROW])
    return values


def _draw_param(param: Param, container: Any) -> Any:
    """Draw the widget of a parameter under its display name; return its value."""
    label = PARAM_LABELS.get(param.name)
    renamed_param = param if label is None else replace(param, symbol=label, name=label)
    return draw_parameter(renamed_param, _field_key(param.name), container)


def _field_key(name: str) -> str:
    """Return the session key of a field of this form."""
    return f"{FORM_PREFIX}.{name}"
