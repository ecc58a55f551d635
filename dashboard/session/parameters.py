"""The declared parameters of a stage in session state: keys of their widgets, read and set."""

from collections.abc import Iterable, Mapping
from itertools import chain
from typing import Any, overload

import streamlit as st

from engine.errors import ParamError
from engine.params import Param, Text, Whole, drop_ineffective, form_of, values_of
from engine.stages import Scorer, ScorerSpec, Selector, SelectorSpec, Spec, Stage, methods

COSTLY_PARAMS = {"iterations", "dimension"}
"""Parameters of stages that multiply time or memory whatever the corpus."""
MAX_SLIDER_EXCESS = 3
"""A page takes such a parameter up to so many times the end of its slider; beyond, one visitor holds up the others."""


def param_key(spec: Spec, prefix: str, param_name: str) -> str:
    """Return the key of a parameter's usual widget in the browser session's state.

    A parameter in another unit has another widget, whose key `resolve_form` returns.
    """
    return f"{prefix}.{spec.name}.{param_name}"


def order_params(params: Iterable[Param]) -> list[Param]:
    """Sort parameters so that each comes after those that decide if it has an effect, or in which unit."""
    return sorted(params, key=lambda param: (bool(param.variants), param.requires is not None))


def resolve_form(plain_key: str, param: Param, values: Mapping[str, Any]) -> tuple[str, Param]:
    """Return the session key of a parameter's widget, and its form, given the values of others.

    A parameter's form is its declaration beside the values of others: λ₁, for example, is a penalty, or a number of
    documents where `scale` is "support". Each form has a widget of its own, so that a penalty is not read as a number
    of documents. plain_key: the key of the usual widget; values: of the other parameters, by name
    """
    form_name, declaration = form_of(param, values)
    return (f"{plain_key}.{form_name}" if form_name else plain_key), declaration


def set_stage(stage: Stage, prefix: str) -> None:
    """Set the widgets of a selector or scorer to its parameters' values, before they are drawn."""
    # The value of one parameter may decide another's form, its declaration: λ₁ is a penalty or a number of documents.
    # A parameter without effect beside the others' values decides nothing, so its value is dropped first.
    spec, values = stage.spec, values_of(stage)
    effective = drop_ineffective(spec.params, values)
    for param in spec.params:
        widget_key, declaration = resolve_form(param_key(spec, prefix, param.name), param, effective)
        st.session_state[widget_key] = declaration.check(values[param.name])


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
        # The declaration is the parameter's form: with another unit and range, and another widget, beside other values.
        widget_key, declaration = resolve_form(param_key(spec, prefix, param.name), param, values)
        # A parameter may require a value of another one, and has no effect without.
        # It then keeps its default, so that selectors or scorers that do the same are equal values.
        required_name, required_value = param.requires or ("", None)
        if param.requires is None or values.get(required_name, required_value) == required_value:
            values[param.name] = as_legible(declaration, st.session_state.get(widget_key, declaration.default))
    return spec.cls(**values)


def as_legible(param: Param, value: Any) -> Any:
    """Return a parameter's value from its widget, its default in place of an empty or invalid text.

    Only a text may be invalid, as people type it; every other widget offers valid values alone. A browser may still
    send any number, of which a costly one is limited.
    """
    if (limit := find_costly_limit(param)) is not None:
        return min(value, limit)
    if not isinstance(param, Text):
        return value
    try:
        return param.check(value)
    except ParamError:
        return param.default


def find_costly_limit(param: Param) -> int | None:
    """Return the largest value of a selector's or scorer's parameter that a page takes; None if it takes all.

    Trainings have parameters of the same names; they run as jobs, and hold up nobody.
    """
    if not isinstance(param, Whole) or param.name not in COSTLY_PARAMS:
        return None
    specs = chain(methods("selector").values(), methods("scorer").values())
    is_costly = any(param in spec.params for spec in specs)
    return MAX_SLIDER_EXCESS * param.comfortable_range[1] if is_costly else None
