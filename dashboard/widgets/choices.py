"""A control of which one option is always chosen."""

from collections.abc import Callable, Iterable
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
