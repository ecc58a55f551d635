"""Finished cells as tables: frames, Parquet, CSV that no spreadsheet runs, Markdown and LaTeX with significance."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from engine.data.cache import write as write_whole
from engine.errors import DataError, ParamError
from engine.evaluation.metrics import title_of
from engine.evaluation.paired import cells_at, names, written_out
from engine.evaluation.statistics import LEVEL, RESAMPLES, SIGNIFICANCE_LEVEL, compare, meant
from engine.evaluation.sweep.cell import Cell
from engine.stages import methods
from engine.values import replace_surrogates
from engine.wording import MINUS

if TYPE_CHECKING:
    from pandas import DataFrame

FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")
"""A cell of text that begins so, perhaps after spaces or quotes, is a formula to a spreadsheet, and a formula can send
data away or run programs."""
_BEFORE = "' \"\u00a0\u3000\ufeff"
"""What spreadsheets pass over before a formula."""
LONG = ("method", "name", "label", "k", "split", "query", "metric", "value", "key")
ALWAYS_TEXT = frozenset({"method", "name", "label", "retrieve", "rerank", "split", "query", "metric", "key", "digest"})
PROVENANCE = "provenance."


def frame(points: Iterable[Cell]) -> DataFrame:
    """One row a cell.

    Columns: method, name (short, tells the rows apart), label (the decoder in full), select.<parameter>, retrieve,
    retrieve.<parameter>, rerank, …, depth, k, split, queries (how many), a column a metric (its mean), left_out,
    returned, milliseconds, key, digest, provenance.<what>. What a method does not have, or leaves unset, is missing;
    the label tells the two apart. So are milliseconds of a sweep of one query.
    """
    import pandas as pd

    points = list(points)
    rows = [_sections(point, name) for point, name in zip(points, names(points, written_out), strict=True)]
    columns = dict.fromkeys(column for section in zip(*rows, strict=True) for row in section for column in row)
    flat = [{column: value for section in row for column, value in section.items()} for row in rows]
    return pd.DataFrame({c: _column(c, [row.get(c) for row in flat]) for c in columns})


def _sections(point: Cell, name: str) -> tuple[dict[str, Any], ...]:
    """A cell's row, in the parts whose columns stand together."""
    chain = []
    for role in ("select", "retrieve", "rerank"):
        stage = point.decoder.get(role) or {}
        params = {f"{role}.{param}": value for param, value in stage.items() if param != "name"}
        chain.append(params if role == "select" else {role: stage.get("name"), **params})
    return (
        {"method": point.method, "name": name, "label": point.label},
        *chain,
        {"depth": point.decoder.get("depth"), "k": point.k, "split": point.split, "queries": len(point.queries)},
        {metric: point.mean[metric] for metric in point.values},
        {"left_out": point.left_out, "returned": point.returned, "milliseconds": point.latency},
        {"key": point.key, "digest": point.digest},
        {f"{PROVENANCE}{what}": value for what, value in point.provenance.items()},
    )


def per_query(points: Iterable[Cell]) -> DataFrame:
    """One row a cell, metric and query: method, name, label, k, split, query, metric, value, key.

    value is missing where the metric does not exist for the query. Columns of text, which repeats, are categories.
    """
    import pandas as pd

    points = list(points)
    blocks = [
        {"method": p.method, "name": name, "label": p.label, "k": p.k, "split": p.split, "metric": metric, "key": p.key}
        for p, name in zip(points, names(points, written_out), strict=True)
        for metric in p.values
    ]
    lists = [p.queries for p in points for _ in p.values]
    sizes = [len(queries) for queries in lists]
    table: dict[str, Any] = {}
    for column in set(LONG) - {"query", "value"}:
        codes, distinct = pd.factorize(np.array([replace_surrogates(str(b[column])) for b in blocks], dtype=object))
        table[column] = pd.Categorical.from_codes(np.repeat(codes, sizes), pd.Index(distinct))
    table["k"] = np.repeat(np.array([b["k"] for b in blocks], dtype=np.int64), sizes)
    ids = [replace_surrogates(q) for queries in lists for q in queries]
    table["query"] = pd.Categorical(np.array(ids, dtype=object))
    values = [np.asarray(column, dtype=np.float64) for p in points for column in p.values.values()]
    table["value"] = np.concatenate([np.empty(0), *values])
    return pd.DataFrame({column: table[column] for column in LONG})


def write(table: DataFrame, path: str | Path) -> Path:
    """Write a frame as .parquet or .csv, whole or not at all; `read` gives it back.

    CSV: UTF-8, RFC 4180; what is missing is an empty cell; text, columns' names too, is as `guarded` has it: to read
    the file with anything but `read`, drop one apostrophe wherever apostrophes stand before one of FORMULA. Raises
    ParamError for another suffix, FrontierError where it cannot write.
    """
    path = Path(path)
    match path.suffix.lower():
        case ".parquet":
            write_whole(path, lambda file: table.to_parquet(file, index=False))
        case ".csv":
            write_whole(path, as_csv(table).encode("utf-8"))
        case suffix:
            raise ParamError(f"a table is written as .parquet or .csv; got {suffix or 'no suffix'!r}")
    return path


def as_csv(table: DataFrame) -> str:
    """A frame as the text of a CSV file, as `write` has it."""
    stream = io.StringIO(newline="")
    writer = csv.writer(stream, quoting=csv.QUOTE_NONNUMERIC, lineterminator="\r\n")
    writer.writerow([guarded(str(name)) for name in table.columns])
    columns = [table[name].astype(object).where(table[name].notna(), None).tolist() for name in table.columns]
    for row in zip(*columns, strict=True):
        writer.writerow([guarded(value) if isinstance(value, str) else value for value in row])
    return stream.getvalue()


def guarded(text: str) -> str:
    """The text as a cell that no spreadsheet takes for a formula, an apostrophe before it; `unguarded` undoes it."""
    return "'" + text if text.lstrip(_BEFORE).startswith(FORMULA) else text


def unguarded(cell: str) -> str:
    """The text of a cell that `guarded` wrote."""
    return cell[1:] if cell.startswith("'") and cell.lstrip(_BEFORE).startswith(FORMULA) else cell


def read(path: str | Path) -> DataFrame:
    """What `write` wrote; ids stay text, however much they look like numbers. Raises DataError."""
    import pandas as pd

    path = Path(path)
    try:
        if path.suffix.lower() == ".parquet":
            return pd.read_parquet(path)
        csv.field_size_limit(2**31 - 1)
        with open(path, encoding="utf-8", newline="") as file:
            # Not pandas, which stops at a NUL and takes 007 and NA for what they are not.
            head, *rows = list(csv.reader(file, strict=True)) or [[]]
    except (OSError, ValueError, csv.Error) as error:
        raise DataError(f"{path} cannot be read as a table: {error}") from None
    if any(len(row) != len(head) for row in rows):
        raise DataError(f"{path} is no table: every row must have as many cells as the first")
    cells = zip(*rows, strict=True) if rows else [()] * len(head)
    table = {unguarded(name): [unguarded(cell) for cell in column] for name, column in zip(head, cells, strict=True)}
    return pd.DataFrame({name: _column(name, _parsed(name, column)) for name, column in table.items()})


def _is_text(name: str) -> bool:
    return name in ALWAYS_TEXT or name.startswith(PROVENANCE)


def _parsed(name: str, cells: Sequence[str]) -> list[Any]:
    """Cells as values: what is no text is a number or a switch where all of a column are; an empty cell is missing."""
    if _is_text(name):
        return [cell or None if name in ("retrieve", "rerank") else cell for cell in cells]
    for kind in ({"True": True, "False": False}.__getitem__, int, float):
        try:
            return [kind(cell) if cell else None for cell in cells]
        except (KeyError, ValueError):
            continue
    return [cell or None for cell in cells]


def _column(name: str, values: Sequence[Any]) -> Any:
    """A column of one type: text, or where all that is there is alike switches, whole numbers, numbers."""
    import pandas as pd

    present = [value for value in values if value is not None]
    kinds = {type(value) for value in present}
    if not _is_text(name):
        if kinds <= {int, float} and (float in kinds or not kinds):
            return pd.array([np.nan if v is None else float(v) for v in values], dtype="float64")
        if kinds == {int}:
            return pd.array(values, dtype="int64" if len(present) == len(values) else "Int64")
        if kinds == {bool}:
            return pd.array(values, dtype="bool" if len(present) == len(values) else "boolean")
    return pd.array([None if v is None else replace_surrogates(str(v)) for v in values], dtype="string")


@dataclass(frozen=True)
class Results:
    """A table of decoders for people to read."""

    head: tuple[str, ...]  # titles of the columns
    rows: tuple[tuple[str, ...], ...]  # cells of text, the decoder's name first
    marks: tuple[tuple[int, ...], ...]  # for every cell the sign of a significant difference to the baseline, else 0
    caption: str  # what is shown, and how it was tested
    cells: tuple[Cell, ...]  # a row's
    means: tuple[Mapping[str, float | None], ...]  # a row's numbers by metric, None where it has none

    def as_json(self) -> dict[str, Any]:
        """Plain values: for every decoder its means, and the signs of its significant differences."""
        written = names(self.cells, written_out)
        rows = zip(self.cells, written, self.means, self.marks, strict=True)
        plain = [
            {"decoder": p.decoder, "name": name, "mean": dict(mean), "returned": p.returned}
            | {"significant": dict(zip(mean, signs[1:], strict=False))}
            for p, name, mean, signs in rows
        ]
        return {"rows": plain, "caption": self.caption}


def results(
    points: Iterable[Cell],
    metrics: Sequence[str] = ("recall", "comp", "ndcg", "ilad"),
    baseline: Any = None,
    k: int = 10,
    *,
    resamples: int = RESAMPLES.default,
    seed: int = 0,
) -> Results:
    """Every point at k in every metric, and whether it differs significantly from the baseline.

    points: of one split; baseline: as `compare` takes it, by default the point of the first registered selector,
    where it has several that without reranking and of the first scorer. The means are over the queries on which all
    have the metric, which the caption counts. Raises ParamError or DataError.
    """
    cells = list({p.label: p for p in cells_at(points, k)}.values())
    metrics = (metrics,) if isinstance(metrics, str) else tuple(dict.fromkeys(metrics))
    first = meant(cells, usual_baseline(cells) if baseline is None else baseline, k)
    cells = [first, *(p for p in cells if p.label != first.label)]
    if len(cells) < 2:
        raise DataError("there is nothing to compare: give the baseline and at least one other point")
    compared = {m: compare(cells, m, first, k, resamples=resamples, seed=seed) for m in metrics}
    by_label = {m: {row.label: row for row in rows} for m, rows in compared.items()}
    short = any(p.returned < p.k - 1e-9 for p in cells)
    texts, marks, means = [], [], []
    for p, name in zip(cells, names(cells), strict=True):
        line, signs, numbers = [name], [0], {}
        for m in metrics:
            row = by_label[m].get(p.label)
            value = compared[m][0].baseline_mean if p is first and compared[m] else row.mean if row else None
            numbers[m] = value
            line.append("–" if value is None else f"{value:.4f}".replace("-", MINUS))
            signs.append(int(np.sign(row.difference)) if row and row.significant else 0)
        texts.append((*line, f"{p.returned:.1f}") if short else tuple(line))
        means.append(numbers)
        marks.append((*signs, 0) if short else tuple(signs))
    head = ("Setting", *(f"{title_of(m)}@{first.k}" for m in metrics), *(["Returned"] if short else []))
    counts = {m: rows[0].queries if rows else 0 for m, rows in compared.items()}
    tests = max(map(len, compared.values()))
    return Results(
        head=head,
        rows=tuple(texts),
        marks=tuple(marks),
        caption=_caption(first, texts[0][0], counts, tests, resamples),
        cells=tuple(cells),
        means=tuple(means),
    )


def usual_baseline(points: Sequence[Cell]) -> Cell | str:
    """What others are compared with where nobody says what: the point, or the method that there should be one of."""
    first, scorer = next(iter(methods("selector"))), next(iter(methods("scorer")))
    candidates = [p for p in points if p.method == first]
    chains = [(bool(p.decoder["rerank"]), p.decoder["retrieve"]["name"] != scorer) for p in candidates]
    usual = [p for p, chain in zip(candidates, chains, strict=True) if chain == min(chains)]
    return usual[0] if len(usual) == 1 else first


def _caption(base: Cell, name: str, counts: dict[str, int], tests: int, resamples: int) -> str:
    if len(set(counts.values())) == 1:
        over = f"{next(iter(counts.values())):,}"
    else:
        over = ", ".join(f"{title_of(m)} {count:,}" for m, count in counts.items())
    split = f", split {base.split}" if base.split else ""
    holm = f" after Holm's correction over {tests} settings for each metric" if tests > 1 else ""
    return (
        f"Means at k = {base.k}{split}; queries on which all have the metric: {over} of {len(base.queries):,}. "
        f"↑ ↓: significantly more or less than {name}: p < {SIGNIFICANCE_LEVEL:g} in a two-sided paired randomisation "
        f"test ({resamples:,} resamples){holm}, and the {100 * LEVEL:g}% paired bootstrap CI of the difference "
        "excludes 0."
    )


ARROWS = {0: "", 1: " ↑", -1: " ↓"}


def markdown(table: Results) -> str:
    """The table in Markdown, its caption above."""
    lines = [
        "| " + " | ".join(map(_in_markdown, table.head)) + " |",
        "| --- |" + " ---: |" * (len(table.head) - 1),
    ]
    for row, marks in zip(table.rows, table.marks, strict=True):
        cells = (_in_markdown(cell) + ARROWS[mark] for cell, mark in zip(row, marks, strict=True))
        lines.append("| " + " | ".join(cells) + " |")
    return f"{_in_markdown(table.caption)}\n\n" + "\n".join(lines) + "\n"


def latex(table: Results, label: str = "tab:frontier") -> str:
    """The table in LaTeX, for the package booktabs."""
    lines = [
        r"\begin{table}",
        r"  \centering",
        f"  \\caption{{{_in_latex(table.caption)}}}",
        f"  \\label{{{re.sub(r'[^A-Za-z0-9:._-]', '-', label)}}}",
        f"  \\begin{{tabular}}{{l{'r' * (len(table.head) - 1)}}}",
        r"    \toprule",
        f"    {' & '.join(map(_in_latex, table.head))} \\\\",
        r"    \midrule",
    ]
    for row, marks in zip(table.rows, table.marks, strict=True):
        cells = (_in_latex(cell + ARROWS[mark].strip()) for cell, mark in zip(row, marks, strict=True))
        lines.append(f"    {' & '.join(cells)} \\\\")
    return "\n".join([*lines, r"    \bottomrule", r"  \end{tabular}", r"\end{table}", ""])


def _in_markdown(text: str) -> str:
    return re.sub(r"([\\`*_\[\]<>|~$&#])", r"\\\1", _line(text))


LATEX = {
    **{c: f"\\{c}" for c in "{}$&#_%"},
    **{"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"},
    **{"→": r"$\rightarrow$", "↑": r"$^{\uparrow}$", "↓": r"$^{\downarrow}$", "−": "$-$", "–": "--", "…": r"\ldots{}"},
    **{"·": r"$\cdot$", "₁": "$_1$", "₂": "$_2$"},
    **{"<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}"},
    **{"α": r"$\alpha$", "λ": r"$\lambda$", "θ": r"$\theta$", "κ": r"$\kappa$", "δ": r"$\delta$"},
}
"""What LaTeX has other ways to write, and the letters that metrics and parameters have."""


def _in_latex(text: str) -> str:
    return "".join(LATEX.get(c, c) for c in _line(text))


def _line(text: str) -> str:
    """As one line of characters that can be shown."""
    return " ".join("".join(c if c.isprintable() else " " for c in replace_surrogates(text)).split())
