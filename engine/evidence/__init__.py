"""Claims of the five papers, each a file, measured on judged sets and judged by rules."""
