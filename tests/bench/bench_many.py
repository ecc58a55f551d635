"""Many vectors a document against one: what the passages of a document add to retrieval, and what they take.

python tests/bench/bench_many.py [--overlap 0.25] [--resamples 10000]      writes assets/results/many-vectors.md

Needs the judged sets (FRONTIER_DATA). Every document is cut into windows of 50, 100 and 200 words, embedded by the
encoder that embedded the whole documents; a document scores as its best passage. Nothing is fitted, so the queries of
all splits count. Time: one query at a time against an index in memory, the query's vector given, methods taking turns.
"""

import statistics
from pathlib import Path

import numpy as np
from harness import Judged, machine, parse_arguments, points_of, table, time_call, write_page

import engine
from engine.data.encoders import count_truncated
from engine.data.models.encoder_model import find_source
from engine.decoder import query_batch
from engine.evaluation.statistics import compute_sign_flip_p_values, correct_holm
from support.judged_sets import DATA

SETS = ("multihop-rag-summ500", "cranfield")
LENGTHS = (50, 100, 200)
METRICS = ("recall", "ndcg", "mrr")


def milliseconds(scorers: dict[str, object], space: engine.Space, batch: object, runs: int) -> dict[str, float]:
    """Median time of one query by scorer."""
    spent: dict[str, list[float]] = {name: [] for name in scorers}
    for run in range(runs):
        query = batch.block(run % len(batch), run % len(batch) + 1)
        for name, scorer in scorers.items():
            spent[name].append(1e3 * time_call(scorer.score, space, query)[0])
    return {name: statistics.median(times[1:]) for name, times in spent.items()}


def rows(name: str, overlap: float, resamples: int) -> tuple[list[tuple], str]:
    """The set's rows of the table, and what there is to know of the set."""
    judged = Judged(Path(DATA) / name)
    data, space = judged.data, judged.space
    qrels = engine.Qrels(
        {query: grades for split_qrels in data.qrels.values() for query, grades in split_qrels.grades.items()}
    )
    queries = engine.embed(data.queries.only(qrels.grades), device="cpu")
    scorers = {"one vector (dense)": engine.make("dense")}
    for length in LENGTHS:
        scorers[f"max_sim, {length} words"] = engine.make("max_sim", length=length, overlap=overlap)
    decoders = [engine.Decoder(engine.make("top_k"), scorer) for scorer in scorers.values()]
    measured = dict(zip(scorers, points_of(decoders, space, queries, qrels, 10, METRICS), strict=True))
    times = milliseconds(scorers, space, query_batch(space, queries), 101)
    base, *other_scorers = scorers
    values = {label: [measured[label].values[metric] for metric in METRICS] for label in scorers}
    p = [
        compute_sign_flip_p_values(np.subtract(values[rival], values[base]).T, resamples, 0) for rival in other_scorers
    ]
    tests = iter(correct_holm(np.concatenate(p)))
    lines = []
    for label, scorer in scorers.items():
        index = None if label == base else scorer.index(space)
        per, size = (index.per_document, index.bytes) if index else (1.0, space.vectors.numel() * 4)
        cells = [f"{measured[label].mean[m]:.4f}" + (f" (p = {next(tests):.3f})" if index else "") for m in METRICS]
        max_count = int(index.counts.max()) if index else 1
        lines.append((name, label, *cells, f"{per:.2f} ×", max_count, f"{size / 1e6:.1f}", f"{times[label]:.2f}"))
    words = sorted(len(text.split()) for text in data.corpus.passages)
    about = (
        f"{name}: {len(space):,} documents of {statistics.fmean(words):.0f} words on average (median "
        f"{statistics.median(words):.0f}, most {words[-1]}), {len(queries)} queries; {count_truncated(data.corpus)} "
        f"documents are longer than the {find_source('bundled').limit} tokens that the encoder reads, so one vector "
        "misses their ends."
    )
    return lines, about


def main() -> None:
    args = parse_arguments(__doc__, overlap=0.25, resamples=10_000)
    parts = [rows(name, args.overlap, args.resamples) for name in SETS]
    head = ("set", "vectors", "Recall@10", "nDCG@10", "MRR@10", "m", "most m", "MB", "ms a query")
    write_page(
        args,
        "many-vectors",
        "Many vectors a document against one",
        f"{machine(('torch',))}; the bundled encoder.",
        f"A document scores as the best of its passages: windows of so many words, each repeating {args.overlap:.0%} "
        "of the one before, its document's title before each. m: vectors a document on average, and so how many times "
        "the memory of one vector each. p: paired randomisation test against one vector, Holm over a set's nine. "
        "Times are medians beside other work on the machine: compare them with one another.",
        table(head, (row for rows, _ in parts for row in rows)),
        *(about for _, about in parts),
    )


if __name__ == "__main__":
    main()
