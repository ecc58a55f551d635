"""Results of the chosen decoders for the current query, as CSV and JSON files.

CSV is for spreadsheets: a text that would be read as a formula gets an apostrophe in front (`guard_formula`); numbers
are unchanged. JSON has every id and text exactly.
"""

import csv
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from dashboard.services.jobs import limit_page_computations
from dashboard.services.source import Loaded
from dashboard.session import decoders as setting
from dashboard.session.answers import as_embeddings, compute_scores
from dashboard.session.query import Question
from engine.decoder import Decoder, select_from
from engine.evaluation.metrics import available_metrics, measure, title_of
from engine.evaluation.paired import format_decoder
from engine.evaluation.tables import guard_formula
from engine.params import form_of, values_of
from engine.views.decision import relevance
from engine.views.sets import Row, diff

PARAMETER_COLUMNS = ("stage", "name", "symbol", "value", "default")
RELEVANT_COLUMN = "relevant_from"
"""Column of the grade from which a document counts as relevant, empty without judgements."""
SET_COLUMNS = ("rank", "id", "title", "text", "relevant", "relevance", "cosine", "gain", "similarity", "nearest")


@dataclass(frozen=True, kw_only=True)
class DecoderResult:
    """Documents that one decoder retrieved for the query, with its settings and metrics."""

    name: str  # of the selector
    title: str  # for people
    setting: str  # the decoder as text
    words: str  # its display name
    parameters: tuple[tuple[str, ...], ...]  # PARAMETER_COLUMNS of each effective parameter
    rows: tuple[Row, ...]
    figures: Mapping[str, float | None]  # metric's title → value, None if undefined
    relevant_from: int | None  # grade from which a document counts as relevant, None without judgements


def compute_results(loaded: Loaded, question: Question, decoders: Mapping[str, Decoder]) -> tuple[DecoderResult, ...]:
    """Compute each decoder's documents and metrics for the question, for export and saved views.

    Raises ParamError if a decoder cannot run.
    """
    space = loaded.space
    query = as_embeddings(loaded, question)
    qrels = question.qrels if question.is_judged else None
    aspects = loaded.dataset.aspects if question.id in (loaded.dataset.aspects or ()) else None
    # Metrics without judgements are left out, not exported as zero.
    metrics = available_metrics(qrels, aspects, query)
    results = []
    for name, decoder in decoders.items():
        candidates, _ = compute_scores(loaded, question, setting.check_decoder(decoder, space))
        with limit_page_computations():
            ranking = select_from(decoder.select, candidates, question.k)
            scores = relevance(decoder.select, candidates)
            # Compared with itself, as only the rows with titles and scores are wanted.
            rows, _ = diff(space, question.vector, question.id, ranking, ranking, qrels, scores)
            self_rule = decoder.without_self
            values = measure(
                ranking, space, query, qrels, question.k, metrics, aspects, without_self=self_rule
            ).per_query
        figures = {f"{title_of(metric)}@{question.k}": values[metric].get(question.id) for metric in metrics}
        words = format_decoder(decoder, not setting.has_default_scorers(decoder))
        level = None if question.qrels is None else question.qrels.relevant_from
        texts: Any = {"name": name, "title": setting.format_title(decoder), "setting": decoder.label, "words": words}
        texts |= {"parameters": list_parameters(decoder), "relevant_from": level}
        results.append(DecoderResult(rows=tuple(rows), figures=figures, **texts))
    return tuple(results)


def list_parameters(decoder: Decoder) -> tuple[tuple[str, ...], ...]:
    """Return a row of text (PARAMETER_COLUMNS) for each parameter that has an effect on a decoder.

    A stage is a part of the decoder: the retriever, the reranker or the selector.
    """
    rows = []
    for stage in filter(None, (decoder.retrieve, decoder.rerank, decoder.select)):
        values = values_of(stage)
        for param in stage.spec.params:
            # The form is the parameter's declaration beside the values of others: λ₁, for example, is a penalty or a
            # number of documents.
            _, form = form_of(param, values)
            # A parameter may require a value of another one, as (name, value): else it has no effect.
            if param.requires is None or values[param.requires[0]] == param.requires[1]:
                texts = form.text(values[param.name]), form.text(form.default)
                rows.append((stage.spec.title, param.name, form.symbol, *texts))
    return tuple(rows)


def format_sets_csv(results: Sequence[DecoderResult]) -> bytes:
    """Format the retrieved documents of all decoders as CSV, a line for each."""
    rows = []
    for result in results:
        level = result.relevant_from
        rows += [[result.name, result.setting, *_format_document(row).values(), level] for row in result.rows]
    return _format_csv(["decoder", "setting", *SET_COLUMNS, RELEVANT_COLUMN], rows)


def format_figures_csv(results: Sequence[DecoderResult]) -> bytes:
    """Format the metrics of all decoders as CSV, a line for each; an undefined value is empty."""
    rows = []
    for result in results:
        level = result.relevant_from
        rows += [[result.name, result.setting, *figure, level] for figure in result.figures.items()]
    return _format_csv(["decoder", "setting", "metric", "value", RELEVANT_COLUMN], rows)


def format_sets_json(results: Sequence[DecoderResult], state: Mapping[str, str], **facts: Any) -> bytes:
    """Format settings, documents and metrics of all decoders as JSON.

    state: a link's parameters, which restore the page; facts: further fields
    """
    decoders = []
    for result in results:
        texts = {"decoder": result.name, "setting": result.setting, "words": result.words}
        parameters = [dict(zip(PARAMETER_COLUMNS, row, strict=True)) for row in result.parameters]
        documents = list(map(_format_document, result.rows))
        figures = dict(result.figures)
        decoders.append(texts | {"parameters": parameters, "figures": figures, "documents": documents})
    content = {"state": dict(state), **facts, "decoders": decoders}
    return json.dumps(content, ensure_ascii=False, indent=2, allow_nan=False).encode()


def _format_document(row: Row) -> dict[str, Any]:
    """Return the exported fields of a retrieved document, column → value."""
    return dict(zip(SET_COLUMNS, attrgetter(*SET_COLUMNS)(row), strict=True))


def _format_csv(header: list[str], rows: list[list[Any]]) -> bytes:
    """Format rows as CSV bytes; a text that a spreadsheet would run as a formula gets an apostrophe."""
    # The csv module writes its own line ends.
    stream = io.StringIO(newline="")
    writer = csv.writer(stream)
    for row in (header, *rows):
        writer.writerow([guard_formula(cell) if isinstance(cell, str) else cell for cell in row])
    return stream.getvalue().encode("utf-8")
