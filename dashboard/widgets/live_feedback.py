"""Live feedback: the header's switch with the log's errors, and its effect on the query, with Undo."""

from collections.abc import Mapping
from typing import Any

import streamlit as st

from dashboard.services import feedback
from dashboard.services.jobs import limit_page_computations
from dashboard.services.source import Loaded
from dashboard.session.answers import Answer, compute_answer
from dashboard.session.query import Question
from dashboard.widgets import confirm, duplicates
from dashboard.widgets.common import draw_corpus_chip
from dashboard.widgets.tables import draw_table, text_column
from engine.errors import FrontierError
from engine.progress import counted, shorten
from engine.views.drift import FEEDBACK_WORDS
from engine.views.names import name_document
from engine.views.sets import BeforeAfter, before_after

MESSAGES_KEY = "live.told"
"""Session key of the messages about a log that could not be used."""
MAX_EFFECT_ROWS = 3
MAX_DOCUMENT_LENGTH = 60


def select_corpus(loaded: Loaded, header: Any) -> Loaded:
    """Return the corpus to work on, as embedded or as moved by feedback; draw the switch between them.

    header: the container for the switch and the corpus's facts. If the log of the feedback cannot be used, the corpus
    is as embedded, and the reason is drawn with the ways out. A corpus in a vector engine (a database) has no switch.
    """
    adapted, error_text, n_learned = loaded, None, None
    if loaded.reach is not None:
        with header:
            draw_corpus_chip(loaded)
        return loaded
    if feedback.is_live():
        try:
            adapted = feedback.adapt_corpus(loaded)
            n_learned = feedback.count_events(loaded)
        except FrontierError as error:
            error_text = error.finding
    with header:
        draw_corpus_chip(adapted, n_learned)
        duplicates.draw_reduction(loaded, "header")
        st.toggle(
            "Apply votes",
            key=feedback.LIVE_KEY,
            persist_state="session",
            help="On: every page works on the documents as votes have moved them. Off: as they were embedded. A "
            "thumb on a document switches it on.",
        )
    # The corpus stays usable as embedded, whatever is wrong with the log.
    if error_text is not None:
        with st.container(gap="small"):
            st.error("The votes on this corpus cannot be used; it is shown as it was embedded.")
            st.text(error_text)
            with st.container(horizontal=True):
                st.button("Keep what still holds", key="live.carry", on_click=_replace_log, args=(loaded, False))
                st.button("Begin anew", key="live.anew", on_click=_replace_log, args=(loaded, True))
            st.caption("Neither deletes anything: the log stays in its folder, under this name or another.")
    if messages := st.session_state.get(MESSAGES_KEY):
        for message in messages:
            st.text(f"⚠ {message}")
        st.button("OK", key="live.ok", on_click=st.session_state.pop, args=(MESSAGES_KEY, None))
    return adapted


def _replace_log(loaded: Loaded, begin_new: bool) -> None:
    """Replace a log of feedback that cannot be used; for a callback.

    begin_new: True to begin an empty log, False to keep the votes that fit the present documents. The replaced file
    stays on disk.
    """
    # An older error would be displayed beside the outcome.
    st.session_state.pop(confirm.ERROR_KEY, None)
    try:
        if begin_new:
            messages = [f"A new log has begun; the other one is {feedback.begin_new_log(loaded)}"]
        else:
            messages = [str(notice) for notice in feedback.carry(loaded)]
        st.session_state[MESSAGES_KEY] = messages
    except FrontierError as error:
        st.session_state[MESSAGES_KEY] = [f"This did not work: {error}"]


def draw_effect(loaded: Loaded, question: Question, answers: Mapping[str, Answer]) -> None:
    """Draw how feedback has changed this query's results, and this person's last vote with Undo.

    answers: decoder's name → its answer, to be compared with the answer before feedback. Draws nothing with live
    feedback off, or if no feedback counts.
    """
    if not feedback.is_live():
        return
    try:
        events = feedback.list_events(loaded)
    except FrontierError:
        return  # the header says why
    if not events:
        return
    # The newest vote of this person: events are in the order in which they were given.
    last = next((event for event in reversed(events) if event.person == feedback.get_person()), None)
    changes = _list_changes(loaded, question, answers)
    with st.container(border=True, key="feedback.effect"):
        vote_column, change_column = st.columns([2, 5], gap="small", vertical_alignment="center")
        with vote_column, st.container(gap="xsmall"):
            st.text(counted(len(events), "vote"))
            if last is not None:
                document = name_document(loaded.space.corpus, last.item)
                st.text(f"Your last: {FEEDBACK_WORDS[last.kind, last.good]}, {shorten(document, MAX_DOCUMENT_LENGTH)}")
                if (change := next((change for change in changes if change.row == last.item), None)) is not None:
                    st.text(_describe_change(change))
                st.button(
                    "Undo",
                    key="feedback.undo",
                    icon=":material/undo:",
                    help="Remove this vote and restore the previous embeddings exactly.",
                    on_click=confirm.take_step,
                    # The default binds the id now: the click undoes the vote that the page has shown.
                    args=(lambda event_id=last.id: feedback.open_or_create_log(loaded).undo(event_id),),
                )
        with change_column:
            if changes:
                _draw_changes(changes, {name: answer.title for name, answer in answers.items()})
            else:
                st.caption("Nothing that this query gets has moved: relevance and order are as embedded.")


def _list_changes(loaded: Loaded, question: Question, answers: Mapping[str, Answer]) -> tuple[BeforeAfter, ...]:
    """Return the documents whose score or rank for a query feedback has changed, with both values."""
    origin = loaded.origin
    # Without adapted vectors both answers are the same object.
    if origin is loaded:
        return ()
    earlier = {name: compute_answer(origin, question, answer.name, answer.decoder) for name, answer in answers.items()}
    with limit_page_computations():
        rankings = {name: (earlier[name].ranking, answer.ranking) for name, answer in answers.items()}
        return before_after(origin.space, loaded.space, question.vector, rankings)


def _describe_change(change: BeforeAfter) -> str:
    """Describe what feedback has done to a document for a query, such as "0.550 → 0.540, still #2".

    Its rank is that of the first decoder; one that is out both then and now has none.
    """
    earlier, later = next(iter(change.ranks.values()))
    scores = f"{change.before:.3f} → {change.after:.3f}"
    if earlier == later:
        return scores if later is None else f"{scores}, still #{later}"
    return (
        f"{scores}, {'out' if later is None else f'#{later}'} instead of {'out' if earlier is None else f'#{earlier}'}"
    )


def _format_rank(rank: int | None) -> str:
    """Format a rank, "–" for a document that is not in the set."""
    return "–" if rank is None else str(rank)


def _draw_changes(changes: tuple[BeforeAfter, ...], titles: Mapping[str, str]) -> None:
    """Draw a table of what feedback has changed for a query: documents' scores, and ranks by each decoder.

    titles: decoder's name → its title, for the columns
    """
    columns = {
        "Document": [change.name for change in changes],
        "Relevance": [f"{change.before:.4f} → {change.after:.4f}" for change in changes],
    }
    for name, title in titles.items():
        ranks = [change.ranks[name] for change in changes]
        columns[title] = [f"{_format_rank(earlier)} → {_format_rank(later)}" for earlier, later in ranks]
    draw_table(
        columns,
        {
            "Document": text_column(240),
            "Relevance": text_column(
                124, "Inner product with the query: as embedded → as votes have moved the document"
            ),
            **{title: text_column(96, "Rank as embedded → now; – for one that is out") for title in titles.values()},
        },
        key="feedback.changes",
        max_rows=MAX_EFFECT_ROWS,
    )
