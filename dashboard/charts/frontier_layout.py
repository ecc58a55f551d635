"""Geometry of the frontier's chart: the window, positions of labels, outlines of many curves."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from operator import itemgetter

import numpy as np

Place = tuple[float, float]
Box = tuple[float, float, float, float]
"""Left, right, bottom, top, in pixels."""
PLOT_PX = (700, 450)
"""Pixels of the plot at 1440 × 900, for which labels are placed; in a smaller one the browser hides some."""
CHARACTER_PX, LINE_PX, LABEL_GAP_PX = 6.6, 15, 11
"""Pixels of a label: width of a character, height, distance from its point."""
LEADER_PX, FAR_STEP_PX, N_FAR_STEPS = 20, 20, 6
"""Distance of a label from its point from which on a line joins them; and the places farther out that are tried."""
FAR_COST_PX = 10
"""Distance that a label goes farther out to cover a mark less."""
MIN_ROOM_PERCENT = 3.0
"""Smallest visible distance below the budget, in percent."""


@dataclass(frozen=True)
class Window:
    """Ranges of both axes, as (low end, high end); a logarithmic axis counts in powers of ten."""

    x: Place  # ends of the horizontal axis, left and right
    y: Place  # ends of the vertical axis, bottom and top

    def to_pixels(self, position: Place) -> Place:
        """Return a position in pixels from the plot's lower left corner; PLOT_PX is the plot's size."""
        x_pixels, y_pixels = map(_scale_to_pixels, position, (self.x, self.y), PLOT_PX)
        return x_pixels, y_pixels

    def holds(self, position: Place) -> bool:
        """Return True if a position is visible."""
        return self.x[0] <= position[0] <= self.x[1] and self.y[0] <= position[1] <= self.y[1]


def _scale_to_pixels(value: float, limits: Place, n_pixels: int) -> float:
    """Return the distance of a value from the lower end of its axis, in pixels."""
    return (value - limits[0]) / ((limits[1] - limits[0]) or 1.0) * n_pixels


def compute_window(
    places: Sequence[Place], base: Place, floor: float | None, show_all: bool = False, required: Sequence[Place] = ()
) -> Window:
    """Compute the ranges of both axes that are visible at first: from just below the budget to the best.

    places: of all points; base: the baseline's; floor: the smallest y within the budget, None for no budget;
    show_all: show all points; required: points that are always inside. If only the baseline keeps the budget,
    the window reaches down to the best other point.
    """
    heights = list(map(itemgetter(1), places))
    top, bottom = max(heights), min(heights)
    # Points far below the budget would compress the interesting part.
    if not show_all and floor is not None:
        # The highest point but the baseline; those at 0 retrieved nothing relevant and do not count.
        nearest = max((position[1] for position in places if position[1] and position != base), default=floor)
        bottom = max(bottom, min(floor - max(MIN_ROOM_PERCENT, 0.6 * (top - floor)), nearest - 0.3 * (top - nearest)))
    bottom, top = min([bottom, *map(itemgetter(1), required)]), max([top, *map(itemgetter(1), required)])
    visible_x = [x for x, y in places if y >= bottom] or [base[0]]
    # The larger padding is at the right and at the top, where labels need room.
    return Window(_pad_range(min(visible_x), max(visible_x), 0.05, 0.16), _pad_range(bottom, top, 0.03, 0.12))


def _pad_range(low_end: float, high_end: float, low_share: float, high_share: float) -> Place:
    """Return the ends of a range, moved outwards by shares of its length."""
    # A range of one value has no length: its value, or 1 if that is 0, takes the place of one.
    extent = (high_end - low_end) or abs(high_end) or 1.0
    return low_end - low_share * extent, high_end + high_share * extent


def place_labels(
    candidates: Iterable[tuple[Sequence[str], Place]],
    points: Iterable[Place],
    view: Window,
    obstacles: Iterable[Box] = (),
) -> list[tuple[str, Place] | None]:
    """Choose a text and a place for each label, so that none overlap; None for one that fits nowhere.

    candidates: (texts, position) by priority, of which the first fitting text is used; points: to be kept visible;
    obstacles: boxes of other texts, in pixels. A label is inside the window and covers no other text: beside, over or
    under its point, or farther out where that covers fewer points.
    """
    point_pixels = np.array(list(map(view.to_pixels, points))).reshape(-1, 2)
    boxes: list[Box] = list(obstacles)
    labels: list[tuple[str, Place] | None] = []
    for label_texts, position in candidates:
        label = None
        for label_text in label_texts if view.holds(position) else ():
            if (free_place := _find_free_box(label_text, view.to_pixels(position), point_pixels, boxes)) is not None:
                label_shift, label_box = free_place
                boxes.append(label_box)
                label = label_text, label_shift
                break
        labels.append(label)
    return labels


def _find_free_box(text: str, position: Place, marks: np.ndarray, boxes: Sequence[Box]) -> tuple[Place, Box] | None:
    """Find the place of a label that covers the fewest points and no other label; None if there is none.

    Returned are its shift from its point and its box, in pixels. position: of its point, in pixels; marks:
    (m, 2), points to keep visible; boxes: of the labels so far
    """
    # The browser's fonts are unknown here: the width is estimated per character.
    half_width = CHARACTER_PX * len(text) / 2
    best_place: tuple[float, Place, Box] | None = None
    for cost, label_shift in _list_shifts(half_width):
        x, y = position[0] + label_shift[0], position[1] + label_shift[1]
        box = x - half_width, x + half_width, y - LINE_PX / 2, y + LINE_PX / 2
        is_inside = box[0] >= 0 and box[1] <= PLOT_PX[0] and box[2] >= 0 and box[3] <= PLOT_PX[1]
        if is_inside and not any(map(partial(do_overlap, box), boxes)):
            lower_left, upper_right = (box[0], box[2]), (box[1], box[3])
            cost += int(((marks > lower_left) & (marks < upper_right)).all(axis=1).sum())
            if best_place is None or cost < best_place[0]:
                best_place = cost, label_shift, box
    return None if best_place is None else best_place[1:]


def _list_shifts(half_width: float) -> list[tuple[float, Place]]:
    """Return the places of a label around its point, as (cost, shift (x, y) in pixels), the best first.

    half_width: of the label. Places beside the point cost nothing, those farther out their distance in marks.
    """
    x_shift, up = half_width + LABEL_GAP_PX, LINE_PX / 2 + LABEL_GAP_PX - 2
    sideways = [(x_shift, 0.0), (-x_shift, 0.0)]
    diagonal = [(0.0, up), (0.0, -up), (x_shift, up), (-x_shift, up), (x_shift, -up), (-x_shift, -up)]
    shifts: list[tuple[float, Place]] = [(0.0, shift) for shift in [*sideways, *diagonal]]
    shifts += [(0.5, shift) for shift in [(0.0, 2 * up), (0.0, -2 * up), (x_shift, 2 * up), (x_shift, -2 * up)]]
    for step in range(1, N_FAR_STEPS + 1):
        far = FAR_STEP_PX * step
        for x_far, y_far in ((0.0, far), (far, 0.0), (far, far)):
            for x_sign, y_sign in ((1, 1), (1, -1), (-1, 1), (-1, -1)):
                shift = x_sign * (x_shift + x_far), y_sign * (up + y_far)
                shifts.append((1 + math.hypot(x_far, y_far) / FAR_COST_PX, shift))
    return shifts


def needs_leader(text: str, shift: Place) -> bool:
    """Return True if a label is so far from its point that a line has to join them; shift: of its middle, in pixels."""
    x_distance = max(0.0, abs(shift[0]) - CHARACTER_PX * len(text) / 2)
    return math.hypot(x_distance, max(0.0, abs(shift[1]) - LINE_PX / 2)) > LEADER_PX


def do_overlap(a: Box, b: Box) -> bool:
    """Return True if two boxes overlap."""
    return a[0] < b[1] and b[0] < a[1] and a[2] < b[3] and b[2] < a[3]


def trace_envelope(places: Iterable[Place], smaller_is_better: bool = False) -> tuple[list[float], list[float]]:
    """Return the x and y of the positions that no other one has both further right and higher, from left to right.

    smaller_is_better: True if a smaller x is better, so that left takes the place of right
    """
    xs, ys, best_y, sign = list[float](), list[float](), -np.inf, 1 if smaller_is_better else -1
    # From the best x on, a position is on the envelope if it is higher than all before it.
    for x, y in sorted(places, key=lambda place: (sign * place[0], -place[1])):
        if y > best_y:
            best_y = y
            xs.append(x)
            ys.append(y)
    return (xs, ys) if smaller_is_better else (xs[::-1], ys[::-1])
