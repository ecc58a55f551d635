"""Figures of a training: what it gained on each data set, with what is not certain named as that."""

import pytest

from dashboard.charts.training import plot_gains
from engine.evidence.rules import Effect


def test_gains_stand_beside_their_names_with_what_is_not_certain():
    unit = "points of Comp@5, NNN-Tr over dense-cont"
    effects = [
        Effect(name=f"toolbank: {unit}", value=0.835, low=-0.42, high=2.17),
        Effect(name=f"toollens: {unit}", value=4.244, low=3.23, high=5.29, sign=1),
    ]
    figure = plot_gains(effects, is_dark=False)
    assert figure.layout.yaxis.ticktext == ("toolbank:<br><b>+0.8</b> (not certain)", "toollens:<br><b>+4.2</b>")
    assert figure.layout.xaxis.title.text == "points of Comp@5" and not figure.layout.annotations
    open_point, filled_point = figure.data
    assert (open_point.marker.symbol, filled_point.marker.symbol) == ("circle-open", "circle")
    assert open_point.x[0] - open_point.error_x.arrayminus[0] == pytest.approx(-0.42)
