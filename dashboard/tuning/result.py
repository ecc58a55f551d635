"""The result of a tuning: the setting, or the best of all decoders, its report on other queries, and its export."""

import json
from collections.abc import Sequence
from contextlib import suppress
from html import escape
from typing import Any, Literal

import streamlit as st

from dashboard.charts.differences import ForestRow, plot_forest
from dashboard.charts.parameters import plot_heat_map, plot_slices
from dashboard.components.live_plot import Picked, is_dark, plot
from dashboard.services import trained
from dashboard.services.source import Loaded
from dashboard.session import decoders
from dashboard.tuning.request import TuningOutcome
from dashboard.widgets.basics import download_button
from dashboard.widgets.choices import choose, select
from dashboard.widgets.tables import draw_columns, draw_table, number_column, pair, text_column
from engine.errors import DataError, ParamError
from engine.evaluation.export import export_all
from engine.evaluation.heat_map import build_slices, compute_importance, heat_map
from engine.evaluation.metrics import METRICS, mean_of_defined, title_of
from engine.evaluation.paired import declared_parameters, format_decoder
from engine.evaluation.statistics import Comparison, describe_comparison, format_p_value
from engine.evaluation.sweep.cell import Cell, decoder_from_json
from engine.evaluation.tables import SIGNIFICANCE_ARROWS, build_frame, format_csv
from engine.evaluation.tuning.objectives import DIVERSE, RELEVANT, Objective
from engine.evaluation.tuning.tuned import Tuned, compare_on_dev, suggest_next_step
from engine.wording import percent, visible

HEADING = "font-size: 1.5rem; font-weight: 700; line-height: 1.2"
LOOKS = {True: "light-dark(#15803D, #4ADE80)", False: "light-dark(#B45309, #FBBF24)", None: "inherit"}
"""The colour of a verdict, by whether the choice is confirmed."""
CAPTION = "From, to: 95% paired bootstrap CI of the difference. ↑ ↓ significant (test and interval agree)."
SLICES, HEAT_MAP, TABLE = "Slices", "Heat-map", "All settings"
DIFFERENCE = number_column("%+.3f")
PICKED, REPORTED = "tune.picked", "tune.reported"
"""Session keys: the setting that was opened last, and the one that the table reported last."""


def show(loaded: Loaded, outcome: TuningOutcome, stale: bool) -> None:
    """The verdict, its differences, what it was chosen from, and what is told of it. stale: the form has changed."""
    tuned = outcome.tuned
    _verdict(outcome, stale)
    if tuned.several:
        _decoders(tuned)
    else:
        left, right = pair("tune-charts")
        with left:
            _forest(tuned)
        with right:
            show_points(tuned.points, tuned.base, tuned.k, tuned.objective, tuned.chosen)
    with st.expander("Table and details"):
        if tuned.several:
            _decoder_table(tuned)
        else:
            _report(tuned)
        st.text("\n".join(map(visible, tuned.sentences)))
    with st.expander("Code and files"):
        _use(loaded, outcome)


def _verdict(outcome: TuningOutcome, stale: bool) -> None:
    """What was chosen, whether that holds, and the way to Explore."""
    tuned = outcome.tuned
    name = tuned.winner.name if tuned.several else format_decoder(tuned.chosen.decoder, with_scorers=False)
    gained = describe_comparison(tuned.winner_gain) if tuned.several and tuned.winner_gain is not None else ""
    with st.container(border=True, key="tune-verdict"):
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            status = f'<span style="color: {LOOKS[tuned.is_confirmed]}">{escape(visible(tuned.status))}</span>'
            told = f"{escape(name)} — {status}"
            st.html(f'<div role="heading" aria-level="2" style="{HEADING}">{told}</div>', width="content")
            if stale:
                st.badge("from earlier settings", icon=":material/history:", color="gray")
            st.space("stretch")
            apply(tuned.chosen, tuned.k, "tune.apply", "primary")
        scorers = decoders.describe_scorers(tuned.decoder)
        more = " · ".join(filter(None, [suggest_next_step(tuned), scorers, outcome.remarks]))
        for line in filter(None, [tuned.outcome, gained, more]):
            st.text(visible(line))


def _forest(tuned: Tuned) -> None:
    """The differences to the baseline on both splits, and what they have to keep to."""
    splits = [(tuned.test or "", True, tuned.comparisons), (tuned.dev, False, compare_on_dev(tuned))]
    metrics = tuned.objective.metrics[::-1]  # what is gained, then what it costs
    rows = [
        ForestRow(f"{METRICS[metric].title} on {split}", tuned.chosen.method, confirms, row)
        for metric in metrics
        for split, confirms, found in splits
        for row in found
        if row.metric == metric
    ]
    _draw_forest(tuned, rows, "tune.forest", "Filled: queries it was not chosen on. Bars: 95% bootstrap CI.")


def _decoders(tuned: Tuned) -> None:
    """Every decoder at its best beside the baseline, in what is gained and in what it costs."""
    metrics = tuned.objective.metrics[::-1]
    split, found = _tested(tuned)
    by_label = {one.dev.label: one for one in tuned.candidates}
    for place, metric in zip(pair("tune-charts"), metrics, strict=False):
        rows = [
            ForestRow(row.name, by_label[row.label].dev.method, row.label == tuned.chosen.label, row)
            for row in found
            if row.metric == metric
        ]
        with place:
            what = f"{METRICS[metric].title}@{tuned.k} on {visible(split)}"
            _draw_forest(tuned, rows, f"tune.forest.{metric}", "Filled: the choice. Bars: 95% bootstrap CI.", what)


def _tested(tuned: Tuned) -> tuple[str, Sequence[Comparison]]:
    """The split that reports, or else the one that chose, and the differences there."""
    return (tuned.dev, compare_on_dev(tuned)) if tuned.test is None else (tuned.test, tuned.comparisons)


def _draw_forest(tuned: Tuned, rows: Sequence[ForestRow], key: str, caption: str, what: str = "") -> None:
    """Differences with what they have to keep to; what: what they are of, where the rows do not say it."""
    if not rows:
        return
    least = {tuned.objective.metrics[0]: tuned.objective.share} if tuned.objective.constrained else {}
    st.markdown(f"**{f'{what}: d' if what else 'D'}ifference to {rows[0].difference.baseline}**")
    plot(plot_forest(rows, least, is_dark()), key, file="forest", label=f"{tuned.status}: {tuned.outcome}")
    st.caption(caption)


def _report(tuned: Tuned) -> None:
    """The chosen setting beside the baseline, on both splits."""
    rows = {row.metric: row for row in tuned.comparisons}
    dev, test = visible(tuned.dev), visible(tuned.test or "")
    table = []
    for metric in measured(tuned.chosen):
        line = {
            "Metric": f"{METRICS[metric].title}@{tuned.k}",
            f"{dev}: baseline": tuned.base.mean[metric],
            f"{dev}: chosen": tuned.chosen.mean[metric],
        }
        if row := rows.get(metric):
            line |= {
                f"{test}: baseline": row.baseline_mean,
                f"{test}: chosen": row.mean,
                **_tested_values(row),
                **dict(zip(("Wins", "Ties", "Losses"), row.wins, strict=True)),
            }
        table.append(line)
    means = [name for name in table[0] if ": " in name]
    draw_table(table, {**dict.fromkeys(means, number_column("%.3f")), **_tested_columns("")}, placeholder="")
    if tuned.reported:
        st.caption(CAPTION)


def _tested_columns(of: str) -> dict[str, Any]:
    """How the columns of a difference are shown, whose names begin with `of`."""
    signed = number_column("%+.3f")
    return {
        f"{of}difference": number_column("%+.3f", help="Chosen − baseline"),
        of.strip(): text_column(30, "↑ ↓ significant"),
        f"{of}from": signed,
        f"{of}to": signed,
        f"{of}p": text_column(help="Paired randomisation test, Holm-corrected over the rows"),
    }


def _tested_values(row: Comparison, of: str = "") -> dict[str, Any]:
    """The columns of a difference, by names that begin with `of`."""
    return {
        f"{of}difference": row.difference,
        of.strip(): SIGNIFICANCE_ARROWS[(1 if row.difference > 0 else -1) if row.significant else 0].strip(),
        f"{of}from": row.low,
        f"{of}to": row.high,
        f"{of}p": format_p_value(row.p_holm).removeprefix("p = ").removeprefix("p "),
    }


def _decoder_table(tuned: Tuned) -> None:
    """Every decoder at its best: its differences to the baseline on the split that reports."""
    split, found = _tested(tuned)
    by_label = {one.dev.label: one for one in tuned.candidates}
    metrics = tuned.objective.metrics[::-1]
    rows: dict[str, dict[str, Any]] = {}
    for row in sorted(found, key=lambda row: metrics.index(row.metric)):
        line = rows.setdefault(row.label, {"Decoder": row.name, "Settings": by_label[row.label].settings})
        line |= _tested_values(row, f"{METRICS[row.metric].title} ")
    looks = {name: look for m in metrics for name, look in _tested_columns(f"{METRICS[m].title} ").items()}
    draw_table(list(rows.values()), looks, placeholder="")
    where = f"Each at its best on {tuned.dev}, measured on {split}."
    st.caption(f"{visible(where)} {CAPTION}")


def _use(loaded: Loaded, outcome: TuningOutcome) -> None:
    """The chosen decoder for elsewhere, and the numbers as files."""
    tuned = outcome.tuned
    use = trained.export_context(loaded, tuned.k, documents=outcome.documents)
    snippets = {s.title: s for s in export_all(tuned.decoder, use)}
    left, right = st.columns([3, 1], vertical_alignment="bottom")
    with left:
        snippet = snippets[choose("For", snippets, "tune.target")]
    with right.popover("Download", icon=":material/download:", width="stretch"):
        name = f"tuned-{tuned.decoder.select.spec.name}"
        content = json.dumps(tuned.as_json(), ensure_ascii=False, indent=2, allow_nan=False)
        cells = format_csv(build_frame([tuned.base, *tuned.points]))
        download_button("Result, JSON", content, f"{name}.json", "application/json", "tune.json", width="stretch")
        download_button("All settings, CSV", cells, f"{name}.csv", "text/csv", "tune.csv", width="stretch")
    st.code(snippet.text, language=snippet.language, wrap_lines=True)


def show_points(points: Sequence[Cell], base: Cell, k: int, objective: Objective, chosen: Cell | None = None) -> None:
    """Points of one selector on the split to choose on, with the baseline's, by a view of the person's choice."""
    metrics = tuple(dict.fromkeys((RELEVANT, DIVERSE, *objective.metrics)))
    ways = [SLICES, TABLE]
    with suppress(ParamError, DataError):  # where not just two parameters vary
        heat_map(points, objective.metrics[-1], k)
        ways = [SLICES, HEAT_MAP, TABLE]
    way = choose("View", ways, f"tune.view.{len(ways)}")
    if way == HEAT_MAP:
        _heat_map(points, objective, k, chosen)
    elif way == TABLE:
        _table(points, base, chosen)
    else:
        _slices(points, base, metrics, k, chosen)
    for metric in metrics:
        if found := compute_importance(points, metric, k):
            parts = [f"{symbol} {percent(share)}" for symbol, share in found.items()]
            parts.append(f"together {percent(1 - sum(found.values()))}")
            st.caption(f"What moves {title_of(metric)} (share of its variance): {' · '.join(parts)}")
    _opened(points, base, k, chosen)


def measured(point: Cell) -> list[str]:
    """The metrics of a point, as they are declared: a store has them by name."""
    return [m for m in METRICS if m in point.values]


def _slices(points: Sequence[Cell], base: Cell, metrics: tuple[str, ...], k: int, chosen: Cell | None) -> None:
    grid = build_slices(points, base, metrics, k, chosen_cell=chosen)
    if not grid.slices:
        st.caption("One setting so far.")
        return
    _clicked("slices", plot(plot_slices(grid, is_dark()), "tune.slices", file="slices"))
    notes = ["dashed = chosen"] if chosen else []
    if chosen and len(grid.slices) > 1:
        notes.append("joined = differs from it in this parameter alone")
    st.caption(" · ".join(["Tuning queries", *notes, f"dotted = {_name(base)}", "click a point to open it"]))


def _heat_map(points: Sequence[Cell], objective: Objective, k: int, chosen: Cell | None) -> None:
    names = measured(points[0])
    last = objective.metrics[-1]
    metric = select("Metric of the map", names, "tune.map.metric", default=last, format_func=title_of, width=220)
    grid = heat_map(points, metric, k)
    figure = plot_heat_map(grid, is_dark(), None if chosen is None else chosen.key, clickable=True)
    _clicked("map", plot(figure, "tune.map", file="heat-map"))
    fewer = grid.queries[grid.keys != ""]
    notes = ["Tuning queries", *(["framed = chosen"] if chosen else []), "click a cell to open it"]
    if fewer.min() < fewer.max():
        notes.append("cells with fewer queries are not comparable")
    st.caption(" · ".join(notes))


def _table(points: Sequence[Cell], base: Cell, chosen: Cell | None) -> None:
    rows = [base, *points]
    whole = build_frame(rows)
    declared = declared_parameters(points[0].method)
    params = [n for n in declared if len({p.decoder["select"][n] for p in points}) > 1]
    marks = [_name(base), *("chosen" if chosen and p.key == chosen.key else "" for p in points)]
    settings = {n: whole[f"select.{n}"].astype(object) for n in params}
    event = draw_columns(
        {
            "": (marks, text_column(80)),
            **{declared[n].symbol: (values.where(values.notna(), None), None) for n, values in settings.items()},
            **{title_of(m): ([_beyond(p, base, m) for p in rows], DIFFERENCE) for m in measured(points[0])},
            "Returned": (whole["returned"], number_column("%.1f", help="Documents per query, on average")),
            "ms per query": (whole["milliseconds"], number_column("%.2f", help="Median of single calls")),
        },
        key=f"tune.table.{len(rows)}",
        on_select="rerun",
        selection_mode="single-row",
        placeholder="",
        height=min(36 * (len(rows) + 1) + 2, 420),
    )
    place = next(iter(event.selection.rows), None)
    key = None if place is None or place >= len(rows) else rows[place].key
    # Open a setting when the table reports another one than before.
    if key != st.session_state.get(REPORTED):
        st.session_state[REPORTED] = key
        st.session_state[PICKED] = key or st.session_state.get(PICKED)
    st.caption(f"Differences to {_name(base)} on the tuning queries. Select a row to open its setting.")


def _beyond(point: Cell, base: Cell, metric: str) -> float:
    """By how much a setting has more than the baseline, over the queries on which both have the metric."""
    return mean_of_defined(point.values[metric] - base.values[metric])


def _name(point: Cell) -> str:
    return format_decoder(point.decoder, with_scorers=False)


def _clicked(where: str, picked: Picked) -> None:
    """Open the setting of a point that was clicked just now."""
    before = st.session_state.setdefault("tune.clicks", {})
    if picked.clicks != before.get(where, 0):
        before[where] = picked.clicks
        st.session_state[PICKED] = picked.clicked


def _opened(points: Sequence[Cell], base: Cell, k: int, chosen: Cell | None) -> None:
    """The figures of the setting that was opened last, and the way to Explore."""
    point = next((p for p in points if p.key == st.session_state.get(PICKED)), None)
    if point is None:
        return
    with st.container(border=True):
        words, button = st.columns([5, 2], vertical_alignment="center")
        which = " (chosen)" if chosen is not None and point.key == chosen.key else ""
        words.text(f"{_name(point)}{which}, on {point.split}")
        with button:
            apply(point, k, "tune.apply.opened")
        beside = {"This setting": point, **({"Chosen": chosen} if chosen else {})}
        draw_table(
            [{"": name, **{title_of(m): _beyond(p, base, m) for m in measured(point)}} for name, p in beside.items()],
            {title_of(m): DIFFERENCE for m in measured(point)},
        )
        st.caption(f"Differences to {_name(base)}.")


def apply(point: Cell, k: int, key: str, kind: Literal["primary", "secondary"] = "secondary") -> None:
    """The button that shows a setting in Explore."""
    if st.button(
        "Use in Explore",
        key=key,
        type=kind,
        icon=":material/compare_arrows:",
        on_click=decoders.apply_decoder,
        args=(decoder_from_json(point.decoder), k),
    ):
        decoders.open_explore()
