"""vrsd against a float64 oracle of its Algorithm 1, and what happens at the edges."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import engine
from engine.candidates import Candidates
from engine.matrix import Matrix
from engine.selection.vrsd import _SumRace
from engine.solvers.tie_breaking import find_best
from support.instances import FAMILIES, crowd, few_or_all, problem, unit
from support.selector_oracles import is_decided, make_foreign_candidates, select_together_and_alone, space_of
from support.stage_laws import most_relevant, picks


def cosines(rows, query, picks):
    """(n,) cosine of query and the sum of the picked rows and each row; 0 where a length is 0 up to rounding."""
    totals = rows + rows[picks].sum(0)
    travelled = np.linalg.norm(rows, axis=1) + np.linalg.norm(rows[picks], axis=1).sum()
    length = np.linalg.norm(totals, axis=1)
    points = (length > 1e-12 * travelled) & (np.linalg.norm(query) > 0)
    return np.where(points, totals @ query / np.where(points, length * np.linalg.norm(query), 1), 0.0)


def check(rows, query, chosen, gain, relevance=None):
    """Every pick is Algorithm 1's, up to METHODS' margin, of equal rows the lowest; the gain is the cosine reached."""
    rows, query = rows.astype(np.float64), query.astype(np.float64)
    relevance = (rows * query).sum(1) if relevance is None else relevance
    margin = 1e-5 * max(1e-12, np.abs(rows @ query).max())
    decided = 0
    for step, pick in enumerate(chosen):
        cosine = cosines(rows, query, chosen[:step])
        assert gain[step] == pytest.approx(cosine[pick], abs=1e-9)
        score = cosine if step else relevance.copy()
        score[chosen[:step]] = -np.inf
        decided += is_decided(score, rows, pick, margin)
    return decided


@pytest.fixture(params=["gram", "race"], autouse=True)
def route(request, monkeypatch):
    """Every test once on Gram rows and once by passes, as on a large corpus."""
    if request.param == "race":
        monkeypatch.setattr("engine.selection.vrsd.GRAM_ROWS", 0)
    return request.param


def check_all(rows, queries, k, **options):
    """Batch and single agree, and every answer passes `check`; how many picks the margin left decided."""
    decided = 0
    for query, alone in zip(queries, select_together_and_alone("vrsd", rows, queries, k, **options)[1], strict=True):
        kept = most_relevant(rows, query, options.get("pool", len(rows)))
        chosen = np.searchsorted(kept, picks(alone)).tolist()
        assert len(chosen) == min(k, len(kept))
        decided += check(rows[kept], query, chosen, alone.gain[0].tolist())
        assert alone.info[0]["objective"] == alone.gain[0, len(chosen) - 1] and alone.info[0]["candidates"] == len(kept)
    return decided


@few_or_all(range(24), range(125), quick=4)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("family", FAMILIES)
def test_equals_the_oracle(family, dtype, seeds):
    decided = 0
    for seed in seeds:
        rows, queries = problem(family, seed, dtype=dtype)
        decided += check_all(rows, queries, k=1 + seed % 12)
    assert decided > 4 * len(seeds), "the margin rule excused nearly every pick: the instances prove nothing"


def test_a_known_answer():
    """The second pick cancels what the first has too much of; a nearer duplicate of the first would not."""
    rows = np.array([[1, 0.5], [1, 0.4999], [1, -0.6], [0, 1]])
    answer = engine.select("vrsd", rows, [1.0, 0.05], k=2)
    assert answer.index.tolist() == [[0, 2]]
    assert answer.gain[0, 1].item() == pytest.approx((2 - 0.1 * 0.05) / np.hypot(2, 0.1) / np.hypot(1, 0.05))


def test_a_zero_query_has_cosine_zero_to_everything():
    rows = problem("degenerate", 4, n=200, d=7)[0]
    other = np.ones(7, dtype=np.float32)
    answer = engine.select("vrsd", rows, np.stack([np.zeros(7, np.float32), other]), k=5)
    assert answer.index[0].tolist() == [0, 1, 2, 3, 4] and answer.gain[0].tolist() == [0] * 5
    assert answer.info[0]["close_calls"] <= 1, "hopeless cosines were computed"
    assert torch.equal(answer.index[1], engine.select("vrsd", rows, other, k=5).index[0])


def test_a_sum_of_length_zero_has_cosine_zero():
    """Rows that cancel leave float64 noise for a sum, which must not count as a direction."""
    for dtype in (np.float32, np.float64):
        third = np.array([0.1, 0.7, -0.3], dtype=dtype)
        rows = np.stack([third, third / 3, third * dtype(-1.1), -third, -third / 3])
        answer = engine.select("vrsd", rows, third, k=5)
        assert answer.index[0, :2].tolist() == [0, 1]
        check(rows, third, answer.index[0].tolist(), answer.gain[0].tolist())
    opposite = np.array([[1.0, 2], [-1, -2]])
    assert engine.select("vrsd", opposite, [1.0, 2], k=2).gain[0].tolist() == pytest.approx([1, 0], abs=1e-12)


def test_lengths_count_as_written():
    """A long row bends the sum where a short one with the same direction hardly does."""
    rows = np.array([[3, 0], [0.1, 1], [0.3, 3]])
    assert engine.select("vrsd", rows, [[1.0, 0.9], [1.0, 0.1]], k=2).index.tolist() == [[0, 2], [0, 1]]


def test_negative_relevances_are_chosen_from_all_the_same():
    rows = -np.abs(np.random.default_rng(2).standard_normal((30, 5)))
    queries = np.abs(np.random.default_rng(3).standard_normal((2, 5)))
    check_all(rows.astype(np.float32), queries.astype(np.float32), k=9)


def test_crowds_of_duplicates_come_lowest_row_first():
    rows, queries, _ = crowd(7, 3000, 24, batch=2)
    for dtype in (np.float32, np.float64):
        for pool in (3000, 2000, 9):
            check_all(rows.astype(dtype), queries.astype(dtype), k=9, pool=pool)


def test_near_ties_are_settled_in_float64_at_every_scale(route):
    """Sums that float32 cannot tell apart come in the order of their exact cosines, for long and short rows too."""
    rng = np.random.default_rng(5)
    query = unit(rng.standard_normal(32)).astype(np.float32)
    misled = 0
    for scale in (1e-20, 1e-3, 1.0, 1e3, 1e17, 1e18):
        rows = query + 1e-6 * rng.standard_normal((300, 32)) + 0.3 * rng.standard_normal(32)
        rows = (scale * rows).astype(np.float32)
        answer = engine.select("vrsd", rows, query, k=12)
        chosen = answer.index[0].tolist()
        for step in range(1, 12):
            score = cosines(rows.astype(np.float64), query.astype(np.float64), chosen[:step])
            score[chosen[:step]] = -np.inf
            assert score[chosen[step]] >= score.max() - 1e-13, (scale, step)
            total = rows + rows[chosen[:step]].sum(0)
            rough = (total @ query) / np.sqrt((total / scale * total / scale).sum(1)) / scale
            rough[chosen[:step]] = -np.inf
            misled += int(np.argmax(rough)) != chosen[step]
        assert (answer.info[0]["close_calls"] > 0) == (route == "race")
    assert misled > 10, "the instances are too easy to show anything"


def test_sums_of_the_longest_rows_do_not_overflow():
    """Rows as long as Matrix admits: the square of a sum of five would be too large a number."""
    for dtype in (np.float32, np.float64):
        rows, queries = problem("random", 11, n=40, d=6, dtype=dtype)
        plain = engine.select("vrsd", rows, queries, k=12)
        longest = dtype(0.99 * np.sqrt(np.finfo(dtype).max) / 4)
        long = engine.select("vrsd", rows * longest, queries, k=12)
        assert torch.equal(long.index, plain.index)
        assert torch.allclose(long.gain, plain.gain, atol=1e-6)


def test_a_short_sum_leaves_its_neighbours_open():
    """Candidates that nearly cancel the sum have no float32 cosine; one of them may be the best all the same."""
    rng = np.random.default_rng(8)
    query = rng.standard_normal(16)
    first = unit(query) + 0.5 * rng.standard_normal(16)
    for size in (1e-3, 1e-5, 1e-7):
        nearly = -first + size * query + 0.1 * size * rng.standard_normal((40, 16))
        rows = np.concatenate([first[None], nearly, 0.05 * rng.standard_normal((40, 16))]).astype(np.float32)
        answer = engine.select("vrsd", rows, query.astype(np.float32), k=4)
        assert answer.index[0, 0] == 0 and 1 <= answer.index[0, 1] <= 40
        check(rows, query.astype(np.float32), answer.index[0].tolist(), answer.gain[0].tolist())


def test_a_space_a_batch_and_another_order_change_nothing():
    rows, queries = problem("clustered", 6, n=150, d=12, batch=5)
    plain = engine.select("vrsd", rows, queries, k=12)
    decoder, asked = engine.Decoder(engine.make("vrsd")), engine.Embeddings(tuple("abcde"), torch.tensor(queries))
    kept = engine.decode(decoder, space_of(rows), asked, k=12)
    assert torch.equal(kept.index, plain.index) and torch.allclose(kept.gain, plain.gain, rtol=0, atol=1e-13)
    order = np.random.default_rng(0).permutation(150)
    turned = engine.select("vrsd", rows[order], queries, k=12)
    assert (order[turned.index.numpy()] == plain.index.numpy()).all()


def test_another_scorers_relevance_decides_the_first_pick_only():
    rows, queries = problem("clustered", 9, n=40, d=8, batch=3)
    c = make_foreign_candidates(rows, queries)
    answer = engine.make("vrsd").select(c, 8)
    for b, query in enumerate(queries):
        given = c.relevance[b].double().numpy()
        assert check(rows, query, answer.index[b].tolist(), answer.gain[b].tolist(), given) > 4
    assert torch.equal(answer.index[:, 0], c.relevance.argmax(1))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("family", FAMILIES)
def test_no_fast_cosine_is_further_off_than_its_bound(family, dtype):
    """Rows of every size and of length almost 1, relevances as far off as they may be, sums steered to be short."""
    worst = 0.0
    for seed in range(6):
        rows, queries = problem(family, seed, n=120, d=2 + 3 * seed, dtype=dtype)
        rng = np.random.default_rng(seed)
        if seed % 2 and family != "degenerate":
            rows = rows * (1 + 9e-7 * rng.uniform(-1, 1, size=(120, 1))).astype(dtype)
        else:
            rows = rows * dtype((1.0, 1e-9, 1e9)[seed % 3])
        rows, queries = torch.tensor(rows), torch.tensor(queries)
        plain = Candidates(rows, queries @ rows.T, queries, Matrix(rows))
        off = 0.9 * torch.tensor(rng.choice([-1, 1], size=(3, 120))) * plain.relevance_error.unsqueeze(1)
        race = _SumRace(replace(plain, relevance=plain.relevance + off.to(rows.dtype)))
        every = torch.arange(3)
        pick = (queries @ rows.T).argmax(1)
        for step in range(6):
            race.add_picks(every, pick)
            score, error = race.compute_cosines()
            free = score > -torch.inf
            truth = race.exact_cosines(every.repeat_interleave(120), torch.arange(120).repeat(3)).view(3, 120)
            error = error.unsqueeze(1) if error.ndim == 1 else error
            worst = max(worst, float(((score - truth).abs() / error)[free].max()))
            pick = torch.where(free, truth if step % 2 else -truth.abs(), -2).argmax(1)
    assert 1e-4 < worst < 1


def test_a_contest_weighs_each_candidates_own_error():
    """Only who may reach what the surest has for certain is scored again, and the best of them wins."""
    truth = torch.tensor([[0.9, 1.4, 0.5, 1.4, -1.0]], dtype=torch.float64)
    asked = []

    def exact(batch, candidate):
        asked.extend(candidate.tolist())
        return truth[batch, candidate]

    score = torch.tensor([[1.0, 0.0, 0.6, 0.0, -torch.inf]])
    for error, winner, undecided in (([0.1, 2.0, 0.1, 2.0, 0.1], 1, True), ([0.1, 0.1, 0.1, 0.8, 5.0], 0, False)):
        index, close = find_best(score, torch.tensor([error]), exact)
        assert index.tolist() == [winner] and close.tolist() == [undecided] and asked == [0, 1, 3]
