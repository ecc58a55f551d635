"""Weights along λ₁: where the names of documents stand; steps of the solver: each unit has an axis of its own."""

from itertools import pairwise

import pytest

from dashboard.charts.palette import PALETTE, method_style
from dashboard.charts.slopes import LABEL_GAP
from dashboard.charts.weights import plot_convergence, plot_weights
from engine.evaluation.studies.fista_convergence import ConvergenceRow
from engine.views.sets import WeightLine

SPAN = (0.001, 1.0)


def plot(l1, is_judged=True, is_dark=False):
    """Plot the weights of three chosen documents, of which the others have half the weight of the first."""
    lines = []
    for number, name in enumerate(("numpy.ma.masked_outside", "numpy.std", "numpy.ndarray.std")):
        texts = {"row": number, "id": name, "title": name, "text": "", "name": name}
        weight = (0.0, 0.1 if number else 0.2)
        relevant = number == 0 if is_judged else None
        lines.append(WeightLine(**texts, relevant=relevant, chosen=number + 1, l1=(1.0, 0.001), weight=weight))
    return plot_weights(lines, l1, SPAN, "nnn", (), is_dark)


def test_names_stand_apart_in_a_gutter_where_no_line_runs():
    titles, figure = ("numpy.ma.masked_outside", "numpy.std", "numpy.ndarray.std"), plot(0.2)
    names = [note for note in figure.layout.annotations if note.xref == "paper"]
    assert [note.text for note in names] == ["<b>ma.masked_outside ✓</b>", "std", "ndarray.std"]
    assert [note.hovertext.removesuffix(" ✓") for note in names] == list(titles)
    assert {(note.x, note.xanchor) for note in names} == {(0, "right")} and figure.layout.yaxis.side == "right"
    assert figure.layout.margin.l > 7 * len("ma.masked_outside ✓")
    heights, (low, high) = [note.y for note in names], figure.layout.yaxis.range
    assert all(upper - lower >= 0.9 * LABEL_GAP * high for upper, lower in pairwise(sorted(heights)[::-1]))
    assert low == 0
    leaders = [(shape.y0, shape.y1) for shape in figure.layout.shapes if shape.name == "leader"]
    assert [start for start, _ in leaders] == heights
    assert [end for _, end in leaders] == pytest.approx([0.2, 0.1, 0.1]), "each leads to its own line"
    assert all(note.font.size >= 12 for note in names) and figure.layout.xaxis.dtick == 1


@pytest.mark.parametrize("is_dark", [False, True])
def test_relevant_documents_alone_have_the_selectors_colour_where_something_is_judged(is_dark):
    own_colour = method_style("nnn").colour(is_dark)
    judged, unjudged = plot(0.2, is_dark=is_dark), plot(0.2, is_judged=False, is_dark=is_dark)
    # The most important document is drawn last.
    assert [line.line.color == own_colour for line in judged.data] == [False, False, True]
    assert [line.line.width for line in judged.data] == [1.5, 1.5, 3] and {line.opacity for line in judged.data} == {1}
    names = [note.font.color for note in judged.layout.annotations if note.xref == "paper"]
    assert names[0] != names[1] == names[2], "each name in the hue of its line"
    assert {line.line.color for line in unjudged.data} == {own_colour}
    opacities = [line.opacity for line in unjudged.data]
    assert opacities == sorted(opacities) and len(set(opacities)) == 3 and opacities[-1] == 1


def test_names_of_the_eight_heaviest_documents_are_written():
    texts = {"row": 0, "text": "", "relevant": None, "l1": (1.0, 0.001)}
    lines = [
        WeightLine(**texts, id=name, title=name, name=name, chosen=rank, weight=(0.0, 0.3 - 0.02 * rank))
        for rank, name in enumerate("abcdefghijkl", 1)
    ]
    notes = plot_weights(lines, 0.2, SPAN, "nnn", (), False).layout.annotations
    assert [note.text for note in notes if note.xref == "paper"] == list("abcdefgh")


@pytest.mark.parametrize("is_dark", [False, True])
def test_residuals_stand_below_the_shares_and_no_line_has_a_decoders_hue(is_dark):
    states = [(None, 0.0, 1.0, 0.6), (1, 0.3, 0.2, 0.4), (50, 1e-4, 0.9, 0.6)]
    rows = [ConvergenceRow(steps, residual, same, same, 5.0, comp) for steps, residual, same, comp in states]
    figure = plot_convergence(rows, 5, is_dark)
    shares, residuals = figure.layout.yaxis.domain, figure.layout.yaxis2.domain
    assert residuals[1] < shares[0] and figure.layout.yaxis2.overlaying is None
    comp, same, residual = figure.data
    assert (comp.name, comp.yaxis, comp.y) == ("Comp@5", "y", (0.4, 0.6))
    assert (same.name, same.yaxis, same.y) == ("same top 5 as exact", "y", (0.2, 0.9))
    assert (residual.yaxis, residual.y) == ("y2", (0.3, 1e-4)) and "residual" in residual.name
    hues = {style.colour(is_dark) for style in PALETTE[1:]}
    assert not hues & {line.line.color for line in figure.data}
