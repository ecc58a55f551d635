"""Data: choose and embed a corpus, compare encoders, look after the cache."""
