"""Commands on ways to search: depths (what a reranker sees), ann (approximate search), latency, budget."""

import json
import threading
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial
from itertools import product, starmap
from typing import Any

import engine
from engine.cli.evaluation import collect_cells, corpus_answers, echo_cells
from engine.cli.group import Meter, use_threads
from engine.cli.inputs import JudgedOptions, make_stages, parse_name, say_own_documents
from engine.cli.output import echo, echo_json, echo_lines, format_columns, group_rows, or_dash, read_column
from engine.decoder import DEPTH, Decoder
from engine.errors import Cancelled, ParamError
from engine.evaluation.metrics import METRICS
from engine.evaluation.paired import format_decoder_call
from engine.evaluation.studies.ann import EXACT_SHARE, write_conclusions
from engine.evaluation.studies.ann_indexes import INDEXES, import_faiss, usual_indexes
from engine.evaluation.studies.budget_curve import WORD_BUDGETS, compute_budget_curve
from engine.evaluation.studies.latency import MIN_SLOPE_SIZES, fit_slope, measure_latencies
from engine.evaluation.studies.rerank_depth import RERANK_DEPTHS, rerank_mixed
from engine.evaluation.sweep.cell import decoder_to_json
from engine.params import params_of, parse_values
from engine.stages import RELEVANCE_WEIGHT, methods


def depths(
    judged: JudgedOptions,
    reranks: tuple[str, ...],
    retrieves: tuple[str, ...],
    selectors: tuple[str, ...],
    depths: tuple[str, ...],
    random: int | None,
    seed: int,
    k: int,
    metrics: tuple[str, ...],
    execution: dict[str, Any],
    as_json: bool,
) -> None:
    """Measure decoders that rerank pools of several depths, and print a table for each metric.

    A pool is the best documents of the first scorer, its depth their number; random: number of random documents to put
    into each pool, None for none.
    """
    use_threads()
    decoders = _build_decoders(selectors, retrieves, reranks)
    with Meter() as meter:
        dataset, space, queries, qrels = judged.load_judged(meter)
        say_own_documents(space, queries, meter)
        pool_depths = list(map(DEPTH.parse, depths)) or list(RERANK_DEPTHS)
        # Pools with random documents are printed as means alone: no store holds them.
        if random is not None:
            mixed_options = {"random": random, "seed": seed, "k": k, "metrics": metrics}
            return _echo_mixed(decoders, (space, queries, qrels), pool_depths, mixed_options, as_json)
        stop_event = threading.Event()
        results = engine.rerank_depths(
            decoders, space, queries, qrels, depths=pool_depths, k=k, metrics=metrics,
            split=judged.split, aspects=dataset.aspects, progress=meter, stop=stop_event, **execution,
        )  # fmt: skip
        cells = collect_cells(results, stop_event, lambda _: f"what is finished is in {execution['store']}")
    if not as_json:
        _echo_depths(cells, decoders, metrics)
    echo_cells(cells, len(queries), execution["store"], as_json)


def _echo_mixed(
    decoders: Sequence[Decoder],
    judged_data: tuple[Any, ...],
    pool_depths: Sequence[int | None],
    mixed: dict[str, Any],
    as_json: bool,
) -> None:
    """Measure and print decoders that rerank pools of the best documents and some random ones.

    Each pool is what is reranked: the best documents of the first scorer, and others drawn at random. judged_data:
    space, queries and judgements; pool_depths: numbers of best documents; mixed: further arguments of `rerank_mixed`.
    """
    space, _, _ = judged_data
    names = list(dict.fromkeys(mixed["metrics"]))
    table_rows = [("", "best", "random", *_title_metrics(names, mixed["k"]))]
    for decoder, n_best in product(decoders, pool_depths):
        # A depth of None is the whole corpus.
        mean = rerank_mixed(decoder, *judged_data, best=n_best or len(space), **mixed).mean
        if as_json:
            echo_json({"decoder": decoder.label, "best": n_best, **mixed, "mean": mean})
        mean_texts = [f"{mean[metric]:.4f}" for metric in names]
        table_rows.append((format_decoder_call(decoder), f"{n_best}", f"{mixed['random']}", *mean_texts))
    if not as_json:
        echo(format_columns(table_rows))


def _build_decoders(selectors: Sequence[str], retrieves: Sequence[str], reranks: Sequence[str] = ()) -> list[Decoder]:
    """Combine selectors, first scorers and rerankers, given as flag texts, into decoders of one each.

    Without texts the selector is the first that is registered, which ranks by relevance, and the scorer is dense.
    """
    selector_stages = make_stages(selectors or list(methods("selector"))[:1], "select")
    stage_methods = [selector_stages, make_stages(retrieves or ("dense",), "retrieve")]
    if reranks:
        stage_methods.append(make_stages(reranks, "rerank"))
    return list(starmap(Decoder, product(*stage_methods)))


def _echo_depths(cells: Sequence[Any], decoders: Sequence[Decoder], metrics: Sequence[str]) -> None:
    """Print tables of metrics and of times: decoders as rows, depths as columns.

    The depth is the number of documents of the first scorer that the reranker scores anew.
    """
    depths = sorted({cell.decoder["depth"] for cell in cells})
    # Decoders that differ in their depth alone have the same chain of stages: they share a row of the table.
    cell_of_chain_and_depth = {(_serialize_chain(cell.decoder), cell.decoder["depth"]): cell for cell in cells}
    rows = {}
    for decoder in decoders:
        chain = _serialize_chain(decoder_to_json(decoder))
        rows[format_decoder_call(decoder)] = [cell_of_chain_and_depth[chain, depth] for depth in depths]
    depth_titles = list(map("{:,}".format, depths))
    for metric_name in dict.fromkeys(metrics):
        table_rows = [(f"{METRICS[metric_name].title}@{cells[0].k} by depth", *depth_titles)]
        for label, row_cells in rows.items():
            table_rows.append((label, *(f"{cell.mean[metric_name]:.4f}" for cell in row_cells)))
        echo(format_columns(table_rows) + "\n")
    time_rows = [(label, *(or_dash(cell.latency, 2) for cell in row_cells)) for label, row_cells in rows.items()]
    echo(format_columns([("ms a query by depth", *depth_titles), *time_rows]))


def _serialize_chain(decoder: Mapping[str, Any]) -> str:
    """Return a decoder as text without its depth, a key that decoders of different depth alone share."""
    return json.dumps({**decoder, "depth": None}, sort_keys=True)


def ann(
    judged: JudgedOptions,
    retrieves: tuple[str, ...],
    indexes: tuple[str, ...],
    k: int,
    metrics: tuple[str, ...],
    share: str | None,
    seed: int,
    as_json: bool,
) -> None:
    """Measure approximate indexes of vectors against exact search: recall, metrics, time and memory.

    indexes: settings of --index as texts, empty for the usual ones; share: the share of the exact top-k that suffices,
    for the conclusions. Raises Cancelled on Ctrl-C, after what was measured is printed.
    """
    import_faiss()
    use_threads()
    min_share = EXACT_SHARE.default if share is None else EXACT_SHARE.parse(share) or 0.0
    scorer_stages = make_stages(retrieves or ("dense",), "retrieve")
    make_indexes = partial(_parse_indexes, indexes)
    make_indexes(1)  # refuses wrong settings before anything is embedded
    measurements: list[Any] = []
    is_stopped = False
    with Meter() as meter:
        _, space, queries, qrels = judged.load_judged(meter)
        try:
            for scorer in scorer_stages:
                for measurement in engine.approximate(
                    scorer, space, queries, qrels, indexes=make_indexes,
                    k=k, metrics=metrics or None, seed=seed, progress=meter,
                ):  # fmt: skip
                    measurements.append(measurement)
        # What was measured so far is printed before the command ends as stopped.
        except KeyboardInterrupt:
            is_stopped = True
    if as_json:
        echo_json(*(measurement.as_json() for measurement in measurements))
    elif measurements:
        _echo_tables(measurements)
        echo(f"{len(queries):,} queries one at a time on one thread; exact@k: the share of the exact top-k found.")
        echo_lines(write_conclusions(measurements, min_share))
    if is_stopped:
        raise Cancelled(f"{len(measurements)} searches were measured; none is kept")


def _echo_tables(rows: Sequence[Any]) -> None:
    """Print how well approximate indexes find a scorer's best documents: a table a scorer, a row an index.

    Columns are the share of the exact top-k found, mean metrics, time and memory. rows: the measurements, at least one.
    """
    metrics = list(rows[0].mean)
    metric_titles = (f"exact@{rows[0].k}", *_title_metrics(metrics, rows[0].k))
    for scorer, scorer_rows in group_rows(rows, "scorer").items():
        table_rows: list[tuple[str, ...]] = [("index", *metric_titles, "ms/query", "built in s", "MB")]
        for row in scorer_rows:
            values = map("{:.4f}".format, (row.share, *(row.mean[metric_name] for metric_name in metrics)))
            costs = (f"{row.milliseconds:.3f}", f"{row.build:.2f}", f"{row.megabytes:.1f}")
            table_rows.append((row.label, *values, *costs))
        # The vectors are the scorer's, so that every index has as many.
        any_row = scorer_rows[0]
        n_vectors, per_document = any_row.entries, any_row.per_document
        echo(f"{scorer}: {n_vectors:,} vectors, {per_document:.2f} a document\n{format_columns(table_rows)}\n")


def _title_metrics(metrics: Sequence[str], k: int) -> list[str]:
    """Return column titles of metrics at k."""
    return [f"{METRICS[metric_name].title}@{k}" for metric_name in metrics]


def latency(judged: JudgedOptions, selectors: tuple[str, ...], as_json: bool, **study: Any) -> None:
    """Measure a query's time at several set sizes and weights of relevance; print how it grows with k.

    study: arguments of `measure_latencies`, such as the sizes and the weights.
    """
    weight = RELEVANCE_WEIGHT.name
    # By default all selectors that weigh relevance against diversity are timed.
    weighing = [name for name, spec in methods("selector").items() if weight in read_column(spec.params, "name")]
    selector_stages = make_stages(selectors or weighing, "select")
    measurements: list[Any] = []
    with Meter() as meter:
        _, space, queries, _ = judged.load_judged(meter)
        try:
            for measurement in measure_latencies(selector_stages, space, queries, **study, progress=meter):
                measurements.append(measurement)
        except KeyboardInterrupt:
            raise Cancelled(f"{len(measurements)} times were measured; none is kept") from None
    if as_json:
        return echo_json(*(measurement.as_json() for measurement in measurements))
    # Selectors as rows, sizes as columns, and where there are enough of them how time grows.
    set_sizes = sorted({measurement.k for measurement in measurements})
    has_slope = len(set_sizes) >= MIN_SLOPE_SIZES
    rows = [("ms a query by k", *map("{:,}".format, set_sizes), *(["slope"] if has_slope else []))]
    for name, selector_rows in group_rows(measurements, "name").items():
        times = map("{:.2f}".format, read_column(selector_rows, "milliseconds"))
        slope = fit_slope(selector_rows) if has_slope else None
        rows.append((name, *times, *([f"{slope.value:.2f} [{slope.low:.2f}, {slope.high:.2f}]"] if slope else [])))
    echo(format_columns(rows))
    echo(
        f"\nMedian milliseconds of {len(measurements[0].seconds)} queries one at a time on one thread, the dense "
        f"scores included; {measurements[0].documents:,} documents. slope: of log time in log k, 1 is "
        "linear, and its 95% interval."
    )


def budget(
    judged: JudgedOptions,
    selectors: tuple[str, ...],
    retrieves: tuple[str, ...],
    budgets: tuple[int, ...],
    k: int,
    answered: bool,
    as_json: bool,
) -> None:
    """Measure decoders whose documents must fit into a budget of words; print a table per metric.

    budgets: numbers of words, empty for the usual ones; answered: also measure how many answers the documents contain.
    """
    use_threads()
    decoders = _build_decoders(selectors, retrieves)
    with Meter() as meter:
        dataset, space, queries, qrels = judged.load_judged(meter)
        say_own_documents(space, queries, meter)
        answers = corpus_answers(judged.corpus, dataset) if answered else None
        measurements = list(compute_budget_curve(decoders, space, queries, qrels, answers, budgets or WORD_BUDGETS, k))
    if as_json:
        return echo_json(*map(asdict, measurements))
    names = {decoder.label: format_decoder_call(decoder) for decoder in decoders}
    # One table a metric; every column is a budget of words.
    for metric_name, rows in group_rows(measurements, "metric").items():
        title = f"{METRICS[metric_name].title.partition(' in ')[0]} within words, {rows[0].queries:,} queries"
        table_rows = [(title, *map("{:,}".format, group_rows(rows, "budget")))]
        for decoder_label, decoder_rows in group_rows(rows, "label").items():
            figures = (f"{row.mean:.4f} ({row.documents:.1f})" for row in decoder_rows)
            table_rows.append((names[decoder_label], *figures))
        echo(format_columns(table_rows) + "\n")
    echo(f"Of the first {measurements[0].k if measurements else k}; in brackets how many documents are read.")


def _parse_indexes(index_texts: tuple[str, ...], n_vectors: int) -> list[Any]:
    """Parse the settings of `--index`. Raises ParamError.

    A bare name stands for the usual settings of that index at this number of vectors; no text at all for every index.
    """
    settings: list[Any] = []
    # Errors name --index rather than the class of the index.
    for index_text in index_texts or tuple(INDEXES):
        name, values = parse_name(index_text, "index")
        if name not in INDEXES:
            raise ParamError(f"--index must be one of {', '.join(INDEXES)}; got {name!r}")
        if values:
            settings.append(INDEXES[name](**parse_values(params_of(INDEXES[name]), values, name)))
        else:
            settings += usual_indexes(n_vectors, [name])
    return settings
