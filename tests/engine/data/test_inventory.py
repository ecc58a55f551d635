"""What the cache holds, item by item: labels, what is shared, and that nothing else is ever deleted."""

import os
import shutil
import sqlite3
import time
from types import SimpleNamespace

import numpy as np
import pytest

import engine
from engine.data import cache, encoders, inventory
from support.datafiles import write_file
from support.encoders import TEXTS, cached_bytes, entries
from support.random_texts import corpus_of as corpus

pytestmark = pytest.mark.usefixtures("home")


def items_of(section):
    return [item for item in inventory.list_items() if item.section == section]


def item_named(section, name):
    return next(item for item in items_of(section) if item.facts.get("name") == name)


def age(path, seconds=3600):
    os.utime(path, (time.time() - seconds,) * 2)


def test_embeddings_are_known_by_corpus_and_encoder():
    texts = corpus(TEXTS)
    engine.embed(texts, dtype="float32")
    engine.embed(engine.Queries.of(TEXTS[:5]), dtype="float32", label="animals")
    engine.embed(engine.Queries.of("asked alone"), dtype="float32")
    facts = [item.facts for item in items_of(encoders.EMBEDDING_SECTION)]
    assert [f.get("name") for f in facts] == ["animals", "corpus", None], "the last used first, the unlabelled last"
    assert (facts[1]["texts"], facts[1]["encoder"], facts[1]["arithmetic"]) == (60, "bundled", "float32")
    assert facts[1]["content"] == texts.digest and (facts[0]["role"], facts[1]["role"]) == ("query", "document")
    assert inventory.count_bytes(items_of(encoders.EMBEDDING_SECTION)) == cached_bytes(encoders.EMBEDDING_SECTION)


def test_reuse_updates_last_use_and_embeds_nothing(batches):
    engine.embed(corpus(TEXTS), dtype="float32")
    label = next(p for p in cache.list_files(cache.open_section(inventory.LABEL_SECTION)))
    age(label)
    used_before = item_named(encoders.EMBEDDING_SECTION, "corpus").used
    batches.clear()
    engine.embed(corpus(TEXTS), dtype="float32")
    assert item_named(encoders.EMBEDDING_SECTION, "corpus").used - used_before > 3000 and not batches


def test_entries_without_a_label_stay_valid(batches):
    engine.embed(corpus(TEXTS), dtype="float32")
    cache.clear(inventory.LABEL_SECTION)
    assert [item.name for item in items_of(encoders.EMBEDDING_SECTION)] == [""]
    batches.clear()
    engine.embed(corpus(TEXTS), dtype="float32")
    assert not batches and item_named(encoders.EMBEDDING_SECTION, "corpus").missing == 0


@pytest.mark.deep
def test_shared_entries_stay_until_both_corpora_are_deleted(batches):
    texts = [f"{i} {text}" for i, text in enumerate(TEXTS * 8)]
    first, second = corpus(texts), corpus(["something new", *texts])
    object.__setattr__(first, "name", "first")
    object.__setattr__(second, "name", "second")
    for corpus_of in (first, second):
        engine.embed(corpus_of, dtype="float32")
    items = inventory.list_items()
    a, b = item_named(encoders.EMBEDDING_SECTION, "first"), item_named(encoders.EMBEDDING_SECTION, "second")
    assert a.files.keys() & b.files.keys() and a.files.keys() - b.files.keys()
    promised = inventory.count_freed_bytes([a], items)
    assert 0 < promised < a.bytes
    assert inventory.remove_items([a]) == promised
    batches.clear()
    engine.embed(second, dtype="float32")
    assert not batches, "the other corpus lost nothing"
    b = item_named(encoders.EMBEDDING_SECTION, "second")
    assert inventory.remove_items([b]) == b.bytes and entries() == []
    assert list(cache.list_files(cache.open_section(inventory.LABEL_SECTION))) == []


def test_an_interrupted_run_is_incomplete():
    stop = SimpleNamespace(is_set=lambda: bool(entries()))
    with pytest.raises(engine.Cancelled):
        engine.embed(corpus([f"{i} {t}" for i, t in enumerate(TEXTS * 8)]), dtype="float32", stop=stop)
    item = item_named(encoders.EMBEDDING_SECTION, "corpus")
    assert item.missing > 0 and len(item.files) == len(entries())


def test_a_damaged_label_and_one_that_leads_elsewhere_are_passed_over(home):
    engine.embed(corpus(TEXTS), dtype="float32")
    victim = home / "victim"
    victim.write_text("years of work")
    inventory.label_entries(encoders.EMBEDDING_SECTION, "evil", ["../victim"], {"name": "evil"})
    cache.open_section(inventory.LABEL_SECTION).joinpath("embeddings.torn").write_bytes(b"{")
    assert [item.facts.get("name") for item in items_of(encoders.EMBEDDING_SECTION)] == ["corpus"]
    inventory.remove_items(inventory.list_items())
    assert victim.exists() and entries() == []


def test_a_label_whose_entries_are_gone_goes_too():
    engine.embed(corpus(TEXTS), dtype="float32")
    cache.clear(encoders.EMBEDDING_SECTION)
    assert items_of(encoders.EMBEDDING_SECTION) == []
    assert list(cache.list_files(cache.open_section(inventory.LABEL_SECTION))) == []


def test_uploads_are_one_item_each_and_their_folder_goes_with_them(home):
    for name in ("aaaa", "bbbb"):
        cache.write(cache.open_section("uploads") / name / "qrels" / "test.tsv", b"x" * 10)
        cache.write(cache.open_section("uploads") / name / "corpus.jsonl", b"y" * 20)
    first, _ = items = sorted(items_of("uploads"), key=lambda item: item.name)
    assert [item.name for item in items] == ["aaaa", "bbbb"]
    assert {(item.bytes, item.facts["files"]) for item in items} == {(30, "corpus.jsonl, test.tsv")}
    assert inventory.remove_items([first]) == 30
    assert not (home / "uploads" / "aaaa").exists() and (home / "uploads" / "bbbb" / "corpus.jsonl").exists()


@pytest.fixture
def store(home):
    """A database as sweeps write it, left alone for an hour."""
    home.mkdir(parents=True, exist_ok=True)
    path = home / "sweeps.db"
    with sqlite3.connect(path) as db:
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("CREATE TABLE cells (key TEXT)")
    db.close()
    age(path)
    return path


def test_a_store_is_listed_and_deleted(store):
    (item,) = items_of(inventory.STORE_SECTION)
    assert item.name == "sweeps.db" and item.is_database and not item.is_recent and item.bytes == store.stat().st_size
    assert inventory.find_obstacle(item) is None
    assert inventory.remove_items([item]) > 0 and not store.exists()


def test_a_store_that_somebody_uses_stays(store):
    connection = sqlite3.connect(store)
    connection.execute("SELECT * FROM cells").fetchall()
    (item,) = items_of(inventory.STORE_SECTION)
    for path in item.files:
        age(path)
    with pytest.raises(engine.FrontierError, match=r"sweeps\.db cannot be deleted: another program has it open"):
        inventory.remove_items([item])
    connection.close()
    os.utime(store)
    with pytest.raises(engine.FrontierError, match="changed less than a minute ago"):
        inventory.remove_items(items_of(inventory.STORE_SECTION))
    age(store)
    assert inventory.remove_items(items_of(inventory.STORE_SECTION)) > 0 and not store.exists()


def test_a_store_inside_a_section_is_an_item_of_its_own(store):
    inner = cache.open_section("sweeps") / "old.db"
    inner.write_bytes(store.read_bytes())
    age(inner)
    (item,) = items_of("sweeps")
    assert item.name == "old.db" and item.is_database


def test_other_programs_files_are_neither_listed_nor_deleted(home, tmp_path):
    """FRONTIER_HOME may be a folder that others use too, and caches of theirs carry the same kind of tag."""
    cache.put("things", "a", b"x")
    theirs = write_file(home, "fontconfig/font", "x").parent
    write_file(theirs, "CACHEDIR.TAG", "Signature: 8a477f597d28d172789f06886806bc55\n# fontconfig's\n")
    write_file(home, "notes.txt", "x")
    outside = shutil.copytree(cache.open_section("things"), tmp_path / "outside")
    (home / "linked").symlink_to(outside, target_is_directory=True)
    assert {item.section for item in inventory.list_items()} == {"things"}
    inventory.remove_items(inventory.list_items())
    cache.clear()
    assert (theirs / "font").exists() and (home / "notes.txt").exists() and (outside / "a").exists()
    with pytest.raises(engine.FrontierError, match=r"fontconfig holds files that Frontier did not write.*'font'"):
        cache.put("fontconfig", "a", b"x")
    forged = inventory.Item("things", "x", {}, {outside / "a": 33})
    with pytest.raises(engine.FrontierError, match="lies outside"):
        inventory.remove_items([forged])
    assert (outside / "a").exists()


def test_compiled_code_is_listed_without_what_else_lies_there(home):
    write_file(home, "code/abc/f.nbi", b"x" * 7)
    kept_file = write_file(home, "code/abc/keep.txt", "x")
    (item,) = items_of(inventory.CODE_SECTION)
    assert item.bytes == 7 and inventory.remove_items([item]) == 7 and kept_file.exists()


def test_free_space_is_of_the_disk_that_the_cache_is_on(home):
    assert not home.exists() and 0 < inventory.count_free_bytes() < 1e18


def test_a_home_that_cannot_be_written_costs_no_embedding(home, monkeypatch):
    monkeypatch.setattr(cache, "put", lambda *a: (_ for _ in ()).throw(engine.FrontierError("full")))
    inventory.label_entries("embeddings", "x", ["a"], {"name": "x"})
    vectors = engine.embed(corpus(TEXTS[:2]), dtype="float32", cache=False).vectors
    assert np.isfinite(vectors.numpy()).all()
