"""What float64 may lose in a certificate: factors and terms that keep its numbers on the safe side."""

EPS = 1.01 * 2.0**-53
"""Half a unit in the last place; the hundredth more is for roundings of roundings."""
TINY = 2.0**-1022
"""What a product or a square may lose to underflow."""
SUM_FACTOR = 1 + 1e-10
"""Factor over a sum of up to 400,000 squares."""
SUM_LOSS = 1e6 * TINY
"""What so many squares may lose to underflow."""
EXTRA = 8
"""Roundings of a dual beyond one for each dimension and each member, and those of what it is compared with."""
