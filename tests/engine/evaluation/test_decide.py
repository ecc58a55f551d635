"""The decision over queries: which settings, how sure, in which words, and what it refuses."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import engine
from engine import DataError, Embeddings, ParamError, Qrels, Space, decide
from engine.evaluation.corrected_judge import JudgeUse
from engine.evaluation.decide import (
    BET_CHANCE,
    SURE_CHANCE,
    estimate_options,
    estimate_provable_share,
    find_lower_share,
)
from engine.evaluation.decision import (
    MIN_DECISION_QUERIES,
    count_missing_queries,
    describe_outcome,
    describe_tie,
    find_best,
    list_best_options,
    summarise_confirmation,
)
from engine.evaluation.frontier import TIME_AXIS
from engine.evaluation.sweep.cell import decoder_from_json
from engine.evaluation.sweep.store import Store
from support.bounds import bound_kept_share
from support.draws import deepen
from support.points import cell, interval
from support.sweeps import toy

N_QUERIES = 200


def make_values(gain=0.0, loss=0.0, spread=0.0, seed=0, **more):
    """Recall of .5 and ILAD of .4 with a relative gain and loss; spread: of the loss, from query to query."""
    rng = np.random.default_rng(seed)
    noise = rng.normal(0, spread, N_QUERIES) if spread else np.zeros(N_QUERIES)
    recall = 0.5 * (1 - loss + noise - noise.mean())
    return {"recall": recall, "ilad": np.full(N_QUERIES, 0.4 * (1 + gain)), **more}


BASE = cell("top_k", make_values())
UNJUDGED_TEXT = "Documents without a judgement count as not relevant."
UNKNOWN_TEXT = (
    "The judgements hold grades of 0, so a document without a grade counts as unknown. If those are not relevant, "
    "declare the judgements complete."
)


def make_weights(loss_rate=0.2):
    """Cells of MMR at ten weights: the more it gains, the more it loses, and the less is that certain."""
    cells = []
    for weight in np.linspace(0.5, 0.95, 10):
        gain = 1 - weight
        values = make_values(gain, loss_rate * gain, gain, seed=3)
        cells.append(cell("mmr", values, relevance_weight=round(weight, 3)))
    return cells


def test_sure_and_bet_are_the_largest_gains_of_their_chances():
    decision = decide([BASE, *make_weights()])
    chances = {option.label: option.chance for option in decision.options}
    sure_gains = [option.gain for option in decision.options if option.chance >= SURE_CHANCE]
    bet_gains = [option.gain for option in decision.options if option.chance >= BET_CHANCE]
    assert decision.sure.gain == max(sure_gains) and decision.bet.gain == max(bet_gains) > decision.sure.gain
    assert chances[decision.bet.label] == decision.bet.chance < SURE_CHANCE
    assert [option.gain for option in decision.options] == sorted(option.gain for option in decision.options)
    best = decision.sure
    assert best.share_kept == pytest.approx(1 - 0.2 * best.gain) and best.low <= best.share_kept <= best.high


@pytest.mark.parametrize("n_defined", [0, 4, 179, 199])
def test_setting_without_metrics_on_some_queries_changes_nothing_and_is_named(n_defined):
    """Threshold may return one document or none, which has no ILAD: all settings were decided on what it answers."""
    scarce = cell("vrsd", make_values(0.9))
    scarce.values["ilad"][n_defined:] = np.nan
    alone, beside = decide([BASE, *make_weights()]), decide([BASE, *make_weights(), scarce])
    assert beside.queries == N_QUERIES and [str(o) for o in beside.options] == [str(o) for o in alone.options]
    assert beside.scarce == (("VRSD", n_defined, N_QUERIES),) and "VRSD" not in [o.name for o in beside.options]
    (told,) = set(beside.sentences) - set(alone.sentences)
    assert told == (
        f"Left out: 1 setting without Recall and ILAD on every query; VRSD has them on {n_defined} of {N_QUERIES}."
    )


def test_each_setting_that_lacks_queries_is_left_out():
    """Each of eight lacks another tenth: all would be compared on a fifth of the queries."""
    others = make_weights()
    for number, other in enumerate(others[:8]):
        other.values["ilad"][20 * number : 20 * (number + 1)] = np.nan
    decision = decide([BASE, *others])
    assert decision.queries == N_QUERIES and len(decision.options) == len(others) - 8 > 0
    assert len(decision.scarce) == 8 and {n_queries for _, n_queries, _ in decision.scarce} == {180}


def test_run_of_another_system_is_compared_on_the_queries_that_it_has_lists_for():
    values = make_values(0.2)
    values["ilad"][:150] = np.nan
    run = replace(cell("vrsd", values), label="lucene", method="lucene", decoder={"select": {"name": "lucene"}})
    few = cell("ssd", make_values(0.3))
    few.values["ilad"][:160] = np.nan
    decision = decide([BASE, run, few])
    assert decision.queries == 50 and [option.label for option in decision.options] == ["lucene"]
    assert decision.scarce == (("SSD · λ 0.8", 40, N_QUERIES),)


def test_sentences_say_gain_certainty_and_origin():
    points = [BASE, cell("vrsd", make_values(0.24, 0.01, 0.01)), cell("max_sum", make_values(0.36, 0.04, 0.3))]
    decision = decide(points)
    assert decision.sure.name == "VRSD" and decision.bet.name.startswith("Max-sum")
    first, second, third, last = decision.sentences
    assert first == "You can be 24% more diverse and be sure to keep 95% of Top-k's Recall@10: VRSD."
    tenths = round(decision.bet.times_in_hundred / 10)
    assert second == f"Going for 36%, {decision.bet.name}, is a bet that holds {tenths} times in 10."
    assert third == "Chosen on 200 queries of test." and last == UNJUDGED_TEXT
    # A metric that needs no judgements is not touched by those that are missing.
    assert UNJUDGED_TEXT not in decide(points, metric="ilad", objective="recall").sentences


@pytest.mark.parametrize(("chance", "hundredths", "words"), [
    (0.4498, 45, "holds 5 times in 10"), (0.4502, 45, "holds 5 times in 10"), (0.4449, 44, "holds 4 times in 10"),
    (0.445, 45, "holds 5 times in 10"), (0.0449, 4, "hardly ever holds"), (0.9999, 99, "holds 99 times in 100"),
])  # fmt: skip
def test_chance_is_rounded_once_for_squares_and_words(chance, hundredths, words):
    """45 squares beside "4 times in 10" on one page, and beside "5 times in 10" on another, were one chance."""
    decision = decide([BASE, cell("vrsd", make_values(0.3, 0.04, 0.4))])
    bet = replace(decision.bet, chance=chance)
    assert bet.times_in_hundred == hundredths
    assert replace(decision, bet=bet).sentences[1].endswith(f"is a bet that {words}.")


def test_nothing_sure_names_the_bet_or_the_nearest():
    bet_only = decide([BASE, cell("vrsd", make_values(0.3, 0.04, 0.4))])
    assert bet_only.sure is None and bet_only.bet.name == "VRSD"
    assert bet_only.sentences[0] == "No setting is more diverse and sure to keep 95% of Top-k's Recall@10."
    assert bet_only.sentences[1].startswith("Going for 30% more diverse, VRSD, is a bet that holds ")
    neither = decide([BASE, cell("vrsd", make_values(0.3, 0.4, 0.1))])
    assert neither.sure is neither.bet is None
    assert neither.sentences[1] == "The nearest, VRSD: 30% more diverse, a bet that hardly ever holds."
    assert decide([BASE]).sentences == (bet_only.sentences[0], "Chosen on 200 queries of test.", UNJUDGED_TEXT)


def test_setting_with_less_of_the_objective_is_never_recommended():
    decision = decide([BASE, cell("vrsd", make_values(-0.1, -0.2, 0.01))])
    assert decision.sure is decision.bet is None and len(decision.options) == 1


def test_objective_of_which_less_is_better_gains_by_falling():
    base = cell("top_k", make_values(redundancy=np.full(N_QUERIES, 0.4)))
    fewer = cell("vrsd", make_values(loss=0.01, spread=0.01, redundancy=np.full(N_QUERIES, 0.1)))
    decision = decide([base, fewer], objective="redundancy")
    assert decision.sure.name == "VRSD" and decision.sure.gain == pytest.approx(0.75)
    assert decision.sentences[0].startswith("You can have 75% less Redundancy and be sure to keep 95% of Top-k's")
    base, slower = (cell("top_k", make_values(), latency=2.0), cell("vrsd", make_values(0.3, 0.0, 0.01), latency=3.0))
    faster = cell("max_sum", make_values(0.3, 0.01, 0.01), latency=1.0)
    by_time = estimate_options([base, faster, slower], objective="milliseconds").decide(0.95)
    assert by_time.sure.label == faster.label and by_time.sure.gain == pytest.approx(0.5)
    assert by_time.sentences[0].startswith("You can take 50% less time a query and be sure to keep 95% of Top-k's")
    none_faster = estimate_options([base, slower], objective="milliseconds").decide(0.95)
    assert none_faster.sentences[0].startswith("No setting takes less time a query and is sure to keep 95% of Top-k's")


def test_pinned_setting_stays_the_sure_one_while_it_is_sure_enough():
    estimates = estimate_options([BASE, *make_weights()], objective="ilad")
    usual = estimates.decide(0.95)
    modest = max((o for o in usual.options if o.is_sure and o.gain < usual.sure.gain), key=lambda o: o.gain)
    assert estimates.decide(0.95, pinned=modest.label).sure.label == modest.label
    risky = next(option for option in usual.options if not option.is_sure)
    assert estimates.decide(0.95, pinned=risky.label).sure.label == usual.sure.label
    assert estimates.decide(0.95, pinned="unknown").sure.label == usual.sure.label


@pytest.mark.parametrize(
    ("low", "gain", "share"), [(0.939, 0.2, 0.93), (0.93, 0.2, 0.93), (0.939, 0.0, None), (0.0, 0.2, None)]
)
def test_lower_share_is_the_largest_that_both_splits_are_sure_of(low, gain, share):
    estimates = estimate_options([BASE, cell("vrsd", make_values(0.24, 0.01, 0.02))], objective="ilad")
    decision = estimates.decide(0.95)
    assert find_lower_share(estimates, decision) is None, "nothing is denied"
    facts = {"confirmed": False, "confirmed_share": 0.96, "confirmed_low": low, "confirmed_gain": gain}
    denied = replace(decision, sure=replace(decision.sure, **facts))
    assert find_lower_share(estimates, denied) == (share if share is None else pytest.approx(share))


def test_weak_verdict_has_a_warning():
    decision = decide([BASE, *make_weights()])
    assert decision.warning == ""
    assert replace(decision, queries=25).warning.startswith("Only 25 queries: ")
    left_out = replace(decision, left_out=decision.options, judged=0.1, judged_most=0.4)
    assert left_out.warning.startswith("No setting can be chosen") and "10% to 40%" in left_out.warning


def test_confirmation_is_the_bound_of_one_setting_on_the_other_split():
    chosen = [BASE, cell("vrsd", make_values(0.24, 0.01, 0.02))]
    other = [cell("top_k", make_values(), split="dev"), cell("vrsd", make_values(0.2, 0.02, 0.2, seed=8), split="dev")]
    option = decide(chosen, confirm=other).sure
    share, bound = bound_kept_share(other[1].values["recall"], other[0].values["recall"])
    assert option.confirmed_low == pytest.approx(bound) and option.confirmed_share == pytest.approx(0.98) == share
    assert option.confirmed == (bound >= 0.95)
    assert decide(chosen, confirm=other).sentences[-2].startswith("On dev (200 queries) VRSD keeps 98.0%, at least ")
    assert decide(chosen, confirm=[other[0]]).sure.confirmed is None


@pytest.mark.parametrize(
    ("gain", "objective", "words", "is_confirmed"),
    [
        (0.102, "ilad", "confidence, and is 10% more diverse there: confirmed.", True),
        (0.0, "ilad", "confidence, and is no more diverse there: gains nothing.", False),
        (-0.03, "ilad", "confidence, and is 3% less diverse there: gains nothing.", False),
        (-0.2, "redundancy", "confidence, and has 20% less Redundancy there: confirmed.", True),
        (0.05, "redundancy", "confidence, and has 5% more Redundancy there: gains nothing.", False),
    ],
)
def test_confirmation_says_what_is_gained_on_the_other_split(gain, objective, words, is_confirmed):
    """The gain of the split that chose is that of the best of many, so the other split's stands beside it."""
    base, chosen = np.full(N_QUERIES, 0.4), np.full(N_QUERIES, 0.4 * (1.24 if objective == "ilad" else 0.7))
    recall = {"recall": make_values()["recall"]}
    points = [cell("top_k", recall | {objective: base}), cell("vrsd", recall | {objective: chosen})]
    other = [
        cell("top_k", recall | {objective: base}, split="dev"),
        cell("vrsd", recall | {objective: base * (1 + gain)}, split="dev"),
    ]
    decision = decide(points, objective=objective, confirm=other)
    sign = 1 if objective == "ilad" else -1
    assert decision.sure.confirmed_gain == pytest.approx(sign * gain) and decision.sure.confirmed == is_confirmed
    assert any(sentence.endswith(words) for sentence in decision.sentences)
    unmeasured = [replace(point, values=recall) for point in other]
    option = decide(points, objective=objective, confirm=unmeasured).sure
    assert option.confirmed and option.confirmed_gain is None


def test_choice_that_few_queries_cannot_prove_agrees_and_is_not_denied():
    """A bound below the budget says that the queries are few: the estimate alone refutes."""
    chosen = [BASE, cell("vrsd", make_values(0.24, 0.01, 0.02))]
    other = [cell("top_k", make_values(), split="dev"), cell("vrsd", make_values(0.2, 0.02, 0.5, seed=8), split="dev")]
    decision = decide(chosen, confirm=other)
    sure = decision.sure
    assert sure.confirmed is False and sure.agrees and not sure.is_denied
    assert sure.confirmed_share >= 0.95 > sure.confirmed_low and sure.confirmed_needed > sure.confirmed_queries == 200
    low = f"{np.floor(1000 * sure.confirmed_low) / 1000:.1%}"
    proof = f"200 queries prove only {low}, about {sure.confirmed_needed:,} would prove 95%"
    share_text = f"on dev {sure.confirmed_share:.1%}"
    assert describe_outcome(sure, "dev") == f"{share_text}, which agrees; {proof}"
    assert describe_outcome(sure, "dev", is_brief=True) == f"{share_text}: agrees, not proven"
    assert describe_outcome(replace(sure, confirmed_needed=None), "dev").endswith(f"prove only {low}")
    assert decision.sentences[0].startswith("You can be 24% more diverse and be sure to keep 95%")
    assert decision.sentences[0].endswith(f"; {share_text}: agrees, not proven.")
    assert sure.describe_confirmation("dev") == "agrees on dev, not proven"
    assert any(
        text.endswith(f"about {sure.confirmed_needed:,} queries would prove 95%.") for text in decision.sentences
    )


def test_provable_share_rises_with_the_number_of_other_queries():
    estimates = estimate_options([BASE, cell("vrsd", make_values(0.24, 0.01, 0.2))], objective="ilad")
    option = estimates.decide(0.8).options[0]
    shares = [estimate_provable_share(estimates, option, n_queries) for n_queries in (20, 100, N_QUERIES, 2000)]
    assert shares == sorted(shares) and shares[0] < shares[-1] < option.share_kept
    changes = estimates.aligned.values["recall"]
    expected = bound_kept_share(changes[:, 1], changes[:, 0])[1]
    assert shares[2] == pytest.approx(expected), "the same queries prove what they prove"


@pytest.mark.parametrize(
    ("gain", "noise", "words"),
    [
        (0.0003, 0.0, "is hardly more diverse there: confirmed, but gains almost nothing."),
        (0.003, 0.0, "is 0.3% more diverse there: confirmed, but only +0.3%."),
        (0.0096, 0.0, "is 0.9% more diverse there: confirmed, but only +0.9%."),
        (0.05, 0.0, "more diverse there: confirmed."),
        (0.05, 3.0, "more diverse there: confirmed, but its gain of 5% is not certain."),
    ],
)
def test_small_or_uncertain_gain_of_the_other_split_is_no_plain_confirmation(gain, noise, words):
    base, recall = np.full(N_QUERIES, 0.4), {"recall": make_values()["recall"]}
    points = [cell("top_k", recall | {"ilad": base}), cell("vrsd", recall | {"ilad": 1.24 * base})]
    # Deviations that cancel out leave the mean gain as it is.
    there = base * (1 + gain) + 0.4 * noise * np.tile([1, -1], N_QUERIES // 2)
    other = [cell(name, recall | {"ilad": values}, split="dev") for name, values in (("top_k", base), ("vrsd", there))]
    decision = decide(points, confirm=other)
    assert decision.sure.confirmed and decision.sure.has_notable_gain == words.endswith("confirmed.")
    assert any(sentence.endswith(words) for sentence in decision.sentences)
    low = stats.t.interval(0.95, N_QUERIES - 1, gain, stats.sem(there / 0.4))[0] if noise else gain
    assert decision.sure.confirmed_gain_low == pytest.approx(low)


def describe(text, option):
    """Fill what another split says into a text; what is proven is rounded down."""
    return text.format(share=option.confirmed_share, low=np.floor(1000 * option.confirmed_low) / 1000)


@pytest.mark.parametrize(
    ("gain", "loss", "end"),
    [
        (0.2, 0.2, "{share:.1%}, below 95%."),
        (0.0, 0.0, "{share:.1%}, proven to {low:.1%}: gains nothing."),
    ],
)
def test_choice_that_the_other_split_denies_is_not_called_sure(gain, loss, end):
    """A headline that stays "you can … and be sure" above "below 95%" contradicts it."""
    chosen = [BASE, cell("vrsd", make_values(0.24, 0.01, 0.02))]
    other = [cell("top_k", make_values(), split="dev"), cell("vrsd", make_values(gain, loss, 0.01), split="dev")]
    decision = decide(chosen, confirm=other)
    assert decision.sure.confirmed is False
    head = "On test VRSD is 24% more diverse and looked sure to keep 95% of Top-k's Recall@10; on dev "
    assert decision.sentences[0] == head + describe(end, decision.sure)
    assert summarise_confirmation(decision.sure, "dev").startswith(f"on dev {describe(end, decision.sure)[:-1]}; ")
    assert "be sure to keep" not in str(decision)


@pytest.mark.parametrize(
    ("loss", "spread", "outcome", "is_denied"),
    [(0.04, 0.4, "held", False), (0.1, 0.1, "did not hold", True), (0.01, 0.01, "confirmed", False)],
)
def test_bet_that_keeps_the_share_on_the_other_split_has_held(loss, spread, outcome, is_denied):
    """A bet claims no bound, and was called "not confirmed" for the want of one."""
    chosen = [BASE, cell("vrsd", make_values(0.3, 0.04, 0.4))]
    other = [replace(BASE, split="dev"), cell("vrsd", make_values(0.25, loss, spread, seed=8), split="dev")]
    decision = decide(chosen, confirm=other)
    bet = decision.bet
    assert decision.sure is None and bet.confirmation == outcome and bet.is_denied == is_denied
    assert bet.describe_confirmation("dev") == f"{outcome} on dev"
    # A bet is held to its estimate, unless more is proven.
    said = f"on dev {bet.confirmed_share:.1%}: {outcome}"
    if outcome == "confirmed":
        said = describe("on dev {share:.1%}, proven to {low:.1%}: confirmed", bet)
    assert decision.sentences[1].endswith(f"; {said}.")
    (sentence,) = decision.confirmations
    assert sentence in decision.sentences and sentence.endswith(f": {outcome}.")
    assert summarise_confirmation(bet, "dev") == f"{said}; +25% (95% CI +25% to +25%)"


def test_confirmation_without_spread_follows_the_rule_of_three():
    """No loss on 200 queries: a loss of everything on a share 1 − s of all would be unseen with probability s²⁰⁰."""
    chosen = [BASE, cell("vrsd", make_values(0.24, 0.01, 0.02))]
    same = [replace(point, split="dev", values=point.values | {"recall": BASE.values["recall"]}) for point in chosen]
    for keep, is_confirmed in ((0.95, True), (0.98, True), (0.986, False)):
        option = decide(chosen, keep=keep, confirm=same).sure or decide(chosen, keep=keep, confirm=same).bet
        assert option.confirmed_share == 1 and option.confirmed_low**N_QUERIES == pytest.approx(0.05)
        assert option.confirmed is is_confirmed


def make_noisy():
    """Settings that lose a little too much: some look good by chance, so scores have to be scaled."""
    points = [BASE, *make_weights()]
    for seed in range(40):
        values = make_values(0.6 + 0.01 * seed, 0.03 + 0.001 * seed, 0.6, seed=5 + seed)
        points.append(cell("mmr", values, relevance_weight=0.4 - 0.01 * seed))
    return points


def test_bound_is_one_for_all_budgets_and_a_setting_is_sure_just_up_to_it():
    estimates = estimate_options(make_noisy())
    assert estimates.calibrate(0.95).scale < 1
    bounds = {option.label: option.sure_share for option in estimates.decide(0.95).options}
    assert len(set(bounds.values())) > 10
    for keep in (0.8, 0.86, 0.935, 0.95, 1.0):
        for option in estimates.decide(keep).options:
            assert option.sure_share == bounds[option.label] and option.is_sure == (option.sure_share >= keep)
    for label, bound in bounds.items():
        position = estimates.position_of[label]
        assert estimates.find_chances(bound)[position] == pytest.approx(SURE_CHANCE, abs=1e-9)
        below, above = (estimates.find_chances(bound + step)[position] for step in (-1e-6, 1e-6))
        assert below >= SURE_CHANCE > above


@pytest.mark.parametrize("seed", deepen(range(6), range(2, 6)))
def test_no_setting_is_surer_because_other_decoders_are_compared_too(seed):
    """Each decoder by itself, then beside one whose settings never change much, which makes all look steadier."""
    rng = np.random.default_rng(seed)
    noisy = [
        cell("mmr", make_values(0.5 - weight / 2, 0.04, 0.4, seed=seed + index), relevance_weight=weight)
        for index, weight in enumerate((0.4, 0.5, 0.6, 0.7))
    ]
    steady = [
        cell("dpp", make_values(0.6 * (1 - weight), rng.uniform(0, 0.02), 0.01, seed=seed), relevance_weight=weight)
        for weight in (0.5, 0.7, 0.9)
    ]
    few = [cell("vrsd", make_values(0.2, 0.03, 0.3, seed=seed + 20))]
    together = estimate_options([BASE, *noisy, *steady, *few])
    for own in (noisy, steady, few):
        alone = estimate_options([BASE, *own])
        positions = [together.position_of[point.label] for point in own]
        assert (together.sure_shares[positions] <= alone.sure_shares + 1e-9).all()


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        # name: gain, loss, change of nDCG
        ({"vrsd": (0.24, 0.02, -0.05), "max_sum": (0.235, 0.01, -0.05)}, "max_sum"),
        ({"vrsd": (0.246, 0.02, -0.05), "max_sum": (0.238, 0.01, -0.05)}, "max_sum"),
        ({"vrsd": (0.24, 0.01, -0.05), "max_sum": (0.235, 0.01, -0.01)}, "max_sum"),
        ({"vrsd": (0.24, 0.01, -0.01), "max_sum": (0.235, 0.01, -0.01)}, "vrsd"),
        ({"vrsd": (0.24, 0.02, -0.05), "max_sum": (0.225, 0.0, 0.0)}, "vrsd"),
        # Of a small gain a percentage point would be half.
        ({"vrsd": (0.02, 0.02, -0.05), "max_sum": (0.012, 0.01, 0.0)}, "vrsd"),
    ],
)
def test_of_sure_settings_that_gain_alike_the_safest_is_taken(settings, expected):
    points = [replace(BASE, values=BASE.values | {"ndcg": np.full(N_QUERIES, 0.5)})]
    for name, (gain, loss, change) in settings.items():
        values = make_values(gain, loss, 0.02, seed=3)
        points.append(cell(name, values | {"ndcg": np.full(N_QUERIES, 0.5 * (1 + change))}))
    decision = decide(points)
    assert decision.sure.decoder.select.spec.name == expected and decision.bet is None
    assert decision.sure.other_change == pytest.approx(settings[expected][2])
    assert find_best(decision.options).label == decision.sure.label
    # A gain that reads as less than the largest one needs its reason.
    told = f"VRSD is sure too, at {settings['vrsd'][0]:.0%}: of gains within a point the safest is taken."
    assert describe_tie(decision) == (told if expected == "max_sum" else "")


def test_best_settings_that_are_not_sure_are_listed_by_their_chances():
    """One that keeps the budget 15 times in 100 once stood above one that does 86 times, as it gains more."""
    points = [BASE, cell("vrsd", make_values(0.5, 0.1, 0.4)), cell("max_sum", make_values(0.2, 0.03, 0.3))]
    estimates = estimate_options(points)
    unlikely, likely = (estimates.build_option(position, 0.95) for position in (0, 1))
    assert unlikely.gain > likely.gain and unlikely.chance < likely.chance < SURE_CHANCE
    assert estimates.find_best_positions(0.95) == [1, 0]


def test_choices_of_any_budget_equal_decide_and_brute_force():
    points = [BASE, *make_weights(), cell("vrsd", make_values(0.3, -0.02, 0.6, seed=5))]
    estimates, seen = estimate_options(points), set()
    labels = [point.label for point in points[1:]]
    assert [estimates.position_of[label] for label in labels] == list(range(11))
    for keep in np.linspace(0.8, 1.05, 11):
        decision = decide(points, keep=keep)
        expected = []
        for threshold in (SURE_CHANCE, BET_CHANCE):
            passing = [option for option in decision.options if option.chance >= threshold]
            # VRSD gains as much as MMR at .7: of the two that which is likelier.
            best = max(passing, key=lambda option: (round(option.gain, 9), option.chance), default=None)
            expected.append(best and best.label)
        expected[1] = None if expected[1] == expected[0] else expected[1]
        assert [estimates.aligned.cells[1 + position].label for position in estimates.find_best_positions(keep)] == [
            option.label
            for option in sorted(
                list_best_options(decision),
                key=lambda o: (o.label != expected[0], not o.is_sure, 0 if o.is_sure else -o.chance, -o.gain),
            )
        ]
        chosen = [None if position is None else labels[position] for position in estimates.find_choices(keep)]
        assert chosen == expected == [option and option.label for option in (decision.sure, decision.bet)]
        nearest = max(decision.options, key=lambda option: (option.chance, option.gain))
        assert labels[estimates.find_nearest(keep)] == nearest.label == decision.nearest.label
        short = estimates.decide(keep, with_options=False)
        assert short.options == () and short.sentences == decision.sentences
        for option in decision.options:
            assert vars(estimates.build_option(estimates.position_of[option.label], keep)) == vars(option)
        seen.add((expected[0] is None, expected[1] is None))
    assert seen == {(False, True), (False, False), (True, False), (True, True)}


def test_best_setting_of_a_decoder_is_the_one_that_was_chosen():
    """A headline named NNN at one λ as the bet, and the table below NNN at another, which was likelier."""
    points = [
        BASE,
        cell("vrsd", make_values(0.05, -0.02)),
        cell("mmr", make_values(0.3, 0.04, 0.2, seed=3), relevance_weight=0.6),
        cell("mmr", make_values(0.5, 0.05, 0.3, seed=4), relevance_weight=0.4),
    ]
    estimates = estimate_options(points)
    decision, seen = estimates.decide(0.95), set()
    modest, bold = (next(o for o in decision.options if o.label == point.label) for point in points[2:])
    assert decision.bet.label == bold.label and bold.chance < modest.chance < SURE_CHANCE
    assert [option.label for option in list_best_options(decision)] == [points[1].label, bold.label]
    for keep in np.linspace(0.9, 1.0, 11):
        at_budget = estimates.decide(keep)
        best = {estimates.aligned.cells[1 + position].label for position in estimates.find_best_positions(keep)}
        choices = [option for option in (at_budget.sure, at_budget.bet) if option is not None]
        assert best == {option.label for option in list_best_options(at_budget)}
        # Where both choices are of one decoder its row is the sure one's.
        of_decoder = {option.decoder.select.spec.name: option.label for option in reversed(choices)}
        assert set(of_decoder.values()) <= best
        seen.add(at_budget.bet and at_budget.bet.label)
    assert len(seen) > 1


def test_time_as_objective_gives_the_fastest_that_keeps_the_budget():
    latencies = {"top_k": 10.0, "vrsd": 6.0, "max_sum": 4.0, "nnn": 1.0, "dpp": None}
    losses = {"top_k": 0.0, "vrsd": 0.0, "max_sum": 0.01, "nnn": 0.4, "dpp": 0.0}
    points = []
    for name, latency in latencies.items():
        spread = 0.02 if losses[name] else 0.0
        points.append(cell(name, {"recall": make_values(0, losses[name], spread)["recall"]}, latency=latency))
    estimates = estimate_options(points, objective=TIME_AXIS)
    assert [point.method for point in estimates.aligned.cells] == ["top_k", "vrsd", "max_sum", "nnn"]
    assert estimates.gains == pytest.approx([0.4, 0.6, 0.9])
    sure, bet = estimates.find_choices(0.95)
    assert estimates.aligned.cells[1 + sure].method == "max_sum" and bet is None
    assert estimates.aligned.cells[1 + estimates.find_choices(0.5)[0]].method == "nnn"
    with pytest.raises(ParamError, match=TIME_AXIS):
        decide(points, metric=TIME_AXIS)


def test_decision_as_json_survives_a_file():
    other = [replace(point, split="dev") for point in (BASE, *make_weights())]
    decision = decide([BASE, *make_weights()], confirm=other)
    facts = json.loads(json.dumps(decision.as_json(), allow_nan=False))
    assert tuple(facts["sentences"]) == decision.sentences and facts["keep"] == 0.95 and facts["queries"] == N_QUERIES
    assert (facts["baseline"], facts["confirm_split"], facts["confirm_queries"]) == ("Top-k", "dev", N_QUERIES)
    for role in ("sure", "bet"):
        option, written = getattr(decision, role), facts[role]
        assert decoder_from_json(written.pop("decoder")) == option.decoder
        assert written == {name: getattr(option, name) for name in written} and written["confirmed"] in (True, False)
    assert [option["gain"] for option in facts["options"]] == [option.gain for option in decision.options]
    nothing = json.loads(json.dumps(decide([BASE]).as_json(), allow_nan=False))
    assert nothing["sure"] is nothing["bet"] is None and nothing["options"] == nothing["left_out"] == []


def test_setting_measured_and_on_a_curve_counts_once_as_measured():
    space, queries, qrels = toy(batch=40)
    queries = queries.take([queries.position[query] for query in sorted(qrels.grades)])
    arguments = {"k": 5, "metrics": ("recall", "ilad")}
    decoders = [engine.Decoder(engine.make("top_k")), engine.Decoder(engine.make("mmr", relevance_weight=0.5))]
    base, measured = engine.sweep(decoders, space, queries, qrels, **arguments)
    curve = engine.exact_frontier("mmr", space, queries, qrels, resamples=100, **arguments)
    # As where documents tie: other documents, so other values.
    other = replace(measured, values=measured.values | {"ilad": measured.values["ilad"] + 0.25})
    estimates = estimate_options([base, other, curve], k=5)
    labels = [engine.Decoder(curve.make_stage(round(value, 6))).label for value in curve.band_positions]
    positions = estimates.find_positions(curve)
    assert len(labels) == len(positions) == len(estimates.gains) == 101
    assert [estimates.position_of[label] for label in labels] == positions and positions[50] == 0
    assert {point.label for point in estimates.aligned.cells[1:]} == set(labels)
    is_common = np.isin(other.queries, estimates.aligned.queries)
    options = [estimates.build_option(position, 0.95) for position in range(101)]
    assert [option.is_on_curve for option in options] == [False] + [True] * 100, "one of them was measured"
    decision = replace(estimates.decide(0.95), left_out=tuple(options))
    assert any(line.startswith("Left out: 101 settings (100 of them values on exact") for line in decision.sentences)
    gain = other.values["ilad"][is_common].mean() / base.values["ilad"][is_common].mean() - 1
    assert estimates.gains[0] == pytest.approx(gain)
    assert estimate_options([base, measured], k=5).find_positions(curve)[49:52] == [None, 0, None]


def test_nothing_is_sure_beside_a_baseline_that_is_hardly_judged(monkeypatch):
    all_judged, half_judged = {"returned": 10, "judged": 10}, {"returned": 10, "judged": 5}
    points = [
        cell("top_k", make_values(), counts=half_judged),
        cell("vrsd", make_values(0.3, 0.0, 0.01), counts=all_judged),
    ]
    assert decide(points).sure.name == "VRSD"
    monkeypatch.setattr(type(points[0]), "provenance", {"judgements": "pooled"}, raising=False)
    decision, estimates = decide(points), estimate_options(points)
    assert decision.sure is decision.bet is None and [option.name for option in decision.left_out] == ["VRSD"]
    assert "Left out: 1 setting, as fewer than 95% of Top-k's documents are judged." in decision.sentences
    assert estimates.find_cell_to_judge(0.95) == 0 and estimates.count_missing(0.95) == 5 * N_QUERIES


def test_declared_judgements_leave_out_nothing_if_complete_and_are_said(monkeypatch):
    half_judged = {"returned": 10, "judged": 5}
    points = [
        cell("top_k", make_values(), counts=half_judged),
        cell("vrsd", make_values(0.3, 0.0, 0.01), counts=half_judged),
    ]
    for kind, is_pooled, sentence in (
        ("declared complete", False, "count as not relevant, as the judgements were declared complete."),
        ("declared pooled", True, "declared pooled, so a document without a grade counts as unknown."),
    ):
        monkeypatch.setattr(type(points[0]), "provenance", {"judgements": kind}, raising=False)
        decision = decide(points)
        assert decision.is_pooled == bool(decision.left_out) == is_pooled and decision.is_declared
        assert sum(each.endswith(sentence) for each in decision.sentences) == 1
        assert UNKNOWN_TEXT not in decision.sentences and decision.as_json()["is_declared"]


def test_pooled_judgements_leave_out_what_is_hardly_judged(monkeypatch):
    all_judged, half_judged = {"returned": 10, "judged": 10}, {"returned": 6, "judged": 3}
    points = [
        cell("top_k", make_values(), counts=all_judged),
        cell("vrsd", make_values(0.3, 0.0, 0.01), counts=half_judged),
        cell("mmr", make_values(0.1, 0.0, 0.01), counts=all_judged, relevance_weight=0.9),
    ]
    assert decide(points).sure.name == "VRSD" and decide(points).sure.judged == 0.5
    monkeypatch.setattr(type(points[0]), "provenance", {"judgements": "pooled", "relevant_from": "2"}, raising=False)
    decision = decide(points)
    assert decision.sure.name.startswith("MMR") and decision.judged == 1.0 and decision.relevant_from == 2
    assert decision.sentences[-1] == "A document counts as relevant from grade 2."
    assert [option.name for option in decision.left_out] == ["VRSD"]
    vrsd = next(option for option in decision.options if option.name == "VRSD")
    assert vrsd.chance >= SURE_CHANCE and vrsd.is_left_out and not vrsd.is_sure and vrsd.sure_share == 0
    assert find_best(decision.options).name.startswith("MMR") and find_best([vrsd]) is vrsd
    assert estimate_options(points).count_missing(0.95) == 3 * N_QUERIES, "of 6 that are returned, though k is 10"
    assert decision.sentences[-5] == "Left out: 1 setting with fewer than 95% of the documents judged: judge more."
    assert decision.sentences[-3] == f"100% of the documents that {decision.sure.name} returns are judged."
    assert decision.sentences[-2] == UNKNOWN_TEXT
    unmeasured = decide([cell("top_k", make_values()), cell("vrsd", make_values(0.3, 0.0, 0.01))])
    assert unmeasured.sure is None and len(unmeasured.left_out) == 1
    assert "how many of their documents are judged is unknown" in " ".join(unmeasured.sentences)
    assert not any("nearest" in sentence for sentence in unmeasured.sentences)
    without_candidate = decide(points[:2])
    assert (without_candidate.judged, without_candidate.judged_most) == (0.5, 1), "the baseline's are all judged"
    assert without_candidate.sentences[-3:-1] == (
        "From 50% to 100%, by setting, of the documents that a setting returns are judged.",
        UNKNOWN_TEXT,
    )
    all_judged_points = [points[0], points[2]]
    assert UNKNOWN_TEXT not in decide(all_judged_points).sentences, "it changes nothing"


@pytest.mark.parametrize(("metric", "low", "high"), [("recall", 2 / 3, 1.5), ("precision", 2 / 3, 1.5)])
def test_interval_of_pooled_judgements_has_the_ends_of_unjudged_documents(monkeypatch, metric, low, high):
    counts = {"returned": 20, "judged": 19, "relevant": 2, "total_relevant": 4}
    values = {"recall": np.full(9, 2 / 4), "precision": np.full(9, 2 / 20), "ilad": np.full(9, 0.4)}
    points = [cell(name, values, 20, counts=counts) for name in ("top_k", "vrsd")]
    (option,) = decide(points, metric=metric, k=20).options
    assert (option.low, option.share_kept, option.high) == (1, 1, 1), "files with positive grades alone are complete"
    monkeypatch.setattr(type(points[0]), "provenance", {"judgements": "pooled"}, raising=False)
    (option,) = decide(points, metric=metric, k=20).options
    # The unjudged document of Top-k is relevant, so it has 3 and VRSD 2; or the other way round.
    assert (option.low, option.share_kept, option.high) == pytest.approx((low, 1, high))


@pytest.mark.parametrize(
    ("ndcg_loss", "mrr_loss", "metric"),
    [
        (0.26, 0.4, "ndcg"),
        (0.03, 0.4, "mrr"),
        (0.06, 0.0, None),
        (0.0, 0.0, None),
        (None, 0.4, "mrr"),
        (-0.3, 0.0, None),
    ],
)
def test_clear_loss_in_another_metric_is_said_beside_the_sure_setting(ndcg_loss, mrr_loss, metric):
    """A loss of 6% on average whose interval reaches −5% is not clear; of two clear losses nDCG's is said."""
    noise = np.random.default_rng(0).normal(0, 0.2, N_QUERIES)
    noise -= noise.mean()
    base_values, values = make_values(), make_values(0.3, 0.0, 0.01)
    for name, loss in (("ndcg", ndcg_loss), ("mrr", mrr_loss)):
        if loss is not None:
            base_values[name] = np.full(N_QUERIES, 0.8)
            values[name] = 0.8 * (1 - loss + noise)
    points = [cell("top_k", base_values), cell("vrsd", values)]
    decision = decide(points)
    assert decision.sure.name == "VRSD" and (decision.cost and decision.cost.metric) == metric
    costs = [sentence for sentence in decision.sentences if sentence.startswith("It costs")]
    if metric is None:
        assert costs == []
        return
    loss = {"ndcg": ndcg_loss, "mrr": mrr_loss}[metric]
    low, high = np.array(interval(values[metric], base_values[metric])) / 0.8
    title = {"ndcg": "nDCG", "mrr": "MRR"}[metric]
    assert costs == [f"It costs {title}@10: −{loss:.0%} (−{-low:.0%} to −{-high:.0%})."]
    assert decision.sentences[1] == costs[0] and json.loads(json.dumps(decision.as_json()))["cost"]["metric"] == metric


def test_cost_of_a_setting_on_a_curve_is_that_of_the_same_setting_measured():
    space, queries, qrels = toy(batch=60)
    grades = {query: given for query, given in qrels.grades.items() if any(given.values())}
    arguments = {"qrels": engine.Qrels(grades), "k": 5, "metrics": ("recall", "ilad", "ndcg", "mrr")}
    base, measured = engine.sweep(
        [engine.Decoder(engine.make("top_k")), engine.Decoder(engine.make("mmr", relevance_weight=0.2))],
        space, queries, **arguments,
    )  # fmt: skip
    curve = engine.exact_frontier("mmr", space, queries, resamples=100, **arguments)
    on_curve, alone = estimate_options([base, curve], k=5), estimate_options([base, measured], k=5)
    cost = on_curve.find_cost(on_curve.position_of[measured.label])
    assert cost is not None and cost.metric == "ndcg" and cost == alone.find_cost(0)


def make_graded(grades, n_documents=60, n_queries=50):
    """Decoders, space, queries and judgements: each query's nearest documents have random grades."""
    rng = np.random.default_rng(5)
    ids = tuple(map(str, range(n_documents)))
    vectors, asked = (rng.normal(size=(n, 8)).astype(np.float32) for n in (n_documents, n_queries))
    space = Space(engine.Corpus(ids, ids), Embeddings(ids, vectors / np.linalg.norm(vectors, axis=1, keepdims=True)))
    queries = Embeddings(tuple(f"q{i}" for i in range(n_queries)), asked)
    by_query = {}
    for query, scores in zip(queries.ids, asked @ space.embeddings.vectors.numpy().T, strict=True):
        nearest = np.argsort(-scores)[:4].tolist()
        by_query[query] = {str(row): int(rng.choice(grades)) for row in nearest}
    decoders = [engine.Decoder(engine.make("top_k")), *engine.grid("mmr", 6), *engine.grid("vrsd")]
    return decoders, space, queries, Qrels(by_query)


LEVELS = [((1, 2), 2), ((1, 1, 1, 3), 3), ((0, 0, 1, 2), 2)]
JUDGED_METRICS = ["recall", "comp", "precision", "ndcg", "mrr", "budget_recall"]
LEVEL_CASES = [(*level, metric) for metric in JUDGED_METRICS for level in LEVELS]


@pytest.mark.parametrize(
    ("grades", "next_level", "metric"),
    deepen(LEVEL_CASES, [case for row, case in enumerate(LEVEL_CASES) if row // 3 % 2 or row % 3 != row // 3 % 3]),
)
def test_decision_at_next_level_is_that_of_judgements_with_that_level(tmp_path, grades, next_level, metric):
    decoders, space, queries, qrels = make_graded(grades)
    decisions = []
    for level in (1, next_level):
        leveled = replace(qrels, relevant_from=level)
        arguments = {"qrels": leveled, "k": 5, "metrics": (metric, "ilad")}
        points = list(engine.sweep(decoders, space, queries, **arguments, store=tmp_path / "cells.db"))
        Store(tmp_path / f"{level}.db").put_curve(
            engine.exact_frontier("dpp", space, queries, **arguments, resamples=100)
        )
        points += Store(tmp_path / f"{level}.db").read_curves()
        decisions.append(estimate_options(points, metric=metric, k=5).decide(0.8))
    decision, expected = decisions
    after = decision.next_level
    assert (after.relevant_from, after.queries) == (next_level, expected.queries) and expected.next_level is None
    for option, other in ((after.sure, expected.sure), (after.bet, expected.bet), (after.nearest, expected.nearest)):
        assert (option and option.label) == (other and other.label)
        figures = [(o.gain, o.share_kept, o.low, o.high, o.chance) for o in (option, other) if o is not None]
        assert not figures or figures[0] == pytest.approx(figures[1])
    labels = [[option and option.label for option in (d.sure, d.bet)] for d in decisions]
    assert decision.differs_at_next_level == (labels[0] != labels[1])
    assert any(s.startswith(f"Counted from grade {next_level}, ") for s in decision.sentences) == (
        decision.differs_at_next_level
    )
    facts = json.loads(json.dumps(decision.as_json(), allow_nan=False))
    assert facts["differs_at_next_level"] == decision.differs_at_next_level
    assert facts["next_level"]["relevant_from"] == next_level


def test_another_choice_at_the_next_level_is_said_for_a_short_decision_only_on_demand(monkeypatch):
    graded = {"relevant_next": 1, "total_relevant_next": 2}
    points = [
        cell("top_k", make_values(), counts=graded),
        cell("vrsd", make_values(0.3, 0.0), counts=graded | {"relevant_next": 0}),
        cell("mmr", make_values(0.1, 0.0), counts=graded, relevance_weight=0.8),
    ]
    assert decide(points).next_level is None, "the judgements have one grade"
    monkeypatch.setattr(type(points[0]), "provenance", {"next grade": "2"}, raising=False)
    decision = decide(points)
    assert decision.sure.name == "VRSD" and decision.sentences[-1] == (
        "Counted from grade 2, MMR · λ 0.8 would be the sure one."
    )
    estimates = estimate_options(points)
    assert estimates.decide(0.95, with_options=False).next_level is None
    short = estimates.decide(0.95, with_options=False, with_next_level=True)
    assert short.sentences == decision.sentences and short.next_level.options == ()
    assert decide(points, metric="ilad", objective="ilad").next_level is None, "no grade changes either"


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"keep": 95}, ParamError, "keep must be a number"),
        ({"metric": "redundancy"}, ParamError, "more is better"),
        ({"metric": "recal"}, ParamError, "recal"),
        ({"baseline": "mmr"}, ParamError, "none is called 'mmr'"),
        ({"k": 5}, DataError, "k = 5"),
    ],
)
def test_wrong_argument_is_refused_by_name(arguments, error, text):
    with pytest.raises(error, match=text):
        decide([BASE, cell("vrsd", make_values(0.1))], **arguments)


def test_frame_of_cells_is_refused():
    with pytest.raises(DataError, match=r"points must be cells, as engine\.sweep yields; got str"):
        decide(pd.DataFrame({"recall": [0.5]}))


def test_no_share_without_recall_and_no_decision_on_one_query():
    nothing = cell("top_k", {"recall": np.zeros(3), "ilad": np.ones(3)})
    with pytest.raises(DataError, match="is 0 on 3 queries"):
        decide([nothing])
    single = cell("top_k", {"recall": [1.0], "ilad": [0.5]})
    with pytest.raises(DataError, match="got 1"):
        decide([single])
    with pytest.raises(ParamError, match="top_k"):
        decide([cell("vrsd", make_values())])


def test_curves_are_solved_for_their_parameter(tmp_path):
    data = engine.load_dataset("numpy-api")
    space = Space(data.corpus, engine.embed(data.corpus))
    queries, qrels = engine.embed(data.judged("dev").sample(40)), data.qrels["dev"]
    arguments = {"k": 10, "metrics": ("recall", "ilad")}
    (base,) = engine.sweep([engine.Decoder(engine.make("top_k"))], space, queries, qrels, **arguments)
    curve = engine.exact_frontier("mmr", space, queries, qrels, resamples=100, **arguments)
    decision = decide([base, curve], keep=0.9)
    assert decision.bet is not None or decision.sure is not None
    weights = sorted(option.decoder.select.relevance_weight for option in decision.options)
    for option in filter(None, (decision.sure, decision.bet)):
        weight = option.decoder.select.relevance_weight
        assert min(abs(weight - other) for other in weights if other != weight) == pytest.approx(0.01)
        measured = engine.measure(engine.decode(option.decoder, space, queries, 10), space, queries, qrels)
        assert option.share_kept == pytest.approx(measured.mean["recall"] / base.mean["recall"], abs=1e-6)
        assert option.gain == pytest.approx(measured.mean["ilad"] / base.mean["ilad"] - 1, abs=1e-6)
    Store(tmp_path / "sweep.db").put_curve(curve)
    (stored,) = Store(tmp_path / "sweep.db").read_curves()
    stored_options = decide([base, stored], keep=0.9).options
    for option, stored_option in zip(decision.options, stored_options, strict=True):
        assert stored_option.label == option.label
        assert (stored_option.gain, stored_option.chance) == (option.gain, option.chance)


def test_embeddings_alone_suffice():
    rng = np.random.default_rng(0)
    ids = tuple(map(str, range(40)))
    vectors = engine.Embeddings(ids, np.eye(40, dtype=np.float32))
    space = Space(engine.Corpus(ids, ids), vectors)
    asked = rng.normal(size=(30, 40)).astype(np.float32)
    queries = Embeddings(tuple(f"q{i}" for i in range(30)), asked / np.linalg.norm(asked, axis=1, keepdims=True))
    qrels = Qrels({query: {str(int(row)): 1} for query, row in zip(queries.ids, asked.argmax(axis=1), strict=True)})
    decoders = [engine.Decoder(engine.make("top_k")), engine.Decoder(engine.make("mmr", relevance_weight=0.5))]
    decision = decide(engine.sweep(decoders, space, queries, qrels, k=5), k=5)
    assert decision.queries == 30 and len(decision.options) == 1


@pytest.mark.threat("queries without anything to lose beside a few with", "they make nothing sure, and confirm nothing")
def test_queries_on_which_the_baseline_finds_nothing_make_nothing_sure():
    """Ten queries that lose nothing leave 60% for 95%; ninety on which nothing can be lost made that 99%."""
    for n_at_stake, is_enough in ((10, False), (100, True)):
        recall = np.repeat([1.0, 0.0], [n_at_stake, 100 - n_at_stake])
        cells, others = (
            [
                cell("top_k", {"recall": recall, "ilad": np.full(100, 0.4)}, split=split),
                cell("mmr", {"recall": recall, "ilad": np.full(100, 0.5)}, split=split, relevance_weight=0.7),
            ]
            for split in ("dev", "test")
        )
        assert (decide(cells).sure is not None) == is_enough
        sure = decide(cells, keep=0.6, confirm=others).sure
        assert sure.confirmed_low == pytest.approx(0.05 ** (1 / n_at_stake))
        assert sure.chance == pytest.approx(1 - 0.6**n_at_stake, abs=1e-6) or is_enough


def make_passage_cells(stray_cosine):
    """Cells of passages: Top-k, a setting of a small gain, and one of a large gain with sets of this cosine sum."""
    ids = tuple(f"d{i:04}?" for i in range(N_QUERIES))

    def measure(method, gain, cos_sum, **params):
        values = make_values(gain, cos_sum=np.full(N_QUERIES, cos_sum))
        return cell(method, values, split="passages", queries=ids, counts={"returned": 10}, **params)

    near = measure("mmr", 0.1, 0.8, relevance_weight=0.9)
    return [measure("top_k", 0.0, 0.8), near, measure("mmr", 0.5, stray_cosine, relevance_weight=0.5)]


def test_verdict_on_passages_begins_with_them_and_warns_of_what_they_cannot_show():
    decision = decide(make_passage_cells(0.8)[:2])
    first, caution = decision.sentences[:2]
    assert first.startswith("On passages cut from your documents, you can be 10% more diverse")
    assert (
        caution == "Passages cannot show whether the rest of a list is on topic: have queries judged before you ship."
    )
    assert decision.as_json()["is_on_passages"]


@pytest.mark.parametrize(("stray_cosine", "is_stray"), [(0.8, False), (0.6, True)])
def test_setting_whose_sets_are_much_less_relevant_than_the_baseline_s_is_not_chosen_on_passages(
    stray_cosine, is_stray
):
    cells = make_passage_cells(stray_cosine)
    estimates = replace(estimate_options(cells), corpus_relevance=0.1)
    # Ten documents with ILAD of .4 have a sum of length √(10 + 90 · .6), with .6 a length of √(10 + 90 · .4).
    relevances = np.array([0.8, stray_cosine]) * np.sqrt([64, 46]) / 10
    assert is_stray == (relevances[1] - 0.1 < 0.8 * (relevances[0] - 0.1))
    decision = estimates.decide(0.95)
    assert decision.sure.label == cells[1 if is_stray else 2].label and decision.bet is None
    assert [option.is_stray for option in decision.left_out] == [True] * is_stray
    said = (
        "Left out: 1 setting whose lists leave the topic: above the corpus's mean, their relevance is under 80% of "
        "Top-k's."
    )
    assert (said in decision.sentences) == is_stray
    assert estimates.count_missing(0.95) == 0, "judging its documents would not help"
    assert estimate_options(cells).decide(0.95).sure.label == cells[2].label, "nothing is known of the corpus"


def test_few_queries_give_no_bet_and_no_chance_but_how_many_more_to_judge(monkeypatch):
    """Of 4 queries each decoder kept the budget "47 in 100", and a list with a garden hose was "a bet"."""
    few, enough = MIN_DECISION_QUERIES - 1, MIN_DECISION_QUERIES
    values = {"vrsd": make_values(0.6, 0.03, 0.1, seed=2), "max_sum": make_values(0.5, 0.01, 0.1, seed=2)}

    def take(n_queries):
        points = [cell("top_k", make_values()), *(cell(name, named) for name, named in values.items())]
        return [
            replace(each, queries=each.queries[:n_queries], values={k: v[:n_queries] for k, v in each.values.items()})
            for each in points
        ]

    estimates = estimate_options(take(few))
    decision = estimates.decide(0.95)
    assert decision.sure is None and decision.bet is None and decision.missing_queries == 1
    assert decision.sentences[0] == f"{few} queries cannot tell what keeps 95% of Top-k's Recall@10: judge 1 more."
    assert "bet" not in str(decision) and "nearest" not in str(decision) and decision.warning == ""
    assert {(option.chance, option.sure_share, option.is_sure) for option in decision.options} == {(None, 0.0, False)}
    assert "chance unknown" in repr(decision.options[0])
    json.dumps(decision.as_json(), allow_nan=False)
    assert decision.to_frame()["chance"].isna().all()
    kept = max(decision.options, key=lambda option: (option.share_kept, option.gain))
    assert decision.nearest.label == kept.label == find_best(decision.options).label
    best = [estimates.aligned.cells[1 + position].label for position in estimates.find_best_positions(0.95)]
    assert best == [o.label for o in sorted(decision.options, key=lambda o: (-o.share_kept, -o.gain))]
    decided = decide(take(enough))
    assert decided.missing_queries == 0 and all(option.chance is not None for option in decided.options)
    assert "cannot tell" not in str(decided)
    assert decide(take(4)).sentences[0].endswith(": judge 21 more.")
    short = estimate_options(take(few))
    monkeypatch.setattr(type(short), "is_left_out", np.array([True, True]))
    assert short.find_best_left_out(0.95) == short.position_of[kept.label]


def test_model_that_narrows_intervals_counts_as_more_queries():
    use = JudgeUse(judge="m", model_queries=300, person_queries=10, weight=1.0, correlation=0.9, narrowing=0.6)
    assert count_missing_queries(10) == count_missing_queries(10, replace(use, narrowing=1.0)) == 15
    assert count_missing_queries(10, use) == 0 and count_missing_queries(8, use) == 17
    assert count_missing_queries(24, replace(use, narrowing=0.999)) == 1
