"""Order of queries that a person judges next: balanced over groups, random within them, complete."""

import numpy as np

from engine.evaluation.next_queries import list_next_queries
from support.points import cell

N = 120


def make_cells():
    """Two settings that agree on half of the queries."""
    base = np.full(N, 0.5)
    change = np.where(np.arange(N) % 2, np.linspace(0.01, 0.4, N), 0)
    return [cell("top_k", {"recall": base}), cell("vrsd", {"recall": base + change})], change


def test_next_queries_are_all_others_and_each_group_gets_its_share():
    cells, change = make_cells()
    known = cells[0].queries[:6]
    order = list_next_queries(known, cells, "recall")
    assert sorted((*known, *order)) == sorted(cells[0].queries)
    row_of = {query: row for row, query in enumerate(cells[0].queries)}
    edges = np.quantile(change[change > 0], [1 / 3, 2 / 3])
    group = np.where(change > 0, 1 + np.searchsorted(edges, change), 0)
    for n_judged in (12, 24, 60):
        judged = [row_of[query] for query in (*known, *order[: n_judged - len(known)])]
        counts = np.bincount(group[judged], minlength=4)
        assert np.abs(counts - n_judged * np.bincount(group) / N).max() <= 2


def test_every_query_is_as_likely_to_be_early():
    """A sample of chosen queries would bias the mean; chosen groups in proportion do not."""
    cells, change = make_cells()
    means = []
    for seed in range(300):
        first = list_next_queries((), cells, "recall", seed=seed)[:20]
        means.append(np.mean([change[int(query[1:])] for query in first]))
    assert abs(np.mean(means) - change.mean()) < 3 * np.std(means) / np.sqrt(300)
    # Random samples spread far more.
    assert np.std(means) < 0.5 * change.std() / np.sqrt(20)


def test_same_seed_gives_the_same_order():
    cells, _ = make_cells()
    orders = [list_next_queries((), cells, "recall", seed=seed) for seed in (1, 1, 2)]
    assert orders[0] == orders[1] != orders[2]
