"""Files that a stranger changed and sealed again: checksums fit, and values are whatever a program could not have made.

Each kind makes a sound file in a folder, changes one value at random, and says how the file is read and used.
"""

import json
import random
import resource
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import engine
from dashboard.sharing import snapshots
from engine import orag
from engine.data import event_log
from engine.evaluation.decide import decide
from engine.evaluation.export_decoder import read_setting
from engine.evaluation.frames import to_frame
from engine.evaluation.sweep import store as sweep_store
from engine.evidence.run import load_shipped, parse_report
from engine.judging.answer_log import AnswerLog, WrittenAnswer
from engine.judging.log import JudgingLog
from engine.judging.qrels import compute_agreement, merge_grades
from engine.training import checkpoints
from engine.values import digest_of
from support import sweeps, training
from support.feedback import random_space, vote

DEEP, LONG, MANY = 3_000, 1_000_000, 50_000
"""Levels of nested lists, characters of a text, entries of a list."""
MAX_EXTRA_BYTES = 1 << 30
"""Memory that a reader may take beyond what the process has."""


def nest(levels: int) -> Any:
    """Return a list in a list in a list, that many levels deep."""
    value: Any = []
    for _ in range(levels):
        value = [value]
    return value


HOSTILE: tuple[Any, ...] = (
    None, True, False, -1, 0, 1, 7, 2**31, 2**63, -(2**63), 10**400, 1e308, -0.0, 1e-320, float("nan"), float("inf"),
    "", "0", "\x00", "\ud800", "../../etc/passwd", "x" * LONG, "\u202e<script>", [], {}, [[]], {"": None},
    [None] * MANY, list(range(20)), "mmr", {"name": "mmr"},
)  # fmt: skip


def change_value(value: Any, chance: random.Random) -> Any:
    """Return a copy of a JSON value in which one part, drawn at random, is another one, missing, or there twice."""
    if isinstance(value, dict) and value and chance.random() < 0.85:
        key = chance.choice(list(value))
        action = chance.random()
        if action < 0.08:
            return {name: part for name, part in value.items() if name != key}
        if action < 0.14:
            return {**value, chance.choice(["x", "__class__", "id", "name"]): value[key]}
        return {**value, key: change_value(value[key], chance)}
    if isinstance(value, list) and value and chance.random() < 0.85:
        position = chance.randrange(len(value))
        action = chance.random()
        if action < 0.08:
            return value[:position] + value[position + 1 :]
        if action < 0.14:
            return [*value, value[position]]
        return [*value[:position], change_value(value[position], chance), *value[position + 1 :]]
    return nest(DEEP) if chance.random() < 0.04 else chance.choice(HOSTILE)


def format_json(value: Any) -> str:
    """Format any value as JSON, as deep as it is."""
    try:
        return json.dumps(value)
    except (RecursionError, ValueError):
        return json.dumps("") if not isinstance(value, list | dict) else "[" * DEEP + "]" * DEEP


def change_json(text: str, chance: random.Random) -> str:
    """Change one value of a JSON text."""
    return format_json(change_value(json.loads(text), chance))


@dataclass(frozen=True)
class Kind:
    """A kind of file: `make` writes one into the home, `change` changes and seals it, `use` reads and uses it."""

    make: Callable[[Path], Path]
    change: Callable[[Path, random.Random], None]
    use: Callable[[Path], Any]


def change_cell(raw: Any, chance: random.Random) -> Any:
    """Change a value of a table: JSON inside, other numbers, or a value of another type."""
    if isinstance(raw, str) and raw[:1] in ("{", "[") and chance.random() < 0.8:
        return change_json(raw, chance)
    if isinstance(raw, bytes) and raw and chance.random() < 0.5:
        position = chance.randrange(len(raw))
        return raw[:position] + chance.randbytes(chance.choice((1, 8, 5000))) + raw[position + 1 :]
    value = chance.choice([v for v in HOSTILE if v is None or isinstance(v, int | float | str)])
    if isinstance(value, str):
        value = value.encode("utf-8", "replace").decode()
    return max(-(2**63), min(2**63 - 1, value)) if isinstance(value, int) else value


def _change_event(path: Path, chance: random.Random) -> None:
    """Change the header or an event of a log, and compute its checksum anew."""
    with closing(sqlite3.connect(path)) as db, db:
        if chance.random() < 0.3:
            kind, log_id, body = db.execute("SELECT kind, id, body FROM meta").fetchone()
            body = change_json(body, chance)
            db.execute("UPDATE meta SET body = ?, checksum = ?", (body, event_log._checksum(kind, log_id, body)))
            return
        number, body = chance.choice(db.execute("SELECT number, body FROM events").fetchall())
        body = change_json(body, chance)
        checksum = event_log._checksum(number, body)
        db.execute("UPDATE events SET body = ?, checksum = ? WHERE number = ?", (body, checksum, number))


def _make_votes(folder: Path) -> Path:
    log = orag.log(folder / "votes.sqlite", random_space(), temperature=0.2)
    for row in range(3):
        log.feed(vote(log.session, row))
    log.undo(log.session.events[-1].id)
    return log.path


def _use_session(session: orag.Session) -> None:
    session.embeddings()
    for event in session.events:
        orag.undo(session, event.id).embeddings()


def _use_votes(path: Path) -> None:
    _use_session(orag.load(path, random_space())[0])
    log = orag.log(path, random_space())
    log.feed(vote(log.session, 3))


def _make_export(folder: Path) -> Path:
    space = random_space()
    session = orag.session(space, temperature=0.2)
    for row in range(2):
        session = orag.feed(session, vote(session, row))
    return orag.save(session, folder / "votes.jsonl")


def _change_export(path: Path, chance: random.Random) -> None:
    header, events = event_log.read_jsonl(path, "feedback")
    changed = change_value([header, *events], chance)
    header, *events = changed if isinstance(changed, list) and changed else [{}]
    lines = []
    for number, text in enumerate(map(format_json, (header, *events))):
        lines.append(f'{event_log.LINE_START}{event_log._checksum(number, text)}",{text[1:]}\n')
    path.write_text("".join([*lines, event_log._end_line(len(events)), "\n"]))


def _use_export(path: Path) -> None:
    _use_session(orag.load(path, random_space())[0])


def _make_judgements(folder: Path) -> Path:
    log = JudgingLog(folder / "judged.sqlite")
    log.add_queries(engine.Queries(("q", "p"), ("what", "why")))
    for number in range(4):
        log.judge("qp"[number % 2], f"d{number}", number, "ann")
    log.undo("ann")
    return log.path


def _use_judgements(path: Path) -> None:
    log = JudgingLog(path)
    judged = log.read()
    judged.queries(), judged.people, judged.remaining([("q", "d9")], "ann", 1)
    if judged.judgements:
        merge_grades(judged)
        compute_agreement(judged)
    log.judge("q", "d7", 1, "ben")
    log.undo("ann")


def _make_answers(folder: Path) -> Path:
    log = AnswerLog(folder / "answers.sqlite")
    for number in range(3):
        log.add(WrittenAnswer(query=f"q{number}", key="k", model="m", text="an answer"))
    return log.path


def _make_sweep(folder: Path) -> Path:
    path = folder / "sweep.db"
    space, queries, qrels = sweeps.toy()
    list(engine.sweep(engine.grid("mmr", 3), space, queries, qrels, k=5, store=path))
    store = sweep_store.Store(path)
    store.put_study({"asked": {"k": 3}, "tuned": "mmr", "status": "confirmed"})
    return path


def _change_sweep(path: Path, chance: random.Random) -> None:
    """Change a row of a store of sweeps, and compute its seal anew."""
    with closing(sqlite3.connect(path)) as db, db:
        table = chance.choice(["cells", "cells", "cells", "studies", "queries"])
        columns = [row[1] for row in db.execute(f"PRAGMA table_info({table})")]
        values = chance.choice(db.execute(f"SELECT * FROM {table}").fetchall())
        column = chance.randrange(1, len(columns))
        try:
            value = change_cell(values[column], chance)
            db.execute(f'UPDATE {table} SET "{columns[column]}" = ? WHERE "{columns[0]}" = ?', (value, values[0]))
        except sqlite3.IntegrityError:
            return  # the table itself refuses it
        queries = dict(db.execute("SELECT digest, ids FROM queries"))
        for row in db.execute(f"SELECT {sweep_store.CELL_FIELDS} FROM cells").fetchall():
            cell = dict(zip(sweep_store.CELL_COLUMNS, row, strict=True))
            sweep_store._write_seal(db, cell["key"], (*row, queries.get(cell["queries"])))
        for row in db.execute("SELECT * FROM studies").fetchall():
            sweep_store._write_seal(db, row[0], row)


def _use_sweep(path: Path) -> None:
    store = sweep_store.Store(path)
    store.read_studies()
    cells = list(store.read_cells())
    to_frame(cells)
    engine.frontier(cells, x="ilad", y="recall", k=5)
    decide(cells, k=5, baseline=cells[0].label)
    engine.compare(cells, "recall", k=5, baseline=cells[0].label)


def _make_snapshot(folder: Path) -> Path:
    answer = snapshots.SavedAnswer("MMR", "mmr(…)", (("a", "A"), ("b", "B")), {"ILAD@3": 0.25, "Recall@3": None})
    state = {"state": {"v": "1", "k": "3"}, "corpus": "pets", "digest": "d1", "vectors": "v1", "encoder": "bundled"}
    saved = snapshots.save(snapshots.make_snapshot("one", **state, query="q", answers={"mmr": answer}))
    return snapshots.get_folder() / f"{saved.id}.json"


def _change_snapshot(path: Path, chance: random.Random) -> None:
    data = json.loads(path.read_text())
    data.pop("seal")
    data = change_value(data, chance)
    if isinstance(data, dict):
        try:
            data["seal"] = digest_of([json.dumps(data, sort_keys=True)])
        except RecursionError:
            data["seal"] = ""
    path.write_text(format_json(data))


def _use_snapshots(path: Path) -> None:
    readable, _ = snapshots.read_snapshots()
    for view in readable:
        view.when, snapshots.compare_settings(view, view), snapshots.compare_metrics(view, view)
        for answer in view.answers.values():
            snapshots.compare_sets(answer, answer)
        snapshots.rename_snapshot(view.id, "two")


def _make_checkpoint(folder: Path) -> Path:
    path = folder / "run.safetensors"
    engine.train("dense", *training.plant(n=30, train=20, dev=10), checkpoint=path, **training.QUICK)
    return path


def _change_checkpoint(path: Path, chance: random.Random) -> None:
    from safetensors import safe_open
    from safetensors.torch import save_file

    with safe_open(path, "pt") as file:
        texts = dict(file.metadata())
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    texts.pop(checkpoints.SEAL_KEY)
    if chance.random() < 0.3:
        name = chance.choice(list(tensors))
        tensor = tensors.pop(name)
        tensors[chance.choice([name, "x", f"{name}.x"])] = chance.choice(
            [tensor * float("nan"), tensor.flatten()[:0], tensor.double(), tensor.flatten(), tensor.bool()]
        ).contiguous()
    else:
        name = chance.choice(list(texts))
        texts[name] = change_json(texts[name], chance)
    texts[checkpoints.SEAL_KEY] = checkpoints._compute_seal(tensors, texts)
    save_file(tensors, path, metadata=texts)


def _use_checkpoint(path: Path) -> None:
    from engine.training.trained import decoder_at

    space, queries, qrels = training.plant(n=30, train=20, dev=10)
    decoder_at(path)
    trained = engine.load_trained(path, space)
    repr((trained.best, trained.history, trained.stopped))
    engine.decode(trained.decoder, trained.space, trained.queries(queries), 3)
    engine.train("dense", space, queries, qrels, checkpoint=path, **training.QUICK)


def _make_evidence(folder: Path) -> Path:
    path = folder / "evidence.json"
    report = load_shipped()
    # A few rows, one with curves: all of them take seconds to draw.
    with_curves = [row for row in report.rows if any(effect.curves for effect in row.ruling.effects)]
    path.write_text(replace(report, rows=(*report.rows[:2], *with_curves[:1])).as_json())
    return path


def _change_text(path: Path, chance: random.Random) -> None:
    path.write_text(change_json(path.read_text(), chance))


def _use_evidence(path: Path) -> None:
    from dashboard.evidence.html import build_page

    report = parse_report(path.read_text())
    report.title, report.seconds, report.table(), report.as_json(), build_page(report)


def _make_setting(folder: Path) -> Path:
    path = folder / "setting.json"
    decoder = engine.Decoder(engine.make("mmr", relevance_weight=0.7), depth=20)
    path.write_text(engine.export(decoder, "json").text)
    return path


def _use_setting(path: Path) -> None:
    space, queries, _ = sweeps.toy()
    decoder, use = read_setting(path)
    repr(use), decoder.label, engine.decode(decoder, space, queries, 3)


KINDS = {
    "votes": Kind(_make_votes, _change_event, _use_votes),
    "exported votes": Kind(_make_export, _change_export, _use_export),
    "judgements": Kind(_make_judgements, _change_event, _use_judgements),
    "answers": Kind(_make_answers, _change_event, lambda path: AnswerLog(path).read()),
    "sweep": Kind(_make_sweep, _change_sweep, _use_sweep),
    "saved view": Kind(_make_snapshot, _change_snapshot, _use_snapshots),
    "checkpoint": Kind(_make_checkpoint, _change_checkpoint, _use_checkpoint),
    "evidence": Kind(_make_evidence, _change_text, _use_evidence),
    "exported setting": Kind(_make_setting, _change_text, _use_setting),
}


@contextmanager
def bounded_memory() -> Iterator[None]:
    """Refuse memory beyond MAX_EXTRA_BYTES more than the process has: a reader that wants more gets a MemoryError."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + MAX_EXTRA_BYTES, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def read_changed(name: str, path: Path, raw: bytes, seed: int) -> str:
    """Change a sound file by a seed and use it; return "read", or the name of the error, if that is one of ours.

    Any other error is raised, and the file stays as it was changed.
    """
    kind = KINDS[name]
    for file in path.parent.glob(f"{path.name}-*"):
        file.unlink()  # what SQLite left
    path.write_bytes(raw)
    kind.change(path, random.Random(seed))
    with bounded_memory():
        try:
            kind.use(path)
        except engine.FrontierError as error:
            return type(error).__name__
    return "read"
