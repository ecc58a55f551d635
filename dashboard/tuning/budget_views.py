"""Views of a tuning with a budget: what is known before it, its leader so far, and dev beside test after it."""

from collections.abc import Sequence

import streamlit as st

from dashboard.charts.figure import read_column
from dashboard.charts.frontier import FrontierChart, name_denied_role, plot_named_budget
from dashboard.charts.frontier_legend import format_legend, list_marks
from dashboard.charts.slopes import DecoderSlope, plot_slopes
from dashboard.components.live_plot import is_dark, plot
from dashboard.services import confirmations
from dashboard.services.memo import MAX_SHARED, get_or_compute
from dashboard.services.source import Loaded
from dashboard.services.sweeps import open_store
from dashboard.tuning.request import Splits, TuningRequest, find_store_file
from dashboard.widgets.common import as_label
from dashboard.widgets.tables import pair
from engine.errors import DataError, FrontierError
from engine.evaluation.curve import Curve
from engine.evaluation.decide import OptionEstimates, estimate_options
from engine.evaluation.decision import Option
from engine.evaluation.frontier import BAND_RESAMPLES, frontier
from engine.evaluation.metrics import title_of
from engine.evaluation.statistics import RESAMPLES
from engine.evaluation.sweep.cell import Cell
from engine.evaluation.sweep.store import Store
from engine.evaluation.tuning.objectives import DIVERSE, RELEVANT, Objective
from engine.evaluation.tuning.tuned import Tuned
from engine.progress import counted
from engine.stages import methods
from engine.values import digest_of
from engine.wording import visible

MEMORY_KEY = "tune.frontier.memory"
"""Session key of the frontiers that were drawn last."""
MAX_KNOWN_CELLS = 500
THEORY_TITLE = "Theory"
"""Title of the page that measures reranking."""
KNOWN_HEIGHT_PX = 460
NO_CHOICE = "None of them is chosen."
"""Sentence below charts of all decoders, if the baseline stays."""


def draw_known(loaded: Loaded, request: TuningRequest, splits: Splits) -> None:
    """Draw the settings already measured on the split on which a tuning chooses."""
    cells = _find_known_cells(loaded, request, splits)
    if len(cells) > 1:
        # The baseline is no setting that is tried, so the form's count leaves it out too.
        n_known = sum(cell.label != request.like.label for cell in cells)
        st.markdown(f"**Measured before on {as_label(splits.dev)}: {counted(n_known, 'setting')}**")
        _draw_frontier(cells, request.k, request.objective, None, "tune.known", _find_known_curves(cells[0]))
    else:
        # Names of splits are not ours: a text is never read as Markdown.
        st.text(visible(f"Nothing is measured yet on {splits.dev}. Points appear here as they are measured."))


def draw_sealed_split(loaded: Loaded, request: TuningRequest, splits: Splits) -> None:
    """Draw that a tuning opens the split that confirms once, after its choice, or what has opened it before."""
    if splits.test is None:
        st.badge("no queries kept back: not confirmed", icon=":material/warning:", color="orange")
        return
    n_queries = counted(len(splits.queries[splits.test]), "query", "queries")
    text = "Opened once, after the choice"
    text += ": what is chosen must be sure to keep the budget there too." if request.objective.constrained else "."
    if request.every:
        text += " The other decoders' best settings are shown beside it, and change nothing."
    counts = confirmations.count_by_page(loaded, splits.test)
    openings, label_parts = [], [n_queries]
    if counts:
        choices = " and ".join(f"{page} about {counted(n_choices, 'choice')}" for page, n_choices in counts.items())
        openings.append(f"asked on {choices}")
        label_parts.append(f"opened before, on {' and '.join(counts)}")
    # A page that has asked them about choices has also shown them.
    seen_pages = [page for page in _list_pages_that_measured(loaded, splits) if page not in counts]
    if seen_pages:
        openings.append(f"measured on {' and '.join(seen_pages)}, all or some of them")
        label_parts.append(f"seen on {' and '.join(seen_pages)}")
    if not openings:
        st.badge(f"{n_queries} · sealed", icon=":material/mail:", color="green", help=text)
        return
    text += (
        f" These queries were {' and '.join(openings)}: whoever chooses by what they said has no others to confirm it."
    )
    st.badge(" · ".join(label_parts), icon=":material/drafts:", color="orange", help=text)


def _list_pages_that_measured(loaded: Loaded, splits: Splits) -> list[str]:
    """Return the titles of the pages that have shown a measurement of a query of the split that confirms.

    Pages draw measurements as they are stored, one by one, so a sweep that still runs counts.
    """
    query_ids, corpus = set(splits.queries[splits.test or ""].ids), loaded.space.corpus.digest
    pages = []
    for measured_ids, metrics in open_store().read_measured_queries(corpus):
        if not query_ids.isdisjoint(measured_ids):
            # Both pages store in one file; only Trade-off measures diversity, which it draws.
            pages.append(confirmations.TRADEOFF_TITLE if DIVERSE in metrics else THEORY_TITLE)
    tuning_file = find_store_file(loaded)
    if tuning_file.exists():
        for measured_ids, _metrics in Store(tuning_file).read_measured_queries(corpus):
            if not query_ids.isdisjoint(measured_ids):
                pages.append(confirmations.TUNE_TITLE)
    return list(dict.fromkeys(pages))


def draw_so_far(cells: Sequence[Cell], baseline: Cell, request: TuningRequest, n_settings: int) -> None:
    """Draw the frontier of a running tuning with its leader, which is not confirmed yet.

    The leader is the setting that would be chosen now. It must keep the budget, the share of the baseline's Recall that
    is set in the objective. cells: the settings measured so far; n_settings: of all
    """
    estimates = _estimate([baseline, *cells], baseline, request.k)
    # with_options=False: only the leader is drawn, so the list of all settings, which takes longest, is not made.
    decision = None if estimates is None else estimates.decide(request.objective.share, with_options=False)
    # Of the settings that are sure to keep that share of Recall, the one with the largest gain. Without one, the bet:
    # the largest gain among those that keep it with a moderate chance.
    leader = None if decision is None else decision.sure or decision.bet
    leader_text = "No leader so far" if leader is None else f"{leader.name} leads, not confirmed"
    st.markdown(f"**{visible(leader_text)}**")
    progress_text = f"So far: {len(cells):,} of {n_settings:,} settings."
    if len(cells) >= n_settings:
        # The job goes on: at every λ there may be a better one.
        progress_text += " Their exact curves, which come last, may still change the leader."
    st.caption(f"{progress_text} None of them is sure to keep the budget." if leader is None else progress_text)
    curves = _find_known_curves(baseline)
    _draw_frontier([baseline, *cells], request.k, request.objective, estimates, "tune.so-far", curves)


def draw_after(tuned: Tuned) -> None:
    """Draw the frontier that the choice was made on, and what each decoder keeps on dev and on test.

    A decoder keeps a share of the baseline's Recall; dev is the split that chose, test the one that confirms.
    """
    chart_column, side_column = pair("tune-after")
    cells = [tuned.base, *tuned.points]
    with chart_column:
        curves = [candidate.curve for candidate in tuned.candidates if candidate.curve is not None]
        sure = None if tuned.decision is None else tuned.decision.sure
        outcome_text = "where no setting could be chosen" if tuned.stays else "where the setting was chosen"
        st.markdown(f"**Measured on {as_label(tuned.dev)}, {outcome_text}**")
        _draw_frontier(cells, tuned.k, tuned.objective, tuned.estimates, "tune.frontier", curves, sure)
    base_test = tuned.base_test
    if base_test is None or not base_test.mean[RELEVANT]:
        return
    slopes = []
    for candidate in tuned.candidates:
        if candidate.test is not None:
            slope = DecoderSlope(
                name=candidate.name,
                method=candidate.dev.method,
                on_dev=candidate.dev.mean[RELEVANT] / tuned.base.mean[RELEVANT],
                on_test=candidate.test.mean[RELEVANT] / base_test.mean[RELEVANT],
                is_chosen=candidate.dev.label == tuned.chosen.label,
            )
            slopes.append(slope)
    with side_column:
        splits, metric = (visible(tuned.dev), visible(tuned.test or "")), f"{title_of(RELEVANT)}@{tuned.k}"
        baseline = methods("selector")[tuned.base.method].title
        figure = plot_slopes(slopes, splits, tuned.objective.share, metric, baseline, is_dark())
        label = f"{metric} kept on {splits[0]} and on {splits[1]}. {tuned.status}"
        st.markdown(
            f"**{metric} that each decoder keeps, on {as_label(tuned.dev)} and on {as_label(tuned.test or '')}**"
        )
        plot(figure, "tune.slopes", file="dev-test", label=label)
        caption = f"Each decoder at its best setting: what it keeps of {baseline}'s {title_of(RELEVANT)}."
        has_choice = any(slope.is_chosen for slope in slopes)
        st.caption(f"{caption} {'Thick: the choice.' if has_choice else NO_CHOICE}")


def _find_known_cells(loaded: Loaded, request: TuningRequest, splits: Splits) -> list[Cell]:
    """Return the stored measurements of a tuning's first split; each decoder once."""
    queries, query_ids = splits.queries[splits.dev], set(splits.queries[splits.dev].ids)
    embeddings, qrels = loaded.space.embeddings.digest, splits.qrels[splits.dev].digest

    def read() -> list[Cell]:
        """Read the cells of Trade-off's store that were measured on the same queries, vectors and judgements."""
        by_label: dict[str, Cell] = {}
        for cell in open_store().read_cells():
            digests = (cell.provenance.get("embeddings"), cell.provenance.get("qrels"))
            has_same_data = digests == (embeddings, qrels) and set(cell.queries) == query_ids
            has_both_metrics = RELEVANT in cell.values and DIVERSE in cell.values
            if cell.k == request.k and has_same_data and has_both_metrics:
                by_label[cell.label] = cell
        return list(by_label.values())[:MAX_KNOWN_CELLS]

    return get_or_compute(MEMORY_KEY, ("known", embeddings, queries.digest, qrels, request.k), read)


def _find_known_curves(cell: Cell) -> list[Curve]:
    """Return Trade-off's exact curves at every λ, over the queries, vectors and judgements of a measurement."""
    digests = tuple(map(cell.provenance.get, ("embeddings", "qrels")))

    def read() -> list[Curve]:
        """Read the stored curves of the same data, each selector with its settings once."""
        by_label: dict[str, Curve] = {}
        for curve in open_store().read_curves():
            has_same_data = tuple(map(curve.provenance.get, ("embeddings", "qrels"))) == digests
            if curve.k == cell.k and has_same_data and set(curve.queries) == set(cell.queries):
                by_label[curve.label] = curve
        return list(by_label.values())

    return get_or_compute(MEMORY_KEY, ("curves", *digests, digest_of(cell.queries), cell.k), read)


def _estimate(cells: Sequence[Cell], baseline: Cell, k: int) -> OptionEstimates | None:
    """Estimate all settings for a decision; None if that is impossible, as with a baseline Recall of 0."""
    key = "estimates", tuple(read_column(cells, "key"))

    def compute() -> OptionEstimates | None:
        """Estimate the settings' gains of diversity, and the shares of the baseline's Recall that they keep."""
        try:
            return estimate_options(cells, baseline=baseline, metric=RELEVANT, objective=DIVERSE, k=k)
        except DataError:
            return None

    return get_or_compute(MEMORY_KEY, key, compute, MAX_SHARED, is_shared=True)


def _draw_frontier(
    cells: Sequence[Cell],
    k: int,
    objective: Objective,
    estimates: OptionEstimates | None,
    key: str,
    curves: Sequence[Curve] = (),
    sure: Option | None = None,
) -> None:
    """Draw settings as points of diversity and Recall, with the budget as a line that cannot be dragged.

    The budget is the share of the baseline's Recall that a setting must keep, as the objective says. estimates: of the
    settings' chances to keep it, None to draw all alike; key: of the chart, "tune.known" before a tuning, "tune.so-far"
    while it runs and "tune.frontier" after it; curves: exact ones, in place of straight lines; sure: the choice
    that is sure to keep it, as the split that confirms leaves it
    """
    # Bootstrap bands take time: before the end, when points are still added, coarse ones do.
    is_final = key == "tune.frontier"
    resamples = BAND_RESAMPLES if is_final else RESAMPLES.low
    try:
        points = get_or_compute(
            MEMORY_KEY,
            ("frontier", tuple(read_column(cells, "key")), resamples),
            lambda: frontier(cells, DIVERSE, RELEVANT, k, resamples=resamples),
            MAX_SHARED,
            is_shared=True,
        )
    except FrontierError as error:
        st.caption(visible(error.finding))
        return
    chart = FrontierChart(
        frontier=points,
        dark=is_dark(),
        share=objective.share,
        estimates=estimates,
        has_handles=False,
        is_partial=not is_final,
        pinned=None if sure is None else sure.label,
        denied_role=name_denied_role(sure),
        has_envelope=False,
        # Curves over other queries than the points' would not pass through them.
        exact=[curve for curve in curves if not curve.left_out and len(curve.queries) == points.queries],
    )
    figure = plot_named_budget(chart)
    if key == "tune.known":
        # The form above it and the whole of the chart fit on a screen.
        figure.layout.height = KNOWN_HEIGHT_PX
    plot(figure, key, file="frontier", label="Frontier: diversity against Recall")
    st.html(format_legend(list_marks(chart)))
