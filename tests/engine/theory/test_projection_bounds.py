"""The sparse-dense paper's bounds: by hand, by their laws, against each other, and against measured projections."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import ndtr

import engine
from engine.theory import projection_bounds as bounds

MARGINS = st.floats(0.01, 1.0)
ERRORS = st.floats(1e-6, 0.99)


def test_by_hand():
    # ε = ½: ε²/2 − ε³/3 = 1/8 − 1/24 = 1/12.
    assert bounds.compute_rate(0.5) == pytest.approx(1 / 12)
    assert bounds.pair_error_bound(240, 0.5) == pytest.approx(4 * math.exp(-10))
    assert bounds.sufficient_dimension(0.5, 4 * math.exp(-10.001)) == 241
    assert bounds.simple_dimension(0.5, 0.05) == math.floor(48 * math.log(80)) + 1 == 211


def test_the_papers_slope():
    """ "For β = .05, k* ≤ 8.76 (ε²/2 − ε³/3)⁻¹" (§2.1.3)."""
    for margin in (0.01, 0.1, 0.7):
        assert bounds.sufficient_dimension(margin, 0.05) * bounds.compute_rate(margin) == pytest.approx(8.76, abs=0.18)
    assert 2 * math.log(80) == pytest.approx(8.76, abs=0.005)


@given(MARGINS, ERRORS)
def test_the_dimension_is_the_smallest_that_the_bound_accepts(margin, error):
    k = bounds.sufficient_dimension(margin, error)
    assert bounds.pair_error_bound(k, margin) <= error * (1 + 1e-9)
    assert k == 1 or bounds.pair_error_bound(k - 1, margin) >= error * (1 - 1e-9)


@given(MARGINS, ERRORS)
def test_corollary_1_follows_from_lemma_1(margin, error):
    """ε²/6 ≤ ε²/2 − ε³/3 on (0, 1], with equality at 1: what the corollary asks is always enough for the lemma."""
    assert margin**2 / 6 <= bounds.compute_rate(margin) * (1 + 1e-12)
    assert bounds.simple_dimension(margin, error) >= bounds.sufficient_dimension(margin, error)


@given(MARGINS, MARGINS, ERRORS, ERRORS)
def test_more_margin_or_more_error_needs_no_more_dimensions(a, b, x, y):
    low, high, strict, loose = min(a, b), max(a, b), min(x, y), max(x, y)
    for needed in (bounds.sufficient_dimension, bounds.simple_dimension):
        assert needed(low, loose) >= needed(high, loose)
        assert needed(low, strict) >= needed(low, loose)
    assert bounds.pair_error_bound(10, low) >= bounds.pair_error_bound(10, high) >= bounds.pair_error_bound(20, high)


@given(MARGINS, st.integers(1, 20_000))
def test_the_bound_is_above_what_a_gaussian_projection_does_in_the_limit(margin, k):
    """For many dimensions the projected margin is normal, of mean ε and variance (1 + ε²)/k."""
    assert ndtr(-margin * math.sqrt(k / (1 + margin**2))) <= bounds.pair_error_bound(k, margin)


def test_margins_and_errors_as_small_as_doubles_go():
    """Whatever is in range has an answer, down to the margins whose dimension no double holds."""
    for error in (5e-324, 1e-300, 0.05):
        nats = math.log(4) - math.log(error)
        assert bounds.sufficient_dimension(1e-150, error) == pytest.approx(4e300 * nats)
        assert bounds.simple_dimension(1e-150, error) == pytest.approx(12e300 * nats)
        assert bounds.sufficient_dimension(1, error) == math.ceil(12 * nats)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: bounds.pair_error_bound(0, 0.5), r"k must be a whole number in \[1, ∞\); got 0"),
        (lambda: bounds.pair_error_bound(1.5, 0.5), "k must be a whole number"),
        (lambda: bounds.pair_error_bound(8, 0), r"margin \(ε\) must be a number in \(0, 1\]; got 0"),
        (lambda: bounds.pair_error_bound(8, 1.01), r"margin \(ε\) must be a number in \(0, 1\]; got 1.01"),
        (lambda: bounds.sufficient_dimension(0.5, 0), r"error \(β\) must be a number in \(0, 1\); got 0"),
        (lambda: bounds.sufficient_dimension(0.5, 1), r"error \(β\) must be a number in \(0, 1\); got 1"),
        (lambda: bounds.simple_dimension(float("nan"), 0.1), r"margin \(ε\) .* got nan"),
        (lambda: bounds.simple_dimension("much", 0.1), r"margin \(ε\) .* got 'much'"),
        (lambda: bounds.simple_dimension(True, 0.1), r"margin \(ε\) .* got True"),
        (
            lambda: bounds.sufficient_dimension(1e-170, 0.05),
            r"margin \(ε\) must be a number in \[1e-150, 1\].* got 1e-170",
        ),
        (lambda: bounds.sufficient_dimension(1e-160, 0.05), r"margin \(ε\) .* got 1e-160"),
        (lambda: bounds.simple_dimension(1e-170, 0.05), r"margin \(ε\) .* got 1e-170"),
    ],
)
def test_errors_name_argument_range_and_value(call, said):
    with pytest.raises(engine.ParamError, match=said):
        call()
