"""Clocks that are set back and forward by years, and files whose times are: orders, caches and locks do not care."""

import os
import time
from datetime import datetime
from pathlib import Path

import pytest

import engine
from dashboard.services import jobs
from dashboard.sharing import snapshots
from engine import orag
from engine.data import cache, encoders, inventory
from engine.evaluation.sweep.store import Store
from engine.judging.log import JudgingLog
from engine.progress import Eta
from support import sweeps
from support.encoders import TEXTS, WORDS
from support.feedback import are_identical, random_space, vote
from support.patience import patient
from support.tiny_models import tiny_encoder

YEARS = 10 * 365.25 * 86_400
JUMPS = (0, -YEARS, YEARS, -3600, 3600, 0)
"""Seconds that the clock is off, one after the other."""


class Clock:
    """The clock of this machine as Python reads it, `off` by some seconds."""

    def __init__(self, patch):
        self.off, now, now_ns = 0.0, time.time, time.time_ns
        patch.setattr(time, "time", lambda: now() + self.off)
        patch.setattr(time, "time_ns", lambda: now_ns() + int(self.off * 1e9))

        class Shifted(datetime):
            @classmethod
            def now(cls, tz=None):
                return cls.fromtimestamp(time.time(), tz)

        patch.setattr(snapshots, "datetime", Shifted)

    def shift(self, off, *files):
        """Shift the clock, and the times of files that were written since."""
        self.off = off
        for file in filter(Path.exists, files):
            set_file_time(file, 0)


def set_file_time(file, off):
    """Set a file's time to `off` seconds from now, by the clock."""
    os.utime(file, (time.time() + off,) * 2)


@pytest.fixture
def clock(monkeypatch):
    return Clock(monkeypatch)


@pytest.mark.threat(
    "the clock set back and forward by ten years between votes",
    "both writers see every vote at once and in the order in which it was given, and undo takes back the newest",
)
def test_votes_stay_in_their_order(tmp_path, clock):
    space = random_space()
    path = tmp_path / "log.sqlite"
    ours, theirs = orag.log(path, space, temperature=0.2), orag.log(path, space)
    voters = []
    for turn, off in enumerate(JUMPS * 2):
        clock.shift(off, path, path.with_name(path.name + "-wal"))
        writer, reader = (ours, theirs) if turn % 2 else (theirs, ours)
        event = vote(writer.session, turn, person=f"p{turn}")
        voters.append(writer.feed(event).events[-1].person)
        assert [e.person for e in reader.refresh().events] == voters
    loaded, notices = orag.load(path, space)
    assert notices == () and are_identical(loaded, ours.refresh())
    undone = ours.undo(ours.session.events[-1].id)
    assert [event.person for event in undone.effective_events] == voters[:-1]
    assert are_identical(theirs.refresh(), undone)
    times = [event.time for event in loaded.events]
    assert times != sorted(times), "the clock went back"


@pytest.mark.threat(
    "the clock set back between judgements",
    "the newest given counts and is the one that undo takes back, whatever its date",
)
def test_the_judgement_that_was_given_last_counts(tmp_path, clock):
    log, second_log = JudgingLog(tmp_path / "judged.sqlite"), JudgingLog(tmp_path / "judged.sqlite")
    for grade, off in enumerate((0, YEARS, -YEARS)):
        clock.shift(off, log.path)
        log.judge("q", "d", grade, "ana")
        assert second_log.read().grades == {("q", "d"): {"ana": grade}}
    remaining, undone = second_log.undo("ana")
    assert undone.grade == 2 and remaining.grades == {("q", "d"): {"ana": 1}}


@pytest.mark.threat(
    "entries of the cache dated ten years ahead or back, and labels said to be used then",
    "they are used as they are, listed with all their bytes, and can be deleted",
)
@pytest.mark.parametrize("off", [-YEARS, YEARS])
def test_entries_of_another_time_are_used_listed_and_deleted(home, tmp_path, clock, off, monkeypatch):
    model = str(tiny_encoder(tmp_path / "model", WORDS))
    first = encoders.embed(documents(), model)
    for file in [*cache.list_files(home)]:
        set_file_time(file, off)
    monkeypatch.setattr(encoders.encoder_model, "load", None)  # nothing is embedded again
    assert encoders.embed(documents(), model).digest == first.digest
    items = [item for item in inventory.list_items() if item.section == encoders.EMBEDDING_SECTION]
    assert sum(item.bytes for item in items) and inventory.remove_items(items) > 0
    assert not [item for item in inventory.list_items() if item.section == encoders.EMBEDDING_SECTION]


def documents():
    return random_space(len(TEXTS), texts=TEXTS).corpus


@pytest.mark.threat(
    "a store of sweeps dated ahead, as the clock was set back since",
    "it is as usable as before, and can be deleted: it is no store that changed a minute ago",
)
def test_a_store_from_the_future_is_used_and_can_be_deleted(home, clock):
    home.mkdir()
    path = home / "sweep.db"
    cells = [*engine.sweep(engine.grid("mmr", 3), *sweeps.toy(), k=5, store=path)]
    for off in (-YEARS, YEARS):
        clock.off = off
        assert {cell.digest for cell in Store(path).read_cells()} == {cell.digest for cell in cells}
    clock.off = 0
    set_file_time(path, YEARS)
    (item,) = inventory.list_items()
    assert not item.is_recent and inventory.find_obstacle(item) is None
    assert inventory.remove_items([item]) > 0 and not path.exists()


@pytest.mark.threat(
    "the remains of a killed writer dated ahead, as the clock was set back since",
    "they are deleted as others are, and a write in flight is left alone whatever its date",
)
def test_remains_from_the_future_are_deleted_and_writes_in_flight_are_not(home, clock):
    folder = cache.open_section("things")
    for off in (-YEARS, YEARS):
        remains = folder / f".a.{'0' * 32}.tmp"
        remains.write_bytes(b"half")
        set_file_time(remains, off)
        assert cache.delete(remains) == 4 and not remains.exists()

        def write(file, off=off):
            file.write(b"half")
            file.flush()
            (partial_file,) = folder.glob(".b.*.tmp")
            set_file_time(partial_file, off)
            assert cache.delete(partial_file) == 0
            file.write(b" and half")

        cache.write(folder / "b", write)
        assert (folder / "b").read_bytes() == b"half and half"


@pytest.mark.threat(
    "saved views dated ahead and back", "all are listed, each with its date; a name is never given twice"
)
def test_saved_views_of_any_date_are_listed(home, clock):
    for off in JUMPS:
        clock.off = off
        fields = dict.fromkeys(("corpus", "digest", "vectors", "encoder", "query"), "x")
        snapshots.save(snapshots.make_snapshot("mine", state={}, answers={}, **fields))
    listed, broken = snapshots.read_snapshots()
    assert broken == [] and len(listed) == len(JUMPS) == len({view.name for view in listed})
    assert [view.made for view in listed] == sorted((view.made for view in listed), reverse=True)
    assert len({view.when[:4] for view in listed}) == 3


@pytest.mark.threat(
    "the clock set back and forward while a job runs", "its estimate follows the time that passes, not the clock"
)
def test_an_estimate_follows_the_time_that_passes(clock):
    ticks = iter(range(1000))
    eta, estimates = Eta(quiet=2, clock=lambda: float(next(ticks))), []
    for done in range(20):
        clock.off = JUMPS[done % len(JUMPS)]
        estimates.append(eta(done, 20, "embedding"))
    assert estimates[-1] == pytest.approx(1, abs=1) and all(
        0 <= value <= 20 for value in estimates if value is not None
    )
    assert Eta()._clock is time.monotonic
    job = jobs.Job("wait", lambda job: job.stop.wait(patient(60)))
    clock.off = -YEARS
    job.report(1, 2, "half")
    job.cancel()
    job.join(patient(60))
    assert not job.running
