"""Sweeps of a page: which decoders have an exact curve, and what is found again in memory and in the file."""

from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import pytest

import engine
from dashboard.services import sweeps
from dashboard.services.jobs import Job
from dashboard.services.sweeps import Sweep
from support.patience import patient
from support.sweeps import toy

pytestmark = pytest.mark.usefixtures("own_home")


@pytest.fixture
def sweep():
    """A sweep of Top-k, MMR and NNN on a toy problem, in a memory of its own."""
    space, vectors, qrels = toy(batch=24)
    loaded = SimpleNamespace(space=space, dataset=SimpleNamespace(aspects=None))
    decoders = [*engine.grid("top_k"), *engine.grid("mmr", 3), *engine.grid("nnn", 2)]
    sweeps._CELLS.clear()
    sweeps._CURVES.clear()
    return Sweep(
        loaded=loaded, decoders=tuple(decoders), queries=engine.Queries(vectors.ids, vectors.ids), vectors=vectors,
        qrels=qrels, split="toy", k=5, metrics=("recall", "ilad"),
    )  # fmt: skip


def run(sweep):
    job = Job("Measuring", partial(sweeps.run_sweep, sweep))
    job.join(patient(60))
    assert job.error is None
    return job.result


def test_decoders_that_differ_in_lambda_alone_share_an_exact_curve(sweep):
    (decoder,) = sweep.exact_decoders
    assert decoder.select.spec.name == "mmr", "of NNN no path is known"
    assert replace(sweep, vectors=None).exact_decoders == ()
    pooled = tuple(replace(decoder, depth=20) for decoder in sweep.decoders)
    assert replace(sweep, decoders=pooled).exact_decoders == (), "a pool has no path"


def test_finished_cells_and_curves_are_found_in_the_file_again(sweep):
    assert sweeps.load_stored_curves(sweep) == () == sweeps.load_stored_cells(sweep)
    cells = run(sweep)
    assert [cell.label for cell in cells] == [decoder.label for decoder in sweep.decoders]
    (curve,) = sweeps.load_stored_curves(sweep)
    assert curve.method == "mmr" and curve.k == 5
    found = sweeps.load_stored_cells(sweep)
    assert [cell.digest for cell in found] == [cell.digest for cell in cells]
    assert sweeps.load_stored_curves(sweep)[0] is curve, "complete curves stay in memory"
    assert sweeps.load_stored_cells(sweep) is found


def test_time_is_that_of_the_missing_settings_at_the_pace_of_the_last_sweep(sweep, monkeypatch):
    monkeypatch.setattr(sweeps, "_PACES", {})
    sweep = replace(sweep, k=4)  # no other test has measured it
    first = replace(sweep, decoders=sweep.decoders[:1])
    scores = len(sweep.loaded.space) * len(sweep.queries)
    n_settings = len(sweep.decoders) - 1 + sweeps.CURVE_SETTINGS
    assert sweeps.estimate_seconds(sweep, first) == pytest.approx(scores * n_settings / sweeps.FIRST_PACE)
    run(first)
    (pace,) = sweeps._PACES.values()
    assert sweeps.estimate_seconds(sweep, first) == pytest.approx(scores * n_settings / pace)
    run(sweep)
    assert sweeps.estimate_seconds(sweep, first) == 0, "all are in the file"


def test_time_and_pace_count_each_judges_own_queries(sweep, monkeypatch):
    monkeypatch.setattr(sweeps, "_PACES", {})
    n_queries, sweep = len(sweep.queries), replace(sweep, k=3)  # no other test has measured it

    def judge(rows, **fields):
        vectors = engine.Embeddings(sweep.vectors.ids[rows], sweep.vectors.vectors[rows])
        return replace(sweep, queries=engine.Queries(vectors.ids, vectors.ids), vectors=vectors, **fields)

    both = judge(slice(4), model=judge(slice(4, None), judge="model"))
    n_settings, n_documents = len(sweep.decoders) + sweeps.CURVE_SETTINGS, len(sweep.loaded.space)
    n_scores = n_documents * n_queries * n_settings
    assert sweeps.estimate_seconds(both) == pytest.approx(n_scores / sweeps.FIRST_PACE)
    monkeypatch.setattr(sweeps, "time", SimpleNamespace(perf_counter=iter([0.0, 2.0]).__next__))
    sweeps._measure_part(both, Job("Measuring", lambda job: None))
    assert {both.cells_key[:2]: n_documents * 4 * len(sweep.decoders) / 2} == sweeps._PACES
    (pace,) = sweeps._PACES.values()
    left = n_documents * (n_queries - 4) * n_settings
    assert sweeps.estimate_seconds(both) == pytest.approx(left / pace), "the model's part is missing still"
    few = both.with_decoders(both.decoders[:1])
    assert sweeps.estimate_seconds(both, few) == pytest.approx(left / n_settings * (n_settings - 1) / pace)


def test_model_corrects_all_settings_but_one_that_neither_judge_has_measured(sweep):
    sweep = replace(sweep, k=2)  # no other test has measured it
    off_grid = engine.Decoder(engine.make("mmr", relevance_weight=0.77))
    few_ids = sweep.vectors.ids[:8]
    few = engine.Embeddings(few_ids, sweep.vectors.vectors[:8])
    model = replace(sweep, queries=engine.Queries(few_ids, few_ids), vectors=few, judge="model")
    both = replace(sweep, model=model)
    assert sweeps.find_cells(both).model is None, "nothing is measured"
    run(sweep)
    assert sweeps.find_cells(both).model is None, "people's judgements alone have measured"
    sweeps._measure_part(model, Job("Measuring", lambda job: None))
    more = both.with_decoders((*both.decoders, off_grid))
    cells = sweeps.find_cells(more)
    assert cells.missing == 2, "the setting, by each judge"
    measured = [*(cell.label for cell in cells.points), *(curve.label for curve in cells.curves)]
    assert [each.label for each in cells.model] == measured and len(measured) == len(both.decoders) + 1
    run(replace(more, model=None))
    assert sweeps.find_cells(more).model is None, "people's judgements have a setting that the model lacks"


def test_curves_in_memory_are_limited_by_their_number_of_values(sweep, monkeypatch):
    run(sweep)
    (curve,) = sweeps.load_stored_curves(sweep)
    n_values = sweeps._CURVES._weigh((curve,))
    assert n_values == 2 * curve.steps.query_index.size > 100
    monkeypatch.setattr(sweeps._CURVES, "_max_weight", 2 * n_values)
    sweeps._CURVES.update({"first": (curve,), "second": (curve,)})
    assert list(sweeps._CURVES) == ["first", "second"], "the sweep's was used before them"
