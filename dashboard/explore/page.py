"""The Explore page: tiles with sliders, and a view of the decoders' sets."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import streamlit as st

from dashboard.charts.palette import style_of
from dashboard.explore import checkup, map_view, proof, redundancy, results, tiles, weights
from dashboard.services.source import Loaded
from dashboard.session import decoders, restore, view_names
from dashboard.session.answers import Answer, answer
from dashboard.session.query import Question
from dashboard.widgets import confirm, scorers
from dashboard.widgets.choices import choose, choose_several
from dashboard.widgets.common import as_label, method_heading
from dashboard.widgets.failure import show_failure
from dashboard.widgets.parameters import stage_controls
from engine.decoder import Decoder
from engine.errors import DataError, FrontierError
from engine.stages import methods

STYLE = """<style>
.st-key-explore {gap: .375rem}
.st-key-explore [data-testid=stPopover] button {min-height: 2rem; padding-block: 0}
</style>"""


@dataclass(frozen=True)
class View:
    """A view of the retrieved sets: what draws it, and its options beside the choice of views."""

    show: Callable[[Loaded, Question, dict[str, Answer], str], None]
    options: Callable[[dict[str, Answer], str], None] = lambda *_: None
    whole: bool = False  # whether it needs all documents here


VIEWS = {
    view_names.RESULTS: View(results.show),
    view_names.TABLE: View(results.show_table),
    view_names.MAP: View(map_view.show, map_view.options, whole=True),
    view_names.REDUNDANCY: View(redundancy.show, redundancy.options),
    view_names.WEIGHTS: View(weights.show, whole=True),
    view_names.METRICS: View(results.show_figures),
    view_names.CHECK_UP: View(lambda loaded, question, *_: checkup.show(loaded, question), whole=True),
}


@st.fragment
def show(loaded: Loaded, question: Question) -> None:
    """Draw the main area of Explore."""
    confirm.rerun_if_stale()
    released = st.session_state.pop(tiles.RELEASED, False)
    with st.container(key="explore"):
        st.html(STYLE)
        try:
            _compare(loaded, question, released)
        except DataError as error:
            if loaded.reach is None:
                raise
            show_failure(f"{as_label(loaded.source.name)} does not answer.", error)
            st.button("Try again", key="explore.again")
    if not released:
        restore.follow(loaded)


def _compare(loaded: Loaded, question: Question, released: bool) -> None:
    top, bar, below = st.container(), st.container(horizontal=True, vertical_alignment="center"), st.container()
    specs = methods("selector")
    names = list(specs)
    views = VIEWS if loaded.reach is None else {name: view for name, view in VIEWS.items() if not view.whole}
    with bar:
        view = views[choose("View", views, "view")]
        options = st.container(horizontal=True, vertical_alignment="center", width="stretch")
        settings = st.popover(
            "Decoders and settings", icon=":material/tune:", width="content", key="explore.settings", on_change="rerun"
        )
        if settings.open:
            with settings:
                _settings(loaded)
    shown, state = decoders.decoders(), loaded.state
    baseline = answer(loaded, question, names[0], decoders.baseline(question.depth))
    answers: dict[str, Answer] = {}
    errors: dict[str, str] = {}
    for name, decoder in shown.items():
        result = _answer_or_last(loaded, question, name, decoder, errors)
        if result is not None:
            # The first selector behind other scorers is not the baseline, and stands beside it.
            own = name == baseline.name and result.decoder != baseline.decoder
            answers[f"{name}.own" if own else name] = result
    if loaded.state != state:
        st.rerun()  # the engine's documents changed meanwhile: earlier answers are about others
    loaded = loaded.as_answered()
    with top:
        if not shown:
            st.info("Choose a decoder to see what it retrieves: Decoders and settings, at the right.")
        for name, error in errors.items():
            show_failure(f"{specs[name].title}: no answer at this setting.", error)
        if answers:
            tiles.show(loaded, question, answers, baseline, errors, released)
            proof.offer(loaded, question, answers)
    with options:
        view.options({names[0]: baseline} | answers, names[0])
    with below:
        view.show(loaded, question, {names[0]: baseline} | answers, names[0])
        if question.depth is not None and question.depth < question.k:
            st.caption(f"The pool of {question.depth} is smaller than k, {question.k}: no decoder can return more.")


def _settings(loaded: Loaded) -> None:
    """Draw the choice of decoders, and all their parameters and scorers."""
    specs = methods("selector")
    names = list(specs)
    chosen = choose_several(
        "Decoders",
        names,
        decoders.DECODERS,
        default=decoders.chosen(),
        format_func=lambda n: f"{style_of(n).sign} {specs[n].title}",
        help="\n\n".join(
            [f"Changes are marked against {specs[names[0]].title}."]
            + [f"**{spec.title}** {spec.summary}" for spec in specs.values()]
        ),
    )
    for name in chosen:
        spec = specs[name]
        heading, picker = partial(method_heading, name, spec.title), partial(scorers.picker, spec, loaded.space)
        stage_controls(spec, decoders.PREFIX, heading, ("scorer", picker), scorers.changed(spec))


def _answer_or_last(
    loaded: Loaded, question: Question, name: str, decoder: Decoder, errors: dict[str, str]
) -> Answer | None:
    """A decoder's answer; where it fails, add why to `errors`, and return its last answer to this query."""
    last: dict[str, tuple[tuple[Any, ...], Answer]] = st.session_state.setdefault("good", {})
    query = (loaded.space.embeddings.digest, loaded.state, question.text, question.k, question.depth)
    try:
        result = answer(loaded, question, name, decoder)
    except FrontierError as error:
        errors[name] = str(error)
        last_query, last_answer = last.get(name, (None, None))
        return last_answer if last_query == query else None
    last[name] = (query, result)
    return result
