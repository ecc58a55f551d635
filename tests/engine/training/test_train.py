"""Training on a planted set: it learns, repeats itself, says what happens, and ends when it should."""

from dataclasses import replace
from itertools import count

import pytest
import torch

import engine
from engine.errors import ParamError
from engine.training.dataset import gather_samples
from engine.training.loop import fit
from engine.training.metrics import Losses
from engine.training.recipes import RECIPES, make_recipe
from engine.training.train import prepare_run
from support.training import NNN, PROJECTED, QUICK, SMALL, asked, comparable, quality


def test_sums_of_turned_atoms_are_learnt(data):
    """Queries that are sums of three documents, turned: an adapter can turn them back."""
    result = engine.train("nnn", *data, **{**NNN, "epochs": 8})
    before, after = result.history[0].dev, result.best.dev
    assert before.comp5 < 0.1 and after.comp5 > before.comp5 + 0.35 and after.recall5 > before.recall5 + 0.3
    plain = engine.train("dense", *data, **{**QUICK, "epochs": 8})
    assert plain.best.dev.comp5 > plain.history[0].dev.comp5 + 0.1


def quick(method):
    return {"nnn": NNN, "dense": QUICK, "colt": {"epochs": 2, "batch": 64}}.get(method, PROJECTED)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("method", list(RECIPES))
def test_cuda_learns_as_the_cpu_does(method, data):
    space, queries, qrels = data
    here, there = (
        engine.train(method, engine.Space(space.corpus, space.embeddings, device), queries, qrels, **quick(method))
        for device in ("cpu", "cuda")
    )
    assert there.space.vectors.is_cuda
    for one, two in zip(here.history, there.history, strict=True):
        assert one.loss is None or two.loss == pytest.approx(one.loss, rel=1e-3)
        assert two.dev.recall5 == pytest.approx(one.dev.recall5, abs=0.02)


@pytest.mark.parametrize("method", list(RECIPES))
def test_same_seed_same_history_and_no_global_randomness(method, data):
    results = []
    for elsewhere, seed in enumerate((1, 1, 2)):
        torch.manual_seed(elsewhere)
        state = torch.get_rng_state()
        results.append(engine.train(method, *data, seed=seed, **quick(method)))
        assert torch.get_rng_state().equal(state)
    one, two, other = results
    assert comparable(one.history) == comparable(two.history) and one.digest == two.digest
    assert comparable(one.history) != comparable(other.history)


# History


def test_history_says_what_the_decoder_does(data):
    """With steps of size 0 an epoch sees the embeddings as they are: exact weights say what it must have counted."""
    space, _, qrels = data
    still = {**NNN, "l1": 0.65, "query_rate": 0.0, "corpus_rate": 0.0, "epochs": 1, "weight_decay": 0.0}
    result = engine.train("nnn", *data, **still)
    learnt = asked(data, "train")
    ranking = engine.decode(engine.Decoder(engine.make("nnn", l1=0.65, l2=0.1)), result.space, learnt, 80)
    sizes = ranking.returned.numpy()
    relevant = [{space.corpus.position[doc] for doc in qrels["train"].relevant(query)} for query in learnt.ids]
    missed = sum(len(own - set(row.tolist())) for own, row in zip(relevant, ranking.index, strict=True))
    epoch = result.history[1]
    assert epoch.support == pytest.approx(sizes.mean()) and epoch.empty == pytest.approx((sizes == 0).mean())
    assert (sizes == 0).sum() > 5 and (sizes == 1).sum() > 5 and (sizes > 1).sum() > 5
    assert epoch.outside == pytest.approx(missed / (3 * 320)) and 0 < epoch.outside < 1
    assert epoch.satisfied == 0 and epoch.loss > 0 and epoch.dev == result.history[0].dev
    assert result.run.best == -1, "no gain, so the start is the best"


def test_history_measures_dev_as_measure_does(data, trained):
    dev = asked(data)
    ranking = engine.decode(trained.recipe.decoder(), trained.space, dev, 5)
    for k in (3, 5):
        result = engine.measure(ranking, trained.space, dev, data[2]["dev"], k, ("comp", "recall"))
        for name in ("comp", "recall"):
            column = result.values[name]
            assert getattr(trained.best.dev, f"{name}{k}") == pytest.approx(column.mean())
            assert getattr(trained.best.dev, f"{name}{k}_se") == pytest.approx(column.std(ddof=1) / 10)
    assert [e.epoch for e in trained.history] == [-1, 0, 1, 2] and trained.history[0].loss is None
    assert trained.best.dev.comp5 == max(e.dev.comp5 for e in trained.history)


def test_patience_counts_epochs_without_a_strict_gain(data):
    still = {**NNN, "query_rate": 0.0, "corpus_rate": 0.0, "epochs": 9, "patience": 2}
    result = engine.train("nnn", *data, **still)
    assert len(result.history) == 3 and result.stopped == "no gain in Comp@5 on dev for 2 epochs"


def test_where_no_document_has_a_weight_it_stops(data):
    result = engine.train("nnn", *data, **{**NNN, "l1": 2.0, "loss": "eq6"})
    assert len(result.history) == 2 and result.history[1].empty == 1 and result.run.best == -1
    assert "no document had a weight for any query" in result.stopped


@pytest.mark.parametrize("how", ["loss", "gradient"])
def test_numbers_that_are_none_end_it_with_the_best_kept(data, how):
    run = prepare_run(make_recipe("dense", **QUICK), gather_samples(*data, "train", "dev"), 0)
    objective, weight, left = run.built.objective, next(run.built.model.parameters()), count(12, -1)

    class Breaking(type(objective)):
        """Its thirteenth loss is no number, or has a gradient that is none."""

        def __call__(self, batch):
            values = super().__call__(batch).values
            broken = torch.tensor(torch.nan) if how == "loss" else (weight - weight).square().sum().sqrt()
            return Losses(values if next(left) else values + broken)

    run = fit(replace(run, built=replace(run.built, objective=Breaking(objective.model, objective.recipe))))
    assert len(run.history) == 2 and f"the {how} was" in run.stopped and "epoch 1" in run.stopped
    assert all(tensor.isfinite().all() for tensor in run.kept.values())


def test_penalties_are_chosen_on_dev_before_and_after(data, dense):
    result = engine.train("nnn", dense.space, *data[1:], **{**QUICK, "epochs": 2})
    before, after = (lambda decoder, where=t.space: quality(decoder, where, data)["comp"] for t in (dense, result))
    pairs = [engine.Decoder(engine.make("nnn", l1=a, l2=b)) for a in (0.03, 0.1, 0.3, 1.0) for b in (0.03, 0.3)]
    assert before(result.recipe.decoder()) >= max(map(before, pairs))
    assert after(result.decoder) >= after(result.recipe.decoder()) == pytest.approx(result.best.dev.comp5)
    assert after(result.decoder) >= max(map(after, pairs))


@pytest.mark.parametrize("zero", ["l1", "l2"])
def test_a_zero_that_is_given_stays(data, zero):
    result = engine.train("nnn", *data, **{**QUICK, "epochs": 1, zero: 0.0})
    other = {"l1": "l2", "l2": "l1"}[zero]
    for values in (result.recipe, result.decoder.select):
        assert getattr(values, zero) == 0 and getattr(values, other) > 0
    with pytest.raises(ParamError, match="both 0"):
        engine.train("nnn", *data, **{**QUICK, "l1": 0.0, "l2": 0})


def test_the_query_adapter_learns_slowly_from_few_queries(data):
    result = engine.train("dense", *data, **{**SMALL, "epochs": 1})
    assert result.recipe.query_rate == 1e-4 and result.facts["params"]["query_rate"] == 1e-4
