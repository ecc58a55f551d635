"""The widget of a notebook: what it sends the browser, and what comes back."""

import json

import numpy as np
import pytest

import engine

pytest.importorskip("anywidget")
from dashboard.notebook import explore
from dashboard.notebook_widget import build_script

RANDOM = np.random.default_rng(5)
IDS = [f"d{i}" for i in range(40)]
SPACE = engine.Space.of([f"<b>{i}</b> text" for i in IDS], RANDOM.standard_normal((40, 8)), IDS)
QUERIES = engine.Embeddings(("a", "b"), RANDOM.standard_normal((2, 8)), None, ("words one", "words two"))
QRELS = engine.Qrels({"a": {"d1": 1, "d2": 1}, "b": {"d3": 1}})
DECODERS = ["top_k", "mmr", engine.Decoder(engine.make("nnn", l1=0.05))]


@pytest.fixture
def explorer():
    return explore(SPACE, QUERIES, DECODERS, k=5, qrels=QRELS)


def released(explorer, serial, **values):
    """Set what the browser reports after a drag."""
    explorer._committed = {"serial": serial, "values": values}


def read_tile(explorer, key):
    return next(tile for tile in explorer._view["tiles"]["decoders"] if tile["key"] == key)


def rows_now(explorer, key):
    """Return the documents of a tile's set, as ids."""
    now = read_tile(explorer, key)["now"]
    return [IDS[now["rows"][document]] for document in now["sets"][now["which"][0]]]


def test_browser_gets_the_sets_of_the_engine(explorer):
    assert (explorer.query, explorer._queries) == ("a", [["a", "words one"], ["b", "words two"]])
    assert explorer.values == {"mmr": {"relevance_weight": 0.8}, "nnn": {"l1": 0.05, "l2": 0.1}}
    for key, decoder in zip(("top_k", "mmr", "nnn"), explorer.decoders, strict=True):
        ids = [IDS[row] for row in engine.decode(decoder, SPACE, QUERIES.take([0]), 5).rows()]
        assert ids == rows_now(explorer, key) == explorer.sets[key]
    assert explorer._view["tiles"]["judged"] == 2
    json.dumps([explorer._view, explorer._answers])
    assert repr(explorer).startswith("Explorer: 40 documents, 2 queries") and len(repr(explorer)) <= 200


def test_released_slider_is_answered_by_the_engine_and_readable(explorer):
    answers, seen = explorer._answers, []
    explorer.observe(seen.append, "values")
    released(explorer, 3, mmr={"relevance_weight": 0.2})
    assert explorer.values["mmr"] == {"relevance_weight": 0.2} and len(seen) == 1
    decoder = engine.Decoder(engine.make("mmr", relevance_weight=0.2))
    assert explorer.decoders[1] == decoder
    expected = [IDS[row] for row in engine.decode(decoder, SPACE, QUERIES.take([0]), 5).rows()]
    assert rows_now(explorer, "mmr") == explorer.sets["mmr"] == expected
    # The sets along the slider are the same, and are not sent again.
    assert explorer._answers is answers and explorer._view["tiles"]["serial"] == 3
    # Where a decoder has two sliders, those of the other one are others now.
    (url,) = (slider["urls"][0] for slider in read_tile(explorer, "nnn")["sliders"] if slider["param"] == "l1")
    released(explorer, 4, nnn={"l2": 0.5})
    assert url not in explorer._answers and explorer.values["nnn"] == {"l1": 0.05, "l2": 0.5}


def test_query_follows_the_picker_with_the_values_that_are_set(explorer):
    released(explorer, 1, mmr={"relevance_weight": 0.3})
    explorer._opened = 7
    assert explorer._document == {"id": "d7", "title": "", "text": "<b>d7</b> text"}
    explorer.query = "b"
    assert explorer._document is None and explorer._view["opened"] is None
    assert read_tile(explorer, "mmr")["sliders"][0]["value"] == 0.3 and explorer._view["tiles"]["judged"] == 1
    expected = engine.decode(explorer.decoders[1], SPACE, QUERIES.take([1]), 5).rows()
    assert rows_now(explorer, "mmr") == [IDS[row] for row in expected]


def test_values_set_in_python_move_the_sliders_and_the_others_stay(explorer):
    explorer.values = {"mmr": {"relevance_weight": 0.4}}
    assert explorer.values == {"mmr": {"relevance_weight": 0.4}, "nnn": {"l1": 0.05, "l2": 0.1}}
    assert read_tile(explorer, "mmr")["sliders"][0]["value"] == 0.4


@pytest.mark.parametrize(
    ("trait", "value", "sentence"),
    [
        ("query", "c", "query must be the id .* got 'c'"),
        ("values", {"mmr": {"relevance_weight": 2}}, "relevance_weight"),
        ("values", {"dpp": {}}, "got 'dpp'"),
    ],
)
def test_wrong_values_are_refused_and_change_nothing(explorer, trait, value, sentence):
    before = getattr(explorer, trait), explorer._view
    with pytest.raises(engine.ParamError, match=sentence):
        setattr(explorer, trait, value)
    assert (getattr(explorer, trait), explorer._view) == before


FORMS = [None, "x", 5, 1e308, float("nan"), float("inf"), [1], {}, {"serial": 1}, {"serial": None, "values": {}}]
MESSAGES = [
    *({name: form} for name in ("query", "_committed", "_opened", "_view", "_answers", "_document") for form in FORMS),
    *({"_committed": {"serial": form, "values": {}}} for form in FORMS),
    *({"_committed": {"serial": 2, "values": {"mmr": form}}} for form in FORMS),
    *({"_committed": {"serial": 2, "values": {"mmr": {"relevance_weight": form}}}} for form in FORMS),
    *({"_committed": {"serial": 2, "values": {"mmr": {name: 1}}}} for name in (5, "name", "self", "__class__")),
    {"query": "c"},
    {"_opened": -1},
    {"_opened": 10**30},
]


@pytest.mark.threat(
    "messages to a notebook's widget with other types, ids that do not exist, values that are no numbers",
    "the widget says what is wrong and goes on; nothing is raised in the kernel, and what it draws is its own",
)
def test_wrong_messages_of_the_browser_raise_nothing_and_the_next_one_is_answered(explorer):
    queries, answers = explorer._queries, explorer._answers
    for serial, message in enumerate(MESSAGES, start=10):
        explorer.set_state(message)
        assert (explorer.query, explorer._queries, explorer._answers) == ("a", queries, answers)
        assert explorer.values == {"mmr": {"relevance_weight": 0.8}, "nnn": {"l1": 0.05, "l2": 0.1}}
        explorer.set_state({"_committed": {"serial": serial, "values": {}}})
        assert (explorer._view["tiles"]["serial"], explorer._error) == (serial, "")
    explorer.set_state({"query": "c"})
    assert "got 'c'" in explorer._error
    explorer.set_state({"query": "b", "_committed": {"serial": 99, "values": {"mmr": {"relevance_weight": 0.3}}}})
    assert (explorer.query, explorer._error, explorer._view["tiles"]["serial"]) == ("b", "", 99)
    assert read_tile(explorer, "mmr")["sliders"][0]["value"] == 0.3


def test_an_error_that_is_over_is_taken_back(explorer):
    released(explorer, 1, mmr={"relevance_weight": 2})
    assert "relevance_weight" in explorer._error
    released(explorer, 2, mmr={"relevance_weight": 0.8})
    assert (explorer._error, explorer._view["tiles"]["serial"]) == ("", 2)
    explorer.set_state({"query": "c"})
    assert "got 'c'" in explorer._error
    explorer.set_state({"query": "a"})
    assert explorer._error == ""


def test_two_settings_of_a_selector_have_keys_of_their_own():
    decoders = [engine.Decoder(engine.make("mmr", relevance_weight=value)) for value in (0.2, 0.7)]
    explorer = explore(SPACE, [1.0] * 8, decoders, k=5)
    assert explorer.values == {"mmr.0": {"relevance_weight": 0.2}, "mmr.1": {"relevance_weight": 0.7}}
    assert explorer._queries == [["0", "query 0"]]
    released(explorer, 1, **{"mmr.1": {"relevance_weight": 0.1}})
    assert [decoder.select.relevance_weight for decoder in explorer.decoders] == [0.2, 0.1]


def test_error_of_a_query_is_shown_and_raised():
    words = engine.Decoder(engine.make("mmr"), retrieve=engine.make("bm25"))
    explorer = explore(SPACE, QUERIES, [words], k=5)
    queries, texts = explorer._content.queries.__dict__, QUERIES.texts
    queries["texts"] = None
    with pytest.raises(engine.DataError, match="words"):
        explorer.query = "b"
    assert "words" in explorer._error
    queries["texts"] = texts
    explorer.query = "a"
    assert explorer._error == ""


@pytest.mark.parametrize("decoders", [[], [engine.make("mmr")], ["nosuch"]])
def test_other_decoders_are_refused(decoders):
    with pytest.raises(engine.ParamError):
        explore(SPACE, QUERIES, decoders)


def test_page_is_saved_at_the_present_values(explorer, tmp_path):
    released(explorer, 1, mmr={"relevance_weight": 0.3})
    explorer.query = "b"
    text = explorer.save(tmp_path / "page.html", n_queries=1).read_text(encoding="utf-8")
    assert '"value":0.3' in text and "words two" in text and "words one" not in text
    with pytest.raises(engine.ParamError):
        explorer.save(tmp_path / "none.html", n_queries=0)
    assert not (tmp_path / "none.html").exists()


def test_script_has_no_state_outside_of_a_view():
    script = build_script()
    # The one hub of a page is what pages without a bundle take.
    assert script.startswith("const openViews = (ownHub) => {\nconst frontierHub = ownHub;")
    assert "globalThis.frontier =" not in script and "export default {" in script
