"""Claims measured once for a folder, an encoder and a seed, judged whenever they are read, and their reports."""

import hashlib
import json
import math
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from importlib import resources
from multiprocessing import get_context
from operator import attrgetter, itemgetter
from pathlib import Path
from typing import Any

import torch
from threadpoolctl import threadpool_limits

from engine.data import cache
from engine.data.encoders import find_model
from engine.data.models.hub import BUNDLED
from engine.errors import DataError, FrontierError, ParamError
from engine.evidence.claim import PAPERS, Claim, ClaimMeasure, Measurement
from engine.evidence.claims import ccbqp, nnn, orag, sparse_dense, vrsd
from engine.evidence.judged_sets import JudgedSet, JudgedSets
from engine.evidence.measures import CACHE_SECTION
from engine.evidence.readers import digest_reader
from engine.evidence.rules import (
    SHORT_VERDICTS,
    Effect,
    EffectCurve,
    Finding,
    Ruling,
    Scope,
    rule_unread,
    rule_untestable,
    shorten_verdict,
    word_verdict,
)
from engine.params import Whole
from engine.progress import Progress, Stop, with_cancellation
from engine.values import digest_of

SEED_PARAM = Whole(0, "seed", 0, name="seed", help="Same seed, same numbers.")
WORKERS_PARAM = Whole(1, "workers", 1, 64, name="workers", help="Processes of this machine, one thread each.")
STOPPED_MESSAGE = "{label} was stopped; claims that were measured are kept"
REPORT_PREFIX = "report-"
REPORT_FIELDS = ("sets", "encoder", "seed", "rows")
CLAIMS: Mapping[str, Claim] = {
    claim.id: claim
    for module in (nnn, orag, vrsd, sparse_dense, ccbqp)
    for claim in sorted(module.claim.registered, key=lambda claim: int(claim.id[1:]))
}
"""Every claim by its id, in the order of papers and numbers."""


@dataclass(frozen=True, kw_only=True)
class JudgedClaim:
    """A claim with its ruling, the scope of the evidence, and where it was measured."""

    claim: Claim
    ruling: Ruling
    scope: Scope  # of this measurement: a claim's own, but for other sets than its own
    where: str  # the sets and the encoder
    seconds: float  # of the measurement

    @property
    def words(self) -> str:
        """Full wording of the verdict."""
        return word_verdict(self.ruling, self.scope, self.where)

    @property
    def short(self) -> str:
        """Short wording of the verdict."""
        return shorten_verdict(self.ruling, self.scope)


@dataclass(frozen=True, kw_only=True)
class Report:
    """The judged claims of one run: sets, encoder, seed and a row for each claim."""

    sets: tuple[str, ...]  # names of all judged sets of the folder
    encoder: str
    seed: int
    rows: tuple[JudgedClaim, ...]

    @property
    def title(self) -> str:
        """Sets, encoder and seed of the measurements."""
        return f"{', '.join(self.sets) or 'no judged sets'}; encoder {self.encoder}; seed {self.seed}"

    @property
    def seconds(self) -> float:
        """The time of all measurements, one core each."""
        measure_seconds = {}
        # Claims that share a measure were measured once, so that their time counts once.
        for judged_row in self.rows:
            if judged_row.claim.measure is not None:
                measure_seconds[measure_key(judged_row.claim.measure), judged_row.claim.sets] = judged_row.seconds
        return sum(measure_seconds.values())

    def counts(self, paper: str | None = None) -> dict[str, int]:
        """Count the claims of a paper, by default of all, by short verdict."""
        counter = Counter(row.short for row in self.rows if paper in (None, row.claim.paper))
        return dict.fromkeys(SHORT_VERDICTS, 0) | counter

    def table(self) -> list[tuple[str, ...]]:
        """Return rows of texts: the number of claims by paper and verdict, below a head, all papers last."""
        table_rows = [("Paper", *map(str, SHORT_VERDICTS))]
        for paper, name in (*PAPERS.items(), (None, "all")):
            table_rows.append((name, *(f"{n_claims or '–'}" for n_claims in self.counts(paper).values())))
        return table_rows

    def as_json(self) -> str:
        """Return the report as the text of a JSON file with one claim a line."""
        row_lines = ",\n".join(json.dumps(row_as_json(judged_row), ensure_ascii=False) for judged_row in self.rows)
        head_fields = json.dumps({"sets": self.sets, "encoder": self.encoder, "seed": self.seed}, ensure_ascii=False)
        # The head's closing brace is cut off, to put the rows inside; each has a line, so that files can be compared.
        return f'{head_fields[:-1]}, "rows": [\n{row_lines}\n]}}\n'


def select_claims(name: str) -> tuple[Claim, ...]:
    """Return the claims of an id such as N21, of a paper, or of "all". Raises ParamError for other names."""
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
    reader: str | None = None,
    seed: int = 0,
    workers: int = 1,
    anew: bool = False,
    progress: Progress | None = None,
    stop: Stop | None = None,
) -> Iterator[Report]:
    """Measure and judge claims of the papers; yield the report so far after each one, the new row last.

    Claims whose measurements are stored come first. which: a claim's id, a paper, or "all"; data, encoder, work, train,
    reader: of `JudgedSets`; anew: measure again what is stored. Measurements are stored under measure, version,
    contents of the sets, encoder and seed, so that a run that was killed goes on. Raises ParamError, DataError, and
    Cancelled.
    """
    seed, workers = SEED_PARAM.check(seed), WORKERS_PARAM.check(workers)
    judged_sets, requested = JudgedSets(data, encoder, work, train, reader), select_claims(which)
    report_progress = with_cancellation(progress, stop, STOPPED_MESSAGE)
    report = Report(sets=judged_sets.names, encoder=encoder, seed=seed, rows=())
    claims_by_key: dict[str, list[Claim]] = {}
    for claim in requested:
        cache_key = _build_cache_key(claim, judged_sets, seed)
        is_measurable = claim.measure is not None and not _lacks_reader(claim, judged_sets)
        stored_text = None if anew or not is_measurable else cache.get(CACHE_SECTION, cache_key)
        # Claims with one key are measured once; those whose numbers are stored are judged at once.
        if is_measurable and stored_text is None:
            claims_by_key.setdefault(cache_key, []).append(claim)
            continue
        # A claim that cannot be measured has nothing to time.
        stored_measurement = {"seconds": 0.0} if stored_text is None else json.loads(stored_text)
        row = _judge_claim(claim, judged_sets, stored_measurement)
        report = replace(report, rows=(*report.rows, row))
        yield report
    report_progress(len(report.rows), len(requested), "claims")
    for cache_key, measurement in _measure_claims(claims_by_key, judged_sets, seed, workers):
        # Stored before it is judged: an error in a rule must not cost the measurement.
        cache.put(CACHE_SECTION, cache_key, json.dumps(measurement).encode())
        for claim in claims_by_key[cache_key]:
            report = replace(report, rows=(*report.rows, _judge_claim(claim, judged_sets, measurement)))
            report_progress(len(report.rows), len(requested), claim.id)
            yield report


def _measure_claims(
    claims_by_key: Mapping[str, Sequence[Claim]], judged_sets: JudgedSets, seed: int, workers: int
) -> Iterator[tuple[str, Measurement]]:
    """Measure one claim for each cache key, in this process or in workers; yield (key, measurement).

    claims_by_key: claims under one key share their measurement
    """
    # What may be sent to an endpoint was allowed in this process, so workers do not read.
    read_keys = [key for key, (claim, *_) in claims_by_key.items() if claim.is_read]
    own_claims = {key: claims for key, claims in claims_by_key.items() if key not in read_keys}
    # Any of the claims will do, as all under one key have the same measure and sets.
    if workers == 1 or len(own_claims) < 2:
        for key, (claim, *_) in own_claims.items():
            yield key, _measure(claim, judged_sets, seed)
    else:
        yield from _measure_in_pool(own_claims, judged_sets, seed, workers)
    errors = []
    # A service may fail, or nobody allow to send as much: that costs none of the others.
    for key in read_keys:
        try:
            measurement = _measure(claims_by_key[key][0], judged_sets, seed)
        except FrontierError as error:
            errors.append(error)
        else:
            yield key, measurement
    if errors:
        raise errors[0]


def _measure_in_pool(
    claims_by_key: Mapping[str, Sequence[Claim]], judged_sets: JudgedSets, seed: int, workers: int
) -> Iterator[tuple[str, Measurement]]:
    """Measure one claim for each cache key in workers; yield (key, measurement) as they come."""
    # The longest first, so that no worker is left with one at the end.
    sorted_keys = sorted(claims_by_key, key=lambda key: -max(claim.cost for claim in claims_by_key[key]))
    with ProcessPoolExecutor(workers, get_context("spawn"), _start_worker, judged_sets.arguments) as pool:
        # Workers get the id of a claim, not the claim, whose rules and measures cannot be pickled.
        key_by_future = {pool.submit(_measure_in_worker, claims_by_key[key][0].id, seed): key for key in sorted_keys}
        try:
            for future in as_completed(key_by_future):
                yield key_by_future[future], future.result()
        finally:
            # Also if the caller stops iterating: measurements that have not begun are dropped.
            pool.shutdown(wait=True, cancel_futures=True)


_WORKER_SETS = JudgedSets()
"""Of a worker."""


def _start_worker(*arguments: Any) -> None:
    """Prepare a worker process: one thread, and the judged sets that `_measure_in_worker` reads."""
    # Each worker loads and embeds its sets once; one thread each keeps the latencies comparable.
    global _WORKER_SETS
    torch.set_num_threads(1)
    threadpool_limits(1, user_api="blas")
    _WORKER_SETS = JudgedSets(*arguments)


def _measure_in_worker(name: str, seed: int) -> Measurement:
    """Measure a claim in a worker process, on the sets that `_start_worker` loaded."""
    return _measure(CLAIMS[name], _WORKER_SETS, seed)


def _measure(claim: Claim, judged_sets: JudgedSets, seed: int) -> Measurement:
    """Measure a claim; return its "numbers" and the "seconds" that it took.

    If it cannot be measured, "missing" says in words what is needed, in place of the numbers.
    """
    start_time = time.monotonic()
    try:
        if claim.sets and not judged_sets.names:
            raise DataError(f"judged sets: {', '.join(claim.sets)} (--data FOLDER)")
        if claim.measure is None:
            raise DataError(claim.missing)
        numbers: Mapping[str, Any] = {"numbers": claim.measure.compute(_select_sets(claim, judged_sets), seed)}
    except FrontierError as error:
        # What a service did not answer is no lack of the claim's, and would be stored as one.
        if claim.is_read and judged_sets.names:
            raise
        numbers = {"missing": str(error).rstrip(".")}
    return {**numbers, "seconds": round(time.monotonic() - start_time, 1)}


def _judge_claim(claim: Claim, judged_sets: JudgedSets, measurement: Measurement) -> JudgedClaim:
    """Apply a claim's rule to its stored measurement.

    The claim is untestable if the measurement, or the claim itself, says in "missing" what is needed to test it.
    """
    if _lacks_reader(claim, judged_sets):
        return JudgedClaim(claim=claim, ruling=rule_unread(), scope=claim.scope, where="no sets", seconds=0.0)
    used_sets = list(map(attrgetter("name"), _select_sets(claim, judged_sets)))
    missing = measurement.get("missing", claim.missing)
    reader = f", read by {judged_sets.reader}" if claim.is_read else ""
    # Evidence on other sets than the claim's own is a stand-in, whatever the claim allows at best.
    return JudgedClaim(
        claim=claim,
        ruling=rule_untestable(missing) if missing else claim.rule(measurement["numbers"]),
        scope=claim.scope if set(used_sets) <= set(claim.sets) else Scope.STAND_IN,
        where=f"{', '.join(used_sets)} with {judged_sets.encoder_title}{reader}" if used_sets else "generated cases",
        seconds=measurement["seconds"],
    )


def _lacks_reader(claim: Claim, judged_sets: JudgedSets) -> bool:
    """Return True for a claim on what a language model makes of sets, where none is named."""
    # Nothing is asked of a service that nobody named: it costs money, and texts leave this machine.
    return claim.is_read and judged_sets.reader is None


def _select_sets(claim: Claim, judged_sets: JudgedSets) -> list[JudgedSet]:
    """Return the sets to measure a claim on: those that it names, or all if the folder has none of them.

    Claims on trained systems take the sets with such systems, if there are any.
    """
    sets = list(judged_sets.select(claim.sets)) if claim.sets and judged_sets.names else []
    trained_sets = [judged_set for judged_set in sets if claim.trained and judged_set.is_trained]
    return trained_sets or sets


def measure_key(measure: ClaimMeasure) -> str:
    """Return the text that identifies a measurement in cache keys: name, version and parameters."""
    return json.dumps([measure.name, measure.version, measure.parameters], default=attrgetter("label"))


def _build_cache_key(claim: Claim, sets: JudgedSets, seed: int) -> str:
    """Build the key under which a claim's measurement is stored, from measure, sets, encoder and seed."""
    if claim.measure is None:
        return claim.id
    # A measure counts by its name and version, not by its code: a rewrite must not cost the measurement.
    key_parts = [measure_key(claim.measure)]
    # Claims on generated cases depend on no set and no encoder, so that their key names neither.
    if claim.sets:
        used_sets = _select_sets(claim, sets)
        key_parts += [find_model(sets.encoder).digest, *map(attrgetter("digest"), used_sets)]
        key_parts += map(attrgetter("trained_digest"), used_sets if claim.trained else ())
    if claim.is_read and sets.reader is not None:
        # Another model, or another prompt, is another measurement.
        key_parts.append(digest_reader(sets.reader))
    return hashlib.sha256(digest_of([*key_parts, str(seed)]).encode()).hexdigest()[:32]


def row_as_json(row: JudgedClaim) -> dict[str, object]:
    """Return a judged claim as JSON values by name, as report files have it."""
    claim = row.claim
    return {
        "id": claim.id, "paper": claim.paper, "place": claim.place, "sentence": claim.sentence,
        "verdict": str(row.ruling.verdict), "words": row.words, "why": row.ruling.why, "scope": str(row.scope),
        "where": row.where, "effects": list(map(asdict, row.ruling.effects)), "needed": row.ruling.needed,
        "open": row.ruling.open, "paper_effect": claim.effect, "differs": claim.differs, "seconds": row.seconds,
    }  # fmt: skip


def parse_report(report_text: str | bytes) -> Report:
    """Build the report that a JSON text, or a file's bytes, holds; claims that no longer exist are left out.

    Raises DataError for what is no report.
    """
    try:
        content = json.loads(report_text)
        judged_sets, encoder, seed, rows = itemgetter(*REPORT_FIELDS)(content)
        judged_rows = [_parse_row(row) for row in rows if row["id"] in CLAIMS]
        has_texts = isinstance(judged_sets, list) and all(isinstance(text, str) for text in (*judged_sets, encoder))
        if not has_texts or not isinstance(seed, int):
            raise TypeError("sets and encoder must be text, seed a whole number")
    # Files come from people, too: whatever is missing or of a wrong type makes them no report.
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise DataError(f"this is no report of frontier reproduce: {str(error)[:200]}") from error
    return Report(sets=tuple(judged_sets), encoder=encoder, seed=seed, rows=sort_rows(judged_rows))


def sort_rows(judged_rows: Iterable[JudgedClaim]) -> tuple[JudgedClaim, ...]:
    """Return rows in the order of papers and numbers."""
    claim_ids = list(CLAIMS)
    return tuple(sorted(judged_rows, key=lambda judged_row: claim_ids.index(judged_row.claim.id)))


def save_report(report: Report) -> Report:
    """Merge rows into the stored report of these sets, encoder and seed, and return the merged report."""
    identity = digest_of([*report.sets, report.encoder, str(report.seed)])
    cache_key = REPORT_PREFIX + hashlib.sha256(identity.encode()).hexdigest()[:24]
    stored_report = _load_report(cache_key)
    earlier_rows = stored_report.rows if stored_report is not None else ()
    # Rows of this run replace earlier rows of the same claims, but for what only an endpoint can measure; all others
    # stay.
    rows_by_id = {judged_row.claim.id: judged_row for judged_row in earlier_rows}
    for judged_row in report.rows:
        if judged_row.ruling.verdict is not Finding.NEEDS_ENDPOINT:
            rows_by_id[judged_row.claim.id] = judged_row
        rows_by_id.setdefault(judged_row.claim.id, judged_row)
    full_report = replace(report, rows=sort_rows(rows_by_id.values()))
    cache.put(CACHE_SECTION, cache_key, full_report.as_json().encode())
    return full_report


def list_reports() -> dict[str, Report]:
    """Return title → report: those in the cache, the newest first, then the one shipped with the package."""
    files = sorted(cache.open_section(CACHE_SECTION).glob(f"{REPORT_PREFIX}*"), key=lambda file: -file.stat().st_mtime)
    stored_reports = {report.title: report for file in files if (report := _load_report(file.name)) is not None}
    # The shipped report comes last, so that a person's own results come first.
    return stored_reports | {f"With Frontier: {load_shipped().title}": load_shipped()}


@lru_cache(1)
def load_shipped() -> Report:
    """Load the report that comes with Frontier."""
    installed_path = Path(str(resources.files("engine.evidence") / "evidence.json"))
    source_path = Path(__file__).resolve().parents[2] / "assets" / "results" / "evidence.json"
    return parse_report((installed_path if installed_path.is_file() else source_path).read_text(encoding="utf-8"))


def _load_report(cache_key: str) -> Report | None:
    """Load a report from the cache by its key; None if there is none, or this version cannot read it."""
    payload = cache.get(CACHE_SECTION, cache_key)
    try:
        return None if payload is None else parse_report(payload)
    except DataError:
        return None


def _parse_row(row: Mapping[str, Any]) -> JudgedClaim:
    """Build a judged claim from a report's row. Raises KeyError, TypeError, ValueError or OverflowError if invalid."""
    why, needed, n_open = itemgetter("why", "needed", "open")(row)
    _check_texts(why, row["where"])
    _check_numbers(row["seconds"], n_open, *(() if needed is None else (needed,)))
    ruling = Ruling(
        verdict=Finding(row["verdict"]),
        why=why,
        effects=tuple(map(_parse_effect, row["effects"])),
        needed=needed,
        open=n_open,
    )
    return JudgedClaim(
        claim=CLAIMS[row["id"]], ruling=ruling, scope=Scope(row["scope"]), where=row["where"], seconds=row["seconds"]
    )


def _parse_effect(fields: dict[str, Any]) -> Effect:
    """Build an effect from a report's JSON values. Raises TypeError, ValueError or OverflowError if invalid."""
    effect = Effect(**fields | {"curves": tuple(map(_parse_curve, fields.get("curves", ())))})
    _check_texts(effect.name)
    optional_numbers = (effect.low, effect.high, effect.sign)
    _check_numbers(effect.value, *(number for number in optional_numbers if number is not None))
    return effect


def _parse_curve(fields: dict[str, Any]) -> EffectCurve:
    """Build a curve from a report's JSON values. Raises as `_parse_effect` does."""
    # JSON has lists where the frozen values have tuples.
    curve = EffectCurve(**fields | {"points": tuple(map(tuple, fields["points"]))})
    _check_texts(curve.name, curve.x, curve.y)
    if not isinstance(curve.log, bool):
        raise TypeError("a curve's log must be true or false")
    for x_value, y_value in curve.points:
        _check_numbers(x_value, y_value)
        # Measured curves have no such points, and no axis could show them.
        if not (math.isfinite(x_value) and math.isfinite(y_value)) or (curve.log and min(x_value, y_value) <= 0):
            raise ValueError("a curve's points must be finite, and above 0 on logarithmic axes")
    return curve


def _check_texts(*values: Any) -> None:
    """Raise TypeError unless all values are texts."""
    if not all(isinstance(value, str) for value in values):
        raise TypeError("names, axes, why and where must be text")


def _check_numbers(*values: Any) -> None:
    """Raise TypeError unless all values are numbers, OverflowError for a whole number that no float can hold."""
    for value in values:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise TypeError("values, limits, points, counts and seconds must be numbers")
        # NaN and infinity stay: a measured ratio may have no value, or no upper limit.
        float(value)
