"""Studies of one question each: ANN search, rerank depth, encoders, brute force, FISTA steps."""
