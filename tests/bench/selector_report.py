"""selectors.md: the targets, the tables and how they were made, all from the rows."""

from __future__ import annotations

import datetime
import statistics

import peers
from harness import Block, join_blocks, machine, ms, table
from selector_cells import LONG, METHODS, OURS, TOO_LONG
from selector_data import HOW
from selector_rows import CELL, DATA, Row
from selector_summary import Cells, verdicts

PACKAGES = ("torch", "numpy", "pyversity", "langchain-core", "faiss-cpu")
DOT = " · "


def report(rows: list[Row], command: str, devices: list[str], notes: list[str]) -> str:
    """The whole page as Markdown. devices: those of this machine; notes: what was left out."""
    if "cuda" not in devices:
        notes = [*notes, "There was no CUDA device: CPU only."]
    blocks: list[Block] = [
        "# Selectors: time, passes over the vectors, memory",
        f"`{command}`",
        f"{machine(PACKAGES)}; {datetime.date.today().isoformat()}.",
        _method(),
        *([[f"- {note}" for note in notes]] if notes else []),
        "## Targets",
        table(("target", "measured", "met"), verdicts(rows)),
        "## Beside the fastest peer",
        *_overview(rows),
        *_agreement(rows),
        "## Data",
        HOW,
        _data(rows),
    ]
    for device in sorted({row.device for row in rows if row.part == CELL}):
        for method in METHODS:
            blocks += _cells(rows, device, method)
    return join_blocks(blocks)


def _method() -> str:
    return (
        f"Each time is a whole call, from float32 vectors and one query to the picks: ours with its validation, a "
        f"peer's with the relevance that it asks for. Medians of several calls, each with another query, ours and the "
        f"peers' in turn (three calls where one takes over {LONG:g} s; a peer is called once where that takes over "
        f"{TOO_LONG:g} s, and not again in larger cells). A pass is one product of all vectors with one vector, "
        "measured among the calls. Every selector has to read all vectors once: the floor is 1 pass, or less where the "
        "product is slower than reading (under Data: what a pass and a plain sum over the vectors read a second). In "
        "the tables, weights "
        f".5{DOT}.7{DOT}.9 share a line. Peers' definitions: "
        + "; ".join(f"{who}: {note}" for who, note in peers.NOTES.items())
        + "."
    )


def _overview(rows: list[Row]) -> list[Block]:
    cells, lines = Cells(rows), []
    for method in METHODS:
        ratios = [ratio for _, ratio in cells.ratios(method)]
        if ratios:
            ends = (f"{ratio:.2f}" for ratio in (min(ratios), statistics.median(ratios), max(ratios)))
            lines.append((method, len(ratios), *ends))
    if not lines:
        return ["No method was measured beside a peer."]
    return [
        "Seconds of the fastest peer in a cell ÷ ours.",
        table(("method", "cells", "least", "median", "most"), lines),
    ]


def _agreement(rows: list[Row]) -> list[Block]:
    lines = []
    for who in sorted({row.who for row in rows if row.method == "mmr" and row.part == CELL and row.same is not None}):
        shares = [row.same for row in rows if row.method == "mmr" and row.who == who and row.same is not None]
        alike = sum(share == 1 for share in shares) / len(shares)
        lines.append((who, len(shares), f"{alike:.0%}", f"{statistics.mean(shares):.1%}"))
    head = ("mmr of", "cells", "cells with our picks for every query", "queries with our picks")
    return ["The same picks in the same order as ours:", table(head, lines)] if lines else []


def _data(rows: list[Row]) -> list[str]:
    lines = []
    for row in rows:
        if row.part == DATA and row.pass_seconds:
            gigabytes = 4 * row.n * row.d / 1e9
            rates = (f"{gigabytes / seconds:.1f}" for seconds in (row.pass_seconds, row.seconds))
            lines.append((row.device, row.data, f"{row.n:,}", row.d, row.note, ms(row.pass_seconds), *rates))
    return table(("device", "data", "n", "d", "mean cosine", "one pass", "GB/s of a pass", "GB/s of a sum"), lines)


def _cells(rows: list[Row], device: str, method: str) -> list[Block]:
    rows = [row for row in rows if row.part == CELL and row.device == device and row.method == method]
    blocks: list[Block] = []
    for queries in sorted({row.queries for row in rows}):
        many = f", {queries} queries a call" if queries > 1 else ""
        blocks.append(f"## {method}{many}{'' if device == 'cpu' else f', {device}'}")
        blocks += _one_table([row for row in rows if row.queries == queries], device)
    return blocks


def _one_table(rows: list[Row], device: str) -> list[Block]:
    peers = [who for who in dict.fromkeys(row.who for row in rows) if who != OURS]
    share = ["share of the floor"] if device != "cpu" else []
    head = ["data", "n", "d", "k", OURS, "passes", *share, *peers, "fastest peer ÷ ours"]
    lines, absent = [], {}
    for data, n, d, k in dict.fromkeys((row.data, row.n, row.d, row.k) for row in rows):
        cells = [row for row in rows if (row.data, row.n, row.d, row.k) == (data, n, d, k)]
        weights = list(dict.fromkeys(row.weight for row in cells))
        by = {(row.who, row.weight): row for row in cells}
        ours = [by[OURS, weight] for weight in weights]
        columns = [
            map(_shown, ours),
            ("–" if row.passes is None else f"{row.passes:.1f}" for row in ours),
            *([("–" if row.passes is None else f"{1 / row.passes:.0%}" for row in ours)] if share else []),
            *([_shown(by[who, weight]) for weight in weights] for who in peers),
            (_ratio(cells, weight) for weight in weights),
        ]
        lines.append([data, f"{n:,}", d, k, *map(DOT.join, columns)])
        for row in cells:
            if row.note:
                absent.setdefault((row.who, row.note), []).append(row)
    notes = [f"{who}: {note} ({len(cells)} cells)" for (who, note), cells in absent.items()]
    return [table(head, lines), *([f"– {'; '.join(notes)}."] if notes else [])]


def _ratio(cells: list[Row], weight: float | None) -> str:
    mine = next((r.seconds for r in cells if r.who == OURS and r.weight == weight), None)
    theirs = [r.seconds for r in cells if r.weight == weight and r.seconds and not r.who.startswith("engine")]
    return f"{min(theirs) / mine:.2f}" if mine and theirs else "–"


def _shown(row: Row) -> str:
    if row.seconds is None:
        return "–"
    if row.seconds > TOO_LONG and not row.who.startswith("engine"):
        return f"> {TOO_LONG:g} s"
    return ms(row.seconds)
