"""Data files that would harm their reader: what reading each takes of memory and time, and what is said.

    python tests/bench/bench_hostile_files.py --out assets/results

Each is read by a process of its own, forked from one that has imported the readers; Parquet by a decoder beside it.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from harness import machine, parse_arguments, table, write_page

import engine.data.readers  # noqa: F401  (before the processes are forked)
from support.hostile_files import HOSTILE, measure_reading

MAX_MB, MAX_SECONDS = 512, 1.0
"""MB that reading may take, with all that is imported; seconds that a refusal may."""


def main() -> None:
    args = parse_arguments(__doc__)
    load = os.getloadavg()[0]
    rows, peaks, refusals = [], [], []
    for name in HOSTILE:
        with tempfile.TemporaryDirectory() as folder:
            answer = measure_reading(name, folder)
            size = sum(file.stat().st_size for file in Path(folder).rglob("*") if file.is_file())
        for reader, (outcome, seconds) in answer["said"].items():
            refused = isinstance(outcome, str)
            outcome_text = (
                outcome.removeprefix("DataError: ").replace(folder, "…")[:160] if refused else f"read: {outcome:,}"
            )
            cells = (
                name,
                reader,
                f"{size:,}",
                f"{answer['peak']:.0f}",
                f"{seconds:.2f}",
                outcome_text.replace("|", "\\|"),
            )
            rows.append(cells)
            peaks.append(answer["peak"])
            refusals += [(seconds, name)] if refused else []
    slow = [f"{name} ({seconds:.1f} s)" for seconds, name in sorted(refusals, reverse=True) if seconds > MAX_SECONDS]
    write_page(
        args,
        "hostile-files",
        "Hostile data files",
        f"{machine(('numpy', 'pyarrow'))}; load before: {load:.1f}. {len(HOSTILE)} files, {len(rows)} readings. "
        f"Highest peak {max(peaks):.0f} MB (at most {MAX_MB}, imports among them). Refusals of more than "
        f"{MAX_SECONDS:g} s: {', '.join(dict.fromkeys(slow)) or 'none'}.",
        table(("file", "reader", "bytes", "peak MB", "seconds", "what is said"), rows, "llrrrl"),
    )


if __name__ == "__main__":
    main()
