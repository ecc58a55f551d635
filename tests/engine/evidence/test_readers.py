"""Claims on readers: marked until an endpoint is named, measured with one, and not lost by a run without it."""

import json
from dataclasses import replace
from html import escape

import pytest
from click.testing import CliRunner

import engine
from dashboard.evidence.html import build_page
from dashboard.serve import main as frontier
from engine.data.beir import write_beir
from engine.evidence import run
from engine.evidence.rules import Finding, Scope
from engine.views.evidence import COLOURS, command, facts
from support.draws import deepen
from support.model_server import KEY, KEY_ENV, ModelServer, answer_by_words, status_fault


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A judged set of which a document answers each query, and another shares a word with it."""
    monkeypatch.setenv("FRONTIER_HOME", str(tmp_path / "home"))
    monkeypatch.setenv(KEY_ENV, KEY)
    things = ["cats", "boats", "clouds", "violins", "bread", "chess"]
    documents = {f"{n}{part}": f"{thing} {part}" for n, thing in enumerate(things) for part in "ab"}
    corpus = engine.Corpus(tuple(documents), tuple(documents.values()))
    queries = engine.Queries(tuple(map(str, range(6))), tuple(things))
    qrels = engine.Qrels({str(n): {f"{n}{'ab'[n % 2]}": 1} for n in range(6)})
    return write_beir(engine.Dataset(corpus, queries, {"dev": qrels, "test": qrels}), tmp_path / "things")


@pytest.fixture
def server(folder, tmp_path):
    with ModelServer() as running:
        running.chat = answer_by_words
        running.write_settings(tmp_path / "home", chat="wise")
        yield running


def judge_one(*arguments, **options):
    """Return the only row of a run of one claim."""
    ((row,),) = (report.rows for report in run.reproduce(*arguments, **options))
    return row


@pytest.mark.deep
@pytest.mark.parametrize("name", deepen(["V10", "C15"], ["C15"]))
def test_without_an_endpoint_a_readers_claim_is_marked_and_says_how_it_is_measured(name):
    row = judge_one(name)
    assert row.ruling.verdict is Finding.NEEDS_ENDPOINT and row.short == row.words == "needs an endpoint"
    assert command(row).endswith(f"reproduce {name} --data FOLDER --endpoint NAME") and row.short in COLOURS
    assert dict(facts(row))["Verdict"] == "needs an endpoint" and "Evidence" not in dict(facts(row))
    shipped = {shipped_row.claim.id: shipped_row for shipped_row in run.load_shipped().rows}
    assert shipped[name].ruling == row.ruling
    report = run.load_shipped()
    unmeasured = [shipped_row for shipped_row in report.rows if shipped_row.short == row.short]
    page = build_page(replace(report, rows=unmeasured))
    assert "needs an endpoint 2" in page and f"<strong>needs an endpoint</strong> {escape(row.claim.sentence)}" in page


def test_with_an_endpoint_it_is_measured_once_and_stays(folder, server):
    row = judge_one("V10", folder, reader="mine")
    assert row.ruling.verdict not in (Finding.NEEDS_ENDPOINT, Finding.UNTESTABLE)
    assert row.scope is Scope.STAND_IN and row.where == "things with the bundled MiniLM, read by mine"
    names = [effect.name for effect in row.ruling.effects]
    assert names[0] == "things: points of supported answers@10 over MMR at ½" and len(names) == 3
    n_asked = len(server.requests)
    assert n_asked and judge_one("V10", folder, reader="mine").ruling == row.ruling
    assert len(server.requests) == n_asked
    reports = [[*run.reproduce("V10", folder, reader=reader)][-1] for reader in ("mine", None)]
    (kept,) = [run.save_report(report) for report in reports][-1].rows
    assert kept.ruling == row.ruling, "a run without an endpoint does not undo what one measured"


def test_a_service_that_fails_is_no_verdict_and_large_sends_need_consent(folder, server, monkeypatch):
    server.always = status_fault(402)
    with pytest.raises(engine.DataError, match="status 402"):
        judge_one("C15", folder, reader="mine")
    # It leaves all others measured.
    with monkeypatch.context() as patch:
        patch.setattr(run, "select_claims", lambda _: tuple(map(run.CLAIMS.get, ("V10", "N3"))))
        shown = CliRunner().invoke(frontier, ["reproduce", "all", "--data", str(folder), "--endpoint", "mine"])
    assert shown.exit_code != 0 and "status 402" in shown.output
    (kept,) = next(report for title, report in run.list_reports().items() if title.startswith("things")).rows
    assert kept.claim.id == "N3" and kept.ruling.verdict is Finding.HOLDS
    flags = ["reproduce", "C15", "--data", str(folder), "--endpoint", "mine", "--json"]
    refused = CliRunner().invoke(frontier, [*flags, "--max-tokens", "5"])
    assert refused.exit_code != 0 and "allow it by --yes" in refused.output
    server.always = None
    done = CliRunner().invoke(frontier, flags)
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout.splitlines()[-1])["verdict"] not in ("needs an endpoint", "not testable")
    with pytest.raises(engine.DataError, match="no endpoint 'other'"):
        judge_one("C15", folder, reader="other")
