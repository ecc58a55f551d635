"""cross_encoder: a tiny model made here against sentence-transformers itself; only the pool is read."""

import json
import os
import threading

import pytest
import torch

import engine
from engine.data.models import rerankers
from engine.decoder import query_batch
from engine.errors import Cancelled, FrontierError, ParamError
from engine.progress import report_to
from engine.space import QueryBatch
from engine.values import Corpus
from support.patience import patient
from support.rankings import space_of
from support.tiny_models import tiny_cross_encoder

TEXTS = tuple(f"{a} {b} {a * n}" for n, a in enumerate(("river", "stone", "paper"), 1) for b in ("cloud", "a1", "of"))
QUERIES = ["paper cloud", "stone"]


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    return str(tiny_cross_encoder(tmp_path_factory.mktemp("tiny")))


@pytest.fixture(scope="module")
def space():
    corpus = Corpus(tuple(f"d{i}" for i in range(len(TEXTS) + 1)), (*TEXTS, TEXTS[0]), ("Title", *[""] * len(TEXTS)))
    return engine.Space(corpus, engine.embed(corpus))


@pytest.fixture(scope="module")
def batch(space):
    return query_batch(space, QUERIES)


@pytest.fixture
def read(monkeypatch, tiny):
    """The batches of pairs that went through the model."""
    model, seen = rerankers.load(tiny).model, []
    real = model.predict
    monkeypatch.setattr(model, "predict", lambda pairs, **how: seen.append(list(pairs)) or real(pairs, **how))
    return seen


def test_scores_are_sentence_transformers_own(space, batch, tiny):
    from sentence_transformers import CrossEncoder

    theirs = CrossEncoder(tiny, device="cpu", local_files_only=True)
    pairs = [[(query, text) for text in space.corpus.passages] for query in QUERIES]
    expected = torch.stack([theirs.predict(each, convert_to_tensor=True) for each in pairs])
    scores = engine.make("cross_encoder", model=tiny).score(space, batch)
    assert torch.allclose(scores.cpu(), expected, atol=1e-5)
    assert scores.std(1).min() > 1e-3, "a model that tells nothing apart tests nothing"


def test_only_the_rows_asked_for_are_read(space, batch, tiny, read):
    rows = torch.tensor([[2, 5, 7], [0, 1, 8]])
    engine.make("cross_encoder", model=tiny).score(space, batch, rows)
    pairs = [pair for one in read for pair in one]
    wanted = {(QUERIES[b], space.corpus.passages[r]) for b in range(2) for r in rows[b].tolist()}
    assert len(pairs) == 6 and set(pairs) == wanted


def test_as_a_reranker_it_reads_the_pool_and_orders_it(space, batch, tiny, read):
    rerank = engine.make("cross_encoder", model=tiny)
    found = engine.decode(engine.Decoder(engine.make("top_k"), rerank=rerank, depth=4), space, QUERIES, k=4)
    assert sum(map(len, read)) == 2 * 4
    scores = rerank.score(space, batch)
    assert all((scores[b][found.index[b]].diff() <= 1e-6).all() for b in range(2))
    read.clear()
    engine.decode(engine.Decoder(engine.make("top_k"), rerank), space, QUERIES[:1], k=2)
    assert sum(map(len, read)) == len(set(space.corpus.passages)), "as a retriever it reads the whole corpus"


def test_one_query_is_no_other_in_company(space, batch, tiny):
    stage = engine.make("cross_encoder", model=tiny, batch_size=3)
    together = stage.score(space, batch)
    assert torch.equal(torch.cat([stage.score(space, batch.block(b, b + 1)) for b in range(2)]), together)


def test_equal_documents_are_read_once_and_tie(tiny, read):
    space = space_of(torch.eye(3), ("same words", "other", "same words"))
    batch = QueryBatch(("q",), torch.ones(1, 3), ("words",))
    scores = engine.make("cross_encoder", model=tiny).score(space, batch)[0]
    assert scores[0] == scores[2] != scores[1] and sum(map(len, read)) == 2


def test_a_model_is_loaded_once_and_both_parameters_have_an_effect(space, batch, tiny, read, tmp_path):
    assert rerankers.load(tiny) is rerankers.load(tiny)
    engine.make("cross_encoder", model=tiny, batch_size=4).score(space, batch)
    assert [len(one) for one in read] == [4, 4, 2] * 2
    other = str(tiny_cross_encoder(tmp_path, seed=1))
    scores = [engine.make("cross_encoder", model=m).score(space, batch) for m in (tiny, other)]
    assert not torch.allclose(*scores)


def test_progress_and_stop(space, batch, tiny, read):
    stage, seen, stop = engine.make("cross_encoder", model=tiny, batch_size=3), [], threading.Event()

    def halfway(done, total, label):
        seen.append((done, total))
        if done >= 10:
            stop.set()

    with pytest.raises(Cancelled, match="at 13 of 20 pairs"), report_to(halfway, stop):
        stage.score(space, batch)
    assert seen == [(0, 20), (3, 20), (6, 20), (9, 20), (10, 20)] and sum(map(len, read)) == 13
    with report_to(lambda *told: seen.append(told[:2])):
        stage.score(space, batch)
    assert seen[-1] == (20, 20)
    assert [d for d, _ in seen[5:]] == sorted(d for d, _ in seen[5:])


def test_pickled_weights_are_refused(tmp_path, monkeypatch):
    folder = tiny_cross_encoder(tmp_path, safe=False)
    monkeypatch.setattr(torch, "load", lambda *a, **k: pytest.fail("unpickled"))
    with pytest.raises(FrontierError, match=r"unpickled .*pytorch_model\.bin"):
        rerankers.load(str(folder))


def test_a_models_own_code_is_not_run(tmp_path):
    folder = tiny_cross_encoder(tmp_path)
    config = json.loads((folder / "config.json").read_text())
    config["auto_map"] = {k: "evil.Evil" for k in ("AutoConfig", "AutoModelForSequenceClassification")}
    config["model_type"] = "evil"
    (folder / "config.json").write_text(json.dumps(config))
    mark = tmp_path / "ran"
    (folder / "evil.py").write_text(f"open({str(mark)!r}, 'w')\nclass Evil: pass\n")
    with pytest.raises(FrontierError, match=r"the cross-encoder .* is refused: config\.json names code of its own"):
        rerankers.load(str(folder))
    assert not mark.exists()


def test_models_that_are_not_there_or_give_several_numbers_a_pair_are_refused(tmp_path):
    with pytest.raises(FrontierError, match="gives 3 numbers a pair"):
        rerankers.load(str(tiny_cross_encoder(tmp_path, labels=3)))
    for where in ("/no/such/model", "./nothing-here"):
        with pytest.raises(FrontierError, match=r"the cross-encoder .*check the path"):
            rerankers.load(where)


def test_a_name_is_a_line_of_text():
    assert engine.make("cross_encoder", model="  a/b ").model == "a/b"
    for bad in ("", "two\nlines", "nul\0", 3, None, "x" * 301):
        with pytest.raises(ParamError, match="model"):
            engine.make("cross_encoder", model=bad)


def test_the_page_has_a_field_for_it(tiny):
    """An emptied field, and one that holds no line of text, stand for the default."""
    from streamlit.testing.v1 import AppTest

    def page():
        import streamlit as st

        import engine
        from dashboard.session.parameters import read_stage
        from dashboard.widgets.parameters import draw_stage_row

        spec = engine.methods()["cross_encoder"]
        st.text(draw_stage_row(spec, "here", lambda: None).label)
        st.text(read_stage(spec, "here").label)

    app = AppTest.from_function(page, default_timeout=patient(60)).run()
    default, given = engine.make("cross_encoder").label, engine.make("cross_encoder", model=tiny).label
    for typed, shown in ((f" {tiny} ", given), ("", default), ("\x00", default)):
        app.text_input(key="here.cross_encoder.model").set_value(typed).run()
        assert not app.exception and [text.value for text in app.text] == [shown, shown]


@pytest.mark.skipif("FRONTIER_CROSS_ENCODER" not in os.environ, reason="FRONTIER_CROSS_ENCODER names no model folder")
def test_a_trained_model_puts_the_answer_first():
    texts = {
        "cats": "Cats sleep for most of the day.",
        "paris": "Paris is the capital of France.",
        "sort": "numpy.sort returns a sorted copy of an array.",
    }
    corpus = engine.Corpus(tuple(texts), tuple(texts.values()))
    space = engine.Space(corpus, engine.embed(corpus))
    stage = engine.make("cross_encoder", model=os.environ["FRONTIER_CROSS_ENCODER"])
    decoder = engine.Decoder(engine.make("top_k"), rerank=stage, depth=3)
    found = engine.decode(decoder, space, ["what is the capital of France?", "how do I sort an array?"], k=1)
    assert [corpus.ids[row] for row in found.index[:, 0]] == ["paris", "sort"]
