"""Simulated feedback: declared flags, the data that a simulation runs on, and `orag search` for rate and batch size."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Event
from typing import Any

import click

from engine.cli.group import Meter, stop_on_interrupt, use_threads
from engine.cli.inputs import CorpusOptions, check_splits, embed_corpus, embed_queries, make_stages
from engine.cli.options import declared_flags, flag_values
from engine.cli.output import echo_json, echo_lines
from engine.data.degrade import SHORTENED_WORDS, shorten_documents
from engine.data.plans import QUESTIONS_FILE, expand_plans
from engine.feedback import Preset
from engine.params import Param, params_of
from engine.progress import counted
from engine.simulation import search as core
from engine.simulation.feedback_model import Stream
from engine.simulation.search import format_setting
from engine.simulation.simulate import Plan
from engine.simulation.variants import N_CANDIDATES, N_UPDATES, NEWCOMER_START, RERANKERS
from engine.space import Space
from engine.values import Embeddings, Qrels


def parse_declared(_ctx: click.Context, parameter: click.Parameter, text: str | None) -> Any:
    """The value of an option that is a declared parameter of simulations. Raises ParamError."""
    declared: dict[str | None, Any] = {"candidates": N_CANDIDATES, "newcomers": NEWCOMER_START, "updates": N_UPDATES}
    param = declared[parameter.name]
    return param.parse(text) if text is not None else param.default if param is NEWCOMER_START else None


def parse_reranker(_ctx: click.Context, _parameter: click.Parameter, text: str | None) -> Any:
    """A reranker's name, or the scorer that an option's text names."""
    return text if text is None or text in RERANKERS else make_stages((text,), "rerank")[0]


def _declared() -> dict[str, Sequence[Param]]:
    """The declared parameters of a simulation, by what they are of."""
    return {
        "preset": params_of(Preset),
        "stream": params_of(Stream),
        "plan": params_of(Plan),
        "corpus": (SHORTENED_WORDS,),
    }


def simulation_flags() -> list[click.Option]:
    """A flag a declared parameter of a simulation."""

    def describe(param: Param) -> str:
        symbol = "" if param.symbol == param.name else f"{param.symbol}, "
        source = f" ({param.source})" if param.source else ""
        return f"{param.help} {symbol}{param.domain}, default {param.text(param.default)}{source}."

    return [flag for kind, params in _declared().items() for flag in declared_flags(params, f"{kind}__", describe)]


def declared_values(texts: Mapping[str, str | None]) -> dict[str, Any]:
    """What these flags say: preset, a mapping; stream and plan, themselves; corpus, a mapping. Raises ParamError."""
    values = {kind: flag_values(texts, f"{kind}__", params, kind) for kind, params in _declared().items()}
    return {**values, "stream": Stream(**values["stream"]), "plan": Plan(**values["plan"])}


@dataclass(frozen=True, eq=False, kw_only=True)
class StreamData:
    """Data of a simulation.

    space: of the corpus.
    queries: of the stream and of the split that is only measured.
    stream, held_out: their judgements.
    hops: of each question, None without.
    """

    space: Space
    queries: Embeddings
    stream: Qrels
    held_out: Qrels | None
    hops: Mapping[str, Sequence[str]] | None


@dataclass(frozen=True, kw_only=True)
class StreamOptions(CorpusOptions):
    """A stream of judged queries, how what is learnt is set, and how a simulated deployment shows documents."""

    preset: str
    split: str | None  # whose judged queries are the stream, None for the largest
    test: str | None  # the split that is only measured, None for a share of the stream
    reranker: Any
    candidates: int | None
    arrivals: tuple[tuple[float, int], ...]  # (share of the documents, the round after which they come)
    newcomers: str
    hops: bool  # whether questions come by the steps of their plans
    updates: int | None
    rates: tuple[float, ...] | None = None  # what `orag search` tries
    batches: tuple[int, ...] | None = None

    @property
    def variant(self) -> dict[str, Any]:
        """The arguments of `simulate` on how documents are shown, but for the hops."""
        return {name: getattr(self, name) for name in ("reranker", "candidates", "arrivals", "newcomers", "updates")}

    def load_stream(self, words: int | None, meter: Meter, stop: Event) -> StreamData:
        """The data of a simulation. words: to which documents are cut. Raises UsageError or DataError."""
        dataset = self.load(meter)
        if not dataset.qrels:
            why = "; ".join(("", *getattr(dataset.qrels, "refusals", {}).values()))
            raise click.UsageError(f"{self.corpus} has no judged queries, and a simulation learns from them{why}")
        split = self.split or max(dataset.qrels, key=lambda name: len(dataset.qrels[name]))
        check_splits(dataset.qrels, (split, self.test))
        hops = None
        if self.hops:
            found = expand_plans(dataset, self.qrels if (Path(self.qrels) / QUESTIONS_FILE).is_file() else self.corpus)
            dataset, hops = found.dataset, found.hops
        if words is not None:
            dataset = replace(dataset, corpus=shorten_documents(dataset.corpus, words), vectors=None)
        report: dict[str, Any] = {"progress": meter, "stop": stop}
        space = embed_corpus(dataset, self, **report)
        names = {query for name in (split, self.test) if name for query in dataset.qrels[name].grades}
        queries = embed_queries(space, dataset.queries.only(names), **report)
        held_out = dataset.qrels[self.test] if self.test else None
        return StreamData(space=space, queries=queries, stream=dataset.qrels[split], held_out=held_out, hops=hops)


def search(stream: StreamOptions, k: int, as_json: bool, **texts: str | None) -> None:
    use_threads()
    values = declared_values(texts)
    for name, given in (("rate", stream.rates), ("batch", stream.batches)):
        if name in values["preset"] and given is not None:
            raise click.UsageError(f"--{name} and --{'rates' if name == 'rate' else 'batches'} both say what is tried")
    tried: dict[str, Any] = {
        "rates": stream.rates or ((values["preset"].pop("rate"),) if "rate" in values["preset"] else core.SEARCH_RATES),
        "batches": stream.batches
        or ((values["preset"].pop("batch"),) if "batch" in values["preset"] else core.SEARCH_BATCHES),
    }
    with Meter() as meter, stop_on_interrupt() as stop:
        task = stream.load_stream(values["corpus"].get("words"), meter, stop)
        table = [] if as_json else [f"{'η₀':>8}  {'batch':>5}  {'updates':>7}  nDCG@{k}   gain"]

        def seen(s: Any) -> None:
            row = f"{s.rate:>8.0e}  {s.batch:>5}  {s.updates:>7,}  {s.after:.4f}  {s.gain:>+.4f}"
            for line in (*table, row) if not as_json else ():
                meter.echo(line)
            table.clear()

        found = core.search(
            task.space, task.queries, task.stream, preset=stream.preset, stream=values["stream"], plan=values["plan"],
            held_out=task.held_out, hops=task.hops, k=k, progress=meter, stop=stop, seen=seen, **tried,
            **stream.variant, **values["preset"],
        )  # fmt: skip
    if as_json:
        echo_json(_json(found), allow_nan=False)
    else:
        echo_lines(_lines(found, k))


def _lines(found: Any, k: int) -> Iterator[str]:
    """The choice, and what it reached on the second half."""
    best, confirmed = found.best, found.confirmed
    yield ""
    yield f"Best on the first half, by {found.part} queries: {format_setting(best)}, nDCG@{k} {best.gain:+.4f}"
    if found.is_at_end:
        yield "  the best rate is at the end of those tried: a better one may lie beyond (--rates)"
    rounds = len(confirmed.trail)
    yield f"On the second half, {counted(rounds, 'round')} from the start, batch {best.batch}:"
    for part in ("held-out", "stream"):
        if (reached := found.find_outcome(part)) is not None:
            before, after = reached
            queries = counted(confirmed.checkpoints[-1].cell(part=part).queries, f"{part} query", f"{part} queries")
            yield f"  {queries}: {before:.4f} → {after:.4f} ({after - before:+.4f})"


def _json(found: Any) -> dict[str, Any]:
    """A search as plain JSON values."""
    reached = {part: found.find_outcome(part) for part in ("held-out", "stream")}
    return {
        "settings": [vars(setting) | {"gain": setting.gain} for setting in found.settings],
        "chosen_by": found.part,
        "best": vars(found.best),
        "at_the_end": found.is_at_end,
        "second_half": {
            "rounds": len(found.confirmed.trail),
            **{part: {"before": pair[0], "after": pair[1]} for part, pair in reached.items() if pair is not None},
        },
    }
