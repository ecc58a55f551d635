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
from engine.cli.output import aligned, echo, echo_json, echo_notices, nan_to_none, one_line
from engine.data.encoders import shipped_notices
from engine.decoder import DEPTH, SET_SIZE, Decoder, score_candidates
from engine.errors import FrontierError
from engine.evaluation.export import read_setting
from engine.evaluation.metrics import METRICS, available_metrics
from engine.evaluation.sweep.compute import measure_latency, prepare_decoder
from engine.integrations.server import Service, app
from engine.params import parse_values, values_of
from engine.progress import counted
from engine.space import Elsewhere, Space, resolve_local_space
from engine.stages import make, spec_of
from engine.stages import methods as registered
from engine.values import Corpus, Dataset, Qrels, Queries
from engine.views.decision import describe_trust
from engine.views.methods import method_columns, method_table

SECONDS = 0.5
"""What timing an answer may take."""
DEFAULTS = {"select": "top_k", "retrieve": "dense", "rerank": None}


def methods(as_json: bool) -> None:
    if as_json:
        echo_json(method_columns(), indent=2)
    else:
        echo(method_table())


def embed(source: CorpusOptions, queries: bool) -> None:
    use_threads()
    with Meter() as meter:
        dataset = source.load(meter)
        wanted: list[Corpus | Queries] = [dataset.corpus]
        if queries and len(dataset.queries):
            wanted.append(dataset.queries)
        for texts in wanted:
            vectors = engine.embed(
                texts, encoder=source.encoder, dtype=source.dtype, device=source.device, progress=meter
            )
            ref = vectors.encoder
            meter.echo(
                f"{len(vectors):,} vectors of {vectors.dimension} dimensions, {ref.name} in {ref.dtype}, "
                f"fingerprint {vectors.digest[:12]}"
            )
            echo_notices(shipped_notices(texts, vectors))


def stage_flags() -> list[click.Option]:
    """A flag for each stage, for each parameter of its methods, and for the depth."""
    flags = []
    for stage, kind, prefix in STAGES:
        specs, default = registered(kind), DEFAULTS[stage]
        named, text = click.Choice(list(specs)), f"The {kind} that {stage}s."
        flags.append(
            click.Option([f"--{stage}"], type=named, default=default, show_default=default is not None, help=text)
        )
        owners: dict[str, list[Any]] = {}
        for spec in specs.values():
            for param in spec.params:
                owners.setdefault(param.name, []).append((spec, param))
        for name, declared in owners.items():
            text = "; ".join(
                f"{spec.name}: {p.symbol}, {p.domain}, default {p.text(p.default)}. {p.help}" for spec, p in declared
            )
            flags.append(value_flag(f"--{prefix}{declared[0][1].flag[2:]}", f"{stage}__{name}", text))
    return [*flags, value_flag(DEPTH.flag, "depth", f"{DEPTH.help} Default: {DEPTH.unset}.")]


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
    use_threads()
    flags = passed_flags(stage_texts)
    # Wrong flags are refused before anything is embedded, where no checkpoint has a say in them.
    decoder = decoder_from_flags(flags) if source.trained is None else None
    if sum(map(bool, (texts, query_ids, split))) != 1:
        raise click.UsageError("give one of --query, --query-id or --split")
    if any(not text.strip() for text in texts):
        raise click.UsageError("--query is empty")
    with Meter() as meter:
        dataset = source.load(meter)
        queries = _queries(dataset, texts, query_ids, split)
        space, trained_decoder = space_and_decoder(dataset, source, progress=meter)
        if decoder is None:
            decoder = decoder_from_flags(flags, trained_decoder)
            meter.clear()
            _echo_trained_decoder(decoder, flags)
        vectors = queries if space.encoder is None else engine.embed_queries(space, texts or queries, progress=meter)
        if not texts:
            warn_of_leakage(space, queries, meter)
        prepare_decoder(decoder, space)
        started = time.perf_counter()
        ranking = engine.decode(decoder, space, vectors, k=k)
        single = (time.perf_counter() - started) / len(queries)
        # The first answer has made everything ready; what takes long is not asked again to be timed.
        timed = measure_latency(decoder, space, vectors, k, SECONDS) if single < SECONDS else None
    judgements = _judgements(dataset, queries, split)
    aspects = dataset.aspects if judgements else None
    names = available_metrics(judgements, aspects, vectors)
    measured = engine.measure(ranking, space, vectors, judgements, k, names, aspects)
    entries = entries_of(decoder, space, queries, vectors, ranking) if as_json or not split else []
    if as_json:
        summary = {
            "decoder": decoder.label,
            "corpus": dataset.corpus.name,
            "documents": len(dataset.corpus),
            "k": k,
            "queries": len(queries),
            "milliseconds": timed and round(timed[0], 3),
            "calls": timed and timed[1],
            "mean": nan_to_none(measured.mean),
            "left_out": measured.left_out,
        }
        return echo_json({**summary, "results": entries}, allow_nan=False)
    for entry in entries:
        echo_entry(entry, traced)
    took = f", {timed[0]:.1f} ms a query (median of {counted(timed[1], 'single call')})" if timed else ""
    counts = f"{counted(len(queries), 'query', 'queries')}, {counted(len(space), 'document')}"
    means = "  ".join(f"{METRICS[m].title}@{k} {v:.4f}" for m, v in measured.mean.items() if v == v)
    left = f"  ({measured.left_out:,} without judgements left out)" if judgements and measured.left_out else ""
    echo(f"\n{decoder.label}: {counts}{took}\n{means}{left}")


def _queries(dataset: Dataset, texts: Sequence[str], query_ids: Sequence[str], split: str | None) -> Queries:
    if texts:
        return Queries.of(texts)
    if split:
        return dataset.judged(split)
    if missing := [q for q in query_ids if q not in dataset.queries.position]:
        raise click.UsageError(f"no query {missing[0]!r} in this corpus; it has {len(dataset.queries):,} queries")
    return dataset.queries.only(query_ids)


def _judgements(dataset: Dataset, queries: Queries, split: str | None) -> Qrels | None:
    """The split's judgements, or those of any split of these queries; None where there are none."""
    if split:
        return dataset.qrels[split]
    splits = dataset.qrels.values()
    grades = {q: of_query for qrels in splits for q, of_query in qrels.grades.items() if q in queries.position}
    return Qrels(grades) if grades and queries.digest == dataset.queries.only(queries.ids).digest else None


def passed_flags(texts: Mapping[str, str | None]) -> dict[str, str | None]:
    """Return the texts of the stages' flags that were given on the command line."""
    origin = click.get_current_context().get_parameter_source
    return {name: text for name, text in texts.items() if origin(name) is not ParameterSource.DEFAULT}


def decoder_from_flags(flags: Mapping[str, str | None], base: Decoder | None = None) -> Decoder:
    """The decoder of the flags that were passed; base: that of a checkpoint, which fills in what they leave open."""
    stages: dict[str, Any] = {}
    for stage, kind, prefix in STAGES:
        texts = {key.split("__", 1)[1]: v for key, v in flags.items() if key.startswith(f"{stage}__") and v is not None}
        default = None if base is None else getattr(base, stage)
        name = flags.get(stage) or (DEFAULTS[stage] if default is None else default.spec.name)
        if name is None:
            if texts:
                raise click.UsageError(f"--{stage} is not given, so {', '.join(texts)} has nothing to act on")
            stages[stage] = None
            continue
        params = spec_of(name, kind).params
        for text in texts:
            owners = [s.name for s in registered(kind).values() if text in {p.name for p in s.params}]
            if text not in {p.name for p in params}:
                flag = f"--{prefix}{text.replace('_', '-')}"
                raise click.UsageError(f"{flag} is of {', '.join(owners)}; add --{stage} {owners[0]}")
        values = values_of(default) if default is not None and default.spec.name == name else {}
        stages[stage] = make(name, **(values | parse_values(params, texts, name)))
    depth = flags.get("depth")
    unset = DEPTH.default if base is None else base.depth
    return Decoder(**stages, depth=unset if depth is None else DEPTH.parse(depth))


def _echo_trained_decoder(decoder: Decoder, flags: Mapping[str, str | None]) -> None:
    """Say on stderr where a checkpoint decides how it is searched."""
    try:
        plain = decoder_from_flags(flags)
    except click.UsageError:
        plain = None
    if not flags:
        echo(f"searched as the checkpoint was trained for: {decoder.label}", err=True)
    elif decoder != plain:
        echo(f"what no flag says is the checkpoint's: {decoder.label}", err=True)


def entries_of(
    decoder: Decoder, space: Space | Elsewhere, queries: Queries, vectors: Any, ranking: Any
) -> list[dict[str, Any]]:
    """Each query with its documents."""
    space = resolve_local_space(space)
    # Texts that nothing embeds have no inner products: there the relevance is the first scorer's.
    worded = (
        None if vectors is not queries else [score_candidates(decoder, space, queries.only([q])) for q in queries.ids]
    )
    relevance = None if worded is None else torch.stack([each.retrieved for each in worded])
    trace = engine.trace(ranking, space, vectors, relevance)
    ids, texts = space.corpus.ids, space.corpus.passages
    return [
        {
            "id": queries.ids[i],
            "query": queries.texts[i],
            "documents": [
                {
                    "rank": pick["rank"],
                    "id": ids[pick["row"]],
                    "gain": pick["score"],
                    "relevance": pick["relevance"],
                    "nearest": None if pick["nearest"] is None else ids[pick["nearest"]],
                    "similarity": pick["similarity"],
                    "text": texts[pick["row"]],
                }
                for pick in trace.rows(i)
            ],
            "info": dict(ranking.info[i]),
        }
        for i in range(len(queries))
    ]


def echo_entry(entry: Mapping[str, Any], traced: bool) -> None:
    """Print a query's documents and what its answer is certain of."""
    echo(f"\n{one_line(entry['query'], 100)}", bold=True)
    rows = [("#", "score", "relevance", "nearest chosen", "", "")] if traced else []
    for document in entry["documents"]:
        near = f"{document['similarity']:.4f} {one_line(document['nearest'], 40)}" if document["nearest"] else "–"
        more = (f"{document['relevance']:.4f}", near) if traced else ()
        texts = one_line(document["id"], 60), one_line(document["text"], 80)
        rows.append((str(document["rank"]), f"{document['gain']:.4f}", *more, *texts))
    if rows:
        echo(aligned(rows, "rrrlll" if traced else "rrll"))
    if sentence := describe_trust(entry["info"]):
        echo(f"     {sentence}")


def answer(setting: str, source: CorpusOptions, k: str | None, host: str, port: int) -> None:
    try:
        import uvicorn
    except ImportError:
        raise FrontierError("frontier answer needs Starlette and uvicorn: pip install starlette uvicorn") from None
    use_threads()
    decoder, use = read_setting(setting)
    origin = click.get_current_context().get_parameter_source
    if use is not None:
        named = {name: getattr(use, name) for name in ("corpus", "encoder", "trained", "dtype")}
        if origin("corpus") is ParameterSource.DEFAULT:
            named |= use.reading or {}
        left = {n: value for n, value in named.items() if value is not None and origin(n) is ParameterSource.DEFAULT}
        source = replace(source, **left)
    size = SET_SIZE.parse(k) if k is not None else 10 if use is None else use.k
    with Meter() as meter:
        dataset = source.load(meter)
        space = embed_corpus(dataset, source, progress=meter)
        prepare_decoder(decoder, space)
        service = Service(decoder, space, size)
    echo(f"{decoder.label}: {len(space):,} documents, k = {size}", err=True)
    uvicorn.run(app(service, host), host=host, port=port, log_level="info", access_log=False)
