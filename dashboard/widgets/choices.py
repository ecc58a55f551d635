"""Controls that choose among options: side by side one or several, or one of a list."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import streamlit as st

V = TypeVar("V")


def choose(
    label: str,
    options: Iterable[V],
    key: str,
    *,
    default: V | None = None,
    named: bool = False,
    persist: bool = True,
    format_func: Callable[[Any], str] = str,
    help: str | None = None,
) -> V:
    """Draw the options side by side; returns the chosen one, at first `default`, or else the first option.

    named: show the label above; persist: keep the choice while other pages are drawn.
    """
    values = list(options)
    first = values[0] if default is None else default
    chosen = st.segmented_control(
        label,
        values,
        default=first,
        required=True,
        key=key,
        persist_state="session" if persist else None,
        format_func=format_func,
        help=help,
        label_visibility="visible" if named else "collapsed",
    )
    # What was chosen among other options may not be one of these.
    return chosen if chosen in values else first


def choose_several(
    label: str,
    options: Iterable[V],
    key: str,
    *,
    default: Sequence[V] | None = None,
    named: bool = True,
    format_func: Callable[[Any], str] = str,
    help: str | None = None,
) -> list[V]:
    """Draw the options side by side; returns those chosen, in the options' order; default: at first, by default all."""
    values = list(options)
    chosen = st.pills(
        label,
        values,
        selection_mode="multi",
        default=values if default is None else default,
        key=key,
        persist_state="session",
        format_func=format_func,
        help=help,
        label_visibility="visible" if named else "collapsed",
    )
    return [value for value in values if value in (chosen or ())]


def select(label: str, options: Iterable[V], key: str, *, default: Any = None, place: Any = st, **how: Any) -> V:
    """Draw a list; returns the chosen option, which is kept while other pages are drawn.

    default: chosen at first, where it is among the options, else the first one
    place: the container, by default the current one
    how: options of `st.selectbox`
    """
    values = list(options)
    first = values.index(default) if default in values else 0
    chosen: V = place.selectbox(label, values, first, key=key, persist_state="session", **how)
    return chosen
