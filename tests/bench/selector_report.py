"""selectors.md: the targets, the tables and how they were made; it knows no figure that was not measured."""

from __future__ import annotations

import datetime
from typing import Any

import pandas as pd
import peers
from harness import Block, join_blocks, machine, ms, table, verdict
from selector_cells import (
    BATCH,
    CELL,
    COLUMNS,
    DATA,
    GREEDY,
    GRID,
    KEYS,
    LONG,
    MEMORY,
    METHODS,
    OURS,
    PAPER,
    PRODUCT,
    REFERENCE,
    TOO_LONG,
    Row,
)  # fmt: skip
from selector_data import HOW
from selector_extras import AT_ONCE, ONE_BY_ONE

PACKAGES = ("torch", "numpy", "pyversity", "langchain-core", "faiss-cpu")
DOT = " · "
MMR_PEER, MMR_TARGETS = "pyversity mmr", {0.9: 20, 0.7: 4, 0.5: 1}
Verdict = tuple[str, str, str]
"""A target in words, the figure it is about, and whether it is met."""


def report(measured: list[Row], command: str, devices: list[str], notes: list[str]) -> str:
    """The whole page as Markdown. devices: those of this machine; notes: what was left out."""
    rows = pd.DataFrame(measured, columns=list(COLUMNS))
    rows["cell"] = rows.groupby(list(KEYS), dropna=False, sort=False).ngroup()
    rows["passes"] = rows.seconds / rows.pass_seconds
    grid = rows[rows.part == CELL]
    cells = grid[(grid.device == "cpu") & grid.seconds.notna()]
    if "cuda" not in devices:
        notes = [*notes, "There was no CUDA device: CPU only."]
    blocks: list[Block] = [
        "# Selectors: time, passes over the vectors, memory",
        f"`{command}`",
        f"{machine(PACKAGES)}; {datetime.date.today().isoformat()}.",
        METHOD,
        *([[f"- {note}" for note in notes]] if notes else []),
        "## Targets",
        table(("target", "measured", "met"), verdicts(rows, cells)),
        "## Beside the fastest peer",
        *_overview(cells),
        *_agreement(grid[(grid.method == "mmr") & grid.same.notna()]),
        "## Data",
        HOW,
        _data(rows[rows.part == DATA]),
    ]
    for device, method in ((device, method) for device in sorted(set(grid.device)) for method in METHODS):
        where = "" if device == "cpu" else f", {device}"
        for queries, method_rows in grid[(grid.device == device) & (grid.method == method)].groupby("queries"):
            calls = f", {queries} queries a call" if queries > 1 else ""
            blocks += [f"## {method}{calls}{where}", *_one_table(method_rows, device)]
    return join_blocks(blocks)


METHOD = (
    f"Each time is a whole call, from float32 vectors and one query to the picks: ours with its validation, a "
    f"peer's with the relevance that it asks for. Medians of several calls, each with another query, ours and the "
    f"peers' in turn (three calls where one takes over {LONG:g} s; a peer is called once where that takes over "
    f"{TOO_LONG:g} s, and not again in larger cells). A pass is one product of all vectors with one vector, "
    "measured among the calls. Every selector has to read all vectors once: the floor is 1 pass, or less where the "
    "product is slower than reading (under Data: what a pass and a plain sum over the vectors read a second). In "
    f"the tables, weights .5{DOT}.7{DOT}.9 share a line. Peers' definitions: "
    + "; ".join(f"{who}: {note}" for who, note in peers.NOTES.items())
    + "."
)


def compare_with_peer(
    cells: pd.DataFrame, method: str, who: str | None = None, ours: str = OURS, queries: int = 1
) -> pd.DataFrame:
    """Our rows of a method, with the `figure` peer's seconds ÷ ours; who: None for the fastest peer."""
    rows = cells[(cells.method == method) & (cells.queries == queries)]
    peer = rows[rows.who == who] if who else rows[~rows.who.str.startswith("engine")]
    mine = rows[rows.who == ours]
    return mine.assign(figure=mine.cell.map(peer.groupby("cell").seconds.min()) / mine.seconds).dropna(subset="figure")


def _overview(cells: pd.DataFrame) -> list[Block]:
    lines = []
    for method in METHODS:
        ratios = compare_with_peer(cells, method).figure
        if len(ratios):
            lines.append((method, len(ratios), *(f"{r:.2f}" for r in (ratios.min(), ratios.median(), ratios.max()))))
    if not lines:
        return ["No method was measured beside a peer."]
    head = ("method", "cells", "least", "median", "most")
    return ["Seconds of the fastest peer in a cell ÷ ours.", table(head, lines)]


def _agreement(rows: pd.DataFrame) -> list[Block]:
    shares = [(who, same) for who, same in rows.groupby("who").same]
    lines = [(who, len(same), f"{(same == 1).mean():.0%}", f"{same.mean():.1%}") for who, same in shares]
    head = ("mmr of", "cells", "cells with our picks for every query", "queries with our picks")
    return ["The same picks in the same order as ours:", table(head, lines)] if lines else []


def _data(rows: pd.DataFrame) -> list[str]:
    lines = []
    for row in rows.itertuples():
        rates = (f"{4 * row.n * row.d / 1e9 / seconds:.1f}" for seconds in (row.pass_seconds, row.seconds))
        lines.append((row.device, row.data, f"{row.n:,}", row.d, row.note, ms(row.pass_seconds), *rates))
    return table(("device", "data", "n", "d", "mean cosine", "one pass", "GB/s of a pass", "GB/s of a sum"), lines)


def _one_table(rows: pd.DataFrame, device: str) -> list[Block]:
    peers = [who for who in rows.who.unique() if who != OURS]
    share = ["share of the floor"] if device != "cpu" else []
    head = ["data", "n", "d", "k", OURS, "passes", *share, *peers, "fastest peer ÷ ours"]
    lines = []
    for (data, n, d, k), cells in rows.groupby(["data", "n", "d", "k"], sort=False):
        mine = cells[cells.who == OURS]
        peer = cells[~cells.who.str.startswith("engine")].groupby("cell").seconds.min()
        ratios = mine.cell.map(peer) / mine.seconds
        columns = [
            map(_format_figure, mine.itertuples()),
            ("–" if pd.isna(passes) else f"{passes:.1f}" for passes in mine.passes),
            *([("–" if pd.isna(passes) else f"{1 / passes:.0%}" for passes in mine.passes)] if share else []),
            *(map(_format_figure, cells[cells.who == who].itertuples()) for who in peers),
            ("–" if pd.isna(ratio) else f"{ratio:.2f}" for ratio in ratios),
        ]
        lines.append([data, f"{n:,}", d, k, *map(DOT.join, columns)])
    absent = rows[rows.note != ""].groupby(["who", "note"], sort=False).size()
    notes = [f"{who}: {note} ({count} cells)" for (who, note), count in absent.items()]
    return [table(head, lines), *([f"– {'; '.join(notes)}."] if notes else [])]


def _format_figure(row: Any) -> str:
    if pd.isna(row.seconds):
        return "–"
    too_long = row.seconds > TOO_LONG and not row.who.startswith("engine")
    return f"> {TOO_LONG:g} s" if too_long else ms(row.seconds)


def place(row: Any) -> str:
    """A cell in words."""
    weight = "" if pd.isna(row.weight) else f", weight {row.weight:g}"
    return f"{row.data}, {row.n:,} × {row.d}, k = {row.k}{weight}"


def verdicts(rows: pd.DataFrame, cells: pd.DataFrame) -> list[Verdict]:
    """Every target on the CPU rows; cells: those of the grid with a time."""
    return [
        *_mmr(cells),
        *_dpp(cells),
        *_frank_wolfe(cells),
        *_vrsd(cells),
        *_top_k(cells),
        _grid(rows[(rows.part == GRID) & (rows.device == "cpu")].set_index("who")),
        *_memory(rows[rows.part == MEMORY]),
    ]


def _check_bound(target: str, rows: pd.DataFrame, limit: float, is_minimum: bool = True) -> Verdict:
    """Met where the smallest `figure` reaches the limit; not is_minimum: where the largest stays within it."""
    if rows.empty:
        return target, "not measured", verdict(None)
    worst = rows.loc[rows.figure.idxmin() if is_minimum else rows.figure.idxmax()]
    suffix = f"; median of {len(rows)} cells {rows.figure.median():.2f}" if len(rows) > 1 else ""
    met = worst.figure >= limit if is_minimum else worst.figure <= limit
    return target, f"{worst.figure:.2f} × ({place(worst)}){suffix}", verdict(met)


def _mmr(cells: pd.DataFrame) -> list[Verdict]:
    rows = compare_with_peer(cells, "mmr", MMR_PEER).query(
        "data == 'clustered' and n == 100_000 and d == 384 and k == 100"
    )
    target = f"mmr, 100,000 × 384, k = 100, weight {{}}: at least {{}} × as fast as {MMR_PEER}"
    best = compare_with_peer(cells, "mmr")
    middle = best.figure.median() if len(best) else None
    figure_text = "not measured" if middle is None else f"{middle:.2f} × over {len(best)} cells"
    return [
        *(_check_bound(target.format(w, ratio), rows[rows.weight == w], ratio) for w, ratio in MMR_TARGETS.items()),
        _check_bound("mmr: nowhere under .8 × the fastest peer", best, 0.8),
        ("mmr: median at least 2 × the fastest peer", figure_text, verdict(None if middle is None else middle >= 2)),
    ]


def _dpp(cells: pd.DataFrame) -> list[Verdict]:
    rows = compare_with_peer(cells, "dpp", GREEDY).query("n == 100_000 and k == 100")
    name = f"dpp, n = 100,000, k = 100, weight {{}}: at least {{}} × as fast as the {GREEDY}"
    return [
        _check_bound(name.format("0.9", 15), rows[rows.weight == 0.9], 15),
        _check_bound(name.format("0.5 and 0.7", 1), rows[rows.weight != 0.9], 1),
    ]


def _frank_wolfe(cells: pd.DataFrame) -> list[Verdict]:
    rows = compare_with_peer(cells, "frank_wolfe", REFERENCE, PAPER).query("n == 100_000 and k == 100")
    time = "frank_wolfe (loading 1, no polish), n = 100,000, k = 100: at most the reference's time"
    shares = cells[(cells.method == "frank_wolfe") & (cells.who == REFERENCE) & cells.objective.notna()]
    target = "frank_wolfe as it comes: objective no lower than the reference's on every query of every cell"
    figure_text, met = "not measured", None
    if len(shares):
        full, worst = int((shares.objective == 1).sum()), shares.loc[shares.objective.idxmin()]
        met = full == len(shares)
        figure_text = f"{full} of {len(shares)} cells"
        figure_text += "" if met else f"; {worst.objective:.0%} of the queries in {place(worst)}"
    return [
        _check_bound(time, rows.assign(figure=1 / rows.figure), 1, is_minimum=False),
        (target, figure_text, verdict(met)),
    ]


def _vrsd(cells: pd.DataFrame) -> list[Verdict]:
    rows = cells[(cells.method == "vrsd") & (cells.who == OURS) & (cells.queries == 1) & (cells.k > 1)]
    rows = rows.assign(figure=rows.passes / (rows.k - 1))
    target = "vrsd{}: at most 1.3 × (k − 1) passes"
    if rows.empty:
        return [_check_bound(target.format(""), rows, 1.3, is_minimum=False)]
    return [
        _check_bound(target.format(f", n = {n:,}"), size_rows, 1.3, is_minimum=False)
        for n, size_rows in rows.groupby("n")
    ]


def _top_k(cells: pd.DataFrame) -> list[Verdict]:
    slower = compare_with_peer(cells, "top_k", PRODUCT)
    slower = slower.assign(figure=1 / slower.figure)
    ours = cells[cells.who == OURS]
    single, batch_seconds = (
        ours[(ours.queries == 1) & (ours.n >= 10_000)],
        ours[ours.queries == BATCH].set_index("cell").seconds,
    )
    rates = single.assign(figure=single.seconds * BATCH / single.cell.map(batch_seconds)).dropna(subset="figure")
    return [
        _check_bound(f"top_k: at most 1.1 × the time of {PRODUCT}", slower, 1.1, is_minimum=False),
        _check_bound(f"top_k, n ≥ 10,000: {BATCH} queries in one call at least 5 × the rate of one a call", rates, 5),
    ]


def _grid(rows: pd.DataFrame) -> Verdict:
    target = "select_grid, mmr, 10,000 × 384, k = 50, 64 queries × 9 weights: at least 4 × one by one"
    if len(rows) < 2:
        return target, "not measured", verdict(None)
    one_by_one, at_once = rows.loc[ONE_BY_ONE], rows.loc[AT_ONCE]
    ratio = one_by_one.seconds / at_once.seconds
    figure_text = f"{ratio:.2f} × ({at_once.seconds:.1f} s; one by one {one_by_one.seconds:.1f} s: {one_by_one.note})"
    return target, f"{figure_text}; {one_by_one.same:.0%} of these the same picks", verdict(ratio >= 4)


def _memory(rows: pd.DataFrame) -> list[Verdict]:
    target = "dpp, 100,000 × 384, k = 100, weight {}: peak memory over the vectors at most (2k + pool)·d + 8n numbers"
    if rows.empty:
        return [(target.format("any"), "not measured", verdict(None))]
    return [
        (
            target.format(f"{row.weight:g}"),
            f"{row.bytes / 2**20:.1f} MiB of {row.allowance / 2**20:.1f} MiB, the most of {row.runs} runs"
            + (f" ({row.note})" if row.note else ""),
            verdict(row.bytes <= row.allowance),
        )
        for row in rows.itertuples()
    ]
