"""Adapters over frozen embeddings, trained for a decoder: NNN paper, §3.2 and appendix B."""
