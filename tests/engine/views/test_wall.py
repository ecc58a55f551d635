"""The wall's packed sets against the engine's answers, and its limits."""

import base64

import numpy as np
import pytest

import engine
from engine.errors import DataError
from engine.evaluation.duplicate_threshold import resolve_duplicate_threshold
from engine.evaluation.studies.check_up import check_up
from engine.params import form_of, values_of
from engine.values import Embeddings
from engine.views import wall
from engine.views.topic import find_topic_floor
from engine.views.wall import EMPTY_CELL, TopicBounds, build_wall_requests, pack_redundancy
from support.sweeps import toy

K = 5


def crowded():
    """A space of 60 documents, half of them near-copies of the others, and 24 queries."""
    space, queries, _ = toy(batch=24)
    vectors = space.vectors.double().numpy()
    noise = np.random.default_rng(3).normal(size=vectors[::2].shape) * 0.05
    vectors[1::2] = vectors[::2] + noise
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return engine.Space.of([f"text {row}" for row in range(len(vectors))], vectors.astype(np.float32)), queries


def slider_of(name):
    """The first slider of a selector: (decoder, parameter)."""
    stage = engine.make(name)
    (param, *_) = [form_of(param, values_of(stage))[1] for param in stage.spec.params]
    return engine.Decoder(stage), param


def read_sets(requests):
    """Read the answers as a browser does: for each query, at each position, (cells, pairs, ILAD)."""
    read = []
    for request in requests:
        answer = request.answer()
        n_cells = request.k * (request.k - 1) // 2
        cells = np.frombuffer(base64.b64decode(answer["cells"]), np.uint8).reshape(-1, n_cells)
        starts = np.cumsum([0, *answer["counts"]])
        assert len(cells) == starts[-1] == len(answer["pairs"]) == len(answer["ilad"])
        for start, which in zip(starts[:-1], answer["which"], strict=True):
            read.append([(cells[start + i], answer["pairs"][start + i], answer["ilad"][start + i]) for i in which])
    return read


@pytest.mark.parametrize("name", ["mmr", "nnn", "threshold"])
def test_packed_sets_are_the_engines_at_random_positions(name, monkeypatch):
    # Several parts, so that their order is tested too.
    monkeypatch.setattr(wall, "MAX_PARTS", 7)
    monkeypatch.setattr(wall, "PART_WORK", 1)
    space, queries = crowded()
    decoder, param = slider_of(name)
    requests = build_wall_requests(space, decoder, param, queries, K)
    assert len(requests) == 6 and sum(len(request.queries) for request in requests) == len(queries)
    sets, stops = read_sets(requests), requests[0].stops
    unit = space.vectors.double().numpy()
    unit /= np.linalg.norm(unit, axis=1, keepdims=True)
    threshold, rng, n_pairs = resolve_duplicate_threshold(space), np.random.default_rng(7), 0
    for position in {0, len(stops) - 1, *rng.integers(len(stops), size=8).tolist()}:
        stage = engine.make(name, **{param.name: stops[position]})
        rows = engine.decode(engine.Decoder(stage), space, queries, K).index.numpy()
        for query_rows, along in zip(rows, sets, strict=True):
            cells, pairs, ilad = along[position]
            chosen = query_rows[query_rows >= 0]
            cosines = (unit[chosen] @ unit[chosen].T)[np.tril_indices(len(chosen), -1)]
            assert pairs == (cosines >= threshold).sum()
            assert np.abs(cells[: len(cosines)] / 254 - cosines.clip(0, 1)).max(initial=0) <= 1 / 254 + 1e-6
            assert (cells[len(cosines) :] == EMPTY_CELL).all()
            assert ilad is None if len(chosen) < 2 else ilad == pytest.approx(1 - cosines.mean(), abs=1e-4)
            n_pairs += pairs
    assert n_pairs > 0, "a corpus without near-duplicates would test nothing"


def test_at_pure_relevance_the_wall_is_the_check_up():
    space, queries = crowded()
    decoder, param = slider_of("mmr")
    requests = build_wall_requests(space, decoder, param, queries, K)
    assert requests[0].stops[-1] == 1 and len(requests[0].stops) == 101
    checked = check_up(engine.Decoder(engine.make("top_k")), space, queries, K)
    assert [along[-1][1] for along in read_sets(requests)] == checked.pairs.tolist()


def test_positions_are_sampled_and_then_documents_pooled_beyond_the_budget(monkeypatch):
    space, queries = crowded()
    decoder, param = slider_of("mmr")
    work = len(queries) * K * len(space)
    monkeypatch.setattr(wall, "MAX_WALL_WORK", 30 * work)
    (sampled, *_) = build_wall_requests(space, decoder, param, queries, K)
    assert len(sampled.stops) == 26 and sampled.stops[::25] == [0, 1] and sampled.decoder == decoder
    monkeypatch.setattr(wall, "MAX_WALL_WORK", 2 * work)
    (pooled, *_) = build_wall_requests(space, decoder, param, queries, K)
    assert len(pooled.stops) == 11 and pooled.decoder.depth == wall.POOL_SIZE
    monkeypatch.undo()
    monkeypatch.setattr(wall, "MAX_WALL_CELLS", 60 * len(queries) * K * (K - 1) // 2)
    assert len(build_wall_requests(space, decoder, param, queries, K)[0].stops) == 51


def test_costs_are_those_of_the_engines_sets_and_without_a_floor_unknown():
    (space, queries), k = crowded(), 3
    floors = [find_topic_floor(space, vector, k) for vector in queries.vectors]
    bounds = [TopicBounds(floor=floor, relevant=frozenset({i, i + 1})) for i, floor in enumerate(floors)]
    bounds[1] = TopicBounds(floor=None, relevant=frozenset())
    decoder, param = slider_of("mmr")
    (request,) = build_wall_requests(space, decoder, param, queries, k, bounds)
    answer, start, n_off = request.answer(), 0, 0
    stage = engine.make("mmr", **{param.name: request.stops[0]})
    rows = engine.decode(engine.Decoder(stage), space, queries, k).index.numpy()
    exact = queries.vectors.double().numpy() @ space.vectors.double().numpy().T
    for query, (n_sets, which) in enumerate(zip(answer["counts"], answer["which"], strict=True)):
        packed = {name: answer[name][start + which[0]] for name in ("found", "off", "strayed")}
        start, bound, chosen = start + n_sets, bounds[query], rows[query]
        is_right = np.isin(chosen, list(bound.relevant))
        off = None if bound.floor is None else ((exact[query, chosen] < bound.floor - 1e-6) & ~is_right).sum()
        strayed = bound.floor is not None and exact[query, chosen].mean() < bound.floor
        assert packed == {"found": is_right.sum(), "off": off, "strayed": int(strayed)}
        n_off += off or 0
    assert n_off > 0 and 0 < sum(answer["strayed"]) < len(answer["strayed"]), "nothing would be tested"


def test_a_request_keeps_no_corpus_alive():
    space, queries = crowded()
    (request, *_) = build_wall_requests(space, *slider_of("mmr"), queries, K)
    del space
    with pytest.raises(DataError, match="no longer in memory"):
        request.answer()


def test_cosines_are_bytes_in_the_order_of_the_sets():
    vectors = np.array([[1, 0], [1, 0], [0.5, 0.75**0.5], [-1, 0]], dtype=np.float32)
    space = engine.Space.of(list("abcd"), vectors)
    queries = Embeddings(("q", "r"), space.vectors[[0, 3]], space.embeddings.encoder)
    checked = check_up(engine.Decoder(engine.make("top_k")), space, queries, 3, threshold=0.9)
    packed = pack_redundancy(checked, [1, 0])
    assert list(base64.b64decode(packed["cells"])[3:]) == [254, 127, 127]
    assert packed["pairs"] == checked.pairs[[1, 0]].tolist() and packed["pairs"][1] == 1
    assert packed["ilad"][1] == pytest.approx(1 - 2 / 3, abs=1e-4)
