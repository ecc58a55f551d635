"""The Trade-off page: the verdict, the frontier, the sets behind a point, differences by query."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import streamlit as st

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
from dashboard.tradeoff.selection import Opened
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
from engine.evaluation.sweep.cell import Cell, as_json
from engine.evaluation.sweep.sweep import grid
from engine.evaluation.tuning.objectives import knee_of
from engine.evaluation.verdict import ComparisonsByMetric, Verdict, change
from engine.evaluation.verdict import find_verdict as find_verdict
from engine.progress import counted
from engine.space import Space
from engine.stages import Scorer, methods
from engine.values import Embeddings, Qrels, Queries

BOARD, BELOW, PROGRESS, CONTROLS = "tradeoff-board", "tradeoff-below", "tradeoff-progress", "tradeoff-controls"
COLUMNS = f".st-key-{BOARD} > [data-testid=stLayoutWrapper] > [data-testid=stHorizontalBlock]"
LEFT = f"{COLUMNS} > [data-testid=stColumn]:first-child"
STYLE = f"""<style>@media (max-width: 1200px) {{
{COLUMNS} {{flex-wrap: wrap}}
{COLUMNS} > [data-testid=stColumn] {{min-width: 100%; order: 1}}
{LEFT}, {LEFT} > [data-testid=stVerticalBlock] {{display: contents}}
{LEFT} > [data-testid=stVerticalBlock] > * {{width: 100%}}
{LEFT} > [data-testid=stVerticalBlock] > :has(> .st-key-{BELOW}) {{order: 2}} }}
.st-key-{PROGRESS} [data-testid=stProgress] > div > div {{height: 3px}}
.st-key-{CONTROLS} :is([data-testid=stPopover], [data-testid=stButton]) button {{min-height: 2rem; padding-block: 0}}
</style>"""
"""Side by side the chart and the sets need more room than a small screen has: there the chart stands first, then the
sets, then what is below the chart."""
SAMPLES = (100, 500, 2000)
MANY = 4
"""Of more decoders a panel each can be drawn."""
ENOUGH = 500
"""Of more labelled queries so many are drawn at first: their means are known well enough to choose by."""


def show(loaded: Loaded, question: Question | None) -> None:
    """The main area of Trade-off."""
    if st.session_state.pop(selection.LEAVE, False):
        decoders.open_explore()  # from a full run: from a fragment's, the sidebar would forget its question
    st.html(STYLE)
    split, qrels, queries = _labelled(loaded)
    row = st.container(horizontal=True, vertical_alignment="center", gap="small", key=CONTROLS)
    with row:
        every = _scope(loaded, qrels)
    with_passages = every and qrels is None
    if with_passages:
        if (judged := passages.replace_by_passages(loaded)) is None:
            return
        loaded = judged
        split, qrels, queries = _labelled(loaded)
    with row:
        names = _picked()
        axes = st.popover("Axes", icon=":material/swap_vert:")
        with st.popover("Setup", icon=":material/tune:"):
            labelled = queries
            values = draw_parameter(N_VALUES, settings.VALUES_KEY)
            if every and len(queries) > SAMPLES[0]:
                queries = _sampled(queries)
            scorers = _scorers()
            if qrels is not None:
                runs.draw_runs(loaded, labelled)
    if with_passages:
        passages.draw_explanation(loaded)
    sweep = _sweep(loaded, question, every, names, scorers, values, (split, qrels, queries))
    if qrels is None:
        _teach(loaded)
    if sweep is None:
        st.info("Type a query to compare what each decoder makes of it.")
        return
    if every:
        trained.warn_of_leakage(loaded, queries)
    with axes:
        x, y = _axes(sweep)
    if qrels is not None and not every and question is not None and not question.is_judged:
        st.caption(
            f"This query has no judgements, so there is no Recall for it; up goes {METRICS[y].title}, "
            f"{METRICS[y].formula}."
        )
    _board(loaded, question, sweep, x, y, set(names) <= {*decoders.list_chosen(), next(iter(methods("selector")))})


def _picked() -> list[str]:
    """The decoders to measure: at first those chosen in Explore, and the baseline."""
    known = methods("selector")
    st.session_state.setdefault(settings.PICKED_KEY, settings.get_default(settings.PICKED_KEY))
    names = choose_several(
        "Decoders",
        known,
        settings.PICKED_KEY,
        default=(),
        show_label=False,
        format_func=lambda n: f"{method_style(n).sign} {known[n].title}",
        help="Each is measured over its parameters' usual values, and as it is set in Explore. The first is "
        "always there: what the others are compared with.",
    )

    def pick_all() -> None:
        st.session_state[settings.PICKED_KEY] = list(known)

    if len(names) < len(known):
        st.button("All", key="tradeoff.all", on_click=pick_all, help="Compare all decoders")
    return names


def _labelled(loaded: Loaded) -> tuple[str, Qrels | None, Queries]:
    """The split that the sidebar shows, its judgements and its queries; none where nothing is judged."""
    dataset, splits = loaded.dataset, list(loaded.dataset.qrels)
    if not splits or loaded.space.encoder is None:
        return "", None, Queries((), ())
    picked: str | None = st.session_state.get(f"split.{corpus_key(loaded)}")
    split = picked if picked in splits else find_first_split(dataset) or splits[0]
    queries = dataset.judged(split)
    return split, dataset.qrels[split] if len(queries) else None, queries


def _scope(loaded: Loaded, qrels: Qrels | None) -> bool:
    """Draw the choice of queries: whether all labelled ones are meant, or the passages that stand in for them."""
    if qrels is not None:
        return choose("Queries", [ALL_QUERIES, THIS_QUERY], settings.SCOPE_KEY) != THIS_QUERY
    ways = [THIS_QUERY, *([passage_queries.PASSAGES_TITLE] if passage_queries.can_make(loaded) else [])]
    restore.check_setting(settings.PASSAGES_KEY, ways.__contains__, f"{THIS_QUERY!r} is taken")
    return choose("Queries", ways, settings.PASSAGES_KEY) != THIS_QUERY


def _sampled(queries: Queries) -> Queries:
    sizes = [*(size for size in SAMPLES if size < len(queries)), len(queries)]
    first = ENOUGH if ENOUGH in sizes else len(queries)
    st.session_state[settings.FIRST_SAMPLE_KEY] = first
    restore.check_setting(settings.SAMPLE_KEY, sizes.__contains__, f"{first:,} are drawn")
    if st.session_state.get(settings.SAMPLE_KEY) not in sizes:  # of another corpus, or none yet
        st.session_state[settings.SAMPLE_KEY] = first
    count = st.select_slider(
        "Labelled queries",
        sizes,
        key=settings.SAMPLE_KEY,
        persist_state="session",
        format_func=lambda n: f"all {n:,}" if n == len(queries) else f"{n:,}",
        help="Fewer are drawn at random, always the same ones.",
    )
    return queries.sample(count)


def _axes(sweep: Sweep) -> tuple[str, str]:
    """The metrics of the axes: those measured of which more is better, and for x the time too."""
    measured = [m for m in sweep.metrics if not METRICS[m].lower_is_better]
    first = {"x": X_METRIC, "y": Y_METRIC if Y_METRIC in measured else UNJUDGED_Y}
    why = "; ".join(f"{METRICS[m].title}: {METRICS[m].formula}" for m in measured)

    def axis(name: str, options: list[str]) -> str:
        key = settings.axis_key(name, Y_METRIC in measured)
        restore.check_setting(key, options.__contains__, f"{format_axis_title(first[name])} is taken")
        return select(f"{name} axis", options, key, default=first[name], format_func=format_axis_title, help=why)

    return axis("x", [*measured, *([TIME_AXIS] if sweep.is_stored else [])]), axis("y", measured)


def _sweep(
    loaded: Loaded,
    question: Question | None,
    every: bool,
    names: list[str],
    scorers: list[Scorer],
    values: int,
    labelled: tuple[str, Qrels | None, Queries],
) -> Sweep | None:
    k = question.k if question is not None else st.session_state.get(decoders.K_KEY, SET_SIZE.default)
    depth = question.depth if question is not None else st.session_state.get(decoders.POOL_KEY, POOL.default)
    several = _decoders(loaded.space, names, scorers, values, depth)
    split, qrels, queries = labelled
    make = partial(
        Sweep, loaded=loaded, decoders=several, k=k, shares_scorers=all(map(decoders.has_default_scorers, several))
    )
    aspects = loaded.dataset.aspects
    if every:
        vectors = find_query_vectors(loaded, queries)
        sample = Embeddings(("",), loaded.space.embeddings.vectors[:1]) if vectors is None else vectors
        metrics = available_metrics(qrels, aspects, sample)
        return make(queries=queries, vectors=vectors, qrels=qrels, split=split, metrics=metrics, is_stored=True)
    if question is None:
        return None
    vectors, judged = as_embeddings(loaded, question), question.qrels if question.is_judged else None
    metrics = available_metrics(judged, aspects if aspects and aspects.get(question.id) else None, vectors)
    query = Queries((question.id,), (question.text,))
    return make(queries=query, vectors=vectors, qrels=judged, split="", metrics=metrics, is_stored=False)


def _scorers() -> list[Scorer]:
    """The scorers that every decoder is measured behind, at their usual parameters."""
    known = decoders.list_scorers(decoders.RETRIEVE)
    why = (
        "Relevance comes from these, similarity between documents always from the dense vectors. A decoder is "
        "measured behind each, and behind the scorers that it has in Explore."
    )
    picked = choose_several(
        "Scorers",
        known,
        settings.SCORERS_KEY,
        default=[next(iter(known))],
        format_func=lambda n: known[n].title,
        help="\n\n".join([why, *(f"**{spec.title}** {spec.summary}" for spec in known.values())]),
    )
    return [known[n].cls() for n in picked]


def _decoders(
    space: Space, names: list[str], scorers: list[Scorer], values: int, depth: int | None
) -> tuple[Decoder, ...]:
    """The decoders to measure, the baseline first; draws what is left out."""
    known, chosen = methods("selector"), decoders.list_chosen()
    first = next(iter(known))
    settings = [decoders.make_baseline(depth)]
    lacking: dict[tuple[Scorer, Scorer | None], str] = {}
    for name in dict.fromkeys([first, *names]):
        current = decoders.get_decoder(name)
        stages = [*(d.select for d in grid(name, values)), *([current.select] if name in chosen else [])]
        chains: list[tuple[Scorer, Scorer | None]] = [(scorer, None) for scorer in scorers]
        if name in names and name in chosen:
            chains.append((current.retrieve, current.rerank))
        for chain in chains:
            if chain not in lacking and (why := decoders.explain_lack(Decoder(stages[0], *chain, depth), space)):
                lacking[chain] = why
        settings += [
            decoders.effective_decoder(Decoder(stage, retrieve, rerank, depth))
            for retrieve, rerank in dict.fromkeys(chains)
            if (retrieve, rerank) not in lacking
            for stage in stages
        ]
    if lacking:
        st.text("Left out: " + "; ".join(dict.fromkeys(lacking.values())))
    return tuple(dict.fromkeys(settings))


def _teach(loaded: Loaded) -> None:
    """Explain the axes without labelled queries, and what would add Recall."""
    if loaded.dataset.qrels and loaded.space.encoder is None:
        why = "This corpus came with its own vectors, and its labelled queries have none: they cannot be measured."
        rest = "Embed the corpus here to measure them."
    else:
        why = "This corpus has no judgements, so nothing says which documents are right: there is no Recall."
        rest = "Judgements (queries.jsonl and qrels/ beside the corpus) add the rest."
        if passage_queries.can_make(loaded):
            rest += (
                f" “{passage_queries.PASSAGES_TITLE}” make labelled queries of its own texts: "
                "those have Recall and MRR."
            )
    st.info(
        f"{why} What stays is {METRICS[X_METRIC].title}, how different the documents of a set are, against "
        f"{METRICS[UNJUDGED_Y].title}, how well they fit the query together. {rest}",
        icon=":material/school:",
    )


def _board(loaded: Loaded, question: Question | None, sweep: Sweep, x: str, y: str, small: bool) -> None:
    """Verdict, chart, sets and tables; while a job is at work, of what is finished."""
    draw = partial(st.fragment(_draw), loaded, question, sweep, x, y)
    try:
        cells = sweeps.find_cells(sweep)
    except FrontierError as error:
        show_failure("This cannot be measured.", error)
        return
    if cells.missing:
        left = len(sweep.decoders) - len(cells.points)
        panel = JobPanel(
            purpose=sweeps.SWEEP_PURPOSE,
            key=sweep.key,
            title="Measuring the trade-off",
            work=partial(sweeps.run_sweep, sweep),
            start_label="Resume"
            if cells.job is not None
            else f"Measure {counted(left, 'setting')}"
            if left
            else "Measure every λ",
            offer_text=_lacking(sweep, cells),
            autostart=False,
            on_partial=lambda _: draw(),
            failed_text="Measuring ended early; what is finished is kept.",
        )
        if small and sweeps.is_small(sweep) and panel.job is None and jobs.find_blocker(sweeps.SWEEP_PURPOSE) is None:
            panel.start_job()
        if (job := panel.job) is not None and job.is_active:
            _measuring(job, draw)
            return
        if panel.result() is None and job is not None and job.partial:
            return  # the panel draws it
    draw()


@st.fragment(run_every=POLL_INTERVAL)
def _measuring(job: Job, draw: Callable[[], None]) -> None:
    """A thin line of progress over what is finished, until the job ends or is cancelled."""
    if not job.is_active:
        st.rerun()
    progress = job.progress
    with st.container(key=PROGRESS, horizontal=True, vertical_alignment="center", gap="small"):
        st.text(f"{progress.done:,} of {progress.total:,}" if progress.total else progress.label, width="content")
        st.progress(min(1.0, progress.done / progress.total) if progress.total else 0.0)
        draw_cancel_button(job, f"{sweeps.SWEEP_PURPOSE}.cancel")
    draw()


def _lacking(sweep: Sweep, cells: Cells) -> str:
    """What is still to be measured."""
    settings, curves = len(sweep.decoders) - len(cells.points), len(sweep.exact_selectors) - len(cells.curves)
    lacking = [f"{settings:,} of {len(sweep.decoders):,} settings"] if settings else []
    lacking += [f"every λ of {counted(curves, 'decoder')}"] if curves else []
    size = f"{len(sweep.queries):,} queries × {len(sweep.loaded.space):,} documents"
    more = "" if sweep.vectors is not None else " The queries have to be embedded first."
    if sweep.n_pairs:
        more += f" A model reads up to {sweep.n_pairs:,} pairs of query and document, which takes long."
    return f"Not measured yet: {' and '.join(lacking)}, on {size}.{more}"


def _draw(loaded: Loaded, question: Question | None, sweep: Sweep, x: str, y: str) -> None:
    if st.session_state.pop(selection.ANEW, False):
        st.rerun()
    cells = sweeps.find_cells(sweep)
    if not cells.points:
        return
    partial_count = len(cells.points) if len(cells.points) < len(sweep.decoders) else None
    others = _other_systems(loaded, sweep, _labelled(loaded)[2])
    cells = replace(cells, points=(*cells.points, *(cell for _, cell in others.values())))
    # Bands of what is still growing need not be fine.
    resamples = RESAMPLES.low if cells.running else BAND_RESAMPLES
    try:
        curves = get_or_compute(
            selection.MEMORY,
            (sweep.key, x, y, tuple(cell.key for cell in cells.points), cells.running),
            lambda: frontier(cells.points, x, y, sweep.k, resamples=resamples),
        )
    except FrontierError as error:
        st.info("No setting has both metrics. Choose another axis.", icon=":material/info:")
        st.text(str(error))
        return
    base = next((p for p in curves.points if p.point.label == sweep.baseline.label), None)
    labels = [p.point.label for p in curves.points]
    share, rows = selection.budget(), _compared(sweep, cells, curves, base)
    found = None if base is None or len(labels) < 2 else find_verdict(curves, base.point.label, share, rows)
    if found is not None and partial_count is not None:
        so_far = f"Of the {partial_count:,} of {len(sweep.decoders):,} settings measured so far."
        found = replace(found, text=f"{found.text} {so_far}")
    best = None if found is None or found.best is None else found.best.point.label
    if found is not None and not cells.running:  # of a part of the settings it would be another every second
        decoder = next((d for d in sweep.decoders if d.label == best), None)
        verdict.show_strip(loaded, curves, found, decoder)
    if not cells.missing:
        restore.check_setting(settings.OPEN_POINT_KEY, labels.__contains__, "the best setting is open")
        if st.session_state.get(settings.OPEN_POINT_KEY) not in (None, "", *labels):
            st.session_state.pop(settings.SCRUBBED_KEY, None)  # it was on another curve
    label = selection.opened(labels, best)
    # A mean over other queries than the points' would lie beside them.
    exact = [curve for curve in cells.curves if not curve.left_out and len(curve.queries) == curves.queries]
    point = next(p for p in curves.points if p.point.label == label)
    curve = find_curve(point, curves, exact)
    if curve is not None:
        low, high = curve.interval
        restore.check_setting(settings.SCRUBBED_KEY, lambda value: low <= value <= high, "its nearest point is open")
    systems = {d.label: d for d in sweep.decoders} | {label: run for label, (run, _) in others.items()}
    opened = _opened(systems[label], point, curve, curves)
    with st.container(key=BOARD):
        left, right = st.columns([3, 2], gap="medium")
    with left:
        _chart(loaded, sweep, curves, exact, rows, found, opened, curve)
        if base is not None and len(labels) > 1 and sweep.is_stored and len(sweep.queries) > 1 and not cells.running:
            with st.container(key=BELOW):
                differences.show(loaded, sweep, cells, curves, base, share, rows, systems, label)
    with right:
        if found is not None and base is not None:
            verdict.budget_control(curves, base)
            verdict.show_table(curves, found, rows)
        order = () if base is None else differences.ordered(sweep, curves, base, label, y)
        point_sets.show(loaded, question, sweep, curves, opened, curve, order)


def _compared(sweep: Sweep, cells: Cells, curves: Frontier, base: FrontierPoint | None) -> ComparisonsByMetric:
    """Every setting against the baseline in the metrics of the axes; nothing while they are being measured."""
    if base is None or cells.running:
        return {}

    def make() -> ComparisonsByMetric:
        return {m: {r.label: r for r in compare(cells.points, m, base.point, curves.k)} for m in curves.metrics}

    with st.spinner("Testing the differences"):
        return get_or_compute(
            selection.MEMORY, ("compare", sweep.key, tuple(cell.key for cell in cells.points), curves.x, curves.y), make
        )


def _opened(system: Decoder | RankedRun, point: FrontierPoint, curve: Curve | None, curves: Frontier) -> Opened:
    """What is open: the system of a point, or a place on its curve to which it was dragged."""
    value = st.session_state.get(settings.SCRUBBED_KEY)
    if curve is None or value is None:
        ends = (point.x_low, point.x_high), (point.y_low, point.y_high)
        return Opened(system=system, name=point.name, point=point, x=point.x, y=point.y, x_ends=ends[0], y_ends=ends[1])
    decoder = Decoder(curve.make_stage(value), decoders.first_scorer())
    means, place = curve.at(value), int(abs(curve.band_positions - value).argmin())
    x_ends, y_ends = (tuple(curve.bands[axis][place].tolist()) for axis in (curves.x, curves.y))
    return Opened(
        system=decoder,
        name=format_decoder(as_json(decoder), with_scorers=False),
        point=None,
        x=means[curves.x],
        y=means[curves.y],
        x_ends=x_ends,
        y_ends=y_ends,
    )


def _chart(
    loaded: Loaded,
    sweep: Sweep,
    curves: Frontier,
    exact: list[Curve],
    rows: ComparisonsByMetric,
    found: Verdict | None,
    opened: Opened,
    curve: Curve | None,
) -> None:
    explored = {decoders.effective_decoder(decoder) for decoder in decoders.get_decoders().values()}
    several = len({p.point.method for p in curves.points}) > MANY
    with st.container(horizontal=True, gap="medium"):
        whole = st.toggle(
            "Show all", key=settings.WHOLE_KEY, persist_state="session", help="Also what keeps too little"
        )
        panels = several and st.toggle("Panels", key=settings.PANELS_KEY, persist_state="session", help="One a decoder")
    chart = FrontierChart(
        frontier=curves,
        dark=is_dark(),
        share=None if found is None else found.share,
        whole=whole,
        current=[decoder.label for decoder in sweep.decoders if decoder in explored and decoder != sweep.baseline],
        opened=opened.system.label,
        callouts=_callouts(curves, found, rows),
        exact=exact,
        rows=rows,
        scrub=None
        if curve is None or opened.decoder is None
        else (curve, getattr(opened.decoder.select, curve.parameter)),
    )
    dragged = partial(_dragged, curve, [p.point.label for p in curves.points])
    what = f"Frontier: {format_axis_title(curves.y)} against {format_axis_title(curves.x)}"
    label = what if found is None else f"{what}. {found.text}"
    file = f"frontier-{curves.x}-{curves.y}"
    if panels:
        picked = plot(plot_panels(chart), "tradeoff.panels.chart", file=file, label=label)
    else:
        picked = plot(plot_frontier(chart), "tradeoff.frontier", file=file, label=label, on_adjust=dragged)
    caption, details = _caption(curves, sweep, len(_labelled(loaded)[2]), bool(exact))
    st.caption(caption, help=details)
    clicks = f"tradeoff.clicks.{panels}"
    if picked.clicks != st.session_state.get(clicks, 0):
        st.session_state[clicks] = picked.clicks
        selection.open_point(picked.clicked)
        st.rerun(scope="fragment")


def _callouts(curves: Frontier, found: Verdict | None, rows: ComparisonsByMetric) -> dict[str, str]:
    """What is said at the best point within the budget, and at the frontier's knee."""
    said = {}
    for p in (knee_of(curves), None if found is None else found.best):
        changes = [rows.get(axis, {}).get(p.point.label) if p is not None else None for axis in (curves.x, curves.y)]
        if p is not None and all(changes):
            said[p.point.label] = ", ".join(dict.fromkeys(change(row) for row in changes if row is not None))
    return said


def _dragged(curve: Curve | None, labels: list[str], name: str, value: float) -> None:
    """Take over what was dragged on the chart; for a callback."""
    if name == "level":
        st.session_state[settings.SHARE_KEY] = round(value / 100, 2)
    elif curve is not None:
        label = Decoder(curve.make_stage(value), decoders.first_scorer()).label
        if label in labels:
            selection.open_point(label)
        else:
            st.session_state[settings.SCRUBBED_KEY] = value


def _caption(curves: Frontier, sweep: Sweep, available_count: int, exact: bool) -> tuple[str, str]:
    """What the chart shows, in a line, and the details of its statistics."""
    faster = curves.x == TIME_AXIS
    if not sweep.is_stored:
        return "One query: no confidence interval · click a point to see its results", ""
    lacking = curves.asked - curves.queries
    parts = [f"Mean of {curves.queries:,}{f' of {curves.asked:,}' if lacking else ''} queries"]
    if lacking:
        parts[0] += ", those with both metrics at every setting"
    if available_count > len(sweep.queries):
        parts[0] += f", drawn at random from {available_count:,}"
    parts += ["cross = 95% CI of the difference to the baseline", "outlined = Pareto-optimal"]
    parts += ["line = every λ, exactly"] if exact else []
    parts += ["click a point to see its results"]
    details = [
        "Intervals are percentiles of a paired bootstrap over queries, each for its point alone; those of means take "
        f"{curves.resamples:,} draws. “n.s.”: not significant in a paired randomisation test after Holm's correction "
        "over all settings, or the interval holds 0; a loss counts as soon as its own interval excludes 0. The best "
        "setting was chosen on these same queries: choose on others than you report on (Tune does)."
    ]
    if faster:
        details.append("Times: the median of a few single calls, taken when a setting was measured.")
    if curves.left_out:
        details.append(f"{len(curves.left_out)} settings returned too little to be drawn.")
    if curves.remark:
        parts.append(curves.remark)
    return " · ".join(parts), " ".join(details)


def _other_systems(loaded: Loaded, sweep: Sweep, queries: Queries) -> dict[str, tuple[RankedRun, Cell]]:
    """Label → a run and its cell, in the metrics of the sweep; none before the queries have vectors.

    queries: all that the split has, of which the sweep may have drawn some.
    """
    vectors, qrels = sweep.vectors, sweep.qrels
    if vectors is None or qrels is None:
        return {}

    def cell(run: RankedRun) -> Cell:
        asked = loaded.space, vectors, qrels, sweep.k, sweep.metrics
        return get_or_compute(
            selection.MEMORY,
            ("run", run.name, run.digest, sweep.key),
            lambda: run.build_cell(*asked, split=sweep.split, aspects=loaded.dataset.aspects),
        )

    return {run.label: (run, cell(run)) for run in runs.read_runs(loaded, queries).values()}
