"""Handles of a process that loads one corpus after another."""

import gc
import os
import sys
from collections import Counter

import pytest

from dashboard.services.source import Source
from support.pages import load


def handles():
    """What this process holds open, by what it is."""
    gc.collect()
    found = Counter()
    for number in os.listdir("/proc/self/fd"):
        try:
            found[os.readlink(f"/proc/self/fd/{number}").split(":")[0]] += 1
        except OSError:
            continue  # the one that lists the folder
    return found


@pytest.mark.threat("handles left open by loading corpora", "as many after ten as after one")
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs /proc")
def test_ten_corpora_one_after_another_hold_no_more_handles_than_one(tmp_path):
    counts = []
    for number in range(11):
        path = tmp_path / f"c{number}.csv"
        path.write_text("id,text\n" + "".join(f"{row},text {row} of {number}\n" for row in range(9)))
        load(Source(str(path)))
        counts.append(handles())
    assert counts[-1] - counts[0] == Counter(), (counts[0], counts[-1])
