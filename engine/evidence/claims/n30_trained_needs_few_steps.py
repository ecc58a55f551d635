"""N30: trained for it, NNN is level on ToolLens after few steps of FISTA."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

import engine
from engine.decoder import Decoder
from engine.evidence.claim import Claim, Measurement
from engine.evidence.judged_sets import JudgedSet
from engine.evidence.measures import DENSE, ELASTIC_GRID, POINTS, cells
from engine.evidence.rules import Ruling, Scope, curve_of, equivalence, illustrated
from engine.evidence.trained_differences import ADAPTED, UNROLLED
from engine.evidence.trained_systems import TRAINED, TrainedSystems, trained_values
from engine.training.comparison import START

STEPS, FEW, MANY = (2, 5, 10, 20, 50, 100), 10, 50
FIXED = "NNN-Fix"


def measure(sets: Sequence[JudgedSet], _: int) -> Measurement:
    """Set → "curves": system → Comp@5 in points after so many steps, in the mean over queries and seeds; "apart": what
    few steps of the trained one have less than many, query by query in the mean over seeds."""
    measured = {}
    for judged in sets:
        values = by_steps(judged)
        trained = values[UNROLLED].mean(0)
        measured[judged.name] = {
            "curves": {name: of.mean((0, 1)).round(4).tolist() for name, of in values.items()},
            "apart": (trained[:, STEPS.index(FEW)] - trained[:, STEPS.index(MANY)]).round(4).tolist(),
        }
    return measured


def by_steps(judged: JudgedSet) -> dict[str, np.ndarray]:
    """System → (seeds, n, steps) points of Comp@5; dense retrieval takes none."""
    seeds = range(len(trained_values(judged, UNROLLED, "comp", 5)))
    values: dict[str, list[np.ndarray]] = {}
    for seed in seeds:
        for name, space, decoders in _systems(judged, seed):
            rows = cells(judged, decoders, "test", ("comp",), 5, space)
            values.setdefault(name, []).append(POINTS * np.column_stack([cell.values["comp"] for cell in rows]))
    return {name: np.stack(of) for name, of in values.items()}


def _systems(judged: JudgedSet, seed: int) -> Iterator[tuple[str, engine.Space, list[Decoder]]]:
    """Name, space, and the decoder after each of the steps."""
    systems = TrainedSystems(judged, Path(judged.work or ""))
    start = systems.train(START, "dense", seed, None)
    trained = systems.train(UNROLLED, "nnn", seed, start, **TRAINED[UNROLLED])
    yield START, start.space, [DENSE] * len(STEPS)
    fixed = systems.best(start.space, ELASTIC_GRID)
    for name, space, decoder in ((FIXED, start.space, fixed), (UNROLLED, trained.space, trained.decoder)):
        yield name, space, [_after(decoder, steps) for steps in STEPS]


def _after(decoder: Decoder, steps: int) -> Decoder:
    params = {"l1": decoder.select.l1, "l2": decoder.select.l2}  # type: ignore[attr-defined]
    return replace(decoder, select=engine.make("nnn", **params, fill="strict", solver="fista", iterations=steps))


def judge(measured: Measurement) -> Ruling:
    cells = {f"{name}: {FEW} steps less {MANY}": of["apart"] for name, of in measured.items()}
    curves = {
        f"{name}: {FEW} steps less {MANY}": [
            curve_of(system, ("steps of FISTA", f"Comp@5 in points, {name}"), STEPS, points)
            for system, points in of["curves"].items()
        ]
        for name, of in measured.items()
    }
    return illustrated(equivalence(cells, margin=1.0), curves)


CLAIM = Claim(
    id="N30",
    paper="nnn",
    place="§4.2, Figure 3",
    sentence="On ToolLens, NNN trained for it is level after a few steps of FISTA, here ten: fifty change nothing.",
    scope=Scope.STAND_IN,
    measure=measure,
    rule=judge,
    sets=("toollens",),
    trained=True,
    differs=f"{ADAPTED} The paper says it of MultiHop-RAG too, and draws how many steps. Nothing: less than a point. "
    "λ₁ and λ₂ are those of fifty steps, NNN-Fix's those of the minimiser.",
    cost=30,
)
