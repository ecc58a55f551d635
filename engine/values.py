"""The values that flow through the engine: frozen, and equal when their contents are.

Identity is a digest of the content, never of an object's address or of a sample of an array: caches, stored
sweeps and links all name values by it.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from random import Random
from typing import Any

import numpy as np
import torch
from torch import Tensor

from engine.errors import DataError


class ByDigest:
    """Equality and hash by `digest`."""

    digest: str

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.digest == other.digest  # type: ignore[attr-defined]

    def __hash__(self) -> int:
        return hash((type(self).__name__, self.digest))


def digest_of(parts: Iterable[str | bytes]) -> str:
    """SHA-256 over length-prefixed parts, so that no two different lists of parts meet in one digest."""
    h = hashlib.sha256()
    for part in parts:
        # Lone surrogates are legal in JSON strings; they must not stop a corpus from having an identity.
        raw = part.encode("utf-8", "surrogatepass") if isinstance(part, str) else part
        h.update(len(raw).to_bytes(8, "little"))
        h.update(raw)
    return h.hexdigest()


@dataclass(frozen=True, eq=False)
class Corpus(ByDigest):
    """Documents: ids, texts and titles (which may be empty), of one length; `name` is no part of their identity."""

    ids: tuple[str, ...]
    texts: tuple[str, ...]
    titles: tuple[str, ...] = ()
    name: str = "corpus"

    def __post_init__(self) -> None:
        for name in ("ids", "texts", "titles"):
            object.__setattr__(self, name, _strings(getattr(self, name), f"corpus {name}"))
        _unique(self.ids, "corpus")
        object.__setattr__(self, "titles", self.titles or ("",) * len(self.ids))
        if not len(self.ids) == len(self.texts) == len(self.titles):
            raise DataError(
                f"a corpus needs one text and one title per id: {len(self.ids)} ids, {len(self.texts)} texts, "
                f"{len(self.titles)} titles"
            )

    def __len__(self) -> int:
        return len(self.ids)

    @cached_property
    def digest(self) -> str:
        return digest_of(part for row in zip(self.ids, self.titles, self.texts, strict=True) for part in row)

    @cached_property
    def passages(self) -> tuple[str, ...]:
        """What is embedded and shown: title and text, separated by a space."""
        return tuple(f"{title} {text}".strip() for title, text in zip(self.titles, self.texts, strict=True))

    @cached_property
    def position(self) -> dict[str, int]:
        """The row of an id."""
        return {doc: row for row, doc in enumerate(self.ids)}


@dataclass(frozen=True, eq=False)
class Queries(ByDigest):
    """Queries: ids and texts, of one length."""

    ids: tuple[str, ...]
    texts: tuple[str, ...]

    def __post_init__(self) -> None:
        for name in ("ids", "texts"):
            object.__setattr__(self, name, _strings(getattr(self, name), f"query {name}"))
        _unique(self.ids, "queries")
        if len(self.ids) != len(self.texts):
            raise DataError(f"queries need one text per id: {len(self.ids)} ids, {len(self.texts)} texts")

    def __len__(self) -> int:
        return len(self.ids)

    @classmethod
    def of(cls, texts: str | Sequence[str]) -> Queries:
        """Unlabelled queries from plain text; their ids are their positions."""
        texts = (texts,) if isinstance(texts, str) else tuple(texts)
        return cls(tuple(str(i) for i in range(len(texts))), texts)

    @cached_property
    def digest(self) -> str:
        return digest_of(part for row in zip(self.ids, self.texts, strict=True) for part in row)

    @cached_property
    def position(self) -> dict[str, int]:
        """The row of an id."""
        return {query: row for row, query in enumerate(self.ids)}

    @cached_property
    def counted(self) -> Counter[str]:
        """How many queries have a text."""
        return Counter(self.texts)

    def only(self, ids: Iterable[str]) -> Queries:
        """The queries among `ids`, in their own order."""
        wanted = set(ids)
        kept = [(i, t) for i, t in zip(self.ids, self.texts, strict=True) if i in wanted]
        return Queries(tuple(i for i, _ in kept), tuple(t for _, t in kept))

    def sample(self, count: int, seed: int = 0) -> Queries:
        """So many of them at random, in their own order; all where there are no more."""
        return self if count >= len(self) else self.only(Random(seed).sample(self.ids, count))


@dataclass(frozen=True, eq=False)
class Qrels(ByDigest):
    """Judgements: `grades[query][document]` is a whole number; above 0 is relevant."""

    grades: Mapping[str, Mapping[str, int]]

    def __len__(self) -> int:
        return len(self.grades)

    @cached_property
    def digest(self) -> str:
        return digest_of(
            part
            for query in sorted(self.grades)
            for doc in sorted(self.grades[query])
            for part in (query, doc, str(self.grades[query][doc]))
        )

    @property
    def count(self) -> int:
        """How many judgements there are."""
        return sum(map(len, self.grades.values()))

    def relevant(self, query: str) -> frozenset[str]:
        """The documents judged relevant to a query; empty where it has none or is not judged."""
        return frozenset(doc for doc, grade in self.grades.get(query, {}).items() if grade > 0)


@dataclass(frozen=True)
class Notice:
    """Something about the data that a person should know: what, how often, and the first few ids."""

    what: str
    count: int
    first: tuple[str, ...] = ()

    def __str__(self) -> str:
        ids = showable(", ".join(map(repr, self.first)))
        return f"{self.count:,} {self.what}" + (f" (first: {ids})" if ids else "")


@dataclass(frozen=True, eq=False)
class Dataset:
    """A corpus with what is known about it.

    qrels: judgements by split; aspects: `aspects[query][aspect]` is the set of documents that cover it, or None;
    vectors: embeddings that came with the corpus, or None; notices: what the reader had to remark.
    """

    corpus: Corpus
    queries: Queries
    qrels: Mapping[str, Qrels] = field(default_factory=dict)
    aspects: Mapping[str, Mapping[str, frozenset[str]]] | None = None
    vectors: Embeddings | None = None
    notices: tuple[Notice, ...] = ()

    def judged(self, split: str) -> Queries:
        """The queries that a split judges, in corpus-file order."""
        if split not in self.qrels:
            raise DataError(f"no split {split!r}; this data set has {', '.join(self.qrels) or 'no judgements'}")
        if split not in self._judged:
            self._judged[split] = self.queries.only(self.qrels[split].grades)
        return self._judged[split]

    @cached_property
    def _judged(self) -> dict[str, Queries]:
        return {}


@dataclass(frozen=True)
class EncoderRef:
    """Which encoder made a matrix: the name a person gave, the digest of its weights, and the arithmetic used."""

    name: str
    digest: str
    dtype: str


@dataclass(frozen=True, eq=False)
class Embeddings(ByDigest):
    """One vector per id. vectors: (n, d) float32 (or float64); encoder: None for vectors that were brought along.

    texts: what was embedded, where it is known: scorers that read words need it of queries; no part of the identity.
    """

    vectors: Tensor
    ids: tuple[str, ...]
    encoder: EncoderRef | None = None
    texts: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "vectors", real_tensor(self.vectors, "vectors"))
        object.__setattr__(self, "ids", _strings(self.ids, "embedding ids"))
        _unique(self.ids, "embeddings")
        if self.texts is not None:
            object.__setattr__(self, "texts", _strings(self.texts, "embedded texts"))
            if len(self.texts) != len(self.ids):
                raise DataError(f"embeddings need one text per id: {len(self.ids)} ids, {len(self.texts)} texts")
        if self.vectors.ndim != 2 or len(self.ids) != self.vectors.shape[0]:
            raise DataError(
                f"embeddings need one row per id: {len(self.ids)} ids, vectors of shape {tuple(self.vectors.shape)}"
            )

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def dimension(self) -> int:
        return self.vectors.shape[1]

    def take(self, rows: Sequence[int]) -> Embeddings:
        """Some of the rows, in the order given."""
        texts = None if self.texts is None else tuple(self.texts[row] for row in rows)
        return Embeddings(self.vectors[list(rows)], tuple(self.ids[row] for row in rows), self.encoder, texts)

    @cached_property
    def digest(self) -> str:
        rows = self.vectors.detach().cpu().contiguous().numpy()
        return digest_of([*self.ids, str(rows.shape), str(rows.dtype), rows.tobytes()])


@dataclass(frozen=True, eq=False)
class Ranking:
    """What a selector returned for B queries.

    index: (B, k) int64 row positions, best first, -1 pads; gain: (B, k) what the method itself ranks by, 0 on
    pads; info: per query, what a person needs to trust the answer.
    """

    index: Tensor
    gain: Tensor
    info: tuple[Mapping[str, Any], ...]

    def __len__(self) -> int:
        return self.index.shape[0]

    @property
    def returned(self) -> Tensor:
        """(B,) how many documents each query got."""
        return (self.index >= 0).sum(1)

    @staticmethod
    def joined(parts: Sequence[Ranking]) -> Ranking:
        """Rankings of consecutive blocks of queries as one."""
        if len(parts) == 1:
            return parts[0]
        return Ranking(
            torch.cat([p.index for p in parts]),
            torch.cat([p.gain for p in parts]),
            tuple(entry for p in parts for entry in p.info),
        )


def showable(text: str) -> str:
    """The text without lone surrogates, which JSON allows and neither tokenizers nor screens do."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


def real_tensor(data: Any, name: str) -> Tensor:
    """An array, tensor or list of numbers as a float32 tensor, or float64 where float32 would lose digits.

    Raises DataError, naming the argument, for anything that is not real numbers.
    """
    try:
        if not isinstance(data, Tensor):
            array = np.asarray(data)
            # longdouble and foreign byte orders are numbers too, but not ones that torch knows.
            native = array.astype(float) if array.dtype.kind == "f" and not array.dtype.isnative else array
            data = torch.from_numpy(np.ascontiguousarray(native))
    except (TypeError, ValueError) as error:
        raise DataError(f"{name} must be a numeric array or tensor; got {type(data).__name__} ({error})") from None
    if data.is_complex() or data.dtype == torch.bool or data.layout != torch.strided or data.is_meta:
        raise DataError(f"{name} must hold real numbers in a dense array; got {data.dtype}, {data.layout}")
    data = data.detach()
    if data.dtype in (torch.float32, torch.float64):
        return data
    fits = data.dtype in (torch.float16, torch.bfloat16, torch.int8, torch.uint8, torch.int16)
    return data.float() if fits else data.double()


def _strings(values: Any, what: str) -> tuple[str, ...]:
    """`values` as a tuple, or a DataError that names the first that is no string."""
    if isinstance(values, str):
        raise DataError(f"{what} must be a list of strings; got one string")
    values = tuple(values)
    for at, value in enumerate(values):
        if not isinstance(value, str):
            raise DataError(f"{what} must be strings; number {at} is {value!r}")
    return values


def _unique(ids: Sequence[str], what: str) -> None:
    if len(set(ids)) == len(ids):
        return
    seen: set[str] = set()
    twice = list(dict.fromkeys(i for i in ids if i in seen or seen.add(i)))  # type: ignore[func-returns-value]
    raise DataError(f"{what}: {len(twice)} ids occur more than once (first: {', '.join(map(repr, twice[:5]))})")
