"""Judged claims of one folder and encoder as a value: what the command keeps, and pages, files and README show."""

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import Any

from engine.data import cache
from engine.errors import DataError
from engine.evidence.claim import PAPERS, claims
from engine.evidence.measures import SECTION
from engine.evidence.rules import SHORT, Effect, EffectCurve, Finding, Ruling, Scope
from engine.evidence.run import JudgedClaim
from engine.values import digest_of

BEGIN = "report-"
FIELDS = ("sets", "encoder", "seed", "rows")


@dataclass(frozen=True, kw_only=True)
class Report:
    """Judged claims, in the order of papers and numbers."""

    sets: tuple[str, ...]  # names of all judged sets of the folder
    encoder: str
    seed: int
    rows: tuple[JudgedClaim, ...]

    @property
    def title(self) -> str:
        """What the claims were measured on."""
        return f"{', '.join(self.sets) or 'no judged sets'}; encoder {self.encoder}; seed {self.seed}"

    @property
    def seconds(self) -> float:
        """The time of all measurements, one core each."""
        return sum({(repr(row.claim.measure), row.claim.sets): row.seconds for row in self.rows}.values())

    def counts(self, paper: str | None = None) -> dict[str, int]:
        """Verdict in short → claims of a paper, by default of all."""
        counted = Counter(row.short for row in self.rows if paper in (None, row.claim.paper))
        return {short: counted[short] for short in SHORT}

    def table(self) -> list[tuple[str, ...]]:
        """Papers by verdicts, with a head and a last row of all."""
        rows = [(name, self.counts(paper)) for paper, name in PAPERS.items()] + [("all", self.counts())]
        cells = [(name, *(f"{count or '–'}" for count in counts.values())) for name, counts in rows]
        return [("", *map(str, SHORT)), *cells]

    def as_json(self) -> str:
        """The report as a file has it."""
        rows = ",\n".join(json.dumps(as_plain(row), ensure_ascii=False) for row in self.rows)
        head = json.dumps({"sets": self.sets, "encoder": self.encoder, "seed": self.seed}, ensure_ascii=False)
        return f'{head[:-1]}, "rows": [\n{rows}\n]}}\n'


def as_plain(row: JudgedClaim) -> dict[str, object]:
    """A row as JSON has it."""
    claim = row.claim
    return {
        "id": claim.id, "paper": claim.paper, "place": claim.place, "sentence": claim.sentence,
        "verdict": str(row.ruling.verdict), "words": row.words, "why": row.ruling.why, "scope": str(row.scope),
        "where": row.where, "effects": [asdict(effect) for effect in row.ruling.effects], "needed": row.ruling.needed,
        "open": row.ruling.open, "paper_effect": claim.effect, "differs": claim.differs, "seconds": row.seconds,
    }  # fmt: skip


def report_of(text: str) -> Report:
    """The report of a file; rows of claims that are no longer made are left out. Raises DataError."""
    try:
        read = json.loads(text)
        sets, encoder, seed, rows = (read[field] for field in FIELDS)
        known = claims()
        judged = [_row(row) for row in rows if row["id"] in known]
    except (ValueError, KeyError, TypeError) as error:
        raise DataError(f"this is no report of frontier reproduce: {error}") from error
    return Report(sets=tuple(sets), encoder=encoder, seed=seed, rows=in_order(judged))


def in_order(rows: Iterable[JudgedClaim]) -> tuple[JudgedClaim, ...]:
    """Rows in the order of papers and numbers."""
    order = {name: place for place, name in enumerate(claims())}
    return tuple(sorted(rows, key=lambda row: order[row.claim.id]))


def keep(report: Report) -> Report:
    """Add rows to the report that is kept of the same sets, encoder and seed; returns the whole."""
    key = _key(report)
    kept = _kept(key)
    before = kept.rows if kept is not None else ()
    fresh = {row.claim.id for row in report.rows}
    rows = (*report.rows, *(row for row in before if row.claim.id not in fresh))
    whole = Report(sets=report.sets, encoder=report.encoder, seed=report.seed, rows=in_order(rows))
    cache.put(SECTION, key, whole.as_json().encode())
    return whole


def reports() -> dict[str, Report]:
    """A title → report, the newest first, and last the one that comes with Frontier."""
    files = sorted(cache.section(SECTION).glob(f"{BEGIN}*"), key=lambda file: -file.stat().st_mtime)
    kept = {report.title: report for file in files if (report := _kept(file.name)) is not None}
    return kept | {f"With Frontier: {shipped().title}": shipped()}


@lru_cache(1)
def shipped() -> Report:
    """The report that comes with Frontier."""
    installed = Path(str(resources.files("engine.evidence") / "evidence.json"))
    source = Path(__file__).resolve().parents[2] / "assets" / "results" / "evidence.json"
    return report_of((installed if installed.is_file() else source).read_text(encoding="utf-8"))


def _kept(key: str) -> Report | None:
    """A report of the cache, None where there is none, or one of another version."""
    payload = cache.get(SECTION, key)
    try:
        return None if payload is None else report_of(payload.decode())
    except DataError:
        return None


def _row(row: Mapping[str, Any]) -> JudgedClaim:
    effects = tuple(_effect(effect) for effect in row["effects"])
    words = {name: row[name] for name in ("why", "needed", "open")}
    ruling = Ruling(verdict=Finding(row["verdict"]), effects=effects, **words)
    return JudgedClaim(
        claim=claims()[row["id"]], ruling=ruling, scope=Scope(row["scope"]), where=row["where"], seconds=row["seconds"]
    )


def _effect(numbers: Mapping[str, Any]) -> Effect:
    curves = (c | {"points": tuple(map(tuple, c["points"]))} for c in numbers.get("curves", ()))
    return Effect(**{**numbers, "curves": tuple(EffectCurve(**curve) for curve in curves)})


def _key(report: Report) -> str:
    names = digest_of([*report.sets, report.encoder, str(report.seed)])
    return BEGIN + hashlib.sha256(names.encode()).hexdigest()[:24]
