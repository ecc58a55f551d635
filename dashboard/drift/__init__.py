"""Drift: what feedback did to the documents over time."""
