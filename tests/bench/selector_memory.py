"""The process whose memory is measured: dpp once over vectors from a file.

python tests/bench/selector_memory.py VECTORS.npy QUERY.npy WEIGHT K     prints {"bytes": …, "pool": …} as JSON
"""

import json
import resource
import sys
from contextlib import suppress
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import numpy as np
import torch

import engine

WARM_ROWS = 2000


def measure_memory(vectors: str, query: str, weight: float, k: int) -> dict[str, int | None]:
    """Peak of this process over what it held with the vectors loaded and a small problem solved, and the pool used."""
    torch.set_num_threads(1)
    rows, point = np.load(vectors), np.load(query)
    engine.select("dpp", rows[:WARM_ROWS], point, k=k, relevance_weight=weight)
    # The linear algebra keeps buffers from its first large product on; they are the library's, not the method's.
    for columns in (1, 2, 8, 32, 128):
        torch.from_numpy(rows) @ torch.from_numpy(rows[:columns]).T
    with suppress(OSError):
        # The peak so far is forgotten: what was freed again before the call is not the call's.
        Path("/proc/self/clear_refs").write_text("5")
    before = _status("VmRSS")
    info = engine.select("dpp", rows, point, k=k, relevance_weight=weight).info[0]
    return {"bytes": max(0, _status("VmHWM") - before), "pool": info.get("pool")}


def _status(name: str) -> int:
    """A figure of this process in bytes. ru_maxrss starts at the parent's peak where Linux has run it by vfork."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith(name + ":"))


if __name__ == "__main__":
    print(json.dumps(measure_memory(sys.argv[1], sys.argv[2], float(sys.argv[3]), int(sys.argv[4]))))
