"""Training from the command line: one command a method, its flags made from what the method declares."""

from __future__ import annotations

import json
import signal
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from engine.cli import QRELS, Meter, main, use_threads
from engine.cli_encoding import ENCODER, Encoding, asked_of, embedded
from engine.errors import Cancelled
from engine.progress import spoken

PREFIX = "param__"


@main.group()
def train() -> None:
    """Train embeddings for a decoder, and compare them with what they must be compared with."""


class FromRecipe(click.Command):
    """A command whose flags are made, when it is first needed, from what a method declares."""

    def declared(self) -> Any:
        from engine.learning.training.recipes import declared

        return declared(self.name)

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        flags = []
        for p in self.declared():
            text = f"{p.symbol}, {p.domain}, default {p.text(p.default)}. {p.help}"
            flags.append(click.Option([p.flag, PREFIX + p.name], default=None, metavar="VALUE", help=text))
        return [*super().get_params(ctx), *flags]


def _command(method: str, about: str) -> None:
    """Enter the command of a method."""

    @train.command(name=method, cls=FromRecipe, help=about)
    @click.option(
        "--data",
        "--corpus",
        "data",
        required=True,
        metavar="NAME|PATH",
        help="A BEIR folder with judged queries, or numpy-api.",
    )
    @QRELS
    @click.option("--train", "learn", default="train", show_default=True, help="The split that is learnt from.")
    @click.option("--dev", default="dev", show_default=True, help="The split that says which epoch was the best.")
    @click.option("--test", default="test", show_default=True, help="The split of the table.")
    @click.option("--divide", default=None, metavar="SPLIT", help="Make the three of this one: 60, 20 and 20 %.")
    @click.option("--out", required=True, metavar="FOLDER", help="For the checkpoints; what is there is not redone.")
    @click.option(
        "--start",
        default=None,
        metavar="FILE",
        help="A checkpoint to begin with, in place of a dense one, which has 20 epochs whatever --epochs says.",
    )
    @click.option("--seed", type=int, default=0, show_default=True, help="Same seed, same weights.")
    @ENCODER
    @click.option("--json", "as_json", is_flag=True, help="One JSON object, at the end.")
    def run(**given: Any) -> None:
        texts = {k.removeprefix(PREFIX): v for k, v in given.items() if k.startswith(PREFIX) and v is not None}
        _run(method, texts, **{k: v for k, v in given.items() if not k.startswith(PREFIX)})


def _run(
    method: str,
    texts: dict[str, str],
    data: str,
    qrels: str,
    learn: str,
    dev: str,
    test: str,
    divide: str | None,
    out: str,
    start: str | None,
    seed: int,
    encoding: Encoding,
    as_json: bool,
) -> None:
    import engine
    from engine.learning.training.checkpoints import Unfit
    from engine.learning.training.course import course, foreseen
    from engine.learning.training.recipes import declared
    from engine.params import parsed

    use_threads()
    params = parsed(declared(method), texts, f"training {method}")
    with Meter() as meter:
        dataset = engine.load_dataset(data, qrels=qrels, progress=meter)
        there = ", ".join(dataset.qrels) or "none"
        if missing := [s for s in ((learn, dev) if divide is None else (divide,)) if s not in dataset.qrels]:
            hint = "" if divide or not dataset.qrels else "; --divide makes three of one"
            raise click.UsageError(f"no split {missing[0]!r}; there are {there}{hint}")
        if divide is not None:
            parts = zip((learn, dev, test), engine.parted(dataset.qrels[divide], seed).values(), strict=True)
            dataset = replace(dataset, qrels=dict(parts))
        space = embedded(dataset, encoding, progress=meter)
        wanted = {q for split in {learn, dev, test} & dataset.qrels.keys() for q in dataset.qrels[split].grades}
        queries = asked_of(space, dataset.queries.only(wanted), progress=meter)
        splits = {"train": learn, "dev": dev}
        begun = None if start is None else engine.load_trained(start, space)
        before = foreseen(method, space, queries, dataset.qrels, **splits, test=test, start=begun, **params)
        meter.clear()
        if not as_json:
            own = before.method
            stages = ", ".join(f"{name} {spoken(stage.seconds) or '0 s'}" for name, stage in before.stages.items())
            click.echo(
                f"{own.queries:,} queries with {own.mean_relevant:.2f} relevant documents each"
                + (f", {own.left_out:,} with none left out" if own.left_out else "")
                + (f", {before.repeated:,} with the text of one of another split left out" if before.repeated else "")
                + f"; an epoch of {own.steps:,} steps takes about {spoken(own.seconds_an_epoch) or '0 s'}; at most: "
                + stages
            )
        stop = threading.Event()
        # The step that is under way is finished first; a second Ctrl-C ends the program as usual.
        usual = signal.signal(signal.SIGINT, lambda *_: (stop.set(), signal.signal(signal.SIGINT, usual)))

        def seen(stage: str, epoch: Any) -> None:
            meter.clear()
            if not as_json:
                click.echo(_line(stage, epoch))

        try:
            found = course(
                method, space, queries, dataset.qrels, **splits, test=test, start=begun, folder=out, seed=seed,
                watch=seen, progress=meter, stop=stop, **params,
            )  # fmt: skip
        except Unfit as error:
            raise Unfit(error.why, "give another --out, or the same parameters and data as before") from None
        finally:
            signal.signal(signal.SIGINT, usual)
        meter.clear()
        if found.table is None:
            raise Cancelled(f"what was best so far is in {out}; the same command goes on from the last whole epoch")
    if as_json:
        click.echo(json.dumps(_plain(found, Path(out)), ensure_ascii=False))
        return
    for name, stage in found.stages.items():
        click.echo(f"{name}: best after epoch {stage.best.epoch}; {stage.stopped}; {stage.decoder.label}")
    click.echo(f"\nOn {found.table.queries:,} queries of {found.table.split}, percent ± standard error:")
    lines = [found.table.head, *found.table.rows]
    widths = [max(len(line[i]) for line in lines) for i in range(len(found.table.head))]
    for name, *cells in lines:
        click.echo("  ".join([name.ljust(widths[0]), *(c.rjust(w) for c, w in zip(cells, widths[1:], strict=True))]))
    click.echo()
    for sentence in found.table.sentences:
        click.echo(sentence)
    if found.verdict:
        click.echo(f"\n{found.verdict}")
    if found.table.split == dev:
        click.echo("The best epochs were chosen by these queries, so they look better on them than on others.")
    click.echo(f"\nwritten: {', '.join(str(Path(out) / f'{name}.safetensors') for name in found.stages)}")


def _line(stage: str, epoch: Any) -> str:
    """An epoch as one line."""
    d = epoch.dev
    parts = [f"{stage} {'start' if epoch.epoch < 0 else f'epoch {epoch.epoch}'}".ljust(20)]
    parts += [f"loss {epoch.loss:.4f}"] if epoch.loss is not None else []
    parts += [f"dev Comp@3 {d.comp3:.4f}", f"Comp@5 {d.comp5:.4f} ± {d.comp5_se:.4f}", f"Recall@5 {d.recall5:.4f}"]
    if epoch.support is not None:
        parts += [f"{epoch.support:.1f} with a weight", f"empty {epoch.empty:.1%}", f"outside {epoch.outside:.1%}"]
        parts += [f"without a loss {epoch.satisfied:.1%}"]
    return "  ".join([*parts, f"{epoch.seconds:.1f} s"])


def _plain(found: Any, out: Path) -> dict[str, Any]:
    table = found.table
    return {
        "stages": {
            name: {
                "file": str(out / f"{name}.safetensors"),
                "params": stage.recipe.as_json(),
                "decoder": stage.decoder.label,
                "best": stage.run.best,
                "stopped": stage.stopped,
                "history": [epoch.as_json() for epoch in stage.history],
            }
            for name, stage in found.stages.items()
        },
        "split": table.split,
        "queries": table.queries,
        "table": {
            name: {f"{metric}@{k}": table.mean(name, metric, k)[0] for metric, k in own}
            for name, own in table.values.items()
        },
        "told": list(table.sentences),
    }


class FromReranking(FromRecipe):
    """The same of a cross-encoder."""

    def declared(self) -> Any:
        from engine.learning.training.cross_encoder import Reranking
        from engine.params import params_of

        return params_of(Reranking)


@train.command(name="cross_encoder", cls=FromReranking)
@click.option("--data", required=True, metavar="NAME|PATH", help="A BEIR folder with judged queries, or numpy-api.")
@QRELS
@click.option("--model", required=True, metavar="NAME|PATH", help="The cross-encoder to begin with.")
@click.option("--train", "learn", default="train", show_default=True, help="The split that is learnt from.")
@click.option("--dev", default="dev", show_default=True, help="The split that says which epoch was the best.")
@click.option("--out", required=True, metavar="FOLDER", help="A new folder for the model and its history.")
@click.option("--seed", type=int, default=0, show_default=True, help="Same seed, same weights.")
@ENCODER
@click.option("--json", "as_json", is_flag=True, help="One JSON object, at the end.")
def cross_encoder(
    data: str, qrels: str, model: str, learn: str, dev: str, out: str, seed: int, encoding: Encoding, as_json: bool,
    **given: Any,
) -> None:  # fmt: skip
    """A cross-encoder that reranks what a first stage retrieves; the encoder is for a dense one. Wants a GPU."""
    import engine
    from engine.learning.training.cross_encoder import SAID, Reranking
    from engine.params import params_of, parsed

    use_threads()
    texts = {k.removeprefix(PREFIX): v for k, v in given.items() if v is not None}
    params = parsed(params_of(Reranking), texts, "training a cross-encoder")
    with Meter() as meter:
        dataset = engine.load_dataset(data, qrels=qrels, progress=meter)
        if missing := [s for s in (learn, dev) if s not in dataset.qrels]:
            raise click.UsageError(f"no split {missing[0]!r}; there are {', '.join(dataset.qrels) or 'none'}")
        corpus, queries = dataset.corpus, dataset.queries
        if params.get("retrieve") == "dense":
            corpus = embedded(dataset, encoding, progress=meter)
            wanted = {query for split in (learn, dev) for query in dataset.qrels[split].grades}
            queries = asked_of(corpus, queries.only(wanted), progress=meter)
        stop = threading.Event()
        usual = signal.signal(signal.SIGINT, lambda *_: (stop.set(), signal.signal(signal.SIGINT, usual)))

        def seen(look: Any) -> None:
            meter.clear()
            if not as_json:
                click.echo(
                    ("start" if look.epoch < 0 else f"epoch {look.epoch}").ljust(9)
                    + ("" if look.loss is None else f"  loss {look.loss:.4f}")
                    + f"  dev nDCG@10 {look.ndcg:.4f} ± {look.ndcg_se:.4f}  MRR@10 {look.mrr:.4f} ± {look.mrr_se:.4f}"
                )

        try:
            found = engine.train_cross_encoder(
                model, corpus, queries, dataset.qrels, out=out, train=learn, dev=dev, seed=seed,
                device=encoding.device,
                watch=seen, progress=meter, stop=stop, **params,
            )  # fmt: skip
        finally:
            signal.signal(signal.SIGINT, usual)
    said = json.loads((found / SAID).read_text("utf-8"))
    if as_json:
        click.echo(json.dumps({"folder": str(found), **said}, ensure_ascii=False))
        return
    best = "the model as it was" if said["best"] < 0 else f"after epoch {said['best']}"
    click.echo(f"{said['stopped']}; best: {best}; written: {found}, for the scorer cross_encoder(model={found})")


# The methods' names and lines stand here, too, so that the command line starts without torch; a test compares them.
for _method, _about in (
    ("dense", "Inner products: a relevant document above the irrelevant ones."),
    ("nnn", "Sets of weights: all relevant documents above all irrelevant ones, by a margin."),
    ("colt", "Inner products of embeddings that graphs of queries, documents and scenes have mixed."),
    (
        "dual_encoder",
        "One vector of k dimensions: a projection of the embeddings, learnt against sampled and hard negatives.",
    ),
    ("multi_vector", "Several vectors of k dimensions a document, the best of which counts; learnt as one is."),
):
    _command(_method, _about)
