"""Figures for notebooks: what they show is the engine's, drawn by the pages' charts."""

import numpy as np
import pytest
import torch

import engine
from dashboard import plots
from dashboard.charts.frontier import FrontierChart, plot_named_budget
from dashboard.charts.identification import plot_plane
from engine.evaluation.studies.check_up import check_up
from engine.views.redundancy import redundancy
from support.public_values import build_facade_values, build_further_values, build_world, select_judged


@pytest.fixture(scope="module")
def world():
    return build_world()


@pytest.fixture(scope="module")
def values(world, tmp_path_factory):
    values = build_facade_values(world, tmp_path_factory.mktemp("values"))
    return values | build_further_values(world, values)


def read_traces(figure):
    """Return the data of a figure, without its layout."""
    return [trace.to_plotly_json() for trace in figure.data]


def draw_all(world, values, dark):
    """Draw every figure there is, by the name of its function."""
    _, space, _ = world
    query = select_judged(world, "dev").take([0])
    rankings = {name: engine.decode(engine.Decoder(engine.make(name)), space, query, 5) for name in ("top_k", "mmr")}
    checked = check_up(engine.Decoder(engine.make("top_k")), space, select_judged(world, "dev"), 5)
    curve = engine.exact_frontier("mmr", space, select_judged(world, "dev"), world[0].qrels["dev"], 5, split="dev")
    return {
        "frontier": plots.frontier(values["points"], k=5, dark=dark),
        "path": plots.path(curve, values["points"], keep=0.9, dark=dark),
        "decision": plots.decision(values["decision"], values["points"], dark=dark),
        "map": plots.map(space, rankings, query, layout=values["layout"], dark=dark),
        "redundancy": plots.redundancy(space, rankings, dark=dark),
        "check_up": plots.check_up(checked, space, n_sets=2, dark=dark),
        "weights": plots.weights(space, engine.weight_path(space, query, pool=10), 0.2, dark=dark),
        "drift": plots.drift([values["drift"]], dark=dark),
        "identification": plots.identification(values["identification"], space, dark=dark),
    }


@pytest.mark.deep
def test_every_figure_is_drawn_for_both_backgrounds(world, values):
    for dark in (False, True):
        figures = draw_all(world, values, dark)
        templates = {figure.layout.template.layout.paper_bgcolor for figure in figures.values()}
        assert all(figure.data for figure in figures.values()) and len(templates) == 1


def test_frontier_is_the_chart_of_the_page(values):
    chart = FrontierChart(frontier=engine.frontier(values["points"], k=5), dark=False, legend=True)
    assert read_traces(plots.frontier(values["points"], k=5)) == read_traces(plot_named_budget(chart))
    assert read_traces(plots.frontier(values["frontier"])) == read_traces(plot_named_budget(chart))


def test_identification_is_the_chart_of_the_page(world, values):
    found = values["identification"]
    assert read_traces(plots.identification(found, world[1])) == read_traces(plot_plane(found.best, len(world[1])))
    with pytest.raises(engine.ParamError, match="position must be from 0 to"):
        plots.identification(found, world[1], position=len(found.hypotheses))


def test_check_up_shows_the_most_redundant_sets_first(world):
    _, space, _ = world
    checked = check_up(engine.Decoder(engine.make("top_k")), space, select_judged(world, "dev"), 4)
    figure = plots.check_up(checked, space, n_sets=1)
    worst = checked.order[0]
    row_index = torch.from_numpy(checked.rows[worst : worst + 1])
    shown = redundancy(space, engine.Ranking(row_index, torch.zeros(row_index.shape), ({},)), checked.threshold)
    cells = np.asarray(figure.data[0].z, dtype=float)
    pairs = ~np.isnan(cells)
    np.testing.assert_allclose(cells[pairs], shown.similarity[pairs], atol=1e-6)


def test_decision_for_another_baseline_is_refused(values):
    other = engine.decide(values["points"], baseline=values["points"][1].label, k=5)
    with pytest.raises(engine.DataError, match="the chart's budget is a share of top_k's recall"):
        plots.decision(other, values["points"])
    with pytest.raises(engine.ParamError, match="history must hold at least one moment"):
        plots.drift([])
