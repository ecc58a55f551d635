"""Controls that choose among options: side by side, one or several, or one of a list."""

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
    show_label: bool = False,
    persist: bool = True,
    format_func: Callable[[Any], str] = str,
    help: str | None = None,
    on_change: Callable[[], None] | None = None,
) -> V:
    """Draw the options side by side; return the chosen one.

    Parameters
    ----------
    label : str
        The name of the choice, for screen readers too.
    options : iterable
        The options in order, at least one.
    key : str
        The session key of the choice.
    default : optional
        The first choice; the first option by default.
    show_label : bool
        Show the label above the options.
    persist : bool
        Keep the choice while other pages are drawn.
    format_func : callable
        Returns the text of an option.
    help : str or None
        The text of the tooltip.
    on_change : callable or None
        Called after another choice, before the page is drawn.

    Returns
    -------
    The chosen option.
    """
    choices = list(options)
    first_choice = choices[0] if default is None else default
    choice = st.segmented_control(
        label,
        choices,
        default=first_choice,
        required=True,
        key=key,
        persist_state="session" if persist else None,
        format_func=format_func,
        help=help,
        on_change=on_change,
        label_visibility="visible" if show_label else "collapsed",
    )
    # A choice made among other options may not be one of these.
    return choice if choice in choices else first_choice


def choose_several(
    label: str,
    options: Iterable[V],
    key: str,
    *,
    default: Sequence[V] | None = None,
    show_label: bool = True,
    format_func: Callable[[Any], str] = str,
    help: str | None = None,
) -> list[V]:
    """Draw the options side by side; return the chosen ones in the options' order, by default all.

    key: of the choice in the session, where it is kept while other pages are drawn; default: the first choice;
    format_func: returns an option's text; help: the tooltip
    """
    choices = list(options)
    selected = st.pills(
        label,
        choices,
        selection_mode="multi",
        default=choices if default is None else default,
        key=key,
        persist_state="session",
        format_func=format_func,
        help=help,
        label_visibility="visible" if show_label else "collapsed",
    )
    return [value for value in choices if value in (selected or ())]


def select(label: str, options: Iterable[V], key: str, *, default: Any = None, container: Any = st, **how: Any) -> V:
    """Draw a list; return the chosen option, which is kept while other pages are drawn.

    Parameters
    ----------
    label : str
        The name of the list.
    options : iterable
        The options in order, at least one.
    key : str
        The session key of the choice.
    default : optional
        The first choice; the first option if it is not among the options.
    container : optional
        The container to draw in; the current one by default.
    **how
        Further options of `st.selectbox`.

    Returns
    -------
    The chosen option.
    """
    choices = list(options)
    first_index = choices.index(default) if default in choices else 0
    choice: V = container.selectbox(label, choices, first_index, key=key, persist_state="session", **how)
    return choice
