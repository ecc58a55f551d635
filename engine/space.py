"""What a decoder searches: the texts and the vectors, on one device."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from engine.errors import DataError
from engine.matrix import Matrix
from engine.values import Corpus, Embeddings, EncoderRef


@dataclass(frozen=True, eq=False)
class QueryBatch:
    """Queries as scorers and selectors take them: ids, (B, d) vectors on the space's device, texts where known."""

    ids: tuple[str, ...]
    vectors: Tensor
    texts: tuple[str, ...] | None = None

    def __len__(self) -> int:
        return len(self.ids)

    def block(self, start: int, stop: int) -> QueryBatch:
        """The queries from start to stop."""
        texts = self.texts[start:stop] if self.texts is not None else None
        return QueryBatch(self.ids[start:stop], self.vectors[start:stop], texts)


class Adapts(Protocol):
    """What makes queries of an encoder fit a corpus whose vectors were trained further.

    base: the encoder, None for vectors that were brought along. Called with queries that it embedded, which come back
    adapted; with adapted ones, which come back as they are; with others it raises DataError.
    """

    base: EncoderRef | None

    def __call__(self, queries: Embeddings) -> Embeddings: ...


MOST_DERIVED = 8
"""A space keeps so many things that scorers derived from it, the one not used for longest goes first."""


class Space:
    """A corpus and its embeddings on one device.

    corpus, embeddings: with the same ids in the same order; device: a torch device or None for the GPU where there
    is one; adapt: what queries pass through first, for trained embeddings. Raises DataError where ids differ, the
    corpus is empty or a vector is not finite.
    """

    def __init__(
        self,
        corpus: Corpus,
        embeddings: Embeddings,
        device: str | torch.device | None = None,
        adapt: Adapts | None = None,
    ) -> None:
        if corpus.ids != embeddings.ids:
            raise DataError(
                f"the embeddings are not of this corpus: {len(corpus)} documents, {len(embeddings)} vectors, "
                f"{len(set(corpus.ids) & set(embeddings.ids))} ids in common; embed this corpus, or reorder the vectors"
            )
        self.corpus = corpus
        self.embeddings = embeddings
        self.adapt = adapt
        self.device = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
        self.matrix = Matrix(embeddings.vectors.to(self.device), kept=True)
        self._derived: OrderedDict[Hashable, Any] = OrderedDict()
        self._deriving = threading.RLock()

    def __reduce__(self) -> tuple:
        # What is derived is derived again, on whatever machine it goes to.
        return Space, (self.corpus, self.embeddings, str(self.device), self.adapt)

    def __len__(self) -> int:
        return len(self.corpus)

    @property
    def vectors(self) -> Tensor:
        """(n, d) the documents' vectors."""
        return self.matrix.vectors

    @property
    def encoder(self) -> EncoderRef | None:
        """What embeds the text of queries; None where vectors were brought along."""
        return self.embeddings.encoder if self.adapt is None else self.adapt.base

    def fitted(self, queries: Embeddings) -> Embeddings:
        """The queries as this space searches for them: adapted, where its vectors were trained."""
        return queries if self.adapt is None else self.adapt(queries)

    def derived(self, key: Hashable, make: Callable[[], Any]) -> Any:
        """What a scorer makes of the corpus once, an index say; key: names it, with the parameters it depends on.

        Others that ask for anything derived wait until it is made.
        """
        with self._deriving:
            if key not in self._derived:
                self._derived[key] = make()
                while len(self._derived) > MOST_DERIVED:
                    self._derived.popitem(last=False)
            self._derived.move_to_end(key)
            return self._derived[key]
