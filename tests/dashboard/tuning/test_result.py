"""The table of the sure setting and the bet that a tuning ends with, and their off-topic documents."""

import re
from dataclasses import replace
from types import SimpleNamespace

import pytest

from dashboard.tuning.result import _build_choices_table, _list_off_topic
from engine.evaluation.decision import Option
from engine.evaluation.off_topic import OffTopicCounts

OPTION = Option(
    name="MMR · λ 0.9",
    label="mmr",
    decoder=None,
    gain=0.09,
    share_kept=0.98,
    low=0.95,
    high=1,
    chance=0.96,
    sure_share=0.95,
    judged=None,
    confirmed=True,
    confirmed_share=0.97,
    confirmed_low=0.95,
    confirmed_gain=0.08,
)


@pytest.mark.parametrize("test", [None, "test"])
def test_each_figure_of_a_choice_has_a_title_of_its_own(test):
    decision = SimpleNamespace(sure=OPTION, bet=None, nearest=None, budget_text="95%")
    table = _build_choices_table(SimpleNamespace(dev="dev", test=test), decision)
    titles = [title for title in re.findall('<td data-title="([^"]*)"', table) if title]
    assert len(set(titles)) == len(titles) == (3 if test is None else 5), "a phone lists each figure by its title"


def test_off_topic_documents_of_each_choice_are_said_where_they_differ_from_the_baselines():
    bet = replace(OPTION, name="VRSD", label="vrsd")
    tuned = SimpleNamespace(
        decoder=SimpleNamespace(label="mmr"), decision=SimpleNamespace(sure=OPTION, bet=bet, nearest=None)
    )
    facts = {"baseline": "Top-k", "k": 10, "baseline_count": 0.0, "n_queries": 9, "n_all_queries": 9}
    counts = OffTopicCounts(counts={"mmr": 0.0, "vrsd": 0.9}, **facts)
    assert _list_off_topic(tuned, OPTION.name, counts) == ["VRSD: 0.9 of 10 off-topic, Top-k 0.0."]
    tuned.decision = None
    counts = OffTopicCounts(counts={"mmr": 1.0}, **facts)
    assert _list_off_topic(tuned, OPTION.name, counts) == [f"{OPTION.name}: 1.0 of 10 off-topic, Top-k 0.0."]
    assert _list_off_topic(tuned, OPTION.name, None) == []
