"""The commands `data`, how much a data set holds, and `passages`, labelled queries for a corpus without any."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from engine.cli.group import Meter, main
from engine.cli.options import (
    CORPUS,
    READING,
    TABLE,
    DeclaredCommand,
    ReadOptions,
    declared_flags,
    flag_values,
    grouped,
    json_option,
)
from engine.cli.output import aligned, echo, echo_json, echo_lines, echo_notices

if TYPE_CHECKING:
    from engine.data.sizes import Spread


def _task_flags() -> list[click.Option]:
    from engine.data.cloze import PARAMS

    return declared_flags(PARAMS, "", lambda param: f"{param.help} Default: {param.text(param.default)}.")


@main.command(cls=DeclaredCommand, flags=_task_flags)
@CORPUS
@grouped("reading", ReadOptions, TABLE)
@click.option("--out", required=True, metavar="FOLDER", help="Where the BEIR folder goes: new, or empty.")
def passages(corpus: str, reading: ReadOptions, out: str, **texts: str | None) -> None:
    """Labelled queries out of a corpus: find the document that contains a passage.

    Passages of the corpus's documents are the queries; relevant is every document that contains one word for word.
    Distractors, copies of these documents with a word or two of the passage changed, are added to the corpus. Recall is
    then how well a text is found again by a part of it: people's questions are harder.
    """
    import engine
    from engine.data.beir import write_beir
    from engine.data.cloze import LENGTH, PARAMS, SPLIT
    from engine.data.passages import counted

    values = flag_values(texts, "", PARAMS, "passages")
    with Meter() as meter:
        dataset = reading.read(corpus, progress=meter)
        task = engine.containing_passages(dataset.corpus, **values, progress=meter)
        folder = write_beir(task, out)
    echo_notices(task.notices)
    length = values.get(LENGTH.name)
    documents = len(dataset.corpus) if length is None else counted(dataset.corpus, length, 0.0)
    distractors = len(task.corpus) - documents
    echo(
        f"{len(task.queries):,} queries and {len(task.corpus):,} documents in {folder}, of which {distractors:,} are "
        f"distractors made for the task; split {SPLIT}"
    )
    echo(
        f"next: frontier sweep --corpus {folder} --split {SPLIT}, or frontier tune --corpus {folder} --dev {SPLIT} "
        "--halve …"
    )


@main.command(name="data")
@CORPUS
@grouped("reading", ReadOptions, READING)
@json_option()
def sizes(corpus: str, reading: ReadOptions, as_json: bool) -> None:
    """Documents, queries and relevant documents a query, by split; nothing is embedded."""
    from engine.data.sizes import sizes_of

    with Meter() as meter:
        dataset = reading.read(corpus, progress=meter)
    found = sizes_of(dataset)
    if as_json:
        echo_json(asdict(found))
        return
    echo_notices(dataset.notices)
    head = ("split", "queries", "answerable", "judgements", "relevant a query", "not in the corpus", "sets shared")
    lines = [
        (row.split, f"{row.queries:,}", f"{row.answerable:,}", f"{row.judgements:,}", _spread(row.relevant),
         f"{row.missing:,}", f"{row.shared:,}")
        for row in found.splits
    ]  # fmt: skip
    echo_lines(
        [
            f"{found.documents:,} documents, words: {_spread(found.document_words)}",
            f"{found.queries:,} queries, words: {_spread(found.query_words)}",
            *([f"aspects a query: {_spread(found.aspects)}"] if found.aspects else []),
            *([aligned([head, *lines])] if lines else []),
            "numbers: least / mean / most",
        ]
    )


def _spread(spread: Spread | None) -> str:
    """Least, mean and most."""
    return "–" if spread is None else f"{spread.least:,} / {spread.mean:,.2f} / {spread.most:,}"
