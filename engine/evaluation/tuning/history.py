"""Studies in a store: what was asked for, what was chosen, and what the other split said of it, newest first."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

from engine.decoder import Decoder
from engine.evaluation.metrics import METRICS
from engine.evaluation.paired import format_decoder
from engine.evaluation.sweep.cell import as_json
from engine.evaluation.sweep.store import Store
from engine.evaluation.tuning.objectives import RELEVANT, relative
from engine.evaluation.tuning.tuned import Tuned, reached_means
from engine.wording import percent

HEAD = ("Finished (UTC)", "Tuned", "Objective", "Chosen", "Kept", "Won", "Verdict")


@dataclass(frozen=True, kw_only=True)
class PastStudy:
    """A tuning that has ended."""

    finished: str  # UTC, "2026-01-31 09:30"
    tuned: str  # a selector or a scorer, or "every decoder", in words
    objective: str  # in words
    chosen: str  # name of the decoder
    decoder: Mapping[str, Any]  # the same as plain values
    kept: str  # of the baseline's Recall, on the split that reports or else the one that chose; "" for another goal
    won: str  # of what was asked for
    status: str  # whether test confirms it
    asked: Mapping[str, Any]  # what takes it up again, as who asked wrote it

    @property
    def row(self) -> tuple[str, ...]:
        """Texts for HEAD."""
        return self.finished, self.tuned, self.objective, self.chosen, self.kept, self.won, self.status


def remember(store: Store, result: Tuned, tuned: str, asked: Mapping[str, Any]) -> PastStudy:
    """Keep a result in a store; the same question asked again takes the place of the former.

    tuned: what was tuned, in words; asked: plain values that name the question
    """
    own, base = reached_means(result)
    objective = result.objective
    last = objective.metrics[-1]
    kept = RELEVANT in own and len(own) > 1 and base[RELEVANT]
    decoder = as_json(result.decoder)
    study = PastStudy(
        finished=datetime.now(UTC).strftime("%Y-%m-%d %H:%M"),
        tuned=tuned,
        objective=f"{objective.text}, k = {result.k}",
        chosen=format_decoder(
            decoder, with_scorers=result.decoder != Decoder(result.decoder.select, depth=result.decoder.depth)
        ),
        decoder=decoder,
        kept=percent(own[RELEVANT] / base[RELEVANT], 1) if kept else "",
        won=f"{METRICS[last].title} {relative(own[last], base[last])}",
        status=result.status,
        asked=asked,
    )
    store.put_study(asdict(study))
    return study


def history(store: Store) -> list[PastStudy]:
    """The studies that a store has, newest first. Raises DataError as `Store.points`."""
    return [PastStudy(**facts) for facts in store.studies()]
