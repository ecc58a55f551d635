"""BM25 index: scores of all documents for a query, in five variants."""

from functools import cached_property
from itertools import chain
from typing import Any

import numpy as np

from engine.errors import FrontierError
from engine.params import Choice, Real
from engine.text.bag_of_words import DocumentSpace, TermCounts, count_terms, text_lengths
from engine.text.tokenizer import split_characters, terms

BM25_VARIANTS = ("lucene", "robertson", "atire", "bm25l", "bm25+")
BM25_DELTA = {"bm25l": 0.5, "bm25+": 1.0}
"""δ of the variants that have one, as recommended by Lv & Zhai 2011."""

BM25_VARIANT = Choice(
    default="lucene",
    options=BM25_VARIANTS,
    symbol="formula",
    title="BM25 variant",
    help="Which BM25: they differ in the weight of rare words and of long documents.",
)
BM25_K1 = Real(
    default=1.5,
    low=0.0,
    high=1000.0,
    comfortable=(0.5, 3.0),
    symbol="k₁",
    title="weight of repeated words",
    help="How much more a word counts when a document repeats it; 0: not at all.",
)
BM25_B = Real(
    0.75, "b", 0.0, 1.0, title="penalty on long documents", help="How much they are held back; 0: not at all."
)
BM25_NGRAMS = Choice(
    default="1",
    options=("1", "2"),
    symbol="ngrams",
    title="words or pairs of words",
    help="1: words; 2: words, and pairs of neighbouring words.",
    source="sparse-dense §4.1",
)
"""Terms counted by BM25 and by the scorers built on it."""


class Bm25Index:
    """BM25 scores of all texts for a query; bm25s computes each term's part in each text in advance.

    Every occurrence of a word in the query counts. N texts, df of them with the word, tf times in a text of l terms, ℓ
    the mean of l, c = 1 − b + b·l/ℓ:

    - lucene: log(1 + (N−df+½)/(df+½)) · tf/(tf + k₁c)
    - robertson: log((N−df+½)/(df+½)), at least 0, · tf/(tf + k₁c)
    - atire: log(N/df) · (k₁+1)tf/(tf + k₁c)
    - bm25l: log((N+1)/(df+½)) · (k₁+1)(tf/c + ½)/(k₁ + tf/c + ½)
    - bm25+: log((N+1)/df) · ((k₁+1)tf/(tf + k₁c) + 1)

    Only words that a text has count, in bm25l and bm25+ too (Lv & Zhai 2011); libraries that add their δ for absent
    words shift all scores of a query alike. Formulas of the others: Kamphuis et al. 2020.

    counts: as `count_terms(texts, ngrams=ngrams)` returns them.
    """

    def __init__(self, counts: TermCounts, ngrams: str, variant: str, k1: float, b: float) -> None:
        """Build the index from term counts; without any term every score is 0."""
        rows, self._columns = counts
        self._ngrams, self._size = ngrams, rows.shape[0]
        self._model = _build_model(counts, variant, k1, b) if self._columns else None

    def scores(self, text: str) -> np.ndarray:
        """Return the scores of all texts, (N,) float32; 0 without a common word."""
        # Columns are sorted, so that the order of summation, and so the score, does not depend on the order of words.
        term_columns = map(self._find_columns, terms(text, self._ngrams))
        query_columns = np.array(sorted(chain.from_iterable(term_columns)), dtype=np.int64)
        if self._model is None or not len(query_columns):
            return np.zeros(self._size, dtype=np.float32)
        scores: np.ndarray = self._model.get_scores_from_ids(query_columns)
        return scores

    def _find_columns(self, term: str) -> list[int]:
        """Return the index's columns for a query's term: its own if the texts have it.

        Texts in a script without spaces are indexed by pairs of characters. So a term that is a single such character
        gets the columns of all pairs that contain it too.
        """
        own_columns = [self._columns[term]] if term in self._columns else []
        if len(split_characters(term)) != 1:
            return own_columns
        return own_columns + self._pairs_by_character.get(term, [])

    @cached_property
    def _pairs_by_character(self) -> dict[str, list[int]]:
        """Character of a script without spaces → the columns of the pairs with it."""
        pair_columns: dict[str, list[int]] = {}
        for term, column in self._columns.items():
            # Pairs of words, joined by a space, are no pairs of characters.
            characters = [] if " " in term else split_characters(term)
            for character in dict.fromkeys(characters if len(characters) == 2 else []):
                pair_columns.setdefault(character, []).append(column)
        return pair_columns


def _build_model(counts: TermCounts, variant: str, k1: float, b: float) -> Any:
    """Index counts of at least one term with bm25s, so that absent words score 0 in every variant.

    Raises FrontierError if bm25s is not installed.
    """
    try:
        from bm25s import BM25
    except ImportError:
        raise FrontierError("BM25 needs the package bm25s: pip install bm25s") from None
    rows, columns = counts
    # bm25s takes texts as lists of term numbers, each repeated as often as it occurs.
    tokens = np.split(np.repeat(rows.indices, rows.data.astype(np.int64)), text_lengths(rows).cumsum().astype(int)[:-1])
    # At k₁ = 0 bm25s would divide 0 by 0 for absent words; 1e-12 changes nothing in float32.
    model = BM25(k1=max(k1, 1e-12), b=b, delta=BM25_DELTA.get(variant, 0.0), method=variant)
    model.index(([text.tolist() for text in tokens], columns), create_empty_token=False, show_progress=False)
    if model.nonoccurrence_array is not None:
        # bm25s subtracts from each contribution the score of an absent word, and adds that for all texts.
        model.scores["data"] += np.repeat(model.nonoccurrence_array, np.diff(model.scores["indptr"]))
        model.nonoccurrence_array = None
    return model


def build_index(space: DocumentSpace, variant: str, k1: float, b: float, ngrams: str) -> Bm25Index:
    """Return the BM25 index of a space's passages; the space caches it and the counts of terms."""

    def make_index() -> Bm25Index:
        counts = space.derived(("terms", ngrams), lambda: count_terms(space.corpus.passages, ngrams=ngrams))
        return Bm25Index(counts, ngrams, variant, k1, b)

    return space.derived(_index_key(variant, k1, b, ngrams), make_index)


def share_index(space: DocumentSpace, target: DocumentSpace, variant: str, k1: float, b: float, ngrams: str) -> None:
    """Give another space of the same documents the index of a space, so that their words are not counted again."""
    target.derived(_index_key(variant, k1, b, ngrams), lambda: build_index(space, variant, k1, b, ngrams))


def _index_key(variant: str, k1: float, b: float, ngrams: str) -> tuple[Any, ...]:
    """Return the key of an index among the values that a space caches."""
    return "bm25", variant, k1, b, ngrams
