"""The Explore page: tiles with sliders, and a view of the decoders' sets."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

import streamlit as st

from dashboard.charts.palette import look_of, style_of
from dashboard.components import vendor
from dashboard.explore import checkup, map_view, proof, redundancy, results, weights
from dashboard.services.source import Loaded
from dashboard.session import decoders, link, view_names
from dashboard.session.answers import Answer, build_slider_requests, compute_answer
from dashboard.session.parameters import param_key, resolve_form
from dashboard.session.query import Question, query_key, step_query
from dashboard.widgets import confirm, scorers
from dashboard.widgets.basics import show_failure
from dashboard.widgets.choices import choose, choose_several
from dashboard.widgets.common import as_label, draw_method_heading
from dashboard.widgets.parameters import draw_stage_row
from engine.decoder import Decoder
from engine.errors import DataError, FrontierError, ParamError
from engine.evaluation.paired import describe_guarantee
from engine.params import Param, Real, values_of
from engine.stages import methods
from engine.views import slider

KEY, SERIAL, RELEASED = "explore.tiles", "explore.serial", "explore.released"
"""Session keys: the component of the tiles, the number of the last settings that it reported, and whether this run
follows them."""

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
    released = st.session_state.pop(RELEASED, False)
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
        link.update_address(loaded)


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
    shown, state = decoders.get_decoders(), loaded.state
    baseline = compute_answer(loaded, question, names[0], decoders.make_baseline(question.depth))
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
            show_tiles(loaded, question, answers, baseline, errors, released)
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
        decoders.DECODERS_KEY,
        default=decoders.list_chosen(),
        format_func=lambda n: f"{style_of(n).sign} {specs[n].title}",
        help="\n\n".join(
            [f"Changes are marked against {specs[names[0]].title}."]
            + [f"**{spec.title}** {spec.summary}" for spec in specs.values()]
        ),
    )
    for name in chosen:
        spec = specs[name]
        heading, picker = (
            partial(draw_method_heading, name, spec.title),
            partial(scorers.draw_scorers, spec, loaded.space),
        )
        draw_stage_row(spec, decoders.PARAM_PREFIX, heading, ("scorer", picker), scorers.count_changed_scorers(spec))


def _answer_or_last(
    loaded: Loaded, question: Question, name: str, decoder: Decoder, errors: dict[str, str]
) -> Answer | None:
    """A decoder's answer; where it fails, add why to `errors`, and return its last answer to this query."""
    last: dict[str, tuple[tuple[Any, ...], Answer]] = st.session_state.setdefault("good", {})
    query = (loaded.space.embeddings.digest, loaded.state, question.text, question.k, question.depth)
    try:
        result = compute_answer(loaded, question, name, decoder)
    except FrontierError as error:
        errors[name] = str(error)
        last_query, last_answer = last.get(name, (None, None))
        return last_answer if last_query == query else None
    last[name] = (query, result)
    return result


def show_tiles(
    loaded: Loaded,
    question: Question,
    answers: Mapping[str, Answer],
    baseline: Answer,
    errors: Mapping[str, str],
    released: bool,
) -> None:
    """Draw each decoder's figures and sliders, whose every position is drawn in the browser.

    errors: by decoder, why there is no answer at its setting; the last one stands in for it
    released: whether a slider was let go just now
    """
    given, forms = question.relevant_ids, dict[str, dict[str, tuple[str, Param]]]()
    beside = any(result.decoder == baseline.decoder for result in answers.values())
    data: dict[str, Any] = {
        "query": query_key(loaded, question),
        "k": question.k,
        "judged": len(given) if question.is_judged else 0,
        "serial": st.session_state.get(SERIAL, 0),
        "base": None
        if beside
        else slider.packed_ranking(loaded.space, question.vector, baseline.ranking, relevant=given),
        # Written by the browser: else each value that was tried would be an entry of its history.
        "address": link.preview_address(loaded) if released else None,
        "decoders": [
            {
                **_tile(loaded, question, key, result, forms.setdefault(key, {})),
                "baseline": result.decoder == baseline.decoder,
                "error": errors.get(result.name),
            }
            for key, result in answers.items()
        ],
    }
    # After a drag the browser says in its place what that changed.
    if not released and loaded.reach is None and st.session_state.get(decoders.VIEW_KEY) != view_names.CHECK_UP:
        checked = checkup.at_once(loaded, question.k, question.depth)
        data["headline"] = checked and checked.headline

    def stepped(way: int) -> None:
        if way:
            confirm.take_step(lambda: step_query(loaded, way))
        else:
            st.session_state[decoders.VIEW_KEY] = view_names.CHECK_UP

    vendor.view("tiles", KEY, data, {"committed": partial(_commit, forms), "stepped": stepped})


def _tile(
    loaded: Loaded, question: Question, key: str, result: Answer, forms: dict[str, tuple[str, Param]]
) -> dict[str, Any]:
    """A decoder's figures, and its sliders, each with the address of its answers at every position."""
    stage, values, sliders = result.stage, values_of(result.stage), []
    more = {"relevant": question.relevant_ids, "scores": None if result.relevance is None else result.relevance.score}
    for param in stage.spec.params:
        widget_key, form = resolve_form(param_key(stage.spec, decoders.PARAM_PREFIX, param.name), param, values)
        if not slider.has_slider(form) or (param.requires and values[param.requires[0]] != param.requires[1]):
            continue
        forms[param.name] = widget_key, form
        requests = build_slider_requests(loaded, question, result.decoder, form, **more)
        sliders.append(
            {
                "param": param.name,
                "symbol": form.symbol,
                "help": form.help,
                "value": values[param.name],
                "standard": form.default,
                "linked": isinstance(form, Real) and form.scale == "linear" and form.comfortable_range == (0.0, 1.0),
                "stops": next(reversed(requests.values())).stops,
                "urls": [vendor.offer(digest, request) for digest, request in requests.items()],
            }
        )
    now = slider.packed_ranking(loaded.space, question.vector, result.ranking, **more)
    notes = [describe_guarantee(stage.as_json()), decoders.describe_scorers(result.decoder), now["trust"]]
    return {
        "key": key,
        **look_of(result.name, result.title),
        "note": " · ".join(filter(None, notes)),
        "now": now,
        "sliders": sliders,
    }


def _commit(forms: Mapping[str, Mapping[str, tuple[str, Param]]], told: Mapping[str, Any]) -> None:
    """Set the parameters to what the sliders were let go at; forms: of each slider its widget's key and declaration."""
    st.session_state[RELEASED] = True
    st.session_state[SERIAL] = max(int(told["serial"]), st.session_state.get(SERIAL, 0))
    for name, values in told["values"].items():
        for param, value in values.items():
            if param in forms.get(name, ()):
                widget_key, form = forms[name][param]
                with suppress(ParamError):
                    st.session_state[widget_key] = form.check(value)
