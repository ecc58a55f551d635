"""Two-dimensional maps of a corpus."""
