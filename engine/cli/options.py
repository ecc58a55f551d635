"""Options that several commands share, and flags made of declared parameters."""

import os
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from pathlib import Path
from typing import Any

import click

from engine.cli.group import Decorator, lazy
from engine.params import Param, parse_values

STAGE_TEXT = "NAME[:PARAM=VALUE,…]"
"""Form in which an option names a method and its parameters."""


def option(*names: str, default: Any = None, **attributes: Any) -> Decorator:
    """Return an option whose help shows its default, if it has one."""
    # A default of None that is passed on counts as a value, so that a required option could be left out.
    if not attributes.get("required"):
        attributes["default"] = default
    return click.option(*names, show_default=default is not None, **attributes)


def corpus_option(multiple: bool = False, extra_help: str = "") -> Decorator:
    """Return the option that names a corpus, or several."""
    help_text = "numpy-api, python-api, a BEIR folder, or a .csv .tsv .json .jsonl .parquet .xlsx .npy .npz file."
    default_corpus = "numpy-api"
    return option(
        "--corpus",
        default=(default_corpus,) if multiple else default_corpus,
        multiple=multiple,
        metavar="NAME|PATH",
        help=f"{help_text} {extra_help}".rstrip(),
    )


CORPUS = corpus_option()

QRELS = option(
    "--qrels",
    default="qrels",
    metavar="FOLDER|FILE",
    help="The folder or file of judgements inside a BEIR folder, a file elsewhere, or a folder elsewhere with "
    "queries.jsonl and qrels/.",
)
CONFLICTING_GRADES = option(
    "--conflicting-grades",
    type=click.Choice(["refuse", "max", "last"]),
    default="refuse",
    help="A document with different grades for one query: an error, the highest counts, or the last.",
)
RELEVANT_FROM = option(
    "--relevant-from",
    type=click.IntRange(min=1),
    default=1,
    metavar="GRADE",
    help="The grade from which a document counts as relevant; nDCG counts every grade above 0.",
)
JUDGEMENTS = option(
    "--judgements",
    type=click.Choice(["auto", "complete", "pooled"]),
    default="auto",
    help="complete: a document without a grade is not relevant; pooled: it may be, as nobody looked at it; auto: "
    "pooled where some grades are 0 or less.",
)
POINTS = option("--points", default=11, help="Values of each parameter that is swept.")


def chain_options(*decorators: Decorator) -> Decorator:
    """Combine decorators that add options to a command into one; --help lists their options in this order."""

    def decorate(command: Any) -> Any:
        """Apply all decorators to a command."""
        # Decorators apply from the last to the first, and --help lists options in the order of application.
        for decorator in reversed(decorators):
            command = decorator(command)
        return command

    return decorate


def _parse_where(_ctx: click.Context, parameter: click.Parameter, conditions: Sequence[str]) -> dict[str, list[str]]:
    """Parse texts COLUMN=VALUE into a map from column to values. Raises UsageError."""
    column_values: dict[str, list[str]] = {}
    for condition in conditions:
        column, equals_sign, value = condition.partition("=")
        # A condition without a sign is an error even if a column has that name.
        if not equals_sign:
            raise click.UsageError(f"{parameter.opts[0]} takes {parameter.metavar}; got {condition!r}")
        column_values.setdefault(column, []).append(value)
    return column_values


TABLE_COLUMNS = chain_options(
    click.option(
        "--column",
        "columns",
        multiple=True,
        metavar="ROLE=COLUMN",
        callback=lambda *given: {role: names[-1] for role, names in _parse_where(*given).items()} or None,
        help="Which column of a table is the text, the id, the title, or holds the documents' own vectors: text=body, "
        "id='doc no', vectors=embedding. Other roles are guessed; id=none refuses one.",
    ),
    option(
        "--header",
        type=click.Choice(["auto", "first", "none"]),
        default="auto",
        help="The first line of a .csv, .tsv or .xlsx table: names of columns, or data (none).",
    ),
    option(
        "--document-vectors",
        metavar="FILE",
        help="The documents' own vectors: .npy, .npz, or a table with a column of them. Default: vectors.npy in a "
        "folder, NAME.vectors.npy beside a table.",
    ),
    option(
        "--query-vectors",
        metavar="FILE",
        help="The queries' own vectors, in the same formats. Default: query_vectors.npy beside the queries.",
    ),
    click.option("--normalize", is_flag=True, help="Scale own vectors to length 1: relevance is then their cosine."),
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
DUPLICATES = chain_options(
    option(
        "--drop-duplicates",
        type=click.Choice(["copies", "near"]),
        help="Of documents with the same text keep the first, or of each group of near-duplicates, found by the "
        "documents' vectors, the one with most neighbours; judgements of the others count for it.",
    ),
    option(
        "--duplicate-threshold",
        metavar="COSINE",
        callback=lazy("engine.cli.inputs:parse_duplicate_threshold"),
        help="The cosine from which on two documents are near-duplicates, here and in Redundancy. Default: the larger "
        "of 0.9 and a high percentile of random pairs of the corpus.",
    ),
)
READING = chain_options(QRELS, CONFLICTING_GRADES, RELEVANT_FROM, JUDGEMENTS, TABLE_COLUMNS, DUPLICATES)
"""The options of a ReadOptions."""


def group_options(group_name: str, group: Callable[..., Any], *decorators: Decorator) -> Decorator:
    """Gather the values of some options into one argument of a command.

    group_name: name of the argument; group: class or function that builds it from the options' values.
    """
    # click records an option on the function that it decorates; a throwaway function yields their names.
    params = chain_options(*decorators)(lambda: None).__click_params__
    # Options that work by their callback alone hand no value to the command.
    names = [param.name for param in params if param.expose_value]

    def decorate(command: Any) -> Any:
        """Give the command the options; it receives them as one argument."""

        @wraps(command)
        def run(**arguments: Any) -> Any:
            """Call the command with the gathered argument in place of the options."""
            # The options' values are taken out of the arguments; the others reach the command as they are.
            arguments[group_name] = group(**{option: arguments.pop(option) for option in names})
            return command(**arguments)

        return chain_options(*decorators)(run)

    return decorate


def size_option(dest_name: str = "k", default: str | tuple[str, ...] = "10") -> Decorator:
    """Return the option of the set size, or of several if the default is a tuple."""
    attributes = {"callback": lazy("engine.cli.inputs:parse_sizes"), "help": "Documents per query."}
    return option("-k", dest_name, default=default, multiple=not isinstance(default, str), **attributes)


SIZE_OPTION = size_option()


def execution_options(default_store: str) -> Decorator:
    """Return the options for computing a sweep: the file of its results, worker processes and a scheduler.

    The file holds cells: a cell is one decoder setting measured on all queries. A command receives the options as one
    mapping `execution`.
    """
    return group_options(
        "execution",
        dict,
        option("--store", default=default_store, metavar="FILE", help="File of finished cells."),
        option("--workers", type=int, help="Processes on this machine; default: this one alone."),
        option(
            "--cluster",
            metavar="ADDRESS",
            help="A Dask scheduler, tcp://127.0.0.1:8786 say. It runs what its clients send it: only one that you "
            "trust.",
        ),
    )


def file_option(*names: str, default: str | None = None, **attributes: Any) -> Decorator:
    """Return an option that names a file to write.

    It is refused before any computation if nothing can be written there.
    """
    return option(*names, default=default, metavar="FILE", callback=_check_file, **attributes)


def _check_file(_context: click.Context, parameter: click.Parameter, file_names: Any) -> Any:
    """Return the option's value unchanged, or raise UsageError if a file cannot be written."""
    flag = parameter.opts[0]
    for file in map(Path, (file_names,) if isinstance(file_names, str) else file_names or ()):
        if not file.parent.is_dir():
            raise click.UsageError(f"{flag} must lie in a folder that exists; there is no {str(file.parent)!r}")
        if file.exists() and not file.is_file():
            raise click.UsageError(f"{flag} names a file to write; {str(file)!r} is no file: give one inside a folder")
        # Checked before hours of computation rather than at the end.
        if not os.access(file.parent, os.W_OK):
            raise click.UsageError(f"{flag}: nothing can be written into {str(file.parent)!r}; choose another folder")
    return file_names


PER_SOURCE_OPTION = option(
    "--per-source",
    metavar="COLUMN=NUMBER",
    callback=lazy("engine.cli.inputs:parse_per_source"),
    help="At most so many documents of one source, a value of this column of the corpus, for selectors that pick in "
    "turn; a document without a value is a source of its own. Measures unique_sources too; COLUMN=none only that.",
)
WITHOUT_SELF_OPTION = option(
    "--without-self/--with-self",
    "without_self",
    help="Leave the document with a query's id out of its answer, or leave it in. Default: left out where the text is "
    "that of the query as well, and said.",
)


def split_option(help: str, default: str | None = "test", name: str = "--split", dest: str | None = None) -> Decorator:
    """Return an option that names a split of the judgements."""
    return option(*filter(None, (name, dest)), default=default, help=help)


def stages_option(stage_name: str, dest_name: str, help: str, required: bool = False) -> Decorator:
    """Return a repeatable option that names methods of a stage."""
    return click.option(f"--{stage_name}", dest_name, multiple=True, required=required, metavar=STAGE_TEXT, help=help)


def metrics_option(help: str, default: Sequence[str] = ()) -> Decorator:
    """Return a repeatable option that names metrics."""
    return option("--metric", "metrics", multiple=True, default=default or None, help=help)


def seed_option(help: str) -> Decorator:
    """Return the option of a random seed."""
    return option("--seed", type=int, default=0, help=help)


def json_option(help: str = "One JSON object.") -> Decorator:
    """Return the option for machine-readable output."""
    return click.option("--json", "as_json", is_flag=True, help=help)


SENDING = chain_options(
    click.option(
        "--yes",
        is_flag=True,
        expose_value=False,
        is_eager=True,
        callback=lazy("engine.cli.sending:allow_sending"),
        help="Send texts to an endpoint without asking, however many they are.",
    ),
    click.option(
        "--max-tokens",
        type=click.IntRange(min=0),
        expose_value=False,
        callback=lazy("engine.cli.sending:limit_sending"),
        metavar="N",
        help="Send at most so many tokens to endpoints, by estimate; from 100,000 on, this or --yes is needed where "
        "nobody can be asked.",
    ),
)
"""The options of a command that may send texts to an endpoint, which work by themselves."""
ENCODER = chain_options(
    option(
        "--encoder",
        default="bundled",
        metavar="NAME|PATH",
        help="bundled, a sentence-transformers model, or endpoint:NAME for a server of endpoints.toml.",
    ),
    option(
        "--dtype",
        type=click.Choice(["auto", "float32", "bfloat16"]),
        default="auto",
        help="Arithmetic of the encoder; auto takes bfloat16 where it is fast and proves faithful.",
    ),
    option("--device", metavar="DEVICE", help="cpu, cuda, cuda:1 …; default: a GPU if there is one."),
    SENDING,
)
_TRAINED_HELP = (
    "A checkpoint of `frontier train`: search its embeddings; decode as it was trained for, but for flags given."
)
EMBEDDED = chain_options(CORPUS, READING, ENCODER, option("--trained", metavar="FILE", help=_TRAINED_HELP))
SOURCE = group_options("source", lazy("engine.cli.inputs:CorpusOptions"), EMBEDDED)


def judged_options(help: str = "Split whose labelled queries are used.", *sampling: Decorator) -> Decorator:
    """Return the options of a command on the labelled queries of a split: corpus, encoder and split.

    The command receives them as one argument `judged`, a JudgedOptions. sampling: further options, for drawing some of
    the queries.
    """
    return group_options("judged", lazy("engine.cli.inputs:JudgedOptions"), EMBEDDED, split_option(help), *sampling)


FINISHED_SWEEP = group_options(
    "swept",
    lazy("engine.cli.finished_sweep:FinishedSweep"),
    option(
        "--by",
        metavar="KIND",
        help="The y axis in groups of queries too: by how many documents are relevant, by how like others they are, "
        "by their length, by the words of the query, by its aspects (relevant, correlation, length, words, aspects), "
        "or by a column of the queries or of the documents relevant to them.",
    ),
    option("--corpus", metavar="NAME|PATH", help="The corpus that was swept, for --by and --run."),
    READING,
    click.argument("store", metavar="STORE"),
    split_option("Split, if the store holds several; default: test.", default=None),
    option("-k", "k", type=int, help="Default: the largest in the store."),
    option("--x", "across", default="ilad", help="The frontier's x axis: a metric, or milliseconds."),
    option("--y", "up", default="recall", help="Its y axis."),
    option("--baseline", help="A method or a label; default: the first selector's."),
)
"""The argument and the options of a command on a finished sweep."""
OTHER_RUNS = group_options(
    "other_systems",
    lazy("engine.cli.finished_sweep:OtherSystems"),
    option(
        "--run",
        "runs",
        multiple=True,
        metavar="FILE",
        help="What another system returned, beside the sweep: a TREC run, lines of query, document and rank, a table "
        "whose first line names such columns, or JSON such as {query: {document: score}}; also with .gz behind.",
    ),
    ENCODER,
    option("--trained", metavar="FILE", help="The checkpoint of `frontier train` whose embeddings were swept."),
)
"""The options of a command that takes runs of other systems."""


class DeclaredCommand(click.Command):
    """A command whose further flags are built on first use from declared parameters."""

    def __init__(self, *args: Any, flags: Callable[[], Sequence[click.Parameter]], **attributes: Any) -> None:
        super().__init__(*args, **attributes)
        self._flags = flags

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """Return the command's own options, and then the declared flags."""
        # Declared flags come last in --help.
        return [*super().get_params(ctx), *self._flags()]


def value_flag(flag_name: str, dest_name: str, help: str) -> click.Option:
    """Return a flag that passes its text on; a declared parameter parses it later."""
    return click.Option([flag_name, dest_name], default=None, metavar="VALUE", help=help)


def declared_flags(params: Sequence[Param], prefix: str, describe: Callable[[Param], str]) -> list[click.Option]:
    """Build a command's flag for each declared parameter; its text arrives as the argument prefix + name.

    describe: function from a parameter to the flag's help.
    """
    return [value_flag(param.flag, prefix + param.name, describe(param)) for param in params]


def flag_values(texts: Mapping[str, str | None], prefix: str, params: Sequence[Param], owner: str) -> dict[str, Any]:
    """Parse the texts of those declared flags that were passed, into values by the parameters' names.

    prefix: of the flags' names in `texts`; owner: what the parameters belong to, for errors. Raises ParamError.
    """
    passed_texts = {
        name.removeprefix(prefix): text for name, text in texts.items() if name.startswith(prefix) and text is not None
    }
    return parse_values(tuple(params), passed_texts, owner)
