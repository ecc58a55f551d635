"""frontier store: a corpus into an engine and back, and what its index finds, from the command line."""

import json

import pytest
from click.testing import CliRunner

from engine.cli import main
from support.stores import PASSWORD_ENV


@pytest.fixture
def home(engines, tmp_path, monkeypatch):
    """A home whose stores.toml names the tests' PostgreSQL."""
    monkeypatch.setenv("FRONTIER_HOME", str(tmp_path))
    (tmp_path / "stores.toml").write_text(f"{engines.pg.toml()}[pg.small]\nforce_index = true\nef = 10\n")
    (tmp_path / "small.csv").write_text(
        "id,text\n" + "".join(f"d{i},words number {i % 40} and {i}\n" for i in range(120))
    )
    return tmp_path


def run(*arguments):
    done = CliRunner().invoke(main, ["store", *arguments])
    return done.exit_code, done.output


def test_a_corpus_is_loaded_once_and_its_index_measured(home):
    load = ["load", "pg/small", "--corpus", str(home / "small.csv"), "--index", "--batch", "50", "--json"]
    code, output = run(*load)
    assert code == 0, output
    assert json.loads(output.splitlines()[-1]) == {"collection": "pg/small", "count": 120, "written": 120}
    code, output = run(*load[:-1])
    assert code == 0 and "pg/small: 0 documents written, 120 are there" in output
    code, output = run("check", "pg/small", "--queries", "3", "-n", "20")
    assert code == 0, output
    assert "recall@20 of queries" in output and "ef 10" in output and "reached at ef" in output
    assert json.loads((home / "stores.measured.json").read_text())["pg/small"][0]["asked"] == 3


def test_an_unknown_store_is_named_before_anything_is_embedded(home):
    code, output = run("load", "nosuch/small", "--corpus", str(home / "small.csv"))
    assert code == 1 and "no store 'nosuch', it has pg" in output


def test_an_engine_that_cannot_be_reached_is_named_before_anything_is_embedded(home, monkeypatch):
    monkeypatch.setattr("engine.cli.stores.space_and_decoder", lambda *_, **__: pytest.fail("it embeds"))
    monkeypatch.setenv(PASSWORD_ENV, "wrong")
    code, output = run("load", "pg/small", "--corpus", str(home / "small.csv"))
    assert code == 1 and "refused the user or the password" in output


def test_an_answer_is_proven_or_says_that_it_comes_from_the_index(home):
    code, output = run("load", "pg/small", "--corpus", str(home / "small.csv"), "--index")
    assert code == 0, output
    ask = ["prove", "pg/small", "--query", "words number 7", "--select", "mmr", "--relevance-weight", "0.6", "-k", "4"]
    code, output = run(*ask)
    assert code == 0, output
    assert (
        "Proven for all 120 documents" in output and output.count("words number") == 5
    )  # the query and four documents
    code, output = run(*ask, "--by-index", "--json")
    assert code == 0, output
    answer = json.loads(output.splitlines()[-1])
    assert answer["info"]["scope"] in ("engine", "proven") and len(answer["documents"]) == 4
    code, output = run("prove", "pg/small", "--query", "x", "--retrieve", "bm25")
    assert code == 1 and "bm25" in output and "inner product" in output and "rerank" not in output
