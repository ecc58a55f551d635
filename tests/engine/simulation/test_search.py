"""Search for rate and batch: every setting is tried, chosen on one half of the stream and told of another."""

import itertools
from dataclasses import replace
from threading import Event as Flag

import pytest

from engine.errors import Cancelled, ParamError
from engine.simulation.feedback_model import Stream
from engine.simulation.search import SEARCH_BATCHES, SEARCH_RATES, find_best_setting, search, split_in_halves
from engine.simulation.simulate import Plan, simulate
from support.planted import make_deployment

RULE = {"rates": (1e-6, 0.003), "batches": (5, 20)}
HOPS = {f"question {i}": tuple(f"q{i * 4 + j}" for j in range(4)) for i in range(40)}


def test_the_grids_are_the_papers():
    assert len(SEARCH_RATES) == 10 and len(SEARCH_BATCHES) == 6
    assert max(SEARCH_RATES) == 1e-5 and min(SEARCH_RATES) == 1e-8


def test_every_setting_is_what_a_simulation_of_the_first_half_reaches():
    space, queries, qrels = make_deployment(n=20, queries_per_document=8, noise=2.5)
    told, how = [], {"preset": "default", "updates": 150, "seed": 2}
    rule = {"rates": (1e-6, 0.03), "batches": (1, 2)}
    found = search(space, queries, qrels, **rule, **how, seen=told.append)
    assert tuple(told) == found.settings
    assert [(s.rate, s.batch) for s in found.settings] == list(itertools.product(*rule.values()))
    first, second = split_in_halves(space, queries.ids, qrels, Stream(), 2)
    assert not set(first.grades) & set(second.grades) and len(first) == len(second) == 80
    for setting in found.settings:
        one = simulate(
            space, queries, first, rate=setting.rate, batch=setting.batch, plan=Plan(checkpoints=1, regret="none"),
            **how,
        )  # fmt: skip
        assert setting.updates == 150 and len(one.trail) == 150 * setting.batch
        assert (setting.before, setting.after) == tuple(c.cell().mean["ndcg"] for c in one.checkpoints)
    assert found.best.after == max(setting.after for setting in found.settings) and found.best.rate == 0.03
    assert found.is_at_end and found.part == "held-out"
    begun = found.confirmed.begun.preset
    assert (begun.rate, begun.batch, begun.mode) == (0.03, found.best.batch, "chosen")
    assert found.find_outcome("held-out")[1] > found.find_outcome("held-out")[0]
    learned = {query.vector.tobytes() for query in found.confirmed.queries}
    seen = {
        row.tobytes() for name, row in zip(queries.ids, queries.vectors.numpy(), strict=True) if name in first.grades
    }
    assert learned and not learned & seen


def test_the_halves_are_the_streams_and_keep_questions_whole():
    space, queries, qrels = make_deployment(n=20, queries_per_document=8)
    first, _ = split_in_halves(space, queries.ids, qrels, Stream(order="given"), 0)
    assert list(first.grades) == [f"q{i}" for i in range(80)]
    for order in ("random", "given", "sorted"):
        one, other = split_in_halves(space, queries.ids, qrels, Stream(order=order), 1, HOPS)
        assert len(one) == len(other) == 80
        assert all(set(hops) <= set(one.grades) or set(hops) <= set(other.grades) for hops in HOPS.values())
    with pytest.raises(ParamError, match="at least 4 questions that come in the stream; there are 1"):
        split_in_halves(space, queries.ids, qrels, Stream(order="repeated"), 0)


def test_of_equals_the_one_that_moves_least_is_best():
    space, queries, qrels = make_deployment(n=10, queries_per_document=4)
    found = search(space, queries, qrels, rates=(1e-8, 1e-9), batches=(5, 10))
    assert len({setting.after for setting in found.settings}) == 1
    assert (found.best.rate, found.best.batch) == (1e-9, 10)
    better = replace(found.settings[0], after=2.0)
    assert find_best_setting([*found.settings, better]) == better


def test_variants_and_held_out_go_through():
    space, queries, qrels = make_deployment(n=20, queries_per_document=8)
    found = search(
        space, queries, qrels, preset="default", rates=(0.02,), batches=(1,), reranker="judgements", candidates=3,
        hops=HOPS, plan=Plan(held_out=0.0),
    )  # fmt: skip
    assert found.part == "stream" and found.find_outcome("held-out") is None and not found.is_at_end
    assert found.confirmed.variant.candidates == 3 and found.confirmed.by_question is not None


def test_progress_counts_rounds_to_the_end_and_a_stop_says_what_it_had():
    space, queries, qrels = make_deployment(n=10, queries_per_document=4)
    calls, stop, seen = [], Flag(), []
    search(space, queries, qrels, **RULE, progress=lambda *call: calls.append(call))
    assert [c[0] for c in calls] == sorted(c[0] for c in calls) and calls[-1][0] == calls[-1][1]
    assert len({total for _, total, _ in calls}) == 1

    def tell(setting):
        seen.append(setting)
        if len(seen) == 2:
            stop.set()

    with pytest.raises(Cancelled, match=r"stopped after 2 of 4 settings; the best so far: η₀ 1e-06, batch 20"):
        search(space, queries, qrels, **RULE, seen=tell, stop=stop)
    for how in ({"rates": ()}, {"rates": (2.0,)}, {"batches": (0,)}):
        with pytest.raises(ParamError):
            search(space, queries, qrels, **how)
