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
from engine.evaluation.paired import format_stage_call, select_cells, short_names
from engine.evaluation.statistics import CONFIDENCE_LEVEL, RESAMPLES, SIGNIFICANCE_LEVEL, compare, resolve_baseline
from engine.evaluation.sweep.cell import Cell
from engine.stages import methods
from engine.values import replace_surrogates
from engine.wording import MINUS

if TYPE_CHECKING:
    from pandas import DataFrame

FORMULA_PREFIXES = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")
"""A cell of text that begins so, perhaps after spaces or quotes, is a formula to a spreadsheet, and a formula can send
data away or run programs."""
_SKIPPED_PREFIXES = "' \"\u00a0\u3000\ufeff"
"""What spreadsheets pass over before a formula."""
PER_QUERY_COLUMNS = ("method", "name", "label", "k", "split", "query", "metric", "value", "key")
TEXT_COLUMNS = frozenset({"method", "name", "label", "retrieve", "rerank", "split", "query", "metric", "key", "digest"})
PROVENANCE_PREFIX = "provenance."


def build_frame(cells: Iterable[Cell]) -> DataFrame:
    """One row a cell.

    Columns: method, name (short, tells the rows apart), label (the decoder in full), select.<parameter>, retrieve,
    retrieve.<parameter>, rerank, …, depth, k, split, queries (how many), a column a metric (its mean), left_out,
    returned, milliseconds, key, digest, provenance.<what>. What a method does not have, or leaves unset, is missing;
    the label tells the two apart. So are milliseconds of a sweep of one query.
    """
    import pandas as pd

    cells = list(cells)
    cell_sections = [
        _build_row_sections(cell, cell_name)
        for cell, cell_name in zip(cells, short_names(cells, format_stage_call), strict=True)
    ]
    column_names = dict.fromkeys(
        column for section in zip(*cell_sections, strict=True) for sections in section for column in sections
    )
    flat_rows = [
        {column: value for section in sections for column, value in section.items()} for sections in cell_sections
    ]
    return pd.DataFrame({c: _make_column(c, [sections.get(c) for sections in flat_rows]) for c in column_names})


def _build_row_sections(cell: Cell, cell_name: str) -> tuple[dict[str, Any], ...]:
    """A cell's row, in the parts whose columns stand together."""
    chain_sections = []
    for stage_role in ("select", "retrieve", "rerank"):
        stage = cell.decoder.get(stage_role) or {}
        param_columns = {
            f"{stage_role}.{param_name}": value for param_name, value in stage.items() if param_name != "name"
        }
        chain_sections.append(
            param_columns if stage_role == "select" else {stage_role: stage.get("name"), **param_columns}
        )
    return (
        {"method": cell.method, "name": cell_name, "label": cell.label},
        *chain_sections,
        {"depth": cell.decoder.get("depth"), "k": cell.k, "split": cell.split, "queries": len(cell.queries)},
        {metric: cell.mean[metric] for metric in cell.values},
        {"left_out": cell.left_out, "returned": cell.returned, "milliseconds": cell.latency},
        {"key": cell.key, "digest": cell.digest},
        {f"{PROVENANCE_PREFIX}{fact_name}": value for fact_name, value in cell.provenance.items()},
    )


def build_per_query_frame(cells: Iterable[Cell]) -> DataFrame:
    """One row a cell, metric and query: method, name, label, k, split, query, metric, value, key.

    value is missing where the metric does not exist for the query. Columns of text, which repeats, are categories.
    """
    import pandas as pd

    cells = list(cells)
    blocks = [
        {
            "method": cell.method,
            "name": cell_name,
            "label": cell.label,
            "k": cell.k,
            "split": cell.split,
            "metric": metric,
            "key": cell.key,
        }
        for cell, cell_name in zip(cells, short_names(cells, format_stage_call), strict=True)
        for metric in cell.values
    ]
    query_lists = [cell.queries for cell in cells for _ in cell.values]
    list_sizes = [len(query_ids) for query_ids in query_lists]
    table: dict[str, Any] = {}
    for column_name in set(PER_QUERY_COLUMNS) - {"query", "value"}:
        codes, distinct_texts = pd.factorize(
            np.array([replace_surrogates(str(block[column_name])) for block in blocks], dtype=object)
        )
        table[column_name] = pd.Categorical.from_codes(np.repeat(codes, list_sizes), pd.Index(distinct_texts))
    table["k"] = np.repeat(np.array([block["k"] for block in blocks], dtype=np.int64), list_sizes)
    ids = [replace_surrogates(query_id) for query_ids in query_lists for query_id in query_ids]
    table["query"] = pd.Categorical(np.array(ids, dtype=object))
    value_arrays = [np.asarray(column_name, dtype=np.float64) for cell in cells for column_name in cell.values.values()]
    table["value"] = np.concatenate([np.empty(0), *value_arrays])
    return pd.DataFrame({column_name: table[column_name] for column_name in PER_QUERY_COLUMNS})


def write_table(data_frame: DataFrame, path: str | Path) -> Path:
    """Write a frame as .parquet or .csv, whole or not at all; `read` gives it back.

    CSV: UTF-8, RFC 4180; what is missing is an empty cell; text, columns' names too, is as `guarded` has it: to read
    the file with anything but `read`, drop one apostrophe wherever apostrophes stand before one of FORMULA. Raises
    ParamError for another suffix, FrontierError where it cannot write.
    """
    path = Path(path)
    match path.suffix.lower():
        case ".parquet":
            write_whole(path, lambda file: data_frame.to_parquet(file, index=False))
        case ".csv":
            write_whole(path, format_csv(data_frame).encode("utf-8"))
        case suffix:
            raise ParamError(f"a table is written as .parquet or .csv; got {suffix or 'no suffix'!r}")
    return path


def format_csv(data_frame: DataFrame) -> str:
    """A frame as the text of a CSV file, as `write` has it."""
    text_stream = io.StringIO(newline="")
    writer = csv.writer(text_stream, quoting=csv.QUOTE_NONNUMERIC, lineterminator="\r\n")
    writer.writerow([guard_formula(str(column_name)) for column_name in data_frame.columns])
    column_values = [
        data_frame[column_name].astype(object).where(data_frame[column_name].notna(), None).tolist()
        for column_name in data_frame.columns
    ]
    for row_values in zip(*column_values, strict=True):
        writer.writerow([guard_formula(value) if isinstance(value, str) else value for value in row_values])
    return text_stream.getvalue()


def guard_formula(text: str) -> str:
    """The text as a cell that no spreadsheet takes for a formula, an apostrophe before it; `unguarded` undoes it."""
    return "'" + text if text.lstrip(_SKIPPED_PREFIXES).startswith(FORMULA_PREFIXES) else text


def unguard_formula(cell: str) -> str:
    """The text of a cell that `guarded` wrote."""
    return cell[1:] if cell.startswith("'") and cell.lstrip(_SKIPPED_PREFIXES).startswith(FORMULA_PREFIXES) else cell


def read_table(path: str | Path) -> DataFrame:
    """What `write` wrote; ids stay text, however much they look like numbers. Raises DataError."""
    import pandas as pd

    path = Path(path)
    try:
        if path.suffix.lower() == ".parquet":
            return pd.read_parquet(path)
        csv.field_size_limit(2**31 - 1)
        with open(path, encoding="utf-8", newline="") as file:
            # Not pandas, which stops at a NUL and takes 007 and NA for what they are not.
            column_names, *row_cells = list(csv.reader(file, strict=True)) or [[]]
    except (OSError, ValueError, csv.Error) as error:
        raise DataError(f"{path} cannot be read as a table: {error}") from None
    if any(len(row) != len(column_names) for row in row_cells):
        raise DataError(f"{path} is no table: every row must have as many cells as the first")
    cell_columns = zip(*row_cells, strict=True) if row_cells else [()] * len(column_names)
    text_columns = {
        unguard_formula(column_name): [unguard_formula(cell) for cell in column_cells]
        for column_name, column_cells in zip(column_names, cell_columns, strict=True)
    }
    return pd.DataFrame(
        {
            column_name: _make_column(column_name, _parse_cells(column_name, column_cells))
            for column_name, column_cells in text_columns.items()
        }
    )


def _is_text_column(column_name: str) -> bool:
    return column_name in TEXT_COLUMNS or column_name.startswith(PROVENANCE_PREFIX)


def _parse_cells(column_name: str, cells: Sequence[str]) -> list[Any]:
    """Cells as values: what is no text is a number or a switch where all of a column are; an empty cell is missing."""
    if _is_text_column(column_name):
        return [cell or None if column_name in ("retrieve", "rerank") else cell for cell in cells]
    for convert in ({"True": True, "False": False}.__getitem__, int, float):
        try:
            return [convert(cell) if cell else None for cell in cells]
        except (KeyError, ValueError):
            continue
    return [cell or None for cell in cells]


def _make_column(column_name: str, values: Sequence[Any]) -> Any:
    """A column of one type: text, or where all that is there is alike switches, whole numbers, numbers."""
    import pandas as pd

    present_values = [value for value in values if value is not None]
    value_types = {type(value) for value in present_values}
    if not _is_text_column(column_name):
        if value_types <= {int, float} and (float in value_types or not value_types):
            return pd.array([np.nan if v is None else float(v) for v in values], dtype="float64")
        if value_types == {int}:
            return pd.array(values, dtype="int64" if len(present_values) == len(values) else "Int64")
        if value_types == {bool}:
            return pd.array(values, dtype="bool" if len(present_values) == len(values) else "boolean")
    return pd.array([None if v is None else replace_surrogates(str(v)) for v in values], dtype="string")


@dataclass(frozen=True)
class ResultsTable:
    """A table of decoders for people to read."""

    head: tuple[str, ...]  # titles of the columns
    rows: tuple[tuple[str, ...], ...]  # cells of text, the decoder's name first
    marks: tuple[tuple[int, ...], ...]  # for every cell the sign of a significant difference to the baseline, else 0
    caption: str  # what is shown, and how it was tested
    cells: tuple[Cell, ...]  # a row's
    means: tuple[Mapping[str, float | None], ...]  # a row's numbers by metric, None where it has none

    def as_json(self) -> dict[str, Any]:
        """Plain values: for every decoder its means, and the signs of its significant differences."""
        full_names = short_names(self.cells, format_stage_call)
        row_parts = zip(self.cells, full_names, self.means, self.marks, strict=True)
        json_rows = [
            {"decoder": cell.decoder, "name": full_name, "mean": dict(metric_means), "returned": cell.returned}
            | {"significant": dict(zip(metric_means, row_marks[1:], strict=False))}
            for cell, full_name, metric_means, row_marks in row_parts
        ]
        return {"rows": json_rows, "caption": self.caption}


def build_results(
    points: Iterable[Cell],
    metrics: Sequence[str] = ("recall", "comp", "ndcg", "ilad"),
    baseline: Any = None,
    k: int = 10,
    *,
    resamples: int = RESAMPLES.default,
    seed: int = 0,
) -> ResultsTable:
    """Every point at k in every metric, and whether it differs significantly from the baseline.

    points: of one split; baseline: as `compare` takes it, by default the point of the first registered selector,
    where it has several that without reranking and of the first scorer. The means are over the queries on which all
    have the metric, which the caption counts. Raises ParamError or DataError.
    """
    cells = list({cell.label: cell for cell in select_cells(points, k)}.values())
    metrics = (metrics,) if isinstance(metrics, str) else tuple(dict.fromkeys(metrics))
    baseline_cell = resolve_baseline(cells, find_default_baseline(cells) if baseline is None else baseline, k)
    cells = [baseline_cell, *(cell for cell in cells if cell.label != baseline_cell.label)]
    if len(cells) < 2:
        raise DataError("there is nothing to compare: give the baseline and at least one other point")
    comparisons = {
        metric: compare(cells, metric, baseline_cell, k, resamples=resamples, seed=seed) for metric in metrics
    }
    by_label = {
        metric: {comparison.label: comparison for comparison in metric_rows}
        for metric, metric_rows in comparisons.items()
    }
    has_short_sets = any(cell.returned < cell.k - 1e-9 for cell in cells)
    text_rows, mark_rows, means_by_row = [], [], []
    for cell, cell_name in zip(cells, short_names(cells), strict=True):
        row_texts, row_marks, row_means = [cell_name], [0], {}
        for metric in metrics:
            comparison = by_label[metric].get(cell.label)
            mean_value = (
                comparisons[metric][0].baseline_mean
                if cell is baseline_cell and comparisons[metric]
                else comparison.mean
                if comparison
                else None
            )
            row_means[metric] = mean_value
            row_texts.append("–" if mean_value is None else f"{mean_value:.4f}".replace("-", MINUS))
            row_marks.append(int(np.sign(comparison.difference)) if comparison and comparison.significant else 0)
        text_rows.append((*row_texts, f"{cell.returned:.1f}") if has_short_sets else tuple(row_texts))
        means_by_row.append(row_means)
        mark_rows.append((*row_marks, 0) if has_short_sets else tuple(row_marks))
    titles = (
        "Setting",
        *(f"{title_of(metric)}@{baseline_cell.k}" for metric in metrics),
        *(["Returned"] if has_short_sets else []),
    )
    query_counts = {metric: metric_rows[0].queries if metric_rows else 0 for metric, metric_rows in comparisons.items()}
    n_tests = max(map(len, comparisons.values()))
    return ResultsTable(
        head=titles,
        rows=tuple(text_rows),
        marks=tuple(mark_rows),
        caption=_write_caption(baseline_cell, text_rows[0][0], query_counts, n_tests, resamples),
        cells=tuple(cells),
        means=tuple(means_by_row),
    )


def find_default_baseline(cells: Sequence[Cell]) -> Cell | str:
    """What others are compared with where nobody says what: the point, or the method that there should be one of."""
    first_selector, first_scorer = next(iter(methods("selector"))), next(iter(methods("scorer")))
    candidates = [cell for cell in cells if cell.method == first_selector]
    chain_keys = [
        (bool(cell.decoder["rerank"]), cell.decoder["retrieve"]["name"] != first_scorer) for cell in candidates
    ]
    usual_cells = [cell for cell, chain_key in zip(candidates, chain_keys, strict=True) if chain_key == min(chain_keys)]
    return usual_cells[0] if len(usual_cells) == 1 else first_selector


def _write_caption(
    baseline_cell: Cell, baseline_name: str, query_counts: dict[str, int], n_tests: int, resamples: int
) -> str:
    if len(set(query_counts.values())) == 1:
        count_text = f"{next(iter(query_counts.values())):,}"
    else:
        count_text = ", ".join(f"{title_of(metric)} {n_queries:,}" for metric, n_queries in query_counts.items())
    split_text = f", split {baseline_cell.split}" if baseline_cell.split else ""
    holm_text = f" after Holm's correction over {n_tests} settings for each metric" if n_tests > 1 else ""
    return (
        f"Means at k = {baseline_cell.k}{split_text}; queries on which all have the metric: {count_text} of {len(baseline_cell.queries):,}. "
        f"↑ ↓: significantly more or less than {baseline_name}: p < {SIGNIFICANCE_LEVEL:g} in a two-sided paired randomisation "
        f"test ({resamples:,} resamples){holm_text}, and the {100 * CONFIDENCE_LEVEL:g}% paired bootstrap CI of the difference "
        "excludes 0."
    )


SIGNIFICANCE_ARROWS = {0: "", 1: " ↑", -1: " ↓"}


def format_markdown(table: ResultsTable) -> str:
    """The table in Markdown, its caption above."""
    table_lines = [
        "| " + " | ".join(map(_escape_markdown, table.head)) + " |",
        "| --- |" + " ---: |" * (len(table.head) - 1),
    ]
    for row_texts, row_marks in zip(table.rows, table.marks, strict=True):
        cell_texts = (
            _escape_markdown(cell_text) + SIGNIFICANCE_ARROWS[mark]
            for cell_text, mark in zip(row_texts, row_marks, strict=True)
        )
        table_lines.append("| " + " | ".join(cell_texts) + " |")
    return f"{_escape_markdown(table.caption)}\n\n" + "\n".join(table_lines) + "\n"


def format_latex(table: ResultsTable, label: str = "tab:frontier") -> str:
    """The table in LaTeX, for the package booktabs."""
    table_lines = [
        r"\begin{table}",
        r"  \centering",
        f"  \\caption{{{_escape_latex(table.caption)}}}",
        f"  \\label{{{re.sub(r'[^A-Za-z0-9:._-]', '-', label)}}}",
        f"  \\begin{{tabular}}{{l{'r' * (len(table.head) - 1)}}}",
        r"    \toprule",
        f"    {' & '.join(map(_escape_latex, table.head))} \\\\",
        r"    \midrule",
    ]
    for row_texts, row_marks in zip(table.rows, table.marks, strict=True):
        cell_texts = (
            _escape_latex(cell_text + SIGNIFICANCE_ARROWS[mark].strip())
            for cell_text, mark in zip(row_texts, row_marks, strict=True)
        )
        table_lines.append(f"    {' & '.join(cell_texts)} \\\\")
    return "\n".join([*table_lines, r"    \bottomrule", r"  \end{tabular}", r"\end{table}", ""])


def _escape_markdown(text: str) -> str:
    return re.sub(r"([\\`*_\[\]<>|~$&#])", r"\\\1", _to_single_line(text))


LATEX_ESCAPES = {
    **{c: f"\\{c}" for c in "{}$&#_%"},
    **{"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"},
    **{"→": r"$\rightarrow$", "↑": r"$^{\uparrow}$", "↓": r"$^{\downarrow}$", "−": "$-$", "–": "--", "…": r"\ldots{}"},
    **{"·": r"$\cdot$", "₁": "$_1$", "₂": "$_2$"},
    **{"<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}"},
    **{"α": r"$\alpha$", "λ": r"$\lambda$", "θ": r"$\theta$", "κ": r"$\kappa$", "δ": r"$\delta$"},
}
"""What LaTeX has other ways to write, and the letters that metrics and parameters have."""


def _escape_latex(text: str) -> str:
    return "".join(LATEX_ESCAPES.get(character, character) for character in _to_single_line(text))


def _to_single_line(text: str) -> str:
    """As one line of characters that can be shown."""
    return " ".join(
        "".join(character if character.isprintable() else " " for character in replace_surrogates(text)).split()
    )
