"""Times feedback: a step, an undo, a replay, a line on the disk, a thumb until the new list is there.

python tests/bench/bench_orag.py --out assets/results
"""

from __future__ import annotations

import gc
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import numpy as np
import torch

import engine
from engine import orag
from engine.values import EncoderRef

SIZES, DIMENSION, EVENTS, REPLAYED = (500, 10_000, 100_000), 384, 3000, 3000


@click.command()
@click.option("--out", type=click.Path(file_okay=False, path_type=Path))
def main(out: Path | None) -> None:
    torch.set_num_threads(1)
    rows = [_measured(size) for size in SIZES]
    lines = _report(rows)
    print("\n".join(lines))
    if out:
        (out / "orag-speed.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


def _measured(size: int) -> dict[str, float]:
    rng = np.random.default_rng(0)
    space, asked = _space(size, rng), rng.standard_normal((300, DIMENSION)).astype(np.float32)
    asked /= np.linalg.norm(asked, axis=1, keepdims=True)
    started = time.perf_counter()
    start = orag.session(space)
    found = {"size": size, "start": 1e3 * (time.perf_counter() - started)}
    queries = [start.ask_of(row) for row in asked]
    gc.collect()
    gc.freeze()

    # Scores between the steps, as in life, and none, as "beyond the score" has it.
    mixed, drawn, asks, steps = start, [], [], []
    for turn in range(EVENTS):
        draw, took = _timed(orag.ask, mixed, queries[turn % 300])
        asks.append(took)
        drawn.append(draw)
        mixed, took = _timed(_step, mixed, draw, turn)
        steps.append(took)
    found["ask"], found["between"] = np.median(asks), np.median(steps)
    after, steps = start, []
    for turn, draw in enumerate(drawn):
        after, took = _timed(_step, after, draw, turn)
        steps.append(took)
    found["step"], found["step95"] = np.median(steps), np.quantile(steps, 0.95)
    events = after.events[:REPLAYED]
    found["replay"] = 1e-3 * min(_timed(orag.replay, start, events)[1] for _ in range(5))
    if orag.replay(start, events).exact.tobytes() != after.exact.tobytes():
        raise SystemExit("the replay is another session")
    left, undone, clicks = after, [], []
    for event in events[::10]:
        left, took = _timed(orag.undo, left, event.id)
        undone.append(took)
        left, took = _timed(lambda left: orag.feed(left, orag.right_one(left, queries[0], range(10), 4)), left)
        clicks.append(took)
    found["undo"], found["click"] = np.median(undone), np.median(clicks)
    found |= _kept(after, queries) | _shown(after, queries[0])
    if size == SIZES[0]:
        for preset in ("full", "paper"):
            now = orag.session(space, mode="full", temperature=start.temperature)
            now = now if preset == "full" else orag.session(space, "paper")
            steps = []
            for turn in range(200):
                draw = orag.ask(now, queries[turn])
                now, took = _timed(_step, now, draw, turn)
                steps.append(took)
            found[preset] = np.mean(steps)
            found[f"{preset} undo"] = 1e-3 * np.median([_timed(orag.undo, now, e.id)[1] for e in now.events[::20]])
    gc.unfreeze()
    return found


def _kept(session: orag.Session, queries: list[orag.Query]) -> dict[str, float]:
    """µs for a line in a log: in all, and without waiting for the disk."""
    with tempfile.TemporaryDirectory() as folder:
        orag.save(orag.at(session, 0), Path(folder) / "log.jsonl")
        log = orag.Log(Path(folder) / "log.jsonl", session.space)

        def fed(count: int, who: str) -> float:
            took = []
            for turn in range(count):
                event = orag.thumb(log.session, queries[turn], turn, person=f"{who} {turn}")
                took.append(_timed(log.feed, event)[1])
            return float(np.median(took))

        line, real = fed(200, "a"), os.fsync
        os.fsync = lambda handle: None
        try:
            return {"line": line, "unsynced": fed(200, "b")}
        finally:
            os.fsync = real


def _shown(session: orag.Session, query: orag.Query) -> dict[str, float]:
    """ms from a thumb to the new list: the step, the vectors, their digest and norms, and the list."""
    top = engine.Decoder(engine.make("top_k"))
    one = engine.Embeddings(torch.from_numpy(query.vector.copy()).unsqueeze(0), ("q",))

    def shown() -> object:
        after = orag.feed(session, orag.thumb(session, query, 3, up=False))
        embeddings = after.embeddings()
        embeddings.digest  # noqa: B018
        return engine.decode(top, engine.Space(session.space.corpus, embeddings, "cpu"), one, k=10)

    return {"shown": 1e-3 * float(np.median([_timed(shown)[1] for _ in range(7)]))}


def _space(size: int, rng: np.random.Generator) -> engine.Space:
    rows = rng.standard_normal((size, DIMENSION)).astype(np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    ids = tuple(map(str, range(size)))
    embeddings = engine.Embeddings(torch.from_numpy(rows), ids, EncoderRef("made", "00" * 32, "float32"))
    return engine.Space(engine.Corpus(ids, ids), embeddings, "cpu")


def _step(session: orag.Session, draw: orag.Draw, turn: int) -> orag.Session:
    """An outcome made and fed: every third a success."""
    return orag.feed(session, orag.outcome(session, draw, turn % 3 == 0))


def _timed(call: Callable[..., Any], *args: Any) -> tuple[Any, float]:
    """What a call gives, and the µs that it took."""
    started = time.perf_counter()
    found = call(*args)
    return found, 1e6 * (time.perf_counter() - started)


def _report(rows: list[dict[str, float]]) -> list[str]:
    def row(what: str, key: str, digits: int = 1) -> str:
        cells = (f"{found[key]:,.{digits}f}" if key in found else "" for found in rows)
        return f"| {what} | " + " | ".join(cells) + " |"

    return [
        "# Feedback",
        "",
        "`python tests/bench/bench_orag.py --out assets/results`",
        "",
        f"Made-up unit vectors, d = {DIMENSION}, preset default, {EVENTS:,} outcomes of 300 questions; one thread on "
        f"{os.cpu_count()} cores, load average {os.getloadavg()[1]:.1f}; torch {torch.__version__}, "
        f"NumPy {np.__version__}. Medians unless said otherwise. Asked for: a chosen-mode event at most 20 µs beyond "
        "score and disk, whatever the number of documents; a replay of 3,000 at most 50 ms; an undo at most 1 ms.",
        "",
        "| | " + " | ".join(f"{found['size']:,} documents" for found in rows) + " |",
        "| --- |" + " ---: |" * len(rows),
        row("event made and fed, µs", "step"),
        row("the same, 95th percentile, µs", "step95"),
        row("the same right after a score has swept the caches, µs", "between"),
        row('"this is the right one" of ten, made and fed, µs', "click"),
        row(f"replay of {REPLAYED:,} events, best of 5, ms", "replay"),
        row("undo of an event, µs", "undo"),
        row("score and draw, µs", "ask"),
        row("line in the log with fsync, µs", "line", 0),
        row("the same without fsync, µs", "unsynced", 0),
        row("thumb until the new list of ten: step, vectors, digest, space, decoding, ms", "shown"),
        row("a session begun, with its temperature, ms", "start", 0),
        row("event in full mode, mean, µs", "full", 0),
        row("undo of one of 200 in full mode, ms", "full undo"),
        row("event of the paper's preset, mean over its batches, µs", "paper", 0),
        row("undo of one of 200 of the paper's preset, ms", "paper undo"),
    ]


if __name__ == "__main__":
    main()
