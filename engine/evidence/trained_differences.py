"""What trained systems are worth beside one another, query by query, in the mean over their seeds."""

from collections.abc import Sequence
from dataclasses import dataclass

from engine.evaluation.metrics import METRICS
from engine.evidence.judged_sets import JudgedSet
from engine.evidence.trained_systems import trained_values
from engine.training.metrics import REPORTED


@dataclass(frozen=True, kw_only=True)
class TrainedDifferences:
    """Paired differences in points of trained systems, each query's the mean over the seeds.

    The cells of the measurement: set, metric, k and the pair's names → differences query by query. Intervals over them
    are of the queries, for the seeds that there are.
    """

    pairs: tuple[tuple[str, str], ...]  # the system that is claimed to be better, and the other
    reported: tuple[tuple[str, int], ...] = (("comp", 5),)  # metric and k

    def __call__(self, sets: Sequence[JudgedSet], _: int) -> dict[str, list[float]]:
        """What is measured on the sets."""
        return {
            f"{judged.name}: points of {METRICS[metric].title}@{k}, {claimed} over {other}": (
                trained_values(judged, claimed, metric, k) - trained_values(judged, other, metric, k)
            )
            .mean(0)
            .round(4)
            .tolist()
            for judged in sets
            for metric, k in self.reported
            for claimed, other in self.pairs
        }


EVERY_METRIC = REPORTED
"""Recall and Comp at 3 and 5, as in the paper's tables."""
UNROLLED = "NNN-Tr, unrolled"
"""NNN-Tr as the paper trains it: eq. 6, through fifty steps."""
TRAINED_SETS = "toolbank-numpy", "toollens"
ADAPTED = "Adapters over frozen MiniLM, not bge-small fine-tuned whole."
