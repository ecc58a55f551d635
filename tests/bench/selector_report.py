"""selectors.md: the targets, the tables and how they were made, all from the rows."""

from __future__ import annotations

import datetime
import statistics

import peers
from machine import machine
from selector_cells import LONG, METHODS, OURS, TOO_LONG
from selector_data import HOW
from selector_rows import CELL, DATA, Row
from selector_summary import Cells, verdicts

PACKAGES = ("torch", "numpy", "pyversity", "langchain-core", "faiss-cpu")
DOT = " · "


def report(rows: list[Row], command: str, devices: list[str], notes: list[str]) -> str:
    """The whole page as Markdown. devices: those of this machine; notes: what was left out."""
    lines = [
        "# Selectors: time, passes over the vectors, memory",
        "",
        f"`{command}`",
        "",
        f"{machine(PACKAGES)}; {datetime.date.today().isoformat()}.",
        "",
    ]
    lines += [_method(), "", *_missing(devices, notes), "## Targets", ""]
    lines += _table(("target", "measured", "met"), [(v.target, v.figure, _word(v.met)) for v in verdicts(rows)])
    lines += ["", "## Beside the fastest peer", "", *_overview(rows), "", *_agreement(rows)]
    lines += ["", "## Data", "", HOW, "", *_data(rows)]
    for device in sorted({row.device for row in rows if row.part == CELL}):
        for method in METHODS:
            lines += _cells(rows, device, method)
    return "\n".join(lines) + "\n"


def _word(met: bool | None) -> str:
    return "–" if met is None else "met" if met else "**not met**"


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


def _missing(devices: list[str], notes: list[str]) -> list[str]:
    lines = [f"- {note}" for note in notes]
    if "cuda" not in devices:
        lines.append("- There was no CUDA device: CPU only.")
    return [*lines, ""] if lines else []


def _overview(rows: list[Row]) -> list[str]:
    cells, table = Cells(rows), []
    for method in METHODS:
        figures = [figure for _, figure in cells.ratios(method)]
        if figures:
            middle = statistics.median(figures)
            table.append((method, len(figures), f"{min(figures):.2f}", f"{middle:.2f}", f"{max(figures):.2f}"))
    if not table:
        return ["No method was measured beside a peer."]
    head = ("method", "cells", "least", "median", "most")
    return ["Seconds of the fastest peer in a cell ÷ ours.", "", *_table(head, table)]


def _agreement(rows: list[Row]) -> list[str]:
    table = []
    for who in sorted({row.who for row in rows if row.method == "mmr" and row.part == CELL and row.same is not None}):
        shares = [row.same for row in rows if row.method == "mmr" and row.who == who and row.same is not None]
        alike = sum(share == 1 for share in shares) / len(shares)
        table.append((who, len(shares), f"{alike:.0%}", f"{statistics.mean(shares):.1%}"))
    if not table:
        return []
    head = ("mmr of", "cells", "cells with our picks for every query", "queries with our picks")
    return ["The same picks in the same order as ours:", "", *_table(head, table)]


def _data(rows: list[Row]) -> list[str]:
    table = []
    for row in rows:
        if row.part == DATA and row.pass_seconds:
            gigabytes = 4 * row.n * row.d / 1e9
            size = (row.device, row.data, f"{row.n:,}", row.d, row.note, _time(row.pass_seconds))
            table.append((*size, f"{gigabytes / row.pass_seconds:.1f}", f"{gigabytes / row.seconds:.1f}"))
    head = ("device", "data", "n", "d", "mean cosine", "one pass", "GB/s of a pass", "GB/s of a sum")
    return _table(head, table)


def _cells(rows: list[Row], device: str, method: str) -> list[str]:
    found = [row for row in rows if row.part == CELL and row.device == device and row.method == method]
    lines: list[str] = []
    for queries in sorted({row.queries for row in found}):
        title = (
            method + (f", {queries} queries a call" if queries > 1 else "") + ("" if device == "cpu" else f", {device}")
        )
        lines += ["", f"## {title}", "", *_one_table([r for r in found if r.queries == queries], device)]
    return lines


def _one_table(rows: list[Row], device: str) -> list[str]:
    whos = list(dict.fromkeys(row.who for row in rows))
    share = ["share of the floor"] if device != "cpu" else []
    head = ["data", "n", "d", "k", OURS, "passes", *share, *(who for who in whos if who != OURS), "fastest peer ÷ ours"]
    table, absent = [], {}
    for where in dict.fromkeys((row.data, row.n, row.d, row.k) for row in rows):
        here = [row for row in rows if (row.data, row.n, row.d, row.k) == where]
        weights = list(dict.fromkeys(row.weight for row in here))
        by = {(row.who, row.weight): row for row in here}
        ours = [by[OURS, weight] for weight in weights]
        line = [where[0], f"{where[1]:,}", where[2], where[3], DOT.join(_shown(row) for row in ours)]
        line.append(DOT.join("–" if row.passes is None else f"{row.passes:.1f}" for row in ours))
        if share:
            line.append(DOT.join("–" if row.passes is None else f"{1 / row.passes:.0%}" for row in ours))
        for who in whos:
            if who != OURS:
                line.append(DOT.join(_shown(by[who, weight]) for weight in weights))
        line.append(DOT.join(_ratio(here, weight) for weight in weights))
        table.append(line)
        for row in here:
            if row.note:
                absent.setdefault((row.who, row.note), []).append(row)
    lines = _table(head, table)
    notes = [f"{who}: {note} ({len(cells)} cells)" for (who, note), cells in absent.items()]
    return [*lines, "", f"– {'; '.join(notes)}."] if notes else lines


def _ratio(here: list[Row], weight: float | None) -> str:
    mine = next((r.seconds for r in here if r.who == OURS and r.weight == weight), None)
    theirs = [r.seconds for r in here if r.weight == weight and r.seconds and not r.who.startswith("engine")]
    return f"{min(theirs) / mine:.2f}" if mine and theirs else "–"


def _shown(row: Row) -> str:
    if row.seconds and row.seconds > TOO_LONG and not row.who.startswith("engine"):
        return f"> {TOO_LONG:g} s"
    return _time(row.seconds)


def _time(seconds: float | None) -> str:
    if seconds is None:
        return "–"
    return f"{seconds:.2f} s" if seconds >= 1 else f"{1000 * seconds:.3g} ms"


def _table(head, lines) -> list[str]:
    rows = [head, ["---"] * len(head), *lines]
    return ["| " + " | ".join(map(str, row)) + " |" for row in rows]
