"""Text processing: tokenizer, bags of words, BM25 index."""
