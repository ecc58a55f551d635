"""Views: what the page shows of a set, from numbers that a person can check."""

import numpy as np
import pytest
import torch

import engine
from engine.views import DROPPED, NEW, card, diff, missed, trust, weight_lines


@pytest.fixture
def space():
    angles = np.radians([0, 10, 20, 90, 180])
    vectors = torch.tensor(np.stack([np.cos(angles), np.sin(angles)], 1), dtype=torch.float32)
    ids = ("a", "b", "c", "d", "e")
    corpus = engine.Corpus(ids, tuple(f"text {i}" for i in ids), ("Title a", "", "", "", ""))
    return engine.Space(corpus, engine.Embeddings(vectors, ids), "cpu")


QUERY = torch.tensor([1.0, 0.0])
QRELS = engine.Qrels({"q": {"a": 1, "d": 2, "e": 0}})


def ranking(*rows):
    return engine.Ranking(torch.tensor([rows]), torch.zeros(1, len(rows)), ({},))


def test_diff_marks_places_gained_lost_new_and_dropped(space):
    kept, dropped = diff(space, QUERY, "q", ranking(0, 3, 2, -1), ranking(0, 1, 2, -1), QRELS)
    assert [(r.rank, r.id, r.mark) for r in kept] == [(1, "a", "="), (2, "d", NEW), (3, "c", "=")]
    assert [(r.rank, r.id) for r in dropped] == [(2, "b")] and DROPPED != NEW
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
    assert set(card(space, "q", ranking(0, 3), ranking(0, 1), QRELS, 2).others) == {"Comp", "nDCG", "MRR", "Precision"}
    assert card(space, "x", ranking(0, 3), ranking(0, 1), QRELS, 2).others == {}


def test_missed_lists_relevant_documents_by_their_rank(space):
    qrels = engine.Qrels({"q": {"a": 1, "d": 2, "c": 1, "gone": 1, "e": 0}})
    assert missed(space, QUERY, "q", ranking(0, 1), qrels) == [("c", 3), ("d", 4), ("gone", None)]
    assert missed(space, QUERY, "q", ranking(0, 3, 2), QRELS) == []
    assert missed(space, QUERY, "q", ranking(0), None) == []


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
        trust(engine.select("nnn", space.vectors, query, k=3, **params).info[0])
        for params in ({}, {"l2": 0}, {"solver": "fista", "iterations": 2}, {"l1": 5})
    ]
    assert said[0].startswith("exact; ") and "none is off by more than" in said[0]
    assert said[1].startswith("exact; ") and "all conditions hold to" in said[1]
    assert said[2].startswith("not the minimiser: after 2 steps")
    assert "λ₁ = 5 is not below the best score" in said[3]
