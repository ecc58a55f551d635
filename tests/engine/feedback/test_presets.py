"""How a session learns: declared once, checked at the edge, three named settings."""

import json

import numpy as np
import pytest

import engine
from engine import orag
from engine.params import params_of
from support.feedback import feed_outcomes, queries_near
from support.parameters import invalid_values

PARAMS = params_of(orag.Preset)


def test_the_presets_are_those_of_the_specification():
    default, careful, paper = (orag.PRESETS[name] for name in ("default", "careful", "paper"))
    assert (default.mode, default.rate, default.cap, default.trust, default.ball) == ("chosen", 0.02, 0.1, 0.5, True)
    assert (default.temperature, default.perplexity, default.schedule) == (None, 8.0, "constant")
    assert (careful.rate, careful.cap, careful.trust, careful.ball) == (0.01, 0.05, 0.3, True)
    assert (paper.mode, paper.temperature, paper.optimizer, paper.rate) == ("full", 1.0, "adamw", 1e-5)
    assert (paper.schedule, paper.batch, paper.cap, paper.trust, paper.ball) == ("sqrt", 10, None, None, False)
    assert "no visible change" in orag.NOTES["paper"] and set(orag.NOTES) == set(orag.PRESETS)
    assert [p.name for p in orag.PRESETS.values()] == list(orag.PRESETS)


@pytest.mark.parametrize("param", PARAMS, ids=[p.name for p in PARAMS])
def test_every_parameter_is_checked_and_written_and_read(space, param):
    for value in invalid_values(param):
        with pytest.raises(engine.ParamError, match=param.name):
            orag.session(space, **{param.name: value})
    for value in (*param.grid(4), param.default):
        assert param.parse(param.text(value)) == value
        preset = orag.session(space, **{"temperature": 0.2, param.name: value}).preset
        assert orag.Preset(**json.loads(json.dumps(preset.as_json()))) == preset
    assert param.help.endswith(".") and param.symbol


def test_bad_setting_raises_param_error(space):
    with pytest.raises(engine.ParamError, match="preset must be one of default, careful, paper"):
        orag.session(space, "bold")
    with pytest.raises(engine.ParamError, match="no parameter momentum"):
        orag.session(space, momentum=0.9)
    with pytest.raises(engine.ParamError, match=r"space must be an engine\.Space"):
        orag.session(space.corpus)
    assert orag.session(space, rate=0.5).preset.name == "custom"
    assert orag.session(space, "careful", seed=9, exposure=3).preset.name == "careful"
    assert orag.session(space, orag.PRESETS["paper"]).preset.name == "paper"


def test_every_parameter_has_an_effect(space):
    def after(k=1, **how):
        return feed_outcomes(orag.session(space, **how), 20, k).vectors.tobytes()

    default = after()
    changed = orag.Preset("full", 0.05, "sqrt", 0.01, 0.01, False, 0.9, 3.0, "adamw", 2, exposure=1, seed=1)
    for name, value in changed.as_json().items():
        assert name in ("exposure", "weights") or after(**{name: value}) != default, name
    assert after(k=3) != after(k=3, weights="paper")


def test_the_paper_moves_next_to_nothing_in_one_pass(space):
    start = orag.session(space, "paper")
    moved = np.abs(feed_outcomes(start, 60).exact - start.exact)
    assert 0 < moved.max() < 6 * 1.1e-5, "at most the rate a step, and one step in ten rounds"


def test_questions_are_words_vectors_or_embeddings(space):
    session = orag.session(space, temperature=0.2)
    vector = queries_near(space)[0][0]
    named = session.resolve_query(vector)
    assert session.resolve_query(named) is named and session.resolve_query(vector.tolist()) == named
    embeddings = engine.Embeddings(("q",), space.vectors[:1], space.embeddings.encoder, ("some words",))
    assert session.resolve_query(embeddings).text == "some words" and session.resolve_query(
        embeddings
    ) != session.resolve_query(embeddings.vectors[0].numpy())
    with pytest.raises(engine.DataError, match="one question; got 2"):
        session.resolve_query(engine.Embeddings(("a", "b"), space.vectors[:2]))
    for nothing in (["some", "words"], None, {}):
        with pytest.raises(engine.DataError, match="query must be"):
            session.resolve_query(nothing)
    with pytest.raises(engine.DataError, match="dimension 12"):
        session.resolve_query(orag.Query(np.ones(3, np.float32)))


def test_words_are_embedded_as_the_corpus_was(demo):
    dataset, space = demo
    session = orag.session(space)
    query = session.resolve_query("sort an array")
    best = int(session.scores("sort an array").argmax())
    ranking = engine.decode(engine.Decoder(engine.make("top_k")), space, "sort an array", k=1)
    assert ranking.index[0, 0] == best and query.text == "sort an array"
    after = orag.feed(session, orag.thumb(session, "sort an array", dataset.corpus.ids[best], up=False))
    assert after.scores(query)[best] == pytest.approx(session.scores(query)[best] - 0.02, abs=1e-6)
    back = orag.undo(after, after.events[0].id)
    top = engine.Decoder(engine.make("top_k"))
    again = engine.decode(top, engine.Space(dataset.corpus, back.embeddings()), "sort an array", k=20)
    first = engine.decode(top, space, "sort an array", k=20)
    assert (again.index == first.index).all() and again.gain.numpy().tobytes() == first.gain.numpy().tobytes()
