"""What the tiles and lists draw without a server: the engine's answers, under keys that the sliders name."""

import json

import pytest

import engine
from dashboard.components.tile_data import name_decoders, pack_query
from dashboard.session.decoders import make_baseline
from support.explore_parts import corpus, question_of

LOADED = corpus()
QUESTION = question_of(LOADED)
QUERY = engine.Embeddings(("q",), QUESTION.vector.unsqueeze(0), None, ("words",))


def decoders(*names, **params):
    return [engine.Decoder(select=engine.make(name, **params)) for name in names]


def pack(*chosen, **options):
    return pack_query(LOADED.space, QUERY, chosen, k=6, relevant_ids=QUESTION.relevant_ids, **options)


def rows_of(packed, position=0):
    return [packed["rows"][document] for document in packed["sets"][packed["which"][position]]]


def test_each_slider_has_the_answers_of_its_decoder():
    packed = pack(*decoders("top_k", "mmr", "nnn"))
    assert json.loads(json.dumps([packed.tiles, packed.answers])) == [packed.tiles, packed.answers]
    baseline, mmr, nnn = packed.tiles["decoders"]
    assert [tile["baseline"] for tile in packed.tiles["decoders"]] == [True, False, False]
    assert baseline["sliders"] == [] and [slider["param"] for slider in nnn["sliders"]] == ["l1", "l2"]
    assert set(packed.answers) == {
        url for tile in packed.tiles["decoders"] for s in tile["sliders"] for url in s["urls"]
    }
    answers = packed.answers[mmr["sliders"][0]["urls"][0]]
    for position, value in ((0, 0.0), (-1, 1.0)):
        decoder = decoders("mmr", relevance_weight=value)[0]
        assert rows_of(answers, position) == engine.decode(decoder, LOADED.space, QUERY, k=6).rows()
    assert packed.tiles["floor"] is None, "5 % of so few documents are no set"
    assert packed.tiles["judged"] == len(QUESTION.relevant_ids) and packed.tiles["base"] is None


def test_two_settings_of_a_selector_differ_in_key_and_title_and_are_compared_with_the_baseline():
    low, high = decoders("mmr", relevance_weight=0.2) + decoders("mmr", relevance_weight=0.7)
    packed = pack(low, high)
    assert len({tile["key"] for tile in packed.tiles["decoders"]}) == 2
    assert [tile["title"] for tile in packed.tiles["decoders"]] == ["MMR (1)", "MMR (2)"]
    expected = engine.decode(make_baseline(None), LOADED.space, QUERY, k=6).rows()
    assert rows_of(packed.tiles["base"]) == expected
    # Another choice of decoders is another view of the query: its key differs.
    assert packed.lists["query"] == packed.tiles["query"] != pack(low).tiles["query"]


def test_titles_of_settings_have_no_value_that_a_drag_changes():
    chosen = decoders("mmr", relevance_weight=0.2) + decoders("mmr") + decoders("mmr", window=2)
    chosen += decoders("nnn") + decoders("nnn", l2=0.5)
    names = [title for _, title in name_decoders(chosen)]
    assert names == ["MMR (1)", "MMR (2)", "MMR · w 2", "NNN (1)", "NNN (2)"]
    # λ₂ has no slider on a page without a server, so it tells the two apart.
    *_, first, second = [title for _, title in name_decoders(chosen, max_sliders=1)]
    assert "λ₂ 0.1" in first and "λ₂ 0.5" in second


@pytest.mark.parametrize(("max_sliders", "n_answers"), [(None, 2), (1, 1), (0, 0)])
def test_sliders_are_limited(max_sliders, n_answers):
    assert len(pack(*decoders("nnn"), max_sliders=max_sliders).answers) == n_answers


def test_other_scorers_give_their_scores():
    lexical = engine.Decoder(select=engine.make("mmr"), retrieve=engine.make("bm25"))
    packed = pack(lexical)
    (tile,), (answers,) = packed.tiles["decoders"], packed.answers.values()
    assert tile["now"]["scores"] is not None and answers["scores"] is not None
    assert rows_of(tile["now"]) == engine.decode(lexical, LOADED.space, QUERY, k=6).rows()
