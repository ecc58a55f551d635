"""Numerics behind the selectors: ties, greedy pools, quadratic sets, the elastic net."""
