"""The map's backdrop and frames: every document once, in its colour, over contours; what is shown holds the sets."""

import numpy as np
import pytest

from dashboard.charts.map import (
    MAP_PADDING,
    MIN_WEBGL_POINTS,
    SETS_PADDING,
    build_map,
    extent_around,
    full_extent,
    plot_backdrop,
)
from dashboard.charts.palette import GROUP_COLOURS, PALETTE
from engine.maps.density import estimate_density
from engine.views.colouring import ABSENT_GROUP, colouring

DRAW = np.random.default_rng(4)


def backdrop(count, values=None, dark=False, names=None):
    """(traces of documents, trace of contours)."""
    xy = DRAW.normal(size=(count, 2)).astype(np.float32)
    colours = None if values is None else colouring(values)
    figure = plot_backdrop(xy, range(count), names or ["x"] * count, dark, estimate_density(xy), colours)
    *documents, contours = figure.data
    assert contours.type == "contour" and np.asarray(contours.z).shape == (len(contours.y), len(contours.x))
    assert sorted(row for trace in documents for row in trace.customdata) == list(range(count))
    for trace in documents:
        np.testing.assert_array_equal(np.stack([trace.x, trace.y], axis=1), xy[list(trace.customdata)])
    return documents, contours


def test_backdrop_is_drawn_by_webgl_from_many_points_on():
    for count, kind in ((MIN_WEBGL_POINTS - 1, "scatter"), (MIN_WEBGL_POINTS, "scattergl")):
        (trace,), _ = backdrop(count)
        assert trace.type == kind and not trace.showlegend


@pytest.mark.parametrize("dark", [False, True])
def test_groups_have_muted_colours_and_names_and_what_has_none_is_grey(dark):
    documents, _ = backdrop(9, ["<b>", "b", "<b>", "", "b", "<b>", "c", "c", "<b>"], dark)
    named = {trace.name: (trace.marker.color, trace.customdata.tolist()) for trace in documents}
    assert list(named) == [ABSENT_GROUP, "&lt;b&gt;", "b", "c"] and named[ABSENT_GROUP][1] == [3]
    assert [named[name][0] for name in list(named)[1:]] == [pair[dark] for pair in GROUP_COLOURS[:3]]
    assert named["&lt;b&gt;"][1] == [0, 2, 5, 8] and all(trace.showlegend for trace in documents)


def test_numbers_have_a_scale_and_gaps_are_grey():
    values = [*map(str, range(10)), "", "100"]
    (absent, numbers), _ = backdrop(len(values), values)
    assert absent.customdata.tolist() == [10] and not absent.marker.showscale
    np.testing.assert_array_equal(numbers.marker.color, [*range(10), 100])
    assert numbers.marker.showscale


def test_muted_colours_are_no_methods():
    used = {colour for style in PALETTE for colour in (style.light, style.dark)}
    assert len(set(GROUP_COLOURS)) == len(GROUP_COLOURS) and not used & {
        colour for pair in GROUP_COLOURS for colour in pair
    }


def test_names_of_documents_are_no_markup():
    (trace,), _ = backdrop(3, names=["<img src=x>", "$x$", "a & b"])
    assert trace.hovertext == ("&lt;img src=x&gt;", "&#36;x&#36;", "a &amp; b")


def test_what_is_shown_holds_the_sets_and_no_less_than_a_readable_part():
    xy = np.array([[0, 0], [100, 50]])
    low, high = extent_around(xy, np.array([[10, 10], [60, 30]]))
    np.testing.assert_allclose(
        [low, high],
        [[10 - 50 * SETS_PADDING, 10 - 20 * SETS_PADDING], [60 + 50 * SETS_PADDING, 30 + 20 * SETS_PADDING]],
    )
    low, high = extent_around(xy, np.array([[10, 10]]))
    assert (low < 10).all() and (high > 10).all() and ((high - low) >= 0.08 * np.ptp(xy, axis=0)).all()
    np.testing.assert_allclose(
        full_extent(xy), [[-100 * MAP_PADDING, -50 * MAP_PADDING], [100 + 100 * MAP_PADDING, 50 + 50 * MAP_PADDING]]
    )
    assert (np.ptp(full_extent(xy[:1]), axis=0) > 0).all(), "one document has room around it"
    layout = build_map(None, full_extent(xy), True, False)["layout"]
    assert layout["showlegend"] and layout["margin"]["b"] > 0 and layout["yaxis"]["scaleanchor"] == "x"
