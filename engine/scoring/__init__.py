"""Scorers: one file each, a number for every document."""
