"""A corpus as a visitor chose it, and as it is once loaded."""

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


STORE = "store://"
"""How the path of a corpus in a vector engine begins; its name there follows, never an address or a password."""


@dataclass(frozen=True, kw_only=True)
class Source:
    """Where a corpus comes from and how it is embedded."""

    path: str = field(kw_only=False)  # a demo's name, a file or a folder, or store://name/collection
    columns: tuple[str | None, str, str | None] | None = None  # (id, text, title) of a table
    metadata: tuple[str, ...] = ()  # columns of a table that are kept beside its documents
    where: tuple[tuple[str, str], ...] = ()  # (column, value) of the documents that are read; () reads all
    separator: str = ""  # of the columns of a .csv file, "" guesses
    repeated: str = "refuse"  # what is done about ids that occur twice
    qrels: str = "qrels"  # the folder of judgements
    encoder: str = "bundled"  # a model's name
    dtype: str = "auto"  # its arithmetic
    own: bool = True  # whether vectors that came with the corpus are used, if there are any
    trained: str = ""  # the name of a checkpoint kept here, whose embeddings are used, "" for the encoder's own

    @property
    def name(self) -> str:
        """What messages call it: a demo's name, that of the file or folder, or the store's."""
        return self.store or Path(self.path).name

    @property
    def store(self) -> str:
        """The collection of a vector engine as `engine.attach` takes it, "" for other corpora."""
        return self.path.removeprefix(STORE) if self.path.startswith(STORE) else ""

    @property
    def reading(self) -> dict[str, Any]:
        """The arguments of `engine.load_dataset` beside the path, as far as they are not the defaults."""
        names = dict(zip(("id", "text", "title"), self.columns or (), strict=False))
        where: dict[str, list[str]] = {}
        for column, value in self.where:
            where.setdefault(column, []).append(value)
        every = {
            "columns": {role: column for role, column in names.items() if column is not None},
            "metadata": self.metadata,
            "where": where,
            "separator": self.separator,
            "repeated": "" if self.repeated == "refuse" else self.repeated,
            "qrels": "" if self.qrels == "qrels" else self.qrels,
        }
        return {name: value for name, value in every.items() if value}

    @property
    def plain(self) -> Source:
        """The same corpus as its encoder embeds it."""
        return replace(self, trained="")

    @property
    def unembedded(self) -> Source:
        """The same corpus as it is read, whatever embeds it."""
        return replace(self, encoder="bundled", dtype="auto", own=True, trained="")


@dataclass(frozen=True, kw_only=True)
class Loaded:
    """A corpus ready to be searched."""

    source: Source  # where it comes from
    dataset: Dataset  # its documents, queries and judgements
    space: Space  # where it is searched
    queries: Tensor | None  # the vectors of its labelled queries, (n, d); None if they come on demand
    embedded: Loaded | None = None  # the corpus as it was embedded, where feedback has moved the documents of this one
    base: Loaded | None = None  # the corpus as its encoder embedded it, where the vectors of this one were trained
    training: str = ""  # the name of that training, "" where there was none
    trained_for: Decoder | None = None  # the decoder that it was for
    learnt: bool = True  # whether it ever got better than where it started
    reach: Reach | None = None  # the vector engine that has the documents, of which the space is a sample then

    @property
    def plain(self) -> Loaded:
        """The corpus as its encoder embedded it, where training begins."""
        return self.origin.base or self.origin

    @property
    def origin(self) -> Loaded:
        """The corpus as it was embedded, which links and logs name."""
        return self.embedded or self

    @property
    def size(self) -> int:
        """How many documents there are, here or in an engine."""
        return len(self.space) if self.reach is None else len(self.reach)

    @property
    def state(self) -> str:
        """Names the state of a vector engine that answers so far are about; "" for a corpus here."""
        return "" if self.reach is None else self.reach.digest

    def as_answered(self) -> Loaded:
        """The corpus with the documents that answers hold: of a vector engine those that came back so far."""
        return self if self.reach is None else replace(self, space=self.reach.space, embedded=self.origin)

    @property
    def key(self) -> str:
        """Names the vectors and the documents."""
        return f"{self.space.embeddings.digest} {self.space.corpus.digest}"

    def vectors_of(self, queries: Queries) -> Embeddings | None:
        """The vectors of some of its labelled queries; None where they come on demand."""
        from engine.values import Embeddings

        if self.queries is None:
            return None
        rows = [self.dataset.queries.position[query] for query in queries.ids]
        return Embeddings(queries.ids, self.queries[rows], self.space.embeddings.encoder, queries.texts)
