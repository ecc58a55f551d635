"""Training: what an epoch takes, and what it is worth beside the control, on judged sets.

python tests/bench/bench_training.py --data <folder of judged sets> [--part speed|tables|all] [--work FOLDER]

Writes assets/results/training.md from the raw figures beside it, training.json; a part that is not measured again stays
as it was. --data: a folder that has toolbank-numpy and toollens in BEIR layout; what is not there is left out. --work:
for checkpoints and finished answers: hours of work that a second run goes on with. One thread.
"""

import os
import sys
from pathlib import Path

os.environ.update({f"{name}_NUM_THREADS": "1" for name in ("OMP", "MKL", "OPENBLAS", "NUMEXPR", "VECLIB_MAXIMUM")})
# The checkout is measured, whatever copy of the engine is installed.
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import argparse
import datetime
import json
import time

import torch
import training_speed
import training_tables
from machine import machine

PARTS = {
    "speed": ("An epoch", training_speed.measure, training_speed.tables),
    "tables": ("What it is worth", training_tables.measure, training_tables.tables),
}
PACKAGES = ("torch", "numpy", "numba")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, metavar="DIR", help="folder of judged sets")
    parser.add_argument("--part", choices=[*PARTS, "all"], default="all")
    parser.add_argument("--work", type=Path, default=Path("training-work"), metavar="DIR", help="what is finished")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--sets", nargs="*", default=list(training_tables.SETS))
    out = Path(__file__).resolve().parents[2] / "assets" / "results"
    parser.add_argument("--out", type=Path, default=out, metavar="DIR")
    return parser.parse_args()


def report(found: dict) -> str:
    """The whole page as Markdown."""
    lines = ["# Training for the decoder", ""]
    for part, (title, _, tables) in PARTS.items():
        if part in found:
            own = found[part]
            command = f"python tests/bench/bench_training.py --data <folder of judged sets> --part {part}"
            lines += [f"## {title}", "", f"`{command}`", "", f"{own['machine']}; {own['date']}.", ""]
            lines += tables(own["figures"])
    return "\n".join(lines).rstrip() + "\n"


def main() -> None:
    given = arguments()
    torch.set_num_threads(1)
    given.out.mkdir(parents=True, exist_ok=True)
    raw = given.out / "training.json"
    started = time.monotonic()

    def say(what: str) -> None:
        print(f"[{(time.monotonic() - started) / 60:5.1f} min] {what}", file=sys.stderr, flush=True)

    for part in PARTS if given.part == "all" else (given.part,):
        figures = PARTS[part][1](given, say)
        found = json.loads(raw.read_text(encoding="utf-8")) if raw.is_file() else {}
        found[part] = {"machine": machine(PACKAGES), "date": datetime.date.today().isoformat(), "figures": figures}
        raw.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
        (given.out / "training.md").write_text(report(found), encoding="utf-8")
    say("done")


if __name__ == "__main__":
    main()
