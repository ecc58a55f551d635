"""Tables of cells: frames, Parquet, CSV safe for spreadsheets, Markdown and LaTeX with significance."""

from __future__ import annotations

import csv
import io
import re
from collections import ChainMap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, starmap
from operator import add, itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from engine.data.cache import write as write_whole
from engine.decoder import read_limits
from engine.errors import DataError, ParamError
from engine.evaluation.metrics import title_of
from engine.evaluation.paired import format_stage_call, select_distinct, short_names
from engine.evaluation.statistics import (
    CONFIDENCE_LEVEL,
    RESAMPLES,
    SIGNIFICANCE_LEVEL,
    Comparison,
    compare,
    resolve_baseline,
)  # fmt: skip
from engine.evaluation.sweep.cell import Cell
from engine.stages import methods
from engine.values import replace_surrogates
from engine.wording import MINUS

if TYPE_CHECKING:
    from pandas import DataFrame

FORMULA_PREFIXES = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")
"""Prefixes that make a cell of text a formula, also after spaces or quotes; formulas can send data or run programs."""
_SKIPPED_PREFIXES = "' \"\u00a0\u3000\ufeff"
"""Characters that spreadsheets ignore before a formula."""
PER_QUERY_COLUMNS = ("method", "name", "label", "k", "split", "query", "metric", "value", "key")
TEXT_COLUMNS = frozenset({"method", "name", "label", "retrieve", "rerank", "split", "query", "metric", "key", "digest"})
PROVENANCE_PREFIX = "provenance."


def build_frame(cells: Iterable[Cell]) -> DataFrame:
    """Build a frame with one row per cell.

    A cell is one decoder's metrics, query by query, at one k. Columns: method, name (short and distinct), label (the
    decoder in full), k, split, queries (number), one column per metric (its mean), select.<parameter>, retrieve,
    retrieve.<parameter>, rerank, …, depth, left_out, returned, milliseconds, key, digest, provenance.<fact>. Parameters
    that a method lacks or leaves unset are missing; the label tells the two apart. Milliseconds of a sweep of one query
    are missing too.
    """
    import pandas as pd

    cells = list(cells)
    full_names = short_names(cells, format_stage_call)
    rows = list(map(_build_row_sections, cells, full_names))
    # Section by section, so that a column that later rows add stands beside those of its section.
    names = dict.fromkeys(chain.from_iterable(chain.from_iterable(zip(*rows, strict=True))))
    flat_rows, table = list(starmap(ChainMap, rows)), {}
    for name in names:
        table[name] = _make_column(name, [row.get(name) for row in flat_rows])
    return pd.DataFrame(table)


def _build_row_sections(cell: Cell, name: str) -> tuple[dict[str, Any], ...]:
    """Build the row of a cell as sections: dicts from column to value, whose columns stand together."""
    chain_sections = []
    for stage_role in ("select", "retrieve", "rerank"):
        stage = dict(cell.decoder.get(stage_role) or {})
        stage_name = stage.pop("name", None)
        params = _prefix_keys(f"{stage_role}.", stage)
        chain_sections.append(params if stage_role == "select" else {stage_role: stage_name, **params})
    return (
        {"method": cell.method, "name": name, "label": cell.label},
        {"k": cell.k, "split": cell.split, "queries": len(cell.queries)},
        # Notebooks leave out the middle of so many columns, so what was measured comes first.
        {metric: cell.mean[metric] for metric in cell.values},
        *chain_sections,
        {"depth": cell.decoder.get("depth"), **read_limits(cell.decoder)},
        {"left_out": cell.left_out, "returned": cell.returned, "milliseconds": cell.latency},
        {"key": cell.key, "digest": cell.digest},
        _prefix_keys(PROVENANCE_PREFIX, cell.provenance),
    )


def _prefix_keys(prefix: str, mapping: Mapping[str, Any]) -> dict[str, Any]:
    """Return the mapping with a prefix before each key."""
    return {f"{prefix}{key}": value for key, value in mapping.items()}


def build_per_query_frame(cells: Iterable[Cell]) -> DataFrame:
    """Build a frame with one row per cell (a decoder at one k), metric and query: PER_QUERY_COLUMNS.

    Counts of documents follow the metrics, with their names in the same column: returned, judged, relevant and so on.
    The value is missing where the metric is undefined for the query. Columns of text are of pandas' type "category",
    as the same text stands in many rows.
    """
    import pandas as pd

    # The empty array first gives an empty column of floats if there are no cells.
    cells, blocks, query_lists, value_arrays = list(cells), [], [], [np.empty(0)]
    for cell, name in zip(cells, short_names(cells, format_stage_call), strict=True):
        facts = {"method": cell.method, "name": name, "label": cell.label, "k": cell.k, "split": cell.split}
        for metric, values in {**cell.values, **cell.counts}.items():
            blocks.append({**facts, "metric": metric, "key": cell.key})
            query_lists.append(cell.queries)
            value_arrays.append(np.asarray(values, dtype=np.float64))
    list_sizes = list(map(len, query_lists))
    table: dict[str, Any] = {}
    for name in set(PER_QUERY_COLUMNS) - {"k", "query", "value"}:
        block_texts = [replace_surrogates(str(block[name])) for block in blocks]
        # Each text is stored once and its code repeated, as it is the same for all queries of a cell.
        distinct_texts = list(dict.fromkeys(block_texts))
        codes = np.repeat(_encode_texts(block_texts, distinct_texts), list_sizes)
        table[name] = pd.Categorical.from_codes(codes, pd.Index(distinct_texts, dtype=object))
    table["k"] = np.repeat(np.array(list(map(itemgetter("k"), blocks)), dtype=np.int64), list_sizes)
    query_ids = list(map(replace_surrogates, chain.from_iterable(query_lists)))
    distinct_ids = sorted(set(query_ids))
    codes = _encode_texts(query_ids, distinct_ids)
    table["query"] = pd.Categorical.from_codes(codes, pd.Index(distinct_ids, dtype=object))
    table["value"] = np.concatenate(value_arrays)
    return pd.DataFrame(table, columns=list(PER_QUERY_COLUMNS))


def _encode_texts(texts: Sequence[str], distinct_texts: Sequence[str]) -> np.ndarray:
    """Return the number of each text among the distinct ones.

    pandas before 3.1 takes texts for equal that differ only behind a NUL.
    """
    numbers = {text: number for number, text in enumerate(distinct_texts)}
    return np.array([numbers[text] for text in texts], dtype=np.int64)


def write_table(data_frame: DataFrame, path: str | Path) -> Path:
    """Write a frame atomically as .parquet or .csv; `read_table` reads it back.

    The CSV is UTF-8 (RFC 4180), and a missing value is an empty cell. `guard_formula` puts an apostrophe before texts
    and column names that a spreadsheet would run as formulas; a reader other than `read_table` must drop it. Raises
    ParamError for another suffix, FrontierError if it cannot write.
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
    """Format a frame as CSV text that is safe in spreadsheets: texts are quoted, and formulas disarmed."""
    text_stream = io.StringIO(newline="")
    writer = csv.writer(text_stream, quoting=csv.QUOTE_NONNUMERIC, lineterminator="\r\n")
    writer.writerow(map(guard_formula, map(str, data_frame.columns)))
    plain_values = data_frame.astype(object).where(data_frame.notna(), None)
    for row_values in plain_values.itertuples(index=False, name=None):
        writer.writerow([guard_formula(value) if isinstance(value, str) else value for value in row_values])
    return text_stream.getvalue()


def guard_formula(text: str) -> str:
    """Put an apostrophe before text that a spreadsheet would run as a formula."""
    return "'" + text if text.lstrip(_SKIPPED_PREFIXES).startswith(FORMULA_PREFIXES) else text


def unguard_formula(cell: str) -> str:
    """Return the original text of a cell that `guard_formula` wrote."""
    return cell[1:] if cell.startswith("'") and cell.lstrip(_SKIPPED_PREFIXES).startswith(FORMULA_PREFIXES) else cell


def read_table(path: str | Path) -> DataFrame:
    """Read a table that `write_table` wrote; ids that look like numbers stay text. Raises DataError."""
    import pandas as pd

    path = Path(path)
    try:
        if path.suffix.lower() == ".parquet":
            return pd.read_parquet(path)
        # Python's csv refuses cells of more than 128 KiB, which long texts may exceed.
        csv.field_size_limit(2**31 - 1)
        with open(path, encoding="utf-8", newline="") as file:
            # Pandas would stop at a NUL, and read 007 as a number and NA as missing.
            names, *row_cells = list(csv.reader(file, strict=True)) or [[]]
    except (OSError, ValueError, csv.Error) as error:
        raise DataError(f"{path} cannot be read as a table: {error}") from None
    if any(len(cells) != len(names) for cells in row_cells):
        raise DataError(f"{path} is no table: every row must have as many cells as the first")
    cell_columns = zip(*row_cells, strict=True) if row_cells else [()] * len(names)
    table = {}
    for guarded_name, column_cells in zip(names, cell_columns, strict=True):
        name = unguard_formula(guarded_name)
        table[name] = _make_column(name, _parse_cells(name, list(map(unguard_formula, column_cells))))
    return pd.DataFrame(table)


def _is_text_column(name: str) -> bool:
    """Return True if the column holds text even where its values look like numbers."""
    return name in TEXT_COLUMNS or name.startswith(PROVENANCE_PREFIX)


def _parse_cells(name: str, cells: Sequence[str]) -> list[Any]:
    """Parse the cells of a CSV column as bools, whole numbers or floats if all are; else as text.

    An empty cell is missing, None. In a column of text it is an empty text instead, except in retrieve and rerank,
    which a decoder may lack.
    """
    if _is_text_column(name) and name not in ("retrieve", "rerank"):
        return list(cells)
    # A column of text is not converted, even if its cells look like numbers. The dict's look-up parses bools alone:
    # any other text raises KeyError.
    parse_bool = {"True": True, "False": False}.__getitem__
    for convert in () if _is_text_column(name) else (parse_bool, int, float):
        try:
            return [convert(cell) if cell else None for cell in cells]
        except (KeyError, ValueError):
            continue
    return [cell or None for cell in cells]


def _make_column(name: str, values: Sequence[Any]) -> Any:
    """Make a pandas column of one type: bool, whole, or float if all present values are, else text."""
    import pandas as pd

    value_types = set(map(type, values))
    # NumPy's types cannot hold a missing value, so a column with gaps gets the nullable type of pandas.
    has_gaps = type(None) in value_types
    value_types.discard(type(None))
    if not _is_text_column(name):
        has_only_numbers = value_types <= {int, float}
        # A column without any value counts as one of numbers.
        if has_only_numbers and (float in value_types or not value_types):
            return pd.array([np.nan if v is None else float(v) for v in values], dtype="float64")
        if value_types == {int}:
            return pd.array(values, dtype="Int64" if has_gaps else "int64")
        if value_types == {bool}:
            return pd.array(values, dtype="boolean" if has_gaps else "bool")
    return pd.array([None if v is None else replace_surrogates(str(v)) for v in values], dtype="string")


TEST_FIELDS = ("difference", "low", "high", "p", "p_holm", "comparisons")
"""Fields of a Comparison that a table has as JSON."""


@dataclass(frozen=True, kw_only=True)
class ResultsTable:
    """A table of decoders for people to read."""

    head: tuple[str, ...]  # titles of the columns
    rows: tuple[tuple[str, ...], ...]  # cells of text, the decoder's name first
    marks: tuple[tuple[int, ...], ...]  # for every cell the sign of a significant difference to the baseline, else 0
    caption: str  # the shown values and the test
    cells: tuple[Cell, ...]  # the cell of each row
    means: tuple[Mapping[str, float | None], ...]  # means of each row by metric, None where undefined
    comparisons: tuple[Mapping[str, Comparison], ...]  # each row with the baseline by metric, without undefined ones

    def as_json(self) -> dict[str, Any]:
        """Return the table as plain JSON values.

        A row holds a decoder's means, the sign of each significant difference to the baseline, and for each difference
        its interval and p, both corrected by Holm's method, and the uncorrected p.
        """
        code_names = short_names(self.cells, format_stage_call)
        row_parts = zip(self.cells, code_names, self.means, self.marks, self.comparisons, strict=True)
        json_rows = []
        for cell, name, metric_means, marks, comparisons in row_parts:
            # Marks are for a row's texts: the first belongs to the name, and a last one may belong to the number of
            # returned documents, which has no mean to pair with.
            json_row = {"decoder": cell.decoder, "name": name, "mean": dict(metric_means), "returned": cell.returned}
            json_row["significant"] = dict(zip(metric_means, marks[1:], strict=False))
            tests = {}
            for metric, row in comparisons.items():
                tests[metric] = {field_name: getattr(row, field_name) for field_name in TEST_FIELDS}
            json_rows.append(json_row | {"comparisons": tests})
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
    """Tabulate every cell at k in every metric, with marks of significant differences to the baseline.

    A cell is one decoder's metrics, query by query, at one k. points: of one split; baseline: as `compare` takes it, by
    default the cell of the first registered selector. If there are several of it, the one without a reranker and with
    the first scorer is the baseline.
    The means are over the queries on which all have the metric, which the caption counts. Raises ParamError or
    DataError.
    """
    cells = select_distinct(points, k)
    metrics = (metrics,) if isinstance(metrics, str) else tuple(dict.fromkeys(metrics))
    baseline_cell = resolve_baseline(cells, find_default_baseline(cells) if baseline is None else baseline, k)
    cells = [baseline_cell, *(cell for cell in cells if cell.label != baseline_cell.label)]
    if len(cells) < 2:
        raise DataError("there is nothing to compare: give the baseline and at least one other point")
    # Every other cell against the baseline; a cell that has a metric on no query has no comparison in it.
    comparisons, counts, by_label = {}, {}, {}
    for metric in metrics:
        comparisons[metric] = compare(cells, metric, baseline_cell, k, resamples=resamples, seed=seed)
        counts[metric] = comparisons[metric][0].queries if comparisons[metric] else 0
        for row in comparisons[metric]:
            by_label[metric, row.label] = row
    # Decoders may return fewer than k documents; the mean number, a rounded float, is shown only then.
    has_short_sets = any(cell.returned < cell.k - 1e-9 for cell in cells)
    # A row for each cell: its texts, the signs of its significant differences, and the plain means.
    text_rows, mark_rows, means = [], [], []
    for cell, name in zip(cells, short_names(cells), strict=True):
        texts, marks, row_means = [name], [0], {}
        for metric in metrics:
            # The baseline has no comparison of its own, but its mean stands in every row of the metric.
            comparison = by_label.get((metric, cell.label))
            mean_value = comparison.mean if comparison else None
            if cell is baseline_cell and comparisons[metric]:
                mean_value = comparisons[metric][0].baseline_mean
            row_means[metric] = mean_value
            texts.append("–" if mean_value is None else f"{mean_value:.4f}".replace("-", MINUS))
            marks.append(int(np.sign(comparison.difference)) if comparison and comparison.significant else 0)
        text_rows.append((*texts, f"{cell.returned:.1f}") if has_short_sets else tuple(texts))
        means.append(row_means)
        mark_rows.append((*marks, 0) if has_short_sets else tuple(marks))
    metric_titles = [f"{title_of(metric)}@{baseline_cell.k}" for metric in metrics]
    head = ("Setting", *metric_titles, *(["Returned"] if has_short_sets else []))
    n_tests = max(map(len, comparisons.values()))
    caption = _write_caption(baseline_cell, text_rows[0][0], counts, n_tests, resamples)
    rows, row_marks = tuple(text_rows), tuple(mark_rows)
    row_comparisons = []
    for cell in cells:
        row_comparisons.append({m: by_label[m, cell.label] for m in metrics if (m, cell.label) in by_label})
    return ResultsTable(
        head=head, rows=rows, marks=row_marks, caption=caption, cells=tuple(cells), means=tuple(means),
        comparisons=tuple(row_comparisons),
    )  # fmt: skip


def find_default_baseline(cells: Sequence[Cell]) -> Cell | str:
    """Return the cell of the first selector without reranking and with the first scorer, as the baseline.

    A cell is one decoder's metrics, query by query, at one k. If no cell is as simple, the simplest of the selector's
    cells is returned. If several are equally simple, or the selector has no cell, its name is returned, which
    `resolve_baseline` turns into a cell or an error.
    """
    first_selector, first_scorer = next(iter(methods("selector"))), next(iter(methods("scorer")))
    by_chain: dict[tuple[bool, bool], list[Cell]] = {}
    for cell in cells:
        if cell.method == first_selector:
            has_reranker = bool(cell.decoder["rerank"])
            has_other_scorer = cell.decoder["retrieve"]["name"] != first_scorer
            by_chain.setdefault((has_reranker, has_other_scorer), []).append(cell)
    # False sorts before True: no reranker first, then the first scorer.
    simplest = by_chain[min(by_chain)] if by_chain else []
    return simplest[0] if len(simplest) == 1 else first_selector


def _write_caption(baseline: Cell, baseline_name: str, counts: dict[str, int], n_tests: int, resamples: int) -> str:
    """Write the caption of a table of results: k, split, numbers of queries, and what the arrows mean.

    counts: metric → number of queries behind its means; n_tests: comparisons that Holm's correction is over
    """
    if len(set(counts.values())) == 1:
        count_text = f"{next(iter(counts.values())):,}"
    else:
        count_text = ", ".join(f"{title_of(metric)} {n_queries:,}" for metric, n_queries in counts.items())
    split_text = f", split {baseline.split}" if baseline.split else ""
    has_several = n_tests > 1
    holm_text = f" after Holm's correction over {n_tests} settings for each metric" if has_several else ""
    width_text = ", widened by the same correction," if has_several else ""
    return (
        f"Means at k = {baseline.k}{split_text}; queries on which all have the metric: {count_text} of "
        f"{len(baseline.queries):,}. ↑ ↓: significantly more or less than {baseline_name}: p < "
        f"{SIGNIFICANCE_LEVEL:g} in a two-sided paired randomisation test ({resamples:,} resamples){holm_text}, and "
        f"the {100 * CONFIDENCE_LEVEL:g}% paired bootstrap CI of the difference{width_text} excludes 0."
    )


SIGNIFICANCE_ARROWS = {0: "", 1: " ↑", -1: " ↓"}


def format_markdown(table: ResultsTable) -> str:
    """Format a table of results in Markdown, with its caption above and marks of significance."""
    lines = ["| " + " | ".join(map(_escape_markdown, table.head)) + " |", "| --- |" + " ---: |" * (len(table.head) - 1)]
    for texts, marks in zip(table.rows, table.marks, strict=True):
        marked_texts = map(add, texts, map(SIGNIFICANCE_ARROWS.__getitem__, marks))
        lines.append("| " + " | ".join(map(_escape_markdown, marked_texts)) + " |")
    return f"{_escape_markdown(table.caption)}\n\n" + "\n".join(lines) + "\n"


def format_latex(table: ResultsTable, label: str = "tab:frontier") -> str:
    """Format a table of results in LaTeX (package booktabs), with caption and marks of significance."""
    lines = [
        r"\begin{table}",
        r"  \centering",
        f"  \\caption{{{_escape_latex(table.caption)}}}",
        f"  \\label{{{re.sub(r'[^A-Za-z0-9:._-]', '-', label)}}}",
        f"  \\begin{{tabular}}{{l{'r' * (len(table.head) - 1)}}}",
        r"    \toprule",
        f"    {' & '.join(map(_escape_latex, table.head))} \\\\",
        r"    \midrule",
    ]
    for texts, marks in zip(table.rows, table.marks, strict=True):
        arrows = map(str.strip, map(SIGNIFICANCE_ARROWS.__getitem__, marks))
        lines.append(f"    {' & '.join(map(_escape_latex, map(add, texts, arrows)))} \\\\")
    return "\n".join([*lines, r"    \bottomrule", r"  \end{tabular}", r"\end{table}", ""])


def _escape_markdown(text: str) -> str:
    return re.sub(r"([\\`*_\[\]<>|~$&#])", r"\\\1", _to_single_line(text))


LATEX_ESCAPES = {
    **{c: f"\\{c}" for c in "{}$&#_%"},
    **{"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"},
    **{"→": r"$\rightarrow$", "↑": r"$^{\uparrow}$", "↓": r"$^{\downarrow}$", "−": "$-$", "–": "--", "…": r"\ldots{}"},
    **{"·": r"$\cdot$", "₁": "$_1$", "₂": "$_2$"},
    **{"<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}"},
    **{"α": r"$\alpha$", "λ": r"$\lambda$", "θ": r"$\theta$", "κ": r"$\kappa$", "δ": r"$\delta$", "τ": r"$\tau$"},
}
"""Escapes of characters that LaTeX reserves or lacks, and of the letters of metrics and parameters."""


def _escape_latex(text: str) -> str:
    return "".join(LATEX_ESCAPES.get(character, character) for character in _to_single_line(text))


def _to_single_line(text: str) -> str:
    """Return the text as one line of printable characters."""
    # Line breaks and control characters would end the cell, so each becomes a space.
    printable = [character if character.isprintable() else " " for character in replace_surrogates(text)]
    return " ".join("".join(printable).split())
