"""Commands that measure what the papers prove or claim: `theory vrsd` and its kin on a corpus, and `reproduce`."""

import threading
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import click

from engine.cli.group import Meter, use_threads
from engine.cli.inputs import JudgedOptions, make_stages
from engine.cli.output import aligned, echo, echo_json, echo_lines, write_text
from engine.evaluation.studies.brute_force import iterate_pools, optimum_gap
from engine.evidence.run import as_plain, in_order, keep
from engine.evidence.run import reproduce as run
from engine.progress import counted
from engine.space import Space
from engine.theory.recall_losses import recall_losses
from engine.theory.relaxation import measure_cone, measure_ends, relax_pools
from engine.theory.success_sets import McNemar, success_sets
from engine.theory.vrsd import compare_on_pools as vrsd_on_pools
from engine.values import Dataset, Embeddings, Qrels

HEURISTICS = ("vrsd", "frank_wolfe:polish=false", "frank_wolfe", "max_sum:polish=false", "max_sum", "dpp")
"""The selectors that have an objective of sets."""


def vrsd(judged: JudgedOptions, k: int, pool: int, as_json: bool) -> None:
    _, space, queries, _ = _load(judged)
    rows = list(vrsd_on_pools(space, queries, k, pool))
    if as_json:
        return echo_json(*(asdict(row) | {"same": row.equivalence.same, "share": row.gap.share} for row in rows))
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


def nnn(judged: JudgedOptions, as_json: bool) -> None:
    _, space, queries, qrels = _load(judged)
    with Meter() as meter:
        found = success_sets(space, queries, qrels, progress=meter)
    cell = found.grid[found.best_cell]
    ways = {
        "dense, told |S|": found.dense,
        f"the best cell, λ₁ {cell[0]:g}, λ₂ {cell[1]:g}": found.cells[:, found.best_cell],
        f"some cell of {len(found.grid)}": found.by_grid,
        **{f"some λ₁ at λ₂ {level:g}": found.paths[:, at] for at, level in enumerate(found.l2)},
        "some λ₁ at some of these λ₂": found.by_path,
    }
    beside = {name: McNemar.compare(found.dense, recovered) for name, recovered in ways.items()}
    witnesses = sorted(found.witnesses[found.witnesses == found.witnesses].tolist())
    if as_json:
        rows = [{"way": name, "recovered": int(way.sum())} | asdict(beside[name]) for name, way in ways.items()]
        return echo_json({"queries": len(found.queries), "ways": rows, "witnesses": witnesses})
    head = (f"{len(found.queries):,} queries", "recovered", "dense too", "dense alone", "alone", "p")
    lines = [
        (name, _of(int(way.sum()), found.queries), str(b.both), str(b.first), str(b.second), f"{b.p:.3g}")
        for (name, way), b in zip(ways.items(), beside.values(), strict=True)
    ]
    echo_lines([aligned([head, *lines]), "p: McNemar's exact test against dense"])
    if witnesses:
        middle, inside = witnesses[len(witnesses) // 2], sum(w <= max(l2 for _, l2 in found.grid) for w in witnesses)
        echo(
            f"λ₂ of Theorem 1's witnesses: {witnesses[0]:.4g} at least, {middle:.4g} in the median; {inside} of "
            f"{len(witnesses)} on the grid's range"
        )


def ccbqp(
    judged: JudgedOptions, sizes: list[int], weights: tuple[float, ...], pool: int,
    as_json: bool,
) -> None:  # fmt: skip
    _, space, queries, _ = _load(judged)
    small = [row for weight in weights for row in relax_pools(space, queries, 3, pool, relevance_weight=weight)]
    stops = list(measure_ends(space, queries, weights, sorted({min(k, len(space)) for k in sizes})))
    narrow = measure_cone(space)
    if as_json:
        plain = [asdict(row) | {"tight": row.tight, "local_maxima": len(row.local_maxima)} for row in small]
        return echo_json({"pools": plain, "ends": [asdict(row) for row in stops], "cone": asdict(narrow)})
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


def gap(
    judged: JudgedOptions, k: int, selectors: tuple[str, ...], pool: int,
    fix_first: bool, as_json: bool,
) -> None:  # fmt: skip
    _, space, queries, _ = _load(judged)
    lines = []
    for stage in make_stages(selectors or HEURISTICS, "select"):
        fixed = fix_first and stage.spec.name == "vrsd"
        rows = [
            (name, optimum_gap(vectors=v, query=q, k=k, fix_first=fixed, **stage.as_json()))
            for name, v, q in iterate_pools(space, queries, pool)
        ]
        if as_json:
            for name, row in rows:
                echo_json({"selector": stage.label, "query": name, "share": row.share} | asdict(row))
        shares = [row.share for _, row in rows]
        lines.append(
            (stage.label, _of(shares.count(0.0), rows), f"{sum(shares) / len(shares):.4f}", f"{max(shares):.4f}")
        )
    if not as_json:
        title = f"{len(queries):,} queries, pools of {min(pool, len(space))}, k = {k}"
        head = (title, "best", "lacks in the mean", "at most")
        echo_lines([aligned([head, *lines]), "lacks: of the range of the objective, from the worst set to the best"])


def recall(
    judged: JudgedOptions, vectors: str, dimensions: tuple[int, ...], rank: int,
    draws: int, as_json: bool,
) -> None:  # fmt: skip
    _, space, queries, _ = _load(judged)
    with Meter() as meter:
        rows = recall_losses(
            space, queries, vectors, dimensions=dimensions, rank=rank, draws=draws, seed=judged.seed, progress=meter
        )
    if as_json:
        return echo_json(*(asdict(row) | {"share": row.share, "violated": row.violated} for row in rows))
    lines = [("k", "queries", "lost", "bound below 1", "of them lost", "violated")]
    for k in sorted({row.k for row in rows}):
        own = [row for row in rows if row.k == k]
        told = [row for row in own if row.bound < 1]
        shares = [f"{sum(r.share for r in some) / len(some):.4f}" if some else "–" for some in (own, told)]
        lines.append(
            (f"{k:,}", f"{len(own):,}", shares[0], f"{len(told):,}", shares[1], f"{sum(r.violated for r in own)}")
        )
    echo_lines([aligned(lines), f"lost: the best document is behind {rank} others or more; {draws} projections"])


def _load(judged: JudgedOptions) -> tuple[Dataset, Space, Embeddings, Qrels]:
    """A data set, its space, and some judged queries of it with their judgements."""
    use_threads()
    with Meter() as meter:
        return judged.load_judged(meter)


def _of(count: int, rows: Sequence[Any]) -> str:
    return f"{count:,} ({count / len(rows):.1%})"


def _mean_and_most(values: Sequence[float]) -> str:
    return f"{sum(values) / len(values):.4f} in the mean, {max(values):.4f} at most"


def reproduce(
    which: str,
    data: str | None,
    encoder: str,
    workers: int,
    work: str | None,
    train: bool,
    seed: int,
    anew: bool,
    out: str | None,
    as_json: bool,
) -> None:
    use_threads()
    if train and not work:
        raise click.UsageError("--train needs --work FOLDER, where what is trained is kept")
    with Meter() as meter:
        options: dict[str, Any] = {"seed": seed, "workers": workers, "anew": anew, "stop": threading.Event()}
        for report in run(which, data, encoder, work, train, progress=meter, **options):
            meter.clear()
            row = report.rows[-1]
            echo(f"{row.claim.id:<4} {row.words}", err=True)
    rows, whole = in_order(report.rows), keep(report)
    if out is not None:
        write_text(out, whole.as_json())
    if as_json:
        for row in rows:
            echo_json(as_plain(row))
        return
    for row in rows:
        echo(f"\n{row.claim.id} {row.claim.paper}, {row.claim.place}: {row.words}", bold=True)
        echo(f"  {row.claim.sentence}")
        echo(f"  {row.ruling.why}")
        facts = {"paper": row.claim.effect, "scope": f"{row.scope}, {row.where}", "otherwise": row.claim.differs}
        for name, text in facts.items():
            if text:
                echo(f"  {name}: {text}")
    echo("\n" + aligned(report.table()))
    echo(f"{counted(len(rows), 'claim')}, {report.seconds:,.0f} s of measurement; the page Evidence has them.")
