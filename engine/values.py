"""Corpus, queries, judgements, embeddings and rankings: frozen values, equal when their contents are.

Identity is a digest of the whole content; caches, stored sweeps and links name values by it.
"""

from __future__ import annotations

import hashlib
from abc import abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from copy import copy
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from numbers import Real
from pathlib import Path
from random import Random
from typing import Any, overload

import numpy as np
import torch
from torch import Tensor

from engine.display import MAX_TEXT_CHARS, DataFrame, OneLine, Tabular, build_table, list_briefly
from engine.errors import DataError, ParamError
from engine.progress import counted, shorten
from engine.wording import singular_remark


class ByDigest(OneLine):
    """Base of values that are equal when the digests of their contents are."""

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the content, by which values are compared; subclasses compute it."""
        raise NotImplementedError

    def __eq__(self, value: object) -> bool:
        return isinstance(value, ByDigest) and type(self) is type(value) and self.digest == value.digest

    def __hash__(self) -> int:
        # Values of two classes are never equal, whatever their digests, so the class counts here too.
        return hash((type(self).__name__, self.digest))


class TextSource(Sequence[str]):
    """A sequence of texts that stay on disk or in a store and are read on demand.

    A `Corpus` keeps it as it is. Subclasses define `__len__` and `read_rows`, and must allow concurrent reads.
    """

    ROWS_PER_READ = 4096
    """Texts that iteration reads at a time."""

    @abstractmethod
    def read_rows(self, row_ids: Sequence[int]) -> list[str]:
        """Return the texts of the rows, each in [0, length), in the given order."""

    @overload
    def __getitem__(self, row: int) -> str: ...
    @overload
    def __getitem__(self, row: slice) -> Sequence[str]: ...
    def __getitem__(self, row: int | slice) -> str | Sequence[str]:
        """Return the text at a row, or a tuple of those in a slice."""
        # Indexing a range resolves negative rows and slices, and raises IndexError for a row too far.
        chosen_rows = range(len(self))[row]
        return self.read_rows([chosen_rows])[0] if isinstance(chosen_rows, int) else tuple(self.read_rows(chosen_rows))

    def __iter__(self) -> Iterator[str]:
        """Yield all texts, read in batches of ROWS_PER_READ."""
        all_rows = range(len(self))
        for block_start in range(0, len(all_rows), self.ROWS_PER_READ):
            yield from self.read_rows(all_rows[block_start : block_start + self.ROWS_PER_READ])


@dataclass(frozen=True, eq=False)
class PassageSource(TextSource):
    """Title and text of each document, separated by a space and joined on demand."""

    titles: Sequence[str]
    texts: Sequence[str]

    def __len__(self) -> int:
        return len(self.texts)

    def read_rows(self, row_ids: Sequence[int]) -> list[str]:
        return _join_titles(texts_of(self.titles, row_ids), texts_of(self.texts, row_ids))


def texts_of(texts: Sequence[str], row_ids: Sequence[int]) -> list[str]:
    """Return the texts of the rows, in the given order, with one read where they come from a `TextSource`."""
    return texts.read_rows(row_ids) if isinstance(texts, TextSource) else list(_select_rows(texts, row_ids))


def digest_of(parts: Iterable[str | bytes | memoryview]) -> str:
    """Return the SHA-256 of a list of texts or bytes, as the identity of a value.

    Each part is preceded by its length, so that ("ab", "c") and ("a", "bc") differ.
    """
    hasher = hashlib.sha256()
    for part in parts:
        # Lone surrogates are legal in JSON strings; they must not stop a corpus from having an identity.
        raw_bytes = part.encode("utf-8", "surrogatepass") if isinstance(part, str) else memoryview(part).cast("B")
        hasher.update(len(raw_bytes).to_bytes(8, "little"))
        hasher.update(raw_bytes)
    return hasher.hexdigest()


class Labelled(ByDigest):
    """Base of values whose rows have ids, such as a corpus, queries or embeddings."""

    ids: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.ids)

    @cached_property
    def position(self) -> dict[str, int]:
        """The row of each id."""
        return {row_id: row for row, row_id in enumerate(self.ids)}

    def _check_fields(self, owner: str, **field_labels: str) -> None:
        """Convert fields of a frozen value to tuples of strings; raise DataError if its ids repeat.

        owner: what messages call the value, such as "corpus"; field_labels: for each field to convert, what messages
        call it, such as ids="corpus ids"
        """
        # The instance is frozen: converted fields replace the given ones through `object`.
        for name, label in field_labels.items():
            object.__setattr__(self, name, _as_strings(getattr(self, name), label))
        if len(set(self.ids)) < len(self.ids):
            # Counted only after the cheaper test has failed.
            repeated = [name for name, count in Counter(self.ids).items() if count > 1]
            first = ", ".join(map(repr, repeated[:5]))
            raise DataError(f"{owner}: {counted(len(repeated), 'id')} more than once (first: {first})")

    def _check_metadata(self, metadata: Mapping[str, Sequence[str]]) -> None:
        """Raise DataError for a metadata column that has not exactly one value for each id."""
        for column, values in metadata.items():
            if len(values) != len(self.ids):
                raise DataError(
                    f"metadata {column!r} needs one value per id: {len(values)} for {counted(len(self.ids), 'id')}"
                )


@dataclass(frozen=True, eq=False)
class Corpus(Labelled):
    """Documents with ids, texts and titles.

    Parameters
    ----------
    ids : tuple of str
        Unique ids of the documents.
    texts : tuple of str or TextSource
        One text for each id.
    titles : tuple of str or TextSource
        One title for each id; empty titles by default.
    name : str
        Name for display; not part of the identity.
    metadata : mapping of str to tuple of str
        Columns with one value for each document; not part of the identity, and never embedded.

    Raises
    ------
    DataError
        If ids repeat, a value is not a string or the lengths differ.

    Examples
    --------
    >>> corpus = Corpus(("a", "b"), ("first text", "second text"), ("First", "Second"))
    >>> corpus.passages[1]
    'Second second text'
    """

    ids: tuple[str, ...]
    texts: Sequence[str]
    titles: Sequence[str] = ()
    name: str = "corpus"
    metadata: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Check ids, texts, titles and metadata; raise DataError if they repeat or do not fit."""
        self._check_fields("corpus", ids="corpus ids", texts="corpus texts", titles="corpus titles")
        object.__setattr__(self, "titles", self.titles or ("",) * len(self.ids))
        if not len(self.ids) == len(self.texts) == len(self.titles):
            raise DataError(
                f"a corpus needs one text and one title per id: {counted(len(self.ids), 'id')}, "
                f"{counted(len(self.texts), 'text')}, "
                f"{len(self.titles)} titles"
            )
        self._check_metadata(self.metadata)

    def _get_heading(self) -> str:
        return f"Corpus {shorten(self.name, MAX_TEXT_CHARS)}"

    def _describe(self) -> str:
        columns = f", columns {list_briefly(self.metadata)}" if self.metadata else ""
        return f"{counted(len(self), 'document')}{columns}"

    @cached_property
    def digest(self) -> str:
        return digest_of(chain.from_iterable(zip(self.ids, self.titles, self.texts, strict=True)))

    @cached_property
    def passages(self) -> Sequence[str]:
        """Title and text of each document, separated by a space, as embedded and displayed."""
        if isinstance(self.texts, TextSource) or isinstance(self.titles, TextSource):
            return PassageSource(self.titles, self.texts)
        return tuple(_join_titles(self.titles, self.texts))


@dataclass(frozen=True, eq=False)
class Queries(Labelled):
    """Queries with ids and texts.

    Parameters
    ----------
    ids : tuple of str
        Unique ids of the queries.
    texts : tuple of str
        One text for each id.
    metadata : mapping of str to tuple of str
        Columns with one value for each query; not part of the identity.
    vectors : Embeddings or None
        Vectors that the queries came with, of these ids and perhaps further ones; they serve a corpus that came with
        its own vectors.

    Raises
    ------
    DataError
        If ids repeat, a value is not a string, the lengths differ or a query has no vector.

    Examples
    --------
    >>> queries = Queries(("q1", "q2"), ("sort a list", "read a file"))
    >>> queries.only(["q2"]).texts
    ('read a file',)
    """

    ids: tuple[str, ...]
    texts: tuple[str, ...]
    metadata: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    vectors: Embeddings | None = None

    def __post_init__(self) -> None:
        """Check ids, texts, metadata and vectors; raise DataError if they repeat or do not fit."""
        self._check_fields("queries", ids="query ids", texts="query texts")
        if len(self.ids) != len(self.texts):
            raise DataError(
                f"queries need one text per id: {counted(len(self.ids), 'id')}, {counted(len(self.texts), 'text')}"
            )
        self._check_metadata(self.metadata)
        # An array has no ids, so nothing would say which query a row belongs to.
        if not isinstance(self.vectors, Embeddings | None):
            kind = type(self.vectors).__name__
            raise DataError(f"vectors must be engine.Embeddings; got {kind}. Pass engine.Embeddings(ids, vectors)")
        if self.vectors is not None and (missing_ids := set(self.ids) - self.vectors.position.keys()):
            first_ids = ", ".join(map(repr, sorted(missing_ids)[:5]))
            raise DataError(f"queries need one vector per id: {len(missing_ids)} have none (first: {first_ids})")

    @classmethod
    def of(cls, texts: str | Sequence[str] | Mapping[str, str]) -> Queries:
        """Return queries from plain text, whose ids are their positions, or from a dictionary of ids and texts."""
        if isinstance(texts, Mapping):
            return cls(tuple(map(str, texts)), tuple(texts.values()))
        # Iterating a data frame would take the names of its columns for queries.
        if hasattr(texts, "columns"):
            raise DataError(
                f"queries must be texts; got {type(texts).__name__}. Pass one of its columns. {QUERY_FRAME_FIX}"
            )
        texts = (texts,) if isinstance(texts, str) else tuple(texts)
        return cls(tuple(map(str, range(len(texts)))), texts)

    def _describe(self) -> str:
        columns = f", columns {list_briefly(self.metadata)}" if self.metadata else ""
        vectors = "" if self.vectors is None else ", with vectors"
        return f"{counted(len(self), 'query', 'queries')}{columns}{vectors}"

    @cached_property
    def digest(self) -> str:
        """SHA-256 of ids and texts, and of the vectors that the queries came with."""
        parts = chain.from_iterable(zip(self.ids, self.texts, strict=True))
        return digest_of(parts if self.vectors is None else chain(parts, (self.vectors.digest,)))

    @property
    def embeddings(self) -> Embeddings | None:
        """The vectors that the queries came with, in their order and with their texts; None if they have none."""
        if self.vectors is None:
            return None
        rows = list(map(self.vectors.position.__getitem__, self.ids))
        return Embeddings(self.ids, self.vectors.vectors[rows], None, self.texts)

    @cached_property
    def counted(self) -> Counter[str]:
        """The number of queries with each text."""
        return Counter(self.texts)

    def only(self, ids: Iterable[str]) -> Queries:
        """Return the queries among `ids`, in their original order."""
        selected_ids = set(ids)
        rows = [row for row, query_id in enumerate(self.ids) if query_id in selected_ids]
        metadata = {column: _select_rows(values, rows) for column, values in self.metadata.items()}
        return Queries(_select_rows(self.ids, rows), _select_rows(self.texts, rows), metadata, self.vectors)

    def sample(self, count: int, seed: int = 0) -> Queries:
        """Return at most `count` random queries (seeded), in their original order."""
        return self if count >= len(self) else self.only(Random(seed).sample(self.ids, count))


QUERY_FRAME_FIX = (
    "Of a frame with texts and vectors, make engine.Queries(frame['id'], frame['text'], "
    "vectors=engine.Embeddings(frame['id'], frame['embedding']))"
)
"""The fix for a data frame in the place of queries."""

FRACTION_FIX = (
    "multiply fractions by 100, say, and round them, which leaves nDCG as it is; then give the grade from which a "
    "document is relevant (--relevant-from 50, relevant_from=50)"
)
"""The fix for grades that are no whole numbers, such as probabilities."""
JUDGEMENT_KINDS = ("auto", "complete", "pooled")
"""Kinds of judgements: by the grades that there are, with all relevant documents, or of what some systems returned."""


@dataclass(frozen=True, eq=False)
class Qrels(ByDigest):
    """Relevance judgements of documents for queries.

    Parameters
    ----------
    grades : mapping of str to mapping of str to int
        `grades[query][document]`.
    relevant_from : int
        The grade from which a document counts as relevant, 1 or more; nDCG counts every grade above 0.
    judgements : {"auto", "complete", "pooled"}
        "complete" if a document without a grade is known to be irrelevant; "pooled" if only what some systems returned
        was graded, and others may be relevant too; "auto" is pooled where some grades are 0 or less.

    Raises
    ------
    ParamError
        If relevant_from or judgements is none of these.
    DataError
        If a grade is no whole number.

    Examples
    --------
    >>> qrels = Qrels({"q1": {"a": 1, "b": 0}})
    >>> sorted(qrels.relevant("q1")), qrels.count
    (['a'], 2)
    """

    grades: Mapping[str, Mapping[str, int]]
    relevant_from: int = 1
    judgements: str = "auto"

    def __post_init__(self) -> None:
        if isinstance(self.relevant_from, bool) or not isinstance(self.relevant_from, int) or self.relevant_from < 1:
            raise ParamError(f"relevant_from must be a whole number of 1 or more; got {self.relevant_from!r}")
        if self.judgements not in JUDGEMENT_KINDS:
            raise ParamError(f"judgements must be one of {', '.join(JUDGEMENT_KINDS)}; got {self.judgements!r}")
        # A frame has `items` too, column by column, and would fail far from here.
        is_nested = isinstance(self.grades, Mapping)
        if not is_nested or not all(isinstance(grades, Mapping) for grades in self.grades.values()):
            kind = "lists of documents" if is_nested else type(self.grades).__name__
            raise DataError(
                f"grades must be {{query: {{document: grade}}}}; got {kind}. engine.load_qrels reads frames, rows and "
                "lists of documents"
            )
        for query_id, grades in self.grades.items():
            for doc_id, grade in grades.items():
                # Most grades are plain whole numbers, which need no closer look.
                if type(grade) is not int and not _is_whole(grade):
                    raise DataError(
                        f"grades must be whole numbers; got {grade!r:.80} for query {query_id!r:.80}, document "
                        f"{doc_id!r:.80}; {FRACTION_FIX}"
                    )

    def __len__(self) -> int:
        return len(self.grades)

    def _describe(self) -> str:
        kind = "pooled" if self.is_pooled else "complete"
        level = f", relevant from {self.relevant_from}" if self.relevant_from > 1 else ""
        n_queries = counted(len(self), "query", "queries")
        return f"{counted(self.count, 'judgement')} of {n_queries}, {kind}{level}"

    @cached_property
    def digest(self) -> str:
        """SHA-256 of all judgements, whatever their order."""
        # Level 1 is the default of every file, and leaves the digest of the grades alone.
        judgements: list[str] = [] if self.relevant_from == 1 else [f"relevant from {self.relevant_from}"]
        judgements += [self.judgements] if self.is_declared else []
        # Sorted, so that the order in which files list judgements does not change the identity.
        for query_id, grades in sorted(self.grades.items()):
            for doc_id, grade in sorted(grades.items()):
                judgements += (query_id, doc_id, str(grade))
        return digest_of(judgements)

    @property
    def count(self) -> int:
        """The number of judgements."""
        return sum(map(len, self.grades.values()))

    def relevant(self, query_id: str) -> frozenset[str]:
        """Return the documents judged relevant to a query; none for a query without judgements."""
        return frozenset(
            doc_id for doc_id, grade in self.grades.get(query_id, {}).items() if grade >= self.relevant_from
        )

    @cached_property
    def next_level(self) -> int | None:
        """The next grade from which fewer documents would count as relevant; None if all relevant ones have one grade.

        With the grades 1 and 3 it is 3 for `relevant_from` 1, and None for 2 or 3.
        """
        levels = {grade for grades in self.grades.values() for grade in grades.values() if grade >= self.relevant_from}
        return sorted(levels)[1] if len(levels) > 1 else None

    @cached_property
    def is_pooled(self) -> bool:
        """True if a document without a grade may be relevant, as nobody looked at it.

        By default that is so if some grades are 0 or less, so that irrelevant documents were graded as well; else all
        relevant documents are taken to be known.
        """
        return self._has_irrelevant if self.judgements == "auto" else self.judgements == "pooled"

    @property
    def is_declared(self) -> bool:
        """True if the judgements are declared to be of another kind than their grades show."""
        return self.is_pooled != self._has_irrelevant

    @cached_property
    def _has_irrelevant(self) -> bool:
        """True if some grades are 0 or less."""
        return any(grade <= 0 for grades in self.grades.values() for grade in grades.values())


def _is_whole(number: object) -> bool:
    """Return True for a whole number of any type, NumPy's and floats such as 2.0 included."""
    return isinstance(number, Real) and float(number).is_integer()


class UsableSplits(dict[str, Qrels]):
    """Relevance judgements by split ("train", "test" …), without the splits that cannot be measured.

    Looking up one of those left out raises DataError with the reason. refusals: the reason for each of them
    """

    def __init__(self, usable_splits: Mapping[str, Qrels], refused: Mapping[str, str]) -> None:
        super().__init__(usable_splits)
        self.refusals = dict(refused)

    def __missing__(self, split: str) -> Qrels:
        """Raise DataError with the reason why a split has no judgements."""
        raise DataError(explain_missing_split(self, split))


def explain_missing_split(qrels: Mapping[str, Qrels], split: str | None) -> str:
    """Return the message for a split that is not among the judgements: why, or which splits there are."""
    refusals = qrels.refusals if isinstance(qrels, UsableSplits) else {}
    reason = None if split is None else refusals.get(split)
    return reason or f"no split {split!r}; there are {', '.join(qrels) or 'no judgements'}"


@dataclass(frozen=True)
class Notice:
    """A remark of a data set's reader on unusual records, with their count and first ids.

    remark: a noun phrase that follows the count
    count: the number of cases
    first: the first five ids
    hint: the option of functions and of the command line that helps, "" for none
    singular: the remark where the count is 1, "" for the one that `singular_remark` makes
    """

    remark: str
    count: int
    first: tuple[str, ...] = ()
    hint: str = ""
    singular: str = ""

    @classmethod
    def for_ids(cls, remark: str, ids: Iterable[str], hint: str = "", singular: str = "") -> tuple[Notice, ...]:
        """Return a tuple with one notice that counts these ids; an empty one if there are none.

        A tuple, so that a reader can add up the notices of all its checks.
        """
        ids = tuple(ids)
        return (cls(remark, len(ids), ids[:5], hint, singular),) if ids else ()

    def __str__(self) -> str:
        example_ids = replace_surrogates(", ".join(map(repr, self.first)))
        examples = f" (first: {example_ids})" if example_ids else ""
        return self._count() + (f" ({self.hint})" if self.hint else "") + examples

    @property
    def finding(self) -> str:
        """The notice without its hint, for a page, which has fields of its own; ids stand in it without quotes."""
        if not self.first:
            return self._count()
        # Where all are named, there is none after the first ones.
        lead = "first: " if self.count > len(self.first) else ""
        return f"{self._count()} ({lead}{replace_surrogates(', '.join(self.first))})"

    def _count(self) -> str:
        """Return the count and its remark."""
        return counted(self.count, self.singular or singular_remark(self.remark), self.remark)


@dataclass(frozen=True, eq=False)
class Dataset(OneLine):
    """A corpus with queries, judgements, aspects and vectors.

    Parameters
    ----------
    corpus : Corpus
        The documents.
    queries : Queries
        All queries, in the order of their file.
    qrels : mapping of str to Qrels
        Judgements by split; `UsableSplits` for a data set read from files.
    aspects : mapping or None
        `aspects[query][aspect]` is the set of documents that cover the aspect.
    vectors : Embeddings or None
        Embeddings that came with the corpus.
    notices : tuple of Notice
        The reader's remarks on the data.

    Examples
    --------
    >>> corpus, queries = Corpus(("a",), ("a text",)), Queries(("q1", "q2"), ("one", "two"))
    >>> Dataset(corpus, queries, {"test": Qrels({"q2": {"a": 1}})}).judged("test").ids
    ('q2',)
    """

    corpus: Corpus
    queries: Queries
    qrels: Mapping[str, Qrels] = field(default_factory=dict)
    aspects: Mapping[str, Mapping[str, frozenset[str]]] | None = None
    vectors: Embeddings | None = None
    notices: tuple[Notice, ...] = ()

    def _get_heading(self) -> str:
        return f"Dataset {shorten(self.corpus.name, MAX_TEXT_CHARS)}"

    def _describe(self) -> str:
        n_documents, n_queries = len(self.corpus), len(self.queries)
        facts = [counted(n_documents, "document"), counted(n_queries, "query", "queries")]
        facts += [f"splits {list_briefly(self.qrels)}"] if self.qrels else []
        facts += ["with vectors"] if self.vectors is not None else []
        facts += [counted(len(self.notices), "notice")] if self.notices else []
        return ", ".join(facts)

    def judged(self, split: str) -> Queries:
        """Return the queries that a split judges, in file order; raise DataError if it cannot be measured."""
        if split not in self.qrels:
            raise DataError(explain_missing_split(self.qrels, split))
        # Remembered by split, so that callers share one value and its cached digest.
        if split not in self._queries_by_split:
            self._queries_by_split[split] = self.queries.only(self.qrels[split].grades)
        return self._queries_by_split[split]

    def with_relevant_from(self, grade: int) -> Dataset:
        """Return the data set whose judgements count documents as relevant from this grade on."""
        return self._with_qrels(relevant_from=grade)

    def with_judgements(self, kind: str) -> Dataset:
        """Return the data set whose judgements are of a kind: "auto", "complete" or "pooled", as `Qrels` takes it."""
        return self._with_qrels(judgements=kind)

    def _with_qrels(self, **fields: Any) -> Dataset:
        """Return the data set with some fields of all its judgements replaced; itself if they have these values."""
        if all(fields.items() <= vars(qrels).items() for qrels in self.qrels.values()):
            return self
        splits = {split: replace(qrels, **fields) for split, qrels in self.qrels.items()}
        if isinstance(self.qrels, UsableSplits):
            splits = UsableSplits(splits, self.qrels.refusals)
        return replace(self, qrels=splits)

    @cached_property
    def _queries_by_split(self) -> dict[str, Queries]:
        return {}


@dataclass(frozen=True)
class EncoderRef:
    """The identity of an encoder: its name as the user wrote it, the digest of its weights and its dtype."""

    name: str
    digest: str
    dtype: str


@dataclass(frozen=True, eq=False)
class Embeddings(Labelled):
    """One unscaled vector for each id.

    Parameters
    ----------
    ids : tuple of str
        Unique ids of the rows.
    vectors : Tensor
        (n, d) float32 or float64; arrays and lists are converted.
    encoder : EncoderRef or None
        The encoder that made the vectors; None for vectors from a file or array.
    texts : tuple of str or None
        The embedded texts, which scorers that read words need of queries; not part of the identity.

    Raises
    ------
    DataError
        If ids repeat, the lengths differ or the vectors are not a matrix of real numbers.

    Examples
    --------
    >>> embeddings = Embeddings(("a", "b"), [[1.0, 0.0], [0.0, 1.0]])
    >>> embeddings.dimension, embeddings.take([1]).ids
    (2, ('b',))
    """

    ids: tuple[str, ...]
    vectors: Tensor
    encoder: EncoderRef | None = None
    texts: tuple[str, ...] | None = None
    # The file that the vectors are mapped from, row for row; not part of the identity.
    file: Path | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        """Convert the vectors, check that they fit ids and texts, and raise DataError if not."""
        object.__setattr__(self, "vectors", real_tensor(self.vectors, "vectors"))
        self._check_fields("embeddings", ids="embedding ids")
        if self.texts is not None:
            object.__setattr__(self, "texts", _as_strings(self.texts, "embedded texts"))
            if len(self.texts) != len(self.ids):
                raise DataError(
                    f"embeddings need one text per id: {counted(len(self.ids), 'id')}, "
                    f"{counted(len(self.texts), 'text')}"
                )
        if self.vectors.ndim != 2 or len(self.ids) != self.vectors.shape[0]:
            raise DataError(
                f"embeddings need one row per id: {counted(len(self.ids), 'id')}, vectors of shape "
                f"{tuple(self.vectors.shape)}"
            )

    def _describe(self) -> str:
        encoder = "" if self.encoder is None else f", encoder {self.encoder.name}"
        dtype = str(self.vectors.dtype).removeprefix("torch.")
        return f"{counted(len(self), 'vector')} of {self.dimension:,} dimensions{encoder}, {dtype}"

    @property
    def dimension(self) -> int:
        """Number of numbers in a vector, d."""
        return self.vectors.shape[1]

    def with_file(self, file: Path | None) -> Embeddings:
        """Return a copy marked as mapped from a file; embeddings derived from the copy are not marked."""
        # `file` is no argument of the constructor, so a frozen copy is changed in place.
        mapped_copy = copy(self)
        object.__setattr__(mapped_copy, "file", file)
        return mapped_copy

    def take(self, rows: Sequence[int]) -> Embeddings:
        """Return the embeddings at the given rows, in that order."""
        texts = None if self.texts is None else _select_rows(self.texts, rows)
        return Embeddings(_select_rows(self.ids, rows), self.vectors[list(rows)], self.encoder, texts)

    @cached_property
    def digest(self) -> str:
        # Shape and dtype are part of the identity: equal bytes may be other numbers.
        """SHA-256 of the ids and the vectors."""
        host_vectors = self.vectors.detach().cpu().contiguous().numpy()
        return digest_of([*self.ids, str(host_vectors.shape), str(host_vectors.dtype), host_vectors.reshape(-1).data])


@dataclass(frozen=True, eq=False)
class Ranking(Tabular):
    """The documents that a selector returns for B queries.

    Iterating yields the rows of one query after another, as `rows` returns them.

    Parameters
    ----------
    index : Tensor
        (B, k) int64 row positions, best first, padded with −1.
    gain : Tensor
        (B, k) the method's ranking scores, 0 on pads.
    info : tuple of mappings
        For each query, diagnostics such as certificates and weights.

    Examples
    --------
    >>> ranking = Ranking(torch.tensor([[4, 2, -1]]), torch.tensor([[0.9, 0.5, 0.0]]), ({},))
    >>> ranking.rows(), ranking.returned.tolist()
    ([4, 2], [2])
    """

    index: Tensor
    gain: Tensor
    info: tuple[Mapping[str, Any], ...]

    def __len__(self) -> int:
        return self.index.shape[0]

    def __iter__(self) -> Iterator[list[int]]:
        """Yield the documents of each query, best first."""
        return map(self.rows, range(len(self)))

    def _describe(self) -> str:
        n_queries, n_ranks = self.index.shape
        return f"{counted(n_queries, 'query', 'queries')}, k={n_ranks}, {counted(int(self.returned.sum()), 'document')}"

    def to_frame(self, corpus: Any = None, queries: Any = None, *, texts: bool = False) -> DataFrame:
        """Return one row for each returned document.

        Parameters
        ----------
        corpus : Corpus, Space, Reach or Dataset, optional
            What was searched; without it there are no ids of documents.
        queries : Queries, Embeddings or sequence of str, optional
            The queries or their ids, in the order of the ranking; by default they are numbered from 0.
        texts : bool, default False
            Add the documents' titles and texts.

        Returns
        -------
        DataFrame
            Columns: query (its id), rank (from 1), row (in the corpus), document (its id), gain, and on request title
            and text.

        Raises
        ------
        DataError
            If corpus or queries are not those of the ranking, or texts are asked for without a corpus.

        Examples
        --------
        >>> ranking = Ranking(torch.tensor([[1, 0]]), torch.tensor([[0.9, 0.5]]), ({},))
        >>> ranking.to_frame(Corpus(("a", "b"), ("one", "two")))["document"].tolist()
        ['b', 'a']
        """
        documents = _find_corpus(corpus)
        if texts and documents is None:
            raise DataError("texts=True needs the corpus; got none. Pass it: to_frame(space, texts=True)")
        row_index = self.index.cpu().numpy()
        is_returned = row_index >= 0
        query_positions, rank_positions = np.nonzero(is_returned)
        rows = row_index[is_returned].tolist()
        if documents is not None and rows and max(rows) >= len(documents):
            raise DataError(
                f"corpus must be the one that was searched: row {max(rows)} is beyond its {len(documents):,} "
                "documents. Pass the space that was decoded"
            )
        query_ids = _list_query_ids(queries, len(self))
        columns: dict[str, Any] = {
            "query": _select_rows(query_ids, query_positions.tolist()),
            "rank": rank_positions + 1,
            "row": rows,
        }
        if documents is not None:
            columns["document"] = _select_rows(documents.ids, rows)
        columns["gain"] = self.gain.detach().cpu().numpy()[is_returned]
        if texts and documents is not None:
            columns |= {"title": texts_of(documents.titles, rows), "text": texts_of(documents.texts, rows)}
        return build_table(columns)

    @property
    def returned(self) -> Tensor:
        """(B,) the number of documents of each query."""
        return (self.index >= 0).sum(1)

    def rows(self, query_index: int = 0) -> list[int]:
        """Return the documents of one query, best first."""
        return [row_index for row_index in self.index[query_index].tolist() if row_index >= 0]

    def take(self, query_index: Tensor) -> Ranking:
        """Return the rankings of some queries, in the given order."""
        index_on_device = query_index.to(self.index.device)
        info = tuple(self.info[position] for position in query_index.tolist())
        return Ranking(self.index[index_on_device], self.gain[index_on_device], info)

    @staticmethod
    def joined(rankings: Sequence[Ranking]) -> Ranking:
        """Concatenate the rankings of consecutive blocks of queries."""
        if len(rankings) == 1:
            return rankings[0]
        index, gain = torch.cat([part.index for part in rankings]), torch.cat([part.gain for part in rankings])
        return Ranking(index, gain, tuple(chain.from_iterable(part.info for part in rankings)))


def _find_corpus(source: Any) -> Corpus | None:
    """Return the corpus of a data set, a space or a reach, or a corpus itself. Raises DataError for another value."""
    # A reach has the documents that it returned in a space of their own.
    space = getattr(source, "space", source)
    corpus = getattr(space, "corpus", space)
    if corpus is not None and not isinstance(corpus, Corpus):
        raise DataError(f"corpus must be an engine.Corpus, Space or Dataset; got {type(source).__name__}")
    return corpus


def _list_query_ids(queries: Any, n_queries: int) -> Sequence[str]:
    """Return the ids of queries, of Queries, Embeddings or a list of ids; numbers for None. Raises DataError."""
    query_ids = list(map(str, range(n_queries) if queries is None else getattr(queries, "ids", queries)))
    if len(query_ids) != n_queries:
        raise DataError(f"queries must be those of the ranking, {n_queries:,}; got {len(query_ids):,}")
    return query_ids


def replace_surrogates(text: str) -> str:
    """Replace lone surrogates (half characters) in a text by "?": JSON allows them, screens do not."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


def real_tensor(numbers: Any, name: str) -> Tensor:
    """Convert numbers to a float32 tensor, or to float64 where float32 would lose digits.

    Accepts arrays, tensors and lists. Raises DataError, naming the argument, for anything but real numbers.
    """
    try:
        if not isinstance(numbers, Tensor):
            array = _as_array(numbers)
            # longdouble and foreign byte orders are numbers too, but not ones that torch knows.
            native_array = array.astype(float) if array.dtype.kind == "f" and not array.dtype.isnative else array
            numbers = torch.from_numpy(np.ascontiguousarray(native_array))
    except (TypeError, ValueError, RuntimeError) as error:
        kind, fix = type(numbers).__name__, _advise_on_numbers(numbers)
        raise DataError(f"{name} must be a numeric array or tensor; got {kind} ({error}){fix}") from None
    if numbers.is_complex() or numbers.dtype == torch.bool or numbers.layout != torch.strided or numbers.is_meta:
        fix = "" if numbers.layout == torch.strided else ". Call .to_dense() on it"
        raise DataError(f"{name} must hold real numbers in a dense array; got {numbers.dtype}, {numbers.layout}{fix}")
    tensor: Tensor = numbers.detach()
    if tensor.dtype in (torch.float32, torch.float64):
        return tensor
    exact_in_float32 = tensor.dtype in (torch.float16, torch.bfloat16, torch.int8, torch.uint8, torch.int16)
    return tensor.float() if exact_in_float32 else tensor.double()


def _as_array(numbers: Any) -> np.ndarray:
    """Return numbers of any kind as an array; rows that are arrays, lists or tensors themselves are stacked.

    Raises TypeError, ValueError or RuntimeError for what no array can be made of.
    """
    if isinstance(numbers, list | tuple) and numbers and all(isinstance(row, Tensor) for row in numbers):
        return torch.stack([row.detach().cpu() for row in numbers]).numpy()
    array = np.asarray(numbers)
    # A column of a data frame holds its vectors as objects.
    if array.dtype == object and array.ndim == 1 and len(array):
        array = np.stack([np.asarray(row.detach().cpu() if isinstance(row, Tensor) else row) for row in array])
    if array.dtype.kind in "OUSMm":
        raise TypeError("it holds no numbers, or misses some")
    # A data frame hands out its memory read-only, which torch warns of; a file mapped by the caller is not copied.
    return array if array.flags.writeable or isinstance(numbers, np.ndarray) else array.copy()


def _advise_on_numbers(values: Any) -> str:
    """Return the end of the message on values that are no array of numbers: what to do, "" where that is unclear."""
    if hasattr(values, "toarray"):
        return ". Call .toarray() on it"
    first = next(iter(values), None) if isinstance(values, Iterable) else None
    if isinstance(first, str) and not hasattr(values, "columns"):
        return ". Texts are embedded by engine.embed"
    return ". Choose its columns of numbers" if hasattr(values, "columns") else ""


def _select_rows(values: Sequence[str], rows: Sequence[int]) -> tuple[str, ...]:
    """Return the values at some rows, in that order."""
    return tuple(values[row] for row in rows)


def _join_titles(titles: Sequence[str], texts: Sequence[str]) -> list[str]:
    """Return each title and text as one passage, separated by a space where both are there."""
    return [f"{title} {text}".strip() for title, text in zip(titles, texts, strict=True)]


def _as_strings(values: Iterable[Any], name: str) -> Sequence[str]:
    """Return strings as a tuple, or a TextSource, which stays on disk, unchanged.

    Raises DataError if a value is not a string, or if one string was given in place of a list; its message calls the
    values `name`.
    """
    if isinstance(values, TextSource):
        return values
    if isinstance(values, str):
        raise DataError(f"{name} must be a list of strings; got one string")
    # Iterating one of these would yield its keys, or its columns, or no order at all.
    if isinstance(values, Mapping | Set) or hasattr(values, "columns"):
        fix = "one of its columns" if hasattr(values, "columns") else "a list of its values"
        raise DataError(f"{name} must be a list of strings; got {type(values).__name__}. Pass {fix}")
    # pyarrow hands out texts of its own kind.
    strings = tuple(values.to_pylist() if hasattr(values, "to_pylist") else values)
    for position, value in enumerate(strings):
        if not isinstance(value, str):
            raise DataError(f"{name} must be strings; number {position} is {value!r:.80}. Convert them with str")
    return strings
