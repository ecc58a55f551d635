"""Drift: nothing at the start, blind to a common shift, and equal to slow float64 definitions everywhere else."""

from itertools import combinations

import numpy as np
import pytest
import torch

import engine
from engine.drift import measures as of
from engine.drift.measures import MEASURES, Drift, drift, origin
from support.instances import clustered_rows, duplicated_rows, random_rows, unit


def moved(seed=0, n=80, d=12, probes=25, far=0.15):
    """(Θ₁, Θ_t, probes, the rows judged right) on tie-free data."""
    rng = np.random.default_rng(seed)
    start = clustered_rows(rng, n, d)
    now = start + far * rng.standard_normal((n, d)) * rng.random((n, 1))
    points = unit(start[rng.integers(n, size=probes)] + 0.3 * rng.standard_normal((probes, d)))
    right = [rng.choice(n, size=int(rng.integers(0, 4)), replace=False).tolist() for _ in range(probes)]
    return start, now, points, right


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("rows", [random_rows, clustered_rows, duplicated_rows])
def test_at_the_start_there_is_no_drift(rows, dtype):
    rng = np.random.default_rng(3)
    start = rows(rng, 60, 8).astype(dtype)
    found = drift(origin(start, unit(rng.standard_normal((20, 8)))), start.copy())
    zero = {name: found.figures[name] for name in ("median", "q99", "shift", "churn", "neighbourhood")}
    assert set(zero.values()) == {0.0}
    assert found.rbo == pytest.approx(1) and found.hubs == found.start
    assert found.movers == () and not found.alarm and found.light == "green"


def test_a_common_shift_is_told_apart_and_changes_nothing_else():
    start, now, points, right = moved()
    step = np.random.default_rng(1).standard_normal(12)
    here = origin(start, points, right=right, temperature=0.1)
    plain, shifted = drift(here, now), drift(here, now + step)
    for name in ("median", "q99", "churn", "rbo", "hubs", "neighbourhood"):
        assert shifted.figures[name] == pytest.approx(plain.figures[name], abs=1e-12), name
    assert shifted.confidence == pytest.approx(plain.confidence, rel=1e-9)
    assert [m.row for m in shifted.movers] == [m.row for m in plain.movers]
    assert shifted.shift == pytest.approx(np.linalg.norm((now - start).mean(0) + step))
    alone = drift(here, start + step)
    assert alone.median < 1e-12 and alone.churn == alone.neighbourhood == 0
    assert alone.shift == pytest.approx(np.linalg.norm(step))


@pytest.mark.parametrize("seed", range(4))
def test_movement_is_what_the_definition_says(seed):
    start, now, points, _ = moved(seed)
    found = drift(origin(start, points), now)
    shift = sum(now[i] - start[i] for i in range(80)) / 80
    far = [np.sqrt(sum((now[i] - start[i] - shift) ** 2)) for i in range(80)]
    ordered = sorted(far)
    assert found.median == pytest.approx((ordered[39] + ordered[40]) / 2)
    low, share = divmod(0.99 * 79, 1)
    assert found.q99 == pytest.approx(ordered[int(low)] * (1 - share) + ordered[int(low) + 1] * share)
    assert [m.row for m in found.movers] == sorted(range(80), key=lambda i: -far[i])[:10]
    assert [m.distance for m in found.movers] == pytest.approx(ordered[:-11:-1])
    assert found.longest == pytest.approx(max(np.sqrt(sum(row**2)) for row in now))


@pytest.mark.parametrize("seed", range(4))
def test_answers_hubs_and_neighbourhoods_match_brute_force(seed):
    start, now, points, _ = moved(seed)
    found = drift(origin(start, points), now)

    def top(rows, point):
        return sorted(range(80), key=lambda i: (-float(np.dot(rows[i], point)), i))[:10]

    then, later = ([top(rows, q) for q in points] for rows in (start, now))
    overlap = [len(set(a) & set(b)) / 10 for a, b in zip(then, later, strict=True)]
    assert 0 < found.churn == pytest.approx(1 - np.mean(overlap))

    def unevenness(lists):
        times = [sum(i in one for one in lists) for i in range(80)]
        return sum(abs(a - b) for a in times for b in times) / (2 * 80 * sum(times))

    assert found.start == pytest.approx(unevenness(then)) and found.hubs == pytest.approx(unevenness(later))

    def close(rows, i):
        return set(sorted((j for j in range(80) if j != i), key=lambda j: np.linalg.norm(rows[i] - rows[j]))[:10])

    alike = [len(close(start, i) & close(now, i)) / len(close(start, i) | close(now, i)) for i in range(80)]
    assert 0 < found.neighbourhood == pytest.approx(1 - np.mean(alike))


def test_rank_overlap_is_webbers_sum():
    """Eq. 23 by hand, and the limit that it extrapolates: agreement stays what it is at the last rank."""
    rng = np.random.default_rng(0)
    then = np.stack([rng.permutation(15)[:10] for _ in range(30)])
    now = np.stack([rng.permutation(15)[:10] for _ in range(30)])
    p = 0.9
    for a, b, found in zip(then, now, of.compute_rank_overlap(then, now), strict=True):
        agreement = [len(set(a[:d]) & set(b[:d])) / d for d in range(1, 11)]
        endless = agreement + [agreement[-1]] * 2000
        assert found == pytest.approx((1 - p) * sum(x * p**d for d, x in enumerate(endless)))
    assert of.compute_rank_overlap(then, then) == pytest.approx(np.ones(30))
    apart = of.compute_rank_overlap(np.array([[0, 1, 2]]), np.array([[3, 4, 5]]))
    assert apart.tolist() == [0.0]


def test_an_early_change_costs_more_order_than_a_late_one():
    then = np.arange(10)[None]
    early, late = then.copy(), then.copy()
    early[0, :2], late[0, 8:] = (1, 0), (9, 8)
    assert of.compute_rank_overlap(then, early) < of.compute_rank_overlap(then, late) < 1
    assert of.shared(then, early) == of.shared(then, late) == 1


def test_gini_of_known_spreads():
    assert of.compute_gini([3, 3, 3]) == pytest.approx(0)
    assert of.compute_gini([0, 0, 0, 8]) == pytest.approx(3 / 4)
    assert of.compute_gini([0, 0]) == 0
    x = np.random.default_rng(0).integers(0, 9, 30)
    assert of.compute_gini(x) == pytest.approx(sum(abs(a - b) for a, b in combinations(x, 2)) / (30 * x.sum()))


def test_confidence_is_the_chance_of_a_right_answer():
    start, now, points, right = moved()
    found = drift(origin(start, points, right=right, temperature=0.05), now)
    chances = []
    for q, good in zip(points, right, strict=True):
        e = [np.exp(np.dot(row, q) / 0.05) for row in now]
        if good:
            chances.append(sum(e[i] for i in good) / sum(e))
    assert len(chances) < 25 and found.confidence == pytest.approx(np.mean(chances))
    with_none = origin(start, points, right=[[]] * 25)
    assert drift(with_none, now).confidence is None


def test_success_weighs_the_last_feedback_most():
    outcomes = np.random.default_rng(0).integers(0, 2, 400)
    running, weight = 0.0, 0.0
    for y in outcomes:
        running, weight = 0.99 * running + y, 0.99 * weight + 1
    assert of.smoothed(outcomes) == pytest.approx(running / weight)
    assert of.smoothed([1]) == 1 and of.smoothed([]) is None
    assert of.smoothed([0] * 300 + [1] * 300) > 0.9


def test_documents_that_crowd_the_answers_raise_the_alarm():
    start, _, points, _ = moved()
    here = origin(start, points)
    crowd = start.copy()
    crowd[:3] += 0.5 * points.mean(0)
    found = drift(here, crowd)
    assert found.hubs - found.start > of.HUB_ALARM and found.alarm
    assert not drift(here, start).alarm


@pytest.mark.parametrize(
    "length,ball,light",
    [(1.0, False, "green"), (1.01, False, "amber"), (1.01, True, "green"), (2.1, False, "red"), (2.1, True, "red")],
)
def test_the_light_is_by_the_longest_row(length, ball, light):
    start = unit(np.random.default_rng(0).standard_normal((20, 6)))
    now = start.copy()
    now[4] *= length
    assert drift(origin(start), now, ball=ball).light == light


def test_without_probes_only_what_needs_none_is_measured():
    start, now, _, _ = moved()
    found = drift(origin(start), now, step=7, success=0.5)
    assert [name for name, value in found.figures.items() if value is None] == ["churn", "rbo", "confidence", "hubs"]
    assert found.step == 7 and found.success == 0.5 and not found.alarm


def test_what_can_be_measured_is_declared_as_data():
    assert set(MEASURES) <= set(Drift.__dataclass_fields__)
    for measure in MEASURES.values():
        assert measure.title and measure.meaning.endswith(".") and measure.better in ("", "up", "down")


def test_a_large_corpus_is_followed_by_a_seeded_sample():
    rows = random_rows(np.random.default_rng(0), of.MAX_WATCHED_ROWS + 40, 4)
    assert len(origin(rows).watched) == of.MAX_WATCHED_ROWS
    assert np.array_equal(origin(rows, seed=1).watched, origin(rows, seed=1).watched)
    assert not np.array_equal(origin(rows, seed=1).watched, origin(rows, seed=2).watched)


@pytest.mark.parametrize("n", [1, 2, 5])
def test_a_tiny_corpus_is_no_special_case(n):
    rows = random_rows(np.random.default_rng(0), n, 3)
    found = drift(origin(rows, rows), -rows)
    assert np.isfinite([found.median, found.churn, found.neighbourhood]).all()


def test_tensors_embeddings_and_arrays_are_alike():
    start, now, points, _ = moved()
    ids = tuple(map(str, range(80)))
    asked = engine.Embeddings(tuple(map(str, range(25))), points)
    given = drift(origin(engine.Embeddings(ids, start), asked), torch.from_numpy(now))
    assert given == drift(origin(start, points), now)


@pytest.mark.parametrize(
    "call,said",
    [
        (lambda s, n, p: origin(s, p[:, :5]), "probes must be (P, 12), at least one; got shape (25, 5)"),
        (lambda s, n, p: origin(s, p, right=[[0]]), "right must have one list of rows for each probe; got 1 for 25"),
        (lambda s, n, p: origin(s, p, right=[[80]] * 25), "right must hold rows in [0, 79]"),
        (lambda s, n, p: origin(s, p, temperature=0), "temperature (τ) must be a number in [1e-06, 1e+06]; got 0"),
        (lambda s, n, p: drift(origin(s), n[:9]), "vectors must be the rows of the start, (80, 12); got (9, 12)"),
        (lambda s, n, p: drift(origin(s), n * np.nan), "vectors must be finite; 80 rows with NaN or infinity"),
        (lambda s, n, p: drift(origin(s), n, step=-1), "step must be a whole number in [0, ∞); got -1"),
    ],
)
def test_what_cannot_be_is_named(call, said):
    start, now, points, _ = moved()
    with pytest.raises(engine.FrontierError) as error:
        call(start, now, points)
    assert said in str(error.value)
