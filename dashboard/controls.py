"""A declared parameter becomes a widget, and a stage a row of them: the one file that knows both."""

from __future__ import annotations

from typing import Any

import streamlit as st

from engine.params import Choice, Flag, Param, Real, Whole
from engine.stages import Spec

STEPS = 100
"""How many steps a linear slider has from end to end."""


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
        case Real(scale="log"):
            stops = sorted({*param.grid(25), param.default})
            return st.select_slider(label, stops, param.default, format_func=lambda v: f"{v:g}", **kept)
        case Real():
            low, high = param.span
            return st.slider(label, low, high, param.default, step=(high - low) / STEPS, **kept)
        case Whole(unset=None):
            low, high = param.span
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


def stage_controls(spec: Spec, key: str) -> Any:
    """A stage with the parameters its widgets show."""
    values = {p.name: control(p, f"{key}.{spec.name}.{p.name}") for p in spec.params}
    return spec.cls(**values)
