"""Judged sets that claims are measured on: read and embedded once, each with queries to choose on and to report on."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import engine
from engine.data.models.hub import BUNDLED
from engine.errors import DataError
from engine.evaluation.splits import split_in_half
from engine.values import Dataset, Embeddings, Qrels, digest_of

RESPLIT_FOLDER = "qrels_resplit"
"""Judgements of a set divided anew, for sets that were published with one split."""
SetValue = TypeVar("SetValue")
MIN_TEST_QUERIES = 100
"""Queries of a test split below which all judged queries are halved: what is not trained has seen none of them."""


@dataclass(frozen=True, eq=False, kw_only=True)
class JudgedSet:
    """A data set with judged queries that claims are measured on, embedded by one encoder."""

    name: str
    dataset: Dataset
    encoder: str
    work: Path | None = None  # the folder of what is trained on it
    train: bool = False  # whether what is not there is trained
    folder: Path | None = None  # its own, for what a data set leaves out: plans
    reader: str | None = None  # the entry of endpoints.toml whose chat model reads sets

    @cached_property
    def space(self) -> engine.Space:
        """The embedded documents."""
        return engine.Space(self.dataset.corpus, engine.embed(self.dataset.corpus, encoder=self.encoder))

    @cached_property
    def digest(self) -> str:
        """Digest of the documents, queries and judgements."""
        parts = (part for split_name, split_qrels in self.splits.items() for part in (split_name, split_qrels.digest))
        return digest_of([self.dataset.corpus.digest, self.dataset.queries.digest, *parts])

    @cached_property
    def splits(self) -> dict[str, Qrels]:
        """The judgements to choose on, "dev", and those to report on, "test".

        If the set has no such splits, or too few queries in test, all judged queries are divided into two halves.
        """
        qrels = dict(self.dataset.qrels)
        if {"dev", "test"} <= qrels.keys() and len(qrels["test"].grades) >= MIN_TEST_QUERIES:
            return {"dev": qrels["dev"], "test": qrels["test"]}
        if not qrels:
            raise DataError(f"{self.name} has no judgements")
        # Untrained systems have seen none of the queries, so that all judged ones may be divided by their ids.
        return split_in_half(Qrels({query: grades for part in qrels.values() for query, grades in part.grades.items()}))

    @property
    def _answer_files(self) -> list[Path]:
        """Files with the values of the set's trained systems, one for each seed."""
        return sorted(self.work.glob("answers-*.json")) if self.work else []

    @property
    def is_trained(self) -> bool:
        """True if trained systems are stored for the set, or are to be trained on demand."""
        return self.train or bool(self._answer_files)

    @property
    def trained_digest(self) -> str:
        """Digest of the stored values of the set's trained systems and of `train`: a part of cache keys."""
        return digest_of([f"{self.train}", *(path.read_text(encoding="utf-8") for path in self._answer_files)])

    def queries(self, split_name: str, max_queries: int | None = None) -> Embeddings:
        """Return the embedded queries of a split with a relevant document, at most the first `max_queries`."""
        qrels = self.splits[split_name]
        ids = [query for query in self.dataset.queries.ids if query in qrels.grades and qrels.relevant(query)]
        query_vectors: Embeddings = engine.embed(self.dataset.queries.only(ids[:max_queries]), encoder=self.encoder)
        return query_vectors


class JudgedSets:
    """The judged sets of a folder by name, loaded on first use; a folder that is a set has only itself.

    encoder: a model's name or path; work: the folder of trained systems, with a folder for each set; train: True to
    train the systems that it lacks; reader: an entry of endpoints.toml with a chat model
    """

    def __init__(
        self,
        folder: str | Path | None = None,
        encoder: str = "bundled",
        work: str | Path | None = None,
        train: bool = False,
        reader: str | None = None,
    ) -> None:
        """Find the judged sets in a folder: data sets with judgements, each loaded at its first use.

        folder: one with a subfolder for each set, which names it, or the folder of a single set; None for no sets;
        encoder: embeds their texts; work: a folder that has the results of trained systems, or is to get them; train:
        True to train the systems that are missing there; reader: for claims on what a language model makes of sets,
        None for none. Raises DataError for a folder without sets.
        """
        # Worker processes build their own from these.
        self.arguments = folder, encoder, work, train, reader
        self.encoder, self.reader = encoder, reader
        self._folders: dict[str, Path] = {}
        self._sets: dict[str, JudgedSet] = {}
        if folder is not None:
            sets_folder = Path(folder)
            is_set = (sets_folder / "corpus.jsonl").is_file()
            corpus_files = [sets_folder / "corpus.jsonl"] if is_set else sorted(sets_folder.glob("*/corpus.jsonl"))
            self._folders = {file.parent.resolve().name: file.parent for file in corpus_files}
            # An empty folder would otherwise silently leave every claim without its sets.
            if not self._folders:
                raise DataError(
                    f"{sets_folder} holds no judged set; expected folders with corpus.jsonl, queries.jsonl, qrels/"
                )

    @property
    def encoder_title(self) -> str:
        """The encoder's name as sentences write it."""
        return "the bundled MiniLM" if self.encoder == BUNDLED else self.encoder

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all sets of the folder."""
        return tuple(self._folders)

    def select(self, set_names: Iterable[str]) -> Iterator[JudgedSet]:
        """Yield the named sets that exist; if none does, every set of the folder."""
        available_names = [set_name for set_name in set_names if set_name in self._folders] or self.names
        yield from map(self.__getitem__, available_names)

    def __getitem__(self, set_name: str) -> JudgedSet:
        """Load a set with its embeddings at its first use, and return it."""
        # Embedding takes minutes: every set is loaded once and shared by all claims.
        if set_name not in self._sets:
            set_folder = self._folders[set_name]
            # Sets that were published with a single split have a second folder, of judgements divided anew: it takes
            # precedence.
            qrels_folder = RESPLIT_FOLDER if (set_folder / RESPLIT_FOLDER).is_dir() else "qrels"
            dataset = engine.load_dataset(str(set_folder), qrels=qrels_folder)
            *_, work, train, reader = self.arguments
            set_work = Path(work) / set_name if work else None
            self._sets[set_name] = JudgedSet(
                name=set_name, dataset=dataset, encoder=self.encoder, work=set_work, train=train, folder=set_folder,
                reader=reader,
            )  # fmt: skip
        return self._sets[set_name]


def compute_by_set(compute: Callable[..., SetValue], sets: Iterable[JudgedSet], *arguments: Any) -> dict[str, SetValue]:
    """Return set name → result of calling `compute` with the set and the further arguments."""
    return {judged_set.name: compute(judged_set, *arguments) for judged_set in sets}
