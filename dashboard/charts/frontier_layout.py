"""Geometry of the frontier's chart: the window one looks through, places of labels, outlines of many curves."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

Place = tuple[float, float]
Box = tuple[float, float, float, float]
"""Left, right, bottom, top, in pixels."""
PLOT = (700, 450)
"""Pixels of the plot at 1440 × 900, for which labels are placed; where it is smaller the browser hides some."""
CHARACTER, LINE, GAP = 6.6, 15, 11
"""Pixels of a label: width of a character, height, distance from its point."""
ROOM = 3.0
"""Percent below the budget that are in the window at the least."""


@dataclass(frozen=True)
class Window:
    """Ranges of both axes."""

    x: Place
    y: Place

    def pixels(self, place: Place) -> Place:
        """A place in pixels of PLOT, from its lower left corner."""
        pairs = zip(place, (self.x, self.y), PLOT, strict=True)
        across, up = ((value - low) / ((high - low) or 1.0) * size for value, (low, high), size in pairs)
        return across, up

    def holds(self, place: Place) -> bool:
        return all(low <= value <= high for value, (low, high) in zip(place, (self.x, self.y), strict=True))


def window(
    places: Sequence[Place], base: Place, floor: float | None, whole: bool = False, named: Sequence[Place] = ()
) -> Window:
    """What one would use: from just below the budget to a little above the best, as wide as the points there are.

    places: of all points; base: the baseline's; floor: the budget, None for none; whole: everything; named: points
    that are in it wherever they lie. Where no point but the baseline keeps the budget, it reaches down to the best of
    the others.
    """
    top = max(y for _, y in places)
    bottom = min(y for _, y in places)
    if not whole and floor is not None:
        others = [y for place in places if (y := place[1]) and place != base]
        nearest = max(others, default=floor)
        bottom = max(bottom, min(floor - max(ROOM, 0.6 * (top - floor)), nearest - 0.3 * (top - nearest)))
    bottom = min([bottom, *(y for _, y in named)])
    seen = [x for x, y in places if y >= bottom] or [base[0]]
    return Window(_padded(min(seen), max(seen), 0.05, 0.16), _padded(bottom, top, 0.03, 0.12))


def _padded(low: float, high: float, below: float, above: float) -> Place:
    wide = (high - low) or abs(high) or 1.0
    return low - below * wide, high + above * wide


def place_labels(
    wanted: Iterable[tuple[Sequence[str], Place]], points: Iterable[Place], view: Window
) -> list[tuple[str, Place] | None]:
    """The text of each label and its shift from its point in pixels; None for one that has no place.

    wanted: (texts, place) in the order in which they choose, the first text that fits is taken; points: what labels
    should not cover. A label lies beside its point, over or under it, where it is in the window and covers no label
    before it; the place that covers the fewest points wins.
    """
    marks = [view.pixels(place) for place in points]
    taken: list[Box] = []
    labels: list[tuple[str, Place] | None] = []
    for texts, place in wanted:
        found = None
        for text in texts if view.holds(place) else ():
            if (free := _free(text, view.pixels(place), marks, taken)) is not None:
                shift, box = free
                taken.append(box)
                found = text, shift
                break
        labels.append(found)
    return labels


def _free(text: str, place: Place, marks: Sequence[Place], taken: Sequence[Box]) -> tuple[Place, Box] | None:
    """The shift of a label with the fewest points under it, and its box; None where it covers another everywhere."""
    half = CHARACTER * len(text) / 2
    best: tuple[int, Place, Box] | None = None
    for shift in _shifts(half):
        x, y = place[0] + shift[0], place[1] + shift[1]
        box = x - half, x + half, y - LINE / 2, y + LINE / 2
        inside = box[0] >= 0 and box[1] <= PLOT[0] and box[2] >= 0 and box[3] <= PLOT[1]
        if inside and not any(overlap(box, other) for other in taken):
            covered = sum(box[0] < mx < box[1] and box[2] < my < box[3] for mx, my in marks)
            if best is None or covered < best[0]:
                best = covered, shift, box
    return None if best is None else best[1:]


def _shifts(half: float) -> list[Place]:
    """Where a label may lie beside its point, the nicest first."""
    side, near = half + GAP, LINE / 2 + GAP - 2
    beside = [(side, 0.0), (-side, 0.0)]
    over = [(0.0, near), (0.0, -near), (side, near), (-side, near), (side, -near), (-side, -near)]
    return [*beside, *over, (0.0, 2 * near), (0.0, -2 * near), (side, 2 * near), (side, -2 * near)]


def overlap(one: Box, other: Box) -> bool:
    """Whether two boxes have a place in common."""
    return one[0] < other[1] and other[0] < one[1] and one[2] < other[3] and other[2] < one[3]


def hull(places: Iterable[Place]) -> list[Place]:
    """The corners of the smallest convex outline around places, in its order."""
    from scipy.spatial import ConvexHull

    distinct = sorted(set(places))
    if len(distinct) < 3:
        return distinct
    # Joggled: places on one line have an outline too.
    return [distinct[i] for i in ConvexHull(distinct, qhull_options="QJ").vertices]
