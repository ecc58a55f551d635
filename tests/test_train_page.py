"""The Train view without a browser: what it asks, what training leaves, and a corpus with what was trained."""

import json
import shlex
import threading
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from streamlit.testing.v1 import AppTest
from test_pages import screen, texts, widgets
from train_page_kit import METHOD, QUICK, SMALL, finished, loaded, page, table_there, written

import engine
from dashboard import state
from dashboard.controls import key_of
from dashboard.explore import setting
from dashboard.explore.question import TYPED
from dashboard.feedback import live
from dashboard.training import earlier, kept, plan, runs
from dashboard.training.plan import OUTCOMES
from dashboard.training.request import Outcome, Seen
from engine.evaluation.export import Use, exports
from engine.evaluation.splits import parted
from engine.learning.training.learnt import learnt_from
from engine.learning.training.recipes import RECIPES, declared


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A cache of this file's own, and a folder for corpora."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FRONTIER_HOME", str(tmp_path_factory.mktemp("home")))
        patch.setattr(state, "_JOBS", type(state._JOBS)())
        yield tmp_path_factory.mktemp("set")


@pytest.fixture(scope="module")
def source(home):
    return written(home)


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


def test_what_is_said_before_training_is_of_the_form(source):
    app = page(source)
    assert "small adapters" in texts(app) and "estimate what it takes" in texts(app)
    with pytest.MonkeyPatch.context() as patch:
        go_on = threading.Event()
        patch.setattr(plan, "look", lambda *_: go_on.wait(60))
        app.button(key="train.look").click().run()
        assert "What is trained" in texts(app) and "estimate what it takes" not in texts(app)
        go_on.set()
        app.session_state["jobs"]["train.look"].join(60)
    side = next(p for p in declared(METHOD) if p.name == "query_side")
    app = page(source, **{f"train.{METHOD}.{side.name}": side.options[1]})
    assert "small adapters" not in texts(app) and "the whole query encoder" in texts(app)
    assert len({recipe().learns for recipe in RECIPES.values()}) == 3


def test_lines_are_explained_where_there_are_some(trained):
    assert " Lines: what" in texts(trained)
    trained.segmented_control(key="train.after.stage.3").set_value("dense").run()
    assert "Epoch −1 is before training." in texts(trained) and " Lines: what" not in texts(trained)
    trained.segmented_control(key="train.after.stage.3").set_value(METHOD).run()


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


@pytest.fixture(scope="module")
def used(trained):
    """A session that uses what the method learnt: its source."""
    trained.button(key=f"train.use.{METHOD}").click().run()
    assert not trained.exception
    return trained.session_state["source"]


def test_explore_is_set_to_what_was_trained_for(trained, used):
    own = loaded(used).trained_for
    assert METHOD in trained.session_state["decoders"] and own.select.spec.name == METHOD
    assert trained.session_state[key_of(own.select.spec, setting.PREFIX, "l1")] == own.select.l1
    assert f"Trained for {own.label}" in texts(screen("tune", used, **QUICK))


def of_in_use(there):
    def body(there):
        from dashboard.training import result

        result.in_use(there)

    return AppTest.from_function(body, args=(there,)).run()


def test_another_scorer_comes_and_goes_with_what_was_trained_for_it(used):
    own = engine.Decoder(engine.make("top_k"), engine.make("max_sim"))
    app = of_in_use(replace(loaded(used), trained_for=own))
    key = setting.role_key("top_k", setting.RETRIEVE)
    app.button(key="train.decoder").click().run()
    assert app.session_state[key] == "max_sim"
    app.button(key="train.plain").click().run()
    assert app.session_state[key] == setting.first_scorer().spec.name and not app.exception


def test_what_never_got_better_is_not_said_to_have_learnt(trained, source, used):
    digest = trained.session_state["train.mine"]
    outcome = trained.session_state["train.outcomes"][digest]
    *others, last = outcome.stages
    session = {earlier.AT: trained.session_state[earlier.AT]}
    for best in (2, -1):
        changed = replace(outcome, stages=(*others, replace(last, best=best)))
        app = page(source, **session, **{OUTCOMES: {digest: changed}})
        assert ("Training never improved dev" in texts(app)) == (best < 0)
        kind = app.button(key=f"train.use.{METHOD}").proto.type
        assert kind == ("secondary" if best < 0 else "primary")
        assert f"{METHOD} is trained for {last.decoder}" in texts(app)
    assert "learnt by" in texts(of_in_use(loaded(used)))
    said = texts(of_in_use(replace(loaded(used), learnt=False)))
    assert "learnt" not in said and "never got better on dev" in said


def test_a_finished_training_is_shown_whole_again(trained, source):
    digest, before = trained.session_state["train.mine"], [one.digest for one in runs.of(loaded(source))]
    app = page(source)
    app.button(key=f"train.open.{digest}").click().run()
    app = finished(app)
    own, outcome = (a.session_state["train.outcomes"][digest] for a in (trained, app))
    assert table_there(app) and dict(outcome.seen.lines) == dict(own.seen.lines) and outcome.seen.lines
    assert outcome.seen.histories == own.seen.histories and [one.digest for one in runs.of(loaded(source))] == before


def test_a_finished_training_that_is_cancelled_waits(trained, source, monkeypatch):
    monkeypatch.setattr(runs, "run", lambda request, *_: Outcome(request, None, "", (), Seen({}, {})))
    app = page(source)
    app.button(key=f"train.open.{trained.session_state['train.mine']}").click().run()
    app = finished(app)
    assert app.button(key="train.on").label == "Show the table" and not table_there(app)


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
    assert not before.equals(after) and f"trained: {called(used)}" in texts(shown[1])
    way = {f"way.{plain.space.corpus.digest[:12]}": TYPED, f"own.{plain.space.corpus.digest[:12]}": "a violin"}
    typed = screen("explore", used, **way)
    assert any("Document" in t.value for t in typed.dataframe)
    names = state.variant_names(state.variants(there))
    assert f"bundled, float32 · trained: {called(used)}" in names and "bundled, float32" in names
    assert {live.path(there), live.path(plain)} == {live.path(there)} | {live.path(plain)}
    assert live.path(there) != live.path(plain)


def called(source):
    """The method, and what tells this training from another."""
    return f"{RECIPES[METHOD].title} {source.trained[:6]}"


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
