"""What a page asks of a job, as a value: the judgements it takes, what names its result, itself as plain values."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, is_dataclass
from typing import Any

from dashboard.services.jobs import Job
from dashboard.services.query_vectors import query_vectors
from dashboard.services.source import Loaded
from engine.decoder import Decoder
from engine.errors import DataError
from engine.evaluation.sweep.cell import decoder_to_json
from engine.stages import Stage
from engine.values import Dataset, Embeddings, Qrels, Queries, digest_of, explain_missing_split


@dataclass(frozen=True, kw_only=True)
class JobRequest:
    """The settings of long work on a page."""

    @property
    def split_names(self) -> tuple[str, ...]:
        """The splits of the data set whose judgements it takes."""
        raise NotImplementedError

    def qrels(self, dataset: Dataset) -> dict[str, Qrels]:
        """Return the judgements by split. Raises DataError where one is not there."""
        if missing := [name for name in self.split_names if name not in dataset.qrels]:
            raise DataError(explain_missing_split(dataset.qrels, missing[0]))
        return {name: dataset.qrels[name] for name in self.split_names}

    def vectors(self, loaded: Loaded, qrels: Mapping[str, Qrels], job: Job) -> Embeddings:
        """Embed the judged queries, where they are not known."""
        return query_vectors(loaded, judged_queries(loaded.dataset, qrels), job)

    def digest(self, loaded: Loaded) -> str:
        """Name the result of these settings on this corpus and these judgements."""
        judged = [part for name, qrels in self.qrels(loaded.dataset).items() for part in (name, qrels.digest)]
        return digest_of([loaded.space.embeddings.digest, json.dumps(self.as_json(), sort_keys=True), *judged])[:32]

    def as_json(self) -> dict[str, Any]:
        """Return plain values by field."""
        return {field.name: _plain(getattr(self, field.name)) for field in fields(self)}


def judged_queries(dataset: Dataset, qrels: Mapping[str, Qrels]) -> Queries:
    """Return the queries that any of the splits judges."""
    return dataset.queries.only({query for split in qrels.values() for query in split.grades})


def _plain(value: Any) -> Any:
    match value:
        case Stage():
            return value.as_json()
        case Decoder():
            return decoder_to_json(value)
        case tuple():
            return tuple(map(_plain, value))
    return asdict(value) if is_dataclass(value) and not isinstance(value, type) else value
