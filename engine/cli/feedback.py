"""Commands of online learning: frontier orag simulate, replay, undo, report."""

import re
import time
from collections.abc import Iterator, Sequence
from operator import itemgetter
from pathlib import Path
from typing import Any

import click

from engine import feedback as core
from engine.cli.group import Meter, stop_on_interrupt, use_threads
from engine.cli.inputs import CorpusOptions, check_splits, embed_and_warn, embed_corpus, make_stages
from engine.cli.output import echo, echo_json, echo_lines, echo_notices, format_columns, one_line, or_dash, read_column
from engine.cli.simulation import StreamOptions, declared_values
from engine.data.event_log import log_exists
from engine.decoder import Decoder
from engine.drift.history import beginning, history, moments
from engine.drift.round_metrics import HELD_OUT, STREAM, TAIL, adapted, called
from engine.feedback import Session
from engine.feedback.export import VECTOR_FILE_SUFFIXES
from engine.feedback.presets import resolve_preset
from engine.feedback.vote_log import EXPORT_SUFFIX
from engine.params import values_of
from engine.progress import counted
from engine.simulation.simulate import is_replayable
from engine.simulation.simulate import simulate as run
from engine.simulation.variants import Deployment
from engine.space import Space
from engine.values import Dataset
from engine.views import drift as views
from engine.views.drift import conclusions, regret, timeline
from engine.views.exploration import exploration

TIMELINE_MEASURES = ("median", "q99", "churn", "confidence", "success", "hubs", "neighbourhood")
"""Drift measures of the timeline."""


def _build_decoders(selectors: Sequence[str]) -> list[Decoder]:
    """Build a decoder over the whole corpus for each selector that a text of --select names."""
    return list(map(Decoder, make_stages(selectors, "select")))


def simulate(
    stream: StreamOptions,
    selectors: tuple[str, ...],
    k: int,
    file: str | None,
    log: str | None,
    target: str | None,
    as_json: bool,
    **texts: str | None,
) -> None:
    """Simulate feedback on a stream of judged queries; print the results, and write log and vectors.

    log: a new file for the events; target: a file for the vectors that they have moved; selectors, k: the decoders
    whose answers are measured; texts: flags of the simulation's parameters. Raises UsageError if they do not fit.
    """
    use_threads()
    values = declared_values(texts)
    plan, preset = values["plan"], values["preset"]
    if target is not None and Path(target).suffix.lower() not in VECTOR_FILE_SUFFIXES:
        raise click.UsageError(f"--export must end in {', '.join(VECTOR_FILE_SUFFIXES)}; got {target!r}")
    # A log is append-only: a simulation never adds to one that exists.
    if log is not None and Path(log).exists():
        raise click.UsageError(f"{log} exists; a simulation's log needs a file of its own")
    deployment = Deployment.build(stream.reranker, stream.candidates)
    # A log holds one event for one chosen document; other simulations cannot be written as such a log.
    if (log or target) and not is_replayable(plan, resolve_preset(stream.preset, preset), deployment):
        raise click.UsageError(
            "--log and --export need feedback that moves the chosen document alone: --mode chosen, no --reranker"
        )
    with Meter() as meter, stop_on_interrupt() as stop_event:
        task = stream.load_stream(values["corpus"].get("words"), meter, stop_event)
        simulation = run(
            task.space, task.queries, task.stream, preset=stream.preset, stream=values["stream"], plan=plan,
            held_out=task.held_out, decoders=_build_decoders(selectors), k=k, file=file, hops=task.hops, progress=meter,
            stop=stop_event, **stream.variant, **preset,
        )  # fmt: skip
    if log is not None:
        core.save(simulation.session(), log)
    if target is not None:
        core.export(simulation.session(), target)
    if as_json:
        return echo_json(_simulation_json(simulation), allow_nan=False)
    echo_lines(_simulation_lines(simulation, k, task.space))
    echo_lines(map("written: {}".format, filter(None, (log, target))))


def replay(log: str, source: CorpusOptions, to: str | None, target: str | None, as_json: bool) -> None:
    """Read a log of feedback and apply it to the corpus's vectors; print its size, and write the vectors.

    to: the number of records after which to stop, or the name of a snapshot in the log; None for the end.
    """
    _, space = _load_space(source)
    start_time = time.perf_counter()
    session = _read_log(log, space)
    if to is not None:
        # A snapshot may have a number for a name.
        session = core.at(session, int(to) if to not in session.snapshots and re.fullmatch("[0-9]{1,18}", to) else to)
    # The time covers reading, folding and comparing, not the embedding of the corpus.
    # Position 0 is the state before any feedback.
    n_moved = len(core.diff(core.at(session, 0), session).rows)
    milliseconds = 1000 * (time.perf_counter() - start_time)
    if target is not None:
        core.export(session, target)
    summary = _session_json(session)
    if as_json:
        return echo_json(summary | {"moved": n_moved, "milliseconds": round(milliseconds, 3)}, allow_nan=False)
    feedback_text = f"{counted(summary['feedback'], 'vote')}, {summary['counting']:,} of which count"
    documents_text = f"{counted(n_moved, 'document')} moved; {milliseconds:.0f} ms"
    echo(f"{counted(summary['records'], 'record')}: {feedback_text}; {documents_text}")
    preset, fingerprint = summary["preset"], summary["digest"]
    echo(f"learns as {preset}, temperature {session.temperature:.4g}; fingerprint {fingerprint[:12]}")
    if target:
        echo(f"written: {target}")


def undo(log: str, source: CorpusOptions, events: tuple[str, ...], last: int | None, as_json: bool) -> None:
    """Undo some events of a feedback log, or the last ones, and print the documents that moved back."""
    if bool(events) == (last is not None):
        raise click.UsageError("give events by their id, or --last N")
    if not log_exists(Path(log)):
        raise click.UsageError(f"no such log: {log!r}")
    _, space = _load_space(source)
    # An exported log is one file that is rewritten; a live log is append-only and takes an undo event.
    open_log = None if Path(log).suffix == EXPORT_SUFFIX else core.log(log, space)
    old_session, notices = core.load(log, space) if open_log is None else (open_log.session, open_log.notices)
    echo_notices(notices)
    # The newest events that still count, the newest of them first.
    if last is not None:
        counting_ids = [event_id.id for event_id in old_session.history if old_session.status(event_id.id) == "counts"]
        events = tuple(counting_ids[-last:][::-1])
    for event_id in events:
        old_session.event(event_id)  # refuses an unknown one before anything is undone
    # Every undo is a new record: the log itself never loses one.
    new_session = old_session
    for event_id in events:
        new_session = core.undo(new_session, event_id) if open_log is None else open_log.undo(event_id)
    if open_log is None:
        core.save(new_session, log)
    moved_rows = core.diff(old_session, new_session).rows
    summary = _session_json(new_session)
    if as_json:
        moved_ids = [space.corpus.ids[row_index] for row_index in moved_rows]
        return echo_json({**summary, "undone": list(events), "moved": moved_ids}, allow_nan=False)
    echo(
        f"{counted(len(events), 'vote')} undone; {counted(len(moved_rows), 'document')} moved back; "
        f"fingerprint {summary['digest'][:12]}"
    )


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
    """Report on a log of feedback: drift of the vectors, newest feedback, and answers now and before.

    Drift is how far feedback has moved the vectors. split: of the queries that measure it; points: number of positions
    in the log at which it is measured; texts: queries that are answered; shown: number of events that are printed.
    """
    decoders = _build_decoders(selectors or ("top_k",))
    dataset, space = _load_space(source)
    session = _read_log(log, space)
    drifts = _drift_history(session, dataset, split, points)
    # The corpus with the vectors that the feedback has moved.
    now = adapted(space, session.vectors)
    answers = [(text, answer) for text in texts for answer in views.then_and_now(space, now, decoders, text, k)]
    events = views.feedback(session, shown)
    # JSON has all the fields; the text shows the documents that moved most.
    if as_json:
        answer_rows = []
        for text, answer in answers:
            now_ids, dropped_ids = read_column(answer.rows, "id"), read_column(answer.dropped, "id")
            answer_rows.append({"query": text, "decoder": answer.label, "now": now_ids, "dropped": dropped_ids})
        report_fields = {
            "drift": [drift.as_json() | {"alarm": drift.alarm, "light": drift.light} for drift in drifts],
            "movers": list(map(vars, views.movers(drifts[-1], space, session.vectors))),
            "events": list(map(vars, events)),
            "answers": answer_rows,
        }
        return echo_json({**_session_json(session), **report_fields}, allow_nan=False)
    echo_lines((*_timeline_lines(drifts), *_drift_lines(drifts[-1], space)))
    for text, answer in answers:
        echo(f"\n{one_line(text, 80)} · {answer.decoder}", bold=True)
        echo_lines(_answer_lines(answer))
    if shown and session.round:
        echo("\nNewest votes:")
        for event in events:
            about = f"{one_line(event.document, 40)}, asked {one_line(event.query, 60)!r}"
            echo(f"  {event.id}  {event.said}: {about}" + ("" if event.status == "counts" else f"  ({event.status})"))


def _drift_history(session: Session, dataset: Dataset, split_choice: str | None, n_moments: int) -> list[Any]:
    """Measure how far feedback had moved the vectors at evenly spaced positions in its log.

    split_choice: the split of the probes, judged queries whose answers at each position are compared with those at the
    start; by default the largest split; n_moments: number of positions after the start
    """
    name = split_choice or max(dataset.qrels, key=lambda name: len(dataset.qrels[name]), default=None)
    check_splits(dataset.qrels, (name,))
    probes = None
    with Meter() as meter:
        # Precomputed vectors have no encoder: drift is then measured without probe queries.
        if name is not None and session.space.encoder is not None:
            probes = embed_and_warn(session.space, dataset.judged(name).sample(500), progress=meter)
        start = beginning(session, probes, dataset.qrels[name] if name is not None and probes is not None else None)
        return list(history(session, start, moments(session.position, n_moments), progress=meter))


def _load_space(source: CorpusOptions) -> tuple[Dataset, Space]:
    """Load the corpus of the flags and embed it."""
    use_threads()
    with Meter() as meter:
        dataset = source.load(meter)
        return dataset, embed_corpus(dataset, source, progress=meter)


def _read_log(file: str, space: Space) -> Session:
    """Read a feedback log as a feedback session, vectors as its events moved them; print its notices.

    Raises UsageError if there is no such file.
    """
    if not log_exists(Path(file)):
        raise click.UsageError(f"no such log: {file!r}; `frontier orag simulate --log {file}` makes one")
    session, notices = core.load(file, space)
    echo_notices(notices)
    return session


def _simulation_lines(simulation: Any, k: int, space: Space) -> Iterator[str]:
    """Yield the lines of a simulation's report: its size, metrics by decoder, drift and regret.

    A round is one query of the stream. Metrics are measured at checkpoints, some of the rounds.
    """
    skipped_text = f", {simulation.left_out:,} without a right document left out" if simulation.left_out else ""
    queries_text = f"{counted(len(simulation.queries), 'query', 'queries')}{skipped_text}"
    yield (
        f"{counted(len(simulation.trail), 'round')} over {queries_text}; {counted(len(space), 'document')}, "
        f"temperature {simulation.begun.temperature:.4g}"
    )
    # Without held-out queries only the stream itself can be measured.
    first_checkpoint = simulation.checkpoints[0]
    part = HELD_OUT if first_checkpoint.cell(part=HELD_OUT) else STREAM
    decoders = simulation.decoders
    for label, column_name in zip(read_column(decoders, "label"), called(decoders), strict=True):
        yield ""
        yield f"{column_name}, {first_checkpoint.cell(label, part).queries:,} {part} queries:"
        rows = [["round", f"Recall@{k}", f"nDCG@{k}", f"ILAD@{k}", "(space as it is)", "tail nDCG", "stream nDCG"]]
        for checkpoint in simulation.checkpoints:
            cell, tail, stream = (checkpoint.cell(label, *keys) for keys in ((part,), (part, TAIL), (STREAM,)))
            mean_values = itemgetter("recall", "ndcg", "ilad", "ilad_now")(cell.mean)
            row_values = (*mean_values, tail.mean["ndcg"], stream.mean["ndcg"])
            rows.append([str(checkpoint.step), *map(or_dash, row_values)])
        yield format_columns(rows, "r")
    yield from _exploration_lines(simulation)
    yield from _drift_lines(simulation.checkpoints[-1].drift, space)
    yield from _regret_lines(simulation)


def _exploration_lines(simulation: Any) -> Iterator[str]:
    """Yield a table of what exploring costs: how often shown documents, and top ones, were relevant.

    To explore, a simulation shows a document drawn at random instead of the top one. Each row counts the rounds between
    two checkpoints; the difference of the two numbers is the cost.
    """
    exploration_view = exploration(simulation)
    if not exploration_view.rows:
        return
    yield ""
    rows = [(f"{row.first:,} – {row.last:,}", or_dash(row.drawn), or_dash(row.top)) for row in exploration_view.rows]
    yield format_columns([("rounds", "drawn is right", "without exploring"), *rows], "r")
    yield from exploration_view.sentences


def _timeline_lines(drifts: Sequence[Any]) -> Iterator[str]:
    """Yield a table of how far feedback had moved the vectors (drift), then the meaning of each measure.

    A row is a step, a number of records in the log; its light, green, amber or red, judges the drift there.
    """
    drift_table = timeline(drifts)
    # Measures without values in this history are left out of the table.
    names = [name for name in TIMELINE_MEASURES if name in drift_table.columns]
    table_rows = [["step", *names, "light"]]
    for step_index, step in enumerate(drift_table.steps):
        light_text = f"{drift_table.lights[step_index]}{'  hub alarm' if drift_table.alarms[step_index] else ''}"
        table_rows.append([str(step), *(or_dash(drift_table.columns[name][step_index]) for name in names), light_text])
    yield format_columns(table_rows, "r" * (len(names) + 1) + "l")
    yield ""
    for measure in drift_table.measures:
        if measure.name in names:
            yield f"{measure.name}: {measure.meaning}"


def _drift_lines(drift: Any, space: Space) -> Iterator[str]:
    """Yield conclusions on how far feedback moved the vectors (drift), and the documents moved most."""
    yield ""
    yield from conclusions(drift)
    if drift.movers:
        movers = (f"{one_line(space.corpus.ids[row_index], 40)} {distance:.3f}" for row_index, distance in drift.movers)
        yield "Moved most: " + ", ".join(movers)


def _regret_lines(simulation: Any) -> Iterator[str]:
    """Yield the mean regret of a round of simulated feedback, and the bound that theory promises for it.

    Regret is the loss beyond that of a learner with full information, or of the best fixed vectors in hindsight. The
    bound is Corollary 5.2 of the paper Online-Optimized RAG; η is the learning rate.
    """
    curves = regret(simulation)
    if not curves.lines:
        return
    n_rounds = len(simulation.trail)
    yield ""
    yield f"Regret after {n_rounds:,} rounds, in nats a round: " + ", ".join(
        f"{regret_column[-1] / n_rounds:.4f} {curve_name}" for curve_name, regret_column in curves.lines.items()
    )
    if curves.rate is not None and curves.corollary is not None:
        yield f"Corollary 5.2 would have η = {curves.rate:.2g}, and promise {curves.corollary / n_rounds:.4g} a round"
    for regret_note in curves.notes:
        yield f"  {regret_note}"


def _answer_lines(answer_view: Any) -> Iterator[str]:
    """Yield a query's documents as they rank now, with relevance before and after the feedback.

    Documents that the feedback has pushed out of the answer come last.
    """
    table_rows = [
        (str(row.rank), row.mark, f"{answer_view.before[row.row]:.4f} → {row.relevance:.4f}", one_line(row.id, 60))
        for row in answer_view.rows
    ]
    if table_rows:
        yield format_columns(table_rows, "rlrl")
    for row in answer_view.dropped:
        yield f"     dropped, was {row.rank}: {one_line(row.id, 60)}"


def _simulation_json(simulation: Any) -> dict[str, Any]:
    """Return a simulation as plain JSON values, without its rounds."""
    # At most 100 points of each curve, however many rounds there were.
    curves = regret(simulation, 100)
    return {
        "preset": simulation.begun.preset.as_json(),
        "stream": values_of(simulation.stream),
        "plan": values_of(simulation.plan),
        "temperature": simulation.begun.temperature,
        "rounds": len(simulation.trail),
        "queries": len(simulation.queries),
        "left_out": simulation.left_out,
        **simulation.variant.list_settings(),
        "exploration": exploration(simulation).as_json(),
        "checkpoints": [c.as_json() | {"alarm": c.drift.alarm, "light": c.drift.light} for c in simulation.checkpoints],
        "regret": {"steps": curves.steps, **curves.lines, "notes": curves.notes, "rate": curves.rate},
        "digest": simulation.embeddings().digest,
    }


def _session_json(session: Session) -> dict[str, Any]:
    """Return the size and the state of a feedback session as plain JSON values, without its events."""
    return {
        "preset": session.preset.name,
        "temperature": session.temperature,
        "records": session.position,
        "feedback": len(session.history),
        "counting": len(session.effective_events),
        "snapshots": session.snapshots,
        "digest": session.embeddings().digest,
    }
