"""Options that several commands share, and flags made of declared parameters."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from engine.cli.group import Meter
from engine.cli.output import echo_notices
from engine.params import Param, parsed

if TYPE_CHECKING:
    from engine.values import Dataset

Decorator = Callable[[Any], Any]

STAGE = "NAME[:PARAM=VALUE,…]"
"""How an option names a method and its parameters."""
STAGES: tuple[tuple[str, Literal["selector", "scorer"], str], ...] = (
    ("select", "selector", ""),
    ("retrieve", "scorer", "retrieve-"),
    ("rerank", "scorer", "rerank-"),
)
"""A decoder's stages: the option, its kind of method, the prefix of that method's flags."""


def option(*names: str, default: Any = None, **attributes: Any) -> Decorator:
    """An option whose help shows its default, where it has one."""
    return click.option(*names, default=default, show_default=default is not None, **attributes)


def corpus_option(multiple: bool = False, more: str = "") -> Decorator:
    """The option that names a corpus, or several; more: what its help says beside what can be named."""
    said = "numpy-api, python-api, a BEIR folder, or a .csv .tsv .jsonl .parquet .npy .npz file."
    start = "numpy-api"
    return option(
        "--corpus",
        default=(start,) if multiple else start,
        multiple=multiple,
        metavar="NAME|PATH",
        help=f"{said} {more}".rstrip(),
    )


CORPUS = corpus_option()

QRELS = option(
    "--qrels",
    default="qrels",
    metavar="FOLDER",
    help="The folder of judgements inside a BEIR folder, or one elsewhere with queries.jsonl and qrels/.",
)
POINTS = option("--points", default=11, help="Values of each parameter that is swept.")


def options(*decorators: Decorator) -> Decorator:
    """One decorator of several, listed in this order."""

    def decorate(command: Any) -> Any:
        for decorator in reversed(decorators):
            command = decorator(command)
        return command

    return decorate


@dataclass(frozen=True, kw_only=True)
class ReadOptions:
    """How a corpus is read."""

    qrels: str = "qrels"  # the folder of judgements
    separator: str | None = None  # of a .csv file, None guesses
    repeated: str = "refuse"  # what is done about ids that occur twice
    where: Mapping[str, Sequence[str]] | None = None  # column → values, of the documents that are read
    columns: Mapping[str, str] | None = None  # of a table: text, id or title → column, None guesses

    def read(self, source: str, **more: Any) -> Dataset:
        """The data set of a demo, a folder or a file; says on stderr what is odd about it."""
        import engine

        dataset: Dataset = engine.load_dataset(source, **self.reading, **more)
        if isinstance(meter := more.get("progress"), Meter):
            meter.clear()
        echo_notices(dataset.notices)
        return dataset

    @property
    def reading(self) -> dict[str, Any]:
        """The arguments of `engine.load_dataset` that are not its defaults."""
        given = {field.name: (getattr(self, field.name), field.default) for field in fields(ReadOptions)}
        return {name: value for name, (value, default) in given.items() if value and value != default}


def _parse_where(_ctx: click.Context, parameter: click.Parameter, texts: Sequence[str]) -> dict[str, list[str]]:
    """Column → values."""
    where: dict[str, list[str]] = {}
    for text in texts:
        column, sign, value = text.partition("=")
        if not sign:
            raise click.UsageError(f"{parameter.opts[0]} takes {parameter.metavar}; got {text!r}")
        where.setdefault(column, []).append(value)
    return where


def _parse_columns(ctx: click.Context, parameter: click.Parameter, texts: Sequence[str]) -> dict[str, str] | None:
    """What a column is → its name; None where nothing is named."""
    return {role: names[-1] for role, names in _parse_where(ctx, parameter, texts).items()} or None


TABLE = options(
    click.option(
        "--column",
        "columns",
        multiple=True,
        metavar="ROLE=COLUMN",
        callback=_parse_columns,
        help="Which column of a table is the text, the id, the title: text=body, id='doc no'. Default: guessed.",
    ),
    option(
        "--separator",
        metavar="MARK",
        callback=lambda _ctx, _parameter, text: "\t" if text == "tab" else text,
        help="Between the columns of a .csv file: a character, or tab. Default: guessed from the header.",
    ),
    option(
        "--repeated",
        type=click.Choice(["refuse", "first", "number"]),
        default="refuse",
        help="Rows with an id that an earlier row has: an error, only the first is kept, or the others are numbered.",
    ),
    click.option(
        "--where",
        multiple=True,
        metavar="COLUMN=VALUE",
        callback=_parse_where,
        help="Only documents with this value in a column; several of one column: any of them.",
    ),
)
READING = options(QRELS, TABLE)
"""The options of a ReadOptions."""


def grouped(name: str, kind: type, *decorators: Decorator) -> Decorator:
    """Options whose values a command gets as one dataclass, `kind`, under a name."""

    def decorate(command: Any) -> Any:
        @wraps(command)
        def run(**arguments: Any) -> Any:
            names = [field.name for field in fields(kind) if field.name in arguments]
            return command(**{name: kind(**{field: arguments.pop(field) for field in names})}, **arguments)

        return options(*decorators)(run)

    return decorate


def _parse_sizes(ctx: click.Context, parameter: click.Parameter, text: str | tuple[str, ...]) -> Any:
    """The value of -k, or its values: set sizes. Raises ParamError."""
    from engine.decoder import SET_SIZE

    return SET_SIZE.parse(text) if isinstance(text, str) else sorted({SET_SIZE.parse(one) for one in text})


def size_option(dest: str = "k", default: str | tuple[str, ...] = "10") -> Decorator:
    """The option of a set's size; of several sizes where the default is several."""
    help, several = "How many documents a query gets.", not isinstance(default, str)
    return option("-k", dest, default=default, multiple=several, callback=_parse_sizes, help=help)


SIZE = size_option()


@dataclass(frozen=True)
class Execution:
    """How cells are computed: the store that keeps them, processes on this machine, a Dask scheduler."""

    store: str
    workers: int | None
    cluster: str | None


def execution_options(store: str) -> Decorator:
    """The options of an Execution; store: the default."""
    return grouped(
        "execution",
        Execution,
        option("--store", default=store, metavar="FILE", help="Where finished cells are kept."),
        option("--workers", type=int, help="Processes on this machine; default: this one alone."),
        option(
            "--cluster",
            metavar="ADDRESS",
            help="A Dask scheduler, tcp://127.0.0.1:8786 say. It runs what its clients send it: only one that you "
            "trust.",
        ),
    )


def file_option(*names: str, default: str | None = None, **attributes: Any) -> Decorator:
    """An option that names a file to write, or several; refused before anything is computed where none can be."""
    return option(*names, default=default, metavar="FILE", callback=_check_file, **attributes)


def _check_file(_ctx: click.Context, parameter: click.Parameter, value: Any) -> Any:
    """The files as they are. Raises UsageError."""
    flag = parameter.opts[0]
    for file in map(Path, (value,) if isinstance(value, str) else value or ()):
        if not file.parent.is_dir():
            raise click.UsageError(f"{flag} must lie in a folder that exists; there is no {str(file.parent)!r}")
        if file.exists() and not file.is_file():
            raise click.UsageError(f"{flag} names a file to write; {str(file)!r} is no file: give one inside a folder")
        if not os.access(file.parent, os.W_OK):
            raise click.UsageError(f"{flag}: nothing can be written into {str(file.parent)!r}; choose another folder")
    return value


def split_option(help: str, default: str | None = "test", name: str = "--split", dest: str | None = None) -> Decorator:
    """An option that names a split of the judgements."""
    return option(*filter(None, (name, dest)), default=default, help=help)


def stages_option(stage: str, dest: str, help: str, required: bool = False) -> Decorator:
    """An option that names methods of a stage, and may be repeated."""
    return click.option(f"--{stage}", dest, multiple=True, required=required, metavar=STAGE, help=help)


def metrics_option(help: str, default: Sequence[str] = ()) -> Decorator:
    """An option that names metrics, and may be repeated."""
    return option("--metric", "metrics", multiple=True, default=default or None, help=help)


def seed_option(help: str) -> Decorator:
    """The option of a random seed."""
    return option("--seed", type=int, default=0, help=help)


def json_option(help: str = "One JSON object.") -> Decorator:
    """The option for machine-readable output."""
    return click.option("--json", "as_json", is_flag=True, help=help)


class DeclaredCommand(click.Command):
    """A command with further flags that are made when they are first needed, from what methods declare."""

    def __init__(self, *args: Any, flags: Callable[[], Sequence[click.Parameter]], **attributes: Any) -> None:
        super().__init__(*args, **attributes)
        self._flags = flags

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        return [*super().get_params(ctx), *self._flags()]


def value_flag(flag: str, dest: str, help: str) -> click.Option:
    """A flag whose text a declared parameter parses."""
    return click.Option([flag, dest], default=None, metavar="VALUE", help=help)


def declared_flags(params: Sequence[Param], prefix: str, describe: Callable[[Param], str]) -> list[click.Option]:
    """A flag a parameter; its value comes under its name after `prefix`."""
    return [value_flag(param.flag, prefix + param.name, describe(param)) for param in params]


def flag_values(texts: Mapping[str, str | None], prefix: str, params: Sequence[Param], owner: str) -> dict[str, Any]:
    """The values of the declared flags that were passed. Raises ParamError."""
    passed = {
        name.removeprefix(prefix): text for name, text in texts.items() if name.startswith(prefix) and text is not None
    }
    return parsed(tuple(params), passed, owner)


def parse_stage(text: str, stage: str = "select") -> tuple[str, dict[str, Any]]:
    """A method's name and parameters from an option's text like `mmr` or `nnn:l2=0.1,fill=strict`."""
    from engine.stages import spec_of

    name, texts = parse_name(text, stage)
    kind = next(kind for option, kind, _ in STAGES if option == stage)
    return name, parsed(spec_of(name, kind).params, texts, name)


def parse_name(text: str, option: str) -> tuple[str, dict[str, str]]:
    """The name and the texts of its parameters from an option's text like `nnn:l2=0.1,fill=strict`."""
    name, _, rest = text.partition(":")
    pairs = [pair.partition("=") for pair in rest.split(",") if pair]
    if any(not sign for _, sign, _ in pairs):
        raise click.UsageError(f"--{option} takes NAME or NAME:PARAMETER=VALUE,…; got {text!r}")
    return name, {key.replace("-", "_"): value for key, _, value in pairs}


def make_stages(texts: Sequence[str], stage: str) -> list[Any]:
    """The scorers or selectors that an option's texts name."""
    from engine.stages import make

    return [make(name, **params) for name, params in (parse_stage(text, stage) for text in texts)]


def check_splits(qrels: Mapping[str, Any], names: Sequence[str | None], hint: str = "") -> None:
    """Raise a UsageError where a split is not there; hint: what would make it."""
    if missing := [name for name in names if name is not None and name not in qrels]:
        from engine.values import no_split

        raise click.UsageError(f"{no_split(qrels, missing[0])}{hint}")
