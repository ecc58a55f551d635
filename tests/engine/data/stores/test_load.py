"""Loading a corpus into an engine: all of it, once, whatever happens on the way."""

import json
import os
import signal
import threading
import time
from itertools import pairwise

import numpy as np
import pytest
import torch

from engine.data.stores.config import open_store
from engine.data.stores.load import HnswIndex, load
from engine.errors import Cancelled, DataError
from engine.values import Corpus, Embeddings, EncoderRef
from support.instances import unit
from support.processes import started

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
    time.sleep(0.05)
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
def named(engines, engine_name, tmp_path_factory):
    """A name of stores.toml for new collections, in a home of the module's own."""
    home = tmp_path_factory.mktemp("home")
    before, os.environ["FRONTIER_HOME"] = os.environ["FRONTIER_HOME"], str(home)
    if engine_name == "pg":
        pg = engines.pg
        access = pg.access()
        lines = [f'host = "127.0.0.1"\nport = {pg.port}\ndbname = "postgres"\nuser = "{pg.user}"']
        lines += ['kind = "pgvector"', f'password_env = "{access.password_env}"']
    else:
        uri = str(home / "own.db") if engine_name == "lite" else engines.milvus.uri
        lines = ['kind = "milvus"', f"uri = {json.dumps(uri)}"]
    (home / "stores.toml").write_text("\n".join([f"[{engine_name}]", *lines]) + "\n")
    yield lambda collection: f"{engine_name}/{collection}"
    os.environ["FRONTIER_HOME"] = before


def check(target, corpus, embeddings):
    """Each document is there once, as it was given."""
    store = open_store(target)
    try:
        assert store.count() == len(corpus)
        found = {name: row for ids, rows in store.scan(1000) for name, row in zip(ids, rows, strict=True)}
        assert set(found) == set(corpus.ids)
        np.testing.assert_array_equal(np.stack([found[name] for name in corpus.ids]), embeddings.vectors.numpy())
        some = corpus.ids[::97]
        assert store.texts(some) == [corpus.passages[corpus.position[name]] for name in some]
        result = store.search(embeddings.vectors[:2].numpy(), 5)
        assert [corpus.position[name] for name in result.ids[0]] == result.places[0].tolist()
        assert store.count({"year": ["1990"]}) == sum(year == "1990" for year in corpus.metadata["year"])
        assert store.encoder == ENCODER
    finally:
        store.close()


def test_a_corpus_is_there_as_it_was_given_and_a_second_load_writes_nothing(named):
    corpus, embeddings = corpus_of(rows=700)
    told = []
    done = load(named("once"), corpus, embeddings, batch=300, progress=lambda *report: told.append(report))
    assert (done.written, done.count) == (700, 700)
    assert told[0] == (0, 700, "writing documents") and (700, 700, "writing documents") in told
    assert all(a[0] <= b[0] for a, b in pairwise(told) if a[2] == b[2])
    check(named("once"), corpus, embeddings)
    assert load(named("once"), corpus, embeddings, batch=300).written == 0
    check(named("once"), corpus, embeddings)


def test_another_corpus_or_other_embeddings_are_refused(named):
    corpus, embeddings = corpus_of(rows=60)
    load(named("mine"), corpus, embeddings)
    other = Embeddings(corpus.ids, -embeddings.vectors, ENCODER)
    with pytest.raises(DataError, match="holds another corpus or other embeddings"):
        load(named("mine"), corpus, other)
    with pytest.raises(DataError, match="same ids in order"):
        load(named("mine"), corpus, embeddings.take(range(3)))
    check(named("mine"), corpus, embeddings)


def test_a_load_that_was_stopped_is_not_attached_and_goes_on(named):
    corpus, embeddings = corpus_of(rows=500)
    stop = threading.Event()

    def progress(done, total, label):
        if done >= 200:
            stop.set()

    with pytest.raises(Cancelled, match="of 500 documents are in the store"):
        load(named("stopped"), corpus, embeddings, batch=100, progress=progress, stop=stop)
    with pytest.raises(DataError, match="not loaded to its end"):
        open_store(named("stopped"))
    done = load(named("stopped"), corpus, embeddings, batch=100)
    assert 0 < done.written < 500
    check(named("stopped"), corpus, embeddings)


def test_a_load_killed_in_its_midst_loses_and_doubles_nothing(named, engine_name):
    """kill -9 somewhere in a batch; the second run ends where the first would have."""
    own = started("-c", LOADER, os.path.dirname(__file__), named("killed"))
    try:
        for line in own.stdout:
            if int(line) >= 1_000:
                break
        time.sleep(0.06)  # into the batch
    finally:
        own.send_signal(signal.SIGKILL)
        own.wait()
        own.stdout.close()
        own.stderr.close()
    corpus, embeddings = corpus_of()
    done = load(named("killed"), corpus, embeddings, batch=400)
    # A file of Milvus Lite dies with the process, and keeps what it had written to the disk: perhaps nothing.
    assert 0 < done.written <= (ROWS if engine_name == "lite" else ROWS - 950)
    check(named("killed"), corpus, embeddings)


def test_an_index_is_built_in_the_end_and_only_once(named, engine_name):
    corpus, embeddings = corpus_of(rows=400)
    for _ in range(2):
        load(named("indexed"), corpus, embeddings, index=HnswIndex(m=8, ef_construction=32))
    store = open_store(named("indexed"))
    indexes = store.rows.indexes if engine_name == "pg" else {"v": store.rows.metric.lower()}
    assert list(indexes.values()) == ["ip"]
    if engine_name != "pg":
        with pytest.raises(DataError, match="index_type FLAT"):
            store.search(np.ones(DIMENSION), 3, exact=True)
        assert not store.search(np.ones(DIMENSION), 3).exact
    store.close()


def test_a_table_of_somebody_else_is_left_alone(named, engines, engine_name):
    corpus, embeddings = corpus_of(rows=10)
    if engine_name == "pg":
        engines.pg.execute("CREATE TABLE theirs (id text)")
    else:
        from engine.data.stores.config import read_entry
        from support.stores import make_collection

        client = read_entry(named("theirs")).access.client()
        make_collection(client, "theirs", corpus.ids, embeddings.vectors.numpy(), corpus.texts)
    with pytest.raises(DataError, match="not made by `frontier store load`"):
        load(named("theirs"), corpus, embeddings)
