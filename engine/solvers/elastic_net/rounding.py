"""Rounding of float64 in a certificate: factors and terms that keep its numbers on the safe side."""

EPS = 1.01 * 2.0**-53
"""Half a unit in the last place; the hundredth more is for roundings of roundings."""
TINY = 2.0**-1022
"""Largest loss of a product or a square to underflow."""
SUM_FACTOR = 1 + 1e-10
"""Factor over a sum of up to 400,000 squares."""
SUM_LOSS = 1e6 * TINY
"""Largest loss of that many squares to underflow."""
EXTRA = 8
"""Roundings of a dual beyond one for each dimension and each member, and those of what it is compared with."""
