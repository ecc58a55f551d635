"""Mean relevance of sets from the cosine of their sum and ILAD, against the mean of the cosines."""

import numpy as np
import pytest
import torch

import engine
from engine.evaluation.decide import estimate_options
from engine.evaluation.metrics import compute_cos_sum, compute_ilad
from engine.evaluation.set_relevance import (
    CORPUS_RELEVANCE_ENTRY,
    SET_RELEVANCE_METRICS,
    compute_set_relevance,
    measure_corpus_relevance,
)
from engine.space import Space
from engine.values import Embeddings
from support.sweeps import make_passages


def draw_units(n_rows, seed):
    return torch.nn.functional.normalize(torch.randn(n_rows, 8, generator=torch.Generator().manual_seed(seed)), dim=1)


def test_set_relevance_is_the_mean_cosine_with_the_query():
    vectors, queries = draw_units(40, 0), draw_units(3, 1)
    rows = torch.tensor([[0, 1, 2, 3], [4, 5, -1, -1], [6, -1, -1, -1]])
    relevance = compute_set_relevance(
        compute_cos_sum(vectors, rows, queries).numpy(), compute_ilad(vectors, rows).numpy(), np.array([4, 2, 1])
    )
    expected = [(vectors[[0, 1, 2, 3]] @ queries[0]).mean(), (vectors[[4, 5]] @ queries[1]).mean()]
    assert relevance[:2] == pytest.approx(np.array(expected), abs=1e-6)
    assert np.isnan(relevance[2]), "one document has no ILAD"


def test_corpus_relevance_is_the_mean_cosine_with_all_documents():
    vectors, queries = draw_units(40, 2), draw_units(5, 3)
    space = Space.of([f"text {row}" for row in range(40)], vectors.numpy())
    expected = float((vectors @ queries.T).mean())
    assert measure_corpus_relevance(space, Embeddings(tuple("abcde"), queries)) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("split", ["passages", "half 1 of passages"])
def test_settings_that_stray_are_the_same_whatever_metrics_were_asked_for(split):
    data, decoders = make_passages(split) | {"k": 5}, [engine.Decoder(engine.make("top_k")), *engine.grid("mmr", 5)]
    strays, curve_strays = [], []
    for metrics in (("recall", "ilad"), ("ilad", "ndcg", "recall", "cos_sum")):
        cells = list(engine.sweep(decoders, **data, metrics=metrics))
        curve = engine.exact_frontier("mmr", **data, metrics=metrics, resamples=100)
        assert {*metrics, *SET_RELEVANCE_METRICS} <= curve.means.keys() & cells[0].values.keys()
        strays.append(estimate_options(cells, k=5).is_stray.tolist())
        curve_strays.append(estimate_options([*cells, curve], k=5).is_stray.tolist())
    assert strays[0] == strays[1] and any(strays[0]) and not all(strays[0])
    assert curve_strays[0] == curve_strays[1] and sum(curve_strays[0]) > sum(strays[0])
    relevance = measure_corpus_relevance(data["space"], data["queries"])
    assert cells[0].provenance[CORPUS_RELEVANCE_ENTRY] == curve.provenance[CORPUS_RELEVANCE_ENTRY] == f"{relevance:.4f}"


@pytest.mark.parametrize("split,suffix", [("test", "?"), ("passages", "")])
def test_queries_that_are_no_passages_are_measured_as_asked_and_leave_out_nothing(split, suffix):
    data, decoders = (
        make_passages(split, suffix) | {"k": 5},
        [engine.Decoder(engine.make("top_k")), *engine.grid("mmr", 3)],
    )
    cells = list(engine.sweep(decoders, **data, metrics=("recall", "ilad")))
    assert set(cells[0].values) == {"recall", "ilad"} and CORPUS_RELEVANCE_ENTRY not in cells[0].provenance
    assert not estimate_options(cells, k=5).is_stray.any()
