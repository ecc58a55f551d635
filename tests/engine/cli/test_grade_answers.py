"""The command `grade-answers`: answers from decoders' sets, asked once and with consent; a person grades some."""

import csv
import json
import re

import pytest

import engine
from support.cli import run
from support.model_server import KEY, KEY_ENV, ModelServer, answer_by_words

WORDS = ("sort", "matrix", "file", "random", "shape", "string", "polynomial")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A small judged set, and a key in the environment."""
    corpus = {f"d{word}{copy}": f"{word} {'well ' * copy}{tmp_path.name}" for word in WORDS for copy in range(3)}
    (tmp_path / "corpus.jsonl").write_text(
        "".join(json.dumps({"_id": name, "text": text}) + "\n" for name, text in corpus.items())
    )
    (tmp_path / "queries.jsonl").write_text(
        "".join(json.dumps({"_id": f"q{word}", "text": word}) + "\n" for word in WORDS)
    )
    (tmp_path / "qrels").mkdir()
    rows = [f"q{word}\td{word}{number % 3}\t1\n" for number, word in enumerate(WORDS)]
    (tmp_path / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\n" + "".join(rows))
    monkeypatch.setenv(KEY_ENV, KEY)
    return tmp_path


@pytest.fixture
def service():
    with ModelServer() as server:
        server.chat = answer_by_words
        server.write_settings(engine.paths.home(), chat="wise", requests=2)
        yield server


def ask(folder, *more, **options):
    return run(
        "grade-answers", "--corpus", str(folder), "--endpoint", "mine", "--select", "vrsd", "-k", "2", *more, **options
    )


def test_answers_are_asked_once_tabulated_and_corrected_by_a_sheet(folder, service):
    sheet = folder / "sheet.csv"
    text = ask(folder, "--sheet", str(sheet))
    assert re.search(r"asking wise for answers and their grades: \d+ texts, about [\d,]+ tokens, to 127\.0\.0\.1", text)
    assert re.search(r"^Top-k +\d+% +\d+% to \d+%", text, re.MULTILINE) and re.search(
        r"^VRSD .* to ", text, re.MULTILINE
    )
    assert "judged by wise at mine on 7 queries, and by nobody else" in text
    n_asked = len(service.requests)
    with sheet.open(encoding="utf-8-sig", newline="") as file:
        rows = list(csv.DictReader(file))
    with sheet.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows({**row, "grade": 2 if row["answer"] in row["relevant documents"] else 1} for row in rows)
    result = json.loads(ask(folder, "--person", str(sheet), "--json"))
    assert result["support"]["n_person"] == 7 and not result["support"]["is_corrected"]
    assert result["remark"] == "Your grades correct the model's from 30 queries on; 7 queries have answers."
    assert [system["name"] for system in result["support"]["systems"]] == ["Top-k", "VRSD"]
    assert result["agreement"]["same"] == result["agreement"]["pairs"] > 0
    assert len(service.requests) == n_asked, "what is known is not asked again"
    files = [file for root in (folder, engine.paths.home()) for file in root.rglob("*") if file.is_file()]
    assert KEY not in text and not any(KEY.encode() in file.read_bytes() for file in files)


def test_nothing_is_sent_without_consent_and_prompts_are_printed_unasked(folder, service):
    assert "allow it by --yes" in ask(folder, "--max-tokens", "100", fails=True)
    text = ask(folder, "--prompt")
    assert text.startswith("answer_prompt:\n") and "support_prompt:\n" in text and "{answer}" in text
    (folder / "person.csv").write_text("query,decoder,grade\nqsort,MMR,2\n")
    assert "decoder must be one of Top-k, VRSD" in ask(folder, "--person", str(folder / "person.csv"), fails=True)
    assert service.requests == []
