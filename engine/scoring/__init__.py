"""Scorers, one file each: they give every document a score for a query."""
