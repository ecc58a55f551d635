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

from engine.data.readers import MOST_LACKING
from engine.data.tables import as_id, json_rows
from engine.data.textfiles import SHORT, lines
from engine.decoder import Decoder, decode
from engine.errors import DataError
from engine.evaluation.aspects import Aspects
from engine.evaluation.metrics import measure
from engine.evaluation.paired import short_names
from engine.evaluation.sweep.cell import Cell, as_json, means, result_digest, versions
from engine.evaluation.sweep.compute import digests_of
from engine.space import Space
from engine.values import Embeddings, Notice, Qrels, Ranking, digest_of
from engine.wording import percent

TREC_FIELDS = ("query", "Q0", "document", "rank", "score", "tag")
ID_KEYS = {
    "query": ("query", "query_id", "query-id", "qid"),
    "document": ("document", "document_id", "doc_id", "docid", "doc", "corpus-id"),
}
"""What a line of JSON may call its ids."""
JSON_SUFFIXES = (".jsonl", ".ndjson")
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
        query_rows = (
            (query_id, str(len(document_ids)), *document_ids)
            for query_id, document_ids in sorted(self.documents.items())
        )
        return digest_of(field_text for query_row in query_rows for field_text in query_row)

    @property
    def label(self) -> str:
        """The name of its cells. No stage has a name with a space: whoever wants to decode with it is told so."""
        return f"run {self.name}"

    def build_ranking(self, space: Space, queries: Sequence[str], k: int = 10) -> Ranking:
        """The first k of each query as rows of the corpus; nothing for a query that the run lacks."""
        row_of = space.corpus.position
        row_index = torch.full((len(queries), k), -1)
        for query_index, query_id in enumerate(queries):
            document_rows = [
                row_of[document_id] for document_id in self.documents.get(query_id, ()) if document_id in row_of
            ][:k]
            row_index[query_index, : len(document_rows)] = torch.tensor(document_rows, dtype=torch.int64)
        return Ranking(row_index, torch.zeros(row_index.shape, dtype=torch.float64), ({},) * len(queries))

    def build_cell(
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
        ranking = self.build_ranking(space, queries.ids, k)
        measures = measure(ranking, space, queries, qrels, k, metrics, aspects)
        data_digests = {**digests_of(space, queries, qrels, aspects), "run": self.digest}
        label = self.label
        cell_key = digest_of(
            [
                label,
                str(k),
                split,
                *sorted(measures.values),
                *(f"{digest_name} {digest}" for digest_name, digest in sorted(data_digests.items())),
            ]
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
            provenance={**data_digests, **versions(), "device": space.device.type},
            key=cell_key,
            digest=result_digest(cell_key, measures.values),
        )


def decode_runs(decoders: Sequence[Decoder], space: Space, queries: Embeddings, k: int = 10) -> tuple[RankedRun, ...]:
    """What decoders return for queries, under the names that charts write. Raises ParamError or DataError."""
    document_ids = space.corpus.ids
    ranked_runs = []
    for decoder, run_name in zip(
        decoders, short_names([SimpleNamespace(decoder=as_json(d)) for d in decoders]), strict=True
    ):
        row_index = decode(decoder, space, queries, k).index.tolist()
        document_lists = (
            tuple(document_ids[document_row] for document_row in document_rows if document_row >= 0)
            for document_rows in row_index
        )
        ranked_runs.append(RankedRun(run_name, dict(zip(queries.ids, document_lists, strict=True))))
    return tuple(ranked_runs)


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
    path, document_ids, query_ids = Path(path), set(documents), set(queries)
    tags: dict[str, None] = {}
    run_lines = list(_read_json(path) if path.suffix.lower() in JSON_SUFFIXES else _read_trec(path, tags))
    if not run_lines:
        raise DataError(f"{path} is empty; {_EXPECTED_FORMAT}")
    unknown_queries = dict.fromkeys(run_line.query for run_line in run_lines if run_line.query not in query_ids)
    unknown_documents = dict.fromkeys(
        run_line.document for run_line in run_lines if run_line.document not in document_ids
    )
    by_query: dict[str, list[RunLine]] = defaultdict(list)
    for run_line in run_lines:
        if run_line.query in query_ids and run_line.document in document_ids:
            by_query[run_line.query].append(run_line)
    if not by_query:
        id_kind, unknown_ids = (
            ("documents", unknown_documents)
            if len(unknown_queries) < len({run_line.query for run_line in run_lines})
            else ("queries", unknown_queries)
        )
        examples = ", ".join(map(repr, list(unknown_ids)[:3]))
        raise DataError(f"{path}: none of its {id_kind} is known here (first: {examples}); choose a run of this corpus")
    notices = [
        *Notice.of(f"queries of {path.name} are not among those asked, and are left out", unknown_queries),
        *Notice.of(f"documents of {path.name} are not in the corpus, and are left out", unknown_documents),
    ]
    is_in_corpus = [run_line.document in document_ids for run_line in run_lines if run_line.query in query_ids]
    if (n_unknown := is_in_corpus.count(False)) > MOST_LACKING * len(is_in_corpus):
        examples = ", ".join(map(repr, list(unknown_documents)[:3]))
        raise DataError(
            f"{path}: {percent(n_unknown / len(is_in_corpus))} of what it lists for the queries asked ({n_unknown:,} of "
            f"{len(is_in_corpus):,}; first: {examples}) is not in the corpus; choose a run of this corpus"
        )
    unanswered = [query_id for query_id in query_ids if query_id not in by_query]
    notices += Notice.of(f"queries got nothing in {path.name}", sorted(unanswered))
    if len(tags) > 1:
        notices += Notice.of(f"tags in {path.name}, taken as one run", tags)
    document_lists = {
        query_id: tuple(dict.fromkeys(run_line.document for run_line in _order_lines(query_lines)))
        for query_id, query_lines in by_query.items()
    }
    notices += _find_oddities(path, by_query, document_lists)
    return RankedRun(name or next(iter(tags), path.stem), document_lists, tuple(notices))


_EXPECTED_FORMAT = f"expected lines of {' '.join(TREC_FIELDS)}, or .jsonl with query, document, rank and score"


def _order_lines(run_lines: list[RunLine]) -> list[RunLine]:
    """Lines of one query by rank, then by falling score, then as they stand."""
    return sorted(run_lines, key=lambda run_line: (run_line.rank is None, run_line.rank or 0, -(run_line.score or 0.0)))


def _find_oddities(
    path: Path, by_query: Mapping[str, list[RunLine]], document_lists: Mapping[str, tuple[str, ...]]
) -> Iterator[Notice]:
    """What the lists of a file leave in doubt, by query."""
    queries_with_repeats, queries_with_ties, queries_out_of_order = [], [], []
    for query_id, run_lines in by_query.items():
        ordered_lines = _order_lines(run_lines)
        line_ranks = [
            (run_line.rank, None if run_line.rank is not None else run_line.score) for run_line in ordered_lines
        ]
        scores = [run_line.score for run_line in ordered_lines if run_line.score is not None]
        queries_with_repeats += [query_id] * (len(document_lists[query_id]) < len(run_lines))
        queries_with_ties += [query_id] * (len(set(line_ranks)) < len(line_ranks))
        queries_out_of_order += [query_id] * any(
            upper_score < lower_score for upper_score, lower_score in pairwise(scores)
        )
    for oddity, query_ids in (
        ("queries list a document twice; its better place counts", queries_with_repeats),
        ("queries have equal ranks, or equal scores without ranks; the earlier line comes first", queries_with_ties),
        ("queries have scores that rise down the ranks; the ranks count", queries_out_of_order),
    ):
        yield from Notice.of(f"{oddity} ({path.name})", query_ids)


def _read_trec(path: Path, tags: dict[str, None]) -> Iterator[RunLine]:
    for line_number, line_text in lines(path, longest=SHORT):
        fields = line_text.split()
        if not fields:
            continue
        location = f"{path} line {line_number}"
        if len(fields) != len(TREC_FIELDS):
            raise DataError(
                f"{location}: expected {len(TREC_FIELDS)} fields ({' '.join(TREC_FIELDS)}), found {len(fields)}"
            )
        query, _, document, rank, score, tag = fields
        tags[tag] = None
        yield RunLine(query, document, _parse_number(rank, "rank", location), _parse_number(score, "score", location))


def _read_json(path: Path) -> Iterator[RunLine]:
    for line_number, record in json_rows(path):
        location = f"{path} line {line_number}"
        line_ids = []
        for field_name, accepted_keys in ID_KEYS.items():
            record_key = next((record_key for record_key in accepted_keys if record_key in record), None)
            if record_key is None:
                raise DataError(f"{location}: no {field_name!r}; found {', '.join(map(repr, record)) or 'nothing'}")
            line_ids.append(as_id(record[record_key], location, record_key))
        rank_and_score = [
            None if record.get(field_name) is None else _parse_number(record[field_name], field_name, location)
            for field_name in ("rank", "score")
        ]
        if rank_and_score == [None, None]:
            raise DataError(f"{location}: neither 'rank' nor 'score'; one of them must order the documents")
        yield RunLine(line_ids[0], line_ids[1], *rank_and_score)


def _parse_number(value: Any, field_name: str, location: str) -> Any:
    """A rank, whole and from 0, or a finite score. Raises DataError."""
    try:
        number = int(str(value)) if field_name == "rank" else float(value)
        if isinstance(value, bool) or not math.isfinite(number) or (field_name == "rank" and number < 0):
            raise ValueError
    except (TypeError, ValueError, OverflowError):
        expected_text = "a whole number from 0" if field_name == "rank" else "a number"
        raise DataError(f"{location}: the {field_name} must be {expected_text}; found {value!r}") from None
    return number
