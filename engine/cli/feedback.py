"""Commands of online learning: frontier orag simulate, replay, undo, report."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any

import click

from engine.cli.encoding import SOURCE, CorpusOptions, embed_corpus, embed_queries
from engine.cli.group import Meter, main, stop_on_interrupt, use_threads
from engine.cli.options import (
    SIZE,
    DeclaredCommand,
    check_splits,
    declared_flags,
    file_option,
    flag_values,
    json_option,
    make_stages,
    option,
    split_option,
    stages_option,
)
from engine.cli.output import echo, echo_json, echo_lines, echo_notices, echo_written, one_line, or_dash
from engine.cli.variants import VARIANT, VariantOptions
from engine.progress import counted

if TYPE_CHECKING:
    from engine.decoder import Decoder
    from engine.feedback import Session
    from engine.params import Param
    from engine.space import Space
    from engine.values import Dataset, Embeddings, Qrels

MEASURES = ("median", "q99", "churn", "confidence", "success", "hubs", "neighbourhood")
"""Drift measures of the timeline."""


@main.group()
def orag() -> None:
    """Feedback that moves the documents' vectors, and the drift it causes."""


def _declared() -> dict[str, Sequence[Param]]:
    """The declared parameters of a simulation, by what they are of."""
    from engine.data.degrade import WORDS
    from engine.feedback import Preset
    from engine.params import params_of
    from engine.simulation.feedback_model import Stream
    from engine.simulation.simulate import Plan

    return {"preset": params_of(Preset), "stream": params_of(Stream), "plan": params_of(Plan), "corpus": (WORDS,)}


def simulation_flags() -> list[click.Option]:
    """A flag a declared parameter of a simulation."""

    def describe(param: Param) -> str:
        symbol = "" if param.symbol == param.name else f"{param.symbol}, "
        source = f" ({param.source})" if param.source else ""
        return f"{param.help} {symbol}{param.domain}, default {param.text(param.default)}{source}."

    return [flag for kind, params in _declared().items() for flag in declared_flags(params, f"{kind}__", describe)]


def declared_values(texts: Mapping[str, str | None]) -> dict[str, Any]:
    """What these flags say: preset, a mapping; stream and plan, themselves; corpus, a mapping. Raises ParamError."""
    from engine.simulation.feedback_model import Stream
    from engine.simulation.simulate import Plan

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

    @classmethod
    def load(
        cls, source: CorpusOptions, split: str | None, test: str | None, words: int | None, variant: VariantOptions,
        meter: Meter, stop: Event,
    ) -> StreamData:  # fmt: skip
        """words: to which documents are cut."""
        from engine.data.degrade import shortened

        report: dict[str, Any] = {"progress": meter, "stop": stop}
        dataset, stream_split = _load_stream(source, split, test, meter)
        dataset, hops = variant.planned(dataset, source.corpus, source.qrels)
        if words is not None:
            dataset = replace(dataset, corpus=shortened(dataset.corpus, words), vectors=None)
        space = embed_corpus(dataset, source, **report)
        names = {query for name in (stream_split, test) if name for query in dataset.qrels[name].grades}
        return cls(
            space=space, queries=embed_queries(space, dataset.queries.only(names), **report),
            stream=dataset.qrels[stream_split], held_out=dataset.qrels[test] if test else None, hops=hops,
        )  # fmt: skip


LOG = click.argument("log", metavar="LOG")
JSON = json_option()
EXPORT = file_option("--export", "target", help="The adapted vectors: .npy, .npz or .parquet.")
SELECT = stages_option("select", "selectors", "Decoders that are looked at.")


def _decoders(selectors: Sequence[str]) -> list[Decoder]:
    from engine.decoder import Decoder

    return [Decoder(selector) for selector in make_stages(selectors, "select")]


@orag.command(cls=DeclaredCommand, flags=simulation_flags)
@SOURCE
@option("--preset", default="default", help="How it learns: default, careful or paper.")
@split_option("Whose judged queries are the stream; default: the largest.", default=None)
@split_option("A split that is only measured; default: a share of the stream's.", default=None, name="--test")
@VARIANT
@SELECT
@SIZE
@file_option("--file", "file", help="Kept up to date; the same command goes on from it.")
@file_option("--log", "log", help="Write the feedback as a log, for replay and report; .jsonl: as an export.")
@EXPORT
@JSON
def simulate(
    source: CorpusOptions,
    preset: str,
    split: str | None,
    test: str | None,
    variant: VariantOptions,
    selectors: tuple[str, ...],
    k: int,
    file: str | None,
    log: str | None,
    target: str | None,
    as_json: bool,
    **texts: str | None,
) -> None:
    """Learn from a stream of judged queries as if people answered, and measure what it does."""
    from engine import feedback as core
    from engine.simulation.simulate import simulate as run

    use_threads()
    values = declared_values(texts)
    _check_files(log, target, preset, values["preset"], values["plan"], variant)
    with Meter() as meter, stop_on_interrupt() as stop:
        task = StreamData.load(source, split, test, values["corpus"].get("words"), variant, meter, stop)
        simulation = run(
            task.space, task.queries, task.stream, preset=preset, stream=values["stream"], plan=values["plan"],
            held_out=task.held_out, decoders=_decoders(selectors), k=k, file=file, hops=task.hops, progress=meter,
            stop=stop, **variant.arguments, **values["preset"],
        )  # fmt: skip
    if log is not None:
        core.save(simulation.session(), log)
    if target is not None:
        core.export(simulation.session(), target)
    if as_json:
        echo_json(_simulation_json(simulation), allow_nan=False)
        return
    echo_lines(_simulation_lines(simulation, k, task.space))
    echo_written(filter(None, (log, target)))


def _check_files(
    log: str | None, target: str | None, preset: str, overrides: Mapping[str, Any], plan: Any, variant: VariantOptions
) -> None:
    """Raise a UsageError for files that cannot be written, before the simulation runs."""
    from engine.feedback.export import SUFFIXES
    from engine.feedback.presets import preset_of
    from engine.simulation.simulate import replayable
    from engine.simulation.variants import Deployment

    if target is not None and Path(target).suffix.lower() not in SUFFIXES:
        raise click.UsageError(f"--export must end in {', '.join(SUFFIXES)}; got {target!r}")
    if log is not None and Path(log).exists():
        raise click.UsageError(f"{log} exists; a simulation's log needs a file of its own")
    drawn = Deployment.of(variant.reranker, variant.candidates)
    if (log or target) and not replayable(plan, preset_of(preset, overrides), drawn):
        raise click.UsageError(
            "--log and --export need feedback that moves the chosen document alone: --mode chosen, no --reranker"
        )


def _load_stream(source: CorpusOptions, split: str | None, test: str | None, meter: Meter) -> tuple[Dataset, str]:
    """The data set, and the split of the stream, the largest where none is named."""
    dataset = source.load(meter)
    if not dataset.qrels:
        why = "; ".join(("", *getattr(dataset.qrels, "refused", {}).values()))
        raise click.UsageError(f"{source.corpus} has no judged queries, and a simulation learns from them{why}")
    stream_split = split or max(dataset.qrels, key=lambda name: len(dataset.qrels[name]))
    check_splits(dataset.qrels, (stream_split, test))
    return dataset, stream_split


@orag.command()
@LOG
@SOURCE
@option("--to", "to", metavar="N|NAME", help="As it was after N records, or at a snapshot.")
@EXPORT
@JSON
def replay(log: str, source: CorpusOptions, to: str | None, target: str | None, as_json: bool) -> None:
    """Fold a log over the corpus again: the documents as feedback left them."""
    from engine import feedback as core

    _, space = _load_space(source)
    started = time.perf_counter()
    session = _read_log(log, space)
    if to is not None:
        # A snapshot may have a number for a name.
        session = core.at(session, int(to) if to not in session.snapshots and re.fullmatch("[0-9]{1,18}", to) else to)
    moved = len(core.diff(core.at(session, 0), session).rows)
    milliseconds = 1000 * (time.perf_counter() - started)
    if target is not None:
        core.export(session, target)
    summary = _session_json(session)
    if as_json:
        echo_json(summary | {"moved": moved, "milliseconds": round(milliseconds, 3)}, allow_nan=False)
        return
    feedback = f"{counted(summary['feedback'], 'piece')} of feedback, {summary['counting']:,} of which count"
    documents = f"{counted(moved, 'document')} moved; {milliseconds:.0f} ms"
    echo(f"{counted(summary['records'], 'record')}: {feedback}; {documents}")
    preset, digest = summary["preset"], summary["digest"]
    echo(f"learns as {preset}, temperature {session.temperature:.4g}; fingerprint {digest[:12]}")
    echo_written(filter(None, (target,)))


@orag.command()
@LOG
@SOURCE
@click.argument("events", nargs=-1, metavar="[EVENT]…")
@option("--last", type=click.IntRange(1), metavar="N", help="The newest N that count.")
@JSON
def undo(log: str, source: CorpusOptions, events: tuple[str, ...], last: int | None, as_json: bool) -> None:
    """Take feedback back: the documents are as if it had not been given. The log keeps what happened."""
    from engine import feedback as core
    from engine.data.event_log import exists
    from engine.feedback.storage import EXPORT_SUFFIX

    if bool(events) == (last is not None):
        raise click.UsageError("give events by their id, or --last N")
    if not exists(Path(log)):
        raise click.UsageError(f"no such log: {log!r}")
    _, space = _load_space(source)
    opened = None if Path(log).suffix == EXPORT_SUFFIX else core.log(log, space)
    before, notices = core.load(log, space) if opened is None else (opened.session, opened.notices)
    echo_notices(notices)
    if last is not None:
        counting = [event.id for event in before.history if before.status(event.id) == "counts"]
        events = tuple(counting[-last:][::-1])
    for event in events:
        before.event(event)  # refuses an unknown one before anything is undone
    after = before
    for event in events:
        after = core.undo(after, event) if opened is None else opened.undo(event)
    if opened is None:
        core.save(after, log)
    moved = core.diff(before, after).rows
    summary = _session_json(after)
    if as_json:
        ids = [space.corpus.ids[row] for row in moved]
        echo_json({**summary, "undone": list(events), "moved": ids}, allow_nan=False)
        return
    echo(
        f"{counted(len(events), 'piece')} of feedback undone; {counted(len(moved), 'document')} moved back; "
        f"fingerprint {summary['digest'][:12]}"
    )


@orag.command()
@LOG
@SOURCE
@split_option("Whose queries are followed; default: the largest.", default=None)
@option("--points", default=10, help="At how many moments to look.")
@click.option("--query", "texts", multiple=True, help="What it is answered then and now; may be given more than once.")
@SELECT
@SIZE
@option("--events", "shown", default=10, help="How many of the newest events to list.")
@JSON
def report(
    log: str,
    source: CorpusOptions,
    split: str | None,
    points: int,
    texts: tuple[str, ...],
    selectors: tuple[str, ...],
    k: int,
    shown: int,
    as_json: bool,
) -> None:
    """What feedback did: drift along the log, what moved most, and answers then and now."""
    from engine.drift.round_metrics import adapted
    from engine.views import drift as views

    decoders = _decoders(selectors or ("top_k",))
    dataset, space = _load_space(source)
    session = _read_log(log, space)
    drifts = _drift_history(session, dataset, split, points)
    now = adapted(space, session.vectors)
    answers = [(text, answer) for text in texts for answer in views.then_and_now(space, now, decoders, text, k)]
    events = views.feedback(session, shown)
    if as_json:
        content = {
            "drift": [drift.as_json() | {"alarm": drift.alarm, "light": drift.light} for drift in drifts],
            "movers": [vars(mover) for mover in views.movers(drifts[-1], space, session.vectors)],
            "events": [vars(event) for event in events],
            "answers": [
                {"query": text, "decoder": a.label, "now": [r.id for r in a.rows], "dropped": [r.id for r in a.dropped]}
                for text, a in answers
            ],
        }
        echo_json({**_session_json(session), **content}, allow_nan=False)
        return
    echo_lines((*_timeline_lines(drifts), *_drift_lines(drifts[-1], space)))
    for text, answer in answers:
        echo(f"\n{one_line(text, 80)} · {answer.decoder}", bold=True)
        echo_lines(_answer_lines(answer))
    if shown and session.round:
        echo_lines(("\nNewest feedback:", *map(_event_line, events)))


def _drift_history(session: Session, dataset: Dataset, split: str | None, points: int) -> list[Any]:
    """Drift at so many moments, seen by the judged queries of a split, the largest where none is named."""
    from engine.drift.history import beginning, history, moments

    name = split or max(dataset.qrels, key=lambda name: len(dataset.qrels[name]), default=None)
    check_splits(dataset.qrels, (name,))
    probes = None
    with Meter() as meter:
        if name is not None and session.space.encoder is not None:
            probes = embed_queries(session.space, dataset.judged(name).sample(500), progress=meter)
        start = beginning(session, probes, dataset.qrels[name] if name is not None and probes is not None else None)
        return list(history(session, start, moments(session.position, points), progress=meter))


def _load_space(source: CorpusOptions) -> tuple[Dataset, Space]:
    use_threads()
    with Meter() as meter:
        return source.load_space(meter)


def _read_log(log: str, space: Space) -> Session:
    from engine import feedback as core
    from engine.data.event_log import exists

    if not exists(Path(log)):
        raise click.UsageError(f"no such log: {log!r}; `frontier orag simulate --log {log}` makes one")
    session, notices = core.load(log, space)
    echo_notices(notices)
    return session


def _simulation_lines(simulation: Any, k: int, space: Space) -> Iterator[str]:
    """A simulation's size, its rounds by decoder, its drift and its regret."""
    left = f", {simulation.left_out:,} without a right document left out" if simulation.left_out else ""
    queries = f"{counted(len(simulation.queries), 'query', 'queries')}{left}"
    yield (
        f"{counted(len(simulation.trail), 'round')} over {queries}; {counted(len(space), 'document')}, "
        f"temperature {simulation.begun.temperature:.4g}"
    )
    yield from _round_lines(simulation, k)
    yield from _exploration_lines(simulation)
    yield from _drift_lines(simulation.checkpoints[-1].drift, space)
    yield from _regret_lines(simulation)


def _round_lines(simulation: Any, k: int) -> Iterator[str]:
    """A table a decoder: nDCG of held-out queries, of the stream's and of the rare ones, by round."""
    from engine.drift.round_metrics import HELD_OUT, STREAM, TAIL, called

    first = simulation.checkpoints[0]
    part = HELD_OUT if first.cell(part=HELD_OUT) else STREAM
    decoders = simulation.decoders
    for label, name in zip([decoder.label for decoder in decoders], called(decoders), strict=True):
        yield ""
        yield f"{name}, {first.cell(label, part).queries:,} {part} queries:"
        yield f"  round  Recall@{k:<3} nDCG@{k:<4} ILAD@{k:<4} (space as it is)  tail nDCG  stream nDCG"
        for checkpoint in simulation.checkpoints:
            held_out, tail, stream = (checkpoint.cell(label, *where) for where in ((part,), (part, TAIL), (STREAM,)))
            mean = held_out.mean
            yield (
                f"{checkpoint.step:>7}  {mean['recall']:>9.4f}  {mean['ndcg']:>8.4f}  {mean['ilad']:>8.4f}  "
                f"{mean['ilad_now']:>16.4f}  {or_dash(tail.mean['ndcg'], 9)}  {or_dash(stream.mean['ndcg'], 11)}"
            )


def _exploration_lines(simulation: Any) -> Iterator[str]:
    """How often what was drawn is right, and the best of the scores would have been, between checkpoints."""
    from engine.views.exploration import exploration

    shown = exploration(simulation)
    if not shown.rows:
        return
    yield ""
    yield "  rounds         drawn is right  without exploring"
    for row in shown.rows:
        yield f"{row.first:>7,} – {row.last:<7,}  {or_dash(row.drawn, 12)}  {or_dash(row.top, 17)}"
    yield from shown.sentences


def _timeline_lines(drifts: Sequence[Any]) -> Iterator[str]:
    """Drift by step, and the meaning of each measure."""
    from engine.views.drift import timeline

    table = timeline(drifts)
    names = [name for name in MEASURES if name in table.columns]
    yield "   step  " + "  ".join(f"{name:>13}" for name in names) + "  light"
    for i, step in enumerate(table.steps):
        values = "  ".join(or_dash(table.columns[name][i], 13) for name in names)
        yield f"{step:>7}  {values}  {table.lights[i]}{'  hub alarm' if table.alarms[i] else ''}"
    yield ""
    for measure in table.measures:
        if measure.name in names:
            yield f"{measure.name}: {measure.meaning}"


def _drift_lines(drift: Any, space: Space) -> Iterator[str]:
    """Conclusions on drift, and the documents that moved most."""
    from engine.views.drift import conclusions

    yield ""
    yield from conclusions(drift)
    if drift.movers:
        movers = (f"{one_line(space.corpus.ids[row], 40)} {distance:.3f}" for row, distance in drift.movers)
        yield "Moved most: " + ", ".join(movers)


def _regret_lines(simulation: Any) -> Iterator[str]:
    """The regret of all rounds, and notes on it."""
    from engine.views.drift import regret

    curves = regret(simulation)
    if not curves.lines:
        return
    count = len(simulation.trail)
    yield ""
    yield f"Regret after {count:,} rounds, in nats a round: " + ", ".join(
        f"{column[-1] / count:.4f} {name}" for name, column in curves.lines.items()
    )
    if curves.rate is not None and curves.corollary is not None:
        yield f"Corollary 5.2 would have η = {curves.rate:.2g}, and promise {curves.corollary / count:.4g} a round"
    for note in curves.notes:
        yield f"  {note}"


def _answer_lines(answer: Any) -> Iterator[str]:
    """A query's documents now, and those that were dropped."""
    for row in answer.rows:
        scores = f"{answer.before[row.row]:>8.4f} → {row.relevance:.4f}"
        yield f"{row.rank:>3}  {row.mark:<7}  {scores}  {one_line(row.id, 60)}"
    for row in answer.dropped:
        yield f"     dropped, was {row.rank}: {one_line(row.id, 60)}"


def _event_line(event: Any) -> str:
    status = "" if event.status == "counts" else f"  ({event.status})"
    about = f"{one_line(event.document, 40)}, asked {one_line(event.query, 60)!r}"
    return f"  {event.id}  {event.said}: {about}{status}"


def _simulation_json(simulation: Any) -> dict[str, Any]:
    """A simulation as plain JSON values, without its rounds."""
    from engine.params import values_of
    from engine.views.drift import regret
    from engine.views.exploration import exploration

    curves = regret(simulation, 100)
    return {
        "preset": simulation.begun.preset.as_json(),
        "stream": values_of(simulation.stream),
        "plan": values_of(simulation.plan),
        "temperature": simulation.begun.temperature,
        "rounds": len(simulation.trail),
        "queries": len(simulation.queries),
        "left_out": simulation.left_out,
        **simulation.variant.settings(),
        "exploration": exploration(simulation).as_json(),
        "checkpoints": [c.as_json() | {"alarm": c.drift.alarm, "light": c.drift.light} for c in simulation.checkpoints],
        "regret": {"steps": curves.steps, **curves.lines, "notes": curves.notes, "rate": curves.rate},
        "digest": simulation.embeddings().digest,
    }


def _session_json(session: Session) -> dict[str, Any]:
    """A session as plain JSON values, without its log."""
    return {
        "preset": session.preset.name,
        "temperature": session.temperature,
        "records": session.position,
        "feedback": len(session.history),
        "counting": len(session.counting),
        "snapshots": session.snapshots,
        "digest": session.embeddings().digest,
    }
