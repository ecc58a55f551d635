"""A model's grades corrected by people's: on whole queries, in an order that stays a random sample."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import engine
from engine.errors import DataError
from engine.evaluation.runs import RankedRun
from engine.evaluation.splits import split_in_half
from engine.judging.corrected import (
    build_cells,
    compute_corrected_standing,
    find_complete_queries,
    find_sampled_queries,
    order_for_people,
    pair_judgements,
)
from engine.judging.log import Judged, Judgement
from engine.judging.pool import build_pool, order_pairs
from engine.judging.qrels import extend_qrels
from support.rankings import queries_of, space_of

N_QUERIES, K = 60, 5
SPACE, QUERIES = space_of(torch.eye(N_QUERIES)), queries_of(torch.eye(N_QUERIES))
RANDOM = np.random.default_rng(4)
RUNS = [
    RankedRun(name, {query: tuple(f"d{d}" for d in RANDOM.permutation(N_QUERIES)[:K]) for query in QUERIES.ids})
    for name in ("base", "other")
]
PAIRS = order_pairs(build_pool(RUNS, QUERIES.ids, K))
TRUTH = {pair: int(RANDOM.random() < 0.5) for pair in PAIRS}


def qrels_of(grades):
    by_query = {}
    for (query, document), grade in grades.items():
        by_query.setdefault(query, {})[document] = grade
    return engine.Qrels(by_query)


def judge_with_mistakes(share, seed=0):
    """Return the true grades, of which a share is turned round."""
    random = np.random.default_rng(seed)
    return qrels_of({pair: grade ^ int(random.random() < share) for pair, grade in TRUTH.items()})


def standing_after(pairs, model):
    people = qrels_of({pair: TRUTH[pair] for pair in pairs})
    complete = find_complete_queries(PAIRS, set(pairs))
    return compute_corrected_standing(RUNS, people, model, "wise", SPACE, QUERIES, complete, K)


def pairs_of(queries):
    return [pair for pair in PAIRS if pair[0] in set(queries)]


def test_a_query_counts_once_every_document_of_it_is_done():
    one, two = pairs_of(["q0"]), pairs_of(["q1"])
    assert find_complete_queries(PAIRS, [*one, *two[:-1]]) == ("q0",)
    assert set(find_complete_queries(PAIRS, [*one, *two])) == {"q0", "q1"}
    assert find_complete_queries(PAIRS, []) == ()


def test_people_grade_whole_queries_those_done_first():
    cells = build_cells(RUNS, SPACE, QUERIES, judge_with_mistakes(0.1), K)
    sampled = set(QUERIES.ids) - {"q1", "q2"}
    ordered = order_for_people(PAIRS, set(pairs_of(["q7", "q9", "q1"])), sampled, cells)
    assert sorted(ordered) == sorted(PAIRS)
    turns = list(dict.fromkeys(query for query, _ in ordered))
    assert {turns[0], turns[1]} == {"q7", "q9"} and len(turns) == N_QUERIES
    assert {turns[-1], turns[-2]} == {"q1", "q2"}, "those outside the sample come last"
    assert [query for query, _ in ordered] == [query for query in turns for _ in pairs_of([query])], "one after another"
    assert turns != sorted(turns, key=QUERIES.ids.index), "in an order of chance"
    # Within a query the most informative document still comes first.
    assert [pair for pair in ordered if pair[0] == "q3"] == pairs_of(["q3"])


def test_what_people_began_before_the_model_or_files_judge_is_no_part_of_the_sample():
    def judgement(query, time, is_model=False):
        document = pairs_of([query])[0][1]
        return Judgement(query=query, document=document, grade=1, person="wise", time=time, is_model=is_model)

    judged = Judged(
        # q6 was begun after the model's first answer, but before its last one.
        (judgement("q1", 5.0), judgement("q1", 25.0), judgement("q2", 21.0), judgement("q6", 11.0)),
        model_judgements=(judgement("q3", 10.0, True), judgement("q1", 20.0, True)),
    )
    sampled = find_sampled_queries(PAIRS, set(pairs_of(["q4"])) | set(pairs_of(["q5"])[:-1]), judged, "wise")
    assert sampled == set(QUERIES.ids) - {"q1", "q4", "q6"}


def test_people_correct_the_model_on_the_queries_that_they_completed():
    done = list(QUERIES.ids[:20])
    standing = standing_after(pairs_of(done) + pairs_of(["q30"])[:-1], judge_with_mistakes(0.1))
    use = standing.decision.judge
    assert (use.judge, use.model_queries, use.person_queries) == ("wise", N_QUERIES, 20)
    assert use.agreement.pairs == len(pairs_of(done)) and 0.6 < use.agreement.kappa < 1
    assert use.narrowing < 1
    text = " ".join(standing.sentences)
    assert (
        f"judged by wise on {N_QUERIES} queries, corrected by 20 of yours" in text and "wise gives your grade" in text
    )


def test_too_few_queries_are_counted_and_a_judge_of_no_use_is_named():
    model = judge_with_mistakes(0.1)
    standing = standing_after(pairs_of(["q0", "q1"]), model)
    assert standing.decision is None
    assert standing.sentences == (
        f"Grade every document of 3 more queries: then wise counts too, on {N_QUERIES - 2} others.",
    )
    wrong = standing_after(pairs_of(QUERIES.ids[:20]), judge_with_mistakes(0.9))
    assert wrong.decision is None and "wise is no help yet: wise must agree with you better than chance" in wrong.reason


@pytest.mark.parametrize("seed", range(3))
def test_a_judge_without_mistakes_says_what_people_would_on_all_queries(seed):
    random = np.random.default_rng(seed)
    done = random.permutation(QUERIES.ids)[:40].tolist()
    perfect = judge_with_mistakes(0.0)
    corrected = standing_after(pairs_of(done), perfect).decision
    cells = build_cells(RUNS, SPACE, QUERIES, perfect, K)
    everything = engine.decide(cells, baseline=cells[0], k=K)
    share = {option.label: option.share_kept for option in everything.options}
    assert {option.label: option.share_kept for option in corrected.options} == pytest.approx(share, abs=0.05)


def test_pairs_of_a_split_are_whole_queries_that_people_began_after_the_model():
    def give(query, documents, person, time, **fields):
        fields |= {"query": query, "person": person, "time": time}
        return [Judgement(document=document, grade=TRUTH[query, document], **fields) for document in documents]

    documents = {query: [doc for _, doc in pairs_of([query])] for query in QUERIES.ids}
    model = [item for query in QUERIES.ids for item in give(query, documents[query], "wise", 10.0, is_model=True)]
    # q0 was begun before the model, q1 to q29 graded wholly, q30 in part.
    people = give("q0", documents["q0"][:1], "ann", 5.0) + give("q0", documents["q0"][1:], "ann", 20.0)
    for number in range(1, 30):
        people += give(f"q{number}", documents[f"q{number}"], "ann", 20.0)
    people += give("q30", documents["q30"][:2], "ann", 20.0)
    touched = frozenset((item.query, item.document) for item in people)
    judged = Judged(tuple(people), {}, touched, tuple(model))
    queries = engine.Queries(QUERIES.ids, QUERIES.ids)
    dataset = engine.Dataset(SPACE.corpus, queries, extend_qrels({}, judged))
    halves = {split: pair_judgements(judged, "wise", split, dataset) for split in ("dev", "test")}
    of_people = [query for half in halves.values() for query in half.people.grades]
    of_model = [query for half in halves.values() for query in half.model.grades]
    assert sorted(of_people) == sorted(f"q{number}" for number in range(1, 30))
    assert sorted(of_model) == sorted(set(QUERIES.ids) - {"q0"})
    for split, half in halves.items():
        # The halves are those of an export, and a query is in the same one whoever judged it.
        exported = split_in_half(qrels_of(TRUTH))[split].grades.keys()
        assert half.people.grades.keys() <= half.model.grades.keys() <= exported
        assert half.agreement.kappa == 1 and half.queries.ids == QUERIES.ids
    with pytest.raises(DataError, match=r"5 queries of dev wholly, begun after its last answer; \d queries"):
        few = Judged(tuple(people[: 5 * 4]), {}, touched, tuple(model))
        pair_judgements(few, "wise", "dev", dataset)
    against = [replace(item, grade=1 - item.grade) for item in model]
    with pytest.raises(DataError, match="wise must agree with you better than chance"):
        pair_judgements(Judged(tuple(people), {}, touched, tuple(against)), "wise", "dev", dataset)


def test_people_do_not_stand_for_what_the_model_was_asked_after_them():
    def give(pairs, time, **fields):
        return [Judgement(query=q, document=d, grade=TRUTH[q, d], time=time, **fields) for q, d in pairs]

    first, later = pairs_of(QUERIES.ids[:40]), pairs_of(QUERIES.ids[40:])
    model = [*give(first, 10.0, person="wise", is_model=True), *give(later, 30.0, person="wise", is_model=True)]
    people = give(pairs_of(QUERIES.ids[:30]), 20.0, person="ann")
    judged = Judged(tuple(people), {}, frozenset((item.query, item.document) for item in people), tuple(model))
    # Of the first task alone people's queries are a sample; of all that the model answered they are the first ones.
    assert find_sampled_queries(first, set(), judged, "wise") == set(QUERIES.ids[:40])
    assert find_sampled_queries([*first, *later], set(), judged, "wise") == set(QUERIES.ids[30:])
    dataset = engine.Dataset(SPACE.corpus, engine.Queries(QUERIES.ids, QUERIES.ids), extend_qrels({}, judged))
    with pytest.raises(DataError, match="begun after its last answer; 5 queries are missing"):
        pair_judgements(judged, "wise", "dev", dataset)
