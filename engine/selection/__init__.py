"""Selectors: one file each, a set that knows itself whole."""
