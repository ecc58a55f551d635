"""`grade_answers`: shares and differences of decoders' answers by a model, and corrected by a person's sheet."""

import csv
import json

import pytest
import torch

import engine
from engine.evaluation.runs import RankedRun
from engine.judging.answer_log import AnswerLog
from engine.judging.grade_answers import begin_session, grade_answers, spread_grades, summarize_answers
from support.model_server import KEY, KEY_ENV, ModelServer, answer_by_words, complete_chat

N = 40
QUERIES = tuple(f"q{number}" for number in range(N))


def make_run(name, is_relevant):
    """Return a system that returns the relevant document of some queries, of the others one that shares a word."""
    return RankedRun(
        name, {query: (f"r{query}" if is_relevant(row) else f"s{query}",) for row, query in enumerate(QUERIES)}
    )


SYSTEMS = make_run("first", lambda row: row % 3), make_run("second", lambda row: row % 2)


@pytest.fixture
def judged(tmp_path, monkeypatch):
    """A corpus with a relevant document for each query, and one that shares a word with query and document."""
    monkeypatch.setenv("FRONTIER_HOME", str(tmp_path))
    monkeypatch.setenv(KEY_ENV, KEY)
    texts = {f"r{query}": f"word{query} wholly" for query in QUERIES} | {
        f"s{query}": f"word{query}" for query in QUERIES
    }
    corpus = engine.Corpus(tuple(texts), tuple(texts.values()))
    queries = engine.Embeddings(QUERIES, torch.eye(N), None, tuple(f"word{query}" for query in QUERIES))
    space = engine.Space(corpus, engine.Embeddings(corpus.ids, torch.eye(2 * N)))
    return space, queries, engine.Qrels({query: {f"r{query}": 1} for query in QUERIES})


@pytest.fixture
def server(tmp_path, judged):
    with ModelServer() as running:
        running.chat = answer_by_words
        running.write_settings(tmp_path, chat="wise", requests=4)
        yield running


def test_shares_and_outcomes_are_those_of_the_answers(judged, server, tmp_path):
    refused = iter(range(100))

    def refuse_some(body):
        is_grade = "Answer:" in body["messages"][0]["content"]
        return complete_chat(None, refusal="no") if is_grade and next(refused) < 2 else answer_by_words(body)

    server.chat = refuse_some
    server.write_settings(tmp_path, chat="wise", requests=1)
    grading = grade_answers(SYSTEMS, *judged, "mine", k=1)
    by_pair = {(answer.query, answer.system): answer for answer in grading.answers}
    assert len(by_pair) == 2 * N and grading.outcomes["refused"] >= 2
    names = [system.name for system in grading.support.systems]
    usable = [f"q{n}" for n in range(N) if all(by_pair[f"q{n}", name].grade is not None for name in names)]
    assert grading.support.n_left_out == N - len(usable) > 0
    for system in grading.support.systems:
        rate = sum(by_pair[query, system.name].grade == 2 for query in usable) / len(usable)
        assert system.rate == pytest.approx(rate)
    assert any(sentence.endswith("and are left out.") for sentence in grading.sentences)
    assert json.loads(json.dumps(grading.as_json()))["support"]["n_queries"] == len(usable)
    assert repr(grading) == f"AnswerGrading: {2 * N} answers of 2 systems by wise at mine, k=1"
    assert str(grading).splitlines() == list(grading.sentences)
    n_asked = len(server.requests)
    assert grade_answers(SYSTEMS, *judged, "mine", k=1).as_json() == grading.as_json()
    assert len(server.requests) == n_asked


def fill_in(path, n_queries, choose):
    """Fill in a person's grades of the first queries of a sheet; choose: answer and relevant documents → grade."""
    with path.open(encoding="utf-8-sig", newline="") as file:
        rows = list(csv.DictReader(file))
    first = list(dict.fromkeys(row["query"] for row in rows))[:n_queries]
    for row in rows:
        if row["query"] in first:
            row["grade"] = choose(row["answer"], row["relevant documents"])
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)


def test_a_persons_sheet_corrects_the_model(judged, server, tmp_path):
    grading, sheet = grade_answers(SYSTEMS, *judged, "mine", k=1), tmp_path / "sheet.csv"
    session = grading.session
    grading.write_sheet(sheet)
    fill_in(sheet, 3, lambda answer, documents: 2 if answer == documents else 0)
    few = summarize_answers(session, 1, sheet)
    assert not few.support.is_corrected and few.judgement.agreement.item == "answer"
    assert (
        few.judgement.remark == "Grade every decoder's answer to 27 more queries: then your grades correct the model's."
    )
    few.write_sheet(sheet)
    fill_in(sheet, 32, lambda answer, documents: 2 if answer == documents else 0)
    corrected = summarize_answers(session, 1, sheet)
    assert corrected.support.is_corrected and corrected.support.n_person == 32
    assert f"judged by wise at mine on {N} queries, corrected by 32 of yours" in corrected.sentences[0]
    # The model is right wherever the person looked, so its mean over all queries stands.
    for system, alone in zip(corrected.support.systems, grading.support.systems, strict=True):
        assert system.rate == pytest.approx(alone.rate, abs=0.15)
    assert engine.grade_answers(SYSTEMS, *judged, "mine", k=1, person=sheet).as_json() == corrected.as_json()
    # A model whose grades go against the person's is not used.
    fill_in(sheet, 32, lambda answer, documents: 0 if answer == documents else 2)
    against = summarize_answers(session, 1, sheet)
    assert "judged by you on 32 queries" in against.sentences[0] and "better than chance" in against.judgement.remark


def test_few_grades_against_the_model_and_a_decoder_without_grades_leave_the_model(judged, server, tmp_path):
    grading, sheet = grade_answers(SYSTEMS, *judged, "mine", k=1), tmp_path / "sheet.csv"
    grading.write_sheet(sheet)
    fill_in(sheet, 2, lambda answer, documents: 0 if answer == documents else 2)
    few = summarize_answers(grading.session, 1, sheet)
    assert few.judgement.agreement.kappa <= 0 and few.support.systems == grading.support.systems
    assert "28 more queries" in few.judgement.remark
    fill_in(sheet, N, lambda answer, documents: 2 if answer == documents else 0)
    assert summarize_answers(grading.session, 1, sheet).support.is_corrected
    # The new decoder's answer to every other query is that of an old one, which says nothing of the rest.
    space, queries, qrels = judged
    other = {f"t{query}": f"word{query} otherwise" for query in QUERIES}
    corpus = engine.Corpus((*space.corpus.ids, *other), (*space.corpus.passages, *other.values()))
    wider = engine.Space(corpus, engine.Embeddings(corpus.ids, torch.eye(3 * N)))
    new = RankedRun("new", {query: (f"{'rt'[row % 2]}{query}",) for row, query in enumerate(QUERIES)})
    added = grade_answers((*SYSTEMS, new), wider, queries, qrels, "mine", k=1, person=sheet)
    assert not added.support.is_corrected and added.judgement.remark.startswith("Grade 27 answers of new first")


def test_queries_with_empty_answers_alone_are_not_for_the_person(judged, server, tmp_path):
    runs = [RankedRun(run.name, {query: run.documents[query] for query in QUERIES[8:]}) for run in SYSTEMS]
    grading, sheet = grade_answers(runs, *judged, "mine", k=1), tmp_path / "sheet.csv"
    grading.write_sheet(sheet)
    fill_in(sheet, N, lambda answer, documents: 2 if answer == documents else 0)
    corrected = summarize_answers(grading.session, 1, sheet)
    assert corrected.support.is_corrected and corrected.support.n_person == 32
    assert [system.rate for system in corrected.support.systems] == pytest.approx(
        [sum(row % parts > 0 for row in range(8, N)) / N for parts in (3, 2)]
    )


def test_one_grade_counts_for_equal_answers_and_empty_ones_are_not_supported():
    texts = {("q", "a"): "x", ("q", "b"): "x", ("q", "c"): "", ("q", "d"): "y", ("r", "a"): ""}
    assert spread_grades({("q", "a"): 2}, texts) == {("q", "a"): 2, ("q", "b"): 2, ("q", "c"): 0}
    # What the model refused is no answer that could be graded, nor the same as another that it refused.
    assert spread_grades({("q", "a"): 2}, dict.fromkeys([("q", "a"), ("q", "b")])) == {}


def test_the_log_of_the_corpus_is_the_default_and_another_can_be_given(judged, server, tmp_path):
    space, queries, qrels = judged
    session = begin_session(SYSTEMS, space, queries, qrels, "mine", k=1)
    assert session.log.path.parent == tmp_path / "answers"
    log = AnswerLog(tmp_path / "own.sqlite")
    grade_answers(SYSTEMS[:1], space, queries, qrels, "mine", k=1, log=log)
    assert log.read().written and not session.log.path.exists()
    with pytest.raises(engine.ParamError, match="systems must have different names; got 2 of the name 'first'"):
        begin_session((*SYSTEMS, make_run("first", bool)), space, queries, qrels, "mine")
    with pytest.raises(engine.ParamError, match="systems must hold a decoder or a run; got none"):
        grade_answers([], space, queries, qrels, "mine")
