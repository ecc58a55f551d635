"""Where the judged sets are, for tests that need them: $FRONTIER_DATA, else shared/data beside the checkout."""

import os
from pathlib import Path

import pytest

from support.paths import ROOT


def _find_data_folder() -> Path | None:
    configured = os.environ.get("FRONTIER_DATA")
    folder = Path(configured) if configured else ROOT.parent / "shared" / "data"
    return folder if folder.is_dir() else None


DATA: Path | None = _find_data_folder()
SETS: list[str] = sorted(file.parent.name for file in DATA.glob("*/corpus.jsonl")) if DATA else []

needs_data = pytest.mark.skipif(not SETS, reason="the judged sets are not on this machine (set FRONTIER_DATA)")
