"""Many vectors a document against one: what the passages of a document add to retrieval, and what they take.

python tests/bench/bench_many.py [--overlap 0.25] [--resamples 10000]      writes assets/results/many-vectors.md

Needs the judged sets (FRONTIER_DATA). Every document is cut into windows of 50, 100 and 200 words, embedded by the
encoder that embedded the whole documents; a document scores as its best passage. Nothing is fitted, so the queries of
all splits count. Time: one query at a time against an index in memory, the query's vector given, methods taking turns.
"""

import argparse
import os
import platform
import statistics
import sys
import time
from importlib.metadata import version
from pathlib import Path

os.environ["OMP_NUM_THREADS"] = "1"
ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

import torch  # noqa: E402
from real_sets import DATA  # noqa: E402

import engine  # noqa: E402
from engine.data.encoders import truncated_count  # noqa: E402
from engine.data.models import find  # noqa: E402
from engine.decoder import query_batch  # noqa: E402
from engine.evaluation.statistics import holm, randomisation_test  # noqa: E402
from engine.values import Qrels  # noqa: E402

SETS = ("multihop-rag-summ500", "cranfield")
LENGTHS = (50, 100, 200)
METRICS = ("recall", "ndcg", "mrr")


def judged(dataset: engine.Dataset) -> Qrels:
    """The judgements of all splits."""
    return Qrels({query: grades for qrels in dataset.qrels.values() for query, grades in qrels.grades.items()})


def milliseconds(scorers: dict[str, object], space: engine.Space, batch: object, runs: int) -> dict[str, float]:
    """Median time of one query by scorer."""
    spent: dict[str, list[float]] = {name: [] for name in scorers}
    for at in range(runs):
        one = batch.block(at % len(batch), at % len(batch) + 1)
        for name, scorer in scorers.items():
            started = time.perf_counter()
            scorer.score(space, one)
            spent[name].append(1e3 * (time.perf_counter() - started))
    return {name: statistics.median(times[1:]) for name, times in spent.items()}


def rows(name: str, overlap: float, resamples: int) -> tuple[list[str], str]:
    """The set's rows of the table, and what there is to know of the set."""
    dataset = engine.load_dataset(str(DATA / name))
    space = engine.Space(dataset.corpus, engine.embed(dataset.corpus), "cpu")
    qrels = judged(dataset)
    asked = engine.embed(dataset.queries.only(qrels.grades))
    scorers = {"one vector (dense)": engine.make("dense")}
    for length in LENGTHS:
        scorers[f"max_sim, {length} words"] = engine.make("max_sim", length=length, overlap=overlap)
    found = {}
    for label, scorer in scorers.items():
        ranking = engine.decode(engine.Decoder(engine.make("top_k"), scorer), space, asked, k=10)
        found[label] = engine.measure(ranking, space, asked, qrels, k=10, metrics=METRICS)
    times = milliseconds(scorers, space, query_batch(space, asked), 101)
    base, *others = found
    values = {label: {m: list(found[label].per_query[m].values()) for m in METRICS} for label in found}
    p = holm([randomisation_test(values[o][m], values[base][m], resamples=resamples) for o in others for m in METRICS])
    lines = []
    for at, (label, scorer) in enumerate(scorers.items()):
        index = scorer.index(space) if label != base else None
        per, size = (index.per_document, index.bytes) if index else (1.0, space.vectors.numel() * 4)
        cells = [
            f"{found[label].mean[m]:.4f}" + (f" (p = {p[(at - 1) * len(METRICS) + i]:.3f})" if index else "")
            for i, m in enumerate(METRICS)
        ]
        most = int(index.counts.max()) if index else 1
        lines.append(
            f"| {name} | {label} | {' | '.join(cells)} | {per:.2f} × | {most} | {size / 1e6:.1f} | {times[label]:.2f} |"
        )
    words = sorted(len(text.split()) for text in dataset.corpus.passages)
    told = (
        f"{name}: {len(space):,} documents of {statistics.fmean(words):.0f} words on average (median "
        f"{statistics.median(words):.0f}, most {words[-1]}), {len(asked)} queries; {truncated_count(dataset.corpus)} "
        f"documents are longer than the {find('bundled').limit} tokens that the encoder reads, so one vector misses "
        "their ends."
    )
    return lines, told


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--overlap", type=float, default=0.25)
    parser.add_argument("--resamples", type=int, default=10_000)
    given = parser.parse_args()
    torch.set_num_threads(1)
    parts = [rows(name, given.overlap, given.resamples) for name in SETS]
    heading = ["| set | vectors | Recall@10 | nDCG@10 | MRR@10 | m | most m | MB | ms a query |", "| --- " * 9 + "|"]
    lines = [
        "# Many vectors a document against one",
        f"`python tests/bench/bench_many.py --overlap {given.overlap} --resamples {given.resamples}`",
        f"{os.cpu_count()} cores, one thread, Python {platform.python_version()}, torch {version('torch')}; the "
        "bundled encoder.",
        f"A document scores as the best of its passages: windows of so many words, each repeating {given.overlap:.0%} "
        "of the one before, its document's title before each. m: vectors a document on average, and so how many times "
        "the memory of one vector each. p: paired randomisation test against one vector, Holm over a set's nine. "
        "Times are medians beside other work on the machine: compare them with one another.",
        "\n".join([*heading, *(line for lines, _ in parts for line in lines)]),
        *(told for _, told in parts),
    ]
    (ROOT / "assets" / "results" / "many-vectors.md").write_text("\n\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
