"""Measure many decoders: cells, the store that keeps them, and the workers that compute them."""
