"""Space: a corpus with its vectors on one device, and the values derived from both."""

from __future__ import annotations

import logging
import threading
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar, cast

import torch
from scipy.sparse import csr_array
from torch import Tensor

from engine.data.stores import StoreRef
from engine.errors import DataError, FrontierError
from engine.matrix import Matrix
from engine.multi_vector import Parts
from engine.values import Corpus, Embeddings, EncoderRef, Ranking, real_tensor

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class QueryBatch:
    """Queries for scorers and selectors."""

    ids: tuple[str, ...]  # (B,)
    vectors: Tensor  # (B, d) on the space's device
    texts: tuple[str, ...] | None = None  # (B,) or None

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def known_texts(self) -> tuple[str, ...]:
        """The texts; DataError for vectors alone."""
        if self.texts is None:
            raise DataError("these queries are vectors alone, and the scorer reads their words")
        return self.texts

    def block(self, start: int, stop: int) -> QueryBatch:
        """Rows start to stop."""
        texts = self.texts[start:stop] if self.texts is not None else None
        return QueryBatch(self.ids[start:stop], self.vectors[start:stop], texts)


class Adapts(Protocol):
    """An adapter from an encoder's query vectors to a corpus whose vectors were trained further.

    Called with queries embedded by `base`, returns them adapted; adapted ones pass through; for others it raises
    DataError.
    """

    @property
    def base(self) -> EncoderRef | None:
        """The encoder, None for vectors without one."""

    def __call__(self, queries: Embeddings) -> Embeddings: ...

    def passages(self, passages: Embeddings) -> Embeddings:
        """The adapted vectors of parts of documents; DataError when they cannot be adapted."""

    def documents(self, documents: Embeddings) -> tuple[Embeddings, Embeddings | None]:
        """The adapted vectors of documents; and several per document (ids as of `parts`), or None."""


MOST_DERIVED, MOST_BYTES = 8, 4 << 30
"""Derived values per space: at most 8, at most 4 GiB; the least recently used goes first."""


class Space:
    """A corpus and its embeddings on one device.

    corpus, embeddings: with the same ids in the same order; device: a torch device, None for the GPU if there is one;
    parts: several vectors per document, ids "id#0", "id#1" …, for multi-vector scorers, in place of vectors of the
    texts' passages; adapt: of queries, for trained embeddings. Raises DataError when ids differ, the corpus is empty or
    a vector is not finite.
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
        self.device, self.matrix = _placed(embeddings, device)
        self.given_parts = parts
        self.parts = None
        if parts is not None:
            dimension = self.vectors.shape[1]
            if parts.dimension != dimension:
                raise DataError(f"parts must have the corpus's dimension, {dimension}; got {parts.dimension}")
            Matrix(parts.vectors, "parts")
            self.parts = Parts.of(parts, corpus, self.vectors)
        self._derived: OrderedDict[Hashable, _Entry] = OrderedDict()
        self._deriving = threading.Lock()

    @classmethod
    def of(cls, texts: Sequence[str], vectors: Any, ids: Sequence[str] | None = None) -> Space:
        """A space of one's own texts and vectors: an (n, d) array or tensor, whose rows are scaled to length 1.

        ids: None numbers the texts from 0. Raises DataError for counts, shapes and ids that do not fit, and for rows
        that are not finite or all zero. `Space(corpus, Embeddings(ids, vectors))` takes vectors as they are.
        """
        rows = real_tensor(vectors, "vectors")
        matrix = Matrix(rows, "vectors")
        if len(texts) != len(rows):
            raise DataError(f"vectors must have one row per text: {len(texts)} texts, shape {tuple(rows.shape)}")
        if zero := (matrix.lengths == 0).nonzero().flatten().tolist():
            first = ", ".join(map(str, zero[:5]))
            raise DataError(f"vectors must have rows with a length; {len(zero)} are all zero (first: rows {first})")
        corpus = Corpus(tuple(map(str, range(len(rows)))) if ids is None else tuple(ids), tuple(texts))
        return cls(corpus, Embeddings(corpus.ids, rows / matrix.lengths.unsqueeze(1)))

    def __reduce__(self) -> tuple[type[Space], tuple[Any, ...]]:
        # Derived values are not pickled; the receiving machine derives them again.
        return Space, (self.corpus, self.embeddings, str(self.device), self.given_parts, self.adapt)

    def __len__(self) -> int:
        return len(self.corpus)

    @property
    def vectors(self) -> Tensor:
        """(n, d) the documents' vectors."""
        return self.matrix.vectors

    @property
    def encoder(self) -> EncoderRef | None:
        """The encoder of texts, before `fitted`; None for vectors without one."""
        return self.embeddings.encoder if self.adapt is None else self.adapt.base

    def fitted(self, queries: Embeddings) -> Embeddings:
        """The queries as this space searches for them: adapted, if its vectors were trained."""
        return queries if self.adapt is None else self.adapt(queries)

    def with_documents(self, corpus: Corpus, embeddings: Embeddings) -> Space:
        """A space of other documents, embedded by the encoder. Raises DataError when they cannot be adapted."""
        fitted, parts = (embeddings, None) if self.adapt is None else self.adapt.documents(embeddings)
        return Space(corpus, fitted, self.device, parts, self.adapt)

    def with_embeddings(self, embeddings: Embeddings) -> Space:
        """The corpus with other vectors, searched by the same queries; without parts. Raises DataError as the class."""
        return Space(self.corpus, embeddings, self.device, adapt=self.adapt)

    def derived(self, key: Hashable, make: Callable[[], T]) -> T:
        """A value derived from the space once, such as an index; only threads that need the same value wait for it.

        key: its name and the parameters it depends on.
        """
        with self._deriving:
            entry = self._derived.setdefault(key, _Entry())
            self._derived.move_to_end(key)
        with entry.lock:
            if not entry.ready:
                entry.value = make()
                entry.ready = True
                self._make_room(key)
        return cast(T, entry.value)

    def has_derived(self, key: Hashable) -> bool:
        """Whether a derived value exists."""
        entry = self._derived.get(key)
        return entry is not None and entry.ready

    def _make_room(self, newest: Hashable) -> None:
        with self._deriving:
            while len(self._derived) > 1:
                oldest = next(iter(self._derived))
                size = sum(_bytes(entry.value) for entry in self._derived.values())
                if oldest == newest or (len(self._derived) <= MOST_DERIVED and size <= MOST_BYTES):
                    return
                del self._derived[oldest]


class Elsewhere(ABC):
    """A corpus that nobody here has whole, such as one in a vector engine."""

    @property
    @abstractmethod
    def probe(self) -> Space:
        """A space of a few of its documents, which queries are made to fit."""

    @abstractmethod
    def __len__(self) -> int: ...

    @property
    @abstractmethod
    def ref(self) -> StoreRef:
        """What names its documents, as they were when last asked."""

    @property
    def name(self) -> str:
        """Its name, as `engine.attach` takes it."""
        return self.ref.collection

    @property
    def digest(self) -> str:
        """What names its documents, as far as can be said without reading them all."""
        return self.ref.digest

    @property
    @abstractmethod
    def space(self) -> Space:
        """The documents that came back so far: answers hold rows of it. It grows at its end."""

    @abstractmethod
    def decode_grid(self, decoders: Any, queries: Any, k: int = 10) -> list[Ranking]:
        """The answers of `engine.decode` for each decoder, as rows of `space`."""

    @property
    def encoder(self) -> EncoderRef | None:
        """The encoder of texts; None for vectors without one."""
        return self.probe.encoder

    @property
    def adapt(self) -> None:
        """Nothing: its vectors are as they were embedded."""
        return None

    def refuse(self, what: str) -> DataError:
        """The error of what needs all documents here."""
        return DataError(
            f"{what} needs all documents, and those of {self.name} are in a vector engine; decode, measure and sweep "
            "there, or load the corpus as a file"
        )

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name}: {len(self):,} documents)"

    def __getattr__(self, name: str) -> Any:
        if name in ("corpus", "embeddings", "vectors", "matrix", "parts", "derived", "with_embeddings"):
            raise self.refuse(f"what reads the {name.replace('_', ' ')} of a space")
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")


def here(space: Space | Elsewhere, ranking: Ranking | None = None) -> Space:
    """The space that rankings hold rows of: itself, or of a corpus elsewhere what came back.

    ranking: one of its own; a DataError where the documents have changed since, so that its rows are of others.
    """
    if not isinstance(space, Elsewhere):
        return space
    local = space.space
    for query, info in enumerate(() if ranking is None else ranking.info):
        rows = ranking.rows(query) if ranking is not None else []
        if [local.corpus.ids[row] if row < len(local) else None for row in rows] != list(info["ids"])[: len(rows)]:
            raise DataError(f"{space.name} changed while asked: this ranking is of other documents; decode again")
    return local


def probe_of(space: Space | Elsewhere) -> Space:
    """The space that says how queries are made: itself, or the probe of a corpus elsewhere."""
    return space.probe if isinstance(space, Elsewhere) else space


class _Entry:
    """A derived value, or a lock on its derivation."""

    def __init__(self) -> None:
        self.lock, self.ready = threading.RLock(), False
        self.value: Any = None


def _placed(embeddings: Embeddings, device: str | torch.device | None) -> tuple[torch.device, Matrix]:
    """A device and the vectors on it: on the CPU where a GPU that nobody asked for has no room, which the log says."""
    place = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
    try:
        return place, Matrix(embeddings.vectors.to(place), cached=True, file=embeddings.file)
    except torch.OutOfMemoryError:
        short = f"{place} has no room for {len(embeddings.vectors):,} vectors"
    if device is not None:
        raise FrontierError(f"{short}: take device='cpu'")
    logging.getLogger("frontier").warning("note: %s, so the CPU searches them", short)
    return torch.device("cpu"), Matrix(embeddings.vectors, cached=True, file=embeddings.file)


def _bytes(value: Any) -> int:
    """The memory of a derived value, as far as it is known."""
    if isinstance(value, Tensor):
        return value.numel() * value.element_size()
    if isinstance(value, tuple):
        return sum(map(_bytes, value))
    if isinstance(value, csr_array):
        return int(value.data.nbytes + value.indices.nbytes + value.indptr.nbytes)
    return int(getattr(value, "bytes", 0))
