"""A corpus as a visitor chose it, and the corpus once loaded."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor

    from engine.decoder import Decoder
    from engine.reach import Reach
    from engine.space import Space
    from engine.values import Dataset, Embeddings, Queries


STORE_PREFIX = "store://"
"""Prefix of the path of a corpus in a vector engine; its name follows, never an address or a password."""


@dataclass(frozen=True, kw_only=True)
class Source:
    """Choice of a corpus: its path, how its files are read, and by which encoder it is embedded."""

    path: str = field(kw_only=False)  # a demo's name, a file or a folder, or store://name/collection
    columns: tuple[str | None, str, str | None] | None = None  # (id, text, title) of a table
    metadata: tuple[str, ...] = ()  # columns of a table that are kept beside its documents
    where: tuple[tuple[str, str], ...] = ()  # (column, value) of the documents that are read; () reads all
    separator: str = ""  # of the columns of a .csv file, "" guesses
    repeated: str = "refuse"  # policy for ids that occur twice
    qrels: str = "qrels"  # the folder of judgements
    encoder: str = "bundled"  # a model's name
    dtype: str = "auto"  # of its arithmetic
    own: bool = True  # True to use vectors that came with the corpus, if any
    trained: str = ""  # the name of a checkpoint kept here, whose embeddings are used, "" for the encoder's own

    @property
    def name(self) -> str:
        """Name in messages: a demo's, that of the file or folder, or the store's."""
        return self.store or Path(self.path).name

    @property
    def store(self) -> str:
        """Collection of a vector engine, as `engine.attach` takes it; "" if the corpus is loaded here."""
        return self.path.removeprefix(STORE_PREFIX) if self.path.startswith(STORE_PREFIX) else ""

    @property
    def reading(self) -> dict[str, Any]:
        """Arguments by which `engine.load_dataset` reads the corpus, without its path and those at a default."""
        # Defaults are left out, so that exported code has only arguments that matter: a default becomes an empty value
        # below, and empty values are dropped at the end.
        column_roles = dict(zip(("id", "text", "title"), self.columns or (), strict=False))
        where: dict[str, list[str]] = {}
        for column, value in self.where:
            where.setdefault(column, []).append(value)
        arguments = {
            "columns": {role: column for role, column in column_roles.items() if column is not None},
            "metadata": self.metadata,
            "where": where,
            "separator": self.separator,
            "repeated": "" if self.repeated == "refuse" else self.repeated,
            "qrels": "" if self.qrels == "qrels" else self.qrels,
        }
        return {name: value for name, value in arguments.items() if value}

    @property
    def without_training(self) -> Source:
        """This source, but with the encoder's own embeddings."""
        return replace(self, trained="")

    @property
    def without_encoder(self) -> Source:
        """This source, but with the default encoder: equal for all sources that read the same documents."""
        return replace(self, encoder="bundled", dtype="auto", own=True, trained="")


@dataclass(frozen=True, kw_only=True)
class Loaded:
    """Corpus ready to be searched: documents, embeddings, queries, and how it came to be.

    Its embeddings may be its encoder's, those that a training made of them, or those that feedback has moved.
    """

    source: Source  # where it comes from
    dataset: Dataset  # its documents, queries and judgements
    space: Space  # where it is searched
    queries: Tensor | None  # the vectors of its labelled queries, (n, d); None if they come on demand
    embedded: Loaded | None = None  # the corpus as embedded, if feedback moved this one
    base: Loaded | None = None  # the corpus as its encoder embedded it, if this one is trained
    training: str = ""  # the name of that training, "" without one
    trained_for: Decoder | None = None  # the decoder that it was for
    learnt: bool = True  # True if training ever improved on its start
    reach: Reach | None = None  # the vector engine that has the documents, of which the space is a sample then

    @property
    def without_training(self) -> Loaded:
        """Corpus with the encoder's own embeddings, from which a training starts."""
        return self.origin.base or self.origin

    @property
    def origin(self) -> Loaded:
        """Corpus before feedback moved its documents; links and logs name this one."""
        return self.embedded or self

    @property
    def size(self) -> int:
        """Number of documents, here or in a vector engine."""
        return len(self.space) if self.reach is None else len(self.reach)

    @property
    def state(self) -> str:
        """Digest of the documents fetched from a vector engine so far; "" for a corpus loaded here."""
        return "" if self.reach is None else self.reach.digest

    def as_answered(self) -> Loaded:
        """Return the corpus with all documents that answers may name.

        With the documents in a vector engine (a database elsewhere) these are those fetched from it so far.
        """
        return self if self.reach is None else replace(self, space=self.reach.space, embedded=self.origin)

    @property
    def key(self) -> str:
        """Key of the embeddings and the documents, for caches."""
        return f"{self.space.embeddings.digest} {self.space.corpus.digest}"

    def vectors_of(self, queries: Queries) -> Embeddings | None:
        """Return the vectors of some of its labelled queries; None if they were not embedded with the corpus."""
        from engine.values import Embeddings

        if self.queries is None:
            return None
        row_indices = [self.dataset.queries.position[query_id] for query_id in queries.ids]
        return Embeddings(queries.ids, self.queries[row_indices], self.space.embeddings.encoder, queries.texts)
