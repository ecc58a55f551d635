"""Rankings at every λ: what the selector itself gives, at random λ and on both sides of every breakpoint."""

import numpy as np
import pytest
import torch

import engine
from engine.candidates import Candidates
from engine.matrix import Matrix
from engine.solvers.greedy import lambda_path
from engine.stages import Selector, methods
from support.instances import FAMILIES, few_or_all, problem

PATHS = {
    "mmr": ({}, {"window": 3}),
    "dpp": ({}, {"window": 3}),
    "ssd": ({}, {"window": 3}),
    "max_sum": ({"polish": False},),
    "facility_location": ({}, {"ground_set": 20}),
}
BESIDE = (0.0, 1e-15, -1e-15, 1e-13, -1e-13, 1e-10, -1e-10)


def orthonormal_rows(rng, n, d):
    """Unit vectors of the axes, each several times: nearly every comparison is an exact tie."""
    return np.eye(d)[rng.integers(d, size=n)]


def flat_rows(rng, n, d):
    """Rows of all lengths in a space of three dimensions."""
    return rng.standard_normal((n, 3)) @ rng.standard_normal((3, d))


EVERY = {**FAMILIES, "orthonormal": orthonormal_rows, "flat": flat_rows}
each_method = pytest.mark.parametrize("name", PATHS)
each_family = pytest.mark.parametrize("family", EVERY)


def instance(family, seed, **given):
    if family in FAMILIES:
        return problem(family, seed, **given)
    rng = np.random.default_rng(seed)
    rows = EVERY[family](rng, given["n"], given["d"])
    noise = rng.standard_normal((given["batch"], given["d"]))
    queries, dtype = rows[rng.integers(len(rows), size=len(noise))] + 0.3 * noise, given.get("dtype", np.float32)
    return rows.astype(dtype), queries.astype(dtype)


def looked_at(path, rng, count, most=None):
    """λ: random ones, both ends, and on both sides of all breakpoints, or of the `most` that chance picks."""
    low, high, breakpoints = path.parameter.low, path.parameter.high, path.breakpoints
    if most is not None:
        breakpoints = rng.choice(breakpoints, min(most, len(breakpoints)), replace=False)
    beside = [breakpoints + step for step in BESIDE]
    beside += [np.nextafter(breakpoints, end) for end in (-np.inf, np.inf)]
    return np.concatenate([low + (high - low) * rng.random(count), [low, high], *beside]).clip(low, high)


def agrees(name, path, rows, query, values, **given):
    """How many of the values were read from lines, having checked that path and selector agree at all of them."""
    grid = [{**given, path.parameter.name: value} for value in values.tolist()]
    depth = path.candidates.count if path.candidates.pool is not None else None
    directly, read = engine.select_grid(name, rows, query, k=path.k, grid=grid, pool=depth), 0
    for value, direct in zip(values, directly, strict=True):
        found = path.at(value)
        assert torch.equal(found.index, direct.index), (name, value, given)
        assert torch.allclose(found.gain, direct.gain, rtol=1e-10, atol=1e-10), (name, value, given)
        read += path.lines.piece(value) is not None
    return read


@few_or_all(range(1), range(4))
@each_family
@each_method
def test_the_path_is_the_selector_at_every_weight(name, family, seeds):
    for seed in seeds:
        rng = np.random.default_rng(seed)
        for k, n, dtype in ((1, 30, np.float32), (4, 3, np.float32), (7, 60, np.float64), (20, 50, np.float32)):
            rows, queries = instance(family, seed, n=n, d=8, batch=1, dtype=dtype)
            for given in PATHS[name]:
                for depth in (None, 25):
                    (path,) = engine.path(name, rows, queries, k, depth=depth, **given)
                    assert (np.diff(path.breakpoints) > 0).all() and len(path) == len(path.breakpoints) + 1
                    most = 3 if len(seeds) == 1 else None
                    agrees(name, path, rows, queries[0], looked_at(path, rng, 10, most), **given)


@pytest.mark.exhaustive
@each_family
@each_method
def test_thousands_of_random_weights(name, family):
    rng = np.random.default_rng(0)
    # A call of facility_location takes a hundred times longer than the others'.
    for k, n in ((10, 600), (50, 300)):
        rows, queries = instance(family, 1, n=n, d=24, batch=1)
        for given in PATHS[name]:
            (path,) = engine.path(name, rows, queries, k, **given)
            agrees(name, path, rows, queries[0], looked_at(path, rng, 5_000, 100), **given)


@each_method
def test_most_weights_are_read_from_lines(name):
    rows, queries = problem("clustered", 2, n=400, d=16)
    for query, path in zip(queries, engine.path(name, rows, queries, **PATHS[name][0]), strict=True):
        values = np.linspace(0, 1, 101)
        assert agrees(name, path, rows, query, values, **PATHS[name][0]) >= 99
        assert 5 < len(path) < 500 and path.gains.shape == (len(path), 2, 10)
        middle = (path.breakpoints[2] + path.breakpoints[3]) / 2
        found, (a, b) = path.at(middle), path.gains[3]
        assert found.index[0].tolist() == path.rankings[3].tolist()
        assert found.gain[0].numpy() == pytest.approx(middle * a + (1 - middle) * b, abs=1e-12)


@each_method
def test_large_corpora_hold_the_rows_of_their_picks(name, monkeypatch):
    """The same path as from all inner products, though room is made for a few rows first."""
    rows, queries = problem("clustered", 3, n=500, d=24, batch=2)
    for given in PATHS[name]:
        for interval in ((0.0, 1.0), (0.6, 0.9)):
            kept = engine.path(name, rows, queries, interval=interval, **given)
            with monkeypatch.context() as small:
                small.setattr(lambda_path, "GRAM_ROWS", 0)
                small.setattr(lambda_path, "corpus_gram", lambda c: None)
                small.setattr(lambda_path, "HELD", 2)
                small.setattr(lambda_path, "GUESSED", 20)
                held = engine.path(name, rows, queries, interval=interval, **given)
            for one, other in zip(kept, held, strict=True):
                assert (one.lines.ends == other.lines.ends).all() and (one.lines.picks == other.lines.picks).all()
                assert (one.lines.gains == other.lines.gains).all()


@each_method
def test_where_some_weights_alone_are_asked_for_they_have_the_answers_of_the_whole_path(name):
    rows, queries = problem("clustered", 3, n=300, d=16, batch=1)
    for given in PATHS[name]:
        path = engine.path(name, rows, queries, **given)[0]
        stage = engine.make(name, **given)
        marks = sorted({0.0, 1.0, *path.breakpoints[1:4].tolist(), *np.linspace(0.2, 0.7, 11).tolist()})
        (part,) = stage.lambda_path(path.candidates, path.k, (0.0, 1.0), marks)
        assert len(part.ends) < len(path)
        for mark in marks:
            whole, own = (lines.piece(mark) for lines in (path.lines, part))
            assert (own is None) == (whole is None)
            if own is not None:
                assert (part.picks[own] == path.lines.picks[whole]).all()
                assert (part.gains[own] == path.lines.gains[whole]).all()


def test_thousands_of_rows():
    rng = np.random.default_rng(4)
    rows, queries = problem("clustered", 4, n=3000, d=16, batch=1)
    for name, (given, *_) in PATHS.items():
        (path,) = engine.path(name, rows, queries, interval=(0.3, 0.9), **given)
        agrees(name, path, rows, queries[0], looked_at(path, rng, 5, 3), **given)


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
    asked = engine.Embeddings(["a", "b", "c"], queries)
    for depth in (None, 30):
        paths = engine.path(engine.make("mmr", window=2), space, asked, 5, depth=depth)
        for value in (0.0, 0.31, 0.7, 1.0):
            decoder = engine.Decoder(engine.make("mmr", relevance_weight=value, window=2), depth=depth)
            direct = engine.decode(decoder, space, asked, 5)
            assert [path.at(value).index[0].tolist() for path in paths] == direct.index.tolist()


def test_a_window_of_everything_is_no_window():
    rows, queries = problem("random", 7, n=90, d=12, batch=1)
    whole, wide = (engine.path("ssd", rows, queries, 6, window=window)[0] for window in (None, 6))
    assert (whole.lines.ends == wide.lines.ends).all() and (whole.lines.picks == wide.lines.picks).all()


@few_or_all(range(2), range(12))
def test_nnn_has_a_path_over_l1(seeds):
    for seed in seeds:
        rng = np.random.default_rng(seed)
        for family in ("random", "clustered"):
            rows, queries = problem(family, seed, n=70, d=12, batch=2)
            for l2, interval, depth in ((0.1, (0, 1), None), (0.5, (0.05, 0.4), 30), (0.1, (0.3, 3), None)):
                paths = engine.path("nnn", rows, queries, 6, interval, depth, l2=l2)
                for query, path in zip(queries, paths, strict=True):
                    assert agrees("nnn", path, rows, query, looked_at(path, rng, 20, 4), l2=l2) >= 20


def test_who_has_a_path_is_read_from_the_hook():
    rows, queries = problem("random", 1, n=10, d=4)
    having = [name for name, spec in methods("selector").items() if spec.cls.lambda_path is not Selector.lambda_path]
    for name in methods("selector"):
        given = {"polish": False} if name == "max_sum" else {}
        if name in having:
            assert len(engine.path(name, rows, queries, 3, interval=(0.2, 0.8), **given)) == 3
        else:
            with pytest.raises(engine.ParamError, match=f"{name} has no path.*{having[0]}.*select_grid"):
                engine.path(name, rows, queries, 3)
    assert set(PATHS) < set(having)


@pytest.mark.parametrize(
    ("name", "given", "message"),
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
def test_what_cannot_be_is_refused_in_words(name, given, message):
    rows, queries = problem("random", 1, n=10, d=4)
    with pytest.raises(engine.ParamError, match=message):
        engine.path(name, rows, queries, **given)


def test_outside_the_interval_nothing_is_known():
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
