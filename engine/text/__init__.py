"""Words of texts: tokenizer, bags of words, the BM25 index."""
