"""A corpus as a visitor chose it, and as it is once loaded."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor

    from engine.decoder import Decoder
    from engine.space import Space
    from engine.values import Dataset, Embeddings, Queries


@dataclass(frozen=True, kw_only=True)
class Source:
    """Where a corpus comes from and how it is embedded."""

    path: str = field(kw_only=False)  # a demo's name, a file or a folder
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
        """What messages call it: a demo's name, or that of the file or folder."""
        return Path(self.path).name

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

    @property
    def plain(self) -> Loaded:
        """The corpus as its encoder embedded it, where training begins."""
        return self.origin.base or self.origin

    @property
    def origin(self) -> Loaded:
        """The corpus as it was embedded, which links and logs name."""
        return self.embedded or self

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
