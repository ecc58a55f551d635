"""Claims, a module each paper."""
