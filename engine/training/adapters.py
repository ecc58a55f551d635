"""Adapters: small networks over frozen query and document vectors, and the encoder that they make of one."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor, nn
from torch.nn import functional

from engine.errors import DataError
from engine.progress import counted
from engine.space import Space
from engine.training.projections import Heads, as_parts, map_blocks
from engine.values import ByDigest, Embeddings, EncoderRef, digest_of

INITIAL_ALPHA = -5.0
"""α of a new corpus adapter: the network's share σ(α) is then .0067 (NNN paper, B.5)."""


class TrainableEncoder(nn.Module):
    """A module that encodes queries and documents by position, as unit rows with gradients."""

    def encode_query(self, positions: Tensor) -> Tensor:
        """Encode the queries at (B,) positions, (B, d)."""
        raise NotImplementedError

    def encode_corpus(self, positions: Tensor | None = None) -> Tensor:
        """Encode the documents at (m,) positions, or all of them, (m, d)."""
        raise NotImplementedError

    def result(self) -> dict[str, Tensor]:
        """Return the state of the Adapters that training has made, by name."""
        raise NotImplementedError


class QueryAdapter(nn.Module):
    """A small network over query vectors: x + W₂ gelu(W₁ x), scaled to unit length.

    It is the identity on unit vectors at first, as W₂ starts at 0.
    """

    def __init__(self, d: int, hidden: int, generator: torch.Generator | None = None) -> None:
        """Draw two linear layers, d → hidden → d; without a generator they are left for a state to fill."""
        super().__init__()
        self.inner, self.outer = _initialise_linear(d, hidden, generator), _initialise_linear(hidden, d, generator)
        # With W₂ = 0 training starts at the encoder's own query vectors; W₁ has a gradient only after the first step.
        nn.init.zeros_(self.outer.weight)
        nn.init.zeros_(self.outer.bias)

    def forward(self, x: Tensor) -> Tensor:
        """Return adapted (B, d) unit rows: x plus the network's correction."""
        return functional.normalize(x + self.outer(functional.gelu(self.inner(x))), dim=-1)


class CorpusAdapter(nn.Module):
    """A small network over document vectors, mixed with them: (1 − σ(α)) x + σ(α) W₂ gelu(W₁ x).

    Scaled to unit length; the share σ(α) of the network is learnt too (NNN paper, B.5).
    """

    def __init__(self, d: int, hidden: int, generator: torch.Generator | None = None) -> None:
        """Draw two linear layers, d → hidden → d, and set the share of their output in the mix low at first."""
        super().__init__()
        self.inner, self.outer = _initialise_linear(d, hidden, generator), _initialise_linear(hidden, d, generator)
        self.alpha = nn.Parameter(torch.tensor(INITIAL_ALPHA))

    def forward(self, x: Tensor) -> Tensor:
        """Return adapted (n, d) unit rows: x and the network's output, mixed by σ(α)."""
        # Residual gate of the NNN paper, B.5: σ keeps the network's share in (0, 1) while α learns freely.
        share = torch.sigmoid(self.alpha)
        return functional.normalize((1 - share) * x + share * self.outer(functional.gelu(self.inner(x))), dim=-1)


def _initialise_linear(inputs: int, outputs: int, generator: torch.Generator | None) -> nn.Linear:
    """Make a linear layer with torch's usual initialisation; uninitialised without a generator."""
    layer: nn.Linear = nn.utils.skip_init(nn.Linear, inputs, outputs)
    # Without a generator the weights are about to be loaded from a state, so drawing them would be wasted.
    if generator is None:
        return layer
    # These are the bounds of nn.Linear.reset_parameters, which itself cannot draw from a generator.
    nn.init.kaiming_uniform_(layer.weight, a=math.sqrt(5), generator=generator)
    nn.init.uniform_(layer.bias, -1 / math.sqrt(inputs), 1 / math.sqrt(inputs), generator=generator)
    return layer


class Adapters(nn.Module):
    """Every trained part over an encoder.

    query: the query adapter, or None.
    corpus: document adapters, applied one after the other.
    table: (n, d) learnt document vectors that replace the encoder's, or None.
    heads: projections of queries and documents to fewer dimensions, applied last, or None.
    """

    table: Tensor | None

    def __init__(
        self,
        query: QueryAdapter | None = None,
        corpus: tuple[CorpusAdapter, ...] = (),
        table: Tensor | None = None,
        heads: Heads | None = None,
    ) -> None:
        """Collect the trained parts; each may be absent.

        query: network over query vectors. corpus: networks over document vectors, applied in turn. table: (n, d) learnt
        document vectors, in place of the encoder's. heads: projections to fewer dimensions, applied last.
        """
        super().__init__()
        self.query, self.corpus, self.heads = query, nn.ModuleList(corpus), heads
        self.register_buffer("table", table)

    @property
    def corpus_adapters(self) -> tuple[CorpusAdapter, ...]:
        """The document adapters in the order they are applied."""
        return tuple(adapter for adapter in self.corpus if isinstance(adapter, CorpusAdapter))

    @property
    def query_weight(self) -> Tensor | None:
        """The weight matrix that query vectors meet first, (·, d); None if queries stay as they are."""
        if self.query is not None:
            return self.query.inner.weight
        return None if self.heads is None else self.heads.query.weight

    def encode_query(self, vectors: Tensor) -> Tensor:
        """Adapt (B, d) query vectors of the encoder as trained: by the query adapter, then by any heads.

        The heads project queries to fewer dimensions, (B, k).
        """
        # The heads were trained over the output of the adapter, so the order cannot be changed.
        vectors = vectors if self.query is None else self.query(vectors)
        return vectors if self.heads is None else self.heads.query(vectors)

    @torch.no_grad()
    def encode_documents(self, vectors: Tensor, done: int = 0) -> tuple[Tensor, Tensor | None]:
        """Adapt document vectors as trained; return one vector each, and all of them if each has several.

        vectors: (n, d) of the encoder, or the output of the first `done` adapters. The first result is (n, d), or (n,
        k) where training projects to k dimensions; the second is (n, m, k), or None where a document has one vector. In
        blocks, without gradients.
        """
        # A learnt table replaces the encoder's vectors. If adapters are done already, `vectors` came from the table.
        vectors = vectors if self.table is None or done else self.table
        for adapter in self.corpus_adapters[done:]:
            vectors = map_blocks(adapter, vectors)
        return (vectors, None) if self.heads is None else self.heads.documents(vectors)

    @staticmethod
    def of(state: Mapping[str, Tensor]) -> "Adapters":
        """Build frozen adapters of queries and documents from a state dict: the inverse of `state_dict`.

        Which adapters there are is read from the names, the sizes of their layers from the shapes of the weights.
        """
        query = QueryAdapter(*_sizes(state["query.inner.weight"])) if "query.inner.weight" in state else None
        # Every corpus adapter has one weight of this name.
        n_adapters = sum(name.startswith("corpus.") and name.endswith(".alpha") for name in state)
        corpus = tuple(CorpusAdapter(*_sizes(state[f"corpus.{i}.inner.weight"])) for i in range(n_adapters))
        table = torch.empty_like(state["table"]) if "table" in state else None
        # All weights have one dtype. The layers are placeholders of the right shapes until the state is loaded.
        adapters = Adapters(query, corpus, table, Heads.of(state, "heads.")).to(next(iter(state.values())).dtype)
        adapters.load_state_dict(state)
        return adapters.eval().requires_grad_(False)


def _sizes(inner_weight: Tensor) -> tuple[int, int]:
    """Return (d, hidden), the arguments of an adapter, from its inner layer's weight."""
    hidden, d = inner_weight.shape
    return d, hidden


@dataclass(frozen=True, eq=False)
class Adapted(ByDigest):
    """Trained adapters as a value: turns vectors of the base encoder into those of a trained corpus."""

    adapters: Adapters  # frozen
    base: EncoderRef | None  # the encoder whose vectors they take, None for vectors that came with the corpus
    corpus: str  # digest of the corpus embeddings that they were trained over
    sketch: tuple[float, ...] = ()  # recognises those embeddings where their last digits differ
    learnt: frozenset[str] = frozenset()  # hashes of the training queries

    @cached_property
    def digest(self) -> str:
        """The digest of the weights, the base encoder and the corpus embeddings that they were trained over."""
        weights = weights_digest(self.adapters.state_dict())
        return digest_of([self.base.digest if self.base else "", self.corpus, weights])

    @cached_property
    def encoder(self) -> EncoderRef:
        """The trained encoder's identity: the base encoder's name with the digest of the weights."""
        # Vectors may come without an encoder: without a name, in the default precision.
        base_name, dtype = (self.base.name, self.base.dtype) if self.base else ("", "float32")
        return EncoderRef(base_name, self.digest, dtype)

    def __call__(self, queries: Embeddings) -> Embeddings:
        """Adapt queries that the base encoder embedded; return already adapted ones unchanged.

        Raises DataError for queries of another encoder or dimension.
        """
        if queries.encoder is not None and queries.encoder.digest == self.digest:
            return queries
        check_encoder(queries, self.base)
        return replace(queries, vectors=self.query_vectors(queries), encoder=self.encoder)

    @torch.no_grad()
    def query_vectors(self, queries: Embeddings) -> Tensor:
        """Return (B, d) or (B, k) adapted vectors of queries that the base encoder embedded."""
        weight = self.adapters.query_weight
        if weight is None:
            return queries.vectors
        if queries.dimension != weight.shape[1]:
            raise DataError(
                f"queries must have {counted(weight.shape[1], 'dimension')}, as the adapter; got {queries.dimension}"
            )
        # Block by block to the adapters' device and precision and back, so that only one block is held there.
        return map_blocks(lambda block: self.adapters.encode_query(block.to(weight)).to(block), queries.vectors)

    def passages(self, passages: Embeddings) -> Embeddings:
        """Adapt vectors of passages, which the base encoder embedded, as documents are adapted.

        The result has one vector for each passage, also where training gave each document several. Raises DataError for
        those of another encoder, and where document vectors themselves were learnt.
        """
        # The first result has one vector each, the second all of several.
        return self.documents(passages, "passages")[0]

    def documents(self, documents: Embeddings, name: str = "documents") -> tuple[Embeddings, Embeddings | None]:
        """Adapt documents that the base encoder embedded; return (one vector each, all vectors or None).

        The second has all vectors if training gave each document several; it is None if each has one. Raises DataError
        for documents of another encoder, and where document vectors themselves were learnt.
        """
        check_encoder(documents, self.base, name)
        if self.adapters.table is not None:
            raise DataError(
                "this training has learnt a vector a document, and no way from text to one: passages of documents "
                "cannot be embedded for it; take a decoder that scores whole documents"
            )
        vectors = documents.vectors
        # Computed on the device and in the dtype of the weights; returned on the device and in the dtype of
        # `documents`.
        any_weight = next(self.adapters.parameters(), vectors)
        new_rows, part_vectors = self.adapters.encode_documents(vectors.to(any_weight.device, any_weight.dtype))
        embeddings = replace(documents, vectors=new_rows.to(vectors.device, vectors.dtype), encoder=self.encoder)
        if part_vectors is None:
            return embeddings, None
        return embeddings, as_parts(part_vectors.to(embeddings.vectors), documents.ids, self.encoder)


def adapted_of(space: Space) -> Adapted | None:
    """Return the trained adapters of a space; None if its vectors are the encoder's own."""
    return space.adapt if isinstance(space.adapt, Adapted) else None


def adapters_of(space: Space) -> Adapters:
    """Return the adapters that a space was trained with; empty ones if its vectors are the encoder's own."""
    adapted = adapted_of(space)
    return Adapters() if adapted is None else adapted.adapters


def check_encoder(embeddings: Embeddings, base: EncoderRef | None, name: str = "queries") -> None:
    """Raise a DataError that names both encoders if `base` did not embed `embeddings`."""
    # Names may be equal while weights differ, so encoders are compared by the digest of their weights.
    if (embeddings.encoder and embeddings.encoder.digest) != (base and base.digest):
        raise DataError(
            f"{name} must be vectors of the encoder that the adapters take, {_describe_encoder(base)}; got those of "
            f"{_describe_encoder(embeddings.encoder)}"
        )


def _describe_encoder(encoder: EncoderRef | None) -> str:
    return f"{encoder.name} (weights {encoder.digest[:8]})" if encoder else "none (vectors brought along)"


def select_prefix(tensors: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """Return the tensors whose names begin with a prefix, under the rest of their names."""
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}


def weights_digest(weights: Mapping[str, Tensor], *parts: str) -> str:
    """Compute the SHA-256 of some texts together with the names, shapes and numbers of all weights."""
    # Sorted, so that the digest does not depend on the order in which modules were registered.
    hashed_parts: list[str | bytes] = []
    for tensor_name, tensor in sorted(weights.items()):
        weight_array = tensor.detach().cpu().contiguous().numpy()
        hashed_parts += [tensor_name, str(weight_array.shape), str(weight_array.dtype), weight_array.tobytes()]
    return digest_of([*parts, *hashed_parts])


class OverVectors(TrainableEncoder):
    """A query adapter and the last corpus adapter that learn over frozen vectors; others are frozen.

    queries: (Q, d) encoder vectors of all queries.
    rows: (n, d) document vectors as the last corpus adapter takes them.
    """

    def __init__(self, adapters: Adapters, queries: Tensor, rows: Tensor) -> None:
        """Keep the adapters and the frozen vectors that they are trained over.

        queries: (Q, d) vectors of all queries from the encoder; rows: (n, d) document vectors after the encoder and all
        corpus adapters but the last. Only the last one learns, so what comes before it is computed once
        """
        super().__init__()
        self.adapters, self.queries, self.rows = adapters, queries, rows

    def encode_query(self, positions: Tensor) -> Tensor:
        """Encode the queries at (B,) positions by the query adapter."""
        return self.adapters.encode_query(self.queries[positions])

    def encode_corpus(self, positions: Tensor | None = None) -> Tensor:
        """Encode documents by the last corpus adapter, the one that learns: those at (m,) positions, or all.

        `rows`, the documents' vectors, have passed the frozen part already: the encoder and the earlier adapters.
        """
        last_adapter = self.adapters.corpus_adapters[-1]
        # Blocks save memory only where no gradient is needed: else torch keeps the results of all of them for the
        # backward pass.
        if positions is None and not torch.is_grad_enabled():
            return map_blocks(last_adapter, self.rows)
        document_rows: Tensor = last_adapter(self.rows if positions is None else self.rows[positions])
        return document_rows

    def result(self) -> dict[str, Tensor]:
        return self.adapters.state_dict()
