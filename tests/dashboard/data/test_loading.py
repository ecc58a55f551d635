"""Several people on the Data page: what each sees and stops of the others' loads, uploads and encoders."""

import sys
import threading
import weakref
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from dashboard.data.loading import KIND_KEY, LOADING_KEY, RELEVANT_KEY
from dashboard.services import corpora, jobs, roots, uploads
from dashboard.services.source import Source
from dashboard.session.address import format_source, parse_source
from dashboard.session.link import State, format_state
from dashboard.session.query import LABELLED
from engine.data import cache
from engine.errors import Cancelled, DataError
from support import pages, warm_home
from support.draws import every_other
from support.encoders import copy_model
from support.patience import patient

SECRET = "secret-papers"
PROMPTS = {"config_sentence_transformers__json": {"prompts": {"query": "zebra crossing: "}}}


@pytest.fixture(autouse=True)
def apart(warm, tmp_path, monkeypatch):
    """A cache and a memory of this test's own."""
    monkeypatch.setenv("FRONTIER_HOME", str(warm_home.copy(tmp_path / "home")))
    pages.fresh_corpora(monkeypatch)


@pytest.fixture
def slow(tmp_path, monkeypatch):
    """A corpus whose loading goes on until it is let, or stopped."""
    go_on, real = threading.Event(), corpora._load_corpus
    source = replace(pages.csv_source(tmp_path / f"{SECRET}.csv", pages.PETS), dtype="float32")

    def held(chosen, job):
        while chosen == source and not go_on.is_set():
            if job.stop.wait(0.01):
                raise Cancelled
        return real(chosen, job)

    monkeypatch.setattr(corpora, "_load_corpus", held)
    yield source, go_on
    go_on.set()


def page(name, source=None, **session):
    return pages.draw_page(pages.SCREENS / f"{name}.py", **({"source": source} if source else {}), **session)


@pytest.mark.threat("a Cancel button for another visitor's work", "it goes on for everybody else who wants it")
def test_cancelling_lets_go_of_ones_own_part(slow):
    source, go_on = slow
    first, second = page("explore", source), page("explore", source)
    job = corpora.find_loading_job(source)
    assert "corpus.cancel" in pages.keys(first) and "corpus.cancel" in pages.keys(second)
    pages.press(first, "corpus.cancel")
    assert job.is_active and "Stopped. Progress is saved." in pages.texts(first), pages.texts(first)
    assert "corpus.cancel" in pages.keys(pages.run(second)) and "corpus.cancel" not in pages.keys(pages.run(first))
    next(b for b in first.button if b.label == "Resume").click()
    assert corpora.find_loading_job(source) is job and "corpus.cancel" in pages.keys(pages.run(first)), (
        "it is joined again"
    )
    pages.press(first, "corpus.cancel")
    pages.press(second, "corpus.cancel")
    job.join(patient(60))
    assert job.cancelled, "nobody is left"
    go_on.set()
    next(b for b in pages.run(second).button if b.label == "Resume").click()
    pages.run(second)
    assert corpora.find_loading_job(source) is not job


def test_other_pages_say_that_the_next_corpus_is_loading_and_offer_to_switch_to_it(slow, tmp_path):
    source, go_on = slow
    shown = replace(pages.csv_source(tmp_path / "mine.csv", pages.PETS), dtype="bfloat16")
    pages.load(shown)
    corpora.get_loading_job(source, resubscribe=True)
    app = page("explore", shown, **{LOADING_KEY: source})
    assert f"{SECRET}.csv is being loaded. Until then this page shows mine." in pages.texts(app)
    assert "loading.switch" not in pages.keys(app) and SECRET not in pages.texts(page("explore", shown))
    go_on.set()
    pages.load(source)
    assert f"{SECRET}.csv is loaded. This page shows mine." in pages.texts(pages.run(app))
    pages.press(app, "loading.switch")
    assert app.session_state["source"] == source and "This page shows" not in pages.texts(pages.run(app))


@pytest.mark.threat("another visitor's path, file name or encoder on a page", "shown to nobody who did not name it")
def test_loads_of_others_are_not_shown(slow, tmp_path):
    source, go_on = slow
    page("data", source, **{LOADING_KEY: source})
    mine = replace(pages.csv_source(tmp_path / "mine.csv", pages.PETS), dtype="bfloat16")
    pages.load(mine)
    other = page("data", mine)
    assert corpora.find_loading_job(source).running and SECRET not in pages.texts(other)
    go_on.set()
    pages.load(source)
    for name in ("Corpus", "Encoders"):
        pages.pick(other, "View", name)
        assert SECRET not in pages.texts(other) and not [
            key for key in pages.keys(other) if key.startswith("data.watch")
        ]
    assert len(corpora.list_loaded()) == 2 and "Loaded with" not in pages.texts(other), (
        "though the documents are the same"
    )


def test_encoders_of_others_are_offered_where_they_name_no_folder(tmp_path):
    source = replace(pages.csv_source(tmp_path / "pets.csv", pages.PETS), dtype="float32")
    named, typed = (
        replace(source, dtype="bfloat16"),
        replace(source, encoder=str(copy_model(tmp_path / "own", **PROMPTS))),
    )
    for chosen in (source, named, typed):
        pages.load(chosen)
        page("explore", chosen)
    app = page("data", source)
    assert "Loaded with 2 encoders" in pages.texts(app) and "own" not in pages.texts(app)
    again = pages.open_by_link(
        {"corpus": source.path, "encoder": "unknown", "id_column": "id", "text_column": "text"}, "data"
    )
    assert again.session_state["source"] in (source, named)


@pytest.fixture
def sender():
    """A page of somebody who has uploaded a table."""
    app = page("data", Source("numpy-api"), **{"data.way": "Upload"})
    app.file_uploader[0].set_value((f"{SECRET}.csv", b"id,text\n1,a cat\n2,a dog\n", "text/csv"))
    pages.run(app)
    pages.press(app, "data.load")
    pages.load(Source(str(app.session_state["data.uploaded"]), columns=("id", "text", None)))
    return pages.run(app)


def rows(app):
    return [] if not app.dataframe else list(pages.first_table(app, "Last used")["What"])


@pytest.mark.threat("another visitor's uploads in the cache's list", "no name, and no way to delete them")
def test_uploads_are_listed_and_deleted_by_those_who_sent_them(sender, tmp_path):
    file = sender.session_state["data.uploaded"]
    other = page("data", Source("numpy-api"), **{"data.view": "Cache"})
    assert f"{SECRET}" not in pages.texts(other) + " ".join(rows(other)) and "from another window" in rows(other)
    assert "Not deleted, in use: Uploads, from another window" in pages.texts(other)
    pages.press(other, "data.cache.delete.all")
    assert file.exists()
    pages.pick(sender, "View", "Cache")
    assert f"{SECRET}.csv" in rows(sender)


def test_uploads_of_windows_that_are_closed_are_anybodys_to_delete(sender, monkeypatch):
    file = sender.session_state["data.uploaded"]
    monkeypatch.setattr(jobs, "has_open_tab", lambda session: False)
    corpora.drop_load(*next((s, job) for s, job in corpora.list_loads() if s.path == str(file)))
    other = page("data", Source("numpy-api"), **{"data.view": "Cache"})
    assert f"{SECRET}.csv" in rows(other)
    pages.press(other, "data.cache.delete.all")
    assert not file.exists()


@pytest.fixture
def shared():
    before = roots.get_rules()
    roots.set_rules(roots.Rules(shared=True, uploads=False))
    yield
    roots.set_rules(before)


@pytest.mark.threat("the cache's list on a server that others can reach", "sizes, and what one sent oneself")
def test_the_cache_of_a_shared_server_is_its_owners(shared, tmp_path):
    cache.write(cache.open_section(uploads.UPLOADS_SECTION) / "0123456789abcdef" / f"{SECRET}.csv", b"id,text\n1,a\n")
    app = page("data", Source("numpy-api"), **{"data.view": "Cache"})
    assert SECRET not in pages.texts(app) + str(app) and str(tmp_path) not in " ".join(code.value for code in app.code)
    assert not [key for key in pages.keys(app) if key.startswith("data.cache.delete")]


@pytest.mark.parametrize(("way", "flag"), [("Upload", "--allow-uploads"), ("Path", "--root FOLDER")])
def test_a_shared_server_says_what_is_off(shared, way, flag):
    app = page("data", Source("numpy-api"), **{"data.way": way})
    assert flag in pages.texts(app) and not app.file_uploader and "data.path" not in [t.key for t in app.text_input]
    assert "data.load" not in pages.keys(app)


# A file is read once


def given(app, way, file):
    """The Data page after a file was named or sent."""
    app.session_state["data.way"] = way
    if way == "Path":
        app.session_state["data.path"] = str(file)
        return pages.run(app), file
    pages.run(app).get("file_uploader")[0].upload(file.name, file.read_bytes())
    pages.run(app)
    return app, app.session_state["data.uploaded"]


@pytest.fixture
def openings():
    """The paths that were opened to be read since, from any thread; a hook of the interpreter tells."""
    seen, on = [], [True]

    def told(event, arguments):
        # Not the system's call below it, which has no mode.
        if on and event == "open" and arguments[1] and "r" in arguments[1]:
            seen.append(arguments[0])

    sys.addaudithook(told)
    yield seen
    on.clear()


@pytest.mark.parametrize(("name", "way"), every_other(["papers.csv", "papers.tsv", "papers.jsonl"], ["Path", "Upload"]))
def test_a_table_is_opened_once_from_its_name_to_the_loaded_corpus(tmp_path, openings, way, name):
    rows = {"csv": "id;text\n1;a cat\n2;a dog\n", "tsv": "id\ttext\n1\ta cat\n2\ta dog\n"}
    content = rows.get(name.rpartition(".")[2], '{"id": 1, "text": "a cat"}\n{"id": 2, "text": "a dog"}\n')
    sent = tmp_path / "sent" / name
    sent.parent.mkdir()
    sent.write_text(content)
    pages.load()
    app = page("data")
    # The open corpus has a report of its own, without notices where its vectors were embedded here.
    n_reports = pages.texts(app).count("No problems")
    openings.clear()
    app, path = given(app, way, sent)
    assert "2 documents" in pages.texts(app) and pages.texts(app).count("No problems") == n_reports
    pages.press(app, "data.load")
    loaded = pages.load(replace(Source(str(path)), columns=("id", "text", None)))
    assert loaded.dataset.corpus.texts == ("a cat", "a dog")
    pages.run(app)
    assert app.session_state["source"] == loaded.source and list(map(str, openings)).count(str(path)) == 1


def test_a_file_that_changes_after_the_look_is_read_again(tmp_path):
    pages.load()
    source = pages.csv_source(tmp_path / "papers.csv", pages.PETS)
    app, path = given(page("data"), "Path", tmp_path / "papers.csv")
    assert f"{len(pages.PETS)} documents" in pages.texts(app)
    pages.csv_source(path, [("new", "a heron")])
    pages.press(app, "data.load")
    assert pages.load(source).dataset.corpus.ids == ("new",)
    assert "1 document" in pages.texts(pages.run(app)), "the page reads it anew too"


def test_conflicting_grades_are_an_error_until_one_chooses_and_unread_files_are_named(tmp_path):
    folder = pages.beir(tmp_path / "pets", pages.PETS, [("q", "a cat"), ("r", "a dog")], test=[("q", 1)])
    (folder / "qrels" / "test.tsv").unlink()
    (folder / "qrels" / "test.txt").write_text("q 0 1 2\nr 0 2 1\nq 0 1 0\n")
    (folder / "dev.tsv").write_text("q\t1\t1\n")
    pages.load()
    app, path = given(page("data"), "Path", folder)
    texts = pages.texts(app)
    assert "Some judgements contradict each other." in texts and "'q 1' is judged 0 here and 2 on line 1" in texts
    assert "--conflicting" not in texts and not [button for button in app.button if button.key == "data.load"]
    app.segmented_control(key=f"data.conflicting_grades.{path}").set_value("max")
    app = pages.run(app)
    assert "has different grades, of which the highest counts" in pages.texts(app)
    assert "1 file is not read: not among" in pages.texts(app) and "dev.tsv" in pages.texts(app)
    pages.press(app, "data.load")
    loaded = pages.load(Source(str(path), conflicting_grades="max"))
    assert loaded.dataset.qrels["test"].grades == {"q": {"1": 2}, "r": {"2": 1}}
    assert parse_source(format_source(loaded.source)) == loaded.source


def test_what_one_session_looked_at_no_other_is_given(tmp_path, monkeypatch):
    visitors = ["first"]
    monkeypatch.setattr(uploads, "get_visitor", lambda: visitors[-1])
    source = pages.csv_source(tmp_path / "papers.csv", pages.PETS)
    seen = corpora.inspect_files(source)
    assert (
        len(seen.read_dataset(source).corpus) == len(pages.PETS)
        and seen.take_dataset(replace(source, dtype="float32")) is not None
    )
    assert corpora.inspect_files(source) is seen and seen.take_dataset(replace(source, repeated="first")) is None
    visitors.append("second")
    assert corpora.inspect_files(source) is not seen
    visitors.pop()
    gone = weakref.ref(seen)
    del seen
    corpora.inspect_files(pages.csv_source(tmp_path / "others.csv", pages.PETS))
    assert gone() is None, "what another look replaces is given up"


def test_the_level_of_relevance_is_changed_beside_the_judgements_for_every_page(tmp_path):
    folder = pages.beir(tmp_path / "pets", pages.PETS, [("q", "a cat"), ("r", "a dog")], test=[("q", 1), ("r", 2)])
    (folder / "qrels" / "test.tsv").write_text("q\t1\t2\nr\t2\t1\nr\t3\t0\n")
    source = replace(Source(str(folder)), dtype="float32")
    app = pages.screen("data", source)
    assert "test: 3 judgements of 2 queries, 2 relevant" in pages.texts(app)
    app.selectbox(key=RELEVANT_KEY).set_value(2)
    app = pages.run(app)
    assert app.session_state["source"] == replace(source, relevant=2)
    line = "test: 3 judgements of 2 queries, 1 relevant; 1 query without a relevant document"
    assert line in pages.texts(app) and app.selectbox(key=RELEVANT_KEY).value == 2
    for level, n_relevant in ((1, 1), (2, 0)):
        state = State(source=replace(source, relevant=level), way=LABELLED, split="test", question="r")
        app = pages.open_by_link(format_state(state) | {"decoders": "top_k"})
        assert pages.tiles(app)["top_k"]["set"].count_relevant() == n_relevant


def test_judgements_are_declared_complete_for_every_page_and_by_link(tmp_path):
    folder = pages.beir(tmp_path / "pets", pages.PETS, [("q", "a cat")], test=[("q", 1)])
    (folder / "qrels" / "test.tsv").write_text("q\t1\t1\nq\t3\t0\n")
    source = replace(Source(str(folder)), dtype="float32")
    app = pages.screen("data", source)
    app.selectbox(key=KIND_KEY).set_value("complete")
    app = pages.run(app)
    declared = replace(source, judgements="complete")
    assert app.session_state["source"] == declared and "judgements declared complete" in pages.texts(app)
    job = corpora.find_loading_job(source)
    loaded = [corpora.get_loaded(job, each) for each in (declared, declared, source)]
    assert [each.dataset.qrels["test"].is_pooled for each in loaded] == [False, False, True] and loaded[0] is loaded[1]
    assert parse_source(format_source(declared)) == declared and declared.reading["judgements"] == "complete"
    assert parse_source(format_source(source) | {"judgements": "no kind"}) == source
    app = pages.open_by_link(format_state(State(source=declared, way=LABELLED, split="test", question="q")))
    assert app.session_state["source"] == declared


def choose(app, label, value):
    """Choose an entry of a list, and draw the page."""
    next(box for box in app.selectbox if box.label == label).set_value(value)
    return pages.run(app)


@pytest.mark.deep
def test_a_column_of_vectors_and_the_first_line_are_chosen(tmp_path):
    pages.load()
    rows = np.eye(3, 20, dtype=np.float32) * 2
    path = tmp_path / "own.parquet"
    pd.DataFrame({"id": list("abc"), "text": ["x", "y", "z"], "emb": list(rows)}).to_parquet(path)
    app, _ = given(page("data"), "Path", path)
    assert "use column 'emb' as vectors, 20 dimensions" in pages.texts(app) and "vectors=" not in pages.texts(app)
    choose(app, "Vectors column", "emb")
    assert "3 vectors are not of unit length" in pages.texts(app) and "normalize" not in pages.texts(app)
    pages.pick(app, "Similarity of its own vectors", "cosine")
    assert "3 vectors were scaled to length 1" in pages.texts(app)
    pages.press(app, "data.load")
    source = Source(str(path), columns=("id", "text", None), vectors_column="emb", similarity="cosine")
    loaded = pages.load(source)
    assert loaded.space.encoder is None and torch.allclose(loaded.space.vectors, torch.eye(3, 20))
    path = tmp_path / "collection.tsv"
    path.write_text("0\tzero\n1\tone\n")
    app, _ = given(page("data"), "Path", path)
    assert "2 documents" in pages.texts(app) and "first line looks like data" in pages.texts(app)
    choose(app, "First line", "first")
    assert "1 document" in pages.texts(app)


def test_vectors_of_queries_that_lie_elsewhere_are_read_where_the_server_may(tmp_path, monkeypatch):
    folder = Path(pages.beir_with_vectors(tmp_path / "own", dimension=8).path)
    elsewhere = tmp_path / "mine.npy"
    (folder / "query_vectors.npy").rename(elsewhere)
    app, _ = given(page("data"), "Path", folder)
    field = f"data.query_vectors.{folder}"
    app.text_input(key=field).set_value(str(tmp_path / "absent.npy")).run()
    assert "absent.npy" in pages.texts(app) and "data.load" not in pages.keys(app)
    app.text_input(key=field).set_value(str(elsewhere)).run()
    pages.press(app, "data.load")
    loaded = pages.load(Source(str(folder), query_vectors=str(elsewhere)))
    assert torch.equal(loaded.queries, torch.from_numpy(np.load(elsewhere)))
    # The file is looked at anew once it has changed.
    np.save(elsewhere, np.load(elsewhere)[:, :5])
    assert "must have the documents' dimension, 8; got 5" in pages.texts(app.run())
    monkeypatch.setattr(roots, "_SERVER_RULES", [roots.Rules(shared=True, roots=(folder,))])
    assert "lies outside the folders that this server reads" in pages.texts(app.run())
    with pytest.raises(DataError, match="lies outside"):
        corpora.read_dataset(Source(str(folder), query_vectors=str(elsewhere)))
