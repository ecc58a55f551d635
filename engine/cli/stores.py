"""Commands about vector engines: load a corpus into one, measure what its index finds, answer with a proof."""

from dataclasses import asdict
from typing import Any

import torch

import engine
from engine.cli.decode import build_entries, decoder_from_flags, echo_entry, passed_flags
from engine.cli.group import Meter, stop_on_interrupt, use_threads
from engine.cli.inputs import CorpusOptions, space_and_decoder
from engine.cli.output import echo, echo_json, format_columns
from engine.data.stores.config import open_store
from engine.data.stores.load import HnswIndex, check_target, load
from engine.data.stores.recall import measured_path, save_recall
from engine.evaluation.studies.store_recall import embed_for_store, measure_store_recall, sample_queries
from engine.progress import counted, report_to
from engine.values import Queries


def load_command(
    name: str, source: CorpusOptions, batch: int, index: bool, links: int, ef_construction: int, as_json: bool
) -> None:
    """Load a corpus and its embeddings into a collection of a vector engine."""
    use_threads()
    check_target(name)  # before anything is embedded
    # An interrupted load is resumed by the same command.
    with Meter() as meter, stop_on_interrupt() as stop_event:
        dataset = source.load(meter)
        space, _ = space_and_decoder(dataset, source, progress=meter, stop=stop_event)
        built = HnswIndex(links, ef_construction) if index else None
        result = load(name, dataset.corpus, space.embeddings, batch=batch, index=built, progress=meter, stop=stop_event)
    if as_json:
        echo_json({"collection": name, **asdict(result)})
    else:
        echo(f"{name}: {counted(result.written, 'document')} written, {result.count:,} are there")


def check_command(name: str, queries: int, data: str | None, n: int, enough: float, seed: int, as_json: bool) -> None:
    """Measure which share of the exactly best documents a vector engine's index returns, and save it.

    Search effort (ef) rises until the share reaches `enough`, both for queries and for residuals: the points with which
    the engine is searched to prove an answer, which lie at the edge of the data. name: "store/collection"; data: a data
    set whose queries are asked, None to draw points from the collection; n: number of best documents.
    """
    use_threads()
    collection: Any = open_store(name)
    with Meter() as meter, stop_on_interrupt() as stop_event:
        if data is None:
            test_vectors = sample_queries(collection, queries, seed)
        else:
            test_queries = engine.load_dataset(data, progress=meter).queries.sample(queries, seed)
            test_vectors = embed_for_store(collection, test_queries, progress=meter, stop=stop_event)
        rows = measure_store_recall(collection, test_vectors, n, min_recall=enough, progress=meter, stop=stop_event)
    save_recall(rows)
    if as_json:
        return echo_json(*map(asdict, rows))
    head = ("ef", f"recall@{n} of queries", "of residuals", "what the engine did")
    echo(format_columns([head, *((str(r.ef), f"{r.queries:.3f}", f"{r.residuals:.3f}", r.plan) for r in rows)]))
    last_row = rows[-1]
    # The index must reach the recall for both kinds of points: queries and residuals.
    reached_recall = min(last_row.queries, last_row.residuals)
    echo(
        f"{reached_recall:.3f} of {enough:g} reached at ef {last_row.ef}"
        # A text times False is empty.
        + (", by looking at all rows: the planner left the index; force_index = true measures it" * last_row.sequential)
        + ("" if reached_recall >= enough else "; build a larger index (--m, --ef-construction), or ask exactly")
    )
    echo(f"kept in {measured_path()}")


def prove_command(
    name: str, texts: tuple[str, ...], k: int, by_index: bool, as_json: bool, **stage_texts: str | None
) -> None:
    """Answer typed queries from a vector engine's collection; print the documents and their certainty.

    By default the vector engine looks at all documents, which proves that the answers are exact. by_index: take them
    from the engine's index instead, which may miss documents; name: "store/collection".
    """
    use_threads()
    decoder = decoder_from_flags(passed_flags(stage_texts))
    with Meter() as meter, stop_on_interrupt() as stop_event, report_to(meter, stop_event):
        collection = engine.attach(name)
        queries = Queries.of(texts)
        vectors = engine.embed_queries(collection, texts, progress=meter, stop=stop_event)
        # Only the proof makes the engine look at all documents.
        ranking = engine.decode(decoder, collection, vectors, k) if by_index else collection.prove(decoder, vectors, k)
        # Scores of a reranker are not kept beside the documents that an engine returned.
        relevance = None if decoder.rerank is None else torch.full(ranking.index.shape, torch.nan)
        entries = build_entries(collection, queries, vectors, ranking, relevance)
    if as_json:
        return echo_json(*entries, allow_nan=False)
    for query_entry in entries:
        echo_entry(query_entry, with_trace=False)
