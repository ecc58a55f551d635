"""Training metrics: dev quality after each epoch, and sums over the training batches."""

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from engine.decoder import Decoder, decode
from engine.display import OneLine
from engine.evaluation.metrics import measure
from engine.space import Space
from engine.training.adapters import TrainableEncoder
from engine.training.projections import as_parts, map_blocks
from engine.values import Corpus, Embeddings, Qrels, Ranking

REPORTED_SIZES = (3, 5)
"""k of the metrics, as in the paper."""
TRAINING_METRICS = tuple((metric, k) for metric in ("recall", "comp") for k in REPORTED_SIZES)
"""The metrics, as in the paper's tables."""
Columns = Mapping[tuple[str, int], np.ndarray]
"""(metric, k) → (B,) values."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dev(OneLine):
    """Metrics on dev, each with the standard error of its mean over the queries."""

    comp3: float
    comp3_se: float
    comp5: float
    comp5_se: float
    recall3: float
    recall3_se: float
    recall5: float
    recall5_se: float

    @classmethod
    def of(cls, columns: Columns) -> "Dev":
        """Average every metric over the queries, with the standard error of each mean."""
        numbers = {}
        for (metric, k), values in columns.items():
            numbers[f"{metric}{k}"], numbers[f"{metric}{k}_se"] = mean_and_error(values)
        return cls(**numbers)


@dataclass(frozen=True, slots=True, kw_only=True)
class Epoch(OneLine):
    """One pass over the training queries: their loss, and quality on dev after it.

    A number is None where a recipe has none such.
    """

    epoch: int  # its number, −1 before the first step
    dev: Dev  # metrics on dev
    seconds: float  # time of both
    loss: float | None = None  # mean over the queries, None before the first step
    satisfied: float | None = None  # share of queries with a loss of 0
    support: float | None = None  # mean count of documents with a weight
    empty: float | None = None  # share of queries for which no document has a weight
    outside: float | None = None  # share of relevant documents without a weight

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> "Epoch":
        """Parse an epoch from JSON values. Raises TypeError, KeyError or ValueError for invalid ones."""
        epoch = cls(**{**values, "dev": Dev(**values["dev"])})
        # Only numbers that a recipe does not have may be None; those of dev are all finite.
        numbers = [*asdict(epoch.dev).values()]
        numbers += [value for value in asdict(epoch).values() if not isinstance(value, dict | None)]
        finite = all(isinstance(number, int | float) and math.isfinite(number) for number in numbers)
        if not finite or not isinstance(epoch.epoch, int):
            raise ValueError("an epoch holds what is no number")
        return epoch


@dataclass(frozen=True, eq=False)
class Losses:
    """Losses of a batch of B queries.

    values: (B,) with their graph.
    weights: (B,) count of documents with a weight, and (B,) of relevant ones without; None for recipes without weights.
    """

    values: Tensor
    weights: tuple[Tensor, Tensor] | None = None


class Tally:
    """Sums of losses over the batches of an epoch, from which the epoch's means are made."""

    def __init__(self) -> None:
        self._batches: list[list[float]] = []

    def add(self, losses: Losses, relevant: int) -> None:
        """Add a batch's losses; relevant: its number of pairs of a query and a relevant document."""
        # Summed in float64, so that the mean over a large batch keeps its digits.
        loss_values = losses.values.detach()
        batch_sums = [len(loss_values), relevant, float(loss_values.double().sum()), int((loss_values == 0).sum())]
        if losses.weights is not None:
            support, outside = losses.weights
            batch_sums += [int(support.sum()), int((support == 0).sum()), int(outside.sum())]
        self._batches.append(batch_sums)

    def epoch(self, number: int, dev: Dev, seconds: float) -> Epoch:
        """Return the sums so far as an Epoch of means, with dev's metrics and the time."""
        # Summed over the batches: queries, their relevant documents, their losses, and queries with a loss of 0.
        n_queries, relevant, loss, n_zero, *weights = map(sum, zip(*self._batches, strict=True))
        epoch = Epoch(epoch=number, dev=dev, seconds=seconds, loss=loss / n_queries, satisfied=n_zero / n_queries)
        if not weights:
            return epoch
        # Three more sums of recipes that give documents weights: documents with a weight, queries for which no document
        # has one, and relevant documents without a weight.
        support, empty, outside = weights
        return replace(epoch, support=support / n_queries, empty=empty / n_queries, outside=outside / relevant)


def mean_and_error(column: np.ndarray) -> tuple[float, float]:
    """Return a column's mean over its finite values, and its standard error, 0 for a single value."""
    column = column[np.isfinite(column)]
    error = float(column.std(ddof=1) / math.sqrt(len(column))) if len(column) > 1 else 0.0
    return float(column.mean()), error


@torch.no_grad()
def measure_dev(
    model: TrainableEncoder,
    decoder: Decoder,
    corpus: Corpus,
    queries: Embeddings,
    positions: Tensor,
    qrels: Qrels,
    document_parts: Callable[[], Tensor] | None = None,
) -> Dev:
    """Measure Recall and Comp of a model's present embeddings on the dev queries, under a decoder.

    queries: their ids name the judgements; positions: (B,) the numbers of these queries in the model; document_parts:
    for a decoder that scores several vectors per document, returns m vectors of each, (n, m, d).
    """
    document_rows = model.encode_corpus()
    query_vectors = map_blocks(model.encode_query, positions)
    part_vectors = None if document_parts is None else as_parts(document_parts(), corpus.ids)
    space = Space(corpus, Embeddings(corpus.ids, document_rows), document_rows.device, part_vectors)
    ranking = decode(decoder, space, Embeddings(queries.ids, query_vectors), max(REPORTED_SIZES))
    return Dev.of(measure_reported(ranking, space, queries, qrels))


def measure_reported(ranking: Ranking, space: Space, queries: Embeddings, qrels: Qrels) -> Columns:
    """Return (metric, k) → values by query of a ranking, for Recall and Comp at 3 and 5."""
    by_size = {k: measure(ranking, space, queries.ids, qrels, k, ("recall", "comp")).values for k in REPORTED_SIZES}
    return {(metric, k): by_size[k][metric] for metric, k in TRAINING_METRICS}
