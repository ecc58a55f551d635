"""Judgements as qrels: several people's as one, how far they agree, and a folder that other tools read."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from statistics import median_low

from engine.data.beir import write_beir
from engine.errors import DataError
from engine.evaluation.splits import split_in_half
from engine.judging.log import GRADES, Judged
from engine.values import Corpus, Dataset, Qrels, Queries


def qrels_of(judged: Judged) -> Qrels:
    """The grade of every judged pair; of several people's the median, of an even number the lower of the middle two.

    What was skipped is not judged.
    """
    grades: dict[str, dict[str, int]] = defaultdict(dict)
    for (query, document), by_person in judged.grades.items():
        grades[query][document] = median_low(by_person.values())
    return Qrels(dict(grades))


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """How far two people agree on what both graded."""

    first: str
    second: str
    pairs: int  # graded by both
    same: int  # of them, with the same grade
    kappa: float | None  # Cohen 1960: 1 is full agreement, 0 what chance gives; None where all grades are one
    weighted: float | None  # Cohen 1968, with quadratic weights: 0 and 3 are further apart than 0 and 1


def agreement(judged: Judged) -> tuple[Agreement, ...]:
    """The agreement of every two people who graded a common pair."""
    from sklearn.metrics import cohen_kappa_score

    found = []
    for first, second in combinations(judged.people, 2):
        both = [(by[first], by[second]) for by in judged.grades.values() if first in by and second in by]
        if not both:
            continue
        a, b = zip(*both, strict=True)
        # Where all grades are one, chance alone agrees fully, and the quotient does not exist.
        kappas: Sequence[float | None] = (None, None)
        if len({*a, *b}) > 1:
            kappas = [float(cohen_kappa_score(a, b, labels=GRADES, weights=w)) for w in (None, "quadratic")]
        same = sum(x == y for x, y in both)
        found.append(
            Agreement(first=first, second=second, pairs=len(both), same=same, kappa=kappas[0], weighted=kappas[1])
        )
    return tuple(found)


def export_judgements(
    judged: Judged,
    folder: str | Path,
    known: Queries | None = None,
    *,
    corpus: Corpus | None = None,
    seed: int = 0,
) -> Path:
    """Write judged queries and judgements as a BEIR folder: queries.jsonl, qrels/dev.tsv and qrels/test.tsv.

    A query's id and the seed decide its split, so further judging moves none; a split without queries is not written.
    corpus: written too where it is given; else `engine.load_dataset(corpus, qrels=folder)` joins the two. Raises
    DataError where nothing is judged, or the folder holds something.
    """
    if not judged.grades:
        raise DataError("judged must hold at least one grade; nothing is judged yet")
    queries = judged.queries(known)
    if unknown := [query for query, _ in judged.grades if query not in queries.position]:
        raise DataError(f"known must hold every judged query that the log does not; it has no {unknown[0]!r}")
    splits = {name: qrels for name, qrels in split_in_half(qrels_of(judged), seed).items() if len(qrels)}
    dataset = Dataset(corpus or Corpus((), ()), queries.only(query for query, _ in judged.grades), splits)
    return write_beir(dataset, folder, corpus=corpus is not None)
