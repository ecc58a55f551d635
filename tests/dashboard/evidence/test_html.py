"""Judged claims as one HTML file."""

import re
from dataclasses import replace

import pytest
from click.testing import CliRunner

from dashboard.serve import main as frontier
from engine.evidence.rules import HOLDS_WHERE_DECIDED
from engine.evidence.run import load_shipped
from support.draws import deepen


@pytest.mark.deep
@pytest.mark.parametrize("is_file_named", deepen([True, False], [True]))
def test_the_file_has_every_claim_once_and_fetches_nothing(home, tmp_path, is_file_named):
    source, target = tmp_path / "claims.json", tmp_path / "evidence.html"
    source.write_text(load_shipped().as_json(), encoding="utf-8")
    measured = [str(source)] if is_file_named else []
    done = CliRunner().invoke(frontier, ["evidence", *measured, "--out", str(target)])
    assert done.exit_code == 0 and f"{len(load_shipped().rows)} claims" in done.output, done.output
    text = target.read_text(encoding="utf-8")
    assert text.count("<summary>") == len(load_shipped().rows)
    assert text.count("Plotly.newPlot(") >= sum(bool(row.ruling.effects) for row in load_shipped().rows)
    # Each square of the wall leads to an element inside its claim, which a browser then opens.
    links = re.findall(r'<a href="#([A-Z]\d+)"', text)
    assert sorted(links) == sorted(row.claim.id for row in load_shipped().rows)
    assert all(text.count(f'<span id="{link}"></span>') == 1 for link in links)
    # Claims with open cells are outlined, not filled.
    assert text.count('class="outlined"') == sum(row.short == HOLDS_WHERE_DECIDED for row in load_shipped().rows) > 0
    assert text.count("<main>") == 1 and text.count('class="wide"') == text.count('class="wide" tabindex="0"') > 0
    assert not re.search(r"<(script|link|img)[^>]+(src|href)=", text)


def test_a_named_file_is_what_is_shown(home, tmp_path):
    source, target = tmp_path / "claims.json", tmp_path / "evidence.html"
    report = load_shipped()
    source.write_text(replace(report, rows=report.rows[:2]).as_json(), encoding="utf-8")
    done = CliRunner().invoke(frontier, ["evidence", str(source), "--out", str(target)])
    assert done.exit_code == 0 and "2 claims" in done.output, done.output
    assert target.read_text(encoding="utf-8").count("<summary>") == 2


def test_what_is_no_report_is_refused(tmp_path):
    other = tmp_path / "other.json"
    other.write_text("{}", encoding="utf-8")
    done = CliRunner().invoke(frontier, ["evidence", str(other), "--out", str(tmp_path / "e.html")])
    assert done.exit_code and "no report of frontier reproduce" in done.output
