"""A model's judgements beside a person's (`--model-judged`): a finished sweep's settings measured by both."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click

from engine.cli.finished_sweep import FinishedSweep, OtherSystems, find_self_rule, find_source_column, load_swept_space
from engine.cli.group import Meter
from engine.cli.inputs import CorpusOptions, embed_and_warn
from engine.data.files import split_suffix
from engine.evaluation.corrected_judge import find_judged_queries, name_judge
from engine.evaluation.judge_agreement import JudgeAgreement, check_judge
from engine.evaluation.metrics import METRICS
from engine.evaluation.next_queries import list_next_queries
from engine.evaluation.runs import read_run
from engine.evaluation.sweep.cell import decoder_from_json
from engine.evaluation.sweep.compute import DUPLICATE_ENTRY
from engine.evaluation.sweep.sweep import sweep
from engine.stages import methods
from engine.values import Dataset, Qrels, Queries, explain_missing_split

N_NAMED_QUERIES = 5
"""Queries that are named as those to judge next."""


@dataclass(frozen=True, kw_only=True)
class ModelJudgements:
    """A finished sweep's settings as a model judged them, its agreement with the person, and what to judge next."""

    cells: Sequence[Any]
    agreement: JudgeAgreement
    next_queries: tuple[str, ...]  # ids of those that only the model judged, the most useful to a person first

    @property
    def sentence(self) -> str:
        """The queries to judge next, in words; "" where the person judged all."""
        names = ", ".join(self.next_queries[:N_NAMED_QUERIES])
        return f"To narrow the intervals, judge these queries next: {names}." if names else ""


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
    person_queries = find_judged_queries([cell for cell in person_cells if cell.k == k], swept.up)
    next_queries = list_next_queries(person_queries, cells, swept.up)
    return ModelJudgements(cells=name_judge(cells, name), agreement=agreement, next_queries=next_queries)


def add_model_judgements(
    dataset: Dataset, queries: Queries, source: CorpusOptions, model_file: str | None, split: str, meter: Meter
) -> tuple[Queries, dict[str, Any]]:
    """Read a model's judgements for `tune`; return the queries with those that it judged, and further arguments.

    dataset: as the person judged it; queries: those that the person judged; model_file: of judgements in any form that
    --qrels takes, whose name is the model's; None for no model. Raises UsageError for a file of several splits without
    this one.
    """
    if model_file is None:
        return queries, {}
    model_qrels, model_queries = _select_split(replace(source, qrels=model_file).load(meter), split)
    arguments = {"model_qrels": model_qrels, "judge": split_suffix(Path(model_file))[0]}
    # A folder that people exported has the queries that they judged, and the model's has the others.
    new_queries = model_queries.only(set(model_queries.ids) - set(dataset.queries.ids))
    known_queries = dataset.queries.only({*queries.ids, *model_queries.ids})
    if not len(new_queries):
        return known_queries, arguments
    return Queries(known_queries.ids + new_queries.ids, known_queries.texts + new_queries.texts), arguments


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
