"""Judged claims in words: counts, facts, the command."""

from dataclasses import replace

from engine.evidence.rules import SHORT_VERDICTS, Effect, Finding, Ruling, Scope, rule_untestable
from engine.evidence.run import CLAIMS, JudgedClaim, Report
from engine.views.evidence import COLOURS, command, facts, figures, headline, markdown

EFFECT = Effect(name="toolbank-numpy", value=3.8, low=0.8, high=7.0, sign=1)
RULING = Ruling(verdict=Finding.UNDECIDED, why="It is wide.", effects=(EFFECT,), needed=900)
ROW = JudgedClaim(
    claim=CLAIMS["N5"], ruling=RULING, scope=Scope.STAND_IN, where="toolbank-numpy with MiniLM", seconds=1.0
)


def test_a_report_is_told_by_its_counts():
    report = Report(sets=("toolbank-numpy",), encoder="bundled", seed=0, rows=(ROW,))
    assert headline(report) == "1 claim: not decided 1"
    assert markdown(report).splitlines()[2].split(" | ")[5] == "1" and set(COLOURS) == set(SHORT_VERDICTS)


def test_a_row_says_what_it_rests_on():
    told = dict(facts(ROW))
    assert told["Verdict"] == "not decided (about 900 queries would)"
    claim = ROW.claim
    assert told["Claimed"] == f"{claim.place}: {claim.effect} (N5)"
    assert told["Evidence"] == "stand-in, toolbank-numpy with MiniLM"
    assert figures(RULING.effects) == [
        {"what": "toolbank-numpy", "value": "3.800", "95% interval": "0.800 to 7.000", "": "as claimed"}
    ]
    assert "Evidence" not in dict(facts(replace(ROW, ruling=rule_untestable("a larger machine"))))


def test_a_command_measures_a_claim_again():
    assert command(ROW) == "frontier reproduce N5 --data FOLDER"
    trained = next(claim for claim in CLAIMS.values() if claim.trained)
    assert command(replace(ROW, claim=trained)).endswith("--data FOLDER --work FOLDER --train")
    missing = next(claim for claim in CLAIMS.values() if claim.missing)
    assert command(replace(ROW, claim=missing)) == ""
