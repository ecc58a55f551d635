"""Tokenizer: lower-cased words and pairs of neighbours, without stemming or stop words."""

import re
from itertools import pairwise

_WORD = re.compile(r"\w+")


def terms(text: str, ngrams: str = "1") -> list[str]:
    """Return the words of a text, runs of letters, digits and underscores; with ngrams "2" also the bigrams.

    A bigram is two neighbouring words joined by a space; bigrams stand after all words.
    """
    words = _WORD.findall(text.lower())
    if ngrams == "1":
        return words
    return words + [f"{first_word} {second_word}" for first_word, second_word in pairwise(words)]
