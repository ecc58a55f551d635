"""Compiled search for the largest of many numbers; of equal ones the lowest row."""

import numpy as np

from engine.solvers.jit import exactly, maxima

Array = np.ndarray

LANES = 64
"""So many running maxima: a processor compares them side by side, which it cannot do with one."""


@maxima
def largest(scores: Array, row: Array, weight: float) -> tuple[int, float]:
    """The lowest row with the largest scores + weight · row, and that number."""
    n = len(scores)
    tops = np.full(LANES, -np.inf)
    for start in range(0, n - LANES + 1, LANES):
        s, r = scores[start : start + LANES], row[start : start + LANES]
        for j in range(LANES):
            value = s[j] + weight * r[j]
            tops[j] = value if value > tops[j] else tops[j]
    for i in range(n - n % LANES, n):
        tops[i % LANES] = max(tops[i % LANES], scores[i] + weight * row[i])
    top = tops[0]
    for j in range(1, LANES):
        top = max(top, tops[j])
    at = n
    for j in range(LANES):
        if tops[j] == top:
            for i in range(j, at, LANES):
                if scores[i] + weight * row[i] == top:
                    at = i
                    break
    return at, top


@exactly
def worse(first: Array, second: Array, a: int, b: int) -> bool:
    """Whether row a comes after row b: by `first`, then by `second`, then by row."""
    if first[a] != first[b]:
        return bool(first[a] < first[b])
    return bool(second[a] < second[b]) or (second[a] == second[b] and a > b)


@exactly
def sift(first: Array, second: Array, heap: Array, row: int) -> None:
    """Put a row in the place of the heap's root, the worst row."""
    k, at = len(heap), 0
    while 2 * at + 1 < k:
        child = 2 * at + 1
        if child + 1 < k and worse(first, second, heap[child + 1], heap[child]):
            child += 1
        if not worse(first, second, heap[child], row):
            break
        heap[at] = heap[child]
        at = child
    heap[at] = row


@exactly
def best_rows(first: Array, second: Array, heap: Array, marks: Array, out: Array) -> None:
    """The rows with the largest `first`, of equals the largest `second`, then the lowest, into `out`, ascending.

    heap: scratch as long as `out`; marks: (n,) scratch, all False
    """
    k, n = len(out), len(first)
    for i in range(k):
        at = i
        while at and worse(first, second, i, heap[(at - 1) // 2]):
            heap[at] = heap[(at - 1) // 2]
            at = (at - 1) // 2
        heap[at] = i
    bar = first[heap[0]]
    for i in range(k, n):
        if first[i] >= bar and worse(first, second, heap[0], i):
            sift(first, second, heap, i)
            bar = first[heap[0]]
    for i in heap:
        marks[i] = True
    place = 0
    for i in range(n):
        if marks[i]:
            marks[i] = False
            out[place] = i
            place += 1
