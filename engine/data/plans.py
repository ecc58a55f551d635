"""Plans of questions: their steps as queries of their own, in the template of Online-Optimized RAG (appendix C.1).

A line of queries.jsonl may hold `metadata.plan`, a list of {"step": text, "tool": document}. The tool is the answer: it
becomes the step's judgement and is never part of a text. Steps whose tool is no document of the corpus are no hops, nor
are those that name their own tool.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

from engine.data.tables import json_rows
from engine.errors import DataError
from engine.values import Dataset, Qrels, Queries

TEMPLATE = (
    'Given the following task:"{question}", select the best tool provided in the context to solve the following '
    'substep: "{step}".'
)
FILE = "queries.jsonl"
LOOKED_AT = 100
"""Questions that are looked at for a plan."""


@dataclass(frozen=True)
class Planned:
    """A data set whose queries are the hops of another's questions.

    dataset: the hops as queries, each judged in the splits of its question.
    hops: question → its hops by id, in order.
    """

    dataset: Dataset
    hops: Mapping[str, tuple[str, ...]]


def has_plans(folder: str | Path) -> bool:
    """Whether any of the first questions of a BEIR folder has a plan."""
    try:
        return any(_steps(line) for _, line in islice(json_rows(Path(folder) / FILE), LOOKED_AT))
    except DataError:
        return False


def planned(dataset: Dataset, folder: str | Path) -> Planned:
    """A data set's questions by the hops of their plans; folder: its BEIR folder. Raises DataError."""
    file = Path(folder) / FILE
    if not file.is_file():
        raise DataError(f"hops are read from the plans in {FILE} of a BEIR folder; {str(folder)!r} has none")
    texts: dict[str, str] = {}
    tools: dict[str, str] = {}
    hops: dict[str, tuple[str, ...]] = {}
    known = dict(zip(dataset.queries.ids, dataset.queries.texts, strict=True))
    for number, line in json_rows(file):
        if (question := str(line.get("_id"))) not in known:
            continue
        for place, (step, tool) in enumerate(_steps(line, number)):
            if tool in dataset.corpus.position and tool not in step:
                hop = f"{question}/{place}"
                texts[hop], tools[hop] = TEMPLATE.format(question=known[question], step=step), tool
                hops[question] = (*hops.get(question, ()), hop)
    if not hops:
        raise DataError(
            f"{file} has no plans: hops are the steps of metadata.plan whose tool is a document, "
            '[{"step": "open the file", "tool": "file_read"}, …]'
        )
    qrels = {
        split: Qrels({hop: {tools[hop]: 1} for question in judged.grades for hop in hops.get(question, ())})
        for split, judged in dataset.qrels.items()
    }
    queries = Queries(tuple(texts), tuple(texts.values()))
    return Planned(replace(dataset, queries=queries, qrels=qrels, aspects=None), hops)


def _steps(line: Mapping[str, Any], number: int = 0) -> list[tuple[str, str]]:
    """(step, tool) of a line's plan. Raises DataError."""
    metadata = line.get("metadata")
    plan = metadata.get("plan", []) if isinstance(metadata, dict) else []
    try:
        # A tool stands with what it is called with: file_write(path='a').
        return [(str(step["step"]), str(step["tool"]).split("(")[0].strip()) for step in plan]
    except (TypeError, KeyError):
        raise DataError(
            f'line {number} of {FILE}: metadata.plan must be a list of {{"step": text, "tool": document}}; got '
            f"{plan!r:.80}"
        ) from None
