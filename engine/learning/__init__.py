"""Embeddings that learn: from judgements, and from feedback."""
