"""Simulated feedback: declared flags, the data that a simulation runs on, and `orag search` for rate and batch size."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Event
from typing import Any

import click

from engine.cli.group import Meter, stop_on_interrupt, use_threads
from engine.cli.inputs import CorpusOptions, check_splits, embed_and_warn, embed_corpus, make_stages, select_judged
from engine.cli.options import declared_flags, flag_values
from engine.cli.output import echo_json, echo_lines, pick_fields
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
from engine.values import Dataset, Embeddings, Qrels


def parse_declared(_context: click.Context, parameter: click.Parameter, option_text: str | None) -> Any:
    """Parse the text of --candidates, --newcomers or --updates by its declaration. Raises ParamError."""
    declared_params = {"candidates": N_CANDIDATES, "newcomers": NEWCOMER_START, "updates": N_UPDATES}
    param: Any = declared_params[str(parameter.name)]
    if option_text is not None:
        return param.parse(option_text)
    # Without a text, newcomers have their default; None for the other two leaves them to the simulation.
    return param.default if param is NEWCOMER_START else None


def parse_reranker(_context: click.Context, _parameter: click.Parameter, option_text: str | None) -> Any:
    """Return the text of --reranker if it names a simulated one; else build the scorer it names."""
    return option_text if option_text is None or option_text in RERANKERS else make_stages((option_text,), "rerank")[0]


def _list_params() -> dict[str, Sequence[Param]]:
    """Return the declared parameters of a simulation by group; a flag's value arrives as group__parameter.

    preset: of learning from feedback; stream: of the queries that come and of their feedback; plan: of what is learnt
    from and measured; corpus: of how its documents are shortened first.
    """
    corpus_params = (SHORTENED_WORDS,)
    return {"preset": params_of(Preset), "stream": params_of(Stream), "plan": params_of(Plan), "corpus": corpus_params}


def simulation_flags() -> list[click.Option]:
    """Build a command's flag for each declared parameter of a simulation of feedback."""

    def describe(param: Param) -> str:
        """Return the help of a parameter's flag: meaning, symbol, domain, default and source."""
        symbol_text = "" if param.symbol == param.name else f"{param.symbol}, "
        source_text = f" ({param.source})" if param.source else ""
        return f"{param.help} {symbol_text}{param.domain}, default {param.text(param.default)}{source_text}."

    return [flag for kind, params in _list_params().items() for flag in declared_flags(params, f"{kind}__", describe)]


def declared_values(flag_texts: Mapping[str, str | None]) -> dict[str, Any]:
    """Parse the flags of a simulation's declared parameters, by group. Raises ParamError.

    "preset": how feedback changes the vectors; "corpus": how it is degraded first; "stream": the order of the queries
    and how reliable their feedback is; "plan": what is learnt from, and when it is measured.
    """
    param_values = {kind: flag_values(flag_texts, f"{kind}__", params, kind) for kind, params in _list_params().items()}
    return {**param_values, "stream": Stream(**param_values["stream"]), "plan": Plan(**param_values["plan"])}


@dataclass(frozen=True, eq=False, kw_only=True)
class StreamData:
    """Data of a simulation, in which feedback comes query by query: the stream.

    space: the corpus with its embeddings.
    queries: those of the stream and of the split that is only measured, embedded.
    stream, held_out: judgements of the stream, and of the split that is only measured, None without one.
    hops: ids of each question's steps, which are queries of their own; None if questions come whole.
    """

    space: Space
    queries: Embeddings
    stream: Qrels
    held_out: Qrels | None
    hops: Mapping[str, Sequence[str]] | None


@dataclass(frozen=True, kw_only=True)
class StreamOptions(CorpusOptions):
    """Options of a stream of labelled queries, of learning, and of a simulated deployment."""

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
        """Arguments of `simulate` on how documents come and are shown, except the steps of questions (hops)."""
        return pick_fields(self, "reranker", "candidates", "arrivals", "newcomers", "updates")

    def _choose_split(self, dataset: Dataset) -> str:
        """Return the split of the stream; by default the one with the most labelled queries. Raises UsageError."""
        if not dataset.qrels:
            # The empty text puts a semicolon before the first reason why a file of judgements was refused.
            refusal = "; ".join(("", *getattr(dataset.qrels, "refusals", {}).values()))
            raise click.UsageError(f"{self.corpus} has no labelled queries, and a simulation learns from them{refusal}")
        split = self.split or max(dataset.qrels, key=lambda name: len(dataset.qrels[name]))
        check_splits(dataset.qrels, (split, self.test))
        return split

    def load_stream(self, max_words: int | None, meter: Meter, stop_event: Event) -> StreamData:
        """Load and embed what a simulation needs: corpus, stream of labelled queries, and held-out queries.

        Raises UsageError or DataError. max_words: documents are cut to this length, None to leave them.
        """
        dataset = self.load(meter, check=self._choose_split)
        split = self._choose_split(dataset)
        # A question's plan splits it into hops, each of which becomes a query.
        hops = None
        if self.hops:
            # The plans stand beside the queries, which may come from a folder of judgements elsewhere.
            data = expand_plans(dataset, self.qrels if (Path(self.qrels) / QUESTIONS_FILE).is_file() else self.corpus)
            dataset, hops = data.dataset, data.hops
        if max_words is not None:
            # Vectors that came with the corpus are of full documents, so they are dropped.
            dataset = replace(dataset, corpus=shorten_documents(dataset.corpus, max_words), vectors=None)
        progress_options: dict[str, Any] = {"progress": meter, "stop": stop_event}
        space = embed_corpus(dataset, self, **progress_options)
        judged_queries = select_judged(dataset.queries, dataset.qrels, filter(None, (split, self.test)))
        queries = embed_and_warn(space, judged_queries, **progress_options)
        held_out_qrels = dataset.qrels[self.test] if self.test else None
        return StreamData(space=space, queries=queries, stream=dataset.qrels[split], held_out=held_out_qrels, hops=hops)


def search(stream: StreamOptions, k: int, as_json: bool, **texts: str | None) -> None:
    """Try learning rates and batch sizes on half of a stream of queries; confirm the best on the rest.

    texts: flags of the simulation's declared parameters. Raises UsageError if a flag contradicts what is tried.
    """
    use_threads()
    values = declared_values(texts)
    for name, tried_values in (("rate", stream.rates), ("batch", stream.batches)):
        # A single value and a list of values contradict each other.
        if name in values["preset"] and tried_values is not None:
            raise click.UsageError(f"--{name} and --{'rates' if name == 'rate' else 'batches'} both say what is tried")
    preset = values["preset"]
    # A rate or batch size of the preset's own flag is then the only one that is tried.
    rates = stream.rates or ((preset.pop("rate"),) if "rate" in preset else core.SEARCH_RATES)
    batches = stream.batches or ((preset.pop("batch"),) if "batch" in preset else core.SEARCH_BATCHES)
    with Meter() as meter, stop_on_interrupt() as stop_event:
        task = stream.load_stream(values["corpus"].get("words"), meter, stop_event)
        head_lines = [f"{'η₀':>8}  {'batch':>5}  {'updates':>7}  nDCG@{k}   gain"]

        def print_setting(tried: Any) -> None:
            """Print a row for a setting as soon as it was tried."""
            row = f"{tried.rate:>8.0e}  {tried.batch:>5}  {tried.updates:>7,}  {tried.after:.4f}  {tried.gain:>+.4f}"
            # The head is printed with the first setting, so that an error before it prints no table.
            for line in (*head_lines, row):
                meter.echo(line)
            head_lines.clear()

        search_result = core.search(
            task.space, task.queries, task.stream, preset=stream.preset, stream=values["stream"], plan=values["plan"],
            held_out=task.held_out, hops=task.hops, k=k, progress=meter, stop=stop_event,
            seen=None if as_json else print_setting, rates=rates, batches=batches, **stream.variant, **preset,
        )  # fmt: skip
    # Settings were printed as they ended; the summary follows.
    if as_json:
        echo_json(_result_json(search_result), allow_nan=False)
    else:
        echo_lines(_result_lines(search_result, k))


def _result_lines(search_result: Any, k: int) -> Iterator[str]:
    """Yield lines on a search for learning rate and batch size: the best, and its nDCG on the second half.

    The settings were compared on the first half of a stream of queries. A part is the set of queries that is measured:
    those of the stream, or those held out.
    """
    best, simulation = search_result.best, search_result.confirmed
    yield ""
    yield f"Best on the first half, by {search_result.part} queries: {format_setting(best)}, nDCG@{k} {best.gain:+.4f}"
    if search_result.is_at_end:
        yield "  the best rate is at the end of those tried: a better one may lie beyond (--rates)"
    n_rounds = len(simulation.trail)
    yield f"On the second half, {counted(n_rounds, 'round')} from the start, batch {best.batch}:"
    for part in ("held-out", "stream"):
        if (reached_means := search_result.find_outcome(part)) is not None:
            start_mean, end_mean = reached_means
            queries = counted(simulation.checkpoints[-1].cell(part=part).queries, f"{part} query", f"{part} queries")
            yield f"  {queries}: {start_mean:.4f} → {end_mean:.4f} ({end_mean - start_mean:+.4f})"


def _result_json(search_result: Any) -> dict[str, Any]:
    """Return a search for learning rate and batch size as plain JSON values.

    The settings were tried on the first half of a stream of queries. The best one's nDCG on the second half, before and
    after it learnt, is given for the stream's queries and for those held out.
    """
    reached_means = {}
    for part in ("held-out", "stream"):
        if (outcome := search_result.find_outcome(part)) is not None:
            start_mean, end_mean = outcome
            reached_means[part] = {"before": start_mean, "after": end_mean}
    return {
        "settings": [vars(setting) | {"gain": setting.gain} for setting in search_result.settings],
        "chosen_by": search_result.part,
        "best": vars(search_result.best),
        "at_the_end": search_result.is_at_end,
        "second_half": {"rounds": len(search_result.confirmed.trail), **reached_means},
    }
