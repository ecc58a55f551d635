"""The commands `data`, how much a data set holds, and `passages`, labelled queries for a corpus without any."""

from dataclasses import asdict

import click

import engine
from engine.cli.group import Meter
from engine.cli.inputs import ReadOptions
from engine.cli.options import declared_flags, flag_values
from engine.cli.output import echo, echo_json, echo_notices, format_columns
from engine.data.beir import write_beir
from engine.data.cloze import LENGTH, PARAMS, SPLIT
from engine.data.passages import count_passages
from engine.data.sizes import Spread, measure_sizes
from engine.progress import counted


def task_flags() -> list[click.Option]:
    """Build a flag for each declared parameter of the task."""
    return declared_flags(PARAMS, "", lambda param: f"{param.help} Default: {param.text(param.default)}.")


def passages(corpus: str, reading: ReadOptions, out: str, **texts: str | None) -> None:
    """Make a judged data set from a corpus without queries, and write it as a BEIR folder.

    Its queries are spans of words from the documents, which are to be found again. out: the new folder; texts: flags
    of the task's parameters.
    """
    param_values = flag_values(texts, "", PARAMS, "passages")
    with Meter() as meter:
        dataset = reading.read(corpus, progress=meter)
        task = engine.containing_passages(dataset.corpus, **param_values, progress=meter)
        folder = write_beir(task, out)
    echo_notices(task.notices)
    passage_length = param_values.get(LENGTH.name)
    # If documents were first cut into passages of this many words, those are the documents of the task.
    n_documents = len(dataset.corpus) if passage_length is None else count_passages(dataset.corpus, passage_length, 0.0)
    distractors = len(task.corpus) - n_documents
    echo(
        f"{counted(len(task.queries), 'query', 'queries')} and {counted(len(task.corpus), 'document')} in {folder}, "
        f"of which {distractors:,} are distractors made for the task; split {SPLIT}"
    )
    tune_flags = f"--corpus {folder} --dev {SPLIT} --halve …"
    echo(f"next: frontier sweep --corpus {folder} --split {SPLIT}, or frontier tune {tune_flags}")


def sizes(corpus: str, reading: ReadOptions, as_json: bool) -> None:
    """Print how many documents, queries, words, and judgements by split a data set has."""
    with Meter() as meter:
        dataset = reading.read(corpus, progress=meter)
    data_sizes = measure_sizes(dataset)
    if as_json:
        return echo_json(asdict(data_sizes))
    echo_notices(dataset.notices)
    head = ("split", "queries", "answerable", "judgements", "relevant a query", "not in the corpus", "sets shared")
    table_rows = [
        (row.split, f"{row.queries:,}", f"{row.answerable:,}", f"{row.judgements:,}", _format_spread(row.relevant),
         f"{row.missing:,}", f"{row.shared:,}")
        for row in data_sizes.splits
    ]  # fmt: skip
    echo(f"{counted(data_sizes.documents, 'document')}, words: {_format_spread(data_sizes.document_words)}")
    echo(f"{counted(data_sizes.queries, 'query', 'queries')}, words: {_format_spread(data_sizes.query_words)}")
    if data_sizes.aspects:
        echo(f"aspects a query: {_format_spread(data_sizes.aspects)}")
    if table_rows:
        echo(format_columns([head, *table_rows]))
    echo("numbers: least / mean / most")


def _format_spread(spread: Spread | None) -> str:
    """Format the minimum, mean and maximum."""
    return "–" if spread is None else f"{spread.least:,} / {spread.mean:,.2f} / {spread.most:,}"
