"""The frontier's window, and labels that cover neither each other nor the edge."""

import itertools
import random

import pytest

from dashboard.charts.frontier_layout import CHARACTER, LINE, PLOT, Window, hull, overlap, place_labels, window

BASE = (0.4, 100.0)


def test_the_window_ends_just_below_the_budget_and_above_the_best():
    places = [BASE, (0.5, 98.0), (0.6, 94.0), (0.9, 10.0)]
    view = window(places, BASE, 95.0)
    assert view.holds(BASE) and view.holds((0.5, 98.0)) and not view.holds((0.9, 10.0))
    assert 91 < view.y[0] < 95 and 100 < view.y[1] < 102
    assert window(places, BASE, 95.0, whole=True).holds((0.9, 10.0))
    assert window(places, BASE, 95.0, named=[(0.9, 10.0)]).holds((0.9, 10.0)), "another system's point"
    assert window(places, BASE, None).holds((0.9, 10.0)), "without a budget nothing is left out"


def test_where_nothing_keeps_the_budget_the_nearest_is_in_the_window():
    view = window([BASE, (0.6, 40.0), (0.9, 10.0)], BASE, 95.0)
    assert view.holds((0.6, 40.0)) and view.holds(BASE) and not view.holds((0.9, 10.0))
    alone = window([BASE], BASE, 95.0)
    assert alone.holds(BASE) and alone.x[0] < alone.x[1] and alone.y[0] < alone.y[1]


def test_a_lower_budget_shows_more():
    places = [BASE, *((0.4 + i / 100, 100.0 - i) for i in range(50))]
    bottoms = [window(places, BASE, share).y[0] for share in (99, 95, 90, 70)]
    assert bottoms == sorted(bottoms, reverse=True) and len(set(bottoms)) == 4


@pytest.mark.parametrize("seed", range(20))
def test_labels_cover_neither_each_other_nor_the_edge(seed):
    rng = random.Random(seed)
    view = Window((0.0, 1.0), (0.0, 1.0))
    places = [(rng.random(), rng.random() ** 3) for _ in range(30)]
    texts = ["x" * rng.randint(3, 30) for _ in places]
    boxes = []
    for found, place in zip(
        place_labels([([t], p) for t, p in zip(texts, places, strict=True)], places, view), places, strict=True
    ):
        if found is not None:
            text, (across, up) = found
            (x, y), half = view.pixels(place), CHARACTER * len(text) / 2
            boxes.append((x + across - half, x + across + half, y + up - LINE / 2, y + up + LINE / 2))
    assert len(boxes) > 5
    assert not any(overlap(a, b) for a, b in itertools.combinations(boxes, 2))
    assert all(b[0] >= 0 and b[1] <= PLOT[0] and b[2] >= 0 and b[3] <= PLOT[1] for b in boxes)


def test_a_label_without_a_place_takes_its_short_text_and_one_outside_has_none():
    view = Window((0.0, 1.0), (0.0, 1.0))
    wide = int(PLOT[0] / CHARACTER) + 1
    found = place_labels(
        [(["x" * wide, "short"], (0.5, 0.5)), (["far"], (2.0, 0.5)), (["x" * wide], (0.1, 0.1))], [], view
    )
    assert found[0][0] == "short" and found[1:] == [None, None]


def test_the_hull_holds_all_and_is_its_corners():
    square = [(0.0, 0.0), (1.0, 0.0), (1.0, 1.0), (0.0, 1.0)]
    inner = [(0.5, 0.5), (0.2, 0.7), (0.9, 0.4)]
    assert sorted(hull(square + inner)) == sorted(square)
    assert hull([(0.0, 1.0)] * 3) == [(0.0, 1.0)]
    line = hull([(0.0, 0.0), (0.5, 0.5), (1.0, 1.0)])
    assert {(0.0, 0.0), (1.0, 1.0)} <= set(line), "places on a line have an outline"
