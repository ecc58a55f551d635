"""Judged sets that claims are measured on: read and embedded once, each with queries to choose on and to report on."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import engine
from engine.data.models.hub import BUNDLED
from engine.errors import DataError
from engine.evaluation.splits import split_in_half
from engine.values import Dataset, Embeddings, Qrels, digest_of

RESPLIT = "qrels_resplit"
"""Judgements of a set divided anew, for sets that were published with one split."""
FEW = 100
"""Queries of a test split below which all judged queries are halved: what is not trained has seen none of them."""


@dataclass(frozen=True, eq=False)
class JudgedSet:
    """A data set with its documents and queries embedded."""

    name: str
    dataset: Dataset
    encoder: str
    work: Path | None = None  # the folder of what is trained on it
    train: bool = False  # whether what is not there is trained
    folder: Path | None = None  # its own, for what a data set leaves out: plans

    @cached_property
    def space(self) -> engine.Space:
        """The embedded documents."""
        return engine.Space(self.dataset.corpus, engine.embed(self.dataset.corpus, encoder=self.encoder))

    @cached_property
    def digest(self) -> str:
        """Names the documents, queries and judgements."""
        judged = (part for split, qrels in self.splits.items() for part in (split, qrels.digest))
        return digest_of([self.dataset.corpus.digest, self.dataset.queries.digest, *judged])

    @cached_property
    def splits(self) -> dict[str, Qrels]:
        """Judgements to choose on, "dev", and to report on, "test": its own, else halves of all by the queries' ids."""
        qrels = dict(self.dataset.qrels)
        if {"dev", "test"} <= qrels.keys() and len(qrels["test"].grades) >= FEW:
            return {"dev": qrels["dev"], "test": qrels["test"]}
        if not qrels:
            raise DataError(f"{self.name} has no judgements")
        return split_in_half(Qrels({query: grades for part in qrels.values() for query, grades in part.grades.items()}))

    @property
    def _trained(self) -> list[Path]:
        """Files of its work folder on trained systems, a seed each."""
        return sorted(self.work.glob("answers-*.json")) if self.work else []

    @property
    def is_trained(self) -> bool:
        """Whether there are trained systems, or will be."""
        return self.train or bool(self._trained)

    @property
    def trained_digest(self) -> str:
        """Names what is known of its trained systems."""
        return digest_of([f"{self.train}", *(file.read_text(encoding="utf-8") for file in self._trained)])

    def queries(self, split: str, most: int | None = None) -> Embeddings:
        """The embedded queries of a split that have a relevant document, the first of them in the set's own order."""
        qrels = self.splits[split]
        ids = [query for query in self.dataset.queries.ids if query in qrels.grades and qrels.relevant(query)]
        embedded: Embeddings = engine.embed(self.dataset.queries.only(ids[:most]), encoder=self.encoder)
        return embedded


class JudgedSets:
    """The sets of a folder by name; a folder that is itself a set has that one.

    encoder: a model's name or path; work: the folder of trained systems, a folder a set; train: whether those that are
    not there are trained
    """

    def __init__(
        self,
        folder: str | Path | None = None,
        encoder: str = "bundled",
        work: str | Path | None = None,
        train: bool = False,
    ) -> None:
        self.arguments = folder, encoder, work, train  # what makes the same in another process
        self.encoder = encoder
        self._folders: dict[str, Path] = {}
        self._sets: dict[str, JudgedSet] = {}
        if folder is not None:
            path = Path(folder)
            inside = [path] if (path / "corpus.jsonl").is_file() else sorted(path.glob("*/corpus.jsonl"))
            self._folders = {p.resolve().name: p for p in (q if q.is_dir() else q.parent for q in inside)}
            if not self._folders:
                raise DataError(
                    f"{path} holds no judged set; expected folders with corpus.jsonl, queries.jsonl, qrels/"
                )

    @property
    def encoder_title(self) -> str:
        """The encoder as sentences have it."""
        return "the bundled MiniLM" if self.encoder == BUNDLED else self.encoder

    @property
    def names(self) -> tuple[str, ...]:
        """All that the folder has."""
        return tuple(self._folders)

    def among(self, names: Iterable[str]) -> Iterator[JudgedSet]:
        """Those of some sets that are there; where none of them is, every set of the folder."""
        wanted = [name for name in names if name in self._folders] or self.names
        yield from map(self.__getitem__, wanted)

    def __getitem__(self, name: str) -> JudgedSet:
        if name not in self._sets:
            folder = self._folders[name]
            qrels = RESPLIT if (folder / RESPLIT).is_dir() else "qrels"
            dataset = engine.load_dataset(str(folder), qrels=qrels)
            *_, work, train = self.arguments
            of_set = Path(work) / name if work else None
            self._sets[name] = JudgedSet(name, dataset, self.encoder, of_set, train, folder)
        return self._sets[name]
