"""Corpus, queries, judgements, embeddings and rankings: frozen values, equal when their contents are.

Identity is a digest of the whole content: caches, stored sweeps and links all name values by it.
"""

from __future__ import annotations

import hashlib
from abc import abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from random import Random
from typing import Any, overload

import numpy as np
import torch
from torch import Tensor

from engine.errors import DataError


class ByDigest:
    """Equality and hash by `digest`."""

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the content."""
        raise NotImplementedError

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ByDigest) and type(self) is type(other) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash((type(self).__name__, self.digest))


class TextSource(Sequence[str]):
    """Texts that stay where they are, on disk or in a store, and are read when asked for: a `Corpus` keeps it as it is.

    Subclasses give `__len__` and `many`, and may be read by several threads at once.
    """

    CHUNK = 4096
    """Texts read at a time by a pass over all."""

    @abstractmethod
    def many(self, rows: Sequence[int]) -> list[str]:
        """The texts of the rows, each from 0 to below the length, in the order given."""

    @overload
    def __getitem__(self, row: int) -> str: ...
    @overload
    def __getitem__(self, row: slice) -> Sequence[str]: ...
    def __getitem__(self, row: int | slice) -> str | Sequence[str]:
        # A range knows what a negative row, a slice and a row too far mean.
        chosen = range(len(self))[row]
        return self.many([chosen])[0] if isinstance(chosen, int) else tuple(self.many(chosen))

    def __iter__(self) -> Iterator[str]:
        every = range(len(self))
        for start in range(0, len(every), self.CHUNK):
            yield from self.many(every[start : start + self.CHUNK])


@dataclass(frozen=True, eq=False)
class PassageSource(TextSource):
    """Title and text of each document, separated by a space, made when asked for."""

    titles: Sequence[str]
    texts: Sequence[str]

    def __len__(self) -> int:
        return len(self.texts)

    def many(self, rows: Sequence[int]) -> list[str]:
        titles, texts = texts_of(self.titles, rows), texts_of(self.texts, rows)
        return [f"{title} {text}".strip() for title, text in zip(titles, texts, strict=True)]


def texts_of(texts: Sequence[str], rows: Sequence[int]) -> list[str]:
    """The texts of the rows, in the order given: one reading where the texts lie elsewhere."""
    return texts.many(rows) if isinstance(texts, TextSource) else [texts[row] for row in rows]


def digest_of(parts: Iterable[str | bytes | memoryview]) -> str:
    """SHA-256 over length-prefixed parts, so that different lists of parts have different digests."""
    h = hashlib.sha256()
    for part in parts:
        # Lone surrogates are legal in JSON strings; they must not stop a corpus from having an identity.
        raw = part.encode("utf-8", "surrogatepass") if isinstance(part, str) else memoryview(part).cast("B")
        h.update(len(raw).to_bytes(8, "little"))
        h.update(raw)
    return h.hexdigest()


class Labelled(ByDigest):
    """A value with `ids`, one a row."""

    ids: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.ids)

    @cached_property
    def position(self) -> dict[str, int]:
        """The row of an id."""
        return {name: row for row, name in enumerate(self.ids)}

    def _check(self, owner: str, **fields: str) -> None:
        """Make tuples of strings of the fields, (field=what errors call it), and refuse repeated ids."""
        for name, label in fields.items():
            object.__setattr__(self, name, _strings(getattr(self, name), label))
        if len(set(self.ids)) < len(self.ids):
            repeated = [name for name, count in Counter(self.ids).items() if count > 1]
            first = ", ".join(map(repr, repeated[:5]))
            raise DataError(f"{owner}: {len(repeated)} ids occur more than once (first: {first})")

    def _check_metadata(self, metadata: Mapping[str, Sequence[str]]) -> None:
        """Refuse columns that do not have one value a row."""
        for column, values in metadata.items():
            if len(values) != len(self.ids):
                raise DataError(f"metadata {column!r} needs one value per id: {len(values)} for {len(self.ids)} ids")


@dataclass(frozen=True, eq=False)
class Corpus(Labelled):
    """Documents: ids, texts and titles (default: empty), of one length.

    `name` and `metadata`, columns with one text a document, are no part of their identity, and are never embedded.
    Texts and titles are tuples, or `TextSource`s, which are kept as they are.
    """

    ids: tuple[str, ...]
    texts: Sequence[str]
    titles: Sequence[str] = ()
    name: str = "corpus"
    metadata: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._check("corpus", ids="corpus ids", texts="corpus texts", titles="corpus titles")
        object.__setattr__(self, "titles", self.titles or ("",) * len(self.ids))
        if not len(self.ids) == len(self.texts) == len(self.titles):
            raise DataError(
                f"a corpus needs one text and one title per id: {len(self.ids)} ids, {len(self.texts)} texts, "
                f"{len(self.titles)} titles"
            )
        self._check_metadata(self.metadata)

    @cached_property
    def digest(self) -> str:
        return digest_of(part for row in zip(self.ids, self.titles, self.texts, strict=True) for part in row)

    @cached_property
    def passages(self) -> Sequence[str]:
        """Title and text, separated by a space: the text that is embedded and shown."""
        if isinstance(self.texts, TextSource) or isinstance(self.titles, TextSource):
            return PassageSource(self.titles, self.texts)
        return tuple(f"{title} {text}".strip() for title, text in zip(self.titles, self.texts, strict=True))


@dataclass(frozen=True, eq=False)
class Queries(Labelled):
    """Queries: ids and texts, of one length; `metadata` as of a Corpus."""

    ids: tuple[str, ...]
    texts: tuple[str, ...]
    metadata: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._check("queries", ids="query ids", texts="query texts")
        if len(self.ids) != len(self.texts):
            raise DataError(f"queries need one text per id: {len(self.ids)} ids, {len(self.texts)} texts")
        self._check_metadata(self.metadata)

    @classmethod
    def of(cls, texts: str | Sequence[str]) -> Queries:
        """Unlabelled queries from plain text; their ids are their positions."""
        texts = (texts,) if isinstance(texts, str) else tuple(texts)
        return cls(tuple(str(i) for i in range(len(texts))), texts)

    @cached_property
    def digest(self) -> str:
        return digest_of(part for row in zip(self.ids, self.texts, strict=True) for part in row)

    @cached_property
    def counted(self) -> Counter[str]:
        """Number of queries with each text."""
        return Counter(self.texts)

    def only(self, ids: Iterable[str]) -> Queries:
        """The queries among `ids`, in original order."""
        chosen = set(ids)
        rows = [row for row, query in enumerate(self.ids) if query in chosen]
        metadata = {column: tuple(values[row] for row in rows) for column, values in self.metadata.items()}
        return Queries(tuple(self.ids[row] for row in rows), tuple(self.texts[row] for row in rows), metadata)

    def sample(self, count: int, seed: int = 0) -> Queries:
        """At most `count` queries at random (seeded), in original order."""
        return self if count >= len(self) else self.only(Random(seed).sample(self.ids, count))


@dataclass(frozen=True, eq=False)
class Qrels(ByDigest):
    """Judgements: `grades[query][document]` is a whole number; above 0 is relevant."""

    grades: Mapping[str, Mapping[str, int]]

    def __len__(self) -> int:
        return len(self.grades)

    @cached_property
    def digest(self) -> str:
        judged = ((query, sorted(grades.items())) for query, grades in sorted(self.grades.items()))
        return digest_of(part for query, grades in judged for doc, grade in grades for part in (query, doc, str(grade)))

    @property
    def count(self) -> int:
        """The number of judgements."""
        return sum(map(len, self.grades.values()))

    def relevant(self, query: str) -> frozenset[str]:
        """The documents judged relevant to a query; none for a query that is not judged."""
        return frozenset(doc for doc, grade in self.grades.get(query, {}).items() if grade > 0)


class UsableSplits(dict[str, Qrels]):
    """Judgements by split, without those over which nothing can be measured; to ask for one of these raises why.

    refused: split → why
    """

    def __init__(self, usable: Mapping[str, Qrels], refused: Mapping[str, str]) -> None:
        super().__init__(usable)
        self.refused = dict(refused)

    def __missing__(self, split: str) -> Qrels:
        raise DataError(no_split(self, split))


def no_split(qrels: Mapping[str, Qrels], split: str | None) -> str:
    """Why a split is not among the judgements."""
    refused = qrels.refused if isinstance(qrels, UsableSplits) else {}
    return refused.get(split or "") or f"no split {split!r}; there are {', '.join(qrels) or 'no judgements'}"


@dataclass(frozen=True)
class Notice:
    """A remark on the data.

    what: the remark, a noun phrase after the count
    count: number of cases
    first: the first few ids
    """

    what: str
    count: int
    first: tuple[str, ...] = ()

    @classmethod
    def of(cls, what: str, ids: Iterable[str]) -> tuple[Notice, ...]:
        """The remark on these ids; none where there are none."""
        ids = tuple(ids)
        return (cls(what, len(ids), ids[:5]),) if ids else ()

    def __str__(self) -> str:
        ids = replace_surrogates(", ".join(map(repr, self.first)))
        return f"{self.count:,} {self.what}" + (f" (first: {ids})" if ids else "")


@dataclass(frozen=True, eq=False)
class Dataset:
    """A corpus with queries, judgements, aspects and vectors.

    qrels: judgements by split; of a data set that was read, `UsableSplits`
    aspects: `aspects[query][aspect]` is the set of documents that cover it; None without aspects
    vectors: embeddings that came with the corpus, or None
    notices: the reader's remarks
    """

    corpus: Corpus
    queries: Queries
    qrels: Mapping[str, Qrels] = field(default_factory=dict)
    aspects: Mapping[str, Mapping[str, frozenset[str]]] | None = None
    vectors: Embeddings | None = None
    notices: tuple[Notice, ...] = ()

    def judged(self, split: str) -> Queries:
        """The queries that a split judges, in corpus-file order. Raises DataError where it cannot be measured."""
        if split not in self.qrels:
            raise DataError(no_split(self.qrels, split))
        if split not in self._judged:
            self._judged[split] = self.queries.only(self.qrels[split].grades)
        return self._judged[split]

    @cached_property
    def _judged(self) -> dict[str, Queries]:
        return {}


@dataclass(frozen=True)
class EncoderRef:
    """The encoder of a matrix: its name as the user wrote it, the digest of its weights, and the arithmetic."""

    name: str
    digest: str
    dtype: str


@dataclass(frozen=True, eq=False)
class Embeddings(Labelled):
    """One vector per id, as given: nothing is scaled.

    vectors: (n, d) float32 or float64
    encoder: None for vectors from a file or array
    texts: the embedded texts, or None; scorers that read words need those of queries; no part of the identity
    file: the one that the vectors are mapped from, row for row; no part of the identity either
    """

    ids: tuple[str, ...]
    vectors: Tensor
    encoder: EncoderRef | None = None
    texts: tuple[str, ...] | None = None
    file: Path | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "vectors", real_tensor(self.vectors, "vectors"))
        self._check("embeddings", ids="embedding ids")
        if self.texts is not None:
            object.__setattr__(self, "texts", _strings(self.texts, "embedded texts"))
            if len(self.texts) != len(self.ids):
                raise DataError(f"embeddings need one text per id: {len(self.ids)} ids, {len(self.texts)} texts")
        if self.vectors.ndim != 2 or len(self.ids) != self.vectors.shape[0]:
            raise DataError(
                f"embeddings need one row per id: {len(self.ids)} ids, vectors of shape {tuple(self.vectors.shape)}"
            )

    @property
    def dimension(self) -> int:
        return self.vectors.shape[1]

    def lying_in(self, file: Path | None) -> Embeddings:
        """The same, known to be mapped from a file; what is made of them is not, unless it is said again."""
        same = copy(self)
        object.__setattr__(same, "file", file)
        return same

    def take(self, rows: Sequence[int]) -> Embeddings:
        """The given rows, in that order."""
        texts = None if self.texts is None else tuple(self.texts[row] for row in rows)
        return Embeddings(tuple(self.ids[row] for row in rows), self.vectors[list(rows)], self.encoder, texts)

    @cached_property
    def digest(self) -> str:
        rows = self.vectors.detach().cpu().contiguous().numpy()
        return digest_of([*self.ids, str(rows.shape), str(rows.dtype), rows.reshape(-1).data])


@dataclass(frozen=True, eq=False)
class Ranking:
    """A selector's answer for B queries.

    index: (B, k) int64 row positions, best first, padded with −1
    gain: (B, k) the method's own ranking score, 0 on pads
    info: per query, diagnostics such as certificates and weights
    """

    index: Tensor
    gain: Tensor
    info: tuple[Mapping[str, Any], ...]

    def __len__(self) -> int:
        return self.index.shape[0]

    @property
    def returned(self) -> Tensor:
        """(B,) number of documents per query."""
        return (self.index >= 0).sum(1)

    def rows(self, query: int = 0) -> list[int]:
        """The documents of one query's set, best first."""
        return [row for row in self.index[query].tolist() if row >= 0]

    @staticmethod
    def joined(parts: Sequence[Ranking]) -> Ranking:
        """Concatenate the rankings of consecutive blocks of queries."""
        if len(parts) == 1:
            return parts[0]
        return Ranking(
            torch.cat([p.index for p in parts]),
            torch.cat([p.gain for p in parts]),
            tuple(entry for p in parts for entry in p.info),
        )


def replace_surrogates(text: str) -> str:
    """The text with lone surrogates replaced: JSON allows them, tokenizers and screens do not."""
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
    tensor: Tensor = data.detach()
    if tensor.dtype in (torch.float32, torch.float64):
        return tensor
    exact_in_float32 = tensor.dtype in (torch.float16, torch.bfloat16, torch.int8, torch.uint8, torch.int16)
    return tensor.float() if exact_in_float32 else tensor.double()


def _strings(values: Iterable[Any], name: str) -> Sequence[str]:
    """`values` as a tuple, or the source that they are; DataError names the first that is no string."""
    if isinstance(values, TextSource):
        return values
    if isinstance(values, str):
        raise DataError(f"{name} must be a list of strings; got one string")
    strings = tuple(values)
    for number, value in enumerate(strings):
        if not isinstance(value, str):
            raise DataError(f"{name} must be strings; number {number} is {value!r}")
    return strings
