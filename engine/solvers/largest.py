"""Compiled search for the largest of many numbers; of equal ones the lowest row."""

import numpy as np

from engine.solvers.jit import jit_exact, jit_maxima

Array = np.ndarray

N_LANES = 64
"""Number of running maxima, which a processor compares side by side."""


@jit_maxima
def find_lane_maxima(a_weight: float, a: Array, b_weight: float, b: Array) -> Array:
    """Return (N_LANES,) the largest a_weight · a + b_weight · b among the rows of each lane; a, b: (n,).

    Lane l holds the rows l, l + 64, l + 128 …; a single running maximum over all would not be vectorised by the
    compiler.
    """
    n, maxima = len(a), np.full(N_LANES, -np.inf)
    for start in range(0, n - N_LANES + 1, N_LANES):
        a_strip, b_strip = a[start : start + N_LANES], b[start : start + N_LANES]
        for lane in range(N_LANES):
            value = a_weight * a_strip[lane] + b_weight * b_strip[lane]
            maxima[lane] = value if value > maxima[lane] else maxima[lane]
    for row_id in range(n - n % N_LANES, n):
        maxima[row_id % N_LANES] = max(maxima[row_id % N_LANES], a_weight * a[row_id] + b_weight * b[row_id])
    return maxima


@jit_maxima
def find_lane_winner(a_weight: float, a: Array, b_weight: float, b: Array, maxima: Array) -> tuple[int, float]:
    """Return the row with the largest sum, the lowest of equals, and that sum, given the maxima of the lanes."""
    maximum, lowest_row = maxima[0], len(a)
    for lane in range(1, N_LANES):
        maximum = max(maximum, maxima[lane])
    for lane in range(N_LANES):
        if maxima[lane] == maximum:
            for row_id in range(lane, lowest_row, N_LANES):
                if a_weight * a[row_id] + b_weight * b[row_id] == maximum:
                    lowest_row = row_id
                    break
    return lowest_row, maximum


@jit_maxima
def find_largest(a_weight: float, a: Array, b_weight: float, b: Array) -> tuple[int, float]:
    """Return the row with the largest a_weight · a + b_weight · b, the lowest of equals, and that sum; a, b: (n,)."""
    winner: tuple[int, float] = find_lane_winner(a_weight, a, b_weight, b, find_lane_maxima(a_weight, a, b_weight, b))
    return winner


@jit_exact
def ranks_below(primary: Array, secondary: Array, this_row: int, other_row: int) -> bool:
    """Return True if `this_row` ranks after `other_row`: by `primary`, by `secondary`, then by row."""
    if primary[this_row] != primary[other_row]:
        return bool(primary[this_row] < primary[other_row])
    return bool(secondary[this_row] < secondary[other_row]) or (
        secondary[this_row] == secondary[other_row] and this_row > other_row
    )


@jit_exact
def replace_heap_root(primary: Array, secondary: Array, heap: Array, new_row: int) -> None:
    """Replace the worst of the best rows found so far, the root of a heap, by a better one.

    The heap's order is restored: no row is worse than its parent. primary, secondary: (n,) values that rows are ordered
    by; heap: (k,) rows
    """
    heap_size, node = len(heap), 0
    while 2 * node + 1 < heap_size:
        child = 2 * node + 1
        if child + 1 < heap_size and ranks_below(primary, secondary, heap[child + 1], heap[child]):
            child += 1
        if not ranks_below(primary, secondary, heap[child], new_row):
            break
        heap[node] = heap[child]
        node = child
    heap[node] = new_row


@jit_exact
def select_best_rows(primary: Array, secondary: Array, heap: Array, is_marked: Array, best_ids: Array) -> None:
    """Write the best rows to `best_ids`, in ascending order of rows.

    The best have the largest `primary`; of equals the larger `secondary` is better, then the lower row. best_ids: as
    long as the number of rows wanted; heap: as long, receives the same rows with the worst first; is_marked: (n,)
    scratch, all False
    """
    n_best, n = len(best_ids), len(primary)
    for row_id in range(n_best):
        node = row_id
        while node and ranks_below(primary, secondary, row_id, heap[(node - 1) // 2]):
            heap[node] = heap[(node - 1) // 2]
            node = (node - 1) // 2
        heap[node] = row_id
    # The root of the heap is the worst of the best: a row enters only if it beats that.
    threshold = primary[heap[0]]
    for row_id in range(n_best, n):
        if primary[row_id] >= threshold and ranks_below(primary, secondary, heap[0], row_id):
            replace_heap_root(primary, secondary, heap, row_id)
            threshold = primary[heap[0]]
    for row_id in heap:
        is_marked[row_id] = True
    rank = 0
    for row_id in range(n):
        if is_marked[row_id]:
            is_marked[row_id] = False
            best_ids[rank] = row_id
            rank += 1
