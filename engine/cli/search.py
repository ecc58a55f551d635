"""Commands on ways to search: depths (what a reranker sees), ann (approximate search), latency, budget."""

import json
import threading
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial
from itertools import product
from typing import Any

import engine
from engine.cli.evaluation import collect_cells, corpus_answers, echo_cells
from engine.cli.group import Meter, use_threads
from engine.cli.inputs import JudgedOptions, make_stages, parse_name
from engine.cli.output import aligned, echo, echo_json, echo_lines, or_dash
from engine.decoder import DEPTH, Decoder
from engine.errors import Cancelled, ParamError
from engine.evaluation.metrics import METRICS
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
    use_threads()
    decoders = _decoders(selectors, retrieves, reranks)
    with Meter() as meter:
        dataset, space, queries, qrels = judged.load_judged(meter)
        sizes, stop = [DEPTH.parse(depth) for depth in depths] or list(RERANK_DEPTHS), threading.Event()
        if random is not None:
            mixed = {"random": random, "seed": seed, "k": k, "metrics": metrics}
            return _echo_mixed(decoders, (space, queries, qrels), sizes, mixed, as_json)
        results = engine.rerank_depths(
            decoders, space, queries, qrels, depths=sizes, k=k, metrics=metrics,
            split=judged.split, aspects=dataset.aspects, progress=meter, stop=stop, **execution,
        )  # fmt: skip
        cells = collect_cells(results, stop, lambda _: f"what is finished is in {execution['store']}")
    if not as_json:
        _echo_depths(cells, decoders, metrics)
    echo_cells(cells, len(queries), execution["store"], as_json)


def _echo_mixed(
    decoders: Sequence[Decoder],
    data: tuple[Any, ...],
    sizes: Sequence[int | None],
    mixed: dict[str, Any],
    as_json: bool,
) -> None:
    """Means of reranked pools of the best and of others at random: decoders and sizes as rows, metrics as columns."""
    names = list(dict.fromkeys(mixed["metrics"]))
    lines = [("", "best", "random", *(f"{METRICS[m].title}@{mixed['k']}" for m in names))]
    for decoder, best in product(decoders, sizes):
        mean = rerank_mixed(decoder, *data, best=best or len(data[0]), **mixed).mean
        if as_json:
            echo_json({"decoder": decoder.label, "best": best, **mixed, "mean": mean})
        lines.append((decoder.label, f"{best}", f"{mixed['random']}", *(f"{mean[m]:.4f}" for m in names)))
    if not as_json:
        echo(aligned(lines))


def _decoders(selectors: Sequence[str], retrieves: Sequence[str], reranks: Sequence[str] = ()) -> list[Decoder]:
    """Every chain of the stages; the first selector and dense retrieval where none is named."""
    stages = [
        make_stages(selectors or list(methods("selector"))[:1], "select"),
        make_stages(retrieves or ("dense",), "retrieve"),
        *([make_stages(reranks, "rerank")] if reranks else []),
    ]
    return [Decoder(*chain) for chain in product(*stages)]


def _echo_depths(cells: Sequence[Any], decoders: Sequence[Decoder], metrics: Sequence[str]) -> None:
    """A table a metric, and one of times: decoders as rows, depths as columns."""
    depths = sorted({cell.decoder["depth"] for cell in cells})
    by_depth = {(_chain(cell.decoder), cell.decoder["depth"]): cell for cell in cells}
    rows = {
        decoder.label: [by_depth[_chain(decoder_to_json(decoder)), depth] for depth in depths] for decoder in decoders
    }
    columns = [f"{depth:,}" for depth in depths]
    for metric in dict.fromkeys(metrics):
        head = (f"{METRICS[metric].title}@{cells[0].k} by depth", *columns)
        lines = [(label, *(f"{cell.mean[metric]:.4f}" for cell in row)) for label, row in rows.items()]
        echo(aligned([head, *lines]) + "\n")
    times = [(label, *(or_dash(cell.latency, 2) for cell in row)) for label, row in rows.items()]
    echo(aligned([("ms a query by depth", *columns), *times]))


def _chain(decoder: Mapping[str, Any]) -> str:
    """A decoder as JSON, without its depth."""
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
    import_faiss()
    use_threads()
    least = EXACT_SHARE.default if share is None else EXACT_SHARE.parse(share) or 0.0
    chosen = make_stages(retrieves or ("dense",), "retrieve")
    settings = partial(_indexes, indexes)
    settings(1)  # refuses wrong settings before anything is embedded
    rows: list[Any] = []
    stopped = False
    with Meter() as meter:
        _, space, queries, qrels = judged.load_judged(meter)
        try:
            for scorer in chosen:
                for row in engine.approximate(
                    scorer, space, queries, qrels, indexes=settings,
                    k=k, metrics=metrics or None, seed=seed, progress=meter,
                ):  # fmt: skip
                    rows.append(row)
        except KeyboardInterrupt:
            stopped = True
    if as_json:
        echo_json(*(row.as_json() for row in rows))
    elif rows:
        _echo_tables(rows)
        echo(f"{len(queries):,} queries one at a time on one thread; exact@k: the share of the exact top-k found.")
        echo_lines(write_conclusions(rows, least))
    if stopped:
        raise Cancelled(f"{len(rows)} searches were measured; none is kept")


def _echo_tables(rows: Sequence[Any]) -> None:
    """One for each scorer."""
    names = list(rows[0].mean)
    titles = (f"exact@{rows[0].k}", *(f"{METRICS[m].title}@{rows[0].k}" for m in names))
    for scorer in dict.fromkeys(row.scorer for row in rows):
        of_scorer = [row for row in rows if row.scorer == scorer]
        lines: list[tuple[str, ...]] = [("index", *titles, "ms/query", "built in s", "MB")]
        for row in of_scorer:
            values = (f"{value:.4f}" for value in (row.share, *(row.mean[m] for m in names)))
            lines.append((row.label, *values, f"{row.milliseconds:.3f}", f"{row.build:.2f}", f"{row.megabytes:.1f}"))
        first = of_scorer[0]
        echo(f"{scorer}: {first.entries:,} vectors, {first.per_document:.2f} a document\n{aligned(lines)}\n")


def latency(judged: JudgedOptions, selectors: tuple[str, ...], as_json: bool, **study: Any) -> None:
    weighted = [n for n, spec in methods("selector").items() if RELEVANCE_WEIGHT.name in {p.name for p in spec.params}]
    stages = make_stages(selectors or weighted, "select")
    rows: list[Any] = []
    with Meter() as meter:
        _, space, queries, _ = judged.load_judged(meter)
        try:
            for row in measure_latencies(stages, space, queries, **study, progress=meter):
                rows.append(row)
        except KeyboardInterrupt:
            raise Cancelled(f"{len(rows)} times were measured; none is kept") from None
    if as_json:
        return echo_json(*(row.as_json() for row in rows))
    # Selectors as rows, sizes as columns, and where there are enough of them how time grows.
    sizes = sorted({row.k for row in rows})
    steep = len(sizes) >= MIN_SLOPE_SIZES
    lines = [("ms a query by k", *(f"{k:,}" for k in sizes), *(["slope"] if steep else []))]
    for name in dict.fromkeys(row.name for row in rows):
        own = [row for row in rows if row.name == name]
        times = tuple(f"{row.milliseconds:.2f}" for row in own)
        grows = fit_slope(own) if steep else None
        lines.append((name, *times, *([f"{grows.value:.2f} [{grows.low:.2f}, {grows.high:.2f}]"] if grows else [])))
    echo(aligned(lines))
    echo(
        f"\nMedian milliseconds of {len(rows[0].seconds)} queries one at a time on one thread, the dense scores "
        f"included; {rows[0].documents:,} documents. slope: of log time in log k, 1 is linear, and its 95% interval."
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
    use_threads()
    decoders = _decoders(selectors, retrieves)
    with Meter() as meter:
        dataset, space, queries, qrels = judged.load_judged(meter)
        answers = corpus_answers(judged.corpus, dataset) if answered else None
        rows = list(compute_budget_curve(decoders, space, queries, qrels, answers, budgets or WORD_BUDGETS, k))
    if as_json:
        return echo_json(*(asdict(row) for row in rows))
    for metric in dict.fromkeys(row.metric for row in rows):
        own = [row for row in rows if row.metric == metric]
        sizes = list(dict.fromkeys(row.budget for row in own))
        lines = [
            (label, *(f"{row.mean:.4f} ({row.documents:.1f})" for row in own if row.label == label))
            for label in dict.fromkeys(row.label for row in own)
        ]
        title = METRICS[metric].title.partition(" in ")[0]
        head = (f"{title} within words, {own[0].queries:,} queries", *(f"{n:,}" for n in sizes))
        echo(aligned([head, *lines]) + "\n")
    echo(f"Of the first {rows[0].k if rows else k}; in brackets how many documents are read.")


def _indexes(texts: tuple[str, ...], count: int) -> list[Any]:
    """The settings that `--index` names; a bare name stands for those usual for so many vectors."""
    settings: list[Any] = []
    for text in texts or tuple(INDEXES):
        name, values = parse_name(text, "index")
        if name not in INDEXES:
            raise ParamError(f"--index must be one of {', '.join(INDEXES)}; got {name!r}")
        params = params_of(INDEXES[name])
        settings += [INDEXES[name](**parse_values(params, values, name))] if values else usual_indexes(count, [name])
    return settings
