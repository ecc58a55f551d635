"""A command that makes labelled queries for a corpus without any."""

from __future__ import annotations

from typing import Any

import click

from engine.cli import CORPUS, Meter, main


class OfTheTask(click.Command):
    """A command whose flags are the containing-passage task's declared parameters."""

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        from engine.data.cloze import PARAMS

        own = [
            click.Option(
                [p.flag, p.name], default=None, metavar="VALUE", help=f"{p.help} Default: {p.text(p.default)}."
            )
            for p in PARAMS
        ]
        return [*super().get_params(ctx), *own]


@main.command(cls=OfTheTask)
@CORPUS
@click.option("--out", required=True, metavar="FOLDER", help="Where the BEIR folder goes: new, or empty.")
def passages(corpus: str, out: str, **given: str | None) -> None:
    """Labelled queries out of a corpus: find the document that contains a passage.

    Passages of the corpus's documents are the queries; relevant is every document that contains one word for word.
    Distractors, copies of these documents with a word or two of the passage changed, are added to the corpus. Recall is
    then how well a text is found again by a part of it: people's questions are harder.
    """
    import engine
    from engine.data.beir import write_beir
    from engine.data.cloze import PARAMS, SPLIT

    declared: dict[str, Any] = {p.name: p for p in PARAMS}
    values = {name: declared[name].parse(text) for name, text in given.items() if text is not None}
    with Meter() as meter:
        dataset = engine.load_dataset(corpus, progress=meter)
        made = engine.containing_passages(dataset.corpus, **values, progress=meter)
        folder = write_beir(made, out)
        meter.clear()
    for notice in made.notices:
        click.echo(f"note: {notice}", err=True)
    added = len(made.corpus) - len(dataset.corpus)
    click.echo(
        f"{len(made.queries):,} queries and {len(made.corpus):,} documents in {folder}, of which {added:,} are "
        f"distractors made for the task; split {SPLIT}"
    )
    click.echo(
        f"next: frontier sweep --corpus {folder} --split {SPLIT}, or frontier tune --corpus {folder} --dev {SPLIT} "
        "--halve …"
    )
