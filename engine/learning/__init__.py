"""Embeddings that learn: from judgements before, and from feedback in use."""

from engine.learning import orag as orag
