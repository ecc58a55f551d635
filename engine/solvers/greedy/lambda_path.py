"""Every λ of a greedy selector at once: where its picks change, and the gains in between, which are lines.

With the picks before it given, the gain of a candidate, λ·a + (1−λ)·b, is a line in λ. The best of these lines, their
upper envelope, cuts an interval into pieces, each with its pick; each piece is cut again by the next pick, depth first,
with the state of every depth kept. A line that is under the best at both ends of an interval, and where the best two of
the ends cross, is nowhere the best: so a step takes three looks at all candidates (Eisner & Severance 1976), and the
rest goes on among the few lines left.

a and b come from the loops of `steps`, bit by bit. What rounding may decide is told apart from the rest: a ranking is
certain between two λ where every pick is ahead of all other candidates by more than `slack`, which is many times what
λ·a + (1−λ)·b is rounded by. Outside, next to where the picks change or where two lines all but coincide, only the
selector itself can tell.
"""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from engine.candidates import Candidates
from engine.matrix import GRAM_ROWS
from engine.solvers.coverage import Covers, covered, grounds
from engine.solvers.gram import Gram, corpus_gram, products, squares
from engine.solvers.greedy.steps import (
    COVERAGE,
    LOG_RESIDUAL,
    NEAREST,
    NOTHING_BUT_OUT,
    OUT,
    ROOT_RESIDUAL,
    SUM,
    begin,
    best,
    fold_held,
    gains,
    lanes,
    nothing_chosen,
)
from engine.solvers.jit import exactly, maxima
from engine.solvers.largest import LANES as COVER_LANES
from engine.solvers.lines import LambdaPath, by_value

Array = np.ndarray

SLACK = 2.0**-46
"""What rounding may decide, as a share of the size of the gains' parts: 128 units."""
BELOW_ONE = 1 - 2.0**-53
"""At λ = 1 itself LOG_RESIDUAL is relevance alone, so its lines end before."""
GUESSED = 512
"""Among so many most relevant the first picks are guessed there."""
HELD = 1024
"""For how many picks Gram rows are held at first, where not all can be."""


@maxima
def leaders(weight, a, b, slack, floor, few, count, listed):
    """Add to few[:count] who is within `slack` of the best, or over `floor`; the best, lowest first, and the count."""
    n, rest, largest, at = len(a), 1 - weight, -np.inf, len(a)
    top = lanes(weight, a, b)
    for j in range(len(top)):
        largest = max(largest, top[j])
    if largest <= NOTHING_BUT_OUT:
        return best(weight, a, b), count
    least = min(largest - slack, floor)
    for j in range(len(top)):
        if top[j] >= least:
            for i in range(j, n, len(top)):
                value = weight * a[i] + rest * b[i]
                if value >= least and not listed[i]:
                    listed[i] = True
                    few[count] = i
                    count += 1
                if value == largest and i < at:
                    at = i
    return at, count


@exactly
def certainty(a, b, i, left, right, slack, few, certain):
    """certain = from where to where in [left, right] line i is ahead of all others among few by more than slack."""
    certain[0], certain[1] = left, right
    own_left, own_right = left * a[i] + (1 - left) * b[i], right * a[i] + (1 - right) * b[i]
    for c in few:
        if a[c] != a[i] or b[c] != b[i]:
            at_left = own_left - (left * a[c] + (1 - left) * b[c])
            at_right = own_right - (right * a[c] + (1 - right) * b[c])
            if at_left <= slack and at_right <= slack:
                certain[0], certain[1] = np.inf, -np.inf
            elif at_left <= slack:
                share = (slack - at_left) / (at_right - at_left)
                certain[0] = max(certain[0], left + (right - left) * share)
            elif at_right <= slack:
                share = (slack - at_right) / (at_left - at_right)
                certain[1] = min(certain[1], right - (right - left) * share)


@exactly
def envelope(a, b, low, high, slack, few, listed, ends, lines, certain):
    """Cut [low, high] into pieces: piece j ends at ends[j], and line lines[j] is the best there. Returns how many."""
    i, count = leaders(low, a, b, slack, np.inf, few, 0, listed)
    j, count = leaders(high, a, b, slack, np.inf, few, count, listed)
    steeper = (a[j] - b[j]) - (a[i] - b[i])
    if i != j and steeper > 0:
        x = min(max((b[i] - b[j]) / steeper, low), high)
        crossing = min(x * a[i] + (1 - x) * b[i], x * a[j] + (1 - x) * b[j])
        _, count = leaders(x, a, b, slack, crossing - slack, few, count, listed)
    pieces, left = 0, low
    while True:
        right, following = high, -1
        for c in few[:count]:
            steeper = (a[c] - b[c]) - (a[i] - b[i])
            if steeper > 0:
                x = max((b[i] - b[c]) / steeper, left)
                if x < right:
                    right, following = x, c
                elif x == right and following >= 0:
                    more = (a[c] - b[c]) - (a[following] - b[following])
                    if more > 0 or (more == 0 and c < following):
                        following = c
        if following < 0 or right > left:
            ends[pieces], lines[pieces] = right, i
            certainty(a, b, i, left, right, slack, few[:count], certain[pieces])
            pieces += 1
        if following < 0:
            break
        i, left = following, right
    for c in few[:count]:
        listed[c] = False
    return pieces


@exactly
def renew(a, b, low, high, slack, stale, rows, cover, share, sums):
    """Bring b up to date for all whom `envelope` may look at: of the others upper bounds are enough (Minoux 1978)."""
    points, winners = np.array([low, high, low]), np.zeros(3, np.int64)
    for at in range(2):
        winners[at] = best(points[at], a, b)
        while stale[winners[at]]:
            i = winners[at]
            b[i], stale[i] = share * covered(rows[i], cover, sums), False
            winners[at] = best(points[at], a, b)
    i, j = winners[0], winners[1]
    steeper = (a[j] - b[j]) - (a[i] - b[i])
    if i != j and steeper > 0:
        points[2] = min(max((b[i] - b[j]) / steeper, low), high)
    winners[2] = i
    for at in range(3):
        weight, i = points[at], winners[at]
        least, top = weight * a[i] + (1 - weight) * b[i] - 2 * slack, lanes(weight, a, b)
        for residue in range(len(top)):
            if top[residue] >= least:
                for c in range(residue, len(a), len(top)):
                    if stale[c] and weight * a[c] + (1 - weight) * b[c] >= least:
                        b[c], stale[c] = share * covered(rows[c], cover, sums), False


@exactly
def hold(columns, rows, made, slot, used, p):
    """Where in rows the Gram row of candidate p is, made if it was not there; −1 where there is no room for it."""
    if slot[p] < 0:
        if used[0] == len(rows):
            return -1
        slot[p] = used[0]
        used[0] += 1
    at = slot[p]
    if not made[at]:
        # Another thread may make it too: sums on the way must not be seen where it is read.
        row = np.empty((1, rows.shape[1]))
        products(columns, columns[:, p].astype(np.float64).reshape(1, -1), row)
        for i in range(rows.shape[1]):
            rows[at, i] = row[0, i]
        made[at] = True
    return at


@exactly
def hold_together(columns, rows, made, slot, used, picks):
    """Make the Gram rows of some candidates as far as they are not held and there is room: faster than one by one."""
    start, count = used[0], 0
    for p in picks:
        if slot[p] < 0 and start + count < len(rows):
            slot[p] = start + count
            count += 1
    points = np.empty((count, len(columns)))
    for p in picks:
        if slot[p] >= start:
            for x in range(len(columns)):
                points[slot[p] - start, x] = columns[x, p]
    products(columns, points, rows[start : start + count])
    for at in range(start, start + count):
        made[at] = True
    used[0] += count


@exactly
def holds_mark(marks, low, high):
    """Whether there is a mark from low to high; marks ascend, and none at all stand for every number."""
    left, right = 0, len(marks)
    while left < right:
        middle = (left + right) // 2
        if marks[middle] < low:
            left = middle + 1
        else:
            right = middle
    return len(marks) == 0 or (left < len(marks) and marks[left] <= high)


@exactly
def grown(array):
    """The array with twice the rows."""
    more = np.empty((2 * len(array), array.shape[1]), array.dtype)
    for i in range(len(array)):
        for j in range(array.shape[1]):
            more[i, j] = array[i, j]
    return more


@exactly
def follow(
    kind, columns, rows, made, slot, used, squares, relevance, k, window, floor, by_relevance, low, high, slack, marks,
    alone, second, seen,
):  # fmt: skip
    """The pieces of [low, high] that hold a mark, from the left: (m, 3) end, certain from, certain to; (m, k)
    picks; (m, 2, k) lines; and False where there was no room for a Gram row.

    Arguments as of `steps.choose`; rows: (r, n), row slot[i] of which is candidate i's where made;
    alone, second, seen: see `Covers`.
    """
    n, keeps = len(relevance), kind in (LOG_RESIDUAL, ROOT_RESIDUAL)
    a, fixed, states, scratch = np.empty(n), np.empty(n), np.empty((k, n)), np.empty((2, n if keeps else 0))
    along, coefficients = np.empty((k if keeps else 0, n)), np.empty((k if keeps else 0, k))
    # What a window leaves out starts the span anew: that of the picks on the way here is still needed.
    window_along, window_coefficients = (
        np.empty((window if keeps else 0, n)),
        np.empty((window if keeps else 0, window)),
    )
    few, listed = np.empty(n, np.int64), np.zeros(n, np.bool_)
    ends, lines, certain = np.empty(n), np.empty(n, np.int64), np.empty((n, 2))
    # Nodes to come, the leftmost on top: left, right, certain from and to, b of the pick; its depth and itself.
    todo, which = np.empty((1024, 5)), np.empty((1024, 2), np.int64)
    bounds, picks, values = np.empty((256, 3)), np.empty((256, k), np.int64), np.empty((256, k))
    chosen, held, own = np.empty(k, np.int64), np.empty(k, np.int64), np.empty(k)
    lazy, share, sums, stale = kind == COVERAGE, k / n, np.empty(COVER_LANES), np.zeros(n, np.bool_)
    upper = np.empty((k if lazy else 0, n))
    begin(kind, squares, relevance, k, a, states[0])
    for i in range(n):
        fixed[i] = a[i]
    b = np.zeros(n)
    if lazy:
        states[0] = 0.0
        b = upper[0]
        for i in range(n):
            b[i] = share * alone[i]
    if keeps:
        gains(kind, states[0], squares, floor, a, b, scratch)
    if by_relevance:
        p = best(1.0, relevance, relevance)
        ends[0], lines[0], certain[0, 0], certain[0, 1], count = high, p, low, high, 1
    else:
        count = envelope(a, b, low, high, slack, few, listed, ends, lines, certain)
    left, sure_left, sure_right, depth, top, found, taken, room = low, low, high, 0, 0, 0, 0, True
    while True:
        while top + count > len(todo):
            todo, which = grown(todo), grown(which)
        below = top
        for c in range(count - 1, -1, -1):
            todo[top, 0], todo[top, 1] = ends[c - 1] if c else left, ends[c]
            if not holds_mark(marks, todo[top, 0], todo[top, 1]):
                continue
            todo[top, 2], todo[top, 3] = max(sure_left, certain[c, 0]), min(sure_right, certain[c, 1])
            todo[top, 4] = b[lines[c]] if b[lines[c]] > NOTHING_BUT_OUT else fixed[lines[c]]
            which[top, 0], which[top, 1] = depth, lines[c]
            top += 1
        if top > below + 1 and depth < k - 1 and len(slot) > len(rows):
            hold_together(columns, rows, made, slot, used, which[below:top, 1].copy())
        if not top:
            break
        top -= 1
        left, right, sure_left, sure_right = todo[top, 0], todo[top, 1], todo[top, 2], todo[top, 3]
        t, p = which[top]
        for c in range(t, taken):
            a[chosen[c]] = fixed[chosen[c]]
        chosen[t], own[t], taken, depth = p, todo[top, 4], t + 1, t + 1
        if depth == k:
            if found == len(bounds):
                bounds, picks, values = grown(bounds), grown(picks), grown(values)
            bounds[found, 0], bounds[found, 1], bounds[found, 2] = right, sure_left, sure_right
            for j in range(k):
                picks[found, j], values[found, j] = chosen[j], own[j]
            found, count = found + 1, 0
            continue
        held[t] = hold(columns, rows, made, slot, used, p)
        if held[t] < 0:
            room = False
            break
        a[p] = OUT
        before, state, first, fresh = states[t], states[depth], 0, t
        span, inner = along, coefficients
        if window and depth > window:
            before, first, fresh, span, inner = state, depth - window, 0, window_along, window_coefficients
            nothing_chosen(kind, squares, state)
        for c in range(depth if lazy else fresh, depth - first):
            fold_held(kind, columns, rows, held[first:], squares, chosen[first:], c, before, state, floor, span, inner)
            before = state
        if keeps:
            gains(kind, state, squares, floor, a, b, scratch)
        elif lazy:
            b = upper[depth]
            for i in range(n):
                state[i], b[i] = max(before[i], rows[p, i]), upper[t, i]
            b[p], stale[:] = OUT, True
            if depth == 1:
                # The first pick lowers nearly every gain, and each branch after it would find that out anew.
                if not seen[p]:
                    for i in range(n):
                        second[p, i] = covered(rows[i], state, sums)
                    seen[p] = True
                for i in range(n):
                    b[i] = share * second[p, i] if a[i] > OUT else OUT
            else:
                renew(a, b, left, right, slack, stale, rows, state, share, sums)
        else:
            for c in range(depth):
                state[chosen[c]] = OUT
            b = state
        count = envelope(a, b, left, right, slack, few, listed, ends, lines, certain)
    both = np.empty((found, 2, k))
    for m in range(found):
        for c in range(k):
            both[m, 0, c], both[m, 1, c] = fixed[picks[m, c]], values[m, c]
    return bounds[:found], picks[:found], both, room


class _Rows:
    """Gram rows of some candidates: all that a small corpus keeps, or those of the picks alone."""

    def __init__(self, vectors: Tensor, gram: Gram | None = None) -> None:
        n = len(vectors)
        if gram is None and n <= GRAM_ROWS:
            gram = Gram(vectors)
        if gram is not None:
            self._keep(gram.columns, gram.rows, gram.made, gram.squares)
            return
        # In the vectors' own precision: sums over them are float64's, and the same.
        self.columns = vectors.T.contiguous().cpu().numpy()
        self.squares = squares(self.columns)
        self.rows, self.made, self.slot = np.empty((min(n, HELD), n)), np.zeros(min(n, HELD), np.bool_), np.full(n, -1)

    @classmethod
    def of(cls, columns: Array, rows: Array, made: Array, squares: Array) -> "_Rows":
        """Those of all candidates."""
        kept = cls.__new__(cls)
        kept._keep(columns, rows, made, squares)
        return kept

    def _keep(self, columns: Array, rows: Array, made: Array, squares: Array) -> None:
        self.columns, self.rows, self.made, self.squares = columns, rows, made, squares
        self.slot = np.arange(len(rows))

    def grow(self) -> None:
        """Room for twice as many rows."""
        self.rows = np.concatenate([self.rows, np.empty_like(self.rows)])
        self.made = np.concatenate([self.made, np.zeros_like(self.made)])

    @property
    def whole(self) -> bool:
        """Whether all candidates have their rows."""
        return len(self.rows) == len(self.slot)

    def fetch(self, picks: Array) -> None:
        """Hold the rows of some candidates, made together, and no others."""
        while len(self.rows) < len(picks):
            self.grow()
        self.slot[:], self.made[:] = -1, False
        points = np.ascontiguousarray(self.columns[:, picks].T, dtype=np.float64)
        products(self.columns, points, self.rows[: len(picks)])
        self.slot[picks], self.made[: len(picks)] = np.arange(len(picks)), True

    def relevance(self, queries: Tensor) -> Array:
        """(B, n) inner products with queries, (B, d)."""
        out = np.empty((len(queries), len(self.slot)))
        products(self.columns, queries.double().cpu().numpy(), out)
        return out


def lambda_paths(
    kind: int,
    c: Candidates,
    k: int,
    interval: tuple[float, float],
    marks: Sequence[float] = (),
    *,
    floor: float = 0.0,
    window: int | None = None,
) -> list[LambdaPath]:
    """The path of every problem.

    kind, floor: see `steps`; window: only the last so many picks count; marks: ascending λ that alone are asked for,
    none for all: pieces without one are left out, and belong to the next that is there.

    For SUM the answer is the set in the order of the members' contributions to it, and so are picks and gains.
    """
    rows, paths = _Rows(c.vectors, corpus_gram(c)) if c.shared else None, []
    for b in range(c.batch):
        vectors = c.vectors if c.shared else c.vectors[b]
        own = rows or _Rows(vectors)
        relevance = own.relevance(c.queries[b : b + 1])[0] if c.inner_product else c.relevance[b].double().cpu().numpy()
        settings = (k, interval, floor, window, c.matrix.unit, marks)
        if not own.whole:
            # The path among the most relevant guesses which rows will be asked for: together they are made in half
            # the time.
            near = np.sort(np.argpartition(-relevance, max(k, GUESSED))[: max(k, GUESSED)])
            part = _Rows(vectors[torch.from_numpy(near).to(vectors.device)])
            own.fetch(near[np.unique(_path(kind, part, relevance[near], *settings).picks)])
        paths.append(_path(kind, own, relevance, *settings))
    return paths


def coverage_paths(
    c: Candidates, k: int, interval: tuple[float, float], size: int, marks: Sequence[float] = ()
) -> list[LambdaPath]:
    """The path of every problem on its ground set of the `size` most relevant, all of whose inner products are kept.

    a = r, b = k/size Σ_j max(0, s_ij − the largest similarity of j to the chosen).
    """
    paths = []
    for _, ground, covers, relevances in grounds(c, size):
        rows = _Rows.of(covers.columns, covers.rows, covers.made, covers.rows.diagonal().copy())
        for relevance in relevances:
            found = _path(COVERAGE, rows, relevance, k, interval, 0.0, None, False, marks, covers)
            paths.append(replace(found, picks=ground[found.picks]))
    return paths


def _path(
    kind: int,
    rows: _Rows,
    relevance: Array,
    k: int,
    interval: tuple[float, float],
    floor: float,
    window: int | None,
    unit: bool,
    marks: Sequence[float] = (),
    covers: Covers | None = None,
) -> LambdaPath:
    low, high = interval
    slack = SLACK * _size(kind, rows.squares, relevance, k, floor)
    last = min(high, BELOW_ONE) if kind == LOG_RESIDUAL else high
    by_relevance = k == 1 or kind in (NEAREST, SUM) or unit
    window = window if window and window < k else 0
    whole, inner_marks = low > last, np.array([mark for mark in marks if low <= mark <= last])
    nothing = np.empty(0), np.empty((0, 0)), np.empty(0, np.bool_)
    table = nothing if covers is None else (covers.alone, covers.second, covers.seen)
    bounds, picks, lines = np.empty((0, 3)), np.empty((0, k), np.int64), np.empty((0, 2, k))
    while not whole:
        used = np.array([int(rows.slot.max()) + 1])
        bounds, picks, lines, whole = follow(
            kind, rows.columns, rows.rows, rows.made, rows.slot, used, rows.squares, relevance, k, window, floor,
            by_relevance, low, last, slack, inner_marks, *table,
        )  # fmt: skip
        if not whole:
            rows.grow()
    if kind == SUM:
        return _as_set(rows, relevance, low, bounds, picks, slack)
    if high > last:
        # The k most relevant, whatever the floor says.
        top = np.argsort(-relevance, kind="stable")[:k]
        bounds = np.concatenate([bounds, [[high, np.inf, -np.inf]]])
        picks, lines = np.concatenate([picks, top[None]]), np.concatenate([lines, [[relevance[top]] * 2]])
    return LambdaPath(low, bounds[:, 0], picks, lines, bounds[:, 1:])


def _size(kind: int, squares: Array, relevance: Array, k: int, floor: float) -> float:
    """No gain has larger parts."""
    largest, most = float(squares.max()), float(np.abs(relevance).max())
    if kind == SUM:
        return (k - 1) * (most + 2 * largest) or most
    if kind == COVERAGE:
        return most + k * largest
    if kind == LOG_RESIDUAL:
        least = float(squares[squares > 0].min(initial=largest)) * floor
        return most + max(abs(math.log(max(x, 1e-300))) for x in (largest, least))
    return most + (math.sqrt(largest) if kind == ROOT_RESIDUAL else largest)


def _as_set(rows: _Rows, relevance: Array, low: float, bounds: Array, picks: Array, slack: float) -> LambdaPath:
    """The members in the order of a_i = (k−1) r_i, b_i = −2 Σ s_ij over the others; alone, by relevance."""
    k = picks.shape[1]
    one, two = np.triu_indices(k, 1)
    similarity = np.zeros((len(picks), k, k))
    # The rows of all but the last pick are there, and s_ij = s_ji.
    similarity[:, one, two] = similarity[:, two, one] = rows.rows[rows.slot[picks[:, one]], picks[:, two]]
    similarity[:, range(k), range(k)] = rows.squares[picks]
    order = picks.argsort(1)
    members = np.take_along_axis(picks, order, 1)
    similarity = np.take_along_axis(np.take_along_axis(similarity, order[:, :, None], 1), order[:, None], 2)
    # Summed with the diagonal, identical members have identical sums.
    b = -2 * (similarity.sum(2) - rows.squares[members])
    a = (k - 1) * relevance[members] if k > 1 else relevance[members]
    lines = np.stack([a, b if k > 1 else a], 1)
    return by_value(low, bounds[:, 0], bounds[:, 1:], members, lines, k, slack)
