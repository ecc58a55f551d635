"""Commands about vector engines: load a corpus into one, measure what its index finds, answer with a proof."""

from dataclasses import asdict
from typing import Any

import engine
from engine.cli.decode import decoder_from_flags, echo_entry, entries_of, passed_flags
from engine.cli.group import Meter, stop_on_interrupt, use_threads
from engine.cli.inputs import CorpusOptions, space_and_decoder
from engine.cli.output import aligned, echo, echo_json
from engine.data.stores.config import open_store
from engine.data.stores.load import HnswIndex, check_target, load
from engine.data.stores.recall import keep_recall, measured_path
from engine.evaluation.studies.store_recall import embed_for_store, measure_store_recall, sample_queries
from engine.progress import counted, report_to
from engine.values import Queries


def load_command(
    name: str, source: CorpusOptions, batch: int, index: bool, links: int, ef_construction: int, as_json: bool
) -> None:
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


def check_command(name: str, queries: int, data: str | None, n: int, enough: float, seed: int, as_json: bool) -> None:
    use_threads()
    found: Any = open_store(name)
    with Meter() as meter, stop_on_interrupt() as stop:
        if data is None:
            points = sample_queries(found, queries, seed)
        else:
            asked = engine.load_dataset(data, progress=meter).queries.sample(queries, seed)
            points = embed_for_store(found, asked, progress=meter, stop=stop)
        rows = measure_store_recall(found, points, n, min_recall=enough, progress=meter, stop=stop)
    keep_recall(rows)
    if as_json:
        return echo_json(*(asdict(row) for row in rows))
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


def prove_command(
    name: str, texts: tuple[str, ...], k: int, by_index: bool, as_json: bool, **stage_texts: str | None
) -> None:
    use_threads()
    decoder = decoder_from_flags(passed_flags(stage_texts))
    with Meter() as meter, stop_on_interrupt() as stop, report_to(meter, stop):
        reach = engine.attach(name)
        queries = Queries.of(texts)
        vectors = engine.embed_queries(reach, texts, progress=meter, stop=stop)
        ranking = engine.decode(decoder, reach, vectors, k) if by_index else reach.prove(decoder, vectors, k)
        entries = entries_of(decoder, reach, queries, vectors, ranking)
    if as_json:
        return echo_json(*entries, allow_nan=False)
    for entry in entries:
        echo_entry(entry, traced=False)
