"""The Map without a browser: its words, what it is coloured by, and what it gives to the overlay."""

from dataclasses import replace

import numpy as np
import pytest

import engine
from dashboard.components import live_plot
from dashboard.explore import map_view
from dashboard.services.jobs import SharedJobs
from dashboard.session.view_names import MAP
from dashboard.widgets import map as shared_map
from dashboard.widgets.map import CLUSTER_COLOUR, NO_COLOUR
from support.explore_parts import answers_of, corpus, draw_view, question_of

TOPICS = tuple(["pets", "tools", ""][i % 3] for i in range(30))
YEARS = tuple(str(1990 + i) for i in range(30))


@pytest.fixture(autouse=True)
def apart(monkeypatch):
    """Maps of this test's own."""
    monkeypatch.setattr(shared_map, "_MAPS", SharedJobs(4))
    monkeypatch.setattr(shared_map, "WAIT_SECONDS", 60)


@pytest.fixture
def loaded():
    made = corpus()
    documents = replace(made.space.corpus, metadata={"topic": TOPICS, "year": YEARS})
    space = engine.Space(documents, made.space.embeddings, "cpu")
    return replace(made, space=space, dataset=replace(made.dataset, corpus=documents))


@pytest.fixture
def shown(loaded, monkeypatch):
    """Draw the map; returns the page, and what the plot was given."""
    given = {}

    def plot(figure, key, **options):
        given.update(options, figure=figure, key=key)
        return live_plot.Picked()

    monkeypatch.setattr(map_view, "plot", plot)

    def show(names=("top_k", "mmr"), loaded=loaded, **session):
        asked = question_of(loaded)
        return draw_view(MAP, loaded, asked, answers_of(loaded, asked, names), **{"map.way": "PCA", **session}), given

    return show


def traces(given):
    return given["backdrop"].make().data


def test_the_map_says_what_it_keeps_and_offers_the_columns_as_colours(shown):
    app, given = shown()
    assert any("The map keeps" in c.value and "Distances between clusters are not" in c.value for c in app.caption)
    assert app.selectbox(key="map.colour").options == [NO_COLOUR, CLUSTER_COLOUR, "topic", "year"]
    assert len(traces(given)) == 2 and not given["figure"]["layout"]["showlegend"]


@pytest.mark.parametrize(
    "colour,names", [("topic", {"no value", "pets", "tools"}), ("year", {""}), (CLUSTER_COLOUR, {"document, title"})]
)
def test_documents_are_coloured_by_a_column(shown, colour, names):
    plain = shown()[1]["backdrop"]
    _, given = shown(**{"map.colour": colour})
    assert given["backdrop"] != plain, "colours are part of a backdrop's name"
    *documents, _ = traces(given)
    if colour == CLUSTER_COLOUR:
        assert sum(len(trace.x) for trace in documents) == 30
    else:
        assert {trace.name or "" for trace in documents} == names
    assert given["figure"]["layout"]["showlegend"] == (colour == "topic")


def test_the_overlay_gets_the_sets_the_query_and_what_is_relevant(shown, loaded):
    _, given = shown()
    data = given["overlay"].data
    answers = answers_of(loaded, question_of(loaded))
    assert {s["key"]: s["rows"] for s in data["sets"]} == {n: a.ranking.rows() for n, a in answers.items()}
    assert [s["sign"] for s in data["sets"]] == ["✕", "●"] and data["relevant"] == [0, 9, 20] and not data["places"]
    assert len(data["place"]) == 2 and len(data["query"]) == 16
    names = [trace["name"] for trace in given["overlay"].traces]
    assert names == ["relevant", "Top-k", "MMR", "query"]


def test_what_is_shown_grows_with_the_sets_of_a_query_and_is_all_on_demand(shown, loaded):
    def frame(given):
        layout = given["figure"]["layout"]
        return np.array([layout["xaxis"]["range"], layout["yaxis"]["range"]]), layout["uirevision"]

    app, given = shown(("top_k",))
    first, revision = frame(given)
    frames = app.session_state["map.frames"]
    second, again = frame(shown(("top_k", "max_sum"), **{"map.frames": frames})[1])
    assert (second[:, 0] <= first[:, 0]).all() and (second[:, 1] >= first[:, 1]).all() and again == revision
    third, _ = frame(shown(("top_k",), **{"map.frames": frames})[1])
    np.testing.assert_array_equal(third, second)
    everything, other = frame(shown(**{"map.whole": True})[1])
    points = next(job.result.layout.points for _, job in shared_map._MAPS.items())
    assert (everything[:, 0] < points.min(0)).all() and (everything[:, 1] > points.max(0)).all() and other != revision


def test_a_vote_moves_its_documents_on_the_map_as_embedded(shown, loaded):
    """One that moves by a hundredth gave all others another place, and the clusters other names."""

    def look(given):
        *documents, _ = traces(given)
        points = {}
        for trace in documents:
            points |= dict(zip(map(int, trace.customdata), zip(trace.x, trace.y, strict=True), strict=True))
        return points, given["key"], given["figure"]["layout"]["uirevision"], given["overlay"].data["clusters"]

    vectors = loaded.space.embeddings.vectors.clone()
    vectors[[3, 7]] = vectors[[7, 3]]
    space = loaded.space.with_embeddings(replace(loaded.space.embeddings, vectors=vectors))
    before, *view = look(shown()[1])
    app, given = shown(loaded=replace(loaded, space=space, embedded=loaded))
    after, *moved_view = look(given)
    assert moved_view == view and len(shared_map._MAPS.items()) == 1
    assert {row for row in before if before[row] != after[row]} == {3, 7}
    assert after[3] == pytest.approx(before[7], abs=1e-2) and any("as embedded" in c.value for c in app.caption)
