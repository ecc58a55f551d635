"""The Trade-off page: the verdict, the frontier, the sets behind a point, differences by query."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import repeat
from operator import itemgetter
from typing import Any, Literal

import streamlit as st

import engine
from dashboard.charts.figure import read_column
from dashboard.charts.frontier import (
    NO_LINES_TEXT,
    FrontierChart,
    find_curve,
    name_denied_role,
    plot_frontier,
)
from dashboard.charts.frontier_legend import format_legend, list_lines_and_points, list_marks
from dashboard.charts.frontier_panels import plot_panels
from dashboard.charts.ghosts import draw_frontier_ghost
from dashboard.charts.verdict_data import build_verdict_data, describe_scope
from dashboard.components.live_plot import is_dark, plot
from dashboard.services import confirmations, jobs, passage_queries, sweeps, trained
from dashboard.services.jobs import Job
from dashboard.services.memo import MAX_SHARED, get_or_compute
from dashboard.services.off_topic import find_counts
from dashboard.services.query_vectors import embed_missing, find_query_vectors
from dashboard.services.source import Loaded
from dashboard.services.sweeps import Cells, Sweep
from dashboard.session import decoders, restore
from dashboard.session import tradeoff as settings
from dashboard.session.choices import (
    TRADEOFF,
    TUNE,
    PageChoice,
    describe_other_choice,
    digest_query_ids,
    remember_choice,
)
from dashboard.session.judging import JUDGE, build_request
from dashboard.session.measured import MeasuredSweep, remember_measured
from dashboard.session.query import Question, corpus_key, find_first_split, find_max_k
from dashboard.session.tradeoff import N_VALUES
from dashboard.tradeoff import differences, point_sets, selection, system, verdict
from dashboard.tradeoff.selection import OpenSetting
from dashboard.widgets import passages, runs, skeleton
from dashboard.widgets.basics import show_failure
from dashboard.widgets.choices import choose, choose_several, select
from dashboard.widgets.decoder_pills import choose_decoders
from dashboard.widgets.job_panel import POLL_INTERVAL, JobPanel, draw_cancel_button, draw_end, draw_running
from dashboard.widgets.judges import describe_judges, describe_unused, draw_judges
from dashboard.widgets.next_steps import TUNE_SCREEN
from dashboard.widgets.off_topic import list_choices, take_or_await
from dashboard.widgets.own_documents import draw_own_documents, draw_self_rule
from dashboard.widgets.parameters import draw_parameter
from engine.decoder import POOL, SET_SIZE, Decoder
from engine.errors import DataError, FrontierError
from engine.evaluation.curve import Curve
from engine.evaluation.decide import OptionEstimates, build_curve_cell, estimate_on_axes
from engine.evaluation.decision import Decision, describe_tie, list_best_options
from engine.evaluation.frontier import (
    BAND_RESAMPLES,
    TIME_AXIS,
    Frontier,
    FrontierPoint,
    format_axis_title,
    frontier,
    select_best_per_method,
)
from engine.evaluation.metrics import METRICS, available_metrics
from engine.evaluation.paired import format_decoder
from engine.evaluation.runs import RankedRun
from engine.evaluation.statistics import RESAMPLES, ComparisonsByMetric, compare
from engine.evaluation.sweep.cell import Cell
from engine.evaluation.sweep.sweep import grid
from engine.judging.corrected import PairedJudgements
from engine.progress import counted, rough_duration
from engine.space import Space
from engine.stages import Scorer, methods
from engine.values import Embeddings, Qrels, Queries
from engine.wording import format_budget, visible

BOARD, BELOW, PROGRESS = "tradeoff-board", "tradeoff-below", "tradeoff-progress"
LAST = "tradeoff-last"
EMBED_PURPOSE = "tradeoff.embed"
"""Purpose of the job that embeds the queries of a split that is to confirm."""
LAST_CSS = f"<style>.st-key-{LAST} {{opacity: .35; pointer-events: none}}</style>"
"""The chart that stood here before is neither clicked nor dragged while others are measured."""
CONTROLS, SWITCHES, PILLS = "tradeoff-controls", "tradeoff-switches", settings.PICKED_KEY.replace(".", "-")
BUDGET = "tradeoff-budget-place"
COLUMNS = f".st-key-{BOARD} > [data-testid=stLayoutWrapper] > [data-testid=stHorizontalBlock]"
LEFT, RIGHT = (f"{COLUMNS} > [data-testid=stColumn]:{edge}-child" for edge in ("first", "last"))
TRADEOFF_CSS = f"""<style>@media (max-width: 1200px) {{
{COLUMNS} {{flex-wrap: wrap}}
{COLUMNS} > [data-testid=stColumn] {{min-width: 100%; order: 1}}
{LEFT}, {LEFT} > [data-testid=stVerticalBlock] {{display: contents}}
{LEFT} > [data-testid=stVerticalBlock] > * {{flex: 0 0 100%; width: 100%}}
{LEFT} > [data-testid=stVerticalBlock] > :has(> .st-key-{BELOW}) {{order: 2}} }}
{COLUMNS} {{position: relative}}
.st-key-{PROGRESS} [data-testid=stProgress] > div > div {{height: 3px}}
.st-key-{CONTROLS} {{row-gap: .25rem}}
.st-key-{CONTROLS} :is([data-testid=stPopover], [data-testid=stButton]) button {{min-height: 2rem; padding-block: 0}}
.st-key-{CONTROLS} :is([data-testid=stLayoutWrapper], [data-testid=stElementContainer]):has(> style) {{display: none}}
[data-testid=stLayoutWrapper]:has(> .st-key-{SWITCHES}-over) {{position: absolute; z-index: 1; margin-top: -.625rem}}
body:has(.st-key-{verdict.KEY} :is(button, [data-testid=stTooltipHoverTarget]):is(:hover, :focus-visible))
  div:has(> [data-testid=stTooltipContent]) {{translate: 0 calc(100% + 3.25rem)}}
@media (max-width: 640px) {{
  .st-key-{CONTROLS} [data-testid=stPopover] button :is(p, [data-testid=stMarkdownContainer]) {{position: absolute;
    width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%)}}
  .st-key-tradeoff-frontier {{overflow: visible !important; margin-bottom: 1.5rem}}
  .st-key-tradeoff-panels-chart {{height: auto !important; flex: none !important; overflow: visible !important}}
  {RIGHT}, {RIGHT} > [data-testid=stVerticalBlock] {{display: contents}}
  {RIGHT} > [data-testid=stVerticalBlock] > * {{order: 1; flex: 0 0 100%; width: 100%}}
  {RIGHT} > [data-testid=stVerticalBlock] > :is(.st-key-{BUDGET}, :has(> .st-key-{BUDGET})) {{order: -1;
    position: sticky; top: 3.75rem; z-index: 2; background: var(--st-background-color, Canvas)}}
  [data-testid=stLayoutWrapper]:has(> .st-key-{SWITCHES}-over) {{position: static; margin-top: 0}}
  .st-key-{PILLS} {{flex: 1 1 100%; min-width: 0}}
  .st-key-{PILLS}, .st-key-{PILLS} > div {{overflow: hidden}}
  .st-key-{PILLS} [data-testid=stButtonGroup] > div {{flex-wrap: nowrap !important; overflow-x: auto;
    scrollbar-width: none; scroll-snap-type: x proximity}}
  .st-key-{PILLS} button {{flex: none; scroll-snap-align: start}} }}
</style>"""
"""On a small screen the columns are stacked: the chart first, then the sets, then the rest of the first column. On a
phone the budget stands above the chart, whose panels are several screens long, and stays in view beside them. The
decoders scroll sideways there. Help on the verdict's buttons opens below them, as it would hide the sentences."""
CHART_ROWS = ((1, 540),)
"""Boxes in place of the chart, number and height, while it is drawn for the first time."""
OFFER, OFFER_HEIGHT_PX = "tradeoff-offer", 560
"""Key of the outline of the page before anything is measured, and its height."""
OFFER_TEXT = "What does more diversity cost in relevance on this corpus?"
SAMPLE_SIZES = (100, 500, 2000)
MIN_PANEL_METHODS = 4
"""From so many decoders on each has a panel, unless a person asks for one chart."""
DEFAULT_SAMPLE = 500
"""Default sample of the labelled queries: enough for stable means."""


def draw_tradeoff(loaded: Loaded, question: Question | None) -> None:
    """Draw the Trade-off page: choice of queries, decoders and axes, then the measured results.

    loaded: the corpus; question: the current query, None if none was typed or picked
    """
    # A wish to start the job holds for this visit alone: whatever is drawn, a later one must not find it.
    is_asked = bool(st.session_state.pop(selection.START_KEY, False))
    _leave_if_asked()
    st.html(TRADEOFF_CSS + verdict.TURNED_CSS + LAST_CSS)
    # A system is read off its lists alone, without judgements, so it comes before passages take their place.
    controls = st.container(horizontal=True, vertical_alignment="center", gap="small", key=CONTROLS)
    with controls:
        part = choose("Part", settings.PARTS, settings.PART_KEY)
    if part == settings.SYSTEM_PART:
        system.draw_system(loaded, partial(_build_system_sweep, loaded))
        return
    # Without judgements, passages of the corpus are the labelled queries, on this page only.
    with_passages = passage_queries.can_make(loaded)
    if with_passages:
        loaded_with_passages = passages.replace_by_passages(loaded)
        if loaded_with_passages is None:
            verdict.draw_judge_button()
            return
        loaded = loaded_with_passages
        question = question and passages.label_question(loaded, question)
    split, qrels, queries = _get_labelled(loaded)
    if qrels is None:
        _draw_obstacle(loaded, split)
        return
    with controls:
        axes = st.popover("Axes", icon=":material/swap_vert:")
        with st.popover("Setup", icon=":material/tune:"):
            all_split_queries = queries
            values = draw_parameter(N_VALUES, settings.VALUES_KEY)
            # Passages that stand in for judgements were graded by nobody.
            paired = None if with_passages else draw_judges(loaded, split, settings.JUDGES_KEY)
            # A model's queries are all of use: a sample of people's would correct them less well.
            if paired is None and len(queries) > SAMPLE_SIZES[0]:
                queries = _draw_sample(queries)
            scorers = _draw_scorers()
            draw_self_rule(loaded)
            runs.draw_runs(loaded, all_split_queries)
        names = _draw_decoders()
    if with_passages:
        passages.draw_explanation(loaded)
    sweep = _build_sweep(loaded, question, names, scorers, values, (split, qrels, queries))
    if paired is not None:
        sweep = _add_model(sweep, paired)
    if paired is not None or not with_passages:
        _draw_judges_caption(loaded, paired)
    trained.warn_of_leakage(loaded, sweep.queries)
    draw_own_documents(loaded, sweep.queries)
    with axes:
        x, y = _draw_axes(sweep)
    # Only the decoders chosen in Explore and the baseline, the first registered one, are measured without a click.
    starts_unasked = {*decoders.list_chosen(), next(iter(methods("selector")))}.issuperset(names)
    board = _Board(
        loaded=loaded, question=question, sweep=sweep, values=values, x=x, y=y, starts_unasked=starts_unasked,
        is_asked=is_asked, estimate_all=partial(_estimate_all_decoders, sweep, scorers, values, _get_depth(question)),
    )  # fmt: skip
    if with_passages:
        _draw_judge_step(controls, board)
    _draw_board(board)


def _draw_judges_caption(loaded: Loaded, paired: PairedJudgements | None) -> None:
    """Say whose judgements count, a model's beside people's or people's alone, where there is something to say."""
    judges_text = describe_unused(loaded, settings.JUDGES_KEY) if paired is None else describe_judges(paired)
    if judges_text:
        st.caption(judges_text)


def _leave_if_asked() -> None:
    """Switch to the page that a button of the last run asked for, if one did."""
    destination = st.session_state.pop(selection.LEAVE_KEY, None)
    if destination == JUDGE:
        st.switch_page(decoders.DATA_SCREEN)
    elif destination == TUNE:
        st.switch_page(TUNE_SCREEN)
    elif destination is not None:
        # A switch of pages needs a run of the whole page: in a fragment's run the sidebar would lose its question.
        decoders.open_explore()


def _draw_decoders() -> list[str]:
    """Draw the choice of decoders; return their names, by default those of Explore and the baseline."""
    specs = methods("selector")
    st.session_state.setdefault(settings.PICKED_KEY, settings.get_default(settings.PICKED_KEY))
    return choose_decoders(
        "Decoders",
        {name: spec.title for name, spec in specs.items()},
        settings.PICKED_KEY,
        # The session has the first choice, which links and resets know.
        default=(),
        show_label=False,
        help="Each is measured over its parameters' usual values, and as it is set in Explore. The first is "
        "always there: what the others are compared with.",
    )


def _get_labelled(loaded: Loaded) -> tuple[str, Qrels | None, Queries]:
    """Return the split chosen in the sidebar, its judgements and its labelled queries.

    They are "", None and no queries if nothing is judged, or if the queries have no vectors and no encoder. The
    judgements are None if the split has no judged query.
    """
    dataset, splits = loaded.dataset, list(loaded.dataset.qrels)
    if not splits or not loaded.has_query_vectors:
        return "", None, Queries((), ())
    chosen_split: str | None = st.session_state.get(f"split.{corpus_key(loaded)}")
    split = chosen_split if chosen_split in splits else find_first_split(dataset) or splits[0]
    queries = dataset.judged(split)
    return split, dataset.qrels[split] if len(queries) else None, queries


def _draw_sample(queries: Queries) -> Queries:
    """Draw the choice of how many labelled queries are measured; return a random sample of that size."""
    # The full set is always offered, whatever its size.
    sizes = [*(size for size in SAMPLE_SIZES if size < len(queries)), len(queries)]
    default_size = DEFAULT_SAMPLE if DEFAULT_SAMPLE in sizes else len(queries)
    # Stored for links and resets, which must know the default; it depends on the number of queries.
    st.session_state[settings.FIRST_SAMPLE_KEY] = default_size
    restore.check_setting(settings.SAMPLE_KEY, sizes.__contains__, f"{default_size:,} are drawn")
    if st.session_state.get(settings.SAMPLE_KEY) not in sizes:  # of another corpus, or none yet
        st.session_state[settings.SAMPLE_KEY] = default_size
    sample_size = st.select_slider(
        "Labelled queries",
        sizes,
        key=settings.SAMPLE_KEY,
        persist_state="session",
        format_func=lambda n: f"all {n:,}" if n == len(queries) else f"{n:,}",
        help="Fewer are drawn at random, always the same ones.",
    )
    return queries.sample(sample_size)


def _draw_axes(sweep: Sweep) -> tuple[str, str]:
    """Draw the choice of the chart's two axes; return them as metrics' names, x first.

    The horizontal axis may be time as well.
    """
    metrics = [metric for metric in sweep.metrics if not METRICS[metric].lower_is_better]
    why = "; ".join(f"{METRICS[metric].title}: {METRICS[metric].formula}" for metric in metrics)

    def draw_axis(label: str, key: str, options: list[str]) -> str:
        """Draw the choice of the metric on one axis, by the setting's session key; return the metric's name."""
        default: str = settings.get_default(key)
        # A link may name a metric that this corpus does not have.
        restore.check_setting(key, options.__contains__, f"{format_axis_title(default)} is taken")
        return select(label, options, key, default=default, format_func=format_axis_title, help=why)

    x = draw_axis("x axis", settings.X_AXIS_KEY, [*metrics, TIME_AXIS])
    return x, draw_axis("y axis", settings.Y_AXIS_KEY, metrics)


def _build_sweep(
    loaded: Loaded,
    question: Question | None,
    method_names: list[str],
    scorers: list[Scorer],
    values: int,
    split_data: tuple[str, Qrels, Queries],
    k: int | None = None,
) -> Sweep:
    """Collect what is measured: decoders, queries with vectors, and metrics.

    values: how many values of each parameter are measured; split_data: name of the split, its judgements and its
    queries; k: size of the sets, by default the question's
    """
    if k is None:
        session_k = st.session_state.get(decoders.K_KEY, SET_SIZE.default)
        k = question.k if question is not None else min(session_k, find_max_k(loaded))
    measured, reasons = _list_decoders(loaded.space, method_names, scorers, values, _get_depth(question))
    if reasons:
        st.text("Left out: " + "; ".join(reasons))
    split, qrels, queries = split_data
    vectors = find_query_vectors(loaded, queries)
    # Before the queries are embedded, any vector shows which metrics will be available.
    sample = Embeddings(("",), loaded.space.embeddings.vectors[:1]) if vectors is None else vectors
    source = None if loaded.reach is not None else decoders.find_source_column(loaded.space.corpus.metadata)
    metrics = available_metrics(qrels, loaded.dataset.aspects, sample, source)
    # Where near-duplicates are left out of the corpus, Redundancy counts from the same cosine on.
    threshold = loaded.source.duplicate_threshold
    return Sweep(
        loaded=loaded, decoders=measured, queries=queries, vectors=vectors, qrels=qrels, split=split, k=k,
        metrics=metrics, source=source, duplicate_threshold=threshold,
    )  # fmt: skip


def _estimate_all_decoders(sweep: Sweep, scorers: list[Scorer], values: int, depth: int | None) -> float:
    """Estimate the seconds that measuring every other decoder would take beyond a sweep.

    0 if they are measured, or if one of them cannot be: then measuring them says why.
    """
    all_decoders, _ = _list_decoders(sweep.loaded.space, list(methods("selector")), scorers, values, depth)
    full_sweep = sweep.with_decoders(all_decoders)
    # Which cells are missing is read from the file, and a new pace shows that something was measured since.
    key = "seconds", full_sweep.key, sweep.key, sweeps.get_pace(sweep)
    try:
        return get_or_compute(selection.MEMORY_KEY, key, lambda: sweeps.estimate_seconds(full_sweep, begun=sweep))
    except FrontierError:
        return 0.0


def _get_depth(question: Question | None) -> int | None:
    """Return how many candidates a decoder chooses from, None for all: the question's, or else the setting's."""
    if question is not None:
        return question.depth
    depth: int | None = st.session_state.get(decoders.POOL_KEY, POOL.default)
    return depth


def _add_model(sweep: Sweep, paired: PairedJudgements) -> Sweep:
    """Return a sweep of the queries that people graded wholly, with that of the queries that a model graded."""

    def judge_by(qrels: Qrels) -> dict[str, Any]:
        """Return the fields that differ between the judges."""
        queries = paired.queries.only(qrels.grades)
        return {"queries": queries, "qrels": qrels, "vectors": find_query_vectors(sweep.loaded, queries)}

    # Both judge the same settings, each on its own queries.
    model = replace(sweep, judge=paired.judge, **judge_by(paired.model))
    return replace(sweep, model=model, **judge_by(paired.people))


def _build_system_sweep(loaded: Loaded, split: str, queries: Queries, k: int) -> Sweep:
    """Collect what another system is compared with: the decoders chosen for the frontier, on its queries at its k."""
    session, specs = st.session_state, decoders.list_scorers(decoders.RETRIEVE)
    # The controls of the frontier are not drawn beside a system, but their values stay.
    method_names = session.get(settings.PICKED_KEY) or settings.get_default(settings.PICKED_KEY)
    scorer_names = session.get(settings.SCORERS_KEY) or settings.get_default(settings.SCORERS_KEY)
    scorers = [specs[name].cls() for name in scorer_names if name in specs]
    values = session.get(settings.VALUES_KEY, N_VALUES.default)
    split_data = split, loaded.dataset.qrels[split], queries
    return _build_sweep(loaded, None, method_names, scorers, values, split_data, k)


def _draw_scorers() -> list[Scorer]:
    """Draw the choice of scorers, which estimate relevance; every decoder is measured with each of them.

    Return them with their default parameters.
    """
    specs = decoders.list_scorers(decoders.RETRIEVE)
    help_text = (
        "Relevance comes from these, similarity between documents always from the dense vectors. A decoder is "
        "measured behind each, and behind the scorers that it has in Explore."
    )
    scorer_names = choose_several(
        "Scorers",
        specs,
        settings.SCORERS_KEY,
        default=[next(iter(specs))],
        format_func=lambda scorer_name: specs[scorer_name].title,
        help="\n\n".join([help_text, *(f"**{spec.title}** {spec.summary}" for spec in specs.values())]),
    )
    return [specs[scorer_name].cls() for scorer_name in scorer_names]


def _list_decoders(
    space: Space, method_names: list[str], scorers: list[Scorer], values: int, depth: int | None
) -> tuple[tuple[Decoder, ...], list[str]]:
    """Return the decoders to measure, the baseline first, and why others are left out.

    Each selector is measured over its parameters' usual values, and as set in Explore, behind each of the
    scorers. values: how many values of each parameter; depth: how many candidates a decoder chooses from,
    None for all
    """
    specs, chosen = methods("selector"), decoders.list_chosen()
    first_name = next(iter(specs))
    # The baseline is always measured, as everything is compared with it.
    settings = [decoders.add_limits(decoders.make_baseline(depth))]
    reasons: dict[tuple[Scorer, Scorer | None], str] = {}
    unlimited = decoders.explain_unlimited(method_names)
    for name in dict.fromkeys([first_name, *method_names]):
        if unlimited is not None and not specs[name].cls.sequential:
            continue
        explore_decoder = decoders.get_decoder(name)
        stages = read_column(grid(name, values), "select") + ([explore_decoder.select] if name in chosen else [])
        # A chain is a retriever with a reranker; None stands for no reranker.
        chains: list[tuple[Scorer, Scorer | None]] = list(zip(scorers, repeat(None)))
        if name in method_names and name in chosen:
            chains.append((explore_decoder.retrieve, explore_decoder.rerank))
        for chain in chains:
            # The reason is asked once per chain of scorers, as all selectors share it.
            decoder = decoders.build_decoder(stages[0], *chain, depth)
            if chain not in reasons and (reason := decoders.explain_lack(decoder, space)):
                reasons[chain] = reason
        settings += [
            decoders.add_limits(decoders.build_decoder(stage, retrieve, rerank, depth))
            for retrieve, rerank in dict.fromkeys(chains)
            if (retrieve, rerank) not in reasons
            for stage in stages
        ]
    return tuple(dict.fromkeys(settings)), list(dict.fromkeys(filter(None, [unlimited, *reasons.values()])))


def _draw_obstacle(loaded: Loaded, split: str) -> None:
    """Draw why nothing can be measured on this corpus, and what to do.

    split: the part of the labelled queries that is chosen, "" for none
    """
    if not loaded.has_query_vectors:
        reason = (
            "This corpus came with its own vectors, so there is no encoder to embed queries with, and they have no "
            "vectors of their own: they cannot be measured."
        )
        remedy = (
            "Load it with theirs (query_vectors.npy beside queries.jsonl, or the file named in the form), or load the "
            "texts and choose an encoder."
        )
    elif split:
        reason = f"No query of {visible(split)} is judged, so nothing says which documents are right."
        remedy = "Choose another split with the query above, or judge what the decoders return."
    else:
        reason = "This corpus has no judgements, so nothing says which documents are right."
        remedy = "Judge what the decoders return, or put judgements in qrels/ beside the corpus."
    st.info(reason, icon=":material/school:")
    st.text(remedy)
    # Without vectors of queries people cannot judge either.
    if loaded.has_query_vectors:
        verdict.draw_judge_button()
    elif st.button("Load a corpus", type="primary", key="tradeoff.load"):
        st.switch_page(decoders.DATA_SCREEN)


@dataclass(frozen=True, eq=False, kw_only=True)
class _Board:
    """Question that the controls put: what is measured, and what is drawn of it."""

    loaded: Loaded
    question: Question | None  # the current query, None without one
    sweep: Sweep
    values: int  # how many values of each parameter are measured
    x: str  # name of the metric on the horizontal axis, or of time
    y: str
    starts_unasked: bool  # only decoders of Explore and the baseline, so that a short job may start without a click
    is_asked: bool  # a button on the page has asked for the job
    estimate_all: Callable[[], float]  # the seconds that measuring the decoders that are not chosen would take


def _draw_board(board: _Board) -> None:
    """Draw the finished results; offer or run the job that measures the missing ones."""
    sweep, draw_results = board.sweep, partial(st.fragment(_draw_results), board)
    try:
        cells = sweeps.find_cells(sweep)
    except FrontierError as error:
        show_failure("This cannot be measured.", error)
        return
    # Finished cells are drawn while the job measures the others.
    if cells.missing:
        n_missing = sweep.n_settings - sweep.count_measured(cells.points)
        start_label = f"Measure {counted(n_missing, 'setting')}" if n_missing else "Measure the rest"
        panel = JobPanel(
            purpose=sweeps.SWEEP_PURPOSE,
            key=sweep.key,
            title="Measuring the trade-off",
            work=partial(sweeps.run_sweep, sweep),
            start_label=start_label if cells.job is None else "Resume",
            offer_text=_describe_missing(sweep, cells),
            autostart=False,
            on_partial=lambda _: draw_results(),
            # Where the verdict is complete, using its choice is the page's one primary button.
            button_kind="secondary" if _is_complete(board, cells) else "primary",
            failed_text="Measuring ended early; what is finished is kept.",
        )
        is_quick, is_free = (
            board.starts_unasked and sweeps.is_small(sweep),
            jobs.find_blocker(sweeps.SWEEP_PURPOSE) is None,
        )
        # Without a click: a short job that has not run yet, if no other one is in its way. "Compare all" names the time
        # and needs no second click; behind another job it waits.
        starts_itself = is_quick and is_free and panel.job is None
        if starts_itself or (board.is_asked and (panel.job is None or not panel.job.is_active)):
            panel.start_job()
        if (job := panel.job) is not None and job.is_active:
            _draw_measuring(job, draw_results)
            return
        # Nobody has started anything yet: what will be seen stands behind the button that brings it.
        if not cells.points and job is None:
            _draw_offer(board, panel)
            return
        if panel.draw_until_result() is None and job is not None and job.partial:
            return  # the panel draws it
    draw_results()


def _draw_offer(board: _Board, panel: JobPanel[Any]) -> None:
    """Draw what will be measured and how long that takes, over the outline of the page; compare all, or what is chosen.

    panel: of the job that measures the chosen decoders
    """
    n_chosen, names = len(st.session_state.get(settings.PICKED_KEY, ())), methods("selector")
    is_partial = n_chosen < len(names)
    with skeleton.open_ghost(OFFER, draw_frontier_ghost(is_dark()), OFFER_HEIGHT_PX):
        st.text(OFFER_TEXT)
        st.caption(visible(panel.offer_text))
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            if is_partial:
                verdict.draw_compare_all(board.estimate_all, "primary")
            kind: Literal["primary", "secondary"] = "secondary" if is_partial else "primary"
            replace(panel, offer_text="", button_kind=kind).draw_until_result()


def _draw_judge_step(controls: Any, board: _Board) -> None:
    """Draw the button that goes to Judge among the controls of passages, as what to do next once there is a verdict."""
    # Passages cannot tell if lists stay on topic. While settings are to be measured, that is the next step.
    with controls:
        verdict.draw_judge_button("primary" if _has_complete_verdict(board) else "secondary")


def _has_complete_verdict(board: _Board) -> bool:
    """Return True if all of the grid is measured, and no job at work on it."""
    try:
        cells = sweeps.find_cells(board.sweep)
    except FrontierError:
        return False
    return bool(cells.points) and not cells.running and _is_complete(board, cells)


def _is_complete(board: _Board, cells: Cells) -> bool:
    """Return True if all of the grid is measured: the verdict is not "so far" for want of one setting beside it.

    A setting brought from Explore may have other values than the grid, which are those usual for a parameter.
    """
    if not cells.missing:
        return True
    sweep = board.sweep
    # Without all of the model's judgements people's alone count, which may choose another setting.
    if sweep.model is not None and cells.model is None:
        return False
    names = dict.fromkeys(each.select.spec.name for each in sweep.decoders)
    stages = {stage for name in names for stage in read_column(grid(name, board.values), "select")}
    on_grid = [each for each in sweep.decoders if each.select in stages]
    if not {each.label for each in on_grid}.issubset(read_column(cells.points, "label")):
        return False
    paths = sweep.with_decoders((sweep.baseline, *on_grid)).exact_decoders
    return all(any(curve.has(each) for curve in cells.curves) for each in paths)


@st.fragment(run_every=POLL_INTERVAL)
def _draw_measuring(job: Job, draw: Callable[[], None]) -> None:
    """Draw the progress of the measuring job above the results so far, every second, until it ends.

    draw: draws the results
    """
    if not job.is_active:
        # The full page then draws the end of the job.
        st.rerun()
    progress = job.progress
    with st.container(key=PROGRESS, horizontal=True, vertical_alignment="center", gap="small"):
        # The label says what is counted: settings, and then the queries of an exact curve.
        counts = f"{progress.done:,} of {progress.total:,} {progress.label}"
        st.text(visible(counts) if progress.total else progress.label, width="content")
        st.progress(progress.bar_share)
        draw_cancel_button(job, f"{sweeps.SWEEP_PURPOSE}.cancel")
    draw()


def _describe_missing(sweep: Sweep, cells: Cells) -> str:
    """Describe in a sentence the settings and curves not measured yet, and how much work they are.

    A curve is a decoder at every λ. cells: what is measured already
    """
    n_settings = sweep.n_settings - sweep.count_measured(cells.points)
    n_curves = len(sweep.exact_decoders) - len(cells.curves)
    parts = [f"{n_settings:,} of {sweep.n_settings:,} settings"] if n_settings else []
    parts += [f"every λ of {counted(n_curves, 'decoder')}"] if n_curves else []
    if not parts and len(cells.points) < len(sweep.decoders):
        parts = ["the baseline"]
    size_text = f"{len(sweep.queries):,} queries × {len(sweep.loaded.space):,} documents"
    if sweep.model is not None and cells.model is None:
        parts += [] if parts else ["all settings"]
        size_text += visible(f", and the {len(sweep.model.queries):,} queries that {sweep.model.judge} graded")
    has_vectors = all(part.vectors is not None for part in sweep.parts)
    if seconds := sweeps.estimate_seconds(sweep):
        size_text += f" · about {rough_duration(seconds)}{'' if has_vectors else ' once the queries are embedded'}"
    text = f"{' and '.join(parts)} to measure · {size_text}."
    if sweep.n_pairs:
        text += f" A model reads up to {sweep.n_pairs:,} pairs of query and document, which takes long."
    return text


@dataclass(frozen=True, eq=False, kw_only=True)
class _Results:
    """Finished measurements, as the parts of the page take them; the parts share the open setting."""

    sweep: Sweep  # what is measured
    cells: Cells  # the measurements, with those of other systems
    frontier: Frontier  # the settings as points of the chart
    exact: list[Curve]  # curves at every λ over the points' queries
    base: FrontierPoint | None  # of the baseline
    rows: ComparisonsByMetric  # comparisons with the baseline, by metric and label
    systems: Mapping[str, Decoder | RankedRun]  # label → what was measured
    estimates: OptionEstimates | None  # the last while measuring; None for one query, where nothing can be kept
    decision: Decision | None  # at the chosen budget; None without estimates
    refusal: str  # why a model's judgements are not counted, "" where they are or there are none

    @property
    def labels(self) -> list[str]:
        """The labels of all points."""
        return read_column(self.frontier.points, "point.label")

    def find_place(self, label: str) -> tuple[str, float | None] | None:
        """Find where a setting lies on the chart: on a point, or on an exact curve between two points.

        Return the point's label and None, or the label of the nearest point of the curve and the setting's value of λ;
        None for a setting that is on neither.
        """
        if label in self.labels:
            return label, None
        decoder = None if self.estimates is None else self.estimates.find_decoder(label)
        if decoder is None:
            return None
        candidates = []
        for point in self.frontier.points:
            curve = find_curve(point, self.frontier, self.exact)
            if curve is not None and curve.has(decoder):
                value = getattr(decoder.select, curve.parameter)
                candidates.append((abs(point.point.decoder["select"][curve.parameter] - value), point, value))
        if not candidates:
            return None
        # The nearest point stands for the setting where only measured settings can be compared, as query by query.
        _, point, value = min(candidates, key=itemgetter(0))
        return point.point.label, value


def _draw_results(board: _Board) -> None:
    """Draw what is measured so far, or boxes in its place; a click draws only this anew."""
    # A click inside this fragment may concern the full page, such as the query in the sidebar.
    if st.session_state.pop(selection.REDRAW_KEY, False):
        st.rerun()
    cells = sweeps.find_cells(board.sweep)
    if not cells.points:
        # Before the first setting is measured; what nobody has started has no place yet.
        if cells.running:
            _draw_last_chart(board.loaded)
        else:
            # There is no verdict yet, which has the button otherwise.
            verdict.draw_compare_all(board.estimate_all)
        return
    body = st.container()
    # Estimating takes a second in a new session: what comes has its place until then, below, where it leaves no gap.
    parts = f".st-key-{verdict.KEY}, .st-key-{BOARD}"
    slot = skeleton.draw_first(BOARD, skeleton.TRADEOFF_ROWS, parts, "Estimating what each setting keeps")
    with body:
        _draw_cells(board, cells)
    slot.empty()


def _draw_last_chart(loaded: Loaded) -> None:
    """Draw the chart that stood here before, dimmed, until the first setting is measured; boxes without one."""
    digest, figure = st.session_state.get(selection.LAST_CHART_KEY, ("", None))
    # Another corpus has other axes and other settings.
    if figure is None or digest != loaded.space.embeddings.digest:
        skeleton.draw_boxes(skeleton.TRADEOFF_ROWS)
        return
    with st.container(key=LAST):
        plot(figure, "tradeoff.last.chart", label="The chart of the last settings, while others are measured")
    st.caption("Dimmed: the chart of the last settings, until the first of the new ones is measured.")


def _draw_cells(board: _Board, cells: Cells) -> None:
    """Draw verdict, chart, tables and sets of the finished measurements, the cells."""
    loaded, sweep = board.loaded, board.sweep
    try:
        results = _collect_results(loaded, sweep, cells, board.x, board.y)
    except FrontierError as error:
        st.info("No setting has both metrics. Choose another axis.", icon=":material/info:")
        st.text(error.finding)
        return
    _draw_uncounted(sweep, cells, results.refusal)
    results, verdict_data = _draw_verdict(board, results, cells)
    decision, base = results.decision, results.base
    opened, curve = _find_opened(results, is_complete=not cells.missing)
    has_differences = base is not None and len(results.labels) > 1 and len(sweep.queries) > 1
    if not cells.running:
        _remember_results(loaded, results)
    with st.container(key=BOARD):
        chart_column, side_column = st.columns([3, 2], gap="medium")
    with chart_column:
        _draw_chart(loaded, results, opened, curve)
        if has_differences and base is not None and not cells.running:
            with st.container(key=BELOW):
                data = differences.DifferenceData(
                    sweep=sweep,
                    cells=results.cells,
                    frontier=results.frontier,
                    baseline=base,
                    rows=results.rows,
                    best=_list_best_cells(results, base),
                    compared=_find_compared(results, opened),
                )
                differences.draw_differences(loaded, data)
    with side_column:
        if decision is not None and base is not None:
            verdict.draw_choices(verdict_data)
            with st.container(key=BUDGET):
                verdict.draw_budget(results.frontier, base)
            verdict.draw_best(results.frontier, decision, results.estimates, selection.get_pinned())
        order = () if base is None else differences.order_queries(sweep, results.frontier, base, opened.cell, board.y)
        draw_sets = partial(point_sets.draw_sets, has_use=not _is_choice(opened, decision))
        draw_sets(loaded, board.question, sweep, results.frontier, opened, curve, order)


def _remember_results(loaded: Loaded, results: _Results) -> None:
    """Keep the measured settings and their decision for the report of the menu Share."""
    if results.base is None or len(results.labels) < 2:
        return
    estimates, decision = results.estimates, results.decision
    remember_measured(
        loaded,
        MeasuredSweep(
            cells=results.cells.points, x=results.frontier.x, y=results.frontier.y, k=results.frontier.k,
            baseline=results.base.point.label, curves=results.exact,
            decided=None if estimates is None or decision is None else (estimates, decision),
        ),
    )  # fmt: skip


def _draw_verdict(board: _Board, results: _Results, cells: Cells) -> tuple[_Results, dict[str, Any]]:
    """Draw the verdict, after what another split says of it if that was asked for.

    Return the results with the decision that was drawn, and what the browser draws of it, {} without a decision.
    cells: without other systems
    """
    loaded, is_complete = board.loaded, _is_complete(board, cells)
    sweep, estimates, decision = results.sweep, results.estimates, results.decision
    if estimates is None or decision is None:
        return results, {}
    other_split = confirmations.find_other_split(loaded, sweep.split)
    if other_split is not None:
        decision = _confirm_if_asked(results, decision, other_split)
    if not cells.running:
        choices, names = list_choices(decision), (decision.baseline, sweep.baseline)
        counts = find_counts(loaded, names, choices, sweep.vectors, sweep.qrels, sweep.k)
        decision = replace(decision, off_topic=take_or_await(counts))
    # Tune names this choice with what the other split says of it.
    tuned_text = _describe_tuned(loaded, results, is_complete, decision)
    opened_text = "" if other_split is None else _describe_openings(loaded, decision, other_split)
    remark = " ".join(filter(None, [_describe_limits(sweep, cells, decision), tuned_text, opened_text]))
    chart = FrontierChart(
        frontier=results.frontier, dark=False, share=decision.keep, estimates=estimates, exact=results.exact,
        pinned=selection.get_pinned(),
    )  # fmt: skip
    # Both parts of the verdict, above the board and in it, show the same choices at every budget.
    verdict_data = build_verdict_data(estimates, decision, is_dark(), describe_scope(estimates))
    runs_by_label = {name: run for name, run in results.systems.items() if isinstance(run, RankedRun)}
    request = build_request(loaded, estimates, decision.keep, runs_by_label)
    verdict.draw_verdict(
        loaded,
        chart,
        decision,
        verdict_data,
        # Beside the running job nothing else is measured.
        None if cells.running else other_split,
        remark,
        request,
        is_complete,
        board.estimate_all,
        has_one_split=not decision.is_on_passages and not _list_other_splits(loaded, sweep.split),
    )
    if other_split is None and not cells.running:
        _draw_embedding_step(loaded, sweep)
    return replace(results, decision=decision), verdict_data


def _describe_openings(loaded: Loaded, decision: Decision, other_split: str) -> str:
    """Describe that Tune has asked the split that can confirm before, as it is sealed once; "" where it has not."""
    n_tuned = confirmations.count_by_page(loaded, other_split).get(confirmations.TUNE_TITLE, 0)
    if not n_tuned or decision.confirm_split is not None:
        return ""
    times = {1: "once", 2: "twice"}.get(n_tuned, f"{n_tuned:,} times")
    return f"{other_split[:1].upper()}{other_split[1:]} was used {times} before, on Tune."


def _is_choice(opened: OpenSetting, decision: Decision | None) -> bool:
    """Return True if the open setting is the verdict's choice, which the verdict's own button uses."""
    choice = None if decision is None else decision.sure or decision.bet
    return choice is not None and choice.label == opened.system.label


def _draw_uncounted(sweep: Sweep, cells: Cells, refusal: str) -> None:
    """Draw why a model's judgements do not count, where that is so; refusal: the reason, if they cannot."""
    if sweep.model is None:
        return
    judge = sweep.model.judge
    if cells.model is None:
        st.text(visible(f"Nothing is measured by {judge} yet: people's judgements alone count below."))
    elif refusal:
        st.text(visible(f"{judge} does not count here: {refusal}."))


def _describe_limits(sweep: Sweep, cells: Cells, decision: Decision) -> str:
    """Return sentences on what a verdict depends on: ties, how judgements count, and settings not measured yet."""
    sentences = list(filter(None, [describe_tie(decision)]))
    # The verdict has named what another level would choose: this says which of both to use.
    if decision.differs_at_next_level:
        level = decision.relevant_from
        sentences.append(f"What counts is the level that is set, grade {level} (Data, Relevant from).")
    if decision.is_pooled and decision.left_out and not decision.is_declared:
        sentences.append("Whether judgements are complete is declared on Data (Judgements).")
    if (pin := selection.find_pin()) is not None:
        sentences.append(_describe_pin(pin, decision))
    n_measured = sweep.count_measured(cells.points)
    if n_measured < sweep.n_settings:
        # An estimate of all takes long, so meanwhile the verdict is that of what was measured before.
        rest = ", and the verdict follows when all are" if cells.running else ""
        sentences.append(f"{n_measured:,} of {sweep.n_settings:,} settings are measured so far{rest}.")
    return " ".join(sentences)


def _describe_pin(pin: selection.PinnedSetting, decision: Decision) -> str:
    """Describe why the sure setting is that of a higher budget: "This is the setting chosen for 95%; test …"."""
    chosen_text = f"This is the setting chosen for {format_budget(pin.chosen_share)}"
    if decision.sure is None or not decision.sure.confirmed:
        return f"{chosen_text}."
    return f"{chosen_text}; {decision.confirm_split} proves that it keeps {decision.budget_text}."


def _describe_tuned(loaded: Loaded, results: _Results, is_complete: bool, decision: Decision) -> str:
    """Remember the verdict's choice for Tune; describe what Tune chose for the same question in this session.

    "" without that, or on other axes. is_complete: all of the grid is measured; decision: after what another split says
    of it, if that was asked for
    """
    # Tune's goal with a bound is diversity, of which Recall is kept.
    if results.estimates is None or (decision.objective, decision.metric) != (settings.X_METRIC, settings.Y_METRIC):
        return ""
    sure, set_size = decision.sure, results.sweep.k
    status = "" if sure is None else sure.describe_confirmation(decision.confirm_split or "")
    choice = PageChoice(
        name="no setting" if sure is None else sure.name, n_queries=decision.queries,
        queries_digest=digest_query_ids(results.estimates.aligned.queries), split=decision.split, status=status,
    )  # fmt: skip
    if is_complete:
        remember_choice(loaded, TRADEOFF, set_size, decision.keep, choice)
    return describe_other_choice(loaded, TUNE, set_size, decision.keep, choice)


def _collect_results(loaded: Loaded, sweep: Sweep, cells: Cells, x: str, y: str) -> _Results:
    """Collect what the page draws of finished measurements.

    Raises FrontierError if no setting has the metrics of both axes. cells: the measured settings with their metrics by
    query, and exact curves, which have the metrics at every value of λ; x, y: names of the metrics on the axes
    """
    _split, _qrels, queries = _get_labelled(loaded)
    # Label → uploaded run of another system and its measurement, which joins the settings'.
    other_systems = _other_systems(loaded, sweep, queries)
    cells = replace(cells, points=(*cells.points, *map(itemgetter(1), other_systems.values())))
    if cells.model is not None and sweep.model is not None:
        # The model judges the same systems, on its own queries.
        model_systems = _other_systems(loaded, sweep.model, sweep.model.queries)
        cells = replace(cells, model=(*cells.model, *map(itemgetter(1), model_systems.values())))
    keys = tuple(read_column(cells.points, "key"))
    # Bands of incomplete results may be coarse.
    resamples = RESAMPLES.low if cells.running else BAND_RESAMPLES
    # Bootstrap intervals take the time: they are cached by cells and axes.
    points = get_or_compute(
        selection.MEMORY_KEY,
        (sweep.key, x, y, keys, cells.running),
        lambda: frontier(cells.points, x, y, sweep.k, resamples=resamples),
        MAX_SHARED,
        is_shared=True,
    )
    base = selection.find_point(points, sweep.baseline.label)
    # Curves over other queries than the points' would not pass through them.
    exact = [curve for curve in cells.curves if not curve.left_out and len(curve.queries) == points.queries]
    estimates, refusal, labels = None, "", frozenset(read_column(points.points, "point.label"))
    if cells.running:
        # An estimate of all settings takes long, so the last one stands meanwhile, marked as such.
        estimates = _find_last_estimates(
            _get_data_key(sweep, points), labels.union(read_column(sweep.decoders, "label"))
        )
    if base is not None and len(points.points) > 1 and not cells.running and points.queries > 1:
        curve_keys = tuple(read_column(exact, "key"))
        estimates, refusal = get_or_compute(
            selection.MEMORY_KEY,
            ("estimates", sweep.key, x, y, keys, curve_keys, _list_keys(cells.model)),
            lambda: _estimate(points, exact, base.point, cells.model),
            MAX_SHARED,
            is_shared=True,
        )
        st.session_state[selection.LAST_KEY] = _get_data_key(sweep, points), labels, estimates
    decoders_by_label = dict(zip(read_column(sweep.decoders, "label"), sweep.decoders, strict=True))
    runs_by_label = {run_label: run for run_label, (run, _) in other_systems.items()}
    return _Results(
        sweep=sweep, cells=cells, frontier=points, exact=exact, base=base, estimates=estimates,
        rows=_compare_settings(sweep, cells, points, base, None if refusal else cells.model),
        systems={**decoders_by_label, **runs_by_label},
        decision=None if estimates is None else _decide(estimates), refusal=refusal,
    )  # fmt: skip


def _list_keys(model: Sequence[Any] | None) -> tuple[Any, ...] | None:
    """Return the keys of the settings by a model's judgements; None without one."""
    return None if model is None else tuple(read_column(model, "key"))


def _decide(estimates: OptionEstimates) -> Decision:
    """Decide at the budget that is set, for the setting that stays the sure one there if there is one."""
    return estimates.decide(selection.get_budget(), pinned=selection.get_pinned())


def _get_data_key(sweep: Sweep, points: Frontier) -> tuple[Any, ...]:
    """Return the key of all that estimates depend on but the decoders, which come last in the cells' key."""
    judged = [part.cells_key[:-1] for part in sweep.parts]
    return *judged, points.x, points.y, points.queries


def _find_last_estimates(data_key: tuple[Any, ...], labels: frozenset[str]) -> OptionEstimates | None:
    """Find the last estimates if they hold while more is measured: on the same data, of some of these settings.

    Decoders may have been added since, which the estimates do not know. labels: of what is measured or will be
    """
    last: tuple[Any, frozenset[str], OptionEstimates] | None = st.session_state.get(selection.LAST_KEY)
    return last[2] if last is not None and last[0] == data_key and last[1] <= labels else None


def _estimate(
    points: Frontier, exact: Sequence[Curve], baseline: Any, model_points: Sequence[Any] | None
) -> tuple[OptionEstimates | None, str]:
    """Estimate the settings by people's judgements and a model's; return them, and why the model does not count or "".

    model_points: the settings by the model's judgements, None without a model
    """
    if model_points is not None and METRICS[points.y].needs == "qrels":
        try:
            return estimate_on_axes(points, exact, baseline, model_points), ""
        except DataError as error:
            return estimate_on_axes(points, exact, baseline), error.finding
    return estimate_on_axes(points, exact, baseline), ""


def _list_best_cells(results: _Results, base: FrontierPoint) -> list[Any]:
    """Return the best setting of each decoder, as its metrics by query: those of the table beside the chart.

    An exact curve's is often between two points. Without a decision only points can be compared.
    """
    decision, estimates = results.decision, results.estimates
    if decision is None or estimates is None:
        best = select_best_per_method(results.frontier, base.point.label, selection.get_budget())[1:]
        return read_column(best, "point")
    labels = read_column(list_best_options(decision), "label")
    # The baseline is the first cell.
    return [estimates.aligned.cells[estimates.position_of[label] + 1] for label in labels]


def _list_other_splits(loaded: Loaded, split: str) -> list[str]:
    """Return the judged splits beside one; as for a split that can confirm, "test" comes first."""
    names = [name for name in loaded.dataset.qrels if name != split and len(loaded.dataset.judged(name))]
    return sorted(names, key=lambda name: name != "test")


def _draw_embedding_step(loaded: Loaded, sweep: Sweep) -> None:
    """Say that the queries of another split need vectors before it can confirm a choice, and offer to embed them.

    Nothing is drawn without another split that is judged.
    """
    names = _list_other_splits(loaded, sweep.split)
    if not names:
        return
    queries = loaded.dataset.judged(names[0])
    reason = f"{names[0]} could confirm the choice, but its {len(queries):,} queries have no vectors yet."
    if loaded.space.encoder is None:
        st.text(visible(f"{reason} Load the corpus with them (query_vectors.npy beside queries.jsonl)."))
        return
    panel = JobPanel(
        purpose=EMBED_PURPOSE,
        key=(loaded.space.embeddings.digest, queries.digest),
        title="Embedding queries",
        work=partial(embed_missing, loaded, queries),
        autostart=False,
    )
    job = panel.job
    if job is not None and job.is_active:
        draw_running(job, f"{EMBED_PURPOSE}.cancel")
        return
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        st.text(visible(reason), width="content")
        if st.button(f"Embed {counted(len(queries), 'query', 'queries')}", key="tradeoff.embed.start"):
            panel.start_job()
            st.rerun()
    if job is not None and job.error:
        draw_end(job, "The queries could not be embedded.")


def _confirm_if_asked(results: _Results, decision: Decision, other_split: str) -> Decision:
    """Return the decision with what another split says of it, if that was asked for, in this session or an earlier one.

    other_split: whose queries can confirm the choice
    """
    if decision.sure is None and decision.bet is None:
        return decision
    confirming = confirmations.build_confirming(results.sweep, decision, other_split)
    if selection.is_asked_to_confirm(decision):
        confirmations.mark_confirmed(confirming)
    elif not confirmations.was_confirmed(confirming):
        return decision
    return _confirm(results, decision, confirming)


def _confirm(results: _Results, decision: Decision, confirming: Sweep) -> Decision:
    """Measure both choices and the baseline on another split; return the decision with the outcome.

    While a job measures other settings, what is stored counts, and nothing is measured beside it. Each choice has the
    largest gain among its kind: the sure setting among those almost certain to keep the budget, the required share of
    the baseline's metric, and the bet among those that keep it with a moderate chance. confirming: the sweep of both
    """
    assert results.estimates is not None

    def measure_choices() -> list[Cell]:
        """Measure the three decoders, or read what is stored of them."""
        with jobs.limit_page_computations():
            return list(engine.sweep(**confirming.arguments(), store=sweeps.open_store()))

    if results.cells.running:
        # What the other split has denied stays denied meanwhile. The baseline, which comes first, is needed.
        stored = sweeps.load_stored_cells(confirming)
        cells = list(stored) if stored and stored[0].label == confirming.baseline.label else []
    else:
        with st.spinner(f"Measuring on {visible(confirming.split)}"):
            cells = get_or_compute(selection.MEMORY_KEY, ("confirm", confirming.key), measure_choices)
    return results.estimates.decide(decision.keep, confirm=cells, pinned=selection.get_pinned())


def _compare_settings(
    sweep: Sweep, cells: Cells, curves: Frontier, base: FrontierPoint | None, model: Sequence[Any] | None
) -> ComparisonsByMetric:
    """Return each decoder's comparison with the baseline, as {metric: {label: comparison}}.

    {} without a baseline, and while a job measures, as a test over all settings takes long. model: the settings by a
    model's judgements, which people's correct; None for people's alone
    """
    if base is None or cells.running:
        return {}

    def compute() -> ComparisonsByMetric:
        """Test every setting against the baseline in the metrics of both axes."""
        rows = {}
        for metric in curves.metrics:
            arguments = read_column(curves.points, "point"), metric, base.point, curves.k
            judged = model if METRICS[metric].needs == "qrels" else None
            try:
                comparisons = compare(*arguments, model_judged=judged)
            except DataError:
                # The model may be of no use in one metric alone.
                comparisons = compare(*arguments)
            rows[metric] = {row.label: row for row in comparisons}
        return rows

    with st.spinner("Testing the differences"):
        key = "compare", sweep.key, tuple(read_column(cells.points, "key")), curves.x, curves.y, _list_keys(model)
        return get_or_compute(selection.MEMORY_KEY, key, compute, MAX_SHARED, is_shared=True)


def _find_opened(results: _Results, is_complete: bool) -> tuple[OpenSetting, Curve | None]:
    """Find the setting that is open beside the chart: the one clicked or dragged to, or else the best.

    Return the setting, and the exact curve that it is on, None without one. is_complete: True if nothing remains to be
    measured, so that a label of a link that is not found does not exist
    """
    points, decision = results.frontier, results.decision
    if is_complete:
        restore.check_setting(
            settings.OPEN_POINT_KEY, lambda label: results.find_place(label) is not None, "the best setting is open"
        )
        open_label = st.session_state.get(settings.OPEN_POINT_KEY)
        if open_label and results.find_place(open_label) is None:
            st.session_state.pop(settings.SCRUBBED_KEY, None)  # it was on another curve
    # The setting that is sure to keep the required share of the baseline's metric, else one with a moderate chance.
    first_choice = None if decision is None else decision.sure or decision.bet
    wanted_labels = (
        st.session_state.get(settings.OPEN_POINT_KEY),
        None if first_choice is None else first_choice.label,
    )
    # A place is the label of a point and, for a setting between the points of a curve, its value of λ.
    places = [results.find_place(label) for label in wanted_labels if label]
    label, value = next(filter(None, places), (results.labels[0], None))
    point = points.points[results.labels.index(label)]
    curve = find_curve(point, points, results.exact)
    if curve is not None:
        low, high = curve.interval
        restore.check_setting(
            settings.SCRUBBED_KEY, lambda dragged: low <= dragged <= high, "its nearest point is open"
        )
    value = st.session_state.get(settings.SCRUBBED_KEY, value)
    return _build_setting(results, label, value), curve


def _build_setting(results: _Results, label: str, value: float | None) -> OpenSetting:
    """Build the setting at a point, or at a value of the parameter of the exact curve through it.

    label: of the point; value: None for the point itself
    """
    points = results.frontier
    point = points.points[results.labels.index(label)]
    curve = find_curve(point, points, results.exact)
    # Without a value between points the point itself is open.
    if curve is None or value is None:
        x_ends, y_ends = (point.x_low, point.x_high), (point.y_low, point.y_high)
        ends = {"x_ends": x_ends, "y_ends": y_ends}
        system = results.systems[label]
        return OpenSetting(system=system, name=point.name, cell=point.point, point=point, x=point.x, y=point.y, **ends)
    decoder = curve.make_decoder(value)
    # Bands exist at grid positions only: the nearest one is shown.
    means, band_index = curve.at(value), int(abs(curve.band_positions - value).argmin())
    x_ends, y_ends = (tuple(curve.bands[axis][band_index].tolist()) for axis in (points.x, points.y))
    name, x, y = format_decoder(decoder, with_scorers=False), means[points.x], means[points.y]
    cell = build_curve_cell(curve, value)
    return OpenSetting(system=decoder, name=name, cell=cell, point=None, x=x, y=y, x_ends=x_ends, y_ends=y_ends)


def _find_compared(results: _Results, opened: OpenSetting) -> OpenSetting | None:
    """Find the setting whose wins and losses are shown: the open one, or for the baseline the first choice.

    Without a choice it is the best setting of the first decoder; None without another one than the baseline.
    """
    if opened.point is None or opened.point is not results.base:
        return opened
    decision = results.decision
    option = None if decision is None else decision.sure or decision.bet
    place = None if option is None else results.find_place(option.label)
    if place is None and results.base is not None:
        best = select_best_per_method(results.frontier, results.base.point.label, selection.get_budget())[1:]
        place = (best[0].point.label, None) if best else None
    return None if place is None else _build_setting(results, *place)


def _draw_chart(loaded: Loaded, results: _Results, opened: OpenSetting, curve: Curve | None) -> None:
    """Draw the chart with its switches; open the point that is clicked or the position that is dragged.

    opened: the setting that is open beside the chart; curve: the exact curve, over every value of a parameter, that it
    is on; None without one
    """
    sweep, points = results.sweep, results.frontier
    n_methods = len(set(read_column(points.points, "point.method")))
    toggle = partial(st.toggle, persist_state="session")
    st.session_state.setdefault(settings.PANELS_KEY, settings.get_default(settings.PANELS_KEY))
    # Over a single chart there is room for the switches; over panels there are titles.
    has_panels = n_methods >= MIN_PANEL_METHODS and st.session_state[settings.PANELS_KEY]
    with st.container(horizontal=True, gap="medium", key=SWITCHES if has_panels else f"{SWITCHES}-over"):
        show_all = toggle("Show all", key=settings.WHOLE_KEY, help="Also what keeps too little")
        as_panels = n_methods >= MIN_PANEL_METHODS and toggle("Panels", key=settings.PANELS_KEY, help="One a decoder")
    decoder = opened.decoder
    # The dot that can be dragged starts at the open setting's value of the parameter.
    scrub = None if curve is None or decoder is None else (curve, getattr(decoder.select, curve.parameter))
    chart = FrontierChart(
        frontier=points,
        dark=is_dark(),
        share=selection.get_budget() if results.estimates is not None or results.cells.running else None,
        estimates=results.estimates,
        is_partial=results.cells.running,
        whole=show_all,
        # Panels have no rings.
        current=[] if as_panels else _list_current(sweep),
        opened=opened.system.label,
        exact=results.exact,
        rows=results.rows,
        scrub=scrub,
        pinned=selection.get_pinned(),
        denied_role="" if results.decision is None else name_denied_role(results.decision.sure),
    )
    on_drag = partial(_take_drag, curve, results.labels)
    chart_label = f"Frontier: {format_axis_title(points.y)} against {format_axis_title(points.x)}"
    if results.decision is not None:
        chart_label = f"{chart_label}. {' '.join(results.decision.sentences)}"
    file = f"frontier-{points.x}-{points.y}"
    key = "tradeoff.panels.chart" if as_panels else "tradeoff.frontier"
    chart_place, chart_class = st.container(), key.replace(".", "-")
    slot = skeleton.draw_first(chart_class, CHART_ROWS, f".st-key-{chart_class}")
    figure = plot_panels(chart) if as_panels else plot_frontier(chart)
    st.session_state[selection.LAST_CHART_KEY] = loaded.space.embeddings.digest, figure
    with chart_place:
        picked = plot(figure, key, file=file, label=chart_label, on_adjust=on_drag)
    slot.empty()
    n_available = len(_get_labelled(loaded)[2])
    st.html(format_legend([*list_marks(chart), *list_lines_and_points(chart, has_panels=as_panels)]))
    caption, details = _describe_chart(results, n_available)
    st.caption(caption, help=details)
    clicks_key = f"tradeoff.clicks.{as_panels}"
    # The component repeats its last click in every run: only a new count is a new click.
    if picked.clicks != st.session_state.get(clicks_key, 0):
        st.session_state[clicks_key] = picked.clicks
        selection.open_point(picked.clicked)
        st.rerun(scope="fragment")


def _list_current(sweep: Sweep) -> list[str]:
    """Return the labels of the measured settings of Explore, but for the baseline: they have a ring on the chart."""
    explore_decoders = set(decoders.get_decoders().values())
    return [each.label for each in sweep.decoders if each in explore_decoders and each != sweep.baseline]


def _take_drag(curve: Curve | None, labels: list[str], control_name: str, dragged_value: float) -> None:
    """Store what was dragged on the chart, the budget's line or the dot on a curve; for a callback.

    curve: that of the dot; labels: of all points of the chart; control_name: "level" for the budget's line, whose value
    is in percent; any other name is the dot, whose value is the parameter's. If a point has the dragged value, that
    point is opened.
    """
    if control_name == "level":
        selection.set_budget(dragged_value / 100)
    elif curve is not None:
        label = curve.make_decoder(dragged_value).label
        if label in labels:
            selection.open_point(label)
        else:
            st.session_state[settings.SCRUBBED_KEY] = dragged_value


def _describe_chart(results: _Results, n_available: int) -> tuple[str, str]:
    """Return the caption below the chart's legend, and the statistical details behind its help icon.

    results: what the chart draws; n_available: number of labelled queries, of which a sample may be measured
    """
    curves, sweep = results.frontier, results.sweep
    is_time = curves.x == TIME_AXIS
    # Only queries that have both metrics at every setting are on the chart.
    n_missing = curves.asked - curves.queries
    parts = [f"Mean of {curves.queries:,}{f' of {curves.asked:,}' if n_missing else ''} queries"]
    if n_missing:
        parts[0] += ", those with both metrics at every setting"
    if n_available > len(sweep.queries):
        parts[0] += f", drawn at random from {n_available:,}"
    parts += ["chances are those known so far"] if results.estimates is not None and results.cells.running else []
    parts += [NO_LINES_TEXT] if is_time else []
    details = [
        "Chances hold for other queries of the same kind. They are calibrated by samples of the queries in which the "
        "choice is made anew, as the best of many settings looks better than it is. Of sure settings whose gains lie "
        "within a percentage point, the one that surely keeps most is chosen. Intervals on hover are "
        f"percentiles of a paired bootstrap over queries, {curves.resamples:,} draws, each for its point alone. The "
        "choice was made on these queries: confirm it on others (Tune does)."
    ]
    if is_time:
        details.append("Times: the median of a few single calls, taken when a setting was measured.")
    if curves.left_out:
        details.append(f"{counted(len(curves.left_out), 'setting')} returned too little to be drawn.")
    if curves.remark:
        parts.append(curves.remark)
    return " · ".join(parts), " ".join(details)


def _other_systems(loaded: Loaded, sweep: Sweep, queries: Queries) -> dict[str, tuple[RankedRun, Cell]]:
    """Measure the uploaded runs of other systems like decoders; return label → (run, its measurement).

    queries: all labelled ones, of which the sweep may be a sample; returns {} before the queries have vectors
    """
    measured = {}
    for run in runs.read_runs(loaded, queries).values():
        cell = selection.measure_run(run, sweep)
        if cell is not None:
            measured[run.label] = run, cell
    return measured
