"""Decoders side by side: the queries that all of them answered, and the names that tell them apart."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import compress
from typing import Any

import numpy as np

from engine.decoder import SET_SIZE
from engine.errors import DataError, ParamError
from engine.params import Choice, Flag, Param, Text, form_of
from engine.stages import methods

EQUALITY_TOLERANCE = 1e-9
"""Values that differ by no more are equal: the last bits depend on the order of a set and on the machine."""


@dataclass(frozen=True, eq=False)
class AlignedCells:
    """Cells on the queries for which each of them has every metric."""

    cells: tuple[Any, ...]  # of one k and split, each decoder once
    queries: tuple[str, ...]  # their ids, sorted, so that nothing depends on the order in which anything was given
    values: Mapping[str, np.ndarray]  # metric → (queries, points)
    n_common: int  # number of queries that all were asked
    left_out: tuple[Any, ...]  # cells that have the metrics on no query at all, as where nothing was returned

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The points' names, in their order."""
        return short_names(self.cells)


def select_cells(points: Iterable[Any], k: int) -> list[Any]:
    """The points of one k and one split; raises ParamError or DataError where there are none, or several splits."""
    k, all_cells = SET_SIZE.check(k), list(points)
    cells = [cell for cell in all_cells if cell.k == k]
    if not cells:
        measured_sizes = ", ".join(map(str, sorted({cell.k for cell in all_cells}))) or "none"
        raise DataError(f"no point was measured at k = {k}; k of the points: {measured_sizes}")
    if len(split_names := {str(getattr(cell, "split", "")) for cell in cells}) > 1:
        raise DataError(f"points must be of one split; got {', '.join(sorted(split_names))}")
    return cells


def align_on_common_queries(points: Iterable[Any], metrics: Sequence[str], k: int) -> AlignedCells:
    """What points at k have in common; points: `Point`s, or anything with its k, label, queries, values and decoder.

    A decoder given twice with the same values counts once. Raises ParamError or DataError: nothing at this k, a metric
    that was not measured, several splits, one decoder with differing values, no query in common.
    """
    by_label: dict[str, Any] = {}
    for cell in select_cells(points, k):
        if missing_metrics := [metric for metric in metrics if metric not in cell.values]:
            measured = ", ".join(cell.values) or "nothing"
            raise ParamError(f"{', '.join(missing_metrics)} was not measured for {cell.label}; it has {measured}")
        known_cell = by_label.setdefault(cell.label, cell)
        if known_cell is cell:
            continue
        if known_cell.queries != cell.queries or not all(
            np.allclose(known_cell.values[metric], cell.values[metric], rtol=0, atol=EQUALITY_TOLERANCE, equal_nan=True)
            for metric in metrics
        ):
            raise DataError(f"two points are called {cell.label} and differ: compare those of one data set at a time")
    distinct_cells = list(by_label.values())
    is_defined = {
        cell.label: np.all([np.isfinite(cell.values[metric]) for metric in metrics], axis=0) for cell in distinct_cells
    }
    compared_cells = tuple(cell for cell in distinct_cells if is_defined[cell.label].any())
    metric_list = " and ".join(dict.fromkeys(metrics))
    if not compared_cells:
        raise DataError(f"no point has {metric_list} at k = {k} on any query")
    common_queries = sorted(set.intersection(*map(set, {cell.queries for cell in compared_cells})))
    common_rows = {}
    for query_order in {cell.queries for cell in compared_cells}:
        row_of = {query_id: row_number for row_number, query_id in enumerate(query_order)}
        common_rows[query_order] = np.array([row_of[query_id] for query_id in common_queries], dtype=int)
    is_everywhere = np.all([is_defined[cell.label][common_rows[cell.queries]] for cell in compared_cells], axis=0)
    if not is_everywhere.any():
        scarcest_cell = min(compared_cells, key=lambda cell: (is_defined[cell.label].sum(), cell.label))
        raise DataError(
            f"no query has {metric_list} for every point; {scarcest_cell.label} has it for the fewest, "
            f"{is_defined[scarcest_cell.label].sum():,} of {len(scarcest_cell.queries):,}: leave it out"
        )
    aligned_values = {
        metric: np.stack(
            [
                np.asarray(cell.values[metric], np.float64)[common_rows[cell.queries]][is_everywhere]
                for cell in compared_cells
            ],
            axis=1,
        )
        for metric in metrics
    }
    aligned_queries = tuple(compress(common_queries, is_everywhere))
    return AlignedCells(
        compared_cells,
        aligned_queries,
        aligned_values,
        len(common_queries),
        tuple(cell for cell in distinct_cells if not is_defined[cell.label].any()),
    )


@dataclass(frozen=True, slots=True)
class QueryDifference:
    """One query's metric with two decoders."""

    query: str  # its id
    value: float
    baseline: float
    difference: float  # value − baseline, 0 for a tie


def rank_query_differences(
    compared_cell: Any, baseline: Any, metric: str, k: int = 10, *, other_cells: Iterable[Any] = ()
) -> tuple[QueryDifference, ...]:
    """The queries from the most won to the most lost, ties in between by id.

    compared_cell, baseline: of a sweep at k; other_cells: the points they were compared with, so that the queries are the same as
    there: those for which all have the metric. Raises ParamError or DataError.
    """
    aligned = align_on_common_queries([compared_cell, baseline, *other_cells], (metric,), k)
    cell_labels = [cell.label for cell in aligned.cells]
    value_columns = (
        aligned.values[metric][:, cell_labels.index(cell.label)].tolist() for cell in (compared_cell, baseline)
    )
    differences = [
        QueryDifference(
            query_id,
            value,
            baseline_value,
            value - baseline_value if abs(value - baseline_value) > EQUALITY_TOLERANCE else 0.0,
        )
        for query_id, value, baseline_value in zip(aligned.queries, *value_columns, strict=True)
    ]
    return tuple(sorted(differences, key=lambda difference: (-difference.difference, difference.query)))


def needs_scorer_names(points: Iterable[Any]) -> bool:
    """Whether the points differ in their scorers, or rerank; a run of another system has none."""
    scorer_chains = {scorer_chain(cell.decoder) for cell in points if cell.decoder.get("retrieve")}
    return len(scorer_chains) > 1 or any(reranker for _, reranker in scorer_chains)


def scorer_chain(decoder: Mapping[str, Any]) -> tuple[frozenset[Any], frozenset[Any]]:
    """The scorers of a decoder, its stages as plain values: equal where they and their parameters are."""
    retrieve, rerank = (frozenset((decoder.get(stage_role) or {}).items()) for stage_role in ("retrieve", "rerank"))
    return retrieve, rerank


def format_stage(stage_name: str, param_texts: Mapping[str, str]) -> str:
    """A stage for people: title, numbers with their symbols, words: "MMR · λ 0.8", "Hybrid · λ 1 · rrf"."""
    declared_params, method_spec = declared_parameters(stage_name), methods().get(stage_name)
    number_parts, word_parts = [], []
    for param_name, value_text in param_texts.items():
        param_form = form_of(declared_params[param_name], param_texts)[1] if param_name in declared_params else None
        match param_form:
            case Flag() as flag:
                word_parts.append(flag.label if value_text == flag.text(True) else f"no {flag.label}")
            case Choice(words=option_words, options=options) if option_words:
                word_parts.append(option_words[options.index(value_text)])
            case Choice() | Text() if value_text[:1].isalpha():
                word_parts.append(value_text)
            case _:
                number_parts.append(
                    f"{param_form.symbol if param_form else param_name} {value_text.removesuffix('.0')}"
                )
    return " · ".join(
        filter(None, [method_spec.title if method_spec else stage_name, " ".join(number_parts), *word_parts])
    )


def describe_guarantee(stage: Mapping[str, Any]) -> str:
    """What names of a stage always say: "filled to k"; stage: as plain values. "" where there is nothing."""
    declared_params = declared_parameters(stage["name"])
    guarantees = (
        param_form.words[param_form.options.index(stage[param_name])]
        for param_name, param_form in declared_params.items()
        if param_name in stage and _has_wording(param_form)
    )
    return ", ".join(guarantees)


def _has_wording(param: Param | None) -> bool:
    return isinstance(param, Choice) and bool(param.words)


def format_stage_call(stage_name: str, param_texts: Mapping[str, str]) -> str:
    """A stage as files and code write it: name(l1=0.1, l2=0.1)."""
    arguments = ", ".join(f"{param_name}={value_text}" for param_name, value_text in param_texts.items())
    return f"{stage_name}({arguments})" if arguments else stage_name


StageFormat = Callable[[str, Mapping[str, str]], str]
"""Writes a stage, of its name and its shown values."""


def short_names(cells: Sequence[Any], stage_format: StageFormat = format_stage) -> tuple[str, ...]:
    """Short names that tell decoders apart: the scorers go without saying where all have the same and none reranks."""
    with_scorers = needs_scorer_names(cells)
    return tuple(format_decoder(cell.decoder, with_scorers, stage_format=stage_format) for cell in cells)


def format_decoder(
    decoder: Mapping[str, Any],
    with_scorers: bool = True,
    omitted: tuple[str, str] | None = None,
    stage_format: StageFormat = format_stage,
) -> str:
    """A decoder as pages and charts write it, "MMR · λ 0.8": advanced parameters only where not at their default, or
    where their words always have to be said.

    decoder: its stages as plain values; with_scorers: whether to name them too; omitted: (stage, parameter) to pass over.
    """
    stage_texts = []
    for stage_role in ("retrieve", "rerank", "select") if with_scorers else ("select",):
        if stage := decoder.get(stage_role):
            declared_params = declared_parameters(stage["name"])
            param_texts = {
                param_name: declared_params[param_name].text(value) if param_name in declared_params else str(value)
                for param_name, value in stage.items()
                if param_name != "name" and (stage_role, param_name) != omitted
                if param_name not in declared_params
                or not declared_params[param_name].advanced
                or value != declared_params[param_name].default
                or (stage_format is format_stage and _has_wording(declared_params[param_name]))
            }
            stage_texts.append(stage_format(stage["name"], param_texts))
    pool_depth = decoder.get("depth") if omitted != ("", "depth") else None
    return " → ".join(stage_texts) + (f" [pool {pool_depth}]" if pool_depth else "")


def none_last_key(value: Any) -> tuple[bool, Any]:
    """A sort key: numbers in order, None after them, as declared grids have it."""
    return (value is None, 0 if value is None else value)


def varying_parameters(cells: Sequence[Any]) -> list[str]:
    """The parameters of the selector of cells that have more than one value, as declared."""
    return [
        param_name
        for param_name in cells[0].decoder["select"]
        if len({cell.decoder["select"].get(param_name) for cell in cells}) > 1
    ]


def common_form(param: Param, cells: Iterable[Any]) -> Param:
    """A parameter of the selector in the form in which all cells mean it; as declared where they differ."""
    param_forms = {form_of(param, cell.decoder["select"])[1] for cell in cells}
    return param_forms.pop() if len(param_forms) == 1 else param


def declared_parameters(stage_name: str) -> Mapping[str, Any]:
    """The declared parameters of a stage by name; none for a stage that is not registered here."""
    method_spec = methods().get(stage_name)
    return {param.name: param for param in method_spec.params} if method_spec else {}
