"""Widgets of declared parameters, and rows of them for stages: the one file that knows both."""

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from math import isfinite
from typing import Any

import streamlit as st

from dashboard.session.parameters import as_legible, order_params, param_key, read_stage, resolve_form
from engine.params import Choice, Flag, Param, Real, Text, Whole
from engine.stages import Spec

POPOVER_WIDTH = 150
N_SLIDER_STEPS = 100
"""Steps of a linear slider from end to end."""
NUMBER_STEP = 0.01
"""Step of an optional number, which has no slider, as a slider cannot be empty."""


def draw_parameter(param: Param, key: str, container: Any = st) -> Any:
    """Draw the widget that fits the type and domain of a declared parameter; return its value.

    key: of the widget in the session; container: to draw in, the page by default
    """
    label = format_label(param)
    help_ = " ".join(filter(None, [param.help, param.source]))
    options: dict[str, Any] = {"key": key, "help": help_, "persist_state": "session"}
    match param:
        case Choice():
            return container.selectbox(label, param.options, param.options.index(param.default), **options)
        case Flag():
            return container.toggle(label, param.default, **options)
        case Text(choices=list_choices) if list_choices is not None:
            # A link may have set a name that is not there any more: it stays, and the scorer says what is wrong.
            choices = list(dict.fromkeys([param.default, *list_choices(), st.session_state.get(key, param.default)]))
            return container.selectbox(label, choices, choices.index(param.default), **options)
        case Text():
            return as_legible(param, container.text_input(label, param.default, max_chars=param.max_length, **options))
        # `unset` is what None means, in words: such a parameter may be empty, so it is typed and has no slider.
        case Real(unset=str()):
            high = param.high if isfinite(param.high) else None
            options |= {"step": NUMBER_STEP, "format": "%g", "placeholder": param.unset}
            return container.number_input(label, param.low, high, param.default, **options)
        case Real(scale="log"):
            # The default and a value set by a link need not be among the 25 even steps.
            stops = sorted({*param.grid(25), param.default, st.session_state.get(key, param.default)})
            return container.select_slider(label, stops, param.default, format_func=lambda stop: f"{stop:g}", **options)
        case Real():
            low, high = _slider_range(param, key)
            return container.slider(label, low, high, param.default, step=(high - low) / N_SLIDER_STEPS, **options)
        case Whole(unset=None):
            if key in st.session_state:
                st.session_state[key] = as_legible(param, st.session_state[key])
            low, high = _slider_range(param, key)
            return container.slider(label, low, high, param.default, **options)
        case Whole():
            options |= {"step": 1, "placeholder": param.unset}
            return container.number_input(label, param.low, param.high, param.default, **options)


def format_label(param: Param) -> str:
    """Return a parameter's title with a capital letter, and its symbol in brackets, if it is one of formulas."""
    # A letter alone is one of formulas, such as k.
    title = param.label if len(param.label) < 2 else param.label[:1].upper() + param.label[1:]
    # A symbol that is a word, such as "norm", only repeats the title.
    is_word = re.search(r"[A-Za-z]{3}", param.symbol) is not None
    return title if is_word or param.symbol in ("", param.label) else f"{title} ({param.symbol})"


def _slider_range(param: Real | Whole, key: str) -> tuple[Any, Any]:
    """Return the ends of a parameter's slider: `comfortable_range`, widened to all values set so far.

    The comfortable range is that of sliders, narrower than what is allowed.
    """
    # The range is stored, and only grows: a slider that shrank would forget a value set by a link or a preset.
    ends = (*st.session_state.get(f"{key}.reach", param.comfortable_range), st.session_state.get(key, param.default))
    st.session_state[f"{key}.reach"] = slider_range = (min(ends), max(ends))
    return slider_range


def draw_stage(spec: Spec, key: str) -> Any:
    """Draw the parameters of a selector or scorer, one below the other; return it with their values.

    spec: its description in the registry; key: prefix of the session keys
    """
    values: dict[str, Any] = {}
    draw_parameters(spec.params, lambda name: param_key(spec, key, name), values)
    return spec.cls(**values)


def draw_parameters(params: Iterable[Param], key: Callable[[str], str], values: dict[str, Any]) -> None:
    """Draw the widgets of those parameters that have an effect, and add their values to `values`.

    The value of one may decide if another has an effect, and the other's form, its declaration: λ₁ is a penalty or a
    number of documents. It is drawn before the other. key: returns the session key for a parameter's name
    """
    for param in order_params(params):
        if _is_effective(param, values):
            widget_key, declaration = resolve_form(key(param.name), param, values)
            values[param.name] = draw_parameter(declaration, widget_key)


def count_changed(spec: Spec, key: str) -> int:
    """Count the parameters of a selector or scorer that are not at their default."""
    stage = read_stage(spec, key)
    return sum(getattr(stage, param.name) != param.default for param in spec.params)


def draw_stage_row(
    spec: Spec,
    key: str,
    heading: Callable[[], None],
    extra: tuple[str, Callable[[], None]] | None = None,
    n_extra: int = 0,
    left_out: Collection[str] = (),
) -> Any:
    """Draw the parameters of a selector or scorer in a row; return the selector or scorer with the values.

    Advanced parameters are in a popover. spec: the selector's or scorer's description in the registry; key: prefix of
    the session keys; heading: draws what the row begins with; extra: title of more content of the popover, and the
    function that draws it; n_extra: number of settings in that content which are not at their default; left_out: names
    of parameters that have another control on the page
    """
    extra_title, draw_extra = extra or ("", None)
    widget_keys = {p.name: param_key(spec, key, p.name) for p in spec.params}
    # One value has one control: the other parameters' forms depend on it all the same.
    values: dict[str, Any] = {name: getattr(read_stage(spec, key), name) for name in left_out}
    basic = [param for param in spec.params if not param.advanced and param.name not in left_out]
    hidden = [param for param in spec.params if param.advanced]
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        heading()
        # Without advanced parameters an empty popover would be a dead button.
        if hidden or extra:
            current = {p.name: st.session_state.get(widget_keys[p.name], p.default) for p in hidden}
            # The popover's label counts what is not at its default, as its content is hidden.
            n_changed = n_extra + sum(current[p.name] != p.default and _is_effective(p, current) for p in hidden)
            label = ", ".join(filter(None, [extra_title, "more" if hidden else ""])).capitalize()
            with st.popover(f"{label} ({n_changed})" if n_changed else label, width=POPOVER_WIDTH):
                if draw_extra:
                    draw_extra()
                    if hidden:
                        st.divider()
                _draw_presets(spec, key, widget_keys)
                for param in hidden:
                    if _is_effective(param, values):
                        values[param.name] = draw_parameter(param, widget_keys[param.name])
    for param, column in zip(basic, st.columns(len(basic)) if basic else (), strict=True):
        # The declaration to draw may depend on the parameters drawn before, such as a range in another unit.
        widget_key, declaration = resolve_form(widget_keys[param.name], param, values)
        with column:
            values[param.name] = draw_parameter(declaration, widget_key)
    return spec.cls(**values)


def _draw_presets(spec: Spec, key: str, widget_keys: Mapping[str, str]) -> None:
    """Draw a button for each preset (named values of parameters) of a selector or scorer, which sets them."""
    if not spec.presets:
        return
    with st.container(horizontal=True):
        for name, preset in spec.presets.items():
            text = ", ".join(f"{p.symbol} = {preset[p.name]:g}" for p in spec.params if p.name in preset)
            button_key = param_key(spec, key, name)
            st.button(f"{name}: {text}", key=button_key, on_click=_set_preset, args=(spec, widget_keys, preset))


def _is_effective(param: Param, values: Mapping[str, Any]) -> bool:
    """Return True if a parameter has an effect: it may require a value of another one, as (name, value)."""
    return param.requires is None or values.get(param.requires[0]) == param.requires[1]


def _set_preset(spec: Spec, widget_keys: Mapping[str, str], values: Mapping[str, Any]) -> None:
    """Set the widgets of a selector or scorer to a preset's values, before they are drawn; for a callback."""
    for param in spec.params:
        if param.name in values:
            st.session_state[widget_keys[param.name]] = values[param.name]
            # Beside another parameter's value this one may have another declaration: λ₁ as a number of documents in
            # place of a penalty. Presets are in the plain one, so those other parameters go back to their defaults.
            for variant, _, _ in param.variants:
                st.session_state[widget_keys[variant]] = next(p.default for p in spec.params if p.name == variant)
