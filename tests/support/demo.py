"""Sizes of the demo corpus, which depend on the installed NumPy."""

from functools import cache

import engine


@cache
def demo_counts():
    """Count labelled queries by split, and of all under "queries"."""
    dataset = engine.load_dataset("numpy-api")
    return {"queries": len(dataset.queries), **{split: len(dataset.judged(split)) for split in dataset.qrels}}
