"""Judged claims in words: counts, advice, facts, the command; and as squares."""

import re
from dataclasses import replace

from engine.evidence.claim import PAPERS
from engine.evidence.rules import SHORT_VERDICTS, Effect, Finding, Ruling, Scope, rule_untestable
from engine.evidence.run import CLAIMS, JudgedClaim, Report, load_shipped
from engine.views.evidence import (
    COLOURS,
    OUTLINED_VERDICTS,
    ROUND_VERDICTS,
    VERDICT_SIGNS,
    advise,
    command,
    describe_signs,
    facts,
    figures,
    headline,
    list_squares,
    markdown,
)

EFFECT = Effect(name="toolbank-numpy", value=3.8, low=0.8, high=7.0, sign=1)
RULING = Ruling(verdict=Finding.UNDECIDED, why="It is wide.", effects=(EFFECT,), needed=900)
ROW = JudgedClaim(
    claim=CLAIMS["N5"], ruling=RULING, scope=Scope.STAND_IN, where="toolbank-numpy with MiniLM", seconds=1.0
)


def test_a_report_is_told_by_its_counts():
    report = Report(sets=("toolbank-numpy",), encoder="bundled", seed=0, rows=(ROW,))
    assert headline(report) == "1 claim: 1 not decided or not testable"
    assert markdown(report).splitlines()[2].split(" | ")[6] == "1" and set(COLOURS) == set(SHORT_VERDICTS)


def test_a_claim_with_open_cells_is_counted_and_signed_apart_from_full_holds():
    holds = replace(ROW, ruling=Ruling(verdict=Finding.HOLDS, why="So it is."))
    part = replace(ROW, claim=CLAIMS["N6"], ruling=Ruling(verdict=Finding.HOLDS, why="So it is.", open=2))
    report = Report(sets=(), encoder="bundled", seed=0, rows=(holds, part))
    assert headline(report) == "2 claims: 2 hold"
    partly = replace(ROW, claim=CLAIMS["N6"], ruling=Ruling(verdict=Finding.PARTLY, why="Here and there."))
    refuted = replace(ROW, ruling=Ruling(verdict=Finding.REFUTED, why="It does not."))
    assert headline(replace(report, rows=(*report.rows, partly, refuted))) == (
        "4 claims: 2 hold, 1 partly · 1 does not hold"
    )
    assert headline(replace(report, rows=(partly, refuted))) == "2 claims: 1 partly · 1 does not hold"
    assert describe_signs(report).startswith("✓ holds 1 · (✓) holds where decided 1. Outlined")
    assert "Outlined" not in describe_signs(replace(report, rows=(holds,)))


def test_the_headline_has_four_numbers_beside_the_total_and_leaves_no_claim_out():
    shipped = load_shipped()
    total, *numbers = map(int, re.findall(r"\d+", headline(shipped)))
    assert total == len(shipped.rows) == sum(numbers) and len(numbers) == 4


def test_a_row_says_what_it_rests_on():
    told = dict(facts(ROW))
    assert told["Verdict"] == "not decided (about 900 queries would)"
    claim = ROW.claim
    assert told["Claimed"] == f"{claim.place}: {claim.effect} (N5)"
    assert told["Evidence"] == "stand-in, toolbank-numpy with MiniLM"
    assert figures(RULING.effects) == [
        {"what": "toolbank-numpy", "value": "3.800", "95% CI": "0.800 to 7.000", "": "as claimed"}
    ]
    assert "Evidence" not in dict(facts(replace(ROW, ruling=rule_untestable("a larger machine"))))


def test_a_command_measures_a_claim_again():
    assert command(ROW) == "frontier reproduce N5 --data FOLDER"
    trained = next(claim for claim in CLAIMS.values() if claim.trained)
    assert command(replace(ROW, claim=trained)).endswith("--data FOLDER --work FOLDER --train")
    missing = next(claim for claim in CLAIMS.values() if claim.missing)
    assert command(replace(ROW, claim=missing)) == ""


def test_advice_gives_differences_that_have_a_sign_and_names_the_other_sets():
    open_effect = replace(EFFECT, name="toollens: points", value=-0.2, sign=None)
    loss = replace(EFFECT, name="metatool: points", value=-1.25, sign=-1)
    row = replace(ROW, ruling=replace(RULING, effects=(EFFECT, open_effect, loss)))
    (sentence,) = advise(Report(sets=(), encoder="bundled", seed=0, rows=(row,)))
    assert sentence.endswith(": +3.8 on toolbank-numpy, −1.2 on metatool; no clear difference on toollens.")
    assert advise(Report(sets=(), encoder="bundled", seed=0, rows=())) == []
    assert len(advise(load_shipped())) == 3


def test_squares_have_every_claim_once_by_paper_and_verdict():
    report = load_shipped()
    squares = list_squares(report)
    assert list(squares) == list(PAPERS.values()) and set(VERDICT_SIGNS) == set(SHORT_VERDICTS)
    assert len(set(VERDICT_SIGNS.values())) == len(SHORT_VERDICTS)
    looks = {(COLOURS[name], name in OUTLINED_VERDICTS, name in ROUND_VERDICTS) for name in SHORT_VERDICTS}
    assert len(looks) == len(SHORT_VERDICTS), "verdicts of one colour differ in shape"
    shown = [square for group in squares.values() for square in group]
    assert sorted(square.claim_id for square in shown) == sorted(row.claim.id for row in report.rows)
    assert {square.claim_id: square.verdict for square in shown} == {row.claim.id: row.short for row in report.rows}
    for group in squares.values():
        ranks = [SHORT_VERDICTS.index(square.verdict) for square in group]
        assert ranks == sorted(ranks)
