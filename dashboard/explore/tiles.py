"""The tiles of Explore: each decoder's figures and sliders, whose every position is drawn in the browser."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping
from typing import Any

import streamlit as st

from dashboard.charts.palette import style_of
from dashboard.components import scrub, vendor
from dashboard.explore import checkup
from dashboard.services.source import Loaded
from dashboard.session import decoders, restore
from dashboard.session.answers import Answer, answer_key, query_of, scores_of
from dashboard.session.parameters import form_at, key_of
from dashboard.session.query import Question, step
from dashboard.session.view_names import CHECK_UP
from dashboard.widgets import confirm
from engine.decoder import Decoder, ScoredCandidates, scored
from engine.errors import DataError, ParamError
from engine.params import Real, Whole, values_of
from engine.stages import Selector, methods
from engine.values import digest_of
from engine.views import slider, trust

KEY, SERIAL, RELEASED = "explore.tiles", "explore.serial", "explore.released"
"""Session keys: the component, the number of the last settings that it reported, and whether this run follows them."""

LARGE, FIRST = 2048, 0.5
"""Documents from which on a slider's answers come in two parts, and where the first part of a path begins."""


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
    given = _relevant(question)
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
    checked = checkup.at_once(loaded, question.k, question.depth)
    if checked is not None and st.session_state.get(decoders.VIEW) != CHECK_UP:
        data["headline"] = checked.headline

    def stepped(way: int) -> None:
        if way:
            confirm.act(lambda: step(loaded, way))
        else:
            st.session_state[decoders.VIEW] = CHECK_UP

    scrub.tiles(KEY, data, _commit, stepped)


def query_key(loaded: Loaded, question: Question) -> str:
    """Names a query on its corpus: views that draw the same query follow the same tiles."""
    return digest_of([loaded.key, question.id, question.text, str(question.k)])[:16]


def _relevant(question: Question) -> frozenset[str]:
    return frozenset(question.qrels.relevant(question.id)) if question.qrels is not None else frozenset()


def _tile(loaded: Loaded, question: Question, key: str, result: Answer) -> dict[str, Any]:
    style, scores = style_of(result.name), None if result.relevance is None else result.relevance.score
    more = {"relevant": _relevant(question), "scores": scores}
    notes = [decoders.describe_scorers(result.decoder), trust(result.ranking.info[0])]
    return {
        "key": key,
        "name": result.name,
        "title": result.title,
        "sign": style.sign,
        "light": style.light,
        "dark": style.dark,
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
        exact = stage.no_path is None and param.name == stage.path_parameter
        given = slider.stops(form, values[param.name], exact)
        along = Decoder(
            _at(stage, param.name, form.default), result.decoder.retrieve, result.decoder.rerank, result.decoder.depth
        )
        key = [*map(str, answer_key(loaded, question, along)), param.name]
        parts = [(given, 0.0)]
        if len(loaded.space) > LARGE:
            parts.insert(0, (given, FIRST) if exact else (slider.coarser(given), 0.0))
        sliders.append(
            {
                "param": param.name,
                "symbol": form.symbol,
                "help": form.help,
                "value": values[param.name],
                "standard": form.default,
                "linked": isinstance(form, Real) and form.scale == "linear" and form.comfortable_range == (0.0, 1.0),
                "urls": [
                    vendor.offer(
                        digest_of([*key, repr(part)]), _maker(loaded, question, result.decoder, form, part, more)
                    )
                    for part in parts
                ],
            }
        )
    return sliders


def _at(stage: Selector, name: str, value: Any) -> Selector:
    """The stage at another value of a parameter."""
    return type(stage)(**values_of(stage) | {name: value})


def _maker(
    loaded: Loaded,
    question: Question,
    decoder: Decoder,
    form: Real | Whole,
    part: tuple[dict[str, Any], float],
    more: dict[str, Any],
) -> Callable[[], dict[str, Any]]:
    """What computes a slider's answers when the browser asks; it keeps no corpus alive."""
    space, query, k = weakref.ref(loaded.space), query_of(loaded, question), question.k
    known: weakref.ref[ScoredCandidates] | None = None
    if not decoders.has_default_scorers(decoder):
        known = weakref.ref(scores_of(loaded, question, decoder)[0])

    def make() -> dict[str, Any]:
        where = space()
        found = None if where is None else scored(decoder, where, query) if known is None else known()
        if where is None or found is None:
            raise DataError("what this slider shows is no longer in memory; move it to have it computed again")
        given, above = part
        answers = slider.slider_answers(decoder.select, form, given, found, k, above)
        rankings = answers.pop("rankings")
        return {**answers, "stops": given, **slider.packed(where, query.vectors[0], rankings, **more)}

    return make


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
