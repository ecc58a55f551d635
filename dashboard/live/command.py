"""`frontier share`: a corpus, some of its queries and decoders as one file that others open in a browser."""

from collections.abc import Sequence
from functools import partial

import click

from dashboard.live.page import MAX_LIVE_QUERIES, LiveContent, save_live_page
from dashboard.services.confirmations import count_by_page, measure_confirming
from dashboard.services.source import Loaded, Source
from dashboard.session.decoders import list_default_selectors
from dashboard.session.query import find_first_split
from engine.cli.group import Meter, use_threads
from engine.cli.inputs import (
    KEEP_SELF,
    CorpusOptions,
    check_splits,
    embed_and_warn,
    embed_corpus,
    make_stages,
    say_own_documents,
)
from engine.cli.output import echo
from engine.decoder import Decoder, embed_queries
from engine.evaluation.decision import Decision
from engine.evaluation.sweep.cell import Cell
from engine.progress import counted
from engine.space import Space
from engine.values import Dataset, Queries


def share(
    source: CorpusOptions,
    live: str,
    selectors: tuple[str, ...],
    query_ids: tuple[str, ...],
    split: str | None,
    count: int | None,
    k: int,
) -> None:
    """Write a live page of a corpus to a file.

    Parameters
    ----------
    source : CorpusOptions
        The corpus and its encoder.
    live : str
        The file to write.
    selectors : tuple of str
        Decoders as NAME[:PARAM=VALUE,…]; empty for Explore's.
    query_ids : tuple of str
        The queries that can be opened; empty for the first ones.
    split : str or None
        The split of the judged queries; None for dev, else test, else the first.
    count : int or None
        How many of the first queries can be opened, where none is named.
    k : int
        The size of the sets.
    """
    use_threads()
    # A misspelt decoder is refused before anything is embedded.
    stages = make_stages(selectors, "select") if selectors else make_stages(list_default_selectors(), "select")
    with Meter() as meter:
        dataset = source.load(meter, check=lambda dataset: _choose_queries(dataset, query_ids, split, count))
        chosen = _choose_queries(dataset, query_ids, split, count)
        split = split or find_first_split(dataset)
        judged = dataset.judged(split) if split else None
        space = embed_corpus(dataset, source, progress=meter)
        say_own_documents(space, chosen, meter, None, KEEP_SELF)
        content = LiveContent(
            space=space,
            queries=embed_and_warn(space, chosen, progress=meter),
            decoders=[Decoder(stage) for stage in stages],
            qrels=dataset.qrels[split] if split else None,
            judged=None if judged is None else embed_and_warn(space, judged, progress=meter),
            split=split or "",
            k=k,
            find_confirming=partial(_measure_confirming, dataset, space, split) if split else None,
        )
        n_bytes = save_live_page(live, content, progress=meter)
    n_queries = counted(len(chosen), "query", "queries")
    size = f"{n_bytes / 1e6:.1f} MB, {n_queries} × {counted(len(stages), 'decoder')}"
    echo(f"{live}: {size}; a browser opens it without a server or a network")


def _measure_confirming(
    dataset: Dataset, space: Space, split: str, decision: Decision, baseline: Cell
) -> Sequence[Cell]:
    """Return what another split says of a decision's choices, as the dialog on pages does; () if it was never asked."""
    own_vectors = dataset.queries.embeddings
    # Questions to a split are known by the digests of the data, wherever that was loaded from.
    loaded = Loaded(
        source=Source(dataset.corpus.name), dataset=dataset, space=space,
        queries=None if own_vectors is None else own_vectors.vectors,
    )  # fmt: skip
    asked_splits = [name for name in dataset.qrels if name != split and count_by_page(loaded, name)]
    for name in asked_splits if own_vectors is None else ():
        # Vectors are found on the disk, as on pages, and nothing is embedded for a question that was not asked.
        embed_queries(space, dataset.judged(name))
    return measure_confirming(loaded, split, decision, baseline) if asked_splits else ()


def _choose_queries(dataset: Dataset, query_ids: tuple[str, ...], split: str | None, count: int | None) -> Queries:
    """Return the queries that can be opened: those named, else the first ones. Raises UsageError."""
    if query_ids and count is not None:
        raise click.UsageError("give --query-id or --count, not both")
    check_splits(dataset.qrels, [split])
    if unknown_ids := [query_id for query_id in query_ids if query_id not in dataset.queries.position]:
        raise click.UsageError(f"no query {unknown_ids[0]!r} in {dataset.corpus.name}")
    split = split or find_first_split(dataset)
    # Without judgements every query counts.
    queries = dataset.judged(split) if split else dataset.queries
    chosen_ids = query_ids or queries.ids[: MAX_LIVE_QUERIES if count is None else count]
    if not chosen_ids:
        raise click.UsageError(f"{dataset.corpus.name} has no query to show")
    return dataset.queries.only(chosen_ids)
