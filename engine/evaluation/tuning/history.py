"""Past studies in a store, newest first: the question, the choice, and its result on the test split."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

from engine.decoder import Decoder
from engine.errors import DataError
from engine.evaluation.metrics import METRICS
from engine.evaluation.paired import format_decoder
from engine.evaluation.sweep.cell import decoder_to_json
from engine.evaluation.sweep.store import Store
from engine.evaluation.tuning.objectives import RELEVANT, describe_objective, format_change
from engine.evaluation.tuning.tuned import Tuned, average_outcome
from engine.wording import percent

HISTORY_HEADER = ("Finished (UTC)", "Tuned", "Objective", "Chosen", "Kept", "Won", "Verdict")


@dataclass(frozen=True, kw_only=True)
class PastStudy:
    """A finished tuning as one row of the history."""

    finished: str  # UTC, "2026-01-31 09:30"
    tuned: str  # a selector or a scorer, or "every decoder", in words
    objective: str  # in words
    chosen: str  # name of the decoder
    decoder: Mapping[str, Any]  # the same as plain values
    kept: str  # of the baseline's Recall, on the split that reports or else the one that chose; "" for another goal
    won: str  # of what was asked for
    status: str  # whether test confirms it
    asked: Mapping[str, Any]  # what starts it again, as the caller wrote it
    dev: str  # the split that chose
    test: str | None  # the one that reports, None without
    k: int
    share: float | None  # of the baseline's Recall to keep, None for another goal
    sentences: Sequence[str]  # what was chosen and why, and if test confirms it

    @property
    def row(self) -> tuple[str, ...]:
        """The study as a row of the table of earlier studies, whose columns are HISTORY_HEADER."""
        return self.finished, self.tuned, self.objective, self.chosen, self.kept, self.won, self.status


def record_study(store: Store, result: Tuned, tuned: str, asked: Mapping[str, Any]) -> PastStudy:
    """Store a tuning's result in the history; an earlier result with the same `asked` is replaced.

    tuned: what was tuned, in words; asked: plain values that identify what was asked: stages, corpus, splits, objective
    """
    own_means, base_means = average_outcome(result)
    objective = result.objective
    goal_metric = objective.metrics[-1]
    # The share of the baseline's Recall says nothing where Recall is the only goal, or the baseline has none.
    has_recall = RELEVANT in own_means and len(own_means) > 1 and base_means[RELEVANT]
    decoder = decoder_to_json(result.decoder)
    with_scorers = result.decoder != Decoder(result.decoder.select, depth=result.decoder.depth)
    study = PastStudy(
        finished=datetime.now(UTC).strftime("%Y-%m-%d %H:%M"),
        tuned=tuned,
        objective=f"{describe_objective(objective, result.reference.name)}, k = {result.k}",
        chosen=format_decoder(decoder, with_scorers),
        decoder=decoder,
        kept=percent(own_means[RELEVANT] / base_means[RELEVANT], 1) if has_recall else "",
        won=f"{METRICS[goal_metric].title} {format_change(own_means[goal_metric], base_means[goal_metric])}",
        status=result.status,
        asked=asked,
        dev=result.dev,
        test=result.test,
        k=result.k,
        share=objective.share if objective.constrained else None,
        sentences=list(result.chosen_because),
    )
    store.put_study(asdict(study))
    return study


def read_history(store: Store) -> list[PastStudy]:
    """Read the studies of a store, newest first. Raises DataError as `Store.read_studies`."""
    try:
        return [PastStudy(**study_facts) for study_facts in store.read_studies()]
    except TypeError:
        raise DataError(f"{store.path}: a study is not as Frontier writes it; delete the file, tune again") from None
