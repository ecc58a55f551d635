"""Named clusters of a map: k-means on its points, names by class-based TF-IDF of titles and texts (c-TF-IDF)."""

import io
import math
import re
from collections import Counter
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, groupby, pairwise

import numpy as np

from engine.data import cache as store
from engine.maps.layout import MAPS_SECTION, Layout
from engine.values import Corpus, digest_of

MAX_CLUSTERS, MIN_CLUSTER_SIZE = 18, 40
"""Clusters of a map at most, and the documents that each of them has on average at least."""
PAIR_SCORE_SHARE = 0.6
"""A pair of words names a cluster where its score is at least this share of the best single word's."""
_FORMAT = "1"  # a new one whenever the same map and texts would give other clusters
_MAX_TEXT_LENGTH = 300  # characters of a text that are read for its words
_STEM_LENGTH = 5  # words that begin with the same letters are forms of one
_WORD_PATTERN = re.compile(r"[^\W\d_]{2,}(?:-[^\W\d_]{2,})*")
_ASIDE_PATTERN = re.compile(r"\([^()]*\)")
_CAMEL_PATTERN = re.compile(r"(?<=[a-z])(?=[A-Z])")
_BREAK_PATTERN = re.compile(r"[.,;:!?()\[\]{}\"'=*/<>|]+")


@dataclass(frozen=True, eq=False)
class Clusters:
    """Groups of a map's documents, the largest first.

    of: (m,) int16 the cluster of each mapped document; names: a few words, "" where no word tells one from the others;
    centres: (c, 2) float32 the place of the document in its middle; sizes: (c,) how many documents each has.
    """

    of: np.ndarray
    names: tuple[str, ...]
    centres: np.ndarray
    sizes: np.ndarray


def find_clusters(layout: Layout, corpus: Corpus, *, cache: bool = True) -> Clusters:
    """Find and name the clusters of a map, deterministically, largest first.

    cache: False neither reads nor writes the disk
    """
    cache_key = digest_of([_FORMAT, "clusters", layout.digest, corpus.digest])
    if cache and (payload := store.get(MAPS_SECTION, cache_key)) is not None:
        with np.load(io.BytesIO(payload), allow_pickle=False) as cached:
            return Clusters(cached["of"], tuple(cached["names"].tolist()), cached["centres"], cached["sizes"])
    cluster_ids, centres = _group_points(layout.points)
    sizes = np.bincount(cluster_ids, minlength=len(centres))
    names = _name_clusters([_extract_terms(corpus, int(row)) for row in layout.rows], cluster_ids, len(centres))
    result = Clusters(cluster_ids, names, centres, sizes)
    if cache:
        stream = io.BytesIO()
        np.savez(stream, of=cluster_ids, names=np.array(names), centres=centres, sizes=sizes)
        store.put(MAPS_SECTION, cache_key, stream.getvalue())
    return result


def title_prefix(titles: Sequence[str]) -> str:
    """Return the titles' common prefix up to its last separator: "numpy." of numpy.sum and numpy.ma.sum."""
    if len(titles) < 2:
        return ""
    # The common prefix of the smallest and the largest title is common to all.
    first, last = min(titles), max(titles)
    differing = (position for position, (a, b) in enumerate(zip(first, last, strict=False)) if a != b)
    n_common = next(differing, min(len(first), len(last)))
    prefix = re.match(r".*[\W_]", first[:n_common], re.DOTALL)
    return prefix[0] if prefix else ""


def _group_points(points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Cluster the points of a map by k-means; return each one's cluster, (m,), and central points, (c, 2).

    Cluster 0 is the largest; a central point is that of the document nearest to its cluster's mean.
    """
    from sklearn.cluster import KMeans
    from threadpoolctl import threadpool_limits

    positions = points.astype(np.float64)
    n_clusters = min(MAX_CLUSTERS, max(1, len(points) // MIN_CLUSTER_SIZE), len(np.unique(points, axis=0)))
    with threadpool_limits(limits=1):  # threads add up in the order in which they end
        kmeans = KMeans(n_clusters, n_init=4, random_state=0).fit(positions)
    # Numbered anew, as a cluster may have ended without a point.
    _labels, labels, sizes = np.unique(kmeans.labels_, return_inverse=True, return_counts=True)
    means = np.stack([np.bincount(labels, coordinates) / sizes for coordinates in positions.T], axis=1)
    # The argsort of an order gives each cluster its place in it: the largest first, ties from left to right.
    cluster_ids = np.argsort(np.lexsort((means[:, 0], -sizes)))[labels].astype(np.int16)
    distances = ((positions - means[labels]) ** 2).sum(1)
    # Distances are compared within each cluster, so that its first document is the one in its middle.
    nearest = np.lexsort((distances, cluster_ids))
    _ids, first_positions = np.unique(cluster_ids[nearest], return_index=True)
    return cluster_ids, points[nearest[first_positions]]


def _extract_terms(corpus: Corpus, row: int) -> set[str]:
    """Extract the words of a document's title and beginning, and pairs of neighbours, for cluster names.

    No stop word or punctuation mark stands between the words of a pair, and stop words are no terms.
    """
    from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

    text = f"{corpus.titles[row]} . {corpus.texts[row][:_MAX_TEXT_LENGTH]}"
    terms: set[str] = set()
    # Asides in parentheses break a text, and CamelCase and underscores separate words.
    for fragment in _BREAK_PATTERN.split(_CAMEL_PATTERN.sub(" ", _ASIDE_PATTERN.sub(" . ", text).replace("_", " "))):
        words = _WORD_PATTERN.findall(fragment.lower())
        for is_stop_word, word_run in groupby(words, ENGLISH_STOP_WORDS.__contains__):
            if not is_stop_word:
                content_words = list(word_run)
                terms.update(content_words)
                terms.update(map(" ".join, pairwise(content_words)))
    return terms


def _name_clusters(terms: Sequence[set[str]], cluster_ids: np.ndarray, n_clusters: int) -> tuple[str, ...]:
    """Name each cluster by the terms that tell it from the others (c-TF-IDF), all names different.

    terms: by document, its set of terms. A term that more than half of all documents hold names no cluster: it may be a
    prefix that all titles share.
    """
    total_counts = Counter(chain.from_iterable(terms))
    max_documents = len(terms) / 2 if n_clusters > 1 else len(terms)
    mean_documents, used_names, cluster_names = len(terms) / n_clusters, set[str](), list[str]()
    for cluster in range(n_clusters):
        members = np.flatnonzero(cluster_ids == cluster).tolist()
        term_counts = Counter(chain.from_iterable(terms[member] for member in members))
        min_documents = min(2, len(members))
        scores = {
            term: n_holding * math.log1p(mean_documents / total_counts[term])
            for term, n_holding in term_counts.items()
            if n_holding >= min_documents and total_counts[term] <= max_documents
        }
        cluster_names.append(_choose_name(scores, used_names))
        used_names.add(cluster_names[-1])
    return tuple(cluster_names)


def _choose_name(scores: Mapping[str, float], used_names: Container[str]) -> str:
    """Choose a cluster's name from its terms' scores that no other cluster has; "" if there is none.

    Preferred are pairs of words that score nearly as well as the best word, then that word with another, then single
    words.
    """
    ranked_terms = sorted(scores, key=lambda term: (-scores[term], term))
    words = [term for term in ranked_terms if " " not in term]
    if not words:
        return ""
    pairs = (term for term in ranked_terms if " " in term and scores[term] >= PAIR_SCORE_SHARE * scores[words[0]])
    other_words = (word for word in words[1:] if word[:_STEM_LENGTH] != words[0][:_STEM_LENGTH])
    candidates = (*pairs, *(f"{words[0]}, {word}" for word in other_words), *words)
    return next((name for name in candidates if name not in used_names), "")
