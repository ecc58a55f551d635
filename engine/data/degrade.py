"""Worse documentation on purpose: documents cut to their first words (Online-Optimized RAG, Fig. 1a)."""

import re

from engine.params import Whole
from engine.values import Corpus

WORDS = Whole(
    default=None,
    low=1,
    comfortable=(1, 50),
    unset="whole documents",
    symbol="words",
    name="words",
    help="Documents are cut to so many words, as if they were badly described.",
    source="Fig. 1a",
)
_WORD = re.compile(r"\S+")


def shortened(corpus: Corpus, words: int | None) -> Corpus:
    """The corpus with every document cut to its first words, the title's first; None: whole. Raises ParamError."""
    words = WORDS.check(words)
    if words is None:
        return corpus
    titles = [_cut(title, words) for title in corpus.titles]
    texts = [_cut(text, words - len(_WORD.findall(title))) for title, text in zip(titles, corpus.texts, strict=True)]
    return Corpus(corpus.ids, tuple(texts), tuple(titles), f"{corpus.name}, {words} words")


def _cut(text: str, words: int) -> str:
    if words <= 0:
        return ""
    for count, word in enumerate(_WORD.finditer(text), 1):
        if count == words:
            return text[: word.end()]
    return text
