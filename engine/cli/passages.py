"""The commands `data`, how much a data set holds, and `passages`, labelled queries for a corpus without any."""

from dataclasses import asdict

import click

import engine
from engine.cli.group import Meter
from engine.cli.inputs import ReadOptions
from engine.cli.options import declared_flags, flag_values
from engine.cli.output import aligned, echo, echo_json, echo_notices
from engine.data.beir import write_beir
from engine.data.cloze import LENGTH, PARAMS, SPLIT
from engine.data.passages import count_passages
from engine.data.sizes import Spread, measure_sizes


def task_flags() -> list[click.Option]:
    return declared_flags(PARAMS, "", lambda param: f"{param.help} Default: {param.text(param.default)}.")


def passages(corpus: str, reading: ReadOptions, out: str, **texts: str | None) -> None:
    values = flag_values(texts, "", PARAMS, "passages")
    with Meter() as meter:
        dataset = reading.read(corpus, progress=meter)
        task = engine.containing_passages(dataset.corpus, **values, progress=meter)
        folder = write_beir(task, out)
    echo_notices(task.notices)
    length = values.get(LENGTH.name)
    documents = len(dataset.corpus) if length is None else count_passages(dataset.corpus, length, 0.0)
    distractors = len(task.corpus) - documents
    echo(
        f"{len(task.queries):,} queries and {len(task.corpus):,} documents in {folder}, of which {distractors:,} are "
        f"distractors made for the task; split {SPLIT}"
    )
    echo(
        f"next: frontier sweep --corpus {folder} --split {SPLIT}, or frontier tune --corpus {folder} --dev {SPLIT} "
        "--halve …"
    )


def sizes(corpus: str, reading: ReadOptions, as_json: bool) -> None:
    with Meter() as meter:
        dataset = reading.read(corpus, progress=meter)
    found = measure_sizes(dataset)
    if as_json:
        return echo_json(asdict(found))
    echo_notices(dataset.notices)
    head = ("split", "queries", "answerable", "judgements", "relevant a query", "not in the corpus", "sets shared")
    lines = [
        (row.split, f"{row.queries:,}", f"{row.answerable:,}", f"{row.judgements:,}", _spread(row.relevant),
         f"{row.missing:,}", f"{row.shared:,}")
        for row in found.splits
    ]  # fmt: skip
    echo(f"{found.documents:,} documents, words: {_spread(found.document_words)}")
    echo(f"{found.queries:,} queries, words: {_spread(found.query_words)}")
    if found.aspects:
        echo(f"aspects a query: {_spread(found.aspects)}")
    if lines:
        echo(aligned([head, *lines]))
    echo("numbers: least / mean / most")


def _spread(spread: Spread | None) -> str:
    """Least, mean and most."""
    return "–" if spread is None else f"{spread.least:,} / {spread.mean:,.2f} / {spread.most:,}"
