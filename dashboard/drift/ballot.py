"""Votes on the query's first results, right on the Drift page, and where these results lie on the map."""

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import streamlit as st

from dashboard.charts.map import Marks, build_arrows, build_set_traces
from dashboard.components.live_plot import is_dark, plot
from dashboard.services import feedback
from dashboard.services.source import Loaded
from dashboard.session import decoders
from dashboard.session.answers import Answer, compute_answer
from dashboard.session.query import Question
from dashboard.widgets import confirm, vote_buttons
from dashboard.widgets.map import MAP_WAYS, build_backdrop, get_map, place_query
from engine.feedback.policy import VoteKind
from engine.maps.layout import find_positions
from engine.progress import shorten
from engine.stages import methods
from engine.views.names import name_document
from engine.wording import visible

N_RESULTS = 3
"""Results that can be voted on: the arrows of a few are told apart."""
MAX_NAME_LENGTH, MAX_QUERY_LENGTH = 40, 120
BALLOT_CSS = """<style>
.st-key-ballot-grey [data-testid=stText] {opacity: .66}
</style>"""
"""Until the first vote the results are grey: they are an offer."""


def draw_first_votes(loaded: Loaded, question: Question) -> None:
    """Draw what a corpus without feedback offers: the query's first results to vote on, and the map beside them."""
    ballot_column, map_column = st.columns([2, 3], gap="medium")
    with ballot_column:
        st.info("No votes yet. Vote here: the document moves on the map.", icon=":material/thumbs_up_down:")
        draw_ballot(loaded, question, is_offer=True)
    with map_column:
        _draw_results_map(loaded, question)


def draw_ballot(loaded: Loaded, question: Question, is_offer: bool = False) -> None:
    """Draw the query's first results, as embedded, with this person's votes and what feedback did to scores and ranks.

    is_offer: True before the first vote, until which they are grey. Another order would move a document away from under
    the button that has just been pressed.
    """
    rows, adapted = _find_results(loaded, question).ranking.rows(), feedback.adapt_corpus(loaded)
    first_rows, rows_now = rows[:N_RESULTS], _find_results(adapted, question).ranking.rows()
    vectors_now = adapted.space.matrix.on_cpu
    scores, scores_now = (
        (vectors[first_rows] @ question.vector).tolist() for vectors in (loaded.space.matrix.on_cpu, vectors_now)
    )
    own_votes = vote_buttons.find_own_votes(loaded, question)
    feedback.prepare_session(loaded)
    st.text(shorten(visible(question.text), MAX_QUERY_LENGTH))
    with st.container(key="ballot-grey" if is_offer else "ballot", gap="xxsmall"):
        st.html(BALLOT_CSS)
        for rank, (row, score, score_now) in enumerate(zip(first_rows, scores, scores_now, strict=True), 1):
            then, now = f"{score:.3f}", f"{score_now:.3f}"
            name = shorten(name_document(loaded.space.corpus, row), MAX_NAME_LENGTH)
            with st.container(horizontal=True, vertical_alignment="center", gap="xsmall"):
                # The score below the name leaves a phone room for the buttons.
                with st.container(width="stretch", gap=None):
                    st.text(f"{_format_rank(row, rank, rows_now)}  {name}")
                    st.caption(then if then == now else f"{then} → {now}")
                with st.container(horizontal=True, gap="xsmall", width="content"):
                    for kind in (vote_buttons.UP, vote_buttons.DOWN):
                        step = vote_buttons.vote_step(loaded, question, row, kind, rows)
                        _draw_thumb(kind, rank, (row, kind) in own_votes, step)


def _format_rank(row: int, first_rank: int, rows_now: Sequence[int]) -> str:
    """Format a result's present rank, "2 (was 1)" or "below 10 (was 1)"; first_rank: that as embedded."""
    ranks_now = {row_now: rank for rank, row_now in enumerate(rows_now, 1)}
    rank_text = str(ranks_now.get(row, f"below {len(rows_now)}"))
    return rank_text if rank_text == str(first_rank) else f"{rank_text} (was {first_rank})"


def _draw_thumb(kind: VoteKind, rank: int, is_given: bool, step: Callable[[], None]) -> None:
    """Draw the button of one kind of vote on a result; step: gives the vote or takes it back."""
    label, icon = vote_buttons.VOTE_LABELS[kind]
    st.button(
        "",
        icon=icon,
        key=f"ballot.{kind}.{rank}",
        type="primary" if is_given else "secondary",
        help=f"{label}. {vote_buttons.VOTE_HELP[kind]} Click again to take it back.",
        on_click=confirm.take_step,
        args=(step,),
    )


def _find_results(loaded: Loaded, question: Question) -> Answer:
    """Return the baseline's answer to the query on the documents of a corpus, as embedded or as votes moved them."""
    name = next(iter(methods("selector")))
    return compute_answer(loaded, question, name, decoders.follow_self_rule(decoders.make_baseline(question.depth)))


def _draw_results_map(loaded: Loaded, question: Question) -> None:
    """Draw the map of the corpus with the query and the results that can be voted on."""
    corpus_map = get_map(loaded, next(iter(MAP_WAYS.values())))
    if corpus_map is None:
        return
    answer, layout, dark = _find_results(loaded, question), corpus_map.layout, is_dark()
    rows = answer.ranking.rows()[:N_RESULTS]
    no_arrows: dict[str, list[float]] = {name: [] for name in ("row", "x0", "y0", "x1", "y1")}
    figure = build_arrows(no_arrows, [], layout.points, place_query(loaded.space, question, layout), dark)
    positions = np.asarray(find_positions(layout, loaded.space, rows), dtype=float)
    marks = Marks(positions, list(map(str, rows)), list(map(partial(name_document, loaded.space.corpus), rows)))
    figure["data"] += build_set_traces([(answer.name, answer.title, marks)], None, None, dark)
    figure["layout"]["uirevision"] = layout.digest
    # The key of the map with arrows: after the first vote it is the same chart, zoomed as it was.
    key, backdrop = f"drift.map.{loaded.space.embeddings.digest[:12]}", build_backdrop(loaded, corpus_map, dark)
    plot(figure, key, backdrop=backdrop, scroll=True, file="drift-map", label="Where documents are")
