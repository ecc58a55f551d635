"""Claims measured once, kept, and judged whenever they are read."""

import json
from dataclasses import replace

import pytest
from click.testing import CliRunner

import engine
from dashboard.serve import main as frontier
from engine.data.beir import write_beir
from engine.evidence import run
from engine.evidence.claim import PAPERS, chosen, claims
from engine.evidence.rules import Finding, Scope


@pytest.fixture(scope="module", autouse=True)
def home(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FRONTIER_HOME", str(tmp_path_factory.mktemp("evidence")))
        yield


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A judged set of twelve documents, two of which answer each query."""
    things = ["cats", "boats", "clouds", "violins", "bread", "chess"]
    documents = {f"{n}{part}": f"all about {thing} {part}" for n, thing in enumerate(things) for part in "ab"}
    path = tmp_path_factory.mktemp("sets") / "things"
    corpus = engine.Corpus(tuple(documents), tuple(documents.values()))
    queries = engine.Queries(tuple(map(str, range(6))), tuple(f"tell me of {thing}" for thing in things))
    qrels = engine.Qrels({str(n): {f"{n}a": 1, f"{n}b": 1} for n in range(6)})
    return write_beir(engine.Dataset(corpus, queries, {"dev": qrels, "test": qrels}), path)


def test_every_claim_is_complete_and_named_by_its_file():
    known = claims()
    assert len(known) >= 14
    for name, claim in known.items():
        file = claim.measure.__module__.rpartition(".")[2]
        assert file[0].upper() + file[1:].partition("_")[0].lstrip("0") == name
        assert claim.paper in PAPERS and claim.sentence.endswith(".") and claim.place and claim.cost > 0
        assert claim.scope is Scope.EXACT or claim.sets
    assert chosen("n3") == (known["N3"],) and {c.paper for c in chosen("vrsd")} == {"vrsd"}
    with pytest.raises(engine.ParamError, match="claim must be all, one of nnn"):
        chosen("N999")


def test_what_was_measured_is_kept_and_judged_anew(monkeypatch):
    (first,) = run.reproduce("N3")
    assert first.ruling.verdict is Finding.HOLDS and first.words == "holds" and first.where == "enumerated cases"
    monkeypatch.setattr(run, "_measure", lambda *_: pytest.fail("it is kept"))
    (again,) = run.reproduce("N3")
    assert again.ruling == first.ruling and again.seconds == first.seconds
    other = replace(first.ruling, why="By another rule.")
    monkeypatch.setitem(claims(), "N3", replace(claims()["N3"], rule=lambda _: other))
    (anew,) = run.reproduce("N3")
    assert anew.ruling.why == "By another rule."


def test_what_a_folder_lacks_is_said():
    (row,) = run.reproduce("N5")
    assert row.ruling.verdict is Finding.UNTESTABLE and "toolbank-numpy (--data FOLDER)" in row.ruling.why


def test_any_judged_set_stands_in(folder):
    (row,) = run.reproduce("N6", folder)
    assert row.scope is Scope.STAND_IN and row.where == "things, bundled"
    assert [effect.name for effect in row.ruling.effects] == ["things, comp@5"]
    assert row.ruling.verdict in set(Finding) - {Finding.UNTESTABLE}


def test_processes_measure_what_one_does_and_the_command_reads_it():
    rows = {row.claim.id: row for row in run.reproduce("vrsd", workers=2)}
    verdicts = {name: row.ruling.verdict for name, row in rows.items()}
    assert verdicts == {
        "V1": Finding.HOLDS, "V2": Finding.REFUTED, "V3": Finding.REFUTED, "V7": Finding.UNTESTABLE
    }  # fmt: skip
    done = CliRunner().invoke(frontier, ["reproduce", "vrsd", "--json"])
    assert done.exit_code == 0, done.output
    told = {row["id"]: row for row in map(json.loads, done.stdout.splitlines())}
    assert {name: row["why"] for name, row in told.items()} == {name: row.ruling.why for name, row in rows.items()}
    text = CliRunner().invoke(frontier, ["reproduce", "V2"]).stdout
    assert "V2 vrsd, §3.1: refuted" in text and "1 claim" in text
