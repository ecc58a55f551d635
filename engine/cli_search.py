"""Commands on the ways to search: depths (how much a reranker gets to see) and ann (approximate search)."""

from __future__ import annotations

import json
import threading
from functools import partial
from itertools import product
from typing import Any

import click

from engine.cli import CORPUS, QRELS, Meter, main, use_threads
from engine.cli_encoding import ENCODING, Encoding, asked_of, embedded
from engine.cli_evaluation import CLUSTER, WORKERS, kept_in, named, plain_cell, scorers, setting
from engine.cli_kinds import aligned
from engine.errors import Cancelled

SPLIT = click.option("--split", default="test", show_default=True, help="Whose judged queries are asked.")
SIZE = click.option("-k", "k", default="10", show_default=True, help="How many documents a query gets.")
LINES = click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")


@main.command()
@CORPUS
@QRELS
@SPLIT
@click.option("--rerank", "reranks", multiple=True, required=True, metavar="NAME[:PARAM=VALUE,…]", help="Scores again.")
@click.option("--retrieve", "retrieves", multiple=True, metavar="NAME[:PARAM=VALUE,…]", help="Default: dense.")
@click.option("--select", "selectors", multiple=True, metavar="NAME[:PARAM=VALUE,…]", help="Default: the first one.")
@click.option("--depth", "depths", multiple=True, metavar="N", help="How many are reranked. Default: 10 to 1000.")
@SIZE
@click.option("--metric", "metrics", multiple=True, default=("mrr",), show_default=True, help="What is measured.")
@kept_in("depths.db")
@WORKERS
@CLUSTER
@ENCODING
@LINES
def depths(
    corpus: str,
    qrels: str,
    split: str,
    reranks: tuple[str, ...],
    retrieves: tuple[str, ...],
    selectors: tuple[str, ...],
    depths: tuple[str, ...],
    k: str,
    metrics: tuple[str, ...],
    store: str,
    workers: int | None,
    cluster: str | None,
    encoding: Encoding,
    as_json: bool,
) -> None:
    """Measure rerankers by how many of the retrieved documents they get to see."""
    import engine
    from engine.decoder import DEPTH, SET_SIZE
    from engine.evaluation.depths import DEPTHS
    from engine.evaluation.metrics import METRICS
    from engine.stages import make, methods

    use_threads()
    chosen = [make(name, **given) for name, given in map(setting, selectors or list(methods("selector"))[:1])]
    chains = product(chosen, scorers(retrieves or ("dense",), "retrieve"), scorers(reranks, "rerank"))
    decoders = [engine.Decoder(select, first, again) for select, first, again in chains]
    wanted = [DEPTH.parse(depth) for depth in depths] or DEPTHS
    cells: list[Any] = []
    with Meter() as meter:
        dataset = engine.load_dataset(corpus, qrels=qrels, progress=meter)
        asked = dataset.judged(split)
        space = embedded(dataset, encoding, progress=meter)
        queries = asked_of(space, asked, progress=meter)
        stop = threading.Event()
        found = engine.rerank_depths(
            decoders, space, queries, dataset.qrels[split], depths=wanted, k=SET_SIZE.parse(k), metrics=metrics,
            split=split, aspects=dataset.aspects, store=store, workers=workers, cluster=cluster, progress=meter,
            stop=stop,
        )  # fmt: skip
        try:
            cells.extend(found)
        except (KeyboardInterrupt, Cancelled):
            stop.set()
            found.close()
            meter.clear()
            raise Cancelled(f"what is finished is in {store}; the same command goes on from there") from None
        meter.clear()
    if as_json:
        for cell in cells:
            click.echo(json.dumps(plain_cell(cell), ensure_ascii=False))
        return
    tried = sorted({cell.decoder["depth"] for cell in cells})
    at = {(_chain(cell), cell.decoder["depth"]): cell for cell in cells}
    for metric in dict.fromkeys(metrics):
        lines = [(f"{METRICS[metric].title}@{cells[0].k} by depth", *(f"{depth:,}" for depth in tried))]
        for decoder in decoders:
            row = [at[_chain_of(decoder), depth].mean[metric] for depth in tried]
            lines.append((decoder.label, *(f"{value:.4f}" for value in row)))
        click.echo(aligned(lines) + "\n")
    times = [(decoder.label, *(f"{at[_chain_of(decoder), n].milliseconds:.2f}" for n in tried)) for decoder in decoders]
    click.echo(aligned([("ms a query by depth", *(f"{depth:,}" for depth in tried)), *times]))
    click.echo(f"\n{len(cells)} cells of {len(queries):,} queries in {store}")


def _chain(cell: Any) -> str:
    """What a cell's decoder is but for its depth."""
    return json.dumps({**cell.decoder, "depth": None}, sort_keys=True)


def _chain_of(decoder: Any) -> str:
    from engine.evaluation.points import as_json

    return json.dumps({**as_json(decoder), "depth": None}, sort_keys=True)


@main.command()
@CORPUS
@QRELS
@SPLIT
@click.option(
    "--retrieve", "retrieves", multiple=True, metavar="NAME[:PARAM=VALUE,…]", help="Whose vectors. Default: dense."
)
@click.option(
    "--index",
    "indexes",
    multiple=True,
    metavar="NAME[:PARAM=VALUE,…]",
    help="hnsw (links, construction, breadth) or ivf (cells, probes); a bare name tries several. Default: both.",
)
@SIZE
@click.option("--metric", "metrics", multiple=True, help="Default: mrr and ndcg.")
@click.option("--share", default=None, metavar="VALUE", help="Of the exact answer, for the quickest. Default: 0.99.")
@click.option("--seed", type=int, default=0, show_default=True, help="Of the graph and of k-means.")
@ENCODING
@LINES
def ann(
    corpus: str,
    qrels: str,
    split: str,
    retrieves: tuple[str, ...],
    indexes: tuple[str, ...],
    k: str,
    metrics: tuple[str, ...],
    share: str | None,
    seed: int,
    encoding: Encoding,
    as_json: bool,
) -> None:
    """Measure approximate search against the exact one: quality, time and memory (extra `ann`)."""
    import engine
    from engine.decoder import SET_SIZE
    from engine.evaluation.approximate import ENOUGH, conclusions
    from engine.evaluation.indexes import faiss_module

    faiss_module()
    use_threads()
    least = ENOUGH.default if share is None else ENOUGH.parse(share)
    chosen = scorers(retrieves or ("dense",), "retrieve")
    settings = partial(_indexes, indexes)
    settings(1)  # whatever is wrong with them is said before anything is embedded
    rows: list[Any] = []
    stopped = False
    with Meter() as meter:
        dataset = engine.load_dataset(corpus, qrels=qrels, progress=meter)
        asked = dataset.judged(split)
        space = embedded(dataset, encoding, progress=meter)
        queries = asked_of(space, asked, progress=meter)
        try:
            for scorer in chosen:
                for row in engine.approximate(
                    scorer, space, queries, dataset.qrels[split], indexes=settings,
                    k=SET_SIZE.parse(k), metrics=metrics or None, seed=seed, progress=meter,
                ):  # fmt: skip
                    rows.append(row)
        except KeyboardInterrupt:
            stopped = True
        meter.clear()
    for row in rows if as_json else ():
        click.echo(json.dumps(row.as_json(), ensure_ascii=False))
    if not as_json and rows:
        _tables(rows)
        click.echo(
            f"{len(queries):,} queries one at a time on one thread; exact@k: the share of the exact top-k found."
        )
        for sentence in conclusions(rows, least):
            click.echo(sentence)
    if stopped:
        raise Cancelled(f"{len(rows)} searches were measured; none is kept")


def _tables(rows: list[Any]) -> None:
    """One for each scorer."""
    from engine.evaluation.metrics import METRICS

    names = list(rows[0].mean)
    titles = (f"exact@{rows[0].k}", *(f"{METRICS[m].title}@{rows[0].k}" for m in names))
    for scorer in dict.fromkeys(row.scorer for row in rows):
        own = [row for row in rows if row.scorer == scorer]
        lines = [("index", *titles, "ms/query", "built in s", "MB")]
        for row in own:
            values = (f"{value:.4f}" for value in (row.share, *(row.mean[m] for m in names)))
            lines.append((row.label, *values, f"{row.milliseconds:.3f}", f"{row.build:.2f}", f"{row.megabytes:.1f}"))
        many = own[0]
        click.echo(f"{scorer}: {many.entries:,} vectors, {many.per_document:.2f} a document\n{aligned(lines)}\n")


def _indexes(texts: tuple[str, ...], count: int) -> list[Any]:
    """The settings that `--index` names; a bare name stands for those usual for so many vectors."""
    from engine.errors import ParamError
    from engine.evaluation.indexes import INDEXES, usual
    from engine.params import params_of, parsed

    found: list[Any] = []
    for text in texts or tuple(INDEXES):
        name, given = named(text, "index")
        if name not in INDEXES:
            raise ParamError(f"--index must be one of {', '.join(INDEXES)}; got {name!r}")
        params = params_of(INDEXES[name])
        found += [INDEXES[name](**parsed(params, given, name))] if given else usual(count, [name])
    return found
