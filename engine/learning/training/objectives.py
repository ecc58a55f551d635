"""Objectives over a model that encodes by position: inner products, and exact or unrolled elastic nets."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from engine.learning.training.adapters import Encodes
from engine.learning.training.history import Losses
from engine.learning.training.losses import extended, info_nce, set_margin
from engine.learning.training.minimisers import Solved, solved
from engine.learning.training.recipes import Dense, Nnn
from engine.learning.training.samples import Batch
from engine.learning.training.unrolled import unrolled

WHOLE = 1024
"""Up to so many documents the corpus is encoded once a step, with its graph; beyond, once without and then the rows
that have a gradient."""


@dataclass(frozen=True, eq=False)
class InnerProducts:
    """InfoNCE of inner products: NNN paper, B.2."""

    model: Encodes
    recipe: Dense

    def begin(self, generator: torch.Generator) -> None:
        """Nothing is random."""

    def __call__(self, batch: Batch) -> Losses:
        queries = self.model.encode_query(batch.at)
        if self.recipe.negatives == "corpus":
            rows, column = self.model.encode_corpus(), batch.document
        else:
            some, column = batch.document.unique(return_inverse=True)
            rows = self.model.encode_corpus(some)
        relevant = _marked(batch, column, len(rows))
        return Losses(info_nce(queries @ rows.T, relevant, self.recipe.tau))


@dataclass(frozen=True, eq=False)
class ElasticNets:
    """A margin between the weights of relevant and irrelevant documents: NNN paper, eq. 6."""

    model: Encodes
    recipe: Nnn
    documents: int

    def begin(self, generator: torch.Generator) -> None:
        """Nothing is random."""

    def __call__(self, batch: Batch) -> Losses:
        recipe = self.recipe
        queries = self.model.encode_query(batch.at)
        found = self._unrolled(batch, queries) if recipe.gradient == "unrolled" else self._exact(batch, queries)
        if recipe.loss == "extended":
            weights, most = extended(found, recipe.l1, recipe.l2), recipe.most
        else:
            weights, most = found.weights, None
        values = set_margin(weights, found.relevant, found.beyond, most, recipe.gamma, recipe.tau)
        there = found.weights.detach() > 0
        return Losses(values, (there.sum(1), (found.relevant & ~there).sum(1)))

    def _exact(self, batch: Batch, queries: Tensor) -> Solved:
        encode = self.model.encode_corpus
        if self.documents <= WHOLE:
            whole = encode()
            everything, encode = whole.detach(), whole.__getitem__
        else:
            with torch.no_grad():
                everything = encode()
        return solved(everything, encode, queries, batch.query, batch.document, self.recipe.l1, self.recipe.l2)

    def _unrolled(self, batch: Batch, queries: Tensor) -> Solved:
        rows = self.model.encode_corpus()
        weights = unrolled(rows, queries, self.recipe.l1, self.recipe.l2, self.recipe.iterations)
        return Solved(rows, queries, weights, _marked(batch, batch.document, len(rows)), 0)


def _marked(batch: Batch, column: Tensor, count: int) -> Tensor:
    """(B, count) whether a column holds a relevant document of the query."""
    relevant = torch.zeros(len(batch), count, dtype=torch.bool, device=column.device)
    relevant[batch.query, column] = True
    return relevant
