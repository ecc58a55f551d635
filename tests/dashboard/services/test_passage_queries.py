"""A corpus without judgements, measured on passages of its own: on Trade-off, on Tune, and as a folder."""

import json
import re
import threading

import pytest
import streamlit as st

import engine
from dashboard.charts.verdict_data import list_headlines
from dashboard.services import passage_queries, query_vectors, sweeps
from dashboard.tradeoff import selection
from dashboard.tradeoff.verdict import shorten_headlines
from dashboard.widgets import passages
from engine.data.beir import write_beir
from engine.data.cloze import PASSAGES_SPLIT, SPLIT
from engine.evaluation.decision import PASSAGES_CAUTION, PASSAGES_PREFIX
from support.charts import figure, ids
from support.cli import run
from support.pages import component, csv_source, finish_jobs, job_of, keys, press, screen, texts
from support.patience import patient

THINGS = ("apple", "pear", "plum", "cherry", "quince", "medlar", "grape", "fig", "olive", "date", "lemon", "lime")
PLACES = ("garden", "orchard", "market", "kitchen", "cellar")


@pytest.fixture
def source(tmp_path):
    """Sixty short texts, nothing judged, markup among them."""
    rows = [
        f"<b>The</b> {THINGS[i % 12]} of number {i} grows in a {PLACES[i % 5]} where {THINGS[i * 7 % 12]} and "
        f"{THINGS[i * 5 % 11]} were sold for {i * 13} coins"
        for i in range(60)
    ]
    return csv_source(tmp_path / "unlabelled.csv", enumerate(rows))


@pytest.fixture(autouse=True)
def forgotten():
    """As in a server that has just started."""
    passage_queries._PASSAGE_TASKS.clear()
    sweeps._CELLS.clear()
    query_vectors._QUERY_VECTORS.clear()


def tradeoff(source, **session):
    return screen("tradeoff", source, **{"tradeoff.decoders": ["top_k", "mmr"], "tradeoff.values": 3, **session})


def test_trade_off_measures_passages_of_an_unlabelled_corpus(source):
    app = tradeoff(source)
    assert "tradeoff.judge.own" in keys(app), "the way to queries of people"
    page_text = texts(app)
    assert re.search(r"to measure · .* · about .*s once the queries are embedded\.", page_text)
    for said in ("60 passages of 5 to 25 words", "People's questions are harder", "1 passage has several right"):
        assert said in page_text
    assert any("Recall is the share of these" in caption.proto.help for caption in app.caption)
    app = finish_jobs(press(app, "tradeoff.start") if "tradeoff.start" in keys(app) else app)
    drawn = figure(app)
    assert len(ids(drawn)) == 5 and "Recall@10" in drawn["layout"]["yaxis"]["title"]["text"]
    assert any("MRR" in s.options for s in app.selectbox)
    # The page's numbers are the engine's.
    data = engine.load_dataset(source.path, columns=engine.data.tables.Columns(id="id", text="text"))
    made = engine.containing_passages(data.corpus, distractors=0)
    assert made.corpus.digest == data.corpus.digest
    space = engine.Space(data.corpus, engine.embed(data.corpus))
    decoders, queries = [engine.Decoder(engine.make("top_k"))], engine.embed(made.queries)
    point = next(engine.sweep(decoders, space, queries, made.qrels[SPLIT], 10, ("recall",)))
    cards = [text for trace in drawn["data"] for text in trace.get("hovertext") or ()]
    assert any(f"Recall@10 {point.mean['recall']:.3f}" in text for text in cards), cards[:2]


def test_verdict_on_passages_says_so_and_judging_is_the_next_step(source):
    app = tradeoff(source)
    app = finish_jobs(press(app, "tradeoff.start") if "tradeoff.start" in keys(app) else app)
    kinds = {button.key: button.proto.type for button in app.button}
    assert kinds["tradeoff.judge.own"] == "primary" and list(kinds.values()).count("primary") == 1
    assert kinds.get("tradeoff.use", "secondary") == "secondary"
    sentences = [text.value for text in app.text]
    (first,) = [text for text in sentences if text.startswith("On passages cut from your documents, with MMR alone ")]
    assert PASSAGES_CAUTION in sentences
    estimates = app.session_state[selection.LAST_KEY][2]
    assert estimates.is_on_passages and 0 < estimates.corpus_relevance < 1
    decision = estimates.decide(0.95)
    assert first == list_headlines(decision, "With MMR alone")[0]
    assert shorten_headlines(decision, "With MMR alone")[0].startswith(PASSAGES_PREFIX + "with MMR alone: ")


@pytest.mark.deep
def test_a_passage_is_asked_with_its_judgements_and_other_pages_ask_its_words(source):
    app = tradeoff(source)
    app = finish_jobs(press(app, "tradeoff.start") if "tradeoff.start" in keys(app) else app)
    next(i for i in app.text_input if i.label == "Your query").set_value("a pear").run()
    assert " of 60 · " not in texts(app), "no passage"
    for key, rank in (("most", 1), ("after", 2), ("least", 60)):
        press(app, f"tradeoff.{key}")
        assert f"{rank} of 60 · Recall" in texts(app), key
    assert component(app, "tradeoff.set")["along"]["judged"] >= 1
    (task,) = passage_queries._PASSAGE_TASKS.values()
    assert next(i.value for i in app.text_input if i.label == "Your query") in task.queries.texts


def test_tune_takes_passages_and_says_so(source):
    app = screen("tune", source, **{"tune.method": "mmr", "tune.points": 3})
    assert "Tuning needs judgements" in texts(app)
    app.toggle(key="tune.passages").set_value(True).run()
    assert not app.exception and "60 passages of 5 to 25 words" in texts(app)
    assert [s.options for s in app.selectbox if s.label == "Choose on"] == [[PASSAGES_SPLIT]]
    app = finish_jobs(press(app, "tune.start"))
    (outcome,) = app.session_state["tune.outcomes"].values()
    assert outcome.tuned.dev == "half 1 of passages" and "share no query" in outcome.remarks
    estimates = outcome.tuned.estimates
    assert estimates.is_stray.any() and 0 < estimates.corpus_relevance < 1
    assert any(sentence.startswith("Left out: ") for sentence in outcome.tuned.sentences)
    assert all(sentence in texts(app) for sentence in outcome.tuned.sentences)
    app.toggle(key="tune.passages").set_value(False).run()
    assert not app.exception and "Tuning needs judgements" in texts(app)


def test_a_large_corpus_is_looked_through_by_a_job(source, monkeypatch, go):
    monkeypatch.setattr(passage_queries, "MAX_PAGE_CHARACTERS", 0)
    whole = engine.containing_passages

    def held(*args, **options):
        go.wait(patient(60))
        return whole(*args, **options)

    monkeypatch.setattr(engine, "containing_passages", held)
    app = tradeoff(source)
    assert job_of(app, passages.PASSAGES_PURPOSE) and not app.get("plotly_chart")
    press(app, "passages.cancel")
    go.set()
    app = finish_jobs(app)
    assert job_of(app, passages.PASSAGES_PURPOSE).cancelled and "60 passages" not in texts(app)
    assert "60 passages" in texts(finish_jobs(press(app, "passages.start")))


def test_texts_too_short_for_a_passage_are_said_with_a_way_to_judge(tmp_path, monkeypatch):
    opened_pages = []
    monkeypatch.setattr(st, "switch_page", opened_pages.append)
    app = tradeoff(csv_source(tmp_path / "short.csv", [(1, "an apple"), (2, "a pear")]))
    assert "no document has a passage of 5 words" in texts(app)
    press(app, "tradeoff.judge.own")
    assert app.session_state["data.view"] == "Judge" and opened_pages == ["screens/data.py"]


def test_labelled_corpora_keep_their_own_queries():
    app = screen("tradeoff", **{"tradeoff.decoders": ["top_k"]})
    assert "word for word" not in texts(app)


def test_the_folder_is_the_task(source, tmp_path):
    out = str(tmp_path / "task")
    output = run("passages", "--corpus", source.path, "--out", out, "--count", "9", "--distractors", "3", "--seed", "4")
    data = engine.load_dataset(source.path)
    made = engine.containing_passages(data.corpus, 9, distractors=3, seed=4)
    assert f"of which {len(made.corpus) - len(data.corpus):,} are distractors" in output
    read = engine.load_dataset(out)
    for part in ("ids", "texts"):
        assert getattr(read.corpus, part) == getattr(made.corpus, part)
        assert getattr(read.queries, part) == getattr(made.queries, part)
    assert read.qrels[SPLIT] == made.qrels[SPLIT] and not read.notices
    answer = json.loads(run("decode", "--corpus", out, "--split", SPLIT, "--json"))
    assert answer["queries"] == 9 and answer["mean"]["recall"] > 0.5 and answer["mean"]["mrr"] > 0
    again = run("passages", "--corpus", source.path, "--out", out, fails=True)
    assert "must be a new or an empty folder" in again
    wrong = run("passages", "--corpus", source.path, "--out", f"{out}/b", "--shortest", "0", fails=True)
    assert "shortest must be a whole number in [1, ∞); got '0'" in wrong


@pytest.mark.parametrize("odd", ["a\tb", "a\nb", " ", "a\ud800"])
def test_ids_that_no_table_holds_are_refused_before_anything_is_written(tmp_path, odd):
    corpus = engine.Corpus((odd, "b"), ("one two three four five six", "seven eight nine ten eleven twelve"))
    made = engine.containing_passages(corpus, distractors=0)
    with pytest.raises(engine.DataError, match="cannot stand in a table of columns"):
        write_beir(made, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_making_the_task_reports_and_stops():
    corpus = engine.Corpus(tuple(map(str, range(600))), tuple(f"w{i} b c d e f" for i in range(600)))
    seen = []
    engine.containing_passages(corpus, progress=lambda *told: seen.append(told))
    assert [label for done, _, label in seen if not done] == [
        "reading words",
        "choosing passages",
        "looking for passages",
    ]
    assert max(done for done, _, _ in seen) >= 512 and all(done < total for done, total, _ in seen)
    stop = threading.Event()
    stop.set()
    with pytest.raises(engine.Cancelled):
        engine.containing_passages(corpus, stop=stop)
