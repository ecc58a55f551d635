"""Deliberately worse documentation: truncated documents (Online-Optimized RAG, Fig. 1a)."""

import re

from engine.params import Whole
from engine.values import Corpus

SHORTENED_WORDS = Whole(
    default=None,
    low=1,
    comfortable=(1, 50),
    unset="whole documents",
    symbol="words",
    name="words",
    help="Documents are cut to so many words, as if they were badly described.",
    source="Fig. 1a",
)
_WORD_PATTERN = re.compile(r"\S+")


def shorten_documents(corpus: Corpus, words: int | None) -> Corpus:
    """Cut every document to its first words, the title's first; None: unchanged. Raises ParamError."""
    words = SHORTENED_WORDS.check(words)
    if words is None:
        return corpus
    cut_titles, cut_texts = [], []
    for document_title, document_text in zip(corpus.titles, corpus.texts, strict=True):
        cut_titles.append(_cut_text(document_title, words))
        # The words of the title count, so a text gets those that its title leaves.
        cut_texts.append(_cut_text(document_text, words - len(_WORD_PATTERN.findall(cut_titles[-1]))))
    return Corpus(corpus.ids, tuple(cut_texts), tuple(cut_titles), f"{corpus.name}, {words} words")


def _cut_text(full_text: str, words: int) -> str:
    """Return a text up to the end of its word number `words`, unchanged if it has fewer."""
    if words <= 0:
        return ""
    for n_words, word_match in enumerate(_WORD_PATTERN.finditer(full_text), 1):
        if n_words == words:
            return full_text[: word_match.end()]
    return full_text
