"""Splits of judged queries."""

import engine
from engine.evaluation.splits import drawn, halved


def test_halves_share_nothing_and_lose_nothing():
    qrels = engine.Qrels({f"q{i}": {"d": 1} for i in range(1000)})
    parts = halved(qrels)
    assert set(parts) == {"dev", "test"} and not set(parts["dev"].grades) & set(parts["test"].grades)
    assert set(parts["dev"].grades) | set(parts["test"].grades) == set(qrels.grades)
    assert 430 < len(parts["dev"]) < 570
    assert halved(qrels)["dev"] == parts["dev"] != halved(qrels, seed=1)["dev"]
    # Where a query goes does not depend on which others there are.
    fewer = engine.Qrels({q: g for q, g in qrels.grades.items() if int(q[1:]) % 3})
    assert set(halved(fewer)["dev"].grades) == set(parts["dev"].grades) & set(fewer.grades)


def test_fewer_drawn_are_among_more():
    qrels = engine.Qrels({f"q{i}": {"d": 1} for i in range(100)})
    few, more = drawn(qrels, 10), drawn(qrels, 30)
    assert len(few) == 10 and few.grades.keys() < more.grades.keys()
    assert drawn(qrels, 200).grades == qrels.grades and drawn(qrels, 10, seed=1) != few
