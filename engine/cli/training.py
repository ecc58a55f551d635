"""Training from the command line: a command a recipe, its flags made from the declared parameters."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click

import engine
from engine.cli.group import Meter, stop_on_interrupt, use_threads
from engine.cli.inputs import (
    DatasetCheck,
    Encoding,
    ReadOptions,
    check_splits,
    embed_and_warn,
    embed_corpus,
    select_judged,
)
from engine.cli.options import (
    ENCODER,
    READING,
    DeclaredCommand,
    declared_flags,
    flag_values,
    group_options,
    json_option,
    option,
    seed_option,
    split_option,
)
from engine.cli.output import echo, echo_json, echo_lines, format_columns
from engine.errors import Cancelled
from engine.evaluation.paired import format_decoder_call
from engine.params import Param, params_of
from engine.progress import counted, format_duration
from engine.training.checkpoints import Unfit
from engine.training.comparison import Table
from engine.training.cross_encoder import HISTORY_FILE, Look, Reranking
from engine.training.experiment import Course, Foreseen, course, foreseen
from engine.training.metrics import Epoch
from engine.training.recipes import RECIPES
from engine.values import Dataset

PARAM_PREFIX = "param__"
DATA_HELP = "A BEIR folder with labelled queries, or numpy-api."
LEARN_SPLIT = split_option("The split that is learnt from.", default="train", name="--train", dest="learn")
DEV_SPLIT = split_option("The split that says which epoch was the best.", default="dev", name="--dev")
TRAINING_SEED = seed_option("Same seed, same weights.")
JSON_FLAG = json_option("One JSON object, at the end.")


def _build_flags(declared_params: Sequence[Param]) -> list[click.Option]:
    """Build a flag for each declared parameter of a training, with symbol, domain and default in its help."""

    def describe(param: Param) -> str:
        """Return the help of a parameter's flag: symbol, domain, default and meaning."""
        return f"{param.symbol}, {param.domain}, default {param.text(param.default)}. {param.help}"

    return declared_flags(declared_params, PARAM_PREFIX, describe)


@dataclass(frozen=True, kw_only=True)
class _Training(Encoding, ReadOptions):
    """Options that every training command has."""

    data: str
    learn: str  # the split that is learnt from
    dev: str  # the split that chooses the best epoch
    out: str
    seed: int
    as_json: bool

    def load(self, meter: Meter, check: DatasetCheck | None = None) -> Dataset:
        return self.read(self.data, check, progress=meter)


@dataclass(frozen=True, kw_only=True)
class _CourseOptions(_Training):
    """Options of every command that trains embeddings by a recipe."""

    test: str  # the split of the final table
    divide: str | None  # a split that is divided into the three, None to take them as they are
    start: str | None  # a checkpoint to begin with


COURSE_OPTIONS = group_options(
    "chosen",
    _CourseOptions,
    click.option("--data", "--corpus", "data", required=True, metavar="NAME|PATH", help=DATA_HELP),
    READING,
    LEARN_SPLIT,
    DEV_SPLIT,
    split_option("The split of the table.", name="--test"),
    option("--divide", metavar="SPLIT", help="Make the three of this one: 60%, 20% and 20%."),
    click.option("--out", required=True, metavar="FOLDER", help="For the checkpoints; what is there is not redone."),
    option(
        "--start",
        metavar="FILE",
        help="A checkpoint to begin with, in place of a dense one, which has 20 epochs whatever --epochs says.",
    ),
    TRAINING_SEED,
    ENCODER,
    JSON_FLAG,
)


def commands() -> dict[str, click.Command]:
    """Return every training command by name."""
    return {"cross_encoder": cross_encoder, **{recipe_name: _recipe_command(recipe_name) for recipe_name in RECIPES}}


def _recipe_command(method_name: str) -> click.Command:
    """Build the command that trains one method; its help is the docstring of the method's recipe."""
    recipe = RECIPES[method_name]
    declared_params = recipe.parameters()

    @click.command(method_name, DeclaredCommand, help=recipe.__doc__, flags=lambda: _build_flags(declared_params))
    @COURSE_OPTIONS
    def run(chosen: _CourseOptions, **texts: str | None) -> None:
        _run_course(method_name, flag_values(texts, PARAM_PREFIX, declared_params, f"training {method_name}"), chosen)

    return run


def _run_course(method_name: str, param_values: Mapping[str, Any], options: _CourseOptions) -> None:
    """Train a method, and beside it what it is compared with; print the estimated time and the results.

    The stages are the models that are trained one after the other: a dense start, a control, and the method. Each one
    keeps its best epoch by the dev split in a file of the folder --out, from which a stopped training goes on; all are
    compared on the test split. param_values: of the method's recipe. Raises Cancelled if it was stopped.
    """
    use_threads()
    with Meter() as meter:
        dataset = _load_splits(options, meter)
        space = embed_corpus(dataset, options, progress=meter)
        split_names = {options.learn, options.dev, options.test} & dataset.qrels.keys()
        judged_queries = select_judged(dataset.queries, dataset.qrels, split_names)
        queries = embed_and_warn(space, judged_queries, progress=meter)
        inputs = (method_name, space, queries, dataset.qrels)
        # Arguments of both the estimate and the training.
        shared: dict[str, Any] = {
            "train": options.learn,
            "dev": options.dev,
            "test": options.test,
            "start": None if options.start is None else engine.load_trained(options.start, space),
            "progress": meter,
            **param_values,
        }
        # The estimate is printed before training starts, so that a run of days can be stopped at once.
        estimate = foreseen(*inputs, **{**shared, "progress": None})
        if not options.as_json:
            meter.echo(_estimate_line(estimate))

        callback = None if options.as_json else lambda *epoch: meter.echo(_epoch_line(*epoch))
        try:
            with stop_on_interrupt() as stop:
                result = course(*inputs, folder=options.out, seed=options.seed, watch=callback, stop=stop, **shared)
        # The folder may hold a training with other parameters or data, whose error does not know of --out.
        except Unfit as error:
            raise Unfit(error.why, "give another --out, or the same parameters and data as before") from None
        if result.table is None:
            raise Cancelled(
                f"what was best so far is in {options.out}; the same command goes on from the last whole epoch"
            )
    if options.as_json:
        echo_json(_course_json(result, result.table, Path(options.out)))
    else:
        for stage_name, stage in result.stages.items():
            decoder_name = format_decoder_call(stage.decoder)
            echo(f"{stage_name}: best after epoch {stage.best.epoch}; {stage.stopped}; {decoder_name}")
        echo(
            f"\nOn {counted(result.table.queries, 'query', 'queries')} of {result.table.split}, percent ± standard "
            "error:"
        )
        echo(format_columns([result.table.head, *result.table.rows]) + "\n")
        echo_lines(result.table.sentences)
        if result.verdict:
            echo(f"\n{result.verdict}")
        if result.table.split == options.dev:
            echo("The best epochs were chosen by these queries, so they look better on them than on others.")
        checkpoint_files = (str(Path(options.out) / f"{stage_name}.safetensors") for stage_name in result.stages)
        echo(f"\nwritten: {', '.join(checkpoint_files)}")


def _load_splits(options: _CourseOptions, meter: Meter) -> Dataset:
    """Load the data set with the splits to learn from, to choose the epoch by, and to test on.

    With --divide they are made of one split: 60%, 20% and 20% of its queries. Raises UsageError for a missing split.
    """
    divide = options.divide

    def check(dataset: Dataset) -> None:
        """Raise UsageError for a missing split."""
        hint = "" if divide or not dataset.qrels else "; --divide makes three of one"
        check_splits(dataset.qrels, (options.learn, options.dev) if divide is None else (divide,), hint)

    dataset = options.load(meter, check)
    if divide is None:
        return dataset
    split_qrels = engine.parted(dataset.qrels[divide], options.seed).values()
    return replace(dataset, qrels=dict(zip((options.learn, options.dev, options.test), split_qrels, strict=True)))


def _estimate_line(estimate: Foreseen) -> str:
    """Format the estimate of a training before it starts: its queries, and the longest time of each stage.

    A stage trains one model: the initial model, a control to compare with, and last the method's own.
    """
    method = estimate.method
    stages = ", ".join(f"{name} {format_duration(stage.seconds) or '0 s'}" for name, stage in estimate.stages.items())
    line_parts = [
        f"{counted(method.queries, 'query', 'queries')} with {method.mean_relevant:.2f} relevant documents each"
    ]
    if method.left_out:
        line_parts.append(f"left out: {method.left_out:,} without a relevant document")
    if estimate.repeated:
        line_parts.append(f"left out: {estimate.repeated:,} whose text a query of another split has too")
    epoch_time = format_duration(method.seconds_an_epoch) or "0 s"
    return f"{', '.join(line_parts)}; an epoch of {method.steps:,} steps takes about {epoch_time}; at most: {stages}"


def _epoch_line(stage_name: str, epoch: Epoch) -> str:
    """Format the metrics of one epoch of training on the dev split; epoch −1 is the model before training.

    Comp@k is the share of queries of which all relevant documents are in the top k. A sparse decoder gives only some
    documents a weight: printed are their number, the share of queries without any ("empty"), and the share of relevant
    documents that got none ("outside"). stage_name: the model that is trained, of the several that a recipe may train
    one after the other.
    """
    d = epoch.dev
    parts = [f"{stage_name} {'start' if epoch.epoch < 0 else f'epoch {epoch.epoch}'}".ljust(20)]
    parts += [f"loss {epoch.loss:.4f}"] if epoch.loss is not None else []
    parts += [f"dev Comp@3 {d.comp3:.4f}", f"Comp@5 {d.comp5:.4f} ± {d.comp5_se:.4f}", f"Recall@5 {d.recall5:.4f}"]
    # Only sparse decoders have a support.
    if epoch.support is not None:
        parts += [f"{epoch.support:.1f} with a weight", f"empty {epoch.empty:.1%}", f"outside {epoch.outside:.1%}"]
        parts += [f"without a loss {epoch.satisfied:.1%}"]
    return "  ".join([*parts, f"{epoch.seconds:.1f} s"])


def _course_json(course_result: Course, result_table: Table, checkpoint_folder: Path) -> dict[str, Any]:
    """Return the results of a training as plain JSON values: its stages, and the table on the test split.

    A stage is one model that was trained, with its history by epoch; checkpoint_folder: where their files are.
    """
    return {
        "stages": {
            name: {
                "file": str(checkpoint_folder / f"{name}.safetensors"),
                "params": trained_stage.recipe.as_json(),
                "decoder": trained_stage.decoder.label,
                "best": trained_stage.run.best,
                "stopped": trained_stage.stopped,
                "history": [epoch.as_json() for epoch in trained_stage.history],
            }
            for name, trained_stage in course_result.stages.items()
        },
        "split": result_table.split,
        "queries": result_table.queries,
        "table": {
            name: {f"{metric_name}@{k}": result_table.mean(name, metric_name, k)[0] for metric_name, k in table_columns}
            for name, table_columns in result_table.values.items()
        },
        "told": list(result_table.sentences),
    }


@dataclass(frozen=True, kw_only=True)
class _CrossEncoderOptions(_Training):
    """Options of `train cross_encoder`."""

    model: str


@click.command("cross_encoder", DeclaredCommand, flags=lambda: _build_flags(params_of(Reranking)))
@group_options(
    "chosen",
    _CrossEncoderOptions,
    click.option("--data", required=True, metavar="NAME|PATH", help=DATA_HELP),
    READING,
    click.option("--model", required=True, metavar="NAME|PATH", help="The cross-encoder to begin with."),
    LEARN_SPLIT,
    DEV_SPLIT,
    click.option("--out", required=True, metavar="FOLDER", help="A new folder for the model and its history."),
    TRAINING_SEED,
    ENCODER,
    JSON_FLAG,
)
def cross_encoder(chosen: _CrossEncoderOptions, **texts: str | None) -> None:
    """Train a cross-encoder that reranks what a first stage retrieves.

    The encoder is for a dense one. Wants a GPU.
    """
    use_threads()
    params = flag_values(texts, PARAM_PREFIX, params_of(Reranking), "training a cross-encoder")
    with Meter() as meter:
        dataset = chosen.load(meter, lambda dataset: check_splits(dataset.qrels, (chosen.learn, chosen.dev)))
        # A dense first stage needs embeddings; a lexical one works on the texts.
        corpus: Any = dataset.corpus
        queries: Any = dataset.queries
        if params.get("retrieve") == "dense":
            corpus = embed_corpus(dataset, chosen, progress=meter)
            judged_queries = select_judged(queries, dataset.qrels, (chosen.learn, chosen.dev))
            queries = embed_and_warn(corpus, judged_queries, progress=meter)

        epoch_callback = None if chosen.as_json else lambda look: meter.echo(_look_line(look))
        with stop_on_interrupt() as stop_event:
            folder = engine.train_cross_encoder(
                chosen.model, corpus, queries, dataset.qrels, out=chosen.out, train=chosen.learn, dev=chosen.dev,
                seed=chosen.seed, device=chosen.device, watch=epoch_callback, progress=meter, stop=stop_event, **params,
            )  # fmt: skip
    history_record = json.loads((folder / HISTORY_FILE).read_text("utf-8"))
    if chosen.as_json:
        return echo_json({"folder": str(folder), **history_record})
    # Epoch −1 is the model before training.
    best = "the model as it was" if history_record["best"] < 0 else f"after epoch {history_record['best']}"
    echo(f"{history_record['stopped']}; best: {best}; written: {folder}, for the scorer cross_encoder(model={folder})")


def _look_line(look: Look) -> str:
    """Format the metrics of a cross-encoder after an epoch; epoch −1 is the model before training."""
    epoch = "start" if look.epoch < 0 else f"epoch {look.epoch}"
    loss = "" if look.loss is None else f"  loss {look.loss:.4f}"
    means = f"dev nDCG@10 {look.ndcg:.4f} ± {look.ndcg_se:.4f}  MRR@10 {look.mrr:.4f} ± {look.mrr_se:.4f}"
    return f"{epoch:<9}{loss}  {means}"
