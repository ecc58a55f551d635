"""Results of the chosen decoders for the current query, as CSV and JSON files.

CSV is for spreadsheets: a text that one would take for a formula has an apostrophe before it (`guarded`), numbers are
as they are. JSON has every id and text exactly.
"""

import csv
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dashboard.services.jobs import page_turn
from dashboard.services.source import Loaded
from dashboard.session import decoders as setting
from dashboard.session.answers import as_embeddings, compute_scores
from dashboard.session.query import Question
from engine.decoder import Decoder, select_from
from engine.evaluation.metrics import available_metrics, measure, title_of
from engine.evaluation.paired import format_decoder
from engine.evaluation.sweep.cell import as_json
from engine.evaluation.tables import guard_formula
from engine.params import form_of, values_of
from engine.views.decision import relevance
from engine.views.sets import Row, diff

PARAMETER_COLUMNS = ("stage", "name", "symbol", "value", "default")
SET_COLUMNS = ("rank", "id", "title", "text", "relevant", "relevance", "gain", "similarity", "nearest")


@dataclass(frozen=True, kw_only=True)
class DecoderResult:
    """One decoder's retrieved set and its metrics."""

    name: str
    title: str
    setting: str  # the decoder as text
    words: str  # the same for people
    parameters: tuple[tuple[str, ...], ...]  # PARAMETER_COLUMNS of each parameter that counts
    rows: tuple[Row, ...]
    figures: Mapping[str, float | None]  # metric's title → value, None where it does not exist


def retrieve(loaded: Loaded, question: Question, decoders: Mapping[str, Decoder]) -> tuple[DecoderResult, ...]:
    """The results of decoders, computed anew. Raises ParamError where one's scorers lack a pool."""
    space = loaded.space
    query = as_embeddings(loaded, question)
    qrels = question.qrels if question.is_judged else None
    aspects = loaded.dataset.aspects if question.id in (loaded.dataset.aspects or ()) else None
    metrics = available_metrics(qrels, aspects, query)
    results = []
    for name, decoder in decoders.items():
        candidates, _ = compute_scores(loaded, question, setting.check_decoder(decoder, space))
        with page_turn():
            ranking = select_from(decoder.select, candidates, question.k)
            scores = relevance(decoder.select, candidates)
            rows, _ = diff(space, question.vector, question.id, ranking, ranking, qrels, scores)
            values = measure(ranking, space, query, qrels, question.k, metrics, aspects).per_query
        figures = {f"{title_of(metric)}@{question.k}": values[metric].get(question.id) for metric in metrics}
        words = format_decoder(as_json(decoder), not setting.has_default_scorers(decoder))
        results.append(
            DecoderResult(
                name=name,
                title=setting.format_title(decoder),
                setting=decoder.label,
                words=words,
                parameters=parameters_of(decoder),
                rows=tuple(rows),
                figures=figures,
            )
        )
    return tuple(results)


def parameters_of(decoder: Decoder) -> tuple[tuple[str, ...], ...]:
    """PARAMETER_COLUMNS of every parameter of a decoder that counts, as text."""
    rows = []
    for stage in filter(None, (decoder.retrieve, decoder.rerank, decoder.select)):
        values = values_of(stage)
        for param in stage.spec.params:
            form = form_of(param, values)[1]
            if param.requires is None or values[param.requires[0]] == param.requires[1]:
                texts = form.text(values[param.name]), form.text(form.default)
                rows.append((stage.spec.title, param.name, form.symbol, *texts))
    return tuple(rows)


def sets_csv(results: Sequence[DecoderResult]) -> bytes:
    """One line for each retrieved document."""
    rows = [[r.name, r.setting, *_document(row).values()] for r in results for row in r.rows]
    return _csv(["decoder", "setting", *SET_COLUMNS], rows)


def figures_csv(results: Sequence[DecoderResult]) -> bytes:
    """One line for each metric of a decoder, its value empty where it does not exist."""
    rows = [[r.name, r.setting, title, value] for r in results for title, value in r.figures.items()]
    return _csv(["decoder", "setting", "metric", "value"], rows)


def sets_json(results: Sequence[DecoderResult], state: Mapping[str, str], **facts: Any) -> bytes:
    """State, settings, sets and metrics in one; facts: query, k, corpus and encoder, as they are."""
    decoders = [
        {
            "decoder": r.name,
            "setting": r.setting,
            "words": r.words,
            "parameters": [dict(zip(PARAMETER_COLUMNS, row, strict=True)) for row in r.parameters],
            "figures": dict(r.figures),
            "documents": [_document(row) for row in r.rows],
        }
        for r in results
    ]
    content = {"state": dict(state), **facts, "decoders": decoders}
    return json.dumps(content, ensure_ascii=False, indent=2, allow_nan=False).encode()


def _document(row: Row) -> dict[str, Any]:
    return {column: getattr(row, column) for column in SET_COLUMNS}


def _csv(head: list[str], rows: list[list[Any]]) -> bytes:
    stream = io.StringIO(newline="")
    csv.writer(stream).writerows(
        [guard_formula(cell) if isinstance(cell, str) else cell for cell in row] for row in (head, *rows)
    )
    return stream.getvalue().encode("utf-8")
