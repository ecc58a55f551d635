"""Commands about vector engines: load a corpus into one, measure what its index finds, answer with a proof."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import click
from click.core import ParameterSource

from engine.cli.decode import decoder_from_flags, echo_entry, entries_of, stage_flags
from engine.cli.encoding import SOURCE, CorpusOptions
from engine.cli.group import Meter, main, stop_on_interrupt, use_threads
from engine.cli.options import SIZE, DeclaredCommand, json_option, option, seed_option
from engine.cli.output import aligned, echo, echo_json
from engine.progress import counted

NAME = click.argument("name", metavar="NAME/COLLECTION")


@main.group()
def store() -> None:
    """Corpora in PostgreSQL with pgvector, or in Milvus, as FRONTIER_HOME/stores.toml names them."""


@store.command("load")
@NAME
@SOURCE
@option("--batch", type=click.IntRange(1, 100_000), default=1_000, help="Documents a transaction.")
@click.option("--index", is_flag=True, help="Build an HNSW index in the end.")
@option("--m", "links", type=click.IntRange(2, 100), default=16, help="Links a document in the index.")
@option("--ef-construction", type=click.IntRange(4, 1000), default=64, help="Candidates while the index is built.")
@json_option()
def load_command(
    name: str, source: CorpusOptions, batch: int, index: bool, links: int, ef_construction: int, as_json: bool
) -> None:
    """Write a corpus with its embeddings; run again, it goes on where it was."""
    from engine.cli.encoding import space_and_decoder
    from engine.data.stores.load import HnswIndex, check_target, load

    use_threads()
    check_target(name)  # before anything is embedded
    with Meter() as meter, stop_on_interrupt() as stop:
        dataset = source.load(meter)
        space, _ = space_and_decoder(dataset, source, progress=meter, stop=stop)
        built = HnswIndex(links, ef_construction) if index else None
        done = load(name, dataset.corpus, space.embeddings, batch=batch, index=built, progress=meter, stop=stop)
    if as_json:
        echo_json({"collection": name, **asdict(done)})
    else:
        echo(f"{name}: {counted(done.written, 'document')} written, {done.count:,} are there")


@store.command("check")
@NAME
@option("--queries", type=click.IntRange(1, 10_000), default=20, help="Points between two documents, at random.")
@click.option("--data", metavar="NAME|PATH", help="A data set whose queries are asked instead.")
@option("-n", "--depth", "n", type=click.IntRange(1, 10_000), default=500, help="How many documents are compared.")
@option("--enough", type=click.FloatRange(0, 1), default=0.95, help="The recall at which to stop.")
@seed_option("Same seed, same points.")
@json_option("One JSON object an ef.")
def check_command(name: str, queries: int, data: str | None, n: int, enough: float, seed: int, as_json: bool) -> None:
    """Measure what the index finds, for queries and for the questions that prove answers, at rising ef.

    What was measured is kept; answers quote it.
    """
    import engine
    from engine.data.stores.config import open_store
    from engine.data.stores.recall import keep_recall, measured_path
    from engine.evaluation.studies.store_recall import query_vectors, sample_queries, store_recall

    use_threads()
    found: Any = open_store(name)
    with Meter() as meter, stop_on_interrupt() as stop:
        if data is None:
            points = sample_queries(found, queries, seed)
        else:
            asked = engine.load_dataset(data, progress=meter).queries.sample(queries, seed)
            points = query_vectors(found, asked, progress=meter, stop=stop)
        rows = store_recall(found, points, n, enough=enough, progress=meter, stop=stop)
    keep_recall(rows)
    if as_json:
        for row in rows:
            echo_json(asdict(row))
        return
    head = ("ef", f"recall@{n} of queries", "of residuals", "what the engine did")
    echo(aligned([head, *((str(r.ef), f"{r.queries:.3f}", f"{r.residuals:.3f}", r.plan) for r in rows)]))
    best = rows[-1]
    reached = min(best.queries, best.residuals)
    echo(
        f"{reached:.3f} of {enough:g} reached at ef {best.ef}"
        + (", by looking at all rows: the planner left the index; force_index = true measures it" * best.sequential)
        + ("" if reached >= enough else "; build a larger index (--m, --ef-construction), or ask exactly")
    )
    echo(f"kept in {measured_path()}")


@store.command("prove", cls=DeclaredCommand, flags=stage_flags)
@NAME
@option("--query", "texts", multiple=True, required=True, help="A query; may be given more than once.")
@SIZE
@click.option("--by-index", is_flag=True, help="Answer from the engine's index, and prove nothing.")
@json_option("One JSON object a query.")
def prove_command(
    name: str, texts: tuple[str, ...], k: int, by_index: bool, as_json: bool, **stage_texts: str | None
) -> None:
    """Answer queries from a collection, and have its engine look at all documents until the answer is proven."""
    import engine
    from engine.progress import report_to
    from engine.values import Queries

    use_threads()
    origin = click.get_current_context().get_parameter_source
    given = {flag: text for flag, text in stage_texts.items() if origin(flag) is not ParameterSource.DEFAULT}
    decoder = decoder_from_flags(given)
    with Meter() as meter, stop_on_interrupt() as stop, report_to(meter, stop):
        reach = engine.attach(name)
        queries = Queries.of(texts)
        vectors = engine.embed_queries(reach, texts, progress=meter, stop=stop)
        ranking = engine.decode(decoder, reach, vectors, k) if by_index else reach.prove(decoder, vectors, k)
        entries = entries_of(decoder, reach, queries, vectors, ranking)
    for entry in entries:
        if as_json:
            echo_json(entry, allow_nan=False)
        else:
            echo_entry(entry, traced=False)
