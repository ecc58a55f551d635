"""Cell of a sweep: one decoder at one k over a split's queries, with all that is needed to repeat it."""

import json
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import metadata
from typing import Any

import numpy as np

from engine.decoder import LIMIT_FIELDS, Decoder
from engine.display import OneLine, describe_means
from engine.errors import ParamError
from engine.evaluation.metrics import map_values, mean_of_defined
from engine.progress import counted
from engine.stages import make
from engine.values import digest_of

PACKAGE = "frontier-retrieval"
RESULT_DECIMALS = 12
"""Decimals up to which values count as equal: the last bits of a mean depend on the number of threads."""
PLAIN_FIELDS = ("depth", *LIMIT_FIELDS)
"""Fields of a decoder that are no stages."""
TIMING_ENTRY = "timed"
"""The entry of a cell's provenance that says how its time was measured; one of a single query has none."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Cell(OneLine):
    """Metrics of one decoder at one k over a split's queries, with all that identifies the measurement."""

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
    counts: Mapping[str, np.ndarray] = field(default_factory=dict)  # name → (B,) documents; RetrievedSets has the names

    def _describe(self) -> str:
        split = f" on {self.split}" if self.split else ""
        n_queries = counted(len(self.queries), "query", "queries")
        # The means come first: a decoder's label may be too long for the line.
        return f"{describe_means(self.mean)} at k={self.k}{split}, {n_queries}; {self.label}"

    @property
    def latency(self) -> float | None:
        """Median milliseconds of single calls; None if not timed: one query only, or another system's run."""
        return self.milliseconds if TIMING_ENTRY in self.provenance else None


def decoder_to_json(decoder: Decoder) -> dict[str, Any]:
    """Return a decoder as plain JSON values; `decoder_from_json` reads them back."""
    # `stage and …` leaves an absent reranker None.
    stages = {"select": decoder.select, "retrieve": decoder.retrieve, "rerank": decoder.rerank}
    json_values: dict[str, Any] = {stage_name: stage and stage.as_json() for stage_name, stage in stages.items()}
    # Only the limits that are set, so that other decoders keep the keys of their cells.
    return json_values | {"depth": decoder.depth, **decoder.limits}


def decoder_from_json(json_values: Mapping[str, Any]) -> Decoder:
    """Rebuild a decoder; raises ParamError for stages or parameters that do not exist, and without a depth."""
    plain_values = {name: json_values[name] for name in PLAIN_FIELDS if name in json_values}
    stages = {name: stage and make(**stage) for name, stage in json_values.items() if name not in plain_values}
    # None is a depth, so that a file without one is no decoder of ours.
    if "depth" not in json_values:
        raise ParamError("depth must be given with a decoder's stages, a whole number or null; got none")
    return Decoder(**stages, **plain_values)


def compute_cell_key(decoder: Decoder, k: int, split: str, metrics: Sequence[str], digests: Mapping[str, str]) -> str:
    """Compute the key by which a store knows a cell: a digest of all that its values depend on.

    digests: name → digest of the data. The version of this package is included, as a newer one may compute otherwise.
    """
    key_parts = [decoder_to_json(decoder), k, split, sorted(metrics), sorted(digests.items()), read_versions()[PACKAGE]]
    return digest_of([json.dumps(key_parts, sort_keys=True)])


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
    digests: Mapping[str, str],
    device: str,
    n_calls: int = 0,
    extra_facts: Mapping[str, str] | None = None,
    counts: Mapping[str, np.ndarray] | None = None,
) -> Cell:
    """Build a Cell from its measurements.

    digests: by name; n_calls: number of single calls whose median is the time; extra_facts: further provenance
    """
    timing = {TIMING_ENTRY: f"median of {counted(n_calls, 'single call')}"} if n_calls else {}
    provenance = {**digests, **read_versions(), "device": device, **timing, **(extra_facts or {})}
    cell_key = compute_cell_key(decoder, k, split, list(values), digests)
    return Cell(
        decoder=decoder_to_json(decoder), label=decoder.label, method=decoder.select.spec.name, k=k, split=split,
        queries=queries, values=values, mean=compute_means(values), left_out=left_out, returned=returned,
        milliseconds=milliseconds, provenance=provenance, key=cell_key, digest=compute_result_digest(cell_key, values),
        counts=counts or {},
    )  # fmt: skip


def compute_means(metric_values: Mapping[str, np.ndarray]) -> dict[str, float]:
    """Compute each metric's mean over the queries that have it, NaN if none has."""
    return map_values(mean_of_defined, metric_values)


def compute_result_digest(cell_key: str, metric_values: Mapping[str, np.ndarray]) -> str:
    """Compute a digest of a cell's key and its rounded values, so that equal results have equal digests.

    metric_values: metric → (B,) values, NaN where undefined
    """
    digest_parts: list[Any] = [cell_key]
    for metric in sorted(metric_values):
        # Adding 0.0 turns −0.0 into 0.0, and one NaN stands for all, so that equal values have equal bytes.
        rounded_column = np.round(np.asarray(metric_values[metric], dtype=np.float64), RESULT_DECIMALS) + 0.0
        digest_parts += [metric, np.where(np.isnan(rounded_column), np.nan, rounded_column).tobytes()]
    return digest_of(digest_parts)


@cache
def read_versions() -> Mapping[str, str]:
    """Return the versions of Python, Frontier, torch and NumPy."""
    version_numbers = {"python": platform.python_version()}
    for package in (PACKAGE, "torch", "numpy"):
        try:
            version_numbers[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            version_numbers[package] = "unknown"
    return version_numbers
