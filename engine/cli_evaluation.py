"""Commands that measure many decoders: sweep, compare, tune."""

from __future__ import annotations

import json
import threading
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import click

from engine.cli import CORPUS, QRELS, Meter, main, use_threads
from engine.cli_encoding import ENCODING, Encoding, asked_of, embedded
from engine.cli_kinds import aligned, by_kind, of_kinds, plain_strata
from engine.errors import Cancelled


def kept_in(default: str) -> Any:
    """The option that names the store."""
    return click.option(
        "--store", default=default, show_default=True, metavar="FILE", help="Where finished cells are kept."
    )


WORKERS = click.option("--workers", type=int, default=None, help="Processes on this machine; default: this one alone.")
CLUSTER = click.option(
    "--cluster",
    default=None,
    metavar="ADDRESS",
    help="A Dask scheduler, tcp://127.0.0.1:8786 say. It runs what its clients send it: only one that you trust.",
)
POINTS = click.option("--points", default=11, show_default=True, help="Values of each parameter that is swept.")


def setting(text: str, stage: str = "select") -> tuple[str, dict[str, Any]]:
    """A method's name and what is given of it, from text like `mmr` or `nnn:l2=0.1,fill=strict`.

    stage: the option that the text is of.
    """
    from engine.cli import STAGES
    from engine.params import parsed
    from engine.stages import spec_of

    name, texts = named(text, stage)
    kind = next(kind for option, kind, _ in STAGES if option == stage)
    return name, parsed(spec_of(name, kind).params, texts, name)


def named(text: str, option: str) -> tuple[str, dict[str, str]]:
    """The name and the texts of its parameters, from an option's text like `nnn:l2=0.1,fill=strict`."""
    name, _, rest = text.partition(":")
    pairs = [pair.partition("=") for pair in rest.split(",") if pair]
    if any(not sign for _, sign, _ in pairs):
        raise click.UsageError(f"--{option} takes NAME or NAME:PARAMETER=VALUE,…; got {text!r}")
    return name, {key.replace("-", "_"): value for key, _, value in pairs}


def scorers(texts: tuple[str, ...], stage: str) -> list[Any]:
    """The scorers that an option's texts name."""
    from engine.stages import make

    return [make(name, **given) for name, given in (setting(text, stage) for text in texts)]


@main.command()
@CORPUS
@QRELS
@click.option("--split", default="test", show_default=True, help="Whose judged queries are decoded.")
@click.option("--select", "selectors", multiple=True, metavar="NAME[:PARAM=VALUE,…]", help="Default: every selector.")
@click.option("--retrieve", "retrieves", multiple=True, metavar="NAME[:PARAM=VALUE,…]", help="Default: dense.")
@click.option("--rerank", "reranks", multiple=True, metavar="NAME[:PARAM=VALUE,…]", help="Default: none.")
@click.option("--depth", default=None, metavar="VALUE", help="How many are reranked and chosen from. Default: all.")
@POINTS
@click.option(
    "-k", "ks", multiple=True, default=("5", "10"), show_default=True, help="How many documents a query gets."
)
@click.option("--metric", "metrics", multiple=True, help="Default: all that can be measured.")
@kept_in("sweep.db")
@WORKERS
@CLUSTER
@ENCODING
@click.option("--json", "as_json", is_flag=True, help="One JSON object a cell.")
def sweep(
    corpus: str,
    qrels: str,
    split: str,
    selectors: tuple[str, ...],
    retrieves: tuple[str, ...],
    reranks: tuple[str, ...],
    depth: str | None,
    points: int,
    ks: tuple[str, ...],
    metrics: tuple[str, ...],
    store: str,
    workers: int | None,
    cluster: str | None,
    encoding: Encoding,
    as_json: bool,
) -> None:
    """Measure decoders over their parameters; what is finished is kept, and not computed again."""
    import engine
    from engine.decoder import DEPTH, SET_SIZE
    from engine.evaluation.metrics import available
    from engine.evaluation.sweep import sweep as run
    from engine.stages import methods

    use_threads()
    chosen = [setting(text) for text in selectors or methods("selector")]
    pool = DEPTH.default if depth is None else DEPTH.parse(depth)
    chains = product(scorers(retrieves or ("dense",), "retrieve"), scorers(reranks, "rerank") or [None])
    settings = [d for name, fixed in chosen for d in engine.grid(name, points, **fixed)]
    decoders = [replace(d, retrieve=r, rerank=again, depth=pool) for r, again in chains for d in settings]
    decoders = list(dict.fromkeys(decoders))
    sizes = sorted({SET_SIZE.parse(k) for k in ks})
    with Meter() as meter:
        dataset = engine.load_dataset(corpus, qrels=qrels, progress=meter)
        asked = dataset.judged(split)
        space = embedded(dataset, encoding, progress=meter)
        queries = asked_of(space, asked, progress=meter)
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
            click.echo(json.dumps(plain_cell(cell), ensure_ascii=False))
        return
    width = max(len(cell.label) for cell in cells)
    click.echo(f"{'decoder':<{width}}    k  " + "  ".join(f"{name:>9}" for name in names) + "  returned  ms/query")
    order = {d.label: place for place, d in enumerate(decoders)}
    for cell in sorted(cells, key=lambda c: (c.k, order.get(c.label, 0))):
        values = "  ".join(f"{cell.mean[name]:>9.4f}" for name in names)
        click.echo(f"{cell.label:<{width}}  {cell.k:>3}  {values}  {cell.returned:>8.2f}  {cell.milliseconds:>8.3f}")
    click.echo(f"\n{len(cells)} cells of {len(queries):,} queries in {store}")


def plain_cell(cell: Any) -> dict[str, Any]:
    """A cell as JSON, without its values for every query."""
    mean = {name: value if value == value else None for name, value in cell.mean.items()}
    kept = ("label", "method", "k", "split", "left_out", "returned", "milliseconds", "key", "digest")
    rest = {"decoder": cell.decoder, "mean": mean, "provenance": dict(cell.provenance), "queries": len(cell.queries)}
    return {name: getattr(cell, name) for name in kept} | rest


def swept(store: str, split: str | None, k: int | None) -> tuple[list[Any], int]:
    """The cells of one data set and split in a store, and the k asked for, by default the largest."""
    from engine.evaluation.store import Store

    if not Path(store).is_file():
        raise click.UsageError(f"no such store: {store!r}; `frontier sweep --store {store}` makes one")
    points = [p for p in Store(store).points() if split in (None, p.split)]
    if not points:
        raise click.UsageError(f"{store} holds no cells" + (f" of split {split!r}" if split else ""))
    if len(splits := sorted({p.split for p in points})) > 1:
        raise click.UsageError(f"{store} holds the splits {', '.join(splits)}: say which with --split")
    if len({(p.provenance["embeddings"], p.provenance["queries"]) for p in points}) > 1:
        raise click.UsageError(
            f"{store} holds several data sets, whose queries cannot be compared: keep a store for each"
        )
    sizes = sorted({p.k for p in points})
    if k is not None and k not in sizes:
        raise click.UsageError(f"{store} has no cells at k = {k}; it has {', '.join(map(str, sizes))}")
    return points, k or sizes[-1]


def of_a_store(command: Any) -> Any:
    """The argument and the options of a command on a finished sweep."""
    for option in reversed(
        (
            click.argument("store", metavar="STORE"),
            click.option("--split", default=None, help="Needed where the store holds several."),
            click.option("-k", "k", type=int, default=None, help="Default: the largest in the store."),
            click.option("--x", "across", default="ilad", show_default=True, help="The frontier's x axis, a metric."),
            click.option("--y", "up", default="recall", show_default=True, help="Its y axis."),
            click.option("--baseline", default=None, help="A method or a label; default: the first selector's."),
        )
    ):
        command = option(command)
    return of_kinds(command)


@main.command()
@of_a_store
@click.option("--metric", "metrics", multiple=True, help="Of the table. Default: those of the store.")
@click.option("--out", "files", multiple=True, metavar="FILE", help=".md .tex: the table; .csv .parquet: every cell.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def compare(
    store: str,
    split: str | None,
    k: int | None,
    across: str,
    up: str,
    baseline: str | None,
    by: str | None,
    corpus: str | None,
    qrels: str,
    metrics: tuple[str, ...],
    files: tuple[str, ...],
    as_json: bool,
) -> None:
    """The frontier of a finished sweep, and who differs from the baseline for certain."""
    from engine.evaluation.frontier import frontier
    from engine.evaluation.metrics import METRICS
    from engine.evaluation.statistics import compare as against
    from engine.evaluation.statistics import summary
    from engine.evaluation.tables import frame, latex, markdown, results, write

    if bad := [f for f in files if Path(f).suffix.lower() not in (".md", ".tex", ".csv", ".parquet")]:
        raise click.UsageError(f"--out takes .md, .tex, .csv or .parquet; got {bad[0]!r}")
    points, k = swept(store, split, k)
    names = metrics or tuple(points[0].values)
    found = frontier(points, across, up, k)
    table = results(points, names, baseline, k)
    first = table.rows[0][0]
    rows = against(points, up, first, k)
    strata = by_kind(points, across, up, k, baseline, by, corpus, qrels) if by else None
    for file in files:
        match Path(file).suffix.lower():
            case ".md":
                Path(file).write_text(markdown(table), encoding="utf-8")
            case ".tex":
                Path(file).write_text(latex(table), encoding="utf-8")
            case _:
                write(frame(points), file)
    if as_json:
        front = [{"decoder": p.point.decoder, "name": p.name, across: p.x, up: p.y} for p in found.front]
        said = {"k": k, "queries": found.queries, "baseline": first, "summary": summary(rows)}
        area = {"hypervolume": found.hypervolume, "reference": found.reference}
        groups = {"by": strata.as_json()} if strata else {}
        click.echo(json.dumps({**said, **area, "front": front, **groups}, ensure_ascii=False))
        return
    click.echo(f"Not dominated in {across}@{k} and {up}@{k}, over {found.queries:,} queries:")
    for p in found.front:
        click.echo(f"  {p.x:.4f}  {p.y:.4f}  {p.name}")
    click.echo(f"Hypervolume {found.hypervolume:.5f} above ({found.reference[0]:.4f}, {found.reference[1]:.4f})\n")
    click.echo(_plain_table(table))
    click.echo(f"\n{table.caption}\n\n{summary(rows)}")
    if strata:
        click.echo(f"\n{METRICS[up].title}@{k} by {strata.title}, each method's best setting:\n{plain_strata(strata)}")
    for file in files:
        click.echo(f"written: {file}")


def _plain_table(table: Any) -> str:
    """A table of results as a terminal shows it."""
    from engine.evaluation.tables import ARROWS

    lines = [table.head]
    for row, marks in zip(table.rows, table.marks, strict=True):
        lines.append(tuple(cell + ARROWS[mark].ljust(2) for cell, mark in zip(row, marks, strict=True)))
    return aligned(lines)


@main.command()
@CORPUS
@QRELS
@click.option("--select", "selector", default=None, metavar="NAME[:PARAM=VALUE,…]", help="Tune this selector.")
@click.option("--retrieve", default=None, metavar="NAME[:PARAM=VALUE,…]", help="Tune this scorer instead.")
@click.option("--objective", default="maximise", show_default=True, help="maximise, diverse or knee.")
@click.option("--metric", default=None, help="What is maximised; default: comp.")
@click.option("--share", type=float, default=None, help="Of the baseline's Recall, what diverse keeps; default: .95.")
@click.option("--dev", default="dev", show_default=True, help="The split that chooses.")
@click.option("--test", default="test", show_default=True, help="The split that reports; none for no report.")
@click.option("--halve", is_flag=True, help="Choose on one half of the split --dev and report on the other.")
@click.option("-k", "k", default="10", show_default=True, help="How many documents a query gets.")
@POINTS
@click.option("--trials", type=int, default=64, show_default=True, help="Settings tried beyond two parameters.")
@click.option("--seed", type=int, default=0, show_default=True, help="Of the search and of the draws.")
@kept_in("tune.db")
@WORKERS
@CLUSTER
@click.option("--export", "target", default=None, help="Print the chosen setting: python, json, command, langchain, …")
@ENCODING
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def tune(
    corpus: str,
    qrels: str,
    selector: str | None,
    retrieve: str | None,
    objective: str,
    metric: str | None,
    share: float | None,
    dev: str,
    test: str,
    halve: bool,
    k: str,
    points: int,
    trials: int,
    seed: int,
    store: str,
    workers: int | None,
    cluster: str | None,
    target: str | None,
    encoding: Encoding,
    as_json: bool,
) -> None:
    """Choose a setting on one split, and report it on another beside the baseline."""
    import engine
    from engine.decoder import SET_SIZE
    from engine.evaluation.export import Use, export
    from engine.evaluation.objectives import Objective
    from engine.evaluation.splits import halved
    from engine.evaluation.tune import tune as run

    use_threads()
    if (selector is None) == (retrieve is None):
        raise click.UsageError("name what is tuned, one of --select (a selector) and --retrieve (a scorer)")
    name, fixed = setting(selector, "select") if selector is not None else setting(retrieve or "", "retrieve")
    given = {key: value for key, value in (("metric", metric), ("share", share)) if value is not None}
    aim = Objective(objective, **given)
    with Meter() as meter:
        dataset = engine.load_dataset(corpus, qrels=qrels, progress=meter)
        splits = halved(dataset.qrels[dev], seed) if halve and dev in dataset.qrels else dataset.qrels
        wanted_splits = ["dev", "test"] if halve else [dev, *([] if test == "none" else [test])]
        if missing := [s for s in ([dev] if halve else wanted_splits) if s not in dataset.qrels]:
            known = ", ".join(dataset.qrels) or "none"
            raise click.UsageError(f"no split {missing[0]!r}; there are {known} (--halve makes two of one)")
        space = embedded(dataset, encoding, progress=meter)
        queries = dataset.queries.only({q for s in wanted_splits for q in splits[s].grades})
        asked = asked_of(space, queries, progress=meter)
        stop = threading.Event()
        try:
            tuned = run(
                name, space, asked, splits, objective=aim, k=SET_SIZE.parse(k), dev=wanted_splits[0],
                test=wanted_splits[1] if len(wanted_splits) > 1 else None, points=points, fixed=fixed,
                aspects=dataset.aspects, trials=trials, seed=seed, store=store, workers=workers, cluster=cluster,
                progress=meter, stop=stop,
            )  # fmt: skip
        except KeyboardInterrupt:
            stop.set()
            raise Cancelled(f"what is finished is in {store}; the same command goes on from there") from None
        meter.clear()
    if as_json:
        click.echo(json.dumps(tuned.as_json(), ensure_ascii=False))
        return
    for sentence in tuned.sentences:
        click.echo(sentence)
    if target:
        use = Use(k=tuned.k, corpus=corpus, encoder=encoding.encoder, documents=len(space), trained=encoding.trained)
        click.echo("\n" + export(tuned.decoder, target, use).text)
