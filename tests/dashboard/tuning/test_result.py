"""The table of the sure setting and the bet that a tuning ends with."""

import re
from types import SimpleNamespace

import pytest

from dashboard.tuning.result import _build_choices_table
from engine.evaluation.decision import Option

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
