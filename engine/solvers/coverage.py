"""Relevance and coverage of a ground set, lazily greedy, compiled on the rows of a Gram matrix."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import Tensor

from engine.candidates import Candidates
from engine.matrix import GRAM_ROWS, Matrix
from engine.solvers.gram import Gram, corpus_gram, make_row, problems, products
from engine.solvers.jit import exactly
from engine.solvers.largest import LANES, largest
from engine.solvers.tie_breaking import ranked

Array = np.ndarray

KEPT_ROWS = 4096
"""Up to so many documents in the ground set all their similarities are kept (128 MiB); beyond, made when asked for."""


@dataclass(frozen=True)
class Covers:
    """A ground set's similarities, and what its documents cover.

    columns: (d, p) its vectors; rows: (p, p), of which `made` (p,) says what is there, or (1, p) where none is kept;
    alone: (p,) what each document covers; second: (p, p) what each still adds to another, a row for those of `seen`
    """

    columns: Array
    rows: Array
    made: Array
    alone: Array
    second: Array
    seen: Array

    @staticmethod
    def of(columns: Array, rows: Array, made: Array) -> "Covers":
        """The same for all queries and weights."""
        p = columns.shape[1]
        alone, kept = np.empty(p), p if len(rows) == p else 0
        covered_alone(columns, rows, made, alone)
        return Covers(columns, rows, made, alone, np.zeros((kept, kept)), np.zeros(p, np.bool_))

    @staticmethod
    def among(gram: Gram) -> "Covers":
        """Of all the vectors of a Gram matrix."""
        gram.whole()
        return Covers.of(gram.columns, gram.rows, gram.made)


def covering_sets(c: Candidates, k: int, size: int, weights: Sequence[float]) -> tuple[Array, Array, Array]:
    """Index and gain, (B, L, k), and how many gains were computed, (B, L), of greed on the `size` most relevant."""
    shape = (c.batch, len(weights), k)
    index, gain, evaluations = np.empty(shape, np.int64), np.empty(shape), np.empty(shape[:2], np.int64)
    for own, ground, covers, relevance in grounds(c, size):
        greedy_covers(
            covers.columns, covers.rows, covers.made, covers.alone, covers.second, covers.seen, relevance,
            np.array(weights, np.float64), index[own], gain[own], evaluations[own],
        )  # fmt: skip
        index[own] = ground[index[own]]
    return index, gain, evaluations


def grounds(c: Candidates, size: int) -> Iterator[tuple[slice, Array, Covers, Array]]:
    """Whose they are, (p,) ascending candidates, what they cover and (b, p) relevance of the ground sets."""
    if size == c.count <= GRAM_ROWS:
        for own, gram, relevance in problems(c):
            make = partial(Covers.among, gram)
            yield own, np.arange(size), c.matrix.derive("covers", make) if c.shared else make(), relevance
        return
    index, scores = ranked(c.relevance, size, c.relevance_error, c.exact_relevance)
    index, order = index.sort(dim=1)
    scores, corpus = scores.gather(1, order), corpus_gram(c)
    shared: Covers | None = None
    for b in range(c.batch):
        ground = index[b].cpu().numpy()
        covers = shared or _covers(c.vectors[index[b]] if c.shared else c.vectors[b, index[b]], corpus, ground)
        shared = covers if c.shared and size == c.count else None
        yield slice(b, b + 1), ground, covers, scores[b : b + 1].cpu().numpy()


def _covers(vectors: Tensor, gram: Gram | None, ground: Array) -> Covers:
    """Of some vectors, which are those of `ground` in a Gram matrix if there is one."""
    p = len(ground)
    if gram is not None:
        return Covers.of(np.empty((0, p)), gram.whole()[np.ix_(ground, ground)], np.ones(p, np.bool_))
    if p <= KEPT_ROWS:
        return Covers.among(Gram(vectors))
    return Covers.of(vectors.cpu().T.contiguous().double().numpy(), np.empty((1, p)), np.zeros(1, np.bool_))


@exactly
def similarities(columns: Array, rows: Array, made: Array, i: int) -> Array:
    """(p,) of document i, kept or made."""
    if len(rows) == columns.shape[1]:
        make_row(columns, rows, made, i)
        kept: Array = rows[i]
        return kept
    products(columns, columns[:, i].copy().reshape(1, -1), rows)
    only: Array = rows[0]
    return only


@exactly
def covered(row: Array, cover: Array, lanes: Array) -> float:
    """Σ max(0, row − cover), in an order that its length alone decides: as the cover grows, it can but fall."""
    p = len(row)
    lanes[:] = 0.0
    for start in range(0, p - LANES + 1, LANES):
        r, c = row[start : start + LANES], cover[start : start + LANES]
        for j in range(LANES):
            more = r[j] - c[j]
            lanes[j] += more if more > 0 else 0.0
    total = 0.0
    for j in range(LANES):
        total += lanes[j]
    for i in range(p - p % LANES, p):
        total += max(row[i] - cover[i], 0.0)
    return total


@exactly
def covered_alone(columns: Array, rows: Array, made: Array, out: Array) -> None:
    """What each document covers by itself."""
    cover, lanes = np.zeros(len(out)), np.empty(LANES)
    for i in range(len(out)):
        out[i] = covered(similarities(columns, rows, made, i), cover, lanes)


@exactly
def greedy_covers(
    columns: Array, rows: Array, made: Array, alone: Array, second: Array, seen: Array, relevance: Array,
    weights: Array, index: Array, gain: Array, evaluations: Array,
) -> None:  # fmt: skip
    """The picks of B problems at L weights; see `Covers` and `covering_sets`.

    Minoux 1978: gains only fall, also as computed (rounding is monotone), so a gain of an earlier pick bounds the
    present one, and nothing bounded by less than the best needs another look. The first pick lowers nearly every gain:
    what it leaves them is computed for all, and kept.
    """
    p, k = relevance.shape[1], index.shape[2]
    own, bound, cover, lanes = np.empty(p), np.empty(p), np.empty(p), np.empty(LANES)
    fresh = np.empty(p, np.bool_)
    for b in range(len(index)):
        for setting in range(len(weights)):
            share, computed = (1 - weights[setting]) * k / p, p
            for i in range(p):
                own[i] = weights[setting] * relevance[b, i]
                bound[i] = own[i] + share * alone[i]
            cover[:] = 0.0
            fresh[:] = True
            for step in range(k):
                if step == 1 and len(second):
                    first = index[b, setting, 0]
                    if not seen[first]:
                        for i in range(p):
                            second[first, i] = covered(rows[i], cover, lanes)
                        seen[first] = True
                    for i in range(p):
                        bound[i] = own[i] + share * second[first, i]
                    bound[first] = -np.inf
                    fresh[:] = True
                    computed += p - 1
                # Greed alone could begin, and at k = 1 end, with another document than the most relevant.
                pick = largest(bound, cover, 0.0)[0] if k > 1 else largest(relevance[b], cover, 0.0)[0]
                while not fresh[pick]:
                    bound[pick] = own[pick] + share * covered(similarities(columns, rows, made, pick), cover, lanes)
                    fresh[pick] = True
                    computed += 1
                    pick = largest(bound, cover, 0.0)[0]
                index[b, setting, step], gain[b, setting, step] = pick, bound[pick]
                bound[pick] = -np.inf
                row = similarities(columns, rows, made, pick)
                for i in range(p):
                    cover[i] = max(cover[i], row[i])
                fresh[:] = False
                fresh[pick] = True
            evaluations[b, setting] = computed


def warm() -> None:
    """Compile the loops, or load what was compiled."""
    rows = torch.eye(8)
    covering_sets(Candidates(rows, rows[:1], rows[:1], Matrix(rows)), 2, 8, [0.5])
