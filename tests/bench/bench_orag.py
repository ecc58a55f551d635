"""Times feedback: a step, an undo, a replay, a line on the disk, a thumb until the new list is there.

python tests/bench/bench_orag.py --out assets/results
"""

from __future__ import annotations

import gc
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from harness import machine, parse_arguments, space_of, table, time_call, write_page

import engine
from engine import orag
from engine.values import EncoderRef

DIMENSION, EVENTS, REPLAYED = 384, 3000, 3000
ROWS = {
    "step": ("event made and fed, µs", 1),
    "step95": ("the same, 95th percentile, µs", 1),
    "between": ("the same right after a score has swept the caches, µs", 1),
    "click": ('"this is the right one" of ten, made and fed, µs', 1),
    "replay": (f"replay of {REPLAYED:,} events, best of 5, ms", 1),
    "undo": ("undo of an event, µs", 1),
    "ask": ("score and draw, µs", 1),
    "line": ("line in the log with fsync, µs", 0),
    "unsynced": ("the same without fsync, µs", 0),
    "shown": ("thumb until the new list of ten: step, vectors, digest, space, decoding, ms", 1),
    "start": ("a session begun, with its temperature, ms", 0),
    "full": ("event in full mode, mean, µs", 0),
    "full undo": ("undo of one of 200 in full mode, ms", 1),
    "paper": ("event of the paper's preset, mean over its batches, µs", 0),
    "paper undo": ("undo of one of 200 of the paper's preset, ms", 1),
}
"""What is measured, in words, and its digits."""


def main() -> None:
    args = parse_arguments(__doc__, sizes=[500, 10_000, 100_000])
    columns = [_measure(size, size == min(args.sizes)) for size in args.sizes]
    write_page(
        args,
        "orag-speed",
        "Feedback",
        f"Made-up unit vectors, d = {DIMENSION}, preset default, {EVENTS:,} outcomes of 300 questions; "
        f"{machine(('torch', 'numpy'))}; load average {os.getloadavg()[1]:.1f}. Medians unless said otherwise. Asked "
        "for: a chosen-mode event at most 20 µs beyond score and disk, whatever the number of documents; a replay of "
        "3,000 at most 50 ms; an undo at most 1 ms.",
        table(
            ("", *(f"{size:,} documents" for size in args.sizes)),
            (
                (label, *(f"{column[key]:,.{digits}f}" if key in column else "" for column in columns))
                for key, (label, digits) in ROWS.items()
            ),
            "lr",
        ),
    )


def _measure(size: int, modes: bool) -> dict[str, float]:
    """Figures by their keys; modes: those of the slower modes too."""
    rng = np.random.default_rng(0)
    vectors, points = (rng.standard_normal((n, DIMENSION)).astype(np.float32) for n in (size, 300))
    vectors, points = (rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in (vectors, points))
    space = space_of(vectors, EncoderRef("made", "00" * 32, "float32"))
    start, micro = _time_call(orag.session, space)
    figures = {"start": 1e-3 * micro}
    queries = [start.resolve_query(row) for row in points]
    gc.collect()
    gc.freeze()

    # Scores between the steps, as in life, and none, as "beyond the score" has it.
    mixed, draws, asks, steps = start, [], [], []
    for turn in range(EVENTS):
        draw, took = _time_call(orag.ask, mixed, queries[turn % 300])
        asks.append(took)
        draws.append(draw)
        mixed, took = _time_call(_step, mixed, draw, turn)
        steps.append(took)
    figures["ask"], figures["between"] = np.median(asks), np.median(steps)
    after, steps = start, []
    for turn, draw in enumerate(draws):
        after, took = _time_call(_step, after, draw, turn)
        steps.append(took)
    figures["step"], figures["step95"] = np.median(steps), np.quantile(steps, 0.95)
    events = after.events[:REPLAYED]
    figures["replay"] = 1e-3 * min(_time_call(orag.replay, start, events)[1] for _ in range(5))
    if orag.replay(start, events).exact.tobytes() != after.exact.tobytes():
        raise SystemExit("the replay is another session")
    undone_session, undone, clicks = after, [], []
    for event in events[::10]:
        undone_session, took = _time_call(orag.undo, undone_session, event.id)
        undone.append(took)
        undone_session, took = _time_call(
            lambda undone_session: orag.feed(undone_session, orag.right_one(undone_session, queries[0], range(10), 4)),
            undone_session,
        )
        clicks.append(took)
    figures["undo"], figures["click"] = np.median(undone), np.median(clicks)
    figures |= _log(after, queries) | _time_shown(after, queries[0])
    if modes:
        full = orag.session(space, mode="full", temperature=start.temperature)
        for name, now in (("full", full), ("paper", orag.session(space, "paper"))):
            steps = []
            for turn in range(200):
                now, took = _time_call(_step, now, orag.ask(now, queries[turn]), turn)
                steps.append(took)
            figures[name] = np.mean(steps)
            figures[f"{name} undo"] = 1e-3 * np.median([_time_call(orag.undo, now, e.id)[1] for e in now.events[::20]])
    gc.unfreeze()
    return figures


def _log(session: orag.Session, queries: list[orag.Query]) -> dict[str, float]:
    """Time a line in a log in µs: in all, and without waiting for the disk."""
    with tempfile.TemporaryDirectory() as folder:
        orag.save(orag.at(session, 0), Path(folder) / "log.sqlite")
        log = orag.Log(Path(folder) / "log.sqlite", session.space)

        def time_votes(count: int, who: str) -> float:
            took = []
            for turn in range(count):
                event = orag.thumb(log.session, queries[turn], turn, person=f"{who} {turn}")
                took.append(_time_call(log.feed, event)[1])
            return float(np.median(took))

        line, real = time_votes(200, "a"), os.fsync
        os.fsync = lambda handle: None
        try:
            return {"line": line, "unsynced": time_votes(200, "b")}
        finally:
            os.fsync = real


def _time_shown(session: orag.Session, query: orag.Query) -> dict[str, float]:
    """ms from a thumb to the new list: the step, the vectors, their digest and norms, and the list."""
    top = engine.Decoder(engine.make("top_k"))
    vector = engine.Embeddings(("q",), torch.from_numpy(query.vector.copy()).unsqueeze(0))

    def show_new_list() -> object:
        after = orag.feed(session, orag.thumb(session, query, 3, up=False))
        embeddings = after.embeddings()
        embeddings.digest  # noqa: B018
        return engine.decode(top, engine.Space(session.space.corpus, embeddings, "cpu"), vector, k=10)

    return {"shown": 1e-3 * float(np.median([_time_call(show_new_list)[1] for _ in range(7)]))}


def _step(session: orag.Session, draw: orag.Draw, turn: int) -> orag.Session:
    """An outcome made and fed: every third a success."""
    return orag.feed(session, orag.outcome(session, draw, turn % 3 == 0))


def _time_call(call: Callable[..., Any], *args: Any) -> tuple[Any, float]:
    """Return the result of a call and the µs that it took."""
    seconds, result = time_call(call, *args)
    return result, 1e6 * seconds


if __name__ == "__main__":
    main()
