"""The declared parameters of a stage in session state: keys of their widgets, read and set."""

from collections.abc import Iterable, Mapping
from typing import Any, overload

import streamlit as st

from engine.errors import ParamError
from engine.params import Param, Text, drop_ineffective, form_of, values_of
from engine.stages import Scorer, ScorerSpec, Selector, SelectorSpec, Spec, Stage


def key_of(spec: Spec, key: str, name: str) -> str:
    """The session key of a parameter's widget in its plain form."""
    return f"{key}.{spec.name}.{name}"


def in_order(params: Iterable[Param]) -> list[Param]:
    """Parameters, last those whose form or meaning hangs on others."""
    return sorted(params, key=lambda param: (bool(param.variants), param.requires is not None))


def form_at(key: str, param: Param, values: Mapping[str, Any]) -> tuple[str, Param]:
    """A widget in the form that the others' values give it, its key and declaration; key: of its plain form."""
    shape, form = form_of(param, values)
    return (f"{key}.{shape}" if shape else key), form


def put(stage: Stage, key: str) -> None:
    """Set the widgets that `stage_controls` draws under this key to a stage's parameters, before they are drawn."""
    spec, values = stage.spec, values_of(stage)
    known = drop_ineffective(spec.params, values)
    for param in spec.params:
        widget_key, form = form_at(key_of(spec, key, param.name), param, known)
        st.session_state[widget_key] = form.check(values[param.name])


@overload
def stage_of(spec: SelectorSpec, key: str) -> Selector: ...


@overload
def stage_of(spec: ScorerSpec, key: str) -> Scorer: ...


@overload
def stage_of(spec: Spec, key: str) -> Stage: ...


def stage_of(spec: Spec, key: str) -> Stage:
    """The stage that the widgets under this key show, drawn on this page or not; at its defaults before the first."""
    values: dict[str, Any] = {}
    for param in in_order(spec.params):
        widget_key, form = form_at(key_of(spec, key, param.name), param, values)
        if param.requires is None or values.get(param.requires[0], param.requires[1]) == param.requires[1]:
            values[param.name] = legible(form, st.session_state.get(widget_key, form.default))
    return spec.cls(**values)


def legible(param: Param, value: Any) -> Any:
    """The value of a widget; a field of text that was emptied, or holds no line of text, stands for the default."""
    if not isinstance(param, Text):
        return value
    try:
        return param.check(value)
    except ParamError:
        return param.default
