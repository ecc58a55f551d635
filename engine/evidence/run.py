"""Claims measured once for a folder, an encoder and a seed, judged whenever they are read, and their reports."""

import hashlib
import json
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from importlib import resources
from multiprocessing import get_context
from operator import attrgetter
from pathlib import Path
from typing import Any

import torch
from threadpoolctl import threadpool_limits

from engine.data import cache
from engine.data.models import encoder_model
from engine.data.models.hub import BUNDLED
from engine.errors import DataError, FrontierError, ParamError
from engine.evidence.claim import PAPERS, Claim, ClaimMeasure, Measurement
from engine.evidence.claims import ccbqp, nnn, orag, sparse_dense, vrsd
from engine.evidence.judged_sets import JudgedSet, JudgedSets
from engine.evidence.measures import SECTION
from engine.evidence.rules import (
    SHORT,
    Effect,
    EffectCurve,
    Finding,
    Ruling,
    Scope,
    in_short,
    in_words,
    untestable,
)
from engine.params import Whole
from engine.progress import Progress, Stop, with_cancellation
from engine.values import digest_of

SEED = Whole(0, "seed", 0, name="seed", help="Same seed, same numbers.")
WORKERS = Whole(1, "workers", 1, 64, name="workers", help="Processes of this machine, one thread each.")
STOPPED = "{label} was stopped; claims that were measured are kept"
BEGIN = "report-"
FIELDS = ("sets", "encoder", "seed", "rows")
CLAIMS: Mapping[str, Claim] = {
    claim.id: claim
    for module in (nnn, orag, vrsd, sparse_dense, ccbqp)
    for claim in sorted(module.claim.registered, key=lambda claim: int(claim.id[1:]))
}
"""Every claim by its id, in the order of papers and numbers."""


@dataclass(frozen=True, kw_only=True)
class JudgedClaim:
    """A claim as it was judged here."""

    claim: Claim
    ruling: Ruling
    scope: Scope  # of this measurement: a claim's own, but for other sets than its own
    where: str  # the sets and the encoder
    seconds: float  # of the measurement

    @property
    def words(self) -> str:
        """The verdict as it may be said."""
        return in_words(self.ruling, self.scope, self.where)

    @property
    def short(self) -> str:
        """The verdict as lists have it."""
        return in_short(self.ruling.verdict, self.scope)


@dataclass(frozen=True, kw_only=True)
class Report:
    """Judged claims."""

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
        seconds = {}
        for row in self.rows:
            if row.claim.measure is not None:
                seconds[measure_key(row.claim.measure), row.claim.sets] = row.seconds
        return sum(seconds.values())

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


def chosen(name: str) -> tuple[Claim, ...]:
    """The claims that a word names: an id, a paper, or "all". Raises ParamError."""
    if name == "all":
        return tuple(CLAIMS.values())
    if name.upper() in CLAIMS:
        return (CLAIMS[name.upper()],)
    if name in PAPERS:
        return tuple(claim for claim in CLAIMS.values() if claim.paper == name)
    raise ParamError(f"claim must be all, one of {', '.join(PAPERS)}, or one of {', '.join(CLAIMS)}; got {name!r}")


def reproduce(
    which: str,
    data: str | Path | None = None,
    encoder: str = BUNDLED,
    work: str | Path | None = None,
    train: bool = False,
    *,
    seed: int = 0,
    workers: int = 1,
    anew: bool = False,
    progress: Progress | None = None,
    stop: Stop | None = None,
) -> Iterator[Report]:
    """Measure and judge claims; yields the report so far after each, the new row last, those kept from before first.

    which: a claim's id, a paper, or "all"; data to train: of `JudgedSets`; anew: measure again what is kept. Kept by
    measure and its version, the sets' contents, encoder and seed, so that a run that was killed goes on. Raises
    ParamError, DataError, and Cancelled.
    """
    seed, workers = SEED.check(seed), WORKERS.check(workers)
    sets, asked = JudgedSets(data, encoder, work, train), chosen(which)
    watch = with_cancellation(progress, stop, STOPPED)
    report = Report(sets=sets.names, encoder=encoder, seed=seed, rows=())
    waiting: dict[str, list[Claim]] = {}
    for claim in asked:
        key = _key(claim, sets, seed)
        stored = None if anew or not claim.measure else cache.get(SECTION, key)
        if claim.measure and stored is None:
            waiting.setdefault(key, []).append(claim)
            continue
        row = _judged(claim, sets, {"seconds": 0.0} if stored is None else json.loads(stored))
        report = replace(report, rows=(*report.rows, row))
        yield report
    watch(len(report.rows), len(asked), "claims")
    for key, measurement in _measured(waiting, sets, seed, workers):
        cache.put(SECTION, key, json.dumps(measurement).encode())
        for claim in waiting[key]:
            report = replace(report, rows=(*report.rows, _judged(claim, sets, measurement)))
            watch(len(report.rows), len(asked), claim.id)
            yield report


def _measured(
    waiting: Mapping[str, Sequence[Claim]], sets: JudgedSets, seed: int, workers: int
) -> Iterator[tuple[str, Measurement]]:
    """Key → what the claims that share it measure."""
    if workers == 1 or len(waiting) < 2:
        for key, (claim, *_) in waiting.items():
            yield key, _measure(claim, sets, seed)
        return
    # The longest first, so that no worker is left with one at the end.
    order = sorted(waiting, key=lambda key: -max(claim.cost for claim in waiting[key]))
    with ProcessPoolExecutor(workers, get_context("spawn"), _ready, sets.arguments) as pool:
        running = {pool.submit(_measure_in_worker, waiting[key][0].id, seed): key for key in order}
        try:
            for future in as_completed(running):
                yield running[future], future.result()
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


_SETS = JudgedSets()
"""Of a worker."""


def _ready(*arguments: Any) -> None:
    global _SETS
    torch.set_num_threads(1)
    threadpool_limits(1, user_api="blas")
    _SETS = JudgedSets(*arguments)


def _measure_in_worker(name: str, seed: int) -> Measurement:
    return _measure(CLAIMS[name], _SETS, seed)


def _measure(claim: Claim, sets: JudgedSets, seed: int) -> Measurement:
    """What a claim measures, with its seconds; what a set lacks is said in place of numbers."""
    began = time.monotonic()
    try:
        if claim.sets and not sets.names:
            raise DataError(f"judged sets: {', '.join(claim.sets)} (--data FOLDER)")
        if claim.measure is None:
            raise DataError(claim.missing)
        numbers: Mapping[str, Any] = {"numbers": claim.measure.compute(_used(claim, sets), seed)}
    except FrontierError as error:
        numbers = {"missing": str(error).rstrip(".")}
    return {**numbers, "seconds": round(time.monotonic() - began, 1)}


def _judged(claim: Claim, sets: JudgedSets, measurement: Measurement) -> JudgedClaim:
    used = [judged.name for judged in _used(claim, sets)]
    missing = measurement.get("missing", claim.missing)
    return JudgedClaim(
        claim=claim,
        ruling=untestable(missing) if missing else claim.rule(measurement["numbers"]),
        scope=claim.scope if set(used) <= set(claim.sets) else Scope.STAND_IN,
        where=f"{', '.join(used)} with {sets.encoder_title}" if used else "generated cases",
        seconds=measurement["seconds"],
    )


def _used(claim: Claim, sets: JudgedSets) -> list[JudgedSet]:
    """The sets that a claim is measured on: its own, else all; of trained systems, where there are any."""
    used = list(sets.among(claim.sets)) if claim.sets and sets.names else []
    return [judged for judged in used if judged.is_trained] or used if claim.trained else used


def measure_key(measure: ClaimMeasure) -> str:
    """Text that identifies what is computed, however its code is worded; decoders are written as their labels."""
    return json.dumps([measure.name, measure.version, measure.parameters], default=attrgetter("label"))


def _key(claim: Claim, sets: JudgedSets, seed: int) -> str:
    """Names a measurement: its measure and parameters, the contents of its sets, encoder and seed; never its code."""
    if claim.measure is None:
        return claim.id
    parts = [measure_key(claim.measure)]
    if claim.sets:
        used = _used(claim, sets)
        parts += [encoder_model.find_source(sets.encoder).digest, *(s.digest for s in used)]
        parts += [judged.trained_digest for judged in used if claim.trained]
    return hashlib.sha256(digest_of([*parts, str(seed)]).encode()).hexdigest()[:32]


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
        judged = [_row(row) for row in rows if row["id"] in CLAIMS]
    except (ValueError, KeyError, TypeError) as error:
        raise DataError(f"this is no report of frontier reproduce: {error}") from error
    return Report(sets=tuple(sets), encoder=encoder, seed=seed, rows=in_order(judged))


def in_order(rows: Iterable[JudgedClaim]) -> tuple[JudgedClaim, ...]:
    """Rows in the order of papers and numbers."""
    order = {name: place for place, name in enumerate(CLAIMS)}
    return tuple(sorted(rows, key=lambda row: order[row.claim.id]))


def keep(report: Report) -> Report:
    """Add rows to the report that is kept of the same sets, encoder and seed; returns the whole."""
    names = digest_of([*report.sets, report.encoder, str(report.seed)])
    key = BEGIN + hashlib.sha256(names.encode()).hexdigest()[:24]
    kept = _kept(key)
    before = kept.rows if kept is not None else ()
    fresh = {row.claim.id for row in report.rows}
    rows = (*report.rows, *(row for row in before if row.claim.id not in fresh))
    whole = Report(sets=report.sets, encoder=report.encoder, seed=report.seed, rows=in_order(rows))
    cache.put(SECTION, key, whole.as_json().encode())
    return whole


def reports() -> dict[str, Report]:
    """A title → report, the newest first, and last the one that comes with Frontier."""
    files = sorted(cache.open_section(SECTION).glob(f"{BEGIN}*"), key=lambda file: -file.stat().st_mtime)
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
    effects = []
    for effect in row["effects"]:
        curves = (EffectCurve(**c | {"points": tuple(map(tuple, c["points"]))}) for c in effect.get("curves", ()))
        effects.append(Effect(**effect | {"curves": tuple(curves)}))
    words = {name: row[name] for name in ("why", "needed", "open")}
    ruling = Ruling(verdict=Finding(row["verdict"]), effects=tuple(effects), **words)
    return JudgedClaim(
        claim=CLAIMS[row["id"]], ruling=ruling, scope=Scope(row["scope"]), where=row["where"], seconds=row["seconds"]
    )
