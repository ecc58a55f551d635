"""Measuring of claims: each once for a folder, an encoder and a seed, kept, and judged whenever it is read."""

import hashlib
import importlib
import inspect
import json
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, is_dataclass
from multiprocessing import get_context
from typing import Any

import torch

from engine.data import cache
from engine.data.models import encoder_model
from engine.errors import DataError, FrontierError
from engine.evidence.claim import Claim, Measurement, chosen, claims
from engine.evidence.judged_sets import JudgedSet, JudgedSets
from engine.evidence.measures import SECTION
from engine.evidence.rules import Ruling, Scope, in_short, in_words, untestable
from engine.params import Whole
from engine.progress import Progress, Stop, stoppable
from engine.threads import limit_blas
from engine.values import digest_of

SEED = Whole(0, "seed", 0, name="seed", help="Same seed, same numbers.")
WORKERS = Whole(1, "workers", 1, 64, name="workers", help="Processes of this machine, one thread each.")
JUDGING = re.compile(
    r"^from engine\.evidence\.(claim|rules) import (\([^)]*\)|.*)\n|^def judge\(.*\n((?!\S).*\n)*|^CLAIM = [\s\S]*",
    re.MULTILINE,
)
"""What measures nothing: a claim's words, what judges it, and what that takes from the rules."""
STOPPED = "{label} was stopped; claims that were measured are kept"


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


def reproduce(
    which: str,
    sets: JudgedSets,
    seed: int = 0,
    workers: int = 1,
    anew: bool = False,
    progress: Progress | None = None,
    stop: Stop | None = None,
) -> Iterator[JudgedClaim]:
    """Claims measured and judged, as they are finished; those kept from before come first.

    which: a claim's id, a paper, or "all"; anew: measure again what is kept. Kept by measure and its code, the sets'
    contents, encoder and seed, so that a run that was killed goes on. Raises ParamError, DataError, and Cancelled.
    """
    seed, workers = SEED.check(seed), WORKERS.check(workers)
    asked = chosen(which)
    watch = stoppable(progress, stop, STOPPED)
    done = 0
    waiting: dict[str, list[Claim]] = {}
    for claim in asked:
        key = _key(claim, sets, seed)
        stored = None if anew or not claim.measure else cache.get(SECTION, key)
        if claim.measure and stored is None:
            waiting.setdefault(key, []).append(claim)
            continue
        done += 1
        yield _judged(claim, sets, {"seconds": 0.0} if stored is None else json.loads(stored))
    watch(done, len(asked), "claims")
    for key, measurement in _measured(waiting, sets, seed, workers):
        cache.put(SECTION, key, json.dumps(measurement).encode())
        for claim in waiting[key]:
            done += 1
            watch(done, len(asked), claim.id)
            yield _judged(claim, sets, measurement)


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
    limit_blas(1)
    _SETS = JudgedSets(*arguments)


def _measure_in_worker(name: str, seed: int) -> Measurement:
    return _measure(claims()[name], _SETS, seed)


def _measure(claim: Claim, sets: JudgedSets, seed: int) -> Measurement:
    """What a claim measures, with its seconds; what a set lacks is said in place of numbers."""
    began = time.monotonic()
    try:
        if claim.sets and not sets.names:
            raise DataError(f"judged sets: {', '.join(claim.sets)} (--data FOLDER)")
        if claim.measure is None:
            raise DataError(claim.missing)
        numbers: Mapping[str, Any] = {"numbers": claim.measure(_used(claim, sets), seed)}
    except FrontierError as error:
        numbers = {"missing": str(error).rstrip(".")}
    return {**numbers, "seconds": round(time.monotonic() - began, 1)}


def _judged(claim: Claim, sets: JudgedSets, measurement: Measurement) -> JudgedClaim:
    used = [judged.name for judged in _used(claim, sets)]
    missing = measurement.get("missing", claim.missing)
    return JudgedClaim(
        claim=claim,
        ruling=untestable(missing) if missing or claim.rule is None else claim.rule(measurement["numbers"]),
        scope=claim.scope if set(used) <= set(claim.sets) else Scope.STAND_IN,
        where=f"{', '.join(used)} with {sets.encoder_title}" if used else "generated cases",
        seconds=measurement["seconds"],
    )


def _sources(name: str) -> list[str]:
    """The code of a module and of all that measure for it, without what claims say and what judges them."""
    sources: dict[str, str] = {}
    waiting = [name]
    while waiting:
        module = waiting.pop()
        if module not in sources:
            text = JUDGING.sub("", inspect.getsource(importlib.import_module(module)))
            sources[module] = text
            waiting += re.findall(r"^from (engine\.evidence\.\w+) import", text, re.MULTILINE)
    return [sources[module] for module in sorted(sources)]


def _used(claim: Claim, sets: JudgedSets) -> list[JudgedSet]:
    """The sets that a claim is measured on: its own, else all; of trained systems, where there are any."""
    used = list(sets.among(claim.sets)) if claim.sets and sets.names else []
    return [judged for judged in used if judged.is_trained] or used if claim.trained else used


def _key(claim: Claim, sets: JudgedSets, seed: int) -> str:
    """Names a measurement: what measures and its code, the contents of its sets, encoder and seed.

    A claim's own words are no part of it.
    """
    if claim.measure is None:
        return claim.id
    as_data = is_dataclass(claim.measure)
    code = _sources((type(claim.measure) if as_data else claim.measure).__module__)
    parts = [*code, repr(claim.measure) if as_data else claim.measure.__qualname__]
    if claim.sets:
        used = _used(claim, sets)
        parts += [encoder_model.find(sets.encoder).digest, *(s.digest for s in used)]
        parts += [judged.trained_digest for judged in used if claim.trained]
    return hashlib.sha256(digest_of([*parts, str(seed)]).encode()).hexdigest()[:32]
