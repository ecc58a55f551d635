"""The form of a tuning: decoder, objective, splits; its defaults are those of Explore."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from dashboard.charts.palette import method_style
from dashboard.services.source import Loaded
from dashboard.session import decoders
from dashboard.session.parameters import order_params, param_key, read_stage, resolve_form
from dashboard.session.query import corpus_key, find_max_k
from dashboard.tuning.request import EVERY, TuningRequest, baseline
from dashboard.widgets.choices import choose_several, select
from dashboard.widgets.parameters import draw_parameter, format_label
from engine.decoder import POOL, SET_SIZE
from engine.evaluation.metrics import METRICS, available_metrics, title_of
from engine.evaluation.tuning.objectives import RELEVANT, Objective
from engine.evaluation.tuning.search_space import MAX_GRID_DIMS, Settings
from engine.evaluation.tuning.tune import TRIALS
from engine.params import Choice, Whole, params_of, sweep_values
from engine.stages import Spec, make, methods
from engine.wording import visible

V = TypeVar("V")
PREFIX = "tune"
POINTS = Whole(
    default=11,
    low=1,
    comfortable=(2, 51),
    symbol="Steps per parameter",
    name="Steps per parameter",
    help="Values of each parameter that are tried, from end to end of its comfortable range.",
)
SEARCHED = replace(
    TRIALS,
    comfortable=(8, 256),
    symbol="Settings to try",
    name="Settings to try",
    help="A search chooses so many of all settings.",
)
MOST = Whole(
    default=None,
    low=1,
    unset="all",
    symbol="Query sample",
    name="Query sample",
    help="For a quick look: at most this many queries of each split.",
)
AIMS = {
    "maximise": "maximise one metric:",
    "diverse": "maximise diversity (ILAD)",
    "knee": "sit at the knee of Recall–ILAD",
}
"""What a sentence says of an aim, after the word "to"."""
KEPT = (0.8, 0.85, 0.9, 0.95, 0.98, 0.99, 1.0)
"""Shares of the baseline's Recall to choose from."""
DEV_NAMES = ("dev", "validation", "valid", "val")
"""What splits to choose on are called."""
HALVES, NO_REPORT = 0, 1


def ask(loaded: Loaded) -> tuple[TuningRequest, DeltaGenerator]:
    """Draw the form as a sentence to fill in; returns what it asks for, and the end of the sentence, to draw in.

    What it asks for may still be impossible, and says so when looked at.
    """
    known = {n: s for n, s in methods("selector").items() if s.params and n != baseline()}

    def called(method: str) -> str:
        return "every decoder" if method == EVERY else f"{method_style(method).sign} {known[method].title}"

    with _line("tune-goal"):
        say("Tune")
        method = _blank("Decoder", [EVERY, *known], f"{PREFIX}.method", 185, called)
        say("to")
        objective = _objective(loaded)
    with (end := _line("tune-splits")):
        choose, report, halve = _splits(loaded)
    asked: dict[str, Any] = {"method": method, "objective": objective}
    asked |= {"choose": choose, "report": report, "halve": halve}
    with st.expander("Advanced"):
        asked |= _every(loaded) if method == EVERY else _one(loaded, known[method])
    return TuningRequest(**asked), end


def fill_in(asked: Mapping[str, Any], loaded: Loaded) -> None:
    """Set the form to a request as `TuningRequest.as_json` writes it, before it is drawn."""
    method, choose, key, state = asked["method"], asked["choose"], corpus_key(loaded), st.session_state
    state.update({f"{PREFIX}.{name}": asked[name] for name in ("method", "most", "points", "trials")})
    state.update({f"{PREFIX}.{name}": value for name, value in asked["objective"].items()})
    state[decoders.K_KEY] = asked["k"]
    others = [name for name in loaded.dataset.qrels if name != choose]
    if len(others) < len(loaded.dataset.qrels):
        known = asked["report"] in others
        state[f"{PREFIX}.choose.{key}"] = choose
        place = others.index(asked["report"]) + 2 if known else HALVES if asked["halve"] else NO_REPORT
        state[f"{PREFIX}.report.{key}.{choose}"] = place
    if method == EVERY:
        state[f"{PREFIX}.scorers"] = list(asked["scorers"])
        return
    state.update({decoders.POOL_KEY: asked["depth"], f"{PREFIX}.free.{method}": list(asked["free"])})
    stages = {role: asked[role] and make(**asked[role]) for role in (decoders.RETRIEVE, decoders.RERANK)}
    decoders.put_scorers(method, stages)
    spec, fixed = methods("selector")[method], dict(asked["fixed"])
    values: dict[str, Any] = {}
    for param in order_params(p for p in spec.params if p.name in fixed):
        widget, form = resolve_form(param_key(spec, PREFIX, param.name), param, values)
        state[widget] = values[param.name] = form.check(fixed[param.name])


def _every(loaded: Loaded) -> dict[str, Any]:
    """What is asked for besides where every decoder is tuned."""
    offered = decoders.list_scorers(decoders.RETRIEVE)
    scorers = choose_several(
        "Scorers to retrieve with",
        offered,
        f"{PREFIX}.scorers",
        default=[next(iter(offered))],
        format_func=lambda n: offered[n].title,
    )
    places = st.columns(4, vertical_alignment="bottom")
    return {
        **_sizes(loaded, places),
        "points": draw_parameter(POINTS, f"{PREFIX}.points", places[2]),
        "depth": None,
        "free": (),
        "fixed": (),
        "trials": SEARCHED.default,
        "scorers": tuple(scorers),
    }


def _sizes(loaded: Loaded, places: Sequence[DeltaGenerator]) -> dict[str, Any]:
    """How many documents a decoder returns, and how many queries are asked."""
    k = min(draw_parameter(SET_SIZE, decoders.K_KEY, places[0]), find_max_k(loaded))
    return {"k": k, "most": draw_parameter(MOST, f"{PREFIX}.most", places[1])}


def _one(loaded: Loaded, spec: Spec) -> dict[str, Any]:
    """What is asked for besides where one decoder is tuned."""
    free = _free(spec)
    places = st.columns(4, vertical_alignment="bottom")
    asked = {**_sizes(loaded, places), "depth": draw_parameter(POOL, decoders.POOL_KEY, places[2])}
    asked |= {"points": POINTS.default, "trials": SEARCHED.default}
    if len(free) > MAX_GRID_DIMS:
        asked["trials"] = draw_parameter(SEARCHED, f"{PREFIX}.trials", places[3])
    elif any(not p.swept or len(p.swept) < 2 for p in spec.params if p.name in free):
        asked["points"] = draw_parameter(POINTS, f"{PREFIX}.points", places[3])
    fixed = _fixed(spec, free)
    behind = decoders.get_decoder(spec.name)
    if by := decoders.describe_scorers(behind):
        st.caption(f"As set in Explore: {by}.")
    scorers = {"retrieve": behind.retrieve, "rerank": behind.rerank}
    return {**asked, **scorers, "free": free, "fixed": tuple(fixed.items())}


def _line(key: str) -> DeltaGenerator:
    """A line of words and controls, which breaks where the screen is narrow."""
    return st.container(horizontal=True, vertical_alignment="center", gap="small", key=key)


def say(words: str) -> None:
    """Write words of the sentence."""
    st.text(words, width="content")


def _blank(label: str, options: Iterable[V], key: str, width: int, format_func: Callable[[Any], str], **how: Any) -> V:
    """A list in the middle of a sentence; label: for screen readers."""
    return select(label, options, key, label_visibility="collapsed", width=width, format_func=format_func, **how)


def _objective(loaded: Loaded) -> Objective:
    aim, metric, share = params_of(Objective)
    assert isinstance(aim, Choice) and isinstance(metric, Choice)
    dataset = loaded.dataset
    measurable = available_metrics(next(iter(dataset.qrels.values())), dataset.aspects, loaded.space.embeddings)
    metrics = [m for m in metric.options if m in measurable]
    # What people come for: the price of diversity kept in bounds.
    usual = next((a for a in aim.options if Objective(aim=a).constrained), None)
    chosen = _blank("Goal", aim.options, f"{PREFIX}.aim", 265, lambda a: AIMS.get(a, a), default=usual)
    values: dict[str, Any] = {}
    if metric.requires and metric.requires[1] == chosen:
        values["metric"] = _blank("Metric", metrics, f"{PREFIX}.metric", 150, title_of, default=metric.default)
    elif share.requires and share.requires[1] == chosen:
        say("while keeping")
        key = f"{PREFIX}.share"
        options = sorted({*KEPT, st.session_state.get(key, share.default)})
        values["share"] = _blank("Recall to keep", options, key, 95, lambda v: f"{100 * v:g}%", default=share.default)
        say(f"of {methods('selector')[baseline()].title}'s {METRICS[RELEVANT].title}.")
    return Objective(aim=chosen, **values)


def _splits(loaded: Loaded) -> tuple[str, str | None, bool]:
    """The split to choose on, the one to report on, and whether that is a half of the first."""
    names = list(loaded.dataset.qrels)
    usual = next((n for n in DEV_NAMES if n in names), names[0])
    key = corpus_key(loaded)
    say("Choose on")
    choose = _blank("Choose on", names, f"{PREFIX}.choose.{key}", 130, visible, default=usual)
    others = [n for n in names if n != choose]
    places = [*range(2, len(others) + 2), HALVES, NO_REPORT]
    # Of what is left, tests come last in most data sets.
    first = others.index("test") + 2 if "test" in others else None
    say("and confirm on")
    place: int = _blank(
        "Confirm on",
        places,
        f"{PREFIX}.report.{key}.{choose}",
        150,
        lambda p: {HALVES: "half of it", NO_REPORT: "nothing"}.get(p) or visible(others[p - 2]),
        default=first,
    )
    return choose, others[place - 2] if place >= 2 else None, place == HALVES


def _free(spec: Spec) -> tuple[str, ...]:
    """The names of the parameters to set."""
    declared = {p.name: p for p in spec.params}
    chosen = choose_several(
        "Parameters to tune",
        declared,
        f"{PREFIX}.free.{spec.name}",
        default=[p.name for p in Settings.build(spec, 2, None, {}).free],
        format_func=lambda n: format_label(declared[n]),
        help=f"With up to {MAX_GRID_DIMS}, every setting of a grid is tried; with more, those that a search suggests.",
    )
    return tuple(chosen)


def _fixed(spec: Spec, free: tuple[str, ...]) -> Mapping[str, Any]:
    """The values of the others: as Explore has them where somebody set them there, else as sweeps take them."""
    rest = [p for p in spec.params if p.name not in free]
    if not rest:
        return {}
    explored = read_stage(spec, decoders.PARAM_PREFIX)
    values: dict[str, Any] = {}
    places = st.columns(4, vertical_alignment="bottom")
    for param in order_params(rest):
        key, form = resolve_form(param_key(spec, PREFIX, param.name), param, values)
        if param.requires and values.get(param.requires[0], param.requires[1]) != param.requires[1]:
            continue
        value, usual = getattr(explored, param.name), sweep_values(param, 1)
        if form is param and value == param.default and len(usual) == 1:
            value = usual[0]
        low, high = getattr(form, "comfortable_range", (None, None))
        fits = low is None or value is None or (low <= value <= high and value == form.type(value))
        st.session_state.setdefault(key, form.check(value) if fits else form.default)
        values[param.name] = draw_parameter(form, key, places[len(values) % len(places)])
    return values
