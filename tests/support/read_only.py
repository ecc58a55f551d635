"""Steps of a process in a home, each done or refused by a sentence; and a view in which nothing can be written.

python -m support.read_only CORPUS
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import engine
from dashboard.services import uploads
from dashboard.sharing import snapshots
from dashboard.sharing.snapshots import SavedAnswer
from engine import orag
from engine.data import cache, codes
from engine.evaluation.sweep.store import Store, cached_file
from engine.judging.log import JudgingLog
from engine.paths import home, storage_warning
from engine.values import Qrels
from support import training
from support.fork_server import fork_python
from support.processes import environment

QUERIES = ("where cats sleep", "what dogs eat")
VIEW = 'mount --bind "$0" "$0" && mount -o remount,ro,bind "$0" && exec "$@"'
"""Shell command that makes a folder read-only in one process's view of the files."""


def write_corpus(folder: Path) -> Path:
    path = folder / "corpus.csv"
    rows = [f"d{n},{'cats' if n % 2 else 'dogs'} number {n} sleep and eat {'fish' * (n % 5)}" for n in range(24)]
    path.write_text("id,text\n" + "\n".join(rows) + "\n")
    return path


def run_steps_in(home_folder: Path, corpus: Path, view: Path | None = None, **variables: str) -> tuple[dict, str]:
    """Run every step in a home; return the outcomes and stderr; view: a folder that cannot be written."""
    if view is None:
        process = fork_python("-m", "support.read_only", str(corpus), FRONTIER_HOME=str(home_folder), **variables)
        printed, errors = process.communicate()
        assert process.wait() == 0, errors
        return json.loads(printed.splitlines()[-1]), errors
    command = [
        "unshare",
        "--mount",
        "sh",
        "-c",
        VIEW,
        str(view),
        sys.executable,
        "-m",
        "support.read_only",
        str(corpus),
    ]
    around = environment(FRONTIER_HOME=str(home_folder), FRONTIER_THREADS="1", OMP_NUM_THREADS="1", **variables)
    done = subprocess.run(command, capture_output=True, text=True, env=around)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1]), done.stderr


def skip_without_view(folder: Path) -> None:
    """Skip if no process can have a view of its own."""
    tried = ["unshare", "--mount", "sh", "-c", VIEW, str(folder), "true"]
    if not shutil.which("unshare") or subprocess.run(tried, capture_output=True).returncode:
        pytest.skip("no view of its own for a process here")


def _steps(corpus: Path):
    """Yield each step's name and its function, in this order."""
    dataset = engine.load_dataset(str(corpus))
    space = engine.Space(dataset.corpus, engine.embed(dataset.corpus))
    queries = engine.Queries.of(QUERIES)
    vectors = engine.embed_queries(space, queries)
    ids = dataset.corpus.ids
    grades = {query: {doc: 1 for doc in ids[offset::2]} for offset, query in enumerate(queries.ids)}
    sweep_options = {"qrels": Qrels(grades), "k": 3, "metrics": ("recall",)}
    decoders = [engine.Decoder(engine.make("top_k")), engine.Decoder(engine.make("mmr", relevance_weight=0.5))]

    def answers(name):
        return engine.decode(engine.Decoder(engine.make(name)), space, vectors, k=3).index.tolist()

    def cells(**more):
        return [point.digest for point in engine.sweep(decoders, space, vectors, **sweep_options, **more)]

    def store():
        return Store(cached_file("sweeps", "cells.db"))

    yield "embed", lambda: space.embeddings.digest
    yield "mmr", lambda: answers("mmr")
    yield "nnn", lambda: answers("nnn")
    yield "sweep", cells
    yield "sweep of a page", lambda: cells(store=store())
    yield "cells", lambda: len(list(store().read_cells()))
    splits = {name: Qrels({query: grades[query]}) for name, query in zip(("dev", "test"), queries.ids, strict=True)}
    yield "tune", lambda: engine.tune("mmr", space, vectors, splits, k=3, points=3).decoder.label
    yield "codes", lambda: _codes(corpus)
    yield "upload", lambda: uploads._save_files([("pets.csv", b"id,text\n1,a cat\n")]).read_text()
    planted = training.plant(n=30, train=20, dev=10)
    checkpoint = cache.entry_path("trained", "run.safetensors")
    yield "train", lambda: engine.train("dense", *planted, checkpoint=checkpoint, **training.QUICK).digest
    log, judging = orag.place(space), JudgingLog(home() / "judgements" / "log.sqlite")
    yield "vote", lambda: _vote(log, space, vectors)
    yield "votes", lambda: len(orag.load(log, space)[0].events)
    yield "judge", lambda: len(judging.judge("q", "d1", 1).judgements)
    yield "judgements", lambda: len(judging.read().judgements)
    yield "snapshot", lambda: snapshots.save(_snapshot()).name
    yield "unkept", storage_warning


def _codes(path):
    rows = torch.from_numpy(np.random.default_rng(0).normal(size=(100, 8)).astype(np.float32))
    return [part.double().sum().item() for part in codes.load_cached_codes(path, rows, rows.norm(dim=1).double())]


def _vote(path, space, vectors):
    log = orag.log(path, space, "careful")
    event = orag.thumb(log.session, orag.Query(vectors.vectors[0].numpy(), QUERIES[0]), 1, True)
    return len(log.feed(event).events)


def _snapshot():
    answer = SavedAnswer("MMR", "mmr(…)", (("a", "A"),), {"ILAD@3": 0.25})
    state = {"state": {"v": "1"}, "corpus": "pets", "digest": "d1", "vectors": "v1", "encoder": "bundled"}
    return snapshots.make_snapshot("one", **state, query="q", answers={"mmr": answer})


def main() -> None:
    os.umask(0o022)  # what others may read is decided by whoever writes a file
    outcomes = {}
    for name, work in _steps(Path(sys.argv[1])):
        try:
            outcomes[name] = work()
        except engine.FrontierError as error:
            outcomes[name] = f"refused: {error}"
    os.write(1, (json.dumps(outcomes) + "\n").encode())


if __name__ == "__main__":
    main()
