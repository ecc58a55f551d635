"""Words on the off-topic documents of settings: when they are said, in boxes and in sentences."""

from dataclasses import replace

import pytest

from engine.evaluation.decide import decide
from engine.evaluation.decision import describe_off_topic
from engine.evaluation.off_topic import OffTopicCounts
from support.points import cell, recalls

FACTS = {"baseline": "Top-k", "k": 10, "n_queries": 50, "n_all_queries": 50}


@pytest.mark.parametrize(("count", "baseline_count", "text", "phrase"), [
    (0.92, 0.0, "0.9 of 10 off-topic, Top-k 0.0", "puts 0.9 off-topic documents in each list"),
    (0.5, 0.04, "0.5 of 10 off-topic, Top-k 0.0", "puts 0.5 off-topic documents in each list"),
    (0.44, 0.0, "0.4 of 10 off-topic, Top-k 0.0", ""),
    (1.3, 1.0, "1.3 of 10 off-topic, Top-k 1.0", ""),
    (0.2, 1.0, "0.2 of 10 off-topic, Top-k 1.0", ""),
    (0.14, 0.06, "", ""),
    (0.0, 0.0, "", ""),
])  # fmt: skip
def test_counts_are_said_where_their_tenths_differ_and_in_the_sentence_from_half_a_document(
    count, baseline_count, text, phrase
):
    counts = OffTopicCounts(baseline_count=baseline_count, counts={"a": count}, **FACTS)
    assert counts.describe("a") == text
    assert counts.describe_in_sentence("a") == phrase
    assert counts.adds_documents("a") == bool(phrase)


def test_counts_of_a_setting_that_was_not_looked_at_are_not_said():
    counts = OffTopicCounts(baseline_count=0.0, counts={"a": 2.0}, **FACTS)
    assert counts.describe("b") == counts.describe_in_sentence("b") == ""


def test_counts_on_a_sample_say_its_size():
    counts = OffTopicCounts(baseline_count=0.0, counts={"a": 2.0}, **(FACTS | {"n_all_queries": 1200}))
    assert counts.describe("a") == "2.0 of 10 off-topic, Top-k 0.0 (on 50 of 1,200 queries)"


def test_sentences_of_the_sure_setting_and_of_the_bet_say_what_they_put_in_lists():
    cells = [cell("top_k", {"recall": recalls(0), "ilad": [0.4] * 200})]
    cells += [cell("vrsd", {"recall": recalls(0), "ilad": [0.5] * 200})]
    plain = decide(cells, keep=0.9)
    sure = plain.sure
    counts = OffTopicCounts(baseline_count=0.0, counts={sure.label: 1.2}, **FACTS)
    decision = replace(plain, off_topic=counts)
    assert plain.sentences[0].endswith(": VRSD.") and describe_off_topic(plain, sure) == ""
    assert decision.sentences[0].endswith(": VRSD, which puts 1.2 off-topic documents in each list.")
    confirmed = replace(decision, sure=replace(sure, confirmed=True), confirm_split="test")
    assert confirmed.sentences[0].endswith(
        ": VRSD, which puts 1.2 off-topic documents in each list; confirmed on test."
    )
    as_bet = replace(decision, sure=None, bet=replace(sure, chance=0.44))
    assert as_bet.sentences[1].endswith(
        "is a bet that holds 4 times in 10 and puts 1.2 off-topic documents in each list."
    )
