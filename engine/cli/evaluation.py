"""Commands that measure many decoders: sweep, compare, tune."""

import threading
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from itertools import product
from pathlib import Path
from typing import Any

import click

import engine
from engine.cli.finished_sweep import FinishedSweep, OtherSystems, format_strata
from engine.cli.group import Meter, use_threads
from engine.cli.inputs import (
    CorpusOptions,
    JudgedOptions,
    check_splits,
    embed_and_warn,
    embed_corpus,
    make_stages,
    parse_stage,
    select_judged,
)
from engine.cli.output import echo, echo_json, echo_lines, format_columns, nan_to_none, or_dash, pick_fields, write_text
from engine.data.answers import containing_documents, read_answers
from engine.decoder import DEPTH, Decoder
from engine.errors import Cancelled, DataError
from engine.evaluation.exact_frontier import compute_exact_frontiers
from engine.evaluation.export_decoder import EXPORT_TARGETS, ExportContext, export
from engine.evaluation.frontier import frontier
from engine.evaluation.metrics import METRICS, available_metrics, title_of
from engine.evaluation.paired import align_on_common_queries, format_stage_call, short_names
from engine.evaluation.splits import split_in_half
from engine.evaluation.statistics import compare as compare_cells
from engine.evaluation.statistics import resolve_baseline, summarize_comparisons
from engine.evaluation.studies.per_query_best import compute_headroom
from engine.evaluation.sweep.store import Store
from engine.evaluation.sweep.sweep import sweep as run
from engine.evaluation.tables import (
    SIGNIFICANCE_ARROWS,
    build_frame,
    build_results,
    format_latex,
    format_markdown,
    write_table,
)
from engine.evaluation.tuning.history import HISTORY_HEADER, read_history, record_study
from engine.evaluation.tuning.objectives import Objective
from engine.params import params_of
from engine.space import Space
from engine.stages import make_selector, methods
from engine.values import Dataset, Embeddings
from engine.wording import command_line


def sweep(
    judged: JudgedOptions,
    selectors: tuple[str, ...],
    retrieves: tuple[str, ...],
    reranks: tuple[str, ...],
    depth: str | None,
    points: int,
    values: str,
    sizes: list[int],
    metrics: tuple[str, ...],
    execution: dict[str, Any],
    as_json: bool,
) -> None:
    """Measure every setting of some decoders on judged queries, store the cells, and print their means.

    Parameters
    ----------
    judged : JudgedOptions
        The corpus, its encoder and the judged split.
    selectors, retrieves, reranks : tuple of str
        Stages as NAME[:PARAM=VALUE,…]; every combination is measured.
    depth : str or None
        The pool of the selector.
    points : int
        Values of each parameter that is swept.
    values : str
        "all" for the exact curve where a selector has one.
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
    exact_stages, selectors = _split_exact(selectors, (*retrieves, *reranks, *filter(None, [depth])), values)
    decoders = _build_decoders(selectors, retrieves, reranks, depth, points) if selectors else []
    n_cells, store_file = len(decoders) * len(sizes), execution["store"]
    with Meter() as meter:
        dataset, space, queries, qrels = judged.load_judged(meter)
        metric_names = metrics or available_metrics(qrels, dataset.aspects, queries)
        answers = corpus_answers(judged.corpus, dataset) if "answer_coverage" in metric_names else None
        # Ctrl-C sets the event, so that the cell in progress ends between two steps and all finished ones stay stored.
        stop = threading.Event()
        sweep_inputs = (space, queries, qrels, sizes, metric_names)
        options: dict[str, Any] = {"split": judged.split, "aspects": dataset.aspects, "progress": meter, "stop": stop}
        curves = _compute_curves(exact_stages, sweep_inputs, {**options, "store": store_file})
        options |= {**execution, "answers": answers}
        results: Iterator[Any] = run(decoders, *sweep_inputs, **options) if decoders else iter(())
        cells = collect_cells(results, stop, lambda done: f"{done} of {n_cells} cells are in {store_file}")
    echo_curves(curves, as_json)
    if cells and not as_json:
        _echo_means(cells, decoders, metric_names)
    # A run with exact curves alone has no cells to report.
    if cells or not curves:
        echo_cells(cells, len(queries), store_file, as_json)


def corpus_answers(corpus: str, dataset: Dataset) -> dict[str, dict[str, frozenset[str]]]:
    """Read queries' answers from a corpus's folder; return query → answer → documents with it.

    A document contains an answer if the answer's words stand in it one after the other. corpus: path of the folder.
    Raises DataError if it has no answers.
    """
    return containing_documents(dataset.corpus, read_answers(corpus))


def _split_exact(selectors: Sequence[str], stages: Sequence[str], mode: str) -> tuple[list[Any], tuple[str, ...]]:
    """Separate selectors computed exactly for all values of a parameter from those measured on a grid.

    Such a selector's path is its answers as functions of the parameter. mode: value of --values; with "grid" no path is
    computed. stages: other flags, which a path cannot have. Returns the selectors with a path, built, and the texts of
    all others. Raises UsageError.
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


def _compute_curves(exact_stages: Sequence[Any], inputs: tuple[Any, ...], options: dict[str, Any]) -> list[Any]:
    """Compute exact curves of each selector's metrics over all values of its parameter.

    inputs, options: arguments of `compute_exact_frontiers`. Raises Cancelled on Ctrl-C.
    """
    try:
        return [curve for stage in exact_stages for curve in compute_exact_frontiers(stage, *inputs, **options)]
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
            rows.append([c.label, c.symbol, str(c.k), f"{len(c):,}", name, f"{best:.4f}", f"{low:.4f}", f"{high:.4f}"])
    if curves:
        echo(format_columns(rows) + "\n")


def _build_decoders(
    selectors: Sequence[str], retrieves: Sequence[str], reranks: Sequence[str], depth: str | None, n_points: int
) -> list[Decoder]:
    """Build every decoder of a sweep: each setting of the selectors with each chain of scorers.

    None occurs twice. A chain is a first scorer and, if any is named, a reranker. selectors, retrieves, reranks: texts
    of the flags; n_points: number of values of each parameter that is swept.
    """
    parsed_selectors = list(map(parse_stage, selectors or methods("selector")))
    pool = DEPTH.default if depth is None else DEPTH.parse(depth)
    stages = make_stages(retrieves or ("dense",), "retrieve"), make_stages(reranks, "rerank") or [None]
    # A setting has one value for each parameter of the selector that is swept.
    settings = [decoder for name, params in parsed_selectors for decoder in engine.grid(name, n_points, **params)]
    combinations = product(*stages, settings)
    decoders = [replace(decoder, retrieve=first, rerank=last, depth=pool) for first, last, decoder in combinations]
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
    if not as_json:
        echo(f"\n{len(cells)} cells of {n_queries:,} queries in {store_file}")
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
        table_rows.append((cell.label, str(cell.k), *mean_texts, f"{cell.returned:.2f}", or_dash(cell.latency, 3)))
    echo(format_columns(table_rows))
    echo_lines(["", *remarks] if remarks else [])


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
    metrics: tuple[str, ...],
    wins: bool,
    oracle: bool,
    files: tuple[str, ...],
    as_json: bool,
) -> None:
    """Compare the settings of a finished sweep: frontier, table with tests, and the parts that flags name.

    Parameters
    ----------
    swept : FinishedSweep
        The store and the choice of its cells.
    other_systems : OtherSystems
        Runs that are compared too.
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
    cells += other_systems.cells(swept, cells, k)
    x_name, y_name = swept.across, swept.up
    curve = frontier(cells, x_name, y_name, k)
    table = build_results(cells, metrics or tuple(cells[0].values), swept.baseline, k)
    rows = compare_cells(cells, y_name, table.rows[0][0], k)
    # The headroom is what a perfect choice of setting for each query would gain.
    comparisons, headroom = summarize_comparisons(rows), compute_headroom(cells, y_name, k) if oracle else ()
    strata = swept.stratify(cells, k)
    for file_name in files:
        match Path(file_name).suffix.lower():
            case ".md":
                write_text(file_name, format_markdown(table))
            case ".tex":
                write_text(file_name, format_latex(table))
            case _:
                write_table(build_frame(cells), file_name)
    # JSON holds every optional part only if its flag was given.
    if as_json:
        at_k = [c for c in cells if c.k == k]
        written = dict(zip((c.label for c in at_k), short_names(at_k, format_stage_call), strict=True))
        front = []
        for p in curve.front:
            front.append({"decoder": p.point.decoder, "name": written[p.point.label], x_name: p.x, y_name: p.y})
        baseline_label = resolve_baseline(at_k, table.rows[0][0], k).label
        head = {"k": k, "queries": curve.queries, "baseline": written[baseline_label], "summary": comparisons}
        area = {"hypervolume": curve.hypervolume, "reference": curve.reference}
        groups: dict[str, Any] = {"by": strata.as_json()} if strata else {}
        groups |= {"wins": [{**asdict(data), "wins": data.wins._asdict()} for data in rows]} if wins else {}
        groups |= {"oracle": list(map(asdict, headroom))} if oracle else {}
        return echo_json({**head, **area, "front": front, "untimed": curve.untimed, "table": table.as_json(), **groups})
    echo(f"Not dominated in {x_name}@{k} and {y_name}@{k}, over {curve.queries:,} queries:")
    echo_lines(f"  {p.x:.4f}  {p.y:.4f}  {p.name}" for p in curve.front)
    echo_lines(filter(None, [curve.remark]))
    echo(f"Hypervolume {curve.hypervolume:.5f} above ({curve.reference[0]:.4f}, {curve.reference[1]:.4f})\n")
    text_rows: list[Sequence[str]] = [table.head]
    for row, marks in zip(table.rows, table.marks, strict=True):
        text_rows.append([cell + SIGNIFICANCE_ARROWS[mark].ljust(2) for cell, mark in zip(row, marks, strict=True)])
    echo(f"{format_columns(text_rows)}\n\n{table.caption}\n\n{comparisons}")
    if strata:
        echo(f"\n{METRICS[y_name].title}@{k} by {strata.title}, each method's best setting:\n{format_strata(strata)}")
    if wins:
        echo(f"\n{METRICS[y_name].title}@{k} against {table.rows[0][0]}, query by query:\n{_format_wins(rows)}")
    if oracle:
        echo(f"\n{METRICS[y_name].title}@{k} of each method's settings:\n{_format_headroom(headroom)}")
    echo_lines(map("written: {}".format, files))


def _format_headroom(headroom_rows: Sequence[Any]) -> str:
    """Format as a table what a perfect choice of setting for each query would gain over one for all."""
    table_rows = [("", "settings", "best for all", "its mean", "best for each", "at most gained")]
    for row in headroom_rows:
        gained = f"{row.difference:.4f}" + ("" if row.low is None else f" [{row.low:.4f}, {row.high:.4f}]")
        table_rows.append((row.method, f"{row.settings}", row.best, f"{row.mean:.4f}", f"{row.oracle:.4f}", gained))
    return format_columns(table_rows)


def _format_wins(differences: Sequence[Any]) -> str:
    """Format as a table on how many queries each setting beats, equals and trails the baseline."""
    table_rows = [("", "wins", "ties", "loses", "mean", "baseline", "most above", "most below")]
    for row in differences:
        shares = [f"{win_count / row.queries:.1%}" for win_count in row.wins]
        # The largest differences up and down; a setting that is never better, or never worse, has 0 there.
        values = (row.mean, row.baseline_mean, max(0.0, row.most), max(0.0, -row.least))
        table_rows.append((row.name, *shares, *map("{:.4f}".format, values)))
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
    k: int,
    execution: dict[str, Any],
    target: str | None,
    past: bool,
    as_json: bool,
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
    **search : Any
        How settings are searched.
    """
    store_file = execution["store"]
    # Listing earlier studies neither reads a corpus nor tunes.
    if past:
        return _echo_history(store_file, as_json)
    use_threads()
    tune_function, tune_arguments = _resolve_tuning(selector, retrieve, search)
    objective = objective or ("diverse" if metric is None and selector is not None else "maximise")
    tuning_objective = _parse_objective(objective, metric, share, target)
    with Meter() as meter:
        dataset = source.load(meter)
        splits = [dev] if halve or test == "none" else [dev, test]
        check_splits(dataset.qrels, splits, " (--halve makes two of one)")
        qrels = dataset.qrels
        if halve:
            qrels, splits = split_in_half(dataset.qrels[dev], search["seed"]), ["dev", "test"]
        space = embed_corpus(dataset, source, progress=meter)
        vectors = embed_and_warn(space, select_judged(dataset.queries, qrels, splits), progress=meter)
        split_roles = dict(zip(("dev", "test"), [*splits, None], strict=False))
        stop_event = threading.Event()
        try:
            tuning_result = tune_function(
                space=space, queries=vectors, qrels=qrels, objective=tuning_objective, k=k, aspects=dataset.aspects,
                progress=meter, stop=stop_event, **split_roles, **execution, **tune_arguments,
            )  # fmt: skip
        except KeyboardInterrupt:
            stop_event.set()
            raise Cancelled(f"what is finished is in {store_file}; the same command goes on from there") from None
    request = {"select": selector, "retrieve": retrieve, "corpus": source.corpus, "k": k, "halve": halve, **split_roles}
    # Name of the study in the list of earlier ones.
    subject = "every decoder" if selector == "all" else selector or retrieve or ""
    # The study is stored only once it is complete; its cells are stored as they finish.
    record_study(Store(store_file), tuning_result, subject, {**request, **search, "objective": tuning_objective.text})
    if as_json:
        return echo_json(tuning_result.as_json())
    echo_lines(tuning_result.sentences)
    if tuning_result.several:
        echo("\n" + format_columns(tuning_result.table))
    if (report_split := split_roles["test"]) is not None:
        command_words = ["frontier", "report", execution["store"], "--split", report_split, "-k", str(tuning_result.k)]
        echo(f"With charts: {command_line(command_words)}", err=True)
    if target:
        _echo_export(tuning_result.decoder, target, source, space, vectors, tuning_result.k)


def _echo_export(
    decoder: Decoder, target_name: str, source: CorpusOptions, space: Space, query_vectors: Embeddings, k: int
) -> None:
    """Print a decoder as configuration or code for another system, the export target.

    Where that system fetches the candidates itself, the pool, their number, is what answers to these queries need.
    """
    context = ExportContext(
        k=k, corpus=source.corpus, reading=source.reading, encoder=source.encoder, dtype=source.dtype,
        documents=len(space), trained=source.trained,
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
    selector: str | None, retrieve: str | None, search_options: Mapping[str, Any]
) -> tuple[Callable[..., Any], dict[str, Any]]:
    """Choose the tuning function for the flags; return it and its arguments. Raises UsageError.

    One stage is tuned, or with --select all the best of all decoders is chosen.
    """
    if selector == "all":
        scorers = [name for name, method_spec in engine.methods("scorer").items() if not method_spec.cls.rerank_only]
        names = scorers if retrieve == "all" else retrieve.split(",") if retrieve else None
        return engine.choose, {"scorers": names, "points": search_options["points"], "seed": search_options["seed"]}
    # Exactly one stage is tuned at a time.
    if (selector is None) == (retrieve is None):
        raise click.UsageError("name what is tuned, one of --select (a selector, or all) and --retrieve (a scorer)")
    name, params = parse_stage(selector, "select") if selector is not None else parse_stage(retrieve or "", "retrieve")
    return engine.tune, {"name": name, "fixed": params, **search_options}


def _parse_objective(objective: str, metric: str | None, share: float | None, target_name: str | None) -> Objective:
    """Build the aim of tuning from the flags; errors name the flag, also for an unknown --export."""
    if target_name is not None and target_name not in EXPORT_TARGETS:
        raise click.UsageError(f"--export must be one of {', '.join(EXPORT_TARGETS)}; got {target_name!r}")
    flag_values = {"aim": objective, "metric": metric, "share": share}
    given_values: dict[str, Any] = {name: value for name, value in flag_values.items() if value is not None}
    # The parameters are checked under the names of their flags, so that an error says what was typed.
    for param in params_of(Objective):
        flag_name = "--objective" if param.name == "aim" else param.flag
        replace(param, name=flag_name, symbol=flag_name).check(given_values.get(param.name, param.default))
    return Objective(**given_values)
