"""Named clusters of a map: k-means on its points, names by class-based TF-IDF of titles and texts (c-TF-IDF)."""

import io
import math
import re
from collections import Counter
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise

import numpy as np

from engine.data import cache as store
from engine.maps.layout import SECTION, Layout
from engine.values import Corpus, digest_of

MOST, SMALLEST = 18, 40
"""Clusters of a map at most, and the documents that each of them has on average at least."""
PAIR = 0.6
"""A pair of words names a cluster where its score is at least this share of the best single word's."""
_FORMAT = "1"  # a new one whenever the same map and texts would give other clusters
_READ = 300  # characters of a text that are read for its words
_STEM = 5  # words that begin with the same letters are forms of one
_WORD = re.compile(r"[^\W\d_]{2,}(?:-[^\W\d_]{2,})*")
_ASIDE = re.compile(r"\([^()]*\)")
_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])")
_BREAK = re.compile(r"[.,;:!?()\[\]{}\"'=*/<>|]+")


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


def clusters(layout: Layout, corpus: Corpus, *, cache: bool = True) -> Clusters:
    """The named clusters of a map; the same map and texts give the same. cache: False leaves the disk alone."""
    key = digest_of([_FORMAT, "clusters", layout.digest, corpus.digest])
    if cache and (payload := store.get(SECTION, key)) is not None:
        with np.load(io.BytesIO(payload), allow_pickle=False) as found:
            return Clusters(found["of"], tuple(found["names"].tolist()), found["centres"], found["sizes"])
    of, centres = _grouped(layout.points)
    sizes = np.bincount(of, minlength=len(centres))
    names = _names([_terms(corpus, int(row)) for row in layout.rows], of, len(centres))
    made = Clusters(of, names, centres, sizes)
    if cache:
        stream = io.BytesIO()
        np.savez(stream, of=of, names=np.array(names), centres=centres, sizes=sizes)
        store.put(SECTION, key, stream.getvalue())
    return made


def title_prefix(titles: Sequence[str]) -> str:
    """What all titles begin with, up to its last separator: "numpy." of numpy.sum and numpy.ma.sum; "" without one."""
    if len(titles) < 2:
        return ""
    first, last = min(titles), max(titles)  # what these two share, all share
    same = next((at for at, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), min(len(first), len(last)))
    ends = [found.end() for found in re.finditer(r"[\W_]+", first[:same])]
    return first[: ends[-1]] if ends else ""


def _grouped(points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(m,) the cluster of each point, the largest first, and (c, 2) the point nearest to each cluster's mean."""
    from sklearn.cluster import KMeans
    from threadpoolctl import threadpool_limits

    places = points.astype(np.float64)
    count = min(MOST, max(1, len(points) // SMALLEST), len(np.unique(points, axis=0)))
    with threadpool_limits(limits=1):  # threads add up in the order in which they end
        found = KMeans(count, n_init=4, random_state=0).fit(places)
    _, labels, sizes = np.unique(found.labels_, return_inverse=True, return_counts=True)
    means = np.stack([np.bincount(labels, axis) / sizes for axis in places.T], axis=1)
    of = np.argsort(np.lexsort((means[:, 0], -sizes)))[labels].astype(np.int16)
    gap = ((places - means[labels]) ** 2).sum(1)
    nearest = np.lexsort((gap, of))  # the first of each cluster is in its middle
    return of, points[nearest[np.unique(of[nearest], return_index=True)[1]]]


def _terms(corpus: Corpus, row: int) -> set[str]:
    """The words of a document, and the pairs of neighbours without a stop word or a mark between them."""
    from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

    text = f"{corpus.titles[row]} . {corpus.texts[row][:_READ]}"
    found: set[str] = set()
    for part in _BREAK.split(_CAMEL.sub(" ", _ASIDE.sub(" . ", text).replace("_", " "))):
        words = _WORD.findall(part.lower())
        for stop, run in groupby(words, ENGLISH_STOP_WORDS.__contains__):
            if not stop:
                found.update(kept := list(run))
                found.update(f"{a} {b}" for a, b in pairwise(kept))
    return found


def _names(terms: Sequence[set[str]], of: np.ndarray, count: int) -> tuple[str, ...]:
    """(c,) the name of each cluster, all different, by c-TF-IDF: a term counts once a document.

    A term that more than half of all documents hold, as a prefix that all titles share, names no cluster.
    """
    overall = Counter(term for words in terms for term in words)
    common = len(terms) / 2 if count > 1 else len(terms)
    usual, taken, names = len(terms) / count, set[str](), list[str]()
    for cluster in range(count):
        members = np.flatnonzero(of == cluster).tolist()
        inside = Counter(term for member in members for term in terms[member])
        least = min(2, len(members))
        scores = {
            term: held * math.log1p(usual / overall[term])
            for term, held in inside.items()
            if held >= least and overall[term] <= common
        }
        names.append(_name(scores, taken))
        taken.add(names[-1])
    return tuple(names)


def _name(scores: Mapping[str, float], taken: Container[str]) -> str:
    """A pair of words that scores nearly as well as the best word, or else the two best words; "" without words."""
    best = sorted(scores, key=lambda term: (-scores[term], term))
    words = [term for term in best if " " not in term]
    if not words:
        return ""
    pairs = (term for term in best if " " in term and scores[term] >= PAIR * scores[words[0]])
    others = (word for word in words[1:] if word[:_STEM] != words[0][:_STEM])
    names = (*pairs, *(f"{words[0]}, {word}" for word in others), *words)
    return next((name for name in names if name not in taken), "")
