"""Differences by query and by kind of query."""

from collections.abc import Sequence
from functools import partial

import streamlit as st

from dashboard.charts.frontier import strata_figure
from dashboard.components.live_plot import is_dark, plot
from dashboard.services.memo import remembered
from dashboard.services.source import Loaded
from dashboard.services.sweeps import Sweep
from dashboard.session.query import LABELLED, select
from dashboard.tradeoff.selection import ANEW, MEMORY, open_point
from dashboard.widgets.choices import choose
from dashboard.widgets.tables import draw_columns, number_column
from engine.evaluation.frontier import Frontier, FrontierPoint
from engine.evaluation.metrics import title_of
from engine.evaluation.paired import QueryDifference, by_query
from engine.evaluation.stratification import KINDS, stratify
from engine.evaluation.stratification import kinds as kinds_of
from engine.values import replace_surrogates

MOST_NAMED = 500
"""Queries won, and lost, that a list names."""
MOST_ROWS = 12


def won_and_lost(
    loaded: Loaded,
    sweep: Sweep,
    curves: Frontier,
    base: FrontierPoint,
    best: tuple[FrontierPoint, ...],
    opened: str,
) -> None:
    """The queries that a decoder has more for than the baseline, and those that it has less for; a click asks one."""
    shown = [p for p in curves.points if p.point.label == opened and p is not base]
    points = {p.point.label: p for p in [*shown, *best[1:]]}
    if not points:
        return
    left, right = st.columns([3, 2], vertical_alignment="bottom")
    label = left.selectbox(
        "Decoder", list(points), key="tradeoff.won.decoder", format_func=lambda name_of: points[name_of].name
    )
    with right:
        metric = _metric(curves, "tradeoff.won.metric")
    rows = remembered(
        MEMORY,
        ("won", sweep.key, tuple(p.point.label for p in curves.points), metric, label),
        lambda: by_query(points[label].point, base.point, metric, curves.k, among=[p.point for p in curves.points]),
    )
    won = [row for row in rows if row.difference > 0]
    lost = [row for row in reversed(rows) if row.difference < 0]
    metric_title = f"{title_of(metric)}@{curves.k}"
    for place, name, differences in zip(st.columns(2, gap="medium"), ("Won", "Lost"), (won, lost), strict=True):
        with place:
            st.text(f"{name}: {len(differences):,} of {len(rows):,} queries")
            _listed(loaded, sweep.split, differences, metric_title, base.name, f"tradeoff.{name.lower()}", label)
    more = f" The {MOST_NAMED} furthest apart are listed." if max(len(won), len(lost)) > MOST_NAMED else ""
    st.caption(f"Click a query to ask it: its sets appear above, at this setting.{more}")


def _listed(
    loaded: Loaded, split: str, rows: Sequence[QueryDifference], metric: str, base: str, key: str, label: str
) -> None:
    if not rows:
        return
    rows, texts, position = rows[:MOST_NAMED], loaded.dataset.queries.texts, loaded.dataset.queries.position
    number = number_column("%.3f", 84)
    # Another decoder's list is another widget: a selection is a place, and must not outlive its list.
    widget_key = f"{key}.{label}.{metric}"
    draw_columns(
        {
            "Query": ([replace_surrogates(texts[position[r.query]])[:300] for r in rows], None),
            metric: ([r.value for r in rows], number),
            f"of {base}": ([r.baseline for r in rows], number),
            "Δ": ([r.difference for r in rows], number),
        },
        key=widget_key,
        most=MOST_ROWS,
        on_select=partial(_ask, loaded, split, [r.query for r in rows], widget_key, label),
        selection_mode="single-row",
    )


def _ask(loaded: Loaded, split: str, queries: list[str], key: str, label: str) -> None:
    """Make a query of the list the one that the sidebar asks."""
    rows = st.session_state[key].selection.rows
    if not rows:
        return
    open_point(label)
    if select(loaded, LABELLED, split, queries[rows[0]]) is None:
        st.session_state[ANEW] = True


def kinds(loaded: Loaded, sweep: Sweep, curves: Frontier, base: FrontierPoint, best: tuple[FrontierPoint, ...]) -> None:
    """The differences by how many documents are relevant, how long they and the query are, how many aspects it has."""
    corpus = loaded.space.corpus
    qrels = sweep.qrels
    if qrels is None:
        return
    counts = remembered(
        MEMORY, ("counted", sweep.key), lambda: kinds_of(corpus, sweep.queries, qrels, loaded.dataset.aspects)
    )
    if len(best) < 2 or not counts:
        return
    with st.container(horizontal=True, vertical_alignment="bottom", gap="medium"):
        by = choose("By", counts, "tradeoff.by", named=True, format_func=KINDS.__getitem__)
        metric = _metric(curves, "tradeoff.kinds.metric")
    points = [p.point for p in best]
    rows = remembered(
        MEMORY,
        ("kinds", sweep.key, tuple(p.label for p in points), metric, by),
        lambda: stratify(points, metric, counts[by], curves.k, against=base.point.label),
    )
    others = [row for row in rows if row.label != base.point.label]
    title = f"{title_of(metric)}@{curves.k}"
    figure = strata_figure(others, {p.label: p.method for p in points}, KINDS[by], title, base.name, is_dark())
    plot(figure, "tradeoff.kinds", file=f"kinds-{metric}")
    st.caption(
        "The best setting of each method; bars: 95 % intervals of the mean difference, paired by query, each for "
        "itself. A group of one query has none."
    )


def _metric(curves: Frontier, key: str) -> str:
    return choose("Metric", curves.metrics, key, named=True, persist=False, format_func=title_of)
