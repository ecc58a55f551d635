"""Vote buttons of the open document: thumbs and the correct answer."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import streamlit as st

from dashboard.services import feedback
from dashboard.services.source import Loaded
from dashboard.session.answers import Answer, as_embeddings
from dashboard.session.query import Question
from dashboard.widgets import confirm
from engine import feedback as orag
from engine.errors import FrontierError
from engine.feedback.policy import VoteKind, find_votes

UP: VoteKind = "up"
DOWN: VoteKind = "down"
RIGHT: VoteKind = "right"
VOTE_LABELS = {
    UP: ("More like this", ":material/thumb_up:"),
    DOWN: ("Less like this", ":material/thumb_down:"),
    RIGHT: ("Correct answer", ":material/check_circle:"),
}
VOTE_HELP = {
    UP: "Moves the document towards this query, so that it ranks higher.",
    DOWN: "Moves the document away from this query, so that it ranks lower.",
    RIGHT: "Moves the document towards this query, and the others of its list away from it.",
}
NO_LIST_HELP = "No list shown here has it. You can still vote it up or down."


def draw_vote_buttons(loaded: Loaded, question: Question, row: int, answers: Mapping[str, Answer], source: str) -> None:
    """Draw the buttons that vote on a document for the query; pressing one again takes the vote back.

    row: of the document in the corpus; answers: the decoders' answers on the page, by name; source: the decoder from
    whose set the document was opened, "" for none
    """
    feedback.prepare_session(loaded)
    listed = find_list(row, list_rankings(answers), source)
    own_votes = find_own_votes(loaded, question)
    with st.container(horizontal=True, gap="xsmall", horizontal_alignment="left", key="votes"):
        for kind, (label, icon) in VOTE_LABELS.items():
            # The correct answer pushes the rest of its list away, so it needs a list.
            has_no_list = kind == RIGHT and not listed
            st.button(
                label,
                icon=icon,
                key=f"vote.{kind}",
                type="primary" if (row, kind) in own_votes else "secondary",
                disabled=has_no_list,
                help=NO_LIST_HELP if has_no_list else f"{VOTE_HELP[kind]} Click again to take it back.",
                on_click=confirm.take_step,
                args=(vote_step(loaded, question, row, kind, listed),),
            )


def vote_step(loaded: Loaded, question: Question, row: int, kind: VoteKind, rows: Sequence[int]) -> Callable[[], None]:
    """Return a button's function, which gives this person's vote on a document or takes it back.

    row: of the document; kind: "up", "down" or "right"; rows: the list in which the document was seen, () for none
    """
    return partial(feedback.toggle_vote, loaded, as_embeddings(loaded, question), row, kind, rows)


def find_own_votes(loaded: Loaded, question: Question) -> dict[tuple[int, VoteKind], str]:
    """Return this person's votes on a query: (row of the document, kind) → id in the log of feedback.

    kind: "up", "down" or "right"; {} if they cannot be read
    """
    try:
        # With live feedback on, the page has looked at the file already.
        events = feedback.list_events(loaded) if feedback.is_live() else feedback.session(loaded).effective_events
        return find_votes(events, orag.Query(question.vector.numpy(), question.text), feedback.get_person())
    except FrontierError:
        return {}  # the header says why, and a vote would


def list_rankings(answers: Mapping[str, Answer]) -> dict[str, tuple[int, ...]]:
    """Return the row indices of each decoder's list."""
    return {name: tuple(answer.ranking.rows()) for name, answer in answers.items()}


def find_list(row_index: int, lists: Mapping[str, tuple[int, ...]], source: str) -> tuple[int, ...]:
    """Return the decoder's list (rows of the corpus) that contains a document; () if none does.

    lists: decoder's name → its list; source: the decoder whose list is preferred
    """
    # False sorts first: the list that was clicked, then the others in their order.
    order = sorted(lists, key=lambda name: name != source)
    return next((lists[name] for name in order if row_index in lists[name]), ())
