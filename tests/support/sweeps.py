"""Toy problems, a slow selector and a client that can be killed, for the tests of sweeps.

Run as a script it is that client: it sweeps the patient selector, with options in JSON, and prints the digest.
"""

import json
import os
import signal
import sqlite3
import sys
import time
from collections import Counter
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from filelock import lock_descriptor

import engine
from engine import stages
from engine.evaluation.sweep.cell import TIMING_ENTRY
from engine.params import Whole, declare
from engine.stages import Selector, register
from support.fork_server import fork_python
from support.instances import problem
from support.patience import patient
from support.points import digest_of_all
from support.processes import is_alive
from support.rankings import queries_of, space_of

KS = (2, 5)
METRICS = ("recall", "ndcg", "ilad")
BATCH = 9


def toy(family="clustered", seed=1, n=60, d=7, batch=BATCH):
    """Make (space, queries, qrels): the last query has no grades, the one before no relevant document."""
    rows, points = problem(family, seed, n=n, d=d, batch=batch)
    # Some of the relevant are near, some anywhere, and one is not in the corpus.
    near = engine.select("top_k", rows, points, k=9).index.tolist()
    rng = np.random.default_rng(seed)
    chosen = [{*near[b][:: 1 + b % 3], *rng.integers(n, size=3).tolist()} for b in range(batch)]
    grades = {f"q{b}": {f"d{i}": int(rng.integers(1, 4)) for i in sorted(chosen[b])} for b in range(batch - 2)}
    grades["q0"]["nowhere"] = 1
    grades[f"q{batch - 2}"] = {"d0": 0}
    return space_of(rows), queries_of(points), engine.Qrels(grades)


def make_passages(split="passages", suffix="?"):
    """Make space, queries, qrels and split: four topics, and a passage near each of the first documents."""
    random = torch.Generator().manual_seed(4)
    noise = torch.nn.functional.normalize(torch.randn(52, 8, generator=random), dim=1)
    vectors = torch.nn.functional.normalize(torch.eye(8)[:4].repeat(10, 1) + 0.4 * noise[:40], dim=1)
    space = space_of(vectors)
    ids = space.corpus.ids[:12]
    queries = engine.Embeddings(tuple(f"{doc_id}{suffix}" for doc_id in ids), vectors[:12] + 0.05 * noise[40:])
    qrels = engine.Qrels({query: {doc_id: 1} for query, doc_id in zip(queries.ids, ids, strict=True)})
    return {"space": space, "queries": queries, "qrels": qrels, "split": split}


def register_patient():
    """Register the selector `patient`, for separate processes and tests that restore the registry."""

    @register("patient", title="Patient", paper="none", equation="s", cost="time")
    @dataclass(frozen=True)
    class Patient(Selector):
        """The most relevant from `start` on, after PACE seconds. It leaves a TRAIL, and dies at FATAL or in company.

        Not for a query alone, which a sweep asks to time it.
        """

        start: int = declare(Whole(0, "s", 0, 40), "How many to pass over.")

        def select(self, candidates, k):
            if candidates.batch > 1:
                self.walk(k)
            order = candidates.relevance.argsort(dim=1, descending=True, stable=True)
            index = order[:, self.start : self.start + k]
            return engine.Ranking(index, candidates.relevance.gather(1, index).double(), ({},) * len(index))

        def walk(self, k):
            with open(os.environ["TRAIL"], "a") as trail:
                trail.write(f"{os.getpid()} {self.start} {k}\n")
                trail.flush()
                if os.environ.get("FATAL") in (str(self.start), detect_company(trail)):
                    os.kill(os.getpid(), signal.SIGKILL)
                time.sleep(float(os.environ.get("PACE", "0")))

    return Patient


def detect_company(file):
    """ "company" if another process holds the file's lock; else take the lock until the file is closed."""
    return "" if lock_descriptor(file.fileno(), blocking=False) else "company"


def make_patients(starts):
    return [engine.Decoder(engine.make("patient", start=start)) for start in starts]


def put_patient(monkeypatch, trail, pace=0.0):
    """Register the patient selector for one test, and set its variables."""
    engine.methods()  # those of the house first: they register themselves once in a process
    monkeypatch.setattr(stages, "_SPECS", dict(stages._SPECS))
    register_patient()
    monkeypatch.setenv("TRAIL", str(trail))
    monkeypatch.setenv("PACE", str(pace))


def read_trail(trail):
    """Read the trail: [(pid, start, k)]."""
    lines = Path(trail).read_text().splitlines() if Path(trail).exists() else []
    return [tuple(map(int, line.split())) for line in lines]


def list_walkers(trail):
    """List the processes in a trail."""
    return {pid for pid, _, _ in read_trail(trail)}


def count_units(trail):
    """Count the computations of each (start, k)."""
    return Counter((start, k) for _, start, k in read_trail(trail))


def start_client(trail, starts, k=KS, *, pace=0.0, fatal=None, **options):
    """Start a process that sweeps the patient selector over the toy problem and prints the digest of all cells."""
    return fork_python(
        "-m", "support.sweeps", json.dumps({"starts": list(starts), "k": k, **options}),
        TRAIL=str(trail), PACE=str(pace), **({} if fatal is None else {"FATAL": str(fatal)}),
    )  # fmt: skip


def without_times(store, chosen):
    """Remove the times of the chosen cells of a store, as those of one query have none; return their number."""
    cells = list(store.read_cells())
    with closing(sqlite3.connect(store.path)) as db, db:
        db.execute("DELETE FROM cells")
    for cell in cells:
        no_timing = chosen(cell)
        provenance = {n: value for n, value in cell.provenance.items() if n != TIMING_ENTRY or not no_timing}
        store.put_cell(replace(cell, provenance=provenance))
    return sum(map(chosen, cells))


def end_process(process, trail=None):
    """End a process that a test started, and its workers, in whatever state they are."""
    if process.poll() is None:
        process.kill()
    process.wait(patient(30))
    for pipe in filter(None, (process.stdout, process.stderr)):
        pipe.close()
    for pid in list_walkers(trail) if trail else ():
        if is_alive(pid):
            os.kill(pid, signal.SIGKILL)


def measure_toy():
    """Cells of five decoders on a toy problem, and the exact curve of MMR."""
    space, queries, qrels = toy(batch=150)
    # A grade of 0 would make the judgements pooled.
    qrels = engine.Qrels({query: grades for query, grades in qrels.grades.items() if any(grades.values())})
    decoders = [*engine.grid("top_k"), *engine.grid("mmr", 5), *engine.grid("vrsd"), *engine.grid("nnn", 3)]
    arguments = space, queries, qrels, 5, ("recall", "ilad")
    return [*engine.sweep(decoders, *arguments), engine.exact_frontier("mmr", *arguments, resamples=100)]


def main(options):
    torch.set_num_threads(1)
    chosen = make_patients(options.pop("starts"))
    data = toy(batch=options.pop("batch", BATCH))
    print(digest_of_all(engine.sweep(chosen, *data, metrics=METRICS, split="toy", **options)))


# The workers of a client know it by another name.
if __name__ in ("__main__", "__mp_main__"):
    register_patient()
if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
