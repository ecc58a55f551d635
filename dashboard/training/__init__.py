"""Train: embeddings trained for a decoder."""
