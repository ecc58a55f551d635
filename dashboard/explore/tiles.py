"""The tiles of Explore: each decoder's figures and sliders, whose every position is drawn in the browser."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import streamlit as st

from dashboard.components import scrub
from dashboard.explore import checkup
from dashboard.services.source import Loaded
from dashboard.session import decoders, restore
from dashboard.session.answers import Answer
from dashboard.session.parameters import form_at, key_of
from dashboard.session.query import Question, step
from dashboard.session.view_names import CHECK_UP
from dashboard.widgets import confirm, slider_answers
from dashboard.widgets.slider_answers import look_of, query_key, relevant_to
from engine.errors import ParamError
from engine.evaluation.paired import promise
from engine.params import Real, values_of
from engine.stages import methods
from engine.views import slider
from engine.views.sets import trust

KEY, SERIAL, RELEASED = "explore.tiles", "explore.serial", "explore.released"
"""Session keys: the component, the number of the last settings that it reported, and whether this run follows them."""


def show(
    loaded: Loaded,
    question: Question,
    answers: Mapping[str, Answer],
    baseline: Answer,
    errors: Mapping[str, str],
    released: bool = False,
) -> None:
    """Draw them.

    errors: by decoder, why there is no answer at its setting; the last one stands in for it
    released: whether a slider was let go just now
    """
    given = relevant_to(question)
    beside = any(result.decoder == baseline.decoder for result in answers.values())
    data: dict[str, Any] = {
        "query": query_key(loaded, question),
        "k": question.k,
        "judged": len(given) if question.judged else 0,
        "serial": st.session_state.get(SERIAL, 0),
        "base": None
        if beside
        else slider.packed_ranking(loaded.space, question.vector, baseline.ranking, relevant=given),
        # Written by the browser: else each value that was tried would be an entry of its history.
        "address": restore.address_after(loaded) if released else None,
        "decoders": [
            {
                **_tile(loaded, question, key, result),
                "baseline": result.decoder == baseline.decoder,
                "error": errors.get(result.name),
            }
            for key, result in answers.items()
        ],
    }
    checked = checkup.at_once(loaded, question.k, question.depth) if loaded.reach is None else None
    if checked is not None and st.session_state.get(decoders.VIEW) != CHECK_UP:
        data["headline"] = checked.headline

    def stepped(way: int) -> None:
        if way:
            confirm.act(lambda: step(loaded, way))
        else:
            st.session_state[decoders.VIEW] = CHECK_UP

    scrub.tiles(KEY, data, _commit, stepped)


def _tile(loaded: Loaded, question: Question, key: str, result: Answer) -> dict[str, Any]:
    scores = None if result.relevance is None else result.relevance.score
    more = {"relevant": relevant_to(question), "scores": scores}
    notes = [promise(result.stage.as_json()), decoders.describe_scorers(result.decoder), trust(result.ranking.info[0])]
    return {
        "key": key,
        **look_of(result.name, result.title),
        "note": " · ".join(filter(None, notes)),
        "now": slider.packed_ranking(loaded.space, question.vector, result.ranking, **more),
        "sliders": _sliders(loaded, question, result, more),
    }


def _sliders(loaded: Loaded, question: Question, result: Answer, more: dict[str, Any]) -> list[dict[str, Any]]:
    """The sliders of a decoder, each with the address of its answers at every position."""
    stage, sliders = result.stage, []
    values = values_of(stage)
    for param in stage.spec.params:
        form = form_at("", param, values)[1]
        if not slider.has_slider(form) or (param.requires and values[param.requires[0]] != param.requires[1]):
            continue
        sliders.append(
            {
                "param": param.name,
                "symbol": form.symbol,
                "help": form.help,
                "value": values[param.name],
                "standard": form.default,
                "linked": isinstance(form, Real) and form.scale == "linear" and form.comfortable_range == (0.0, 1.0),
                "stops": slider_answers.stops_of(result.decoder, form)[0],
                "urls": slider_answers.addresses(loaded, question, result.decoder, form, **more),
            }
        )
    return sliders


def _commit(told: Mapping[str, Any]) -> None:
    """Set the parameters to what the sliders were let go at."""
    st.session_state[RELEASED] = True
    st.session_state[SERIAL] = max(int(told["serial"]), st.session_state.get(SERIAL, 0))
    known = methods("selector")
    for name, values in told["values"].items():
        if name not in known:
            continue
        current = values_of(decoders.decoder_of(name).select)
        for param in known[name].params:
            if param.name not in values:
                continue
            key, form = form_at(key_of(known[name], decoders.PREFIX, param.name), param, current)
            try:
                st.session_state[key] = form.check(values[param.name])
            except ParamError:
                continue  # not from a slider of ours
