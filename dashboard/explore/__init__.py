"""Explore: one query, several decoders beside each other."""
