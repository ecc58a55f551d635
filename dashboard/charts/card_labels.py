"""Places of labels on a verdict card: near what they name or in a column beside it, over no other text."""

from collections.abc import Sequence
from dataclasses import dataclass
from unicodedata import east_asian_width

import numpy as np
from scipy.optimize import isotonic_regression, linear_sum_assignment

from dashboard.charts.frontier_layout import Box, Place

NARROW_LETTERS, WIDE_LETTERS = frozenset(" .,:;'’|!·iljtfI()[]/-"), frozenset("mwMW@%—✕●■◆▲✚★⬢⬟✦✶")
NARROW_EM, LETTER_EM, CAPITAL_EM, WIDE_EM, BOLD_FACTOR = 0.4, 0.64, 0.74, 1.0, 1.1
"""Widths of letters in a widely set typeface, in units of the font's size, and what bold letters add."""
LINE_EM = 1.25
"""Height of a line of text, in units of the font's size."""
ANCHOR_GAP_PX = 13
"""Distance of a label from what it names."""
CANDIDATE_STEP_PX = 4
"""Distance of the places that are tried."""
MAX_COMPARED = 1500
"""Places, the nearest ones, of which the marks that they cover are counted."""
MARK_RADIUS_PX = 3
"""Half the width of what a mark stands for."""
COVER_COST_PX = 14
"""Distance from its anchor that a label goes to cover one mark less."""


Mark = tuple[float, float, float]
"""A position, x and y in pixels, and how much is lost by covering it, at most 1."""


@dataclass(frozen=True)
class CardLabel:
    """A label to be placed: its size, and the position that it names, in pixels."""

    width: float
    height: float
    anchor: Place


def estimate_width(text: str, font_size: float, is_bold: bool = False) -> float:
    """Estimate the width of a line of text in pixels, generously, as the browser chooses the typeface."""
    n_ems = 0.0
    for letter in text:
        if letter in WIDE_LETTERS or east_asian_width(letter) in "WF":
            n_ems += WIDE_EM
        else:
            other_em = CAPITAL_EM if letter.isupper() else LETTER_EM
            n_ems += NARROW_EM if letter in NARROW_LETTERS else other_em
    return n_ems * font_size * (BOLD_FACTOR if is_bold else 1.0)


def place_card_labels(
    labels: Sequence[CardLabel], obstacles: Sequence[Box], marks: Sequence[Mark], frame: Box
) -> list[Box | None]:
    """Choose a box for each label, so that none overlap; None for one that fits nowhere.

    labels: by priority; obstacles: boxes that stay free; marks: what should rather not be covered; frame: what the
    boxes lie in. All are in pixels, y downwards. A box is as near to its anchor as it can be while covering few marks.
    """
    boxes, placed = list(obstacles), list[Box | None]()
    mark_table = np.array(marks).reshape(-1, 3)
    for label in labels:
        box = _find_nearest_box(label, boxes, mark_table, frame)
        placed.append(box)
        boxes += [] if box is None else [box]
    return placed


def stack_labels(heights: Sequence[float], middles: Sequence[float], low: float, high: float) -> list[float]:
    """Return the top of each label of a column: in the order of what they name, as near to it as there is room.

    heights: of the labels, the distance between two included, at most high - low together; middles: of what they name;
    low, high: ends of the column. All are in pixels, y downwards.
    """
    order = np.argsort(middles, kind="stable")
    sizes = np.asarray(heights, dtype=float)[order]
    offsets = np.cumsum(sizes) - sizes
    # Less those that come before it, a label must start no higher than its predecessor: an isotonic regression.
    wanted = np.asarray(middles, dtype=float)[order] - sizes / 2 - offsets
    starts = np.clip(isotonic_regression(wanted).x if len(wanted) else wanted, low, high - sizes.sum())
    tops = np.empty(len(order))
    tops[order] = starts + offsets
    return tops.tolist()


def level_leaders(anchors: Sequence[Place], edge: float, gap: float, low: float, high: float) -> list[float]:
    """Return the height at which the line from each anchor leaves the chart at its edge, so that no two lines cross.

    edge: x of the edge, right of all anchors; gap: least distance of two heights; low, high: ends of the edge, with
    room for all. Lines to fixed ends do not cross if they are as short as possible together: where two cross, swapping
    their ends makes both shorter.
    """
    heights = np.asarray(stack_labels([gap] * len(anchors), [y for _, y in anchors], low, high)) + gap / 2
    x, y = np.asarray(anchors, dtype=float).reshape(-1, 2).T
    rows, columns = linear_sum_assignment(np.hypot((edge - x)[:, None], heights - y[:, None]))
    levels = np.empty(len(anchors))
    levels[rows] = heights[columns]
    return levels.tolist()


def _find_nearest_box(label: CardLabel, boxes: Sequence[Box], marks: np.ndarray, frame: Box) -> Box | None:
    """Find the free box of a label that costs least: by distance from its anchor, and by covered marks.

    Return its left, right, upper and lower end in pixels; None if no box inside the frame is free. boxes: what the
    label must not overlap; marks: positions that it had better not cover, each with a weight
    """
    frame_left, frame_right, frame_top, frame_bottom = frame
    x_starts = np.arange(frame_left, frame_right - label.width, CANDIDATE_STEP_PX)
    y_starts = np.arange(frame_top, frame_bottom - label.height, CANDIDATE_STEP_PX)
    # All candidates as (n, 1) columns, to be compared with rows of boxes and of positions.
    x_low, y_low = (axis.reshape(-1, 1) for axis in np.meshgrid(x_starts, y_starts))
    x_high, y_high = x_low + label.width, y_low + label.height
    table = np.array(boxes).reshape(-1, 4)
    overlaps_x = (x_low < table[:, 1]) & (table[:, 0] < x_high)
    is_free = ~(overlaps_x & (y_low < table[:, 3]) & (table[:, 2] < y_high)).any(axis=1)
    if not is_free.any():
        return None
    x_low, y_low, x_high, y_high = (axis[is_free] for axis in (x_low, y_low, x_high, y_high))
    x, y = label.anchor
    x_distance = np.maximum(np.maximum(x_low - x, x - x_high), 0)
    y_distance = np.maximum(np.maximum(y_low - y, y - y_high), 0)
    distance = np.hypot(x_distance, y_distance)[:, 0]
    # Nearer than the gap a label would touch what it names.
    cost = np.where(distance < ANCHOR_GAP_PX, 3 * ANCHOR_GAP_PX - 2 * distance, distance)
    # Of equal distances, the place whose middle is level with the anchor is read most easily.
    cost += 0.2 * np.abs((y_low + y_high)[:, 0] / 2 - y)
    # Only the nearest candidates are compared with all marks.
    order = np.argsort(cost, kind="stable")[:MAX_COMPARED]
    mark_x, mark_y, weights = marks.T
    covers_x = (mark_x > x_low[order] - MARK_RADIUS_PX) & (mark_x < x_high[order] + MARK_RADIUS_PX)
    covers_y = (mark_y > y_low[order] - MARK_RADIUS_PX) & (mark_y < y_high[order] + MARK_RADIUS_PX)
    covers = covers_x & covers_y
    best = order[np.argmin(cost[order] + COVER_COST_PX * (covers @ weights))]
    return float(x_low[best, 0]), float(x_high[best, 0]), float(y_low[best, 0]), float(y_high[best, 0])
