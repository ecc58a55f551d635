"""A corpus as a visitor chose it, and the corpus once loaded."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.data.columns import NO_COLUMN

if TYPE_CHECKING:
    from torch import Tensor

    from engine.decoder import Decoder
    from engine.reach import Reach
    from engine.space import Space
    from engine.values import Dataset, Embeddings, Queries


KEEP_ALL, COPIES, NEAR = "none", "copies", "near"
"""Documents that are left out of a corpus: none, exact copies, or all near-duplicates but one of each group."""
PRODUCT, COSINE = "product", "cosine"
"""Similarities of vectors that came with a corpus: as they are, or scaled to length 1."""
STORE_PREFIX = "store://"
"""Prefix of the path of a corpus in a vector engine; its name follows, never an address or a password."""


@dataclass(frozen=True, kw_only=True)
class Source:
    """Choice of a corpus: its path, how its files are read, and by which encoder it is embedded."""

    path: str = field(kw_only=False)  # a demo's name, a file or folder, store://… or memory://…
    columns: tuple[str | None, str | None, str | None] | None = None  # (id, text, title) of a table
    metadata: tuple[str, ...] = ()  # columns of a table that are kept beside its documents
    where: tuple[tuple[str, str], ...] = ()  # (column, value) of the documents that are read; () reads all
    separator: str = ""  # of the columns of a .csv file, "" guesses
    header: str = "auto"  # what the first line of a table is: names of columns, data, or to be guessed
    vectors_column: str = ""  # of a table, the documents' own vectors, "" for none
    query_vectors: str = ""  # a file of the queries' own vectors, "" for the one beside them, if any
    similarity: str = PRODUCT  # of own vectors: their inner product with a query, or the cosine
    repeated: str = "refuse"  # policy for ids that occur twice
    qrels: str = "qrels"  # the folder or the file of judgements
    conflicting_grades: str = "refuse"  # policy for a document with different grades for one query
    judgements: str = "auto"  # whether documents without a grade are known to be irrelevant
    relevant: int = 1  # the grade from which its judgements count a document as relevant
    encoder: str = "bundled"  # a model's name
    dtype: str = "auto"  # of its arithmetic
    own: bool = True  # True to use vectors that came with the corpus, if any
    trained: str = ""  # the name of a checkpoint kept here, whose embeddings are used, "" for the encoder's own
    drop_duplicates: str = KEEP_ALL  # which documents are left out because others are like them
    duplicate_threshold: float | None = None  # cosine of near-duplicates, None for that of the corpus

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
        # A role without a column is refused, as the reader would guess it else.
        column_roles: dict[str, str] = {}
        for role, column_name in zip(("id", "text", "title"), self.columns or (), strict=False):
            column_roles[role] = NO_COLUMN if column_name is None else column_name
        if self.vectors_column:
            column_roles["vectors"] = self.vectors_column
        where: dict[str, list[str]] = {}
        for column, value in self.where:
            where.setdefault(column, []).append(value)
        arguments = {
            "columns": column_roles,
            "metadata": self.metadata,
            "where": where,
            "separator": self.separator,
            "header": "" if self.header == "auto" else self.header,
            "query_vectors": self.query_vectors,
            "normalize": self.similarity == COSINE,
            "repeated": "" if self.repeated == "refuse" else self.repeated,
            "qrels": "" if self.qrels == "qrels" else self.qrels,
            "conflicting_grades": "" if self.conflicting_grades == "refuse" else self.conflicting_grades,
            "judgements": "" if self.judgements == "auto" else self.judgements,
        }
        return {name: value for name, value in arguments.items() if value}

    @property
    def without_training(self) -> Source:
        """This source, but with the encoder's own embeddings."""
        return replace(self, trained="")

    @property
    def with_all_documents(self) -> Source:
        """This source, but with its copies and near-duplicates."""
        return replace(self, drop_duplicates=KEEP_ALL, duplicate_threshold=None)

    @property
    def without_level(self) -> Source:
        """This source at the default level of relevance, with judgements of the kind that their grades show.

        One loading serves sources of all levels and kinds.
        """
        return replace(self, relevant=1, judgements="auto")

    @property
    def without_encoder(self) -> Source:
        """This source, but with the default encoder: equal for all sources that read the same documents."""
        return replace(self.without_level.with_all_documents, encoder="bundled", dtype="auto", own=True, trained="")


@dataclass(frozen=True, kw_only=True)
class DroppedDocuments:
    """Documents that were left out of a corpus because others are like them."""

    kind: str  # COPIES or NEAR
    threshold: float | None  # cosine of near-duplicates, None for copies
    n_dropped: int  # documents
    n_judgements: int  # of these documents, which count for those that stay


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
    reduction: DroppedDocuments | None = None  # the documents that were left out, if any were

    @property
    def has_query_vectors(self) -> bool:
        """True if its labelled queries have vectors, or an encoder makes them."""
        return self.queries is not None or self.space.encoder is not None

    @property
    def without_training(self) -> Loaded:
        """Corpus with the encoder's own embeddings, from which a training starts."""
        return self.origin.base or self.origin

    @property
    def origin(self) -> Loaded:
        """Corpus before feedback moved its documents; links and logs name this one."""
        return self.embedded or self

    def with_judged_as(self, other: Source) -> Loaded:
        """Return the corpus whose judgements are of another source's kind, and count from its level of relevance on.

        It is the same object at every call, as caches and pages compare corpora by identity.
        """
        level = grade, kind = other.relevant, other.judgements
        if level == (self.source.relevant, self.source.judgements):
            return self
        if level not in self._corpus_by_level:
            self._corpus_by_level[level] = replace(
                self,
                source=replace(self.source, relevant=grade, judgements=kind),
                dataset=self.dataset.with_relevant_from(grade).with_judgements(kind),
                base=self.base and self.base.with_judged_as(other),
            )
        return self._corpus_by_level[level]

    @cached_property
    def _corpus_by_level(self) -> dict[tuple[int, str], Loaded]:
        return {}

    @property
    def size(self) -> int:
        """Number of documents, here or in a vector engine."""
        return len(self.space) if self.reach is None else len(self.reach)

    @property
    def state(self) -> str:
        """Digest of the documents fetched from a vector engine so far; "" for a corpus loaded here.

        It is part of the keys of cached answers, and tells the page that more documents have been fetched.
        """
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
        """Return the vectors of some of its labelled queries; None if one was not embedded with the corpus.

        That may be a query of another origin, as typed on Judge, which can have the id of a labelled one.
        """
        from engine.values import Embeddings

        labelled = self.dataset.queries
        if self.queries is None:
            return None
        row_indices = []
        for query_id, text in zip(queries.ids, queries.texts, strict=True):
            row_index = labelled.position.get(query_id)
            if row_index is None or labelled.texts[row_index] != text:
                return None
            row_indices.append(row_index)
        return Embeddings(queries.ids, self.queries[row_indices], self.space.embeddings.encoder, queries.texts)
