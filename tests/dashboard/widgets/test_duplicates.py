"""Near-duplicates on the Data page: what is said of them, and the corpus without them, until Undo."""

from dataclasses import replace

import numpy as np
import pytest

from dashboard.services.source import COPIES, NEAR, Source
from dashboard.session import address
from support import pages

TEXTS = ("a <b>cat</b>", "a dog", "a <b>cat</b>", "a dogs", "a horse", "a whale", "a heron", "a crow")
ANGLES = (0, 60, 0, 63, 120, 180, 240, 300)


@pytest.fixture(scope="module")
def source(own_home):
    """Eight documents: a copy of the first, and a near-duplicate of the second; each of the two has a judgement."""
    folder = own_home / "animals"
    pairs = [("q0", "d2"), ("q0", "d4"), ("q1", "d3")]
    pages.beir(folder, [(f"d{i}", text) for i, text in enumerate(TEXTS)], [("q0", "cat?"), ("q1", "dog?")], test=pairs)
    rows = np.stack([np.cos(np.radians(ANGLES)), np.sin(np.radians(ANGLES))], axis=1).astype(np.float32)
    np.save(folder / "vectors.npy", rows)
    np.save(folder / "query_vectors.npy", rows[:2])
    return Source(str(folder))


def test_copies_are_dropped_for_this_session_alone_and_come_back(source):
    other, app = pages.screen("data", source), pages.screen("data", source)
    assert "2 groups of near-duplicates: 4 of 8 documents (50%), 1 of them a copy" in pages.texts(app)
    assert "document is a copy" in pages.texts(app)
    pages.assert_plain(app, "<b>cat</b>")
    app = pages.press(app, "duplicates.copies")
    dropped = replace(source, drop_duplicates=COPIES)
    assert app.session_state["source"] == dropped and other.session_state["source"] == source
    words = pages.texts(app)
    assert "1 copy dropped; its 1 judgement counts for the documents that stay." in words
    assert "7 documents · 2 queries" in words and "is a copy" not in words and "dropped as duplicates" not in words
    assert pages.load(dropped).dataset.qrels["test"].grades == {"q0": {"d0": 1, "d4": 1}, "q1": {"d3": 1}}
    # The address alone opens the same documents, and so does a link with the query.
    assert app.query_params["drop_duplicates"] == COPIES
    explore = pages.screen("explore", dropped)
    again = pages.open_by_link(pages.link_of(explore))
    assert again.session_state["source"] == dropped and "Not all of the link" not in pages.texts(again)
    assert pages.press(app, "duplicates.undo.panel").session_state["source"] == source
    assert "8 documents · 2 queries" in pages.texts(pages.run(other))


def test_near_duplicates_are_collapsed_at_the_threshold_that_is_set(source):
    app = pages.screen("data", source)
    threshold = next(field for field in app.number_input if field.label == "Threshold")
    assert threshold.value == 0.9
    threshold.set_value(0.9999)
    assert "1 group of near-duplicates: 2 of 8" in pages.texts(pages.run(app))
    next(field for field in app.number_input if field.label == "Threshold").set_value(0.5)
    app = pages.press(pages.run(app), "duplicates.near")
    collapsed = replace(source, drop_duplicates=NEAR, duplicate_threshold=0.5)
    assert app.session_state["source"] == collapsed and "collapsed at a cosine of 0.5" in pages.texts(app)
    assert pages.load(collapsed).reduction.n_dropped == 7
    # The header of every page goes back, and the query stays.
    explore = pages.screen("explore", collapsed)
    next(box for box in explore.selectbox if box.label == "2 queries").set_value(1)
    pages.press(pages.run(explore), "duplicates.undo.header")
    assert explore.session_state["source"] == source and pages.link_of(explore)["query"] == "q1"


@pytest.mark.parametrize(
    "dropped,threshold,kept",
    [
        ("near", "0.95", {"drop_duplicates": NEAR, "duplicate_threshold": 0.95}),
        ("copies", "0.95", {"drop_duplicates": COPIES}),
        ("all", "2", {}),
        ("near", "2", {"drop_duplicates": NEAR}),
    ],
)
def test_an_address_keeps_what_is_left_out(dropped, threshold, kept):
    params = {"corpus": "numpy-api", "drop_duplicates": dropped, "duplicate_threshold": threshold}
    source = address.parse_source(params)
    assert source == Source("numpy-api", **kept)
    assert address.parse_source(address.format_source(source)) == source
