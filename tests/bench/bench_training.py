"""Training: what an epoch takes, and what it is worth beside the control, on judged sets.

python tests/bench/bench_training.py --data <folder of judged sets> [--part speed|tables|all] [--work FOLDER]

Writes assets/results/training.md from the raw figures beside it, training.json; a part that is not measured again stays
as it was. --data: a folder that has toolbank-numpy and toollens in BEIR layout; what is not there is left out. --work:
for checkpoints and finished answers: hours of work that a second run goes on with. One thread.
"""

from pathlib import Path

import training_speed
import training_tables
from harness import run_parts

PARTS = {
    "speed": ("An epoch", training_speed.measure, training_speed.tables),
    "tables": ("What it is worth", training_tables.measure, training_tables.tables),
}
PACKAGES = ("torch", "numpy", "numba")
TITLE = "Training for the decoder"


if __name__ == "__main__":
    sets = list(training_tables.SETS)
    run_parts(__doc__, "training", TITLE, PARTS, PACKAGES, work=Path("training-work"), seeds=3, sets=sets)
