"""Targets and what the rows say about them: nothing here knows a figure that was not measured."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from selector_cells import BATCH, OURS, PAPER, REFERENCE
from selector_extras import AT_ONCE, ONE_BY_ONE
from selector_rows import CELL, GRID, MEMORY, Key, Row

MMR_PEER, GREEDY, SEARCH = "pyversity mmr", "plain torch greedy", "torch product + topk"


@dataclass(frozen=True)
class Verdict:
    """A target in words, the figure it is about, and whether it is met: None where it was not measured."""

    target: str
    figure: str
    met: bool | None


class Cells:
    """The timed rows of one device's grid by cell: found[cell][who, queries] is a row with seconds."""

    def __init__(self, rows: Iterable[Row], device: str = "cpu") -> None:
        self.found: dict[Key, dict[tuple[str, int], Row]] = {}
        for row in rows:
            if row.part == CELL and row.device == device and row.seconds:
                self.found.setdefault(row.cell, {})[row.who, row.queries] = row

    def ratios(
        self, method: str, who: str | None = None, ours: str = OURS, queries: int = 1
    ) -> list[tuple[Row, float]]:
        """(our row, peer's seconds ÷ ours) in every cell of a method; who: None for the fastest peer."""
        pairs = []
        for here in self.found.values():
            mine = here.get((ours, queries))
            theirs = [
                row.seconds
                for row in here.values()
                if row.queries == queries and who in (None, row.who) and not row.who.startswith("engine")
            ]
            if mine is not None and mine.method == method and theirs:
                pairs.append((mine, min(theirs) / mine.seconds))
        return pairs

    def rows(self, method: str, who: str, queries: int = 1) -> list[Row]:
        """One contestant's rows."""
        every = (here.get((who, queries)) for here in self.found.values())
        return [row for row in every if row is not None and row.method == method]


def place(row: Row) -> str:
    """A cell in words."""
    weight = "" if row.weight is None else f", weight {row.weight:g}"
    return f"{row.data}, {row.n:,} × {row.d}, k = {row.k}{weight}"


def verdicts(rows: list[Row]) -> list[Verdict]:
    """Every target on the CPU rows."""
    cells = Cells(rows)
    return [
        *_mmr(cells),
        *_dpp(cells),
        *_frank_wolfe(cells),
        *_vrsd(cells),
        *_top_k(cells),
        _grid(rows),
        *_memory(rows),
    ]


def _least(target: str, pairs: list[tuple[Row, float]], least: float) -> Verdict:
    """Met where the smallest figure reaches `least`."""
    if not pairs:
        return Verdict(target, "not measured", None)
    row, figure = min(pairs, key=lambda pair: pair[1])
    return Verdict(target, f"{figure:.2f} × ({place(row)})" + _of(pairs), figure >= least)


def _most(target: str, pairs: list[tuple[Row, float]], most: float) -> Verdict:
    """Met where the largest figure stays within `most`."""
    if not pairs:
        return Verdict(target, "not measured", None)
    row, figure = max(pairs, key=lambda pair: pair[1])
    return Verdict(target, f"{figure:.2f} × ({place(row)})" + _of(pairs), figure <= most)


def _of(pairs: list[tuple[Row, float]]) -> str:
    middle = statistics.median(figure for _, figure in pairs)
    return f"; median of {len(pairs)} cells {middle:.2f}" if len(pairs) > 1 else ""


def _where(pairs: list[tuple[Row, float]], test: Callable[[Row], bool]) -> list[tuple[Row, float]]:
    return [(row, figure) for row, figure in pairs if test(row)]


def _mmr(cells: Cells) -> list[Verdict]:
    found = []
    for weight, least in ((0.9, 20), (0.7, 4), (0.5, 1)):
        pairs = _where(
            cells.ratios("mmr", MMR_PEER),
            lambda r, w=weight: (r.data, r.n, r.d, r.k, r.weight) == ("clustered", 100_000, 384, 100, w),
        )
        target = f"mmr, 100,000 × 384, k = 100, weight {weight}: at least {least} × as fast as {MMR_PEER}"
        found.append(_least(target, pairs, least))
    best = cells.ratios("mmr")
    found.append(_least("mmr: nowhere under .8 × the fastest peer", best, 0.8))
    middle = statistics.median(figure for _, figure in best) if best else None
    shown = "not measured" if middle is None else f"{middle:.2f} × over {len(best)} cells"
    found.append(Verdict("mmr: median at least 2 × the fastest peer", shown, None if middle is None else middle >= 2))
    return found


def _dpp(cells: Cells) -> list[Verdict]:
    pairs = _where(cells.ratios("dpp", GREEDY), lambda r: r.n == 100_000 and r.k == 100)
    name = f"dpp, n = 100,000, k = 100, weight {{}}: at least {{}} × as fast as the {GREEDY}"
    return [
        _least(name.format("0.9", 15), _where(pairs, lambda r: r.weight == 0.9), 15),
        _least(name.format("0.5 and 0.7", 1), _where(pairs, lambda r: r.weight != 0.9), 1),
    ]


def _frank_wolfe(cells: Cells) -> list[Verdict]:
    pairs = _where(
        [(row, 1 / figure) for row, figure in cells.ratios("frank_wolfe", REFERENCE, PAPER)],
        lambda r: r.n == 100_000 and r.k == 100,
    )
    time = "frank_wolfe (loading 1, no polish), n = 100,000, k = 100: at most the reference's time"
    shares = [(row, row.objective) for row in cells.rows("frank_wolfe", REFERENCE) if row.objective is not None]
    target = "frank_wolfe as it comes: objective no lower than the reference's on every query of every cell"
    if not shares:
        return [_most(time, pairs, 1), Verdict(target, "not measured", None)]
    full = sum(share == 1 for _, share in shares)
    row, worst = min(shares, key=lambda pair: pair[1])
    figure = f"{full} of {len(shares)} cells" + ("" if worst == 1 else f"; {worst:.0%} of the queries in {place(row)}")
    return [_most(time, pairs, 1), Verdict(target, figure, full == len(shares))]


def _vrsd(cells: Cells) -> list[Verdict]:
    found = [(row, row.passes / (row.k - 1)) for row in cells.rows("vrsd", OURS) if row.k > 1 and row.passes]
    target = "vrsd{}: at most 1.3 × (k − 1) passes"
    sizes = sorted({row.n for row, _ in found})
    if not sizes:
        return [_most(target.format(""), found, 1.3)]
    return [_most(target.format(f", n = {n:,}"), _where(found, lambda r, n=n: r.n == n), 1.3) for n in sizes]


def _top_k(cells: Cells) -> list[Verdict]:
    slower = [(row, 1 / figure) for row, figure in cells.ratios("top_k", SEARCH)]
    rates = []
    for here in cells.found.values():
        one, many = here.get((OURS, 1)), here.get((OURS, BATCH))
        if one and many and one.n >= 10_000:
            rates.append((one, one.seconds * BATCH / many.seconds))
    return [
        _most(f"top_k: at most 1.1 × the time of {SEARCH}", slower, 1.1),
        _least(f"top_k, n ≥ 10,000: {BATCH} queries in one call at least 5 × the rate of one a call", rates, 5),
    ]


def _grid(rows: list[Row]) -> Verdict:
    target = "select_grid, mmr, 10,000 × 384, k = 50, 64 queries × 9 weights: at least 4 × one by one"
    mine = {row.who: row for row in rows if row.part == GRID and row.device == "cpu"}
    if len(mine) < 2:
        return Verdict(target, "not measured", None)
    one, all_ = mine[ONE_BY_ONE], mine[AT_ONCE]
    figure = one.seconds / all_.seconds
    shown = f"{figure:.2f} × ({all_.seconds:.1f} s; one by one {one.seconds:.1f} s: {one.note})"
    return Verdict(target, f"{shown}; {one.same:.0%} of these the same picks", figure >= 4)


def _memory(rows: list[Row]) -> list[Verdict]:
    found = [row for row in rows if row.part == MEMORY]
    target = "dpp, 100,000 × 384, k = 100, weight {}: peak memory over the vectors at most (2k + pool)·d + 8n numbers"
    if not found:
        return [Verdict(target.format("any"), "not measured", None)]
    return [
        Verdict(
            target.format(f"{row.weight:g}"),
            f"{row.bytes / 2**20:.1f} MiB of {row.allowance / 2**20:.1f} MiB, the most of {row.runs} runs"
            + (f" ({row.note})" if row.note else ""),
            row.bytes <= row.allowance,
        )
        for row in found
    ]
