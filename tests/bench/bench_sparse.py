"""How fast BM25 is beside its peers, and whether dense and sparse together beat either, as measured here.

python tests/bench/bench_sparse.py [--queries 1000]      writes assets/results/sparse.md, some minutes

Speed: BM25 of this project, bm25s by itself and rank_bm25 (extra `bench`) on cranfield and on 20,000 made documents.
Quality: on the judged sets ($FRONTIER_DATA, else shared/data beside the checkout), the hybrid's setting chosen on
half of the queries, or on the split dev, and reported on the others. --queries: at most so many of a split. Fails
where a query of 20,000 documents takes longer than is promised.
"""

import os
import sys
import time
from importlib.metadata import version
from pathlib import Path

import numpy as np
from harness import Judged, machine, parse_arguments, points_of, table, time_call, write_page

import engine
from engine.evaluation.splits import split_in_half, subsample
from engine.evaluation.statistics import compute_sign_flip_p_values, correct_holm
from engine.text.bag_of_words import count_terms
from engine.text.bm25_index import Bm25Index
from engine.text.tokenizer import terms
from support.bm25_cases import batch_of, space_of
from support.judged_sets import DATA, SETS

PROMISED = 2.0
"""Milliseconds of a query over 20,000 documents, in the median."""
N_GENERATED = 20_000
QUERIES = 200
METRICS = ("recall", "ndcg", "mrr")
SPLITS = {"cranfield": "test", "toollens": None, "multihop-rag-summ500": None}
"""Set → the split that is halved; None: it has dev and test of its own."""
K = 10


def make_texts(count, seed=0):
    """Documents of 20 to 180 words from a vocabulary of 50,000 whose frequencies fall as Zipf's do, and queries."""
    rng = np.random.default_rng(seed)
    vocabulary = np.array([f"word{i}" for i in range(50_000)])
    often = 1 / np.arange(1, len(vocabulary) + 1)
    sizes = rng.integers(20, 181, size=count)
    draws = rng.choice(len(vocabulary), size=sizes.sum(), p=often / often.sum())
    texts = [" ".join(vocabulary[part]) for part in np.split(draws, np.cumsum(sizes)[:-1])]
    # Ten words of a document, common ones among them.
    queries = [" ".join(rng.choice(texts[i].split(), 10)) for i in rng.integers(count, size=QUERIES)]
    return texts, queries


def cpu_seconds(work):
    """Seconds of this process's CPU, which others on the machine do not lengthen, and the result."""
    return time_call(work, clock=time.process_time)


def median_ms(score, queries):
    score(queries[0])
    return 1000 * float(np.median([time_call(score, query)[0] for query in queries]))


def speed(name, texts, queries):
    """(rows of the table, milliseconds of this project's scorer for a query, largest difference from bm25s)."""
    import bm25s
    from rank_bm25 import BM25Okapi

    cell_name = f"{name}, {len(texts):,}"
    counting, counts = cpu_seconds(lambda: count_terms(texts))
    building, index = cpu_seconds(lambda: Bm25Index(counts, "1", "lucene", 1.5, 0.75))
    pair_seconds, pairs = cpu_seconds(lambda: Bm25Index(count_terms(texts, ngrams="2"), "2", "lucene", 1.5, 0.75))
    space, stage = space_of(texts), engine.make("bm25")
    milliseconds = median_ms(lambda query: stage.score(space, batch_of([query])), queries)
    wide = median_ms(pairs.scores, queries)
    rows = [
        (cell_name, "frontier, words", f"{counting + building:.2f}", f"{building:.2f}", f"{milliseconds:.3f}"),
        (cell_name, "frontier, words and pairs", f"{pair_seconds:.2f}", "–", f"{wide:.3f}"),
    ]
    cutting, tokens = cpu_seconds(lambda: [terms(text) for text in texts])
    peer = bm25s.BM25(method="lucene")
    indexing, _ = cpu_seconds(lambda: peer.index(tokens, show_progress=False))
    slow, okapi = cpu_seconds(lambda: BM25Okapi(tokens))
    for label, build, scores, timed_queries in (
        (f"bm25s {version('bm25s')}", indexing, peer.get_scores, queries),
        (f"rank_bm25 {version('rank-bm25')}", slow, okapi.get_scores, queries[:30]),
    ):
        theirs = median_ms(lambda query, scores=scores: scores(terms(query)), timed_queries)
        rows.append((cell_name, label, f"{cutting + build:.2f}", f"{build:.2f}", f"{theirs:.3f}"))
    max_difference = max(float(np.abs(peer.get_scores(terms(q)) - index.scores(q)).max()) for q in queries[:50])
    return rows, milliseconds, max_difference


def settings():
    """Hybrids that are tried on dev."""
    for weight in [i / 10 for i in range(11)]:
        for how in ("min-max", "z-score"):
            yield engine.make("hybrid", dense_weight=weight, normalisation=how)
        if 0 < weight < 1:
            yield engine.make("hybrid", dense_weight=weight, combination="rrf")


def quality(name, max_queries):
    """(rows of the table, rows of the tests, what was chosen) of one set."""
    judged = Judged(Path(DATA) / name)
    data, space, split_to_halve = judged.data, judged.space, SPLITS[name]
    splits = (
        split_in_half(data.qrels[split_to_halve]) if split_to_halve else {s: data.qrels[s] for s in ("dev", "test")}
    )
    splits = {s: subsample(qrels, max_queries) for s, qrels in splits.items()}
    queries = {s: engine.embed(data.queries.only(qrels.grades)) for s, qrels in splits.items()}

    def measure_split(scorers, split):
        decoders = [engine.Decoder(engine.make("top_k"), scorer) for scorer in scorers]
        return points_of(decoders, space, queries[split], splits[split], K, METRICS, split)

    tried = list(settings())
    # Of equals the first: the smallest weight.
    chosen = tried[int(np.argmax([point.mean["ndcg"] for point in measure_split(tried, "dev")]))]
    rivals = {
        "dense": engine.make("dense"),
        "bm25, words": engine.make("bm25"),
        "bm25, words and pairs": engine.make("bm25", ngrams="2"),
        "hybrid, reciprocal ranks, λ = .5": engine.make("hybrid", combination="rrf"),
        "hybrid, chosen on dev": chosen,
    }
    cells = dict(zip(rivals, measure_split(list(rivals.values()), "test"), strict=True))
    sizes = f"{name} ({len(queries['dev']):,} dev, {len(queries['test']):,} test)"
    rows = [(sizes, title, *(f"{cell.mean[m]:.4f}" for m in METRICS)) for title, cell in cells.items()]
    mine, tests = cells["hybrid, chosen on dev"], []
    for metric in METRICS:
        parts = {title: cells[title] for title in ("dense", "bm25, words")}
        differences = np.stack([mine.values[metric] - rival.values[metric] for rival in parts.values()], axis=1)
        for (title, rival), corrected in zip(
            parts.items(), correct_holm(compute_sign_flip_p_values(differences, 10_000, 0)), strict=True
        ):
            gap = mine.mean[metric] - rival.mean[metric]
            conclusion = ("more" if gap > 0 else "less") if corrected < 0.05 else "cannot be told apart"
            tests.append((name, f"{metric}@{K}", title, f"{gap:+.4f}", f"{corrected:.4f}", conclusion))
    return rows, tests, f"- {name}: `{chosen.label}`"


def main():
    args = parse_arguments(__doc__, queries=1000)
    os.environ["FRONTIER_THREADS"] = "1"
    fast, max_difference = [], 0.0
    corpora = {"made": make_texts(N_GENERATED)}
    if "cranfield" in SETS:
        data = engine.load_dataset(DATA / "cranfield")
        corpora = {"cranfield": (data.corpus.passages, data.queries.texts[:QUERIES])} | corpora
    for name, (texts, queries) in corpora.items():
        rows, milliseconds, gap = speed(name, texts, queries)
        fast, max_difference = fast + rows, max(max_difference, gap)
        print(*rows, sep="\n", flush=True)
    figures, tests, chosen = [], [], []
    for name in [n for n in SPLITS if n in SETS]:
        rows, comparisons, choice = quality(name, args.queries)
        figures, tests, chosen = figures + rows, tests + comparisons, [*chosen, choice]
        print(*rows, *comparisons, choice, sep="\n", flush=True)
    write_page(
        args,
        "sparse",
        "Sparse, dense and both",
        f"{machine(('numpy', 'torch'))}.",
        "## Time",
        "Builds: CPU seconds of one run; queries: the median by the clock (of 200; rank_bm25: of 30), other work on "
        "the machine. made: seeded documents of 20 to 180 words, 50,000 words with Zipf's frequencies; queries of ten "
        'words of a document, common ones among them. A query gets the scores of all documents. "New k₁, b": what a '
        "slider costs, as the words are not cut and counted again; peers start from tokens there.",
        f"Promised: {PROMISED:g} ms a query over {N_GENERATED:,} documents. The largest difference between a score "
        f"here and bm25s's: {max_difference:.1g}.",
        table(("documents", "what", "from texts, s", "new k₁, b, s", "a query, ms"), fast),
        "## Quality",
        f"The {K} most relevant by each scorer; encoder: the bundled one. hybrid: of {len(list(settings()))} settings "
        "(λ from 0 to 1, min-max, z-score, reciprocal ranks; the best 100 of either) the one with most "
        f"nDCG@{K} on dev; all figures are of test. cranfield has one split, whose queries were halved by their ids.",
        table(("set (queries)", "scorer", f"Recall@{K}", f"nDCG@{K}", f"MRR@{K}"), figures),
        "Chosen on dev:",
        chosen,
        "### The chosen hybrid against its parts",
        "Two-sided paired randomisation test over the queries of test; p after Holm's correction over the two parts.",
        table(("set", "metric", "against", "difference", "p", "α = .05"), tests),
    )
    sys.exit(milliseconds > PROMISED)


if __name__ == "__main__":
    main()
