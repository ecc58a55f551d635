"""Views: what the page shows of a set, from numbers that a person can check."""

import re
from dataclasses import replace

import numpy as np
import pytest
import torch

import engine
from engine.views.decision import describe_reasons, describe_trust, explain_document, find_ranks
from engine.views.redundancy import redundancy, similarities
from engine.views.sets import (
    DROPPED_MARK,
    NEW_MARK,
    NOWHERE_MARK,
    SAME_MARK,
    card,
    diff,
    find_missed,
    merge_rankings,
    weight_lines,
)
from support.draws import every_other


@pytest.fixture
def space():
    angles = np.radians([0, 10, 20, 90, 180])
    vectors = torch.tensor(np.stack([np.cos(angles), np.sin(angles)], 1), dtype=torch.float32)
    ids = ("a", "b", "c", "d", "e")
    corpus = engine.Corpus(ids, tuple(f"text {i}" for i in ids), ("Title a", "", "", "", ""))
    return engine.Space(corpus, engine.Embeddings(ids, vectors), "cpu")


QUERY = torch.tensor([1.0, 0.0])
QRELS = engine.Qrels({"q": {"a": 1, "d": 2, "e": 0}})


def ranking(*rows):
    return engine.Ranking(torch.tensor([rows]), torch.zeros(1, len(rows)), ({},))


def test_diff_marks_places_gained_lost_new_and_dropped(space):
    kept, dropped = diff(space, QUERY, "q", ranking(0, 3, 2, -1), ranking(0, 1, 2, -1), QRELS)
    assert [(r.rank, r.id, r.mark) for r in kept] == [(1, "a", "="), (2, "d", NEW_MARK), (3, "c", "=")]
    assert [(r.rank, r.id) for r in dropped] == [(2, "b")] and DROPPED_MARK != NEW_MARK
    moved, _ = diff(space, QUERY, "q", ranking(2, 0, 1), ranking(0, 1, 2), None)
    assert [r.mark for r in moved] == ["▲2", "▼1", "▼1"]


def test_diff_says_how_relevant_and_how_near(space):
    kept, _ = diff(space, QUERY, "q", ranking(0, 3, 2), ranking(0, 3, 2), QRELS)
    assert [r.relevant for r in kept] == [True, True, False]
    assert kept[0].similarity is None and kept[0].nearest is None
    assert (kept[2].nearest, kept[2].similarity) == ("a", pytest.approx(np.cos(np.radians(20))))
    assert kept[2].relevance == pytest.approx(np.cos(np.radians(20))) and kept[0].title == "Title a"


def test_without_judgements_nothing_is_called_irrelevant(space):
    for qrels in (None, engine.Qrels({"other": {"a": 1}})):
        kept, _ = diff(space, QUERY, "q", ranking(0, 1), ranking(0, 1), qrels)
        assert {r.relevant for r in kept} == {None}


def test_card_gives_figures_and_what_they_changed_by(space):
    own, base = ranking(0, 3), ranking(0, 1)
    figures = card(space, "q", own, base, QRELS, 2)
    assert (figures.recall, figures.recall_delta, figures.overlap, figures.returned) == (1.0, 0.5, 0.5, 2)
    assert figures.ilad == pytest.approx(1.0)
    assert figures.ilad_delta == pytest.approx(np.cos(np.radians(10)))


def test_card_names_the_other_metrics_where_there_are_judgements(space):
    others = card(space, "q", ranking(0, 3), ranking(0, 1), QRELS, 2).others
    assert set(others) == {"Comp", "nDCG", "MRR", "Precision", "Recall in 400 words"}
    assert card(space, "x", ranking(0, 3), ranking(0, 1), QRELS, 2).others == {}


def test_missed_lists_relevant_documents_by_their_rank(space):
    qrels = engine.Qrels({"q": {"a": 1, "d": 2, "c": 1, "gone": 1, "e": 0}})
    assert find_missed(space, QUERY, "q", ranking(0, 1), qrels) == [("c", 3), ("d", 4), ("gone", None)]
    assert find_missed(space, QUERY, "q", ranking(0, 3, 2), QRELS) == []
    assert find_missed(space, QUERY, "q", ranking(0), None) == []


def test_card_has_no_figure_where_there_is_none(space):
    figures = card(space, "", ranking(0, -1), ranking(0, -1), None, 2)
    assert (figures.recall, figures.recall_delta, figures.ilad, figures.ilad_delta) == (None, None, None, None)


def test_weight_lines_follow_the_path_and_name_who_is_chosen(space):
    path = engine.weight_path(space.vectors, [1.0, 0.4], l2=0.1, lowest=0.01)
    lines = weight_lines(space, "q", path, 0.3, QRELS)
    rows = path.at(0.3)[0]
    assert [line.id for line in lines if line.chosen] == [space.corpus.ids[row] for row in rows]
    assert [line.chosen for line in lines if line.chosen] == list(range(1, len(rows) + 1))
    assert {line.id: line.relevant for line in lines}.get("a") is True
    for line in lines:
        levels = list(line.l1)
        assert levels == sorted(levels, reverse=True) and len(levels) == len(line.weight) and min(line.weight) >= 0
        for level in np.linspace(0.011, path.levels[0] * 0.999, 50):
            expected = dict(zip(*map(list, path.at(level)), strict=True)).get(space.corpus.position[line.id], 0.0)
            drawn = np.interp(level, levels[::-1], list(line.weight)[::-1])
            assert drawn == pytest.approx(expected, abs=1e-9)


def test_trust_puts_a_certificate_in_words(space):
    query = torch.tensor([[1.0, 0.4]])
    said = [
        describe_trust(engine.select("nnn", space.vectors, query, k=3, **params).info[0])
        for params in ({}, {"l2": 0}, {"solver": "fista", "iterations": 2}, {"l1": 5})
    ]
    assert all(re.fullmatch(r"Exact ✓ \(KKT residual \d·10⁻[⁰¹²³⁴⁵⁶⁷⁸⁹]+\).*", one) for one in said[:2])
    assert re.fullmatch(r"Approximate: KKT residual .* after 2 steps", said[2])
    assert said[3].startswith("Exact ✓ · ") and "λ₁ = 5 is not below the best score" in said[3]


def crowded(seed, n=60, d=6):
    """A corpus of unit vectors in float32, every tenth document there twice, and a query."""
    draw = np.random.default_rng(seed)
    rows = draw.normal(size=(n, d)) + 1
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    rows[1::10] = rows[::10]
    ids = tuple(f"d{i}" for i in range(n))
    vectors = torch.tensor(rows, dtype=torch.float32)
    query = torch.tensor(draw.normal(size=d) + 1, dtype=torch.float32)
    return engine.Space(engine.Corpus(ids, ids), engine.Embeddings(ids, vectors), "cpu"), query / query.norm()


def decoded(space, query, stage, k, depth=None):
    asked = engine.Embeddings(("q",), query.unsqueeze(0))
    return engine.decode(engine.Decoder(select=stage, depth=depth), space, asked, k=k)


@pytest.mark.parametrize("name", engine.methods("selector"))
@pytest.mark.parametrize("depth", [None, 20])
def test_why_says_what_brute_force_says(name, depth):
    space, query = crowded(1)
    stage, vectors = engine.make(name), space.vectors.double().numpy()
    answer = decoded(space, query, stage, 8, depth)
    scores = [float(np.dot(row, query.double().numpy())) for row in vectors]
    order = sorted(range(len(scores)), key=lambda row: (-scores[row], row))
    found = [row for row in answer.index[0].tolist() if row >= 0]
    for row in range(len(space)):
        seen = explain_document(space, query, answer, row, stage, depth)
        rank = found.index(row) + 1 if row in found else None
        others = found if rank is None else found[: rank - 1]
        assert (seen.rank, seen.place, seen.size) == (rank, order.index(row) + 1, len(found))
        assert seen.relevance == pytest.approx(scores[row], abs=1e-12)
        alike = [float(vectors[other] @ vectors[row]) for other in others]
        if alike:
            assert seen.similarity == pytest.approx(max(alike), abs=1e-12)
            assert seen.nearest == f"d{others[seen.nearest_rank - 1]}"
            assert alike[seen.nearest_rank - 1] == pytest.approx(max(alike), abs=1e-12)
        else:
            assert seen.similarity is seen.nearest is None
        assert seen.score == (None if rank is None else answer.gain[0, rank - 1].item())
        if rank is None:
            assert seen.overtaken == sum(order.index(other) > order.index(row) for other in found)
        else:
            assert seen.overtaken == len(set(order[: order.index(row)]) - set(others))
        assert seen.pool == (depth if depth and order.index(row) >= depth else None)
        assert describe_reasons(seen).startswith("Out" if rank is None else ("In", "Filled in"))


@pytest.mark.parametrize(
    ("seed", "params"),
    every_other(range(4), [{}, {"l2": 0.0, "l1": 0.02}, {"l1": 0.01, "l2": 0.5}, {"l1": 5.0}], step=4),
)
def test_the_dual_score_is_what_the_optimality_conditions_are_about(seed, params):
    """With more weights than the set shows, with duplicates, and with no weight at all."""
    space, query = crowded(seed)
    stage, vectors = engine.make("nnn", **params), space.vectors.double().numpy()
    whole, k = decoded(space, query, stage, len(space)), 3
    weights = np.zeros(len(space))
    for row, weight in zip(whole.index[0].tolist(), whole.gain[0].tolist(), strict=True):
        weights[row] = weight if row >= 0 else weights[row]
    expected = vectors @ (query.double().numpy() - vectors.T @ weights)
    answer = decoded(space, query, stage, k)
    for row in range(len(space)):
        seen = explain_document(space, query, answer, row, stage)
        dual = seen.dual
        assert dual.score == pytest.approx(expected[row], abs=1e-9) and dual.l1 == stage.l1
        assert dual.weight == pytest.approx(weights[row], abs=1e-12)
        if weights[row] > 0:
            assert dual.score == pytest.approx(stage.l1 + stage.l2 * weights[row], abs=1e-6)
            assert ("In, weight" if seen.rank else "less than all") in describe_reasons(seen)
        else:
            assert dual.score <= stage.l1 + 1e-6
            assert (
                "less than λ₁" in describe_reasons(seen)
                or "no more than λ₁" in describe_reasons(seen)
                or "exact duplicate" in describe_reasons(seen)
            )


def test_an_exact_duplicate_is_named_by_what_stands_for_it():
    space, query = crowded(2)
    stage = engine.make("nnn", l1=0.02, l2=0.0)
    answer = decoded(space, query, stage, 10)
    pairs = [(one, other) for one, others in answer.info[0]["tied"].items() for other in others]
    assert pairs
    for one, other in pairs:
        seen = explain_document(space, query, answer, other, stage)
        assert seen.rank is None and describe_reasons(seen) == f"Out: exact duplicate of d{one}, which stands for both."


def test_reasons_of_a_solver_that_stopped_early_do_not_claim_a_minimiser():
    space, query = crowded(3)
    stage = engine.make("nnn", solver="fista", iterations=2, l1=0.01, l2=0.01)
    answer = decoded(space, query, stage, 60)
    seen = [explain_document(space, query, answer, row, stage) for row in range(len(space))]
    inside = [describe_reasons(w) for w in seen if w.rank]
    assert inside and all("not λ₁ + λ₂w = " in said and said.endswith("the solver stopped early.") for said in inside)
    over = [w for w in seen if w.rank is None and w.dual.score > w.dual.l1]
    assert all("more than λ₁ = 0.01: the solver stopped" in describe_reasons(w) for w in over)


def test_reasons_with_numbers_that_round_alike_are_told_apart(space):
    stage = engine.make("nnn", l1=0.9999, l2=0.0)
    assert describe_reasons(explain_document(space, QUERY, decoded(space, QUERY, stage, 3), 1, stage)) == (
        "Out: would add 0.985, less than λ₁ = 1."
    )
    seen = explain_document(space, QUERY, decoded(space, QUERY, stage, 3), 1, stage)
    close = replace(seen, dual=replace(seen.dual, score=0.09996, l1=0.1))
    assert describe_reasons(close) == "Out: would add 0.09996, less than λ₁ = 0.1."


def test_filled_in_documents_have_no_weight_and_say_so(space):
    stage = engine.make("nnn", l1=5.0, fill="fill")
    answer = decoded(space, QUERY, stage, 2)
    said = [describe_reasons(explain_document(space, QUERY, answer, row, stage)) for row in (0, 1, 3)]
    assert said[0] == "Filled in: would add 1, less than λ₁ = 5." and said[1].startswith("Filled in: would add 0.985")
    assert said[2].startswith("Out: would add ")


@pytest.mark.parametrize(
    ("name", "position", "expected"),
    [
        ("top_k", 1, "In: highest relevance of those left."),
        ("mmr", 0, "In: highest relevance of those left."),
        ("mmr", 1, "In: highest λ·relevance − (1 − λ)·redundancy (cosine with the closest above) of those left."),
        (
            "dpp",
            1,
            "In: highest λ·relevance + (1 − λ)·volume (log of the squared distance to the span of those above) of "
            "those left.",
        ),
        ("ssd", 1, "In: highest λ·relevance + (1 − λ)·distance (to the span of those above) of those left."),
        ("vrsd", 1, "In: highest cosine between the query and the sum of the set's vectors of those left."),
        ("threshold", 1, "In: highest relevance of those left."),
        ("facility_location", 1, "In: chosen for the set as a whole."),
        ("frank_wolfe", 1, "In: chosen for the set as a whole."),
        ("max_sum", 1, "In: chosen for the set as a whole."),
    ],
)
def test_a_pick_that_nothing_more_relevant_lost_to_is_explained_by_its_selectors_criterion(
    space, name, position, expected
):
    stage = engine.make(name)
    seen = explain_document(space, QUERY, ranking(0, 1), position, stage)
    assert (seen.overtaken, describe_reasons(seen, stage)) == (0, expected)


def test_reasons_in_the_words_of_any_method(space):
    said = [describe_reasons(explain_document(space, QUERY, ranking(0, 3, 2), row)) for row in range(5)]
    assert said == [
        "In: highest relevance of those left.",
        "Out: 2 less relevant documents preferred.",
        "In: chosen over 1 more relevant document.",
        "In: chosen over 2 more relevant documents.",
        "Out: all 3 selected documents are more relevant.",
    ]
    assert describe_reasons(explain_document(space, QUERY, ranking(-1), 0)) == "Out: no document was selected."
    assert describe_reasons(explain_document(space, QUERY, ranking(0), 4, depth=2)) == (
        "Out: relevance rank 5, beyond the pool of 2."
    )


def test_places_follow_the_order_of_the_engine_among_equals():
    for seed in range(3):
        space, query = crowded(seed, n=200, d=3)
        order = decoded(space, query, engine.make("top_k"), len(space)).index[0].tolist()
        assert find_ranks(space, query, order) == list(range(1, len(space) + 1))


def test_redundancy_counts_the_pairs(space):
    found = redundancy(space, ranking(0, 3, 2, 4, -1))
    angles = np.radians([0, 90, 20, 180])
    assert found.similarity == pytest.approx(np.cos(angles[:, None] - angles), abs=1e-7)
    assert similarities(space, [0, 3, 2, 4]).tolist() == found.similarity.tolist()
    pairs = found.similarity[np.triu_indices(4, 1)]
    assert (found.mean, found.most) == (pytest.approx(pairs.mean()), pytest.approx(np.cos(np.radians(20))))
    assert (found.pairs, found.close, found.nearest) == (6, 1, (None, 0, 0, 1)) and found.ids == ("a", "d", "c", "e")
    assert redundancy(space, ranking(0, 3, 2), threshold=0.95).close == 0
    for alone in (ranking(0), ranking(-1)):
        nothing = redundancy(space, alone)
        assert (nothing.mean, nothing.most, nothing.pairs, nothing.close) == (None, None, 0, 0)


def test_merged_has_every_document_once_by_its_best_rank(space):
    rankings = {"base": ranking(0, 1, 2), "other": ranking(2, 0, 3), "short": ranking(1, -1)}
    rows = merge_rankings(space, QUERY, "q", rankings, "base", QRELS)
    assert [(r.id, r.sets, r.relevant, *map(str, r.places.values())) for r in rows] == [
        ("a", 2, True, "1", "2 ▼1", DROPPED_MARK),
        ("b", 2, False, "2", DROPPED_MARK, "1 ▲1"),
        ("c", 2, False, "3", "1 ▲2", DROPPED_MARK),
        ("d", 1, True, NOWHERE_MARK, "3 NEW", NOWHERE_MARK),
    ]
    assert (
        str(merge_rankings(space, QUERY, "q", {"x": ranking(0), "y": ranking(0)}, "x", None)[0].places["y"])
        == f"1 {SAME_MARK}"
    )
    assert rows[3].relevance == pytest.approx(0, abs=1e-7)
    assert merge_rankings(space, QUERY, "q", {"x": ranking(-1)}, "x", None) == []


def test_missed_by_all_is_what_no_set_holds(space):
    qrels = engine.Qrels({"q": {"a": 1, "d": 2, "c": 1, "gone": 1}})
    assert find_missed(space, QUERY, "q", [ranking(0, 1), ranking(2)], qrels) == [("d", 4), ("gone", None)]
