"""The greedy selectors as printed: they pick what the engine's certified ones pick."""

import numpy as np
import pytest
import torch

import engine
from engine.evaluation.studies.plain_greedy import PLAIN
from support.instances import problem


@pytest.mark.parametrize("name", PLAIN)
def test_a_plain_greedy_picks_what_the_selector_picks(name):
    """In float64, on tie-free data; max_sum without swaps, and as sets: the selector orders them by what each adds."""
    params = {"polish": False} if name == "max_sum" else {}
    for seed in range(12):
        rows, queries = problem("random", seed, n=70, d=24, batch=2, dtype=np.float64)
        for k, weight in ((1, 0.5), (4, 0.05), (9, 0.3), (20, 0.95), (20, 1.0)):
            expected = engine.select(name, rows, queries, k=k, relevance_weight=weight, **params).index
            given = torch.from_numpy(rows), torch.from_numpy(queries)
            for b in range(2):
                picks, selected = PLAIN[name](given[0], given[1][b], k, weight).tolist(), expected[b].tolist()
                if name == "max_sum":
                    picks, selected = sorted(picks), sorted(selected)
                assert picks == selected, (seed, k, weight)
