"""Commands on one decoder: `methods`, `embed`, `decode` and `answer`, which serves one over HTTP."""

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import click
import torch
from click.core import ParameterSource

import engine
from engine.cli.group import Meter, use_threads
from engine.cli.inputs import (
    KEEP_SELF,
    STAGES,
    CorpusOptions,
    echo_truncated,
    embed_corpus,
    limit_sources,
    say_own_documents,
    space_and_decoder,
    warn_of_leakage,
)
from engine.cli.options import value_flag
from engine.cli.output import echo, echo_json, echo_notices, format_columns, nan_to_none, one_line, read_column
from engine.data.encoders import shipped_notices
from engine.decoder import DEPTH, SET_SIZE, Decoder, count_unmatched, score_candidates, select_from
from engine.errors import FrontierError
from engine.evaluation.duplicate_threshold import resolve_duplicate_threshold, sample_random_pairs
from engine.evaluation.export_decoder import DUPLICATE_FIELDS, ExportContext, read_setting
from engine.evaluation.metrics import METRICS, Measures, available_metrics
from engine.evaluation.paired import format_decoder_call
from engine.evaluation.sweep.compute import measure_latency, prepare_decoder
from engine.integrations.end_by_signal import EndBySignal
from engine.integrations.server import Service, build_app
from engine.params import parse_values, values_of
from engine.progress import counted
from engine.space import Elsewhere, Space, resolve_local_space
from engine.stages import make, spec_of
from engine.stages import methods as registered
from engine.values import Corpus, Dataset, Qrels, Queries, Ranking
from engine.views.decision import describe_trust, describe_unmatched
from engine.views.decision import relevance as compute_relevance
from engine.views.methods import method_columns, method_table

TIMING_SECONDS = 0.5
"""Longest time that timing an answer may take."""
DEFAULT_METHODS = {"select": "top_k", "retrieve": "dense", "rerank": None}


def methods(as_json: bool) -> None:
    """Print the table of methods, or all of it as JSON.

    Parameters
    ----------
    as_json : bool
        Print JSON with every parameter in place of the table.
    """
    if as_json:
        echo_json(method_columns(), indent=2)
    else:
        echo(method_table())


def embed(source: CorpusOptions, queries: bool) -> None:
    """Embed a corpus, and its queries if `queries` is set, into the cache; print the size of each.

    Parameters
    ----------
    source : CorpusOptions
        The corpus and its encoder.
    queries : bool
        Embed the queries too.
    """
    use_threads()
    with Meter() as meter:
        dataset = source.load(meter)
        text_sets: list[Corpus | Queries] = [dataset.corpus]
        # Queries have a prompt of their own, and so a cache entry of their own.
        if queries and len(dataset.queries):
            text_sets.append(dataset.queries)
        for text_set in text_sets:
            vectors = engine.embed(text_set, source.encoder, dtype=source.dtype, device=source.device, progress=meter)
            ref = vectors.encoder
            meter.echo(
                f"{counted(len(vectors), 'vector')} of {vectors.dimension} dimensions, {ref.name} in {ref.dtype}, "
                f"fingerprint {vectors.digest[:12]}"
            )
            echo_notices(shipped_notices(text_set, vectors))
        echo_truncated(dataset.corpus, source.encoder, meter)


def stage_flags() -> list[click.Option]:
    """Build the flags of a decoder: one for each stage and each parameter of its methods, and the depth.

    The stages are select, retrieve and rerank; a method is a selector or a scorer. The depth is the number of documents
    that the first scorer passes on.
    """
    flag_options = []
    for stage, stage_kind, prefix in STAGES:
        method_specs, default = registered(stage_kind), DEFAULT_METHODS[stage]
        method, help_text = click.Choice(list(method_specs)), f"The {stage_kind} that {stage}s."
        flag_options.append(
            click.Option([f"--{stage}"], type=method, default=default, show_default=default is not None, help=help_text)
        )
        # Methods of one stage may share a parameter's name: they share its flag, whose help lists all of them.
        param_owners: dict[str, list[Any]] = {}
        for spec in method_specs.values():
            for param in spec.params:
                param_owners.setdefault(param.name, []).append((spec, param))
        for param_name, declared in param_owners.items():
            help_text = "; ".join(
                f"{spec.name}: {p.symbol}, {p.domain}, default {p.text(p.default)}. {p.help}" for spec, p in declared
            )
            # All of them have the same flag, whose name follows the prefix of the stage.
            (_, any_param), *_others = declared
            flag = f"--{prefix}{any_param.flag.removeprefix('--')}"
            flag_options.append(value_flag(flag, f"{stage}__{param_name}", help_text))
    return [*flag_options, value_flag(DEPTH.flag, "depth", f"{DEPTH.help} Default: {DEPTH.unset}.")]


def decode(
    source: CorpusOptions,
    texts: tuple[str, ...],
    query_ids: tuple[str, ...],
    split: str | None,
    k: int,
    as_json: bool,
    traced: bool,
    per_source: tuple[str, int | None] | None,
    without_self: bool | None,
    **stage_texts: str | None,
) -> None:
    """Decode the queries that the flags name; print their documents, the mean metrics and the latency.

    Parameters
    ----------
    source : CorpusOptions
        The corpus and its encoder.
    texts, query_ids : tuple of str
        Free texts, and ids of the corpus's queries.
    split : str or None
        The split whose queries are decoded, where none is named.
    k : int
        The size of the sets.
    as_json, traced : bool
        Print JSON; print how each document was picked.
    per_source : tuple of str and int or None
        The column of the sources, and the most documents of one source; None for any number.
    without_self : bool or None
        The treatment of queries that are documents.
    **stage_texts : str or None
        The flags of the decoder's stages as texts.
    """
    use_threads()
    passed_texts = passed_flags(stage_texts)
    # Wrong flags are refused before anything is embedded, where no checkpoint has a say in them.
    add_limits = partial(limit_sources, per_source=per_source, without_self=without_self)
    decoder = add_limits(decoder_from_flags(passed_texts)) if source.trained is None else None
    source_column = None if per_source is None else per_source[0]
    _check_queries(texts, query_ids, split)
    with Meter() as meter:
        columns = () if source_column is None else (source_column,)
        # Wrong queries are refused before anything is embedded, for dropping duplicates too.
        dataset = source.load(meter, columns, lambda dataset: _queries(dataset, texts, query_ids, split))
        queries = _queries(dataset, texts, query_ids, split)
        space, trained_decoder = space_and_decoder(dataset, source, progress=meter)
        if decoder is None:
            decoder = add_limits(decoder_from_flags(passed_texts, trained_decoder))
            meter.clear()
            _echo_trained_decoder(decoder, passed_texts)
        vectors = _embed_if_possible(space, queries, texts, meter)
        if not texts:
            warn_of_leakage(space, queries, meter)
            say_own_documents(space, queries, meter, without_self, KEEP_SELF)
        prepare_decoder(decoder, space)
        start_time = time.perf_counter()
        ranking, relevance = _decode_all(decoder, space, vectors, k, with_relevance=as_json or not split)
        first_seconds = (time.perf_counter() - start_time) / len(queries)
        # Median milliseconds and number of single calls; what takes long is not asked again to be timed.
        timing = measure_latency(decoder, space, vectors, k, TIMING_SECONDS) if first_seconds < TIMING_SECONDS else None
    judgements = _judgements(dataset, queries, split)
    aspects = dataset.aspects if judgements else None  # without judged queries nothing is measured on them
    rules = {"source": source_column, "without_self": without_self, "duplicate_threshold": source.duplicate_threshold}
    metric_names = available_metrics(judgements, aspects, vectors, source_column)
    measured = engine.measure(ranking, space, vectors, judgements, k, metric_names, aspects, **rules)
    entries = build_entries(space, queries, vectors, ranking, relevance) if as_json or not split else []
    echo_notices(filter(None, [describe_unmatched(count_unmatched(ranking))]))
    # The summary has null where a metric is undefined: JSON has no NaN.
    if as_json:
        summary = {
            "decoder": decoder.label, "corpus": dataset.corpus.name, "documents": len(dataset.corpus), "k": k,
            "queries": len(queries), "milliseconds": timing and round(timing[0], 3), "calls": timing and timing[1],
            "mean": nan_to_none(measured.mean), "left_out": measured.left_out,
        }  # fmt: skip
        return echo_json({**summary, "results": entries}, allow_nan=False)
    for query_entry in entries:
        echo_entry(query_entry, traced)
    _echo_means(decoder, measured, measured.left_out if judgements else 0, (len(queries), len(space)), timing)
    echo(_describe_scale(space, source.duplicate_threshold))


def _echo_means(
    decoder: Decoder,
    measured: Measures,
    n_unjudged: int,
    sizes: tuple[int, int],
    timing: tuple[float, int] | None,
) -> None:
    """Print a decoder's mean metrics and its latency.

    n_unjudged: number of queries without judgements; sizes: number of queries and of documents; timing: median
    milliseconds and number of single calls, None if they took too long
    """
    n_queries, n_documents = sizes
    timing_text = f", {timing[0]:.1f} ms a query (median of {counted(timing[1], 'single call')})" if timing else ""
    counts_text = f"{counted(n_queries, 'query', 'queries')}, {counted(n_documents, 'document')}"
    # An undefined mean is NaN, which differs from itself, and is left out.
    titles = {name: f"{METRICS[name].title}@{measured.k}" for name in measured.mean}
    means = "  ".join(f"{titles[name]} {value:.4f}" for name, value in measured.mean.items() if value == value)
    skipped = f"  ({n_unjudged:,} without judgements left out)" if n_unjudged else ""
    echo(f"\n{format_decoder_call(decoder)}: {counts_text}{timing_text}\n{means}{skipped}")


def _describe_scale(space: Space, duplicate_threshold: float | None) -> str:
    """Return the cosine of near-duplicates, and the ILAD of random pairs, beside which that of answers is read."""
    threshold_text = f"near-duplicate: cosine ≥ {resolve_duplicate_threshold(space, duplicate_threshold):g}"
    random_ilad = sample_random_pairs(space).ilad
    return threshold_text if math.isnan(random_ilad) else f"{threshold_text}; ILAD of random pairs {random_ilad:.4f}"


def _embed_if_possible(space: Space, queries: Queries, texts: Sequence[str], meter: Meter) -> Any:
    """Return the vectors of queries, or the queries without an encoder and vectors of theirs: scorers can read words.

    texts: those that were typed, if the queries are such.
    """
    if space.encoder is None and queries.vectors is None:
        return queries
    return engine.embed_queries(space, texts or queries, progress=meter)


def _check_queries(texts: Sequence[str], query_ids: Sequence[str], split: str | None) -> None:
    """Raise a UsageError unless queries are named in one of the three ways, and none is empty."""
    if sum(map(bool, (texts, query_ids, split))) != 1:
        raise click.UsageError("give one of --query, --query-id or --split")
    if not all(map(str.strip, texts)):
        raise click.UsageError("--query is empty")


def _queries(dataset: Dataset, texts: Sequence[str], query_ids: Sequence[str], split: str | None) -> Queries:
    """Return the queries that the flags name: typed texts, ids, or all judged ones of a split.

    Raises UsageError for an unknown id.
    """
    if texts:
        return Queries.of(texts)
    if split:
        return dataset.judged(split)
    for query_id in query_ids:
        if query_id not in dataset.queries.position:
            raise click.UsageError(
                f"no query {query_id!r} in this corpus; it has {counted(len(dataset.queries), 'query', 'queries')}"
            )
    return dataset.queries.only(query_ids)


def _judgements(dataset: Dataset, queries: Queries, split: str | None) -> Qrels | None:
    """Return judgements of queries: those of a split, else those of any split; None if there are none."""
    if split:
        return dataset.qrels[split]
    splits = dataset.qrels.values()
    query_grades = {q: grades for qrels in splits for q, grades in qrels.grades.items() if q in queries.position}
    if not query_grades:
        return None
    # Free texts can share an id with a judged query, so the texts are compared too.
    if queries.digest != dataset.queries.only(queries.ids).digest:
        return None
    # All splits were read with the same options: the grade that counts as relevant, and the kind of judgements.
    return replace(next(iter(splits)), grades=query_grades)


def passed_flags(flag_texts: Mapping[str, str | None]) -> dict[str, str | None]:
    """Return the texts of the decoder's flags that were typed, without those left at defaults."""
    source_of = click.get_current_context().get_parameter_source
    return {name: flag_text for name, flag_text in flag_texts.items() if source_of(name) is not ParameterSource.DEFAULT}


def decoder_from_flags(flags: Mapping[str, str | None], base_decoder: Decoder | None = None) -> Decoder:
    """Build the decoder that the passed flags describe. Raises UsageError.

    base_decoder: a checkpoint's decoder, which supplies what the flags leave open; None for the usual methods.
    """
    stage_methods: dict[str, Any] = {}
    passed_texts = {key: flag_text for key, flag_text in flags.items() if flag_text is not None}
    for stage, kind, flag_prefix in STAGES:
        # A parameter's flag arrives under the name stage__parameter.
        prefix = f"{stage}__"
        param_texts = {key.removeprefix(prefix): v for key, v in passed_texts.items() if key.startswith(prefix)}
        base_stage = None if base_decoder is None else getattr(base_decoder, stage)
        method_name = flags.get(stage) or (DEFAULT_METHODS[stage] if base_stage is None else base_stage.spec.name)
        if method_name is None:
            if param_texts:
                raise click.UsageError(f"--{stage} is not given, so {', '.join(param_texts)} has nothing to act on")
            stage_methods[stage] = None
            continue
        method_params = spec_of(method_name, kind).params
        # A parameter of another method is an error, which names the method that has it.
        for name in param_texts:
            if name not in read_column(method_params, "name"):
                owners = [spec.name for spec in registered(kind).values() if name in read_column(spec.params, "name")]
                flag_name = f"--{flag_prefix}{name.replace('_', '-')}"
                raise click.UsageError(f"{flag_name} is of {', '.join(owners)}; add --{stage} {owners[0]}")
        # A checkpoint's parameter values apply only as long as the flags name the method that it was trained with.
        is_base_method = base_stage is not None and base_stage.spec.name == method_name
        base_values = values_of(base_stage) if is_base_method else {}
        param_values = base_values | parse_values(method_params, param_texts, method_name)
        stage_methods[stage] = make(method_name, **param_values)
    depth_text = flags.get("depth")
    default_depth = DEPTH.default if base_decoder is None else base_decoder.depth
    return Decoder(**stage_methods, depth=default_depth if depth_text is None else DEPTH.parse(depth_text))


def _echo_trained_decoder(decoder: Decoder, passed_texts: Mapping[str, str | None]) -> None:
    """Print on stderr that the checkpoint decided parts of the search that no flag named."""
    # Some flags make sense only beside what the checkpoint supplies: without it they are an error.
    try:
        flag_decoder = decoder_from_flags(passed_texts)
    except click.UsageError:
        flag_decoder = None
    if not passed_texts:
        echo(f"searched as the checkpoint was trained for: {decoder.label}", err=True)
    elif decoder != flag_decoder:
        echo(f"what no flag says is the checkpoint's: {decoder.label}", err=True)


def _decode_all(
    decoder: Decoder, space: Space | Elsewhere, vectors: Any, k: int, with_relevance: bool
) -> tuple[Ranking, torch.Tensor | None]:
    """Decode queries; return their rankings and, if wanted, the relevance of the picks as the selector used it.

    The relevance is (B, k), NaN where it is not known, and None where it is the inner product of document and query.
    """
    if isinstance(space, Elsewhere):
        ranking = engine.decode(decoder, space, vectors, k=k)
        # Scores of a reranker are not kept beside the documents that an engine returned.
        return ranking, None if decoder.rerank is None else torch.full(ranking.index.shape, torch.nan)
    if not with_relevance:
        return engine.decode(decoder, space, vectors, k=k), None
    rankings, relevance_rows = [], []
    for query_index in range(len(vectors)):
        is_text = isinstance(vectors, Queries)
        query = vectors.only([vectors.ids[query_index]]) if is_text else vectors.take([query_index])
        # The scores serve both, as a reranker may take long.
        scored = score_candidates(decoder, space, query)
        ranking = select_from(decoder.select, scored, k)
        rankings.append(ranking)
        seen = compute_relevance(decoder.select, scored)
        if seen is not None:
            scores, index = seen.score.to(ranking.index.device), ranking.index
            relevance_rows.append(torch.where(index >= 0, scores[index.clamp_min(0)], 0.0))
    return Ranking.joined(rankings), torch.cat(relevance_rows) if relevance_rows else None


def build_entries(
    space: Space | Elsewhere, queries: Queries, vectors: Any, ranking: Ranking, relevance: torch.Tensor | None
) -> list[dict[str, Any]]:
    """Return each query with its ranked documents as plain values, for JSON or a table.

    space: local, or a collection in a vector engine; vectors: of the queries, or `queries` itself if nothing embeds
    them; ranking: the decoder's answers; relevance: of its picks, (B, k), None for inner products.
    """
    # A collection in a vector engine is replaced by a local space of the documents that it returned.
    space = resolve_local_space(space)
    # Texts that nothing embeds have no inner products with documents.
    no_products = torch.full((1, 1), torch.nan).expand(len(ranking), len(space)) if vectors is queries else None
    trace = engine.trace(ranking, space, vectors, no_products)
    if relevance is not None:
        trace = replace(trace, relevance=relevance)
    doc_ids, passages = space.corpus.ids, space.corpus.passages
    entries = []
    for query_index, (query_id, query_text) in enumerate(zip(queries.ids, queries.texts, strict=True)):
        documents = []
        for pick in trace.rows(query_index):
            document = {
                "rank": pick["rank"],
                "id": doc_ids[pick["row"]],
                "gain": pick["score"],
                "relevance": pick["relevance"],
                "cosine": pick["cosine"],
                "nearest": None if pick["nearest"] is None else doc_ids[pick["nearest"]],
                "similarity": pick["similarity"],
                "text": passages[pick["row"]],
            }
            documents.append(document)
        info = dict(ranking.info[query_index])
        entries.append({"id": query_id, "query": query_text, "documents": documents, "info": info})
    return entries


def echo_entry(query_entry: Mapping[str, Any], with_trace: bool) -> None:
    """Print a query's documents as a table, and a sentence on how certain the answer is.

    query_entry: as `build_entries` makes it; with_trace: also print each document's relevance as the selector used it,
    its cosine with the query, and the document chosen before that is most similar to it.
    """
    echo(f"\n{one_line(query_entry['query'], 100)}", bold=True)
    table_rows: list[tuple[str, ...]] = []
    if with_trace:
        table_rows.append(("#", "score", "relevance", "cosine", "nearest chosen", "", ""))
    for document in query_entry["documents"]:
        nearest = f"{document['similarity']:.4f} {one_line(document['nearest'], 40)}" if document["nearest"] else "–"
        numbers = [document["relevance"], document["cosine"]]
        number_texts = ("–" if number is None else f"{number:.4f}" for number in numbers)
        trace_cells = (*number_texts, nearest) if with_trace else ()
        text_cells = one_line(document["id"], 60), one_line(document["text"], 80)
        table_rows.append((str(document["rank"]), f"{document['gain']:.4f}", *trace_cells, *text_cells))
    if table_rows:
        echo(format_columns(table_rows, "rrrrlll" if with_trace else "rrll"))
    if trust_sentence := describe_trust(query_entry["info"]):
        echo(f"     {trust_sentence}")


def _apply_export(source: CorpusOptions, use: ExportContext) -> CorpusOptions:
    """Return the options of corpus and encoder, with those of an exported decoder where no flag was typed."""
    option_source = click.get_current_context().get_parameter_source
    export_options = {name: getattr(use, name) for name in ("corpus", "encoder", "trained", "dtype")}
    # The exported corpus brings its reading options with it; another corpus may have other columns.
    if option_source("corpus") is ParameterSource.DEFAULT:
        export_options |= use.reading or {}
        export_options |= {name: getattr(use, name) for name in DUPLICATE_FIELDS}
    exported = {name: value for name, value in export_options.items() if value is not None}
    return replace(source, **{n: v for n, v in exported.items() if option_source(n) is ParameterSource.DEFAULT})


def answer(setting: str, source: CorpusOptions, k: str | None, host: str, port: int) -> None:
    """Serve a decoder over HTTP: load its corpus, embed it, and answer requests until it is stopped.

    setting: the JSON file that a decoder was exported to, which also names corpus, encoder and k; k: number of
    documents per query as text, None for the exported one. Raises FrontierError without the server's packages.
    """
    # The server's packages are an optional extra.
    try:
        import uvicorn

        from engine.integrations.connections import BoundedProtocol, raise_handle_limit
    except ImportError:
        raise FrontierError("frontier answer needs Starlette and uvicorn: pip install starlette uvicorn") from None
    use_threads()
    decoder, use = read_setting(setting)
    if use is not None:
        source = _apply_export(source, use)
    exported_size = 10 if use is None else use.k
    set_size = exported_size if k is None else SET_SIZE.parse(k)
    with Meter() as meter:
        dataset = source.load(meter, () if decoder.source is None else (decoder.source,))
        space = embed_corpus(dataset, source, progress=meter)
        prepare_decoder(decoder, space)
        # Everything is embedded before the port opens: the first request waits for nothing.
        service = Service(decoder, space, set_size)
    echo(f"{decoder.label}: {counted(len(space), 'document')}, k = {set_size}", err=True)
    raise_handle_limit()
    end = EndBySignal(partial(echo, err=True), service.is_at_work, service.wait_for_end)
    app = build_app(service, host, end.install)
    uvicorn.run(app, host=host, port=port, log_level="info", access_log=False, http=BoundedProtocol)
