"""Every format of the home with a byte flipped or its end cut off: refused, or computed again, and never used."""

import os
import random
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

import engine
from dashboard.sharing import snapshots
from dashboard.sharing.snapshots import SavedAnswer
from engine import orag
from engine.data import cache, codes
from engine.data.models import hub
from engine.data.stores.recall import MeasuredRecall, measured_path, measured_recall, save_recall
from engine.evaluation.sweep.cell import make_cell
from engine.evaluation.sweep.store import Store
from engine.judging.log import JudgingLog
from engine.paths import home
from support import training
from support.draws import examples
from support.feedback import random_space, vote

MISSED = "a miss"
"""What is not there is computed again."""


def cell(number):
    values = {name: np.random.default_rng(number).random(3) for name in ("recall", "ilad")}
    fields = {"left_out": 0, "returned": 5.0, "milliseconds": 1.5, "digests": {"corpus": "c0ffee"}, "device": "cpu"}
    return make_cell(engine.Decoder(engine.make("mmr")), number, "dev", ("q1", "q2", "q3"), values, **fields)


def entry():
    cache.put("things", "a", bytes(range(256)))
    return cache.open_section("things") / "a", lambda: cache.get("things", "a") or MISSED


def array():
    cache.put_array("things", "b", np.arange(60.0))
    return cache.open_section("things") / "b", lambda: _plain(cache.get_array("things", "b"))


def _plain(numbers):
    return MISSED if numbers is None else numbers.tolist()


def code():
    file = home() / "vectors.npy"
    rows = torch.from_numpy(np.random.default_rng(0).normal(size=(100, 8)).astype(np.float32))
    np.save(file, rows.numpy())

    def read():
        return [part.tolist() for part in codes.load_cached_codes(file, rows, rows.norm(dim=1).double())]

    read()
    (path,) = cache.list_files(cache.open_section(codes.CODES_SECTION))
    return path, read


def fingerprint():
    folder = home() / "model"
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    hub.fingerprint(folder)
    (path,) = cache.list_files(cache.open_section(hub.FINGERPRINT_SECTION))
    return path, lambda: hub.fingerprint(folder)


def sweep_store():
    path = home() / "cells.db"
    store = Store(path)
    for number in range(1, 4):
        store.put_cell(cell(number))
    store.put_study({"asked": {"k": 3}, "tuned": "mmr", "status": "confirmed"})

    def read():
        store = Store(path)
        result = [repr(vars(point)) for point in store.read_cells()], store.read_studies()
        return result if any(result) else MISSED  # one that is empty is a new one

    return path, read


def feedback_log():
    space = random_space()
    log = orag.log(home() / "log.sqlite", space, temperature=0.2)
    for row in range(3):
        log.feed(vote(log.session, row))
    return log.path, lambda: orag.load(log.path, space)[0].digest


def feedback_export():
    space = random_space()
    session = orag.feed(orag.session(space, temperature=0.2), vote(orag.session(space)))
    path = orag.save(session, home() / "log.jsonl")

    def read():
        session, notices = orag.load(path, space)
        return MISSED if notices else session.digest  # the person is told

    return path, read


def judging_log():
    log = JudgingLog(home() / "judgements.sqlite")
    log.add_queries(engine.Queries(("q",), ("what",)))
    for number in range(3):
        log.judge("q", f"d{number}", number, "ann")

    def read():
        judged = JudgingLog(log.path).read()
        return repr(judged) if judged.judgements else MISSED  # an empty file is a new log

    return log.path, read


def snapshot():
    answer = SavedAnswer("MMR", "mmr(…)", (("a", "A"), ("b", "B")), {"ILAD@3": 0.25, "Recall@3": None})
    state = {"state": {"v": "1", "k": "3"}, "corpus": "pets", "digest": "d1", "vectors": "v1", "encoder": "bundled"}
    saved = snapshots.save(snapshots.make_snapshot("one", **state, query="q", answers={"mmr": answer}))

    def read():
        readable, broken = snapshots.read_snapshots()
        return MISSED if broken else [repr(each) for each in readable]

    return snapshots.get_folder() / f"{saved.id}.json", read


def checkpoint():
    planted, path = training.plant(n=30, train=20, dev=10), home() / "run.safetensors"
    engine.train("dense", *planted, checkpoint=path, **training.QUICK)

    def read():
        trained = engine.load_trained(path, planted[0])
        return trained.digest, repr((trained.recipe, trained.decoder, trained.history, trained.best, trained.facts))

    return path, read


def recall():
    row = {"collection": "pg/papers", "ef": 10, "n": 5, "queries": 0.98, "residuals": 0.9, "asked": 3, "plan": "ef 10"}
    save_recall([MeasuredRecall(**row, sequential=False, date="2026-01-01", digest="d1")])
    store = SimpleNamespace(ref=SimpleNamespace(collection="pg/papers"), table=SimpleNamespace(ef=10))
    return measured_path(), lambda: repr(measured_recall(store))


FORMATS = (
    entry, array, code, fingerprint, sweep_store, feedback_log, feedback_export, judging_log, snapshot, checkpoint,
    recall,
)  # fmt: skip


@pytest.fixture(scope="module")
def stored_file(tmp_path_factory):
    """Makes what a format stores, once: its file, its bytes, what reads it, and what that reads."""
    made = {}

    def make(kind):
        os.environ["FRONTIER_HOME"] = str(made[kind][0] if kind in made else tmp_path_factory.mktemp("home"))
        if kind not in made:
            path, read = kind()
            made[kind] = home(), path, path.read_bytes(), read, read()
        return made[kind][1:]

    old_home = os.environ["FRONTIER_HOME"]
    yield make
    os.environ["FRONTIER_HOME"] = old_home


def assert_never_used(stored_file, kind, damage):
    path, raw, read, right = stored_file(kind)
    siblings = {file for file in path.parent.iterdir() if file != path and file.name.startswith(path.name)}
    contents = {file: file.read_bytes() for file in siblings}
    path.write_bytes(damage(raw))
    try:
        result = read()
    except engine.FrontierError:
        result = MISSED
    finally:
        for file in path.parent.glob(f"{path.name}-*"):
            file.unlink()  # what SQLite left
        path.write_bytes(raw)
        for file, content in contents.items():
            file.write_bytes(content)
    assert result in (right, MISSED)
    assert read() == right


PLACES = st.floats(0, 1, exclude_max=True)
FLIPS = st.integers(1, 255)


def flip_byte(raw, position, flip):
    index = int(position * len(raw))
    return raw[:index] + bytes([raw[index] ^ flip]) + raw[index + 1 :]


@pytest.mark.threat("a flipped byte in any file of the home", "refused or computed again, never used")
@pytest.mark.parametrize("kind", FORMATS)
@settings(max_examples=examples(25), deadline=None)
@given(position=PLACES, flip=FLIPS)
def test_a_flipped_byte_is_never_used(stored_file, kind, position, flip):
    assert_never_used(stored_file, kind, lambda raw: flip_byte(raw, position, flip))


@pytest.mark.threat("a file of the home that was cut off anywhere", "refused or computed again, never used")
@pytest.mark.parametrize("kind", FORMATS)
@settings(max_examples=examples(15), deadline=None)
@given(position=PLACES)
@example(position=0.0)
def test_a_file_that_was_cut_off_is_never_used(stored_file, kind, position):
    assert_never_used(stored_file, kind, lambda raw: raw[: int(position * len(raw))])


@pytest.mark.slow
@pytest.mark.threat("any of 2,000 flipped bytes in every file of the home", "refused or computed again, never used")
@pytest.mark.parametrize("kind", FORMATS)
def test_no_flipped_byte_of_many_is_used(stored_file, kind):
    chance = random.Random(0)
    for _ in range(2000):
        assert_never_used(
            stored_file, kind, partial(flip_byte, position=chance.random(), flip=chance.randrange(1, 256))
        )
