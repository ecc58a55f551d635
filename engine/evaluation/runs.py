"""Runs: what a system returned for queries, from a file of another system or from a decoder, measured alike."""

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import torch

from engine.data.readers import MAX_MISSING_SHARE
from engine.data.tables import parse_id, read_json_rows
from engine.data.textfiles import MAX_SHORT_LINE_BYTES, read_lines
from engine.decoder import Decoder, decode
from engine.errors import DataError
from engine.evaluation.aspects import Aspects
from engine.evaluation.metrics import measure
from engine.evaluation.paired import names
from engine.evaluation.sweep.cell import Cell, as_json, means, result_digest, versions
from engine.evaluation.sweep.compute import digests_of
from engine.space import Space
from engine.values import Embeddings, Notice, Qrels, Ranking, digest_of
from engine.wording import percent

TREC = ("query", "Q0", "document", "rank", "score", "tag")
KEYS = {
    "query": ("query", "query_id", "query-id", "qid"),
    "document": ("document", "document_id", "doc_id", "docid", "doc", "corpus-id"),
}
"""What a line of JSON may call its ids."""
SUFFIXES = (".jsonl", ".ndjson")
"""Files of JSON; any other is in TREC's format."""


@dataclass(frozen=True, eq=False)
class RankedRun:
    """What one system returned.

    name: as charts write it
    documents: query id → document ids, best first, each once
    notices: what was odd about the file, and how it was read
    """

    name: str
    documents: Mapping[str, tuple[str, ...]]
    notices: tuple[Notice, ...] = ()

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the lists."""
        rows = ((query, str(len(docs)), *docs) for query, docs in sorted(self.documents.items()))
        return digest_of(part for row in rows for part in row)

    @property
    def label(self) -> str:
        """The name of its cells. No stage has a name with a space: whoever wants to decode with it is told so."""
        return f"run {self.name}"

    def ranking(self, space: Space, queries: Sequence[str], k: int = 10) -> Ranking:
        """The first k of each query as rows of the corpus; nothing for a query that the run lacks."""
        position = space.corpus.position
        index = torch.full((len(queries), k), -1)
        for number, query in enumerate(queries):
            rows = [position[doc] for doc in self.documents.get(query, ()) if doc in position][:k]
            index[number, : len(rows)] = torch.tensor(rows, dtype=torch.int64)
        return Ranking(index, torch.zeros(index.shape, dtype=torch.float64), ({},) * len(queries))

    def cell(
        self,
        space: Space,
        queries: Embeddings,
        qrels: Qrels | None,
        k: int = 10,
        metrics: Sequence[str] = ("recall", "comp", "ndcg", "ilad"),
        *,
        split: str = "",
        aspects: Aspects | None = None,
    ) -> Cell:
        """The run as a point of a sweep, which `frontier` and `compare` take beside those of decoders.

        A query that the run lacks got nothing. Raises ParamError or DataError as `measure` does.
        """
        ranking = self.ranking(space, queries.ids, k)
        measures = measure(ranking, space, queries, qrels, k, metrics, aspects)
        data = {**digests_of(space, queries, qrels, aspects), "run": self.digest}
        label = self.label
        key = digest_of(
            [label, str(k), split, *sorted(measures.values), *(f"{n} {d}" for n, d in sorted(data.items()))]
        )
        return Cell(
            decoder={"select": {"name": label}, "retrieve": None, "rerank": None, "depth": None},
            label=label,
            method=label,
            k=k,
            split=split,
            queries=queries.ids,
            values=measures.values,
            mean=means(measures.values),
            left_out=measures.left_out,
            returned=float(ranking.returned.double().mean()),
            milliseconds=math.nan,
            provenance={**data, **versions(), "device": space.device.type},
            key=key,
            digest=result_digest(key, measures.values),
        )


def runs_of(decoders: Sequence[Decoder], space: Space, queries: Embeddings, k: int = 10) -> tuple[RankedRun, ...]:
    """What decoders return for queries, under the names that charts write. Raises ParamError or DataError."""
    ids = space.corpus.ids
    found = []
    for decoder, name in zip(decoders, names([SimpleNamespace(decoder=as_json(d)) for d in decoders]), strict=True):
        index = decode(decoder, space, queries, k).index.tolist()
        listed = (tuple(ids[row] for row in rows if row >= 0) for rows in index)
        found.append(RankedRun(name, dict(zip(queries.ids, listed, strict=True))))
    return tuple(found)


class RunLine(NamedTuple):
    """One line of a run."""

    query: str
    document: str
    rank: int | None
    score: float | None


def read_run(path: str | Path, documents: Iterable[str], queries: Iterable[str], name: str | None = None) -> RankedRun:
    """A run from a file: TREC's (query Q0 document rank score tag), or JSONL with query, document, rank and score.

    documents, queries: the ids there are; others are left out, and counted in `notices`. name: by default the tag of a
    TREC run, else the file's name. Ranks order the documents, scores where a line of JSON has no rank; of equal ones
    the earlier line comes first, and a document listed twice keeps its better place. Raises DataError that names file,
    line and fix, or says that no query, or less than half of what is listed for those asked, is known.
    """
    path, known, asked = Path(path), set(documents), set(queries)
    tags: dict[str, None] = {}
    rows = list(_json(path) if path.suffix.lower() in SUFFIXES else _trec(path, tags))
    if not rows:
        raise DataError(f"{path} is empty; {_EXPECTED}")
    others = dict.fromkeys(row.query for row in rows if row.query not in asked)
    strange = dict.fromkeys(row.document for row in rows if row.document not in known)
    by_query: dict[str, list[RunLine]] = defaultdict(list)
    for row in rows:
        if row.query in asked and row.document in known:
            by_query[row.query].append(row)
    if not by_query:
        what, ids = ("documents", strange) if len(others) < len({row.query for row in rows}) else ("queries", others)
        first = ", ".join(map(repr, list(ids)[:3]))
        raise DataError(f"{path}: none of its {what} is known here (first: {first}); choose a run of this corpus")
    notices = [
        *Notice.of(f"queries of {path.name} are not among those asked, and are left out", others),
        *Notice.of(f"documents of {path.name} are not in the corpus, and are left out", strange),
    ]
    listed_here = [row.document in known for row in rows if row.query in asked]
    if (lacking := listed_here.count(False)) > MAX_MISSING_SHARE * len(listed_here):
        first = ", ".join(map(repr, list(strange)[:3]))
        raise DataError(
            f"{path}: {percent(lacking / len(listed_here))} of what it lists for the queries asked ({lacking:,} of "
            f"{len(listed_here):,}; first: {first}) is not in the corpus; choose a run of this corpus"
        )
    unasked = [query for query in asked if query not in by_query]
    notices += Notice.of(f"queries got nothing in {path.name}", sorted(unasked))
    if len(tags) > 1:
        notices += Notice.of(f"tags in {path.name}, taken as one run", tags)
    listed = {query: tuple(dict.fromkeys(row.document for row in _ordered(own))) for query, own in by_query.items()}
    notices += _oddities(path, by_query, listed)
    return RankedRun(name or next(iter(tags), path.stem), listed, tuple(notices))


_EXPECTED = f"expected lines of {' '.join(TREC)}, or .jsonl with query, document, rank and score"


def _ordered(rows: list[RunLine]) -> list[RunLine]:
    """Lines of one query by rank, then by falling score, then as they stand."""
    return sorted(rows, key=lambda row: (row.rank is None, row.rank or 0, -(row.score or 0.0)))


def _oddities(
    path: Path, by_query: Mapping[str, list[RunLine]], listed: Mapping[str, tuple[str, ...]]
) -> Iterator[Notice]:
    """What the lists of a file leave in doubt, by query."""
    repeated, tied, against = [], [], []
    for query, rows in by_query.items():
        ordered = _ordered(rows)
        places = [(row.rank, None if row.rank is not None else row.score) for row in ordered]
        scores = [row.score for row in ordered if row.score is not None]
        repeated += [query] * (len(listed[query]) < len(rows))
        tied += [query] * (len(set(places)) < len(places))
        against += [query] * any(a < b for a, b in pairwise(scores))
    for what, queries in (
        ("queries list a document twice; its better place counts", repeated),
        ("queries have equal ranks, or equal scores without ranks; the earlier line comes first", tied),
        ("queries have scores that rise down the ranks; the ranks count", against),
    ):
        yield from Notice.of(f"{what} ({path.name})", queries)


def _trec(path: Path, tags: dict[str, None]) -> Iterator[RunLine]:
    for number, text in read_lines(path, max_bytes=MAX_SHORT_LINE_BYTES):
        fields = text.split()
        if not fields:
            continue
        place = f"{path} line {number}"
        if len(fields) != len(TREC):
            raise DataError(f"{place}: expected {len(TREC)} fields ({' '.join(TREC)}), found {len(fields)}")
        query, _, document, rank, score, tag = fields
        tags[tag] = None
        yield RunLine(query, document, _number(rank, "rank", place), _number(score, "score", place))


def _json(path: Path) -> Iterator[RunLine]:
    for number, record in read_json_rows(path):
        place = f"{path} line {number}"
        ids = []
        for what, keys in KEYS.items():
            key = next((key for key in keys if key in record), None)
            if key is None:
                raise DataError(f"{place}: no {what!r}; found {', '.join(map(repr, record)) or 'nothing'}")
            ids.append(parse_id(record[key], place, key))
        values = [
            None if record.get(what) is None else _number(record[what], what, place) for what in ("rank", "score")
        ]
        if values == [None, None]:
            raise DataError(f"{place}: neither 'rank' nor 'score'; one of them must order the documents")
        yield RunLine(ids[0], ids[1], *values)


def _number(value: Any, what: str, place: str) -> Any:
    """A rank, whole and from 0, or a finite score. Raises DataError."""
    try:
        number = int(str(value)) if what == "rank" else float(value)
        if isinstance(value, bool) or not math.isfinite(number) or (what == "rank" and number < 0):
            raise ValueError
    except (TypeError, ValueError, OverflowError):
        must = "a whole number from 0" if what == "rank" else "a number"
        raise DataError(f"{place}: the {what} must be {must}; found {value!r}") from None
    return number
