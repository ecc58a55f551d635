"""Judge → Ask a model: what it sends is said before, its grades are kept apart, and agreement with people is told."""

import json

import pytest

import engine
from dashboard.data import judge, model_judge
from engine.judging.log import JudgingLog, locate_log
from support import pages
from support.model_server import KEY, KEY_ENV, ModelServer

SEARCHES = ["a sleeping cat", "a dog that eats"]


@pytest.fixture(autouse=True)
def apart(tmp_path, monkeypatch):
    """A home and a memory of this test's own."""
    monkeypatch.setenv("FRONTIER_HOME", str(tmp_path / "home"))
    monkeypatch.setenv(KEY_ENV, KEY)
    pages.fresh_corpora(monkeypatch)


@pytest.fixture
def animals(tmp_path):
    documents = [(f"{a}-{v}", f"a {a} that {v}") for a in ("cat", "dog", "heron") for v in ("sleeps", "eats")]
    return pages.csv_source(tmp_path / "animals.csv", documents)


def answer(body):
    """Grade 3 where the first noun of the prompt's document is in its query, else 0; refuse herons."""
    query, document = body["messages"][0]["content"].partition("Query:\n")[2].split("\n\nDocument:\n")
    animal = document.split()[1]
    if animal == "heron":
        return {"choices": [{"message": {"content": None, "refusal": "no birds"}}]}
    content = json.dumps({"reason": "by the animal", "grade": 3 * (animal in query)})
    return {"choices": [{"message": {"content": content}}]}


@pytest.fixture
def service():
    with ModelServer() as server:
        server.chat = answer
        server.write_settings(engine.paths.home(), chat="wise")
        yield server


def judging(source, searches=SEARCHES):
    """The view once searches are typed and the documents to judge are found."""
    usual = {"data.view": "Judge", "k": 5, judge.SYSTEMS_KEY: ["top_k", "mmr"]}
    app = pages.finish_jobs(pages.screen("data", source, **usual, **{model_judge.OPEN_KEY: True}))
    app.text_area(key=judge.TYPED_KEY).set_value("\n".join(searches))
    return pages.finish_jobs(pages.press(app, "judge.add"))


def test_a_model_grades_after_a_click_below_what_it_sends_and_is_compared_with_people(animals, service):
    app = judging(animals)
    assert f"to {service.url.removeprefix('http://').removesuffix('/v1')}. Each grade is kept" in pages.texts(app)
    assert service.requests == [], "nothing is sent before the click"
    app = pages.press_and_finish(app, f"{model_judge.MODEL_PURPOSE}.start", model_judge.MODEL_PURPOSE)
    log = JudgingLog(locate_log(pages.load(animals).space.corpus))
    judged = log.read()
    n_pairs = len(judged.of_model("wise at mine"))
    assert n_pairs == len(service.requests) > 5 and judged.people == () and judged.touched_pairs == frozenset()
    n_herons = sum("heron" in document for _, document in judged.of_model("wise at mine"))
    sentence = f"wise at mine graded {n_pairs - n_herons} of {n_pairs} documents; {n_herons} refused."
    assert sentence in pages.texts(app)
    assert "Grade some of these documents yourself" in pages.texts(app)
    assert f"{model_judge.MODEL_PURPOSE}.start" not in [button.key for button in app.button], "all are asked"
    (query, document), _ = next((pair, item) for pair, item in judged.of_model("wise at mine").items() if item.grade)
    log.judge(query, document, 3, "ann")
    assert "wise at mine gives your grade to 100% of 1 document" in pages.texts(pages.run(app))


def test_a_service_that_fails_keeps_what_came_and_is_asked_for_the_rest(animals, service):
    app = judging(animals)
    n_answers = []

    def fail_later(handler, body):
        n_answers.append(body)
        if len(n_answers) <= 4:
            return False
        handler.reply(400, {"error": {"message": "out of credit"}})
        return True

    service.always = fail_later
    app = pages.press_and_finish(app, f"{model_judge.MODEL_PURPOSE}.start", model_judge.MODEL_PURPOSE)
    assert "out of credit" in pages.texts(app) and "could not be asked for every grade" in pages.texts(app)
    log = JudgingLog(locate_log(pages.load(animals).space.corpus))
    n_kept = len(log.read().of_model("wise at mine"))
    assert 1 <= n_kept <= 4
    service.always = None
    n_before = len(service.requests)
    pages.press_and_finish(app, f"{model_judge.MODEL_PURPOSE}.start", model_judge.MODEL_PURPOSE)
    n_all = len(log.read().of_model("wise at mine"))
    assert n_all > n_kept and len(service.requests) - n_before == n_all - n_kept


def test_without_a_service_the_way_to_one_is_said(animals):
    assert "Name a service with a chat model in endpoints.toml" in pages.texts(judging(animals))


def test_people_correct_the_model_query_by_query(animals, service):
    searches = [f"{size} {animal}" for animal in ("cat", "dog") for size in ("a big", "my", "one wild", "no")]
    app = judging(animals, searches)
    app = pages.press_and_finish(app, f"{model_judge.MODEL_PURPOSE}.start", model_judge.MODEL_PURPOSE)
    log = JudgingLog(locate_log(pages.load(animals).space.corpus))
    judged = log.read()
    queries, pooled = judged.queries(), list(judged.of_model("wise at mine"))
    first = next(text.value for text in app.text if text.value in searches)
    first_id = queries.ids[queries.texts.index(first)]
    # The documents of one query come one after another, until all of them are graded.
    for _ in range(sum(query == first_id for query, _ in pooled)):
        assert first in [text.value for text in app.text]
        app = pages.press(app, "judge.grade.2")
    assert first not in [text.value for text in app.text]
    assert "then wise at mine counts too" in pages.texts(app)
    by_text = dict(zip(queries.ids, queries.texts, strict=True))
    for query, document in pooled:
        if query in queries.ids[:6]:
            log.judge(query, document, 3 if document.partition("-")[0] in by_text[query] else 0, "ann")
    shown = pages.texts(pages.run(app))
    assert "judged by wise at mine on 8 queries, corrected by" in shown, shown
