"""Commands that measure many decoders: sweep, compare, tune."""

import threading
from collections import defaultdict
from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import click

import engine
from engine.cli.finished_sweep import FinishedSweep, OtherSystems, format_strata
from engine.cli.group import Meter, use_threads
from engine.cli.inputs import (
    KEEP_SELF,
    CorpusOptions,
    JudgedOptions,
    check_splits,
    embed_and_warn,
    embed_corpus,
    limit_sources,
    make_stages,
    parse_stage,
    say_own_documents,
    select_judged,
)
from engine.cli.model_judge import ModelJudgements, add_model_judgements, measure_by_model
from engine.cli.output import echo, echo_json, echo_lines, format_columns, nan_to_none, or_dash, pick_fields, write_text
from engine.data.answers import containing_documents, match_answers, read_answers
from engine.decoder import DEPTH, Decoder, explain_ignored_scorer
from engine.errors import Cancelled, DataError, ParamError
from engine.evaluation.decide import decide_for_report, estimate_on_axes
from engine.evaluation.decision import Decision
from engine.evaluation.exact_frontier import compute_exact_frontiers, list_path_decoders
from engine.evaluation.export_decoder import EXPORT_TARGETS, ExportContext, export
from engine.evaluation.frontier import Frontier, frontier
from engine.evaluation.metrics import METRICS, available_metrics, title_of
from engine.evaluation.paired import align_on_common_queries, format_decoder_call, format_stage_call, short_names
from engine.evaluation.splits import split_in_half
from engine.evaluation.statistics import compare as compare_cells
from engine.evaluation.statistics import resolve_baseline, summarize_comparisons
from engine.evaluation.studies.per_query_best import compute_headroom
from engine.evaluation.sweep.compute import DUPLICATE_ENTRY, RANDOM_ILAD_ENTRY, UNMATCHED_ENTRY
from engine.evaluation.sweep.store import Store
from engine.evaluation.sweep.sweep import sweep as run
from engine.evaluation.tables import (
    SIGNIFICANCE_ARROWS,
    ResultsTable,
    build_frame,
    build_results,
    format_latex,
    format_markdown,
    write_table,
)
from engine.evaluation.tuning.history import HISTORY_HEADER, PastStudy, read_history, record_study
from engine.evaluation.tuning.objectives import Objective, explain_ineffective
from engine.evaluation.tuning.tune import make_baseline
from engine.evaluation.tuning.tuned import Tuned
from engine.params import drop_ineffective, params_of
from engine.progress import counted
from engine.space import Space
from engine.stages import make_selector, methods
from engine.values import Dataset, Embeddings
from engine.views.decision import describe_unmatched
from engine.wording import command_line


def sweep(
    judged: JudgedOptions,
    selectors: tuple[str, ...],
    retrieves: tuple[str, ...],
    reranks: tuple[str, ...],
    depth: str | None,
    per_source: tuple[str, int | None] | None,
    without_self: bool | None,
    points: int,
    values: str,
    sizes: list[int],
    metrics: tuple[str, ...],
    execution: dict[str, Any],
    as_json: bool,
) -> None:
    """Measure every setting of some decoders on labelled queries, store the cells, and print their means.

    Parameters
    ----------
    judged : JudgedOptions
        The corpus, its encoder and the judged split.
    selectors, retrieves, reranks : tuple of str
        Stages as NAME[:PARAM=VALUE,…]; every combination is measured.
    depth : str or None
        The pool of the selector.
    per_source : tuple of str and int or None
        The column of the sources, and the most documents of one source; None for any number.
    without_self : bool or None
        The treatment of queries that are documents.
    points : int
        Values of each parameter that is swept.
    values : str
        "all" to print the exact curve where a selector has one; "grid" to store it beside the cells.
    sizes : list of int
        The sizes of the sets.
    metrics : tuple of str
        Names of metrics; empty for those that the data allow.
    execution : dict
        The store, the worker processes and the cluster.
    as_json : bool
        Print a JSON object a cell.
    """
    use_threads()
    column, limit = per_source or (None, None)
    selectors = selectors or _list_default_selectors(limit)
    exact_stages, selectors = _split_exact(selectors, (*retrieves, *reranks, *filter(None, [depth])), values)
    add_limits = partial(limit_sources, per_source=per_source, without_self=without_self)
    exact_decoders = list(map(add_limits, map(Decoder, exact_stages)))
    decoders = _build_decoders(selectors, retrieves, reranks, depth, points) if selectors else []
    decoders = list(map(add_limits, decoders))
    n_cells, store_file = len(decoders) * len(sizes), execution["store"]
    with Meter() as meter:
        columns = () if column is None else (column,)
        dataset, space, queries, qrels = judged.load_judged(meter, columns)
        say_own_documents(space, queries, meter, without_self, KEEP_SELF)
        metric_names = metrics or available_metrics(qrels, dataset.aspects, queries, column)
        answers = corpus_answers(judged.corpus, dataset) if "answer_coverage" in metric_names else None
        # Ctrl-C sets the event, so that the cell in progress ends between two steps and all finished ones stay stored.
        stop = threading.Event()
        sweep_inputs = (space, queries, qrels, sizes, metric_names)
        options: dict[str, Any] = {"split": judged.split, "aspects": dataset.aspects, "progress": meter, "stop": stop}
        options["duplicate_threshold"] = judged.duplicate_threshold
        curve_options = {**options, "store": store_file, "source": column}
        curves = _compute_curves(exact_decoders, sweep_inputs, curve_options)
        options |= {**execution, "answers": answers, "source": column}
        results: Iterator[Any] = run(decoders, *sweep_inputs, **options) if decoders else iter(())
        cells = collect_cells(results, stop, lambda done: f"{done} of {n_cells} cells are in {store_file}")
        if values == "grid":
            # Cells come first, so that a stop loses none of them.
            path_decoders = _list_swept_paths(selectors, decoders, space)
            curve_names = [name for name in metric_names if METRICS[name].needs != "answers"]
            curve_inputs = (space, queries, qrels, sizes, curve_names)
            _compute_curves(path_decoders if curve_names else (), curve_inputs, curve_options)
    echo_curves(curves, as_json)
    if cells and not as_json:
        _echo_means(cells, decoders, metric_names)
    # A run with exact curves alone has no cells to report.
    if cells or not curves:
        echo_cells(cells, len(queries), store_file, as_json)


def _list_default_selectors(limit: int | None) -> tuple[str, ...]:
    """Return the selectors of a sweep that names none: all, or with a limit per source those that pick in turn."""
    specs = methods("selector")
    names = tuple(name for name, spec in specs.items() if limit is None or spec.cls.sequential)
    if left_out := [name for name in specs if name not in names]:
        echo(f"left out, as they choose their documents together: {', '.join(left_out)}", err=True)
    return names


def corpus_answers(corpus: str, dataset: Dataset) -> dict[str, dict[str, frozenset[str]]]:
    """Read queries' answers from a corpus's folder; return query → answer → documents with it.

    A document contains an answer if the answer's words stand in it one after the other. corpus: path of the folder.
    Raises DataError if it has no answers, or none of its queries is one of the data set's.
    """
    return containing_documents(dataset.corpus, match_answers(read_answers(corpus), dataset.queries))


def _split_exact(selectors: Sequence[str], stages: Sequence[str], mode: str) -> tuple[list[Any], tuple[str, ...]]:
    """Separate selectors computed exactly for all values of a parameter from those measured on a grid.

    The answers as functions of the parameter are the selector's path. Returns the selectors that have one, built, and
    the texts of all others. mode: value of --values; with "grid" no path is computed; stages: texts of --retrieve,
    --rerank and --depth, which must be empty for a path. Raises UsageError.
    """
    selector_texts = tuple(selectors or methods("selector"))
    if mode == "grid":
        return [], selector_texts
    # An exact path covers the whole corpus by inner products, so no other scorer may come before it.
    if stages:
        raise click.UsageError(f"--values all chooses from the whole corpus by the dense scorer; leave out {stages[0]}")
    # A parameter that the text fixes has no path: that selector is measured on the grid.
    exact_stages, grid_texts = [], []
    for selector_text in selector_texts:
        method_name, fixed_params = parse_stage(selector_text, "select")
        stage = make_selector(method_name, **fixed_params)
        if stage.path_range is not None and stage.path_parameter not in fixed_params:
            exact_stages.append(stage)
        else:
            grid_texts.append(selector_text)
    return exact_stages, tuple(grid_texts)


def _list_swept_paths(selector_texts: Sequence[str], decoders: Sequence[Decoder], space: Space) -> list[Decoder]:
    """List decoders of a sweep whose answers can be computed exactly for all values of a parameter, one for all these.

    A selector is left out if all its texts fix that parameter: it was requested at these values only. selector_texts:
    texts of the flags
    """
    fixed_parameters = defaultdict[str, list[Collection[str]]](list)
    for selector_text in selector_texts:
        method_name, params = parse_stage(selector_text, "select")
        fixed_parameters[method_name].append(params)
    path_decoders = []
    for decoder in list_path_decoders(decoders, space):
        fixed_names = fixed_parameters[decoder.select.spec.name]
        if not all(decoder.select.path_parameter in names for names in fixed_names):
            path_decoders.append(decoder)
    return path_decoders


def _compute_curves(exact_decoders: Sequence[Decoder], inputs: tuple[Any, ...], options: dict[str, Any]) -> list[Any]:
    """Compute exact curves of each decoder's metrics over all values of its selector's parameter.

    inputs, options: arguments of `compute_exact_frontiers`. Raises Cancelled on Ctrl-C.
    """
    try:
        return [curve for each in exact_decoders for curve in compute_exact_frontiers(each, *inputs, **options)]
    except KeyboardInterrupt:
        options["stop"].set()
        raise Cancelled(f"finished curves are in {options['store']}; the same command goes on from there") from None


def echo_curves(curves: Sequence[Any], as_json: bool) -> None:
    """Print exact curves: all of each as JSON, or a table of the interval with the best mean."""
    if as_json:
        # NaN marks intervals without a value; JSON has null for it.
        for c in curves:
            means = {metric: [v if v == v else None for v in column.tolist()] for metric, column in c.means.items()}
            curve_fields = pick_fields(c, "label", "method", "parameter", "interval", "k", "split", "key")
            echo_json({**curve_fields, "breakpoints": c.breakpoints.tolist(), "means": means})
        return
    rows = [["every value", "of", "k", "pieces", "metric", "best", "from", "to"]]
    for c in curves:
        for name in c.means:
            low, high = c.find_best_interval(name)
            # A metric without values has NaN, which differs from itself, as its interval.
            best = c.at((low + high) / 2)[name] if low == low else low
            curve_name = format_decoder_call({"select": c.selector})
            figures = f"{best:.4f}", f"{low:.4f}", f"{high:.4f}"
            rows.append([curve_name, c.symbol, str(c.k), f"{len(c):,}", name, *figures])
    if curves:
        echo(format_columns(rows) + "\n")


def _build_decoders(
    selectors: Sequence[str], retrieves: Sequence[str], reranks: Sequence[str], depth: str | None, n_points: int
) -> list[Decoder]:
    """Build every decoder of a sweep: each setting of the selectors with each chain of scorers.

    No decoder occurs twice. A chain is a first scorer and, if any is named, a reranker. selectors, retrieves, reranks:
    texts of the flags; n_points: number of values of each parameter that is swept.
    """
    parsed_selectors = list(map(parse_stage, selectors or methods("selector")))
    pool = DEPTH.default if depth is None else DEPTH.parse(depth)
    stages = make_stages(retrieves or ("dense",), "retrieve"), make_stages(reranks, "rerank") or [None]
    # A setting has one value for each parameter of the selector that is swept.
    settings = [decoder for name, params in parsed_selectors for decoder in engine.grid(name, n_points, **params)]
    decoders, reasons = [], []
    for first, last, decoder in product(*stages, settings):
        reason = explain_ignored_scorer(decoder.select, first, last, pool)
        if reason is not None:
            reasons.append(reason)
            continue
        decoders.append(replace(decoder, retrieve=first, rerank=last, depth=pool))
    if reasons and not decoders:
        raise ParamError(reasons[0])
    for reason in dict.fromkeys(reasons):
        echo(f"left out: {reason}", err=True)
    # Settings of different options can coincide: the first one stays, in order.
    return list(dict.fromkeys(decoders))


def collect_cells(results: Iterator[Any], stop: threading.Event, describe_stored: Callable[[int], str]) -> list[Any]:
    """Collect all cells of a sweep, each the metrics of one setting; Ctrl-C raises Cancelled.

    describe_stored: takes the number of finished cells and says where they are stored
    """
    finished_cells: list[Any] = []
    try:
        for cell in results:
            finished_cells.append(cell)
    except (KeyboardInterrupt, Cancelled):
        stop.set()
        # Closing the generator ends its worker processes before the command returns.
        if isinstance(results, Generator):
            results.close()
        raise Cancelled(f"{describe_stored(len(finished_cells))}; the same command goes on from there") from None
    return finished_cells


def echo_cells(cells: Sequence[Any], n_queries: int, store_file: str, as_json: bool) -> None:
    """Print each cell, one setting's mean metrics, as JSON; or only the number of cells."""
    n_unmatched = max((int(cell.provenance.get(UNMATCHED_ENTRY, 0)) for cell in cells), default=0)
    if (unmatched_notice := describe_unmatched(n_unmatched)) is not None:
        echo(f"by words: {unmatched_notice}", err=True)
    if not as_json:
        echo(f"\n{counted(len(cells), 'cell')} of {counted(n_queries, 'query', 'queries')} in {store_file}")
        return
    for cell in cells:
        mean_values, provenance = nan_to_none(cell.mean), dict(cell.provenance)
        fields = {"decoder": cell.decoder, "mean": mean_values, "provenance": provenance, "queries": len(cell.queries)}
        fields["milliseconds"] = cell.latency
        head = pick_fields(cell, "label", "method", "k", "split", "left_out", "returned", "key", "digest")
        echo_json(head | fields)


def _echo_means(cells: list[Any], decoders: Sequence[Decoder], metric_names: Sequence[str]) -> None:
    """Print a table of mean metrics with a row for each cell, the result of one decoder at one k.

    Only queries on which every setting has the metric count, so that all rows compare like with like.
    """
    mean_columns, remarks = _compute_means(cells, metric_names)
    table_rows = [("decoder", "k", *metric_names, "returned", "ms/query")]
    decoder_order = {decoder.label: decoder_index for decoder_index, decoder in enumerate(decoders)}
    for cell in sorted(cells, key=lambda c: (c.k, decoder_order.get(c.label, 0))):
        mean_texts = (or_dash(mean_columns[cell.k, metric_name].get(cell.label)) for metric_name in metric_names)
        figures = f"{cell.returned:.2f}", or_dash(cell.latency, 3)
        table_rows.append((format_decoder_call(cell.decoder), str(cell.k), *mean_texts, *figures))
    echo(format_columns(table_rows))
    remarks += _describe_scale(cells)
    echo_lines(["", *remarks] if remarks else [])


def _describe_scale(cells: Sequence[Any]) -> list[str]:
    """Return sentences on the scale of ILAD and Redundancy: that of random pairs, and the near-duplicates' cosine."""
    facts: dict[str, str] = {}
    for cell in cells:
        facts |= cell.provenance
    sentences = []
    if RANDOM_ILAD_ENTRY in facts:
        sentences.append(f"ILAD of random pairs of documents: {facts[RANDOM_ILAD_ENTRY]}")
    if DUPLICATE_ENTRY in facts:
        sentences.append(f"Redundancy: near-duplicates have a cosine ≥ {float(facts[DUPLICATE_ENTRY]):g}")
    return sentences


def _compute_means(cells: list[Any], names: Sequence[str]) -> tuple[dict[tuple[int, str], dict[str, float]], list[str]]:
    """Compute the mean of each metric over the queries on which every setting has it.

    Returns (k, metric) → label → mean, and remarks on metrics that some settings or queries lack.
    """
    mean_columns: dict[tuple[int, str], dict[str, float]] = {}
    remarks = []
    for k, name in product(sorted({cell.k for cell in cells}), names):
        title = f"{title_of(name)}@{k}"
        try:
            common = align_on_common_queries(cells, (name,), k)
        except DataError as error:
            mean_columns[k, name] = {}
            remarks.append(f"{title}: {error}")
            continue
        # The values are one row a cell and one column a common query.
        labels, cell_means = [cell.label for cell in common.cells], common.values[name].mean(0).tolist()
        mean_columns[k, name] = dict(zip(labels, cell_means, strict=True))
        if (n_queries := len(common.queries)) < common.n_common:
            remarks.append(f"{title}: over {n_queries:,} of {common.n_common:,} queries: every setting has it there")
    return mean_columns, remarks


def compare(
    swept: FinishedSweep,
    other_systems: OtherSystems,
    model_judged: str | None,
    metrics: tuple[str, ...],
    wins: bool,
    oracle: bool,
    files: tuple[str, ...],
    as_json: bool,
) -> None:
    """Compare a finished sweep's settings: decision, frontier, table with tests, and what flags add.

    Parameters
    ----------
    swept : FinishedSweep
        The store and the choice of its cells.
    other_systems : OtherSystems
        Runs that are compared too.
    model_judged : str or None
        The file of a model's judgements, which those of the store correct.
    metrics : tuple of str
        Columns of the table.
    wins, oracle : bool
        Print wins and losses; print each query's best setting.
    files : tuple of str
        Files to write the table into.
    as_json : bool
        Print one JSON object.
    """
    # File endings are checked before the store is read.
    for file_name in files:
        if Path(file_name).suffix.lower() not in (".md", ".tex", ".csv", ".parquet"):
            raise click.UsageError(f"--out takes .md, .tex, .csv or .parquet; got {file_name!r}")
    cells, k = swept.load_cells()
    exact_curves = swept.load_curves(cells, k)
    cells += other_systems.cells(swept, cells, k)
    x_name, y_name = swept.across, swept.up
    curve = frontier(cells, x_name, y_name, k)
    table = build_results(cells, metrics or tuple(cells[0].values), swept.baseline, k)
    judged = None if model_judged is None else measure_by_model(swept, other_systems, cells, k, model_judged)
    model_cells = None if judged is None else judged.cells
    rows = compare_cells(cells, y_name, table.rows[0][0], k, model_judged=model_cells)
    study = swept.find_study(cells, k)
    # The model judges measured settings alone: exact curves would have to be computed anew for its queries.
    decided_curves = exact_curves if judged is None else ()
    estimates = None if study else estimate_on_axes(curve, decided_curves, table.cells[0], model_cells)
    decision = decide_for_report(estimates)
    decision = decision and decision.with_agreement(None if judged is None else judged.agreement)
    # The headroom is what a perfect choice of setting for each query would gain.
    comparisons, headroom = summarize_comparisons(rows), compute_headroom(cells, y_name, k) if oracle else ()
    strata = swept.stratify(cells, k, other_systems)
    _write_tables(files, table, cells)
    # JSON holds every optional part only if its flag was given.
    if as_json:
        groups: dict[str, Any] = {"by": strata.as_json()} if strata else {}
        groups |= _verdict_to_json(study, decision)
        groups |= {"wins": [{**asdict(data), "wins": data.wins._asdict()} for data in rows]} if wins else {}
        groups |= {"oracle": list(map(asdict, headroom))} if oracle else {}
        groups |= {"next_queries": judged.next_queries} if judged else {}
        front = _frontier_to_json(curve, cells, table.rows[0][0], comparisons)
        return echo_json({**front, "table": table.as_json(), **groups})
    _echo_verdict(study or decision, judged)
    echo(f"Not dominated in {x_name}@{k} and {y_name}@{k}, over {counted(curve.queries, 'query', 'queries')}:")
    echo_lines(f"  {p.x:.4f}  {p.y:.4f}  {p.name}" for p in curve.front)
    echo_lines(filter(None, [curve.remark]))
    echo(f"Hypervolume {curve.hypervolume:.5f} above ({curve.reference[0]:.4f}, {curve.reference[1]:.4f})\n")
    text_rows: list[Sequence[str]] = [table.head]
    for row, marks in zip(table.rows, table.marks, strict=True):
        text_rows.append([cell + SIGNIFICANCE_ARROWS[mark].ljust(2) for cell, mark in zip(row, marks, strict=True)])
    echo_lines([f"{format_columns(text_rows)}\n\n{table.caption}\n\n{comparisons}", *_describe_scale(cells)])
    if strata:
        echo(f"\n{METRICS[y_name].title}@{k} by {strata.title}, each method's best setting:\n{format_strata(strata)}")
    if wins:
        echo(f"\n{METRICS[y_name].title}@{k} against {table.rows[0][0]}, query by query:\n{_format_wins(rows)}")
    if oracle:
        echo(f"\n{METRICS[y_name].title}@{k} of each method's settings:\n{_format_headroom(headroom)}")
    echo_lines(map("written: {}".format, files))


def _echo_verdict(verdict: PastStudy | Decision | None, judged: ModelJudgements | None) -> None:
    """Print a study's verdict or a decision, and which queries a person should judge next beside a model."""
    paragraphs = ["\n".join(verdict.sentences) if verdict else "", judged.sentence if judged else ""]
    echo_lines(f"{paragraph}\n" for paragraph in paragraphs if paragraph)


def _frontier_to_json(curve: Frontier, cells: Sequence[Any], baseline: str, summary: str) -> dict[str, Any]:
    """Return a frontier as JSON values: its settings, the area below, and the baseline.

    baseline: the name of its cell; summary: of the comparisons with it
    """
    at_k = [cell for cell in cells if cell.k == curve.k]
    written = dict(zip((cell.label for cell in at_k), short_names(at_k, format_stage_call), strict=True))
    front = []
    for p in curve.front:
        front.append({"decoder": p.point.decoder, "name": written[p.point.label], curve.x: p.x, curve.y: p.y})
    baseline_label = resolve_baseline(at_k, baseline, curve.k).label
    head = {"k": curve.k, "queries": curve.queries, "baseline": written[baseline_label], "summary": summary}
    area = {"hypervolume": curve.hypervolume, "reference": curve.reference}
    return {**head, **area, "front": front, "untimed": curve.untimed}


def _write_tables(files: Sequence[str], table: ResultsTable, cells: Sequence[Any]) -> None:
    """Write the table of results to .md and .tex files, and a row for each cell to .csv and .parquet."""
    for file_name in files:
        match Path(file_name).suffix.lower():
            case ".md":
                write_text(file_name, format_markdown(table))
            case ".tex":
                write_text(file_name, format_latex(table))
            case _:
                write_table(build_frame(cells), file_name)


def _verdict_to_json(study: PastStudy | None, decision: Decision | None) -> dict[str, Any]:
    """Return a study's verdict or a decision as JSON values, without the list of all settings, which the table has."""
    # A study has decided already, on the queries that it chose on.
    if study is not None:
        return {"study": asdict(study)}
    if decision is None:
        return {}
    decision_values = decision.as_json()
    del decision_values["options"]
    return {"decision": decision_values}


def _format_headroom(headroom_rows: Sequence[Any]) -> str:
    """Format as a table what a perfect choice of setting for each query would gain over one for all."""
    table_rows = [("", "settings", "best for all", "its mean", "best for each", "at most gained")]
    for row in headroom_rows:
        gained = f"{row.difference:.4f}" + ("" if row.low is None else f" [{row.low:.4f}, {row.high:.4f}]")
        table_rows.append((row.method, f"{row.settings}", row.best, f"{row.mean:.4f}", f"{row.oracle:.4f}", gained))
    return format_columns(table_rows)


def _format_wins(differences: Sequence[Any]) -> str:
    """Format as a table on how many queries each setting beats, equals and trails the baseline."""
    head = (
        "",
        "wins",
        "ties",
        "loses",
        "mean",
        "baseline",
        "most above",
        "most below",
        "95% CI (Holm)",
        "p",
        "p (Holm)",
    )
    table_rows = [head]
    for row in differences:
        shares = [f"{win_count / row.queries:.1%}" for win_count in row.wins]
        # The largest differences up and down; a setting that is never better, or never worse, has 0 there.
        values = (row.mean, row.baseline_mean, max(0.0, row.most), max(0.0, -row.least))
        interval = "" if row.low is None else f"{row.low:+.4f} to {row.high:+.4f}"
        p_values = f"{row.p:.4f}", f"{row.p_holm:.4f}"
        table_rows.append((row.name, *shares, *map("{:.4f}".format, values), interval, *p_values))
    return format_columns(table_rows)


def tune(
    source: CorpusOptions,
    selector: str | None,
    retrieve: str | None,
    objective: str | None,
    metric: str | None,
    share: float | None,
    dev: str,
    test: str,
    halve: bool,
    model_judged: str | None,
    k: int,
    execution: dict[str, Any],
    target: str | None,
    past: bool,
    as_json: bool,
    per_source: tuple[str, int | None] | None,
    without_self: bool | None,
    **search: Any,
) -> None:
    """Tune a stage on the dev split, confirm it on the test split, and print and store the study.

    Parameters
    ----------
    source : CorpusOptions
        The corpus and its encoder.
    selector, retrieve : str or None
        The stage to tune.
    objective, metric, share : str, str, float or None
        The aim, its metric, and the share of Recall to keep.
    dev, test : str
        The split that chooses and the one that confirms.
    halve : bool
        Make both of one split.
    model_judged : str or None
        The file of a model's judgements, which those of the dev split correct.
    k : int
        The size of the sets.
    execution : dict
        The store, the worker processes and the cluster.
    target : str or None
        A format to export the setting in.
    past : bool
        List earlier studies only.
    as_json : bool
        Print one JSON object.
    per_source : tuple of str and int or None
        The column of the sources, and the most documents of one source; None for any number.
    without_self : bool or None
        The treatment of queries that are documents.
    **search : Any
        How settings are searched.
    """
    store_file = execution["store"]
    # Listing earlier studies neither reads a corpus nor tunes.
    if past:
        return _echo_history(store_file, as_json)
    use_threads()
    reference = limit_sources(make_baseline(), per_source, without_self)
    source_column = None if per_source is None else per_source[0]
    tune_function, tune_arguments = _resolve_tuning(selector, retrieve, search, reference)
    objective = objective or ("diverse" if metric is None and selector is not None else "maximise")
    tuning_objective = _parse_objective(objective, metric, share, target)
    with Meter() as meter:
        splits = [dev] if halve or test == "none" else [dev, test]
        check = partial(_check_tuning_splits, splits=splits)
        dataset = source.load(meter, tuple(filter(None, [source_column])), check)
        qrels = dataset.qrels
        if halve:
            qrels, splits = split_in_half(dataset.qrels[dev], search["seed"]), ["dev", "test"]
        queries = select_judged(dataset.queries, qrels, splits)
        queries, judge_arguments = add_model_judgements(dataset, queries, source, model_judged, dev, meter)
        tune_arguments |= judge_arguments
        space = embed_corpus(dataset, source, progress=meter)
        say_own_documents(space, queries, meter, without_self, KEEP_SELF)
        vectors = embed_and_warn(space, queries, progress=meter)
        split_roles = dict(zip(("dev", "test"), [*splits, None], strict=False))
        tuning_result = _tune_until_stopped(
            tune_function, store_file, space=space, queries=vectors, qrels=qrels, objective=tuning_objective, k=k,
            aspects=dataset.aspects, source=source_column, progress=meter, **split_roles, **execution, **tune_arguments,
        )  # fmt: skip
    request = {
        "select": selector, "retrieve": retrieve, "corpus": source.corpus, "k": k, "halve": halve,
        "limits": reference.limits, "objective": tuning_objective.text, "model_judged": model_judged,
    }  # fmt: skip
    # The study is stored only once it is complete, with its name in the list; its cells are stored as they finish.
    subject = "every decoder" if selector == "all" else selector or retrieve or ""
    record_study(Store(store_file), tuning_result, subject, {**request, **split_roles, **search})
    _echo_tuned(tuning_result, store_file, as_json)
    if target and not as_json:
        _echo_export(tuning_result.decoder, target, source, space, vectors, tuning_result.k)


def _tune_until_stopped(tune_function: Callable[..., Tuned], store_file: str, **arguments: Any) -> Tuned:
    """Tune; after Ctrl-C say in the error how to go on."""
    stop_event = threading.Event()
    try:
        return tune_function(stop=stop_event, **arguments)
    except KeyboardInterrupt:
        stop_event.set()
        raise Cancelled(f"what is finished is in {store_file}; the same command goes on from there") from None


def _check_tuning_splits(dataset: Dataset, splits: Sequence[str]) -> None:
    """Raise a UsageError if a split of a tuning is missing."""
    check_splits(dataset.qrels, splits, " (--halve makes two of one)")


def _echo_tuned(tuned: Tuned, store_file: str, as_json: bool) -> None:
    """Print what was chosen, a table if decoders were compared, and the command of the report; or all as JSON."""
    if as_json:
        return echo_json(tuned.as_json())
    echo_lines(tuned.sentences)
    if tuned.several:
        echo("\n" + format_columns(tuned.table))
    if tuned.test is not None:
        command_words = ["frontier", "report", store_file, "--split", tuned.test, "-k", str(tuned.k)]
        echo(f"With charts: {command_line(command_words)}", err=True)


def _echo_export(
    decoder: Decoder, target_name: str, source: CorpusOptions, space: Space, query_vectors: Embeddings, k: int
) -> None:
    """Print a decoder as configuration or code for another system, the export target.

    If that system fetches the candidates itself, the text says how many: as many as answers to `query_vectors` need.
    """
    context = ExportContext(
        k=k, corpus=source.corpus, reading=source.reading, encoder=source.encoder, dtype=source.dtype,
        documents=len(space), trained=source.trained, relevant_from=source.relevant_from,
        drop_duplicates=source.drop_duplicates, duplicate_threshold=source.duplicate_threshold,
        pool=engine.pool_depth(decoder, space, query_vectors, k) if EXPORT_TARGETS[target_name].fetches else None,
    )  # fmt: skip
    echo("\n" + export(decoder, target_name, context).text)


def _echo_history(store_file: str, as_json: bool) -> None:
    """Print the earlier runs of `frontier tune` (studies) in a store, one JSON object each or as a table."""
    if not Path(store_file).is_file():
        raise DataError(f"--store names the file of earlier studies; there is no {store_file!r}")
    studies = read_history(Store(store_file))
    if as_json:
        return echo_json(*map(asdict, studies))
    echo(format_columns([HISTORY_HEADER, *(study.row for study in studies)]))


def _resolve_tuning(
    selector: str | None, retrieve: str | None, search_options: Mapping[str, Any], reference: Decoder
) -> tuple[Callable[..., Any], dict[str, Any]]:
    """Choose the tuning function for the flags; return it and its arguments. Raises UsageError.

    One stage is tuned, or with --select all the best of all decoders is chosen. reference: the baseline, with the
    limits of all decoders
    """
    if selector == "all":
        scorers = [name for name, method_spec in engine.methods("scorer").items() if not method_spec.cls.rerank_only]
        names = scorers if retrieve == "all" else retrieve.split(",") if retrieve else None
        arguments = {name: search_options[name] for name in ("points", "seed")} | reference.limits
        # The column is given whether there is a limit or not, for the metric unique_sources.
        arguments.pop("source", None)
        return engine.choose, arguments | {"scorers": names, "selectors": _list_default_selectors(reference.per_source)}
    # Exactly one stage is tuned at a time.
    if (selector is None) == (retrieve is None):
        raise click.UsageError("name what is tuned, one of --select (a selector, or all) and --retrieve (a scorer)")
    name, params = parse_stage(selector, "select") if selector is not None else parse_stage(retrieve or "", "retrieve")
    return engine.tune, {"name": name, "fixed": params, "like": reference, **search_options}


def _parse_objective(objective: str, metric: str | None, share: float | None, target_name: str | None) -> Objective:
    """Build the aim of tuning from the flags; errors name the flag, also for an unknown --export."""
    if target_name is not None and target_name not in EXPORT_TARGETS:
        raise click.UsageError(f"--export must be one of {', '.join(EXPORT_TARGETS)}; got {target_name!r}")
    flag_values = {"aim": objective, "metric": metric, "share": share}
    given_values: dict[str, Any] = {name: value for name, value in flag_values.items() if value is not None}
    # The parameters are checked under the names of their flags, so that an error says what was typed.
    params = params_of(Objective)
    for param in params:
        flag_name = "--objective" if param.name == "aim" else param.flag
        replace(param, name=flag_name, symbol=flag_name).check(given_values.get(param.name, param.default))
    # Even a default value that is typed would be dropped without a word.
    effective_values = drop_ineffective(params, given_values)
    for param in params:
        if param.name in given_values and param.name not in effective_values:
            value = given_values[param.name]
            raise click.UsageError(explain_ineffective(param, param.flag, "--objective", objective, value))
    return Objective(**given_values)
