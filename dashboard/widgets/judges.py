"""Choice of whose judgements count: people's, or a model's too, which people's correct."""

from typing import Any

import streamlit as st

from dashboard.services.model_grades import list_judges, pair_with_people
from dashboard.services.source import Loaded
from dashboard.session import restore
from dashboard.widgets.basics import show_failure
from engine.errors import FrontierError
from engine.judging.corrected import PairedJudgements
from engine.progress import counted
from engine.wording import visible

JUDGES_HELP = (
    "A model's grades of more queries (Data, Judge) narrow the intervals. What it gets wrong is estimated on the "
    "queries that people graded wholly, and taken out."
)


def draw_judges(loaded: Loaded, split: str, key: str, container: Any = st) -> PairedJudgements | None:
    """Draw the choice of judges; return people's and the model's judgements, None for people's alone.

    Nothing is drawn if no model has graded documents of the corpus. split: whose judgements count; key: of the choice
    in the session, the name of a model or "" for people alone
    """
    names = list_judges(loaded)
    # A link may name a model whose grades are on another machine.
    restore.check_setting(key, lambda name: not name or name in names, "people's judgements alone count")
    if not names:
        return None
    # The choice may be of another corpus, whose models are others.
    if st.session_state.get(key) not in names:
        st.session_state[key] = ""
    judge: str = container.selectbox(
        "Judges",
        ["", *names],
        key=key,
        persist_state="session",
        format_func=lambda name: visible(f"People and {name}") if name else "People",
        help=JUDGES_HELP,
    )
    if not judge:
        return None
    try:
        return pair_with_people(loaded, judge, split)
    except FrontierError as error:
        with container.container():
            show_failure("People's judgements alone count.", error)
        return None


def describe_unused(loaded: Loaded, key: str) -> str:
    """Describe which models graded documents of the corpus, if the choice `key` is people alone; "" for none."""
    names = () if st.session_state.get(key) else list_judges(loaded)
    return visible(f"{' and '.join(names)} graded queries of this corpus too: Setup, Judges.") if names else ""


def describe_judges(paired: PairedJudgements) -> str:
    """Describe whose judgements are used, on how many queries they do not count, and how far they agree."""
    n_people, n_model = len(paired.people.grades), len(paired.model.grades)
    left_out = f"Not counted: {counted(paired.n_left_out, 'other query', 'other queries')} that people judged. "
    return visible(
        f"{paired.judge} graded {counted(n_model, 'query', 'queries')}; the {n_people:,} of them that people graded "
        f"wholly after it correct it. {left_out if paired.n_left_out else ''}{paired.agreement.sentence}"
    )
