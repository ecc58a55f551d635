"""Near-duplicates of a corpus before any query: groups, exact copies, and random pairs beside them."""

import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
import torch
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from torch import Tensor

from engine.candidates import without_autocast
from engine.display import OneLine
from engine.evaluation.duplicate_threshold import (
    COSINE_TOLERANCE,
    RandomPairs,
    compute_pair_cosines,
    normalize_rows,
    resolve_duplicate_threshold,
    sample_random_pairs,
)
from engine.matrix import rounding
from engine.progress import Progress, Stop, with_cancellation
from engine.space import Space
from engine.values import Corpus

GroupKind = Literal["near", "copies", "vectors"]
ROW_BLOCK, COLUMN_BLOCK = 2048, 2048
"""Rows of a block of cosines, and its columns: 16 MiB of float32."""
MAX_PENDING_EDGES = 1 << 20
"""Pairs that are gathered before the groups are joined."""
MAX_LISTED_SHARE = 1 / 64
"""More pairs of a block than this share are not listed one by one."""
COMPARING = "comparing documents"


@dataclass(frozen=True)
class DuplicateGroup(OneLine):
    """Two or more documents that are near-duplicates, copies, or have equal vectors.

    kind: "near" where pairs with a cosine of the threshold or more connect them, "copies" for equal texts, "vectors"
    for equal vectors; rows: positions in the corpus, the head first, then in the corpus's order
    """

    kind: GroupKind
    rows: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def head(self) -> int:
        """The document that stands for the group: of copies the first, else the one with most neighbours.

        Of several with equally many, the first.
        """
        return self.rows[0]


@dataclass(frozen=True, eq=False, kw_only=True)
class NearDuplicates(OneLine):
    """The near-duplicates of a corpus: documents with a cosine of a threshold or more, joined pair by pair."""

    threshold: float
    groups: tuple[DuplicateGroup, ...]  # of near-duplicates, which include copies; the largest first
    copies: tuple[DuplicateGroup, ...]  # of equal texts, the largest first
    equal_vectors: tuple[DuplicateGroup, ...]  # the largest first
    neighbours: np.ndarray  # (n,) the number of other documents that reach the threshold
    random_pairs: RandomPairs

    def __len__(self) -> int:
        """Return the number of documents of the corpus."""
        return len(self.neighbours)

    def count_with_neighbours(self, at_least: int = 1) -> int:
        """Return the number of documents that have so many others within the threshold."""
        return int((self.neighbours >= at_least).sum())

    @property
    def n_collapsed(self) -> int:
        """The number of documents left if one of each group of near-duplicates stays."""
        return len(self) - sum(len(group) - 1 for group in self.groups)

    @property
    def n_without_copies(self) -> int:
        """The number of documents left if one of each group of copies stays."""
        return len(self) - sum(len(group) - 1 for group in self.copies)

    @cached_property
    def group_of(self) -> np.ndarray:
        """(n,) the position in `groups` of each document's group, −1 for a document that is in none."""
        positions = np.full(len(self), -1)
        for position, group in enumerate(self.groups):
            positions[list(group.rows)] = position
        return positions

    def find_heads(self, kind: GroupKind = "near") -> np.ndarray:
        """Return the (n,) row of the document that stands for each one, itself where it is in no group of the kind."""
        heads = np.arange(len(self))
        for group in {"near": self.groups, "copies": self.copies, "vectors": self.equal_vectors}[kind]:
            heads[list(group.rows)] = group.head
        return heads


def find_near_duplicates(
    space: Space, threshold: float | None = None, *, progress: Progress | None = None, stop: Stop | None = None
) -> NearDuplicates:
    """Find the groups of near-duplicates of a corpus: every pair of documents is compared, no query is needed.

    Documents with a cosine of the threshold or more are neighbours; a group is documents that neighbours connect, so
    that its ends may be less alike. Copies, documents with equal texts, are always in one group, and so are equal
    vectors. The result is cached in the space.

    Parameters
    ----------
    space : Space
        The corpus with its vectors.
    threshold : float or None
        The cosine from which on two documents are near-duplicates, in [0, 1]; None takes the larger of 0.9 and a
        high percentile of 100,000 random pairs of the corpus: the 99.9th, and below 10,000 documents a lower one.
    progress : callable or None
        progress(done, total, label) while pairs are compared.
    stop : object with is_set() or None
        A flag that ends the work, such as a threading.Event.

    Returns
    -------
    NearDuplicates
        Groups, copies, documents with equal vectors, the number of neighbours, and the random pairs.

    Raises
    ------
    ParamError
        If the threshold is not in [0, 1].
    DataError
        If the corpus is in a vector engine.
    Cancelled
        If `stop` was set.

    Examples
    --------
    >>> import engine
    >>> corpus = engine.Corpus(("a", "b", "c"), ("a red apple", "one red apple", "the sky"))
    >>> space = engine.Space(corpus, engine.Embeddings(corpus.ids, [[1.0, 0.0], [0.99, 0.1], [0.0, 1.0]]))
    >>> found = engine.find_near_duplicates(space)
    >>> found.threshold, [group.rows for group in found.groups], found.neighbours.tolist()
    (0.9, [(0, 1)], [1, 1, 0])
    """
    if not isinstance(space, Space):
        raise space.refuse("finding near-duplicates")
    resolved = resolve_duplicate_threshold(space, threshold)
    report = with_cancellation(progress, stop, "the search for near-duplicates was stopped")
    return space.derived(("near-duplicates", resolved), lambda: _find_near_duplicates(space, resolved, report))


@without_autocast
def _find_near_duplicates(space: Space, threshold: float, report: Progress) -> NearDuplicates:
    """Compare every pair of documents, and group them."""
    duplicate_of = find_equal_vectors(space)
    # Each vector is compared once, however many documents have it.
    distinct_rows, distinct_of = np.unique(duplicate_of, return_inverse=True)
    counts = np.bincount(distinct_of)
    comparison = _Comparison(space.vectors, distinct_rows, counts, threshold)
    comparison.compare_all(report)
    # A document's neighbours are those of its vector, and the others with the same vector.
    neighbours = comparison.neighbours[distinct_of] + counts[distinct_of] - 1
    copy_of = find_copies(space.corpus, duplicate_of)
    # Copies whose vectors differ, such as vectors from elsewhere, are joined all the same.
    node_of = comparison.component_of[distinct_of]
    component_of = join_components(node_of, node_of, node_of[copy_of])
    groups = _make_groups("near", component_of, neighbours)
    return NearDuplicates(
        threshold=threshold, groups=groups, copies=_make_groups("copies", copy_of),
        equal_vectors=_make_groups("vectors", duplicate_of), neighbours=neighbours,
        random_pairs=sample_random_pairs(space),
    )  # fmt: skip


def find_equal_vectors(space: Space) -> np.ndarray:
    """Return the (n,) first row with the same vector as each document; a row of zeros is like no other."""
    # Rows of zeros have cosine 0, to each other too.
    has_length = space.matrix.lengths.cpu().numpy() > 0
    return np.where(has_length, space.matrix.duplicate_of.cpu().numpy(), np.arange(len(space)))


def find_copies(corpus: Corpus, duplicate_of: np.ndarray | None = None) -> np.ndarray:
    """Return the (n,) first row with the same title and text as each document, which may be itself.

    duplicate_of: (n,) the first row with the same vector, by which documents without a text are told apart; without,
    each of them is one of its own
    """
    first_rows: dict[bytes | int, int] = {}
    copy_of = np.arange(len(corpus))
    for row, passage in enumerate(corpus.passages):
        if passage:
            # Digests, as the texts of a large corpus stay on disk.
            key: bytes | int = hashlib.sha256(passage.encode("utf-8", "surrogatepass")).digest()
        elif duplicate_of is not None:
            key = int(duplicate_of[row])
        else:
            continue
        copy_of[row] = first_rows.setdefault(key, row)
    return copy_of


class _Comparison:
    """All pairs of n distinct vectors: how many reach a threshold for each, and the components that they connect."""

    def __init__(self, vectors: Tensor, rows: np.ndarray, counts: np.ndarray, threshold: float) -> None:
        """Prepare the comparison of some rows of (N, d) vectors. counts: (n,) documents with each vector."""
        self.vectors, self.rows, self.threshold = vectors, torch.from_numpy(rows).to(vectors.device), threshold
        self.counts = counts
        self.neighbours = np.zeros(len(rows), dtype=np.int64)
        self.component_of = np.arange(len(rows))
        # Within this margin a product in float32 does not decide, and the pair is computed in float64.
        self.margin = 2 * rounding(torch.empty(0, vectors.shape[1], device=vectors.device))
        self._pending: list[np.ndarray] = []
        self._n_pending = 0

    def compare_all(self, report: Progress) -> None:
        """Compare each pair once, in blocks whose size changes no result."""
        n_rows = len(self.rows)
        row_starts = range(0, n_rows, ROW_BLOCK)
        # One buffer for all blocks: new ones between small results that stay would fragment the memory.
        buffer = torch.empty(min(n_rows, ROW_BLOCK) * min(n_rows, COLUMN_BLOCK), device=self.vectors.device)
        total, done = sum(len(range(start, n_rows, COLUMN_BLOCK)) for start in row_starts), 0
        for row_start in row_starts:
            block = self._take_rows(row_start, ROW_BLOCK).float()
            for column_start in range(row_start, n_rows, COLUMN_BLOCK):
                report(done, total, COMPARING)
                columns = self._take_rows(column_start, COLUMN_BLOCK).float()
                cosines = buffer[: len(block) * len(columns)].view(len(block), len(columns))
                self._add_block(torch.mm(block, columns.T, out=cosines), row_start, column_start)
                done += 1
            self._join_pending()
        report(total, total, COMPARING)

    def _take_rows(self, start: int, size: int) -> Tensor:
        """Return unit rows in float64, from `start` on."""
        return normalize_rows(self.vectors[self.rows[start : start + size]])

    def _add_block(self, cosines: Tensor, row_start: int, column_start: int) -> None:
        """Count and join the pairs of an (r, c) block of cosines that reach the threshold."""
        is_near = cosines >= self.threshold - self.margin
        if column_start < row_start + len(cosines):
            # On the diagonal each pair comes twice, and every row meets itself.
            is_near = is_near.triu_(1 - (column_start - row_start))
        mask = is_near.cpu().numpy()
        if np.count_nonzero(mask) > MAX_LISTED_SHARE * mask.size:
            return self._add_crowd(cosines, is_near, row_start, column_start)
        # Few pairs of a block are near: only these are looked at one by one.
        positions = np.flatnonzero(mask)
        block_cosines = cosines.flatten()[torch.from_numpy(positions).to(cosines.device)].cpu().numpy()
        first, second = np.divmod(positions, mask.shape[1])
        first, second = first + row_start, second + column_start
        is_open = block_cosines < self.threshold + self.margin
        # Where rounding could decide, the cosine is computed in float64.
        reaches = ~is_open
        rows = self.rows.cpu().numpy()
        pair_cosines = compute_pair_cosines(self.vectors, rows[first[is_open]], rows[second[is_open]])
        reaches[is_open] = pair_cosines >= self.threshold - COSINE_TOLERANCE
        first, second = first[reaches], second[reaches]
        # A neighbour counts once for every document that has its vector.
        np.add.at(self.neighbours, first, self.counts[second])
        np.add.at(self.neighbours, second, self.counts[first])
        self._gather_edges(first, second)

    def _add_crowd(self, cosines: Tensor, is_near: Tensor, row_start: int, column_start: int) -> None:
        """Count and join the pairs of a block in which many are near, without a list of them."""
        n_block_rows, n_columns = cosines.shape
        row_slice = slice(row_start, row_start + n_block_rows)
        column_slice = slice(column_start, column_start + n_columns)
        is_open = is_near & (cosines < self.threshold + self.margin)
        if is_open.any():
            # In float64 the order of a sum, which a block may change, is far below the tolerance.
            exact = self._take_rows(row_start, n_block_rows) @ self._take_rows(column_start, n_columns).T
            is_near &= ~is_open | (exact >= self.threshold - COSINE_TOLERANCE)
        # float64 holds every such number exactly.
        weights = torch.from_numpy(self.counts).double().to(is_near.device)
        numbers = is_near.double()
        self.neighbours[row_slice] += (numbers @ weights[column_slice]).long().cpu().numpy()
        self.neighbours[column_slice] += (weights[row_slice] @ numbers).long().cpu().numpy()
        # In a crowd nearly all pairs are of one component already: they are dropped before they are listed.
        differs = self.component_of[row_slice, None] != self.component_of[column_slice]
        first, second = np.nonzero(is_near.cpu().numpy() & differs)
        self._gather_edges(first + row_start, second + column_start)

    def _gather_edges(self, first: np.ndarray, second: np.ndarray) -> None:
        """Keep pairs, to be joined; first, second: (m,) their vectors."""
        if len(first):
            self._pending.append(np.stack([self.component_of[first], self.component_of[second]]))
            self._n_pending += len(first)
        if self._n_pending > MAX_PENDING_EDGES:
            self._join_pending()

    def _join_pending(self) -> None:
        """Join the components that the gathered pairs connect."""
        if self._pending:
            first, second = np.concatenate(self._pending, axis=1)
            self.component_of = join_components(self.component_of, first, second)
        self._pending, self._n_pending = [], 0


def join_components(component_of: np.ndarray, first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Return the (n,) components after those of `first` and `second`, (m,) each, have been joined pair by pair.

    component_of: (n,) numbers below n
    """
    n_nodes = len(component_of)
    edges = coo_array((np.ones(len(first), dtype=bool), (first, second)), shape=(n_nodes, n_nodes))
    _n_components, joined = connected_components(edges, directed=False)
    components: np.ndarray = joined[component_of]
    return components


def _make_groups(
    kind: GroupKind, component_of: np.ndarray, neighbours: np.ndarray | None = None
) -> tuple[DuplicateGroup, ...]:
    """Return the components of two or more documents, the largest first, ties by the lowest row.

    neighbours: (n,) number of neighbours, by which a group's head is chosen; None takes its first document
    """
    # A stable sort keeps the corpus's order within each component.
    order = np.argsort(component_of, kind="stable")
    starts = np.flatnonzero(np.diff(component_of[order], prepend=-1))
    groups = []
    for rows in np.split(order, starts[1:]):
        if len(rows) < 2:
            continue
        # argmax takes the first of several maxima, which is the lowest row.
        head = rows[0] if neighbours is None else rows[neighbours[rows].argmax()]
        groups.append(DuplicateGroup(kind, (int(head), *rows[rows != head].tolist())))
    # The number of a component says nothing: groups of one size are in the corpus's order.
    return tuple(sorted(groups, key=lambda group: (-len(group), min(group.rows))))
