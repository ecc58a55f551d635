"""Plans of questions: steps become queries in the template of Online-Optimized RAG (appendix C.1).

A line of queries.jsonl may hold `metadata.plan`, a list of {"step": text, "tool": document}. The tool is the answer: it
becomes the step's judgement and is never part of a text. Steps whose tool is not a document of the corpus are no hops,
nor are those that name their own tool.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import chain, islice
from pathlib import Path
from typing import Any

from engine.data.tables import read_json_rows
from engine.errors import DataError
from engine.values import Dataset, Qrels, Queries

HOP_TEMPLATE = (
    'Given the following task:"{question}", select the best tool provided in the context to solve the following '
    'substep: "{step}".'
)
QUESTIONS_FILE = "queries.jsonl"
MAX_INSPECTED_QUESTIONS = 100
"""Number of questions in which `has_plans` looks for a plan."""


@dataclass(frozen=True)
class PlannedDataset:
    """Data set whose queries are the hops of another's questions.

    dataset: the hops as queries, each judged in the splits of its question.
    hops: question → its hops by id, in order.
    """

    dataset: Dataset
    hops: Mapping[str, tuple[str, ...]]


def has_plans(beir_folder: str | Path) -> bool:
    """Return True if any of a BEIR folder's first questions has a plan, a list of steps and tools."""
    try:
        numbered_lines = islice(read_json_rows(Path(beir_folder) / QUESTIONS_FILE), MAX_INSPECTED_QUESTIONS)
        return any(_read_steps(question_line) for _line_number, question_line in numbered_lines)
    except DataError:
        return False


def expand_plans(dataset: Dataset, beir_folder: str | Path) -> PlannedDataset:
    """Replace a data set's questions by the hops of their plans, and return both.

    A question's plan is a list of steps, each with the tool that does it. A hop is a step asked as a query of its own;
    its tool, a document of the corpus, is the one right answer. beir_folder: the folder of the data set. Raises
    DataError.
    """
    questions_path = Path(beir_folder) / QUESTIONS_FILE
    if not questions_path.is_file():
        raise DataError(
            f"hops are read from the plans in {QUESTIONS_FILE} of a BEIR folder; {str(beir_folder)!r} has none"
        )
    hop_texts: dict[str, str] = {}
    hop_tools: dict[str, str] = {}
    hop_ids: dict[str, tuple[str, ...]] = {}
    question_texts = dict(zip(dataset.queries.ids, dataset.queries.texts, strict=True))
    for line_number, question_line in read_json_rows(questions_path):
        # The file may have more questions than the data set.
        if (question_id := str(question_line.get("_id"))) not in question_texts:
            continue
        for hop_number, (step_text, tool_name) in enumerate(_read_steps(question_line, line_number)):
            # A step that names its own tool would give the answer away.
            if tool_name in dataset.corpus.position and tool_name not in step_text:
                hop_id = f"{question_id}/{hop_number}"
                hop_tools[hop_id] = tool_name
                hop_texts[hop_id] = HOP_TEMPLATE.format(question=question_texts[question_id], step=step_text)
                hop_ids[question_id] = (*hop_ids.get(question_id, ()), hop_id)
    if not hop_ids:
        raise DataError(
            f"{questions_path} has no plans: hops are the steps of metadata.plan whose tool is a document, "
            '[{"step": "open the file", "tool": "file_read"}, …]'
        )
    qrels: dict[str, Qrels] = {}
    for split, judged_questions in dataset.qrels.items():
        split_hops = chain.from_iterable(hop_ids.get(question_id, ()) for question_id in judged_questions.grades)
        qrels[split] = Qrels({hop_id: {hop_tools[hop_id]: 1} for hop_id in split_hops})
    queries = Queries(tuple(hop_texts), tuple(hop_texts.values()))
    return PlannedDataset(replace(dataset, queries=queries, qrels=qrels, aspects=None), hop_ids)


def _read_steps(question_line: Mapping[str, Any], line_number: int = 0) -> list[tuple[str, str]]:
    """Read the plan of a question: the text and the tool of each step. Raises DataError.

    line_number: of the question in its file, for the error.
    """
    metadata = question_line.get("metadata")
    plan_steps = metadata.get("plan", []) if isinstance(metadata, dict) else []
    try:
        # A tool is written with its arguments: file_write(path='a').
        return [(str(plan_step["step"]), str(plan_step["tool"]).split("(")[0].strip()) for plan_step in plan_steps]
    except (TypeError, KeyError):
        raise DataError(
            f"line {line_number} of {QUESTIONS_FILE}: metadata.plan must be a list of "
            f'{{"step": text, "tool": document}}; got {plan_steps!r:.80}'
        ) from None
