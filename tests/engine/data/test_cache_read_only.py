"""Homes that cannot be written: all works uncached and that is said once; what would have to be kept is refused."""

import os
import shutil
import stat

import pytest

from support.read_only import run_steps_in, skip_without_view, write_corpus

STORED = {"vote", "judge", "snapshot"}
"""Steps that are nothing without being kept."""
NOTE = "note: nothing new is kept in "


@pytest.fixture(scope="module")
def days_work(tmp_path_factory):
    """A corpus, a home in which all was done once, and what came of it."""
    folder = tmp_path_factory.mktemp("written")
    results, output = run_steps_in(folder / "home", write_corpus(folder))
    assert not output and results["unkept"] is None
    assert not [name for name, result in results.items() if str(result).startswith("refused")], results
    return folder, results


@pytest.mark.threat(
    "other users of the machine", "after a day's work every file of the home is 0600, every folder 0700"
)
@pytest.mark.skipif(os.name != "posix", reason="needs modes")
def test_files_of_a_days_work_are_private_to_the_user(days_work):
    folder, _ = days_work
    modes = {path: stat.S_IMODE(path.stat().st_mode) for path in (folder / "home", *(folder / "home").rglob("*"))}
    names = {path.relative_to(folder / "home").parts[0] for path in modes if path != folder / "home"}
    assert names >= {"embeddings", "sweeps", "codes", "uploads", "trained", "feedback", "judgements", "snapshots"}
    wide = {path: oct(mode) for path, mode in modes.items() if mode != (0o700 if path.is_dir() else 0o600)}
    assert not wide


@pytest.mark.threat("a home that cannot be written", "all works uncached, said once; votes are refused in a sentence")
@pytest.mark.deep
def test_home_that_cannot_be_created_loses_stored_results_only(days_work, tmp_path):
    folder, results = days_work
    (tmp_path / "file").write_text("in the way")
    now, output = run_steps_in(tmp_path / "file" / "home", folder / "corpus.csv", TMPDIR=str(tmp_path))
    assert NOTE in output and output.count("\n") == 1 and "(Not a directory)" in output
    for name in STORED:
        refusal = now.pop(name)
        assert refusal.startswith("refused: cannot write") and "set FRONTIER_HOME to a folder that you can" in refusal
    assert now.pop("votes").startswith("refused: ") and now.pop("judgements") == 0
    assert now.pop("unkept") in output
    assert now == {name: results[name] for name in now}
    assert not [path for path in tmp_path.iterdir() if path.name.startswith("frontier-") and path.name.count("-") == 1]


@pytest.mark.threat("a home on a read-only disk", "what is there is read, all works, said once; votes are refused")
@pytest.mark.deep
def test_a_home_that_is_read_only_is_read(days_work, tmp_path):
    folder, results = days_work
    home = shutil.copytree(folder / "home", tmp_path / "home")
    skip_without_view(home)
    now, output = run_steps_in(home, folder / "corpus.csv", view=home, TMPDIR=str(tmp_path))
    assert output.count(NOTE) == output.count("\n") == 1
    for name in STORED:
        assert "cannot write" in now.pop(name), name
    assert now.pop("unkept") in output
    assert now == {name: results[name] for name in now}, "with the votes, judgements and cells that are there"
