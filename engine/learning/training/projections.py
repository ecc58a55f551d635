"""DE-k and ME-k: learned projections to k dimensions, of one vector a document or of m. Luan et al. 2021, §3 and §4.1.

The paper fine-tunes an encoder, projects its [CLS] state for DE-k, and its first m token states for ME-k. Here the
encoder is frozen and gives a document one vector, so ME-k takes m projections of that one: they need no text, every
document has exactly m as in the paper, and m = 1 is DE-k. Passages' vectors, the other choice, are there without
training m projections: `max_sim` over a DE-k space cuts the texts and projects each passage, which is worth more where
documents are longer than what the encoder reads (measured: assets/results/projections.md). Rows have length 1 as
everywhere, in place of the paper's layer normalisation. Queries have a projection of their own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn import functional

from engine.data.passages import part_id
from engine.errors import ParamError
from engine.scoring.truncated import principal_axes
from engine.values import Embeddings, EncoderRef

if TYPE_CHECKING:
    from engine.learning.training.adapters import Adapters

BLOCK_ROWS = 4096
"""So many rows at a time pass where no gradient is asked for."""
FAINT = 1e-6
"""Size of the numbers in a bias at the start: they give a row of zeros a direction, and change no other."""
LOST = 1e-6
"""A sum of unit vectors shorter than this has no direction."""


class Projection(nn.Module):
    """Wx + b of unit length, (n, d) to (n, k); or m of them, to (n, m, k). weight: (k, d) or (m, k, d)."""

    def __init__(self, weight: Tensor, bias: Tensor) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(weight), nn.Parameter(bias)

    def forward(self, x: Tensor) -> Tensor:
        flat = functional.linear(x, self.weight.flatten(0, -2), self.bias.flatten())
        return functional.normalize(flat.view(len(x), *self.bias.shape), dim=-1)


class Heads(nn.Module):
    """One projection for queries, and one or m for documents."""

    def __init__(self, query: Projection, corpus: Projection) -> None:
        super().__init__()
        self.query, self.corpus = query, corpus

    @property
    def takes(self) -> int:
        """d: the dimension of what is projected."""
        return self.query.weight.shape[1]

    @property
    def many(self) -> bool:
        """Whether a document has several vectors, or one in their place."""
        return self.corpus.weight.ndim == 3

    def documents(self, rows: Tensor) -> tuple[Tensor, Tensor | None]:
        """(n, k) a vector a document, and (n, m, k) all of them where there are `many`; rows: (n, d)."""
        found = torch.cat([self.corpus(block) for block in rows.split(BLOCK_ROWS)])
        return (single(found), found) if self.many else (found, None)

    @staticmethod
    def of(state: Mapping[str, Tensor], prefix: str) -> Heads | None:
        """Heads from what `state_dict` gave, their names after `prefix`; None where it holds none."""
        if f"{prefix}query.weight" not in state:
            return None
        sides = [[torch.empty_like(state[f"{prefix}{side}.{n}"]) for n in ("weight", "bias")] for side in SIDES]
        return Heads(*(Projection(*side) for side in sides))


SIDES = ("query", "corpus")


def single(parts: Tensor) -> Tensor:
    """(n, k) the direction of the mean of a document's vectors, (n, m, k).

    Of all unit vectors it has the largest mean inner product with them, so that what selectors take for the likeness of
    two documents is, but for its scale, the mean over the pairs of their vectors. Where the mean is 0, the first one.
    """
    if parts.shape[1] == 1:
        return parts[:, 0]
    total = parts.sum(1)
    gone = torch.linalg.vector_norm(total, dim=-1, keepdim=True) < LOST
    return functional.normalize(torch.where(gone, parts[:, 0], total), dim=-1)


def as_parts(vectors: Tensor, ids: Sequence[str], encoder: EncoderRef | None = None) -> Embeddings:
    """(n, m, k) vectors of documents as a Space takes them."""
    names = tuple(part_id(document, number) for document in ids for number in range(vectors.shape[1]))
    return Embeddings(vectors.flatten(0, 1), names, encoder)


def drawn(
    rows: Tensor, dimension: int, vectors: int | None, start: str, spread: float, generator: torch.Generator
) -> Heads:
    """Heads as training begins: of queries and documents the same, so that k dimensions at once hold what they can.

    rows: (n, d) of the documents; vectors: m, None for DE-k; start: "pca", the corpus's principal axes, or "random",
    independent normal numbers; spread: how far from the first projection the others are, as a share of its length.
    Raises ParamError for k above d.
    """
    d = rows.shape[1]
    if dimension > d:
        raise ParamError(f"dimension (k) must be at most that of the embeddings, {d}; got {dimension}")
    weight = torch.randn(dimension, d, generator=generator, dtype=torch.float64) / d**0.5
    bias = FAINT * torch.randn(dimension, generator=generator, dtype=torch.float64)
    if start == "pca":
        axes = principal_axes(rows)[:, :dimension].T.cpu()
        # Few documents have few axes: what they leave open stays random, and small beside them.
        weight[len(axes) :] *= FAINT
        weight[: len(axes)] = axes
    first = weight.to(rows), bias.to(rows)
    if vectors is None:
        return Heads(Projection(*first), Projection(*(part.clone() for part in first)))
    noise = torch.randn(vectors - 1, dimension, d, generator=generator, dtype=torch.float64) / d**0.5
    weights = torch.cat([weight.unsqueeze(0), weight + spread * noise]).to(rows)
    return Heads(Projection(*first), Projection(weights, bias.expand(vectors, -1).clone().to(rows)))


class Projected(nn.Module):
    """`Learns` over frozen vectors: the heads of the adapters learn, all that stands before them does not.

    queries: (Q, d), rows: (n, d): as they come to the heads.
    """

    def __init__(self, adapters: Adapters, queries: Tensor, rows: Tensor) -> None:
        super().__init__()
        self.heads, self.queries, self.rows = adapters.heads, queries, rows
        # Not as a module of its own: of the adapters only the heads learn.
        object.__setattr__(self, "_whole", adapters)

    def encode_query(self, at: Tensor) -> Tensor:
        return self.heads.query(self.queries[at])

    def encode_parts(self, at: Tensor | None = None) -> Tensor:
        """(c, k) the documents at (c,) positions, or of all, or (c, m, k) where there are several vectors of each."""
        return self.heads.corpus(self.rows if at is None else self.rows[at])

    def encode_corpus(self, at: Tensor | None = None) -> Tensor:
        return self.heads.documents(self.rows if at is None else self.rows[at])[0]

    def result(self) -> dict[str, Tensor]:
        return self._whole.state_dict()
