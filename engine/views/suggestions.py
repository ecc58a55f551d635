"""Suggested searches of a corpus: the beginnings of typical documents, one of each group of similar ones."""

import re
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch

from engine.space import Space
from engine.values import Corpus
from engine.wording import CONTROL_CHARACTERS

MAX_SUGGESTION_LENGTH, MAX_READ_CHARACTERS = 60, 600
"""Characters of a suggested search, and of a document that are read for it."""
N_SUGGESTIONS = 6
MAX_GROUPED_DOCUMENTS = 2_000
"""Documents that are grouped: a random sample of a larger corpus."""
_SENTENCE_GAP = re.compile(r"(?<=[.!?])\s|(?<=[。！？])")
_LETTER = re.compile(r"[^\W\d_]")
_EMPHASIS = re.compile(r"(?<!\w)(\*{1,3})(?=\S)([^*]+)(?<=\S)\1(?!\w)")
_CODE = re.compile(r"\w\(|\w[._]\w|[={}<>`]")


class Suggestion(NamedTuple):
    """A search to begin with."""

    row: int  # of the document that it comes from
    text: str


def suggest_searches(space: Space, count: int = N_SUGGESTIONS) -> tuple[Suggestion, ...]:
    """Suggest searches: titles or first words of the documents in the middle of k-means clusters, largest first.

    The same corpus always gives the same ones, and no two have the same words. Fewer than `count` are returned for a
    small corpus, or one whose documents have no texts.
    """
    rows = _sample_rows(space)
    units = _scale_rows(space, rows)
    suggestions: list[Suggestion] = []
    used_texts: set[str] = set()
    for members in _order_clusters(units, min(count, len(rows))):
        # The most typical document whose words no other cluster has given yet.
        for member in members.tolist():
            text = first_words(space.corpus, int(rows[member]))
            if text and text.casefold() not in used_texts:
                used_texts.add(text.casefold())
                suggestions.append(Suggestion(int(rows[member]), text))
                break
    return tuple(suggestions)


def first_words(corpus: Corpus, row: int) -> str:
    """Return a document's title, or else its first sentence or words, as a search of at most 60 characters.

    A single word and code, such as a file's name or a function's signature, are taken only if there is nothing else. ""
    for a document without words.
    """
    title, text = map(_tidy, (corpus.titles[row], corpus.texts[row]))
    parts = list(filter(_LETTER.search, (title, *_SENTENCE_GAP.split(text))))
    phrases = filter(_is_phrase, parts)
    return _cut_at_word(next(phrases, parts[0] if parts else ""))


def _tidy(text: str) -> str:
    """Return the beginning of a text on one line, without control characters and asterisks of emphasis."""
    line = " ".join(CONTROL_CHARACTERS.sub(" ", text[:MAX_READ_CHARACTERS]).split())
    return _EMPHASIS.sub(r"\2", line)


def _is_phrase(part: str) -> bool:
    """Return True for several words that are not code; scripts other than Latin may have no spaces."""
    return (" " in part or not part.isascii()) and not _CODE.search(part)


def _cut_at_word(words: str) -> str:
    """Cut a text after the last word that fits, and drop the punctuation at its end."""
    if len(words) > MAX_SUGGESTION_LENGTH:
        # A space just behind the limit ends a word that fits. Writing without spaces is cut where it is full.
        last_space = words.rfind(" ", 0, MAX_SUGGESTION_LENGTH + 1)
        words = words[: last_space if last_space > 0 else MAX_SUGGESTION_LENGTH]
    return words.rstrip(" .,;:–—-(")


def _sample_rows(space: Space) -> np.ndarray:
    """Return the ascending rows of the documents to group: all, or a random sample."""
    n_documents = len(space)
    if n_documents <= MAX_GROUPED_DOCUMENTS:
        return np.arange(n_documents)
    return np.sort(np.random.default_rng(0).choice(n_documents, MAX_GROUPED_DOCUMENTS, replace=False))


def _scale_rows(space: Space, rows: np.ndarray) -> np.ndarray:
    """Return the vectors of some documents with length 1, (m, d) float64; zero rows stay zero."""
    vectors = space.matrix.on_cpu[torch.from_numpy(rows)].double().numpy()
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    units: np.ndarray = np.divide(vectors, lengths, out=np.zeros_like(vectors), where=lengths > 0)
    return units


def _order_clusters(units: np.ndarray, n_clusters: int) -> Iterator[np.ndarray]:
    """Yield each cluster's members, the nearest to its mean first; the largest cluster first.

    Ties go to the lower position.
    """
    from sklearn.cluster import KMeans
    from threadpoolctl import threadpool_limits

    n_clusters = min(n_clusters, len(np.unique(units, axis=0)))
    with threadpool_limits(limits=1):  # threads add up in the order in which they end
        labels = KMeans(n_clusters, n_init=2, random_state=0).fit(units).labels_
    # In each cluster the documents nearest to its mean are the most typical ones.
    clusters = []
    for label in np.unique(labels):
        positions = np.flatnonzero(labels == label)
        members = units[positions]
        distances = ((members - members.mean(0)) ** 2).sum(1)
        clusters.append(positions[np.argsort(distances, kind="stable")])
    yield from sorted(clusters, key=lambda members: (-len(members), int(members.min())))
