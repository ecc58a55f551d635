"""Runs: ranked lists from another system's file or from a decoder, measured in the same way."""

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import torch

from engine.data.field_lines import describe_matches, match_ids
from engine.data.files import split_suffix
from engine.data.readers import MAX_MISSING_SHARE
from engine.decoder import Decoder, decode
from engine.display import OneLine
from engine.errors import DataError
from engine.evaluation.aspects import Aspects
from engine.evaluation.metrics import measure
from engine.evaluation.paired import short_names
from engine.evaluation.run_files import RunLine, read_run_lines
from engine.evaluation.set_relevance import describe_corpus_relevance
from engine.evaluation.sweep.cell import Cell, compute_means, compute_result_digest, decoder_to_json, read_versions
from engine.evaluation.sweep.compute import (
    collect_digests,
    describe_judgements,
    digest_sources,
    name_duplicate_threshold,
)
from engine.space import Space
from engine.values import Embeddings, Notice, Qrels, Ranking, digest_of
from engine.wording import percent

UNANSWERED_REMARK = "queries got nothing in"
"""Beginning of the notice on queries that a run does not list."""


@dataclass(frozen=True, eq=False)
class RankedRun(OneLine):
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
        # Metrics read the rows alone, so the gains are zeros and the facts empty.
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
        duplicate_threshold: float | None = None,
        source: str | None = None,
        without_self: bool | None = None,
    ) -> Cell:
        """Measure the run as a cell of a sweep, which `frontier` and `compare` accept beside decoders'.

        A query that the run lacks has an empty list. duplicate_threshold, source, without_self: of the sweep, as
        `measure` takes them. Raises ParamError or DataError as `measure` does.
        """
        ranking, label = self.build_ranking(space, queries.ids, k), self.label
        measures = measure(
            ranking, space, queries, qrels, k, metrics, aspects, source=source, without_self=without_self,
            duplicate_threshold=duplicate_threshold,
        )  # fmt: skip
        values, data_digests = measures.values, {**collect_digests(space, queries, qrels, aspects), "run": self.digest}
        data_digests |= name_duplicate_threshold(space, tuple(values), duplicate_threshold)
        data_digests |= digest_sources(space, (source,)) | describe_corpus_relevance(space, queries, split)
        digest_texts = list(map(" ".join, sorted(data_digests.items())))
        # The default rule on queries that are documents leaves the keys of other runs alone.
        if without_self is not None:
            digest_texts.append(f"without_self {without_self}")
        cell_key = digest_of([label, str(k), split, *sorted(values), *digest_texts])
        # A file says nothing of the time that its system took, so the milliseconds are NaN.
        return Cell(
            decoder={"select": {"name": label}, "retrieve": None, "rerank": None, "depth": None}, label=label,
            method=label, k=k, split=split, queries=queries.ids, values=values, mean=compute_means(values),
            left_out=measures.left_out, returned=float(ranking.returned.double().mean()), milliseconds=math.nan,
            provenance={**data_digests, **describe_judgements(qrels), **read_versions(), "device": space.device.type},
            key=cell_key,
            digest=compute_result_digest(cell_key, values),
            counts=measures.counts,
        )  # fmt: skip


def decode_runs(decoders: Sequence[Decoder], space: Space, queries: Embeddings, k: int = 10) -> tuple[RankedRun, ...]:
    """Decode queries by each decoder into ranked lists of ids, as another system's file has them.

    Each run is named as in charts. Raises ParamError or DataError.
    """
    document_ids = space.corpus.ids
    ranked_runs = []
    for decoder, run_name in zip(decoders, name_runs(decoders), strict=True):
        row_index = decode(decoder, space, queries, k).index.tolist()
        document_lists = (tuple(document_ids[row] for row in rows if row >= 0) for rows in row_index)
        ranked_runs.append(RankedRun(run_name, dict(zip(queries.ids, document_lists, strict=True))))
    return tuple(ranked_runs)


def name_runs(decoders: Sequence[Decoder]) -> tuple[str, ...]:
    """Return the decoders' names in charts, which tell apart two settings of one selector."""
    # short_names reads nothing of a cell but its decoder.
    return tuple(short_names([SimpleNamespace(decoder=decoder_to_json(decoder)) for decoder in decoders]))


def read_run(path: str | Path, documents: Iterable[str], queries: Iterable[str], name: str | None = None) -> RankedRun:
    """Read a run from a file: TREC's or MS MARCO's columns, a table with a header, JSON or Parquet, also as .gz.

    documents, queries: the known ids; lines of others are left out and counted in `notices`, and ids that differ in
    form alone ("12.0" for "12") are matched. name: by default the tag of a TREC run, else the file's name. Ranks order
    the documents, or scores where a line has no rank; ties keep the order of the lines, and a repeated document keeps
    its better rank. Raises DataError for a malformed line; if no query is known; or if less than half of the documents
    that are listed for known queries are known.
    """
    # Dicts in place of sets: their first ids are examples in messages.
    path, document_ids, query_ids = Path(path), dict.fromkeys(documents), dict.fromkeys(queries)
    run_lines = read_run_lines(path)
    lines_read, tags = run_lines.lines, run_lines.tags
    matched_queries = match_ids(dict.fromkeys(line.query for line in lines_read), query_ids)
    matched_documents = match_ids(dict.fromkeys(line.document for line in lines_read), document_ids)
    if matched_queries or matched_documents:
        lines_read = [
            line._replace(
                query=matched_queries.get(line.query, line.query),
                document=matched_documents.get(line.document, line.document),
            )
            for line in lines_read
        ]
    unknown_queries = dict.fromkeys(line.query for line in lines_read if line.query not in query_ids)
    unknown_docs = dict.fromkeys(line.document for line in lines_read if line.document not in document_ids)
    by_query: dict[str, list[RunLine]] = defaultdict(list)
    for line in lines_read:
        if line.query in query_ids and line.document in document_ids:
            by_query[line.query].append(line)
    if not by_query:
        has_known_query = len(unknown_queries) < len({line.query for line in lines_read})
        id_kind, unknown_ids = ("documents", unknown_docs) if has_known_query else ("queries", unknown_queries)
        known_ids = document_ids if has_known_query else query_ids
        examples = ", ".join(map(repr, list(unknown_ids)[:3]))
        local_examples = ", ".join(map(repr, list(known_ids)[:3])) or "none"
        raise DataError(
            f"{path}: none of its {id_kind} is known here (first: {examples}); the ids here are like {local_examples}; "
            "choose a run of this corpus"
        )
    match_remark = f"ids of {path.name} are not written as in the corpus, and were matched"
    notices = [
        *run_lines.notices,
        *Notice.for_ids(match_remark, describe_matches({**matched_queries, **matched_documents})),
        *Notice.for_ids(f"queries of {path.name} are not among those asked, and are left out", unknown_queries),
        *Notice.for_ids(f"documents of {path.name} are not in the corpus, and are left out", unknown_docs),
    ]
    # A run of another corpus would otherwise pass with a few ids in common.
    is_in_corpus = [line.document in document_ids for line in lines_read if line.query in query_ids]
    if (n_unknown := is_in_corpus.count(False)) > MAX_MISSING_SHARE * len(is_in_corpus):
        examples = ", ".join(map(repr, list(unknown_docs)[:3]))
        raise DataError(
            f"{path}: {percent(n_unknown / len(is_in_corpus))} of what it lists for the queries asked ({n_unknown:,} "
            f"of {len(is_in_corpus):,}; first: {examples}) is not in the corpus, whose ids are like "
            f"{next(iter(document_ids), '')!r}; choose a run of this corpus"
        )
    unanswered = [query_id for query_id in query_ids if query_id not in by_query]
    notices += Notice.for_ids(f"{UNANSWERED_REMARK} {path.name}", sorted(unanswered))
    if len(tags) > 1:
        notices += Notice.for_ids(f"tags in {path.name}, taken as one run", tags)
    document_lists = {}
    # The better line of a repeated document comes first, and dict.fromkeys keeps it.
    for query_id, query_lines in by_query.items():
        document_lists[query_id] = tuple(dict.fromkeys(line.document for line in _order_lines(query_lines)))
    notices += _find_oddities(path, by_query, document_lists)
    # By default the first tag; a file without tags is called by its name.
    return RankedRun(name or next(iter(tags), split_suffix(path)[0]), document_lists, tuple(notices))


def _order_lines(lines_read: list[RunLine]) -> list[RunLine]:
    """Sort the lines of one query by rank, then falling score, those without a rank last; stable."""
    return sorted(lines_read, key=lambda line: (line.rank is None, line.rank or 0, -(line.score or 0.0)))


_RANKS_COUNT = "the ranks count, whereas trec_eval reads the scores, and orders equal ones by id"


def _find_oddities(
    path: Path, by_query: Mapping[str, list[RunLine]], document_lists: Mapping[str, tuple[str, ...]]
) -> Iterator[Notice]:
    """Yield notices of ambiguous lists in a run's file, with how they were read.

    These are lists with repeated documents, ties, or scores that contradict the ranks. by_query: the lines of each
    query; document_lists: its documents, each once.
    """
    queries_with_repeats, queries_with_ties, queries_out_of_order, queries_with_tied_scores = [], [], [], []
    for query_id, lines_read in by_query.items():
        ordered_lines = _order_lines(lines_read)
        # Scores matter only where a line has no rank.
        line_ranks = [(line.rank, None if line.rank is not None else line.score) for line in ordered_lines]
        scores = [line.score for line in ordered_lines if line.score is not None]
        if len(document_lists[query_id]) < len(lines_read):
            queries_with_repeats.append(query_id)
        if len(set(line_ranks)) < len(line_ranks):
            queries_with_ties.append(query_id)
        # A tie of ranks is noted above, and a repeated document in another place.
        ranked_scores = {line.document: line.score for line in ordered_lines if line.rank is not None}
        distinct_scores = set(ranked_scores.values())
        if any(upper < lower for upper, lower in pairwise(scores)):
            queries_out_of_order.append(query_id)
        elif len(distinct_scores) < len(ranked_scores) and distinct_scores != {None}:
            queries_with_tied_scores.append(query_id)
    for oddity, query_ids in (
        ("queries list a document twice; its better place counts", queries_with_repeats),
        ("queries have equal ranks, or equal scores without ranks; the earlier line comes first", queries_with_ties),
        (f"queries have scores that rise down the ranks; {_RANKS_COUNT}", queries_out_of_order),
        (f"queries have equal scores at different ranks; {_RANKS_COUNT}", queries_with_tied_scores),
    ):
        yield from Notice.for_ids(f"{oddity} ({path.name})", query_ids)
