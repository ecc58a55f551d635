"""The decoders that stand beside the baseline."""

from collections.abc import Mapping

import streamlit as st

from dashboard.session.answers import Answer

MOST_BESIDE = 3
"""Decoders that fit beside each other at 1440 pixels, the baseline among them."""


def pick_beside(answers: Mapping[str, Answer], baseline: str, key: str) -> None:
    """Let a person pick which are shown next to the baseline, where there are more than fit."""
    others = [name for name in answers if name != baseline]
    if len(others) < MOST_BESIDE:
        return
    st.session_state[key] = beside(answers, baseline, key)[1:]
    st.multiselect(
        f"Beside {answers[baseline].title}",
        others,
        max_selections=MOST_BESIDE - 1,
        key=key,
        persist_state="session",
        format_func=lambda name: answers[name].title,
        label_visibility="collapsed",
        placeholder=f"Beside {answers[baseline].title}",
        width=320,
    )


def beside(answers: Mapping[str, Answer], baseline: str, key: str) -> list[str]:
    """The baseline and those shown next to it: what was picked, else the first that fit."""
    others = [name for name in answers if name != baseline]
    if len(others) < MOST_BESIDE:
        return [baseline, *others]
    # What is no longer compared cannot stay picked.
    picked = st.session_state.get(key, others[: MOST_BESIDE - 1])
    return [baseline, *(name for name in others if name in picked)]
