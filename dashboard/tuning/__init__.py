"""Tune: a setting chosen on one split and reported on another."""
