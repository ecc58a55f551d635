"""N18: on embeddings trained for the decoder λ₁ and λ₂ matter less than on frozen ones."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from engine.evaluation.statistics import percentile_ends, resampled_means
from engine.evidence.claim import Claim, Measurement
from engine.evidence.judged_sets import JudgedSet
from engine.evidence.measures import ELASTIC_GRID, POINTS, cells
from engine.evidence.rules import Effect, Ruling, Scope, bounded, curve_of
from engine.evidence.trained_differences import ADAPTED, TRAINED_SETS, UNROLLED
from engine.evidence.trained_systems import TrainedSystems, trained_values
from engine.training.comparison import START

RESAMPLES = 1000
RANKS = range(1, len(ELASTIC_GRID) + 1)
"""Of the settings, the best first."""
EMBEDDINGS, SYSTEMS = ("trained", "frozen"), (UNROLLED, START)
"""On whose embeddings the whole grid is tried: those trained for the decoder, and those that NNN-Fix has."""


def measure(sets: Sequence[JudgedSet], seed: int) -> Measurement:
    """Set → "ratio": how far the best of the grid is above its median on trained embeddings, as a share of that on
    frozen ones, with the ends of its interval over the queries; embeddings → the points of every setting, the best
    first, in the mean over seeds."""
    measured = {}
    for judged in sets:
        of = dict(zip(EMBEDDINGS, (grid_values(judged, system) for system in SYSTEMS), strict=True))
        falling = {name: np.sort(POINTS * values.mean((0, 1)))[::-1].round(4).tolist() for name, values in of.items()}
        measured[judged.name] = {"ratio": spread_ratio(of["trained"], of["frozen"], seed), **falling}
    return measured


def grid_values(judged: JudgedSet, system: str) -> np.ndarray:
    """(seeds, n, cells) Comp@5 at every setting of the grid on a system's embeddings, whose seeds the folder has."""
    seeds = len(trained_values(judged, system, "comp", 5))
    systems = TrainedSystems(judged, Path(judged.work or ""))
    spaces = (systems.space(system, seed) for seed in range(seeds))
    swept = (cells(judged, ELASTIC_GRID, "test", ("comp",), 5, space) for space in spaces)
    return np.stack([np.column_stack([cell.values["comp"] for cell in row]) for row in swept])


def spread_ratio(trained: np.ndarray, frozen: np.ndarray, seed: int) -> list[float]:
    """Ratio of spreads and its ends; trained, frozen: (seeds, n, cells), whose spreads are means over the seeds."""
    both = np.concatenate([*trained, *frozen], axis=1)

    def of(means: np.ndarray) -> float:
        surfaces = means.reshape(2, -1, trained.shape[2])
        spreads = (surfaces.max(2) - np.median(surfaces, axis=2)).mean(1)
        return float(spreads[0] / spreads[1])

    drawn = [of(row) for row in resampled_means(both, RESAMPLES, seed)]
    return [of(both.mean(0)), *percentile_ends(drawn)]


def judge(measured: Measurement) -> Ruling:
    effects = [
        Effect(
            name=f"{name}: ratio of spreads, trained to frozen",
            value=of["ratio"][0],
            low=of["ratio"][1],
            high=of["ratio"][2],
            curves=tuple(
                curve_of(which, ("settings of λ₁ and λ₂, best first", f"Comp@5 in points, {name}"), RANKS, of[which])
                for which in EMBEDDINGS
            ),
        )
        for name, of in measured.items()
    ]
    return bounded(effects, high=1.0)


CLAIM = Claim(
    id="N18",
    paper="nnn",
    place="§4.2, Figure 2",
    sentence="Over the grid of λ₁ and λ₂ Comp@5 varies less on embeddings trained for NNN than on frozen ones.",
    scope=Scope.STAND_IN,
    measure=measure,
    rule=judge,
    sets=TRAINED_SETS,
    trained=True,
    differs=f"{ADAPTED} The paper's figure is of ToolLens alone. Minimisers, not fifty steps. Spread: the best cell "
    "less the median one.",
    cost=60,
)
