"""A model's judgements beside a person's (`--model-judged`): a finished sweep's settings measured by both."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click

from engine.cli.finished_sweep import FinishedSweep, OtherSystems, find_self_rule, find_source_column, load_swept_space
from engine.cli.group import Meter
from engine.cli.inputs import embed_and_warn
from engine.data.files import split_suffix
from engine.evaluation.corrected_judge import name_judge
from engine.evaluation.decision import Decision
from engine.evaluation.judge_agreement import JudgeAgreement, check_judge
from engine.evaluation.metrics import METRICS
from engine.evaluation.runs import read_run
from engine.evaluation.sweep.cell import decoder_from_json
from engine.evaluation.sweep.compute import DUPLICATE_ENTRY
from engine.evaluation.sweep.sweep import sweep
from engine.stages import methods
from engine.values import Dataset, Qrels, explain_missing_split


@dataclass(frozen=True, kw_only=True)
class ModelJudgements:
    """A finished sweep's settings as a model judged them, and its agreement with the person."""

    cells: Sequence[Any]
    agreement: JudgeAgreement

    def describe(self, decision: Decision | None) -> Decision | None:
        """Return a decision that used these judgements, with the agreement on the grades."""
        if decision is None or decision.judge is None:
            return decision
        return replace(decision, judge=replace(decision.judge, agreement=self.agreement))


def measure_by_model(
    swept: FinishedSweep, other_systems: OtherSystems, person_cells: Sequence[Any], k: int, model_file: str
) -> ModelJudgements:
    """Measure a finished sweep's settings, and runs of other systems, by a model's judgements of more queries.

    Settings are decoded for the model's queries; their cells are stored beside the sweep's file, so that it is done
    once. model_file: of judgements in any form that --qrels takes; its name is the model's. Raises UsageError for
    another corpus or a y axis without judgements, DataError for a judge that is no better than chance.
    """
    if METRICS[swept.up].needs != "qrels":
        raise click.UsageError(f"--model-judged needs a y axis that judgements decide, such as recall; got {swept.up}")
    first_cell, name = person_cells[0], split_suffix(Path(model_file))[0]
    column = find_source_column(first_cell)
    metadata = tuple(filter(None, [column]))
    with Meter() as meter:
        person = swept.load_corpus(list(person_cells), "--model-judged", other_systems, metadata)
        by_model = replace(swept, qrels=model_file).read(str(swept.corpus), encoding=other_systems, metadata=metadata)
        qrels, queries = _select_split(by_model, first_cell.split)
        # A useless judge is refused before anything is decoded for it.
        agreement = check_judge(person.qrels[first_cell.split], qrels, name)
        space = load_swept_space(by_model, first_cell, other_systems, meter)
        vectors = embed_and_warn(space, queries, progress=meter)
        # Runs of other systems name no stage that could be built.
        own_cells = [cell for cell in person_cells if cell.k == k and cell.method in methods("selector")]
        decoders = [decoder_from_json(cell.decoder) for cell in own_cells]
        metrics = [metric for metric in dict.fromkeys((swept.across, swept.up)) if metric in METRICS]
        threshold_text = first_cell.provenance.get(DUPLICATE_ENTRY)
        facts: dict[str, Any] = {"split": first_cell.split, "aspects": by_model.aspects, "source": column}
        facts["duplicate_threshold"] = None if threshold_text is None else float(threshold_text)
        cells: list[Any] = list(
            sweep(
                decoders,
                space,
                vectors,
                qrels,
                k,
                metrics,
                store=_name_store(swept.store, name),
                progress=meter,
                **facts,
            )
        )
        # A run is read anew, as its lists for the model's other queries were not needed before.
        for run_file in other_systems.runs:
            run = read_run(run_file, by_model.corpus.ids, queries.ids)
            self_rule = find_self_rule(person_cells)
            cells.append(run.build_cell(space, vectors, qrels, k, metrics, without_self=self_rule, **facts))
    return ModelJudgements(cells=name_judge(cells, name), agreement=agreement)


def _select_split(dataset: Dataset, split: str) -> tuple[Qrels, Any]:
    """Return a model's judgements of a split, and their queries; a file of one split may have any name."""
    name = split if split in dataset.qrels or len(dataset.qrels) != 1 else next(iter(dataset.qrels))
    if name not in dataset.qrels:
        raise click.UsageError(f"--model-judged: {explain_missing_split(dataset.qrels, split)}")
    return dataset.qrels[name], dataset.judged(name)


def _name_store(store_file: str, judge: str) -> str:
    """Return the file of the cells that a model's judgements gave, beside the sweep's."""
    path = Path(store_file)
    return str(path.with_name(f"{path.stem}.{judge}{path.suffix}"))
