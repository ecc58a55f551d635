"""Loaded corpora are shared, kept while they are used, and given up oldest first."""

import gc
import os
import sys
import threading
import weakref
from collections import Counter
from dataclasses import replace
from types import SimpleNamespace

import numba
import pytest

import engine
from dashboard.services import answer_jobs, corpora, jobs
from dashboard.services.source import Source
from dashboard.session import address
from engine.solvers.greedy.lambda_path import follow_pieces
from support import pages
from support.pages import fresh_corpora, load
from support.patience import patient, until

pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")


@pytest.fixture
def loads(monkeypatch):
    """Loading without work: what was loaded, in order; a path in `held` waits for its event."""
    seen, held = [], {}

    def load(chosen, job):
        seen.append(chosen.path)
        if chosen.path in held:
            held[chosen.path].wait(patient(60))
        if chosen.path == "broken":
            raise ValueError("broken")
        return chosen.path

    fresh_corpora(monkeypatch)
    monkeypatch.setattr(corpora, "_load_corpus", load)
    yield seen, held
    for event in held.values():
        event.set()


def done(path):
    job = corpora.get_loading_job(Source(path))
    job.join(patient(60))
    return job


def test_a_corpus_is_loaded_once_for_everybody(loads):
    assert done("a") is done("a") and done("a").result == "a" and loads[0] == ["a"]


def test_the_one_not_used_for_longest_goes_first(loads):
    for path in ("a", "b", "c"):
        done(path)
    done("a")
    done("d")
    assert [s.path for s, _ in corpora.list_loads()] == ["c", "a", "d"] and len(
        corpora.list_loads()
    ) == corpora.MAX_LOADED_CORPORA
    done("b")
    assert loads[0] == ["a", "b", "c", "d", "b"]


def test_what_is_still_loading_is_never_given_up(loads):
    loads[1]["slow"] = threading.Event()
    slow = corpora.get_loading_job(Source("slow"))
    for path in ("a", "b", "c", "d"):
        done(path)
    assert corpora.find_loading_job(Source("slow")) is slow and slow.running
    assert [s.path for s, _ in corpora.list_other_loads(None)] == ["slow"]
    loads[1]["slow"].set()
    slow.join(patient(60))
    assert corpora.list_other_loads(None) == [] and slow.result == "slow"


def test_forgetting_a_failure_spares_a_new_try(loads):
    failed = done("broken")
    assert failed.error == "ValueError: broken"
    corpora.drop_load(Source("broken"), failed)
    again = corpora.get_loading_job(Source("broken"))
    corpora.drop_load(Source("broken"), failed)
    assert corpora.find_loading_job(Source("broken")) is again
    again.join(patient(60))


class Thing:
    """What a corpus is to these tests: something that memory is given up for, part of a cycle as real ones may be."""

    def __init__(self):
        self.me = self


@pytest.mark.deep
def test_what_is_dropped_dies(monkeypatch, light_settle):
    """Although everything alive is frozen out of the collector's sight after every load."""
    monkeypatch.setattr(corpora, "freeze_heap", light_settle)
    fresh_corpora(monkeypatch)
    alive = []

    def load(chosen, job):
        thing = Thing()
        alive.append(weakref.ref(thing))
        return thing

    monkeypatch.setattr(corpora, "_load_corpus", load)
    for turn in range(5):
        done(f"corpus {turn}")
    done("corpus 4")
    assert len(alive) == 5 and sum(ref() is not None for ref in alive) <= corpora.MAX_LOADED_CORPORA + 1
    corpora.freeze_heap()
    assert [ref() is not None for ref in alive] == [False] * 2 + [True] * 3


def test_what_failed_goes_before_what_is_of_use(loads):
    for path in ("a", "b", "broken", "c"):
        done(path)
    assert [s.path for s, _ in corpora.list_loads()] == ["a", "b", "c"]


def test_what_fails_at_once_is_not_dropped_by_its_own_start(loads, monkeypatch):
    """A job may have ended before its start returns."""
    for path in ("a", "b", "c"):
        done(path)

    class Fast(jobs.Job):
        def __init__(self, *args):
            super().__init__(*args)
            self.join(patient(60))

    monkeypatch.setattr(jobs, "Job", Fast)
    for path in ("d", "broken"):
        corpora.get_loading_job(Source(path))
        assert corpora.find_loading_job(Source(path)) is not None
    assert len(corpora.list_loads()) == corpora.MAX_LOADED_CORPORA


@pytest.mark.parametrize("compiled", [True, False])
def test_what_the_first_page_asks_is_made_ready_first(loads, monkeypatch, compiled):
    """On a new machine compiling takes most of a minute, and begins when the corpus is there: the page needs a core."""
    made = []

    def kind(name):
        return SimpleNamespace(cls=SimpleNamespace(warm=lambda: made.append(name), is_warm=lambda: compiled))

    monkeypatch.setattr(
        "engine.stages.methods", lambda _: {name: kind(name) for name in ("top_k", "mmr", "ssd", "nnn")}
    )
    # Until a page asks, or none comes for so long, the rest waits.
    asked = threading.Event()
    monkeypatch.setattr(answer_jobs, "was_asked", asked.is_set)
    monkeypatch.setattr(corpora, "FIRST_PAGE_SECONDS", patient(60))
    monkeypatch.setattr(corpora, "_compile_lambda_path", lambda kind: made.append("path"))
    monkeypatch.setattr("engine.solvers.gram.warm", lambda: made.append("products"))
    monkeypatch.setattr(corpora, "freeze_heap", lambda: made.append("settled"))
    loaded = SimpleNamespace()
    loads[1]["slow"] = threading.Event()
    monkeypatch.setattr(corpora, "_load_corpus", lambda chosen, job: loads[1]["slow"].wait(patient(60)) and loaded)
    corpora.warm_selectors(Source("slow"))
    until(lambda: corpora.find_loading_job(Source("slow")) is not None)
    first = ["products", "top_k", "mmr"] if compiled else ["products"]
    until(lambda: made == first)
    assert corpora.find_loading_job(Source("slow")).running, "while the corpus is read"
    looks = iter([True, True])
    monkeypatch.setattr(answer_jobs, "is_busy", lambda: made.append("waits") or next(looks, False))
    loads[1]["slow"].set()
    until(lambda: made == [*first, "settled"])
    asked.set()
    until(lambda: made.count("settled") == 2)
    assert made.count("waits") == 2 + 6 and made[len(first) + 1 :][:3] == 3 * ["waits"], "visitors' answers come first"
    made[:] = [each for each in made if each != "waits"]
    assert made == [*first, "settled", "path", "path", "top_k", "mmr", "ssd", "nnn", "settled"], "the load settles too"


def test_the_first_selectors_have_their_paths_compiled():
    for spec in list(engine.methods("selector").values())[: corpora.N_WARM_SELECTORS]:
        corpora._compile_lambda_path(spec.cls)
    assert isinstance(follow_pieces, numba.core.dispatcher.Dispatcher) and follow_pieces.signatures


@pytest.fixture
def started(monkeypatch):
    """A server that is for these corpora, where loading gives their names, and fails for one called broken."""
    fresh_corpora(monkeypatch)
    refused = {"broken.csv"}

    def load(chosen, job):
        if chosen.name in refused:
            raise ValueError("broken")
        return SimpleNamespace(source=chosen)

    monkeypatch.setattr(corpora, "_load_corpus", load)
    monkeypatch.setattr(corpora, "_START_SOURCES", [])
    monkeypatch.setattr(corpora, "_LOADED_ONCE", set())

    def start(*paths):
        corpora.set_start_sources(*paths)
        return refused

    return start


def test_health_is_loading_until_each_corpus_has_been_loaded_and_says_no_path(started):
    started("numpy-api", "/secret/place/things.csv")
    assert corpora.report_health() == {"status": "loading", "loaded": []}
    corpora.get_loading_job().join(patient(60))
    assert corpora.report_health() == {"status": "loading", "loaded": ["numpy-api"]}
    corpora.load_start_corpora()
    assert corpora.report_health() == {"status": "ok", "loaded": ["numpy-api", "things.csv"]}


def test_health_names_a_corpus_that_failed_until_it_is_loaded_after_all(started):
    refused = started("a.csv", "broken.csv")
    corpora.load_start_corpora()
    assert corpora.report_health() == {"status": "failed", "loaded": ["a.csv"], "failed": ["broken.csv"]}
    refused.clear()
    broken = Source("broken.csv")
    corpora.drop_load(broken, corpora.find_loading_job(broken))
    done("broken.csv")
    assert corpora.report_health() == {"status": "ok", "loaded": ["a.csv", "broken.csv"]}


@pytest.mark.threat("names of other visitors' corpora at /healthz", "those of the command line only")
def test_health_stays_ok_when_corpora_of_visitors_take_the_place_of_one(started):
    started("a", "b")
    corpora.load_start_corpora()
    for path in "cde":
        done(path)
    assert corpora.report_health() == {"status": "ok", "loaded": []}


def test_as_many_stay_in_memory_as_the_server_is_for(started):
    started(*"abcdea")
    corpora.load_start_corpora()
    assert corpora.report_health()["loaded"] == list("abcde") and corpora.get_start_source() == Source("a")


def test_an_address_opens_any_corpus_that_the_server_is_for_before_it_is_loaded(started):
    started("a.csv", "b.csv")
    assert address.find_source(Source("b.csv")) == Source("b.csv")
    assert address.find_source(Source("b.csv", trained="t")) == Source("b.csv", trained="t")
    assert address.find_source(Source("b.csv", encoder="other")) == Source("b.csv")
    assert address.find_source(Source("b.csv", relevant=2)) == Source("b.csv", relevant=2)
    assert address.find_source(Source("b.csv", encoder="other", relevant=2)) == Source("b.csv", relevant=2)
    assert address.find_source(Source("c.csv")) is None


def handles():
    """What this process holds open, by what it is."""
    gc.collect()
    found = Counter()
    for number in os.listdir("/proc/self/fd"):
        try:
            found[os.readlink(f"/proc/self/fd/{number}").split(":")[0]] += 1
        except OSError:
            continue  # the one that lists the folder
    return found


@pytest.mark.threat("handles left open by loading corpora", "as many after ten as after one")
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs /proc")
def test_ten_corpora_one_after_another_hold_no_more_handles_than_one(tmp_path):
    counts = []
    for number in range(11):
        path = tmp_path / f"c{number}.csv"
        path.write_text("id,text\n" + "".join(f"{row},text {row} of {number}\n" for row in range(9)))
        load(Source(str(path)))
        counts.append(handles())
    assert counts[-1] - counts[0] == Counter(), (counts[0], counts[-1])


def test_one_loading_serves_every_level_of_relevance(tmp_path, monkeypatch):
    fresh_corpora(monkeypatch)
    queries, documents = [("q", "a cat")], [("a", "a cat"), ("b", "a dog")]
    source = Source(str(pages.beir(tmp_path / "pets", documents, queries, test=[("q", "a")])))
    load(source)
    job = corpora.get_loading_job(replace(source, relevant=2))
    assert job is corpora.find_loading_job(source) and len(corpora.list_loads()) == 1
    loaded = corpora.get_loaded(job, replace(source, relevant=2))
    assert loaded.source.relevant == 2 and loaded.dataset.qrels["test"].relevant("q") == frozenset()
    assert loaded.space is job.result.space and corpora.get_loaded(job, source) is job.result
    assert corpora.get_loaded(job, loaded.source) is loaded, "pages compare corpora by identity"
    assert corpora.list_variants(loaded) == [loaded] and corpora.list_other_loads(loaded.source) == []
