"""Small networks over frozen vectors, one for queries and one for documents, and the encoder that they make of one."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional

from engine.errors import DataError
from engine.learning.training.projections import Heads, as_parts
from engine.values import ByDigest, Embeddings, EncoderRef, digest_of

BLOCK_ROWS = 4096
"""So many rows at a time pass through a network where no gradient is asked for."""
START = -5.0
"""α of a new corpus adapter: the network's share σ(α) is then .0067 (NNN paper, B.5)."""


class Encodes(Protocol):
    """What is trained: queries and documents by their positions, as unit rows with gradients."""

    def encode_query(self, at: Tensor) -> Tensor:
        """(B, d) of the queries at (B,) positions."""
        ...

    def encode_corpus(self, at: Tensor | None = None) -> Tensor:
        """(m, d) of the documents at (m,) positions, or of all."""
        ...


class Learns(Encodes, Protocol):
    """A torch module that also says what it has learnt."""

    def result(self) -> dict[str, Tensor]:
        """The state of the Adapters that it has become."""
        ...


class QueryAdapter(nn.Module):
    """x + W₂ gelu(W₁ x), of unit length; the identity on unit vectors at first, as W₂ starts at 0."""

    def __init__(self, d: int, hidden: int, generator: torch.Generator | None = None) -> None:
        super().__init__()
        self.inner, self.outer = _linear(d, hidden, generator), _linear(hidden, d, generator)
        nn.init.zeros_(self.outer.weight)
        nn.init.zeros_(self.outer.bias)

    def forward(self, x: Tensor) -> Tensor:
        return functional.normalize(x + self.outer(functional.gelu(self.inner(x))), dim=-1)


class CorpusAdapter(nn.Module):
    """(1 − σ(α)) x + σ(α) W₂ gelu(W₁ x), of unit length: NNN paper, B.5."""

    def __init__(self, d: int, hidden: int, generator: torch.Generator | None = None) -> None:
        super().__init__()
        self.inner, self.outer = _linear(d, hidden, generator), _linear(hidden, d, generator)
        self.alpha = nn.Parameter(torch.tensor(START))

    def forward(self, x: Tensor) -> Tensor:
        share = torch.sigmoid(self.alpha)
        return functional.normalize((1 - share) * x + share * self.outer(functional.gelu(self.inner(x))), dim=-1)


def _linear(into: int, out: int, generator: torch.Generator | None) -> nn.Linear:
    """A linear layer with torch's usual start, drawn from a generator of its own; without one, any numbers at all."""
    layer = nn.utils.skip_init(nn.Linear, into, out)
    if generator is None:
        return layer
    nn.init.kaiming_uniform_(layer.weight, a=math.sqrt(5), generator=generator)
    nn.init.uniform_(layer.bias, -1 / math.sqrt(into), 1 / math.sqrt(into), generator=generator)
    return layer


class Adapters(nn.Module):
    """All that was trained of an encoder: for queries one adapter or none, for documents one after the other.

    table: (n, d) document vectors that were learnt themselves and stand in place of the encoder's, or None; heads: what
    projects both to fewer dimensions after all that, or None.
    """

    def __init__(
        self,
        query: QueryAdapter | None = None,
        corpus: tuple[CorpusAdapter, ...] = (),
        table: Tensor | None = None,
        heads: Heads | None = None,
    ) -> None:
        super().__init__()
        self.query, self.corpus, self.heads = query, nn.ModuleList(corpus), heads
        self.register_buffer("table", table)

    @property
    def takes(self) -> Tensor | None:
        """A weight whose columns are the dimensions of the queries that are taken; None where any are."""
        if self.query is not None:
            return self.query.inner.weight
        return None if self.heads is None else self.heads.query.weight

    def encode_query(self, vectors: Tensor) -> Tensor:
        """(B, d) of the encoder's query vectors (B, d); (B, k) where they are projected."""
        vectors = vectors if self.query is None else self.query(vectors)
        return vectors if self.heads is None else self.heads.query(vectors)

    def encode_corpus(self, vectors: Tensor, done: int = 0) -> Tensor:
        """The first of what `encode_documents` gives."""
        return self.encode_documents(vectors, done)[0]

    @torch.no_grad()
    def encode_documents(self, vectors: Tensor, done: int = 0) -> tuple[Tensor, Tensor | None]:
        """(n, d) of the encoder's vectors of the whole corpus (n, d), or of what came out of the first `done` adapters;
        (n, k) where they are projected, and then (n, m, k) too where every document has several vectors.

        In blocks, and so without gradients.
        """
        vectors = vectors if self.table is None or done else self.table
        for stage in self.corpus[done:]:
            vectors = torch.cat([stage(block) for block in vectors.split(BLOCK_ROWS)])
        return (vectors, None) if self.heads is None else self.heads.documents(vectors)

    @staticmethod
    def of(state: Mapping[str, Tensor]) -> Adapters:
        """Adapters from what `state_dict` gave."""
        query = QueryAdapter(*_sizes(state["query.inner.weight"])) if "query.inner.weight" in state else None
        count = sum(name.startswith("corpus.") and name.endswith(".alpha") for name in state)
        stages = tuple(CorpusAdapter(*_sizes(state[f"corpus.{i}.inner.weight"])) for i in range(count))
        table = torch.empty_like(state["table"]) if "table" in state else None
        made = Adapters(query, stages, table, Heads.of(state, "heads.")).to(next(iter(state.values())).dtype)
        made.load_state_dict(state)
        return made.eval().requires_grad_(False)


def _sizes(weight: Tensor) -> tuple[int, int]:
    hidden, d = weight.shape
    return d, hidden


@dataclass(frozen=True, eq=False)
class Adapted(ByDigest):
    """Trained adapters as a value: what makes queries fit a trained corpus.

    adapters: not to be changed any more; base: the encoder whose vectors they take, None for vectors that were brought
    along; corpus: digest of the corpus embeddings that they were trained over; sketch: what these are known by where
    their last digits differ; learnt: marks of the queries that were learnt from.
    """

    adapters: Adapters
    base: EncoderRef | None
    corpus: str
    sketch: tuple[float, ...] = ()
    learnt: frozenset[str] = frozenset()

    @cached_property
    def digest(self) -> str:
        """Of the weights, the encoder below and the corpus."""
        return digest_of([self.base.digest if self.base else "", self.corpus, weights_digest(self.adapters)])

    @cached_property
    def encoder(self) -> EncoderRef:
        """The trained encoder: the name of the one below, and the digest of the weights."""
        name, dtype = (self.base.name, self.base.dtype) if self.base else ("", "float32")
        return EncoderRef(name, self.digest, dtype)

    def __call__(self, queries: Embeddings) -> Embeddings:
        """Queries that the encoder below embedded, adapted; those that are adapted already as they are.

        Raises DataError for queries of another encoder or dimension.
        """
        if queries.encoder is not None and queries.encoder.digest == self.digest:
            return queries
        of_base(queries, self.base)
        weight = self.adapters.takes
        if weight is None:
            return replace(queries, encoder=self.encoder)
        if queries.dimension != weight.shape[1]:
            raise DataError(f"queries must have {weight.shape[1]} dimensions, as the adapter; got {queries.dimension}")
        query = self.adapters.encode_query
        with torch.no_grad():
            blocks = queries.vectors.split(BLOCK_ROWS)
            rows = [query(block.to(weight.device, weight.dtype)).to(block.device, block.dtype) for block in blocks]
        return replace(queries, vectors=torch.cat(rows), encoder=self.encoder)

    def passages(self, passages: Embeddings) -> Embeddings:
        """Parts of documents that the encoder below embedded, adapted as documents are.

        One vector a part, also where a document has several of its own. Raises DataError for those of another encoder,
        and where document vectors were learnt themselves.
        """
        return self.documents(passages, "passages")[0]

    def documents(self, documents: Embeddings, name: str = "documents") -> tuple[Embeddings, Embeddings | None]:
        """Documents that the encoder below embedded, adapted; and all vectors of each where they have several.

        Raises DataError as `passages`.
        """
        of_base(documents, self.base, name)
        if self.adapters.table is not None:
            raise DataError(
                "this training has learnt a vector a document, and no way from text to one: passages of documents "
                "cannot be embedded for it; take a decoder that scores whole documents"
            )
        given = documents.vectors
        weight = next(self.adapters.parameters(), given)
        rows, parts = self.adapters.encode_documents(given.to(weight.device, weight.dtype))
        own = replace(documents, vectors=rows.to(given.device, given.dtype), encoder=self.encoder)
        return own, None if parts is None else as_parts(parts.to(own.vectors), documents.ids, self.encoder)


def of_base(given: Embeddings, base: EncoderRef | None, name: str = "queries") -> None:
    """Raise a DataError that names both encoders where `base` did not embed what is given."""
    if (given.encoder and given.encoder.digest) != (base and base.digest):
        raise DataError(
            f"{name} must be vectors of the encoder that the adapters take, {_named(base)}; got those of "
            f"{_named(given.encoder)}"
        )


def _named(encoder: EncoderRef | None) -> str:
    return f"{encoder.name} (weights {encoder.digest[:8]})" if encoder else "none (vectors brought along)"


def weights_digest(module: nn.Module) -> str:
    """SHA-256 over names, shapes and numbers of all weights."""
    parts: list[str | bytes] = []
    for name, tensor in sorted(module.state_dict().items()):
        rows = tensor.detach().cpu().contiguous().numpy()
        parts += [name, str(rows.shape), str(rows.dtype), rows.tobytes()]
    return digest_of(parts)


class OverVectors(nn.Module):
    """`Learns` over frozen vectors: the query adapter and the last corpus adapter learn, all before them stands.

    queries: (Q, d) the encoder's vectors of all queries; rows: (n, d) of the documents, as they come to the last
    adapter.
    """

    def __init__(self, adapters: Adapters, queries: Tensor, rows: Tensor) -> None:
        super().__init__()
        self.adapters, self.queries, self.rows = adapters, queries, rows
        # Not as a module of its own: it is one of the adapters already.
        object.__setattr__(self, "_last", adapters.corpus[-1])

    def encode_query(self, at: Tensor) -> Tensor:
        return self.adapters.encode_query(self.queries[at])

    def encode_corpus(self, at: Tensor | None = None) -> Tensor:
        if at is None and not torch.is_grad_enabled():
            return torch.cat([self._last(block) for block in self.rows.split(BLOCK_ROWS)])
        return self._last(self.rows if at is None else self.rows[at])

    def result(self) -> dict[str, Tensor]:
        return self.adapters.state_dict()
