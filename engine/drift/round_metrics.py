"""Metrics between rounds of feedback: decoders on held-out queries and on the stream's, rare documents, and drift.

ILAD is measured in the space of the start, which is the honest one, and in the space as it is now: drift inflates it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

from engine.decoder import Decoder, decode
from engine.drift.measures import Drift, sampled_rows
from engine.evaluation.metrics import mean_of_defined, measure
from engine.evaluation.paired import StageFormat, format_stage, format_stage_call, short_names
from engine.evaluation.sweep.cell import decoder_to_json
from engine.space import Space
from engine.values import Embeddings, Qrels

POPULAR = 0.5
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
class RoundCell:
    """One decoder on some queries.

    decoder: its short name, as charts write it.
    label: its name in full.
    part: "held-out" or "stream".
    group: "all", "tail" (all right documents of the query are among the half of the documents that are right least
        often in the stream) or "head" (the others).
    queries: their number.
    mean: metric → value, NaN where no query has it.
    """

    decoder: str
    label: str
    part: str
    group: str
    queries: int
    mean: Mapping[str, float]


@dataclass(frozen=True)
class RoundMetrics:
    """Metrics of all decoders, and drift, after `step` rounds."""

    step: int
    cells: tuple[RoundCell, ...]
    drift: Drift

    def cell(self, label: str | None = None, part: str = HELD_OUT, group: str = ALL) -> RoundCell | None:
        """The first cell of a part and group, None for none; label: a decoder, in full or short, or any."""
        cells = (cell for cell in self.cells if (cell.part, cell.group) == (part, group))
        return next((cell for cell in cells if label in (None, cell.label, cell.decoder)), None)

    def as_json(self) -> dict[str, Any]:
        """Plain JSON values, NaN as None; `from_json` reads them back."""
        cells = [
            vars(cell) | {"mean": {m: None if np.isnan(v) else v for m, v in cell.mean.items()}} for cell in self.cells
        ]
        return {"step": self.step, "cells": cells, "drift": self.drift.as_json()}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> "RoundMetrics":
        cells = (
            RoundCell(**{**c, "mean": {m: np.nan if v is None else v for m, v in c["mean"].items()}})
            for c in values["cells"]
        )
        return cls(values["step"], tuple(cells), Drift.from_json(values["drift"]))


@dataclass(frozen=True, eq=False)
class Part:
    """Queries measured at every checkpoint. tail: (q,) bool, whether all their right rows are rare."""

    name: str
    queries: Embeddings
    qrels: Qrels
    tail: np.ndarray


def right_counts(right: Sequence[np.ndarray], n: int) -> np.ndarray:
    """(n,) for how many queries each row is right."""
    return np.bincount(np.concatenate([*right, np.empty(0, np.int64)]).astype(np.int64), minlength=n)


def popular_rows(times: np.ndarray) -> np.ndarray:
    """(n,) bool: the fewest rows that hold half of all right answers; ties go to the lower row."""
    order = np.argsort(-times, kind="stable")
    before = np.cumsum(times[order]) - times[order]
    popular = np.zeros(len(times), dtype=bool)
    popular[order[(before < POPULAR * times.sum()) & (times[order] > 0)]] = True
    return popular


def rare_rows(times: np.ndarray) -> np.ndarray:
    """(n,) bool: the half of the rows that are right least often, with ties; none where all are equal."""
    middle = np.median(times)
    rare: np.ndarray = times <= middle if middle < times.max() else times < middle
    return rare


def right_rows(qrels: Qrels, ids: Sequence[str], position: Mapping[str, int]) -> list[np.ndarray]:
    """Per query the rows judged right, ascending; judged documents that the corpus lacks are left out.

    ids: of the queries; position: the row of a document.
    """
    return [np.array(sorted(position[d] for d in qrels.relevant(q) if d in position), dtype=np.int64) for q in ids]


def sampled(queries: Sequence[str], most: int | None, seed: int) -> list[str]:
    """All of the queries, or a seeded sample of the most that are asked for, in their order."""
    return [queries[row] for row in sampled_rows(len(queries), most, (seed, len(queries)))]


def cells(
    parts: Sequence[Part], decoders: Sequence[Decoder], start: Space, now: Space, k: int
) -> tuple[RoundCell, ...]:
    """Every decoder on every part, decoded in the space as it is now."""
    rows = []
    for decoder, name in zip(decoders, called(decoders, format_stage_call), strict=True):
        for part in parts:
            ranking = decode(decoder, now, part.queries, k)
            values = dict(measure(ranking, start, part.queries, part.qrels, k, ("recall", "ndcg", "ilad")).values)
            values["ilad_now"] = measure(ranking, now, part.queries, None, k, ("ilad",)).values["ilad"]
            groups = {ALL: np.ones(len(part.tail), bool), HEAD: ~part.tail, TAIL: part.tail}
            rows += [
                RoundCell(
                    name,
                    decoder.label,
                    part.name,
                    group,
                    int(chosen.sum()),
                    {m: mean_of_defined(v[chosen]) for m, v in values.items()},
                )
                for group, chosen in groups.items()
            ]
    return tuple(rows)


def called(decoders: Sequence[Decoder], style: StageFormat = format_stage) -> list[str]:
    """Short names of decoders, told apart."""
    return list(short_names([SimpleNamespace(decoder=decoder_to_json(decoder)) for decoder in decoders], style))


def adapted(start: Space, vectors: np.ndarray) -> Space:
    """The corpus with other vectors, (n, d); the very same space where nothing moved."""
    first = start.embeddings
    rows = torch.from_numpy(np.array(vectors))
    if torch.equal(rows, first.vectors.cpu()):
        return start
    return start.with_embeddings(Embeddings(first.ids, rows, first.encoder, first.texts))
