"""Training samples: queries with their relevant documents, of two disjoint splits."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, combinations

import numpy as np
import torch
from torch import Tensor

from engine.data.encoders import embed
from engine.errors import DataError
from engine.matrix import Matrix
from engine.progress import SILENT, Reporter, counted
from engine.space import Space
from engine.training.adapters import check_encoder
from engine.values import Corpus, Embeddings, Qrels, Queries, explain_missing_split

AnyQueries = Queries | Embeddings
Splits = Mapping[str, Qrels]
"""Judgements by split."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Samples:
    """The train queries with their relevant documents, and the dev queries that choose the epoch."""

    space: Space  # the corpus that is trained on
    train: Embeddings  # training queries as the encoder embedded them
    dev: Embeddings  # dev queries likewise
    relevant: tuple[tuple[int, ...], ...]  # rows of each training query's relevant documents, ascending
    qrels: Qrels  # judgements of dev
    left_out: int = 0  # count of training queries without a relevant document in the corpus
    repeated: int = 0  # count of training queries left out because dev has the same text

    def __len__(self) -> int:
        return len(self.relevant)

    @property
    def mean_relevant(self) -> float:
        """Mean number of relevant documents per training query, |S|."""
        return sum(map(len, self.relevant)) / len(self)

    def batch(self, positions: Tensor) -> "TrainingBatch":
        """Return the training queries at (B,) positions with their relevant documents."""
        # Queries have different numbers of relevant documents, so pairs are a flat list and no padded matrix.
        relevant_sets = [self.relevant[position] for position in positions.tolist()]
        counts = torch.tensor(list(map(len, relevant_sets)))
        query = torch.repeat_interleave(torch.arange(len(relevant_sets)), counts)
        document = torch.tensor(list(chain.from_iterable(relevant_sets)))
        return TrainingBatch(*(tensor.to(self.space.device) for tensor in (positions, query, document, counts)))


@dataclass(frozen=True, eq=False)
class TrainingBatch:
    """B training queries and their P pairs with a relevant document."""

    positions: Tensor  # (B,) among the training queries
    query: Tensor  # (P,) the pair's query, by index in the batch
    document: Tensor  # (P,) the pair's relevant row
    counts: Tensor  # (B,) relevant documents per query

    def __len__(self) -> int:
        return len(self.positions)

    def relevance(self, columns: Tensor, count: int) -> Tensor:
        """Mark each query's relevant documents among the `count` columns of a score matrix, (B, count) bool.

        columns: (P,) for each pair of a query and a relevant document, the column in which the document stands
        """
        relevant = torch.zeros(len(self), count, dtype=torch.bool, device=columns.device)
        relevant[self.query, columns] = True
        return relevant


def gather_samples(
    space: Space, queries: AnyQueries, qrels: Splits, train: str, dev: str, reporter: Reporter = SILENT
) -> Samples:
    """Gather the vectors and judgements for training on one split and choosing the epoch on another.

    Training queries that have no relevant document in the corpus, or the text of a dev query, are left out. Raises
    DataError for unknown splits, for queries in both, and where none is left.
    """
    splits = disjoint_splits(queries, qrels, train, dev)
    repeated = repeated_queries(queries, splits, train)
    # Only the queries of the two splits are embedded, in one call. `query_rows` is ascending, so that `searchsorted`
    # finds the place of each query in `vectors`.
    query_rows = sorted(set(chain.from_iterable(splits.values())))
    vectors = _embed_rows(space, queries, query_rows, reporter)
    relevant, judged_rows = relevant_rows(space.corpus, queries, qrels, splits)
    return Samples(
        space=space,
        train=vectors.take(np.searchsorted(query_rows, list(relevant)).tolist()),
        dev=vectors.take(np.searchsorted(query_rows, judged_rows).tolist()),
        relevant=tuple(map(tuple, relevant.values())),
        qrels=qrels[dev],
        left_out=len(splits[train]) - len(repeated) - len(relevant),
        repeated=len(repeated),
    )


def relevant_rows(
    corpus: Corpus, queries: AnyQueries, qrels: Splits, splits: Mapping[str, Sequence[int]]
) -> tuple[dict[int, dict[int, int]], list[int]]:
    """Return training query → {document row: grade}, and the dev queries that have relevant documents.

    Queries are given by their positions in `queries`. splits: those of train and dev, as `disjoint_splits` returns
    them. Training queries without a relevant document in the corpus, or with the text of one of dev, are left out.
    Raises DataError where none is left to learn from, or none to choose by.
    """
    train, dev = splits
    position, repeated = corpus.position, repeated_queries(queries, splits, train)
    relevant: dict[int, dict[int, int]] = {}
    for query_row in splits[train]:
        query_id, grades = queries.ids[query_row], qrels[train].grades[queries.ids[query_row]]
        graded_rows = {position[doc]: grades[doc] for doc in qrels[train].relevant(query_id) if doc in position}
        if graded_rows and query_row not in repeated:
            # Judgements come as a set, whose order differs between processes: sorted, runs can be repeated.
            relevant[query_row] = dict(sorted(graded_rows.items()))
    if not relevant:
        raise DataError(f"no query of {train!r} has a relevant document in this corpus: there is nothing to learn from")
    # Dev queries whose relevant documents are all outside the corpus stay: no encoder finds them, and means say so.
    relevant_to = {query_row: qrels[dev].relevant(queries.ids[query_row]) for query_row in splits[dev]}
    judged_rows = [query_row for query_row, doc_ids in relevant_to.items() if doc_ids]
    if position.keys().isdisjoint(chain.from_iterable(relevant_to.values())):
        raise DataError(f"no query of {dev!r} has a relevant document in this corpus: there is nothing to choose by")
    return relevant, judged_rows


def disjoint_splits(queries: AnyQueries, qrels: Splits, *names: str) -> dict[str, list[int]]:
    """Return split → positions of the queries that it judges, for splits that must not share queries.

    Raises DataError where a split is unknown or judges none of the queries, or where two share queries: memorised
    answers would look like learnt ones.
    """
    if not isinstance(queries, AnyQueries):
        raise DataError(f"queries must be engine.Queries or engine.Embeddings; got {type(queries).__name__}")
    if not isinstance(qrels, Mapping) or not all(isinstance(judgements, Qrels) for judgements in qrels.values()):
        raise DataError("qrels must be judgements by split, as dataset.qrels is: {'train': engine.Qrels, …}")
    splits = {}
    for split in names:
        if split not in qrels:
            raise DataError(explain_missing_split(qrels, split))
        splits[split] = [row for row, query_id in enumerate(queries.ids) if query_id in qrels[split].grades]
        if not splits[split]:
            raise DataError(f"none of the queries is judged by {split!r}")
    if len(set(names)) < len(names):
        raise DataError(f"splits must differ; got {', '.join(map(repr, names))}")
    for first_split, second_split in combinations(names, 2):
        if common_queries := [queries.ids[row] for row in sorted(set(splits[first_split]) & set(splits[second_split]))]:
            examples = ", ".join(map(repr, common_queries[:5]))
            raise DataError(
                f"{first_split!r} and {second_split!r} share {counted(len(common_queries), 'query', 'queries')} "
                f"(first: {examples}), and "
                "what is learnt by heart would count as understood: take them out of one of the two"
            )
    return splits


def repeated_queries(queries: AnyQueries, splits: Mapping[str, Sequence[int]], train: str) -> set[int]:
    """Return the positions in `train` of queries whose normalised text one of the other splits has."""
    if queries.texts is None:
        return set()
    other_rows = chain.from_iterable(split_rows for split_name, split_rows in splits.items() if split_name != train)
    other_texts = {normalize_text(queries.texts[query_row]) for query_row in other_rows}
    return {query_row for query_row in splits[train] if normalize_text(queries.texts[query_row]) in other_texts}


def normalize_text(text: str) -> str:
    """Normalise a query's text, so that case and white space tell no two queries apart."""
    return " ".join(text.split()).casefold()


def embed_texts(space: Space, queries: Queries, reporter: Reporter) -> Embeddings:
    """Embed queries with the space's base encoder, or take their own vectors. Raises DataError if there are none."""
    encoder = space.encoder
    if encoder is None:
        if (own_vectors := queries.embeddings) is not None:
            return own_vectors
        raise DataError(
            "queries are text, but the corpus came with its own vectors and no encoder; pass the queries' vectors "
            "as engine.Embeddings"
        )
    progress, stop = reporter
    return embed(queries, encoder=encoder.name, dtype=encoder.dtype, progress=progress, stop=stop)


def _embed_rows(space: Space, queries: AnyQueries, rows: Sequence[int], reporter: Reporter) -> Embeddings:
    """Return the vectors of the queries at ascending `rows`, embedded now if they are texts, else checked.

    Raises DataError for vectors of another encoder or dimension, or with numbers that are not finite.
    """
    selected = take_queries(queries, rows)
    if isinstance(selected, Queries):
        return embed_texts(space, selected, reporter)
    check_encoder(selected, space.encoder)
    if selected.dimension != (d := space.vectors.shape[1]):
        raise DataError(f"queries must have the corpus's dimension; got {selected.dimension}, the corpus has {d}")
    # Refuses numbers that are not finite.
    Matrix(selected.vectors, "queries")
    return selected


def take_queries(queries: AnyQueries, rows: Sequence[int]) -> AnyQueries:
    """Return the queries at ascending rows."""
    return queries.take(rows) if isinstance(queries, Embeddings) else queries.only(queries.ids[row] for row in rows)
