"""The Trade-off page: the verdict, the frontier, the sets behind a point, differences by query."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import repeat
from operator import itemgetter

import streamlit as st

from dashboard.charts.figure import read_column
from dashboard.charts.frontier import FrontierChart, find_curve, plot_frontier
from dashboard.charts.frontier_panels import plot_panels
from dashboard.charts.palette import method_style
from dashboard.components.live_plot import is_dark, plot
from dashboard.services import jobs, passage_queries, sweeps, trained
from dashboard.services.jobs import Job
from dashboard.services.memo import get_or_compute
from dashboard.services.query_vectors import find_query_vectors
from dashboard.services.source import Loaded
from dashboard.services.sweeps import Cells, Sweep
from dashboard.session import decoders, restore
from dashboard.session import tradeoff as settings
from dashboard.session.answers import as_embeddings
from dashboard.session.query import Question, corpus_key, find_first_split
from dashboard.session.tradeoff import ALL_QUERIES, N_VALUES, THIS_QUERY, UNJUDGED_Y, X_METRIC, Y_METRIC
from dashboard.tradeoff import differences, point_sets, selection, verdict
from dashboard.tradeoff.selection import OpenSetting
from dashboard.widgets import passages, runs
from dashboard.widgets.basics import show_failure
from dashboard.widgets.choices import choose, choose_several, select
from dashboard.widgets.job_panel import POLL_INTERVAL, JobPanel, draw_cancel_button
from dashboard.widgets.parameters import draw_parameter
from engine.decoder import POOL, SET_SIZE, Decoder
from engine.errors import FrontierError
from engine.evaluation.curve import Curve
from engine.evaluation.frontier import BAND_RESAMPLES, TIME_AXIS, Frontier, FrontierPoint, format_axis_title, frontier
from engine.evaluation.metrics import METRICS, available_metrics
from engine.evaluation.paired import format_decoder
from engine.evaluation.runs import RankedRun
from engine.evaluation.statistics import RESAMPLES, compare
from engine.evaluation.sweep.cell import Cell, decoder_to_json
from engine.evaluation.sweep.sweep import grid
from engine.evaluation.tuning.objectives import find_knee
from engine.evaluation.verdict import ComparisonsByMetric, Verdict, change
from engine.evaluation.verdict import find_verdict as find_verdict
from engine.progress import counted
from engine.space import Space
from engine.stages import Scorer, methods
from engine.values import Embeddings, Qrels, Queries

BOARD, BELOW, PROGRESS, CONTROLS = ("tradeoff-board", "tradeoff-below", "tradeoff-progress", "tradeoff-controls")
COLUMNS = f".st-key-{BOARD} > [data-testid=stLayoutWrapper] > [data-testid=stHorizontalBlock]"
LEFT = f"{COLUMNS} > [data-testid=stColumn]:first-child"
TRADEOFF_CSS = f"""<style>@media (max-width: 1200px) {{
{COLUMNS} {{flex-wrap: wrap}}
{COLUMNS} > [data-testid=stColumn] {{min-width: 100%; order: 1}}
{LEFT}, {LEFT} > [data-testid=stVerticalBlock] {{display: contents}}
{LEFT} > [data-testid=stVerticalBlock] > * {{width: 100%}}
{LEFT} > [data-testid=stVerticalBlock] > :has(> .st-key-{BELOW}) {{order: 2}} }}
.st-key-{PROGRESS} [data-testid=stProgress] > div > div {{height: 3px}}
.st-key-{CONTROLS} :is([data-testid=stPopover], [data-testid=stButton]) button {{min-height: 2rem; padding-block: 0}}
</style>"""
"""On a small screen the columns are stacked: the chart first, then the sets, then the rest of the first column."""
SAMPLE_SIZES = (100, 500, 2000)
MIN_PANEL_METHODS = 4
"""Panels are offered for more decoders."""
DEFAULT_SAMPLE = 500
"""Default sample of the labelled queries: enough for stable means."""


def draw_tradeoff(loaded: Loaded, question: Question | None) -> None:
    """Draw the Trade-off page: choice of queries, decoders and axes, then the measured results.

    loaded: the corpus; question: the current query, None if none was typed or picked
    """
    if st.session_state.pop(selection.LEAVE_KEY, False):
        decoders.open_explore()  # from a full run: from a fragment's, the sidebar would forget its question
    st.html(TRADEOFF_CSS)
    split, qrels, queries = _get_labelled(loaded)
    row = st.container(horizontal=True, vertical_alignment="center", gap="small", key=CONTROLS)
    with row:
        all_queries = _draw_scope(loaded, qrels)
    # Passages replace the labelled queries for this page only.
    with_passages = all_queries and qrels is None
    if with_passages:
        if (judged := passages.replace_by_passages(loaded)) is None:
            return
        loaded = judged
        split, qrels, queries = _get_labelled(loaded)
    with row:
        names = _draw_decoders()
        axes = st.popover("Axes", icon=":material/swap_vert:")
        with st.popover("Setup", icon=":material/tune:"):
            labelled = queries
            values = draw_parameter(N_VALUES, settings.VALUES_KEY)
            if all_queries and len(queries) > SAMPLE_SIZES[0]:
                queries = _draw_sample(queries)
            scorers = _draw_scorers()
            if qrels is not None:
                runs.draw_runs(loaded, labelled)
    if with_passages:
        passages.draw_explanation(loaded)
    sweep = _build_sweep(loaded, question, all_queries, names, scorers, values, (split, qrels, queries))
    if qrels is None:
        _draw_explanation(loaded)
    if sweep is None:
        st.info("Type a query to compare what each decoder makes of it.")
        return
    if all_queries:
        trained.warn_of_leakage(loaded, queries)
    with axes:
        x, y = _draw_axes(sweep)
    if qrels is not None and not all_queries and question is not None and not question.is_judged:
        axis_text = f"{METRICS[y].title}, {METRICS[y].formula}"
        st.caption(f"This query has no judgements, so there is no Recall for it; up goes {axis_text}.")
    # Decoders of Explore and the baseline are measured without a click, if that is quick.
    _draw_board(loaded, question, sweep, x, y, set(names) <= {*decoders.list_chosen(), next(iter(methods("selector")))})


def _draw_decoders() -> list[str]:
    """Draw the choice of decoders; return their names, by default those of Explore and the baseline."""
    specs = methods("selector")
    st.session_state.setdefault(settings.PICKED_KEY, settings.get_default(settings.PICKED_KEY))
    method_names = choose_several(
        "Decoders",
        specs,
        settings.PICKED_KEY,
        default=(),
        show_label=False,
        format_func=lambda name: f"{method_style(name).sign} {specs[name].title}",
        help="Each is measured over its parameters' usual values, and as it is set in Explore. The first is "
        "always there: what the others are compared with.",
    )

    def pick_all() -> None:
        st.session_state[settings.PICKED_KEY] = list(specs)

    if len(method_names) < len(specs):
        st.button("All", key="tradeoff.all", on_click=pick_all, help="Compare all decoders")
    return method_names


def _get_labelled(loaded: Loaded) -> tuple[str, Qrels | None, Queries]:
    """Return the split chosen in the sidebar, its judgements and its labelled queries.

    They are "", None and no queries if nothing is judged, or if no encoder can embed the queries. The
    judgements are None if the split has no judged query.
    """
    dataset, splits = loaded.dataset, list(loaded.dataset.qrels)
    if not splits or loaded.space.encoder is None:
        return "", None, Queries((), ())
    chosen_split: str | None = st.session_state.get(f"split.{corpus_key(loaded)}")
    split = chosen_split if chosen_split in splits else find_first_split(dataset) or splits[0]
    queries = dataset.judged(split)
    return split, dataset.qrels[split] if len(queries) else None, queries


def _draw_scope(loaded: Loaded, qrels: Qrels | None) -> bool:
    """Draw the choice between the current query alone and many; return True for many.

    Many are all labelled queries, or, without judgements, passages of the corpus that serve as queries.
    qrels: None without judgements
    """
    if qrels is not None:
        return choose("Queries", [ALL_QUERIES, THIS_QUERY], settings.SCOPE_KEY) != THIS_QUERY
    ways = [THIS_QUERY, *([passage_queries.PASSAGES_TITLE] if passage_queries.can_make(loaded) else [])]
    # A link may ask for passages, which this corpus cannot have.
    restore.check_setting(settings.PASSAGES_KEY, ways.__contains__, f"{THIS_QUERY!r} is taken")
    return choose("Queries", ways, settings.PASSAGES_KEY) != THIS_QUERY


def _draw_sample(queries: Queries) -> Queries:
    """Draw the choice of how many labelled queries are measured; return a random sample of that size."""
    # The full set is always offered, whatever its size.
    sizes = [*(size for size in SAMPLE_SIZES if size < len(queries)), len(queries)]
    default_size = DEFAULT_SAMPLE if DEFAULT_SAMPLE in sizes else len(queries)
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

    The horizontal axis may be time as well, if the measurements are stored.
    """
    metrics = [metric for metric in sweep.metrics if not METRICS[metric].lower_is_better]
    defaults = {"x": X_METRIC, "y": Y_METRIC if Y_METRIC in metrics else UNJUDGED_Y}
    why = "; ".join(f"{METRICS[metric].title}: {METRICS[metric].formula}" for metric in metrics)

    def draw_axis(name: str, options: list[str]) -> str:
        """Draw the choice of the metric on one axis, "x" or "y"; return the metric's name."""
        key = settings.axis_key(name, Y_METRIC in metrics)
        # A link may name a metric that this corpus does not have.
        restore.check_setting(key, options.__contains__, f"{format_axis_title(defaults[name])} is taken")
        return select(f"{name} axis", options, key, default=defaults[name], format_func=format_axis_title, help=why)

    return draw_axis("x", [*metrics, *([TIME_AXIS] if sweep.is_stored else [])]), draw_axis("y", metrics)


def _build_sweep(
    loaded: Loaded,
    question: Question | None,
    all_queries: bool,
    method_names: list[str],
    scorers: list[Scorer],
    values: int,
    labelled: tuple[str, Qrels | None, Queries],
) -> Sweep | None:
    """Collect what is measured: decoders, queries with vectors, and metrics; None without any query.

    all_queries: measure all labelled ones, else the query of the question alone, of which nothing is stored;
    values: how many of each parameter; labelled: the split, its judgements and its queries
    """
    k = question.k if question is not None else st.session_state.get(decoders.K_KEY, SET_SIZE.default)
    depth = question.depth if question is not None else st.session_state.get(decoders.POOL_KEY, POOL.default)
    measured = _list_decoders(loaded.space, method_names, scorers, values, depth)
    split, qrels, queries = labelled
    build = partial(
        Sweep, loaded=loaded, decoders=measured, k=k, shares_scorers=all(map(decoders.has_default_scorers, measured))
    )
    aspects = loaded.dataset.aspects
    if all_queries:
        vectors = find_query_vectors(loaded, queries)
        # Before the queries are embedded, any vector shows which metrics will be available.
        sample = Embeddings(("",), loaded.space.embeddings.vectors[:1]) if vectors is None else vectors
        metrics = available_metrics(qrels, aspects, sample)
        return build(queries=queries, vectors=vectors, qrels=qrels, split=split, metrics=metrics, is_stored=True)
    if question is None:
        return None
    vectors, known_qrels = as_embeddings(loaded, question), question.qrels if question.is_judged else None
    metrics = available_metrics(known_qrels, aspects if aspects and aspects.get(question.id) else None, vectors)
    query = Queries((question.id,), (question.text,))
    return build(queries=query, vectors=vectors, qrels=known_qrels, split="", metrics=metrics, is_stored=False)


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
) -> tuple[Decoder, ...]:
    """Return the decoders to measure, the baseline first; tell the visitor which are left out.

    Each selector is measured over its parameters' usual values, and as set in Explore, behind each of the
    scorers. values: how many values of each parameter; depth: how many candidates a decoder chooses from,
    None for all
    """
    specs, chosen = methods("selector"), decoders.list_chosen()
    first_name = next(iter(specs))
    # The baseline is always measured, as everything is compared with it.
    settings = [decoders.make_baseline(depth)]
    reasons: dict[tuple[Scorer, Scorer | None], str] = {}
    for name in dict.fromkeys([first_name, *method_names]):
        explored = decoders.get_decoder(name)
        stages = read_column(grid(name, values), "select") + ([explored.select] if name in chosen else [])
        # A chain is a retriever with a reranker; None stands for no reranker.
        chains: list[tuple[Scorer, Scorer | None]] = list(zip(scorers, repeat(None)))
        if name in method_names and name in chosen:
            chains.append((explored.retrieve, explored.rerank))
        for chain in chains:
            # The reason is asked once per chain of scorers, as all selectors share it.
            if chain not in reasons and (reason := decoders.explain_lack(Decoder(stages[0], *chain, depth), space)):
                reasons[chain] = reason
        settings += [
            decoders.effective_decoder(Decoder(stage, retrieve, rerank, depth))
            for retrieve, rerank in dict.fromkeys(chains)
            if (retrieve, rerank) not in reasons
            for stage in stages
        ]
    if reasons:
        st.text("Left out: " + "; ".join(dict.fromkeys(reasons.values())))
    return tuple(dict.fromkeys(settings))


def _draw_explanation(loaded: Loaded) -> None:
    """Draw why there is no Recall on this corpus, what the axes are instead, and how to get it."""
    if loaded.dataset.qrels and loaded.space.encoder is None:
        reason = "This corpus came with its own vectors, and its labelled queries have none: they cannot be measured."
        remedy = "Embed the corpus here to measure them."
    else:
        reason = "This corpus has no judgements, so nothing says which documents are right: there is no Recall."
        remedy = "Judgements (queries.jsonl and qrels/ beside the corpus) add the rest."
        if passage_queries.can_make(loaded):
            title = passage_queries.PASSAGES_TITLE
            remedy += f" “{title}” make labelled queries of its own texts: those have Recall and MRR."
    st.info(
        f"{reason} What stays is {METRICS[X_METRIC].title}, how different the documents of a set are, against "
        f"{METRICS[UNJUDGED_Y].title}, how well they fit the query together. {remedy}",
        icon=":material/school:",
    )


def _draw_board(loaded: Loaded, question: Question | None, sweep: Sweep, x: str, y: str, small: bool) -> None:
    """Draw the finished results; offer or run the job that measures the missing ones.

    small: True if the decoders are among those of Explore and the baseline, so that a short job may start
    without a click
    """
    draw_results = partial(st.fragment(_draw_results), loaded, question, sweep, x, y)
    try:
        cells = sweeps.find_cells(sweep)
    except FrontierError as error:
        show_failure("This cannot be measured.", error)
        return
    # Finished cells are drawn while the job measures the others.
    if cells.missing:
        n_missing = len(sweep.decoders) - len(cells.points)
        start_label = f"Measure {counted(n_missing, 'setting')}" if n_missing else "Measure every λ"
        panel = JobPanel(
            purpose=sweeps.SWEEP_PURPOSE,
            key=sweep.key,
            title="Measuring the trade-off",
            work=partial(sweeps.run_sweep, sweep),
            start_label=start_label if cells.job is None else "Resume",
            offer_text=_describe_missing(sweep, cells),
            autostart=False,
            on_partial=lambda _: draw_results(),
            failed_text="Measuring ended early; what is finished is kept.",
        )
        if small and sweeps.is_small(sweep) and panel.job is None and jobs.find_blocker(sweeps.SWEEP_PURPOSE) is None:
            panel.start_job()
        if (job := panel.job) is not None and job.is_active:
            _draw_measuring(job, draw_results)
            return
        if panel.result() is None and job is not None and job.partial:
            return  # the panel draws it
    draw_results()


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
        st.text(f"{progress.done:,} of {progress.total:,}" if progress.total else progress.label, width="content")
        st.progress(min(1.0, progress.done / progress.total) if progress.total else 0.0)
        draw_cancel_button(job, f"{sweeps.SWEEP_PURPOSE}.cancel")
    draw()


def _describe_missing(sweep: Sweep, cells: Cells) -> str:
    """Describe in a sentence the settings and curves not measured yet, and how much work they are.

    A curve is a decoder at every λ. cells: what is measured already
    """
    n_settings, n_curves = len(sweep.decoders) - len(cells.points), len(sweep.exact_selectors) - len(cells.curves)
    parts = [f"{n_settings:,} of {len(sweep.decoders):,} settings"] if n_settings else []
    parts += [f"every λ of {counted(n_curves, 'decoder')}"] if n_curves else []
    size_text = f"{len(sweep.queries):,} queries × {len(sweep.loaded.space):,} documents"
    cost_text = "" if sweep.vectors is not None else " The queries have to be embedded first."
    if sweep.n_pairs:
        cost_text += f" A model reads up to {sweep.n_pairs:,} pairs of query and document, which takes long."
    return f"{' and '.join(parts)} to measure · {size_text}.{cost_text}"


def _draw_results(loaded: Loaded, question: Question | None, sweep: Sweep, x: str, y: str) -> None:
    """Draw verdict, chart, tables and sets of the finished measurements; a click draws only these anew.

    x, y: names of the metrics on the axes. The parts share the open setting, whose sets are drawn beside the
    chart.
    """
    if st.session_state.pop(selection.REDRAW_KEY, False):
        st.rerun()
    cells = sweeps.find_cells(sweep)
    if not cells.points:
        return
    n_all, n_measured = len(sweep.decoders), len(cells.points)
    systems_cells = _other_systems(loaded, sweep, _get_labelled(loaded)[2])
    cells = replace(cells, points=(*cells.points, *map(itemgetter(1), systems_cells.values())))
    # Bands of incomplete results may be coarse.
    resamples = RESAMPLES.low if cells.running else BAND_RESAMPLES
    try:
        # Bootstrap intervals take the time: they are cached by cells and axes.
        curves = get_or_compute(
            selection.MEMORY_KEY,
            (sweep.key, x, y, tuple(read_column(cells.points, "key")), cells.running),
            lambda: frontier(cells.points, x, y, sweep.k, resamples=resamples),
        )
    except FrontierError as error:
        st.info("No setting has both metrics. Choose another axis.", icon=":material/info:")
        st.text(str(error))
        return
    base, labels = selection.find_point(curves, sweep.baseline.label), read_column(curves.points, "point.label")
    share, rows = selection.get_budget(), _compare_settings(sweep, cells, curves, base)
    result = None if base is None or len(labels) < 2 else find_verdict(curves, base.point.label, share, rows)
    if result is not None and n_measured < n_all:
        result = replace(result, text=f"{result.text} Of the {n_measured:,} of {n_all:,} settings measured so far.")
    best_label = None if result is None or result.best is None else result.best.point.label
    sweep_decoders = dict(zip(read_column(sweep.decoders, "label"), sweep.decoders, strict=True))
    if result is not None and not cells.running:  # else it would change every second
        decoder = None if best_label is None else sweep_decoders.get(best_label)
        verdict.draw_verdict(loaded, curves, result, decoder)
    if not cells.missing:
        restore.check_setting(settings.OPEN_POINT_KEY, labels.__contains__, "the best setting is open")
        if st.session_state.get(settings.OPEN_POINT_KEY) not in (None, "", *labels):
            st.session_state.pop(settings.SCRUBBED_KEY, None)  # it was on another curve
    label = selection.find_open_label(labels, best_label)
    # Curves over other queries than the points' would not pass through them.
    exact = [curve for curve in cells.curves if not curve.left_out and len(curve.queries) == curves.queries]
    point = curves.points[labels.index(label)]
    curve = find_curve(point, curves, exact)
    if curve is not None:
        low, high = curve.interval
        restore.check_setting(settings.SCRUBBED_KEY, lambda value: low <= value <= high, "its nearest point is open")
    systems = {**sweep_decoders, **{run_label: run for run_label, (run, _) in systems_cells.items()}}
    opened = _find_opened(systems[label], point, curve, curves)
    with st.container(key=BOARD):
        chart_column, side_column = st.columns([3, 2], gap="medium")
    with chart_column:
        _draw_chart(loaded, sweep, curves, exact, rows, result, opened, curve)
        if base is not None and len(labels) > 1 and sweep.is_stored and len(sweep.queries) > 1 and not cells.running:
            with st.container(key=BELOW):
                differences.draw_differences(loaded, sweep, cells, curves, base, share, rows, systems, label)
    with side_column:
        if result is not None and base is not None:
            verdict.draw_budget(curves, base)
            verdict.draw_best(curves, result, rows)
        order = () if base is None else differences.order_queries(sweep, curves, base, label, y)
        point_sets.draw_sets(loaded, question, sweep, curves, opened, curve, order)


def _compare_settings(sweep: Sweep, cells: Cells, curves: Frontier, base: FrontierPoint | None) -> ComparisonsByMetric:
    """Return each decoder's comparison with the baseline, as {metric: {label: comparison}}.

    {} without a baseline, and while a job measures, as a test over all settings takes long.
    """
    if base is None or cells.running:
        return {}

    def compute() -> ComparisonsByMetric:
        return {m: {row.label: row for row in compare(cells.points, m, base.point, curves.k)} for m in curves.metrics}

    with st.spinner("Testing the differences"):
        key = "compare", sweep.key, tuple(read_column(cells.points, "key")), curves.x, curves.y
        return get_or_compute(selection.MEMORY_KEY, key, compute)


def _find_opened(
    system: Decoder | RankedRun, point: FrontierPoint, curve: Curve | None, curves: Frontier
) -> OpenSetting:
    """Return the setting that is open beside the chart: a point, or a position dragged on its curve.

    system, point: of the open point; curve: the exact one through it, None if it has none; curves: the
    frontier
    """
    dragged_value = st.session_state.get(settings.SCRUBBED_KEY)
    # Without a drag the point itself is open.
    if curve is None or dragged_value is None:
        x_ends, y_ends = (point.x_low, point.x_high), (point.y_low, point.y_high)
        ends = {"x_ends": x_ends, "y_ends": y_ends}
        return OpenSetting(system=system, name=point.name, point=point, x=point.x, y=point.y, **ends)
    decoder = Decoder(curve.make_stage(dragged_value), decoders.first_scorer())
    # Bands exist at grid positions only: the nearest one is shown.
    means, position = curve.at(dragged_value), int(abs(curve.band_positions - dragged_value).argmin())
    x_ends, y_ends = (tuple(curve.bands[axis][position].tolist()) for axis in (curves.x, curves.y))
    name, x, y = format_decoder(decoder_to_json(decoder), with_scorers=False), means[curves.x], means[curves.y]
    return OpenSetting(system=decoder, name=name, point=None, x=x, y=y, x_ends=x_ends, y_ends=y_ends)


def _draw_chart(
    loaded: Loaded,
    sweep: Sweep,
    curves: Frontier,
    exact: list[Curve],
    rows: ComparisonsByMetric,
    result: Verdict | None,
    opened: OpenSetting,
    curve: Curve | None,
) -> None:
    """Draw the chart with its switches; open the point that is clicked or the position that is dragged.

    exact: curves computed at every λ; rows: comparisons with the baseline, by metric and label; result: the
    verdict; opened: the setting that is open; curve: the one that it is on
    """
    # Settings of Explore have a ring on the chart.
    explored = set(map(decoders.effective_decoder, decoders.get_decoders().values()))
    has_panels = len(set(read_column(curves.points, "point.method"))) > MIN_PANEL_METHODS
    toggle = partial(st.toggle, persist_state="session")
    with st.container(horizontal=True, gap="medium"):
        show_all = toggle("Show all", key=settings.WHOLE_KEY, help="Also what keeps too little")
        as_panels = has_panels and toggle("Panels", key=settings.PANELS_KEY, help="One a decoder")
    decoder = opened.decoder
    # The dot that can be dragged starts at the open setting's value of the parameter.
    scrub = None if curve is None or decoder is None else (curve, getattr(decoder.select, curve.parameter))
    chart = FrontierChart(
        frontier=curves,
        dark=is_dark(),
        share=None if result is None else result.share,
        whole=show_all,
        current=[each.label for each in sweep.decoders if each in explored and each != sweep.baseline],
        opened=opened.system.label,
        callouts=_build_callouts(curves, result, rows),
        exact=exact,
        rows=rows,
        scrub=scrub,
    )
    on_drag = partial(_take_drag, curve, read_column(curves.points, "point.label"))
    chart_title = f"Frontier: {format_axis_title(curves.y)} against {format_axis_title(curves.x)}"
    chart_label = chart_title if result is None else f"{chart_title}. {result.text}"
    file = f"frontier-{curves.x}-{curves.y}"
    if as_panels:
        picked = plot(plot_panels(chart), "tradeoff.panels.chart", file=file, label=chart_label)
    else:
        picked = plot(plot_frontier(chart), "tradeoff.frontier", file=file, label=chart_label, on_adjust=on_drag)
    caption, details = _describe_chart(curves, sweep, len(_get_labelled(loaded)[2]), bool(exact))
    st.caption(caption, help=details)
    clicks = f"tradeoff.clicks.{as_panels}"
    # The component repeats its last click in every run: only a new count is a new click.
    if picked.clicks != st.session_state.get(clicks, 0):
        st.session_state[clicks] = picked.clicks
        selection.open_point(picked.clicked)
        st.rerun(scope="fragment")


def _build_callouts(curves: Frontier, result: Verdict | None, rows: ComparisonsByMetric) -> dict[str, str]:
    """Build the texts at two points, label → text: the best within the budget, and the frontier's knee.

    The knee is the point where the frontier bends most. A text is the change to the baseline in both metrics.
    """
    callouts = {}
    for p in (find_knee(curves), None if result is None else result.best):
        changes = [rows.get(axis, {}).get(p.point.label) if p is not None else None for axis in (curves.x, curves.y)]
        if p is not None and all(changes):
            callouts[p.point.label] = ", ".join(dict.fromkeys(change(row) for row in changes if row is not None))
    return callouts


def _take_drag(curve: Curve | None, labels: list[str], control_name: str, dragged_value: float) -> None:
    """Store what was dragged on the chart, the budget's line or the dot on a curve; for a callback.

    curve: that of the dot; labels: of all points: one at the dragged value is opened in its place;
    control_name: "level" for the budget's line, in percent, anything else is the dot
    """
    if control_name == "level":
        st.session_state[settings.SHARE_KEY] = round(dragged_value / 100, 2)
    elif curve is not None:
        label = Decoder(curve.make_stage(dragged_value), decoders.first_scorer()).label
        if label in labels:
            selection.open_point(label)
        else:
            st.session_state[settings.SCRUBBED_KEY] = dragged_value


def _describe_chart(curves: Frontier, sweep: Sweep, n_available: int, has_exact: bool) -> tuple[str, str]:
    """Return the caption below the chart, and the statistical details behind its help icon.

    n_available: number of labelled queries, of which a sample may be measured; has_exact: True if a curve is
    drawn at every value of its parameter
    """
    is_time = curves.x == TIME_AXIS
    if not sweep.is_stored:
        return "One query: no confidence interval · click a point to see its results", ""
    # Only queries that have both metrics at every setting are on the chart.
    n_missing = curves.asked - curves.queries
    parts = [f"Mean of {curves.queries:,}{f' of {curves.asked:,}' if n_missing else ''} queries"]
    if n_missing:
        parts[0] += ", those with both metrics at every setting"
    if n_available > len(sweep.queries):
        parts[0] += f", drawn at random from {n_available:,}"
    parts += ["cross = 95% CI of the difference to the baseline", "outlined = Pareto-optimal"]
    parts += ["line = every λ, exactly"] if has_exact else []
    parts += ["click a point to see its results"]
    details = [
        "Intervals are percentiles of a paired bootstrap over queries, each for its point alone; those of means take "
        f"{curves.resamples:,} draws. “n.s.”: not significant in a paired randomisation test after Holm's correction "
        "over all settings, or the interval holds 0; a loss counts as soon as its own interval excludes 0. The best "
        "setting was chosen on these same queries: choose on others than you report on (Tune does)."
    ]
    if is_time:
        details.append("Times: the median of a few single calls, taken when a setting was measured.")
    if curves.left_out:
        details.append(f"{len(curves.left_out)} settings returned too little to be drawn.")
    if curves.remark:
        parts.append(curves.remark)
    return " · ".join(parts), " ".join(details)


def _other_systems(loaded: Loaded, sweep: Sweep, queries: Queries) -> dict[str, tuple[RankedRun, Cell]]:
    """Measure the uploaded runs of other systems like decoders; return label → (run, its measurement).

    queries: all labelled ones, of which the sweep may be a sample; returns {} without judgements, and before
    the queries have vectors
    """
    vectors, qrels = sweep.vectors, sweep.qrels
    if vectors is None or qrels is None:
        return {}

    def build_cell(run: RankedRun) -> Cell:
        """Measure one run in the metrics of the sweep; cached."""
        cell_arguments = loaded.space, vectors, qrels, sweep.k, sweep.metrics
        return get_or_compute(
            selection.MEMORY_KEY,
            ("run", run.name, run.digest, sweep.key),
            lambda: run.build_cell(*cell_arguments, split=sweep.split, aspects=loaded.dataset.aspects),
        )

    return {run.label: (run, build_cell(run)) for run in runs.read_runs(loaded, queries).values()}
