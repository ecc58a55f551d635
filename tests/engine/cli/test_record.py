"""The command `record`: lists of a real service are identified; what cannot be recorded leaves no file."""

import json
from dataclasses import replace

import pytest

import engine
from engine.data.beir import write_beir
from engine.integrations.server import Service
from support.cli import run
from support.endpoints import serve


@pytest.fixture
def folder(tmp_path):
    """A corpus of three documents with two queries, one of them judged."""
    (tmp_path / "corpus.jsonl").write_text(
        "".join(json.dumps({"_id": name, "text": f"text of {name}"}) + "\n" for name in ("a", "b", "c"))
    )
    (tmp_path / "queries.jsonl").write_text('{"_id": "q1", "text": "first"}\n{"_id": "q2", "text": "second"}\n')
    (tmp_path / "qrels").mkdir()
    (tmp_path / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq2\tc\t1\n")
    return tmp_path


def test_a_service_is_recorded_and_its_decoder_is_found(demo, tmp_path):
    dataset, space = demo
    queries = dataset.judged("test").sample(40)
    grades = {query: dataset.qrels["test"].grades[query] for query in queries.ids}
    few = replace(dataset, queries=queries, qrels={"test": engine.Qrels(grades)})
    corpus = ("--corpus", str(write_beir(few, tmp_path / "few")))
    service = Service(engine.Decoder(engine.make("mmr", relevance_weight=0.3), depth=20), space, k=5)
    out = tmp_path / "run.json"
    with serve(service.answer) as (url, requests):
        text = run("record", *corpus, "--url", url, "--split", "test", "-k", "5", "--out", str(out))
    assert "asking 127.0.0.1 40 queries" in text and "40 lists with 200 documents" in text
    assert len(requests) == 40 and len(json.loads(out.read_text())) == 40
    found = json.loads(run("identify", *corpus, "--run", str(out), "--select", "mmr", "--select", "top_k", "--json"))
    assert found["sure"] and found["best"]["label"] == "MMR on dense vectors"
    assert found["best"]["interval"][0] <= 0.3 <= found["best"]["interval"][1]


def test_all_queries_are_asked_and_foreign_ids_are_counted(folder):
    out = folder / "run.json"
    with serve(lambda request: {"answers": [{"ids": ["a", "made up"]}]}) as (url, requests):
        text = run("record", "--corpus", str(folder), "--url", url, "--out", str(out))
    assert [request["queries"] for request, _ in requests] == [["first"], ["second"]]
    assert "2 of these ids are not the corpus's, such as 'made up'" in text
    assert json.loads(out.read_text()) == {"q1": ["a", "made up"], "q2": ["a", "made up"]}


def test_a_split_and_headers_narrow_what_is_sent(folder):
    with serve(lambda request: {"answers": [{"ids": ["a"]}]}) as (url, requests):
        flags = ("--corpus", str(folder), "--url", url, "--split", "test", "--out", str(folder / "run.json"))
        run("record", *flags, "--request-header", "X-Key: secret: 1")
    assert [(request["queries"], headers["X-Key"]) for request, headers in requests] == [(["second"], "secret: 1")]


@pytest.mark.parametrize(
    "flags, words",
    [
        (("--request-header", "no colon secret"), '--request-header must be "Name: value"'),
        (("--out", "run.txt"), "--out must be a .json file"),
        (("--url", "ftp://host/x"), "url must be an address"),
        (("--split", "dev"), "dev"),
    ],
)
def test_what_is_refused_says_why_and_sends_nothing(folder, flags, words):
    with serve(lambda request: {"answers": [{"ids": ["a"]}]}) as (url, requests):
        options = {"--url": url, "--out": str(folder / "run.json")} | {flags[0]: flags[1]}
        given = [part for option in options.items() for part in option]
        text = run("record", "--corpus", str(folder), *given, fails=True)
    assert words in text and "secret" not in text and not requests and not (folder / "run.json").exists()


def test_a_service_that_fails_in_between_leaves_no_file(folder):
    answers = iter([{"answers": [{"ids": ["a"]}]}, 500])
    with serve(lambda request: next(answers)) as (url, _):
        text = run("record", "--corpus", str(folder), "--url", url, "--out", str(folder / "run.json"), fails=True)
    assert "status 500" in text and not (folder / "run.json").exists()
