"""Commands of online learning: frontier orag simulate, replay, undo, report."""

from __future__ import annotations

import json
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from engine.cli import CORPUS, QRELS, Meter, _counted, _one_line, main, use_threads
from engine.cli_encoding import ENCODING, Encoding, asked_of, embedded
from engine.cli_evaluation import setting
from engine.cli_orag_text import (
    checkpoint_lines,
    drift_lines,
    regret_lines,
    session_json,
    simulated_json,
    timeline_lines,
)


@main.group()
def orag() -> None:
    """Feedback that moves the documents' vectors, and the drift it causes."""


class FromDeclarations(click.Command):
    """A command whose flags are made, when it is first needed, from what a simulation declares."""

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        made = [
            click.Option([param.flag, f"{kind}__{param.name}"], default=None, metavar="VALUE", help=_told(param))
            for kind, params in _declared().items()
            for param in params
        ]
        return [*super().get_params(ctx), *made]


def _declared() -> dict[str, Sequence[Any]]:
    """What is declared, by what it is of."""
    from engine.data.degrade import WORDS
    from engine.learning.orag import Preset
    from engine.learning.simulation import Plan
    from engine.learning.streams import Stream
    from engine.params import params_of

    return {"preset": params_of(Preset), "stream": params_of(Stream), "plan": params_of(Plan), "corpus": (WORDS,)}


def _told(param: Any) -> str:
    symbol = "" if param.symbol == param.name else f"{param.symbol}, "
    source = f" ({param.source})" if param.source else ""
    return f"{param.help} {symbol}{param.domain}, default {param.text(param.default)}{source}."


def _given(given: dict[str, str | None], kind: str) -> dict[str, Any]:
    """The values of one kind's flags that were given."""
    from engine.params import parsed

    start = f"{kind}__"
    texts = {name[len(start) :]: v for name, v in given.items() if name.startswith(start) and v is not None}
    return parsed(_declared()[kind], texts, kind)


def of_a_log(command: Any) -> Any:
    """The argument and the options of a command on a log."""
    for option in reversed((click.argument("log", metavar="LOG"), CORPUS, QRELS, ENCODING)):
        command = option(command)
    return command


JSON = click.option("--json", "as_json", is_flag=True, help="One JSON object.")
SELECT = click.option(
    "--select", "selectors", multiple=True, metavar="NAME[:PARAM=VALUE,…]", help="Decoders that are looked at."
)


@orag.command(cls=FromDeclarations)
@CORPUS
@QRELS
@click.option("--preset", default="default", show_default=True, help="How it learns: default, careful or paper.")
@click.option("--split", default=None, help="Whose judged queries are the stream; default: the largest.")
@click.option("--test", default=None, help="A split that is only measured; default: a share of the stream's.")
@SELECT
@click.option("-k", "k", default="10", show_default=True, help="How many documents a query gets.")
@click.option("--file", "file", default=None, metavar="FILE", help="Kept up to date; the same command goes on from it.")
@click.option("--log", "log", default=None, metavar="FILE", help="Write the feedback as a log, for replay and report.")
@click.option("--export", "target", default=None, metavar="FILE", help="The adapted vectors: .npy, .npz or .parquet.")
@ENCODING
@JSON
def simulate(
    corpus: str,
    qrels: str,
    preset: str,
    split: str | None,
    test: str | None,
    selectors: tuple[str, ...],
    k: str,
    file: str | None,
    log: str | None,
    target: str | None,
    encoding: Encoding,
    as_json: bool,
    **given: str | None,
) -> None:
    """Learn from a stream of judged queries as if people answered, and measure what it does."""
    import engine
    from engine.data.degrade import shortened
    from engine.decoder import SET_SIZE
    from engine.learning import orag as core
    from engine.learning.orag.export import SUFFIXES
    from engine.learning.orag.presets import preset_of
    from engine.learning.simulation import Plan
    from engine.learning.simulation import simulate as run
    from engine.learning.streams import Stream

    use_threads()
    overrides, stream, plan = _given(given, "preset"), Stream(**_given(given, "stream")), Plan(**_given(given, "plan"))
    words = _given(given, "corpus").get("words")
    decoders = [engine.Decoder(engine.make(name, **fixed)) for name, fixed in map(setting, selectors)]
    size = SET_SIZE.parse(k)
    if target is not None and Path(target).suffix.lower() not in SUFFIXES:
        raise click.UsageError(f"--export must end in {', '.join(SUFFIXES)}; got {target!r}")
    if log is not None and Path(log).exists():
        raise click.UsageError(f"{log} exists; a simulation's log needs a file of its own")
    if (log or target) and (preset_of(preset, overrides).mode != "chosen" or plan.learner != "feedback"):
        raise click.UsageError("--log and --export need feedback that moves the chosen document: --mode chosen")
    with Meter() as meter, _stopping() as stop:
        report = {"progress": meter, "stop": stop}
        dataset = engine.load_dataset(corpus, qrels=qrels, progress=meter)
        if not dataset.qrels:
            raise click.UsageError(f"{corpus} has no judged queries, and a simulation learns from them")
        stream_split = split or max(dataset.qrels, key=lambda s: len(dataset.qrels[s]))
        if missing := [s for s in (stream_split, test) if s is not None and s not in dataset.qrels]:
            raise click.UsageError(f"no split {missing[0]!r}; there are {', '.join(dataset.qrels)}")
        if words is not None:
            dataset = replace(dataset, corpus=shortened(dataset.corpus, words), vectors=None)
        space = embedded(dataset, encoding, **report)
        names = {q for s in (stream_split, test) if s for q in dataset.qrels[s].grades}
        queries = asked_of(space, dataset.queries.only(names), **report)
        found = run(
            space, queries, dataset.qrels[stream_split], preset=preset, stream=stream, plan=plan,
            held_out=dataset.qrels[test] if test else None, decoders=decoders, k=size, file=file, progress=meter,
            stop=stop, **overrides,
        )  # fmt: skip
        meter.clear()
    if log is not None:
        core.save(found.session(), log)
    if target is not None:
        core.export(found.session(), target)
    if as_json:
        _say(simulated_json(found))
        return
    asked, left = _counted(len(found.queries), "query", "queries"), ""
    if found.left_out:
        left = f", {found.left_out:,} without a right document left out"
    click.echo(
        f"{_counted(len(found.trail), 'round', 'rounds')} over {asked}{left}; "
        f"{_counted(len(space), 'document', 'documents')}, temperature {found.begun.temperature:.4g}"
    )
    for line in (
        *checkpoint_lines(found, size),
        *drift_lines(found.checkpoints[-1].drift, space),
        *regret_lines(found),
    ):
        click.echo(line)
    for written in filter(None, (log, target)):
        click.echo(f"written: {written}")


@orag.command()
@of_a_log
@click.option("--to", "to", default=None, metavar="N|NAME", help="As it was after N records, or at a snapshot.")
@click.option("--export", "target", default=None, metavar="FILE", help="The adapted vectors: .npy, .npz or .parquet.")
@JSON
def replay(log: str, to: str | None, target: str | None, as_json: bool, **where: Any) -> None:
    """Fold a log over the corpus again: the documents as feedback left them."""
    from engine.learning import orag as core

    _, space = _loaded(**where)
    started = time.perf_counter()
    session = _read(log, space)
    if to is not None:
        # A snapshot may have a number for a name.
        session = core.at(session, int(to) if to not in session.snapshots and _number(to) else to)
    moved = len(core.diff(core.at(session, 0), session).rows)
    seconds = time.perf_counter() - started
    if target is not None:
        core.export(session, target)
    told = session_json(session) | {"moved": moved, "milliseconds": round(1000 * seconds, 3)}
    if as_json:
        _say(told)
        return
    given = f"{_counted(told['feedback'], 'piece', 'pieces')} of feedback, {told['counting']:,} of which count"
    there = f"{_counted(moved, 'document', 'documents')} moved; {1000 * seconds:.0f} ms"
    click.echo(f"{_counted(told['records'], 'record', 'records')}: {given}; {there}")
    click.echo(f"learns as {told['preset']}, temperature {session.temperature:.4g}; fingerprint {told['digest'][:12]}")
    if target is not None:
        click.echo(f"written: {target}")


@orag.command()
@of_a_log
@click.argument("events", nargs=-1, metavar="[EVENT]…")
@click.option("--last", type=click.IntRange(1), default=None, metavar="N", help="The newest N that count.")
@JSON
def undo(log: str, events: tuple[str, ...], last: int | None, as_json: bool, **where: Any) -> None:
    """Take feedback back: the documents are as if it had not been given. The log keeps what happened."""
    from engine.learning import orag as core

    if bool(events) == (last is not None):
        raise click.UsageError("give events by their id, or --last N")
    if not Path(log).is_file():
        raise click.UsageError(f"no such log: {log!r}")
    _, space = _loaded(**where)
    opened = core.log(log, space)
    for notice in opened.notices:
        click.echo(f"note: {notice}", err=True)
    before = opened.session
    if last is not None:
        counting = [e.id for e in before.history if before.status(e.id) == "counts"]
        events = tuple(counting[-last:][::-1])
    for event in events:
        before.event(event)  # before anything is undone, all of them must be there
    after = before
    for event in events:
        after = opened.undo(event)
    moved = core.diff(before, after).rows
    if as_json:
        ids = [space.corpus.ids[row] for row in moved]
        _say({**session_json(after), "undone": list(events), "moved": ids})
        return
    click.echo(
        f"{_counted(len(events), 'piece', 'pieces')} of feedback undone; "
        f"{_counted(len(moved), 'document', 'documents')} moved back; "
        f"fingerprint {session_json(after)['digest'][:12]}"
    )


@orag.command()
@of_a_log
@click.option("--split", default=None, help="Whose queries are followed; default: the largest.")
@click.option("--points", default=10, show_default=True, help="At how many moments to look.")
@click.option("--query", "texts", multiple=True, help="What it is answered then and now; may be given more than once.")
@SELECT
@click.option("-k", "k", default="10", show_default=True, help="How many documents a query gets.")
@click.option("--events", "shown", default=10, show_default=True, help="How many of the newest events to list.")
@JSON
def report(
    log: str,
    split: str | None,
    points: int,
    texts: tuple[str, ...],
    selectors: tuple[str, ...],
    k: str,
    shown: int,
    as_json: bool,
    **where: Any,
) -> None:
    """What feedback did: drift along the log, what moved most, and answers then and now."""
    import engine
    from engine.decoder import SET_SIZE
    from engine.learning.checkpoints import adapted
    from engine.learning.history import beginning, history, moments
    from engine.views import drift as views

    size = SET_SIZE.parse(k)
    decoders = [engine.Decoder(engine.make(name, **fixed)) for name, fixed in map(setting, selectors or ("top_k",))]
    dataset, space = _loaded(**where)
    session = _read(log, space)
    chosen = split or max(dataset.qrels, key=lambda s: len(dataset.qrels[s]), default=None)
    if chosen is not None and chosen not in dataset.qrels:
        raise click.UsageError(f"no split {chosen!r}; there are {', '.join(dataset.qrels) or 'none'}")
    probes = None
    with Meter() as meter:
        if chosen is not None and space.encoder is not None:
            probes = asked_of(space, dataset.judged(chosen).sample(500), progress=meter)
        start = beginning(session, probes, dataset.qrels[chosen] if probes is not None else None)
        drifts = history(session, start, moments(session.position, points), progress=meter)
        meter.clear()
        now = adapted(space, session.vectors)
        answers = [(text, views.then_and_now(space, now, decoders, text, size)) for text in texts]
    if as_json:
        told = {
            "drift": [d.as_json() | {"alarm": d.alarm, "light": d.light} for d in drifts],
            "movers": [vars(m) for m in views.movers(drifts[-1], space, session.vectors)],
            "events": [vars(entry) for entry in views.feedback(session, shown)],
            "answers": [
                {"query": text, "decoder": a.label, "now": [r.id for r in a.rows], "dropped": [r.id for r in a.dropped]}
                for text, found in answers
                for a in found
            ],
        }
        _say({**session_json(session), **told})
        return
    for line in (*timeline_lines(drifts), *drift_lines(drifts[-1], space)):
        click.echo(line)
    for text, found in answers:
        for answer in found:
            click.echo(click.style(f"\n{_one_line(text, 80)} · {answer.decoder}", bold=True))
            for row in answer.rows:
                scores = f"{answer.before[row.row]:>8.4f} → {row.relevance:.4f}"
                click.echo(f"{row.rank:>3}  {row.mark:<7}  {scores}  {_one_line(row.id, 60)}")
            for row in answer.dropped:
                click.echo(f"     dropped, was {row.rank}: {_one_line(row.id, 60)}")
    if shown and session.round:
        click.echo("\nNewest feedback:")
        for entry in views.feedback(session, shown):
            status = "" if entry.status == "counts" else f"  ({entry.status})"
            about = f"{_one_line(entry.document, 40)}, asked {_one_line(entry.query, 60)!r}"
            click.echo(f"  {entry.id}  {entry.said}: {about}{status}")


def _loaded(corpus: str, qrels: str, encoding: Encoding) -> tuple[Any, Any]:
    """The data set and its space."""
    import engine

    use_threads()
    with Meter() as meter:
        dataset = engine.load_dataset(corpus, qrels=qrels, progress=meter)
        return dataset, embedded(dataset, encoding, progress=meter)


def _read(log: str, space: Any) -> Any:
    """The session that a log holds."""
    from engine.learning import orag as core

    if not Path(log).is_file():
        raise click.UsageError(f"no such log: {log!r}; `frontier orag simulate --log {log}` makes one")
    session, notices = core.load(log, space)
    for notice in notices:
        click.echo(f"note: {notice}", err=True)
    return session


def _number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) < 19


def _say(told: dict[str, Any]) -> None:
    from engine.values import showable

    click.echo(showable(json.dumps(told, ensure_ascii=False, allow_nan=False)))


@contextmanager
def _stopping() -> Iterator[threading.Event]:
    """An event that Ctrl-C sets, so that work ends between two steps; a second Ctrl-C ends it at once."""
    stop = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return

    def heard(*_: Any) -> None:
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()

    before = signal.signal(signal.SIGINT, heard)
    try:
        yield stop
    finally:
        signal.signal(signal.SIGINT, before)
