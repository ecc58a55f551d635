"""What was confirmed is on file: the same choice alone counts, and a damaged line says nothing."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

import engine
from dashboard.services import confirmations
from dashboard.services.query_vectors import find_query_vectors
from dashboard.services.sweeps import SWEEPS_SECTION, Sweep
from engine.data import cache
from support import pages


@pytest.fixture
def confirming():
    """A sweep of two decoders on the demo's test queries, with no file of earlier confirmations."""
    cache.entry_path(SWEEPS_SECTION, confirmations.CONFIRMATIONS_FILE).unlink(missing_ok=True)
    loaded = pages.load()
    queries = loaded.dataset.judged("test")
    decoders = tuple(engine.Decoder(engine.make(name)) for name in ("top_k", "mmr"))
    return Sweep(
        loaded=loaded, decoders=decoders, queries=queries, vectors=find_query_vectors(loaded, queries),
        qrels=loaded.dataset.qrels["test"], split="test", k=10, metrics=("recall", "ilad"),
    )  # fmt: skip


def test_mark_confirmed_counts_a_choice_once_and_no_other(confirming):
    other = replace(confirming, decoders=confirming.decoders[:1])
    assert not confirmations.was_confirmed(confirming) and not confirmations.count_by_page(confirming.loaded, "test")
    confirmations.mark_confirmed(confirming)
    confirmations.mark_confirmed(confirming)
    assert confirmations.was_confirmed(confirming) and not confirmations.was_confirmed(other)
    assert not confirmations.was_confirmed(replace(confirming, k=5))
    counts = {split: confirmations.count_by_page(confirming.loaded, split) for split in ("test", "dev", "none")}
    assert counts == {"test": {"Trade-off": 1}, "dev": {}, "none": {}}


def test_mark_tuned_opens_the_split_for_trade_off_and_a_half_of_a_split_does_not(confirming):
    base, chosen = (SimpleNamespace(label=decoder.label) for decoder in confirming.decoders)
    tuned = SimpleNamespace(test="test", base_test=base, base=base, chosen=chosen, k=confirming.k)
    confirmations.mark_tuned(confirming.loaded, SimpleNamespace(**vars(tuned) | {"test": "half of dev"}))
    confirmations.mark_tuned(confirming.loaded, SimpleNamespace(**vars(tuned) | {"base_test": None}))
    assert confirmations.count_by_page(confirming.loaded, "test") == {}
    for _ in range(2):
        confirmations.mark_tuned(confirming.loaded, tuned)
    assert confirmations.count_by_page(confirming.loaded, "test") == {"Tune": 1}
    assert confirmations.was_confirmed(confirming), "Trade-off knows what was asked about the same choice"


@pytest.mark.parametrize("line", ["{", "[1]", "\x00"])
def test_damaged_line_of_confirmations_is_passed_over(confirming, line):
    confirmations.mark_confirmed(confirming)
    path = cache.entry_path(SWEEPS_SECTION, confirmations.CONFIRMATIONS_FILE)
    path.write_text(f"{line}\n{path.read_text()}")
    assert confirmations.was_confirmed(confirming)


def test_measure_confirming_takes_the_outcome_of_an_asked_choice_and_asks_about_no_other(confirming):
    loaded, (base, mmr) = confirming.loaded, confirming.decoders
    decision = SimpleNamespace(sure=SimpleNamespace(decoder=mmr), bet=None, metric="recall", objective="ilad")
    queries = loaded.dataset.judged("dev")
    vectors = find_query_vectors(loaded, queries)
    (baseline,) = engine.sweep([base], loaded.space, vectors, loaded.dataset.qrels["dev"], 10)
    assert confirmations.measure_confirming(loaded, "dev", decision, baseline) == []
    confirmations.mark_confirmed(confirming)
    cells = confirmations.measure_confirming(loaded, "dev", decision, baseline)
    assert [(cell.split, cell.label) for cell in cells] == [("test", base.label), ("test", mmr.label)]
    assert {"recall", "ilad"} <= cells[0].values.keys()
