"""Judged claims for pages, files and the README: counts and advice in sentences, facts and figures of a row."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from engine.evaluation.metrics import write_metric_titles
from engine.evidence.claim import PAPERS
from engine.evidence.rules import FAILS_HERE, HOLDS_WHERE_DECIDED, SHORT_VERDICTS, Effect, Finding
from engine.evidence.run import JudgedClaim, Report
from engine.progress import counted
from engine.wording import command_line, decimal, signed

COLOURS: Mapping[str, str] = dict(
    zip(SHORT_VERDICTS, ("green", "green", "orange", "red", "red", "blue", "gray", "violet"), strict=True)
)
"""Colour of the badge of each short verdict."""
VERDICT_SIGNS: Mapping[str, str] = {
    Finding.HOLDS: "✓",
    HOLDS_WHERE_DECIDED: "(✓)",
    Finding.PARTLY: "◐",
    FAILS_HERE: "✕",
    Finding.REFUTED: "⊘",
    Finding.UNDECIDED: "?",
    Finding.UNTESTABLE: "–",
    Finding.NEEDS_ENDPOINT: "◌",
}
"""Sign of each short verdict, so that no verdict is told by its colour alone."""
OUTLINED_VERDICTS = frozenset({HOLDS_WHERE_DECIDED})
"""Short verdicts whose squares are outlines, not filled, as part of the evidence is missing."""
ROUND_VERDICTS = frozenset({Finding.REFUTED})
"""Short verdicts whose squares are discs, as another verdict has their colour."""
OUTCOMES: Mapping[tuple[str, str], tuple[str, ...]] = {
    ("holds", "hold"): (Finding.HOLDS, HOLDS_WHERE_DECIDED),
    ("partly", "partly"): (Finding.PARTLY,),
    ("does not hold", "do not hold"): (FAILS_HERE, Finding.REFUTED),
    (f"{Finding.UNDECIDED.value} or {Finding.UNTESTABLE.value}",) * 2: (
        Finding.UNDECIDED,
        Finding.UNTESTABLE,
        Finding.NEEDS_ENDPOINT,
    ),
}
"""Outcome, as said of one claim and of several → its short verdicts; a sentence has room for four numbers."""
SIGNS = {1: "as claimed", -1: "against it", 0: "neither", None: "open"}


def headline(report: Report) -> str:
    """State the number of claims that hold, that do not, and that are open; the legend of the wall has all verdicts."""
    counts = report.counts()
    outcomes = list[str]()
    for words, verdicts in OUTCOMES.items():
        if n_claims := sum(counts[verdict] for verdict in verdicts):
            text = f"{n_claims:,} {words[n_claims != 1]}"
            # What holds in part belongs to what holds.
            if verdicts == (Finding.PARTLY,) and outcomes:
                outcomes[-1] += f", {text}"
            else:
                outcomes.append(text)
    return f"{counted(len(report.rows), 'claim')}: {' · '.join(outcomes)}"


@dataclass(frozen=True, kw_only=True)
class Advice:
    """A choice that practitioners have, and the claims whose measurements inform it."""

    whom: str  # for whom it is
    choice: str  # what they could take, and what it is compared with
    unit: str
    claim_ids: tuple[str, ...]
    part: str = ""  # of the names of the effects that count


ADVICE = (
    Advice(
        whom="Without training, if all relevant documents are needed at once",
        choice="NNN instead of Top-k",
        unit="points of Comp@5",
        claim_ids=("N5", "N6", "N7"),
    ),
    Advice(
        whom="With labelled queries to train on",
        choice="NNN trained for its decoder instead of Top-k",
        unit="points of Comp@5",
        claim_ids=("N12",),
        part="Comp@5",
    ),
    Advice(
        whom="With votes of users",
        choice="embeddings updated online instead of frozen ones",
        unit="points of nDCG@10 on new queries",
        claim_ids=("O8",),
        part="held-out ndcg@10",
    ),
)
"""Choices of decoders and embeddings that the claims of the papers are about."""


def advise(report: Report) -> list[str]:
    """Return a sentence for each choice of practitioners: what it gains or loses on which sets.

    Choices that the report has not measured are left out.
    """
    rows = {row.claim.id: row for row in report.rows}
    sentences = []
    for advice in ADVICE:
        claims = [rows[claim_id] for claim_id in advice.claim_ids if claim_id in rows]
        effects = [effect for row in claims for effect in row.ruling.effects if advice.part in effect.name]
        # Without a sign a difference is not told from none: its value would be read as a finding.
        differences = [f"{signed(effect.value, 1)} on {_set_of(effect)}" for effect in effects if effect.sign]
        open_sets = [_set_of(effect) for effect in effects if not effect.sign]
        outcomes = []
        if differences:
            outcomes.append(", ".join(differences))
        if open_sets:
            outcomes.append(f"no clear difference on {', '.join(open_sets)}")
        if outcomes:
            sentences.append(f"{advice.whom}: {advice.choice}. In {advice.unit}: {'; '.join(outcomes)}.")
    return sentences


def _set_of(effect: Effect) -> str:
    """Return the judged set of an effect, with which its name begins."""
    return effect.name.replace(":", ",").split(",")[0]


@dataclass(frozen=True)
class ClaimSquare:
    """A claim as a square of the wall."""

    claim_id: str
    verdict: str  # in short
    sign: str
    title: str  # for the mouse and for screen readers


def list_squares(report: Report) -> dict[str, list[ClaimSquare]]:
    """Return the squares of each paper, by its name: claims sorted by verdict, from the best to none."""
    ranks = {verdict: rank for rank, verdict in enumerate(SHORT_VERDICTS)}
    squares: dict[str, list[ClaimSquare]] = {}
    # The sort is stable, so that claims of one verdict stay in the order of the paper.
    for row in sorted(report.rows, key=lambda judged: ranks[judged.short]):
        title = f"{row.claim.id}, {row.short}: {row.claim.sentence}"
        square = ClaimSquare(row.claim.id, row.short, VERDICT_SIGNS[row.short], title)
        squares.setdefault(row.claim.paper, []).append(square)
    return {PAPERS[paper]: squares[paper] for paper in PAPERS if paper in squares}


def describe_signs(report: Report) -> str:
    """Return the legend of the squares: each verdict's sign and number of claims, and the meaning of an outline."""
    signs = [f"{VERDICT_SIGNS[short]} {short} {count:,}" for short, count in report.counts().items() if count]
    has_outlines = any(row.short in OUTLINED_VERDICTS for row in report.rows)
    return " · ".join(signs) + (". Outlined: some sets or cells have too few queries to tell." if has_outlines else "")


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


CLAIMED_NOTE = "● measured here, with its 95% CI · ◇ in the paper, on its own data and encoder"
"""Legend of a chart that has the paper's numbers too."""
UNNUMBERED_NOTE = "● measured here, with its 95% CI · the paper prints no number, so none is drawn beside it"
"""Legend of a chart of a claim for which the paper prints no number."""


def describe_marks(row: JudgedClaim) -> str:
    """Return the legend of a judged claim's chart: its numbers, and the paper's; "" without intervals or either."""
    if row.claim.claimed_values:
        return CLAIMED_NOTE
    has_intervals = any(effect.low is not None for effect in row.ruling.effects)
    return UNNUMBERED_NOTE if has_intervals and not row.claim.effect else ""


def figures(effects: Sequence[Effect]) -> list[dict[str, str]]:
    """Return a table row for each effect: name, value, 95% CI, and if it is as claimed.

    The last column has no title. It is "" for an effect that has no interval and no sign.
    """
    return [
        {
            "what": write_metric_titles(effect.name),
            "value": decimal(effect.value),
            "95% CI": "" if effect.low is None or effect.high is None
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
