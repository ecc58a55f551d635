"""The command `judge`: a language model grades what decoders and other systems return, in the log that people fill."""

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

from engine.cli.group import Meter, stop_on_interrupt
from engine.cli.inputs import CorpusOptions, embed_and_warn, make_stages, space_and_decoder
from engine.cli.output import echo, echo_json, echo_notices
from engine.decoder import Decoder
from engine.errors import DataError, ParamError
from engine.evaluation.runs import RankedRun, decode_runs, read_run
from engine.judging.by_model import (
    compare_with_people,
    estimate_judging,
    find_open_pairs,
    judge_by_model,
    make_judge,
)
from engine.judging.log import Judged, JudgingLog, locate_log
from engine.judging.pool import build_pool, order_pairs
from engine.judging.qrels import export_judgements
from engine.judging.queries import read_queries
from engine.progress import counted
from engine.space import Space
from engine.stages import make, methods
from engine.values import Dataset, Embeddings, Queries

UNCHECKED = "Nobody has graded one of these documents: grade some on Judge to see how far the model can be trusted."


def judge(
    source: CorpusOptions,
    endpoint: str,
    queries_file: str | None,
    split: str | None,
    count: int | None,
    seed: int,
    selectors: tuple[str, ...],
    runs: tuple[str, ...],
    k: int,
    prompt: bool,
    out: str | None,
    as_json: bool,
) -> None:
    """Have a language model grade what decoders and other systems return; each grade is kept as it comes.

    Parameters
    ----------
    source : CorpusOptions
        The corpus and its encoder.
    endpoint : str
        The entry of endpoints.toml whose chat model judges.
    queries_file : str or None
        A file of queries; None for those of the corpus.
    split : str or None
        The split whose queries are judged; None for all queries.
    count, seed : int or None, int
        How many of the queries, drawn at random; None for all.
    selectors : tuple of str
        Selectors whose documents are judged; empty for all.
    runs : tuple of str
        Files of other systems' results.
    k : int
        Documents of each list.
    prompt : bool
        Print the prompt instead.
    out : str or None
        A new folder for the model's judgements.
    as_json : bool
        Print one JSON object.

    Raises
    ------
    FrontierError
        If there are no queries, the service fails, or nobody allowed to send so much.
    """
    model = make_judge(endpoint)
    if prompt:
        return echo(model.prompt)
    if queries_file is not None and split is not None:
        raise ParamError("--queries and --split are two choices of queries; give one of them")
    with Meter() as meter, stop_on_interrupt() as stop_event:
        dataset = source.load(meter)
        queries = _choose_queries(dataset, queries_file, split)
        queries = queries if count is None else queries.sample(count, seed)
        space = space_and_decoder(dataset, source, progress=meter)[0]
        systems = list_systems(space, embed_and_warn(space, queries, progress=meter), selectors, runs, k)
        # In the order in which people judge them.
        pairs = order_pairs(build_pool(systems, queries.ids, k))
        log = JudgingLog(locate_log(dataset.corpus))
        # The page shows a query only if the log has its text.
        log.add_queries(queries)
        open_pairs = find_open_pairs(log.read(), model.name, pairs)
        # People should know what leaves this machine, before it does.
        if open_pairs:
            meter.clear()
            echo(f"asking {model.model}: {estimate_judging(model, open_pairs, queries, dataset.corpus)}", err=True)
        judging = judge_by_model(log, model, pairs, queries, dataset.corpus, progress=meter, stop=stop_event)
    judged = log.read()
    agreement = compare_with_people(judged, model.name) if model.name in judged.models else None
    if out is not None:
        _export(judged.only_model(model.name), dataset, out)
    if as_json:
        return echo_json({**asdict(judging), "agreement": None if agreement is None else asdict(agreement), "out": out})
    echo(f"{judging}.")
    echo(agreement.sentence if agreement is not None else UNCHECKED)
    if out is not None:
        echo(f"the model's judgements are in {out}")
        # Without a grade of 0 a set of judgements counts as complete, and what it lacks as not relevant.
        if n_lacking := judging.refused + judging.unreadable:
            lacking = counted(n_lacking, "document has", "documents have")
            echo(f"{lacking} no grade: read them with --judgements pooled, by which these are unknown, not irrelevant")


def _choose_queries(dataset: Dataset, queries_file: str | None, split: str | None) -> Queries:
    """Return the queries of a file, of a split, or all of the corpus. Raises DataError if there are none."""
    if queries_file is not None:
        searches = read_queries(queries_file, dataset_queries=dataset.queries)
        echo_notices(searches.notices)
        return searches.queries
    queries = dataset.queries if split is None else dataset.judged(split)
    if not len(queries):
        raise DataError("the corpus has no queries; name a file of searches, one a line: --queries searches.txt")
    return queries


def _export(judged: Judged, dataset: Dataset, folder: str) -> None:
    """Write a model's grades as a BEIR folder, in which each query stays in the splits that the data set has it in."""
    # Without grades of their own the splits only say which query belongs where.
    judged_ids = {query_id for query_id, _ in judged.grades}
    splits = {
        split: replace(qrels, grades={query_id: {} for query_id in qrels.grades if query_id in judged_ids})
        for split, qrels in dataset.qrels.items()
    }
    used_splits = {split: qrels for split, qrels in splits.items() if len(qrels)}
    export_judgements(judged, folder, dataset.queries, dataset_qrels=used_splits)


def list_systems(
    space: Space, queries: Embeddings, selectors: Sequence[str], run_files: Sequence[str], k: int
) -> list[RankedRun]:
    """Return the lists of decoders and of other systems, the baseline's first.

    selectors, run_files: as the flags name them; no selectors for all that there are
    """
    stages: list[Any] = make_stages(selectors, "select") or [make(name) for name in methods("selector")]
    # The baseline comes first, as on the page: every other system is compared with it.
    decoders = dict.fromkeys([Decoder(make(next(iter(methods("selector"))))), *map(Decoder, stages)])
    ranked_runs: list[RankedRun] = list(decode_runs(list(decoders), space, queries, k))
    for file in run_files:
        run = read_run(file, space.corpus.ids, queries.ids)
        echo_notices(run.notices)
        ranked_runs.append(run)
    return ranked_runs
