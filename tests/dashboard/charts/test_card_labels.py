"""Labels of a card: near what they name, on nothing that is written."""

import math
from itertools import combinations

import numpy as np
import pytest

from dashboard.charts.card_labels import CardLabel, estimate_width, measure_distance, place_card_labels
from dashboard.charts.frontier_layout import do_overlap
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
    distances = [measure_distance(box, (400, 300)) for box in place_card_labels(labels, [], [], FRAME)]
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


def test_distance_from_a_box_is_that_of_its_nearest_side_or_corner():
    box = (10, 30, 10, 20)
    assert [measure_distance(box, place) for place in ((15, 15), (0, 15), (15, 24), (34, 23))] == [0, 10, 4, 5]


def test_wide_letters_take_more_room_than_narrow_ones():
    assert (
        estimate_width("ill", 10) < estimate_width("aaa", 10) < estimate_width("AAA", 10) < estimate_width("日本語", 10)
    )
    assert estimate_width("Top-k", 20, is_bold=True) > estimate_width("Top-k", 20) == 2 * estimate_width("Top-k", 10)
