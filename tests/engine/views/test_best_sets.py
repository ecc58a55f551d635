"""The best sets of a query: enumerated, and told in sentences."""

from itertools import combinations

import numpy as np
import torch

import engine
from engine.views.best_sets import RELAXED_SET_SIZE, best_sets, describe_equivalence, describe_relaxation


def test_best_sets_are_those_of_enumeration_and_the_sentences_follow():
    rows = np.random.default_rng(3).standard_normal((30, 6)) + 0.4
    space = engine.Space.of([f"text {i}" for i in range(30)], rows)
    query = torch.from_numpy(rows[0] + rows[1]).float()
    result = best_sets(space, query, k=3, pool=10, relevance_weight=0.6)
    unit = space.vectors.double().numpy()
    point = query.double().numpy() / np.linalg.norm(query)
    few = unit[np.argsort(-unit @ point)[:10]]

    def quadratic(chosen):
        some = few[list(chosen)]
        gram = some @ some.T
        return 0.6 / 3 * (some @ point).sum() - 0.4 / 6 * (gram.sum() - np.trace(gram))

    best = max(map(quadratic, combinations(range(10), 3)))
    whole = {title: gap for title, gap in result.gaps}
    assert abs(whole["Frank–Wolfe"].best.value - best) < 1e-6 and whole["Frank–Wolfe"].best.sets == 120
    assert all(0 <= gap.share <= 1 for gap in whole.values()) and "Max-sum, without swaps" in whole
    assert whole["VRSD"].best.sets == 36  # the most relevant document is fixed
    said = describe_equivalence(result.equivalence)
    assert ("same best set" in said) == result.equivalence.same
    tight, ended = describe_relaxation(result.relaxation, result.ends)
    assert tight.startswith("No point between sets beats") and "100% of its runs" in ended
    assert sum(value > 0.5 for value in result.relaxation.point) == RELAXED_SET_SIZE
