"""Claims measured once, kept, and judged whenever they are read."""

import ast
import importlib
import inspect
import json
import pkgutil
import re
from dataclasses import replace

import pytest
from click.testing import CliRunner

import engine
from dashboard.serve import main as frontier
from engine.data.beir import write_beir
from engine.evidence import claims as package
from engine.evidence import judged_sets, measures, rules, run, trained_systems
from engine.evidence.claim import PAPERS, Claim, chosen, claims
from engine.evidence.judged_sets import JudgedSets
from engine.evidence.rules import Finding, Scope, theorem


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
    files = [module.name for module in pkgutil.iter_modules(package.__path__)]
    assert {file[0].upper() + file[1:].partition("_")[0].lstrip("0") for file in files} == set(known)
    for claim in known.values():
        assert claim.paper in PAPERS and claim.sentence.endswith(".") and claim.place and claim.cost > 0
        assert claim.missing or (claim.measure and claim.rule)
    assert chosen("n3") == (known["N3"],) and {c.paper for c in chosen("vrsd")} == {"vrsd"}
    with pytest.raises(engine.ParamError, match="claim must be all, one of nnn"):
        chosen("N999")


def test_what_was_measured_is_kept_and_judged_anew(monkeypatch):
    (first,) = run.reproduce("N3", JudgedSets())
    assert first.ruling.verdict is Finding.HOLDS and first.words == "holds" and first.where == "generated cases"
    monkeypatch.setattr(run, "_measure", lambda *_: pytest.fail("it is kept"))
    (again,) = run.reproduce("N3", JudgedSets())
    assert again.ruling == first.ruling and again.seconds == first.seconds
    other = replace(first.ruling, why="By another rule.")
    monkeypatch.setitem(claims(), "N3", replace(claims()["N3"], rule=lambda _: other))
    (anew,) = run.reproduce("N3", JudgedSets())
    assert anew.ruling.why == "By another rule."


def test_what_a_folder_lacks_is_said():
    (row,) = run.reproduce("N5", JudgedSets())
    assert row.ruling.verdict is Finding.UNTESTABLE and "toolbank-numpy (--data FOLDER)" in row.ruling.why


def test_claims_of_one_measurement_are_measured_once(monkeypatch):
    calls = []

    def measure(_, seed):
        calls.append(seed)
        return {"apart": [0]}

    shape = {"paper": "nnn", "place": "§1", "sentence": "It is so.", "scope": Scope.EXACT, "measure": measure}
    two = tuple(Claim(id=name, rule=lambda m: theorem(m["apart"], least=1), **shape) for name in ("N98", "N99"))
    lacking = Claim(id="N97", paper="nnn", place="§1", sentence="Or so.", scope=Scope.EXACT, missing="a larger machine")
    monkeypatch.setattr(run, "chosen", lambda _: (*two, lacking))
    rows = {row.claim.id: row for row in run.reproduce("all", JudgedSets(), seed=7)}
    assert calls == [7]
    assert {name: row.words for name, row in rows.items()} == {
        "N97": "not testable here", "N98": "holds", "N99": "holds"
    }  # fmt: skip
    assert rows["N97"].ruling.why == "Missing: a larger machine."


def test_a_change_of_what_measures_for_a_claim_is_measured_anew():
    code = run._sources("engine.evidence.trained_differences")
    own = [inspect.getsource(module) for module in (measures, judged_sets, trained_systems)]
    assert all(source in code for source in own) and inspect.getsource(rules) not in code


def functions(text):
    return {node.name for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)}


def test_what_judges_is_no_part_of_what_measures():
    judging = 0
    for found in pkgutil.iter_modules(package.__path__):
        whole = inspect.getsource(importlib.import_module(f"{package.__name__}.{found.name}"))
        text = run.JUDGING.sub("", whole)
        assert functions(whole) - functions(text) <= {"judge"} and not re.search("CLAIM =|(rules|claim) import", text)
        judging += functions(whole) != functions(text)
    assert judging > 20


def test_any_judged_set_stands_in(folder):
    (row,) = run.reproduce("N6", JudgedSets(folder))
    assert row.scope is Scope.STAND_IN and row.where == "things with the bundled MiniLM"
    assert [effect.name for effect in row.ruling.effects] == ["things: points of Comp@5 over dense"]
    assert row.ruling.verdict in set(Finding) - {Finding.UNTESTABLE}


def test_processes_measure_what_one_does_and_the_command_reads_it(monkeypatch):
    some = tuple(claims()[name] for name in ("V1", "V2", "V7"))
    monkeypatch.setattr(run, "chosen", lambda name: some if name == "vrsd" else chosen(name))
    rows = {row.claim.id: row for row in run.reproduce("vrsd", JudgedSets(), workers=2)}
    verdicts = {name: row.ruling.verdict for name, row in rows.items()}
    assert verdicts == {"V1": Finding.HOLDS, "V2": Finding.REFUTED, "V7": Finding.UNTESTABLE}
    done = CliRunner().invoke(frontier, ["reproduce", "vrsd", "--json"])
    assert done.exit_code == 0, done.output
    told = {row["id"]: row for row in map(json.loads, done.stdout.splitlines())}
    assert {name: row["why"] for name, row in told.items()} == {name: row.ruling.why for name, row in rows.items()}
    text = CliRunner().invoke(frontier, ["reproduce", "V2"]).stdout
    assert "V2 vrsd, §3.1: refuted" in text and "1 claim" in text
