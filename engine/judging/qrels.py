"""Judgements as qrels: grades of several people merged, their agreement, and export as a BEIR folder."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from operator import eq, itemgetter
from pathlib import Path
from statistics import median_low

from engine.data.beir import write_beir
from engine.errors import DataError
from engine.evaluation.splits import split_in_half
from engine.judging.log import GRADES, Judged
from engine.values import Corpus, Dataset, Qrels, Queries


def merge_grades(judged: Judged) -> Qrels:
    """Return one grade for every judged pair: the median over people, and the lower of two middle grades.

    A skipped pair is not judged.
    """
    grades: dict[str, dict[str, int]] = defaultdict(dict)
    for (query_id, document_id), by_person in judged.grades.items():
        grades[query_id][document_id] = median_low(by_person.values())
    return Qrels(dict(grades))


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """Agreement of two people on the pairs that both graded."""

    first: str
    second: str
    pairs: int  # number of pairs graded by both
    same: int  # number of them with equal grades
    kappa: float | None  # Cohen 1960: 1 is full agreement, 0 that of chance; None if all grades are equal
    weighted: float | None  # Cohen 1968, quadratic weights: 0 and 3 differ more than 0 and 1


def compute_agreement(judged: Judged) -> tuple[Agreement, ...]:
    """Compute the agreement of every two people who graded a common pair."""
    from sklearn.metrics import cohen_kappa_score

    agreements = []
    for first_person, second_person in combinations(judged.people, 2):
        grade_pairs = []
        for by_person in judged.grades.values():
            if first_person in by_person and second_person in by_person:
                grade_pairs.append((by_person[first_person], by_person[second_person]))
        if not grade_pairs:
            continue
        first_grades, second_grades = zip(*grade_pairs, strict=True)
        # If all grades are equal, chance alone agrees fully, and κ is 0/0.
        kappas: Sequence[float | None] = (None, None)
        if len({*first_grades, *second_grades}) > 1:
            kappa = partial(cohen_kappa_score, first_grades, second_grades, labels=GRADES)
            kappas = float(kappa(weights=None)), float(kappa(weights="quadratic"))
        n_same = sum(map(eq, first_grades, second_grades))
        agreements.append(Agreement(
            first=first_person, second=second_person, pairs=len(grade_pairs), same=n_same,
            kappa=kappas[0], weighted=kappas[1],
        ))  # fmt: skip
    return tuple(agreements)


def export_judgements(
    judged: Judged,
    folder: str | Path,
    dataset_queries: Queries | None = None,
    *,
    corpus: Corpus | None = None,
    seed: int = 0,
) -> Path:
    """Write judged queries and judgements as a BEIR folder: queries.jsonl, qrels/dev.tsv and qrels/test.tsv.

    A query's id and the seed decide its split, so further judging moves none; an empty split is not written.
    corpus: written too if given; else `engine.load_dataset(corpus, qrels=folder)` joins the two. Raises
    DataError if nothing is judged, or the folder is not empty.
    """
    if not judged.grades:
        raise DataError("judged must hold at least one grade; nothing is judged yet")
    queries = judged.queries(dataset_queries)
    if unknown_ids := [query_id for query_id, _ in judged.grades if query_id not in queries.position]:
        raise DataError(
            f"dataset_queries must hold every judged query that the log does not; it has no {unknown_ids[0]!r}"
        )
    # Both splits are written, so that tuning on one can be reported on the other.
    halves = split_in_half(merge_grades(judged), seed)
    splits = {split_name: qrels for split_name, qrels in halves.items() if len(qrels)}
    dataset = Dataset(corpus or Corpus((), ()), queries.only(map(itemgetter(0), judged.grades)), splits)
    return write_beir(dataset, folder, corpus=corpus is not None)
