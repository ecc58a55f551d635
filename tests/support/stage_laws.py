"""The laws of selectors and scorers as classes: inherit one, name the method, and pytest collects its laws.

@pytest.mark.parametrize("name", ["mine"])
class TestMine(SelectorLaws):
    "mine is registered when its module is imported."
"""

import sys
from contextlib import contextmanager
from functools import cache

import numpy as np
import pytest
import torch

import engine
from engine.decoder import query_batch
from support.draws import deepen
from support.instances import FAMILIES, problem
from support.random_texts import corpus_of

each_family = pytest.mark.parametrize("family", deepen(FAMILIES, ["random", "duplicated"]))
ROUNDED_GAINS = ("top_k", "mmr", "dpp", "ssd", "nnn")
"""Selectors whose gains may have the vectors' precision, if float64 was not needed to decide."""


def settings(name):
    """List the defaults, and each parameter at the ends and the middle of its comfortable range."""
    return [{}] + [with_value(p, value) for p in engine.methods()[name].params for value in p.grid(3)]


def typical(name):
    """List the defaults, and each parameter at one other value, from the middle of its range if it can be.

    None, which means the full corpus and the like, is left out.
    """
    changed = []
    for p in engine.methods()[name].params:
        values = [value for value in p.grid(3) if value is not None]
        other_values = [value for value in (*values[1:], *values) if value != p.default]
        changed.append(with_value(p, other_values[0]))
    return [{}, *changed]


def with_value(param, value):
    """Return the parameters at which a value of this one counts."""
    return dict([*filter(None, [param.requires]), (param.name, value)])


@contextmanager
def threads(count):
    """Use `count` threads of torch inside."""
    previous_count = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(previous_count)


def picks(answer, b=0):
    """Return the documents of query b, without padding."""
    return [i for i in answer.index[b].tolist() if i >= 0]


def most_relevant(rows, query, count):
    """(count,) ascending rows with the largest float64 inner products, the lower of equals."""
    relevance = (rows.astype(np.float64) * query.astype(np.float64)).sum(1)
    return np.sort(np.argsort(-relevance, kind="stable")[:count])


class SelectorLaws:
    """Laws of every selector; `name` is that of a registered one."""

    @each_family
    def test_distinct_valid_positions_padded_with_minus_one(self, name, family):
        for number, params in enumerate(settings(name)):
            rows, queries = problem(family, number % 2)
            for k in (1, 5, len(rows) + 3):
                answer = engine.select(name, rows, queries, k=k, **params)
                assert answer.index.shape == answer.gain.shape == (len(queries), k)
                assert answer.index.dtype == torch.int64 and len(answer.info) == len(queries)
                assert torch.isfinite(answer.gain).all()
                for b in range(len(queries)):
                    chosen = picks(answer, b)
                    assert len(set(chosen)) == len(chosen) <= min(k, len(rows))
                    assert all(0 <= i < len(rows) for i in chosen)
                    assert answer.index[b].tolist() == chosen + [-1] * (k - len(chosen))
                    assert (answer.gain[b, len(chosen) :] == 0).all()

    def test_batch_equals_one_at_a_time(self, name):
        rows, queries = problem("clustered", 1, n=80, d=12, batch=4)
        for params in settings(name):
            together = engine.select(name, rows, queries, k=7, **params)
            for b, query in enumerate(queries):
                assert torch.equal(engine.select(name, rows, query, k=7, **params).index[0], together.index[b])

    def test_permuting_the_corpus_permutes_the_answer(self, name):
        rows, queries = problem("random", 2, n=50, d=9)
        order = np.random.default_rng(0).permutation(len(rows))
        for params in settings(name):
            expected = engine.select(name, rows, queries, k=8, **params).index
            permuted = engine.select(name, rows[order], queries, k=8, **params).index.numpy()
            assert np.where(permuted >= 0, order[permuted], -1).tolist() == expected.tolist()

    def test_rotating_the_space_changes_nothing(self, name):
        rows, queries = problem("random", 3, n=50, d=9, dtype=np.float64)
        turn = np.linalg.qr(np.random.default_rng(1).standard_normal((9, 9)))[0]
        for params in settings(name):
            expected = engine.select(name, rows, queries, k=8, **params)
            turned = engine.select(name, rows @ turn, queries @ turn, k=8, **params)
            assert torch.equal(expected.index, turned.index)
            assert torch.allclose(expected.gain, turned.gain, atol=1e-9)

    def test_inputs_stay_as_they_were_and_answers_repeat(self, name):
        rows, queries = (torch.tensor(x) for x in problem("clustered", 4, n=60, d=10))
        copies = rows.clone(), queries.clone()
        for params in settings(name):
            first = engine.select(name, rows, queries, k=9, **params)
            again = engine.select(name, rows, queries, k=9, **params)
            assert torch.equal(first.index, again.index) and torch.equal(first.gain, again.gain)
        assert torch.equal(rows, copies[0]) and torch.equal(queries, copies[1])

    def test_a_pool_of_everything_is_no_pool(self, name):
        rows, queries = problem("clustered", 5, n=40, d=8)
        unpooled = engine.select(name, rows, queries, k=6)
        assert torch.equal(engine.select(name, rows, queries, k=6, pool=40).index, unpooled.index)
        assert torch.equal(engine.select(name, rows, queries, k=6, pool=4000).index, unpooled.index)

    def test_a_pool_is_the_method_on_the_most_relevant(self, name):
        for seed in range(2):
            rows, queries = problem("clustered" if seed % 2 else "random", seed, n=50, d=8)
            for params in typical(name):
                for pool in (9, 19):
                    pooled = engine.select(name, rows, queries, k=6, pool=pool, **params)
                    for b, query in enumerate(queries):
                        pool_rows = most_relevant(rows, query, pool)
                        expected = engine.select(name, rows[pool_rows], query, k=6, **params)
                        assert picks(pooled, b) == pool_rows[picks(expected)].tolist()
                        assert pooled.info[b].get("candidates", pool) == pool

    @each_family
    def test_nested_answers_begin_with_those_for_a_smaller_k(self, name, family):
        """Check k ≥ 2 for selectors that declare it; sweeps rely on it."""
        if not engine.methods("selector")[name].cls.nested:
            pytest.skip(f"{name} chooses anew for every k")
        for number, params in enumerate(settings(name)):
            # Half of the settings on few rows, half on many; which ones differs between the families.
            seed = (number + len(family)) % 2
            rows, queries = problem(family, seed, n=(11, 200)[seed], d=6)
            for pool in (None, 9):
                large = engine.select(name, rows, queries, k=8, pool=pool, **params)
                k = 2 + (seed + (pool is None)) % 2
                small = engine.select(name, rows, queries, k=k, pool=pool, **params)
                assert torch.equal(small.index, large.index[:, :k])
                assert torch.allclose(small.gain, large.gain[:, :k], atol=1e-5)

    def test_first_pick_is_the_most_relevant(self, name):
        if name == "nnn":
            pytest.skip("its support may leave the most relevant document out (METHODS, common rules)")
        for family in ("random", "clustered"):
            rows, queries = problem(family, 6, n=40, d=8)
            best = engine.select("top_k", rows, queries, k=1).index
            for params in settings(name):
                assert torch.equal(engine.select(name, rows, queries, k=1, **params).index, best)

    def test_shapes_and_types_as_they_come(self, name):
        rows, queries = problem("clustered", 2, n=60, d=10)
        expected = engine.select(name, rows, queries, k=7).index
        wide = np.zeros((60, 20), dtype=np.float32)
        wide[:, ::2] = rows
        strided = torch.tensor(wide)[:, ::2]
        assert not strided.is_contiguous()
        assert torch.equal(engine.select(name, strided, queries, k=7).index, expected)
        assert torch.equal(engine.select(name, np.asfortranarray(rows), queries[1], k=7).index[0], expected[1])
        turned = np.ascontiguousarray(rows[::-1, ::-1])[::-1, ::-1]
        assert turned.strides[0] < 0 and torch.equal(engine.select(name, turned, queries, k=7).index, expected)
        half = rows.astype(np.float16)
        exact = engine.select(name, half.astype(float), queries, k=7).index
        assert torch.equal(engine.select(name, half, queries, k=7).index, exact)
        assert engine.select(name, rows[:1], queries, k=3).index.tolist() == [[0, -1, -1]] * 3

    def test_thread_count_and_block_size_change_nothing(self, name, monkeypatch):
        rows, queries = problem("clustered", 1, n=300, d=24, batch=6)
        for params in typical(name):
            answers = []
            for count in (1, 2):
                with threads(count):
                    answers.append(engine.select(name, rows, queries, k=20, **params))
            with monkeypatch.context() as patch:
                patch.setattr("engine.decoder.MAX_BLOCK_SCORES", 700)
                for module in [m for name_, m in sys.modules.items() if name_.startswith("engine.")]:
                    if hasattr(module, "CHUNK_NUMBERS"):
                        patch.setattr(module, "CHUNK_NUMBERS", 500)
                answers.append(engine.select(name, rows, queries, k=20, **params))
            for answer in answers[1:]:
                assert torch.equal(answers[0].index, answer.index)
                atol = 1e-6 if name in ROUNDED_GAINS else 0.0
                assert torch.allclose(answers[0].gain, answer.gain, rtol=0, atol=atol)

    @pytest.mark.gpu
    @pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
    @each_family
    def test_cuda_equals_cpu(self, name, family):
        for seed in range(8):
            rows, queries = problem(family, seed, n=5000 if seed % 2 else 200, d=32, batch=8)
            for params in typical(name):
                on_cpu = engine.select(name, rows, queries, k=12, **params)
                on_gpu = engine.select(name, torch.tensor(rows).cuda(), torch.tensor(queries).cuda(), k=12, **params)
                assert on_gpu.index.is_cuda and torch.equal(on_cpu.index, on_gpu.index.cpu())


WORDS = ["array", "sort", "sum", "mean", "axis", "shape", "dtype", "order", "index", "where"]


@cache
def word_space(seed, n=24, order=None, longest=14):
    """Make (space, three queries) of embedded words; order: of the documents."""
    rng = np.random.default_rng(seed)
    texts = [" ".join(rng.choice(WORDS, size=size)) for size in rng.integers(1, longest, size=n)]
    order = list(range(n)) if order is None else list(order)
    documents = corpus_of([f"{text} only{i}" for i, text in enumerate(texts)])
    corpus = engine.Corpus(tuple(documents.ids[i] for i in order), tuple(documents.texts[i] for i in order))
    # In float32, where a vector depends on its batch by no more than the last bits.
    space = engine.Space(corpus, engine.embed(documents, dtype="float32").take(order))
    return space, query_batch(space, ["sort sort", "mean axis only3", "sum shape of nothing"])


def stages(name, scorer_options):
    """Make the stage at all its settings; scorer_options: parameters that scorers require, by name."""
    return [engine.make(name, **{**params, **scorer_options.get(name, {})}) for params in settings(name)]


class ScorerLaws:
    """Laws of every scorer; `name` is that of a registered one."""

    def test_scores_of_some_rows_are_those_of_all(self, name, scorer_options):
        space, batch = word_space(8)
        rows = torch.tensor([[1, 5, 19], [0, 2, 3], [7, 8, 9]], device=space.device)
        for stage in stages(name, scorer_options):
            scores = stage.score(space, batch)
            assert scores.shape == (3, 24) and torch.isfinite(scores).all()
            assert torch.allclose(stage.score(space, batch, rows), scores.gather(1, rows), atol=1e-5)

    def test_some_documents_alone_are_scored_as_among_all_unless_it_says_so(self, name, scorer_options):
        space, batch = word_space(8)
        chosen_rows = [1, 5, 7, 9, 19]
        corpus = engine.Corpus(
            tuple(space.corpus.ids[i] for i in chosen_rows), tuple(space.corpus.texts[i] for i in chosen_rows)
        )
        alone = engine.Space(corpus, space.embeddings.take(chosen_rows))
        for stage in stages(name, scorer_options):
            scores_among_all, alone_scores = stage.score(space, batch)[:, chosen_rows], stage.score(alone, batch)
            assert torch.allclose(scores_among_all, alone_scores, atol=1e-5) != stage.corpus_wide, stage.label

    def test_scores_of_one_query_are_those_in_a_batch_and_repeat(self, name, scorer_options):
        space, batch = word_space(9)
        copies = space.vectors.clone(), batch.vectors.clone()
        for stage in stages(name, scorer_options):
            scores = stage.score(space, batch)
            assert torch.equal(stage.score(space, batch), scores)
            for b in range(3):
                assert torch.allclose(stage.score(space, batch.block(b, b + 1))[0], scores[b], atol=1e-5)
        assert torch.equal(space.vectors, copies[0]) and torch.equal(batch.vectors, copies[1])

    def test_permuting_the_corpus_permutes_the_scores(self, name, scorer_options):
        order = np.random.default_rng(0).permutation(24)
        (space, batch), (permuted, _) = word_space(10), word_space(10, order=tuple(order))
        for stage in stages(name, scorer_options):
            expected = stage.score(space, batch)[:, torch.tensor(order)]
            assert torch.allclose(stage.score(permuted, batch), expected, atol=1e-5)

    def test_a_scorer_that_needs_words_says_so(self, name, scorer_options):
        space, batch = word_space(11)
        stage = stages(name, scorer_options)[0]
        decoder = engine.Decoder(engine.make("top_k"), stage)
        vectors = engine.Embeddings(batch.ids, batch.vectors.cpu())
        if stage.words:
            with pytest.raises(engine.DataError, match="reads the queries' words"):
                engine.decode(decoder, space, vectors)
            vectors = engine.Embeddings(batch.ids, batch.vectors.cpu(), texts=batch.texts)
        assert engine.decode(decoder, space, vectors, k=3).index.shape == (3, 3)
