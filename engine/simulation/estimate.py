"""Estimate of a simulation's size and time."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from engine.feedback.presets import Preset
from engine.simulation.feedback_model import Stream, divided, rounds_of
from engine.simulation.simulate import Plan
from engine.values import Qrels


@dataclass(frozen=True)
class Forecast:
    """Size of a simulation.

    rounds: pieces of feedback.
    learned, held_out: queries.
    left_out: queries without a right document in the corpus.
    checkpoints: number of measurements.
    passes: how often a query meets all documents.
    """

    rounds: int
    learned: int
    held_out: int
    left_out: int
    checkpoints: int
    passes: int

    def seconds(self, taken: float, passes: int) -> float:
        """How long it takes at the pace of another run, which took so many seconds for so many passes."""
        return taken / max(1, passes) * self.passes


def forecast(
    ids: Sequence[str],
    position: Mapping[str, int],
    qrels: Qrels,
    *,
    preset: Preset,
    stream: Stream,
    plan: Plan,
    held_out: Qrels | None = None,
    decoders: int = 1,
) -> Forecast:
    """Size of what `simulate` will do with the same arguments. Raises DataError.

    ids: of the queries; position: the row of a document; decoders: how many are measured.
    """
    learned, apart, left_out = divided(ids, position, qrels, held_out, share=plan.held_out, seed=preset.seed)
    rounds = rounds_of(stream, len(learned), preset.exposure)
    measured = sum(min(len(part), plan.measured or len(part)) for part in (learned, apart))
    looks = min(plan.checkpoints, rounds) + 1
    shadow = plan.regret != "none" and plan.learner != "oracle"
    passes = rounds * (2 if shadow else 1) + looks * measured * decoders
    return Forecast(rounds, len(learned), len(apart), left_out, looks, passes)
