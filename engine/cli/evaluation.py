"""Commands that measure many decoders: sweep, compare, tune."""

import threading
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from itertools import product
from pathlib import Path
from typing import Any

import click

import engine
from engine.cli.finished_sweep import FinishedSweep, OtherSystems, plain_strata
from engine.cli.group import Meter, use_threads
from engine.cli.inputs import (
    CorpusOptions,
    JudgedOptions,
    check_splits,
    embed_corpus,
    embed_queries,
    make_stages,
    parse_stage,
)
from engine.cli.output import aligned, echo, echo_json, echo_lines, echo_written, nan_to_none, or_dash, write_text
from engine.data.answers import containing_documents, read_answers
from engine.decoder import DEPTH, Decoder
from engine.errors import Cancelled, DataError
from engine.evaluation.exact_frontier import compute_exact_frontiers
from engine.evaluation.export import EXPORT_TARGETS, ExportContext, export
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
    use_threads()
    exact, selectors = _with_paths(selectors, (*retrieves, *reranks, *filter(None, [depth])), values)
    decoders = _swept_decoders(selectors, retrieves, reranks, depth, points) if selectors else []
    total, store = len(decoders) * len(sizes), execution["store"]
    with Meter() as meter:
        dataset, space, queries, qrels = judged.load_judged(meter)
        names = metrics or available_metrics(qrels, dataset.aspects, queries)
        answers = corpus_answers(judged.corpus, dataset) if "answer_coverage" in names else None
        stop = threading.Event()
        asked = (space, queries, qrels, sizes, names)
        options: dict[str, Any] = {"split": judged.split, "aspects": dataset.aspects, "progress": meter, "stop": stop}
        curves = _curves(exact, asked, {**options, "store": store})
        options |= {**execution, "answers": answers}
        results: Iterator[Any] = run(decoders, *asked, **options) if decoders else iter(())
        cells = collect_cells(results, stop, lambda done: f"{done} of {total} cells are in {store}")
    echo_curves(curves, as_json)
    if cells and not as_json:
        _echo_means(cells, decoders, names)
    if cells or not curves:
        echo_cells(cells, len(queries), store, as_json)


def corpus_answers(corpus: str, dataset: Dataset) -> dict[str, dict[str, frozenset[str]]]:
    """The answers in a corpus' folder, with the documents that contain them. Raises DataError where there are none."""
    return containing_documents(dataset.corpus, read_answers(corpus))


def _with_paths(selectors: Sequence[str], others: Sequence[str], values: str) -> tuple[list[Any], tuple[str, ...]]:
    """The selectors that have a path over λ, if all values are asked for, and the descriptions of the others."""
    texts = tuple(selectors or methods("selector"))
    if values == "grid":
        return [], texts
    if others:
        raise click.UsageError("--values all chooses from the whole corpus by the dense scorer; leave out " + others[0])
    exact, rest = [], []
    for text in texts:
        name, fixed = parse_stage(text, "select")
        stage = make_selector(name, **fixed)
        if stage.path_range is not None and stage.path_parameter not in fixed:
            exact.append(stage)
        else:
            rest.append(text)
    return exact, tuple(rest)


def _curves(stages: Sequence[Any], asked: tuple[Any, ...], options: dict[str, Any]) -> list[Any]:
    """The exact frontiers of selectors; Ctrl-C stops with Cancelled."""
    try:
        return [curve for stage in stages for curve in compute_exact_frontiers(stage, *asked, **options)]
    except KeyboardInterrupt:
        options["stop"].set()
        raise Cancelled(f"finished curves are in {options['store']}; the same command goes on from there") from None


def echo_curves(curves: Sequence[Any], as_json: bool) -> None:
    """Print every curve as JSON, or where its means are best, as a table."""
    if as_json:
        for c in curves:
            names = ("label", "method", "parameter", "interval", "k", "split", "key")
            means = {m: [v if v == v else None for v in column.tolist()] for m, column in c.means.items()}
            head: dict[str, Any] = {name: getattr(c, name) for name in names}
            echo_json({**head, "breakpoints": c.breakpoints.tolist(), "means": means})
        return
    rows = [["every value", "of", "k", "pieces", "metric", "best", "from", "to"]]
    for c in curves:
        for name in c.means:
            low, high = c.find_best_interval(name)
            best = c.at((low + high) / 2)[name] if low == low else low
            rows.append([c.label, c.symbol, str(c.k), f"{len(c):,}", name, f"{best:.4f}", f"{low:.4f}", f"{high:.4f}"])
    if curves:
        echo(aligned(rows) + "\n")


def _swept_decoders(
    selectors: Sequence[str], retrieves: Sequence[str], reranks: Sequence[str], depth: str | None, points: int
) -> list[Decoder]:
    """Every setting of the selectors after every chain of scorers, without repetition."""
    named = [parse_stage(text) for text in selectors or methods("selector")]
    pool = DEPTH.default if depth is None else DEPTH.parse(depth)
    chains = product(make_stages(retrieves or ("dense",), "retrieve"), make_stages(reranks, "rerank") or [None])
    settings = [decoder for name, fixed in named for decoder in engine.grid(name, points, **fixed)]
    decoders = [
        replace(decoder, retrieve=first, rerank=second, depth=pool) for first, second in chains for decoder in settings
    ]
    return list(dict.fromkeys(decoders))


def collect_cells(results: Iterator[Any], stop: threading.Event, kept: Callable[[int], str]) -> list[Any]:
    """All cells of a sweep; Ctrl-C stops it with Cancelled. kept: what the store holds after so many cells."""
    cells: list[Any] = []
    try:
        for cell in results:
            cells.append(cell)
    except (KeyboardInterrupt, Cancelled):
        stop.set()
        if isinstance(results, Generator):
            results.close()
        raise Cancelled(f"{kept(len(cells))}; the same command goes on from there") from None
    return cells


def echo_cells(cells: Sequence[Any], queries: int, store: str, as_json: bool) -> None:
    """Print every cell as JSON, without its values for every query, or how many there are, at the end of a table."""
    if not as_json:
        echo(f"\n{len(cells)} cells of {queries:,} queries in {store}")
        return
    names = ("label", "method", "k", "split", "left_out", "returned", "key", "digest")
    for cell in cells:
        mean, provenance = nan_to_none(cell.mean), dict(cell.provenance)
        rest = {"decoder": cell.decoder, "mean": mean, "provenance": provenance, "queries": len(cell.queries)}
        rest["milliseconds"] = cell.latency
        echo_json({name: getattr(cell, name) for name in names} | rest)


def _echo_means(cells: Sequence[Any], decoders: Sequence[Decoder], names: Sequence[str]) -> None:
    """A row a cell, with the means that `compare` shows: over the queries for which every setting has the metric."""
    columns, remarks = _means(cells, names)
    rows = [("decoder", "k", *names, "returned", "ms/query")]
    order = {d.label: place for place, d in enumerate(decoders)}
    for cell in sorted(cells, key=lambda c: (c.k, order.get(c.label, 0))):
        values = (or_dash(columns[cell.k, name].get(cell.label)) for name in names)
        rows.append((cell.label, str(cell.k), *values, f"{cell.returned:.2f}", or_dash(cell.latency, 3)))
    echo(aligned(rows))
    echo_lines(["", *remarks] if remarks else [])


def _means(cells: Sequence[Any], names: Sequence[str]) -> tuple[dict[tuple[int, str], dict[str, float]], list[str]]:
    """(k, metric) → label → mean over the queries that every setting has the metric for; and where not all do."""
    columns: dict[tuple[int, str], dict[str, float]] = {}
    remarks = []
    for k, name in product(sorted({cell.k for cell in cells}), names):
        try:
            common = align_on_common_queries(cells, (name,), k)
        except DataError as error:
            columns[k, name] = {}
            remarks.append(f"{title_of(name)}@{k}: {error}")
            continue
        means = common.values[name].mean(0).tolist()
        columns[k, name] = dict(zip((p.label for p in common.cells), means, strict=True))
        if (count := len(common.queries)) < common.n_common:
            remarks.append(
                f"{title_of(name)}@{k}: over {count:,} of {common.n_common:,} queries: every setting has it there"
            )
    return columns, remarks


def compare(
    swept: FinishedSweep,
    others: OtherSystems,
    metrics: tuple[str, ...],
    wins: bool,
    oracle: bool,
    files: tuple[str, ...],
    as_json: bool,
) -> None:
    if bad := [f for f in files if Path(f).suffix.lower() not in (".md", ".tex", ".csv", ".parquet")]:
        raise click.UsageError(f"--out takes .md, .tex, .csv or .parquet; got {bad[0]!r}")
    cells, k = swept.load_cells()
    cells += others.cells(swept, cells, k)
    across, up = swept.across, swept.up
    curve = frontier(cells, across, up, k)
    table = build_results(cells, metrics or tuple(cells[0].values), swept.baseline, k)
    rows = compare_cells(cells, up, table.rows[0][0], k)
    comparisons, headroom = summarize_comparisons(rows), compute_headroom(cells, up, k) if oracle else ()
    strata = swept.stratify(cells, k)
    for file in files:
        match Path(file).suffix.lower():
            case ".md":
                write_text(file, format_markdown(table))
            case ".tex":
                write_text(file, format_latex(table))
            case _:
                write_table(build_frame(cells), file)
    if as_json:
        at_k = [c for c in cells if c.k == k]
        written = dict(zip((c.label for c in at_k), short_names(at_k, format_stage_call), strict=True))
        front = [
            {"decoder": p.point.decoder, "name": written[p.point.label], across: p.x, up: p.y} for p in curve.front
        ]
        base = resolve_baseline(at_k, table.rows[0][0], k).label
        head = {"k": k, "queries": curve.queries, "baseline": written[base], "summary": comparisons}
        area = {"hypervolume": curve.hypervolume, "reference": curve.reference}
        groups: dict[str, Any] = {"by": strata.as_json()} if strata else {}
        groups |= {"wins": [{**asdict(row), "wins": row.wins._asdict()} for row in rows]} if wins else {}
        groups |= {"oracle": [asdict(row) for row in headroom]} if oracle else {}
        return echo_json({**head, **area, "front": front, "untimed": curve.untimed, "table": table.as_json(), **groups})
    echo(f"Not dominated in {across}@{k} and {up}@{k}, over {curve.queries:,} queries:")
    echo_lines(f"  {p.x:.4f}  {p.y:.4f}  {p.name}" for p in curve.front)
    echo_lines(filter(None, [curve.remark]))
    echo(f"Hypervolume {curve.hypervolume:.5f} above ({curve.reference[0]:.4f}, {curve.reference[1]:.4f})\n")
    marked = (zip(row, marks, strict=True) for row, marks in zip(table.rows, table.marks, strict=True))
    plain = aligned(
        [table.head, *([cell + SIGNIFICANCE_ARROWS[mark].ljust(2) for cell, mark in row] for row in marked)]
    )
    echo(f"{plain}\n\n{table.caption}\n\n{comparisons}")
    if strata:
        echo(f"\n{METRICS[up].title}@{k} by {strata.title}, each method's best setting:\n{plain_strata(strata)}")
    if wins:
        echo(f"\n{METRICS[up].title}@{k} against {table.rows[0][0]}, query by query:\n{_plain_wins(rows)}")
    if oracle:
        echo(f"\n{METRICS[up].title}@{k} of each method's settings:\n{_plain_headroom(headroom)}")
    echo_written(files)


def _plain_headroom(rows: Sequence[Any]) -> str:
    """The best setting for all queries, and the best for each: chosen with the query's own judgements."""
    lines = [
        (
            row.method,
            f"{row.settings}",
            row.best,
            f"{row.mean:.4f}",
            f"{row.oracle:.4f}",
            f"{row.difference:.4f}" + ("" if row.low is None else f" [{row.low:.4f}, {row.high:.4f}]"),
        )
        for row in rows
    ]
    return aligned([("", "settings", "best for all", "its mean", "best for each", "at most gained"), *lines])


def _plain_wins(rows: Sequence[Any]) -> str:
    """Every setting's share of queries with more, as much and less than the baseline, and the largest differences."""
    head = ("", "wins", "ties", "loses", "mean", "baseline", "most above", "most below")
    lines = [
        (
            row.name,
            *(f"{count / row.queries:.1%}" for count in row.wins),
            *(f"{value:.4f}" for value in (row.mean, row.baseline_mean, max(0.0, row.most), max(0.0, -row.least))),
        )
        for row in rows
    ]
    return aligned([head, *lines])


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
    store = execution["store"]
    if past:
        return _echo_history(store, as_json)
    use_threads()
    work, chosen = _tuning(selector, retrieve, search)
    objective = objective or ("diverse" if metric is None and selector is not None else "maximise")
    aim = _checked(objective, metric, share, target)
    with Meter() as meter:
        dataset = source.load(meter)
        names = [dev] if halve or test == "none" else [dev, test]
        check_splits(dataset.qrels, names, " (--halve makes two of one)")
        splits = dataset.qrels
        if halve:
            splits, names = split_in_half(dataset.qrels[dev], search["seed"]), ["dev", "test"]
        space = embed_corpus(dataset, source, progress=meter)
        queries = dataset.queries.only({query for split in names for query in splits[split].grades})
        vectors = embed_queries(space, queries, progress=meter)
        roles = dict(zip(("dev", "test"), [*names, None], strict=False))
        stop = threading.Event()
        try:
            tuned = work(
                space=space, queries=vectors, qrels=splits, objective=aim, k=k, aspects=dataset.aspects,
                progress=meter, stop=stop, **roles, **execution, **chosen,
            )  # fmt: skip
        except KeyboardInterrupt:
            stop.set()
            raise Cancelled(f"what is finished is in {store}; the same command goes on from there") from None
    asked = {"select": selector, "retrieve": retrieve, "corpus": source.corpus, "k": k, "halve": halve, **roles}
    named = "every decoder" if selector == "all" else selector or retrieve or ""
    record_study(Store(store), tuned, named, {**asked, **search, "objective": aim.text})
    if as_json:
        return echo_json(tuned.as_json())
    echo_lines(tuned.sentences)
    if tuned.several:
        echo("\n" + aligned(tuned.table))
    if (reported := roles["test"]) is not None:
        words = ["frontier", "report", execution["store"], "--split", reported, "-k", str(tuned.k)]
        echo(f"With charts: {command_line(words)}", err=True)
    if target:
        _echo_export(tuned.decoder, target, source, space, vectors, tuned.k)


def _echo_export(
    decoder: Decoder, target: str, source: CorpusOptions, space: Space, queries: Embeddings, k: int
) -> None:
    """Print a decoder for a target, with the number of candidates that keeps its answers to the queries."""
    context = ExportContext(
        k=k, corpus=source.corpus, reading=source.reading, encoder=source.encoder, dtype=source.dtype,
        documents=len(space), trained=source.trained,
        pool=engine.pool_depth(decoder, space, queries, k) if EXPORT_TARGETS[target].fetches else None,
    )  # fmt: skip
    echo("\n" + export(decoder, target, context).text)


def _echo_history(store: str, as_json: bool) -> None:
    """Print the studies of a store, one JSON object each or as a table."""
    if not Path(store).is_file():
        raise DataError(f"--store names the file of earlier studies; there is no {store!r}")
    studies = read_history(Store(store))
    if as_json:
        return echo_json(*(asdict(study) for study in studies))
    echo(aligned([HISTORY_HEADER, *(study.row for study in studies)]))


def _tuning(
    selector: str | None, retrieve: str | None, search: Mapping[str, Any]
) -> tuple[Callable[..., Any], dict[str, Any]]:
    """What does it, and its arguments of the flags. Raises UsageError."""
    if selector == "all":
        every = [name for name, spec in engine.methods("scorer").items() if not spec.cls.rerank_only]
        scorers = every if retrieve == "all" else retrieve.split(",") if retrieve else None
        return engine.choose, {"scorers": scorers, **{name: search[name] for name in ("points", "seed")}}
    if (selector is None) == (retrieve is None):
        raise click.UsageError("name what is tuned, one of --select (a selector, or all) and --retrieve (a scorer)")
    name, fixed = parse_stage(selector, "select") if selector is not None else parse_stage(retrieve or "", "retrieve")
    return engine.tune, {"name": name, "fixed": fixed, **search}


def _checked(objective: str, metric: str | None, share: float | None, target: str | None) -> Objective:
    """The objective of the flags. Raises an error that names the flag, of --export too."""
    if target is not None and target not in EXPORT_TARGETS:
        raise click.UsageError(f"--export must be one of {', '.join(EXPORT_TARGETS)}; got {target!r}")
    given: dict[str, Any] = {
        n: v for n, v in (("aim", objective), ("metric", metric), ("share", share)) if v is not None
    }
    for param in params_of(Objective):
        flag = "--objective" if param.name == "aim" else param.flag
        replace(param, name=flag, symbol=flag).check(given.get(param.name, param.default))
    return Objective(**given)
