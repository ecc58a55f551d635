"""The heat map of λ and pool depth: shares, the peak, and the row of the whole corpus."""

import numpy as np
import pytest

import engine
from dashboard.charts.identification import plot_plane
from engine.identification.hypotheses import Hypothesis
from engine.identification.peaks import Plane

WEIGHTS = np.linspace(0, 1, 5)
SHARES = np.linspace(0, 1, 20, dtype=np.float32).reshape(4, 5)


def plot(n_documents, depth):
    plane = Plane(depths=(1, 10, 100, None), weights=WEIGHTS, shares=SHARES)
    decoder = engine.Decoder(engine.make("mmr", relevance_weight=0.75), depth=depth)
    hypothesis = Hypothesis(
        decoder=decoder, explained=0.9, interval=(0.7, 0.8), depth=(90, 100), metric="inner product", label="mmr",
        plane=plane,
    )  # fmt: skip
    return plot_plane(hypothesis, n_documents)


@pytest.mark.parametrize(("n_documents", "depth"), [(100, 100), (100, None), (50_000, 10), (50_000, None)])
def test_peak_lies_on_its_row_and_the_whole_corpus_has_a_row_of_its_own_if_it_is_larger(n_documents, depth):
    figure = plot(n_documents, depth)
    maps, peaks = ([t for t in figure.data if t.type == kind] for kind in ("heatmap", "scatter"))
    assert len(maps) == (1 if n_documents == 100 else 2) and list(maps[0].y) == [1, 10, 100]
    assert np.allclose(maps[0].z, SHARES[:3], atol=5e-4) and figure.layout.coloraxis.cmax == 1
    assert {tuple(peak.x) for peak in peaks} == {(0.75,)}
    bottom, top = figure.layout.yaxis.range
    assert figure.layout.yaxis.type == "log" and bottom > 2 > 0 > top, "depth grows downwards"
    if len(maps) == 2:
        first_edge, last_edge = maps[1].y
        assert 100 < first_edge < last_edge < 10**bottom and np.allclose(maps[1].z, SHARES[3:], atol=5e-4)
        assert figure.layout.yaxis.ticktext[-1] == "all 50,000"
        expected = 10 if depth == 10 else pytest.approx((first_edge * last_edge) ** 0.5)
        assert {peak.y[0] for peak in peaks} == {peaks[0].y[0]} and peaks[0].y[0] == expected
    else:
        assert peaks[0].y[0] == 100
