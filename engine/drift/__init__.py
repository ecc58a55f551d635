"""How far embeddings have moved, and what that changed."""
