"""The vectors of documents and queries by which a run is explained: those of the corpus, and of other encoders."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from engine.data.encoders import list_cached_encoders, read_cached_vectors
from engine.data.models.precision import MIN_FIDELITY
from engine.decoder import query_batch
from engine.errors import DataError, ParamError
from engine.identification.pools import RunLists
from engine.params import values_of
from engine.space import QueryBatch, Space
from engine.stages import make_scorer
from engine.text.bm25_index import share_index
from engine.values import Corpus, Dataset, Embeddings, EncoderRef, Queries


@dataclass(frozen=True, kw_only=True)
class CachedVectors:
    """Vectors of a corpus and of its queries by another encoder, or in other arithmetic, that lie in the cache.

    encoder: that made them; corpus: the documents; query_sets: sets of queries that may have been embedded
    """

    encoder: EncoderRef
    corpus: Corpus
    query_sets: tuple[Queries, ...]

    def read(self, query_texts: Mapping[str, str]) -> tuple[Embeddings, Embeddings] | None:
        """Return the embeddings of the documents and of queries; None unless all documents and queries have one.

        query_texts: id → text of the queries of the run.
        """
        required_ids, rows = set(query_texts), dict[str, Tensor]()
        for query_set in self.query_sets:
            # Most often the first set has all of them, and the others need not be read.
            if required_ids <= rows.keys():
                break
            vectors = read_cached_vectors(query_set, self.encoder)
            if vectors is not None:
                # An id may stand for another text in another set.
                rows |= {
                    query_id: row
                    for query_id, text, row in zip(query_set.ids, query_set.texts, vectors.vectors, strict=True)
                    if query_texts.get(query_id, text) == text
                }
        if not required_ids <= rows.keys():
            return None
        documents = read_cached_vectors(self.corpus, self.encoder)
        if documents is None:
            return None
        return documents, Embeddings(tuple(rows), torch.stack(list(rows.values())), self.encoder)


def find_cached_vectors(space: Space, query_sets: Sequence[Queries]) -> tuple[CachedVectors, ...]:
    """Find vectors of a corpus by other encoders than the space's in the cache, the last used first.

    query_sets: sets of queries that may have been embedded as a whole, such as all of a data set or those of a split.
    Nothing is embedded, and no encoder is loaded.
    """
    own_encoder = space.embeddings.encoder
    own_key = None if own_encoder is None else _key_encoder(own_encoder)
    return tuple(
        CachedVectors(encoder=encoder, corpus=space.corpus, query_sets=tuple(query_sets))
        for encoder in list_cached_encoders(space.corpus)
        if _key_encoder(encoder) != own_key
    )


def find_dataset_vectors(space: Space, dataset: Dataset) -> tuple[CachedVectors, ...]:
    """Find vectors of a data set's documents by other encoders in the cache; its queries may be embedded by split."""
    return find_cached_vectors(space, [dataset.queries, *map(dataset.judged, dataset.qrels)])


def _key_encoder(encoder: EncoderRef) -> tuple[str, str]:
    """Return what decides which vectors an encoder gives: its weights and its arithmetic."""
    return encoder.digest, encoder.dtype


Choice = CachedVectors | tuple[Embeddings, Embeddings]
"""Other vectors of a run: in the cache, or embeddings of its documents and of its queries."""


@dataclass(frozen=True, eq=False, kw_only=True)
class RunVectors:
    """The vectors of documents and queries by which a run is explained.

    encoder: name of another encoder, None for the vectors of the corpus; space: the documents; lists: those of the run;
    further: queries without a list
    """

    encoder: str | None
    space: Space
    lists: RunLists
    further: QueryBatch

    def sample_lists(self, n_lists: int, seed: int) -> "RunVectors":
        """Return the same vectors with a sample of the lists."""
        lists = self.lists
        if len(lists.rows) <= n_lists:
            return self
        chosen = draw_lists(len(lists.rows), n_lists, seed)
        rows = tuple(lists.rows[index] for index in chosen)
        return replace(self, lists=RunLists(lists.batch.take(chosen.tolist()), rows, lists.own_rows[chosen], lists.k))

    def is_like(self, candidate: "RunVectors") -> bool:
        """Return True if all vectors equal another's but for rounding, as of float16 or bfloat16."""
        pairs = (
            (self.space.vectors, candidate.space.vectors),
            (self.lists.batch.vectors, candidate.lists.batch.vectors),
        )
        return all(_are_alike(rows, other_rows) for rows, other_rows in pairs)


def draw_lists(n_lists: int, n_drawn: int, seed: int) -> np.ndarray:
    """Return the numbers of a sample of the lists, ascending; all if there are no more."""
    if n_lists <= n_drawn:
        return np.arange(n_lists)
    return np.sort(np.random.default_rng(seed).choice(n_lists, n_drawn, replace=False))


def _are_alike(rows: Tensor, other_rows: Tensor) -> bool:
    """Return True if each row points where the other's does."""
    if rows.shape != other_rows.shape:
        return False
    # Without a copy of either, as a product of all numbers would be.
    products = torch.einsum("nd,nd->n", rows, other_rows.to(rows))
    lengths = torch.linalg.vector_norm(rows, dim=1) * torch.linalg.vector_norm(other_rows, dim=1).to(rows)
    return bool((products >= MIN_FIDELITY * lengths).all())


def place_vectors(documents: Embeddings, queries: Embeddings, encoder: str, base: RunVectors) -> RunVectors:
    """Return other vectors of the documents and queries of a run. Raises DataError if they are of others.

    encoder: their name; base: the run by the vectors of the corpus
    """
    space = Space(base.space.corpus, documents, base.space.device)
    batch, further = base.lists.batch, base.further
    missing_ids = [query_id for query_id in batch.ids if query_id not in queries.position]
    if missing_ids:
        raise DataError(
            f"embeddings must have a vector for each query with a list; {encoder} lacks {len(missing_ids):,} (first: "
            f"{missing_ids[0]!r}). Embed the same queries"
        )
    if batch.texts is not None:
        share_index(base.space, space, **values_of(make_scorer("bm25")))
    # Queries without a list only help to tell hypotheses apart: those without a vector are left out.
    answered = [index for index, query_id in enumerate(further.ids) if query_id in queries.position]
    other_batch = _embed_batch(space, queries, batch)
    other_further = _embed_batch(space, queries, further.take(answered)) if answered else other_batch.take([])
    lists = replace(base.lists, batch=other_batch)
    return RunVectors(encoder=encoder, space=space, lists=lists, further=other_further)


def _embed_batch(space: Space, queries: Embeddings, batch: QueryBatch) -> QueryBatch:
    """Return the queries of a batch, with their texts, by other vectors."""
    vectors = queries.take([queries.position[query_id] for query_id in batch.ids])
    return query_batch(space, replace(vectors, texts=batch.texts))


class OtherVectors:
    """Vectors beside those of a corpus that may explain a run, each with a name; read one after the other."""

    def __init__(self, base: RunVectors, embeddings: Any) -> None:
        """Check and name what was passed as `embeddings`, without cached vectors that lack the queries."""
        self._base = base
        choices = [_check_choice(choice) for choice in _as_choices(embeddings)]
        self._choices = _keep_with_queries(choices, base)
        encoders = [
            choice.encoder if isinstance(choice, CachedVectors) else choice[0].encoder for choice in self._choices
        ]
        self.names = _name_encoders(encoders, base.space.embeddings.encoder)

    def __iter__(self) -> Iterator[RunVectors]:
        """Read each in turn; those that are not complete in the cache are passed over."""
        batch = self._base.lists.batch
        # Cached vectors are among the choices only if the run's queries have texts.
        query_texts = dict(zip(batch.ids, batch.texts or batch.ids, strict=True))
        for name, choice in zip(self.names, self._choices, strict=True):
            pair = choice.read(query_texts) if isinstance(choice, CachedVectors) else choice
            if pair is not None:
                yield place_vectors(*pair, name, self._base)


def _keep_with_queries(choices: Sequence[Choice], base: RunVectors) -> list[Choice]:
    """Return the choices but for vectors in the cache whose encoder embedded no set of the run's queries."""
    batch, further = base.lists.batch, base.further
    cached = [choice for choice in choices if isinstance(choice, CachedVectors)]
    if not cached:
        return list(choices)
    if batch.texts is None:
        return [choice for choice in choices if not isinstance(choice, CachedVectors)]
    # An identification by the other encoder has embedded just the queries that are read.
    read_queries = Queries((*batch.ids, *further.ids), (*batch.texts, *(further.texts or ())))
    all_sets = (read_queries, *(query_set for choice in cached for query_set in choice.query_sets))
    sets = tuple({query_set.digest: query_set for query_set in all_sets if len(query_set)}.values())
    embedded = {_key_encoder(encoder) for query_set in sets for encoder in list_cached_encoders(query_set)}
    remaining: list[Choice] = []
    for choice in choices:
        if not isinstance(choice, CachedVectors):
            remaining.append(choice)
        elif _key_encoder(choice.encoder) in embedded:
            remaining.append(replace(choice, query_sets=sets))
    return remaining


def _as_choices(embeddings: Any) -> Sequence[Any]:
    """Return what was passed as `embeddings` as a sequence. Raises ParamError for anything else."""
    if isinstance(embeddings, Embeddings | str) or not hasattr(embeddings, "__iter__"):
        raise ParamError(
            "embeddings must be a list of pairs, the embeddings of the documents and of the queries by one encoder; "
            f"got {type(embeddings).__name__}"
        )
    return tuple(embeddings)


def _check_choice(choice: Any) -> Choice:
    """Return a pair of embeddings, or vectors in the cache. Raises ParamError for anything else."""
    if isinstance(choice, CachedVectors):
        return choice
    if isinstance(choice, tuple | list) and len(choice) == 2 and all(isinstance(each, Embeddings) for each in choice):
        return choice[0], choice[1]
    raise ParamError(
        f"embeddings must be pairs of engine.Embeddings, of the documents and of the queries; got {choice!r:.60}"
    )


def _name_encoders(encoders: Sequence[EncoderRef | None], own_encoder: EncoderRef | None) -> tuple[str, ...]:
    """Return a name for each encoder that no other has: with its arithmetic or its weights where the name is shared."""
    names = []
    for number, encoder in enumerate(encoders, 1):
        if encoder is None:
            names.append(f"embeddings {number}")
            continue
        # A name alone where it says which encoder is meant: digests mean nothing to people.
        remaining = [each for each in (*encoders, own_encoder) if each is not None and each != encoder]
        namesakes = [each for each in remaining if each.name == encoder.name]
        name = encoder.name
        if any(each.dtype != encoder.dtype for each in namesakes):
            name += f" in {encoder.dtype}"
        if any(each.dtype == encoder.dtype for each in namesakes):
            name += f" (weights {encoder.digest[:8]})"
        names.append(name)
    # The same embeddings twice are told apart by their number.
    return tuple(f"{name}, no. {number}" if names.count(name) > 1 else name for number, name in enumerate(names, 1))
