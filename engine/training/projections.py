"""DE-k and ME-k: learned projections to k dimensions, one or m vectors a document (Luan et al. 2021, §3 and §4.1).

The paper fine-tunes an encoder, projects its [CLS] state for DE-k, and its first m token states for ME-k. Here the
encoder is frozen and gives a document one vector, so ME-k takes m projections of that one: they need no text, every
document has exactly m as in the paper, and m = 1 is DE-k. Passage vectors are the alternative without m trained
projections: `max_sim` over a DE-k space cuts the texts and projects each passage, which is worth more where documents
are longer than what the encoder reads (measured: assets/results/projections.md). Rows have length 1 as everywhere, in
place of the paper's layer normalisation. Queries have a projection of their own.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import product, starmap

import torch
from torch import Tensor, nn
from torch.nn import functional

from engine.data.passages import part_id
from engine.errors import ParamError
from engine.matrix import Matrix
from engine.scoring.truncated import principal_axes
from engine.values import Embeddings, EncoderRef

BLOCK_ROWS = 4096
"""Rows in a block where no gradient is needed."""
FAINT = 1e-6
"""Scale of the initial bias: it gives a row of zeros a direction, and changes no other."""
MIN_NORM = 1e-6
"""A sum of unit vectors shorter than this has no direction."""


class Projection(nn.Module):
    """A learnt linear map to unit vectors of k dimensions, Wx + b, or m such maps side by side.

    It takes (n, d) rows to (n, k), or to (n, m, k); weight: (k, d) or (m, k, d).
    """

    def __init__(self, weight: Tensor, bias: Tensor) -> None:
        """Make a projection of d dimensions to k, or m of them, with trainable weight and bias.

        weight: (k, d) or (m, k, d); bias: (k,) or (m, k)
        """
        super().__init__()
        self.weight, self.bias = nn.Parameter(weight), nn.Parameter(bias)

    def forward(self, x: Tensor) -> Tensor:
        """Project (n, d) rows to (n, k), or to (n, m, k) for m projections, all of length 1."""
        # The m projections are one product with their weights stacked, (m k, d).
        flat = functional.linear(x, self.weight.flatten(0, -2), self.bias.flatten())
        return functional.normalize(flat.view(len(x), *self.bias.shape), dim=-1)


class Heads(nn.Module):
    """One projection for queries, and one or m for documents."""

    def __init__(self, query: Projection, corpus: Projection) -> None:
        super().__init__()
        self.query, self.corpus = query, corpus

    def documents(self, rows: Tensor) -> tuple[Tensor, Tensor | None]:
        """Project (n, d) documents to k dimensions: return (n, k), one vector each, and all m vectors of each.

        With one projection, the first is its result and the second None. With m projections, the second has the vectors
        of all, (n, m, k), and the first their mean direction, for decoders that take one vector per document.
        """
        vectors = map_blocks(self.corpus, rows)
        return (vectors, None) if vectors.ndim == 2 else (mean_direction(vectors), vectors)

    @staticmethod
    def of(state: Mapping[str, Tensor], prefix: str) -> "Heads | None":
        """Build heads from a state dict whose names begin with `prefix`; None if it holds none."""
        if f"{prefix}query.weight" not in state:
            return None
        projections = []
        # Placeholders of the right shapes: the caller loads the weights into them.
        for side in ("query", "corpus"):
            weight, bias = state[f"{prefix}{side}.weight"], state[f"{prefix}{side}.bias"]
            projections.append(Projection(torch.empty_like(weight), torch.empty_like(bias)))
        return Heads(*projections)


def map_blocks(function: Callable[[Tensor], Tensor], rows: Tensor) -> Tensor:
    """Apply a function to rows block by block, which bounds the memory of its intermediate results."""
    return torch.cat(list(map(function, rows.split(BLOCK_ROWS))))


def mean_direction(parts: Tensor) -> Tensor:
    """Return (n, k) unit vectors that stand for documents with several vectors each, (n, m, k).

    Each is the direction of the mean of a document's vectors, or its first one where the mean is 0. Of all unit vectors
    it has the largest mean inner product with them. Selectors compare documents by these directions: the result is the
    mean inner product over all pairs of the two documents' vectors, up to a factor.
    """
    if parts.shape[1] == 1:
        return parts[:, 0]
    # Opposite vectors cancel, and normalising what rounding leaves of their sum would give a random direction.
    vector_sums = parts.sum(1)
    no_direction = torch.linalg.vector_norm(vector_sums, dim=-1, keepdim=True) < MIN_NORM
    return functional.normalize(torch.where(no_direction, parts[:, 0], vector_sums), dim=-1)


def as_parts(vectors: Tensor, ids: Sequence[str], encoder: EncoderRef | None = None) -> Embeddings:
    """Convert (n, m, k) vectors, m of each document, to the Embeddings of n·m parts that a Space takes.

    The id of a part is made of the document's and its number.
    """
    part_ids = starmap(part_id, product(ids, range(vectors.shape[1])))
    return Embeddings(tuple(part_ids), vectors.flatten(0, 1), encoder)


def initial_heads(
    rows: Tensor, dimension: int, vectors: int | None, init: str, spread: float, generator: torch.Generator
) -> Heads:
    """Build the projections of queries and documents that training starts from, equal but for noise.

    rows: (n, d) of the documents; dimension: k; vectors: the number m of vectors per document, None for one; init:
    "pca", the corpus's principal axes, or "random", independent normal numbers; spread: distance of the other m − 1
    projections from the first, as a share of its length. Raises ParamError for k above d.
    """
    d = rows.shape[1]
    if dimension > d:
        raise ParamError(f"dimension (k) must be at most that of the embeddings, {d}; got {dimension}")
    # Entries of variance 1/d keep a unit vector's length near √(k/d); normalisation then removes the factor.
    first_weight = torch.randn(dimension, d, generator=generator, dtype=torch.float64) / d**0.5
    first_bias = FAINT * torch.randn(dimension, generator=generator, dtype=torch.float64)
    if init == "pca":
        corpus_axes = principal_axes(Matrix(rows))[:, :dimension].T.cpu()
        # A small corpus has fewer axes than k: the remaining rows stay random, and small beside them.
        first_weight[len(corpus_axes) :] *= FAINT
        first_weight[: len(corpus_axes)] = corpus_axes
    # Drawn in float64, so that every precision starts at the same numbers, rounded. Each side gets its own copy.
    query_projection = Projection(first_weight.to(rows), first_bias.to(rows))
    if vectors is None:
        return Heads(query_projection, Projection(first_weight.to(rows).clone(), first_bias.to(rows).clone()))
    # Equal projections would get equal gradients and stay equal, so all but the first start with some noise.
    weight_noise = torch.randn(vectors - 1, dimension, d, generator=generator, dtype=torch.float64) / d**0.5
    weights = torch.cat([first_weight.unsqueeze(0), first_weight + spread * weight_noise]).to(rows)
    return Heads(query_projection, Projection(weights, first_bias.expand(vectors, -1).clone().to(rows)))
