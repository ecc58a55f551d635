"""The form of a tuning: decoder, objective, splits; its defaults are those of Explore."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import streamlit as st

from dashboard.charts.palette import style_of
from dashboard.services.source import Loaded
from dashboard.session import decoders
from dashboard.session.parameters import form_at, in_order, key_of, stage_of
from dashboard.session.query import corpus_key, largest_k
from dashboard.tuning.request import TuningRequest, baseline
from dashboard.widgets.choices import choose_several, select
from dashboard.widgets.parameters import control, label_of
from engine.decoder import POOL, SET_SIZE
from engine.evaluation.metrics import METRICS, available, title_of
from engine.evaluation.tuning.objectives import Objective
from engine.evaluation.tuning.search_space import EXHAUSTIVE, Settings
from engine.evaluation.tuning.tune import TRIALS
from engine.params import Choice, Param, Whole, params_of, sweep_values
from engine.stages import Spec, methods

PREFIX = "tune"
POINTS = Whole(
    default=11,
    low=1,
    comfortable=(2, 51),
    symbol="values",
    name="values",
    help="How many values of each parameter are tried, from end to end of its comfortable range.",
)
SEARCHED = replace(TRIALS, comfortable=(8, 256), help="How many settings the search tries.")
MOST = Whole(
    default=None,
    low=1,
    unset="all",
    symbol="queries",
    name="queries",
    help="For a quick look: so many queries of each split, drawn by their ids.",
)
DEV_NAMES = ("dev", "validation", "valid", "val")
"""What splits to choose on are called."""
HALVES, NO_REPORT = 0, 1


def ask(loaded: Loaded) -> TuningRequest:
    """Draw the form; what it asks for may still be impossible, and says so when it is looked at."""
    known = {n: s for n, s in methods("selector").items() if s.params and n != baseline()}
    method = select(
        "Decoder",
        known,
        f"{PREFIX}.method",
        format_func=lambda n: f"{style_of(n).sign} {known[n].title}",
        help="What is tuned. It is compared with the first of all decoders, which has nothing to tune.",
    )
    objective = _objective(loaded)
    left, right = st.columns(2)
    k = min(control(SET_SIZE, decoders.K_KEY, left), largest_k(loaded))
    depth = control(POOL, decoders.POOL_KEY, right)
    choose, report, halve = _splits(loaded)
    spec = known[method]
    free = _free(spec)
    left, right = st.columns(2)
    most = control(MOST, f"{PREFIX}.most", left)
    points, trials = POINTS.default, SEARCHED.default
    if len(free) > EXHAUSTIVE:
        trials = control(SEARCHED, f"{PREFIX}.trials", right)
    elif any(not p.swept or len(p.swept) < 2 for p in spec.params if p.name in free):
        points = control(POINTS, f"{PREFIX}.points", right)
    fixed = _fixed(spec, free)
    behind = decoders.decoder_of(method)
    if by := decoders.describe_scorers(behind):
        st.caption(f"As set in Explore: {by}.")
    return TuningRequest(
        method=method,
        objective=objective,
        k=k,
        depth=depth,
        choose=choose,
        report=report,
        halve=halve,
        most=most,
        free=free,
        fixed=tuple(fixed.items()),
        points=points,
        trials=trials,
        retrieve=behind.retrieve,
        rerank=behind.rerank,
    )


def _objective(loaded: Loaded) -> Objective:
    aim, metric, share = params_of(Objective)
    assert isinstance(aim, Choice) and isinstance(metric, Choice)
    dataset = loaded.dataset
    measurable = available(next(iter(dataset.qrels.values())), dataset.aspects, loaded.space.embeddings)
    metrics = [m for m in metric.options if m in measurable]
    now = {
        "metric": st.session_state.get(f"{PREFIX}.metric", metric.default),
        "share": st.session_state.get(f"{PREFIX}.share", share.default),
    }
    now["metric"] = now["metric"] if now["metric"] in metrics else metric.default
    chosen_aim = st.radio(
        "Objective",
        aim.options,
        # What people come for: the price of diversity kept in bounds.
        next((i for i, a in enumerate(aim.options) if Objective(aim=a).constrained), 0),
        key=f"{PREFIX}.aim",
        persist_state="session",
        format_func=lambda a: (text := Objective(aim=a, **now).text)[:1].upper() + text[1:],
        help=f"{aim.help} Every one of them needs judgements.",
    )
    if metric.requires and metric.requires[1] == chosen_aim:
        why = "\n\n".join(f"{METRICS[m].title}: {METRICS[m].formula}" for m in metrics)
        now["metric"] = select(
            "Metric", metrics, f"{PREFIX}.metric", default=metric.default, format_func=title_of, help=why
        )
    elif share.requires and share.requires[1] == chosen_aim:
        now["share"] = control(share, f"{PREFIX}.share")
    return Objective(aim=chosen_aim, **now)


def _splits(loaded: Loaded) -> tuple[str, str | None, bool]:
    """The split to choose on, the one to report on, and whether that is a half of the first."""
    names = list(loaded.dataset.qrels)
    usual = next((n for n in DEV_NAMES if n in names), names[0])
    key = corpus_key(loaded)
    left, right = st.columns(2)
    choose = select("Choose on", names, f"{PREFIX}.choose.{key}", default=usual, place=left)
    others = [n for n in names if n != choose]
    places = [*range(2, len(others) + 2), HALVES, NO_REPORT]
    # Of what is left, tests come last in most data sets.
    first = others.index("test") + 2 if "test" in others else None
    place: int = select(
        "Report on",
        places,
        f"{PREFIX}.report.{key}.{choose}",
        default=first,
        place=right,
        format_func=lambda p: {HALVES: "half of it", NO_REPORT: "nothing"}.get(p) or others[p - 2],
        help="What was chosen on a query looks good on it: the report needs others. Half of it: one half of the split "
        "to choose on, the other to report on.",
    )
    return choose, others[place - 2] if place >= 2 else None, place == HALVES


def _free(spec: Spec) -> tuple[str, ...]:
    """The names of the parameters to set."""
    declared = {p.name: p for p in spec.params}
    chosen = choose_several(
        "Free parameters",
        declared,
        f"{PREFIX}.free.{spec.name}",
        default=[p.name for p in Settings.of(spec, 2, None, {}).free],
        format_func=lambda n: label_of(declared[n]),
        help=f"Up to {EXHAUSTIVE} of them every setting of a grid is tried; of more, as many as a search suggests.",
    )
    return tuple(chosen)


def _fixed(spec: Spec, free: tuple[str, ...]) -> Mapping[str, Any]:
    """The values of the others: as Explore has them where somebody set them there, else as sweeps take them."""
    rest = [p for p in spec.params if p.name not in free]
    if not rest:
        return {}
    explored = stage_of(spec, decoders.PREFIX)
    values: dict[str, Any] = {}
    with st.expander("Fixed parameters"):
        for param in in_order(rest):
            key, form = form_at(key_of(spec, PREFIX, param.name), param, values)
            if param.requires and values.get(param.requires[0], param.requires[1]) != param.requires[1]:
                continue
            value, usual = getattr(explored, param.name), sweep_values(param, 1)
            if form is param and value == param.default and len(usual) == 1:
                value = usual[0]
            st.session_state.setdefault(key, form.check(value) if _fits(form, value) else form.default)
            values[param.name] = control(form, key)
    return values


def _fits(form: Param, value: Any) -> bool:
    low, high = getattr(form, "comfortable_range", (None, None))
    return low is None or value is None or (low <= value <= high and value == form.type(value))
