"""Reports of judged claims: as files, kept and merged, counted."""

import json
import math
import re

import pytest

from engine.errors import DataError
from engine.evidence import run
from engine.evidence.claim import PAPERS
from engine.evidence.rules import FAILS_HERE, SHORT_VERDICTS, Effect, EffectCurve, Finding, Ruling, Scope
from engine.evidence.run import CLAIMS, JudgedClaim
from support.paths import ROOT

INTERVAL = r"({0}) \[({0}), ({0})\]".format(r"[-+]?\d*\.?\d+")


@pytest.fixture(autouse=True)
def home(monkeypatch, tmp_path):
    monkeypatch.setenv("FRONTIER_HOME", str(tmp_path))


def row(name, verdict, scope=Scope.STAND_IN):
    curve = EffectCurve(name="time", x="documents", y="seconds", points=((1.0, 0.5), (2.0, 1.5)))
    effect = Effect(name="a set", value=1.5, low=-0.5, sign=None, curves=(curve,))
    ruling = Ruling(verdict=verdict, why=f"{verdict} for a reason.", effects=(effect,), needed=40)
    return JudgedClaim(claim=CLAIMS[name], ruling=ruling, scope=scope, where="a set", seconds=2.0)


def whole_of(*rows, seed=0):
    return run.Report(sets=("a set",), encoder="bundled", seed=seed, rows=run.sort_rows(rows))


def test_a_file_has_the_whole_report_and_the_order_is_that_of_papers():
    whole = whole_of(row("V2", Finding.REFUTED, Scope.EXACT), row("N6", Finding.REFUTED), row("N5", Finding.HOLDS))
    assert [r.claim.id for r in whole.rows] == ["N5", "N6", "V2"]
    assert run.parse_report(whole.as_json()) == whole
    assert json.loads(whole.as_json())["rows"][1]["words"] == "not reproduced on a set"
    for text in ("[]", "{}", "no JSON", whole.as_json().replace("holds", "is true")):
        with pytest.raises(DataError, match="no report of frontier reproduce"):
            run.parse_report(text)


def change_first_row(fields=(), effect=(), curve=()):
    """Return the text of a report of one row, with fields of the row, of its effect and of that one's curve changed."""
    report = json.loads(whole_of(row("N5", Finding.HOLDS)).as_json())
    (changed_row,) = report["rows"]
    changed_row.update(fields)
    (changed_effect,) = changed_row["effects"]
    changed_effect["curves"][0].update(curve)
    changed_effect.update(effect)
    return json.dumps(report)


@pytest.mark.threat(
    "a report of evidence with values of other types or lengths than this program writes",
    "refused as no report before a page is made of it",
)
@pytest.mark.parametrize(
    "changes",
    [
        {"curve": {"points": [[1.0, 0.5, 2.0]]}},
        {"curve": {"points": [[1.0]]}},
        {"curve": {"points": [[1.0, "0.5"]]}},
        {"curve": {"points": [[1.0, math.nan]]}},
        {"curve": {"points": [[0.0, 1.0]], "log": True}},
        {"curve": {"log": []}},
        {"curve": {"x": 3}},
        {"effect": {"high": "0.5"}},
        {"effect": {"low": True}},
        {"effect": {"value": None}},
        {"effect": {"value": 10**400}},
        {"effect": {"sign": "1"}},
        {"effect": {"name": None}},
        {"effect": {"curves": 3}},
        {"fields": {"needed": "40"}},
        {"fields": {"open": None}},
        {"fields": {"seconds": "2"}},
        {"fields": {"why": 2}},
    ],
    ids=str,
)
def test_a_report_with_values_of_another_type_or_length_is_refused(changes):
    assert len(run.parse_report(change_first_row()).rows) == 1
    with pytest.raises(DataError, match="no report of frontier reproduce"):
        run.parse_report(change_first_row(**changes))


def test_a_value_without_a_number_and_a_limit_without_an_end_are_measured_ones():
    (judged_row,) = run.parse_report(change_first_row(effect={"value": math.nan, "high": math.inf})).rows
    (effect,) = judged_row.ruling.effects
    assert math.isnan(effect.value) and effect.high == math.inf


def test_only_exact_evidence_counts_as_refuting():
    whole = whole_of(row("V2", Finding.REFUTED, Scope.EXACT), row("N6", Finding.REFUTED), row("N5", Finding.HOLDS))
    counts = whole.counts()
    assert (counts[FAILS_HERE], counts[Finding.REFUTED], counts[Finding.HOLDS]) == (1, 1, 1) and list(counts) == list(
        SHORT_VERDICTS
    )
    head, *rows = whole.table()
    assert len(rows) == len(PAPERS) + 1 and rows[-1][head.index(FAILS_HERE)] == "1"
    assert whole.counts("nnn")[Finding.REFUTED] == 0 and whole.seconds == 6  # no two share a measurement


def test_a_later_run_replaces_its_claims_and_keeps_the_others():
    run.save_report(whole_of(row("N5", Finding.HOLDS), row("N6", Finding.PARTLY)))
    whole = run.save_report(whole_of(row("N6", Finding.HOLDS)))
    assert {r.claim.id: r.ruling.verdict for r in whole.rows} == {"N5": Finding.HOLDS, "N6": Finding.HOLDS}
    (kept,) = run.cache.open_section(run.CACHE_SECTION).glob(f"{run.REPORT_PREFIX}*")
    run.cache.put(run.CACHE_SECTION, kept.name, b"{}")  # of another version
    assert len(run.save_report(whole).rows) == 2
    run.cache.put(run.CACHE_SECTION, kept.name, b"\x80 no UTF-8")
    assert len(run.list_reports()) == 1 and len(run.save_report(whole).rows) == 2
    run.save_report(whole_of(row("V2", Finding.PARTLY), seed=1))
    assert [len(kept.rows) for kept in run.list_reports().values()][:-1] == [1, 2]


def test_what_comes_with_frontier_has_every_claim():
    assert [r.claim.id for r in run.load_shipped().rows] == list(CLAIMS)


def test_what_grows_and_what_the_papers_draw_has_its_curves():
    drawn = {row.claim.id for row in run.load_shipped().rows if row.ruling.curves}
    growing = {r.claim.id for r in run.load_shipped().rows if any("exponent of" in e.name for e in r.ruling.effects)}
    assert {"C6", "L10", "L15", "L16", "N18", "N20", "N30"} < drawn and growing < drawn and len(growing) > 8


def test_every_interval_of_the_findings_is_one_of_the_row_that_it_names():
    findings = (ROOT / "assets" / "results" / "findings.md").read_text(encoding="utf-8").replace("−", "-")
    effects = {row.claim.id: row.ruling.effects for row in run.load_shipped().rows}
    told = list(re.finditer(INTERVAL, findings))
    assert len(told) > 10
    for found in told:
        digits = [len(text.partition(".")[2]) for text in found.groups()]
        rows = re.search(r"\b[NOVLC]\d+(, [NOVLC]\d+)*", findings[found.end() :])[0].split(", ")
        known = [(e.value, e.low, e.high) for name in rows for e in effects[name] if e.low is not None]
        rounded = [[f"{number:.{n}f}" for number, n in zip(numbers, digits, strict=True)] for numbers in known]
        assert [f"{float(text):.{n}f}" for text, n in zip(found.groups(), digits, strict=True)] in rounded, found[0]


@pytest.mark.parametrize("name", [name for name, claim in CLAIMS.items() if claim.claimed_values])
def test_claimed_numbers_are_those_of_the_text_and_each_belongs_to_a_measured_effect(name):
    claim = CLAIMS[name]
    text = claim.effect.replace("−", "-").replace("1/2", "0.5").replace("88.1 to 100 %", "0.881 to 1.0")
    printed = [float(number) for number in re.findall(r"-?\d*\.?\d+", text)]
    # The paper may print two numbers where ours is their difference, or the share of it that was regained.
    pairs = [(first, second) for first in printed for second in printed if first > second]
    derived = [first - second for first, second in pairs]
    derived += [part / whole for part in derived for whole in derived if 0 < part <= whole]
    allowed = {round(sign * number, 3) for number in [*printed, *derived, 0] for sign in (1, -1)}
    assert {round(value, 3) for values in claim.claimed_values.values() for value in values} <= allowed
    effect_names = [
        effect.name for row in run.load_shipped().rows if row.claim.id == name for effect in row.ruling.effects
    ]
    for part, values in claim.claimed_values.items():
        assert any(claim.find_claimed_values(effect_name) == values for effect_name in effect_names), part
