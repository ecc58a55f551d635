"""What is known after each epoch: how well dev is answered, and what happens in the training batches."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np
import torch
from torch import Tensor

from engine.decoder import Decoder, decode
from engine.evaluation.metrics import measure
from engine.learning.training.adapters import Encodes
from engine.learning.training.projections import as_parts
from engine.space import Space
from engine.values import Corpus, Embeddings, Qrels

SIZES = (3, 5)
"""k of the metrics, as in the paper."""


@dataclass(frozen=True, slots=True)
class Dev:
    """Metrics on dev, each with the standard error of its mean over the queries."""

    comp3: float
    comp3_se: float
    comp5: float
    comp5_se: float
    recall3: float
    recall3_se: float
    recall5: float
    recall5_se: float


@dataclass(frozen=True, slots=True)
class Epoch:
    """One pass over the training queries, and dev after it.

    epoch: −1 before the first; loss: mean over the queries, None before the first; satisfied: share of queries with a
    loss of 0; and of methods that give weights: support, documents with a weight a query; empty: share of queries for
    which none has; outside: share of relevant documents that have none. None where a method has no such thing.
    """

    epoch: int
    dev: Dev
    seconds: float
    loss: float | None = None
    satisfied: float | None = None
    support: float | None = None
    empty: float | None = None
    outside: float | None = None

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Epoch:
        """Raises TypeError, KeyError or ValueError where the values make none."""
        found = cls(**{**values, "dev": Dev(**values["dev"])})
        own = [*asdict(found.dev).values(), *(v for v in asdict(found).values() if not isinstance(v, dict | None))]
        if not all(isinstance(v, int | float) and math.isfinite(v) for v in own) or not isinstance(found.epoch, int):
            raise ValueError("an epoch holds what is no number")
        return found

    def same_as(self, other: Epoch) -> bool:
        """Equal but for the time it took."""
        return all(getattr(self, f.name) == getattr(other, f.name) for f in fields(self) if f.name != "seconds")


@dataclass(frozen=True, eq=False)
class Losses:
    """What a batch of B queries gives.

    values: (B,) with their graph; weights: how many documents each has with a weight, and relevant ones without, both
    (B,); None where a method gives none.
    """

    values: Tensor
    weights: tuple[Tensor, Tensor] | None = None


class Tally:
    """Sums over the batches of an epoch."""

    def __init__(self) -> None:
        self.queries = self.relevant = 0
        self._loss, self._zero, self._weights = 0.0, 0, None

    def add(self, losses: Losses, relevant: int) -> None:
        self.queries += len(losses.values)
        self.relevant += relevant
        values = losses.values.detach()
        self._loss += float(values.double().sum())
        self._zero += int((values == 0).sum())
        if losses.weights is not None:
            held, missed = losses.weights
            counts = np.array([int(held.sum()), int((held == 0).sum()), int(missed.sum())])
            self._weights = counts if self._weights is None else self._weights + counts

    def epoch(self, number: int, dev: Dev, seconds: float) -> Epoch:
        loss, zero = self._loss / self.queries, self._zero / self.queries
        if self._weights is None:
            return Epoch(number, dev, seconds, loss, zero)
        held, empty, missed = self._weights.tolist()
        return Epoch(
            number, dev, seconds, loss, zero, held / self.queries, empty / self.queries, missed / self.relevant
        )


@torch.no_grad()
def measured(
    model: Encodes,
    decoder: Decoder,
    corpus: Corpus,
    queries: Embeddings,
    at: Tensor,
    qrels: Qrels,
    several: Callable[[], Tensor] | None = None,
) -> Dev:
    """How well a model's embeddings answer queries, as the decoder decodes them.

    queries: their ids; at: (B,) their positions in the model; several: gives (n, m, d) vectors of the documents where
    the decoder scores more than one of each.
    """
    rows = model.encode_corpus()
    asked = torch.cat([model.encode_query(some) for some in at.split(4096)])
    parts = None if several is None else as_parts(several(), corpus.ids)
    space = Space(corpus, Embeddings(rows, corpus.ids), rows.device, parts)
    found = decode(decoder, space, Embeddings(asked, queries.ids), max(SIZES))
    values = {}
    for k in SIZES:
        of = measure(found, space, queries.ids, qrels, k, ("comp", "recall")).values
        for name in ("comp", "recall"):
            column = of[name][np.isfinite(of[name])]
            values[f"{name}{k}"] = float(column.mean())
            values[f"{name}{k}_se"] = float(column.std(ddof=1) / math.sqrt(len(column))) if len(column) > 1 else 0.0
    return Dev(**values)
