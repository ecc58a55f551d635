"""Share → Report: what Trade-off has measured as a file, or what is lacking."""

import pytest

from dashboard.charts.html import escape_html
from dashboard.sharing import report_file
from dashboard.sharing.dialogs import REPORT
from support import pages

DEMO = {"v": "1", "corpus": "numpy-api", "split": "dev"}


@pytest.fixture
def downloads(monkeypatch):
    """The functions that build the files on offer."""
    offered = []
    monkeypatch.setattr(report_file, "download_button", lambda label, build, *_, **__: offered.append(build))
    return offered


def test_report_says_what_is_lacking_before_anything_is_measured(downloads):
    app = pages.choose_from_menu(pages.open_by_link(DEMO), REPORT)
    assert "Nothing of this corpus is measured" in pages.texts(app) and not downloads
    assert app.button(key="report.measure").label == "Open Trade-off"


def test_report_has_the_verdict_of_trade_off_at_its_budget(downloads):
    app = pages.finish_jobs(pages.open_by_link(DEMO | {"tradeoff.share": "0.9"}, "tradeoff"))
    decision = app.session_state["tradeoff.measured"][1].decided[1]
    assert decision.keep == 0.9
    app = pages.choose_from_menu(app, REPORT)
    assert "of dev at k = 10" in pages.texts(app)
    html = downloads[-1]()
    assert all(escape_html(sentence) in html for sentence in decision.sentences) and "plotly" in html
    assert "opacity: chance to keep 90%" in html
    assert "keep ≥ 90%" in html or r"keep \u2265 90%" in html


def test_report_of_another_corpus_is_not_offered(downloads, tmp_path):
    app = pages.finish_jobs(pages.open_by_link(DEMO, "tradeoff"))
    measured = app.session_state["tradeoff.measured"]
    folder = pages.beir(tmp_path / "numbers", [(str(i), f"thing {i}") for i in range(12)], [("a", "thing")])
    source = pages.Source(str(folder))
    pages.load(source)
    app = pages.choose_from_menu(pages.screen("explore", source, **{"tradeoff.measured": measured}), REPORT)
    assert "Nothing of this corpus is measured" in pages.texts(app) and not downloads
