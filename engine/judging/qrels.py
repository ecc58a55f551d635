"""Judgements as qrels: grades of several people merged, their agreement, and export as a BEIR folder."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations
from operator import eq
from pathlib import Path
from statistics import median_low

from engine.data.beir import write_beir
from engine.errors import DataError
from engine.evaluation.splits import split_in_half
from engine.judging.log import GRADES, Judged
from engine.values import Corpus, Dataset, Qrels, Queries


def merge_grades(judged: Judged) -> Qrels:
    """Merge several people's grades into qrels: each pair's median, the lower of two middle grades.

    A skipped pair is not judged.
    """
    grades: dict[str, dict[str, int]] = defaultdict(dict)
    for (query_id, document_id), by_person in judged.grades.items():
        grades[query_id][document_id] = median_low(by_person.values())
    return Qrels(dict(grades))


def extend_qrels(dataset_qrels: Mapping[str, Qrels], judged: Judged, seed: int = 0) -> dict[str, Qrels]:
    """Add people's grades to the judgements of a data set, split by split.

    A query stays in the splits that have it, so that nothing is measured on other queries than before; queries of no
    split are divided into dev and test. Where a pair has both, people's grade counts. Each split keeps its
    `relevant_from` and its kind of judgements; a new one takes those that all splits share. Raises DataError where a
    new split is needed and they differ.
    """
    new_grades = dict(merge_grades(judged).grades)
    known_queries = {query_id for qrels in dataset_qrels.values() for query_id in qrels.grades}
    splits = {}
    for split, qrels in dataset_qrels.items():
        # A person saw the document with the query, and later than whoever wrote the file.
        grades = {}
        for query_id, file_grades in qrels.grades.items():
            grades[query_id] = {**file_grades, **new_grades.get(query_id, {})}
        splits[split] = replace(qrels, grades=grades)
    new_queries = {query_id: grades for query_id, grades in new_grades.items() if query_id not in known_queries}
    for split, half in split_in_half(Qrels(new_queries), seed).items():
        if len(half):
            joined = splits[split] if split in splits else _make_empty_split(split, dataset_qrels)
            splits[split] = replace(joined, grades={**joined.grades, **half.grades})
    return splits


def _make_empty_split(split: str, dataset_qrels: Mapping[str, Qrels]) -> Qrels:
    """Return judgements without grades that count as those of all splits do.

    split: its name, for the error. Raises DataError if the splits count documents in different ways.
    """
    rules = {(qrels.relevant_from, qrels.judgements) for qrels in dataset_qrels.values()}
    if len(rules) > 1:
        rules_text = "; ".join(
            f"{name}: relevant_from={qrels.relevant_from}, judgements={qrels.judgements!r}"
            for name, qrels in dataset_qrels.items()
        )
        raise DataError(
            f"queries of no split make a new one, {split!r}, for which dataset_qrels must count documents in one way; "
            f"got {rules_text}. Give all splits one relevant_from and one kind of judgements"
        )
    relevant_from, kind = rules.pop() if rules else (1, "auto")
    return Qrels({}, relevant_from, kind)


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
    """Compute how far each two people agree on the pairs that both graded: equal grades, and Cohen's κ."""
    from sklearn.metrics import cohen_kappa_score

    results = []
    for first, second in combinations(judged.people, 2):
        graded_by_both = [by_person for by_person in judged.grades.values() if by_person.keys() >= {first, second}]
        if not graded_by_both:
            continue
        first_grades = [by_person[first] for by_person in graded_by_both]
        second_grades = [by_person[second] for by_person in graded_by_both]
        kappa = weighted = None
        # If all grades are equal, chance alone agrees fully, and κ is 0/0.
        if len({*first_grades, *second_grades}) > 1:
            compute_kappa = partial(cohen_kappa_score, first_grades, second_grades, labels=GRADES)
            kappa, weighted = float(compute_kappa(weights=None)), float(compute_kappa(weights="quadratic"))
        pairs, same = len(graded_by_both), sum(map(eq, first_grades, second_grades))
        results.append(Agreement(first=first, second=second, pairs=pairs, same=same, kappa=kappa, weighted=weighted))
    return tuple(results)


def export_judgements(
    judged: Judged,
    folder: str | Path,
    dataset_queries: Queries | None = None,
    *,
    corpus: Corpus | None = None,
    seed: int = 0,
    dataset_qrels: Mapping[str, Qrels] | None = None,
) -> Path:
    """Write judged queries and their judgements as a BEIR folder, split into dev and test.

    A query's id and the seed decide its split, so further judging moves none; an empty split is not written. corpus:
    written too if given; else `engine.load_dataset(corpus, qrels=folder)` joins the two. dataset_qrels: judgements by
    split that are written as well, as `extend_qrels` joins them. Raises DataError if nothing is judged, or the folder
    is not empty.
    """
    if not judged.grades:
        raise DataError("judged must hold at least one grade; nothing is judged yet")
    # Both splits are written, so that tuning on one can be reported on the other.
    queries, splits = judged.queries(dataset_queries), extend_qrels(dataset_qrels or {}, judged, seed)
    judged_ids = {query_id: None for qrels in splits.values() for query_id in qrels.grades}
    for query_id in judged_ids:
        if query_id not in queries.position:
            raise DataError(
                f"dataset_queries must hold every judged query that the log does not; it has no {query_id!r}"
            )
    dataset = Dataset(corpus or Corpus((), ()), queries.only(judged_ids), splits)
    return write_beir(dataset, folder, corpus=corpus is not None)
