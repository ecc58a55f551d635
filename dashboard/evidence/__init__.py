"""The Evidence page: claims of the papers, and what came of each."""
