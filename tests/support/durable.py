"""Operations that announce each piece and acknowledge it once it is on the disk; readers of what they left.

Each is called in a process of its own, whose FRONTIER_HOME lies in the folder that it is given.
"""

import os
import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import engine
from engine import orag
from engine.data import cache, encoders
from engine.data.models import encoder_model
from engine.data.stores import load
from engine.data.stores.config import open_store
from engine.evaluation.sweep import executors
from engine.evaluation.sweep.store import Store
from engine.judging import by_model
from engine.judging.log import JudgingLog
from engine.training import checkpoints, loop
from engine.values import Embeddings, Qrels, Queries, digest_of
from support import feedback, feedback_writer, sweeps, training
from support.encoders import sentences
from support.points import digest_of_all
from support.random_texts import corpus_of, space_of

Say = Callable[[str, Iterable[str]], None]
PIECE_BEGUN, PIECE_KEPT = "begun", "kept"
MODEL_ENV, STORES_ENV, ENDPOINTS_ENV = "DURABLE_MODEL", "DURABLE_STORES", "DURABLE_ENDPOINTS"
"""Variables that name the folder of the encoder, and hold the texts of stores.toml and endpoints.toml."""
NAMES = tuple(map(str, range(60)))
"""Names of the votes, grades and cache entries."""


@dataclass(frozen=True)
class Operation:
    """A long operation and its reader.

    work: does it in a folder, goes on from what is there, and returns the digest of what came out; it says the names of
    the pieces that it begins together, and of each once it is kept. read_kept: the names that a reader finds.
    """

    work: Callable[[Path, Say], str]
    read_kept: Callable[[Path], set[str]]


def home_in(folder: Path) -> Path:
    """Make the home of an operation's folder that of this process, and return it."""
    os.environ["FRONTIER_HOME"] = str(folder / "home")
    return folder / "home"


def acknowledge(
    function: Callable, begun_names: Callable = lambda *_: (), kept_names: Callable = lambda *_: (), *, say: Say
) -> Callable:
    """Wrap a function so that it announces names before a call and acknowledges names after it.

    Both are functions of its arguments.
    """

    def saying(*args, **options):
        if names := begun_names(*args):
            say(PIECE_BEGUN, names)
        result = function(*args, **options)
        if names := kept_names(*args):
            say(PIECE_KEPT, names)
        return result

    return saying


def _number(text: str) -> str:
    return text.split()[0]


TEXTS = sentences(320)


def _embed(folder: Path, say: Say) -> str:
    def keep_and_say(key, vectors, typed):
        keep(key, vectors, typed)
        if cache.get_array(encoders.EMBEDDING_SECTION, key) is not None:
            say(PIECE_KEPT, [by_key[key]])

    encoders._MAX_CHUNK_TEXTS, keep = 12, encoders._store_chunk
    by_key = {key: _number(TEXTS[span.start]) for span, key in _chunks()}
    encoders._encode_texts = acknowledge(encoders._encode_texts, lambda model, texts, *_: [_number(texts[0])], say=say)
    encoders._store_chunk = keep_and_say
    return engine.embed(corpus_of(TEXTS), os.environ[MODEL_ENV], dtype="float32").digest


def _chunks():
    encoders._MAX_CHUNK_TEXTS = 12
    source = encoder_model.find_source(os.environ[MODEL_ENV])
    how = (source.digest, "float32", "document", source.prompt("document"))
    return list(encoders._key_chunks(corpus_of(TEXTS).passages, *how))


def _read_embedded(folder: Path) -> set[str]:
    home_in(folder)
    cached_chunks = ((span, cache.get_array(encoders.EMBEDDING_SECTION, key)) for span, key in _chunks())
    return {_number(TEXTS[span.start]) for span, rows in cached_chunks if rows is not None and len(rows) == len(span)}


def _say_cells(say: Say) -> None:
    """Patch sweeps to announce the cells computed together, and acknowledge each once it is stored."""
    executors.compute_unit = acknowledge(
        executors.compute_unit,
        lambda task, unit, *_: [_cell_name(task.split, d.label, k) for d in unit.decoders for k in unit.ks],
        say=say,
    )
    Store.put_cell = acknowledge(
        Store.put_cell, kept_names=lambda _, cell: [_cell_name(cell.split, cell.label, cell.k)], say=say
    )


def _cell_name(split: str, label: str, k: int) -> str:
    return f"{split} {label} {k}"


def _sweep(folder: Path, say: Say) -> str:
    _say_cells(say)
    chosen = [*engine.grid("top_k"), *engine.grid("mmr", points=14), *engine.grid("vrsd"), *engine.grid("max_sum", 4)]
    data = sweeps.toy(n=60, batch=8)
    return digest_of_all(engine.sweep(chosen, *data, k=(2, 5), metrics=sweeps.METRICS, store=folder / "sweep.db"))


def _tune(folder: Path, say: Say) -> str:
    _say_cells(say)
    space, queries, judged = sweeps.toy(n=120, batch=24)
    ids = list(judged.grades)
    splits = {"dev": ids[::2], "test": ids[1::2]}
    qrels = {name: Qrels({query: judged.grades[query] for query in query_ids}) for name, query_ids in splits.items()}
    free = {"free": ("l1", "l2", "scale"), "trials": 10}
    tuned = engine.tune("nnn", space, queries, qrels, k=5, store=folder / "tuned.db", **free)
    return digest_of([repr(tuned.decoder), digest_of_all(tuned.points), *tuned.sentences])


def _cells_in(file: str) -> Callable[[Path], set[str]]:
    def whole_cells(folder: Path) -> set[str]:
        path = folder / file
        return {_cell_name(c.split, c.label, c.k) for c in Store(path).read_cells()} if path.exists() else set()

    return whole_cells


def _train(folder: Path, say: Say) -> str:
    loop._train_epoch = acknowledge(loop._train_epoch, lambda run, number, *_: [str(number)], say=say)
    options = {**training.QUICK, "epochs": 8, "checkpoint": folder / "run.safetensors"}
    data = training.plant(n=40, train=160, dev=20)
    return engine.train("dense", *data, watch=lambda epoch: say(PIECE_KEPT, [str(epoch.epoch)]), **options).digest


def _read_trained(folder: Path) -> set[str]:
    path = folder / "run.safetensors"
    return {str(epoch.epoch) for epoch in checkpoints.read(path).run.history} if path.exists() else set()


def _vote(folder: Path, say: Say) -> str:
    log = orag.log(folder / "log.sqlite", feedback.random_space(), temperature=0.2)
    # A killed writer cannot report; its successor reads the log.
    earlier_names = {name.split()[1] for name in _people(log.session)}
    say(PIECE_BEGUN, [name for name in NAMES if name not in earlier_names][:1])

    def next_one(person):
        name = person.split()[1]
        say(PIECE_KEPT, [name])
        say(PIECE_BEGUN, NAMES[int(name) + 1 : int(name) + 2])

    feedback_writer.write_to(log, "w", len(NAMES), next_one)
    session, _ = orag.load(log.path, log.session.space)
    return digest_of([session.embeddings().digest, *_people(session)])


def _people(session: orag.Session) -> list[str]:
    return [str(event.person) for event in session.events]


def _read_voted(folder: Path) -> set[str]:
    path = folder / "log.sqlite"
    if not path.exists() or not path.stat().st_size:
        return set()
    return {name.split()[1] for name in _people(orag.log(path, feedback.random_space(), temperature=0.2).session)}


def _judge(folder: Path, say: Say) -> str:
    log = JudgingLog(folder / "judged.sqlite")
    earlier_names = {judgement.query for judgement in log.read().judgements}
    for name in NAMES:
        if name not in earlier_names:
            say(PIECE_BEGUN, [name])
            log.judge(name, f"d{name}", int(name) % 4, "ana")
            say(PIECE_KEPT, [name])
    return digest_of([f"{j.query} {j.document} {j.grade}" for j in JudgingLog(log.path).read().judgements])


def _read_judged(folder: Path) -> set[str]:
    return {judgement.query for judgement in JudgingLog(folder / "judged.sqlite").read().judgements}


def _judge_by_model(folder: Path, say: Say) -> str:
    home = home_in(folder)
    home.mkdir(parents=True, exist_ok=True)
    (home / "endpoints.toml").write_text(os.environ[ENDPOINTS_ENV], encoding="utf-8")
    corpus, queries = corpus_of([f"text number {name}" for name in NAMES]), Queries(("q",), ("what",))
    by_model.ModelJudge.grade = acknowledge(
        by_model.ModelJudge.grade, lambda _self, _query, text, *_: [text.split()[-1]], say=say
    )
    JudgingLog.add = acknowledge(
        JudgingLog.add, kept_names=lambda _, judgements: [NAMES[corpus.position[j.document]] for j in judgements],
        say=say,
    )  # fmt: skip
    log, judge = JudgingLog(folder / "by_model.sqlite"), by_model.make_judge("mine")
    by_model.judge_by_model(log, judge, [("q", doc_id) for doc_id in corpus.ids], queries, corpus)
    answers = log.read().of_model(judge.name)
    return digest_of([f"{pair} {answer.grade}" for pair, answer in sorted(answers.items())])


def _read_judged_by_model(folder: Path) -> set[str]:
    corpus, judged = corpus_of(list(NAMES)), JudgingLog(folder / "by_model.sqlite").read()
    return {NAMES[corpus.position[judgement.document]] for judgement in judged.model_judgements}


def _put(folder: Path, say: Say) -> str:
    for name in NAMES:
        if cache.get("things", name) is None:
            say(PIECE_BEGUN, [name])
            cache.put("things", name, _payload(name))
            if cache.get("things", name) is not None:
                say(PIECE_KEPT, [name])
    # A missing entry would be made again.
    return digest_of([digest_of([cache.get("things", name) or _payload(name)]) for name in NAMES])


def _payload(name: str) -> bytes:
    chance = random.Random(name)
    return chance.randbytes(chance.choice((10, 4_000, 70_000, 400_000)))


def _read_cached(folder: Path) -> set[str]:
    home_in(folder)
    return {name for name in NAMES if cache.get("things", name) == _payload(name)}


ROWS, BATCH = 2_000, 50


def _load(folder: Path, say: Say) -> str:
    _configure(folder)
    load._PgWriter.write = acknowledge(
        load._PgWriter.write, lambda _, start, size: [str(start)], lambda _, start, size: [str(start)], say=say
    )
    rows = space_of(corpus_of(sentences(ROWS)), feedback.random_space(ROWS).vectors)
    load.load(_target(folder), rows.corpus, rows.embeddings, batch=BATCH)
    store = open_store(_target(folder))
    try:
        stored_rows = {
            name: row.tobytes() for ids, part in store.scan(500) for name, row in zip(ids, part, strict=True)
        }
        return (
            Embeddings(rows.corpus.ids, rows.vectors).digest
            if stored_rows == _bytes(rows)
            else f"{len(stored_rows)} others"
        )
    finally:
        store.close()


def _bytes(space: engine.Space) -> dict[str, bytes]:
    return {name: row.tobytes() for name, row in zip(space.corpus.ids, space.vectors.numpy(), strict=True)}


def _configure(folder: Path) -> None:
    home = home_in(folder)
    home.mkdir(parents=True, exist_ok=True)
    (home / "stores.toml").write_text(os.environ[STORES_ENV], encoding="utf-8")


def _target(folder: Path) -> str:
    return f"pg/of_{digest_of([str(folder)])[:16]}"


def _read_loaded(folder: Path) -> set[str]:
    from engine.data.stores.config import read_entry

    _configure(folder)
    entry = read_entry(_target(folder))
    with entry.access.connect() as connection:
        exists = connection.execute("SELECT to_regclass(%s) IS NOT NULL", [entry.table.table]).fetchone()[0]
        rows = connection.execute(f"SELECT place FROM {entry.table.table}").fetchall() if exists else []
    positions = {position for (position,) in rows}
    return {str(start) for start in range(0, ROWS, BATCH) if positions.issuperset(range(start, start + BATCH))}


SERVED = ("model judge", "store load")
"""Operations that need a server."""
OPERATIONS = {
    "embed": Operation(_embed, _read_embedded),
    "tune": Operation(_tune, _cells_in("tuned.db")),
    "sweep": Operation(_sweep, _cells_in("sweep.db")),
    "train": Operation(_train, _read_trained),
    "feedback": Operation(_vote, _read_voted),
    "judgements": Operation(_judge, _read_judged),
    "model judge": Operation(_judge_by_model, _read_judged_by_model),
    "store load": Operation(_load, _read_loaded),
    "cache": Operation(_put, _read_cached),
}
