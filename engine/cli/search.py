"""Commands on ways to search: depths (what a reranker sees), ann (approximate search), latency, budget."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Any

import click

from engine.cli.encoding import SOURCE, CorpusOptions
from engine.cli.evaluation import collect_cells, echo_cells, read_answers, time_text
from engine.cli.group import Meter, main, use_threads
from engine.cli.options import (
    SIZE,
    STAGE,
    Execution,
    execution_options,
    json_option,
    make_stages,
    metrics_option,
    option,
    parse_name,
    seed_option,
    size_option,
    split_option,
    stages_option,
)
from engine.cli.output import aligned, echo, echo_json, echo_lines
from engine.errors import Cancelled

if TYPE_CHECKING:
    from engine.decoder import Decoder

SPLIT = split_option("Whose judged queries are asked.")
LINES = json_option("One JSON object a line.")


@main.command()
@SOURCE
@SPLIT
@stages_option("rerank", "reranks", "Scores again.", required=True)
@stages_option("retrieve", "retrieves", "Default: dense.")
@stages_option("select", "selectors", "Default: the first one.")
@click.option("--depth", "depths", multiple=True, metavar="N", help="How many are reranked. Default: 10 to 1000.")
@click.option("--random", type=int, help="So many others, at random, are reranked too; nothing is kept.")
@seed_option("Of those.")
@SIZE
@metrics_option("What is measured.", default=("mrr",))
@execution_options("depths.db")
@LINES
def depths(
    source: CorpusOptions,
    split: str,
    reranks: tuple[str, ...],
    retrieves: tuple[str, ...],
    selectors: tuple[str, ...],
    depths: tuple[str, ...],
    random: int | None,
    seed: int,
    k: int,
    metrics: tuple[str, ...],
    execution: Execution,
    as_json: bool,
) -> None:
    """Measure rerankers by how many of the retrieved documents they get to see."""
    import engine
    from engine.decoder import DEPTH
    from engine.evaluation.studies.rerank_depth import DEPTHS

    use_threads()
    decoders = _decoders(selectors, retrieves, reranks)
    with Meter() as meter:
        dataset, space, queries = source.load_judged(split, meter)
        sizes, stop = [DEPTH.parse(depth) for depth in depths] or list(DEPTHS), threading.Event()
        if random is not None:
            mixed = {"random": random, "seed": seed, "k": k, "metrics": metrics}
            return _echo_mixed(decoders, (space, queries, dataset.qrels[split]), sizes, mixed, as_json)
        results = engine.rerank_depths(
            decoders, space, queries, dataset.qrels[split], depths=sizes, k=k, metrics=metrics,
            split=split, aspects=dataset.aspects, progress=meter, stop=stop, **vars(execution),
        )  # fmt: skip
        cells = collect_cells(results, stop, lambda _: f"what is finished is in {execution.store}")
    if not as_json:
        _echo_depths(cells, decoders, metrics)
    echo_cells(cells, len(queries), execution.store, as_json)


def _echo_mixed(
    decoders: Sequence[Decoder],
    data: tuple[Any, ...],
    sizes: Sequence[int | None],
    mixed: dict[str, Any],
    as_json: bool,
) -> None:
    """Means of reranked pools of the best and of others at random: decoders and sizes as rows, metrics as columns."""
    from engine.evaluation.metrics import METRICS
    from engine.evaluation.studies.rerank_depth import rerank_mixed

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
    from engine.decoder import Decoder
    from engine.stages import methods

    stages = [
        make_stages(selectors or list(methods("selector"))[:1], "select"),
        make_stages(retrieves or ("dense",), "retrieve"),
        *([make_stages(reranks, "rerank")] if reranks else []),
    ]
    return [Decoder(*chain) for chain in product(*stages)]


def _echo_depths(cells: Sequence[Any], decoders: Sequence[Decoder], metrics: Sequence[str]) -> None:
    """A table a metric, and one of times: decoders as rows, depths as columns."""
    from engine.evaluation.metrics import METRICS
    from engine.evaluation.sweep.cell import as_json

    depths = sorted({cell.decoder["depth"] for cell in cells})
    by_depth = {(_chain(cell.decoder), cell.decoder["depth"]): cell for cell in cells}
    rows = {decoder.label: [by_depth[_chain(as_json(decoder)), depth] for depth in depths] for decoder in decoders}
    columns = [f"{depth:,}" for depth in depths]
    for metric in dict.fromkeys(metrics):
        head = (f"{METRICS[metric].title}@{cells[0].k} by depth", *columns)
        lines = [(label, *(f"{cell.mean[metric]:.4f}" for cell in row)) for label, row in rows.items()]
        echo(aligned([head, *lines]) + "\n")
    times = [(label, *(time_text(cell, 2) for cell in row)) for label, row in rows.items()]
    echo(aligned([("ms a query by depth", *columns), *times]))


def _chain(decoder: Mapping[str, Any]) -> str:
    """A decoder as JSON, without its depth."""
    return json.dumps({**decoder, "depth": None}, sort_keys=True)


@main.command()
@SOURCE
@SPLIT
@stages_option("retrieve", "retrieves", "Whose vectors. Default: dense.")
@click.option(
    "--index",
    "indexes",
    multiple=True,
    metavar=STAGE,
    help="hnsw (links, construction, breadth) or ivf (cells, probes); a bare name tries several. Default: both.",
)
@SIZE
@metrics_option("Default: mrr and ndcg.")
@option("--share", metavar="VALUE", help="Of the exact answer, for the quickest. Default: 0.99.")
@seed_option("Of the graph and of k-means.")
@LINES
def ann(
    source: CorpusOptions,
    split: str,
    retrieves: tuple[str, ...],
    indexes: tuple[str, ...],
    k: int,
    metrics: tuple[str, ...],
    share: str | None,
    seed: int,
    as_json: bool,
) -> None:
    """Measure approximate search against the exact one: quality, time and memory (extra `ann`)."""
    import engine
    from engine.evaluation.studies.ann import ENOUGH, conclusions
    from engine.evaluation.studies.ann_indexes import faiss_module

    faiss_module()
    use_threads()
    least = ENOUGH.default if share is None else ENOUGH.parse(share) or 0.0
    chosen = make_stages(retrieves or ("dense",), "retrieve")
    settings = partial(_indexes, indexes)
    settings(1)  # refuses wrong settings before anything is embedded
    rows: list[Any] = []
    stopped = False
    with Meter() as meter:
        dataset, space, queries = source.load_judged(split, meter)
        try:
            for scorer in chosen:
                for row in engine.approximate(
                    scorer, space, queries, dataset.qrels[split], indexes=settings,
                    k=k, metrics=metrics or None, seed=seed, progress=meter,
                ):  # fmt: skip
                    rows.append(row)
        except KeyboardInterrupt:
            stopped = True
    if as_json:
        for row in rows:
            echo_json(row.as_json())
    elif rows:
        _echo_tables(rows)
        echo(f"{len(queries):,} queries one at a time on one thread; exact@k: the share of the exact top-k found.")
        echo_lines(conclusions(rows, least))
    if stopped:
        raise Cancelled(f"{len(rows)} searches were measured; none is kept")


def _echo_tables(rows: Sequence[Any]) -> None:
    """One for each scorer."""
    from engine.evaluation.metrics import METRICS

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


@main.command()
@SOURCE
@SPLIT
@stages_option("select", "selectors", "Default: every selector that has a weight of relevance.")
@size_option("sizes", ("10", "20", "50", "100"))
@click.option("--weight", "weights", multiple=True, type=float, default=(0.5, 0.7, 0.9), help="Of relevance.")
@option("--calls", type=int, default=9, help="How many queries are timed.")
@click.option(
    "--plain/--no-plain", default=True, help="mmr, dpp, max_sum without swaps: also as their papers print them."
)
@LINES
def latency(
    source: CorpusOptions,
    split: str,
    selectors: tuple[str, ...],
    sizes: list[int],
    weights: tuple[float, ...],
    calls: int,
    plain: bool,
    as_json: bool,
) -> None:
    """Measure what one query takes by k and by the weight of relevance: one at a time, on one thread."""
    from engine.evaluation.studies.latency import latencies
    from engine.stages import RELEVANCE_WEIGHT, methods

    weighted = [n for n, spec in methods("selector").items() if RELEVANCE_WEIGHT.name in {p.name for p in spec.params}]
    stages = make_stages(selectors or weighted, "select")
    rows: list[Any] = []
    with Meter() as meter:
        _, space, queries = source.load_judged(split, meter)
        try:
            for row in latencies(stages, space, queries, sizes, weights, calls=calls, plain=plain, progress=meter):
                rows.append(row)
        except KeyboardInterrupt:
            raise Cancelled(f"{len(rows)} times were measured; none is kept") from None
    if as_json:
        for row in rows:
            echo_json(row.as_json())
        return
    _echo_latencies(rows)
    echo(
        f"\nMedian milliseconds of {len(rows[0].seconds)} queries one at a time on one thread, the dense scores "
        f"included; {rows[0].documents:,} documents. slope: of log time in log k, 1 is linear, and its 95% interval."
    )


def _echo_latencies(rows: Sequence[Any]) -> None:
    """Selectors as rows, sizes as columns, and where there are enough of them how time grows."""
    from engine.evaluation.studies.latency import LEAST_SIZES, slope

    sizes = sorted({row.k for row in rows})
    steep = len(sizes) >= LEAST_SIZES
    lines = [("ms a query by k", *(f"{k:,}" for k in sizes), *(["slope"] if steep else []))]
    for name in dict.fromkeys(row.name for row in rows):
        own = [row for row in rows if row.name == name]
        times = tuple(f"{row.milliseconds:.2f}" for row in own)
        grows = slope(own) if steep else None
        lines.append((name, *times, *([f"{grows.value:.2f} [{grows.low:.2f}, {grows.high:.2f}]"] if grows else [])))
    echo(aligned(lines))


@main.command()
@SOURCE
@SPLIT
@stages_option("select", "selectors", "Default: the first one.")
@stages_option("retrieve", "retrieves", "Default: dense.")
@click.option("--words", "budgets", multiple=True, type=int, help="A budget. Default: 50 to 1600.")
@size_option(default="50")
@click.option("--answers", "answered", is_flag=True, help="Also answer strings, of answers.tsv in the corpus' folder.")
@LINES
def budget(
    source: CorpusOptions,
    split: str,
    selectors: tuple[str, ...],
    retrieves: tuple[str, ...],
    budgets: tuple[int, ...],
    k: int,
    answered: bool,
    as_json: bool,
) -> None:
    """Measure Recall within budgets of words: what a reader of so many words gets, best document first."""
    from engine.evaluation.metrics import METRICS
    from engine.evaluation.studies.budget_curve import BUDGETS, budget_curve

    use_threads()
    decoders = _decoders(selectors, retrieves)
    with Meter() as meter:
        dataset, space, queries = source.load_judged(split, meter)
        answers = read_answers(source.corpus, dataset) if answered else None
        rows = list(budget_curve(decoders, space, queries, dataset.qrels[split], answers, budgets or BUDGETS, k))
    if as_json:
        for row in rows:
            echo_json(asdict(row))
        return
    for metric in dict.fromkeys(row.metric for row in rows):
        own = [row for row in rows if row.metric == metric]
        sizes = list(dict.fromkeys(row.budget for row in own))
        lines = [
            (label, *(f"{row.mean:.4f} ({row.documents:.1f})" for row in own if row.label == label))
            for label in dict.fromkeys(row.label for row in own)
        ]
        title = METRICS[metric].title.partition(" in ")[0]
        echo(
            aligned([(f"{title} within words, {own[0].queries:,} queries", *(f"{n:,}" for n in sizes)), *lines]) + "\n"
        )
    echo(f"Of the first {rows[0].k if rows else k}; in brackets how many documents are read.")


def _indexes(texts: tuple[str, ...], count: int) -> list[Any]:
    """The settings that `--index` names; a bare name stands for those usual for so many vectors."""
    from engine.errors import ParamError
    from engine.evaluation.studies.ann_indexes import INDEXES, usual
    from engine.params import params_of, parsed

    settings: list[Any] = []
    for text in texts or tuple(INDEXES):
        name, values = parse_name(text, "index")
        if name not in INDEXES:
            raise ParamError(f"--index must be one of {', '.join(INDEXES)}; got {name!r}")
        params = params_of(INDEXES[name])
        settings += [INDEXES[name](**parsed(params, values, name))] if values else usual(count, [name])
    return settings
