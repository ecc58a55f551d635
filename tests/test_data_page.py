"""The Data page: encoders of one corpus beside each other, and what is kept on disk."""

import json
import os
import time

import pytest
from encoder_kit import copy
from test_pages import screen, texts

import engine
from dashboard import jobs, state
from dashboard.data import encoders, uploads
from dashboard.state import Source
from engine.data import cache, inventory

ANIMALS, VERBS = ("cat", "dog", "horse", "heron", "whale"), ("runs", "sleeps", "eats", "sings", "hides", "jumps")
HOSTILE = '<img src=x onerror="alert(1)"> $\\href{javascript:alert(1)}{x}$ ![x](http://192.0.2.1/x.png)'


@pytest.fixture(autouse=True)
def apart(tmp_path, monkeypatch):
    """A cache and a memory of this test's own."""
    monkeypatch.setenv("FRONTIER_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(state, "_JOBS", type(state._JOBS)())


@pytest.fixture
def judged(tmp_path):
    """A folder with six judged queries; the queries' texts try to be markup."""
    folder = tmp_path / "animals"
    (folder / "qrels").mkdir(parents=True)
    documents = [(f"{a}-{v}", f"a {a} that {v}") for a in ANIMALS for v in VERBS]
    (folder / "corpus.jsonl").write_text("".join(json.dumps({"_id": i, "text": t}) + "\n" for i, t in documents))
    asked = [(v, f"who {v}? {HOSTILE}") for v in VERBS]
    (folder / "queries.jsonl").write_text("".join(json.dumps({"_id": i, "text": t}) + "\n" for i, t in asked))
    (folder / "qrels" / "test.tsv").write_text("".join(f"{v}\t{a}-{v}\t1\n" for v in VERBS for a in ANIMALS))
    return folder


def loaded(source):
    job = state.loading(source)
    job.join(120)
    assert job.error is None and job.result is not None, job.error
    return job.result


def view(name, source, **session):
    return screen("data", source, **{"data.view": name, **session})


def waited(app):
    for job in [*app.session_state["jobs"].values()] if "jobs" in app.session_state else []:
        job.join(120)
    return app.run()


def test_another_encoder_is_loaded_beside_and_one_click_switches(judged, copy):
    first = Source(str(judged), dtype="float32")
    small = copy("other", config_sentence_transformers__json={"prompts": {"query": "find: "}})
    app = view("Encoders", first)
    assert not [b for b in app.button if b.key == "data.encoders.start"] and "another encoder" in texts(app)
    app.text_input(key="data.again.encoder").set_value(str(small))
    app.selectbox(key="data.again.dtype").set_value("float32")
    next(b for b in app.button if b.label == "Embed beside").click().run()
    second = Source(str(judged), encoder=str(small), dtype="float32")
    other = loaded(second)
    app.run()
    assert app.session_state["source"] == first, "the one in use stays in use"
    said = texts(app)
    assert "Loaded with 2 encoders" in said and "other, float32" in said and "bundled, float32" in said
    app.button(key=f"data.use.{state.seen_by(other)}").click().run()
    assert not app.exception and app.session_state["source"] == second
    assert app.query_params["encoder"] == str(small)
    assert other.dataset.corpus is loaded(first).dataset.corpus, "the texts are in memory once"


def test_an_address_opens_the_encoder_it_names(judged):
    one, two = (Source(str(judged), dtype=dtype) for dtype in ("float32", "bfloat16"))
    for source in (one, two):
        loaded(source)
    app = view("Corpus", one)
    assert app.query_params["dtype"] == "float32"
    again = screen_without_source("data", corpus=str(judged), dtype="float32")
    assert again.session_state["source"] == one
    elsewhere = screen_without_source("data", corpus=str(judged), encoder="/etc").session_state["source"]
    assert elsewhere in (one, two), "an address opens no encoder that nobody loaded"


def screen_without_source(name, **address):
    from streamlit.testing.v1 import AppTest
    from test_pages import SCREENS

    loaded(Source("numpy-api"))
    app = AppTest.from_file(str(SCREENS / f"{name}.py"), default_timeout=60)
    for key, value in address.items():
        app.query_params[key] = value
    app.run()
    assert not app.exception
    return app


@pytest.mark.parametrize("name", ["/no/such/folder", "nobody/no-such-model"])
def test_a_wrong_encoder_says_why_and_what_is_possible(judged, monkeypatch, name):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    first = Source(str(judged), dtype="float32")
    app = view("Encoders", first)
    app.text_input(key="data.again.encoder").set_value(name)
    next(b for b in app.button if b.label == "Embed beside").click().run()
    state.loading(Source(str(judged), encoder=name)).join(60)
    app.run()
    said = texts(app)
    assert "This encoder cannot be loaded" in said and name in said and "path" in said
    assert "On this machine: bundled" in said
    app.button(key="data.close").click().run()
    assert "cannot be loaded" not in texts(app) and app.session_state["source"] == first
    assert not state.known(Source(str(judged), encoder=name))


def test_the_encoder_in_use_again_is_no_second_one(judged):
    first = loaded(Source(str(judged), dtype="float32"))
    loaded(Source(str(judged), encoder="bundled", dtype="float32", own=False))
    assert len(state.variants(first)) == 1


def compared(source, **session):
    app = view("Encoders", source, **session)
    app.button(key="data.encoders.start").click().run()
    return waited(app)


def test_encoders_are_compared_on_judged_queries(judged, copy):
    first = Source(str(judged), dtype="float32")
    small = copy("other", config_sentence_transformers__json={"prompts": {"query": "zebra crossing: "}})
    ours, other = loaded(first), loaded(Source(str(judged), encoder=str(small), dtype="float32"))
    app = compared(first, decoders=["top_k", "mmr"])
    assert not app.exception
    both = app.session_state[encoders.FOUND].comparison
    assert both.encoders == ("bundled, float32", "other, float32") and len(both.decoders) == 2
    table = next(t.value for t in app.dataframe if "p (Holm)" in t.value.columns)
    assert len(table) == 4 and table["Mean"].notna().all()
    queries = ours.dataset.judged("test")
    qrels = ours.dataset.qrels["test"]
    decoder = engine.Decoder(select=engine.make("top_k"))
    for at, one in enumerate((ours, other)):
        vectors = encoders._vectors(None, one, queries)
        ranking = engine.decode(decoder, one.space, vectors)
        recall = engine.measure(ranking, one.space, queries, qrels, metrics=("recall",)).mean["recall"]
        assert table["Mean"][at] == pytest.approx(recall)
    assert "Recall@10" in texts(app) and "6 queries" in texts(app)
    app.selectbox(key="data.encoders.metric").set_value("ilad").run()
    assert not app.exception and "measured in the space of the encoder in use" in texts(app)


def test_hostile_queries_are_shown_in_tables_only(judged, copy):
    first = Source(str(judged), dtype="float32")
    small = copy("other", config_sentence_transformers__json={"prompts": {"query": "zebra crossing: "}})
    loaded(first), loaded(Source(str(judged), encoder=str(small), dtype="float32"))
    app = compared(first)
    shown = [t.value for t in app.dataframe if "Query" in t.value.columns]
    assert shown and all("<img" in text for text in shown[0]["Query"])
    for kind in (app.markdown, app.caption, app.info, app.warning, app.error):
        assert all("192.0.2.1" not in str(element.value) for element in kind)
    assert all("192.0.2.1" not in button.label for button in app.button)


def test_without_queries_documents_ask(tmp_path):
    file = tmp_path / "plain.csv"
    file.write_text("id,text\n" + "".join(f"{a}-{v},a {a} that {v}\n" for a in ANIMALS for v in VERBS))
    first = Source(str(file), dtype="float32")
    loaded(first), loaded(Source(str(file), dtype="bfloat16"))
    app = compared(first)
    found = app.session_state[encoders.FOUND]
    assert not app.exception and found.comparison.metrics == ("ilad", "redundancy")
    assert found.on == encoders.DOCUMENTS and len(found.texts) == 30
    assert found.comparison.agreement(found.comparison.decoders[0], "bundled, bfloat16") > 0.8


def test_what_was_measured_with_other_settings_is_marked(judged):
    first = Source(str(judged), dtype="float32")
    loaded(first), loaded(Source(str(judged), dtype="bfloat16"))
    app = compared(first)
    assert "other settings" not in badges(app)
    app.slider(key="data.encoders.k").set_value(3).run()
    assert not app.exception and "other settings" in badges(app) and len(app.dataframe) >= 1


def badges(app):
    return " ".join(m.value for m in app.markdown)


def test_another_job_of_the_session_is_said(judged, monkeypatch):
    first = Source(str(judged), dtype="float32")
    loaded(first), loaded(Source(str(judged), dtype="bfloat16"))
    other = jobs.Job("Tuning", lambda job: job.stop.wait(60))
    monkeypatch.setattr(jobs, "busy", lambda purpose=None: other)
    app = view("Encoders", first)
    other.cancel()
    assert app.button(key="data.encoders.start").disabled and "Tuning is still running" in texts(app)


def test_vectors_without_texts_cannot_be_embedded(tmp_path):
    import numpy as np

    np.save(tmp_path / "v.npy", np.eye(4, dtype=np.float32))
    app = view("Encoders", Source(str(tmp_path / "v.npy")))
    assert "there is nothing to embed" in texts(app)


def table_of(app):
    return next(t.value for t in app.dataframe if "Last used" in t.value.columns)


def test_the_cache_says_what_it_holds_and_what_is_in_use(judged, tmp_path):
    used, unused = Source(str(judged), dtype="float32"), Source(str(judged), dtype="bfloat16")
    loaded(unused)
    state._JOBS.clear()
    app = view("Cache", used)
    table = table_of(app)
    rows = {(row["What"], row["Encoder"]): row["State"] for _, row in table.iterrows()}
    assert rows["animals, 30 documents", "bundled, float32"] == "in use"
    assert rows["animals, 6 queries", "bundled, float32"] == "in use"
    assert rows["animals, 30 documents", "bundled, bfloat16"] == ""
    assert "free on this disk" in texts(app) and str(tmp_path / "home") in [c.value for c in app.code]
    sections = next(t.value for t in app.dataframe if "Files" in t.value.columns)
    assert dict(zip(sections["Section"], sections["Files"], strict=True))["Embeddings"] == len(
        list(cache.files_of(cache.section("embeddings")))
    )


def test_a_section_is_cleared_after_a_question(judged):
    app = view("Cache", Source(str(judged), dtype="float32"), **{"data.cache.section": "embeddings"})
    assert "it goes on working" in texts(app)
    held = cache.usage().sections["embeddings"].bytes
    app.button(key="data.cache.delete.all").click().run()
    assert (not app.exception and "embeddings" not in cache.usage().sections) or not cache.usage().sections[
        "embeddings"
    ].files
    assert held and "freed" in texts(app) and cache.usage().sections["fingerprints"].files
    state._JOBS.clear()
    loaded(Source(str(judged), dtype="float32"))
    assert cache.usage().sections["embeddings"].bytes == held


def test_an_upload_in_use_and_a_store_at_work_are_kept(judged):
    folder = cache.section(uploads.SECTION) / "0123456789abcdef"
    for file in judged.rglob("*"):
        if file.is_file():
            cache.write(folder / file.relative_to(judged), file.read_bytes())
    cache.write(cache.section(uploads.SECTION) / "fedcba9876543210" / "old.csv", b"id,text\n1,a\n")
    cache.write(cache.home() / "sweeps.db", b"SQLite format 3\0" + b"\0" * 84)
    app = view("Cache", Source(str(folder), dtype="float32"))
    said = texts(app)
    assert "Kept, because in use: " in said and "corpus.jsonl" in said and "sweeps.db" in said
    app.button(key="data.cache.delete.all").click().run()
    assert (folder / "corpus.jsonl").exists() and (cache.home() / "sweeps.db").exists()
    assert not (cache.section(uploads.SECTION) / "fedcba9876543210").exists()
    state._JOBS.clear()
    os.utime(cache.home() / "sweeps.db", (time.time() - 3600,) * 2)
    app = screen("data", Source("numpy-api"), **{"data.view": "Cache"})
    assert "Kept, because in use" not in texts(app)
    app.button(key="data.cache.delete.all").click().run()
    assert not folder.exists() and not (cache.home() / "sweeps.db").exists()


def test_what_cannot_be_deleted_is_said(judged, monkeypatch):
    app = view("Cache", Source(str(judged), dtype="float32"))

    def refuse(items):
        raise engine.FrontierError("cannot write there")

    monkeypatch.setattr(inventory, "remove", refuse)
    app.button(key="data.cache.delete.all").click().run()
    assert not app.exception and "Not everything was deleted: cannot write there" in texts(app)


def test_an_empty_cache_teaches(judged, monkeypatch, tmp_path):
    app = view("Corpus", Source(str(judged), dtype="float32"))
    monkeypatch.setenv("FRONTIER_HOME", str(tmp_path / "empty"))
    app.session_state["data.view"] = "Cache"
    app.run()
    assert not app.exception and "Nothing is kept yet" in texts(app)
