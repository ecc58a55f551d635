"""Theory and the scorers in a real browser: every view draws, a dragged query changes the support."""

import re

import pytest

import engine
from dashboard.theory.page import GROUPS
from support.browser import MARKS, WAIT, idle, lists, settle, until

pytestmark = MARKS
CHARTS_AND_TABLES = ".js-plotly-plot, [data-testid=stDataFrame]"
SUPPORT = re.compile("^Support: ")
ALL_VIEWS = tuple((group, view) for group, views in GROUPS.items() for view in views)[1:]
LAST_VIEWS = tuple((group, list(views)[-1]) for group, views in GROUPS.items())


@pytest.mark.parametrize(
    "views", [pytest.param(LAST_VIEWS, id="last"), pytest.param(ALL_VIEWS, id="all", marks=pytest.mark.deep)]
)
def test_every_view_draws_and_the_support_follows_the_query(page, server, views):
    page.goto(f"{server}/theory")
    support = page.get_by_text(SUPPORT)
    support.wait_for(timeout=2 * WAIT)
    until(page, lambda: "Proved" in page.get_by_test_id("stMain").inner_text())
    first_support, angle = support.inner_text(), page.get_by_label("φ · angle").locator("input[type=range]").first
    if not angle.count():
        angle = page.locator("input[type=range][max='90']")
    angle.focus()
    page.keyboard.press("End")
    until(page, lambda: support.inner_text() != first_support)
    content = (
        page.get_by_test_id("stMain")
        .locator(CHARTS_AND_TABLES)
        .or_(page.get_by_role("button", name=re.compile("^Run")))
    )
    for group, view in views:
        # A table may have a column of the same name.
        page.get_by_role("radio", name=group, exact=True).click()
        page.get_by_role("radio", name=view, exact=True).click()
        idle(page)
        until(page, content.count)
        assert not page.get_by_text("This cannot be computed here.").count(), view
        assert not page.get_by_test_id("stException").count(), view


def test_a_decoder_gets_another_scorer(page, server):
    selectors, scorers = engine.methods("selector"), engine.methods("scorer")
    picked = next(spec for name, spec in list(selectors.items())[1:] if spec.cls.by_scores)
    word_scorer = next(spec for name, spec in scorers.items() if spec.cls.words and not spec.cls.rerank_only)
    page.goto(server)
    settle(page)
    first_list = lists(page)[1]
    page.get_by_role("button", name="Decoders and settings").click()
    page.get_by_role("button", name=re.compile("^Scorer")).nth(1).click()
    page.get_by_test_id("stPopoverBody").last.get_by_role("combobox", name="Relevance by").click()
    page.get_by_role("option", name=word_scorer.title, exact=True).click()
    until(page, lambda: page.get_by_text(f"{word_scorer.title} → {picked.title}").count() > 0)
    until(page, lambda: lists(page)[1] != first_list)
    caption = f"relevance by {word_scorer.title}; similarity by the dense vectors"
    assert caption in page.locator(".tile").nth(1).get_by_title(re.compile("relevance by")).get_attribute("title")
