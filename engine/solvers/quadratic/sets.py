"""Sets by the quadratic objective on the rows of a Gram matrix: Algorithm 1, greedy and swaps, compiled.

With linear = θ(k−1) and beta = 2(1−θ), a set Y has the value linear·Σ r_i − beta/2 Σ_{i≠j} s_ij. Identical rows have
identical products, so they tie to the last bit and every choice takes the lower row.
"""

import numpy as np

from engine.solvers.gram import Gram, make_row
from engine.solvers.greedy.steps import SUM, choose
from engine.solvers.jit import exactly
from engine.solvers.largest import best_rows, largest

Array = np.ndarray

FIGURES = 7
"""A set is described by its value, the ascent's steps and gap, how many swaps were made, whether none is left, from how
many sets it was sought, and whether the ascent ended at a set."""
SCRATCH = 4
"""How many (n,) arrays the loops need."""
STEPS = 200
"""How many steps an ascent may take, as in the authors' implementation."""


@exactly
def ascent(
    columns: Array, rows: Array, made: Array, loads: Array, centre: Array, r: Array, linear: float, beta: float,
    loading: float, tolerance: float, most: int, chosen: Array, scratch: Array,
) -> tuple[int, float, bool]:  # fmt: skip
    """Frank–Wolfe from x = k/n into `chosen`; how many steps it took, the last gap, and whether it ended at a set.

    loads: (n,) D; centre: (n,) products with the mean row; loading: δ. A point that is no set is rounded to the k
    largest x, equal ones by gradient.
    """
    n, k = len(r), len(chosen)
    x, pulled, g, toward = scratch[0], scratch[1], scratch[2], scratch[3]
    marks, heap, corner = np.zeros(n, np.bool_), np.empty(k, np.int64), np.empty(k, np.int64)
    load, share = beta * (1 + loading), k / n
    relevance, quadratic, xx = 0.0, 0.0, 0.0
    for i in range(n):
        x[i] = share
        pulled[i] = k * centre[i]
        relevance += r[i]
        quadratic += loads[i]
        xx += centre[i]
    relevance, quadratic, xx = share * relevance, share * share * quadratic, k * share * xx
    whole, steps, gap = False, 0, 0.0
    while True:
        for i in range(n):
            g[i] = (linear * r[i] - beta * pulled[i]) + load * loads[i] * x[i]
        if steps == most:
            break
        best_rows(g, g, heap, marks, corner)
        gain, mass, overlap, along = 0.0, 0.0, 0.0, 0.0
        for member in corner:
            gain += r[member]
            mass += loads[member]
            overlap += loads[member] * x[member]
            along += pulled[member]
        gap = linear * (gain - relevance) + load * (overlap - quadratic) - beta * (along - xx)
        if gap <= tolerance * k:
            break
        if whole:  # Only what changes is added up.
            for j in range(n):
                toward[j] = pulled[j]
            for member in corner:
                marks[member] = True
            for member in chosen:
                if not marks[member]:
                    row = rows[member]
                    for j in range(n):
                        toward[j] -= row[j]
            for member in corner:
                marks[member] = False
        else:
            toward[:] = 0.0
        for member in corner:
            if not (whole and x[member] == 1.0):
                make_row(columns, rows, made, member)
                row = rows[member]
                for j in range(n):
                    toward[j] += row[j]
        inner = 0.0
        for member in corner:
            inner += toward[member]
        curvature = load * (mass - 2 * overlap + quadratic) - beta * (inner - 2 * along + xx)
        length = 1.0 if curvature >= 0 else min(1.0, gap / -curvature)
        whole = length == 1.0
        rest = 1 - length
        for i in range(n):
            x[i] *= rest
            pulled[i] = rest * pulled[i] + length * toward[i]
        for member in corner:
            x[member] += length
        relevance = rest * relevance + length * gain
        quadratic = rest * rest * quadratic + length * length * mass + 2 * length * rest * overlap
        xx = rest * rest * xx + length * length * inner + 2 * length * rest * along
        for j in range(k):
            chosen[j] = corner[j]
        steps += 1
    if steps == 0:
        for j in range(k):
            chosen[j] = corner[j]
    elif not whole:
        best_rows(x, g, heap, marks, chosen)
    return steps, gap, whole


@exactly
def swaps(
    columns: Array, rows: Array, made: Array, squares: Array, r: Array, linear: float, beta: float, tolerance: float,
    most: int, chosen: Array, scratch: Array,
) -> tuple[int, bool, float]:  # fmt: skip
    """Best-improvement swaps on `chosen` until none gains more than `tolerance`.

    How many were made, whether none is left, and the set's value.
    """
    n, k = len(r), len(chosen)
    field, rivals = scratch[0], scratch[1]
    for i in range(n):
        field[i] = linear * r[i]
    longest = 0.0
    for i in range(n):
        longest = max(longest, squares[i])
    longest = np.sqrt(longest)
    for member in chosen:
        make_row(columns, rows, made, member)
        row = rows[member]
        for j in range(n):
            field[j] -= beta * row[j]
    for j in range(n):
        rivals[j] = field[j]
    for member in chosen:
        rivals[member] = -np.inf
    swapped, settled = 0, k == n
    while not settled:
        best_gain, out, into = tolerance, -1, -1
        top = largest(rivals, field, 0.0)[1]
        for c in range(k):
            i = chosen[c]
            stays = field[i] + beta * squares[i]
            # What no rival can exceed, and what rounding may take from that.
            if top + beta * longest * np.sqrt(squares[i]) - stays + 1e-3 * tolerance < best_gain:
                continue
            rival, reached = largest(rivals, rows[i], beta)
            gain = reached - stays
            # Of equal members the highest row leaves.
            if gain > best_gain or (gain == best_gain and out >= 0 and i > chosen[out]):
                best_gain, out, into = gain, c, rival
        if out < 0:
            settled = True
        elif swapped == most:
            break
        else:
            left = chosen[out]
            make_row(columns, rows, made, into)
            before, after = rows[left], rows[into]
            for j in range(n):
                change = beta * (before[j] - after[j])
                field[j] += change
                rivals[j] += change
            rivals[left], rivals[into], chosen[out] = field[left], -np.inf, into
            swapped += 1
    relevance, inner = 0.0, 0.0
    for member in chosen:
        relevance += r[member]
        row = rows[member]
        for j in chosen:
            inner += row[j]
        inner -= squares[member]
    return swapped, settled, linear * relevance - beta / 2 * inner


@exactly
def ordered(
    columns: Array, rows: Array, made: Array, squares: Array, r: Array, linear: float, beta: float, chosen: Array,
    gain: Array,
) -> float:  # fmt: skip
    """Put a set in the order of its members' marginal contributions, which go into `gain`; the set's value."""
    k = len(chosen)
    for member in chosen:
        make_row(columns, rows, made, member)
    relevance, inner = 0.0, 0.0
    for c in range(k):
        i, total = chosen[c], 0.0
        row = rows[i]
        for j in chosen:
            total += row[j]
        relevance += r[i]
        inner += total - squares[i]
        gain[c] = linear * r[i] - beta * (total - squares[i])
    for c in range(1, k):
        i, own, place = chosen[c], gain[c], c
        while place and (gain[place - 1] < own or (gain[place - 1] == own and chosen[place - 1] > i)):
            gain[place], chosen[place] = gain[place - 1], chosen[place - 1]
            place -= 1
        gain[place], chosen[place] = own, i
    return linear * relevance - beta / 2 * inner


class SetsOnGram:
    """Sets among the rows of one Gram matrix.

    loads: (n,) D of the relaxation; most: how many swaps a set may take
    """

    def __init__(self, gram: Gram, loads: Array, k: int, most: int) -> None:
        self.gram, self.loads, self.k, self.most = gram, loads, k, most
        self.rows = gram.columns, gram.rows, gram.made
        self.scratch = np.empty((SCRATCH, len(loads)))
        self.nothing, self.outside = np.zeros(len(loads)), np.array([-np.inf, 0.0, 0.0, 0.0])

    def greedy(self, r: Array, weight: float) -> Array:
        """The most relevant, then always the largest marginal contribution."""
        chosen, scores = np.empty(self.k, np.int64), np.empty(self.k)
        choose(
            SUM, *self.rows, self.gram.squares, r, self.k, weight, 0, 0.0, True, self.outside, self.nothing, chosen,
            scores, 0, self.k,
        )  # fmt: skip
        return chosen

    def ascent(self, r: Array, weight: float, loading: float, tolerance: float) -> tuple[Array, int, float, bool]:
        """Where Frank–Wolfe ends, its steps, its last gap, and whether nothing was rounded."""
        chosen, lines = np.empty(self.k, np.int64), (weight * (self.k - 1), 2 * (1 - weight))
        steps, gap, whole = ascent(
            *self.rows, self.loads, self.gram.centre, r, *lines, loading, tolerance, STEPS, chosen, self.scratch
        )
        return chosen, steps, gap, whole

    def improved(self, r: Array, weight: float, tolerance: float, chosen: Array, starts: int, figures: Array) -> Array:
        """The best set that swaps reach from `chosen`, and where starts is 3 from greedy's and from that at δ = 0."""
        trials, lines = [chosen.copy()], (weight * (self.k - 1), 2 * (1 - weight))
        if starts == 3:
            trials += [self.greedy(r, weight), self.ascent(r, weight, 0.0, tolerance)[0]]
        for start, trial in enumerate(trials):
            swapped, settled, value = swaps(
                *self.rows, self.gram.squares, r, *lines, tolerance, self.most, trial, self.scratch
            )
            if start == 0 or value > figures[0] + tolerance:
                figures[0], figures[3], figures[4], chosen = value, swapped, settled, trial
        figures[5] = len(trials)
        return chosen


def sets(
    search: SetsOnGram, relevance: Array, reach: Array, settings: Array, tolerance: float, index: Array, gain: Array,
    figures: Array,
) -> None:  # fmt: skip
    """The sets of B problems at L settings, (B, L, k), and their figures, (B, L, FIGURES).

    relevance: (B, n); reach: (B, 2) of it and of all similarities, whose absolute values are no larger; settings: (L,
    4) θ, δ, whether greed (not the ascent) begins, and from how many sets swaps start
    """
    k, squares = search.k, search.gram.squares
    for b, r in enumerate(relevance):
        for at, (weight, loading, by_greed, starts) in enumerate(settings.tolist()):
            scale = (k - 1) * (weight * reach[b, 0] + 2 * (1 - weight) * reach[b, 1])
            found, small = figures[b, at], tolerance * scale
            found[:] = 0.0
            if k == len(r):
                chosen, found[4:] = np.arange(k), 1.0
            elif by_greed:
                chosen = search.greedy(r, weight)
            else:
                chosen, found[1], gap, found[6] = search.ascent(r, weight, loading, small)
                found[2] = gap / max(k * scale, np.finfo(np.float64).tiny)
            if starts and k < len(r):
                chosen = search.improved(r, weight, small, chosen, int(starts), found)
            index[b, at] = chosen
            value = ordered(*search.rows, squares, r, weight * (k - 1), 2 * (1 - weight), index[b, at], gain[b, at])
            found[0] = value / (k * (k - 1))
