"""Reports of judged claims: as files, kept and merged, counted."""

import json

import pytest

from engine.errors import DataError
from engine.evidence import report
from engine.evidence.claim import PAPERS, claims
from engine.evidence.rules import HERE, SHORT, Effect, Finding, Ruling, Scope
from engine.evidence.run import JudgedClaim


@pytest.fixture(autouse=True)
def home(monkeypatch, tmp_path):
    monkeypatch.setenv("FRONTIER_HOME", str(tmp_path))


def row(name, verdict, scope=Scope.STAND_IN):
    effect = Effect(name="a set", value=1.5, low=-0.5, sign=None)
    ruling = Ruling(verdict=verdict, why=f"{verdict} for a reason.", effects=(effect,), needed=40)
    return JudgedClaim(claim=claims()[name], ruling=ruling, scope=scope, where="a set", seconds=2.0)


def whole_of(*rows, seed=0):
    return report.Report(sets=("a set",), encoder="bundled", seed=seed, rows=report.in_order(rows))


def test_a_file_has_the_whole_report_and_the_order_is_that_of_papers():
    whole = whole_of(row("V2", Finding.REFUTED, Scope.EXACT), row("N6", Finding.REFUTED), row("N5", Finding.HOLDS))
    assert [r.claim.id for r in whole.rows] == ["N5", "N6", "V2"]
    assert report.report_of(whole.as_json()) == whole
    assert json.loads(whole.as_json())["rows"][1]["words"] == "does not hold on a set"
    for text in ("[]", "{}", "no JSON", whole.as_json().replace("holds", "is true")):
        with pytest.raises(DataError, match="no report of frontier reproduce"):
            report.report_of(text)


def test_only_exact_evidence_counts_as_refuting():
    whole = whole_of(row("V2", Finding.REFUTED, Scope.EXACT), row("N6", Finding.REFUTED), row("N5", Finding.HOLDS))
    counts = whole.counts()
    assert (counts[HERE], counts[Finding.REFUTED], counts[Finding.HOLDS]) == (1, 1, 1) and list(counts) == list(SHORT)
    head, *rows = whole.table()
    assert len(rows) == len(PAPERS) + 1 and rows[-1][head.index(HERE)] == "1"
    assert whole.counts("nnn")[Finding.REFUTED] == 0 and whole.seconds == 6  # no two share a measurement


def test_a_later_run_replaces_its_claims_and_keeps_the_others():
    report.keep(whole_of(row("N5", Finding.HOLDS), row("N6", Finding.PARTLY)))
    whole = report.keep(whole_of(row("N6", Finding.HOLDS)))
    assert {r.claim.id: r.ruling.verdict for r in whole.rows} == {"N5": Finding.HOLDS, "N6": Finding.HOLDS}
    (kept,) = report.cache.section(report.SECTION).glob(f"{report.BEGIN}*")
    report.cache.put(report.SECTION, kept.name, b"{}")  # of another version
    assert len(report.keep(whole).rows) == 2
    report.keep(whole_of(row("V2", Finding.PARTLY), seed=1))
    assert [len(kept.rows) for kept in report.reports().values()][:-1] == [1, 2]


def test_what_comes_with_frontier_has_every_claim():
    assert [r.claim.id for r in report.shipped().rows] == list(claims())
