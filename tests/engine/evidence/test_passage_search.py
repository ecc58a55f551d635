"""Which search is quick enough, and how it is chosen."""

from types import SimpleNamespace

from engine.evidence.passage_search import best_in_time


def test_a_search_in_time_is_chosen_on_other_queries():
    def searched(milliseconds, mrr):
        return SimpleNamespace(milliseconds=milliseconds, mean={"mrr": mrr})

    own = [searched(1.0, 0.9), searched(2.0, 0.5), searched(4.0, 0.6)]
    other = [searched(9.0, 0.3), searched(9.0, 0.4), searched(9.0, 0.8)]
    assert [best_in_time(range(3), own, other, ms) for ms in (0.5, 1.5, 2.0, 5.0)] == [0, 0, 1, 2]
