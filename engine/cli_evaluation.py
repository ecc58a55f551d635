"""Commands that measure many decoders: sweep."""

from __future__ import annotations

import json
import threading
from typing import Any

import click

from engine.cli import CORPUS, DEVICE, DTYPE, ENCODER, QRELS, Meter, embedded, main, use_threads
from engine.errors import Cancelled


def judged(corpus: str, qrels: str, splits: tuple[str, ...], meter: Meter, **how: Any) -> tuple[Any, Any, list[Any]]:
    """The data set, its space, and the embedded queries of each split."""
    import engine

    dataset = engine.load_dataset(corpus, qrels=qrels, progress=meter)
    asked = [dataset.judged(split) for split in splits]
    space = embedded(dataset, progress=meter, **how)
    if space.embeddings.encoder is None:
        raise click.UsageError("the corpus came with its own vectors, so its queries cannot be embedded")
    return dataset, space, [engine.embed(queries, progress=meter, **how) for queries in asked]


def wanted(texts: tuple[str, ...], points: int) -> list[Any]:
    """Decoders from texts like `mmr` or `nnn:l2=0.1,fill=strict`: what is not given is swept."""
    from engine.evaluation.sweep import grid
    from engine.params import parsed
    from engine.stages import spec_of

    found = []
    for text in texts:
        name, _, rest = text.partition(":")
        pairs = [pair.partition("=") for pair in rest.split(",") if pair]
        if any(not sign for _, sign, _ in pairs):
            raise click.UsageError(f"--select takes NAME or NAME:PARAMETER=VALUE,…; got {text!r}")
        params = spec_of(name, "selector").params
        found += grid(name, points, **parsed(params, {key.replace("-", "_"): value for key, _, value in pairs}, name))
    return list(dict.fromkeys(found))


@main.command()
@CORPUS
@QRELS
@click.option("--split", default="test", show_default=True, help="Whose judged queries are decoded.")
@click.option("--select", "selectors", multiple=True, metavar="NAME[:PARAM=VALUE,…]", help="Default: every selector.")
@click.option("--points", default=11, show_default=True, help="Values of each parameter that is swept.")
@click.option(
    "-k", "ks", multiple=True, default=("5", "10"), show_default=True, help="How many documents a query gets."
)
@click.option("--metric", "metrics", multiple=True, help="Default: all that can be measured.")
@click.option("--store", default="sweep.db", show_default=True, metavar="FILE", help="Where finished cells are kept.")
@click.option("--workers", type=int, default=None, help="Processes on this machine; default: none but this one.")
@click.option(
    "--cluster", default=None, metavar="ADDRESS", help="A Dask scheduler you trust, tcp://127.0.0.1:8786 say."
)
@ENCODER
@DTYPE
@DEVICE
@click.option("--json", "as_json", is_flag=True, help="One JSON object a cell.")
def sweep(
    corpus: str,
    qrels: str,
    split: str,
    selectors: tuple[str, ...],
    points: int,
    ks: tuple[str, ...],
    metrics: tuple[str, ...],
    store: str,
    workers: int | None,
    cluster: str | None,
    encoder: str,
    dtype: str,
    device: str | None,
    as_json: bool,
) -> None:
    """Measure decoders over their parameters; what is finished is kept, and not computed again."""
    from engine.decoder import SET_SIZE
    from engine.evaluation.metrics import available
    from engine.evaluation.sweep import sweep as run
    from engine.stages import methods

    use_threads()
    decoders = wanted(selectors or tuple(methods("selector")), points)
    sizes = sorted({SET_SIZE.parse(k) for k in ks})
    how = {"encoder": encoder, "dtype": dtype, "device": device}
    with Meter() as meter:
        dataset, space, (queries,) = judged(corpus, qrels, (split,), meter, **how)
        names = metrics or available(dataset.qrels[split], dataset.aspects, queries)
        stop, total, done = threading.Event(), len(decoders) * len(sizes), 0
        found = run(
            decoders, space, queries, dataset.qrels[split], sizes, names, split=split, aspects=dataset.aspects,
            store=store, workers=workers, cluster=cluster, progress=meter, stop=stop,
        )  # fmt: skip
        cells: list[Any] = []
        try:
            for cell in found:
                done += 1
                cells.append(cell)
        except (KeyboardInterrupt, Cancelled):
            stop.set()
            found.close()
            meter.clear()
            raise Cancelled(f"{done} of {total} cells are in {store}; the same command goes on from there") from None
        meter.clear()
    if as_json:
        for cell in cells:
            click.echo(json.dumps(_plain(cell), ensure_ascii=False))
        return
    width = max(len(cell.label) for cell in cells)
    click.echo(f"{'decoder':<{width}}    k  " + "  ".join(f"{name:>9}" for name in names) + "  returned  ms/query")
    order = {d.label: place for place, d in enumerate(decoders)}
    for cell in sorted(cells, key=lambda c: (c.k, order.get(c.label, 0))):
        values = "  ".join(f"{cell.mean[name]:>9.4f}" for name in names)
        click.echo(f"{cell.label:<{width}}  {cell.k:>3}  {values}  {cell.returned:>8.2f}  {cell.milliseconds:>8.3f}")
    click.echo(f"\n{len(cells)} cells of {len(queries):,} queries in {store}")


def _plain(cell: Any) -> dict[str, Any]:
    """A cell as JSON, without its values for every query."""
    mean = {name: value if value == value else None for name, value in cell.mean.items()}
    kept = ("label", "method", "k", "split", "left_out", "returned", "milliseconds", "key", "digest")
    rest = {"decoder": cell.decoder, "mean": mean, "provenance": dict(cell.provenance), "queries": len(cell.queries)}
    return {name: getattr(cell, name) for name in kept} | rest
