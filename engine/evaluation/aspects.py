"""Judgements and aspects of a list of queries, as arrays made once.

α-nDCG: Clarke et al., Novelty and Diversity in Information Retrieval Evaluation, SIGIR 2008, §5. S-recall: Zhai,
Cohen & Lafferty, Beyond Independent Relevance, SIGIR 2003, §3.
"""

import json
from collections import OrderedDict
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Any, TypeVar

import numpy as np

from engine.errors import DataError
from engine.space import Space
from engine.values import Qrels, digest_of

T = TypeVar("T")
Aspects = Mapping[str, Mapping[str, frozenset[str]]]
"""query → aspect → the documents that cover it, as a Dataset has them."""

_SHAPE = "query → aspect → set of document ids, as data.aspects is"

#: What of an aspect's worth α-nDCG takes off every time it is covered again.
ALPHA_NDCG = 0.5
MOST_KEPT = 16
_kept: OrderedDict[Hashable, Any] = OrderedDict()
_lock = Lock()


@dataclass(frozen=True, eq=False, kw_only=True)
class Judgements:
    """The relevant documents of B queries over a corpus of n."""

    rows: int  # n
    keys: np.ndarray  # (m,) int64 query·n + row, rising, of those in the corpus
    grades: np.ndarray  # (m,) their grades
    counts: np.ndarray  # (B,) number of a query, in the corpus or not
    query: np.ndarray  # of each, in the corpus or not, its query
    place: np.ndarray  # its place by falling grade
    best: np.ndarray  # its grade, falling within a query

    def of(self, index: np.ndarray) -> np.ndarray:
        """(B, k) the grades of the rows in index, (B, k), −1 pads: 0 where there is none above 0."""
        known, position = _find(self.keys, index, self.rows)
        grades = np.zeros(index.shape)
        grades[known] = self.grades[position]
        return grades

    def repeated(self, query: np.ndarray) -> "Judgements":
        """Those of queries by number, (M,), each as often as it is named."""
        source, row = _segments(np.searchsorted(self.keys, self.rows * np.arange(len(self.counts) + 1)), query)
        best, of = _segments(np.concatenate([[0], np.cumsum(self.counts)]), query)
        return Judgements(
            rows=self.rows,
            keys=row * self.rows + self.keys[source] % self.rows,
            grades=self.grades[source],
            counts=self.counts[query],
            query=of,
            place=self.place[best],
            best=self.best[best],
        )

    def ideal(self, k: int) -> np.ndarray:
        """(B, k) the grades of the best possible list."""
        grades = np.zeros((len(self.counts), k))
        top = self.place < k
        grades[self.query[top], self.place[top]] = self.best[top]
        return grades


@dataclass(frozen=True, eq=False)
class Coverage:
    """Which documents cover which aspects of B queries, over a corpus of n."""

    rows: int  # n
    keys: np.ndarray  # (m,) int64, rising, query·n + row of the documents that cover something
    starts: np.ndarray  # (m + 1,) where each one's aspects begin in `aspect`
    aspect: np.ndarray  # (p,) numbered through all queries
    counts: np.ndarray  # (B,) aspects a query
    ideal: np.ndarray  # (B,) discounted gain of the greedy best list at k

    def repeated(self, query: np.ndarray) -> "Coverage":
        """Those of queries by number, (M,), each as often as it is named."""
        source, row = _segments(np.searchsorted(self.keys, self.rows * np.arange(len(self.counts) + 1)), query)
        aspect, of = _segments(self.starts, source)
        # Numbers of aspects differ between repetitions.
        number = row[of] * (int(self.aspect.max(initial=0)) + 1) + self.aspect[aspect]
        starts = np.concatenate([[0], np.cumsum(np.diff(self.starts)[source])])
        keys = row * self.rows + self.keys[source] % self.rows
        return Coverage(self.rows, keys, starts, number, self.counts[query], self.ideal[query])

    def covered(self, index: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """For index, (B, k) rows, −1 pads: a query, a rank from 0, and how often higher ranks had covered the same
        aspect, for every aspect of every document listed; each (e,), in no particular order."""
        known, position = _find(self.keys, index, self.rows)
        query, rank = np.nonzero(known)
        # Each document's aspects, one after the other.
        aspect, of = _segments(self.starts, position)
        query, rank, aspect = query[of], rank[of], self.aspect[aspect]
        # Documents come query by query and rank by rank; a stable sort by aspect keeps that order within each.
        order = np.argsort(aspect, kind="stable")
        aspect = aspect[order]
        first = np.flatnonzero(np.diff(aspect, prepend=-1))
        before = np.arange(len(aspect)) - np.repeat(first, np.diff(first, append=len(aspect)))
        return query[order], rank[order], before

    def alpha_ndcg(self, index: np.ndarray) -> np.ndarray:
        """(B,) Σ over ranks of Σ over the document's aspects of (1 − α)^(times covered above) / log2(rank + 1), over
        the ideal's; NaN without aspects. The greedy ideal is not always the best one: up to a little over 1."""
        query, rank, before = self.covered(index)
        gain = np.bincount(query, (1 - ALPHA_NDCG) ** before / np.log2(rank + 2), minlength=len(self.counts))
        return _over(gain, self.ideal)

    def s_recall(self, index: np.ndarray) -> np.ndarray:
        """(B,) the share of the query's aspects that a listed document covers; NaN without aspects."""
        query, _, before = self.covered(index)
        return _over(np.bincount(query[before == 0], minlength=len(self.counts)), self.counts)


def judgements(space: Space, ids: Sequence[str], qrels: Qrels) -> Judgements:
    """The judgements of queries, as arrays; made once for the same corpus, ids and judgements."""
    ids = tuple(ids)
    return _once(("judgements", space.corpus.digest, ids, qrels.digest), lambda: _judgements(space, ids, qrels))


def coverage(space: Space, ids: Sequence[str], aspects: Aspects, k: int) -> Coverage:
    """The aspects of queries, with the ideal at k, as arrays; made once for the same corpus, ids, aspects and k.

    An aspect that no document covers is none. Raises DataError where aspects are not as a Dataset has them.
    """
    try:
        listed = [list(aspects[query].items()) if query in aspects else [] for query in ids]
        if wrong := [c for of in listed for _, c in of if isinstance(c, str) or not isinstance(c, Collection)]:
            raise DataError(f"aspects must be {_SHAPE}; got {wrong[0]!r} for a set")
        content = tuple([tuple([(name, frozenset(covering)) for name, covering in of]) for of in listed])
    except (TypeError, AttributeError) as error:
        raise DataError(f"aspects must be {_SHAPE} ({error})") from None
    return _once(("coverage", space.corpus.digest, k, content), lambda: _coverage(space, content, k))


def _once(key: Hashable, make: Callable[[], T]) -> T:
    """What was made for an equal key, if it is among the last MOST_KEPT, or else now."""
    with _lock:
        made = _kept.pop(key, None)
    made = make() if made is None else made
    with _lock:
        _kept[key] = made
        while len(_kept) > MOST_KEPT:
            _kept.popitem(last=False)
    return made


def _judgements(space: Space, ids: Sequence[str], qrels: Qrels) -> Judgements:
    position, n = space.corpus.position, len(space)
    graded = [[(doc, g) for doc, g in qrels.grades.get(query, {}).items() if g > 0] for query in ids]
    counts = np.array([len(own) for own in graded], dtype=np.int64)
    known = sorted((b * n + position[doc], g) for b, own in enumerate(graded) for doc, g in own if doc in position)
    best = [g for own in graded for g in sorted((g for _, g in own), reverse=True)]
    return Judgements(
        rows=n,
        keys=np.array([key for key, _ in known], dtype=np.int64),
        grades=np.array([grade for _, grade in known], dtype=float),
        counts=counts,
        query=np.repeat(np.arange(len(graded)), counts),
        place=np.array([place for own in graded for place in range(len(own))], dtype=np.int64),
        best=np.array(best, dtype=float),
    )


def _coverage(space: Space, content: Sequence[Sequence[tuple[str, frozenset[str]]]], k: int) -> Coverage:
    position, n = space.corpus.position, len(space)
    counts, ideal = np.zeros((2, len(content)))
    pairs: list[tuple[int, int]] = []
    number = 0
    for b, listed in enumerate(content):
        of_query = [covering for _, covering in listed if covering]
        counts[b] = len(of_query)
        # Greedy ties go to the greater id, as in TREC's ndeval.
        docs = sorted(frozenset().union(*of_query), reverse=True)
        number_of = {doc: i for i, doc in enumerate(docs)}
        covers = np.zeros((len(docs), len(of_query)))
        for a, covering in enumerate(of_query):
            covers[[number_of[doc] for doc in covering], a] = 1
            pairs += [(b * n + position[doc], number + a) for doc in covering if doc in position]
        number += len(of_query)
        ideal[b] = _greedy_gain(covers, k)
    pairs.sort()
    flat = np.array(pairs, dtype=np.int64).reshape(-1, 2)
    keys, starts = np.unique(flat[:, 0], return_index=True)
    return Coverage(n, keys, np.append(starts, len(flat)), flat[:, 1], counts, ideal)


def _greedy_gain(covers: np.ndarray, k: int) -> float:
    """The discounted gain of taking, k times, the document that adds most; covers: (documents, aspects), 0 or 1."""
    worth, total = np.ones(covers.shape[1]), 0.0
    for rank in range(min(k, len(covers))):
        gains = covers @ worth
        pick = int(gains.argmax())
        total += gains[pick] / np.log2(rank + 2)
        worth = np.where(covers[pick] > 0, worth * (1 - ALPHA_NDCG), worth)
        covers[pick] = 0
    return total


def _find(keys: np.ndarray, index: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Which of the rows in index, (B, k), −1 pads, have a key, (B, k) bool, and the positions of these keys."""
    if not len(keys):
        return np.zeros(index.shape, dtype=bool), np.zeros(0, dtype=np.int64)
    queried = index + n * np.arange(len(index), dtype=np.int64)[:, None]
    position = keys.searchsorted(queried)
    known = (keys[np.minimum(position, len(keys) - 1)] == queried) & (index >= 0)
    return known, position[known]


def _segments(starts: np.ndarray, query: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Positions of segments, which begin at starts, (B + 1,), for each number in query, (M,); and whose each is."""
    many = np.diff(starts)[query]
    of = np.repeat(np.arange(len(query)), many)
    return np.arange(len(of)) + np.repeat(starts[query] - (np.cumsum(many) - many), many), of


def _over(part: np.ndarray, whole: np.ndarray) -> np.ndarray:
    """part / whole; NaN where whole is 0."""
    return part / np.where(whole > 0, whole, np.nan)


def digest_of_aspects(aspects: Aspects | None) -> str:
    """Names what the aspects say, whatever order they come in; "" for none."""
    if not aspects:
        return ""
    plain = {query: {a: sorted(docs) for a, docs in of.items()} for query, of in aspects.items()}
    return digest_of([json.dumps(plain, sort_keys=True)])
