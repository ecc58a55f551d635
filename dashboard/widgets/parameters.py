"""A declared parameter becomes a widget, and a stage a row of them: the one file that knows both."""

from collections.abc import Callable, Iterable, Mapping
from math import isfinite
from typing import Any

import streamlit as st

from dashboard.session.parameters import form_at, in_order, key_of, legible, stage_of
from engine.params import Choice, Flag, Param, Real, Text, Whole
from engine.stages import Spec

MORE_WIDTH = 150
STEPS = 100
"""How many steps a linear slider has from end to end."""
SMALL_STEP = 0.01
"""Of a number that may be left out: it has no slider, which could not be empty."""


def control(param: Param, key: str, place: Any = st) -> Any:
    """Draw the widget of a parameter, in the current container or in `place`; returns a value inside its domain."""
    label = label_of(param)
    help_ = " ".join(filter(None, [param.help, param.source]))
    common: dict[str, Any] = {"key": key, "help": help_, "persist_state": "session"}
    match param:
        case Choice():
            return place.selectbox(label, param.options, param.options.index(param.default), **common)
        case Flag():
            return place.toggle(label, param.default, **common)
        case Text():
            return legible(param, place.text_input(label, param.default, max_chars=param.max_length, **common))
        case Real(unset=str()):
            high = param.high if isfinite(param.high) else None
            common |= {"step": SMALL_STEP, "format": "%g", "placeholder": param.unset}
            return place.number_input(label, param.low, high, param.default, **common)
        case Real(scale="log"):
            stops = sorted({*param.grid(25), param.default, st.session_state.get(key, param.default)})
            return place.select_slider(label, stops, param.default, format_func=lambda v: f"{v:g}", **common)
        case Real():
            low, high = _reach(param, key)
            return place.slider(label, low, high, param.default, step=(high - low) / STEPS, **common)
        case Whole(unset=None):
            low, high = _reach(param, key)
            return place.slider(label, low, high, param.default, **common)
        case Whole():
            common |= {"step": 1, "placeholder": param.unset}
            return place.number_input(label, param.low, param.high, param.default, **common)


def label_of(param: Param) -> str:
    """A parameter's symbol and label, once where they are the same."""
    return param.label if param.symbol == param.name else f"{param.symbol} · {param.label}"


def _reach(param: Real | Whole, key: str) -> tuple[Any, Any]:
    """The ends of a slider: the comfortable range, and what was set beyond it once; one that shrank would forget."""
    ends = (*st.session_state.get(f"{key}.reach", param.comfortable_range), st.session_state.get(key, param.default))
    st.session_state[f"{key}.reach"] = reach = (min(ends), max(ends))
    return reach


def parameters(spec: Spec, key: str) -> Any:
    """A stage with the parameters its widgets show, one below the other, those that count."""
    values: dict[str, Any] = {}
    draw_parameters(spec.params, lambda name: key_of(spec, key, name), values)
    return spec.cls(**values)


def draw_parameters(params: Iterable[Param], key: Callable[[str], str], values: dict[str, Any]) -> None:
    """Draw the widgets of parameters that count, add what they show to `values`. key: of a plain widget, by name."""
    for param in in_order(params):
        if _counts(param, values):
            widget_key, form = form_at(key(param.name), param, values)
            values[param.name] = control(form, widget_key)


def counting(spec: Spec, key: str) -> int:
    """The number of a stage's parameters that count and are not at their default."""
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
            session_values = {p.name: st.session_state.get(keys[p.name], p.default) for p in rest}
            changed = changes + sum(session_values[p.name] != p.default and _counts(p, session_values) for p in rest)
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
        widget_key, form = form_at(keys[param.name], param, values)
        with place:
            values[param.name] = control(form, widget_key)
    return spec.cls(**values)


def _presets(spec: Spec, key: str, keys: Mapping[str, str]) -> None:
    if not spec.presets:
        return
    with st.container(horizontal=True):
        for name, values in spec.presets.items():
            described = ", ".join(f"{p.symbol} = {values[p.name]:g}" for p in spec.params if p.name in values)
            button_key = key_of(spec, key, name)
            st.button(f"{name}: {described}", key=button_key, on_click=_preset, args=(spec, keys, values))


def _counts(param: Param, values: Mapping[str, Any]) -> bool:
    return param.requires is None or values.get(param.requires[0]) == param.requires[1]


def _preset(spec: Spec, keys: Mapping[str, str], values: Mapping[str, Any]) -> None:
    """Set the widgets to a preset, each in its plain form."""
    for param in spec.params:
        if param.name in values:
            st.session_state[keys[param.name]] = values[param.name]
            for other, _, _ in param.variants:
                st.session_state[keys[other]] = next(p.default for p in spec.params if p.name == other)
