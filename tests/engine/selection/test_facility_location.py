"""facility_location against a float64 oracle of its objective, and what happens at the edges."""

import numpy as np
import pytest
import torch

import engine
from engine.decoder import decode_grid
from support.instances import FAMILIES, crowd, few_or_all, problem
from support.selector_oracles import is_decided, make_foreign_candidates, select_together_and_alone, space_of

WEIGHTS = (0.0, 0.2, 0.5, 0.8, 0.97, 1.0)
GROUND = (1000, 10, 25, None, 1)


def value(rows, relevance, chosen, weight, k):
    """The objective, as written, of the chosen rows of a ground set."""
    covered = [max([0.0, *(row @ rows[i] for i in chosen)]) for row in rows]
    return weight * sum(relevance[i] for i in chosen) + (1 - weight) * k / len(rows) * sum(covered)


def check(rows, query, answer, weight, size, k, relevance=None):
    """Every pick adds the most to the objective, up to METHODS' margin; of equal rows the lowest comes first."""
    index, gain, info = answer
    rows, query = rows.astype(np.float64), query.astype(np.float64)
    relevance = (rows * query).sum(1) if relevance is None else relevance
    margin = 1e-5 * max(1e-12, np.abs(relevance).max())
    k = min(k, len(rows))
    size = max(k, min(size or len(rows), len(rows)))
    ground = np.sort(np.argsort(-relevance, kind="stable")[:size])
    rows, relevance = rows[ground], relevance[ground]
    chosen = [i for i in index.tolist() if i >= 0]
    assert len(chosen) == k and set(chosen) <= set(ground.tolist())
    assert info["pool"] == size and info["whole"] == (size == info["candidates"])
    assert info["evaluations"] >= size
    chosen = np.searchsorted(ground, chosen).tolist()
    similar = np.maximum(rows @ rows.T, 0)
    cover = np.zeros(size)
    decided = 0
    for step, pick in enumerate(chosen):
        score = weight * relevance + (1 - weight) * k / size * np.maximum(similar - cover, 0).sum(1)
        assert gain[step].item() == pytest.approx(score[pick], rel=1e-9, abs=1e-10)
        if k == 1:
            score = relevance.copy()
        score[chosen[:step]] = -np.inf
        decided += is_decided(score, rows, pick, margin)
        cover = np.maximum(cover, similar[pick])
    reached = value(rows, relevance, chosen, weight, k)
    assert info["objective"] == pytest.approx(reached, rel=1e-9, abs=1e-10)
    return decided


def solve(rows, queries, k, weight=0.8, size=1000, **options):
    return engine.select("facility_location", rows, queries, k=k, relevance_weight=weight, ground_set=size, **options)


def check_all(rows, queries, k, weight, size):
    """Batch and single agree, and every answer passes `check`; how many picks the margin left decided."""
    params = {"relevance_weight": weight, "ground_set": size}
    answers = select_together_and_alone("facility_location", rows, queries, k, **params)[1]
    return sum(
        check(rows, query, (alone.index[0], alone.gain[0], alone.info[0]), weight, size, k)
        for query, alone in zip(queries, answers, strict=True)
    )


@few_or_all(range(40), range(125), quick=12)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("family", FAMILIES)
def test_equals_the_oracle(family, dtype, seeds):
    decided = 0
    for seed in seeds:
        rows, queries = problem(family, seed, dtype=dtype)
        decided += check_all(rows, queries, 1 + seed % 12, WEIGHTS[seed % 6], GROUND[seed % 5])
    assert decided > 4 * len(seeds), "the margin rule excused nearly every pick: the instances prove nothing"


def eager(rows, relevance, weight, k):
    """(k picks, their gains): every gain computed anew at every step."""
    similar, cover, chosen, gains = rows @ rows.T, np.zeros(len(rows)), [], []
    for _ in range(k):
        score = weight * relevance + (1 - weight) * k / len(rows) * np.maximum(similar - cover, 0).sum(1)
        score[chosen] = -np.inf
        chosen.append(int(score.argmax()))
        gains.append(score[chosen[-1]])
        cover = np.maximum(cover, similar[chosen[-1]])
    return chosen, gains


def test_lazy_equals_eager():
    """Larger sets, where most gains stay stale: the same picks and gains, with far less work."""
    for family in ("random", "clustered"):
        rows, queries = (x.astype(np.float64) for x in problem(family, 3, n=300, d=16))
        for weight in (0.0, 0.5, 0.9):
            lazy = solve(rows, queries[0], 40, weight, None)
            chosen, gains = eager(rows, rows @ queries[0], weight, 40)
            assert lazy.index[0].tolist() == chosen
            assert lazy.gain[0].tolist() == pytest.approx(gains, abs=1e-12)
            assert 300 <= lazy.info[0]["evaluations"] < sum(300 - step for step in range(40)) / 2


def test_a_stale_gain_that_equals_the_best_is_looked_at():
    """Equal kinds, all orthogonal: what a twin of a chosen row once gained is what the others still gain."""
    for seed in range(10):
        rng = np.random.default_rng(seed)
        kind = rng.permutation(np.repeat(np.arange(8), 3))
        answer = solve(np.eye(8)[kind], np.ones(8), 8, 0.0, None)
        assert answer.index[0].tolist() == sorted(int(np.flatnonzero(kind == k)[0]) for k in range(8))
        assert (answer.gain == 1).all()


def test_a_space_a_batch_and_a_grid_give_what_a_query_alone_gets():
    """The table of second gains, which queries and weights share, is a saving only."""
    rows, queries = problem("clustered", 5, n=200, d=12, batch=5)
    space = space_of(rows)
    decoders = [engine.Decoder(engine.make("facility_location", relevance_weight=w)) for w in WEIGHTS]
    asked = engine.Embeddings(tuple("abcde"), torch.tensor(queries))
    for _ in range(2):
        for weight, shared in zip(WEIGHTS, decode_grid(decoders, space, asked, 9), strict=True):
            for b, query in enumerate(queries):
                alone = solve(rows, query, 9, weight)
                assert torch.equal(shared.index[b], alone.index[0]) and torch.equal(shared.gain[b], alone.gain[0])
                assert shared.info[b] == alone.info[0]
    order = np.random.default_rng(0).permutation(200)
    turned = solve(rows[order], queries, 9, 0.5)
    assert (order[turned.index.numpy()] == solve(rows, queries, 9, 0.5).index.numpy()).all()


def test_ground_sets_of_a_large_corpus_are_those_of_a_small_one(monkeypatch):
    rows, queries = problem("clustered", 8, n=150, d=10)
    small = [solve(rows, queries, 7, 0.4, size) for size in (None, 40)]
    for module in ("coverage", "gram"):
        monkeypatch.setattr(f"engine.solvers.{module}.GRAM_ROWS", 0)
    for plain, large in zip(small, (solve(rows, queries, 7, 0.4, size) for size in (None, 40)), strict=True):
        assert torch.equal(plain.index, large.index) and torch.allclose(plain.gain, large.gain, rtol=1e-12)


def test_similarities_made_when_asked_for_are_the_kept_ones(monkeypatch):
    rows, queries = problem("degenerate", 5, n=300, d=33)
    kept = solve(rows, queries, 20, 0.4, None)
    monkeypatch.setattr("engine.solvers.coverage.GRAM_ROWS", 0)
    monkeypatch.setattr("engine.solvers.gram.GRAM_ROWS", 0)
    monkeypatch.setattr("engine.solvers.coverage.MAX_CACHED_GROUND", 100)
    made = solve(rows, queries, 20, 0.4, None)
    assert torch.equal(kept.index, made.index) and torch.allclose(kept.gain, made.gain, rtol=1e-12)


def test_greed_stays_near_the_optimum():
    """At least 1 − 1/e of the best set's value where relevance is not negative (Nemhauser et al. 1978)."""
    from itertools import combinations

    for seed in range(10):
        rows = np.abs(problem("clustered", seed, n=11, d=4, dtype=np.float64)[0])
        query = np.ones(4)
        best = max(value(rows, rows @ query, chosen, 0.3, 3) for chosen in combinations(range(11), 3))
        reached = solve(rows, query, 3, 0.3, None).info[0]["objective"]
        assert (1 - 1 / np.e) * best <= reached <= best + 1e-9


def test_at_weight_zero_queries_do_not_matter():
    cover = solve(*problem("clustered", 7, n=60, d=6), 9, 0.0, None)
    assert (cover.index == cover.index[0]).all(), "without relevance, and with one ground set, queries do not matter"


def test_one_document_is_the_most_relevant():
    """Greed would take the one that stands for most."""
    rows = np.array([[1.0, 0], [0.8, 0.6], [0.8, 0.5], [0.8, 0.4]])
    assert solve(rows, [1.0, 0], 1, 0.1).index.tolist() == [[0]]
    assert solve(rows, [1.0, 0], 2, 0.1).index[0, 0] == 1
    assert solve(rows, [1.0, 0], 1, 0.1).gain[0, 0].item() == pytest.approx(0.1 + 0.9 / 4 * 3.4)


def test_crowds_of_duplicates_come_lowest_row_first():
    rows, queries, _ = crowd(7, 700, 24, batch=2)
    for weight, size in ((0.0, 500), (0.3, 500), (0.8, None), (1.0, 300)):
        check_all(rows, queries, 12, weight, size)
    # Once every kind is chosen nothing is left to gain but relevance, and at weight 0 nothing at all.
    answer = solve(rows, queries, 12, 0.0, None)
    assert (answer.gain[:, 6:] == 0).all() and (answer.gain[:, :6] > 0).sum() >= 8
    assert (answer.index[:, 7:].diff(dim=1) > 0).all()


def test_a_zero_query_leaves_coverage():
    rows = problem("clustered", 4, n=80, d=7)[0]
    zero = np.zeros(7, dtype=np.float32)
    check_all(rows, zero[None], 6, 0.5, None)
    assert torch.equal(solve(rows, zero, 6, 0.5, None).index, solve(rows, zero, 6, 0.0, None).index)


def test_a_pool_bounds_the_ground_set():
    for seed in range(15):
        rows, queries = problem("clustered", seed, n=50, d=8)
        pooled = solve(rows, queries, 6, 0.4, 20, pool=9)
        assert [entry["pool"] for entry in pooled.info] == [9] * 3
        small = solve(rows, queries, 6, 0.4, 9)
        assert torch.equal(pooled.index, small.index) and torch.allclose(pooled.gain, small.gain, rtol=1e-12)


def test_another_scorers_relevance_is_taken_as_it_is():
    rows, queries = problem("clustered", 9, n=40, d=8, batch=3)
    c = make_foreign_candidates(rows, queries)
    answer = engine.make("facility_location", relevance_weight=0.3, ground_set=30).select(c, 8)
    for b, query in enumerate(queries):
        one = answer.index[b], answer.gain[b], answer.info[b]
        assert check(rows, query, one, 0.3, 30, 8, c.relevance[b].double().numpy()) > 4


def test_a_grid_is_what_its_settings_are_alone():
    rows, queries = problem("clustered", 2, n=60, d=10)
    grid = [{"relevance_weight": w, "ground_set": p} for w in (0.2, 0.9) for p in (20, None, 60)]
    together = engine.select_grid("facility_location", rows, queries, k=7, grid=grid)
    for params, shared in zip(grid, together, strict=True):
        alone = engine.select("facility_location", rows, queries, k=7, **params)
        assert torch.equal(shared.index, alone.index) and torch.equal(shared.gain, alone.gain)
        assert shared.info == alone.info
