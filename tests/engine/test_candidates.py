"""Scales of relevance, against float64 by hand; selectors, paths and decoders on them."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
import torch

import engine
from engine.candidates import Candidates, defer, get_corpus_rows, scale_relevance
from engine.decoder import score_candidates, select_from
from engine.matrix import Matrix, products
from engine.stages import TradeOffSelector
from support.bm25_cases import make_cases
from support.instances import problem, unit
from support.rankings import space_of

TRADE_OFFS = [name for name, spec in engine.methods("selector").items() if issubclass(spec.cls, TradeOffSelector)]
SCALES = ("raw", "minmax", "rank")


def scale_by_hand(values, scale):
    values = [float(value) for value in values]
    if scale == "raw":
        return values
    if scale == "minmax":
        low, high = min(values), max(values)
        return [(value - low) / (high - low) if high > low else 0.0 for value in values]
    return [1 - sum(other > value for other in values) / max(len(values) - 1, 1) for value in values]


def test_deferred_relevance_is_computed_once_and_when_first_read():
    calls, matrix = [], Matrix(torch.eye(2))

    def compute():
        calls.append(1)
        return torch.tensor([[0.5, 1.0]])

    c = Candidates(matrix.vectors, defer(compute), torch.ones(1, 2), matrix)
    assert (c.batch, c.count, calls) == (1, 2, [])
    assert c.relevance.tolist() == [[0.5, 1.0]] and c.relevance is c.relevance and calls == [1]
    assert replace(c, inner_product=False).relevance is c.relevance and calls == [1]
    with pytest.raises(AttributeError, match="'Candidates' object has no attribute 'scores'"):
        _ = c.scores


def make_candidates(seed, relevance=None, kind="clustered", n=30):
    rows, queries = problem(kind, seed, n=n, d=6, batch=3, dtype=np.float32)
    matrix, points = Matrix(torch.from_numpy(rows)), torch.from_numpy(queries)
    if relevance is None:
        return Candidates(matrix.vectors, products(matrix.vectors, points), points, matrix)
    scores = torch.from_numpy(np.asarray(relevance, dtype=np.float32))
    return Candidates(matrix.vectors, scores, points, matrix, inner_product=False, similarity_scale=False)


def greedy_mmr_by_hand(rows, relevance, weight, k):
    """Row positions by the formula, in float64."""
    rows, picks = rows.astype(np.float64), []
    for _ in range(k):
        gains = {
            i: weight * r - (1 - weight) * (max(rows[i] @ rows[j] for j in picks) if picks else 0)
            for i, r in enumerate(relevance)
            if i not in picks
        }
        picks.append(max(gains, key=lambda i: (gains[i], -i)))
    return picks


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("kind", ["clustered", "duplicated"])
def test_scaled_relevance_is_that_by_hand(scale, kind):
    for seed in range(3):
        candidates = make_candidates(seed, kind=kind)
        exact = candidates.vectors.double() @ candidates.queries.double().T
        scaled = scale_relevance(candidates, scale)
        for b in range(candidates.batch):
            expected = scale_by_hand(exact[:, b].tolist(), scale)
            np.testing.assert_allclose(scaled.relevance[b].double(), expected, rtol=0, atol=2e-6)
    scores = np.array([[3.0, 8.0, 8.0, -1.0], [5.0, 5.0, 5.0, 5.0], [0.0, 1e-30, 2e5, 7.0]])
    scaled = scale_relevance(make_candidates(0, scores, n=4), scale)
    for row, expected in zip(scaled.relevance.double().tolist(), scores, strict=True):
        np.testing.assert_allclose(row, scale_by_hand(expected, scale), rtol=1e-6)


def test_auto_is_raw_for_inner_products_and_minmax_for_other_scores():
    of_vectors, of_words = make_candidates(1), make_candidates(1, np.arange(90).reshape(3, 30))
    assert scale_relevance(of_vectors, "auto") is of_vectors and scale_relevance(of_words, "raw") is of_words
    scaled = scale_relevance(of_words, "auto")
    assert torch.equal(scaled.relevance, scale_relevance(of_words, "minmax").relevance)
    assert torch.equal(scale_relevance(scaled, "minmax").relevance, scaled.relevance)
    declared = {name: spec.cls.similarity_scale for name, spec in engine.methods("scorer").items()}
    assert [name for name, similar in declared.items() if similar] == ["dense", "max_sim", "truncated"]


@pytest.mark.parametrize("name", TRADE_OFFS)
def test_a_scale_is_the_selection_from_scaled_relevance(name):
    scores = np.random.default_rng(2).gamma(1.0, 8.0, (3, 30))
    for candidates in (make_candidates(2), make_candidates(2, scores)):
        stages = [engine.make(name, relevance_weight=w, relevance_scale=s) for w in (0.3, 0.8) for s in SCALES]
        rankings = type(stages[0]).select_grid(stages, candidates, 5)
        for stage, ranking in zip(stages, rankings, strict=True):
            plain = engine.make(name, relevance_weight=stage.relevance_weight, relevance_scale="raw")
            expected = plain.select(scale_relevance(candidates, stage.relevance_scale), 5)
            assert torch.equal(ranking.index, expected.index) and torch.equal(ranking.gain, expected.gain)
            assert torch.equal(stage.select(candidates, 5).index, expected.index)


@pytest.mark.parametrize("name", TRADE_OFFS)
def test_dense_answers_are_the_same_by_auto_and_by_raw(name):
    rows, queries = problem("clustered", 5, n=60, d=8)
    auto, raw = (engine.select(name, rows, queries, 6, relevance_scale=scale) for scale in ("auto", "raw"))
    assert torch.equal(auto.index, raw.index) and torch.equal(auto.gain, raw.gain) and auto.info == raw.info


def make_text_space(seed=3):
    texts, queries = make_cases(seed)
    rng = np.random.default_rng(seed)
    space = space_of(unit(rng.standard_normal((len(texts), 6))), texts)
    points = torch.from_numpy(unit(rng.standard_normal((len(queries), 6))))
    return space, engine.Embeddings(tuple(map(str, range(len(queries)))), points, texts=tuple(queries))


def test_mmr_behind_bm25_is_the_formula_over_the_matching_documents():
    space, queries = make_text_space()
    scores = engine.make("bm25").score(space, engine.decoder.query_batch(space, queries)).double().numpy()
    for scale in SCALES:
        for weight in (1.0, 0.6, 0.2):
            stage = engine.make("mmr", relevance_weight=weight, relevance_scale=scale)
            answer = engine.decode(engine.Decoder(stage, engine.make("bm25")), space, queries, k=4)
            for b, row in enumerate(scores):
                matching = np.flatnonzero(row > 0)
                relevance = scale_by_hand(row[matching], scale) if len(matching) else []
                vectors = space.vectors.numpy()[matching]
                picks = greedy_mmr_by_hand(vectors, relevance, weight, min(4, len(matching)))
                assert answer.rows(b) == matching[picks].tolist(), (scale, weight, b)


@pytest.mark.parametrize("weight", [1.0, 0.7, 0.4])
@pytest.mark.parametrize("combination", ["linear", "rrf"])
def test_hybrid_relevance_spans_its_union_alone(weight, combination):
    space, queries = make_text_space()
    batch, hybrid = engine.decoder.query_batch(space, queries), engine.make("hybrid", union=3, combination=combination)
    scores, in_union = hybrid.score(space, batch).double(), hybrid.find_scale_basis(space, batch)
    assert not in_union.all(1).any() and (in_union.sum(1) >= 3).all()
    for scale, chain in product(("minmax", "rank"), ({"retrieve": hybrid}, {"rerank": hybrid, "depth": len(space)})):
        stage = engine.make("mmr", relevance_weight=weight, relevance_scale=scale)
        answer = engine.decode(engine.Decoder(stage, **chain), space, queries, k=4)
        for b, row in enumerate(scores):
            union = row[in_union[b]]
            relevance = (row - union.min()) / (union.max() - union.min() or 1)
            if scale == "rank":
                n_larger = (row > row[:, None]).sum(1).double()
                relevance = 1 - n_larger / (len(union) - 1)
            assert relevance[in_union[b]].min() >= 0 > relevance[~in_union[b]].max()
            picks = greedy_mmr_by_hand(space.vectors.numpy(), relevance.tolist(), weight, 4)
            assert answer.rows(b) == picks, (scale, b)
    # In a pool without a document of the union all candidates span the scale.
    outside = score_candidates(engine.Decoder(stage, hybrid), space, queries.take([0])).candidates
    outside = replace(outside, scale_basis=torch.zeros_like(outside.scale_basis))
    assert scale_relevance(outside, "minmax").relevance.aminmax() == (0, 1)


@pytest.mark.parametrize("name", ["mmr", "dpp", "ssd", "facility_location"])
@pytest.mark.parametrize("scale", ["auto", "minmax", "rank"])
def test_paths_are_the_selections_at_every_weight(name, scale):
    space, queries = make_text_space()
    decoder = engine.Decoder(engine.make(name, relevance_scale=scale), engine.make("bm25"))
    scored = score_candidates(decoder, space, queries.take([0]))
    (path,) = decoder.select.lambda_path(scored.candidates, 3, (0.0, 1.0))
    values = [(low + high) / 2 for low, high in zip([0.0, *path.ends[:-1]], path.ends, strict=True)]
    for value in values:
        stage = engine.make(name, relevance_weight=value, relevance_scale=scale)
        piece = path.piece(value)
        if piece is not None:
            rows = get_corpus_rows(scored.candidates)[0].numpy()[path.picks[piece]]
            assert rows.tolist() == select_from(stage, scored, 3).rows()
    assert len(values) > 1


def test_the_weight_moves_sets_behind_scores_of_another_size():
    space, queries = make_text_space()

    def sets(scale):
        stages = [engine.make("mmr", relevance_weight=w, relevance_scale=scale) for w in (1.0, 0.5)]
        answers = [engine.decode(engine.Decoder(stage, engine.make("bm25")), space, queries, k=5) for stage in stages]
        return int((answers[0].index.sort(1).values != answers[1].index.sort(1).values).any(1).sum())

    assert sets("auto") > sets("raw")
