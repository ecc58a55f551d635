"""Judged claims for pages, files and the README: counts in a sentence, facts and figures of a row."""

from collections.abc import Mapping, Sequence

from engine.evidence.rules import SHORT_VERDICTS, Effect, Finding
from engine.evidence.run import JudgedClaim, Report
from engine.progress import counted
from engine.wording import command_line, decimal

COLOURS: Mapping[str, str] = dict(
    zip(SHORT_VERDICTS, ("green", "orange", "red", "red", "blue", "gray", "violet"), strict=True)
)
"""Colour of the badge of each short verdict."""
SIGNS = {1: "as claimed", -1: "against it", 0: "neither", None: "open"}


def headline(report: Report) -> str:
    """State the number of claims by verdict."""
    counts = [f"{short} {count}" for short, count in report.counts().items() if count]
    return f"{counted(len(report.rows), 'claim')}: {' · '.join(counts)}"


def facts(row: JudgedClaim) -> list[tuple[str, str]]:
    """List (name, text) facts about a judged claim for people: verdict, paper's words, evidence.

    Facts without a text are left out.
    """
    # A claim that cannot be tested has been measured nowhere.
    is_measured = row.ruling.verdict not in (Finding.UNTESTABLE, Finding.NEEDS_ENDPOINT)
    effect_text = f": {row.claim.effect}" if row.claim.effect else ""
    texts = {
        "Verdict": row.words,
        "Claimed": f"{row.claim.place}{effect_text} ({row.claim.id})",
        "Evidence": f"{row.scope}, {row.where}" if is_measured else "",
        "Otherwise than in the paper": row.claim.differs,
    }
    return [(name, text) for name, text in texts.items() if text]


def command(row: JudgedClaim) -> str:
    """Return the command that measures a claim again, "" where there is none."""
    if row.claim.measure is None:
        return ""
    data_options = ["--data", "FOLDER"] if row.claim.sets else []
    work_options = ["--work", "FOLDER", "--train"] if row.claim.trained else []
    reader_options = ["--endpoint", "NAME"] if row.claim.is_read else []
    return command_line(["frontier", "reproduce", row.claim.id, *data_options, *work_options, *reader_options])


INTERVAL_NOTE = (
    "Each interval is of its figure alone. Where queries are compared, a figure also needs a test to count for or "
    "against the claim, corrected for the number of figures (Holm)."
)
"""Sentence on the intervals of effects: what they allow for, and what decides beside them."""


def figures(effects: Sequence[Effect]) -> list[dict[str, str]]:
    """Return a table row for each effect: name, value, 95% interval, and if it is as claimed.

    The last column has no title. It is "" for an effect that has no interval and no sign.
    """
    return [
        {
            "what": effect.name,
            "value": decimal(effect.value),
            "95% interval": "" if effect.low is None or effect.high is None
            else f"{decimal(effect.low)} to {decimal(effect.high)}",
            "": SIGNS[effect.sign] if effect.low is not None or effect.sign is not None else "",
        }
        for effect in effects
    ]  # fmt: skip


def markdown(report: Report) -> str:
    """Format papers by verdicts as Markdown."""
    head, *rows = report.table()
    lines = [head, ("---", *["---:"] * (len(head) - 1)), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
