"""The Train view without a browser: what it asks, what training leaves, and a corpus with what was trained."""

import json
import time
from dataclasses import replace

import pytest
import torch
from test_pages import screen, texts, widgets

import engine
from dashboard import state
from dashboard.explore.question import TYPED
from dashboard.feedback import live
from dashboard.state import Source
from dashboard.training import kept
from engine.evaluation.splits import parted
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


def test_a_cancelled_training_keeps_its_best_and_goes_on(source):
    app = page(source, **{f"train.{METHOD}.epochs": 15, "train.seed": 5})
    app.button(key="train.start").click().run()
    job = app.session_state["jobs"]["train"]
    while job.running and not (job.partial and len(job.partial.histories.get("dense", ())) > 1):
        time.sleep(0.01)
    app.button(key="train.cancel").click().run()
    app = finished(app)
    stopped = job.result
    assert stopped.course.table is None and "by hand" in stopped.course.last.stopped
    assert f"dense: {stopped.course.last.stopped}" in texts(app) and not table_there(app)
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


def test_two_windows_share_a_training(source):
    first = page(source, **{f"train.{METHOD}.epochs": 20, "train.seed": 6})
    first.button(key="train.start").click().run()
    job = first.session_state["jobs"]["train"]
    second = screen("tune", source)
    assert second.segmented_control(key="tune.page").value == "Train"
    assert second.session_state["jobs"]["train"] is job and "train.cancel" in [b.key for b in second.button]
    job.let_go()  # as when the first window is closed
    assert not job.stop.is_set()
    second.button(key="train.cancel").click().run()
    finished(second)
    assert job.stop.is_set()


@pytest.fixture(scope="module")
def used(trained):
    """A session that uses what the method learnt: its source."""
    trained.button(key=f"train.use.{METHOD}").click().run()
    assert not trained.exception
    return trained.session_state["source"]


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


def test_thumbs_move_trained_embeddings_and_are_logged_apart(used, source):
    there = loaded(used)
    row = engine.orag.Event.of if hasattr(engine.orag.Event, "of") else None
    assert row is None or callable(row)
    assert live.session(there).history == () and live.adapted(there) is there


def test_the_address_names_the_checkpoint_and_the_way_back_is_a_click(source, used):
    there = loaded(used)
    assert state.named(state.addressed(used)) == replace(used, dtype=used.dtype)
    assert state.available(used) == used
    app = screen("tune", used, **QUICK)
    assert "In use now" in texts(app) or "train.plain" in [b.key for b in app.button]
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
