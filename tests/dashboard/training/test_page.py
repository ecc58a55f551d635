"""The Train view without a browser: what it asks, what training leaves, and runs that stop, fail or go on."""

import copy
import json
import re
import shlex
import threading
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import engine
from dashboard.services import corpora, feedback, jobs, training_request, training_runs
from dashboard.services import trained as kept
from dashboard.services.training_request import TrainingOutcome, TrainingProgress
from dashboard.session import address, decoders
from dashboard.session.parameters import param_key
from dashboard.session.query import TYPED
from dashboard.training.page import EXAMPLE_CLAIM, MINE, OPEN_KEY, OUTCOMES
from engine.evaluation.export_decoder import ExportContext, export_all
from engine.evaluation.paired import format_decoder
from engine.evaluation.splits import three_way
from engine.evidence.run import load_shipped
from engine.training.checkpoints import keep_run
from engine.training.experiment import histories
from engine.training.leakage import learnt_from
from engine.training.recipes import RECIPES, declared_params
from support import pages
from support.draws import deepen
from support.live_feedback import add
from support.patience import patient
from support.train_page import METHOD, QUICK, SMALL, THINGS, divide_key, page


@pytest.fixture(scope="module")
def state(source):
    """What a session keeps of a training that has come to its end."""
    session = pages.press_and_finish(page(source), "train.start", "train").session_state
    return {key: session[key] for key in (OUTCOMES, MINE, OPEN_KEY)}


@pytest.fixture
def trained(source, state):
    """The page of a session that has trained."""
    return page(source, **copy.deepcopy(state))


def test_the_form_has_what_methods_declare_and_divides_one_split(source):
    app = page(source)
    assert app.selectbox(key="train.method").options == [recipe.title for recipe in RECIPES.values()]
    count = len(corpora.get_loading_job(source).result.dataset.judged("test"))
    assert f"Random split of {count:,} queries (seed 0)" in pages.texts(app)
    parts = {
        name: len(part)
        for name, part in three_way(corpora.get_loading_job(source).result.dataset.qrels["test"]).items()
    }
    bar = next(element.proto.body for element in app.get("html") if 'role="img"' in element.proto.body)
    assert [int(size) for size in re.findall(r"flex: (\d+)", bar)] == list(parts.values())
    assert f"train {parts['train']}, validate {parts['dev']}, test {parts['test']}" in bar
    for method, recipe in RECIPES.items():
        app.selectbox(key="train.method").set_value(method).run()
        shown = {name.split(".")[2] for name in pages.widgets(app) if name.startswith(f"train.{method}.")}
        late = set(recipe.late) - (set(SMALL) if method == METHOD else set())
        assert {p.name for p in declared_params(method) if p.requires is None} - late <= shown and not shown & late, (
            method
        )


def test_what_tune_reports_on_is_not_learnt_from_by_default():
    (split,) = [box for box in pages.screen("tune", **{"tune.page": "Train"}).selectbox if box.label == "Query set"]
    assert split.value == "dev" and len(split.options) == 2


def test_the_only_split_is_learnt_from_only_when_asked(source):
    app = page(source, **{divide_key(source): False})
    count = len(pages.load(source).dataset.judged("test"))
    assert f"The only labelled queries are test · {count:,} queries" in pages.texts(app)
    assert not {"train.start", "train.look"} & {button.key for button in app.button}
    app.toggle(key=divide_key(source)).set_value(True).run()
    assert not app.exception and f"Random split of {count:,} queries" in pages.texts(app)
    assert "train.start" in {button.key for button in app.button}


def test_what_it_takes_is_said_beforehand(source):
    app = pages.press_and_finish(page(source), "train.look", "train.look")
    parts = three_way(corpora.get_loading_job(source).result.dataset.qrels["test"])
    metrics = {m.label: m.value for m in app.metric}
    assert metrics["Training queries"] == f"{len(parts['train'])}" and metrics["Relevant per query"] == "2.00"
    assert {"Left out", "Repeated", "Time per epoch", "Total, at most"} <= metrics.keys()


def test_what_is_said_before_training_is_of_the_form(source):
    app = page(source)
    assert "Trains small adapters" in pages.texts(app)
    side = next(p for p in declared_params(METHOD) if p.name == "query_side")
    app = page(source, **{f"train.{METHOD}.{side.name}": side.options[1]})
    assert "small adapters" not in pages.texts(app) and "the whole query encoder" in pages.texts(app)
    assert len({recipe().learns for recipe in RECIPES.values()}) == 3


def test_before_the_first_training_a_measured_claim_is_the_example(source):
    sentences = {row.claim.id: row.claim.sentence for row in load_shipped().rows}
    texts = pages.texts(page(source))
    assert sentences[EXAMPLE_CLAIM] in texts and re.search(r"Certain on \d of \d data sets\.", texts)


@pytest.mark.deep
def test_lines_are_explained_where_there_are_some(trained):
    assert " Lines: what" in pages.texts(trained)
    trained.segmented_control(key="train.after.stage.3").set_value("dense").run()
    assert "Epoch −1 is before training." in pages.texts(trained) and " Lines: what" not in pages.texts(trained)


def test_the_table_holds_the_control(trained):
    rows = pages.first_table(trained, "System")
    assert {"encoder", "dense", "dense-cont", METHOD} <= set(rows["System"])
    assert "±" in rows["Comp@5"].iloc[0] and "its control" in pages.texts(trained)
    assert " vs dense-cont (95% CI " in pages.texts(trained)
    ended = pages.first_table(trained, "Ended")
    assert list(ended["Stage"]) == ["dense", "dense-cont", METHOD] and all(ended["Ended"])
    trained.segmented_control(key="train.table").set_value("By relevant documents").run()
    assert any("2 relevant" in column for column in pages.first_table(trained, "System").columns)


def test_an_unknown_checkpoint_is_an_error_with_a_way_out(source):
    for name, message in (("0" * 32, "not on this machine"), ("../../etc/passwd", "32 hexadecimal digits")):
        app = pages.screen("explore", replace(source, trained=name))
        assert message in pages.texts(app) and "Use the encoder's own" in [b.label for b in app.button]
    next(b for b in app.button if b.label == "Use the encoder's own").click().run()
    assert not app.exception and app.session_state["source"] == source


@pytest.fixture(scope="module")
def using(source, state):
    """The page of a session that uses what the method learnt; only to be looked at."""
    return pages.press(page(source, **copy.deepcopy(state)), f"train.use.{METHOD}")


@pytest.fixture(scope="module")
def used(using):
    """The source of what the method learnt."""
    return using.session_state["source"]


def test_explore_is_set_to_what_was_trained_for(using, used):
    own = pages.load(used).trained_for
    assert METHOD in using.session_state["decoders"] and own.select.spec.name == METHOD
    assert using.session_state[param_key(own.select.spec, decoders.PARAM_PREFIX, "l1")] == own.select.l1
    assert f"Trained for {format_decoder(own)}" in pages.texts(pages.screen("tune", used, **QUICK))


def in_use():
    import streamlit as st

    from dashboard.training import result

    result.draw_in_use(st.session_state["loaded"])


def of_in_use(there):
    return pages.draw_page(in_use, loaded=there)


def test_another_scorer_comes_and_goes_with_what_was_trained_for_it(used):
    own = engine.Decoder(engine.make("top_k"), engine.make("max_sim"))
    app = of_in_use(replace(pages.load(used), trained_for=own))
    key = decoders.role_key("top_k", decoders.RETRIEVE)
    assert pages.press(app, "train.decoder").session_state[key] == "max_sim"
    assert pages.press(app, "train.plain").session_state[key] == decoders.first_scorer().spec.name


def test_what_never_got_better_is_not_said_to_have_learnt(trained, source, used):
    digest = trained.session_state["train.mine"]
    outcome = trained.session_state["train.outcomes"][digest]
    *others, last = outcome.stages
    session = {OPEN_KEY: trained.session_state[OPEN_KEY]}
    for best in (2, -1):
        changed = replace(outcome, stages=(*others, replace(last, best=best)))
        app = page(source, **session, **{OUTCOMES: {digest: changed}})
        assert ("Training never improved dev" in pages.texts(app)) == (best < 0)
        kind = app.button(key=f"train.use.{METHOD}").proto.type
        assert kind == ("secondary" if best < 0 else "primary")
        assert f"{METHOD} is trained for {last.decoder}" in pages.texts(app)
    assert "learnt by" in pages.texts(of_in_use(pages.load(used)))
    page_text = pages.texts(of_in_use(replace(pages.load(used), learnt=False)))
    assert "learnt" not in page_text and "never got better on dev" in page_text


def test_a_finished_training_is_shown_whole_again(trained, source):
    digest = trained.session_state["train.mine"]
    before = [training.digest for training in training_runs.list_trainings(pages.load(source))]
    app = pages.press_and_finish(page(source), f"train.open.{digest}", "train")
    own, outcome = (a.session_state["train.outcomes"][digest] for a in (trained, app))
    assert (
        pages.tables(app, "System")
        and dict(outcome.progress.lines) == dict(own.progress.lines)
        and outcome.progress.lines
    )
    assert outcome.progress.histories == own.progress.histories
    assert [training.digest for training in training_runs.list_trainings(pages.load(source))] == before


def test_a_finished_training_that_is_cancelled_waits(trained, source, monkeypatch):
    monkeypatch.setattr(
        training_runs,
        "run_training",
        lambda request, *_: TrainingOutcome(request, None, "", (), TrainingProgress({}, {})),
    )
    app = pages.press_and_finish(page(source), f"train.open.{trained.session_state[MINE]}", "train")
    assert app.button(key="train.on").label == "Show the table" and not pages.tables(app, "System")


def test_a_damaged_file_in_use_is_written_again(source, used):
    path, space = kept.find_checkpoint(used.trained), pages.load(source).space
    there = engine.load_trained(path, space)
    path.write_bytes(path.read_bytes()[:-1])
    assert kept.save_trained(there, METHOD, space.corpus.name) == used.trained
    assert engine.load_trained(path, space).digest == there.digest


def test_trained_embeddings_are_a_corpus_like_any_other(source, used):
    plain, there = corpora.get_loading_job(source).result, pages.load(used)
    assert used.without_training == source and there.without_training is plain and there.dataset is plain.dataset
    asked = engine.embed_queries(there.space, plain.dataset.queries)
    assert torch.allclose(asked.vectors, there.queries, atol=1e-6)
    assert not torch.allclose(there.queries, plain.queries) and there.space.vectors.shape == plain.space.vectors.shape
    shown = [pages.screen("explore", one, decoders=[METHOD]) for one in (source, used)]
    before, after = (pages.tiles(app)[METHOD]["now"] for app in shown)
    assert before != after and f"trained: {called(used)}" in pages.texts(shown[1])
    way = {f"way.{plain.space.corpus.digest[:12]}": TYPED, f"own.{plain.space.corpus.digest[:12]}": "a violin"}
    typed = pages.screen("explore", used, **way)
    assert all(pages.tiles(typed).values())
    names = corpora.format_variant_names(corpora.list_variants(there))
    assert f"bundled, float32 · trained: {called(used)}" in names and "bundled, float32" in names
    assert feedback.get_log_path(there) != feedback.get_log_path(plain)


def called(source):
    """The method, and what tells this training from another."""
    return f"{RECIPES[METHOD].title} {source.trained[:6]}"


@pytest.mark.parametrize("name", deepen(["tradeoff", "tune", "drift", "data"], ["drift"]))
def test_every_page_works_on_them_and_where_it_measures_says_what_was_learnt_from(used, source, name):
    there = pages.load(used)
    judged = there.dataset.judged("test")
    count = len(learnt_from(there.space, judged))
    assert 0 < count < len(judged)
    app = pages.screen(name, used)
    assert not [e.value for e in app.error]
    warning = f"{count} of these {len(judged)} queries were learnt from: these figures flatter the training."
    assert (warning in [w.value for w in app.warning]) == (name in ("tradeoff", "tune"))
    if name in ("tradeoff", "tune"):
        assert not any("learnt from" in w.value for w in pages.screen(name, source).warning)
    if name == "data":
        assert any("trained: " in t.value for t in app.text)


def test_thumbs_move_trained_embeddings_and_are_logged_apart(used, source):
    there = pages.load(used)
    asked = there.queries[0].numpy()
    add(there, lambda now: engine.orag.thumb(now, asked, 3, up=False, person="ana"))
    moved = feedback.adapt_corpus(there)
    assert feedback.count_events(there) == 1 and feedback.count_events(pages.load(source)) == 0
    assert moved.training and moved.origin is there and moved.space.adapt is there.space.adapt
    apart = (moved.space.vectors != there.space.vectors).any(1).nonzero().flatten().tolist()
    assert apart == [3]
    app = pages.screen("explore", used, **{feedback.LIVE_KEY: True})
    assert "moved by 1 vote" in pages.texts(app) and not app.error


def test_the_address_names_the_checkpoint_and_the_way_back_is_a_click(source, used):
    there = pages.load(used)
    assert address.parse_source(address.format_source(used)) == replace(used, dtype=used.dtype)
    assert address.find_source(used) == used
    app = pages.screen("tune", used, **QUICK)
    assert "In use now" in pages.texts(app)
    assert pages.press(app, "train.plain").session_state["source"] == source and there.training


def test_a_checkpoint_that_is_not_what_its_name_says_is_refused(used, source):
    path = kept.find_checkpoint(used.trained)
    wrong = "f" * 32
    path.with_name(f"{wrong}.safetensors").write_bytes(path.read_bytes())
    job = corpora.get_loading_job(replace(source, trained=wrong))
    job.join(patient(60))
    assert "holds others" in job.error


def test_code_for_elsewhere_loads_the_checkpoint(used):
    there = pages.load(used)
    use = ExportContext(corpus=used.path, **kept.export_fields(there), query="a violin")
    decoder = engine.Decoder(engine.make("top_k"))
    snippets = {snippet.target: snippet for snippet in export_all(decoder, use)}
    printed = []
    exec(snippets["python"].text, {"print": printed.append})
    ranking = engine.decode(decoder, there.space, ["a violin"], 10)
    assert printed == [[there.space.corpus.ids[row] for row in ranking.index[0].tolist()]]
    words = shlex.split(snippets["command"].text)
    assert words[words.index("--trained") + 1] == str(kept.find_checkpoint(used.trained)) and "--dtype" in words
    assert "trained" in snippets["qdrant"].text
    assert json.loads(snippets["json"].text)["trained"] == str(kept.find_checkpoint(used.trained))
    assert kept.export_fields(there.without_training) == {}


def test_a_link_that_waited_for_its_corpus_brings_what_was_trained(source, used):
    app = pages.screen("explore", source, link={"v": "1", **address.format_source(used), "k": "7"})
    assert app.session_state["source"] == used and app.session_state["k"] == 7
    assert "trained: " in pages.texts(app) and not app.error


def test_trained_and_plain_are_compared_and_the_cache_says_what_was_trained(used):
    app = pages.press_and_finish(pages.screen("data", used, **{"data.view": "Encoders"}), "data.encoders.start")
    shown = pages.first_table(app, "Overlap")
    assert set(shown["Encoder"]) == set(corpora.format_variant_names(corpora.list_variants(pages.load(used))))

    rows = pages.first_table(pages.pick(app, "View", "Cache"), "What")
    trained = list(rows["What"][rows["Section"] == "Trained embeddings"])
    name = Path(used.path).name
    assert f"{name}: {METHOD}, to be used" in trained and f"{name}: training of {METHOD}" in trained


@pytest.mark.deep
def test_a_stopped_training_keeps_its_best_and_goes_on(source, monkeypatch):
    real = training_request.course

    def stopping(*args, watch, stop, **kwargs):
        def seen(stage, epoch):
            watch(stage, epoch)
            if (stage, epoch.epoch) == ("dense", 1):
                stop.set()

        return real(*args, watch=seen, stop=stop, **kwargs)

    monkeypatch.setattr(training_request, "course", stopping)
    app = pages.press_and_finish(page(source, **{f"train.{METHOD}.epochs": 8, "train.seed": 5}), "train.start", "train")
    monkeypatch.setattr(training_request, "course", real)
    job = app.session_state["jobs"]["train"]
    stopped = job.result
    assert stopped.table is None and "by hand" in stopped.stages[-1].stopped
    assert f"dense: {stopped.stages[-1].stopped}" in pages.texts(app) and not pages.tables(app, "System")
    # Another window, as after a reload: it is found among the trainings of this corpus.
    digest = app.session_state["train.mine"]
    other = pages.press(page(source), f"train.open.{digest}")
    assert "Stopped in dense" in pages.texts(other) and "train.use.dense" in pages.keys(other)
    pages.press_and_finish(other, "train.on", "train")
    outcome = other.session_state["train.outcomes"][digest]
    kept = [epoch.as_json() for epoch in stopped.progress.histories["dense"]]
    assert [epoch.as_json() for epoch in outcome.progress.histories["dense"]][: len(kept)] == kept
    assert pages.tables(other, "System") and set(outcome.progress.histories) == {"dense", "dense-cont", METHOD}
    assert set(outcome.progress.lines) == {f"dense, {METHOD}"}


@pytest.fixture
def go_on(monkeypatch):
    """A training waits until this is set."""
    event, real = threading.Event(), training_runs.run_training

    def held(request, loaded, place, job):
        assert event.wait(patient(60))
        return real(request, loaded, place, job)

    monkeypatch.setattr(training_runs, "run_training", held)
    yield event
    event.set()


def test_two_windows_share_a_training(source, go_on):
    first = pages.press(page(source, **{"train.seed": 6}), "train.start")
    job = first.session_state["jobs"]["train"]
    digest = first.session_state["train.mine"]
    training_runs.delete_training(digest)  # as where a third window trains it anew
    assert (training_runs.training_folder(digest) / training_runs.REQUEST_FILE).exists(), (
        "what is under way is not deleted"
    )
    second = pages.screen("tune", source)
    assert second.segmented_control(key="tune.page").value == "Train"
    assert second.session_state["jobs"]["train"] is job and "train.cancel" in pages.keys(second)
    mine = first.session_state["jobs"]
    jobs._cancel_all(mine.queue, mine.session)  # as when the first window is closed
    mine.queue.clear()
    assert not job.stop.is_set()
    pages.press(second, "train.cancel")
    assert second.button(key="train.cancel").disabled and second.button(key="train.cancel").label == "Stopping"
    go_on.set()
    assert "train.on" in pages.keys(pages.finish_jobs(second, "train")) and job.stop.is_set()


@pytest.mark.threat("cancelling a training that another window has joined", "it goes on there")
def test_cancelling_a_shared_training_lets_go_of_ones_own_part(source, go_on):
    first = pages.press(page(source, **{"train.seed": 7}), "train.start")
    job = first.session_state["jobs"]["train"]
    second = pages.screen("tune", source)
    assert second.session_state["jobs"]["train"] is job
    pages.press(first, "train.cancel")
    assert job.is_active and "train.on" in pages.keys(first) and "Progress is saved" in pages.texts(first)
    assert second.button(key="train.cancel").label == "Cancel" and "train.cancel" in pages.keys(pages.run(second))
    pages.press(first, "train.on")
    assert first.session_state["jobs"]["train"] is job and "train.cancel" in pages.keys(first), "it is joined again"
    pages.press(first, "train.cancel")
    pages.press(second, "train.cancel")
    go_on.set()
    job.join(patient(60))
    assert job.stop.is_set()


def test_passages_stand_in_where_nothing_is_judged(own_home):
    rows = [(i, " ".join(f"{THINGS[i * k % 8]} {i * k % 37}" for k in range(1, 14))) for i in range(40)]
    app = page(replace(pages.csv_source(own_home / "unlabelled.csv", rows), dtype="float32"))
    assert "Training needs judgements" in pages.texts(app) and "train.start" not in pages.keys(app)
    app.toggle(key="train.passages").set_value(True).run()
    assert not app.exception and "Random split of" in pages.texts(app) and not app.button(key="train.start").disabled


@pytest.mark.deep
def test_what_is_damaged_is_trained_anew(source):
    app = pages.press(page(source, **{"train.seed": 8}), "train.start")
    app.session_state["jobs"]["train"].cancel()
    pages.finish_jobs(app, "train")
    digest = app.session_state["train.mine"]
    for file in training_runs.training_folder(digest).glob("*.safetensors"):
        file.write_bytes(b"no checkpoint")
    (training_runs.training_folder(digest) / "dense.safetensors").write_bytes(b"no checkpoint")
    other = pages.press(page(source, **{"train.seed": 8}), f"train.open.{digest}")
    assert "is not a checkpoint of Frontier" in pages.texts(other) and "damaged" in pages.texts(other)
    assert pages.tables(pages.press_and_finish(other, "train.anew", "train"), "System")


@pytest.mark.deep
def test_a_full_disk_costs_no_epoch_that_is_written(source, monkeypatch):
    written = []

    def full(path, facts, now):
        written.append(path.stem)
        if len(written) > 2:
            raise engine.FrontierError("there is no room left")
        keep_run(path, facts, now)

    monkeypatch.setattr("engine.training.train.keep_run", full)
    app = pages.press_and_finish(page(source, **{"train.seed": 9}), "train.start", "train")
    assert "Training failed." in [e.value for e in app.error] and "there is no room left" in pages.texts(app)
    monkeypatch.undo()
    left = histories(training_runs.training_folder(app.session_state["train.mine"]), METHOD)["dense"]
    assert [epoch.epoch for epoch in left] == [-1, 0]
    pages.press_and_finish(app, "train.on", "train")
    after = app.session_state["jobs"]["train"].result.progress.histories["dense"]
    assert pages.tables(app, "System") and after[:2] == left and len(after) > 2, "they are not trained again"


def test_own_vectors_of_queries_are_learnt_from_and_searched(own_home):
    source = pages.beir_with_vectors(own_home / "own", dimension=8, n_documents=12)
    app = page(source)
    side = param_key(RECIPES[METHOD], "train", "query_side")
    app.selectbox(key=side).set_value("encoder").run()
    assert "query side must be adapter" in pages.texts(app) and "train.start" not in pages.keys(app)
    app.selectbox(key=side).set_value("adapter").run()
    app = pages.press_and_finish(app, "train.start", "train")
    assert pages.tables(app, "System") and not app.error
    used_source = pages.press(app, f"train.use.{METHOD}").session_state["source"]
    explore = pages.screen("explore", used_source)
    assert pages.sets(explore) and not explore.exception and not explore.error
    (own_home / "own" / "query_vectors.npy").unlink()
    untrainable = page(replace(source, similarity="cosine"))
    assert "they have no vectors of their own" in pages.texts(untrainable)
