"""The declared parameters of a stage in session state: keys of their widgets, read and set."""

from collections.abc import Iterable, Mapping
from typing import Any, overload

import streamlit as st

from engine.errors import ParamError
from engine.params import Param, Text, drop_ineffective, form_of, values_of
from engine.stages import Scorer, ScorerSpec, Selector, SelectorSpec, Spec, Stage


def param_key(spec: Spec, prefix: str, param_name: str) -> str:
    """Return the session key of a parameter's widget in its plain form."""
    return f"{prefix}.{spec.name}.{param_name}"


def order_params(params: Iterable[Param]) -> list[Param]:
    """Sort parameters so that each comes after those that its form or effect depends on."""
    return sorted(params, key=lambda param: (bool(param.variants), param.requires is not None))


def resolve_form(plain_key: str, param: Param, values: Mapping[str, Any]) -> tuple[str, Param]:
    """Return the session key of a parameter's widget, and its declaration, given the values of others.

    Under another one's value some parameters take another form (such as a share in place of a number), which has its
    own widget. plain_key: the key of the usual one
    """
    form_name, form = form_of(param, values)
    return (f"{plain_key}.{form_name}" if form_name else plain_key), form


def set_stage(stage: Stage, prefix: str) -> None:
    """Set the widgets of a selector or scorer to its parameters' values, before they are drawn."""
    # Without the values that have no effect, which must not choose another parameter's form.
    spec, values = stage.spec, values_of(stage)
    effective = drop_ineffective(spec.params, values)
    for param in spec.params:
        widget_key, form = resolve_form(param_key(spec, prefix, param.name), param, effective)
        st.session_state[widget_key] = form.check(values[param.name])


@overload
def read_stage(spec: SelectorSpec, prefix: str) -> Selector: ...


@overload
def read_stage(spec: ScorerSpec, prefix: str) -> Scorer: ...


@overload
def read_stage(spec: Spec, prefix: str) -> Stage: ...


def read_stage(spec: Spec, prefix: str) -> Stage:
    """Return a selector or scorer with the values of its widgets; a widget never drawn has its default.

    spec: its description in the registry; prefix: of the session keys
    """
    values: dict[str, Any] = {}
    for param in order_params(spec.params):
        widget_key, form = resolve_form(param_key(spec, prefix, param.name), param, values)
        # A parameter may require a value of another one, as (name, value), and has no effect without.
        # It then keeps its default, so that equal stages are equal values.
        if param.requires is None or values.get(param.requires[0], param.requires[1]) == param.requires[1]:
            values[param.name] = as_legible(form, st.session_state.get(widget_key, form.default))
    return spec.cls(**values)


def as_legible(param: Param, value: Any) -> Any:
    """Return a parameter's value from its widget; in place of an empty or invalid text its default."""
    if not isinstance(param, Text):
        return value
    try:
        return param.check(value)
    except ParamError:
        return param.default
