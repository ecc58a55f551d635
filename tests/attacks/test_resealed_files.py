"""Strangers' files whose checksums fit: read, or refused by name, within bounded memory."""

import pytest

from support import resealed
from support.draws import seeds_of


@pytest.mark.threat(
    "votes, judgements, answers, a store of sweeps, a saved view, a checkpoint, evidence or an exported setting that a "
    "stranger changed at any place, and sealed again",
    "read and used, or refused by an error with its name; never another error, nor more than a GB of memory",
)
@seeds_of(range(12), range(300))
@pytest.mark.parametrize("name", resealed.KINDS)
def test_a_file_that_was_changed_and_sealed_again_is_used_or_refused(name, seeds, tmp_path, monkeypatch):
    monkeypatch.setenv("FRONTIER_HOME", str(tmp_path))
    path = resealed.KINDS[name].make(tmp_path)
    resealed.KINDS[name].use(path)
    raw = path.read_bytes()
    outcomes = {resealed.read_changed(name, path, raw, seed) for seed in seeds}
    assert len(outcomes) > 1 or name == "saved view"  # unreadable views are listed beside the others
