"""The command `passages`: labelled queries for a corpus without any."""

import click

from engine.cli.group import Meter, main
from engine.cli.options import CORPUS, TABLE, DeclaredCommand, ReadOptions, declared_flags, flag_values, grouped
from engine.cli.output import echo, echo_notices


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
    from engine.data.cloze import PARAMS, SPLIT

    values = flag_values(texts, "", PARAMS, "passages")
    with Meter() as meter:
        dataset = reading.read(corpus, progress=meter)
        task = engine.containing_passages(dataset.corpus, **values, progress=meter)
        folder = write_beir(task, out)
    echo_notices(task.notices)
    distractors = len(task.corpus) - len(dataset.corpus)
    echo(
        f"{len(task.queries):,} queries and {len(task.corpus):,} documents in {folder}, of which {distractors:,} are "
        f"distractors made for the task; split {SPLIT}"
    )
    echo(
        f"next: frontier sweep --corpus {folder} --split {SPLIT}, or frontier tune --corpus {folder} --dev {SPLIT} "
        "--halve …"
    )
