"""Words and BM25: how texts are cut, and an index that gives every document its score.

A word is a run of letters, digits and underscores (`\\w+`), lower-cased; nothing is stemmed or left out.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from engine.errors import FrontierError
from engine.params import Choice, Real

if TYPE_CHECKING:
    from engine.space import Space

VARIANTS = ("lucene", "robertson", "atire", "bm25l", "bm25+")
DELTA = {"bm25l": 0.5, "bm25+": 1.0}
"""δ of the variants that have one, as Lv & Zhai recommend."""

VARIANT = Choice(
    default="lucene",
    options=VARIANTS,
    symbol="formula",
    help="Which BM25: they differ in the weight of rare words and of long documents.",
)
K1 = Real(
    default=1.5,
    low=0.0,
    high=1000.0,
    comfortable=(0.5, 3.0),
    symbol="k₁",
    help="How much more a word counts when a document repeats it; 0: not at all.",
)
B = Real(default=0.75, low=0.0, high=1.0, symbol="b", help="How much long documents are held back; 0: not at all.")
NGRAMS = Choice(
    default="1",
    options=("1", "2"),
    symbol="ngrams",
    help="1: words; 2: words, and pairs of neighbouring words.",
    source="sparse-dense §4.1",
)
"""What BM25 and whatever is made from it have."""

_WORD = re.compile(r"\w+")


def terms(text: str, ngrams: str = "1") -> list[str]:
    """The words of a text in order, with ngrams "2" the pairs of neighbours after them, joined by a space."""
    words = _WORD.findall(text.lower())
    if ngrams == "1":
        return words
    return words + [f"{a} {b}" for a, b in pairwise(words)]


@dataclass(frozen=True, eq=False)
class Counted:
    """Texts as terms. number: term → its number, by first occurrence; texts: the terms' numbers, a list each."""

    number: dict[str, int]
    texts: list[list[int]]
    ngrams: str

    @classmethod
    def of(cls, texts: Sequence[str], ngrams: str) -> Counted:
        number: dict[str, int] = {}
        return cls(number, [[number.setdefault(t, len(number)) for t in terms(text, ngrams)] for text in texts], ngrams)

    def known(self, text: str) -> np.ndarray:
        """(t,) numbers of the terms of another text, ascending, each as often as it occurs; unknown ones are left out.

        Their order is that of summation: sorted, a score does not depend on the order of the words.
        """
        return np.array(sorted(self.number[t] for t in terms(text, self.ngrams) if t in self.number), dtype=np.int64)


class Index:
    """BM25 of every text for any query, from bm25s: what each term of each text adds is computed beforehand.

    Every occurrence of a word in the query counts. N texts, df of them with the word, tf times in a text of l terms, ℓ
    the mean of l, c = 1 − b + b·l/ℓ:

    - lucene: log(1 + (N−df+½)/(df+½)) · tf/(tf + k₁c)
    - robertson: log((N−df+½)/(df+½)), at least 0, · tf/(tf + k₁c)
    - atire: log(N/df) · (k₁+1)tf/(tf + k₁c)
    - bm25l: log((N+1)/(df+½)) · (k₁+1)(tf/c + ½)/(k₁ + tf/c + ½)
    - bm25+: log((N+1)/df) · ((k₁+1)tf/(tf + k₁c) + 1)

    Only words that a text has count, in bm25l and bm25+ too (Lv & Zhai 2011); libraries that add their δ for absent
    words shift all scores of a query alike. Formulas of the others: Kamphuis et al. 2020.
    """

    def __init__(self, counted: Counted, variant: str, k1: float, b: float) -> None:
        self.counted = counted
        self._model = _indexed(counted, variant, k1, b) if counted.number else None

    def scores(self, text: str) -> np.ndarray:
        """(N,) float32 scores of all texts; 0 where no word is shared."""
        known = self.counted.known(text)
        if self._model is None or not len(known):
            return np.zeros(len(self.counted.texts), dtype=np.float32)
        return self._model.get_scores_from_ids(known)


def _indexed(counted: Counted, variant: str, k1: float, b: float) -> Any:
    """The model of bm25s over texts with at least one term."""
    try:
        from bm25s import BM25
    except ImportError:
        raise FrontierError("BM25 needs the package bm25s: pip install bm25s") from None
    # At k₁ = 0 bm25s would divide 0 by 0 for absent words; so little changes nothing in float32.
    model = BM25(k1=max(k1, 1e-12), b=b, delta=DELTA.get(variant, 0.0), method=variant)
    model.index((counted.texts, counted.number), create_empty_token=False, show_progress=False)
    if model.nonoccurrence_array is not None:
        # bm25s takes from each contribution what the word would give if absent, and adds that for all texts.
        model.scores["data"] += np.repeat(model.nonoccurrence_array, np.diff(model.scores["indptr"]))
        model.nonoccurrence_array = None
    return model


def counted_of(space: Space, ngrams: str) -> Counted:
    """The passages of a space as terms, kept with it: other weights need no new count."""
    return space.derived(("terms", ngrams), lambda: Counted.of(space.corpus.passages, ngrams))


def index_of(space: Space, variant: str, k1: float, b: float, ngrams: str) -> Index:
    """The BM25 index of a space's passages, kept with it."""
    key = ("bm25", variant, k1, b, ngrams)
    return space.derived(key, lambda: Index(counted_of(space, ngrams), variant, k1, b))
