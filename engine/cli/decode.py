"""Commands `methods`, `embed` and `decode`: flags are generated from the declared parameters."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from engine.cli.encoding import ENCODER, SOURCE, CorpusOptions, space_and_decoder, warn_of_leakage
from engine.cli.group import Meter, main, use_threads
from engine.cli.options import (
    CORPUS,
    SIZE,
    STAGES,
    TABLE,
    DeclaredCommand,
    grouped,
    json_option,
    split_option,
    value_flag,
)
from engine.cli.output import echo, echo_json, echo_notices, nan_to_none, one_line
from engine.progress import counted

if TYPE_CHECKING:
    from engine.decoder import Decoder
    from engine.space import Elsewhere, Space
    from engine.values import Corpus, Dataset, Qrels, Queries

SECONDS = 0.5
"""What timing an answer may take."""
DEFAULTS = {"select": "top_k", "retrieve": "dense", "rerank": None}


@main.command()
@json_option("Machine-readable.")
def methods(as_json: bool) -> None:
    """The table of methods, their parameters and sources."""
    from engine.views import method_columns, method_table

    if as_json:
        echo_json(method_columns(), indent=2)
    else:
        echo(method_table())


@main.command()
@grouped("source", CorpusOptions, CORPUS, TABLE, ENCODER)
@click.option("--queries", is_flag=True, help="Embed the data set's queries too.")
def embed(source: CorpusOptions, queries: bool) -> None:
    """Embed a corpus into the cache; a run that was stopped goes on where it was."""
    import engine
    from engine.data.encoders import shipped_notices

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
    from engine.decoder import DEPTH
    from engine.stages import methods as registered

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


@main.command(cls=DeclaredCommand, flags=stage_flags)
@SOURCE
@click.option("--query", "texts", multiple=True, help="A query; may be given more than once.")
@click.option("--query-id", "query_ids", multiple=True, metavar="ID", help="A labelled query of the corpus.")
@split_option("All judged queries of a split; prints the means of the metrics.", default=None)
@SIZE
@json_option("One JSON object.")
@click.option("--trace", "traced", is_flag=True, help="For every pick its relevance, and the nearest already chosen.")
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
    """Retrieve a set for a query, or for every judged query of a split, and measure it."""
    import engine
    from engine.evaluation.sweep.compute import latency, make_ready

    use_threads()
    origin = click.get_current_context().get_parameter_source
    flags = {name: text for name, text in stage_texts.items() if origin(name) is not ParameterSource.DEFAULT}
    # Wrong flags are refused before anything is embedded, where no checkpoint has a say in them.
    decoder = decoder_from_flags(flags) if source.trained is None else None
    _check_queries(texts, query_ids, split)
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
        make_ready(decoder, space)
        started = time.perf_counter()
        ranking = engine.decode(decoder, space, vectors, k=k)
        single = (time.perf_counter() - started) / len(queries)
        # The first answer has made everything ready; what takes long is not asked again to be timed.
        timed = latency(decoder, space, vectors, k, SECONDS) if single < SECONDS else None
    judgements = _judgements(dataset, queries, split)
    measured = _measure(ranking, space, vectors, judgements, dataset, k)
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
        echo_json({**summary, "results": entries}, allow_nan=False)
        return
    for entry in entries:
        echo_entry(entry, traced)
    counts = f"{counted(len(queries), 'query', 'queries')}, {counted(len(space), 'document')}"
    echo(f"\n{decoder.label}: {counts}{_duration(timed)}\n{_means_line(measured, k, judgements)}")


def _duration(timed: tuple[float, int] | None) -> str:
    """The time of a query in words, "" where there is none."""
    return f", {timed[0]:.1f} ms a query (median of {counted(timed[1], 'single call')})" if timed else ""


def _check_queries(texts: Sequence[str], query_ids: Sequence[str], split: str | None) -> None:
    if sum(map(bool, (texts, query_ids, split))) != 1:
        raise click.UsageError("give one of --query, --query-id or --split")
    if any(not text.strip() for text in texts):
        raise click.UsageError("--query is empty")


def _queries(dataset: Dataset, texts: Sequence[str], query_ids: Sequence[str], split: str | None) -> Queries:
    from engine.values import Queries

    if texts:
        return Queries.of(texts)
    if split:
        return dataset.judged(split)
    if missing := [q for q in query_ids if q not in dataset.queries.position]:
        raise click.UsageError(f"no query {missing[0]!r} in this corpus; it has {len(dataset.queries):,} queries")
    return dataset.queries.only(query_ids)


def _judgements(dataset: Dataset, queries: Queries, split: str | None) -> Qrels | None:
    """The split's judgements, or those of any split of these queries; None where there are none."""
    from engine.values import Qrels

    if split:
        return dataset.qrels[split]
    splits = dataset.qrels.values()
    grades = {q: of_query for qrels in splits for q, of_query in qrels.grades.items() if q in queries.position}
    return Qrels(grades) if grades and queries.digest == dataset.queries.only(queries.ids).digest else None


def _measure(ranking: Any, space: Space, vectors: Any, judgements: Qrels | None, dataset: Dataset, k: int) -> Any:
    """Every metric that the judgements allow."""
    import engine
    from engine.evaluation.metrics import available

    aspects = dataset.aspects if judgements else None
    return engine.measure(ranking, space, vectors, judgements, k, available(judgements, aspects, vectors), aspects)


def decoder_from_flags(flags: Mapping[str, str | None], base: Decoder | None = None) -> Decoder:
    """The decoder of the flags that were passed; base: that of a checkpoint, which fills in what they leave open."""
    from engine.decoder import DEPTH, Decoder
    from engine.params import parsed, values_of
    from engine.stages import make, methods, spec_of

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
            owners = [s.name for s in methods(kind).values() if text in {p.name for p in s.params}]
            if text not in {p.name for p in params}:
                flag = f"--{prefix}{text.replace('_', '-')}"
                raise click.UsageError(f"{flag} is of {', '.join(owners)}; add --{stage} {owners[0]}")
        values = values_of(default) if default is not None and default.spec.name == name else {}
        stages[stage] = make(name, **(values | parsed(params, texts, name)))
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
    import torch

    import engine
    from engine.decoder import scored
    from engine.space import here

    space = here(space)
    # Texts that nothing embeds have no inner products: there the relevance is the first scorer's.
    worded = None if vectors is not queries else [scored(decoder, space, queries.only([q])) for q in queries.ids]
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
    from engine.views import trust

    echo(f"\n{one_line(entry['query'], 100)}", bold=True)
    if traced:
        echo("  #     score  relevance  nearest chosen")
    for document in entry["documents"]:
        score = f"{document['rank']:>3}  {document['gain']:>8.4f}"
        name, text = one_line(document["id"], 60), one_line(document["text"], 80)
        if not traced:
            echo(f"{score}  {name}  {text}")
            continue
        near = document["nearest"] or ""
        near = f"{document['similarity']:.4f} {one_line(near, 40)}" if near else "–"
        echo(f"{score}  {document['relevance']:>9.4f}  {near:<47}  {name}  {text}")
    if sentence := trust(entry["info"]):
        echo(f"     {sentence}")


def _means_line(measured: Any, k: int, judgements: Qrels | None) -> str:
    from engine.evaluation.metrics import METRICS

    means = "  ".join(f"{METRICS[m].title}@{k} {v:.4f}" for m, v in measured.mean.items() if v == v)
    left = f"  ({measured.left_out:,} without judgements left out)" if judgements and measured.left_out else ""
    return f"{means}{left}"
