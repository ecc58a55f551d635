"""Data: choose and embed a corpus, compare encoders, manage the cache."""
