"""Judging for a corpus without judgements: pools, an order, a log of grades, and what they already tell."""
