"""threshold against its float64 oracle, with every fill, at its ends, deep in the ranking and behind other scorers."""

import numpy as np
import pytest
import torch

import engine
from engine.selection import threshold
from support.instances import FAMILIES, few_or_all, problem, unit
from support.selector_oracles import make_foreign_candidates, space_of, take_below
from support.stage_laws import picks

THRESHOLDS = (0.0, 0.2, 0.5, 0.8, 0.95, 1.0)
FILLS = ("strict", "fill")


@few_or_all(range(12), range(500), quick=3)
@pytest.mark.parametrize("family", FAMILIES)
def test_threshold_equals_the_oracle(family, seeds):
    for seed in seeds:
        rows, queries = problem(family, seed)
        k = 1 + seed % 12
        for value in THRESHOLDS:
            for fill in FILLS:
                answer = engine.select("threshold", rows, queries, k=k, threshold=value, fill=fill)
                for b, query in enumerate(queries):
                    expected = take_below(rows, query, k, value, fill)
                    assert picks(answer, b) == expected
                    n_taken = len(take_below(rows, query, k, value))
                    assert answer.info[b]["filled"] == len(expected) - n_taken


@pytest.mark.parametrize("fill", FILLS)
def test_low_threshold_searches_the_whole_ranking(fill, monkeypatch):
    """The last pick is far behind the documents that are ranked at first, with and without all cosines at hand."""
    rng = np.random.default_rng(1)
    rows = unit(np.eye(6)[np.sort(rng.integers(6, size=900))] + 0.05 * rng.standard_normal((900, 6)))
    queries = unit(np.array([[6, 5, 4, 3, 2, 1.0], [1, 2, 3, 4, 5, 6]]))
    monkeypatch.setattr(threshold, "MAX_SCANNED_BLOCK", 100)
    for source in (rows, space_of(rows)):
        for value in (0.1, 0.3, 0.5):
            stage = engine.make("threshold", threshold=value, fill=fill)
            if source is rows:
                answer = engine.select(stage, rows, queries, k=8)
            else:
                answer = engine.decode(engine.Decoder(stage), source, queries, k=8)
            for b, query in enumerate(queries):
                expected = take_below(rows, query, 8, value, fill)
                assert picks(answer, b) == expected
                ranks = np.argsort(np.argsort(-(rows @ query), kind="stable"), kind="stable")[expected]
                assert ranks.max() > threshold.N_FIRST_RANKED


@pytest.mark.parametrize("fill", FILLS)
def test_threshold_of_one_is_top_k(fill):
    """Copies are not above 1, whatever their cosine is rounded to."""
    for family in FAMILIES:
        rows, queries = problem(family, 3, n=60, d=7)
        top = engine.select("top_k", rows, queries, k=12)
        answer = engine.select("threshold", rows, queries, k=12, threshold=1, fill=fill)
        assert torch.equal(answer.index, top.index) and torch.allclose(answer.gain, top.gain.double())


def test_parallel_rows_count_as_copies():
    rows = np.array([[3.0, 3.0], [1.0, 1.0], [0.1, 0.1], [1.0, 0.0]])
    assert picks(engine.select("threshold", rows, [1.0, 1], k=4, threshold=0.99)) == [0, 3]
    assert picks(engine.select("threshold", rows, [1.0, 1], k=4, threshold=0.99, fill="fill")) == [0, 3, 1, 2]
    # A cosine equal to τ is not above it.
    assert picks(engine.select("threshold", rows, [1.0, 1], k=4, threshold=np.sqrt(0.5))) == [0, 3]
    assert picks(engine.select("threshold", rows, [1.0, 1], k=4, threshold=0.7)) == [0]


def test_rows_of_extreme_lengths_have_cosines():
    rows = np.array([[1e-200, 0], [1e-200, 1e-201], [0, 1e-200]])
    assert picks(engine.select("threshold", rows, [1.0, 0.5], k=3, threshold=0.9)) == [1, 2]
    assert picks(engine.select("threshold", 1e150 * (1e200 * rows), [1.0, 0.5], k=3, threshold=0.9)) == [1, 2]


def test_relevance_of_another_scorer_orders_the_documents():
    rows, queries = problem("clustered", 4, n=50, d=8)
    candidates = make_foreign_candidates(rows, queries)
    answer = engine.make("threshold", threshold=0.6, fill="fill").select(candidates, 9)
    for b, query in enumerate(queries):
        relevance = candidates.relevance[b].double().numpy()
        assert picks(answer, b) == take_below(rows, query, 9, 0.6, "fill", relevance)
        assert answer.gain[b].tolist() == relevance[picks(answer, b)].tolist()


def test_questions_are_asked_for_a_full_set_only():
    rows, queries = problem("duplicated", 5, n=60, d=6, batch=1)
    candidates = make_foreign_candidates(rows, queries)
    for value, fill, k, is_full in ((0.5, "strict", 2, True), (0.5, "strict", 30, False), (0.5, "fill", 30, False)):
        stage = engine.make("threshold", threshold=value, fill=fill)
        assert (stage.questions(candidates, stage.select(candidates, k)) is not None) == is_full


def test_path_breakpoints_are_cosines_of_candidates():
    rows, queries = problem("random", 6, n=40, d=6, dtype=np.float64)
    cosines = np.sort((unit(rows) @ unit(rows).T)[np.triu_indices(40, 1)])
    for path in engine.path("threshold", rows, queries, 8):
        assert len(path) > 5
        nearest = cosines[np.searchsorted(cosines, path.breakpoints).clip(1, len(cosines) - 1)]
        below = cosines[np.searchsorted(cosines, path.breakpoints).clip(1, len(cosines) - 1) - 1]
        distance = np.minimum(np.abs(nearest - path.breakpoints), np.abs(below - path.breakpoints))
        assert distance.max() < 1e-12
