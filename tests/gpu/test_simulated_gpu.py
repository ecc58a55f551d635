"""Every part of the engine that computes on a GPU, on one that the CPU simulates: no device is mixed with another."""

import numpy as np
import pytest
import torch

import engine
from support.draws import deepen
from support.instances import problem
from support.simulated_gpu import DEVICE, GpuTensor, on_cpu, on_gpu, simulated_gpu
from support.stage_laws import typical, word_space
from support.training import NNN, PROJECTED, QUICK, shared_planted_set

SELECTORS = sorted(engine.methods("selector"))
SIZES = (60, 2200)
"""Numbers of documents: few, for which a Gram matrix is made, and many, over which passes are made."""


@pytest.fixture(scope="module")
def spaces(demo):
    """Return the demo's space on the CPU and on the simulated GPU, six of its queries, and their judgements."""
    dataset, space = demo
    queries = dataset.judged("test")
    with simulated_gpu():
        gpu_space = engine.Space(dataset.corpus, space.embeddings, DEVICE)
    return space, gpu_space, engine.embed(queries).take(range(6)), dataset.qrels["test"]


def test_the_simulation_refuses_what_a_gpu_refuses():
    there, here = on_gpu(np.ones((3, 2))), torch.ones(3, 2)
    with simulated_gpu():
        assert (there + 1).is_cuda and there.sum().item() == 6 and there[[0, 2]].tolist() == [[1, 1], [1, 1]]
        assert not there.cpu().is_cuda and torch.tensor([1.0], device=DEVICE).is_cuda
        with pytest.raises(RuntimeError, match="of a GPU's tensor and of the CPU's"):
            there + here
        with pytest.raises(TypeError, match="NumPy"):
            np.asarray(there)
        there += 1
    assert there.tolist() == [[2, 2]] * 3


CASES = [(name, n) for name in SELECTORS for n in SIZES]


@pytest.mark.parametrize(("name", "n"), deepen(CASES, [("nnn", 60), ("nnn", 2200)]))
def test_selectors_choose_the_same(name, n):
    rows, queries = problem("clustered", 1, n=n, d=16, batch=3)
    for params in typical(name):
        for pool in (None, 40):
            expected = engine.select(name, rows, queries, k=7, pool=pool, **params)
            with simulated_gpu():
                chosen = engine.select(name, on_gpu(rows), on_gpu(queries), k=7, pool=pool, **params)
            assert isinstance(chosen.index, GpuTensor) and torch.equal(on_cpu(chosen.index), expected.index)
            assert torch.allclose(on_cpu(chosen.gain).to(expected.gain), expected.gain, rtol=0, atol=1e-5)


@pytest.mark.parametrize("name", ["bm25", "dense", "hybrid", "max_sim", "random_projection", "truncated"])
def test_scorers_score_on_the_gpu(name):
    space, batch = word_space(8)
    rows = torch.tensor([[1, 5, 19], [0, 2, 3], [7, 8, 9]])
    scorer = engine.make(name)
    expected = scorer.score(space, batch)
    with simulated_gpu():
        gpu_space = engine.Space(space.corpus, space.embeddings, DEVICE)
        gpu_batch = engine.decoder.query_batch(gpu_space, list(batch.texts))
        scores, some = scorer.score(gpu_space, gpu_batch), scorer.score(gpu_space, gpu_batch, on_gpu(rows))
    assert isinstance(scores, GpuTensor) and torch.allclose(on_cpu(scores), expected, atol=1e-5)
    assert torch.allclose(on_cpu(some), expected.gather(1, rows), atol=1e-5)


def test_decoders_answer_a_gpu_as_the_cpu(spaces):
    space, gpu_space, queries, _ = spaces
    for name in SELECTORS:
        for stages in ({}, {"depth": 100}, {"retrieve": engine.make("hybrid"), "depth": 60}):
            decoder = engine.Decoder(engine.make(name), **stages)
            with simulated_gpu():
                chosen = engine.decode(decoder, gpu_space, queries, 10)
            assert torch.equal(on_cpu(chosen.index), engine.decode(decoder, space, queries, 10).index), decoder.label


def test_sweeps_and_curves_of_a_gpu_are_the_cpus(spaces):
    space, gpu_space, queries, qrels = spaces
    decoders = [engine.Decoder(engine.make(name)) for name in ("top_k", "mmr", "nnn")]
    metrics = ("recall", "ndcg", "comp", "ilad")

    def cells_of(space):
        return [dict(cell.mean) for cell in engine.sweep(decoders, space, queries, qrels, k=5, metrics=metrics)]

    def curve_of(name, space):
        return engine.exact_frontier(name, space, queries, qrels, k=5, metrics=metrics, resamples=100)

    with simulated_gpu():
        cells, curves = cells_of(gpu_space), {name: curve_of(name, gpu_space) for name in ("mmr", "nnn")}
    for cell, expected in zip(cells, cells_of(space), strict=True):
        assert cell == pytest.approx(expected, abs=1e-6)
    for name, curve in curves.items():
        expected = curve_of(name, space)
        assert np.allclose(curve.breakpoints, expected.breakpoints, atol=1e-6)
        assert all(
            np.allclose(curve.means[metric], expected.means[metric], atol=1e-6, equal_nan=True) for metric in metrics
        )


STUDIES = {
    "path": lambda space, queries, _: [piece.breakpoints for piece in engine.path("mmr", space, queries, k=6)],
    "weight_path": lambda space, queries, _: [engine.weight_path(space, queries.take([0])).levels],
    "near-duplicates": lambda space, queries, _: [
        group.rows for group in engine.find_near_duplicates(space, 0.9).groups
    ],
    "layout": lambda space, queries, _: [engine.layout(space, "pca", cache=False).points],
}


@pytest.mark.parametrize("name", STUDIES)
def test_studies_of_a_gpu_are_the_cpus(name, spaces):
    space, gpu_space, queries, qrels = spaces
    with simulated_gpu():
        found = STUDIES[name](gpu_space, queries.take([0, 1]), qrels)
    expected = STUDIES[name](space, queries.take([0, 1]), qrels)
    assert len(found) == len(expected) > 0
    for one, other in zip(found, expected, strict=True):
        assert np.allclose(np.asarray(one), np.asarray(other), atol=1e-5)


TRAINED = {"dense": QUICK, "nnn": NNN, "dual_encoder": PROJECTED, "multi_vector": PROJECTED}
"""Parameters by recipe; "colt" needs sparse tensors, which the simulation has none of."""


@pytest.mark.parametrize("method", deepen(TRAINED, ["nnn", "multi_vector"]))
def test_training_learns_the_same(method):
    space, queries, qrels = shared_planted_set()
    expected = engine.train(method, space, queries, qrels, **{**TRAINED[method], "epochs": 2})
    # A module's parameters become others on another device: of one that is no real GPU they cannot be overwritten.
    torch.__future__.set_overwrite_module_params_on_conversion(True)
    try:
        with simulated_gpu():
            gpu_space = engine.Space(space.corpus, space.embeddings, DEVICE)
            trained = engine.train(method, gpu_space, queries, qrels, **{**TRAINED[method], "epochs": 2})
    finally:
        torch.__future__.set_overwrite_module_params_on_conversion(False)
    assert len(trained.history) == 3
    for epoch, same in zip(trained.history, expected.history, strict=True):
        assert (epoch.loss or 0) == pytest.approx(same.loss or 0, rel=1e-6)
        assert epoch.dev.recall5 == pytest.approx(same.dev.recall5, abs=1e-6)
    assert trained.history[1].loss > 0
