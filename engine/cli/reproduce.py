"""Command on the papers' claims: reproduce, which measures and judges them."""

from __future__ import annotations

import threading
from typing import Any

import click

from engine.cli.group import Meter, use_threads
from engine.cli.output import aligned, echo, echo_json, write_text
from engine.evidence.run import as_plain, in_order, keep
from engine.evidence.run import reproduce as run
from engine.progress import counted


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
