"""The choice of several decoders: pills in the colours and with the symbols that they have on tiles and charts."""

from collections.abc import Mapping, Sequence

import streamlit as st

from dashboard.charts.palette import method_style
from dashboard.widgets.choices import choose_several


def choose_decoders(
    label: str,
    titles: Mapping[str, str],
    key: str,
    *,
    methods: Mapping[str, str] | None = None,
    default: Sequence[str] | None = None,
    show_label: bool = True,
    help: str | None = None,
) -> list[str]:
    """Draw pills of decoders; return the names of the chosen ones, by default all, in the order of the titles.

    titles: name → title of each decoder; key: of the choice in the session; methods: name → the selector whose colour
    it has, by default the one of this name; default: the first choice; help: the tooltip
    """
    selectors = {name: name if methods is None else methods[name] for name in titles}
    st.html(_format_style(key, list(selectors.values())))
    return choose_several(
        label,
        titles,
        key,
        default=default,
        show_label=show_label,
        format_func=lambda name: f"{method_style(selectors[name]).sign} {titles[name]}",
        help=help,
    )


def _format_style(key: str, selectors: Sequence[str]) -> str:
    """Return the style of chosen pills, each in its selector's colour."""
    rules = []
    for number, name in enumerate(selectors, start=1):
        style = method_style(name)
        colour = f"light-dark({style.light}, {style.dark})"
        # Pale colours are no text: the symbol and the title keep that of the page.
        tint = f"color-mix(in srgb, {colour} 16%, transparent)"
        pill = f".st-key-{key.replace('.', '-')} button:nth-of-type({number})[aria-pressed=true]"
        rules.append(f"{pill} {{border-color: {colour}; background: {tint}; color: inherit}}")
    return f"<style>{' '.join(rules)}</style>"
