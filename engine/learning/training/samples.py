"""What is learnt from: queries with their relevant documents, of two splits that have nothing in common."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

import torch
from torch import Tensor

from engine.data.encoders import embed
from engine.errors import DataError
from engine.learning.training.adapters import of_base
from engine.matrix import Matrix
from engine.progress import Progress, Stop
from engine.space import Space
from engine.values import Embeddings, Qrels, Queries


@dataclass(frozen=True, eq=False)
class Samples:
    """Queries to learn from and queries to choose by.

    train, dev: as the encoder embedded them; relevant: per query of train the rows of its relevant documents, rising;
    qrels: judgements of dev; left_out: how many queries of train have no relevant document in the corpus; repeated: how
    many were left out as dev has the same text; device: where batches go.
    """

    train: Embeddings
    dev: Embeddings
    relevant: tuple[tuple[int, ...], ...]
    qrels: Qrels
    left_out: int
    repeated: int
    device: torch.device

    def __len__(self) -> int:
        return len(self.relevant)

    @property
    def mean_relevant(self) -> float:
        """Relevant documents a query of train, |S|, in the mean."""
        return sum(map(len, self.relevant)) / len(self)

    @cached_property
    def _flat(self) -> tuple[Tensor, Tensor]:
        counts = torch.tensor([0, *map(len, self.relevant)])
        return counts.cumsum(0), torch.tensor([row for rows in self.relevant for row in rows])

    def batch(self, at: Tensor) -> Batch:
        """The training queries at positions (B,)."""
        ends, rows = self._flat
        counts = ends[at + 1] - ends[at]
        query = torch.repeat_interleave(torch.arange(len(at)), counts)
        place = torch.arange(int(counts.sum())) - torch.repeat_interleave(counts.cumsum(0) - counts, counts)
        document = rows[ends[at][query] + place]
        return Batch(*(part.to(self.device) for part in (at, query, document, counts)))


@dataclass(frozen=True, eq=False)
class Batch:
    """B training queries: at (B,) their positions; query, document (P,): the pairs of a query's place in the batch and
    a relevant row; counts (B,): how many of those it has."""

    at: Tensor
    query: Tensor
    document: Tensor
    counts: Tensor

    def __len__(self) -> int:
        return len(self.at)


def gathered(
    space: Space,
    queries: Queries | Embeddings,
    qrels: Mapping[str, Qrels],
    train: str,
    dev: str,
    progress: Progress | None,
    stop: Stop | None,
) -> Samples:
    """The samples of two splits. Raises DataError: an unknown split, queries in both, none with a relevant document."""
    splits = apart(queries, qrels, train, dev)
    again = repeated(queries, splits, train)
    wanted = sorted({row for rows in splits.values() for row in rows})
    place = {row: i for i, row in enumerate(wanted)}
    vectors = _embedded(space, queries, wanted, progress, stop)
    position = space.corpus.position
    rows, relevant = [], []
    for row in (row for row in splits[train] if row not in again):
        found = sorted(position[doc] for doc in qrels[train].relevant(queries.ids[row]) if doc in position)
        if found:
            rows.append(place[row])
            relevant.append(tuple(found))
    if not rows:
        raise DataError(f"no query of {train!r} has a relevant document in this corpus: there is nothing to learn from")
    known = [row for row in splits[dev] if qrels[dev].relevant(queries.ids[row])]
    if not any(doc in position for row in known for doc in qrels[dev].relevant(queries.ids[row])):
        raise DataError(f"no query of {dev!r} has a relevant document in this corpus: there is nothing to choose by")
    return Samples(
        vectors.take(rows),
        vectors.take([place[row] for row in known]),
        tuple(relevant),
        qrels[dev],
        len(splits[train]) - len(again) - len(rows),
        len(again),
        space.device,
    )


def apart(queries: Queries | Embeddings, qrels: Mapping[str, Qrels], *names: str) -> dict[str, list[int]]:
    """Split → the positions of the queries that it judges. Raises DataError where one is not there, or two share some:
    what was learnt by heart would look like what was understood."""
    if not isinstance(queries, Queries | Embeddings):
        raise DataError(f"queries must be engine.Queries or engine.Embeddings; got {type(queries).__name__}")
    if not isinstance(qrels, Mapping) or not all(isinstance(own, Qrels) for own in qrels.values()):
        raise DataError("qrels must be judgements by split, as dataset.qrels is: {'train': engine.Qrels, …}")
    found = {}
    for split in names:
        if split not in qrels:
            raise DataError(f"no split {split!r}; there are {', '.join(map(repr, qrels)) or 'no judgements'}")
        found[split] = [row for row, query in enumerate(queries.ids) if query in qrels[split].grades]
        if not found[split]:
            raise DataError(f"none of the queries is judged by {split!r}")
    if len(set(names)) < len(names):
        raise DataError(f"splits must differ; got {', '.join(map(repr, names))}")
    for one, other in combinations(names, 2):
        if both := [queries.ids[row] for row in sorted(set(found[one]) & set(found[other]))]:
            few = ", ".join(map(repr, both[:5]))
            raise DataError(
                f"{one!r} and {other!r} share {len(both):,} queries (first: {few}), and what is learnt by heart would "
                "count as understood: take them out of one of the two"
            )
    return found


def repeated(queries: Queries | Embeddings, splits: Mapping[str, Sequence[int]], train: str) -> set[int]:
    """Positions in the split `train` of queries whose text, but for case and spaces, another split has too."""
    if queries.texts is None:
        return set()
    plain = {name: {row: folded(queries.texts[row]) for row in rows} for name, rows in splits.items()}
    others = {text for name, own in plain.items() if name != train for text in own.values()}
    return {row for row, text in plain[train].items() if text in others}


def folded(text: str) -> str:
    """A query's text but for case and spaces."""
    return " ".join(text.split()).casefold()


def _embedded(
    space: Space, queries: Queries | Embeddings, rows: Sequence[int], progress: Progress | None, stop: Stop | None
) -> Embeddings:
    """Some of the queries as the encoder below the space embeds them."""
    if isinstance(queries, Queries):
        encoder = space.encoder
        if encoder is None:
            raise DataError(
                "queries are text, but the corpus came with its own vectors and no encoder; pass the queries' vectors "
                "as engine.Embeddings"
            )
        text = queries.only(queries.ids[row] for row in rows)
        return embed(text, encoder=encoder.name, dtype=encoder.dtype, progress=progress, stop=stop)
    of_base(queries, space.encoder)
    if queries.dimension != (d := space.vectors.shape[1]):
        raise DataError(f"queries must have the corpus's dimension; got {queries.dimension}, the corpus has {d}")
    taken = queries.take(rows)
    # Only for what it refuses: numbers that are not finite.
    Matrix(taken.vectors, "queries")
    return taken
