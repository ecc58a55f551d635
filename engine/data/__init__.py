"""Everything from outside: corpora, vectors, models, the cache."""
