"""Splits of judged queries."""

import pytest

import engine
from engine.evaluation.splits import split_in_half, subsample, three_way


def test_halves_share_nothing_and_lose_nothing():
    qrels = engine.Qrels({f"q{i}": {"d": 1} for i in range(1000)})
    parts = split_in_half(qrels)
    assert set(parts) == {"dev", "test"} and not set(parts["dev"].grades) & set(parts["test"].grades)
    assert set(parts["dev"].grades) | set(parts["test"].grades) == set(qrels.grades)
    assert 430 < len(parts["dev"]) < 570
    assert split_in_half(qrels)["dev"] == parts["dev"] != split_in_half(qrels, seed=1)["dev"]
    # Where a query goes does not depend on which others there are.
    fewer = engine.Qrels({q: g for q, g in qrels.grades.items() if int(q[1:]) % 3})
    assert set(split_in_half(fewer)["dev"].grades) == set(parts["dev"].grades) & set(fewer.grades)


def test_fewer_queries_are_among_more_and_their_judgements_unchanged():
    qrels = engine.Qrels({f"q{i}": {"d": i} for i in range(100)})
    ten, thirty = subsample(qrels, 10), subsample(qrels, 30)
    assert len(ten) == 10 and set(ten.grades) < set(thirty.grades)
    assert all(grades == qrels.grades[query] for query, grades in thirty.grades.items())
    assert set(ten.grades) != {f"q{i}" for i in range(10)}, "not the first, which data sets sort by kind"
    assert subsample(qrels, 200) == qrels and subsample(qrels, 10, seed=1) != ten


@pytest.mark.parametrize("count, sizes", [(3, (1, 1, 1)), (4, (2, 1, 1)), (50, (30, 10, 10)), (158, (94, 32, 32))])
def test_thirds_share_nothing_and_lose_nothing(count, sizes):
    qrels = engine.Qrels({f"q{i}": {"d": i} for i in range(count)})
    parts = three_way(qrels, seed=3)
    assert tuple(parts) == ("train", "dev", "test") and tuple(map(len, parts.values())) == sizes
    assert {q: g for part in parts.values() for q, g in part.grades.items()} == dict(qrels.grades)
    assert three_way(qrels, seed=3) == parts
    if count > 4:
        assert three_way(qrels, seed=4) != parts


def test_two_queries_are_too_few_for_three_splits():
    with pytest.raises(engine.DataError, match="three labelled queries at least; got 2"):
        three_way(engine.Qrels({"a": {"d": 1}, "b": {"d": 1}}))
