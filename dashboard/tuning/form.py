"""The form of a tuning: decoder, objective, splits; its defaults are those of Explore."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from dashboard.charts.figure import read_column
from dashboard.charts.palette import method_style
from dashboard.services.source import Loaded
from dashboard.session import decoders
from dashboard.session.parameters import order_params, param_key, read_stage, resolve_form
from dashboard.session.query import corpus_key, find_max_k
from dashboard.tuning.request import EVERY, TuningRequest, find_baseline
from dashboard.widgets.choices import choose_several, select
from dashboard.widgets.judges import describe_judges, draw_judges
from dashboard.widgets.own_documents import draw_self_rule
from dashboard.widgets.parameters import draw_parameter, format_label
from dashboard.widgets.source_limit import describe_source_limit, draw_source_limit
from dashboard.widgets.tables import name_metric
from engine.decoder import POOL, SET_SIZE
from engine.evaluation.metrics import METRICS, available_metrics
from engine.evaluation.tuning.objectives import RELEVANT, Objective
from engine.evaluation.tuning.search_space import MAX_GRID_DIMS, Settings
from engine.evaluation.tuning.tune import TRIALS
from engine.params import Choice, Whole, params_of, sweep_values
from engine.stages import Spec, make, methods
from engine.wording import visible

V = TypeVar("V")
PREFIX = "tune"
FORM_CSS = """<style>@media (max-width: 640px) {
:is(.st-key-tune-goal, .st-key-tune-splits, .st-key-tune-start-line) {gap: .375rem .5rem}
:is(.st-key-tune-goal, .st-key-tune-splits) > :has([data-testid=stSelectbox]) {flex: 1 1 4rem !important;
  min-width: 0; width: auto !important}
.st-key-tune-goal > :has([data-testid=stSelectbox]):nth-of-type(-n + 5) {flex-basis: calc(100% - 3.5rem) !important} }
</style>"""
"""On a phone a line of the sentence is a word and its field, which is as wide as the line is left."""
JUDGES_KEY = f"{PREFIX}.judges"
STEP_COUNT = Whole(
    default=11,
    low=1,
    comfortable=(2, 51),
    symbol="Steps per parameter",
    name="Steps per parameter",
    help="Values of each parameter that are tried, from end to end of its comfortable range.",
)
TRIAL_COUNT = replace(
    TRIALS,
    comfortable=(8, 256),
    symbol="Settings to try",
    name="Settings to try",
    help="A search chooses so many of all settings.",
)
QUERY_SAMPLE = Whole(
    default=None,
    low=1,
    unset="all",
    symbol="Query sample",
    name="Query sample",
    help="For a quick look: at most this many queries of each split.",
)
AIM_TEXTS = {
    "maximise": "maximise one metric:",
    "diverse": "maximise diversity (ILAD)",
    "knee": "sit at the knee of Recall and diversity",
}
"""Text of an aim, which continues the sentence after the word "to"."""
SHARE_KEY = f"{PREFIX}.share"
KEPT_SHARES = (0.8, 0.85, 0.9, 0.95, 0.98, 0.99, 1.0)
"""Shares of the baseline's Recall to choose from."""
DEV_NAMES = ("dev", "validation", "valid", "val")
"""Usual names of splits to choose on."""
# Options from 2 on are the remaining splits.
HALVES, NO_REPORT = 0, 1


@dataclass(frozen=True)
class FormPlaces:
    """Containers of a form that the page fills, once it knows what the tuning would measure."""

    splits: DeltaGenerator  # behind the choice of judged queries
    start: DeltaGenerator  # the line of the costs and the start


def draw_form(loaded: Loaded) -> tuple[TuningRequest, FormPlaces]:
    """Draw the form of a tuning as a sentence to fill in; return its settings, and what the page fills of it.

    The request may be impossible: its properties raise then.
    """
    st.html(FORM_CSS)
    baseline_name = find_baseline()
    specs = {name: spec for name, spec in methods("selector").items() if spec.params and name != baseline_name}

    def format_title(method: str) -> str:
        """Format an option of the decoder's field, with the decoder's sign."""
        return "every decoder" if method == EVERY else f"{method_style(method).sign} {specs[method].title}"

    with _open_line("tune-goal"):
        draw_words("Tune")
        method = _draw_blank("Decoder", [EVERY, *specs], f"{PREFIX}.method", 185, format_title)
        draw_words("to")
        objective = _draw_objective(loaded)
    with (splits_line := _open_line("tune-splits")):
        choose, report, halve = _draw_splits(loaded)
    places = FormPlaces(splits_line, _open_line("tune-start-line"))
    fields: dict[str, Any] = {"method": method, "objective": objective}
    fields |= {"choose": choose, "report": report, "halve": halve}
    with st.expander("Advanced"):
        if method != EVERY:
            _describe_untunable(baseline_name)
        fields |= _draw_all_decoders(loaded) if method == EVERY else _draw_one_decoder(loaded, specs[method])
        fields |= _draw_limits(loaded, list(specs) if method == EVERY else [], objective)
        # Only a loss is corrected: the other goals compare means of one kind of judgements.
        paired = draw_judges(loaded, choose, JUDGES_KEY, st.columns(4)[0]) if objective.constrained else None
        fields["judge"] = "" if paired is None else paired.judge
    if paired is not None:
        st.caption(describe_judges(paired))
    return TuningRequest(**fields), places


def _describe_untunable(baseline_name: str) -> None:
    """Draw which decoders cannot be tuned alone, as the list of decoders lacks them."""
    specs = methods("selector").items()
    titles = [spec.title for name, spec in specs if not spec.params and name != baseline_name]
    if titles:
        verb, pronoun = ("has", "it") if len(titles) == 1 else ("have", "them")
        names = visible(" and ".join(titles))
        st.caption(f"{names} {verb} no parameter to tune: “every decoder” compares {pronoun} with the others.")


def fill_form(asked: Mapping[str, Any], loaded: Loaded) -> None:
    """Set the form to a past tuning's settings, through Streamlit's session state, which its widgets read.

    It must be called before the form is drawn. asked: the settings, as `TuningRequest.as_json` writes them;
    loaded: the corpus of both
    """
    method, choose, corpus_digest, state = asked["method"], asked["choose"], corpus_key(loaded), st.session_state
    values = {name: asked[name] for name in ("method", "most", "points", "trials")} | asked["objective"]
    for name, value in values.items():
        state[f"{PREFIX}.{name}"] = value
    state[decoders.K_KEY], state[JUDGES_KEY] = asked["k"], asked.get("judge", "")
    state[decoders.PER_SOURCE_KEY] = asked["per_source"]
    decoders.set_self_rule(asked["without_self"])
    if asked["source"] is not None:
        state[decoders.SOURCE_COLUMN_KEY] = asked["source"]
    other_splits = [name for name in loaded.dataset.qrels if name != choose]
    # A split to choose on that no longer exists leaves the form's splits alone.
    if len(other_splits) < len(loaded.dataset.qrels):
        is_available = asked["report"] in other_splits
        state[f"{PREFIX}.choose.{corpus_digest}"] = choose
        # Without a second split, half of the first one confirms, or nothing does.
        option = HALVES if asked["halve"] else NO_REPORT
        # The field's options 0 and 1 are HALVES and NO_REPORT; the other splits follow.
        option = other_splits.index(asked["report"]) + 2 if is_available else option
        state[f"{PREFIX}.report.{corpus_digest}.{choose}"] = option
    if method == EVERY:
        state[f"{PREFIX}.scorers"] = list(asked["scorers"])
        return
    state.update({decoders.POOL_KEY: asked["depth"], f"{PREFIX}.free.{method}": list(asked["free"])})
    # None stands for the default retriever, or for no reranker.
    stages = {role: asked[role] and make(**asked[role]) for role in (decoders.RETRIEVE, decoders.RERANK)}
    decoders.put_scorers(method, stages)
    spec, fixed = methods("selector")[method], dict(asked["fixed"])
    # A parameter's form is its declaration beside the values of others: λ₁ is a penalty or a number of documents. So
    # the values that decide it are set first.
    set_values: dict[str, Any] = {}
    for param in order_params(param for param in spec.params if param.name in fixed):
        widget_key, form = resolve_form(param_key(spec, PREFIX, param.name), param, set_values)
        state[widget_key] = set_values[param.name] = form.check(fixed[param.name])


def _draw_all_decoders(loaded: Loaded) -> dict[str, Any]:
    """Draw the further settings for tuning every decoder; return these fields of a TuningRequest."""
    specs = decoders.list_scorers(decoders.RETRIEVE)
    default, key = [next(iter(specs))], f"{PREFIX}.scorers"
    titles = {name: spec.title for name, spec in specs.items()}
    scorers = choose_several("Scorers to retrieve with", specs, key, default=default, format_func=titles.__getitem__)
    columns = st.columns(4, vertical_alignment="bottom")
    fields = _draw_sizes(loaded, columns)
    fields["points"] = draw_parameter(STEP_COUNT, f"{PREFIX}.points", columns[2])
    # Settings of a single decoder stay at their defaults.
    fields |= {"depth": None, "free": (), "fixed": (), "trials": TRIAL_COUNT.default}
    return fields | {"scorers": tuple(scorers)}


def _draw_limits(loaded: Loaded, method_names: Sequence[str], objective: Objective) -> dict[str, Any]:
    """Draw the limit per source, which decoders it leaves out, and the rule on queries that are documents.

    Returns these fields of a TuningRequest.
    """
    # A limit of another corpus, whose column this one lacks, is dropped before its control is drawn.
    describe_source_limit(list(loaded.space.corpus.metadata))
    columns = st.columns(4, vertical_alignment="bottom")
    draw_source_limit(loaded, columns[:2])
    # Without columns of the corpus there is no limit beside it.
    draw_self_rule(loaded, columns[2 if loaded.space.corpus.metadata else 0])
    if reason := decoders.explain_unlimited(method_names):
        st.caption(f"Left out: {visible(reason)}")
    per_source, column = decoders.get_source_limit()
    # Without a limit the column matters to the metric alone.
    if "unique_sources" in objective.metrics:
        column = decoders.find_source_column(loaded.space.corpus.metadata)
    return {"per_source": per_source, "source": column, "without_self": decoders.get_self_rule()}


def _draw_sizes(loaded: Loaded, columns: Sequence[DeltaGenerator]) -> dict[str, Any]:
    """Draw the set size and the number of queries, in two columns; return these fields of a TuningRequest."""
    k = min(draw_parameter(SET_SIZE, decoders.K_KEY, columns[0]), find_max_k(loaded))
    return {"k": k, "most": draw_parameter(QUERY_SAMPLE, f"{PREFIX}.most", columns[1])}


def _draw_one_decoder(loaded: Loaded, spec: Spec) -> dict[str, Any]:
    """Draw the further settings for tuning one decoder; return these fields of a TuningRequest.

    spec: the decoder's selector
    """
    free = _draw_free_params(spec)
    columns = st.columns(4, vertical_alignment="bottom")
    fields = _draw_sizes(loaded, columns) | {"depth": draw_parameter(POOL, decoders.POOL_KEY, columns[2])}
    fields |= {"points": STEP_COUNT.default, "trials": TRIAL_COUNT.default}
    # Many parameters are searched by a number of trials, few on a grid of values.
    if len(free) > MAX_GRID_DIMS:
        fields["trials"] = draw_parameter(TRIAL_COUNT, f"{PREFIX}.trials", columns[3])
    # Parameters with usual values of their own need no number of steps.
    elif any(not param.swept or len(param.swept) < 2 for param in spec.params if param.name in free):
        fields["points"] = draw_parameter(STEP_COUNT, f"{PREFIX}.points", columns[3])
    fixed = _draw_fixed_params(spec, free)
    explore_decoder = decoders.get_decoder(spec.name)
    if scorer_text := decoders.describe_scorers(explore_decoder):
        st.caption(f"As set in Explore: {scorer_text}.")
    fields |= {"retrieve": explore_decoder.retrieve, "rerank": explore_decoder.rerank}
    return fields | {"free": free, "fixed": tuple(fixed.items())}


def _open_line(container_key: str) -> DeltaGenerator:
    """Open a line of words and controls, which wraps on a narrow screen."""
    return st.container(horizontal=True, vertical_alignment="center", gap="small", key=container_key)


def draw_words(sentence_text: str) -> None:
    """Draw words of the sentence, as wide as they are."""
    st.text(sentence_text, width="content")


def _draw_blank(
    label: str, options: Iterable[V], key: str, width: int, format_func: Callable[[Any], str], **look: Any
) -> V:
    """Draw a choice in the middle of a sentence, without a visible label; return the chosen option.

    label: for screen readers; format_func: option → its text; look: further options of `select`
    """
    return select(label, options, key, label_visibility="collapsed", width=width, format_func=format_func, **look)


def _draw_objective(loaded: Loaded) -> Objective:
    """Draw the goal of the tuning, and the metric to maximise or the share of Recall to keep; return it."""
    # The declarations of the goal's fields: what to do, the metric to maximise, the share of Recall to keep.
    aim, metric, share = params_of(Objective)
    assert isinstance(aim, Choice) and isinstance(metric, Choice)
    dataset = loaded.dataset
    source = None if loaded.reach is not None else decoders.find_source_column(loaded.space.corpus.metadata)
    qrels = next(iter(dataset.qrels.values()))
    measurable = available_metrics(qrels, dataset.aspects, loaded.space.embeddings, source)
    metrics = list(filter(measurable.__contains__, metric.options))
    # The default goal is the one with a bound: more diversity, while a share of Recall is kept.
    usual = next((option for option in aim.options if Objective(aim=option).constrained), None)
    chosen_aim = _draw_blank("Goal", aim.options, f"{PREFIX}.aim", 265, lambda a: AIM_TEXTS.get(a, a), default=usual)
    values: dict[str, Any] = {}
    # A field may require a value of another one, as (name, value): here the aim that needs it.
    if metric.requires and metric.requires[1] == chosen_aim:
        values["metric"] = _draw_blank("Metric", metrics, f"{PREFIX}.metric", 150, name_metric, default=metric.default)
    elif share.requires and share.requires[1] == chosen_aim:
        draw_words("while keeping")
        # A past tuning may have set a share that is not in the list.
        options = sorted({*KEPT_SHARES, st.session_state.get(SHARE_KEY, share.default)})
        values["share"] = _draw_blank(
            "Recall to keep", options, SHARE_KEY, 95, lambda v: f"{100 * v:g}%", default=share.default
        )
        draw_words(f"of {methods('selector')[find_baseline()].title}'s {METRICS[RELEVANT].title}.")
    return Objective(aim=chosen_aim, **values)


def _draw_splits(loaded: Loaded) -> tuple[str, str | None, bool]:
    """Draw the choice of judged queries; return (split to choose on, split to confirm on or None, halve).

    halve: True if one half of the first split confirms what the other half chose.
    """
    split_names = list(loaded.dataset.qrels)
    usual = next(filter(split_names.__contains__, DEV_NAMES), split_names[0])
    corpus_digest = corpus_key(loaded)
    draw_words("Choose on")
    choose = _draw_blank("Choose on", split_names, f"{PREFIX}.choose.{corpus_digest}", 130, visible, default=usual)
    other_splits = [name for name in split_names if name != choose]
    # Options from 2 on are positions among the other splits; HALVES and NO_REPORT are 0 and 1.
    options = [*range(2, len(other_splits) + 2), HALVES, NO_REPORT]
    default = other_splits.index("test") + 2 if "test" in other_splits else None

    def format_option(option: int) -> str:
        """Format an option of the field "Confirm on", given by its number."""
        return {HALVES: "half of it", NO_REPORT: "nothing"}.get(option) or visible(other_splits[option - 2])

    draw_words("and confirm on")
    report_key = f"{PREFIX}.report.{corpus_digest}.{choose}"
    picked: int = _draw_blank("Confirm on", options, report_key, 150, format_option, default=default)
    return choose, other_splits[picked - 2] if picked >= 2 else None, picked == HALVES


def _draw_free_params(spec: Spec) -> tuple[str, ...]:
    """Draw the choice of the selector's parameters to tune; return their names. The others stay fixed."""
    declared = dict(zip(read_column(spec.params, "name"), spec.params, strict=True))
    chosen = choose_several(
        "Parameters to tune",
        declared,
        f"{PREFIX}.free.{spec.name}",
        # By default the parameters that the engine tunes if none are named.
        default=read_column(Settings.build(spec, 2, None, {}).free, "name"),
        format_func=lambda name: format_label(declared[name]),
        help=f"With up to {MAX_GRID_DIMS}, every setting of a grid is tried; with more, those that a search suggests.",
    )
    return tuple(chosen)


def _draw_fixed_params(spec: Spec, free: tuple[str, ...]) -> Mapping[str, Any]:
    """Draw the parameters that are not tuned; return name → value, by default those of Explore.

    free: names of the parameters that are tuned
    """
    params = [param for param in spec.params if param.name not in free]
    if not params:
        return {}
    explore_stage = read_stage(spec, decoders.PARAM_PREFIX)
    values: dict[str, Any] = {}
    columns = st.columns(4, vertical_alignment="bottom")
    for param in order_params(params):
        # `form` is the declaration to draw: another than `param` if an earlier value changes its unit, as that of λ₁
        # from a penalty to a number of documents.
        widget_key, form = resolve_form(param_key(spec, PREFIX, param.name), param, values)
        # A parameter may require a value of another one, as (name, value): else it has no effect and is not drawn.
        if param.requires and values.get(param.requires[0], param.requires[1]) != param.requires[1]:
            continue
        value, usual_values = getattr(explore_stage, param.name), sweep_values(param, 1)
        # A parameter not changed in Explore takes the value that sweeps use.
        if form is param and value == param.default and len(usual_values) == 1:
            value = usual_values[0]
        low_end, high_end = getattr(form, "comfortable_range", (None, None))
        # A slider shows only values of its range, `comfortable_range`, which is narrower than what is allowed.
        is_valid = low_end is None or value is None or (low_end <= value <= high_end and value == form.type(value))
        st.session_state.setdefault(widget_key, form.check(value) if is_valid else form.default)
        values[param.name] = draw_parameter(form, widget_key, columns[len(values) % len(columns)])
    return values
