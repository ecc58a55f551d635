"""Curves of a selector: which settings lie on one."""

from dataclasses import replace

import pytest

import engine
from support.sweeps import toy


@pytest.mark.parametrize("window", [None, 3])
def test_curve_has_settings_that_differ_in_its_parameter_alone(window):
    space, queries, qrels = toy()
    curve = engine.exact_frontier("mmr", space, queries, qrels, 4, window=window, resamples=100)
    for weight in (0.0, 0.37, 1.0):
        decoder = engine.Decoder(engine.make("mmr", relevance_weight=weight, window=window))
        assert curve.has(decoder) and curve.make_decoder(weight) == decoder
        assert not curve.has(engine.Decoder(engine.make("mmr", relevance_weight=weight, window=2)))
        assert not curve.has(engine.Decoder(engine.make("dpp", relevance_weight=weight)))
        others = [{"depth": 5}, {"without_self": False}, {"per_source": 1, "source": "url"}]
        assert not any(curve.has(replace(decoder, **fields)) for fields in others)
        assert not curve.has(replace(decoder, retrieve=engine.make("bm25")))
    assert not curve.has(engine.Decoder(engine.make("top_k")))
