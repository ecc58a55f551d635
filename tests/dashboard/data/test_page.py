"""The Data page: encoders of one corpus beside each other, and what is kept on disk."""

import os
import time
from dataclasses import replace

import numpy as np
import pytest

import engine
from dashboard.data import encoders
from dashboard.services import corpora, jobs, trained, uploads
from dashboard.services.source import Source
from dashboard.widgets import next_steps
from engine.data import cache, inventory
from support import pages
from support.encoders import cached_bytes, copy_model
from support.patience import patient

ANIMALS, VERBS = ("cat", "dog", "horse", "heron", "whale"), ("runs", "sleeps", "eats", "sings", "hides", "jumps")
HOSTILE = '<img src=x onerror="alert(1)"> $\\href{javascript:alert(1)}{x}$ ![x](http://192.0.2.1/x.png)'


@pytest.fixture(autouse=True)
def apart(tmp_path, monkeypatch):
    """A cache and a memory of this test's own, and no job that would write into those of the next."""
    monkeypatch.setenv("FRONTIER_HOME", str(tmp_path / "home"))
    pages.fresh_corpora(monkeypatch)
    yield
    for job in jobs.list_running_jobs():
        job.cancel()
        job.join(pages.PATIENCE)
        assert not job.running


@pytest.fixture
def judged(tmp_path):
    """A folder with six judged queries; the queries' texts try to be markup."""
    documents = [(f"{a}-{v}", f"a {a} that {v}") for a in ANIMALS for v in VERBS]
    queries = [(v, f"who {v}? {HOSTILE}") for v in VERBS]
    return pages.beir(tmp_path / "animals", documents, queries, test=[(v, f"{a}-{v}") for v in VERBS for a in ANIMALS])


def other_encoder(folder):
    """The bundled encoder, but for the words that it puts before queries."""
    return copy_model(folder / "other", config_sentence_transformers__json={"prompts": {"query": "zebra crossing: "}})


ZERO_WIDTH_SPACE = "\u200b"
"""Labels have it behind colons, which would begin the name of an icon else."""


def view(name, source, **session):
    return pages.screen("data", source, **{"data.view": name, **session})


def test_the_time_to_embed_is_told_before_a_load_and_not_after(tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(
        "engine.data.encoders.estimate_seconds", lambda corpus, *_, **__: asked.append(len(corpus)) or 130
    )
    mine = pages.csv_source(tmp_path / "mine.csv", pages.PETS)
    app = pages.screen("data", **{"data.way": "Path", "data.path": mine.path})
    assert "Embedding takes about 2 min on this machine." in pages.texts(app) and asked == [len(pages.PETS)]
    pages.run(app)
    assert len(asked) == 1
    pages.press(app, "data.load")
    assert "Embedding takes" not in pages.texts(pages.run(app))


def test_another_encoder_is_loaded_beside_and_one_click_switches(judged, tmp_path):
    first = Source(str(judged), dtype="float32")
    small = other_encoder(tmp_path)
    app = view("Encoders", first)
    assert not [b for b in app.button if b.key == "data.encoders.start"] and "Add a second encoder" in pages.texts(app)
    app.text_input(key="data.again.encoder").set_value(str(small))
    app.selectbox(key="data.again.dtype").set_value("float32")
    next(b for b in app.button if b.label == "Add encoder").click().run()
    second = Source(str(judged), encoder=str(small), dtype="float32")
    other = pages.load(second)
    app.run()
    assert app.session_state["source"] == first, "the one in use stays in use"
    page_text = pages.texts(app)
    assert "Loaded with 2 encoders" in page_text and "other, float32" in page_text and "bundled, float32" in page_text
    app.button(key=f"data.use.{corpora.compute_encoder_key(other)}").click().run()
    assert not app.exception and app.session_state["source"] == second
    assert app.query_params["encoder"] == str(small)
    assert other.dataset.corpus is pages.load(first).dataset.corpus, "the texts are in memory once"


def test_an_address_opens_the_encoder_it_names(judged, tmp_path):
    other = str(other_encoder(tmp_path))
    one, two = Source(str(judged), dtype="float32"), Source(str(judged), encoder=other, dtype="float32")
    for source in (one, two):
        pages.load(source)
    app = view("Corpus", one)
    assert app.query_params["dtype"] == "float32"
    for source, named in ((one, {}), (two, {"encoder": other})):
        again = pages.open_by_link({"corpus": str(judged), "dtype": "float32", **named}, "data")
        assert again.session_state["source"] == source
    elsewhere = pages.open_by_link({"corpus": str(judged), "encoder": "/etc"}, "data").session_state["source"]
    assert elsewhere in (one, two), "an address opens no encoder that nobody loaded"


@pytest.mark.parametrize("name", ["/no/such/folder", "nobody/no-such-model"])
def test_a_wrong_encoder_says_why_and_what_is_possible(judged, monkeypatch, name):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    first = Source(str(judged), dtype="float32")
    app = view("Encoders", first)
    app.text_input(key="data.again.encoder").set_value(name)
    next(b for b in app.button if b.label == "Add encoder").click().run()
    corpora.get_loading_job(Source(str(judged), encoder=name)).join(patient(60))
    app.run()
    page_text = pages.texts(app)
    assert "This encoder cannot be loaded" in page_text and name in page_text
    assert ("--root FOLDER" if name.startswith("/") else "give the path of a model folder") in page_text
    assert "On this machine: bundled" in page_text
    pages.press(app, "data.close")
    assert "cannot be loaded" not in pages.texts(app) and app.session_state["source"] == first
    assert not corpora.find_loading_job(Source(str(judged), encoder=name))


def test_the_encoder_in_use_again_is_no_second_one(judged):
    first = pages.load(Source(str(judged), dtype="float32"))
    pages.load(Source(str(judged), encoder="bundled", dtype="float32", own=False))
    assert len(corpora.list_variants(first)) == 1


def compared(source, **session):
    return pages.press_and_finish(view("Encoders", source, **session), "data.encoders.start")


def test_encoders_are_compared_on_judged_queries_whose_texts_stand_in_tables_only(judged, tmp_path):
    first = Source(str(judged), dtype="float32")
    ours, other = (
        pages.load(first),
        pages.load(Source(str(judged), encoder=str(other_encoder(tmp_path)), dtype="float32")),
    )
    app = compared(first, decoders=["top_k", "mmr"])
    both = app.session_state[encoders.RESULT_KEY].comparison
    assert both.encoders == ("bundled, float32", "other, float32") and len(both.decoders) == 2
    means = pages.first_table(app, "p (Holm)")["Mean"]
    assert len(means) == 4 and means.notna().all()
    queries = ours.dataset.judged("test")
    qrels = ours.dataset.qrels["test"]
    decoder = engine.Decoder(select=engine.make("top_k"))
    for index, one in enumerate((ours, other)):
        vectors = one.vectors_of(queries)
        ranking = engine.decode(decoder, one.space, vectors)
        recall = engine.measure(ranking, one.space, queries, qrels, metrics=("recall",)).mean["recall"]
        assert means[index] == pytest.approx(recall)
    assert "Recall@10" in pages.texts(app) and "6 queries" in pages.texts(app)
    assert all("<img" in text for text in pages.first_table(app, "Query")["Query"])
    pages.assert_plain(app, "192.0.2.1")
    assert all("192.0.2.1" not in button.label for button in app.button)
    app.selectbox(key="data.encoders.metric").set_value("ilad").run()
    assert not app.exception and "are measured with the current encoder" in pages.texts(app)


def test_without_queries_documents_ask(tmp_path):
    source = pages.csv_source(tmp_path / "plain.csv", [(f"{a}-{v}", f"a {a} that {v}") for a in ANIMALS for v in VERBS])
    first, other = (replace(source, dtype=dtype) for dtype in ("float32", "bfloat16"))
    pages.load(first), pages.load(other)
    app = compared(first)
    result = app.session_state[encoders.RESULT_KEY]
    assert not app.exception and result.comparison.metrics == ("ilad", "redundancy")
    assert result.query_set == encoders.DOCUMENT_QUERIES and len(result.query_texts) == 30
    assert result.comparison.agreement(result.comparison.decoders[0], "bundled, bfloat16") > 0.8


def test_what_was_measured_with_other_settings_is_marked_and_another_job_said(judged, monkeypatch):
    first = Source(str(judged), dtype="float32")
    pages.load(first), pages.load(Source(str(judged), dtype="bfloat16"))
    app = compared(first)

    def badges():
        return " ".join(m.value for m in app.markdown)

    assert "other settings" not in badges()
    app.slider(key="data.encoders.k").set_value(3).run()
    assert not app.exception and "other settings" in badges() and len(app.dataframe) >= 1
    other = jobs.Job("Tuning", lambda job: job.stop.wait(patient(60)))
    monkeypatch.setattr(jobs, "find_blocker", lambda purpose=None: other)
    pages.run(app)
    other.cancel()
    assert app.button(key="data.encoders.start").label == "Queue" and "Tuning is running" in pages.texts(app)


def test_vectors_without_texts_cannot_be_embedded(tmp_path):
    np.save(tmp_path / "v.npy", np.eye(4, dtype=np.float32))
    app = view("Encoders", Source(str(tmp_path / "v.npy")))
    assert "no texts to embed" in pages.texts(app)


def test_an_upload_is_still_there_after_a_look_elsewhere(judged, tmp_path):
    file = tmp_path / "again.csv"
    file.write_text("id,body,other\n1,a cat,x\n2,a dog,y\n")
    app = view("Corpus", Source(str(judged), dtype="float32"), **{"data.way": "Upload", "data.uploaded": file})
    assert "Uploaded before: again.csv" in pages.texts(app)
    app.selectbox(key=f"data.columns.{file}.text").set_value("other").run()
    for name in ("Cache", "Corpus"):
        pages.pick(app, "View", name)
    assert app.selectbox(key=f"data.columns.{file}.text").value == "other"
    file.unlink()
    assert "A table with a text column is enough" in pages.texts(app.run())


def test_the_cache_says_what_it_holds_and_what_is_in_use(judged, tmp_path):
    used, unused = Source(str(judged), dtype="float32"), Source(str(judged), dtype="bfloat16")
    pages.load(unused)
    pages.forget_corpora()
    app = view("Cache", used)
    rows = {(row["What"], row["Encoder"]): row["State"] for _, row in pages.first_table(app, "Last used").iterrows()}
    assert rows["animals, 30 documents", "bundled, float32"] == "in use"
    assert rows["animals, 6 queries", "bundled, float32"] == "in use"
    assert rows["animals, 30 documents", "bundled, bfloat16"] == ""
    assert "free on this disk" in pages.texts(app) and str(tmp_path / "home") in [c.value for c in app.code]
    sections = pages.first_table(app, "Files")
    assert dict(zip(sections["Section"], sections["Files"], strict=True))["Embeddings"] == len(
        list(cache.list_files(cache.open_section("embeddings")))
    )


def test_a_section_is_cleared_after_a_question(judged):
    app = view("Cache", Source(str(judged), dtype="float32"), **{"data.cache.section": "embeddings"})
    assert "it keeps working" in pages.texts(app)
    held = cached_bytes("embeddings")
    pages.press(app, "data.cache.delete.all")
    assert not cached_bytes("embeddings")
    assert held and "freed" in pages.texts(app) and cached_bytes("fingerprints")
    pages.forget_corpora()
    pages.load(Source(str(judged), dtype="float32"))
    assert cached_bytes("embeddings") == held


def test_an_upload_in_use_and_a_store_at_work_are_kept(judged):
    folder = cache.open_section(uploads.UPLOADS_SECTION) / "0123456789abcdef"
    for file in judged.rglob("*"):
        if file.is_file():
            cache.write(folder / file.relative_to(judged), file.read_bytes())
    cache.write(cache.open_section(uploads.UPLOADS_SECTION) / "fedcba9876543210" / "old.csv", b"id,text\n1,a\n")
    cache.write(cache.home() / "sweeps.db", b"SQLite format 3\0" + b"\0" * 84)
    app = view("Cache", Source(str(folder), dtype="float32"))
    page_text = pages.texts(app)
    assert "Not deleted, in use: " in page_text and "corpus.jsonl" in page_text and "sweeps.db" in page_text
    app.button(key="data.cache.delete.all").click().run()
    assert (folder / "corpus.jsonl").exists() and (cache.home() / "sweeps.db").exists()
    assert not (cache.open_section(uploads.UPLOADS_SECTION) / "fedcba9876543210").exists()
    pages.forget_corpora()
    os.utime(cache.home() / "sweeps.db", (time.time() - 3600,) * 2)
    app = view("Cache", replace(pages.csv_source(judged.parent / "pets.csv", pages.PETS), dtype="float32"))
    assert "Not deleted, in use" not in pages.texts(app)
    app.button(key="data.cache.delete.all").click().run()
    assert not folder.exists() and not (cache.home() / "sweeps.db").exists()


def test_what_cannot_be_deleted_is_said(judged, monkeypatch):
    app = view("Cache", Source(str(judged), dtype="float32"))

    def refuse(items):
        raise engine.FrontierError("cannot write there")

    monkeypatch.setattr(inventory, "remove_items", refuse)
    assert "Some entries were not deleted: cannot write there" in pages.texts(pages.press(app, "data.cache.delete.all"))


def test_an_empty_cache_teaches(judged, monkeypatch, tmp_path):
    app = view("Corpus", Source(str(judged), dtype="float32"))
    monkeypatch.setenv("FRONTIER_HOME", str(tmp_path / "empty"))
    app.session_state["data.view"] = "Cache"
    app.run()
    assert not app.exception and "The cache is empty" in pages.texts(app)


def test_three_tables_are_counted_before_they_are_loaded_and_named_by_the_documents(judged):
    app = view("Corpus", Source(str(judged), dtype="float32"), **{"data.way": "Upload"})
    papers = b"id,title,text\n1,Graphs,how graphs are searched\n2,Trees,how trees are grown\n"
    files = [
        ("papers.csv", papers, "text/csv"),
        ("queries.csv", b"id,query\nq1,growing trees\n", "text/csv"),
        ("qrels.tsv", b"query-id\tcorpus-id\tscore\nq1\t2\t1\nq1\t1\t0\n", "text/plain"),
    ]
    app.file_uploader[0].set_value(files)
    pages.run(app)
    assert "2 documents · 1 query · 2 judgements" in pages.texts(app)
    source = Source(str(app.session_state["data.uploaded"]), dtype="float32")
    context = trained.export_context(pages.load(source), 1)
    assert source.name == "papers" and context.corpus == "papers.csv" and context.reading == {"qrels": "qrels.tsv"}


def test_the_columns_of_a_table_are_named_and_notices_stand_once(tmp_path):
    (tmp_path / "kb.csv").write_text(
        "Doc Ref,Headline ,Body Text\nA1,Graphs,graphs are searched\nA2,Trees,trees grow\n"
    )
    (tmp_path / "queries.csv").write_text("id,query\nq1,growing trees\n")
    app = pages.screen("data", **{"data.way": "Path", "data.path": str(tmp_path)})
    notice = "texts taken from column 'Body Text'"
    assert "id: Doc Ref · title: Headline · text: Body Text" in pages.texts(app).replace(ZERO_WIDTH_SPACE, "")
    assert pages.texts(app).count(notice) == 1
    pages.press(app, "data.load")
    # Whatever the load has come to by now, the files' notices are in its report alone.
    assert pages.texts(app).count(notice) <= 1
    pages.load(Source(str(tmp_path)))
    pages.run(app)
    assert pages.run(app).button(key="data.load").label == "Loaded" and pages.texts(app).count(notice) == 1


def test_adding_queries_leads_to_the_upload_and_says_which_files(tmp_path, monkeypatch):
    monkeypatch.setattr(next_steps.st, "switch_page", lambda screen: None)
    source = pages.csv_source(tmp_path / "pets.csv", pages.PETS)
    app = pages.press(view("Corpus", source), "next.data.Add queries and judgements")
    assert app.session_state["data.way"] == "Upload"
    assert "Give pets.csv together with queries.csv (columns id, query) and qrels.tsv" in pages.texts(app)


def test_the_open_corpus_is_not_offered_again_and_its_first_documents_are_listed(tmp_path):
    app = pages.screen("data")
    button = app.button(key="data.load")
    assert (button.label, button.disabled) == ("Loaded", True) and "data.reload" not in pages.keys(app)
    listed = pages.first_table(app, "Text")
    corpus = pages.load().dataset.corpus
    assert list(listed["Id"]) == list(corpus.ids[: len(listed)]) and "numpy-api: the first 8 of 819" in pages.texts(app)
    # Another demo can be loaded, while what is listed stays that of the open corpus.
    app.radio(key="data.demo").set_value("python-api")
    button = pages.run(app).button(key="data.load")
    assert (button.label, button.disabled) == ("Load and embed", False) and "numpy-api: the first" in pages.texts(app)


def test_one_button_at_a_time_says_whether_the_corpus_is_loaded(tmp_path, monkeypatch, go):
    mine = pages.csv_source(tmp_path / "mine.csv", pages.PETS)
    app, load = pages.screen("data", **{"data.way": "Path", "data.path": mine.path}), corpora._load_corpus
    monkeypatch.setattr(corpora, "_load_corpus", lambda *arguments: go.wait(patient(60)) and load(*arguments))

    def read_button():
        button = app.button(key="data.load")
        return button.label, button.disabled

    def list_primary():
        return [button.key for button in app.button if button.proto.type == "primary"]

    assert read_button() == ("Load and embed", False) and list_primary() == ["data.load"], "one step stands out"
    pages.press(app, "data.load")
    assert read_button() == ("Loading", True) and not list_primary()
    go.set()
    (job,) = (job for source, job in corpora.list_loads() if source.path == mine.path)
    job.join(pages.PATIENCE)
    pages.run(pages.run(app))
    assert read_button() == ("Loaded", True) and list_primary() == ["next.data.Explore"]


def test_hostile_first_documents_are_texts_and_say_which_columns_they_were_read_from(tmp_path):
    file = tmp_path / "mine.csv"
    file.write_text("Doc *id*,body\n1,<b>cat</b> $x$\n2," + "long " * 99 + "\n")
    app = pages.screen("data", Source(str(file), columns=("Doc *id*", "body", None)))
    first, second = pages.first_table(app, "Text")["Text"]
    assert first == "<b>cat</b> $x$" and len(second) <= 200
    assert "id: Doc \\*id\\* · title: none · text: body" in pages.texts(app).replace(ZERO_WIDTH_SPACE, "")
