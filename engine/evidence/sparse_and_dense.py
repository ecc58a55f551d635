"""Sparse and dense retrieval and both together: on questions, and on passages that contain the query, by length.

The second is the sparse-dense paper's §5: queries are words of a passage as they stand.
"""

from collections.abc import Mapping, Sequence
from random import Random

import numpy as np

import engine
from engine.data.cloze import containing_passages
from engine.data.passages import cut
from engine.decoder import Decoder
from engine.evaluation.splits import split_in_half
from engine.evidence.claim import Measurement
from engine.evidence.judged_sets import JudgedSet
from engine.evidence.measures import DENSE, POINTS, cells, tuned
from engine.evidence.rules import EffectCurve, curve_of
from engine.values import Corpus, Dataset

WORDS, PAIRS = (Decoder(engine.make("top_k"), engine.make("bm25", ngrams=ngrams)) for ngrams in ("1", "2"))
HYBRIDS = engine.grid("hybrid", normalisation="none")
"""Scores added as they are, as in the paper, with eleven weights."""
PLAIN = {"dense": DENSE, "words": WORDS, "pairs": PAIRS}
METRICS, K = ("recall", "ndcg", "mrr"), 10
LENGTHS = (25, 50, 100, 200)
"""Words of a passage at most; all that the encoder reads whole."""
PASSAGES, QUERIES, LEAST = 400, 300, 200
Values = dict[str, list[float]]


def sparse_and_dense(sets: Sequence[JudgedSet], seed: int) -> Measurement:
    """Of every set: "questions", metric → system → values of the queries to report on; "lengths", mean words of what is
    relevant to each; "contained", the most words of a passage → system → MRR@10 of queries that a passage contains,
    where there are passages of every length.

    "hybrid" has the weight that is best on other queries: of those with a passage, half are "beside" it.
    """
    return {
        judged.name: {
            "questions": {metric: _on_questions(judged, metric) for metric in METRICS},
            "lengths": _relevant_lengths(judged),
            "contained": _on_passages(judged, seed),
        }
        for judged in sets
    }


def _on_questions(judged: JudgedSet, metric: str) -> Values:
    values = {name: tuned(judged, [decoder], metric, K) for name, decoder in PLAIN.items()}
    return {name: of.round(4).tolist() for name, of in {**values, "hybrid": tuned(judged, HYBRIDS, metric, K)}.items()}


def _relevant_lengths(judged: JudgedSet) -> list[float]:
    (cell,) = cells(judged, [DENSE], "test", (METRICS[0],), K)
    corpus, qrels = judged.dataset.corpus, judged.splits["test"]
    words = {name: len(text.split()) for name, text in zip(corpus.ids, corpus.texts, strict=True)}
    return [float(np.mean([words[d] for d in qrels.relevant(query) if d in words])) for query in cell.queries]


def _on_passages(judged: JudgedSet, seed: int) -> dict[str, Values]:
    """As many passages of each length, those of more than half of it; none where a length has too few."""
    corpora = {length: _passages(judged.dataset.corpus, length) for length in LENGTHS}
    count = min(PASSAGES, *map(len, corpora.values()))
    if count < LEAST:
        return {}
    return {
        str(length): _contained(judged, containing_passages(_drawn(corpus, count, seed), QUERIES, seed=seed))
        for length, corpus in corpora.items()
    }


def _contained(judged: JudgedSet, task: Dataset) -> Values:
    (qrels,) = task.qrels.values()
    halves = split_in_half(qrels)
    space = engine.Space(task.corpus, engine.embed(task.corpus, encoder=judged.encoder))
    queries = engine.embed(task.queries, encoder=judged.encoder)

    def mrr(decoder: Decoder) -> np.ndarray:
        ranking = engine.decode(decoder, space, queries, K)
        values: np.ndarray = POINTS * engine.measure(ranking, space, queries, qrels, K, ("mrr",)).values["mrr"]
        return values

    chosen = np.array([query in halves["dev"].grades for query in queries.ids])
    values = {name: mrr(decoder) for name, decoder in PLAIN.items()}
    best = max(map(mrr, HYBRIDS), key=lambda of: float(of[chosen].mean()))
    values |= {"hybrid": best[~chosen], "dense beside hybrid": values["dense"][~chosen]}
    return {name: column.round(4).tolist() for name, column in values.items()}


def _passages(corpus: Corpus, length: int) -> Corpus:
    """Passages without overlap and without titles, of at most so many words and more than half of them."""
    passages = cut(Corpus(corpus.ids, corpus.texts), length, 0.0).corpus
    return _rows(passages, [row for row, text in enumerate(passages.texts) if len(text.split()) > length / 2])


def _drawn(corpus: Corpus, count: int, seed: int) -> Corpus:
    return _rows(corpus, sorted(Random(seed).sample(range(len(corpus)), count)))


def _rows(corpus: Corpus, rows: Sequence[int]) -> Corpus:
    return Corpus(tuple(corpus.ids[row] for row in rows), tuple(corpus.texts[row] for row in rows))


def curves(contained: Mapping[str, Values], name: str, systems: Mapping[str, str]) -> list[EffectCurve]:
    """What systems find by the length of passages. systems: by their titles."""
    axes = "words of a passage", f"MRR@{K} in points, {name}"
    return [
        curve_of(title, axes, LENGTHS, [float(np.mean(contained[str(n)][system])) for n in LENGTHS])
        for title, system in systems.items()
    ]


def per_doubling(lengths: Sequence[float], columns: Sequence[Sequence[float]]) -> list[float]:
    """n numbers whose mean is the slope of the columns' means over log₂ of their lengths.

    columns: one a length, each with values of queries of its own; the shortest column says how many count
    """
    x = np.log2(lengths) - np.log2(lengths).mean()
    rows = np.array([column[: min(map(len, columns))] for column in columns], dtype=np.float64)
    slopes: list[float] = (x @ rows / (x @ x)).tolist()
    return slopes


def per_doubling_of(lengths: Sequence[float], values: Sequence[float]) -> list[float]:
    """n numbers whose mean is the slope of n queries' values over log₂ of their lengths."""
    x, y = np.log2(lengths) - np.log2(lengths).mean(), np.asarray(values, dtype=np.float64)
    slopes: list[float] = (len(x) * (y - y.mean()) * x / (x @ x)).tolist()
    return slopes


def by_length(of_set: Mapping[str, Mapping[str, Sequence[float]]], system: str, other: str) -> list[list[float]]:
    """Length by length, rising, the differences of two systems query by query."""
    return [np.subtract(of_set[str(n)][system], of_set[str(n)][other]).tolist() for n in LENGTHS]
