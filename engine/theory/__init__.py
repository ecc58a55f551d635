"""The papers' bounds and theorems, measured on a corpus."""
