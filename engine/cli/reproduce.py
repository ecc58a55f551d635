"""Command on the papers' claims: reproduce, which measures and judges them."""

from __future__ import annotations

import threading
from typing import Any

import click

from engine.cli.group import Meter, main, use_threads
from engine.cli.options import file_option, json_option, option, seed_option
from engine.cli.output import aligned, echo, echo_json, write_text
from engine.progress import counted


@main.command()
@click.argument("which", metavar="[PAPER|CLAIM|all]", default="all")
@option("--data", metavar="FOLDER", type=click.Path(exists=True, file_okay=False), help="Judged sets in BEIR layout.")
@option("--encoder", default="bundled", metavar="NAME|PATH", help="Embeds the sets.")
@option("--workers", type=click.IntRange(1, 64), default=1, help="Processes of this machine, a thread each.")
@option("--work", metavar="FOLDER", type=click.Path(file_okay=False), help="Trained systems, a folder a set.")
@click.option("--train", is_flag=True, help="Train what --work lacks: hours on a processor.")
@seed_option("Of samples and resamples.")
@click.option("--anew", is_flag=True, help="Measure again what is kept from before.")
@file_option("--out", help="The judged claims as a file, which frontier evidence takes.")
@json_option("One JSON object a claim.")
def reproduce(
    which: str,
    data: str | None,
    encoder: str,
    workers: int,
    work: str | None,
    train: bool,
    seed: int,
    anew: bool,
    out: str | None,
    as_json: bool,
) -> None:
    """Measure and judge claims of the papers; what was measured is kept, and a run that was killed goes on."""
    from engine.evidence.run import as_plain, in_order, keep
    from engine.evidence.run import reproduce as run

    use_threads()
    if train and not work:
        raise click.UsageError("--train needs --work FOLDER, where what is trained is kept")
    with Meter() as meter:
        options: dict[str, Any] = {"seed": seed, "workers": workers, "anew": anew, "stop": threading.Event()}
        for report in run(which, data, encoder, work, train, progress=meter, **options):
            meter.clear()
            row = report.rows[-1]
            echo(f"{row.claim.id:<4} {row.words}", err=True)
    rows, whole = in_order(report.rows), keep(report)
    if out is not None:
        write_text(out, whole.as_json())
    if as_json:
        for row in rows:
            echo_json(as_plain(row))
        return
    for row in rows:
        echo(f"\n{row.claim.id} {row.claim.paper}, {row.claim.place}: {row.words}", bold=True)
        echo(f"  {row.claim.sentence}")
        echo(f"  {row.ruling.why}")
        facts = {"paper": row.claim.effect, "scope": f"{row.scope}, {row.where}", "otherwise": row.claim.differs}
        for name, text in facts.items():
            if text:
                echo(f"  {name}: {text}")
    echo("\n" + aligned(report.table()))
    echo(f"{counted(len(rows), 'claim')}, {report.seconds:,.0f} s of measurement; the page Evidence has them.")
