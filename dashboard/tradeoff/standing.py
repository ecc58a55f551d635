"""The place of another system on the frontier, and what a decision would gain over it."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import streamlit as st

from dashboard.charts.frontier import FrontierChart, plot_frontier
from dashboard.charts.verdict_data import list_headlines
from dashboard.components.live_plot import is_dark, plot
from dashboard.services import sweeps
from dashboard.services.memo import get_or_compute
from dashboard.services.source import Loaded
from dashboard.services.sweeps import Cells, Sweep
from dashboard.session import tradeoff as settings
from dashboard.tradeoff import selection, verdict
from dashboard.widgets.basics import show_failure
from dashboard.widgets.common import as_label
from dashboard.widgets.job_panel import JobPanel
from dashboard.widgets.tables import name_metric, pair
from engine.errors import FrontierError
from engine.evaluation.curve import Curve
from engine.evaluation.decide import OptionEstimates, estimate_on_axes
from engine.evaluation.frontier import BAND_RESAMPLES, TIME_AXIS, Frontier, FrontierPoint, frontier
from engine.evaluation.runs import RankedRun
from engine.progress import counted
from engine.values import Queries
from engine.wording import visible

SweepBuilder = Callable[[str, Queries, int], Sweep]
"""Builds a sweep from the name of a split, queries of it, and k."""
MAX_QUERIES = 500
MIN_QUERIES = 2
"""Queries that a decision needs: on a single one there is no chance to estimate."""

YOUR_SYSTEM = "your system"
"""Name of the run in sentences; its own stands above them."""


@dataclass(frozen=True, eq=False, kw_only=True)
class PlacedRun:
    """A run among decoders on the frontier."""

    frontier: Frontier
    point: FrontierPoint  # of the run
    baseline: FrontierPoint | None  # of Top-k
    curves: list[Curve]  # exact ones over the same queries
    estimates: OptionEstimates | None  # against the run; None where nothing can be decided


def draw_standing(loaded: Loaded, run: RankedRun, k: int, build_sweep: SweepBuilder) -> None:
    """Draw where a run lies on the frontier at its own k, over its own queries, and what another setting would gain.

    k: length of its longest list; build_sweep: builds the sweep of the decoders that it is compared with
    """
    st.divider()
    st.header("Where it stands", anchor=False)
    split, queries = _find_queries(loaded, run)
    if len(queries) < MIN_QUERIES:
        st.text("Too few of its queries are judged: nothing says what its lists are worth.")
        return
    try:
        sweep = build_sweep(split, queries, k)
        cells = _measure(sweep)
        standing = None if cells is None else _find_standing(run, sweep, cells)
    except FrontierError as error:
        show_failure("Its place on the frontier cannot be measured.", error)
        return
    if standing is not None:
        _draw_result(standing, split)


def _find_queries(loaded: Loaded, run: RankedRun) -> tuple[str, Queries]:
    """Return the split that judges most queries of a run, and those of them that have a list."""
    choices = []
    # A run may answer the queries of any split: the one with most of them is measured.
    for split in loaded.dataset.qrels:
        judged = loaded.dataset.judged(split)
        listed_ids = [query_id for query_id in judged.ids if run.documents.get(query_id)]
        choices.append((split, judged.only(listed_ids)))
    split, queries = max(choices, key=lambda choice: len(choice[1]), default=("", Queries((), ())))
    return split, queries.sample(MAX_QUERIES)


def _measure(sweep: Sweep) -> Cells | None:
    """Return the measured decoders; draw the job that measures them, or its button, until all are measured."""
    cells = sweeps.find_cells(sweep)
    # Settings of the frontier at the same k and queries are in the store already.
    if not cells.missing:
        return cells
    panel = JobPanel(
        purpose=sweeps.SWEEP_PURPOSE,
        key=sweep.key,
        title="Measuring the trade-off",
        work=partial(sweeps.run_sweep, sweep),
        start_label=f"Measure {counted(sweep.n_settings, 'setting')}",
        offer_text=f"The decoders of the frontier, on the {counted(len(sweep.queries), 'query', 'queries')} of this run"
        f" at k = {sweep.k}.",
        # As on the frontier: what takes seconds starts without a click.
        autostart=sweeps.is_small(sweep),
        failed_text="Measuring ended early; what is finished is kept.",
    )
    return None if panel.draw_until_result() is None else sweeps.find_cells(sweep)


def _find_standing(run: RankedRun, sweep: Sweep, cells: Cells) -> PlacedRun | None:
    """Return a run among the measured decoders. Raises FrontierError if no setting has the metrics of both axes."""
    run_cell = selection.measure_run(run, sweep)
    if run_cell is None:
        return None
    x, y = _choose_axes(sweep)
    key = "standing", sweep.key, x, y, run_cell.key

    def compute() -> PlacedRun:
        """Place the run and estimate the others against it; bootstrap intervals take the time."""
        # All cells have the same queries, those of the run, so that a short run loses nothing.
        points = frontier([*cells.points, run_cell], x, y, sweep.k, resamples=BAND_RESAMPLES)
        # Curves over other queries than the points' would not pass through them.
        curves = [curve for curve in cells.curves if not curve.left_out and len(curve.queries) == points.queries]
        point = selection.find_point(points, run.label)
        if point is None:
            metric_titles = f"{name_metric(x)} and {name_metric(y)}"
            raise FrontierError(f"{run.name} returned too little: it has {metric_titles} on too few queries")
        estimates = estimate_on_axes(points, curves, run_cell)
        baseline = selection.find_point(points, sweep.baseline.label)
        return PlacedRun(frontier=points, point=point, baseline=baseline, curves=curves, estimates=estimates)

    return get_or_compute(selection.MEMORY_KEY, key, compute)


def _choose_axes(sweep: Sweep) -> tuple[str, str]:
    """Return the metrics of the frontier's axes, or the defaults where the run has none of them, such as a time."""
    x = st.session_state.get(settings.X_AXIS_KEY, settings.X_METRIC)
    y = st.session_state.get(settings.Y_AXIS_KEY, settings.Y_METRIC)
    # A file says nothing of the time that its system took.
    x = settings.X_METRIC if x == TIME_AXIS or x not in sweep.metrics else x
    return x, y if y in sweep.metrics else settings.Y_METRIC


def _draw_result(standing: PlacedRun, split: str) -> None:
    """Draw the figures of a run, what a setting would gain over it, and the chart with both."""
    points, point, baseline = standing.frontier, standing.point, standing.baseline
    # Words first, as a phone draws one below the other.
    text_column, chart_column = pair("tradeoff-standing")
    with text_column:
        st.text(visible(_compare_with_baseline(points, point, baseline)))
        if standing.estimates is None:
            st.text("Nothing can be decided against it.")
        else:
            # with_options=False: only the two choices are named, and the list of all settings takes longest.
            decision = standing.estimates.decide(selection.get_budget(), with_options=False)
            for sentence in list_headlines(decision):
                short = sentence.replace(f"{point.name}'s", f"{YOUR_SYSTEM}'s")
                st.markdown(f"**{as_label(short)}**")
        verdict.draw_budget(points, replace(point, name=YOUR_SYSTEM))
        queries = counted(points.queries, "query", "queries")
        st.caption(visible(f"On {queries} of {split} at k = {points.k}, beside the decoders chosen under Frontier."))
    with chart_column:
        # Without a budget, as the chart's is of Top-k's value, and this one is of the run's.
        chart = FrontierChart(
            frontier=_name_system(points, point), dark=is_dark(), whole=True, opened=point.point.label,
            exact=standing.curves, has_handles=False,
        )  # fmt: skip
        figure = plot_frontier(chart)
        axes = f"{name_metric(points.y)} against {name_metric(points.x)}"
        label = f"{point.name.removeprefix('run ')} on the frontier of {axes}"
        plot(figure, "tradeoff.system.frontier", file="system-frontier", label=visible(label))


def _name_system(points: Frontier, point: FrontierPoint) -> Frontier:
    """Return the frontier with the run's point named as in the sentences beside it, which a phone has room for too."""
    named = replace(point, name=YOUR_SYSTEM.capitalize())

    def name_in(group: tuple[FrontierPoint, ...]) -> tuple[FrontierPoint, ...]:
        """Return points with the run's by its name."""
        return tuple(named if each.point.label == point.point.label else each for each in group)

    curves = {label: name_in(group) for label, group in points.curves.items()}
    return replace(points, curves=curves, front=name_in(points.front))


def _compare_with_baseline(points: Frontier, point: FrontierPoint, baseline: FrontierPoint | None) -> str:
    """Return the figures of a run, and of the baseline beside them."""
    names = name_metric(points.x, points.k), name_metric(points.y, points.k)
    text = f"{YOUR_SYSTEM.capitalize()}: {names[0]} {point.x:.3f}, {names[1]} {point.y:.3f}"
    if baseline is not None:
        text += f" ({baseline.name}: {baseline.x:.3f} and {baseline.y:.3f})"
    return f"{text}."
