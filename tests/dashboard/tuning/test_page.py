"""The Tune screen without a browser: what it asks, what it refuses, what a run leaves, and what Apply sets."""

import json
import re
import threading
from dataclasses import replace

import numpy as np
import pytest

import engine
from dashboard.services import confirmations, corpora, jobs
from dashboard.services.source import Source
from dashboard.session import decoders
from dashboard.session.choices import TRADEOFF, PageChoice, digest_query_ids, identify_data
from dashboard.tuning.result import STATUS_COLOURS
from engine.evaluation.export_decoder import EXPORT_TARGETS
from engine.evaluation.splits import split_in_half, subsample
from engine.evaluation.sweep.cell import decoder_from_json
from engine.evaluation.tuning.tuned import is_choice_denied
from support import pages
from support.demo import demo_counts
from support.patience import patient

QUICK = {"tune.method": "mmr", "tune.most": 80}


def tuned(source=None, **session):
    return pages.press_and_finish(pages.screen("tune", source, **session), "tune.start", "tune")


@pytest.fixture(scope="module")
def outcomes():
    """What a quick tuning of MMR on the demo found, as a session keeps it."""
    return tuned(**QUICK).session_state["tune.outcomes"]


def shown(outcomes, **session):
    """The page of a session that has tuned."""
    return pages.screen("tune", **{**QUICK, "tune.outcomes": dict(outcomes), **session})


@pytest.fixture(scope="module")
def seen(outcomes):
    """That page, only to be looked at."""
    return shown(outcomes)


def headings(app):
    """What stands in HTML, without its tags."""
    return re.sub("<[^>]+>", "", " ".join(element.proto.body for element in app.get("html")))


def outcome(app):
    (result,) = app.session_state["tune.outcomes"].values()
    return result


def test_the_result_is_what_the_engine_finds(seen):
    app = seen
    loaded = pages.load()
    data = loaded.dataset
    qrels = {split: subsample(data.qrels[split], 80) for split in ("dev", "test")}
    asked = data.queries.only({q for own in qrels.values() for q in own.grades})
    vectors = engine.Embeddings(asked.ids, loaded.queries[[data.queries.position[q] for q in asked.ids]])
    result = engine.tune("mmr", loaded.space, vectors, qrels, objective=engine.Objective("diverse"))
    assert [s for s in result.sentences if s not in pages.texts(app)] == []
    assert [s for s in result.decision.sentences if s not in [t.value for t in app.text]] == []
    assert confirmations.count_by_page(loaded, "test")["Tune"] >= 1, "test is open, for Trade-off too"
    assert f"MMR · λ {result.decoder.select.relevance_weight}: " in headings(app) and result.status in headings(app)
    assert result.is_confirmed is not None
    report = pages.first_table(app, "test: chosen")
    rows = {row.metric: row for row in result.comparisons}
    assert list(report["Metric"]) == [f"{t}@10" for t in ("Recall", "Comp", "nDCG")] + ["Diversity (ILAD@10)"]
    assert list(report["test: chosen"]) == [rows[m].mean for m in ("recall", "comp", "ndcg", "ilad")]
    assert list(report["dev: Top-k"]) == [result.base.mean[m] for m in ("recall", "comp", "ndcg", "ilad")]
    all_dev, all_test = demo_counts()["dev"], demo_counts()["test"]
    assert f"A quick look: 80 of {all_dev} queries of dev and 80 of {all_test} queries of test" in pages.texts(app)
    assert outcome(app).tuned.as_json() == result.as_json()


def test_after_a_run_the_form_is_one_line_above_the_result(seen):
    (line,) = [one for one in seen.expander if one.label.startswith("Tuned ")]
    assert line.label.startswith("Tuned MMR for most diversity") and line.label.endswith("k = 10 · change")
    assert not line.proto.expanded
    assert {button.key for button in line.button} >= {"tune.start"}, "the whole form is inside"
    assert not any(one.label.startswith("Tuned ") for one in pages.screen("tune").expander), "nothing was tuned yet"


def test_a_bet_that_test_never_measured_is_said(outcomes, seen):
    ((digest, known),) = outcomes.items()
    decision = known.tuned.decision
    some = decision.bet or decision.sure or decision.nearest
    unknown = replace(some, confirmed=None, confirmed_share=None, confirmed_low=None, confirmed_gain=None)
    lowered = replace(known, tuned=replace(known.tuned, decision=replace(decision, bet=unknown)))
    app = shown({digest: lowered})
    said = f"The bet, {unknown.name}, was never measured on test"
    assert said in pages.texts(app) and "not measured on test" in headings(app)
    assert said not in pages.texts(seen), "the bet of a run is measured there"


def test_the_form_says_what_a_start_would_do():
    app = pages.screen("tune", **{"tune.method": "nnn", "tune.most": 30})
    assert "49 settings × 30 queries" in pages.texts(app)
    app.button_group(key="tune.free.nnn").set_value(["l1", "l2", "iterations"]).run()
    assert (
        "64 settings × 30 queries" in pages.texts(app)
        and "tune.trials" in pages.widgets(app)
        and "tune.points" not in pages.widgets(app)
    )
    app.button_group(key="tune.free.nnn").set_value([]).run()
    assert "nnn has no parameter to tune" in pages.texts(app) and app.button(key="tune.start").disabled


def test_fixed_parameters_start_as_explore_has_them():
    changed = {"explore.nnn.solver": "fista", "explore.nnn.iterations": 70, "explore.nnn.l2": 0.6}
    app = pages.screen("tune", **{"tune.method": "nnn", "tune.free.nnn": ["l1"], **changed})
    assert app.selectbox(key="tune.nnn.solver").value == "fista"
    assert app.slider(key="tune.nnn.iterations").value == 70
    assert app.select_slider(key="tune.nnn.l2").value == 0.6
    # Nobody touched it in Explore: then as sweeps take it, so that all settings return k documents.
    assert app.selectbox(key="tune.nnn.fill").value == "fill"


@pytest.mark.parametrize(
    "free,fixed,key",
    [
        (["l1"], {"scale": "support"}, "explore.nnn.l1.support"),
        pytest.param(["l1"], {"scale": "relative"}, "explore.nnn.l1.relative", marks=pytest.mark.deep),
        pytest.param(["l1", "l2"], {}, "explore.nnn.l1", marks=pytest.mark.deep),
    ],
)
def test_apply_sets_what_explore_shows(monkeypatch, free, fixed, key):
    gone = []
    monkeypatch.setattr(decoders, "open_explore", lambda: gone.append(True))
    fixed_keys = {f"tune.nnn.{name}": value for name, value in fixed.items()}
    app = tuned(**{"tune.method": "nnn", "tune.most": 10, "tune.free.nnn": free, "k": 7, "pool": 100, **fixed_keys})
    chosen = outcome(app).tuned.decoder.select
    assert pages.press(app, "tune.apply") and gone
    names = {key, *(f"explore.nnn.{p.name}" for p in chosen.spec.params), "decoders", "k", "pool"}
    there = pages.screen("explore", **{name: app.session_state[name] for name in names if name in app.session_state})
    sliders = {slider["param"]: slider["value"] for slider in pages.tiles(there)["nnn"]["sliders"]}
    assert sliders == {"l1": chosen.l1, "l2": chosen.l2}
    assert there.session_state["pool"] == 100 and len(pages.figures(there, "Recall@7")) == 3


def test_a_cancelled_run_keeps_what_is_finished_and_goes_on(monkeypatch):
    monkeypatch.setattr("dashboard.tuning.request.tune", pages.hold_after(engine.tune, 4))
    app = pages.screen("tune", **{**QUICK, "tune.most": 15, "tune.aim": "maximise"})
    job = pages.start_job(app, "tune.start", "tune", 4)
    assert "So far:" in pages.texts(app)
    assert "Stopped. Progress is saved." in pages.texts(pages.cancel_job(app, "tune"))
    first = {p.key for p in job.partial}
    pages.pick(app, "View", "All settings")
    shown = pages.first_table(app, "Returned")
    assert len(shown) == len(first) and {"λ", "Recall", "Diversity (ILAD)"} <= set(shown.columns)
    monkeypatch.setattr("dashboard.tuning.request.tune", pages.hold_after(engine.tune, 6))
    again = pages.start_job(app, "tune.on", "tune", 6)
    assert first < {p.key for p in again.partial}, "what was finished came from the store"
    pages.press(pages.cancel_job(app, "tune"), "tune.dismiss")
    assert "Stopped" not in pages.texts(app) and not app.button(key="tune.start").disabled


@pytest.mark.deep
def test_the_last_good_result_stays_and_says_so(outcomes, monkeypatch):
    app = shown(outcomes)
    good = outcome(app)
    app.slider(key="k").set_value(5).run()
    assert "from earlier settings" in " ".join(m.value for m in app.markdown)
    app.button_group(key="tune.free.mmr").set_value([]).run()
    assert "These settings cannot be tuned" in pages.texts(app) and outcome(app) is good
    assert good.tuned.sentences[0] in pages.texts(app)

    def broken(*_, **__):
        raise engine.DataError("the store is full of sand; choose another beach")

    monkeypatch.setattr("dashboard.tuning.request.tune", broken)
    app = pages.press_and_finish(shown(outcomes), "tune.start", "tune")
    assert "the store is full of sand" in pages.texts(app) and good.tuned.sentences[0] in pages.texts(app)


def test_other_work_is_waited_for_or_cancelled():
    app = pages.screen("tune", **QUICK)
    other = held_job(app, "a map", 34, 88)
    pages.run(app)
    assert app.button(key="tune.start").label == "Queue" and "A map is running (34 of 88)" in pages.texts(app)
    pages.press(app, "tune.start.cancel")
    other.join(patient(60))
    assert other.stop.is_set() and pages.run(app).button(key="tune.start").label == "Run"


def held_job(app, title, done, total):
    """Work that this session has running until it is stopped."""

    def work(job):
        job.report(done, total, title)
        begun.set()
        job.stop.wait(patient(60))

    begun = threading.Event()
    app.session_state["jobs"] = jobs.SessionJobs()
    job = app.session_state["jobs"]["other"] = jobs.Job(title, work)
    assert begun.wait(patient(60))
    return job


def test_an_opened_setting_shows_its_figures_and_can_be_applied(outcomes, monkeypatch):
    monkeypatch.setattr(decoders, "open_explore", lambda: None)
    app = shown(outcomes)
    result = outcome(app).tuned
    other = next(p for p in result.points if p.key != result.chosen.key)
    app.session_state["tune.picked"] = other.key
    app.run()
    beside = next(t.value for t in app.dataframe if "This setting" in list(t.value[t.value.columns[0]]))
    assert list(beside["Recall"]) == [
        pytest.approx(p.mean["recall"] - result.base.mean["recall"]) for p in (other, result.chosen)
    ]
    pages.press(app, "tune.apply.opened")
    weight = decoder_from_json(other.decoder).select.relevance_weight
    assert app.session_state["explore.mmr.relevance_weight"] == weight


def test_choice_that_is_not_confirmed_has_no_primary_button(outcomes, seen):
    (tuned,) = [outcome.tuned for outcome in outcomes.values()]
    (button,) = [b for b in seen.button if b.key == "tune.apply"]
    assert button.proto.type == ("secondary" if is_choice_denied(tuned) else "primary")


@pytest.mark.parametrize(
    ("low", "colour", "words"),
    [(0.001, None, "confirmed on test, but only +0.3%"), (0.05, True, "confirmed on test")],
)
def test_small_confirmed_gain_is_said_in_words_and_without_green(outcomes, low, colour, words):
    ((key, before),) = outcomes.items()
    gain = 0.003 if colour is None else 0.1
    sure = replace(before.tuned.decision.sure, confirmed=True, confirmed_gain=gain, confirmed_gain_low=low)
    decision = replace(before.tuned.decision, sure=sure)
    assert sure.label == before.tuned.chosen.label
    app = shown({key: replace(before, tuned=replace(before.tuned, decision=decision))})
    (heading,) = [element.proto.body for element in app.get("html") if "aria-level" in element.proto.body]
    assert f'<span style="color: {STATUS_COLOURS[colour]}">{words}</span>' in heading


def test_what_tradeoff_chose_for_the_same_question_is_named_beside_the_choice(outcomes, seen):
    assert "Trade-off chooses on the queries that it shows" in pages.texts(seen)
    digest = digest_query_ids(next(iter(outcomes.values())).tuned.estimates.aligned.queries)
    chosen = PageChoice(name="VRSD", n_queries=7, queries_digest="of others", split="test")
    app = shown(outcomes, choices={(TRADEOFF, identify_data(pages.load()), 10, 0.95): chosen})
    assert "Trade-off, on 7 queries of test: VRSD; this page chooses on 80 queries of dev." in pages.texts(app)
    for queries_digest, words in (
        (digest, "the same ones, among its own"),
        ("of others", "80 queries of dev, not the"),
    ):
        same = PageChoice(name="VRSD", n_queries=80, queries_digest=queries_digest, split="dev")
        app = shown(outcomes, choices={(TRADEOFF, identify_data(pages.load()), 10, 0.95): same})
        assert f"this page chooses on {words}" in pages.texts(app)


def test_one_target_after_the_other_and_the_files(outcomes):
    app = shown(outcomes)
    result = outcome(app).tuned
    assert "engine.make(" in app.code[0].value and len(app.button_group(key="tune.target").options) == len(
        EXPORT_TARGETS
    )
    pages.pick(app, "For", "JSON")
    assert decoder_from_json(json.loads(app.code[0].value)["decoder"]) == result.decoder


@pytest.mark.deep
def test_a_heat_map_of_two_parameters():
    app = tuned(**{"tune.method": "nnn", "tune.most": 10})
    assert len(next(g for g in app.segmented_control if g.label == "View").options) == 3
    pages.pick(app, "View", "Heat-map")
    assert app.selectbox(key="tune.map.metric").value == "ilad"
    app.selectbox(key="tune.map.metric").set_value("recall")
    assert "framed = chosen" in pages.texts(pages.run(app))


def test_without_judgements_the_page_teaches(tmp_path, monkeypatch):
    app = pages.screen("tune", pages.csv_source(tmp_path / "things.csv", [(1, "an apple"), (2, "a pear")]))
    assert "Tuning needs judgements" in pages.texts(app) and "tune.start" not in pages.keys(app)
    assert {"tune.load", "tune.judge.none"} <= set(pages.keys(app))
    monkeypatch.setattr("streamlit.switch_page", lambda page: None)
    assert pages.press(app, "tune.judge.none").session_state["data.view"] == "Judge"


@pytest.fixture
def folder(tmp_path):
    """Some of the demo as a BEIR folder, without judgements; `judge` writes a split."""
    data = engine.load_dataset("numpy-api")
    judged = list(data.qrels["dev"].grades)[:40]
    answers = {doc for query in judged for doc in data.qrels["dev"].grades[query]}
    rows = [(i, t) for i, t in zip(data.corpus.ids, data.corpus.passages, strict=True) if i in answers]
    queries = [(i, data.queries.texts[data.queries.position[i]]) for i in judged]

    def judge(name, judged):
        pages.beir(tmp_path, rows, queries, **{name: [(q, doc) for q in judged for doc in data.qrels["dev"].grades[q]]})

    judge.queries = judged
    return tmp_path, judge


def test_one_split_is_halved(folder):
    path, judge = folder
    judge("all", judge.queries)
    app = pages.screen("tune", Source(str(path)), **{"tune.method": "mmr"})
    parts = split_in_half(corpora.get_loading_job(Source(str(path))).result.dataset.qrels["all"])
    sizes = len(parts["dev"]), len(parts["test"])
    assert f"11 settings × {sizes[0]} queries" in pages.texts(app)
    assert "The two halves of all share no query" in pages.texts(pages.press_and_finish(app, "tune.start", "tune"))
    found = outcome(app).tuned
    assert found.test == "half 2 of all" and set(found.chosen.queries) == set(parts["dev"].grades)
    assert set(found.chosen_test.queries) == set(parts["test"].grades) and len(found.chosen_test.queries) == sizes[1]


def test_splits_that_share_queries_are_refused_in_the_engines_words(folder):
    path, judge = folder
    judge("dev", judge.queries[:20])
    judge("test", judge.queries[15:])
    app = pages.screen("tune", Source(str(path)), **{"tune.method": "mmr"})
    assert "'dev' and 'test' share 5 queries" in pages.texts(app) and app.button(key="tune.start").disabled
    report = next(s for s in app.selectbox if s.label == "Confirm on")
    report.set_value(1).run()
    assert not app.button(key="tune.start").disabled
    assert "measured on dev only" in headings(pages.press_and_finish(app, "tune.start", "tune"))


@pytest.mark.deep
def test_the_names_of_splits_are_never_markup(folder):
    path, judge = folder
    hostile = "$x^2$ :red[a] ![y](b) `c`"
    judge(hostile, judge.queries)
    app = tuned(Source(str(path)), **{"tune.method": "mmr"})
    pages.assert_plain(app, ":red[")
    assert hostile in pages.texts(app)


def test_own_vectors_cannot_embed_queries(folder):
    path, judge = folder
    judge("dev", judge.queries)
    rows = len((path / "corpus.jsonl").read_text().splitlines())
    np.save(path / "vectors.npy", np.eye(rows, dtype=np.float32))
    app = pages.screen("tune", Source(str(path)))
    assert "no encoder to embed its queries with" in pages.texts(app)
    assert "tune.start" not in pages.keys(app)


def test_every_decoder_is_compared_at_its_best(monkeypatch):
    monkeypatch.setattr(decoders, "open_explore", lambda: None)
    few = {"selectors": ("mmr", "vrsd", "nnn"), "points": 3}
    monkeypatch.setattr("dashboard.tuning.request.choose", lambda *a, **given: engine.choose(*a, **given | few))
    app = pages.screen("tune", **{"tune.most": 40, "tune.points": 3})
    assert app.selectbox(key="tune.method").value == "all" and "settings × 40 queries" in pages.texts(app)
    app = pages.press_and_finish(app, "tune.start", "tune")
    found = outcome(app).tuned
    assert f"{found.winner.name}{'' if found.stays else ':'} {found.status}" in headings(app)
    assert [s for s in found.decision.sentences if s not in [t.value for t in app.text]] == []
    assert [s for s in found.sentences if s not in pages.texts(app)] == []
    assert {one.decoder.select.spec.name for one in found.candidates} == set(few["selectors"])
    table = pages.first_table(app, "Diversity (ILAD) difference")
    rows = {row.name: row for row in found.comparisons if row.metric == "ilad"}
    assert {n: d for n, d in zip(table["Decoder"], table["Diversity (ILAD) difference"], strict=True)} == {
        n: r.difference for n, r in rows.items()
    }
    assert found.test == "test" and len(app.get("plotly_chart")) == 4
    past = pages.first_table(app, "Verdict")
    (newest,) = past[["Tuned", "Chosen", "Verdict"]].to_numpy().tolist()[:1]
    assert newest == ["every decoder", found.winner.name, found.status]
    pages.press(app, "tune.apply")
    assert found.decoder.select.spec.name in app.session_state["decoders"]
    pages.pick(app, "For", "JSON")
    assert decoder_from_json(json.loads(app.code[0].value)["decoder"]) == found.decoder


def test_own_vectors_of_queries_are_tuned(tmp_path):
    app = pages.screen("tune", pages.beir_with_vectors(tmp_path / "own"))
    assert "no encoder" not in pages.texts(app) and "tune.start" in pages.keys(app)


def test_bars_say_how_they_are_widened_and_what_a_tick_on_one_side_is(outcomes, seen):
    (tuned,) = [outcome.tuned for outcome in outcomes.values()]
    texts, n_compared = pages.texts(seen), max(row.comparisons for row in tuned.comparisons)
    assert f"Bars: 95% bootstrap intervals, widened as {n_compared:,} differences are looked at (Holm)." in texts
    assert not tuned.stays and "Tick on one side: what the choice surely keeps (95%)" in texts
