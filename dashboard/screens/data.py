"""Data: choose a corpus, see what is in it and what is wrong with it, embed it, look after the cache."""

from dashboard.data import choice

choice.show()
