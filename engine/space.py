"""Spaces: a corpus with its vectors on one device, and the values derived from both."""

from __future__ import annotations

import logging
import threading
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar, cast

import numpy as np
import torch
from scipy.sparse import csr_array
from torch import Tensor

from engine.data.stores import StoreRef
from engine.display import OneLine
from engine.errors import DataError, FrontierError
from engine.matrix import Matrix
from engine.multi_vector import Parts
from engine.progress import counted
from engine.values import Corpus, Embeddings, EncoderRef, Queries, Ranking, real_tensor

DerivedValue = TypeVar("DerivedValue")


@dataclass(frozen=True, eq=False)
class QueryBatch:
    """A batch of B queries for scorers and selectors."""

    ids: tuple[str, ...]  # (B,)
    vectors: Tensor  # (B, d) on the space's device
    texts: tuple[str, ...] | None = None  # (B,) or None

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def required_texts(self) -> tuple[str, ...]:
        """The texts of the queries; DataError for queries that are vectors alone."""
        if self.texts is None:
            raise DataError("these queries are vectors alone, and the scorer reads their words")
        return self.texts

    def take(self, positions: Sequence[int]) -> QueryBatch:
        """Return the queries at some positions, in that order."""
        texts = None if self.texts is None else tuple(self.texts[position] for position in positions)
        return QueryBatch(tuple(self.ids[position] for position in positions), self.vectors[list(positions)], texts)

    def block(self, block_start: int, block_stop: int) -> QueryBatch:
        """Return the queries at positions block_start to block_stop."""
        if block_stop - block_start == len(self):
            return self
        block_texts = self.texts[block_start:block_stop] if self.texts is not None else None
        return QueryBatch(self.ids[block_start:block_stop], self.vectors[block_start:block_stop], block_texts)


class QueryAdaptation(Protocol):
    """A trained function from an encoder's query vectors to those by which a trained corpus is searched.

    Adapts queries embedded by `base` when called; passes adapted ones through; raises DataError for others.
    """

    @property
    def base(self) -> EncoderRef | None:
        """The encoder; None for vectors without one."""

    def __call__(self, queries: Embeddings) -> Embeddings: ...

    def passages(self, passages: Embeddings) -> Embeddings:
        """Return the adapted vectors of document parts; raise DataError if they cannot be adapted."""

    def documents(self, documents: Embeddings) -> tuple[Embeddings, Embeddings | None]:
        """Return the adapted vectors of documents, and several per document (ids as of `parts`) or None."""


MAX_DERIVED, MAX_DERIVED_BYTES = 8, 4 << 30
"""At most 8 derived values in at most 4 GiB per space; the least recently used is evicted first."""


def _describe_space(space: Space) -> str:
    """Return what the representation of a space says."""
    encoder = "own vectors" if space.encoder is None else f"encoder {space.encoder.name}"
    facts = f"{counted(len(space), 'document')}, {space.vectors.shape[1]:,} dimensions, {encoder}, {space.device}"
    return f"{facts}, corpus {space.corpus.name}"


class Space(OneLine):
    """A corpus and its embeddings on one device.

    Parameters
    ----------
    corpus : Corpus
        The documents.
    embeddings : Embeddings
        One vector for each document, with the same ids in the same order.
    device : str, torch.device or None
        None takes the GPU if there is one.
    parts : Embeddings or None
        Several vectors per document, with ids "id#0", "id#1" …, for multi-vector scorers; replaces vectors of the
        texts' passages.
    adapt : QueryAdaptation or None
        Adapts queries to trained embeddings.

    Raises
    ------
    DataError
        If the ids differ, the corpus is empty or a vector is not finite.

    Examples
    --------
    >>> corpus = Corpus(("a", "b"), ("one", "two"))
    >>> space = Space(corpus, Embeddings(corpus.ids, [[1.0, 0.0], [0.0, 1.0]]), device="cpu")
    >>> len(space), tuple(space.vectors.shape)
    (2, (2, 2))
    """

    _describe = _describe_space

    def __init__(
        self,
        corpus: Corpus,
        embeddings: Embeddings,
        device: str | torch.device | None = None,
        parts: Embeddings | None = None,
        adapt: QueryAdaptation | None = None,
    ) -> None:
        """Check that documents and vectors fit, and put the vectors on the device."""
        if corpus.ids != embeddings.ids:
            raise DataError(
                f"the embeddings are not of this corpus: {counted(len(corpus), 'document')}, "
                f"{counted(len(embeddings), 'vector')}, "
                f"{counted(len(set(corpus.ids) & set(embeddings.ids)), 'id')} in common; embed this corpus, or "
                "reorder the vectors"
            )
        self.corpus = corpus
        self.embeddings = embeddings
        self.adapt = adapt
        self.device, self.matrix = _place_vectors(embeddings, device)
        self.given_parts = parts
        self.parts = None
        if parts is not None:
            dimension = self.vectors.shape[1]
            if parts.dimension != dimension:
                raise DataError(f"parts must have the corpus's dimension, {dimension}; got {parts.dimension}")
            # Only for its checks: finite vectors whose products do not overflow.
            Matrix(parts.vectors, "parts")
            self.parts = Parts.from_embeddings(parts, corpus, self.vectors)
        # False for documents that a vector engine returned so far, which are no sample of the corpus.
        self.is_complete = True
        self._derived: OrderedDict[Hashable, _DerivedEntry] = OrderedDict()
        self._derived_lock = threading.Lock()

    @classmethod
    def of(cls, texts: Sequence[str], vectors: Any, ids: Sequence[str] | None = None) -> Space:
        """Return a space of texts and an (n, d) array or tensor, whose rows are scaled to length 1.

        ids: None numbers the texts from 0. Raises DataError if counts, shapes or ids do not fit, or if rows are not
        finite or all zero. `Space(corpus, Embeddings(ids, vectors))` does not scale the vectors.
        """
        rows = real_tensor(vectors, "vectors")
        matrix = Matrix(rows, "vectors")
        if len(texts) != len(rows):
            raise DataError(
                f"vectors must have one row per text: {counted(len(texts), 'text')}, shape {tuple(rows.shape)}"
            )
        if zero_rows := (matrix.lengths == 0).nonzero().flatten().tolist():
            examples = ", ".join(map(str, zero_rows[:5]))
            raise DataError(
                f"vectors must have rows with a length; {len(zero_rows)} are all zero (first: rows {examples})"
            )
        corpus = Corpus(tuple(map(str, range(len(rows)))) if ids is None else tuple(ids), tuple(texts))
        return cls(corpus, Embeddings(corpus.ids, rows / matrix.lengths.unsqueeze(1)))

    def __reduce__(self) -> tuple[type[Space], tuple[Any, ...]]:
        # Derived values are not pickled; the receiving machine derives them again.
        return Space, (self.corpus, self.embeddings, str(self.device), self.given_parts, self.adapt)

    def __len__(self) -> int:
        return len(self.corpus)

    @property
    def vectors(self) -> Tensor:
        """(n, d) vectors of the documents."""
        return self.matrix.vectors

    @property
    def encoder(self) -> EncoderRef | None:
        """The encoder of texts; None for a corpus that came with its own vectors.

        Queries are embedded by it first; `fitted` then applies the trained adapter, if there is one.
        """
        return self.embeddings.encoder if self.adapt is None else self.adapt.base

    def fitted(self, queries: Embeddings) -> Embeddings:
        """Return the queries as this space searches for them: adapted, if its vectors were trained."""
        return queries if self.adapt is None else self.adapt(queries)

    def with_documents(self, corpus: Corpus, embeddings: Embeddings) -> Space:
        """Return a space of other documents, whose embeddings by the encoder get this space's trained adapter.

        Raises DataError if another encoder embedded them, or if document vectors themselves were trained.
        """
        fitted, parts = (embeddings, None) if self.adapt is None else self.adapt.documents(embeddings)
        return Space(corpus, fitted, self.device, parts, self.adapt)

    def with_embeddings(self, embeddings: Embeddings) -> Space:
        """Return a space of the same corpus with other vectors, searched by the same queries, without parts.

        Parts are further vectors of a document. Raises DataError if the embeddings are not of this corpus's documents.
        """
        return Space(self.corpus, embeddings, self.device, adapt=self.adapt)

    def derived(self, key: Hashable, compute: Callable[[], DerivedValue]) -> DerivedValue:
        """Return a value derived from the space, such as an index, computed on first use and cached.

        Only threads that need the same value wait for it. key: the value's name and the parameters it depends on
        """
        with self._derived_lock:
            entry = self._derived.setdefault(key, _DerivedEntry())
            self._derived.move_to_end(key)
        # Computed under the entry's own lock, so that other values do not wait.
        with entry.lock:
            if not entry.ready:
                entry.value = compute()
                entry.ready = True
                self._evict_derived(key)
        return cast(DerivedValue, entry.value)

    def has_derived(self, key: Hashable) -> bool:
        """Return True if a derived value is cached, so that `derived` returns it at once."""
        entry = self._derived.get(key)
        return entry is not None and entry.ready

    def _evict_derived(self, newest_key: Hashable) -> None:
        """Evict the least recently used values until the limits hold, but never the newest."""
        # The newest value is never evicted, however large: its caller is about to use it.
        with self._derived_lock:
            while len(self._derived) > 1:
                oldest_key = next(iter(self._derived))
                total_bytes = sum(_estimate_bytes(entry.value) for entry in self._derived.values())
                if oldest_key == newest_key or (len(self._derived) <= MAX_DERIVED and total_bytes <= MAX_DERIVED_BYTES):
                    return
                del self._derived[oldest_key]


class Elsewhere(ABC):
    """A corpus that is not in memory: its documents are in a vector engine, which returns the nearest.

    Decoders search it like a Space; `Reach` is the implementation.
    """

    @property
    @abstractmethod
    def probe(self) -> Space:
        """A space of one or two documents that stands in for the corpus where queries are embedded.

        It has the encoder, by which a query's text becomes the vector to send to the vector engine.
        """

    @abstractmethod
    def __len__(self) -> int: ...

    @property
    @abstractmethod
    def ref(self) -> StoreRef:
        """The identity of the documents at the last request, such as their number, to notice changes by."""

    @property
    def name(self) -> str:
        """The corpus's name, as `engine.attach` takes it."""
        return self.ref.collection

    @property
    def digest(self) -> str:
        """The identity of the documents, as far as it is available without reading all of them."""
        return self.ref.digest

    @property
    @abstractmethod
    def space(self) -> Space:
        """The documents retrieved so far as a space, whose rows rankings refer to; new ones go to its end."""

    @abstractmethod
    def decode_grid(self, decoders: Any, queries: Any, k: int = 10) -> list[Ranking]:
        """Return the rankings of `engine.decode` for each decoder, as rows of `space`."""

    @property
    def encoder(self) -> EncoderRef | None:
        """The encoder by which text queries are embedded; None if the one of the documents is unknown."""
        return self.probe.encoder

    @property
    def adapt(self) -> None:
        """None: queries for a vector engine are not adapted, as its vectors cannot be trained further here."""
        return None

    def refuse(self, task: str) -> DataError:
        """Return the error for a task that needs all documents in memory; its message begins with `task`."""
        return DataError(
            f"{task} needs all documents, and those of {self.name} are in a vector engine; decode, measure and sweep "
            "there, or load the corpus as a file"
        )

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name}: {len(self):,} documents)"

    def __getattr__(self, name: str) -> Any:
        """Raise an error for a missing attribute; for one that only a Space has, it tells what to do."""
        if name in ("corpus", "embeddings", "vectors", "matrix", "parts", "derived", "with_embeddings"):
            # Python calls this for missing attributes only: those of a Space explain what to do.
            raise self.refuse(f"what reads the {name.replace('_', ' ')} of a space")
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")


def resolve_local_space(space: Space | Elsewhere, ranking: Ranking | None = None) -> Space:
    """Return the space whose rows a ranking holds: `space` itself, or a remote corpus's fetched documents.

    ranking: if given, its rows are checked; raises DataError if the remote documents have changed since the ranking was
    made, so that its rows are other documents now.
    """
    if not isinstance(space, Elsewhere):
        return space
    local = space.space
    if ranking is None:
        return local
    for query, query_info in enumerate(ranking.info):
        rows = ranking.rows(query)
        # Rows beyond the space, or with other ids, are of a version of the store that is gone.
        ids = [local.corpus.ids[row] if row < len(local) else None for row in rows]
        if ids != list(query_info["ids"])[: len(rows)]:
            raise DataError(f"{space.name} changed while asked: this ranking is of other documents; decode again")
    return local


def find_own_documents(
    space: Space | Elsewhere,
    query_ids: Sequence[str],
    query_texts: Sequence[str] | None,
    without_self: bool | None = None,
) -> np.ndarray:
    """Return the (B,) row of the document that each query is itself, −1 for none.

    In data such as duplicate questions the queries are documents. without_self: None for a document that has the
    query's id and its text, with or without its title; True for one with its id, whatever the text; False for none. A
    corpus in a vector engine has none.
    """
    own_rows = np.full(len(query_ids), -1, dtype=np.int64)
    if without_self is False or (without_self is None and query_texts is None) or isinstance(space, Elsewhere):
        return own_rows
    corpus = space.corpus
    for query_index, query_id in enumerate(query_ids):
        row = corpus.position.get(query_id)
        if row is None:
            continue
        if query_texts is None or without_self:
            own_rows[query_index] = row
        elif query_texts[query_index].strip() in (corpus.texts[row].strip(), corpus.passages[row].strip()):
            # Two empty texts agree on nothing.
            own_rows[query_index] = row if query_texts[query_index].strip() else -1
    return own_rows


def describe_own_documents(
    space: Space | Elsewhere, queries: Queries | Embeddings, without_self: bool | None = None
) -> str | None:
    """Return in words how many of the queries are documents, which their own answers leave out; None if none is."""
    count = int((find_own_documents(space, queries.ids, queries.texts, without_self) >= 0).sum())
    if not count:
        return None
    ids_text = "the same id" if without_self else "the same id and text"
    are_text = "is a document" if count == 1 else "are documents"
    return (
        f"{count:,} of {counted(len(queries), 'query', 'queries')} {are_text} of the corpus, with {ids_text}: each is "
        "left out of its own answer, and is neither returned nor relevant in the figures"
    )


def probe_of(space: Space | Elsewhere) -> Space:
    """Return the space that queries are embedded for: `space` itself, or a remote corpus's stand-in."""
    return space if isinstance(space, Space) else space.probe


class _DerivedEntry:
    """A slot for one derived value: its lock, the value, and True once that is computed."""

    def __init__(self) -> None:
        self.lock, self.ready = threading.RLock(), False
        self.value: Any = None


def _place_vectors(embeddings: Embeddings, device: str | torch.device | None) -> tuple[torch.device, Matrix]:
    """Put vectors on a device; return the device and their Matrix.

    By default that is the GPU if there is one, else, or if it has no room, the CPU. Raises FrontierError if a device
    that was asked for has no room.
    """
    target_device = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
    try:
        return target_device, Matrix(embeddings.vectors.to(target_device), cached=True, file=embeddings.file)
    except torch.OutOfMemoryError:
        shortage = f"{target_device} has no room for {len(embeddings.vectors):,} vectors"
    # A device that the user chose is not replaced silently.
    if device is not None:
        raise FrontierError(f"{shortage}: take device='cpu'")
    logging.getLogger("frontier").warning("note: %s, so the CPU searches them", shortage)
    return torch.device("cpu"), Matrix(embeddings.vectors, cached=True, file=embeddings.file)


def _estimate_bytes(value: Any) -> int:
    """Return the bytes of a derived value: a tensor, sparse array, tuple or a value with `bytes`; else 0."""
    if isinstance(value, Tensor):
        return value.numel() * value.element_size()
    if isinstance(value, tuple):
        return sum(map(_estimate_bytes, value))
    if isinstance(value, csr_array):
        return int(value.data.nbytes + value.indices.nbytes + value.indptr.nbytes)
    return int(getattr(value, "bytes", 0))
