"""Choosing among decoders: dev alone chooses, test tests all that were chosen from, and a refusal says what to do."""

import re
import sqlite3
from contextlib import closing
from dataclasses import replace

import numpy as np
import pytest

import engine
from engine.evaluation.tuning.tune import choose
from engine.evaluation.tuning.tuned import (
    ask_lower_share,
    find_share_to_ask,
    has_notable_gain,
    is_choice_denied,
    suggest_next_step,
)
from support.bounds import bound_kept_share
from support.draws import deepen
from support.source_oracles import draw_sources, make_sourced_space
from support.sweeps import toy

NAMES = ("mmr", "vrsd", "frank_wolfe")


@pytest.fixture(scope="module")
def problem():
    """(space, queries, judgements by split): the halves of a toy problem's queries."""
    space, queries, qrels = toy(batch=164)
    return space, queries, engine.evaluation.splits.split_in_half(qrels, 0)


@pytest.fixture(scope="module")
def problem_without_sure_setting():
    """Another toy problem: no setting is sure to keep all of the baseline's Recall."""
    space, queries, qrels = toy(batch=80, seed=0)
    return space, queries, engine.evaluation.splits.split_in_half(qrels, 0)


def decide_alone(problem, share, names=NAMES, points=4, k=5):
    """Decide over all settings of these selectors on dev, from a sweep and an exact curve that are made here."""
    space, queries, qrels = problem
    judged = queries.take([queries.position[query] for query in queries.ids if query in qrels["dev"].grades])
    options = {"k": k, "metrics": ("recall", "ilad", "ndcg", "mrr"), "split": "dev"}
    decoders = [decoder for name in names for decoder in engine.grid(name, points)]
    top = engine.Decoder(engine.make("top_k"))
    measured = list(engine.sweep([top, *decoders], space, judged, qrels["dev"], **options))
    curves = []
    for name in {"mmr", "dpp"} & set(names):
        curves.append(engine.exact_frontier(name, space, judged, qrels["dev"], resamples=100, **options))
    return engine.decide([*measured, *curves], keep=share, k=k)


def choose_within(problem, share, k=5, **options):
    objective = engine.Objective("diverse", share=share)
    options = {"selectors": NAMES, "points": 4, "resamples": 200, **options}
    return choose(*problem, objective=objective, k=k, **options)


@pytest.fixture(scope="module")
def confirmed_choice(problem):
    """The choice whose bound holds on test too."""
    return choose_within(problem, 0.65)


OBJECTIVES = ["diverse", engine.Objective("maximise", metric="ilad"), "knee"]


@pytest.mark.parametrize("objective", deepen(OBJECTIVES, OBJECTIVES[1:]))
def test_choice_ignores_test_judgements(problem, objective):
    space, queries, qrels = problem
    options = {"objective": objective, "k": 5, "selectors": NAMES, "points": 3, "resamples": 200}
    choice = choose(space, queries, qrels, **options)
    turned = engine.Qrels({query: {space.corpus.ids[0]: 1} for query in qrels["test"].grades})
    again = choose(space, queries, qrels | {"test": turned}, **options)
    assert choice.decoder == again.decoder and [c.decoder for c in choice.candidates] == [
        c.decoder for c in again.candidates
    ]
    assert {c.decoder.select.spec.name for c in choice.candidates} == set(NAMES) and choice.reference.name == "Top-k"
    assert choice.winner.name in choice.sentences[0] and len(choice.table) == 5


@pytest.mark.parametrize(
    "share, winner", deepen([(0.5, "mmr"), (0.75, "vrsd"), (0.9, "mmr")], [(0.5, "mmr"), (0.9, "mmr")])
)
def test_sure_setting_of_all_decoders_is_taken_and_each_is_at_its_best(problem, share, winner):
    """Against `decide` over all settings."""
    expected = decide_alone(problem, share)
    choice = choose_within(problem, share, test=None)
    assert choice.decoder == expected.sure.decoder and choice.decoder.select.spec.name == winner
    assert not choice.stays and choice.winner is choice.candidates[0]
    assert choice.decision.sure.label == expected.sure.label
    # MMR's hundredths and its ⅓ and ⅔, VRSD, four of Frank–Wolfe's.
    assert len(choice.decision.options) == len(expected.options) == 101 + 2 + 1 + 4
    assert choice.test is None and choice.is_confirmed is None
    assert choice.status == "measured on dev only"
    assert choice.sentences[1 : 1 + len(expected.sentences)] == expected.sentences

    gaining = [option for option in expected.options if option.gain > 1e-9]
    for candidate, n_settings in zip(sorted(choice.candidates, key=lambda c: c.name), (4, 4, 1), strict=True):
        name = candidate.decoder.select.spec.name
        own = [option for option in gaining if option.decoder.select.spec.name == name]
        sure = [option for option in own if option.chance >= 0.95]
        best = max(own, key=lambda o: (o.chance, o.gain))
        if sure:
            largest = max(o.gain for o in sure)
            tied = [o for o in sure if o.gain >= largest - 0.01]
            best = max(tied, key=lambda o: (int(1000 * o.sure_share), o.other_change, o.gain))
        assert candidate.decoder == best.decoder and candidate.settings == n_settings
        assert candidate.stability is candidate.interval is None and (candidate.curve is None) == (name != "mmr")


@pytest.mark.deep
@pytest.mark.parametrize("selector, share, n_queries, seed", [("mmr", 0.7, 320, 2), ("dpp", 0.6, 640, 1)])
def test_of_equal_settings_that_of_the_decision_is_taken(selector, share, n_queries, seed):
    """Neighbouring hundredths of λ can return the same sets for all queries: one of them is named everywhere."""
    space, queries, qrels = toy(batch=n_queries, seed=seed)
    problem = space, queries, engine.evaluation.splits.split_in_half(qrels, 0)
    expected = decide_alone(problem, share, (selector,), k=2)
    equal = [option for option in expected.options if (option.gain, option.chance) == pytest.approx(
        (expected.sure.gain, expected.sure.chance), abs=1e-9)]  # fmt: skip
    choice = choose_within(problem, share, k=2, selectors=[selector])
    assert len(equal) > 1 and choice.decoder == expected.sure.decoder
    assert choice.is_confirmed is choice.decision.sure.confirmed is not None


def test_p_values_are_corrected_over_all_candidates(problem):
    space, queries, qrels = problem
    choice = choose(space, queries, qrels, k=5, selectors=NAMES, points=3)
    for metric in choice.objective.metrics:
        rows = [row for row in choice.comparisons if row.metric == metric]
        tests = [choice.base_test, *(c.test for c in choice.candidates)]
        expected = engine.compare(tests, metric, choice.base_test, 5)
        assert [(r.label, r.p_holm, r.comparisons) for r in rows] == [(r.label, r.p_holm, len(NAMES)) for r in expected]


@pytest.mark.parametrize("share, is_confirmed", [(0.65, True), (0.9, False)])
def test_choice_is_confirmed_by_the_bound_of_test(problem, confirmed_choice, share, is_confirmed):
    choice = confirmed_choice if is_confirmed else choose_within(problem, share)
    own, top = (cell.values["recall"] for cell in (choice.chosen_test, choice.base_test))
    is_common = np.isfinite(own) & np.isfinite(top)
    _, low = bound_kept_share(own[is_common], top[is_common])
    assert choice.decision.sure.confirmed_low == pytest.approx(low)
    assert choice.is_confirmed is is_confirmed == (low >= share) == choice.as_json()["confirmed"]
    if is_confirmed:
        assert choice.decision.bet.confirmed is not None, "the bet is measured on test too"
        assert choice.status == "confirmed on test" and suggest_next_step(choice) == "" and has_notable_gain(choice)
        sure = replace(choice.decision.sure, confirmed_gain=0.004, confirmed_gain_low=0.001)
        small = replace(choice, decision=replace(choice.decision, sure=sure))
        assert small.status == "confirmed on test, but only +0.4%" and not has_notable_gain(small)
        return
    assert choice.status == "agrees on test, not proven" and not is_choice_denied(choice)
    advice = f"Next: ask for a share of {np.floor(100 * low):.0f}%, which it is sure to keep on test"
    assert suggest_next_step(choice).startswith(advice) and choice.sentences[-1] == suggest_next_step(choice)
    lower = ask_lower_share(choice)
    assert lower.chosen is choice.chosen and lower.objective.share == pytest.approx(np.floor(100 * low) / 100)
    assert lower.status == "confirmed on test" and lower.decision.sure.label == choice.chosen.label
    assert find_share_to_ask(lower) is None and ask_lower_share(lower) is lower
    # A bound at nothing is no share to ask for.
    lost = replace(choice.decision, sure=replace(choice.decision.sure, confirmed_low=-0.1))
    assert "ask for" not in suggest_next_step(replace(choice, decision=lost))


def test_another_scorer_is_tried_behind_one_baseline(problem):
    space, queries, qrels = problem
    choice = choose(space, queries, qrels, k=5, selectors=["top_k", "vrsd"], scorers=["dense", "truncated"], test=None)
    tried = {(c.decoder.retrieve.spec.name, c.decoder.select.spec.name) for c in choice.candidates}
    assert tried == {("dense", "vrsd"), ("truncated", "top_k"), ("truncated", "vrsd")}


def test_choose_stores_its_measurements(problem, tmp_path):
    space, queries, qrels = problem
    file = tmp_path / "cells.db"
    options = {"k": 5, "selectors": NAMES, "points": 2, "resamples": 200, "store": file}
    first, written = choose(space, queries, qrels, **options), count_rows(file)
    again = choose(space, queries, qrels, **options)
    assert again.as_json() == first.as_json() and count_rows(file) == written > 10, "nothing was measured again"


def count_rows(file):
    """The number of rows of all tables."""
    with closing(sqlite3.connect(file)) as store:
        tables = [name for (name,) in store.execute("select name from sqlite_master where type = 'table'")]
        return sum(store.execute(f"select count(*) from {name}").fetchone()[0] for name in tables)


def test_choose_without_valid_candidates_raises_param_error(problem):
    space, queries, qrels = problem
    with pytest.raises(engine.ParamError, match="selectors must be among top_k, mmr"):
        choose(space, queries, qrels, selectors=["bm25"])
    with pytest.raises(engine.ParamError, match="selectors must name another one than top_k"):
        choose(space, queries, qrels, selectors=["top_k"])


@pytest.mark.deep
def test_without_a_sure_setting_the_baseline_stays_and_the_step_that_helps_is_named(problem_without_sure_setting):
    problem = problem_without_sure_setting
    stays = choose_within(problem, 1.0)
    nearest = stays.candidates[0]
    assert stays.decision.sure is None and stays.decoder == stays.baseline and stays.winner is stays.reference
    assert stays.is_confirmed is None and stays.winner_gain is None and not stays.satisfied
    assert stays.status == "stays, as no other is sure to keep 100% on dev"
    # Of MMR every λ is compared beside the measured settings.
    extent = "3 decoders in 9 settings and every λ of 1 decoder"
    assert stays.sentences[0].startswith(f"Top-k stays: none of {extent} is chosen for most diversity")
    assert "100.0%" in stays.outcome
    (share,) = re.findall(rf"ask for a share of (\d+)%, which {nearest.name} is sure to keep", stays.sentences[-1])
    for asked, is_sure in ((int(share), True), (int(share) + 1, False)):
        option = next(o for o in decide_alone(problem, asked / 100).options if o.decoder == nearest.decoder)
        assert option.is_sure == is_sure
    # Kept in the mean, and not for certain: so many queries more would show it.
    slack = np.where(np.arange(len(stays.base.queries)) % 2, -0.1, 0.12)
    values = {"recall": stays.base.values["recall"] + slack, "ilad": nearest.dev.values["ilad"]}
    unsure = replace(nearest, dev=replace(nearest.dev, values=values))
    assert re.search(
        r"or judge [\d,]+ more queries for dev\.$", suggest_next_step(replace(stays, candidates=(unsure,)))
    )


def test_step_where_judgements_are_missing_is_to_judge_and_not_the_share_that_was_asked_for(problem, confirmed_choice):
    """With one grade of 0 nobody knows what the other documents are, so no setting is a candidate."""
    space, queries, by_split = problem
    query = next(iter(by_split["dev"].grades))
    outside = next(doc for doc in space.corpus.ids if doc not in by_split["dev"].grades[query])
    grades = {**by_split["dev"].grades, query: {**by_split["dev"].grades[query], outside: 0}}
    pooled = (space, queries, {**by_split, "dev": engine.Qrels(grades)})
    stays = choose_within(pooled, 0.65)
    estimates = stays.estimates
    assert stays.decision.sure is None and len(stays.decision.left_out) == len(stays.decision.options)
    # All are compared with Top-k, so its documents come first.
    counts = estimates.aligned.cells[0].counts
    n_missing = int((counts["returned"] - counts["judged"]).sum())
    assert n_missing > 0
    assert stays.sentences[-1] == f"Next: judge the {n_missing} documents without a grade that Top-k returns on dev."
    assert confirmed_choice.decision.sure is not None, "without that grade"


def test_limit_per_source_holds_for_all_candidates_and_refuses_who_cannot_keep_it(problem):
    space, queries, qrels = problem
    sourced = make_sourced_space(space.vectors.numpy(), draw_sources(np.random.default_rng(0), len(space), 6))
    limits = {"per_source": 1, "source": "source"}
    chosen = choose(sourced, queries, qrels, k=4, points=3, selectors=["mmr", "vrsd"], **limits)
    decoders = [chosen.baseline, *(candidate.decoder for candidate in chosen.candidates)]
    assert [decoder.limits for decoder in decoders] == [limits] * 3 and chosen.decision.baseline.endswith(
        "[1 per source]"
    )
    assert any(candidate.searched.startswith("every λ") for candidate in chosen.candidates)
    with pytest.raises(engine.ParamError, match=r"per_source is for selectors.*got frank_wolfe"):
        choose(sourced, queries, qrels, selectors=NAMES, **limits)
