"""What the commands of online learning print: lines of text, and plain JSON values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

DRIFT = ("median", "q99", "churn", "confidence", "success", "hubs", "neighbourhood")


def checkpoint_lines(found: Any, k: int) -> Iterator[str]:
    """A table a decoder: held-out queries, the stream's and the rare ones' nDCG, by round."""
    from engine.learning.checkpoints import HELD_OUT, STREAM, TAIL

    first = found.checkpoints[0]
    part = HELD_OUT if first.cell(part=HELD_OUT) else STREAM
    for label in dict.fromkeys(cell.label for cell in first.cells):
        own = first.cell(label, part)
        yield ""
        yield f"{own.decoder}, {own.queries:,} {part} queries:"
        yield f"  round  Recall@{k:<3} nDCG@{k:<4} ILAD@{k:<4} (space as it is)  tail nDCG  stream nDCG"
        for checkpoint in found.checkpoints:
            here, tail, stream = (checkpoint.cell(label, *where) for where in ((part,), (part, TAIL), (STREAM,)))
            mean = here.mean
            yield (
                f"{checkpoint.step:>7}  {mean['recall']:>9.4f}  {mean['ndcg']:>8.4f}  {mean['ilad']:>8.4f}  "
                f"{mean['ilad_now']:>16.4f}  {_or_dash(tail.mean['ndcg'], 9)}  {_or_dash(stream.mean['ndcg'], 11)}"
            )


def timeline_lines(drifts: Sequence[Any]) -> Iterator[str]:
    """Drift by step, the measures that there are, each with its meaning."""
    from engine.views.drift import timeline

    shown = timeline(drifts)
    names = [name for name in DRIFT if name in shown.columns]
    yield "   step  " + "  ".join(f"{name:>13}" for name in names) + "  light"
    for at, step in enumerate(shown.steps):
        values = "  ".join(_or_dash(shown.columns[name][at], 13) for name in names)
        yield f"{step:>7}  {values}  {shown.lights[at]}{'  hub alarm' if shown.alarms[at] else ''}"
    yield ""
    for measure in shown.measures:
        if measure.name in names:
            yield f"{measure.name}: {measure.meaning}"


def drift_lines(found: Any, space: Any) -> Iterator[str]:
    """What drift amounts to, and the documents that moved most."""
    from engine.cli import _one_line
    from engine.views.drift import conclusions

    yield ""
    yield from conclusions(found)
    if found.movers:
        named = (f"{_one_line(space.corpus.ids[row], 40)} {far:.3f}" for row, far in found.movers)
        yield "Moved most: " + ", ".join(named)


def regret_lines(found: Any) -> Iterator[str]:
    """What learning cost in all, and what is to know of it."""
    from engine.views.drift import regret

    shown = regret(found)
    if not shown.lines:
        return
    count = len(found.trail)
    yield ""
    yield f"Regret after {count:,} rounds, in nats a round: " + ", ".join(
        f"{column[-1] / count:.4f} {name}" for name, column in shown.lines.items()
    )
    if shown.rate is not None:
        yield f"Corollary 5.2 would have η = {shown.rate:.2g}, and promise {shown.corollary / count:.4g} a round"
    for note in shown.notes:
        yield f"  {note}"


def simulated_json(found: Any) -> dict[str, Any]:
    """A simulation as plain JSON values, without its rounds."""
    from engine.params import values_of
    from engine.views.drift import regret

    shown = regret(found, 100)
    return {
        "preset": found.begun.preset.as_json(),
        "stream": values_of(found.stream),
        "plan": values_of(found.plan),
        "temperature": found.begun.temperature,
        "rounds": len(found.trail),
        "queries": len(found.queries),
        "left_out": found.left_out,
        "checkpoints": [c.as_json() | {"alarm": c.drift.alarm, "light": c.drift.light} for c in found.checkpoints],
        "regret": {"steps": shown.steps, **shown.lines, "notes": shown.notes, "rate": shown.rate},
        "digest": found.embeddings().digest,
    }


def session_json(session: Any) -> dict[str, Any]:
    """A session as plain JSON values, without its log."""
    return {
        "preset": session.preset.name,
        "temperature": session.temperature,
        "records": session.position,
        "feedback": len(session.history),
        "counting": sum(session.status(event.id) == "counts" for event in session.history),
        "snapshots": session.snapshots,
        "digest": session.embeddings().digest,
    }


def _or_dash(value: float | None, width: int) -> str:
    return f"{value:>{width}.4f}" if value is not None and value == value else f"{'–':>{width}}"
