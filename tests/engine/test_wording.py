"""Numbers in words."""

from engine.wording import decimal, gain, p_value, percent, power, signed


def test_numbers_have_one_style():
    assert [decimal(v) for v in (0.1488, -0.0219, 0, 3, 0.0001)] == ["0.149", "−0.022", "0.000", "3.000", "0.0001"]
    assert [decimal(2e-15), power(0), power(-3.2e-7), power(4e12)] == ["2·10⁻¹⁵", "0", "−3·10⁻⁷", "4·10¹²"]
    assert [signed(v) for v in (0.149, -0.0219, 0.0001, -0.0001, 0)] == ["+0.149", "−0.022", "±0", "±0", "±0"]
    assert [decimal(v) for v in (0.0124, -0.3, 1.25, 0.00004, -0.0)] == ["0.012", "−0.300", "1.250", "0.00004", "0.000"]
    assert [gain(v) for v in (0.149, -0.0219, 0.0001, -0.0001, 0)] == ["+0.149", "−0.022", "+0.0001", "−0.0001", "±0"]
    assert [percent(0.95), percent(-0.012, 1)] == ["95%", "−1.2%"]


def test_a_p_is_never_written_on_the_other_side_of_the_level():
    assert [p_value(p) for p in (0.0123, 0.0004, 0.0496, 0.04996, 1.0, 0.05)] == [
        "p = 0.012",
        "p < 0.001",
        "p = 0.0496",
        "p = 0.04996",
        "p > 0.99",
        "p = 0.050",
    ]
