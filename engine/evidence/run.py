"""Measuring of claims: each once for a folder, an encoder and a seed, kept, and judged whenever it is read."""

import hashlib
import inspect
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch

from engine.data import cache
from engine.data.models import encoder_model
from engine.errors import DataError, FrontierError
from engine.evidence import measures
from engine.evidence.claim import Claim, Measurement, chosen, claims
from engine.evidence.judged_sets import JudgedSets
from engine.evidence.rules import Ruling, Scope, in_words, untestable
from engine.params import Whole
from engine.progress import Progress, Stop, stoppable
from engine.threads import limit_blas
from engine.values import digest_of

SECTION = "evidence"
SEED = Whole(0, "seed", 0, name="seed", help="Same seed, same numbers.")
WORKERS = Whole(1, "workers", 1, 64, name="workers", help="Processes of this machine, one thread each.")
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


def reproduce(
    which: str = "all",
    data: str | Path | None = None,
    encoder: str = "bundled",
    seed: int = 0,
    workers: int = 1,
    anew: bool = False,
    progress: Progress | None = None,
    stop: Stop | None = None,
) -> Iterator[JudgedClaim]:
    """Claims measured and judged, as they are finished; those kept from before come first.

    which: a claim's id, a paper, or "all"; data: folder of judged sets in BEIR layout, or one of them; encoder: a
    model's name or path; anew: measure again what is kept. Kept by claim, its code, the sets' contents, encoder and
    seed, so that a run that was killed goes on. Raises ParamError, DataError, and Cancelled.
    """
    seed, workers = SEED.check(seed), WORKERS.check(workers)
    asked = chosen(which)
    sets = JudgedSets(data, encoder)
    watch = stoppable(progress, stop, STOPPED)
    done = 0
    waiting: list[Claim] = []
    for claim in asked:
        stored = None if anew else _stored(claim, sets, seed)
        if stored is None:
            waiting.append(claim)
            continue
        done += 1
        yield _judged(claim, sets, stored)
    watch(done, len(asked), "claims")
    for claim, measurement in _measured(waiting, sets, data, seed, workers):
        cache.put(SECTION, _key(claim, sets, seed), json.dumps(measurement).encode())
        done += 1
        watch(done, len(asked), claim.id)
        yield _judged(claim, sets, measurement)


def _measured(
    waiting: Sequence[Claim], sets: JudgedSets, data: str | Path | None, seed: int, workers: int
) -> Iterator[tuple[Claim, Measurement]]:
    if workers == 1 or len(waiting) < 2:
        for claim in waiting:
            yield claim, _measure(claim, sets, seed)
        return
    # The longest first, so that no worker is left with one at the end.
    order = sorted(waiting, key=lambda claim: -claim.cost)
    with ProcessPoolExecutor(workers, get_context("spawn"), _ready, (data, sets.encoder)) as pool:
        running = {pool.submit(_measure_in_worker, claim.id, seed): claim for claim in order}
        try:
            for future in as_completed(running):
                yield running[future], future.result()
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


_SETS = JudgedSets()
"""Of a worker."""


def _ready(data: str | Path | None, encoder: str) -> None:
    global _SETS
    torch.set_num_threads(1)
    limit_blas(1)
    _SETS = JudgedSets(data, encoder)


def _measure_in_worker(name: str, seed: int) -> Measurement:
    return _measure(claims()[name], _SETS, seed)


def _measure(claim: Claim, sets: JudgedSets, seed: int) -> Measurement:
    """What a claim measures, with its seconds; what a set lacks is said in place of numbers."""
    began = time.monotonic()
    try:
        if claim.sets and not sets.names:
            raise DataError(f"judged sets: {', '.join(claim.sets)} (--data FOLDER)")
        numbers: Mapping[str, Any] = {"numbers": claim.measure(sets, seed)}
    except FrontierError as error:
        numbers = {"missing": str(error).rstrip(".")}
    return {**numbers, "seconds": round(time.monotonic() - began, 1)}


def _judged(claim: Claim, sets: JudgedSets, measurement: Measurement) -> JudgedClaim:
    own = [name for name in claim.sets if name in sets.names]
    used = own or (list(sets.names) if claim.sets else [])
    missing = measurement.get("missing")
    return JudgedClaim(
        claim=claim,
        ruling=untestable(missing) if missing else claim.rule(measurement["numbers"]),
        scope=claim.scope if own or not claim.sets else Scope.STAND_IN,
        where=", ".join([*used, sets.encoder]) if used else "enumerated cases",
        seconds=measurement["seconds"],
    )


def _stored(claim: Claim, sets: JudgedSets, seed: int) -> Measurement | None:
    kept = cache.get(SECTION, _key(claim, sets, seed))
    return None if kept is None else json.loads(kept)


def _key(claim: Claim, sets: JudgedSets, seed: int) -> str:
    """Names a measurement: the claim, the code that makes it, the contents of its sets, encoder and seed."""
    code = [inspect.getsource(inspect.getmodule(claim.measure) or measures), inspect.getsource(measures)]
    used = [judged.digest for judged in sets.among(claim.sets)] if claim.sets else []
    parts = [claim.id, *code, *used, encoder_model.find(sets.encoder).digest if used else "", str(seed)]
    return hashlib.sha256(digest_of(parts).encode()).hexdigest()[:32]
