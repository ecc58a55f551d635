"""Gains by ORAG's printed rule: its rate and batch searched on half of the stream, then many updates and one pass."""

from collections.abc import Sequence

from engine.evidence.claim import Measurement
from engine.evidence.deployments import JudgedDeployment, K, deployed, named, seeds
from engine.evidence.judged_sets import JudgedSet
from engine.simulation.feedback_model import Stream
from engine.simulation.search import halves, search
from engine.simulation.simulate import Plan

RATES, BATCHES = (1e-6, 1e-5), (5, 50)
"""Of the paper's grids: the upper end of its rates, as below nothing moves, and both ends of its batches."""
UPDATES, RUNS = 3000, 3
SEARCHED = Plan(checkpoints=1, regret="none")
SEARCH = "settings"


def paper_gains(sets: Sequence[JudgedSet], seed: int) -> Measurement:
    """Points gained query by query, mean over seeds, after 3,000 updates and after one pass; and what was searched."""
    measured: dict[str, list[float]] = {}
    for judged in sets:
        one = deployed(judged)
        measured |= _gains(one, seed)
    return measured


def _gains(one: JudgedDeployment, seed: int) -> dict[str, list[float]]:
    first, *others = seeds(seed, RUNS)
    found = search(
        one.space, one.queries, one.stream, held_out=one.held_out, plan=SEARCHED, rates=RATES, batches=BATCHES,
        updates=UPDATES, k=K, seed=first,
    )  # fmt: skip
    how = {"preset": "paper", "rate": found.best.rate, "batch": found.best.batch}
    _, half = halves(one.space, one.queries.ids, one.stream, Stream(), first)
    second = one.on(half)
    runs = [found.confirmed, *(second.learned(at, updates=UPDATES, **how) for at in others)]
    once = [one.learned(at, **how) for at in seeds(seed, RUNS)]
    many = {f"{UPDATES} updates, {name}": values for name, values in second.gains(runs).items()}
    one_pass = {f"one pass, {name}": values for name, values in one.gains(once).items()}
    return named(one, many | one_pass) | {f"{one.name}, {SEARCH}": [found.best.rate, found.best.batch]}
