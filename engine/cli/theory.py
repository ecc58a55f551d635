"""Commands that measure what the papers prove or claim: `theory vrsd` and its kin on a corpus, and `reproduce`."""

import threading
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import click

from engine.cli.group import Meter, use_threads
from engine.cli.inputs import JudgedOptions, make_stages
from engine.cli.output import echo, echo_json, echo_lines, format_columns, group_rows, read_column, write_text
from engine.errors import FrontierError
from engine.evaluation.paired import format_decoder_call
from engine.evaluation.studies.brute_force import iterate_pools, optimum_gap
from engine.evidence.run import Report, row_as_json, save_report, sort_rows
from engine.evidence.run import reproduce as run
from engine.progress import counted
from engine.space import Space
from engine.theory.recall_losses import recall_losses
from engine.theory.relaxation import measure_cone, measure_ends, relax_pools
from engine.theory.success_sets import McNemar, success_sets
from engine.theory.vrsd import compare_on_pools as vrsd_on_pools
from engine.values import Dataset, Embeddings, Qrels

DEFAULT_HEURISTICS = ("vrsd", "frank_wolfe:polish=false", "frank_wolfe", "max_sum:polish=false", "max_sum", "dpp")
"""The selectors that have an objective of sets."""


def vrsd(judged: JudgedOptions, k: int, pool: int, as_json: bool) -> None:
    """Check two claims of the VRSD paper on pools so small that the best set of k can be enumerated.

    VRSD looks for the set whose sum of vectors points where the query does. The paper's second form of that problem
    takes the most relevant document d₀ for granted, and looks for further ones whose sum points where q − d₀ does.
    Printed is how often both have the same best set, and how often the greedy Algorithm 1 finds the best set. pool:
    number of a query's most relevant documents that the sets are made of.
    """
    _, space, queries, _ = _load_judged(judged)
    rows = list(vrsd_on_pools(space, queries, k, pool))
    # `asdict` has no properties, so these two are added to every row.
    if as_json:
        return echo_json(*(asdict(row) | {"same": row.equivalence.same, "share": row.gap.share} for row in rows))
    gap_shares = read_column(rows, "gap.share")
    same_text = _format_share(sum(read_column(rows, "equivalence.same")), rows)
    found_text = _format_share(gap_shares.count(0), rows)
    echo_lines(
        [
            f"{counted(len(rows), 'query', 'queries')}, pools of {min(pool, len(space)):,}, k = {k}, the most "
            "relevant document fixed:",
            f"  cos(sum, q) and cos(rest, q − d₀) are largest for one set on {same_text}; what the second's set "
            f"lacks of the first's cosine: {_format_mean_and_max(read_column(rows, 'equivalence.lost'))}",
            f"  Algorithm 1 finds the best set on {found_text}; what it lacks "
            f"of the range from the worst set to the best: {_format_mean_and_max(gap_shares)}",
        ]
    )


def nnn(judged: JudgedOptions, as_json: bool) -> None:
    """Count the queries of which NNN returns exactly the relevant documents, for each choice of λ₁ and λ₂.

    NNN explains a query as a weighted sum of documents; λ₁ decides how few get a weight, λ₂ how far weight spreads over
    similar ones. The set recovered is that of the documents with a weight. Printed is the number of queries for the
    best pair of a grid, for the best pair of each query, and for any λ₁, beside dense retrieval. A witness is the λ₂
    with which the paper's Theorem 1 promises to recover a query's set.
    """
    _, space, queries, qrels = _load_judged(judged)
    with Meter() as meter:
        recovery = success_sets(space, queries, qrels, progress=meter)
    # A cell is a pair (λ₁, λ₂) of the grid; "some" takes for each query the best one in hindsight. Dense retrieval is
    # told the size of the relevant set, so that it could recover it.
    best_setting = recovery.grid[recovery.best_cell]
    ways = {
        "dense, told |S|": recovery.dense,
        f"the best cell, λ₁ {best_setting[0]:g}, λ₂ {best_setting[1]:g}": recovery.cells[:, recovery.best_cell],
        f"some cell of {len(recovery.grid)}": recovery.by_grid,
        **{f"some λ₁ at λ₂ {level:g}": recovery.paths[:, level_index] for level_index, level in enumerate(recovery.l2)},
        "some λ₁ at some of these λ₂": recovery.by_path,
    }
    # A query without a witness has NaN, which differs from itself.
    witnesses = sorted(recovery.witnesses[recovery.witnesses == recovery.witnesses].tolist())
    table_rows = [
        (counted(len(recovery.queries), "query", "queries"), "recovered", "dense too", "dense alone", "alone", "p")
    ]
    json_rows = []
    for name, is_recovered in ways.items():
        test, count = McNemar.compare(recovery.dense, is_recovered), int(is_recovered.sum())
        json_rows.append({"way": name, "recovered": count} | asdict(test))
        share_text = _format_share(count, recovery.queries)
        table_rows.append((name, share_text, str(test.both), str(test.first), str(test.second), f"{test.p:.3g}"))
    if as_json:
        return echo_json({"queries": len(recovery.queries), "ways": json_rows, "witnesses": witnesses})
    echo_lines([format_columns(table_rows), "p: McNemar's exact test against dense"])
    if witnesses:
        # The witnesses of Theorem 1 show whether the grid reaches the λ₂ that it promises.
        median, max_l2 = witnesses[len(witnesses) // 2], max(l2 for _, l2 in recovery.grid)
        n_on_grid = sum(witness <= max_l2 for witness in witnesses)
        echo(
            f"λ₂ of Theorem 1's witnesses: {witnesses[0]:.4g} at least, {median:.4g} in the median; {n_on_grid} of "
            f"{len(witnesses)} on the grid's range"
        )


def ccbqp(
    judged: JudgedOptions, sizes: list[int], weights: tuple[float, ...], pool: int,
    as_json: bool,
) -> None:  # fmt: skip
    """Check claims of the CCBQP paper, which chooses sets of k documents by relevance and diversity.

    Its objective is quadratic, and its relaxation allows fractions of documents. Printed is how often no mix of
    fractions beats the best set; how many points of zero slope between sets are saddles, which rise in some direction
    and are thus no maxima; how often the paper's Algorithm 1, a local search, ends at fractions instead of a set; how
    close to opposite two documents of the corpus are (its cone); and how the largest eigenvalue of their inner products
    grows with their number. weights: values of θ, the weight of relevance; pool: number of a query's most relevant
    documents, of which sets of 3 are chosen; sizes: values of k for Algorithm 1 on all documents.
    """
    _, space, queries, _ = _load_judged(judged)
    # The pools are small enough to compare all sets of 3 with every stationary point of the relaxation.
    pool_rows = [row for theta in weights for row in relax_pools(space, queries, 3, pool, relevance_weight=theta)]
    end_rows = list(measure_ends(space, queries, weights, sorted({min(k, len(space)) for k in sizes})))
    cone_row = measure_cone(space)
    if as_json:
        json_rows = [asdict(row) | {"tight": row.tight, "local_maxima": len(row.local_maxima)} for row in pool_rows]
        return echo_json({"pools": json_rows, "ends": list(map(asdict, end_rows)), "cone": asdict(cone_row)})
    n_saddles, n_stationary = _sum_fields(pool_rows, "saddles", "fractional")
    n_between, n_capped, n_runs = _sum_fields(end_rows, "fractional", "capped", "runs")
    tight_text = _format_share(sum(read_column(pool_rows, "tight")), pool_rows)
    sizes_text = ", ".join(map(str, sorted({row.k for row in end_rows})))
    largest = ", ".join(f"{value:.1f} of {n:,}" for n, value in zip(cone_row.sizes, cone_row.largest, strict=True))
    slope_text = "" if cone_row.slope is None else f"; slope {cone_row.slope:.2f}, where 1 is linear"
    echo_lines(
        [
            f"{counted(len(queries), 'query', 'queries')}, θ of {', '.join(map('{:g}'.format, weights))}:",
            f"  pools of {min(pool, len(space))}: no point of the relaxation beats the best set of 3 on {tight_text}; "
            f"of {n_stationary:,} stationary points between sets {n_saddles:,} are saddles",
            f"  all documents, k of {sizes_text}: of {n_runs:,} runs of Algorithm 1 {n_between:,} ended between sets, "
            f"{n_capped:,} at the limit of steps; the longest took {max(read_column(end_rows, 'most'))}",
            f"  least cosine of two documents: {cone_row.least:.4f} ({cone_row.pair[0]}, {cone_row.pair[1]})",
            f"  largest eigenvalue of the Gram matrix: {largest}{slope_text}",
        ]
    )


def gap(
    judged: JudgedOptions, k: int, selectors: tuple[str, ...], pool: int,
    fix_first: bool, as_json: bool,
) -> None:  # fmt: skip
    """Print how far selectors stay below the best set of k, by their own objective, on enumerable pools.

    pool: number of the most relevant documents from which sets are formed; fix_first: for vrsd, only sets with the most
    relevant document count. Selectors that search greedily need not find the best set.
    """
    _, space, queries, _ = _load_judged(judged)
    title = f"{counted(len(queries), 'query', 'queries')}, pools of {min(pool, len(space))}, k = {k}"
    table_rows = [(title, "best", "lacks in the mean", "at most")]
    for stage in make_stages(selectors or DEFAULT_HEURISTICS, "select"):
        # Only VRSD begins with the most relevant document; with --fix-first so must its best set.
        fixed = fix_first and stage.spec.name == "vrsd"
        shares, json_rows = [], []
        for query_id, pool_vectors, query_vector in iterate_pools(space, queries, pool):
            pool_gap = optimum_gap(vectors=pool_vectors, query=query_vector, k=k, fix_first=fixed, **stage.as_json())
            shares.append(pool_gap.share)
            json_rows.append({"selector": stage.label, "query": query_id, "share": pool_gap.share} | asdict(pool_gap))
        best_text = _format_share(shares.count(0.0), shares)
        stage_name = format_decoder_call({"select": stage.as_json()})
        table_rows.append((stage_name, best_text, f"{sum(shares) / len(shares):.4f}", f"{max(shares):.4f}"))
        if as_json:
            echo_json(*json_rows)
    if not as_json:
        lacks_text = "lacks: of the range of the objective, from the worst set to the best"
        echo_lines([format_columns(table_rows), lacks_text])


def recall(
    judged: JudgedOptions, vectors: str, dimensions: tuple[int, ...], rank: int,
    draws: int, as_json: bool,
) -> None:  # fmt: skip
    """Print how often random projections lose a query's best document, beside a proven bound.

    dimensions: numbers of dimensions, k in the table; rank: the best document is lost if so many others, or more, score
    higher after the projection; draws: number of projections.
    """
    _, space, queries, _ = _load_judged(judged)
    with Meter() as meter:
        loss_rows = recall_losses(
            space, queries, vectors, dimensions=dimensions, rank=rank, draws=draws, seed=judged.seed, progress=meter
        )
    if as_json:
        return echo_json(*(asdict(row) | {"share": row.share, "violated": row.violated} for row in loss_rows))
    table_rows = [("k", "queries", "lost", "bound below 1", "of them lost", "violated")]
    for dimension, rows in sorted(group_rows(loss_rows, "k").items()):
        # A bound of 1 or more promises nothing, so the other queries are also counted apart.
        bounded_rows = [row for row in rows if row.bound < 1]
        counts = f"{dimension:,}", f"{len(rows):,}", _format_mean_share(rows), f"{len(bounded_rows):,}"
        n_violated = sum(read_column(rows, "violated"))
        table_rows.append((*counts, _format_mean_share(bounded_rows), f"{n_violated}"))
    note = f"lost: the best document is behind {rank} others or more; {draws} projections"
    echo_lines([format_columns(table_rows), note])


def _sum_fields(rows: Sequence[Any], *field_names: str) -> list[int]:
    """Return the sums of some numeric fields over all rows, in the order of their names."""
    return [sum(read_column(rows, field_name)) for field_name in field_names]


def _format_mean_share(rows: Sequence[Any]) -> str:
    """Format the mean of the rows' shares, a dash without rows."""
    return f"{sum(read_column(rows, 'share')) / len(rows):.4f}" if rows else "–"


def _load_judged(judged: JudgedOptions) -> tuple[Dataset, Space, Embeddings, Qrels]:
    """Load data set, embedded corpus, a sample of judged queries, and the judgements, as flags say."""
    use_threads()
    with Meter() as meter:
        return judged.load_judged(meter)


def _format_share(n_matching: int, results: Sequence[Any]) -> str:
    """Format a number, and its share of all results."""
    return f"{n_matching:,} ({n_matching / len(results):.1%})"


def _format_mean_and_max(values: Sequence[float]) -> str:
    """Format mean and maximum of values."""
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
    endpoint: str | None,
    out: str | None,
    as_json: bool,
) -> None:
    """Measure the claims of the papers again; print and save the ruling on each, and the reason for it.

    which: a paper, a claim or "all"; data: folder of judged data sets; work: folder of trained systems; train: train
    those that it lacks; anew: measure again what is stored; endpoint: entry of endpoints.toml whose chat model reads.
    Raises UsageError.
    """
    use_threads()
    if train and not work:
        raise click.UsageError("--train needs --work FOLDER, where what is trained is kept")
    with Meter() as meter:
        run_options: dict[str, Any] = {"seed": seed, "workers": workers, "anew": anew, "stop": threading.Event()}
        run_options["reader"] = endpoint
        reports: list[Report] = []
        try:
            for evidence_report in run(which, data, encoder, work, train, progress=meter, **run_options):
                reports.append(evidence_report)
                meter.clear()
                row = evidence_report.rows[-1]
                echo(f"{row.claim.id:<4} {row.words}", err=True)
        except FrontierError:
            # Claims on readers come last, and a service that fails leaves the others measured.
            if reports:
                save_report(reports[-1])
            raise
    rows, stored_report = sort_rows(evidence_report.rows), save_report(evidence_report)
    # The stored report is the one that is exported, so that both agree.
    if out is not None:
        write_text(out, stored_report.as_json())
    if as_json:
        for row in rows:
            echo_json(row_as_json(row))
        return
    for row in rows:
        echo(f"\n{row.claim.id} {row.claim.paper}, {row.claim.place}: {row.words}", bold=True)
        echo(f"  {row.claim.sentence}")
        echo(f"  {row.ruling.why}")
        row_facts = {"paper": row.claim.effect, "scope": f"{row.scope}, {row.where}", "otherwise": row.claim.differs}
        for fact_name, fact_text in row_facts.items():
            if fact_text:
                echo(f"  {fact_name}: {fact_text}")
    echo("\n" + format_columns(evidence_report.table()))
    echo(f"{counted(len(rows), 'claim')}, {evidence_report.seconds:,.0f} s of measurement; the page Evidence has them.")
