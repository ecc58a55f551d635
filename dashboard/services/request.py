"""Settings of long work as a value: its judgements, the name of its result, its fields as plain values."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, is_dataclass
from typing import Any

from dashboard.services.jobs import Job
from dashboard.services.query_vectors import embed_missing
from dashboard.services.source import Loaded
from engine.decoder import Decoder
from engine.errors import DataError
from engine.evaluation.sweep.cell import decoder_to_json
from engine.stages import Stage
from engine.values import Dataset, Embeddings, Qrels, Queries, digest_of, explain_missing_split


@dataclass(frozen=True, kw_only=True)
class JobRequest:
    """Settings of long work on a page, such as tuning or training, that uses judged queries."""

    @property
    def split_names(self) -> tuple[str, ...]:
        """Names of the splits of the data set whose judgements the work uses."""
        raise NotImplementedError

    def qrels(self, dataset: Dataset) -> dict[str, Qrels]:
        """Return the relevance judgements that the work uses, by split, which is a named part of the queries.

        Raises DataError if a split is missing.
        """
        for split_name in self.split_names:
            if split_name not in dataset.qrels:
                raise DataError(explain_missing_split(dataset.qrels, split_name))
        return {split_name: dataset.qrels[split_name] for split_name in self.split_names}

    def vectors(self, loaded: Loaded, qrels: Mapping[str, Qrels], job: Job) -> Embeddings:
        """Return the vectors of the judged queries, embedded if not stored."""
        return embed_missing(loaded, select_judged_queries(loaded.dataset, qrels), job)

    def digest(self, loaded: Loaded) -> str:
        """Return a name for the result of these settings on this corpus and its judgements: their digest."""
        # Judgements are part of the name: edited judgements must not find an old result.
        parts: list[str] = []
        for name, qrels in self.qrels(loaded.dataset).items():
            parts += (name, qrels.digest)
        return digest_of([loaded.space.embeddings.digest, json.dumps(self.as_json(), sort_keys=True), *parts])[:32]

    def as_json(self) -> dict[str, Any]:
        """Return the settings as values that JSON has, by field."""
        return {field.name: _as_plain_value(getattr(self, field.name)) for field in fields(self)}


def select_judged_queries(dataset: Dataset, qrels: Mapping[str, Qrels]) -> Queries:
    """Return the queries that have judgements in any of the splits."""
    return dataset.queries.only({query_id for split_qrels in qrels.values() for query_id in split_qrels.grades})


def _as_plain_value(value: Any) -> Any:
    """Convert a setting's value, with all that it contains, to values that JSON has.

    A Stage is a selector or scorer with its parameters; a Decoder combines them.
    """
    match value:
        case Stage():
            return value.as_json()
        case Decoder():
            return decoder_to_json(value)
        case tuple():
            return tuple(map(_as_plain_value, value))
    return asdict(value) if is_dataclass(value) and not isinstance(value, type) else value
