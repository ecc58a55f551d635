"""The command `judge`: a model behind an address grades the pooled documents, once, apart from people's grades."""

import json
import re

import pytest

import engine
from engine.judging.log import JudgingLog, locate_log
from support.cli import run
from support.model_server import KEY, KEY_ENV, ModelServer, complete_chat, word_overlap

TEXTS = {
    "a": "sort an array in place", "b": "sort numbers", "c": "inverse of a matrix", "d": "matrix product",
    "e": "read a file", "f": "write a file to disk",
}  # fmt: skip


def grade_by_words(body):
    """Answer as a judge: 3 for a document with every word of the query, 0 with none, 1 otherwise."""
    prompt = body["messages"][0]["content"]
    query, document = re.search(r"Query:\n(.*)\n\nDocument:\n(.*)\n\nGive", prompt, re.DOTALL).groups()
    overlap = word_overlap(query, document)
    grade = 3 if overlap == 4 else 0 if overlap == -4 else 1
    message = {"role": "assistant", "content": json.dumps({"reason": "words in common", "grade": grade})}
    return {"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A corpus without queries, a file of searches, and a key in the environment."""
    # A text of its own gives each test a corpus, and with it a log, of its own.
    rows = [*TEXTS.items(), ("own", tmp_path.name)]
    (tmp_path / "docs.csv").write_text("id,text\n" + "".join(f"{name},{text}\n" for name, text in rows))
    (tmp_path / "searches.txt").write_text("sort\nmatrix\n")
    monkeypatch.setenv(KEY_ENV, KEY)
    return tmp_path


@pytest.fixture
def service():
    with ModelServer() as server:
        server.chat = grade_by_words
        server.write_settings(engine.paths.home(), chat="wise", requests=2)
        yield server


def flags(folder):
    return "judge", "--corpus", str(folder / "docs.csv"), "--queries", str(folder / "searches.txt"), "-k", "2"


def test_the_pool_is_graded_once_and_written_as_judgements(folder, service):
    out = folder / "judged"
    text = run(*flags(folder), "--endpoint", "mine", "--select", "mmr:relevance_weight=0.3", "--out", str(out))
    assert "asking wise: " in text and f"to {service.url.removeprefix('http://').removesuffix('/v1')}" in text
    assert "Nobody has graded one of these documents" in text
    data = engine.load_dataset(folder / "docs.csv", qrels=str(out))
    graded = {
        (data.queries.texts[data.queries.position[query]], document): grade
        for qrels in data.qrels.values() for query, grades in qrels.grades.items() for document, grade in grades.items()
    }  # fmt: skip
    assert graded["sort", "a"] == graded["sort", "b"] == graded["matrix", "c"] == 3
    assert all(grade == 3 * (query in TEXTS.get(document, "")) for (query, document), grade in graded.items())
    n_asked = len(service.requests)
    assert n_asked == len(graded)

    log = JudgingLog(locate_log(data.corpus))
    for query, document in list(graded)[:3]:
        log.judge(data.queries.ids[data.queries.texts.index(query)], document, graded[query, document], "ann")
    result = json.loads(run(*flags(folder), "--endpoint", "mine", "--select", "mmr:relevance_weight=0.3", "--json"))
    assert len(service.requests) == n_asked, "what is known is not asked again"
    assert result["graded"] == result["pairs"] == n_asked and result["name"] == "wise at mine"
    assert result["agreement"]["pairs"] == result["agreement"]["same"] == 3
    assert KEY not in text and not any(KEY.encode() in file.read_bytes() for file in files_of(folder))


def test_what_the_model_refused_is_unknown_where_its_judgements_are_read_as_told(folder, service):
    def refuse_matrices(body):
        is_matrix = "Query:\nmatrix" in body["messages"][0]["content"]
        return complete_chat(None, refusal="no") if is_matrix else grade_by_words(body)

    service.chat, out = refuse_matrices, folder / "judged"
    text = run(*flags(folder), "--endpoint", "mine", "--select", "top_k", "--out", str(out))
    assert "2 documents have no grade: read them with --judgements pooled" in text
    source = ("--corpus", str(folder / "docs.csv"), "--qrels", str(out), "--judgements", "pooled")
    data = json.loads(run("data", *source, "--json"))
    assert data["documents"] == len(TEXTS) + 1
    pooled = engine.load_dataset(folder / "docs.csv", qrels=str(out), judgements="pooled").qrels
    assert pooled and all(qrels.is_pooled for qrels in pooled.values())
    assert not any(qrels.is_pooled for qrels in engine.load_dataset(folder / "docs.csv", qrels=str(out)).qrels.values())


def files_of(folder):
    """Return every file of the tests' home and of a folder."""
    return [file for root in (folder, engine.paths.home()) for file in root.rglob("*") if file.is_file()]


def test_the_prompt_is_printed_without_asking_and_can_be_changed(folder, service):
    text = run(*flags(folder), "--endpoint", "mine", "--prompt")
    assert "{query}" in text and "{document}" in text and service.requests == []
    service.write_settings(engine.paths.home(), chat="wise", judge_prompt="Grade {document} for {query}")
    assert run(*flags(folder), "--endpoint", "mine", "--prompt").strip() == "Grade {document} for {query}"
    service.write_settings(engine.paths.home(), chat="wise", judge_prompt="Grade {document}")
    assert "it has no {query}" in run(*flags(folder), "--endpoint", "mine", "--prompt", fails=True)


def test_nothing_is_sent_without_consent(folder, service):
    text = run(*flags(folder), "--endpoint", "mine", "--max-tokens", "100", fails=True)
    assert re.search(r"this would send \d+ texts, about [\d,]+ tokens, to 127\.0\.0\.1:\d+; allow it by --yes", text)
    assert service.requests == []


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (("--endpoint", "other"), "has no endpoint 'other', it has mine"),
        (("--endpoint", "mine", "--split", "dev"), "--queries and --split are two choices of queries"),
    ],
)
def test_what_cannot_be_judged_is_said(folder, service, more, words):
    assert words in run(*flags(folder), *more, fails=True)
    assert service.requests == []


def test_a_server_without_a_form_of_answers_is_asked_in_words(folder, service):
    def refuse_form(handler, body):
        if "response_format" not in body:
            return False
        handler.reply(400, {"error": {"message": "response_format is not supported"}})
        return True

    service.always = refuse_form
    result = json.loads(run(*flags(folder), "--endpoint", "mine", "--select", "top_k", "--json"))
    assert result["graded"] == result["pairs"] == 4
    assert len(service.requests) == 8
    assert service.requests[-1][1]["messages"][0]["content"].endswith('{"reason": "…", "grade": 0}')


def test_queries_stay_in_their_splits(folder, service):
    (folder / "queries.jsonl").write_text('{"_id": "q1", "text": "sort"}\n{"_id": "q2", "text": "matrix"}\n')
    (folder / "corpus.jsonl").write_text(
        "".join(json.dumps({"_id": name, "text": text}) + "\n" for name, text in [*TEXTS.items(), ("own", folder.name)])
    )
    (folder / "qrels").mkdir()
    for split, query in (("dev", "q1"), ("test", "q2")):
        (folder / "qrels" / f"{split}.tsv").write_text(f"query-id\tcorpus-id\tscore\n{query}\ta\t1\n")
    corpus, out = ("judge", "--corpus", str(folder), "--endpoint", "mine", "-k", "2"), folder / "judged"
    run(*corpus, "--split", "dev", "--select", "top_k", "--out", str(out))
    judged = engine.load_dataset(folder, qrels=str(out)).qrels
    assert list(judged) == ["dev"] and judged["dev"].grades == {"q1": {"a": 3, "b": 3}}
    assert {body["messages"][0]["content"].count("sort\n") > 0 for _, body in service.requests} == {True}
    result = json.loads(run(*corpus, "--count", "1", "--seed", "3", "--select", "top_k", "--json"))
    assert result["pairs"] == 2
