"""Explore before any query: what it shows of a corpus, and that a click on a suggested search runs it."""

import numpy as np
import pytest

import engine
from dashboard.explore import first_view
from dashboard.services.source import Source
from dashboard.session.query import LINK_K_KEY, TYPED
from dashboard.session.view_names import CHECK_UP
from dashboard.widgets import skeleton, suggestions
from support import pages


@pytest.mark.parametrize("name", ["explore", "data"])
def test_a_corpus_without_queries_begins_with_searches_and_next_steps(own_home, name):
    folder = own_home / "pets"
    pages.beir(folder, [(f"p{i}", f"{text} in the *house") for i, (_, text) in enumerate(pages.PETS)])
    app = pages.screen(name, Source(str(folder), dtype="float32"))
    labels = [b.label for b in app.button if b.key.startswith(f"suggestions.{name}")]
    assert sorted(labels) == [f"{text} in the \\*house" for _, text in pages.PETS], "no document's text is markup"
    steps = [b.label for b in app.button if b.key.startswith(f"next.{name}")]
    first = ["Add queries and judgements", *(["Explore"] if name == "data" else [])]
    assert steps == [*first, "Measure without judgements", "Judge searches"]
    # On Data the corpus that is chosen there, a demo, is not the open one, and loading it comes first.
    primary_labels = [button.label for button in app.button if button.proto.type == "primary"]
    assert primary_labels == ["Measure without judgements" if name == "explore" else "Load and embed"]
    if name == "explore":
        assert "3 documents, no queries yet" in pages.texts(app)
        app = pages.press(app, next(b.key for b in app.button if b.label.startswith("a dog")))
        assert next(a for a in app.text_input if a.label == "Your query").value == "a dog in the *house"
        assert pages.sets(app)[0][0] == "a dog in the *house" and app.query_params["text"] == "a dog in the *house"


def test_grey_boxes_replace_the_previous_answers_before_a_typed_query_is_embedded(monkeypatch):
    app, events = pages.screen("explore"), []
    embed, format_boxes = engine.embed_queries, skeleton.format_skeleton
    monkeypatch.setattr(engine, "embed_queries", lambda *given: events.append("embed") or embed(*given))

    def note_boxes(rows):
        # The map's job has boxes of its own, in the first view too.
        events.extend(["boxes"] * (rows == skeleton.EXPLORE_ROWS))
        return format_boxes(rows)

    monkeypatch.setattr(skeleton, "format_skeleton", note_boxes)
    way = next(key for key in app.session_state if key.startswith("way."))
    app.session_state[way] = TYPED
    app = pages.run(app)
    assert first_view.INVITATION in pages.texts(app) and not events
    field = next(field for field in app.text_input if field.label == "Your query")
    field.set_value("sort along an axis")
    app = pages.run(app)
    assert events == ["boxes", "embed"] and pages.sets(app)[0][0] == "numpy.sort"
    assert pages.run(app) and len(events) == 2, "a known query replaces nothing"


def test_a_large_k_of_a_link_waits_for_a_click_in_the_check_up_too(own_home, monkeypatch):
    checked = []
    monkeypatch.setattr(first_view.checkup, "draw_queries", lambda loaded, k, depth: checked.append(k))
    pages.beir(own_home / "many", [(f"d{i}", f"thing {i} of the house") for i in range(70)])
    source, session = Source(str(own_home / "many"), dtype="float32"), {"k": 60, first_view.VIEW_KEY: CHECK_UP}
    pages.screen("explore", source, **session | {LINK_K_KEY: 60})
    assert set(checked) == {50}
    pages.screen("explore", source, **session)
    assert checked[-1] == 60, "what visitors set themselves counts"


def write_own_vectors(home):
    """A corpus with vectors of its own, without queries; d5 is a copy of d0."""
    source, folder = pages.beir_with_vectors(home / "vectors", dimension=8), home / "vectors"
    for name in ("queries.jsonl", "query_vectors.npy", "qrels/test.tsv"):
        (folder / name).unlink()
    vectors = np.load(folder / "vectors.npy")
    vectors[5] = vectors[0]
    np.save(folder / "vectors.npy", vectors)
    return source


def test_explore_begins_with_searches_and_near_duplicates_where_a_document_is_the_query(own_home):
    app = pages.screen("explore", write_own_vectors(own_home))
    assert "1 group of near-duplicates: 2 of 24 documents (8%)" in pages.texts(app)
    button = next(b for b in app.button if b.key.startswith("suggestions.explore") and not b.key.endswith(".0"))
    row = button.key.rpartition(".")[2]
    button.click().run()
    assert not app.exception and app.query_params["document"] == f"d{row}"
    assert len(pages.sets(app)) == 2 and all(f"thing {row}" not in documents for documents in pages.sets(app))


def test_explore_with_queries_has_no_beginnings_beside_the_results(own_home):
    app = pages.screen("explore", pages.beir_with_vectors(own_home / "with-queries", dimension=8))
    assert pages.sets(app) and not [b for b in app.button if b.key and b.key.startswith("suggestions")]


def test_without_an_encoder_a_suggested_search_is_the_document_that_it_comes_from(own_home):
    source = write_own_vectors(own_home)
    app = pages.screen("data", source)
    button = next(b for b in app.button if b.key.startswith("suggestions.data"))
    row, session_key = int(button.key.rpartition(".")[2]), f"document.{pages.load(source).space.corpus.digest[:12]}"
    # A page alone cannot be left for Explore: what the click has set is there all the same.
    button.click().run()
    assert button.label == f"thing {row}" and app.session_state[session_key] == f"d{row}"


def test_searches_of_a_corpus_with_queries_are_their_texts_but_for_the_open_one(tmp_path):
    folder = pages.beir(tmp_path / "pets", pages.PETS, [("q", "a cat"), ("r", "a dog")], test=[("q", 1), ("r", 2)])
    loaded = pages.load(Source(str(folder)))
    assert [search.text for search in suggestions.list_suggestions(loaded)] == ["a dog"]
