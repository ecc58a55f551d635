"""NNN decoding: what its parameters mean, what it says of its answers, and what happens at the edges."""

import json
import math
from itertools import pairwise, product

import numpy as np
import pytest
import torch

import engine
from engine.matrix import Matrix
from support import elastic_oracles as oracles
from support.draws import deepen, seeds_of
from support.instances import few_or_all, near_ties, random_rows, unit
from support.judged_sets import DATA, SETS
from support.nnn_fuzz import FAULTS, case, judge_answers
from support.selector_oracles import make_foreign_candidates
from support.stage_laws import picks

each_family = pytest.mark.parametrize("family", deepen(oracles.NASTY, oracles.QUIET_FAMILIES))
KINDS = (np.float32, np.float64)


def ask(rows, queries, k=None, **params):
    return engine.select("nnn", rows, queries, k=k or len(rows), **params)


def held(answer, b=0):
    """The rows with a weight, the largest first."""
    return answer.index[b, : answer.info[b]["support"]].tolist()


def instances(family, seeds, **given):
    for seed in seeds:
        rows, queries = oracles.nasty(family, seed, dtype=KINDS[seed % 2], **given)
        yield rows, queries


def is_empty(answer, why, rounding=0.0):
    """rounding: what the residual may count of its own products."""
    assert (answer.index == -1).all()
    for info in answer.info:
        assert (
            info["support"] == 0 and info["residual"] <= 1e-14 + rounding and info["certified"] and info["tied"] == {}
        )
        assert any(why in text and "no document gets a weight" in text for text in info["messages"]), info


def test_warming_runs_both_routes(monkeypatch):
    """A first query by rows waits for a compiler no more than one by a Gram matrix."""
    import engine.solvers.elastic_net.solve as nets

    taken = []
    for name in ("_solve_with_gram", "_solve_with_rows"):
        own = getattr(nets, name)
        monkeypatch.setattr(nets, name, lambda *args, own=own, name=name: taken.append(name) or own(*args))
    engine.methods()["nnn"].cls.warm()
    assert set(taken) == {"_solve_with_gram", "_solve_with_rows"}


@seeds_of((0,), range(5))
@each_family
def test_from_the_best_score_on_nothing_gets_a_weight_and_fill_is_top_k(family, seeds):
    for rows, queries in instances(family, seeds):
        for query in queries:
            best = float(oracles.scores(rows, query).max())
            if best <= 0:
                continue
            size = np.linalg.norm(query) * np.linalg.norm(rows, axis=1).max()
            for l1 in (best, 1.5 * best, best + 10):
                rounding = 2.0**-52 * ((len(query) + 8) * size + 8 * l1)
                for l2 in (0.0, 0.1):
                    why = "is not below the best score" if l1 > best else ""
                    is_empty(ask(rows, query, 4, l1=l1, l2=l2), why, rounding)
                    for k in (1, 5, len(rows) + 3):
                        filled = ask(rows, query, k, l1=l1, l2=l2, fill="fill")
                        top = engine.select("top_k", rows, query, k=k)
                        assert torch.equal(filled.index, top.index)
                        expected = np.minimum(oracles.scores(rows, query)[picks(top)] - l1, 0)
                        assert filled.gain[0, : len(rows)].tolist() == pytest.approx(expected, abs=1e-5 * best)


def test_near_ties_are_filled_in_the_order_of_top_k():
    """Rows that float32 products cannot tell apart, and exact duplicates among them."""
    rows, query, _ = near_ties(5, 400, 64, 1e-7)
    rows[200:] = rows[np.random.default_rng(5).integers(200, size=200)]
    filled = ask(rows, query, 300, l1=2.0, fill=True)
    assert torch.equal(filled.index, engine.select("top_k", rows, query, k=300).index)
    assert filled.index[0].tolist() != np.argsort(-(rows @ query), kind="stable")[:300].tolist(), "too easy an instance"


@pytest.mark.parametrize("l1,l2", [(0.1, 0.1), (0.0, 0.1), (0.1, 0.0), (0.0, 0.0)])
def test_scores_that_are_not_above_zero_give_an_empty_answer(l1, l2):
    rng = np.random.default_rng(1)
    query = unit(rng.standard_normal(6))
    against = -np.abs(rng.standard_normal((9, 1))) * query
    some = random_rows(rng, 9, 6)
    for rows, point in ((against, query), (np.zeros((5, 6)), query), (some, np.zeros(6))):
        is_empty(ask(rows, point, l1=l1, l2=l2), "is not above 0")
        filled = ask(rows, point, l1=l1, l2=l2, fill=True)
        assert torch.equal(filled.index, engine.select("top_k", rows, point, k=len(rows)).index)


def test_zero_rows_get_no_weight():
    rows, queries = oracles.nasty("hollow", 3, n=40, d=6)
    for l1, l2 in ((0.0, 0.0), (0.0, 0.1), (0.01, 0.0)):
        answer = ask(rows, queries, l1=l1, l2=l2)
        for b in range(len(queries)):
            assert held(answer, b) and rows[held(answer, b)].any(1).all()


@pytest.mark.parametrize("family", ["random", "clustered", "cone", "twins", "lattice"])
def test_no_penalty_is_the_limit_of_small_ones(family):
    """λ₁ = λ₂ = 0: of all weights that fit best, those with the least sum; and it says so."""
    for rows, queries in instances(family, range(5)):
        best = np.maximum(oracles.scores(rows, queries).max(1), 0)
        answer = ask(rows, queries, l1=0, l2=0)
        full = oracles.weights_of(answer, len(rows))
        near = oracles.weights_of(ask(rows, queries, l1=1e-7, l2=0, scale="relative"), len(rows))
        for b, query in enumerate(queries):
            assert any("limit" in text for text in answer.info[b]["messages"])
            misfit, least = oracles.shortest_fit(rows, query)
            left = query - rows.T.astype(np.float64) @ full[b]
            assert np.linalg.norm(left) <= misfit + 1e-5 * (1 + least)
            assert full[b].sum() == pytest.approx(least, rel=1e-3, abs=1e-9)
            assert full[b].sum() == pytest.approx(near[b].sum(), rel=1e-3, abs=1e-9)
            assert 0 <= answer.info[b]["l1"] <= 1e-6 * best[b] + 1e-300
    assert not any("limit" in text for info in ask(rows, queries, l1=0, l2=0.1).info for text in info["messages"])


@pytest.mark.parametrize("many", [0, 2048])
def test_without_ridge_the_lowest_of_duplicates_stands_for_all(many, monkeypatch):
    """And tied names the others, every one of them; in a pool too, as rows of the corpus."""
    monkeypatch.setattr("engine.solvers.elastic_net.solve.GRAM_ROWS", many)
    monkeypatch.setattr("engine.solvers.elastic_net.solve.MIN_START_ROWS", 4)
    seen = 0
    for seed in range(10):
        rows, queries = oracles.nasty("twins", seed, n=20 + 7 * seed, dtype=KINDS[seed % 2])
        for pool in (None, len(rows) // 2):
            for l1 in (0.3, 0.05, 0.01, 0.001):
                answer = ask(rows, queries, l1=l1, l2=0, pool=pool)
                for b, query in enumerate(queries):
                    own = oracles.select_pool_rows(rows, query, pool)
                    chosen, tied = held(answer, b), answer.info[b]["tied"]
                    alike = {i: own[(rows[own] == rows[i]).all(1)].tolist() for i in chosen}
                    assert [min(twins) for twins in alike.values()] == chosen
                    assert tied == {i: twins[1:] for i, twins in alike.items() if len(twins) > 1}
                    seen += len(tied)
    assert seen > 100


def test_with_ridge_duplicates_share_the_weight_the_lower_row_first():
    for seed in range(20):
        rows, queries = oracles.nasty("twins", seed, n=60, dtype=KINDS[seed % 2])
        answer = ask(rows, queries, l1=0.02, l2=0.05)
        for b in range(len(queries)):
            chosen = held(answer, b)
            assert answer.info[b]["tied"] == {}
            for kind in {rows[i].tobytes() for i in chosen}:
                members = [i for i in range(len(rows)) if rows[i].tobytes() == kind]
                places = [chosen.index(i) for i in members]
                assert places == list(range(places[0], places[0] + len(members)))
                weights = answer.gain[b, places]
                assert float(weights.max() - weights.min()) <= 1e-10 * float(weights.max())


@few_or_all(range(150), range(4000), quick=25)
def test_no_certificate_is_false(seeds):
    """Against an oracle of hundreds of digits, at λ₂ from 1e-300 to 1; tests/bench/fuzz_nnn.py asks 50,000."""
    false, problems, bounded = [], 0, 0
    for seed in seeds:
        for b, (info, _, faults) in enumerate(judge_answers(case(seed))):
            problems, bounded = problems + 1, bounded + (info["bound"] is not None)
            false += [f"seed {seed}, query {b}: {FAULTS[fault]}" for fault in faults]
    assert not false, f"{len(false)} of {problems}: " + "\n".join(false[:8])
    assert bounded > 0.5 * problems > 0.6 * len(seeds)


@pytest.mark.parametrize("l2", [1e-300, 1e-18, 1e-12, 1e-6])
@pytest.mark.parametrize("length", [1.0, 1e5])
def test_a_tiny_ridge_is_shared_by_copies_too(length, l2):
    """The bound says what float64 knows of it: near enough nothing where the ridge drowns in the products' rounding."""
    rows = length * np.eye(3)[[0, 0, 0, 1, 2]]
    query = np.array([1.0, 0.8, 0.6])
    share = (length * query - 0.1) / length**2
    expected = share[[0, 0, 0, 1, 2]] / [3, 3, 3, 1, 1]
    for queries in (query, np.stack([query, query, -query])):
        answer = ask(rows, queries, l1=0.1, l2=l2)
        assert answer.index[0].tolist() == [3, 4, 0, 1, 2]
        full, info = oracles.weights_of(answer, 5)[0], answer.info[0]
        assert full == pytest.approx(expected, rel=1e-5) and len(set(full[:3])) == 1
        assert info["tied"] == {} and info["certified"] and info["support"] == 5
        if info["bound"] is None:
            assert info["gap"] is info["ordered"] is None and l2 < 1e-10 * length**2
        else:
            assert np.linalg.norm(full - expected) <= info["bound"] + 1e-5 * np.linalg.norm(expected)
            assert info["ordered"] <= 2


@pytest.mark.parametrize("many", [0, 2048])
@pytest.mark.parametrize("l2", [1e-9, 1e-6, 1e-3, 0.1])
def test_copies_of_a_row_stand_in_row_order_alone_and_in_a_batch(l2, many, monkeypatch):
    monkeypatch.setattr("engine.solvers.elastic_net.solve.GRAM_ROWS", many)
    monkeypatch.setattr("engine.solvers.elastic_net.solve.MIN_START_ROWS", 4)
    seen = 0
    for seed in range(4):
        rows, queries = oracles.nasty("twins", seed, n=60, d=16, dtype=KINDS[seed % 2])
        together = ask(rows, queries, l1=0.05, l2=l2)
        for b, query in enumerate(queries):
            assert held(ask(rows, query, l1=0.05, l2=l2)) == held(together, b)
            weights = oracles.weights_of(together, len(rows))[b]
            for i in held(together, b):
                alike = np.flatnonzero((rows == rows[i]).all(1)).tolist()
                assert [j for j in held(together, b) if j in alike] == alike and len(set(weights[alike])) == 1
                seen += len(alike) > 1
    assert seen > 15


def test_documents_that_share_nothing_with_the_query_are_proven_to_have_no_weight():
    """At λ₁ = 0 too, as every product is exactly 0."""
    rows = np.eye(6)[[1, 2, 2, 5]]
    for l2 in (1e-300, 0.1):
        is_empty(ask(rows, np.eye(6)[[0, 3]], l1=0.0, l2=l2), "is not above 0")


def test_few_rows_and_few_wanted():
    rows, queries = oracles.nasty("random", 4, n=30, d=8)
    for fill in (False, True):
        whole = ask(rows, queries, 33, fill=fill)
        assert whole.index.shape == whole.gain.shape == (3, 33)
        assert (whole.index[:, 30:] == -1).all() and (whole.gain[:, 30:] == 0).all()
        for k in (1, 2, 7, 30):
            few = ask(rows, queries, k, fill=fill)
            assert torch.equal(few.index, whole.index[:, :k]) and torch.equal(few.gain, whole.gain[:, :k])
            assert [i["support"] for i in few.info] == [i["support"] for i in whole.info]
            assert all(i["ordered"] == min(j["ordered"], k) for i, j in zip(few.info, whole.info, strict=True))


def test_one_row_has_a_closed_form():
    for row, query in (([0.6, 0.8], [1.0, 0.0]), ([3.0, 4.0], [1.0, 1.0]), ([-1.0, 0.0], [1.0, 0.0])):
        for l1, l2 in ((0.1, 0.1), (0.5, 0.0), (0.0, 2.0), (1.0, 0.3)):
            expected = max(0.0, (np.dot(row, query) - l1) / (np.dot(row, row) + l2))
            answer = ask([row], query, 2, l1=l1, l2=l2)
            assert answer.gain[0].tolist() == pytest.approx([expected, 0], abs=1e-15)
            assert answer.index[0].tolist() == [0 if expected else -1, -1]


@each_family
def test_relative_is_a_share_of_the_best_score(family):
    for rows, queries in instances(family, range(2)):
        best = np.maximum(oracles.scores(rows, queries).max(1), 0)
        for share in (0.05, 0.5, 1.0, 1.3):
            answer = ask(rows, queries, l1=share, l2=0.1, scale="relative")
            for b, query in enumerate(queries):
                assert answer.info[b]["l1"] == pytest.approx(share * best[b], rel=1e-12, abs=1e-15)
                same = ask(rows, query, l1=answer.info[b]["l1"], l2=0.1)
                assert torch.equal(same.index[0], answer.index[b])
                assert torch.allclose(same.gain[0], answer.gain[b], rtol=0, atol=1e-9)
                assert (answer.info[b]["support"] == 0) == (share >= 1 or best[b] <= 0)


@seeds_of((2,), range(5))
@each_family
def test_support_is_how_many_get_a_weight(family, seeds):
    """Exactly ceil(l1) documents, at some λ₁; where no λ₁ does, it says so and is right."""
    met = missed = 0
    for rows, queries in instances(family, seeds):
        best = oracles.scores(rows, queries).max(1)
        for size, l2 in ((1, 0.0), (1, 0.1), (2.5, 0.01), (4, 0.1), (4, 0.0), (9, 1.0)):
            answer = ask(rows, queries, l1=size, l2=l2, scale="support")
            for b, query in enumerate(queries):
                info, wanted = answer.info[b], math.ceil(size)
                said = [text for text in info["messages"] if f"no λ₁ gives {wanted} documents" in text]
                assert bool(said) == (info["support"] != wanted), info
                assert info["certified"] and 0 <= info["l1"] <= max(best[b], 0)
                met += not said
                if said and best[b] > 0:
                    missed += 1
                    grid = [{"l1": x, "l2": l2, "scale": "relative"} for x in np.geomspace(1, 1e-6, 150)]
                    others = engine.select_grid("nnn", rows, query, k=1, grid=grid)
                    assert wanted not in {other.info[0]["support"] for other in others}
    assert met > 3 * len(seeds) and (missed or family not in ("twins", "flat"))


@pytest.mark.parametrize("l2", [0.0, 0.001, 0.01])
def test_a_size_that_is_skipped_at_first_and_reached_later(l2):
    """Two mirrored documents join at once, from one to three; then the first of all leaves, and two are left."""
    side, up = math.sqrt(0.19), math.sqrt(1 - 0.95**2)
    rows = np.array([[0.95, 0.0, up], [0.9, side, 0.0], [0.9, -side, 0.0]])
    for size in (1, 2, 3):
        info = ask(rows, [1.0, 0.0, -0.05], l1=size, l2=l2, scale="support").info[0]
        assert info["support"] == size and info["messages"] == []


def test_a_support_of_none_is_empty():
    rows, queries = oracles.nasty("random", 2, n=20)
    is_empty(ask(rows, queries, l1=0, scale="support"), "no document gets a weight")


@each_family
def test_fill_appends_what_would_add_most(family):
    """Strict's rows first; then the others by u·(v − Uᵀw) − λ₁, at most 0 and falling, the lower of equals first."""
    for rows, queries in instances(family, range(3)):
        for params in ({"l1": 0.05, "l2": 0.1}, {"l1": 0.2, "l2": 0.0}, {"l1": 0.1, "l2": 1.0}):
            strict, fill = ask(rows, queries, fill="strict", **params), ask(rows, queries, fill="fill", **params)
            full = oracles.weights_of(strict, len(rows))
            size = np.abs(oracles.scores(rows, queries)).max() + 1e-12
            missing = oracles.slopes(rows, queries, full, params["l1"], 0.0)
            for b in range(len(queries)):
                own = held(strict, b)
                assert strict.index[b].tolist() == own + [-1] * (len(rows) - len(own))
                assert held(fill, b) == own and torch.equal(fill.gain[b, : len(own)], strict.gain[b, : len(own)])
                assert sorted(fill.index[b].tolist()) == list(range(len(rows)))
                rest, gains = fill.index[b, len(own) :].numpy(), fill.gain[b, len(own) :].numpy()
                exact = missing[b, rest]
                assert (np.diff(exact) <= 1e-12 * size).all() and (np.diff(gains) <= 0).all() and (gains <= 0).all()
                assert np.abs(gains - np.minimum(exact, 0)).max(initial=0) <= 1e-6 * size
                for i, j in pairwise(rest):
                    assert i < j or (rows[i] != rows[j]).any()


def test_fill_takes_yes_and_no():
    yes, no = ({engine.make("nnn", fill=fill) for fill in names} for names in ((True, "fill"), (False, "strict")))
    assert len(yes) == 1 and no == {engine.make("nnn")}


@each_family
def test_fista_is_equation_5(family):
    """Its residual is stated beside it, and ever more steps lead to the minimiser."""
    for rows, queries in instances(family, range(2)):
        for (l1, l2), steps in product(((0.05, 0.1), (0.01, 0.0), (0.0, 0.01)), (1, 5, 50)):
            answer = ask(rows, queries, l1=l1, l2=l2, solver="fista", iterations=steps)
            full = oracles.weights_of(answer, len(rows))
            off = oracles.violations(rows, queries, full, l1, l2)
            for b, query in enumerate(queries):
                expected = oracles.paper_fista(rows, query, l1, l2, steps)
                assert np.abs(full[b] - expected).max() <= 1e-10 * (1 + expected.max())
                info, size = answer.info[b], np.abs(oracles.scores(rows, query)).max()
                assert info["residual"] == pytest.approx(off[b], abs=1e-10 * size)
                assert info["certified"] == (off[b] <= 1e-6 * abs(oracles.scores(rows, query).max()))
                assert info["iterations"] == steps and info["solver"] == "fista"


def test_fista_reaches_the_minimiser():
    for family in ("cone", "twins"):
        rows, queries = oracles.nasty(family, 2, n=40, d=10)
        grid = [{"l1": 0.02, "l2": 0.1, "solver": "fista", "iterations": t} for t in (5, 50, 5000)]
        exact, *others = engine.select_grid("nnn", rows, queries, k=40, grid=[{"l1": 0.02, "l2": 0.1}, *grid])
        off = [np.abs(oracles.weights_of(other, 40) - oracles.weights_of(exact, 40)).max() for other in others]
        assert off[0] > 1e-3 and off[1] < off[0] and off[2] < 1e-7


def test_fista_in_the_precision_of_many_vectors(monkeypatch):
    monkeypatch.setattr("engine.solvers.elastic_net.fista.CACHED_NUMBERS", 0)
    rows, queries = oracles.nasty("cone", 1, n=80, d=12)
    for pool in (None, 50):
        full = oracles.weights_of(ask(rows, queries, l1=0.05, l2=0.1, solver="fista", iterations=50, pool=pool), 80)
        for b, query in enumerate(queries):
            own = oracles.select_pool_rows(rows, query, pool)
            difference = np.abs(full[b, own] - oracles.paper_fista(rows[own], query, 0.05, 0.1, 50)).max()
            assert 0 < difference < 1e-4


@pytest.mark.parametrize("n,d", [(7, 30), (30, 7), (1, 5), (5, 1), (120, 20)])
def test_spectrum_is_the_largest_eigenvalue(n, d):
    for family in oracles.NASTY:
        for dtype in KINDS:
            rows = oracles.nasty(family, 3, n=n, d=d, dtype=dtype)[0]
            wide = rows.astype(np.float64)
            expected = np.linalg.eigvalsh(wide @ wide.T)[-1]
            assert Matrix(torch.tensor(rows)).spectral_norm_squared == pytest.approx(expected, rel=1e-9, abs=1e-12)


def test_the_query_is_rebuilt_whatever_scorer_chose_the_candidates():
    rows, queries = oracles.nasty("random", 3, n=40, d=8)
    other = engine.make("nnn", l1=0.05, l2=0.1, fill=True).select(make_foreign_candidates(rows, queries), 12)
    plain = ask(rows, queries, 12, l1=0.05, l2=0.1, fill=True)
    assert torch.equal(other.index, plain.index) and torch.allclose(other.gain, plain.gain, rtol=0, atol=1e-9)


def test_info_is_plain_and_complete():
    rows, queries = oracles.nasty("twins", 1, n=30)
    for params in ({}, {"l2": 0.0}, {"solver": "fista"}, {"scale": "support", "l1": 3}, {"l1": 0, "l2": 0}):
        for info in ask(rows, queries, 5, **params).info:
            assert json.loads(json.dumps(info))
            named = {"l1", "l2", "support", "residual", "gap", "bound", "ordered", "certified", "tied", "passes"}
            assert named | {"messages", "solver", "candidates"} <= info.keys()


@pytest.mark.deep
@pytest.mark.skipif("toolbank-numpy" not in SETS, reason="toolbank-numpy is not on this machine")
def test_on_sentence_embeddings(monkeypatch):
    """The openings of a real corpus's documents and some of its queries, by every route."""
    dataset = engine.load_dataset(DATA / "toolbank-numpy")
    rows = engine.embed([text[:100] for text in dataset.corpus.passages[:160]]).vectors
    queries = engine.embed(list(dataset.queries.texts[:12])).vectors
    grid = [s for s in oracles.grid_for(rows, queries) if s["l1"] + s["l2"] > 0]
    by_gram = engine.select_grid("nnn", rows, queries, k=len(rows), grid=grid)
    monkeypatch.setattr("engine.solvers.elastic_net.solve.GRAM_ROWS", 0)
    by_rows = engine.select_grid("nnn", rows, queries, k=len(rows), grid=grid)
    best = oracles.scores(rows, queries).max(1)
    for params, one, other in zip(grid, by_gram, by_rows, strict=True):
        full = oracles.weights_of(one, len(rows))
        assert (oracles.violations(rows, queries, full, params["l1"], params["l2"]) <= 1e-6 * best).all()
        assert all(info["certified"] for info in (*one.info, *other.info))
        assert torch.equal(one.index, other.index) and torch.allclose(one.gain, other.gain, rtol=0, atol=1e-8)
    for query, own in zip(
        queries[:2], oracles.weights_of(ask(rows, queries[:2], l1=0.05, l2=0.1), len(rows)), strict=True
    ):
        assert np.abs(own - oracles.minimiser(rows, query, 0.05, 0.1)).max() <= 1e-6
