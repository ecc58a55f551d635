"""Sets by a quadratic objective: Frank–Wolfe and local search."""
