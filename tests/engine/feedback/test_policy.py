"""Draws, their chances and the temperature; and that an outcome moves, on average, along the gradient (float64)."""

import math
from itertools import combinations, permutations
from types import SimpleNamespace

import numpy as np
import pytest
import torch

import engine
from engine import orag
from engine.feedback.policy import Draw, draw_gumbel, draw_row, draw_rows, draw_uniform
from support.draws import deepen
from support.feedback import gradient, queries_near, random_space, space_of
from support.instances import unit

P = np.array([0.3, 0.2, 0.15, 0.12, 0.1, 0.06, 0.04, 0.03])
ROUNDS = 8_000


@pytest.fixture(scope="module")
def space():
    return random_space(60, 12)


def test_a_round_has_its_own_numbers():
    assert [draw_uniform(3, r) for r in range(5)] == [draw_uniform(3, r) for r in range(5)]
    assert len({draw_uniform(seed, r) for seed in range(30) for r in range(30)}) == 900
    assert (draw_gumbel(1, 2, 7) == draw_gumbel(1, 2, 7)).all() and draw_uniform(1, 2) == draw_uniform(1, 2)
    numbers = np.array([draw_uniform(0, r) for r in range(4000)])
    assert numbers.min() >= 0 and numbers.max() < 1 and abs(numbers.mean() - 0.5) < 0.02
    assert abs(np.corrcoef(numbers[1:], numbers[:-1])[0, 1]) < 0.05
    assert draw_uniform(5, 9) == np.random.Generator(np.random.Philox(key=5, counter=9 << 64)).random()


def test_one_document_is_drawn_by_its_chance():
    frequencies = np.bincount([draw_row(P, draw_uniform(0, r)) for r in range(ROUNDS)], minlength=8) / ROUNDS
    assert (np.abs(frequencies - P) < 4 * np.sqrt(P * (1 - P) / ROUNDS)).all()
    assert draw_row(np.array([0.0, 1.0, 0.0]), 0.0) == 1 and draw_row(np.array([0.5, 0.5, 0.0]), 1 - 1e-16) == 1


@pytest.mark.parametrize("k", deepen((1, 2, 3, 5), (1, 2, 5)))
def test_weights_of_several_drawn_are_unbiased(k):
    """E[1{i drawn} / π_i] = 1, where 1/p is too much: the mean over simulated draws within four standard errors."""
    sums, squares, printed = np.zeros(8), np.zeros(8), np.zeros(8)
    for r in range(ROUNDS):
        items, weights = draw_rows(P, draw_gumbel(0, r, 8), k)
        assert len(set(items)) == k
        inverse = 1 / np.array(weights)
        sums[list(items)] += inverse
        squares[list(items)] += inverse**2
        printed[list(items)] += 1 / P[list(items)]
    mean = sums / ROUNDS
    error = np.sqrt((squares / ROUNDS - mean**2) / ROUNDS)
    assert (np.abs(mean - 1) < 4 * error + 1e-9).all()
    if k > 1:
        assert printed[0] / ROUNDS > 1.3, "as printed the weights are biased"


def test_weights_of_one_and_of_all_drawn_are_exact(space):
    for k in (8, 50):
        items, weights = draw_rows(P, draw_gumbel(0, 4, 8), k)
        assert sorted(items) == list(range(8)) and weights == (1.0,) * 8
    session = orag.session(space, temperature=0.3)
    query = queries_near(space, 1)[0][0]
    draw = orag.ask(session, query)
    assert draw.propensity == draw.p == orag.probabilities(session, query)[draw.item]
    assert orag.ask(session, query, k=60).propensity == 1.0


@pytest.mark.parametrize("mode", deepen(("full", "chosen"), ("full", "chosen")))
def test_the_step_of_several_drawn_is_the_gradient_on_average(mode):
    """By simulation, with a reranker that mostly knows: each coefficient within four standard errors of p − e_right."""
    space = random_space(8, 4)
    query, right = (part[0] for part in queries_near(space, 1))
    session = orag.session(space, mode=mode, temperature=0.4)
    knows = orag.oracle(lambda asked: {int(right)}, noise=0.2)
    total, squares, rounds = np.zeros(8), np.zeros(8), 6000
    for r in range(1, rounds + 1):
        draw = orag.ask(
            session, query, k=3, reranker=lambda s, q, i, r=r: knows(SimpleNamespace(round=r), q, i), round=r
        )
        c = gradient(orag.outcome(session, draw, draw.item == right), 8)
        total += c
        squares += c**2
    mean = total / rounds
    error = np.sqrt(np.maximum(squares / rounds - mean**2, 0) / rounds)
    assert (np.abs(mean - (orag.probabilities(session, query) - np.eye(8)[right])) < 4 * error + 1e-12).all()


def expected_pull(p: np.ndarray, k: int, right: int, session, query) -> np.ndarray:
    """The mean of an event's coefficients over all draws of k with a reranker that knows, by enumeration in float64.

    A draw is a set S and the next key κ, whose owner is j: its density is the product of P(key_i > κ) over S, the
    density of j's key at κ, and P(key_l < κ) over the others; keys are log p + Gumbel. κ is integrated over exp(−κ) by
    Gauss–Laguerre.
    """
    n, total = len(p), np.zeros(len(p))
    nodes, weights = np.polynomial.laguerre.laggauss(60)
    for chosen in combinations(range(n), k):
        remaining = [row for row in range(n) if row not in chosen]
        outside = p[remaining].sum()
        # With x = exp(−κ): P(key_i < κ) = exp(−p_i x), so those outside give exp(−outside · x) p_j dx for each j.
        for x, weight in zip(nodes / outside, weights, strict=True):
            kappa, keys = -np.log(x), np.full(n, -np.inf)
            keys[list(chosen)], keys[remaining[0]] = kappa + 1.0 + np.arange(k), kappa
            items, inclusion = draw_rows(p, keys - np.log(p), k)
            assert set(items) == set(chosen)
            if session.preset.weights != "inclusion":
                inclusion = tuple(float(p[row]) for row in items)
            item = right if right in items else items[0]
            draw = orag.Draw(query, 1, items, p, inclusion, item)
            share = weight * np.prod(-np.expm1(-p[list(chosen)] * x))
            total += share * gradient(orag.outcome(session, draw, item == right), n)
    return total


@pytest.mark.parametrize("mode", deepen(("full", "chosen"), ("full",)))
def test_the_expected_step_of_several_is_the_gradient_and_the_printed_one_is_not(mode):
    """By enumeration, 9 documents, 3 drawn, a reranker that knows: the default is p − e_right, Algorithm 2 as printed
    pulls the right one P(it is drawn) / p times as much."""
    space = random_space(9, 4)
    vector, right = (part[0] for part in queries_near(space, 1))
    right = int(right)
    factors = []
    for temperature in (0.3, 1.0):
        session = orag.session(space, mode=mode, temperature=temperature)
        query = session.resolve_query(vector)
        p = orag.probabilities(session, query)
        exact = p - np.eye(9)[right]
        assert np.allclose(expected_pull(p, 3, right, session, query), exact, atol=1e-9)

        printed = orag.session(space, mode=mode, temperature=temperature, weights="paper")
        share = sum(
            p[a] * p[b] / (1 - p[a]) * p[c] / (1 - p[a] - p[b])
            for a, b, c in permutations(range(9), 3)
            if right in (a, b, c)
        )
        frequencies = expected_pull(p, 3, right, printed, query)
        pull = (p[right] if mode == "full" else share) - frequencies[right]
        assert pull == pytest.approx(share / p[right], abs=1e-9)
        factors.append(pull)
    assert factors[0] > 1.3 and factors[1] > 2.2, "nearly uniform draws are the most biased"


def test_an_oracle_with_several_right_ones_is_unbiased():
    """E[1{picked} / sure] = 1 for every right one, which a fixed choice among them is not."""
    items, rounds = (3, 5, 7, 9), 4000
    for noise in (0.0, 0.5):
        pick = orag.oracle(lambda q: {5, 9}, noise=noise)
        sums = dict.fromkeys(items, 0.0)
        for r in range(rounds):
            item, sure = pick(SimpleNamespace(round=r), None, items)
            sums[item] += 1 / sure / rounds
        assert all(abs(sums[row] - 1) < 4 * np.sqrt(1.7 / rounds) for row in (5, 9)), sums


def test_the_printed_weights_are_offered_as_such(space):
    query = queries_near(space, 1)[0][0]
    session = orag.session(space, weights="paper", temperature=0.3)
    draw = orag.ask(session, query, k=4)
    assert draw.weights == tuple(draw.probabilities[list(draw.items)])
    event = orag.outcome(session, draw, 1)
    assert event.items == (draw.item,) and event.coefficients == (1 - 1 / draw.p,)


def test_the_same_seed_and_round_draw_the_same(space):
    query = queries_near(space, 1)[0][0]
    session = orag.session(space, temperature=0.3, seed=4)
    again = orag.session(space, temperature=0.3, seed=4)
    for k in (1, 5):
        assert orag.ask(session, query, k=k).items == orag.ask(again, query, k=k).items
        draws = {orag.ask(session, query, k=k, round=r).items for r in range(40)}
        assert len(draws) > 5
    with pytest.raises(engine.ParamError, match="round must"):
        orag.ask(session, query, round=-1)


def test_the_temperature_gives_the_perplexity(space):
    queries, _ = queries_near(space, 33)
    embedded = engine.Embeddings(tuple(map(str, range(33))), torch.from_numpy(queries))
    session = orag.session(space, queries=embedded)
    scores = queries.astype(np.float64) @ space.vectors.numpy().astype(np.float64).T
    assert math.isclose(np.median(orag.perplexity(scores, session.temperature)), 8, rel_tol=1e-6)
    assert orag.session(space, queries=embedded, perplexity=3).temperature < session.temperature
    assert orag.session(space, temperature=0.5).temperature == 0.5
    assert orag.session(space, "paper").temperature == 1.0
    assert 0 < orag.session(space).temperature < 1

    p = np.exp(scores[0] / 0.3) / np.exp(scores[0] / 0.3).sum()
    assert math.isclose(orag.perplexity(scores, 0.3)[0], math.exp(-(p * np.log(p)).sum()))
    without = np.where(np.arange(60) % 2, -np.inf, scores[0])
    assert math.isclose(orag.perplexity(without, 0.3)[0], orag.perplexity(scores[0, ::2], 0.3)[0])
    assert 0 < orag.by_perplexity(np.where(np.arange(60) % 2, -np.inf, scores), 8) < np.inf
    small = random_space(5, 4)
    assert orag.session(small).temperature > 0 and orag.session(random_space(1, 4)).temperature == 1.0
    same = np.ones((3, 10))
    assert orag.by_perplexity(same, 8) == 1.0
    assert math.isclose(orag.by_perplexity(1e6 * scores, 8), 1e6 * orag.by_perplexity(scores, 8), rel_tol=1e-6)


def test_rerankers_pick_among_what_was_drawn(space):
    query = queries_near(space, 1)[0][0]
    session = orag.session(space, temperature=0.5)
    unranked = orag.ask(session, query, k=6)
    assert unranked.item == max(unranked.items, key=lambda row: unranked.probabilities[row])
    near = orag.ask(session, query, k=6, reranker=orag.cosine)
    assert near.item == unranked.item and near.items == unranked.items, "nothing has moved, and rows are unit"
    dense = orag.ask(session, query, k=6, reranker=orag.by_scorer(engine.make("dense")))
    assert dense.item == unranked.item and dense.sure == 1.0

    first = orag.ask(session, query, k=6, reranker=lambda session, query, items: items[0])
    assert first.item == first.items[0]
    sure = orag.ask(session, query, k=6, reranker=lambda session, query, items: (items[1], 0.5))
    assert sure.propensity == sure.weights[1] * 0.5
    for wrong in (lambda s, q, i: -1, lambda s, q, i: (i[0], 0.0), lambda s, q, i: (i[0], 1.5)):
        with pytest.raises(engine.ParamError, match="reranker must"):
            orag.ask(session, query, k=6, reranker=wrong)
    with pytest.raises(engine.ParamError, match="scorer must"):
        orag.by_scorer("dense")
    with pytest.raises(engine.ParamError, match="noise must"):
        orag.oracle(lambda q: (), noise=2)

    class Words(type(engine.make("dense"))):
        words = True

    with pytest.raises(engine.DataError, match="query's words"):
        orag.ask(session, query, k=3, reranker=orag.by_scorer(Words()))


def test_an_oracle_errs_as_often_as_it_says():
    items, rounds = (3, 5, 7, 9), 4000
    pick = orag.oracle(lambda q: {7}, noise=0.4)
    chosen = [pick(SimpleNamespace(round=r), None, items) for r in range(rounds)]
    share = np.mean([item == 7 for item, _ in chosen])
    assert abs(share - 0.7) < 0.03
    assert {sure for item, sure in chosen if item == 7} == {0.7} and {s for i, s in chosen if i != 7} == {0.1}
    never = orag.oracle(lambda q: {1})
    assert {never(SimpleNamespace(round=r), None, items)[1] for r in range(9)} == {0.25}


def test_a_scorer_reads_words_and_only_what_was_drawn():
    texts = tuple(f"{word} text" for word in ("apple", "banana", "cherry", "date", "elder", "fig", "grape", "hazel"))
    space = random_space(8, 4, texts=texts)

    class Longest(type(engine.make("dense"))):
        words = True
        inner_product = False

        def score(self, space, queries, rows=None):
            assert rows.shape == (1, 4) and queries.texts == ("which fruit?",)
            return rows.float()

    session = orag.session(space, temperature=0.5)
    vector = session.resolve_query(queries_near(space, 1)[0][0]).vector
    draw = orag.ask(session, orag.Query(vector, "which fruit?"), k=4, reranker=orag.by_scorer(Longest()))
    assert draw.item == max(draw.items)


N = 9
MODES = ("full", "chosen")


@pytest.fixture(scope="module")
def instance():
    space = random_space(N, 5)
    return space, queries_near(space, 1)[0][0]


def begun(space, mode="chosen", **overrides):
    return orag.session(space, mode=mode, temperature=0.2, **overrides)


def expected(session, query, succeeds):
    """(n,) mean of the coefficients over all draws and outcomes, and the mean of their squared length times |q|².

    succeeds(i): the chance that i is said to succeed.
    """
    resolved, p = session.resolve_query(query), orag.probabilities(session, query)
    mean, second = np.zeros(len(p)), 0.0
    for item in range(len(p)):
        draw = Draw(resolved, 1, (item,), p, (float(p[item]),), item)
        for y, chance in ((1, succeeds(item)), (0, 1 - succeeds(item))):
            c = gradient(orag.outcome(session, draw, y), len(p))
            mean += p[item] * chance * c
            second += p[item] * chance * float(c @ c)
    return mean, second * float(resolved.exact @ resolved.exact)


@pytest.mark.parametrize("mode", MODES)
def test_the_mean_step_is_the_gradient(instance, mode):
    """Lemma 3.1 and appendix B.2, against the cross-entropy's derivative by finite differences."""
    session = begun(instance[0], mode)
    for right in range(N):
        mean, _ = expected(session, instance[1], lambda i, right=right: float(i == right))
        p = orag.probabilities(session, instance[1])
        assert np.allclose(mean, p - np.eye(N)[right], atol=1e-14)

        # τ ∂l/∂θ_j = (p_j − 1{j = right}) q: the rate absorbs the 1/τ.
        z = session.scores(instance[1]) / session.temperature
        loss = lambda z, right=right: math.log(np.exp(z - z.max()).sum()) - (z - z.max())[right]  # noqa: E731
        step = 1e-6
        slopes = [(loss(z + step * row) - loss(z - step * row)) / (2 * step) for row in np.eye(N)]
        assert np.allclose(mean, slopes, atol=1e-8)


@pytest.mark.parametrize("mode", MODES)
def test_with_several_right_ones_each_is_pulled_whole_or_its_share(instance, mode):
    session, right = begun(instance[0], mode), {1, 4, 6}
    p = orag.probabilities(session, instance[1])
    member = np.isin(np.arange(N), list(right)).astype(float)
    mean, _ = expected(session, instance[1], lambda i: float(i in right))
    assert np.allclose(mean, p - member, atol=1e-14)

    query = session.resolve_query(instance[1])
    shared = np.zeros(N)
    for item in range(N):
        draw = Draw(query, 1, (item,), p, (float(p[item]),), item)
        shared += p[item] * gradient(orag.outcome(session, draw, item in right, relevant=3), N)
    truth = gradient(orag.full_information(session, query, right), N)
    assert np.allclose(shared, truth, atol=1e-14) and np.allclose(truth, p - member / 3, atol=1e-15)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("flip", (0.1, 0.5))
def test_flipped_feedback_shifts_the_mean_by_a_known_amount(instance, mode, flip):
    session, right = begun(instance[0], mode), 3
    mean, _ = expected(session, instance[1], lambda i: (1 - flip) * (i == right) + flip * (i != right))
    p = orag.probabilities(session, instance[1])
    assert np.allclose(mean, p - (1 - 2 * flip) * np.eye(N)[right] - flip, atol=1e-14)


def test_second_moments_and_which_estimator_is_steadier(instance):
    """E|G|² of Theorem 5.1's proof, right and as printed; appendix B.2's is never larger."""
    q2 = float(np.square(instance[1].astype(np.float64)).sum())
    p = orag.probabilities(begun(instance[0]), instance[1])
    for right in range(N):
        full = expected(begun(instance[0], "full"), instance[1], lambda i, right=right: float(i == right))[1]
        chosen = expected(begun(instance[0], "chosen"), instance[1], lambda i, right=right: float(i == right))[1]
        best = p[right]
        assert math.isclose(full, (np.square(p).sum() - 2 * best + 1 / best) * q2, rel_tol=1e-12)
        assert math.isclose(chosen, (1 / best - 1) * q2, rel_tol=1e-9)
        assert chosen <= full * (1 + 1e-12) and full <= (1 / best - 2 * best + 1) * q2

        printed = (p**3).sum() - 2 * best + 1 / best
        assert abs(printed * q2 - full) > 1e-3, "the printed middle line is not the second moment"


def test_extreme_temperature_and_lengths_do_not_overflow(instance):
    """τ = 1e-3 and vectors of length 1e3: one document has all of the softmax, and nothing becomes NaN."""
    rng = np.random.default_rng(0)
    space = space_of((1e3 * rng.standard_normal((N, 5)) / np.sqrt(5)).astype(np.float32))
    query = (1e3 * rng.standard_normal(5) / np.sqrt(5)).astype(np.float32)
    for mode in MODES:
        for guards in ({}, {"cap": None, "trust": None, "ball": False}):
            session = orag.session(space, mode=mode, temperature=1e-3, **guards)
            for turn in range(20):
                p = orag.probabilities(session, query)
                assert np.isfinite(p).all() and math.isclose(p.sum(), 1)
                for k in (1, 3):
                    draw = orag.ask(session, query, k=k)
                    session = orag.feed(session, orag.outcome(session, draw, turn % 2))
                session = orag.feed(session, orag.right_one(session, query, range(N), turn % N))
                session = orag.feed(session, orag.thumb(session, query, turn % N, turn % 2 == 0))
            assert np.isfinite(session.exact).all() and np.isfinite(session.vectors).all()


def test_feedback_on_a_list_is_never_divided_by_a_chance(instance):
    session = begun(instance[0], ball=False)
    for up, coefficient in ((True, -1.0), (False, 1.0)):
        event = orag.thumb(session, instance[1], 2, up, shown=range(5))
        assert event.coefficients == (coefficient,) and event.propensity is None
        moved = orag.feed(session, event).row(2) - session.row(2)
        assert np.allclose(moved, -coefficient * session.preset.rate * event.query.exact, atol=1e-15)
    event = orag.right_one(session, instance[1], range(5), 1)
    z = session.scores(instance[1])[:5] / session.temperature
    assert np.allclose(event.coefficients, np.exp(z) / np.exp(z).sum() - np.eye(5)[1]) and event.propensity is None

    unweighted = orag.thumb(session, instance[1], 2, True, propensity=0.05)
    assert unweighted.coefficients == (1 - 1 / 0.05,) and unweighted.propensity == 0.05
    assert orag.thumb(session, instance[1], 2, False, propensity=0.05).coefficients == (1.0,)


@pytest.mark.parametrize("preset,falls", [("default", 0.02), ("careful", 0.01)])
def test_a_thumb_down_lowers_the_score_by_the_rate(preset, falls):
    space = random_space(300, 64)
    session = orag.session(space, preset)
    for query in queries_near(space, 10)[0]:
        best = int(session.scores(query).argmax())
        after = orag.feed(session, orag.thumb(session, query, best, up=False))
        fallen = session.scores(query)[best] - after.scores(query)[best]
        assert math.isclose(fallen, falls, rel_tol=1e-6)


def test_a_first_result_falls_after_as_many_thumbs_as_its_lead_takes():
    """At once where it leads by less than .01; by n thumbs where its lead is below .02 n."""
    space = random_space(300, 64)
    session, seen = orag.session(space, temperature=0.1), set()
    for query in unit(np.random.default_rng(5).standard_normal((60, 64))):
        session = orag.reset(session)
        second, first = np.sort(session.scores(query))[-2:]
        best, needed = int(session.scores(query).argmax()), int((first - second) / 0.02) + 1
        for _ in range(needed):
            assert session.scores(query).argmax() == best
            session = orag.feed(session, orag.thumb(session, query, best, up=False))
        assert session.scores(query).argmax() != best
        seen.add(needed)
    assert seen >= {1, 2, 3}, "some fall at once, some take several"


def test_impossible_feedback_is_refused(instance):
    session = begun(instance[0])
    draw = orag.ask(session, instance[1])
    for call, named in (
        (lambda: orag.outcome(session, draw, 2), "y must be 0 or 1"),
        (lambda: orag.outcome(session, draw, 1, relevant=0), "relevant must"),
        (lambda: orag.thumb(session, instance[1], N), r"item must be .*\[0, 9\)"),
        (lambda: orag.thumb(session, instance[1], "nobody"), "'nobody'"),
        (lambda: orag.thumb(session, instance[1], 0, up=3), "up must"),
        (lambda: orag.thumb(session, instance[1], 0, propensity=0.0), "propensity must"),
        (lambda: orag.right_one(session, instance[1], [1, 2], 3), "shown must"),
        (lambda: orag.right_one(session, instance[1], [1, 1, 3], 3), "shown must"),
        (lambda: orag.full_information(session, instance[1], []), "right must"),
        (lambda: orag.ask(session, instance[1], k=0), "k .*must"),
    ):
        with pytest.raises(engine.ParamError, match=named):
            call()
    for query in (np.full(5, np.nan), np.ones(4), np.ones((2, 5))):
        with pytest.raises(ValueError, match="query must be 5 finite numbers"):
            orag.ask(session, query)
