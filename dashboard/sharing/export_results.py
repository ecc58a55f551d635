"""Results of the chosen decoders for the current query, as CSV and JSON files."""

import csv
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dashboard.services.jobs import turn
from dashboard.services.source import Loaded
from dashboard.session import decoders as setting
from dashboard.session.answers import query_of, scores_of
from dashboard.session.query import Question
from engine.decoder import Decoder, select_from
from engine.evaluation.metrics import available, measure, title_of
from engine.views import Row, diff, relevance

SET_COLUMNS = ("rank", "id", "title", "text", "relevant", "relevance", "gain", "similarity", "nearest")


@dataclass(frozen=True)
class DecoderResult:
    """One decoder's retrieved set and its metrics."""

    name: str
    title: str
    setting: str  # the decoder as text
    rows: tuple[Row, ...]
    figures: Mapping[str, float | None]  # metric's title → value, None where it does not exist


def retrieve(loaded: Loaded, question: Question, decoders: Mapping[str, Decoder]) -> tuple[DecoderResult, ...]:
    """The results of decoders, computed anew. Raises ParamError where one's scorers lack a pool."""
    space = loaded.space
    query = query_of(loaded, question)
    qrels = question.qrels if question.judged else None
    aspects = loaded.dataset.aspects if question.id in (loaded.dataset.aspects or ()) else None
    metrics = available(qrels, aspects, query)
    results = []
    for name, decoder in decoders.items():
        candidates, _ = scores_of(loaded, question, setting.checked(decoder, space))
        with turn():
            ranking = select_from(decoder.select, candidates, question.k)
            scores = relevance(decoder.select, candidates)
            rows, _ = diff(space, question.vector, question.id, ranking, ranking, qrels, scores)
            values = measure(ranking, space, query, qrels, question.k, metrics, aspects).per_query
        figures = {f"{title_of(metric)}@{question.k}": values[metric].get(question.id) for metric in metrics}
        results.append(DecoderResult(name, setting.title(decoder), decoder.label, tuple(rows), figures))
    return tuple(results)


def sets_csv(results: Sequence[DecoderResult]) -> bytes:
    """One line for each retrieved document."""
    rows = [[r.name, r.setting, *_document(row).values()] for r in results for row in r.rows]
    return _csv(["decoder", "setting", *SET_COLUMNS], rows)


def figures_csv(results: Sequence[DecoderResult]) -> bytes:
    """One line for each metric of a decoder, its value empty where it does not exist."""
    rows = [[r.name, r.setting, title, value] for r in results for title, value in r.figures.items()]
    return _csv(["decoder", "setting", "metric", "value"], rows)


def sets_json(results: Sequence[DecoderResult], state: Mapping[str, str], query: str) -> bytes:
    """State, query, sets and metrics in one."""
    decoders = [
        {
            "decoder": r.name,
            "setting": r.setting,
            "figures": dict(r.figures),
            "documents": [_document(row) for row in r.rows],
        }
        for r in results
    ]
    content = {"state": dict(state), "query": query, "decoders": decoders}
    return json.dumps(content, ensure_ascii=False, indent=2, allow_nan=False).encode()


def _document(row: Row) -> dict[str, Any]:
    return {column: getattr(row, column) for column in SET_COLUMNS}


def _csv(head: list[str], rows: list[list[Any]]) -> bytes:
    stream = io.StringIO(newline="")
    csv.writer(stream).writerows([head, *rows])
    return stream.getvalue().encode("utf-8")
