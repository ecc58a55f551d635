"""Memory of the dashboard while a session switches corpora: resident size after each of 30, and what is still alive.

python tests/bench/bench_switches.py [SWITCHES] [DOCUMENTS]
"""

import gc
import json
import os
import sys
import tempfile
import weakref
from pathlib import Path

import numpy as np

CORPORA = 6


def resident():
    """Megabytes of this process that are in memory."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def corpora(folder, documents):
    """Folders with texts and vectors of their own, so that nothing has to be embedded."""
    rng = np.random.default_rng(0)
    words = np.array([f"word{i}" for i in range(5000)])
    for c in range(CORPORA):
        own = folder / f"corpus{c}"
        own.mkdir()
        with open(own / "corpus.jsonl", "w", encoding="utf-8") as file:
            for i in range(documents):
                row = {"_id": f"{c}-{i}", "title": f"Document {i}", "text": " ".join(rng.choice(words, 60))}
                file.write(json.dumps(row) + "\n")
        vectors = rng.standard_normal((documents, 384)).astype(np.float32)
        np.save(own / "vectors.npy", vectors / np.linalg.norm(vectors, axis=1, keepdims=True))
        (own / "vectors.ids.txt").write_text("".join(f"{c}-{i}\n" for i in range(documents)))
        yield own


def main(switches=30, documents=15_000):
    os.environ.setdefault("FRONTIER_HOME", tempfile.mkdtemp(prefix="frontier-switches-"))
    from streamlit.testing.v1 import AppTest

    import dashboard
    from dashboard import state
    from dashboard.state import Source

    alive = weakref.WeakSet()
    real = state._load

    def load(chosen, job):
        loaded = real(chosen, job)
        alive.add(loaded.space)
        return loaded

    state._load = load
    screen = str(Path(dashboard.__file__).parent / "screens" / "explore.py")
    with tempfile.TemporaryDirectory() as folder:
        paths = list(corpora(Path(folder), documents))
        app = AppTest.from_file(screen, default_timeout=120)
        seen = []
        for turn in range(switches + 1):
            source = Source(str(paths[turn % CORPORA]))
            state.loading(source).join(120)
            app.session_state["source"] = source
            app.run()
            assert not app.exception and app.dataframe, app.exception
            app.slider(key="explore.mmr.relevance_weight").set_value(turn % 10 / 10).run()
            gc.collect()
            seen.append(resident())
            print(f"{turn:3d} {seen[-1]:7.0f} MB, {len(alive)} spaces alive", flush=True)
    warm = seen[CORPORA:]
    print(f"after warm-up (switch {CORPORA}): {warm[0]:.0f} MB, least {min(warm):.0f}, most {max(warm):.0f}, "
          f"last {warm[-1]:.0f}")  # fmt: skip


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
