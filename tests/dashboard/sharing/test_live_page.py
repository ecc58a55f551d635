"""Share → Live page: the open query and others as a file, made by a job of the session."""

import threading
from dataclasses import replace

import pytest

import engine
from dashboard.services import jobs
from dashboard.services.source import Source
from dashboard.session.query import SIMILAR, corpus_key
from dashboard.sharing.dialogs import LIVE
from dashboard.sharing.live_page import LIVE_COUNT_KEY, LIVE_PURPOSE, make_key
from support import pages
from support.explore_parts import corpus, question_of
from support.live_pages import Parts


def read_page_data(app):
    job = pages.job_of(app, LIVE_PURPOSE)
    job.join(pages.PATIENCE)
    return Parts(job.result.decode()).data


@pytest.mark.deep
def test_the_page_behind_the_dialog_is_drawn_while_its_job_is_queued(monkeypatch):
    app = pages.open_by_link({"v": "1", "corpus": "numpy-api", "split": "dev"})
    monkeypatch.setattr(jobs, "_JOB_SLOTS", threading.BoundedSemaphore(1))
    with jobs._JOB_SLOTS:
        pages.choose_from_menu(app, LIVE)
        job = pages.job_of(app, LIVE_PURPOSE)
        assert job.queued and job.is_active, "the page is drawn to its end, and the job waits"
        assert pages.run(app).number_input(key=LIVE_COUNT_KEY).value == 20, "a page that is drawn anew keeps the dialog"
    job.join(pages.PATIENCE)
    assert job.result is not None


def test_the_open_query_comes_first_and_the_number_of_others_is_chosen(demo):
    dataset, _ = demo
    ids = dataset.judged("dev").ids
    app = pages.open_by_link({"v": "1", "corpus": "numpy-api", "split": "dev", "query": ids[7], "k": "6"})
    pages.choose_from_menu(app, LIVE)
    texts = [query["text"] for query in read_page_data(app)["queries"]]
    open_text = dataset.queries.texts[dataset.queries.position[ids[7]]]
    assert texts[0] == open_text and len(texts) == len(set(texts)) == 20
    assert read_page_data(app)["queries"][0]["tiles"]["k"] == 6 and read_page_data(app)["frontier"]["notes"]
    assert app.number_input(key=LIVE_COUNT_KEY).value == 20


def test_a_typed_query_is_shared_too_and_none_offers_nothing():
    app = pages.open_by_link({"v": "1", "corpus": "numpy-api", "text": "inverse of a matrix"})
    pages.choose_from_menu(app, LIVE)
    assert read_page_data(app)["queries"][0]["text"] == "inverse of a matrix"
    app = pages.open_by_link({"v": "1", "corpus": "numpy-api", "text": ""})
    assert LIVE not in app.menu_button(key="header.share").options


def test_an_open_document_is_no_labelled_query_and_not_among_its_own_answers(tmp_path):
    documents = [(str(i), f"thing {i} of {i % 5} sorts") for i in range(40)]
    queries = [(str(i), f"sort {i}") for i in range(6)]
    folder = pages.beir(tmp_path / "numbers", documents, queries, test=[("3", "10"), ("4", "11")])
    source = Source(str(folder))
    key = corpus_key(pages.load(source))
    app = pages.screen("explore", source)
    app.session_state[f"way.{key}"], app.session_state[f"document.{key}"] = SIMILAR, "3"
    pages.choose_from_menu(pages.run(app), LIVE)
    document, labelled = read_page_data(app)["queries"]
    assert (document["text"], document["tiles"]["judged"]) == ("thing 3 of 3 sorts", 0)
    assert (labelled["text"], labelled["tiles"]["judged"]) == ("sort 3", 1)
    tiles = document["tiles"]["decoders"]
    (slider,) = tiles[1]["sliders"]
    for packed in (tiles[0]["now"], tiles[1]["now"], read_page_data(app)["answers"][slider["urls"][0]]):
        assert 3 not in packed["rows"] and not packed["right"]
    assert tiles[0]["baseline"]


def test_pages_that_differ_have_keys_of_their_own():
    loaded = corpus()
    question = question_of(loaded)
    qrels = question.qrels
    # The text of a decoder is cut for people, here before the pool.
    hybrid = engine.make("hybrid")
    settings = [engine.Decoder(engine.make("mmr"), hybrid, depth=depth) for depth in (100, 200)]
    assert str(settings[0]) == str(settings[1])

    def key(decoder=settings[0], split="dev", judgements=qrels, **changes):
        judged = replace(loaded, dataset=replace(loaded.dataset, qrels={"dev": judgements}))
        return make_key(judged, replace(question, qrels=None, **changes), [decoder], split, 3)

    keys = [key(), key(settings[1]), key(split=None), key(judgements=replace(qrels, relevant_from=2)), key(k=7)]
    keys += [key(document="id3"), key(text="others")]
    assert key() == key() and len(set(keys)) == len(keys)
