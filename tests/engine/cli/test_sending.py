"""Consent on the command line before texts are sent to an endpoint."""

import pytest
from click.testing import CliRunner

from dashboard.serve import main
from engine.cli import sending
from engine.data.endpoints.consent import find_allowance
from support.model_server import KEY, KEY_ENV, ModelServer


@pytest.fixture
def server(home, monkeypatch):
    """Run a server of models, the endpoint "mine" of the test's home."""
    monkeypatch.setenv(KEY_ENV, KEY)
    with ModelServer() as running:
        running.write_settings(home)
        yield running


@pytest.fixture
def decode(tmp_path):
    """Return a function that decodes a query over a corpus of about 110,000 tokens by the endpoint."""
    corpus = tmp_path / "corpus.csv"
    corpus.write_text("id,text\n" + "".join(f"d{row},document {row} {'words ' * 550}\n" for row in range(100)))

    def run(*flags, **options):
        arguments = ["decode", "--corpus", str(corpus), "--encoder", "endpoint:mine", "--query", "a query", *flags]
        return CliRunner().invoke(main, arguments, **options)

    return run


def test_large_corpora_need_a_flag_where_nobody_can_be_asked(server, decode):
    refused = decode()
    assert refused.exit_code == 1 and server.requests == []
    assert "this would send 100 texts and 10 probe texts, about 111 k tokens, to 127.0.0.1:" in refused.output
    assert "allow it by --yes, or by --max-tokens 11" in refused.output
    assert decode("--max-tokens", "100").exit_code == 1 and server.requests == []
    done = decode("--max-tokens", "113000")
    assert done.exit_code == 0 and "document" in done.output
    assert decode().exit_code == 0  # all of it is kept


def test_yes_sends_without_asking_and_keeps_no_key(server, decode, home):
    done = decode("--yes")
    assert done.exit_code == 0 and len(set(server.texts())) > 100
    assert KEY not in done.output
    assert not [path for path in home.rglob("*") if path.is_file() and KEY.encode() in path.read_bytes()]


@pytest.mark.parametrize("answer", ["n\n", "", "y\n"])
def test_a_person_at_a_terminal_is_asked_with_an_estimate(server, decode, monkeypatch, answer):
    monkeypatch.setattr(sending, "_can_ask", lambda: True)
    done = decode(input=answer)
    assert "100 texts and 10 probe texts, about 111 k tokens, to 127.0.0.1:" in done.output and "go on?" in done.output
    assert (done.exit_code == 0) == (answer == "y\n") == bool(server.requests)


def test_a_terminal_is_not_asked_about_typed_queries_of_an_embedded_corpus(server, decode, monkeypatch):
    assert decode("--yes").exit_code == 0
    monkeypatch.setattr(sending, "_can_ask", lambda: True)
    assert "go on?" not in decode("--query", "another query", input="").output


def test_what_was_allowed_ends_with_the_command_also_one_with_a_wrong_option(server, decode):
    for flags in (("--yes",), ("--yes", "-k", "many"), ("--max-tokens", "5", "--split", "none")):
        decode(*flags)
        assert find_allowance() is None, flags
