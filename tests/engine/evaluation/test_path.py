"""Rankings and weights at every λ: what the selector itself gives, at random λ and on both sides of every kink."""

import numpy as np
import pytest
import torch

import engine
from engine.candidates import Candidates
from engine.matrix import Matrix
from engine.solvers.elastic_net.path import regularization_path
from engine.solvers.greedy import lambda_path
from engine.stages import Selector, methods
from support.draws import deepen, seeds_of
from support.elastic_oracles import NASTY, QUIET_FAMILIES, nasty, scores, sharp, violations, weights_of
from support.instances import FAMILIES, few_or_all, problem

PATHS = {
    "mmr": ({}, {"window": 3}),
    "dpp": ({}, {"window": 3}),
    "ssd": ({}, {"window": 3}),
    "max_sum": ({"polish": False},),
    "facility_location": ({}, {"ground_set": 20}),
    "threshold": ({}, {"fill": "fill"}),
}
OFFSETS = (0.0, 1e-15, -1e-15, 1e-13, -1e-13, 1e-10, -1e-10)


def orthonormal_rows(rng, n, d):
    """Unit vectors of the axes, each several times: nearly every comparison is an exact tie."""
    return np.eye(d)[rng.integers(d, size=n)]


def flat_rows(rng, n, d):
    """Rows of all lengths in a space of three dimensions."""
    return rng.standard_normal((n, 3)) @ rng.standard_normal((3, d))


EVERY = {**FAMILIES, "orthonormal": orthonormal_rows, "flat": flat_rows}
each_method = pytest.mark.parametrize("name", PATHS)
each_family = pytest.mark.parametrize("family", EVERY)


def instance(family, seed, **params):
    if family in FAMILIES:
        return problem(family, seed, **params)
    rng = np.random.default_rng(seed)
    rows = EVERY[family](rng, params["n"], params["d"])
    noise = rng.standard_normal((params["batch"], params["d"]))
    queries, dtype = rows[rng.integers(len(rows), size=len(noise))] + 0.3 * noise, params.get("dtype", np.float32)
    return rows.astype(dtype), queries.astype(dtype)


def sample_values(path, rng, count, max_breakpoints=None):
    """λ: random, both ends, and beside all breakpoints or `max_breakpoints` random ones."""
    low, high, breakpoints = path.parameter.low, path.parameter.high, path.breakpoints
    if max_breakpoints is not None:
        breakpoints = rng.choice(breakpoints, min(max_breakpoints, len(breakpoints)), replace=False)
    neighbours = [breakpoints + step for step in OFFSETS]
    neighbours += [np.nextafter(breakpoints, end) for end in (-np.inf, np.inf)]
    return np.concatenate([low + (high - low) * rng.random(count), [low, high], *neighbours]).clip(low, high)


def count_line_reads(name, path, rows, query, values, **params):
    """Check that path and selector agree at all values; return the number that were read from lines."""
    grid = [{**params, path.parameter.name: value} for value in values.tolist()]
    depth = path.candidates.count if path.candidates.pool is not None else None
    directly, read = engine.select_grid(name, rows, query, k=path.k, grid=grid, pool=depth), 0
    for value, direct in zip(values, directly, strict=True):
        answer = path.at(value)
        is_equal = answer.index == direct.index
        if name == "nnn":
            # Beside a kink the weight of a document is rounding alone, and either of both may leave it out.
            is_equal |= torch.maximum(answer.gain, direct.gain) < 1e-9
        assert is_equal.all(), (name, value, params)
        assert torch.allclose(answer.gain, direct.gain, rtol=1e-10, atol=1e-10), (name, value, params)
        read += path.lines.piece(value) is not None
    return read


@few_or_all(range(1), range(4))
@pytest.mark.parametrize("family", deepen(EVERY, ["random", "degenerate", "flat"]))
@each_method
def test_path_agrees_with_selector_at_every_weight(name, family, seeds):
    for seed in seeds:
        rng = np.random.default_rng(seed)
        for k, n, depth, dtype in (
            (1, 30, 25, np.float32),
            (4, 3, 25, np.float32),
            (7, 60, 25, np.float64),
            (20, 50, None, np.float32),
        ):
            rows, queries = instance(family, seed, n=n, d=8, batch=1, dtype=dtype)
            for params in PATHS[name]:
                (path,) = engine.path(name, rows, queries, k, depth=depth, **params)
                assert (np.diff(path.breakpoints) > 0).all() and len(path) == len(path.breakpoints) + 1
                limit = 3 if len(seeds) == 1 else None
                count_line_reads(name, path, rows, queries[0], sample_values(path, rng, 10, limit), **params)


@pytest.mark.exhaustive
@each_family
@each_method
def test_path_agrees_with_selector_at_thousands_of_random_weights(name, family):
    rng = np.random.default_rng(0)
    # A call of facility_location takes a hundred times longer than the others'.
    for k, n in ((10, 600), (50, 300)):
        rows, queries = instance(family, 1, n=n, d=24, batch=1)
        for params in PATHS[name]:
            (path,) = engine.path(name, rows, queries, k, **params)
            count_line_reads(name, path, rows, queries[0], sample_values(path, rng, 5_000, 100), **params)


@each_method
def test_most_weights_are_read_from_lines(name):
    rows, queries = problem("clustered", 2, n=400, d=16)
    for query, path in zip(queries, engine.path(name, rows, queries, **PATHS[name][0]), strict=True):
        values = np.linspace(0, 1, 101)
        assert count_line_reads(name, path, rows, query, values, **PATHS[name][0]) >= 99
        assert 5 < len(path) < 500 and path.gains.shape == (len(path), 2, 10)
        middle = (path.breakpoints[2] + path.breakpoints[3]) / 2
        answer, (a, b) = path.at(middle), path.gains[3]
        assert answer.index[0].tolist() == path.rankings[3].tolist()
        assert answer.gain[0].numpy() == pytest.approx(middle * a + (1 - middle) * b, abs=1e-12)


@each_method
def test_large_corpora_hold_the_rows_of_their_picks(name, monkeypatch):
    """The path equals that from all inner products, though few rows are allocated at first."""
    rows, queries = problem("clustered", 3, n=500, d=24, batch=2)
    for params in PATHS[name]:
        for interval in ((0.0, 1.0), (0.6, 0.9)):
            full = engine.path(name, rows, queries, interval=interval, **params)
            with monkeypatch.context() as small:
                small.setattr(lambda_path, "GRAM_ROWS", 0)
                small.setattr(lambda_path, "corpus_gram", lambda c: None)
                small.setattr(lambda_path, "N_INITIAL_ROWS", 2)
                small.setattr(lambda_path, "N_GUESS_ROWS", 20)
                held_rows = engine.path(name, rows, queries, interval=interval, **params)
            for full_path, held_path in zip(full, held_rows, strict=True):
                assert (full_path.lines.ends == held_path.lines.ends).all()
                assert (full_path.lines.picks == held_path.lines.picks).all()
                assert (full_path.lines.gains == held_path.lines.gains).all()


@pytest.mark.parametrize("family", deepen(EVERY, ["random", "degenerate", "flat"]))
@each_method
def test_path_in_many_calls_is_the_path_in_one(name, family, monkeypatch):
    """A call ends after some nodes, so that it can be stopped; the next goes on where a piece ends."""
    rows, queries = instance(family, 5, n=120, d=16, batch=1)
    for params in PATHS[name]:
        (path,) = engine.path(name, rows, queries, **params)
        with monkeypatch.context() as short:
            short.setattr(lambda_path, "MAX_CALL_WORK", 1)
            short.setattr(lambda_path, "MIN_CALL_PATHS", 1)
            (in_parts,) = engine.path(name, rows, queries, **params)
        for value in np.random.default_rng(0).random(500):
            full_piece, piece = (lines.piece(value) for lines in (path.lines, in_parts.lines))
            # A boundary between two calls is certain wherever its pieces are.
            assert (piece is None) == (full_piece is None)
            if piece is not None:
                assert (in_parts.lines.picks[piece] == path.lines.picks[full_piece]).all()
                assert (in_parts.lines.gains[piece] == path.lines.gains[full_piece]).all()


@each_method
def test_path_of_an_interval_is_part_of_the_full_path(name):
    rows, queries = problem("clustered", 3, n=300, d=16, batch=1)
    for params in PATHS[name]:
        path = engine.path(name, rows, queries, **params)[0]
        stage = engine.make(name, **params)
        marks = sorted({0.0, 1.0, *path.breakpoints[1:4].tolist(), *np.linspace(0.2, 0.7, 11).tolist()})
        (part,) = stage.lambda_path(path.candidates, path.k, (0.0, 1.0), marks)
        assert len(part.ends) < len(path)
        for mark in marks:
            full_piece, part_piece = (lines.piece(mark) for lines in (path.lines, part))
            assert (part_piece is None) == (full_piece is None)
            if part_piece is not None:
                assert (part.picks[part_piece] == path.lines.picks[full_piece]).all()
                assert (part.gains[part_piece] == path.lines.gains[full_piece]).all()


def test_path_agrees_with_selector_on_thousands_of_rows():
    rng = np.random.default_rng(4)
    rows, queries = problem("clustered", 4, n=2100, d=16, batch=1)
    for name, (params, *_) in PATHS.items():
        (path,) = engine.path(name, rows, queries, interval=(0.3, 0.9), **params)
        count_line_reads(name, path, rows, queries[0], sample_values(path, rng, 5, 3), **params)


def test_dpp_past_its_rank_is_top_k_at_one_alone():
    rows, queries = problem("duplicated", 5, n=40, d=8, batch=1)
    (path,) = engine.path("dpp", rows, queries, k=6)
    assert path.breakpoints[-1] == 1 - 2.0**-53
    assert path.rankings[-1].tolist() == engine.select("top_k", rows, queries, k=6).index[0].tolist()
    assert path.at(1).index[0].tolist() == path.rankings[-1].tolist() != path.at(1 - 2.0**-53).index[0].tolist()


def test_a_space_answers_as_decode():
    rows, queries = problem("random", 6, n=80, d=12)
    corpus = engine.Corpus([f"d{i}" for i in range(80)], [f"text {i}" for i in range(80)])
    space = engine.Space(corpus, engine.Embeddings(corpus.ids, rows), device="cpu")
    embeddings = engine.Embeddings(["a", "b", "c"], queries)
    for depth in (None, 30):
        paths = engine.path(engine.make("mmr", window=2), space, embeddings, 5, depth=depth)
        for value in (0.0, 0.31, 0.7, 1.0):
            decoder = engine.Decoder(engine.make("mmr", relevance_weight=value, window=2), depth=depth)
            direct = engine.decode(decoder, space, embeddings, 5)
            assert [path.at(value).index[0].tolist() for path in paths] == direct.index.tolist()


def test_path_with_window_of_k_equals_path_without():
    rows, queries = problem("random", 7, n=90, d=12, batch=1)
    unwindowed, wide = (engine.path("ssd", rows, queries, 6, window=window)[0] for window in (None, 6))
    assert (unwindowed.lines.ends == wide.lines.ends).all() and (unwindowed.lines.picks == wide.lines.picks).all()


@few_or_all(range(2), range(12), quick=1)
def test_nnn_has_a_path_over_l1(seeds):
    for seed in seeds:
        rng = np.random.default_rng(seed)
        for family in ("random", "clustered"):
            rows, queries = problem(family, seed, n=70, d=12, batch=2)
            for l2, interval, depth in ((0.1, (0, 1), None), (0.5, (0.05, 0.4), 30), (0.1, (0.3, 3), None)):
                paths = engine.path("nnn", rows, queries, 6, interval, depth, l2=l2)
                for query, path in zip(queries, paths, strict=True):
                    assert count_line_reads("nnn", path, rows, query, sample_values(path, rng, 20, 4), l2=l2) >= 20


def test_path_selectors_are_those_with_the_hook():
    rows, queries = problem("random", 1, n=10, d=4)
    having = [name for name, spec in methods("selector").items() if spec.cls.lambda_path is not Selector.lambda_path]
    for name in methods("selector"):
        params = {"polish": False} if name == "max_sum" else {}
        if name in having:
            assert len(engine.path(name, rows, queries, 3, interval=(0.2, 0.8), **params)) == 3
        else:
            with pytest.raises(engine.ParamError, match=f"{name} has no path.*{having[0]}.*select_grid"):
                engine.path(name, rows, queries, 3)
    assert set(PATHS) < set(having)


@pytest.mark.parametrize(
    ("name", "params", "message"),
    [
        ("max_sum", {}, "swaps.*polish=False"),
        ("mmr", {"relevance_weight": 0.5}, r"relevance_weight is what the path runs over.*interval"),
        ("nnn", {"l1": 0.5}, "l1 is what the path runs over"),
        ("nnn", {"fill": "fill", "scale": "relative"}, 'scale="absolute", fill="strict"'),
        ("mmr", {"interval": (0.5, 0.2)}, "lowest"),
        ("mmr", {"interval": (0.5, 1.2)}, r"relevance_weight.*\[0, 1\]"),
        ("mmr", {"interval": 0.5}, "two numbers"),
        ("mmr", {"k": 0}, "k "),
        ("mmr", {"depth": 0}, "depth"),
        ("nothing", {}, "nothing"),
    ],
)
def test_path_with_bad_argument_raises_param_error(name, params, message):
    rows, queries = problem("random", 1, n=10, d=4)
    with pytest.raises(engine.ParamError, match=message):
        engine.path(name, rows, queries, **params)


def test_path_outside_interval_raises_error():
    rows, queries = problem("random", 1, n=10, d=4)
    path = engine.path("mmr", rows, queries, interval=(0.3, 0.3))[0]
    assert len(path) == 1 and path.at(0.3).index.shape == (1, 10)
    with pytest.raises(engine.ParamError, match=r"\[0.3, 0.3\]"):
        path.at(0.4)
    with pytest.raises(engine.ParamError, match="parameters already"):
        engine.path(engine.make("mmr"), rows, queries, window=2)
    with pytest.raises(engine.DataError, match="dimension"):
        engine.path("mmr", rows, queries[:, :3])


def test_another_scorers_numbers_have_paths_too():
    rows, queries = problem("random", 8, n=40, d=8, batch=1)
    relevance = torch.tensor(np.random.default_rng(1).standard_normal((1, 40))).float()
    vectors = torch.tensor(rows)
    c = Candidates(vectors, relevance, torch.tensor(queries), Matrix(vectors), inner_product=False)
    stage = engine.make("mmr")
    (lines,) = stage.lambda_path(c, 5, (0.0, 1.0))
    for value in np.linspace(0.01, 0.99, 37):
        piece = lines.piece(value)
        direct = engine.make("mmr", relevance_weight=value).select(c, 5)
        assert piece is not None and lines.picks[piece].tolist() == direct.index[0].tolist()


RIDGES = (0.0, 1e-4, 0.01, 0.1, 1.0)
KINDS = (np.float32, np.float64)
each_nasty = pytest.mark.parametrize("family", deepen(NASTY, QUIET_FAMILIES))


def build_candidates(rows, query, keep_gram=False):
    matrix = Matrix(torch.tensor(rows), cached=keep_gram)
    queries = torch.tensor(query).unsqueeze(0)
    return Candidates(matrix.vectors, queries @ matrix.vectors.T, queries, matrix)


def problems(family, seeds, **params):
    """(rows, query, best score) of queries whose best score is above 0."""
    for seed in seeds:
        rows, queries = nasty(family, seed, dtype=KINDS[seed % 2], **params)
        for query in queries:
            if (best := float(scores(rows, query).max())) > 0:
                yield rows, query, best


def problem_paths(family, seeds, ridges, lowest, **params):
    """(rows, query, best score, λ₂, path) of every such problem down to that share of the best score."""
    for rows, query, best in problems(family, seeds, **params):
        for l2 in ridges:
            yield rows, query, best, l2, regularization_path(build_candidates(rows, query), l2, lowest * best)


def dense_weights(path, l1, n):
    """(n,) the weights at a λ₁."""
    full = np.zeros(n)
    members, weights = path.at(l1)
    assert len(set(members.tolist())) == len(members) and (weights > 0).all() and (np.diff(weights) <= 0).all()
    full[members] = weights
    return full


def between_kinks(path, rows):
    """(λ₁, well) at every kink and thrice in between; well: the segment's system keeps half of float64's digits."""
    for t in range(len(path)):
        high, low = path.levels[t], path.levels[t + 1]
        member_rows = rows[path.members[path.segment(t)]].astype(np.float64)
        well = bool(np.linalg.cond(member_rows @ member_rows.T + path.l2 * np.eye(len(member_rows))) < 1e8)
        for share in (0.0, 0.01, 0.5, 0.99) if t + 1 < len(path) else (0.0, 0.5, 1.0):
            yield float(high + share * (low - high)), well


@seeds_of((5,), range(7))
@each_nasty
def test_weights_are_optimal_at_and_between_kinks(family, seeds):
    count = good = 0
    denser_paths = problem_paths(family, {5, 6} & set(seeds), RIDGES, 1e-4, n=90)
    for rows, query, best, l2, path in (*problem_paths(family, seeds, RIDGES, 1e-4), *denser_paths):
        assert path.finished and path.l2 == l2
        assert path.levels[0] == pytest.approx(best, rel=1e-12) and path.levels[-1] == 1e-4 * best
        assert (np.diff(path.levels) <= 0).all() and len(path.levels) == len(path) + 1
        worst = 0.0
        for l1, well in between_kinks(path, rows):
            full = dense_weights(path, l1, len(rows))
            off = violations(rows, query[None], full[None], l1, l2)[0]
            count, good, worst = count + 1, good + well, max(worst, off)
            assert off <= 1e-6 * best or not well, (l2, l1)
        # Linear in between: no point is worse than both its kinks, and the path knows its worst kink.
        assert worst <= path.residual + 1e-9 * best
    assert good > 0.9 * count or family == "near twins"
    assert good > 60 * len(seeds)


@seeds_of(range(1), range(6))
@each_nasty
def test_path_weights_equal_select_weights(family, seeds):
    compared = 0
    for rows, query, best, l2, path in problem_paths(family, seeds, (0.0, 1e-3, 0.1), 1e-3):
        grid = [{"l1": share * best, "l2": l2} for share in (1.0, 0.8, 0.3, 0.1, 0.02, 0.001)]
        for params, answer in zip(grid, engine.select_grid("nnn", rows, query, len(rows), grid=grid), strict=True):
            full = weights_of(answer, len(rows))[0]
            path_weights = dense_weights(path, params["l1"], len(rows))
            # Several rows of a kind may share a weight in more than one way where nothing spreads it.
            if l2 == 0 and sharp(rows, query, full, params["l1"]) < 1e-2:
                assert path_weights.sum() == pytest.approx(full.sum(), abs=1e-6 * (1 + full.sum()))
                continue
            compared += 1
            assert np.abs(path_weights - full).max() <= 1e-8 * (1 + full.max()), params
    assert compared > 10 * len(seeds)


@seeds_of(range(1), range(4))
@each_nasty
def test_between_kinks_the_support_stays(family, seeds):
    """Wherever a segment is wide enough to tell, its members are the documents that select gives a weight."""
    compared = 0
    for rows, query, best, _, path in problem_paths(family, seeds, (0.1,), 1e-3):
        wide = np.flatnonzero(-np.diff(path.levels) > 1e-6 * best)
        grid = [{"l1": float(path.levels[t : t + 2].mean()), "l2": 0.1} for t in wide]
        for t, answer in zip(wide, engine.select_grid("nnn", rows, query, len(rows), grid=grid), strict=True):
            chosen = answer.index[0, : answer.info[0]["support"]].tolist()
            assert sorted(path.members[path.segment(t)].tolist()) == sorted(chosen)
            assert path.sizes[t] == len(chosen)
            compared += 1
    assert compared > 2.5 * len(seeds)


@seeds_of(range(2), range(6))
@each_nasty
def test_the_certified_route_misses_no_row(family, seeds, monkeypatch):
    """Over a working set that begins too small, and must grow until nothing outside belongs to it."""
    grown = 0
    for rows, query, best, l2, expected in problem_paths(family, seeds, (0.0, 0.01, 0.3), 1e-3, n=90):
        with monkeypatch.context() as patch:
            for name, value in (("GRAM_ROWS", 0), ("PATH_START_ROWS", 2), ("N_PROBES", 1)):
                patch.setattr(f"engine.solvers.elastic_net.path.{name}", value)
            path = regularization_path(build_candidates(rows, query), l2, 1e-3 * best)
        assert path.finished and max(path.residual, expected.residual) <= 1e-8 * best
        grown += path.passes > 3
        for l1, well in between_kinks(path, rows):
            full = dense_weights(path, l1, len(rows))
            assert violations(rows, query[None], full[None], l1, l2)[0] <= 1e-6 * best or not well
            if l2 > 0:
                assert np.abs(full - dense_weights(expected, l1, len(rows))).max() <= 1e-7 * (1 + full.max())
    assert grown > len(seeds) // 2 or family == "flat", "the first working set had all rows already"


@pytest.mark.parametrize("rows_at_once", [0, 2048], ids=["rows", "gram"])
@pytest.mark.parametrize("family", ["twins", "near twins"])
def test_copies_that_enter_beside_each_other_keep_the_path_optimal(family, rows_at_once, monkeypatch):
    """At its kink a member's weight is 0, though p − λ₁ q of two large numbers is not: seeds where rounding showed."""
    monkeypatch.setattr("engine.solvers.elastic_net.path.GRAM_ROWS", rows_at_once)
    for _, _, best, _, path in problem_paths(family, (5, 12, 24, 68, 93), (0.0, 1e-4), 1e-4, n=90):
        assert path.finished and path.residual <= 1e-8 * best


def test_a_corpus_too_large_for_its_gram_matrix():
    rows, queries = nasty("cone", 1, n=3000, d=24, batch=2)
    for query in queries:
        best = float(scores(rows, query).max())
        path = regularization_path(build_candidates(rows, query), 0.05, 0.01 * best)
        assert path.finished and len(path) > 5
        for l1, _ in list(between_kinks(path, rows))[:: max(1, len(path) // 5)]:
            full = dense_weights(path, l1, len(rows))
            assert violations(rows, query[None], full[None], l1, 0.05)[0] <= 1e-6 * best


def test_path_accepts_a_pool_per_query():
    rows, queries = nasty("random", 2, n=60, d=8)
    pool_rows = np.sort(np.argsort(-scores(rows, queries[0]), kind="stable")[:25])
    c = build_candidates(rows, queries[0])
    pool = torch.tensor(pool_rows).unsqueeze(0)
    pooled = Candidates(c.vectors[pool], c.relevance.gather(1, pool), c.queries, c.matrix, True, pool)
    path = regularization_path(pooled, 0.1, 0.01)
    alone = regularization_path(build_candidates(rows[pool_rows], queries[0]), 0.1, 0.01)
    assert path.levels.tolist() == pytest.approx(alone.levels.tolist(), rel=1e-12)
    assert path.members.tolist() == alone.members.tolist() and path.p.tolist() == pytest.approx(alone.p.tolist())


def test_path_outside_its_levels_is_empty_or_last_segment():
    """Nothing from the best score on; below the lowest level, what the last segment becomes."""
    rows, queries = nasty("random", 1, n=30, d=10)
    query, best = queries[1], float(scores(rows, queries[1]).max())
    path = regularization_path(build_candidates(rows, query), 0.1, 0.2 * best)
    for l1 in (path.levels[0], 1.1 * best, 1e9):
        members, weights = path.at(l1)
        assert len(members) == len(weights) == 0
    last_segment = path.segment(len(path) - 1)
    members, weights = path.at(0.15 * best)
    expected = path.p[last_segment] - 0.15 * best * path.q[last_segment]
    assert sorted(weights.tolist()) == pytest.approx(sorted(expected[expected > 0].tolist()))
    assert set(members.tolist()) <= set(path.members[last_segment].tolist())


def test_without_a_score_above_zero_there_is_no_segment():
    query = np.array([1.0, 0.0])
    for rows in (np.array([[-1.0, 0.2], [-0.5, 0.1]]), np.zeros((3, 2))):
        path = regularization_path(build_candidates(rows, query), 0.1, 1e-3)
        assert len(path) == 0 and path.finished and path.residual == 0
        assert len(path.at(1e-3)[0]) == 0 and path.first_of(1)[1] == 0


@seeds_of(range(1), range(6))
@each_nasty
def test_first_of_returns_first_level_with_that_support_size(family, seeds):
    """(λ₁, size) such that select gives exactly `size` documents a weight there."""
    n_checked = 0
    for rows, query, best, l2, full in problem_paths(family, seeds, (0.0, 0.1), 1e-4):
        wide = -np.diff(full.levels) > 1e-9 * best
        for size in (1, 2, 3, 5, 8, len(rows) + 1):
            path = regularization_path(build_candidates(rows, query), l2, 1e-4 * best, size)
            l1, first_size = path.first_of(size)
            answer = engine.select("nnn", rows, query, k=1, l1=l1, l2=l2)
            assert answer.info[0]["support"] == first_size
            first = np.flatnonzero((full.sizes == size) & wide)
            if len(first) and not (full.sizes[: first[0]][wide[: first[0]]] > size).any():
                n_checked += 1
                assert first_size == size and full.levels[first[0]] >= l1 >= full.levels[first[0] + 1]
                assert len(path) <= first[0] + 1
    assert n_checked > 20 / 6 * len(seeds)


@each_nasty
def test_a_path_is_the_same_every_time(family):
    for rows, query, best in problems(family, range(3)):
        first, second = (
            regularization_path(build_candidates(rows, query, gram), 0.01, 1e-3 * best) for gram in (False, True)
        )
        for name in ("levels", "ends", "members", "p", "q"):
            assert np.array_equal(getattr(first, name), getattr(second, name))
