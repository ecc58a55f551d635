"""What a decoder searches: the texts and the vectors, on one device."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from scipy.sparse import issparse
from torch import Tensor

from engine.errors import DataError
from engine.matrix import Matrix
from engine.parts import Parts
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

    def passages(self, passages: Embeddings) -> Embeddings:
        """Parts of documents that the encoder embedded, as the trained corpus has them; DataError where it cannot."""
        ...

    def documents(self, documents: Embeddings) -> tuple[Embeddings, Embeddings | None]:
        """The same of whole documents; and several vectors of each, ids as of `parts`, where the trained corpus has."""
        ...


MOST_DERIVED, MOST_BYTES = 8, 4 << 30
"""A space keeps so many things that scorers derived from it, in so many bytes; what was not used for longest goes."""


class Space:
    """A corpus and its embeddings on one device.

    corpus, embeddings: with the same ids in the same order; device: a torch device or None for the GPU where there
    is one; parts: several vectors a document, ids "id#0", "id#1" …, for scorers that take them, where they are not to
    be made of the texts; adapt: what queries pass through first, for trained embeddings. Raises DataError where ids
    differ, the corpus is empty or a vector is not finite.
    """

    def __init__(
        self,
        corpus: Corpus,
        embeddings: Embeddings,
        device: str | torch.device | None = None,
        parts: Embeddings | None = None,
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
        self.parts = None if parts is None else self._parts(parts)
        self.given_parts = parts
        self._derived: OrderedDict[Hashable, _Made] = OrderedDict()
        self._deriving = threading.Lock()

    def __reduce__(self) -> tuple:
        # What is derived is derived again, on whatever machine it goes to.
        return Space, (self.corpus, self.embeddings, str(self.device), self.given_parts, self.adapt)

    def _parts(self, given: Embeddings) -> Parts:
        if given.dimension != self.vectors.shape[1]:
            raise DataError(f"parts must have the corpus's dimension, {self.vectors.shape[1]}; got {given.dimension}")
        Matrix(given.vectors, "parts")
        return Parts.of(given, self.corpus, self.vectors)

    def __len__(self) -> int:
        return len(self.corpus)

    @property
    def vectors(self) -> Tensor:
        """(n, d) the documents' vectors."""
        return self.matrix.vectors

    @property
    def encoder(self) -> EncoderRef | None:
        """What embeds text before it is fitted; None where vectors were brought along."""
        return self.embeddings.encoder if self.adapt is None else self.adapt.base

    def fitted(self, queries: Embeddings) -> Embeddings:
        """The queries as this space searches for them: adapted, where its vectors were trained."""
        return queries if self.adapt is None else self.adapt(queries)

    def with_documents(self, corpus: Corpus, embeddings: Embeddings) -> Space:
        """Other documents, which the encoder embedded, searched as these. Raises DataError where that cannot be."""
        fitted, parts = (embeddings, None) if self.adapt is None else self.adapt.documents(embeddings)
        return Space(corpus, fitted, self.device, parts, self.adapt)

    def with_embeddings(self, embeddings: Embeddings) -> Space:
        """The corpus with other vectors, searched by the same queries. Raises DataError as the class.

        Several vectors a document that were given (`parts`) belong to the old ones, and are left behind.
        """
        return Space(self.corpus, embeddings, self.device, adapt=self.adapt)

    def derived(self, key: Hashable, make: Callable[[], Any]) -> Any:
        """What a scorer makes of the corpus once, an index say; key: names it, with the parameters it depends on.

        Others that ask for the same wait until it is made; whoever asks for something else does not.
        """
        with self._deriving:
            made = self._derived.setdefault(key, _Made())
            self._derived.move_to_end(key)
        with made.turn:
            if not made.ready:
                made.value = make()
                made.ready = True
                self._make_room(key)
        return made.value

    def has_derived(self, key: Hashable) -> bool:
        """Whether it is made already."""
        made = self._derived.get(key)
        return made is not None and made.ready

    def _make_room(self, newest: Hashable) -> None:
        with self._deriving:
            while len(self._derived) > 1:
                oldest = next(iter(self._derived))
                held = sum(_bytes(made.value) for made in self._derived.values())
                if oldest == newest or (len(self._derived) <= MOST_DERIVED and held <= MOST_BYTES):
                    return
                del self._derived[oldest]


class _Made:
    """Something derived, or about to be."""

    def __init__(self) -> None:
        self.turn, self.ready, self.value = threading.RLock(), False, None


def _bytes(value: Any) -> int:
    """What a derived value holds, as far as it says."""
    if isinstance(value, Tensor):
        return value.numel() * value.element_size()
    if isinstance(value, tuple):
        return sum(map(_bytes, value))
    if issparse(value):
        return value.data.nbytes + value.indices.nbytes + value.indptr.nbytes
    return int(getattr(value, "bytes", 0))
