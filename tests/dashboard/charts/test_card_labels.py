"""Labels of a card: near what they name, on nothing that is written."""

import math
from itertools import combinations

import numpy as np
import pytest

from dashboard.charts.card_labels import CardLabel, estimate_width, level_leaders, place_card_labels, stack_labels
from dashboard.charts.frontier_layout import do_overlap
from support.charts import have_crossing
from support.draws import deepen

FRAME = (100, 700, 150, 500)


@pytest.mark.parametrize("seed", deepen(range(5), range(2, 5)))
def test_labels_around_one_position_overlap_neither_each_other_nor_an_obstacle(seed):
    rng = np.random.default_rng(seed)
    anchor = (float(rng.uniform(100, 700)), float(rng.uniform(150, 500)))
    labels = [CardLabel(float(rng.uniform(30, 200)), 20, anchor) for _ in range(12)]
    obstacle = (anchor[0] - 9, anchor[0] + 9, anchor[1] - 9, anchor[1] + 9)
    boxes = place_card_labels(labels, [obstacle], [], FRAME)
    assert None not in boxes
    for first, second in combinations([obstacle, *boxes], 2):
        assert not do_overlap(first, second)
    for label, (left, right, top, bottom) in zip(labels, boxes, strict=True):
        assert FRAME[0] <= left and right <= FRAME[1] and FRAME[2] <= top and bottom <= FRAME[3]
        assert math.isclose(right - left, label.width) and math.isclose(bottom - top, label.height)


def test_the_first_label_is_nearest():
    labels = [CardLabel(80, 20, (400, 300))] * 4
    boxes = place_card_labels(labels, [], [], FRAME)
    distances = [
        math.hypot(max(left - 400, 0, 400 - right), max(top - 300, 0, 300 - bottom))
        for left, right, top, bottom in boxes
    ]
    assert distances[0] == min(distances) < 20


def test_a_label_avoids_a_line_beside_its_position_but_not_a_faint_one():
    anchor, line = (400.0, 300.0), [(400.0 + step, 300.0) for step in range(0, 150, 5)]
    label = CardLabel(80, 20, anchor)

    def count_covered(weight):
        marks = [(x, y, weight) for x, y in line]
        left, right, top, bottom = place_card_labels([label], [], marks, FRAME)[0]
        return sum(left < x < right and top < y < bottom for x, y in line)

    assert count_covered(1.0) == 0
    alone = place_card_labels([label], [], [], FRAME)
    assert place_card_labels([label], [], [(x, y, 0.0) for x, y in line], FRAME) == alone


def test_a_label_without_room_has_no_place():
    labels = [CardLabel(80, 20, (400, 300)), CardLabel(700, 20, (400, 300))]
    first, second = place_card_labels(labels, [], [], FRAME)
    assert first is not None and second is None
    assert place_card_labels(labels[:1], [FRAME], [], FRAME) == [None]


def test_stacked_labels_are_in_order_and_apart_and_inside():
    heights, middles = [20, 40, 20, 20], [300.0, 305.0, 499.0, 100.0]
    tops = stack_labels(heights, middles, 150, 500)
    assert tops[3] == 150 and tops[2] == 480, "what is named outside the column has a label at its end"
    assert tops[1] == tops[0] + 20, "two that would overlap touch"
    moves = [top + height / 2 - middle for top, height, middle in zip(tops, heights, middles, strict=True)]
    assert moves[0] < 0 < moves[1] and abs(sum(moves[:2])) < 1e-9, "both move by as much"


def test_stacked_labels_fill_a_column_without_room_to_spare():
    assert stack_labels([20, 20, 20], [480.0, 490.0, 470.0], 440, 500) == [460, 480, 440]
    assert stack_labels([], [], 0, 100) == []


@pytest.mark.parametrize("height", [350, 40, 4], ids=["anywhere", "close", "level"])
@pytest.mark.parametrize("seed", deepen(range(40), range(5, 40)))
def test_leaders_of_any_ends_never_cross(seed, height):
    rng = np.random.default_rng(seed)
    n_labels = int(rng.integers(2, 9))
    top = rng.uniform(150, 500 - height)
    ends = list(zip(rng.uniform(110, 545, n_labels), rng.uniform(top, top + height, n_labels), strict=True))
    levels = level_leaders(ends, 548, 8, 150, 500)
    assert min(levels) >= 150 and max(levels) <= 500
    assert min(abs(one - other) for one, other in combinations(levels, 2)) >= 8 - 1e-9
    sizes = rng.choice([28.0, 48.0], n_labels).tolist()[:7]
    tops = stack_labels(sizes, levels[:7], 150, 500)
    middles = [label_top + size / 2 for label_top, size in zip(tops, sizes, strict=True)]
    inside = [(end, (548, level)) for end, level in zip(ends, levels, strict=True)]
    outside = [((548, level), (564, middle)) for level, middle in zip(levels, middles, strict=False)]
    for lines in (inside, outside):
        assert not any(have_crossing(first, second) for first, second in combinations(lines, 2))


def test_leaders_of_no_labels_have_no_levels():
    assert level_leaders([], 548, 8, 150, 500) == []


def test_wide_letters_take_more_room_than_narrow_ones():
    assert (
        estimate_width("ill", 10) < estimate_width("aaa", 10) < estimate_width("AAA", 10) < estimate_width("日本語", 10)
    )
    assert estimate_width("Top-k", 20, is_bold=True) > estimate_width("Top-k", 20) == 2 * estimate_width("Top-k", 10)
