"""Training from the command line: a command a recipe, its flags made from the declared parameters."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click

import engine
from engine.cli.group import Meter, stop_on_interrupt, use_threads
from engine.cli.inputs import Encoding, ReadOptions, check_splits, embed_corpus, embed_queries
from engine.cli.options import (
    ENCODER,
    READING,
    DeclaredCommand,
    declared_flags,
    flag_values,
    grouped,
    json_option,
    option,
    seed_option,
    split_option,
)
from engine.cli.output import aligned, echo, echo_json, echo_lines
from engine.errors import Cancelled
from engine.params import Param, params_of
from engine.progress import format_duration
from engine.training.checkpoints import Unfit
from engine.training.comparison import Table
from engine.training.cross_encoder import HISTORY_FILE, Look, Reranking
from engine.training.experiment import Course, Foreseen, course, foreseen
from engine.training.metrics import Epoch
from engine.training.recipes import RECIPES
from engine.values import Dataset

PREFIX = "param__"
DATA_HELP = "A BEIR folder with judged queries, or numpy-api."
LEARN = split_option("The split that is learnt from.", default="train", name="--train", dest="learn")
DEV = split_option("The split that says which epoch was the best.", default="dev", name="--dev")
SEED = seed_option("Same seed, same weights.")
JSON = json_option("One JSON object, at the end.")


def _flags(params: Sequence[Param]) -> list[click.Option]:
    def describe(param: Param) -> str:
        return f"{param.symbol}, {param.domain}, default {param.text(param.default)}. {param.help}"

    return declared_flags(params, PREFIX, describe)


@dataclass(frozen=True, kw_only=True)
class _Training(Encoding, ReadOptions):
    """Values of the options that every training has."""

    data: str
    learn: str
    dev: str
    out: str
    seed: int
    as_json: bool

    def load(self, meter: Meter) -> Dataset:
        return self.read(self.data, progress=meter)


@dataclass(frozen=True, kw_only=True)
class _CourseOptions(_Training):
    """Values of the options that every recipe's command has."""

    test: str
    divide: str | None
    start: str | None


COURSE = grouped(
    "chosen",
    _CourseOptions,
    click.option("--data", "--corpus", "data", required=True, metavar="NAME|PATH", help=DATA_HELP),
    READING,
    LEARN,
    DEV,
    split_option("The split of the table.", name="--test"),
    option("--divide", metavar="SPLIT", help="Make the three of this one: 60%, 20% and 20%."),
    click.option("--out", required=True, metavar="FOLDER", help="For the checkpoints; what is there is not redone."),
    option(
        "--start",
        metavar="FILE",
        help="A checkpoint to begin with, in place of a dense one, which has 20 epochs whatever --epochs says.",
    ),
    SEED,
    ENCODER,
    JSON,
)


def commands() -> dict[str, click.Command]:
    """Every training's command by its name."""
    return {"cross_encoder": cross_encoder, **{name: _recipe_command(name) for name in RECIPES}}


def _recipe_command(method: str) -> click.Command:
    recipe = RECIPES[method]
    params = recipe.parameters()

    @click.command(method, DeclaredCommand, help=recipe.__doc__, flags=lambda: _flags(params))
    @COURSE
    def run(chosen: _CourseOptions, **texts: str | None) -> None:
        _train(method, flag_values(texts, PREFIX, params, f"training {method}"), chosen)

    return run


def _train(method: str, params: Mapping[str, Any], chosen: _CourseOptions) -> None:
    """Estimate a course, run it, and print what it came to."""
    use_threads()
    with Meter() as meter:
        dataset = _load_splits(chosen, meter)
        space = embed_corpus(dataset, chosen, progress=meter)
        splits = {chosen.learn, chosen.dev, chosen.test} & dataset.qrels.keys()
        judged = {query for split in splits for query in dataset.qrels[split].grades}
        queries = embed_queries(space, dataset.queries.only(judged), progress=meter)
        inputs = (method, space, queries, dataset.qrels)
        shared: dict[str, Any] = {
            "train": chosen.learn,
            "dev": chosen.dev,
            "test": chosen.test,
            "start": None if chosen.start is None else engine.load_trained(chosen.start, space),
            "progress": meter,
            **params,
        }
        estimate = foreseen(*inputs, **{**shared, "progress": None})
        if not chosen.as_json:
            meter.echo(_estimate_line(estimate))

        watch = None if chosen.as_json else lambda *epoch: meter.echo(_epoch_line(*epoch))
        try:
            with stop_on_interrupt() as stop:
                result = course(*inputs, folder=chosen.out, seed=chosen.seed, watch=watch, stop=stop, **shared)
        except Unfit as error:
            raise Unfit(error.why, "give another --out, or the same parameters and data as before") from None
        if result.table is None:
            raise Cancelled(
                f"what was best so far is in {chosen.out}; the same command goes on from the last whole epoch"
            )
    if chosen.as_json:
        echo_json(_course_json(result, result.table, Path(chosen.out)))
    else:
        for name, stage in result.stages.items():
            echo(f"{name}: best after epoch {stage.best.epoch}; {stage.stopped}; {stage.decoder.label}")
        echo(f"\nOn {result.table.queries:,} queries of {result.table.split}, percent ± standard error:")
        echo(aligned([result.table.head, *result.table.rows]) + "\n")
        echo_lines(result.table.sentences)
        if result.verdict:
            echo(f"\n{result.verdict}")
        if result.table.split == chosen.dev:
            echo("The best epochs were chosen by these queries, so they look better on them than on others.")
        files = (str(Path(chosen.out) / f"{name}.safetensors") for name in result.stages)
        echo(f"\nwritten: {', '.join(files)}")


def _load_splits(chosen: _CourseOptions, meter: Meter) -> Dataset:
    """The data set with the splits that the course needs."""
    dataset, divide = chosen.load(meter), chosen.divide
    hint = "" if divide or not dataset.qrels else "; --divide makes three of one"
    check_splits(dataset.qrels, (chosen.learn, chosen.dev) if divide is None else (divide,), hint)
    if divide is None:
        return dataset
    parts = engine.parted(dataset.qrels[divide], chosen.seed).values()
    return replace(dataset, qrels=dict(zip((chosen.learn, chosen.dev, chosen.test), parts, strict=True)))


def _estimate_line(estimate: Foreseen) -> str:
    method = estimate.method
    stages = ", ".join(f"{name} {format_duration(stage.seconds) or '0 s'}" for name, stage in estimate.stages.items())
    parts = [f"{method.queries:,} queries with {method.mean_relevant:.2f} relevant documents each"]
    parts += [f"{method.left_out:,} with none left out"] * bool(method.left_out)
    parts += [f"{estimate.repeated:,} with the text of one of another split left out"] * bool(estimate.repeated)
    seconds = format_duration(method.seconds_an_epoch) or "0 s"
    return f"{', '.join(parts)}; an epoch of {method.steps:,} steps takes about {seconds}; at most: {stages}"


def _epoch_line(stage: str, epoch: Epoch) -> str:
    d = epoch.dev
    parts = [f"{stage} {'start' if epoch.epoch < 0 else f'epoch {epoch.epoch}'}".ljust(20)]
    parts += [f"loss {epoch.loss:.4f}"] if epoch.loss is not None else []
    parts += [f"dev Comp@3 {d.comp3:.4f}", f"Comp@5 {d.comp5:.4f} ± {d.comp5_se:.4f}", f"Recall@5 {d.recall5:.4f}"]
    if epoch.support is not None:
        parts += [f"{epoch.support:.1f} with a weight", f"empty {epoch.empty:.1%}", f"outside {epoch.outside:.1%}"]
        parts += [f"without a loss {epoch.satisfied:.1%}"]
    return "  ".join([*parts, f"{epoch.seconds:.1f} s"])


def _course_json(result: Course, table: Table, out: Path) -> dict[str, Any]:
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
            for name, stage in result.stages.items()
        },
        "split": table.split,
        "queries": table.queries,
        "table": {
            name: {f"{metric}@{k}": table.mean(name, metric, k)[0] for metric, k in columns}
            for name, columns in table.values.items()
        },
        "told": list(table.sentences),
    }


@dataclass(frozen=True, kw_only=True)
class _CrossEncoderOptions(_Training):
    """Values of the options of `train cross_encoder`."""

    model: str


@click.command("cross_encoder", DeclaredCommand, flags=lambda: _flags(params_of(Reranking)))
@grouped(
    "chosen",
    _CrossEncoderOptions,
    click.option("--data", required=True, metavar="NAME|PATH", help=DATA_HELP),
    READING,
    click.option("--model", required=True, metavar="NAME|PATH", help="The cross-encoder to begin with."),
    LEARN,
    DEV,
    click.option("--out", required=True, metavar="FOLDER", help="A new folder for the model and its history."),
    SEED,
    ENCODER,
    JSON,
)
def cross_encoder(chosen: _CrossEncoderOptions, **texts: str | None) -> None:
    """A cross-encoder that reranks what a first stage retrieves; the encoder is for a dense one. Wants a GPU."""
    use_threads()
    params = flag_values(texts, PREFIX, params_of(Reranking), "training a cross-encoder")
    with Meter() as meter:
        dataset = chosen.load(meter)
        check_splits(dataset.qrels, (chosen.learn, chosen.dev))
        corpus: Any = dataset.corpus
        queries: Any = dataset.queries
        if params.get("retrieve") == "dense":
            corpus = embed_corpus(dataset, chosen, progress=meter)
            judged = {query for split in (chosen.learn, chosen.dev) for query in dataset.qrels[split].grades}
            queries = embed_queries(corpus, queries.only(judged), progress=meter)

        watch = None if chosen.as_json else lambda look: meter.echo(_look_line(look))
        with stop_on_interrupt() as stop:
            folder = engine.train_cross_encoder(
                chosen.model, corpus, queries, dataset.qrels, out=chosen.out, train=chosen.learn, dev=chosen.dev,
                seed=chosen.seed, device=chosen.device, watch=watch, progress=meter, stop=stop, **params,
            )  # fmt: skip
    record = json.loads((folder / HISTORY_FILE).read_text("utf-8"))
    if chosen.as_json:
        return echo_json({"folder": str(folder), **record})
    best = "the model as it was" if record["best"] < 0 else f"after epoch {record['best']}"
    echo(f"{record['stopped']}; best: {best}; written: {folder}, for the scorer cross_encoder(model={folder})")


def _look_line(look: Look) -> str:
    epoch = "start" if look.epoch < 0 else f"epoch {look.epoch}"
    loss = "" if look.loss is None else f"  loss {look.loss:.4f}"
    return (
        f"{epoch:<9}{loss}  dev nDCG@10 {look.ndcg:.4f} ± {look.ndcg_se:.4f}  MRR@10 {look.mrr:.4f} ± {look.mrr_se:.4f}"
    )
