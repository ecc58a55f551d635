import numpy as np
import pytest

import engine
from engine import DataError, ParamError
from engine.identification.monitor import check_expectation
from support.identified_runs import decode_run, fetch_pool, list_langchain, make_world, name_lists


@pytest.fixture(scope="module")
def world():
    return make_world()


def make_decoder(weight=0.7, depth=20):
    return engine.Decoder(engine.make("mmr", relevance_weight=weight), depth=depth)


@pytest.mark.parametrize(
    "weight, depth, lost, is_met, words",
    [
        (0.7, 20, 0.0, True, "explains 100%"),
        (0.3, 20, 0.0, False, "λ has changed: 0.700 was expected"),
        (0.7, 60, 0.0, False, "The pool has changed: 20 was expected"),
        (0.7, 20, 0.1, False, "The index loses documents"),
    ],
)
def test_what_has_changed_is_named(world, weight, depth, lost, is_met, words):
    is_indexed = np.random.default_rng(3).random(300) >= lost
    run = name_lists(*world, list_langchain(*world, weight, depth, k=8, is_indexed=is_indexed))
    expectation = check_expectation(run, *world, make_decoder())
    assert expectation.is_met is is_met
    assert words in " ".join(expectation.sentences), expectation.sentences


def test_other_systems_are_neither_losses_nor_another_weight(world):
    rng, rows = np.random.default_rng(0), world[0].vectors.numpy()
    lists = [rng.permutation(fetch_pool(rows, query, 20))[:5] for query in world[1].vectors[:40].numpy()]
    expectation = check_expectation(name_lists(*world, lists), *world, make_decoder())
    assert expectation.is_met is False and "vectors have changed" in expectation.sentences[1]


@pytest.mark.parametrize("n_lists, k, opening", [(3, 5, "3 lists cannot tell"), (40, 1, "Lists of one document")])
def test_too_little_data_is_not_judged(world, n_lists, k, opening):
    run = decode_run(*world, make_decoder(), k=k, n_lists=n_lists)
    expectation = check_expectation(run, *world, make_decoder())
    assert expectation.is_met is None and expectation.sentences[0].startswith(opening)


def test_decoders_that_no_list_shows_are_refused(world):
    run = decode_run(*world, make_decoder())
    with pytest.raises(ParamError, match="must select by a weight of relevance"):
        check_expectation(run, *world, engine.Decoder(engine.make("nnn")))
    with pytest.raises(DataError, match="vectors alone"):
        check_expectation(run, *world, engine.Decoder(engine.make("mmr"), engine.make("bm25")))
