"""Selectors against their float64 oracles, batch and single, and what happens at the edges."""

import numpy as np
import pytest
import torch

import engine
from support.instances import FAMILIES, crowd, few_or_all, near_ties, problem
from support.selector_oracles import STEPS, assert_lowest_copies_first, check_picks, select_together_and_alone
from support.stage_laws import picks
from support.stage_laws import settings as every_setting

WEIGHTS = (0.0, 0.3, 0.5, 0.7, 0.95, 1.0)


def settings(name):
    if name == "top_k":
        return [{}]
    return [{"relevance_weight": w} for w in WEIGHTS] + [
        {"relevance_weight": w, "window": window} for w, window in ((0.5, 3), (0.8, 1), (0.2, 2))
    ]


@few_or_all(range(24), range(125), quick=8)
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("name", STEPS)
def test_equals_the_oracle(name, family, seeds):
    """Each instance as a batch and one query at a time."""
    decided = 0
    for seed in seeds:
        rows, queries = problem(family, seed)
        k = 1 + seed % 12
        params = settings(name)[seed % len(settings(name))]
        for query, answer in zip(queries, select_together_and_alone(name, rows, queries, k, **params)[1], strict=True):
            chosen = picks(answer)
            assert len(chosen) == min(k, len(rows))
            decided += check_picks(name, rows, query, chosen, **params)
    assert decided > 4 * len(seeds), "the margin rule excused nearly every pick: the instances prove nothing"


def test_gain_is_what_mmr_ranks_by():
    rows, queries = problem("random", 3, n=30, d=5, dtype=np.float64)
    answer = engine.select("mmr", rows, queries, k=8, relevance_weight=0.6)
    for b, query in enumerate(queries):
        chosen = answer.index[b].tolist()
        for step, pick in enumerate(chosen):
            near = max((rows[pick] @ rows[j] for j in chosen[:step]), default=0.0)
            assert answer.gain[b, step].item() == pytest.approx(0.6 * (rows[pick] @ query) - 0.4 * near, abs=1e-12)


TRADE_OFFS = {name: {p.name for p in spec.params} for name, spec in engine.methods("selector").items()}
TRADE_OFFS = {name: params for name, params in TRADE_OFFS.items() if "relevance_weight" in params}


@pytest.mark.parametrize("name", TRADE_OFFS)
@pytest.mark.parametrize("family", FAMILIES)
def test_at_weight_one_it_is_top_k(name, family):
    """With relevance as the gain, times k − 1 where the objective is a sum over pairs."""
    rows, queries = problem(family, 7, n=40, d=6)
    top, quadratic = engine.select("top_k", rows, queries, k=10), "polish" in TRADE_OFFS[name]
    for params in ({"polish": True}, {"polish": False}) if quadratic else ({},):
        answer = engine.select(name, rows, queries, k=10, relevance_weight=1, **params)
        assert torch.equal(answer.index, top.index)
        assert torch.allclose(answer.gain, (9 if quadratic else 1) * top.gain)


@pytest.mark.parametrize("scale", [1e-26, 1e-22, 1e-3, 1.0, 1e3, 1e17])
def test_near_ties_are_settled_in_float64(scale):
    """Rows of every length that float32 products cannot tell apart come in the order of their exact scores."""
    rows, query, order = near_ties(6, 300, 32, 1e-7, scale)
    assert engine.select("top_k", rows, query, k=40).index[0].tolist() == order[:40]
    assert engine.select("mmr", rows, query, k=40, relevance_weight=1).index[0].tolist() == order[:40]


@pytest.mark.deep
def test_crowds_of_duplicates_come_lowest_row_first():
    """More exact duplicates than are scored again one by one, among a few other rows, batch and pool alike."""
    rows, queries, kinds = crowd(7, 1500, 48, batch=4)
    for name in STEPS:
        for pool in (None, 1000):
            together = engine.select(name, rows, queries, k=12, pool=pool)
            for b, query in enumerate(queries):
                chosen = picks(together, b)
                if pool is None:
                    check_picks(name, rows, query, chosen, **({} if name == "top_k" else {"relevance_weight": 0.8}))
                assert_lowest_copies_first(rows, kinds, chosen)


def test_autocast_gradients_and_precision_switches_change_no_pick():
    rows, queries = (torch.tensor(x) for x in problem("clustered", 3, n=800, d=32))
    plain = engine.select("mmr", rows, queries, k=20)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(engine.select("mmr", rows, queries, k=20).index, plain.index)
    traced = engine.select("mmr", rows.clone().requires_grad_(), queries, k=20)
    assert torch.equal(traced.index, plain.index) and not traced.gain.requires_grad
    before = torch.backends.mkldnn.matmul.fp32_precision
    try:
        torch.backends.mkldnn.matmul.fp32_precision = "bf16"
        assert torch.equal(engine.select("mmr", rows, queries, k=20).index, plain.index)
    finally:
        torch.backends.mkldnn.matmul.fp32_precision = before


BAD = [
    (dict(k=0), "k.*whole number.*got 0"),
    (dict(k=2.5), "k.*whole number.*2.5"),
    (dict(k=True), "k.*whole number.*True"),
    (dict(k=10**12), "k.*whole number in .1, 1000000.*1000000000000"),
    (dict(relevance_weight=10**400), "relevance_weight"),
    (dict(relevance_weight="0.5"), "relevance_weight.*'0.5'"),
    (dict(vectors=1e20 * np.eye(2, dtype=np.float32)), "vectors must have rows of length at most"),
    (dict(queries=np.array([1e200, 0]), vectors=np.eye(2)), "queries must have rows of length at most"),
    (dict(vectors=torch.eye(2).to_sparse()), "vectors must hold real numbers in a dense array"),
    (dict(pool=0), "pool.*whole number.*got 0"),
    (dict(relevance_weight=1.2), r"relevance_weight \(λ\).*\[0, 1\].*1\.2"),
    (dict(relevance_weight=float("nan")), "relevance_weight.*nan"),
    (dict(diversity=0.3), "mmr has no parameter diversity; it has relevance_weight"),
    (dict(vectors=np.zeros((0, 4))), "vectors.*at least one row"),
    (dict(vectors=np.array([[1, np.nan], [0, 1.0]])), "vectors must be finite; 1 row .*first rows: 0"),
    (dict(vectors=np.array([[1, np.inf], [0, 1.0]])), "vectors must be finite"),
    (dict(vectors=np.array([["a", "b"]])), "vectors must be a numeric array"),
    (dict(vectors=np.ones((2, 2), dtype=complex)), "vectors must hold real numbers"),
    (dict(queries=np.array([np.nan, 1.0])), "queries must be finite"),
    (dict(queries=np.ones(3)), "dimension; got 3, the vectors have 2"),
    (dict(queries=np.ones((1, 1, 2))), "queries must be a matrix"),
    (dict(name="nosuch"), "no selector is called 'nosuch'; there are top_k, mmr"),
    (dict(name="dense"), "no selector is called 'dense'"),
]


@pytest.mark.parametrize("change,message", BAD, ids=[m for _, m in BAD])
def test_bad_input_names_the_argument_its_range_and_the_value(change, message):
    given = {"name": "mmr", "vectors": np.eye(2), "queries": np.ones(2), **change}
    name, vectors, queries = given.pop("name"), given.pop("vectors"), given.pop("queries")
    with pytest.raises(engine.FrontierError, match=message):
        engine.select(name, vectors, queries, **given)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.int64])
def test_number_types_are_taken_as_they_come(dtype):
    rows = np.array([[2, 0], [0, 3], [1, 1]], dtype=dtype)
    assert engine.select("top_k", rows, np.array([1, 0]), k=3).index.tolist() == [[0, 2, 1]]


def test_lists_of_whole_numbers_keep_every_digit():
    assert engine.select("top_k", [[16777216], [16777217]], [1], k=2).index.tolist() == [[1, 0]]


@pytest.mark.parametrize("name", engine.methods("selector"))
@pytest.mark.parametrize("rows", [np.ones((6, 3)), np.zeros((6, 3))], ids=["equal", "zero"])
def test_rows_all_alike_come_lowest_first(name, rows):
    for dtype in (np.float16, np.float32, np.float64):
        for params in every_setting(name):
            chosen = picks(engine.select(name, rows.astype(dtype), [1.0, 1, 1], k=8, **params))
            assert chosen == list(range(len(chosen))) and (len(chosen) == 6 or name in ("nnn", "threshold"))
