"""The Train view without a browser: what it asks, what training leaves, and a corpus with what was trained."""

import json
import shlex
import threading
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from test_pages import screen, texts, widgets

import engine
from dashboard import jobs, state
from dashboard.explore.question import TYPED
from dashboard.feedback import live
from dashboard.state import Source
from dashboard.training import kept, request, runs
from engine.errors import FrontierError
from engine.evaluation.export import Use, exports
from engine.evaluation.splits import parted
from engine.learning.training.checkpoints import keep_run
from engine.learning.training.course import histories
from engine.learning.training.learnt import learnt_from
from engine.learning.training.recipes import RECIPES, declared

THINGS = ("apple pie", "steam engine", "violin", "volcano", "tax return", "chess", "heron", "lighthouse")
SORTS = ("history", "price", "repair", "poetry")
METHOD = list(RECIPES)[1]
"""One with an untrained decoder, a start and a control."""
QUICK = {"tune.page": "Train", "train.method": METHOD}
SMALL = {"hidden": 32, "epochs": 3, "batch": 16, "late": ["query_rate"], "query_rate": 1e-2}


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A cache of this file's own, and a corpus in it: things, and queries that name two others than those they mean."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FRONTIER_HOME", str(tmp_path_factory.mktemp("home")))
        patch.setattr(state, "_JOBS", type(state._JOBS)())
        yield tmp_path_factory.mktemp("set")


@pytest.fixture(scope="module")
def folder(home):
    corpus = [{"_id": f"{t[:4]}-{s}", "text": f"On the {s} of the {t}"} for t in THINGS for s in SORTS]
    pairs = [(a, b, s) for a in range(8) for b in range(8) for s in range(4) if a < b and (a + b + s) % 2]
    queries = [{"_id": f"q{i}", "text": f"{THINGS[a]}, {THINGS[b]}: {SORTS[s]}"} for i, (a, b, s) in enumerate(pairs)]
    lines = [f"q{i}\t{THINGS[t - 7][:4]}-{SORTS[s]}\t1\n" for i, (a, b, s) in enumerate(pairs) for t in (a, b)]
    (home / "qrels").mkdir()
    for name, rows in (("corpus", corpus), ("queries", queries)):
        (home / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (home / "qrels" / "test.tsv").write_text("".join(lines))
    return home


@pytest.fixture(scope="module")
def source(folder):
    return Source(str(folder), dtype="float32")


def page(source, **session):
    given = {f"train.{METHOD}.{name}": value for name, value in SMALL.items()}
    return screen("tune", source, **{**QUICK, **given, **session})


def finished(app, purpose="train"):
    job = app.session_state["jobs"][purpose]
    job.join(120)
    assert not job.running
    app.run()
    assert not app.exception, app.exception
    return app


def table(app, column):
    return next(t.value for t in app.dataframe if column in t.value)


@pytest.fixture(scope="module")
def trained(source):
    """The page after a training has come to its end."""
    app = page(source)
    app.button(key="train.start").click().run()
    return finished(app)


def test_the_form_has_what_methods_declare_and_divides_one_split(source):
    app = page(source)
    assert app.selectbox(key="train.method").options == [recipe.title for recipe in RECIPES.values()]
    count = len(state.loading(source).result.dataset.judged("test"))
    assert f"the {count:,} queries of test, divided at random with seed 0" in texts(app)
    for method, recipe in RECIPES.items():
        app.selectbox(key="train.method").set_value(method).run()
        shown = {name.split(".")[2] for name in widgets(app) if name.startswith(f"train.{method}.")}
        late = set(recipe.late) - (set(SMALL) if method == METHOD else set())
        assert {p.name for p in declared(method) if p.needs is None} - late <= shown and not shown & late, method


def test_what_it_takes_is_said_beforehand(source):
    app = page(source)
    app.button(key="train.look").click().run()
    app = finished(app, "train.look")
    parts = parted(state.loading(source).result.dataset.qrels["test"])
    said = {m.label: m.value for m in app.metric}
    assert said["Queries to learn from"] == f"{len(parts['train'])}" and said["Mean |S|"] == "2.00"
    assert {"Left out", "Repeated", "An epoch", "At most, in all"} <= said.keys()


def test_the_table_holds_the_control(trained):
    rows = table(trained, "System")
    assert {"encoder", "dense", "dense-cont", METHOD} <= set(rows["System"])
    assert "±" in rows["Comp@5"].iloc[0] and "its control" in texts(trained)
    assert f"{METHOD} and dense-cont" in texts(trained) or "than dense-cont" in texts(trained)
    ended = table(trained, "Ended")
    assert list(ended["Stage"]) == ["dense", "dense-cont", METHOD] and all(ended["Ended"])
    trained.segmented_control(key="train.table").set_value("By relevant documents").run()
    assert any("2 relevant" in column for column in table(trained, "System").columns)


def test_an_unknown_checkpoint_is_an_error_with_a_way_out(source):
    for name, said in (("0" * 32, "not on this machine"), ("../../etc/passwd", "32 hexadecimal digits")):
        app = screen("explore", replace(source, trained=name))
        assert said in texts(app) and "Use the encoder's own" in [b.label for b in app.button]
    next(b for b in app.button if b.label == "Use the encoder's own").click().run()
    assert not app.exception and app.session_state["source"] == source


def test_a_stopped_training_keeps_its_best_and_goes_on(source, monkeypatch):
    real = request.course

    def stopping(*args, watch, stop, **kwargs):
        def seen(stage, epoch):
            watch(stage, epoch)
            if (stage, epoch.epoch) == ("dense", 1):
                stop.set()

        return real(*args, watch=seen, stop=stop, **kwargs)

    monkeypatch.setattr(request, "course", stopping)
    app = page(source, **{f"train.{METHOD}.epochs": 8, "train.seed": 5})
    app.button(key="train.start").click().run()
    app = finished(app)
    monkeypatch.setattr(request, "course", real)
    job = app.session_state["jobs"]["train"]
    stopped = job.result
    assert stopped.table is None and "by hand" in stopped.stages[-1].stopped
    assert f"dense: {stopped.stages[-1].stopped}" in texts(app) and not table_there(app)
    # Another window, as after a reload: it is found among the trainings of this corpus.
    other = page(source)
    digest = app.session_state["train.mine"]
    other.button(key=f"train.open.{digest}").click().run()
    assert "Stopped in dense" in texts(other) and "train.use.dense" in [b.key for b in other.button]
    other.button(key="train.on").click().run()
    other = finished(other)
    outcome = other.session_state["train.outcomes"][digest]
    kept = [epoch.as_json() for epoch in stopped.seen.histories["dense"]]
    assert [epoch.as_json() for epoch in outcome.seen.histories["dense"]][: len(kept)] == kept
    assert table_there(other) and set(outcome.seen.histories) == {"dense", "dense-cont", METHOD}
    assert set(outcome.seen.lines) == {f"dense, {METHOD}"}


def table_there(app):
    return any("System" in t.value for t in app.dataframe)


def test_two_windows_share_a_training(source, monkeypatch):
    go_on, real = threading.Event(), runs.run

    def held(request, loaded, place, job):
        assert go_on.wait(60)
        return real(request, loaded, place, job)

    monkeypatch.setattr(runs, "run", held)
    first = page(source, **{"train.seed": 6})
    first.button(key="train.start").click().run()
    job = first.session_state["jobs"]["train"]
    digest = first.session_state["train.mine"]
    runs.forget(digest)  # as where a third window trains it anew
    assert (runs.folder(digest) / runs.FILE).exists(), "what is under way is not deleted"
    second = screen("tune", source)
    assert second.segmented_control(key="tune.page").value == "Train"
    assert second.session_state["jobs"]["train"] is job and "train.cancel" in [b.key for b in second.button]
    mine = first.session_state["jobs"].started
    jobs._cancel_all(mine)  # as when the first window is closed
    mine.clear()
    assert not job.stop.is_set()
    second.button(key="train.cancel").click().run()
    assert second.button(key="train.cancel").disabled and second.button(key="train.cancel").label == "Stopping"
    go_on.set()
    assert "train.on" in [b.key for b in finished(second).button] and job.stop.is_set()


@pytest.fixture(scope="module")
def used(trained):
    """A session that uses what the method learnt: its source."""
    trained.button(key=f"train.use.{METHOD}").click().run()
    assert not trained.exception
    return trained.session_state["source"]


def test_a_damaged_file_in_use_is_written_again(source, used):
    path, space = kept.path_of(used.trained), loaded(source).space
    there = engine.load_trained(path, space)
    path.write_bytes(path.read_bytes()[:-1])
    assert kept.keep(there, METHOD, space.corpus.name) == used.trained
    assert engine.load_trained(path, space).digest == there.digest


def test_trained_embeddings_are_a_corpus_like_any_other(source, used):
    plain, there = state.loading(source).result, loaded(used)
    assert used.plain == source and there.plain is plain and there.dataset is plain.dataset
    asked = engine.embed_queries(there.space, plain.dataset.queries)
    assert torch.allclose(asked.vectors, there.queries, atol=1e-6)
    assert not torch.allclose(there.queries, plain.queries) and there.space.vectors.shape == plain.space.vectors.shape
    shown = [screen("explore", one, decoders=[METHOD]) for one in (source, used)]
    before, after = (next(t.value for t in app.dataframe if "Document" in t.value) for app in shown)
    assert not before.equals(after) and f"trained: {RECIPES[METHOD].title}" in texts(shown[1])
    way = {f"way.{plain.space.corpus.digest[:12]}": TYPED, f"own.{plain.space.corpus.digest[:12]}": "a violin"}
    typed = screen("explore", used, **way)
    assert any("Document" in t.value for t in typed.dataframe)
    names = state.variant_names(state.variants(there))
    assert f"bundled, float32 · trained: {RECIPES[METHOD].title}" in names and "bundled, float32" in names
    assert {live.path(there), live.path(plain)} == {live.path(there)} | {live.path(plain)}
    assert live.path(there) != live.path(plain)


def loaded(source):
    job = state.loading(source)
    job.join(120)
    assert job.error is None, job.error
    return job.result


@pytest.mark.parametrize("name", ["tradeoff", "tune", "drift", "data"])
def test_every_page_works_on_them(used, name):
    loaded(used)
    app = screen(name, used)
    assert not [e.value for e in app.error]


@pytest.mark.parametrize("name", ["tradeoff", "tune"])
def test_pages_that_measure_say_what_was_learnt_from(used, source, name):
    there = loaded(used)
    judged = there.dataset.judged("test")
    count = len(learnt_from(there.space, judged))
    assert 0 < count < len(judged)
    said, plain = ([w.value for w in screen(name, one).warning] for one in (used, source))
    told = f"{count} of these {len(judged)} queries were learnt from: these figures flatter the training."
    assert told in said and not any("learnt from" in w for w in plain)


def test_thumbs_move_trained_embeddings_and_are_logged_apart(used, source):
    there = loaded(used)
    asked = there.queries[0].numpy()
    live.add(there, lambda now: engine.orag.thumb(now, asked, 3, up=False, person="ana"))
    moved = live.adapted(there)
    assert live.count(there) == 1 and live.count(loaded(source)) == 0
    assert moved.training and moved.origin is there and moved.space.adapt is there.space.adapt
    apart = (moved.space.vectors != there.space.vectors).any(1).nonzero().flatten().tolist()
    assert apart == [3]
    app = screen("explore", used, **{live.ON: True})
    assert "learned from 1 piece of feedback" in texts(app) and not app.error


def test_the_address_names_the_checkpoint_and_the_way_back_is_a_click(source, used):
    there = loaded(used)
    assert state.named(state.addressed(used)) == replace(used, dtype=used.dtype)
    assert state.available(used) == used
    app = screen("tune", used, **QUICK)
    assert "In use now" in texts(app)
    app.button(key="train.plain").click().run()
    assert app.session_state["source"] == source and there.training
    app = screen("data", used)
    assert any("trained: " in t.value for t in app.text)


def test_a_checkpoint_that_is_not_what_its_name_says_is_refused(used, source):
    path = kept.path_of(used.trained)
    wrong = "f" * 32
    path.with_name(f"{wrong}.safetensors").write_bytes(path.read_bytes())
    job = state.loading(replace(source, trained=wrong))
    job.join(60)
    assert "holds others" in job.error


def test_code_for_elsewhere_loads_the_checkpoint(used):
    there = loaded(used)
    use = Use(corpus=used.path, **kept.told(there), query="a violin")
    decoder = engine.Decoder(engine.make("top_k"))
    found = {snippet.target: snippet for snippet in exports(decoder, use)}
    said = []
    exec(found["python"].text, {"print": said.append})
    ranking = engine.decode(decoder, there.space, ["a violin"], 10)
    assert said == [[there.space.corpus.ids[row] for row in ranking.index[0].tolist()]]
    words = shlex.split(found["command"].text)
    assert words[words.index("--trained") + 1] == str(kept.path_of(used.trained)) and "--dtype" in words
    assert "trained" in found["qdrant"].text
    assert json.loads(found["json"].text)["trained"] == str(kept.path_of(used.trained))
    assert kept.told(there.plain) == {}


def test_passages_stand_in_where_nothing_is_judged(home):
    rows = [f"{i},{' '.join(f'{THINGS[i * k % 8]} {i * k % 37}' for k in range(1, 14))}" for i in range(40)]
    file = home / "unlabelled.csv"
    file.write_text("\n".join(["id,text", *rows]), encoding="utf-8")
    source = Source(str(file), columns=("id", "text", None), dtype="float32")
    app = page(source)
    assert "Training needs judgements" in texts(app) and "train.start" not in [b.key for b in app.button]
    app.toggle(key="train.passages").set_value(True).run()
    assert not app.exception and "divided at random" in texts(app) and not app.button(key="train.start").disabled


def test_a_link_that_waited_for_its_corpus_brings_what_was_trained(source, used):
    app = screen("explore", source, link={"v": "1", **state.addressed(used), "k": "7"})
    assert app.session_state["source"] == used and app.session_state["k"] == 7
    assert "trained: " in texts(app) and not app.error


def test_trained_and_plain_are_compared(source, used):
    app = screen("data", used, **{"data.view": "Encoders"})
    app.button(key="data.encoders.start").click().run()
    finished(app, "encoders")
    shown = next(t.value for t in app.dataframe if "Overlap" in t.value)
    assert set(shown["Encoder"]) == set(state.variant_names(state.variants(loaded(used))))


def test_the_cache_says_what_was_trained(used):
    app = screen("data", used, **{"data.view": "Cache"})
    rows = next(t.value for t in app.dataframe if "What" in t.value)
    trained = list(rows["What"][rows["Section"] == "Trained embeddings"])
    name = Path(used.path).name
    assert f"{name}: {METHOD}, to be used" in trained and f"{name}: training of {METHOD}" in trained


def test_what_is_damaged_is_trained_anew(source):
    app = page(source, **{"train.seed": 8})
    app.button(key="train.start").click().run()
    job = app.session_state["jobs"]["train"]
    job.cancel()
    finished(app)
    digest = app.session_state["train.mine"]
    for file in runs.folder(digest).glob("*.safetensors"):
        file.write_bytes(b"no checkpoint")
    (runs.folder(digest) / "dense.safetensors").write_bytes(b"no checkpoint")
    other = page(source, **{"train.seed": 8})
    other.button(key=f"train.open.{digest}").click().run()
    assert "is not a checkpoint of Frontier" in texts(other) and "damaged" in texts(other)
    other.button(key="train.anew").click().run()
    assert table_there(finished(other))


def test_a_full_disk_costs_no_epoch_that_is_written(source, monkeypatch):
    written = []

    def full(path, facts, now):
        written.append(path.stem)
        if len(written) > 2:
            raise FrontierError("there is no room left")
        keep_run(path, facts, now)

    monkeypatch.setattr("engine.learning.training.run.keep_run", full)
    app = page(source, **{"train.seed": 9})
    app.button(key="train.start").click().run()
    app = finished(app)
    assert "Training ended early." in [e.value for e in app.error] and "there is no room left" in texts(app)
    monkeypatch.undo()
    left = histories(runs.folder(app.session_state["train.mine"]), METHOD)["dense"]
    assert [epoch.epoch for epoch in left] == [-1, 0]
    app.button(key="train.on").click().run()
    app = finished(app)
    after = app.session_state["jobs"]["train"].result.seen.histories["dense"]
    assert table_there(app) and after[:2] == left and len(after) > 2, "they are not trained again"
