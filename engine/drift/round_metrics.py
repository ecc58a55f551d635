"""Metrics between rounds of feedback: decoders on held-out queries and on the stream's, rare documents, and drift.

ILAD is measured in the space of the start, which is the honest one, and in the space as it is now: drift inflates it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

from engine.decoder import Decoder, decode
from engine.display import DataFrame, OneLine, Tabular, build_rows_table
from engine.drift.measures import Drift, sampled_rows
from engine.evaluation.metrics import mean_of_defined, measure
from engine.evaluation.paired import StageFormat, format_stage, format_stage_call, short_names
from engine.evaluation.sweep.cell import decoder_to_json
from engine.progress import counted
from engine.space import Space
from engine.values import Embeddings, Qrels

POPULAR_SHARE = 0.5
"""Popular documents: those most often right, until they hold this share of all right answers."""
HELD_OUT, STREAM = "held-out", "stream"
ALL, HEAD, TAIL = "all", "head", "tail"
MEASURED: dict[str, str] = {
    "recall": "Recall",
    "ndcg": "nDCG",
    "ilad": "ILAD, original vectors",
    "ilad_now": "ILAD, current vectors",
}


@dataclass(frozen=True)
class RoundCell(OneLine):
    """Metrics of one decoder on one group of queries after some rounds of feedback.

    decoder: its short name, as charts write it. label: its name in full. part: "held-out" or "stream". group: "all",
    "tail" (all right documents of the query are among the half of the documents that are right least often in the
    stream) or "head" (the others). queries: their number. mean: metric → value, NaN where no query has it.
    """

    decoder: str
    label: str
    part: str
    group: str
    queries: int
    mean: Mapping[str, float]


@dataclass(frozen=True)
class RoundMetrics(Tabular):
    """Metrics of all decoders, and drift, after `step` rounds."""

    step: int
    cells: tuple[RoundCell, ...]
    drift: Drift

    def _describe(self) -> str:
        return f"step {self.step}, {counted(len(self.cells), 'cell')}"

    def to_frame(self) -> DataFrame:
        """Return one row for each decoder, part and group of queries; `engine.to_frame` puts rounds together.

        Columns: step, decoder, label, part, group, queries, and one column with the mean for each metric.
        """
        names = ("decoder", "label", "part", "group", "queries")
        rows = [
            {"step": self.step, **{name: getattr(cell, name) for name in names}, **cell.mean} for cell in self.cells
        ]
        return build_rows_table(rows)

    def cell(self, label: str | None = None, part: str = HELD_OUT, group: str = ALL) -> RoundCell | None:
        """Return the first cell measured on a part and a group of queries, None without one.

        A cell holds one decoder's mean metrics over these queries. part: for example the queries that were held out;
        group: a group within the part, by how often its answers are asked for; label: a decoder's name, in full or
        short, None for any
        """
        cells = (cell for cell in self.cells if (cell.part, cell.group) == (part, group))
        return next((cell for cell in cells if label in (None, cell.label, cell.decoder)), None)

    def as_json(self) -> dict[str, Any]:
        """Return plain JSON values, NaN as None; `from_json` reads them back."""
        cells = []
        # JSON has no NaN.
        for cell in self.cells:
            means = {metric: None if np.isnan(mean) else mean for metric, mean in cell.mean.items()}
            cells.append(vars(cell) | {"mean": means})
        return {"step": self.step, "cells": cells, "drift": self.drift.as_json()}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> RoundMetrics:
        """Return the RoundMetrics that `as_json` made values of; None becomes NaN again."""
        cells = []
        for cell in values["cells"]:
            means = {metric: np.nan if mean is None else mean for metric, mean in cell["mean"].items()}
            cells.append(RoundCell(**{**cell, "mean": means}))
        return cls(values["step"], tuple(cells), Drift.from_json(values["drift"]))


@dataclass(frozen=True, eq=False)
class Part:
    """A named group of queries that is measured at every checkpoint of a simulation or session.

    tail: (q,) bool, True for queries whose right documents are all rare.
    """

    name: str
    queries: Embeddings
    qrels: Qrels
    tail: np.ndarray


def right_counts(right_lists: Sequence[np.ndarray], n_rows: int) -> np.ndarray:
    """Return (n,) for how many queries each row is right; right_lists: the right rows of each query."""
    return np.bincount(np.concatenate([*right_lists, np.empty(0, np.int64)]).astype(np.int64), minlength=n_rows)


def popular_rows(right_counts: np.ndarray) -> np.ndarray:
    """Mark the smallest set of documents that together are half of all right answers, as (n,) bools.

    right_counts: (n,) number of queries for which each document is right. Of equal documents the lower row is marked.
    """
    # A stable sort puts the lower of equal rows first.
    row_order = np.argsort(-right_counts, kind="stable")
    sorted_counts = right_counts[row_order]
    # Right answers of all more popular rows: a row is needed as long as these hold less than half.
    counts_before = np.cumsum(sorted_counts) - sorted_counts
    is_needed = (counts_before < POPULAR_SHARE * right_counts.sum()) & (sorted_counts > 0)
    is_popular = np.zeros(len(right_counts), dtype=bool)
    is_popular[row_order[is_needed]] = True
    return is_popular


def rare_rows(right_counts: np.ndarray) -> np.ndarray:
    """Return (n,) True for documents that are right for at most the median number of queries.

    That is half of them, or more with ties. If none is right more often than the median, only those below it are rare,
    so with equal counts none is. right_counts: (n,) number of queries for which each document is right
    """
    median_count = np.median(right_counts)
    # Where the median is the largest count, "at most the median" would be all rows.
    is_below = np.less_equal if median_count < right_counts.max() else np.less
    is_rare: np.ndarray = is_below(right_counts, median_count)
    return is_rare


def right_rows(qrels: Qrels, ids: Sequence[str], position: Mapping[str, int]) -> list[np.ndarray]:
    """Return for each query the rows judged right, ascending; documents not in the corpus are left out.

    ids: of the queries; position: the row of a document.
    """
    right_lists = []
    for query_id in ids:
        rows = sorted(position[doc_id] for doc_id in qrels.relevant(query_id) if doc_id in position)
        right_lists.append(np.array(rows, dtype=np.int64))
    return right_lists


def sampled(queries: Sequence[str], max_queries: int | None, seed: int) -> list[str]:
    """Return the ids of all queries, or a seeded sample of at most `max_queries`, in their order."""
    return list(map(queries.__getitem__, sampled_rows(len(queries), max_queries, (seed, len(queries)))))


def cells(
    parts: Sequence[Part], decoders: Sequence[Decoder], start_space: Space, current_space: Space, k: int
) -> tuple[RoundCell, ...]:
    """Measure every decoder on every part of the queries; return a cell for each group of each part.

    A part is, for example, the queries that were held out. The groups are all queries, "tail" (their right documents
    are rarely right) and "head" (the others). Answers of k documents are decoded in the current space. ILAD, the
    diversity of an answer, is measured in the space of the start and in the current one.
    """
    round_cells = []
    for decoder, short_name in zip(decoders, called(decoders, format_stage_call), strict=True):
        for part in parts:
            ranking = decode(decoder, current_space, part.queries, k)
            metrics = "recall", "ndcg", "ilad"
            metric_values = dict(measure(ranking, start_space, part.queries, part.qrels, k, metrics).values)
            # Drift alone inflates ILAD, so that it is also measured in the space as it is now.
            metric_values["ilad_now"] = measure(ranking, current_space, part.queries, None, k, ("ilad",)).values["ilad"]
            groups = {ALL: np.ones(len(part.tail), bool), HEAD: ~part.tail, TAIL: part.tail}
            for group, is_chosen in groups.items():
                means = {metric: mean_of_defined(values[is_chosen]) for metric, values in metric_values.items()}
                labels = short_name, decoder.label, part.name, group
                round_cells.append(RoundCell(*labels, int(is_chosen.sum()), means))
    return tuple(round_cells)


def called(decoders: Sequence[Decoder], style: StageFormat = format_stage) -> list[str]:
    """Return short names of decoders for charts, as long as it takes to tell them apart."""
    # `short_names` reads the decoder of sweep cells: these stand in for them.
    return list(short_names([SimpleNamespace(decoder=decoder_to_json(decoder)) for decoder in decoders], style))


def adapted(start: Space, vectors: np.ndarray) -> Space:
    """Return a corpus with the document vectors, (n, d), that feedback has moved, as a Space.

    start: the corpus with its vectors before feedback; it is returned itself if no vector has moved
    """
    start_embeddings = start.embeddings
    rows = torch.from_numpy(np.array(vectors))
    if torch.equal(rows, start_embeddings.vectors.cpu()):
        return start
    embeddings = Embeddings(start_embeddings.ids, rows, start_embeddings.encoder, start_embeddings.texts)
    return start.with_embeddings(embeddings)
