"""The tiles of Explore: each decoder's figures and sliders, whose every position is drawn in the browser."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from typing import Any

import streamlit as st

from dashboard.charts.palette import look_of
from dashboard.components import vendor
from dashboard.explore import checkup
from dashboard.services.source import Loaded
from dashboard.session import decoders, restore
from dashboard.session.answers import Answer, slider_requests
from dashboard.session.parameters import form_at, key_of
from dashboard.session.query import Question, query_key, step
from dashboard.session.view_names import CHECK_UP
from dashboard.widgets import confirm
from engine.errors import ParamError
from engine.evaluation.paired import promise
from engine.params import Param, Real, values_of
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
    given, forms = question.relevant, dict[str, dict[str, tuple[str, Param]]]()
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
                **_tile(loaded, question, key, result, forms.setdefault(key, {})),
                "baseline": result.decoder == baseline.decoder,
                "error": errors.get(result.name),
            }
            for key, result in answers.items()
        ],
    }
    # After a drag the browser says in its place what that changed.
    if not released and loaded.reach is None and st.session_state.get(decoders.VIEW) != CHECK_UP:
        checked = checkup.at_once(loaded, question.k, question.depth)
        data["headline"] = checked and checked.headline

    def stepped(way: int) -> None:
        if way:
            confirm.act(lambda: step(loaded, way))
        else:
            st.session_state[decoders.VIEW] = CHECK_UP

    vendor.view("tiles", KEY, data, {"committed": partial(_commit, forms), "stepped": stepped})


def _tile(
    loaded: Loaded, question: Question, key: str, result: Answer, forms: dict[str, tuple[str, Param]]
) -> dict[str, Any]:
    """A decoder's figures, and its sliders, each with the address of its answers at every position."""
    stage, values, sliders = result.stage, values_of(result.stage), []
    more = {"relevant": question.relevant, "scores": None if result.relevance is None else result.relevance.score}
    for param in stage.spec.params:
        widget_key, form = form_at(key_of(stage.spec, decoders.PREFIX, param.name), param, values)
        if not slider.has_slider(form) or (param.requires and values[param.requires[0]] != param.requires[1]):
            continue
        forms[param.name] = widget_key, form
        requests = slider_requests(loaded, question, result.decoder, form, **more)
        sliders.append(
            {
                "param": param.name,
                "symbol": form.symbol,
                "help": form.help,
                "value": values[param.name],
                "standard": form.default,
                "linked": isinstance(form, Real) and form.scale == "linear" and form.comfortable_range == (0.0, 1.0),
                "stops": next(reversed(requests.values())).stops,
                "urls": [vendor.offer(digest, request) for digest, request in requests.items()],
            }
        )
    notes = [promise(stage.as_json()), decoders.describe_scorers(result.decoder), trust(result.ranking.info[0])]
    return {
        "key": key,
        **look_of(result.name, result.title),
        "note": " · ".join(filter(None, notes)),
        "now": slider.packed_ranking(loaded.space, question.vector, result.ranking, **more),
        "sliders": sliders,
    }


def _commit(forms: Mapping[str, Mapping[str, tuple[str, Param]]], told: Mapping[str, Any]) -> None:
    """Set the parameters to what the sliders were let go at; forms: of each slider its widget's key and declaration."""
    st.session_state[RELEASED] = True
    st.session_state[SERIAL] = max(int(told["serial"]), st.session_state.get(SERIAL, 0))
    for name, values in told["values"].items():
        for param, value in values.items():
            if param in forms.get(name, ()):
                widget_key, form = forms[name][param]
                with suppress(ParamError):
                    st.session_state[widget_key] = form.check(value)
