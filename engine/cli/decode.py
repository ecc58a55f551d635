"""Commands on one decoder: `methods`, `embed`, `decode` and `answer`, which serves one over HTTP."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import click
import torch
from click.core import ParameterSource

import engine
from engine.cli.group import Meter, use_threads
from engine.cli.inputs import STAGES, CorpusOptions, embed_corpus, space_and_decoder, warn_of_leakage
from engine.cli.options import value_flag
from engine.cli.output import echo, echo_json, echo_notices, format_columns, nan_to_none, one_line, read_column
from engine.data.encoders import shipped_notices
from engine.decoder import DEPTH, SET_SIZE, Decoder, score_candidates
from engine.errors import FrontierError
from engine.evaluation.export_decoder import read_setting
from engine.evaluation.metrics import METRICS, available_metrics
from engine.evaluation.sweep.compute import measure_latency, prepare_decoder
from engine.integrations.server import Service, build_app
from engine.params import parse_values, values_of
from engine.progress import counted
from engine.space import Elsewhere, Space, resolve_local_space
from engine.stages import make, spec_of
from engine.stages import methods as registered
from engine.values import Corpus, Dataset, Qrels, Queries
from engine.views.decision import describe_trust
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
                f"{len(vectors):,} vectors of {vectors.dimension} dimensions, {ref.name} in {ref.dtype}, "
                f"fingerprint {vectors.digest[:12]}"
            )
            echo_notices(shipped_notices(text_set, vectors))


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
            # The parameter's own flag begins with --, which the prefix of the stage replaces.
            flag_options.append(value_flag(f"--{prefix}{declared[0][1].flag[2:]}", f"{stage}__{param_name}", help_text))
    return [*flag_options, value_flag(DEPTH.flag, "depth", f"{DEPTH.help} Default: {DEPTH.unset}.")]


def decode(
    source: CorpusOptions,
    texts: tuple[str, ...],
    query_ids: tuple[str, ...],
    split: str | None,
    k: int,
    as_json: bool,
    traced: bool,
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
    **stage_texts : str or None
        The flags of the decoder's stages as texts.
    """
    use_threads()
    passed_texts = passed_flags(stage_texts)
    # Wrong flags are refused before anything is embedded, where no checkpoint has a say in them.
    decoder = decoder_from_flags(passed_texts) if source.trained is None else None
    if sum(map(bool, (texts, query_ids, split))) != 1:
        raise click.UsageError("give one of --query, --query-id or --split")
    if not all(map(str.strip, texts)):
        raise click.UsageError("--query is empty")
    with Meter() as meter:
        dataset = source.load(meter)
        queries = _queries(dataset, texts, query_ids, split)
        space, trained_decoder = space_and_decoder(dataset, source, progress=meter)
        if decoder is None:
            decoder = decoder_from_flags(passed_texts, trained_decoder)
            meter.clear()
            _echo_trained_decoder(decoder, passed_texts)
        vectors = queries if space.encoder is None else engine.embed_queries(space, texts or queries, progress=meter)
        if not texts:
            warn_of_leakage(space, queries, meter)
        prepare_decoder(decoder, space)
        start_time = time.perf_counter()
        ranking = engine.decode(decoder, space, vectors, k=k)
        first_seconds = (time.perf_counter() - start_time) / len(queries)
        # The first answer has made everything ready; what takes long is not asked again to be timed.
        timing = measure_latency(decoder, space, vectors, k, TIMING_SECONDS) if first_seconds < TIMING_SECONDS else None
    judgements = _judgements(dataset, queries, split)
    # Aspects are judgements too: without judged queries there is nothing to measure them on.
    aspects = dataset.aspects if judgements else None
    metric_names = available_metrics(judgements, aspects, vectors)
    measured = engine.measure(ranking, space, vectors, judgements, k, metric_names, aspects)
    entries = build_entries(decoder, space, queries, vectors, ranking) if as_json or not split else []
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
    timing_text = f", {timing[0]:.1f} ms a query (median of {counted(timing[1], 'single call')})" if timing else ""
    counts_text = f"{counted(len(queries), 'query', 'queries')}, {counted(len(space), 'document')}"
    # An undefined mean is NaN, which differs from itself, and is left out.
    means = "  ".join(f"{METRICS[m].title}@{k} {value:.4f}" for m, value in measured.mean.items() if value == value)
    skipped = f"  ({measured.left_out:,} without judgements left out)" if judgements and measured.left_out else ""
    echo(f"\n{decoder.label}: {counts_text}{timing_text}\n{means}{skipped}")


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
            raise click.UsageError(f"no query {query_id!r} in this corpus; it has {len(dataset.queries):,} queries")
    return dataset.queries.only(query_ids)


def _judgements(dataset: Dataset, queries: Queries, split: str | None) -> Qrels | None:
    """Return judgements of queries: those of a split, else those of any split; None if there are none."""
    if split:
        return dataset.qrels[split]
    splits = dataset.qrels.values()
    query_grades = {q: grades for qrels in splits for q, grades in qrels.grades.items() if q in queries.position}
    # Free texts can share an id with a judged query, so the texts are compared too.
    # The lowest grade that counts as relevant, the same for all splits.
    level = next((qrels.relevant_from for qrels in splits), 1)
    return (
        Qrels(query_grades, level)
        if query_grades and queries.digest == dataset.queries.only(queries.ids).digest
        else None
    )


def passed_flags(flag_texts: Mapping[str, str | None]) -> dict[str, str | None]:
    """Return the texts of the decoder's flags that were typed, without those left at defaults."""
    origin = click.get_current_context().get_parameter_source
    return {name: flag_text for name, flag_text in flag_texts.items() if origin(name) is not ParameterSource.DEFAULT}


def decoder_from_flags(flags: Mapping[str, str | None], base_decoder: Decoder | None = None) -> Decoder:
    """Build the decoder that the passed flags describe. Raises UsageError.

    base_decoder: a checkpoint's decoder, which supplies what the flags leave open; None for the usual methods.
    """
    stage_methods: dict[str, Any] = {}
    for stage, kind, flag_prefix in STAGES:
        # A parameter's flag arrives under the name stage__parameter.
        texts = {key.split("__", 1)[1]: v for key, v in flags.items() if key.startswith(f"{stage}__") and v is not None}
        base_stage = None if base_decoder is None else getattr(base_decoder, stage)
        method_name = flags.get(stage) or (DEFAULT_METHODS[stage] if base_stage is None else base_stage.spec.name)
        if method_name is None:
            if texts:
                raise click.UsageError(f"--{stage} is not given, so {', '.join(texts)} has nothing to act on")
            stage_methods[stage] = None
            continue
        method_params = spec_of(method_name, kind).params
        # A parameter of another method is an error, which names the method that has it.
        for text in texts:
            if text not in read_column(method_params, "name"):
                owners = [spec.name for spec in registered(kind).values() if text in read_column(spec.params, "name")]
                flag_name = f"--{flag_prefix}{text.replace('_', '-')}"
                raise click.UsageError(f"{flag_name} is of {', '.join(owners)}; add --{stage} {owners[0]}")
        # A checkpoint's parameter values apply only as long as the flags name the method that it was trained with.
        param_values = values_of(base_stage) if base_stage is not None and base_stage.spec.name == method_name else {}
        stage_methods[stage] = make(method_name, **(param_values | parse_values(method_params, texts, method_name)))
    depth_text = flags.get("depth")
    unset_depth = DEPTH.default if base_decoder is None else base_decoder.depth
    return Decoder(**stage_methods, depth=unset_depth if depth_text is None else DEPTH.parse(depth_text))


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


def build_entries(
    decoder: Decoder, space: Space | Elsewhere, queries: Queries, vectors: Any, ranking: Any
) -> list[dict[str, Any]]:
    """Return each query with its ranked documents as plain values, for JSON or a table.

    space: local, or a collection in a vector engine; vectors: of the queries, or `queries` itself if nothing embeds
    them; ranking: the decoder's answers.
    """
    # A collection in a vector engine is replaced by a local space of the documents that it returned.
    space = resolve_local_space(space)
    # Texts that nothing embeds have no inner products: there the relevance is the first scorer's.
    relevance = None
    if vectors is queries:
        relevance = torch.stack([score_candidates(decoder, space, queries.only([q])).retrieved for q in queries.ids])
    trace = engine.trace(ranking, space, vectors, relevance)
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

    query_entry: as `build_entries` makes it; with_trace: also print each document's relevance, and the document chosen
    before that is most similar to it.
    """
    echo(f"\n{one_line(query_entry['query'], 100)}", bold=True)
    table_rows = [("#", "score", "relevance", "nearest chosen", "", "")] if with_trace else []
    for document in query_entry["documents"]:
        nearest = f"{document['similarity']:.4f} {one_line(document['nearest'], 40)}" if document["nearest"] else "–"
        trace_cells = (f"{document['relevance']:.4f}", nearest) if with_trace else ()
        text_cells = one_line(document["id"], 60), one_line(document["text"], 80)
        table_rows.append((str(document["rank"]), f"{document['gain']:.4f}", *trace_cells, *text_cells))
    if table_rows:
        echo(format_columns(table_rows, "rrrlll" if with_trace else "rrll"))
    if trust_sentence := describe_trust(query_entry["info"]):
        echo(f"     {trust_sentence}")


def answer(setting: str, source: CorpusOptions, k: str | None, host: str, port: int) -> None:
    """Serve a decoder over HTTP: load its corpus, embed it, and answer requests until it is stopped.

    setting: the JSON file that a decoder was exported to, which also names corpus, encoder and k; k: number of
    documents per query as text, None for the exported one. Raises FrontierError without the server's packages.
    """
    # The server's packages are an optional extra.
    try:
        import uvicorn
    except ImportError:
        raise FrontierError("frontier answer needs Starlette and uvicorn: pip install starlette uvicorn") from None
    use_threads()
    decoder, use = read_setting(setting)
    origin = click.get_current_context().get_parameter_source
    if use is not None:
        named = {option_name: getattr(use, option_name) for option_name in ("corpus", "encoder", "trained", "dtype")}
        # The corpus of the exported file brings its reading options with it; another corpus may have other columns.
        if origin("corpus") is ParameterSource.DEFAULT:
            named |= use.reading or {}
        # A flag that was typed wins over the exported file.
        options = {n: value for n, value in named.items() if value is not None and origin(n) is ParameterSource.DEFAULT}
        source = replace(source, **options)
    set_size = SET_SIZE.parse(k) if k is not None else 10 if use is None else use.k
    with Meter() as meter:
        dataset = source.load(meter)
        space = embed_corpus(dataset, source, progress=meter)
        prepare_decoder(decoder, space)
        # Everything is embedded before the port opens: the first request waits for nothing.
        service = Service(decoder, space, set_size)
    echo(f"{decoder.label}: {len(space):,} documents, k = {set_size}", err=True)
    uvicorn.run(build_app(service, host), host=host, port=port, log_level="info", access_log=False)
