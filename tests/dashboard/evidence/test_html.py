"""Judged claims as one HTML file."""

import re

from click.testing import CliRunner

from dashboard.serve import main as frontier
from engine.evidence.run import load_shipped


def test_the_file_has_every_claim_once_and_fetches_nothing(monkeypatch, tmp_path):
    monkeypatch.setenv("FRONTIER_HOME", str(tmp_path / "home"))
    source, target = tmp_path / "claims.json", tmp_path / "evidence.html"
    source.write_text(load_shipped().as_json(), encoding="utf-8")
    done = CliRunner().invoke(frontier, ["evidence", str(source), "--out", str(target)])
    assert done.exit_code == 0, done.output
    text = target.read_text(encoding="utf-8")
    assert text.count("<summary>") == len(load_shipped().rows)
    assert text.count("Plotly.newPlot(") >= sum(bool(row.ruling.effects) for row in load_shipped().rows)
    assert not re.search(r"<(script|link|img)[^>]+(src|href)=", text)
    newest = CliRunner().invoke(frontier, ["evidence", "--out", str(target)])
    assert newest.exit_code == 0 and f"{len(load_shipped().rows)} claims" in newest.output


def test_what_is_no_report_is_refused(tmp_path):
    other = tmp_path / "other.json"
    other.write_text("{}", encoding="utf-8")
    done = CliRunner().invoke(frontier, ["evidence", str(other), "--out", str(tmp_path / "e.html")])
    assert done.exit_code and "no report of frontier reproduce" in done.output
