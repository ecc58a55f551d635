"""Rules of evidence: a toy claim that must come out each way, and the numbers by independent ways."""

import ast

import numpy as np
import pytest
from scipy.stats import rankdata, spearmanr

from engine.evaluation.statistics import estimate_queries_needed
from engine.evidence import rules
from engine.evidence.rules import Effect, Finding, Scope
from support.paths import ROOT

RNG = np.random.default_rng(5)
BETTER, LEVEL, WORSE, THIN = (
    RNG.normal(mean, spread, n) for mean, spread, n in ((5, 4, 300), (0, 0.5, 300), (-5, 4, 300), (2, 30, 12))
)


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        ([BETTER, BETTER], Finding.HOLDS),
        ([BETTER, THIN], Finding.HOLDS),
        ([BETTER, LEVEL], Finding.PARTLY),
        ([BETTER, WORSE], Finding.PARTLY),
        ([WORSE, THIN], Finding.REFUTED),
        ([LEVEL, WORSE], Finding.REFUTED),
        ([LEVEL, LEVEL], Finding.REFUTED),
        ([LEVEL, THIN], Finding.UNDECIDED),
        ([THIN], Finding.UNDECIDED),
    ],
)
def test_difference_comes_out_each_way(cells, expected):
    ruling = rules.difference({f"set {n}": cell for n, cell in enumerate(cells)}, margin=1)
    assert ruling.verdict == expected
    assert (ruling.needed is not None) == (expected == Finding.UNDECIDED)


def test_undecided_difference_names_the_queries_that_would_decide_it():
    ruling = rules.difference({"a set": THIN}, margin=1)
    assert ruling.needed > len(THIN)
    assert rules.word_verdict(ruling, Scope.STAND_IN, "a set") == f"not decided (about {ruling.needed:,} queries would)"


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        ([LEVEL, LEVEL], Finding.HOLDS),
        ([LEVEL, BETTER], Finding.PARTLY),
        ([WORSE, BETTER], Finding.REFUTED),
        ([THIN], Finding.UNDECIDED),
    ],
)
def test_equivalence_comes_out_each_way(cells, expected):
    assert rules.equivalence({str(n): cell for n, cell in enumerate(cells)}, margin=1).verdict == expected


@pytest.mark.parametrize(
    ("excess", "expected"),
    [
        ([-0.5] * 49 + [1e-10], Finding.HOLDS),
        ([-0.5] * 49, Finding.UNTESTABLE),
        ([-0.5] * 100 + [1e-6], Finding.REFUTED),
        ([-0.5] * 100 + [float("nan")], Finding.REFUTED),
        ([], Finding.UNTESTABLE),
    ],
)
def test_theorem_comes_out_each_way(excess, expected):
    assert rules.theorem(excess, min_cases=50).verdict == expected


@pytest.mark.parametrize(
    ("counts", "holds", "refuted", "expected"),
    [
        ([(998, 1000)], 0.95, 0.5, Finding.HOLDS),
        ([(700, 1000)], 0.95, 0.5, Finding.PARTLY),
        ([(100, 1000)], 0.95, 0.5, Finding.REFUTED),
        ([(5, 5)], 0.95, 0.5, Finding.UNDECIDED),
        ([(5, 5), (700, 1000)], 0.95, 0.5, Finding.PARTLY),
        ([(998, 1000), (100, 1000)], 0.95, 0.5, Finding.PARTLY),
        ([(0, 1000)], 0.01, 0.1, Finding.HOLDS),
        ([(300, 1000)], 0.01, 0.1, Finding.REFUTED),
        ([(50, 1000)], 0.01, 0.1, Finding.PARTLY),
    ],
)
def test_share_comes_out_each_way(counts, holds, refuted, expected):
    effects = [rules.share("share", *count) for count in counts]
    assert rules.thresholds(effects, holds, refuted).verdict == expected


@pytest.mark.parametrize(("power", "expected"), [(0.5, Finding.HOLDS), (1.5, Finding.REFUTED)])
def test_slope_comes_out_each_way(power, expected):
    sizes = np.array([1e3, 1e4, 3e4, 1e5])
    costs = 7 * sizes**power * np.exp(np.random.default_rng(1).normal(0, 0.3, (40, 4)))
    effect = rules.slope(sizes, costs, "search", ("documents", "seconds"))
    fits = [np.polyfit(np.log(sizes), np.log(row), 1)[0] for row in costs]
    assert effect.value == pytest.approx(np.mean(fits)) and effect.name == "search: exponent of seconds"
    (curve,) = effect.curves
    assert (curve.name, curve.x, curve.y, curve.log) == ("search", "documents", "seconds", True)
    assert np.polyfit(*np.log(np.array(curve.points)).T, 1)[0] == pytest.approx(effect.value, abs=1e-5)
    assert rules.judge_range([effect], high=1).verdict == expected
    assert rules.judge_range([Effect(name="", value=1, low=0.9, high=1.1)], high=1).verdict == Finding.UNDECIDED


def test_a_curve_has_only_what_its_axes_can_have_and_belongs_to_an_effect():
    rows = [(0.0, 1.0), (1.0, np.nan), (2.0, 3.0), (4.0, -1.0)]
    assert rules.curve_of("", ("", ""), *zip(*rows, strict=True)).points == ((0.0, 1.0), (2.0, 3.0), (4.0, -1.0))
    empty, some = (rules.curve_of("", ("", ""), x, x, log=True) for x in ([0.0], [2.0]))
    ruling = rules.judge_range([Effect(name="one", value=1, curves=(empty,))])
    assert ruling.curves == () and rules.add_curves(ruling, {"one": [some, some]}).curves == (some,)
    with pytest.raises(ValueError, match="curves must be of effects; got another"):
        rules.add_curves(ruling, {"another": [some]})


def test_equivalence_needs_the_queries_that_tell_its_mean_from_the_margin():
    values = 0.7 + 14 * np.tile([-1.0, 1.0], 950)
    ruling = rules.equivalence({"level": values.tolist()}, margin=1.0)
    assert ruling.verdict == Finding.UNDECIDED
    assert ruling.needed == estimate_queries_needed(values, 1 - abs(values.mean())) > len(values)


def test_slope_needs_four_sizes():
    with pytest.raises(ValueError, match="at least 4"):
        rules.slope([1, 2, 3], np.ones((5, 3)), "search", ("documents", "seconds"))


@pytest.mark.parametrize(
    ("regained", "lost", "expected"),
    [
        (0.8, 10.0, Finding.HOLDS),
        (0.2, 10.0, Finding.REFUTED),
        (0.5, 10.0, Finding.UNDECIDED),
        (0.8, 0.0, Finding.UNDECIDED),
    ],
)
def test_proportion_comes_out_each_way(regained, lost, expected):
    whole = lost + np.random.default_rng(0).standard_normal(200)
    whole += lost - whole.mean()
    part = regained * lost + np.random.default_rng(1).standard_normal(200)
    part += regained * lost - part.mean()
    effect = rules.proportion(part, whole + 1e-3, "a share")
    assert effect.low < effect.value < effect.high and effect.value == pytest.approx(regained if lost else 0, abs=1e-3)
    assert rules.judge_range([effect], low=0.5).verdict is expected


def test_rank_correlation_is_spearmans():
    rng = np.random.default_rng(3)
    a = rng.normal(size=(200, 30)) + rng.normal(size=30)
    b = a + rng.normal(size=30)
    effect = rules.correlate_ranks(a, b, "rho", resamples=200)
    assert effect.value == pytest.approx(spearmanr(a.mean(0), b.mean(0)).statistic)
    assert effect.low < effect.value < effect.high


def test_partial_correlation_is_that_of_the_residuals_of_ranks():
    rng = np.random.default_rng(4)
    given = rng.normal(size=(200, 30)) + rng.normal(size=30)
    a, b = (sign * given + rng.normal(size=30) for sign in (1, -1))
    x, y, z = (rankdata(values.mean(0)) for values in (a, b, given))
    left, right = (values - np.polyval(np.polyfit(z, values, 1), z) for values in (x, y))
    effect = rules.correlate_ranks(a, b, "rho", given, resamples=200)
    assert effect.value == pytest.approx(np.corrcoef(left, right)[0, 1])
    assert rules.correlate_ranks(a, b, "rho", resamples=200).value < effect.value


def frontier(shift, seed):
    """x and y by query and setting, on a falling line that is moved up."""
    x, rng = np.linspace(0, 1, 8), np.random.default_rng(seed)
    return tuple(values + rng.normal(0, 0.02, (100, 8)) for values in (x, 1 - x + shift))


@pytest.mark.parametrize(("shift", "expected"), [(0.3, Finding.HOLDS), (-0.3, Finding.REFUTED), (0, Finding.UNDECIDED)])
def test_frontier_comes_out_each_way(shift, expected):
    assert rules.judge_areas([rules.compare_frontiers(frontier(shift, 1), frontier(0, 2), "a set")]).verdict == expected


def test_dominance_measures_area_and_points():
    claimed = tuple(np.array([[value] for value in row]).T for row in ([1, 2, 3], [3, 2, 1]))
    other = tuple(np.array([[value] for value in row]).T for row in ([1, 2, 0.5], [2, 1, 3.5]))
    area, beaten = rules.compare_frontiers(claimed, other, "x", n_resamples=5)
    # Above (0.5, 1): {1.5 × 1 + 0.5 × 1} beside {0.5 × 1}.
    assert area.value == pytest.approx((1.5 * 1 + 0.5 * 1) - 0.5 * 1)
    assert beaten.value == pytest.approx(2 / 3)


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ((Finding.HOLDS, Finding.HOLDS), Finding.HOLDS),
        ((Finding.HOLDS, Finding.UNDECIDED), Finding.HOLDS),
        ((Finding.HOLDS, Finding.REFUTED), Finding.PARTLY),
        ((Finding.REFUTED, Finding.UNTESTABLE), Finding.REFUTED),
        ((Finding.UNTESTABLE, Finding.UNTESTABLE), Finding.UNTESTABLE),
        ((Finding.UNDECIDED, Finding.UNTESTABLE), Finding.UNDECIDED),
    ],
)
def test_parts_of_a_claim_are_needed_all(parts, expected):
    assert rules.combine([rules.Ruling(verdict=part, why=str(part)) for part in parts]).verdict == expected


def test_only_exact_evidence_refutes_flatly():
    ruling = rules.difference({"a set": WORSE}, margin=1)
    assert rules.word_verdict(ruling, Scope.EXACT, "nothing") == "refuted"
    for scope in (Scope.SAME_DATA, Scope.STAND_IN):
        assert rules.word_verdict(ruling, scope, "toollens, MiniLM") == "not reproduced on toollens, MiniLM"


def test_older_reports_have_a_verdict_in_other_words():
    assert Finding("not testable here") is Finding("not testable") is Finding.UNTESTABLE
    with pytest.raises(ValueError, match="perhaps"):
        Finding("perhaps")


def test_no_verdict_is_written_outside_the_rules():
    """No string but a docstring holds a verdict's words."""
    words = ("refuted", "not decided", "not testable", "not reproduced")
    for file in sorted(
        p for top in ("engine/evidence", "dashboard", "engine/views") for p in (ROOT / top).rglob("*.py")
    ):
        if file.name == "rules.py" and file.parent.name == "evidence":
            continue
        source = file.read_text(encoding="utf-8")
        if not any(word in source.lower() for word in words):
            continue
        tree = ast.parse(source)
        prose = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        said = [n.value for n in ast.walk(tree) if isinstance(n, ast.Constant) and isinstance(n.value, str)
                and id(n) not in prose]  # fmt: skip
        assert not [text for text in said for word in words if word in text.lower()], file


def test_of_many_effects_a_sentence_names_the_first_and_counts_all():
    cells = {f"cell {n}": [1.0 + n / 100 + 0.01 * (i % 3) for i in range(40)] for n in range(9)}
    why = rules.difference(cells, margin=0.1).why
    assert "cell 5 " in why and "cell 6 " not in why and why.endswith("and 3 more: of all 9, 9 as claimed.")


def test_a_claim_that_holds_says_how_many_cells_are_open():
    clear, wide = [2.0, 2.1, 1.9] * 20, [9.0, -9.0] * 20
    ruling = rules.difference({"one": clear, "two": wide}, margin=0.5)
    assert ruling.verdict is Finding.HOLDS and ruling.open == 1
    assert rules.word_verdict(ruling, Scope.STAND_IN, "a set") == "holds where that is decided (1 cell open)"
    assert rules.combine([ruling, ruling]).open == 2
    assert rules.word_verdict(rules.difference({"one": clear}, margin=0.5), Scope.STAND_IN, "a set") == "holds"
