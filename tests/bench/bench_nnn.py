"""NNN: how long the exact minimiser takes, what fifty steps of FISTA miss, and what both find on judged sets.

python tests/bench/bench_nnn.py --data <folder of judged sets> [--part speed|iterations|quality|all] [--quick]

Writes assets/results/nnn.md from the raw figures beside it, nnn.json; a part that is not measured again stays as it
was. --data: a folder that has toolbank-numpy, toollens and ultratool-en in BEIR layout; what is not there is left out.
One thread. --quick: few queries, n up to 10,000, to see that it runs.
"""

import nnn_quality
import nnn_speed
from harness import run_parts

PACKAGES = ("torch", "numpy", "numba", "scikit-learn")
TITLE = "NNN: speed, iterations, retrieval"
PARTS = {
    "speed": ("Speed", nnn_speed.measure, nnn_speed.tables),
    "iterations": ("What fifty steps miss", nnn_quality.iterations, nnn_quality.iteration_tables),
    "quality": ("Retrieval", nnn_quality.quality, nnn_quality.quality_tables),
}


if __name__ == "__main__":
    run_parts(__doc__, "nnn", TITLE, PARTS, PACKAGES, quick=False)
