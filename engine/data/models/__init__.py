"""Encoders and rerankers: where they come from, their precision, their fingerprints."""
