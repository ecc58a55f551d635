"""Identification of the decoder that made a run: selector, weight of relevance and pool, read off its lists."""
