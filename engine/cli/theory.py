"""Commands that measure what the papers prove or claim, on a corpus: `theory vrsd` and its kin."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from engine.cli.encoding import SOURCE, CorpusOptions, embed_corpus, embed_queries
from engine.cli.group import Meter, main, use_threads
from engine.cli.options import json_option, option, options, seed_option, size_option, split_option
from engine.cli.output import echo_json, echo_lines

if TYPE_CHECKING:
    from engine.space import Space
    from engine.values import Embeddings

SAMPLED = options(
    SOURCE,
    split_option("Whose judged queries are asked."),
    option("--count", type=click.IntRange(1), default=200, help="How many of the queries, at random."),
    seed_option("Of the choice of queries."),
)
"""The options of a command on some judged queries of a corpus."""
SMALL = size_option(default="5")


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
            same = {"same": row.equivalence.same, "share": row.gap.share}
            echo_json({"query": row.query, "equivalence": asdict(row.equivalence), "gap": asdict(row.gap)} | same)
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


def _sampled(source: CorpusOptions, split: str, count: int, seed: int) -> tuple[Space, Embeddings]:
    """The space of a corpus, and some judged queries of it."""
    use_threads()
    with Meter() as meter:
        dataset = source.load(meter)
        queries = dataset.judged(split).sample(count, seed)
        space = embed_corpus(dataset, source, progress=meter)
        return space, embed_queries(space, queries, progress=meter)


def _of(count: int, rows: Sequence[Any]) -> str:
    return f"{count:,} ({count / len(rows):.1%})"


def _mean_and_most(values: Sequence[float]) -> str:
    return f"{sum(values) / len(values):.4f} in the mean, {max(values):.4f} at most"
