"""Claims measured once, kept, and judged whenever they are read."""

import ast
import inspect
import json
from dataclasses import replace

import pytest
from click.testing import CliRunner

import engine
from dashboard.serve import main as frontier
from engine.data.beir import write_beir
from engine.evidence import measures, run
from engine.evidence.claim import PAPERS, Claim, ClaimMeasure
from engine.evidence.claims import ccbqp, nnn, orag, sparse_dense, vrsd
from engine.evidence.judged_sets import JudgedSets
from engine.evidence.rules import Finding, Scope, theorem
from engine.evidence.run import CLAIMS, select_claims


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


def test_every_claim_is_complete_and_in_the_module_of_its_paper():
    assert len(CLAIMS) >= 90
    for module, letter in ((nnn, "N"), (orag, "O"), (vrsd, "V"), (sparse_dense, "L"), (ccbqp, "C")):
        numbers = {int(claim.id.removeprefix(letter)) for claim in module.claim.registered}
        assert numbers == set(range(1, len(module.claim.registered) + 1))
    for claim in CLAIMS.values():
        assert claim.paper in PAPERS and claim.sentence.endswith(".") and claim.place and claim.cost > 0
        assert bool(claim.missing) != bool(claim.measure)
    assert select_claims("n3") == (CLAIMS["N3"],) and {c.paper for c in select_claims("vrsd")} == {"vrsd"}
    with pytest.raises(engine.ParamError, match="claim must be all, one of nnn"):
        select_claims("N999")


def test_what_was_measured_is_kept_and_judged_anew(monkeypatch):
    ((first,),) = (report.rows for report in run.reproduce("N3"))
    assert first.ruling.verdict is Finding.HOLDS and first.words == "holds" and first.where == "generated cases"
    monkeypatch.setattr(run, "_measure", lambda *_: pytest.fail("it is kept"))
    ((again,),) = (report.rows for report in run.reproduce("N3"))
    assert again.ruling == first.ruling and again.seconds == first.seconds
    other = replace(first.ruling, why="By another rule.")
    monkeypatch.setitem(CLAIMS, "N3", replace(CLAIMS["N3"], rule=lambda _: other))
    ((anew,),) = (report.rows for report in run.reproduce("N3"))
    assert anew.ruling.why == "By another rule."


def test_what_a_folder_lacks_is_said():
    ((row,),) = (report.rows for report in run.reproduce("N5"))
    assert row.ruling.verdict is Finding.UNTESTABLE and "toolbank-numpy (--data FOLDER)" in row.ruling.why


def test_claims_of_one_measurement_are_measured_once(monkeypatch):
    calls = []

    def compute(_, seed):
        calls.append(seed)
        return {"apart": [0]}

    measure = ClaimMeasure(name="calls", compute=compute)
    shape = {"paper": "nnn", "place": "§1", "sentence": "It is so.", "scope": Scope.EXACT, "measure": measure}
    two = tuple(Claim(id=name, rule=lambda m: theorem(m["apart"], min_cases=1), **shape) for name in ("N98", "N99"))
    lacking = Claim(id="N97", paper="nnn", place="§1", sentence="Or so.", scope=Scope.EXACT, missing="a larger machine")
    for claim in (*two, lacking):
        monkeypatch.setitem(CLAIMS, claim.id, claim)
    monkeypatch.setattr(run, "select_claims", lambda _: (*two, lacking))
    rows = {row.claim.id: row for row in [*run.reproduce("all", seed=7)][-1].rows}
    assert calls == [7]
    assert {name: row.words for name, row in rows.items()} == {
        "N97": "not testable", "N98": "holds", "N99": "holds"
    }  # fmt: skip
    assert rows["N97"].ruling.why == "Missing: a larger machine."


class Reworded(ast.NodeTransformer):
    """A module without docstrings and comments, whose local `judged` has another name."""

    def visit_FunctionDef(self, node):
        self.generic_visit(node)
        if ast.get_docstring(node):
            node.body = node.body[1:] or [ast.Pass()]
        return node

    def visit_Name(self, node):
        return ast.Name("data_set" if node.id == "judged" else node.id, node.ctx)

    def visit_arg(self, node):
        node.arg = "data_set" if node.arg == "judged" else node.arg
        return node


@pytest.mark.parametrize("module", [ccbqp, nnn, orag, sparse_dense, vrsd])
def test_measurements_outlive_a_change_of_words_in_their_module(module):
    source = inspect.getsource(module)
    reworded = ast.unparse(ast.fix_missing_locations(Reworded().visit(ast.parse(source))))
    assert len(reworded) < len(source)
    namespace = {"__name__": "reworded"}
    exec(reworded, namespace)
    again = namespace["claim"].registered
    keys = {claim.id: run._build_cache_key(claim, JudgedSets(), 0) for claim in module.claim.registered}
    assert {claim.id: run._build_cache_key(claim, JudgedSets(), 0) for claim in again} == keys
    newer = replace(again[0], measure=replace(again[0].measure, version=again[0].measure.version + 1))
    assert (
        run._build_cache_key(newer, JudgedSets(), 0)
        != keys[newer.id]
        != run._build_cache_key(again[0], JudgedSets(), 1)
    )


def test_no_two_measures_share_a_key_and_parameters_are_part_of_it():
    named = {}
    for measure in filter(None, (claim.measure for claim in CLAIMS.values())):
        what = getattr(measure.compute, "func", measure.compute), measure.parameters
        assert named.setdefault(run.measure_key(measure), what) == what
    computes = [compute for compute, parameters in named.values() if not parameters]
    assert len(set(computes)) == len(computes) > 50 and len(named) > len(computes)
    assert len({measure.name for measure in filter(None, (c.measure for c in CLAIMS.values()))}) == len(computes) + 3
    tuned = measures.tuned_differences.of(claimed=measures.MMR_GRID, others={"dense": [measures.DENSE]})
    others = [tuned, tuned.of(**{**tuned.parameters, "k": (3,)}), tuned.of(**{**tuned.parameters, "claimed": []})]
    assert len({run.measure_key(measure) for measure in (*others, measures.tuned_differences)}) == 4


def test_any_judged_set_stands_in(folder):
    ((row,),) = (report.rows for report in run.reproduce("N6", folder))
    assert row.scope is Scope.STAND_IN and row.where == "things with the bundled MiniLM"
    assert [effect.name for effect in row.ruling.effects] == ["things: points of Comp@5 over dense"]
    assert row.ruling.verdict in set(Finding) - {Finding.UNTESTABLE}


@pytest.mark.deep
def test_processes_measure_what_one_does_and_the_command_reads_it(monkeypatch):
    some = tuple(CLAIMS[name] for name in ("V1", "V2", "V7"))
    monkeypatch.setattr(run, "select_claims", lambda name: some if name == "vrsd" else select_claims(name))
    rows = {row.claim.id: row for row in [*run.reproduce("vrsd", workers=2)][-1].rows}
    verdicts = {name: row.ruling.verdict for name, row in rows.items()}
    assert verdicts == {"V1": Finding.HOLDS, "V2": Finding.REFUTED, "V7": Finding.UNTESTABLE}
    done = CliRunner().invoke(frontier, ["reproduce", "vrsd", "--json"])
    assert done.exit_code == 0, done.output
    told = {row["id"]: row for row in map(json.loads, done.stdout.splitlines())}
    assert {name: row["why"] for name, row in told.items()} == {name: row.ruling.why for name, row in rows.items()}
    text = CliRunner().invoke(frontier, ["reproduce", "V2"]).stdout
    assert "V2 vrsd, §3.1: refuted" in text and "1 claim" in text
