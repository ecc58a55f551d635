"""The Train view without a browser: what it asks, what training leaves, and a corpus with what was trained."""

import json
from dataclasses import replace

import pytest
from test_pages import screen, texts, widgets

from dashboard import state
from dashboard.state import Source
from engine.evaluation.splits import parted
from engine.learning.training.recipes import RECIPES, declared

THINGS = ("apple pie", "steam engine", "violin", "volcano", "tax return", "chess", "heron", "lighthouse")
SORTS = ("history", "price", "repair", "poetry")
METHOD = list(RECIPES)[1]
"""One with an untrained decoder, a start and a control."""
QUICK = {"tune.page": "Train", "train.method": METHOD}
SMALL = {"hidden": 16, "epochs": 2}


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A cache of this file's own, and a corpus in it: things, and queries that name two of them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FRONTIER_HOME", str(tmp_path_factory.mktemp("home")))
        patch.setattr(state, "_JOBS", type(state._JOBS)())
        yield tmp_path_factory.mktemp("set")


@pytest.fixture(scope="module")
def folder(home):
    corpus = [{"_id": f"{t[:4]}-{s}", "text": f"On the {s} of the {t}"} for t in THINGS for s in SORTS]
    pairs = [(a, b, s) for a in range(8) for b in range(8) for s in range(4) if a < b and (a + b + s) % 2]
    queries = [{"_id": f"q{i}", "text": f"{THINGS[a]}, {THINGS[b]}: {SORTS[s]}"} for i, (a, b, s) in enumerate(pairs)]
    lines = [f"q{i}\t{THINGS[t][:4]}-{SORTS[s]}\t1\n" for i, (a, b, s) in enumerate(pairs) for t in (a, b)]
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
    return screen("tune", source, **QUICK, **given, **session)


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
        counts = {p.name for p in declared(method) if p.needs is None} - set(recipe.late)
        assert counts <= shown and not shown & set(recipe.late), method


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
