"""The Evidence page: every claim has a line, filters narrow them, a line opens its numbers."""

import pytest

from engine.evidence.claim import PAPERS
from engine.evidence.rules import Finding
from engine.evidence.run import load_shipped
from support.pages import draw_page, pick, run

SCREEN = "evidence"


@pytest.fixture(autouse=True)
def home(monkeypatch, tmp_path):
    monkeypatch.setenv("FRONTIER_HOME", str(tmp_path))


def page():
    from support.pages import SCREENS

    return draw_page(SCREENS / f"{SCREEN}.py")


def lines(app):
    return [line.label for line in app.expander]


def test_every_claim_has_a_line_and_filters_narrow_them():
    app, rows = page(), load_shipped().rows
    assert not app.exception and len(lines(app)) == len(rows)
    assert all(row.claim.sentence in line and row.short in line for row, line in zip(rows, lines(app), strict=True))
    titles = app.selectbox(key="evidence.paper")
    assert titles.options == ["All papers", *PAPERS.values()], "as above the squares and the lines"
    assert not any("--" in caption.value for caption in app.caption)
    titles.set_value("vrsd")
    run(app)
    own = [row for row in rows if row.claim.paper == "vrsd"]
    assert len(lines(app)) == len(own)
    pick(app, "Verdict", Finding.REFUTED)
    assert len(lines(app)) == sum(row.short == Finding.REFUTED for row in own) > 0


def test_a_line_opens_its_numbers_and_its_command():
    app = page()
    assert not app.code
    app.session_state["evidence.V2"] = True
    run(app)
    assert [code.value for code in app.code] == ["frontier reproduce V2"]
    told = " ".join(text.value for text in app.text)
    assert "Verdict: refuted" in told and "§3.1" in told


def test_a_square_opens_its_claim_below_the_wall():
    app = page()
    app.session_state["evidence.chosen"] = "N6"
    run(app)
    assert [code.value for code in app.code] == ["frontier reproduce N6 --data FOLDER"]
    assert any("NNN without training beats dense retrieval on ToolLens" in text.value for text in app.markdown)
    assert any("◇ in the paper" in caption.value for caption in app.caption)
    # N4's sentence has no number: that is said, and what its figures count.
    app.session_state["evidence.chosen"] = "N4"
    run(app)
    assert any("the paper prints no number" in caption.value for caption in app.caption)
    assert "◇ in the paper" not in " ".join(caption.value for caption in app.caption)
    told = " ".join(text.value for text in app.text)
    assert "of 100 queries, exact sets NNN less dense" in told and "points of queries" not in told
    app.session_state["evidence.chosen"] = "of another report"
    assert not run(app).exception and not app.code
