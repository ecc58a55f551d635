"""Alignment of decoders' results on common queries, and short names that distinguish decoders."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import compress, filterfalse
from operator import attrgetter, itemgetter
from typing import Any, cast

import numpy as np

from engine.decoder import SET_SIZE, Decoder, describe_scorer_use, format_limits, mark_use, read_limits
from engine.errors import DataError, ParamError
from engine.evaluation.metrics import METRICS
from engine.evaluation.sweep.cell import decoder_to_json
from engine.params import Choice, Flag, Param, Text, form_of
from engine.progress import counted
from engine.stages import Selector, find_spec, make

TIE_TOLERANCE = 1e-9
"""Values that differ by no more are ties: the last bits depend on the order of a set and on the machine."""


@dataclass(frozen=True, eq=False)
class AlignedCells:
    """Cells restricted to the queries for which each of them has every metric."""

    cells: tuple[Any, ...]  # of one k and split, each decoder once
    queries: tuple[str, ...]  # their ids, sorted, so that results do not depend on the order of the input
    values: Mapping[str, np.ndarray]  # metric → (queries, cells)
    n_common: int  # number of queries that all cells have, before those without a value are dropped
    left_out: tuple[Any, ...]  # cells that have the metrics on too few queries, as where nothing was returned

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The short names of the cells, in their order."""
        return short_names(self.cells)

    @cached_property
    def means(self) -> dict[str, np.ndarray]:
        """The (cells,) means of each metric."""
        return {metric: values.mean(0) for metric, values in self.values.items()}

    def column(self, metric: str, label: str) -> np.ndarray:
        """Return the (queries,) values of the cell with this label in a metric."""
        values: np.ndarray = self.values[metric][:, [cell.label for cell in self.cells].index(label)]
        return values


def select_cells(points: Iterable[Any], k: int) -> list[Any]:
    """Select the cells at k; a cell is the measurement of one decoder at one k.

    Raises ParamError for an invalid k, DataError if there is no cell, or cells of several splits.
    """
    k, all_cells = SET_SIZE.check(k), list(points)
    for cell in all_cells:
        # A frame of cells, for example, yields the names of its columns.
        if not hasattr(cell, "k"):
            raise DataError(f"points must be cells, as engine.sweep yields; got {type(cell).__name__}")
    cells = [cell for cell in all_cells if cell.k == k]
    if not cells:
        measured_sizes = ", ".join(map(str, sorted({cell.k for cell in all_cells}))) or "none"
        raise DataError(f"no point was measured at k = {k}; k of the points: {measured_sizes}")
    if len(split_names := {str(getattr(cell, "split", "")) for cell in cells}) > 1:
        raise DataError(f"points must be of one split; got {', '.join(sorted(split_names))}")
    return cells


def select_distinct(points: Iterable[Any], k: int) -> list[Any]:
    """Select the cells at k, one for each decoder's label; of several the last in the order given.

    A cell is one decoder's metrics, query by query, at one k.
    """
    cells = select_cells(points, k)
    # A dict keeps the last of several values of one key.
    return list(dict(zip(map(attrgetter("label"), cells), cells, strict=True)).values())


def find_complete_queries(cell: Any, metrics: Iterable[str]) -> np.ndarray:
    """Return a (queries,) mask of the queries for which a cell has every one of the metrics.

    A cell is one decoder's metrics, query by query, at one k.
    """
    is_complete: np.ndarray = np.all(np.isfinite([cell.values[metric] for metric in metrics]), axis=0)
    return is_complete


def _index_by_label(cells: Iterable[Any], metrics: Sequence[str]) -> dict[str, Any]:
    """Return label → cell; a decoder measured twice with equal values counts once.

    A cell is one decoder's metrics, query by query, at one k. Raises ParamError if a cell lacks one of the metrics,
    DataError if two cells of one label differ.
    """
    by_label: dict[str, Any] = {}
    for cell in cells:
        if missing_metrics := list(filterfalse(cell.values.__contains__, metrics)):
            measured = ", ".join(cell.values) or "nothing"
            raise ParamError(f"{', '.join(missing_metrics)} was not measured for {cell.label}; it has {measured}")
        # The same decoder measured twice must agree, or a comparison would depend on the order of the cells.
        first_cell = by_label.setdefault(cell.label, cell)
        is_same = first_cell.queries == cell.queries
        for metric in metrics if is_same else ():
            pair = first_cell.values[metric], cell.values[metric]
            is_same = is_same and np.allclose(*pair, rtol=0, atol=TIE_TOLERANCE, equal_nan=True)
        if not is_same:
            raise DataError(f"two points are called {cell.label} and differ: compare those of one data set at a time")
    return by_label


def _check_judgements(cells: Iterable[Any], metrics: Iterable[str]) -> None:
    """Raise a DataError if metrics were measured with different judgements, or from different grades on."""
    if not any(metric in METRICS and METRICS[metric].needs == "qrels" for metric in metrics):
        return
    # Stand-ins for cells have no provenance, and nothing to differ in.
    provenances = [getattr(cell, "provenance", {}) for cell in cells]
    digest_levels = {facts["qrels"]: facts.get("relevant_from", "1") for facts in provenances if "qrels" in facts}
    if len(digest_levels) > 1:
        levels = ", ".join(sorted(set(digest_levels.values())))
        kinds = sorted({facts.get("judgements", "complete") for facts in provenances if "qrels" in facts})
        kind_text = f", {' and '.join(kinds)}" if len(kinds) > 1 else ""
        raise DataError(
            f"points must be measured with the same judgements; got {counted(len(digest_levels), 'set')} of them, "
            "relevant from "
            f"grade {levels}{kind_text}: compare those of one set at a time"
        )


def is_decoder_cell(cell: Any) -> bool:
    """Return True if a cell is a decoder's, False for a run of another system."""
    spec = find_spec(cell.decoder["select"].get("name", ""))
    return spec is not None and spec.kind == "selector"


def mark_answered(cell: Any, reference: Any, metrics: Sequence[str]) -> np.ndarray:
    """Return a mask of the reference's queries, False where a cell was asked one and has not all the metrics.

    A cell has no metrics where it returns nothing, and no ILAD where it returns one document.
    """
    is_complete = find_complete_queries(cell, metrics)
    if cell.queries == reference.queries:
        return is_complete
    is_complete_on = dict(zip(cell.queries, is_complete.tolist(), strict=True))
    return np.array([is_complete_on.get(query, True) for query in reference.queries], dtype=bool)


def select_answering(cells: Iterable[Any], reference: Any, metrics: Sequence[str]) -> list[Any]:
    """Select the cells that have the metrics on every query on which a reference has them.

    One setting that lacks some would have all others compared on fewer queries, which are not like the rest: what is
    chosen would change with it. The reference is selected, and so is a run of another system, which is compared on the
    queries that it has lists for; with a run, these are all that there is.
    """
    all_cells = list(cells)
    common = find_complete_queries(reference, metrics)
    for run in filterfalse(is_decoder_cell, all_cells):
        common = common & mark_answered(run, reference, metrics)

    def is_selected(cell: Any) -> bool:
        """Return True if a cell lacks none of the common queries, or has to be compared."""
        is_wanted = cell is reference or not is_decoder_cell(cell)
        return is_wanted or not bool((common & ~mark_answered(cell, reference, metrics)).any())

    return list(filter(is_selected, all_cells))


def align_on_common_queries(
    points: Iterable[Any], metrics: Sequence[str], k: int, *, drops_scarce: bool = False, reference: Any = None
) -> AlignedCells:
    """Restrict the cells at k to the queries for which every cell has every metric.

    A cell is one decoder's metrics, query by query, at one k. Comparisons are paired, so every mean must be over the
    same queries. points: cells of a sweep, or objects with their k, label, queries, values and decoder. A decoder given
    twice with equal values counts once; one without a value on any query is left out. drops_scarce: so are those that
    lack one of the queries of `reference`, a cell, or of the one that has most (see `select_answering`). Raises
    ParamError or DataError: no cell at this k, a metric that was not measured, several splits, one decoder with
    different values, different judgements, no common query.
    """
    by_label = _index_by_label(select_cells(points, k), metrics)
    _check_judgements(by_label.values(), metrics)
    # Label → mask of the cell's queries on which it has every metric.
    is_defined: dict[str, np.ndarray] = {}
    compared: list[Any] = []
    left_out: list[Any] = []
    for cell in by_label.values():
        is_defined[cell.label] = find_complete_queries(cell, metrics)
        (compared if is_defined[cell.label].any() else left_out).append(cell)
    metric_names = " and ".join(dict.fromkeys(metrics))
    if not compared:
        raise DataError(f"no point has {metric_names} at k = {k} on any query")
    if drops_scarce:
        if reference is None:
            reference = max(compared, key=lambda cell: is_defined[cell.label].sum())
        answering = select_answering(compared, reference, metrics)
        left_out += filterfalse(answering.__contains__, compared)
        compared = answering
    query_orders = {cell.queries for cell in compared}
    common_queries = sorted(set.intersection(*map(set, query_orders)))
    # Cells of one sweep share a tuple of queries, so its row numbers are computed once.
    rows_of = {}
    for query_order in query_orders:
        row_of = dict(zip(query_order, range(len(query_order)), strict=True))
        rows_of[query_order] = np.array(list(map(row_of.__getitem__, common_queries)), dtype=int)
    has_all_values = np.all([is_defined[cell.label][rows_of[cell.queries]] for cell in compared], axis=0)
    if not has_all_values.any():
        # The error names the cell whose removal helps most.
        scarcest_cell = min(compared, key=lambda cell: (is_defined[cell.label].sum(), cell.label))
        raise DataError(
            f"no query has {metric_names} for every point; {scarcest_cell.label} has it for the fewest, "
            f"{is_defined[scarcest_cell.label].sum():,} of {len(scarcest_cell.queries):,}: leave it out"
        )
    aligned_rows = [rows_of[cell.queries][has_all_values] for cell in compared]
    aligned_values = {}
    for metric in metrics:
        metric_columns = [np.asarray(cell.values[metric], np.float64) for cell in compared]
        columns = [column[rows] for column, rows in zip(metric_columns, aligned_rows, strict=True)]
        aligned_values[metric] = np.stack(columns, axis=1)
    aligned_queries = tuple(compress(common_queries, has_all_values))
    return AlignedCells(tuple(compared), aligned_queries, aligned_values, len(common_queries), tuple(left_out))


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
    """Order queries by what one cell gains over another: largest gain first, ties by id.

    A cell is one decoder's metrics, query by query, at one k. compared_cell, baseline: cells at k; other_cells: cells
    of the same comparison, which restrict the queries to those for which all have the metric. Raises ParamError or
    DataError.
    """
    aligned = align_on_common_queries([compared_cell, baseline, *other_cells], (metric,), k)
    values, other_values = (aligned.column(metric, cell.label).tolist() for cell in (compared_cell, baseline))
    differences = []
    for query_id, value, other_value in zip(aligned.queries, values, other_values, strict=True):
        difference = value - other_value if abs(value - other_value) > TIE_TOLERANCE else 0.0
        differences.append(QueryDifference(query_id, value, other_value, difference))
    return tuple(sorted(differences, key=lambda row: (-row.difference, row.query)))


def needs_scorer_names(points: Iterable[Any]) -> bool:
    """Return True if the cells' names must mention scorers: these differ, or one reranks or decides a part alone.

    A cell is one decoder's metrics, query by query, at one k.
    """
    decoders = [cell.decoder for cell in points if cell.decoder.get("retrieve")]
    scorer_chains = set(map(scorer_chain, decoders))
    # A reranker is the set of its fields, which is empty where a cell has none.
    return len(scorer_chains) > 1 or any(map(itemgetter(1), scorer_chains)) or any(map(_find_scorer_use, decoders))


def scorer_chain(decoder: Mapping[str, Any]) -> tuple[frozenset[Any], frozenset[Any]]:
    """Return a decoder's retrieve and rerank stages as sets of their fields, to compare and hash them."""
    return frozenset((decoder.get("retrieve") or {}).items()), frozenset((decoder.get("rerank") or {}).items())


def format_stage(name: str, texts: Mapping[str, str]) -> str:
    """Format a stage, a selector or scorer, for people: title, numbers, words, as in "MMR · λ 0.8".

    name: of the registered stage, or of another system's run, which stays as it is; texts: parameter → value as text
    """
    declared, spec = declared_parameters(name), find_spec(name)
    number_parts, word_parts = [], []
    for param, value_text in texts.items():
        # A parameter's form is its declaration beside the values of others, such as λ₁ as a penalty or as a number of
        # documents. What another system's run names is not declared, so it has no form.
        form: Param | None = None
        if param in declared:
            _deciding_value, form = form_of(declared[param], texts)
        match form:
            case Flag() as flag:
                word_parts.append(flag.label if value_text == flag.text(True) else f"no {flag.label}")
            case Choice(words=option_words, options=options) if option_words:
                word_parts.append(option_words[options.index(value_text)])
            case Choice() | Text() if value_text[:1].isalpha():
                word_parts.append(value_text)
            case _:
                number_parts.append(f"{form.symbol if form else param} {value_text.removesuffix('.0')}")
    return " · ".join(filter(None, [spec.title if spec else name, " ".join(number_parts), *word_parts]))


def describe_guarantee(stage: Mapping[str, Any]) -> str:
    """Return the phrases for a selector's or scorer's options, such as "fills up to k"; "" for none.

    Only some parameters have a phrase for each of their options: `fill` of NNN, the non-negative elastic net decoder,
    has "may return fewer" for "strict" and "fills up to k" for "fill". stage: the selector or scorer as plain
    values, its registered name and its parameters: {"name": …, "fill": "fill"}
    """
    phrases = []
    for param_name, param in declared_parameters(stage["name"]).items():
        if param_name in stage and _has_option_phrases(param):
            option_index = param.options.index(stage[param_name])
            phrases.append(param.words[option_index])
    return ", ".join(phrases)


def _has_option_phrases(param: Param | None) -> bool:
    """Return True if the parameter is a choice with a phrase for each option, as "fills up to k"."""
    return isinstance(param, Choice) and bool(param.words)


def format_stage_call(name: str, texts: Mapping[str, str]) -> str:
    """Format a stage as code, such as "name(l1=0.1, l2=0.1)"."""
    arguments = ", ".join(f"{param}={value_text}" for param, value_text in texts.items())
    return f"{name}({arguments})" if arguments else name


StageFormat = Callable[[str, Mapping[str, str]], str]
"""Function that formats a stage from its name and its visible values."""


def short_names(cells: Sequence[Any], stage_format: StageFormat = format_stage) -> tuple[str, ...]:
    """Return names that tell the cells apart; scorers are named only if they differ or one reranks.

    A cell is one decoder's metrics, query by query, at one k.
    """
    with_scorers = needs_scorer_names(cells)
    return tuple(format_decoder(cell.decoder, with_scorers, stage_format=stage_format) for cell in cells)


def format_decoder(
    decoder: Decoder | Mapping[str, Any],
    with_scorers: bool = True,
    omitted: tuple[str, str] | None = None,
    stage_format: StageFormat = format_stage,
) -> str:
    """Format a decoder for people, "MMR · λ 0.8", without parameters at their defaults.

    An advanced parameter appears if it is not at its default or is a choice with words. decoder: it, or its stages as
    plain values; with_scorers: name the scorers too; omitted: a (stage, parameter) to leave out; stage_format: another
    style, such as that of code.
    """
    if isinstance(decoder, Decoder):
        decoder = decoder_to_json(decoder)
    stage_texts, uses = [], _find_scorer_use(decoder) if with_scorers else {}
    for stage_role in ("retrieve", "rerank", "select") if with_scorers else ("select",):
        if stage := decoder.get(stage_role):
            declared, texts = declared_parameters(stage["name"]), {}
            for name, value in stage.items():
                param = declared.get(name)
                is_omitted = name == "name" or (stage_role, name) == omitted
                is_relevant = param is None or not param.advanced or value != param.default
                # Only sentences for people have words for a choice; a stage's call leaves out its default.
                is_visible = is_relevant or (stage_format is format_stage and _has_option_phrases(param))
                if is_visible and not is_omitted:
                    texts[name] = param.text(value) if param else str(value)
            stage_texts.append(mark_use(stage_format(stage["name"], texts), uses.get(stage_role)))
    # The pool and the limits are omitted by the stage "", as they belong to none.
    pool_depth = decoder.get("depth") if omitted != ("", "depth") else None
    limits = {} if omitted == ("", "per_source") else read_limits(decoder)
    return " → ".join(stage_texts) + (f" [pool {pool_depth}]" if pool_depth else "") + format_limits(limits)


def format_decoder_call(decoder: Decoder | Mapping[str, Any]) -> str:
    """Format a decoder, or its stages as plain values, as code without advanced parameters at their defaults.

    So the command line names decoders; the name tells them apart as their label does.
    """
    return format_decoder(decoder, stage_format=format_stage_call)


def _find_scorer_use(decoder: Mapping[str, Any]) -> dict[str, str]:
    """Return what scorers alone decide of a decoder, as `describe_scorer_use` does; {} for another system's run."""
    stages = [decoder.get(role) for role in ("select", "retrieve", "rerank")]
    specs = [find_spec(stage["name"]) if stage else None for stage in stages]
    if not stages[1] or any(spec is None for stage, spec in zip(stages, specs, strict=True) if stage):
        return {}
    selector_class = None if specs[0] is None else cast(type[Selector], specs[0].cls)
    # Most selectors read the scores throughout, whatever the scorers are.
    if selector_class is None or (selector_class.by_scores and not selector_class.first_by_scores):
        return {}
    selector, retrieve, rerank = (cast(Any, stage and make(**stage)) for stage in stages)
    return describe_scorer_use(selector, retrieve, rerank, decoder.get("depth"))


def none_last_key(value: Any) -> tuple[bool, Any]:
    """Return a sort key of a number or None, by which numbers ascend and None comes last."""
    return (value is None, 0 if value is None else value)


def varying_parameters(cells: Sequence[Any]) -> list[str]:
    """Return the selector's parameters that have more than one value among the cells, in declared order.

    A cell is one decoder's metrics, query by query, at one k.
    """
    return find_varying([cell.decoder["select"] for cell in cells])


def find_varying(settings: Sequence[Mapping[Any, Any]]) -> list[Any]:
    """Return the keys with more than one value among the mappings, in the order of the first mapping."""
    return [key for key in settings[0] if len({values.get(key) for values in settings}) > 1]


def common_form(param: Param, cells: Iterable[Any]) -> Param:
    """Return the form of a parameter that all cells use, or its plain declaration if they use several.

    A cell is one decoder's metrics, query by query, at one k. A parameter's form is its declaration beside the values
    of others, with a symbol and range of its own: λ₁, for example, is a penalty or a number of documents.
    """
    active_forms = [form_of(param, cell.decoder["select"]) for cell in cells]
    param_forms = {form for _deciding_value, form in active_forms}
    return param_forms.pop() if len(param_forms) == 1 else param


def declared_parameters(name: str) -> Mapping[str, Any]:
    """Return name → declared parameter of a selector or scorer; empty if no such stage is registered."""
    spec = find_spec(name)
    params = spec.params if spec else ()
    return dict(zip(map(attrgetter("name"), params), params, strict=True))
