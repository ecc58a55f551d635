"""Runs: ranked lists from another system's file or from a decoder, measured in the same way."""

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
from engine.evaluation.paired import short_names
from engine.evaluation.sweep.cell import Cell, compute_means, compute_result_digest, decoder_to_json, read_versions
from engine.evaluation.sweep.compute import collect_digests
from engine.space import Space
from engine.values import Embeddings, Notice, Qrels, Ranking, digest_of
from engine.wording import percent

TREC_FIELDS = ("query", "Q0", "document", "rank", "score", "tag")
ID_KEYS = {
    "query": ("query", "query_id", "query-id", "qid"),
    "document": ("document", "document_id", "doc_id", "docid", "doc", "corpus-id"),
}
"""Accepted keys of the ids in a line of JSON."""
JSON_SUFFIXES = (".jsonl", ".ndjson")
"""Suffixes of JSON files; any other file is in TREC's format."""


@dataclass(frozen=True, eq=False)
class RankedRun:
    """The ranked lists that one system returned.

    name: as charts write it
    documents: query id → document ids, best first, each once
    notices: irregularities of the file, and how they were read
    """

    name: str
    documents: Mapping[str, tuple[str, ...]]
    notices: tuple[Notice, ...] = ()

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the lists, whatever the order of the queries."""
        fields: list[str] = []
        for query_id, document_ids in sorted(self.documents.items()):
            fields += (query_id, str(len(document_ids)), *document_ids)
        return digest_of(fields)

    @property
    def label(self) -> str:
        """The label of the run's cells: "run " and its name."""
        # No stage has a name with a space, so a run is never taken for a decoder.
        return f"run {self.name}"

    def build_ranking(self, space: Space, queries: Sequence[str], k: int = 10) -> Ranking:
        """Return each query's first k documents in the corpus as rows, −1 pads; all −1 for a missing query."""
        row_of = space.corpus.position
        row_index = torch.full((len(queries), k), -1)
        for query_index, query_id in enumerate(queries):
            # Documents outside the corpus were counted when the run was read; here they are skipped.
            rows = [row_of[doc_id] for doc_id in self.documents.get(query_id, ()) if doc_id in row_of][:k]
            row_index[query_index, : len(rows)] = torch.tensor(rows, dtype=torch.int64)
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
        """Measure the run as a cell of a sweep, which `frontier` and `compare` accept beside decoders'.

        A query that the run lacks has an empty list. Raises ParamError or DataError as `measure` does.
        """
        ranking, label = self.build_ranking(space, queries.ids, k), self.label
        measures = measure(ranking, space, queries, qrels, k, metrics, aspects)
        values, data_digests = measures.values, {**collect_digests(space, queries, qrels, aspects), "run": self.digest}
        digest_texts = map(" ".join, sorted(data_digests.items()))
        cell_key = digest_of([label, str(k), split, *sorted(values), *digest_texts])
        # A file says nothing of the time that its system took, so the milliseconds are NaN.
        return Cell(
            decoder={"select": {"name": label}, "retrieve": None, "rerank": None, "depth": None}, label=label,
            method=label, k=k, split=split, queries=queries.ids, values=values, mean=compute_means(values),
            left_out=measures.left_out, returned=float(ranking.returned.double().mean()), milliseconds=math.nan,
            provenance={**data_digests, **read_versions(), "device": space.device.type}, key=cell_key,
            digest=compute_result_digest(cell_key, values),
        )  # fmt: skip


def decode_runs(decoders: Sequence[Decoder], space: Space, queries: Embeddings, k: int = 10) -> tuple[RankedRun, ...]:
    """Decode queries by each decoder into ranked lists of ids, as another system's file has them.

    Each run is named as in charts. Raises ParamError or DataError.
    """
    document_ids = space.corpus.ids
    ranked_runs = []
    # short_names reads nothing of a cell but its decoder.
    run_names = short_names([SimpleNamespace(decoder=decoder_to_json(decoder)) for decoder in decoders])
    for decoder, run_name in zip(decoders, run_names, strict=True):
        row_index = decode(decoder, space, queries, k).index.tolist()
        document_lists = (tuple(document_ids[row] for row in rows if row >= 0) for rows in row_index)
        ranked_runs.append(RankedRun(run_name, dict(zip(queries.ids, document_lists, strict=True))))
    return tuple(ranked_runs)


class RunLine(NamedTuple):
    """One line of a run: a document that another system returned for a query."""

    query: str
    document: str
    rank: int | None
    score: float | None


def read_run(path: str | Path, documents: Iterable[str], queries: Iterable[str], name: str | None = None) -> RankedRun:
    """Read a run from a file: TREC's (query Q0 document rank score tag), or JSONL with the same fields.

    documents, queries: the known ids; lines of others are left out and counted in `notices`. name: by default the tag
    of a TREC run, else the file's name. Ranks order the documents, or scores where a line of JSON has no rank; ties
    keep the order of the lines, and a repeated document keeps its better rank. Raises DataError with file, line and
    fix, and if no query is known, or less than half of the documents listed for known queries.
    """
    path, document_ids, query_ids = Path(path), set(documents), set(queries)
    tags: dict[str, None] = {}
    lines_read = list(_read_json(path) if path.suffix.lower() in JSON_SUFFIXES else _read_trec(path, tags))
    if not lines_read:
        raise DataError(f"{path} is empty; {_EXPECTED_FORMAT}")
    strange_queries = dict.fromkeys(line.query for line in lines_read if line.query not in query_ids)
    strange_docs = dict.fromkeys(line.document for line in lines_read if line.document not in document_ids)
    by_query: dict[str, list[RunLine]] = defaultdict(list)
    for line in lines_read:
        if line.query in query_ids and line.document in document_ids:
            by_query[line.query].append(line)
    if not by_query:
        id_kind, unknown_ids = "queries", strange_queries
        if len(strange_queries) < len({line.query for line in lines_read}):
            id_kind, unknown_ids = "documents", strange_docs
        examples = ", ".join(map(repr, list(unknown_ids)[:3]))
        raise DataError(f"{path}: none of its {id_kind} is known here (first: {examples}); choose a run of this corpus")
    notices = [
        *Notice.for_ids(f"queries of {path.name} are not among those asked, and are left out", strange_queries),
        *Notice.for_ids(f"documents of {path.name} are not in the corpus, and are left out", strange_docs),
    ]
    # A run of another corpus would otherwise pass with a few ids in common.
    is_in_corpus = [line.document in document_ids for line in lines_read if line.query in query_ids]
    if (n_unknown := is_in_corpus.count(False)) > MAX_MISSING_SHARE * len(is_in_corpus):
        examples = ", ".join(map(repr, list(strange_docs)[:3]))
        raise DataError(
            f"{path}: {percent(n_unknown / len(is_in_corpus))} of what it lists for the queries asked ({n_unknown:,} "
            f"of {len(is_in_corpus):,}; first: {examples}) is not in the corpus; choose a run of this corpus"
        )
    unanswered = [query_id for query_id in query_ids if query_id not in by_query]
    notices += Notice.for_ids(f"queries got nothing in {path.name}", sorted(unanswered))
    if len(tags) > 1:
        notices += Notice.for_ids(f"tags in {path.name}, taken as one run", tags)
    document_lists = {}
    # The better line of a repeated document comes first, and dict.fromkeys keeps it.
    for query_id, query_lines in by_query.items():
        document_lists[query_id] = tuple(dict.fromkeys(line.document for line in _order_lines(query_lines)))
    notices += _find_oddities(path, by_query, document_lists)
    # By default the first tag of a TREC run; JSON has none.
    return RankedRun(name or next(iter(tags), path.stem), document_lists, tuple(notices))


_EXPECTED_FORMAT = f"expected lines of {' '.join(TREC_FIELDS)}, or .jsonl with query, document, rank and score"


def _order_lines(lines_read: list[RunLine]) -> list[RunLine]:
    """Sort the lines of one query by rank, then falling score, those without a rank last; stable."""
    return sorted(lines_read, key=lambda line: (line.rank is None, line.rank or 0, -(line.score or 0.0)))


def _find_oddities(
    path: Path, by_query: Mapping[str, list[RunLine]], document_lists: Mapping[str, tuple[str, ...]]
) -> Iterator[Notice]:
    """Yield notices of ambiguous lists in a run's file, with how they were read.

    These are lists with repeated documents, ties, or scores that contradict the ranks. by_query: the lines of each
    query; document_lists: its documents, each once.
    """
    queries_with_repeats, queries_with_ties, queries_out_of_order = [], [], []
    for query_id, lines_read in by_query.items():
        ordered_lines = _order_lines(lines_read)
        # Scores matter only where a line has no rank.
        line_ranks = [(line.rank, None if line.rank is not None else line.score) for line in ordered_lines]
        scores = [line.score for line in ordered_lines if line.score is not None]
        # A list times a bool is the list or empty.
        queries_with_repeats += [query_id] * (len(document_lists[query_id]) < len(lines_read))
        queries_with_ties += [query_id] * (len(set(line_ranks)) < len(line_ranks))
        queries_out_of_order += [query_id] * any(upper < lower for upper, lower in pairwise(scores))
    for oddity, query_ids in (
        ("queries list a document twice; its better place counts", queries_with_repeats),
        ("queries have equal ranks, or equal scores without ranks; the earlier line comes first", queries_with_ties),
        ("queries have scores that rise down the ranks; the ranks count", queries_out_of_order),
    ):
        yield from Notice.for_ids(f"{oddity} ({path.name})", query_ids)


def _read_trec(path: Path, tags: dict[str, None]) -> Iterator[RunLine]:
    """Yield the lines of a run in TREC's format: query, Q0, document, rank, score and tag in each.

    tags: the tags are added to it, as keys in the order of the lines. Raises DataError for a malformed line.
    """
    for line_number, line_text in read_lines(path, max_bytes=MAX_SHORT_LINE_BYTES):
        fields = line_text.split()
        if not fields:
            continue
        location = f"{path} line {line_number}"
        if len(fields) != len(TREC_FIELDS):
            expected = f"{len(TREC_FIELDS)} fields ({' '.join(TREC_FIELDS)})"
            raise DataError(f"{location}: expected {expected}, found {len(fields)}")
        query, _, document, rank, score, tag = fields
        tags[tag] = None
        yield RunLine(query, document, _parse_number(rank, "rank", location), _parse_number(score, "score", location))


def _read_json(path: Path) -> Iterator[RunLine]:
    """Yield the lines of a run in JSONL. Raises DataError if ids, or both rank and score, are missing."""
    for line_number, record in read_json_rows(path):
        location = f"{path} line {line_number}"
        line_ids = []
        for field_name, accepted_keys in ID_KEYS.items():
            record_key = next((key for key in accepted_keys if key in record), None)
            if record_key is None:
                raise DataError(f"{location}: no {field_name!r}; found {', '.join(map(repr, record)) or 'nothing'}")
            line_ids.append(parse_id(record[record_key], location, record_key))
        rank_and_score = []
        for field_name in ("rank", "score"):
            value = record.get(field_name)
            rank_and_score.append(None if value is None else _parse_number(value, field_name, location))
        if rank_and_score == [None, None]:
            raise DataError(f"{location}: neither 'rank' nor 'score'; one of them must order the documents")
        yield RunLine(line_ids[0], line_ids[1], *rank_and_score)


def _parse_number(value: Any, field_name: str, location: str) -> Any:
    """Parse a rank, a whole number from 0, or a finite score; DataError names `location` otherwise."""
    try:
        number = int(str(value)) if field_name == "rank" else float(value)
        if isinstance(value, bool) or not math.isfinite(number) or (field_name == "rank" and number < 0):
            raise ValueError
    except (TypeError, ValueError, OverflowError):
        expected_text = "a whole number from 0" if field_name == "rank" else "a number"
        raise DataError(f"{location}: the {field_name} must be {expected_text}; found {value!r}") from None
    return number
