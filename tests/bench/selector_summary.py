"""Targets and what the rows say about them: nothing here knows a figure that was not measured."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable

from harness import verdict
from selector_cells import BATCH, OURS, PAPER, REFERENCE
from selector_extras import AT_ONCE, ONE_BY_ONE
from selector_rows import CELL, GRID, MEMORY, Key, Row

MMR_PEER, GREEDY, SEARCH = "pyversity mmr", "plain torch greedy", "torch product + topk"
Verdict = tuple[str, str, str]
"""A target in words, the figure it is about, and whether it is met."""
Figures = list[tuple[Row, float]]


class Cells:
    """The timed rows of one device's grid by cell: `rows[cell][who, queries]` is a row with seconds."""

    def __init__(self, rows: Iterable[Row], device: str = "cpu") -> None:
        self.rows: dict[Key, dict[tuple[str, int], Row]] = {}
        for row in rows:
            if row.part == CELL and row.device == device and row.seconds:
                self.rows.setdefault(row.cell, {})[row.who, row.queries] = row

    def ratios(self, method: str, who: str | None = None, ours: str = OURS, queries: int = 1) -> Figures:
        """(our row, peer's seconds ÷ ours) in every cell of a method; who: None for the fastest peer."""
        pairs = []
        for cell in self.rows.values():
            mine = cell.get((ours, queries))
            theirs = [
                row.seconds
                for row in cell.values()
                if row.queries == queries and who in (None, row.who) and not row.who.startswith("engine")
            ]
            if mine is not None and mine.method == method and theirs:
                pairs.append((mine, min(theirs) / mine.seconds))
        return pairs

    def of(self, method: str, who: str) -> list[Row]:
        """One contestant's rows."""
        rows = (cell.get((who, 1)) for cell in self.rows.values())
        return [row for row in rows if row is not None and row.method == method]


def place(row: Row) -> str:
    """A cell in words."""
    weight = "" if row.weight is None else f", weight {row.weight:g}"
    return f"{row.data}, {row.n:,} × {row.d}, k = {row.k}{weight}"


def verdicts(rows: list[Row]) -> list[Verdict]:
    """Every target on the CPU rows."""
    cells = Cells(rows)
    parts = (_mmr, _dpp, _frank_wolfe, _vrsd, _top_k)
    return [*(one for part in parts for one in part(cells)), _grid(rows), *_memory(rows)]


def _bounded(target: str, figures: Figures, limit: float, least: bool = True) -> Verdict:
    """Met where the smallest figure reaches the limit; not least: where the largest stays within it."""
    if not figures:
        return target, "not measured", verdict(None)
    row, worst = (min if least else max)(figures, key=lambda figure: figure[1])
    middle = statistics.median(figure for _, figure in figures)
    more = f"; median of {len(figures)} cells {middle:.2f}" if len(figures) > 1 else ""
    return target, f"{worst:.2f} × ({place(row)}){more}", verdict(worst >= limit if least else worst <= limit)


def _where(figures: Figures, test: Callable[[Row], bool]) -> Figures:
    return [(row, figure) for row, figure in figures if test(row)]


def _mmr(cells: Cells) -> list[Verdict]:
    figures = _where(
        cells.ratios("mmr", MMR_PEER), lambda r: (r.data, r.n, r.d, r.k) == ("clustered", 100_000, 384, 100)
    )
    target = f"mmr, 100,000 × 384, k = 100, weight {{}}: at least {{}} × as fast as {MMR_PEER}"
    best = cells.ratios("mmr")
    middle = statistics.median(figure for _, figure in best) if best else None
    shown = "not measured" if middle is None else f"{middle:.2f} × over {len(best)} cells"
    return [
        *(
            _bounded(target.format(weight, least), _where(figures, lambda r, w=weight: r.weight == w), least)
            for weight, least in ((0.9, 20), (0.7, 4), (0.5, 1))
        ),
        _bounded("mmr: nowhere under .8 × the fastest peer", best, 0.8),
        ("mmr: median at least 2 × the fastest peer", shown, verdict(None if middle is None else middle >= 2)),
    ]


def _dpp(cells: Cells) -> list[Verdict]:
    figures = _where(cells.ratios("dpp", GREEDY), lambda r: r.n == 100_000 and r.k == 100)
    name = f"dpp, n = 100,000, k = 100, weight {{}}: at least {{}} × as fast as the {GREEDY}"
    return [
        _bounded(name.format("0.9", 15), _where(figures, lambda r: r.weight == 0.9), 15),
        _bounded(name.format("0.5 and 0.7", 1), _where(figures, lambda r: r.weight != 0.9), 1),
    ]


def _frank_wolfe(cells: Cells) -> list[Verdict]:
    figures = [(row, 1 / figure) for row, figure in cells.ratios("frank_wolfe", REFERENCE, PAPER)]
    figures = _where(figures, lambda r: r.n == 100_000 and r.k == 100)
    time = "frank_wolfe (loading 1, no polish), n = 100,000, k = 100: at most the reference's time"
    shares = [(row, row.objective) for row in cells.of("frank_wolfe", REFERENCE) if row.objective is not None]
    target = "frank_wolfe as it comes: objective no lower than the reference's on every query of every cell"
    if not shares:
        return [_bounded(time, figures, 1, least=False), (target, "not measured", verdict(None))]
    full = sum(share == 1 for _, share in shares)
    row, worst = min(shares, key=lambda share: share[1])
    shown = f"{full} of {len(shares)} cells" + ("" if worst == 1 else f"; {worst:.0%} of the queries in {place(row)}")
    return [_bounded(time, figures, 1, least=False), (target, shown, verdict(full == len(shares)))]


def _vrsd(cells: Cells) -> list[Verdict]:
    figures = [(row, row.passes / (row.k - 1)) for row in cells.of("vrsd", OURS) if row.k > 1 and row.passes]
    target = "vrsd{}: at most 1.3 × (k − 1) passes"
    sizes = sorted({row.n for row, _ in figures})
    if not sizes:
        return [_bounded(target.format(""), figures, 1.3, least=False)]
    return [
        _bounded(target.format(f", n = {n:,}"), _where(figures, lambda r, n=n: r.n == n), 1.3, least=False)
        for n in sizes
    ]


def _top_k(cells: Cells) -> list[Verdict]:
    slower = [(row, 1 / figure) for row, figure in cells.ratios("top_k", SEARCH)]
    rates = []
    for cell in cells.rows.values():
        one, many = cell.get((OURS, 1)), cell.get((OURS, BATCH))
        if one and many and one.n >= 10_000:
            rates.append((one, one.seconds * BATCH / many.seconds))
    return [
        _bounded(f"top_k: at most 1.1 × the time of {SEARCH}", slower, 1.1, least=False),
        _bounded(f"top_k, n ≥ 10,000: {BATCH} queries in one call at least 5 × the rate of one a call", rates, 5),
    ]


def _grid(rows: list[Row]) -> Verdict:
    target = "select_grid, mmr, 10,000 × 384, k = 50, 64 queries × 9 weights: at least 4 × one by one"
    mine = {row.who: row for row in rows if row.part == GRID and row.device == "cpu"}
    if len(mine) < 2:
        return target, "not measured", verdict(None)
    one, all_ = mine[ONE_BY_ONE], mine[AT_ONCE]
    ratio = one.seconds / all_.seconds
    shown = f"{ratio:.2f} × ({all_.seconds:.1f} s; one by one {one.seconds:.1f} s: {one.note})"
    return target, f"{shown}; {one.same:.0%} of these the same picks", verdict(ratio >= 4)


def _memory(rows: list[Row]) -> list[Verdict]:
    measured = [row for row in rows if row.part == MEMORY]
    target = "dpp, 100,000 × 384, k = 100, weight {}: peak memory over the vectors at most (2k + pool)·d + 8n numbers"
    if not measured:
        return [(target.format("any"), "not measured", verdict(None))]
    return [
        (
            target.format(f"{row.weight:g}"),
            f"{row.bytes / 2**20:.1f} MiB of {row.allowance / 2**20:.1f} MiB, the most of {row.runs} runs"
            + (f" ({row.note})" if row.note else ""),
            verdict(row.bytes <= row.allowance),
        )
        for row in measured
    ]
