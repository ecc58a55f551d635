"""Cell of a sweep: one decoder at one k over a split's queries, with all that is needed to repeat it."""

import json
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from typing import Any

import numpy as np

from engine.decoder import Decoder
from engine.evaluation.metrics import mean_of_defined
from engine.progress import counted
from engine.stages import make
from engine.values import digest_of

PACKAGE = "frontier-retrieval"
DECIMALS = 12
"""Values count as equal up to so many: the last bits of a mean depend on the number of threads."""
TIMED = "timed"
"""The entry of a cell's provenance that says how its time was measured; one of a single query has none."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Cell:
    """Metrics of one decoder at one k."""

    decoder: Mapping[str, Any]  # its stages as plain values
    label: str  # the same as text
    method: str  # the selector's name
    k: int
    split: str
    queries: tuple[str, ...]
    values: Mapping[str, np.ndarray]  # metric → (B,) float64 in the order of `queries`, NaN where it does not exist
    mean: Mapping[str, float]  # metric → mean over the others
    left_out: int  # number of queries without judgements
    returned: float  # mean number of documents
    milliseconds: float  # time of a query; see `latency`
    provenance: Mapping[str, str]  # digests of the data, versions, device, names, date
    key: str  # digest of what was asked
    digest: str  # of key and values, equal whenever the results are, however long they took and wherever

    @property
    def latency(self) -> float | None:
        """Median milliseconds of single calls; None of a sweep of one query, and of another system's run."""
        return self.milliseconds if TIMED in self.provenance else None


def as_json(decoder: Decoder) -> dict[str, Any]:
    """A decoder as plain JSON values; `from_json` reads them back."""
    stages = {name: getattr(decoder, name) for name in ("select", "retrieve", "rerank")}
    return {**{name: stage and stage.as_json() for name, stage in stages.items()}, "depth": decoder.depth}


def from_json(values: Mapping[str, Any]) -> Decoder:
    """The decoder again; raises ParamError for stages or parameters that do not exist."""
    stages = {name: stage and make(**stage) for name, stage in values.items() if name != "depth"}
    return Decoder(**stages, depth=values["depth"])


def key_of(decoder: Decoder, k: int, split: str, metrics: Sequence[str], data: Mapping[str, str]) -> str:
    """What names a cell: decoder, k, split, metrics, the digests of what it is computed from, Frontier's version."""
    parts = [as_json(decoder), k, split, sorted(metrics), sorted(data.items()), versions()[PACKAGE]]
    return digest_of([json.dumps(parts, sort_keys=True)])


def make_cell(
    decoder: Decoder,
    k: int,
    split: str,
    queries: tuple[str, ...],
    values: Mapping[str, np.ndarray],
    *,
    left_out: int,
    returned: float,
    milliseconds: float,
    data: Mapping[str, str],
    device: str,
    calls: int = 0,
    facts: Mapping[str, str] | None = None,
) -> Cell:
    """A Cell from what was measured.

    data: digests by name; calls: how many single ones the time is the median of; facts: what else to keep of it
    """
    timed = {TIMED: f"median of {counted(calls, 'single call')}"} if calls else {}
    key = key_of(decoder, k, split, list(values), data)
    return Cell(
        decoder=as_json(decoder),
        label=decoder.label,
        method=decoder.select.spec.name,
        k=k,
        split=split,
        queries=queries,
        values=values,
        mean=means(values),
        left_out=left_out,
        returned=returned,
        milliseconds=milliseconds,
        provenance={**data, **versions(), "device": device, **timed, **(facts or {})},
        key=key,
        digest=result_digest(key, values),
    )


def means(values: Mapping[str, np.ndarray]) -> dict[str, float]:
    """The mean of each metric where it exists, NaN where it does nowhere."""
    return {name: mean_of_defined(column) for name, column in values.items()}


def result_digest(key: str, values: Mapping[str, np.ndarray]) -> str:
    """Equal for equal results."""
    parts: list[Any] = [key]
    for name in sorted(values):
        rounded = np.round(np.asarray(values[name], dtype=np.float64), DECIMALS) + 0.0
        parts += [name, np.where(np.isnan(rounded), np.nan, rounded).tobytes()]
    return digest_of(parts)


@cache
def versions() -> Mapping[str, str]:
    """Versions of Python, Frontier, torch and NumPy."""
    numbers = {"python": platform.python_version()}
    for name in (PACKAGE, "torch", "numpy"):
        try:
            numbers[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            numbers[name] = "unknown"
    return numbers
