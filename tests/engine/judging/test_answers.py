"""Answers from decoders' sets: asked once, kept as they come, never guessed, graded by the relevant documents alone."""

import json
import threading
import time

import pytest
import torch

import engine
from engine.data.endpoints.client import ModelEndpoint
from engine.data.endpoints.config import EndpointSettings
from engine.errors import Cancelled, DataError, FrontierError, ParamError
from engine.evaluation.runs import RankedRun
from engine.judging.answer_log import AnswerLog
from engine.judging.answers import (
    MAX_ANSWER_CHARACTERS,
    MAX_READ_CHARACTERS,
    AnswerSession,
    AnswerWriter,
    SupportGrader,
    build_task,
    make_reader,
)
from engine.judging.chat import WAITING
from engine.values import Corpus, Embeddings, Qrels
from support.model_server import KEY, KEY_ENV, ModelServer, answer_by_words, complete_chat, status_fault

CORPUS = Corpus(
    tuple("abcdef"),
    ("sort an array", "sort numbers", "inverse of a matrix", "matrix product", "read a file", "x" * 9000),
)
QUERIES = Embeddings(("q1", "q2", "q3"), torch.eye(3), None, ("sort", "matrix", "file"))
QRELS = Qrels({"q1": {"a": 2, "b": 1}, "q2": {"d": 1}, "q3": {"e": 0}})
RUNS = (
    RankedRun("first", {"q1": ("a", "b"), "q2": ("c", "e"), "q3": ("e",)}),
    RankedRun("second", {"q1": ("a", "b"), "q2": ("e", "f")}),
)


@pytest.fixture
def server(tmp_path, monkeypatch):
    """A reader by words, the endpoint "mine" of the test's home."""
    monkeypatch.setenv("FRONTIER_HOME", str(tmp_path))
    monkeypatch.setenv(KEY_ENV, KEY)
    with ModelServer() as running:
        running.chat = answer_by_words
        # One request at a time, so that their order is known.
        running.write_settings(tmp_path, chat="wise", requests=1)
        yield running


@pytest.fixture
def begin(tmp_path, server):
    """Return a function that begins a session with the log of the test."""

    def begin_session():
        writer, grader = make_reader("mine")
        task = build_task(RUNS, CORPUS, QUERIES, QRELS, 2)
        return AnswerSession(task=task, writer=writer, grader=grader, log=AnswerLog(tmp_path / "log.sqlite"))

    return begin_session


def prompts_of(server):
    """Return the prompts that a server was sent."""
    return [body["messages"][0]["content"] for _, body in server.requests]


def test_equal_sets_are_read_once_and_answers_graded_by_relevant_documents_alone(server, begin):
    session = begin()
    assert session.task.n_unsupportable == 1 and session.task.systems == ("first", "second")
    estimate = session.estimate()
    session.run()
    answers, grades = prompts_of(server)[:3], prompts_of(server)[3:]
    # The systems return the same set for q1; second's set for q2 holds no answer, which nobody grades.
    assert len(answers) == 3 and len(grades) == 2 and estimate.n_texts == 6
    assert all("[1] sort an array\n\n[2] sort numbers" in prompt for prompt in (answers[0], grades[0]))
    assert "inverse of a matrix" in grades[1].split("Documents:")[0] and "[1] matrix product" in grades[1]
    assert "inverse" not in grades[1].split("Documents:")[1], "the grader does not read the set"
    assert all(len(prompt) < 2 * MAX_READ_CHARACTERS for prompt in answers)
    bodies = [body for _, body in server.requests]
    assert {body["temperature"] for body in bodies} == {0}
    assert bodies[-1]["response_format"]["json_schema"]["schema"]["properties"]["grade"]["enum"] == [0, 1, 2]
    begin().run()
    assert len(server.requests) == 5, "what is known is not paid for again"


def test_after_a_failure_and_a_cancellation_nothing_is_asked_twice(server, begin, go):
    server.faults += [None, status_fault(402)]
    with pytest.raises(DataError, match="status 402"):
        begin().run()
    n_failed, stop = len(server.requests), threading.Event()
    assert len(begin().log.read().written) == n_failed - 1

    def stop_in_flight(done, total, label):
        if len(server.requests) > n_failed and not stop.is_set():
            stop.set()
            threading.Timer(0.3, go.set).start()

    server.faults.append(lambda handler, body: go.wait(30) and None)
    with pytest.raises(Cancelled):
        begin().run(stop_in_flight, stop)
    begin().run()
    assert len(server.requests) == 3 + 2 + 1, "only the request that failed was sent again"


def test_nothing_is_sent_without_consent_for_answers_and_grades_together(server, begin):
    needed = begin().estimate().n_tokens
    assert needed > 3 * MAX_ANSWER_CHARACTERS / 3, "grades of answers to come count"
    with engine.allow_tokens(needed - 1), pytest.raises(FrontierError, match="would send 6 texts"):
        begin().run()
    assert server.requests == []
    with engine.allow_tokens(needed) as allowance:
        begin().run()
    assert allowance.n_tokens == needed


def ask_once(answer, monkeypatch, key_env=None):
    """Return what a writer and a grader make of one response."""
    monkeypatch.setenv(KEY_ENV, KEY)
    endpoint = ModelEndpoint(EndpointSettings(name="here", url="http://127.0.0.1:9/v1", chat="m", key_env=key_env))
    monkeypatch.setattr(endpoint, "post", lambda path, body, stop=None: answer)
    reading = build_task(RUNS, CORPUS, QUERIES, QRELS, 2).readings["q1", "first"]
    written = AnswerWriter(endpoint).answer(reading)
    return written, SupportGrader(endpoint).grade(reading, "an answer", ("a document",))


@pytest.mark.parametrize(
    ("response", "text", "grade", "reasons"),
    [
        (complete_chat({"answer": " so "}), "so", None, ("", "no grade: ")),
        (complete_chat({"answer": ""}), "", None, ("", "no grade: ")),
        (complete_chat({"reason": "r", "grade": 2.0}), None, 2, ("no answer: ", "r")),
        (complete_chat({"grade": 3, "answer": 3}), None, None, ("no answer: ", "no grade: ")),
        (complete_chat({"grade": True, "answer": None}), None, None, ("no answer: ", "no grade: ")),
        (complete_chat("Sort it: 2"), None, None, ("no answer: Sort it: 2", "no grade: Sort it: 2")),
        (complete_chat("[2]"), None, None, ("no answer: [2]", "no grade: [2]")),
        (complete_chat(None, refusal="I will not"), None, None, ("refused: I will not", "refused: I will not")),
        (complete_chat(""), None, None, ("refused: an empty answer", "refused: an empty answer")),
    ],
)
def test_answers_and_grades_are_read_and_never_guessed(response, text, grade, reasons, monkeypatch):
    written, graded = ask_once(response, monkeypatch)
    assert (written.text, graded.grade) == (text, grade)
    assert written.reason.startswith(reasons[0]) and graded.reason.startswith(reasons[1])


def test_an_answer_that_repeats_the_key_is_none(monkeypatch):
    for response in (complete_chat({"answer": f"use {KEY}", "grade": 1, "reason": KEY}), complete_chat(f"use {KEY}")):
        written, graded = ask_once(response, monkeypatch, KEY_ENV)
        assert written.text is None and "repeats the key" in written.reason and "repeats the key" in graded.reason
        assert KEY[:8] not in json.dumps([written.reason, graded.reason])


def test_prompts_hold_texts_as_they_are_and_name_what_they_lack(server, tmp_path):
    writer, grader = make_reader("mine")
    prompt = grader.write_prompt("what is {answer}?", "a {documents}", ["one {query}", "two"])
    assert "what is {answer}?" in prompt and "a {documents}" in prompt and "[1] one {query}\n\n[2] two" in prompt
    server.write_settings(tmp_path, chat="wise", answer_prompt="{query}: {documents}!")
    assert make_reader("mine")[0].name == "wise at mine with prompt " + make_reader("mine")[0].name[-6:] != writer.name
    server.write_settings(tmp_path, chat="wise", support_prompt="{query} {documents}")
    with pytest.raises(ParamError, match=r"must hold \{query\}, \{answer\} and \{documents\}; it has no"):
        make_reader("mine")


def test_two_sessions_ask_for_each_answer_once(server, begin, go):
    server.faults.append(lambda handler, body: go.wait(30) and None)
    first, labels = threading.Thread(target=begin().run), []
    first.start()
    while not server.requests:
        time.sleep(0.001)

    def release(done, total, label):
        labels.append(label)
        if label == WAITING:
            go.set()

    begin().run(release)
    first.join()
    assert len(server.requests) == 5 and WAITING in labels


def test_queries_that_nothing_can_support_are_an_error():
    with pytest.raises(DataError, match="no query has a relevant document"):
        build_task(RUNS, CORPUS, QUERIES, Qrels({"q1": {"a": 0}}), 2)
