"""The building blocks of figures, and figures that no page test draws closely."""

import numpy as np
import pytest

from dashboard.charts.drift_time import plot_sparklines
from dashboard.charts.figure import band_outline, dodge_offset, error_bars, escape, group_axis, join_segments
from dashboard.charts.palette import GROUNDS, PALETTE, SERIES, series_style, translucent
from engine.drift.measures import MEASURES
from engine.views.drift import Sparkline

SIGHTS = {
    "normal": np.eye(3),
    "protanopia": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
    ),
    "deuteranopia": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
    ),
    "tritanopia": np.array(
        [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]]
    ),
}
"""How linear RGB values are seen, after Machado, Oliveira and Fernandes (2009)."""
OKLAB_CONES = np.array(
    [
        [0.4122214708, 0.5363325363, 0.0514459929],
        [0.2119034982, 0.6806995451, 0.1073969566],
        [0.0883024619, 0.2817188376, 0.6299787005],
    ]
)
OKLAB = np.array(
    [
        [0.2104542553, 0.7936177850, -0.0040720468],
        [1.9779984951, -2.4285922050, 0.4505937099],
        [0.0259040371, 0.7827717662, -0.8086757660],
    ]
)


def test_error_bars_are_distances_and_zero_without_an_interval():
    bars = error_bars([0.5, 0.25], [0.25, None], [1.0, None])
    assert (bars["array"], bars["arrayminus"], bars["symmetric"]) == ([0.5, 0], [0.25, 0], False)


def test_outline_goes_forth_on_the_upper_and_back_on_the_lower_curve():
    band = band_outline([1, 2, 3], [0, 1, 2], [4, 5, 6])
    assert (band["x"], band["y"]) == ([1, 2, 3, 3, 2, 1], [4, 5, 6, 2, 1, 0])


def test_strokes_are_separated_by_gaps():
    assert join_segments([0, 1], [2, 3]) == [0, 2, None, 1, 3, None]


def test_series_of_a_group_are_spread_evenly_around_its_middle():
    offsets = [dodge_offset(position, 4, spread=0.8) for position in range(4)]
    assert offsets == pytest.approx([-0.3, -0.1, 0.1, 0.3])
    assert group_axis(["a", "b"]) == {"tickvals": [0, 1], "ticktext": ["a", "b"], "range": [-0.5, 1.5]}


def test_escape_cuts_before_it_escapes():
    assert escape("<b>$x$ & y") == "&lt;b&gt;&#36;x&#36; &amp; y"
    assert escape("<" * 9, 5) == "&lt;" * 4 + "…"


def test_series_styles_repeat_and_no_colour_is_a_decoders():
    colours = {(style.light, style.dark) for style in SERIES}
    assert series_style(0) == series_style(len(SERIES)) == SERIES[0] and len(colours) == len(SERIES)
    assert not {c for pair in colours for c in pair} & {c for style in PALETTE for c in (style.light, style.dark)}
    assert translucent("#0072B2", 0.5) == "rgba(0, 114, 178, 0.5)"


def linear(colour):
    """Return the linear RGB values of a colour."""
    shares = np.array([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    return np.where(shares <= 0.04045, shares / 12.92, ((shares + 0.055) / 1.055) ** 2.4)


def contrast(colour, ground):
    """Return the contrast of WCAG."""
    low, high = sorted(float(linear(each) @ (0.2126, 0.7152, 0.0722)) for each in (colour, ground))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("style", [*PALETTE, *SERIES], ids=lambda style: style.dark)
def test_colours_are_legible_on_their_page(style):
    """WCAG asks a contrast of 3 of lines and symbols; on dark pages more leaves room for those drawn paler."""
    assert contrast(style.dark, GROUNDS[True]) >= 4.5
    assert contrast(style.light, GROUNDS[False]) >= 3


@pytest.mark.parametrize("is_dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("sight", SIGHTS)
def test_decoders_colours_are_told_apart_by_colour_blind_people_too(sight, is_dark):
    """Distances are those of OKLab; symbols tell decoders apart beside colours."""
    points = []
    for style in PALETTE:
        cones = OKLAB_CONES @ np.clip(SIGHTS[sight] @ linear(style.colour(is_dark)), 0, 1)
        points.append(OKLAB @ np.cbrt(cones))
    distances = np.linalg.norm(np.array(points)[:, None] - np.array(points), axis=-1)
    # Max-sum and Facility location were .042 apart on dark pages for everybody, and some pairs .024 for a few.
    limit = 0.11 if sight == "normal" else 0.06 if is_dark else 0.045
    assert distances[np.triu_indices(len(points), 1)].min() >= limit


@pytest.mark.parametrize(
    ("low", "high", "alarm", "expected"),
    [
        (0.0, 0.776, 0.776, ("0", "0.776")),
        (0.716, 0.776, 0.776, ("0.716", "0.776")),
        (0.0, 0.01, None, ("0", "0.005", "0.01")),
        (0.353, 0.363, None, ("0.355", "0.36")),
        (0.303, 0.55, None, ("0.4", "0.5")),
        (0.0, 1.0, None, ("0", "0.5", "1")),
    ],
)
def test_an_axis_of_a_sparkline_has_two_to_four_round_ticks(low, high, alarm, expected):
    line = Sparkline(measure=MEASURES["hubs"], values=(low, high), low=low, high=high, alarm=alarm)
    assert plot_sparklines([line], [0, 1], 1, "round", dark=False).layout.yaxis.ticktext == expected


def test_sparklines_have_fixed_axes_their_alarm_and_grey_noise():
    hubs = Sparkline(measure=MEASURES["hubs"], values=(0.743, 0.745, 0.78), low=0.68, high=0.8, alarm=0.773)
    churn = Sparkline(measure=MEASURES["churn"], values=(None, 0.0, 0.3), low=0.0, high=1.0, alarm=None)
    for place, change, grey in ((1, "+0.002", True), (2, "+0.037", False)):
        figure = plot_sparklines([hubs, churn], [0, 5, 10], place, "round", dark=False)
        assert figure.layout.yaxis.range == pytest.approx((0.6764, 0.8036))
        assert figure.layout.yaxis2.range == pytest.approx((-0.03, 1.03))
        said = figure.layout.annotations[0].text
        assert change in said and ("color:" in said) == grey
        assert [line.y0 for line in figure.layout.shapes if line.y0 == line.y1] == [0.773]
        assert {line.x0 for line in figure.layout.shapes if line.x0 == line.x1} == {(0, 5, 10)[place]}
    titles = [figure.layout[f"xaxis{number}"].title.text for number in ("", 2)]
    assert titles == ["Rounds of feedback"] * 2
    unmeasured = plot_sparklines([churn], [0, 5, 10], 0, "round", dark=False).layout.annotations[0].text
    assert "<b>–</b><" in unmeasured, "no comma where there is no change yet"
    assert len(set(figure.data[0].marker.color)) == 2 and len(set(figure.data[1].marker.color)) == 1
