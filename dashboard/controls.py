"""A declared parameter becomes a widget, and a stage a row of them: the one file that knows both."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import isfinite
from typing import Any

import streamlit as st

from engine.errors import ParamError
from engine.params import Choice, Flag, Param, Real, Text, Whole, form_of, values_of
from engine.stages import Spec, Stage

MORE_WIDTH = 150
STEPS = 100
"""How many steps a linear slider has from end to end."""
SMALL_STEP = 0.01
"""Of a number that may be left out: it has no slider, which could not be empty."""


def control(param: Param, key: str) -> Any:
    """The widget of a parameter; returns a value inside its domain."""
    label = param.label if param.symbol == param.name else f"{param.symbol} · {param.label}"
    help_ = " ".join(filter(None, [param.help, param.source]))
    kept = {"key": key, "help": help_, "persist_state": "session"}
    match param:
        case Choice():
            return st.selectbox(label, param.options, param.options.index(param.default), **kept)
        case Flag():
            return st.toggle(label, param.default, **kept)
        case Text():
            return _legible(param, st.text_input(label, param.default, max_chars=param.longest, **kept))
        case Real() if param.unset is not None:
            return st.number_input(
                label,
                min_value=param.low,
                max_value=param.high if isfinite(param.high) else None,
                value=param.default,
                step=SMALL_STEP,
                format="%g",
                placeholder=param.unset,
                **kept,
            )
        case Real(scale="log"):
            stops = sorted({*param.grid(25), param.default, st.session_state.get(key, param.default)})
            return st.select_slider(label, stops, param.default, format_func=lambda v: f"{v:g}", **kept)
        case Real():
            low, high = _reach(param, key)
            return st.slider(label, low, high, param.default, step=(high - low) / STEPS, **kept)
        case Whole(unset=None):
            low, high = _reach(param, key)
            return st.slider(label, low, high, param.default, **kept)
        case Whole():
            return st.number_input(
                label,
                min_value=param.low,
                max_value=param.high,
                value=param.default,
                step=1,
                placeholder=param.unset,
                **kept,
            )


def _legible(param: Param, value: Any) -> Any:
    """The value of a widget; a field of text that was emptied, or holds no line of text, stands for the default."""
    if not isinstance(param, Text):
        return value
    try:
        return param.check(value)
    except ParamError:
        return param.default


def _reach(param: Param, key: str) -> tuple[Any, Any]:
    """The ends of a slider: the comfortable range, and what was set beyond it once; one that shrank would forget."""
    ends = (*st.session_state.get(f"{key}.reach", param.span), st.session_state.get(key, param.default))
    st.session_state[f"{key}.reach"] = reach = (min(ends), max(ends))
    return reach


def parameters(spec: Spec, key: str) -> Any:
    """A stage with the parameters its widgets show, one below the other, those that count."""
    values: dict[str, Any] = {}
    for param in sorted(spec.params, key=lambda p: (p.needs is not None, bool(p.forms))):
        if _counts(param, values):
            shape, form = form_of(param, values)
            values[param.name] = control(form, ".".join(filter(None, [key_of(spec, key, param.name), shape])))
    return spec.cls(**values)


def counting(spec: Spec, key: str) -> int:
    """How many of a stage's parameters count and are not at their default."""
    stage = stage_of(spec, key)
    return sum(getattr(stage, p.name) != p.default for p in spec.params)


def stage_controls(
    spec: Spec,
    key: str,
    heading: Callable[[], None],
    more: tuple[str, Callable[[], None]] | None = None,
    changes: int = 0,
) -> Any:
    """A stage with the parameters its widgets show, below its heading; those that few look for are behind a button.

    more: the name of what else is behind the button, and what draws it; changes: how much of that is not at its
    default.
    """
    keys = {p.name: key_of(spec, key, p.name) for p in spec.params}
    values: dict[str, Any] = {}
    plain, rest = ([p for p in spec.params if p.advanced is advanced] for advanced in (False, True))
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        heading()
        if rest or more:
            given = {p.name: st.session_state.get(keys[p.name], p.default) for p in rest}
            changed = changes + sum(given[p.name] != p.default and _counts(p, given) for p in rest)
            named = ", ".join(filter(None, [more and more[0], "more" if rest else ""])).capitalize()
            with st.popover(f"{named} ({changed})" if changed else named, width=MORE_WIDTH):
                if more:
                    more[1]()
                    if rest:
                        st.divider()
                _presets(spec, key, keys)
                for param in rest:
                    if _counts(param, values):
                        values[param.name] = control(param, keys[param.name])
    for param, place in zip(plain, st.columns(len(plain)) if plain else (), strict=True):
        shape, form = form_of(param, values)
        with place:
            values[param.name] = control(form, ".".join(filter(None, [keys[param.name], shape])))
    return spec.cls(**values)


def _presets(spec: Spec, key: str, keys: Mapping[str, str]) -> None:
    if not spec.presets:
        return
    with st.container(horizontal=True):
        for name, wanted in spec.presets.items():
            said = ", ".join(f"{p.symbol} = {wanted[p.name]:g}" for p in spec.params if p.name in wanted)
            own = f"{key}.{spec.name}.{name}"
            st.button(f"{name}: {said}", key=own, on_click=_preset, args=(spec, keys, wanted))


def _counts(param: Param, values: Mapping[str, Any]) -> bool:
    return param.needs is None or values.get(param.needs[0]) == param.needs[1]


def _preset(spec: Spec, keys: Mapping[str, str], wanted: Mapping[str, Any]) -> None:
    """Set the widgets to a preset, each in its plain form."""
    for param in spec.params:
        if param.name in wanted:
            st.session_state[keys[param.name]] = wanted[param.name]
            for other, _, _ in param.forms:
                st.session_state[keys[other]] = next(p.default for p in spec.params if p.name == other)


def key_of(spec: Spec, key: str, name: str) -> str:
    """What the session calls a parameter's widget in its plain form."""
    return f"{key}.{spec.name}.{name}"


def put(stage: Stage, key: str) -> None:
    """Set the widgets that `stage_controls` draws under this key to a stage's parameters, before they are drawn."""
    spec, values = stage.spec, values_of(stage)
    for param in spec.params:
        shape, form = form_of(param, values)
        own = ".".join(filter(None, [key_of(spec, key, param.name), shape]))
        st.session_state[own] = form.check(values[param.name])


def stage_of(spec: Spec, key: str) -> Stage:
    """The stage that the widgets under this key show, drawn on this page or not; at its defaults before the first."""
    values: dict[str, Any] = {}
    # What others hang on comes first, as in `stage_controls`.
    for param in sorted(spec.params, key=lambda p: bool(p.forms)):
        shape, form = form_of(param, values)
        own = ".".join(filter(None, [key_of(spec, key, param.name), shape]))
        if param.needs is None or values.get(param.needs[0], param.needs[1]) == param.needs[1]:
            values[param.name] = _legible(form, st.session_state.get(own, form.default))
    return spec.cls(**values)
