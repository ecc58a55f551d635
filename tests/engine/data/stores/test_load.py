"""Loading a corpus into an engine: all of it, once, whatever happens on the way."""

import json
import os
import signal
import threading
import time
from itertools import pairwise
from unittest.mock import Mock

import numpy as np
import pytest
import torch

from engine.data.stores.config import config_path, open_store
from engine.data.stores.load import HnswIndex, load
from engine.data.stores.milvus_collection import MilvusAccess
from engine.errors import Cancelled, DataError
from engine.values import Corpus, Embeddings, EncoderRef
from support.fork_server import fork_python
from support.instances import unit

ROWS, DIMENSION = 3_000, 16
ENCODER = EncoderRef("bundled", "abc", "float32")
ENGINES = ("pg", "lite", "milvus")

LOADER = """
import sys, time
sys.path.insert(0, sys.argv[1])
from test_load import corpus_of
from engine.data.stores.load import load
def progress(done, total, label):
    print(done, flush=True)
    time.sleep(0.05 if done < 1_000 else 1)
load(sys.argv[2], *corpus_of(), batch=50, progress=progress)
"""


def corpus_of(seed=0, rows=ROWS):
    rng = np.random.default_rng(seed)
    ids = tuple(f"doc {row} é\"'" for row in range(rows))
    texts = tuple(f"text\t{row}\nof \\N a ☃ document" for row in range(rows))
    years = tuple(str(1990 + row % 30) for row in range(rows))
    vectors = torch.from_numpy(unit(rng.standard_normal((rows, DIMENSION))).astype(np.float32))
    corpus = Corpus(ids, texts, tuple(f"title {row}" for row in range(rows)), "c", {"year": years})
    return corpus, Embeddings(ids, vectors, ENCODER)


@pytest.fixture(scope="module", params=ENGINES)
def engine_name(request):
    return request.param


@pytest.fixture(scope="module")
def store_name(engines, engine_name, tmp_path_factory):
    """A name of stores.toml for new collections, in a home of the module's own."""
    home = tmp_path_factory.mktemp("home")
    old_home, os.environ["FRONTIER_HOME"] = os.environ["FRONTIER_HOME"], str(home)
    if engine_name == "pg":
        text = engines.pg.toml()
    else:
        uri = str(home / "own.db") if engine_name == "lite" else engines.milvus.uri
        text = f'[{engine_name}]\nkind = "milvus"\nuri = {json.dumps(uri)}\n'
    (home / "stores.toml").write_text(text)
    yield lambda collection: f"{engine_name}/{collection}"
    os.environ["FRONTIER_HOME"] = old_home


def check(target, corpus, embeddings):
    """Each document is there once, as it was given."""
    store = open_store(target)
    try:
        assert store.count() == len(corpus)
        stored = {name: row for ids, rows in store.scan(1000) for name, row in zip(ids, rows, strict=True)}
        assert set(stored) == set(corpus.ids)
        np.testing.assert_array_equal(np.stack([stored[name] for name in corpus.ids]), embeddings.vectors.numpy())
        sampled = corpus.ids[::97]
        assert store.texts(sampled) == [corpus.passages[corpus.position[name]] for name in sampled]
        result = store.search(embeddings.vectors[:2].numpy(), 5)
        assert [corpus.position[name] for name in result.ids[0]] == result.places[0].tolist()
        assert store.count({"year": ["1990"]}) == sum(year == "1990" for year in corpus.metadata["year"])
        assert store.encoder == ENCODER
    finally:
        store.close()


def test_a_corpus_is_there_as_it_was_given_and_a_second_load_writes_nothing(store_name):
    corpus, embeddings = corpus_of(rows=700)
    lines = []
    done = load(store_name("once"), corpus, embeddings, batch=300, progress=lambda *report: lines.append(report))
    assert (done.written, done.count) == (700, 700)
    assert lines[0] == (0, 700, "writing documents") and (700, 700, "writing documents") in lines
    assert all(a[0] <= b[0] for a, b in pairwise(lines) if a[2] == b[2])
    check(store_name("once"), corpus, embeddings)
    assert load(store_name("once"), corpus, embeddings, batch=300).written == 0
    check(store_name("once"), corpus, embeddings)


def test_another_corpus_or_other_embeddings_are_refused(store_name):
    corpus, embeddings = corpus_of(rows=60)
    load(store_name("mine"), corpus, embeddings)
    negated = Embeddings(corpus.ids, -embeddings.vectors, ENCODER)
    with pytest.raises(DataError, match="holds another corpus or other embeddings"):
        load(store_name("mine"), corpus, negated)
    with pytest.raises(DataError, match="same ids in order"):
        load(store_name("mine"), corpus, embeddings.take(range(3)))
    check(store_name("mine"), corpus, embeddings)


def test_a_load_that_was_stopped_is_not_attached_and_goes_on(store_name):
    corpus, embeddings = corpus_of(rows=500)
    stop = threading.Event()

    def progress(done, total, label):
        if done >= 200:
            stop.set()

    with pytest.raises(Cancelled, match="of 500 documents are in the store"):
        load(store_name("stopped"), corpus, embeddings, batch=100, progress=progress, stop=stop)
    with pytest.raises(DataError, match="not loaded to its end"):
        open_store(store_name("stopped"))
    done = load(store_name("stopped"), corpus, embeddings, batch=100)
    assert 0 < done.written < 500
    check(store_name("stopped"), corpus, embeddings)


def test_a_load_killed_in_its_midst_loses_and_doubles_nothing(store_name, engine_name):
    """kill -9 somewhere in a batch; the second run ends where the first would have."""
    process = fork_python("-c", LOADER, os.path.dirname(__file__), store_name("killed"))
    try:
        for line in process.stdout:
            if int(line) >= 1_000:
                break
        time.sleep(1.01)  # into the batch
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
        process.stderr.close()
    corpus, embeddings = corpus_of()
    done = load(store_name("killed"), corpus, embeddings, batch=400)
    # A file of Milvus Lite dies with the process, and keeps what it had written to the disk: perhaps nothing.
    assert 0 < done.written <= (ROWS if engine_name == "lite" else ROWS - 950)
    check(store_name("killed"), corpus, embeddings)


def test_an_index_is_built_in_the_end_and_only_once(store_name, engine_name):
    corpus, embeddings = corpus_of(rows=400)
    for _ in range(2):
        load(store_name("indexed"), corpus, embeddings, index=HnswIndex(m=8, ef_construction=32))
    store = open_store(store_name("indexed"))
    indexes = store.rows.indexes if engine_name == "pg" else {"v": store.rows.metric.lower()}
    assert list(indexes.values()) == ["ip"]
    if engine_name != "pg":
        with pytest.raises(DataError, match="index_type FLAT"):
            store.search(np.ones(DIMENSION), 3, exact=True)
        assert not store.search(np.ones(DIMENSION), 3).exact
    store.close()


@pytest.fixture
def skip_engines(engine_name):
    """Skips the engines of which a test says nothing."""

    def skip(*names):
        if engine_name not in names:
            pytest.skip(f"of {names[0]} only")

    return skip


def test_the_index_of_a_table_of_the_same_name_is_another_s(store_name, engines, skip_engines):
    skip_engines("pg")
    corpus, embeddings = corpus_of(rows=60)
    entries = "".join(f'[pg.{schema}_docs]\ntable = "{schema}.docs"\n' for schema in ("one", "two"))
    config_path().write_text(config_path().read_text() + entries)
    for schema in ("one", "two"):
        engines.pg.execute(f"CREATE SCHEMA {schema}")
        load(store_name(f"{schema}_docs"), corpus, embeddings, index=HnswIndex())
        store = open_store(store_name(f"{schema}_docs"))
        assert list(store.rows.indexes.values()) == ["ip"]
        store.close()


def test_a_loaded_table_s_first_rows_are_read_without_a_sort_of_all(store_name, engines, skip_engines):
    skip_engines("pg")
    load(store_name("placed"), *corpus_of(rows=700))
    with engines.pg.connect() as connection:
        plan = str(connection.execute("EXPLAIN SELECT id, v FROM placed ORDER BY place, id LIMIT 2").fetchall())
    assert "placed_place_idx" in plan


def test_an_index_that_cannot_be_built_is_refused_before_anything_is_written(store_name, skip_engines):
    skip_engines("pg")
    ids = ("a", "b")
    wide = Embeddings(ids, torch.eye(2, 2_001), ENCODER)
    with pytest.raises(DataError, match=r"2,000 numbers at most, and these have 2,001: load without --index"):
        load(store_name("wide"), Corpus(ids, ids), wide, index=HnswIndex())
    with pytest.raises(DataError, match="there is no table"):
        open_store(store_name("wide"))
    assert load(store_name("wide"), Corpus(ids, ids), wide).count == 2


def test_an_index_that_milvus_was_not_given_at_first_is_refused(store_name, skip_engines):
    skip_engines("lite", "milvus")
    corpus, embeddings = corpus_of(rows=60)
    load(store_name("flat"), corpus, embeddings)
    with pytest.raises(DataError, match=r"without --index.*under another name"):
        load(store_name("flat"), corpus, embeddings, index=HnswIndex())
    assert load(store_name("flat"), corpus, embeddings).written == 0


def test_a_collection_whose_load_ended_before_its_index_is_given_one(store_name, skip_engines, monkeypatch):
    skip_engines("lite", "milvus")
    from pymilvus import MilvusClient

    def killed(*_, **options):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(MilvusClient, "create_index", killed)
        load(store_name("bare"), *corpus_of(rows=60))
    load(store_name("bare"), *corpus_of(rows=60), index=HnswIndex())
    store = open_store(store_name("bare"))
    assert store.rows.index == "HNSW"
    store.close()


def test_every_call_of_milvus_has_a_limit_and_what_is_refused_makes_none(store_name, skip_engines, monkeypatch):
    skip_engines("lite", "milvus")
    opened, client = [], MilvusAccess.client
    monkeypatch.setattr(MilvusAccess, "client", lambda self: opened.append(Mock(wraps=client(self))) or opened[-1])
    corpus, embeddings = corpus_of(rows=60)
    odd = Corpus(corpus.ids, corpus.texts, metadata={"a year": ("",) * 60})
    with pytest.raises(DataError, match="no field called 'a year'"):
        load(store_name("limits"), odd, embeddings)
    assert not opened
    load(store_name("limits"), corpus, embeddings)
    limits = {method: kwargs.get("timeout") for method, _, kwargs in opened[0].method_calls if method != "close"}
    assert None not in limits.values() and {"upsert", "flush", "query", "load_collection"} <= {*limits}


@pytest.mark.parametrize("bad", ["half \ud800", "nul \0"])
def test_an_id_that_no_engine_keeps_is_refused_by_name(store_name, bad):
    ids = ("good", bad)
    with pytest.raises(DataError, match=r"no engine keeps the id or column '(half \\ud800|nul \\x00)'"):
        load(store_name("odd_ids"), Corpus(ids, ("a", "b")), Embeddings(ids, torch.eye(2), ENCODER))


def test_a_column_with_a_percent_sign_filters(store_name, skip_engines):
    skip_engines("pg")
    corpus, embeddings = corpus_of(rows=60)
    shares = Corpus(corpus.ids, corpus.texts, metadata={"share %": ("5", "6", "7") * 20})
    load(store_name("shares"), shares, embeddings)
    store = open_store(store_name("shares"))
    assert store.count({"share %": ["5"]}) == 20
    store.close()


def test_a_table_of_somebody_else_is_left_alone(store_name, engines, engine_name):
    corpus, embeddings = corpus_of(rows=10)
    if engine_name == "pg":
        engines.pg.execute("CREATE TABLE theirs (id text)")
    else:
        from engine.data.stores.config import read_entry
        from support.stores import make_collection

        client = read_entry(store_name("theirs")).access.client()
        make_collection(client, "theirs", corpus.ids, embeddings.vectors.numpy(), corpus.texts)
    with pytest.raises(DataError, match="not made by `frontier store load`"):
        load(store_name("theirs"), corpus, embeddings)
