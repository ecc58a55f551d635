"""Whether decoder, λ and pool are read off the lists of other systems, and how often a stranger is called sure.

python tests/bench/bench_identify.py --data <folder of judged sets> [--stages NAME …]     needs pip install '.[bench]'

Writes assets/results/identify.md from the figures beside it, identify.json; a stage that is not measured again stays
as it was. Stages: packages, words, noise, strangers, lists, speed. Times are of the CPU, on one thread. A run that
the figures have is not measured again: delete the file to begin anew. --per-stage: at most so many further runs a
stage; --minutes: begin none after so many. Runs are measured in an order that is drawn.
"""

import argparse
import ctypes
import gc
import json
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable
from functools import cache, partial
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import identify_systems as systems
import numpy as np
import torch
from harness import forget_peak, machine, memory, parse_arguments, run_json, stopwatch, table, verdict, write_page
from identify_systems import FOREIGN, PACKAGES, Corpus, load_corpus

import engine
from engine.identification.families import DEFAULT_SELECTORS
from engine.identification.identification import Identification
from support.instances import clustered_rows

Row = dict[str, Any]

CORPORA = (systems.DEMO, "toollens")
WEIGHTS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.65, 0.8, 0.9)
DEPTHS = (10, 20, 50)
KS = (5, 10)
N_LISTS = 50
N_LISTS_TRIED = (5, 10, 20, 30, 50, 100)
N_DRAWS = 2
LISTS_WEIGHTS, LISTS_DEPTHS = (0.3, 0.5, 0.8), (20, 50)
WORDS_SHARE = 0.1
"""Share of the packages' runs that are held against all hypotheses, those that read words too."""
NOISE = (
    *(f"{rate} % lost {how}" for rate in (1, 5, 10, 20) for how in ("a query", "never")),
    "int8", "float16", "vectors at cosine 0.95",
)  # fmt: skip
NOISE_SETTINGS = (("mmr", 0.5, 20), ("mmr", 0.7, 50), ("top_k", 1.0, 20))
N_NOISE_DRAWS = 5
N_STRANGERS = 500
SPEED_SIZES = (10_000, 100_000)
SPEED_LIMITS = {10_000: 30, 100_000: 180}
MEMORY_LIMIT = 1.5
DIMENSION = 384


DATA: list[Path] = []
"""The folder of judged sets, once it is known."""


@cache
def load(name: str) -> Corpus:
    """Return a corpus, loaded once."""
    return load_corpus(name, DATA[0])


def identify_run(corpus: Corpus, lists: systems.Lists, has_words: bool) -> tuple[Identification, float]:
    """Return the identification of a run, and its seconds of CPU."""
    started = time.process_time()
    queries = corpus.queries if has_words else corpus.without_texts()
    identification = engine.identify(corpus.name_lists(lists), corpus.space, queries)
    return identification, time.process_time() - started


def describe_run(identification: Identification, selector: str, window: int | None) -> Row:
    """Return what was said of a run, and whether selector, window and scorer are right."""
    best = identification.best
    decoder = best.decoder
    is_right = (decoder.select.spec.name, getattr(decoder.select, "window", None)) == (selector, window)
    is_right &= decoder.retrieve.spec.name == "dense" and getattr(decoder.select, "relevance_scale", "auto") == "auto"
    return {
        "right": bool(is_right), "sure": identification.sure, "label": best.label, "explained": best.explained,
        "interval": best.interval, "depths": best.depth, "losses": best.loss_rate,
        "explained_with_losses": best.explained_with_losses, "lists": identification.n_lists,
    }  # fmt: skip


Cell = tuple[Any, ...]


class Stage(NamedTuple):
    """A part of the page: the runs that it needs, a function that measures one of them, and one that reports all."""

    cells: list[Cell]
    measure: Callable[[Cell], Row]
    report: Callable[[list[Row]], Iterable[Any]]


def list_package_cells() -> list[Cell]:
    """Return package, corpus, λ, pool and k of every run of a package."""
    cells = product(PACKAGES, CORPORA, WEIGHTS, DEPTHS, KS)
    # The most relevant documents are the same at every weight and depth.
    return [cell for cell in cells if PACKAGES[cell[0]].selector == "mmr" or cell[2:4] == (WEIGHTS[0], DEPTHS[0])]


def measure_package(cell: Cell, has_words: bool) -> Row:
    """Identify a run of a package: by dense hypotheses, or by all."""
    name, corpus_name, weight, depth, k = cell
    package, asked = PACKAGES[name], load(corpus_name).take(range(N_LISTS))
    lists = package.list_rows(asked, weight, depth, k)
    identification, seconds = identify_run(asked, lists, has_words)
    row = {"corpus": corpus_name, "package": name, "weight": weight, "depth": depth, "k": k, "seconds": seconds}
    return row | describe_run(identification, package.selector, package.window)


def measure_noise(cell: Cell) -> Row:
    """Identify a run of an index that loses documents, or of vectors that are not quite ours."""
    corpus_name, kind, (selector, weight, depth), seed = cell
    corpus, rng = load(corpus_name), np.random.default_rng(seed)
    asked = corpus.take(range(N_LISTS))
    vectors, points, is_indexed = corpus.rows, asked.queries.vectors.numpy(), None
    if "lost" in kind:
        is_indexed = systems.draw_losses(N_LISTS, len(vectors), kind, rng)
    else:
        vectors = systems.wear_vectors(vectors, kind, rng)
        # A vector that is asked with is not quantised, but another encoder has others of queries too.
        points = systems.wear_vectors(points, kind, rng) if "cosine" in kind else points
    lists = systems.list_mmr(vectors, points, weight, depth, 5, is_indexed)
    identification, _ = identify_run(asked, lists, has_words=False)
    row = {"corpus": corpus_name, "kind": kind, "system": selector, "weight": weight, "depth": depth}
    return row | describe_run(identification, selector, None)


def measure_stranger(cell: Cell) -> Row:
    """Identify a run of a system that is none of ours."""
    seed, name = cell
    corpus, k = load(CORPORA[seed % len(CORPORA)]), KS[seed // len(CORPORA) % len(KS)]
    rng = np.random.default_rng([seed, list(FOREIGN).index(name)])
    asked = corpus.take(range(N_LISTS))
    lists = FOREIGN[name](asked, k, rng)
    best = [systems.fetch_pool(corpus.rows, query, k).tolist() for query in asked.queries.vectors.numpy()]
    is_same = float(np.mean([listed == expected for listed, expected in zip(lists, best, strict=True)]))
    identification, _ = identify_run(asked, lists, has_words=False)
    row = {"corpus": corpus.name, "system": name, "k": k, "seed": seed, "like_top_k": is_same}
    return row | describe_run(identification, "none", None)


def measure_lists(cell: Cell) -> Row:
    """Identify a run of few or of many lists by all hypotheses."""
    corpus_name, weight, depth, n_lists, seed = cell
    corpus = load(corpus_name)
    chosen = np.random.default_rng(seed).choice(len(corpus.queries), n_lists, replace=False)
    asked = corpus.take(chosen)
    lists = PACKAGES["langchain-core"].list_rows(asked, weight, depth, 5)
    identification, seconds = identify_run(asked, lists, has_words=True)
    row = {"corpus": corpus_name, "weight": weight, "depth": depth, "n_lists": n_lists, "seconds": seconds}
    return row | describe_run(identification, "mmr", None)


def measure_speed(cell: Cell) -> Row:
    """Measure time and memory of an identification by all hypotheses, in a process of its own."""
    return run_json(Path(__file__), "--data", ".", "--time-size", cell[0])


def time_size(n_documents: int) -> Row:
    """Time an identification over random clusters with texts, after a small one that compiles what it needs."""
    rng = np.random.default_rng(0)
    small, large = (make_clusters(size, rng) for size in (500, n_documents))
    for corpus in (small, large):
        # Lists and the index of words are made before, as a search engine has them.
        asked = corpus.take(range(N_LISTS))
        decoder = engine.Decoder(engine.make("mmr", relevance_weight=0.5), depth=20)
        ranking = engine.decode(decoder, corpus.space, asked.queries, 5)
        lists = [ranking.rows(index) for index in range(N_LISTS)]
        engine.make("bm25").prepare(corpus.space)
        release_memory()
        forget_peak()
        before = memory("VmRSS")
        identification, seconds = identify_run(asked, lists, has_words=True)
        growth = memory("VmHWM") - before
    return {
        "n": n_documents, "seconds": seconds, "growth": growth, "vectors": large.rows.nbytes,
        "hypotheses": len(identification.hypotheses), "sentence": identification.sentences[0],
    }  # fmt: skip


def release_memory() -> None:
    """Give memory that was freed back, so that what is taken next is seen. On Linux alone."""
    gc.collect()
    if sys.platform == "linux":
        ctypes.CDLL(None).malloc_trim(0)


def make_clusters(n_documents: int, rng: np.random.Generator) -> Corpus:
    """Return a corpus of clustered vectors with texts of words as frequent as in a language."""
    rows = clustered_rows(rng, n_documents + N_LISTS, DIMENSION).astype(np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    words = np.array([f"word{index}" for index in range(5000)])
    shares = 1 / np.arange(1, len(words) + 1)
    drawn = rng.choice(words, size=(len(rows), 30), p=shares / shares.sum())
    texts = tuple(" ".join(each) for each in drawn)
    ids = tuple(f"d{row}" for row in range(n_documents))
    corpus = engine.Corpus(ids, texts[:n_documents])
    # A copy, so that the matrix of the documents does not hold the queries' rows.
    space = engine.Space(corpus, engine.Embeddings(ids, rows[:n_documents].copy()), "cpu")
    query_ids = tuple(f"q{row}" for row in range(N_LISTS))
    query_texts = tuple(" ".join(text.split()[:6]) for text in texts[n_documents:])
    queries = engine.Embeddings(query_ids, torch.from_numpy(rows[n_documents:].copy()), None, query_texts)
    return Corpus("clusters", space, queries)


def list_stages() -> dict[str, Stage]:
    """Return the stages by name, in the order of the page."""
    packages = list_package_cells()
    words = draw(packages)[: round(WORDS_SHARE * len(packages))]
    noise = list(product(CORPORA, NOISE, NOISE_SETTINGS, range(N_NOISE_DRAWS)))
    strangers = list(product(range(N_STRANGERS // len(FOREIGN)), FOREIGN))
    lists = list(product(CORPORA, LISTS_WEIGHTS, LISTS_DEPTHS, N_LISTS_TRIED, range(N_DRAWS)))
    return {
        "packages": Stage(packages, partial(measure_package, has_words=False), report_packages),
        "words": Stage(words, partial(measure_package, has_words=True), report_words),
        "noise": Stage(noise, measure_noise, report_noise),
        "strangers": Stage(strangers, measure_stranger, report_strangers),
        "lists": Stage(lists, measure_lists, report_lists),
        "speed": Stage([(size,) for size in SPEED_SIZES], measure_speed, report_speed),
    }


def draw(cells: list[Cell]) -> list[Cell]:
    """Return cells in an order that is drawn, so that the first ones are a sample."""
    return [cells[index] for index in np.random.default_rng(0).permutation(len(cells))]


def report(args: argparse.Namespace, figures: dict[str, dict[str, Row]]) -> None:
    """Write the page of all stages that have figures."""
    blocks: list[Any] = []
    for name, stage in list_stages().items():
        if rows := list(figures.get(name, {}).values()):
            heading, *others = stage.report(rows)
            counted = f"Measured: {len(rows):,} of {len(stage.cells):,} runs" + (
                "." if len(rows) == len(stage.cells) else ", drawn from all of them."
            )
            blocks += [heading, counted, *others]
    packages = ("langchain-core", "llama-index-core", "qdrant-client", "pyversity", "haystack-ai", "torch", "numba")
    write_page(args, "identify", "What made a run, read off its lists", machine(packages), INTRODUCTION, *blocks)


INTRODUCTION = (
    f"Runs of {N_LISTS} lists unless said, over {CORPORA[0]} (a demo) and {CORPORA[1]} (test queries, drawn), with the "
    f"bundled encoder. Hypotheses: {', '.join(DEFAULT_SELECTORS)} with their windows, at every λ, every pool up to "
    "1,000 and the whole corpus, over dense scores; all hypotheses: over BM25 and hybrid scores too. Right: selector, "
    "window and scores are those of the system. Sure: `identify` says so. λ and pool inside: the true one is inside "
    "the interval that is stated; width: of that of λ."
)


def report_packages(rows: list[Row]) -> Iterable[Any]:
    """Yield the blocks about packages that people use."""
    yield "## Packages that people use"
    yield (
        f"λ of {', '.join(map(str, WEIGHTS))}, pools of {', '.join(map(str, DEPTHS))}, k of "
        f"{' and '.join(map(str, KS))}, both corpora; Haystack's store returns the most relevant documents."
    )
    groups = [*PACKAGES, "all"]
    cells = [summarise(name, [row for row in rows if name in (row["package"], "all")]) for name in groups]
    yield table(HEAD, cells, "lr")
    yield judge_packages(rows)
    wrong = [row for row in rows if not row["right"]]
    if wrong:
        yield "Wrong, by what was said and how often: " + count_labels(wrong) + "."


def report_words(rows: list[Row]) -> Iterable[Any]:
    """Yield the blocks about all hypotheses."""
    yield "## The same with all hypotheses"
    seconds = np.median([row["seconds"] for row in rows])
    yield f"{len(rows)} of these runs, drawn; {seconds:.1f} s of CPU a run (median)."
    yield table(HEAD, [summarise("all", rows)], "lr")
    yield judge_packages(rows)


HEAD = (
    "system",
    "runs",
    "right",
    "sure",
    "right and sure",
    "wrong and sure",
    "pool inside",
    "λ inside",
    "width, median",
)


def summarise(name: str, rows: list[Row]) -> list[str]:
    """Return a row of shares."""
    weighted = [row for row in rows if row["right"] and row["interval"] is not None]
    widths = [row["interval"][1] - row["interval"][0] for row in weighted]
    inside = [is_inside(row["weight"], row["interval"]) for row in weighted]
    pools = [is_inside(row["depth"], row["depths"]) for row in weighted]
    return [
        name, str(len(rows)), share(row["right"] for row in rows), share(row["sure"] for row in rows),
        share(row["right"] and row["sure"] for row in rows), share(row["sure"] and not row["right"] for row in rows),
        share(pools), share(inside), f"{np.median(widths):.3f}" if widths else "–",
    ]  # fmt: skip


def is_inside(value: float, ends: Any) -> bool:
    """Return True if a value is in an interval, up to rounding."""
    return bool(ends[0] - 1e-6 <= value <= ends[1] + 1e-6)


def judge_packages(rows: list[Row]) -> list[str]:
    """Return the targets and whether they are met."""
    weighted = [row for row in rows if PACKAGES[row["package"]].selector == "mmr"]
    both = [row["right"] and is_inside(row["depth"], row["depths"]) for row in weighted]
    both += [row["right"] for row in rows if row not in weighted]
    inside = [row["interval"] is not None and is_inside(row["weight"], row["interval"]) for row in weighted]
    widths = [row["interval"][1] - row["interval"][0] for row in weighted if row["interval"] is not None]
    targets = (
        ("decoder and window right and the pool inside", np.mean(both), "≥ 98 %", np.mean(both) >= 0.98),
        ("λ inside, of the runs of MMR", np.mean(inside), "≥ 95 %", np.mean(inside) >= 0.95),
        ("width, median", np.median(widths), "≤ 0.03", np.median(widths) <= 0.03),
    )
    cells = [
        (what, f"{value:.3f}" if "width" in what else f"{value:.1%}", target, verdict(bool(met)))
        for what, value, target, met in targets
    ]
    return table(("asked", "measured", "target", ""), cells, "lrrl")


def share(flags: Iterable[Any]) -> str:
    """Return a share of true values in percent."""
    values = [bool(flag) for flag in flags]
    return f"{np.mean(values):.1%}" if values else "–"


def count_labels(rows: list[Row]) -> str:
    """Return what was said, and how often."""
    return ", ".join(f"{label} ({count})" for label, count in Counter(row["label"] for row in rows).most_common(6))


def report_noise(rows: list[Row]) -> Iterable[Any]:
    """Yield the blocks about worn indexes and vectors."""
    yield "## Lost documents and other numbers"
    settings = ", ".join(f"{name}" + (f" at λ {w:g} of {d}" if name == "mmr" else "") for name, w, d in NOISE_SETTINGS)
    yield (
        f"{settings}, k = 5, {N_NOISE_DRAWS} draws, both corpora. Lost a query: each query lacks others, as in an "
        "approximate index; lost never: the same documents are missing throughout, as in an incomplete one. Int8: one "
        "scale for all numbers. Vectors at a cosine: another encoder's, of documents and queries."
    )
    cells = []
    for kind, system in product(NOISE, ("mmr", "top_k")):
        group = [row for row in rows if (row["kind"], row["system"]) == (kind, system)]
        if group:
            explained = f"{np.median([row['explained'] for row in group]):.0%}"
            losses = [row["losses"] for row in group if row["losses"] is not None]
            stated = f"{np.median(losses):.1%} ({len(losses)})" if losses else "–"
            cells.append([*summarise(f"{kind}: {system}", group), explained, stated])
    yield table((*HEAD, "explained, median", "losses stated, median (runs)"), cells, "lr")
    wrong = [row for row in rows if row["sure"] and not row["right"]]
    if wrong:
        yield "Sure and wrong, by what was said and how often: " + count_labels(wrong) + "."


def report_strangers(rows: list[Row]) -> Iterable[Any]:
    """Yield the blocks about systems that are none of ours."""
    yield "## Systems that are none of these"
    cells = []
    for name in [*FOREIGN, "all"]:
        group = [row for row in rows if name in (row["system"], "all")]
        explained, alike = ([row[key] for row in group] for key in ("explained", "like_top_k"))
        n_sure = sum(row["sure"] for row in group)
        middle = f"{np.median(explained):.0%} ({np.min(explained):.0%} to {np.max(explained):.0%})"
        cells.append((name, len(group), n_sure, f"{n_sure / len(group):.1%}", middle, f"{np.mean(alike):.0%}"))
    head = ("system", "runs", "called sure", "", "picks that the best explains, median", "lists that are the top k")
    yield table(head, cells, "lr")
    rate = np.mean([row["sure"] for row in rows])
    yield f"Called sure: {rate:.1%} of {len(rows)}; at most 1 % asked: {verdict(bool(rate <= 0.01))}."
    yield (
        "The share of picks that `sure` asks for was raised from 75 % to 93 % by the first 312 of these runs, of which "
        "four with a little recency (1.3 %) had been called top_k: for them the figure is no test."
    )
    if any(row["sure"] for row in rows):
        yield "Said of them: " + count_labels([row for row in rows if row["sure"]]) + "."


def report_lists(rows: list[Row]) -> Iterable[Any]:
    """Yield the blocks about the number of lists."""
    yield "## How many queries"
    yield f"LangChain's utility at λ .3, .5, .8 of 20 and of 50, k = 5, both corpora, {N_DRAWS} draws; all hypotheses."
    cells = []
    for n_lists in N_LISTS_TRIED:
        if group := [row for row in rows if row["n_lists"] == n_lists]:
            depths = [row["depths"][1] - row["depths"][0] for row in group if row["right"]]
            cells.append([*summarise(str(n_lists), group), f"{np.median(depths):.0f}" if depths else "–"])
    yield table(("lists", *HEAD[1:], "width of the pool, median"), cells, "r")


def report_speed(rows: list[Row]) -> Iterable[Any]:
    """Yield the blocks about time and memory."""
    yield "## Time and memory"
    yield (
        f"Random clusters of {DIMENSION} dimensions with texts of 30 words, {N_LISTS} lists of five, all hypotheses; "
        "CPU seconds in a process that has compiled, the index of words made before. Memory: by how much the peak "
        "exceeds what the process held before, freed memory given back."
    )
    cells = []
    for row in rows:
        limit, ratio = SPEED_LIMITS[row["n"]], row["growth"] / row["vectors"]
        cells.append(
            (
                f"{row['n']:,}", row["hypotheses"], f"{row['seconds']:.1f} s", f"{limit} s",
                verdict(row["seconds"] <= limit), f"{row['growth'] / 1e6:.0f} MB",
                f"{ratio:.2f} × the vectors", f"{MEMORY_LIMIT} ×", verdict(ratio <= MEMORY_LIMIT),
            )
        )  # fmt: skip
    yield table(("documents", "hypotheses", "CPU", "asked", "", "memory", "", "asked", ""), cells, "r")


def read_figures(file: Path) -> dict[str, dict[str, Row]]:
    """Return the rows of every stage by their cell."""
    figures: dict[str, dict[str, Row]] = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
    return figures


def round_numbers(value: Any) -> Any:
    """Round all numbers of a row to six digits after the point."""
    if isinstance(value, dict):
        return {key: round_numbers(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [round_numbers(each) for each in value]
    return round(value, 6) if isinstance(value, float) else value


def add_figures(file: Path, name: str, rows: dict[str, Row]) -> None:
    """Add rows to a stage of the file, which other processes may have changed since."""
    figures = read_figures(file)
    figures[name] = figures.get(name, {}) | rows
    parts = []
    for stage, stage_rows in figures.items():
        lines = (f"{json.dumps(key)}: {json.dumps(row, ensure_ascii=False)}" for key, row in stage_rows.items())
        parts.append(f"{json.dumps(stage)}: {{\n" + ",\n".join(lines) + "\n}")
    file.write_text("{" + ",\n".join(parts) + "}\n", encoding="utf-8")


def main() -> None:
    stages = list_stages()
    args = parse_arguments(__doc__, data=True, stages=list(stages), per_stage=int, time_size=int, minutes=float("inf"))
    if args.time_size is not None:
        print(json.dumps(time_size(args.time_size)))
        return
    DATA.append(args.data)
    raw, say, deadline = args.out / "identify.json", stopwatch(), time.monotonic() + 60 * args.minutes
    for name in args.stages:
        available, rows = read_figures(raw).get(name, {}), dict[str, Row]()
        missing = [cell for cell in draw(stages[name].cells) if json.dumps(cell) not in available]
        for number, cell in enumerate(missing[: args.per_stage], 1):
            if time.monotonic() > deadline:
                break
            rows[json.dumps(cell)] = round_numbers(stages[name].measure(cell))
            if number % 10 == 0:
                add_figures(raw, name, rows)
                say(f"{name}: {number} of {len(missing)} runs")
        add_figures(raw, name, rows)
    # The command of the page is that of all stages.
    args.command = args.command.partition(" --stages")[0].partition(" --out")[0].partition(" --minutes")[0]
    report(args, read_figures(raw))


if __name__ == "__main__":
    sys.exit(main())
