"""The laws: true of every registered stage, whoever adds it."""

import json

import pytest

import engine
from engine.params import parse_values, values_of
from support.instances import problem
from support.parameters import invalid_values
from support.stage_laws import ScorerLaws, SelectorLaws, with_value, word_space

PARAMS = [(spec, p) for spec in engine.methods().values() for p in spec.params]
each_param = pytest.mark.parametrize("spec,param", PARAMS, ids=lambda x: x.name)


@pytest.mark.parametrize("name", engine.methods("selector"))
class TestSelectors(SelectorLaws):
    """Every registered selector."""


@pytest.mark.parametrize("name", engine.methods("scorer"))
class TestScorers(ScorerLaws):
    """Every registered scorer."""


@each_param
def test_every_parameter_has_an_effect_somewhere(spec, param):
    if {"model", "endpoint"} & {p.name for p in spec.params}:
        pytest.skip("what a model's parameters do is in its own tests")
    for seed in range(10):
        if spec.kind == "scorer":
            space, batch = word_space(seed, n=15, longest=110)
            stages = [engine.make(spec.name, **with_value(param, v)) for v in param.grid(5)]
            answers = {str(stage.score(space, batch)) for stage in stages}
        else:
            rows, queries = problem("clustered", seed, n=30, d=5, batch=4)
            rankings = [engine.select(spec.name, rows, queries, k=6, **with_value(param, v)) for v in param.grid(5)]
            answers = {str(answer.index) for answer in rankings}
        if len(answers) > 1:
            return
    pytest.fail(f"{spec.name}: {param.name} never changes an answer")


@each_param
def test_outside_the_domain_is_refused_by_name(spec, param):
    for bad in invalid_values(param):
        with pytest.raises(engine.ParamError) as refused:
            engine.make(spec.name, **{param.name: bad})
        message = str(refused.value)
        assert param.name in message and param.symbol in message and repr(bad) in message and param.domain in message


@each_param
def test_text_and_json_round_trip(spec, param):
    for value in (*param.grid(7), param.default):
        stage = engine.make(spec.name, **{param.name: value})
        text = param.text(getattr(stage, param.name))
        assert engine.make(spec.name, **parse_values(spec.params, {param.name: text}, spec.name)) == stage
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


@pytest.mark.parametrize("name", ["MMR", " mmr", "Max-Sum", "max sum", "BM25"])
def test_name_is_found_whatever_its_capitals_and_separators(name):
    assert engine.make(name).spec.name in {"mmr", "max_sum", "bm25"}
    assert engine.make(name) == engine.make(engine.make(name).spec.name)


@pytest.mark.parametrize(
    "ask,suggestion",
    [
        (lambda: engine.make("mmrr"), "no method is called 'mmrr'; did you mean 'mmr'"),
        (lambda: engine.make("topk"), "did you mean 'top_k'"),
        (lambda: engine.make("mmr", relevance_wieght=0.5), "no parameter relevance_wieght; did you mean 'relevance_w"),
        (lambda: engine.make("zzzz"), "no method is called 'zzzz'; there are"),
        (lambda: engine.mesure, "no attribute 'mesure'; did you mean 'measure'"),
    ],
)
def test_nearest_name_is_suggested_for_a_misspelt_one(ask, suggestion):
    with pytest.raises((engine.ParamError, AttributeError), match=suggestion):
        ask()
