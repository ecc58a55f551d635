"""Commands that measure what the papers prove or claim, on a corpus: `theory vrsd` and its kin."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from engine.cli.encoding import SOURCE, CorpusOptions, embed_corpus, embed_queries
from engine.cli.group import Meter, main, use_threads
from engine.cli.options import (
    json_option,
    make_stages,
    option,
    options,
    seed_option,
    size_option,
    split_option,
    stages_option,
)
from engine.cli.output import aligned, echo_json, echo_lines

if TYPE_CHECKING:
    from engine.space import Space
    from engine.values import Dataset, Embeddings

SAMPLED = options(
    SOURCE,
    split_option("Whose judged queries are asked."),
    option("--count", type=click.IntRange(1), default=200, help="How many of the queries, at random."),
    seed_option("Of the choice of queries."),
)
"""The options of a command on some judged queries of a corpus."""
SMALL = size_option(default="5")
HEURISTICS = ("vrsd", "frank_wolfe:polish=false", "frank_wolfe", "max_sum:polish=false", "max_sum", "dpp")
"""The selectors that have an objective of sets."""


@main.group()
def theory() -> None:
    """Measure on a corpus what the papers prove or claim."""


@theory.command()
@SAMPLED
@SMALL
@option("--pool", type=int, default=18, help="How many of the most relevant documents; their sets are enumerated.")
@json_option("One JSON object a query.")
def vrsd(source: CorpusOptions, split: str, count: int, seed: int, k: int, pool: int, as_json: bool) -> None:
    """VRSD: are §3.1's two problems one, and does Algorithm 1 find the best set? By enumeration of small pools."""
    from engine.theory.vrsd import on_pools

    space, queries = _sampled(source, split, count, seed)
    rows = list(on_pools(space, queries, k, pool))
    if as_json:
        for row in rows:
            told = {"same": row.equivalence.same, "share": row.gap.share}
            echo_json({"query": row.query, "equivalence": asdict(row.equivalence), "gap": asdict(row.gap)} | told)
        return
    same = sum(row.equivalence.same for row in rows)
    echo_lines(
        [
            f"{len(rows):,} queries, pools of {min(pool, len(space)):,}, k = {k}, the most relevant document fixed:",
            f"  cos(sum, q) and cos(rest, q − d₀) are largest for one set on {_of(same, rows)}; what the second's set "
            f"lacks of the first's cosine: {_mean_and_most([row.equivalence.lost for row in rows])}",
            f"  Algorithm 1 finds the best set on {_of(sum(row.gap.share == 0 for row in rows), rows)}; what it lacks "
            f"of the range from the worst set to the best: {_mean_and_most([row.gap.share for row in rows])}",
        ]
    )


@theory.command()
@SAMPLED
@json_option()
def nnn(source: CorpusOptions, split: str, count: int, seed: int, as_json: bool) -> None:
    """NNN: how often is exactly the relevant set recovered, by dense retrieval, on a grid, and for some λ₁ at all?"""
    from engine.theory.success_sets import success_sets

    dataset, space, queries = _judged(source, split, count, seed)
    with Meter() as meter:
        found = success_sets(space, queries, dataset.qrels[split], progress=meter)
    cell = found.grid[found.best_cell]
    ways = {
        "dense, told |S|": found.dense,
        f"the best cell, λ₁ {cell[0]:g}, λ₂ {cell[1]:g}": found.cells[:, found.best_cell],
        f"some cell of {len(found.grid)}": found.by_grid,
        **{f"some λ₁ at λ₂ {level:g}": found.paths[:, at] for at, level in enumerate(found.l2)},
        "some λ₁ at some of these λ₂": found.by_path,
    }
    beside = {name: found.against_dense(recovered) for name, recovered in ways.items()}
    witnesses = sorted(found.witnesses[found.witnesses == found.witnesses].tolist())
    if as_json:
        rows = [{"way": name, "recovered": int(way.sum())} | asdict(beside[name]) for name, way in ways.items()]
        echo_json({"queries": len(found.queries), "ways": rows, "witnesses": witnesses})
        return
    head = (f"{len(found.queries):,} queries", "recovered", "dense too", "dense alone", "alone", "p")
    lines = [
        (name, _of(int(way.sum()), found.queries), str(b.both), str(b.first), str(b.second), f"{b.p:.3g}")
        for (name, way), b in zip(ways.items(), beside.values(), strict=True)
    ]
    echo_lines([aligned([head, *lines]), "p: McNemar's exact test against dense"])
    if witnesses:
        middle, inside = witnesses[len(witnesses) // 2], sum(w <= max(l2 for _, l2 in found.grid) for w in witnesses)
        echo_lines(
            [
                f"λ₂ of Theorem 1's witnesses: {witnesses[0]:.4g} at least, {middle:.4g} in the median; {inside} of "
                f"{len(witnesses)} on the grid's range"
            ]
        )


@theory.command()
@SAMPLED
@size_option("sizes", ("5", "10", "50"))
@click.option("--weight", "weights", multiple=True, type=float, default=(0.0, 0.3, 0.6, 0.8, 0.9, 1.0), help="θ.")
@option("--pool", type=click.IntRange(4, 10), default=8, help="Of the most relevant documents; faces are enumerated.")
@json_option()
def ccbqp(
    source: CorpusOptions, split: str, count: int, seed: int, sizes: list[int], weights: tuple[float, ...], pool: int,
    as_json: bool,
) -> None:  # fmt: skip
    """CCBQP: is the relaxation tight, does Algorithm 1 end at sets, and how narrow is the cone?"""
    from engine.theory.relaxation import cone, ends, on_pools

    space, queries = _sampled(source, split, count, seed)
    small = [row for weight in weights for row in on_pools(space, queries, 3, pool, relevance_weight=weight)]
    stops = list(ends(space, queries, weights, sorted({min(k, len(space)) for k in sizes})))
    narrow = cone(space)
    if as_json:
        plain = [asdict(row) | {"tight": row.tight, "local_maxima": len(row.local_maxima)} for row in small]
        echo_json({"pools": plain, "ends": [asdict(row) for row in stops], "cone": asdict(narrow)})
        return
    saddles, points, fractional, capped, runs = (
        sum(getattr(row, name) for row in rows)
        for rows, names in ((small, ("saddles", "fractional")), (stops, ("fractional", "capped", "runs")))
        for name in names
    )
    largest = ", ".join(f"{value:.1f} of {n:,}" for n, value in zip(narrow.sizes, narrow.largest, strict=True))
    grows = "" if narrow.slope is None else f"; slope {narrow.slope:.2f}, where 1 is linear"
    echo_lines(
        [
            f"{len(queries):,} queries, θ of {', '.join(f'{weight:g}' for weight in weights)}:",
            f"  pools of {min(pool, len(space))}: no point of the relaxation beats the best set of 3 on "
            f"{_of(sum(row.tight for row in small), small)}; of {points:,} stationary points between sets {saddles:,} "
            "are saddles",
            f"  all documents, k of {', '.join(str(k) for k in sorted({row.k for row in stops}))}: of {runs:,} runs of "
            f"Algorithm 1 {fractional:,} ended between sets, {capped:,} at the limit of steps; the longest took "
            f"{max(row.most for row in stops)}",
            f"  least cosine of two documents: {narrow.least:.4f} ({narrow.pair[0]}, {narrow.pair[1]})",
            f"  largest eigenvalue of the Gram matrix: {largest}{grows}",
        ]
    )


@theory.command()
@SAMPLED
@SMALL
@stages_option("select", "selectors", "Of those with an objective. Default: all of them, with and without swaps.")
@option("--pool", type=int, default=18, help="How many of the most relevant documents; their sets are enumerated.")
@click.option("--fix-first", is_flag=True, help="vrsd: only sets with the most relevant document (Definition 2).")
@json_option("One JSON object a selector and query.")
def gap(
    source: CorpusOptions, split: str, count: int, seed: int, k: int, selectors: tuple[str, ...], pool: int,
    fix_first: bool, as_json: bool,
) -> None:  # fmt: skip
    """How often selectors find the best set by their own objective, and what they lack: by enumeration of pools."""
    from engine.evaluation.studies.brute_force import optimum_gap, pools

    space, queries = _sampled(source, split, count, seed)
    lines = []
    for stage in make_stages(selectors or HEURISTICS, "select"):
        fixed = fix_first and stage.spec.name == "vrsd"
        rows = [
            (name, optimum_gap(vectors=v, query=q, k=k, fix_first=fixed, **stage.as_json()))
            for name, v, q in pools(space, queries, pool)
        ]
        if as_json:
            for name, row in rows:
                echo_json({"selector": stage.label, "query": name, "share": row.share} | asdict(row))
        shares = [row.share for _, row in rows]
        lines.append(
            (stage.label, _of(shares.count(0.0), rows), f"{sum(shares) / len(shares):.4f}", f"{max(shares):.4f}")
        )
    if not as_json:
        head = (
            f"{len(queries):,} queries, pools of {min(pool, len(space))}, k = {k}",
            "best",
            "lacks in the mean",
            "at most",
        )
        echo_lines([aligned([head, *lines]), "lacks: of the range of the objective, from the worst set to the best"])


@theory.command()
@SAMPLED
@option("--vectors", type=click.Choice(["bm25", "boolean", "dense"]), default="bm25", help="What is projected.")
@click.option("--dimension", "dimensions", multiple=True, type=int, default=(256, 1024, 4096), help="k.")
@option("--rank", type=int, default=1, help="r₀: within how many the best document is wanted.")
@option("--draws", type=int, default=40, help="How many projections are drawn.")
@json_option("One JSON object a query and dimension.")
def recall(
    source: CorpusOptions, split: str, count: int, seed: int, vectors: str, dimensions: tuple[int, ...], rank: int,
    draws: int, as_json: bool,
) -> None:  # fmt: skip
    """Lemma 2: how often do random projections lose a query's best document, beside the bound?"""
    from engine.theory.recall_losses import recall_losses

    space, queries = _sampled(source, split, count, seed)
    with Meter() as meter:
        rows = recall_losses(
            space, queries, vectors, dimensions=dimensions, rank=rank, draws=draws, seed=seed, progress=meter
        )
    if as_json:
        for row in rows:
            echo_json(asdict(row) | {"share": row.share, "violated": row.violated})
        return
    lines = [("k", "queries", "lost", "bound below 1", "of them lost", "violated")]
    for k in sorted({row.k for row in rows}):
        own = [row for row in rows if row.k == k]
        told = [row for row in own if row.bound < 1]
        shares = [f"{sum(r.share for r in some) / len(some):.4f}" if some else "–" for some in (own, told)]
        lines.append(
            (f"{k:,}", f"{len(own):,}", shares[0], f"{len(told):,}", shares[1], f"{sum(r.violated for r in own)}")
        )
    echo_lines([aligned(lines), f"lost: the best document is behind {rank} others or more; {draws} projections"])


def _judged(source: CorpusOptions, split: str, count: int, seed: int) -> tuple[Dataset, Space, Embeddings]:
    """A data set, its space, and some judged queries of it."""
    use_threads()
    with Meter() as meter:
        dataset = source.load(meter)
        queries = dataset.judged(split).sample(count, seed)
        space = embed_corpus(dataset, source, progress=meter)
        return dataset, space, embed_queries(space, queries, progress=meter)


def _sampled(source: CorpusOptions, split: str, count: int, seed: int) -> tuple[Space, Embeddings]:
    """The space of a corpus, and some judged queries of it."""
    return _judged(source, split, count, seed)[1:]


def _of(count: int, rows: Sequence[Any]) -> str:
    return f"{count:,} ({count / len(rows):.1%})"


def _mean_and_most(values: Sequence[float]) -> str:
    return f"{sum(values) / len(values):.4f} in the mean, {max(values):.4f} at most"
