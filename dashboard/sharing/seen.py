"""What the chosen decoders return for the question at hand, with its figures: for files and snapshots."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from dashboard.explore import setting
from dashboard.explore.answers import query_of, scores_of
from dashboard.explore.question import Asked
from dashboard.jobs import turn
from dashboard.state import Loaded
from engine.decoder import Decoder, choose
from engine.evaluation.metrics import METRICS, available, measure
from engine.views import Row, diff, relevance


@dataclass(frozen=True)
class Seen:
    """One decoder's answer. setting: the decoder as text; figures: title → value, None where it does not exist."""

    name: str
    title: str
    setting: str
    rows: tuple[Row, ...]
    figures: Mapping[str, float | None]


def look(loaded: Loaded, asked: Asked, decoders: Mapping[str, Decoder]) -> tuple[Seen, ...]:
    """The answers of the chosen decoders, decoded anew. Raises ParamError where one's scorers lack a pool."""
    space = loaded.space
    query = query_of(loaded, asked)
    qrels = asked.qrels if asked.judged else None
    aspects = loaded.dataset.aspects if asked.id in (loaded.dataset.aspects or ()) else None
    wanted = available(qrels, aspects, query)
    found = []
    for name, decoder in decoders.items():
        kept, _ = scores_of(loaded, asked, setting.usable(decoder, space))
        with turn():
            ranking = choose(decoder.select, kept, asked.k)
            saw = relevance(decoder.select, kept)
            rows, _ = diff(space, asked.vector, asked.id, ranking, ranking, qrels, saw)
            own = measure(ranking, space, query, qrels, asked.k, wanted, aspects).per_query
            figures = {f"{METRICS[m].title}@{asked.k}": own[m].get(asked.id) for m in wanted}
            found.append(Seen(name, setting.title(decoder), decoder.label, tuple(rows), figures))
    return tuple(found)


SET_COLUMNS = ("rank", "id", "title", "text", "relevant", "relevance", "gain", "similarity", "nearest")


def sets_csv(seen: Sequence[Seen]) -> bytes:
    """One line a retrieved document."""
    rows = [[s.name, s.setting, *(_plain(getattr(row, c)) for c in SET_COLUMNS)] for s in seen for row in s.rows]
    return _csv(["decoder", "setting", *SET_COLUMNS], rows)


def figures_csv(seen: Sequence[Seen]) -> bytes:
    """One line a figure; empty where it does not exist."""
    rows = [[s.name, s.setting, title, _plain(value)] for s in seen for title, value in s.figures.items()]
    return _csv(["decoder", "setting", "metric", "value"], rows)


def sets_json(seen: Sequence[Seen], state: Mapping[str, str], query: str) -> bytes:
    """State, query, sets and figures in one."""
    found = [
        {
            "decoder": s.name,
            "setting": s.setting,
            "figures": dict(s.figures),
            "documents": [_document(r) for r in s.rows],
        }
        for s in seen
    ]
    whole = {"state": dict(state), "query": query, "decoders": found}
    return json.dumps(whole, ensure_ascii=False, indent=2, allow_nan=False).encode()


def _document(row: Row) -> dict[str, Any]:
    values = asdict(row)
    return {column: values[column] for column in SET_COLUMNS}


def _csv(head: list[str], rows: list[list[Any]]) -> bytes:
    stream = io.StringIO(newline="")
    csv.writer(stream).writerows([head, *rows])
    return stream.getvalue().encode("utf-8")


def _plain(value: Any) -> Any:
    return "" if value is None else value
