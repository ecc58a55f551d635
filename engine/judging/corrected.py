"""Standings by people's and a model's grades of ranked lists together, and the order in which people grade then.

The people's queries are those of which they graded every document that the systems return: a query of which they saw
a part would have another Recall than the model's. They must be a random sample of the model's. So those that people
began before the model had answered all count for neither, as they came in another order, nor do those that files judge.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from engine.errors import DataError
from engine.evaluation.corrected_judge import MIN_PERSON_QUERIES, name_judge
from engine.evaluation.decide import decide
from engine.evaluation.decision import Decision
from engine.evaluation.judge_agreement import JudgeAgreement, check_judge
from engine.evaluation.next_queries import list_next_queries
from engine.evaluation.runs import RankedRun
from engine.evaluation.splits import split_in_half
from engine.evaluation.sweep.cell import Cell
from engine.judging.log import Judged
from engine.judging.pool import Pair
from engine.judging.qrels import merge_grades
from engine.progress import counted
from engine.space import Space
from engine.values import Dataset, Embeddings, Qrels, Queries

METRIC = "recall"
"""The metric that a setting must keep, as in `compute_standing`."""


@dataclass(frozen=True, kw_only=True)
class CorrectedStanding:
    """Standing of the systems by a model's grades, corrected by people's.

    decision: None as long as people have graded too little, and for a judge that is no use; reason: why, else ""
    """

    decision: Decision | None
    reason: str = ""

    @property
    def sentences(self) -> tuple[str, ...]:
        """The decision in words, or why there is none."""
        return (self.reason,) if self.decision is None else self.decision.sentences


def find_complete_queries(pairs: Iterable[Pair], done_pairs: Collection[Pair]) -> tuple[str, ...]:
    """Return the queries of which every pair is done, in the order of their first pairs.

    pairs: ids of a query and a document that systems return; done_pairs: those that people graded or skipped
    """
    is_complete: dict[str, bool] = {}
    for pair in pairs:
        is_complete[pair[0]] = is_complete.get(pair[0], True) and pair in done_pairs
    return tuple(query_id for query_id, complete in is_complete.items() if complete)


def find_sampled_queries(pairs: Iterable[Pair], file_pairs: Collection[Pair], judged: Judged, model: str) -> set[str]:
    """Return the queries of which people's are a random sample: those that they began after the model's last answer.

    pairs: ids of a query and a document that systems return; file_pairs: those that judgements in files have; judged:
    the log, with the grades of the model of this name
    """
    answers, wanted_pairs = judged.of_model(model), set(pairs)
    # Until the model has answered all, people grade in another order. What it is asked later, of other queries or of
    # documents that other settings return, would make another population than the one that people's queries stand for.
    end_time = max(item.time for pair, item in answers.items() if pair in wanted_pairs)
    begun_before = {item.query for item in judged.judgements if item.time <= end_time}
    return {pair[0] for pair in pairs if pair not in file_pairs} - begun_before


def order_for_people(
    pairs: Sequence[Pair], done_pairs: Collection[Pair], sampled_queries: Collection[str], model_cells: Sequence[Cell]
) -> tuple[Pair, ...]:
    """Order pairs so that people grade one query wholly before the next, the most useful query first.

    Queries come in the order of `list_next_queries`, in which those that people completed stay a random sample; within
    a query the order stays. Queries that are not in that sample, or about which the model says nothing, come last.
    sampled_queries: from `find_sampled_queries`; model_cells: the systems as the model judged them, from `build_cells`
    """
    complete_queries = [query for query in find_complete_queries(pairs, done_pairs) if query in sampled_queries]
    # Those that are complete stay in front, so that a page does not jump back to a query that is done.
    next_queries = list_next_queries(complete_queries, model_cells, METRIC)
    next_queries = tuple(query for query in next_queries if query in sampled_queries)
    ordered_queries = dict.fromkeys((*complete_queries, *next_queries, *(query_id for query_id, _ in pairs)))
    turn_of = {query_id: turn for turn, query_id in enumerate(ordered_queries)}
    return tuple(sorted(pairs, key=lambda pair: turn_of[pair[0]]))


def build_cells(runs: Sequence[RankedRun], space: Space, queries: Embeddings, qrels: Qrels, k: int) -> list[Cell]:
    """Measure ranked lists by judgements, on the queries that these name."""
    judged_queries = queries.take([row for row, query_id in enumerate(queries.ids) if query_id in qrels.grades])
    return [run.build_cell(space, judged_queries, qrels, k, (METRIC, "ilad")) for run in runs]


def compute_corrected_standing(
    runs: Sequence[RankedRun],
    people: Qrels,
    model: Qrels,
    judge: str,
    space: Space,
    queries: Embeddings,
    complete_queries: Collection[str],
    k: int = 10,
) -> CorrectedStanding:
    """Decide between systems by a model's grades of all queries, corrected by people's of some of them.

    Parameters
    ----------
    runs : sequence of RankedRun
        The systems' lists, the baseline's first.
    people, model : Qrels
        People's grades, merged, and the model's, on the queries of `find_sampled_queries`; both count from one grade
        on. A document that people skipped counts as not relevant.
    judge : str
        The model's name.
    space, queries : Space, Embeddings
        The corpus, and the queries that the model judged.
    complete_queries : collection of str
        The queries of which people graded every document.
    k : int
        Documents of each list.

    Returns
    -------
    CorrectedStanding
        The decision, or why there is none.
    """
    complete_queries = [query for query in complete_queries if model.grades.get(query)]
    n_missing = MIN_PERSON_QUERIES - len(complete_queries)
    if n_missing > 0:
        n_others = sum(map(bool, model.grades.values())) - len(complete_queries)
        wanted = counted(n_missing, "more query", "more queries")
        reason = f"Grade every document of {wanted}: then {judge} counts too, on {n_others:,} others."
        return CorrectedStanding(decision=None, reason=reason)
    # A query on which people found nothing relevant has no Recall, but is one of their sample all the same.
    completed = replace(people, grades={query: people.grades.get(query, {}) for query in complete_queries})
    try:
        # Documents that people skipped have no grade, rather than the lowest.
        agreement = check_judge(replace(completed, judgements="pooled"), model, judge)
        people_cells = build_cells(runs, space, queries, completed, k)
        # The model's name stands in the sentences.
        model_cells = name_judge(build_cells(runs, space, queries, model, k), judge)
        decision = decide(people_cells, baseline=people_cells[0], metric=METRIC, k=k, model_judged=model_cells)
    except DataError as error:
        return CorrectedStanding(decision=None, reason=f"{judge} is no help yet: {error}.")
    return CorrectedStanding(decision=decision.with_agreement(agreement))


@dataclass(frozen=True, eq=False, kw_only=True)
class PairedJudgements:
    """A split's judgements by people, of queries that they graded wholly, and a model's of more queries."""

    judge: str  # the model's name
    people: Qrels
    model: Qrels  # of people's queries too
    n_left_out: int  # of the split's queries that people judged, but in part, in files or before the model
    queries: Queries  # of the data set, and those that people typed
    agreement: JudgeAgreement  # of the model with people, on the grades


def pair_judgements(judged: Judged, judge: str, split: str, dataset: Dataset) -> PairedJudgements:
    """Return what people and a model say of a split, so that people's queries are a random sample of the model's.

    People's queries are those that they began after the model's last answer, and of which they graded or skipped every
    document that the model was asked about. Queries
    that the data set has in no split belong to the half in which an export of the log would put them. judged: the log;
    dataset: with people's grades in its judgements. Raises DataError if people have graded too little, or the model is
    no better than chance.
    """
    model_pairs, people = tuple(judged.of_model(judge)), dataset.qrels[split]
    # A pair that people graded here may be in an export that is open: it is theirs all the same.
    file_pairs: set[Pair] = set()
    for qrels in dataset.qrels.values():
        for query, file_grades in qrels.grades.items():
            file_pairs.update((query, document) for document in file_grades)
    file_pairs -= judged.touched_pairs
    sampled_queries = find_sampled_queries(model_pairs, file_pairs, judged, judge)
    # Queries of the other splits stay for whoever confirms the choice.
    split_queries = sampled_queries & _find_split_queries(sampled_queries, split, dataset.qrels)
    done_pairs = file_pairs | {(item.query, item.document) for item in judged.judgements}
    complete_queries = set(find_complete_queries(model_pairs, done_pairs)) & split_queries & people.grades.keys()
    # Where the model gave no grade, its query counts without that document.
    grades = merge_grades(judged.only_model(judge)).grades
    if len(complete_queries) < MIN_PERSON_QUERIES:
        n_missing = MIN_PERSON_QUERIES - len(complete_queries)
        raise DataError(
            f"{judge} counts once people have graded {MIN_PERSON_QUERIES} queries of {split} wholly, begun after its "
            f"last answer; {counted(n_missing, 'query is', 'queries are')} missing. Grade them on Judge"
        )
    own_qrels = replace(people, grades={query: people.grades[query] for query in sorted(complete_queries)})
    model_qrels = replace(people, grades={query: grades[query] for query in sorted(split_queries) if query in grades})
    return PairedJudgements(
        judge=judge,
        people=own_qrels,
        model=model_qrels,
        n_left_out=len(people.grades) - len(complete_queries),
        queries=judged.queries(dataset.queries),
        # Documents that people skipped have no grade, rather than the lowest.
        agreement=check_judge(replace(own_qrels, judgements="pooled"), model_qrels, judge),
    )


def _find_split_queries(query_ids: Collection[str], split: str, dataset_qrels: Mapping[str, Qrels]) -> set[str]:
    """Return the queries that belong to a split; those of no split are divided as an export divides them."""
    known_queries = {query for qrels in dataset_qrels.values() for query in qrels.grades}
    new_queries = Qrels({query: {} for query in query_ids if query not in known_queries})
    half = split_in_half(new_queries).get(split, Qrels({}))
    return {query for query in query_ids if query in dataset_qrels[split].grades} | half.grades.keys()
