"""A model's judgements beside those of the split that chooses: of more queries, and none of the report's."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from engine.errors import DataError
from engine.evaluation.corrected_judge import name_judge
from engine.evaluation.judge_agreement import JudgeAgreement, check_judge
from engine.evaluation.splits import select_judged_queries
from engine.evaluation.sweep.cell import Cell, decoder_from_json
from engine.evaluation.sweep.sweep import sweep
from engine.values import Qrels


@dataclass(frozen=True, eq=False, kw_only=True)
class TuningJudge:
    """A model's judgements beside those of the split that chooses."""

    judge: str
    split_options: Mapping[str, Any]  # the judged queries, qrels and the split's name, as `sweep` takes them
    agreement: JudgeAgreement  # with the person, on the grades

    @classmethod
    def build(
        cls, model_qrels: Qrels | None, judge: str, queries: Any, qrels: Any, dev: str, test: str | None
    ) -> "TuningJudge | None":
        """Check a model's judgements, and take those of queries that the report does not use; None for none.

        queries, qrels, dev, test: as `tune` takes them. Raises DataError, also for a judge no better than chance.
        """
        if model_qrels is None:
            return None
        if not isinstance(model_qrels, Qrels):
            raise DataError(f"model_qrels must be engine.Qrels; got {type(model_qrels).__name__}")
        # A choice that has seen the queries of the report would look better there than it is.
        reported = set[str]() if test is None else set(qrels[test].grades)
        grades = {query: graded for query, graded in model_qrels.grades.items() if query not in reported}
        own_qrels = replace(model_qrels, grades=grades)
        agreement = check_judge(qrels[dev], own_qrels, judge)
        own_queries = select_judged_queries(queries, {dev: own_qrels}, dev, None)[dev]
        if n_lacking := len(own_qrels.grades.keys() - set(own_queries.ids)):
            raise DataError(
                f"queries must have all that the model judged; {n_lacking:,} of {len(own_qrels.grades):,} are missing: "
                "embed them too"
            )
        options = {"queries": own_queries, "qrels": own_qrels, "split": dev}
        return cls(judge=judge, split_options=options, agreement=agreement)

    def measure(self, cells: Sequence[Cell], options: Mapping[str, Any]) -> list[Any]:
        """Measure the decoders of cells by the model's judgements; options: all others of `sweep`."""
        decoders = [decoder_from_json(cell.decoder) for cell in cells]
        # The model's name stands in the sentences of a decision.
        return name_judge(sweep(decoders, **self.split_options, **options), self.judge)
