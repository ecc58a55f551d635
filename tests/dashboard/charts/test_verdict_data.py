"""The verdict that the browser gets: sentences, choices and chances at every budget."""

from dataclasses import replace

import pytest

import engine
from dashboard.charts import verdict_data
from dashboard.charts.frontier import list_budgets
from dashboard.charts.palette import method_look
from dashboard.charts.verdict_data import build_verdict_data, describe_denied_role, describe_scope, list_headlines
from engine.evaluation.decide import estimate_options
from engine.evaluation.off_topic import OffTopicCounts
from support.sweeps import measure_toy


@pytest.fixture(scope="module")
def measured():
    return measure_toy()


@pytest.fixture(scope="module")
def estimates(measured):
    return estimate_options(measured, k=5)


def test_sentences_choices_and_chances_of_every_budget_are_those_of_its_decision(measured, estimates):
    data = build_verdict_data(estimates, estimates.decide(0.9), False)
    assert (data["budget"], data["low"], data["step"], data["dark"]) == (90, 80, 0.5, False)
    assert len(data["budgets"]) == len(list_budgets())
    for share, budget in zip(list_budgets(), data["budgets"], strict=True):
        decision = estimates.decide(share, with_options=False)
        assert tuple(budget["sentences"]) == decision.sentences[: len(budget["sentences"])], share
        assert decision.sentences[len(budget["sentences"])].startswith("Chosen on"), "all but the origin"
        chosen = zip((decision.sure, decision.bet), budget["choices"], budget["chances"], strict=True)
        for option, number, chance in chosen:
            assert (option is None) == (number is None) == (chance is None), share
            if option is not None:
                assert data["options"][number]["label"] == option.label
                assert chance == option.times_in_hundred
    for share in (0.865, 1.05):
        budget = data["budgets"][round((100 * share - data["low"]) / data["step"])]
        decision = engine.decide(measured, keep=share, k=5)
        assert tuple(budget["sentences"]) == decision.sentences[: len(budget["sentences"])]
        for number, option in zip(budget["choices"], (decision.sure, decision.bet), strict=True):
            assert (number is None) == (option is None)
            assert option is None or data["options"][number]["name"] == option.name
    assert len(data["options"]) > 5 and len({option["label"] for option in data["options"]}) == len(data["options"])


def test_choice_has_its_decoders_look_and_its_figures(estimates):
    decision = estimates.decide(0.9)
    data, sure = build_verdict_data(estimates, decision, False), decision.sure
    shown = next(option for option in data["options"] if option["label"] == sure.label)
    look = method_look(sure.decoder.select.spec.name, "")
    assert {name: shown[name] for name in look} == look | {"name": sure.name}
    assert shown["facts"] == f"+{sure.gain:.0%} diversity · {sure.share_kept:.1%} of Top-k's Recall"
    assert shown["interval"] == f"95% interval with two sides: {sure.low:.1%} to {sure.high:.1%}"


def test_what_is_surely_kept_is_never_below_the_budget_nor_rounded_up(estimates):
    for share, budget in zip(
        list_budgets(), build_verdict_data(estimates, estimates.decide(0.9), False)["budgets"], strict=True
    ):
        decision = estimates.decide(share, with_options=False)
        for option, text in zip((decision.sure, decision.bet), budget["sureShares"], strict=True):
            assert (text is None) == (option is None)
            if option is not None:
                bound = float(text.removeprefix("at least ").rstrip("%"))
                assert option.sure_share - 0.001 <= bound / 100 <= option.sure_share + 1e-6
                assert bound >= 100 * share - 1e-9 or not option.is_sure


@pytest.mark.parametrize("is_confirmed", [True, False])
def test_what_another_split_says_is_in_the_headline_of_its_budget_alone(estimates, is_confirmed):
    plain = estimates.decide(0.9)
    sure = replace(plain.sure, confirmed=is_confirmed, confirmed_share=0.87, confirmed_low=0.84, confirmed_gain=0.1)
    sure = replace(sure, confirmed_budget=0.9)
    decision = replace(plain, sure=sure, confirm_split="test", confirm_queries=9)
    before, after = (build_verdict_data(estimates, each, False) for each in (plain, decision))
    kept_text = "87.0%, proven to 84.0%: confirmed" if is_confirmed else "87.0%, below 90%"
    assert after["confirmations"][0]["text"] == f"On test {kept_text}; +10%"
    changed = [x["sentences"][0] for x, y in zip(after["budgets"], before["budgets"], strict=True) if x != y]
    assert len(changed) == 1
    if is_confirmed:
        assert changed[0].endswith(f": {plain.sure.name}; confirmed on test.") and after["denial"] == ""
    else:
        assert changed[0].endswith("; on test 87.0%, below 90%.")
        assert after["denial"] == f"looked sure{f' on {plain.split}' if plain.split else ''}, not on test"


def test_headline_of_a_choice_that_the_other_split_agrees_with_says_so_and_is_not_red(estimates):
    plain = estimates.decide(0.9)
    facts = {"confirmed_share": 0.93, "confirmed_low": 0.88, "confirmed_queries": 158, "confirmed_needed": 330}
    sure = replace(plain.sure, confirmed=False, has_held=True, confirmed_budget=0.9, **facts)
    decision = replace(plain, sure=sure, split="dev", confirm_split="test", confirm_queries=158)
    data = build_verdict_data(estimates, decision, False)
    proof = "158 queries prove only 88.0%, about 330 would prove 90%"
    assert data["confirmations"][0]["text"] == f"On test 93.0%, which agrees; {proof}"
    assert not data["confirmations"][0]["isDenied"] and data["denial"] == "" and data["origin"] == " on dev"
    assert list_headlines(decision)[0] == f"{list_headlines(plain)[0][:-1]}; on test 93.0%: agrees, not proven."


def test_setting_denied_for_want_of_a_gain_is_not_said_to_be_unsure(estimates):
    plain = estimates.decide(0.9)
    sure = replace(plain.sure, confirmed=False, confirmed_share=1.0, confirmed_low=0.997, confirmed_gain=-0.002)
    decision = replace(plain, sure=sure, split="dev", confirm_split="test", confirm_queries=9)
    assert describe_denied_role(decision) == "sure on dev, gains nothing on test"
    assert list_headlines(decision)[0].endswith("; on test 100.0%, proven to 99.7%: gains nothing.")


def test_headline_says_which_decoders_are_compared_unless_all_are(measured, estimates, monkeypatch):
    scope, decision = describe_scope(estimates), estimates.decide(0.9)
    assert scope == f"With 3 of {len(engine.methods('selector')) - 1} decoders"
    first = build_verdict_data(estimates, decision, False, scope)["budgets"][20]["sentences"][0]
    assert first == f"{scope} you can{decision.sentences[0].removeprefix('You can')}"
    denied = replace(decision.sure, confirmed=False, confirmed_share=0.93, confirmed_low=0.88)
    headline = list_headlines(replace(decision, sure=denied, confirm_split="test"), scope)[0]
    assert headline.startswith("At first"), "that is about one setting"
    few = estimate_options([cell for cell in measured if cell.method in ("top_k", "vrsd")], k=5)
    assert describe_scope(few) == "With VRSD alone"
    monkeypatch.setattr(verdict_data, "methods", lambda kind: dict.fromkeys(("top_k", "mmr", "vrsd", "nnn")))
    assert describe_scope(estimates) == ""


def test_headlines_are_the_sentences_on_the_choices(estimates):
    counts = set()
    for share in list_budgets():
        decision = estimates.decide(share, with_options=False)
        headlines = list_headlines(decision)
        assert not any(line.startswith(("Chosen on", "Left out")) for line in headlines)
        assert (len(headlines) == 1) == (decision.sure is not None and decision.bet is None)
        counts.add(len(headlines))
    assert 2 in counts
    decision = estimates.decide(0.9)
    assert len(list_headlines(replace(decision, bet=None))) == 1
    assert len(list_headlines(replace(decision, sure=None, bet=None))) == 2, "the nearest is named"
    nothing = replace(decision, sure=None, bet=None, nearest=None, left_out=decision.options[:1])
    assert list_headlines(nothing) == nothing.sentences[:1] and "Left out" in nothing.sentences[1]


def test_counted_off_topic_documents_are_said_at_every_budget_with_that_choice_and_of_no_other(estimates):
    plain = estimates.decide(0.9, with_options=False)
    counts = OffTopicCounts(
        baseline="Top-k", k=5, baseline_count=0.0, counts={plain.sure.label: 1.2}, n_queries=9, n_all_queries=9
    )
    data = build_verdict_data(estimates, replace(plain, off_topic=counts), False)
    texts = {option["label"]: option["offTopic"] for option in data["options"]}
    assert texts.pop(plain.sure.label) == "1.2 of 5 off-topic, Top-k 0.0"
    assert set(texts.values()) == {""}
    n_said = 0
    for budget in data["budgets"]:
        sure, _bet = budget["choices"]
        is_known = sure is not None and data["options"][sure]["label"] == plain.sure.label
        said = "which puts 1.2 off-topic documents in each list" in budget["sentences"][0]
        assert said == is_known
        n_said += said
    assert 0 < n_said < len(data["budgets"])
    assert {option["offTopic"] for option in build_verdict_data(estimates, plain, False)["options"]} == {""}
