"""The command `orag search`: rate and batch size chosen on the first half of a stream, reported on the second."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click

from engine.cli.encoding import SOURCE, CorpusOptions
from engine.cli.feedback import JSON, StreamData, declared_values, orag, simulation_flags
from engine.cli.group import Meter, stop_on_interrupt, use_threads
from engine.cli.options import SIZE, DeclaredCommand, option, split_option
from engine.cli.output import echo_json, echo_lines
from engine.cli.variants import VARIANT, VariantOptions
from engine.progress import counted


def _numbers(kind: type) -> Any:
    """A callback that reads numbers with commas between them; None where there are none."""

    def parse(_ctx: click.Context, parameter: click.Parameter, text: str | None) -> tuple[Any, ...] | None:
        try:
            return None if text is None else tuple(kind(part) for part in text.split(","))
        except ValueError:
            raise click.UsageError(f"{parameter.opts[0]} takes numbers with commas between; got {text!r}") from None

    return parse


@orag.command(cls=DeclaredCommand, flags=simulation_flags)
@SOURCE
@option("--preset", default="paper", help="How it learns, but for rate and batch: default, careful or paper.")
@option(
    "--rates", metavar="η,η,…", callback=_numbers(float), help="Rates to try; default: the paper's ten, 1e-8 to 1e-5."
)
@option(
    "--batches", metavar="N,N,…", callback=_numbers(int), help="Batch sizes to try; default: the paper's six, 5 to 50."
)
@split_option("Whose judged queries are the stream; default: the largest.", default=None)
@split_option("A split that only the report is on; default: a share of the second half's.", default=None, name="--test")
@VARIANT
@SIZE
@JSON
def search(
    source: CorpusOptions,
    preset: str,
    rates: tuple[float, ...] | None,
    batches: tuple[int, ...] | None,
    split: str | None,
    test: str | None,
    variant: VariantOptions,
    k: int,
    as_json: bool,
    **texts: str | None,
) -> None:
    """Search for learning rate and batch size.

    Every setting learns the first half of the stream and is measured on queries of it that it never saw; the best one
    starts anew on the second half, where it is reported. One pass unless --updates or --exposure says more.
    """
    from engine.simulation import search as core

    use_threads()
    values = declared_values(texts)
    for name, given in (("rate", rates), ("batch", batches)):
        if name in values["preset"] and given is not None:
            raise click.UsageError(f"--{name} and --{'rates' if name == 'rate' else 'batches'} both say what is tried")
    tried: dict[str, Any] = {
        "rates": rates or ((values["preset"].pop("rate"),) if "rate" in values["preset"] else core.RATES),
        "batches": batches or ((values["preset"].pop("batch"),) if "batch" in values["preset"] else core.BATCHES),
    }
    with Meter() as meter, stop_on_interrupt() as stop:
        task = StreamData.load(source, split, test, values["corpus"].get("words"), variant, meter, stop)
        table = [] if as_json else [f"{'η₀':>8}  {'batch':>5}  {'updates':>7}  nDCG@{k}   gain"]

        def seen(setting: Any) -> None:
            for line in (*table, _line(setting)) if not as_json else ():
                meter.echo(line)
            table.clear()

        found = core.search(
            task.space, task.queries, task.stream, preset=preset, stream=values["stream"], plan=values["plan"],
            held_out=task.held_out, hops=task.hops, k=k, progress=meter, stop=stop, seen=seen, **tried,
            **variant.arguments, **values["preset"],
        )  # fmt: skip
    if as_json:
        echo_json(_json(found), allow_nan=False)
    else:
        echo_lines(_lines(found, k))


def _line(setting: Any) -> str:
    return f"{setting.rate:>8.0e}  {setting.batch:>5}  {setting.updates:>7,}  {setting.after:.4f}  {setting.gain:>+.4f}"


def _lines(found: Any, k: int) -> Iterator[str]:
    """The choice, and what it reached on the second half."""
    from engine.simulation.search import named

    best, confirmed = found.best, found.confirmed
    yield ""
    yield f"Best on the first half, by {found.part} queries: {named(best)}, nDCG@{k} {best.gain:+.4f}"
    if found.at_the_end:
        yield "  the best rate is at the end of those tried: a better one may lie beyond (--rates)"
    rounds = len(confirmed.trail)
    yield f"On the second half, {counted(rounds, 'round')} from the start, batch {best.batch}:"
    for part in ("held-out", "stream"):
        if (reached := found.reached(part)) is not None:
            before, after = reached
            queries = counted(confirmed.checkpoints[-1].cell(part=part).queries, f"{part} query", f"{part} queries")
            yield f"  {queries}: {before:.4f} → {after:.4f} ({after - before:+.4f})"


def _json(found: Any) -> dict[str, Any]:
    """A search as plain JSON values."""
    reached = {part: found.reached(part) for part in ("held-out", "stream")}
    return {
        "settings": [vars(setting) | {"gain": setting.gain} for setting in found.settings],
        "chosen_by": found.part,
        "best": vars(found.best),
        "at_the_end": found.at_the_end,
        "second_half": {
            "rounds": len(found.confirmed.trail),
            **{part: {"before": pair[0], "after": pair[1]} for part, pair in reached.items() if pair is not None},
        },
    }
