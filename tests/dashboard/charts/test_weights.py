"""Weights along λ₁: where the names of documents stand."""

import pytest

from dashboard.charts.weights import plot_weights
from engine.views.sets import WeightLine

SPAN = (0.001, 1.0)


def plot(l1):
    """Plot the weights of two chosen documents, of which the second has half the weight."""
    lines = []
    for number, name in enumerate(("numpy.ma.masked_outside", "numpy.std")):
        texts = {"row": number, "id": name, "title": name, "text": ""}
        weight = (0.0, 0.2 / (number + 1))
        lines.append(WeightLine(**texts, relevant=number == 0, chosen=number + 1, l1=(1.0, 0.001), weight=weight))
    return plot_weights(lines, l1, SPAN, "nnn", (), False)


@pytest.mark.parametrize(("l1", "anchor"), [(0.2, "right"), (0.005, "left")])
def test_names_stand_on_the_longer_side_of_the_current_penalty(l1, anchor):
    figure = plot(l1)
    names = [note for note in figure.layout.annotations if note.text.startswith("numpy")]
    assert [note.text for note in names] == ["numpy.ma.masked_outside ✓", "numpy.std"]
    assert {note.xanchor for note in names} == {anchor}
    assert all(note.font.size >= 12 for note in names) and figure.layout.xaxis.dtick == 1
