"""What screens have in common: the sidebar with the corpus and the question, and the wait until both are there."""

from __future__ import annotations

from typing import TYPE_CHECKING

import streamlit as st

from dashboard import state
from dashboard.parts import wait_for

if TYPE_CHECKING:
    from dashboard.explore.question import Asked


def begin(asking: bool = True) -> tuple[state.Loaded | None, Asked | None]:
    """The corpus and what is asked of it; None for what is not there yet, and the screen says so itself.

    With live feedback on it is the corpus as feedback has made it.

    asking: draw the question's controls.
    """
    with st.sidebar:
        chip = st.container()
    loaded = wait_for(state.source())
    if loaded is None:
        return None, None
    # After the corpus is there: these import torch, and the page has painted by then.
    from dashboard.explore import question
    from dashboard.feedback import switch
    from dashboard.sharing import dialogs, session

    session.arrive(loaded)
    loaded = switch.corpus(loaded, chip)
    asked = None
    with st.sidebar:
        if asking:
            asked = question.ask(loaded)
        dialogs.buttons(loaded, asked)
    session.follow(loaded)
    return loaded, asked
