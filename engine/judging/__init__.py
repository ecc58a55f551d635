"""Judging of a corpus without qrels: pools, judging order, a log of grades, and interim results."""
