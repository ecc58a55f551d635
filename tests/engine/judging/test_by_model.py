"""A model as a judge: what it answers is in the log as it came, is never asked twice, and is nobody else's grade."""

import json
import random
import threading
import time

import pytest
from sklearn.metrics import cohen_kappa_score

from engine.data.endpoints.client import ModelEndpoint
from engine.data.endpoints.config import EndpointSettings
from engine.errors import Cancelled, DataError, ParamError
from engine.judging.by_model import (
    DEFAULT_PROMPT,
    MAX_DOCUMENT_CHARACTERS,
    ModelAnswer,
    ModelJudge,
    compare_with_people,
    find_open_pairs,
    judge_by_model,
    make_judge,
    read_answer,
)
from engine.judging.chat import wait_for_turn
from engine.judging.log import JudgingLog
from engine.judging.qrels import merge_grades
from engine.values import Corpus, Queries
from support.fork_server import fork_python
from support.model_server import KEY, KEY_ENV, ModelServer

QUERIES = Queries(("q1", "q2"), ("how to sort", "inverse of a matrix"))
CORPUS = Corpus(tuple(f"d{i}" for i in range(6)), tuple(f"text number {i}" for i in range(6)))
PAIRS = tuple((query, document) for query in QUERIES.ids for document in CORPUS.ids)


def chat(content, **message):
    """Return the response of a chat completion with this content."""
    return {"choices": [{"message": {"role": "assistant", "content": content, **message}}]}


def answer_with(grade, reason="as it says"):
    return chat(json.dumps({"reason": reason, "grade": grade}))


class Service(ModelEndpoint):
    """A chat model without a connection. answer: a body → a response; by default the digit of the document as grade."""

    def __init__(self, answer=None, fail_at=None, delay=0.0, requests=1, prompt="", key_env=None):
        super().__init__(
            EndpointSettings(
                name="here",
                url="http://127.0.0.1:9/v1",
                chat="m",
                requests=requests,
                judge_prompt=prompt,
                key_env=key_env,
            )
        )
        self.answer, self.asked, self.fail_at, self.delay, self.mutex = answer, [], fail_at, delay, threading.Lock()

    def post(self, path, body, stop=None):
        assert path == "/chat/completions"
        if stop is not None and stop.is_set():
            raise Cancelled("stopped while a server was asked; what came back is kept")
        with self.mutex:
            self.asked.append(body)
            n_asked = len(self.asked)
        time.sleep(self.delay)
        if n_asked == self.fail_at:
            raise DataError("the service answered with status 500")
        if self.answer is not None:
            return self.answer(body)
        return answer_with(int(body["messages"][0]["content"].split("text number ")[1][0]) % 4)


@pytest.fixture
def log(tmp_path):
    return JudgingLog(tmp_path / "log.sqlite")


def run(log, service, pairs=PAIRS, **options):
    return judge_by_model(log, ModelJudge(service), pairs, QUERIES, CORPUS, **options)


@pytest.mark.parametrize("requests", [1, 3])
def test_every_pair_is_asked_once_and_kept_apart_from_peoples(log, requests):
    log.judge("q1", "d1", 3, "ann")
    service, seen = Service(requests=requests), []
    judging = run(log, service, progress=lambda done, total, label: seen.append((done, total)))
    judged = log.read()
    assert (judging.pairs, judging.graded, judging.refused, judging.unreadable) == (12, 12, 0, 0)
    assert merge_grades(judged.only_model("m at here")).grades["q2"] == {f"d{i}": i % 4 for i in range(6)}
    assert (
        merge_grades(judged).grades == {"q1": {"d1": 3}}
        and judged.people == ("ann",)
        and judged.models == ("m at here",)
    )
    assert judged.touched_pairs == {("q1", "d1")}
    assert judged.of_model("m at here")["q1", "d0"].reason == "as it says"
    assert seen[0] == (0, 12) and seen[-1] == (12, 12)
    run(log, service)
    assert len(service.asked) == 12, "what is known is not paid for again"
    assert JudgingLog(log.path).read().of_model("m at here") == judged.of_model("m at here")


def test_a_person_called_like_the_model_undoes_their_own(log):
    run(log, Service())
    log.judge("q1", "d1", 0, "m at here")
    judged, undone = log.undo("m at here")
    assert undone.document == "d1" and not undone.is_model
    assert len(judged.of_model("m at here")) == 12 and log.undo("m at here")[1] is None


def test_after_a_failure_it_goes_on_without_asking_again(log):
    failing = Service(fail_at=5, requests=3)
    with pytest.raises(DataError, match="status 500"):
        run(log, failing)
    kept = log.read().of_model("m at here")
    assert len(kept) == len(failing.asked) - 1, "answers on their way are kept"
    second = Service()
    assert run(log, second).graded == 12 and len(second.asked) == 12 - len(kept)
    assert find_open_pairs(log.read(), "m at here", PAIRS) == ()


def test_cancelled_it_keeps_what_came(log):
    stop, service = threading.Event(), Service(delay=0.01, requests=2)

    def stop_after_three(done, total, label):
        if done >= 3:
            stop.set()

    with pytest.raises(Cancelled, match="what came back is kept"):
        run(log, service, progress=stop_after_three, stop=stop)
    assert len(service.asked) == len(log.read().of_model("m at here")) < 12


def test_cancelled_while_the_server_answers_it_keeps_the_grades_that_are_paid(log, tmp_path, monkeypatch, go):
    monkeypatch.setenv("FRONTIER_HOME", str(tmp_path))
    monkeypatch.setenv(KEY_ENV, KEY)
    stop = threading.Event()
    with ModelServer() as server:
        server.write_settings(tmp_path, chat="wise", requests=2)
        server.chat = lambda body: answer_with(1)
        # The server holds both answers back until the cancellation had time to end the wait for them.
        server.faults += [lambda handler, body: go.wait(30) and None] * 2

        def stop_in_flight(done, total, label):
            if len(server.requests) == 2 and not stop.is_set():
                stop.set()
                threading.Timer(0.5, go.set).start()

        with pytest.raises(Cancelled):
            judge_by_model(log, make_judge("mine"), PAIRS, QUERIES, CORPUS, progress=stop_in_flight, stop=stop)
        assert len(server.requests) == 2, "nothing is sent after the cancellation"
    assert len(log.read().of_model("wise at mine")) == 2


@pytest.mark.parametrize(
    ("response", "grade", "reason"),
    [
        (answer_with(2, "because"), 2, "because"),
        (answer_with(2.0), 2, "as it says"),
        (chat('```json\n{"grade": 1, "reason": "a"}\n```'), 1, "a"),
        (chat('{"grade": 3}'), 3, ""),
        (chat(None, refusal="I will not"), None, "refused: I will not"),
        (chat(""), None, "refused: an empty answer"),
        (chat("Relevant, I think: 2"), None, "no grade: Relevant, I think: 2"),
        (answer_with(4), None, "no grade: "),
        (answer_with(1.5), None, "no grade: "),
        (answer_with(True), None, "no grade: "),
        (answer_with("2"), None, "no grade: "),
        (chat("[2]"), None, "no grade: "),
        (chat([{"type": "text", "text": '{"grade": 1}'}]), 1, ""),
        (chat([{"type": "image"}]), None, "refused: an empty answer"),
        (chat("[" * 100_000), None, "no grade: "),
        (chat('{"grade": NaN}'), None, "no grade: "),
    ],
)
def test_a_grade_is_read_and_never_guessed(response, grade, reason):
    answer = read_answer(response)
    assert answer.grade == grade and answer.reason.startswith(reason) and len(answer.reason) < 500


@pytest.mark.parametrize("response", [{}, [], None, {"choices": []}, {"choices": [{}]}, {"choices": [{"message": 3}]}])
def test_what_is_no_chat_completion_is_refused(log, response):
    with pytest.raises(DataError, match=r"endpoint 'here' at 127.0.0.1:9 must answer \{\"choices\""):
        run(log, Service(lambda body: response))
    assert not log.read().models


def test_a_server_that_repeats_the_key_brings_it_nowhere(log, monkeypatch):
    monkeypatch.setenv(KEY_ENV, KEY)
    echo = f"you sent Authorization: Bearer {KEY}"
    replies = iter([answer_with(1, echo), chat(echo), chat(None, refusal=echo), {"headers": echo}])
    service = Service(lambda body: next(replies), key_env=KEY_ENV)
    with pytest.raises(DataError) as error:
        run(log, service)
    assert len(log.read().of_model("m at here")) == 3
    for text in (str(error.value), error.value.finding, log.path.read_bytes().decode("latin-1")):
        assert KEY not in text and KEY[:8] not in text
    reasons = [item.reason for item in log.read().of_model("m at here").values()]
    assert all("repeats the key" in reason for reason in reasons)


def test_two_sessions_ask_for_each_grade_once(log):
    first, second = Service(delay=0.01), Service(delay=0.01)
    other_log = JudgingLog(log.path)
    labels = []
    thread = threading.Thread(target=run, args=(log, first))
    thread.start()
    while not first.asked:
        time.sleep(0.001)
    run(other_log, second, progress=lambda done, total, label: labels.append(label))
    thread.join()
    assert len(first.asked) == 12 and second.asked == [] and "waiting for another session that asks a model" in labels
    stop = threading.Event()
    stop.set()
    with pytest.raises(Cancelled), wait_for_turn(log.path, lambda: None, None):
        # Another session, as locks of one file are apart.
        run(other_log, Service(requests=1, prompt="{query} {document}"), stop=stop)


def test_the_model_reads_the_title_too(log):
    service = Service(lambda body: answer_with(1))
    titled = Corpus(("d0",), ("",), ("numpy.sort",))
    judge_by_model(log, ModelJudge(service), [("q1", "d0")], QUERIES, titled)
    assert "Document:\nnumpy.sort" in service.asked[0]["messages"][0]["content"]


def test_what_holds_no_grade_is_counted_and_not_asked_again(log):
    replies = iter([chat(None, refusal="no"), chat("perhaps"), *[answer_with(1)] * 10])
    service = Service(lambda body: next(replies))
    judging = run(log, service)
    assert (judging.graded, judging.refused, judging.unreadable) == (10, 1, 1)
    assert str(judging) == "m at here graded 10 of 12 documents; 1 refused, 1 answered without a grade"
    assert len(merge_grades(log.read().only_model("m at here")).grades["q1"]) == 4
    assert run(log, service).graded == 10 and len(service.asked) == 12


def test_the_prompt_has_both_texts_as_they_are_and_another_prompt_is_another_judge():
    judge = ModelJudge(Service())
    prompt = judge.write_prompt("what is {document}?", "x{query}" + "y" * 10_000)
    assert "what is {document}?" in prompt and "x{query}y" in prompt
    assert len(prompt) < len(DEFAULT_PROMPT) + MAX_DOCUMENT_CHARACTERS + 30
    assert ModelJudge(Service(prompt="{query} {document}")).name.startswith("m at here with prompt ")
    assert judge.name == "m at here"
    with pytest.raises(ParamError, match=r"must hold \{query\} and \{document\}; it has no \{document\}"):
        ModelJudge(Service(prompt="{query}"))


def test_a_request_asks_for_a_grade_by_its_schema_at_temperature_0():
    service = Service(lambda body: answer_with(1))
    assert ModelJudge(service).grade("sort", "an array") == ModelAnswer(1, "as it says")
    (body,) = service.asked
    assert body["model"] == "m" and body["temperature"] == 0
    assert body["response_format"]["json_schema"]["schema"]["properties"]["grade"]["enum"] == [0, 1, 2, 3]


def test_agreement_with_people_counts_pairs_that_both_graded(log):
    run(log, Service())
    assert compare_with_people(log.read(), "m at here") is None
    for document, grade in (("d0", 0), ("d1", 1), ("d2", 2), ("d3", 1), ("d4", None)):
        log.judge("q1", document, grade, "ann")
    agreement = compare_with_people(log.read(), "m at here")
    # d0 to d3 by the model: 0, 1, 2, 3.
    assert (agreement.judge, agreement.pairs, agreement.same) == ("m at here", 4, 3)
    assert agreement.kappa == pytest.approx(cohen_kappa_score([0, 1, 2, 1], [0, 1, 2, 3], weights="quadratic"))


def test_wrong_arguments_are_named(log):
    with pytest.raises(ParamError, match="no model 'x' has judged here; there are none"):
        merge_grades(log.read().only_model("x"))


CLIENT = """
import sys
from engine.judging.by_model import judge_by_model, make_judge
from engine.judging.log import JudgingLog
from engine.values import Corpus, Queries

queries = Queries(("q1", "q2"), ("how to sort", "inverse of a matrix"))
corpus = Corpus(tuple(f"d{i}" for i in range(200)), tuple(f"text number {i}" for i in range(200)))
pairs = [(query, document) for query in queries.ids for document in corpus.ids]
print(judge_by_model(JudgingLog(sys.argv[1]), make_judge("mine"), pairs, queries, corpus).graded)
"""


@pytest.mark.deep
def test_killed_again_and_again_no_grade_is_paid_twice_but_those_in_flight(tmp_path, monkeypatch):
    """Kill a client at several moments, and compare what the server was asked with the pairs and the kills."""
    monkeypatch.setenv("FRONTIER_HOME", str(tmp_path / "home"))
    monkeypatch.setenv(KEY_ENV, KEY)
    draw, n_kills, n_requests = random.Random(3), 8, 2
    with ModelServer() as server:
        server.write_settings(tmp_path / "home", chat="wise", requests=n_requests)
        server.chat = lambda body: time.sleep(0.005) or answer_with(1)
        command = ("-c", CLIENT, str(tmp_path / "log.sqlite"))
        n_done = 0
        for _ in range(n_kills):
            client, n_before = fork_python(*command, quiet=True), len(server.requests)
            # The moment counts from the first request of this run, as the start takes most of a short one.
            while client.poll() is None and len(server.requests) == n_before:
                time.sleep(0.005)
            time.sleep(draw.uniform(0, 0.1))
            client.kill()
            client.wait()
            n_kept = len(JudgingLog(tmp_path / "log.sqlite").read().of_model("wise at mine"))
            assert n_kept >= n_done, "what was kept stays"
            n_done = n_kept
        with fork_python(*command) as client:
            assert client.communicate()[0].strip() == "400"
        n_again = len(server.requests) - 400
    print(f"400 pairs, {n_kills} kills: {n_again} asked again")
    assert 0 <= n_again <= n_kills * n_requests
