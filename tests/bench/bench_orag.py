"""Times feedback: a step, an undo, a replay, a line on the disk, a thumb until the new list is there.

python tests/bench/bench_orag.py --out assets/results
"""

from __future__ import annotations

import gc
import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from harness import machine, one_thread, options, table, timed, write_page

import engine
from engine import orag
from engine.values import EncoderRef

SIZES, DIMENSION, EVENTS, REPLAYED = (500, 10_000, 100_000), 384, 3000, 3000


def main() -> None:
    given = options(__doc__).parse_args()
    one_thread()
    _report(given.out / "orag-speed.md", [_measure(size) for size in SIZES])


def _measure(size: int) -> dict[str, float]:
    rng = np.random.default_rng(0)
    space, points = _space(size, rng), rng.standard_normal((300, DIMENSION)).astype(np.float32)
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    start, micro = _micro(orag.session, space)
    figures = {"size": size, "start": 1e-3 * micro}
    queries = [start.resolve_query(row) for row in points]
    gc.collect()
    gc.freeze()

    # Scores between the steps, as in life, and none, as "beyond the score" has it.
    mixed, drawn, asks, steps = start, [], [], []
    for turn in range(EVENTS):
        draw, took = _micro(orag.ask, mixed, queries[turn % 300])
        asks.append(took)
        drawn.append(draw)
        mixed, took = _micro(_step, mixed, draw, turn)
        steps.append(took)
    figures["ask"], figures["between"] = np.median(asks), np.median(steps)
    after, steps = start, []
    for turn, draw in enumerate(drawn):
        after, took = _micro(_step, after, draw, turn)
        steps.append(took)
    figures["step"], figures["step95"] = np.median(steps), np.quantile(steps, 0.95)
    events = after.events[:REPLAYED]
    figures["replay"] = 1e-3 * min(_micro(orag.replay, start, events)[1] for _ in range(5))
    if orag.replay(start, events).exact.tobytes() != after.exact.tobytes():
        raise SystemExit("the replay is another session")
    left, undone, clicks = after, [], []
    for event in events[::10]:
        left, took = _micro(orag.undo, left, event.id)
        undone.append(took)
        left, took = _micro(lambda left: orag.feed(left, orag.right_one(left, queries[0], range(10), 4)), left)
        clicks.append(took)
    figures["undo"], figures["click"] = np.median(undone), np.median(clicks)
    figures |= _log(after, queries) | _shown(after, queries[0])
    if size == SIZES[0]:
        for preset in ("full", "paper"):
            now = orag.session(space, mode="full", temperature=start.temperature)
            now = now if preset == "full" else orag.session(space, "paper")
            steps = []
            for turn in range(200):
                draw = orag.ask(now, queries[turn])
                now, took = _micro(_step, now, draw, turn)
                steps.append(took)
            figures[preset] = np.mean(steps)
            figures[f"{preset} undo"] = 1e-3 * np.median([_micro(orag.undo, now, e.id)[1] for e in now.events[::20]])
    gc.unfreeze()
    return figures


def _log(session: orag.Session, queries: list[orag.Query]) -> dict[str, float]:
    """µs for a line in a log: in all, and without waiting for the disk."""
    with tempfile.TemporaryDirectory() as folder:
        orag.save(orag.at(session, 0), Path(folder) / "log.jsonl")
        log = orag.Log(Path(folder) / "log.jsonl", session.space)

        def fed(count: int, who: str) -> float:
            took = []
            for turn in range(count):
                event = orag.thumb(log.session, queries[turn], turn, person=f"{who} {turn}")
                took.append(_micro(log.feed, event)[1])
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

    return {"shown": 1e-3 * float(np.median([_micro(shown)[1] for _ in range(7)]))}


def _space(size: int, rng: np.random.Generator) -> engine.Space:
    rows = rng.standard_normal((size, DIMENSION)).astype(np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    ids = tuple(map(str, range(size)))
    embeddings = engine.Embeddings(torch.from_numpy(rows), ids, EncoderRef("made", "00" * 32, "float32"))
    return engine.Space(engine.Corpus(ids, ids), embeddings, "cpu")


def _step(session: orag.Session, draw: orag.Draw, turn: int) -> orag.Session:
    """An outcome made and fed: every third a success."""
    return orag.feed(session, orag.outcome(session, draw, turn % 3 == 0))


def _micro(call: Any, *args: Any) -> tuple[Any, float]:
    """What a call returns, and the µs that it took."""
    seconds, result = timed(call, *args)
    return result, 1e6 * seconds


def _report(file: Path, columns: list[dict[str, float]]) -> None:
    def row(label: str, key: str, digits: int = 1) -> tuple[str, ...]:
        return label, *(f"{column[key]:,.{digits}f}" if key in column else "" for column in columns)

    write_page(
        file,
        "# Feedback",
        "`python tests/bench/bench_orag.py --out assets/results`",
        f"Made-up unit vectors, d = {DIMENSION}, preset default, {EVENTS:,} outcomes of 300 questions; "
        f"{machine(('torch', 'numpy'))}; load average {os.getloadavg()[1]:.1f}. Medians unless said otherwise. Asked "
        "for: a chosen-mode event at most 20 µs beyond score and disk, whatever the number of documents; a replay of "
        "3,000 at most 50 ms; an undo at most 1 ms.",
        table(
            ("", *(f"{column['size']:,} documents" for column in columns)),
            (
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
            ),
            "lr",
        ),
    )


if __name__ == "__main__":
    main()
