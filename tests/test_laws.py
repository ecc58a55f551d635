"""The laws: true of every registered stage, whoever adds it."""

import json

import numpy as np
import pytest
import torch
from instances import problem

import engine
from engine.decoder import query_batch
from engine.params import parsed, values_of
from engine.values import Corpus, Embeddings

SELECTORS = engine.methods("selector")
SCORERS = engine.methods("scorer")
PARAMS = [(spec, p) for spec in engine.methods().values() for p in spec.params]
each_selector = pytest.mark.parametrize("name", SELECTORS)
each_scorer = pytest.mark.parametrize("name", SCORERS)
each_param = pytest.mark.parametrize("spec,param", PARAMS, ids=lambda x: x.name)


def settings(name):
    """The defaults, and each parameter at the ends and the middle of its comfortable range."""
    spec = engine.methods()[name]
    return [{}] + [with_value(p, value) for p in spec.params for value in p.grid(3)]


def with_value(param, value):
    """The parameters at which a value of this one counts."""
    return dict([*filter(None, [param.needs]), (param.name, value)])


def picks(answer, b=0):
    return [i for i in answer.index[b].tolist() if i >= 0]


@each_selector
@pytest.mark.parametrize("family", ["random", "clustered", "duplicated", "degenerate"])
def test_distinct_valid_positions_padded_with_minus_one(name, family):
    for seed in range(6):
        rows, queries = problem(family, seed)
        for params in settings(name):
            for k in (1, 5, len(rows) + 3):
                answer = engine.select(name, rows, queries, k=k, **params)
                assert answer.index.shape == answer.gain.shape == (len(queries), k)
                assert answer.index.dtype == torch.int64 and len(answer.info) == len(queries)
                assert torch.isfinite(answer.gain).all()
                for b in range(len(queries)):
                    found = picks(answer, b)
                    assert len(set(found)) == len(found) <= min(k, len(rows))
                    assert all(0 <= i < len(rows) for i in found)
                    assert answer.index[b].tolist() == found + [-1] * (k - len(found))
                    assert (answer.gain[b, len(found) :] == 0).all()


@each_selector
def test_batch_equals_one_at_a_time(name):
    rows, queries = problem("clustered", 1, n=80, d=12, batch=9)
    for params in settings(name):
        together = engine.select(name, rows, queries, k=7, **params)
        for b, query in enumerate(queries):
            assert torch.equal(engine.select(name, rows, query, k=7, **params).index[0], together.index[b])


@each_selector
def test_permuting_the_corpus_permutes_the_answer(name):
    rows, queries = problem("random", 2, n=50, d=9)
    order = np.random.default_rng(0).permutation(len(rows))
    for params in settings(name):
        here = engine.select(name, rows, queries, k=8, **params).index
        there = engine.select(name, rows[order], queries, k=8, **params).index
        back = np.where(there.numpy() >= 0, order[there.numpy()], -1)
        assert back.tolist() == here.tolist()


@each_selector
def test_rotating_the_space_changes_nothing(name):
    rows, queries = problem("random", 3, n=50, d=9, dtype=np.float64)
    turn = np.linalg.qr(np.random.default_rng(1).standard_normal((9, 9)))[0]
    for params in settings(name):
        here = engine.select(name, rows, queries, k=8, **params)
        there = engine.select(name, rows @ turn, queries @ turn, k=8, **params)
        assert torch.equal(here.index, there.index)
        assert torch.allclose(here.gain, there.gain, atol=1e-9)


@each_selector
def test_inputs_stay_as_they_were_and_answers_repeat(name):
    rows, queries = (torch.tensor(x) for x in problem("clustered", 4, n=60, d=10))
    before = rows.clone(), queries.clone()
    for params in settings(name):
        first = engine.select(name, rows, queries, k=9, **params)
        again = engine.select(name, rows, queries, k=9, **params)
        assert torch.equal(first.index, again.index) and torch.equal(first.gain, again.gain)
    assert torch.equal(rows, before[0]) and torch.equal(queries, before[1])


@each_selector
def test_a_pool_of_everything_is_no_pool(name):
    rows, queries = problem("clustered", 5, n=40, d=8)
    whole = engine.select(name, rows, queries, k=6)
    assert torch.equal(engine.select(name, rows, queries, k=6, pool=40).index, whole.index)
    assert torch.equal(engine.select(name, rows, queries, k=6, pool=4000).index, whole.index)


@each_selector
@pytest.mark.parametrize("family", ["random", "clustered", "duplicated", "degenerate"])
def test_nested_answers_begin_with_those_for_a_smaller_k(name, family):
    """From k = 2 on, where a selector says so; sweeps rely on it."""
    if not SELECTORS[name].cls.nested:
        pytest.skip(f"{name} chooses anew for every k")
    for seed, n in enumerate((11, 30, 200)):
        rows, queries = problem(family, seed, n=n, d=6)
        for params in settings(name):
            for pool in (None, 9):
                large = engine.select(name, rows, queries, k=8, pool=pool, **params)
                for k in (2, 3):
                    small = engine.select(name, rows, queries, k=k, pool=pool, **params)
                    assert torch.equal(small.index, large.index[:, :k])
                    assert torch.allclose(small.gain, large.gain[:, :k], atol=1e-5)


@each_selector
def test_first_pick_is_the_most_relevant(name):
    if name == "nnn":
        pytest.skip("its support may leave the most relevant document out (METHODS, common rules)")
    for family in ("random", "clustered"):
        rows, queries = problem(family, 6, n=40, d=8)
        best = engine.select("top_k", rows, queries, k=1).index
        for params in settings(name):
            assert torch.equal(engine.select(name, rows, queries, k=1, **params).index, best)


WORDS = ["array", "sort", "sum", "mean", "axis", "shape", "dtype", "order", "index", "where"]


def searched(seed, n=24, order=None, longest=14):
    """(space, three queries): embedded words; order: of the documents."""
    rng = np.random.default_rng(seed)
    texts = [" ".join(rng.choice(WORDS, size=size)) for size in rng.integers(1, longest, size=n)]
    order = list(range(n)) if order is None else list(order)
    plain = Corpus(tuple(f"d{i}" for i in range(n)), tuple(f"{text} only{i}" for i, text in enumerate(texts)))
    corpus = Corpus(tuple(plain.ids[i] for i in order), tuple(plain.texts[i] for i in order))
    # In float32, where a vector depends on its batch by no more than the last bits.
    space = engine.Space(corpus, engine.embed(plain, dtype="float32").take(order))
    return space, query_batch(space, ["sort sort", "mean axis only3", "sum shape of nothing"])


def made(name, params, given):
    return engine.make(name, **{**params, **given.get(name, {})})


@each_scorer
def test_scores_of_some_rows_are_those_of_all(name, given):
    space, batch = searched(8)
    rows = torch.tensor([[1, 5, 19], [0, 2, 3], [7, 8, 9]], device=space.device)
    for params in settings(name):
        stage = made(name, params, given)
        scores = stage.score(space, batch)
        assert scores.shape == (3, 24) and torch.isfinite(scores).all()
        assert torch.allclose(stage.score(space, batch, rows), scores.gather(1, rows), atol=1e-5)


@each_scorer
def test_scores_of_one_query_are_those_in_a_batch_and_repeat(name, given):
    space, batch = searched(9)
    before = space.vectors.clone(), batch.vectors.clone()
    for params in settings(name):
        stage = made(name, params, given)
        scores = stage.score(space, batch)
        assert torch.equal(stage.score(space, batch), scores)
        for b in range(3):
            assert torch.allclose(stage.score(space, batch.block(b, b + 1))[0], scores[b], atol=1e-5)
    assert torch.equal(space.vectors, before[0]) and torch.equal(batch.vectors, before[1])


@each_scorer
def test_permuting_the_corpus_permutes_the_scores(name, given):
    order = np.random.default_rng(0).permutation(24)
    (here, batch), (there, _) = searched(10), searched(10, order=order)
    for params in settings(name):
        stage = made(name, params, given)
        assert torch.allclose(stage.score(there, batch), stage.score(here, batch)[:, torch.tensor(order)], atol=1e-5)


@each_scorer
def test_a_scorer_that_needs_words_says_so(name, given):
    space, batch = searched(11)
    decoder = engine.Decoder(engine.make("top_k"), made(name, {}, given))
    vectors = Embeddings(batch.vectors.cpu(), batch.ids)
    if engine.make(name).words:
        with pytest.raises(engine.DataError, match="words"):
            engine.decode(decoder, space, vectors)
        vectors = Embeddings(batch.vectors.cpu(), batch.ids, texts=batch.texts)
    assert engine.decode(decoder, space, vectors, k=3).index.shape == (3, 3)


@each_param
def test_every_parameter_has_an_effect_somewhere(spec, param):
    if any(p.name == "model" for p in spec.params):
        pytest.skip("what a model's parameters do is in its own tests")
    for seed in range(10):
        if spec.kind == "scorer":
            space, batch = searched(seed, n=24, longest=110)
            stages = [engine.make(spec.name, **with_value(param, v)) for v in param.grid(5)]
            answers = {str(stage.score(space, batch)) for stage in stages}
        else:
            rows, queries = problem("clustered", seed, n=30, d=5, batch=4)
            found = [engine.select(spec.name, rows, queries, k=6, **with_value(param, v)) for v in param.grid(5)]
            answers = {str(answer.index) for answer in found}
        if len(answers) > 1:
            return
    pytest.fail(f"{spec.name}: {param.name} never changes an answer")


@each_param
def test_outside_the_domain_is_refused_by_name(spec, param):
    for bad in param.outside():
        with pytest.raises(engine.ParamError) as refused:
            engine.make(spec.name, **{param.name: bad})
        message = str(refused.value)
        assert param.name in message and param.symbol in message and repr(bad) in message and param.domain in message


@each_param
def test_text_and_json_round_trip(spec, param):
    for value in (*param.grid(7), param.default):
        stage = engine.make(spec.name, **{param.name: value})
        text = param.text(getattr(stage, param.name))
        assert engine.make(spec.name, **parsed(spec.params, {param.name: text}, spec.name)) == stage
        assert engine.make(**json.loads(json.dumps(stage.as_json()))) == stage
        assert json.loads(json.dumps(values_of(stage))) == values_of(stage)


@pytest.mark.parametrize("name", engine.methods())
def test_a_method_says_what_it_is(name):
    spec = engine.methods()[name]
    assert spec.name == name and spec.title and spec.paper and spec.equation and spec.cost
    assert spec.summary.endswith(".")
    module = __import__(spec.cls.__module__, fromlist=["_"])
    assert module.__doc__.startswith(f"{name}: ")
    assert all(p.help and p.symbol for p in spec.params)
    stage = engine.make(name)
    assert stage == engine.make(name) and hash(stage) == hash(engine.make(name)) and stage.label.startswith(name)
