"""Claims of the five papers, a file a paper, measured on judged sets and judged by rules."""
