"""Command on the papers' claims: reproduce, which measures and judges them."""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from engine.cli.group import Meter, main, use_threads
from engine.cli.options import json_option, option, seed_option
from engine.cli.output import aligned, echo, echo_json
from engine.progress import counted

if TYPE_CHECKING:
    from engine.evidence.run import JudgedClaim


@main.command()
@click.argument("which", metavar="[PAPER|CLAIM|all]", default="all")
@option("--data", metavar="FOLDER", type=click.Path(exists=True, file_okay=False), help="Judged sets in BEIR layout.")
@option("--encoder", default="bundled", metavar="NAME|PATH", help="Embeds the sets.")
@option("--workers", type=click.IntRange(1, 64), default=1, help="Processes of this machine, a thread each.")
@option("--work", metavar="FOLDER", type=click.Path(file_okay=False), help="Trained systems, a folder a set.")
@click.option("--train", is_flag=True, help="Train what --work lacks: hours on a processor.")
@seed_option("Of samples and resamples.")
@click.option("--anew", is_flag=True, help="Measure again what is kept from before.")
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
    as_json: bool,
) -> None:
    """Measure and judge claims of the papers; what was measured is kept, and a run that was killed goes on."""
    from engine.evidence.claim import claims
    from engine.evidence.judged_sets import JudgedSets
    from engine.evidence.run import reproduce as run

    use_threads()
    if train and not work:
        raise click.UsageError("--train needs --work FOLDER, where what is trained is kept")
    rows: list[JudgedClaim] = []
    with Meter() as meter:
        stop = threading.Event()
        sets = JudgedSets(data, encoder, work, train)
        for row in run(which, sets, seed, workers, anew, meter, stop):
            meter.clear()
            rows.append(row)
            echo(f"{row.claim.id:<4} {row.words}", err=True)
    order = list(claims())
    rows.sort(key=lambda row: order.index(row.claim.id))
    if as_json:
        for row in rows:
            echo_json(as_plain(row))
        return
    for row in rows:
        echo(f"\n{row.claim.id} {row.claim.paper}, {row.claim.place}: {row.words}", bold=True)
        echo(f"  {row.claim.sentence}")
        echo(f"  {row.ruling.why}")
        told = {"paper": row.claim.effect, "scope": f"{row.scope}, {row.where}", "otherwise": row.claim.differs}
        for name, text in told.items():
            if text:
                echo(f"  {name}: {text}")
    counts = Counter(str(row.ruling.verdict) for row in rows)
    echo("\n" + aligned([("verdict", "claims"), *((verdict, f"{count}") for verdict, count in counts.most_common())]))
    echo(f"{counted(len(rows), 'claim')}, {sum(row.seconds for row in rows):,.0f} s of measurement")


def as_plain(row: JudgedClaim) -> dict[str, object]:
    """A row as JSON has it."""
    claim = row.claim
    return {
        "id": claim.id, "paper": claim.paper, "place": claim.place, "sentence": claim.sentence,
        "verdict": str(row.ruling.verdict), "words": row.words, "why": row.ruling.why, "scope": str(row.scope),
        "where": row.where, "effects": [asdict(effect) for effect in row.ruling.effects], "needed": row.ruling.needed,
        "paper_effect": claim.effect, "differs": claim.differs, "seconds": row.seconds,
    }  # fmt: skip
