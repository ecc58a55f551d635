"""O17: a step takes a negligible time, whatever the number of documents."""

import time
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch

import engine
from engine import orag
from engine.evidence.claim import Claim, Measurement
from engine.evidence.deployments import plain
from engine.evidence.judged_sets import JudgedSet
from engine.evidence.measures import unit_rows
from engine.evidence.rules import Effect, Ruling, Scope, bounded, slope, together

SIZES, DIMENSIONS, REPEATS, STEPS = (500, 2_000, 10_000, 50_000, 100_000), 384, 9, 200


def measure(_: Sequence[JudgedSet], seed: int) -> Measurement:
    """Number of documents → µs of a step, the median of each repeat."""
    return {str(size): plain(np.array(_microseconds(size, seed))) for size in SIZES}


def _microseconds(size: int, seed: int) -> list[float]:
    rows = unit_rows(np.random.default_rng(seed).standard_normal((size + 1, DIMENSIONS)).astype(np.float32))
    ids = tuple(map(str, range(size)))
    space = engine.Space(engine.Corpus(ids, ids), engine.Embeddings(ids, torch.from_numpy(rows[1:]), None), "cpu")
    session = orag.session(space, temperature=0.05)
    drawn = orag.ask(session, rows[0])
    medians = []
    for repeat in range(REPEATS):
        took = []
        for step in range(STEPS):
            draw = replace(drawn, round=1 + repeat * STEPS + step)
            began = time.perf_counter()
            session = orag.feed(session, orag.outcome(session, draw, step % 3 == 0))
            took.append(time.perf_counter() - began)
        medians.append(1e6 * float(np.median(took)))
    return medians


def judge(measured: Measurement) -> Ruling:
    sizes, axes = [float(size) for size in measured], ("documents", "µs a step")
    growth = slope(sizes, np.array(list(measured.values())).T, "a step", axes)
    times = [
        Effect(name=f"µs a step, {int(size):,} documents", value=float(np.median(of)), low=min(of), high=max(of))
        for size, of in measured.items()
    ]
    return together([bounded([growth], -0.1, 0.1), bounded(times, high=1000.0)])


CLAIM = Claim(
    id="O17",
    paper="orag",
    place="Abstract, §3, appendix B.2",
    sentence="A step takes negligible time, whatever the number of documents.",
    scope=Scope.STAND_IN,
    measure=measure,
    rule=judge,
    differs="Timed on one machine, with made-up vectors. The step of B.2, which moves the document shown; Algorithm "
    "1's moves all. Negligible: below a millisecond, the disk left out.",
    cost=5,
)
