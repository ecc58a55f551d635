"""The Explore page: tiles with sliders, and a view of the decoders' sets."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from dashboard.components import tile_data, vendor
from dashboard.explore import checkup, map_view, proof, redundancy, results, weights
from dashboard.services.source import Loaded
from dashboard.session import decoders, link, view_names
from dashboard.session.answers import Answer, build_slider_requests, compute_answer, find_floor
from dashboard.session.duplicates import get_threshold
from dashboard.session.parameters import param_key, resolve_form
from dashboard.session.query import Question, find_position, query_key, select_position
from dashboard.widgets import confirm, scorers
from dashboard.widgets.basics import reserve_place, show_failure
from dashboard.widgets.choices import choose
from dashboard.widgets.common import as_label, draw_method_heading
from dashboard.widgets.decoder_pills import choose_decoders
from dashboard.widgets.parameters import draw_stage_row
from engine.decoder import Decoder
from engine.errors import DataError, FrontierError, ParamError
from engine.params import Param, values_of
from engine.stages import methods
from engine.views import slider

TILES_KEY, SERIAL_KEY = "explore.tiles", "explore.serial"
"""Session keys: the tiles' component, and the number of its last report."""

EXPLORE_CSS = """<style>
.st-key-explore {gap: .375rem}
.st-key-explore [data-testid=stPopover] button {min-height: 2rem; padding-block: 0}
@media (max-width: 640px) {
  .st-key-view {width: 100%; overflow-x: auto}
  .st-key-view [role=radiogroup] {flex-wrap: nowrap !important; width: 100%}
  .st-key-view button {flex: 1 0 auto; min-width: 0; padding-inline: .25rem; font-size: .8125rem}
}
</style>"""


@dataclass(frozen=True)
class View:
    """View of the retrieved sets on Explore: the function that draws it, and the one for its options."""

    draw: Callable[[Loaded, Question, dict[str, Answer], str], None]
    draw_options: Callable[[dict[str, Answer], str], None] = lambda *_: None
    needs_documents: bool = False  # True if it needs all documents here
    is_of_query: bool = True  # False if it shows all queries, without a tile of the current one for each decoder


VIEWS = {
    view_names.RESULTS: View(results.draw_results, results.draw_options),
    view_names.MAP: View(map_view.draw_map_view, map_view.draw_options, needs_documents=True),
    view_names.REDUNDANCY: View(redundancy.draw_redundancy, redundancy.draw_options),
    view_names.WEIGHTS: View(weights.draw_weights, needs_documents=True),
    view_names.CHECK_UP: View(checkup.draw_check_up, needs_documents=True, is_of_query=False),
}


@st.fragment
def draw_explore(loaded: Loaded, question: Question) -> None:
    """Draw the Explore page: each decoder's results for the question, and the chosen view of them."""
    confirm.rerun_if_stale()
    # True in the one run after a slider of a tile was released; `_commit_sliders` sets it.
    is_released = st.session_state.pop(link.RELEASED_KEY, False)
    with st.container(key="explore"):
        st.html(EXPLORE_CSS)
        try:
            _draw_answers(loaded, question, is_released)
        except DataError as error:
            # Only a vector engine can fail to answer: other data errors are for the page around this one.
            if loaded.reach is None:
                raise
            show_failure(f"{as_label(loaded.source.name)} does not answer.", error)
            st.button("Try again", key="explore.again")
    # After a drag the browser writes the address itself.
    if not is_released:
        link.update_address(loaded)


def _draw_answers(loaded: Loaded, question: Question, is_released: bool) -> None:
    """Compute and draw the answers of all chosen decoders: a tile for each, and the chosen view below.

    A tile is a small card with a decoder's metrics and sliders; a view, such as the map, is of all answers.
    is_released: True in the run just after a slider was released
    """
    tiles_area = st.container()
    bar, below = st.container(horizontal=True, vertical_alignment="center"), st.container()
    specs = methods("selector")
    names = list(specs)
    # A vector engine keeps the documents, so views that need all of them here are left out.
    views = VIEWS if loaded.reach is None else {name: view for name, view in VIEWS.items() if not view.needs_documents}
    with bar:
        view_name = choose("View", views, "view")
        view = views[view_name]
        with st.container(horizontal=True, vertical_alignment="center", width="stretch"):
            option_area = reserve_place(views, view_name, horizontal=True, vertical_alignment="center")
        look: Any = {"icon": ":material/tune:", "width": "content"}
        settings = st.popover("Decoders and settings", key="explore.settings", on_change="rerun", **look)
        # The rows follow the answers: a tile has the sliders of its decoder, and not every decoder gets one.
        rows_area = _draw_choice(settings) if settings.open else None
    with below:
        view_area = reserve_place(views, view_name)
    # Tiles would be of one query, and have a second slider for each λ.
    tiles = tiles_area.container() if view.is_of_query else tiles_area.empty()
    if not view.is_of_query:
        _draw_settings(loaded, rows_area, {})
        with view_area:
            view.draw(loaded, question, {}, "")
        return
    # `state` changes when answers bring new documents from a vector engine.
    chosen, state = decoders.get_decoders(), loaded.state
    # The baseline is the first selector with the default scorers, always computed for comparison.
    baseline_decoder = decoders.follow_self_rule(decoders.make_baseline(question.depth))
    baseline = compute_answer(loaded, question, names[0], baseline_decoder)
    answers: dict[str, Answer] = {}
    errors: dict[str, str] = {}
    for name, decoder in chosen.items():
        result = _answer_or_last(loaded, question, name, decoder, errors)
        if result is not None:
            # The first selector with other scorers is not the baseline, and gets its own tile.
            is_second = name == baseline.name and result.decoder != baseline.decoder
            answers[f"{name}.own" if is_second else name] = result
    if loaded.state != state:
        st.rerun()  # the engine's documents changed meanwhile: earlier answers are about others
    loaded = loaded.as_answered()
    with tiles:
        if not chosen:
            st.info("Choose a decoder to see what it retrieves: Decoders and settings, at the right.")
        for name, error in errors.items():
            show_failure(f"{specs[name].title}: no answer at this setting.", error)
        if answers:
            draw_tiles(loaded, question, answers, baseline, errors, is_released)
            proof.draw_proofs(loaded, question, answers)
    _draw_settings(loaded, rows_area, answers)
    answers_and_baseline = {baseline.name: baseline} | answers
    with option_area:
        view.draw_options(answers_and_baseline, baseline.name)
    with view_area:
        view.draw(loaded, question, answers_and_baseline, baseline.name)
        if question.depth is not None and question.depth < question.k:
            st.caption(f"The pool of {question.depth} is smaller than k, {question.k}: no decoder can return more.")


def _draw_choice(settings: DeltaGenerator) -> DeltaGenerator:
    """Draw the popover's choice of decoders; return the place below it."""
    specs = methods("selector")
    intro = f"Changes are marked against {next(iter(specs.values())).title}."
    with settings:
        choose_decoders(
            "Decoders",
            {name: spec.title for name, spec in specs.items()},
            decoders.DECODERS_KEY,
            default=decoders.list_chosen(),
            help="\n\n".join([intro, *(f"**{spec.title}** {spec.summary}" for spec in specs.values())]),
        )
        return st.container()


def _draw_settings(loaded: Loaded, rows_area: DeltaGenerator | None, answers: Mapping[str, Answer]) -> None:
    """Draw the parameters and scorers of each chosen decoder, but for those that its tile has sliders for.

    rows_area: where, None while the popover is closed; answers: those that have a tile
    """
    if rows_area is None:
        return
    specs, sliders = methods("selector"), {}
    for answer in answers.values():
        sliders[answer.name] = tile_data.list_sliders(answer.stage)
    symbols = dict.fromkeys(form.symbol for forms in sliders.values() for _, form in forms)
    with rows_area:
        if symbols:
            st.caption(f"{', '.join(symbols)}: by the sliders of the tiles.")
        for name in decoders.list_chosen():
            spec, left_out = specs[name], {param.name for param, _ in sliders.get(name, ())}
            heading = partial(draw_method_heading, name, spec.title)
            # Called inside the row's popover, which has the scorers too.
            extra, n_changed = partial(scorers.draw_scorers, spec, loaded.space), scorers.count_changed_scorers(spec)
            draw_stage_row(spec, decoders.PARAM_PREFIX, heading, ("scorer", extra), n_changed, left_out)


def _answer_or_last(
    loaded: Loaded, question: Question, method_name: str, decoder: Decoder, errors: dict[str, str]
) -> Answer | None:
    """Return a decoder's answer to the question; if it fails, its last answer, and the reason in `errors`.

    None if the last answer was to another question. errors: method → reason, filled here
    """
    last_answers: dict[str, tuple[tuple[Any, ...], Answer]] = st.session_state.setdefault("good", {})
    query_parts = (loaded.space.embeddings.digest, loaded.state, question.text, question.k, question.depth)
    try:
        result = compute_answer(loaded, question, method_name, decoder)
    except FrontierError as error:
        errors[method_name] = error.finding
        # The last answer is only shown for the same query on the same documents.
        last_query, last_answer = last_answers.get(method_name, (None, None))
        return last_answer if last_query == query_parts else None
    last_answers[method_name] = (query_parts, result)
    return result


def draw_tiles(
    loaded: Loaded,
    question: Question,
    answers: Mapping[str, Answer],
    baseline: Answer,
    errors: Mapping[str, str],
    is_released: bool,
) -> None:
    """Draw a tile (a small card) for each decoder: metrics, and sliders that the browser answers at once.

    baseline: the answer with which the others are compared; errors: selector → the reason for no answer at its setting;
    its last answer is drawn instead; is_released: True in the run just after a slider was released
    """
    relevant_ids = question.relevant_ids
    # Tile → parameter → (widget key, declaration), filled while the tiles are built: what a released slider sets.
    sliders: dict[str, dict[str, tuple[str, Param]]] = {}
    # Without a tile of its own, the baseline is packed for the comparison with the others.
    has_baseline = any(result.decoder == baseline.decoder for result in answers.values())
    base = None
    if not has_baseline:
        rules: dict[str, Any] = {"relevant": relevant_ids, "duplicate_threshold": get_threshold(loaded)}
        base = slider.pack_ranking(loaded.space, question.vector, baseline.ranking, **rules)
    tiles = []
    for key, result in answers.items():
        is_baseline = result.decoder == baseline.decoder
        tile = _build_tile(loaded, question, key, result, sliders.setdefault(key, {}), is_baseline)
        tiles.append(tile | {"error": errors.get(result.name)})
    n_relevant = len(relevant_ids) if question.is_judged else 0
    floor = find_floor(loaded, question)
    data = tile_data.build_tiles(query_key(loaded, question), question.k, n_relevant, tiles, base=base, floor=floor)
    data["serial"] = st.session_state.get(SERIAL_KEY, 0)
    data["position"] = find_position(loaded)
    data["touched"] = st.session_state.get(decoders.TOUCHED_KEY)
    # The browser writes it: otherwise each tried value would be an entry of its history.
    data["address"] = link.preview_address(loaded) if is_released else None
    data["hasWall"] = loaded.reach is None
    # After a drag the browser displays the change in place of the headline.
    if not is_released and loaded.reach is None:
        check_up = checkup.find_check_up(loaded, question.k, question.depth)
        # None if the check-up still needs a job, or over a query that its sentence is not about.
        is_worst = check_up is not None and check_up.worst_id in (question.id, question.document)
        data["headline"] = check_up.open_headlines if check_up is not None and is_worst else None

    def open_check_up(_: int) -> None:
        """Open the check-up of all queries."""
        # Documents of a vector engine are not here to be compared, so there is no check-up of them.
        if loaded.reach is None:
            st.session_state[decoders.VIEW_KEY] = view_names.CHECK_UP

    handlers: dict[str, Callable[[Any], None]] = {
        "committed": partial(_commit_sliders, sliders),
        "position": partial(_open_query, loaded),
        "stepped": open_check_up,
    }
    vendor.draw_view("tiles", TILES_KEY, data, handlers)


def _open_query(loaded: Loaded, message: Sequence[int]) -> None:
    """Go to the labelled query at a position; for a callback.

    message: the position, beyond either end of the list too, and a number by which two messages differ
    """
    confirm.take_step(lambda: select_position(loaded, int(message[0])))


def _build_tile(
    loaded: Loaded,
    question: Question,
    key: str,
    result: Answer,
    slider_params: dict[str, tuple[str, Param]],
    is_baseline: bool,
) -> dict[str, Any]:
    """Build the data of a decoder's tile as a dict for the browser, with its sliders.

    Each slider has addresses at which the browser finds the answers for all its positions. key: of the tile;
    slider_params: parameter → (widget key, declaration), filled here for each slider; is_baseline: True for the one
    that the others are compared with
    """
    stage, values, sliders = result.stage, values_of(result.stage), []
    extra: dict[str, Any] = {"relevant": question.relevant_ids, "duplicate_threshold": get_threshold(loaded)}
    extra["scores"] = None if result.relevance is None else result.relevance.score
    for param, form in tile_data.list_sliders(stage):
        widget_key, _ = resolve_form(param_key(stage.spec, decoders.PARAM_PREFIX, param.name), param, values)
        slider_params[param.name] = widget_key, form
        requests = build_slider_requests(loaded, question, result.decoder, form, result.seconds, **extra)
        urls = [vendor.serve_answer(digest, request) for digest, request in requests.items()]
        # The last request is the one for all positions.
        stops = next(reversed(requests.values())).stops
        sliders.append(tile_data.build_slider(param, form, values[param.name], stops, urls))
    packed = slider.pack_ranking(loaded.space, question.vector, result.ranking, **extra)
    return tile_data.build_tile(key, result.title, result.decoder, packed, sliders, is_baseline)


def _commit_sliders(slider_params: Mapping[str, Mapping[str, tuple[str, Param]]], message: Mapping[str, Any]) -> None:
    """Take over the positions of released sliders as the decoders' parameters; for a callback.

    slider_params: tile (a decoder's card on the page) → parameter → (widget key, declaration); message: the browser's
    report, with its number and the values by tile and parameter
    """
    st.session_state[link.RELEASED_KEY] = True
    # Reports may arrive out of order: the number never falls.
    st.session_state[SERIAL_KEY] = max(int(message["serial"]), st.session_state.get(SERIAL_KEY, 0))
    for tile, values in message["values"].items():
        # Of several decoders that one drag has moved, none is the one that the page speaks of.
        if len(message["values"]) == 1 and tile in slider_params:
            st.session_state[decoders.TOUCHED_KEY] = tile
        for param_name, value in values.items():
            if param_name in slider_params.get(tile, ()):
                widget_key, param = slider_params[tile][param_name]
                # A value that the browser should not have sent changes nothing.
                with suppress(ParamError):
                    st.session_state[widget_key] = param.check(value)
