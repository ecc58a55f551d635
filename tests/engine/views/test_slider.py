"""Sliders: at every position, and between them where there is a path, what the browser reads is the engine's answer."""

import json
import tracemalloc

import numpy as np
import pytest
import torch

import engine
from engine.decoder import decode_grid, score_candidates
from engine.params import Real, Whole, form_of, values_of
from engine.progress import report_to
from engine.solvers.greedy import lambda_path
from engine.views import slider
from engine.views.decision import relevance
from engine.views.slider import (
    FINE_STEPS,
    PRECISION,
    has_slider,
    pack_ranking,
    pack_sets,
    requests,
    slider_answers,
    stops,
)
from support.draws import every_other
from support.instances import problem, unit
from support.packed import Packed, PackedPath

WAYS = {
    "nnn": ({}, {"scale": "relative"}, {"scale": "support"}, {"fill": "fill"}),
    "max_sum": ({}, {"polish": False}),
    "dpp": ({}, {"window": 3}),
}
"""Settings beside the defaults: they change a slider's form, or whether it has a path."""


def declared(stage, name):
    """The form of a stage's parameter."""
    return form_of(next(p for p in stage.spec.params if p.name == name), values_of(stage))[1]


def sliders():
    """(selector's name, its other parameters, the parameter) of every slider."""
    for name in engine.methods("selector"):
        for given in WAYS.get(name, ({},)):
            stage = engine.make(name, **given)
            moved = [p.name for p in stage.spec.params if has_slider(declared(stage, p.name))]
            yield from ((name, given, param) for param in moved if not given or param == stage.path_parameter)


SLIDERS = list(sliders())
WORDS = ("cat", "dog", "horse", "heron", "whale")


def space_of(rows):
    ids = [f"d{i}" for i in range(len(rows))]
    texts = [" ".join(WORDS[(i + j * j) % 5] for j in range(1 + i % 4)) for i in range(len(rows))]
    titles = [f"Title  {i}\n" if i % 3 == 0 else "" for i in range(len(rows))]
    return engine.Space(engine.Corpus(ids, texts, titles), engine.Embeddings(ids, rows), "cpu")


def answers_of(space, decoder, moved, query, k, given=None):
    """(what a browser gets, once through JSON; the stops) of a slider."""
    stage = decoder.select
    form = declared(stage, moved)
    exact = stage.no_path is None and moved == stage.path_parameter
    given = given or stops(form, getattr(stage, moved), exact)
    found = score_candidates(decoder, space, query)
    answers = slider_answers(stage, form, given, found, k)
    seen = relevance(stage, found)
    told = pack_sets(space, query.vectors[0], answers.pop("rankings"), ("d0", "d4", "elsewhere"), seen and seen.score)
    return PackedPath(json.loads(json.dumps({**answers, "stops": given, **told}, allow_nan=False))), exact


def at_values(decoder, moved, values):
    """The decoder at each value of a parameter."""
    stage = decoder.select
    settings = [type(stage)(**values_of(stage) | {moved: value}) for value in values]
    return [engine.Decoder(select, decoder.retrieve, decoder.rerank, decoder.depth) for select in settings]


def assert_the_engines(space, decoder, moved, query, k, rng):
    path, exact = answers_of(space, decoder, moved, query, k)
    direct = [r.rows() for r in decode_grid(at_values(decoder, moved, path.stops), space, query, k)]
    for value, rows in zip(path.stops, direct, strict=True):
        assert path.rows_at(value) == rows, value
    assert (path.data["ends"] is not None) == exact
    assert path.rows_at(path.stops[-1] + 1) is None and path.rows_at(path.stops[0] - 1) is None
    between = [(a + b) / 2 for a, b in zip(path.stops, path.stops[1:], strict=False)]
    chosen = [between[0], between[-1], *rng.choice(between, 12).tolist()]
    if not exact:
        is_path = moved == decoder.select.path_parameter and isinstance(declared(decoder.select, moved), Real)
        assert path.data["why"] == (decoder.select.no_path if is_path else "")
        assert all(path.rows_at(value) is None for value in chosen)
        return path
    ends = np.array([*path.data["ends"], path.stops[0], path.stops[-1]])
    chosen = [v for v in chosen if path.rows_at(v) is not None and np.abs(ends - v).min() > 1e-9]
    assert len(chosen) >= 10, "what lies between positions is known too"
    for setting, value in zip(at_values(decoder, moved, chosen), chosen, strict=True):
        # Which of two duplicates comes first between positions is not settled.
        one, other = (
            space.vectors[rows] for rows in (path.rows_at(value), engine.decode(setting, space, query, k).rows())
        )
        assert torch.equal(one, other), value
    return path


FAMILIES = ("random", "clustered", "duplicated")


@pytest.mark.parametrize(
    ("family", "name", "given", "moved"), every_other(FAMILIES, map(tuple, SLIDERS), step=4), ids=str
)
def test_every_position_is_the_engines_answer(name, given, moved, family):
    """Whole corpora, more documents asked for than there are, and pools."""
    rng = np.random.default_rng(1)
    stage = engine.make(name, **given)
    cases = ((30, 6, None), (7, 10, None), (24, 5, 12))
    # Without a path each position costs a solution.
    for n, k, depth in cases if stage.no_path is None and moved == stage.path_parameter else cases[1:]:
        rows, queries = problem(family, n, n=n, d=8, batch=1)
        space, query = space_of(rows), engine.Embeddings(["q"], queries)
        path = assert_the_engines(space, engine.Decoder(engine.make(name, **given), depth=depth), moved, query, k, rng)
        assert path.data["scores"] is None
        assert_figures(path, rows, queries[0])


@pytest.mark.parametrize("name", [name for name, spec in engine.methods("selector").items() if spec.params])
def test_another_scorers_words_decide_too(name):
    rows, queries = problem("clustered", 3, n=26, d=8, batch=1)
    space, query = space_of(rows), engine.Embeddings(["q"], queries, texts=["whale heron"])
    decoder = engine.Decoder(engine.make(name), engine.make("bm25"), depth=15)
    moved = decoder.select.path_parameter
    path = assert_the_engines(space, decoder, moved, query, 5, np.random.default_rng(2))
    seen = relevance(decoder.select, score_candidates(decoder, space, query))
    assert seen is not None and len(path.data["scores"]) == len(path.data["rows"])
    for row, score in zip(path.data["rows"], path.data["scores"], strict=True):
        own = float(seen.score[row])
        assert score is None if np.isnan(own) else score == pytest.approx(own, abs=1e-6)
    assert_figures(path, rows, queries[0])


def assert_figures(path, rows, query):
    """Cosines, relevance and names are those of the rows."""
    told, exact = path.data, rows.astype(np.float64)
    at = told["rows"]
    assert told["relevance"] == pytest.approx(exact[at] @ query.astype(np.float64), abs=2e-6)
    directions = unit(exact)
    for pair, cosine in path.near.items():
        one, other = (at[i] for i in pair)
        assert 0 <= directions[one] @ directions[other] - cosine + 1e-12 < 1.001 / PRECISION
    assert [told["names"][at.index(row)] for row in at if row % 3 == 0] == [f"Title {r}" for r in at if r % 3 == 0]
    assert [at[i] for i in told["right"]] == [row for row in at if row in (0, 4)]
    pairs = {frozenset((a, b)) for ids in told["sets"] for a in ids for b in ids if a != b}
    assert set(path.near) == pairs and sorted(at) == at == sorted({at[i] for ids in told["sets"] for i in ids})
    assert len({tuple(ids) for ids in told["sets"]}) == len(told["sets"]), "each ranking once"


def test_a_slider_is_a_number_that_people_look_for():
    assert {(name, moved) for name, _, moved in SLIDERS} >= {("mmr", "relevance_weight"), ("nnn", "l1"), ("nnn", "l2")}
    shown = {(name, p.name) for name, spec in engine.methods("selector").items() for p in spec.params if has_slider(p)}
    assert not shown & {("mmr", "window"), ("nnn", "iterations"), ("nnn", "solver"), ("max_sum", "polish")}


def test_positions_are_round_and_hold_what_is_set():
    weight, penalty, size = (declared(engine.make(n, **g), p) for n, g, p in (
        ("mmr", {}, "relevance_weight"), ("nnn", {}, "l1"), ("nnn", {"scale": "support"}, "l1")))  # fmt: skip
    fine = stops(weight, 0.8, True)
    assert fine == [i / FINE_STEPS for i in range(FINE_STEPS + 1)] and stops(weight, 0.8, False) == fine[::10]
    ratios = stops(penalty, 0.1, True)
    assert ratios[:2] == [0, 0.001] and ratios[-1] == 1 and len(ratios) == 61 and ratios == sorted(ratios)
    assert stops(penalty, 2.5, True) == [*ratios, 2.5], "what was set beyond the comfortable range is there"
    assert stops(size, 10, False) == list(range(1, 51))
    assert stops(size, 80, False)[-1] == 80 and isinstance(weight, Real) and isinstance(size, Whole)
    wide = stops(Real(2.0, "x", -10.0, 10.0, comfortable=(-1.0, 1.0)), 3.0, False)
    assert wide[0] == -1 and wide[-1] == 3 and len(wide) == 101 and wide[25] == 0


def test_below_a_path_of_ratios_nothing_is_known_but_zero():
    """λ₁ = 0 is a position, and the path begins at the next: what lies between is neither's."""
    rows, queries = problem("clustered", 5, n=30, d=8, batch=1)
    space, query = space_of(rows), engine.Embeddings(["q"], queries)
    decoder = engine.Decoder(engine.make("nnn"))
    path, _ = answers_of(space, decoder, "l1", query, 6)
    assert path.data["start"] == 0.001 and path.rows_at(0.0005) is None and 0 in path.separate
    (zero,) = at_values(decoder, "l1", [0.0])
    assert path.rows_at(0) == engine.decode(zero, space, query, 6).rows()


def test_close_to_nine_tenths_a_pair_is_on_the_same_side_here_and_there():
    angle = np.arccos(0.9)
    rows = np.array([[np.cos(a), np.sin(a)] for a in (0, angle - 1e-13, angle + 1e-13, 1.5)])
    told = Packed(pack_sets(space_of(rows), torch.tensor([1.0, 0]), np.array([[0, 1, 2, -1], [3, 0, -1, -1]])))
    cosines = {tuple(sorted(pair)): cosine for pair, cosine in told.near.items()}
    assert cosines[0, 1] == 0.9 and cosines[0, 2] == 0.89999 and len(cosines) == 4
    assert (told.rows(0), told.rows(1)) == ([0, 1, 2], [3, 0])


@pytest.mark.deep
def test_large_sets_are_packed_in_the_memory_of_their_documents():
    """All pairs of all sets would take a hundred times as much, several times over."""
    rng = np.random.default_rng(3)
    space = space_of(rng.normal(size=(300, 8)))
    rankings = np.stack([rng.permutation(300)[:150] for _ in range(200)])
    pack_sets(space, torch.ones(8, dtype=torch.float64), rankings[:2])
    tracemalloc.start()
    told = pack_sets(space, torch.ones(8, dtype=torch.float64), rankings)
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak_bytes < 20e6 < 8 * 2 * 200 * 150 * 149 / 2
    assert Packed(told).rows(199) == rankings[199].tolist()


def test_cosines_of_too_many_documents_are_left_out_with_a_sentence(monkeypatch):
    space, rankings = space_of(np.eye(5)), np.array([[0, 1], [2, 3]])
    query = torch.ones(5, dtype=torch.float64)
    monkeypatch.setattr(slider, "MAX_COSINE_BYTES", 8 * 4**2)
    told = pack_sets(space, query, rankings)
    assert len(told["near"]) == 2 and told["unmeasured"] == ""
    monkeypatch.setattr(slider, "MAX_COSINE_BYTES", 8 * 4**2 - 1)
    told = pack_sets(space, query, rankings)
    assert told["near"] is None and told["unmeasured"].startswith("The sets have 4 documents, too many to compare")
    assert told["sets"] == [[0, 1], [2, 3]] and len(told["relevance"]) == 4


@pytest.mark.parametrize(("name", "k", "seconds", "n_stops"), [
    ("mmr", 50, 9.0, 1001), ("mmr", 90, None, 101), ("mmr", 90, 0.3, 51), ("mmr", 90, 9.0, 5), ("mmr", 400, None, 16),
    ("frank_wolfe", 90, None, 101), ("frank_wolfe", 400, 0.0, 16),
])  # fmt: skip
def test_a_slider_of_large_sets_is_sampled_at_fewer_settings(name, k, seconds, n_stops):
    space, query = space_of(np.eye(400)[:, :8] + 0.1), engine.Embeddings(["q"], np.ones((1, 8)))
    decoder = engine.Decoder(engine.make(name))
    (request,) = requests(space, decoder, declared(decoder.select, "relevance_weight"), query, k, None, seconds)
    assert len(request.stops) == n_stops and (request.stops[0], request.stops[-1]) == (0, 1)
    assert bool(request.sampled) == (name == "mmr" and n_stops < 1001)


def test_a_sampled_slider_has_the_engines_answers_at_its_settings_and_says_why(monkeypatch):
    rows, queries = problem("clustered", 5, n=30, d=8, batch=1)
    space, query = space_of(rows), engine.Embeddings(["q"], queries)
    monkeypatch.setattr(slider, "MAX_PAIRS", 15 * 7)
    monkeypatch.setattr(slider, "MAX_CALL_WORK", 1)  # a call for each setting
    decoder = engine.Decoder(engine.make("mmr"))
    (request,) = requests(space, decoder, declared(decoder.select, "relevance_weight"), query, 6)
    path = PackedPath(request.answer())
    assert len(path.stops) == 7 and path.data["ends"] is None
    assert path.data["why"] == "every value, with k 6 of 30 documents, would take too long"
    for value in path.stops:
        (stage,) = at_values(decoder, "relevance_weight", [value])
        assert path.rows_at(value) == engine.decode(stage, space, query, 6).rows()


class StopAfter:
    """Stop that is set from the nth look at it on."""

    def __init__(self, n_looks):
        self.n_looks = n_looks

    def is_set(self):
        self.n_looks -= 1
        return self.n_looks <= 0


@pytest.mark.parametrize("n_looks", [1, 3])
@pytest.mark.parametrize("name", [name for name, spec in engine.methods("selector").items() if spec.params])
def test_a_slider_is_stopped_between_its_pieces(name, n_looks, monkeypatch):
    monkeypatch.setattr(slider, "MAX_CALL_WORK", 1)
    monkeypatch.setattr(lambda_path, "MAX_CALL_WORK", 1)
    rows, queries = problem("random", 4, n=40, d=8, batch=1)
    space, query = space_of(rows), engine.Embeddings(["q"], queries)
    decoder = engine.Decoder(engine.make(name))
    param = declared(decoder.select, decoder.select.path_parameter)
    (request,) = requests(space, decoder, param, query, 6)
    with pytest.raises(engine.errors.Cancelled), report_to(stop=StopAfter(n_looks)):
        request.answer()


def test_sets_of_one_and_of_none():
    space, query = space_of(np.eye(3)), torch.tensor([1.0, 0, 0], dtype=torch.float64)
    told = Packed(pack_sets(space, query, np.array([[-1, -1], [2, -1], [-1, -1]])))
    assert [told.rows(i) for i in range(3)] == [[], [2], []] and not told.near and told.diversity(1) is None
    empty = pack_sets(space, query, np.array([[-1, -1]]))
    assert empty["rows"] == empty["names"] == empty["near"] == [] and empty["sets"] == [[]]
    ranking = engine.Ranking(torch.tensor([[1, 0]]), torch.zeros(1, 2), ({},))
    one = Packed(pack_ranking(space, query, ranking, relevant={"d1"}))
    assert one.rows() == [1, 0] and one.count_relevant() == 1 and one.diversity() == pytest.approx(1, abs=2e-5)


def test_names_are_short_lines_of_legal_text():
    texts = ("a " * 200, "hello \ud83d\n world", "")
    corpus = engine.Corpus(("a", "b", "c"), texts)
    space = engine.Space(corpus, engine.Embeddings(corpus.ids, np.eye(3)), "cpu")
    names = pack_sets(space, torch.eye(3, dtype=torch.float64)[0], np.array([[0, 1, 2]]))["names"]
    assert (
        80 < len(names[0]) <= 90
        and names[0] == names[0][:-1].rstrip() + "…"
        and names[1:] == ["hello \\ud83d world", "c"]
    )


def test_a_name_that_is_cut_has_a_tooltip():
    corpus = engine.Corpus(("a", "b"), ("word " * 30, "short"))
    space = engine.Space(corpus, engine.Embeddings(corpus.ids, np.eye(2)), "cpu")
    packed = pack_sets(space, torch.eye(2, dtype=torch.float64)[0], np.array([[0, 1]]))
    assert packed["names"][0].endswith("…") and packed["tooltips"] == {0: "word " * 29 + "word"}
